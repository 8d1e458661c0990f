/* infer.h -- types and shapes of every value, and the constants among them.
 *
 * Walks the graph (normalized, see edit.h) and calls op->infer.  Where every input of a
 * PURE node is known and the result is small (a shape, an index), the node is run and
 * the result kept for the inference of its consumers, so that shape arithmetic folds.
 *
 * The operators' results take precedence.  The declaration of a computed value in a
 * file is used only for a dtype that inference cannot determine: a declared shape is a
 * hint, and memory is never sized by a hint.  Graph inputs and the outer values of a
 * body keep their declared types.
 * Unknown  a node that has an input of unknown rank has outputs of unknown rank; only
 *          the dtypes of op->infer's result for an accepted rank are kept.  Bodies are
 *          inferred by the operator that owns them: it gives types to the inputs of the
 *          body and calls qg_infer on it.
 * Open     a first extent that nobody gave is assumed to be 1, and marked in
 *          value->open: exported files leave it open, and fold-constants folds nothing
 *          that depends on it.  A symbol is open wherever it occurs.
 * Symbols  dim_name stays after an extent was fixed: it may be fixed anew later, and
 *          exporters can write the dynamic dimension back.
 *
 * Cost: linear in the graph, plus the small nodes that are run.  Iterative: depth of
 * the network costs no stack.
 *
 *     qg_fixed_shape batch = { .input = "x", .rank = 4, .dim = { 8, -1, -1, -1 } };
 *     QG_TRY(qg_infer(g, &batch, 1));
 *     ... g->value.at[i]->type ...                          // dim -1: dynamic */
#ifndef QG_ENGINE_IR_INFER_H
#define QG_ENGINE_IR_INFER_H

#include "engine/ir/graph.h"

/* A dimension that the caller fixes: input name and dims (-1: leave as it is).
 * Borrowed for the call. */
typedef struct qg_fixed_shape {
    const char *input; /* name of a graph input */
    int32_t rank;      /* of dim, at most QG_MAX_RANK */
    int64_t dim[QG_MAX_RANK];
} qg_fixed_shape;

/* A name used in several input dims is one extent: fixing it once fixes all.  Symbolic
 * first dimensions (batch) that are still unknown become 1 after `fixed` was applied,
 * except in bodies.  QG_EMODEL names the node on a contradiction; QG_ECONFIG names an
 * input that does not exist, or a rank or extent that does not fit.  Values whose shape
 * depends on data keep unknown dims. */
QG_NODISCARD qg_status qg_infer(qg_graph *g, const qg_fixed_shape *fixed, size_t n);

/* (*known)[value id] is the tensor of a computed value that inference could evaluate,
 * or NULL (for constants too: see value->constant); it is valid until the next qg_infer
 * or qg_graph_normalize.  At most QG_INFER_KEEP elements per node and QG_INFER_BUDGET
 * bytes per graph are kept, and up to QG_INFER_MOVED bytes of whole constants whose
 * elements only move, as in a transposed weight; COMPUTE and CONTROL nodes are not run.
 * QG_ESTATE before qg_infer; infers again where values were added or renumbered since.
 * fold-constants reads this. */
enum { QG_INFER_KEEP = 65536, QG_INFER_BUDGET = 64 << 20, QG_INFER_MOVED = 512 << 20 };
QG_NODISCARD qg_status qg_infer_known(qg_graph *g, const qg_tensor *const **known);

/* The walk itself, without touching the graph: type[value id] and known[value id] in
 * the arena.  `input` NULL: the declared shapes; else [graph inputs], with data where
 * an input is known.  Plans are built on this for the shapes they are compiled for. */
QG_NODISCARD qg_status qg_infer_values(qg_ctx *ctx, const qg_graph *g,
                                       const qg_tensor *input, qg_arena *a,
                                       qg_tensor **type, const qg_tensor ***known);

/* Whether an input has an extent that is open in the file and assumed here. */
bool qg_graph_is_open(const qg_graph *g);

/* The same walk with open extents unknown: the types that hold for each of them (inner
 * values of bodies are left with theirs), and the tensors that depend on none.  What
 * cannot be inferred without them is unknown. */
QG_NODISCARD qg_status qg_infer_open(qg_ctx *ctx, const qg_graph *g, qg_arena *a,
                                     qg_tensor **type, const qg_tensor ***known);

#endif
