/* integer_mean.h -- mean of n stored integers as one requantization of their sum.
 *
 *     y = z_y + requantized (sum - n z_x)
 *
 *     floor-multiplier   the q31 multiplier (m, e) of s_x / s_y takes 1 / n in:
 *                        k = min(floor(log2 n), 32, 31 + e), m' = floor(m 2^k / n),
 *                        e' = e - k                             (TFLite's MEAN)
 *     any other form     the row's factor with s_w = n, as factor `mean` has it:
 *                        f32(s_x / f32(s_y n))          (ORT, XNNPACK: global pooling)
 *
 * Two runtimes sum the codes as they are, without subtracting z_x:
 *
 *     raw-float          rint(f32(f32(f32(sum) k) + w)), k = f32(f32(s_x / s_y) / n),
 *                        w = f32(z_y - f32(f32(z_x n) k)): the zero point is added
 *                        before rounding                 (XNNPACK in LiteRT: MEAN)
 *     raw-q31            requantized (sum) + z_y - trunc(f32(m +- 0.5)),
 *                        m = f32(f32(z_x s_x) / s_y)     (LiteRT, optimized MEAN)
 *
 * Source   docs/evidence/integers.md#runtimes; tests/data/vectors/README.md. */
#ifndef QG_ENGINE_NUMBER_INTEGER_MEAN_H
#define QG_ENGINE_NUMBER_INTEGER_MEAN_H

#include "engine/number/requant.h"

/* n values of scale x become one of scale y. */
typedef struct qg_mean {
    float x, y;
    int64_t n;             /* >= 1 (asserted) */
    bool floor_multiplier; /* needs a q31 scheme: QG_EUNSUPPORTED for others */
} qg_mean;

/* Otherwise the errors of qg_requant_prepare. */
QG_NODISCARD qg_status qg_mean_prepare(qg_ctx *ctx, const char *what,
                                       const qg_requant_rule *rule, const qg_mean *m,
                                       qg_code_range range, qg_requant *out);

/* raw-float: the factor and the addend. */
typedef struct qg_mean_float {
    float k, w;
    qg_code_range range;
} qg_mean_float;

qg_mean_float qg_mean_float_of(const qg_mean *m, int32_t zero_x, qg_code_range range);
int32_t qg_mean_float_one(const qg_mean_float *m, int64_t sum);

/* raw-q31: z_y less z_x s_x / s_y, half away from zero. */
int32_t qg_mean_zero(const qg_mean *m, int32_t zero_x, int32_t zero_y);

#endif
