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
 *           overflows.
 * Near      two roundings, first to a multiple of 2^-e and then to an integer, are one
 *           rounding of v moved by 2^-(e + 1), upward or away from zero.  float32 gives
 *           it in half of the time, wrong only where v lies closer to a tie than its
 *           error: 3 * 2^-24 * 256 of two conversions and a product, and 2^-16 of the
 *           addition, together below NEAR_TIE.  A block with such an element is
 *           computed again in integers. */
#ifndef QG_ENGINE_ACCEL_FINISH_BODY_H
#define QG_ENGINE_ACCEL_FINISH_BODY_H

#include <math.h>
#include <string.h>

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

/* Two's complement, as the runtimes' accumulators. */
INLINE int32_t wrapping_sum(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

INLINE float limited_f32(float v, float low, float high)
{
    v = v < low ? low : v;
    return v > high ? high : v;
}

INLINE float to_even(float v) { return (v + 0x1.8p23f) - 0x1.8p23f; }

/* The bits of a float. */
INLINE int32_t bits(float v)
{
    int32_t i;
    memcpy(&i, &v, sizeof i);
    return i;
}

/* v + 1.5 * 2^23, whose last bits are those of v rounded half-even. */
#define CARRY      0x1.8p23f
#define CARRY_BITS 0x4b400000

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
                const int32_t sum = wrapping_sum(acc[at + c], bias[c]);                \
                y[at + c] = (T)(code);                                                 \
            }                                                                          \
        }                                                                              \
    }

enum { BLOCK = 128 };
#define NEAR_TIE 0x1p-13f

/* One loop by float32; moved: v moved by d; code: as above, where that may differ. */
#define NEAR_LOOP(name, T, moved, code)                                                \
    TARGET static void name(const qg_finish *f, const int32_t *acc, void *py,          \
                            size_t places)                                             \
    {                                                                                  \
        size_t n, all = places * f->spec.channels;                                     \
        const int32_t low = f->low, high = f->high, zero = f->zero;                    \
        const int32_t low_bits = zero - CARRY_BITS;                                    \
        const int32_t near_tie = bits(0.5f - NEAR_TIE);                                \
        T *y = py;                                                                     \
        for (size_t at = 0, from = 0; at < all; at += n, from += n) {                  \
            from = from == f->period ? 0 : from;                                       \
            n = f->period - from < BLOCK ? f->period - from : BLOCK;                   \
            n = all - at < n ? all - at : n;                                           \
            const int32_t *bias = f->bias + from, *m = f->m + from;                    \
            const int32_t *right = f->right + from;                                    \
            const float *factor = f->f + from, *move = f->plus + from;                 \
            const double *real = f->real + from;                                       \
            int32_t most = 0;                                                          \
            (void)m, (void)right, (void)real;                                          \
            INDEPENDENT for (size_t c = 0; c < n; c++)                                 \
            {                                                                          \
                const int32_t sum = wrapping_sum(acc[at + c], bias[c]);                \
                const float v =                                                        \
                    limited_f32((float)sum * factor[c], (float)low, (float)high);      \
                const float d = move[c], w = (moved), carried = w + CARRY;             \
                y[at + c] = (T)(bits(carried) + low_bits);                             \
                const int32_t from_tie = bits(w - (carried - CARRY)) & INT32_MAX;      \
                (void)d;                                                               \
                most = from_tie > most ? from_tie : most;                              \
            }                                                                          \
            if (most < near_tie)                                                       \
                continue;                                                              \
            INDEPENDENT for (size_t c = 0; c < n; c++)                                 \
            {                                                                          \
                const int32_t sum = wrapping_sum(acc[at + c], bias[c]);                \
                y[at + c] = (T)(code);                                                 \
            }                                                                          \
        }                                                                              \
    }

#define FIX_RIGHT(shift)                                                               \
    limited(shift(high_half(sum, 0, m[c]), right[c]), low, high) + zero
#define AWAY away((double)sum *real[c], (double)low, (double)high) + zero
#define FIX(shift)                                                                     \
    limited(shift(high_half(sum, left[c], m[c]), right[c]), low, high) + zero
#define FLOAT_AFTER                                                                    \
    bits(limited_f32((float)sum *factor[c], (float)low, (float)high) + CARRY) -        \
        CARRY_BITS + zero
#define FLOAT_INSIDE                                                                   \
    bits(limited_f32((float)sum *factor[c] + (float)zero, (float)(low + zero),         \
                     (float)(high + zero)) +                                           \
         CARRY) -                                                                      \
        CARRY_BITS
#define LOOPS(suffix, T)                                                               \
    LOOP(fix_double_##suffix, T, FIX(shift_away))                                      \
    LOOP(fix_double_up_##suffix, T, FIX(shift_up))                                     \
    NEAR_LOOP(near_double_##suffix, T, v + __builtin_copysignf(d, v),                  \
              FIX_RIGHT(shift_away))                                                   \
    NEAR_LOOP(near_up_##suffix, T, v + d, FIX_RIGHT(shift_up))                         \
    NEAR_LOOP(double_away_##suffix, T, v + d, AWAY)                                    \
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
    TARGET static void name(const qg_affine_quantizer *q, const float *x, void *py,    \
                            size_t n)                                                  \
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

/* The zone around ties is wider: what operators do before the last rounding differs. */
#define PAIR_TIE 0x1p-12f
#define PAIR(name, T, value)                                                           \
    TARGET static bool name(const qg_near_pair *p, const void *pa, const void *pb,     \
                            void *py, size_t n)                                        \
    {                                                                                  \
        const T *a = pa, *b = pb;                                                      \
        const int32_t za = p->za, zb = p->zb, bias = p->zero - CARRY_BITS;             \
        const float fa = p->fa, fb = p->fb;                                            \
        const float low = (float)p->low, high = (float)p->high;                        \
        T *y = py;                                                                     \
        int32_t most = 0;                                                              \
        (void)fb;                                                                      \
        INDEPENDENT for (size_t i = 0; i < n; i++)                                     \
        {                                                                              \
            const int32_t va = a[i] - za, vb = b[i] - zb;                              \
            const float v = limited_f32(value, low, high), carried = v + CARRY;        \
            const int32_t from_tie = bits(v - (carried - CARRY)) & INT32_MAX;          \
            y[i] = (T)(bits(carried) + bias);                                          \
            most = from_tie > most ? from_tie : most;                                  \
        }                                                                              \
        return most < bits(0.5f - PAIR_TIE);                                           \
    }
#define PAIRS(suffix, T)                                                               \
    PAIR(sum_##suffix, T, (float)va *fa + (float)vb * fb)                              \
    PAIR(product_##suffix, T, (float)(va * vb) * fa)
PAIRS(u8, uint8_t)
PAIRS(i8, int8_t)

#define DEQUANTIZE(name, T)                                                            \
    TARGET static void name(int32_t zero, float scale, const void *px, float *y,       \
                            size_t n)                                                  \
    {                                                                                  \
        const T *x = px;                                                               \
        INDEPENDENT for (size_t i = 0; i < n; i++) y[i] =                              \
            (float)(x[i] - zero) * scale;                                              \
    }
DEQUANTIZE(dequantize_u8, uint8_t)
DEQUANTIZE(dequantize_i8, int8_t)

/* LOOK_UP: another function for it. */
#if !defined(LOOK_UP)
#define LOOK_UP look_up
static void look_up(const uint8_t table[256], const uint8_t *x, uint8_t *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = table[x[i]];
}
#endif

#define QUANTIZE_ENTRIES(suffix)                                                       \
    {                                                                                  \
        divide_even_##suffix, divide_away_##suffix, multiply_even_##suffix,            \
            multiply_away_##suffix                                                     \
    }
#define ENTRIES(suffix)                                                                \
    {                                                                                  \
        fix_double_##suffix, fix_double_up_##suffix, near_double_##suffix,             \
            near_up_##suffix, double_away_##suffix, float_after_##suffix,              \
            float_inside_##suffix, floats                                              \
    }
#define NEAR_ENTRIES(suffix)                                                           \
    {                                                                                  \
        sum_##suffix, product_##suffix                                                 \
    }
#define ROW(isa_name)                                                                  \
    {                                                                                  \
        isa_name, supported, ENTRIES(u8), ENTRIES(i8), QUANTIZE_ENTRIES(u8),           \
            QUANTIZE_ENTRIES(i8), NEAR_ENTRIES(u8), NEAR_ENTRIES(i8), dequantize_u8,   \
            dequantize_i8, LOOK_UP                                                     \
    }

#endif
