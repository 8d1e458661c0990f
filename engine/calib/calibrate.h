/* calibrate.h -- the driver of observers: samples in, scales of endpoints out.
 *
 *     qg_calibrate c = { .graph = g, .quant = q, .endpoint = t, .n_endpoint = n,
 *                        .feed = &feed, .samples = feed.n, .arena = g->arena };
 *     qg_calibrated found = { 0 };
 *     QG_TRY(qg_calibrate_run(ctx, &c, &found));
 *
 * Every endpoint is watched by its observer (observer.h) while the samples run, one
 * sample per worker.  The number of passes over the samples is the largest that any
 * observer needs; later passes watch only the endpoints that need them, and the others
 * already have their scales.
 *
 *   unordered  each worker has its own states, which are merged exactly: the result
 *              does not depend on how many workers there are
 *   ordered    one state; a worker waits at such an endpoint until the samples before
 *              its own have passed it.  The worker with the lowest sample never waits.
 *
 *   statistics are collected once per value in the first pass, under locks, for the
 *              observers that read them (derive.h); or they were collected earlier
 *              (c.stats), and then no pass is needed
 *
 * The network runs in float, so statistics are the same for every backend, unless
 * `mode` requires more.
 *
 * Memory   one state per unordered endpoint and worker, one per ordered endpoint, one
 *          record per value whose statistics are collected; freed before the return
 * Cost     one run of the network per sample and pass */
#ifndef QG_ENGINE_CALIB_CALIBRATE_H
#define QG_ENGINE_CALIB_CALIBRATE_H

#include "engine/calib/derive.h"
#include "engine/core/progress.h"
#include "engine/exec/plan.h"

/* The endpoints to calibrate, and the samples or statistics; borrowed. */
typedef struct qg_calibrate {
    const qg_graph *graph;
    qg_quant *quant; /* of the graph: its endpoints change, its quirks count */
    /* [n_endpoint] each once, in state INITIAL, with the observer that will watch it;
     * none of a constant. */
    qg_tqc *const *endpoint;
    size_t n_endpoint;
    const struct qg_feed *feed;   /* exec/ahead.h; NULL: no samples */
    const struct qg_stats *stats; /* instead of the feed; NULL: the samples run */
    size_t samples;               /* the first samples of the feed; 0 without a feed */
    unsigned jobs;                /* workers; 0: one per core */
    bool reference;               /* reference kernels only */
    const qg_progress *progress;  /* as in qg_drive */
    const char *stage;
    enum qg_mode mode; /* of the observed network: endpoints with a scale are quantized,
                        * or none is */
    qg_arena *arena;   /* holds the results */
} qg_calibrate;

/* An observer at work: the row with most passes is why the samples ran that often. */
typedef struct qg_observer_use {
    const char *observer;
    uint32_t endpoints; /* that it watched */
    unsigned passes;    /* over the samples */
    bool ordered;       /* called for the samples one after another */
} qg_observer_use;

/* The confidence of an endpoint as it was calibrated; sharing may have changed its
 * scale since. */
typedef struct qg_settled {
    const qg_tqc *tqc;
    double error;     /* standard error as a share of the scale (calib/derive.h) */
    double low, high; /* the scale -+ 2 standard errors, at least 0 */
    uint64_t after;   /* samples, and never again more than 1 % from it */
} qg_settled;

/* An endpoint with fewer elements than its observer needs: it got minmax. */
typedef struct qg_few {
    const qg_tqc *tqc;
    const char *observer; /* that it would have had */
    uint64_t elements;    /* in all samples; per channel, the fewest */
} qg_few;

typedef struct qg_calibrated {
    QG_VEC(const qg_tqc *) masked; /* stay in float: their values hold a mask */
    QG_VEC(const qg_tqc *) empty;  /* stay in float: no sample has elements */
    QG_VEC(const qg_tqc *) small;  /* min-scale is all that gives their scale */
    QG_VEC(size_t)
    far;                /* for each endpoint with numbers far from all others
                         * (exponents.h) the first sample that has them */
    QG_VEC(qg_few) few; /* in order of endpoints */
    QG_VEC(qg_observer_use) observers; /* by first use */
    QG_VEC(qg_settled) settled;        /* endpoints that qg_stats_tell of */
    uint32_t changed; /* endpoints that got their scale, or that were left in float */
} qg_calibrated;

/* Every endpoint gets its scale and the state ACTIVATED, journalled, except those with
 * a mask (mask.h), since no scale reaches -inf, and those empty in every sample: they
 * and their groups get the state FP32.  The previous contents of *out are dropped.
 * After a failure some endpoints may have theirs.
 * QG_EDATA without samples, when every endpoint is empty in all of them, and when the
 * statistics are of another graph or lack a value; QG_ENUMERIC names the sample with a
 * NaN, with +inf, or with -inf that is no mask; QG_ECONFIG when an observer does not
 * serve a scheme, or needs samples where statistics are given; the lowest failing
 * sample is reported. */
QG_NODISCARD qg_status qg_calibrate_run(qg_ctx *ctx, const qg_calibrate *c,
                                        qg_calibrated *out);

/* How sure the scale is that calibration would give t from the statistics v of its
 * value.  settled 0, error NaN: not known, because the scale is another's, because the
 * observer reads no statistics, or because there is a scale per channel. */
QG_NODISCARD qg_status qg_calibrate_confidence(qg_ctx *ctx, const qg_tqc *t,
                                               const qg_stats_value *v,
                                               qg_confidence *out);

#endif
