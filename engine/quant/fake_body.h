/* fake_body.h -- source of the kernels, compiled once per instruction set.
 *
 * Include it in one .c file after defining
 *     ISA     suffix of the exported row: qg_fake_row_<ISA>
 *     TARGET  attribute that selects the instruction set (empty: the build's own)
 *     FUSED   1 where a fused multiply-add is one instruction
 * The loops are written so that compilers turn them into vector code (selects instead
 * of branches, no calls); nothing depends on whether they do.
 *
 * Rounding  with |q| <= 2^22, (q + 1.5 * 2^23) - 1.5 * 2^23 is q rounded half-even: the
 *           sum lies where floats are integers.  d = q - that is exact, and decides in
 *           the other modes when to step.  Zeros come out as +0.
 * Quotient  x / scale with the bits of the division, from r = RN(1 / scale), twice
 *           q <- RN(q + RN(x - q * scale) * r), starting at q = RN(x * r).  q starts
 *           within 1.5 ulp; the first step brings it within (1/2 + 2^-22) ulp; from
 *           there the second is correctly rounded, residual exact (Markstein,
 *           "Computation of elementary functions on the IBM RISC System/6000", 1990,
 *           theorem 8; needs r correctly rounded and no underflow: scale within
 *           [2^-100, 2^100]; an |x| below scale / 4, where residuals may underflow,
 *           rounds to 0 all the same).
 * Limits    x is limited to RN(limit * scale) beforehand.  The quotient of that is
 *           within limit * 2^-23 < 1/2 of the limit, hence rounds to it, and both steps
 *           are monotone.  Comparisons are false for NaN, which therefore stays.
 *
 * Chosen at run time, once per qg_linear: see qg_fake_row_best. */
#ifndef QG_ENGINE_QUANT_FAKE_BODY_H
#define QG_ENGINE_QUANT_FAKE_BODY_H

#include <math.h>
#include <string.h>

#include "engine/quant/fake_kernel.h"

#define INLINE static inline __attribute__((always_inline))

/* No element depends on another one: x and y are equal or apart. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Constants of a loop: each combination in use is compiled by itself. */
typedef struct loop_kind {
    qg_rounding mode;
    enum { DIVIDED, ONCE, TWICE } quotient; /* or how often x * inverse is corrected */
    qg_nan nan;
} loop_kind;

/* |q| <= 2^22 or NaN. */
INLINE float to_int(qg_rounding mode, float q)
{
    float e = (q + 0x1.8p23f) - 0x1.8p23f, d = q - e;
    float over = d == 0.5f ? 1.0f : 0.0f, under = d == -0.5f ? 1.0f : 0.0f;
    switch (mode) {
    case QG_ROUND_HALF_UP:
        return e + over;
    case QG_ROUND_HALF_DOWN:
        return e - under;
    case QG_ROUND_HALF_TOWARD_ZERO:
        return e + (q < 0 ? over : 0.0f) - (q > 0 ? under : 0.0f);
    case QG_ROUND_HALF_AWAY:
    case QG_ROUND_NEAR_INT:
        return e + (q > 0 ? over : 0.0f) - (q < 0 ? under : 0.0f);
    case QG_ROUND_UP:
        return e + (d > 0 ? 1.0f : 0.0f);
    case QG_ROUND_DOWN:
        return e - (d < 0 ? 1.0f : 0.0f);
    default:
        return e;
    }
}

/* Comparisons are false for NaN: written so that the first of them decides at no cost
 * what it becomes, or neither. */
INLINE float limited(qg_nan nan, float x, float low, float high)
{
    switch (nan) {
    case QG_NAN_LOWEST:
        x = x > low ? x : low;
        return x < high ? x : high;
    case QG_NAN_HIGHEST:
        x = x < high ? x : high;
        return x > low ? x : low;
    case QG_NAN_ZERO:
        x = x == x ? x : 0.0f;
        break;
    default:
        break;
    }
    x = x < low ? low : x;
    return x > high ? high : x;
}

INLINE void fused_loop(loop_kind k, const qg_linear *p, const float *x, float *y,
                       size_t n)
{
    const float s = p->scale, r = p->inverse, low = p->x_low, high = p->x_high;
    INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float v = limited(k.nan, x[i], low, high), q = v * r;
        q = fmaf(fmaf(-q, s, v), r, q);
        if (k.quotient == TWICE)
            q = fmaf(fmaf(-q, s, v), r, q);
        y[i] = to_int(k.mode, q) * s;
    }
}

/* Outside of fused_loop's domain, and where FMA is a call. */
INLINE void divided_loop(loop_kind k, const qg_linear *p, const float *x, float *y,
                         size_t n)
{
    const float s = p->scale, low = p->low, high = p->high;
    INDEPENDENT
    for (size_t i = 0; i < n; i++)
        y[i] = to_int(k.mode, limited(k.nan, x[i] / s, low, high)) * s;
}

/* half-even-level: at most 2^16 levels, within to_int's range. */
INLINE void level_loop(loop_kind k, const qg_linear *p, const float *x, float *y,
                       size_t n)
{
    const float s = p->scale, low = p->x_low, high = p->x_high, first = p->low;
    const float level = p->level, shift = p->shift;
    INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float t = limited(k.nan, x[i], low, high) * level;
        y[i] = (to_int(QG_ROUND_HALF_EVEN, t + shift) + first) * s;
    }
}

/* A parameter per element: channels that are innermost in memory. */
INLINE void each_loop(loop_kind k, const qg_linear *p, const qg_qparam *each,
                      const float *x, float *y, size_t n)
{
    const float *scale = each->scale, low = (float)p->qmin, high = (float)p->qmax;
    const int32_t *offset = each->offset;
    if (k.mode == QG_ROUND_HALF_EVEN_LEVEL) {
        for (size_t i = 0; i < n; i++)
            y[i] = qg_linear_at(p, scale[i], offset ? offset[i] : 0, x[i]);
        return;
    }
    if (!offset) {
        INDEPENDENT
        for (size_t i = 0; i < n; i++)
            y[i] =
                to_int(k.mode, limited(k.nan, x[i] / scale[i], low, high)) * scale[i];
        return;
    }
    INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float z = (float)offset[i],
              t = limited(k.nan, x[i] / scale[i], low - z, high - z);
        y[i] = to_int(k.mode, t) * scale[i];
    }
}

/* With p the power of two of |u| (at least that of the smallest normal number), floats
 * around 1.5 * 2^(23 - mantissa) * p are a format's step apart: the sum rounds. */
INLINE void floating_loop(loop_kind k, const qg_floating *p, const float *x, float *y,
                          size_t n)
{
    const float s = p->scale, low = p->low, high = p->high;
    const float shift = ldexpf(1.5f, 23 - p->mantissa), least = ldexpf(1.0f, p->least);
    INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float u = limited(k.nan, x[i] / s, low, high), power;
        uint32_t bits;
        memcpy(&bits, &u, sizeof bits);
        bits &= 0x7f800000u;
        memcpy(&power, &bits, sizeof power);
        float big = (power < least ? least : power) * shift;
        y[i] = limited(QG_NAN_KEEP, (u + big) - big, low, high) * s;
    }
}

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

INLINE void linear_loop(loop_kind k, const qg_linear *p, const float *x, float *y,
                        size_t n)
{
    if (k.mode == QG_ROUND_HALF_EVEN_LEVEL)
        level_loop(k, p, x, y, n);
    else if (FUSED && k.quotient != DIVIDED)
        fused_loop(k, p, x, y, n);
    else
        divided_loop(k, p, x, y, n);
}

#define LOOP(loop, mode, how, nan, ...)                                                \
    loop((loop_kind){ mode, how, nan }, p, __VA_ARGS__)

/* A loop of its own for each rule of p: a NaN costs as little as it can. */
#define LOOPS(loop, mode, how, ...)                                                    \
    if (p->nan == QG_NAN_LOWEST)                                                       \
        LOOP(loop, mode, how, QG_NAN_LOWEST, __VA_ARGS__);                             \
    else if (p->nan == QG_NAN_ZERO)                                                    \
        LOOP(loop, mode, how, QG_NAN_ZERO, __VA_ARGS__);                               \
    else if (p->nan == QG_NAN_HIGHEST)                                                 \
        LOOP(loop, mode, how, QG_NAN_HIGHEST, __VA_ARGS__);                            \
    else                                                                               \
        LOOP(loop, mode, how, QG_NAN_KEEP, __VA_ARGS__)

#define LINEAR(name, mode, how)                                                        \
    TARGET static void name(const qg_linear *p, const float *x, float *y, size_t n)    \
    {                                                                                  \
        LOOPS(linear_loop, mode, how, x, y, n);                                        \
    }
#define X(id, text, meaning)                                                           \
    LINEAR(fused_##id, QG_ROUND_##id, TWICE)                                           \
    LINEAR(once_##id, QG_ROUND_##id, ONCE)                                             \
    LINEAR(divided_##id, QG_ROUND_##id, DIVIDED)                                       \
    TARGET static void each_##id(const qg_linear *p, const qg_qparam *each,            \
                                 const float *x, float *y, size_t n)                   \
    {                                                                                  \
        LOOPS(each_loop, QG_ROUND_##id, DIVIDED, each, x, y, n);                       \
    }
QG_ROUNDING_MAP(X)
#undef X

TARGET static void floating(const qg_floating *p, const float *x, float *y, size_t n)
{
    LOOPS(floating_loop, QG_ROUND_HALF_EVEN, DIVIDED, x, y, n);
}

#define X(id, text, meaning) [QG_ROUND_##id] = fused_##id,
static qg_linear_fn *const fused[QG_NROUNDING] = { QG_ROUNDING_MAP(X) };
#undef X
#define X(id, text, meaning) [QG_ROUND_##id] = once_##id,
static qg_linear_fn *const once[QG_NROUNDING] = { QG_ROUNDING_MAP(X) };
#undef X
#define X(id, text, meaning) [QG_ROUND_##id] = divided_##id,
static qg_linear_fn *const divided[QG_NROUNDING] = { QG_ROUNDING_MAP(X) };
#undef X
#define X(id, text, meaning) [QG_ROUND_##id] = each_##id,
static qg_linear_each_fn *const each[QG_NROUNDING] = { QG_ROUNDING_MAP(X) };
#undef X

#endif
