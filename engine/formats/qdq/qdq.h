/* qdq.h -- parts of the format onnx-qdq.  Private to engine/formats/qdq.
 *
 * onnx_qdq.c          where Q and DQ go; the format's row
 * onnx_qdq_runtime.c  out of the reach of ONNX Runtime's optimizer
 * onnx_qdq_grid.c     how ONNX says a scheme: element type, opset, shape of the scales
 *
 * Which type a scheme gets, and from which opset on:
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
 * For OpenVINO an activation with an offset is unsigned in any case; for ONNX Runtime
 * int8 activations are from opset 21 on: its optimizer moves Q over Reshape and the
 * like with an output_dtype of int8, makes the zero point uint8, as all on x86-64, and
 * then fails on what it made (1.31, QDQPropagation and QDQS8ToU8).
 *
 * The opset of the file is the largest that any endpoint needs, or the model's own.
 *
 * Bias     has Q and DQ only where its TQC rounds.  ONNX Runtime, as it ships, turns a
 *          float bias behind quantized inputs into int32 in steps of input x weight
 *          by itself (WeightBiasQuantization), which flips as many codes as quantizing
 *          makes noise in deep networks.  Placement ort keeps it float: an Add behind
 *          Conv, two axes in Gemm and behind MatMul.  A backend that says that its
 *          biases are int32 gets the integer kernels, like ort-int8.
 *          Its kernels take every int32 bias for one of that scale, so another scale is
 *          written as float values.
 * Softmax  between Q and DQ becomes QLinearSoftmax there, which multiplies by
 *          floor(1 / scale), and gives anything for more than about 280.  Where that
 *          is another scale (it is not for 1/256) an Abs before Q, which changes
 *          nothing, leaves Softmax in float (placement ort).
 *          Measured with onnxruntime 1.31: every QLinearConv of Ultraface gives the
 *          rounded exact result, and the outputs agree once bias and Softmax do.
 * Names    of new values begin with the value they stand for: v_float (before
 *          rounding), v_clipped, v_abs, v_quantized, v_dequantized, v_scale,
 *          v_zero_point; v itself is always what the readers of v see.  A number
 *          follows where a name is taken.
 *
 * Source: ONNX QuantizeLinear and DequantizeLinear 10, 13, 19, 21, 23; spec/peers.md
 * 4.6; spec/ppq.md 10.2 (its absolute tolerance for equal scales mended: equal is
 * equal bits). */
#ifndef QG_ENGINE_FORMATS_QDQ_QDQ_H
#define QG_ENGINE_FORMATS_QDQ_QDQ_H

#include "engine/quant/tqc.h"

/* The opset from which on int8 activations are written unsigned for ONNX Runtime. */
enum { QG_ONNX_UNSIGNED_SINCE = 21 };

/* Whose rules of fusion the graph is laid out for. */
enum qg_placement { QG_PLACE_ORT, QG_PLACE_TRT, QG_PLACE_OPENVINO };

/* A scheme in ONNX's words. */
typedef struct qg_onnx_grid {
    qg_dtype code;     /* type of codes and zero points; QG_NODTYPE: cannot be said */
    int16_t opset;     /* least ai.onnx that has the type and the form */
    bool clip;         /* the type holds more codes than the scheme: clamp before */
    const char *fault; /* why it cannot be said; static; NULL: it can */
} qg_onnx_grid;

/* How the endpoint's scheme is said: the narrowest type that has at least its bits and
 * holds its codes.  constant: int32 is a type too, since only DequantizeLinear reads
 * it. */
qg_onnx_grid qg_onnx_grid_of(const qg_tqc *t, bool constant, enum qg_placement place);

/* Placement ort: the constants that g adds to products of weights in codes are written
 * so that ONNX Runtime still adds them in float; values stay.  New nodes are of that
 * opset.  Says (-v) how many there are, and warns of floating-point codes.
 * g: the copy of q's graph with Q and DQ in place.  Source: onnxruntime 1.31
 * core/optimizer/qdq_transformer/weight_bias_quantization.cc (bias of one axis). */
QG_NODISCARD qg_status qg_onnx_obey_runtime(qg_graph *g, const qg_quant *q,
                                            int64_t opset);

/* What codes of that type are higher than those of the scheme: 0, or half of the type
 * where an unsigned one stands for signed codes (OpenVINO). */
int32_t qg_onnx_shift(const qg_tqc *t, qg_dtype code);

/* Rounding to one grid after the other changes nothing. */
bool qg_onnx_same_grid(const qg_tqc *a, const qg_tqc *b);

/* x, in the exported copy of q's graph, is a Softmax, of codes as far as t says, and
 * ONNX Runtime's QLinearSoftmax would have other codes of it than t: it takes
 * floor(1 / scale), in float32, for 1 / scale.  Source: measured with onnxruntime 1.31;
 * so up to 280, and 256 is as much as 8 bits need. */
bool qg_onnx_softmax_differs(const qg_ctx *ctx, const qg_quant *q, const qg_tqc *t,
                             const qg_value *x);

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

#endif
