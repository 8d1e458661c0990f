/* observer_aciq.c -- the threshold that is best for a Laplace or a normal distribution
 * of the same width.  Data of one sign are taken for the positive half of one around 0
 * whose negative half became zeros, as after a Relu. */
#include <assert.h>
#include <math.h>

#include "engine/calib/aciq.h"
#include "engine/calib/derive.h"

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
    .summary = "optimal threshold for a Laplace distribution of the same mean "
               "absolute deviation",
    .fails = "normal, gated or two-valued data: up to 7 times the noise of percentile "
             "(docs/calibration.md)",
    .source = "Banner, Nahshan, Soudry, 2019; docs/evidence/observers.md#aciq",
    .per_channel = true,
    .passes = 1,
    .policy = QG_LINEAR,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .reads = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM,
    .pick = laplace_pick,
};

const qg_observer qg_observer_aciq_gauss = {
    .name = "aciq-gauss",
    .summary = "optimal threshold for a normal distribution of the same variance",
    .source = "Banner, Nahshan, Soudry, 2019; docs/evidence/observers.md#aciq",
    .per_channel = true,
    .passes = 1,
    .policy = QG_LINEAR,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .reads = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM, /* bins for its confidence */
    .pick = gauss_pick,
};
