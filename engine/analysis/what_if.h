/* what_if.h -- the errors of many variants of one network, each with some quantizers
 * enabled or disabled, over the same samples.
 *
 * A question is one variant.  One plan keeps all activations (the base); every question
 * is a partial plan that runs only the nodes downstream of its difference, with the
 * base's kernels and rounded constants.  The base runs once per sample and worker, then
 * every question.
 *
 * Learned  constants (QG_UNTUNED in ir/graph.h) are part of what their quantizer does:
 *          where all quantizers of a constant are disabled it is that of the float
 *          network.  A learned constant without a quantizer follows the base where the
 *          question disables others.
 * Error    metric of each output of the graph, between qg_measured_begin and _end,
 *          against the float network, per sample, averaged over samples in order of
 *          index: the same for any number of workers, and the same bits as running the
 *          whole network once per question.
 * Memory   one block of activations per worker that all questions share; questions are
 *          evaluated in rounds of at most QG_WHAT_IF_TENSORS tensors.
 *
 *     qg_study s = { .ctx = ctx, .graph = g, .quant = q, .feed = &f, .metric = m };
 *     QG_TRY(qg_study_ask(&s, question, n, error));     // error: [n][outputs] */
#ifndef QG_ENGINE_ANALYSIS_WHAT_IF_H
#define QG_ENGINE_ANALYSIS_WHAT_IF_H

#include "engine/api/qg.h"
#include "engine/exec/drive.h"
#include "engine/quant/metric.h"

enum { QG_WHAT_IF_TENSORS = 100000, QG_WHAT_IF_ROUND = 512 };

/* A variant: the TQCs of the study, except for these. */
typedef struct qg_what_if {
    const uint8_t *mute;          /* [TQCs] 1: disabled; NULL: none */
    const qg_tqc *const *instead; /* [TQCs] substitutes (exec/plan.h); NULL: none */
    bool untuned; /* with the constants of the float network, whatever is muted */
} qg_what_if;

/* All pointers are borrowed. */
typedef struct qg_study {
    qg_ctx *ctx;
    const qg_graph *graph;
    const qg_quant *quant;
    const qg_feed *feed;
    const qg_metric *metric;
    bool rounding_base; /* all quantizers are enabled in the base: for questions that
                        * disable some */
    bool whole;         /* no partial plans: a whole run per question, for comparison */
    const qg_workload *work;       /* jobs, kernels and progress; its data is feed */
    const char *stage;             /* stage name passed to progress */
    double *doubt;                 /* out: [n * outputs] standard errors of the means;
                                    * NULL: not wanted */
    size_t nodes_run, nodes_whole; /* out: nodes of all partial plans; of whole runs */
    size_t strange; /* out: the first sample with an error that is not finite, of any
                     * question; feed->n: none */
} qg_study;

/* error[i * outputs + k]: mean error of output k under question i.  On failure error is
 * undefined. */
QG_NODISCARD qg_status qg_study_ask(qg_study *s, const qg_what_if *question, size_t n,
                                    double *error);

/* The output with the worst error of a question's row, NaN before all others; error:
 * [outputs]. */
uint32_t qg_study_worst(const qg_study *s, const double *error);

#endif
