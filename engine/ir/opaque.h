/* opaque.h -- operators of other domains that nobody described.
 *
 * A node of such an operator is kept: it has a name, slots and attributes, and files
 * that are written have it as it was.  Nothing is known of its computation, so it is
 * never quantized, matches no pattern or rule, and cannot be executed; the same holds
 * for every node that it feeds, except that those match and may be written in any
 * format that knows them.
 *
 *     a -> Conv -> r -> com.acme.Swirl -> s -> Conv -> z        opaque: Swirl
 *                  r -> Conv -> y                               blocked: Swirl, Conv(z)
 *
 * Why    a network with a few custom nodes can still be quantized and exported where
 *        they are not in the way: y above is calibrated, z stays float
 * Types  outputs have the types that the file declares (value_info); without one the
 *        element type of the first input, of unknown shape
 *
 * Only the operator sets of ONNX and of integer programs are complete here: an operator
 * that is missing in one of them is an error at import.  Every other domain is open,
 * also one of which some operators are known, such as com.microsoft. */
#ifndef QG_ENGINE_IR_OPAQUE_H
#define QG_ENGINE_IR_OPAQUE_H

#include "engine/ir/graph.h"

/* Whether every operator of the domain is in the registry: NULL, "" and "ai.onnx", and
 * that of integer programs. */
bool qg_domain_is_closed(const char *domain);

/* The row of an operator that the registry lacks: one per context, name and version,
 * which lives as long as the context.  Its slots have the role f (never quantized), any
 * number of them, and it can only be inferred.  QG_ENOMEM only.  Not for workers. */
QG_NODISCARD qg_status qg_opaque_op(qg_ctx *ctx, const char *domain, const char *name,
                                    int64_t opset, const qg_op **out);

/* The first opaque node of the graph or of its bodies; NULL: there is none.  Their
 * number is added to *n, unless n is NULL. */
const qg_node *qg_opaque_first(const qg_graph *g, size_t *n);

/* from[node id] is the opaque node because of which the node cannot be executed:
 * itself, one in a body of it, or one that feeds it; NULL: it can be.  from: [nodes] of
 * the normalized graph g, not of bodies.  One sweep, which needs topological order: a
 * node has the reason of its first input that has one. */
void qg_opaque_spread(const qg_graph *g, const qg_node **from);

/* QG_EUNSUPPORTED that names node, operator and domain. */
qg_status qg_opaque_fail(qg_ctx *ctx, const char *doing, const qg_node *n);

#endif
