"""Drawn networks from x to y: constants per channel between moves, pools and functions, in front
of a convolution of one element."""
import random

import numpy as np


class Network:
    """Nodes (op, inputs, outputs, attributes) and constants; the last value and its dims."""

    def __init__(self, seed):
        self.draw, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.nodes, self.held, self.last = [], {}, "x"
        self.dims = [1, self.draw.choice([3, 4, 8]), *[self.draw.choice([8, 8, 8, 1])] * 2]

    def const(self, value):
        self.held[f"k{len(self.held)}"] = np.asarray(value)
        return f"k{len(self.held) - 1}"

    def add(self, op, *more, first=None, **attributes):
        ends = [self.last, *more] if first is None else [first, self.last]
        self.last = f"t{len(self.nodes)}"
        self.nodes.append((op, ends, [self.last], attributes))

    def weight(self, *shape):
        return (self.rng.normal(size=shape) * 0.4).astype(np.float32)

    def conv(self):
        out, kernel = self.draw.choice([4, 8]), self.draw.choice([1, 3]) if self.dims[2] > 1 else 1
        more = [self.const(self.weight(out, self.dims[1], kernel, kernel))]
        if self.draw.random() < 0.5:
            more.append(self.const(self.weight(out) * np.float32(self.draw.choice([1, 8]))))
        self.add("Conv", *more, pads=[kernel // 2] * 4)
        self.dims[1] = out

    def channels(self):
        op = self.draw.choice(["Mul", "Div", "Add", "Sub"])
        k = self.rng.normal(size=(1, self.dims[1], 1, 1)) * self.draw.choice([2, 4])
        if op in ("Mul", "Div"):
            k = np.sign(k) * (np.abs(k) / 2 + 0.2)
        k = self.const(k.astype(np.float32))
        if op != "Div" and self.draw.random() < 0.25:
            self.add(op, first=k)
        else:
            self.add(op, k)

    def pool(self):
        op = self.draw.choice(["AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool",
                               "ReduceMean"])
        if op in ("AveragePool", "MaxPool"):
            if self.dims[2] > 1:
                self.add(op, kernel_shape=[3, 3], pads=[1] * 4)
            return
        self.add(op, **({"axes": [2, 3], "keepdims": 1} if op == "ReduceMean" else {}))
        self.dims[2:] = [1, 1]

    def function(self):
        self.add(self.draw.choice(["Relu", "LeakyRelu", "Sigmoid", "HardSwish", "Tanh", "Abs"]))

    def scalar(self):
        self.add(self.draw.choice(["Mul", "Add"]),
                 self.const(np.float32(self.draw.choice([0.5, 2, -1.5]))))

    def move(self):
        what = self.draw.choice(["order", "slice", "turn", "shape", "join", "pad", "swap"])
        ints = {"order": self.rng.permutation(self.dims[1]), "shape": [0, self.dims[1], -1]}
        if what == "order":
            self.add("Gather", self.const(np.int64(ints["order"])), axis=1)
        elif what == "slice" and self.dims[1] > 2:
            self.add("Slice", *[self.const(np.int64([k])) for k in (1, self.dims[1], 1)])
            self.dims[1] -= 1
        elif what == "swap" and self.dims[1] % 2 == 0:
            halves = [f"{self.last}_{k}" for k in "ab"]
            self.nodes.append(("Split", [self.last], halves, {"axis": 1}))
            self.last = halves[1]
            self.add("Concat", halves[0], axis=1)
        elif what == "turn":
            self.add("Transpose", perm=[0, 1, 3, 2])
        elif what == "shape":
            self.add("Reshape", self.const(np.int64(ints["shape"])))
            self.add("Reshape", self.const(np.int64([0, *self.dims[1:]])))
        elif what == "join":
            self.add("Concat", self.last, axis=1)
            self.dims[1] *= 2
        elif what == "pad" and self.dims[2] > 1:
            self.add("Pad", self.const(np.int64([0, 0, 1, 1] * 2)))
            self.dims[2:] = [self.dims[2] + 2] * 2


def drawn(seed):
    """Nodes, constants, samples, whether the batch is open."""
    net = Network(seed)
    shape = list(net.dims)
    if net.draw.random() < 0.6:
        net.conv()
    if net.draw.random() < 0.5:
        net.pool()
    for _ in range(net.draw.randint(1, 4)):
        net.draw.choice([net.channels] * 4 + [net.pool, net.function, net.scalar, net.move])()
    net.nodes.append(("Conv", [net.last, net.const(net.weight(4, net.dims[1], 1, 1))], ["y"], {}))
    x = (net.rng.normal(size=(6, *shape)) * 2).astype(np.float32)
    return net.nodes, net.held, x, net.draw.random() < 0.5
