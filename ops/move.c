/* move.c -- operators that move elements without changing them: Transpose, Expand,
 * Tile, DepthToSpace, SpaceToDepth, ReverseSequence.
 *
 * Each is one walk (util_broadcast.h) over the output with strides into the input.
 * Packed types are converted to float32, which represents all their values.
 * Source: the ONNX operator page of the same name.
 *
 * Transpose-1, 13, 21, 23; DepthToSpace-1, 11 (mode), 13; SpaceToDepth-1, 13;
 * Expand-8, 13; Tile-6, 13; ReverseSequence-10.  All are PASSIVE: the output follows
 * the input's scale. */
#include "ops/families.h"

#include "engine/core/num.h"
#include "engine/ir/kernel.h"
#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"

static bool is_packed(const qg_call *k)
{
    return QG_DT_HAS(QG_DT_PACKED, k->in[0]->dtype);
}

/* Through float32, which represents every value of 2 and 4 bits. */
static qg_status run_unpacked(const qg_call *k)
{
    return qg_run_as(k, QG_DT_PACKED, QG_F32, k->node->op->run);
}

/* Copies input 0, viewed with `rank` dims (plain) and permuted axes, to output 0. */
static void copy_permuted(const qg_call *k, int32_t rank, const int64_t *dim,
                          const int32_t *perm)
{
    int64_t stride[QG_MAX_RANK], step = 1, out_dim[QG_MAX_RANK], in_stride[QG_MAX_RANK];
    int64_t out_stride[QG_MAX_RANK];
    /* Strides of empty tensors may be beyond int64. */
    if (qg_tensor_count(k->out[0]) == 0)
        return;
    for (int32_t i = rank - 1; i >= 0; step *= dim[i--])
        stride[i] = step;
    for (int32_t i = 0; i < rank; i++) {
        out_dim[i] = dim[perm[i]];
        in_stride[i] = stride[perm[i]];
    }
    step = 1;
    for (int32_t i = rank - 1; i >= 0; step *= out_dim[i--])
        out_stride[i] = step;
    qg_walk w;
    qg_walk_pair(&w, rank, out_dim, out_stride, in_stride);
    qg_walk_copy(&w, qg_element_size(k->in[0]->dtype), k->out[0]->data, k->in[0]->data);
}

/* Transpose: dim i of y is dim perm[i] of x; reversed without perm. */
typedef struct transpose_param {
    qg_ints perm;
} transpose_param;

static qg_status transpose_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_ints_attr(ctx, n, "perm", &((transpose_param *)param)->perm);
}

/* perm contains each axis once. */
static qg_status read_perm(const qg_call *k, int32_t perm[QG_MAX_RANK])
{
    const qg_ints *given = &((const transpose_param *)k->param)->perm;
    const int32_t rank = k->in[0]->rank;
    uint32_t seen;
    for (int32_t i = 0; i < rank; i++)
        perm[i] = rank - 1 - i;
    if (!given->given)
        return QG_OK;
    if (given->n != (size_t)rank)
        return qg_infer_fail(k, QG_EMODEL, "perm has %zu values, expected %d", given->n,
                             (int)rank);
    QG_TRY(qg_axes_mask(k, given, rank, &seen));
    for (int32_t i = 0; i < rank; i++)
        perm[i] = (int32_t)(given->at[i] < 0 ? given->at[i] + rank : given->at[i]);
    return QG_OK;
}

static qg_status transpose_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int32_t perm[QG_MAX_RANK];
    int64_t dim[QG_MAX_RANK];
    QG_TRY(qg_check_type(k, 0, QG_DT_ANY));
    if (x->rank >= 0)
        QG_TRY(read_perm(k, perm));
    for (int32_t i = 0; i < x->rank; i++)
        dim[i] = x->dim[perm[i]];
    return qg_infer_dims(k, x->dtype, x->rank, dim);
}

static qg_status transpose_run(const qg_call *k)
{
    int32_t perm[QG_MAX_RANK];
    if (is_packed(k))
        return run_unpacked(k);
    QG_TRY(read_perm(k, perm));
    copy_permuted(k, k->in[0]->rank, k->in[0]->dim, perm);
    return QG_OK;
}

/* N,C,space -> N,space,C of channels-last memory is that memory, and back again. */
static qg_status same_memory_run(const qg_kernel *kernel, const qg_call *k)
{
    (void)kernel;
    if (k->out[0]->data != k->in[0]->data)
        memcpy(k->out[0]->data, k->in[0]->data,
               (size_t)qg_tensor_count(k->in[0]) * qg_element_size(k->in[0]->dtype));
    return QG_OK;
}

/* Whether the permutation is that between plain and channels-last. */
static bool moves_channels(const int32_t *perm, int32_t rank, bool to_last)
{
    for (int32_t i = 1; i < rank; i++) {
        int32_t last = i + 1 < rank ? i + 1 : 1, first = i == 1 ? rank - 1 : i - 1;
        if (perm[i] != (to_last ? last : first))
            return false;
    }
    return rank >= 3 && perm[0] == 0;
}

/* A transposition that only changes the layout is free: the kernel keeps the memory and
 * relabels it. */
static qg_status transpose_compile(qg_compile *c, qg_kernel **out)
{
    int32_t perm[QG_MAX_RANK], rank = c->in[0]->rank;
    qg_call k = qg_compile_call(c);
    bool is_last = c->in_layout[0] == QG_LAYOUT_CHANNELS_LAST;
    *out = NULL;
    QG_TRY(read_perm(&k, perm));
    if (is_packed(&k) || !moves_channels(perm, rank, is_last))
        return QG_OK;
    qg_kernel *kernel = QG_NEW(c->arena, qg_kernel);
    if (!kernel)
        return qg_nomem(c->ctx);
    *kernel =
        (qg_kernel){ .run = same_memory_run,
                     .in_layout = { c->in_layout[0] },
                     .out_layout = is_last ? QG_LAYOUT_PLAIN : QG_LAYOUT_CHANNELS_LAST,
                     .in_place = 1,
                     .name = "transpose of layout only" };
    *out = kernel;
    return QG_OK;
}

/* DepthToSpace and SpaceToDepth: blocks of b x b pixels become channels or come from
 * them.  Mode DCR: the block is the slow-varying part of the channel; CRD: the
 * fast-varying part. */
typedef struct block_param {
    int64_t size;
    int crd;
} block_param;

/* The limit keeps b * b within 2^30. */
static qg_status block_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const char *const modes[] = { "DCR", "CRD", NULL };
    block_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "blocksize", 0, &p->size));
    if (p->size < 1 || p->size > 1 << 15)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "blocksize %lld, expected 1 to 32768", (long long)p->size);
    return qg_attr_choice(ctx, n, "mode", modes, 0, &p->crd);
}

static int64_t times(int64_t dim, int64_t by) { return dim < 0 ? -1 : dim * by; }

/* dim / by, or QG_EMODEL. */
static qg_status divide(const qg_call *k, int32_t axis, int64_t by, int64_t *out)
{
    const int64_t dim = k->in[0]->dim[axis];
    if (dim >= 0 && dim % by != 0)
        return qg_infer_fail(k, QG_EMODEL,
                             "dim %d is %lld, expected a multiple of %lld", (int)axis,
                             (long long)dim, (long long)by);
    *out = dim < 0 ? -1 : dim / by;
    return QG_OK;
}

/* To space, channels are divided by b * b and both extents multiplied by b; to depth,
 * the other way round. */
static qg_status block_infer(const qg_call *k, bool to_space)
{
    const int64_t b = ((const block_param *)k->param)->size;
    const qg_tensor *x = k->in[0];
    int64_t dim[4] = { -1, -1, -1, -1 };
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    QG_TRY(qg_check_rank(k, 0, 4, 4));
    if (x->rank == 4) {
        dim[0] = x->dim[0];
        dim[1] = times(x->dim[1], b * b);
        for (int32_t i = to_space ? 1 : 2; i < (to_space ? 2 : 4); i++)
            QG_TRY(divide(k, i, to_space ? b * b : b, &dim[i]));
        for (int32_t i = 2; i < 4 && to_space; i++)
            dim[i] = times(x->dim[i], b);
    }
    return qg_infer_dims(k, x->dtype, 4, dim);
}

static qg_status depth_to_space_infer(const qg_call *k) { return block_infer(k, true); }
static qg_status space_to_depth_infer(const qg_call *k)
{
    return block_infer(k, false);
}

/* As a transposition of six dims. */
static qg_status depth_to_space_run(const qg_call *k)
{
    const block_param *p = k->param;
    const int64_t b = p->size, *d = k->in[0]->dim, c = d[1] / (b * b);
    const int64_t dcr[6] = { d[0], b, b, c, d[2], d[3] };
    const int64_t crd[6] = { d[0], c, b, b, d[2], d[3] };
    const int32_t dcr_perm[6] = { 0, 3, 4, 1, 5, 2 },
                  crd_perm[6] = { 0, 1, 4, 2, 5, 3 };
    copy_permuted(k, 6, p->crd ? crd : dcr, p->crd ? crd_perm : dcr_perm);
    return QG_OK;
}

/* The inverse of DCR, or of CRD. */
static qg_status space_to_depth_run(const qg_call *k)
{
    const block_param *p = k->param;
    const int64_t b = p->size, *d = k->in[0]->dim;
    const int64_t blocks[6] = { d[0], d[1], d[2] / b, b, d[3] / b, b };
    const int32_t dcr_perm[6] = { 0, 3, 5, 1, 2, 4 },
                  crd_perm[6] = { 0, 1, 3, 5, 2, 4 };
    copy_permuted(k, 6, blocks, p->crd ? crd_perm : dcr_perm);
    return QG_OK;
}

/* The same on channels-last memory, whose order is N, height, width, C. */
static qg_status depth_to_space_last(const qg_kernel *kernel, const qg_call *k)
{
    const block_param *p = k->param;
    const int64_t b = p->size, *d = k->in[0]->dim, c = d[1] / (b * b);
    const int64_t dcr[6] = { d[0], d[2], d[3], b, b, c };
    const int64_t crd[6] = { d[0], d[2], d[3], c, b, b };
    const int32_t dcr_perm[6] = { 0, 1, 3, 2, 4, 5 },
                  crd_perm[6] = { 0, 1, 4, 2, 5, 3 };
    (void)kernel;
    copy_permuted(k, 6, p->crd ? crd : dcr, p->crd ? crd_perm : dcr_perm);
    return QG_OK;
}

static qg_status space_to_depth_last(const qg_kernel *kernel, const qg_call *k)
{
    const block_param *p = k->param;
    const int64_t b = p->size, *d = k->in[0]->dim;
    const int64_t blocks[6] = { d[0], d[2] / b, b, d[3] / b, b, d[1] };
    const int32_t dcr_perm[6] = { 0, 1, 3, 2, 4, 5 },
                  crd_perm[6] = { 0, 1, 3, 5, 2, 4 };
    (void)kernel;
    copy_permuted(k, 6, blocks, p->crd ? crd_perm : dcr_perm);
    return QG_OK;
}

/* Where the input is channels-last already. */
static qg_status compile_blocks(qg_compile *c, bool to_space, qg_kernel **out)
{
    qg_call k = qg_compile_call(c);
    *out = NULL;
    if (c->in_layout[0] != QG_LAYOUT_CHANNELS_LAST || is_packed(&k))
        return QG_OK;
    *out = QG_NEW(c->arena, qg_kernel);
    if (!*out)
        return qg_nomem(c->ctx);
    **out = (qg_kernel){ .run = to_space ? depth_to_space_last : space_to_depth_last,
                         .in_layout = { QG_LAYOUT_CHANNELS_LAST },
                         .out_layout = QG_LAYOUT_CHANNELS_LAST,
                         .name = "blocks channels-last" };
    return QG_OK;
}

static qg_status depth_to_space_compile(qg_compile *c, qg_kernel **out)
{
    return compile_blocks(c, true, out);
}

static qg_status space_to_depth_compile(qg_compile *c, qg_kernel **out)
{
    return compile_blocks(c, false, out);
}

/* Expand: broadcast of x with the shape in input 1. */
static qg_status expand_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_tensor shape_as_tensor;
    qg_ints shape;
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    if (qg_ints_pending(k, 1)) {
        const int64_t unknown[QG_MAX_RANK] = { -1, -1, -1, -1, -1, -1, -1, -1 };
        int64_t rank = qg_in_dim(k, 1, 0);
        rank = x->rank < 0 || rank > QG_MAX_RANK || rank < 0 ? -1
               : rank > x->rank                              ? rank
                                                             : x->rank;
        return qg_infer_dims(k, x->dtype, (int32_t)rank, unknown);
    }
    QG_TRY(qg_ints_input(k, 1, &shape));
    QG_TRY(qg_check_shape(k, &shape));
    qg_tensor_init(&shape_as_tensor, x->dtype, (int32_t)shape.n, shape.at);
    qg_call both = *k;
    both.in = (const qg_tensor *const[]){ x, &shape_as_tensor };
    return qg_infer_broadcast(&both, 0, 2, x->dtype);
}

/* Broadcast dims have stride 0. */
static qg_status expand_run(const qg_call *k)
{
    qg_stretch(k->in[0], k->out[0]);
    return QG_OK;
}

/* Tile: input 1 holds the repetitions of each axis. */
static qg_status tile_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    qg_ints times_of;
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    if (!qg_ints_pending(k, 1) && x->rank >= 0) {
        QG_TRY(qg_ints_input(k, 1, &times_of));
        if (times_of.n != (size_t)x->rank)
            return qg_infer_fail(k, QG_EMODEL, "%zu repeats, expected %d", times_of.n,
                                 (int)x->rank);
        QG_TRY(qg_check_shape(k, &times_of));
        for (int32_t i = 0; i < x->rank; i++)
            if (x->dim[i] >= 0 && !qg_mul_i64(x->dim[i], times_of.at[i], &dim[i]))
                return qg_infer_fail(k, QG_EMODEL, "dim %d overflows int64", (int)i);
    }
    return qg_infer_dims(k, x->dtype, x->rank, dim);
}

/* Each dim twice: repetitions, and the dim itself. */
static qg_status tile_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *y = k->out[0];
    int64_t dim[QG_WALK_RANK], to[QG_WALK_RANK], from[QG_WALK_RANK];
    for (int32_t i = 0; i < x->rank; i++) {
        dim[2 * i] = x->dim[i] ? y->dim[i] / x->dim[i] : 0;
        to[2 * i] = x->dim[i] * y->stride[i];
        from[2 * i] = 0;
        dim[2 * i + 1] = x->dim[i];
        to[2 * i + 1] = y->stride[i];
        from[2 * i + 1] = x->stride[i];
    }
    qg_walk w;
    qg_walk_pair(&w, 2 * x->rank, dim, to, from);
    qg_walk_copy(&w, qg_element_size(x->dtype), y->data, x->data);
    return QG_OK;
}

/* ReverseSequence: the first lens[b] steps of sequence b backwards, the rest as they
 * are.  x is [time, batch, ...] or [batch, time, ...]. */
typedef struct reverse_param {
    int64_t batch_axis, time_axis; /* 0 and 1 in some order */
} reverse_param;

static qg_status reverse_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    reverse_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "batch_axis", 1, &p->batch_axis));
    QG_TRY(qg_attr_int(ctx, n, "time_axis", 0, &p->time_axis));
    if (p->batch_axis < 0 || p->batch_axis > 1 || p->time_axis != 1 - p->batch_axis)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "batch_axis %lld and time_axis %lld, expected 0 and 1",
                            (long long)p->batch_axis, (long long)p->time_axis);
    return QG_OK;
}

/* One length per batch entry. */
static qg_status reverse_infer(const qg_call *k)
{
    const reverse_param *p = k->param;
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    QG_TRY(qg_check_type(k, 1, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 2, QG_MAX_RANK));
    QG_TRY(qg_check_vector(k, 1, qg_in_dim(k, 0, (int32_t)p->batch_axis)));
    return qg_infer_same(k);
}

/* Lengths are data: checked before use. */
static qg_status reverse_run(const qg_call *k)
{
    const reverse_param *p = k->param;
    const qg_tensor *x = k->in[0];
    const int64_t times_ = x->dim[p->time_axis], batch = x->dim[p->batch_axis];
    const int64_t size = (int64_t)qg_element_size(x->dtype);
    const int64_t row = qg_dims_product(x, 2, x->rank) * size;
    const int64_t step_t = p->time_axis == 0 ? batch * row : row;
    const int64_t step_b = p->batch_axis == 0 ? times_ * row : row;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t len = k->in[1]->i64[b];
        if (len < 0 || len > times_)
            return qg_run_fail(k, QG_EDATA,
                               "sequence %lld has length %lld, expected 0 to "
                               "%lld",
                               (long long)b, (long long)len, (long long)times_);
        for (int64_t t = 0; t < times_; t++) {
            const int64_t from = t < len ? len - 1 - t : t;
            memcpy((char *)k->out[0]->data + b * step_b + t * step_t,
                   (const char *)x->data + b * step_b + from * step_t, (size_t)row);
        }
    }
    return QG_OK;
}

#define MOVES (QG_OP_PASSIVE | QG_OP_PURE)
#define ROW(onnx, first, inputs, roles, id, t)                                         \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = inputs, .max_in = inputs,              \
        .min_out = 1, .max_out = 1, .in_roles = roles, .traits = MOVES | (t),          \
        .infer = id##_infer, .run = id##_run, .lower = qg_lower_move,                  \
        .backward = qg_backward_move                                                   \
    }
#define ROWP(onnx, first, inputs, roles, id, par, t, compiled)                         \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = inputs, .max_in = inputs,              \
        .min_out = 1, .max_out = 1, .in_roles = roles, .traits = MOVES | (t),          \
        .param_size = sizeof(par##_param), .prepare = par##_prepare,                   \
        .infer = id##_infer, .run = id##_run, .compile = compiled,                     \
        .lower = qg_lower_move, .backward = qg_backward_move                           \
    }

/* clang-format off */
const qg_op qg_ops_move[] = {
    { .name = "Transpose", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1,
      .max_out = 1, .in_roles = "d", .traits = MOVES,
      .param_size = sizeof(transpose_param), .prepare = transpose_prepare,
      .infer = transpose_infer, .run = transpose_run, .compile = transpose_compile,
      .lower = qg_lower_move, .backward = qg_backward_move },
    ROWP("DepthToSpace",    1, 1, "d",  depth_to_space, block, QG_OP_BATCH_FIRST,
         depth_to_space_compile),
    ROWP("SpaceToDepth",    1, 1, "d",  space_to_depth, block, QG_OP_BATCH_FIRST,
         space_to_depth_compile),
    ROWP("ReverseSequence", 10, 2, "ds", reverse, reverse, QG_OP_BATCH_FIRST, NULL),
    ROW("Expand",           8, 2, "ds", expand, 0),
    ROW("Tile",             6, 2, "ds", tile, 0),
    { 0 },
};
/* clang-format on */
