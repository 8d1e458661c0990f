/* mse.h -- clipping thresholds that minimize the squared error of rounding and
 * clipping, as pytorch-quantization and PPQ choose them from a histogram.
 *
 * Units    ranges: the tensor's own; loss: of pytorch-quantization its square
 *          times count per bin, PPQ bins squared
 * Ties     the first minimum
 * Failure  the outputs are untouched
 * Source   docs/evidence/observers.md#squared-error, #ppq-mse-observer there */
#ifndef QG_ENGINE_CALIB_MSE_H
#define QG_ENGINE_CALIB_MSE_H

#include "engine/calib/histogram.h"

typedef struct qg_mse {
    int bits;         /* 2..16 */
    bool is_unsigned; /* codes 0 .. 2^bits - 1, else +-(2^(bits - 1) - 1) */
    size_t start;     /* first candidate, < bins; the source: 128 */
} qg_mse;

/* pytorch-quantization: candidates are the centers of bins start .. bins - 1 in
 * float32; every center is rounded in float32 and weighted with its count; the mean is
 * over bins.  out->index is the bin, high its center; loss [bins - start] or NULL.
 *
 * Up to 10 bits the search uses running sums, O(codes) per candidate instead of
 * O(bins), and evaluates the definition only for candidates near the minimum, so that
 * choice and loss equal those of an exhaustive search; 2048 bins take about 2 ms.  A
 * non-NULL `loss` evaluates the definition for every candidate, which takes 10 ms. */
QG_NODISCARD qg_status qg_mse_nvidia(qg_ctx *ctx, qg_arena *scratch, const qg_mse *m,
                                     const qg_histogram *h, double *loss,
                                     qg_range_choice *out);

/* A grid over the bins of a histogram: codes of `step` bins from `start` to `end`. */
typedef struct qg_mse_grid {
    size_t start, step, end;
} qg_mse_grid;

/* PPQ's error of it in bins squared, per element, which it measures half a bin off the
 * centre. */
double qg_mse_ppq_loss(const qg_histogram *h, qg_mse_grid g);

/* PPQ's search over grids of `levels` codes (qmax - qmin + 1, at most 2^24).
 * symmetric: of |x| from 0, low = -high: all levels on one side, so it models twice the
 * actual resolution.  Otherwise from edge[0], start in steps of 8 bins.  The range may
 * end beyond the last edge.  out->index is the end in bins. */
QG_NODISCARD qg_status qg_mse_ppq(qg_ctx *ctx, const qg_histogram *h, size_t levels,
                                  bool symmetric, qg_range_choice *out);

#endif
