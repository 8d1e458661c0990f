/* quantizers.h -- quantizing operators of a float graph become records of endpoints:
 * the import of QDQ models and of FakeQuantize models.
 *
 *     x -> QuantizeLinear -> DequantizeLinear -> r       (any number of the latter)
 *     QLinearConv and others, MaxPool of codes           (as pairs: qoperator.h)
 *     w (integers) -> DequantizeLinear -> r
 *     x -> FakeQuantize -> r                             (output limits = input limits)
 *     x -> an operator of mqbench/operators.h or qonnx/quant.h -> r
 *
 * In each case readers of r read x instead, and a record marks the quantized endpoint:
 *
 *     x is a constant                      each reading slot, BAKED; integers become
 *                                          the floats that they stand for, floats are
 *                                          rounded to the grid
 *     the quantizer alone reads x          the output that x comes from, ACTIVATED;
 *                                          readers with records are OVERLAPPED with it
 *     otherwise (graph inputs, forks)      each reading slot, ACTIVATED
 *
 * Where codes are an input or an output of the network, the DequantizeLinear or
 * QuantizeLinear there stays an operator, and the records are on the floats beside it.
 * An int32 bias whose codes float32 cannot hold keeps its DequantizeLinear.
 *
 * Other forms (integer operators between, limits that are computed, two roundings
 * before one slot, a FakeQuantize that changes the range) stay operators, with a
 * warning: the graph's results do not change.  Those of MQBench and QONNX are refused
 * instead, since no other reader of the graph supports them.
 *
 * Grids    codes are those of the ONNX type; of a FakeQuantize see
 *          fake_quantize.h.  Symmetric when all zero points are 0.
 * Nodes    with a record are on platform QUANTIZED, all others FP32
 * Source   ONNX QuantizeLinear, DequantizeLinear;
 *          docs/evidence/openvino.md#conversion */
#ifndef QG_ENGINE_FORMATS_QUANTIZERS_H
#define QG_ENGINE_FORMATS_QUANTIZERS_H

#include "engine/formats/format.h"

/* Which operators are folded: QuantizeLinear and DequantizeLinear; these without a
 * quantizer behind moves that have none in the file; FakeQuantize, and DequantizeLinear
 * of constants; those of MQBench; those of QONNX. */
enum qg_quantizers {
    QG_QUANTIZERS_ONNX,
    QG_QUANTIZERS_WRITTEN,
    QG_QUANTIZERS_OPENVINO,
    QG_QUANTIZERS_MQBENCH,
    QG_QUANTIZERS_QONNX
};

/* g: inferred and normalized; afterwards again, with all rules of the verifier true.
 * *out is in the graph's arena and has a backend called `name` without rules.  Hostile
 * graphs give the status of inference or of the verifier.  After a failure g is still
 * valid, partly folded. */
QG_NODISCARD qg_status qg_quantizers_fold(qg_graph *g, enum qg_quantizers which,
                                          const char *name, qg_quant **out);

/* For formats: i->path read, inferred and folded; a warning when no record came of it,
 * as from a file of another format.  operators: registered for this file only, since
 * they cannot be run; NULL: none. */
QG_NODISCARD qg_status qg_quantizers_import(qg_import *i, enum qg_quantizers which,
                                            const char *name, const qg_op *operators);

#endif
