#include "engine/quant/nncf.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/number/round.h"

static const char *const grad_names[] = {
    [QG_NNCF_GRAD_PUBLISHED] = "nncf", [QG_NNCF_GRAD_EXACT] = "exact"
};

const char *qg_nncf_grad_name(qg_nncf_grad g) { return grad_names[g]; }

int qg_nncf_grad_named(const char *text)
{
    for (int g = 0; g < 2; g++)
        if (strcmp(grad_names[g], text) == 0)
            return g;
    return -1;
}

/* -- levels and ranges ------------------------------------------------------------- */

/* narrow gives up the lowest level when signed and the highest when not, as NNCF
 * does. */
qg_levels qg_nncf_levels_symmetric(int bits, bool is_signed, bool narrow)
{
    assert(bits >= 2 && bits <= 16);
    qg_levels l = { is_signed ? -(1 << (bits - 1)) : 0,
                    is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, 0 };
    if (narrow && is_signed)
        l.low++;
    else if (narrow)
        l.high--;
    l.count = l.high - l.low + 1;
    return l;
}

qg_levels qg_nncf_levels_asymmetric(int bits, bool narrow)
{
    assert(bits >= 2 && bits <= 16);
    int32_t low = narrow ? 1 : 0, high = (1 << bits) - 1;
    return (qg_levels){ low, high, high - low + 1 };
}

/* The ratio is rounded to float32 before it is multiplied: NNCF has it as a tensor. */
qg_nncf_range qg_nncf_range_symmetric(float scale, float eps, qg_levels levels)
{
    float s = fabsf(scale) + eps;
    float ratio = (float)((double)levels.low / (double)levels.high);
    float low = s * ratio;
    return (qg_nncf_range){ low, s - low };
}

/* A negative scale means that the positive side is the shorter one. */
qg_nncf_range qg_nncf_range_signed(float scale, float eps, qg_levels levels)
{
    assert(levels.low < 0);
    float s = fabsf(scale) < eps ? eps : scale;
    float down = (float)levels.low, up = (float)levels.high;
    float low = s > 0 ? -s : -(s / down) * up;
    return (qg_nncf_range){ low, fabsf((2 + 1 / down) * s) };
}

void qg_nncf_move_border(float z, float n, float *low, float *high)
{
    assert(n > 0 && z >= 0 && z <= n);
    float new_low = z < n ? z / (z - n) * *high : *low;
    float new_high = z > 0 ? (z - n) / z * *low : *high;
    if (*high - new_low > new_high - *low)
        *low = new_low;
    else
        *high = new_high;
}

qg_nncf_range qg_nncf_tune(qg_nncf_range r, int32_t levels, float *zero_point)
{
    assert(levels >= 2);
    float low = fminf(r.low, 0), high = fmaxf(r.range + r.low, 0);
    float n = (float)(levels - 1);
    float s = 1 / (high - low) * n;
    float z = qg_round_f32(QG_ROUND_HALF_EVEN, -low * s);
    qg_nncf_move_border(z, n, &low, &high);
    if (zero_point)
        *zero_point = z;
    return (qg_nncf_range){ low, high - low };
}

qg_nncf_range qg_nncf_range_asymmetric(float input_low, float input_range, float eps,
                                       qg_levels levels)
{
    qg_nncf_range r = { input_low, fabsf(input_range) + eps };
    return qg_nncf_tune(r, levels.count, NULL);
}

/* -- forward and backward ---------------------------------------------------------- */

/* One channel, ready: s and the rounded zero level. */
struct channel {
    float low, high, s, zero, inverse; /* inverse: 1 / range */
    qg_rounding rounding;
    bool old;
};

/* R(-low * s) makes zero exact in the new formula. */
static qg_status channel_of(qg_ctx *ctx, const char *what, const qg_nncf *q, size_t c,
                            struct channel *out)
{
    qg_nncf_range r = q->range[c];
    if (!isfinite(r.low) || !isfinite(r.range) || !(r.range > 0))
        return qg_fail(ctx, QG_ENUMERIC,
                       "fake quantize: %s: low %g, range %g of channel %zu, expected "
                       "finite and a range above 0",
                       what, (double)r.low, (double)r.range, c);
    struct channel k = { .low = r.low,
                         .high = r.low + r.range,
                         .inverse = 1 / r.range };
    k.s = (float)(q->levels.count - 1) / r.range;
    k.rounding = q->device == QG_NNCF_CUDA ? QG_ROUND_HALF_AWAY : QG_ROUND_HALF_EVEN;
    k.zero = qg_round_f32(k.rounding, -r.low * k.s);
    k.old = q->formula == QG_NNCF_OLD;
    *out = k;
    return QG_OK;
}

/* Comparisons are false for NaN, which so passes through. */
static float quantized(const struct channel *k, float x)
{
    float y = x > k->high ? k->high : x; /* NaN stays */
    y = y < k->low ? k->low : y;
    y = (y - k->low) * k->s;
    if (k->old)
        return qg_round_f32(k->rounding, y) / k->s + k->low;
    return qg_round_f32(k->rounding, y - k->zero) / k->s;
}

qg_status qg_nncf_forward(qg_ctx *ctx, const char *what, const qg_nncf *q,
                          const float *x, float *y)
{
    assert(q->channels == 0 || q->range);
    for (size_t c = 0; c < q->channels; c++) {
        struct channel k;
        QG_TRY(channel_of(ctx, what, q, c, &k));
        for (size_t o = 0; o < q->outer; o++)
            for (size_t i = 0; i < q->inner; i++) {
                size_t at = (o * q->channels + c) * q->inner + i;
                y[at] = quantized(&k, x[at]);
            }
    }
    return QG_OK;
}

/* The factors of a gradient that do not depend on the element. */
struct slopes {
    float alpha;  /* level_low / level_high */
    float inside; /* factor of the error: 1, or 1 - alpha */
};

struct element {
    float x, range, low;
};

/* The table in the header; above and below exclude each other since range > 0. */
static struct element element_gradient(const struct channel *k, struct slopes s,
                                       float x, float g)
{
    bool above = x > k->high, below = x < k->low;
    float error = (quantized(k, x) - x) * k->inverse;
    error = above ? 1 : below ? s.alpha : error * s.inside;
    return (struct element){ above || below ? 0 : g, error * g,
                             above || below ? g : 0 };
}

/* Only the requested gradients. */
static void store(const qg_nncf_gradients *out, size_t at, struct element e)
{
    if (out->x)
        out->x[at] = e.x;
    if (out->each_range)
        out->each_range[at] = e.range;
    if (out->each_low)
        out->each_low[at] = e.low;
}

static void channel_backward(const qg_nncf *q, size_t c, const struct channel *k,
                             const float *data[2], const qg_nncf_gradients *out)
{
    float alpha = (float)q->levels.low / (float)q->levels.high;
    struct slopes s = { alpha, q->grad == QG_NNCF_GRAD_EXACT ? 1 - alpha : 1 };
    double range = 0, low = 0;
    for (size_t o = 0; o < q->outer; o++)
        for (size_t i = 0; i < q->inner; i++) {
            size_t at = (o * q->channels + c) * q->inner + i;
            struct element e = element_gradient(k, s, data[0][at], data[1][at]);
            range += (double)e.range;
            low += (double)e.low;
            store(out, at, e);
        }
    if (out->range)
        out->range[c] = range;
    if (out->low)
        out->low[c] = low;
}

qg_status qg_nncf_backward(qg_ctx *ctx, const char *what, const qg_nncf *q,
                           const float *x, const float *g, const qg_nncf_gradients *out)
{
    for (size_t c = 0; c < q->channels; c++) {
        struct channel k;
        QG_TRY(channel_of(ctx, what, q, c, &k));
        channel_backward(q, c, &k, (const float *[2]){ x, g }, out);
    }
    return QG_OK;
}

/* -- export ------------------------------------------------------------------------ */

/* Multiplied, then divided: see the header. */
static qg_nncf_export export_range(float scale, float eps, qg_levels l)
{
    float r = fabsf(scale) + eps;
    float low = r * (float)l.low / (float)l.high;
    return (qg_nncf_export){ low, r, low, r, l };
}

/* half: twice the levels around the same step, with the trained range as a clamp. */
qg_nncf_export qg_nncf_export_symmetric(float scale, float eps, qg_levels levels,
                                        bool half)
{
    qg_nncf_export trained = export_range(scale, eps, levels);
    if (!half)
        return trained;
    qg_levels l = { 2 * levels.low, 2 * levels.high + 1, 0 };
    l.count = l.high - l.low + 1;
    qg_nncf_export e = export_range((float)l.high / (float)levels.high * scale, eps, l);
    e.clamp_low = trained.low;
    e.clamp_high = trained.high;
    return e;
}
