/* util_backward.h -- parts of op->backward that several operators share.
 *
 * Sums are kept in double and taken in index order, so a gradient has one bit pattern.
 * Source: the chain rule; where a function has a corner, the convention of PyTorch's
 * operator of the same name. */
#ifndef QG_OPS_UTIL_BACKWARD_H
#define QG_OPS_UTIL_BACKWARD_H

#include "engine/ir/op.h"

/* A tensor of the dims of t, float32, uninitialized, in the scratch of the call. */
QG_NODISCARD qg_status qg_backward_like(const qg_backward *b, const qg_tensor *t,
                                        qg_tensor *out);

/* dL/d x = sum of g * f(a, b, y) over the elements of the output that this element of x
 * is broadcast to. */
typedef double qg_partial(double a, double b, double y);

/* y = f(a, b) with numpy's broadcasting: writes the gradient of input `slot`. */
QG_NODISCARD qg_status qg_backward_pair(const qg_backward *b, const qg_tensor *first,
                                        const qg_tensor *second, qg_partial *f,
                                        qg_tensor *to);

/* The same for an operator whose inputs 0 and 1 are a and b. */
QG_NODISCARD qg_status qg_backward_binary(const qg_backward *b, qg_partial *by_first,
                                          qg_partial *by_second);

/* *to: the sum of g over the elements that an element of it is broadcast to, times
 * `factor`. */
QG_NODISCARD qg_status qg_backward_sum(const qg_backward *b, const qg_tensor *g,
                                       double factor, qg_tensor *to);

/* For operators whose output elements are copies of elements of float inputs, or
 * constants: run, on the positions of the elements in place of the elements, tells
 * which copy is whose.  Run must take int64. */
QG_NODISCARD qg_status qg_backward_move(const qg_backward *b);

/* One normalized row, x -> v = (x - mean) * inverse, with the gradient h of v: dL/dx.
 * centred: the mean depends on x, too (else it is 0: RMS).  x and to: n elements. */
typedef struct qg_normal_row {
    const float *x;
    const double *h; /* [n] */
    double mean, inverse;
    bool centred;
} qg_normal_row;
void qg_backward_normal(const qg_normal_row *r, int64_t n, float *to);

#endif
