/* norm.c -- statistics per channel: BatchNormalization, InstanceNormalization,
 * GroupNormalization.  x [N, C, space].
 *
 *     y = (x - mean) / sqrt(variance + epsilon) * scale[c] + bias[c]
 *
 * Batch takes mean and variance as inputs (or computes them over N and space in
 * training mode), Instance computes them per sample and channel, Group per sample and
 * group of channels.  Population variance.  Sums are kept in double, the rest in
 * float32 (float64 too, see util_cast.h).
 * Source: ONNX BatchNormalization-1, 6, 7, 9, 14, 15; InstanceNormalization-1, 6, 22;
 * GroupNormalization-18 (scale per group), 21 (scale per channel).
 *
 * Slots  statistics and factors are never quantized ('f'): before quantization
 * fuse-batchnorm moves them into weights, through affine(). */
#include "ops/families.h"

#include <math.h>

#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_check.h"
#include "ops/util_vector.h"

typedef struct norm_param {
    float epsilon, momentum;
    bool training;
    int64_t groups;
} norm_param;

/* x as [batch, channels, space]; a vector is a batch of one channel. */
typedef struct block {
    int64_t batch, channels, space;
} block;

/* All dims after the channels form one axis. */
static block block_of(const qg_tensor *x)
{
    return (block){ x->dim[0], x->rank > 1 ? x->dim[1] : 1,
                    qg_dims_product(x, 2, x->rank) };
}

/* y = (x - mean) * factor + bias for n elements. */
static void apply(const float *x, double mean, double factor, float bias, int64_t n,
                  float *y)
{
    float m = (float)mean, f = (float)factor;
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - m) * f + bias;
}

typedef struct moments {
    double mean, variance;
} moments;

/* Over `rows` runs of n elements, `step` apart. */
static moments moments_of(const float *x, int64_t rows, int64_t step, int64_t n)
{
    const qg_vector_row *v = qg_vector_best();
    double sum = 0, squares = 0, count = (double)rows * (double)n;
    for (int64_t r = 0; r < rows; r++)
        sum += v->sum(x + r * step, n);
    double mean = count > 0 ? sum / count : 0;
    for (int64_t r = 0; r < rows; r++)
        squares += v->squares(x + r * step, n, mean);
    return (moments){ mean, count > 0 ? squares / count : 0 };
}

/* --- BatchNormalization -------------------------------------------------------- */

/* `spatial` 0 (until 8) means one mean per pixel, which is not supported. */
static qg_status prepare_batch(qg_ctx *ctx, const qg_node *node, void *param)
{
    norm_param *p = param;
    int64_t spatial;
    QG_TRY(qg_attr_float(ctx, node, "epsilon", 1e-5f, &p->epsilon));
    QG_TRY(qg_attr_float(ctx, node, "momentum", 0.9f, &p->momentum));
    QG_TRY(qg_attr_flag(ctx, node, "training_mode", false, &p->training));
    QG_TRY(qg_attr_int(ctx, node, "spatial", 1, &spatial));

    if (!spatial)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", node,
                            "spatial is 0 at opset %d, expected 1", (int)node->opset);
    return QG_OK;
}

/* Outputs 1 and 2 are the running statistics of training mode. */
static qg_status infer_batch(const qg_call *k)
{
    const norm_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int64_t channels = x->rank == 1 ? 1 : qg_in_dim(k, 0, 1);
    QG_TRY(qg_check_rank(k, 0, 1, QG_MAX_RANK));
    QG_TRY(qg_check_types(k, 0, 4, QG_DT_FLOATS));
    for (size_t i = 1; i < 5; i++)
        QG_TRY(qg_check_vector(k, i, channels));
    for (size_t i = 1; i < k->n_out; i++)
        if (k->out[i] && (!p->training || i > 2))
            return qg_infer_fail(k, QG_EUNSUPPORTED,
                                 "output %zu at opset %d, expected statistics only "
                                 "with training_mode from opset 14",
                                 i, (int)k->node->opset);
    qg_set_out(k, 0, x->dtype, x->rank, x->dim);
    qg_set_out(k, 1, k->in[3]->dtype, 1, &channels);
    qg_set_out(k, 2, k->in[4]->dtype, 1, &channels);
    return QG_OK;
}

/* running = momentum * old + (1 - momentum) * seen. */
static void update(qg_tensor *running, const qg_tensor *old, double seen,
                   float momentum, int64_t c)
{
    if (running)
        running->f32[c] = (float)((double)old->f32[c] * (double)momentum +
                                  seen * (1 - (double)momentum));
}

/* One factor and one addend per channel. */
static qg_status batch(const qg_call *k)
{
    const norm_param *p = k->param;
    block b = block_of(k->in[0]);
    const float *x = k->in[0]->f32;
    float *y = k->out[0]->f32;
    int64_t step = b.channels * b.space;
    for (int64_t c = 0; c < b.channels; c++) {
        moments m = { (double)k->in[3]->f32[c], (double)k->in[4]->f32[c] };
        if (p->training) {
            m = moments_of(x + c * b.space, b.batch, step, b.space);
            update(qg_out(k, 1), k->in[3], m.mean, p->momentum, c);
            update(qg_out(k, 2), k->in[4], m.variance, p->momentum, c);
        }
        double factor =
            (double)k->in[1]->f32[c] / sqrt(m.variance + (double)p->epsilon);
        for (int64_t n = 0; n < b.batch; n++)
            apply(x + n * step + c * b.space, m.mean, factor, k->in[2]->f32[c], b.space,
                  y + n * step + c * b.space);
    }
    return QG_OK;
}

static qg_status run_batch(const qg_call *k) { return qg_run_f32(k, batch); }

/* The four parameters must be constants of n elements; training has no fixed affine. */
static qg_status batch_affine(qg_ctx *ctx, const qg_node *node, size_t n, double *scale,
                              double *shift)
{
    const norm_param *p = node->param;
    for (uint32_t i = 1; i < 5; i++) {
        const qg_tensor *t = node->in[i]->constant;
        if (p->training || !t || qg_tensor_count(t) != (int64_t)n)
            return qg_node_fail(
                ctx, QG_EUNSUPPORTED, "affine", node,
                "input %u is not a constant of %zu elements, expected a constant",
                (unsigned)i, n);
    }
    for (size_t c = 0; c < n; c++) {
        double at[5];
        for (uint32_t i = 1; i < 5; i++)
            at[i] = qg_tensor_f64(node->in[i]->constant, (int64_t)c);
        scale[c] = at[1] / sqrt(at[4] + (double)p->epsilon);
        shift[c] = at[2] - at[3] * scale[c];
    }
    return QG_OK;
}

/* On channels-last memory, the parameters are constants. */
static qg_status run_batch_last(const qg_kernel *kernel, const qg_call *k)
{
    qg_vector_best()->channel_norm(kernel->state, k->in[0]->f32, k->out[0]->f32,
                                   qg_tensor_count(k->in[0]));
    return QG_OK;
}

static bool has_batch_last(const qg_compile *c)
{
    const norm_param *p = c->node->param;
    bool fits = c->in_layout[0] == QG_LAYOUT_CHANNELS_LAST && !p->training;
    for (uint32_t i = 0; i < 5; i++)
        fits = fits && c->in[i]->dtype == QG_F32 && (i == 0) == !c->in[i]->data;
    return fits && c->in[0]->rank >= 3 && qg_tensor_count(c->in[0]) > 0;
}

/* Repeated until a run is long enough for vectors. */
static qg_status repeat_parameters(qg_compile *c, qg_channel_norm *b)
{
    enum { LONG = 256 };
    const norm_param *p = c->node->param;
    const int64_t n = c->in[0]->dim[1], period = (LONG + n - 1) / n * n;
    float *at[3];
    for (int i = 0; i < 3; i++)
        if (!(at[i] = QG_NEWN(c->arena, (size_t)period, float)))
            return qg_nomem(c->ctx);
    for (int64_t i = 0; i < period; i++) {
        at[0][i] = c->in[3]->f32[i % n];
        at[1][i] = (float)((double)c->in[1]->f32[i % n] /
                           sqrt((double)c->in[4]->f32[i % n] + (double)p->epsilon));
        at[2][i] = c->in[2]->f32[i % n];
    }
    *b = (qg_channel_norm){
        .period = period, .mean = at[0], .factor = at[1], .bias = at[2]
    };
    return QG_OK;
}

static qg_status batch_compile(qg_compile *c, qg_kernel **out)
{
    *out = NULL;
    if (!has_batch_last(c))
        return QG_OK;
    qg_channel_norm *b = QG_NEW(c->arena, qg_channel_norm);
    qg_kernel *kernel = QG_NEW(c->arena, qg_kernel);
    if (!b || !kernel)
        return qg_nomem(c->ctx);
    QG_TRY(repeat_parameters(c, b));
    *kernel = (qg_kernel){ .run = run_batch_last,
                           .state = b,
                           .in_layout = { QG_LAYOUT_CHANNELS_LAST },
                           .free_axes = ~2u, /* all but the channels */
                           .out_layout = QG_LAYOUT_CHANNELS_LAST,
                           .in_place = 1,
                           .absorbed = qg_absorb_clamp(c, &b->low, &b->high),
                           .name = "normalization channels-last" };
    *out = kernel;
    return QG_OK;
}

/* --- InstanceNormalization ----------------------------------------------------- */

static qg_status prepare_instance(qg_ctx *ctx, const qg_node *node, void *param)
{
    return qg_attr_float(ctx, node, "epsilon", 1e-5f, &((norm_param *)param)->epsilon);
}

/* scale and bias have one element per channel. */
static qg_status infer_instance(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 2));
    QG_TRY(qg_check_rank(k, 0, 2, QG_MAX_RANK));
    QG_TRY(qg_check_vector(k, 1, qg_in_dim(k, 0, 1)));
    QG_TRY(qg_check_vector(k, 2, qg_in_dim(k, 0, 1)));
    return qg_infer_same(k);
}

static qg_status instance(const qg_call *k)
{
    const norm_param *p = k->param;
    block b = block_of(k->in[0]);
    for (int64_t i = 0; i < b.batch * b.channels; i++) {
        const float *x = k->in[0]->f32 + i * b.space;
        int64_t c = i % b.channels;
        moments m = moments_of(x, 1, 0, b.space);
        apply(x, m.mean,
              (double)k->in[1]->f32[c] / sqrt(m.variance + (double)p->epsilon),
              k->in[2]->f32[c], b.space, k->out[0]->f32 + i * b.space);
    }
    return QG_OK;
}

static qg_status run_instance(const qg_call *k) { return qg_run_f32(k, instance); }

/* --- GroupNormalization -------------------------------------------------------- */

static qg_status prepare_group(qg_ctx *ctx, const qg_node *node, void *param)
{
    norm_param *p = param;
    QG_TRY(qg_attr_float(ctx, node, "epsilon", 1e-5f, &p->epsilon));
    QG_TRY(qg_attr_int(ctx, node, "num_groups", 0, &p->groups));
    if (p->groups < 1 || p->groups > QG_MAX_EXTENT)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "num_groups is %lld, expected at least 1",
                            (long long)p->groups);
    return QG_OK;
}

/* Before 21 they have one element per group. */
static qg_status infer_group(const qg_call *k)
{
    const norm_param *p = k->param;
    int64_t channels = qg_in_dim(k, 0, 1);
    int64_t scales = k->node->opset < 21 ? p->groups : channels;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 2));
    QG_TRY(qg_check_rank(k, 0, 2, QG_MAX_RANK));
    if (channels >= 0 && channels % p->groups)
        return qg_infer_fail(k, QG_EMODEL,
                             "%lld channels, expected a multiple of num_groups %lld",
                             (long long)channels, (long long)p->groups);
    QG_TRY(qg_check_vector(k, 1, scales));
    QG_TRY(qg_check_vector(k, 2, scales));
    return qg_infer_same(k);
}

/* Moments over the channels of a group, factors per channel. */
static qg_status group(const qg_call *k)
{
    const norm_param *p = k->param;
    block b = block_of(k->in[0]);
    int64_t each = b.channels / p->groups, size = each * b.space;
    int64_t shared = k->node->opset < 21 ? each : 1; /* channels per scale */
    if (b.channels == 0)
        return QG_OK;
    for (int64_t i = 0; i < b.batch * p->groups; i++) {
        const float *x = k->in[0]->f32 + i * size;
        float *y = k->out[0]->f32 + i * size;
        moments m = moments_of(x, 1, 0, size);
        double inverse = 1 / sqrt(m.variance + (double)p->epsilon);
        for (int64_t j = 0; j < each; j++) {
            int64_t c = (i % p->groups * each + j) / shared;
            apply(x + j * b.space, m.mean, (double)k->in[1]->f32[c] * inverse,
                  k->in[2]->f32[c], b.space, y + j * b.space);
        }
    }
    return QG_OK;
}

static qg_status run_group(const qg_call *k) { return qg_run_f32(k, group); }

/* --- gradients ------------------------------------------------------------------- */

/* Sums over the elements of a channel: of g, and of g times the centred x. */
typedef struct channel_sums {
    double g, along;
} channel_sums;

static channel_sums channel_of(const qg_backward *b, block size, int64_t c, double mean)
{
    channel_sums s = { 0, 0 };
    for (int64_t n = 0; n < size.batch; n++)
        for (int64_t i = 0; i < size.space; i++) {
            const int64_t at = (n * size.channels + c) * size.space + i;
            s.g += (double)b->out[0]->f32[at];
            s.along +=
                (double)b->out[0]->f32[at] * ((double)b->call->in[0]->f32[at] - mean);
        }
    return s;
}

/* The statistics are inputs: an affine map per channel. */
static qg_status backward_batch(const qg_backward *b)
{
    const qg_call *k = b->call;
    const norm_param *p = k->param;
    const block size = block_of(k->in[0]);
    if (p->training)
        return qg_run_fail(k, QG_EUNSUPPORTED,
                           "gradient with training_mode, expected 0");
    for (int64_t c = 0; c < size.channels; c++) {
        const double mean = (double)k->in[3]->f32[c], scale = (double)k->in[1]->f32[c];
        const double variance = (double)k->in[4]->f32[c] + (double)p->epsilon;
        const double inverse = 1 / sqrt(variance);
        const channel_sums s = channel_of(b, size, c, mean);
        const double by[5] = { 0, s.along * inverse, s.g, -s.g * scale * inverse,
                               -0.5 * s.along * scale * inverse / variance };
        for (size_t i = 1; i < 5; i++)
            if (b->in[i])
                b->in[i]->f32[c] = (float)by[i];
        for (int64_t n = 0; b->in[0] && n < size.batch; n++)
            for (int64_t i = 0; i < size.space; i++) {
                const int64_t at = (n * size.channels + c) * size.space + i;
                b->in[0]->f32[at] =
                    (float)((double)b->out[0]->f32[at] * scale * inverse);
            }
    }
    return QG_OK;
}

/* `each` channels are normalized together, `shared` of them have one scale and bias. */
static qg_status backward_rows(const qg_backward *b, int64_t each, int64_t shared)
{
    const qg_call *k = b->call;
    const norm_param *p = k->param;
    const block size = block_of(k->in[0]);
    const int64_t row = each * size.space, scales = size.channels / shared;
    double *sum = qg_arena_get(k->scratch, (size_t)(2 * scales), sizeof *sum);
    double *h = qg_arena_raw(k->scratch, (size_t)row, sizeof *h);
    if (!sum || !h)
        return qg_nomem(k->ctx);
    for (int64_t r = 0; row > 0 && r < size.batch * size.channels / each; r++) {
        const float *x = k->in[0]->f32 + r * row, *g = b->out[0]->f32 + r * row;
        const moments m = moments_of(x, 1, 0, row);
        const qg_normal_row normal = { x, h, m.mean,
                                       1 / sqrt(m.variance + (double)p->epsilon),
                                       true };
        for (int64_t i = 0; i < row; i++) {
            const int64_t c = (r * each + i / size.space) % size.channels / shared;
            h[i] = (double)g[i] * (double)k->in[1]->f32[c];
            sum[c] += (double)g[i] * ((double)x[i] - m.mean) * normal.inverse;
            sum[scales + c] += (double)g[i];
        }
        if (b->in[0])
            qg_backward_normal(&normal, row, b->in[0]->f32 + r * row);
    }
    for (int64_t c = 0; c < scales; c++)
        for (int64_t i = 1; i < 3; i++)
            if (b->in[i])
                b->in[i]->f32[c] = (float)sum[(i - 1) * scales + c];
    return QG_OK;
}

static qg_status backward_instance(const qg_backward *b)
{
    return backward_rows(b, 1, 1);
}

static qg_status backward_group(const qg_backward *b)
{
    const norm_param *p = b->call->param;
    const int64_t each = block_of(b->call->in[0]).channels / p->groups;
    return each > 0 ? backward_rows(b, each, b->call->node->opset < 21 ? each : 1)
                    : QG_OK;
}

#define BATCH(opset, outputs)                                                          \
    {                                                                                  \
        .name = "BatchNormalization", .since = (opset), .min_in = 5, .max_in = 5,      \
        .min_out = 1, .max_out = (outputs), .in_roles = "dffff", .out_roles = "dff",   \
        .traits = QG_OP_NORMALIZE | QG_OP_PURE | QG_OP_BATCH_FIRST | QG_OP_DIVIDES,    \
        .param_size = sizeof(norm_param), .prepare = prepare_batch,                    \
        .infer = infer_batch, .run = run_batch, .compile = batch_compile,              \
        .affine = batch_affine, .backward = backward_batch                             \
    }
#define ROW(onnx, opset, kind)                                                         \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = 3, .max_in = 3, .min_out = 1,        \
        .max_out = 1, .in_roles = "dff", .traits = QG_OP_PURE | QG_OP_BATCH_FIRST,     \
        .param_size = sizeof(norm_param), .prepare = prepare_##kind,                   \
        .infer = infer_##kind, .run = run_##kind, .backward = backward_##kind          \
    }
/* clang-format off */
const qg_op qg_ops_norm[] = {
    BATCH(1, 5),
    BATCH(6, 5),
    BATCH(7, 5),
    BATCH(9, 5),
    BATCH(14, 3),
    BATCH(15, 3),
    ROW("InstanceNormalization", 1, instance),
    ROW("InstanceNormalization", 6, instance),
    ROW("InstanceNormalization", 22, instance),
    ROW("GroupNormalization", 18, group),
    ROW("GroupNormalization", 21, group),
    { 0 },
};
/* clang-format on */
