/* labels.h -- the classes of samples, and those that a first output votes for.
 *
 * A network of a fixed batch classifies several rows at once: where the leading axis of
 * the first output and another one are above 1, each row of the leading axis has a
 * label.
 *
 *     float32[1,10]      one row of 10 classes
 *     float32[4,10]      four rows of 10 classes: 4 labels for each sample
 *     float32[10,1]      one row of 10 classes
 *
 *     QG_TRY(qg_labels_load(ctx, path, a, &(qg_labelled){ g, samples, cut }, &l));
 *     QG_TRY(qg_labels_vote(ctx, "evaluate", qg_run_output(r, 0), &l, sample, vote));
 *     qg_top1(vote, l.label, samples * l.each) */
#ifndef QG_ENGINE_SESSION_LABELS_H
#define QG_ENGINE_SESSION_LABELS_H

#include "engine/core/arena.h"
#include "engine/ir/graph.h"

/* Borrowed; those of sample k begin at label[k * each]. */
typedef struct qg_labels {
    const int64_t *label; /* NULL: none */
    size_t each;          /* of a sample: rows of the first output */
    const char *origin;   /* "labels.npy", for messages */
} qg_labels;

/* What labels are for: n samples of a graph; where options limit the samples (`cut`)
 * there may be more labels, of which the first are theirs. */
typedef struct qg_labelled {
    const qg_graph *graph;
    size_t n;
    bool cut;
} qg_labelled;

/* From an .npy of integers, [n * each] or [n, each], in a.  QG_EDATA: other dims. */
QG_NODISCARD qg_status qg_labels_load(qg_ctx *ctx, const char *path, qg_arena *a,
                                      const qg_labelled *of, qg_labels *out);
/* The same from an array of the caller, [given], which is borrowed. */
QG_NODISCARD qg_status qg_labels_take(qg_ctx *ctx, const int64_t *label, size_t given,
                                      const qg_labelled *of, qg_labels *out);

/* QG_EDATA, beginning with `doing`, where a row of a first output has more than one
 * axis above 1: an image, say. */
QG_NODISCARD qg_status qg_labels_check_scores(qg_ctx *ctx, const char *doing,
                                              const qg_tensor *y, const qg_labels *l);
/* QG_EDATA where a first output of known dims has no classes to choose from, or a label
 * of the sample is none of them. */
QG_NODISCARD qg_status qg_labels_check(qg_ctx *ctx, const char *doing,
                                       const qg_tensor *y, const qg_labels *l,
                                       size_t sample);

enum { QG_NO_CLASS = -1 }; /* of a row with a NaN: never the label */

/* The classes that a first output votes for, checked as above: the largest element of
 * each row, the lowest on a tie; with a NaN none.  vote: [samples * each], of which
 * those of the sample are set. */
QG_NODISCARD qg_status qg_labels_vote(qg_ctx *ctx, const char *doing,
                                      const qg_tensor *y, const qg_labels *l,
                                      size_t sample, int32_t *vote);

/* The first of n samples with a row without a class; n: none. */
size_t qg_labels_first_without(const qg_labels *l, const int32_t *vote, size_t n);

/* The share of votes that are the label, of n samples. */
double qg_labels_top1(const qg_labels *l, const int32_t *vote, size_t n);

#endif
