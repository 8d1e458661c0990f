/* arrays.h -- what became of the arrays of a trace: those that were paired otherwise
 * than by the name of a value, those that no value has, those that no step compares. */
#ifndef QG_ENGINE_DEVICE_ARRAYS_H
#define QG_ENGINE_DEVICE_ARRAYS_H

#include "engine/device/step.h"

/* Fact left_out: the dump has more samples than were compared. */
QG_NODISCARD qg_status qg_arrays_report_samples(const qg_trace *t, size_t compared,
                                                qg_report *r);

/* That fact, and the tables pairs, unpaired and not_compared, each only where it has a
 * row.  d: of qg_device_pair. */
QG_NODISCARD qg_status qg_arrays_report(const qg_device *d, qg_report *r);

#endif
