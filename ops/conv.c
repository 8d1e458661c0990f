/* conv.c -- Conv and ConvTranspose: x [N, C, space], w, optional b.
 *
 * Conv           w [M, C / group, kernel]   y [N, M, out]
 * ConvTranspose  w [C, M / group, kernel]   y [N, M, out]
 * float16 and bfloat16 are computed in float32, float64 in float64.
 * Source: ONNX Conv-1, 11, 22; ConvTranspose-1, 11, 22 (they differ in types only).
 *
 * Slots   data, weight, bias; the bias is passive: its scale is input scale x weight
 * scale. */
#include "ops/families.h"

#include <math.h>

#include "engine/accel/kernels.h"
#include "engine/ir/transpose.h"
#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_check.h"
#include "ops/util_conv.h"
#include "ops/util_lower.h"
#include "ops/util_vector.h"

static qg_conv_slots slots_of(bool transposed)
{
    return (qg_conv_slots){ 0, 1, 2, transposed };
}

/* All operands have the same float type. */
static qg_status infer_as(const qg_call *k, bool transposed)
{
    QG_TRY(qg_check_types(k, 0, 2, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 2));
    return qg_conv_infer(k, k->param, slots_of(transposed), k->in[0]->dtype);
}

static qg_status infer_conv(const qg_call *k) { return infer_as(k, false); }
static qg_status infer_deconv(const qg_call *k) { return infer_as(k, true); }

/* The definition in plain loops; kernels of libraries are compiled below. */
static qg_status run_plain(const qg_call *k, bool transposed)
{
    const qg_tensor *x = k->in[0], *w = k->in[1], *b = qg_in(k, 2);
    qg_tensor *y = k->out[0];
    qg_conv_problem p;
    QG_TRY(qg_conv_problem_of(k, k->param, slots_of(transposed), &p));
    if (x->dtype == QG_F64)
        (transposed ? qg_ref_deconv_f64 : qg_ref_conv_f64)(&p, x->f64, w->f64,
                                                           b ? b->f64 : NULL, y->f64);
    else
        (transposed ? qg_ref_deconv_f32 : qg_ref_conv_f32)(&p, x->f32, w->f32,
                                                           b ? b->f32 : NULL, y->f32);
    return QG_OK;
}

static qg_status conv(const qg_call *k) { return run_plain(k, false); }
static qg_status deconv(const qg_call *k) { return run_plain(k, true); }

static qg_status run_conv(const qg_call *k)
{
    return qg_run_as(k, QG_DT_HALVES, QG_F32, conv);
}

static qg_status run_deconv(const qg_call *k)
{
    return qg_run_as(k, QG_DT_HALVES, QG_F32, deconv);
}

/* Offers the problem to the kernel library, which may decline. */
static qg_status compile_as(qg_compile *c, bool transposed, qg_kernel **out)
{
    qg_conv_problem p;
    qg_call k = qg_compile_call(c);
    QG_TRY(qg_conv_problem_of(&k, k.param, slots_of(transposed), &p));
    const qg_tensor *in[3] = { c->in[0], c->in[1], qg_in(&k, 2) };
    qg_compile all = *c; /* with a slot for the bias */
    all.in = in;
    return qg_accel_conv(&all, &p, transposed, out);
}

static qg_status compile_conv(qg_compile *c, qg_kernel **out)
{
    return compile_as(c, false, out);
}

/* A transposed convolution whose kernel is its stride writes every output once: each
 * input pixel times the weights is a block of pixels.  On channels-last memory, a row
 * of input pixels times the weights of one row of the kernel is a row of the output. */
typedef struct upsampling {
    qg_panels *w; /* [passes]: rows (column of the kernel, channel), after the row of
                   * the kernel where one pass computes all of them */
    const float *few; /* NULL, or the same as plain rows [n][in_channels] */
    int64_t passes, in_channels, channels, kernel[2];
    qg_channel_norm finish; /* bias and an absorbed clamp; period 0: no bias */
} upsampling;

/* A bias is a normalization whose mean is 0 and whose factor is 1: neither rounds. */
static void finish_row(const upsampling *u, int64_t pixels, float *y)
{
    const int64_t n = pixels * u->channels;
    const qg_vector_row *v = qg_vector_best();
    if (u->finish.period)
        v->channel_norm(&u->finish, y, y, n);
    else if (!isinf(u->finish.low) || !isinf(u->finish.high))
        v->map[QG_MAP_CLIP](y, y, (size_t)n, u->finish.low, u->finish.high);
}

/* Few outputs per pixel: columns are pixels.  x and y as in upsample_row; room: a strip
 * of inputs and one of outputs. */
static void upsample_strips(const upsampling *u, int64_t width, const float *x,
                            float *room, float *y)
{
    const int64_t part = u->kernel[1] * u->channels, n = u->kernel[0] * part;
    float *to = room + u->in_channels * QG_STRIP;
    for (int64_t at = 0; at < width; at += QG_STRIP) {
        const int64_t some = width - at < QG_STRIP ? width - at : QG_STRIP;
        qg_transpose_words(x + at * u->in_channels, u->in_channels, room, QG_STRIP,
                           some, u->in_channels);
        qg_vector_best()->strip(n, u->in_channels, u->few, room, to);
        for (int64_t r = 0; r < u->kernel[0]; r++)
            qg_transpose_words(to + r * part * QG_STRIP, QG_STRIP,
                               y + (r * width + at) * part, part, part, some);
    }
}

/* The kernel's rows of one row of `width` input pixels; y: kernel[0] rows of output. */
static void upsample_row(const upsampling *u, int64_t width, const float *x,
                         float *blocks, float *y)
{
    const int64_t part = u->kernel[1] * u->channels, row = width * part;
    const qg_vector_row *v = qg_vector_best();
    if (u->few)
        upsample_strips(u, width, x, blocks, y);
    else if (u->passes == 1)
        v->product(u->w, width, x, blocks);
    for (int64_t r = 0; r < u->kernel[0]; r++, y += row) {
        if (u->passes > 1)
            v->product(&u->w[r], width, x, y);
        for (int64_t i = 0; u->passes == 1 && !u->few && i < width; i++)
            memcpy(y + i * part, blocks + i * u->w->n + r * part,
                   (size_t)part * sizeof *y);
        finish_row(u, width * u->kernel[1], y);
    }
}

/* Rows [from, to) of the input; a row of another sample lies behind those before. */
static qg_status upsample_rows(const upsampling *u, const qg_call *k, int64_t from,
                               int64_t to)
{
    const qg_tensor *x = k->in[0];
    const int64_t width = x->dim[3];
    const size_t room = u->few ? (size_t)(u->in_channels + u->w->n) * QG_STRIP
                               : (size_t)(width * u->w->n);
    float *blocks = qg_arena_raw(k->scratch, room, sizeof *blocks);
    if (!blocks)
        return qg_nomem(k->ctx);
    if (u->few) /* the rest of a strip is computed, not used */
        memset(blocks, 0, room * sizeof *blocks);
    for (int64_t i = from; i < to; i++)
        upsample_row(u, width, x->f32 + i * width * u->in_channels, blocks,
                     k->out[0]->f32 +
                         i * width * u->kernel[0] * u->kernel[1] * u->channels);
    return QG_OK;
}

static int64_t input_rows(const qg_tensor *x) { return x->dim[0] * x->dim[2]; }

static qg_status run_upsampling(const qg_kernel *kernel, const qg_call *k)
{
    return upsample_rows(kernel->state, k, 0, input_rows(k->in[0]));
}

static qg_status upsampling_part(const qg_kernel *kernel, const qg_call *k, uint32_t i)
{
    const int64_t rows = input_rows(k->in[0]), parts = kernel->parts;
    return upsample_rows(kernel->state, k, rows * i / parts, rows * (i + 1) / parts);
}

/* Rows of the kernel first, first + 1, ... as panels; w is [in][out][height][width]. */
static qg_status pack_upsampling(const qg_compile *c, const upsampling *u,
                                 int64_t first, int64_t rows, qg_panels *out)
{
    const int64_t k = u->in_channels, part = u->kernel[1] * u->channels;
    const int64_t n = (rows * part + QG_PANEL - 1) / QG_PANEL * QG_PANEL;
    const float *w = c->in[1]->f32;
    float *at = QG_NEWN(c->arena, (size_t)(n * k), float);
    if (!at)
        return qg_nomem(c->ctx);
    for (int64_t j = 0; j < rows * part; j++) {
        const int64_t row = first + j / part, column = j % part / u->channels;
        float *to = at + j / QG_PANEL * k * QG_PANEL + j % QG_PANEL;
        for (int64_t i = 0; i < k; i++)
            to[i * QG_PANEL] =
                w[((i * u->channels + j % u->channels) * u->kernel[0] + row) *
                      u->kernel[1] +
                  column];
    }
    *out = (qg_panels){ at, n, k };
    return QG_OK;
}

/* The panel as plain rows, when most of it is empty. */
static qg_status unpack_few(const qg_compile *c, upsampling *u)
{
    enum { FEW = QG_PANEL / 4 };
    const int64_t n = u->kernel[0] * u->kernel[1] * u->channels, k = u->in_channels;
    if (u->passes > 1 || n > FEW)
        return QG_OK;
    float *few = QG_NEWN(c->arena, (size_t)(n * k), float);
    if (!few)
        return qg_nomem(c->ctx);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k; i++)
            few[j * k + i] = u->w->at[i * QG_PANEL + j];
    u->few = few;
    return QG_OK;
}

/* Float32, two axes, one group, constant parameters, and nothing overlaps or is cut. */
static bool upsamples(const qg_compile *c, const qg_conv_problem *p)
{
    const qg_tensor *b = c->node->n_in > 2 ? c->in[2] : NULL;
    bool fits = p->axes == 2 && p->groups == 1 && c->in[0]->dtype == QG_F32 &&
                !c->in[0]->data && c->in[1]->data && (!b || b->data) &&
                qg_tensor_count(c->in[0]) > 0 && p->out_channels > 0;
    for (int i = 1; i < QG_SPACE; i++)
        fits = fits && p->kernel[i] == p->stride[i] && p->dilation[i] == 1 &&
               !p->pad_begin[i] && p->out[i] == p->in[i] * p->stride[i];
    return fits;
}

/* Until a run is long enough for vectors. */
static qg_status repeat_bias(qg_compile *c, upsampling *u)
{
    enum { LONG = 256 };
    const int64_t n = u->channels, period = (LONG + n - 1) / n * n;
    float *mean = QG_NEWN(c->arena, (size_t)period, float);
    float *factor = QG_NEWN(c->arena, (size_t)period, float);
    float *bias = QG_NEWN(c->arena, (size_t)period, float);
    if (!mean || !factor || !bias)
        return qg_nomem(c->ctx);
    for (int64_t i = 0; i < period; i++) {
        factor[i] = 1;
        bias[i] = c->in[2]->f32[i % n];
    }
    u->finish = (qg_channel_norm){
        .period = period, .mean = mean, .factor = factor, .bias = bias
    };
    return QG_OK;
}

/* Whole panels per row of the kernel are written in place; else all rows are computed
 * together and copied. */
static qg_status compile_upsampling(qg_compile *c, const qg_conv_problem *p,
                                    qg_kernel **out)
{
    upsampling *u = QG_NEW(c->arena, upsampling);
    qg_kernel *kernel = QG_NEW(c->arena, qg_kernel);
    if (!u || !kernel)
        return qg_nomem(c->ctx);
    const bool whole = p->kernel[2] * p->out_channels % QG_PANEL == 0;
    *u = (upsampling){
        .passes = whole ? p->kernel[1] : 1,
        .in_channels = p->in_channels,
        .channels = p->out_channels,
        .kernel = {p->kernel[1], p->kernel[2]}
    };
    u->w = QG_NEWN(c->arena, (size_t)u->passes, qg_panels);
    if (!u->w)
        return qg_nomem(c->ctx);
    if (c->node->n_in > 2 && c->in[2])
        QG_TRY(repeat_bias(c, u));
    for (int64_t i = 0; i < u->passes; i++)
        QG_TRY(pack_upsampling(c, u, i, p->kernel[1] / u->passes, &u->w[i]));
    QG_TRY(unpack_few(c, u));
    const double work = (double)qg_tensor_count(c->out[0]) * (double)p->in_channels;
    *kernel =
        (qg_kernel){ .run = run_upsampling,
                     .part = upsampling_part,
                     .parts = qg_compile_parts(c, input_rows(c->in[0]), work),
                     .state = u,
                     .in_layout = { QG_LAYOUT_CHANNELS_LAST },
                     .out_layout = QG_LAYOUT_CHANNELS_LAST,
                     .absorbed = qg_absorb_clamp(c, &u->finish.low, &u->finish.high),
                     .name = "upsampling by panels" };
    *out = kernel;
    return QG_OK;
}

static qg_status compile_deconv(qg_compile *c, qg_kernel **out)
{
    qg_conv_problem p;
    qg_call k = qg_compile_call(c);
    QG_TRY(qg_conv_problem_of(&k, k.param, slots_of(true), &p));
    return upsamples(c, &p) ? compile_upsampling(c, &p, out) : compile_as(c, true, out);
}

/* --- gradients ------------------------------------------------------------------- */

/* The windows of one group of one sample as columns: row (channel, place in the
 * kernel), column the window.  The windows lie on `image`, one per place of `windows`:
 * for Conv the image is x and the windows are y, for ConvTranspose the other way
 * round. */
typedef struct columns {
    const qg_conv_problem *p;
    int64_t channels;                      /* of a group of the image */
    const int64_t *image, *windows;        /* [QG_SPACE] */
    int64_t image_size, n_windows, n_rows; /* per channel; of a row; of all */
    float *at;                             /* [n_rows][n_windows] */
} columns;

static int64_t volume(const int64_t *dim) { return dim[0] * dim[1] * dim[2]; }

/* Where window w of axis a reads with tap t; -1: padding. */
static int64_t place_of(const columns *c, int a, int64_t w, int64_t t)
{
    const qg_conv_problem *p = c->p;
    int64_t at = w * p->stride[a] + t * p->dilation[a] - p->pad_begin[a];
    return at < c->image[a] ? at : -1;
}

/* One line of windows: `line` of the image is read into the columns, or (back) gets
 * what they hold added.  NULL: all padding. */
static void move_line(const columns *c, int64_t tap, bool back, float *line, float *row)
{
    const int64_t n = c->windows[2], step = c->p->stride[2];
    int64_t first = 0, end = line ? n : 0;
    while (first < end && place_of(c, 2, first, tap) < 0)
        first++;
    while (end > first && place_of(c, 2, end - 1, tap) < 0)
        end--;
    const int64_t shift = tap * c->p->dilation[2] - c->p->pad_begin[2];
    if (back) {
        for (int64_t w = first; w < end; w++)
            line[w * step + shift] += row[w];
        return;
    }
    memset(row, 0, (size_t)first * sizeof *row);
    if (step == 1 && end > first)
        memcpy(row + first, line + first + shift, (size_t)(end - first) * sizeof *row);
    for (int64_t w = first; step != 1 && w < end; w++)
        row[w] = line[w * step + shift];
    memset(row + end, 0, (size_t)(n - end) * sizeof *row);
}

/* One row of the columns. */
static void move_row(const columns *c, const int64_t tap[QG_SPACE], bool back,
                     float *image, float *row)
{
    for (int64_t d = 0; d < c->windows[0]; d++)
        for (int64_t h = 0; h < c->windows[1]; h++, row += c->windows[2]) {
            const int64_t z = place_of(c, 0, d, tap[0]), y = place_of(c, 1, h, tap[1]);
            float *line =
                z < 0 || y < 0 ? NULL : image + (z * c->image[1] + y) * c->image[2];
            move_line(c, tap[2], back, line, row);
        }
}

static void move_columns(const columns *c, bool back, float *image)
{
    const int64_t *kernel = c->p->kernel;
    float *row = c->at;
    int64_t tap[QG_SPACE];
    for (int64_t i = 0; i < c->channels; i++, image += c->image_size)
        for (tap[0] = 0; tap[0] < kernel[0]; tap[0]++)
            for (tap[1] = 0; tap[1] < kernel[1]; tap[1]++)
                for (tap[2] = 0; tap[2] < kernel[2]; tap[2]++, row += c->n_windows)
                    move_row(c, tap, back, image, row);
}

static qg_status columns_of(const qg_call *k, const qg_conv_problem *p, bool transposed,
                            columns *out)
{
    *out = (columns){ .p = p,
                      .channels =
                          (transposed ? p->out_channels : p->in_channels) / p->groups,
                      .image = transposed ? p->out : p->in,
                      .windows = transposed ? p->in : p->out };
    out->image_size = volume(out->image);
    out->n_windows = volume(out->windows);
    out->n_rows = out->channels * volume(p->kernel);
    out->at = qg_arena_raw(k->scratch, (size_t)(out->n_rows * out->n_windows),
                           sizeof *out->at);
    return out->at ? QG_OK : qg_nomem(k->ctx);
}

/* w [m][rows]; v: the tensor on the windows' side, m channels of a group.
 * Weights: dw += v cols'. */
static void add_to_weights(const columns *c, int64_t m, const float *v, float *dw)
{
    const qg_gemm_problem q = { .m = m,
                                .n = c->n_rows,
                                .k = c->n_windows,
                                .lda = c->n_windows,
                                .ldb = c->n_windows,
                                .ldc = c->n_rows,
                                .trans_b = true,
                                .alpha = 1,
                                .beta = 1 };
    qg_ref_gemm_f32(&q, v, c->at, dw);
}

/* Columns of the image's gradient: w' v. */
static void spread(const columns *c, int64_t m, const float *w, const float *v)
{
    const qg_gemm_problem q = { .m = c->n_rows,
                                .n = c->n_windows,
                                .k = m,
                                .lda = c->n_rows,
                                .ldb = c->n_windows,
                                .ldc = c->n_windows,
                                .trans_a = true,
                                .alpha = 1 };
    qg_ref_gemm_f32(&q, w, v, c->at);
}

/* The windows' side from the image's: w cols. */
static void collect(const columns *c, int64_t m, const float *w, float *v)
{
    const qg_gemm_problem q = qg_gemm_dense(m, c->n_windows, c->n_rows, false);
    qg_ref_gemm_f32(&q, w, c->at, v);
}

static void clear(qg_tensor *t)
{
    if (t)
        memset(t->data, 0, qg_elements(t) * sizeof *t->f32);
}

static void bias_backward(const qg_conv_problem *p, const float *g, float *to)
{
    const int64_t size = volume(p->out);
    for (int64_t c = 0; c < p->out_channels; c++) {
        double sum = 0;
        for (int64_t n = 0; n < p->batch; n++)
            sum += qg_vector_best()->sum(g + (n * p->out_channels + c) * size, size);
        to[c] = (float)sum;
    }
}

/* One group of one sample of a convolution; offsets in elements. */
static void conv_part(const qg_backward *b, const columns *c, const int64_t at[3])
{
    const int64_t m = c->p->out_channels / c->p->groups;
    const float *g = b->out[0]->f32 + at[1];
    if (b->in[1]) {
        move_columns(c, false, (float *)(uintptr_t)(b->call->in[0]->f32 + at[0]));
        add_to_weights(c, m, g, b->in[1]->f32 + at[2]);
    }
    if (b->in[0]) {
        spread(c, m, b->call->in[1]->f32 + at[2], g);
        move_columns(c, true, b->in[0]->f32 + at[0]);
    }
}

/* The same for a transposed one, whose image is y. */
static void deconv_part(const qg_backward *b, const columns *c, const int64_t at[3])
{
    const int64_t m = c->p->in_channels / c->p->groups;
    move_columns(c, false, (float *)(uintptr_t)(b->out[0]->f32 + at[1]));
    if (b->in[1])
        add_to_weights(c, m, b->call->in[0]->f32 + at[0], b->in[1]->f32 + at[2]);
    if (b->in[0])
        collect(c, m, b->call->in[1]->f32 + at[2], b->in[0]->f32 + at[0]);
}

static qg_status backward(const qg_backward *b, bool transposed)
{
    qg_conv_problem p;
    columns c;
    QG_TRY(qg_conv_problem_of(b->call, b->call->param, slots_of(transposed), &p));
    QG_TRY(columns_of(b->call, &p, transposed, &c));
    const int64_t x = p.in_channels / p.groups * volume(p.in);
    const int64_t y = p.out_channels / p.groups * volume(p.out);
    const int64_t w = qg_tensor_count(b->call->in[1]) / p.groups;
    clear(b->in[0]);
    clear(b->in[1]);
    for (int64_t i = 0; (b->in[0] || b->in[1]) && i < p.batch * p.groups; i++) {
        const int64_t at[3] = { i * x, i * y, i % p.groups * w };
        (transposed ? deconv_part : conv_part)(b, &c, at);
    }
    if (qg_in(b->call, 2) && b->in[2])
        bias_backward(&p, b->out[0]->f32, b->in[2]->f32);
    return QG_OK;
}

static qg_status backward_conv(const qg_backward *b) { return backward(b, false); }
static qg_status backward_deconv(const qg_backward *b) { return backward(b, true); }

static int deconv_axis(const qg_node *node)
{
    (void)node;
    return 1;
}

/* One input channel per group is a use of its own.  Several have none: they are lowered
 * where the profile computes both kinds alike. */
static qg_status lower_conv(qg_lower *l)
{
    const qg_conv_param *p = l->node->param;
    const qg_tensor *x = &l->node->in[0]->type;
    qg_kernel_use whole = l->in[1].stored.n <= 1 ? QG_USE_CONV_ONE : QG_USE_CONV;
    if (p->group == 1)
        return qg_lower_product(l, "IntConv", whole, 0);
    bool several = x->rank < 2 || x->dim[1] != p->group;
    if (several && qg_profile_uses(l->profile, QG_USE_CONV_GROUP))
        return qg_lower_product(l, "IntConv", QG_USE_CONV_GROUP, 0);
    if (several) {
        const qg_profile_row *one = qg_lower_row(l, QG_USE_DEPTHWISE);
        const qg_profile_row *all = qg_lower_row(l, whole);
        if (one && all && one != all)
            return qg_lower_refuse(l,
                                   "%lld groups of several channels: rows %s and %s "
                                   "differ, expected one row for both",
                                   (long long)p->group, all->id, one->id);
    }
    return qg_lower_product(l, "IntConv", QG_USE_DEPTHWISE, 0);
}

static qg_status lower_deconv(qg_lower *l)
{
    return qg_lower_product(l, "IntConvTranspose", QG_USE_DECONV, 1);
}

#define ROW(onnx, opset, kind, axis)                                                   \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = 2, .max_in = 3, .min_out = 1,        \
        .max_out = 1, .in_roles = "dwb",                                               \
        .traits = QG_OP_COMPUTE | QG_OP_PURE | QG_OP_BATCH_FIRST,                      \
        .param_size = sizeof(qg_conv_param), .prepare = qg_conv_read,                  \
        .infer = infer_##kind, .run = run_##kind, .compile = compile_##kind,           \
        .weight_axis = axis, .lower = lower_##kind, .backward = backward_##kind        \
    }
const qg_op qg_ops_conv[] = {
    ROW("Conv", 1, conv, qg_conv_axis),
    ROW("Conv", 11, conv, qg_conv_axis),
    ROW("Conv", 22, conv, qg_conv_axis),
    ROW("ConvTranspose", 1, deconv, deconv_axis),
    ROW("ConvTranspose", 11, deconv, deconv_axis),
    ROW("ConvTranspose", 22, deconv, deconv_axis),
    { 0 },
};
