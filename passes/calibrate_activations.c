/* calibrate-activations -- scales of what changes with the input, from samples.
 *
 * Every endpoint in INITIAL is watched while the samples run, one sample per worker.
 * The samples run as often as the observer that needs most passes; in a later pass only
 * those are watched that asked for it, and the others have their scales already.
 *
 *   unordered  each worker has states of its own, which are merged exactly: the result
 *              does not depend on how many workers there are
 *   ordered    one state; a worker waits at such an endpoint until the samples before
 *              its own have passed it.  The worker with the lowest sample never waits.
 *
 *   statistics what an observer reads (calib/derive.h) is collected once per value in
 *              the first pass, under locks; or it was collected before (env->stats),
 *              and then nothing runs
 *
 * The network runs in float, so statistics are the same for every backend; PPQ runs it
 * with weights rounded already, and in later passes with what has a scale by then
 * (quirk ppq-calibrate-on-quantized-weights). */
#include <assert.h>
#include <pthread.h>

#include "engine/exec/pool.h"
#include "passes/passes.h"
#include "passes/util_statistics.h"

/* One endpoint under observation. */
typedef struct watched {
    qg_tqc *tqc;
    qg_observe observe; /* pass: at work; above the last: its scale is there */
    size_t offset;      /* of its state in a block of states */
    uint64_t seen;      /* samples with something in them, this pass, all workers */
    size_t turn;        /* ordered: the sample that may pass next */
    uint32_t entry;     /* of the statistics that it reads, or QG_NONE */
    bool collects;      /* this endpoint adds to them; others only read */
    float *scale;       /* [channels] what was found */
    int32_t *zero;      /* [channels] offsets */
    qg_confidence sure; /* settled 0: nothing tells */
} watched;

typedef struct calibration {
    qg_pass_env *env;
    QG_VEC(watched) watch;
    uint32_t *index; /* [TQCs] position in watch, or QG_NONE */
    size_t samples;
    unsigned pass;
    size_t bytes;         /* of all states */
    char *start;          /* states at the beginning of the pass: every worker's too */
    char *total;          /* merged states; those of ordered observers are only here */
    qg_arena *keep;       /* what the states of unordered observers point to */
    pthread_mutex_t lock; /* of all below, and of total */
    pthread_cond_t moved; /* a turn, or failed */
    size_t failed;        /* lowest sample that failed, or SIZE_MAX */
    qg_pass_stats stats;
} calibration;

/* States of all watched endpoints as one worker has seen them. */
typedef struct worker {
    calibration *c;
    char *state;
    uint64_t *seen;
    qg_arena *scratch;
} worker;

static bool is_watched(const watched *w, unsigned pass)
{
    return w->observe.observer->passes > pass;
}

static bool has_state(const watched *w) { return !w->observe.observer->pick; }

/* --- in the workers --- */

/* A copy of what is known before this pass; padding is equal in all workers. */
static qg_status worker_begin(void *ud, qg_ctx *ctx, void **out)
{
    calibration *c = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *w = (worker){ .c = c,
                   .state = qg_arena_raw(ctx->arena, 1, c->bytes),
                   .seen = QG_NEWN(ctx->arena, c->watch.n, uint64_t),
                   .scratch = qg_arena_new(ctx->alloc) };
    if (!w->state || !w->seen || !w->scratch) {
        qg_arena_free(w->scratch);
        return qg_nomem(ctx);
    }
    memcpy(w->state, c->start, c->bytes);
    *out = w;
    return QG_OK;
}

/* False when a sample before this one failed: its turn will not come. */
static bool await_turn(calibration *c, const watched *v, size_t sample)
{
    (void)pthread_mutex_lock(&c->lock);
    while (v->turn < sample && c->failed > sample)
        (void)pthread_cond_wait(&c->moved, &c->lock);
    bool mine = c->failed > sample;
    (void)pthread_mutex_unlock(&c->lock);
    return mine;
}

static void end_turn(calibration *c, watched *v, size_t sample)
{
    (void)pthread_mutex_lock(&c->lock);
    assert(v->turn >= sample);
    if (v->turn == sample) /* else later samples have passed since */
        v->turn = sample + 1;
    (void)pthread_cond_broadcast(&c->moved);
    (void)pthread_mutex_unlock(&c->lock);
}

/* What the observer does with a tensor: adds to its statistics, or to its state. */
static qg_status look(worker *w, qg_ctx *ctx, size_t k, size_t sample,
                      const qg_tensor *x)
{
    calibration *c = w->c;
    watched *v = &c->watch.at[k];
    const qg_observer *ob = v->observe.observer;
    if (!has_state(v))
        return v->collects ? qg_collector_see(&c->stats.collector, ctx, v->entry,
                                              sample, x, w->scratch)
                           : QG_OK;
    if (ob->ordered && !await_turn(c, v, sample))
        return QG_OK;
    qg_arena_reset(w->scratch);
    w->seen[k]++;
    char *state = (ob->ordered ? c->total : w->state) + v->offset;
    qg_status s = ob->see(ctx, &v->observe, state, sample, x, w->scratch);
    if (ob->ordered && s == QG_OK)
        end_turn(c, v, sample);
    return s;
}

/* Called for every endpoint of a watched node; only those in the index count, and
 * only before they are rounded. */
static qg_status worker_see(void *state, qg_ctx *ctx, size_t sample,
                            const qg_endpoint *at, qg_tensor *value)
{
    assert(state && at && value);
    worker *w = state;
    calibration *c = w->c;
    uint32_t k = at->tqc && !at->rounded ? c->index[at->tqc->id] : QG_NONE;
    if (k == QG_NONE || !is_watched(&c->watch.at[k], c->pass) ||
        qg_tensor_count(value) == 0)
        return QG_OK;
    qg_status s = look(w, ctx, k, sample, value);
    if (s != QG_ENUMERIC)
        return s;
    char text[QG_ENDPOINT_TEXT];
    return qg_fail(ctx, s,
                   "calibrate: %s: sample %zu gives a NaN or an infinity, expected "
                   "finite numbers",
                   qg_tqc_text(at->tqc, text), sample);
}

/* Endpoints that this sample did not reach, or left empty, must not hold the next. */
static qg_status worker_done(void *ud, qg_ctx *ctx, void *state, size_t sample,
                             const qg_run *r)
{
    calibration *c = ud;
    (void)ctx;
    (void)state;
    (void)r;
    for (size_t i = 0; i < c->watch.n; i++) {
        watched *v = &c->watch.at[i];
        if (v->observe.observer->ordered && is_watched(v, c->pass) &&
            await_turn(c, v, sample))
            end_turn(c, v, sample);
    }
    return QG_OK;
}

static void sample_failed(void *ud, size_t sample)
{
    calibration *c = ud;
    (void)pthread_mutex_lock(&c->lock);
    c->failed = sample < c->failed ? sample : c->failed;
    (void)pthread_cond_broadcast(&c->moved);
    (void)pthread_mutex_unlock(&c->lock);
}

/* Merging is exact, so the order in which workers finish does not matter. */
static void worker_end(void *ud, void *state)
{
    calibration *c = ud;
    worker *w = state;
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->watch.n; i++) {
        watched *v = &c->watch.at[i];
        const qg_observer *ob = v->observe.observer;
        if (has_state(v) && !ob->ordered && is_watched(v, c->pass))
            ob->merge(&v->observe, c->total + v->offset, w->state + v->offset);
        v->seen += w->seen[i];
    }
    (void)pthread_mutex_unlock(&c->lock);
    qg_arena_free(w->scratch);
}

/* --- what is watched --- */

/* The journal says who chose the observer; the report which are at work. */
static qg_status count_use(qg_pass_env *env, const qg_observer *ob)
{
    for (size_t i = 0; i < env->observers.n; i++)
        if (env->observers.at[i].observer == ob->name) {
            env->observers.at[i].endpoints++;
            return QG_OK;
        }
    qg_observer_use use = { ob->name, 1, ob->passes, ob->ordered };
    return qg_vec_push(env->ctx, env->graph->arena, &env->observers, use);
}

/* What --observer says replaces the observer with all that it was told, but for
 * min-scale.  A scale that is prescribed stays: it is no matter of data. */
static qg_status replace_observer(qg_pass_env *env, qg_tqc *t,
                                  const qg_observer_setting *given)
{
    const qg_observer *own =
        t->observer.name ? qg_observer_find(t->observer.name) : NULL;
    qg_observer_setting o = *given;
    if (own && own->value[QG_PARAM_STEP] != 0)
        return QG_OK;
    if (o.value[QG_PARAM_MIN_SCALE] == 0)
        o.value[QG_PARAM_MIN_SCALE] = t->observer.value[QG_PARAM_MIN_SCALE];
    return qg_tqc_set_observer(env->quant, t, &o);
}

/* Whoever wants samples of its own cannot be served from a file. */
static qg_status refuse_given(qg_pass_env *env, const qg_tqc *t, const qg_observer *ob)
{
    char at[QG_ENDPOINT_TEXT];
    return qg_fail(env->ctx, QG_ECONFIG,
                   "calibrate: %s: observer %s looks at samples itself (%s), expected "
                   "one that reads statistics: minmax, percentile, kl, mse, ...",
                   qg_tqc_text(t, at), ob->name, ob->summary);
}

static qg_status watch_one(calibration *c, qg_tqc *t)
{
    assert(c->index && t->id < c->env->quant->tqc.n);
    qg_pass_env *env = c->env;
    watched w = { .tqc = t, .offset = c->bytes };
    QG_TRY(
        qg_observe_begin(env->ctx, t, &qg_tqc_value(t)->type, c->samples, &w.observe));
    const qg_observer *ob = w.observe.observer;
    w.observe.quirks = qg_range_quirks(env->quant->quirks);
    w.scale = QG_NEWN(env->graph->arena, w.observe.channels, float);
    w.zero = QG_NEWN(env->graph->arena, w.observe.channels, int32_t);
    if (!w.scale || !w.zero)
        return qg_nomem(env->ctx);
    if (!has_state(&w) && ob->blind)
        w.entry = QG_NONE;
    else if (!has_state(&w))
        QG_TRY(qg_pass_stats_want(&c->stats, &w.observe, qg_tqc_value(t), &w.entry,
                                  &w.collects));
    else if (env->stats)
        return refuse_given(env, t, ob);
    else
        c->bytes += (ob->bytes(&w.observe) + 15) / 16 * 16;
    c->index[t->id] = (uint32_t)c->watch.n;
    QG_TRY(count_use(env, w.observe.observer));
    QG_TRY(qg_vec_reserve(env->ctx, env->graph->arena, &c->watch));
    w.observe.keep = ob->ordered ? qg_arena_new(env->ctx->alloc) : c->keep;
    if (!w.observe.keep)
        return qg_nomem(env->ctx);
    c->watch.at[c->watch.n++] = w; /* from here on run() frees keep */
    return QG_OK;
}

/* Constants are calibrate-parameters' business. */
static qg_status choose(calibration *c)
{
    qg_pass_env *env = c->env;
    const qg_quant *q = env->quant;
    const char *text = env->options.observer;
    qg_observer_setting given;
    if (text)
        QG_TRY(qg_observer_parse(env->ctx, text, &given));
    c->index = QG_NEWN(env->graph->arena, q->tqc.n, uint32_t);
    c->keep = qg_arena_new(env->ctx->alloc);
    if (!c->index || !c->keep)
        return qg_nomem(env->ctx);
    env->observers.n = env->settled.n = 0;
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        c->index[i] = QG_NONE;
        bool off = t->state == QG_TQC_FP32 || t->state == QG_TQC_SOI;
        if (qg_tqc_is_constant(t))
            continue;
        if (text && !off) /* those that are silent say so too */
            QG_TRY(replace_observer(env, t, &given));
        if (t->state != QG_TQC_INITIAL)
            continue;
        QG_TRY(qg_observer_adopt(env->quant, t));
        QG_TRY(watch_one(c, t));
    }
    QG_TRY(qg_pass_stats_open(&c->stats));
    for (size_t i = 0; i < c->watch.n; i++)
        if (!has_state(&c->watch.at[i]) && c->watch.at[i].entry != QG_NONE)
            c->watch.at[i].observe.stats =
                c->stats.wanted.at[c->watch.at[i].entry].stats;
    return QG_OK;
}

/* Zeroed and then begun. */
static qg_status begin_states(calibration *c)
{
    qg_arena *a = c->env->graph->arena;
    c->start = qg_arena_get(a, 1, c->bytes);
    c->total = qg_arena_get(a, 1, c->bytes);
    if (!c->start || !c->total)
        return qg_nomem(c->env->ctx);
    for (size_t i = 0; i < c->watch.n; i++) {
        const qg_observe *o = &c->watch.at[i].observe;
        if (o->observer->begin)
            o->observer->begin(o, c->total + c->watch.at[i].offset);
    }
    return QG_OK;
}

/* --- one pass over the samples --- */

/* The plan is shared; everything that changes is the workers'. */
static qg_status drive(calibration *c, const qg_plan *plan)
{
    qg_pass_env *env = c->env;
    qg_drive d = { .plan = plan,
                   .feed = env->feed,
                   .n = c->samples,
                   .jobs = env->options.jobs,
                   .ud = c,
                   .begin = worker_begin,
                   .done = worker_done,
                   .end = worker_end,
                   .failed = sample_failed,
                   .see = worker_see,
                   .progress = env->progress,
                   .progress_ud = env->ud };
    return qg_drive_run(env->ctx, &d);
}

/* What quirks change: a plain mode, since the plan takes it as such. */
typedef struct behaviours {
    enum qg_mode mode; /* of the network whose activations are observed */
} behaviours;

static const behaviours ordinary = { .mode = QG_MODE_FLOAT };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_QUANTIZED_WEIGHTS,
            "activations are observed while weights are rounded already",
            QG_PPQ "quantization/optim/calibration.py RuntimeCalibrationPass",
            behaviours, mode, QG_MODE_SIMULATE),
    { 0 },
};

/* The pass's plan lives as long as the samples run. */
static qg_status run_samples(calibration *c)
{
    qg_pass_env *env = c->env;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    uint8_t *nodes = QG_NEWN(env->graph->arena, env->graph->node.n, uint8_t);
    qg_plan *plan;
    if (!nodes)
        return qg_nomem(env->ctx);
    for (size_t i = 0; i < c->watch.n; i++) {
        watched *w = &c->watch.at[i];
        w->seen = 0;
        w->turn = 0;
        nodes[w->tqc->node->id] |= is_watched(w, c->pass);
    }
    memcpy(c->start, c->total, c->bytes);
    c->failed = SIZE_MAX;
    qg_plan_options o = { .mode = how.mode,
                          .quant = env->quant,
                          .input = env->feed->shape,
                          .watch = nodes,
                          .reference = env->options.reference };
    QG_TRY(qg_plan_new(env->ctx, env->graph, &o, &plan));
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->moved, NULL);
    qg_status s = drive(c, plan);
    (void)pthread_cond_destroy(&c->moved);
    (void)pthread_mutex_destroy(&c->lock);
    qg_plan_free(plan);
    return s;
}

/* --- what a pass found --- */

/* The state becomes what the next pass starts with. */
static qg_status end_pass(calibration *c, watched *w)
{
    char at[QG_ENDPOINT_TEXT];
    qg_observe *o = &w->observe;
    if (has_state(w) && w->seen == 0)
        return qg_fail(c->env->ctx, QG_EDATA,
                       "calibrate: %s: every sample is empty there, expected at least "
                       "one value",
                       qg_tqc_text(w->tqc, at));
    o->pass++;
    return o->pass < o->observer->passes && o->observer->next
               ? o->observer->next(c->env->ctx, o, c->total + w->offset)
               : QG_OK;
}

static bool is_last(const watched *w, unsigned pass)
{
    return w->observe.observer->passes == pass + 1;
}

static qg_status find_begin(void *ud, qg_ctx *ctx, void **scratch)
{
    (void)ud;
    *scratch = qg_arena_new(ctx->alloc);
    return *scratch ? QG_OK : qg_nomem(ctx);
}

static void find_end(void *ud, void *scratch)
{
    (void)ud;
    qg_arena_free(scratch);
}

/* Searches take up to some milliseconds, and the confidence 32 coarse ones more. */
static qg_status find_one(void *ud, qg_ctx *ctx, void *scratch, size_t i)
{
    const calibration *c = ud;
    watched *w = &c->watch.at[i];
    const qg_observe *o = &w->observe;
    qg_qparam p;
    if (!is_last(w, c->pass))
        return QG_OK;
    qg_arena_reset(scratch);
    const void *state = has_state(w) ? c->total + w->offset : NULL;
    QG_TRY(qg_observe_find(ctx, w->tqc, o, state, scratch, &p));
    assert(p.n == o->channels);
    memcpy(w->scale, p.scale, p.n * sizeof *w->scale);
    memcpy(w->zero, p.offset, p.n * sizeof *w->zero);
    return qg_stats_tell(o) ? qg_stats_confidence(ctx, o, o->quirks, scratch, &w->sure)
                            : QG_OK;
}

/* Its scale, and state ACTIVATED. */
static qg_status give(calibration *c, watched *w)
{
    qg_pass_env *env = c->env;
    env->changed++;
    QG_TRY(
        qg_tqc_set_param(env->quant, w->tqc, w->observe.channels, w->scale, w->zero));
    QG_TRY(qg_tqc_set_state(env->quant, w->tqc, QG_TQC_ACTIVATED));
    return w->sure.settled ? qg_pass_stats_settled(&c->stats, w->tqc, &w->sure) : QG_OK;
}

/* In order of endpoints, but that workers share the searches. */
static qg_status settle_all(calibration *c)
{
    qg_job job = {
        c->watch.n, c->env->options.jobs, find_begin, find_one, find_end, c
    };
    for (size_t i = 0; i < c->watch.n; i++)
        if (is_watched(&c->watch.at[i], c->pass))
            QG_TRY(end_pass(c, &c->watch.at[i]));
    QG_TRY(qg_pool_run(c->env->ctx, &job));
    for (size_t i = 0; i < c->watch.n; i++)
        if (is_last(&c->watch.at[i], c->pass))
            QG_TRY(give(c, &c->watch.at[i]));
    return QG_OK;
}

/* --- all of it --- */

static qg_status calibrate(calibration *c)
{
    unsigned passes = 0;
    QG_TRY(qg_pass_stats_begin(c->env, &c->stats));
    QG_TRY(choose(c));
    if (c->env->stats)
        return settle_all(c);
    for (size_t i = 0; i < c->watch.n; i++) {
        unsigned n = c->watch.at[i].observe.observer->passes;
        passes = n > passes ? n : passes;
    }
    if (passes > 0 && c->samples == 0)
        return qg_fail(c->env->ctx, QG_EDATA,
                       "calibrate: there are %zu endpoints and no "
                       "samples, expected calibration data",
                       c->watch.n);
    QG_TRY(begin_states(c));
    for (c->pass = 0; c->pass < passes; c->pass++) {
        QG_TRY(run_samples(c));
        if (c->pass == 0) /* statistics are of the first pass */
            QG_TRY(qg_stats_mark(c->stats.own, 0, c->samples));
        QG_TRY(settle_all(c));
    }
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    calibration c = { .env = env, .samples = env->feed ? env->feed->n : 0 };
    if (env->options.samples && env->options.samples < c.samples)
        c.samples = env->options.samples;
    qg_status s = calibrate(&c);
    for (size_t i = 0; i < c.watch.n; i++)
        if (c.watch.at[i].observe.keep != c.keep)
            qg_arena_free(c.watch.at[i].observe.keep);
    qg_arena_free(c.keep);
    qg_pass_stats_end(&c.stats);
    return s;
}

const qg_pass qg_pass_calibrate_activations = {
    .name = "calibrate-activations",
    .summary = "scales of activations, from samples",
    .needs = QG_A_TOPO | QG_A_SHAPE | QG_A_TQC,
    .run = run,
    .quirk = quirk,
};
