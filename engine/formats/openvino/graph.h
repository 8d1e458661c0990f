/* graph.h -- a snapshot as a float graph with FakeQuantize at quantized endpoints, from
 * which both files of OpenVINO are written, and back again.
 *
 * Activations  a FakeQuantize after an active output, before an active input; inputs
 *              that read one value on one grid share it
 * Constants    of at most 8 bits, linear, static, per tensor or channel: int8 or uint8
 *              codes before a DequantizeLinear (IR: Convert, Subtract where a zero
 *              point is not 0, Multiply), as NNCF ships them.  Wider ones hold the
 *              values of their grid, and a FakeQuantize names it.  Clip limits and
 *              other bounds are given their value only.
 *              Weights of some transposed convolutions are values on their grid and
 *              nothing more (openvino_plugin.h).
 *              With weights "float" all are clamped to the ends of the grid, otherwise
 *              as trained, and a FakeQuantize rounds them.
 * Levels       qmax - qmin + 1; constants with levels that OpenVINO has no integer
 *              kernels for (7 bits, 6 bits) get the next that it has, with their step
 * Names        a value keeps its name, unless it is an output of the graph: then the
 *              rounded value has it.  New nodes are named as in NNCF,
 *              "conv1/fq_weights_1", "relu1/fq_output_0".
 * Order        topological; no node or constant that no output needs
 * Source       docs/evidence/openvino.md#export; without MQBench's defects: weights are
 *              clamped, only constants are widened, per-channel limits take the rank of
 *              their operand, dead initializers do not reach the file
 *
 * Why codes: the CPU plugin folds a FakeQuantize of a constant as rint(x * isc + ish) *
 * osc + osh in float32.  Of weights on their grid 42 % become code * scale, the others
 * differ in the last bit, zeros become -9e-7; sums that are exact ties then round
 * either way.  It folds Convert, Subtract, Multiply to code * scale with one rounding,
 * for all weights; then every convolution of eight models under four backends has our
 * codes (117 million), since it adds in the order of our kernels.  Its integer kernels
 * require weights without zero points: codes 0 to 255 around 128 are written as signed
 * ones.
 *
 * Product with codes: outside of those kernels the plugin treats MatMul weights as
 * compressed ones and rounds the other operand to int8 in groups of 32, unasked.
 * DYNAMIC_QUANTIZATION_GROUP_SIZE: 0 switches that off; IR sets it in its
 * runtime_options, users of the ONNX file must set it.
 * Both measured with OpenVINO 2026.4.1.
 *
 * Details that neither file can represent are reported per endpoint and stay in
 * float. */
#ifndef QG_ENGINE_FORMATS_OPENVINO_GRAPH_H
#define QG_ENGINE_FORMATS_OPENVINO_GRAPH_H

#include "engine/formats/format.h"

#define QG_OPENVINO_DOMAIN "org.openvinotoolkit"

/* Of ai.onnx: the first in which DequantizeLinear has an axis. */
enum { QG_OPENVINO_OPSET = 13 };

/* The aspects of an endpoint that the files represent, without a report. */
#define QG_OPENVINO_SAYS                                                               \
    (QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_RANGE | QG_SAYS_BITS |             \
     QG_SAYS_ENDPOINT)

/* Makes e->graph; losses go to e.  The snapshot stays as it is.  Nodes that were there
 * keep their opset; DequantizeLinear has at least QG_OPENVINO_OPSET. */
QG_NODISCARD qg_status qg_openvino_graph(qg_export *e);

#endif
