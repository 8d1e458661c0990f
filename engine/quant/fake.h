/* fake.h -- quantize and dequantize arrays.
 *
 *     t  = x / scale[c]                       (true division)
 *     q  = clamp(round(t) + offset[c], qmin, qmax)
 *     x' = (q - offset[c]) * scale[c]
 *
 * Level  under half-even-level, as the kernel of OpenVINO's FakeQuantize that has these
 *        levels (number/openvino_fq.h), each step in float32, at most 2^16 levels:
 *            il, ih = (qmin - offset) scale, (qmax - offset) scale
 *            isc = n / (ih - il)
 *            q = round(clamp(x, il, ih) * isc - il * isc) + qmin       n = qmax - qmin
 * c      0 under PER_TENSOR; the index along scheme.axis under PER_CHANNEL; under BLOCK
 *        parameters are laid out like x with dim[axis] replaced by ceil(dim / block)
 * NaN    is replaced by the number of the scheme's rule (number/round.h); a NaN that is
 *        kept has the code qmin
 * Inf    saturates
 * Zero   a result that is zero is +0
 * Wide   more than 24 bits: division and product in double, one rounding at the end
 * Float  FLOATING rounds x / scale to the format instead (policy.h, floating.c)
 * Source docs/evidence/grids.md#fake-quantize; ONNX QuantizeLinear (y_zero_point ==
 *        offset)
 *
 * The kernels for AVX2 and AVX-512 give the bits of the plain C definition (kernel
 * table in fake_kernel.h; proven by tests/unit/test_fake_kernels.c).
 *
 * Example, 8 bits symmetric with scale 0.5: x = 1.3 has t = 2.6, q = 3, x' = 1.5; x
 * = 100 has q = 127 and x' = 63.5. Cost: one pass over x (DYNAMIC: two), no memory. */
#ifndef QG_ENGINE_QUANT_FAKE_H
#define QG_ENGINE_QUANT_FAKE_H

#include "engine/ir/tensor.h"
#include "engine/quant/policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* scale and offset hold n entries; offset NULL means all zero. */
typedef struct qg_qparam {
    size_t n;              /* qg_scheme_param_count of them */
    const float *scale;    /* finite, > 0; borrowed */
    const int32_t *offset; /* within [qmin, qmax]; NULL: all zero */
} qg_qparam;

/* x and y: float32, same dims, any strides without gaps (plain or channels-last); they
 * may be the same tensor.  A DYNAMIC scheme ignores p.  QG_ESTATE when p->n does not
 * fit scheme and dims (message begins with `what`).
 * Gaps in the strides and types other than float32 are QG_ESTATE too, a scale that
 * is not finite and > 0 is QG_ENUMERIC; after a failure the contents of y are
 * undefined. */
QG_NODISCARD QG_API qg_status qg_fake_quantize(qg_ctx *ctx, const char *what,
                                               const qg_scheme *s, const qg_qparam *p,
                                               const qg_tensor *x, qg_tensor *y);

/* Codes instead of values, and back: dequantizing the codes gives the bits of
 * qg_fake_quantize (NaN apart).  y (x for _dequantize) has an integer type that holds
 * [qmin, qmax]; under FLOATING a float type of the scheme's format, which then holds
 * x / scale rounded.  Not for DYNAMIC; equal dims and strides, QG_ESTATE otherwise. */
QG_NODISCARD QG_API qg_status qg_quantize(qg_ctx *ctx, const char *what,
                                          const qg_scheme *s, const qg_qparam *p,
                                          const qg_tensor *x, qg_tensor *y);
QG_NODISCARD QG_API qg_status qg_dequantize(qg_ctx *ctx, const char *what,
                                            const qg_scheme *s, const qg_qparam *p,
                                            const qg_tensor *x, qg_tensor *y);

/* Scale and offset of a range (docs/evidence/grids.md#range-to-scale, without the
 * defects D01 and D02, which quirks restore).  low <= high, finite; the range is
 * widened to hold 0.  Arithmetic in double, one rounding to float32.  scale is at least
 * min_scale. */
enum qg_range_quirk {
    QG_RANGE_PPQ_OFFSET = 1,      /* D01: offset without qmin and clamp */
    QG_RANGE_PPQ_POW2_OFFSET = 2, /* D02: offset from the unrounded scale */
    QG_RANGE_MX = 4, /* FLOATING: the OCP MX rule, 2^(floor(log2 |range|) - that of the
                      * format's largest): a step finer than ours, may clip */
    QG_RANGE_PPQ_UNSIGNED = 8, /* symmetric codes from 0: the scale of signed codes */
};
/* The range an observer found, in the tensor's unit. */
typedef struct qg_range {
    double low, high; /* low <= high, finite */
    double min_scale; /* 0: the default of 1e-8 */
    unsigned quirks;  /* of qg_range_quirk */
} qg_range;
/* With both limits widened to hold 0:
 *     width   high - low; symmetric: 2 max(-low, high), or high where codes begin at 0
 *     scale   width / (qmax - qmin); FLOATING: width / (2 largest value)
 *             POWER_OF_2: the next 2^k that is not below
 *     offset  clamp(round(qmin - low / scale), qmin, qmax); symmetric: 0 */
QG_API void qg_scheme_from_range(const qg_scheme *s, qg_range r, float *scale,
                                 int32_t *offset);

/* low[c] and high[c]: the range of the finite elements of x under parameter c, with 0
 * included; qg_scheme_param_count of each.  A DYNAMIC scheme applies this at run time,
 * then qg_scheme_from_range with the default min_scale, then the static formula. */
QG_NODISCARD QG_API qg_status qg_tensor_ranges(qg_ctx *ctx, const char *what,
                                               const qg_scheme *s, const qg_tensor *x,
                                               float *low, float *high);

/* Number of parameters that a scheme needs for a tensor of these dims; -1: axis or
 * block does not fit. */
QG_API int64_t qg_scheme_param_count(const qg_scheme *s, const qg_tensor *x);

#ifdef __cplusplus
}
#endif

#endif
