/* hook.h -- everything that watches the executor is a hook.
 *
 * Around every watched node, in topological order:
 *     each input   hooks see it; if its TQC rounds it is rounded and seen again
 *     node runs
 *     each output  hooks see it; if its TQC rounds it is rounded and seen again
 *
 * Observers, dumps, error analysis and a user's own quantization are hooks.  With none
 * registered a plan holds no trace of them: what is watched is decided when the plan is
 * compiled. */
#ifndef QG_ENGINE_EXEC_HOOK_H
#define QG_ENGINE_EXEC_HOOK_H

#include "engine/quant/tqc.h"

typedef struct qg_endpoint {
    const qg_node *node;
    uint32_t slot;
    bool is_output;
    bool rounded;      /* false: as computed; true: after this endpoint rounded it */
    const qg_tqc *tqc; /* NULL: not quantized */
} qg_endpoint;

typedef struct qg_hook {
    /* value: any strides.  Contents of an output may be replaced; an input is shared
     * with other consumers and must not be written.  ctx is the worker's, for messages;
     * sample is the index that the caller gave to qg_run_execute. */
    qg_status (*see)(void *ud, qg_ctx *ctx, size_t sample, const qg_endpoint *at,
                     qg_tensor *value);
    void *ud;
} qg_hook;

#endif
