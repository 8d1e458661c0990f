/* windows.c -- convolutions, pooling, products of matrices. */
#include "engine/formats/tflite/operators.h"

/* --- windows --- */

/* One spatial axis of a window. */
typedef struct window {
    int64_t in, kernel, stride, dilation;
} window;

static int64_t at_least_0(int64_t x) { return x < 0 ? 0 : x; }

/* SAME: ceil(in / stride) places, the odd element of padding behind. */
static void pads(int32_t padding, const window *w, int64_t *before, int64_t *after)
{
    int64_t out = w->in / w->stride + (w->in % w->stride != 0);
    int64_t total = padding == QG_TFLITE_SAME
                        ? at_least_0((out - 1) * w->stride +
                                     (w->kernel - 1) * w->dilation + 1 - w->in)
                        : 0;
    *before = total / 2;
    *after = total - *before;
}

static qg_status check_window(qg_tflite_builder *b, const window *h, const window *w)
{
    int32_t padding = b->op->options.padding;
    if (padding != QG_TFLITE_SAME && padding != QG_TFLITE_VALID)
        return qg_tflite_fail(b, QG_EMODEL, "padding %d, expected SAME or VALID",
                              padding);
    if (h->stride < 1 || w->stride < 1 || h->dilation < 1 || w->dilation < 1 ||
        h->kernel < 1 || w->kernel < 1)
        return qg_tflite_fail(b, QG_EMODEL,
                              "window %lld x %lld, strides %lld, %lld, dilations %lld, "
                              "%lld, expected >= 1",
                              (long long)h->kernel, (long long)w->kernel,
                              (long long)h->stride, (long long)w->stride,
                              (long long)h->dilation, (long long)w->dilation);
    return QG_OK;
}

static qg_status pair(qg_tflite_builder *b, qg_tflite_node *n, const char *name,
                      int64_t h, int64_t w)
{
    return qg_tflite_attr_ints(b, n, name, 2, (int64_t[]){ h, w });
}

static qg_status add_window(qg_tflite_builder *b, qg_tflite_node *n, const window *h,
                            const window *w)
{
    int64_t pad[4];
    QG_TRY(check_window(b, h, w));
    pads(b->op->options.padding, h, &pad[0], &pad[2]);
    pads(b->op->options.padding, w, &pad[1], &pad[3]);
    QG_TRY(pair(b, n, "kernel_shape", h->kernel, w->kernel));
    QG_TRY(pair(b, n, "strides", h->stride, w->stride));
    return qg_tflite_attr_ints(b, n, "pads", 4, pad);
}

/* --- convolutions --- */

/* Operands of a convolution: data, weights in a layout of ONNX, bias. */
typedef struct operands {
    qg_tflite_value *x, *w, *y;
    qg_value *in[3];
    uint32_t n_in;
} operands;

/* Slots of data and weights, where the bias follows the later one. */
static qg_status read_operands(qg_tflite_builder *b, uint32_t data, uint32_t weight,
                               enum qg_tflite_layout layout, operands *out)
{
    operands o = { .n_in = 2 };
    uint32_t last = (data > weight ? data : weight) + 1;
    qg_tflite_value *bias;
    QG_TRY(qg_tflite_input(b, data, &o.x));
    QG_TRY(qg_tflite_input(b, weight, &o.w));
    QG_TRY(qg_tflite_output(b, 0, &o.y));
    if (o.w->type.rank != 4)
        return qg_tflite_fail(b, QG_EMODEL, "weights of rank %d, expected 4",
                              o.w->type.rank);
    QG_TRY(qg_tflite_form(b, o.x, QG_TFLITE_NCHW, &o.in[0]));
    QG_TRY(qg_tflite_form(b, o.w, layout, &o.in[1]));
    if (qg_tflite_has_input(b, last)) {
        QG_TRY(qg_tflite_input(b, last, &bias));
        QG_TRY(qg_tflite_form(b, bias, QG_TFLITE_PLAIN, &o.in[2]));
        o.n_in = 3;
    }
    *out = o;
    return QG_OK;
}

static qg_status convolve(qg_tflite_builder *b, const operands *o, int64_t group)
{
    const qg_tflite_options *p = &b->op->options;
    const int64_t *x = o->x->type.dim, *w = o->w->type.dim;
    const window high = { x[1], w[1], p->stride_h, p->dilation_h },
                 wide = { x[2], w[2], p->stride_w, p->dilation_w };
    qg_tflite_node n = { .op = "Conv", .in = o->in, .n_in = o->n_in };
    QG_TRY(add_window(b, &n, &high, &wide));
    QG_TRY(pair(b, &n, "dilations", p->dilation_h, p->dilation_w));
    QG_TRY(qg_tflite_attr_int(b, &n, "group", group));
    return qg_tflite_finish(b, &n, o->y, QG_TFLITE_NCHW, p->activation);
}

qg_status qg_tflite_build_conv(qg_tflite_builder *b)
{
    operands o;
    QG_TRY(read_operands(b, 0, 1, QG_TFLITE_NCHW, &o));
    int64_t channels = o.x->type.dim[3], each = o.w->type.dim[3];
    if (each < 1 || channels % each != 0)
        return qg_tflite_fail(b, QG_EMODEL,
                              "%lld channels and weights for %lld, expected a multiple",
                              (long long)channels, (long long)each);
    return convolve(b, &o, channels / each);
}

qg_status qg_tflite_build_depthwise(qg_tflite_builder *b)
{
    operands o;
    QG_TRY(read_operands(b, 0, 1, QG_TFLITE_CNHW, &o));
    if (o.w->type.dim[0] != 1)
        return qg_tflite_fail(b, QG_EMODEL,
                              "weights begin with dimension %lld, "
                              "expected 1",
                              (long long)o.w->type.dim[0]);
    return convolve(b, &o, o.x->type.dim[3]);
}

/* Padding is that of the convolution from the output back to the input; what an output
 * has beyond the windows is output_padding. */
static qg_status add_inverse(qg_tflite_builder *b, qg_tflite_node *n, const window *w,
                             const int64_t *out)
{
    int64_t pad[4], more[2];
    for (int i = 0; i < 2; i++) {
        int64_t all = (w[i].in - 1) * w[i].stride + w[i].kernel;
        int64_t total = at_least_0(all - out[i]);
        pad[i] = total / 2;
        pad[i + 2] = total - pad[i];
        more[i] = at_least_0(out[i] - all);
    }
    QG_TRY(pair(b, n, "strides", w[0].stride, w[1].stride));
    QG_TRY(pair(b, n, "output_padding", more[0], more[1]));
    return qg_tflite_attr_ints(b, n, "pads", 4, pad);
}

qg_status qg_tflite_build_transpose_conv(qg_tflite_builder *b)
{
    const qg_tflite_options *p = &b->op->options;
    operands o;
    int64_t size[4];
    size_t sizes;
    QG_TRY(read_operands(b, 2, 1, QG_TFLITE_CNHW, &o));
    QG_TRY(qg_tflite_integers(b, 0, 4, size, &sizes));
    if (sizes != 4 || size[1] < 1 || size[2] < 1 || size[1] > INT32_MAX ||
        size[2] > INT32_MAX)
        return qg_tflite_fail(b, QG_EMODEL,
                              "an output shape of %zu integers, expected 4 of 1 or "
                              "more",
                              sizes);
    const int64_t *x = o.x->type.dim, *w = o.w->type.dim;
    const window axes[2] = {
        {x[1],  w[1], p->stride_h, 1},
        { x[2], w[2], p->stride_w, 1}
    };
    qg_tflite_node n = { .op = "ConvTranspose", .in = o.in, .n_in = o.n_in };
    QG_TRY(check_window(b, &axes[0], &axes[1]));
    QG_TRY(add_inverse(b, &n, axes, &size[1]));
    return qg_tflite_finish(b, &n, o.y, QG_TFLITE_NCHW, p->activation);
}

/* --- pooling --- */

/* Input 0 and the attributes. */
static qg_status start_pool(qg_tflite_builder *b, qg_tflite_node *n, qg_value **x)
{
    const qg_tflite_options *p = &b->op->options;
    qg_tflite_value *v;
    QG_TRY(qg_tflite_input(b, 0, &v));
    QG_TRY(qg_tflite_form(b, v, QG_TFLITE_NCHW, x));
    const int64_t *dim = v->type.dim;
    const window high = { dim[1], p->filter_h, p->stride_h, 1 },
                 wide = { dim[2], p->filter_w, p->stride_w, 1 };
    return add_window(b, n, &high, &wide);
}

/* count_include_pad is 0 unless set: the mean of the places inside. */
qg_status qg_tflite_build_average_pool(qg_tflite_builder *b)
{
    qg_tflite_value *v;
    qg_value *x;
    qg_tflite_node n = { .op = "AveragePool", .in = &x, .n_in = 1 };
    QG_TRY(start_pool(b, &n, &x));
    QG_TRY(qg_tflite_output(b, 0, &v));
    return qg_tflite_finish(b, &n, v, QG_TFLITE_NCHW, b->op->options.activation);
}

/* The largest codes are on the grid of the input, before and after the activation. */
qg_status qg_tflite_build_max_pool(qg_tflite_builder *b)
{
    int32_t activation = b->op->options.activation;
    qg_tflite_value *v, *y;
    qg_value *x, *largest, *to;
    qg_tflite_node n = { .op = "MaxPool", .in = &x, .n_in = 1 };
    QG_TRY(start_pool(b, &n, &x));
    QG_TRY(qg_tflite_input(b, 0, &v));
    QG_TRY(qg_tflite_output(b, 0, &y));
    if (activation == QG_TFLITE_NO_ACTIVATION)
        return qg_tflite_finish(b, &n, y, QG_TFLITE_NCHW, activation);
    QG_TRY(qg_tflite_silent(b, v, "largest", &largest));
    QG_TRY(qg_tflite_add(b, &n, &largest, 1));
    QG_TRY(qg_tflite_lead(b, y, QG_TFLITE_NCHW, &to));
    return qg_tflite_activate(b, activation, largest, to);
}

/* --- products of matrices --- */

/* Rows of the plain form: it is read as a matrix of `columns`. */
static qg_status as_rows(qg_tflite_builder *b, qg_tflite_value *v, int64_t columns,
                         qg_value **out)
{
    const qg_tensor *t = &v->type;
    int64_t count = qg_tensor_count(t);
    qg_tensor matrix;
    qg_value *x;
    if (columns < 1 || count % columns != 0)
        return qg_tflite_fail(b, QG_EMODEL,
                              "%lld elements and weights for rows of %lld, expected a "
                              "multiple",
                              (long long)count, (long long)columns);
    QG_TRY(qg_tflite_form(b, v, QG_TFLITE_PLAIN, &x));
    *out = x;
    if (t->rank == 2 && t->dim[1] == columns)
        return QG_OK;
    qg_tensor_init(&matrix, QG_F32, 2, (int64_t[]){ count / columns, columns });
    QG_TRY(qg_tflite_silent(b, v, "rows", out));
    return qg_tflite_reshape(b, x, &matrix, *out);
}

/* The product rounds as a matrix; other ranks follow. */
static qg_status finish_rows(qg_tflite_builder *b, const qg_tflite_node *n,
                             qg_tflite_value *v)
{
    int32_t activation = b->op->options.activation;
    qg_value *rows, *y;
    if (v->type.rank == 2)
        return qg_tflite_finish(b, n, v, QG_TFLITE_PLAIN, activation);
    QG_TRY(qg_tflite_lead(b, v, QG_TFLITE_PLAIN, &y));
    QG_TRY(qg_tflite_silent(b, v, "rows", &rows));
    v->lead = rows;
    QG_TRY(qg_tflite_compute(b, n, v, activation, rows));
    return qg_tflite_reshape(b, rows, &v->type, y);
}

/* weights_format 1 is a shuffled copy that only one kernel reads. */
qg_status qg_tflite_build_dense(qg_tflite_builder *b)
{
    qg_value *in[3];
    qg_tflite_value *x, *w, *bias, *y;
    qg_tflite_node n = { .op = "Gemm", .in = in, .n_in = 2 };
    if (b->op->options.format != 0)
        return qg_tflite_fail(b, QG_EUNSUPPORTED, "weights format %d, expected DEFAULT",
                              b->op->options.format);
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_input(b, 1, &w));
    QG_TRY(qg_tflite_output(b, 0, &y));
    if (w->type.rank != 2)
        return qg_tflite_fail(b, QG_EMODEL, "weights of rank %d, expected 2",
                              w->type.rank);
    QG_TRY(as_rows(b, x, w->type.dim[1], &in[0]));
    QG_TRY(qg_tflite_form(b, w, QG_TFLITE_PLAIN, &in[1]));
    if (qg_tflite_has_input(b, 2)) {
        QG_TRY(qg_tflite_input(b, 2, &bias));
        QG_TRY(qg_tflite_form(b, bias, QG_TFLITE_PLAIN, &in[2]));
        n.n_in = 3;
    }
    QG_TRY(qg_tflite_attr_int(b, &n, "transB", 1));
    return finish_rows(b, &n, y);
}

qg_status qg_tflite_build_matmul(qg_tflite_builder *b)
{
    const qg_tflite_options *p = &b->op->options;
    qg_value *in[2];
    qg_tflite_value *v[2], *y;
    qg_tflite_node n = { .op = "MatMul", .in = in, .n_in = 2 };
    QG_TRY(qg_tflite_output(b, 0, &y));
    for (uint32_t k = 0; k < 2; k++) {
        bool swapped = k ? p->adj_y : p->adj_x;
        QG_TRY(qg_tflite_input(b, k, &v[k]));
        QG_TRY(qg_tflite_form(b, v[k], swapped ? QG_TFLITE_SWAPPED : QG_TFLITE_PLAIN,
                              &in[k]));
    }
    return qg_tflite_finish(b, &n, y, QG_TFLITE_PLAIN, QG_TFLITE_NO_ACTIVATION);
}
