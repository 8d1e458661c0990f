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
 * The list is cut into segments, one unless the tape recomputes.  Forward frees what a
 * segment computed as it enters the next, except for copies of the values that lead
 * out of it (`kept`).  Backward computes each segment again before it goes through it;
 * the last is still there.  A gradient in a segment's memory ends with the segment;
 * those of values that last longer are copied.
 */
#include <string.h>

#include "engine/learn/drop.h"
#include "engine/learn/tape_state.h"
#include "engine/quant/endpoint.h"
#include "engine/quant/quantizer.h"

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

void qg_tape_inherit(qg_tape *t, size_t step, const qg_tape_step *learned)
{
    qg_tape_step *s = &t->step[step];
    memcpy(s->scale, learned->scale, s->n * sizeof *s->scale);
    memcpy(s->start, learned->scale, s->n * sizeof *s->scale);
    if (!s->offset)
        return;
    memcpy(s->offset, learned->offset, s->n * sizeof *s->offset);
    memcpy(s->offset_start, learned->offset, s->n * sizeof *s->offset);
}

/* A new arena, since a reset keeps the memory, which other requests may not fit;
 * without memory for one the old stays. */
static void renew(const qg_tape *t, qg_arena **a)
{
    qg_arena *fresh = qg_arena_new(t->ctx->alloc);
    if (!fresh) {
        qg_arena_reset(*a);
        return;
    }
    qg_arena_free(*a);
    *a = fresh;
}

void qg_tape_rest(qg_tape *t)
{
    renew(t, &t->state->pass);
    renew(t, &t->state->segment);
    renew(t, &t->state->scratch);
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
        if (!s->root->derive)
            continue;
        const qg_tape_step *a = &t->step[s->lender[0]], *b = &t->step[s->lender[1]];
        for (size_t c = 0; a->n && b->n && c < s->n; c++)
            s->scale[c] = a->scale[a->n > 1 ? c : 0] * b->scale[b->n > 1 ? c : 0];
    }
}

/* --- forward --------------------------------------------------------------------- */

qg_status qg_tape_room(qg_ctx *ctx, qg_arena *a, qg_tensor *x)
{
    size_t bytes;
    QG_TRY(qg_tensor_bytes(ctx, "learn", x, &bytes));
    qg_tensor_set_plain(x);
    x->data = qg_arena_raw(a, bytes, 1);
    return x->data ? QG_OK : qg_nomem(ctx);
}

/* Memory of this segment. */
static qg_status take_memory(qg_tape *t, qg_tensor *x)
{
    return qg_tape_room(t->ctx, t->state->segment, x);
}

/* Of float32 and the dims of x. */
static qg_tensor *new_like(qg_tape *t, const qg_tensor *x)
{
    qg_tensor *y = QG_NEW(t->state->segment, qg_tensor);
    if (!y)
        return NULL;
    qg_tensor_init(y, QG_F32, x->rank, x->dim);
    return take_memory(t, y) == QG_OK ? y : NULL;
}

/* Elements of an activation, in part as they were before rounding. */
static qg_status drop_rounding(qg_tape *t, rounding *r, qg_tensor *y)
{
    const size_t n = (size_t)qg_tensor_count(y);
    const uint64_t *drawn = qg_drop_draw(t->state->segment, &t->state->draws, n);
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
    r->y = y;
    QG_TRY(qg_tqc_round_by(t->ctx, r->tqc, &p, *x, y));
    if (t->state->drop && is_activation(r->tqc))
        QG_TRY(drop_rounding(t, r, y));
    *x = y;
    return QG_OK;
}

static bool is_on_grid(const qg_tape *t, const qg_value *v)
{
    const uint32_t at = t->state->value[v->id].weight;
    return at != QG_NONE && lead_of(t)->weight[at].on_grid;
}

/* Gives the results the shapes that follow from the arguments, and memory.  Control
 * operators do both while they run (op.h, `results`): their infer writes the types of
 * bodies, which all tapes share. */
static qg_status allocate_results(qg_tape *t, const qg_call *k)
{
    const bool sizes_itself = qg_node_has(k->node, QG_OP_CONTROL);
    if (!sizes_itself)
        QG_TRY(k->node->op->infer(k));
    for (size_t i = 0; i < k->n_out; i++)
        if (k->out[i] && sizes_itself)
            k->out[i]->data = NULL;
        else if (k->out[i])
            QG_TRY(take_memory(t, k->out[i]));
    return QG_OK;
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
                  .scratch = s->scratch,
                  .results = s->segment };
    for (uint32_t i = 0; i < n->n_in; i++) {
        e->arg[i] = n->in[i] ? s->value[n->in[i]->id].now : NULL;
        e->in[i].x = NULL;
        if (e->arg[i] && !is_on_grid(t, n->in[i]))
            QG_TRY(forward_rounding(t, &e->in[i], &e->arg[i]));
    }
    QG_TRY(allocate_results(t, &k));
    QG_TRY(n->op->run(&k));
    qg_arena_reset(s->scratch);
    for (uint32_t i = 0; i < n->n_out; i++) {
        const qg_tensor *y = &e->result[i];
        if (!e->result_at[i])
            continue;
        QG_TRY(forward_rounding(t, &e->out[i], &y));
        slot *at = &s->value[n->out[i]->id];
        if (!s->again || !at->kept)
            at->now = y;
    }
    return QG_OK;
}

/* Entries of segment k: [first_of(k), end[k]). */
static size_t first_of(const struct qg_tape_state *s, size_t k)
{
    return k ? s->end[k - 1] : 0;
}

static qg_status forward_segment(qg_tape *t, size_t k)
{
    struct qg_tape_state *s = t->state;
    if (s->n_segment > 1) {
        renew(t, &s->segment);
        renew(t, &s->scratch);
    }
    for (size_t i = first_of(s, k); i < s->end[k]; i++)
        QG_TRY(qg_node_memory(t->ctx, forward_node(t, &s->node.at[i]), "learn",
                              s->node.at[i].node));
    return QG_OK;
}

/* Copies of what is read behind segment k. */
static qg_status keep(qg_tape *t, size_t k)
{
    struct qg_tape_state *s = t->state;
    for (size_t i = first_of(s, k); i < s->end[k]; i++) {
        const qg_node *n = s->node.at[i].node;
        for (uint32_t j = 0; j < n->n_out; j++) {
            slot *at = n->out[j] ? &s->value[n->out[j]->id] : NULL;
            qg_tensor *copy;
            if (!at || !at->kept)
                continue;
            QG_TRY(qg_node_memory(
                t->ctx, qg_tensor_clone(t->ctx, s->pass, at->now, &copy), "learn", n));
            at->now = copy;
        }
    }
    return QG_OK;
}

/* In float, constants that were learned before are those of the float network. */
static void choose_constants(qg_tape *t)
{
    const struct qg_tape_state *s = t->state;
    for (size_t i = 0; i < s->learned.n; i++) {
        const qg_learned_before *c = &s->learned.at[i];
        s->value[c->value].now =
            lead_of(t)->rounds ? t->graph->value.at[c->value]->constant : c->real;
    }
}

qg_status qg_tape_forward(qg_tape *t, const qg_tensor *const *in)
{
    struct qg_tape_state *s = t->state;
    qg_arena_reset(s->pass);
    qg_arena_reset(s->segment);
    s->drop = t->drop;
    s->draws = (qg_rng){ s->drop };
    s->again = false;
    for (size_t i = 0; i < t->n_in; i++)
        s->value[t->in[i]->id].now = in[i];
    derive(t);
    choose_constants(t);
    for (size_t k = 0; k < s->n_segment; k++) {
        s->drawn[k] = s->draws;
        QG_TRY(forward_segment(t, k));
        QG_TRY(keep(t, k));
    }
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
 * without a linear scale, and quantizers of the host, pass g on. */
static qg_status backward_rounding(qg_tape *t, const rounding *r, qg_tensor *g)
{
    if (!r->x || r->tqc->quantizer || !qg_tape_has_grid(&t->step[r->step]))
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
                                   .x = r->x->f32,
                                   .y = r->y->f32 };
    QG_TRY(r->drawn ? backward_drawn(&one, r->drawn, g, by_scale, by_border)
                    : qg_step_backward(&one, g->f32, by_scale, by_border));
    for (size_t c = 0; s->learned && c < s->n; c++) {
        s->grad[c] += by_scale[c];
        s->border_grad[c] += by_border[c];
    }
    return QG_OK;
}

/* Adds g to the gradient of v, or becomes it. */
static qg_status give(qg_tape *t, const qg_value *v, qg_tensor *g)
{
    slot *at = &t->state->value[v->id];
    if (at->grad) {
        for (int64_t i = 0, n = qg_tensor_count(g); i < n; i++)
            at->grad->f32[i] += g->f32[i];
        return QG_OK;
    }
    at->grad = at->weight != QG_NONE ? &t->weight[at->weight].grad : g;
    if (at->weight != QG_NONE)
        qg_tensor_copy(g, at->grad);
    else if (at->lasts && t->state->n_segment > 1)
        return qg_tensor_clone(t->ctx, t->state->pass, g, &at->grad);
    return QG_OK;
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
        QG_TRY(give(t, n->in[i], in[i]));
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
        QG_TRY(
            qg_tensor_clone(t->ctx, s->pass, grad[k], &s->value[t->out[k]->id].grad));
    }
    return QG_OK;
}

/* The memory of segment k is about to be used for another. */
static void end_segment(struct qg_tape_state *s, size_t k)
{
    for (size_t i = first_of(s, k); i < s->end[k]; i++)
        for (uint32_t j = 0; j < s->node.at[i].node->n_out; j++) {
            const qg_value *v = s->node.at[i].node->out[j];
            if (v && !s->value[v->id].lasts)
                s->value[v->id].grad = NULL;
        }
}

static qg_status backward_segment(qg_tape *t, size_t k)
{
    struct qg_tape_state *s = t->state;
    if (k + 1 < s->n_segment) {
        end_segment(s, k + 1);
        s->again = true;
        s->draws = s->drawn[k];
        QG_TRY(forward_segment(t, k));
    }
    for (size_t i = s->end[k]; i-- > first_of(s, k);) {
        QG_TRY(qg_node_memory(t->ctx, backward_node(t, &s->node.at[i]), "learn",
                              s->node.at[i].node));
        qg_arena_reset(s->scratch);
    }
    return QG_OK;
}

qg_status qg_tape_backward(qg_tape *t, const qg_tensor *const *grad)
{
    struct qg_tape_state *s = t->state;
    QG_TRY(start_backward(t, grad));
    for (size_t k = s->n_segment; k-- > 0;)
        QG_TRY(backward_segment(t, k));
    for (size_t i = 0; i < t->n_weight; i++) {
        qg_tensor *to = &t->weight[i].grad;
        if (!s->value[t->weight[i].value->id].grad)
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
