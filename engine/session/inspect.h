/* inspect.h -- examines the inputs of a model while they are fetched for a run.
 *
 *     qg_looks l;
 *     QG_TRY(qg_looks_begin(m, arena, &feed.feed, &l));   // l.feed replaces feed.feed
 *     ... run over l.feed ...
 *     QG_TRY(qg_looks_judge(&l, &findings));
 *
 * Costs about a tenth of a small network's forward pass; a sample that is fetched again
 * is not examined again. */
#ifndef QG_ENGINE_SESSION_INSPECT_H
#define QG_ENGINE_SESSION_INSPECT_H

#include "engine/report/report.h"
#include "engine/session/session.h"
#include "engine/calib/doctor.h"

/* Examines every input of every sample once, on the thread that fetches it; each look
 * has its own memory, so workers need no lock.
 * Do not move it while its feed is in use. */
typedef struct qg_looks {
    qg_feed feed;  /* the same samples, examined on the way; ud is this struct */
    qg_feed inner; /* a copy of the feed that was given */
    size_t inputs;
    qg_input_kind *kind; /* [inputs] */
    qg_look *look;       /* [inputs][feed.n]; n is 0 for inputs other than float32 */
} qg_looks;

/* inner is copied and must stay usable as long; arrays lie in `a`, one look (80 bytes)
 * per sample and input: the only memory that grows with the samples, because duplicates
 * require a comparison with all earlier samples. */
QG_NODISCARD qg_status qg_looks_begin(qg_model *m, qg_arena *a, const qg_feed *inner,
                                      qg_looks *out);

/* Findings about inputs, of the samples that were fetched: a calibration may have been
 * stopped early.  Order: input by input; then by kind, then by sample. */
QG_NODISCARD qg_status qg_looks_judge(const qg_looks *l, qg_findings *f);

/* Table `warnings`: kind, sample, where, what, of at most `most` findings (0: all);
 * nothing when there are none. */
QG_NODISCARD qg_status qg_findings_report(qg_report *r, const qg_findings *f,
                                          size_t most);

#endif
