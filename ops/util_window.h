/* util_window.h -- common to convolutions and poolings: kernel, strides, dilations,
 * pads, auto_pad, and the output size that follows.
 *
 * Read once by qg_window_read (prepare); resolved against a shape by qg_window_resolve,
 * at compile time (unknown extents give unknown extents) and again at run time.
 * Formulas, per spatial axis, with reach = (kernel - 1) * dilation + 1:
 *     NOTSET      out = floor((in + begin + end - reach) / stride) + 1
 *     ceil_mode   ceil instead of floor; a last window that begins in the end padding
 *                 is dropped
 *     SAME_*      out = ceil(in / stride), pads make that true, the odd one at the end
 *                 (UPPER) or the beginning (LOWER)
 *     VALID       as NOTSET without pads
 * Source: ONNX Conv-11, MaxPool-12, AveragePool-19, ConvTranspose-11.
 *
 * Example: in 224, kernel 7, stride 2, pads 3 and 3 give floor((224 + 6 - 7) / 2) +
 * 1 = 112. */
#ifndef QG_OPS_UTIL_WINDOW_H
#define QG_OPS_UTIL_WINDOW_H

#include "engine/accel/accel.h"
#include "engine/ir/graph.h"

/* As in the file comment; NOTSET uses the pads that are given. */
enum qg_auto_pad { QG_PAD_NOTSET, QG_PAD_SAME_UPPER, QG_PAD_SAME_LOWER, QG_PAD_VALID };

/* The attributes as written.  A list that is absent has count 0. */
typedef struct qg_window {
    int auto_pad; /* enum qg_auto_pad */
    bool ceil_mode;
    /* 0: absent */
    uint32_t n_kernel, n_stride, n_dilation, n_pad, n_output_pad, n_output_shape;
    int64_t kernel[QG_SPACE], stride[QG_SPACE], dilation[QG_SPACE], pad[2 * QG_SPACE];
    int64_t output_pad[QG_SPACE], output_shape[QG_SPACE]; /* ConvTranspose */
} qg_window;

/* The same for one shape, on three axes (accel.h: leading axes that the operator lacks
 * are 1).  in and out are -1 where not known, then the pads are not to be used. */
typedef struct qg_space {
    int32_t axes; /* that the operator really has: 1..3 */
    int64_t in[QG_SPACE], out[QG_SPACE], kernel[QG_SPACE];
    int64_t stride[QG_SPACE], dilation[QG_SPACE];
    int64_t pad_begin[QG_SPACE], pad_end[QG_SPACE];
} qg_space;

/* Fills a qg_window from the attributes that exist; a prepare of an operator.  Every
 * number is checked to lie in [0, 2^31). */
QG_NODISCARD qg_status qg_window_read(qg_ctx *ctx, const qg_node *n, void *window);

/* Fits the window to x = in[slot] (N, C, space...: rank known, 3..5) and, for the
 * convolutions, to the weight's shape (NULL: kernel_shape is required).  QG_EMODEL when
 * counts do not match the rank or the window is larger than the padded input. */
QG_NODISCARD qg_status qg_window_resolve(const qg_call *k, const qg_window *w,
                                         const qg_tensor *x, const qg_tensor *weight,
                                         qg_space *out);

/* The transpose: out = (in - 1) * stride + output_padding + reach - begin - end, or
 * output_shape, from which the pads follow.
 * QG_EMODEL for counts that
 * do not match the rank and for a negative extent.  An output_shape larger than what
 * the input reaches gets pads of 0: the rest of it is bias alone. */
QG_NODISCARD qg_status qg_window_resolve_transpose(const qg_call *k, const qg_window *w,
                                                   const qg_tensor *x,
                                                   const qg_tensor *weight,
                                                   qg_space *out);

/* Writes the operator's spatial output dims to dim[2...]. */
void qg_space_dims(const qg_space *s, int64_t dim[]);

#endif
