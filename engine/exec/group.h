/* group.h -- processes that share one job, started by `mpirun -n K`.
 *
 * The only user of MPI.  Without it (QG_MPI off, or Open MPI absent at build) a group
 * has one member, and requesting more is QG_EUNSUPPORTED.
 *
 *     QG_TRY(qg_group_join(ctx, &g));
 *     if (g.rank > 0)
 *         s = qg_group_send(ctx, &g, bytes, size);
 *     else
 *         for (int k = 1; k < g.size; k++)
 *             s = qg_group_receive(ctx, &g, k, a, &bytes, &size);
 *     qg_group_leave(&g);
 *
 * Direction   rank 0 receives from every other process, in order of rank, also after a
 *             failure of its own: no process is left waiting.  Others send to rank 0
 *             only.
 * Same bytes  statistics do not depend on the distribution of samples, so rank 0 merges
 *             the received ones and writes the same bytes as a single process.
 * Threads     only the thread that joined may call these; workers do not call MPI.
 * Endings     mpirun detects a process that dies and ends all others.
 * Cost        joining takes some 0.1 s: programs join only when mpirun started them.
 * Owner       MPI can be joined once per process; leave is final. */
#ifndef QG_ENGINE_EXEC_GROUP_H
#define QG_ENGINE_EXEC_GROUP_H

#include "engine/core/ctx.h"

typedef struct qg_group {
    int rank, size; /* 0 .. size - 1; rank 0 collects and writes */
} qg_group;

/* Waits for the other processes. */
QG_NODISCARD qg_status qg_group_join(qg_ctx *ctx, qg_group *out);
void qg_group_leave(qg_group *g);

/* To rank 0.  A sender that failed sends nothing: bytes NULL. */
QG_NODISCARD qg_status qg_group_send(qg_ctx *ctx, const qg_group *g, const void *bytes,
                                     size_t size);
/* From `rank`, into `a`; QG_EDATA when that process failed. */
QG_NODISCARD qg_status qg_group_receive(qg_ctx *ctx, const qg_group *g, int rank,
                                        qg_arena *a, unsigned char **bytes,
                                        size_t *size);

/* Waits until every process is here.  s when that is a failure; QG_EDATA when another
 * process failed: then all fail, and none goes on. */
QG_NODISCARD qg_status qg_group_agree(qg_ctx *ctx, const qg_group *g, qg_status s);

#endif
