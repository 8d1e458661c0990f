/* tape.c -- a list of entries, one per node in topological order: forward goes through
 * it from the first to the last, backward in reverse.
 *
 * An entry keeps what backward needs of the last forward: the rounded arguments, the
 * results before rounding, and x before each rounding.  The gradient of a value is
 * complete when backward reaches its producer, since all its readers are behind it; a
 * value that several nodes read has their gradients added.
 *
 * `wanted` prunes backward: a value that depends on no weight, learned step or input of
 * the part gets no gradient, and its producer needs none.
 *
 * Memory   arena: the tape; pass: activations and gradients, reset by each forward;
 *          scratch: of one node */
#include "engine/learn/tape.h"

#include <math.h>
#include <string.h>

#include "engine/core/vec.h"
#include "engine/ir/infer.h"
#include "engine/learn/drop.h"
#include "engine/quant/endpoint.h"

/* An endpoint that rounds. */
typedef struct rounding {
    const qg_tqc *tqc;     /* NULL: does not round */
    uint32_t step;         /* in tape->step */
    const qg_tensor *x;    /* before rounding, of the last forward */
    const uint64_t *drawn; /* elements that were not rounded (drop.h); NULL: none */
} rounding;

/* A value of the graph, as far as the tape knows it. */
typedef struct slot {
    const qg_tensor *now; /* constant, input or result; NULL: not of this tape */
    qg_tensor *grad;      /* of the last backward; NULL: none arrived yet */
    uint32_t weight;      /* in tape->weight; QG_NONE */
    bool wanted;          /* depends on a weight, a learned step or an input */
} slot;

/* One node of the part. */
typedef struct entry {
    const qg_node *node;
    rounding *in, *out;    /* [n_in], [n_out] */
    const qg_tensor **arg; /* [n_in] what run got, of the last forward */
    qg_tensor *result;     /* [n_out] */
    qg_tensor **result_at; /* [n_out] NULL: absent */
} entry;

struct qg_tape_state {
    qg_arena *arena; /* as long as the tape */
    qg_arena *pass;  /* of one forward and backward */
    qg_arena *scratch;
    qg_rng draws; /* of the present forward */
    slot *value;  /* [values] */
    QG_VEC(entry) node;
};

/* --- building -------------------------------------------------------------------- */

typedef struct builder {
    qg_tape *t;
    struct qg_tape_state *s;
    const qg_quant *q;
    const uint8_t *part;
    bool learns;
    const qg_tensor *const *known;
    uint32_t *step_of; /* [TQCs] by id of the root; QG_NONE */
    QG_VEC(qg_tape_weight) weight;
    QG_VEC(qg_tape_step) step;
    QG_VEC(const qg_value *) in, out;
} builder;

/* A node whose results inference knows has no part in training. */
static bool computes(const builder *b, const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && !b->known[n->out[k]->id])
            return true;
    return false;
}

static bool is_inside(const builder *b, const qg_tqc *t)
{
    return t->node->id < b->t->graph->node.n && b->part[t->node->id];
}

/* As in mode simulate, where baked constants are on their grid. */
static bool rounds(const qg_tqc *t)
{
    return t && (qg_tqc_rounds(t) || t->state == QG_TQC_BAKED ||
                 t->state == QG_TQC_PASSIVE_BAKED);
}

static bool may_learn(const builder *b, const qg_tqc *root)
{
    const uint16_t fixed = QG_FLOATING | QG_DYNAMIC | QG_BLOCK;
    if (root->scheme.policy & fixed || root->quantizer || root->derive ||
        !qg_step_gradient_fits(b->t->gradient, root))
        return false;
    for (const qg_tqc *m = root; m; m = qg_group_next(m, root))
        if (rounds(m) &&
            (!is_inside(b, m) || !qg_scheme_same(&m->scheme, &root->scheme)))
            return false;
    return true;
}

static qg_status add_step(builder *b, const qg_tqc *t, uint32_t *index)
{
    const qg_tqc *root = t->derive ? t : qg_tqc_root(t);
    const qg_qparam p = qg_tqc_param(t);
    qg_arena *a = b->s->arena;
    *index = b->step_of[root->id];
    if (*index != QG_NONE)
        return QG_OK;
    qg_tape_step s = { .root = root,
                       .n = p.n,
                       .scale = QG_NEWN(a, p.n, float),
                       .start = QG_NEWN(a, p.n, float),
                       .grad = QG_NEWN(a, p.n, double),
                       .offset = p.offset ? QG_NEWN(a, p.n, int32_t) : NULL,
                       .offset_start = p.offset ? QG_NEWN(a, p.n, int32_t) : NULL,
                       .border_grad = QG_NEWN(a, p.n, double),
                       .learned = p.n > 0 && may_learn(b, root) };
    if (!s.scale || !s.start || !s.grad || !s.border_grad ||
        (p.offset && (!s.offset || !s.offset_start)))
        return qg_nomem(b->t->ctx);
    s.shifts = s.learned && qg_step_gradient_shifts(b->t->gradient, root);
    for (size_t i = 0; i < p.n; i++)
        s.scale[i] = s.start[i] = p.scale[i];
    for (size_t i = 0; p.offset && i < p.n; i++)
        s.offset[i] = s.offset_start[i] = p.offset[i];
    *index = b->step_of[root->id] = (uint32_t)b->step.n;
    return qg_vec_push(b->t->ctx, a, &b->step, s);
}

static qg_status add_rounding(builder *b, const qg_tqc *t, rounding *r)
{
    *r = (rounding){ .step = QG_NONE };
    if (!rounds(t))
        return QG_OK;
    r->tqc = t;
    return add_step(b, t, &r->step);
}

static bool is_read_outside(const builder *b, const qg_value *v)
{
    for (size_t i = 0; i < v->use.n; i++)
        if (!b->part[v->use.at[i].node->id])
            return true;
    return v->is_output;
}

/* A constant that another part reads stays: that part runs with it as it is. */
static bool is_trained(const builder *b, const qg_node *n, uint32_t slot_)
{
    const qg_value *v = n->in[slot_];
    const char role = qg_op_in_role(n->op, slot_);
    return v->constant && v->constant->dtype == QG_F32 &&
           (role == 'w' || role == 'b' || role == 'g') && !is_read_outside(b, v);
}

static qg_status add_weight(builder *b, const qg_value *v, char role)
{
    qg_ctx *ctx = b->t->ctx;
    qg_arena *a = b->s->arena;
    slot *at = &b->s->value[v->id];
    qg_tape_weight w = { .value = v, .role = role, .step = QG_NONE };
    if (at->weight != QG_NONE)
        return QG_OK;
    qg_tensor_init(&w.now, QG_F32, v->constant->rank, v->constant->dim);
    w.start = w.grad = w.now;
    QG_TRY(qg_tensor_alloc(ctx, a, &w.now));
    QG_TRY(qg_tensor_alloc(ctx, a, &w.start));
    QG_TRY(qg_tensor_alloc(ctx, a, &w.grad));
    qg_tensor_copy(v->constant, &w.now);
    qg_tensor_copy(v->constant, &w.start);
    at->weight = (uint32_t)b->weight.n;
    at->wanted = true;
    return qg_vec_push(ctx, a, &b->weight, w);
}

/* A value that the node reads: a constant, a result, or an input of the part. */
static qg_status add_reader(builder *b, const qg_node *n, uint32_t k)
{
    const qg_value *v = n->in[k];
    slot *at = &b->s->value[v->id];
    if (is_trained(b, n, k))
        return add_weight(b, v, qg_op_in_role(n->op, k));
    if (v->constant || b->known[v->id]) {
        at->now = v->constant ? v->constant : b->known[v->id];
        return QG_OK;
    }
    if (v->def && b->part[v->def->id])
        return QG_OK;
    for (size_t i = 0; i < b->in.n; i++)
        if (b->in.at[i] == v)
            return QG_OK;
    at->wanted = v->type.dtype == QG_F32;
    return qg_vec_push(b->t->ctx, b->s->arena, &b->in, v);
}

/* The step of a weight: that of all endpoints that read it. */
static void set_step(builder *b, const qg_value *v, uint32_t step)
{
    const uint32_t at = b->s->value[v->id].weight;
    if (at == QG_NONE)
        return;
    qg_tape_weight *w = &b->weight.at[at];
    const bool first = w->step == QG_NONE && !w->on_grid;
    w->on_grid = true; /* while building: seen */
    w->step = first || w->step == step ? step : QG_NONE;
}

static qg_status add_node(builder *b, const qg_node *n)
{
    qg_ctx *ctx = b->t->ctx;
    qg_arena *a = b->s->arena;
    entry e = { .node = n,
                .in = QG_NEWN(a, n->n_in, rounding),
                .out = QG_NEWN(a, n->n_out, rounding),
                .arg = QG_NEWN(a, n->n_in, const qg_tensor *),
                .result = QG_NEWN(a, n->n_out, qg_tensor),
                .result_at = QG_NEWN(a, n->n_out, qg_tensor *) };
    bool wanted = false;
    if (!e.in || !e.out || !e.arg || !e.result || !e.result_at)
        return qg_nomem(ctx);
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (!n->in[k])
            continue;
        QG_TRY(add_reader(b, n, k));
        QG_TRY(add_rounding(b, qg_input_tqc(n, k), &e.in[k]));
        set_step(b, n->in[k], e.in[k].step);
        wanted = wanted || b->s->value[n->in[k]->id].wanted ||
                 (e.in[k].step != QG_NONE && b->step.at[e.in[k].step].learned);
    }
    for (uint32_t k = 0; k < n->n_out; k++) {
        if (!n->out[k])
            continue;
        e.result_at[k] = &e.result[k];
        b->s->value[n->out[k]->id].wanted = wanted;
        QG_TRY(add_rounding(b, qg_output_tqc(n, k), &e.out[k]));
        if (is_read_outside(b, n->out[k]))
            QG_TRY(qg_vec_push(ctx, a, &b->out, n->out[k]));
    }
    if (wanted && b->learns && !n->op->backward && !(n->op->traits & QG_OP_SHAPE))
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "learn", n,
                            "has no gradient at opset %d, expected an operator that "
                            "has one",
                            (int)n->opset);
    return qg_vec_push(ctx, a, &b->s->node, e);
}

/* Nodes are in topological order. */
static qg_status build(builder *b, qg_graph *g)
{
    qg_tape *t = b->t;
    QG_TRY(qg_infer_known(g, &b->known));
    b->s->value = QG_NEWN(b->s->arena, g->value.n, slot);
    b->step_of = QG_NEWN(b->s->arena, b->q->tqc.n, uint32_t);
    if (!b->s->value || !b->step_of)
        return qg_nomem(t->ctx);
    for (size_t i = 0; i < g->value.n; i++)
        b->s->value[i].weight = QG_NONE;
    for (size_t i = 0; i < b->q->tqc.n; i++)
        b->step_of[i] = QG_NONE;
    for (size_t i = 0; i < g->node.n; i++)
        if (b->part[i] && computes(b, g->node.at[i]))
            QG_TRY(qg_node_memory(t->ctx, add_node(b, g->node.at[i]), "learn",
                                  g->node.at[i]));
    t->weight = b->weight.at;
    t->n_weight = b->weight.n;
    t->step = b->step.at;
    t->n_step = b->step.n;
    t->in = b->in.at;
    t->n_in = b->in.n;
    t->out = b->out.at;
    t->n_out = b->out.n;
    for (size_t i = 0; i < t->n_weight; i++) {
        t->weight[i].on_grid = false;
        b->s->value[t->weight[i].value->id].now = &t->weight[i].now;
    }
    return QG_OK;
}

qg_status qg_tape_new(qg_ctx *ctx, qg_graph *g, const qg_quant *q,
                      const qg_tape_options *o, qg_tape **out)
{
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_tape *t = a ? QG_NEW(a, qg_tape) : NULL;
    struct qg_tape_state *s = t ? QG_NEW(a, struct qg_tape_state) : NULL;
    if (!s) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    *t = (qg_tape){
        .ctx = ctx, .graph = g, .gradient = o->gradient, .rounds = true, .state = s
    };
    s->arena = a;
    s->pass = qg_arena_new(ctx->alloc);
    s->scratch = qg_arena_new(ctx->alloc);
    builder b = { .t = t, .s = s, .q = q, .part = o->part, .learns = o->learns };
    qg_status status = s->pass && s->scratch ? build(&b, g) : qg_nomem(ctx);
    if (status != QG_OK) {
        qg_tape_free(t);
        return status;
    }
    *out = t;
    return QG_OK;
}

void qg_tape_free(qg_tape *t)
{
    if (!t)
        return;
    struct qg_tape_state *s = t->state;
    qg_arena_free(s->scratch);
    qg_arena_free(s->pass);
    qg_arena_free(s->arena); /* holds t and s */
}

void qg_tape_reset(qg_tape *t)
{
    for (size_t i = 0; i < t->n_weight; i++) {
        t->weight[i].on_grid = false;
        qg_tensor_copy(&t->weight[i].start, &t->weight[i].now);
    }
    for (size_t i = 0; i < t->n_step; i++) {
        qg_tape_step *s = &t->step[i];
        memcpy(s->scale, s->start, s->n * sizeof *s->scale);
        if (s->offset)
            memcpy(s->offset, s->offset_start, s->n * sizeof *s->offset);
    }
}

/* A new arena, since a reset keeps the memory; without memory for one the old stays. */
void qg_tape_rest(qg_tape *t)
{
    qg_arena **own[] = { &t->state->pass, &t->state->scratch };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        qg_arena *fresh = qg_arena_new(t->ctx->alloc);
        if (!fresh)
            continue;
        qg_arena_free(*own[i]);
        *own[i] = fresh;
    }
}

/* Derived scales are written by each forward, hence not shared. */
void qg_tape_follow(qg_tape *t, const qg_tape *leader)
{
    t->leader = leader;
    for (size_t i = 0; i < t->n_weight; i++)
        t->weight[i].now.data = leader->weight[i].now.data;
    for (size_t i = 0; i < t->n_step; i++)
        if (!t->step[i].root->derive) {
            t->step[i].scale = leader->step[i].scale;
            t->step[i].offset = leader->step[i].offset;
        }
}

static const qg_tape *lead_of(const qg_tape *t) { return t->leader ? t->leader : t; }

/* Scales that follow those of two others, which may have been learned. */
static void derive(qg_tape *t)
{
    for (size_t i = 0; i < t->n_step; i++) {
        qg_tape_step *s = &t->step[i];
        float *from[2] = { NULL, NULL };
        size_t n[2] = { 0, 0 };
        for (size_t j = 0; s->root->derive && j < t->n_step; j++)
            for (int k = 0; k < 2; k++)
                if (t->step[j].root == qg_tqc_root(s->root->lender[k])) {
                    from[k] = t->step[j].scale;
                    n[k] = t->step[j].n;
                }
        for (size_t c = 0; from[0] && from[1] && c < s->n; c++)
            s->scale[c] = from[0][n[0] > 1 ? c : 0] * from[1][n[1] > 1 ? c : 0];
    }
}

/* --- forward --------------------------------------------------------------------- */

/* Memory of this pass, not cleared: whoever computes the tensor writes all of it. */
static qg_status take_memory(qg_tape *t, qg_tensor *x)
{
    size_t bytes;
    QG_TRY(qg_tensor_bytes(t->ctx, "learn", x, &bytes));
    qg_tensor_set_plain(x);
    x->data = qg_arena_raw(t->state->pass, bytes, 1);
    return x->data ? QG_OK : qg_nomem(t->ctx);
}

/* Of float32 and the dims of x. */
static qg_tensor *new_like(qg_tape *t, const qg_tensor *x)
{
    qg_tensor *y = QG_NEW(t->state->pass, qg_tensor);
    if (!y)
        return NULL;
    qg_tensor_init(y, QG_F32, x->rank, x->dim);
    return take_memory(t, y) == QG_OK ? y : NULL;
}

/* Elements of an activation, in part as they were before rounding. */
static qg_status drop_rounding(qg_tape *t, rounding *r, qg_tensor *y)
{
    const size_t n = (size_t)qg_tensor_count(y);
    const uint64_t *drawn = qg_drop_draw(t->state->pass, &t->state->draws, n);
    if (!drawn)
        return qg_nomem(t->ctx);
    r->drawn = drawn;
    qg_drop_put(drawn, n, r->x->f32, y->f32);
    return QG_OK;
}

static bool is_activation(const qg_tqc *t)
{
    const qg_value *v = qg_tqc_value(t);
    return v && !v->constant;
}

/* *x becomes its rounded copy. */
static qg_status forward_rounding(qg_tape *t, rounding *r, const qg_tensor **x)
{
    char text[QG_ENDPOINT_TEXT];
    r->x = NULL;
    r->drawn = NULL;
    if (!r->tqc || !lead_of(t)->rounds || (*x)->dtype != QG_F32)
        return QG_OK;
    const qg_tape_step *s = &t->step[r->step];
    const qg_qparam p = { s->n, s->scale, s->offset };
    qg_tensor *y = new_like(t, *x);
    if (!y)
        return qg_nomem(t->ctx);
    r->x = *x;
    QG_TRY(qg_fake_quantize(t->ctx, qg_tqc_text(r->tqc, text), &r->tqc->scheme, &p, *x,
                            y));
    if (t->drop && is_activation(r->tqc))
        QG_TRY(drop_rounding(t, r, y));
    *x = y;
    return QG_OK;
}

static bool is_on_grid(const qg_tape *t, const qg_value *v)
{
    const uint32_t at = t->state->value[v->id].weight;
    return at != QG_NONE && lead_of(t)->weight[at].on_grid;
}

static qg_status forward_node(qg_tape *t, entry *e)
{
    struct qg_tape_state *s = t->state;
    const qg_node *n = e->node;
    qg_call k = { .ctx = t->ctx,
                  .node = n,
                  .param = n->param,
                  .n_in = n->n_in,
                  .n_out = n->n_out,
                  .in = e->arg,
                  .out = e->result_at,
                  .scratch = s->scratch };
    for (uint32_t i = 0; i < n->n_in; i++) {
        e->arg[i] = n->in[i] ? s->value[n->in[i]->id].now : NULL;
        e->in[i].x = NULL;
        if (e->arg[i] && !is_on_grid(t, n->in[i]))
            QG_TRY(forward_rounding(t, &e->in[i], &e->arg[i]));
    }
    QG_TRY(n->op->infer(&k));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (e->result_at[i])
            QG_TRY(take_memory(t, &e->result[i]));
    QG_TRY(n->op->run(&k));
    qg_arena_reset(s->scratch);
    for (uint32_t i = 0; i < n->n_out; i++) {
        const qg_tensor *y = &e->result[i];
        if (!e->result_at[i])
            continue;
        QG_TRY(forward_rounding(t, &e->out[i], &y));
        s->value[n->out[i]->id].now = y;
    }
    return QG_OK;
}

qg_status qg_tape_forward(qg_tape *t, const qg_tensor *const *in)
{
    struct qg_tape_state *s = t->state;
    qg_arena_reset(s->pass);
    s->draws = (qg_rng){ t->drop };
    for (size_t i = 0; i < t->n_in; i++)
        s->value[t->in[i]->id].now = in[i];
    derive(t);
    for (size_t i = 0; i < s->node.n; i++)
        QG_TRY(qg_node_memory(t->ctx, forward_node(t, &s->node.at[i]), "learn",
                              s->node.at[i].node));
    return QG_OK;
}

const qg_tensor *qg_tape_output(const qg_tape *t, size_t k)
{
    return t->state->value[t->out[k]->id].now;
}

/* --- backward -------------------------------------------------------------------- */

qg_learned_layer qg_tape_layer(const qg_tape_step *s, const qg_tensor *x)
{
    qg_learned_layer l = { .outer = 1, .channels = s->n, .inner = 1 };
    const int32_t axis = s->n > 1 ? s->root->scheme.axis : -1;
    if (axis < 0)
        l.inner = (size_t)qg_dims_product(x, 0, x->rank);
    for (int32_t i = 0; axis >= 0 && i < x->rank; i++)
        if (i != axis)
            *(i < axis ? &l.outer : &l.inner) *= (size_t)x->dim[i];
    return l;
}

bool qg_tape_has_grid(const qg_tape_step *s)
{
    const uint16_t other = QG_FLOATING | QG_DYNAMIC | QG_BLOCK;
    return !(s->root->scheme.policy & other) && !s->root->quantizer;
}

/* Elements that were not rounded keep their gradient, and give none to the step. */
static qg_status backward_drawn(const qg_step_rounding *one, const uint64_t *drawn,
                                qg_tensor *g, double *by_scale, double *by_border)
{
    const size_t n = (size_t)qg_tensor_count(g);
    float *passed = QG_NEWN(one->scratch, n, float);
    if (!passed)
        return qg_nomem(one->ctx);
    memcpy(passed, g->f32, n * sizeof *passed);
    qg_drop_put(drawn, n, NULL, g->f32);
    QG_TRY(qg_step_backward(one, g->f32, by_scale, by_border));
    qg_drop_put(drawn, n, passed, g->f32);
    return QG_OK;
}

/* g, of the rounded value, becomes that of the value; the step gets its share.  Grids
 * without a linear scale pass g on. */
static qg_status backward_rounding(qg_tape *t, const rounding *r, qg_tensor *g)
{
    if (!r->x || !qg_tape_has_grid(&t->step[r->step]))
        return QG_OK;
    qg_tape_step *s = &t->step[r->step];
    double *by_scale = NULL, *by_border = NULL;
    if (s->learned) {
        by_scale = QG_NEWN(t->state->scratch, s->n, double);
        by_border = QG_NEWN(t->state->scratch, s->n, double);
    }
    if (s->learned && (!by_scale || !by_border))
        return qg_nomem(t->ctx);
    const qg_step_rounding one = { .ctx = t->ctx,
                                   .scratch = t->state->scratch,
                                   .gradient = t->gradient,
                                   .tqc = r->tqc,
                                   .layer = qg_tape_layer(s, r->x),
                                   .scale = s->scale,
                                   .offset = s->offset,
                                   .x = r->x->f32 };
    QG_TRY(r->drawn ? backward_drawn(&one, r->drawn, g, by_scale, by_border)
                    : qg_step_backward(&one, g->f32, by_scale, by_border));
    for (size_t c = 0; s->learned && c < s->n; c++) {
        s->grad[c] += by_scale[c];
        s->border_grad[c] += by_border[c];
    }
    return QG_OK;
}

/* Adds g to the gradient of v, or becomes it. */
static void give(qg_tape *t, const qg_value *v, qg_tensor *g)
{
    slot *at = &t->state->value[v->id];
    if (!at->grad) {
        at->grad = g;
        return;
    }
    for (int64_t i = 0, n = qg_tensor_count(g); i < n; i++)
        at->grad->f32[i] += g->f32[i];
}

/* The gradients of the results as run left them, before rounding. */
static qg_status gradients_of_results(qg_tape *t, entry *e, const qg_tensor **out,
                                      bool *any)
{
    *any = false;
    for (uint32_t i = 0; i < e->node->n_out; i++) {
        qg_tensor *g =
            e->node->out[i] ? t->state->value[e->node->out[i]->id].grad : NULL;
        out[i] = g;
        if (!g)
            continue;
        QG_TRY(backward_rounding(t, &e->out[i], g));
        *any = true;
    }
    return QG_OK;
}

static qg_status backward_node(qg_tape *t, entry *e)
{
    struct qg_tape_state *s = t->state;
    const qg_node *n = e->node;
    const qg_tensor **out = QG_NEWN(s->scratch, n->n_out, const qg_tensor *);
    qg_tensor **in = QG_NEWN(s->scratch, n->n_in, qg_tensor *);
    bool any;
    if (!out || !in)
        return qg_nomem(t->ctx);
    QG_TRY(gradients_of_results(t, e, out, &any));
    if (!any || !n->op->backward)
        return QG_OK;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const bool learned = e->in[i].x && t->step[e->in[i].step].learned;
        if (!n->in[i] || e->arg[i]->dtype != QG_F32 ||
            !(s->value[n->in[i]->id].wanted || learned))
            continue;
        in[i] = new_like(t, e->arg[i]);
        if (!in[i])
            return qg_nomem(t->ctx);
    }
    const qg_call k = { .ctx = t->ctx,
                        .node = n,
                        .param = n->param,
                        .n_in = n->n_in,
                        .n_out = n->n_out,
                        .in = e->arg,
                        .out = e->result_at,
                        .scratch = s->scratch };
    QG_TRY(n->op->backward(&(qg_backward){ &k, out, in }));
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!in[i])
            continue;
        QG_TRY(backward_rounding(t, &e->in[i], in[i]));
        give(t, n->in[i], in[i]);
    }
    return QG_OK;
}

/* Copies: op->backward must not change the caller's. */
static qg_status start_backward(qg_tape *t, const qg_tensor *const *grad)
{
    struct qg_tape_state *s = t->state;
    for (size_t i = 0; i < t->graph->value.n; i++)
        s->value[i].grad = NULL;
    for (size_t i = 0; i < t->n_step; i++) {
        memset(t->step[i].grad, 0, t->step[i].n * sizeof *t->step[i].grad);
        memset(t->step[i].border_grad, 0, t->step[i].n * sizeof *t->step[i].grad);
    }
    for (size_t k = 0; k < t->n_out; k++) {
        if (!grad[k])
            continue;
        qg_tensor *g = new_like(t, grad[k]);
        if (!g)
            return qg_nomem(t->ctx);
        qg_tensor_copy(grad[k], g);
        s->value[t->out[k]->id].grad = g;
    }
    return QG_OK;
}

qg_status qg_tape_backward(qg_tape *t, const qg_tensor *const *grad)
{
    struct qg_tape_state *s = t->state;
    QG_TRY(start_backward(t, grad));
    for (size_t i = s->node.n; i-- > 0;) {
        QG_TRY(qg_node_memory(t->ctx, backward_node(t, &s->node.at[i]), "learn",
                              s->node.at[i].node));
        qg_arena_reset(s->scratch);
    }
    for (size_t i = 0; i < t->n_weight; i++) {
        const qg_tensor *g = s->value[t->weight[i].value->id].grad;
        qg_tensor *to = &t->weight[i].grad;
        if (g)
            qg_tensor_copy(g, to);
        else
            memset(to->data, 0, (size_t)qg_tensor_count(to) * sizeof *to->f32);
    }
    return QG_OK;
}

const qg_tensor *qg_tape_value_grad(const qg_tape *t, const qg_value *v)
{
    return t->state->value[v->id].grad;
}

const qg_tensor *qg_tape_input_grad(const qg_tape *t, size_t k)
{
    return qg_tape_value_grad(t, t->in[k]);
}
