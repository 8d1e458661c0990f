/* gradient.c -- the harm of items from gradients of the float network, without a run
 * per item.
 *
 * Rounding moves element j of a value by d_j, and output o by J d to first order.  With
 * a random sign r for each element of the outputs, g = J' (r / |o|), and roundings that
 * are independent of each other,
 *
 *     E |J d|^2 / |o|^2  =  E sum_j g_j^2 d_j^2
 *
 * which is averaged over samples, with one vector of signs for each.  Where the
 * readers of a value round it, each on its own grid, g_j d_j is the sum over them, each
 * with the gradient that it gives; a reader that does not round has no part.
 *
 * Backward goes node by node: the tape (engine/learn/tape.h) of a part gives the
 * gradients of its inputs and weights, so that a part is one node here.  A node whose
 * operator has no gradient leaves everything before it blind.
 *
 * Source   Hutchinson, "A stochastic estimator of the trace of the influence matrix",
 *          1990; Dong et al., "HAWQ-V2", NeurIPS 2020, ranks layers by such estimates
 * Cost     two forward runs of the definitions and one backward per sample */
#include <math.h>

#include "engine/core/rng.h"
#include "engine/learn/tape.h"
#include "engine/quant/quantizer.h"
#include "engine/search/search.h"

typedef struct flow {
    qg_searching *s;
    const qg_graph *graph;
    qg_arena *sample;      /* of one sample */
    const qg_tensor **now; /* [values] of the sample; NULL: unknown */
    qg_tensor **grad;      /* [values] NULL: none arrived */
    qg_tensor ***gives;    /* [nodes][inputs] the part of the gradient of an input
                            * that comes from this node, at the first slot that reads
                            * it; NULL: all of it, or none */
    uint8_t *part;         /* [nodes] the node at work */
    uint8_t *blind;        /* [values] gradients do not reach it */
    uint8_t *live;         /* [values] an output depends on it */
} flow;

static bool has_gradient(const qg_node *n)
{
    return n->op->backward || n->op->traits & QG_OP_SHAPE;
}

/* --- what gradients reach --- */

static void see_node(flow *f, const qg_node *n)
{
    bool live = false, blind = false;
    for (uint32_t k = 0; k < n->n_out; k++) {
        live = live || (n->out[k] && f->live[n->out[k]->id]);
        blind = blind || (n->out[k] && f->blind[n->out[k]->id]);
    }
    for (uint32_t k = 0; live && k < n->n_in; k++) {
        if (!n->in[k])
            continue;
        f->live[n->in[k]->id] = 1;
        f->blind[n->in[k]->id] |= blind || !has_gradient(n);
    }
}

static qg_status see_all(flow *f)
{
    const qg_graph *g = f->graph;
    for (size_t k = 0; k < g->output.n; k++)
        f->live[g->output.at[k]->id] = g->output.at[k]->type.dtype == QG_F32;
    for (size_t i = g->node.n; i-- > 0;) {
        if (qg_node_has(g->node.at[i], QG_OP_CONTROL))
            return qg_node_fail(f->s->m->ctx, QG_EUNSUPPORTED, "search", g->node.at[i],
                                "has no gradient, expected a network without control "
                                "flow; or errors that are measured");
        see_node(f, g->node.at[i]);
    }
    return QG_OK;
}

/* --- one node --- */

/* NULL: nothing to run. */
static qg_status open_node(flow *f, const qg_node *n, qg_tape **out,
                           const qg_tensor ***in)
{
    qg_model *m = f->s->m;
    qg_tape_options o = { .part = f->part, .learns = has_gradient(n) };
    qg_tape *t;
    *out = NULL;
    f->part[n->id] = 1;
    qg_status st = qg_tape_new(m->ctx, m->graph, m->quant, &o, &t);
    f->part[n->id] = 0;
    QG_TRY(st);
    t->rounds = false;
    *in = QG_NEWN(f->sample, t->n_in, const qg_tensor *);
    for (size_t k = 0; *in && k < t->n_in; k++)
        (*in)[k] = f->now[t->in[k]->id];
    if (!*in || t->n_out == 0) {
        qg_tape_free(t);
        return *in ? QG_OK : qg_nomem(m->ctx);
    }
    *out = t;
    return QG_OK;
}

static qg_status forward(flow *f, const qg_node *n)
{
    qg_tape *t;
    const qg_tensor **in;
    QG_TRY(open_node(f, n, &t, &in));
    if (!t)
        return QG_OK;
    qg_status st = qg_tape_forward(t, in);
    for (size_t k = 0; st == QG_OK && k < t->n_out; k++) {
        qg_tensor *copy;
        st = qg_tensor_clone(f->s->m->ctx, f->sample, qg_tape_output(t, k), &copy);
        if (st == QG_OK)
            f->now[t->out[k]->id] = copy;
    }
    qg_tape_free(t);
    return st;
}

/* The gradients of several readers add up. */
static qg_status give(flow *f, const qg_value *v, const qg_tensor *g)
{
    qg_tensor **at = &f->grad[v->id];
    if (!g)
        return QG_OK;
    if (!*at)
        return qg_tensor_clone(f->s->m->ctx, f->sample, g, at);
    for (int64_t i = 0; i < qg_tensor_count(g); i++)
        (*at)->f32[i] += g->f32[i];
    return QG_OK;
}

static uint32_t first_slot(const qg_node *n, const qg_value *v)
{
    uint32_t slot = 0;
    while (n->in[slot] != v)
        slot++;
    return slot;
}

/* Of a value that other nodes read, too, or that is an output. */
static qg_status keep_part(flow *f, const qg_node *n, const qg_value *v,
                           const qg_tensor *g)
{
    qg_tensor ***at = &f->gives[n->id];
    if (!g || v->use.n + v->is_output < 2)
        return QG_OK;
    if (!*at && !(*at = QG_NEWN(f->sample, n->n_in, qg_tensor *)))
        return qg_nomem(f->s->m->ctx);
    return qg_tensor_clone(f->s->m->ctx, f->sample, g, &(*at)[first_slot(n, v)]);
}

static qg_status take_gradients(flow *f, const qg_node *n, const qg_tape *t)
{
    for (size_t k = 0; k < t->n_in; k++) {
        const qg_tensor *g = qg_tape_input_grad(t, k);
        QG_TRY(give(f, t->in[k], g));
        QG_TRY(keep_part(f, n, t->in[k], g));
    }
    for (size_t k = 0; k < t->n_weight; k++)
        QG_TRY(give(f, t->weight[k].value, &t->weight[k].grad));
    return QG_OK;
}

static bool arrives_at(const flow *f, const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && f->grad[n->out[k]->id])
            return true;
    return false;
}

static qg_status backward(flow *f, const qg_node *n)
{
    qg_tape *t;
    const qg_tensor **in;
    if (!arrives_at(f, n) || !has_gradient(n))
        return QG_OK;
    QG_TRY(open_node(f, n, &t, &in));
    if (!t)
        return QG_OK;
    const qg_tensor **out = QG_NEWN(f->sample, t->n_out, const qg_tensor *);
    for (size_t k = 0; out && k < t->n_out; k++)
        out[k] = f->grad[t->out[k]->id];
    qg_status st = out ? qg_tape_forward(t, in) : qg_nomem(f->s->m->ctx);
    if (st == QG_OK)
        st = qg_tape_backward(t, out);
    if (st == QG_OK)
        st = take_gradients(f, n, t);
    qg_tape_free(t);
    return st;
}

/* --- one sample --- */

/* r / |o| for every float output o. */
static qg_status seed_outputs(flow *f, size_t sample)
{
    const qg_graph *g = f->graph;
    qg_rng rng = { sample };
    for (size_t k = 0; k < g->output.n; k++) {
        const qg_value *v = g->output.at[k];
        const qg_tensor *y = f->now[v->id];
        qg_tensor *t;
        double power = 1e-7; /* as in the metric nsr */
        if (!y || y->dtype != QG_F32)
            continue;
        QG_TRY(qg_tensor_clone(f->s->m->ctx, f->sample, y, &t));
        for (int64_t i = 0; i < qg_tensor_count(y); i++)
            power += (double)y->f32[i] * (double)y->f32[i];
        for (int64_t i = 0; i < qg_tensor_count(y); i++)
            t->f32[i] = (float)((qg_rng_next(&rng) >> 63 ? 1.0 : -1.0) / sqrt(power));
        QG_TRY(give(f, v, t));
    }
    return QG_OK;
}

static qg_status run_sample(flow *f, size_t sample)
{
    qg_ctx *ctx = f->s->m->ctx;
    const qg_graph *g = f->graph;
    const qg_feed *feed = f->s->split.choose;
    qg_arena_reset(f->sample);
    memset(f->now, 0, g->value.n * sizeof *f->now);
    memset(f->grad, 0, g->value.n * sizeof *f->grad);
    memset(f->gives, 0, g->node.n * sizeof *f->gives);
    const qg_tensor **in = QG_NEWN(f->sample, g->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(ctx);
    QG_TRY(feed->fetch(feed->ud, ctx, f->sample, sample, in));
    for (size_t k = 0; k < g->input.n; k++)
        f->now[g->input.at[k]->id] = in[k];
    for (size_t i = 0; i < g->node.n; i++)
        QG_TRY(forward(f, g->node.at[i]));
    QG_TRY(seed_outputs(f, sample));
    for (size_t i = g->node.n; i-- > 0;)
        QG_TRY(backward(f, g->node.at[i]));
    return QG_OK;
}

/* --- harm --- */

/* shift += gradient x what t moves. */
static qg_status add_shift(flow *f, const qg_tqc *t, const qg_tensor *x,
                           const qg_tensor *g, double *shift)
{
    qg_tensor *y;
    QG_TRY(qg_tensor_clone(f->s->m->ctx, f->sample, x, &y));
    QG_TRY(qg_tqc_round(f->s->m->ctx, t, x, y));
    for (int64_t i = 0; i < qg_tensor_count(x); i++)
        shift[i] += ((double)y->f32[i] - (double)x->f32[i]) * (double)g->f32[i];
    return QG_OK;
}

/* The gradient that a reader of the trial gives to v; NULL: none.  *lost: the network
 * has no such node. */
static const qg_tensor *part_of(const flow *f, const qg_value *v, const char *reader,
                                bool *lost)
{
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        if (strcmp(n->name, reader) != 0)
            continue;
        if (v->use.n + v->is_output < 2)
            return f->grad[v->id];
        return f->gives[n->id] ? f->gives[n->id][first_slot(n, v)] : NULL;
    }
    *lost = true;
    return NULL;
}

/* Of a value whose readers round it: each of them once. */
static qg_status add_readers(flow *f, const qg_value *v, const qg_value *there,
                             const qg_tensor *x, double *shift, bool *lost)
{
    for (size_t i = 0; i < there->use.n; i++) {
        const qg_use *use = &there->use.at[i];
        const qg_tqc *t = qg_input_tqc(use->node, use->slot);
        if (!qg_tqc_is_on_grid(t) || first_slot(use->node, there) != use->slot)
            continue;
        const qg_tensor *g = part_of(f, v, use->node->name, lost);
        if (g)
            QG_TRY(add_shift(f, t, x, g, shift));
    }
    return QG_OK;
}

static qg_status add_value(flow *f, const qg_value *v, size_t o, double *sum,
                           bool *lost)
{
    const qg_tensor *x = v->constant ? v->constant : f->now[v->id];
    const qg_value *there = qg_graph_value(f->s->uniform[o].graph, v->name);
    if (!x || !there || !f->grad[v->id] || x->dtype != QG_F32)
        return QG_OK;
    const int64_t n = qg_tensor_count(x);
    const qg_tqc *producer = qg_producer_tqc(there);
    double *shift = QG_NEWN(f->sample, (size_t)n, double);
    if (!shift)
        return qg_nomem(f->s->m->ctx);
    if (qg_tqc_is_on_grid(producer))
        QG_TRY(add_shift(f, producer, x, f->grad[v->id], shift));
    else
        QG_TRY(add_readers(f, v, there, x, shift, lost));
    for (int64_t i = 0; i < n; i++)
        *sum += shift[i] * shift[i];
    return QG_OK;
}

/* A weight whose gradient did not arrive is blind: several nodes read it, or a slot
 * that takes no weight. */
static qg_status add_sample(flow *f)
{
    qg_searching *s = f->s;
    for (size_t v = 0; v < f->graph->value.n; v++) {
        const qg_value *value = f->graph->value.at[v];
        uint32_t item = s->item_of[v];
        if (item == QG_NONE)
            continue;
        if (f->blind[v] || (value->constant && f->live[v] && !f->grad[v]))
            s->item.at[item].blind = true;
        for (size_t o = 0; o < s->options && !s->item.at[item].blind; o++)
            if (s->bits[o])
                QG_TRY(add_value(f, value, o, &s->gradient[item * s->options + o],
                                 &s->item.at[item].blind));
    }
    return QG_OK;
}

static qg_status run_all(flow *f)
{
    qg_searching *s = f->s;
    size_t n = s->split.choose->n, cells = s->item.n * s->options;
    QG_TRY(see_all(f));
    memset(s->gradient, 0, cells * sizeof *s->gradient);
    for (size_t i = 0; i < n; i++) {
        QG_TRY(run_sample(f, i));
        QG_TRY(add_sample(f));
    }
    for (size_t i = 0; i < cells; i++)
        s->gradient[i] = s->item.at[i / s->options].blind && s->bits[i % s->options]
                             ? (double)NAN
                             : s->gradient[i] / (double)n;
    return QG_OK;
}

qg_status qg_search_gradients(qg_searching *s)
{
    const qg_graph *g = s->m->graph;
    qg_arena *a = qg_arena_new(s->m->ctx->alloc);
    flow f = { .s = s, .graph = g };
    qg_status st = a ? QG_OK : qg_nomem(s->m->ctx);
    if (a) {
        f.now = QG_NEWN(a, g->value.n, const qg_tensor *);
        f.grad = QG_NEWN(a, g->value.n, qg_tensor *);
        f.gives = QG_NEWN(a, g->node.n, qg_tensor **);
        f.part = QG_NEWN(a, g->node.n, uint8_t);
        f.blind = QG_NEWN(a, g->value.n, uint8_t);
        f.live = QG_NEWN(a, g->value.n, uint8_t);
        f.sample = qg_arena_new(s->m->ctx->alloc);
        if (!f.now || !f.grad || !f.gives || !f.part || !f.blind || !f.live ||
            !f.sample)
            st = qg_nomem(s->m->ctx);
    }
    if (st == QG_OK)
        st = run_all(&f);
    qg_arena_free(f.sample);
    qg_arena_free(a);
    return st;
}
