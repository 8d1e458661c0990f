/* ONNX Runtime's calibrators. */
#include "engine/calib/ort.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/number/round.h"

/* numpy's sum of at most 128 float32: eight running sums, joined in pairs. */
static float sum_block(const float *x, size_t n)
{
    float r[8], sum = 0;
    size_t i = 0;
    if (n >= 8) {
        memcpy(r, x, sizeof r);
        for (i = 8; i + 8 <= n; i += 8)
            for (size_t k = 0; k < 8; k++)
                r[k] += x[i + k];
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; i++)
        sum += x[i];
    return sum;
}

/* Longer ones are halved, the left half a multiple of 8; depth log2(n / 64). */
static float sum_pairwise(const float *x, size_t n)
{
    if (n <= 128)
        return sum_block(x, n);
    size_t left = n / 2 - n / 2 % 8;
    return sum_pairwise(x, left) + sum_pairwise(x + left, n - left);
}

/* Counts of a window of n bins in, smoothed float32 probabilities out: empty bins get
 * 1e-4, the others give it.  False when all are empty; *enough false when the others
 * cannot give that much. */
static bool smooth(const int64_t *count, size_t n, float *p, bool *enough)
{
    size_t empty = 0;
    for (size_t j = 0; j < n; j++)
        empty += count[j] == 0;
    if (empty == n)
        return false;
    double given = 1e-4 * (double)empty / (double)(n - empty);
    *enough = *enough && given < 1;
    for (size_t j = 0; j < n; j++)
        p[j] = (float)count[j] + (count[j] == 0 ? 1e-4f : (float)-given);
    float sum = sum_pairwise(p, n);
    for (size_t j = 0; j < n; j++)
        p[j] /= sum;
    return true;
}

struct window {
    size_t first, end, levels;
    int64_t *real, *rounded; /* counts of the window */
    float *p, *q;
};

/* Cuts the window out, tails in its end bins, and spreads each group over its bins that
 * are not empty then; a remainder that does not fill a group stays 0 but counts in the
 * last. */
static void fill_window(const qg_histogram *h, struct window *w)
{
    size_t n = w->end - w->first, width = n / w->levels;
    const int64_t *own = h->count + w->first;
    memcpy(w->real, own, n * sizeof *own);
    memset(w->rounded, 0, n * sizeof *own);
    for (size_t j = 0; j < w->first; j++)
        w->real[0] += h->count[j];
    for (size_t j = w->end; j < h->bins; j++)
        w->real[n - 1] += h->count[j];
    for (size_t g = 0; g < w->levels; g++) {
        size_t start = g * width, end = start + width;
        int64_t held = 0, filled = 0;
        for (size_t j = start; j < end; j++) {
            held += own[j];
            filled += w->real[j] != 0;
        }
        for (size_t j = end; g == w->levels - 1 && j < n; j++)
            held += own[j];
        for (size_t j = start; filled && j < end; j++)
            w->rounded[j] = held / filled;
    }
}

static float window_divergence(const qg_histogram *h, struct window *w, bool *enough)
{
    size_t n = w->end - w->first;
    fill_window(h, w);
    if (!smooth(w->real, n, w->p, enough) || !smooth(w->rounded, n, w->q, enough))
        return INFINITY;
    for (size_t j = 0; j < n; j++) {
        double p = (double)w->p[j], q = (double)w->q[j];
        w->p[j] = (float)(p * log(p / q));
    }
    return sum_pairwise(w->p, n);
}

static qg_status window_new(qg_ctx *ctx, qg_arena *a, size_t bins, size_t levels,
                            struct window *w)
{
    *w = (struct window){ .levels = levels,
                          .real = QG_NEWN(a, bins, int64_t),
                          .rounded = QG_NEWN(a, bins, int64_t),
                          .p = QG_NEWN(a, bins, float),
                          .q = QG_NEWN(a, bins, float) };
    return w->real && w->rounded && w->p && w->q ? QG_OK : qg_nomem(ctx);
}

qg_status qg_ort_entropy(qg_ctx *ctx, qg_arena *scratch, const qg_histogram *h,
                         size_t levels, float *divergence, qg_range_choice *out)
{
    struct window w;
    size_t zero = h->bins / 2, half = levels / 2;
    bool enough = true;
    qg_range_choice best = { .loss = INFINITY };
    QG_TRY(qg_histogram_check(ctx, "ort-entropy", h));
    if (levels == 0 || levels > h->bins)
        return qg_fail(ctx, QG_ECONFIG, "ort-entropy: %zu levels, expected 1 to %zu",
                       levels, h->bins);
    QG_TRY(window_new(ctx, scratch, h->bins, levels, &w));
    for (size_t i = half; i <= zero; i++) {
        w.first = zero - i;
        w.end = zero + i + 1 < h->bins ? zero + i + 1 : h->bins;
        float loss = window_divergence(h, &w, &enough);
        if (i == half || (double)loss < best.loss)
            best = (qg_range_choice){ i - half, h->edge[w.first], h->edge[w.end],
                                      (double)loss };
        if (divergence)
            divergence[i - half] = loss;
    }
    if (!enough)
        return qg_fail(ctx, QG_ENUMERIC,
                       "ort-entropy: a window has more than 10000 empty bins for "
                       "each filled one, expected denser counts");
    *out = best;
    return QG_OK;
}

qg_status qg_ort_percentile(qg_ctx *ctx, const qg_histogram *h, double percentile,
                            bool symmetric, qg_range_choice *out)
{
    QG_TRY(qg_histogram_check(ctx, "ort-percentile", h));
    if (!(percentile >= 0 && percentile <= 100))
        return qg_fail(ctx, QG_ECONFIG, "ort-percentile: %g, expected 0 to 100",
                       percentile);
    double cut = (100.0 - percentile) / 200.0;
    size_t right = qg_histogram_quantile(h, symmetric ? percentile / 100.0 : 1.0 - cut);
    double high = h->edge[right];
    double low = symmetric ? -high : h->edge[qg_histogram_quantile(h, cut)];
    *out = (qg_range_choice){ right, low, high, 0 };
    return QG_OK;
}

void qg_ort_clip(qg_range_choice *c, double min, double max)
{
    c->low = fmax(c->low, min);
    c->high = fmin(c->high, max);
}

/* The range tables of onnxruntime.quantization, as run with 1.31.1. */
static const struct {
    qg_dtype type;
    int32_t plain[2], symmetric[2], reduced[2];
} codes[] = {
    {QG_I8,   { -128, 127 },     { -127, 127 },     { -64, 64 }      },
    { QG_U8,  { 0, 255 },        { 0, 255 },        { 0, 127 }       },
    { QG_I16, { -32768, 32767 }, { -32767, 32767 }, { -16384, 16384 }},
    { QG_U16, { 0, 65535 },      { 0, 65535 },      { 0, 32767 }     },
    { QG_I4,  { -8, 7 },         { -8, 7 },         { -4, 3 }        },
    { QG_U4,  { 0, 15 },         { 0, 15 },         { 0, 7 }         },
};

qg_status qg_ort_codes(qg_ctx *ctx, qg_dtype type, bool symmetric, bool reduce_range,
                       qg_ort_grid *g)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].type == type) {
            const int32_t *range = reduce_range ? codes[i].reduced
                                   : symmetric  ? codes[i].symmetric
                                                : codes[i].plain;
            *g = (qg_ort_grid){ range[0], range[1], symmetric, g->least };
            return QG_OK;
        }
    return qg_fail(ctx, QG_EUNSUPPORTED,
                   "ort range: type %s, expected int8, uint8, int16, uint16, int4 or "
                   "uint4",
                   qg_dtype_name(type));
}

qg_status qg_ort_scale_zero(qg_ctx *ctx, const qg_ort_grid *g, float low, float high,
                            float *scale, int32_t *zero_point)
{
    if (g->qmin > 0 || g->qmax < 0 || g->qmin == g->qmax)
        return qg_fail(ctx, QG_ECONFIG,
                       "ort range: codes [%d, %d], expected to contain 0", (int)g->qmin,
                       (int)g->qmax);
    if (!isfinite(low) || !isfinite(high))
        return qg_fail(ctx, QG_ENUMERIC, "ort range: [%g, %g], expected finite",
                       (double)low, (double)high);
    low = fminf(low, 0);
    high = fmaxf(fmaxf(high, 0), low + g->least);
    if (g->symmetric) {
        high = fmaxf(fabsf(low), fabsf(high));
        low = -high;
    }
    double step = ((double)high - (double)low) / ((double)g->qmax - (double)g->qmin);
    bool dead = step < (double)FLT_MIN;
    double zero = g->symmetric ? ((double)g->qmin + (double)g->qmax) / 2
                               : (double)g->qmin - (double)low / step;
    *scale = dead ? 1 : (float)step;
    *zero_point = dead ? 0 : (int32_t)qg_round_f64(QG_ROUND_HALF_EVEN, zero);
    return QG_OK;
}
