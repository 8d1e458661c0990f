/* declared.h -- grids that a trace gives otherwise than the program.
 *
 * Either the device has another grid, or the description is wrong: a zero point of 0
 * for all arrays, a scale of another tensor.  A wrong grid would be blamed on the nodes
 * that read the value.  So the steps that write and read such values are computed with
 * both, and what explains more elements is used.
 *
 *     QG_TRY(qg_device_pair(&d, trace));
 *     QG_TRY(qg_declared_settle(&d));
 *     ... steps are computed ...
 *     QG_TRY(qg_declared_report(&d, report)); */
#ifndef QG_ENGINE_DEVICE_DECLARED_H
#define QG_ENGINE_DEVICE_DECLARED_H

#include "engine/device/step.h"

/* Sets `refuted` of the pairs.  Costs two runs of each step that such a grid touches;
 * nothing where there is none. */
QG_NODISCARD qg_status qg_declared_settle(qg_device *d);

/* Whether the trace gives another grid for v than the program, more than a scale with
 * fewer digits.  Elements of a product or a mean can lie on another grid by nature:
 * one that is found in them and refuted is none. */
bool qg_declared_differs(const qg_device *d, const qg_value *v);

/* What is wrong with it, in a; v is such a value.  NULL: no memory. */
const char *qg_declared_verdict(const qg_device *d, const qg_value *v, qg_arena *a);

/* Table grids: value, scale, zero, snapshot_scale, snapshot_zero, verdict; none when no
 * grid is given otherwise. */
QG_NODISCARD qg_status qg_declared_report(const qg_device *d, qg_report *r);

#endif
