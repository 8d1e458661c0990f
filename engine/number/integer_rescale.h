/* integer_rescale.h -- stored integers from another grid, or from float; Concat.
 *
 *     rescale    form plain: q - z_x through the row's requantization
 *     concat     inputs on the output's grid are copied; others by form:
 *                  affine   k = f32(s_x f32(1/s_y));
 *                           round_away(f32(f32(q k) + f32(-z_x k))) + z_y
 *                                                              (TFLite, uint8)
 *                  table    QuantizeLinear(f32(s_x (q - z_x)))  (ORT)
 *                  copy     refused                             (TFLite int8, XNNPACK)
 *     quantize   divide: x / s; reciprocal: x f32(1/s), rounded, + z;
 *                add-half: trunc(x f32(1/s) +- 0.5) + z         (ncnn, groups of four)
 *                levels: crop to [low, high] = s ([lo, hi] - z);
 *                        rint(f32(x isc) + ish) + lo, isc = f32((hi - lo) / (high -
 *                        low)),
 *                        ish = -f32(low isc)                    (OpenVINO)
 *
 *                a NaN is first replaced by the number of the row's rule (round.h)
 *
 * All saturate.  Source: docs/evidence/integers.md#runtimes.
 * Example  0.5 -> 1, q = 3, zero points 0: exact 1.5, fix-double 2, float-rne 2;
 *          q = 1: exact 0.5, fix-double 1, float-rne 0
 *          (run by test_integer_rescale.c: doc_example). */
#ifndef QG_ENGINE_NUMBER_INTEGER_RESCALE_H
#define QG_ENGINE_NUMBER_INTEGER_RESCALE_H

#include "engine/number/integer_array.h"
#include "engine/number/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From x's grid to y's; the form of the row is plain (an operator), or copy, affine or
 * table (a concatenation). */
typedef struct qg_rescale_spec {
    const qg_profile_row *row; /* read by prepare alone */
    qg_grid x, y;
    qg_code_range range; /* of y: its codes, or those of a fused clamp */
} qg_rescale_spec;

/* Ready to run; plain data. */
typedef struct qg_rescale {
    enum { QG_RESCALE_COPY, QG_RESCALE_REQUANT, QG_RESCALE_AFFINE } how;
    int32_t zero_x; /* subtracted before scaling */
    qg_requant r;   /* REQUANT */
    float k, plus;  /* AFFINE */
} qg_rescale;

/* QG_EUNSUPPORTED where the form refuses; QG_ENUMERIC for bad scales. */
QG_NODISCARD QG_API qg_status qg_rescale_prepare(qg_ctx *ctx,
                                                 const qg_rescale_spec *spec,
                                                 qg_rescale *out);

/* n codes; x and y may be the same array.
 * COPY is a plain copy: grids are equal. */
QG_API void qg_rescale_codes(const qg_rescale *r, const int32_t *x, int32_t *y,
                             size_t n);

/* Float to codes; made by qg_affine_quantizer_prepare, plain data. */
typedef struct qg_affine_quantizer {
    qg_form form;
    qg_rounding rounding;
    float scale;     /* s, or its reciprocal; isc */
    float step;      /* vector8: s */
    float shift;     /* levels: ish */
    float low, high; /* levels: the cropped range */
    float nan;       /* takes the place of a NaN */
    qg_code_range range;
} qg_affine_quantizer;

/* To the codes `range` of grid y.  QG_EUNSUPPORTED for a form without a quantization;
 * QG_ENUMERIC for bad scales. */
QG_NODISCARD QG_API qg_status qg_affine_quantizer_prepare(qg_ctx *ctx,
                                                          const qg_profile_row *row,
                                                          qg_grid y,
                                                          qg_code_range range,
                                                          qg_affine_quantizer *out);

/* n codes.  Infinities saturate.  Form vector8: groups of 8 by the reciprocal, half to
 * even; the n % 8 elements behind them by a quotient in double, half away from zero. */
QG_API void qg_affine_quantizer_codes(const qg_affine_quantizer *q, const float *x,
                                      int32_t *y, size_t n);

/* One operand, borrowed for the call. */
typedef struct qg_int_concat_input {
    qg_grid grid;
    qg_int_dims dims;
    const void *data; /* dense, of grid.dtype */
} qg_int_concat_input;

/* How the operands are brought onto y's grid. */
typedef struct qg_int_concat_spec {
    const qg_profile_row *row; /* form copy, affine or table */
    int32_t axis;              /* from the end when negative */
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
