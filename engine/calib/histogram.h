/* histogram.h -- counts between edges, and how other tools collect them batch by batch.
 *
 * Bin j holds edge[j] <= x < edge[j + 1]; the last bin holds its right edge too.
 * Elements outside are dropped.
 *
 * Units    edge: the tensor's own; count: elements
 * Shapes   count [bins], edge [bins + 1]
 * Owner    the caller, or the arena given to the function that made it
 * Source   docs/evidence/observers.md#bins, #growing-histograms there; numpy 2.4.6,
 *          1.24 and onnxruntime 1.31.1 by behaviour */
#ifndef QG_ENGINE_CALIB_HISTOGRAM_H
#define QG_ENGINE_CALIB_HISTOGRAM_H

#include <stdbool.h>

#include "engine/core/ctx.h"

typedef struct qg_histogram {
    size_t bins;
    int64_t *count;
    double *edge;
} qg_histogram;

/* The threshold a calibrator chose. */
typedef struct qg_range_choice {
    size_t index;     /* of the candidate; its meaning depends on the calibrator */
    double low, high; /* the range to cover; one-sided calibrators: -high and high */
    double loss;      /* divergence or error of it, in the calibrator's own measure */
} qg_range_choice;

/* The results of a threshold search, one per candidate, in the order of candidates.
 * Arrays are [n], in the arena of the search; n is 0 where nothing was compared. */
typedef struct qg_curve {
    size_t n;
    size_t *kept;       /* bins below the threshold */
    double *threshold;  /* in the tensor's unit */
    double *divergence; /* in the calibrator's own measure; may be infinite */
    qg_range_choice best;
} qg_curve;

/* QG_EDATA unless there is a bin, counts are >= 0, the total lies in 1..2^53 and edges
 * are finite and increase; `what` begins the message. */
QG_NODISCARD qg_status qg_histogram_check(qg_ctx *ctx, const char *what,
                                          const qg_histogram *h);

int64_t qg_histogram_total(const qg_histogram *h);

/* bins + 1 edges k * (high / bins) over zeroed counts; QG_ENOMEM. */
QG_NODISCARD qg_status qg_histogram_new(qg_ctx *ctx, qg_arena *a, size_t bins,
                                        double high, qg_histogram *h);

/* The first index at which the running sum of count / total (in double, in order)
 * reaches `fraction`; bins when rounding keeps it below.  edge[] of it is the
 * percentile of pytorch-quantization and ONNX Runtime: the left edge of the bin.  For
 * a fraction of 1 it is the last bin or the last edge, by luck: take the maximum. */
size_t qg_histogram_quantile(const qg_histogram *h, double fraction);

/* -- collecting as numpy does ----------------------------------------------------- */

/* Arithmetic of the edges.  They are numbers of this type in any case. */
typedef enum qg_edge_type {
    QG_EDGE_F32,     /* float32 data, numpy 2 */
    QG_EDGE_F64,     /* float64 data */
    QG_EDGE_ROUNDED, /* float32 data, numpy 1: in double, then rounded */
    QG_EDGE_GROWN,   /* float32 data; appended edges stay double, as arange makes them:
                      * QG_EDGE_F32 until then, QG_EDGE_F64 afterwards */
} qg_edge_type;

/* numpy.histogram(x, bins, range=(low, high)) in two steps: the edges (equal ends are
 * moved apart by a half each) over zeroed counts, and counting into them.  h->bins is
 * given; QG_ECONFIG unless it is 1..2^24. */
QG_NODISCARD qg_status qg_histogram_uniform(qg_ctx *ctx, qg_arena *a, qg_edge_type type,
                                            double low, double high, qg_histogram *h);

/* n elements `stride` apart; elements outside, and NaN, are dropped. */
typedef struct qg_histogram_run {
    const float *x;
    int64_t n, stride;
    bool absolute; /* count |x| */
} qg_histogram_run;
void qg_histogram_count(qg_edge_type type, const qg_histogram *h, qg_histogram_run e);

/* A histogram that grows; begins as { .type, .bins } and zeros.  Growing leaves the old
 * arrays in the arena. */
typedef struct qg_histogram_growth {
    qg_edge_type type;
    size_t bins; /* of the first batch, 1..2^24 */
    qg_histogram h;
    double min, max;  /* of all samples, signed; valid after the first batch */
    double threshold; /* of qg_histogram_add_signed */
    uint64_t zeros;   /* of qg_histogram_add_torch: seen before anything else */
    uint64_t dropped; /* samples below the first edge (a defect of add_absolute) */
} qg_histogram_growth;

/* |x| as pytorch-quantization (numpy branch) and the symmetric percentile of ONNX
 * Runtime do it: the first batch spans [min |x|, max |x|], later ones add bins of the
 * first width by numpy's arange (which may give one more than needed).  Elements below
 * the first batch's minimum are lost and counted in `dropped`.
 * QG_ENUMERIC for samples that are not finite; QG_ECONFIG for more than 2^24 bins;
 * the histogram is then unchanged. */
QG_NODISCARD qg_status qg_histogram_add_absolute(qg_ctx *ctx, qg_arena *a,
                                                 qg_histogram_growth *g, const float *x,
                                                 size_t n);

/* |x| as pytorch-quantization does it by default (torch branch): the first batch spans
 * [0, max |x|] by linspace; a larger max gives ceil(max / width) bins and edges by
 * arange(0, max + width, width); bins are found by torch.histc over [0, last edge],
 * which is `threshold`.  Batches of zeros before any other are counted in `zeros` until
 * there are bins (pytorch-quantization divides by zero there).
 * When rounding makes arange one edge short, one is added (pytorch-quantization would
 * read past its end there); one too many is kept as the range of histc, as there.
 * Failures as above. */
QG_NODISCARD qg_status qg_histogram_add_torch(qg_ctx *ctx, qg_arena *a,
                                              qg_histogram_growth *g, const float *x,
                                              size_t n);

/* Signed x as ONNX Runtime does it: bins over [-T, T], T = max |x|; a larger T adds the
 * same number of bins on both sides.  Failures as above. */
QG_NODISCARD qg_status qg_histogram_add_signed(qg_ctx *ctx, qg_arena *a,
                                               qg_histogram_growth *g, const float *x,
                                               size_t n);

#endif
