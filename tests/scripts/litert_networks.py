"""litert_networks -- random quantized networks as .tflite files.

One seed is one network, always the same, of 4 to 12 operators.  Every operator runs in
LiteRT in float as soon as it is drawn; the grid of its output is chosen from the values
that it gave, so that codes neither saturate nor stay in a corner.  Power-of-two scales
are common enough to make exact ties frequent.

    network = Network(seed, "int8")
    data, feeds = network.bytes(), network.feeds()   # the file; samples {name: array}

KINDS: int8; uint8 (asymmetric uint8 weights, one scale per tensor); int16 (int16
activations, int8 weights, 64-bit biases)."""
import numpy as np

import litert

SAMPLES = 4
KINDS = {  # type: (lowest code, highest code, type of weights, type of biases)
    "int8": (-128, 127, "int8", "int32"),
    "uint8": (0, 255, "uint8", "int32"),
    "int16": (-32768, 32767, "int8", "int64"),
}
FIXED = {  # operators whose output grid LiteRT prescribes: {type: (scale, zero point)}
    "LOGISTIC": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "SOFTMAX": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
}


class Value:
    """A tensor that an operator reads: float values and how they are stored.

    array: an activation has the samples first; a constant has not.  grid: (scales, zero
    points, axis), None for float32 and for numbers such as axes and sizes."""

    def __init__(self, name, array, dtype, grid, codes=None):
        self.name, self.array, self.dtype, self.grid = name, array, dtype, grid
        self.codes = codes  # of a constant; None: an activation

    @property
    def shape(self):
        return self.array.shape if self.codes is not None else self.array.shape[1:]


class Network:
    def __init__(self, seed, kind="int8"):
        self.random = np.random.RandomState(seed)
        self.kind = kind
        self.low, self.high, self.weight_type, self.bias_type = KINDS[kind]
        self.values, self.nodes = [], []  # nodes: (operator, inputs, output, attributes)
        self.start()
        steps = self.random.randint(4, 13)
        while len(self.nodes) < steps:
            self.draw(self.IMAGE if len(self.late().shape) == 4 else self.FLAT)(self)
        self.finish()

    # --- drawing ---
    def chance(self, p):
        return self.random.rand() < p

    def draw(self, choices):
        return choices[self.random.randint(len(choices))]

    def late(self):
        return self.values[-1]

    def pick(self):
        """A value to go on from: the last one, or one before it with its rank."""
        rank = len(self.late().shape)
        return self.draw([v for v in self.values[-3:] if len(v.shape) == rank]
                         if self.chance(0.3) else [self.late()])

    def like(self, x):
        """Values of x's shape with other numbers than x."""
        return [v for v in self.values
                if v.shape == x.shape and not np.array_equal(v.array, x.array)]

    # --- grids ---
    def grid_of(self, array, stretch=None):
        """One scale for these real values; a little saturation, a little room."""
        low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
        if low == high:
            high = 1.0
        if low == 0 and self.chance(0.3):
            low = -0.3 * high  # a zero point inside, so that a fused Relu has to clamp
        stretch = stretch or self.random.uniform(0.85, 1.1)
        if self.kind == "int16":
            return ([np.float32(max(-low, high) * stretch / self.high)], [0], 0)
        scale = (high - low) * stretch / 255
        if self.chance(0.2):
            scale = 2.0 ** np.ceil(np.log2(scale))
        zero = int(np.clip(np.rint(self.low - low / scale), self.low, self.high))
        return ([np.float32(scale)], [zero], 0)

    def codes_of(self, array, grid, dtype):
        low, high = KINDS[dtype][:2] if dtype in KINDS else (-2 ** 31, 2 ** 31 - 1)
        shape = [len(grid[0]) if k == grid[2] and len(grid[0]) > 1 else 1
                 for k in range(array.ndim)]
        scale = np.asarray(grid[0], np.float64).reshape(shape)
        zero = np.asarray(grid[1], np.int64).reshape(shape)
        return np.clip(np.rint(array / scale) + zero, low, high).astype(dtype)

    # --- constants ---
    def numbers(self, numbers, dtype="int32"):
        array = np.asarray(numbers, dtype)
        return self.constant(array, dtype, None, array)

    def constant(self, array, dtype, grid, codes):
        return Value(f"c{len(self.nodes)}_{self.random.randint(1 << 30)}", array, dtype, grid,
                     codes)

    def weights(self, shape, axis, per_channel=True):
        """Normal weights on a symmetric grid (uint8: on an asymmetric one)."""
        array = self.random.randn(*shape).astype("float32") / np.sqrt(np.prod(shape[1:]) + 1)
        if self.weight_type == "uint8":
            kept, self.kind, self.low = (self.kind, self.low), "uint8", 0
            grid = self.grid_of(array, 1.0)
            self.kind, self.low = kept
        else:
            over = tuple(k for k in range(array.ndim) if k != axis) if per_channel else None
            scales = np.ravel(np.abs(array).max(axis=over) / 127).astype("float32")
            if self.chance(0.2):
                scales = np.exp2(np.ceil(np.log2(scales))).astype("float32")
            grid = (list(scales), [0] * len(scales), axis)
        return self.constant(array, self.weight_type, grid,
                             self.codes_of(array, grid, self.weight_type))

    def bias(self, x, w):
        n = w.shape[w.grid[2]] if len(w.grid[0]) > 1 else w.shape[self.bias_axis(w)]
        array = (self.random.randn(n) * np.abs(x.array).mean()).astype("float32")
        scales = [np.float32(x.grid[0][0]) * np.float32(s) for s in w.grid[0]]
        grid = (scales, [0] * len(scales), 0)
        codes = np.rint(array / np.asarray(scales, np.float64)).astype(self.bias_type)
        return self.constant(array, self.bias_type, grid, codes)

    @staticmethod
    def bias_axis(w):
        return 3 if w.shape[0] == 1 and len(w.shape) == 4 else 0

    def operand(self, shape):
        """A constant second operand of a binary operator, on a grid of its own."""
        array = self.random.randn(*shape).astype("float32")
        grid = self.grid_of(array, 1.0)
        return self.constant(array, self.kind, grid, self.codes_of(array, grid, self.kind))

    # --- operators ---
    def float_of(self, op, inputs, attributes):
        """What the operator gives in float, for every sample."""
        file = litert.File()
        numbers, fed = [], []
        for k, v in enumerate(inputs):
            exact = v.grid is None and v.codes is not None
            data = v.codes if exact else (v.array if v.codes is not None else None)
            numbers.append(file.tensor(f"x{k}", v.dtype if exact else "float32", v.shape,
                                       data=data))
            if data is None:
                fed.append((numbers[-1], v))
        out = file.tensor("y", "float32", [1])
        file.operator(op, numbers, [out], attributes)
        runtime = litert.Runtime(file.bytes([i for i, _ in fed], [out]), "reference")
        return np.stack([runtime.run({f"x{numbers.index(i)}": v.array[s] for i, v in fed})["y"]
                         for s in range(SAMPLES)])

    def add(self, op, inputs, grid=None, **attributes):
        """Appends an operator; grid: of its output, None to choose one."""
        array = self.float_of(op, inputs, attributes)
        if op in FIXED:
            scale, zero = FIXED[op][self.kind]
            grid = ([np.float32(scale)], [zero], 0)
        out = Value(f"t{len(self.nodes)}", array, self.kind, grid or self.grid_of(array))
        self.nodes.append((op, inputs, out, attributes))
        self.values.append(out)
        return out

    def on_grid(self, v, grid):
        """v, requantized when it has another grid."""
        if v.grid[0][0] == grid[0][0] and v.grid[1][0] == grid[1][0]:
            return v
        out = Value(f"t{len(self.nodes)}", v.array, self.kind, grid)
        self.nodes.append(("QUANTIZE", [v], out, {}))
        self.values.append(out)
        return out

    def activation(self):
        return self.draw(["NONE", "NONE", "RELU", "RELU6"])

    def window(self, x, sizes, dilated=False):
        """Attributes and size of a sliding window that fits into x."""
        kh = min(self.draw(sizes), x.shape[1])
        kw = min(self.draw(sizes), x.shape[2])
        padding = self.draw(["SAME", "VALID"])
        stride = self.draw([1, 1, 2])
        attributes = {"padding": padding, "stride_h": stride, "stride_w": stride}
        if dilated:
            fits = stride == 1 and 2 * kh - 1 <= x.shape[1] and 2 * kw - 1 <= x.shape[2]
            dilation = 2 if fits and self.chance(0.2) else 1
            attributes.update(dilation_h=dilation, dilation_w=dilation)
        return kh, kw, attributes

    def conv(self):
        x = self.pick()
        kh, kw, attributes = self.window(x, [1, 2, 3, 3, 5], dilated=True)
        w = self.weights((self.draw([3, 4, 5, 8]), kh, kw, x.shape[3]), 0, self.chance(0.8))
        self.add("CONV_2D", [x, w, self.bias(x, w)], activation=self.activation(), **attributes)

    def depthwise(self):
        x = self.pick()
        kh, kw, attributes = self.window(x, [2, 3, 3, 5], dilated=True)
        multiplier = self.draw([1, 1, 2]) if x.shape[3] <= 8 else 1
        w = self.weights((1, kh, kw, x.shape[3] * multiplier), 3, self.chance(0.8))
        self.add("DEPTHWISE_CONV_2D", [x, w, self.bias(x, w)], depth_multiplier=multiplier,
                 activation=self.activation(), **attributes)

    def transpose_conv(self):
        x = self.pick()
        stride, k = self.draw([1, 2]), self.draw([2, 3])
        if x.shape[1] > 12 or k < stride:
            return
        padding = self.draw(["SAME", "VALID"])
        size = [n * stride if padding == "SAME" else (n - 1) * stride + k
                for n in x.shape[1:3]]
        w = self.weights((self.draw([3, 4]), k, k, x.shape[3]), 0)
        shape = self.numbers([1, *size, w.shape[0]])
        self.add("TRANSPOSE_CONV", [shape, w, x, self.bias(x, w)], padding=padding,
                 stride_h=stride, stride_w=stride, activation="NONE")

    def dense(self):
        x = self.pick()
        if len(x.shape) == 4 and np.prod(x.shape) > 512:
            return
        if len(x.shape) == 4:
            x = self.flat(x)
        w = self.weights((self.draw([6, 10, 16]), x.shape[1]), 0, self.chance(0.5))
        self.add("FULLY_CONNECTED", [x, w, self.bias(x, w)], activation=self.activation(),
                 keep_num_dims=False)

    def flat(self, x):
        shape = [1, int(np.prod(x.shape))]
        return self.add("RESHAPE", [x, self.numbers(shape)], x.grid, new_shape=shape)

    def binary(self):
        x = self.pick()
        same = self.like(x)
        y = self.draw(same) if same and self.chance(0.7) else self.operand(
            self.draw([x.shape, (*([1] * (len(x.shape) - 1)), x.shape[-1]), (1,)]))
        op = self.draw(["ADD", "ADD", "SUB", "MUL"])
        self.add(op, [x, y], activation=self.activation())

    def extremum(self):
        x = self.pick()
        same = self.like(x)
        if same:
            self.add(self.draw(["MAXIMUM", "MINIMUM"]),
                     [x, self.on_grid(self.draw(same), x.grid)], x.grid)

    def squared(self):
        x = self.pick()
        same = self.like(x)
        if same and self.kind == "int8":
            self.add("SQUARED_DIFFERENCE", [x, self.draw(same)])

    def concatenation(self):
        x = self.pick()
        same = [v for v in self.values[-6:] if v.shape[:-1] == x.shape[:-1] and v is not x]
        if same:
            others = [self.draw(same)] if self.chance(0.7) else [self.draw(same), x]
            grid = self.grid_of(np.concatenate([v.array.ravel() for v in (x, *others)]))
            if self.kind != "uint8" or self.chance(0.3):  # uint8: the kernel rescales
                x, *others = [self.on_grid(v, grid) for v in (x, *others)]
            self.add("CONCATENATION", [x, *others], grid, axis=len(x.shape) - 1,
                     activation="NONE")

    def pool(self):
        x = self.pick()
        kh, kw, attributes = self.window(x, [2, 3])
        self.add(self.draw(["AVERAGE_POOL_2D", "MAX_POOL_2D"]), [x], x.grid, filter_h=kh,
                 filter_w=kw, activation=self.draw(["NONE", "NONE", "RELU"]), **attributes)

    def mean(self):
        x = self.pick()
        if len(self.nodes) > 3 or self.chance(0.3):
            self.add("MEAN", [x, self.numbers([1, 2])], self.draw([None, x.grid]),
                     keep_dims=bool(self.chance(0.5)))

    def pad(self):
        x = self.pick()
        pads = [[0, 0], *self.random.randint(0, 3, (2, 2)).tolist(), [0, 0]]
        self.add("PAD", [x, self.numbers(pads)], x.grid)

    def resize(self):
        x = self.pick()
        if max(x.shape[1:3]) > 12:
            return
        size = self.draw([[2 * n for n in x.shape[1:3]], [n + 1 for n in x.shape[1:3]]])
        corners, centers = self.draw([(False, False), (False, True), (True, False)])
        self.add(self.draw(["RESIZE_BILINEAR", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"]),
                 [x, self.numbers(size)], x.grid, align_corners=corners,
                 half_pixel_centers=centers)

    def table(self):
        self.add(self.draw(["LOGISTIC", "TANH"]), [self.pick()])

    def softmax(self):
        self.add("SOFTMAX", [self.pick()], beta=1.0)

    def hard_swish(self):
        if self.kind != "int16":
            self.add("HARD_SWISH", [self.pick()])

    def relu(self):
        x = self.pick()
        self.add(self.draw(["RELU", "RELU6"]), [x], self.draw([None, x.grid]))

    def leaky_relu(self):
        self.add("LEAKY_RELU", [self.pick()],
                 alpha=float(np.float32(self.draw([0.1, 0.2, 0.3, 1.5]))))

    def prelu(self):
        x = self.pick()
        if self.kind == "int8":
            self.add("PRELU", [x, self.operand((1, 1, x.shape[3]))])

    def transpose(self):
        x = self.pick()
        order = [0, *(self.random.permutation(3) + 1).tolist()]
        self.add("TRANSPOSE", [x, self.numbers(order)], x.grid)

    def reshape(self):
        x = self.pick()
        n, h, w, c = x.shape
        shape = self.draw([[n, w, h, c], [n, h, w * c, 1], [n, 1, h * w, c]])
        self.add("RESHAPE", [x, self.numbers(shape)], x.grid, new_shape=shape)

    def requantize(self):
        x = self.pick()
        self.on_grid(x, self.grid_of(x.array, self.random.uniform(0.6, 1.6)))

    def batch_matmul(self):
        x = self.pick()
        if self.kind == "uint8" or x.shape[1] != 1 and x.shape[2] > 16:
            return
        if self.chance(0.5):
            y = self.operand((1, x.shape[1], x.shape[3], self.draw([3, 6])))
            self.add("BATCH_MATMUL", [x, y], adj_x=False, adj_y=False)
        else:  # x times its own transposition: both sides are activations
            self.add("BATCH_MATMUL", [x, x], adj_x=False, adj_y=True)

    IMAGE = [conv, conv, conv, depthwise, depthwise, binary, binary, pool, pool, mean,
             concatenation, concatenation, pad, resize, resize, table, hard_swish, leaky_relu, prelu,
             relu, extremum, squared, transpose, reshape, requantize, transpose_conv, dense,
             softmax, batch_matmul]
    FLAT = [dense, dense, binary, concatenation, table, softmax, hard_swish, leaky_relu, relu,
            extremum, squared, requantize]

    # --- the ends ---
    def start(self):
        h, w, c = self.draw([(8, 8, 3), (9, 7, 4), (12, 10, 1), (10, 10, 8)])
        array = self.random.randn(SAMPLES, 1, h, w, c).astype("float32")
        grid = self.grid_of(array)
        name = "input"
        if self.chance(0.3) and self.kind != "uint8":
            self.entry = Value(name, array, "float32", None)
            out = Value("t0", array, self.kind, grid)
            self.nodes.append(("QUANTIZE", [self.entry], out, {}))
            self.values.append(out)
        else:
            self.entry = Value(name, array, self.kind, grid)
            self.values.append(self.entry)

    def finish(self):
        """Outputs: what nothing reads, as floats in some networks."""
        read = {id(v) for _, inputs, _, _ in self.nodes for v in inputs}
        self.exits = [v for _, _, v, _ in self.nodes if id(v) not in read]
        if self.entry.dtype == "float32" and self.chance(0.7):
            for k, v in enumerate(self.exits):
                self.exits[k] = Value(f"{v.name}_real", v.array, "float32", None)
                self.nodes.append(("DEQUANTIZE", [v], self.exits[k], {}))

    def bytes(self):
        file = litert.File()
        numbers = {}

        def number(v):
            if id(v) not in numbers:
                numbers[id(v)] = file.tensor(v.name, v.dtype, v.shape, v.grid, v.codes)
            return numbers[id(v)]

        number(self.entry)
        for op, inputs, out, attributes in self.nodes:
            file.operator(op, [number(v) for v in inputs], [number(out)], attributes)
        return file.bytes([number(self.entry)], [number(v) for v in self.exits])

    def feeds(self):
        """SAMPLES samples as the network reads them: codes, or floats."""
        v = self.entry
        stored = v.array if v.grid is None else self.codes_of(v.array, v.grid, v.dtype)
        return [{v.name: s} for s in stored]
