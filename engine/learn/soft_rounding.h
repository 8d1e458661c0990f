/* soft_rounding.h -- up or down of each weight, learned as a number V between the two
 * (AdaRound).
 *
 *     w = s clip(floor(w0 / s) + h(V), qmin - z, qmax - z)
 *     h(V) = clip(1.2 / (1 + e^-V) - 0.1, 0, 1)
 *
 * w0 is the weight, s its scale, z the zero point.  V starts where h(V) is the fraction
 * of w0 / s, so that w starts within 0.001 s of w0.  The penalty moves h to 0 or 1
 * after a fifth of the steps: k sum (1 - |2 h - 1|^beta), beta from 20 to 2, k from
 * 0.01 to 10,000 in equal ratios.  Published is k = 0.01, which settles nothing where
 * the loss is large beside it: a product whose outputs are large ended with h between
 * 0 and 1.
 *
 * Example: w0 / s = 3.3 starts with h = 0.3 and ends as code 3 or 4.
 *
 *     dL/dV = (s dL/dw + d penalty/dh) h'(V)      dL/dw is 0 where the range clips
 *
 * Bits     double, element by element; exp and pow are those of the C library
 * Source   Nagel et al. 2020, equations 21 to 24 */
#ifndef QG_ENGINE_LEARN_SOFT_ROUNDING_H
#define QG_ENGINE_LEARN_SOFT_ROUNDING_H

#include "engine/learn/tape.h"

/* Of a weight.  The scales of `step` stay as they are while it learns. */
typedef struct qg_soft_rounding {
    qg_tape_weight *weight;
    const qg_tape_step *step;
    qg_learned_layer layer;
    size_t n;
    double *below; /* [n] the code below, a distance from the zero point */
    double *h;     /* [n] of the last qg_soft_rounding_store */
} qg_soft_rounding;

/* Of weight->now; its arrays in a. */
QG_NODISCARD qg_status qg_soft_rounding_of(qg_ctx *ctx, qg_arena *a,
                                           qg_tape_weight *weight,
                                           const qg_tape_step *step,
                                           qg_soft_rounding *r);

/* V [n] to start with. */
void qg_soft_rounding_start(const qg_soft_rounding *r, double *v);

/* Sets weight->now.  hard: V >= 0 rounds up, and h stays as it was. */
void qg_soft_rounding_store(const qg_soft_rounding *r, const double *v, bool hard);

/* grad [n]: dL/dw becomes dL/dV with the penalty, at the V of the last store.  part: of
 * the steps, 0 to 1. */
void qg_soft_rounding_gradient(const qg_soft_rounding *r, double part, double *grad);

#endif
