/* clock.h -- how long things take. */
#ifndef QG_ENGINE_CORE_CLOCK_H
#define QG_ENGINE_CORE_CLOCK_H

/* Seconds since some fixed moment, monotonic: only differences mean anything. */
double qg_clock_seconds(void);

#endif
