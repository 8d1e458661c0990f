/* observe.h -- an observer at work: on the data of one endpoint, or of one tensor.
 *
 *     qg_observe o;
 *     QG_TRY(qg_observe_begin(ctx, t, &type, samples, &o));
 *     ... o.observer->see(...) for every sample, by the driver (calibrate.h) ...
 *     QG_TRY(qg_observe_find(ctx, t, &o, state, scratch, &param));
 *
 * Owner    *out borrows from the TQC; parameters are in the given arena */
#ifndef QG_ENGINE_CALIB_OBSERVE_H
#define QG_ENGINE_CALIB_OBSERVE_H

#include "engine/calib/observer.h"
#include "engine/quant/quirk.h"

/* Fills the record that the functions of observer o need to observe x under one scheme.
 * QG_ECONFIG names `what` and the observer when it does not support the scheme. */
QG_NODISCARD qg_status qg_observe_start(qg_ctx *ctx, const char *what,
                                        const qg_tensor *x, qg_observe *o);

/* The same for an endpoint: its scheme and setting.  *out borrows from t; keep is left
 * NULL for the caller to set. */
QG_NODISCARD qg_status qg_observe_begin(qg_ctx *ctx, const qg_tqc *t,
                                        const qg_tensor *x, size_t samples,
                                        qg_observe *out);

/* Becomes minmax where the observer needs more elements than its statistics have, in
 * any channel; min-scale stays.  *elements: the fewest of a channel; false: nothing
 * changed. */
bool qg_observe_fall_back(qg_observe *o, uint64_t *elements);

/* Journals that fall-back at t: its observer is minmax now, by
 * "<author>/few-elements". */
QG_NODISCARD qg_status qg_observe_note_few(qg_quant *q, qg_tqc *t);

/* All passes over one tensor, then finish: for constants and single arrays.  `quirks`
 * is qg_range_quirks(...).  scale and offset are [o->channels], in `a`.  Sets o->keep
 * o->pass and o->floored; may set o->observer (qg_observe_fall_back). */
QG_NODISCARD qg_status qg_observe_tensor(qg_ctx *ctx, qg_observe *o, const qg_tensor *x,
                                         unsigned quirks, qg_arena *a, qg_qparam *out);

/* Under the quirk ppq-observers an observer that PPQ has, too, becomes PPQ's. */
QG_NODISCARD qg_status qg_observer_adopt(qg_quant *q, qg_tqc *t);

/* The behaviours that quirks replace in the two functions around this. */
extern const qg_quirk_row qg_observer_quirks[];

/* The qg_range_quirk bits of a mask of quirks: D01 and D02 come back on request. */
unsigned qg_range_quirks(uint64_t quirks);

/* The result of o for t, as scales and offsets of o's channels, in scratch.  Sets
 * o->floored; everything else is only read, and the message is recorded on ctx. */
QG_NODISCARD qg_status qg_observe_find(qg_ctx *ctx, const qg_tqc *t, qg_observe *o,
                                       const void *state, qg_arena *scratch,
                                       qg_qparam *out);

#endif
