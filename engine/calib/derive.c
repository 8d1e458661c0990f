#include "engine/calib/derive.h"

#include <assert.h>
#include <math.h>

/* --- channels of a value --- */

static qg_status check_channels(qg_ctx *ctx, const qg_observe *o)
{
    const qg_stats_value *v = o->stats;
    unsigned reads = o->observer->reads;
    bool per_tensor = (o->scheme->policy & QG_PER_TENSOR) != 0;
    if (!per_tensor && (v->axis != o->scheme->axis || v->channels != o->channels))
        return qg_fail(ctx, QG_ECONFIG,
                       "derive: statistics of '%.1000s': %u channels along axis %d, "
                       "expected %zu along axis %d",
                       v->name, v->channels, (int)v->axis, o->channels,
                       (int)o->scheme->axis);
    if (!per_tensor && (reads & QG_STATS_HISTOGRAM))
        reads = (reads & ~(unsigned)QG_STATS_HISTOGRAM) | QG_STATS_BY_CHANNEL;
    if ((v->holds & reads) != reads)
        return qg_fail(
            ctx, QG_ECONFIG,
            "derive: statistics of '%.1000s': no %s, expected them for observer %s",
            v->name,
            reads & QG_STATS_BY_CHANNEL
                ? "histograms of its channels (collect --channels)"
                : "moments or histogram",
            o->observer->name);
    return QG_OK;
}

/* Of all channels together, or of one; the parts are those of the value only. */
static qg_distribution distribution(const qg_stats_value *v, bool per_tensor, size_t c)
{
    if (per_tensor)
        return (qg_distribution){ .all = qg_stats_total(v),
                                  .bins = v->bins.count ? &v->bins : NULL,
                                  .part = v->part };
    const qg_stats_channel *k = &v->channel[c];
    return (qg_distribution){ .all = *k, .bins = k->bins.count ? &k->bins : NULL };
}

/* No range contains values that are not finite; observers never get them. */
static qg_status check_finite(qg_ctx *ctx, const qg_stats_value *v,
                              const qg_stats_channel *all)
{
    uint64_t bad = all->nans + all->infinities;
    if (bad)
        return qg_fail(ctx, QG_ENUMERIC,
                       "derive: statistics of '%.1000s': %llu times NaN or infinity, "
                       "expected finite numbers, or a mask of -inf alone (an "
                       "input is one in front of a Softmax); "
                       "'value=%.1000s state=fp32' leaves it in float",
                       v->name, (unsigned long long)bad, v->name);
    if (all->count == 0)
        return qg_fail(ctx, QG_EDATA,
                       "derive: statistics of '%.1000s': every sample is empty, "
                       "expected at least one element",
                       v->name);
    return QG_OK;
}

qg_status qg_stats_derive(qg_ctx *ctx, const qg_observe *o, qg_arena *scratch,
                          qg_found *out)
{
    const qg_stats_value *v = o->stats;
    bool per_tensor = (o->scheme->policy & QG_PER_TENSOR) != 0;
    bool blind = o->observer->blind;
    assert((v || blind) && o->observer->pick && (!per_tensor || o->channels == 1));
    if (!blind)
        QG_TRY(check_channels(ctx, o));
    for (size_t c = 0; c < o->channels; c++) {
        qg_distribution d = { 0 };
        if (!blind)
            d = distribution(v, per_tensor, c);
        qg_found one = { .low = out->low + c,
                         .high = out->high + c,
                         .scale = out->scale + c,
                         .offset = out->offset + c };
        if (!blind)
            QG_TRY(check_finite(ctx, v, &d.all));
        QG_TRY(o->observer->pick(ctx, o, blind ? NULL : &d, scratch, &one));
        out->is_param = one.is_param;
        out->raised += one.raised;
        out->fit += one.fit;
        assert(one.is_param || *one.low <= *one.high);
    }
    return QG_OK;
}

/* The scale of one distribution. */
static qg_status scale_of(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                          unsigned quirks, qg_arena *scratch, double *out)
{
    double low, high, least = qg_observe_value(o, QG_PARAM_MIN_SCALE);
    float scale;
    int32_t offset;
    qg_found f = { .low = &low, .high = &high, .scale = &scale, .offset = &offset };
    QG_TRY(o->observer->pick(ctx, o, d, scratch, &f));
    if (!f.is_param)
        qg_scheme_from_range(o->scheme, (qg_range){ low, high, least, quirks }, &scale,
                             &offset);
    assert(scale > 0);
    *out = (double)scale;
    return QG_OK;
}

/* --- parts --- */

/* Sums of the middles of bins, each as often as it was counted. */
static void moments_of_bins(const qg_dyadic *h, qg_stats_channel *all)
{
    uint32_t i, end;
    qg_dyadic_span(h, &i, &end);
    double sum = 0, square = 0;
    for (; i < end; i++) {
        double middle = qg_dyadic_edge(h, i) + ldexp(0.5, h->exponent);
        sum += (double)h->count[i] * middle;
        square += (double)h->count[i] * middle * middle;
    }
    /* wide sums require multiples of their unit: cut at 2^-100 */
    qg_wide_add(&all->sum, ldexp(trunc(ldexp(sum, 100)), -100));
    qg_wide_add(&all->square, ldexp(trunc(ldexp(square, 200)), -200));
}

static bool join_parts(const qg_stats_value *v, unsigned mask, qg_dyadic *bins,
                       qg_distribution *out)
{
    assert(v->part);
    qg_distribution d = {
        .all = {.low = INFINITY, .high = -INFINITY}
    };
    for (unsigned k = 0; k < QG_STATS_PARTS; k++) {
        const qg_stats_part *p = &v->part[k];
        if (!(mask >> k & 1))
            continue;
        qg_stats_widen(&d.all.low, &d.all.high, p->low, p->high);
        d.all.count += p->count;
        d.all.zeros += p->zeros;
        if (v->holds & QG_STATS_HISTOGRAM)
            qg_dyadic_merge(bins, &p->bins);
    }
    if (d.all.count == 0)
        return false;
    if (v->holds & QG_STATS_HISTOGRAM) {
        moments_of_bins(bins, &d.all);
        d.bins = bins;
    }
    *out = d;
    return true;
}

/* The parts of the mask; the others are empty. */
static qg_status copy_parts(qg_ctx *ctx, const qg_stats_value *v, unsigned mask,
                            qg_arena *a, const qg_stats_part **out)
{
    qg_stats_part *p = QG_NEWN(a, QG_STATS_PARTS, qg_stats_part);
    if (!p)
        return qg_nomem(ctx);
    for (unsigned k = 0; k < QG_STATS_PARTS; k++)
        if (mask >> k & 1)
            p[k] = v->part[k];
    *out = p;
    return QG_OK;
}

/* The scale that these parts give; 0: they saw nothing. */
static qg_status scale_of_parts(qg_ctx *ctx, const qg_observe *o, unsigned mask,
                                unsigned quirks, qg_arena *scratch, double *scale)
{
    qg_dyadic bins;
    qg_distribution d;
    double s = 0;
    QG_TRY(qg_dyadic_new(ctx, scratch, QG_STATS_PART_BINS, &bins));
    if (join_parts(o->stats, mask, &bins, &d)) {
        QG_TRY(copy_parts(ctx, o->stats, mask, scratch, &d.part));
        QG_TRY(scale_of(ctx, o, &d, quirks, scratch, &s));
    }
    *scale = s;
    return QG_OK;
}

/* Standard error of the mean-like estimate from those that leave one part out. */
static double jackknife(const double *s, unsigned n)
{
    assert(n > 1);
    double mean = 0, sum = 0;
    for (unsigned k = 0; k < n; k++)
        mean += s[k] / n;
    for (unsigned k = 0; k < n; k++)
        sum += (s[k] - mean) * (s[k] - mean);
    return sqrt(sum * (n - 1) / n);
}

bool qg_stats_tell(const qg_observe *o)
{
    return o->stats && o->observer && o->observer->pick && !o->observer->blind &&
           (o->scheme->policy & QG_PER_TENSOR) &&
           (o->stats->holds & o->observer->reads) == o->observer->reads;
}

qg_status qg_stats_confidence(qg_ctx *ctx, const qg_observe *o, unsigned quirks,
                              qg_arena *scratch, qg_confidence *out)
{
    enum { ALL = (1 << QG_STATS_PARTS) - 1 };
    double without[QG_STATS_PARTS], s;
    unsigned n = 0;
    qg_confidence r = { .settled = QG_STATS_PARTS };
    double coarse;
    assert(qg_stats_tell(o));
    QG_TRY(scale_of_parts(ctx, o, ALL, quirks, scratch, &coarse));
    if (coarse == 0)
        return qg_fail(ctx, QG_EDATA,
                       "derive: statistics of '%.1000s': every sample is empty, "
                       "expected at least one element",
                       o->stats->name);
    for (unsigned k = 0; k < QG_STATS_PARTS; k++) {
        if (o->stats->part[k].count == 0)
            continue;
        QG_TRY(scale_of_parts(ctx, o, ALL & ~(1u << k), quirks, scratch, &s));
        if (s > 0)
            without[n++] = s;
    }
    r.error = n > 1 ? jackknife(without, n) / coarse : INFINITY;
    for (unsigned k = QG_STATS_PARTS - 1; k > 0; k--) {
        QG_TRY(scale_of_parts(ctx, o, (1u << k) - 1, quirks, scratch, &s));
        if (!(fabs(s - coarse) <= 0.01 * coarse))
            break;
        r.settled = k;
    }
    *out = r;
    return QG_OK;
}
