/* measured.h -- the values at which two runs of a network are compared: its outputs,
 * when one of them is float32 and has a shape that is known before a run.
 *
 * The outputs of a detector with NonMaxSuppression, TopK or NonZero have none: what
 * they hold, and how much, depends on scores that rounding changes.  Errors are then
 * measured in front of the choice, at the last floats of a known shape that reach these
 * outputs: the scores and the boxes.  Operators in between that only move elements are
 * passed over.
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

typedef struct qg_measured {
    qg_graph *graph;
    qg_value **at; /* [n] the graph's outputs, or others instead */
    size_t n;
    bool instead;
    qg_value **output; /* the graph's own, while others stand in for them; else NULL */
    size_t n_output;
} qg_measured;

/* Zeroed by the caller before.  For the shapes of this feed; in arena a, which with the
 * graph outlives *out.  Warns of other values than the outputs when `doing` is given
 * ("analyse"), which also begins messages.  QG_EDATA when nothing can be measured. */
QG_NODISCARD qg_status qg_measured_find(qg_graph *g, const qg_feed *feed,
                                        const char *doing, qg_arena *a,
                                        qg_measured *out);
/* The values of these names in another graph of the same network.  QG_EDATA when a pass
 * has removed one. */
QG_NODISCARD qg_status qg_measured_in(const qg_measured *of, qg_graph *g,
                                      const char *doing, qg_arena *a, qg_measured *out);
void qg_measured_begin(qg_measured *m);
void qg_measured_end(qg_measured *m);

/* (*out)[outputs]: 1 where two runs of the plan can be compared: float32, and of a
 * shape that is known before a run.  In a.  QG_EDATA, beginning with `doing`, when
 * there is no such output. */
QG_NODISCARD qg_status qg_plan_measures(qg_ctx *ctx, const qg_plan *p, qg_arena *a,
                                        const char *doing, uint8_t **out);

#endif
