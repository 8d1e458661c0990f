/* unary.c -- y[i] = f(x[i]).  Any shape, shape(y) == shape(x), type(y) == type(x).
 *
 * f is written once, as an expression in x, a and b (the operator's attributes, 0 when
 * it has none) of type `real`, and compiled per element type.  exp and related
 * functions of float32 are those of engine/number/vecmath.h (vectorized, bit-identical
 * everywhere); others come from the C library through tgmath.h.  float16 and bfloat16
 * compute in float.
 *
 * To add one: an OP line, a ROW line, tests/ops/<name>.case.
 * Source: the ONNX operator page of the same name. */
#include "ops/families.h"

#include <tgmath.h>

#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_elements.h"
#include "ops/util_lower.h"
#include "ops/util_vector.h"

typedef struct unary_param {
    float a, b;
} unary_param;

typedef void (*span)(const void *x, void *y, size_t n, const unary_param *p);

/* Element types of a table of spans; 16-bit floats use float32. */
static uint64_t types_of(const span *spans)
{
    uint64_t mask = spans[QG_F32] ? QG_DT_HALVES : 0;
    for (int d = 0; d < QG_NDTYPE; d++)
        if (spans[d])
            mask |= UINT64_C(1) << d;
    return mask;
}

/* The spans of an operator determine its types. */
static qg_status infer_map(const qg_call *k, const span *spans)
{
    QG_TRY(qg_check_type(k, 0, types_of(spans)));
    return qg_infer_same(k);
}

/* Operators without attributes get zeros for a and b. */
static qg_status run_map(const qg_call *k, const span *spans)
{
    static const unary_param none = { 0 };
    const qg_tensor *x = k->in[0];
    if (QG_DT_HAS(QG_DT_HALVES, x->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, k->node->op->run);
    spans[x->dtype](x->data, k->out[0]->data, qg_elements(x),
                    k->param ? k->param : &none);
    return QG_OK;
}

/* Integer spans take parameters from p: one may not fit their type. */
#define IN_FLOAT(T, v) _Generic((T)0, float : (v), double : (v), default : 0)
#define SPAN(id, suffix, T, expr)                                                      \
    static void id##_##suffix(const void *px, void *py, size_t n,                      \
                              const unary_param *p)                                    \
    {                                                                                  \
        typedef T real;                                                                \
        const T *in = px;                                                              \
        T *out = py;                                                                   \
        const real a = IN_FLOAT(T, p->a), b = IN_FLOAT(T, p->b);                       \
        (void)a, (void)b;                                                              \
        QG_IVDEP for (size_t i = 0; i < n; i++)                                        \
        {                                                                              \
            const T x = in[i];                                                         \
            out[i] = (T)(expr);                                                        \
        }                                                                              \
    }

#define TABLE(id, ...)                                                                 \
    static const span id##_spans[QG_NDTYPE] = { __VA_ARGS__ };                         \
    static qg_status id##_infer(const qg_call *k) { return infer_map(k, id##_spans); } \
    static qg_status id##_run(const qg_call *k) { return run_map(k, id##_spans); }

/* float32 through the vector loop of util_vector.h, double as `expr`. */
#define MAPPED(id, map_id, expr)                                                       \
    static void id##_f32(const void *x, void *y, size_t n, const unary_param *p)       \
    {                                                                                  \
        qg_vector_best()->map[QG_MAP_##map_id](x, y, n, p->a, p->b);                   \
    }                                                                                  \
    SPAN(id, f64, double, expr)                                                        \
    TABLE(id, QG_ENTRIES_FLOAT(id))

#define OP(id, expr)                                                                   \
    QG_EACH_FLOAT(SPAN, id, expr)                                                      \
    TABLE(id, QG_ENTRIES_FLOAT(id))

/* clang-format off */
MAPPED(sigmoid,  SIGMOID,  x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)))
MAPPED(tanh_,    TANH,     tanh(x))
MAPPED(exp_,     EXP,      exp(x))
MAPPED(log_,     LOG,      log(x))
MAPPED(erf_,     ERF,      erf(x))
MAPPED(softplus, SOFTPLUS, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))
MAPPED(mish,     MISH,     x * tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))))
MAPPED(elu,      ELU,      x < 0 ? a * expm1(x) : x)
MAPPED(celu,     CELU,     x < 0 ? a * expm1(x / a) : x)
MAPPED(selu,     SELU,     b * (x > 0 ? x : a * expm1(x)))
MAPPED(swish,    SWISH,    x / (1 + exp(-a * x)))
MAPPED(floor_,   FLOOR,    floor(x))
MAPPED(ceil_,    CEIL,     ceil(x))
MAPPED(round_,   ROUND,    rint(x))         /* half to even */
MAPPED(sqrt_,    SQRT,     sqrt(x))
MAPPED(leaky,    LEAKY,    x < 0 ? a * x : x)
OP(reciprocal,  1 / x)
OP(sin_,        sin(x))
OP(cos_,        cos(x))
OP(tan_,        tan(x))
OP(asin_,       asin(x))
OP(acos_,       acos(x))
OP(atan_,       atan(x))
OP(sinh_,       sinh(x))
OP(cosh_,       cosh(x))
OP(asinh_,      asinh(x))
OP(acosh_,      acosh(x))
OP(atanh_,      atanh(x))
OP(softsign,    x / (1 + fabs(x)))
OP(thresholded, x > a ? x : 0)
/* clang-format on */

/* a: approximate by tanh. */
static void gelu_f32(const void *x, void *y, size_t n, const unary_param *p)
{
    qg_vector_best()->map[p->a > 0 ? QG_MAP_GELU_TANH : QG_MAP_GELU](x, y, n, 0, 0);
}
SPAN(gelu, f64, double,
     0.5 * x *
         (1 + (a > 0 ? tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))
                     : erf(x * 0.70710678118654752440))))
TABLE(gelu, QG_ENTRIES_FLOAT(gelu))

/* Comparisons are false for NaN, so NaN stays NaN. */
#define UNIT(v) ((v) < 0 ? 0 : (v) > 1 ? 1 : (v))
MAPPED(hard_sigmoid, HARD_SIGMOID, UNIT(a *x + b))
MAPPED(hard_swish, HARD_SWISH, x *UNIT((1.0 / 6) * x + 0.5))

#define RELU (x < 0 ? 0 : x)
static void relu_f32(const void *x, void *y, size_t n, const unary_param *p)
{
    (void)p;
    qg_vector_best()->map[QG_MAP_RELU](x, y, n, 0, 0);
}
SPAN(relu, f64, double, RELU)
QG_EACH_SIGNED(SPAN, relu, RELU)
TABLE(relu, QG_ENTRIES_FLOAT(relu), QG_ENTRIES_SIGNED(relu))

/* Two's complement wraps: the most negative integer is its own absolute value. */
QG_EACH_FLOAT(SPAN, abs_, fabs(x))
QG_EACH_SIGNED(SPAN, abs_, x < 0 ? (real)(0 - (uint64_t)x) : x)
QG_EACH_UNSIGNED(SPAN, abs_, x)
TABLE(abs_, QG_ENTRIES_NUMBER(abs_))

QG_EACH_FLOAT(SPAN, neg, -x)
QG_EACH_SIGNED(SPAN, neg, 0 - (uint64_t)x)
TABLE(neg, QG_ENTRIES_FLOAT(neg), QG_ENTRIES_SIGNED(neg))

QG_EACH_FLOAT(SPAN, sign, x > 0 ? 1 : x < 0 ? -1 : x)
QG_EACH_SIGNED(SPAN, sign, x > 0 ? 1 : x < 0 ? -1 : 0)
QG_EACH_UNSIGNED(SPAN, sign, x > 0)
TABLE(sign, QG_ENTRIES_NUMBER(sign))

/* A double as integer, saturated; NaN gives 0. */
static inline int64_t cut_signed(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v > -0x1p63 ? (int64_t)v : v != v ? 0 : INT64_MIN;
}

static inline uint64_t cut_unsigned(double v)
{
    return v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
}

/* a: lambd, b: bias.  Integers are compared and shifted as double, then saturated. */
#define SHRINK(T, a, b) ((T)x < -(T)a ? (T)x + (T)b : (T)x > (T)a ? (T)x - (T)b : 0)
QG_EACH_FLOAT(SPAN, shrink, SHRINK(real, a, b))
QG_EACH_SIGNED(SPAN, shrink, (real)cut_signed(SHRINK(double, p->a, p->b)))
QG_EACH_UNSIGNED(SPAN, shrink, (real)cut_unsigned(SHRINK(double, p->a, p->b)))
TABLE(shrink, QG_ENTRIES_NUMBER(shrink))

/* Defaults are already in *p; name_b NULL: a single attribute. */
static qg_status read_two(qg_ctx *ctx, const qg_node *n, const char *name_a,
                          const char *name_b, unary_param *p)
{
    QG_TRY(qg_attr_float(ctx, n, name_a, p->a, &p->a));
    return name_b ? qg_attr_float(ctx, n, name_b, p->b, &p->b) : QG_OK;
}

#define ATTRS(id, name_a, preset_a, name_b, preset_b)                                  \
    static qg_status id##_prepare(qg_ctx *ctx, const qg_node *n, void *param)          \
    {                                                                                  \
        *(unary_param *)param = (unary_param){ preset_a, preset_b };                   \
        return read_two(ctx, n, name_a, name_b, param);                                \
    }
ATTRS(elu, "alpha", 1, NULL, 0)
ATTRS(leaky, "alpha", 0.01f, NULL, 0)
ATTRS(selu, "alpha", 1.67326319217681884765625f, "gamma", 1.05070102214813232421875f)
ATTRS(selu_1, "alpha", 1.6732f, "gamma", 1.0507f)
ATTRS(hard_sigmoid, "alpha", 0.2f, "beta", 0.5f)
ATTRS(thresholded, "alpha", 1, NULL, 0)
ATTRS(swish, "alpha", 1, NULL, 0)
ATTRS(shrink, "lambd", 0.5f, "bias", 0)

/* The formula divides by alpha. */
static qg_status celu_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    QG_TRY(elu_prepare(ctx, n, param));
    if (((unary_param *)param)->a == 0)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "alpha is 0, expected another value");
    return QG_OK;
}

/* approximate: "none" or "tanh"; a is 1 for tanh. */
static qg_status gelu_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const char *const choices[] = { "none", "tanh", NULL };
    int choice;
    QG_TRY(qg_attr_choice(ctx, n, "approximate", choices, 0, &choice));
    ((unary_param *)param)->a = (float)choice;
    return QG_OK;
}

/* Clip: y = min(max(x, low), high), so that high wins when they cross. */
typedef struct clip_param {
    bool from_attributes; /* opsets 1 and 6 */
    float low, high;
} clip_param;

/* Until 10 the limits were attributes, with the largest floats as defaults. */
static qg_status clip_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    clip_param *p = param;
    p->from_attributes = n->op->since < 11;
    if (!p->from_attributes)
        return QG_OK;
    QG_TRY(qg_attr_float(ctx, n, "min", -0x1.fffffep127f, &p->low));
    return qg_attr_float(ctx, n, "max", 0x1.fffffep127f, &p->high);
}

/* A limit is one value, of the type of the data. */
static qg_status clip_infer(const qg_call *k)
{
    const clip_param *p = k->param;
    QG_TRY(qg_check_type(k, 0, p->from_attributes ? QG_DT_FLOATS : QG_DT_NUMBERS));
    QG_TRY(qg_check_same_type(k, 1, 2));
    for (size_t i = 1; i < k->n_in; i++)
        QG_TRY(qg_check_one(k, i));
    return qg_infer_same(k);
}

#define CLIP(suffix, id, T, lowest, highest)                                           \
    static void clip_##suffix(const qg_call *k)                                        \
    {                                                                                  \
        const clip_param *p = k->param;                                                \
        const qg_tensor *lo = qg_in(k, 1), *hi = qg_in(k, 2);                          \
        const T *in = k->in[0]->data;                                                  \
        T *out = k->out[0]->data;                                                      \
        const size_t n = qg_elements(k->in[0]);                                        \
        T low = lo ? *(const T *)lo->data : lowest;                                    \
        T high = hi ? *(const T *)hi->data : highest;                                  \
        if (p->from_attributes) {                                                      \
            low = (T)p->low;                                                           \
            high = (T)p->high;                                                         \
        }                                                                              \
        if (QG_##id == QG_F32) {                                                       \
            qg_vector_best()->map[QG_MAP_CLIP]((const void *)in, (void *)out, n,       \
                                               (float)low, (float)high);               \
            return;                                                                    \
        }                                                                              \
        QG_IVDEP for (size_t i = 0; i < n; i++)                                        \
        {                                                                              \
            T v = in[i] < low ? low : in[i];                                           \
            out[i] = v > high ? high : v;                                              \
        }                                                                              \
    }

/* clang-format off */
#define CLIP_MAP(X)                                                                    \
    X(f32, F32, float, -INFINITY, INFINITY) X(f64, F64, double, -INFINITY, INFINITY)   \
    X(i8, I8, int8_t, INT8_MIN, INT8_MAX)   X(i16, I16, int16_t, INT16_MIN, INT16_MAX) \
    X(i32, I32, int32_t, INT32_MIN, INT32_MAX)                                         \
    X(i64, I64, int64_t, INT64_MIN, INT64_MAX)                                         \
    X(u8, U8, uint8_t, 0, UINT8_MAX)        X(u16, U16, uint16_t, 0, UINT16_MAX)       \
    X(u32, U32, uint32_t, 0, UINT32_MAX)    X(u64, U64, uint64_t, 0, UINT64_MAX)
#define X(suffix, id, T, lowest, highest) CLIP(suffix, id, T, lowest, highest)
CLIP_MAP(X)
#undef X
/* clang-format on */

/* By type; 16-bit floats in float. */
static qg_status clip_run(const qg_call *k)
{
    static void (*const kernel[QG_NDTYPE])(const qg_call *) = {
#define X(suffix, id, T, lowest, highest) [QG_##id] = clip_##suffix,
        CLIP_MAP(X)
#undef X
    };
    if (QG_DT_HAS(QG_DT_HALVES, k->in[0]->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, clip_run);
    kernel[k->in[0]->dtype](k);
    return QG_OK;
}

/* Lets a convolution absorb it. */
static bool relu_clamp(const qg_node *n, const qg_tensor *const *constant, float *low,
                       float *high)
{
    (void)n, (void)constant;
    *low = 0;
    *high = INFINITY;
    return true;
}

/* Only with constant limits in order: kernels support no others. */
static bool clip_clamp(const qg_node *n, const qg_tensor *const *constant, float *low,
                       float *high)
{
    const clip_param *p = n->param;
    *low = p->from_attributes ? p->low : -INFINITY;
    *high = p->from_attributes ? p->high : INFINITY;
    for (uint32_t i = 1; i < n->n_in; i++) {
        if (n->in[i] && (!constant[i] || constant[i]->dtype != QG_F32))
            return false;
        if (n->in[i])
            *(i == 1 ? low : high) = constant[i]->f32[0];
    }
    return *low <= *high;
}

/* The loop of an operator that has one for float32. */
static bool unary_element(const qg_node *n, const qg_tensor *const *constant,
                          qg_element *out)
{
    static const struct {
        qg_status (*run)(const qg_call *);
        enum qg_map map;
    } loops[] = {
        {sigmoid_run,       QG_MAP_SIGMOID     },
        { tanh__run,        QG_MAP_TANH        },
        { exp__run,         QG_MAP_EXP         },
        { log__run,         QG_MAP_LOG         },
        { erf__run,         QG_MAP_ERF         },
        { softplus_run,     QG_MAP_SOFTPLUS    },
        { leaky_run,        QG_MAP_LEAKY       },
        { sqrt__run,        QG_MAP_SQRT        },
        { relu_run,         QG_MAP_RELU        },
        { hard_sigmoid_run, QG_MAP_HARD_SIGMOID},
        { hard_swish_run,   QG_MAP_HARD_SWISH  },
        { clip_run,         QG_MAP_CLIP        },
    };
    *out = (qg_element){ 0 };
    if (n->op->run == clip_run && !clip_clamp(n, constant, &out->a, &out->b))
        return false;
    if (n->op->param_size == sizeof(unary_param) && n->op->run != clip_run) {
        const unary_param *p = n->param;
        out->a = p->a;
        out->b = p->b;
    }
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++)
        if (n->op->run == loops[i].run) {
            out->map = loops[i].map;
            return true;
        }
    return false;
}

/* The limits are in l->low and l->high; a limit that is computed cannot be there. */
static qg_status lower_clamp(qg_lower *l)
{
    for (uint32_t k = 1; k < l->node->n_in; k++)
        if (l->node->in[k] && !l->in[k].constant)
            return qg_lower_refuse(l, "in%u is computed, expected constant limits",
                                   (unsigned)k);
    if (!qg_lower_wants_codes(l, 1))
        return QG_OK;
    const qg_profile_row *row = qg_lower_clamp_row(l);
    return row ? qg_lower_emit(l, "IntRescale", row, &l->in[0].value, 1) : QG_OK;
}

static qg_status lower_sigmoid(qg_lower *l)
{
    return qg_lower_function(l, QG_USE_SIGMOID, QG_INT_UNARY_LOGISTIC, 0);
}

static qg_status lower_tanh(qg_lower *l)
{
    return qg_lower_function(l, QG_USE_TANH, QG_INT_UNARY_TANH, 0);
}

static qg_status lower_hard_swish(qg_lower *l)
{
    return qg_lower_function(l, QG_USE_HARD_SWISH, QG_INT_UNARY_HARD_SWISH, 0);
}

static qg_status lower_leaky(qg_lower *l)
{
    const unary_param *p = l->node->param;
    return qg_lower_function(l, QG_USE_LEAKY_RELU, QG_INT_UNARY_LEAKY_RELU,
                             (float)p->a);
}

/* --- gradients ------------------------------------------------------------------- */

/* dL/dx = g * expr of x, y, a and b, in double.  At a kink it is that of PyTorch's
 * function of this name: 0 at the corner of Relu. */
#define SLOPE(id, expr)                                                                \
    static qg_status id##_backward(const qg_backward *k)                               \
    {                                                                                  \
        static const unary_param none = { 0 };                                         \
        const unary_param *p = k->call->param ? k->call->param : &none;                \
        const float *in = k->call->in[0]->f32, *out = k->call->out[0]->f32;            \
        const float *g = k->out[0]->f32;                                               \
        float *to = k->in[0]->f32;                                                     \
        const double a = (double)p->a, b = (double)p->b;                               \
        (void)a, (void)b;                                                              \
        for (size_t i = 0, n = qg_elements(k->in[0]); i < n; i++) {                    \
            const double x = (double)in[i], y = (double)out[i];                        \
            (void)x, (void)y;                                                          \
            to[i] = (float)((double)g[i] * (expr));                                    \
        }                                                                              \
        return QG_OK;                                                                  \
    }

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static double mish_slope(double x)
{
    const double t = tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
    return t + x * (1 - t * t) * logistic(x);
}

/* u: the argument of tanh. */
static double gelu_tanh_slope(double x)
{
    const double c = 0.79788456080286535588, u = c * (x + 0.044715 * x * x * x);
    const double t = tanh(u);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static double gelu_slope(double x)
{
    return 0.5 * (1 + erf(x * 0.70710678118654752440)) +
           x * 0.39894228040143267794 * exp(-0.5 * x * x);
}

/* clang-format off */
SLOPE(sigmoid,      y * (1 - y))
SLOPE(tanh_,        1 - y * y)
SLOPE(exp_,         y)
SLOPE(log_,         1 / x)
SLOPE(erf_,         1.12837916709551257390 * exp(-x * x))
SLOPE(softplus,     logistic(x))
SLOPE(mish,         mish_slope(x))
SLOPE(elu,          x < 0 ? a * exp(x) : 1)
SLOPE(celu,         x < 0 ? exp(x / a) : 1)
SLOPE(selu,         b * (x > 0 ? 1 : a * exp(x)))
SLOPE(swish,        logistic(a * x) * (1 + a * x * (1 - logistic(a * x))))
SLOPE(floor_,       0)
SLOPE(ceil_,        0)
SLOPE(round_,       0)
SLOPE(sign,         0)
SLOPE(sqrt_,        0.5 / y)
SLOPE(reciprocal,   -y * y)
SLOPE(sin_,         cos(x))
SLOPE(cos_,         -sin(x))
SLOPE(tan_,         1 + y * y)
SLOPE(asin_,        1 / sqrt(1 - x * x))
SLOPE(acos_,        -1 / sqrt(1 - x * x))
SLOPE(atan_,        1 / (1 + x * x))
SLOPE(sinh_,        cosh(x))
SLOPE(cosh_,        sinh(x))
SLOPE(asinh_,       1 / sqrt(x * x + 1))
SLOPE(acosh_,       1 / sqrt(x * x - 1))
SLOPE(atanh_,       1 / (1 - x * x))
SLOPE(softsign,     1 / ((1 + fabs(x)) * (1 + fabs(x))))
SLOPE(leaky,        x < 0 ? a : 1)
SLOPE(thresholded,  x > a)
SLOPE(gelu,         a > 0 ? gelu_tanh_slope(x) : gelu_slope(x))
SLOPE(hard_sigmoid, a * x + b > 0 && a * x + b < 1 ? a : 0)
SLOPE(hard_swish,   x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5)
SLOPE(abs_,         (x > 0) - (x < 0))
SLOPE(neg,          -1)
SLOPE(shrink,       x < -a || x > a)
/* clang-format on */

/* As SLOPE(relu, x > 0), without double: the products are exact. */
static qg_status relu_backward(const qg_backward *k)
{
    const float *x = k->call->in[0]->f32, *g = k->out[0]->f32;
    float *to = k->in[0]->f32;
    QG_IVDEP for (size_t i = 0, n = qg_elements(k->in[0]); i < n; i++)
    {
        to[i] = g[i] * (x[i] > 0 ? 1.0f : 0.0f);
    }
    return QG_OK;
}

/* Sums of what the limits get, LANES partial ones each. */
enum { LANES = 64 };
typedef struct clipping {
    float low, high;
    double below[LANES], above[LANES];
} clipping;

/* to: the gradient of x.  Without branches: n is a constant where it is LANES. */
static inline __attribute__((always_inline)) void
clip_some(clipping *s, const float *x, const float *g, size_t n, float *to)
{
    const float low = s->low, high = s->high;
    for (size_t i = 0; i < n; i++) {
        const float v = x[i] < low ? low : x[i];
        const float kept = v > high ? 0 : g[i]; /* or the lower limit's */
        const float inside = x[i] < low ? 0 : kept;
        s->above[i] += (double)(g[i] - kept);
        s->below[i] += (double)(kept - inside);
        to[i] = inside;
    }
}

/* to: NULL, not wanted. */
#define CLIP_ALL(name)                                                                 \
    static void name(clipping *s, const float *x, const float *g, size_t n, float *to) \
    {                                                                                  \
        float rest[LANES];                                                             \
        size_t i = 0;                                                                  \
        for (; i + LANES <= n; i += LANES)                                             \
            clip_some(s, x + i, g + i, LANES, to ? to + i : rest);                     \
        clip_some(s, x + i, g + i, n - i, to ? to + i : rest);                         \
    }

CLIP_ALL(clip_plain)
#if defined(__x86_64__)
__attribute__((target("avx2"))) CLIP_ALL(clip_avx2)
#endif

    /* The same bits with and without wide vectors. */
    static void clip_all(clipping *s, const float *x, const float *g, size_t n,
                         float *to)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        clip_avx2(s, x, g, n, to);
        return;
    }
#endif
    clip_plain(s, x, g, n, to);
}

static double sum_of_lanes(const double *lane)
{
    double sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

/* A limit gets the gradients of what it replaces; where both limits cross, high
 * does. */
static qg_status clip_backward(const qg_backward *b)
{
    const clip_param *p = b->call->param;
    const qg_tensor *lo = qg_in(b->call, 1), *hi = qg_in(b->call, 2);
    const float *x = b->call->in[0]->f32, *g = b->out[0]->f32;
    const size_t n = qg_elements(b->out[0]);
    float *to = b->in[0] ? b->in[0]->f32 : NULL;
    clipping s = { .low = -INFINITY, .high = INFINITY };
    if (p->from_attributes || lo)
        s.low = p->from_attributes ? p->low : lo->f32[0];
    if (p->from_attributes || hi)
        s.high = p->from_attributes ? p->high : hi->f32[0];
    clip_all(&s, x, g, n, to);
    if (lo && b->in[1])
        b->in[1]->f32[0] = (float)sum_of_lanes(s.below);
    if (hi && b->in[2])
        b->in[2]->f32[0] = (float)sum_of_lanes(s.above);
    return QG_OK;
}

#define PLAIN (QG_OP_ELEMENTWISE | QG_OP_PURE | QG_OP_BATCH_FIRST)
#define ACT   (PLAIN | QG_OP_ACTIVATION)
#define MONO  QG_OP_MONOTONE
#define SOME  QG_OP_UNDEFINED

/* Functions without a form of their own are tables of the operator itself. */
#define ROW(onnx, opset, id, t) ROWL(onnx, opset, id, t, qg_lower_table)
#define ROWL(onnx, opset, id, t, lowered)                                              \
    {                                                                                  \
        .name = onnx, .since = opset, .min_in = 1, .max_in = 1, .min_out = 1,          \
        .max_out = 1, .in_roles = "d", .traits = (t), .infer = id##_infer,             \
        .run = id##_run, .in_place = 1, .lower = lowered, .element = unary_element,    \
        .compile = qg_compile_elements, .backward = id##_backward                      \
    }
#define ROWA(onnx, opset, id, prep, t) ROWAL(onnx, opset, id, prep, t, qg_lower_table)
#define ROWAL(onnx, opset, id, prep, t, lowered)                                       \
    {                                                                                  \
        .name = onnx, .since = opset, .min_in = 1, .max_in = 1, .min_out = 1,          \
        .max_out = 1, .in_roles = "d", .traits = (t),                                  \
        .param_size = sizeof(unary_param), .prepare = prep##_prepare,                  \
        .infer = id##_infer, .run = id##_run, .in_place = 1, .lower = lowered,         \
        .element = unary_element, .compile = qg_compile_elements,                      \
        .backward = id##_backward                                                      \
    }
#define ROWCLIP(opset, last, inputs)                                                   \
    {                                                                                  \
        .name = "Clip", .since = opset, .until = last, .min_in = 1, .max_in = inputs,  \
        .min_out = 1, .max_out = 1, .in_roles = "dpp", .traits = ACT | MONO,           \
        .param_size = sizeof(clip_param), .prepare = clip_prepare,                     \
        .infer = clip_infer, .run = clip_run, .in_place = 1, .clamp = clip_clamp,      \
        .element = unary_element, .lower = lower_clamp, .backward = clip_backward      \
    }

/* clang-format off */
const qg_op qg_ops_unary[] = {
    { .name = "Relu", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,
      .in_roles = "d", .traits = ACT | MONO | QG_OP_HOMOGENEOUS, .infer = relu_infer,
      .run = relu_run,
      .in_place = 1, .clamp = relu_clamp, .element = unary_element,
      .compile = qg_compile_elements, .lower = lower_clamp,
      .backward = relu_backward },
    ROWCLIP(1, 10, 1),
    ROWCLIP(11, 0, 3),
    ROWL("Sigmoid",         1, sigmoid,      ACT | MONO, lower_sigmoid),
    ROWL("Tanh",            1, tanh_,        ACT | MONO, lower_tanh),
    ROWL("HardSwish",      14, hard_swish,   ACT, lower_hard_swish),
    ROW("Softplus",         1, softplus,     ACT | MONO),
    ROW("Softsign",         1, softsign,     ACT | MONO),
    ROW("Mish",            18, mish,         ACT),
    ROWA("Elu",             1, elu, elu,     ACT),
    ROWA("Celu",           12, celu, celu,   ACT),
    ROWA("Selu",            1, selu, selu_1, ACT),
    ROWA("Selu",            6, selu, selu,   ACT),
    ROWAL("LeakyRelu",      1, leaky, leaky, ACT | QG_OP_HOMOGENEOUS, lower_leaky),
    ROWA("ThresholdedRelu", 1, thresholded, thresholded, ACT),
    ROWA("HardSigmoid",     1, hard_sigmoid, hard_sigmoid, ACT),
    ROWA("Swish",          24, swish, swish, ACT),
    { .name = "Gelu", .since = 20, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,
      .in_roles = "d", .traits = ACT, .param_size = sizeof(unary_param),
      .prepare = gelu_prepare, .infer = gelu_infer, .run = gelu_run, .in_place = 1,
      .lower = qg_lower_table, .backward = gelu_backward },
    ROWA("Shrink",          9, shrink, shrink, PLAIN),
    ROW("Abs",              1, abs_,         PLAIN),
    ROW("Neg",              1, neg,          PLAIN),
    ROW("Sign",             9, sign,         PLAIN | MONO),
    ROW("Exp",              1, exp_,         PLAIN | MONO | SOME),
    ROW("Log",              1, log_,         PLAIN | MONO | SOME),
    ROW("Sqrt",             1, sqrt_,        PLAIN | MONO | SOME),
    ROW("Floor",            1, floor_,       PLAIN | MONO),
    ROW("Ceil",             1, ceil_,        PLAIN | MONO),
    ROW("Round",           11, round_,       PLAIN | MONO),
    ROW("Reciprocal",       1, reciprocal,   PLAIN | SOME),
    ROW("Erf",              9, erf_,         PLAIN | MONO),
    ROW("Sin",              7, sin_,         PLAIN),
    ROW("Cos",              7, cos_,         PLAIN),
    ROW("Tan",              7, tan_,         PLAIN),
    ROW("Asin",             7, asin_,        PLAIN | MONO | SOME),
    ROW("Acos",             7, acos_,        PLAIN | SOME),
    ROW("Atan",             7, atan_,        PLAIN | MONO),
    ROW("Sinh",             9, sinh_,        PLAIN | MONO | SOME),
    ROW("Cosh",             9, cosh_,        PLAIN | SOME),
    ROW("Asinh",            9, asinh_,       PLAIN | MONO),
    ROW("Acosh",            9, acosh_,       PLAIN | MONO | SOME),
    ROW("Atanh",            9, atanh_,       PLAIN | MONO | SOME),
    { 0 },
};
/* clang-format on */
