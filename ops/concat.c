/* concat.c -- Concat and Split along an axis.  Source: the ONNX operator pages.
 *
 * Concat      since 4 the axis must be given; 1 defaults to axis 1 Split       1 and
 * 2: lengths as attribute (1 also as input); 13: input; 18: num_outputs */
#include "ops/families.h"

#include "engine/core/num.h"
#include "engine/ir/kernel.h"
#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"

typedef struct axis_param {
    int64_t axis;
} axis_param;

/* Opset 1 had a default. */
static qg_status concat_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    if (n->op->since >= 4 && !qg_attr_has(n, "axis"))
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n, "axis is missing");
    return qg_attr_int(ctx, n, "axis", 1, &((axis_param *)param)->axis);
}

/* Joins the dims of t to those so far; a known extent replaces -1. */
static qg_status join_dims(const qg_call *k, size_t slot, int32_t axis, qg_tensor *y)
{
    const qg_tensor *t = k->in[slot];
    if (t->rank != y->rank)
        return qg_infer_fail(k, QG_EMODEL, "input %zu has rank %d, expected %d", slot,
                             (int)t->rank, (int)y->rank);
    for (int32_t i = 0; i < y->rank; i++) {
        if (i == axis) {
            if (t->dim[i] < 0 || y->dim[i] < 0)
                y->dim[i] = -1;
            else if (!qg_add_i64(y->dim[i], t->dim[i], &y->dim[i]))
                return qg_infer_fail(k, QG_EMODEL, "axis %d overflows int64",
                                     (int)axis);
        } else if (y->dim[i] < 0) {
            y->dim[i] = t->dim[i];
        } else if (t->dim[i] >= 0 && t->dim[i] != y->dim[i]) {
            return qg_infer_fail(k, QG_EMODEL,
                                 "input %zu: dimension %d is %lld, expected %lld", slot,
                                 (int)i, (long long)t->dim[i], (long long)y->dim[i]);
        }
    }
    return QG_OK;
}

/* An unknown rank makes the output unknown; known dims replace unknown dims. */
static qg_status concat_infer(const qg_call *k)
{
    int32_t axis;
    qg_tensor y = *k->in[0];
    QG_TRY(qg_check_type(k, 0, QG_DT_ANY));
    for (size_t i = 0; i < k->n_in; i++)
        if (!k->in[i])
            return qg_infer_fail(k, QG_EMODEL, "input %zu is absent", i);
    QG_TRY(qg_check_same_type(k, 1, k->n_in));
    for (size_t i = 0; i < k->n_in; i++)
        if (k->in[i]->rank < 0)
            return qg_infer_dims(k, y.dtype, -1, NULL);
    QG_TRY(qg_check_axis(k, ((const axis_param *)k->param)->axis, y.rank, &axis));
    for (size_t i = 1; i < k->n_in; i++)
        QG_TRY(join_dims(k, i, axis, &y));
    return qg_infer_dims(k, y.dtype, y.rank, y.dim);
}

/* Bytes of one piece of t: all dims from the axis on. */
static size_t piece_bytes(const qg_tensor *t, int32_t axis)
{
    return (size_t)qg_dims_product(t, axis, t->rank) * qg_element_size(t->dtype);
}

/* Per index of the outer dims one piece of every input, in order. */
static qg_status concat_run(const qg_call *k)
{
    const qg_tensor *y = k->out[0];
    int32_t axis;
    if (QG_DT_HAS(QG_DT_PACKED, y->dtype))
        return qg_run_as(k, QG_DT_PACKED, QG_F32, concat_run);
    QG_TRY(qg_check_axis(k, ((const axis_param *)k->param)->axis, y->rank, &axis));
    if (qg_elements(y) == 0)
        return QG_OK;
    const size_t step = piece_bytes(y, axis);
    char *to = y->data;
    for (size_t i = 0; i < k->n_in; i++) {
        const size_t bytes = piece_bytes(k->in[i], axis);
        qg_copy_items(to, (int64_t)step, k->in[i]->data, (int64_t)bytes, bytes,
                      qg_dims_product(y, 0, axis));
        to += bytes;
    }
    return QG_OK;
}

/* All but the one along which inputs lie behind one another. */
static uint32_t concat_free_axes(const qg_call *k)
{
    const int64_t axis = ((const axis_param *)k->param)->axis;
    const int32_t rank = k->out[0]->rank;
    return ~((uint32_t)1 << (axis < 0 ? axis + rank : axis));
}

/* --- Concat on channels-last memory: the same copies, the axis counted in memory
 * --- */

static qg_status concat_last_run(const qg_kernel *kernel, const qg_call *k)
{
    const size_t *bytes = kernel->state; /* [n_in] of a piece of each input, then y's */
    const qg_tensor *y = k->out[0];
    const size_t step = bytes[k->n_in];
    char *to = y->data;
    int64_t rows = qg_tensor_count(y) * (int64_t)sizeof(float) / (int64_t)step;
    for (size_t i = 0; i < k->n_in; to += bytes[i++])
        qg_copy_items(to, (int64_t)step, k->in[i]->data, (int64_t)bytes[i], bytes[i],
                      rows);
    return QG_OK;
}

/* Bytes from the axis on, in the order N, space, C of memory. */
static size_t piece_bytes_last(const qg_tensor *t, int32_t axis)
{
    int64_t n = axis == 0 ? t->dim[0] : 1;
    if (axis == 1)
        return (size_t)t->dim[1] * sizeof(float);
    for (int32_t i = axis < 2 ? 2 : axis; i < t->rank; i++)
        n *= t->dim[i];
    return (size_t)(n * t->dim[1]) * sizeof(float);
}

/* Chosen when every input is channels-last. */
static bool all_last(const qg_compile *c)
{
    for (uint32_t i = 0; i < c->node->n_in; i++)
        if (c->in_layout[i] != QG_LAYOUT_CHANNELS_LAST || c->in[i]->data)
            return false;
    return c->out[0]->dtype == QG_F32 && qg_tensor_count(c->out[0]) > 0;
}

static qg_status concat_compile(qg_compile *c, qg_kernel **out)
{
    qg_call k = qg_compile_call(c);
    size_t n = c->node->n_in;
    int32_t axis;
    *out = NULL;
    if (!all_last(c))
        return QG_OK;
    QG_TRY(
        qg_check_axis(&k, ((const axis_param *)k.param)->axis, c->out[0]->rank, &axis));
    size_t *bytes = QG_NEWN(c->arena, n + 1, size_t);
    qg_kernel *kernel = QG_NEW(c->arena, qg_kernel);
    if (!bytes || !kernel)
        return qg_nomem(c->ctx);
    for (size_t i = 0; i <= n; i++)
        bytes[i] = piece_bytes_last(i < n ? c->in[i] : c->out[0], axis);
    *kernel = (qg_kernel){ .run = concat_last_run,
                           .state = bytes,
                           .in_layout = { QG_LAYOUT_CHANNELS_LAST },
                           .all_in_alike = true,
                           .free_axes = ~((uint32_t)1 << axis),
                           .out_layout = QG_LAYOUT_CHANNELS_LAST,
                           .name = "concat channels-last" };
    *out = kernel;
    return QG_OK;
}

/* Split: lengths from the attribute (until 12), from input 1, or equal.  Since 18 the
 * last of num_outputs equal parts may be shorter. */
typedef struct split_param {
    int64_t axis, num_outputs; /* num_outputs -1: not given */
    const int64_t *length;     /* attribute; NULL when absent */
    size_t n_length;
} split_param;

static qg_status split_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    split_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "axis", 0, &p->axis));
    QG_TRY(qg_attr_int(ctx, n, "num_outputs", -1, &p->num_outputs));
    if (n->op->since < 13)
        QG_TRY(qg_attr_ints(ctx, n, "split", &p->length, &p->n_length));
    else if (p->num_outputs != -1 && p->num_outputs != (int64_t)n->n_out)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "num_outputs is %lld, expected %u as the node has",
                            (long long)p->num_outputs, n->n_out);
    return QG_OK;
}

/* The length of part i when all are equal; -1 when the axis is not known. */
static qg_status equal_part(const qg_call *k, int64_t dim, size_t i, int64_t *out)
{
    const split_param *p = k->param;
    const int64_t n = (int64_t)k->n_out, part = dim < 0 ? -1 : dim / n + (dim % n != 0);
    if (dim >= 0 && dim % n != 0 && k->node->op->since < 18)
        return qg_infer_fail(k, QG_EMODEL, "%lld elements do not split into %lld parts",
                             (long long)dim, (long long)n);
    if (k->node->op->since >= 18 && p->num_outputs < 0)
        return qg_infer_fail(k, QG_EMODEL, "expected split or num_outputs");
    /* Parts start at i * part and never go beyond the end. */
    const int64_t left = dim < 0 ? -1 : dim - (int64_t)i * part;
    *out = left >= part ? part : left > 0 ? left : dim < 0 ? -1 : 0;
    return QG_OK;
}

/* The length of part i; -1 when it is not known yet. */
static qg_status part_length(const qg_call *k, int64_t dim, size_t i, int64_t *out)
{
    const split_param *p = k->param;
    const qg_tensor *split = k->node->op->since == 2 ? NULL : qg_in(k, 1);
    const int64_t count = split ? qg_tensor_count(split) : (int64_t)p->n_length;
    *out = -1;
    if (!split && !p->length)
        return equal_part(k, dim, i, out);
    if (split && !split->data)
        return QG_OK;
    if (count != (int64_t)k->n_out)
        return qg_infer_fail(k, QG_EMODEL, "split has %lld lengths, expected %zu",
                             (long long)count, k->n_out);
    *out = split ? qg_tensor_i64(split, (int64_t)i) : p->length[i];
    if (*out < 0)
        return qg_infer_fail(k, QG_EMODEL, "length %zu is %lld, expected 0 or more", i,
                             (long long)*out);
    return QG_OK;
}

/* Lengths must add up to the dim where all is known. */
static qg_status split_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_tensor y = *x;
    int32_t axis;
    int64_t sum = 0;
    bool known = true;
    QG_TRY(qg_check_type(k, 0, QG_DT_ANY));
    QG_TRY(qg_check_type(k, 1, QG_DT_INDEX));
    if (x->rank >= 0)
        QG_TRY(qg_check_axis(k, ((const split_param *)k->param)->axis, x->rank, &axis));
    for (size_t i = 0; i < k->n_out; i++) {
        if (x->rank >= 0) {
            QG_TRY(part_length(k, x->dim[axis], i, &y.dim[axis]));
            known = known && y.dim[axis] >= 0 && qg_add_i64(sum, y.dim[axis], &sum);
        }
        qg_set_out(k, i, x->dtype, x->rank, y.dim);
    }
    if (x->rank >= 0 && known && x->dim[axis] >= 0 && sum != x->dim[axis])
        return qg_infer_fail(k, QG_EMODEL, "lengths sum to %lld, expected %lld",
                             (long long)sum, (long long)x->dim[axis]);
    return QG_OK;
}

/* Unused parts are skipped, not computed. */
static qg_status split_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int32_t axis;
    if (QG_DT_HAS(QG_DT_PACKED, x->dtype))
        return qg_run_as(k, QG_DT_PACKED, QG_F32, split_run);
    QG_TRY(qg_check_axis(k, ((const split_param *)k->param)->axis, x->rank, &axis));
    if (qg_elements(x) == 0)
        return QG_OK;
    const size_t step = piece_bytes(x, axis), row = step / (size_t)x->dim[axis];
    const char *from = x->data;
    for (size_t i = 0; i < k->n_out; i++) {
        int64_t length;
        QG_TRY(part_length(k, x->dim[axis], i, &length));
        const size_t bytes = (size_t)length * row;
        if (k->out[i])
            qg_copy_items(k->out[i]->data, (int64_t)bytes, from, (int64_t)step, bytes,
                          qg_dims_product(x, 0, axis));
        from += bytes;
    }
    return QG_OK;
}

static qg_status lower_concat(qg_lower *l)
{
    const axis_param *p = l->node->param;
    QG_TRY(qg_lower_set_int(l, "axis", p->axis));
    return qg_lower_all(l, "IntConcat", QG_USE_CONCAT, l->node->n_in);
}

#define ROWCONCAT(first)                                                               \
    {                                                                                  \
        .name = "Concat", .since = first, .min_in = 1, .max_in = 255, .min_out = 1,    \
        .max_out = 1, .in_roles = "d",                                                 \
        .traits = QG_OP_JOIN | QG_OP_PURE | QG_OP_NONNEGATIVE,                         \
        .param_size = sizeof(axis_param), .prepare = concat_prepare,                   \
        .infer = concat_infer, .run = concat_run, .free_axes = concat_free_axes,       \
        .compile = concat_compile, .lower = lower_concat, .backward = qg_backward_move \
    }
#define ROWSPLIT(first, last, inputs)                                                  \
    {                                                                                  \
        .name = "Split", .since = first, .until = last, .min_in = 1, .max_in = inputs, \
        .min_out = 1, .max_out = 255, .in_roles = "ds",                                \
        .traits = QG_OP_PASSIVE | QG_OP_PURE, .param_size = sizeof(split_param),       \
        .prepare = split_prepare, .infer = split_infer, .run = split_run,              \
        .lower = qg_lower_move, .backward = qg_backward_move                           \
    }

/* clang-format off */
const qg_op qg_ops_concat[] = {
    ROWCONCAT(1), ROWCONCAT(4),
    ROWSPLIT(1, 1, 2), ROWSPLIT(2, 12, 1), ROWSPLIT(13, 17, 2), ROWSPLIT(18, 0, 2),
    { 0 },
};
/* clang-format on */
