/* pool.c -- windows over space: MaxPool, AveragePool, LpPool, their global forms, and
 * MaxUnpool.  x [N, C, space], up to three spatial axes (any number for the globals).
 *
 * float16, bfloat16 and 8-bit integers are computed in float32, float64 in float64.
 * Source: ONNX MaxPool-1, 8 (indices), 10 (dilations, ceil_mode), 12 (8-bit), 22;
 * AveragePool-1, 7 (count_include_pad), 10, 19 (dilations), 22; LpPool-1, 2, 11, 18,
 * 22; GlobalAveragePool-1, GlobalMaxPool-1, GlobalLpPool-1, 2; MaxUnpool-9, 11, 22.
 *
 * Maxima are PASSIVE and MONOTONE: they preserve codes; averages and norms compute new
 * values.  Indices of MaxPool are 's'. */
#include "ops/families.h"

#include <string.h>

#include "engine/accel/kernels.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"
#include "ops/util_window.h"
#include "ops/util_vector.h"

#define NARROW (QG_DT(F16) | QG_DT(BF16) | QG_DT_BYTES)

typedef struct pool_param {
    qg_window window;
    enum qg_pool_kind kind;
    bool count_pad, column_major;
    double norm;
} pool_param;

/* storage_order affects only the indices. */
static qg_status prepare_max(qg_ctx *ctx, const qg_node *node, void *param)
{
    pool_param *p = param;
    p->kind = QG_POOL_MAX;
    QG_TRY(qg_attr_flag(ctx, node, "storage_order", false, &p->column_major));

    return qg_window_read(ctx, node, &p->window);
}

/* Whether padding counts in the divisor. */
static qg_status prepare_average(qg_ctx *ctx, const qg_node *node, void *param)
{
    pool_param *p = param;
    p->kind = QG_POOL_AVERAGE;
    QG_TRY(qg_attr_flag(ctx, node, "count_include_pad", false, &p->count_pad));

    return qg_window_read(ctx, node, &p->window);
}

/* The exponent was a float before opset 2. */
static qg_status read_norm(qg_ctx *ctx, const qg_node *node, double *norm)
{
    const qg_attr *a = qg_attr_find(node, "p");
    float real = 2;
    int64_t whole = 2;
    if (a && a->type == QG_ATTR_FLOAT)
        QG_TRY(qg_attr_float(ctx, node, "p", 2, &real));
    else
        QG_TRY(qg_attr_int(ctx, node, "p", 2, &whole));
    *norm = a && a->type == QG_ATTR_FLOAT ? (double)real : (double)whole;
    if (!(*norm > 0))
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "p is %g, expected more than 0", *norm);
    return QG_OK;
}

static qg_status prepare_lp(qg_ctx *ctx, const qg_node *node, void *param)
{
    pool_param *p = param;
    p->kind = QG_POOL_LP;
    QG_TRY(read_norm(ctx, node, &p->norm));
    return qg_window_read(ctx, node, &p->window);
}

/* MaxPool accepts 8-bit types since 12; both outputs have the same shape. */
static qg_status infer_pool(const qg_call *k)
{
    const pool_param *p = k->param;
    const qg_tensor *x = k->in[0];
    uint64_t bytes = p->kind == QG_POOL_MAX ? QG_DT_BYTES : 0;
    int64_t dim[QG_MAX_RANK];
    qg_space s;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS | bytes));
    QG_TRY(qg_check_rank(k, 0, 3, QG_SPACE + 2));
    if (x->rank >= 0) {
        QG_TRY(qg_window_resolve(k, &p->window, x, NULL, &s));
        dim[0] = x->dim[0];
        dim[1] = x->dim[1];
        qg_space_dims(&s, dim);
    }
    qg_set_out(k, 0, x->dtype, x->rank, dim);
    qg_set_out(k, 1, QG_I64, x->rank, dim);
    return QG_OK;
}

/* The definition for the element type. */
static void compute(const qg_call *k, const qg_pool_problem *p)
{
    const qg_tensor *x = k->in[0], *index = qg_out(k, 1);
    if (x->dtype == QG_F64)
        qg_ref_pool_f64(p, x->f64, k->out[0]->f64, index ? index->i64 : NULL);
    else
        qg_ref_pool_f32(p, x->f32, k->out[0]->f32, index ? index->i64 : NULL);
}

/* The window fitted to this shape, for the definition or for a library. */
static qg_status problem_of(const qg_call *k, qg_pool_problem *out)
{
    const pool_param *p = k->param;
    const qg_tensor *x = k->in[0];
    qg_space s;
    QG_TRY(qg_window_resolve(k, &p->window, x, NULL, &s));
    qg_pool_problem q = { .kind = p->kind,
                          .batch = x->dim[0],
                          .channels = x->dim[1],
                          .count_pad = p->count_pad,
                          .column_major = p->column_major,
                          .norm = p->norm };
    for (int a = 0; a < QG_SPACE; a++) {
        q.in[a] = s.in[a];
        q.out[a] = s.out[a];
        q.kernel[a] = s.kernel[a];
        q.stride[a] = s.stride[a];
        q.dilation[a] = s.dilation[a];
        q.pad_begin[a] = s.pad_begin[a];
        q.pad_end[a] = s.pad_end[a];
    }
    *out = q;
    return QG_OK;
}

static qg_status pool(const qg_call *k)
{
    qg_pool_problem q;
    QG_TRY(problem_of(k, &q));
    compute(k, &q);
    return QG_OK;
}

/* Offers the problem to the kernel library, which may decline. */
static qg_status compile_pool(qg_compile *c, qg_kernel **out)
{
    qg_pool_problem q;
    qg_call k = qg_compile_call(c);
    QG_TRY(problem_of(&k, &q));
    return qg_accel_pool(c, &q, out);
}

static qg_status run_pool(const qg_call *k)
{
    return qg_run_as(k, NARROW, QG_F32, pool);
}

static qg_status prepare_global_max(qg_ctx *ctx, const qg_node *node, void *param)
{
    (void)ctx, (void)node;
    ((pool_param *)param)->kind = QG_POOL_MAX;
    return QG_OK;
}

static qg_status prepare_global_average(qg_ctx *ctx, const qg_node *node, void *param)
{
    (void)ctx, (void)node;
    ((pool_param *)param)->kind = QG_POOL_AVERAGE;
    return QG_OK;
}

static qg_status prepare_global_lp(qg_ctx *ctx, const qg_node *node, void *param)
{
    pool_param *p = param;
    p->kind = QG_POOL_LP;
    return read_norm(ctx, node, &p->norm);
}

/* Every spatial dim becomes 1. */
static qg_status infer_global(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK];
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_rank(k, 0, 2, QG_MAX_RANK));
    for (int32_t i = 0; i < x->rank; i++)
        dim[i] = i < 2 ? x->dim[i] : 1;
    return qg_infer_dims(k, x->dtype, x->rank, dim);
}

/* One window over everything: the spatial axes are one long axis. */
static qg_pool_problem global_problem(const qg_call *k)
{
    const pool_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int64_t all = qg_dims_product(x, 2, x->rank);
    return (qg_pool_problem){
        .kind = p->kind,
        .batch = x->dim[0],
        .channels = x->dim[1],
        .in = {1,  1, all},
        .out = { 1, 1, 1  },
        .kernel = { 1, 1, all},
        .stride = { 1, 1, 1  },
        .dilation = { 1, 1, 1  },
        .norm = p->norm
    };
}

static qg_status global(const qg_call *k)
{
    qg_pool_problem q = global_problem(k);
    compute(k, &q);
    return QG_OK;
}

static qg_status run_global(const qg_call *k)
{
    return qg_run_as(k, NARROW, QG_F32, global);
}

/* Channels that one pass of column_means takes. */
enum { MEAN_BLOCK = 32 };

/* The definition's sums, of columns of channels-last memory: channels from .. to. */
static void mean_last(const qg_call *k, int64_t from, int64_t to)
{
    const qg_tensor *x = k->in[0];
    const int64_t space = qg_dims_product(x, 2, x->rank), channels = x->dim[1];
    for (int64_t n = 0; n < x->dim[0]; n++)
        qg_vector_best()->column_means(space, to - from, channels,
                                       x->f32 + n * space * channels + from,
                                       k->out[0]->f32 + n * channels + from);
}

static qg_status run_mean_last(const qg_kernel *kernel, const qg_call *k)
{
    (void)kernel;
    mean_last(k, 0, k->in[0]->dim[1]);
    return QG_OK;
}

/* A range of blocks of channels. */
static qg_status part_mean_last(const qg_kernel *kernel, const qg_call *k, uint32_t i)
{
    const int64_t channels = k->in[0]->dim[1], n = kernel->parts;
    const int64_t blocks = (channels + MEAN_BLOCK - 1) / MEAN_BLOCK;
    const int64_t to = blocks * (i + 1) / n * MEAN_BLOCK;
    mean_last(k, blocks * i / n * MEAN_BLOCK, to < channels ? to : channels);
    return QG_OK;
}

static qg_status compile_mean_last(qg_compile *c, qg_kernel **out)
{
    static const double element = 8; /* sums in double: of so many multiplications */
    const qg_tensor *x = c->in[0];
    *out = QG_NEW(c->arena, qg_kernel);
    if (!*out)
        return qg_nomem(c->ctx);
    **out = (qg_kernel){ .run = run_mean_last,
                         .parts = qg_compile_parts(
                             c, (x->dim[1] + MEAN_BLOCK - 1) / MEAN_BLOCK,
                             element * (double)qg_tensor_count(x)),
                         .part = part_mean_last,
                         .in_layout = { QG_LAYOUT_CHANNELS_LAST },
                         .out_layout = QG_LAYOUT_CHANNELS_LAST,
                         .name = "means of columns" };
    return QG_OK;
}

static qg_status compile_global(qg_compile *c, qg_kernel **out)
{
    qg_call k = qg_compile_call(c);
    const qg_tensor *x = c->in[0];
    if (((const pool_param *)k.param)->kind == QG_POOL_AVERAGE && x->dtype == QG_F32 &&
        x->rank >= 3 && !x->data && qg_tensor_count(x) > 0)
        return compile_mean_last(c, out);
    qg_pool_problem q = global_problem(&k);
    return qg_accel_pool(c, &q, out);
}

/* --- gradients ------------------------------------------------------------------- */

static void backward_of(const qg_backward *b, const qg_pool_problem *p)
{
    memset(b->in[0]->data, 0, qg_elements(b->in[0]) * sizeof *b->in[0]->f32);
    qg_ref_pool_backward(p, b->call->in[0]->f32, b->out[0]->f32, b->in[0]->f32);
}

static qg_status backward_pool(const qg_backward *b)
{
    qg_pool_problem q;
    QG_TRY(problem_of(b->call, &q));
    backward_of(b, &q);
    return QG_OK;
}

static qg_status backward_global(const qg_backward *b)
{
    const qg_pool_problem q = global_problem(b->call);
    backward_of(b, &q);
    return QG_OK;
}

/* --- MaxUnpool ----------------------------------------------------------------- */

/* The input shape of the pooling: the transpose of its window. */
static qg_status unpooled(const qg_call *k, int64_t dim[QG_MAX_RANK])
{
    qg_space s;
    QG_TRY(qg_window_resolve_transpose(k, k->param, k->in[0], NULL, &s));
    dim[0] = k->in[0]->dim[0];
    dim[1] = k->in[0]->dim[1];
    qg_space_dims(&s, dim);
    return QG_OK;
}

/* The output shape may be given, and may exceed that of the window. */
static qg_status infer_unpool(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK];
    qg_ints shape;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_types(k, 1, 2, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 3, QG_SPACE + 2));
    for (int32_t i = 0; i < x->rank; i++)
        QG_TRY(qg_check_dim(k, 1, i, x->dim[i]));
    if (x->rank < 0 || qg_ints_pending(k, 2))
        return qg_infer_dims(k, x->dtype, -1, NULL);
    QG_TRY(qg_check_rank(k, 1, x->rank, x->rank));
    QG_TRY(unpooled(k, dim));
    QG_TRY(qg_ints_input(k, 2, &shape));
    if (shape.given && shape.n != (size_t)x->rank)
        return qg_infer_fail(k, QG_EMODEL, "output_shape has %zu values, expected %d",
                             shape.n, (int)x->rank);
    for (int32_t i = 0; shape.given && i < x->rank; i++) {
        if (shape.at[i] < dim[i] || shape.at[i] > QG_MAX_EXTENT)
            return qg_infer_fail(k, QG_EMODEL,
                                 "output_shape[%d] is %lld, expected at least %lld",
                                 (int)i, (long long)shape.at[i], (long long)dim[i]);
        dim[i] = shape.at[i];
    }
    return qg_infer_dims(k, x->dtype, x->rank, dim);
}

/* Position `at` of the unpooled shape, as a position of y, which may be larger. */
static int64_t placed(int64_t at, const int64_t *dim, const qg_tensor *y)
{
    int64_t to = 0;
    for (int32_t i = y->rank - 1; i >= 0; i--) {
        to += at % dim[i] * y->stride[i];
        at /= dim[i];
    }
    return to;
}

/* Indices are data and may repeat: the last one wins. */
static qg_status unpool(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *index = k->in[1];
    qg_tensor *y = k->out[0];
    int64_t dim[QG_MAX_RANK], n = qg_tensor_count(x), room = 1;
    QG_TRY(unpooled(k, dim));
    for (int32_t i = 0; i < y->rank; i++)
        room *= dim[i];
    memset(y->data, 0, (size_t)qg_tensor_count(y) * sizeof *y->f32);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index->i64[i];
        if (at < 0 || at >= room)
            return qg_run_fail(k, QG_EDATA,
                               "index %lld at %lld, expected within [0, %lld)",
                               (long long)at, (long long)i, (long long)room);
        y->f32[placed(at, dim, y)] = x->f32[i];
    }
    return QG_OK;
}

static qg_status run_unpool(const qg_call *k) { return qg_run_f32(k, unpool); }

static qg_status lower_max(qg_lower *l)
{
    return qg_lower_on_codes(l, QG_USE_MAX_POOL);
}

/* All places of a channel in one sum. */
static qg_status lower_whole(qg_lower *l, qg_kernel_use use)
{
    int64_t axes[QG_MAX_RANK];
    size_t n = 0;
    for (int32_t i = 2; i < l->node->in[0]->type.rank; i++)
        axes[n++] = i;
    l->n_attr = 0; /* those of a window */
    QG_TRY(qg_lower_set_ints(l, "axes", QG_ATTR_INTS, axes, n));
    QG_TRY(qg_lower_set_int(l, "keepdims", 1));
    return qg_lower_all(l, "IntMean", use, 1);
}

static qg_status lower_global_average(qg_lower *l)
{
    return lower_whole(l, QG_USE_GLOBAL_POOL);
}

/* One window, equal to the map: runtimes with a row for it sum as GlobalAveragePool. */
static bool is_whole(const qg_lower *l)
{
    const qg_window *w = &((const pool_param *)l->node->param)->window;
    const qg_tensor *x = &l->node->in[0]->type;
    bool same = w->auto_pad == QG_PAD_SAME_UPPER || w->auto_pad == QG_PAD_SAME_LOWER;
    bool whole = x->rank == (int32_t)w->n_kernel + 2;
    for (uint32_t i = 0; whole && i < w->n_kernel; i++) {
        int64_t in = x->dim[i + 2], stride = i < w->n_stride ? w->stride[i] : 1;
        bool pads = w->n_pad && (w->pad[i] || w->pad[i + w->n_kernel]);
        whole = w->kernel[i] == in &&
                (same ? stride >= in : w->auto_pad == QG_PAD_VALID || !pads);
    }
    return whole;
}

/* What the integer forms do not have: dilations, three axes, a count of the padding. */
static qg_status lower_average(qg_lower *l)
{
    const pool_param *p = l->node->param;
    if (p->window.n_kernel > 2)
        return qg_lower_refuse(l, "%u axes, expected 1 or 2",
                               (unsigned)p->window.n_kernel);
    for (uint32_t i = 0; i < p->window.n_kernel; i++) {
        const int64_t *pad = p->window.pad;
        if (i < p->window.n_dilation && p->window.dilation[i] != 1)
            return qg_lower_refuse(l, "dilations, expected 1");
        if (p->window.n_pad && (pad[i] >= p->window.kernel[i] ||
                                pad[i + p->window.n_kernel] >= p->window.kernel[i]))
            return qg_lower_refuse(l, "pads as large as the kernel, expected less");
    }
    if (!qg_lower_wants_codes(l, 1))
        return QG_OK;
    if (is_whole(l) && qg_profile_uses(l->profile, QG_USE_WHOLE_POOL))
        return lower_whole(l, QG_USE_WHOLE_POOL);
    const qg_profile_row *row = qg_lower_row(l, QG_USE_AVERAGE_POOL);
    if (!row)
        return QG_OK;
    if (row->form == QG_FORM_INTEGER && p->count_pad)
        return qg_lower_refuse(l, "count_include_pad, expected 0 for form integer");
    if (row->form == QG_FORM_INTEGER && !qg_lower_wants_same(l, 0))
        return QG_OK;
    if (row->form == QG_FORM_FLOAT_ROWS && l->snapshot &&
        (p->window.n_dilation || qg_node_counts_beyond(l->node)))
        return qg_lower_refuse(l, "dilations, or a window that counts elements behind "
                                  "the padding (ceil_mode): qg export keeps the "
                                  "operator in float");
    return qg_lower_emit(l, "IntAveragePool", row, &l->in[0].value, 1);
}

/* ONNX has int8 for MaxPool, not here. */
static qg_status lower_global_max(qg_lower *l)
{
    return qg_lower_refuse(l,
                           "the operator takes floats alone, and MaxPool takes codes, "
                           "expected a MaxPool whose kernel is the whole map");
}

#define lower_lp        NULL
#define lower_global_lp NULL

#define MAX_TRAITS                                                                     \
    (QG_OP_POOLING | QG_OP_PASSIVE | QG_OP_MONOTONE | QG_OP_HOMOGENEOUS | QG_OP_PURE | \
     QG_OP_BATCH_FIRST)
#define MEAN_TRAITS                                                                    \
    (QG_OP_POOLING | QG_OP_MONOTONE | QG_OP_HOMOGENEOUS | QG_OP_PURE |                 \
     QG_OP_BATCH_FIRST)
#define NORM_TRAITS (QG_OP_POOLING | QG_OP_PURE | QG_OP_BATCH_FIRST)
#define ROW(onnx, opset, outputs, read, size, bits)                                    \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = 1, .max_in = 1, .min_out = 1,        \
        .max_out = (outputs), .in_roles = "d", .out_roles = "ds", .traits = (bits),    \
        .param_size = sizeof(pool_param), .prepare = prepare_##read,                   \
        .infer = infer_##size, .run = run_##size, .compile = compile_##size,           \
        .lower = lower_##read,                                                         \
        .backward = (bits) == NORM_TRAITS ? NULL : backward_##size                     \
    }
#define UNPOOL(opset)                                                                  \
    {                                                                                  \
        .name = "MaxUnpool", .since = (opset), .min_in = 2, .max_in = 3, .min_out = 1, \
        .max_out = 1, .in_roles = "dss", .traits = QG_OP_PASSIVE | QG_OP_PURE,         \
        .param_size = sizeof(qg_window), .prepare = qg_window_read,                    \
        .infer = infer_unpool, .run = run_unpool                                       \
    }
/* clang-format off */
const qg_op qg_ops_pool[] = {
    ROW("MaxPool", 1, 1, max, pool, MAX_TRAITS),
    ROW("MaxPool", 8, 2, max, pool, MAX_TRAITS),
    ROW("MaxPool", 10, 2, max, pool, MAX_TRAITS),
    ROW("MaxPool", 11, 2, max, pool, MAX_TRAITS),
    ROW("MaxPool", 12, 2, max, pool, MAX_TRAITS),
    ROW("MaxPool", 22, 2, max, pool, MAX_TRAITS),
    ROW("AveragePool", 1, 1, average, pool, MEAN_TRAITS),
    ROW("AveragePool", 7, 1, average, pool, MEAN_TRAITS),
    ROW("AveragePool", 10, 1, average, pool, MEAN_TRAITS),
    ROW("AveragePool", 11, 1, average, pool, MEAN_TRAITS),
    ROW("AveragePool", 19, 1, average, pool, MEAN_TRAITS),
    ROW("AveragePool", 22, 1, average, pool, MEAN_TRAITS),
    ROW("LpPool", 1, 1, lp, pool, NORM_TRAITS),
    ROW("LpPool", 2, 1, lp, pool, NORM_TRAITS),
    ROW("LpPool", 11, 1, lp, pool, NORM_TRAITS),
    ROW("LpPool", 18, 1, lp, pool, NORM_TRAITS),
    ROW("LpPool", 22, 1, lp, pool, NORM_TRAITS),
    ROW("GlobalMaxPool", 1, 1, global_max, global, MAX_TRAITS),
    ROW("GlobalMaxPool", 22, 1, global_max, global, MAX_TRAITS),
    ROW("GlobalAveragePool", 1, 1, global_average, global, MEAN_TRAITS),
    ROW("GlobalAveragePool", 22, 1, global_average, global, MEAN_TRAITS),
    ROW("GlobalLpPool", 1, 1, global_lp, global, NORM_TRAITS),
    ROW("GlobalLpPool", 2, 1, global_lp, global, NORM_TRAITS),
    ROW("GlobalLpPool", 22, 1, global_lp, global, NORM_TRAITS),
    UNPOOL(9),
    UNPOOL(11),
    UNPOOL(22),
    { 0 },
};
/* clang-format on */
