/* util_attr.h -- attributes of a node written anew, for passes that bring nodes into
 * the form a backend takes.
 *
 * Attributes are immutable: a node gets a new list, in the graph's arena, and is
 * prepared again. */
#ifndef QG_PASSES_UTIL_ATTR_H
#define QG_PASSES_UTIL_ATTR_H

#include "engine/ir/graph.h"

/* The attributes of n with these replaced or, when new, appended; the rest is kept.
 * Names and values are static or in the graph's arena.
 * QG_EMODEL from prepare() when the operator refuses them. */
QG_NODISCARD qg_status qg_node_set_attrs(qg_graph *g, qg_node *n, const qg_attr *a,
                                         size_t count);

#endif
