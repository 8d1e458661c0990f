/* profile.h -- the integer arithmetic of one runtime on one instruction set, as rows.
 *
 * A profile is data: configs/profiles/<name>.yaml, read by config/profile_yaml.h.  A
 * row describes one kind of operator: the rounding of its requantization, the form of
 * its sums, the types and ratios of scales that it accepts.  The first row that fits an
 * operator counts; rows of a file stand before those of the file that it extends.  An
 * operator without a row is not computed in integers by that runtime, or no formula is
 * known for it; it is never guessed.
 *
 *     row fits    use is one of its uses; each type is one of its types, and codes of
 *                 the output have the type of x where it is `like_x`; every ratio of
 *                 scales lies in [ratio_low, ratio_high); the second input has zero
 *                 point 0 where it is `w_centred`; the limits of a clamp are one of
 *                 its `limits`, where it has any
 *     ratio       s_x / s_y of each input
 *
 * Units    scales: real units per step
 * Owner    the arena of the reader; immutable
 * Source   docs/evidence/integers.md
 *
 *     const qg_profile_row *row = qg_profile_find(
 *         p, QG_USE_CONV, (qg_profile_types){ QG_I8, QG_I8, QG_I8 },
 *         (qg_profile_grids){ .least = s_x / s_y, .most = s_x / s_y }); */
#ifndef QG_ENGINE_NUMBER_PROFILE_H
#define QG_ENGINE_NUMBER_PROFILE_H

#include "engine/number/requant.h"
#include "engine/number/round.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */

/* How a kind of operator computes, beyond its requantization: `form:`. */
#define QG_FORM_MAP(X)                                                                 \
    X(PLAIN,      "plain",      "the requantization alone")                            \
    X(CODES,      "codes",      "on stored integers, grids are not read")              \
    X(FIXED,      "fixed",      "sums: `left` bits of headroom, 3 requantizations; "   \
                                "sigmoid, tanh, hard-swish: fixed point")              \
    X(MANTISSA,   "mantissa",   "add: factors of 21 bits, one shift, half up")         \
    X(NEON,       "neon",       "add: factors of 22 bits, one shift, half away")       \
    X(FMA,        "fma",        "add: two fused multiply-adds, then half to even; "    \
                                "products: fma(acc, factor, bias); "                   \
                                "dequantize: fma(q, s, f32(-z s))")                    \
    X(SSE,        "sse",        "add: as fma with separate roundings")                 \
    X(PORTABLE,   "portable",   "add: dequantize, add, divide, half to even")          \
    X(DIVIDE,     "divide",     "quantize: x / s")                                     \
    X(RECIPROCAL, "reciprocal", "quantize: x f32(1 / s)")                              \
    X(ADD_HALF,   "add-half",   "quantize: trunc(x S +- 0.5), S = f32(1 / s)")         \
    X(LEVELS,     "levels",     "quantize: crop, then rint(f32(x isc) + ish)")         \
    X(FLOAT_RECIPROCAL, "float-reciprocal", "function in float32, times f32(1 / s_y)") \
    X(FLOAT_TABLE, "float-table", "dequantize, function in float32, quantize")         \
    X(TWO_SIDES,  "two-sides",  "one requantization on each side of zero")             \
    X(GEMMLOWP,   "gemmlowp",   "softmax: exponential and reciprocal in fixed point")  \
    X(INTEGER,    "integer",    "average-pool: sum / n by integer division")           \
    X(FLOAT_ROWS, "float-rows", "average-pool: float32 sum by rows, divided")      \
    X(FLOOR_MULTIPLIER, "floor-multiplier", "mean: multiplier divided by n, floor")    \
    X(VECTOR8,    "vector8",    "depthwise: 8 channels at a time round half up, the "  \
                                "channels behind them by `scheme`; dequantize: 8 "     \
                                "elements at a time f32(f32(q s) + f32(-z s)), those " \
                                "behind them as multiply; quantize: 8 elements at a "  \
                                "time as reciprocal, half to even, those behind them " \
                                "divided in double, half away from zero")              \
    X(VECTOR16,   "vector16",   "rescale: 16 elements at a time round half up, those " \
                                "behind them by `scheme`")                             \
    X(RAW_FLOAT,  "raw-float",  "mean: f32(sum) k + f32(z_y - z_x n k), half to even") \
    X(RAW_Q31,    "raw-q31",    "global-pool: the sum times the multiplier, zero "     \
                                "points apart; 16 int8 channels at a time half up")    \
    X(COPY,       "copy",       "concat: input grids equal the output's")              \
    X(AFFINE,     "affine",     "concat: x k - z k, half away from zero")              \
    X(TABLE,      "table",      "concat: dequantize, quantize where grids differ")     \
    X(FIXED10,    "fixed10",    "resize: weights of 10 fraction bits")                 \
    X(FIXED11,    "fixed11",    "resize: weights of 11 fraction bits")                 \
    X(FLOAT_CORNERS, "float-corners", "resize: float32 weights, + 0.5, cut")           \
    X(FLOAT_WEIGHTS, "float-weights", "resize: as float-corners, products of weights " \
                                      "first")                                         \
    X(MULTIPLY,   "multiply",   "dequantize: f32((q - z) s)")

/* How products are summed: `products:`. */
#define QG_PRODUCTS_MAP(X)                                                             \
    X(EXACT, "exact", "int32, modulo 2^32")                                            \
    X(PAIRS, "pairs", "neighbouring products in saturating int16, raw x")

/* What a product's kernel stores: `tail:`. */
#define QG_TAIL_MAP(X)                                                                 \
    X(CODES, "codes", "codes; only a clamp may be fused behind it")                    \
    X(FLOAT, "float", "float32; float operators follow, then a quantization")

/* How a fused clamp limits codes: `clamp:`. */
#define QG_CLAMP_MAP(X)                                                                \
    X(CODES,   "codes",   "bounds z + round(bound / s), half away from zero")          \
    X(IMPLIED, "implied", "only one that cuts off no code: nothing to do")             \
    X(FLOAT,   "float",   "in float, before quantization")                             \
    X(ACTIVATION, "activation", "as float where the limits have the codes of a fused " \
                                "activation; others as codes, by a kernel behind")     \
    X(NO,      "no",      "the kernel takes none")

/* The clamps that TensorFlow Lite has as activations: `limits:` of relu, but none. */
#define QG_ACTIVATION_MAP(X)                                                           \
    X(NONE,         "none",         -INFINITY, INFINITY)                               \
    X(RELU,         "relu",         0,  INFINITY)                                      \
    X(RELU6,        "relu6",        0,  6)                                             \
    X(RELU_N1_TO_1, "relu-n1-to-1", -1, 1)
/* clang-format on */

#define X(id, ...) QG_FORM_##id,
typedef enum qg_form { QG_FORM_MAP(X) QG_NFORM } qg_form;
#undef X
#define X(id, ...) QG_PRODUCTS_##id,
typedef enum qg_products { QG_PRODUCTS_MAP(X) QG_NPRODUCTS } qg_products;
#undef X
#define X(id, ...) QG_TAIL_##id,
typedef enum qg_tail { QG_TAIL_MAP(X) QG_NTAIL } qg_tail;
#undef X
#define X(id, ...) QG_CLAMP_##id,
typedef enum qg_clamp { QG_CLAMP_MAP(X) QG_NCLAMP } qg_clamp;
#undef X
#define X(id, ...) QG_ACTIVATION_##id,
typedef enum qg_activation { QG_ACTIVATION_MAP(X) QG_NACTIVATION } qg_activation;
#undef X

#define QG_USE_BIT(id) (UINT64_C(1) << QG_USE_##id)
/* The uses that sum products: those with `products:` and `tail:`. */
#define QG_USES_PRODUCTS                                                               \
    (QG_USE_BIT(CONV) | QG_USE_BIT(CONV_ONE) | QG_USE_BIT(CONV_GROUP) |                \
     QG_USE_BIT(DEPTHWISE) | QG_USE_BIT(DECONV) | QG_USE_BIT(DECONV_GAP) |             \
     QG_USE_BIT(DENSE) | QG_USE_BIT(DENSE_CHANNEL) | QG_USE_BIT(MATMUL))

/* Types of an operator: activation, weight (or second input), output.  QG_NODTYPE where
 * the use has none. */
typedef struct qg_profile_types {
    qg_dtype x, w, y;
} qg_profile_types;

/* What rows ask about the grids of an operator. */
typedef struct qg_profile_grids {
    float least, most; /* s_x / s_y of the inputs; equal for one input, 0 and 0
                           * where the operator has no output scale */
    bool w_off;        /* the second input has a zero point other than 0 */
    uint32_t limits;   /* sum of 1 << qg_activation: those with the codes of the
                           * operator's limits */
} qg_profile_grids;

/* One row of `kernels:`.  Plain data. */
typedef struct qg_profile_row {
    const char *id;              /* "conv"; unique in its file */
    const char *why, *source;    /* never NULL */
    const char *file;            /* of the profile that has the row */
    uint32_t line;               /* in that file */
    uint64_t uses;               /* sum of 1 << qg_kernel_use */
    uint64_t x, w, y;            /* sums of QG_DT(type) that fit; 0: any */
    bool like_x;                 /* `y: x`: codes of the output have the type of x */
    float ratio_low, ratio_high; /* 0 and INFINITY: any */
    bool w_centred;              /* `w-zero: 0`: the second input has zero point 0 */
    uint32_t limits;             /* sum of 1 << qg_activation; 0: any clamp */
    qg_form form;
    qg_products products;
    qg_tail tail;
    qg_clamp clamp;          /* that of the profile unless the row has its own */
    qg_rounding rounding;    /* of forms that round floats themselves */
    qg_nan nan;              /* of quantize; KEEP, as codes have no NaN: LOWEST */
    qg_requant_rule requant; /* scheme, factor, zero, symmetric, accumulator */
    uint8_t left8, left16;   /* headroom of `fixed` for 8 and 16-bit codes */
    bool has_output;         /* the operator demands this output grid: */
    float output_scale;
    int32_t output_zero;
    float snapshot_scale; /* of a softmax: the least output scale of a snapshot's node,
                           * qg_int_softmax_table_is_exact; 0: any */
} qg_profile_row;

/* A whole file with what it extends. */
typedef struct qg_profile {
    const char *name, *title; /* "tflite-reference", "LiteRT 2.3.0, ..." */
    const char *file;
    const char *parent; /* its name; NULL: extends nothing */
    bool documented;    /* `evidence: documentation`: no runtime confirmed it */
    bool islands;       /* float operators between integer ones are allowed */
    bool copies;        /* `passive: copies`: only copies store codes without a
                         * quantizer of their own, no averages and no resizing */
    uint64_t activation, weight; /* QG_DT(type) of codes that the runtime stores */
    qg_dtype bias;               /* QG_I32 or QG_F32 */
    const qg_profile_row *row;   /* [n_row] in order of precedence */
    size_t n_row;
} qg_profile;

/* The first row that fits; NULL: none. */
QG_API const qg_profile_row *qg_profile_find(const qg_profile *p, qg_kernel_use use,
                                             qg_profile_types t, qg_profile_grids g);

/* Some row has this use, whatever its types. */
QG_API bool qg_profile_uses(const qg_profile *p, qg_kernel_use use);

/* Bits of qg_form_keys: what the form reads besides types and ratios. */
enum {
    QG_ROW_SCHEME = 1,
    QG_ROW_FACTOR = 2,
    QG_ROW_ROUNDING = 4,
    QG_ROW_LEFT = 8,
};

/* The uses that have a form: a sum of 1 << qg_kernel_use. */
QG_API uint64_t qg_form_uses(qg_form f);

/* What a form reads for these uses; a file must have exactly these keys. */
QG_API unsigned qg_form_keys(qg_form f, uint64_t uses);

/* The limits of an activation in real values. */
QG_API void qg_activation_limits(qg_activation a, float *low, float *high);

/* Words of the maps, as in files. */
QG_API const char *qg_form_name(qg_form f);
QG_API const char *qg_products_name(qg_products p);
QG_API const char *qg_tail_name(qg_tail t);
QG_API const char *qg_clamp_name(qg_clamp c);
QG_API const char *qg_activation_name(qg_activation a);

#ifdef __cplusplus
}
#endif

#endif
