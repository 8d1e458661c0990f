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

static qg_status backward_conv(const qg_backward *b)
{
    qg_conv_problem p;
    QG_TRY(qg_conv_problem_of(b->call, b->call->param, slots_of(false), &p));
    return qg_conv_backward(b, &p);
}

static qg_status backward_deconv(const qg_backward *b)
{
    qg_conv_problem p;
    QG_TRY(qg_conv_problem_of(b->call, b->call->param, slots_of(true), &p));
    return qg_deconv_backward(b, &p);
}

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
        return qg_lower_product(l, "IntConv", whole, 0, 1);
    bool several = x->rank < 2 || x->dim[1] != p->group;
    if (several && qg_profile_uses(l->profile, QG_USE_CONV_GROUP))
        return qg_lower_product(l, "IntConv", QG_USE_CONV_GROUP, 0, 1);
    if (several) {
        const qg_profile_row *one = qg_lower_row(l, QG_USE_DEPTHWISE);
        const qg_profile_row *all = qg_lower_row(l, whole);
        if (one && all && one != all)
            return qg_lower_refuse(l,
                                   "%lld groups of several channels: rows %s and %s "
                                   "differ, expected one row for both",
                                   (long long)p->group, all->id, one->id);
    }
    return qg_lower_product(l, "IntConv", QG_USE_DEPTHWISE, 0, 1);
}

/* A stride above the kernel, and an output that is not what both make of the input. */
static bool has_gaps(const qg_lower *l)
{
    const qg_window *p = &((const qg_conv_param *)l->node->param)->window;
    const qg_tensor *x = &l->node->in[0]->type, *w = &l->node->in[1]->type,
                    *y = &l->node->out[0]->type;
    bool gaps = false, other = false;
    for (int32_t i = 2; i < x->rank && x->rank == w->rank && x->rank == y->rank; i++) {
        int64_t stride = (uint32_t)i - 2 < p->n_stride ? p->stride[i - 2] : 1;
        gaps |= w->dim[i] < stride;
        other |= y->dim[i] != (x->dim[i] - 1) * stride + w->dim[i];
    }
    return gaps && other;
}

static qg_status lower_deconv(qg_lower *l)
{
    const qg_conv_param *p = l->node->param;
    bool gaps = has_gaps(l) && qg_profile_uses(l->profile, QG_USE_DECONV_GAP);
    return qg_lower_product(l, "IntConvTranspose",
                            gaps ? QG_USE_DECONV_GAP : QG_USE_DECONV, 1,
                            (uint32_t)p->group);
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
