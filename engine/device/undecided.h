/* undecided.h -- what a trace does not tell about the records that an attempt made: the
 * list that comes with an inferred backend. */
#ifndef QG_ENGINE_DEVICE_UNDECIDED_H
#define QG_ENGINE_DEVICE_UNDECIDED_H

#include "engine/device/rivals.h"

/* Appends the table `undecided` (endpoint, what, why) to r:
 *
 *     grid        no value of the group is visible on a grid: the scale is the one that
 *                 the backend calibrates on the given samples
 *     zero point  the step is visible, the code of the real 0 is not
 *     fusion      the value is not in the trace, and its kernel's result is not that of
 *                 the simulation: it can be fused, or stored and not shown
 *     weights     a constant: it shows only in results, which are not those of the
 *                 simulation, or not in the trace
 *     backend     one that explains the trace as well, or as much of it, decides
 *                 otherwise
 *     rounding    too few different elements, integers of an unknown scale, a value on
 *                 which trace and backend disagree, or one that a node in float can
 *                 round as well as the node before it
 * and facts endpoints (with a record, or undecided without one) and undecided, their
 * numbers. */
QG_NODISCARD qg_status qg_report_undecided(const qg_attempt *t, const qg_rivals *rivals,
                                           qg_report *r);

#endif
