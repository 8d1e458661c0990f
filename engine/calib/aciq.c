/* ACIQ thresholds. */
#include "engine/calib/aciq.h"

#include <assert.h>
#include <math.h>

static const double pi = 3.14159265358979323846;

/* log(a) + a = log(3 * 4^bits): concave, so Newton from below climbs to the root. */
static double laplace(double steps)
{
    double a = 1;
    for (int i = 0; i < 32; i++)
        a -= (log(a) + a - log(3 * steps)) / (1 / a + 1);
    return a;
}

/* phi(a) - a Q(a) - a / (6 * 4^bits): falling and convex, so Newton from the left does
 * not overshoot. */
static double gauss(double steps)
{
    double a = 0, rise = 1 / (6 * steps);
    for (int i = 0; i < 64; i++) {
        double tail = erfc(a / sqrt(2)) / 2, density = exp(-a * a / 2) / sqrt(2 * pi);
        a += (density - a * tail - a * rise) / (tail + rise);
    }
    return a;
}

double qg_aciq_alpha(qg_aciq_shape shape, int bits)
{
    assert(bits >= 1 && bits <= 24);
    double steps = ldexp(1, 2 * bits);
    return shape == QG_ACIQ_LAPLACE ? laplace(steps) : gauss(steps);
}

qg_status qg_aciq_threshold(qg_ctx *ctx, qg_aciq_shape shape, int bits, double scale,
                            double *threshold)
{
    if (bits < 1 || bits > 24)
        return qg_fail(ctx, QG_ECONFIG, "aciq: %d bits, expected 1 to 24", bits);
    if (!isfinite(scale) || scale < 0)
        return qg_fail(ctx, QG_ENUMERIC,
                       "aciq: a distribution of scale %g, expected finite and >= 0",
                       scale);
    *threshold = qg_aciq_alpha(shape, bits) * scale;
    return QG_OK;
}

qg_status qg_aciq_ncnn(qg_ctx *ctx, float absmax, uint64_t n, int bits, bool clamp,
                       float *threshold)
{
    /* ncnn's constants; 7 and 8 bits differ from the optimum in the sixth digit. */
    static const float alpha[] = {
        [2] = 1.71063519f, [3] = 2.15159277f, [4] = 2.55913646f, [5] = 2.93620062f,
        [6] = 3.28691474f, [7] = 3.61511460f, [8] = 3.92403714f
    };
    if (bits < 2 || bits > 8)
        return qg_fail(ctx, QG_ECONFIG, "ncnn aciq: %d bits, expected 2 to 8", bits);
    if (n < 2 || !isfinite(absmax) || absmax < 0)
        return qg_fail(ctx, QG_ENUMERIC,
                       "ncnn aciq: largest value %g of %llu samples, expected a finite "
                       "value >= 0 of at least 2 samples",
                       (double)absmax, (unsigned long long)n);
    double sigma = (double)absmax * 2 * 0.5 * 0.35 * (1 + sqrt(pi * log(4))) /
                   sqrt(2 * log((double)n));
    float found = (float)((double)alpha[bits] * sigma);
    *threshold = clamp && found > absmax ? absmax : found;
    return QG_OK;
}
