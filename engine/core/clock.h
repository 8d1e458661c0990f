/* clock.h -- elapsed time. */
#ifndef QG_ENGINE_CORE_CLOCK_H
#define QG_ENGINE_CORE_CLOCK_H

/* Seconds since some fixed moment, monotonic: only differences are meaningful. */
double qg_clock_seconds(void);

#endif
