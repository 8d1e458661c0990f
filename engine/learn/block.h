/* block.h -- the parts of a graph that are tuned one after the other.
 *
 * A block is a run of consecutive nodes in topological order, hence convex: nothing
 * that it computes returns to it.  It ends where the fewest values lead on, after at
 * most `depth` nodes that accumulate products, and never inside of a fusion (an output
 * whose rounding a later node does).  A node whose operator has no gradient is a block
 * of its own, in which nothing is learned.
 *
 *     node       Conv a   Relu   Conv b   Add(Relu, b)   Conv c        depth 2
 *     lead on         1      1        2              1        0
 *     block      [------------- 0 ------------------]   [- 1 -]
 *
 * The cut is behind Add: behind Conv b the residual would cross it, and with Conv c the
 * block would have three compute nodes.  Among equal cuts the last one is taken.
 *
 * Limits   where a fusion leaves no place to end, a block has more than `depth` compute
 *          nodes; a node without a gradient ends a block in any case
 * Why      more than one layer: later layers can compensate errors of earlier ones
 *          (BRECQ).  Few values at a cut: each of them is held for all samples
 *          (stream.h) and is a term of the loss (reconstruct.h)
 * Cost     the sum of the lifetimes of all values, in nodes */
#ifndef QG_ENGINE_LEARN_BLOCK_H
#define QG_ENGINE_LEARN_BLOCK_H

#include "engine/quant/tqc.h"

/* Blocks are in topological order, without gaps: end is the first of the next one. */
typedef struct qg_block {
    size_t first, end;   /* nodes [first, end) by id */
    size_t compute;      /* how many accumulate products */
    const qg_node *stop; /* no gradient: its operator has none; else NULL */
} qg_block;

/* depth > 0.  The graph is normalized; the blocks cover it.  In a. */
QG_NODISCARD qg_status qg_blocks_of(qg_ctx *ctx, const qg_graph *g, size_t depth,
                                    qg_arena *a, qg_block **out, size_t *n);

/* [nodes] 1 where an output of the graph depends on the node; in a, NULL: no memory. */
uint8_t *qg_block_wanted(const qg_graph *g, qg_arena *a);

/* [nodes] 1 within the block, where wanted; in a, NULL: no memory. */
uint8_t *qg_block_part(const qg_graph *g, const qg_block *b, const uint8_t *wanted,
                       qg_arena *a);

#endif
