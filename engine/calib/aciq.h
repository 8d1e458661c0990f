/* aciq.h -- ACIQ: clipping thresholds from the shape of a distribution alone.
 *
 * The mean squared error of clipping at a, in units of the distribution's scale, and of
 * rounding in steps of 2 a / 2^bits is
 *
 *     Laplace  2 exp(-a)                         + a^2 / (3 * 4^bits)
 *     Gauss    2 ((1 + a^2) Q(a) - a phi(a))     + a^2 / (3 * 4^bits)
 *
 * and alpha is the a that minimizes it: a exp(a) = 3 * 4^bits for Laplace,
 * phi(a) - a Q(a) = a / (6 * 4^bits) for Gauss, phi and Q the normal density and its
 * upper tail.  For data of one sign (after a Relu) use alpha of bits + 1.
 *
 * Units    alpha: 1; scale: mean absolute deviation (Laplace) or standard deviation, in
 *          the tensor's own units; threshold: the tensor's own
 * Source   Banner, Nahshan, Soudry, 2019; docs/evidence/observers.md#aciq */
#ifndef QG_ENGINE_CALIB_ACIQ_H
#define QG_ENGINE_CALIB_ACIQ_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/core/status.h"

typedef enum qg_aciq_shape { QG_ACIQ_LAPLACE, QG_ACIQ_GAUSS } qg_aciq_shape;

/* Solved to the precision of double; 1 <= bits <= 24 (asserted). */
double qg_aciq_alpha(qg_aciq_shape shape, int bits);

/* alpha * scale.  QG_ECONFIG for other bits, QG_ENUMERIC unless scale is finite and
 * >= 0. */
QG_NODISCARD qg_status qg_aciq_threshold(qg_ctx *ctx, qg_aciq_shape shape, int bits,
                                         double scale, double *threshold);

/* ncnn: sigma is estimated from the largest of n samples, alpha is its own table (2..8
 * bits).  The result may exceed absmax; `clamp` keeps it below, as ncnn does not. */
QG_NODISCARD qg_status qg_aciq_ncnn(qg_ctx *ctx, float absmax, uint64_t n, int bits,
                                    bool clamp, float *threshold);

#endif
