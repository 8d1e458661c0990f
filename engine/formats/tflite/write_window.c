/* write_window.c -- strides, dilations and padding of convolutions and pools.
 *
 * TensorFlow Lite has no explicit pads in a convolution, only SAME and VALID.  SAME
 * gives ceil(in / stride) outputs and puts the odd element behind:
 *
 *     total  = max(0, (ceil(in / stride) - 1) * stride + reach - in)
 *     before = total / 2, behind = total - before
 *
 * Any other pads become PADV2 in front of a VALID window.
 * Source   tensorflow/lite/kernels/padding.h, ComputePaddingHeightWidth */
#include <string.h>

#include "engine/formats/tflite/operators.h"
#include "engine/formats/tflite/writer.h"

static qg_status numbers(qg_tflite_writer *w, const char *name, size_t n,
                         int64_t preset, int64_t *out)
{
    const int64_t *given;
    size_t count;
    QG_TRY(qg_attr_ints(w->ctx, w->node, name, &given, &count));
    for (size_t i = 0; i < n; i++)
        out[i] = i < count ? given[i] : preset;
    return QG_OK;
}

/* Padding of upstream's SAME along one axis, before and behind. */
static void same_pads(int64_t in, int64_t kernel, int64_t stride, int64_t *before,
                      int64_t *behind)
{
    int64_t total = (in + stride - 1) / stride * stride - stride + kernel - in;
    *before = total > 0 ? total / 2 : 0;
    *behind = total > 0 ? total - *before : 0;
}

/* A pool with ceil_mode: its last window begins inside and ends behind the padding,
 * which grows by as much. */
static qg_status add_ceil(qg_tflite_writer *w, const int64_t kernel[2],
                          const int64_t stride[2], int64_t pad[4])
{
    const int64_t *in = w->node->in[0]->type.dim + 2,
                  *out = w->node->out[0]->type.dim + 2;
    bool ceil;
    QG_TRY(qg_attr_flag(w->ctx, w->node, "ceil_mode", false, &ceil));
    for (int i = 0; ceil && i < 2; i++) {
        int64_t end = (out[i] - 1) * stride[i] + kernel[i] - pad[i] - in[i];
        pad[i + 2] = end > pad[i + 2] ? end : pad[i + 2];
    }
    return QG_OK;
}

/* Pads top, left, bottom, right of the node; *same: they are those of SAME. */
static qg_status read_pads(qg_tflite_writer *w, const int64_t kernel[2],
                           const int64_t stride[2], int64_t pad[4], bool *same)
{
    const int64_t *in = w->node->in[0]->type.dim + 2;
    const char *how;
    int64_t fit[4];
    QG_TRY(qg_attr_string(w->ctx, w->node, "auto_pad", "NOTSET", &how));
    QG_TRY(numbers(w, "pads", 4, 0, pad));
    for (int i = 0; i < 2; i++)
        same_pads(in[i], kernel[i], stride[i], &fit[i], &fit[i + 2]);
    if (strcmp(how, "NOTSET") != 0)
        for (int i = 0; i < 4; i++)
            pad[i] = strcmp(how, "VALID") == 0        ? 0
                     : strcmp(how, "SAME_UPPER") == 0 ? fit[i]
                                                      : fit[(i + 2) % 4];
    QG_TRY(add_ceil(w, kernel, stride, pad));
    *same = memcmp(fit, pad, sizeof fit) == 0;
    return QG_OK;
}

/* Options of a window over pictures; what SAME does not pad goes to `pad`. */
qg_status qg_tflite_window(qg_tflite_writer *w, const int64_t kernel[2], int64_t pad[4],
                           qg_tflite_options *o)
{
    int64_t stride[2], dilation[2], reach[2];
    bool same;
    if (w->node->in[0]->type.rank != 4)
        return qg_tflite_refuse(w, "%d axes, expected 4", w->node->in[0]->type.rank);
    QG_TRY(numbers(w, "strides", 2, 1, stride));
    QG_TRY(numbers(w, "dilations", 2, 1, dilation));
    for (int i = 0; i < 2; i++)
        reach[i] = (kernel[i] - 1) * dilation[i] + 1;
    QG_TRY(read_pads(w, reach, stride, pad, &same));
    bool none = !(pad[0] | pad[1] | pad[2] | pad[3]);
    o->padding = none ? QG_TFLITE_VALID : same ? QG_TFLITE_SAME : QG_TFLITE_VALID;
    if (same)
        memset(pad, 0, 4 * sizeof *pad);
    o->stride_h = (int32_t)stride[0];
    o->stride_w = (int32_t)stride[1];
    o->dilation_h = (int32_t)dilation[0];
    o->dilation_w = (int32_t)dilation[1];
    o->filter_h = (int32_t)kernel[0];
    o->filter_w = (int32_t)kernel[1];
    return QG_OK;
}

bool qg_tflite_is_of_pictures(const qg_tensor *x, const qg_tensor *y)
{
    return x->rank == 4 && y->rank == 4 && x->dim[0] == y->dim[0] &&
           x->dim[1] == y->dim[1];
}
