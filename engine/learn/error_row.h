/* error_row.h -- the squared error of an output, and its gradient, in one pass.
 *
 *     returns  sum w (y - f)^2      g = 2 by w (y - f)
 *
 * Sums     in double, QG_ROW_LANES partial ones, added in order
 * Bits     the same with every instruction set */
#ifndef QG_ENGINE_LEARN_ERROR_ROW_H
#define QG_ENGINE_LEARN_ERROR_ROW_H

#include <stddef.h>

enum { QG_ROW_LANES = 8 };

/* f: NULL, 0, then without g.  w: of each element, NULL: 1.  g: NULL, not wanted; else
 * no other array. */
double qg_error_row(const float *y, const float *f, const double *w, double by,
                    float *g, size_t n);

/* sum w f^2, summed alike. */
double qg_power_row(const float *f, const double *w, size_t n);

#endif
