/* grid.h -- the grid that a trace shows of a value, beside that of a record.
 *
 * Integers  one step and a zero point; the step of the record is the observed one, or
 *           a part of it where few codes were seen
 * Floats    elements of a float format are multiples of its smallest subnormal number
 *           times the scale.  The observed step is that product times a power of two,
 *           so it bounds the scale from above; the largest element bounds it from
 *           below. The bounds meet where enough elements are small: with half the
 *           scale, some of those below 2^mantissa steps would lie between two steps
 * Example   E4M3 with scale 0.25: subnormal numbers are multiples of 0.25 * 2^-9.  Of
 *           elements +-1 .. +-7 times that, twelve are observed in different channels
 *           or of different size, and no odd multiple of its half: the scale is 0.25.
 *           Of elements 100 and 104, with step 4, the scale is at most 2048 and at
 *           least 104 / 448 */
#ifndef QG_ENGINE_DEVICE_GRID_H
#define QG_ENGINE_DEVICE_GRID_H

#include "engine/device/seen.h"
#include "engine/quant/record.h"

/* Whether two observed steps are one: steps of float32 elements are known to about
 * 1e-6. */
bool qg_grid_same_step(double x, double y);

/* The same of two observed values.  Scales that the trace gives are compared as they
 * are: the largest values of two tensors can be nearly alike, as those of two sigmoids
 * that saturate are. */
bool qg_grid_same_seen(const qg_seen *x, const qg_seen *y);

/* Whether two values that share this step can do so by chance: it is a power of two, as
 * are all scales of some backends. */
bool qg_grid_is_common_step(double step);

/* Whether the scale of a record is the observed one, and its zero point where it is
 * known; of a float format, whether the scale is within the bounds. */
bool qg_grid_matches(const qg_tqc *t, const qg_seen *o);

/* Whether a record of this scheme can have the codes that the trace shows: enough of
 * them, signed or not, no zero point in a symmetric scheme, powers of two where it has
 * these alone; elements of no more significant bits than a float format has. */
bool qg_grid_fits(const qg_tqc *root, const qg_seen *o);

/* Whether a calibrated record of this scheme usually has such codes, too: many of those
 * it can have, a zero point outside of the middle where it need not be there, steps
 * that are no power of two where they need not be. */
bool qg_grid_is_usual(const qg_tqc *root, const qg_seen *o);

/* Whether the bounds of a float format's scale meet.  s: FLOATING; o: with a step. */
bool qg_grid_decides_float(const qg_scheme *s, const qg_seen *o);

/* Whether a rule can give the group of a dominator the observed grid: not one whose
 * zero point is no code, or whose scale is out of range.  root: with one scale. */
bool qg_grid_can_hold(const qg_tqc *root, const qg_seen *o);

/* "{observer: fixed, step: S, zero: Z}" with what else a rule needs to give the group
 * of a dominator the observed grid, which it can hold; in a.  NULL: no memory. */
const char *qg_grid_setting(qg_arena *a, const qg_tqc *root, const qg_seen *o);

#endif
