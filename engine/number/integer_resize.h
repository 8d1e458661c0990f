/* integer_resize.h -- bilinear resizing of stored integers with weights in fixed point
 * or in float32.
 *
 * Per axis, output element i lies between the input elements low and high; the weight
 * of high counts in units of 2^-bits:
 *
 *     10 bits (TFLite)    k = (1024 in + out / 2) / out, with aligned corners of in - 1
 *                         and out - 1; p = i k, half pixel: + k / 2 - 512;
 *                         low = max(p / 1024, 0), high = min((p + 1023) / 1024,
 *                         in - 1), weight p - 1024 low (negative before element 0)
 *     11 bits (XNNPACK)   k = f32(in / out), or (in - 1) / (out - 1); p = f32(i k),
 *                         half pixel: f32(p + f32(f32(k / 2) - 0.5)) within
 *                         [0, in - 1]; low = floor p, high = min(low + 1, in - 1),
 *                         weight rint(2048 (p - low))
 *
 *     float (TFLite uint8) k = f32(in / out), or of in - 1 and out - 1; p = f32(i k),
 *                         half pixel: f32(f32((i + 0.5) k) - 0.5); low = max(floor p,
 *                         0), high = min(ceil p, in - 1), weight p - low (negative
 *                         before element 0)
 *
 * The sum of the four weighted corners is divided by 2^(2 bits) with the rounding of
 * the row; in float, 0.5 is added and the sum is cut.  Other divisions of integers are
 * toward zero.  Grids are not read: they must be equal.
 * Source   docs/evidence/integers.md#runtimes; tests/data/vectors/README.md. */
#ifndef QG_ENGINE_NUMBER_INTEGER_RESIZE_H
#define QG_ENGINE_NUMBER_INTEGER_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/number/round.h"

/* Where output elements lie. */
typedef enum qg_int_centre {
    QG_INT_ASYMMETRIC, /* i k */
    QG_INT_HALF_PIXEL,
    QG_INT_ALIGN_CORNERS
} qg_int_centre;

/* The two input elements of an output element. */
typedef struct qg_int_tap {
    int32_t low, high; /* indices */
    int32_t weight;    /* of high, in units of 2^-bits */
    float part;        /* the same in float */
} qg_int_tap;

enum { QG_INT_RESIZE_MOST = 1 << 20 }; /* extent of an axis: products fit 32 bits */

/* tap[out]; bits is 10, 11 or 0 for float, 1 <= in, out <= QG_INT_RESIZE_MOST
 * (asserted). */
void qg_int_resize_taps(int bits, qg_int_centre centre, int64_t in, int64_t out,
                        qg_int_tap *tap);

/* Taps of both axes, with the same bits; width: of the input. */
typedef struct qg_int_resize {
    int bits;
    bool weights_first; /* float: each corner times the product of its weights */
    qg_rounding rounding;
    const qg_int_tap *rows, *columns; /* [out_height], [out_width] */
    int64_t out_height, out_width, width;
} qg_int_resize;

/* One plane: y[out_height][out_width] of x[..][width]. */
void qg_int_resize_plane(const qg_int_resize *r, const int32_t *x, int32_t *y);

#endif
