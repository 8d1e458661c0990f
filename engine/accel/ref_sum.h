/* ref_sum.h -- the order in which float32 products are summed: ONNX Runtime's.
 *
 * Floating-point sums depend on their order, and codes that lie near a tie depend on
 * them.  The definition therefore uses the order of the runtime that most engineers
 * compare with: the result of `--kernels reference` has its bits, on every machine.
 *
 * A result of m rows and n columns, sums of k products; a convolution is one of m =
 * output channels of a group, n = output positions, k = input channel, depth, height,
 * width of the kernel (padding counts as zeros), and its bias is added last:
 *
 *     m = 1           products and sums are rounded apart; slices of 4 terms, the rest
 *                     one of 2 and one of 1 (every depthwise convolution)
 *     n = 1, or       eight interleaved sums, products rounded apart; how eight become
 *     m = 1 times     one: qg_ref_fold
 *     stored columns
 *     all others      fused multiply-add; slices of qg_ref_slice terms
 *
 * Each slice starts from zero; slices are added up in order, starting from the present
 * value when beta is not 0.
 *
 * Holds for ONNX Runtime with one thread, without graph optimizations, on x86-64 with
 * AVX2 or AVX-512; tests/scripts/test_sum_order.py compares the bits.
 * Source: onnxruntime mlas/lib/sgemm.cpp MlasSgemmOperation, convolve.cpp
 * MlasConvOperation; the row kernels were found by measuring 1.31.
 *
 * Private to engine/accel/ref_*.c. */
#ifndef QG_ENGINE_ACCEL_REF_SUM_H
#define QG_ENGINE_ACCEL_REF_SUM_H

#include <stdbool.h>
#include <stdint.h>

/* Lanes of a product of two rows; columns per pass, whose sums stay in the nearest
 * cache. */
enum { QG_REF_LANES = 8, QG_REF_CHUNK = 256 };

/* Rows of sums that are made together, and elements of b that are gathered for them at
 * one time: both stay in the second cache. */
enum { QG_REF_ROWS = 8, QG_REF_GATHERED = 1 << 14 };

/* Terms per slice of fused sums for n columns, k terms; >= 1. */
int64_t qg_ref_slice(int64_t n, int64_t k);

/* Terms of the slice that starts at term `at` of k when the sum has one row. */
static inline int64_t qg_ref_row_slice(int64_t k, int64_t at)
{
    int64_t left = k - at;
    return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* The sum of eight interleaved sums, for row `row` of `rows`: the runtime takes four
 * rows at a time, then two, then one, and each way has its own tree. */
float qg_ref_fold(const float lane[QG_REF_LANES], int64_t row, int64_t rows);

/* The product of two vectors of k elements, number `row` of `rows`. */
float qg_ref_dot(const float *a, const float *b, int64_t k, int64_t row, int64_t rows);

/* Rows, terms and columns of fused sums: term t of row i is a[i * a_row + t * a_term]
 * times row t of b.  The operands of a slice, or less of one. */
typedef struct qg_ref_slab {
    int64_t rows, terms, columns;
    const float *a;
    int64_t a_row, a_term;
    const float *b;
    int64_t ldb;         /* elements from one term's row of columns to the next */
    int64_t ld_sum;      /* and from one row of sums to the next; >= columns */
    const float *before; /* to which the sums are added; NULL: none; may be `sum` */
    int64_t ld_before;   /* 0: all rows have the same */
} qg_ref_slab;

/* sum[i * ld_sum + j], started from zero, terms in ascending order, then added to what
 * is before them.  The same bits with and without the instruction. */
void qg_ref_sum_slab(const qg_ref_slab *s, float *sum);

/* sum[i] = x[i * step] * w + sum[i], i < n.  fused: one rounding, else two.  The same
 * bits with and without the instruction. */
void qg_ref_add_row(bool fused, float *sum, const float *x, int64_t step, float w,
                    int64_t n);

/* Up to four terms of a sum of one row, with products and sums rounded apart:
 *
 *     part = (begins ? 0 : part) + x[0] w[0] + ... + x[n_term - 1] w[n_term - 1]
 *     sum  = first ? part : sum + part        where the slice `ends`
 *
 * Term t reads x[t][i], i < n.  part is written where the slice goes on. */
enum { QG_REF_TERMS = 4 };
typedef struct qg_ref_terms {
    int n_term;
    bool begins, ends, first;
    const float *x[QG_REF_TERMS];
    float w[QG_REF_TERMS];
    float *part, *sum;
} qg_ref_terms;
void qg_ref_add_terms(const qg_ref_terms *t, int64_t n);

#endif
