/* observer_stats.c -- observers that take a range straight from statistics: extremes,
 * shares, moments.
 *
 *     moving-average  extremes of the 16 parts of the samples (index modulo 16),
 *                     averaged exponentially in order of the parts: extremes of single
 *                     samples are not kept, since memory must not grow with them
 *     percentile      the share p of all elements lies below high, and above low;
 *                     evenly spread within a bin
 *     aciq-*          the threshold that is best for a Laplace or a normal distribution
 *                     of the same width.  Data of one sign are taken for the positive
 *                     half of one around 0 whose negative half became zeros, as behind
 *                     a Relu.
 *
 * Source   each row names its own */
#include <assert.h>
#include <math.h>

#include "engine/calib/aciq.h"
#include "engine/calib/derive.h"
#include "engine/calib/observer_parts.h"

/* --- minmax --- */

qg_status qg_minmax_pick(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                         qg_arena *scratch, qg_found *out)
{
    (void)ctx;
    (void)o;
    (void)scratch;
    assert(d->all.count > 0);
    *out->low = (double)d->all.low;
    *out->high = (double)d->all.high;
    return QG_OK;
}

/* --- moving-average --- */

static qg_status average_pick(qg_ctx *ctx, const qg_observe *o,
                              const qg_distribution *d, qg_arena *scratch,
                              qg_found *out)
{
    double weight = qg_observe_value(o, QG_PARAM_AVERAGING), low = 0, high = 0;
    bool any = false;
    if (!d->part) /* parts themselves: nothing to average over */
        return qg_minmax_pick(ctx, o, d, scratch, out);
    for (size_t k = 0; k < QG_STATS_PARTS; k++) {
        const qg_stats_part *p = &d->part[k];
        if (p->count == 0)
            continue;
        low = any ? low + weight * ((double)p->low - low) : (double)p->low;
        high = any ? high + weight * ((double)p->high - high) : (double)p->high;
        any = true;
    }
    assert(any && low <= high);
    *out->low = low;
    *out->high = high;
    return QG_OK;
}

const qg_observer qg_observer_moving_average = {
    .name = "moving-average",
    .summary = "smallest and largest of 16 groups of samples, averaged exponentially",
    .source = "MQBench EMAMinMaxObserver (factor 0.9); spec/algorithms.md 3.7",
    .passes = 1,
    .value = {[QG_PARAM_AVERAGING] = 0.1, [QG_PARAM_MIN_SCALE] = 1e-8},
    .pick = average_pick,
};

/* --- percentile --- */

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

const qg_observer qg_observer_percentile = {
    .name = "percentile",
    .summary = "all elements of all samples but a share on either side",
    .source = "spec/algorithms.md 3.7; NVIDIA pytorch-quantization, both tails",
    .per_channel = true,
    .passes = 1,
    .value = {[QG_PARAM_PERCENTILE] = 0.9999, [QG_PARAM_MIN_SCALE] = 1e-8},
    .reads = QG_STATS_HISTOGRAM,
    .pick = percentile_pick,
};

/* --- ACIQ --- */

/* Mean of |x - mean|, from the middles of bins. */
static double absolute_deviation(const qg_dyadic *h, double mean)
{
    uint32_t i, end;
    double sum = 0, n = 0;
    qg_dyadic_span(h, &i, &end);
    for (; i < end; i++) {
        double middle = qg_dyadic_edge(h, i) + ldexp(0.5, h->exponent);
        sum += (double)h->count[i] * fabs(middle - mean);
        n += (double)h->count[i];
    }
    assert(n > 0);
    return sum / n;
}

/* Width of the distribution in the shape's own measure, around *center. */
static double width(qg_aciq_shape shape, const qg_distribution *d, bool one_sided,
                    double *center)
{
    const qg_stats_channel *c = &d->all;
    double other = (double)(c->count - c->zeros);
    *center = one_sided ? 0 : qg_stats_mean(c);
    if (one_sided && c->count == c->zeros)
        return 0;
    if (one_sided) /* E |x| of Exp(b) is b, E x^2 of a half-normal sigma^2 */
        return shape == QG_ACIQ_LAPLACE ? fabs(qg_wide_value(&c->sum)) / other
                                        : sqrt(qg_wide_value(&c->square) / other);
    return shape == QG_ACIQ_LAPLACE ? absolute_deviation(d->bins, *center)
                                    : sqrt(qg_stats_variance(c));
}

static qg_status aciq(qg_ctx *ctx, qg_aciq_shape shape, const qg_observe *o,
                      const qg_distribution *d, qg_found *out)
{
    double least = (double)d->all.low, most = (double)d->all.high, center, t;
    bool one_sided = least >= 0 || most <= 0;
    int bits = (int)o->scheme->bits + one_sided;
    assert(least <= most && bits >= 2);
    double size = width(shape, d, one_sided, &center);
    QG_TRY(qg_aciq_threshold(ctx, shape, bits < 24 ? bits : 24, size, &t));
    *out->low = fmin(fmax(center - t, least), most);
    *out->high = fmax(fmin(center + t, most), *out->low);
    return QG_OK;
}

static qg_status laplace_pick(qg_ctx *ctx, const qg_observe *o,
                              const qg_distribution *d, qg_arena *scratch,
                              qg_found *out)
{
    (void)scratch;
    return aciq(ctx, QG_ACIQ_LAPLACE, o, d, out);
}

static qg_status gauss_pick(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                            qg_arena *scratch, qg_found *out)
{
    (void)scratch;
    return aciq(ctx, QG_ACIQ_GAUSS, o, d, out);
}

const qg_observer qg_observer_aciq_laplace = {
    .name = "aciq-laplace",
    .summary = "best threshold for a Laplace distribution of the same width",
    .source = "Banner, Nahshan, Soudry, 2019; spec/algorithms.md 6",
    .per_channel = true,
    .passes = 1,
    .policy = QG_LINEAR,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .reads = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM,
    .pick = laplace_pick,
};

const qg_observer qg_observer_aciq_gauss = {
    .name = "aciq-gauss",
    .summary = "best threshold for a normal distribution of the same variance",
    .source = "Banner, Nahshan, Soudry, 2019; spec/algorithms.md 6",
    .per_channel = true,
    .passes = 1,
    .policy = QG_LINEAR,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .reads = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM, /* bins for its confidence */
    .pick = gauss_pick,
};

/* --- constant --- */

static qg_status constant_pick(qg_ctx *ctx, const qg_observe *o,
                               const qg_distribution *d, qg_arena *scratch,
                               qg_found *out)
{
    (void)ctx;
    (void)o;
    (void)d;
    (void)scratch;
    out->is_param = true;
    *out->scale = 1;
    *out->offset = 0;
    return QG_OK;
}

const qg_observer qg_observer_constant = {
    .name = "constant",
    .summary = "scale 1: the format as it is",
    .source = "spec/ppq.md 3.9",
    .per_channel = true,
    .passes = 1,
    .policy = QG_FLOATING,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .blind = true,
    .pick = constant_pick,
};
