/* util_integer_kernel.h -- fast kernels of IntConv, IntConvTranspose and IntMatMul: a
 * library's exact sums, then the loops of accel/finish.h.
 *
 *     codes   as int8, where the library requantizes too: float-rne, sums below 2^24,
 *             zero point 0 or the lowest code
 *     int8    int8 or uint8 codes times int8 weights without zero points, where the
 *             library's integer sums are exact (accel/kernels.h)
 *     float   float32 sums of codes without their zero points: exact where the largest
 *             code times the sum of |w| of each channel is below 2^24
 *     none    the definition runs: other types, 64-bit sums, products in pairs, a
 *             convolution without constant weights
 *
 * An operand 1 of a matrix product that is not constant counts as the largest code that
 * its grid has; for int8 it must have zero point 0.
 *
 * Results are those of the definition bit for bit
 * (tests/prop/test_integer_kernels.c). */
#ifndef QG_OPS_UTIL_INTEGER_KERNEL_H
#define QG_OPS_UTIL_INTEGER_KERNEL_H

#include "engine/accel/kernels.h"
#include "engine/ir/recipe.h"

/* A product to compile: of one kind. */
typedef struct qg_integer_product {
    const qg_recipe *recipe;
    const qg_conv_problem *conv; /* or NULL: */
    const qg_gemm_problem *gemm;
    bool transposed;  /* of conv */
    int64_t channels; /* of the output */
    int64_t inner;    /* weight i belongs to channel i / inner % period ... */
    int64_t period;   /* ... and, transposed with groups, to its group: */
    int64_t group;    /* elements of one group; 0: none */
} qg_integer_product;

/* *out NULL: none of the kernels fits. */
QG_NODISCARD qg_status qg_integer_compile(qg_compile *c, const qg_integer_product *p,
                                          qg_kernel **out);

#endif
