/* runtime.h -- constructs that the optimizer of ONNX Runtime would change, written in a
 * form it keeps: biases that stay float, a Softmax of another scale.
 *
 * Bias     has Q and DQ only where its TQC is active.  ONNX Runtime, as it ships, turns
 *          a float bias after quantized inputs into int32 in steps of input x weight by
 *          itself (WeightBiasQuantization), which flips as many codes as quantizing
 *          makes noise in deep networks.  Placement ort keeps it float: an Add after
 *          Conv, two axes in Gemm and after MatMul.  A backend with int32 biases, like
 *          ort-int8, gets the integer kernels.
 *          Its kernels take every int32 bias for one of that scale, so another scale is
 *          written as float values.
 * Weights  in float behind an activation of codes become int8 there, by the same
 *          optimization, where a layer is kept in float: a Max of one operand, which
 *          changes nothing, lies before the activation (placement ort).
 * Softmax  between Q and DQ becomes QLinearSoftmax there, which multiplies by
 *          floor(1 / scale), and gives arbitrary results above about 280.  Where that
 *          is another scale (it is not for 1/256), or the axis has one element, for
 *          which the kernel gives 0 instead of 1, an Abs before Q, which changes
 *          nothing, leaves Softmax in float (placement ort).
 *          Measured with onnxruntime 1.31: every QLinearConv of Ultraface gives the
 *          rounded exact result, and the outputs agree once bias and Softmax do.
 * Means    AveragePool between Q and DQ becomes QLinearAveragePool there.  This
 *          divides by the whole window where ceil_mode lets it end behind padding that
 *          counts, and has no dilations: the file does not load.  A Max of one operand
 *          lies before such an AveragePool (placement ort).
 * Layouts  ONNX Runtime at its default level computes integer convolutions channels
 *          last, and moves the Transposes between two of them through what is there.
 *          Its cubic Resize takes channels last only if no extent shrinks, or with
 *          antialias: other files do not load.  A DepthToSpace of blocks of one
 *          element, through which no Transpose is moved, lies before such a Resize
 *          (placement ort).
 * Pairs    in a row, on two grids, become one pair there (DoubleQDQPairsRemover): a Max
 *          of one operand lies between them (placement ort).
 * 4 bits   of activations make files there that it refuses: operators between
 *          DequantizeLinear and QuantizeLinear, and MaxPool beside one of them, become
 *          operators on codes without a look at the type, a Clip before QuantizeLinear
 *          is an error (ClipQuantFusion), and a Relu there is dropped whatever the zero
 *          point is (ReluQuantFusion).  A Max of one operand lies before each such
 *          QuantizeLinear, and before MaxPool (placement ort).  16 bits are computed
 *          right. */
#ifndef QG_ENGINE_FORMATS_QDQ_RUNTIME_H
#define QG_ENGINE_FORMATS_QDQ_RUNTIME_H

#include "engine/formats/quantize_linear.h"

/* Placement ort: the constants that g adds to products of weights in codes are written
 * so that ONNX Runtime still adds them in float; values stay.  New nodes are of that
 * opset.  Logs (-v) their number, and warns of floating-point codes.
 * g: the copy of q's graph with Q and DQ in place.  Source: onnxruntime 1.31
 * core/optimizer/qdq_transformer/weight_bias_quantization.cc (bias of one axis). */
QG_NODISCARD qg_status qg_onnx_obey_runtime(qg_graph *g, const qg_quant *q,
                                            int64_t opset);

/* *x becomes out, a new value of g without type: the same values, by a node of one
 * operand (Max or Abs) through which the optimizer does not see. */
QG_NODISCARD qg_status qg_onnx_hide(qg_graph *g, const char *op, int64_t opset,
                                    qg_value *out, qg_value **x);

/* The operator of one operand that keeps the optimizer from computing another result
 * where x, in the exported copy of q's graph, is quantized according to t in codes of
 * `how`, behind a Clip if it has one: Max or Abs; NULL: nothing is needed. */
const char *qg_onnx_neutral(const qg_ctx *ctx, const qg_quant *q, const qg_tqc *t,
                            const qg_onnx_grid *how, const qg_value *x);

/* Whether n is an AveragePool for which QLinearAveragePool gives something else, or is
 * refused.  Source: onnxruntime 1.31 contrib_ops/cpu/quantization/qlinear_pool.cc;
 * measured in opsets 11 to 20. */
bool qg_onnx_average_differs(const qg_node *n);

/* Whether n is a cubic Resize of images that ONNX Runtime cannot compute with channels
 * last, or may be one for extents that are open.  Source: onnxruntime 1.31
 * core/providers/cpu/tensor/upsamplebase.h, ScalesValidation. */
bool qg_onnx_resize_turns(const qg_node *n);

/* Other placements: warns of the first AveragePool that the optimizer of ONNX Runtime
 * computes differently or refuses, of the first such Resize, and of int8 codes that it
 * moves and refuses in opset `int8` (0: it does not).  nodes: those of g that the model
 * has. */
void qg_onnx_warn_of_runtime(const qg_graph *g, size_t nodes, int64_t int8);

/* Domains without nodes, in bodies too, are removed; some runtimes refuse domains they
 * do not have. */
void qg_onnx_drop_opsets(qg_graph *g);

/* Whether there is a Concat of floats. */
bool qg_onnx_has_concat(const qg_graph *g);

#endif
