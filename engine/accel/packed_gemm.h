/* packed_gemm.h -- matrix products whose right side is packed into panels, in parts.
 *
 *     b [k][n], slices of qg_ref_slice terms      packed: slice after slice, in each
 *     t0 . . . | . . . | . .                      panel after panel, in a panel term
 *     t1 . . . | . . . | . .                      after term, PANEL columns side by
 *     -- slice --------------                     side; behind the last column zeros
 *     t2 . . . | . . . | . .
 *
 * Sums      in the order of ref_sum.h: the bits of qg_ref_gemm_f32, for any number of
 *           parts
 * Used      where oneDNN would use a general matrix multiplication (no AVX-512): it
 *           packs b in every call, and its sums depend on the number of rows, so it has
 *           no parts; and without oneDNN
 * Memory    constants: packed once, a copy of b with n rounded up; others: packed in
 *           the scratch of every call
 * Source    Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication,
 *           ACM TOMS 34 (2008), for the order of the blocks
 *
 * Private to engine/accel. */
#ifndef QG_ENGINE_ACCEL_PACKED_GEMM_H
#define QG_ENGINE_ACCEL_PACKED_GEMM_H

#include "engine/accel/kernels.h"

/* Whether y = a b + bias has operands as qg_accel_matmul describes them: not empty,
 * alpha 1, matrices or batches of them, the bias n constants, one per column. */
bool qg_is_plain_product(const qg_compile *c, const qg_gemm_problem *p, int bias);

/* As qg_accel_matmul, for a plain product of floats.  *out stays NULL for one row or
 * one column, whose sums have another order, and where the CPU has no fused
 * multiply-add in vectors. */
QG_NODISCARD qg_status qg_packed_gemm(qg_compile *c, const qg_gemm_problem *p, int bias,
                                      qg_kernel **out);

#endif
