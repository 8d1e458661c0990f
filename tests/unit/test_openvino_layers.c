/* formats/openvino, the layers of single nodes: types, attributes, constants and dims
 * as OpenVINO's operation specifications define them, and the words of refusals; the
 * files of one network. */
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <sys/stat.h>

#include "engine/core/file.h"
#include "engine/formats/formats.h"
#include "engine/formats/openvino/network.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

/* A network whose output is y, and its layers; without layers it is refused. */
typedef struct row {
    const char *lines, *layers, *why;
} row;

/* clang-format off */
#define X(opset, dims) "  opset " #opset "\n  x = input f32[" dims "]\n"
#define NUMPY "{auto_broadcast=\"numpy\"} "
#define PLAIN "{special_zero=\"false\"} "
#define WINDOW(stride, dilation, begin, end) \
    "strides=\"" stride "\" dilations=\"" dilation "\" pads_begin=\"" begin \
    "\" pads_end=\"" end "\" auto_pad=\"explicit\""
#define POOL(stride, begin, end, how, kernel, more)                                    \
    "{strides=\"" stride "\" pads_begin=\"" begin "\" pads_end=\"" end "\" "           \
    "auto_pad=\"" how "\" kernel=\"" kernel "\" rounding_type=\"floor\" " more "} "
#define MVN(eps) \
    "{eps=\"" eps "\" normalize_variance=\"true\" eps_mode=\"INSIDE_SQRT\"} "
#define RESIZE(mode, by, where, how)                                                   \
    "mode=\"" mode "\" shape_calculation_mode=\"" by "\" "                             \
    "coordinate_transformation_mode=\"" where "\" nearest_mode=\"" how "\" "           \
    "antialias=\"false\" pads_begin=\"0\" pads_end=\"0\" cube_coeff=\"-0.75\""
#define REPEATED(name)                                                                 \
    "y/" name "/repeated_0/reshaped Reshape-1 " PLAIN "(k, [1,2,1,3,2]) -> "           \
    "1x2x1x3x2\ny/" name " Broadcast-3 {mode=\"bidirectional\"} "                      \
    "(y/" name "/repeated_0/reshaped, [1,2,2,3,2]) -> 1x2x2x3x2\n"                     \
    "y/" name "/repeated_2/reshaped Reshape-1 " PLAIN "(y/" name ", [1,4,3,2]) -> "    \
    "1x4x3x2\n"
#define HEADS(name)                                                                    \
    "y/" name "_heads/reshaped Reshape-1 " PLAIN "(x, [1,3,4,2]) -> 1x3x4x2\n"         \
    "y/" name " Transpose-1 (y/" name "_heads/reshaped, [0,2,1,3]) -> 1x4x3x2\n"
#define CELLS(opset, rows_w, rows_r, hidden)                                           \
    X(opset, "3,2,4") "  w = const f32[1," rows_w ",4] seed(1)\n"                      \
    "  r = const f32[1," rows_r "," hidden "] seed(2)\n"
#define SEQUENCE(hidden)                                                               \
    "n/X Transpose-1 (x, [1,0,2]) -> 2x3x4\n"                                          \
    "n/initial_h Broadcast-3 {mode=\"numpy\"} ([0], [2,1," hidden "]) -> 2x1x" hidden  \
    "\n"
#define CELL(hidden, direction, functions, clip, more)                                 \
    "hidden_size=\"" hidden "\" direction=\"" direction "\" activations=\"" functions  \
    "\" activations_alpha=\"\" activations_beta=\"\" clip=\"" clip "\"" more
static const row rows[] = {
    { X(13, "2,3") "  y = Transpose y (x)\n", "y Transpose-1 (x, [1,0]) -> 3x2\n",
      NULL },
    { X(13, "2,3,4") "  y = Transpose y (x) perm=[1, 0, 2]\n",
      "y Transpose-1 (x, [1,0,2]) -> 3x2x4\n", NULL },
    { X(13, "2,3") "  y = Sum y (x)\n", "y Reshape-1 " PLAIN "(x, [2,3]) -> 2x3\n",
      NULL },
    { X(13, "2,3") "  a = input f32[1,3]\n  b = input f32[3]\n  y = Sum y (x, a, b)\n",
      "y/partial Add-1 " NUMPY "(x, a) -> 2x3\ny Add-1 " NUMPY
      "(y/partial, b) -> 2x3\n",
      NULL },
    { X(13, "1,3") "  a = input f32[2,3]\n  b = input f32[3]\n"
      "  y = Sum y (x, a, b)\n", NULL,
      "more than two operands that broadcast" },
    { X(13, "2,3") "  a = input f32[4,3]\n  y = Concat y (x, a) axis=0\n",
      "y Concat-1 {axis=\"0\"} (x, a) -> 6x3\n", NULL },
    { X(13, "2,3") "  a = input f32[2,1]\n  y = Concat y (x, a) axis=-1\n",
      "y Concat-1 {axis=\"1\"} (x, a) -> 2x4\n", NULL },
    { X(13, "2,3,4") "  y = Softmax y (x)\n",
      "y SoftMax-8 {axis=\"2\"} (x) -> 2x3x4\n", NULL },
    { X(12, "2,3,1") "  y = Softmax y (x)\n",
      "y SoftMax-8 {axis=\"1\"} (x) -> 2x3x1\n", NULL },
    { X(12, "2,3,4") "  y = Softmax y (x)\n", NULL, "it flattens dims after its axis" },
    { X(13, "2,3") "  l = const f32[] [-1.0]\n  h = const f32[] [6.5]\n"
      "  y = Clip y (x, l, h)\n",
      "y Clamp-1 {min=\"-1.0\" max=\"6.5\"} (x) -> 2x3\n", NULL },
    { X(13, "2,3") "  l = const f32[] [0.0]\n  y = Clip y (x, l)\n",
      "y Clamp-1 {min=\"0.0\" max=\"3.4028235e38\"} (x) -> 2x3\n", NULL },
    { X(13, "2,3") "  h = const f32[] [0.0]\n  y = Clip y (x, _, h)\n",
      "y Clamp-1 {min=\"-3.4028235e38\" max=\"0.0\"} (x) -> 2x3\n", NULL },
    { X(13, "2,3") "  l = input f32[]\n  y = Clip y (x, l)\n", NULL,
      "its limits are computed, expected constants" },
    { X(13, "2,3") "  y = HardSigmoid y (x)\n",
      "y HardSigmoid-1 (x, [0.2], [0.5]) -> 2x3\n", NULL },
    { X(13, "2,3") "  y = HardSigmoid y (x) alpha=0.25 beta=0.75\n",
      "y HardSigmoid-1 (x, [0.25], [0.75]) -> 2x3\n", NULL },
    { X(13, "2,3") "  y = LeakyRelu y (x)\n",
      "y PReLU-1 (x, [0.0099999998]) -> 2x3\n", NULL },
    { X(13, "2,3") "  s = const f32[3,1] [1.0, 2.0, 3.0]\n  z = input f32[2,3,5]\n"
      "  y = PRelu y (z, s)\n",
      "y/slope/reshaped Reshape-1 " PLAIN "([1,2,3], [3]) -> 3\n"
      "y PReLU-1 (z, y/slope/reshaped) -> 2x3x5\n", NULL },
    { X(13, "2,3") "  s = const f32[1] [0.5]\n  y = PRelu y (x, s)\n",
      "y/slope/reshaped Reshape-1 " PLAIN "([0.5], [1]) -> 1\n"
      "y PReLU-1 (x, y/slope/reshaped) -> 2x3\n", NULL },
    { X(13, "3") "  s = const f32[3] [1.0, 2.0, 3.0]\n  y = PRelu y (x, s)\n", NULL,
      "3 slopes, expected one or one per channel" },
    { X(13, "2,3") "  s = const f32[2,1] [1.0, 2.0]\n  y = PRelu y (x, s)\n", NULL,
      "2 slopes, expected one or one per channel" },
    { X(20, "2,3") "  y = Gelu y (x)\n",
      "y Gelu-7 {approximation_mode=\"ERF\"} (x) -> 2x3\n", NULL },
    { X(20, "2,3") "  y = Gelu y (x) approximate=\"tanh\"\n",
      "y Gelu-7 {approximation_mode=\"TANH\"} (x) -> 2x3\n", NULL },
    { X(13, "2,3") "  y = Elu y (x) alpha=0.5\n",
      "y Elu-1 {alpha=\"0.5\"} (x) -> 2x3\n",
      NULL },
    { X(13, "2,3") "  z = Cast z (x) to=6\n  y = Cast y (z) to=1\n",
      "z Convert-1 {destination_type=\"i32\"} (x) -> 2x3\n"
      "y Convert-1 {destination_type=\"f32\"} (z) -> 2x3\n", NULL },
    { X(13, "2,3") "  z = Cast z (x) to=12\n  y = Cast y (z) to=1\n", NULL,
      "to uint32, expected a type of OpenVINO IR" },
    { X(13, "2,1") "  d = const i64[2] [1, 3]\n  y = Expand y (x, d)\n",
      "y Broadcast-3 {mode=\"bidirectional\"} (x, [2,3]) -> 2x3\n", NULL },
    /* Reductions: all axes, or none. */
    { X(13, "2,3,4") "  y = ReduceMean y (x) axes=[-1]\n",
      "y ReduceMean-1 {keep_dims=\"true\"} (x, [-1]) -> 2x3x1\n", NULL },
    { X(18, "2,3,4") "  a = const i64[2] [0, 2]\n  y = ReduceMax y (x, a) keepdims=0\n",
      "y ReduceMax-1 {keep_dims=\"false\"} (x, [0,2]) -> 3\n", NULL },
    { X(18, "2,3,4") "  y = ReduceL2 y (x)\n",
      "y ReduceL2-4 {keep_dims=\"true\"} (x, [0,1,2]) -> 1x1x1\n", NULL },
    { X(18, "2,3,4") "  y = ReduceSum y (x) noop_with_empty_axes=1\n",
      "y Reshape-1 " PLAIN "(x, [2,3,4]) -> 2x3x4\n", NULL },
    { X(18, "2,3,4") "  y = ReduceL1 y (x) noop_with_empty_axes=1\n", NULL,
      "noop_with_empty_axes and no axes, expected axes" },
    { X(13, "2,3,4,5") "  y = GlobalMaxPool y (x)\n",
      "y ReduceMax-1 {keep_dims=\"true\"} (x, [2,3]) -> 2x3x1x1\n", NULL },
    { X(13, "2,3,4") "  y = GlobalAveragePool y (x)\n",
      "y ReduceMean-1 {keep_dims=\"true\"} (x, [2]) -> 2x3x1\n", NULL },
    /* alpha and beta are products of their own. */
    { X(13, "2,3") "  a = input f32[3,4]\n  y = Gemm y (x, a)\n",
      "y MatMul-1 {transpose_a=\"false\" transpose_b=\"false\"} (x, a) -> 2x4\n",
      NULL },
    { X(13, "3,2") "  a = input f32[4,3]\n  y = Gemm y (x, a) transA=1 transB=1\n",
      "y MatMul-1 {transpose_a=\"true\" transpose_b=\"true\"} (x, a) -> 2x4\n", NULL },
    { X(13, "2,3") "  a = input f32[3,4]\n  y = Gemm y (x, a) alpha=2.0\n",
      "y/without_bias MatMul-1 {transpose_a=\"false\" transpose_b=\"false\"} (x, a) "
      "-> 2x4\n"
      "y/alpha/product Multiply-1 " NUMPY "(y/without_bias, [2]) -> 2x4\n"
      "y Add-1 " NUMPY "(y/alpha/product, [0]) -> 2x4\n", NULL },
    { X(13, "2,3") "  a = input f32[3,4]\n  b = input f32[4]\n"
      "  y = Gemm y (x, a, b) alpha=2.0 beta=3.0\n",
      "y/without_bias MatMul-1 {transpose_a=\"false\" transpose_b=\"false\"} (x, a) "
      "-> 2x4\n"
      "y/alpha/product Multiply-1 " NUMPY "(y/without_bias, [2]) -> 2x4\n"
      "y/beta/product Multiply-1 " NUMPY "(b, [3]) -> 4\n"
      "y Add-1 " NUMPY "(y/alpha/product, y/beta/product) -> 2x4\n", NULL },
    { X(13, "2,3") "  a = input f32[3,4]\n  b = input f32[4]\n  y = Gemm y (x, a, b)\n",
      "y/without_bias MatMul-1 {transpose_a=\"false\" transpose_b=\"false\"} (x, a) "
      "-> 2x4\n"
      "y Add-1 " NUMPY "(y/without_bias, b) -> 2x4\n", NULL },
    /* Lists that are left out. */
    { X(13, "4,5") "  a = const i64[2] [1, 0]\n  b = const i64[2] [3, 5]\n"
      "  y = Slice y (x, a, b)\n",
      "y Slice-8 (x, [1,0], [3,5], [1,1], [0,1]) -> 2x5\n", NULL },
    { X(13, "4,5") "  a = const i64[1] [1]\n  b = const i64[1] [4]\n"
      "  k = const i64[1] [1]\n  s = const i64[1] [2]\n  y = Slice y (x, a, b, k, s)\n",
      "y Slice-8 (x, [1], [4], [2], [1]) -> 4x2\n", NULL },
    { X(9, "4,5") "  y = Slice y (x) starts=[1] ends=[3] axes=[1]\n",
      "y Slice-8 (x, [1], [3], [1], [1]) -> 4x2\n", NULL },
    { X(13, "4,5") "  a = const i64[2] [2, 3]\n  z, y = Split s (x, a) axis=-1\n",
      "s VariadicSplit-1 (x, [1], [2,3]) -> 4x2 4x3\n", NULL },
    { X(13, "4,5") "  z, y = Split s (x)\n",
      "s VariadicSplit-1 (x, [0], [2,2]) -> 2x5 2x5\n", NULL },
    { X(13, "4,5") "  a = const i64[3] [0, 1, 1]\n  y = Gather y (x, a) axis=-1\n",
      "y Gather-8 {batch_dims=\"0\"} (x, [0,1,1], [1]) -> 4x3\n", NULL },
    { X(13, "1,8,2,3") "  y = DepthToSpace y (x) blocksize=2\n",
      "y DepthToSpace-1 {mode=\"blocks_first\" block_size=\"2\"} (x) -> 1x2x4x6\n",
      NULL },
    { X(13, "1,8,2,3") "  y = DepthToSpace y (x) blocksize=2 mode=\"CRD\"\n",
      "y DepthToSpace-1 {mode=\"depth_first\" block_size=\"2\"} (x) -> 1x2x4x6\n",
      NULL },
    { X(13, "4,5") "  a = const i64[4,2] [0, 1, 0, 1, 0, 1, 0, 1]\n"
      "  y = GatherElements y (x, a) axis=1\n",
      "y GatherElements-6 {axis=\"1\"} (x, [0,1,0,1,0,1,0,1]) -> 4x2\n", NULL },
    { X(13, "4,5") "  a = const i64[3,2] [0, 1, 0, 1, 0, 1]\n"
      "  y = GatherElements y (x, a) axis=1\n", NULL,
      "fewer indices than elements along axis 0" },
    { X(13, "2,3") "  y = Reciprocal y (x)\n", "y Divide-1 " NUMPY "([1], x) -> 2x3\n",
      NULL },
    { X(13, "2,3") "  p = const i64[4] [1, 2, 3, 4]\n  y = Pad y (x, p)\n",
      "y Pad-1 {pad_mode=\"constant\"} (x, [1,2], [3,4], [0]) -> 6x9\n", NULL },
    { X(13, "2,3") "  p = const i64[4] [1, 2, 0, 0]\n  v = const f32[] [7.0]\n"
      "  y = Pad y (x, p, v)\n",
      "y Pad-1 {pad_mode=\"constant\"} (x, [1,2], [0,0], [7]) -> 3x5\n", NULL },
    { X(9, "2,3") "  y = Pad y (x) pads=[1, 1, 1, 1] value=2.0 mode=\"edge\"\n",
      "y Pad-1 {pad_mode=\"edge\"} (x, [1,1], [1,1], [2]) -> 4x5\n", NULL },
    { X(19, "2,3") "  p = const i64[4] [1, 1, 1, 1]\n"
      "  y = Pad y (x, p) mode=\"wrap\"\n",
      NULL, "mode wrap with axes or 4 pads" },
    { X(18, "2,3") "  p = const i64[2] [1, 1]\n  a = const i64[1] [0]\n"
      "  y = Pad y (x, p, _, a)\n", NULL, "mode constant with axes or 2 pads" },
    /* Windows. */
    { X(13, "1,4,6,5") "  w = const f32[2,4,3,2] seed(1)\n"
      "  y = Conv y (x, w) strides=[2, 1] pads=[1, 0, 2, 3] dilations=[1, 2]\n",
      "y Convolution-1 {" WINDOW("2, 1", "1, 2", "1, 0", "2, 3")
      "} (x, float32[2,4,3,2]) -> 1x2x4x6\n", NULL },
    { X(13, "1,4,6,5") "  w = const f32[2,2,3,3] seed(1)\n"
      "  b = const f32[2] [1.0, 2.0]\n"
      "  y = Conv y (x, w, b) group=2\n",
      "y/weights/reshaped Reshape-1 " PLAIN
      "(float32[2,2,3,3], [2,1,2,3,3]) -> 2x1x2x3x3\n"
      "y/without_bias GroupConvolution-1 {" WINDOW("1, 1", "1, 1", "0, 0", "0, 0")
      "} (x, y/weights/reshaped) -> 1x2x4x3\n"
      "y/bias/reshaped Reshape-1 " PLAIN "([1,2], [1,2,1,1]) -> 1x2x1x1\n"
      "y Add-1 " NUMPY "(y/without_bias, y/bias/reshaped) -> 1x2x4x3\n", NULL },
    { X(13, "1,4,3") "  w = const f32[4,2,2] seed(1)\n"
      "  y = ConvTranspose y (x, w) strides=[2] output_padding=[1]\n",
      "y ConvolutionBackpropData-1 {" WINDOW("2", "1", "0", "0")
      " output_padding=\"1\"} (x, float32[4,2,2]) -> 1x2x7\n", NULL },
    { X(13, "1,2,6,5") "  y = MaxPool y (x) kernel_shape=[2, 2] strides=[2, 2] "
      "ceil_mode=1\n",
      "y MaxPool-1 " POOL("2, 2", "0, 0", "0, 1", "explicit", "2, 2", "")
      "(x) -> 1x2x3x3\n", NULL },
    { X(13, "1,2,6,5") "  y = MaxPool y (x) kernel_shape=[2, 2] "
      "auto_pad=\"SAME_LOWER\"\n",
      "y MaxPool-1 " POOL("1, 1", "0, 0", "0, 0", "same_lower", "2, 2", "")
      "(x) -> 1x2x6x5\n", NULL },
    { X(13, "1,2,6,5") "  y = AveragePool y (x) kernel_shape=[3, 1] pads=[1, 0, 1, "
      "0]\n",
      "y AvgPool-1 " POOL("1, 1", "1, 0", "1, 0", "explicit", "3, 1",
                          "exclude-pad=\"true\"") "(x) -> 1x2x6x5\n", NULL },
    { X(13, "1,2,6,5") "  y = AveragePool y (x) kernel_shape=[3, 1] pads=[1, 0, 1, 0] "
      "count_include_pad=1\n",
      "y AvgPool-1 " POOL("1, 1", "1, 0", "1, 0", "explicit", "3, 1",
                          "exclude-pad=\"false\"") "(x) -> 1x2x6x5\n", NULL },
    { X(13, "1,2,6,5") "  y = AveragePool y (x) kernel_shape=[2, 2] strides=[2, 2] "
      "ceil_mode=1 count_include_pad=1\n",
      "y AvgPool-1 " POOL("2, 2", "0, 0", "0, 1", "explicit", "2, 2",
                          "exclude-pad=\"true\"") "(x) -> 1x2x3x3\n", NULL },
    { X(13, "1,2,6,5") "  y = MaxPool y (x) kernel_shape=[2, 2] strides=[2, 2] "
      "ceil_mode=1 "
      "dilations=[1, 2]\n", NULL, "dilations, expected none" },
    { X(13, "1,2,6,5") "  y, z = MaxPool y (x) kernel_shape=[2, 2]\n  output z\n", NULL,
      "output 1 is read, expected the first only" },
    { X(13, "1,2,6,5") "  y, z = MaxPool y (x) kernel_shape=[2, 2]\n",
      "y MaxPool-1 " POOL("1, 1", "0, 0", "0, 0", "explicit", "2, 2", "") "(x) -> "
      "1x2x5x4\n", NULL },
    { X(13, "2,3") "  y, z = Dropout y (x)\n  output z\n", NULL,
      "node 'y' (Dropout): output 1 is read, expected the first only" },
    /* Normalizations. */
    { X(17, "2,3,4") "  g = const f32[3,4] seed(1)\n"
      "  y = LayerNormalization y (x, g) axis=1 epsilon=0.5\n",
      "y/normalized MVN-6 " MVN("0.5") "(x, [1,2]) -> 2x3x4\n"
      "y Multiply-1 " NUMPY "(y/normalized, float32[3,4]) -> 2x3x4\n", NULL },
    { X(17, "2,3,4") "  g = const f32[4] [1.0, 2.0, 3.0, 4.0]\n"
      "  b = const f32[4] [5.0, 6.0, 7.0, 8.0]\n  y = LayerNormalization y (x, g, b)\n",
      "y/normalized MVN-6 " MVN("0.00001") "(x, [2]) -> 2x3x4\n"
      "y/product Multiply-1 " NUMPY "(y/normalized, [1,2,3,4]) -> 2x3x4\n"
      "y Add-1 " NUMPY "(y/product, [5,6,7,8]) -> 2x3x4\n", NULL },
    { X(17, "2,3") "  g = const f32[2,3] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n"
      "  y = LayerNormalization y (x, g) axis=-2\n",
      "y/normalized MVN-6 " MVN("0.00001") "(x, [0,1]) -> 2x3\n"
      "y Multiply-1 " NUMPY "(y/normalized, [1,2,3,4,5,6]) -> 2x3\n",
      NULL },
    /* Behind boxes one extent is open. */
    { X(13, "1,3,4") "  s = input f32[1,2,3]\n  d = const i64[1] [-1]\n"
      "  b = NonMaxSuppression b (x, s)\n  y = Reshape y (b, d)\n",
      "b NonMaxSuppression-9 {box_encoding=\"corner\" output_type=\"i64\" "
      "sort_result_descending=\"false\"} (x, s, [0], [1.1754944e-38], "
      "[-3.4028235e+38]) -> -1x3 -1x3 1\ny Reshape-1 " PLAIN "(b, [-1]) -> -1\n",
      NULL },
    { X(17, "2,3,4") "  g = const f32[4] seed(1)\n"
      "  y, z = LayerNormalization y (x, g)\n  output z\n", NULL,
      "output 1 is read, expected the first only" },
    { X(23, "2,3,4") "  g = const f32[4] [1.0, 2.0, 3.0, 4.0]\n"
      "  y = RMSNormalization y (x, g) epsilon=0.25\n",
      "y/square Multiply-1 " NUMPY "(x, x) -> 2x3x4\n"
      "y/mean ReduceMean-1 {keep_dims=\"true\"} (y/square, [2]) -> 2x3x1\n"
      "y/sum Add-1 " NUMPY "(y/mean, [0.25]) -> 2x3x1\n"
      "y/root Sqrt-1 (y/sum) -> 2x3x1\ny/ratio Divide-1 " NUMPY "(x, y/root) -> 2x3x4\n"
      "y Multiply-1 " NUMPY "(y/ratio, [1,2,3,4]) -> 2x3x4\n", NULL },
    { X(17, "2,3,4,5") "  g = const f32[3] [1.0, 2.0, 3.0]\n  b = const f32[3] "
      "[4.0, 5.0, 6.0]\n  y = InstanceNormalization y (x, g, b)\n",
      "y/normalized MVN-6 " MVN("0.00001") "(x, [2,3]) -> 2x3x4x5\n"
      "y/gain/reshaped Reshape-1 " PLAIN "([1,2,3], [1,3,1,1]) -> 1x3x1x1\n"
      "y/shift/reshaped Reshape-1 " PLAIN "([4,5,6], [1,3,1,1]) -> 1x3x1x1\n"
      "y/product Multiply-1 " NUMPY "(y/normalized, y/gain/reshaped) -> 2x3x4x5\n"
      "y Add-1 " NUMPY "(y/product, y/shift/reshaped) -> 2x3x4x5\n", NULL },
    { X(18, "2,4,3") "  g = const f32[2] [1.0, 2.0]\n  b = const f32[2] [3.0, 4.0]\n"
      "  y = GroupNormalization y (x, g, b) num_groups=2\n",
      "y/grouped/reshaped Reshape-1 " PLAIN "(x, [2,2,6]) -> 2x2x6\n"
      "y/normalized MVN-6 " MVN("0.00001") "(y/grouped/reshaped, [2]) -> 2x2x6\n"
      "y/gain/reshaped Reshape-1 " PLAIN "([1,2], [1,2,1]) -> 1x2x1\n"
      "y/product Multiply-1 " NUMPY "(y/normalized, y/gain/reshaped) -> 2x2x6\n"
      "y/shift/reshaped Reshape-1 " PLAIN "([3,4], [1,2,1]) -> 1x2x1\n"
      "y/sum Add-1 " NUMPY "(y/product, y/shift/reshaped) -> 2x2x6\n"
      "y Reshape-1 " PLAIN "(y/sum, [2,4,3]) -> 2x4x3\n", NULL },
    /* Attention: what the layer would compute otherwise. */
    { X(23, "1,2,3,4") "  y = Attention y (x, x, x) softcap=1.0\n", NULL,
      "a softcap, expected none" },
    { X(23, "1,2,3,4") "  k = input f32[1,2,5,4]\n"
      "  y = Attention y (x, k, k) is_causal=1\n",
      NULL, "causal with a mask, or 3 queries and 5 keys" },
    { X(23, "1,2,3,4") "  m = const f32[3,3] seed(1)\n"
      "  y = Attention y (x, x, x, m) is_causal=1\n", NULL,
      "causal with a mask, or 3 queries and 3 keys" },
    { X(13, "2,2,2,2,2,2,2,2") "  p = const i64[16] [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
      "0, 0, "
      "0, 0, 0]\n  y = Pad y (x, p)\n",
      "y Pad-1 {pad_mode=\"constant\"} (x, [1,0,0,0,0,0,0,0], [0,0,0,0,0,0,0,0], [0]) "
      "-> "
      "3x2x2x2x2x2x2x2\n", NULL },
    { X(13, "1,2,6,5") "  y = MaxPool y (x) kernel_shape=[2, 2] dilations=[2, 2]\n",
      NULL,
      "dilations, expected none" },
    { X(13, "1,2,6,5") "  y = MaxPool y (x) kernel_shape=[2, 2] dilations=[1, 1] "
      "auto_pad=\"VALID\"\n",
      "y MaxPool-1 " POOL("1, 1", "0, 0", "0, 0", "explicit", "2, 2", "")
      "(x) -> 1x2x5x4\n", NULL },
    /* Resize: scales where there are some. */
    { X(13, "1,1,2,3") "  t = const i64[4] [1, 1, 4, 6]\n  y = Resize y (x, _, _, t)\n",
      "y Interpolate-11 {" RESIZE("nearest", "sizes", "half_pixel",
      "round_prefer_floor")
      "} (x, [1,1,4,6], [0,1,2,3]) -> 1x1x4x6\n", NULL },
    { X(13, "1,1,2,3") "  t = const f32[4] [1.0, 1.0, 2.0, 3.0]\n"
      "  y = Resize y (x, _, t) mode=\"linear\" "
      "coordinate_transformation_mode=\"align_corners\" nearest_mode=\"ceil\"\n",
      "y Interpolate-11 {" RESIZE("linear_onnx", "scales", "align_corners", "ceil")
      "} (x, [1,1,2,3], [0,1,2,3]) -> 1x1x4x9\n", NULL },
    { X(10, "1,1,2,3") "  t = const f32[4] [1.0, 1.0, 2.0, 3.0]\n"
      "  y = Resize y (x, t)\n",
      "y Interpolate-11 {" RESIZE("nearest", "scales", "asymmetric", "floor")
      "} (x, [1,1,2,3], [0,1,2,3]) -> 1x1x4x9\n", NULL },
    { X(18, "1,1,2,3") "  t = const i64[2] [4, 6]\n"
      "  y = Resize y (x, _, _, t) axes=[2, 3]\n",
      NULL, "half_pixel or axes, expected neither" },
    { X(19, "1,1,2,3") "  t = const i64[4] [1, 1, 4, 6]\n  y = Resize y (x, _, _, t) "
      "coordinate_transformation_mode=\"half_pixel_symmetric\"\n", NULL,
      "half_pixel_symmetric or axes, expected neither" },
    { X(18, "1,1,2,3") "  t = const i64[4] [1, 1, 1, 3]\n"
      "  y = Resize y (x, _, _, t) mode=\"linear\" antialias=1\n", NULL,
      "antialias of mode linear, expected 0" },
    /* Boxes: absent limits, and the next float behind the limit of overlap. */
    { X(11, "1,3,4") "  s = input f32[1,2,3]\n  y = NonMaxSuppression y (x, s)\n",
      "y NonMaxSuppression-9 {box_encoding=\"corner\" output_type=\"i64\" "
      "sort_result_descending=\"false\"} (x, s, [0], [1.1754944e-38], "
      "[-3.4028235e+38]) -> "
      "-1x3 -1x3 1\n", NULL },
    { X(11, "1,3,4") "  s = input f32[1,2,3]\n  m = const i64[] [2]\n"
      "  o = const f32[] [0.5]\n"
      "  t = const f32[] [0.25]\n  y = NonMaxSuppression y (x, s, m, o, t) "
      "center_point_box=1\n",
      "y NonMaxSuppression-9 {box_encoding=\"center\" output_type=\"i64\" "
      "sort_result_descending=\"false\"} (x, s, [2], [0.50000006], [0.25]) -> "
      "-1x3 -1x3 1\n", NULL },
    { X(11, "1,3,4") "  s = input f32[1,2,3]\n  o = input f32[]\n"
      "  y = NonMaxSuppression y (x, s, _, o)\n", NULL,
      "its limit of overlap is computed, expected a constant" },
    { X(13, "2,0") "  a = input f32[0,3]\n  y = MatMul y (x, a)\n", NULL,
      "a sum of no terms (float32[2,0]), expected some" },
    /* Attention: heads within the last axis, and heads that are shared. */
    { X(23, "1,2,3,4") "  y = Attention y (x, x, x)\n",
      "y ScaledDotProductAttention-13 {causal=\"false\"} (x, x, x) -> 1x2x3x4\n",
      NULL },
    { X(23, "1,2,3,4") "  y = Attention y (x, x, x) is_causal=1 scale=0.5\n",
      "y ScaledDotProductAttention-13 {causal=\"true\"} (x, x, x, [0], [0.5]) -> "
      "1x2x3x4\n",
      NULL },
    { X(23, "1,2,3,4") "  m = const f32[3,3] seed(1)\n"
      "  y = Attention y (x, x, x, m) scale=0.5\n",
      "y ScaledDotProductAttention-13 {causal=\"false\"} (x, x, x, float32[3,3], "
      "[0.5]) -> "
      "1x2x3x4\n", NULL },
    { X(23, "1,4,3,2") "  k = input f32[1,2,3,2]\n  v = input f32[1,1,3,2]\n"
      "  y = Attention y (x, k, k)\n",
      REPEATED("keys") REPEATED("values")
      "y ScaledDotProductAttention-13 {causal=\"false\"} (x, "
      "y/keys/repeated_2/reshaped, "
      "y/values/repeated_2/reshaped) -> 1x4x3x2\n", NULL },
    { X(23, "1,3,8") "  y = Attention y (x, x, x) q_num_heads=4 kv_num_heads=4\n",
      HEADS("query") HEADS("key") HEADS("value")
      "y/attention ScaledDotProductAttention-13 {causal=\"false\"} (y/query, y/key, "
      "y/value)"
      " -> 1x4x3x2\ny/joined Transpose-1 (y/attention, [0,2,1,3]) -> 1x3x4x2\n"
      "y Reshape-1 " PLAIN "(y/joined, [1,3,8]) -> 1x3x8\n", NULL },
    /* Sequences: batch first, gates of an LSTM in the order f, i, c, o. */
    { CELLS(13, "5", "5", "5") "  y = RNN n (x, w, r) hidden_size=5\n",
      SEQUENCE("5") "n/bias Broadcast-3 {mode=\"numpy\"} ([0], [1,5]) -> 1x5\n"
      "n RNNSequence-5 {" CELL("5", "forward", "tanh", "0.0", "")
      "} (n/X, n/initial_h, [3,3], "
      "float32[1,5,4], float32[1,5,5], n/bias) -> 2x1x3x5 2x1x5\n"
      "n/Y Transpose-1 (n, [2,1,0,3]) -> 3x1x2x5\n", NULL },
    { CELLS(13, "6", "6", "2") "  b = const f32[1,12] seed(3)\n"
      "  _, y = GRU n (x, w, r, b) hidden_size=2 linear_before_reset=1 clip=0.5\n",
      SEQUENCE("2") "n/bias_parts VariadicSplit-1 (float32[1,12], [1], [4,2,4,2]) -> "
      "1x4 1x2 1x4 1x2\nn/bias_sum Add-1 " NUMPY
      "(n/bias_parts, n/bias_parts.2) -> 1x4\n"
      "n/bias Concat-1 {axis=\"1\"} (n/bias_sum, n/bias_parts.1, n/bias_parts.3) -> "
      "1x8\n"
      "n GRUSequence-5 {" CELL("2", "forward", "sigmoid,tanh", "0.5",
                               " linear_before_reset=\"true\"")
      "} (n/X, n/initial_h, [3,3], "
      "float32[1,6,4], float32[1,6,2], n/bias) -> 2x1x3x2 2x1x2\n"
      "n/Y_h Transpose-1 (n.1, [1,0,2]) -> 1x2x2\n", NULL },
    { CELLS(13, "8", "8", "2") "  b = const f32[1,16] seed(3)\n"
      "  _, _, y = LSTM n (x, w, r, b) hidden_size=2\n",
      SEQUENCE("2") "n/initial_c Broadcast-3 {mode=\"numpy\"} ([0], [2,1,2]) -> 2x1x2\n"
      "n/W/gates VariadicSplit-1 (float32[1,8,4], [1], [2,2,2,2]) -> 1x2x4 1x2x4 "
      "1x2x4 1x2x4\n"
      "n/W Concat-1 {axis=\"1\"} (n/W/gates.2, n/W/gates, n/W/gates.3, n/W/gates.1) "
      "-> 1x8x4\n"
      "n/R/gates VariadicSplit-1 (float32[1,8,2], [1], [2,2,2,2]) -> 1x2x2 1x2x2 "
      "1x2x2 1x2x2\n"
      "n/R Concat-1 {axis=\"1\"} (n/R/gates.2, n/R/gates, n/R/gates.3, n/R/gates.1) "
      "-> 1x8x2\n"
      "n/bias_parts VariadicSplit-1 (float32[1,16], [1], [8,8]) -> 1x8 1x8\n"
      "n/bias_sum Add-1 " NUMPY "(n/bias_parts, n/bias_parts.1) -> 1x8\n"
      "n/bias/gates VariadicSplit-1 (n/bias_sum, [1], [2,2,2,2]) -> 1x2 1x2 1x2 1x2\n"
      "n/bias Concat-1 {axis=\"1\"} (n/bias/gates.2, n/bias/gates, n/bias/gates.3, "
      "n/bias/gates.1) -> 1x8\n"
      "n LSTMSequence-5 {" CELL("2", "forward", "sigmoid,tanh,tanh", "0.0", "")
      "} (n/X, "
      "n/initial_h, n/initial_c, [3,3], n/W, n/R, n/bias) -> 2x1x3x2 2x1x2 2x1x2\n"
      "n/Y_c Transpose-1 (n.2, [1,0,2]) -> 1x2x2\n", NULL },
    { CELLS(14, "6", "6", "2") "  l = const i32[3] [2, 1, 2]\n  h = input f32[3,1,2]\n"
      "  y, z = GRU n (x, w, r, _, l, h) hidden_size=2 layout=1\n  output z\n",
      "n/bias Broadcast-3 {mode=\"numpy\"} ([0], [1,6]) -> 1x6\n"
      "n GRUSequence-5 {" CELL("2", "forward", "sigmoid,tanh", "0.0",
                               " linear_before_reset=\"false\"") "} (x, h, [2,1,2], "
      "float32[1,6,4], float32[1,6,2], n/bias) -> 3x1x2x2 3x1x2\n"
      "n/Y Transpose-1 (n, [0,2,1,3]) -> 3x2x1x2\n"
      "n/Y_h Transpose-1 (n.1, [0,1,2]) -> 3x1x2\n", NULL },
    { CELLS(13, "5", "5", "5") "  y = RNN n (x, w, r) hidden_size=5 "
      "activations=[\"Relu\"]\n",
      SEQUENCE("5") "n/bias Broadcast-3 {mode=\"numpy\"} ([0], [1,5]) -> 1x5\n"
      "n RNNSequence-5 {" CELL("5", "forward", "relu", "0.0", "")
      "} (n/X, n/initial_h, [3,3], "
      "float32[1,5,4], float32[1,5,5], n/bias) -> 2x1x3x5 2x1x5\n"
      "n/Y Transpose-1 (n, [2,1,0,3]) -> 3x1x2x5\n", NULL },
    { CELLS(13, "5", "5", "5") "  y = RNN n (x, w, r) hidden_size=5 "
      "activations=[\"Elu\"]\n",
      NULL, "activation Elu, expected Sigmoid, Tanh or Relu, the same in both "
      "directions" },
    { X(13, "3,2,4") "  w = const f32[2,5,4] seed(1)\n  r = const f32[2,5,5] seed(2)\n"
      "  y = RNN n (x, w, r) hidden_size=5 direction=\"bidirectional\" "
      "activations=[\"Tanh\", \"Relu\"]\n", NULL,
      "activation Relu, expected Sigmoid, Tanh" },
    { CELLS(13, "8", "8", "2") "  y = LSTM n (x, w, r) hidden_size=2 "
      "input_forget=1\n", NULL,
      "input_forget or peepholes, expected neither" },
    { CELLS(13, "8", "8", "2") "  p = const f32[1,6] seed(1)\n"
      "  y = LSTM n (x, w, r, _, _, _, _, p) hidden_size=2\n", NULL,
      "input_forget or peepholes, expected neither" },
};
/* clang-format on */

/* --- layers as text --- */

typedef struct dump {
    char text[4096];
    size_t n;
} dump;

__attribute__((format(printf, 2, 3))) static void say(dump *d, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    d->n += (size_t)vsnprintf(d->text + d->n, sizeof d->text - d->n, fmt, args);
    va_end(args);
    assert_cmp_int(d->n, <, sizeof d->text);
}

/* Names of layers; the elements of constants, or their types. */
static void say_source(dump *d, const qg_ir *ir, qg_ir_source s)
{
    const qg_ir_layer *l = &ir->layer.at[s.layer];
    const qg_tensor *t = l->constant;
    char text[QG_SHAPE_TEXT];
    if (!t) {
        say(d, s.port ? "%s.%u" : "%s", l->name, s.port);
        return;
    }
    if (qg_tensor_count(t) > 8) {
        say(d, "%s", qg_tensor_text(t, text));
        return;
    }
    for (int64_t i = 0; i < qg_tensor_count(t); i++)
        say(d, "%s%.8g", i ? "," : "[", qg_tensor_f64(t, i));
    say(d, "]");
}

static void say_layer(dump *d, const qg_ir *ir, const qg_ir_layer *l)
{
    say(d, "%s %s-%s ", l->name, l->type, l->opset + strlen("opset"));
    if (l->data)
        say(d, "{%s} ", l->data);
    for (uint32_t i = 0; i < l->n_in; i++) {
        say(d, i ? ", " : "(");
        say_source(d, ir, l->in[i]);
    }
    say(d, ") ->");
    for (uint32_t i = 0; i < l->n_out; i++) {
        say(d, " ");
        for (int32_t k = 0; k < l->out[i].rank; k++)
            say(d, "%s%lld", k ? "x" : "", (long long)l->out[i].dim[k]);
    }
    say(d, "\n");
}

static void say_layers(dump *d, const qg_ir *ir)
{
    for (size_t i = 0; i < ir->layer.n; i++) {
        const qg_ir_layer *l = &ir->layer.at[i];
        if (!l->constant && l->n_in && strcmp(l->type, "Result") != 0)
            say_layer(d, ir, l);
    }
}

/* --- exports of networks without records --- */

static const qg_backend backend = { .name = "a < \"b\"", .placement = "openvino" };
static const qg_snapshot_info no_info;

/* To `path`; e is ended by the caller. */
static qg_status written(qg_ctx *ctx, const char *lines, const char *path, qg_export *e,
                         qg_graph **g)
{
    qg_quant *q;
    char text[2048];
    int n = snprintf(text, sizeof text, "graph \"g\" {\n%s  output y\n}\n", lines);
    *e = (qg_export){ .ctx = ctx, .info = &no_info, .path = path };
    ctx->registry = &qg_ops_registry;
    const qg_text_source source = { NULL, text, (size_t)n, NULL };
    assert_ok(ctx, qg_text_parse(ctx, &source, g));
    assert_ok(ctx, qg_graph_normalize(*g));
    assert_ok(ctx, qg_infer(*g, NULL, 0));
    assert_ok(ctx, qg_quant_new(*g, &backend, &q));
    e->quant = q;
    assert_ok(ctx, qg_export_begin(e, "openvino-ir", NULL));
    return qg_export_run(e, false);
}

static void check_row(const row *r, const char *path)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_export e;
    qg_graph *g;
    dump d = { .n = 0 };
    qg_status s = written(ctx, r->lines, path, &e, &g);
    if (s == QG_OK)
        say_layers(&d, e.built);
    if (r->layers && (s != QG_OK || strcmp(d.text, r->layers) != 0))
        fail_msg("%s: %s\n%s, expected\n%s", r->lines, qg_ctx_message(ctx), d.text,
                 r->layers);
    if (!r->layers && (s != QG_EUNSUPPORTED || !strstr(qg_ctx_message(ctx), r->why)))
        fail_msg("%s: '%s', expected '%s'\n", r->lines, qg_ctx_message(ctx), r->why);
    qg_export_end(&e);
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

static void nodes_become_layers(void **state)
{
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    (void)state;
    assert_int_equal(mkdir(scratch_path(folder, "layers"), 0700), 0);
    (void)snprintf(path, sizeof path, "%s/m.xml", folder);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i], path);
    assert_int_equal(scratch_remove(folder), 0);
}

#define PORT(id, name)                                                                 \
    "\t\t\t\t<port id=\"" id "\" precision=\"FP32\"" name                              \
    ">\n\t\t\t\t\t<dim>1</dim>\n\t\t\t\t\t<dim>2</dim>\n\t\t\t\t</port>\n"
#define IN(ports)     "\t\t\t<input>\n" ports "\t\t\t</input>\n"
#define OUT(id, name) "\t\t\t<output>\n" PORT(id, name) "\t\t\t</output>\n"
#define LAYER(id, name, type, rest)                                                    \
    "\t\t<layer id=\"" id "\" name=\"" name "\" type=\"" type                          \
    "\" version=\"opset1\">\n" rest "\t\t</layer>\n"
#define CONST(offset)                                                                  \
    "\t\t\t<data element_type=\"f32\" shape=\"1,2\" offset=\"" offset                  \
    "\" size=\"8\"/>\n"
#define EDGE(a, p, b, q)                                                               \
    "\t\t<edge from-layer=\"" a "\" from-port=\"" p "\" to-layer=\"" b                 \
    "\" to-port=\"" q "\"/>\n"
#define BROADCAST "\t\t\t<data auto_broadcast=\"numpy\"/>\n"
static const char xml[] =
    "<?xml version=\"1.0\"?>\n<net name=\"g\" version=\"11\">\n\t<layers>\n" LAYER(
        "0", "x", "Parameter",
        "\t\t\t<data shape=\"1,2\" element_type=\"f32\"/>\n" OUT("0", " names=\"x\""))
        LAYER("1", "a", "Const", CONST("0") OUT("0", "")) LAYER(
            "2", "p&amp;q", "Multiply",
            BROADCAST IN(PORT("0", "") PORT("1", "")) OUT("2", " names=\"p\\,&lt;q\""))
            LAYER("3", "b", "Const", CONST("64") OUT("0", "")) LAYER(
                "4", "y", "Add",
                BROADCAST IN(PORT("0", "") PORT("1", "")) OUT("2", " names=\"y\""))
                LAYER("5", "y/result", "Result",
                      IN(PORT("0", ""))) "\t</layers>\n\t<edges>\n" EDGE("0", "0", "2",
                                                                         "0")
                    EDGE("1", "0", "2", "1") EDGE("2", "2", "4", "0")
                        EDGE("3", "0", "4", "1")
                            EDGE("4", "2", "5",
                                 "0") "\t</edges>\n\t<rt_info>\n\t\t<quantgraph "
                                      "backend=\"a &lt; &quot;b&quot;\"/>\n"
                                      "\t\t<runtime_options>\n\t\t\t<DYNAMIC_"
                                      "QUANTIZATION_GROUP_SIZE value=\"0\"/>\n"
                                      "\t\t</runtime_options>\n\t</rt_info>\n</net>\n";

/* Constants are at multiples of 64 bytes; ports count on behind the inputs. */
static void files_of_a_network(void **state)
{
    static const char lines[] = "  opset 13\n  x = input f32[1,2]\n"
                                "  a = const f32[1,2] [1.0, 2.0]\n"
                                "  b = const f32[1,2] [3.0, 4.0]\n"
                                "  \"p,<q\" = Mul \"p&q\" (x, a)\n"
                                "  y = Add y (\"p,<q\", b)\n";
    static const float values[18] = { 1, 2, [16] = 3, 4 };
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8], *text;
    size_t size;
    qg_ctx *ctx = *state;
    qg_export e;
    qg_graph *g;
    assert_int_equal(mkdir(scratch_path(folder, "files"), 0700), 0);
    (void)snprintf(path, sizeof path, "%s/m.xml", folder);
    assert_ok(ctx, written(ctx, lines, path, &e, &g));
    assert_int_equal(e.file.n, 2);
    assert_string_equal(e.file.at[0], path);
    for (size_t i = 0; i < 2; i++) {
        qg_file_request from = { "test", e.file.at[i], 1 << 20 };
        assert_ok(ctx, qg_file_text(ctx, ctx->arena, from, &text, &size));
        if (i == 0)
            assert_string_equal(text, xml);
    }
    assert_int_equal(size, sizeof values);
    assert_memory_equal(text, values, sizeof values);
    qg_export_end(&e);
    qg_graph_free(g);
    assert_int_equal(scratch_remove(folder), 0);
}

/* The names of `qg list layers`: one may become several. */
static void operators_have_layers(void **state)
{
    static const struct {
        const char *onnx, *layer;
    } some[] = {
        {"Relu",                "ReLU"    },
        { "Sub",                "Subtract"},
        { "LayerNormalization", NULL      },
        { "DequantizeLinear",   "Multiply"},
    };
    const qg_format *f;
    const char *layer, *onnx;
    qg_ctx *ctx = *state;
    size_t found = 0;
    assert_ok(ctx, qg_format_named(ctx, "openvino-ir", &f));
    assert_string_equal(f->layer(0, &layer), "Relu");
    for (size_t i = 0; (onnx = f->layer(i, &layer)) != NULL; i++)
        for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
            if (strcmp(some[k].onnx, onnx) != 0)
                continue;
            found++;
            if (some[k].layer)
                assert_string_equal(layer, some[k].layer);
            else
                assert_null(layer);
        }
    assert_int_equal(found, sizeof some / sizeof *some);
}

QG_TEST_MAIN(WITH_CTX(files_of_a_network), WITH_CTX(operators_have_layers),
             cmocka_unit_test(nodes_become_layers))
