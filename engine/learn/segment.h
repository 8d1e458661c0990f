/* segment.h -- where a list of nodes is cut into segments, so that backward needs least
 * memory when it computes a segment again from the values that lead into it.
 *
 *     memory   bytes of all values that lead from one segment to another or out of the
 *              list, and the cost of the most expensive segment
 *
 * Rule     for each k up to 64, segments of at most a k-th of the cost of all nodes,
 *          cut where the fewest bytes lead on, in their second half; the k with the
 *          least memory, the first of equal ones
 * Source   Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016
 *
 * Example  eight nodes of cost 10 in a chain, each value 1 byte: k = 4 cuts it into
 *          four segments of two nodes, with 4 + 20 bytes; k = 8 needs 8 + 10
 *
 *     QG_TRY(qg_segments_plan(ctx, a, &list, &end, &n));
 *     segment i: nodes [i ? end[i - 1] : 0, end[i]) */
#ifndef QG_ENGINE_LEARN_SEGMENT_H
#define QG_ENGINE_LEARN_SEGMENT_H

#include "engine/core/ctx.h"

/* A value, from the node that computes it to the last that reads it. */
typedef struct qg_span {
    size_t from, to; /* to = n_node: read after the list */
    double bytes;    /* while it is kept */
} qg_span;

/* Borrowed for the call. */
typedef struct qg_segment_list {
    size_t n_node, n_span;
    const double *cost; /* [n_node] bytes of the node at work, forward and backward */
    const qg_span *span;
} qg_segment_list;

/* end[n], ascending, in the arena; the last is n_node.  n = 1: cuts gain nothing. */
QG_NODISCARD qg_status qg_segments_plan(qg_ctx *ctx, qg_arena *a,
                                        const qg_segment_list *l, size_t **end,
                                        size_t *n);

#endif
