/* alternatives.h -- what a trace cannot decide: single changes of a backend with which
 * it explains the trace as well. */
#ifndef QG_ENGINE_DEVICE_ALTERNATIVES_H
#define QG_ENGINE_DEVICE_ALTERNATIVES_H

#include "engine/device/rivals.h"

/* Appends the endpoints that such a change decides otherwise.  best: of
 * qg_attempt_make; its first `changes` are those of the draft, the others rules of
 * scales.  A change is ruled out by what the trace shows at once, or by results: it
 * must not give more than twice as many elements that are not the device's.
 * Cost: a quick quantization per change, and a simulation for those that are not ruled
 * out before. */
QG_NODISCARD qg_status qg_alternatives_find(const qg_attempt *best, size_t changes,
                                            qg_arena *arena, qg_rivals *list);

/* Drops changes without which nothing more is contradicted and no result is lost: one
 * that was taken first can be needless after a later one.  t: of qg_attempt_make;
 * *changes: of its draft. */
QG_NODISCARD qg_status qg_alternatives_drop(qg_attempt *t, size_t *changes);

/* Takes the single changes over that make more results exactly the device's and
 * contradict nothing more, one after another, until none is left. *t is of
 * qg_attempt_make with *changes of its draft before rules of scales; both are those
 * of the last change. */
QG_NODISCARD qg_status qg_alternatives_take(qg_attempt *t, size_t *changes);

#endif
