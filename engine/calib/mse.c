/* Least squared error, by search. */
#include "engine/calib/mse.h"

#include <assert.h>
#include <math.h>

/* In float32, one operation at a time, as pytorch-quantization's fake quantization. */
static float squared_error(float x, float amax, float lowest, float bound)
{
    float scale = bound / amax, y = 0;
    if (amax > 0x1p-24f)
        y = fminf(fmaxf(rintf(x * scale), lowest), bound) / scale;
    return (y - x) * (y - x);
}

static double mean_error(const qg_histogram *h, const float *center, float amax,
                         const qg_mse *m)
{
    float bound = (float)((1 << (m->bits - !m->is_unsigned)) - 1);
    double sum = 0;
    for (size_t j = 0; j < h->bins; j++) {
        float e = squared_error(center[j], amax, m->is_unsigned ? 0 : -bound, bound);
        sum += (double)(e * (float)h->count[j]);
    }
    return sum / (double)h->bins;
}

/* Running sums over bins, for the error of a cell of codes at once. */
typedef struct sums {
    const qg_histogram *h;
    const float *center;
    double *n, *x, *square; /* [bins + 1] of count, count * center, count * center^2 */
} sums;

/* Sums over all bins before j, for j = 0 .. bins; false: out of memory. */
static bool sums_new(qg_arena *a, const qg_histogram *h, const float *center, sums *s)
{
    *s = (sums){ h, center, QG_NEWN(a, h->bins + 1, double),
                 QG_NEWN(a, h->bins + 1, double), QG_NEWN(a, h->bins + 1, double) };
    if (!s->n || !s->x || !s->square)
        return false;
    for (size_t j = 0; j < h->bins; j++) {
        double n = (double)h->count[j], c = (double)center[j];
        s->n[j + 1] = s->n[j] + n;
        s->x[j + 1] = s->x[j] + n * c;
        s->square[j + 1] = s->square[j] + n * c * c;
    }
    return true;
}

/* The first center at or above v: where even bins would have it, then by steps. */
static size_t center_above(const sums *s, double v)
{
    size_t bins = s->h->bins;
    double first = (double)s->center[0];
    double width =
        ((double)s->center[bins - 1] - first) / (double)(bins > 1 ? bins - 1 : 1);
    double guess = (v - first) / width;
    /* Without a width it may be no number: then by steps alone. */
    size_t j = guess >= (double)bins ? bins : guess > 0 ? (size_t)guess : 0;
    while (j > 0 && (double)s->center[j - 1] >= v)
        j--;
    while (j < bins && (double)s->center[j] < v)
        j++;
    return j;
}

/* mean_error in real numbers, O(codes): all centers of a cell round to its code. */
static double quick_error(const sums *s, double amax, const qg_mse *m)
{
    double bound = (double)((1 << (m->bits - !m->is_unsigned)) - 1), sum = 0;
    size_t from = 0;
    if (amax <= 0x1p-24) /* all become zero */
        return s->square[s->h->bins] / (double)s->h->bins;
    for (double k = 0; k <= bound && from < s->h->bins; k++) {
        double v = k * amax / bound;
        size_t to = k < bound ? center_above(s, (k + 0.5) * amax / bound) : s->h->bins;
        sum += s->square[to] - s->square[from] - 2 * v * (s->x[to] - s->x[from]) +
               v * v * (s->n[to] - s->n[from]);
        from = to;
    }
    return sum / (double)s->h->bins;
}

/* float32 has its square. */
static const double MOST = 0x1p63;

/* A rounded value is off by 2^-24 of itself, which is 2^-24 * 2^bits of an error of
 * half a step: up to 10 bits its square stays below this part.  Differences of large
 * sums stay below FLOOR of the total weight. */
static const double SLACK = 1e-3, FLOOR = 1e-10;
enum { QUICK_BITS = 10 };

/* Candidates whose quick error is near the least are decided by the definition, so the
 * choice is that of trying all. */
static qg_status search_quick(qg_arena *scratch, const qg_mse *m, const sums *s,
                              qg_range_choice *best)
{
    size_t bins = s->h->bins;
    double least = INFINITY, *quick = QG_NEWN(scratch, bins, double);
    if (!quick)
        return QG_ENOMEM;
    for (size_t i = m->start; i < bins; i++) {
        quick[i] = quick_error(s, (double)s->center[i], m);
        least = fmin(least, quick[i]);
    }
    assert(isfinite(least));
    double near = m->bits > QUICK_BITS
                      ? INFINITY
                      : least * (1 + SLACK) + FLOOR * s->square[bins] / (double)bins;
    for (size_t i = m->start; i < bins; i++) {
        if (quick[i] > near)
            continue;
        double high = (double)s->center[i];
        double error = mean_error(s->h, s->center, s->center[i], m);
        if (error < best->loss)
            *best = (qg_range_choice){ i, m->is_unsigned ? 0 : -high, high, error };
    }
    return QG_OK;
}

qg_status qg_mse_nvidia(qg_ctx *ctx, qg_arena *scratch, const qg_mse *m,
                        const qg_histogram *h, double *loss, qg_range_choice *out)
{
    sums s;
    QG_TRY(qg_histogram_check(ctx, "nvidia-mse", h));
    if (m->bits < 2 || m->bits > 16 || m->start >= h->bins)
        return qg_fail(ctx, QG_ECONFIG,
                       "nvidia-mse: %d bits, start %zu, expected 2 to 16 and a start "
                       "below %zu",
                       m->bits, m->start, h->bins);
    if (h->edge[h->bins] > MOST)
        return qg_fail(ctx, QG_ENUMERIC,
                       "nvidia-mse: values up to %g, whose squares are beyond float32, "
                       "expected at most %g",
                       h->edge[h->bins], MOST);
    float *center = QG_NEWN(scratch, h->bins, float);
    if (!center)
        return qg_nomem(ctx);
    for (size_t j = 0; j < h->bins; j++)
        center[j] = ((float)h->edge[j + 1] + (float)h->edge[j]) / 2;
    if (!sums_new(scratch, h, center, &s))
        return qg_nomem(ctx);
    for (size_t i = m->start; loss && i < h->bins; i++)
        loss[i - m->start] = mean_error(h, center, center[i], m);
    qg_range_choice best = { .loss = INFINITY };
    if (search_quick(scratch, m, &s, &best) != QG_OK)
        return qg_nomem(ctx);
    *out = best;
    return QG_OK;
}

double qg_mse_ppq_loss(const qg_histogram *h, qg_mse_grid g)
{
    double total = (double)qg_histogram_total(h), sum = 0;
    for (size_t j = 0; j < h->bins; j++) {
        double e;
        if (j < g.start) {
            e = (double)(g.start - j - 1) + 0.5;
        } else if (j > g.end) {
            e = (double)(j - g.end) + 0.5;
        } else {
            size_t left = (j - g.start) % g.step, right = g.step - left - 1;
            e = left == right  ? (double)left + 0.25
                : left < right ? (double)left + 0.5
                               : (double)right + 0.5;
        }
        sum += (double)h->count[j] * e * e / total;
    }
    return sum;
}

struct found {
    qg_mse_grid grid;
    double loss;
};

static void try_grid(const qg_histogram *h, qg_mse_grid g, struct found *best)
{
    double loss = qg_mse_ppq_loss(h, g);
    if (loss < best->loss)
        *best = (struct found){ g, loss };
}

qg_status qg_mse_ppq(qg_ctx *ctx, const qg_histogram *h, size_t levels, bool symmetric,
                     qg_range_choice *out)
{
    QG_TRY(qg_histogram_check(ctx, "ppq-mse", h));
    if (levels == 0 || levels > 1u << 24)
        return qg_fail(ctx, QG_ECONFIG, "ppq-mse: %zu levels, expected 1 to 2^24",
                       levels);
    size_t steps = h->bins / levels;
    double low = h->edge[0], width = (h->edge[h->bins] - low) / (double)h->bins;
    struct found best = { .loss = INFINITY };
    try_grid(h, (qg_mse_grid){ 0, steps + 1, levels * (steps + 1) }, &best);
    for (size_t start = 0; start < h->bins; start += 8) {
        if (symmetric ? start > 0 : (double)start * width + low > 0)
            break;
        for (size_t step = 1; step <= steps; step++)
            if (start + levels * step <= h->bins + levels)
                try_grid(h, (qg_mse_grid){ start, step, start + levels * step }, &best);
    }
    double high = (double)best.grid.end * width + low;
    *out = (qg_range_choice){ best.grid.end,
                              symmetric ? -high : (double)best.grid.start * width + low,
                              high, best.loss };
    return QG_OK;
}
