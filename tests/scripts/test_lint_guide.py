#!/usr/bin/env python3
"""TensorRT's explicit quantization: of networks of the zoo and of ../shared (skipped when
absent), quantized for trt-qdq-int8, neither the snapshot nor the exported Q/DQ file breaks a rule of configs/lint/trt.yaml.
The file is also read with onnx alone, which finds the placement that the developer guide
recommends ("Q/DQ Layer-Placement Recommendations", "Q/DQ Limitations"); the same reader
refuses files for other runtimes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "zoo"))
import graph
import detection
import segmentation
import vision

QG = os.path.abspath(os.environ.get("QG", "build/qg"))
NETWORKS = ("mobilenet_v2", "mobilenet_v3", "efficientnet_b0", "resnet18", "resnet50",
            "densenet121", "yolo_v3_tiny", "unet", "vit", "mlp_mixer", "convnext")
SHARED = {p.stem: p for p in sorted(pathlib.Path("../shared/models").glob("**/*.onnx"))}
MODULES = detection, segmentation, vision  # they register their networks
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
# Operators that commute with quantization: DequantizeLinear is moved behind them.
COMMUTING = {"MaxPool", "Reshape", "Flatten", "Gather", "Split", "Transpose", "Squeeze",
             "Unsqueeze", "Slice"}
POINTWISE = "Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu", \
    "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu"
ACTIVATIONS = {*POINTWISE, "Clip", "PRelu", "BatchNormalization"}


def run(*words, status=(0,)):
    done = subprocess.run([QG, *map(str, words)], capture_output=True, text=True)
    if done.returncode not in status:
        raise RuntimeError(f"qg {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class File:
    """A Q/DQ file, read with onnx alone."""

    def __init__(self, path):
        g = onnx.load(path).graph
        self.nodes = g.node
        self.made = {o: n for n in g.node for o in n.output}
        self.constants = {i.name: i for i in g.initializer}
        self.read = {}
        for n in g.node:
            for name in n.input:
                self.read.setdefault(name, []).append(n)

    def is_dequantized(self, name):
        while name in self.made and self.made[name].op_type in COMMUTING:
            name = self.made[name].input[0]
        return name in self.made and self.made[name].op_type == "DequantizeLinear"

    def readers(self, name):
        """Of a value, behind Q and DQ."""
        for n in self.read.get(name, []):
            if n.op_type in ("QuantizeLinear", "DequantizeLinear"):
                yield from self.readers(n.output[0])
            else:
                yield n

    def scales(self):
        """Symmetric, int8, scales that are constants; no bias in codes."""
        for n in self.nodes:
            if n.op_type not in ("QuantizeLinear", "DequantizeLinear"):
                continue
            zero = self.constants.get(n.input[2]) if len(n.input) > 2 else None
            if zero is not None and (zero.data_type != TensorProto.INT8 or
                                     numpy_helper.to_array(zero).any()):
                yield f"{n.name}: its zero point is no int8 0"
            if zero is None and n.op_type == "QuantizeLinear":
                yield f"{n.name}: no zero point, so that the codes are uint8"
            if n.input[1] not in self.constants:
                yield f"{n.name}: its scale is no constant"
            codes = self.constants.get(n.input[0])
            if codes is not None and codes.data_type == TensorProto.INT32:
                yield f"{n.name}: a bias in codes"

    def weighted(self):
        """All inputs quantized, weights per channel; an output is not quantized in front of
        an activation, nor in front of a sum that reads quantized values only."""
        for n in (n for n in self.nodes if n.op_type in WEIGHTED):
            for name in n.input[:2]:
                if not self.is_dequantized(name):
                    yield f"{n.name}: input {name} is not quantized"
            w = self.made.get(n.input[1])
            if n.op_type == "Conv" and w and w.input[0] in self.constants and \
                    numpy_helper.to_array(self.constants[w.input[1]]).size != \
                    self.constants[w.input[0]].dims[0]:
                yield f"{n.name}: its weight has one scale"
            if not any(r.op_type == "QuantizeLinear" for r in self.read.get(n.output[0], [])):
                continue
            readers = list(self.readers(n.output[0]))
            if len(readers) == 1 and readers[0].op_type in ACTIVATIONS:
                yield f"{n.name}: Q between it and {readers[0].name}"
            if len(readers) == 1 and readers[0].op_type == "Add" and all(
                    self.is_dequantized(i) for i in readers[0].input):
                yield f"{n.name}: Q between it and the sum {readers[0].name}"

    def faults(self):
        return [*self.scales(), *self.weighted()]


def findings(path):
    """Notes about operators without an integer kernel are no placement."""
    report = json.loads(run("lint", path, "--target", "trt", "--json", status=(0, 3)))
    return [f"{path.name}: {f}" for f in report.get("findings", [])
            if f["rule"] != "no-integer-kernel"]


def save_activations(path):
    """A convolution and a product in front of each activation."""
    random = np.random.RandomState(3)
    weights = {"w": random.normal(0, 0.5, (4, 4, 1, 1)), "m": random.normal(0, 0.5, (6, 6))}
    nodes, at = [], "x"
    for name in POINTWISE:
        for op, weight in ("Conv", "w"), ("MatMul", "m"):
            product = f"{op}_{name}"
            nodes += [helper.make_node(op, [at, weight], [product], product),
                      helper.make_node(name, [product], [f"a_{product}"], f"a_{product}")]
            at = f"a_{product}"
    value = helper.make_tensor_value_info
    network = helper.make_graph(
        nodes, "activations", [value("x", TensorProto.FLOAT, [1, 4, 6, 6])],
        [value(at, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype("f4"), n) for n, w in weights.items()])
    onnx.save(helper.make_model(network, opset_imports=[helper.make_opsetid("", 20)],
                                ir_version=9), path)


def exported(folder, name, backend):
    """(snapshot, file) of a network, made once."""
    model = folder / f"{name}.onnx"
    snapshot, file = folder / f"{name}-{backend}", folder / f"{name}-{backend}.onnx"
    data = model.with_suffix(".npz")
    if name == "activations":
        save_activations(model)
        data = "random:4"
    elif name in SHARED:
        model, data = SHARED[name], "random:4"
    elif not model.exists():
        graph.build(name).save(model, 4)
    run("quantize", model, "-b", backend, "-d", data, "-o", snapshot)
    run("export", snapshot, "--format", "onnx-qdq", "-o", file)
    return snapshot, file


def main():
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in ("activations", *NETWORKS, *SHARED):
            snapshot, file = exported(folder, name, "trt-qdq-int8")
            said = [*findings(snapshot), *findings(file), *File(file).faults()]
            pairs = sum(n.op_type == "QuantizeLinear" for n in File(file).nodes)
            print(f"{name:16} {pairs:4} QuantizeLinear, {len(said)} findings")
            bad += [f"{name}: {s}" for s in said]
            if pairs < 4:
                bad.append(f"{name}: {pairs} QuantizeLinear, expected a quantized network")
        for backend, expected in (("ort-int8", "zero point"), ("trt-int8", "sum")):
            _, file = exported(folder, "resnet18", backend)
            if not any(expected in s for s in File(file).faults()):
                bad.append(f"{backend}: {File(file).faults()[:3]}, expected '{expected}'")
    print("\n".join(bad))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
