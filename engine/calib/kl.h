/* kl.h -- clipping thresholds that keep the quantized distribution close to the real
 * one, as four tools choose them.
 *
 * All of them cut a histogram of |x| after i bins, move the tail into bin i - 1 (p),
 * spread each of `levels` groups evenly (q) and take the i of the least divergence of
 * q from p.  They differ in the treatment of empty bins, in the direction of ties and
 * in the arithmetic.
 *
 * Units    divergence: nats, but PPQ's: decimal digits.  Ranges: those of the edges.
 * Shapes   divergence [number of candidates], or NULL
 * Ties     pytorch-quantization: the last minimum; ncnn and PPQ: the first
 * Failure  the outputs are untouched.  QG_EDATA: qg_histogram_check; QG_ECONFIG: levels
 *          or start do not fit the bins
 * Memory   scratch only, not freed: the caller resets the arena
 * Source   docs/evidence/observers.md#kl */
#ifndef QG_ENGINE_CALIB_KL_H
#define QG_ENGINE_CALIB_KL_H

#include "engine/calib/histogram.h"

typedef enum qg_kl_variant {
    /* pytorch-quantization, TensorRT: count[0] = count[1] hides the spike at zero.
     * Divergence +infinity where p > 0 and q == 0. */
    QG_KL_NVIDIA,
    /* The same, except that clipped elements are missing in q: their share counts as a
     * divergence of its own, -ln of what is kept.  pytorch-quantization scales q up to
     * p, so that a candidate that keeps a few bins and clips nearly all of the data is
     * perfect (1 of 6 bits of a detector's scores, docs/calibration.md#clipped). */
    QG_KL_WHOLE,
    /* The published script without its aliasing: 1e-6 is added to every q. */
    QG_KL_SEED,
    /* The published script, unchanged: the tail is added to the histogram itself, so
     * each candidate sees the tails of those before.  Clips normal data at 2.1 sigma:
     * for comparison only. */
    QG_KL_SEED_PUBLISHED,
} qg_kl_variant;

typedef struct qg_kl {
    qg_kl_variant variant;
    size_t levels; /* 2^(bits - 1), or 2^bits for unsigned */
    size_t start;  /* first candidate, 1..bins; the sources: 128 */
    size_t stride; /* between candidates; the sources: 1 */
} qg_kl;

size_t qg_kl_candidates(const qg_kl *k, size_t bins);

/* Every candidate by the definition, O(bins) each; candidate start + k * stride at
 * divergence[k].  out->index is the number of bins kept, high its edge. */
QG_NODISCARD qg_status qg_kl_search_plain(qg_ctx *ctx, qg_arena *scratch,
                                          const qg_kl *k, const qg_histogram *h,
                                          double *divergence, qg_range_choice *out);

/* The same choice and loss, O(levels) per candidate from prefix sums.  Its
 * divergences are within 1e-12 of the definition's; candidates that close to the
 * minimum are decided by the definition.  Without `divergence`, those whose last bin
 * alone diverges more than the best so far are passed over (NVIDIA). */
QG_NODISCARD qg_status qg_kl_search(qg_ctx *ctx, qg_arena *scratch, const qg_kl *k,
                                    const qg_histogram *h, double *divergence,
                                    qg_range_choice *out);

/* The choice of these by the way that suits the variant; curve, unless NULL, gets every
 * candidate. */
QG_NODISCARD qg_status qg_kl_choose(qg_ctx *ctx, qg_arena *scratch, const qg_kl *k,
                                    const qg_histogram *h, qg_curve *curve,
                                    qg_range_choice *out);

/* ncnn: groups with fractional ends, float32, candidates levels .. bins - 1 (never all
 * bins); levels is 128 there.  out->index = t, high = (t + 0.5) * last edge / bins in
 * float32.  Not a true divergence: it may be negative. */
QG_NODISCARD qg_status qg_kl_ncnn(qg_ctx *ctx, qg_arena *scratch, const qg_histogram *h,
                                  size_t levels, float *divergence,
                                  qg_range_choice *out);

/* PPQ: candidates levels, 2 * levels, ..., bins with levels = 2^(bits - 1), bins a
 * multiple of it; the first bins * 0.002 bins are emptied and the next one becomes 1.
 * float32 in torch's order, so exact counts end at 2^24.
 * out->index is the number of bins kept; PPQ's scale is high / levels. */
QG_NODISCARD qg_status qg_kl_ppq(qg_ctx *ctx, qg_arena *scratch, const qg_histogram *h,
                                 size_t levels, double *divergence,
                                 qg_range_choice *out);

#endif
