/* ort.h -- the histogram calibrators of ONNX Runtime and the scale and zero
 * point that it derives from a range.
 *
 * Histograms are those of qg_histogram_add_signed, or of qg_histogram_add_absolute for
 * the symmetric percentile; their edges are float32.
 *
 * Units    ranges: the tensor's own; divergence: nats between smoothed counts
 * Failure  the outputs are untouched
 * Source   docs/evidence/observers.md; onnxruntime 1.31.1, numpy 2.4.6 */
#ifndef QG_ENGINE_CALIB_ORT_H
#define QG_ENGINE_CALIB_ORT_H

#include "engine/number/dtype.h"
#include "engine/calib/histogram.h"

/* Entropy: windows of 2 i + 1 bins around the middle one, i = levels / 2 .. bins / 2;
 * the first minimum.  `levels` is num_quantized_bins, 1..bins.  divergence [bins / 2 -
 * levels / 2 + 1] or NULL; out->index counts candidates.  q is cut to integers and sums
 * are float32 in numpy's order.
 * QG_ENUMERIC when a window has 10^4 empty bins for each filled one: smoothing would
 * take more counts than there are (ONNX Runtime fails an assertion). */
QG_NODISCARD qg_status qg_ort_entropy(qg_ctx *ctx, qg_arena *scratch,
                                      const qg_histogram *h, size_t levels,
                                      float *divergence, qg_range_choice *out);

/* Percentile, 0..100.  symmetric: of |x|, the left edge on both sides; otherwise the
 * percentile is split evenly over both tails.  out->index: edge of high; loss: 0. */
QG_NODISCARD qg_status qg_ort_percentile(qg_ctx *ctx, const qg_histogram *h,
                                         double percentile, bool symmetric,
                                         qg_range_choice *out);

/* Both are clamped to the smallest and largest sample before use. */
void qg_ort_clip(qg_range_choice *c, double min, double max);

/* A range of codes and the mapping of a real range to it. */
typedef struct qg_ort_grid {
    int32_t qmin, qmax;
    bool symmetric; /* the real range is made symmetric */
    float least;    /* min_real_range: least width, 0 for none */
} qg_ort_grid;

/* qmin and qmax for int8, uint8, int16, uint16, int4, uint4; reduce_range goes before
 * symmetric, which changes int8 and int16 only.  QG_EUNSUPPORTED for other types. */
QG_NODISCARD qg_status qg_ort_codes(qg_ctx *ctx, qg_dtype type, bool symmetric,
                                    bool reduce_range, qg_ort_grid *g);

/* compute_scale_zp.  Zero is included first.  A scale below the smallest normal float32
 * becomes 1 with zero point 0.  QG_ENUMERIC for low or high that are not finite,
 * QG_ECONFIG unless qmin <= 0 <= qmax and qmin < qmax. */
QG_NODISCARD qg_status qg_ort_scale_zero(qg_ctx *ctx, const qg_ort_grid *g, float low,
                                         float high, float *scale, int32_t *zero_point);

#endif
