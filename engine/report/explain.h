/* explain.h -- the tables of `qg explain`, for all endpoints of a model at once.
 *
 * endpoints     endpoint, value, state, means, dominator, grid, scale, offset,
 *               observer, rule, decided_by: every endpoint, also without a record
 * groups        dominator, member, state, joined_by
 * joint_scales  member, calibrated, joint, chosen, shared_by; only when there are any
 * changes       seq, endpoint, field, old, new, by: the journal
 * origins       id, kind, at, why, source: of every `by` and rule in the other tables
 * near_misses   node, pattern, condition: fusions that one condition prevented
 *
 * A row has the text that `qg explain` gives for the endpoint alone. */
#ifndef QG_ENGINE_REPORT_EXPLAIN_H
#define QG_ENGINE_REPORT_EXPLAIN_H

#include "engine/report/report.h"
#include "engine/snapshot/model.h"

/* Adds the tables to r, in order of nodes and slots; m is quantized (asserted). */
QG_NODISCARD qg_status qg_explain_all(qg_report *r, const qg_model *m);

#endif
