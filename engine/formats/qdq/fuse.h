/* fuse.h -- operators between DequantizeLinear and QuantizeLinear become operators on
 * codes: the inverse of formats/qoperator.h, by the same rows (qg_op.codes).
 *
 *     before                                   after
 *     c -> DQ -> Conv -> Q -> c                c -> QLinearConv -> c
 *     c -> DQ -> Conv -> Relu -> Q -> c        c -> QLinearConv -> Clip -> c
 *     c -> DQ -> MaxPool -> r                  c -> MaxPool -> c -> DQ -> r
 *     c -> DQ -> Q -> c     one grid           c
 *
 * Clip     rounding is monotone, so that the codes of a clamped value are the clamped
 *          codes of the value; Clip is absent where the limits are those of the type.
 * Bias     int32 in steps of f32(f32(alpha s_x) s_w[c]).  A float bias is rounded to
 *          these steps, half to even, which is a loss; where a code exceeds int32, the
 *          operator stays float.
 * Stays    float between DQ and Q: operators without a row, and what a kernel of ONNX
 *          Runtime for processors does not take: codes of other than 8 bits, inputs and
 *          output of different types (a weight of int8 beside uint8 is fine), several
 *          scales except of a weight along its output channels, attributes that the
 *          operator on codes does not have, QLinearReduceMean (it has no kernel)
 * Source   ONNX QLinearConv, QLinearMatMul; onnxruntime 1.31: contributed operators and
 *          their kernels for processors */
#ifndef QG_ENGINE_FORMATS_QDQ_FUSE_H
#define QG_ENGINE_FORMATS_QDQ_FUSE_H

#include "engine/formats/format.h"

/* g: the copy of e's graph with Q and DQ in place, upgraded to this opset, 13 or
 * later; its first nodes have the ids of the original.  Operators of com.microsoft make
 * the graph import that.  Dead nodes remain until the next sweep. */
QG_NODISCARD qg_status qg_qdq_fuse(qg_export *e, qg_graph *g, int64_t opset);

#endif
