/* integer_binary.h -- Add, Sub and Mul of arrays with different scales and zero points.
 *
 * Every runtime has a form of its own; they differ in ties and in the last code:
 *
 *     form       arithmetic of Add (A, B stored; ra = f32(sa/sy), rb = f32(sb/sy))
 *     fixed      t = 2 max(sa, sb); M(M((A-za) << L) + M((B-zb) << L)), L = 20, 15 for
 *                16 bits, M a q31 requantization  (TFLite reference and built-in)
 *     mantissa   k = 20 - floor(log2(max(ra, rb))), m = rint(r 2^k);
 *                ((A-za) ma + (B-zb) mb + 2^(k-1)) >> k                    (XNNPACK)
 *     fma        fix = f32(zy - fma(ra, za, f32(rb zb)));
 *                rint(fma(A, ra, fma(B, rb, fix)));  a standing A changes places with B
 *                                                              (ORT, x86 with FMA)
 *     neon       k = 21 - floor(log2(max)), halves away from zero  (ORT, aarch64)
 *     portable   rint(f32(f32(f32(sa (A-za)) + f32(sb (B-zb))) / sy) + zy)   (ORT)
 *     sse        rint(f32(f32(fix + f32(A ra)) + f32(B rb)))  (ORT, no AVX2 [read])
 *
 * Mul is one product and the runtime's requantization for it (requant.h, use MULTIPLY).
 *
 * fma() is C's, rounded once, whatever the machine has.
 * Source   docs/evidence/integers.md#runtimes;
 *          tests/data/vectors/README.md.
 * Example  A = -2, B = 1, all scales 1 but sy = 2, zero points 0: exact -0.5; tflite
 *          reference -1, onnxruntime x86-64 0, xnnpack 0
 *          (run by test_integer_binary.c: doc_example). */
#ifndef QG_ENGINE_NUMBER_INTEGER_BINARY_H
#define QG_ENGINE_NUMBER_INTEGER_BINARY_H

#include "engine/number/integer_array.h"
#include "engine/number/requant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sub is Add with the second factor negated, in every form. */
typedef enum qg_int_binary_op {
    QG_INT_BINARY_ADD,
    QG_INT_BINARY_SUB,
    QG_INT_BINARY_MUL
} qg_int_binary_op;

/* The operator to compute, and the runtime to follow. */
typedef struct qg_int_binary_spec {
    qg_int_binary_op op;
    const char *runtime, *isa; /* as in qg_requant_rules(), and see integer_binary.c */
    qg_grid a, b, y;
    qg_fused fused; /* QG_FUSED_NONE outside TFLite */
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
    qg_int_binary_span_fn *span; /* the form of this runtime */
    qg_code_range range;         /* of y, after the fused activation */
    int32_t sign;                /* -1 for SUB */
    qg_multiplier ma, mb,
        my; /* fixed: q31; mantissa and neon: ma.m, mb.m and my.shift */
    int left;
    int32_t (*scale)(int32_t, qg_multiplier);
    float ra, rb;            /* s_a / s_y and s_b / s_y, one rounding each */
    float fix, fix_standing; /* fma form: the constant, and with A and B exchanged */
    qg_requant product;      /* MUL */
};

/* QG_EUNSUPPORTED for a runtime that lacks the operator, type or ratio of scales (the
 * message lists those it has); QG_ENUMERIC for bad scales.
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

/* "add", "sub", "mul". */
QG_API const char *qg_int_binary_op_name(qg_int_binary_op op);

#ifdef __cplusplus
}
#endif

#endif
