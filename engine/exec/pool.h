/* pool.h -- workers over samples.
 *
 * Each worker is a thread with its own forked context; jobs are taken in order of
 * index. Results must not depend on the number of workers: write to a place of your own
 * index, or merge exactly.  The first failing index (not the first in time) is
 * reported. */
#ifndef QG_ENGINE_EXEC_POOL_H
#define QG_ENGINE_EXEC_POOL_H

#include "engine/core/ctx.h"

typedef struct qg_job {
    size_t n;         /* indices 0 .. n-1 */
    unsigned workers; /* 0: one per core */
    /* Called once in each worker before its first index; *state is handed to `work` and
     * `end`.  NULL: none. */
    qg_status (*begin)(void *ud, qg_ctx *ctx, void **state);
    qg_status (*work)(void *ud, qg_ctx *ctx, void *state, size_t index);
    void (*end)(void *ud, void *state);
    void *ud;
} qg_job;

QG_NODISCARD qg_status qg_pool_run(qg_ctx *ctx, const qg_job *job);

unsigned qg_cores(void); /* usable by this process, at least 1 */

#endif
