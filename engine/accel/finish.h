/* finish.h -- from exact sums of products to codes or floats, compiled per instruction
 * set.
 *
 * Sums lie channels-last, [places][channels] int32; each channel has a bias and a
 * factor.  Every row gives the bits of number/requant.h: qg_requant_one of the sum with
 * its bias, modulo 2^32 (tests/unit/test_finish.c compares them).
 *
 *     schemes with loops of their own   fix-double, fix-double-up, double-away;
 *                                       float-rne with a one-step factor, zero point
 *                                       after or inside the rounding
 *     float output                      f32(f32(acc f) + bias)
 *     all others                        the definition, element by element
 *
 *     qg_finish f;
 *     QG_TRY(qg_finish_new(ctx, arena, &spec, &f));
 *     f.run(&f, sums, y, places); */
#ifndef QG_ENGINE_ACCEL_FINISH_H
#define QG_ENGINE_ACCEL_FINISH_H

#include "engine/ir/kernel.h"
#include "engine/number/integer_rescale.h"

/* Which loop. */
enum qg_finish_kind {
    QG_FINISH_FIX_DOUBLE,
    QG_FINISH_FIX_DOUBLE_UP,
    QG_FINISH_NEAR_DOUBLE, /* the same for factors below 1/2, mostly by float32 */
    QG_FINISH_NEAR_UP,
    QG_FINISH_DOUBLE_AWAY,
    QG_FINISH_FLOAT_AFTER,  /* float-rne: rint(f32(acc f)) + z */
    QG_FINISH_FLOAT_INSIDE, /* float-rne: rint(f32(f32(acc f) + z)) */
    QG_FINISH_FLOATS,       /* no codes: f32(f32(acc f) + bias) */
    QG_NFINISH
};

typedef struct qg_finish qg_finish;

/* y: codes of the output's type, or floats; acc and y do not overlap. */
typedef void qg_finish_fn(const qg_finish *f, const int32_t *acc, void *y,
                          size_t places);

/* What is to be done; borrowed by the definition's loop, so it must live as long. */
typedef struct qg_finish_spec {
    size_t channels;     /* >= 1 */
    const qg_requant *r; /* [channels], or one for all */
    bool per_channel;
    bool fma;            /* float output: fma(acc, f, bias) */
    const int32_t *bias; /* [channels] added to the sum; NULL: none */
    const float *floats; /* [channels] float output: added behind the factor; or NULL */
    qg_dtype out;        /* codes of 8 or 16 bits, or float32 */
} qg_finish_spec;

/* Ready to run.  The lists have `period` entries and lie in the arena: those of the
 * channels, repeated when there are few, so that loops are long. */
struct qg_finish {
    qg_finish_fn *run;
    qg_finish_spec spec;
    enum qg_finish_kind kind; /* QG_NFINISH: the definition, without lists */
    size_t period;            /* a multiple of spec.channels */
    const int32_t *bias, *m, *left, *right;
    const float *f, *plus; /* plus: 2^-(right + 1) for codes of the near loops */
    const double *real;
    int32_t zero, low, high; /* limits of the code without its zero point */
};

/* Floats to codes of 8 bits: the forms divide and reciprocal, rounded half to even or
 * away from zero. */
enum qg_quantize_kind {
    QG_QUANTIZE_DIVIDE_EVEN,
    QG_QUANTIZE_DIVIDE_AWAY,
    QG_QUANTIZE_MULTIPLY_EVEN,
    QG_QUANTIZE_MULTIPLY_AWAY,
    QG_NQUANTIZE
};

/* qg_affine_quantizer_codes into bytes. */
typedef void qg_quantize_fn(const qg_affine_quantizer *q, const float *x, void *y,
                            size_t n);

/* A sum or a product of codes whose zero points are taken off, by float32:
 *
 *     v = f32(f32((a - za) fa) + f32((b - zb) fb)), or f32((a - za) (b - zb) fa)
 *
 * limited, rounded to nearest, plus zero. */
typedef struct qg_near_pair {
    int32_t za, zb;
    float fa, fb;
    int32_t zero, low, high; /* limits of the code without its zero point */
} qg_near_pair;

/* n bytes of one type; false: some v is near a tie, where operators differ. */
typedef bool qg_near_fn(const qg_near_pair *p, const void *a, const void *b, void *y,
                        size_t n);

/* y[i] = table[x[i]]; y may be x. */
typedef void qg_look_up_fn(const uint8_t table[256], const uint8_t *x, uint8_t *y,
                           size_t n);

/* y[i] = f32((x[i] - zero) scale) of bytes. */
typedef void qg_dequantize_fn(int32_t zero, float scale, const void *x, float *y,
                              size_t n);

/* The functions of one instruction set; static. */
typedef struct qg_finish_row {
    const char *isa;
    bool (*supported)(void);
    qg_finish_fn *u8[QG_NFINISH], *i8[QG_NFINISH]; /* FLOATS writes float32 in both */
    qg_quantize_fn *quantize_u8[QG_NQUANTIZE], *quantize_i8[QG_NQUANTIZE];
    qg_near_fn *near_u8[2], *near_i8[2]; /* sum, product */
    qg_dequantize_fn *dequantize_u8, *dequantize_i8;
    qg_look_up_fn *look_up;
} qg_finish_row;

/* The loops of the fastest row; types are int8 and uint8. */
qg_near_fn *qg_near_loop(bool product, qg_dtype type);
qg_dequantize_fn *qg_dequantize_loop(qg_dtype type);
qg_look_up_fn *qg_look_up_loop(void);

/* Rows from the plainest to the fastest; the first is always supported. */
const qg_finish_row *const *qg_finish_rows(size_t *n);

/* With the loops of this row (NULL: the fastest that the CPU supports).  QG_ENOMEM. */
QG_NODISCARD qg_status qg_finish_new(qg_ctx *ctx, qg_arena *a, const qg_finish_row *row,
                                     const qg_finish_spec *spec, qg_finish *out);

/* The loop of this row (NULL: the fastest) for codes of this type; NULL: another form,
 * rounding or type than the kinds have. */
qg_quantize_fn *qg_quantize_loop(const qg_finish_row *row, const qg_affine_quantizer *q,
                                 qg_dtype type);

/* An element-wise kernel with that loop, from floats in any layout; *out NULL: there is
 * none. */
QG_NODISCARD qg_status qg_accel_quantize(qg_compile *c, const qg_affine_quantizer *q,
                                         qg_kernel **out);

#endif
