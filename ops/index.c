/* index.c -- operators that pick elements by position: Slice, Gather, GatherElements,
 * GatherND, Compress.  Negative indices count from the end; an index out of range is
 * QG_EDATA when it is used.  Source: the ONNX operator page of the same name.
 *
 * Slice       1: attributes; 10: inputs, steps; 13 more types Gather-1, 11, 13;
 * GatherElements-11, 13; GatherND-11, 12 (batch_dims), 13; Compress-9, 11 Indices
 * and conditions are 's'; the data pass through unchanged (PASSIVE). */
#include "ops/families.h"

#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"

/* Slice: lists of starts, ends, axes, steps; attributes until 9, inputs 1 to 4
 * after. */
typedef struct slice_param {
    qg_ints starts, ends, axes;
} slice_param;

typedef struct slice_plan {
    bool known[QG_MAX_RANK]; /* false: the slice of this axis is not known yet */
    int64_t start[QG_MAX_RANK], step[QG_MAX_RANK], count[QG_MAX_RANK];
} slice_plan;

/* Since 10 the lists are inputs. */
static qg_status slice_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    slice_param *p = param;
    if (n->op->since >= 10)
        return QG_OK;
    QG_TRY(qg_ints_attr(ctx, n, "starts", &p->starts));
    QG_TRY(qg_ints_attr(ctx, n, "ends", &p->ends));
    QG_TRY(qg_ints_attr(ctx, n, "axes", &p->axes));
    if (!p->starts.given || !p->ends.given)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n, "starts or ends is missing");
    return QG_OK;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The slice [start, end) by step of an axis of `dim` elements. */
static void cut_axis(slice_plan *plan, int32_t axis, int64_t dim, const int64_t cut[3])
{
    int64_t start = cut[0] < 0 ? cut[0] + dim : cut[0];
    int64_t end = cut[1] < 0 ? cut[1] + dim : cut[1];
    const int64_t step = cut[2];
    int64_t count;
    if (step > 0) {
        start = clamp(start, 0, dim);
        end = clamp(end, 0, dim);
        count = end > start ? (end - start - 1) / step + 1 : 0;
    } else {
        start = clamp(start, 0, dim - 1);
        end = clamp(end, -1, dim - 1);
        count = dim > 0 && start > end ? (end - start + 1) / step + 1 : 0;
    }
    plan->known[axis] = true;
    plan->start[axis] = start;
    plan->step[axis] = count > 1 ? step : 1; /* INT64_MIN must not be multiplied */
    plan->count[axis] = count;
}

/* The four lists; sets *pending when one of them has no data yet. */
static qg_status slice_lists(const qg_call *k, qg_ints list[4], bool *pending)
{
    const slice_param *p = k->param;
    list[0] = p->starts;
    list[1] = p->ends;
    list[2] = p->axes;
    list[3] = (qg_ints){ 0 };
    *pending = false;
    for (size_t i = 0; i < 4 && k->node->op->since >= 10; i++) {
        *pending = *pending || qg_ints_pending(k, i + 1);
        if (!qg_ints_pending(k, i + 1))
            QG_TRY(qg_ints_input(k, i + 1, &list[i]));
    }
    if (*pending)
        return QG_OK;
    for (size_t i = 1; i < 4; i++)
        if (list[i].given && list[i].n != list[0].n)
            return qg_infer_fail(k, QG_EMODEL, "%zu starts and %zu ends, axes or steps",
                                 list[0].n, list[i].n);
    return QG_OK;
}

/* While the lists are not known, only axes that they cannot contain are known. */
static qg_status plan_slice(const qg_call *k, slice_plan *plan)
{
    const qg_tensor *x = k->in[0];
    qg_ints list[4];
    bool pending;
    uint32_t mask;
    QG_TRY(slice_lists(k, list, &pending));
    for (int32_t i = 0; i < x->rank; i++) {
        plan->known[i] = !pending;
        plan->start[i] = 0;
        plan->step[i] = 1;
        plan->count[i] = x->dim[i];
    }
    if (pending)
        return QG_OK;
    QG_TRY(qg_axes_mask(k, &list[2], x->rank, &mask));
    if (list[0].n > (size_t)x->rank)
        return qg_infer_fail(k, QG_EMODEL, "%zu starts for %d axes", list[0].n,
                             (int)x->rank);
    for (size_t i = 0; i < list[0].n; i++) {
        int64_t axis = list[2].given ? list[2].at[i] : (int64_t)i;
        axis += axis < 0 ? x->rank : 0;
        const int64_t cut[3] = { list[0].at[i], list[1].at[i],
                                 list[3].given ? list[3].at[i] : 1 };
        if (cut[2] == 0)
            return qg_infer_fail(k, QG_EMODEL, "step %zu is 0", i);
        plan->known[axis] = x->dim[axis] >= 0;
        if (plan->known[axis])
            cut_axis(plan, (int32_t)axis, x->dim[axis], cut);
    }
    return QG_OK;
}

/* An axis that may be sliced is unknown until the lists are known. */
static qg_status slice_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    slice_plan plan;
    QG_TRY(qg_check_type(k, 0, QG_DT_ANY));
    if (x->rank >= 0)
        QG_TRY(plan_slice(k, &plan));
    for (int32_t i = 0; i < x->rank; i++)
        plan.count[i] = plan.known[i] ? plan.count[i] : -1;
    return qg_infer_dims(k, x->dtype, x->rank, plan.count);
}

/* A walk with the strides of the cut. */
static qg_status slice_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *y = k->out[0];
    slice_plan plan;
    int64_t stride[QG_MAX_RANK], first = 0;
    qg_walk w;
    if (QG_DT_HAS(QG_DT_PACKED, x->dtype))
        return qg_run_as(k, QG_DT_PACKED, QG_F32, slice_run);
    QG_TRY(plan_slice(k, &plan));
    if (qg_elements(y) == 0)
        return QG_OK;
    for (int32_t i = 0; i < x->rank; i++) {
        first += plan.start[i] * x->stride[i];
        stride[i] = plan.step[i] * x->stride[i];
    }
    const size_t size = qg_element_size(x->dtype);
    qg_walk_pair(&w, y->rank, y->dim, y->stride, stride);
    qg_walk_copy(&w, size, y->data, (const char *)x->data + first * (int64_t)size);
    return QG_OK;
}

/* The gathering operators share `axis`; GatherND reads batch_dims into it. */
typedef struct gather_param {
    int64_t axis;
} gather_param;

static qg_status gather_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_attr_int(ctx, n, "axis", 0, &((gather_param *)param)->axis);
}

static qg_status gather_nd_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_attr_int(ctx, n, "batch_dims", 0, &((gather_param *)param)->axis);
}

/* Packed types have no address and are refused here. */
static qg_status gather_types(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    return qg_check_type(k, 1, QG_DT_INDEX);
}

/* Gather: y = x[:axis] + indices + x[axis + 1:]. */
static qg_status gather_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *index = k->in[1];
    int64_t dim[2 * QG_MAX_RANK];
    int32_t axis, rank = 0;
    QG_TRY(gather_types(k));
    if (x->rank < 0 || index->rank < 0)
        return qg_infer_dims(k, x->dtype, -1, NULL);
    QG_TRY(qg_check_axis(k, ((const gather_param *)k->param)->axis, x->rank, &axis));
    for (int32_t i = 0; i < axis; i++)
        dim[rank++] = x->dim[i];
    for (int32_t i = 0; i < index->rank; i++)
        dim[rank++] = index->dim[i];
    for (int32_t i = axis + 1; i < x->rank; i++)
        dim[rank++] = x->dim[i];
    if (rank > QG_MAX_RANK)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "output of rank %d, supported up to %d", (int)rank,
                             QG_MAX_RANK);
    return qg_infer_dims(k, x->dtype, rank, dim);
}

/* Pieces consist of all dims after the axis. */
static qg_status gather_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    const int64_t count = (int64_t)qg_elements(k->in[1]);
    int32_t axis;
    QG_TRY(qg_check_axis(k, ((const gather_param *)k->param)->axis, x->rank, &axis));
    const qg_around a = qg_around_axis(x, axis);
    const size_t bytes = (size_t)a.inner * qg_element_size(x->dtype);
    char *to = k->out[0]->data;
    if (qg_elements(k->out[0]) == 0)
        return QG_OK;
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < count; i++, to += bytes) {
            int64_t at;
            QG_TRY(qg_index_input(k, i, a.middle, &at));
            memcpy(to, (const char *)x->data + (size_t)(o * a.middle + at) * bytes,
                   bytes);
        }
    return QG_OK;
}

/* GatherElements: y[i][j] = x[index[i][j]][j] for axis 0; y has the dims of indices. */
static qg_status gather_elements_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *index = k->in[1];
    int32_t axis;
    QG_TRY(gather_types(k));
    if (x->rank >= 0) {
        QG_TRY(
            qg_check_axis(k, ((const gather_param *)k->param)->axis, x->rank, &axis));
        QG_TRY(qg_check_rank(k, 1, x->rank, x->rank));
    }
    for (int32_t i = 0; i < x->rank && index->rank >= 0; i++)
        if (i != axis && x->dim[i] >= 0 && index->dim[i] > x->dim[i])
            return qg_infer_fail(
                k, QG_EMODEL, "input 1: dimension %d is %lld, expected at most %lld",
                (int)i, (long long)index->dim[i], (long long)x->dim[i]);
    return qg_infer_dims(k, x->dtype, index->rank, index->dim);
}

/* Rows of the index tensor; the axis of x is looked up per element. */
static qg_status gather_elements_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *y = k->out[0];
    const size_t size = qg_element_size(x->dtype);
    int64_t stride[QG_MAX_RANK], done = 0;
    int32_t axis;
    qg_walk w;
    QG_TRY(qg_check_axis(k, ((const gather_param *)k->param)->axis, x->rank, &axis));
    memcpy(stride, x->stride, sizeof stride);
    stride[axis] = 0; /* given by the index */
    qg_walk_init(&w, y->rank, y->dim);
    qg_walk_add(&w, stride);
    qg_walk_at at = { 0 };
    if (qg_walk_empty(&w))
        return QG_OK;
    const int64_t row = w.dim[w.rank - 1], step = stride[w.rank - 1];
    do {
        for (int64_t i = 0; i < row; i++, done++) {
            int64_t pick;
            QG_TRY(qg_index_input(k, done, x->dim[axis], &pick));
            pick = at.offset[0] + i * step + pick * x->stride[axis];
            memcpy((char *)y->data + (size_t)done * size,
                   (const char *)x->data + (size_t)pick * size, size);
        }
    } while (qg_walk_next(&w, &at));
    return QG_OK;
}

/* GatherND: the last dim of indices holds a position in the dims of x after batch_dims;
 * y = indices[:-1] + the remaining dims. */
static qg_status gather_nd_infer(const qg_call *k)
{
    const int64_t batch = ((const gather_param *)k->param)->axis;
    const qg_tensor *x = k->in[0], *index = k->in[1];
    int64_t dim[2 * QG_MAX_RANK];
    int32_t rank = 0;
    QG_TRY(gather_types(k));
    QG_TRY(qg_check_rank(k, 0, 1, QG_MAX_RANK));
    QG_TRY(qg_check_rank(k, 1, 1, QG_MAX_RANK));
    if (x->rank < 0 || index->rank < 0 || index->dim[index->rank - 1] < 0)
        return qg_infer_dims(k, x->dtype, -1, NULL);
    const int64_t depth = index->dim[index->rank - 1];
    if (batch < 0 || batch >= x->rank || batch >= index->rank || depth < 1 ||
        depth > x->rank - batch)
        return qg_infer_fail(k, QG_EMODEL,
                             "positions of %lld values and batch_dims %lld do not fit "
                             "rank %d",
                             (long long)depth, (long long)batch, (int)x->rank);
    for (int32_t i = 0; i < batch; i++)
        QG_TRY(qg_check_dim(k, 1, i, x->dim[i]));
    for (int32_t i = 0; i < index->rank - 1; i++)
        dim[rank++] = index->dim[i];
    for (int32_t i = (int32_t)(batch + depth); i < x->rank; i++)
        dim[rank++] = x->dim[i];
    if (rank > QG_MAX_RANK)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "output of rank %d, supported up to %d", (int)rank,
                             QG_MAX_RANK);
    return qg_infer_dims(k, x->dtype, rank, dim);
}

/* Each position selects a piece of x within its batch entry. */
static qg_status gather_nd_run(const qg_call *k)
{
    const int32_t batch = (int32_t)((const gather_param *)k->param)->axis;
    const qg_tensor *x = k->in[0], *index = k->in[1];
    const int64_t depth = index->dim[index->rank - 1];
    const int64_t rest = qg_dims_product(x, batch + (int32_t)depth, x->rank);
    const size_t bytes = (size_t)rest * qg_element_size(x->dtype);
    if (qg_elements(k->out[0]) == 0)
        return QG_OK;
    const int64_t picks = (int64_t)qg_elements(index) / depth;
    const int64_t per_batch = picks / qg_dims_product(index, 0, batch);
    const int64_t block = qg_dims_product(x, batch, x->rank);
    for (int64_t i = 0; i < picks; i++) {
        int64_t from = i / per_batch * block;
        for (int64_t d = 0; d < depth; d++) {
            int64_t at;
            QG_TRY(qg_index_input(k, i * depth + d, x->dim[batch + d], &at));
            from += at * x->stride[batch + d];
        }
        memcpy((char *)k->out[0]->data + (size_t)i * bytes,
               (const char *)x->data + (size_t)from * qg_element_size(x->dtype), bytes);
    }
    return QG_OK;
}

/* Compress: the slices along axis (or the flattened elements) whose condition is true;
 * missing conditions at the end are false. */
typedef struct compress_param {
    bool flat;
    int64_t axis;
} compress_param;

/* Without axis the elements are taken flat. */
static qg_status compress_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    compress_param *p = param;
    p->flat = !qg_attr_has(n, "axis");
    return qg_attr_int(ctx, n, "axis", 0, &p->axis);
}

/* Input 0 around the axis; flat: one row of all elements. */
static qg_status compress_around(const qg_call *k, int32_t *axis, qg_around *a)
{
    const compress_param *p = k->param;
    *axis = 0;
    *a = (qg_around){ 1, (int64_t)qg_elements(k->in[0]), 1 };
    if (p->flat)
        return QG_OK;
    QG_TRY(qg_check_axis(k, p->axis, k->in[0]->rank, axis));
    *a = qg_around_axis(k->in[0], *axis);
    return QG_OK;
}

/* Counts the true conditions as soon as they are known. */
static qg_status compress_infer(const qg_call *k)
{
    const compress_param *p = k->param;
    const qg_tensor *x = k->in[0], *condition = k->in[1];
    qg_tensor y = *x;
    qg_around a;
    int32_t axis = 0;
    int64_t kept = -1;
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    QG_TRY(qg_check_type(k, 1, QG_DT(BOOL)));
    QG_TRY(qg_check_vector(k, 1, -1));
    if (x->rank >= 0 && !p->flat)
        QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    if (condition->data && qg_tensor_known(x)) {
        QG_TRY(compress_around(k, &axis, &a));
        kept = 0;
        for (int64_t i = 0; i < (int64_t)qg_elements(condition); i++) {
            kept += condition->u8[i] != 0;
            if (condition->u8[i] && i >= a.middle)
                return qg_infer_fail(k, QG_EDATA,
                                     "condition %lld of %lld elements is true",
                                     (long long)i, (long long)a.middle);
        }
    }
    if (p->flat)
        return qg_infer_dims(k, x->dtype, 1, &kept);
    if (x->rank >= 0)
        y.dim[axis] = kept;
    return qg_infer_dims(k, x->dtype, x->rank, y.dim);
}

/* Pieces whose condition is true, in order. */
static qg_status compress_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *condition = k->in[1];
    const int64_t n = (int64_t)qg_elements(condition);
    qg_around a;
    int32_t axis;
    QG_TRY(compress_around(k, &axis, &a));
    const size_t bytes = (size_t)a.inner * qg_element_size(x->dtype);
    char *to = k->out[0]->data;
    if (qg_elements(k->out[0]) == 0)
        return QG_OK;
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < n; i++)
            if (condition->u8[i]) {
                memcpy(to, (const char *)x->data + (size_t)(o * a.middle + i) * bytes,
                       bytes);
                to += bytes;
            }
    return QG_OK;
}

#define MOVES (QG_OP_PASSIVE | QG_OP_PURE)
#define ROW(onnx, first, id, prep, par)                                                \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = 2, .max_in = 2, .min_out = 1,          \
        .max_out = 1, .in_roles = "ds", .traits = MOVES,                               \
        .param_size = sizeof(par##_param), .prepare = prep##_prepare,                  \
        .infer = id##_infer, .run = id##_run, .lower = qg_lower_move,                  \
        .backward = qg_backward_move                                                   \
    }
#define ROWSLICE(first, last, least, most)                                             \
    {                                                                                  \
        .name = "Slice", .since = first, .until = last, .min_in = least,               \
        .max_in = most, .min_out = 1, .max_out = 1, .in_roles = "ds", .traits = MOVES, \
        .param_size = sizeof(slice_param), .prepare = slice_prepare,                   \
        .infer = slice_infer, .run = slice_run, .lower = qg_lower_move,                \
        .backward = qg_backward_move                                                   \
    }

/* clang-format off */
const qg_op qg_ops_index[] = {
    ROWSLICE(1, 9, 1, 1), ROWSLICE(10, 0, 3, 5),
    ROW("Gather",          1, gather,          gather,    gather),
    ROW("GatherElements", 11, gather_elements, gather,    gather),
    ROW("GatherND",       11, gather_nd,       gather_nd, gather),
    ROW("Compress",        9, compress,        compress,  compress),
    { 0 },
};
/* clang-format on */
