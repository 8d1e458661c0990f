"""graph -- writes networks of the zoo: ONNX graphs in the manner of an exporter, with
seeded weights.

A Net has a style, which names nodes and values, and decides how constants and
decomposed operators are written:

    torch   "/layer1/layer1.0/conv1/Conv_output_0", constants as Constant nodes
    tf      "StatefulPartitionedCall/model/conv1/Conv2D:0", channels last between
            Transposes where a network asks for it
    paddle  "conv2d_3.tmp_0", "conv2d_3.w_0"

Values are of class Value: a name and the shape for the samples; a dim that is open in
the file keeps the size of the samples here.  Weights follow He et al. (2015), so that
activations keep their size through ReLU networks."""
import contextlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NETWORKS = {}
EXPORTER = {"torch": ("pytorch", "2.3.0"), "tf": ("tf2onnx", "1.16.1"),
            "paddle": ("PaddlePaddle", "")}


def network(kind, style="torch", opset=17, half=False):
    """Registers a function that writes the network of its name into a Net."""
    def register(write):
        NETWORKS[write.__name__] = (write, kind, style, opset, half)
        return write
    return register


def build(name, wide=False):
    """The Net of that name: small, or with its published widths."""
    write, kind, style, opset, half = NETWORKS[name]
    net = Net(name, style, opset, half, wide)
    net.kind = kind
    write(net)
    return net


class Value(str):
    """A value's name, with its shape."""

    def __new__(cls, name, shape):
        self = super().__new__(cls, name)
        self.shape = tuple(int(d) for d in shape)
        return self


class Net:
    def __init__(self, name, style, opset, half, wide):
        self.name, self.style, self.opset, self.wide = name, style, opset, wide
        self.dtype = np.float16 if half else np.float32
        self.rng = np.random.default_rng(sum(map(ord, name)))
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []
        self.feeds, self.path, self.count, self.domains = {}, [], {}, set()
        self.shapes = {}

    def size(self, small, published):
        return published if self.wide else small

    # --- names ---

    @contextlib.contextmanager
    def at(self, *scope):
        self.path += scope
        yield
        del self.path[-len(scope):]

    def number(self, key):
        self.count[key] = self.count.get(key, -1) + 1
        return self.count[key]

    def names(self, op, outs):
        """Name of a node and of its outputs."""
        if self.style == "paddle":
            at = self.number(op)
            return f"p2o.{op}.{at}", [f"{op.lower()}_{at}.tmp_{k}" for k in range(outs)]
        prefix = "" if self.style == "torch" else "StatefulPartitionedCall/model/"
        scope = "/".join(self.path + [op])
        at = self.number(scope)
        node = f"{prefix}/{scope}" if self.style == "torch" else prefix + scope
        node += f"_{at}" if at else ""
        form = "{}_output_{}" if self.style == "torch" else "{}:{}"
        return node, [form.format(node, k) for k in range(outs)]

    def weight_name(self, what):
        if self.style == "paddle":
            return f"{what}_{self.number('p/' + what)}.w_0"
        if self.style == "tf":
            base = "/".join(["StatefulPartitionedCall/model", *self.path, what])
            at = self.number(base)
            return f"{base}/ReadVariableOp{f'_{at}' if at else ''}:0"
        base = ".".join(p.split("/")[-1] for p in self.path[-2:]) or "model"
        at = self.number("w/" + base + what)
        return f"{base}.{what}" if not at else f"onnx::{base}.{what}_{at}"

    # --- values ---

    def input(self, name, shape, dims=None, make=None, dtype=None):
        """dims: as declared in the file.  make(rng, shape): one sample."""
        dtype = np.dtype(dtype or self.dtype)
        make = make or (lambda rng, shape: pictures(rng, shape) if len(shape) == 4
                        else rng.normal(0, 1, shape))
        self.inputs.append(helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(dtype), dims or shape))
        rng = np.random.default_rng(len(self.inputs))
        self.shapes[name] = shape
        self.feeds[name] = lambda n: np.stack([make(rng, shape) for _ in range(n)]
                                              ).astype(dtype)
        return Value(name, shape)

    def tokens(self, name, shape, high, dims=None):
        return self.input(name, shape, dims, lambda rng, s: rng.integers(0, high, s),
                          np.int64)

    def weight(self, array, what="weight", dtype=None):
        """An initializer."""
        array = np.asarray(array)
        if array.dtype.kind == "f":
            array = array.astype(dtype or self.dtype)
        name = Value(self.weight_name(what), array.shape)
        self.constants.append(numpy_helper.from_array(array, str(name)))
        return name

    def const(self, value, dtype=None):
        """A constant that is no weight: a Constant node of torch, else an initializer."""
        array = np.asarray(value, dtype=dtype)
        if array.dtype.kind == "f" and dtype is None:
            array = array.astype(self.dtype)
        if self.style != "torch":
            what = "const_fold_opt_" if self.style == "tf" else "fill_constant"
            name = Value(f"{what}_{self.number(what)}", array.shape)
            self.constants.append(numpy_helper.from_array(array, str(name)))
            return name
        return self.op("Constant", shape=array.shape,
                       value=numpy_helper.from_array(array))

    def normal(self, *shape, fan=None, gain=2.0, what="weight"):
        fan = fan or int(np.prod(shape[1:])) or 1
        return self.weight(self.rng.normal(0, np.sqrt(gain / fan), shape), what)

    def bias(self, n, what="bias"):
        return self.weight(self.rng.normal(0, 0.05, n), what)

    def op(self, kind, *inputs, shape=None, shapes=None, domain="", **attributes):
        """A node.  shape: of its output, else what broadcasting gives; shapes: of
        several outputs."""
        ins = [i if isinstance(i, str) else self.const(i) for i in inputs]
        if shapes is None:
            shapes = [shape if shape is not None else np.broadcast_shapes(
                *(i.shape for i in ins if isinstance(i, Value)))]
        node, outs = self.names(kind, len(shapes))
        self.nodes.append(helper.make_node(kind, [str(i) for i in ins], outs, node,
                                           domain=domain, **attributes))
        self.domains.add(domain)
        values = [Value(o, s) for o, s in zip(outs, shapes)]
        return values[0] if len(values) == 1 else values

    def output(self, value, name=None, dims=None, dtype=None):
        """Marks an output; a name makes it the last node's."""
        if name:
            for n in self.nodes:
                n.output[:] = [name if o == value else o for o in n.output]
                n.input[:] = [name if i == value else i for i in n.input]
            value = Value(name, value.shape)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        self.outputs.append(helper.make_tensor_value_info(
            str(value), kind, dims if dims is not None else value.shape))

    # --- layers ---

    def conv(self, x, out, k=3, s=1, g=1, d=1, pad=None, bias=True, act=None, gain=2.0,
             bn=False):
        """k, d: a number or one per axis; pad: per axis, default 'same'."""
        axes = len(x.shape) - 2
        k, d, s = ((v,) * axes if isinstance(v, int) else v for v in (k, d, s))
        pad = [(b - 1) * c // 2 for b, c in zip(k, d)] if pad is None else list(pad)
        ins = [x, self.normal(out, x.shape[1] // g, *k, gain=gain)]
        if bias and not bn:
            ins.append(self.bias(out))
        size = [(n + 2 * p - c * (b - 1) - 1) // t + 1
                for n, p, c, b, t in zip(x.shape[2:], pad, d, k, s)]
        y = self.op("Conv", *ins, shape=(x.shape[0], out, *size), group=g, kernel_shape=k,
                    strides=s, dilations=d, pads=pad * 2)
        return self.act(self.batchnorm(y) if bn else y, act)

    def deconv(self, x, out, k=2, s=2, pad=0, act=None, gain=2.0, bn=False):
        c = x.shape[1]
        w = self.normal(c, out, k, k, fan=c * k * k // (s * s), gain=gain)
        size = [(n - 1) * s + k - 2 * pad for n in x.shape[2:]]
        y = self.op("ConvTranspose", x, w, *([] if bn else [self.bias(out)]),
                    shape=(x.shape[0], out, *size), kernel_shape=[k, k], strides=[s, s],
                    pads=[pad] * 4)
        return self.act(self.batchnorm(y) if bn else y, act)

    def batchnorm(self, x):
        """Statistics as training leaves them."""
        c, r = x.shape[1], self.rng
        return self.op("BatchNormalization", x, self.weight(r.uniform(0.8, 1.2, c), "bn.w"),
                       self.bias(c, "bn.b"), self.weight(r.normal(0, 0.1, c), "bn.mean"),
                       self.weight(r.uniform(0.7, 1.3, c), "bn.var"), shape=x.shape,
                       epsilon=1e-5)

    def act(self, x, kind):
        if not kind:
            return x
        return getattr(self, "act_" + kind)(x)

    def act_relu(self, x):
        return self.op("Relu", x)

    def act_relu6(self, x):
        return self.op("Clip", x, 0.0, 6.0, shape=x.shape)

    def act_leaky(self, x):
        return self.op("LeakyRelu", x, alpha=0.1)

    def act_prelu(self, x):
        slope = self.weight(self.rng.uniform(0.05, 0.3, (x.shape[1], 1, 1)), "slope")
        return self.op("PRelu", x, slope, shape=x.shape)

    def act_sigmoid(self, x):
        return self.op("Sigmoid", x)

    def act_tanh(self, x):
        return self.op("Tanh", x)

    def act_silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def act_hswish(self, x):
        if self.style == "torch":
            return self.op("HardSwish", x)
        if self.style == "paddle":
            return self.op("Mul", x, self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
        y = self.op("Clip", self.op("Add", x, 3.0), 0.0, 6.0, shape=x.shape)
        return self.op("Mul", x, self.op("Mul", y, 1 / 6))

    def act_hsigmoid(self, x):
        return self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)

    def act_mish(self, x):
        return self.op("Mul", x, self.op("Tanh", self.op("Softplus", x)))

    def act_gelu(self, x):
        """torch.nn.GELU() before opset 20, decomposed by the exporter."""
        y = self.op("Erf", self.op("Div", x, 1.4142135))
        return self.op("Mul", self.op("Mul", x, self.op("Add", y, 1.0)), 0.5)

    def act_gelu_tanh(self, x):
        cube = self.op("Mul", self.op("Pow", x, 3.0), 0.044715)
        y = self.op("Tanh", self.op("Mul", self.op("Add", x, cube), 0.7978845608))
        return self.op("Mul", self.op("Mul", x, 0.5), self.op("Add", y, 1.0))

    def pool(self, x, kind="Max", k=2, s=2, pad=0, ceil=0):
        size = [(n + 2 * pad - k + (s - 1 if ceil else 0)) // s + 1 for n in x.shape[2:]]
        more = {"count_include_pad": 1} if kind == "Average" and pad else {}
        if self.opset >= 10:
            more["ceil_mode"] = ceil
        return self.op(kind + "Pool", x, shape=(*x.shape[:2], *size), kernel_shape=[k, k],
                       strides=[s, s], pads=[pad] * 4, **more)

    def mean(self, x, axes, keep=True, kind="ReduceMean"):
        shape = [1 if i in [a % len(x.shape) for a in axes] else d
                 for i, d in enumerate(x.shape)]
        if not keep:
            shape = [d for i, d in enumerate(x.shape)
                     if i not in [a % len(x.shape) for a in axes]]
        if self.opset >= 18:
            return self.op(kind, x, self.const(axes, np.int64), shape=shape,
                           keepdims=int(keep))
        return self.op(kind, x, shape=shape, axes=axes, keepdims=int(keep))

    def gap(self, x):
        """Adaptive pooling to one pixel, as the exporter writes it."""
        if self.style == "tf":
            return self.mean(x, [2, 3])
        return self.op("GlobalAveragePool", x, shape=(*x.shape[:2], 1, 1))

    def linear(self, x, out, act=None, gain=2.0, bias=True):
        """Gemm on matrices, MatMul and Add on more axes, as torch exports them."""
        c = x.shape[-1]
        if len(x.shape) == 2 and self.style == "torch":
            y = self.op("Gemm", x, self.normal(out, c, gain=gain),
                        *([self.bias(out)] if bias else []), shape=(x.shape[0], out),
                        alpha=1.0, beta=1.0, transB=1)
            return self.act(y, act)
        w = self.normal(c, out, fan=c, gain=gain)
        y = self.op("MatMul", x, w, shape=(*x.shape[:-1], out))
        if bias:
            b = self.bias(out)
            y = self.op("Add", b, y) if self.style == "torch" else self.op("Add", y, b)
        return self.act(y, act)

    def classifier(self, x, classes=10, gain=1.0):
        x = self.gap(x)
        with self.at("head"):
            y = self.linear(self.op("Flatten", x, shape=(x.shape[0], x.shape[1]), axis=1),
                            self.size(classes, 1000), gain=gain)
        self.output(y, None if self.style == "torch" else "save_infer_model/scale_0.tmp_0")

    # --- moving ---

    def transpose(self, x, *perm):
        return self.op("Transpose", x, shape=[x.shape[p] for p in perm], perm=perm)

    def reshape(self, x, *dims):
        """A dim written as "d0" is read from x with Shape and Gather."""
        known = [x.shape[int(d[1:])] if isinstance(d, str) else d for d in dims]
        known = [x.shape[i] if d == 0 else d for i, d in enumerate(known)]
        if -1 in known:
            known[known.index(-1)] = int(np.prod(x.shape)) // -int(np.prod(known))
        if not any(isinstance(d, str) for d in dims):
            return self.op("Reshape", x, self.const(dims, np.int64), shape=known)
        parts = [self.dim(x, int(d[1:])) if isinstance(d, str)
                 else self.const([d], np.int64) for d in dims]
        to = self.op("Concat", *parts, shape=(len(dims),), axis=0)
        return self.op("Reshape", x, to, shape=known)

    def unsqueeze(self, x, *axes):
        shape = list(x.shape)
        for a in axes:
            shape.insert(a, 1)
        if self.opset >= 13:
            return self.op("Unsqueeze", x, self.const(list(axes), np.int64), shape=shape)
        return self.op("Unsqueeze", x, shape=shape, axes=list(axes))

    def dim(self, x, axis):
        """Shape, Gather and Unsqueeze: one open dim, as a vector."""
        size = self.op("Shape", x, shape=(len(x.shape),))
        one = self.op("Gather", size, self.const(axis, np.int64), shape=(), axis=0)
        return self.unsqueeze(one, 0)

    def expand(self, x, like, *sizes):
        """Tensor.expand(-1, ...) by torch: the first dim of `like`; -1 keeps a size."""
        to = self.op("Concat", self.dim(like, 0), self.const(sizes, np.int64),
                     shape=(1 + len(sizes),), axis=0)
        keep = self.op("Equal", to, self.const([-1] * (1 + len(sizes)), np.int64))
        to = self.op("Where", keep, self.const(x.shape, np.int64), to)
        return self.op("Expand", x, to, shape=(like.shape[0], *x.shape[1:]))

    def concat(self, *xs, axis=1):
        shape = list(xs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in xs)
        return self.op("Concat", *xs, shape=shape, axis=axis)

    def slice(self, x, axis, start, end, step=1):
        shape = list(x.shape)
        shape[axis] = len(range(*slice(start, end, step).indices(shape[axis])))
        ends = [end if end is not None else np.iinfo(np.int64).max]
        return self.op("Slice", x, *(self.const(v, np.int64) for v in
                                     ([start], ends, [axis], [step])), shape=shape)

    def split(self, x, parts, axis=1):
        shape = list(x.shape)
        shape[axis] //= parts
        sizes = self.const([shape[axis]] * parts, np.int64)
        if self.opset >= 13:
            return self.op("Split", x, sizes, shapes=[shape] * parts, axis=axis)
        return self.op("Split", x, shapes=[shape] * parts, axis=axis)

    def gather(self, table, ids, axis=0):
        shape = (*table.shape[:axis], *ids.shape, *table.shape[axis + 1:])
        return self.op("Gather", table, ids, shape=shape, axis=axis)

    def matmul(self, a, b):
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return self.op("MatMul", a, b, shape=(*lead, a.shape[-2], b.shape[-1]))

    def softmax(self, x, axis=-1):
        return self.op("Softmax", x, axis=axis)

    def resize(self, x, scale=2, mode="nearest", coordinates="asymmetric", **more):
        shape = (*x.shape[:2], *(int(n * scale) for n in x.shape[2:]))
        scales = self.const([1, 1, scale, scale], np.float32)
        more["nearest_mode"] = "floor" if mode == "nearest" else "round_prefer_floor"
        return self.op("Resize", x, self.absent(), scales, shape=shape, mode=mode,
                       coordinate_transformation_mode=coordinates, **more)

    def absent(self):
        """roi or scales of Resize: empty, since opset 13 left out."""
        return "" if self.opset >= 13 else self.const([], np.float32)

    def resize_to(self, x, shape, sizes, mode, coordinates):
        return self.op("Resize", x, self.absent(), self.absent(), sizes, shape=shape,
                       mode=mode, coordinate_transformation_mode=coordinates,
                       nearest_mode="floor")

    # --- blocks ---

    def layernorm(self, x, decomposed=False, eps=1e-5):
        c = x.shape[-1]
        scale = self.weight(self.rng.uniform(0.8, 1.2, c), "weight")
        if not decomposed:
            return self.op("LayerNormalization", x, scale, self.bias(c), shape=x.shape,
                           axis=-1, epsilon=eps)
        apart = self.op("Sub", x, self.mean(x, [-1]))
        var = self.mean(self.op("Pow", apart, 2.0), [-1])
        y = self.op("Div", apart, self.op("Sqrt", self.op("Add", var, eps)))
        return self.op("Add", self.op("Mul", y, scale), self.bias(c))

    def rmsnorm(self, x, eps=1e-6):
        power = self.mean(self.op("Pow", x, 2.0), [-1])
        root = self.op("Sqrt", self.op("Add", power, eps))
        y = self.op("Mul", x, self.op("Reciprocal", root))
        return self.op("Mul", self.weight(self.rng.uniform(0.8, 1.2, x.shape[-1])), y)

    def groupnorm(self, x, groups):
        """Decomposed by InstanceNormalization, as before opset 18."""
        ones = self.const(np.ones(groups)), self.const(np.zeros(groups))
        y = self.reshape(x, 0, groups, -1)
        y = self.op("InstanceNormalization", y, *ones, shape=y.shape, epsilon=1e-5)
        y = self.reshape(y, *x.shape)
        c = x.shape[1]
        y = self.op("Mul", y, self.weight(self.rng.uniform(0.8, 1.2, (c, 1, 1))))
        return self.op("Add", y, self.bias((c, 1, 1)))

    def squeeze_excite(self, x, mid, act="relu", gate="sigmoid"):
        with self.at("se"):
            y = self.conv(self.gap(x), mid, 1, act=act)
            return self.op("Mul", x, self.conv(y, x.shape[1], 1, act=gate, gain=1.0))

    def pixel_shuffle(self, x, r):
        b, c, h, w = x.shape
        return self.op("DepthToSpace", x, shape=(b, c // r // r, h * r, w * r),
                       blocksize=r, mode="CRD")

    def heads(self, x, heads, open_dims):
        """[b, n, c] -> [b, heads, n, c / heads]"""
        b, n, c = x.shape
        dims = ("d0", "d1") if open_dims else (b, n)
        return self.transpose(self.reshape(x, *dims, heads, c // heads), 0, 2, 1, 3)

    def attend(self, q, k, v, mask=None):
        """Scaled dot products; mask(scores) -> scores.  -> [b, n, c]"""
        scores = self.matmul(q, self.transpose(k, 0, 1, 3, 2))
        scores = self.op("Div", scores, float(np.sqrt(q.shape[-1])))
        scores = mask(scores) if mask else scores
        y = self.transpose(self.matmul(self.softmax(scores), v), 0, 2, 1, 3)
        b, n, h, c = y.shape
        return self.reshape(y, 0, 0, h * c)

    def attention(self, x, heads, mask=None, open_dims=False, bias=True):
        c = x.shape[-1]
        with self.at("attn"):
            q, k, v = (self.heads(self.linear(x, c, gain=1.0, bias=bias), heads,
                                  open_dims) for _ in range(3))
            return self.linear(self.attend(q, k, v, mask), c, gain=0.5, bias=bias)

    def mlp(self, x, mid, act="gelu"):
        with self.at("mlp"):
            return self.linear(self.linear(x, mid, act), x.shape[-1], gain=0.5)

    # --- the file ---

    def close(self):
        """Every input has the shape of the samples."""
        for i in self.inputs:
            dims = i.type.tensor_type.shape
            for d, n in zip(dims.dim, self.shapes[i.name]):
                d.dim_value = n

    def proto(self):
        graph = helper.make_graph(self.nodes, f"{self.name}_graph", self.inputs,
                                  self.outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset)]
        if "com.microsoft" in self.domains:
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        producer, version = EXPORTER[self.style]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8,
                                 producer_name=producer, producer_version=version)

    def save(self, path, samples):
        """Writes the model, and beside it samples in an .npz; returns the samples."""
        onnx.save(self.proto(), path)
        data = {name: make(samples) for name, make in self.feeds.items()}
        np.savez(str(path).removesuffix(".onnx") + ".npz", **data)
        return data


def pictures(rng, shape):
    """Like photos: smooth patches with a little noise."""
    cells = [-(-n // 8) for n in shape[-2:]]
    coarse = rng.uniform(-1, 1, (*shape[:-2], *cells))
    patches = np.kron(coarse, np.ones((8, 8)))[..., :shape[-2], :shape[-1]]
    return np.clip(patches + rng.normal(0, 0.1, shape), -1, 1)


FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
