#!/usr/bin/env python3
"""What `qg lint` predicts of single operators at the border of what a runtime has integer
kernels for, against the graphs that the runtimes made of our files: as test_lint_runtimes.py
does with whole models.  Each row is a network of one to three nodes, a backend and words of
--set; both sets of names must be equal, and those that the row gives."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    import test_lint_runtimes as runtimes
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

PICTURE = 1, 4, 6, 6
VOLUME = 1, 4, 5, 5, 5
SHIFTED = "op={} slot=weight policy=[per-tensor,linear,asymmetric] range=[-128,127]"
ENDS = np.array([-1, -0.5, 0.5, 127 / 128]).reshape(1, 4, 1, 1)  # 0 is code 128 of uint8
UNSIGNED = "op={} slot=weight policy=[per-tensor,linear,asymmetric] range=[0,255]"


def node(text, **attributes):
    """'Conv x w -> y': its name is that of its output."""
    op, *inputs = text.split()
    *inputs, _, output = inputs
    return helper.make_node(op, [i.strip("_") for i in inputs], [output], name=output, **attributes)


def constant(rng, w):
    if isinstance(w, tuple):
        w = rng.normal(0.1, 0.3, w)
    return w if w.dtype == np.int64 else w.astype(np.float32)


class Network:
    """weights: dims by name, or an array; samples: of x, and what is added to them."""

    def __init__(self, nodes, weights, shape=PICTURE, opset=17, outputs=("y",), moved=0.2, positive=False):
        self.nodes, self.weights, self.shape, self.opset = nodes, weights, shape, opset
        self.outputs, self.moved, self.positive = outputs, moved, positive

    def save(self, folder):
        rng = np.random.default_rng(3)
        constants = [numpy_helper.from_array(
            constant(rng, w), k)
            for k, w in self.weights.items()]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "net", [value("x", TensorProto.FLOAT, self.shape)],
                                  [value(o, TensorProto.FLOAT, None) for o in self.outputs], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)],
                                    ir_version=8), folder / "m.onnx")
        dims = self.shape[1:] if self.shape[0] == 1 else self.shape
        samples = rng.normal(0, 0.3, (4, *dims)) + self.moved
        samples = np.abs(samples) if self.positive else samples
        np.savez(folder / "x.npz", x=samples.astype(np.float32))

    def quantize(self, folder, backend, sets):
        self.save(folder)
        agreement.qg("quantize", folder / "m.onnx", "-b", backend, "-d", folder / "x.npz", "-o",
                     folder / "s", *(word for s in sets for word in ("--set", s)))
        return folder / "s"


def conv(weight=(4, 4, 3, 3), shape=PICTURE, **attributes):
    return Network([node("Conv x w -> y", **attributes)], {"w": weight}, shape)


def turned(weight=(4, 4, 2, 2), shape=PICTURE, moved=0.2, positive=True, **attributes):
    return Network([node("ConvTranspose x w -> y", **attributes)], {"w": weight}, shape,
                   moved=moved, positive=positive)


def beside(weight=(4, 4, 1, 1), other="Conv", positive=True, shape=PICTURE, first=None, w=(4, 4, 2, 2),
           **attributes):
    """x is read by a transposed convolution, or `first`, and by another node."""
    return Network([first or node("ConvTranspose x w -> y", strides=[2, 2]),
                    node(f"{other} x v -> z", **attributes)], {"w": w, "v": weight},
                   shape, outputs=("y", "z"), positive=positive)


def product(op, weight, shape):
    return Network([node(f"{op} x w -> y")], {"w": weight}, shape)


def rows(*nodes, opset=17, shape=(3, 6), **weights):
    return Network([node(n) if isinstance(n, str) else n for n in nodes],
                   {"w": (6, 6), **weights}, shape, opset)


def biased(bias=(4,), channels=4):
    return Network([node("Conv x w b -> c"), node("Relu c -> r"), node("Conv r v b -> y")],
                   {"w": (channels, 4, 3, 3), "b": bias, "v": (channels, channels, 1, 1)})


def softmax(opset, axis):
    return Network([node("MatMul x w -> m"), node("Softmax m -> y", axis=axis)], {"w": (6, 6)},
                   (2, 3, 6), opset)


def stepped(step, *behind, **options):
    """A Softmax whose output, or what is behind it, is on that grid, and the word for it."""
    net = rows("MatMul x w -> m", node("Softmax m -> s" if behind else "Softmax m -> y", axis=options.pop("axis", -1)),
               *behind, **{"shape": (2, 3, 6), **options})
    return net, ORT, ("op=y slot=output policy=[per-tensor,linear,asymmetric] range=[-128,127] "
                      f"observer=fixed step={step!r} zero=1")


def branches(*nodes, opset=12, outputs=("y",), shape=PICTURE, **weights):
    return Network(nodes, {"w": (4, 4, 1, 1), "v": (4, 4, 1, 1), **weights}, shape, opset, outputs)


def joined(opset):
    """The codes of v are carried to g, and rounded again for y."""
    return rows("Transpose x -> v", "Sigmoid v -> g", node("Concat g v -> y", axis=-1), opset=opset,
                shape=(4, 6))


def padded(by=(0, 0, 1, 1, 0, 0, 1, 1), *more, first="Abs x -> a", mode="constant", outputs=("y",),
           opset=12, w=(4, 4, 2, 2), **attributes):
    return Network([node(first), node("Pad a p -> q", mode=mode), node("Conv q w -> y", **attributes),
                    *more], {"w": w, "p": np.array(by)}, PICTURE, opset, outputs)


def pooled(*more, **options):
    return branches(node("MaxPool x -> p", kernel_shape=[2, 2]), node("Conv p v -> y"), *more, **options)


DEPTHWISE = node("Conv x w -> y", group=4)
ORT, OV, TFLITE = "ort-int8", "openvino-int8", "tflite-int8"
# network, backend, integer kernels, --set ...
OPENVINO = [
    (conv(), OV, "y"),
    (conv(), OV, "", SHIFTED.format("y")),
    (conv(), ORT, "", SHIFTED.format("y")),
    (conv(), OV, "", UNSIGNED.format("y")),
    (conv((4, 2, 3, 3), group=2), OV, "y"),
    (conv((4, 2, 3, 3), group=2), OV, "", SHIFTED.format("y")),
    (conv((4, 1, 3, 3), group=4), ORT, "y"),
    (conv((4, 1, 3, 3), group=4), ORT, "", SHIFTED.format("y")),
    (conv(ENDS), OV, "y", UNSIGNED.format("y")),
    (product("MatMul", (6, 7), (1, 5, 6)), OV, "y"),
    (product("MatMul", (6, 7), (1, 5, 6)), OV, "", SHIFTED.format("y")),
    (product("Gemm", (6, 7), (1, 6)), ORT, "", SHIFTED.format("y")),
    # numbers of codes: of data, which weights may have
    *((conv(), OV, found, f"op=y slot={slot} {word} range={limits}") for slot, word, limits, found in (
        ("input", "bits=8", "[-127,127]", "y"), ("input", "bits=8", "[-126,127]", ""),
        ("input", "bits=6", "[-32,31]", ""), ("input", "bits=4", "[-8,7]", "y"),
        ("input", "bits=4", "[-7,7]", ""), ("input", "bits=8", "[-8,7]", "y"),
        ("weight", "bits=6", "[-32,31]", "y"), ("weight", "bits=8", "[-100,100]", "y"))),
    (product("MatMul", (6, 7), (1, 5, 6)), OV, "", "op=y slot=input range=[-64,63]"),
    (turned(strides=[2, 2], positive=False), OV, "", "op=y slot=input range=[-64,63]"),
    # depthwise over three axes
    (conv((4, 1, 3, 3, 3), VOLUME, group=4), OV, "y"),
    (conv((4, 1, 3, 3, 3), VOLUME, group=4), ORT, ""),
    (conv((8, 1, 3, 3, 3), VOLUME, group=4), ORT, "y"),
    (conv((4, 2, 3, 3, 3), VOLUME, group=2), ORT, "y"),
    (beside((4, 4, 1, 1, 1), shape=VOLUME, first=DEPTHWISE, w=(4, 1, 3, 3, 3)), OV, "z"),
    (beside((4, 4, 1, 1, 1), shape=VOLUME, first=DEPTHWISE, w=(4, 1, 3, 3, 3)), ORT, "y z"),
    (beside((4, 1, 1, 1, 1), shape=VOLUME, first=DEPTHWISE, w=(4, 1, 3, 3, 3), group=4), OV, "y z"),
    # transposed convolutions
    (turned(strides=[2, 2]), ORT, "y"),
    (turned(strides=[2, 2], positive=False), ORT, ""),
    (turned(strides=[2, 2], positive=False), OV, "y"),
    (turned(strides=[2, 2]), ORT, "", SHIFTED.format("y")),
    (turned(strides=[3, 3]), OV, ""),
    (turned((4, 4, 3, 2), strides=[2, 3]), ORT, ""),
    (turned((4, 4, 1), (1, 4, 9), strides=[2]), OV, ""),
    (turned((4, 4, 3, 3), strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]), OV, "y"),
    (beside(), OV, "z"),
    (beside(), ORT, "y z"),
    (beside(positive=False), ORT, "z"),
    (beside((4, 2, 1, 1), group=2), OV, "z"),
    (beside(), OV, "y", "op=z slot=weight state=fp32"),
    (beside((6, 6), "MatMul"), OV, "y z"),
    (beside((4, 4, 2, 2), "ConvTranspose"), OV, "y z"),
]

TALL = np.array([1., 1., 2., 2.])
WIDE = "op=* slot=[input,output] bits=16 range=[-32768,32767]"
NIBBLES = "slot=[input,output] constant=no bits=4 range=[0,15] policy=[per-tensor,linear,asymmetric]"
BORDER = np.array([0, 0, 1, 1, 0, 0, 1, 1])
TURN = node("Transpose c -> t", perm=[0, 1, 3, 2])


def behind(*nodes, **options):
    """Nodes behind a convolution that makes c."""
    return branches(node("Conv x w -> c"), *nodes, **{"opset": 17, **options})


def between(*nodes, **options):
    """Nodes between that one, and another one that reads a."""
    return behind(*nodes, node("Conv a v -> y"), **options)


MIXED = "openvino-mixed-int8"
# network, backend, all nodes on codes, with a + in the kernel of another one, --set ...
PLUGIN = [
    # moves, and kernels besides products
    (between(node("Resize c _ k -> a", mode="nearest"), k=TALL), OV, "c a y"),
    (behind(node("Resize c _ k -> y", mode="nearest"), k=TALL), OV, "c y"),
    (between(node("Resize c _ k -> a", mode="linear"), k=TALL), OV, "c y"),
    (between(node("Resize c _ k -> a", coordinate_transformation_mode="align_corners"), k=TALL), OV, "c y"),
    (between(node("GlobalAveragePool c -> a")), OV, "c a y"),
    (behind(node("GlobalAveragePool c -> p"), node("Flatten p -> y")), MIXED, "c p y"),
    (between(node("ReduceMean c -> a", axes=[2, 3])), OV, "c a y"),
    (between(node("ReduceSum c k -> a"), k=np.array([2, 3])), OV, "c a y"),
    (between(node("ReduceMax c -> a", axes=[2, 3])), OV, "c a y"),
    (between(node("ReduceL2 c -> a", axes=[2, 3])), OV, "c y"),
    (between(node("InstanceNormalization c g g -> a"), g=(4,)), OV, "c a y"),
    (between(node("Gather c k -> a", axis=2), k=np.array([3, 1])), OV, "c a y"),
    (between(node("Expand c k -> a"), k=np.array([2, 4, 6, 6])), OV, "c a y"),
    (between(node("Softmax c -> a")), OV, "c y"),
    (behind(node("Conv c v -> d"), node("Concat c d -> p", axis=1), node("Conv p u -> y"), u=(4, 8, 1, 1)),
     OV, "c d p y"),
    (behind(node("Conv c v -> d"), node("Concat c d -> y", axis=1)), MIXED, "c d y"),
    (behind(node("Concat c k -> y", axis=1), k=(1, 2, 6, 6)), OV, "c"),
    # a quantizer of the reader stays behind the node
    (behind(node("MaxPool x -> p", kernel_shape=[2, 2]), node("Conv p v -> y"), outputs=("c", "y")), OV, "c y"),
    # pads, and what is behind one in float
    (between(node("Pad c k -> a"), k=BORDER), MIXED, "c y"),
    (behind(node("Pad c k -> y"), k=BORDER), OV, "c y"),
    (behind(node("Pad c k -> y"), k=BORDER), MIXED, "c"),
    (between(node("Pad c k -> p"), node("MaxPool p -> a", kernel_shape=[2, 2]), k=BORDER), OV, "c"),
    (between(node("Pad c k -> a", mode="reflect"), k=BORDER), OV, "c a y"),
    # activations, constants and sums
    *((between(node(f"{op} c -> a")), OV, "c a+ y") for op in ("HardSwish", "LeakyRelu", "Tanh", "Abs", "Sigmoid")),
    *((between(node(f"{op} c -> a")), OV, "c y") for op in ("Exp", "Erf", "HardSigmoid")),
    (between(node("Sigmoid c -> s"), node("Mul c s -> a")), OV, "c a+ y"),
    (between(node("Add c k -> s"), node("Clip s l h -> t"), node("Div t h -> u"), node("Mul c u -> a"),
             k=np.array(3.), l=np.array(0.), h=np.array(6.)), OV, "c a+ y"),
    (rows("MatMul x w -> m", "Add m k -> y", k=(6,)), OV, "m"),
    (rows("MatMul x w -> m", "Add m k -> s", "Sigmoid s -> y", k=(6,)), OV, "m y+"),
    (between(node("Conv x v -> d"), node("Add c d -> a")), OV, "c d y"),
    (between(node("Conv x v -> d"), node("Add c d -> a")), MIXED, "c d y"),
    (between(node("Add c x -> a")), OV, "c y"),
    (between(node("Conv c v -> d"), node("Conv d v -> e"), node("Add e c -> a")), OV, "c d e y"),
    (turned(strides=[2, 2]), OV, "y"),
    (branches(node("ConvTranspose x w -> t", strides=[3, 3]), node("Tanh t -> y"), w=(4, 4, 2, 2)), OV, ""),
    # no type is that of both readers
    (behind(node("Conv c v -> y"), TURN, node("MatMul c t -> z"), outputs=("y", "z")), OV, "c"),
    (behind(node("Conv c v -> y"), node("Conv x w -> d"), node("MatMul c d -> z"), outputs=("y", "z")), OV,
     "c d y"),
    # 16 bits, and a batch of columns
    (between(node("MaxPool c -> a", kernel_shape=[2, 2])), OV, "", WIDE),
    (rows("MatMul x w -> y"), OV, "", WIDE),
    (behind(node("MatMul c k -> m"), node("Conv c v -> y"), k=(1, 4, 6, 1), outputs=("m", "y")), OV, "c y"),
    (behind(node("MatMul c k -> m"), node("Conv c v -> y"), k=(1, 4, 6, 2), outputs=("m", "y")), OV, "c m y"),
]
LIMITS = "op=* slot={} range=[-127,127]"
LOW, HIGH = {"low": np.array(-0.1)}, {"high": np.array(0.3)}
ONNXRUNTIME = [
    # a Clip in front of QuantizeLinear
    (biased(), ORT, "c y"),
    (biased(), ORT, "c", "op=y slot=output range=[-127,127]"),
    (biased(), ORT, "", LIMITS.format("output"), LIMITS.format("input")),
    (biased(), ORT, "c y", "op=c slot=input range=[-127,127]"),
    (rows("MatMul x w -> y"), ORT, "y"),
    (rows("MatMul x w -> y"), ORT, "", LIMITS.format("output")),
    (rows("Sigmoid x -> y"), ORT, "", LIMITS.format("output")),
    # biases of 30 bits: written by the export, or internal
    (biased(), "tengine-int8", "c y"),
    (biased(), "fpga-int8", "y"),
    (biased(), "snpe-int8", ""),
    (biased(np.zeros(1), 1), "snpe-int8", "c y"),  # ONNX Runtime removes a sum with one 0
    (biased(np.zeros(4)), "snpe-int8", ""),
    (biased(), "tengine-int8", "y", "op=c slot=bias visibility=internal"),
    # a product in float and its clamp
    (rows("MatMul x w -> y"), OV, "y"),
    (rows("MatMul x w -> m", "Relu m -> y"), OV, ""),
    (rows("MatMul x w -> m", "Relu m -> r", "MatMul r w -> y"), OV, "y"),
    (rows("MatMul x w -> m", "Clip m low high -> y", **LOW, **HIGH), OV, ""),
    (rows("MatMul x w -> m", "LeakyRelu m -> y"), OV, "m"),
    (rows("MatMul x w -> m", "Relu m -> r", "Add m r -> y"), OV, ""),
    (rows("Gemm x w -> m", "Relu m -> y"), OV, ""),
    (rows("Gemm x w -> m", "Sigmoid m -> y"), OV, "m"),
    (rows("MatMul x w -> m", "Relu m -> y"), ORT, "m"),
    *((rows("MatMul x w -> m", "Add m k -> y", k=k), OV, found)
      for k, found in (((6,), ""), ((1, 6), ""), ((3, 1), ""), ((3, 6), ""), ((1, 1), "m"), ((1,), "m"))),
    # of more axes: the optimizer makes a Gemm of these, too, if the constant is a row
    *((rows("MatMul x w -> m", "Add m k -> y", k=k, shape=shape), ORT, found, "op=m slot=output state=fp32")
      for shape in ((1, 5, 6), (2, 5, 6), (2, 3, 5, 6), (3, 6))
      for k, found in (((6,), ""), ((1, 6), "m"), ((5, 1), "m"), ((1, 1, 6), "m"), ((1,), "m"))
      if len(shape) > 2),
    (rows("MatMul x w -> m", "Add m x -> y", opset=21), ORT, "", "op=m slot=output state=fp32"),
    (rows("MatMul x w -> m", "Add m x -> y", shape=(2, 3, 6), opset=21), ORT, "m", "op=m slot=output state=fp32"),
    (rows("MatMul x w -> m", "Sub m k -> y", k=(6,)), ORT, "m", "op=m slot=output state=fp32"),
    (rows("MatMul x w -> m", "Mul m k -> y", k=(6,)), ORT, "m", "op=m slot=output state=fp32"),
    (rows("MatMul x w -> m", "Max m k -> y", k=(6,)), ORT, "m", "op=m slot=output state=fp32"),
    # Softmax over its axis alone, or over all from there on
    (softmax(11, 2), TFLITE, "m y"),
    (softmax(11, 1), TFLITE, "m"),
    (softmax(12, -1), TFLITE, "m y"),
    (softmax(13, 1), TFLITE, "m y"),
    # signed codes that several nodes read: behind a move, through a clamp that is removed
    (joined(12), TFLITE, "y"),
    (joined(21), TFLITE, "y"),
    (joined(12), TFLITE, "y", UNSIGNED.format("*").replace("weight", "output"),
     UNSIGNED.format("*").replace("weight", "input")),
    (branches(node("Relu x -> a"), node("Conv a v -> z"), node("Relu a -> r"), node("LeakyRelu r -> y"),
              outputs=("z", "y")), TFLITE, ""),
    (branches(node("Relu x -> a"), node("Conv a v -> z"), node("Relu a -> r"), node("LeakyRelu r -> y"),
              outputs=("z", "y"), opset=21), TFLITE, "y z"),
    (branches(node("Relu x -> a"), node("Relu a -> r"), node("LeakyRelu r -> y"), outputs=("a", "y")),
     TFLITE, ""),
    (branches(node("Relu x -> a"), node("Relu a -> r"), node("LeakyRelu r -> y")), TFLITE, "y"),
    # types that raise the opset of the file to 21, where codes are uint8
    *((branches(node("Conv x w -> c"), node("Sigmoid c -> s"), node("Mul c s -> m"), node("Conv m v -> y"),
                opset=17), ORT, found, *sets) for found, sets in (
        ("y", ()), ("c m s", ("op=y slot=weight bits=4 range=[-8,7]",)),
        ("c m s", ("op=y slot=output bits=16 range=[-32768,32767]",)))),
    # a Pad that becomes pads of the convolution
    (padded(), TFLITE, "y"),
    (padded(opset=21, pads=[1, 0, 0, 1]), ORT, "y"),
    (padded(first="Sigmoid x -> a"), TFLITE, "a y"),
    (padded((0, 0, 1, 1, 0, 0, 1, 1), node("Sigmoid a -> z"), outputs=("y", "z")), TFLITE, ""),
    (padded((0, 0, 1, 1, 0, 0, 1, 1), node("Sigmoid q -> z"), outputs=("y", "z")), TFLITE, ""),
    (padded((0, 1, 0, 0, 0, 0, 0, 0), w=(4, 5, 2, 2)), TFLITE, ""),
    (padded((0, 0, -1, 0, 0, 0, 0, 0)), TFLITE, ""),
    (padded(auto_pad="VALID"), TFLITE, ""),
    (padded(mode="edge"), TFLITE, ""),
    (padded(outputs=("y", "q")), TFLITE, ""),
    (padded(), OV, "y"),
    # an Expand that changes nothing is removed: readers behind it are those of its input
    *((branches(node("Conv x w -> c"), node("Expand c k -> q"), node("Conv q v -> y"), *more,
                outputs=outputs, opset=opset, k=np.array(k), **weights), ORT, found)
      for opset in (13, 21) for more, outputs, k, weights, found in (
          ((node("Tanh c -> z"),), ("y", "z"), [1, 1, 1, 1], {}, "" if opset == 13 else "c y"),
          ((), ("y",), [1, 1, 1, 1], {}, "c y"),
          ((), ("y",), [4, 6, 6], {}, "c y"),
          ((), ("y",), [2, 1, 1, 1], {}, "c y"))),
    (branches(node("Conv x w -> c"), node("Sigmoid c -> s"), node("Expand c k -> q"), node("Mul q s -> y"),
              k=np.array([1, 1, 1, 1])), ORT, ""),
    # ... and so in a chain of them, next to a reader in float
    *((branches(node("Conv x w -> c"), node("Expand c k -> q"), node("Expand q k -> t"), node("Conv t v -> y"),
                *more, outputs=outputs, opset=opset, k=np.array([1] * 4)), ORT, found, *sets)
      for opset in (13, 21) for more, outputs, sets, found in (
          ((), ("y",), (), "c y"),
          ((node("Conv q v -> z"),), ("y", "z"), ("op=z slot=weight state=fp32",), "" if opset == 13 else "c y"),
          ((node("Conv c v -> z"),), ("y", "z"), ("op=z slot=weight state=fp32",), "" if opset == 13 else "c y"))),
    # ... but not at an input of the network
    (Network([node("MatMul x w -> z"), node("Expand x k -> q"), node("MatMul q w -> y")],
             {"w": (6, 6), "k": np.array([1, 1])}, (3, 6), outputs=("z", "y")), ORT, "z y"),
    # limits halfway between two codes of the grid [-128, 127] / 127.5
    *((branches(node("Conv x w -> c"), node("Clip c low high -> y"), low=np.array(-limit),
                high=np.array(limit), w=np.full((4, 4, 3, 3), 3.)), backend, found, *sets)
      for limit in (0.7, 1., 1.1, 6.6) for backend, found, *sets in (
          (OV, "c"), ("openvino-mixed-int8", "c"), (ORT, "c"),
          (OV, "", f"op=y slot=output observer=fixed step={limit / 127.4!r} zero=129"))),
]
# Softmax, and what integer mode computes for it: QLinearSoftmax, or float
SOFTMAX = [(net, backend, found, word) for found, (net, backend, word) in (
    ("m y", stepped(1 / 256)),
    ("m y", stepped(1 / 128)),
    ("m y", stepped(1 / 100)),
    ("m", stepped(1 / 255)),
    ("m", stepped(1 / 300)),
    ("m", stepped(2.)),
    ("m y", stepped(1 / 128, axis=1)),
    ("m", stepped(1 / 128, axis=1, opset=12)),
    ("m y", stepped(1 / 128, axis=2, opset=12)),
    # rows of one element
    ("m", stepped(1 / 128, w=(6, 1))),
    ("m", stepped(1 / 256, axis=1, shape=(2, 1, 6))),
    # a clamp that is removed
    ("m s", stepped(1 / 128, "Relu s -> y")),
    ("m", stepped(1 / 255, "Relu s -> y")),
    ("m", stepped(1 / 255, "Clip s low high -> y", low=np.array(0.), high=np.array(2.))),
    ("m", stepped(1 / 255, "Clip s low high -> y", low=np.array(-2.), high=np.array(-1.))),
)]
# kernels and moves
MOVED = [
    (joined(21), TFLITE, "y"),
    (pooled(), OV, "p y"),
    (pooled(node("ReduceMean x -> z"), outputs=("y", "z")), OV, "p y"),
    (branches(node("Abs x -> a"), node("MaxPool a -> p", kernel_shape=[2, 2]), node("Conv p v -> y"),
              node("ReduceMean a -> z"), outputs=("y", "z")), OV, "y"),
    # on another grid than its input, or read by a node in float, too
    (branches(node("Conv x w -> c"), node("MaxPool c -> p", kernel_shape=[2, 2]), node("Conv p v -> y")),
     "tengine-int8", "c y"),
    (branches(node("Conv x w -> c"), node("Transpose c -> p", perm=[0, 2, 1, 3]), node("Conv p v -> y"),
              node("Sigmoid p -> z"), outputs=("y", "z"), v=(4, 6, 1, 1)), "tengine-int8", "c y"),
    (branches(node("Conv x w -> c"), node("MaxPool c -> p", kernel_shape=[2, 2]), node("Conv p v -> y")),
     ORT, "c p y"),
    # at an output of the network, where no quantizer is behind it
    *((branches(node("Conv x w -> c"), node(f"{op} c k -> y"), k=np.array(k)), backend, found)
      for op, k in (("Expand", [2, 4, 6, 6]), ("Expand", [1, 4, 6, 6]), ("Tile", [2, 1, 1, 1]), ("Gather", [0, 0]))
      for backend, found in ((ORT, "c"), ("onnxruntime-int8", "c"))),
    # nothing is left to move
    (branches(node("Conv x w -> c"), node("Expand c k -> q"), node("Conv q v -> y"), k=np.array([1] * 4)),
     ORT, "c y"),
    # codes of 4 bits, in front of whose QuantizeLinear is a Max
    *((branches(*nodes, node("Conv p v -> y"), k=np.array([0])), backend, "", NIBBLES)
      for nodes in ((node("Conv x w -> c"), node("MaxPool c -> p", kernel_shape=[2, 2])),
                    (node("Conv x w -> c"), node("Gather c k -> p")),
                    (node("Transpose x -> p", perm=[0, 1, 3, 2]),)) for backend in (ORT, OV)),
]
RECTIFIED = branches(node("Abs x -> b"), node("Relu b -> a"), node("Conv a v -> y"))
CLAMPS = [(RECTIFIED, ORT, "a"), (RECTIFIED, ORT, "", NIBBLES),
          (RECTIFIED, ORT, "a", NIBBLES.replace("15", "3"))]  # a Clip takes it in
COUNTED = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
# windows of AveragePool behind the padding, or with dilations
AVERAGES = [(between(node("AveragePool c -> a", **window), opset=opset), "trt-int8", found) for opset, window, found in (
    (17, COUNTED, "c y"), (19, COUNTED, "c y"), (19, {**COUNTED, "pads": [1] * 4}, "c y"),
    (17, {**COUNTED, "count_include_pad": 0}, "c a y"), (17, {**COUNTED, "pads": [0, 0, 1, 1]}, "c a y"),
    (17, {**COUNTED, "kernel_shape": [2, 2]}, "c a y"), (19, {"kernel_shape": [3, 3], "dilations": [2, 1]}, "c y"),
    (19, {"kernel_shape": [3, 3], "dilations": [1, 1]}, "c y"))]
POOLS = ((2, 2), (2, 2), "c p y"), ((1, 1), (1, 1), "c p y"), ((3, 1), (1, 2), "c y"), ((2, 2), (3, 3), "c y")
XNNPACK = [(Network([node("Conv x w -> c"), node("MaxPool c -> p", kernel_shape=kernel, strides=strides),
                     node("Conv p w -> y")], {"w": (4, 4, 1, 1)}, (1, 4, 9, 9)), TFLITE, found)
           for kernel, strides, found in POOLS]
def scaled(opset):
    """A sum and a product with constants."""
    def build():
        return rows("MatMul x w -> m", "Add m k -> a", "Mul a f -> y", k=(1, 6), f=(1,), opset=opset)
    return build


MENDED = [(scaled(17), ORT, "m a y"), (scaled(21), ORT, "m a y"), (scaled(17), TFLITE, "m y"),
          (biased, "snpe-int8", "c y"), (biased, "mnn-int8", "y")]


def in_onnxruntime(folder, snapshot):
    file = folder / "q.onnx"
    agreement.qg("export", snapshot, "--format", "onnx-qdq", "--placement", "ort", "-o", file)
    return ({n for n, _ in runtimes.lint(snapshot, "ort")[0]}, runtimes.in_ort(file, folder)[0])


def moved_in_onnxruntime(folder, snapshot):
    in_onnxruntime(folder, snapshot)
    predicted = runtimes.lint(snapshot, "ort")
    observed = runtimes.in_ort(folder / "q.onnx", folder)
    return {n for kind in predicted for n, _ in kind}, set().union(*observed)


def clamps_in_onnxruntime(folder, snapshot):
    """Clamps that are no node of the optimized graph."""
    in_onnxruntime(folder, snapshot)
    fates = [(n, f) for (n, op), f in runtimes.fates_of(snapshot, "ort") if op in ("Relu", "Clip")]
    kept = {n.name for n in onnx.load(folder / "optimized.onnx").graph.node}
    return {n for n, f in fates if f == "fused"}, {n for n, _ in fates} - kept


def computed_in_onnxruntime(folder, snapshot):
    """As above; a snapshot's integer mode is the file in ONNX Runtime, bit for bit."""
    kernels = in_onnxruntime(folder, snapshot)
    agreement.qg("run", snapshot, "-d", folder / "x.npz", "--mode", "integer", "--profile",
                 "onnxruntime-x86-vnni", "-o", folder / "i")
    options = runtimes.ort.SessionOptions()
    agreement.do_not_saturate(options, folder / "q.onnx")
    session = runtimes.ort.InferenceSession(str(folder / "q.onnx"), options,
                                            providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    runs = [session.run(None, {"x": x.reshape(shape)})[0] for x in np.load(folder / "x.npz")["x"]]
    ours = np.load(folder / "i" / "y.npy")
    differ = np.count_nonzero(np.stack(runs).reshape(ours.shape) != ours)
    return kernels[0], kernels[1] | ({f"{differ} of {ours.size} differ"} if differ else set())


def mend():
    """A patch of `qg lint --fix` gives the kernels that its rules promise."""
    bad = 0
    for network, backend, expected in MENDED:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            network().quantize(folder, backend, ())
            subprocess.run([agreement.QG, "lint", folder / "s", "--target", "ort", "--fix", "-o",
                            folder / "p.yaml"], capture_output=True, check=False)
            agreement.qg("quantize", folder / "m.onnx", "-b", backend, "-d", folder / "x.npz",
                         "--policy", folder / "p.yaml", "-o", folder / "t")
            predicted, observed = in_onnxruntime(folder, folder / "t")
        if not predicted == observed == set(expected.split()):
            bad += 1
            print(f"mended {backend}: predicted {sorted(predicted)}, observed {sorted(observed)}")
    return bad


def in_xnnpack(folder, snapshot):
    file = folder / "q.tflite"
    agreement.qg("export", snapshot, "--format", "tflite", "-o", file)
    predicted, values = runtimes.for_litert(snapshot, "xnnpack")
    return predicted, runtimes.in_litert(file, values)


def in_openvino(folder, snapshot):
    file = folder / "q.xml"
    agreement.qg("export", snapshot, "--format", "openvino-ir", "-o", file)
    kernels, _ = runtimes.lint(snapshot, "openvino")
    return ({n for n, op in kernels if op in runtimes.PRODUCTS},
            runtimes.in_openvino(runtimes.compiled(file)))


def all_of_openvino(folder, snapshot):
    in_openvino(folder, snapshot)
    return runtimes.all_of_openvino(snapshot, runtimes.compiled(folder / "q.xml"))


RUNTIMES = [("onnxruntime", ONNXRUNTIME, in_onnxruntime),
            ("moves of onnxruntime", MOVED, moved_in_onnxruntime),
            ("clamps of onnxruntime", CLAMPS, clamps_in_onnxruntime),
            ("softmax of onnxruntime", SOFTMAX, computed_in_onnxruntime),
            ("averages of onnxruntime", AVERAGES, computed_in_onnxruntime), ("openvino", OPENVINO, in_openvino),
            ("all of openvino", PLUGIN, all_of_openvino),
            ("xnnpack", XNNPACK, in_xnnpack)]


def follow(runtime, table, observe):
    """The number of rows that differ."""
    bad = 0
    for k, (network, backend, expected, *sets) in enumerate(table):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            predicted, observed = observe(folder, network.quantize(folder, backend, sets))
        if not predicted == observed == set(expected.split()):
            bad += 1
            print(f"{runtime} {k} {[n.op_type for n in network.nodes]} {backend} {sets}: predicted "
                  f"{sorted(predicted)}, observed {sorted(observed)}, expected {expected.split()}")
    return bad


def main():
    bad = mend()
    for runtime, table, observe in RUNTIMES:
        bad += follow(runtime, table, observe)
        print(f"{runtime}: {len(table)} networks")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
