/* drive.h -- a plan over many samples: one run context per worker, one sample each.
 *
 * Everything with more than one sample goes through here: run, evaluate, calibrate,
 * analyse.  Results must not depend on the number of workers: `done` writes to memory
 * of that sample only, or merges exactly.
 *
 *     qg_drive d = { .plan = p, .feed = &f, .n = f.n, .ud = mine, .done = keep };
 *     QG_TRY(qg_drive_run(ctx, &d)); */
#ifndef QG_ENGINE_EXEC_DRIVE_H
#define QG_ENGINE_EXEC_DRIVE_H

#include "engine/core/progress.h"
#include "engine/exec/ahead.h"
#include "engine/exec/run.h"

/* The work on every sample.  For each worker: begin, then per sample
 * fetch, run (with see), done, progress; then end, also after a failure. */
typedef struct qg_drive {
    const qg_plan *plan; /* shared by all workers */
    const qg_feed *feed; /* called for samples 0 .. n-1, in any order */
    size_t n;            /* samples 0 .. n-1 of the feed */
    unsigned jobs;       /* 0: one per core */
    void *ud;

    /* Worker state, made before its first sample; all three may be NULL.
     * done may read the outputs of r, which are invalid after it returns; it runs on
     * the worker's thread at the same time as others'. */
    qg_status (*begin)(void *ud, qg_ctx *ctx, void **state);
    qg_status (*done)(void *ud, qg_ctx *ctx, void *state, size_t sample,
                      const qg_run *r);
    void (*end)(void *ud, void *state);
    /* This sample ended in a failure, whether or not it was begun; NULL: ignored.
     * For workers that wait for one another. */
    void (*failed)(void *ud, size_t sample);

    /* Hooks at watched nodes; their ud is the worker's state. */
    qg_status (*see)(void *state, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value);

    const qg_progress *progress; /* called after every sample; NULL: none */
    const char *stage;           /* stage name passed to progress */
    size_t before, total; /* samples done by drives before this one, and those of all
                           * drives of the stage; total 0: n, of this one alone */
} qg_drive;

/* Returns when all samples are done or one failed.  Of several failures the one of
 * the lowest sample is reported, with its message on ctx, so that the result does not
 * depend on timing.  While samples run the next ones are read (ahead.h).
 * Memory: one run context and two samples per worker. */
QG_NODISCARD qg_status qg_drive_run(qg_ctx *ctx, const qg_drive *d);

#endif
