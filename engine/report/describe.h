/* describe.h -- texts for graph, schemes and statements in reports: explain, diff and
 * dump use the same wording.
 *
 * One wording per fact, so that a word from one report can be found in another.  All
 * texts are English, without a final period, fit for a cell of report.h. */
#ifndef QG_ENGINE_REPORT_DESCRIBE_H
#define QG_ENGINE_REPORT_DESCRIBE_H

#include "engine/snapshot/model.h"
#include "engine/report/report.h"

/* "constant", "input of the network", "output of the network", "inner value". */
const char *qg_value_kind(const qg_value *v);

/* "OVERLAPPED: its dominator quantizes instead"
 * Static text; every state of quant/tqc.h has one. */
const char *qg_state_meaning(qg_tqc_state s);

/* "8 bits [-128, 127] half-even per-channel linear symmetric, axis 0"
 * Returns `text`.  The axis is left out of per-tensor schemes. */
enum { QG_SCHEME_TEXT = 256 };
const char *qg_scheme_text(const qg_scheme *s, char text[QG_SCHEME_TEXT]);

/* Table "states": how many endpoints are in each state that any is in. */
QG_NODISCARD qg_status qg_report_states(qg_report *r, const qg_quant *q);

/* The rule, fusion or sharing rule of this id, and which of the three it is; NULL: the
 * backend has none.
 * *kind is "rule", "fusion" or "sharing"; untouched for NULL.  Linear in the
 * backend's statements. */
const qg_origin *qg_origin_named(const qg_backend *b, const char *id,
                                 const char **kind);

/* "every scale within 1 % after 64 of 512 samples": a fact; who: "every scale".  After
 * more than half of the samples it is no assurance: then "low: ...". */
QG_NODISCARD qg_status qg_report_settled(qg_report *r, const char *fact,
                                         const char *who, uint64_t after, uint64_t n);

#endif
