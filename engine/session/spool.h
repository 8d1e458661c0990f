/* spool.h -- samples that can be read only once, kept in an unnamed file.
 *
 * The file is unlinked immediately, so it does not remain after the process has ended
 * in any way.  A sample is, input by input, its dims (int64) and its elements.
 *
 *     QG_TRY(qg_spool_open(ctx, graph, &s));
 *     QG_TRY(qg_spool_put(ctx, s, in));                     // sample 0, 1, 2 ...
 *     QG_TRY(qg_spool_get(ctx, s, arena, i, in));           // in any thread
 *     qg_spool_close(s); */
#ifndef QG_ENGINE_SESSION_SPOOL_H
#define QG_ENGINE_SESSION_SPOOL_H

#include "engine/ir/graph.h"

typedef struct qg_spool qg_spool;

/* In P_tmpdir; QG_EIO names it.  The graph, whose inputs the samples are for, must
 * outlive the spool. */
QG_NODISCARD qg_status qg_spool_open(qg_ctx *ctx, const qg_graph *g, qg_spool **out);
void qg_spool_close(qg_spool *s); /* NULL is fine */

/* Appends a sample: in[inputs], plain, of the types and ranks of the graph's inputs. */
QG_NODISCARD qg_status qg_spool_put(qg_ctx *ctx, qg_spool *s,
                                    const qg_tensor *const *in);

/* Sample i, tensors and elements in a; by any number of threads after the last put. */
QG_NODISCARD qg_status qg_spool_get(qg_ctx *ctx, const qg_spool *s, qg_arena *a,
                                    size_t i, const qg_tensor **in);

#endif
