/* formats/tflite, the writer: the operators of small networks, with dims, pads and
 * options as upstream's kernels define them, and the words of what is refused. */
#include "tests/support/host.h"
#include "tests/support/test.h"

#include "engine/core/file.h"
#include "engine/formats/tflite/flatbuffer.h"

/* Lines of a network behind x, a picture, and c, a convolution of it, so that both are
 * in N,H,W,C; the last line makes y.  `ops`: the operators behind c's; NULL: refused,
 * with these words in `why`. */
typedef struct row {
    const char *lines, *ops, *why;
} row;

/* clang-format off */
#define W33 "  k = const f32[3,2,3,3] seed(3)\n"
#define W32 "  k = const f32[3,2,3,2] seed(3)\n"
#define X "conv 1x6x5x2 "
#define BY33 "3x3x3x2 3 -> "
#define BY32 "3x3x2x2 3 -> "
static const row convolutions[] = {
    /* SAME: the odd element is behind. */
    { W33 "  y = Conv y (x, k) pads=[1, 1, 1, 1]\n", X BY33 "1x6x5x3 same s1,1\n",
      NULL },
    { W33 "  y = Conv y (x, k)\n", X BY33 "1x4x3x3 valid s1,1\n", NULL },
    { W33 "  y = Conv y (x, k) auto_pad=\"VALID\"\n", X BY33 "1x4x3x3 valid s1,1\n",
      NULL },
    { W32 "  y = Conv y (x, k) strides=[2, 1] pads=[0, 0, 1, 1]\n",
      X BY32 "1x3x5x3 same s2,1\n", NULL },
    { W32 "  y = Conv y (x, k) strides=[2, 1] auto_pad=\"SAME_UPPER\"\n",
      X BY32 "1x3x5x3 same s2,1\n", NULL },
    { W32 "  y = Conv y (x, k) strides=[2, 1] auto_pad=\"SAME_LOWER\"\n",
      "pad 1x6x5x2 {0,0,1,0,1,0,0,0} -> 1x7x6x2\nconv 1x7x6x2 " BY32
      "1x3x5x3 valid s2,1\n",
      NULL },
    { W32 "  y = Conv y (x, k) strides=[1, 2] pads=[1, 0, 1, 1]\n",
      X BY32 "1x6x3x3 same s1,2\n", NULL },
    { W32 "  y = Conv y (x, k) strides=[1, 2] pads=[1, 0, 1, 0]\n",
      "pad 1x6x5x2 {0,0,1,1,0,0,0,0} -> 1x8x5x2\nconv 1x8x5x2 " BY32
      "1x6x2x3 valid s1,2\n",
      NULL },
    { W32 "  y = Conv y (x, k) pads=[0, 2, 0, 0]\n",
      "pad 1x6x5x2 {0,0,0,0,2,0,0,0} -> 1x6x7x2\nconv 1x6x7x2 " BY32
      "1x4x6x3 valid s1,1\n",
      NULL },
    { "  k = const f32[3,2,3,1] seed(3)\n"
      "  y = Conv y (x, k) dilations=[2, 1] pads=[2, 0, 2, 0]\n",
      X "3x3x1x2 3 -> 1x6x5x3 same s1,1 d2,1\n", NULL },
    { "  k = const f32[3,2,1,2] seed(3)\n"
      "  y = Conv y (x, k) dilations=[1, 3]\n",
      X "3x1x2x2 3 -> 1x6x2x3 valid s1,1 d1,3\n", NULL },
    { "  k = const f32[4,1,1,1] [1.0, 2.0, -3.0, 4.0]\n  y = Conv y (x, k) group=2\n",
      "depthwise 1x6x5x2 1x1x1x4[127 127 -127 127] 4 -> 1x6x5x4 valid s1,1 times "
      "2\n", NULL },
    { "  k = const f32[6,2,1,1] seed(3)\n  j = const f32[4,3,1,1] seed(4)\n"
      "  z = Conv z (x, k)\n  y = Conv y (z, j) group=2\n",
      X "6x1x1x2 6 -> 1x6x5x6 valid s1,1\n"
      "conv 1x6x5x6 4x1x1x3 4 -> 1x6x5x4 valid s1,1\n", NULL },
    { "  k = const f32[1,2,1,1] seed(3)\n  j = const f32[3,1,1,1] seed(4)\n"
      "  z = Conv z (x, k)\n  y = Conv y (z, j)\n",
      X "1x1x1x2 1 -> 1x6x5x1 valid s1,1\n"
      "conv 1x6x5x1 3x1x1x1 3 -> 1x6x5x3 valid s1,1\n", NULL },
    { "  k = const f32[3,2,1,1] seed(3)\n  b = const f32[3] seed(4)\n"
      "  z = Conv z (x, k, b)\n  y = Relu y (z)\n",
      X "3x1x1x2 3 -> 1x6x5x3 valid s1,1 relu\n", NULL },
    { "  l = const f32[] [0.0]\n  h = const f32[] [6.0]\n"
      "  k = const f32[3,2,1,1] fill(30)\n  z = Conv z (x, k)\n"
      "  y = Clip y (z, l, h)\n",
      X "3x1x1x2 3 -> 1x6x5x3 valid s1,1 relu6\n", NULL },
    /* Transposed: pads by the dims of the output. */
    { "  k = const f32[2,3,2,2] seed(3)\n  y = ConvTranspose y (x, k) strides=[2, 2]\n",
      "deconv {1,12,10,3} 3x2x2x2 1x6x5x2 -> 1x12x10x3 valid s2,2\n", NULL },
    { "  k = const f32[2,3,3,3] seed(3)\n"
      "  y = ConvTranspose y (x, k) pads=[1, 1, 1, 1]\n",
      "deconv {1,6,5,3} 3x3x3x2 1x6x5x2 -> 1x6x5x3 same s1,1\n", NULL },
    { "  k = const f32[2,3,2,1] seed(3)\n"
      "  y = ConvTranspose y (x, k) pads=[0, 0, 1, 0]\n",
      "deconv {1,6,5,3} 3x2x1x2 1x6x5x2 -> 1x6x5x3 same s1,1\n", NULL },
    { "  k = const f32[2,3,2,1] seed(3)\n"
      "  y = ConvTranspose y (x, k) pads=[1, 0, 0, 0]\n",
      NULL, "node 'y' (ConvTranspose): pads, expected those of SAME or VALID" },
    { "  k = const f32[2,3,1,2] seed(3)\n"
      "  y = ConvTranspose y (x, k) pads=[0, 1, 0, 0]\n",
      NULL, "node 'y' (ConvTranspose): pads, expected those of SAME or VALID" },
    { "  k = const f32[2,3,2,1] seed(3)\n"
      "  y = ConvTranspose y (x, k) auto_pad=\"SAME_UPPER\"\n",
      "deconv {1,6,5,3} 3x2x1x2 1x6x5x2 -> 1x6x5x3 same s1,1\n", NULL },
    { "  k = const f32[2,3,2,1] seed(3)\n"
      "  y = ConvTranspose y (x, k) auto_pad=\"SAME_LOWER\"\n",
      NULL, "node 'y' (ConvTranspose): pads, expected those of SAME or VALID" },
    { "  k = const f32[2,3,2,2] seed(3)\n"
      "  y = ConvTranspose y (x, k) strides=[2, 2] output_padding=[1, 0]\n",
      NULL, "node 'y' (ConvTranspose): pads, expected those of SAME or VALID" },
    { "  k = const f32[2,3,2,2] seed(3)\n"
      "  y = ConvTranspose y (x, k) dilations=[2, 1]\n",
      NULL, "node 'y' (ConvTranspose): dilations, expected 1" },
    { "  k = const f32[2,3,2,2] seed(3)\n"
      "  y = ConvTranspose y (x, k) dilations=[1, 2]\n",
      NULL, "node 'y' (ConvTranspose): dilations, expected 1" },
    { "  k = const f32[2,3,2,2] seed(3)\n  y = ConvTranspose y (x, k) group=2\n",
      NULL, "node 'y' (ConvTranspose): expected constant 8-bit weights, one group" },
    /* Pools: where the padding is not that of SAME, a maximum gets lowest codes. */
    { "  y = MaxPool y (x) kernel_shape=[3, 3] pads=[1, 1, 1, 1]\n",
      "max_pool 1x6x5x2 -> 1x6x5x2 same s1,1 f3,3\n", NULL },
    { "  y = MaxPool y (x) kernel_shape=[2, 2] strides=[2, 2] ceil_mode=1\n",
      "max_pool 1x6x5x2 -> 1x3x3x2 same s2,2 f2,2\n", NULL },
    { "  y = MaxPool y (x) kernel_shape=[2, 2] strides=[2, 2]\n",
      "max_pool 1x6x5x2 -> 1x3x2x2 valid s2,2 f2,2\n", NULL },
    { "  y = MaxPool y (x) kernel_shape=[2, 1] pads=[1, 0, 0, 0]\n",
      "pad 1x6x5x2 {0,0,1,0,0,0,0,0} -> 1x7x5x2\n" /* the lowest code is that of 0 */
      "max_pool 1x7x5x2 -> 1x6x5x2 valid s1,1 f2,1\n", NULL },
    { "  y = MaxPool y (x) kernel_shape=[2, 2] dilations=[2, 1]\n", NULL,
      "node 'y' (MaxPool): dilations, expected 1" },
    { "  y = MaxPool y (x) kernel_shape=[2, 2] dilations=[1, 2]\n", NULL,
      "node 'y' (MaxPool): dilations, expected 1" },
    { "  y = AveragePool y (x) kernel_shape=[3, 3] pads=[1, 1, 1, 1]\n",
      "average_pool 1x6x5x2 -> 1x6x5x2 same s1,1 f3,3\n", NULL },
    { "  y = AveragePool y (x) kernel_shape=[2, 1] pads=[1, 0, 0, 0]\n", NULL,
      "node 'y' (AveragePool): pads 1, 0, 0, 0, expected none" },
    { "  y = AveragePool y (x) kernel_shape=[1, 2] pads=[0, 1, 0, 0]\n", NULL,
      "node 'y' (AveragePool): pads 0, 1, 0, 0, expected none" },
    { "  y = AveragePool y (x) kernel_shape=[3, 1] pads=[0, 0, 2, 0]\n", NULL,
      "node 'y' (AveragePool): pads 0, 0, 2, 0, expected none" },
    { "  y = AveragePool y (x) kernel_shape=[1, 3] pads=[0, 0, 0, 2]\n", NULL,
      "node 'y' (AveragePool): pads 0, 0, 0, 2, expected none" },
    /* Along one axis: a picture of height 1. */
    { "  d = const i64[3] [1, 2, 30]\n  k = const f32[3,2,3] seed(3)\n"
      "  z = Reshape z (x, d)\n  y = Conv y (z, k) strides=[2] pads=[1, 1]\n",
      "reshape 1x2x6x5 {1,2,30} -> 1x2x30\nreshape 1x2x30 {1,2,1,30} -> 1x2x1x30\n"
      "pad 1x1x30x2 {0,0,0,0,1,1,0,0} -> 1x1x32x2\n"
      "conv 1x1x32x2 3x1x3x2 3 -> 1x1x15x3 valid s1,2\n"
      "reshape 1x3x1x15 {1,3,15} -> 1x3x15\n", NULL },
    { "  d = const i64[3] [1, 2, 30]\n  k = const f32[3,2,2] seed(3)\n"
      "  z = Reshape z (x, d)\n  y = Conv y (z, k) dilations=[4]\n",
      "reshape 1x2x6x5 {1,2,30} -> 1x2x30\nreshape 1x2x30 {1,2,1,30} -> 1x2x1x30\n"
      "conv 1x1x30x2 3x1x2x2 3 -> 1x1x26x3 valid s1,1 d1,4\n"
      "reshape 1x3x1x26 {1,3,26} -> 1x3x26\n", NULL },
    /* Weights with scale 1: codes in the order O,H,W,I, or 1,H,W,O where depthwise. */
    { "  k = const f32[1,2,1,2] [127.0, 3.0, 5.0, 7.0]\n  y = Conv y (x, k)\n",
      X "1x1x2x2[127 5 3 7] 1 -> 1x6x4x1 valid s1,1\n", NULL },
    { "  k = const f32[2,1,1,2] [127.0, 3.0, 5.0, 127.0]\n"
      "  y = Conv y (x, k) group=2\n",
      "depthwise 1x6x5x2 1x1x2x2[127 5 3 127] 2 -> 1x6x4x2 valid s1,1 times 1\n",
      NULL },
    { "  k = const f32[2,1,1,2] [127.0, 3.0, 5.0, 7.0]\n  y = ConvTranspose y (x, k)\n",
      "deconv {1,6,6,1} 1x1x2x2[127 5 3 7] 1x6x5x2 -> 1x6x6x1 valid s1,1\n", NULL },
    { "  d = const i64[2] [30, 2]\n  k = const f32[2,2] [127.0, 127.0, 3.0, 5.0]\n"
      "  z = Reshape z (x, d)\n  y = MatMul y (z, k)\n",
      "reshape 1x2x6x5 {30,2} -> 30x2\ndense 30x2 2x2[127 3 127 5] -> 30x2\n", NULL },
    { "  d = const i64[5] [1, 2, 1, 6, 5]\n  k = const f32[3,2,1,1,1] seed(3)\n"
      "  z = Reshape z (x, d)\n  y = Conv y (z, k)\n", NULL,
      "node 'y' (Conv): expected constant 8-bit weights of 4 axes" },
    { "  k = input f32[3,2,1,1]\n  y = Conv y (x, k)\n", NULL,
      "node 'y' (Conv): expected constant 8-bit weights of 4 axes" },
    { "  k = input f32[2,3,1,1]\n  y = ConvTranspose y (x, k)\n", NULL,
      "node 'y' (ConvTranspose): expected constant 8-bit weights, one group" },
    { "  d = const i64[3] [1, 2, 30]\n  z = Reshape z (x, d)\n"
      "  y = MaxPool y (z) kernel_shape=[2]\n", NULL,
      "node 'y' (MaxPool): expected a window over 2 axes and one output" },
    { "  d = const i64[3] [1, 2, 30]\n  z = Reshape z (x, d)\n"
      "  y = AveragePool y (z) kernel_shape=[2]\n", NULL,
      "node 'y' (AveragePool): a window over 1 axes, expected 2" },
};

#define C "  m = const f32[4,2,1,1] seed(2)\n  c = Conv c (x, m)\n"
#define C_OPS "conv 1x6x5x2 4x1x1x2 4 -> 1x6x5x4 valid s1,1\n"
#define SLICE(a, b, d, s) \
    "  i = const i64[1] [" a "]\n  j = const i64[1] [" b "]\n" \
    "  k = const i64[1] [" d "]\n  l = const i64[1] [" s "]\n" \
    "  y = Slice y (c, i, j, k, l)\n"
#define RESIZE(to, mode, where, how) \
    "  t = const i64[4] [1, 4, " to "]\n" \
    "  y = Resize y (c, _, _, t) mode=\"" mode "\" nearest_mode=\"" how \
    "\" coordinate_transformation_mode=\"" where "\"\n"
static const row moves[] = {
    { C "  y = Softmax y (c) axis=-1\n", C_OPS "softmax 1x4x6x5 -> 1x4x6x5 by 1\n",
      NULL },
    { C "  y = Softmax y (c) axis=1\n", C_OPS "softmax 1x6x5x4 -> 1x6x5x4 by 1\n",
      NULL },
    { C "  y = Softmax y (c) axis=2\n",
      C_OPS "transpose 1x4x6x5 {0,1,3,2} -> 1x4x5x6\nsoftmax 1x4x5x6 -> 1x4x5x6 by 1\n"
      "transpose 1x4x5x6 {0,1,3,2} -> 1x4x6x5\n", NULL },
    { C "  y = Softmax y (c) axis=-4\n",
      C_OPS "transpose 1x4x6x5 {3,1,2,0} -> 5x4x6x1\nsoftmax 5x4x6x1 -> 5x4x6x1 by 1\n"
      "transpose 5x4x6x1 {3,1,2,0} -> 1x4x6x5\n", NULL },
    { C "  i = const i64[2] [2, 3]\n  y = ReduceMean y (c, i)\n",
      C_OPS "mean 1x6x5x4 {1,2} -> 1x1x1x4 keep\n", NULL },
    { C "  i = const i64[2] [-2, -1]\n  y = ReduceMean y (c, i) keepdims=0\n",
      C_OPS "mean 1x4x6x5 {2,3} -> 1x4\n", NULL },
    { "  i = const i64[2] [1, 2]\n  y = ReduceMean y (x, i)\n",
      "mean 1x6x5x2 {3,1} -> 1x1x5x1 keep\n", NULL },
    { "  i = const i64[2] [1, 3]\n  y = ReduceMean y (x, i)\n",
      "mean 1x2x6x5 {1,3} -> 1x1x6x1 keep\n", NULL },
    { C SLICE("1", "5", "2", "2"),
      C_OPS "slice 1x6x5x4 {0,1,0,0} {1,4,5,4} {1,2,1,1} -> 1x2x5x4\n", NULL },
    { C SLICE("-2", "9", "-1", "1"),
      C_OPS "slice 1x6x5x4 {0,0,3,0} {1,6,5,4} {1,1,1,1} -> 1x6x2x4\n", NULL },
    { C SLICE("-9", "2", "1", "1"),
      C_OPS "slice 1x6x5x4 {0,0,0,0} {1,6,5,2} {1,1,1,1} -> 1x6x5x2\n", NULL },
    { C SLICE("0", "6", "2", "5"),
      C_OPS "slice 1x6x5x4 {0,0,0,0} {1,6,5,4} {1,5,1,1} -> 1x2x5x4\n", NULL },
    { C SLICE("5", "0", "2", "-1"), NULL, "node 'y' (Slice): step -1, expected >= 1" },
    { C "  i = const i64[3] [0, 1, 2]\n  j = const i64[3] [1, 3, 4]\n"
      "  y = Slice y (c, i, j)\n",
      C_OPS "slice 1x6x5x4 {0,2,0,1} {1,4,5,3} {1,1,1,1} -> 1x2x5x2\n", NULL },
    { C "  i = const i64[2] [2, 2]\n  y, z = Split (c, i) axis=1\n",
      C_OPS "split {3} 1x6x5x4 -> 1x6x5x2 1x6x5x2 parts 2\n", NULL },
    { C "  i = const i64[2] [1, 3]\n  y, z = Split (c, i) axis=-3\n",
      C_OPS "split_v 1x6x5x4 {1,3} {3} -> 1x6x5x1 1x6x5x3 parts 2\n", NULL },
    { C "  i = const i64[2] [2, 4]\n  y, z = Split (c, i) axis=2\n",
      C_OPS "split_v 1x6x5x4 {2,4} {1} -> 1x2x5x4 1x4x5x4 parts 2\n", NULL },
    { C "  i = const i64[2] [2, -1]\n  y = Gather y (c, i) axis=-3\n",
      C_OPS "gather 1x4x6x5 {2,3} -> 1x2x6x5 axis 1\n", NULL },
    { C "  i = const i64[1,2] [0, -6]\n  y = Gather y (c, i) axis=2\n",
      C_OPS "gather 1x4x6x5 {0,0} -> 1x4x1x2x5 axis 2\n", NULL },
    { C "  i = const i64[8] [0, 1, 2, 3, 0, 4, 5, 6]\n  f = const f32[] [0.0]\n"
      "  y = Pad y (c, i, f)\n",
      C_OPS "pad 1x6x5x4 {0,0,2,5,3,6,1,4} -> 1x13x14x9\n", NULL },
    { C "  i = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]\n  f = const f32[] [0.0]\n"
      "  y = Pad y (c, i, f) mode=\"reflect\"\n", NULL,
      "node 'y' (Pad): mode reflect, expected constant pads of every axis" },
    { C "  i = const i64[8] [0, 0, -1, 1, 0, 0, 1, 1]\n  f = const f32[] [0.0]\n"
      "  y = Pad y (c, i, f)\n", NULL, "node 'y' (Pad): pads -1, expected >= 0" },
    { C "  i = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]\n  f = const f32[] [0.0]\n"
      "  a = const i64[4] [0, 1, 2, 3]\n  y = Pad y (c, i, f, a)\n", NULL,
      "node 'y' (Pad): mode constant, expected constant pads of every axis" },
    { C "  e = const i64[4] [2, 2, 6, 5]\n  d = Reshape d (c, e)\n"
      "  y = DepthToSpace y (d) blocksize=1\n", NULL,
      "node 'y' (DepthToSpace): expected a batch of 1" },
    { C "  i = const i64[8] [0, 0, 0, 0, 0, 0, 0, 1]\n  f = const f32[] [0.0]\n"
      "  d = Pad d (c, i, f)\n  y = SpaceToDepth y (d) blocksize=2\n",
      C_OPS "pad 1x6x5x4 {0,0,0,0,0,1,0,0} -> 1x6x6x4\n"
      "reshape 1x4x6x6 {4,3,2,3,2} -> 4x3x2x3x2\n"
      "transpose 4x3x2x3x2 {2,4,0,1,3} -> 2x2x4x3x3\n"
      "reshape 2x2x4x3x3 {1,16,3,3} -> 1x16x3x3\n", NULL },
    { C "  y = Elu y (c)\n", NULL,
      "tflite-int8 does not quantize Elu, expected an integer kernel" },
    { C "  y = Softplus y (c)\n", NULL,
      "tflite-int8 does not quantize Softplus, expected an integer kernel" },
    { C "  i = input i64[2]\n  y = Gather y (c, i) axis=2\n", NULL,
      "node 'y' (Gather): its indices are computed, expected constants" },
    { "  y = Identity y (x)\n", "reshape 1x2x6x5 {1,2,6,5} -> 1x2x6x5\n", NULL },
    { C "  d = Conv d (x, m)\n  y = Add y (c, d)\n",
      C_OPS C_OPS "add 1x6x5x4 1x6x5x4 -> 1x6x5x4\n", NULL },
    { C "  k = const f32[1,4,6,1] seed(5)\n  y = Sub y (c, k)\n",
      C_OPS "sub 1x6x5x4 1x6x1x4 -> 1x6x5x4\n", NULL },
    { C "  k = const f32[5] seed(5)\n  y = Mul y (c, k)\n",
      C_OPS "mul 1x4x6x5 5 -> 1x4x6x5\n", NULL },
    { C "  k = const f32[] [1.0]\n  y = Mul y (c, k)\n",
      C_OPS "mul 1x6x5x4 code 127 -> 1x6x5x4\n", NULL },
    { C "  k = const f32[4,6,1] seed(5)\n  y = PRelu y (c, k)\n",
      C_OPS "prelu 1x4x6x5 4x6x1 -> 1x4x6x5\n", NULL },
    { "  y = Relu y (x)\n", "relu 1x2x6x5 -> 1x2x6x5\n", NULL },
    { C "  d = Sigmoid d (c)\n  y = Relu y (d)\n",
      C_OPS "logistic 1x6x5x4 -> 1x6x5x4\nrelu 1x6x5x4 -> 1x6x5x4\n", NULL },
    { C "  y = DepthToSpace y (c) blocksize=2\n",
      C_OPS "reshape 1x4x6x5 {2,2,1,6,5} -> 2x2x1x6x5\n"
      "transpose 2x2x1x6x5 {2,3,0,4,1} -> 1x6x2x5x2\n"
      "reshape 1x6x2x5x2 {1,1,12,10} -> 1x1x12x10\n", NULL },
    { C "  y = DepthToSpace y (c) blocksize=2 mode=\"CRD\"\n",
      C_OPS "reshape 1x4x6x5 {1,2,2,6,5} -> 1x2x2x6x5\n"
      "transpose 1x2x2x6x5 {0,3,1,4,2} -> 1x6x2x5x2\n"
      "reshape 1x6x2x5x2 {1,1,12,10} -> 1x1x12x10\n", NULL },
    { C "  y = Transpose y (c)\n", C_OPS "transpose 1x4x6x5 {3,2,1,0} -> 5x6x4x1\n",
      NULL },
    { C "  y = Transpose y (c) perm=[1, 0, 2, 3]\n",
      C_OPS "transpose 1x4x6x5 {1,0,2,3} -> 4x1x6x5\n", NULL },
    { C "  d = Conv d (x, m)\n  y = Concat y (c, d) axis=1\n",
      C_OPS C_OPS "concat 1x6x5x4 1x6x5x4 -> 1x6x5x8 axis 3\n", NULL },
    { C "  d = Conv d (x, m)\n  y = Concat y (c, d) axis=-1\n",
      C_OPS C_OPS "concat 1x6x5x4 1x6x5x4 -> 1x6x10x4 axis 2\n", NULL },
    { C "  y = LeakyRelu y (c) alpha=0.25\n",
      C_OPS "leaky_relu 1x6x5x4 -> 1x6x5x4 by 0.25\n", NULL },
    { C "  y = LeakyRelu y (c)\n", C_OPS "leaky_relu 1x6x5x4 -> 1x6x5x4 by 0.01\n",
      NULL },
    { C "  y = Sigmoid y (c)\n", C_OPS "logistic 1x6x5x4 -> 1x6x5x4\n", NULL },
    { C "  y = Tanh y (c)\n", C_OPS "tanh 1x6x5x4 -> 1x6x5x4\n", NULL },
    { C "  y = HardSwish y (c)\n", C_OPS "hard_swish 1x6x5x4 -> 1x6x5x4\n", NULL },
    { C "  y = MaxPool y (c) kernel_shape=[1, 2] pads=[0, 1, 0, 0]\n",
      C_OPS "padv2 1x6x5x4 {0,0,0,0,1,0,0,0} code -128 -> 1x6x6x4\n"
      "max_pool 1x6x6x4 -> 1x6x5x4 valid s1,1 f1,2\n", NULL },
    { C RESIZE("12, 10", "nearest", "asymmetric", "floor"),
      C_OPS "nearest 1x6x5x4 {12,10} -> 1x12x10x4\n", NULL },
    { C RESIZE("9, 8", "nearest", "asymmetric", "floor"),
      C_OPS "nearest 1x6x5x4 {9,8} -> 1x9x8x4\n", NULL },
    { C RESIZE("12, 10", "nearest", "half_pixel", "round_prefer_floor"),
      C_OPS "nearest 1x6x5x4 {12,10} -> 1x12x10x4 half\n", NULL },
    { C RESIZE("9, 8", "nearest", "half_pixel", "round_prefer_ceil"),
      C_OPS "nearest 1x6x5x4 {9,8} -> 1x9x8x4 half\n", NULL },
    { C RESIZE("9, 8", "nearest", "align_corners", "round_prefer_ceil"),
      C_OPS "nearest 1x6x5x4 {9,8} -> 1x9x8x4 corners\n", NULL },
    { C RESIZE("9, 10", "nearest", "half_pixel", "round_prefer_floor"), NULL,
      "half_pixel with round_prefer_floor, expected asymmetric with floor" },
    { C RESIZE("12, 8", "nearest", "half_pixel", "round_prefer_floor"), NULL,
      "half_pixel with round_prefer_floor, expected asymmetric with floor" },
    { C RESIZE("12, 10", "nearest", "half_pixel", "floor"), NULL,
      "half_pixel with floor, expected asymmetric with floor" },
    { C RESIZE("12, 10", "nearest", "align_corners", "floor"), NULL,
      "align_corners with floor, expected asymmetric with floor" },
    { C RESIZE("12, 10", "nearest", "asymmetric", "ceil"), NULL,
      "asymmetric with ceil, expected asymmetric with floor" },
    { C RESIZE("12, 10", "nearest", "pytorch_half_pixel", "round_prefer_ceil"), NULL,
      "pytorch_half_pixel with round_prefer_ceil, expected asymmetric with floor" },
    { C "  t = const i64[4] [1, 8, 6, 5]\n  y = Resize y (c, _, _, t) mode=\"nearest\" "
      "coordinate_transformation_mode=\"asymmetric\" nearest_mode=\"floor\"\n", NULL,
      "node 'y' (Resize): expected 4 axes, of which height and width change" },
    { C RESIZE("12, 10", "linear", "half_pixel", "floor"),
      C_OPS "bilinear 1x6x5x4 {12,10} -> 1x12x10x4 half\n", NULL },
    { C RESIZE("9, 10", "linear", "align_corners", "floor"),
      C_OPS "bilinear 1x6x5x4 {9,10} -> 1x9x10x4 corners\n", NULL },
    { C RESIZE("9, 10", "linear", "asymmetric", "floor"),
      C_OPS "bilinear 1x6x5x4 {9,10} -> 1x9x10x4\n", NULL },
    { C "  d = Conv d (x, m)\n  y = Max y (c, d)\n",
      C_OPS C_OPS "maximum 1x6x5x4 1x6x5x4 -> 1x6x5x4\n", NULL },
    { C "  d = Conv d (x, m)\n  y = Min y (c, d)\n",
      C_OPS C_OPS "minimum 1x6x5x4 1x6x5x4 -> 1x6x5x4\n", NULL },
    { C "  d = Conv d (x, m)\n  y = Max y (c, d, c)\n", NULL,
      "node 'y' (Max): 3 inputs, expected 2" },
    { C "  t = const i64[4] [3, 4, 6, 5]\n  y = Expand y (c, t)\n",
      C_OPS "broadcast 1x4x6x5 {3,4,6,5} -> 3x4x6x5\n", NULL },
    { C "  y = Flatten y (c)\n", C_OPS "reshape 1x4x6x5 {1,120} -> 1x120\n", NULL },
    { C "  d = Conv d (x, m)\n  e = Transpose e (d) perm=[0, 1, 3, 2]\n"
      "  y = MatMul y (c, e)\n",
      C_OPS C_OPS "transpose 1x4x6x5 {0,1,3,2} -> 1x4x5x6\n"
      "batch_matmul 1x4x6x5 1x4x5x6 -> 1x4x6x6\n", NULL },
    { "  d = const i64[2] [6, 10]\n  k = const f32[10,3] seed(3)\n"
      "  z = Reshape z (x, d)\n  y = MatMul y (z, k)\n",
      "reshape 1x2x6x5 {6,10} -> 6x10\ndense 6x10 3x10 -> 6x3\n", NULL },
    { "  k = const f32[7,5] seed(3)\n  b = const f32[7] seed(4)\n"
      "  d = const i64[2] [12, 5]\n  z = Reshape z (x, d)\n"
      "  y = Gemm y (z, k, b) transB=1\n",
      "reshape 1x2x6x5 {12,5} -> 12x5\ndense 12x5 7x5 7 -> 12x7\n", NULL },
};

static const struct {
    int32_t code;
    const char *name;
} names[] = {
    { 1, "average_pool" }, { 2, "concat" }, { 3, "conv" }, { 4, "depthwise" }, { 9,
      "dense" },
    { 14, "logistic" }, { 17, "max_pool" }, { 22, "reshape" }, { 25, "softmax" },
    { 28, "tanh" }, { 34, "pad" }, { 36, "gather" }, { 39, "transpose" }, { 40,
      "mean" },
    { 45, "slice" }, { 49, "split" }, { 60, "padv2" }, { 67, "deconv" }, { 98,
      "leaky_relu" },
    { 0, "add" }, { 18, "mul" }, { 19, "relu" }, { 41, "sub" }, { 54, "prelu" },
    { 23, "bilinear" }, { 55, "maximum" }, { 57, "minimum" }, { 126, "batch_matmul" },
    { 130, "broadcast" }, { 97, "nearest" }, { 102, "split_v" }, { 117, "hard_swish" },
};
/* clang-format on */

/* --- the file as text --- */

typedef struct dump {
    char text[4096];
    size_t n;
    const qg_tflite_file *file;
} dump;

__attribute__((format(printf, 2, 3))) static void say(dump *d, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    d->n += (size_t)vsnprintf(d->text + d->n, sizeof d->text - d->n, fmt, args);
    va_end(args);
    assert_cmp_int(d->n, <, sizeof d->text);
}

/* Dims "1x6x5x2", of integers their values "{1,2}", of one code "code 3". */
static void say_tensor(dump *d, int32_t index)
{
    enum { INT32 = 2, INT8 = 9 };
    const qg_tflite_tensor *t = &d->file->tensor[index];
    if (t->data && t->type == INT32 && !t->n_scale) {
        for (size_t i = 0; i < t->size / 4; i++) {
            int32_t x;
            memcpy(&x, t->data + 4 * i, 4);
            say(d, "%s%d", i ? "," : "{", x);
        }
        say(d, "} ");
    } else if (t->data && t->rank == 0) {
        say(d, "code %d ", (signed char)t->data[0]);
    } else {
        for (uint32_t i = 0; i < t->rank; i++)
            say(d, "%s%d", i ? "x" : "", t->dim[i]);
        for (size_t i = 0; t->data && t->type == INT8 && t->size == 4 && i < 4; i++)
            say(d, "%s%d%s", i ? " " : "[", (signed char)t->data[i], i < 3 ? "" : "]");
        say(d, " ");
    }
}

static void say_options(dump *d, const qg_tflite_options *o)
{
    static const char *const activation[] = { "", " relu", " relu_n1", " relu6" };
    if (o->stride_h)
        say(d, "%s s%d,%d", o->padding ? " valid" : " same", o->stride_h, o->stride_w);
    if (o->dilation_h > 1 || o->dilation_w > 1)
        say(d, " d%d,%d", o->dilation_h, o->dilation_w);
    if (o->filter_h)
        say(d, " f%d,%d", o->filter_h, o->filter_w);
    if (o->multiplier)
        say(d, " times %d", o->multiplier);
    if (o->kind == QG_TFLITE_OPTIONS_CONCAT || o->kind == QG_TFLITE_OPTIONS_GATHER)
        say(d, " axis %d", o->axis);
    if (o->parts)
        say(d, " parts %d", o->parts);
    if (o->keep_dims)
        say(d, " keep");
    if (o->half_pixel)
        say(d, " half");
    if (o->align_corners)
        say(d, " corners");
    if (o->factor != 0)
        say(d, " by %g", (double)o->factor);
    say(d, "%s", activation[o->activation]);
}

/* Without those of the edges and those between N,C,H,W and N,H,W,C. */
static void say_operator(dump *d, const qg_tflite_operator *op)
{
    enum { DEQUANTIZE = 6, TRANSPOSE = 39, QUANTIZE = 114 };
    const qg_tflite_tensor *last = &d->file->tensor[op->in[op->n_in - 1]];
    if (op->code == DEQUANTIZE || op->code == QUANTIZE ||
        (op->code == TRANSPOSE && strstr(last->name, "/to_n")))
        return;
    size_t i = 0, n = sizeof names / sizeof *names;
    while (i < n && names[i].code != op->code)
        i++;
    say(d, "%s ", i < n ? names[i].name : "?");
    for (uint32_t k = 0; k < op->n_in; k++)
        say_tensor(d, op->in[k]);
    say(d, "-> ");
    for (uint32_t k = 0; k < op->n_out; k++)
        say_tensor(d, op->out[k]);
    d->n--; /* a blank */
    say_options(d, &op->options);
    say(d, "\n");
}

static void *get(void *ud, size_t count, size_t size)
{
    return qg_arena_get(ud, count, size);
}

static void assert_operators(host *h, const char *path, const row *r)
{
    dump d = { .n = 0 };
    qg_file f;
    qg_tflite_file file;
    assert_ok(h->ctx, qg_file_open(h->ctx, "test", path, SIZE_MAX, &f));
    assert_int_equal(qg_tflite_unpack(f.bytes, f.size,
                                      (qg_tflite_memory){ get, h->ctx->arena }, &file),
                     QG_TFLITE_READ);
    d.file = &file;
    for (uint32_t i = 0; i < file.n_op; i++)
        say_operator(&d, &file.op[i]);
    qg_file_close(&f);
    if (strcmp(d.text, r->ops) != 0)
        fail_msg("%s:\n%s, expected\n%s", r->lines, d.text, r->ops);
}

/* --- networks --- */

static void write_one(host *h, const row *r)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "graph \"g\" {\n  opset 18\n  x = input f32[1,2,6,5]\n%s"
                   "  output y\n}\n",
                   r->lines);
    qg_model *m =
        host_quantize(h, host_model(h, "m.onnx", text), "tflite-int8", NULL, 1);
    const char *path = host_path(h, "m.tflite");
    qg_format_options o;
    qg_format_options_init(&o, sizeof o);
    o.format = "tflite";
    qg_status s = qg_model_export(m, &o, path, NULL);
    if (r->ops) {
        if (s != QG_OK)
            fail_msg("%s: %s", r->lines, qg_ctx_message(h->ctx));
        else
            assert_operators(h, path, r);
    } else if (s == QG_OK || !strstr(qg_ctx_message(h->ctx), r->why)) {
        fail_msg("%s: '%s', expected '%s'", r->lines, qg_ctx_message(h->ctx), r->why);
    }
    qg_model_close(m);
}

static void windows_are_those_of_upstream(void **state)
{
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++)
        write_one(*state, &convolutions[i]);
}

static void moves_have_axes_of_their_form(void **state)
{
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        write_one(*state, &moves[i]);
}

QG_TEST_MAIN(WITH_HOST(windows_are_those_of_upstream),
             WITH_HOST(moves_have_axes_of_their_form))
