/* quantize_tensor.h -- one run of qg_quantize_tensor, shared by its two files:
 * quantize_tensor_options.c turns words into scheme and parameters, quantize_tensor.c
 * reads, rounds, writes and reports.  Everything lies in the arena of the run. */
#ifndef QG_ENGINE_SESSION_QUANTIZE_TENSOR_H
#define QG_ENGINE_SESSION_QUANTIZE_TENSOR_H

#include "engine/api/qg.h"
#include "engine/calib/histogram.h"
#include "engine/core/arena.h"
#include "engine/quant/apply.h"

/* Filled from top to bottom; a failure ends the run, and the arena takes everything. */
typedef struct qg_tensor_job {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *path;
    const qg_quantize_tensor_options *o;
    qg_tensor x, y;  /* float32, plain: the input, and the quantized result */
    qg_apply how;    /* how.param is NULL or &param */
    qg_curve curve;  /* of the observer, when the options require it */
    qg_qparam param; /* scale and offset given, or of an observer; offset is not NULL */
    qg_applied done;
} qg_tensor_job;

/* how.scheme and how.quirks from the options; x must be known.  QG_ECONFIG names the
 * option. */
QG_NODISCARD qg_status qg_tensor_job_scheme(qg_tensor_job *j);

/* Then how.param; it stays NULL for the range of the finite elements, `minmax`. */
QG_NODISCARD qg_status qg_tensor_job_param(qg_tensor_job *j);

#endif
