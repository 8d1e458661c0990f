/* integer_rescale.h -- stored integers from another grid, or from float; Concat.
 *
 *     requantize   q - z_x through the runtime's requantization (requant.h, RESCALE)
 *     concat       inputs on the output's grid are copied; others:
 *                    TFLite uint8   k = f32(s_x f32(1/s_y));
 *                                   round_away(f32(f32(q k) + f32(-z_x k))) + z_y
 *                    TFLite int8    refused, as the kernel does
 *                    ORT            QuantizeLinear(f32(s_x (q - z_x)))
 *                    XNNPACK        refused
 *     quantize     from float: x / s or x f32(1/s), to even or away from zero, + z
 *
 * All saturate.  Source: docs/evidence/integers.md#runtimes.
 * Example  0.5 -> 1, q = 3, zero points 0: exact 1.5, tflite-reference 2,
 *          onnxruntime 2; q = 1: exact 0.5, tflite-reference 1, onnxruntime 0
 *          (run by test_integer_rescale.c: doc_example). */
#ifndef QG_ENGINE_NUMBER_INTEGER_RESCALE_H
#define QG_ENGINE_NUMBER_INTEGER_RESCALE_H

#include "engine/number/integer_array.h"
#include "engine/number/requant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The two differ in TFLite: an operator requantizes, a concatenation may be refused. */
typedef enum qg_rescale_use { QG_RESCALE_OPERATOR, QG_RESCALE_CONCAT } qg_rescale_use;

/* From x's grid to y's, as this runtime does it. */
typedef struct qg_rescale_spec {
    const char *runtime, *isa; /* as in qg_requant_rules() */
    qg_rescale_use use;
    qg_grid x, y;
} qg_rescale_spec;

/* Ready to run; plain data. */
typedef struct qg_rescale {
    enum { QG_RESCALE_COPY, QG_RESCALE_REQUANT, QG_RESCALE_AFFINE } how;
    int32_t zero_x; /* subtracted before scaling */
    qg_requant r;   /* REQUANT */
    float k, plus;  /* AFFINE */
} qg_rescale;

/* QG_EUNSUPPORTED where the runtime refuses; QG_ENUMERIC for bad scales. */
QG_NODISCARD QG_API qg_status qg_rescale_prepare(qg_ctx *ctx,
                                                 const qg_rescale_spec *spec,
                                                 qg_rescale *out);

/* n codes; x and y may be the same array.
 * COPY is a plain copy: grids are equal. */
QG_API void qg_rescale_codes(const qg_rescale *r, const int32_t *x, int32_t *y,
                             size_t n);

/* Float to codes. */
typedef struct qg_quantizer {
    bool reciprocal;  /* multiply by f32(1/s) instead of dividing */
    uint8_t rounding; /* qg_rounding */
    float scale;      /* s, or its reciprocal */
    qg_code_range range;
} qg_quantizer;

/* QG_EUNSUPPORTED for a runtime that is not in the table of integer_rescale.c. */
QG_NODISCARD QG_API qg_status qg_quantizer_prepare(qg_ctx *ctx, const char *runtime,
                                                   qg_grid y, qg_quantizer *out);

/* n codes.  Infinities saturate; NaN gives the lowest code, as x86-64 kernels do. */
QG_API void qg_quantizer_codes(const qg_quantizer *q, const float *x, int32_t *y,
                               size_t n);

/* One operand, borrowed for the call. */
typedef struct qg_int_concat_input {
    qg_grid grid;
    qg_int_dims dims;
    const void *data; /* dense, of grid.dtype */
} qg_int_concat_input;

/* How the operands are brought onto y's grid. */
typedef struct qg_int_concat_spec {
    const char *runtime, *isa;
    int32_t axis; /* from the end when negative */
    qg_grid y;
} qg_int_concat_spec;

/* Dims of the result; QG_EMODEL when the inputs do not fit together.  n >= 1. */
QG_NODISCARD QG_API qg_status qg_int_concat_dims(qg_ctx *ctx, int32_t axis,
                                                 const qg_int_concat_input *in,
                                                 size_t n, qg_int_dims *out);

/* y has room for those dims and overlaps no input. */
QG_NODISCARD QG_API qg_status qg_int_concat_run(qg_ctx *ctx,
                                                const qg_int_concat_spec *spec,
                                                const qg_int_concat_input *in, size_t n,
                                                void *y);

#ifdef __cplusplus
}
#endif

#endif
