/* util_attr.h -- replaces attributes of a node, for passes that bring nodes into the
 * form that a backend requires.
 *
 * Attributes are immutable: a node gets a new list, in the graph's arena, and is
 * prepared again. */
#ifndef QG_PASSES_UTIL_ATTR_H
#define QG_PASSES_UTIL_ATTR_H

#include "engine/ir/graph.h"

/* Replaces these attributes of n or, when new, appends them; keeps the rest. Names and
 * values are static or in the graph's arena. QG_EMODEL from prepare() when the operator
 * rejects them. */
QG_NODISCARD qg_status qg_node_set_attrs(qg_graph *g, qg_node *n, const qg_attr *a,
                                         size_t count);

#endif
