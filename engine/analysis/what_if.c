#include "engine/analysis/what_if.h"

#include <assert.h>
#include <math.h>

#include "engine/analysis/measure.h"
#include "engine/session/session.h"
#include "engine/exec/meter.h"
#include "engine/exec/pool.h"

/* Questions that are answered together. */
typedef struct asking {
    qg_study *s;
    qg_arena *arena;
    size_t n;       /* questions */
    qg_plan **plan; /* [n] */
    const qg_plan *base;
    const qg_plan *real; /* NULL: the base is the float network */
    size_t block;        /* bytes that the largest plan needs */
    double *value;       /* [samples][n][outputs] */
    qg_meter meter;
} asking;

typedef struct worker {
    asking *a;
    qg_arena *sample;
    qg_run *base, *real;
    qg_run **run;         /* [n] */
    const qg_tensor **in; /* [graph inputs] */
    double *base_error;   /* [outputs] */
} worker;

uint32_t qg_study_worst(const qg_study *s, const double *error)
{
    uint32_t worst = QG_NONE;
    for (uint32_t k = 0; k < s->graph->output.n; k++) {
        bool worse = worst == QG_NONE || (isnan(error[k]) && !isnan(error[worst]));
        if (!worse && s->metric->higher_is_better)
            worse = error[k] < error[worst];
        else if (!worse)
            worse = error[k] > error[worst];
        if (worse)
            worst = k;
    }
    assert(worst != QG_NONE);
    return worst;
}

/* --- one sample --- */

static qg_status measure(const worker *w, qg_ctx *ctx, size_t k, const qg_run *r,
                         double *out)
{
    const qg_study *s = w->a->s;
    return qg_measure_value(ctx, s->metric, s->graph->output.at[k],
                            qg_run_output(w->real ? w->real : w->base, k),
                            qg_run_output(r, k), out);
}

/* Outputs that the question does not reach have the error of the base. */
static bool reaches(const qg_plan *p, size_t k)
{
    return !p->options.base || p->tensor.at[p->output[k]].kind != QG_TENSOR_BASE;
}

static qg_status ask_one(worker *w, qg_ctx *ctx, size_t i, size_t sample)
{
    asking *a = w->a;
    qg_run *r = w->run[i];
    size_t n_out = a->s->graph->output.n;
    double *value = a->value + (sample * a->n + i) * n_out;
    QG_TRY(qg_meter_add(&a->meter, ctx, 0)); /* a round may be hundreds of runs */
    if (a->s->whole)
        QG_TRY(qg_run_execute(r, w->in, NULL, 0, sample));
    else
        QG_TRY(qg_run_execute_from(r, w->base, NULL, 0, sample));
    for (size_t k = 0; k < n_out; k++) {
        value[k] = w->base_error[k];
        if (reaches(a->plan[i], k))
            QG_TRY(measure(w, ctx, k, r, &value[k]));
    }
    return QG_OK;
}

static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t sample)
{
    asking *a = ud;
    worker *w = state;
    size_t n_out = a->s->graph->output.n;
    qg_arena_reset(w->sample);
    QG_TRY(a->s->feed->fetch(a->s->feed->ud, ctx, w->sample, sample, w->in));
    QG_TRY(qg_run_execute(w->base, w->in, NULL, 0, sample));
    if (w->real)
        QG_TRY(qg_run_execute(w->real, w->in, NULL, 0, sample));
    for (size_t k = 0; k < n_out; k++)
        QG_TRY(measure(w, ctx, k, w->base, &w->base_error[k]));
    for (size_t i = 0; i < a->n; i++)
        QG_TRY(ask_one(w, ctx, i, sample));
    return qg_meter_add(&a->meter, ctx, 1);
}

/* --- workers --- */

static qg_status make_runs(worker *w, qg_ctx *ctx)
{
    const asking *a = w->a;
    void *block = qg_arena_raw(ctx->arena, a->block, 1);
    if (!block)
        return qg_nomem(ctx);
    QG_TRY(qg_run_new(ctx, a->base, &w->base));
    if (a->real)
        QG_TRY(qg_run_new(ctx, a->real, &w->real));
    for (size_t i = 0; i < a->n; i++)
        QG_TRY(qg_run_new_in(ctx, a->plan[i], block, &w->run[i]));
    return QG_OK;
}

static qg_status begin(void *ud, qg_ctx *ctx, void **state)
{
    asking *a = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *state = w; /* released by end, however far we come */
    w->a = a;
    w->run = QG_NEWN(ctx->arena, a->n, qg_run *);
    w->in = QG_NEWN(ctx->arena, a->s->graph->input.n, const qg_tensor *);
    w->base_error = QG_NEWN(ctx->arena, a->s->graph->output.n, double);
    w->sample = qg_arena_new(ctx->alloc);
    if (!w->run || !w->in || !w->base_error || !w->sample)
        return qg_nomem(ctx);
    return make_runs(w, ctx);
}

static void end(void *ud, void *state)
{
    worker *w = state;
    (void)ud;
    for (size_t i = 0; w->run && i < w->a->n; i++)
        qg_run_free(w->run[i]);
    qg_run_free(w->base);
    qg_run_free(w->real);
    qg_arena_free(w->sample);
}

/* Of column i: sqrt(sum (x - mean)^2 / (n (n - 1))); 0 for a single sample. */
static double standard_error(const asking *a, size_t i, double mean)
{
    size_t row = a->n * a->s->graph->output.n, samples = a->s->feed->n;
    double sum = 0;
    for (size_t k = 0; k < samples; k++)
        sum += (a->value[k * row + i] - mean) * (a->value[k * row + i] - mean);
    return samples > 1 ? sqrt(sum / ((double)samples * (double)(samples - 1))) : 0;
}

/* Sums in order of samples. */
static void average(const asking *a, double *error, double *doubt)
{
    size_t row = a->n * a->s->graph->output.n, samples = a->s->feed->n;
    for (size_t i = 0; i < row; i++) {
        double sum = 0;
        for (size_t k = 0; k < samples; k++)
            sum += a->value[k * row + i];
        error[i] = sum / (double)samples;
        if (doubt)
            doubt[i] = standard_error(a, i, error[i]);
    }
}

/* Over all rounds. */
static void note_strange(const asking *a)
{
    size_t row = a->n * a->s->graph->output.n;
    a->s->strange = qg_first_not_finite(a->value, a->s->strange, row);
}

static qg_status ask_round(asking *a, double *error, double *doubt)
{
    size_t samples = a->s->feed->n;
    a->value = QG_NEWN(a->arena, samples * a->n * a->s->graph->output.n, double);
    if (!a->value)
        return qg_nomem(a->s->ctx);
    qg_job job = { .n = samples,
                   .workers = a->s->work->jobs,
                   .begin = begin,
                   .work = work,
                   .end = end,
                   .ud = a,
                   .meter = &a->meter };
    QG_TRY(qg_pool_run(a->s->ctx, &job));
    average(a, error, doubt);
    note_strange(a);
    return QG_OK;
}

/* --- plans --- */

static qg_status plan_base(const qg_study *s, bool rounds, qg_plan **out)
{
    qg_plan_options o = { .mode = rounds ? QG_MODE_SIMULATE : QG_MODE_FLOAT,
                          .quant = s->quant,
                          .input = s->feed->shape,
                          .threads = qg_pool_share(s->work->jobs, s->feed->n),
                          .reference = s->work->reference_kernels,
                          .keep_all = rounds == s->rounding_base };
    return qg_plan_new(s->ctx, s->graph, &o, out);
}

/* Of a constant v: whether the question has that of the float network. */
static bool is_untuned(const qg_study *s, const qg_what_if *q, const qg_value *v)
{
    bool any = false;
    if (q->untuned || !q->mute)
        return q->untuned;
    for (uint32_t i = 0; i < v->use.n; i++) {
        const qg_tqc *t =
            qg_endpoint_tqc(qg_input_at(v->use.at[i].node, v->use.at[i].slot));
        if (t && !q->mute[t->id])
            return false;
        any = any || t;
    }
    return any || !s->rounding_base;
}

static const uint8_t *untuned_of(const asking *a, const qg_what_if *q)
{
    const qg_graph *g = a->s->graph;
    uint8_t *untuned = QG_NEWN(a->arena, g->value.n, uint8_t);
    for (size_t i = 0; untuned && i < g->value.n; i++)
        untuned[i] = g->value.at[i]->constant && is_untuned(a->s, q, g->value.at[i]);
    return untuned;
}

/* Plans of as many questions as fit into one round; *asked is their number. */
static qg_status plan_round(asking *a, const qg_what_if *question, size_t n,
                            size_t *asked)
{
    size_t tensors = 0;
    a->n = 0;
    a->block = QG_ARENA_ALIGN;
    a->plan = QG_NEWN(a->arena, n, qg_plan *);
    if (!a->plan)
        return qg_nomem(a->s->ctx);
    while (a->n < n && a->n < QG_WHAT_IF_ROUND && tensors < QG_WHAT_IF_TENSORS) {
        qg_plan_options o = { .mode = QG_MODE_SIMULATE,
                              .quant = a->s->quant,
                              .input = a->s->feed->shape,
                              .threads = a->s->whole ? 1 : a->base->options.threads,
                              .reference = a->s->work->reference_kernels,
                              .mute = question[a->n].mute,
                              .untuned = untuned_of(a, &question[a->n]),
                              .instead = question[a->n].instead,
                              .base = a->s->whole ? NULL : a->base };
        qg_plan **p = &a->plan[a->n];
        if (!o.untuned)
            return qg_nomem(a->s->ctx);
        QG_TRY(qg_plan_new(a->s->ctx, a->s->graph, &o, p));
        a->n++;
        tensors += (*p)->tensor.n;
        a->block = (*p)->report.bytes > a->block ? (*p)->report.bytes : a->block;
        a->s->nodes_run += (*p)->report.nodes;
        a->s->nodes_whole += a->base->report.nodes;
    }
    *asked = a->n;
    return QG_OK;
}

static qg_status ask_rounds(asking *a, const qg_what_if *question, size_t n,
                            double *error)
{
    const size_t n_out = a->s->graph->output.n;
    qg_status st = QG_OK;
    for (size_t i = 0, asked = 0; st == QG_OK && i < n; i += asked) {
        qg_arena_reset(a->arena);
        a->meter.done = 0;
        st = plan_round(a, question + i, n - i, &asked);
        if (st == QG_OK)
            st = ask_round(a, error + i * n_out,
                           a->s->doubt ? a->s->doubt + i * n_out : NULL);
        for (size_t k = 0; k < a->n; k++)
            qg_plan_free(a->plan[k]);
    }
    return st;
}

qg_status qg_study_ask(qg_study *s, const qg_what_if *question, size_t n, double *error)
{
    assert(s->feed && s->feed->n > 0 && s->metric && s->quant);
    qg_plan *base = NULL, *real = NULL;
    s->strange = s->feed->n;
    asking a = { .s = s, .arena = qg_arena_new(s->ctx->alloc) };
    qg_status st = a.arena ? plan_base(s, s->rounding_base, &base) : qg_nomem(s->ctx);
    if (st == QG_OK && s->rounding_base)
        st = plan_base(s, false, &real);
    a.base = base;
    a.real = real;
    qg_meter_begin(&a.meter, &s->work->progress, s->stage, s->feed->n);
    if (st == QG_OK)
        st = ask_rounds(&a, question, n, error);
    qg_meter_end(&a.meter);
    qg_plan_free(real);
    qg_plan_free(base);
    qg_arena_free(a.arena);
    return st;
}
