/* change.h -- the graphs of hypotheses: a step with one change. */
#ifndef QG_ENGINE_DEVICE_CHANGE_H
#define QG_ENGINE_DEVICE_CHANGE_H

#include "engine/device/exact.h"

/* One hypothesis that is computed.  It owns cut.graph; texts are static or in the
 * arena of the device that is judged, d can be another program (cause profile). */
typedef struct qg_change {
    const char *cause, *verdict, *detail; /* as qg_suspect */
    unsigned rank;
    bool fitted;        /* as qg_suspect */
    const qg_device *d; /* of the program that has the step */
    const qg_device_step *step;
    qg_cut cut;
    bool dropped; /* it cannot be computed, or was left behind */
    qg_tally tally;
} qg_change;

/* Zeroed before qg_change_all; qg_change_free also after a failure of it. */
typedef struct qg_change_list {
    QG_VEC(qg_change) change;
} qg_change_list;

/* Every hypothesis about the step that has a graph; none for a step that stores
 * floats.  Graphs are made here by one thread, so that workers only run them. */
QG_NODISCARD qg_status qg_change_all(const qg_device *d, const qg_device_step *s,
                                     const qg_exact *exact, const qg_others *others,
                                     qg_change_list *out);
void qg_change_free(qg_change_list *l);

#endif
