/* binary.c -- y = f(a, b) with broadcasting, and the operators that fold such an f over
 * any number of inputs.  All inputs and y have the same type.
 *
 * f is written once as an expression in x and z and compiled per element type T.
 * `wide` is the type to compute in: T for floats, unsigned for integers, so that
 * overflow wraps.  float16 and bfloat16 compute in float.
 * Source: the ONNX operator page of the same name.
 *
 * Add, Sub, Mul, Div   any number type; 1 and 6: legacy broadcast, since 7 numpy's
 * PRelu                slope is a gain ('g'): backends treat it as data Pow
 * since 12 the exponent may have a different type; accepted before too Mod float needs
 * fmod 1 before opset 28; integers floor without fmod Max, Min, Sum,
 * Mean  since 8 with broadcast; equal shapes, as before, are a special case */
#include "ops/families.h"

#include <tgmath.h>

#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_elements.h"
#include "ops/util_lower.h"
#include "ops/util_vector.h"

#define ROW2(id, suffix, T, W, expr)                                                   \
    static void id##_##suffix(const void *a, int64_t sa, const void *b, int64_t sb,    \
                              void *y, size_t n)                                       \
    {                                                                                  \
        typedef W wide;                                                                \
        (void)sizeof(wide);                                                            \
        QG_ROW2_BODY(T, T, T, expr)                                                    \
    }

/* clang-format off */
#define ROWS_FLOAT(id, expr)                                                           \
    ROW2(id, f32, float, float, expr)                                                  \
    ROW2(id, f64, double, double, expr)
#define ROWS_SIGNED(id, expr)                                                          \
    ROW2(id, i8, int8_t, uint32_t, expr)                                               \
    ROW2(id, i16, int16_t, uint32_t, expr)                                             \
    ROW2(id, i32, int32_t, uint32_t, expr)                                             \
    ROW2(id, i64, int64_t, uint64_t, expr)
#define ROWS_UNSIGNED(id, expr)                                                        \
    ROW2(id, u8, uint8_t, uint32_t, expr)                                              \
    ROW2(id, u16, uint16_t, uint32_t, expr)                                            \
    ROW2(id, u32, uint32_t, uint32_t, expr)                                            \
    ROW2(id, u64, uint64_t, uint64_t, expr)
#define TABLE(id) static const qg_row2 id##_rows[QG_NDTYPE] = { QG_ENTRIES_NUMBER(id) };
#define OP(id, on_float, on_signed, on_unsigned)                                       \
    ROWS_FLOAT(id, on_float)                                                           \
    ROWS_SIGNED(id, on_signed)                                                         \
    ROWS_UNSIGNED(id, on_unsigned)                                                     \
    TABLE(id)

/* float32 through the vector loop of util_vector.h. */
#define OPV(id, pair_id, on_float, on_signed, on_unsigned)                             \
    static void id##_f32(const void *a, int64_t sa, const void *b, int64_t sb,         \
                         void *y, size_t n)                                            \
    {                                                                                  \
        qg_vector_best()->pair[QG_PAIR_##pair_id](a, sa, b, sb, y, n);                 \
    }                                                                                  \
    ROW2(id, f64, double, double, on_float)                                            \
    ROWS_SIGNED(id, on_signed)                                                         \
    ROWS_UNSIGNED(id, on_unsigned)                                                     \
    TABLE(id)

OPV(add, ADD, x + z, (wide)x + (wide)z, (wide)x + (wide)z)
OPV(sub, SUB, x - z, (wide)x - (wide)z, (wide)x - (wide)z)
OPV(mul, MUL, x * z, (wide)x * (wide)z, (wide)x * (wide)z)

/* Integers truncate.  ONNX does not define x / 0: 0 here, as in numpy.  -1 is handled
 * separately, because the most negative integer has no negative. */
OPV(divide, DIV, x / z,
   z == 0 ? 0 : z == -1 ? 0 - (wide)x : (wide)(x / z),
   z == 0 ? 0 : x / z)

/* fmod 0: the result has the sign of the divisor. */
#define FLOORED(x, z) (x % z != 0 && (x < 0) != (z < 0) ? x % z + z : x % z)
#define FLOORED_REAL(r, z)                                                             \
    (r == 0 ? copysign(r, z) : (r < 0) != (z < 0) && r == r ? r + z : r)
OP(modulo, FLOORED_REAL(fmod(x, z), z),
   z == 0 || z == -1 ? 0 : FLOORED(x, z), z == 0 ? 0 : x % z)
/* fmod 1: that of the dividend. */
OP(remainder_, fmod(x, z), z == 0 || z == -1 ? 0 : x % z, z == 0 ? 0 : x % z)

/* A NaN on either side wins. */
OPV(maximum, MAX, x > z || x != x ? x : z, x > z ? x : z, x > z ? x : z)
OPV(minimum, MIN, x < z || x != x ? x : z, x < z ? x : z, x < z ? x : z)

OP(prelu, x < 0 ? x * z : x, x < 0 ? (wide)x * (wide)z : (wide)x, x)
/* clang-format on */

static qg_status infer_numbers(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_NUMBERS));
    QG_TRY(qg_check_same_type(k, 1, 1));
    return qg_binary_infer(k, k->in[0]->dtype);
}

static qg_status add_run(const qg_call *k) { return qg_binary_run_rows(k, add_rows); }
static qg_status sub_run(const qg_call *k) { return qg_binary_run_rows(k, sub_rows); }
static qg_status mul_run(const qg_call *k) { return qg_binary_run_rows(k, mul_rows); }
static qg_status divide_run(const qg_call *k)
{
    return qg_binary_run_rows(k, divide_rows);
}
static qg_status prelu_run(const qg_call *k)
{
    return qg_binary_run_rows(k, prelu_rows);
}

/* Mod. */
typedef struct mod_param {
    qg_binary_param binary; /* first: qg_binary_infer reads it */
    int64_t fmod;
} mod_param;

static qg_status mod_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_attr_int(ctx, n, "fmod", 0, &((mod_param *)param)->fmod);
}

static qg_status mod_infer(const qg_call *k)
{
    const mod_param *p = k->param;
    if (!p->fmod && k->node->opset < 28 && QG_DT_HAS(QG_DT_FLOATS, k->in[0]->dtype))
        return qg_infer_fail(k, QG_EMODEL, "fmod is 0 with %s, expected 1",
                             qg_dtype_name(k->in[0]->dtype));
    return infer_numbers(k);
}

static qg_status mod_run(const qg_call *k)
{
    const mod_param *p = k->param;
    return qg_binary_run_rows(k, p->fmod ? remainder__rows : modulo_rows);
}

/* PRelu until opset 6: slope per channel (axis 1) or a single slope. */
static qg_status prelu_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    qg_binary_param *p = param;
    (void)ctx;
    if (n->op->since < 7)
        *p = (qg_binary_param){ true, true, true, 1 };
    return QG_OK;
}

static qg_status prelu_infer(const qg_call *k)
{
    QG_TRY(infer_numbers(k));
    if (qg_out(k, 0) && k->out[0]->rank != k->in[0]->rank)
        return qg_infer_fail(k, QG_EMODEL, "slope has rank %d, expected at most %d",
                             (int)k->in[1]->rank, (int)k->in[0]->rank);
    return QG_OK;
}

/* Pow: base T, exponent of any number type.  A float base takes the exponent as T; an
 * integer base is multiplied exactly (it wraps) for integers >= 0, else in double. */
static inline int64_t power(double x, double z)
{
    double y = pow(x, z); /* saturates beyond int64, NaN gives 0 */
    return y >= 0x1p63 ? INT64_MAX : y > -0x1p63 ? (int64_t)y : y != y ? 0 : INT64_MIN;
}

/* By squaring; products wrap as unsigned products do. */
static inline uint64_t power_int(uint64_t x, int64_t z)
{
    uint64_t y = 1;
    for (; z > 0; z >>= 1, x *= x)
        if (z & 1)
            y *= x;
    return y;
}

#define POW_ROW(suffix, T, U, expr)                                                    \
    static void pow_##suffix(const void *a, int64_t sa, const void *b, int64_t sb,     \
                             void *y, size_t n)                                        \
    {                                                                                  \
        QG_ROW2_BODY(T, U, T, expr)                                                    \
    }
/* The two exponents common in networks, which are worth a shortcut. */
#define POW(x, z)                                                                      \
    ((z) == 2   ? (x) * (x)                                                            \
     : (z) == 3 ? (double)(x) * (double)(x) * (double)(x)                              \
                : pow(x, z))
#define INT_POW(x, z)                                                                  \
    (z < 0 ? (uint64_t)power((double)x, (double)z) : power_int((uint64_t)x, z))
/* clang-format off */
POW_ROW(f32, float, float, POW(x, z))
POW_ROW(f64, double, double, POW(x, z))
POW_ROW(i32_i64, int32_t, int64_t, INT_POW(x, z))
POW_ROW(i64_i64, int64_t, int64_t, INT_POW(x, z))
POW_ROW(i32_f64, int32_t, double, power((double)x, z))
POW_ROW(i64_f64, int64_t, double, power((double)x, z))
/* clang-format on */

/* The output type is that of the base. */
static qg_status pow_infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS | QG_DT_INDEX));
    QG_TRY(qg_check_type(k, 1, QG_DT_NUMBERS));
    return qg_binary_infer(k, k->in[0]->dtype);
}

/* The row for a base, and the exponent type that it requires. */
static qg_row2 pow_row(qg_dtype base, qg_dtype exponent, qg_dtype *as)
{
    const bool real = qg_dtype_kind_of(exponent) == QG_KIND_FLOAT;
    *as = base == QG_F32 || base == QG_F64 ? base : real ? QG_F64 : QG_I64;
    if (base == QG_F32)
        return pow_f32;
    if (base == QG_F64)
        return pow_f64;
    if (base == QG_I32)
        return real ? pow_i32_f64 : pow_i32_i64;
    return real ? pow_i64_f64 : pow_i64_i64;
}

static qg_status pow_run(const qg_call *k)
{
    qg_dtype as;
    const qg_tensor *exponent;
    if (QG_DT_HAS(QG_DT_HALVES, k->in[0]->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, pow_run);
    qg_row2 row = pow_row(k->in[0]->dtype, k->in[1]->dtype, &as);
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[1], as, &exponent));
    qg_call converted = *k;
    converted.in = (const qg_tensor *const[]){ k->in[0], exponent };
    qg_binary_run(&converted, row);
    return QG_OK;
}

/* Max, Min, Sum, Mean. */
static qg_status fold_infer(const qg_call *k, uint64_t mask)
{
    QG_TRY(qg_check_type(k, 0, mask));
    QG_TRY(qg_check_same_type(k, 1, k->n_in));
    for (size_t i = 0; i < k->n_in; i++)
        if (!k->in[i])
            return qg_infer_fail(k, QG_EMODEL, "input %zu is absent", i);
    return qg_infer_broadcast(k, 0, k->n_in, k->in[0]->dtype);
}

static qg_status infer_fold_numbers(const qg_call *k)
{
    return fold_infer(k, QG_DT_NUMBERS);
}

static qg_status infer_fold_floats(const qg_call *k)
{
    return fold_infer(k, QG_DT_FLOATS);
}

/* Left to right, so that the sum of floats is deterministic. */
static qg_status run_fold(const qg_call *k, const qg_row2 *rows)
{
    qg_tensor *y = k->out[0];
    if (QG_DT_HAS(QG_DT_HALVES, y->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, k->node->op->run);
    if (k->n_in == 1) {
        qg_tensor_copy(k->in[0], y);
        return QG_OK;
    }
    qg_run_row2(rows[y->dtype], k->in[0], k->in[1], y);
    for (size_t i = 2; i < k->n_in; i++)
        qg_run_row2(rows[y->dtype], y, k->in[i], y);
    return QG_OK;
}

static qg_status max_run(const qg_call *k) { return run_fold(k, maximum_rows); }
static qg_status min_run(const qg_call *k) { return run_fold(k, minimum_rows); }
static qg_status sum_run(const qg_call *k) { return run_fold(k, add_rows); }

/* The sum divided by the count at the end, once. */
static qg_status mean_run(const qg_call *k)
{
    qg_tensor count, *y = k->out[0];
    float n32 = (float)k->n_in;
    double n64 = (double)k->n_in;
    QG_TRY(sum_run(k));
    if (QG_DT_HAS(QG_DT_HALVES, y->dtype)) /* the inner call already divided */
        return QG_OK;
    qg_tensor_scalar(&count, y->dtype);
    if (y->dtype == QG_F32)
        count.f32 = &n32;
    else
        count.f64 = &n64;
    qg_run_row2(divide_rows[y->dtype], y, &count, y);
    return QG_OK;
}

/* x + c, c constant: one number per index of axis 1, or one for all. */
static qg_status add_affine(qg_ctx *ctx, const qg_node *n, size_t channels,
                            double *scale, double *shift)
{
    uint32_t slot = n->in[1] && n->in[1]->constant ? 1 : 0;
    const qg_tensor *c = n->in[slot] ? n->in[slot]->constant : NULL;
    int32_t rank = n->out[0]->type.rank, axis = c ? c->rank - (rank - 1) : -1;
    int64_t count = c ? qg_tensor_count(c) : 0;
    bool per_channel = c && axis >= 0 && axis < c->rank &&
                       c->dim[axis] == (int64_t)channels && count == c->dim[axis];
    if (!c || c->dtype != QG_F32 || c->rank > rank || (count != 1 && !per_channel))
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "affine", n,
                            "does not add one number per channel of axis 1");
    for (size_t i = 0; i < channels; i++) {
        scale[i] = 1;
        shift[i] = c->f32[count == 1 ? 0 : i];
    }
    return QG_OK;
}

/* By numpy's rule for shapes. */
static bool binary_element(const qg_node *n, const qg_tensor *const *constant,
                           qg_element *out)
{
    (void)constant;
    *out = (qg_element){ .is_pair = true,
                         .pair = n->op->run == add_run   ? QG_PAIR_ADD
                                 : n->op->run == sub_run ? QG_PAIR_SUB
                                 : n->op->run == mul_run ? QG_PAIR_MUL
                                                         : QG_PAIR_DIV };
    return n->op->since >= 7;
}

/* Add and the clamp after it access memory once; the layout is irrelevant when all dims
 * are equal. */
typedef struct add_clamped {
    float low, high;
} add_clamped;

static qg_status run_add_clamped(const qg_kernel *kernel, const qg_call *k)
{
    const add_clamped *p = kernel->state;
    qg_vector_best()->add_clamped(k->in[0]->f32, k->in[1]->f32, k->out[0]->f32,
                                  qg_elements(k->in[0]), p->low, p->high);
    return QG_OK;
}

static qg_status add_compile(qg_compile *c, qg_kernel **out)
{
    const qg_tensor *a = c->in[0], *b = c->in[1];
    add_clamped limits;
    *out = NULL;
    if (a->dtype != QG_F32 || a->data || b->data || !qg_same_dims(a, b) ||
        !qg_absorb_clamp(c, &limits.low, &limits.high))
        return qg_compile_elements(c, out);
    qg_kernel *kernel = QG_NEW(c->arena, qg_kernel);
    add_clamped *state = QG_NEW(c->arena, add_clamped);
    if (!kernel || !state)
        return qg_nomem(c->ctx);
    *state = limits;
    *kernel = (qg_kernel){
        .run = run_add_clamped,
        .state = state,
        .in_layout = {c->in_layout[0], c->in_layout[0]},
        .free_axes = UINT32_MAX,
        .out_layout = c->in_layout[0],
        .in_place = 3,
        .absorbed = 1,
        .name = "add and clamp"
    };
    *out = kernel;
    return QG_OK;
}

/* --- gradients ------------------------------------------------------------------- */

#define BINARY(id, expr_a, expr_b)                                                     \
    QG_PARTIAL(id##_by_a, expr_a)                                                      \
    QG_PARTIAL(id##_by_b, expr_b)                                                      \
    static qg_status id##_backward(const qg_backward *k)                               \
    {                                                                                  \
        return qg_backward_binary(k, id##_by_a, id##_by_b);                            \
    }
/* clang-format off */
BINARY(mul,    b,                             a)
BINARY(divide, 1 / b,                         -y / b)
BINARY(prelu,  a < 0 ? b : 1,                 a < 0 ? a : 0)
/* clang-format on */

QG_PARTIAL(pow_by_a, b == 0 ? 0 : b * pow(a, b - 1))
QG_PARTIAL(pow_by_b, a > 0 ? y * log(a) : 0)

/* The exponent may have another type than the base. */
static qg_status pow_backward(const qg_backward *b)
{
    const qg_tensor *base = b->call->in[0], *exponent;
    QG_TRY(qg_cast_view(b->call->ctx, b->call->scratch, b->call->in[1], QG_F32,
                        &exponent));
    if (b->in[0])
        QG_TRY(qg_backward_pair(b, base, exponent, pow_by_a, b->in[0]));
    return b->in[1] ? qg_backward_pair(b, base, exponent, pow_by_b, b->in[1]) : QG_OK;
}

/* Sums and means: one factor per input. */
static qg_status linear_backward(const qg_backward *b, double first, double others)
{
    for (size_t i = 0; i < b->call->n_in; i++)
        if (b->in[i])
            QG_TRY(qg_backward_sum(b, b->out[0], i == 0 ? first : others, b->in[i]));
    return QG_OK;
}

/* Until opset 6: the same with input 1 and its gradient as the modern rule aligns
 * them. */
static qg_status aligned(const qg_backward *b, qg_status (*f)(const qg_backward *))
{
    qg_call k = *b->call;
    qg_tensor view = qg_binary_view(&k), grad = view;
    const qg_tensor *in[] = { k.in[0], &view };
    if (b->in[1])
        grad.data = b->in[1]->data;
    k.in = in;
    qg_tensor *to[] = { b->in[0], b->in[1] ? &grad : NULL };
    return f(&(qg_backward){ &k, b->out, to });
}

static qg_status add_backward(const qg_backward *b) { return linear_backward(b, 1, 1); }
static qg_status sub_backward(const qg_backward *b)
{
    return linear_backward(b, 1, -1);
}
#define ALIGNED(id)                                                                    \
    static qg_status id##_aligned(const qg_backward *b)                                \
    {                                                                                  \
        return aligned(b, id##_backward);                                              \
    }
ALIGNED(add)
ALIGNED(sub)
ALIGNED(mul)
ALIGNED(divide)
ALIGNED(prelu)
ALIGNED(pow)
#define sum_backward add_backward

static qg_status mean_backward(const qg_backward *b)
{
    const double share = 1 / (double)b->call->n_in;
    return linear_backward(b, share, share);
}

/* Of Max and Min: the inputs that are the result share its gradient equally. */
static qg_status extreme_backward(const qg_backward *b)
{
    const qg_call *k = b->call;
    qg_tensor same, wide;
    QG_TRY(qg_backward_like(b, k->out[0], &same));
    QG_TRY(qg_backward_like(b, k->out[0], &wide));
    const size_t n = qg_elements(&same);
    float *count = QG_NEWN(k->scratch, n, float);
    if (!count)
        return qg_nomem(k->ctx);
    for (size_t s = 0; s < k->n_in; s++) {
        qg_stretch(k->in[s], &wide);
        for (size_t i = 0; i < n; i++)
            count[i] += wide.f32[i] == k->out[0]->f32[i];
    }
    for (size_t s = 0; s < k->n_in; s++) {
        if (!b->in[s])
            continue;
        qg_stretch(k->in[s], &wide);
        for (size_t i = 0; i < n; i++)
            same.f32[i] =
                wide.f32[i] == k->out[0]->f32[i] ? b->out[0]->f32[i] / count[i] : 0;
        QG_TRY(qg_backward_sum(b, &same, 1, b->in[s]));
    }
    return QG_OK;
}
#define max_backward extreme_backward
#define min_backward extreme_backward

static qg_status lower_add(qg_lower *l) { return qg_lower_binary(l, QG_USE_ADD); }
static qg_status lower_sub(qg_lower *l)
{
    return qg_lower_binary(l, l->taken ? QG_USE_SQUARED_DIFFERENCE : QG_USE_SUB);
}
static qg_status lower_mul(qg_lower *l) { return qg_lower_binary(l, QG_USE_MULTIPLY); }
static qg_status lower_prelu(qg_lower *l) { return qg_lower_binary(l, QG_USE_PRELU); }
static qg_status lower_max(qg_lower *l) { return qg_lower_on_codes(l, QG_USE_MAXIMUM); }
static qg_status lower_min(qg_lower *l) { return qg_lower_on_codes(l, QG_USE_MINIMUM); }

/* The product of a difference with itself. */
static const qg_node *square_of(const qg_node *n)
{
    const qg_value *d = n->out[0];
    const qg_node *m = d && d->use.n == 2 ? d->use.at[0].node : NULL;
    return m && d->use.at[1].node == m && m->op->lower == lower_mul ? m : NULL;
}

#define lower_divide NULL
#define lower_sum    NULL
#define lower_mean   NULL

#define JOINS (QG_OP_ELEMENTWISE | QG_OP_JOIN | QG_OP_PURE)
#define SUMS  (JOINS | QG_OP_HOMOGENEOUS) /* s a + s b == s (a + b) */
#define SIGN  QG_OP_NONNEGATIVE
#define ROW(onnx, first, last, id, bits)                                               \
    {                                                                                  \
        .name = onnx, .since = first, .until = last, .min_in = 2, .max_in = 2,         \
        .min_out = 1, .max_out = 1, .in_roles = "d", .traits = (bits),                 \
        .param_size = sizeof(qg_binary_param), .prepare = qg_binary_prepare,           \
        .free_axes = qg_binary_free_axes, .infer = infer_numbers, .run = id##_run,     \
        .in_place = 3, .lower = lower_##id, .element = binary_element,                 \
        .compile = qg_compile_elements,                                                \
        .backward = (first) < 7 ? id##_aligned : id##_backward                         \
    }
#define ROWPRELU(first, last)                                                          \
    {                                                                                  \
        .name = "PRelu", .since = first, .until = last, .min_in = 2, .max_in = 2,      \
        .min_out = 1, .max_out = 1, .in_roles = "dg",                                  \
        .traits = QG_OP_ELEMENTWISE | QG_OP_ACTIVATION | QG_OP_HOMOGENEOUS |           \
                  QG_OP_PURE | QG_OP_BATCH_FIRST,                                      \
        .param_size = sizeof(qg_binary_param), .prepare = prelu_prepare,               \
        .free_axes = qg_binary_free_axes, .infer = prelu_infer, .run = prelu_run,      \
        .in_place = 1, .lower = lower_prelu,                                           \
        .backward = (first) < 7 ? prelu_aligned : prelu_backward                       \
    }
#define ROWPOW(first, last)                                                            \
    {                                                                                  \
        .name = "Pow", .since = first, .until = last, .min_in = 2, .max_in = 2,        \
        .min_out = 1, .max_out = 1, .in_roles = "d",                                   \
        .traits = QG_OP_ELEMENTWISE | QG_OP_PURE | QG_OP_UNDEFINED,                    \
        .param_size = sizeof(qg_binary_param), .prepare = qg_binary_prepare,           \
        .free_axes = qg_binary_free_axes, .infer = pow_infer, .run = pow_run,          \
        .in_place = 1, .backward = (first) < 7 ? pow_aligned : pow_backward            \
    }
#define ROWFOLD(onnx, first, id, types)                                                \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = 1, .max_in = 255, .min_out = 1,        \
        .max_out = 1, .in_roles = "d", .traits = JOINS | SIGN,                         \
        .infer = infer_fold_##types, .run = id##_run, .in_place = 3,                   \
        .lower = lower_##id, .backward = id##_backward                                 \
    }

/* clang-format off */
const qg_op qg_ops_binary[] = {
    ROW("Add", 1, 6, add, SUMS | SIGN),
    { .name = "Add", .since = 7, .min_in = 2, .max_in = 2, .min_out = 1, .max_out = 1,
      .in_roles = "d", .traits = SUMS | SIGN, .param_size = sizeof(qg_binary_param),
      .prepare = qg_binary_prepare, .infer = infer_numbers, .run = add_run,
      .in_place = 3, .element = binary_element, .compile = add_compile,
      .affine = add_affine, .lower = lower_add,
      .backward = add_backward },
    ROW("Sub", 1, 6, sub, SUMS),
    { .name = "Sub", .since = 7, .min_in = 2, .max_in = 2, .min_out = 1, .max_out = 1,
      .in_roles = "d", .traits = SUMS, .param_size = sizeof(qg_binary_param),
      .prepare = qg_binary_prepare, .infer = infer_numbers, .run = sub_run,
      .in_place = 3, .element = binary_element, .compile = qg_compile_elements,
      .lower = lower_sub, .takes = square_of,
      .backward = sub_backward },
    ROW("Mul", 1, 6, mul, JOINS | SIGN),
    ROW("Mul", 7, 0, mul, JOINS | SIGN | QG_OP_GAIN),
    ROW("Div", 1, 6, divide, JOINS | SIGN | QG_OP_DIVIDES),
    ROW("Div", 7, 0, divide, JOINS | SIGN | QG_OP_DIVIDES),
    ROWPOW(1, 6),               ROWPOW(7, 0),
    ROWPRELU(1, 6),             ROWPRELU(7, 0),
    ROWFOLD("Max",  1, max, numbers),
    ROWFOLD("Min",  1, min, numbers),
    ROWFOLD("Sum",  1, sum, floats),
    ROWFOLD("Mean", 1, mean, floats),
    { .name = "Mod", .since = 10, .min_in = 2, .max_in = 2, .min_out = 1, .max_out = 1,
      .in_roles = "d", .traits = QG_OP_ELEMENTWISE | QG_OP_PURE | QG_OP_DIVIDES,
      .param_size = sizeof(mod_param), .prepare = mod_prepare, .infer = mod_infer,
      .run = mod_run, .in_place = 3 },
    { 0 },
};
/* clang-format on */
