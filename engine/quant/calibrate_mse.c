/* Least squared error, by search. */
#include "engine/quant/calibrate_mse.h"

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

qg_status qg_mse_nvidia(qg_ctx *ctx, qg_arena *scratch, const qg_mse *m,
                        const qg_histogram *h, double *loss, qg_range_choice *out)
{
    QG_TRY(qg_histogram_check(ctx, "nvidia-mse", h));
    if (m->bits < 2 || m->bits > 16 || m->start >= h->bins)
        return qg_fail(ctx, QG_ECONFIG,
                       "nvidia-mse: %d bits, start %zu, expected 2 to 16 and a start "
                       "below %zu",
                       m->bits, m->start, h->bins);
    float *center = QG_NEWN(scratch, h->bins, float);
    if (!center)
        return qg_fail(ctx, QG_ENOMEM, "nvidia-mse: scratch");
    for (size_t j = 0; j < h->bins; j++)
        center[j] = ((float)h->edge[j + 1] + (float)h->edge[j]) / 2;
    qg_range_choice best = { .loss = INFINITY };
    for (size_t i = m->start; i < h->bins; i++) {
        double error = mean_error(h, center, center[i], m);
        double high = (double)center[i];
        if (error < best.loss)
            best = (qg_range_choice){ i, m->is_unsigned ? 0 : -high, high, error };
        if (loss)
            loss[i - m->start] = error;
    }
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
