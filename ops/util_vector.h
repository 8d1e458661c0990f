/* util_vector.h -- float32 loops for wide vectors, compiled per instruction set.
 *
 * One text (util_vector_body.h) makes one row per instruction set; every row gives the
 * same bits (each element is computed alone; sums run in an order that the text fixes),
 * which tests/unit/test_vector.c proves for the rows the CPU has.
 *
 * Arrays   x and y are the same array or do not overlap, unless stated otherwise
 * Source   the ONNX operator pages; engine/number/vecmath.h for exp etc.
 *
 *     const qg_vector_row *row = qg_vector_best();
 *     row->map[QG_MAP_SIGMOID](x, y, n, 0, 0);
 *
 * To add a function: a line in QG_MAP_F32, in terms of vecmath.h; a case in
 * test_vector.c. */
#ifndef QG_OPS_UTIL_VECTOR_H
#define QG_OPS_UTIL_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(id, f): y[i] = f(x) with the attributes a and b of the operator. */
/* clang-format off */
#define QG_MAP_F32(X)                                                                  \
    X(EXP,      qg_exp_f32(x))                                                         \
    X(SIGMOID,  qg_sigmoid_f32(x))                                                     \
    X(SILU,     x * qg_sigmoid_f32(x))                                                 \
    QG_MAP_DIRECT_F32(X)
#define QG_MAP_DIRECT_F32(X) /* the others, which have one loop */                     \
    X(LOG,      qg_log_f32(x))                                                         \
    X(TANH,     qg_tanh_f32(x))                                                        \
    X(ERF,      qg_erf_f32(x))                                                         \
    X(SOFTPLUS, softplus(x))                                                           \
    X(MISH,     x * qg_tanh_f32(softplus(x)))                                          \
    X(ELU,      x < 0 ? a * qg_expm1_f32(x) : x)                                       \
    X(CELU,     x < 0 ? a * qg_expm1_f32(x / a) : x)                                   \
    X(SELU,     b * (x > 0 ? x : a * qg_expm1_f32(x)))                                 \
    X(SWISH,    x / (1 + qg_exp_f32(-a * x)))                                          \
    X(GELU,     0.5f * x * (1 + qg_erf_f32(x * 0.70710678118654752440f)))              \
    X(GELU_TANH, 0.5f * x * (1 + qg_tanh_f32(0.79788456080286535588f *                 \
                                             (x + 0.044715f * x * x * x))))            \
    X(HARD_SIGMOID, unit(a * x + b))                                                   \
    X(HARD_SWISH, x * unit((float)(1.0 / 6) * x + 0.5f))                               \
    X(FLOOR,    floorf(x))                                                             \
    X(CEIL,     ceilf(x))                                                              \
    X(ROUND,    rintf(x)) /* half to even */                                           \
    X(RELU,     x < 0 ? 0 : x)                                                         \
    X(LEAKY,    x < 0 ? a * x : x)                                                     \
    X(SQRT,     sqrtf(x))                                                              \
    X(CLIP,     (x < a ? a : x) > b ? b : x < a ? a : x)

/* X(id, f): y[i] = f(x, z), x and z of two arrays. */
#define QG_PAIR_F32(X)                                                                 \
    X(ADD, x + z)                                                                      \
    X(SUB, x - z)                                                                      \
    X(MUL, x * z)                                                                      \
    X(DIV, x / z)                                                                      \
    X(MAX, ((x > z) | (x != x)) ? x : z) /* a NaN on either side wins */               \
    X(MIN, ((x < z) | (x != x)) ? x : z)
/* clang-format on */

/* Which function; index into qg_vector_row.map. */
enum qg_map {
#define X(id, f) QG_MAP_##id,
    QG_MAP_F32(X)
#undef X
        QG_NMAP
};

/* n elements; a and b are the operator's attributes, 0 where it has none. */
typedef void qg_map_fn(const float *x, float *y, size_t n, float a, float b);

/* Which function of two; index into qg_vector_row.pair. */
enum qg_pair {
#define X(id, f) QG_PAIR_##id,
    QG_PAIR_F32(X)
#undef X
        QG_NPAIR
};

/* n elements; sa and sb are 0 (one number for all) or 1.  y may be a or b. */
typedef void qg_pair_fn(const float *a, int64_t sa, const float *b, int64_t sb,
                        float *y, size_t n);

/* y = min(max(a + b, low), high), NaN stays; y may be a or b. */
typedef void qg_add_clamped_fn(const float *a, const float *b, float *y, size_t n,
                               float low, float high);

/* y[i] = min(max((x[i] - mean[c]) * factor[c] + bias[c], low), high), c = i % period;
 * NaN stays. */
typedef struct qg_channel_norm {
    int64_t period;
    const float *mean, *factor, *bias; /* [period] */
    float low, high;
} qg_channel_norm;
typedef void qg_channel_norm_fn(const qg_channel_norm *s, const float *x, float *y,
                                int64_t n);

/* Runs of n elements, [outer][n][inner] in memory, n > 0: y = softmax(x) or its
 * logarithm along the middle.  A NaN in a run makes all of it NaN; exponentials are
 * summed in double. */
typedef struct qg_softmax_shape {
    int64_t outer, n, inner; /* n: length of a run */
    bool log;                /* LogSoftmax */
} qg_softmax_shape;
typedef void qg_softmax_fn(const qg_softmax_shape *s, const float *x, float *y);

/* A matrix w [n][k] in panels of QG_PANEL rows, so that rows are lanes of a vector:
 * element (j, i) is at[(j / QG_PANEL * k + i) * QG_PANEL + j % QG_PANEL]; n is a
 * multiple of QG_PANEL. */
enum { QG_PANEL = 32 };
typedef struct qg_panels {
    const float *at;
    int64_t n, k;
} qg_panels;

/* y [rows][n] = x [rows][k] times w transposed; sums in the order of k.  y overlaps
 * neither. */
typedef void qg_product_fn(const qg_panels *w, int64_t rows, const float *x, float *y);

/* y [n][QG_STRIP] = w [n][k] times x [k][QG_STRIP]; sums in the order of k, as of
 * qg_product_fn.  For few rows of w, which would leave most of a panel empty. */
enum { QG_STRIP = 128 };
typedef void qg_strip_fn(int64_t n, int64_t k, const float *w, const float *x,
                         float *y);

/* y[j], j < n: the mean of x[i * step + j], i < rows; sums in double, rows ascending,
 * as of the pooling of accel.h. */
typedef void qg_column_means_fn(int64_t rows, int64_t n, int64_t step, const float *x,
                                float *y);

/* Sum of n elements in double, of their squared distances to `mean`, in an order that
 * the text fixes. */
typedef double qg_sum_fn(const float *x, int64_t n);
typedef double qg_squares_fn(const float *x, int64_t n, double mean);

/* y[i] += a * x[i], in float32: products and sums are rounded apart. */
typedef void qg_add_scaled_fn(float a, const float *x, float *y, int64_t n);

/* sum[t] += sum of x[i] * y[at[t] + i], i < n, for t < n_at: products and sums are
 * rounded apart, in 16 partial sums that are added pairwise. */
typedef void qg_dots_fn(const float *x, const float *y, const int64_t *at, int n_at,
                        int64_t n, float *sum);

/* y = (x - mean) * factor * scale + bias; either array may be NULL. */
typedef struct qg_standard {
    float mean, factor;
    const float *scale, *bias; /* [n] */
} qg_standard;
typedef void qg_standardize_fn(const qg_standard *s, const float *x, float *y,
                               int64_t n);

/* The functions of one instruction set; static. */
typedef struct qg_vector_row {
    const char *isa;         /* "plain C", "AVX2", "AVX-512" */
    bool (*supported)(void); /* by the CPU at hand */
    qg_map_fn *map[QG_NMAP];
    qg_pair_fn *pair[QG_NPAIR];
    qg_add_clamped_fn *add_clamped;
    qg_channel_norm_fn *channel_norm;
    qg_softmax_fn *softmax;
    qg_product_fn *product;
    qg_strip_fn *strip;
    qg_column_means_fn *column_means;
    qg_sum_fn *sum;
    qg_squares_fn *squares;
    qg_add_scaled_fn *add_scaled;
    qg_dots_fn *dots;
    qg_standardize_fn *standardize;
} qg_vector_row;

/* Rows from the plainest to the fastest; the first is always supported. */
const qg_vector_row *const *qg_vector_rows(size_t *n);
const qg_vector_row *qg_vector_best(void); /* the last one that the CPU supports */

#endif
