/* generate.c -- tensors made from a rule: Range, EyeLike, OneHot, Trilu, NonZero, Det.
 * Source: the ONNX operator page of the same name.
 *
 * Range-11   three scalars, length from their data OneHot-9   11 allows negative
 * indices; both do here Trilu-14, EyeLike-9 (22: more types), NonZero-9 (13), Det-11
 * (22) */
#include "ops/families.h"

#include <assert.h>
#include <math.h>

#include "ops/util_axis.h"
#include "ops/util_cast.h"

/* Range: start + i * delta, i < max(0, ceil((limit - start) / delta)). */
static qg_status range_count_real(const qg_call *k, int64_t *out)
{
    const double start = qg_tensor_f64(k->in[0], 0), limit = qg_tensor_f64(k->in[1], 0);
    const double delta = qg_tensor_f64(k->in[2], 0), n = ceil((limit - start) / delta);
    if (!(delta != 0) || !(n <= (double)QG_MAX_EXTENT))
        return qg_infer_fail(k, QG_EDATA, "from %g to %g by %g has no end", start,
                             limit, delta);
    *out = n > 0 ? (int64_t)n : 0;
    return QG_OK;
}

/* In unsigned arithmetic: the distance of two int64_t may not fit one. */
static qg_status range_count_int(const qg_call *k, int64_t *out)
{
    const int64_t start = qg_tensor_i64(k->in[0], 0),
                  limit = qg_tensor_i64(k->in[1], 0);
    const int64_t delta = qg_tensor_i64(k->in[2], 0);
    const bool up = delta > 0;
    uint64_t distance =
        up ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    const uint64_t step = up ? (uint64_t)delta : 0 - (uint64_t)delta;
    if (up ? limit <= start : limit >= start)
        distance = 0;
    if (delta == 0 || (distance && (distance - 1) / step >= (uint64_t)QG_MAX_EXTENT))
        return qg_infer_fail(k, QG_EDATA, "from %lld to %lld by %lld has no end",
                             (long long)start, (long long)limit, (long long)delta);
    *out = distance ? (int64_t)((distance - 1) / step) + 1 : 0;
    return QG_OK;
}

/* Without data only the rank is known. */
static qg_status range_infer(const qg_call *k)
{
    const uint64_t ints = QG_DT(I16) | QG_DT_INDEX;
    const qg_dtype d = k->in[0]->dtype;
    int64_t n = -1;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS | ints));
    QG_TRY(qg_check_same_type(k, 1, 2));
    bool ready = true;
    for (size_t i = 0; i < 3; i++) {
        ready = ready && k->in[i]->data;
        QG_TRY(qg_check_one(k, i));
    }
    if (ready)
        QG_TRY(QG_DT_HAS(ints, d) ? range_count_int(k, &n) : range_count_real(k, &n));
    return qg_infer_dims(k, d, 1, &n);
}

/* Each element from its index: errors do not add up. */
static qg_status range_run(const qg_call *k)
{
    qg_tensor *y = k->out[0];
    const int64_t n = y->dim[0];
    if (QG_DT_HAS(QG_DT_HALVES, y->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, range_run);
#define FILL(id, member, T, W)                                                         \
    case QG_##id:                                                                      \
        for (int64_t i = 0; i < n; i++)                                                \
            y->member[i] =                                                             \
                (T)((W)k->in[0]->member[0] + (W)i * (W)k->in[2]->member[0]);           \
        return QG_OK;
    switch (y->dtype) {
        FILL(F32, f32, float, float)
        FILL(F64, f64, double, double)
        FILL(I16, i16, int16_t, uint32_t)
        FILL(I32, i32, int32_t, uint32_t)
        FILL(I64, i64, int64_t, uint64_t)
    default:
        break;
    }
#undef FILL
    assert(!"infer let another type pass");
    return QG_OK;
}

/* EyeLike: ones on diagonal k of a matrix of the input's dims. */
typedef struct eye_param {
    int64_t diagonal;
    qg_dtype dtype; /* QG_NODTYPE: that of the input */
} eye_param;

static qg_status eye_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    eye_param *p = param;
    int64_t code;
    QG_TRY(qg_attr_int(ctx, n, "k", 0, &p->diagonal));
    QG_TRY(qg_attr_int(ctx, n, "dtype", 0, &code));
    p->dtype = qg_dtype_of_onnx(code);
    if (qg_attr_has(n, "dtype") && !QG_DT_HAS(QG_DT_PLAIN, p->dtype))
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "prepare", n,
                            "dtype %lld, supported: numbers and bool", (long long)code);
    return QG_OK;
}

/* dtype, or the type of the input. */
static qg_status eye_infer(const qg_call *k)
{
    const eye_param *p = k->param;
    const qg_tensor *x = k->in[0];
    QG_TRY(qg_check_rank(k, 0, 2, 2));
    if (!p->dtype)
        QG_TRY(qg_check_type(k, 0, QG_DT_PLAIN));
    return qg_infer_dims(k, p->dtype ? p->dtype : x->dtype, x->rank, x->dim);
}

/* Element (i, i + diagonal) = 1 of a zeroed matrix, in the type of y. */
static qg_status eye_run(const qg_call *k)
{
    const int64_t diagonal = ((const eye_param *)k->param)->diagonal;
    qg_tensor *y = k->out[0];
    const int64_t rows = y->dim[0], columns = y->dim[1];
    float one = 1;
    memset(y->data, 0, qg_elements(y) * qg_element_size(y->dtype));
    if (diagonal <= -rows || diagonal >= columns)
        return QG_OK;
    for (int64_t i = diagonal < 0 ? -diagonal : 0; i < rows && i + diagonal < columns;
         i++)
        qg_cast((qg_cast_side){ QG_F32, &one, 0 },
                (qg_cast_side){ y->dtype, y->data, i * columns + i + diagonal }, 1,
                true);
    return QG_OK;
}

/* OneHot: inputs indices, depth, [off, on]; a new axis of `depth` elements. */
typedef struct axis_param {
    int64_t axis;
} axis_param;

static qg_status one_hot_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_attr_int(ctx, n, "axis", -1, &((axis_param *)param)->axis);
}

/* The new axis has `depth` elements, known when it is constant. */
static qg_status one_hot_infer(const qg_call *k)
{
    const qg_tensor *index = k->in[0], *depth = k->in[1];
    int64_t dim[QG_MAX_RANK + 1], n = -1;
    int32_t axis;
    QG_TRY(qg_check_types(k, 0, 1, QG_DT_NUMBERS));
    QG_TRY(qg_check_type(k, 2, QG_DT_ADDRESSED));
    QG_TRY(qg_check_vector(k, 2, 2));
    if (depth->data) {
        const double d = qg_tensor_count(depth) == 1 ? qg_tensor_f64(depth, 0) : -1;
        if (!(d >= 0 && d <= (double)QG_MAX_EXTENT))
            return qg_infer_fail(k, QG_EDATA, "depth is not one number of 0 or more");
        n = (int64_t)d;
    }
    if (index->rank < 0)
        return qg_infer_dims(k, k->in[2]->dtype, -1, NULL);
    if (index->rank == QG_MAX_RANK)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "output of rank %d, supported up to %d", QG_MAX_RANK + 1,
                             QG_MAX_RANK);
    QG_TRY(
        qg_check_axis(k, ((const axis_param *)k->param)->axis, index->rank + 1, &axis));
    for (int32_t i = 0, from = 0; i <= index->rank; i++)
        dim[i] = i == axis ? n : index->dim[from++];
    return qg_infer_dims(k, k->in[2]->dtype, index->rank + 1, dim);
}

/* Index i as a position in [0, depth), or -1 when it is not in [-depth, depth). */
static int64_t hot_index(const qg_tensor *t, int64_t i, int64_t depth)
{
    int64_t at;
    if (t->dtype == QG_I64) {
        at = t->i64[i];
    } else {
        const double x = qg_tensor_f64(t, i);
        if (!(x >= -(double)depth && x < (double)depth))
            return -1;
        at = (int64_t)x;
    }
    if (at < -depth || at >= depth)
        return -1;
    return at < 0 ? at + depth : at;
}

/* Everything off first, then one element per index on. */
static qg_status one_hot_run(const qg_call *k)
{
    const qg_tensor *index = k->in[0], *y = k->out[0];
    const size_t size = qg_element_size(y->dtype);
    const char *off = k->in[2]->data, *on = off + size;
    const size_t total = qg_elements(y);
    int32_t axis;
    QG_TRY(qg_check_axis(k, ((const axis_param *)k->param)->axis, y->rank, &axis));
    const qg_around a = qg_around_axis(y, axis);
    char *to = y->data;
    for (size_t i = 0; i < total; i++)
        memcpy(to + i * size, off, size);
    for (int64_t o = 0; o < a.outer && total; o++)
        for (int64_t i = 0; i < a.inner; i++) {
            const int64_t at = hot_index(index, o * a.inner + i, a.middle);
            if (at >= 0)
                memcpy(to + (size_t)((o * a.middle + at) * a.inner + i) * size, on,
                       size);
        }
    return QG_OK;
}

/* Trilu: the upper or lower triangle of the last two dims, zero elsewhere; input 1
 * moves the diagonal to the right. */
typedef struct trilu_param {
    int64_t upper;
} trilu_param;

static qg_status trilu_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_attr_int(ctx, n, "upper", 1, &((trilu_param *)param)->upper);
}

/* Any batch of matrices. */
static qg_status trilu_infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    QG_TRY(qg_check_type(k, 1, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 2, QG_MAX_RANK));
    return qg_infer_same(k);
}

/* Columns [*from, *to) of row i stay. */
static void kept_columns(bool upper, int64_t i, int64_t diagonal, int64_t columns,
                         int64_t *from, int64_t *to)
{
    int64_t edge = i + diagonal + (upper ? 0 : 1);
    edge = edge < 0 ? 0 : edge > columns ? columns : edge;
    *from = upper ? edge : 0;
    *to = upper ? columns : edge;
}

/* The diagonal is cut to the matrix before it is used in sums. */
static qg_status trilu_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *given = qg_in(k, 1);
    const bool upper = ((const trilu_param *)k->param)->upper != 0;
    const int64_t rows = x->dim[x->rank - 2], columns = x->dim[x->rank - 1];
    const size_t size = qg_element_size(x->dtype), total = qg_elements(x) * size;
    int64_t diagonal = 0;
    if (given && qg_elements(given) != 1)
        return qg_run_fail(k, QG_EMODEL, "k has %zu values, expected 1",
                           qg_elements(given));
    if (given) /* beyond the matrix all is the same */
        diagonal = given->i64[0] < -rows     ? -rows
                   : given->i64[0] > columns ? columns
                                             : given->i64[0];
    if (total == 0)
        return QG_OK;
    memset(k->out[0]->data, 0, total);
    const int64_t lines = (int64_t)(total / size) / columns;
    for (int64_t i = 0; i < lines; i++) {
        int64_t from, to;
        kept_columns(upper, i % rows, diagonal, columns, &from, &to);
        const size_t at = (size_t)(i * columns + from) * size;
        if (to > from)
            memcpy((char *)k->out[0]->data + at, (const char *)x->data + at,
                   (size_t)(to - from) * size);
    }
    return QG_OK;
}

/* NonZero: the positions of the elements that are not 0, one column each, in order. */
static bool is_zero(const qg_tensor *t, size_t i, size_t size)
{
    static const char zeros[8] = { 0 };
    if (t->dtype == QG_F32)
        return t->f32[i] == 0;
    if (t->dtype == QG_F64)
        return t->f64[i] == 0;
    if (QG_DT_HAS(QG_DT_HALVES, t->dtype))
        return (t->u16[i] & 0x7fff) == 0;
    return memcmp((const char *)t->data + i * size, zeros, size) == 0;
}

/* The count depends on the data. */
static qg_status nonzero_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int64_t dim[2] = { x->rank < 0 ? -1 : x->rank, -1 };
    QG_TRY(qg_check_type(k, 0, QG_DT_PLAIN));
    if (x->data && qg_tensor_known(x)) {
        const size_t n = qg_elements(x), size = qg_element_size(x->dtype);
        dim[1] = 0;
        for (size_t i = 0; i < n; i++)
            dim[1] += !is_zero(x, i, size);
    }
    return qg_infer_dims(k, QG_I64, 2, dim);
}

/* Positions column by column, in the order of the elements. */
static qg_status nonzero_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *y = k->out[0];
    const size_t n = qg_elements(x), size = qg_element_size(x->dtype);
    const int64_t count = y->dim[1];
    int64_t column = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_zero(x, i, size))
            continue;
        int64_t rest = (int64_t)i;
        for (int32_t d = x->rank - 1; d >= 0; d--) {
            y->i64[d * count + column] = rest % x->dim[d];
            rest /= x->dim[d];
        }
        column++;
    }
    return QG_OK;
}

/* Det: of the square matrices in the last two dims, by elimination in double. */
static qg_status det_infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_rank(k, 0, 2, QG_MAX_RANK));
    if (x->rank >= 2)
        QG_TRY(qg_check_dim(k, 0, x->rank - 1, x->dim[x->rank - 2]));
    return qg_infer_dims(k, x->dtype, x->rank < 0 ? -1 : x->rank - 2, x->dim);
}

/* Determinant of the n x n matrix m, which is overwritten. */
static double determinant(double *m, int64_t n)
{
    double det = 1;
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; r++)
            if (fabs(m[r * n + c]) > fabs(m[pivot * n + c]))
                pivot = r;
        if (m[pivot * n + c] == 0)
            return 0;
        for (int64_t j = c; j < n && pivot != c; j++) {
            const double swap = m[c * n + j];
            m[c * n + j] = m[pivot * n + j];
            m[pivot * n + j] = swap;
        }
        det *= pivot == c ? m[c * n + c] : -m[c * n + c];
        for (int64_t r = c + 1; r < n; r++) {
            const double factor = m[r * n + c] / m[c * n + c];
            for (int64_t j = c; j < n; j++)
                m[r * n + j] -= factor * m[c * n + j];
        }
    }
    return det;
}

/* Each matrix is widened to double and eliminated in place. */
static qg_status det_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    const int64_t n = x->dim[x->rank - 1];
    const size_t count = qg_elements(k->out[0]);
    double *m = qg_arena_raw(k->scratch, (size_t)(n * n), sizeof *m);
    if (!m)
        return qg_nomem(k->ctx);
    for (size_t i = 0; i < count; i++) {
        qg_cast((qg_cast_side){ x->dtype, x->data, (int64_t)i * n * n },
                (qg_cast_side){ QG_F64, m, 0 }, n * n, true);
        double det = determinant(m, n);
        qg_cast((qg_cast_side){ QG_F64, &det, 0 },
                (qg_cast_side){ k->out[0]->dtype, k->out[0]->data, (int64_t)i }, 1,
                true);
    }
    return QG_OK;
}

#define ROW(onnx, first, least, most, roles, out, t, id)                               \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = least, .max_in = most, .min_out = 1,   \
        .max_out = 1, .in_roles = roles, .out_roles = out, .traits = QG_OP_PURE | (t), \
        .infer = id##_infer, .run = id##_run                                           \
    }
#define ROWP(onnx, first, least, most, roles, out, t, id, par)                         \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = least, .max_in = most, .min_out = 1,   \
        .max_out = 1, .in_roles = roles, .out_roles = out, .traits = QG_OP_PURE | (t), \
        .param_size = sizeof(par##_param), .prepare = id##_prepare,                    \
        .infer = id##_infer, .run = id##_run                                           \
    }

/* clang-format off */
const qg_op qg_ops_generate[] = {
    ROW("Range",    11, 3, 3, "s",   "d", 0, range),
    ROWP("EyeLike",  9, 1, 1, "s",   "d", 0, eye, eye),
    ROWP("OneHot",   9, 3, 3, "sss", "s", 0, one_hot, axis),
    ROWP("Trilu",   14, 1, 2, "ds",  "d", 0, trilu, trilu),
    ROW("NonZero",   9, 1, 1, "d",   "s", QG_OP_SHAPE, nonzero),
    ROW("Det",      11, 1, 1, "d",   "d", 0, det),
    { 0 },
};
/* clang-format on */
