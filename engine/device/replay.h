/* replay.h -- the nodes of an attempt, each simulated on the device's own inputs.
 *
 *     qg_replay r = { .t = t };
 *     QG_TRY(qg_replay_open(&r));
 *     QG_TRY(qg_replay_run(&r));            any number of times
 *     ... r.of[id], r.equal[id], r.error[id] of the last run ...
 *     qg_replay_close(&r);                  also after a failure
 *
 * Arrays have the index of a value of the float network.  The records can be replaced
 * by trial parameters, per endpoint, without compiling again. */
#ifndef QG_ENGINE_DEVICE_REPLAY_H
#define QG_ENGINE_DEVICE_REPLAY_H

#include "engine/device/attempt.h"

/* The grid with which an endpoint rounds instead of its own; scheme NULL: its own. */
typedef struct qg_replay_trial {
    const qg_scheme *scheme;
    qg_qparam param;
} qg_replay_trial;

typedef struct qg_replay {
    qg_attempt *t; /* quantized */
    /* [TQCs of the attempt's model] NULL: none.  Which endpoints have one is read by
     * qg_replay_open, schemes and parameters by qg_replay_run. */
    const qg_replay_trial *trial;
    bool whole; /* all samples, not the first few */
    bool real;  /* the float network, its results rounded to the trace's grids */
    const uint8_t *wanted; /* [values] a sample ends when these were seen; NULL: at its
                            * end */

    uint64_t *equal, *of; /* elements that are the device's; that were compared */
    double *error; /* squared, in steps of the value's grid; of floats, relative to
                           * the greatest element */

    qg_plan *plan; /* made */
    qg_run *run;
    qg_arena *arena; /* of a call */
    size_t awaited, met;
} qg_replay;

QG_NODISCARD qg_status qg_replay_open(qg_replay *r);
QG_NODISCARD qg_status qg_replay_run(qg_replay *r);
void qg_replay_close(qg_replay *r);

#endif
