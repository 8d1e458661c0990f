/* operators.h -- operators of a .tflite file become nodes of ai.onnx.
 *
 * qg_tflite_operator_build finds the row of the operator's code, checks what all
 * operators have in common (options, number of slots, grids) and calls its function,
 * which adds the nodes:
 *
 *     CONV_2D, DEPTHWISE_CONV_2D      Conv, SAME padding as pads, the odd one behind
 *     TRANSPOSE_CONV                  ConvTranspose, pads from the output shape
 *     FULLY_CONNECTED                 Gemm with transB, Reshape where the rank is not 2
 *     BATCH_MATMUL                    MatMul
 *     ADD, SUB, MUL, MAXIMUM, MINIMUM Add, Sub, Mul, Max, Min
 *     DIV, POW, ABS, CEIL, EXP, FLOOR, GELU, LOG, NEG, SQRT
 *                                     Div, Pow, Abs, ..., on floats
 *     SQUARED_DIFFERENCE              Sub, then Mul of the result with itself
 *     AVERAGE_POOL_2D, MAX_POOL_2D    AveragePool (places inside), MaxPool
 *     MEAN                            ReduceMean; GlobalAveragePool over height and
 *                                     width with kept axes
 *     SOFTMAX, LOGISTIC, TANH, HARD_SWISH, LEAKY_RELU, PRELU
 *                                     Softmax, Sigmoid, Tanh, HardSwish, LeakyRelu,
 *                                     PRelu
 *     RELU, RELU6, RELU_N1_TO_1       Relu, Clip, Clip; as fused activations too
 *     CONCATENATION, PACK             Concat
 *     SPLIT, SPLIT_V, UNPACK          Split
 *     RESHAPE, SQUEEZE, EXPAND_DIMS   Reshape
 *     TRANSPOSE, GATHER, BROADCAST_TO Transpose, Gather, Expand
 *     SLICE, STRIDED_SLICE            Slice
 *     PAD, PADV2                      Pad
 *     RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR   Resize
 *     QUANTIZE, DEQUANTIZE            Identity between two grids, or a grid and floats
 *
 * Source   schema.fbs; tensorflow/lite/kernels of each operator */
#ifndef QG_ENGINE_FORMATS_TFLITE_OPERATORS_H
#define QG_ENGINE_FORMATS_TFLITE_OPERATORS_H

#include "engine/formats/tflite/builder.h"

/* Upstream's ActivationFunctionType and Padding. */
enum qg_tflite_activation {
    QG_TFLITE_NO_ACTIVATION,
    QG_TFLITE_RELU,
    QG_TFLITE_RELU_N1_TO_1,
    QG_TFLITE_RELU6
};
enum qg_tflite_padding { QG_TFLITE_SAME, QG_TFLITE_VALID };

/* The nodes of operator b->op, which is number b->at. */
QG_NODISCARD qg_status qg_tflite_operator_build(qg_tflite_builder *b);

/* y = the activation of x, which is not NONE. */
QG_NODISCARD qg_status qg_tflite_activate(qg_tflite_builder *b, int32_t activation,
                                          qg_value *x, qg_value *y);

/* n, and its activation, compute y, which is on the grid of v. */
QG_NODISCARD qg_status qg_tflite_compute(qg_tflite_builder *b, const qg_tflite_node *n,
                                         qg_tflite_value *v, int32_t activation,
                                         qg_value *y);
/* The same for the lead of v in this form. */
QG_NODISCARD qg_status qg_tflite_finish(qg_tflite_builder *b, const qg_tflite_node *n,
                                        qg_tflite_value *v,
                                        enum qg_tflite_layout layout,
                                        int32_t activation);

/* An axis of a tensor of this rank, counted from the end when it is negative. */
QG_NODISCARD qg_status qg_tflite_check_axis(qg_tflite_builder *b, int64_t axis,
                                            int32_t rank, int64_t *out);

/* nchw where every computed input from `first` on has that form (or one element), and
 * the output has rank 4; else plain. */
enum qg_tflite_layout qg_tflite_pick(qg_tflite_builder *b, uint32_t first);

/* Input k in the form that the operator picked. */
QG_NODISCARD qg_status qg_tflite_operand(qg_tflite_builder *b, uint32_t k,
                                         enum qg_tflite_layout layout, qg_value **out);

/* The nodes of b->op, which has passed the checks of its row. */
typedef qg_status qg_tflite_build(qg_tflite_builder *b);

/* functions.c: functions of each element, softmax, means. */
qg_tflite_build qg_tflite_build_add, qg_tflite_build_sub, qg_tflite_build_mul,
    qg_tflite_build_maximum, qg_tflite_build_minimum, qg_tflite_build_logistic,
    qg_tflite_build_tanh, qg_tflite_build_hard_swish, qg_tflite_build_prelu,
    qg_tflite_build_identity, qg_tflite_build_squared_difference, qg_tflite_build_relu,
    qg_tflite_build_relu6, qg_tflite_build_relu_n1_to_1, qg_tflite_build_leaky_relu,
    qg_tflite_build_softmax, qg_tflite_build_mean, qg_tflite_build_div,
    qg_tflite_build_exp, qg_tflite_build_neg, qg_tflite_build_log, qg_tflite_build_sqrt,
    qg_tflite_build_pow, qg_tflite_build_abs, qg_tflite_build_ceil,
    qg_tflite_build_floor, qg_tflite_build_gelu;

/* windows.c: weights and windows. */
qg_tflite_build qg_tflite_build_conv, qg_tflite_build_depthwise,
    qg_tflite_build_transpose_conv, qg_tflite_build_average_pool,
    qg_tflite_build_max_pool, qg_tflite_build_dense, qg_tflite_build_matmul;

/* moves.c: values move, none is computed. */
qg_tflite_build qg_tflite_build_reshape, qg_tflite_build_transpose,
    qg_tflite_build_concat, qg_tflite_build_split, qg_tflite_build_split_v,
    qg_tflite_build_slice, qg_tflite_build_strided_slice, qg_tflite_build_gather,
    qg_tflite_build_pad, qg_tflite_build_pack, qg_tflite_build_unpack,
    qg_tflite_build_bilinear, qg_tflite_build_nearest, qg_tflite_build_broadcast;

#endif
