/* hook.h -- callbacks that observe the executor, or change its values.
 *
 * Around every watched node, in topological order:
 *     each input   hooks see it; if its TQC rounds it is rounded and seen again
 *     node runs
 *     each output  hooks see it; if its TQC rounds it is rounded and seen again
 *
 * Writes must be declared in the plan (qg_plan_options.write).  A write at an output is
 * read by all consumers.  A write at an input is read by this node alone: if the value
 * has other consumers, a COPY step precedes the hooks, also for constants, and the node
 * rounds the copy as it would have rounded the value.  Where the shape of an output
 * depends on the written data, a shape other than the planned one ends the run.
 *
 * Observers, dumps, error analysis and a user's own quantization are hooks.  With none
 * registered they cost nothing: the watched endpoints are fixed when the plan is
 * compiled.
 *
 * Cost: a step per watched tensor.  A hook that compares two plans stores its results
 * per sample.
 *
 * The largest value that any watched output takes:
 *
 *     static qg_status see(void *ud, qg_ctx *ctx, size_t sample,
 *                          const qg_hook_point *at, qg_tensor *value)
 *     {
 *         if (at->endpoint.is_output && !at->rounded)
 *             *(float *)ud = fmaxf(*(float *)ud, largest_of(value));
 *         return QG_OK;
 *     }
 *     qg_hook hook = { see, &largest };
 *     QG_TRY(qg_run_execute(run, in, &hook, 1, 0)); */
#ifndef QG_ENGINE_EXEC_HOOK_H
#define QG_ENGINE_EXEC_HOOK_H

#include "engine/quant/tqc.h"

/* Where and when the value was seen.  Valid during the call. */
typedef struct qg_hook_point {
    qg_endpoint endpoint;
    const qg_tqc *tqc; /* in effect there in this plan; NULL: not quantized */
    bool rounded;      /* false: as computed; true: after this endpoint rounded it */
} qg_hook_point;

/* A failure ends the run and is passed up as it is. */
typedef struct qg_hook {
    /* value: any strides.  Contents of an output may be replaced.  Inputs, which are
     * shared with other consumers, and values folded by inference may be replaced only
     * where the plan declares it.  ctx is the worker's, for messages; sample is the
     * index that the caller gave to qg_run_execute. */
    qg_status (*see)(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value);
    void *ud;
} qg_hook;

#endif
