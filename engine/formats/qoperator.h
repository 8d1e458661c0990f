/* qoperator.h -- operators on codes become float operators between DequantizeLinear and
 * QuantizeLinear, which quantizers.h folds into records.  Results keep their meaning;
 * where an operator on codes rounds otherwise than its float operator between both (a
 * requantization in integers), the float form is the definition and simulation of it.
 *
 *     what             before                       after
 *     parameters       computed from constants      constants
 *     weights          w -> DQ -> Transpose         transposed w -> DQ
 *     op->codes        c -> QLinearConv -> c        c -> DQ -> Conv -> Q -> c
 *     moves            c -> MaxPool -> c            c -> DQ -> MaxPool -> Q -> c
 *     moves of floats  c -> DQ -> MaxPool -> r      c -> DQ -> MaxPool -> Q -> DQ -> r
 *                                                   (left alone unless `carried`)
 *     two in a row     x -> Q -> DQ -> Q -> c       the same grid: one of them; x is
 *                                                   read elsewhere: Identity between
 *     codes leave      x -> Q -> c of others        x -> Q -> DQ -> Q -> c
 *     codes arrive     c of others -> DQ -> r       c -> DQ -> Q -> DQ -> r
 *
 * Q and DQ have the scale and zero point of the operator; those of a move are the
 * grid of its input, or of the DQ behind it.  'Others' are graph inputs and outputs,
 * and integer operators without a float form (MatMulInteger).
 *
 * Bias     int32 codes and a DQ with scale f32(f32(alpha s_x) s_w[c])
 * Names    a float value is called as the codes that stood for it were
 * Opset    a graph with an operator on codes is lifted to 13 at least, one with 4 or
 *          16-bit codes of com.microsoft to 21
 * Stays    an operator whose scales are not constant, with a warning
 * Source   ONNX QLinearConv, QLinearMatMul; onnxruntime 1.31, contributed operators */
#ifndef QG_ENGINE_FORMATS_QOPERATOR_H
#define QG_ENGINE_FORMATS_QOPERATOR_H

#include "engine/ir/graph.h"

/* g: inferred and normalized; afterwards again.  Bodies of control operators are left
 * as they are.  carried: floats that are moved stay on the grid that they are on.
 * QG_EUNSUPPORTED when the opset cannot be lifted; else hostile graphs give the status
 * of inference.  After a failure g is valid, partly rewritten. */
QG_NODISCARD qg_status qg_qoperator_expand(qg_graph *g, bool carried);

#endif
