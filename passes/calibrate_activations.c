/* calibrate-activations -- scales of what changes with the input, from samples.
 *
 * Every endpoint in INITIAL is watched while the samples run, one sample per worker;
 * the observers' states of all workers are merged, so the result does not depend on
 * how many there are.  The network runs in float, so statistics are the same for every
 * backend; PPQ runs it with weights rounded already (quirk
 * ppq-calibrate-on-quantized-weights). */
#include <assert.h>
#include <pthread.h>

#include "engine/exec/drive.h"
#include "engine/quant/observer.h"
#include "engine/quant/quirk.h"
#include "passes/passes.h"

/* One endpoint under observation. */
typedef struct watched {
    qg_tqc *tqc;
    const qg_observer *observer;
    qg_observe observe;
    size_t offset; /* of its state in a worker's block */
} watched;

typedef struct calibration {
    qg_pass_env *env;
    QG_VEC(watched) watch;
    uint32_t *index;      /* [TQCs] position in watch, or QG_NONE */
    size_t bytes;         /* of all states */
    char *total;          /* merged states */
    uint64_t *seen;       /* [watch] samples with something in them, all workers */
    pthread_mutex_t lock; /* of total and seen */
} calibration;

/* States of all watched endpoints as one worker has seen them. */
typedef struct worker {
    calibration *c;
    char *state;
    uint64_t *seen;
    qg_arena *scratch;
} worker;

/* --- in the workers --- */

/* The same layout in every worker and in the total. */
static void begin_states(const calibration *c, char *state)
{
    for (size_t i = 0; i < c->watch.n; i++) {
        const watched *w = &c->watch.at[i];
        w->observer->begin(&w->observe, state + w->offset);
    }
}

/* The block is zeroed and then begun: padding bytes are equal in all workers. */
static qg_status worker_begin(void *ud, qg_ctx *ctx, void **out)
{
    calibration *c = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *w = (worker){ .c = c,
                   .state = qg_arena_get(ctx->arena, 1, c->bytes),
                   .seen = QG_NEWN(ctx->arena, c->watch.n, uint64_t),
                   .scratch = qg_arena_new(ctx->alloc) };
    if (!w->state || !w->seen || !w->scratch) {
        qg_arena_free(w->scratch);
        return qg_nomem(ctx);
    }
    begin_states(c, w->state);
    *out = w;
    return QG_OK;
}

/* Called for every endpoint of a watched node; only those in the index count, and
 * only before they are rounded. */
static qg_status worker_see(void *state, qg_ctx *ctx, size_t sample,
                            const qg_endpoint *at, qg_tensor *value)
{
    assert(state && at && value);
    worker *w = state;
    uint32_t k = at->tqc && !at->rounded ? w->c->index[at->tqc->id] : QG_NONE;
    if (k == QG_NONE || qg_tensor_count(value) == 0)
        return QG_OK;
    const watched *v = &w->c->watch.at[k];
    qg_arena_reset(w->scratch);
    w->seen[k]++;
    qg_status s = v->observer->see(ctx, &v->observe, w->state + v->offset, sample,
                                   value, w->scratch);
    if (s != QG_ENUMERIC)
        return s;
    char text[QG_ENDPOINT_TEXT];
    return qg_fail(ctx, s,
                   "calibrate: %s: sample %zu gives a NaN or an infinity, expected "
                   "finite numbers",
                   qg_tqc_text(at->tqc, text), sample);
}

/* Merging is exact, so the order in which workers finish does not matter. */
static void worker_end(void *ud, void *state)
{
    calibration *c = ud;
    worker *w = state;
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->watch.n; i++) {
        const watched *v = &c->watch.at[i];
        v->observer->merge(&v->observe, c->total + v->offset, w->state + v->offset);
        c->seen[i] += w->seen[i];
    }
    (void)pthread_mutex_unlock(&c->lock);
    qg_arena_free(w->scratch);
}

/* --- around them --- */

/* An unknown name of --observer is kept, so that qg_observe_begin names it in its
 * message. */
static qg_status watch_one(calibration *c, qg_tqc *t, size_t samples)
{
    assert(c->index && t->id < c->env->quant->tqc.n);
    qg_pass_env *env = c->env;
    watched w = { .tqc = t, .offset = c->bytes };
    if (env->options.observer) {
        qg_observer_setting o = t->observer;
        const qg_observer *known = qg_observer_find(env->options.observer);
        o.name = known ? known->name : env->options.observer;
        QG_TRY(qg_tqc_set_observer(env->quant, t, &o));
    }
    QG_TRY(qg_observe_begin(env->ctx, t, &qg_tqc_value(t)->type, samples, &w.observer,
                            &w.observe));
    c->bytes += (w.observer->bytes(&w.observe) + 15) / 16 * 16;
    c->index[t->id] = (uint32_t)c->watch.n;
    return qg_vec_push(env->ctx, env->graph->arena, &c->watch, w);
}

/* Constants are calibrate-parameters' business. */
static qg_status choose(calibration *c, size_t samples)
{
    const qg_quant *q = c->env->quant;
    c->index = QG_NEWN(c->env->graph->arena, q->tqc.n, uint32_t);
    if (!c->index)
        return qg_nomem(c->env->ctx);
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        c->index[i] = QG_NONE;
        if (t->state == QG_TQC_INITIAL && !qg_tqc_is_constant(t))
            QG_TRY(watch_one(c, t, samples));
    }
    return QG_OK;
}

/* The plan is shared; everything that changes is the workers'. */
static qg_status drive(calibration *c, const qg_plan *plan, size_t samples)
{
    qg_pass_env *env = c->env;
    qg_drive d = { .plan = plan,
                   .feed = env->feed,
                   .n = samples,
                   .jobs = env->options.jobs,
                   .ud = c,
                   .begin = worker_begin,
                   .end = worker_end,
                   .see = worker_see,
                   .progress = env->progress,
                   .progress_ud = env->ud };
    return qg_drive_run(env->ctx, &d);
}

/* The context's plan lives as long as the samples run. */
static qg_status run_samples(calibration *c, size_t samples)
{
    qg_pass_env *env = c->env;
    qg_arena *a = env->graph->arena;
    bool quantized_weights =
        (env->quant->quirks & QG_QUIRK(PPQ_QUANTIZED_WEIGHTS)) != 0;
    uint8_t *nodes = QG_NEWN(a, env->graph->node.n, uint8_t);
    qg_plan *plan;
    c->total = qg_arena_get(a, 1, c->bytes);
    c->seen = QG_NEWN(a, c->watch.n, uint64_t);
    if (!nodes || !c->total || !c->seen)
        return qg_nomem(env->ctx);
    begin_states(c, c->total);
    for (size_t i = 0; i < c->watch.n; i++)
        nodes[c->watch.at[i].tqc->node->id] = 1;
    qg_plan_options o = { .mode = quantized_weights ? QG_MODE_SIMULATE : QG_MODE_FLOAT,
                          .quant = env->quant,
                          .watch = nodes,
                          .reference = env->options.reference };
    QG_TRY(qg_plan_new(env->ctx, env->graph, &o, &plan));
    (void)pthread_mutex_init(&c->lock, NULL);
    qg_status s = drive(c, plan, samples);
    (void)pthread_mutex_destroy(&c->lock);
    qg_plan_free(plan);
    return s;
}

/* In order of endpoints: scales, then state ACTIVATED. */
static qg_status finish(calibration *c)
{
    assert(c->total && c->seen);
    for (size_t i = 0; i < c->watch.n; i++) {
        const watched *w = &c->watch.at[i];
        char at[QG_ENDPOINT_TEXT];
        if (c->seen[i] == 0)
            return qg_fail(
                c->env->ctx, QG_EDATA,
                "calibrate: %s: every sample is empty there, expected at least "
                "one value",
                qg_tqc_text(w->tqc, at));
        QG_TRY(qg_observe_finish(c->env->quant, w->tqc, w->observer, &w->observe,
                                 c->total + w->offset));
        c->env->changed++;
    }
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    calibration c = { .env = env };
    size_t samples = env->feed ? env->feed->n : 0;
    if (env->options.samples && env->options.samples < samples)
        samples = env->options.samples;
    QG_TRY(choose(&c, samples));
    if (c.watch.n == 0)
        return QG_OK;
    if (samples == 0)
        return qg_fail(env->ctx, QG_EDATA,
                       "calibrate: there are %zu endpoints and no "
                       "samples, expected calibration data",
                       c.watch.n);
    QG_TRY(run_samples(&c, samples));
    return finish(&c);
}

const qg_pass qg_pass_calibrate_activations = {
    .name = "calibrate-activations",
    .summary = "scales of activations, from samples",
    .needs = QG_A_TOPO | QG_A_SHAPE | QG_A_TQC,
    .run = run,
};
