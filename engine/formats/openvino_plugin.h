/* openvino_plugin.h -- what OpenVINO's CPU plugin computes otherwise than the network
 * says, with low precision transformations on (its default), and how our files avoid
 * it; read by the exports for OpenVINO and by lint.
 *
 *     maxima        Reduce of floats that stores 8-bit codes is wrong.  Maxima commute
 *                   with rounding: the quantizer behind one stands in front of it.
 *                   With functions or a Concat between them, a barrier is behind the
 *                   maximum
 *     clips         a Clip of codes has its limits rounded to codes; Relu or Max, then
 *                   Min compute the same and stay in float.  Of one element they would
 *                   become a Clip again: Neg, Min and Neg are that Max
 *     residuals     what a convolution makes and a sum or a difference reads is not
 *                   rounded between the two: a barrier is in front of the sum
 *     transposed    convolutions whose integer kernel is wrong, or that lose the bias,
 *     columns       and products with several matrices of one column: their weights are
 *     groups        floats on their grid; so are those of convolutions with groups of
 *                   one channel and several outputs, strided along a width that
 *                   becomes 1
 *     pads          along one axis, with a constant, which is cast to a code, or of one
 *                   element: a barrier is in front of them
 *     strides       of a convolution with a kernel of one element are moved to the
 *                   nodes before it although it pads, with the transformations off,
 *                   too, and it has no integer kernel behind DequantizeLinear: a
 *                   MaxPool of single elements, which stops them, is between
 *     products      of two dims, one behind another and with functions between, become
 *                   one kernel for 4, 6 and 8 rows (measured on two threads), which is
 *                   wrong on codes: the same MaxPool is in front of the later one
 *     sums          of three dims over a batch, behind a product: of the first sample
 *                   alone in files of Q/DQ pairs: a barrier is in front of them
 *     scaled        products of two activations, by constants of several elements, are
 *                   computed as if those were one per column: the same
 *     dilations     of a kernel of one element can end the process: they are 1
 *     pools         whose extents are rounded up have windows behind the data in the
 *                   reader of ONNX: they are rounded down, with larger pads; one that
 *                   counts the padding has a Pad in front of it
 *     counted       padding of an average is code 0 also where the value 0 is another
 *                   one: a barrier is in front of it
 *     channels      constants per channel (a bias, factors, an Expand) in front of a
 *                   rounding per tensor are those of the first one where dims are open
 *                   and they are computed in a kernel of their own, as they are if the
 *                   plugin reads the shape of the product before them: that MaxPool is
 *                   between
 *     joins         of a constant are right, but stay in float
 *     levels        15 of a FakeQuantize, or 255 whose middle is not 0, are computed on
 *                   those of 8 bits, and rounded again: a barrier is behind it, and in
 *                   front of it where another FakeQuantize is, or a Concat, before
 *                   whose operands the transformations put it
 *     narrow        limits of codes in files of Q/DQ pairs are Max and Min, as clips
 *     4 bits        of activations in such files, flat in front of a product, end the
 *                   process: they have the types of 8 bits (quantize_linear.c)
 *
 * Barrier  Max with the least float: the same values, and no code passes it
 * Graphs   of the snapshot; copies have the same nodes under the same ids
 * Source   measured with OpenVINO 2026.4.1, AVX-512 VNNI; with LP_TRANSFORMS_MODE=NO
 *          all but strides are right.  Strides: openvinotoolkit/openvino
 *          src/common/transformations/src/transformations/common_optimizations/
 *          strides_optimization.cpp */
#ifndef QG_ENGINE_FORMATS_OPENVINO_PLUGIN_H
#define QG_ENGINE_FORMATS_OPENVINO_PLUGIN_H

#include "engine/formats/format.h"

/* The record on whose grid input 0 of a maximum or minimum must be rounded, since all
 * that it gives is; NULL: n is none, or nothing is to be done. */
const qg_tqc *qg_plugin_before_maximum(const qg_node *n);

/* Whether v comes from a node that `is` accepts through nodes that one kernel computes,
 * or that are perhaps removed, as two Transposes are: none that is a product. */
bool qg_plugin_is_behind(const qg_value *v, bool (*is)(const qg_node *n));

/* Whether v, which t rounds, is on its grid already by the former. */
bool qg_plugin_behind_maximum(const qg_value *v, const qg_tqc *t);

/* A transposed convolution that is right only with weights in float. */
bool qg_plugin_turns_wrong(const qg_node *n);

/* A convolution over two axes, with groups of one channel and several outputs, strided
 * along the width, of which one element is left: garbage on codes. */
bool qg_plugin_groups_wrong(const qg_node *n);

/* A product with a constant of several matrices of one column: the plugin takes the
 * zero points of its dequantization for channels, and does not compile the network. */
bool qg_plugin_batched_column(const qg_node *n);

/* *reads: whether OpenVINO computes dims, or an initial state, from the shape of a
 * value of the snapshot's graph g; it takes that of the first one with these dims. */
QG_NODISCARD qg_status qg_plugin_reads_shapes(const qg_graph *g, qg_arena *scratch,
                                              bool *reads);

/* Whether the plugin takes a constant per channel, in front of a quantizer of a copy of
 * g or behind it, into its limits, and that of the first channel for all of them: where
 * dims are open, maps have one element, or a pool or a node that moves elements lies on
 * the way, and for the quotient of a sum.  shapes: they are read, as above. */
bool qg_plugin_takes_first_channel(const qg_graph *g, const qg_node *quantizer,
                                   bool shapes);

/* Whether n gives the channels of a map another order, which the plugin moves to the
 * weights behind it the wrong way round, or turns a map in front of a convolution, of
 * which it makes a product whose rows do not fit. */
bool qg_plugin_moves_into_weights(const qg_node *n);

/* Whether our files have the weight of n as floats: n is one of those above. */
bool qg_plugin_weight_stays_float(const qg_node *n);

/* A Pad of codes along one axis, with a constant other than 0 or of one element, which
 * our files compute in float. */
bool qg_plugin_pads_wrong(const qg_node *n);

/* A pool by ceil_mode and explicit pads, whose extents our files round down where dims
 * are known. */
bool qg_plugin_rounds_up(const qg_node *n);

/* An AveragePool that pads and counts the padding; the second: of codes whose lowest is
 * not 0, which our files compute in float. */
bool qg_plugin_counts_pads(const qg_node *n);
bool qg_plugin_counts_codes(const qg_node *n);

/* A ReduceSum of three dims, the first not 1, of what a product gives, which our files
 * compute in float. */
bool qg_plugin_sums_wrong(const qg_node *n);

/* Whether n is a sum or a difference, and a convolution makes the operand in that slot
 * (0 or 1) for it alone, perhaps with functions behind it, and it is rounded between
 * the two: the plugin makes one kernel of both and does not round there.  Our files
 * compute the sum in float. */
bool qg_plugin_rounded_before_sum(const qg_node *n, uint32_t slot);

/* Whether the first input of n is a Concat with a constant operand, perhaps moved,
 * which the plugin leaves in float. */
bool qg_plugin_joins_constant(const qg_node *n);

/* The opset for a file of g that needs `opset`: OpenVINO's reader of ONNX files has
 * ReduceL1, ReduceLogSum and ReduceLogSumExp for opsets 1 to 12 and from 18 on, and
 * reduces over all axes between them, where it does not read the attribute `axes`.
 * Source: openvinotoolkit/openvino src/frontends/onnx/frontend/src/op/reduce.cpp;
 * measured with OpenVINO 2026.4.1 in opsets 11, 13, 18 and 22. */
int64_t qg_plugin_opset(const qg_graph *g, int64_t opset);

/* What OpenVINO computes otherwise in n, also in float, of files in ONNX; NULL: nothing
 * is known.  The second: why it does not load such a file.  Measured with OpenVINO
 * 2026.4.1 against onnxruntime 1.31.1, or the simulation where that refuses: LSTM with
 * peepholes or input_forget, recurrent layers with layout 1 or other activations,
 * reductions of no axes, attributes of Resize, maxima or no sampling_ratio of
 * RoiAlign, LRN of an even size,
 * Pad of mode wrap, Det, MaxUnpool. */
const char *qg_plugin_reads_apart(const qg_node *n);
const char *qg_plugin_refuses(const qg_node *n);

/* For build of a file in ONNX: a row that changes results for each of the first, and
 * QG_EUNSUPPORTED for the second. */
QG_NODISCARD qg_status qg_plugin_lose(qg_export *e);

/* Rewrites what the plugin computes otherwise in g, a copy of the snapshot's graph with
 * its quantizers.  A row for backends that are not for OpenVINO. */
QG_NODISCARD qg_status qg_plugin_obey(qg_export *e, qg_graph *g);

#endif
