/* optimizer.h -- Adam, and gradient descent with momentum, on arrays, with a cosine
 * schedule.
 *
 *     adam   m = b1 m + (1 - b1) g   v = b2 v + (1 - b2) g^2   b1 = 0.9, b2 = 0.999
 *            p -= rate(t) (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)
 *     sgd    m = b1 m + g               p -= rate(t) m
 *     rate(t) = rate (1 + cos(pi (t - 1) / n)) / 2            t = 1 .. n
 *     decay  adam, behind a step: p -= rate(t) decay (p - start)
 *
 * Units    adam: the ratio of m and v has none, so a step moves p by about rate(t)
 *          however large g is; the caller divides p by a unit in which that is a small
 *          step (parameters.h), and multiplies g by the same unit.  sgd: a step moves p
 *          in proportion to g, so that rates are those of one loss; its default is
 *          larger
 * Decay    keeps what few samples say little about near where it began
 * Schedule no warm-up and no restart; rate(1) = rate, and the last step is near 0
 * Bits     arithmetic in double, element by element in index order; sqrt, cos and pow
 *          are those of the C library
 * Source   Kingma and Ba 2015, algorithm 1; Sutskever et al. 2013, equation 1;
 *          Loshchilov and Hutter 2017, equation 5; decay: the same 2019, algorithm 2,
 *          toward the start: Li, Grandvalet and Davoine 2018, equation 5 */
#ifndef QG_ENGINE_LEARN_OPTIMIZER_H
#define QG_ENGINE_LEARN_OPTIMIZER_H

#include "engine/core/ctx.h"

/* A row of the table above, with what its default of --lr is multiplied by. */
typedef struct qg_optimizer {
    const char *name;
    double rate_factor;
    bool adaptive; /* has v */
} qg_optimizer;

/* Rows, ending with name NULL; the first is the default. */
extern const qg_optimizer qg_optimizers[];

/* The state of one array. */
typedef struct qg_optimized {
    const qg_optimizer *by;
    size_t n;
    double *p; /* [n] parameters, to be set before the first step */
    double *m,
        *v;      /* [n] means of g and g^2, 0 before the first step; v: adaptive only */
    double rate; /* at the first step */
    const float *start; /* [n] where decay goes; may be NULL without */
    double decay;
} qg_optimized;

/* Zeroed, in a; p NULL: no memory. */
qg_optimized qg_optimized_new(qg_arena *a, const qg_optimizer *by, size_t n,
                              double rate);

/* One step with the gradient g [n], in the unit of p; t from 1 to `steps`, each once
 * and in order, since the corrections 1 - b^t assume t - 1 steps before. */
void qg_optimizer_step(qg_optimized *s, const double *g, size_t t, size_t steps);

#endif
