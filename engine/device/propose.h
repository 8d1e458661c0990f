/* propose.h -- changes of a backend that would explain what a trace shows and an
 * attempt does not: each comes from a value or a pair of values on which they disagree.
 *
 *     trace        backend      change
 *     codes        silent       the fusion that silenced it goes
 *     not codes    codes        a fusion of the nodes up to the next codes; or the
 *                               operator is float
 *     codes        float        the operator is quantized
 *     one grid     two grids    the operator shares, or is passive
 *     two grids    one grid     its sharing goes, or it is not passive
 *     other codes               the default scheme
 *     hidden       codes        a fusion, where the next result is not the device's
 *     a product    another one  how constants are rounded
 *
 * A change is about an operator, never about one node: a backend file has no network.
 * Whether it explains more is for an attempt to find out. */
#ifndef QG_ENGINE_DEVICE_PROPOSE_H
#define QG_ENGINE_DEVICE_PROPOSE_H

#include "engine/device/attempt.h"

typedef QG_VEC(qg_draft_change) qg_proposals;

/* Each change once, without those that the draft has; texts are in t->how->arena.
 * *unfixed (may be NULL): contradictions for which there is none. */
QG_NODISCARD qg_status qg_propose(const qg_attempt *t, qg_proposals *out,
                                  size_t *unfixed);

/* The operators of nodes that are left in float, read quantized values, and have
 * results on a grid of the trace: each quantized. */
QG_NODISCARD qg_status qg_propose_border(const qg_attempt *t, qg_proposals *out);

/* Single changes of which most do not fit the trace; those that do are what it cannot
 * decide: every fusion, sharing and operator of the backend that the network has goes
 * or comes, values that no array shows are fused, constants are rounded otherwise. */
QG_NODISCARD qg_status qg_propose_alternatives(const qg_attempt *t, qg_proposals *out);

/* Products whose results lie on a grid and are not the device's: each operator in
 * float, followed by those in float that read such a result, quantized: they can round
 * it. */
QG_NODISCARD qg_status qg_propose_floats(const qg_attempt *t, qg_proposals *out);

/* Where a product of visible codes is not the device's: the codes that fit more values
 * than the defaults, then weights of all products with 4, 6 and 7 bits. */
QG_NODISCARD qg_status qg_propose_narrow(const qg_attempt *t, qg_proposals *out);

#endif
