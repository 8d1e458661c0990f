/* vecmath.h -- exp, log, tanh, erf and related functions of one float32, the definition
 * that operators use: plain C without branches, so that a loop over them vectorises.
 *
 * Bits     the same on every instruction set and with every C library: only +, -, *, /
 *          and comparisons, each rounded once (the build sets -ffp-contract=off), in
 *          the order written
 * Error    ULP below, in units of the last place of the true value (where that is
 *          subnormal, of the smallest subnormal), measured over every third of the 2^32
 *          arguments (SIGMOID, TANH and ERF: every fifth); tests/unit/test_vecmath.c
 *          samples them
 * Limits   NaN gives NaN; infinities and overflow do as in C's functions
 * Source   ranges reduced after Cody and Waite, Software Manual for the Elementary
 *          Functions (1980); coefficients are weighted minimax fits of the quotient
 *          that the comment names, rounded to float32 (Lawson's iteration over 4000
 *          nodes) */
#ifndef QG_ENGINE_NUMBER_VECMATH_H
#define QG_ENGINE_NUMBER_VECMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Into loops of any instruction set, which plain inlining may refuse. */
#define QG_VECMATH static inline __attribute__((always_inline))

/* clang-format off */
#define QG_EXP_ULP      1.1
#define QG_EXPM1_ULP    2.0
#define QG_LOG_ULP      1.0
#define QG_LOG1P_ULP    1.5
#define QG_SIGMOID_ULP  2.5
#define QG_TANH_ULP     2.0
#define QG_ERF_ULP      1.5
/* clang-format on */

QG_VECMATH uint32_t qg_float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

QG_VECMATH float qg_float_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* 2^n for -126 <= n <= 127. */
QG_VECMATH float qg_power_of_2(int32_t n)
{
    return qg_float_of_bits((uint32_t)(n + 127) << 23);
}

/* x = n ln 2 + r, |r| <= ln 2 / 2 (and a little), for |x| < 2^15.  Adding 1.5 * 2^23
 * rounds to an integer that the low bits of the sum hold; ln 2 is cut in two so that
 * n * 355/512 is exact. */
QG_VECMATH float qg_exp_reduced(float x, int32_t *n)
{
    float sum = x * 0x1.715476p0f + 0x1.8p23f, k = sum - 0x1.8p23f;
    *n = (int32_t)(qg_float_bits(sum) - qg_float_bits(0x1.8p23f));
    return (x - k * 0.693359375f) - k * -2.12194440e-4f;
}

/* exp(r) - 1 for |r| <= ln 2 / 2.  Fit of (exp(r) - 1 - r) / r^2. */
QG_VECMATH float qg_exp_kernel(float r)
{
    float q = 0x1.6a2256p-10f;
    q = q * r + 0x1.123b02p-7f;
    q = q * r + 0x1.5558f8p-5f;
    q = q * r + 0x1.555490p-3f;
    q = q * r + 0x1.fffffcp-2f;
    return r + r * r * q;
}

/* The scale 2^n is applied in two halves: at most the second product rounds, into the
 * subnormals.  Comparisons are false for NaN, which so goes through. */
QG_VECMATH float qg_exp_f32(float x)
{
    int32_t n;
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float y = 1.0f + qg_exp_kernel(qg_exp_reduced(x, &n));
    n = n < -152 ? -152 : n > 130 ? 130 : n; /* NaN: any n does */
    int32_t half = n >> 1;
    return y * qg_power_of_2(half) * qg_power_of_2(n - half);
}

/* qg_exp_f32 where |x| <= QG_EXP_NEAR or x is NaN, with the same bits: there 2^n is a
 * normal number and nothing is limited. */
#define QG_EXP_NEAR 87.0f
QG_VECMATH float qg_exp_near_f32(float x)
{
    int32_t n;
    float y = 1.0f + qg_exp_kernel(qg_exp_reduced(x, &n));
    return y * qg_float_of_bits(((uint32_t)n + 127u) << 23);
}

/* exp(x) - 1 = 2^n e + (2^n - 1) with e = exp(r) - 1; the second term is exact. */
QG_VECMATH float qg_expm1_f32(float x)
{
    int32_t n;
    float low = x < -20.0f ? -20.0f : x, z = low > 17.0f ? 17.0f : low;
    float e = qg_exp_kernel(qg_exp_reduced(z, &n));
    n = n < -30 ? -30 : n > 30 ? 30 : n;
    float p = qg_power_of_2(n), y = p * e + (p - 1.0f);
    y = x == 0.0f ? x : y; /* keeps the sign of zero */
    return x > 17.0f ? qg_exp_f32(x) : y;
}

/* x = 2^k (1 + f) with 1 + f in [sqrt 1/2, sqrt 2).  Fit of
 * (log(1 + f) - f + f^2 / 2) / f^3. */
QG_VECMATH float qg_log_f32(float x)
{
    float small = x < 0x1p-126f ? 1.0f : 0.0f, m = x < 0x1p-126f ? x * 0x1p23f : x;
    uint32_t u = qg_float_bits(m) - 0x3f3504f3u; /* sqrt 1/2 */
    int32_t k = (int32_t)u >> 23;
    float f = qg_float_of_bits((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    float e = (float)k - small * 23.0f, p = 0x1.1457a6p-4f, s = f * f;
    p = p * f - 0x1.de3c16p-4f;
    p = p * f + 0x1.e6f06ap-4f;
    p = p * f - 0x1.fc2208p-4f;
    p = p * f + 0x1.233768p-3f;
    p = p * f - 0x1.555c4ep-3f;
    p = p * f + 0x1.99a4b6p-3f;
    p = p * f - 0x1.000006p-2f;
    p = p * f + 0x1.555548p-2f;
    float y = s * f * p + e * -2.12194440e-4f - 0.5f * s + f + e * 0.693359375f;
    y = x == 0.0f ? -INFINITY : x == INFINITY ? x : y;
    return x >= 0.0f ? y : NAN;
}

/* log(1 + x) for x >= 0: compensates the rounding of 1 + x. */
QG_VECMATH float qg_log1p_f32(float x)
{
    float s = 1.0f + x, lost = x - (s - 1.0f);
    float y = qg_log_f32(s) + lost / s;
    y = x == 0.0f ? x : y; /* keeps the sign of zero */
    return x > 0x1p24f ? qg_log_f32(x) : y;
}

/* 1 / (1 + exp(-x)), written so that no term overflows; e = exp(-|x|). */
QG_VECMATH float qg_sigmoid_of(float x, float e)
{
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

QG_VECMATH float qg_sigmoid_f32(float x)
{
    return qg_sigmoid_of(x, qg_exp_f32(-fabsf(x)));
}

/* The same bits, limited to the arguments of qg_exp_near_f32. */
QG_VECMATH float qg_sigmoid_near_f32(float x)
{
    return qg_sigmoid_of(x, qg_exp_near_f32(-fabsf(x)));
}

/* Fit of (tanh(x) / x - 1) / x^2 up to 0.625, 1 - 2 / (exp(2 |x|) + 1) beyond, which is
 * 1 long before the limit of 2 |x|. */
QG_VECMATH float qg_tanh_f32(float x)
{
    float t = fabsf(x), s = x * x, p = -0x1.75e1ccp-8f;
    float twice = t + t > QG_EXP_NEAR ? QG_EXP_NEAR : t + t;
    p = p * s + 0x1.52269ap-6f;
    p = p * s - 0x1.b83c5ap-5f;
    p = p * s + 0x1.110726p-3f;
    p = p * s - 0x1.555532p-2f;
    float near = x + x * (s * p), far = 1.0f - 2.0f / (qg_exp_near_f32(twice) + 1.0f);
    return copysignf(t < 0.625f ? near : far, x); /* of -0 as well */
}

/* Fits of erf(x) / x - 1 in x^2 up to 1, and of log(1 - erf(x)) / x from 1 to 4; 4 and
 * beyond give 1. */
QG_VECMATH float qg_erf_f32(float x)
{
    float t = fabsf(x), s = x * x, p = 0x1.496a32p-14f, q = -0x1.d47f0cp-17f;
    p = p * s - 0x1.a3f700p-11f;
    p = p * s + 0x1.5405b2p-8f;
    p = p * s - 0x1.b7f90ep-6f;
    p = p * s + 0x1.ce2cf8p-4f;
    p = p * s - 0x1.81273ep-2f;
    p = p * s + 0x1.06eba8p-3f;
    t = t > 4.0f ? 4.0f : t;
    q = q * t + 0x1.6f9ee4p-12f;
    q = q * t - 0x1.ec7fc8p-9f;
    q = q * t + 0x1.896178p-6f;
    q = q * t - 0x1.b459b2p-4f;
    q = q * t - 0x1.451abap-1f;
    q = q * t - 0x1.20f21cp+0f;
    float near = x + x * p, far = 1.0f - qg_exp_near_f32(q * t);
    return t < 1.0f ? near : copysignf(far, x);
}

#endif
