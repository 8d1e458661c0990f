/* upgrade.h -- a graph at a newer opset of ai.onnx, meaning what it meant.
 *
 * A node walks from the row of its operator to the row that the new opset has, one
 * meaning after the other; what each step rewrites stands in ops/util_upgrade.c
 * (qg_upgrade).  Nodes whose row is the same at both opsets only get the new number.
 *
 *     QG_TRY(qg_graph_upgrade(g, 13));      // nodes, bodies, import list, IR version
 *     QG_TRY(qg_graph_normalize(g));        // steps may have added nodes at the end
 *
 * What a step may do:
 *
 *     nothing            the newer row only has more types, or attributes whose
 *                        default is the old behaviour: Conv 1 -> 11 -> 22
 *     an attribute less  what was implied, or no longer has a meaning: `spatial` of
 *                        BatchNormalization, `broadcast` of Gemm
 *     attribute to input axes of Squeeze, limits of Clip, pads of Pad, k of TopK; the
 *                        input is a constant named "<node>_<attribute>_<k>"
 *     an attribute more  where the default changed: RoiAlign, Selu, Split
 *     another operator   Upsample -> Resize, Scatter -> ScatterElements
 *     nodes around it    Softmax over several axes: Flatten, Softmax, Reshape; a
 *                        legacy broadcast along `axis`: Unsqueeze of input 1
 *
 * The node stays the same object with the same name and the same first inputs and
 * outputs, so whoever knew its endpoints still finds them.  Where nodes are put behind
 * it, the last of them has the output's name.
 *
 * No way: what the newer operator cannot say (a mask of Dropout that is read), and rows
 * that ops/util_upgrade.c does not have.
 *
 * Source: the "Version" sections of the ONNX operator pages; IR versions by
 * OP_SET_ID_VERSION_MAP of onnx/helper.py 1.23. */
#ifndef QG_ENGINE_IR_UPGRADE_H
#define QG_ENGINE_IR_UPGRADE_H

#include "engine/ir/graph.h"

/* Never downgrades: an opset that is there already or below changes nothing but the IR
 * version, which is raised to what the opset needs.  Types of new values are set; other
 * domains are left alone.
 * QG_EUNSUPPORTED names node, operator and both opsets when there is no way; the graph
 * is then half-way and good for freeing only: work on a copy. */
QG_NODISCARD qg_status qg_graph_upgrade(qg_graph *g, int64_t opset);

#endif
