/* measured.h -- the values at which two runs of a network are compared.
 *
 * An output is measured when it is float32 and its shape follows from the shapes of
 * the inputs, which may differ from sample to sample.  Other outputs, such as those of
 * a detector with NonMaxSuppression, hold what scores choose, which rounding changes.
 * Their errors are measured in front of the choice, at the last floats that reach them
 * and have such a shape: the scores and the boxes.  Operators in between that only move
 * elements are passed over.
 *
 *     QG_TRY(qg_measured_find(g, feed, "analyse", arena, &at));
 *     qg_measured_begin(&at);   the graph's outputs are now these values
 *     ...                       plans, runs, names
 *     qg_measured_end(&at);     in any case, and harmless without a begin
 *
 * Between begin and end the graph is not quantized, edited or exported. */
#ifndef QG_ENGINE_SESSION_MEASURED_H
#define QG_ENGINE_SESSION_MEASURED_H

#include "engine/exec/drive.h"
#include "engine/report/report.h"

typedef struct qg_measured {
    qg_graph *graph;
    qg_value **at; /* [n] outputs in their order, then values in front of a choice */
    size_t n;
    bool instead; /* they are not the graph's outputs */
    /* Names, "a, b", or NULL: of the outputs that are measured in front of a choice, of
     * the values there, and of the outputs that are not measured at all. */
    const char *chosen_by_data, *in_front, *not_measured;
    qg_value **output; /* the graph's own, while others stand in for them; else NULL */
    size_t n_output;
} qg_measured;

/* Zeroed by the caller before.  For the samples of this feed (NULL: the model's own
 * shapes), whose first is read where shapes differ; in arena a, which with the graph
 * outlives *out.  When `doing` is given ("analyse"), which also begins messages, warns
 * of outputs that are not measured themselves.  QG_EDATA when nothing can be
 * measured. */
QG_NODISCARD qg_status qg_measured_find(qg_graph *g, const qg_feed *feed,
                                        const char *doing, qg_arena *a,
                                        qg_measured *out);
/* The values of these names in another graph of the same network.  QG_EDATA when a pass
 * has removed one. */
QG_NODISCARD qg_status qg_measured_in(const qg_measured *of, qg_graph *g,
                                      const char *doing, qg_arena *a, qg_measured *out);
/* QG_EDATA unless the first output, whose classes labels name, is measured; before
 * begin. */
QG_NODISCARD qg_status qg_measured_labels(const qg_measured *m, const char *doing);
void qg_measured_begin(qg_measured *m);
void qg_measured_end(qg_measured *m);

/* type[values] as inferred with the shapes of the feed's samples, or of the first one
 * where they differ: an extent is known when it follows from those of the inputs.
 * known: as of qg_infer_values.  Both in a. */
QG_NODISCARD qg_status qg_measured_types(const qg_graph *g, const qg_feed *feed,
                                         qg_arena *a, qg_tensor **type,
                                         const qg_tensor ***known);

/* Facts about the outputs that are not measured themselves; none without such. */
QG_NODISCARD qg_status qg_measured_report(const qg_measured *m, qg_report *r);

#endif
