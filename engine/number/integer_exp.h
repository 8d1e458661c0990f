/* integer_exp.h -- exponential, reciprocal, logistic, tanh and softmax in fixed point.
 *
 * Q(i)     an int32 with i integer bits and 31 - i fraction bits; Q(0) is [-1, 1)
 * Source   spec/algorithms.md 4.7, 4.8; gemmlowp's fixedpoint.h, by behaviour.  The
 *          constants are exp(-2^k) in Q(0), and those of gemmlowp's polynomial and
 *          Newton start value. */
#ifndef QG_ENGINE_NUMBER_INTEGER_EXP_H
#define QG_ENGINE_NUMBER_INTEGER_EXP_H

#include "engine/number/integer_array.h"
#include "engine/number/fixed.h"

/* exp(a) in Q(0) for a <= 0 in Q(integer_bits), 2 <= integer_bits <= 8 (asserted). */
int32_t qg_exp_negative(int32_t a, int integer_bits);

/* 1 / (1 + a) and (1 - a) / (1 + a) in Q(0) for a >= 0 in Q(0). */
int32_t qg_one_over_one_plus(int32_t a);
int32_t qg_one_minus_over_one_plus(int32_t a);

/* Logistic and tanh in Q(0) of a in Q(integer_bits). */
int32_t qg_logistic_fixed(int32_t a, int integer_bits);
int32_t qg_tanh_fixed(int32_t a, int integer_bits);

/* Softmax of TFLite for int8 codes.  Output scale 2^-bits, zero point -2^(bits-1). */
typedef struct qg_int_softmax {
    qg_multiplier m;
    int32_t diff_min;
    int bits; /* of the output: 8 or 16 */
    bool single;
} qg_int_softmax;

/* QG_ENUMERIC when beta * scale is not finite and above 2^-26. */
QG_NODISCARD qg_status qg_int_softmax_prepare(qg_ctx *ctx, float scale, float beta,
                                              int bits, bool single_rounding,
                                              qg_int_softmax *out);

/* One row of n >= 1 codes.  QG_EUNSUPPORTED when the sum of the exponentials exceeds 12
 * integer bits (4096 equal codes are the least that can). */
QG_NODISCARD qg_status qg_int_softmax_row(qg_ctx *ctx, const qg_int_softmax *s,
                                          const int32_t *x, int32_t *y, size_t n);

#endif
