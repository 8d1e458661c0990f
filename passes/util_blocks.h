/* util_blocks.h -- short sections of a network with one entry and one exit, for passes
 * that improve a network piece by piece.
 *
 * A block starts at a quantized COMPUTE node and grows to the next node that all its
 * data must pass through: the only reader, or the join of a fork (a residual block is
 * kept whole).  It ends before it exceeds `limit` steps.
 *
 *     chain C0 R0 C1 R1 C2, limit 1      [C0 R0] [C1 R1] [C2]
 *     residual C1 R1 C2 Add(C2,R1) C3    limit 2: [C1 R1] [C2] [C3], 3: [C1 R1 C2 Add]
 *                                        [C3]
 *
 * Depth of a node: the longest path to it from a node that reads no other node's
 * output.
 * Source: docs/evidence/ppq-behaviour.md#blocks. */
#ifndef QG_PASSES_UTIL_BLOCKS_H
#define QG_PASSES_UTIL_BLOCKS_H

#include "engine/ir/graph.h"

/* Nodes in topological order: the start first, the end last. */
typedef struct qg_block {
    qg_node **node; /* [n] */
    size_t n;       /* at least 1 */
} qg_block;

typedef QG_VEC(qg_block) qg_blocks;

/* Blocks in the order of their starts; no start lies in an earlier block.  In arena a.
 * last: [nodes] 1 for nodes listed after all others, as returned by
 * qg_pass_listed_last. The graph is normalized and dispatched; limit >= 0 (asserted).
 * Only QG_ENOMEM. */
QG_NODISCARD qg_status qg_blocks_find(const qg_graph *g, const uint8_t *last, int limit,
                                      qg_arena *a, qg_blocks *out);

#endif
