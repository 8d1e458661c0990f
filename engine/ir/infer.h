/* infer.h -- types and shapes of every value, and the constants among them.
 *
 * Walks the graph in topological order and calls op->infer.  Where every input of a PURE
 * node is known and the result is small (a shape, an index), the node is run and the
 * result kept for the inference of its consumers, so that shape arithmetic folds. */
#ifndef QG_ENGINE_IR_INFER_H
#define QG_ENGINE_IR_INFER_H

#include "engine/ir/graph.h"

/* A dimension that the caller fixes: input name and dims (-1: leave as it is). */
typedef struct qg_fixed_shape {
    const char *input;
    int32_t rank;
    int64_t dim[QG_MAX_RANK];
} qg_fixed_shape;

/* Symbolic first dimensions (batch) that are still unknown become 1 after `fixed` was
 * applied.  QG_EMODEL names the node on a contradiction; QG_ECONFIG names an input that
 * does not exist or a rank that does not fit.  Values whose shape depends on data keep
 * unknown dims. */
QG_NODISCARD qg_status qg_infer(qg_graph *g, const qg_fixed_shape *fixed, size_t n);

/* known[value id] is the tensor of a value that infer could compute, or NULL; valid
 * until the graph is edited.  fold-constants reads this. */
QG_NODISCARD qg_status qg_infer_known(qg_graph *g, const qg_tensor *const **known);

/* The walk itself, without touching the graph: type[value id] and known[value id] in the
 * arena.  `input` NULL: the declared shapes; else [graph inputs].  Plans are built on
 * this for the shapes they are compiled for. */
QG_NODISCARD qg_status qg_infer_values(qg_ctx *ctx, const qg_graph *g,
                                       const qg_tensor *input, qg_arena *a,
                                       qg_tensor **type, const qg_tensor ***known);

#endif
