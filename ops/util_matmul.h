/* util_matmul.h -- numpy's matmul: pairs the matrices of a and b for each matrix of y.
 *
 * a [batch..., m, k] and b [batch..., k, n] with batch dims broadcast; a vector a is
 * [1, k] and a vector b is [k, 1], and the dim of 1 is removed from the result.
 * Source: ONNX MatMul-13.
 *
 * Products run batch by batch:
 *
 *     for (int64_t i = 0; i < p.batch; i++) {
 *         qg_matmul_at(&p, i, &a, &b);
 *         qg_ref_gemm_f32(&problem, x + a, w + b, y + i * p.m * p.n);
 *     } */
#ifndef QG_OPS_UTIL_MATMUL_H
#define QG_OPS_UTIL_MATMUL_H

#include "engine/accel/accel.h"
#include "engine/ir/op.h"

/* Sizes of one matrix product, and the location of each pair. */
typedef struct qg_matmul {
    int64_t m, n, k; /* of one pair of matrices */
    int64_t batch;   /* matrices of y, stored consecutively */
    int32_t rank;    /* batch dims */
    int64_t dim[QG_MAX_RANK];
    int64_t a_stride[QG_MAX_RANK], b_stride[QG_MAX_RANK]; /* elements; 0: repeats */
} qg_matmul;

/* Checks shapes and sets output 0; unknown dims stay unknown.
 * a and b are input slots; QG_EMODEL for incompatible inner or batch dims. */
QG_NODISCARD qg_status qg_matmul_infer(const qg_call *k, size_t a, size_t b,
                                       qg_dtype d);

/* For shapes accepted by qg_matmul_infer.  When b is a single matrix, all rows of a
 * form one product: batch 1. */
void qg_matmul_of(const qg_tensor *a, const qg_tensor *b, qg_matmul *out);

/* Operand offsets of matrix i < batch of the product, in elements. */
void qg_matmul_at(const qg_matmul *p, int64_t i, int64_t *a, int64_t *b);

/* The plain product of one pair of matrices: lda, ldb, ldc as stored. */
qg_gemm_problem qg_matmul_gemm(const qg_matmul *p);

/* The weight axis of a product: the columns of input 'w', -1 for a vector. */
int qg_matmul_axis(const qg_node *node);

#endif
