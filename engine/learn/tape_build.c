/* tape_build.c -- makes a tape: which values are inputs, weights and steps of a part,
 * which of them gradients reach, and where it is cut into segments. */
#include <string.h>

#include "engine/ir/infer.h"
#include "engine/learn/segment.h"
#include "engine/learn/tape_state.h"

typedef struct builder {
    qg_tape *t;
    struct qg_tape_state *s;
    const qg_quant *q;
    const uint8_t *part;
    const uint8_t *watched;
    bool learns, recomputes;
    const qg_tensor *const *known;
    const qg_tensor **real; /* [values] of the float network; NULL: the same */
    uint32_t *step_of;      /* [TQCs] by id of the root; QG_NONE */
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

static bool may_learn(const builder *b, const qg_tqc *root)
{
    const uint16_t fixed = QG_FLOATING | QG_DYNAMIC | QG_BLOCK;
    if (root->scheme.policy & fixed || root->derive || qg_tqc_is_prescribed(root) ||
        !(qg_tqc_owns_scale(root) || root->state == QG_TQC_BAKED) ||
        !qg_step_gradient_fits(b->t->gradient, root))
        return false;
    bool rounds = false;
    for (const qg_tqc *m = root; m; m = qg_group_next(m, root)) {
        if (!qg_tqc_is_on_grid(m))
            continue;
        if (!is_inside(b, m) || m->quantizer ||
            !qg_scheme_same(&m->scheme, &root->scheme))
            return false;
        rounds = true;
    }
    return rounds;
}

static qg_status new_step(builder *b, const qg_tqc *root, qg_qparam p)
{
    qg_arena *a = b->s->arena;
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
    b->step_of[root->id] = (uint32_t)b->step.n;
    return qg_vec_push(b->t->ctx, a, &b->step, s);
}

/* *index: that of the endpoint's root.  A derived one needs those of its lenders, which
 * may round elsewhere only. */
static qg_status add_step(builder *b, const qg_tqc *t, uint32_t *index)
{
    const qg_tqc *root = t->derive ? t : qg_tqc_root(t);
    if (b->step_of[root->id] == QG_NONE) {
        QG_TRY(new_step(b, root, qg_tqc_param(t)));
        for (int k = 0; root->derive && k < 2; k++) {
            const qg_tqc *lender = qg_tqc_root(root->lender[k]);
            if (b->step_of[lender->id] == QG_NONE)
                QG_TRY(new_step(b, lender, qg_tqc_param(lender)));
            b->step.at[b->step_of[root->id]].lender[k] = b->step_of[lender->id];
        }
    }
    *index = b->step_of[root->id];
    return QG_OK;
}

static qg_status add_rounding(builder *b, const qg_tqc *t, rounding *r)
{
    *r = (rounding){ .step = QG_NONE };
    if (!qg_tqc_is_on_grid(t))
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

/* Whether results are known from v alone: the float network has them, too. */
static bool is_folded(const builder *b, const qg_value *v)
{
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        for (uint32_t k = 0; k < n->n_out; k++)
            if (n->out[k] && n->out[k]->type.dtype == QG_F32 && b->known[n->out[k]->id])
                return true;
    }
    return false;
}

/* A constant that another part reads stays: that part runs with it as it is. */
static bool is_trained(const builder *b, const qg_node *n, uint32_t slot_)
{
    const qg_value *v = n->in[slot_];
    const char role = qg_op_in_role(n->op, slot_);
    return v->constant && v->constant->dtype == QG_F32 &&
           (role == 'w' || role == 'b' || role == 'g') && !is_read_outside(b, v) &&
           !is_folded(b, v);
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

/* A constant that the part does not train. */
static qg_status add_constant(builder *b, const qg_value *v)
{
    slot *at = &b->s->value[v->id];
    const bool first = !at->now;
    at->now = v->constant ? v->constant : b->known[v->id];
    return first && b->real[v->id]
               ? qg_vec_push(b->t->ctx, b->s->arena, &b->s->learned,
                             ((qg_learned_before){ v->id, b->real[v->id] }))
               : QG_OK;
}

/* A value that the node reads: a constant, a result, or an input of the part. */
static qg_status add_reader(builder *b, const qg_node *n, uint32_t k)
{
    const qg_value *v = n->in[k];
    slot *at = &b->s->value[v->id];
    if (is_trained(b, n, k))
        return add_weight(b, v, qg_op_in_role(n->op, k));
    if (v->constant || b->known[v->id])
        return add_constant(b, v);
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

/* --- segments -------------------------------------------------------------------- */

/* Of a value as far as its dims are known. */
static double bytes_of(const qg_value *v)
{
    double n = (double)sizeof(float);
    for (int32_t i = 0; i < v->type.rank; i++)
        n *= v->type.dim[i] > 0 ? (double)v->type.dim[i] : 1;
    return n;
}

/* Results and arguments with their rounded copies and gradients. */
static double cost_of(const builder *b, const entry *e)
{
    double sum = 0;
    for (uint32_t k = 0; k < e->node->n_out; k++)
        if (e->node->out[k])
            sum += bytes_of(e->node->out[k]) * (1 + (e->out[k].tqc != NULL));
    for (uint32_t k = 0; k < e->node->n_in; k++) {
        const qg_value *v = e->node->in[k];
        const int copies = (e->in[k].tqc != NULL) + (v && b->s->value[v->id].wanted);
        sum += v ? bytes_of(v) * copies : 0;
    }
    return sum;
}

/* A value that entry `from` computes, up to its last reader. */
static qg_span span_of(const builder *b, const qg_value *v, size_t from,
                       const size_t *place)
{
    const size_t n = b->s->node.n;
    qg_span span = { from, from, bytes_of(v) * (1 + b->s->value[v->id].wanted) };
    for (size_t i = 0; i < v->use.n; i++) {
        const size_t reader = place[v->use.at[i].node->id];
        if (reader != SIZE_MAX)
            span.to = reader > span.to ? reader : span.to;
    }
    if (is_read_outside(b, v))
        span.to = n;
    return span;
}

static size_t segment_of(const struct qg_tape_state *s, size_t at)
{
    size_t k = 0;
    while (k < s->n_segment && at >= s->end[k])
        k++;
    return k;
}

/* Values and their spans are in the order of entries and their results. */
static void mark_kept(builder *b, const qg_span *span)
{
    struct qg_tape_state *s = b->s;
    for (size_t i = 0; i < b->t->graph->value.n; i++)
        s->value[i].lasts = true;
    for (size_t i = 0; i < s->node.n; i++)
        for (uint32_t k = 0; k < s->node.at[i].node->n_out; k++) {
            const qg_value *v = s->node.at[i].node->out[k];
            if (!v)
                continue;
            slot *at = &s->value[v->id];
            at->kept = s->n_segment > 1 &&
                       segment_of(s, span->from) != segment_of(s, span->to);
            at->lasts = at->kept || (b->watched && b->watched[v->id]);
            span++;
        }
}

static qg_status cut(builder *b, qg_arena *a)
{
    qg_ctx *ctx = b->t->ctx;
    struct qg_tape_state *s = b->s;
    QG_VEC(qg_span) span = { 0 };
    double *cost = QG_NEWN(a, s->node.n, double);
    size_t *place = QG_NEWN(a, b->t->graph->node.n, size_t);
    if (!cost || !place)
        return qg_nomem(ctx);
    memset(place, 0xff, b->t->graph->node.n * sizeof *place);
    for (size_t i = 0; i < s->node.n; i++)
        place[s->node.at[i].node->id] = i;
    for (size_t i = 0; i < s->node.n; i++) {
        const qg_node *n = s->node.at[i].node;
        cost[i] = cost_of(b, &s->node.at[i]);
        for (uint32_t k = 0; k < n->n_out; k++)
            if (n->out[k])
                QG_TRY(qg_vec_push(ctx, a, &span, span_of(b, n->out[k], i, place)));
    }
    const qg_segment_list list = { s->node.n, span.n, cost, span.at };
    if (b->recomputes && s->node.n)
        QG_TRY(qg_segments_plan(ctx, s->arena, &list, &s->end, &s->n_segment));
    else {
        s->end = QG_NEW(s->arena, size_t);
        s->n_segment = 1;
        if (!s->end)
            return qg_nomem(ctx);
        *s->end = s->node.n;
    }
    mark_kept(b, span.at);
    s->drawn = QG_NEWN(s->arena, s->n_segment, qg_rng);
    return s->drawn ? QG_OK : qg_nomem(ctx);
}

static qg_status cut_into_segments(builder *b)
{
    qg_arena *a = qg_arena_new(b->t->ctx->alloc);
    const qg_status s = a ? cut(b, a) : qg_nomem(b->t->ctx);
    qg_arena_free(a);
    return s;
}

/* --- all of a tape --------------------------------------------------------------- */

/* Nodes are in topological order. */
static qg_status build(builder *b, qg_graph *g)
{
    qg_tape *t = b->t;
    QG_TRY(qg_infer_known(g, &b->known));
    b->real = QG_NEWN(b->s->arena, g->value.n, const qg_tensor *);
    if (!b->real)
        return qg_nomem(t->ctx);
    QG_TRY(qg_graph_untuned(g, b->s->arena, b->real));
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
    return cut_into_segments(b);
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
    s->segment = qg_arena_new(ctx->alloc);
    s->scratch = qg_arena_new(ctx->alloc);
    builder b = { .t = t,
                  .s = s,
                  .q = q,
                  .part = o->part,
                  .watched = o->watched,
                  .learns = o->learns,
                  .recomputes = o->recomputes };
    qg_status status =
        s->pass && s->segment && s->scratch ? build(&b, g) : qg_nomem(ctx);
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
    qg_arena_free(s->segment);
    qg_arena_free(s->pass);
    qg_arena_free(s->arena); /* holds t and s */
}
