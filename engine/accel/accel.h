/* accel.h -- convolution, matrix product and pooling behind one neutral interface.
 *
 * The problem structs describe shapes and nothing else: the implementation (ref_*.c
 * here, oneDNN in dnnl.c) takes the same struct.  ref_*.c is the definition of correct:
 * plain loops, sums in a fixed order, no scratch memory.
 *
 * Space     always three axes, depth, height, width; axes that an operator lacks come
 *           first with extent 1, kernel 1, stride 1, dilation 1, pad 0.
 * Layout    plain: N, C, space for activations; see each function for weights.
 * Valid     the caller checked that every extent is >= 0, every stride, dilation and
 *           kernel >= 1, and that `out` follows from the rest; asserted where cheap.
 * Types     _f32 and _f64 compute the same; float32 in the order of another runtime
 * Source    ONNX operator pages Conv-11, ConvTranspose-11, Gemm-13, MaxPool-12,
 *           AveragePool-19, LpPool-18. */
#ifndef QG_ENGINE_ACCEL_ACCEL_H
#define QG_ENGINE_ACCEL_ACCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Spatial axes of every problem; index 2 is the width, the contiguous one. */
enum { QG_SPACE = 3 };

/* Convolution and its transpose.  `in` and `out` are those of the operator: for the
 * transpose the output is the larger side.
 * stride, dilation and pads are those of the ONNX attributes after auto_pad was
 * resolved; pads are never negative. */
typedef struct qg_conv_problem {
    int64_t axes;          /* that the operator has, the last of the three */
    int64_t batch, groups; /* groups divides both channel counts */
    int64_t in_channels, out_channels; /* of all groups together */
    int64_t in[QG_SPACE], out[QG_SPACE], kernel[QG_SPACE];
    int64_t stride[QG_SPACE], dilation[QG_SPACE];
    int64_t pad_begin[QG_SPACE], pad_end[QG_SPACE];
} qg_conv_problem;

/* y = conv(x, w) + b.
 * x [batch][in_channels][in], w [out_channels][in_channels / groups][kernel],
 * b [out_channels] or NULL, y [batch][out_channels][out].
 * Terms are numbered by input channel, depth, height, width of the kernel.  float32 is
 * summed in the order of ref_sum.h, b last; float64 starts with b and adds the terms as
 * they are numbered.  The order is part of the definition, so that a result has one bit
 * pattern.  Cost: batch * out_channels * out volume * taps * in_channels / groups
 * multiply-adds, no memory. */
void qg_ref_conv_f32(const qg_conv_problem *p, const float *x, const float *w,
                     const float *b, float *y);
void qg_ref_conv_f64(const qg_conv_problem *p, const double *x, const double *w,
                     const double *b, double *y);

/* ConvInteger-10, QLinearConv-10: zero points are taken off both factors before they
 * meet.  The same sum with integers: x - x_zero times w - w_zero[c], summed modulo 2^32
 * on top of b (NULL: zero); padding contributes nothing.  n_w_zero is 1 or
 * out_channels. */
typedef struct qg_conv_zero {
    int32_t x_zero;        /* zero point of all of x */
    const int32_t *w_zero; /* zero points of w per output channel; borrowed */
    int64_t n_w_zero;      /* 1: one for all; else out_channels */
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
    int64_t m, n, k;       /* rows of c, columns of c, length of the sums */
    int64_t lda, ldb, ldc; /* of a, b, c as they are stored */
    bool trans_a, trans_b; /* stored the other way round */
    double alpha, beta;    /* rounded to the element type before use */
} qg_gemm_problem;

/* c = a b with all three stored without gaps. */
static inline qg_gemm_problem qg_gemm_dense(int64_t m, int64_t n, int64_t k,
                                            bool trans_b)
{
    return (qg_gemm_problem){ m, n, k, k, trans_b ? k : n, n, false, trans_b, 1, 0 };
}

/* float32 is summed in float32 in the order of ref_sum.h.  float64 runs k ascending;
 * with trans_b over eight interleaved partial sums that are added pairwise, so that
 * rows vectorise.  No operand may overlap c.  Cost: m * n * k multiply-adds, 64 kB of
 * stack. */
void qg_ref_gemm_f32(const qg_gemm_problem *p, const float *a, const float *b,
                     float *c);
void qg_ref_gemm_f64(const qg_gemm_problem *p, const double *a, const double *b,
                     double *c);
/* alpha and beta must be 1 or 0 here; sums modulo 2^64. */
void qg_ref_gemm_i64(const qg_gemm_problem *p, const int64_t *a, const int64_t *b,
                     int64_t *c);

/* LP is (sum |x|^norm)^(1 / norm) over the window. */
enum qg_pool_kind { QG_POOL_MAX, QG_POOL_AVERAGE, QG_POOL_LP };

/* As qg_conv_problem, without weights.  With ceil_mode the last window may
 * reach past pad_end: taps there count for nothing. */
typedef struct qg_pool_problem {
    enum qg_pool_kind kind;
    int64_t batch, channels; /* every channel of every sample is pooled alone */
    int64_t in[QG_SPACE], out[QG_SPACE], kernel[QG_SPACE];
    int64_t stride[QG_SPACE], dilation[QG_SPACE];
    int64_t pad_begin[QG_SPACE], pad_end[QG_SPACE];
    bool count_pad;    /* average: divide by the taps inside input or padding */
    bool column_major; /* max: indices count the last axis slowest (storage_order 1) */
    double norm;       /* Lp: the exponent, > 0 */
} qg_pool_problem;

/* x [batch][channels][in], y [batch][channels][out].  A NaN in the window of a maximum
 * is ignored unless it comes first, a window of padding alone gives -infinity (max) or
 * 0. index, for max, NULL or as y: position of the maximum in all of x.
 * Averages are summed in double, in the order depth, height, width. */
void qg_ref_pool_f32(const qg_pool_problem *p, const float *x, float *y,
                     int64_t *index);
void qg_ref_pool_f64(const qg_pool_problem *p, const double *x, double *y,
                     int64_t *index);

/* Adds to `to`, as x, the gradient with respect to x, from that with respect to y: the
 * maximum (the first of equal ones) or every tap of an average.  Not for Lp (asserted).
 */
void qg_ref_pool_backward(const qg_pool_problem *p, const float *x, const float *g,
                          float *to);

#endif
