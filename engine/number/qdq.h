/* qdq.h -- QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear on plain arrays,
 * as ONNX Runtime computes them on its CPU provider.
 *
 *     QuantizeLinear     v = x / scale (true division, float32)
 *                        q = (int) half-even(clamp(v, qmin - zp, qmax - zp)) + zp
 *     DequantizeLinear   x = (float)(q - zp) * scale
 *
 * NaN     gives qmin, infinities saturate
 * Wrap    some forms round first, convert to int32, add zp modulo 2^32 and clamp last:
 *         blocks with elements between two of the axis (inner > 1), 2-bit elements, and
 *         a 4-bit element that does not fill its byte together with its run.  In range
 *         that is the same.  NaN and |v| >= 2^31 convert to -2^31 on x86-64; on aarch64
 *         they saturate and NaN gives 0.
 * float8  q = cast(x / scale), x = value(q) * scale; the zero point is 0 by definition.
 *         float4 alike
 * ONNX    operators of a model follow the standard: no form wraps, and float8 is the
 *         standard's Cast.  `onnx` selects that; the rest is the same.
 * Source  docs/evidence/grids.md#quantizelinear; tests/data/vectors/ort_qdq.json; ONNX
 *         QuantizeLinear-21.  float16 and bfloat16 tensors: convert to float32 and back
 *         (number/format.h), as ONNX Runtime does.
 *
 * Example, uint8 with scale 0.5 and zero point 10: x = 1.3 has v = 2.6, q = 3 + 10 =
 * 13, and 13 is 1.5 again; x = -100 gives q = 0. */
#ifndef QG_ENGINE_NUMBER_QDQ_H
#define QG_ENGINE_NUMBER_QDQ_H

#include "engine/number/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array seen as [outer][dim][inner] around the quantized axis.  Per tensor: outer
 * and dim 1, inner the number of elements.
 * The two axes of ONNX's operators that matter: which element has which parameter. */
typedef struct qg_qdq {
    qg_dtype type; /* of codes and zero points: see qg_qdq_knows */
    size_t outer, dim, inner;
    size_t block; /* 0: parameters are [dim]; else [outer][ceil(dim / block)][inner] */
    const float *scale;     /* float32, any value */
    const void *zero_point; /* of `type`, packed as in dtype.h; NULL: all 0 */
    bool no_saturate;       /* float8: overflow gives NaN or infinity instead */
    bool aarch64;           /* the wrapping forms as on aarch64 */
    bool onnx;              /* the standard where ONNX Runtime differs, see above */
    qg_dtype precision;     /* F16, BF16: x / scale is rounded to it; else float32 */
} qg_qdq;

/* int2, int4, int8, int16, their unsigned counterparts, float8, float4e2m1; also int32,
 * for DequantizeLinear only.
 * quantize: for QuantizeLinear, else for DequantizeLinear. */
QG_API bool qg_qdq_knows(qg_dtype type, bool quantize);

/* x and y do not overlap.  The type is known (asserted).
 * Codes are packed as in dtype.h; a scale of 0 divides as IEEE has it. */
QG_API void qg_quantize_linear(const qg_qdq *q, const float *x, void *y);
QG_API void qg_dequantize_linear(const qg_qdq *q, const void *x, float *y);

/* uint8: scale = (max - min) / 255 with 0 included and NaN ignored, 1 when both are 0;
 * zero point half-even(clamp(0 - min / scale, 0, 255)). */
QG_API void qg_dynamic_quantize_linear(const float *x, size_t n, uint8_t *y,
                                       float *scale, uint8_t *zero_point);

#ifdef __cplusplus
}
#endif

#endif
