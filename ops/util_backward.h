/* util_backward.h -- parts of op->backward that several operators share.
 *
 * Sums are kept in double and taken in index order, so a gradient has one bit pattern.
 * Source: the chain rule; where a function has a corner, the convention of PyTorch's
 * operator of the same name.
 *
 * Names: g is the gradient of the output (b->out[0]), x an input, y the output of run.
 * b->in[k] is NULL where the caller needs no gradient of input k.  Gradients are
 * overwritten, not added to; a value with several readers is summed by the caller.
 * Memory comes from the scratch of the call. */
#ifndef QG_OPS_UTIL_BACKWARD_H
#define QG_OPS_UTIL_BACKWARD_H

#include "engine/ir/op.h"

/* A tensor of the dims of t, float32, uninitialized, in the scratch of the call. */
QG_NODISCARD qg_status qg_backward_like(const qg_backward *b, const qg_tensor *t,
                                        qg_tensor *out);

/* dL/d x = sum of g * f(a, b, y) over the elements of the output that this element of x
 * is broadcast to.  f is the partial derivative of y, here for a run of n elements:
 *
 *     term[i] = g[i] f(a[i * step_a], b[i * step_b], y[i])
 *
 * For y = a / b:
 *
 *     QG_PARTIAL(by_first, 1 / b)
 *     QG_PARTIAL(by_second, -y / b) */
typedef struct qg_partial_run {
    const float *g, *a, *b, *y;
    int64_t step_a, step_b;
} qg_partial_run;
typedef void qg_partial(const qg_partial_run *r, int64_t n, double *term);

#define QG_PARTIAL_LOOP(expr, at_a, at_b)                                              \
    for (int64_t i = 0; i < n; i++) {                                                  \
        const double a = (double)r->a[at_a], b = (double)r->b[at_b];                   \
        const double y = (double)r->y[i];                                              \
        (void)a, (void)b, (void)y;                                                     \
        term[i] = (double)r->g[i] * (expr);                                            \
    }
#define QG_PARTIAL(id, expr)                                                           \
    static void id(const qg_partial_run *r, int64_t n, double *term)                   \
    {                                                                                  \
        if (r->step_a == 1 && r->step_b == 1)                                          \
            QG_PARTIAL_LOOP(expr, i, i)                                                \
        else if (r->step_a == 1 && r->step_b == 0)                                     \
            QG_PARTIAL_LOOP(expr, i, 0)                                                \
        else                                                                           \
            QG_PARTIAL_LOOP(expr, i * r->step_a, i * r->step_b)                        \
    }

/* y = f(a, b) with numpy's broadcasting: writes the gradient of input `slot`. */
QG_NODISCARD qg_status qg_backward_pair(const qg_backward *b, const qg_tensor *first,
                                        const qg_tensor *second, qg_partial *f,
                                        qg_tensor *to);

/* The same for an operator whose inputs 0 and 1 are a and b. */
QG_NODISCARD qg_status qg_backward_binary(const qg_backward *b, qg_partial *by_first,
                                          qg_partial *by_second);

/* *to: the sum of g over the elements that an element of it is broadcast to, times
 * `factor`: for sums (1, or -1 for the second operand of Sub) and biases. */
QG_NODISCARD qg_status qg_backward_sum(const qg_backward *b, const qg_tensor *g,
                                       double factor, qg_tensor *to);

/* For operators whose output elements are copies of elements of float inputs, or
 * constants: run, on the positions of the elements in place of the elements, tells
 * which copy is whose.  Run must take int64.
 *
 *     Concat of a [2] and b [3]    positions 1 2 and 3 4 5 -> 1 2 3 4 5
 *     Pad of a [2] by 1            positions 1 2, pad value 0 -> 0 1 2 0
 *
 * An element of a that occurs n times in the output gets the sum of n gradients;
 * position 0 stands for constants, whose gradient is dropped. */
QG_NODISCARD qg_status qg_backward_move(const qg_backward *b);

/* One normalized row, x -> v = (x - mean) * inverse, with the gradient h of v: dL/dx.
 * centred: the mean depends on x, too (else it is 0: RMS).  x and to: n elements.
 *
 *     inverse = 1 / sqrt(mean((x - mean)^2) + epsilon)
 *     dL/dx   = inverse * (h - mean(h) - v * mean(h * v))
 *
 * mean(h) is left out for RMS.  The scale of the operator is part of h, which the
 * caller multiplies.
 * Source: Ioffe and Szegedy, "Batch Normalization" (arXiv 1502.03167), section 3; Zhang
 * and Sennrich, "Root Mean Square Layer Normalization" (arXiv 1910.07467). */
typedef struct qg_normal_row {
    const float *x;
    const double *h; /* [n] */
    double mean, inverse;
    bool centred;
} qg_normal_row;
void qg_backward_normal(const qg_normal_row *r, int64_t n, float *to);

#endif
