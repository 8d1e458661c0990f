/* kernels.h -- compiled kernels of a library (oneDNN) for the problems of accel.h.
 *
 * Each returns QG_OK with *out == NULL when it does not support the case (no library,
 * an unsupported type or shape, weights that are not constant): the operator then runs
 * its definition.  Activations of rank 3 to 5 travel channels-last.
 *
 * Absorbed   clamps (op->clamp) that follow: min and max are exact, so the bits are
 *            those of separate nodes, but for a NaN, which a fused clamp turns into a
 *            limit.  Nothing else is absorbed: weights that a BatchNormalization was
 *            folded into give other last bits, so a watched run would differ
 * Threads    kernels are single-threaded; a kernel is shared by workers
 * Weights    packed once, while compiling
 *
 * Why two implementations: the definition (ref_*.c) gives the same bits on every
 * machine, and sums as ONNX Runtime does (ref_sum.h); a library is faster and may sum
 * in another order.  Tests compare the two within a bound, and `--kernels reference`
 * uses the first alone.
 *
 * Cases that use oneDNN (all others run their definition):
 *
 *     all      float32 throughout, no empty tensor; or (codes) int8 and uint8 times
 *              int8 into int32, where the CPU has VNNI: the sums are exact
 *     conv     weights and bias constant, x not (constants stay plain); not three axes
 *              that shrink to one
 *     matmul   alpha 1, operands of rank 2 and more, the left one not constant; a bias
 *              of n constants.  Without AVX-512, and where there is no oneDNN,
 *              products of floats of several rows and columns are those of
 *              packed_gemm.h
 *     pool     maximum without indices, average; not Lp, not of a constant */
#ifndef QG_ENGINE_ACCEL_KERNELS_H
#define QG_ENGINE_ACCEL_KERNELS_H

#include "engine/accel/accel.h"
#include "engine/ir/kernel.h"

/* c->in: x, w, b: three entries, b NULL when absent, whatever the node has.
 * transposed: ConvTranspose, weights [in][out / groups].  Weights must be constant.
 * *out lives in the plan's arena; QG_ENOMEM is the only failure, everything else that a
 * library refuses is *out == NULL. */
QG_NODISCARD qg_status qg_accel_conv(qg_compile *c, const qg_conv_problem *p,
                                     bool transposed, qg_kernel **out);

/* y = a x b + bias over plain tensors; a [.., m, k], b [.., k, n] with batch dims that
 * broadcast; trans as in the problem (2-d operands only).  c->in[bias], when bias >= 0,
 * is a constant of n elements. */
QG_NODISCARD qg_status qg_accel_matmul(qg_compile *c, const qg_gemm_problem *p,
                                       int bias, qg_kernel **out);

/* Products of codes. */
typedef struct qg_accel_codes {
    int32_t zero;                   /* zero point of x */
    const struct qg_finish *finish; /* NULL: the output is int32 sums */
} qg_accel_codes;

/* Sums of products of codes: c->in x (int8 or uint8), w (int8, zero point 0) and NULL;
 * c->out int32.  Padding has the zero point.  Nothing is absorbed.
 * With a finish of the kind QG_FINISH_FLOAT_AFTER: c->in[2] is its bias or NULL, c->out
 * its codes without their zero point, int8 or uint8; the sums with their bias must be
 * below 2^24. */
QG_NODISCARD qg_status qg_accel_conv_codes(qg_compile *c, const qg_conv_problem *p,
                                           bool transposed, const qg_accel_codes *codes,
                                           qg_kernel **out);
QG_NODISCARD qg_status qg_accel_matmul_codes(qg_compile *c, const qg_gemm_problem *p,
                                             const qg_accel_codes *codes,
                                             qg_kernel **out);

/* Max and average. */
QG_NODISCARD qg_status qg_accel_pool(qg_compile *c, const qg_pool_problem *p,
                                     qg_kernel **out);

/* "oneDNN 2.6.0", or "none". */
const char *qg_accel_version(char text[32]);
/* The instruction set that oneDNN uses, "avx2"; "any" without it. */
const char *qg_accel_isa(void);

#endif
