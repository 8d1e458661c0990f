/* Ranges of NNCF's post-training quantization
 * (docs/evidence/learned-grids.md#post-training-ranges), in float32 and
 * in the order of its numpy backend. */
#include "engine/quant/nncf.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "engine/number/round.h"

/* Half range needs a bit to give away. */
static qg_status ptq_check(qg_ctx *ctx, const qg_nncf_ptq *p, size_t n,
                           const float *min, const float *max)
{
    if (p->bits < 2 || p->bits > 16 || (p->half && (!p->symmetric || p->bits < 3)))
        return qg_fail(ctx, QG_ECONFIG,
                       "quantizer range: %d bits%s, expected 2 to 16, and half range "
                       "only for symmetric of at least 3",
                       p->bits, p->half ? ", half range" : "");
    for (size_t c = 0; c < n; c++)
        if (!isfinite(min[c]) || !isfinite(max[c]))
            return qg_fail(ctx, QG_ENUMERIC,
                           "quantizer range: channel %zu: [%g, %g], expected finite", c,
                           (double)min[c], (double)max[c]);
    return QG_OK;
}

/* Dead channels get one hundredth of the largest, at least 8e-5. */
static void symmetric(const qg_nncf_ptq *p, size_t n, float *low, float *high)
{
    bool is_signed = p->force_signed;
    float largest = 0;
    for (size_t c = 0; c < n; c++) {
        is_signed = is_signed || low[c] < 0;
        high[c] = fmaxf(fabsf(low[c]), fabsf(high[c]));
        largest = fmaxf(largest, high[c]);
    }
    float alive = fmaxf(0.01f * largest, 8e-5f);
    int levels = 1 << (p->half ? p->bits - 1 : p->bits);
    float below = (float)((double)levels / (double)(levels - 2));
    for (size_t c = 0; c < n; c++) {
        high[c] = fmaxf(high[c], alive);
        low[c] = !is_signed ? 0 : p->narrow ? -high[c] : -high[c] * below;
    }
}

/* The step of one bit less, stretched over all levels. */
static void widen_half(const qg_nncf_ptq *p, size_t n, int32_t levels, float *low,
                       float *high)
{
    float k = (float)((double)(levels - 1) / (double)((1 << (p->bits - 1)) - 1));
    for (size_t c = 0; c < n; c++) {
        low[c] *= k;
        high[c] *= k;
    }
}

/* Dead ranges are widened, zero is included, one border moves. */
static void asymmetric(int bits, size_t n, float *low, float *high)
{
    const float dead = 8e-4f;
    for (size_t c = 0; c < n; c++) {
        float widen = high[c] - low[c] > dead ? 0 : dead;
        low[c] = fminf(low[c] - widen, 0);
        high[c] = fmaxf(high[c] + widen, 0);
    }
    qg_nncf_tune_borders(low, high, n, bits, false);
}

qg_status qg_nncf_ptq_range(qg_ctx *ctx, const qg_nncf_ptq *p, size_t n, float *low,
                            float *high, int32_t *levels)
{
    QG_TRY(ptq_check(ctx, p, n, low, high));
    *levels = p->symmetric ? qg_nncf_levels_symmetric(p->bits, true, p->narrow).count
                           : qg_nncf_levels_asymmetric(p->bits, p->narrow).count;
    if (p->symmetric)
        symmetric(p, n, low, high);
    else
        asymmetric(p->bits, n, low, high);
    if (p->half)
        widen_half(p, n, *levels, low, high);
    return QG_OK;
}

/* numpy's sum of float32: eight running sums, joined in pairs, blocks of up to 128
 * summed apart; the depth of halving is bounded by 64.  Here for n values of a
 * function. */
struct zero_points {
    const float *min, *max;
    float top;
};

/* f32(-low / scale), the summand of the mean. */
static float zero_point_at(const struct zero_points *z, size_t i)
{
    float scale = (z->max[i] - z->min[i]) / z->top;
    return -z->min[i] / scale;
}

/* numpy's inner loop for up to 128 values. */
static float sum_block(const struct zero_points *z, size_t first, size_t n)
{
    assert(n <= 128);
    float r[8], sum = 0;
    size_t i = 0;
    if (n >= 8) {
        for (size_t k = 0; k < 8; k++)
            r[k] = zero_point_at(z, first + k);
        for (i = 8; i + 8 <= n; i += 8)
            for (size_t k = 0; k < 8; k++)
                r[k] += zero_point_at(z, first + i + k);
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; i++)
        sum += zero_point_at(z, first + i);
    return sum;
}

/* Pairwise: a range of more than 128 is halved (the left half a multiple of 8); partial
 * sums wait on a stack until their sibling is done. */
static float sum_pairwise(const struct zero_points *z, size_t n)
{
    struct {
        size_t first, n;
        float left;
        bool has_left;
    } stack[64];
    int depth = 0;
    size_t first = 0;
    for (;;) {
        while (n > 128) {
            size_t left = n / 2 - n / 2 % 8;
            assert(depth < 64);
            stack[depth].first = first + left;
            stack[depth].n = n - left;
            stack[depth++].has_left = false;
            n = left;
        }
        float sum = sum_block(z, first, n);
        while (depth > 0 && stack[depth - 1].has_left)
            sum = stack[--depth].left + sum;
        if (depth == 0)
            return sum;
        stack[depth - 1].left = sum;
        stack[depth - 1].has_left = true;
        first = stack[depth - 1].first;
        n = stack[depth - 1].n;
    }
}

/* unify moves every channel to the rounded mean of the zero points. */
void qg_nncf_tune_borders(float *low, float *high, size_t n, int bits, bool unify)
{
    assert(bits >= 2 && bits <= 16);
    struct zero_points z = { low, high, (float)((1 << bits) - 1) };
    float common = 0;
    if (unify && n > 0)
        common = qg_round_f32(QG_ROUND_HALF_EVEN, sum_pairwise(&z, n) / (float)n);
    for (size_t c = 0; c < n; c++) {
        float s = z.top / (high[c] - low[c]);
        float level = unify ? common : qg_round_f32(QG_ROUND_HALF_EVEN, -low[c] * s);
        qg_nncf_move_border(level, z.top, &low[c], &high[c]);
    }
}

void qg_nncf_scale_zero(float low, float high, qg_levels levels, bool narrow,
                        float *scale, int32_t *zero_point)
{
    int32_t lowest = narrow ? levels.low + 1 : levels.low;
    float s = (high - low) / (float)(levels.high - lowest);
    if (fabsf(s) < FLT_EPSILON)
        s = FLT_EPSILON;
    float z = (float)lowest - qg_round_f32(QG_ROUND_HALF_EVEN, low / s);
    z = fminf(fmaxf(z, (float)levels.low), (float)levels.high);
    *scale = s;
    *zero_point = (int32_t)z;
}
