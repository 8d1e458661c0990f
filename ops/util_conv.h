/* util_conv.h -- shapes of convolutions, shared by Conv, ConvTranspose, ConvInteger and
 * QLinearConv: attributes, checks, output dims, the problem for accel. */
#ifndef QG_OPS_UTIL_CONV_H
#define QG_OPS_UTIL_CONV_H

#include "ops/util_window.h"

typedef struct qg_conv_param {
    qg_window window;
    int64_t group; /* >= 1 */
} qg_conv_param;

/* Where an operator keeps its operands. */
typedef struct qg_conv_slots {
    size_t x, weight, bias; /* bias: a slot that is never given when there is none */
    bool transposed;
} qg_conv_slots;

QG_NODISCARD qg_status qg_conv_read(qg_ctx *ctx, const qg_node *n, qg_conv_param *out);

/* Checks ranks, channels, groups and bias; sets output 0 to type d. */
QG_NODISCARD qg_status qg_conv_infer(const qg_call *k, const qg_conv_param *p,
                                     qg_conv_slots s, qg_dtype d);

/* At run time: the shapes are known and were checked by qg_conv_infer. */
QG_NODISCARD qg_status qg_conv_problem_of(const qg_call *k, const qg_conv_param *p,
                                          qg_conv_slots s, qg_conv_problem *out);

#endif
