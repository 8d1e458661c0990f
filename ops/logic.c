/* logic.c -- comparisons, boolean operators, tests of floats, Where.
 *
 * Booleans are read as bytes: anything but 0 is true; 0 or 1 is written.
 * Source: the ONNX operator page of the same name.
 *
 * Equal-1, 7, 11, 13, 19; Less, Greater-1, 7, 9, 13; -OrEqual-12, 16; And, Or,
 * Xor-1, 7 Where-9, 16   the condition is 's'; both choices are data and share a
 * scale (JOIN) IsNaN-9, 13, 20; IsInf-10, 20 */
#include "ops/families.h"

#include <math.h>

#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"

#define ROW2(id, suffix, T, expr)                                                      \
    static void id##_##suffix(const void *a, int64_t sa, const void *b, int64_t sb,    \
                              void *y, size_t n)                                       \
    {                                                                                  \
        QG_ROW2_BODY(T, T, uint8_t, expr)                                              \
    }

/* clang-format off */
#define COMPARE(id, expr)                                                              \
    QG_EACH_FLOAT(ROW2, id, expr)                                                      \
    QG_EACH_INT(ROW2, id, expr)                                                        \
    ROW2(id, bool, uint8_t, expr)                                                      \
    static const qg_row2 id##_rows[QG_NDTYPE] = { QG_ENTRIES_NUMBER(id),               \
                                                  [QG_BOOL] = id##_bool };             \
    static qg_status id##_run(const qg_call *k)                                        \
    {                                                                                  \
        return qg_binary_run_rows(k, id##_rows);                                       \
    }

COMPARE(equal, x == z)
COMPARE(less, x < z)
COMPARE(greater, x > z)
COMPARE(less_equal, x <= z)
COMPARE(greater_equal, x >= z)

ROW2(and, bool, uint8_t, x && z)
ROW2(or, bool, uint8_t, x || z)
ROW2(xor, bool, uint8_t, !x != !z)
/* clang-format on */

#define BOOLEAN_RUN(id)                                                                \
    static qg_status id##_run(const qg_call *k)                                        \
    {                                                                                  \
        qg_binary_run(k, id##_bool);                                                   \
        return QG_OK;                                                                  \
    }
BOOLEAN_RUN(and)
BOOLEAN_RUN(or)
BOOLEAN_RUN(xor)

static qg_status infer_to_bool(const qg_call *k, uint64_t mask)
{
    QG_TRY(qg_check_type(k, 0, mask));
    QG_TRY(qg_check_same_type(k, 1, 1));
    return qg_binary_infer(k, QG_BOOL);
}

static qg_status equal_infer(const qg_call *k) { return infer_to_bool(k, QG_DT_PLAIN); }
static qg_status order_infer(const qg_call *k)
{
    return infer_to_bool(k, QG_DT_NUMBERS);
}
static qg_status boolean_infer(const qg_call *k)
{
    return infer_to_bool(k, QG_DT(BOOL));
}

static qg_status not_infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT(BOOL)));
    return qg_infer_same(k);
}

static qg_status not_run(const qg_call *k)
{
    const size_t n = qg_elements(k->in[0]);
    const uint8_t *x = k->in[0]->u8;
    uint8_t *y = k->out[0]->u8;
    QG_IVDEP for (size_t i = 0; i < n; i++) y[i] = !x[i];
    return QG_OK;
}

/* IsNaN, IsInf: a float in, a bool out. */
typedef struct inf_param {
    int64_t negative, positive; /* which infinities count */
} inf_param;

static qg_status isinf_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    inf_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "detect_negative", 1, &p->negative));
    return qg_attr_int(ctx, n, "detect_positive", 1, &p->positive);
}

/* One bool per element. */
static qg_status float_test_infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS | QG_DT_FLOAT8));
    return qg_infer_dims(k, QG_BOOL, k->in[0]->rank, k->in[0]->dim);
}

/* y[i] = expr of double x, for float and double; narrower floats are converted to
 * float. */
#define FLOAT_TEST(id, expr)                                                           \
    static qg_status id##_run(const qg_call *k)                                        \
    {                                                                                  \
        const qg_tensor *t = k->in[0];                                                 \
        const inf_param *p = k->param;                                                 \
        const size_t n = qg_elements(t);                                               \
        (void)p;                                                                       \
        if (t->dtype != QG_F32 && t->dtype != QG_F64)                                  \
            return qg_run_as(k, UINT64_C(1) << t->dtype, QG_F32, id##_run);            \
        for (size_t i = 0; i < n; i++) {                                               \
            const double x = t->dtype == QG_F32 ? (double)t->f32[i] : t->f64[i];       \
            k->out[0]->u8[i] = (expr);                                                 \
        }                                                                              \
        return QG_OK;                                                                  \
    }
FLOAT_TEST(isnan, x != x)
FLOAT_TEST(isinf, (x == HUGE_VAL && p->positive) || (x == -HUGE_VAL && p->negative))

/* Where: input 0 selects between inputs 1 and 2. */
static qg_status where_infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT(BOOL)));
    QG_TRY(qg_check_type(k, 1, QG_DT_ADDRESSED));
    if (k->in[1]->dtype != k->in[2]->dtype)
        return qg_infer_fail(
            k, QG_EMODEL, "input 2 has type %s, expected %s as input 1",
            qg_dtype_name(k->in[2]->dtype), qg_dtype_name(k->in[1]->dtype));
    return qg_infer_broadcast(k, 0, 3, k->in[1]->dtype);
}

/* One row: steps of condition, x and z are 0 or 1. */
typedef void (*where_row)(const uint8_t *c, const void *x, const void *z, void *y,
                          const int64_t step[3], int64_t n);
#define WHERE_ROW(T)                                                                   \
    static void where_##T(const uint8_t *c, const void *x, const void *z, void *y,     \
                          const int64_t step[3], int64_t n)                            \
    {                                                                                  \
        const T *px = x, *pz = z;                                                      \
        T *py = y;                                                                     \
        const int64_t sc = step[0], sx = step[1], sz = step[2];                        \
        if (sc && sx && sz) {                                                          \
            QG_IVDEP for (int64_t i = 0; i < n; i++) py[i] = c[i] ? px[i] : pz[i];     \
        } else {                                                                       \
            QG_IVDEP for (int64_t i = 0; i < n; i++) py[i] =                           \
                c[i * sc] ? px[i * sx] : pz[i * sz];                                   \
        }                                                                              \
    }
WHERE_ROW(uint8_t)
WHERE_ROW(uint16_t)
WHERE_ROW(uint32_t)
WHERE_ROW(uint64_t)

static qg_status where_run(const qg_call *k)
{
    static const where_row rows[9] = { [1] = where_uint8_t,
                                       [2] = where_uint16_t,
                                       [4] = where_uint32_t,
                                       [8] = where_uint64_t };
    const int64_t size = (int64_t)qg_element_size(k->in[1]->dtype);
    qg_walk w;
    qg_walk_init(&w, k->out[0]->rank, k->out[0]->dim);
    qg_walk_add_broadcast(&w, k->out[0]);
    for (size_t i = 0; i < 3; i++)
        qg_walk_add_broadcast(&w, k->in[i]);
    qg_walk_collapse(&w);
    if (qg_walk_empty(&w))
        return QG_OK;
    const int32_t last = w.rank - 1;
    const int64_t step[3] = { w.stride[1][last], w.stride[2][last], w.stride[3][last] };
    qg_walk_at at = { 0 };
    do {
        rows[size](k->in[0]->u8 + at.offset[1],
                   (const char *)k->in[1]->data + at.offset[2] * size,
                   (const char *)k->in[2]->data + at.offset[3] * size,
                   (char *)k->out[0]->data + at.offset[0] * size, step, w.dim[last]);
    } while (qg_walk_next(&w, &at));
    return QG_OK;
}

#define BOOLEANS (QG_OP_ELEMENTWISE | QG_OP_SHAPE | QG_OP_PURE)
#define ROW(onnx, first, last, id, check)                                              \
    {                                                                                  \
        .name = onnx, .since = first, .until = last, .min_in = 2, .max_in = 2,         \
        .min_out = 1, .max_out = 1, .in_roles = "d", .out_roles = "s",                 \
        .traits = BOOLEANS, .param_size = sizeof(qg_binary_param),                     \
        .prepare = qg_binary_prepare, .infer = check##_infer, .run = id##_run          \
    }

/* clang-format off */
const qg_op qg_ops_logic[] = {
    ROW("Equal",   1, 6, equal,   equal),    ROW("Equal",   7, 0, equal,   equal),
    ROW("Less",    1, 6, less,    order),    ROW("Less",    7, 0, less,    order),
    ROW("Greater", 1, 6, greater, order),    ROW("Greater", 7, 0, greater, order),
    ROW("LessOrEqual",    12, 0, less_equal,    order),
    ROW("GreaterOrEqual", 12, 0, greater_equal, order),
    ROW("And", 1, 6, and, boolean),          ROW("And", 7, 0, and, boolean),
    ROW("Or",  1, 6, or,  boolean),          ROW("Or",  7, 0, or,  boolean),
    ROW("Xor", 1, 6, xor, boolean),          ROW("Xor", 7, 0, xor, boolean),
    { .name = "Not", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,
      .in_roles = "s", .out_roles = "s", .traits = BOOLEANS,
      .infer = not_infer, .run = not_run, .in_place = 1 },
    { .name = "IsNaN", .since = 9, .min_in = 1, .max_in = 1, .min_out = 1,
      .max_out = 1, .in_roles = "d", .out_roles = "s", .traits = BOOLEANS,
      .infer = float_test_infer, .run = isnan_run },
    { .name = "IsInf", .since = 10, .min_in = 1, .max_in = 1, .min_out = 1,
      .max_out = 1, .in_roles = "d", .out_roles = "s", .traits = BOOLEANS,
      .param_size = sizeof(inf_param), .prepare = isinf_prepare,
      .infer = float_test_infer, .run = isinf_run },
    { .name = "Where", .since = 9, .min_in = 3, .max_in = 3, .min_out = 1, .max_out = 1,
      .in_roles = "sdd", .traits = QG_OP_ELEMENTWISE | QG_OP_JOIN | QG_OP_PURE,
      .infer = where_infer, .run = where_run, .in_place = 6,
      .backward = qg_backward_move },
    { 0 },
};
/* clang-format on */
