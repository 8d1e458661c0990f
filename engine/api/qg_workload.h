/* qg_workload.h -- the samples of a call, and how the network is run over them.
 *
 * Part of qg.h, which includes it. */
#ifndef QG_ENGINE_API_QG_WORKLOAD_H
#define QG_ENGINE_API_QG_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/api/qg_memory.h"
#include "engine/core/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The workload of every call that runs the network over samples.  Zeros are the
 * defaults.  Calls that require samples fail with QG_ECONFIG unless exactly one of
 * data, array and source is set. */
typedef struct qg_workload {
    const char *data; /* DATA of the command line: a file, a folder, random:N */
    size_t samples;   /* use at most this many leading samples; 0: all */
    unsigned jobs;    /* threads; 0: one per core.  They compute different samples, and
                       * share each when there are fewer samples.  Results do not depend
                       * on it. */
    bool reference_kernels; /* the same bytes on every machine, in ONNX Runtime's
                             * order of sums */
    qg_progress progress;
    const qg_input_array *array; /* [n_array] one per input, instead of data */
    size_t n_array;
    const qg_source *source; /* samples that the host makes, instead of data */
    const void *reserved[4]; /* NULL */
} qg_workload;

#ifdef __cplusplus
}
#endif

#endif
