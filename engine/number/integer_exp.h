/* integer_exp.h -- exponential, reciprocal, logistic, tanh and softmax in fixed point.
 *
 * Q(i)     an int32 with i integer bits and 31 - i fraction bits; Q(0) is [-1, 1)
 * Source   docs/evidence/integers.md#fixed-point; gemmlowp's fixedpoint.h.  The
 *          constants are exp(-2^k) in Q(0), and those of gemmlowp's polynomial and
 *          Newton start value.
 *
 * Why fixed point: microcontrollers have no float unit, and a network on them depends
 * on the bits of these results; every function here is made of high multiplies and
 * shifts of fixed.h in the order of the runtime. */
#ifndef QG_ENGINE_NUMBER_INTEGER_EXP_H
#define QG_ENGINE_NUMBER_INTEGER_EXP_H

#include "engine/number/integer_array.h"
#include "engine/number/fixed.h"
#include "engine/number/requant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* exp(a) in Q(0) for a <= 0 in Q(integer_bits), 2 <= integer_bits <= 8 (asserted).
 * A product of exp(-2^k) for the bits of a, times a polynomial of the rest; the last
 * bits differ from the exact value, and it is these bits that runtimes store. */
QG_API int32_t qg_exp_negative(int32_t a, int integer_bits);

/* 1 / (1 + a) and (1 - a) / (1 + a) in Q(0) for a >= 0 in Q(0).
 * Three Newton steps from gemmlowp's start value. */
QG_API int32_t qg_one_over_one_plus(int32_t a);
QG_API int32_t qg_one_minus_over_one_plus(int32_t a);

/* Logistic and tanh in Q(0) of a in Q(integer_bits). */
QG_API int32_t qg_logistic_fixed(int32_t a, int integer_bits);
QG_API int32_t qg_tanh_fixed(int32_t a, int integer_bits);

/* Softmax of TFLite for int8 codes.  Output scale 2^-bits, zero point -2^(bits-1). */
typedef struct qg_int_softmax {
    qg_multiplier m;    /* beta * scale in the fixed-point form of exp's argument */
    int32_t diff_min;   /* codes further below the largest count as 0 */
    int bits;           /* of the output: 8 or 16 */
    bool single;        /* the build with one rounding */
    const int32_t *exp; /* [256] of qg_int_softmax_keep; NULL: computed for each code */
} qg_int_softmax;

/* scheme: fix-double, or fix-single for a build with one rounding (QG_EUNSUPPORTED for
 * others).  QG_ENUMERIC when beta * scale is not finite and above 2^-26. */
QG_NODISCARD QG_API qg_status qg_int_softmax_prepare(qg_ctx *ctx,
                                                     qg_requant_scheme scheme,
                                                     float scale, float beta, int bits,
                                                     qg_int_softmax *out);

/* Computes the 256 exponentials of 8-bit codes once, into exp, which s then borrows:
 * for many rows. */
QG_API void qg_int_softmax_keep(qg_int_softmax *s, int32_t exp[256]);

/* One row of n >= 1 codes; y may be x.  QG_EUNSUPPORTED when the sum of the
 * exponentials exceeds 12 integer bits (4096 equal codes are the least that can). */
QG_NODISCARD QG_API qg_status qg_int_softmax_row(qg_ctx *ctx, const qg_int_softmax *s,
                                                 const int32_t *x, int32_t *y,
                                                 size_t n);

/* Softmax of ORT for 8-bit codes: a float32 table of exp, shifted so that the largest
 * code of a row uses its last entry.
 *     e[i] = f32(exp((i - 255 + b) s_x)), in double
 *     b    = max(0, logf(f32(f32max / n)) - 5) / s_x
 *     y    = min(rint(f32(f32(e floor(1 / s_y)) / sum)) + z_y, highest code)
 * with the sum in float32, in order. */
typedef struct qg_int_softmax_table {
    float e[256];     /* by code, from the lowest */
    float top;        /* floor(1 / s_y) */
    int32_t zero, hi; /* of y: zero point, highest code */
} qg_int_softmax_table;

/* n: the length of a row, >= 1 (asserted).  Errors are those of qg_grid_check. */
QG_NODISCARD QG_API qg_status qg_int_softmax_table_make(qg_ctx *ctx, qg_grid x,
                                                        qg_grid y, size_t n,
                                                        qg_int_softmax_table *out);

/* Whether these rows of n have the codes of the exact result, rounded: floor(1 / scale)
 * is 1 / scale to the last bit of float32, for a scale of the output down to `least`,
 * and a row of one element, whose sum may overflow, is none.  This is the one place
 * that says which Softmax goes to the kernel: the export for ONNX Runtime keeps others
 * in float, integer mode of a snapshot and lint follow.
 * Source: measured with onnxruntime 1.31; whole numbers up to 280 are exact. */
QG_API bool qg_int_softmax_table_is_exact(float scale, float least, int64_t n);

/* One row; y may be x. */
QG_API void qg_int_softmax_table_row(const qg_int_softmax_table *t, const int32_t *x,
                                     int32_t *y, size_t n);

#ifdef __cplusplus
}
#endif

#endif
