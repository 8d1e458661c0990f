/* observer_parts.h -- shared by the files of observer families: walking a tensor
 * channel by channel, its smallest and largest value, and bins over the range of an
 * earlier pass.  Private to engine/calib.
 *
 * Any strides; runs go along the innermost axis, or over all of memory when channels do
 * not matter and there are no gaps. */
#ifndef QG_ENGINE_CALIB_OBSERVER_PARTS_H
#define QG_ENGINE_CALIB_OBSERVER_PARTS_H

#include "engine/calib/histogram.h"
#include "engine/calib/observer.h"

/* A run of n floats of one channel, `stride` apart. */
typedef void qg_run_visitor(void *ud, size_t channel, const float *x, int64_t n,
                            int64_t stride);

/* Visits every element of x once; channels count along the scheme's axis when
 * o->channels is above 1. */
void qg_observe_walk(const qg_observe *o, const qg_tensor *x, qg_run_visitor *visit,
                     void *ud);

/* Of one channel; an empty one is +infinity to -infinity. */
typedef struct qg_extent {
    float low, high;
    bool broken; /* a NaN or an infinity was there */
} qg_extent;

/* Smallest and largest of a run; vectorizes, and does not depend on order. */
qg_extent qg_extent_of(const float *x, int64_t n, int64_t stride);

/* QG_ENUMERIC naming the sample when one of the n extents is broken. */
QG_NODISCARD qg_status qg_extent_check(qg_ctx *ctx, const qg_extent *e, size_t n,
                                       size_t sample);

/* *e holds all of x too, whatever the channels; QG_ENUMERIC as qg_extent_check. */
QG_NODISCARD qg_status qg_extent_widen(qg_ctx *ctx, const qg_observe *o, size_t sample,
                                       const qg_tensor *x, qg_extent *e);

static inline bool qg_observe_symmetric(const qg_observe *o)
{
    return (o->scheme->policy & QG_SYMMETRIC) != 0;
}

/* The functions of minmax; a state is qg_extent [channels].  Families build on it: rows
 * begin with QG_MINMAX_STATE and differ in their use of the extremes. */
#define QG_MINMAX_STATE                                                                \
    .passes = 1, .bytes = qg_minmax_bytes, .begin = qg_minmax_begin,                   \
    .see = qg_minmax_see, .merge = qg_minmax_merge
size_t qg_minmax_bytes(const qg_observe *o);
void qg_minmax_begin(const qg_observe *o, void *state);
qg_status qg_minmax_see(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                        const qg_tensor *x, qg_arena *scratch);
void qg_minmax_merge(const qg_observe *o, void *into, const void *from);
qg_status qg_minmax_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                           qg_arena *scratch, qg_found *out);

/* -- two passes: the range, then bins over it -------------------------------------
 *
 * A family supplies a counter and a finish:
 *
 *     static qg_status see(...)
 *     {
 *         return qg_binned_see(ctx, o, state, sample, x, count_by_my_rule);
 *     }
 *
 * and the rest of its row is qg_binned_bytes, _begin and _merge. */

/* The state of observers that count in a second pass: the range first (all), then
 * counts over it.  One channel. */
typedef struct qg_binned {
    qg_extent all;      /* of x; valid after pass 0 */
    float least;        /* smallest |x| */
    const double *edge; /* [bins + 1] of `next`, in o->keep; NULL: none needed */
    int64_t count[];    /* [value of BINS] of pass 1 */
} qg_binned;

/* Adds a run to b->count by a tool's own rule; elements outside b->all are dropped. */
typedef void qg_bin_counter(const qg_observe *o, qg_binned *b, const float *x,
                            int64_t n, int64_t stride);

size_t qg_binned_bins(const qg_observe *o); /* the parameter BINS */
/* Exact in both passes: extremes, and sums of integers. */
size_t qg_binned_bytes(const qg_observe *o);
void qg_binned_begin(const qg_observe *o, void *state);
/* Pass 0 finds the range, pass 1 counts. */
QG_NODISCARD qg_status qg_binned_see(qg_ctx *ctx, const qg_observe *o, qg_binned *b,
                                     size_t sample, const qg_tensor *x,
                                     qg_bin_counter *counter);
void qg_binned_merge(const qg_observe *o, void *into, const void *from);
/* max(|low|, |high|) over pass 0. */
double qg_binned_absmax(const qg_binned *b);

/* torch.histc on the CPU, one run at a time, in float32: v goes to bin
 *
 *     (int)((v - low) * bins / (high - low))
 *
 * and high to the last one; `absolute`: of |x|. */
typedef struct qg_torch_bins {
    float low, high;
    bool absolute;
} qg_torch_bins;
void qg_torch_count(qg_torch_bins t, const float *x, int64_t n, int64_t stride,
                    size_t bins, int64_t *count);

/* A copy of the counts with edges low + k * (high - low) / bins of r; high > low. */
QG_NODISCARD qg_status qg_binned_histogram(qg_ctx *ctx, const qg_observe *o,
                                           const qg_binned *b, qg_range r, qg_arena *a,
                                           qg_histogram *h);

/* All elements of x in some order: x's own memory when it is plain, else a copy in
 * scratch.  For observers of one channel that count and do not care about order. */
QG_NODISCARD qg_status qg_observe_flat(qg_ctx *ctx, const qg_observe *o,
                                       const qg_tensor *x, qg_arena *scratch,
                                       const float **out);

/* The result for channel c is the scale itself: at least the min-scale and finite;
 * offset 0. */
void qg_found_scale(const qg_observe *o, qg_found *out, size_t c, double scale);

#endif
