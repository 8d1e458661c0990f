/* quantize_linear.h -- a grid in terms of QuantizeLinear and DequantizeLinear of ONNX:
 * element type, opset, shape of the scales; and back.
 *
 * The type of each scheme, and the first opset that has it:
 *
 *     bits of the scheme    signed (qmin < 0)     unsigned     opset
 *     2, 3, 4               int4                  uint4        21
 *     5 to 8                int8                  uint8        13
 *     9 to 16               int16                 uint16       21
 *     17 to 32              int32, constants only (a bias in    13
 *                           steps of input x weight)
 *     8, exponent 4 or 5    float8e4m3fn, float8e5m2            19
 *     the same, fnuz        float8e4m3fnuz, float8e5m2fnuz      19
 *     4, exponent 2         float4e2m1                          23
 *     blocks                as above, at least                  21
 *
 * For OpenVINO an activation with an offset is unsigned in any case, and others by
 * the rules of qdq/qdq.c; for ONNX Runtime int8 activations are from opset 21 on: its
 * optimizer moves Q over Reshape and similar operators with an output_dtype of int8,
 * makes the zero point uint8, as it does throughout on x86-64, and then fails on the
 * result (1.31, QDQPropagation and QDQS8ToU8).
 *
 * The opset of the file is the largest that any endpoint needs, or the model's own.
 *
 * Source: ONNX QuantizeLinear and DequantizeLinear 10, 13, 19, 21, 23; PPQ
 * (docs/evidence/ppq-behaviour.md#quantize-and-dequantize-pairs), without its absolute
 * tolerance for equal scales: equal means equal bits. */
#ifndef QG_ENGINE_FORMATS_QUANTIZE_LINEAR_H
#define QG_ENGINE_FORMATS_QUANTIZE_LINEAR_H

#include "engine/formats/grid_record.h"
#include "engine/quant/backend.h"

/* A scheme in ONNX's words. */
typedef struct qg_onnx_grid {
    qg_dtype code;     /* type of codes and zero points; QG_NODTYPE: none */
    int16_t opset;     /* least ai.onnx that has the type and the form */
    bool clip;         /* the type holds more codes than the scheme: clamp before */
    const char *fault; /* why there is no type; static; NULL: there is one */
} qg_onnx_grid;

/* The type of the endpoint's scheme: the narrowest type that has at least its bits and
 * holds its codes.  constant: int32 is a type too, since only DequantizeLinear reads
 * it. */
qg_onnx_grid qg_onnx_grid_of(const qg_tqc *t, bool constant, enum qg_placement place);

/* Why a file for this reader cannot have the endpoint at all, so that the export is
 * refused: an activation that TensorRT would not read.  NULL: it can, or loses it. */
const char *qg_onnx_refusal(const qg_tqc *t, enum qg_placement place);

/* The difference of that type's codes from those of the scheme: 0, or half of the
 * type's range where an unsigned type holds signed codes (OpenVINO). */
int32_t qg_onnx_shift(const qg_tqc *t, qg_dtype code);

/* Whether OpenVINO would compute something else on codes of this weight: a transposed
 * convolution, and p has a zero point.  Floats that the file quantizes are right.
 * Source: measured with OpenVINO 2026.4.1, LP_TRANSFORMS_MODE at its default. */
bool qg_onnx_turns_zero_points(const qg_tqc *t, const qg_qparam *p);

/* Rounding to one grid after the other changes nothing. */
bool qg_onnx_same_grid(const qg_tqc *a, const qg_tqc *b);

/* Lowest and highest value of parameter c: limits in steps times scale, one
 * rounding. */
void qg_onnx_limits(const qg_tqc *t, size_t c, float *low, float *high);

/* Type and dims of scale and zero point for values like x: a scalar, [channels], or x
 * with its axis counted in blocks. */
void qg_onnx_scale_type(const qg_tqc *t, const qg_tensor *x, qg_dtype type,
                        qg_tensor *out);

/* The zero points of p in a new tensor of the grid's type. */
QG_NODISCARD qg_status qg_onnx_zero_points(qg_ctx *ctx, qg_arena *a, const qg_tqc *t,
                                           qg_dtype code, const qg_tensor *x,
                                           qg_tensor *out);

/* x, plain float32, on t's grid: the values in *y, made like x. */
QG_NODISCARD qg_status qg_onnx_rounded(qg_ctx *ctx, qg_arena *a, const qg_tqc *t,
                                       const qg_tensor *x, qg_tensor *y);

/* The codes of x; *y has type and dims and gets its memory here. */
QG_NODISCARD qg_status qg_onnx_codes(qg_ctx *ctx, qg_arena *a, const qg_tqc *t,
                                     const qg_tensor *x, qg_tensor *y);

/* QuantizeLinear, DequantizeLinear: of ONNX, or the same of com.microsoft. */
bool qg_is_quantize_linear(const qg_node *n);
bool qg_is_dequantize_linear(const qg_node *n);

/* DequantizeLinear of ai.onnx whose codes are a constant. */
bool qg_is_dequantized_constant(const qg_node *n);

/* The grid of a QuantizeLinear or DequantizeLinear whose codes have this type and whose
 * floats have the type and dims of x.  *why is NULL when *out was filled; else it is
 * the reason why the node must stay an operator ("its scale is not constant"), and *out
 * is untouched.  The node is inferred; QG_ENOMEM is the only failure. */
QG_NODISCARD qg_status qg_grid_of_linear(qg_graph *g, const qg_node *n, qg_dtype codes,
                                         const qg_tensor *x, qg_grid_record *out,
                                         const char **why);

#endif
