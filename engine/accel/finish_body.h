/* finish_body.h -- source of the loops, compiled once per instruction set.
 *
 * Include it in one .c file after defining TARGET, the attribute that selects the
 * instruction set.  The inner loops run over the lists of a qg_finish, without calls
 * and branches, so that compilers turn them into vector code.
 *
 * Limits    a code is limited before its zero point is added, and floats before they
 *           are rounded: the limits are integers, so both orders give the same.
 * Rounding  with |v| <= 2^22, (v + 1.5 * 2^23) - 1.5 * 2^23 is v rounded half-even; in
 *           double, v +- the largest number below 1/2, cut, is v rounded half away from
 *           zero for |v| < 2^51: adding 1/2 itself would carry 0.49999999999999994 up.
 * Shifts    h / 2^e with halves upward is (h >> e) plus bit e - 1 of h: nothing
 *           overflows. */
#ifndef QG_ENGINE_ACCEL_FINISH_BODY_H
#define QG_ENGINE_ACCEL_FINISH_BODY_H

#include <math.h>

#include "engine/accel/finish.h"

#define INLINE static inline __attribute__((always_inline))

/* No element depends on another one. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

INLINE int32_t limited(int32_t v, int32_t low, int32_t high)
{
    v = v < low ? low : v;
    return v > high ? high : v;
}

/* The high multiply of fixed.c: halves upward. */
INLINE int32_t high_half(int32_t acc, int32_t left, int32_t m)
{
    int32_t x = (int32_t)((uint32_t)acc << left);
    return (int32_t)((uint64_t)((int64_t)x * m + (INT64_C(1) << 30)) >> 31);
}

INLINE int32_t shift_away(int32_t h, int32_t e)
{
    int32_t mask = (int32_t)((UINT32_C(1) << e) - 1), rest = h & mask;
    int32_t half = (mask >> 1) + (h < 0 ? 1 : 0);
    return (h >> e) + (rest > half ? 1 : 0);
}

INLINE int32_t shift_up(int32_t h, int32_t e)
{
    int32_t half = e > 0 ? h >> (e - 1) & 1 : 0;
    return (h >> e) + half;
}

INLINE float limited_f32(float v, float low, float high)
{
    v = v < low ? low : v;
    return v > high ? high : v;
}

INLINE float to_even(float v) { return (v + 0x1.8p23f) - 0x1.8p23f; }

INLINE int32_t away(double v, double low, double high)
{
    v = v < low ? low : v;
    v = v > high ? high : v;
    return (int32_t)(v + (v < 0 ? -0x1.fffffffffffffp-2 : 0x1.fffffffffffffp-2));
}

/* One loop; code is an expression of acc, c and the fields of f. */
#define LOOP(name, T, code)                                                            \
    TARGET static void name(const qg_finish *f, const int32_t *acc, void *py,          \
                            size_t places)                                             \
    {                                                                                  \
        size_t n;                                                                      \
        const int32_t *bias = f->bias, *m = f->m, *left = f->left, *right = f->right;  \
        const int32_t low = f->low, high = f->high, zero = f->zero;                    \
        const float *factor = f->f, *plus = f->plus;                                   \
        const double *real = f->real;                                                  \
        T *y = py;                                                                     \
        (void)bias, (void)m, (void)left, (void)right, (void)low, (void)high;           \
        (void)zero, (void)factor, (void)plus, (void)real;                              \
        for (size_t at = 0, all = places * f->spec.channels; at < all; at += n) {      \
            n = all - at < f->period ? all - at : f->period;                           \
            INDEPENDENT for (size_t c = 0; c < n; c++)                                 \
            {                                                                          \
                const int32_t sum =                                                    \
                    (int32_t)((uint32_t)acc[at + c] + (uint32_t)bias[c]);              \
                y[at + c] = (T)(code);                                                 \
            }                                                                          \
        }                                                                              \
    }

#define FIX(shift)                                                                     \
    limited(shift(high_half(sum, left[c], m[c]), right[c]), low, high) + zero
#define FLOAT_AFTER                                                                    \
    (int32_t) to_even(limited_f32((float)sum *factor[c], (float)low, (float)high)) +   \
        zero
#define FLOAT_INSIDE                                                                   \
    (int32_t) to_even(limited_f32((float)sum *factor[c] + (float)zero,                 \
                                  (float)(low + zero), (float)(high + zero)))
#define LOOPS(suffix, T)                                                               \
    LOOP(fix_double_##suffix, T, FIX(shift_away))                                      \
    LOOP(fix_double_up_##suffix, T, FIX(shift_up))                                     \
    LOOP(double_away_##suffix, T,                                                      \
         away((double)sum *real[c], (double)low, (double)high) + zero)                 \
    LOOP(float_after_##suffix, T, FLOAT_AFTER)                                         \
    LOOP(float_inside_##suffix, T, FLOAT_INSIDE)

LOOPS(u8, uint8_t)
LOOPS(i8, int8_t)
LOOP(floats, float, (float)sum *factor[c] + plus[c])

/* trunc(v +- the largest float below 1/2) is v rounded half away from zero, as in
 * away(). */
INLINE float to_away(float v)
{
    return (float)(int32_t)(v + (v < 0 ? -0x1.fffffep-2f : 0x1.fffffep-2f));
}

#define QUANTIZE(name, T, scaled, rounded)                                             \
    TARGET static void name(const qg_quantizer *q, const float *x, void *py, size_t n) \
    {                                                                                  \
        const int32_t zero = q->range.zero;                                            \
        const float low = (float)(q->range.lo - zero);                                 \
        const float high = (float)(q->range.hi - zero), scale = q->scale;              \
        const float nan = q->nan;                                                      \
        T *y = py;                                                                     \
        INDEPENDENT for (size_t i = 0; i < n; i++)                                     \
        {                                                                              \
            float u = x[i] == x[i] ? x[i] : nan, v = scaled;                           \
            v = v > low ? v : low;                                                     \
            v = v < high ? v : high;                                                   \
            y[i] = (T)((int32_t)rounded(v) + zero);                                    \
        }                                                                              \
    }
#define QUANTIZERS(suffix, T)                                                          \
    QUANTIZE(divide_even_##suffix, T, u / scale, to_even)                              \
    QUANTIZE(divide_away_##suffix, T, u / scale, to_away)                              \
    QUANTIZE(multiply_even_##suffix, T, u *scale, to_even)                             \
    QUANTIZE(multiply_away_##suffix, T, u *scale, to_away)
QUANTIZERS(u8, uint8_t)
QUANTIZERS(i8, int8_t)

#define QUANTIZE_ENTRIES(suffix)                                                       \
    {                                                                                  \
        divide_even_##suffix, divide_away_##suffix, multiply_even_##suffix,            \
            multiply_away_##suffix                                                     \
    }
#define ENTRIES(suffix)                                                                \
    {                                                                                  \
        fix_double_##suffix, fix_double_up_##suffix, double_away_##suffix,             \
            float_after_##suffix, float_inside_##suffix, floats                        \
    }
#define ROW(isa_name)                                                                  \
    {                                                                                  \
        isa_name, supported, ENTRIES(u8), ENTRIES(i8), QUANTIZE_ENTRIES(u8),           \
            QUANTIZE_ENTRIES(i8)                                                       \
    }

#endif
