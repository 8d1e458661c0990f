#!/usr/bin/env python3
"""What `qg lint` predicts of single operators at the border of what a runtime has integer
kernels for, against the graphs that the runtimes made of our files: as test_lint_runtimes.py
does with whole models.  Each row is a network of one to three nodes, a backend and words of
--set; both sets of names must be equal, and those that the row gives."""
import pathlib
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


class Network:
    """weights: dims by name, or an array; samples: of x, and what is added to them."""

    def __init__(self, nodes, weights, shape=PICTURE, opset=17, outputs=("y",), moved=0.2, positive=False):
        self.nodes, self.weights, self.shape, self.opset = nodes, weights, shape, opset
        self.outputs, self.moved, self.positive = outputs, moved, positive

    def save(self, folder):
        rng = np.random.default_rng(3)
        constants = [numpy_helper.from_array(
            (rng.normal(0.1, 0.3, w) if isinstance(w, tuple) else w).astype(np.float32), k)
            for k, w in self.weights.items()]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "net", [value("x", TensorProto.FLOAT, self.shape)],
                                  [value(o, TensorProto.FLOAT, None) for o in self.outputs], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)],
                                    ir_version=8), folder / "m.onnx")
        samples = rng.normal(0, 0.3, (4, *self.shape[1:])) + self.moved
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


DEPTHWISE = node("Conv x w -> y", group=4)
ORT, OV = "ort-int8", "openvino-int8"
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


def in_openvino(folder, snapshot):
    file = folder / "q.xml"
    agreement.qg("export", snapshot, "--format", "openvino-ir", "-o", file)
    kernels, _ = runtimes.lint(snapshot, "openvino")
    return ({n for n, op in kernels if op in runtimes.PRODUCTS},
            runtimes.in_openvino(runtimes.compiled(file)))


RUNTIMES = [("openvino", OPENVINO, in_openvino)]


def follow(runtime, rows, observe):
    """The number of rows that differ."""
    bad = 0
    for k, (network, backend, expected, *sets) in enumerate(rows):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            predicted, observed = observe(folder, network.quantize(folder, backend, sets))
        if not predicted == observed == set(expected.split()):
            bad += 1
            print(f"{runtime} {k} {[n.op_type for n in network.nodes]} {backend} {sets}: predicted "
                  f"{sorted(predicted)}, observed {sorted(observed)}, expected {expected.split()}")
    return bad


def main():
    bad = 0
    for runtime, rows, observe in RUNTIMES:
        bad += follow(runtime, rows, observe)
        print(f"{runtime}: {len(rows)} networks")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
