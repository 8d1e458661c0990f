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

#endif
