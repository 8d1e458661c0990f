/* observer_percentile.c -- the share p of all elements lies below high, and above low;
 * evenly spread within a bin of the statistics. */
#include <assert.h>
#include <math.h>

#include "engine/calib/derive.h"

static qg_status percentile_pick(qg_ctx *ctx, const qg_observe *o,
                                 const qg_distribution *d, qg_arena *scratch,
                                 qg_found *out)
{
    double p = qg_observe_value(o, QG_PARAM_PERCENTILE);
    double least = (double)d->all.low, most = (double)d->all.high;
    assert(d->bins && p > 0 && p <= 1);
    (void)ctx;
    (void)scratch;
    double low = qg_dyadic_quantile(d->bins, 1 - p);
    double high = qg_dyadic_quantile(d->bins, p);
    *out->low = p < 1 ? fmin(fmax(low, least), most) : least;
    *out->high = p < 1 ? fmax(fmin(high, most), *out->low) : most;
    return QG_OK;
}

/* Below it no element lies outside. */
static uint64_t percentile_least(const qg_observe *o)
{
    double p = qg_observe_value(o, QG_PARAM_PERCENTILE);
    return p < 1 ? (uint64_t)fmin(rint(1 / (1 - p)), 0x1p62) : 0;
}

const qg_observer qg_observer_percentile = {
    .name = "percentile",
    .summary = "range of all elements without a fraction at either end",
    .source = "docs/evidence/observers.md#percentiles, both tails",
    .per_channel = true,
    .passes = 1,
    .value = {[QG_PARAM_PERCENTILE] = 0.9999, [QG_PARAM_MIN_SCALE] = 1e-8},
    .reads = QG_STATS_HISTOGRAM,
    .pick = percentile_pick,
    .least = percentile_least,
};
