/* util_elements.h -- a chain of element-wise float32 nodes in one kernel, which reads
 * and writes memory once.
 *
 * Each node is a step of a loop of util_vector.h on a block that stays in the first
 * cache, so the bits are those of separate nodes.  Typical chains: x * sigmoid(x);
 * x * (1 + erf(x / sqrt 2)).
 *
 * An operator takes part with a callback `element`, and as the first of a chain with
 * .compile = qg_compile_elements. */
#ifndef QG_OPS_UTIL_ELEMENTS_H
#define QG_OPS_UTIL_ELEMENTS_H

#include "engine/ir/kernel.h"
#include "ops/util_vector.h"

/* One node: y = map(x), or pair of x and another operand. */
struct qg_element {
    bool is_pair;
    enum qg_map map;   /* with a, b */
    enum qg_pair pair; /* of inputs 0 and 1 */
    float a, b;
};

/* The kernel of c->node and as many followers as are loops; *out stays NULL where that
 * is no gain: no follower, other types, an operand that is neither one constant number
 * nor the data of c->node. */
QG_NODISCARD qg_status qg_compile_elements(qg_compile *c, qg_kernel **out);

#endif
