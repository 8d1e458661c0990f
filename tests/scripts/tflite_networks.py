"""tflite_networks -- small .tflite networks that together have every operator the reader
knows: seeds of its fuzzer and cases of test_tflite.py.  Constants follow from names."""
import zlib

import numpy as np

from tflite_file import File

WINDOW = {"padding": "SAME", "stride_h": 1, "stride_w": 1}


class Network(File):
    """Tensors by name; `grid` is that of activations."""

    def __init__(self, dtype="int8", grid=((0.5,), (3,))):
        super().__init__()
        self.dtype, self.grid, self.number_of = dtype, grid, {}

    def x(self, name, shape, grid=None):
        scale, zero = grid or self.grid
        self.number_of[name] = self.tensor(name, self.dtype, shape, scale, zero)
        return self.number_of[name]

    def ints(self, values, dtype="int32"):
        values = np.array(values, dtype)
        return self.tensor(f"const_{len(self.graph['tensors'])}", dtype, values.shape, data=values)

    def codes_of(self, name, shape, scale, dtype="int8", axis=0, zero=None, limit=100):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        data = rng.integers(-limit, limit + 1, shape)
        return self.tensor(name, dtype, shape, scale, zero or [0] * len(scale), axis, data)

    def then(self, op, inputs, shape, attributes=None, grid=None):
        """The tensor that this operator computes, called as the operator and its position."""
        y = self.x(f"{op.lower()}_{len(self.graph['operators'])}", shape, grid)
        self.operator(op, inputs, [y], attributes)
        return y


def conv():
    """Convolutions with fused activations, pooling, a dense layer and Softmax."""
    f = Network()
    x = f.x("x", [1, 5, 4, 2])
    w = f.codes_of("w", [4, 3, 3, 2], [0.1, 0.2, 0.3, 0.4])
    b = f.codes_of("b", [4], [0.05, 0.1, 0.15, 0.2], "int32")
    c = f.then("CONV_2D", [x, w, b], [1, 3, 2, 4],
               {"padding": "SAME", "stride_h": 2, "stride_w": 2, "activation": "RELU"}, ([2], [-128]))
    d = f.codes_of("d", [1, 2, 2, 8], [0.1] * 8, axis=3)
    bd = f.codes_of("bd", [8], [0.2] * 8, "int32")
    c = f.then("DEPTHWISE_CONV_2D", [c, d, bd], [1, 2, 1, 8],
               {"padding": "VALID", "stride_h": 1, "stride_w": 1, "depth_multiplier": 2,
                "activation": "RELU6"}, ([6 / 256], [-128]))
    c = f.then("AVERAGE_POOL_2D", [c], [1, 1, 1, 8],
               {"padding": "VALID", "stride_h": 2, "stride_w": 1, "filter_h": 2, "filter_w": 1},
               ([6 / 256], [-128]))
    c = f.then("RESHAPE", [c, f.ints([1, 8])], [1, 8], grid=([6 / 256], [-128]))
    fw = f.codes_of("fw", [3, 8], [0.02])
    c = f.then("FULLY_CONNECTED", [c, fw, -1], [1, 3], {"activation": "RELU_N1_TO_1"},
               ([1 / 64], [0]))
    y = f.then("SOFTMAX", [c], [1, 3], {"beta": 1}, ([1 / 256], [-128]))
    return f, [x], [y]


def transposed():
    """TRANSPOSE_CONV, a dense layer that keeps its rank, BATCH_MATMUL both ways."""
    f = Network()
    x = f.x("x", [1, 2, 2, 3])
    w = f.codes_of("w", [2, 3, 3, 3], [0.1, 0.2])
    b = f.codes_of("b", [2], [0.05, 0.1], "int32")
    t = f.then("TRANSPOSE_CONV", [f.ints([1, 4, 4, 2]), w, x, b], [1, 4, 4, 2],
               {"padding": "SAME", "stride_h": 2, "stride_w": 2})
    fw = f.codes_of("fw", [3, 2], [0.1, 0.2, 0.1])
    t = f.then("FULLY_CONNECTED", [t, fw], [1, 4, 4, 3], {"keep_num_dims": True})
    m = f.codes_of("m", [1, 4, 5, 3], [0.5])
    t = f.then("BATCH_MATMUL", [t, m], [1, 4, 4, 5], {"adj_y": True})
    y = f.then("BATCH_MATMUL", [t, t], [1, 4, 5, 5], {"adj_x": True})
    return f, [x], [y]


def functions():
    """Functions of each element, in both layouts, and means."""
    f = Network()
    x = f.x("x", [1, 4, 4, 2])
    y = f.x("y", [1, 4, 4, 2], ([0.25], [-5]))
    p = f.then("MAX_POOL_2D", [x], [1, 4, 4, 2], {**WINDOW, "filter_h": 2, "filter_w": 3})
    t = [f.then(op, [p], [1, 4, 4, 2], grid=g) for op, g in (
        ("LOGISTIC", ([1 / 256], [-128])), ("TANH", ([1 / 128], [0])), ("HARD_SWISH", None),
        ("RELU", None), ("RELU6", None), ("RELU_N1_TO_1", None))]
    t.append(f.then("LEAKY_RELU", [p], [1, 4, 4, 2], {"alpha": 0.125}))
    t.append(f.then("PRELU", [p, f.codes_of("alpha", [1, 1, 2], [0.01])], [1, 4, 4, 2]))
    s = y
    for op, k in zip(("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "ADD", "MUL", "ADD", "SUB"), t):
        s = f.then(op, [s, k], [1, 4, 4, 2], {"activation": "RELU6"} if op == "SUB" else None)
    s = f.then("MAXIMUM", [s, p], [1, 4, 4, 2])
    s = f.then("MINIMUM", [s, x], [1, 4, 4, 2])
    s = f.then("ADD", [s, f.codes_of("channel", [2], [0.25])], [1, 4, 4, 2])
    m = f.then("MEAN", [p, f.ints([1, 2])], [1, 2])
    k = f.then("MEAN", [p, f.ints([-1])], [1, 4, 4, 1], {"keep_dims": True})
    g = f.then("MEAN", [p, f.ints([2, 1])], [1, 1, 1, 2], {"keep_dims": True})
    return f, [x, y], [s, m, k, g]


def moves():
    """Every operator that moves codes; uint8."""
    f = Network("uint8", ([0.5], [7]))
    x = f.x("x", [1, 4, 4, 2])
    out = [f.then("TRANSPOSE", [x, f.ints([0, 2, 3, 1])], [1, 4, 2, 4]),
           f.then("PAD", [x, f.ints([[0, 0], [1, 0], [0, 2], [0, 1]])], [1, 5, 6, 3]),
           f.then("PADV2", [x, f.ints([[0, 0], [0, 1], [0, 0], [0, 0]]),
                            f.tensor("v", "uint8", [1], [0.5], [7], data=[200])], [1, 5, 4, 2]),
           f.then("SLICE", [x, f.ints([0, 1, 0, 1]), f.ints([-1, 2, 3, 1])], [1, 2, 3, 1]),
           f.then("STRIDED_SLICE", [x, f.ints([0, -1, 1, 0]), f.ints([1, 0, 4, 2]),
                                    f.ints([1, -2, 2, 1])], [1, 2, 2, 2], {"end_mask": 2}),
           f.then("STRIDED_SLICE", [x, f.ints([0, 2, 0, -1]), f.ints([1, 3, 4, 0]),
                                    f.ints([1, 1, 1, 1])], [1, 4], {"shrink_axis_mask": 10}),
           f.then("GATHER", [x, f.ints([3, 0, -1 % 4])], [1, 3, 4, 2], {"axis": 1}),
           f.then("EXPAND_DIMS", [x, f.ints([0])], [1, 1, 4, 4, 2]),
           f.then("SQUEEZE", [x], [4, 4, 2]),
           f.then("RESIZE_NEAREST_NEIGHBOR", [x, f.ints([3, 7])], [1, 3, 7, 2])]
    halves = [f.x("left", [1, 4, 2, 2]), f.x("right", [1, 4, 2, 2])]
    f.operator("SPLIT", [f.ints(2), x], halves, {"parts": 2})
    rows = [f.x("row", [1, 1, 4, 2]), f.x("rest", [1, 3, 4, 2])]
    f.operator("SPLIT_V", [x, f.ints([1, 3]), f.ints([1])], rows, {"parts": 2})
    parts = [f.x("even", [1, 4, 4]), f.x("odd", [1, 4, 4])]
    f.operator("UNPACK", [x], parts, {"parts": 2, "axis": -1})
    out += [f.then("CONCATENATION", halves[::-1], [1, 4, 4, 2], {"axis": 2}),
            f.then("PACK", parts[::-1], [1, 4, 4, 2], {"parts": 2, "axis": 3}),
            f.then("BROADCAST_TO", [parts[0], f.ints([3, 4, 4])], [3, 4, 4])]
    return f, [x], out + rows


def resized():
    """Resizing behind a convolution, in its layout; a concatenation of two grids."""
    f = Network()
    x = f.x("x", [1, 3, 3, 2])
    w = f.codes_of("w", [2, 1, 1, 2], [0.5, 0.25])
    c = f.then("CONV_2D", [x, w], [1, 3, 3, 2], {**WINDOW, "activation": "RELU6"})
    up = f.then("RESIZE_BILINEAR", [c, f.ints([6, 6])], [1, 6, 6, 2], {"half_pixel_centers": True})
    near = f.then("RESIZE_NEAREST_NEIGHBOR", [c, f.ints([6, 6])], [1, 6, 6, 2],
                  {"align_corners": True})
    near = f.then("QUANTIZE", [near], [1, 6, 6, 2], grid=([0.25], [0]))
    y = f.then("CONCATENATION", [up, near], [1, 6, 6, 4], {"axis": -1})
    y = f.then("PAD", [y, f.ints([[0, 0], [1, 1], [0, 0], [0, 0]])], [1, 8, 6, 4])
    return f, [x], [y]


def floats():
    """Floats around an int8 convolution: QUANTIZE and DEQUANTIZE."""
    f = Network("float32", ([], []))
    x = f.x("x", [1, 4, 4, 2])
    w = f.tensor("w", "float32", [2, 1, 1, 2], data=[[[[1, -1]]], [[[0.5, 2]]]])
    b = f.tensor("b", "float32", [2], data=[0.25, -1])
    c = f.then("CONV_2D", [x, w, b], [1, 4, 4, 2], {**WINDOW, "activation": "RELU6"})
    q = f.tensor("q", "int8", [1, 4, 4, 2], [6 / 255], [-128])
    f.operator("QUANTIZE", [c], [q])
    p = f.tensor("p", "int8", [1, 2, 2, 2], [6 / 255], [-128])
    f.operator("MAX_POOL_2D", [q], [p], {"padding": "VALID", "stride_h": 2, "stride_w": 2,
                                         "filter_h": 2, "filter_w": 2})
    y = f.then("DEQUANTIZE", [p], [1, 2, 2, 2])
    y = f.then("GELU", [y], [1, 2, 2, 2], {"approximate": True})
    y = f.then("GELU", [y], [1, 2, 2, 2], {"approximate": False})
    return f, [x], [f.then("BROADCAST_TO", [y, f.ints([5, 2, 2, 2])], [5, 2, 2, 2]), p]


def int16():
    """16-bit activations with 8-bit weights and an int64 bias."""
    f = Network("int16", ([1 / 1024], [0]))
    x = f.x("x", [2, 6])
    w = f.codes_of("w", [3, 6], [1 / 64])
    b = f.codes_of("b", [3], [1 / 65536], "int64", limit=1 << 20)
    return f, [x], [f.then("FULLY_CONNECTED", [x, w, b], [2, 3], {"activation": "RELU"})]


def wide_bias():
    """Codes of a bias that float32 does not keep."""
    f = Network()
    x = f.x("x", [1, 2, 2, 1])
    w = f.codes_of("w", [2, 1, 1, 1], [2.0 ** -20, 3 * 2.0 ** -20])
    b = f.tensor("b", "int32", [2], [2.0 ** -21, 3 * 2.0 ** -21], [0, 0],
                 data=[(1 << 30) + 1, -(1 << 29) - 3])
    return f, [x], [f.then("CONV_2D", [x, w, b], [1, 2, 2, 2], WINDOW, ([8], [-100]))]


def of_constants():
    """Operators that read constants in another shape: learned queries of a decoder."""
    f = Network()
    x = f.x("x", [1, 2, 4])
    q = f.codes_of("q", [1, 2, 3], [0.5], zero=[3])
    fw = f.codes_of("fw", [4, 3], [0.1] * 4)
    dense = f.then("FULLY_CONNECTED", [q, fw, -1], [1, 2, 4], {"keep_num_dims": True})
    rows = f.codes_of("rows", [1, 2, 4], [0.5], zero=[3])
    parts = [f.x(f"part{k}", [1, 4]) for k in range(2)]
    f.operator("UNPACK", [rows], parts, {"parts": 2, "axis": 1})
    last = f.then("STRIDED_SLICE", [rows, f.ints([0, 1, 0]), f.ints([1, 2, 4]), f.ints([1, 1, 1])],
                  [1, 4], {"shrink_axis_mask": 2})
    image = f.codes_of("image", [1, 2, 4, 4], [0.5], zero=[3])
    pool = f.then("MAX_POOL_2D", [image], [1, 1, 2, 4],
                  {"padding": "VALID", "stride_h": 2, "stride_w": 2, "filter_h": 2,
                   "filter_w": 2, "activation": "RELU6"})
    y = x
    for z, shape in ((dense, [1, 2, 4]), (parts[0], [1, 2, 4]), (parts[1], [1, 2, 4]),
                     (last, [1, 2, 4]), (pool, [1, 1, 2, 4])):
        y = f.then("ADD", [y, z], shape, {}, ([2], [-1]))
    return f, [x], [y]


NETWORKS = [conv, transposed, functions, moves, resized, floats, int16, wide_bias, of_constants]


def write(folder):
    """name.tflite for each."""
    for network in NETWORKS:
        f, inputs, outputs = network()
        f.write(folder / f"{network.__name__}.tflite", inputs, outputs)
