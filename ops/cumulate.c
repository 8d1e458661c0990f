/* cumulate.c -- CumSum and CumProd along an axis, and ArgMax and ArgMin over one.
 * Source: the ONNX operator page of the same name.
 *
 * CumSum-11, 14; CumProd-26: the axis is input 1.  ArgMax and ArgMin: int64 indices,
 * which are never quantized; select_last_index since 12. */
#include "ops/families.h"

#include <assert.h>

#include "ops/util_axis.h"
#include "ops/util_cast.h"

/* One line: n elements, `step` apart (negative: backwards). */
typedef void (*line)(const void *x, void *y, int64_t n, int64_t step, bool exclusive);

/* y[i] = x[0] op ... op x[i]; exclusive: without x[i].  Sums and products of floats are
 * kept in double, those of integers wrap in W. */
#define LINE(id, suffix, T, W, identity, op)                                           \
    static void id##_##suffix(const void *px, void *py, int64_t n, int64_t step,       \
                              bool exclusive)                                          \
    {                                                                                  \
        const T *x = px;                                                               \
        T *y = py;                                                                     \
        W s = identity;                                                                \
        for (int64_t i = 0; i < n; i++) {                                              \
            const W next = s op(W) x[i * step];                                        \
            y[i * step] = (T)(exclusive ? s : next);                                   \
            s = next;                                                                  \
        }                                                                              \
    }
#define LINES(id, identity, op)                                                        \
    LINE(id, f32, float, double, identity, op)                                         \
    LINE(id, f64, double, double, identity, op)                                        \
    LINE(id, i32, int32_t, uint64_t, identity, op)                                     \
    LINE(id, u32, uint32_t, uint64_t, identity, op)                                    \
    LINE(id, i64, int64_t, uint64_t, identity, op)                                     \
    LINE(id, u64, uint64_t, uint64_t, identity, op)                                    \
    static const line id##_lines[QG_NDTYPE] = {                                        \
        [QG_F32] = id##_f32, [QG_F64] = id##_f64, [QG_I32] = id##_i32,                 \
        [QG_U32] = id##_u32, [QG_I64] = id##_i64, [QG_U64] = id##_u64,                 \
    };
LINES(sum, 0, +)
LINES(product, 1, *)

typedef struct cumulate_param {
    int64_t exclusive, reverse;
} cumulate_param;

static qg_status cumulate_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    cumulate_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "exclusive", 0, &p->exclusive));
    return qg_attr_int(ctx, n, "reverse", 0, &p->reverse);
}

/* The axis may be unknown before run time; the shape does not depend on it. */
static qg_status cumulate_infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS | QG_DT_INDEX | QG_DT(U32) | QG_DT(U64)));
    QG_TRY(qg_check_type(k, 1, QG_DT_INDEX));
    return qg_infer_same(k);
}

/* Lines along the axis; reverse starts at their end and walks back. */
static qg_status run_lines(const qg_call *k, const line *lines)
{
    const cumulate_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int32_t axis;
    if (QG_DT_HAS(QG_DT_HALVES, x->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, k->node->op->run);
    if (qg_elements(k->in[1]) != 1)
        return qg_run_fail(k, QG_EMODEL, "axis has %zu values, expected 1",
                           qg_elements(k->in[1]));
    QG_TRY(qg_check_axis(k, qg_tensor_i64(k->in[1], 0), x->rank, &axis));
    if (qg_elements(x) == 0)
        return QG_OK;
    const qg_around a = qg_around_axis(x, axis);
    const int64_t size = (int64_t)qg_element_size(x->dtype);
    const int64_t first = p->reverse ? (a.middle - 1) * a.inner : 0;
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < a.inner; i++) {
            const int64_t at = (o * a.middle * a.inner + first + i) * size;
            lines[x->dtype]((const char *)x->data + at, (char *)k->out[0]->data + at,
                            a.middle, p->reverse ? -a.inner : a.inner,
                            p->exclusive != 0);
        }
    return QG_OK;
}

static qg_status cumsum_run(const qg_call *k) { return run_lines(k, sum_lines); }
static qg_status cumprod_run(const qg_call *k) { return run_lines(k, product_lines); }

/* ArgMax, ArgMin: the first of equals, or the last on request.  NaN counts as largest
 * (smallest for ArgMin). */
typedef int64_t (*finder)(const void *x, int64_t n, int64_t step, bool last);

#define FINDER(id, suffix, T, better)                                                  \
    static int64_t id##_##suffix(const void *px, int64_t n, int64_t step, bool last)   \
    {                                                                                  \
        const T *x = px;                                                               \
        int64_t best = 0;                                                              \
        for (int64_t i = 1; i < n; i++) {                                              \
            const T a = x[i * step], b = x[best * step];                               \
            if (a better b || (a != a && b == b) ||                                    \
                (last && (a == b || (a != a && b != b))))                              \
                best = i;                                                              \
        }                                                                              \
        return best;                                                                   \
    }
#define FINDERS(id, better)                                                            \
    QG_EACH_FLOAT(FINDER, id, better)                                                  \
    QG_EACH_INT(FINDER, id, better)                                                    \
    static const finder id##_finders[QG_NDTYPE] = { QG_ENTRIES_NUMBER(id) };
FINDERS(largest, >)
FINDERS(smallest, <)

typedef struct arg_param {
    int64_t axis, keep, last;
} arg_param;

static qg_status arg_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    arg_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "axis", 0, &p->axis));
    QG_TRY(qg_attr_int(ctx, n, "keepdims", 1, &p->keep));
    return qg_attr_int(ctx, n, "select_last_index", 0, &p->last);
}

/* An empty axis has no extreme. */
static qg_status arg_infer(const qg_call *k)
{
    const arg_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK];
    int32_t axis, rank = 0;
    QG_TRY(qg_check_type(k, 0, QG_DT_NUMBERS));
    if (x->rank < 0)
        return qg_infer_dims(k, QG_I64, -1, NULL);
    QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    if (x->dim[axis] == 0)
        return qg_infer_fail(k, QG_EMODEL, "axis %d is empty", (int)axis);
    for (int32_t i = 0; i < x->rank; i++)
        if (i != axis || p->keep)
            dim[rank++] = i == axis ? 1 : x->dim[i];
    return qg_infer_dims(k, QG_I64, rank, dim);
}

/* One search per line along the axis. */
static qg_status run_finders(const qg_call *k, const finder *finders)
{
    const arg_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int32_t axis;
    if (QG_DT_HAS(QG_DT_HALVES, x->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, k->node->op->run);
    QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    const qg_around a = qg_around_axis(x, axis);
    const int64_t size = (int64_t)qg_element_size(x->dtype);
    assert(a.middle > 0);
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < a.inner; i++)
            k->out[0]->i64[o * a.inner + i] = finders[x->dtype](
                (const char *)x->data + (o * a.middle * a.inner + i) * size, a.middle,
                a.inner, p->last != 0);
    return QG_OK;
}

static qg_status argmax_run(const qg_call *k)
{
    return run_finders(k, largest_finders);
}
static qg_status argmin_run(const qg_call *k)
{
    return run_finders(k, smallest_finders);
}

#define ROWCUM(onnx, first, id)                                                        \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = 2, .max_in = 2, .min_out = 1,          \
        .max_out = 1, .in_roles = "ds", .traits = QG_OP_PURE,                          \
        .param_size = sizeof(cumulate_param), .prepare = cumulate_prepare,             \
        .infer = cumulate_infer, .run = id##_run                                       \
    }
#define ROWARG(onnx, id)                                                               \
    {                                                                                  \
        .name = onnx, .since = 1, .min_in = 1, .max_in = 1, .min_out = 1,              \
        .max_out = 1, .in_roles = "d", .out_roles = "s",                               \
        .traits = QG_OP_SHAPE | QG_OP_PURE, .param_size = sizeof(arg_param),           \
        .prepare = arg_prepare, .infer = arg_infer, .run = id##_run                    \
    }

/* clang-format off */
const qg_op qg_ops_cumulate[] = {
    ROWCUM("CumSum",  11, cumsum),
    ROWCUM("CumProd", 26, cumprod),
    ROWARG("ArgMax", argmax),
    ROWARG("ArgMin", argmin),
    { 0 },
};
/* clang-format on */
