/* util_conv.h -- shapes of convolutions, shared by Conv, ConvTranspose, ConvInteger and
 * QLinearConv: attributes, checks, output dims, the problem for accel. */
#ifndef QG_OPS_UTIL_CONV_H
#define QG_OPS_UTIL_CONV_H

#include "ops/util_window.h"

/* Attributes read by prepare; shared by all four operators. */
typedef struct qg_conv_param {
    qg_window window;
    int64_t group; /* >= 1 */
} qg_conv_param;

/* Operand slots of an operator. */
typedef struct qg_conv_slots {
    size_t x, weight, bias; /* bias: a slot that is never present when the operator has
                             * none */
    bool transposed;
} qg_conv_slots;

/* Fills a qg_conv_param; a prepare of an operator.  QG_EMODEL for a group below 1 and
 * for attributes rejected by qg_window_read. */
QG_NODISCARD qg_status qg_conv_read(qg_ctx *ctx, const qg_node *n, void *param);

/* The weight axis of a convolution that is not transposed: 0, output channels. */
int qg_conv_axis(const qg_node *node);

/* Checks ranks, channels, groups and bias; sets output 0 to type d.
 * Unknown dims pass and give unknown dims; all known dims are checked, so that
 * qg_conv_problem_of can fail at run time only on data-dependent shapes. */
QG_NODISCARD qg_status qg_conv_infer(const qg_call *k, const qg_conv_param *p,
                                     qg_conv_slots s, qg_dtype d);

/* At run time: the shapes are known and were checked by qg_conv_infer. */
QG_NODISCARD qg_status qg_conv_problem_of(const qg_call *k, const qg_conv_param *p,
                                          qg_conv_slots s, qg_conv_problem *out);

/* Gradients of x, w and b of a float32 convolution or its transpose, as op->backward
 * (engine/ir/op.h); the problem is that of the operator. */
QG_NODISCARD qg_status qg_conv_backward(const qg_backward *b, const qg_conv_problem *p);
QG_NODISCARD qg_status qg_deconv_backward(const qg_backward *b,
                                          const qg_conv_problem *p);

#endif
