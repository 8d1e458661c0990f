/* requant.h -- from an int32 accumulator to a stored integer, as each runtime does it.
 *
 *     real value of an accumulator   acc * s_x * s_w[c]
 *     stored output                  y = z_y + real / s_y, rounded and limited
 *
 * A requantization is a tuple, not code: {scheme, factor, zero, clamp, accumulator}.
 *
 *     scheme       representation of the factor, and the rounding: QG_SCHEME_MAP
 *     factor       how s_x, s_w and s_y become that factor: QG_FACTOR_MAP
 *     zero         z_y is added behind the rounding, or inside it
 *     limit        the type's codes, or without its lowest (ncnn: -127)
 *     accumulator  bits of the sum
 *
 * The tuples of runtimes are rows of profiles: profile.h, configs/profiles.
 *
 * Units    scales: real units per step; acc, z, y, lo, hi: steps
 * Example  acc -6, factor 0.25, z 0: tflite double -2, single -1, float-rne -2,
 *          ncnn -2 (run by test_fixed.c: same_sum_many_runtimes)
 * Source   docs/evidence/integers.md#requantization, #runtimes there;
 *          tests/data/vectors/README.md.
 *
 *     qg_requant_rule rule = { QG_SCHEME_FIX_DOUBLE, QG_FACTOR_DOUBLE, QG_ZERO_AFTER,
 *                              false, 32 };
 *     QG_TRY(qg_requant_prepare(ctx, "conv1", &rule, (qg_scales){ 0.5f, 0.1f, 0.25f },
 *                               qg_code_range_of(QG_I8, -3), &r));
 *     int32_t y = qg_requant_one(&r, acc); */
#ifndef QG_ENGINE_NUMBER_REQUANT_H
#define QG_ENGINE_NUMBER_REQUANT_H

#include <stdbool.h>

#include "engine/core/status.h"
#include "engine/number/dtype.h"
#include "engine/number/fixed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* f: the factor rounded to float32; f32(): one rounding to float32. */
/* clang-format off */
#define QG_SCHEME_MAP(X)                                                       \
    /* id               text                representation and rounding */     \
    X(FLOAT_RNE,        "float-rne",        "f32(acc f), half to even")        \
    X(FLOAT_AWAY,       "float-away",       "f32(acc f), half away from zero") \
    X(FLOAT_ADD_HALF,   "float-add-half",   "f32(acc f), trunc(v +- 0.5)")     \
    X(DOUBLE_AWAY,      "double-away",      "double(acc) r, half away from zero") \
    X(FIX_DOUBLE,       "fix-double",       "q31: high multiply up, shift away") \
    X(FIX_DOUBLE_UP,    "fix-double-up",    "q31: high multiply up, shift up") \
    X(FIX_SINGLE,       "fix-single",       "q31: one shift, half up")         \
    X(FIX_MANTISSA,     "fix-mantissa",     "24-bit mantissa, one shift, half up") \
    X(FIX_REDUCED,      "fix-reduced",      "q15 of q31, one shift, half up")  \
    X(FIX_EIGHTH,       "fix-eighth",       "rint(256 f), one shift by 8, half up") \
    X(POW2_SHIFT,       "pow2-shift",       "factor 2^-k, one shift, half up")

#define QG_FACTOR_MAP(X)                                                       \
    /* id             text              factor from s_x, s_w, s_y           */ \
    X(DOUBLE,         "double",         "double(s_x) double(s_w) / double(s_y)") \
    X(F32_PRODUCT,    "f32-product",    "double(f32(s_x s_w)) / double(s_y)")  \
    X(F32,            "f32",            "f32(f32(s_x s_w) / s_y)")             \
    X(MEAN,           "mean",           "f32(s_x / f32(s_y s_w)), s_w: elements") \
    X(THEN_DIVIDE,    "then-divide",    "v = acc f32(s_x s_w), then v / s_y") \
    X(THEN_MULTIPLY,  "then-multiply",  "S = 1/s; v = acc / (S_x S_w), then v S_y") \
    X(THEN_FMA,       "then-fma",       "v = acc f32(s_x s_w), then fma(v, 1/s_y, z_y)")
/* clang-format on */

typedef enum qg_requant_scheme {
#define X(id, text, meaning) QG_SCHEME_##id,
    QG_SCHEME_MAP(X)
#undef X
        QG_NSCHEME
} qg_requant_scheme;

typedef enum qg_factor {
#define X(id, text, meaning) QG_FACTOR_##id,
    QG_FACTOR_MAP(X)
#undef X
        QG_NFACTOR
} qg_factor;

/* Where z_y is added, v being the scaled sum: AFTER the rounding of v; or INSIDE it,
 * round(f32(v + z_y)); or FUSED, round(fma(acc, f, z_y)).  The last two are for the
 * float schemes. */
typedef enum qg_zero_place {
    QG_ZERO_AFTER,
    QG_ZERO_INSIDE,
    QG_ZERO_FUSED,
    QG_NZERO
} qg_zero_place;

/* The kinds of operators that contain a requantization, or a rule of their own: `use:`
 * of a profile's row (profile.h). */
/* clang-format off */
#define QG_USE_MAP(X)                                                                  \
    X(CONV,          "conv",          "convolution, one weight scale per channel")     \
    X(CONV_ONE,      "conv-one",      "convolution, one weight scale")                 \
    X(CONV_GROUP,    "conv-group",    "convolution with groups of several channels; "  \
                                      "without a row: conv and depthwise, if equal")   \
    X(DEPTHWISE,     "depthwise",     "convolution with one input channel per group")  \
    X(DECONV,        "deconv",        "transposed convolution")                        \
    X(DECONV_GAP,    "deconv-gap",    "the same with a stride above the kernel and "   \
                                      "cropped or widened; absent: as deconv")         \
    X(DENSE,         "dense",         "product with constant weights, one scale")      \
    X(DENSE_CHANNEL, "dense-channel", "the same, one weight scale per output")         \
    X(MATMUL,        "matmul",        "product of two activations")                    \
    X(ADD,           "add",           "element-wise sum")                              \
    X(SUB,           "sub",           "element-wise difference")                       \
    X(MULTIPLY,      "multiply",      "element-wise product")                          \
    X(SQUARED_DIFFERENCE, "squared-difference", "(a - b)^2")                           \
    X(MAXIMUM,       "maximum",       "element-wise maximum")                          \
    X(MINIMUM,       "minimum",       "element-wise minimum")                          \
    X(RELU,          "relu",          "a clamp with two grids of its own")             \
    X(LEAKY_RELU,    "leaky-relu",    "one slope below zero")                          \
    X(PRELU,         "prelu",         "slopes below zero, a tensor")                   \
    X(HARD_SWISH,    "hard-swish",    "x relu6(x + 3) / 6")                            \
    X(SIGMOID,       "sigmoid",       "logistic function")                             \
    X(TANH,          "tanh",          "hyperbolic tangent")                            \
    X(TABLE,         "table",         "any other function of one 8-bit tensor")        \
    X(SOFTMAX,       "softmax",       "softmax over the last axis")                    \
    X(LOG_SOFTMAX,   "log-softmax",   "logarithm of softmax")                          \
    X(AVERAGE_POOL,  "average-pool",  "mean of windows")                               \
    X(GLOBAL_POOL,   "global-pool",   "mean of all places of a channel")               \
    X(WHOLE_POOL,    "whole-pool",    "average-pool whose window is the whole map")    \
    X(MEAN,          "mean",          "mean over axes")                                \
    X(SUM,           "sum",           "sum over axes")                                 \
    X(MAX_POOL,      "max-pool",      "maximum of windows")                            \
    X(CONCAT,        "concat",        "joins tensors along an axis")                   \
    X(RESIZE_LINEAR, "resize-linear", "bilinear")                                      \
    X(RESIZE_NEAREST,"resize-nearest","copies of the nearest element")                 \
    X(PAD,           "pad",           "constant padding")                              \
    X(MOVE,          "move",          "Reshape, Transpose, Slice and other copies")    \
    X(RESCALE,       "rescale",       "from one grid to another")                      \
    X(QUANTIZE,      "quantize",      "from float to codes")                           \
    X(DEQUANTIZE,    "dequantize",    "from codes to float")
/* clang-format on */

typedef enum qg_kernel_use {
#define X(id, text, meaning) QG_USE_##id,
    QG_USE_MAP(X)
#undef X
        QG_NUSE
} qg_kernel_use;

/* One tuple.  Plain data. */
typedef struct qg_requant_rule {
    uint8_t scheme;      /* qg_requant_scheme */
    uint8_t factor;      /* qg_factor */
    uint8_t zero;        /* qg_zero_place */
    bool symmetric;      /* the lowest code of a signed type is not used */
    uint8_t accumulator; /* bits: 32 or 64 */
} qg_requant_rule;

/* Words of the maps, as in files and on the command line. */
QG_API const char *qg_requant_scheme_name(qg_requant_scheme s); /* "fix-double" */
QG_API const char *qg_factor_name(qg_factor f);
QG_API const char *qg_kernel_use_name(qg_kernel_use u);

/* The scales that meet in one requantization; s_w is 1 where there is one input. */
typedef struct qg_scales {
    float x, w, y; /* each finite and > 0 */
} qg_scales;

/* The range of y: a type's codes or the tighter bounds of a fused activation. */
typedef struct qg_code_range {
    int32_t zero, lo, hi; /* lo <= hi */
} qg_code_range;

/* Codes of an integer type of at most 16 bits with zero point z; asserts such a
 * type.
 * lo and hi are the type's lowest and highest code. */
QG_API qg_code_range qg_code_range_of(qg_dtype dtype, int32_t zero);

/* Ready to run; made by qg_requant_prepare, plain data. */
typedef struct qg_requant {
    uint8_t scheme, factor, place, accumulator; /* of the rule */
    qg_code_range range;                        /* zero point and limits of y */
    double real;      /* the factor before it is rounded for the scheme */
    float f;          /* float schemes: the (first) factor */
    float then, plus; /* two-step factors: second factor or divisor, and addend */
    qg_multiplier m;  /* fixed-point schemes */
} qg_requant;

/* QG_ENUMERIC when a scale is not finite and > 0 (a weight scale of 0 is fine where the
 * factor is a float), when the factor overflows (or is
 * subnormal where the scheme needs a normal one), or is no power of two for POW2_SHIFT;
 * `what` begins the message.
 * *out is self-contained: rule may be forgotten. */
QG_NODISCARD QG_API qg_status qg_requant_prepare(qg_ctx *ctx, const char *what,
                                                 const qg_requant_rule *rule,
                                                 qg_scales s, qg_code_range range,
                                                 qg_requant *out);

/* An output given as a range in codes 0 .. levels - 1; low < high, levels 2..65536. */
typedef struct qg_level_range {
    float low, high;
    int32_t levels; /* number of codes */
} qg_level_range;

/* The same for such an output, as OpenVINO fuses a FakeQuantize behind an int8
 * convolution (THEN_FMA); n = levels - 1, d = f32(high - low):
 *     y = rint(fma(v, f32(n / d), f32(f32(-low n) / d)))
 * QG_ENUMERIC for a range or levels out of bounds. */
QG_NODISCARD QG_API qg_status qg_requant_prepare_levels(qg_ctx *ctx, const char *what,
                                                        qg_scales s, qg_level_range y,
                                                        qg_requant *out);

/* The stored integer for one sum.  acc must fit the accumulator (asserted).
 * Cannot fail: whatever overflows saturates to range. */
QG_API int32_t qg_requant_one(const qg_requant *r, int64_t acc);

/* y[i] = qg_requant_one(r, acc[i]) for i < n; may be in place. */
QG_API void qg_requant_many(const qg_requant *r, const int32_t *acc, int32_t *y,
                            size_t n);

/* As one, for a runtime that holds the bias in float: added to acc * s_x * s_w.  Only
 * for the two-step factors (asserted). */
QG_API int32_t qg_requant_biased(const qg_requant *r, int64_t acc, float bias);

/* The fused activations of TFLite. */
typedef enum qg_fused {
    QG_FUSED_NONE,
    QG_FUSED_RELU,
    QG_FUSED_RELU6,
    QG_FUSED_RELU_N1_TO_1,
    QG_NFUSED
} qg_fused;

/* The codes of `range` that the activation leaves: z + round(bound / scale), the
 * quotient in float32, halves away from zero; TFLite's
 * CalculateActivationRangeQuantized.  scale > 0 (asserted). */
QG_API qg_code_range qg_fused_range(qg_fused a, float scale, qg_code_range range);

#ifdef __cplusplus
}
#endif

#endif
