/* util_elements.h -- a chain of element-wise float32 nodes in one kernel, which reads
 * and writes memory once.
 *
 * Each node is a step of a loop of util_vector.h on a block that stays in the first
 * cache, so the bits are those of separate nodes.  Typical chains: x * sigmoid(x);
 * x * (1 + erf(x / sqrt 2)).
 *
 *     node                step        second operand
 *     d = Div(x, 1.414)   pair DIV    the number 1.414
 *     e = Erf(d)          map ERF     none
 *     a = Add(e, 1)       pair ADD    the number 1
 *     y = Mul(x, a)       pair MUL    x, the data of the first node; swapped
 *
 * Rounding  intermediate values are float32 in memory, as between separate nodes; a
 *           chain never fuses a multiplication with an addition
 * Quantized the plan ends a chain at an endpoint that rounds or is watched
 *           (ir/kernel.h), so that a chain has values that nothing else reads
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
    float a, b;        /* of the map, as in QG_MAP_F32: limits of CLIP, ... */
};

/* The kernel of c->node and as many followers as are loops; *out stays NULL where that
 * is no gain: no follower, other types, an operand that is neither one constant number
 * nor the data of c->node. */
QG_NODISCARD qg_status qg_compile_elements(qg_compile *c, qg_kernel **out);

#endif
