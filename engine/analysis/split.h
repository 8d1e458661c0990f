/* split.h -- the samples of a question that changes a network: those that choose (rank,
 * calibrate, try), and those that judge, which have no part in the choice.
 *
 *     with a holdout   all of `work` choose, the holdout judges
 *     without          every second sample of `work` judges, from the second on
 *
 * Owner    points to itself: not to be moved while it is open */
#ifndef QG_ENGINE_ANALYSIS_SPLIT_H
#define QG_ENGINE_ANALYSIS_SPLIT_H

#include "engine/core/hash.h"
#include "engine/session/session.h"
#include "engine/session/source.h"

typedef struct qg_split {
    qg_api_feed feed, holdout;
    qg_half half[2];
    const qg_feed *choose, *judge; /* judge NULL: nothing is judged */
} qg_split;

typedef struct qg_split_request {
    const char *doing;       /* begins messages: "propose" */
    const qg_workload *work; /* borrowed as long as the split */
    const char *holdout;     /* DATA; NULL: half of work */
    bool judges;             /* false: all samples choose */
} qg_split_request;

/* Opens the samples; also after a failure qg_split_close.  QG_EDATA for a single sample
 * without a holdout. */
QG_NODISCARD qg_status qg_split_open(qg_model *m, const qg_split_request *r,
                                     qg_split *out);
void qg_split_close(qg_split *s);

/* Of one sample, n inputs: types, dims and bytes.  Equal samples have equal hashes. */
QG_NODISCARD qg_status qg_sample_hash(qg_ctx *ctx, const qg_tensor *const *x, size_t n,
                                      char text[QG_HASH_TEXT]);

/* The samples that choose, as a workload of their own; borrows from s.  Those of a half
 * of them; borrows from it. */
qg_workload qg_split_work(const qg_split *s, const qg_workload *work);
qg_workload qg_split_half(const qg_half *half, const qg_workload *work);

/* Of sample i of those that judge, its index in the samples of work or of the
 * holdout. */
size_t qg_split_judge_index(const qg_split *s, size_t i);

#endif
