/* again.h -- a network quantized once more, with a further policy patch, and its error:
 * for searches that try policies.
 *
 * A policy is not evaluated by muting: fusions, sharing and calibration may change with
 * it, so the network is quantized from the samples that choose.
 * The patch is a text (engine/config/text.h): trials leave no files.  It is the text
 * that is written in the end, so that what was measured is what `qg quantize --policy`
 * makes.
 *
 * The options --set of the snapshot come before the patch: they are in its list
 * `after-set` (engine/config/backend_yaml.h), else they would undo its choices.  Its
 * rules have ids that no patch before it has, else they would replace that one's. */
#ifndef QG_ENGINE_ANALYSIS_AGAIN_H
#define QG_ENGINE_ANALYSIS_AGAIN_H

#include "engine/analysis/split.h"
#include "engine/analysis/what_if.h"

/* How a model is quantized; everything is borrowed. */
typedef struct qg_again {
    qg_model *m; /* whose graph is quantized: shared, never changed */
    const qg_workload *work;
    const qg_split *split;
    const char *backend, *observer, *dispatcher, *quirks;
    QG_VEC(const char *)
    policy;                   /* the patch of a trial comes last and therefore wins */
    QG_VEC(const char *) set; /* before it, by its list `after-set` */
    bool from_all; /* calibrates from all samples of work, those that judge included */
    const qg_subset *from; /* calibrates from these; NULL: from those that choose */
    bool one_sample;       /* calibrates from one: whether it can be quantized at all */
    size_t tried;          /* out: trials made */
} qg_again;

/* The options of the snapshot m; backend NULL: the snapshot's, by name, else a file of
 * it: QG_ECONFIG when it is another one.  In a. */
QG_NODISCARD qg_status qg_again_read(qg_again *g, qg_arena *a, const char *backend);

/* Policies of an unquantized model, in place of qg_again_read; `policy` is borrowed. */
QG_NODISCARD qg_status qg_again_policies(qg_again *g, qg_arena *a,
                                         const char *const *policy, size_t n);

/* The beginning of a patch, to `rules:`; id and match of one of its rules, which is for
 * the values of the graph that `takes` names by index.  Rules for other values have
 * other ids. */
typedef bool qg_again_takes(const void *ud, size_t value);
void qg_again_print_head(const qg_again *g, const char *comment, FILE *f);
void qg_again_print_match(const qg_again *g, const char *id, qg_again_takes *takes,
                          const void *ud, FILE *f);
/* A fact about the options of --set that the patch has; none without such. */
QG_NODISCARD qg_status qg_again_report_set(const qg_again *g, qg_report *r);

/* A model quantized so, with the patch (NULL: none).  qg_again_drop in any case. */
QG_NODISCARD qg_status qg_again_quantize(qg_again *g, const char *patch,
                                         qg_model *trial);
void qg_again_drop(qg_model *trial);

/* QG_EDATA when a sample of the holdout has an infinity that the trial rounds, which
 * calibration refuses in other samples. */
QG_NODISCARD qg_status qg_again_check_holdout(const qg_again *g, const qg_model *trial);

/* The error of the worst output of a trial on the feed, against the float network, and
 * its standard error (NULL: not wanted). */
typedef struct qg_again_question {
    const qg_model *trial;
    const qg_feed *feed;
    const qg_metric *metric;
} qg_again_question;
QG_NODISCARD qg_status qg_again_error(const qg_again *g, const qg_again_question *q,
                                      double *error, double *doubt);

#endif
