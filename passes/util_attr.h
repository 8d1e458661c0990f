/* util_attr.h -- attributes of a node written anew, and nodes put in front of others,
 * for passes that bring nodes into the form a backend takes.
 *
 * Attributes are immutable: a node gets a new list, in the graph's arena, and is
 * prepared again. */
#ifndef QG_PASSES_UTIL_ATTR_H
#define QG_PASSES_UTIL_ATTR_H

#include "engine/ir/graph.h"

/* One attribute: an integer, a number or a text, by type; other types are asserted
 * away. */
typedef struct qg_new_attr {
    const char *name; /* of static storage, or of the arena */
    qg_attr_type type;
    union {
        int64_t i;
        float f;
        const char *s;
    };
} qg_new_attr;

/* The attributes of n with these replaced or, when new, appended; the rest is kept.
 * QG_EMODEL from prepare() when the operator refuses them. */
QG_NODISCARD qg_status qg_node_set_attrs(qg_graph *g, qg_node *n, const qg_new_attr *a,
                                         size_t count);

/* The operator of that name in the default domain, as of the opset of n;
 * QG_EUNSUPPORTED when there is none. */
QG_NODISCARD qg_status qg_op_like(qg_graph *g, const qg_node *n, const char *name,
                                  const qg_op **out);

#endif
