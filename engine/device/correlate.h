/* correlate.h -- pairing arrays of a trace with values by correlation, where names are
 * of no help.
 *
 *     r = sum (x - mean x)(y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2)
 *
 * x is the array, y the value in float, both of the first sample.  r does not depend on
 * the scale and the zero point, so codes of an unknown grid can be paired; two values
 * that differ by a factor cannot be told apart by it.  qg_correlation_distance can,
 * where the trace has floats or codes with a grid.
 *
 * Cost     open: one run of the network, which holds all candidates.  match: one pass
 *          over the array for each free candidate of its dims
 *
 *     qg_correlation c = { .graph = g, .feed = &feed, .value = v, .keep = id, .n = n,
 *                          .pair = pair };
 *     QG_TRY(qg_correlation_open(ctx, arena, &c));          // runs the first sample
 *     QG_TRY(qg_correlation_match(ctx, trace, array, &c, &best, &found));
 *     qg_correlation_close(&c); */
#ifndef QG_ENGINE_DEVICE_CORRELATE_H
#define QG_ENGINE_DEVICE_CORRELATE_H

#include "engine/device/pair.h"
#include "engine/exec/ahead.h"
#include "engine/exec/run.h"

/* Sums over pairs of numbers, for Pearson's correlation. */
typedef struct qg_moments {
    double n, x, y, xx, yy, xy;
} qg_moments;
static inline void qg_moments_add(qg_moments *m, double x, double y)
{
    m->n++, m->x += x, m->y += y;
    m->xx += x * x, m->yy += y * y, m->xy += x * y;
}
/* r; 0 when x or y is constant: no evidence. */
double qg_moments_correlation(const qg_moments *m);

/* From which an array without a known name is taken for a value. */
#define QG_CORRELATION_SURE 0.9

/* value, keep and pair are the caller's; qg_correlation_open sets plan and run. */
typedef struct qg_correlation {
    const qg_graph *graph;  /* that is run in float; its constants as they are */
    const qg_feed *feed;    /* of which the first sample is run */
    const qg_value **value; /* [n] candidates, of the model */
    uint32_t *keep;         /* [n] their ids in `graph` */
    size_t n;
    const qg_pair *pair; /* [values of the model] candidates with an array are taken */
    qg_plan *plan;
    qg_run *run;
} qg_correlation;

/* After a failure qg_correlation_close frees what there is. */
QG_NODISCARD qg_status qg_correlation_open(qg_ctx *ctx, qg_arena *a, qg_correlation *c);
void qg_correlation_close(qg_correlation *c); /* also of one that was not opened */

/* Pearson's correlation of the array with candidate i on the first sample, in
 * p->confidence, and its view; 0: the dims do not fit, or one of both is constant.
 * Where dims fit in two orders (C = H = W), the order is the model's, unless only
 * channels-last correlates. */
QG_NODISCARD qg_status qg_correlation_of(qg_ctx *ctx, const qg_trace_data *data,
                                         const qg_correlation *c, size_t i, qg_pair *p);

/* The same choice for an array that is paired already, in p->order, view and moved. */
QG_NODISCARD qg_status qg_correlation_order(qg_ctx *ctx, const qg_trace *t,
                                            const qg_correlation *c, size_t i,
                                            qg_pair *p);

/* Squared distance of the array's real values from those of candidate i, of which 1 is
 * the sum of its own squares; INFINITY: the dims do not fit.  Codes of an unknown grid:
 * by correlation, 1 - r^2. */
QG_NODISCARD qg_status qg_correlation_distance(qg_ctx *ctx, const qg_trace_data *data,
                                               const qg_correlation *c, size_t i,
                                               double *out);

/* The candidate that correlates best with the array, the first in order among equals,
 * from a correlation of 0.9 on; *out NULL: none does.  *best is its pair without a
 * grid.  An early false match can take a value from a later array, so matches are
 * reported to the user. */
QG_NODISCARD qg_status qg_correlation_match(qg_ctx *ctx, const qg_trace *t,
                                            const qg_trace_array *array,
                                            const qg_correlation *c, qg_pair *best,
                                            const qg_value **out);

#endif
