#!/usr/bin/env python3
"""train_digits.py -- trains the demo model and writes configs/models/digits.onnx and the
data beside it.  Plain numpy, seeded: the same versions and machine give the same bytes.

Data: the 1,797 8x8 digits of scikit-learn (UCI optical recognition of handwritten
digits).  One third, selected by a seeded permutation, is used only for the final
test.  Run from the project's root, in an environment with scikit-learn, onnx
and onnxruntime:   python tools/dev/train_digits.py

Layers are objects with forward(x, training) and backward(dy); shapes are (N, C, H, W).
"""
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SEED, EPOCHS, BATCH, RATE, DECAY, EPS = 7, 60, 32, 2e-3, 2e-4, 1e-5
MODELS, DATA = pathlib.Path("configs/models"), pathlib.Path("configs/data")
rng = np.random.default_rng(SEED)


class Conv:
    def __init__(self, cin, cout, k):
        self.w = rng.normal(0, np.sqrt(2 / (cin * k * k)), (cout, cin, k, k))
        self.params, self.k = [self.w], k

    def forward(self, x, training):
        p = self.k // 2
        padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
        view = np.lib.stride_tricks.sliding_window_view(padded, (self.k, self.k), (2, 3))
        self.cols, self.shape = view, padded.shape
        return np.einsum("nchwij,ocij->nohw", view, self.w, optimize=True)

    def backward(self, dy):
        self.grads = [np.einsum("nchwij,nohw->ocij", self.cols, dy, optimize=True)]
        dcols = np.einsum("nohw,ocij->nchwij", dy, self.w, optimize=True)
        dx, (h, w) = np.zeros(self.shape), dy.shape[2:]
        for i in range(self.k):
            for j in range(self.k):
                dx[:, :, i:i + h, j:j + w] += dcols[..., i, j]
        p = self.k // 2
        return dx[:, :, p:p + h, p:p + w]

    def export(self, net, x):
        p = self.k // 2
        return net.node("Conv", [x, net.constant("w", self.w)],
                        kernel_shape=[self.k] * 2, pads=[p] * 4)


class BatchNorm:
    def __init__(self, c):
        self.gamma, self.beta = np.ones(c), np.zeros(c)
        self.mean, self.var = np.zeros(c), np.ones(c)
        self.params = [self.gamma, self.beta]

    def forward(self, x, training):
        if training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
            self.mean += 0.1 * (mean - self.mean)
            self.var += 0.1 * (var - self.var)
        else:
            mean, var = self.mean, self.var
        self.std = np.sqrt(var + EPS)[:, None, None]
        self.xhat = (x - mean[:, None, None]) / self.std
        return self.gamma[:, None, None] * self.xhat + self.beta[:, None, None]

    def backward(self, dy):
        self.grads = [(dy * self.xhat).sum((0, 2, 3)), dy.sum((0, 2, 3))]
        d = dy * self.gamma[:, None, None]
        axes = dict(axis=(0, 2, 3), keepdims=True)
        return (d - d.mean(**axes) - self.xhat * (d * self.xhat).mean(**axes)) / self.std

    def export(self, net, x):
        parts = zip(("scale", "shift", "mean", "var"),
                    (self.gamma, self.beta, self.mean, self.var))
        return net.node("BatchNormalization",
                        [x, *(net.constant(n, v) for n, v in parts)], epsilon=EPS)


class Relu:
    params, grads = [], []

    def forward(self, x, training):
        self.on = x > 0
        return x * self.on

    def backward(self, dy):
        return dy * self.on

    def export(self, net, x):
        return net.node("Relu", [x])


class Pool:
    """2x2 blocks, maximum or mean."""
    params, grads = [], []

    def __init__(self, op):
        self.op = op

    def forward(self, x, training):
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        self.shape = x.shape
        if self.op == "AveragePool":
            self.share = np.full(blocks.shape, 0.25)
            return blocks.mean((3, 5))
        top = blocks.max((3, 5), keepdims=True)
        self.share = blocks == top
        self.share = self.share / self.share.sum((3, 5), keepdims=True)
        return top[:, :, :, 0, :, 0]

    def backward(self, dy):
        return (self.share * dy[:, :, :, None, :, None]).reshape(self.shape)

    def export(self, net, x):
        return net.node(self.op, [x], kernel_shape=[2, 2], strides=[2, 2])


class Flatten:
    params, grads = [], []

    def forward(self, x, training):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy):
        return dy.reshape(self.shape)

    def export(self, net, x):
        return net.node("Flatten", [x], axis=1)


class Gemm:
    def __init__(self, cin, cout):
        self.w = rng.normal(0, np.sqrt(2 / cin), (cout, cin))
        self.b = np.zeros(cout)
        self.params = [self.w, self.b]

    def forward(self, x, training):
        self.x = x
        return x @ self.w.T + self.b

    def backward(self, dy):
        self.grads = [dy.T @ self.x, dy.sum(0)]
        return dy @ self.w

    def export(self, net, x):
        return net.node("Gemm", [x, net.constant("w", self.w), net.constant("b", self.b)],
                        transB=1)


class Chain:
    def __init__(self, *layers):
        self.layers = layers

    def leaves(self):
        for layer in self.layers:
            yield from layer.leaves() if isinstance(layer, Chain) else [layer]

    def forward(self, x, training):
        for layer in self.layers:
            x = layer.forward(x, training)
        return x

    def backward(self, dy):
        for layer in reversed(self.layers):
            dy = layer.backward(dy)
        return dy

    def export(self, net, x):
        for layer in self.layers:
            x = layer.export(net, x)
        return x


class Residual(Chain):
    """x + chain(x)"""

    def forward(self, x, training):
        return x + super().forward(x, training)

    def backward(self, dy):
        return dy + super().backward(dy)

    def export(self, net, x):
        return net.node("Add", [super().export(net, x), x])


class Fork(Chain):
    """Concat of the outputs of all members."""

    def forward(self, x, training):
        parts = [layer.forward(x, training) for layer in self.layers]
        self.split = np.cumsum([p.shape[1] for p in parts])[:-1]
        return np.concatenate(parts, axis=1)

    def backward(self, dy):
        parts = np.split(dy, self.split, axis=1)
        return sum(layer.backward(p) for layer, p in zip(self.layers, parts))

    def export(self, net, x):
        return net.node("Concat", [layer.export(net, x) for layer in self.layers], axis=1)


def block(cin, cout, k):
    return Chain(Conv(cin, cout, k), BatchNorm(cout), Relu())


def network():
    residual = Residual(block(16, 16, 3), Conv(16, 16, 3), BatchNorm(16))
    fork = Fork(block(16, 16, 1), block(16, 16, 3))
    return Chain(block(1, 16, 3), residual, Relu(), Pool("MaxPool"), fork,
                 block(32, 32, 3), Pool("AveragePool"), Flatten(), Gemm(128, 32), Relu(),
                 Gemm(32, 10))


class Adam:
    def __init__(self, layers):
        self.layers, self.t = layers, 0
        self.m = [[np.zeros_like(p) for p in layer.params] for layer in layers]
        self.v = [[np.zeros_like(p) for p in layer.params] for layer in layers]

    def step(self, rate):
        self.t += 1
        for layer, ms, vs in zip(self.layers, self.m, self.v):
            for p, g, m, v in zip(layer.params, layer.grads, ms, vs):
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                mhat, vhat = m / (1 - 0.9 ** self.t), v / (1 - 0.999 ** self.t)
                p -= rate * (mhat / (np.sqrt(vhat) + 1e-8) + DECAY * p)


def shifted(x):
    """Each image moved by up to one pixel either way, edges filled with paper."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    at = rng.integers(0, 3, (len(x), 2))
    return np.stack([p[:, i:i + 8, j:j + 8] for p, (i, j) in zip(padded, at)])


def train(net, x, y):
    adam, steps = Adam(list(net.leaves())), EPOCHS * (len(x) // BATCH)
    for epoch in range(EPOCHS):
        order, loss = rng.permutation(len(x)), 0.0
        for k in range(len(x) // BATCH):
            pick = order[k * BATCH:(k + 1) * BATCH]
            logits = net.forward(shifted(x[pick]), True)
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            loss -= np.log(p[np.arange(BATCH), y[pick]]).mean()
            p[np.arange(BATCH), y[pick]] -= 1
            net.backward(p / BATCH)
            adam.step(RATE * 0.5 * (1 + np.cos(np.pi * adam.t / steps)))
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {loss / (len(x) // BATCH):.4f}")


class Onnx:
    """Collects nodes and constants; a value is named after its node."""

    def __init__(self):
        self.nodes, self.constants, self.count = [], [], {}

    def constant(self, role, array):
        name = f"c{len(self.constants)}_{role}"
        self.constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, op, inputs, **attributes):
        k = self.count[op] = self.count.get(op, -1) + 1
        name = f"{op.lower()}{k}"
        output = f"{name}_out"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def model(self, output):
        self.nodes[-1].output[0] = output
        value = lambda n, dims: helper.make_tensor_value_info(n, TensorProto.FLOAT, dims)
        graph = helper.make_graph(self.nodes, "digits", [value("image", ["N", 1, 8, 8])],
                                  [value(output, ["N", 10])], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                 ir_version=8, producer_name="quantgraph train_digits.py")


def main():
    digits = load_digits()
    x = (digits.images / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(SEED).permutation(len(x))
    test, rest = order[:599], order[599:]

    net = network()
    train(net, x[rest], digits.target[rest])
    out = Onnx()
    net.export(out, "image")
    model = out.model("logits")
    onnx.checker.check_model(model, full_check=True)
    MODELS.mkdir(parents=True, exist_ok=True)
    DATA.mkdir(parents=True, exist_ok=True)
    onnx.save(model, MODELS / "digits.onnx")
    np.save(DATA / "digits_calib.npy", x[rest[:64]])
    np.save(DATA / "digits_test.npy", x[test])
    np.save(DATA / "digits_labels.npy", digits.target[test].astype(np.int64))

    session = onnxruntime.InferenceSession(MODELS / "digits.onnx")
    guess = session.run(None, {"image": x[test]})[0].argmax(1)
    right = int((guess == digits.target[test]).sum())
    print(f"onnxruntime: {right} of {len(test)} held-out digits, {right / len(test):.2%}")


if __name__ == "__main__":
    main()
