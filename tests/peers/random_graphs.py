"""Random networks, for comparison with tools that quantize networks too.

One seed is one network, always the same: small, of image form (N C H W) with one or two
inputs, made of what ends up in quantized networks and of what such tools trip over:
branches, sums and concatenations of shared values, normalizations that can not be folded,
shared constants, shape arithmetic, masks, several outputs."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Value:
    def __init__(self, name, shape):
        self.name, self.shape = name, tuple(shape)


class Network:
    """A network that grows; every method that adds nodes returns the new Value."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.opset = int(self.random.choice([10, 11, 11, 11, 13]))
        self.nodes, self.constants, self.values = [], [], []
        self.inputs = [Value("x", (1, 3, 8, 8))]
        if self.chance(0.1):
            self.inputs.append(Value("y", (1, 3, 8, 8)))
        self.values += self.inputs

    # --- drawing ---
    def chance(self, p):
        return self.random.rand() < p

    def draw(self, choices):
        return choices[self.random.randint(len(choices))]

    def image(self):
        """A value of image form, rather a late one."""
        images = [v for v in self.values if len(v.shape) == 4]
        late = images[-3:] if self.chance(0.75) else images
        return self.draw(late)

    def like(self, x, but=None):
        """Another value of x's shape, or None."""
        others = [v for v in self.values if v.shape == x.shape and v is not but]
        return self.draw(others) if others else None

    # --- building ---
    def constant(self, array, dtype="float32"):
        name = f"c{len(self.constants)}"
        array = np.asarray(array, dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, *shape, scale=1.0):
        return self.constant(self.random.randn(*shape) * scale)

    def node(self, op, inputs, shape, outputs=1, keep=True, **attributes):
        names = [v.name if isinstance(v, Value) else v for v in inputs]
        k = len(self.nodes)
        made = [Value(f"t{k}" if outputs == 1 else f"t{k}_{i}", shape)
                for i in range(outputs)]
        self.nodes.append(helper.make_node(op, names, [v.name for v in made],
                                           f"{op}_{k}", **attributes))
        if keep:
            self.values += made
        return made[0] if outputs == 1 else made

    def conv(self, x, out=None, kernel=None, group=1, stride=1, bias=None):
        n, c, h, w = x.shape
        out = out or int(self.draw([1, 4, 4, 8]))
        if min(h, w) < 3:
            kernel = 1
        kernel = kernel or int(self.draw([1, 3, 3]))
        if group == 1 and self.chance(0.2):
            group, out = (c, c) if self.chance(0.7) or c % 2 or out % 2 else (2, out)
        pad = kernel // 2
        weight = self.normal(out, c // group, kernel, kernel,
                             scale=1 / np.sqrt(c // group * kernel * kernel))
        inputs = [x, weight]
        if self.chance(0.8) if bias is None else bias:
            inputs.append(self.normal(out, scale=0.3))
        size = [(d + 2 * pad - kernel) // stride + 1 for d in (h, w)]
        return self.node("Conv", inputs, (n, out, *size), group=group, kernel_shape=[kernel] * 2,
                         pads=[pad] * 4, strides=[stride] * 2)

    def downsampling(self):
        x = self.image()
        return self.conv(x, stride=2) if min(x.shape[2:]) >= 4 else self.conv(x)

    def transposed(self):
        x = self.image()
        n, c, h, w = x.shape
        if h > 8:
            return self.conv(x)
        weight = self.normal(c, 4, 2, 2, scale=1 / np.sqrt(c))
        inputs = [x, weight] + ([self.normal(4, scale=0.3)] if self.chance(0.5) else [])
        return self.node("ConvTranspose", inputs, (n, 4, 2 * h, 2 * w), kernel_shape=[2, 2],
                         strides=[2, 2], dilations=[1, 1], group=1, pads=[0, 0, 0, 0])

    def activation(self, x=None):
        x = x or self.image()
        kind = self.draw(["Relu", "Relu", "Relu", "Clip", "Sigmoid", "LeakyRelu", "PRelu",
                          "Tanh", "Elu", "HardSigmoid", "swish", "mish", "Softplus"])
        if kind == "Clip":
            return self.clip(x)
        if kind == "PRelu":
            slope = self.constant(0.25 * np.abs(self.random.randn(x.shape[1], 1, 1)))
            return self.node("PRelu", [x, slope], x.shape)
        if kind == "swish":
            return self.node("Mul", [x, self.node("Sigmoid", [x], x.shape)], x.shape)
        if kind == "mish":
            soft = self.node("Softplus", [x], x.shape)
            return self.node("Mul", [x, self.node("Tanh", [soft], x.shape)], x.shape)
        return self.node(kind, [x], x.shape)

    def clip(self, x):
        low, high = self.draw([(0.0, 6.0), (-1.0, 1.0), (0.0, 1.0)])
        if self.opset < 11:
            return self.node("Clip", [x], x.shape, min=low, max=high)
        return self.node("Clip", [x, self.constant(low), self.constant(high)], x.shape)

    def normalization(self, x=None):
        x = x or self.image()
        c = x.shape[1]
        scale = self.constant(0.5 + self.random.rand(c))
        return self.node("BatchNormalization",
                         [x, scale, self.normal(c, scale=0.3), self.normal(c, scale=0.3),
                          self.constant(0.5 + self.random.rand(c))], x.shape, epsilon=1e-5)

    def block(self):
        """What most networks consist of."""
        x = self.conv(self.image())
        if self.chance(0.15):
            x = self.node("Identity", [x], x.shape)
        if self.chance(0.35):
            x = self.normalization(x)
        if self.chance(0.12):
            x = self.normalization(x)
        if self.chance(0.12):
            x = self.node("Add", [x, self.normal(1, x.shape[1], 1, 1)], x.shape)
        return self.activation(x) if self.chance(0.7) else x

    def elementwise(self):
        x = self.image()
        op = self.draw(["Add", "Add", "Add", "Mul", "Sub", "Max", "Min", "Sum"])
        y = self.like(x) if self.chance(0.75) else None
        if y is None:
            y = self.shared(x) if self.chance(0.3) and op != "Sum" else None
        if y is None and op in ("Max", "Min", "Sum"):
            y = self.conv(x, out=x.shape[1], kernel=1, group=x.shape[1])
        if y is None:
            y = self.normal(*self.draw([(1, x.shape[1], 1, 1), x.shape]))
        pair = [x, y] if self.chance(0.85) or op == "Sub" else [y, x]
        return self.node(op, pair, x.shape)

    def shared(self, x):
        """A constant that other nodes may read, too."""
        fitting = [c.name for c in self.constants
                   if tuple(c.dims) in ((1, x.shape[1], 1, 1), x.shape)]
        return self.draw(fitting) if fitting else None

    def concat(self):
        x = self.image()
        parts = [x] + [v for v in (self.like(x) for _ in range(self.random.randint(1, 3)))
                       if v is not None]
        channels = sum(p.shape[1] for p in parts)
        if channels > 32:
            return self.conv(x)
        return self.node("Concat", parts, (x.shape[0], channels, *x.shape[2:]), axis=1)

    def pool(self):
        x = self.image()
        n, c, h, w = x.shape
        if min(h, w) < 4:
            return self.activation(x)
        op = self.draw(["MaxPool", "MaxPool", "AveragePool"])
        return self.node(op, [x], (n, c, h // 2, w // 2), kernel_shape=[2, 2],
                         strides=[2, 2])

    def resize(self):
        x = self.image()
        n, c, h, w = x.shape
        if h > 8 or self.opset < 11:
            return self.pool()
        scales = self.constant([1, 1, 2, 2])
        return self.node("Resize", [x, self.constant([]), scales], (n, c, 2 * h, 2 * w),
                         mode="nearest", coordinate_transformation_mode="asymmetric",
                         nearest_mode="floor")

    def move(self):
        x = self.image()
        n, c, h, w = x.shape
        kind = self.draw(["Transpose", "Reshape", "Split", "Slice", "Pad", "Gather"])
        if kind == "Transpose":
            return self.node("Transpose", [x], (n, c, w, h), perm=[0, 1, 3, 2])
        if kind == "Reshape":
            return self.node("Reshape", [x, self.constant([n, c, w, h], "int64")],
                             (n, c, w, h))
        if kind == "Split" and c % 2 == 0 and self.opset < 13:
            return self.node("Split", [x], (n, c // 2, h, w), 2, axis=1,
                             split=[c // 2] * 2)[0]
        if kind == "Slice" and h > 2:
            limits = [self.constant(v, "int64") for v in ([1], [h], [2])]
            return self.node("Slice", [x, *limits], (n, c, h - 1, w))
        if kind == "Pad" and h < 12:
            pads = [0, 0, 1, 1, 0, 0, 1, 1]
            if self.opset < 11:
                return self.node("Pad", [x], (n, c, h + 2, w + 2), pads=pads,
                                 mode=self.draw(["constant", "reflect"]))
            inputs = [x, self.constant(pads, "int64")]
            if self.chance(0.5):
                inputs.append(self.constant(0.0))
            return self.node("Pad", inputs, (n, c, h + 2, w + 2))
        if kind == "Gather" and c > 1:
            index = self.constant(list(range(c))[::-1], "int64")
            return self.node("Gather", [x, index], x.shape, axis=1)
        return self.activation(x)

    def gate(self):
        """Squeeze and excite."""
        x = self.image()
        n, c = x.shape[:2]
        mean = self.node("GlobalAveragePool", [x], (n, c, 1, 1))
        inner = self.node("Relu", [self.conv(mean, 4, 1, bias=True)], (n, 4, 1, 1))
        outer = self.conv(inner, c, 1, group=1, bias=True)
        if outer.shape[1] != c:
            return outer
        return self.node("Mul", [x, self.node("Sigmoid", [outer], outer.shape)], x.shape)

    def shape_arithmetic(self):
        """Reshape to a shape that the network computes."""
        x = self.image()
        n, c, h, w = x.shape
        shape = self.node("Shape", [x], (4,), keep=False)
        first = self.node("Gather", [shape, self.constant([0], "int64")], (1,), keep=False,
                          axis=0)
        rest = self.constant([c, w, h], "int64")
        target = self.node("Concat", [first, rest], (4,), keep=False, axis=0)
        return self.node("Reshape", [x, target], (n, c, w, h))

    def mask(self):
        x = self.image()
        found = self.node("Greater", [x, self.constant(0.1)], x.shape, keep=False)
        if self.chance(0.5):
            return self.node("Where", [found, x, self.constant(0.0)], x.shape)
        number = self.node("Cast", [found], x.shape, keep=False, to=TensorProto.FLOAT)
        return self.node("Mul", [x, number], x.shape)

    def head(self):
        """A classifier."""
        x = self.image()
        n, c = x.shape[:2]
        if self.chance(0.5):
            pooled = self.node("GlobalAveragePool", [x], (n, c, 1, 1))
            flat = self.node("Flatten", [pooled], (n, c), axis=1)
        else:
            axes = {"axes": [2, 3], "keepdims": 0}
            flat = self.node("ReduceMean", [x], (n, c), **axes)
        for _ in range(self.random.randint(1, 3)):
            c, out = flat.shape[1], int(self.draw([3, 5, 6]))
            if self.chance(0.7):
                flat = self.node("Gemm", [flat, self.normal(out, c, scale=1 / np.sqrt(c)),
                                          self.normal(out, scale=0.3)], (n, out), transB=1)
            else:
                flat = self.node("MatMul", [flat, self.normal(c, out)], (n, out))
                if self.chance(0.5):
                    flat = self.node("Add", [flat, self.normal(out)], (n, out))
            if self.chance(0.5):
                flat = self.node("Relu", [flat], flat.shape)
        if self.chance(0.2):
            return self.node("Softmax", [flat], flat.shape, axis=1)
        return flat

    def grow(self):
        add, weight = zip(*[
            (self.block, 30), (self.activation, 8), (self.elementwise, 16), (self.concat, 7),
            (self.pool, 6), (self.resize, 3), (self.move, 8), (self.normalization, 4),
            (self.downsampling, 3), (self.transposed, 2), (self.gate, 3), (self.head, 3),
            (self.shape_arithmetic, 2), (self.mask, 2)])
        chance = np.array(weight) / sum(weight)
        self.activation(self.conv(self.inputs[0]))
        if len(self.inputs) > 1:
            self.conv(self.inputs[1])
        for _ in range(self.random.randint(3, 9)):
            add[self.random.choice(len(add), p=chance)]()
        if self.chance(0.5):
            self.conv(self.image())

    def model(self):
        """Every value that nothing reads is an output."""
        read = {name for n in self.nodes for name in n.input}
        free = [v for v in self.values if v.name not in read and v not in self.inputs]
        if self.chance(0.1):
            inner = [v for v in self.values if v.name in read and v not in self.inputs]
            free.append(self.draw(inner))
        def info(v):
            return helper.make_tensor_value_info(v.name, TensorProto.FLOAT, v.shape)
        used = [v for v in self.inputs if v.name in read]
        graph = helper.make_graph(self.nodes, "random", [info(v) for v in used],
                                  [info(v) for v in free],
                                  [c for c in self.constants if c.name in read])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        made.ir_version = 6
        return made


def random_model(seed):
    """(model, shapes of its inputs)"""
    network = Network(seed)
    network.grow()
    model = network.model()
    onnx.checker.check_model(model)
    return model, [[d.dim_value for d in i.type.tensor_type.shape.dim]
                   for i in model.graph.input]
