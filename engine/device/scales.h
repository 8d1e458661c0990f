/* scales.h -- scales that no array of a trace shows, found from the results that depend
 * on them.
 *
 * A value that a node rounds when it reads it, such as an input of the network, is in a
 * dump as floats, or not at all.  But the results of that node are there, and under the
 * device's scale they are the device's: the scale with the least errors is searched.
 * The same decides between scales of a float format that its elements leave open, where
 * an element of the samples is rounded otherwise by them.
 *
 * Example   y = Conv(x), x in 8 bits: with the scale 0.0294 that calibration gives on
 *           these samples, 812 of 4096 codes of y are others; none is with 0.027834
 * Limits    a scale is known as far as the results depend on it, to one part in 1e5 or
 *           so; all of an interval give the same dump.  A zero point shows only where
 *           the device clamps, a float format only by elements below its smallest
 *           normal number.  Groups with a visible grid are left alone
 * Cost      about 600 runs per batch of the nodes up to the last such result
 * Source    none: least squares over the dump itself
 *
 *     QG_TRY(qg_scales_find(&t, arena, &list));
 *     for (...) qg_attempt_give(&t, list.at[i].root, list.at[i].set, list.at[i].why) */
#ifndef QG_ENGINE_DEVICE_SCALES_H
#define QG_ENGINE_DEVICE_SCALES_H

#include "engine/device/attempt.h"

/* A found scale of a group of t: set and why are those of a rule, in the arena. */
typedef struct qg_found_scale {
    const qg_tqc *root;
    const char *set, *why;
} qg_found_scale;
typedef QG_VEC(qg_found_scale) qg_found_scales;

/* Groups whose results have clearly less error with another scale than their own.
 * t: of qg_attempt_make, not refused. */
QG_NODISCARD qg_status qg_scales_find(qg_attempt *t, qg_arena *a, qg_found_scales *out);

/* Whether a rule of t's draft gives the group of `root` a scale that was found so. */
bool qg_scales_is_found(const qg_attempt *t, const qg_tqc *root);

#endif
