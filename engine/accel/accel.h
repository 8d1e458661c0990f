/* accel.h -- convolution, matrix product and pooling behind one neutral interface.
 *
 * The problem structs describe shapes and nothing else: whoever computes (ref_*.c here,
 * oneDNN in dnnl.c) takes the same struct.  ref_*.c is the definition of correct: plain
 * loops, sums in a fixed order, no scratch memory.
 *
 * Space     always three axes, depth, height, width; axes that an operator lacks come
 *           first with extent 1, kernel 1, stride 1, dilation 1, pad 0.
 * Layout    plain: N, C, space for activations; see each function for weights.
 * Valid     the caller checked that every extent is >= 0, every stride, dilation and
 *           kernel >= 1, and that `out` follows from the rest; asserted where cheap.
 * Types     _f32 and _f64 are the same text compiled twice.
 * Source    ONNX operator pages Conv-11, ConvTranspose-11, Gemm-13, MaxPool-12,
 *           AveragePool-19, LpPool-18. */
#ifndef QG_ENGINE_ACCEL_ACCEL_H
#define QG_ENGINE_ACCEL_ACCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QG_SPACE = 3 };

/* Convolution and its transpose.  `in` and `out` are those of the operator: for the
 * transpose the output is the larger side. */
typedef struct qg_conv_problem {
    int64_t batch, groups;
    int64_t in_channels, out_channels; /* of all groups together */
    int64_t in[QG_SPACE], out[QG_SPACE], kernel[QG_SPACE];
    int64_t stride[QG_SPACE], dilation[QG_SPACE];
    int64_t pad_begin[QG_SPACE], pad_end[QG_SPACE];
} qg_conv_problem;

/* y = conv(x, w) + b.
 * x [batch][in_channels][in], w [out_channels][in_channels / groups][kernel],
 * b [out_channels] or NULL, y [batch][out_channels][out]. */
void qg_ref_conv_f32(const qg_conv_problem *p, const float *x, const float *w,
                     const float *b, float *y);
void qg_ref_conv_f64(const qg_conv_problem *p, const double *x, const double *w,
                     const double *b, double *y);

/* The same with integers: x - x_zero times w - w_zero[c], summed modulo 2^32 on top of
 * b (NULL: zero); padding contributes nothing.  n_w_zero is 1 or out_channels. */
typedef struct qg_conv_zero {
    int32_t x_zero;
    const int32_t *w_zero;
    int64_t n_w_zero;
} qg_conv_zero;
void qg_ref_conv_i32(const qg_conv_problem *p, const qg_conv_zero *zero,
                     const int32_t *x, const int32_t *w, const int32_t *b, int32_t *y);

/* y[n][oc][i * stride + k * dilation - pad_begin] += x[n][ic][i] * w[ic][oc][k], plus
 * b.
 * w [in_channels][out_channels / groups][kernel]. */
void qg_ref_deconv_f32(const qg_conv_problem *p, const float *x, const float *w,
                       const float *b, float *y);
void qg_ref_deconv_f64(const qg_conv_problem *p, const double *x, const double *w,
                       const double *b, double *y);

/* c[m][n] = alpha * sum_k a[m][k] * b[k][n] + beta * c[m][n]; beta 0 does not read c.
 * trans_a: a is stored [k][m]; trans_b: b is stored [n][k].  ld*: elements from one
 * stored row to the next. */
typedef struct qg_gemm_problem {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    bool trans_a, trans_b;
    double alpha, beta;
} qg_gemm_problem;

void qg_ref_gemm_f32(const qg_gemm_problem *p, const float *a, const float *b,
                     float *c);
void qg_ref_gemm_f64(const qg_gemm_problem *p, const double *a, const double *b,
                     double *c);
/* alpha and beta must be 1 or 0 here; sums modulo 2^64. */
void qg_ref_gemm_i64(const qg_gemm_problem *p, const int64_t *a, const int64_t *b,
                     int64_t *c);

enum qg_pool_kind { QG_POOL_MAX, QG_POOL_AVERAGE, QG_POOL_LP };

typedef struct qg_pool_problem {
    enum qg_pool_kind kind;
    int64_t batch, channels;
    int64_t in[QG_SPACE], out[QG_SPACE], kernel[QG_SPACE];
    int64_t stride[QG_SPACE], dilation[QG_SPACE];
    int64_t pad_begin[QG_SPACE], pad_end[QG_SPACE];
    bool count_pad;    /* average: divide by the taps inside input or padding */
    bool column_major; /* max: indices count the last axis slowest (storage_order 1) */
    double norm;       /* Lp: the exponent, > 0 */
} qg_pool_problem;

/* x [batch][channels][in], y [batch][channels][out].  A NaN in the window of a maximum
 * is ignored unless it comes first, a window of padding alone gives -infinity (max) or
 * 0. index, for max, NULL or as y: position of the maximum in all of x. */
void qg_ref_pool_f32(const qg_pool_problem *p, const float *x, float *y,
                     int64_t *index);
void qg_ref_pool_f64(const qg_pool_problem *p, const double *x, double *y,
                     int64_t *index);

#endif
