/* optimizer.h -- Adam on arrays, with a cosine schedule.
 *
 *     m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2      b1 = 0.9, b2 = 0.999
 *     p -= rate(t) (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)
 *     rate(t) = rate (1 + cos(pi (t - 1) / n)) / 2            t = 1 .. n
 *
 * Arithmetic in double, element by element.  Source: Kingma and Ba 2015; Loshchilov and
 * Hutter 2017. */
#ifndef QG_ENGINE_LEARN_OPTIMIZER_H
#define QG_ENGINE_LEARN_OPTIMIZER_H

#include "engine/core/ctx.h"

/* The state of one array. */
typedef struct qg_adam {
    size_t n;
    double *p;     /* [n] parameters, to be set before the first step */
    double *m, *v; /* [n] */
    double rate;   /* at the first step */
} qg_adam;

/* Zeroed, in a; NULL arrays: no memory. */
qg_adam qg_adam_new(qg_arena *a, size_t n, double rate);

/* One step with the gradient g [n]; t from 1 to `steps`. */
void qg_adam_step(qg_adam *s, const double *g, size_t t, size_t steps);

#endif
