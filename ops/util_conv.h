/* util_conv.h -- shapes of convolutions, shared by Conv, ConvTranspose, ConvInteger and
 * QLinearConv: attributes, checks, output dims, the problem for accel. */
#ifndef QG_OPS_UTIL_CONV_H
#define QG_OPS_UTIL_CONV_H

#include "ops/util_window.h"

/* What prepare reads; shared by all four operators. */
typedef struct qg_conv_param {
    qg_window window;
    int64_t group; /* >= 1 */
} qg_conv_param;

/* Where an operator keeps its operands. */
typedef struct qg_conv_slots {
    size_t x, weight, bias; /* bias: a slot that is never given when there is none */
    bool transposed;
} qg_conv_slots;

/* Fills a qg_conv_param; a prepare of an operator.  QG_EMODEL for a group below 1 and
 * for what qg_window_read refuses. */
QG_NODISCARD qg_status qg_conv_read(qg_ctx *ctx, const qg_node *n, void *param);

/* The weight axis of a convolution that is not transposed: 0, output channels. */
int qg_conv_axis(const qg_node *node);

/* Checks ranks, channels, groups and bias; sets output 0 to type d.
 * Unknown dims pass and give unknown dims; everything that is known is checked, so
 * that qg_conv_problem_of has nothing left to refuse at run time but shapes that
 * data decided. */
QG_NODISCARD qg_status qg_conv_infer(const qg_call *k, const qg_conv_param *p,
                                     qg_conv_slots s, qg_dtype d);

/* At run time: the shapes are known and were checked by qg_conv_infer. */
QG_NODISCARD qg_status qg_conv_problem_of(const qg_call *k, const qg_conv_param *p,
                                          qg_conv_slots s, qg_conv_problem *out);

#endif
