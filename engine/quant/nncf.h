/* nncf.h -- the fake quantization of networks trained with NNCF, forward and backward.
 *
 * Forward, with s = f32((levels - 1) / range), high = f32(low + range), R the rounding:
 *
 *     y = max(min(x, high), low)
 *     new   y = R(((y - low) * s) - R(-low * s)) / s         (zero is exact)
 *     old   y = R((y - low) * s) / s + low                   (releases before)
 *
 * R is half-even on CPU and in Python, half-away-from-zero in the CUDA kernels.  Every
 * operation is one float32 rounding, in the order written.
 *
 * Backward, g the gradient of y, a = level_low / level_high:
 *
 *     x > high   grad_x = 0   d range = g       d low = g
 *     x < low    grad_x = 0   d range = a g     d low = g
 *     inside     grad_x = g   d range = e g     d low = 0
 *     with       e = f32(f32(y - x) f32(1 / range))
 *
 * The symmetric parameter is `scale`; its published gradient is d range unchanged.  But
 * range = scale (1 - a), so inside the true gradient is e (1 - a) g: about twice the
 * published one for signed levels.  QG_NNCF_GRAD_PUBLISHED omits the factor, as NNCF's
 * kernels do; QG_NNCF_GRAD_EXACT includes it.  No learning rate compensates for it,
 * because the clipped branches have the right size in both.  The two agree for a = 0.
 *
 * Units    scale, low, range: the tensor's own; levels: steps
 * Layout   x, y, g: dense [outer, channels, inner]; parameters [channels]
 * Sums     of a channel: in double, in index order, one after the other
 * Example  docs/fixed-point.md "The factor that NNCF leaves out" (run by test_docs.py)
 * Source   docs/evidence/learned-grids.md; NNCF ef8e1db and 3.4.0, by behaviour.
 *
 *     qg_levels l = qg_nncf_levels_symmetric(8, true, false);       // -128 .. 127
 *     qg_nncf_range r = qg_nncf_range_symmetric(scale, QG_NNCF_EPS, l);
 *     qg_nncf q = { .levels = l, .outer = 1, .channels = 1, .inner = n, .range = &r };
 *     QG_TRY(qg_nncf_forward(ctx, "conv1", &q, w, y)); */
#ifndef QG_ENGINE_QUANT_NNCF_H
#define QG_ENGINE_QUANT_NNCF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- level tables ----------------------------------------------------------------- */

/* Codes of the grid, inclusive: signed 8 bits are -128..127, 256 of them. */
typedef struct qg_levels {
    int32_t low, high, count; /* count = high - low + 1 */
} qg_levels;

/* bits 2..16 (asserted).  Half range, 8-bit weights stored in 7 bits: call with
 * bits - 1.  narrow leaves one code out: the lowest of signed levels, so that both
 * signs have as many, the highest of unsigned ones. */
QG_API qg_levels qg_nncf_levels_symmetric(int bits, bool is_signed, bool narrow);
QG_API qg_levels qg_nncf_levels_asymmetric(int bits, bool narrow);

/* -- ranges from learned parameters ----------------------------------------------- */

/* Of one channel: [low, low + range]; range > 0. */
typedef struct qg_nncf_range {
    float low, range; /* lower border; range > 0 */
} qg_nncf_range;

#define QG_NNCF_EPS 1e-16f /* added to |scale|; 0 when it is stored as a logarithm */

/* low = f32(s * f32(level_low / level_high)), range = f32(s - low), s = f32(|scale| +
 * eps). The sign of scale is lost; the caller's chain rule multiplies by it. */
QG_API qg_nncf_range qg_nncf_range_symmetric(float scale, float eps, qg_levels levels);

/* The class for LoRA tuning: the longer side equals |scale|, the sign of scale selects
 * the side. */
QG_API qg_nncf_range qg_nncf_range_signed(float scale, float eps, qg_levels levels);

/* tune of (input_low, f32(|input_range| + eps)). */
QG_API qg_nncf_range qg_nncf_range_asymmetric(float input_low, float input_range,
                                              float eps, qg_levels levels);

/* Moves one border outwards so that zero is a level, or none when the zero point rounds
 * to an end (then zero is not exact, as in NNCF).  *zero_point, unless NULL, becomes
 * the level of zero.  This is the layers' form: s = f32(f32(1 / (high - low)) * n). */
QG_API qg_nncf_range qg_nncf_tune(qg_nncf_range r, int32_t levels, float *zero_point);

/* The part that post-training code uses too: z is the level of zero, 0 <= z <= n, n the
 * highest level.  Of the two ranges that have zero at z the wider one is taken; on a
 * tie low stays. */
QG_API void qg_nncf_move_border(float z, float n, float *low, float *high);

/* -- forward and backward --------------------------------------------------------- */

/* Which release, which device, which gradient; see the file comment. */
typedef enum qg_nncf_formula { QG_NNCF_NEW, QG_NNCF_OLD } qg_nncf_formula;
typedef enum qg_nncf_device { QG_NNCF_CPU, QG_NNCF_CUDA } qg_nncf_device;
typedef enum qg_nncf_grad { QG_NNCF_GRAD_PUBLISHED, QG_NNCF_GRAD_EXACT } qg_nncf_grad;

/* "nncf" and "exact", the names in files and on the command line. */
QG_API const char *qg_nncf_grad_name(qg_nncf_grad g);
QG_API int qg_nncf_grad_named(const char *text); /* -1 when unknown */

/* A quantizer of a layer; everything borrowed. */
typedef struct qg_nncf {
    qg_levels levels;
    qg_nncf_formula formula; /* which release */
    qg_nncf_device device;   /* which rounding */
    qg_nncf_grad grad;       /* which gradient of the scale */
    size_t outer, channels, inner;
    const qg_nncf_range *range; /* [channels], range > 0 */
} qg_nncf;

/* y and x may be the same array.  QG_ENUMERIC when a range is not finite and > 0;
 * `what` begins the message.
 * On failure the channels before the named one are written.  Cost: one
 * pass over x, no memory. */
QG_NODISCARD QG_API qg_status qg_nncf_forward(qg_ctx *ctx, const char *what,
                                              const qg_nncf *q, const float *x,
                                              float *y);

/* The destination of the gradients; any may be NULL. */
typedef struct qg_nncf_gradients {
    float *x;                     /* like x */
    float *each_range, *each_low; /* like x: before the sum */
    double *range;                /* [channels]: of scale, or of input_range */
    double *low;                  /* [channels]: of input_low, asymmetric only */
} qg_nncf_gradients;

/* g is dL/dy.  The forward result is recomputed with q's formula and device.
 * Overwrites *out, does not accumulate into it; fails as forward does. */
QG_NODISCARD QG_API qg_status qg_nncf_backward(qg_ctx *ctx, const char *what,
                                               const qg_nncf *q, const float *x,
                                               const float *g,
                                               const qg_nncf_gradients *out);

/* -- export ----------------------------------------------------------------------- */

/* A FakeQuantize as NNCF writes it, for one channel. */
typedef struct qg_nncf_export {
    float low, high;             /* input and output limits of the FakeQuantize */
    float clamp_low, clamp_high; /* half range: clamp the weights to this first */
    qg_levels levels;
} qg_nncf_export;

/* low = f32(f32(R level_low) / level_high), high = R = f32(|scale| + eps): multiplied,
 * then divided, unlike qg_nncf_range_symmetric.  half: the quantizer was trained with
 * these levels (one bit less) and is exported with twice as many; the step stays. */
QG_API qg_nncf_export qg_nncf_export_symmetric(float scale, float eps, qg_levels levels,
                                               bool half);

/* -- post-training ranges --------------------------------------------------------- */

/* How post-training calibration turns statistics into a range. */
typedef struct qg_nncf_ptq {
    int bits;               /* 2..16 */
    bool symmetric, narrow; /* narrow: one code less */
    bool half;              /* symmetric only */
    bool force_signed;      /* symmetric: signed even when no minimum is negative */
} qg_nncf_ptq;

/* Ranges of n channels: low and high hold their minima and maxima on entry.  *levels of
 * the FakeQuantize.  QG_ECONFIG for bits out of 2..16 or half with asymmetric,
 * QG_ENUMERIC for statistics that are not finite; the ranges are then unchanged. */
QG_NODISCARD QG_API qg_status qg_nncf_ptq_range(qg_ctx *ctx, const qg_nncf_ptq *p,
                                                size_t n, float *low, float *high,
                                                int32_t *levels);

/* Tunes the borders of n channels in place, as the post-training code does it:
 * s = f32(top / (high - low)).  unify: one zero point for all, the rounded mean (in
 * numpy's order of summation) of f32(-low / f32((high - low) / top)). */
QG_API void qg_nncf_tune_borders(float *low, float *high, size_t n, int bits,
                                 bool unify);

/* Scale (at least the float32 epsilon) and zero point of a range on these levels;
 * narrow: the lowest level is not used. */
QG_API void qg_nncf_scale_zero(float low, float high, qg_levels levels, bool narrow,
                               float *scale, int32_t *zero_point);

#ifdef __cplusplus
}
#endif

#endif
