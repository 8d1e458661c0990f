/* derive.h -- observers that derive a range from collected statistics.
 *
 * Such an observer is a row like any other (observer.h) whose function `pick` sees one
 * distribution: a value's, or a channel's under PER_CHANNEL.  Its statistics are
 * collected in one pass over the samples, or were collected earlier and come from a
 * file: the same statistics give the same range.
 *
 *     o.stats = v;                                 // v has the statistics that the
 *     observer reads QG_TRY(qg_observe_find(ctx, t, &o, NULL, scratch, &param));
 *
 * An observer in full:
 *
 *     static qg_status pick(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
 *                           qg_arena *scratch, qg_found *out)
 *     {
 *         *out->low = qg_dyadic_quantile(d->bins, 0.01);
 *         *out->high = qg_dyadic_quantile(d->bins, 0.99);
 *         return QG_OK;
 *     }
 *
 *     const qg_observer qg_observer_inner = {
 *         .name = "inner", .summary = "98 % in the middle", .source = "...",
 *         .per_channel = true, .passes = 1, .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
 *         .reads = QG_STATS_HISTOGRAM, .pick = pick,
 *     };
 *
 * and a line in observers.def.
 *
 * Channels: under PER_CHANNEL `pick` is called once per channel, with that channel's
 * counts and, where it reads a histogram, that channel's bins; it needs no code for
 * channels.
 *
 * A blind observer (constant, fixed) does not depend on data: nothing is collected for
 * it.
 *
 * Thresholds t of |x| become the range [max(-t, min), min(t, max)]: never wider than
 * the data, and one-sided where the data are.
 *
 * Units    those of the tensor
 * Source   each row names its own */
#ifndef QG_ENGINE_CALIB_DERIVE_H
#define QG_ENGINE_CALIB_DERIVE_H

#include "engine/calib/observer.h"
#include "engine/calib/stats.h"

/* One distribution; fields that were not collected are empty. */
struct qg_distribution {
    qg_stats_channel all;      /* extremes, counts, moments; count > 0 */
    const qg_dyadic *bins;     /* of any number of bins; NULL: none */
    const qg_stats_part *part; /* [QG_STATS_PARTS]; NULL: of a channel or of parts */
};

/* Low and high, or scale and offset, of every channel of o from o->stats; out's arrays
 * are [o->channels].  QG_ECONFIG when the statistics have other channels or lack data
 * the observer requires, QG_ENUMERIC for NaN and infinities, QG_EDATA when they are
 * empty. */
QG_NODISCARD qg_status qg_stats_derive(qg_ctx *ctx, const qg_observe *o,
                                       qg_arena *scratch, qg_found *out);

/* How much a scale depends on which samples were seen.  Only for one scale per tensor.
 *
 *     error     the scale 16 times, each time without one part; with m their mean,
 *               error^2 = 15/16 * sum (s_k - m)^2.  An extreme that a single sample
 *               made leaves with its part and shows.
 *     settled   the scale of the first part, of the first two, ...: how many samples
 *               would have been enough, had the rest not been seen
 *
 * Both read 256 bins, so an observer that searches thresholds is coarser here than on
 * the whole histogram, and kl, which needs more bins than levels, is its minmax.
 * Hence the error is a share, which holds for the scale from all bins, too.
 * Source  the jackknife over 16 groups (Efron, 1979). */
typedef struct qg_confidence {
    double error;     /* standard error as a share of the scale; infinity: one part */
    unsigned settled; /* parts 0 .. settled - 1, and every longer row of them, give the
                        * scale within 1 %; 1 .. 16 */
} qg_confidence;

/* Whether o has a confidence: one scale, from statistics that are there. */
bool qg_stats_tell(const qg_observe *o);

/* o satisfies qg_stats_tell.  QG_EDATA when nothing was seen; quirks:
 * qg_range_quirks(...). */
QG_NODISCARD qg_status qg_stats_confidence(qg_ctx *ctx, const qg_observe *o,
                                           unsigned quirks, qg_arena *scratch,
                                           qg_confidence *out);

#endif
