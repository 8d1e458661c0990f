/* upgrade.h -- conversion of a graph to a newer opset of ai.onnx with the same meaning.
 *
 * A node moves from the row of its operator to the row of the new opset, one version at
 * a time; ops/util_upgrade.c lists the rewrite of each step (qg_upgrade).  Nodes whose
 * row is the same at both opsets only get the new number.
 *
 *     QG_TRY(qg_graph_upgrade(g, 13));      // nodes, bodies, import list, IR version
 *     QG_TRY(qg_graph_normalize(g));        // steps may have added nodes at the end
 *
 * A step is one of:
 *
 *     nothing            the newer row only has more types, or attributes whose
 *                        default is the old behaviour: Conv 1 -> 11 -> 22
 *     an attribute less  it was implied, or no longer has a meaning: `spatial` of
 *                        BatchNormalization, `broadcast` of Gemm
 *     attribute to input axes of Squeeze, limits of Clip, pads of Pad, k of TopK; the
 *                        input is a constant named "<node>_<attribute>_<k>"
 *     an attribute more  where the default changed: RoiAlign, Selu, Split
 *     another operator   Upsample -> Resize, Scatter -> ScatterElements
 *     nodes around it    Softmax over several axes: Flatten, Softmax, Reshape; a
 *                        legacy broadcast along `axis`: Unsqueeze of input 1
 *
 * The node stays the same object with the same name and the same first inputs and
 * outputs, so its endpoints keep their names.  Where nodes are appended after it, the
 * last of them takes the output's name.
 *
 * Not supported: semantics the newer operator cannot express (a Dropout mask with
 * consumers), and rows missing in ops/util_upgrade.c.
 *
 * Source: the "Version" sections of the ONNX operator pages; IR versions by
 * OP_SET_ID_VERSION_MAP of onnx/helper.py 1.23. */
#ifndef QG_ENGINE_IR_UPGRADE_H
#define QG_ENGINE_IR_UPGRADE_H

#include "engine/ir/graph.h"

/* Never downgrades: an opset equal to or below the current one changes nothing but the
 * IR version, which is raised as the opset requires.  Types of new values are set;
 * other domains are left alone.
 * QG_EUNSUPPORTED names node, operator and both opsets when no conversion exists; the
 * graph is then partly converted and can only be freed: work on a copy. */
QG_NODISCARD qg_status qg_graph_upgrade(qg_graph *g, int64_t opset);

#endif
