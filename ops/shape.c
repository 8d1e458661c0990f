/* shape.c -- dims as data (Shape, Size), and operators that change the dims of the same
 * elements: Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout.
 *
 * Shape and Size read only the dims of their input: their `run` may be called while the
 * input's data is still NULL (infer folds them that way).
 * Source: the ONNX operator page of the same name.
 *
 * Shape-1, 13, 15 (start, end), 19, 21; Reshape-1 (attribute), 5, 14 (allowzero);
 * Squeeze, Unsqueeze-1, 13 (axes as input); Dropout-1, 6, 7, 10 (mask is bool), 12
 * (inputs). Reshaping operators are PASSIVE and may work in place; shapes are 's' and
 * never quantized. */
#include "ops/families.h"

#include "engine/core/num.h"
#include "ops/util_axis.h"
#include "ops/util_backward.h"
#include "ops/util_lower.h"

/* Shape, since 15 with a range of axes. */
typedef struct range_param {
    int64_t start, end;
} range_param;

/* Absent in early opsets, where all dims are meant. */
static qg_status shape_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    range_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "start", 0, &p->start));
    return qg_attr_int(ctx, n, "end", INT64_MAX, &p->end);
}

/* start counted from the front, clamped to [0, rank]. */
static int32_t clamp_axis(int64_t axis, int32_t rank)
{
    if (axis < 0)
        axis = axis < -rank ? 0 : axis + rank;
    return (int32_t)(axis > rank ? rank : axis);
}

/* A range that is empty gives an empty vector. */
static qg_status shape_infer(const qg_call *k)
{
    const range_param *p = k->param;
    const int32_t rank = k->in[0]->rank;
    int64_t n = -1;
    if (rank >= 0) {
        n = clamp_axis(p->end, rank) - clamp_axis(p->start, rank);
        n = n < 0 ? 0 : n;
    }
    return qg_infer_dims(k, QG_I64, 1, &n);
}

static qg_status shape_run(const qg_call *k)
{
    const range_param *p = k->param;
    const int32_t start = clamp_axis(p->start, k->in[0]->rank);
    for (int64_t i = 0; i < k->out[0]->dim[0]; i++)
        k->out[0]->i64[i] = k->in[0]->dim[start + i];
    return QG_OK;
}

/* A scalar. */
static qg_status size_infer(const qg_call *k)
{
    return qg_infer_dims(k, QG_I64, 0, NULL);
}

static qg_status size_run(const qg_call *k)
{
    k->out[0]->i64[0] = (int64_t)qg_elements(k->in[0]);
    return QG_OK;
}

/* Output 0 of type dtype(x) and these dims; x and y must have as many elements. */
static qg_status out_reshaped(const qg_call *k, int32_t rank, const int64_t *dim)
{
    const qg_tensor *x = k->in[0];
    qg_tensor y;
    qg_tensor_init(&y, x->dtype, rank, dim);
    int64_t had = qg_tensor_count(x), has = qg_tensor_count(&y);
    if (qg_tensor_known(x) && qg_tensor_known(&y) && had != has)
        return qg_infer_fail(k, QG_EMODEL, "%lld elements into a shape of %lld",
                             (long long)had, (long long)has);
    return qg_infer_dims(k, x->dtype, rank, dim);
}

/* Reshape: 0 copies a dim (unless allowzero), one -1 takes the remaining extent. */
typedef struct reshape_param {
    bool allow_zero;
    qg_ints shape; /* opset 1: an attribute */
} reshape_param;

/* Since 5 the shape is input 1. */
static qg_status reshape_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    reshape_param *p = param;

    QG_TRY(qg_attr_flag(ctx, n, "allowzero", false, &p->allow_zero));

    return n->op->since < 5 ? qg_ints_attr(ctx, n, "shape", &p->shape) : QG_OK;
}

/* Replaces the zeros, checks the rest; *free_axis is the axis of the -1, or -1. */
static qg_status reshape_dims(const qg_call *k, const qg_ints *shape, int64_t *dim,
                              int32_t *free_axis)
{
    const reshape_param *p = k->param;
    const qg_tensor *x = k->in[0];
    *free_axis = -1;
    for (int32_t i = 0; i < (int32_t)shape->n; i++) {
        dim[i] = shape->at[i];
        if (dim[i] == 0 && !p->allow_zero) {
            if (x->rank >= 0 && i >= x->rank)
                return qg_infer_fail(k, QG_EMODEL,
                                     "0 at %d copies a dim beyond rank %d", (int)i,
                                     (int)x->rank);
            dim[i] = x->rank < 0 ? -1 : x->dim[i];
        } else if (dim[i] == -1) {
            if (*free_axis >= 0)
                return qg_infer_fail(k, QG_EMODEL, "shape has two -1, expected one");
            *free_axis = i;
        } else if (dim[i] < -1) {
            return qg_infer_fail(k, QG_EMODEL, "shape has %lld, expected -1 or more",
                                 (long long)dim[i]);
        }
    }
    return QG_OK;
}

/* dim[axis] = elements of x / product of the other dims, where that is known. */
static qg_status reshape_fill(const qg_call *k, int32_t rank, int64_t *dim,
                              int32_t axis)
{
    const qg_tensor *x = k->in[0];
    qg_tensor y;
    dim[axis] = 1;
    qg_tensor_init(&y, x->dtype, rank, dim);
    const int64_t rest = qg_tensor_known(&y) ? qg_tensor_count(&y) : -1;
    const int64_t count = qg_tensor_known(x) ? qg_tensor_count(x) : -1;
    dim[axis] = -1;
    if (rest < 0 || count < 0)
        return QG_OK;
    if (rest == 0 ? count != 0 : count % rest != 0)
        return qg_infer_fail(k, QG_EMODEL, "%lld elements do not divide by %lld",
                             (long long)count, (long long)rest);
    if (rest == 0)
        return qg_infer_fail(k, QG_EMODEL, "-1 next to a 0 is undefined");
    dim[axis] = count / rest;
    return QG_OK;
}

/* While the shape is not known, its length gives the rank. */
static qg_status reshape_infer(const qg_call *k)
{
    const reshape_param *p = k->param;
    const bool attribute = k->node->op->since < 5;
    qg_ints shape = p->shape;
    int64_t dim[QG_MAX_INTS];
    int32_t axis;
    if (!attribute && qg_ints_pending(k, 1)) {
        const int64_t rank = qg_in_dim(k, 1, 0);
        for (int i = 0; i < QG_MAX_RANK; i++)
            dim[i] = -1;
        return qg_infer_dims(k, k->in[0]->dtype,
                             rank > QG_MAX_RANK ? -1 : (int32_t)rank, dim);
    }
    if (!attribute)
        QG_TRY(qg_ints_input(k, 1, &shape));
    if (shape.n > QG_MAX_RANK)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "shape of rank %zu, supported up to %d", shape.n,
                             QG_MAX_RANK);
    QG_TRY(reshape_dims(k, &shape, dim, &axis));
    if (axis >= 0)
        QG_TRY(reshape_fill(k, (int32_t)shape.n, dim, axis));
    return out_reshaped(k, (int32_t)shape.n, dim);
}

typedef struct flatten_param {
    int64_t axis;
} flatten_param;

typedef struct axes_param {
    qg_ints axes;
} axes_param;

static qg_status flatten_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_attr_int(ctx, n, "axis", 1, &((flatten_param *)param)->axis);
}

/* -1 also when the product does not fit. */
static int64_t product_or_unknown(const qg_tensor *x, int32_t from, int32_t to)
{
    int64_t product = 1;
    for (int32_t i = from; i < to; i++)
        if (x->dim[i] < 0 || !qg_mul_i64(product, x->dim[i], &product))
            return -1;
    return product;
}

/* The axis may be the rank itself: then the second dim is 1. */
static qg_status flatten_infer(const qg_call *k)
{
    const flatten_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int64_t dim[2] = { -1, -1 };
    if (x->rank >= 0) {
        if (p->axis < -x->rank || p->axis > x->rank)
            return qg_infer_fail(k, QG_EMODEL, "axis %lld, expected within [%d, %d]",
                                 (long long)p->axis, -(int)x->rank, (int)x->rank);
        int32_t axis = (int32_t)(p->axis < 0 ? p->axis + x->rank : p->axis);
        dim[0] = product_or_unknown(x, 0, axis);
        dim[1] = product_or_unknown(x, axis, x->rank);
    }
    return out_reshaped(k, 2, dim);
}

/* Squeeze, Unsqueeze: axes as attribute, since 13 as input 1. */
static qg_status axes_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return n->op->since < 13
               ? qg_ints_attr(ctx, n, "axes", &((axes_param *)param)->axes)
               : QG_OK;
}

/* The axes in the form of the opset; sets *pending when they are not known yet. */
static qg_status read_axes(const qg_call *k, qg_ints *axes, bool *pending)
{
    const axes_param *p = k->param;
    *axes = p->axes;
    *pending = k->node->op->since >= 13 && qg_ints_pending(k, 1);
    if (k->node->op->since < 13 || *pending)
        return QG_OK;
    return qg_ints_input(k, 1, axes);
}

/* Without axes all dims of 1 are removed, which requires all dims to be known. */
static qg_status squeeze_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_ints axes;
    bool pending;
    uint32_t mask;
    int64_t dim[QG_MAX_RANK];
    int32_t rank = 0;
    QG_TRY(read_axes(k, &axes, &pending));
    if (pending || x->rank < 0 || (!axes.given && !qg_tensor_known(x)))
        return qg_infer_dims(k, x->dtype, -1, NULL);
    QG_TRY(qg_axes_mask(k, &axes, x->rank, &mask));
    for (int32_t i = 0; i < x->rank; i++) {
        if (axes.given ? !(mask >> i & 1u) : x->dim[i] != 1)
            dim[rank++] = x->dim[i];
        else if (x->dim[i] > 1 || x->dim[i] == 0)
            return qg_infer_fail(k, QG_EMODEL, "axis %d has %lld elements, expected 1",
                                 (int)i, (long long)x->dim[i]);
    }
    return out_reshaped(k, rank, dim);
}

/* Axes count in the output. */
static qg_status unsqueeze_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_ints axes;
    bool pending;
    uint32_t mask;
    int64_t dim[QG_MAX_RANK];
    QG_TRY(read_axes(k, &axes, &pending));
    if (pending || x->rank < 0)
        return qg_infer_dims(k, x->dtype, -1, NULL);
    if ((size_t)x->rank + axes.n > QG_MAX_RANK)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "output of rank %zu, supported up to %d",
                             (size_t)x->rank + axes.n, QG_MAX_RANK);
    const int32_t rank = x->rank + (int32_t)axes.n;
    QG_TRY(qg_axes_mask(k, &axes, rank, &mask));
    for (int32_t i = 0, from = 0; i < rank; i++)
        dim[i] = mask >> i & 1u ? 1 : x->dim[from++];
    return out_reshaped(k, rank, dim);
}

/* Dropout does nothing outside training; the mask is true for all elements. */
static qg_status dropout_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    int64_t is_test;
    float ratio;
    (void)param;
    if (n->op->since >= 7)
        return QG_OK;
    QG_TRY(qg_attr_int(ctx, n, "is_test", 0, &is_test));
    QG_TRY(qg_attr_float(ctx, n, "ratio", 0.5f, &ratio));
    if (!is_test && ratio != 0)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "prepare", n,
                            "is_test is 0 (training), supported: inference");
    return QG_OK;
}

/* Since opset 12: input 1 is the ratio (default 0.5), input 2 enables training mode. */
static qg_status dropout_refuse_training(const qg_call *k)
{
    const qg_tensor *ratio = qg_in(k, 1), *training = qg_in(k, 2);
    if (!training || !training->data || qg_tensor_count(training) != 1 ||
        !qg_tensor_i64(training, 0))
        return QG_OK;
    if (ratio && ratio->data && qg_tensor_count(ratio) == 1 &&
        qg_tensor_f64(ratio, 0) == 0)
        return QG_OK;
    return qg_infer_fail(k, QG_EUNSUPPORTED,
                         "training_mode is true, supported: inference");
}

/* Before 10 the mask had the type of the data. */
static qg_status dropout_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    QG_TRY(qg_check_types(k, 0, 1, QG_DT_FLOATS));
    QG_TRY(qg_check_type(k, 2, QG_DT(BOOL)));
    QG_TRY(dropout_refuse_training(k));
    qg_set_out(k, 1, k->node->op->since < 10 ? x->dtype : QG_BOOL, x->rank, x->dim);
    return qg_infer_same(k);
}

static const uint16_t one_f16 = 0x3c00, one_bf16 = 0x3f80;
static const float one_f32 = 1;
static const double one_f64 = 1;
static const bool one_bool = true;

/* Nothing is dropped, so the mask is all ones. */
static qg_status dropout_run(const qg_call *k)
{
    static const void *const one[QG_NDTYPE] = {
        [QG_F32] = &one_f32,   [QG_F64] = &one_f64,   [QG_F16] = &one_f16,
        [QG_BF16] = &one_bf16, [QG_BOOL] = &one_bool,
    };
    qg_tensor *mask = qg_out(k, 1);
    QG_TRY(dropout_refuse_training(k));
    if (mask) {
        const size_t n = qg_elements(mask), size = qg_element_size(mask->dtype);
        for (size_t i = 0; i < n; i++)
            memcpy((char *)mask->data + i * size, one[mask->dtype], size);
    }
    return k->out[0] ? qg_run_copy(k) : QG_OK;
}

/* Without the mask, which is a float before 10, hence no position of an element. */
static qg_status dropout_backward(const qg_backward *b)
{
    qg_call k = *b->call;
    k.n_out = 1;
    return qg_backward_move(&(qg_backward){ &k, b->out, b->in });
}

/* Between two grids it is a rescale (TFLite's QUANTIZE of codes). */
static qg_status lower_identity(qg_lower *l)
{
    if (!l->in[0].stored.codes || qg_stored_same(&l->in[0].stored, &l->out[0]))
        return qg_lower_move(l);
    return qg_lower_all(l, "IntRescale", QG_USE_RESCALE, 1);
}

#define SHAPES (QG_OP_SHAPE | QG_OP_PURE | QG_OP_DIMS_ONLY)
#define MOVES  (QG_OP_PASSIVE | QG_OP_PURE)
#define ROW(onnx, first, last, inputs, roles, id, par)                                 \
    {                                                                                  \
        .name = onnx, .since = first, .until = last, .min_in = 1, .max_in = inputs,    \
        .min_out = 1, .max_out = 1, .in_roles = roles, .traits = MOVES,                \
        .param_size = sizeof(par##_param), .prepare = par##_prepare,                   \
        .infer = id##_infer, .run = qg_run_copy, .in_place = 1,                        \
        .lower = qg_lower_move, .backward = qg_backward_move                           \
    }
#define ROWDROP(first, last, inputs)                                                   \
    {                                                                                  \
        .name = "Dropout", .since = first, .until = last, .min_in = 1,                 \
        .max_in = inputs, .min_out = 1, .max_out = 2, .in_roles = "dfs",               \
        .out_roles = "ds",                                                             \
        .traits = MOVES | QG_OP_BATCH_FIRST | QG_OP_COPY | QG_OP_ELEMENTWISE,          \
        .prepare = dropout_prepare, .infer = dropout_infer, .run = dropout_run,        \
        .in_place = 1, .lower = qg_lower_move, .backward = dropout_backward            \
    }

/* clang-format off */
const qg_op qg_ops_shape[] = {
    { .name = "Shape", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,
      .in_roles = "d", .out_roles = "s", .traits = SHAPES,
      .param_size = sizeof(range_param), .prepare = shape_prepare,
      .infer = shape_infer, .run = shape_run },
    { .name = "Size", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,
      .in_roles = "d", .out_roles = "s", .traits = SHAPES,
      .infer = size_infer, .run = size_run },
    ROW("Reshape",    1,  4, 1, "d",  reshape,   reshape),
    ROW("Reshape",    5,  0, 2, "ds", reshape,   reshape),
    ROW("Flatten",    1,  0, 1, "d",  flatten,   flatten),
    ROW("Squeeze",    1, 12, 1, "d",  squeeze,   axes),
    ROW("Squeeze",   13,  0, 2, "ds", squeeze,   axes),
    ROW("Unsqueeze",  1, 12, 1, "d",  unsqueeze, axes),
    ROW("Unsqueeze", 13,  0, 2, "ds", unsqueeze, axes),
    { .name = "Identity", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1,
      .max_out = 1, .in_roles = "d",
      .traits = MOVES | QG_OP_BATCH_FIRST | QG_OP_HOMOGENEOUS | QG_OP_COPY |
                QG_OP_ELEMENTWISE,
      .infer = qg_infer_same, .run = qg_run_copy, .in_place = 1,
      .lower = lower_identity, .backward = qg_backward_move },
    ROWDROP(1, 6, 1), ROWDROP(7, 9, 1), ROWDROP(10, 11, 1), ROWDROP(12, 0, 3),
    { 0 },
};
/* clang-format on */
