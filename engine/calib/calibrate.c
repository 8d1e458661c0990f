#include "engine/calib/calibrate.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "engine/calib/exponents.h"
#include "engine/calib/mask.h"
#include "engine/calib/observe.h"
#include "engine/calib/readings.h"
#include "engine/exec/meter.h"
#include "engine/exec/pool.h"
#include "engine/quant/quirk.h"

/* One endpoint under observation. */
typedef struct watched {
    qg_tqc *tqc;
    qg_observe observe; /* pass: at work; above the last: its scale is there */
    size_t offset;      /* of its state in a block of states */
    uint64_t seen;      /* samples with something in them, this pass, all workers */
    size_t turn;        /* ordered: the sample that may pass next */
    uint32_t entry;     /* of the statistics that it reads, or QG_NONE */
    bool collects;      /* this endpoint adds to them; others only read */
    float *scale;       /* [channels] results */
    int32_t *zero;      /* [channels] offsets */
    qg_confidence sure; /* settled 0: unknown */
    uint64_t elements;  /* too few for its observer; 0: enough */
    bool masked;        /* a sample has -inf there; written under the lock, and read
                         * between passes only */
    bool empty;         /* no sample has an element there: seen after the first pass */
    size_t far;         /* the first sample with numbers far from all others, as a mask
                         * has them, or SIZE_MAX; written and read as masked */
} watched;

typedef struct calibration {
    qg_ctx *ctx;
    const qg_calibrate *in;
    qg_calibrated *out;
    qg_arena *arena; /* also of memory that states of unordered observers point to */
    QG_VEC(watched) watch;
    uint32_t *index; /* [TQCs] position in watch, or QG_NONE */
    unsigned pass;
    size_t bytes;         /* of all states */
    char *start;          /* states at the beginning of the pass: every worker's too */
    char *total;          /* merged states; those of ordered observers are only here */
    pthread_mutex_t lock; /* of all below, and of total */
    pthread_cond_t moved; /* a turn, or failed */
    size_t failed;        /* lowest sample that failed, or SIZE_MAX */
    qg_meter found;       /* in the searches after a pass */
    qg_readings readings;
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

/* A copy of the state before this pass; padding is equal in all workers. */
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

/* Passes a tensor to the observer: adds to its statistics, or to its state. */
static qg_status look(worker *w, qg_ctx *ctx, size_t k, size_t sample,
                      const qg_tensor *x)
{
    calibration *c = w->c;
    watched *v = &c->watch.at[k];
    const qg_observer *ob = v->observe.observer;
    if (!has_state(v))
        return v->collects ? qg_collector_see(&c->readings.collector, ctx, v->entry,
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

/* Of statistics that are given: as worker_see does while samples run. */
static void read_masks(calibration *c)
{
    for (size_t i = 0; i < c->watch.n; i++) {
        watched *w = &c->watch.at[i];
        w->masked = w->observe.stats &&
                    qg_stats_hold_mask(qg_tqc_value(w->tqc), w->observe.stats);
    }
}

/* The states of the endpoint are not used any more; samples behind this one go on. */
static qg_status note_mask(calibration *c, watched *v, size_t sample)
{
    (void)pthread_mutex_lock(&c->lock);
    v->masked = true;
    (void)pthread_mutex_unlock(&c->lock);
    if (v->observe.observer->ordered)
        end_turn(c, v, sample);
    return QG_OK;
}

/* Once per value, and in the first pass. */
static void note_far(calibration *c, watched *v, size_t sample, const qg_tensor *x)
{
    if (c->pass > 0 || x->dtype != QG_F32 || !(has_state(v) || v->collects) ||
        !qg_is_far(x))
        return;
    (void)pthread_mutex_lock(&c->lock);
    v->far = sample < v->far ? sample : v->far;
    (void)pthread_mutex_unlock(&c->lock);
}

/* Names the input and the file where the data themselves hold the number. */
static qg_status refuse_number(const calibration *c, qg_ctx *ctx, const qg_tqc *t,
                               size_t sample)
{
    const qg_value *v = qg_tqc_value(t);
    const char *from = c->in->feed ? c->in->feed->from : NULL;
    char text[QG_ENDPOINT_TEXT];
    return qg_fail(ctx, QG_ENUMERIC,
                   "calibrate: %s: sample %zu%s%.1000s%s%s%.200s gives a NaN or an "
                   "infinity, expected finite numbers; `qg stats doctor` shows where "
                   "the first one appears, and a policy where it is an attention mask; "
                   "--set 'value=%.1000s state=fp32' leaves this value in float",
                   qg_tqc_text(t, text), sample, v->is_input ? " of input '" : "",
                   v->is_input ? v->name : "", v->is_input ? "'" : "",
                   from ? " in " : "", from ? from : "", v->name);
}

/* Called for every endpoint of a watched node; only those in the index count, and
 * only before they are rounded. */
static qg_status worker_see(void *state, qg_ctx *ctx, size_t sample,
                            const qg_hook_point *at, qg_tensor *value)
{
    worker *w = state;
    calibration *c = w->c;
    uint32_t k = at->tqc && !at->rounded ? c->index[at->tqc->id] : QG_NONE;
    if (k == QG_NONE || !is_watched(&c->watch.at[k], c->pass) ||
        qg_tensor_count(value) == 0)
        return QG_OK;
    note_far(c, &c->watch.at[k], sample, value);
    qg_status s = look(w, ctx, k, sample, value);
    if (s != QG_ENUMERIC || c->watch.at[k].observe.observer->host)
        return s; /* a host's failure has its own message */
    if (qg_holds_mask(qg_tqc_value(at->tqc), value))
        return note_mask(c, &c->watch.at[k], sample);
    return refuse_number(c, ctx, at->tqc, sample);
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

/* --- watched endpoints --- */

/* The journal has the origin of the observer; the report lists the observers in use. */
static qg_status count_use(calibration *c, const qg_observer *ob)
{
    qg_calibrated *out = c->out;
    for (size_t i = 0; i < out->observers.n; i++)
        if (out->observers.at[i].observer == ob->name) {
            out->observers.at[i].endpoints++;
            return QG_OK;
        }
    qg_observer_use use = { ob->name, 1, ob->passes, ob->ordered };
    return qg_vec_push(c->ctx, c->in->arena, &out->observers, use);
}

/* Observers that need samples cannot work from a file. */
static qg_status refuse_given(qg_ctx *ctx, const qg_tqc *t, const qg_observer *ob)
{
    char at[QG_ENDPOINT_TEXT];
    return qg_fail(
        ctx, QG_ECONFIG,
        "calibrate: %s: observer %s needs the samples themselves (%s), expected an "
        "observer that reads statistics: minmax, percentile, kl, mse, ...",
        qg_tqc_text(t, at), ob->name, ob->summary);
}

static qg_status watch_one(calibration *c, qg_tqc *t)
{
    const qg_quant *q = c->in->quant;
    watched w = { .tqc = t, .offset = c->bytes, .far = SIZE_MAX };
    assert(t->id < q->tqc.n && t->state == QG_TQC_INITIAL && !qg_tqc_is_constant(t));
    assert(c->index[t->id] == QG_NONE);
    QG_TRY(qg_observe_begin(c->ctx, t, &qg_tqc_value(t)->type, c->in->samples,
                            &w.observe));
    const qg_observer *ob = w.observe.observer;
    w.observe.quirks = qg_range_quirks(q->quirks);
    w.scale = QG_NEWN(c->arena, w.observe.channels, float);
    w.zero = QG_NEWN(c->arena, w.observe.channels, int32_t);
    if (!w.scale || !w.zero)
        return qg_nomem(c->ctx);
    if (!has_state(&w) && ob->blind)
        w.entry = QG_NONE;
    else if (!has_state(&w))
        QG_TRY(qg_readings_want(&c->readings, &w.observe, qg_tqc_value(t), &w.entry,
                                &w.collects));
    else if (c->in->stats)
        return refuse_given(c->ctx, t, ob);
    else
        c->bytes += (qg_observe_bytes(&w.observe) + 15) / 16 * 16;
    c->index[t->id] = (uint32_t)c->watch.n;
    QG_TRY(count_use(c, ob));
    QG_TRY(qg_vec_reserve(c->ctx, c->arena, &c->watch));
    w.observe.keep = ob->ordered ? qg_arena_new(c->ctx->alloc) : c->arena;
    if (!w.observe.keep)
        return qg_nomem(c->ctx);
    c->watch.at[c->watch.n++] = w; /* from here on qg_calibrate_run frees keep */
    return QG_OK;
}

static qg_status watch_all(calibration *c)
{
    size_t n = c->in->quant->tqc.n;
    c->index = QG_NEWN(c->arena, n, uint32_t);
    if (!c->index)
        return qg_nomem(c->ctx);
    for (size_t i = 0; i < n; i++)
        c->index[i] = QG_NONE;
    for (size_t i = 0; i < c->in->n_endpoint; i++)
        QG_TRY(watch_one(c, c->in->endpoint[i]));
    QG_TRY(qg_readings_open(&c->readings));
    for (size_t i = 0; i < c->watch.n; i++) {
        watched *w = &c->watch.at[i];
        if (!has_state(w) && w->entry != QG_NONE)
            w->observe.stats = c->readings.wanted.at[w->entry].stats;
    }
    return QG_OK;
}

/* Zeroed and then begun. */
static qg_status begin_states(calibration *c)
{
    c->start = qg_arena_get(c->arena, 1, c->bytes);
    c->total = qg_arena_get(c->arena, 1, c->bytes);
    if (!c->start || !c->total)
        return qg_nomem(c->ctx);
    for (size_t i = 0; i < c->watch.n; i++) {
        const watched *w = &c->watch.at[i];
        if (has_state(w) && w->observe.observer->begin)
            w->observe.observer->begin(&w->observe, c->total + w->offset);
    }
    return QG_OK;
}

/* --- one pass over the samples --- */

/* The plan is shared; everything that changes is the workers'. */
static qg_status drive(calibration *c, const qg_plan *plan)
{
    qg_drive d = { .plan = plan,
                   .feed = c->in->feed,
                   .n = c->in->samples,
                   .jobs = c->in->jobs,
                   .ud = c,
                   .begin = worker_begin,
                   .done = worker_done,
                   .end = worker_end,
                   .failed = sample_failed,
                   .see = worker_see,
                   .progress = c->in->progress,
                   .stage = c->in->stage };
    return qg_drive_run(c->ctx, &d);
}

/* The pass's plan lives as long as the samples run. */
static qg_status run_samples(calibration *c)
{
    const qg_calibrate *in = c->in;
    uint8_t *nodes = QG_NEWN(c->arena, in->graph->node.n, uint8_t);
    qg_plan *plan;
    if (!nodes)
        return qg_nomem(c->ctx);
    for (size_t i = 0; i < c->watch.n; i++) {
        watched *w = &c->watch.at[i];
        w->seen = 0;
        w->turn = 0;
        nodes[w->tqc->node->id] |= is_watched(w, c->pass);
    }
    memcpy(c->start, c->total, c->bytes);
    c->failed = SIZE_MAX;
    qg_plan_options o = { .mode = in->mode,
                          .quant = in->quant,
                          .input = in->feed->shape,
                          .watch = nodes,
                          .executable = true,
                          .threads = qg_pool_share(in->jobs, in->feed->n),
                          .reference = in->reference };
    QG_TRY(qg_plan_new(c->ctx, in->graph, &o, &plan));
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->moved, NULL);
    qg_status s = drive(c, plan);
    (void)pthread_cond_destroy(&c->moved);
    (void)pthread_mutex_destroy(&c->lock);
    qg_plan_free(plan);
    return s;
}

/* --- results of a pass --- */

/* Nothing observed it, or only observers that saw no element. */
static bool is_empty(const watched *w)
{
    const qg_stats_value *v = w->observe.stats;
    uint64_t seen = 0;
    if (has_state(w))
        return w->seen == 0;
    for (uint32_t i = 0; v && i < v->channels; i++)
        seen |= v->channel[i].count | v->channel[i].nans | v->channel[i].infinities;
    return v && seen == 0;
}

/* Which endpoints are empty in every sample, as behind a detector that found nothing.
 * Data that reach no endpoint at all are a mistake. */
static qg_status find_empty(calibration *c)
{
    char at[QG_ENDPOINT_TEXT];
    size_t n = 0, asked = 0;
    for (size_t i = 0; i < c->watch.n; i++) {
        watched *w = &c->watch.at[i];
        asked += is_watched(w, c->pass);
        w->empty = is_watched(w, c->pass) && !w->masked && is_empty(w);
        n += w->empty;
    }
    if (n > 0 && n == asked)
        return qg_fail(c->ctx, QG_EDATA,
                       "calibrate: %s: the value is empty in every sample, and so is "
                       "every other, expected at least one element",
                       qg_tqc_text(c->watch.at[0].tqc, at));
    return QG_OK;
}

static bool stays_float(const watched *w) { return w->masked || w->empty; }

/* The state becomes the initial state of the next pass. */
static qg_status end_pass(calibration *c, watched *w)
{
    qg_observe *o = &w->observe;
    o->pass++;
    return o->pass < o->observer->passes && o->observer->next
               ? o->observer->next(c->ctx, o, c->total + w->offset)
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
    calibration *c = ud;
    watched *w = &c->watch.at[i];
    qg_observe *o = &w->observe;
    qg_qparam p;
    uint64_t elements;
    QG_TRY(qg_meter_add(&c->found, ctx, 0));
    if (!is_last(w, c->pass) || stays_float(w))
        return QG_OK;
    if (qg_observe_fall_back(o, &elements))
        w->elements = elements;
    qg_arena_reset(scratch);
    const void *state = has_state(w) ? c->total + w->offset : NULL;
    QG_TRY(qg_observe_find(ctx, w->tqc, o, state, scratch, &p));
    assert(p.n == o->channels);
    memcpy(w->scale, p.scale, p.n * sizeof *w->scale);
    memcpy(w->zero, p.offset, p.n * sizeof *w->zero);
    return qg_stats_tell(o) ? qg_stats_confidence(ctx, o, o->quirks, scratch, &w->sure)
                            : QG_OK;
}

/* How sure the scale is that the endpoint was just given. */
static qg_status add_settled(calibration *c, const watched *w)
{
    const qg_tqc *t = w->tqc;
    const qg_readings *r = &c->readings;
    double scale = (double)t->scale[0];
    assert(t->nparam == 1 && w->sure.settled <= QG_STATS_PARTS);
    qg_settled row = { .tqc = t,
                       .error = w->sure.error,
                       .low = fmax(scale * (1 - 2 * w->sure.error), 0),
                       .high = scale * (1 + 2 * w->sure.error),
                       .after = qg_stats_samples_in(r->given ? r->given : r->own,
                                                    w->sure.settled) };
    return qg_vec_push(c->ctx, c->in->arena, &c->out->settled, row);
}

/* Its scale, and state ACTIVATED. */
static qg_status give(calibration *c, watched *w)
{
    qg_quant *q = c->in->quant;
    c->out->changed++;
    if (w->elements) {
        qg_few row = { w->tqc, w->tqc->observer.name, w->elements };
        QG_TRY(qg_observe_note_few(q, w->tqc));
        QG_TRY(qg_vec_push(c->ctx, c->in->arena, &c->out->few, row));
    }
    QG_TRY(qg_tqc_set_param(q, w->tqc, w->observe.channels, w->scale, w->zero));
    QG_TRY(qg_tqc_set_state(q, w->tqc, QG_TQC_ACTIVATED));
    if (w->observe.floored)
        QG_TRY(qg_vec_push(c->ctx, c->in->arena, &c->out->small, w->tqc));
    return w->sure.settled ? add_settled(c, w) : QG_OK;
}

/* Endpoints of one value share its statistics: only the one that collects them saw the
 * mask. */
static void spread_masks(calibration *c)
{
    for (size_t i = 0; i < c->watch.n; i++)
        for (size_t k = 0; c->watch.at[i].masked && k < c->watch.n; k++)
            if (qg_tqc_value(c->watch.at[k].tqc) == qg_tqc_value(c->watch.at[i].tqc))
                c->watch.at[k].masked = true;
}

/* No scale reaches -inf, and nothing gives a scale to what is empty: the endpoint stays
 * in float, and its group with it. */
static qg_status leave_float(calibration *c, const watched *w)
{
    if (w->masked)
        QG_TRY(qg_vec_push(c->ctx, c->in->arena, &c->out->masked, w->tqc));
    else
        QG_TRY(qg_vec_push(c->ctx, c->in->arena, &c->out->empty, w->tqc));
    return qg_tqc_release(c->in->quant, w->tqc, &c->out->changed);
}

/* The samples that show where masks are. */
static qg_status keep_far(calibration *c)
{
    for (size_t i = 0; i < c->watch.n; i++)
        if (c->watch.at[i].far != SIZE_MAX)
            QG_TRY(qg_vec_push(c->ctx, c->in->arena, &c->out->far, c->watch.at[i].far));
    return QG_OK;
}

/* In order of endpoints, but that workers share the searches. */
static qg_status settle_all(calibration *c)
{
    qg_job job = {
        c->watch.n, c->in->jobs, find_begin, find_one, find_end, c, &c->found
    };
    spread_masks(c);
    if (c->pass == 0)
        QG_TRY(find_empty(c));
    for (size_t i = 0; i < c->watch.n; i++)
        if (is_watched(&c->watch.at[i], c->pass) && !stays_float(&c->watch.at[i]))
            QG_TRY(end_pass(c, &c->watch.at[i]));
    qg_meter_begin(&c->found, c->in->progress, c->in->stage, c->in->samples);
    c->found.done = c->in->samples; /* searches only check whether to continue */
    qg_status s = qg_pool_run(c->ctx, &job);
    qg_meter_end(&c->found);
    QG_TRY(s);
    for (size_t i = 0; i < c->watch.n; i++)
        if (is_last(&c->watch.at[i], c->pass))
            QG_TRY(stays_float(&c->watch.at[i]) ? leave_float(c, &c->watch.at[i])
                                                : give(c, &c->watch.at[i]));
    return QG_OK;
}

/* --- all of it --- */

static qg_status calibrate(calibration *c)
{
    const qg_calibrate *in = c->in;
    unsigned passes = 0;
    QG_TRY(qg_readings_begin(c->ctx, c->arena, in->quant, in->stats, &c->readings));
    QG_TRY(watch_all(c));
    if (in->stats) {
        read_masks(c);
        return settle_all(c);
    }
    for (size_t i = 0; i < c->watch.n; i++) {
        unsigned n = c->watch.at[i].observe.observer->passes;
        passes = n > passes ? n : passes;
    }
    if (passes > 0 && in->samples == 0)
        return qg_fail(c->ctx, QG_EDATA,
                       "calibrate: there are %zu endpoints and no "
                       "samples, expected calibration data",
                       c->watch.n);
    QG_TRY(begin_states(c));
    for (c->pass = 0; c->pass < passes; c->pass++) {
        QG_TRY(run_samples(c));
        if (c->pass == 0) /* statistics are of the first pass */
            QG_TRY(qg_stats_mark(c->readings.own, 0, in->samples));
        if (c->pass == 0)
            QG_TRY(keep_far(c));
        QG_TRY(settle_all(c));
    }
    return QG_OK;
}

qg_status qg_calibrate_run(qg_ctx *ctx, const qg_calibrate *in, qg_calibrated *out)
{
    assert(in->endpoint || in->n_endpoint == 0);
    assert(in->feed ? in->samples <= in->feed->n : in->samples == 0);
    calibration c = {
        .ctx = ctx, .in = in, .out = out, .arena = qg_arena_new(ctx->alloc)
    };
    *out = (qg_calibrated){ 0 };
    if (!c.arena)
        return qg_nomem(ctx);
    qg_status s = calibrate(&c);
    for (size_t i = 0; i < c.watch.n; i++)
        if (c.watch.at[i].observe.keep != c.arena)
            qg_arena_free(c.watch.at[i].observe.keep);
    qg_readings_end(&c.readings);
    qg_arena_free(c.arena);
    return s;
}

/* --- afterwards --- */

qg_status qg_calibrate_confidence(qg_ctx *ctx, const qg_tqc *t, const qg_stats_value *v,
                                  qg_confidence *out)
{
    const qg_quant *q = t->quant;
    qg_observe o = { .observer = t->observer.name
                                     ? qg_observer_find(ctx, t->observer.name)
                                     : NULL, /* imported */
                     .scheme = &t->scheme,
                     .setting = &t->observer,
                     .channels = 1,
                     .stats = v };
    uint64_t elements;
    o.quirks = qg_range_quirks(q->quirks);
    *out = (qg_confidence){ .error = (double)NAN };
    if (!o.observer || t->state != QG_TQC_ACTIVATED || t->nparam != 1)
        return QG_OK;
    (void)qg_observe_fall_back(&o, &elements);
    if (!qg_stats_tell(&o))
        return QG_OK;
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_status s = a ? qg_stats_confidence(ctx, &o, o.quirks, a, out) : qg_nomem(ctx);
    qg_arena_free(a);
    return s;
}
