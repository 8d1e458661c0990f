/* pool.h -- workers over samples, or over the parts of one step of a sample.
 *
 * Each worker is a thread with its own forked context; jobs are taken in order of
 * index.  Results must not depend on the number of workers: write only to memory of the
 * own index, or merge exactly.  The first failing index (not the first in time) is
 * reported, QG_ECANCELED before any other failure.
 *
 * The calling thread is one of the workers: one job with one worker starts no
 * thread.  If a thread cannot be started, the others do its work; at most 256 are
 * started.
 *
 *     static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t i)
 *     {
 *         ((double *)ud)[i] = error_of(i);      // a place of its own: no lock
 *         return QG_OK;
 *     }
 *     qg_job job = { .n = n, .work = work, .ud = error };
 *     QG_TRY(qg_pool_run(ctx, &job));
 *
 * A team keeps its threads for many short jobs.  After a job they look for the next one
 * for some hundred microseconds, since it often follows at once; then they sleep. */
#ifndef QG_ENGINE_EXEC_POOL_H
#define QG_ENGINE_EXEC_POOL_H

#include "engine/core/ctx.h"
#include "engine/exec/meter.h"

/* After a failure at index i no index above i is begun any more, and every index below
 * it still runs: this makes the reported failure independent of timing. */
typedef struct qg_job {
    size_t n;         /* indices 0 .. n-1 */
    unsigned workers; /* 0: one per core */
    /* Called once in each worker before its first index; *state is handed to `work` and
     * `end`.  NULL: none. */
    qg_status (*begin)(void *ud, qg_ctx *ctx, void **state);
    /* one index */
    qg_status (*work)(void *ud, qg_ctx *ctx, void *state, size_t index);
    void (*end)(void *ud, void *state); /* once per worker whose begin set a state */
    void *ud;
    /* Asked within an index, too, whether to go on; NULL: whoever the caller's context
     * asks. */
    qg_meter *meter;
} qg_job;

/* A team of job->workers for one job.  Returns when every worker has ended.  On failure
 * the message is copied to ctx. */
QG_NODISCARD qg_status qg_pool_run(qg_ctx *ctx, const qg_job *job);

/* `workers` (at least 1) threads, of which the calling one is the first.  It belongs to
 * one thread at a time; ctx must outlive it.  QG_ENOMEM. */
typedef struct qg_team qg_team;
QG_NODISCARD qg_status qg_team_new(qg_ctx *ctx, unsigned workers, qg_team **out);
void qg_team_free(qg_team *t); /* NULL is fine */

/* job->workers is ignored.  A worker that is late takes no part and calls no `begin`:
 * the others have done its work. */
QG_NODISCARD qg_status qg_team_run(qg_team *t, qg_ctx *ctx, const qg_job *job);

/* The number of workers for n indices when `asked` are requested (0: one per core): at
 * most n, and at most 256. */
unsigned qg_pool_workers(unsigned asked, size_t n);

/* The threads that each of these workers has for a sample of its own: more than 1 when
 * there are fewer samples than threads. */
unsigned qg_pool_share(unsigned asked, size_t n);

unsigned qg_cores(void); /* usable by this process, at least 1 */

#endif
