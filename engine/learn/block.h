/* block.h -- the parts of a graph that are tuned one after the other.
 *
 * A block is a run of consecutive nodes in topological order, hence convex: nothing
 * that it computes returns to it.  It ends where the fewest values lead on, after at
 * most `depth` nodes that accumulate products, and never inside of a fusion (an output
 * whose rounding a later node does).  A node whose operator has no gradient is a block
 * of its own, in which nothing is learned. */
#ifndef QG_ENGINE_LEARN_BLOCK_H
#define QG_ENGINE_LEARN_BLOCK_H

#include "engine/quant/tqc.h"

typedef struct qg_block {
    size_t first, end;   /* nodes [first, end) by id */
    size_t compute;      /* how many accumulate products */
    const qg_node *stop; /* no gradient: its operator has none; else NULL */
} qg_block;

/* depth > 0.  The graph is normalized; the blocks cover it.  In a. */
QG_NODISCARD qg_status qg_blocks_of(qg_ctx *ctx, const qg_graph *g, size_t depth,
                                    qg_arena *a, qg_block **out, size_t *n);

/* [nodes] 1 within the block; in a, NULL: no memory. */
uint8_t *qg_block_part(const qg_graph *g, const qg_block *b, qg_arena *a);

#endif
