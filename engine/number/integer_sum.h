/* integer_sum.h -- the sums inside integer convolution, product and pooling: plain
 * loops, the definition that faster kernels are compared with.
 *
 *     acc[o, y] = bias[o] + sum over taps inside the picture, channels of the group:
 *                 (x - zero_x) * (w - zero_w[o])
 *
 * Places outside the picture add nothing, as if they held zero_x.  Sums are int32
 * modulo 2^32, as every runtime here has them.
 *
 * Layout   strides in elements, so that one definition reads NCHW / OIHW (ONNX) and
 *          NHWC / OHWI (TFLite).  Two spatial axes; a 1-d convolution has height 1, a
 *          dense layer is a 1 x 1 picture.
 * pairs    x86-64 without VNNI multiplies uint8 by int8 and adds neighbouring products
 *          in saturating int16; then (K ordered by kernel position, then channel, raw
 *          x):
 *              acc = sum sat16(x[2i] w[2i] + x[2i+1] w[2i+1]) - zero_x sum w
 *                    - zero_w sum (x - zero_x) + bias
 * Source   docs/evidence/integers.md#onnx-runtime. */
#ifndef QG_ENGINE_NUMBER_INTEGER_SUM_H
#define QG_ENGINE_NUMBER_INTEGER_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Extents and strides of one operand; axes that it lacks have stride 0.
 * data is borrowed; element (n, c, h, w) lies at n batch + c channel + h row + w
 * column. */
typedef struct qg_int_picture {
    const int32_t *data;                /* widened codes */
    size_t batch, channel, row, column; /* strides */
} qg_int_picture;

/* Everything about one sum; a row of a model's operator fills it once. */
typedef struct qg_int_sum {
    int64_t batches, groups, in_channels, out_channels; /* channels: of one group */
    int64_t height, width, out_height, out_width, kernel_height, kernel_width;
    int64_t stride[2], dilation[2], pad[2]; /* rows, columns; pad: before */
    qg_int_picture x, w; /* w: batch is the stride of output channels */
    int32_t zero_x;
    const int32_t *zero_w; /* [groups * out_channels]; NULL: all zero */
    const int32_t *bias;   /* [groups * out_channels]; NULL: none */
    bool pairs;
} qg_int_sum;

/* acc is dense [batches, groups * out_channels, out_height, out_width].  Extents are >
 * 0 except batches, and the memory described by x and w is readable (asserted in part;
 * a caller checks its model first).
 * Cost: one multiply-add per output element, tap and channel of the group. */
QG_API void qg_int_sum_run(const qg_int_sum *s, int32_t *acc);

#ifdef __cplusplus
}
#endif

#endif
