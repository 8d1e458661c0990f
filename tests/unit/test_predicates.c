/* Words of the vocabulary of `qg lint`, on small graphs with records: each where it
 * holds and where one thing keeps it from holding. */
#include "tests/support/lint_rows.h"

static const char two_inputs[] =
    "opset 17; x = input f32[1,2,5,5]; u = input f32[1,2,5,5]; y = Add(x, u); "
    "output y";
static const char chain[] =
    "opset 17; x = input f32[1,2,5,5]; a = Relu(x); y = Relu(a); "
    "k = const f32[2] [1.0, 2.0]; b = Relu(k); output y, b";
static const char conv[] =
    "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
    "y = Conv(x, w); output y";
static const char conv_relu[] =
    "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
    "y = Conv(x, w); z = Relu(y); output z";
static const char conv_sum[] =
    "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
    "y = Conv(x, w); u = input f32[1,2,3,3]; z = Add(y, u); output z";
static const char one_relu[] =
    "opset 17; x = input f32[1,2,5,5]; y = Relu(x); output y";
static const char sum_of_conv[] =
    "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
    "y = Conv(x, w); u = input f32[1,2,3,3]; z = Add(u, y); output z";
static const char add_constant[] =
    "opset 17; x = input f32[1,2,5,5]; k = const f32[5] fill(1.0); "
    "y = Add(x, k); output y";
static const char dense[] =
    "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
    "b = const f32[5] fill(1.0); y = Gemm(x, w, b); output y";
static const char depthwise[] =
    "opset 17; x = input f32[1,2,5,5]; w = const f32[2,1,3,3] fill(1.0); "
    "y = Conv(x, w) group=2; output y";
static const char conv_output[] =
    "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
    "y = Conv(x, w); z = Relu(y); output z, y";
static const char gated[] =
    "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); "
    "y = Mul(a, s); output y";

/* clang-format off */
static const lint_row rows[] = {
    { QG_PREDICATE_CLAMP, 0, "", "y", "", "", true, one_relu },
    { QG_PREDICATE_CLAMP, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; y = Clip(x, a, b); a = const f32[] [0.0]; "
      "b = const f32[] [6.0]; output y" },
    { QG_PREDICATE_CLAMP, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = input f32[]; y = Clip(x, a); output y" },
    { QG_PREDICATE_CLAMP, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; y = Sigmoid(x); output y" },
    { QG_PREDICATE_NETWORK_INPUT, 0, "", "a", "", "", true, chain },
    { QG_PREDICATE_NETWORK_INPUT, 0, "", "y", "", "", false, chain },
    { QG_PREDICATE_NETWORK_INPUT, 0, "", "b", "", "", false, chain },
    { QG_PREDICATE_NETWORK_OUTPUT, 0, "", "a", "", "", false, chain },
    { QG_PREDICATE_NETWORK_OUTPUT, 0, "", "y", "", "", true, chain },
    { QG_PREDICATE_SCALED_BIAS, 0, "", "y", "", "", true,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = Gemm(x, w, b) alpha=2.0; output y" },
    { QG_PREDICATE_SCALED_BIAS, 0, "", "y", "", "", true,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = Gemm(x, w, b) beta=0.5; output y" },
    { QG_PREDICATE_SCALED_BIAS, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = Gemm(x, w, b) alpha=1.0 beta=1.0; output y" },
    { QG_PREDICATE_SCALED_BIAS, 0, "", "y", "", "", false, dense },
    { QG_PREDICATE_SCALED_BIAS, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = Gemm(x, w) alpha=2.0; output y" },
    { QG_PREDICATE_SCALED_BIAS, 0, "", "a", "", "", false, chain },
    { QG_PREDICATE_PADS, 0, "", "y", "", "", false, conv },
    { QG_PREDICATE_PADS, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) pads=[0, 0, 0, 0]; output y" },
    { QG_PREDICATE_PADS, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) pads=[0, 0, 0, 1]; output y" },
    { QG_PREDICATE_PADS, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) pads=[1, 0, 0, 0]; output y" },
    { QG_PREDICATE_PADS, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) auto_pad=\"SAME_UPPER\"; output y" },
    { QG_PREDICATE_PADS, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) auto_pad=\"VALID\"; output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[3, 3] strides=[2, 2] pads=[1, 1, 1, 1]; output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[3, 3] strides=[2, 2] pads=[0, 0, 2, 2]; output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[3, 3] strides=[2, 2] pads=[1, 1, 1, 0]; output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[2, 2] pads=[0, 0, 1, 1]; output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[2, 2] pads=[1, 1, 0, 0]; output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[3, 3] strides=[1, 2] pads=[1, 1, 1, 1]; output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; y = MaxPool(x) kernel_shape=[3, 3]; "
      "output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[2, 3] strides=[3, 1] pads=[0, 1, 0, 1]; output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = AveragePool(x) kernel_shape=[3, 3] pads=[1, 1, 1, 1] count_include_pad=1; "
      "output y" },
    { QG_PREDICATE_PADS_APART, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = AveragePool(x) kernel_shape=[3, 3] pads=[1, 1, 1, 1] count_include_pad=0; "
      "output y" },
    { QG_PREDICATE_DEPTHWISE, 4, "", "y", "", "", true, depthwise },
    { QG_PREDICATE_DEPTHWISE, 3, "", "y", "", "", false, depthwise },
    { QG_PREDICATE_DEPTHWISE, 4, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) group=1; output y" },
    { QG_PREDICATE_DEPTHWISE, 4, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[4,1,3,3] fill(1.0); "
      "y = Conv(x, w) group=2; output y" },
    { QG_PREDICATE_DEPTHWISE, 3, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5]; w = const f32[2,1,3] fill(1.0); "
      "y = Conv(x, w) group=2; output y" },
    { QG_PREDICATE_GROUPED, 0, "", "y", "", "", true, depthwise },
    { QG_PREDICATE_GROUPED, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) group=1; output y" },
    { QG_PREDICATE_GROUPED, 0, "", "y", "", "", false, conv },
    { QG_PREDICATE_FLATTENED, 0, "", "y", "", "", true,
      "opset 12; x = input f32[1,2,5,5]; y = Softmax(x); output y" },
    { QG_PREDICATE_FLATTENED, 0, "", "y", "", "", false,
      "opset 12; x = input f32[1,2,5,5]; y = Softmax(x) axis=3; output y" },
    { QG_PREDICATE_FLATTENED, 0, "", "y", "", "", false,
      "opset 12; x = input f32[1,2,5,5]; y = Softmax(x) axis=-1; output y" },
    { QG_PREDICATE_FLATTENED, 0, "", "y", "", "", true,
      "opset 12; x = input f32[1,2,5,5]; y = Softmax(x) axis=-2; output y" },
    { QG_PREDICATE_FLATTENED, 0, "", "y", "", "", true,
      "opset 12; x = input f32[1,2,5,5]; y = Softmax(x) axis=2; output y" },
    { QG_PREDICATE_FLATTENED, 0, "", "y", "", "", false,
      "opset 13; x = input f32[1,2,5,5]; y = Softmax(x) axis=1; output y" },
    { QG_PREDICATE_STRIDE_BEYOND_KERNEL, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) strides=[4, 4]; output y" },
    { QG_PREDICATE_STRIDE_BEYOND_KERNEL, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) strides=[3, 3]; output y" },
    { QG_PREDICATE_STRIDE_BEYOND_KERNEL, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w) strides=[1, 4]; output y" },
    { QG_PREDICATE_STRIDE_BEYOND_KERNEL, 0, "", "y", "", "", false, conv },
    { QG_PREDICATE_STRIDE_BEYOND_KERNEL, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[2, 2] strides=[3, 1]; output y" },
    { QG_PREDICATE_STRIDE_BEYOND_KERNEL, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[2, 2] strides=[2, 2]; output y" },
    { QG_PREDICATE_STRIDE_BEYOND_KERNEL, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[2, 2] strides=[2, 3]; output y" },
    { QG_PREDICATE_PADS_WITH_ZERO, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p); output y" },
    { QG_PREDICATE_PADS_WITH_ZERO, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [0.0]; output y" },
    { QG_PREDICATE_PADS_WITH_ZERO, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [1.0]; output y" },
    { QG_PREDICATE_PADS_WITH_ZERO, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = input f32[]; output y" },
    { QG_PREDICATE_PADS_WITH_ZERO, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = Pad@2(x) pads=[0, 0, 1, 1, 0, 0, 1, 1] value=0.0; output y" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); z = Conv(y, w); output z" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); "
      "z = Conv(y, w) auto_pad=\"NOTSET\"; output z" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); "
      "z = Conv(y, w) auto_pad=\"VALID\"; output z" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 1, 0, 0, 0, 0, 0, 0]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); z = Relu(y); output z" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, -1, 1, 0, 0, 1, 1]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); z = Conv(y, w); output z" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); z = Relu(y); output z" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); z = Conv(y, w); output z, y" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); z = Conv(y, w); u = Relu(y); "
      "output z, u" },
    { QG_PREDICATE_PADS_INTO, 0, "Conv", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [1, 0, 0, 0, 0, 0, 0, 0]; "
      "w = const f32[2,2,3,3] fill(1.0); y = Pad(x, p); "
      "v = const f32[2,2,3,3] fill(1.0); z = Conv(y, v); output z" },
    { QG_PREDICATE_SAME_DIMS, 0, "", "y", "", "", true, chain },
    { QG_PREDICATE_SAME_DIMS, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; s = const i64[1] [-1]; y = Reshape(x, s); "
      "output y" },
    { QG_PREDICATE_STEPS, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const i64[1] [0]; b = const i64[1] [4]; "
      "c = const i64[1] [2]; y = Slice(x, a, b, c); output y" },
    { QG_PREDICATE_STEPS, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const i64[1] [0]; b = const i64[1] [4]; "
      "c = const i64[1] [2]; d = const i64[1] [1]; y = Slice(x, a, b, c, d); "
      "output y" },
    { QG_PREDICATE_STEPS, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = const i64[1] [0]; b = const i64[1] [4]; "
      "c = const i64[1] [2]; d = const i64[1] [2]; y = Slice(x, a, b, c, d); "
      "output y" },
    { QG_PREDICATE_STEPS, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = const i64[1] [0]; b = const i64[1] [4]; "
      "c = const i64[1] [2]; d = input i64[1]; y = Slice(x, a, b, c, d); output y" },
    { QG_PREDICATE_EQUAL_PARTS, 2, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,4,5]; s = const i64[2] [2, 2]; "
      "y, z = Split(x, s) axis=2; output y, z" },
    { QG_PREDICATE_EQUAL_PARTS, 1, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,4,5]; s = const i64[2] [2, 2]; "
      "y, z = Split(x, s) axis=2; output y, z" },
    { QG_PREDICATE_EQUAL_PARTS, 2, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,4,5]; s = const i64[2] [1, 3]; "
      "y, z = Split(x, s) axis=2; output y, z" },
    { QG_PREDICATE_AFTER, 0, "Gemm Conv", "z", "", "", true, conv_relu },
    { QG_PREDICATE_AFTER, 0, "Gemm", "z", "", "", false, conv_relu },
    { QG_PREDICATE_AFTER, 0, "Conv", "z", "", "", false, conv_output },
    { QG_PREDICATE_AFTER, 0, "Conv", "z", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); u = Neg(y); z = Relu(y); output z, u" },
    { QG_PREDICATE_AFTER, 0, "Conv", "a", "", "", false, chain },
    { QG_PREDICATE_AFTER_CLAMP, 0, "Conv", "z", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); a = Relu(y); z = Neg(a); output z" },
    { QG_PREDICATE_AFTER_CLAMP, 0, "Conv", "z", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); a = Sigmoid(y); z = Neg(a); output z" },
    { QG_PREDICATE_AFTER_CLAMP, 0, "Gemm", "z", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); a = Relu(y); z = Neg(a); output z" },
    { QG_PREDICATE_AFTER_CLAMP, 0, "Conv", "z", "", "", false, conv_relu },
    { QG_PREDICATE_READ_ONCE, 0, "", "y", "", "", true, conv_relu },
    { QG_PREDICATE_READ_ONCE, 0, "", "y", "", "", false, conv_output },
    { QG_PREDICATE_READ_ONCE, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); u = Neg(y); z = Relu(y); output z, u" },
    { QG_PREDICATE_READ_ONCE, 0, "", "z", "", "", false, conv_relu },
    { QG_PREDICATE_AFTER_FUSED, 0, "", "z", "y!F", "", true, conv_relu },
    { QG_PREDICATE_AFTER_FUSED, 0, "", "z", "y!B", "", false, conv_relu },
    { QG_PREDICATE_AFTER_FUSED, 0, "", "z", "y!F", "", false, conv_output },
    { QG_PREDICATE_BEHIND, 0, "Conv", "z", "", "", true, sum_of_conv },
    { QG_PREDICATE_BEHIND, 0, "Gemm", "z", "", "", false, sum_of_conv },
    { QG_PREDICATE_BEHIND, 0, "Gemm", "z", "y!F", "", true, sum_of_conv },
    { QG_PREDICATE_BEHIND, 0, "Conv", "z", "z.i1=u0.5/0", "", false, sum_of_conv },
    { QG_PREDICATE_CONSTANT_OPERAND, 0, "", "y", "", "", true, add_constant },
    { QG_PREDICATE_CONSTANT_OPERAND, 0, "", "y", "", "", false, chain },
    { QG_PREDICATE_CONSTANT_OPERAND, 0, "", "b", "", "", true, chain },
    { QG_PREDICATE_CONSTANT_ALONG, -1, "", "y", "", "", true, add_constant },
    { QG_PREDICATE_CONSTANT_ALONG, 3, "", "y", "", "", true, add_constant },
    { QG_PREDICATE_CONSTANT_ALONG, 2, "", "y", "", "", false, add_constant },
    { QG_PREDICATE_CONSTANT_ALONG, -1, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; k = const f32[1] fill(1.0); y = Add(x, k); "
      "output y" },
    { QG_PREDICATE_CONSTANT_ALONG, -1, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; k = const f32[5,1] fill(1.0); "
      "y = Add(x, k); output y" },
    { QG_PREDICATE_CONSTANT_ALONG, 2, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; k = const f32[5,1] fill(1.0); "
      "y = Add(x, k); output y" },
    { QG_PREDICATE_CONSTANT_ALONG, 1, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; k = const f32[2,1,1] fill(1.0); "
      "y = Add(x, k); output y" },
    { QG_PREDICATE_CONSTANT_ALONG, 1, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; k = const f32[2,1,5] fill(1.0); "
      "y = Add(x, k); output y" },
    { QG_PREDICATE_CONSTANT_ALONG, 1, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; k = const f32[] fill(1.0); y = Add(x, k); "
      "output y" },
    { QG_PREDICATE_CONSTANT_ALONG, 1, "", "y", "", "", false, chain },
    { QG_PREDICATE_CONSTANT_ALONG, 1, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; y = Add(x, x); output y" },
    { QG_PREDICATE_GATED, 0, "", "y", "", "", true, gated },
    { QG_PREDICATE_GATED, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); y = Mul(s, a); "
      "output y" },
    { QG_PREDICATE_GATED, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); y = Mul(a, a); "
      "z = Neg(s); output y, z" },
    { QG_PREDICATE_GATED, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); y = Mul(a, s); "
      "z = Neg(s); output y, z" },
    { QG_PREDICATE_GATED, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); y = Mul(a, s); "
      "output y, s" },
    { QG_PREDICATE_GATED, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); b = Add(s, k); "
      "k = const f32[1] [3.0]; y = Mul(a, b); output y" },
    { QG_PREDICATE_GATED, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); "
      "k = const f32[1] [3.0]; y = Mul(s, k); output y" },
    { QG_PREDICATE_GATES, 0, "Mul", "s", "", "", true, gated },
    { QG_PREDICATE_GATES, 0, "Add", "s", "", "", false, gated },
    { QG_PREDICATE_GATES, 0, "Mul", "s", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); y = Mul(a, s); "
      "output y, s" },
    { QG_PREDICATE_GATES, 0, "Neg", "s", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); s = Sigmoid(a); y = Neg(s); "
      "output y" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", true,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", true,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[1,5] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", true,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[3,1] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", true,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[3,5] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[1] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[1,1] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Sub", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", true,
      "opset 17; x = input f32[2,3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", false,
      "opset 17; x = input f32[2,3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[1,5] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z, y" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", false,
      "opset 17; x = input f32[2,3,4]; w = const f32[2,4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = MatMul(x, w); z = Add(y, b); output z" },
    { QG_PREDICATE_BECOMES_GEMM, 0, "Add", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = MatMul(x, w); z = Add(y, b); u = Neg(y); "
      "output z, u" },
    { QG_PREDICATE_SUMS_KERNEL, 0, "Conv", "z", "", "", false, conv_sum },
    { QG_PREDICATE_SUMS_KERNEL, 0, "Conv", "z", "z.i0=u0.5/0", "", true, conv_sum },
    { QG_PREDICATE_SUMS_KERNEL, 0, "Gemm", "z", "z.i0=u0.5/0", "", false, conv_sum },
    { QG_PREDICATE_SUMS_KERNEL, 0, "Conv", "z", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); u = Conv(x, w); z = Add(y, u); output z" },
    { QG_PREDICATE_SUMS_KERNEL, 0, "Conv", "z", "z.i0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); u = const f32[1] [2.0]; z = Add(y, u); output z" },
    { QG_PREDICATE_SUMS_KERNEL, 0, "Conv", "z", "z.i0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); u = input f32[1,2,3,3]; z = Add(y, u); output z, y" },
    { QG_PREDICATE_INPUT_CODES, 0, "", "y", "y.i0=u0.5/3 y.i1=u0.5/3", "", true,
      two_inputs },
    { QG_PREDICATE_INPUT_CODES, 0, "", "y", "y.i0=u0.5/3", "", false, two_inputs },
    { QG_PREDICATE_INPUT_CODES, 0, "", "y", "y.i1=u0.5/3", "", false, two_inputs },
    { QG_PREDICATE_INPUT_CODES, 0, "", "y", "", "", false, two_inputs },
    { QG_PREDICATE_SOME_CODES, 0, "", "y", "y.i1=u0.5/3", "", true, two_inputs },
    { QG_PREDICATE_SOME_CODES, 0, "", "y", "y.i0=u0.5/3", "", true, two_inputs },
    { QG_PREDICATE_SOME_CODES, 0, "", "y", "", "", false, two_inputs },
    { QG_PREDICATE_SAME_INPUTS, 0, "", "y", "y.i0=u0.5/3 y.i1=u0.5/3", "", true,
      two_inputs },
    { QG_PREDICATE_SAME_INPUTS, 0, "", "y", "y.i0=u0.5/3 y.i1=u0.25/3", "", false,
      two_inputs },
    { QG_PREDICATE_SAME_INPUTS, 0, "", "y", "y.i0=u0.5/3 y.i1=u0.5/4", "", false,
      two_inputs },
    { QG_PREDICATE_SAME_INPUTS, 0, "", "y", "y.i0=u0.5/3", "", false, two_inputs },
    { QG_PREDICATE_SAME_INPUTS, 0, "", "y", "", "", false, two_inputs },
    { QG_PREDICATE_SAME_INPUTS, 0, "", "y", "y.i0=u0.5/3 y.i1=s0.5/3", "", false,
      two_inputs },
    { QG_PREDICATE_SAME_GRID, 0, "", "y", "y.i0=u0.5/3 y.i1=u0.5/3 y.o0=u0.5/3",
      "", true,
      two_inputs },
    { QG_PREDICATE_SAME_GRID, 0, "", "y", "y.i0=u0.5/3 y.i1=u0.5/3 y.o0=u0.25/3",
      "", false,
      two_inputs },
    { QG_PREDICATE_SAME_GRID, 0, "", "y", "y.i0=u0.5/3 y.i1=u0.5/3", "", false,
      two_inputs },
    { QG_PREDICATE_SAME_GRID, 0, "", "y", "y.i0=u0.5/3 y.o0=u0.5/3", "", false,
      two_inputs },
    { QG_PREDICATE_OUTPUT_CODES, 0, "", "y", "y.o0=u0.5/3", "", true, two_inputs },
    { QG_PREDICATE_OUTPUT_CODES, 0, "", "y", "", "", false, two_inputs },
    { QG_PREDICATE_OUTPUT_ROUNDED, 0, "", "y", "y.o0=u0.5/3", "", true, two_inputs },
    { QG_PREDICATE_OUTPUT_ROUNDED, 0, "", "y", "y.i0=u0.5/3 y.i1=u0.5/3", "", false,
      two_inputs },
    { QG_PREDICATE_OUTPUT_FLOAT, 0, "", "y", "y.o0=u0.5/3", "", false, two_inputs },
    { QG_PREDICATE_OUTPUT_FLOAT, 0, "", "y", "", "", true, two_inputs },
    { QG_PREDICATE_OUTPUT_FLOAT, 0, "", "a", "y.i0=u0.5/3", "", false, chain },
    { QG_PREDICATE_OUTPUT_FLOAT, 0, "", "a", "", "", true, chain },
    { QG_PREDICATE_WEIGHT_CODES, 0, "", "y", "y.i1=s0.5/0", "", true, conv },
    { QG_PREDICATE_WEIGHT_CODES, 0, "", "y", "y.i0=s0.5/0", "", false, conv },
    { QG_PREDICATE_WEIGHT_CODES, 0, "", "y", "", "", false, chain },
    { QG_PREDICATE_WEIGHT_CONSTANT, 0, "", "y", "", "", true, conv },
    { QG_PREDICATE_WEIGHT_CONSTANT, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = input f32[2,2,3,3]; y = Conv(x, w); "
      "output y" },
    { QG_PREDICATE_WEIGHT_SYMMETRIC, 0, "", "y", "y.i1=s0.5/0", "", true, conv },
    { QG_PREDICATE_WEIGHT_SYMMETRIC, 0, "", "y", "y.i1=u0.5/3", "", false, conv },
    { QG_PREDICATE_WEIGHT_SYMMETRIC, 0, "", "y", "", "", false, conv },
    { QG_PREDICATE_BIAS_ABSENT, 0, "", "y", "", "", true, conv },
    { QG_PREDICATE_BIAS_ABSENT, 0, "", "y", "", "", false, dense },
    { QG_PREDICATE_BIAS_ABSENT, 0, "", "y", "", "", true,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = Gemm(x, w); output y" },
    { QG_PREDICATE_BIAS_ABSENT, 0, "", "y", "", "", true, chain },
    { QG_PREDICATE_BIAS_VECTOR, 0, "", "y", "", "", true, dense },
    { QG_PREDICATE_BIAS_VECTOR, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[1,5] fill(1.0); y = Gemm(x, w, b); output y" },
    { QG_PREDICATE_BIAS_VECTOR, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[5] fill(1.0); y = Gemm(x, w); output y" },
    { QG_PREDICATE_BIAS_VECTOR, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "b = const f32[1] fill(1.0); y = Gemm(x, w, b); output y" },
    { QG_PREDICATE_READ_BY, 0, "Neg Relu", "a", "", "", true, chain },
    { QG_PREDICATE_READ_BY, 0, "Neg", "a", "", "", false, chain },
    { QG_PREDICATE_READ_BY, 0, "Relu", "y", "", "", false, chain },
    { QG_PREDICATE_READER_CODES, 0, "", "a", "y.i0=u0.5/0", "", true, chain },
    { QG_PREDICATE_READER_CODES, 0, "", "a", "", "", false, chain },
    { QG_PREDICATE_READER_CODES, 0, "", "y", "", "", false, chain },
    { QG_PREDICATE_RESIDUAL_FLOAT, 0, "", "z", "", "", true, conv_sum },
    { QG_PREDICATE_RESIDUAL_FLOAT, 0, "", "z", "z.i1=u0.5/0", "", false, conv_sum },
    { QG_PREDICATE_RESIDUAL_FLOAT, 0, "", "z", "z.i0=u0.5/0", "", false, conv_sum },
    { QG_PREDICATE_RESIDUAL_FLOAT, 0, "", "z", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = Conv(x, w); u = Conv(x, w); z = Add(y, u); output z" },
    { QG_PREDICATE_RESIDUAL_FLOAT, 0, "", "y", "", "", false, two_inputs },
    { QG_PREDICATE_CENTERS, 0, "", "m", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); m = ReduceMean(a); "
      "y = Sub(a, m); output y" },
    { QG_PREDICATE_CENTERS, 0, "", "m", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); m = ReduceMean(a); "
      "y = Sub(m, a); output y" },
    { QG_PREDICATE_CENTERS, 0, "", "m", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); m = ReduceMean(a); "
      "y = Sub(x, m); output y" },
    { QG_PREDICATE_CENTERS, 0, "", "m", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); m = ReduceMean(a); "
      "y = Sub(a, m); output y, m" },
    { QG_PREDICATE_CENTERS, 0, "", "m", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); m = ReduceMean(a); y = Neg(m); "
      "output y" },
    { QG_PREDICATE_CENTERS, 0, "", "m", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); m = ReduceMean(a); "
      "y = Sub(a, m); z = Sub(x, m); output y, z" },
    { QG_PREDICATE_CENTERS, 0, "", "m", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = Relu(x); m = ReduceMean(a); y = Neg(a); "
      "output y, m" },
    { QG_PREDICATE_INPUT_OFFSET, 0, "", "y", "y.i0=u0.5/0", "", false, two_inputs },
    { QG_PREDICATE_INPUT_OFFSET, 0, "", "y", "y.i0=u0.5/3", "", true, two_inputs },
    { QG_PREDICATE_INPUT_OFFSET, 0, "", "y", "y.i0=s0.5/0", "", true, two_inputs },
    { QG_PREDICATE_INPUT_OFFSET, 0, "", "y", "y.i0=s0.5/-128", "", false, two_inputs },
    { QG_PREDICATE_INPUT_OFFSET, 0, "", "y", "", "", false, two_inputs },
    { QG_PREDICATE_RANK, 4, "", "y", "", "", true, two_inputs },
    { QG_PREDICATE_RANK, 3, "", "y", "", "", false, two_inputs },
    { QG_PREDICATE_OPSET_ABOVE, 16, "", "y", "", "", true, two_inputs },
    { QG_PREDICATE_OPSET_ABOVE, 17, "", "y", "", "", false, two_inputs },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "y.o0=u0.5/0", "", true, one_relu },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "y.o0=s0.5/0", "", false, one_relu },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "y.o0=s0.5/-128", "", true, one_relu },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "y.o0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.0]; "
      "b = const f32[] [6.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "y.o0=u0.5/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.0]; "
      "b = const f32[] [127.5]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "y.o0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.0]; "
      "b = const f32[] [127.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "y.o0=u0.5/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [-3.0]; "
      "b = const f32[] [200.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "y.o0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.5]; "
      "b = const f32[] [127.5]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_IN_GRID, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.0]; "
      "b = const f32[] [127.5]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_APART, 0, "", "y", "y.o0=s0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.0]; "
      "b = const f32[] [6.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_APART, 0, "", "y", "y.o0=s0.5/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.0]; "
      "b = const f32[] [5.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_APART, 0, "", "y", "y.o0=s0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [-1.0]; "
      "b = const f32[] [1.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_APART, 0, "", "y", "y.o0=s0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.0]; "
      "b = const f32[] [500.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_APART, 0, "", "y", "y.o0=s0.5/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [-2.0]; "
      "b = const f32[] [1.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_CLAMP_APART, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; a = const f32[] [0.0]; "
      "b = const f32[] [5.0]; y = Clip(x, a, b); output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "y.o0=u0.5/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [0.25]; output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "y.o0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [1.0]; output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "y.o0=u0.5/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [-1.0]; output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "y.o0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [127.5]; output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "y.o0=u0.5/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [128.0]; output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "y.o0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [0.0004]; output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "y.o0=u0.5/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [0.001]; output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "y.o0=u0.5/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p); output y" },
    { QG_PREDICATE_PAD_OFF_GRID, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "y = Pad(x, p, v); v = const f32[] [0.25]; output y" },
    { QG_PREDICATE_ROUNDS, 0, "", "y", "y.i0=u0.5/3", "i0", true, two_inputs },
    { QG_PREDICATE_CONSTANT, 0, "", "y", "y.i1=s0.5/0", "i1", true, conv },
    { QG_PREDICATE_CONSTANT, 0, "", "y", "y.i0=s0.5/0", "i0", false, conv },
    { QG_PREDICATE_PER_CHANNEL, 0, "", "y", "y.i0=u0.5/3", "i0", false, two_inputs },
    { QG_PREDICATE_ZERO_POINT, 0, "", "y", "y.i0=u0.5/3", "i0", true, two_inputs },
    { QG_PREDICATE_ZERO_POINT, 0, "", "y", "y.i0=u0.5/0", "i0", false, two_inputs },
    { QG_PREDICATE_ONE_SCALE, 0, "", "y", "y.i1=s0.5/0", "i1", true, conv },
    { QG_PREDICATE_ONE_SCALE, 0, "", "y", "y.i0=s0.5/0", "i0", false, conv },
    { QG_PREDICATE_ONE_SCALE, 0, "", "y", "y.i1=s0.5/0", "i1", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[1,2,3,3] fill(1.0); "
      "y = Conv(x, w); output y" },
    { QG_PREDICATE_BITS_ABOVE, 7, "", "y", "y.i0=u0.5/3", "i0", true, two_inputs },
    { QG_PREDICATE_BITS_ABOVE, 8, "", "y", "y.i0=u0.5/3", "i0", false, two_inputs },
    { QG_PREDICATE_CODES_BELOW, -127, "", "y", "y.i0=s0.5/0", "i0", true, two_inputs },
    { QG_PREDICATE_CODES_BELOW, -128, "", "y", "y.i0=s0.5/0", "i0", false, two_inputs },
    { QG_PREDICATE_CODES_ABOVE, 254, "", "y", "y.i0=u0.5/3", "i0", true, two_inputs },
    { QG_PREDICATE_CODES_ABOVE, 255, "", "y", "y.i0=u0.5/3", "i0", false, two_inputs },
    { QG_PREDICATE_PADS_INTO, 0, "Relu", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = input i64[8]; y = Pad(x, p); "
      "z = Relu(y); output z" },
    { QG_PREDICATE_CONSTANT_ALONG, 0, "", "y", "", "", true,
      "opset 17; x = input f32[3,2]; k = const f32[3,1] fill(1.0); y = Add(x, k); "
      "output y" },
    { QG_PREDICATE_DATA, 0, "", "y", "", "", true, one_relu },
    { QG_PREDICATE_DATA, 0, "", "b", "", "", false, chain },
    { QG_PREDICATE_DATA, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3]; y = Shape(x); output y" },
    { QG_PREDICATE_DATA, 0, "", "y", "", "", false,
      "opset 17; x = input i64[3]; y = Neg(x); output y" },
    { QG_PREDICATE_DATA, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3]; y = Relu(x); z = Neg(x); output z" },
    { QG_PREDICATE_OPERATOR, 0, "Neg Relu", "y", "", "", true, one_relu },
    { QG_PREDICATE_OPERATOR, 0, "Neg", "y", "", "", false, one_relu },
    { QG_PREDICATE_FATE, 0, "none fused", "y", "y!F", "", true, one_relu },
    { QG_PREDICATE_FATE, 0, "blocked none", "y", "y!F", "", false, one_relu },
    { QG_PREDICATE_QUANTIZED, 0, "", "y", "", "", false, one_relu },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", true, conv },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", false, dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i2=s0.5/0", "", false, dense },
    { QG_PREDICATE_FLOAT16, 0, "", "y", "", "", false, one_relu },
};
/* clang-format on */

static void words_hold_where_they_are_meant(void **state)
{
    lint_rows_hold(*state, rows, sizeof rows / sizeof *rows);
}

QG_TEST_MAIN(cmocka_unit_test_setup_teardown(words_hold_where_they_are_meant, begin,
                                             end))
