/* progress.h -- progress of long work: one callback, passed from the public options
 * down to the loops over samples. */
#ifndef QG_ENGINE_CORE_PROGRESS_H
#define QG_ENGINE_CORE_PROGRESS_H

#include <stddef.h>

#include "engine/core/status.h"

/* Called repeatedly, one call at a time, but not always from the same thread.
 * `stage` names the work ("calibrate", "run", a pass) and is borrowed for the call;
 * done counts samples (calibration also: blocks of a pass) up to total, 0 when unknown.
 * A call that repeats the previous numbers only checks whether to continue.  A result
 * other than 0 ends the work with QG_ECANCELED, at the latest when the operators in
 * progress are done, of Loop and Scan their iterations; there are no further calls. */
typedef struct qg_progress {
    int (*step)(void *ud, const char *stage, size_t done, size_t total);
    void *ud;
} qg_progress;

struct qg_ctx;

/* What work within one sample asks, in the thread that does it, whether to go on:
 * qg_ctx_go_on.  QG_ECANCELED ends it. */
typedef struct qg_cancel_watch {
    qg_status (*ask)(void *ud, struct qg_ctx *ctx); /* NULL: nobody to ask */
    void *ud;
} qg_cancel_watch;

#endif
