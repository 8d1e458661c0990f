/* scatter.c -- a copy of input 0 with some elements replaced or combined: Scatter,
 * ScatterElements, ScatterND, TensorScatter.  Updates are applied in the order in which
 * they are stored, so that duplicate indices are deterministic.
 * Source: the ONNX operator page of the same name.
 *
 * ScatterElements and ScatterND: reduction since 16 (add, mul), 18 (min, max).
 * Indices are 's'; data and updates have the same role, but not a common scale. */
#include "ops/families.h"

#include "ops/util_broadcast.h"
#include "ops/util_cast.h"

enum combine { SET, ADD, MUL, MIN, MAX };

typedef struct scatter_param {
    int64_t axis;
    int combine;
} scatter_param;

static qg_status prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const char *const words[] = { "none", "add", "mul", "min", "max", NULL };
    scatter_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "axis", 0, &p->axis));
    return qg_attr_choice(ctx, n, "reduction", words, SET, &p->combine);
}

/* to[i] = combine(to[i], from[i]), i < n. */
typedef void (*combiner)(int combine, void *to, const void *from, int64_t n);

/* W wraps for integers.  A NaN on either side wins. */
#define COMBINER(suffix, T, W)                                                         \
    static void combine_##suffix(int combine, void *pto, const void *pfrom, int64_t n) \
    {                                                                                  \
        T *y = pto;                                                                    \
        const T *x = pfrom;                                                            \
        for (int64_t i = 0; i < n; i++)                                                \
            switch (combine) {                                                         \
            case ADD:                                                                  \
                y[i] = (T)((W)y[i] + (W)x[i]);                                         \
                break;                                                                 \
            case MUL:                                                                  \
                y[i] = (T)((W)y[i] * (W)x[i]);                                         \
                break;                                                                 \
            case MIN:                                                                  \
                y[i] = x[i] < y[i] || x[i] != x[i] ? x[i] : y[i];                      \
                break;                                                                 \
            default:                                                                   \
                y[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];                      \
                break;                                                                 \
            }                                                                          \
    }
/* clang-format off */
#define COMBINER_MAP(X)                                                                \
    X(F32, float, float)       X(F64, double, double)                                  \
    X(I8, int8_t, uint32_t)    X(U8, uint8_t, uint32_t)                                \
    X(I16, int16_t, uint32_t)  X(U16, uint16_t, uint32_t)                              \
    X(I32, int32_t, uint32_t)  X(U32, uint32_t, uint32_t)                              \
    X(I64, int64_t, uint64_t)  X(U64, uint64_t, uint64_t)
#define X(id, T, W) COMBINER(id, T, W)
COMBINER_MAP(X)
#undef X

static const combiner combiners[QG_NDTYPE] = {
#define X(id, T, W) [QG_##id] = combine_##id,
    COMBINER_MAP(X)
#undef X
};
/* clang-format on */

/* n elements of type d from `from` into `to`. */
static void apply(int combine, qg_dtype d, char *to, const char *from, int64_t n)
{
    if (combine == SET)
        memcpy(to, from, (size_t)n * qg_element_size(d));
    else
        combiners[d](combine, to, from, n);
}

/* Combining needs numbers, replacing does not. */
static qg_status infer_types(const qg_call *k)
{
    const scatter_param *p = k->param;
    QG_TRY(qg_check_type(k, 0, p->combine == SET ? QG_DT_ADDRESSED : QG_DT_NUMBERS));
    QG_TRY(qg_check_type(k, 1, QG_DT_INDEX));
    if (k->in[2]->dtype != k->in[0]->dtype)
        return qg_infer_fail(
            k, QG_EMODEL, "input 2 has type %s, expected %s as input 0",
            qg_dtype_name(k->in[2]->dtype), qg_dtype_name(k->in[0]->dtype));
    return qg_infer_same(k);
}

/* 16-bit floats are only replaced directly; other reductions compute in float. */
static bool needs_float(const qg_call *k)
{
    return ((const scatter_param *)k->param)->combine != SET &&
           QG_DT_HAS(QG_DT_HALVES, k->in[0]->dtype);
}

/* ScatterElements: y[index[i][j]][j] = updates[i][j] for axis 0. */
static qg_status elements_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *index = k->in[1];
    int32_t axis;
    if (x->rank >= 0) {
        QG_TRY(
            qg_check_axis(k, ((const scatter_param *)k->param)->axis, x->rank, &axis));
        QG_TRY(qg_check_rank(k, 1, x->rank, x->rank));
        QG_TRY(qg_check_rank(k, 2, x->rank, x->rank));
    }
    for (int32_t i = 0; i < x->rank && index->rank >= 0; i++) {
        QG_TRY(qg_check_dim(k, 2, i, index->dim[i]));
        if (i != axis && x->dim[i] >= 0 && index->dim[i] > x->dim[i])
            return qg_infer_fail(
                k, QG_EMODEL, "input 1: dimension %d is %lld, expected at most %lld",
                (int)i, (long long)index->dim[i], (long long)x->dim[i]);
    }
    return infer_types(k);
}

/* Row by row of the indices; the axis is looked up per element. */
static qg_status elements_run(const qg_call *k)
{
    const scatter_param *p = k->param;
    const qg_tensor *x = k->in[0], *index = k->in[1];
    const size_t size = qg_element_size(x->dtype);
    int64_t stride[QG_MAX_RANK], done = 0;
    int32_t axis;
    qg_walk w;
    qg_walk_at at = { 0 };
    if (needs_float(k))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, elements_run);
    QG_TRY(qg_run_copy(k));
    QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    memcpy(stride, x->stride, sizeof stride);
    stride[axis] = 0; /* given by the index */
    qg_walk_init(&w, index->rank, index->dim);
    qg_walk_add(&w, stride);
    if (qg_walk_empty(&w))
        return QG_OK;
    do {
        for (int64_t i = 0; i < w.dim[w.rank - 1]; i++, done++) {
            int64_t to;
            QG_TRY(qg_index_input(k, done, x->dim[axis], &to));
            to = to * x->stride[axis] + at.offset[0] + i * stride[w.rank - 1];
            apply(p->combine, x->dtype, (char *)k->out[0]->data + (size_t)to * size,
                  (const char *)k->in[2]->data + (size_t)done * size, 1);
        }
    } while (qg_walk_next(&w, &at));
    return QG_OK;
}

/* ScatterND: the last dim of indices is a position in the leading dims of x; updates
 * has the dims indices[:-1] + the remaining dims. */
static qg_status nd_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *index = k->in[1], *update = k->in[2];
    QG_TRY(qg_check_rank(k, 0, 1, QG_MAX_RANK));
    QG_TRY(qg_check_rank(k, 1, 1, QG_MAX_RANK));
    const int64_t depth = index->rank < 1 ? -1 : index->dim[index->rank - 1];
    if (depth >= 0 && x->rank >= 0) {
        if (depth > x->rank)
            return qg_infer_fail(k, QG_EMODEL,
                                 "positions of %lld values do not fit rank %d",
                                 (long long)depth, (int)x->rank);
        const int32_t rank = index->rank - 1 + x->rank - (int32_t)depth;
        QG_TRY(qg_check_rank(k, 2, rank, rank));
        for (int32_t i = 0; i < rank && update->rank >= 0; i++)
            QG_TRY(qg_check_dim(k, 2, i,
                                i < index->rank - 1
                                    ? index->dim[i]
                                    : x->dim[i - (index->rank - 1) + depth]));
    }
    return infer_types(k);
}

/* A position and the piece of x that it selects. */
static qg_status nd_run(const qg_call *k)
{
    const scatter_param *p = k->param;
    const qg_tensor *x = k->in[0], *index = k->in[1];
    const int64_t depth = index->dim[index->rank - 1];
    if (needs_float(k))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, nd_run);
    QG_TRY(qg_run_copy(k));
    if (qg_elements(k->in[2]) == 0)
        return QG_OK;
    const int64_t row = qg_dims_product(x, (int32_t)depth, x->rank);
    const int64_t rows = qg_dims_product(index, 0, index->rank - 1);
    const size_t size = qg_element_size(x->dtype);
    for (int64_t i = 0; i < rows; i++) {
        int64_t to = 0;
        for (int64_t d = 0; d < depth; d++) {
            int64_t at;
            QG_TRY(qg_index_input(k, i * depth + d, x->dim[d], &at));
            to += at * x->stride[d];
        }
        apply(p->combine, x->dtype, (char *)k->out[0]->data + (size_t)to * size,
              (const char *)k->in[2]->data + (size_t)(i * row) * size, row);
    }
    return QG_OK;
}

/* TensorScatter: writes `update` into the cache (input 0) from write_indices[batch] on,
 * along axis; mode circular wraps around. */
typedef struct cache_param {
    int64_t axis;
    int circular;
} cache_param;

/* The default axis is the one before the last: [batch, heads, time, size]. */
static qg_status cache_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const char *const modes[] = { "linear", "circular", NULL };
    cache_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "axis", -2, &p->axis));
    return qg_attr_choice(ctx, n, "mode", modes, 0, &p->circular);
}

/* The batch axis has the write positions and cannot be written along. */
static qg_status cache_axis(const qg_call *k, int32_t *axis)
{
    QG_TRY(
        qg_check_axis(k, ((const cache_param *)k->param)->axis, k->in[0]->rank, axis));
    if (*axis == 0)
        return qg_infer_fail(k, QG_EMODEL,
                             "axis 0 is the batch, expected another axis");
    return QG_OK;
}

/* The update may be shorter than the cache. */
static qg_status cache_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *update = k->in[1];
    int32_t axis;
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    QG_TRY(qg_check_same_type(k, 1, 1));
    QG_TRY(qg_check_type(k, 2, QG_DT(I64)));
    if (x->rank >= 0) {
        QG_TRY(cache_axis(k, &axis));
        QG_TRY(qg_check_rank(k, 1, x->rank, x->rank));
        QG_TRY(qg_check_vector(k, 2, x->dim[0]));
    }
    for (int32_t i = 0; i < x->rank && update->rank >= 0; i++)
        if (i != axis)
            QG_TRY(qg_check_dim(k, 1, i, x->dim[i]));
        else if (x->dim[i] >= 0 && update->dim[i] > x->dim[i])
            return qg_infer_fail(k, QG_EMODEL,
                                 "update has %lld along axis %d, expected "
                                 "at most %lld",
                                 (long long)update->dim[i], (int)i,
                                 (long long)x->dim[i]);
    return qg_infer_same(k);
}

/* Where the update of this batch begins. */
static qg_status cache_start(const qg_call *k, int64_t batch, const qg_around *cache,
                             const qg_around *update, int64_t *start)
{
    const bool circular = ((const cache_param *)k->param)->circular;
    const qg_tensor *given = qg_in(k, 2);
    int64_t at = given ? given->i64[batch] : 0;
    if (circular && cache->middle > 0)
        at = (at % cache->middle + cache->middle) % cache->middle;
    if (at < 0 || (!circular && at > cache->middle - update->middle))
        return qg_run_fail(k, QG_EDATA,
                           "write index %lld of batch %lld, expected 0 to %lld",
                           (long long)at, (long long)batch,
                           (long long)(cache->middle - update->middle));
    *start = at;
    return QG_OK;
}

/* Position by position, so that wrapping needs no special case. */
static qg_status cache_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int32_t axis;
    QG_TRY(cache_axis(k, &axis));
    QG_TRY(qg_run_copy(k));
    const qg_around cache = qg_around_axis(x, axis);
    const qg_around update = qg_around_axis(k->in[1], axis);
    const size_t bytes = (size_t)cache.inner * qg_element_size(x->dtype);
    const int64_t per_batch = qg_dims_product(x, 1, axis);
    if (qg_elements(k->in[1]) == 0)
        return QG_OK;
    for (int64_t o = 0; o < cache.outer; o++) {
        int64_t start;
        QG_TRY(cache_start(k, o / per_batch, &cache, &update, &start));
        for (int64_t i = 0; i < update.middle; i++) {
            const int64_t to = o * cache.middle + (start + i) % cache.middle;
            memcpy((char *)k->out[0]->data + (size_t)to * bytes,
                   (const char *)k->in[1]->data +
                       (size_t)(o * update.middle + i) * bytes,
                   bytes);
        }
    }
    return QG_OK;
}

#define ROW(onnx, first, last, id)                                                     \
    {                                                                                  \
        .name = onnx, .since = first, .until = last, .min_in = 3, .max_in = 3,         \
        .min_out = 1, .max_out = 1, .in_roles = "dsd", .traits = QG_OP_PURE,           \
        .param_size = sizeof(scatter_param), .prepare = prepare, .infer = id##_infer,  \
        .run = id##_run, .in_place = 1                                                 \
    }

/* clang-format off */
const qg_op qg_ops_scatter[] = {
    ROW("Scatter",          9, 10, elements),
    ROW("ScatterElements", 11,  0, elements),
    ROW("ScatterND",       11,  0, nd),
    { .name = "TensorScatter", .since = 24, .min_in = 2, .max_in = 3, .min_out = 1,
      .max_out = 1, .in_roles = "dds", .traits = QG_OP_PURE,
      .param_size = sizeof(cache_param), .prepare = cache_prepare,
      .infer = cache_infer, .run = cache_run, .in_place = 1 },
    { 0 },
};
/* clang-format on */
