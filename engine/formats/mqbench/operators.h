/* operators.h -- the quantizing operators of MQBench's training graphs, which
 * torch.onnx.export writes into the default domain of a float model.
 *
 *     q = clamp(round half even(x / scale) + zero_point, quant_min, quant_max)
 *     y = (q - zero_point) scale
 *
 *     operator                                inputs after x, scale, zero_point
 *     FixedPerTensorAffine                    quant_min, quant_max
 *     LearnablePerTensorAffine                quant_min, quant_max
 *     FixedPerChannelAffine                   ch_axis, quant_min, quant_max
 *     FakeQuantizeLearnablePertensorAffine    none
 *     FakeQuantizeLearnablePerchannelAffine   none
 *     FakeQuantizeDSQPertensor, ...Perchannel none
 *     FakeQuantizeTqtAffine                   none; scale is a power of two >= 2^-15
 *     NNIEQuantize                            refused: its grid is logarithmic
 *
 * Limits   the last two inputs, or the attributes quant_min and quant_max
 * Types    scale float32 or float64 (a Python number is traced as the latter); the zero
 *          point any number; all of them constant
 * Sign     of a scale is dropped; a zero point is rounded half to even, then limited to
 *          [quant_min, quant_max]: both as in the exports of MQBench
 * Axis     ch_axis, or the axis of the reader's output channels (ConvTranspose:
 *          1), or 0
 * Grid     HALF_EVEN, symmetric when all zero points are 0, the fewest bits that hold
 *          the limits.  PyTorch multiplies by 1 / scale in float32 where we divide: a
 *          value next to a tie may get the neighbouring code.
 * Source   ModelTC/MQBench@09ff5cb mqbench/custom_symbolic_opset.py, fake_quantize/,
 *          deploy/deploy_openvino.py; PyTorch FakeQuantizeCore, QuantizedOpKernels.cpp
 *          (_fake_quantize_tensor_helper), FakeQuantPerTensorAffine.cpp
 *          (_get_zero_point_from_tensor) */
#ifndef QG_ENGINE_FORMATS_MQBENCH_OPERATORS_H
#define QG_ENGINE_FORMATS_MQBENCH_OPERATORS_H

#include "engine/formats/grid_record.h"

/* The operators of MQBench; the last row has name NULL.  Registered only while its
 * files are read (qg_quantizers_import): no other graph may hold them. */
extern const qg_op qg_mqbench_operators[];

/* One of the operators above. */
bool qg_is_mqbench(const qg_op *op);

/* The grid of such a node; *why as in qg_grid_of_linear (quantize_linear.h).  Limits
 * that no scheme can have are QG_ECONFIG and name the node. */
QG_NODISCARD qg_status qg_grid_of_mqbench(qg_graph *g, const qg_node *n,
                                          qg_grid_record *out, const char **why);

#endif
