#include "engine/session/first_layer.h"

#include "engine/ir/cut.h"

static const qg_tensor *floats(const qg_value *v)
{
    return v && v->constant && v->constant->dtype == QG_F32 && v->constant->rank == 1
               ? v->constant
               : NULL;
}

/* The statistics of a normalization: inputs 3 and 4. */
static bool expect_normal(qg_first_layer *d, const qg_node *n)
{
    const qg_tensor *mean = n->n_in == 5 ? floats(n->in[3]) : NULL;
    const qg_tensor *variance = n->n_in == 5 ? floats(n->in[4]) : NULL;
    if (!mean || !variance || !n->in[0] || !n->in[0]->def ||
        !qg_same_dims(mean, variance))
        return false;
    d->value = n->in[0];
    d->expected = (qg_expected){ .layer = n->name,
                                 .mean = mean->f32,
                                 .variance = variance->f32,
                                 .n = (size_t)mean->dim[0] };
    return true;
}

static bool expect_bias(qg_first_layer *d, const qg_node *n)
{
    int slot = qg_op_slot_of(n->op, 'b');
    const qg_tensor *bias =
        slot >= 0 && (uint32_t)slot < n->n_in ? floats(n->in[slot]) : NULL;
    if (!bias || !n->in[0] || !n->in[0]->is_input)
        return false;
    d->value = n->out[0];
    d->expected =
        (qg_expected){ .layer = n->name, .bias = bias->f32, .n = (size_t)bias->dim[0] };
    return true;
}

qg_first_layer qg_first_layer_of(const qg_graph *g)
{
    qg_first_layer d = { 0 };
    for (size_t i = 0; i < g->node.n && !d.value; i++)
        if (qg_node_has(g->node.at[i], QG_OP_NORMALIZE))
            (void)expect_normal(&d, g->node.at[i]);
    for (size_t i = 0; i < g->node.n && !d.value; i++)
        if (qg_node_has(g->node.at[i], QG_OP_COMPUTE))
            (void)expect_bias(&d, g->node.at[i]);
    return d;
}

/* --- the first samples --- */

/* The nodes before the value, and a run of them. */
typedef struct trial {
    qg_ctx *ctx;
    qg_arena *arena, *sample; /* of the trial, of a sample */
    qg_cut cut;
    size_t *input;           /* [cut.n_in] which input of the model */
    qg_tensor *shape;        /* [cut.n_in] NULL: the model's own */
    const qg_tensor **in;    /* [inputs of the model] */
    const qg_tensor **taken; /* [cut.n_in] of these */
    qg_plan *plan;
    qg_run *run;
} trial;

/* Which inputs of the model the cut reads, and their shapes in the samples. */
static qg_status find_inputs(trial *t, const qg_graph *g, const qg_feed *feed)
{
    size_t n = t->cut.n_in;
    t->input = QG_NEWN(t->arena, n, size_t);
    t->taken = QG_NEWN(t->arena, n, const qg_tensor *);
    t->in = QG_NEWN(t->arena, g->input.n, const qg_tensor *);
    t->shape = feed->shape ? QG_NEWN(t->arena, n, qg_tensor) : NULL;
    if (!t->input || !t->taken || !t->in || (feed->shape && !t->shape))
        return qg_nomem(t->ctx);
    for (size_t i = 0; i < n; i++) {
        while (g->input.at[t->input[i]] != t->cut.in[i])
            t->input[i]++;
        if (t->shape)
            t->shape[i] = feed->shape[t->input[i]];
    }
    return QG_OK;
}

static qg_status open_trial(trial *t, const qg_model *m, const qg_value *target,
                            const qg_feed *feed)
{
    const qg_graph *g = m->graph;
    t->arena = qg_arena_new(t->ctx->alloc);
    t->sample = qg_arena_new(t->ctx->alloc);
    if (!t->arena || !t->sample)
        return qg_nomem(t->ctx);
    const uint8_t *none = QG_NEWN(t->arena, g->value.n, uint8_t);
    if (!none)
        return qg_nomem(t->ctx);
    t->cut = (qg_cut){ .from = g, .target = target, .stop = none };
    QG_TRY(qg_cut_make(t->ctx, &t->cut));
    QG_TRY(find_inputs(t, g, feed));
    qg_plan_options o = { .mode = QG_MODE_FLOAT, .input = t->shape };
    QG_TRY(qg_plan_new(t->ctx, t->cut.graph, &o, &t->plan));
    return qg_run_new(t->ctx, t->plan, &t->run);
}

static void close_trial(trial *t)
{
    qg_run_free(t->run);
    qg_plan_free(t->plan);
    qg_graph_free(t->cut.graph);
    qg_arena_free(t->sample);
    qg_arena_free(t->arena);
}

static qg_status watch_sample(trial *t, const qg_feed *feed, size_t sample, qg_watch *w)
{
    qg_arena_reset(t->sample);
    QG_TRY(feed->fetch(feed->ud, t->ctx, t->sample, sample, t->in));
    for (size_t i = 0; i < t->cut.n_in; i++)
        t->taken[i] = t->in[t->input[i]];
    QG_TRY(qg_run_execute(t->run, t->taken, NULL, 0, sample));
    const qg_tensor *y = qg_run_output(t->run, 0);
    if (y->dtype == QG_F32)
        qg_watch_see(w, sample, y);
    return QG_OK;
}

static qg_status watch(trial *t, const qg_feed *feed, qg_watch *w)
{
    const size_t n = feed->n < QG_LEAST_EXAMINED ? feed->n : QG_LEAST_EXAMINED;
    const qg_value *y = t->cut.graph->output.at[0];
    QG_TRY(qg_watch_begin(t->ctx, t->arena, &y->type, true, w));
    for (size_t i = 0; w->channels && i < n; i++)
        QG_TRY(watch_sample(t, feed, i, w));
    return QG_OK;
}

qg_status qg_first_layer_judge(const qg_model *m, const qg_feed *feed, qg_findings *f)
{
    const qg_first_layer first = qg_first_layer_of(m->graph);
    trial t = { .ctx = m->ctx };
    qg_watch w;
    if (!first.value)
        return QG_OK;
    qg_status s = open_trial(&t, m, first.value, feed);
    if (s != QG_OK && qg_refusal(s) == QG_OK) { /* an operator that does not run */
        close_trial(&t);
        return QG_OK;
    }
    if (s == QG_OK)
        s = watch(&t, feed, &w);
    if (s == QG_OK)
        s = qg_judge_scale(f, &first.expected, &w, first.value->name);
    close_trial(&t);
    return s;
}
