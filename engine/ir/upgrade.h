/* upgrade.h -- a graph at a newer opset of ai.onnx, meaning what it meant.
 *
 * A node walks from the row of its operator to the row that the new opset has, one
 * meaning after the other; what each step rewrites stands in ops/upgrade.c
 * (qg_upgrade).  Nodes whose row is the same at both opsets only get the new number.
 *
 *     QG_TRY(qg_graph_upgrade(g, 13));      // nodes, bodies, import list, IR version
 *     QG_TRY(qg_graph_normalize(g));        // steps may have added nodes at the end
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
