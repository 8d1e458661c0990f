/* split.h -- the samples of a question that changes a network: those that choose (rank,
 * calibrate, try), and those that judge, which have no part in the choice.
 *
 *     with a holdout   all of `work` choose, the holdout judges
 *     without          every second sample of `work` judges, from the second on
 *
 * A sample that is equal to an earlier one, of `work` or of the holdout, has been seen
 * and does not judge.  Without a holdout it does not choose either.  A warning counts
 * them.  A holdout without any other sample is none.
 *
 * Owner    points to itself: not to be moved while it is open */
#ifndef QG_ENGINE_ANALYSIS_SPLIT_H
#define QG_ENGINE_ANALYSIS_SPLIT_H

#include "engine/core/hash.h"
#include "engine/core/names.h"
#include "engine/session/session.h"
#include "engine/session/source.h"

typedef struct qg_split {
    qg_ctx *ctx;
    size_t n_input;
    qg_arena *arena;
    qg_api_feed feed, holdout;
    qg_subset own;                 /* samples of feed, each once */
    qg_subset part[2];             /* that choose, with halves; that judge */
    const qg_feed *choose, *judge; /* judge NULL: nothing is judged */
    bool halves;                   /* work judges, too */
} qg_split;

typedef struct qg_split_request {
    const char *doing;       /* begins messages: "propose" */
    const qg_workload *work; /* borrowed as long as the split */
    const char *holdout;     /* DATA; NULL: half of work */
    bool judges;             /* false: all samples choose */
    bool repeats;            /* the caller looks for equal samples, there are halves of
                              * none: choose and judge are what was given */
} qg_split_request;

/* Opens the samples; also after a failure qg_split_close.  QG_EDATA for a single sample
 * without a holdout.  A host's samples are not compared. */
QG_NODISCARD qg_status qg_split_open(qg_model *m, const qg_split_request *r,
                                     qg_split *out);
void qg_split_close(qg_split *s);

/* Adds a sample of n inputs, by types, dims and bytes.  *repeats: it is known. */
QG_NODISCARD qg_status qg_sample_add(qg_ctx *ctx, qg_names *known,
                                     const qg_tensor *const *x, size_t n,
                                     bool *repeats);

/* Warns of samples of `holdout`, named `data`, that are equal to one of `feed`. */
QG_NODISCARD qg_status qg_split_warn(qg_model *m, const char *doing,
                                     const qg_feed *feed, const qg_feed *holdout,
                                     const char *data);

/* The samples that choose, as a workload of their own; borrows from s.  Those of a
 * subset of them; borrows from it. */
qg_workload qg_split_work(const qg_split *s, const qg_workload *work);
qg_workload qg_split_subset(const qg_subset *subset, const qg_workload *work);

/* Of the samples of work, each once, those whose place has bit `bit` equal to `first`,
 * 0 or 1, and the others; their lists are in a.  *any: both have some. */
typedef struct qg_fold {
    unsigned bit;
    size_t first;
} qg_fold;
QG_NODISCARD qg_status qg_split_fold(const qg_split *s, qg_fold f, qg_arena *a,
                                     qg_subset out[2], bool *any);

/* Of sample i of those that judge, its index in the samples of work or of the
 * holdout. */
size_t qg_split_judge_index(const qg_split *s, size_t i);

#endif
