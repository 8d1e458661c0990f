/* cut.h -- the part of a graph between known values and one value, as a graph of its
 * own: its inputs are the known values that it reads.
 *
 *     qg_cut c = { .from = g, .target = v, .stop = known };
 *     QG_TRY(qg_cut_make(ctx, &c));
 *     ... c.graph reads c.in[0 .. c.n_in), one output ...
 *     qg_graph_free(c.graph);
 *
 * Types of the inputs are those inferred in `from`.  Constants and attributes are
 * borrowed from it. */
#ifndef QG_ENGINE_IR_CUT_H
#define QG_ENGINE_IR_CUT_H

#include "engine/ir/graph.h"

typedef struct qg_cut {
    const qg_graph *from; /* normalized and inferred */
    const qg_value *target;
    const uint8_t *stop; /* [values of from] 1: an input of the cut */
    /* [values of from] dims of inputs that `from` leaves open; NULL, or an entry that
     * is NULL: as `from` has them. */
    const qg_tensor *const *dims;
    qg_dtype real; /* of float32 inputs and constants: QG_F32 (or 0), QG_F64 */
    /* The constant at input `slot` of n, in the arena of g; NULL: as it is. */
    qg_status (*constant)(void *ud, qg_graph *g, const qg_node *n, uint32_t slot,
                          const qg_tensor **out);
    void *ud;

    qg_graph *graph;     /* made */
    const qg_value **in; /* [n_in] values of from, in order of the graph's inputs */
    size_t n_in;
    const qg_node **node; /* [n_node] of from that are in it, in order */
    size_t n_node;
} qg_cut;

/* The target has a producer.  c->graph is the caller's to free, and `in` and `node`
 * are in its arena; after a failure c->graph is NULL.  The errors of qg_infer,
 * such as an operator that has no float64 form. */
QG_NODISCARD qg_status qg_cut_make(qg_ctx *ctx, qg_cut *c);

#endif
