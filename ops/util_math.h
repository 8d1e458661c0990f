/* util_math.h -- exp, tanh, erf and the logistic function in float, written so that
 * loops over them vectorise: no branches, no calls, only correctly rounded operations.
 *
 * They are the definition here, rather than the C library's expf and so on, whose last
 * bits depend on the library's version and on whether the CPU has fused multiply-add:
 * these give the same bits everywhere.
 *
 * Error    in units of the last place of the exact result: exp 1, tanh and erf 2,
 *          logistic 3 (tests/unit/test_ops_math.c); results may be subnormal
 * NaN      stays NaN; infinities give the limits
 * Source   argument reduction and polynomials of exp and tanh: Cephes (Moshier, expf.c,
 *          tanhf.c); erf: least-squares polynomials in Chebyshev nodes, made for this
 *          file: erf(x) / x - 1 in x^2 on [0, 1], -ln(1 - erf(t)) / t - 1 in t on
 *          [0.98, 4] */
#ifndef QG_OPS_UTIL_MATH_H
#define QG_OPS_UTIL_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t qg_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float qg_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^k * e^r with k = round(x / ln 2); 2^k is applied in two halves, so that subnormal
 * results and overflow come out as they should.  Adding 1.5 * 2^23 rounds to an integer
 * (half to even) and leaves it in the low bits. */
static inline float qg_expf(float x)
{
    const float magic = 0x1.8p23f;
    x = x < -104.0f ? -104.0f : x > 89.5f ? 89.5f : x;
    const float shifted = x * 1.44269504088896341f + magic, k = shifted - magic;
    const float r = x - k * 0.693359375f - k * -2.12194440e-4f;
    const float p =
        ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r +
          4.1665795894e-2f) *
             r +
         1.6666665459e-1f) *
            r +
        5.0000001201e-1f;
    const float y = p * (r * r) + r + 1.0f;
    /* k + 150 >= 0; the halves are 75 too large together with it */
    const uint32_t whole = qg_float_bits(shifted) - qg_float_bits(magic) + 150u;
    const uint32_t half = (whole & 0x3ffu) >> 1, rest = (whole & 0x3ffu) - half;
    return y * qg_bits_float((half + 127u - 75u) << 23) *
           qg_bits_float((rest + 127u - 75u) << 23);
}

static inline float qg_sigmoidf(float x) { return 1.0f / (1.0f + qg_expf(-x)); }

static inline float qg_tanhf(float x)
{
    const float t = fabsf(x), s = x * x;
    const float p =
        (((-5.70498872745e-3f * s + 2.06390887954e-2f) * s - 5.37397155531e-2f) * s +
         1.33314422036e-1f) *
            s -
        3.33332819422e-1f;
    const float low = x * (1.0f + p * s); /* keeps -0 */
    const float high = 1.0f - 2.0f / (qg_expf(t + t) + 1.0f);
    return t < 0.625f ? low : x < 0 ? -high : high;
}

static inline float qg_erff(float x)
{
    const float t = fabsf(x), s = x * x, u = t < 4.0f ? t : 4.0f;
    const float p =
        (((((7.882497448e-5f * s - 8.018855006e-4f) * s + 5.189312156e-3f) * s -
           2.685432881e-2f) *
              s +
          1.128359735e-1f) *
             s -
         3.761262596e-1f) *
            s +
        1.283791661e-1f;
    const float q =
        ((((((-1.061892135e-6f * u + 3.473641118e-5f) * u - 5.019574892e-4f) * u +
            4.318779334e-3f) *
               u -
           2.518069558e-2f) *
              u +
          1.079203114e-1f) *
             u +
         6.340944767e-1f) *
            u +
        1.289209425e-1f;
    const float low = x + x * p;
    const float high = 1.0f - qg_expf(-(u + u * q));
    return t < 1.0f ? low : x < 0 ? -high : t >= 1.0f ? high : x; /* x: NaN */
}

/* For code that is written once for float and double. */
#define QG_EXP(x)  _Generic((x), float : qg_expf, double : exp)(x)
#define QG_TANH(x) _Generic((x), float : qg_tanhf, double : tanh)(x)
#define QG_ERF(x)  _Generic((x), float : qg_erff, double : erf)(x)

#endif
