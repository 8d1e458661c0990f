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

/* How certain scales are, from the standard errors of calib/derive.h.  Filled by
 * qg_certainty_add; begins as zeros. */
typedef struct qg_certainty {
    size_t scales, uncertain; /* uncertain: with an error above QG_UNCERTAIN */
    double worst;             /* the largest error, */
    const char *name;         /* and whose it is */
} qg_certainty;

/* Of a scale: an error that costs less than 1 dB.  See docs/calibration.md. */
#define QG_UNCERTAIN 0.1

/* name is borrowed. */
void qg_certainty_add(qg_certainty *c, double error, const char *name);

/* The fact confidence of the scales that a calibration found, and quiet ones:
 * uncertain, how many are, and settled_after, the samples after which all stayed within
 * 1 %.  Nothing where observers read the samples themselves, which keep no data. */
QG_NODISCARD qg_status qg_report_confidence(qg_report *r, const qg_snapshot_info *info);

/* "standard error of 11 scales at most 3.6 % (conv.out0)", or "low: ...": a fact;
 * nothing where no scale is known.  samples: that were seen. */
QG_NODISCARD qg_status qg_report_certainty(qg_report *r, const char *fact,
                                           const qg_certainty *c, uint64_t samples);

#endif
