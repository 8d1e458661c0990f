/* meter.h -- progress reported by several workers, one call at a time, and cancellation
 * by the caller.
 *
 *     qg_meter m;
 *     qg_meter_begin(&m, progress, "price", samples);
 *     in a worker:  QG_TRY(qg_meter_add(&m, ctx, 0));      // cancelled?
 *                   QG_TRY(qg_meter_add(&m, ctx, 1));      // one sample is done
 *     qg_meter_end(&m); */
#ifndef QG_ENGINE_EXEC_METER_H
#define QG_ENGINE_EXEC_METER_H

#include <pthread.h>
#include <stdbool.h>

#include "engine/core/ctx.h"

typedef struct qg_meter {
    const qg_progress *progress; /* NULL: not reported */
    const char *stage;
    size_t done, total;
    bool ended; /* the caller's callback is not called again */
    pthread_mutex_t lock;
} qg_meter;

void qg_meter_begin(qg_meter *m, const qg_progress *progress, const char *stage,
                    size_t total);
void qg_meter_end(qg_meter *m);

/* n more are done; 0 only checks.  QG_ECANCELED from the first call on in which the
 * caller cancels, with the same message for every worker. */
QG_NODISCARD qg_status qg_meter_add(qg_meter *m, qg_ctx *ctx, size_t n);

/* The watch of a worker whose samples m counts; m may be NULL. */
qg_cancel_watch qg_meter_watch(qg_meter *m);

#endif
