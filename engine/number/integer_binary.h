/* integer_binary.h -- Add, Sub, Mul, SquaredDifference and PRelu of arrays with
 * different scales and zero points, in the form of a profile's row.
 *
 *     form       arithmetic of Add (A, B stored; ra = f32(sa/sy), rb = f32(sb/sy))
 *     fixed      t = 2 max(sa, sb); M(M((A-za) << L) + M((B-zb) << L)), L = row->left8
 *                or left16, M the row's scheme: fix-double or fix-single
 *                                              (TFLite reference and built-in)
 *     mantissa   k = 20 - floor(log2(max(ra, rb))), m = rint(r 2^k);
 *                ((A-za) ma + (B-zb) mb + 2^(k-1)) >> k                    (XNNPACK)
 *     fma        fix = f32(zy - fma(ra, za, f32(rb zb)));
 *                rint(fma(A, ra, fma(B, rb, fix)));  a standing A changes places with B
 *                                                              (ORT, x86 with FMA)
 *     neon       k = 21 - floor(log2(max)), halves away from zero; portable where the
 *                kernel's shifts cannot hold the ratios              (ORT, aarch64)
 *     portable   rint(f32(f32(f32(sa (A-za)) + f32(sb (B-zb))) / sy) + zy)   (ORT)
 *     sse        rint(f32(f32(fix + f32(A ra)) + f32(B rb)))  (ORT, no AVX2 [read])
 *
 * Sub is Add with the second factor negated.  SquaredDifference (form fixed): M(d^2) of
 * the difference d before its last M, factor t^2 / (4^L sy).  Mul (plain): the row's
 * requantization of (A-za)(B-zb).  PRelu (two-sides): the row's requantization of A-za
 * at or above zero, of (A-za)(B-zb) below; B holds the slopes.
 *
 * fma() is C's, rounded once, whatever the machine has.
 * Source   docs/evidence/integers.md#runtimes;
 *          tests/data/vectors/README.md.
 * Example  A = -2, B = 1, all scales 1 but sy = 2, zero points 0: exact -0.5; fixed
 *          -1, fma 0, mantissa 0 (run by test_integer_binary.c: doc_example). */
#ifndef QG_ENGINE_NUMBER_INTEGER_BINARY_H
#define QG_ENGINE_NUMBER_INTEGER_BINARY_H

#include "engine/number/integer_array.h"
#include "engine/number/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qg_int_binary_op {
    QG_INT_BINARY_ADD,
    QG_INT_BINARY_SUB,
    QG_INT_BINARY_MUL,
    QG_INT_BINARY_SQUARED_DIFFERENCE,
    QG_INT_BINARY_PRELU,
    QG_INT_NBINARY
} qg_int_binary_op;

/* The operator to compute, and how. */
typedef struct qg_int_binary_spec {
    qg_int_binary_op op;
    const qg_profile_row *row; /* form, left, requant; read by prepare alone */
    qg_grid a, b, y;           /* one type for all */
    qg_code_range range;       /* of y: its codes, or those of a fused activation */
} qg_int_binary_spec;

typedef struct qg_int_binary qg_int_binary;

/* n elements of stored integers: a[i * a_step], b[i * b_step], steps 0 or 1.
 * Already widened; steps are those of a broadcast span. */
typedef struct qg_int_operands {
    const int32_t *a, *b; /* widened codes */
    size_t a_step, b_step, n;
} qg_int_operands;

/* One span, in the form that prepare chose. */
typedef void qg_int_binary_span_fn(const qg_int_binary *p, const qg_int_operands *o,
                                   int32_t *y);

/* Ready to run; plain data, made by qg_int_binary_prepare. */
struct qg_int_binary {
    qg_int_binary_spec spec;
    qg_int_binary_span_fn *span; /* of the form */
    qg_code_range range;         /* of y */
    int32_t sign;                /* -1 for SUB */
    qg_multiplier ma, mb,
        my; /* fixed: q31; mantissa and neon: ma.m, mb.m and my.shift */
    int left;
    int32_t (*scale)(int32_t, qg_multiplier);
    float ra, rb;            /* s_a / s_y and s_b / s_y, one rounding each */
    float fix, fix_standing; /* fma form: the constant, and with A and B exchanged */
    qg_requant above;        /* PRELU: codes at or above zero */
    qg_requant product;      /* MUL, and PRELU below zero */
};

/* QG_EUNSUPPORTED for a form that the operator does not have, and for types or ratios
 * of scales that the form cannot hold; QG_ENUMERIC for bad scales.
 * Every float factor is determined here, so that running is integer work or one known
 * sequence of float operations, and cannot fail. */
QG_NODISCARD QG_API qg_status qg_int_binary_prepare(qg_ctx *ctx,
                                                    const qg_int_binary_spec *spec,
                                                    qg_int_binary *out);

/* A whole array in storage of the spec's type. */
typedef struct qg_int_argument {
    qg_int_dims dims; /* of data */
    const void *data;
} qg_int_argument;

/* The operator on whole arrays with broadcasting; y holds the product of the broadcast
 * dims, in the type of spec.y, and may be an operand that is not broadcast.
 * QG_EMODEL when dims do not broadcast. */
QG_NODISCARD QG_API qg_status qg_int_binary_run(qg_ctx *ctx, const qg_int_binary *p,
                                                const qg_int_argument *a,
                                                const qg_int_argument *b, void *y);

/* "add", "sub", "multiply", "squared-difference", "prelu". */
QG_API const char *qg_int_binary_op_name(qg_int_binary_op op);

#ifdef __cplusplus
}
#endif

#endif
