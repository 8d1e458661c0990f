/* fixed.h -- fixed-point arithmetic of integer runtimes, as functions of integers.
 *
 * A real factor r is held as an integer multiplier and a power of two:
 *
 *     q31   r = m * 2^(shift - 31),  2^30 <= m < 2^31        (gemmlowp, TFLite,
 *           CMSIS-NN)
 *     q15   r = m * 2^(shift - 15),  m <= 32767              (int16 activations)
 *     m24   r = m * 2^(-shift),      2^23 <= m < 2^24        (XNNPACK rndnu: the
 *           mantissa)
 *
 * One rule holds for all of them: nothing here rounds except through qg_round_shift()
 * and qg_round_f64(), so the direction of every tie is named where it happens.
 *
 * Names    gemmlowp's own names are given in brackets, for readers of those sources.
 * Overflow a shift to the left keeps the low 32 bits, as the runtimes' does; every
 *          other function is exact, or saturates where documented.
 * Example  qg_scale_double(11, qg_q31_of(0.125)) == 2, qg_scale_single(...) == 1: the
 *          exact result is 1.375, the first rounding gives 1.5, the second 2
 *          (run by test_fixed.c: doc_example).
 * Source   docs/evidence/integers.md#fixed-point; TFLite's common.h and gemmlowp's
 *          fixedpoint.h, by behaviour.  docs/fixed-point.md lists the users of each
 *          form. */
#ifndef QG_ENGINE_NUMBER_FIXED_H
#define QG_ENGINE_NUMBER_FIXED_H

#include <stdint.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A factor with its shift; its form, of the three, depends on the function that made
 * it. */
typedef struct qg_multiplier {
    int32_t m;     /* the multiplier, see the forms above */
    int32_t shift; /* power of two; > 0 is to the left in q31 and q15 */
} qg_multiplier;

/* The q31 form of real >= 0 and finite (asserted) [QuantizeMultiplier].  m is rounded
 * half away from zero; {0, 0} for 0 and below 2^-32.  shift may exceed 31 for a huge
 * factor: no function below takes that (see QG_MAX_LEFT_SHIFT).
 * Example: 0.125 is {2^30, -2}. */
QG_API qg_multiplier qg_q31_of(double real);

/* The same as builds with a single rounding have it: above 2^30 it is {2^31 - 1,
 * 30}.
 * The cap keeps the whole shift to the right, 31 - shift, at 1 or more. */
QG_API qg_multiplier qg_q31_of_single(double real);

/* q31 to q15: half up to 16 bits, at most 32767.
 * The cap keeps 32767.5 and above from becoming 2^15, which is no int16. */
QG_API qg_multiplier qg_q15_of(qg_multiplier q31);

/* The m24 form of a float32 that is finite, normal and > 0 (asserted): its mantissa.
 * Nothing is lost. */
QG_API qg_multiplier qg_m24_of(float real);

/* Left shifts that qg_scale_* accept. */
enum { QG_MAX_LEFT_SHIFT = 31, QG_MIN_LEFT_SHIFT = -31 };

/* (a * b) / 2^31, halves upward; -2^31 * -2^31 saturates
 * [SaturatingRoundingDoublingHighMul]. */
QG_API int32_t qg_high_mul(int32_t a, int32_t b);

/* (a * b) / 2^15, halves upward; -2^15 * -2^15 saturates. */
QG_API int16_t qg_high_mul16(int16_t a, int16_t b);

/* x / 2^e, 0 <= e <= 31, halves away from zero [RoundingDivideByPOT]. */
QG_API int32_t qg_shift_away(int32_t x, int e);

/* x * 2^e, 0 <= e <= 31, saturating both ways [SaturatingRoundingMultiplyByPOT]. */
QG_API int32_t qg_shift_left_sat(int32_t x, int e);

/* x * 2^e, 0 <= e <= 31, low 32 bits. */
QG_API int32_t qg_shift_left(int32_t x, int e);

/* x * r with r in q31 and |shift| <= 31 (asserted).  All three first shift left.
 *   double     high multiply (halves up), then shift right, halves away from zero
 *   [MultiplyByQuantizedMultiplier, the default build]
 *   double_up  high multiply, then shift right, halves upward (ruy on x86-64)
 *   single     one exact rounding, halves upward (TFLITE_SINGLE_ROUNDING, ruy aarch64)
 * */
QG_API int32_t qg_scale_double(int32_t x, qg_multiplier r);
QG_API int32_t qg_scale_double_up(int32_t x, qg_multiplier r);
QG_API int32_t qg_scale_single(int32_t x, qg_multiplier r);

/* x * r for 48-bit sums (int16 activations): r in q31 is reduced to q15, one rounding,
 * halves upward.  |x| < 2^47 and shift <= 15 (asserted).
 * The shift is 15 - r.shift bits to the right. */
QG_API int64_t qg_scale_reduced(int64_t x, qg_multiplier r);

/* x * r with r in m24, one rounding, halves upward (XNNPACK rndnu).  r.shift >= 0 and
 * |x| < 2^38 (asserted). */
QG_API int64_t qg_scale_mantissa(int64_t x, qg_multiplier r);

/* floor(log2(x)) of a float32 that is finite, normal and > 0 (asserted).
 * Taken from the exponent field: exact, no libm. */
QG_API int qg_log2_floor(float x);

/* floor(log2(x)), x > 0 (asserted). */
QG_API int qg_log2_floor_u32(uint32_t x);

/* trunc(x + copysign(0.5, x)), the sum rounded to float32: ncnn's SIMD rounding.
 * 0.49999997 gives 1, unlike half away from zero. */
QG_API float qg_round_add_half(float x);

/* v limited to [lo, hi].
 * lo <= hi (asserted). */
QG_API int64_t qg_clamp_i64(int64_t v, int64_t lo, int64_t hi);

#ifdef __cplusplus
}
#endif

#endif
