/* openvino_graph.h -- a snapshot as a float graph in which FakeQuantize says what is
 * rounded: what both files of OpenVINO are written from, and back again.
 *
 * Activations  a FakeQuantize behind an output that rounds, in front of an input that
 *              rounds; inputs that read one value on one grid share it
 * Constants    hold the values of their grid, so that neither clamping nor ties depend
 *              on who rounds them; a FakeQuantize names the grid.  With weights "float"
 *              they are clamped to the ends of the grid and otherwise as trained.
 *              Clip limits and other bounds are given their value only.
 * Levels       qmax - qmin + 1; constants with levels that OpenVINO has no integer
 *              kernels for (7 bits, 6 bits) get the next that it has, with their step
 * Names        a value keeps its name, unless it is an output of the graph: then the
 *              rounded value has it.  New nodes are called as NNCF does,
 *              "conv1/fq_weights_1", "relu1/fq_output_0".
 * Order        topological; nothing that no output needs (constants too)
 * Source       spec/algorithms.md 1.8, 2.2 to 2.6; MQBench's defects mended: weights
 *              are clamped, only constants are widened, per-channel limits take the
 *              rank of what they limit, dead initializers do not reach the file
 *
 * What a FakeQuantize cannot say is reported per endpoint and stays in float. */
#ifndef QG_ENGINE_IO_OPENVINO_GRAPH_H
#define QG_ENGINE_IO_OPENVINO_GRAPH_H

#include "engine/io/format.h"

#define QG_OPENVINO_DOMAIN "org.openvinotoolkit"

/* What a FakeQuantize says of an endpoint without further report. */
#define QG_OPENVINO_SAYS                                                               \
    (QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_RANGE | QG_SAYS_BITS |             \
     QG_SAYS_ENDPOINT)

/* Makes e->graph; losses go to e.  The snapshot stays as it is. */
QG_NODISCARD qg_status qg_openvino_graph(qg_export *e);

/* FakeQuantize, by its traits and name. */
bool qg_is_fake_quantize(const qg_op *op);

#endif
