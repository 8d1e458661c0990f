/* transpose.h -- matrices of four-byte elements, turned in blocks that fit a cache. */
#ifndef QG_ENGINE_IR_TRANSPOSE_H
#define QG_ENGINE_IR_TRANSPOSE_H

#include <stdint.h>

/* y[j][i] = x[i][j] for i < rows, j < columns, of any type of four bytes; rows begin
 * x_step and y_step elements apart.  y does not overlap x. */
void qg_transpose_words(const void *x, int64_t x_step, void *y, int64_t y_step,
                        int64_t rows, int64_t columns);

#endif
