/* integer_pool.h -- average pooling of stored integers, on planes [planes, height,
 * width].
 *
 *     integer      sum over the places inside / their number, rounded; one grid in and
 *                  out, zero points have no effect                        (TFLite)
 *     float-rows   float32: add f32(s_x (q - z_x)) row by row, divide by the count,
 *                  rint(f32(f32(mean / s_y) + z_y))                       (ORT)
 *
 * Global pooling, and a window that is the whole map where a profile has a row for it,
 * is a sum and a requantization (requant.h, factor mean).
 * Source   docs/evidence/integers.md#runtimes. */
#ifndef QG_ENGINE_NUMBER_INTEGER_POOL_H
#define QG_ENGINE_NUMBER_INTEGER_POOL_H

#include "engine/number/integer_array.h"
#include "engine/number/requant.h"
#include "engine/number/round.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pairs are {rows, columns}; pad is the one before.  Every window touches the
 * picture.
 * Shapes of a pooling; extents are > 0 (asserted where used). */
typedef struct qg_int_window {
    /* planes: batch x channels */
    int64_t planes, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], pad[2]; /* rows, columns */
} qg_int_window;

/* y is [planes, out_height, out_width].
 * range is that of the fused activation. */
QG_API void qg_int_average_pool(const qg_int_window *w, qg_rounding rounding,
                                qg_code_range range, const int32_t *x, int32_t *y);

/* ORT's.  count_pad: divides by the whole kernel, also where ceil_mode lets a window
 * hang over the padding (QLinearAveragePool, qlinear_pool.cc). */
typedef struct qg_float_pool {
    qg_grid x, y;
    bool count_pad;
} qg_float_pool;

/* The same order of float additions as the runtime: rows first. */
QG_API void qg_int_average_pool_float(const qg_int_window *w, const qg_float_pool *p,
                                      const int32_t *x, int32_t *y);

#ifdef __cplusplus
}
#endif

#endif
