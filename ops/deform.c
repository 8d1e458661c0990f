/* deform.c -- DeformConv: a convolution with taps displaced by offsets and scaled by a
 * mask, both computed by the network.
 *
 * x [N, C, H, W], w [M, C / group, kh, kw], offset [N, G kh kw 2, oh, ow] (y before x),
 * bias [M], mask [N, G kh kw, oh, ow]; G offset groups share the input channels.  Taps
 * interpolate bilinearly; pixels outside are 0.
 * Source: ONNX DeformConv-19, 22. */
#include "ops/families.h"

#include <math.h>

#include "ops/util_cast.h"
#include "ops/util_check.h"
#include "ops/util_conv.h"

enum { X, W, OFFSET, BIAS, MASK };

typedef struct deform_param {
    qg_conv_param conv;
    int64_t offset_group;
} deform_param;

static const qg_conv_slots slots = { X, W, BIAS, false };

/* offset_group divides the input channels; checked when they are known. */
static qg_status prepare(qg_ctx *ctx, const qg_node *node, void *param)
{
    deform_param *p = param;
    QG_TRY(qg_conv_read(ctx, node, &p->conv));
    return qg_attr_count(ctx, node, "offset_group", (qg_preset){ 1, 1 },
                         &p->offset_group);
}

/* offset and mask have the batch and space of the output and `channels` channels. */
static qg_status check_map(const qg_call *k, size_t slot, int64_t channels)
{
    const qg_tensor *y = k->out[0];
    QG_TRY(qg_check_rank(k, slot, 4, 4));
    for (int32_t i = 0; i < 4; i++)
        QG_TRY(qg_check_dim(k, slot, i, i == 1 ? channels : y->dim[i]));
    return QG_OK;
}

/* offset and mask have the spatial dims of the output, computed by the convolution
 * rules. */
static qg_status infer(const qg_call *k)
{
    const deform_param *p = k->param;
    int64_t channels = qg_in_dim(k, X, 1), height = qg_in_dim(k, W, 2);
    int64_t width = qg_in_dim(k, W, 3);
    QG_TRY(qg_check_types(k, X, MASK, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, W, MASK));
    if (k->in[X]->rank >= 0 && k->in[X]->rank != 4)
        return qg_infer_fail(k, QG_EUNSUPPORTED, "input 0 has rank %d, supported: 4",
                             (int)k->in[X]->rank);
    QG_TRY(qg_conv_infer(k, &p->conv, slots, k->in[X]->dtype));
    if (channels >= 0 && channels % p->offset_group)
        return qg_infer_fail(k, QG_EMODEL,
                             "%lld channels, expected a multiple of offset_group %lld",
                             (long long)channels, (long long)p->offset_group);
    if (height < 0 || width < 0 || k->out[0]->rank < 0)
        return QG_OK;
    int64_t taps = p->offset_group * height * width;
    QG_TRY(check_map(k, OFFSET, 2 * taps));
    return check_map(k, MASK, taps);
}

/* Bilinear value between pixels; 0 outside. */
static float between(const float *x, int64_t height, int64_t width, float at_y,
                     float at_x)
{
    float sum = 0;
    if (!(at_y > -1) || !(at_x > -1) || !(at_y < (float)height) ||
        !(at_x < (float)width))
        return 0;
    float top = floorf(at_y), left = floorf(at_x);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            int64_t y = (int64_t)top + i, c = (int64_t)left + j;
            float wy = i ? at_y - top : 1 - (at_y - top);
            float wx = j ? at_x - left : 1 - (at_x - left);
            if (y >= 0 && y < height && c >= 0 && c < width)
                sum += wy * wx * x[y * width + c];
        }
    return sum;
}

/* The moved and masked taps of one sample and input channel: [kh kw][oh ow]. */
static void gather(const qg_call *k, const qg_conv_problem *p, int64_t n, int64_t c,
                   float *out)
{
    const deform_param *d = k->param;
    const qg_tensor *mask = qg_in(k, MASK);
    int64_t taps = p->kernel[1] * p->kernel[2], space = p->out[1] * p->out[2];
    int64_t group = c / (p->in_channels / d->offset_group);
    int64_t first = (n * d->offset_group + group) * taps;
    const float *x = k->in[X]->f32 + (n * p->in_channels + c) * p->in[1] * p->in[2];
    for (int64_t t = 0; t < taps; t++) {
        const float *dy = k->in[OFFSET]->f32 + (first + t) * 2 * space,
                    *dx = dy + space;
        const float *m = mask ? mask->f32 + (first + t) * space : NULL;
        for (int64_t i = 0; i < space; i++) {
            int64_t y = i / p->out[2] * p->stride[1] - p->pad_begin[1] +
                        t / p->kernel[2] * p->dilation[1];
            int64_t z = i % p->out[2] * p->stride[2] - p->pad_begin[2] +
                        t % p->kernel[2] * p->dilation[2];
            float v =
                between(x, p->in[1], p->in[2], (float)y + dy[i], (float)z + dx[i]);
            out[t * space + i] = m ? m[i] * v : v;
        }
    }
}

/* Adds one input channel to every output channel of its group. */
static void spread(const qg_call *k, const qg_conv_problem *p, int64_t n, int64_t c,
                   const float *columns)
{
    int64_t taps = p->kernel[1] * p->kernel[2], space = p->out[1] * p->out[2];
    int64_t ic = p->in_channels / p->groups, oc = p->out_channels / p->groups;
    int64_t first = c / ic * oc;
    for (int64_t o = first; o < first + oc; o++) {
        float *y = k->out[0]->f32 + (n * p->out_channels + o) * space;
        const float *w = k->in[W]->f32 + (o * ic + c % ic) * taps;
        for (int64_t t = 0; t < taps; t++)
            for (int64_t i = 0; i < space; i++)
                y[i] += w[t] * columns[t * space + i];
    }
}

/* gather() makes the columns of one channel, spread() multiplies them into the
 * outputs: no im2col of the whole input. */
static qg_status deform(const qg_call *k)
{
    const qg_tensor *bias = qg_in(k, BIAS);
    qg_conv_problem p;
    QG_TRY(qg_conv_problem_of(k, &((const deform_param *)k->param)->conv, slots, &p));
    int64_t space = p.out[1] * p.out[2], taps = p.kernel[1] * p.kernel[2];
    float *columns = QG_NEWN(k->scratch, (size_t)(taps * space), float);
    if (!columns)
        return qg_nomem(k->ctx);
    for (int64_t i = 0; i < qg_tensor_count(k->out[0]); i++)
        k->out[0]->f32[i] = bias ? bias->f32[i / space % p.out_channels] : 0;
    for (int64_t n = 0; n < p.batch; n++)
        for (int64_t c = 0; c < p.in_channels; c++) {
            gather(k, &p, n, c, columns);
            spread(k, &p, n, c, columns);
        }
    return QG_OK;
}

static qg_status run(const qg_call *k) { return qg_run_f32(k, deform); }

#define ROW(opset)                                                                     \
    {                                                                                  \
        .name = "DeformConv", .since = (opset), .min_in = 3, .max_in = 5,              \
        .min_out = 1, .max_out = 1, .in_roles = "dwfbf",                               \
        .traits = QG_OP_COMPUTE | QG_OP_PURE | QG_OP_BATCH_FIRST,                      \
        .param_size = sizeof(deform_param), .prepare = prepare, .infer = infer,        \
        .run = run, .weight_axis = qg_conv_axis                                        \
    }
/* clang-format off */
const qg_op qg_ops_deform[] = { ROW(19), ROW(22), { 0 } };
/* clang-format on */
