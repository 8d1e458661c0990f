/* progress.h -- how far long work has come: one callback, from the public options down
 * to whatever walks over samples. */
#ifndef QG_ENGINE_CORE_PROGRESS_H
#define QG_ENGINE_CORE_PROGRESS_H

#include <stddef.h>

/* Called now and then, one call at a time, but not always from the same thread.
 * `stage` names the work ("calibrate", "run") and is borrowed for the call; done counts
 * samples (calibration also: blocks of a pass) up to total, 0 when it is not known. */
typedef struct qg_progress {
    void (*step)(void *ud, const char *stage, size_t done, size_t total);
    void *ud;
} qg_progress;

/* Calls p->step; nothing happens when p or its step is NULL. */
static inline void qg_progress_step(const qg_progress *p, const char *stage,
                                    size_t done, size_t total)
{
    if (p && p->step)
        p->step(p->ud, stage, done, total);
}

#endif
