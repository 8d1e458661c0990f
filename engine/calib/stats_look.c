/* stats_look.c -- statistics of one tensor: layouts, kernels, and values that are not
 * finite. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/calib/stats.h"

/* A tensor without gaps, seen as outer x channels x inner or, channels_last, as outer x
 * inner x channels. */
typedef struct view {
    const float *x;
    size_t outer, channels, inner;
    bool channels_last;
} view;

enum { FEW_CHANNELS = 8 }; /* below, channels-last loops do not fill vectors */

static bool is_channels_last(const qg_tensor *x)
{
    qg_tensor last = *x;
    if (x->rank < 3)
        return false;
    qg_tensor_set_channels_last(&last);
    return memcmp(last.stride, x->stride, (size_t)x->rank * sizeof x->stride[0]) == 0;
}

/* Channels-last memory is read in place where channels are separate along axis 1, and
 * where neither channels nor the order of a sum matter; other layouts, except plain,
 * are copied. */
static qg_status open_view(qg_ctx *ctx, const qg_stats_value *v, const qg_tensor *x,
                           qg_arena *scratch, view *out)
{
    assert(x->dtype == QG_F32 && x->data && v->axis < x->rank);
    qg_tensor plain = *x;
    bool last = is_channels_last(x);
    bool direct = last && v->axis == 1 && v->channels >= FEW_CHANNELS &&
                  !(v->holds & QG_STATS_BY_CHANNEL);
    bool any_order = last && v->axis < 0 && !(v->holds & QG_STATS_MOMENTS);
    if (!direct && !any_order && !qg_tensor_is_plain(x)) {
        qg_tensor_set_plain(&plain);
        plain.data = qg_arena_raw(scratch, (size_t)qg_tensor_count(x), sizeof(float));
        if (!plain.data)
            return qg_nomem(ctx);
        qg_tensor_copy(x, &plain);
    }
    int32_t axis = v->axis;
    size_t n = (size_t)qg_tensor_count(x);
    size_t outer = axis < 0 ? 1 : (size_t)qg_dims_product(x, 0, axis);
    *out = (view){ .x = plain.f32,
                   .outer = outer,
                   .channels = v->channels,
                   .inner = n / outer / v->channels,
                   .channels_last = direct };
    return QG_OK;
}

/* Extremes of nothing, and zeros; in scratch, as everything about one tensor. */
static qg_status new_sums(qg_ctx *ctx, size_t n, qg_arena *a, qg_stats_sums *out)
{
    *out = (qg_stats_sums){ .channels = n,
                            .low = qg_arena_raw(a, n, sizeof(float)),
                            .high = qg_arena_raw(a, n, sizeof(float)),
                            .bad = QG_NEWN(a, n, float),
                            .zero = QG_NEWN(a, n, uint32_t),
                            .sum = QG_NEWN(a, n * QG_STATS_LANES, double),
                            .square = QG_NEWN(a, n * QG_STATS_LANES, double) };
    if (!out->low || !out->high || !out->bad || !out->zero || !out->sum || !out->square)
        return qg_nomem(ctx);
    for (size_t c = 0; c < n; c++) {
        out->low[c] = INFINITY;
        out->high[c] = -INFINITY;
    }
    return QG_OK;
}

/* Channels-last memory in one go, other memory run by run. */
static void sum_all(const qg_stats_value *v, const view *w, const qg_stats_sums *s)
{
    const qg_stats_row *row = qg_stats_row_best();
    bool moments = (v->holds & QG_STATS_MOMENTS) != 0;
    for (size_t o = 0; o < w->outer; o++) {
        const float *x = w->x + o * w->channels * w->inner;
        if (w->channels_last)
            row->last(s, x, w->inner);
        for (size_t c = 0; !w->channels_last && c < w->channels; c++)
            (moments ? row->run : row->extent)(s, c, x + c * w->inner, w->inner);
    }
}

static bool any_bad(const qg_stats_sums *s)
{
    bool bad = false;
    for (size_t c = 0; c < s->channels; c++)
        bad |= !(s->bad[c] == 0);
    return bad;
}

/* One element of channel c at position i: as the kernels, but ignoring values that are
 * not finite. */
static void careful(const qg_stats_seen *out, size_t c, size_t i, float x)
{
    const qg_stats_sums *s = &out->sums;
    size_t lane = i % QG_STATS_LANES * s->channels + c;
    if (isnan(x)) {
        out->nans[c]++;
    } else if (isinf(x)) {
        out->infs[c]++;
        out->above[c] += x > 0;
    } else {
        s->low[c] = x < s->low[c] ? x : s->low[c];
        s->high[c] = x > s->high[c] ? x : s->high[c];
        s->zero[c] += x == 0;
        s->sum[lane] += (double)x;
        s->square[lane] += (double)x * (double)x;
    }
}

/* Position of element (o, c, i) in memory. */
static size_t offset(const view *w, size_t o, size_t c, size_t i)
{
    assert(o < w->outer && c < w->channels && i < w->inner);
    size_t base = o * w->channels * w->inner;
    return base + (w->channels_last ? i * w->channels + c : c * w->inner + i);
}

/* Sums again from the beginning, slowly; *finite are the elements that count. */
static qg_status sum_carefully(qg_ctx *ctx, const view *w, qg_arena *a,
                               qg_stats_seen *out, const float **finite, size_t *n)
{
    float *kept = qg_arena_raw(a, w->outer * w->channels * w->inner, sizeof(float));
    out->nans = QG_NEWN(a, w->channels, uint64_t);
    out->infs = QG_NEWN(a, w->channels, uint64_t);
    out->above = QG_NEWN(a, w->channels, uint64_t);
    if (!kept || !out->nans || !out->infs || !out->above)
        return qg_nomem(ctx);
    QG_TRY(new_sums(ctx, w->channels, a, &out->sums));
    *n = 0;
    for (size_t o = 0; o < w->outer; o++)
        for (size_t c = 0; c < w->channels; c++)
            for (size_t i = 0; i < w->inner; i++) {
                float x = w->x[offset(w, o, c, i)];
                careful(out, c, i, x);
                if (isfinite(x))
                    kept[(*n)++] = x;
            }
    *finite = kept;
    return QG_OK;
}

/* Tables of counters into bins [first, end) of u64. */
static void gather(const uint32_t *count, size_t stride, const qg_stats_seen *out)
{
    assert(out->first < out->end);
    for (uint32_t i = out->first; i < out->end; i++) {
        uint64_t n = count[i];
        for (size_t t = 1; stride && t < QG_STATS_TABLES; t++)
            n += count[t * stride + i];
        out->bins.count[i] = n;
    }
}

/* n > 0 finite elements within [out->low, out->high]. */
static qg_status count_bins(qg_ctx *ctx, const float *x, size_t n, qg_arena *a,
                            uint32_t bins, qg_stats_seen *out)
{
    enum { SMALL = 4096 };
    int exponent = qg_dyadic_exponent(out->low, out->high, bins);
    size_t stride = n < SMALL ? 0 : bins, tables = stride ? QG_STATS_TABLES : 1;
    uint32_t *count = qg_arena_raw(a, tables * bins, sizeof *count);
    out->bins = (qg_dyadic){ exponent, bins, qg_arena_raw(a, bins, sizeof(uint64_t)) };
    if (!count || !out->bins.count)
        return qg_nomem(ctx);
    out->first = qg_dyadic_bin(&out->bins, out->low);
    out->end = qg_dyadic_bin(&out->bins, out->high) + 1;
    for (size_t t = 0; t < tables; t++)
        memset(count + t * bins + out->first, 0,
               (out->end - out->first) * sizeof *count);
    qg_stats_axis axis = { .width = ldexpf(1, exponent),
                           .inverse = ldexpf(1, -exponent),
                           .half = (int32_t)(bins / 2),
                           .stride = stride };
    qg_stats_row_best()->bin(&axis, x, n, count);
    gather(count, stride, out);
    return QG_OK;
}

/* Counters of a tensor have 32 bits. */
static qg_status check_look(qg_ctx *ctx, const qg_stats_value *v, const qg_tensor *x)
{
    int64_t n = qg_tensor_count(x);
    assert(n > 0);
    if (n > INT32_MAX)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "statistics: '%.1000s' has %lld elements, expected fewer than "
                       "2^31",
                       v->name, (long long)n);
    bool fits = v->axis < 0 || (v->axis < x->rank && x->dim[v->axis] == v->channels);
    if (!fits)
        return qg_fail(ctx, QG_EDATA,
                       "statistics: '%.1000s': axis %d has another extent than %u, "
                       "expected the same in every sample",
                       v->name, (int)v->axis, v->channels);
    return QG_OK;
}

qg_status qg_stats_look(qg_ctx *ctx, const qg_stats_value *v, const qg_tensor *x,
                        qg_arena *scratch, qg_stats_seen *out)
{
    view w;
    QG_TRY(check_look(ctx, v, x));
    QG_TRY(open_view(ctx, v, x, scratch, &w));
    qg_stats_seen seen = {
        .x = x, .count = w.outer * w.inner, .low = INFINITY, .high = -INFINITY
    };
    size_t finite = w.outer * w.channels * w.inner;
    QG_TRY(new_sums(ctx, w.channels, scratch, &seen.sums));
    sum_all(v, &w, &seen.sums);
    if (any_bad(&seen.sums))
        QG_TRY(sum_carefully(ctx, &w, scratch, &seen, &w.x, &finite));
    for (size_t c = 0; c < w.channels; c++) {
        seen.low = fminf(seen.low, seen.sums.low[c]);
        seen.high = fmaxf(seen.high, seen.sums.high[c]);
    }
    if ((v->holds & QG_STATS_HISTOGRAM) && finite > 0)
        QG_TRY(count_bins(ctx, w.x, finite, scratch, QG_STATS_BINS, &seen));
    *out = seen;
    return QG_OK;
}

/* Channel by channel, out of a tensor in any layout. */
static qg_status bin_channel(qg_ctx *ctx, const view *w, size_t c, qg_arena *a,
                             qg_stats_channel *into)
{
    qg_stats_seen one = { .low = INFINITY, .high = -INFINITY };
    float *x = qg_arena_raw(a, w->outer * w->inner, sizeof(float));
    size_t n = 0;
    if (!x)
        return qg_nomem(ctx);
    for (size_t o = 0; o < w->outer; o++)
        for (size_t i = 0; i < w->inner; i++) {
            float v = w->x[offset(w, o, c, i)];
            if (isfinite(v)) {
                one.low = v < one.low ? v : one.low;
                one.high = v > one.high ? v : one.high;
                x[n++] = v;
            }
        }
    if (n == 0)
        return QG_OK;
    QG_TRY(count_bins(ctx, x, n, a, QG_STATS_CHANNEL_BINS, &one));
    qg_dyadic_add(&into->bins, &one.bins, one.first, one.end);
    return QG_OK;
}

static qg_status bin_channels(qg_ctx *ctx, qg_stats_value *v, const qg_tensor *x,
                              qg_arena *scratch)
{
    view w;
    QG_TRY(open_view(ctx, v, x, scratch, &w));
    for (size_t c = 0; c < v->channels; c++)
        QG_TRY(bin_channel(ctx, &w, c, scratch, &v->channel[c]));
    return QG_OK;
}

/* Lanes of a channel as one double: neighbours, then pairs of them, ... */
static double lanes(const double *lane, size_t stride)
{
    double a[QG_STATS_LANES];
    for (size_t i = 0; i < QG_STATS_LANES; i++)
        a[i] = lane[i * stride];
    for (size_t n = QG_STATS_LANES / 2; n > 0; n /= 2)
        for (size_t i = 0; i < n; i++)
            a[i] = a[2 * i] + a[2 * i + 1];
    return a[0];
}

/* Counts and extremes; the elements that are not finite are not among the count. */
static void add_channel(qg_stats_channel *into, const qg_stats_seen *s, size_t c)
{
    uint64_t nans = s->nans ? s->nans[c] : 0, infs = s->infs ? s->infs[c] : 0;
    qg_stats_widen(&into->low, &into->high, s->sums.low[c], s->sums.high[c]);
    into->zeros += s->sums.zero[c];
    into->nans += nans;
    into->infinities += infs;
    into->above += s->above ? s->above[c] : 0;
    into->count += s->count - nans - infs;
    assert(nans + infs <= s->count);
}

qg_status qg_stats_add(qg_ctx *ctx, qg_stats_value *v, uint64_t sample,
                       const qg_stats_seen *s, qg_arena *scratch)
{
    qg_stats_part *part = &v->part[sample % QG_STATS_PARTS];
    for (size_t c = 0; c < v->channels; c++) {
        add_channel(&v->channel[c], s, c);
        part->count += s->count - (s->nans ? s->nans[c] + s->infs[c] : 0);
        part->zeros += s->sums.zero[c];
        if (v->holds & QG_STATS_MOMENTS) {
            qg_wide_add(&v->channel[c].sum, lanes(s->sums.sum + c, v->channels));
            qg_wide_add(&v->channel[c].square, lanes(s->sums.square + c, v->channels));
        }
    }
    qg_stats_widen(&part->low, &part->high, s->low, s->high);
    if (s->bins.count) {
        qg_dyadic_add(&v->bins, &s->bins, s->first, s->end);
        qg_dyadic_add(&part->bins, &s->bins, s->first, s->end);
    }
    if (v->holds & QG_STATS_BY_CHANNEL)
        return bin_channels(ctx, v, s->x, scratch);
    return QG_OK;
}
