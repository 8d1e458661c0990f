/* lsq_row.h -- the gradient of LSQ through roundings whose result is still there.
 *
 *     y = s R(clip(x / s, n, m))      inside: n s <= x <= m s
 *     dL/dx = g inside, 0 outside     s dL/ds = sum g (y - x) inside, g y outside
 *
 * The same as R(v) - v and the borders of quant/gradient.h, times s: neither the
 * quotient nor the rounding is computed again.
 *
 * Sums     products in float32, QG_LSQ_LANES partial sums of up to QG_LSQ_RUN elements
 *          each, added pairwise; runs in double, in index order.  Relative error of a
 *          run: below 16 x 2^-24
 * Bits     the same with every instruction set */
#ifndef QG_ENGINE_LEARN_LSQ_ROW_H
#define QG_ENGINE_LEARN_LSQ_ROW_H

#include <stdbool.h>
#include <stddef.h>

enum { QG_LSQ_LANES = 16, QG_LSQ_RUN = 256 };

/* n s and m s as the least and the largest float32 inside. */
typedef struct qg_lsq_borders {
    float low, high;
} qg_lsq_borders;

/* False: a step that is no float32 number, or codes of more than 16 bits, whose borders
 * float32 may not tell apart. */
bool qg_lsq_borders_of(double step, double qmin, double qmax, qg_lsq_borders *b);

/* g becomes dL/dx; returns s dL/ds of the n elements.  y NULL: 0, not wanted. */
double qg_lsq_row(const qg_lsq_borders *b, const float *x, const float *y, float *g,
                  size_t n);

#endif
