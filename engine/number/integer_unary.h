/* integer_unary.h -- functions of one 8-bit tensor: a table of 256 output codes.
 *
 * Every function of an int8 or uint8 code is a table; the forms of rows differ in how
 * they fill it.  table[i] belongs to code lo + i, lo the lowest code of the input's
 * type.
 *
 *     form               logistic, tanh                  leaky relu       hard swish
 *     float-reciprocal   float32 function, times
 *                          f32(1/s_y), rounded
 *     fixed              fixed point, the row's scheme                    16 bits
 *     two-sides                                          the requantization,
 *                                                          on each side of zero
 *     float-table        function of f32(s (q - z)) in float32, then QuantizeLinear
 *
 * The float32 logistic is the correctly rounded one (computed in double).
 * Units   alpha: slope below zero of the leaky relu
 * Source  docs/evidence/integers.md#runtimes.
 *
 *     int32_t table[256];
 *     QG_TRY(qg_int_unary_table(ctx, &spec, table));
 *     y[i] = table[x[i] - lowest];              // lowest: -128, or 0 for uint8 */
#ifndef QG_ENGINE_NUMBER_INTEGER_UNARY_H
#define QG_ENGINE_NUMBER_INTEGER_UNARY_H

#include "engine/number/integer_array.h"
#include "engine/number/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns of the table above. */
typedef enum qg_int_unary_function {
    QG_INT_UNARY_LOGISTIC,
    QG_INT_UNARY_TANH,
    QG_INT_UNARY_LEAKY_RELU,
    QG_INT_UNARY_HARD_SWISH,
    QG_INT_NUNARY
} qg_int_unary_function;

typedef struct qg_int_unary_spec {
    qg_int_unary_function function;
    const qg_profile_row *row; /* form, rounding, requant */
    qg_grid x, y; /* 8 bits; the fixed-point forms of logistic and tanh ignore y's scale
                     and zero point and give 1/256, -128 and 1/128, 0 (int8 only) */
    float alpha;
} qg_int_unary_spec;

/* QG_EUNSUPPORTED for a form without the function or for other types; QG_ENUMERIC
 * for scales whose factor does not fit.
 * Cost: 256 evaluations, once per node. */
QG_NODISCARD QG_API qg_status qg_int_unary_table(qg_ctx *ctx,
                                                 const qg_int_unary_spec *spec,
                                                 int32_t table[256]);

#ifdef __cplusplus
}
#endif

#endif
