#!/usr/bin/env python3
"""`qg lint`: for every rule of configs/lint a network on which it fires and one on which it
does not; its patch, applied, silences it; SARIF 2.1.0; exit statuses; refusals of wrong
files."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

try:
    import jsonschema
    import numpy as np
    import onnx
    import yaml
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import small_networks

QG = os.path.abspath(os.environ.get("QG", "build/qg"))
LINT = pathlib.Path("configs/lint")
CLEAN, FAILED, USAGE, FOUND = 0, 1, 2, 3
# The part of the OASIS schema of SARIF 2.1.0 that our files use: required members and the
# words of enumerations, sections 3.13, 3.14, 3.27, 3.33 and 3.49.
TEXT = {"type": "object", "required": ["text"], "additionalProperties": False,
        "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
PHYSICAL = {"type": "object", "required": ["artifactLocation"], "properties": {
    "artifactLocation": {"type": "object", "required": ["uri"], "properties": {
        "uri": {"type": "string", "format": "uri-reference"}}},
    "region": {"type": "object", "required": ["startLine"], "properties": {
        "startLine": {"type": "integer", "minimum": 1}}}}}
SARIF = {
    "type": "object", "required": ["version", "runs"],
    "properties": {"version": {"const": "2.1.0"}, "runs": {"type": "array", "items": {
        "type": "object", "required": ["tool", "results"],
        "properties": {
            "tool": {"type": "object", "required": ["driver"], "properties": {"driver": {
                "type": "object", "required": ["name", "rules"],
                "properties": {"rules": {"type": "array", "uniqueItems": True, "items": {
                    "type": "object", "required": ["id"],
                    "properties": {
                        "id": {"type": "string"}, "shortDescription": TEXT, "help": TEXT,
                        "helpUri": {"type": "string", "pattern": "^https://"},
                        "defaultConfiguration": {"properties": {"level": LEVEL}}}}}}}}},
            "results": {"type": "array", "items": {
                "type": "object", "required": ["message", "ruleId", "ruleIndex", "level"],
                "properties": {
                    "message": TEXT, "level": LEVEL,
                    "ruleIndex": {"type": "integer", "minimum": 0},
                    "locations": {"type": "array", "minItems": 1, "items": {
                        "required": ["logicalLocations"], "properties": {
                            "physicalLocation": PHYSICAL,
                            "logicalLocations": {"type": "array", "minItems": 1, "items": {
                                "required": ["name", "fullyQualifiedName", "kind"]}}}}}}}}}}}}}


def run(*words, expect=CLEAN):
    done = subprocess.run([QG, *map(str, words)], capture_output=True, text=True)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"qg {' '.join(map(str, words))}: status {done.returncode}, "
                             f"expected {expect}: {done.stderr.strip()}")
    return done


# --- networks ---

def save(path, nodes, weights=None, shape=(1, 4, 8, 8), opset=13):
    """A network from x of this shape to y, with seeded weights of these shapes."""
    rng = np.random.default_rng(7)
    constants = [numpy_helper.from_array(
        (rng.normal(0, 0.3, w) if isinstance(w, tuple) else np.asarray(w))
        .astype(np.float32), name) for name, w in (weights or {}).items()]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                ir_version=8), path)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], name=output, **attributes)


FLOOR = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
         "nearest_mode": "floor"}
CONV = {"w": (4, 4, 3, 3), "b": (4,)}


def conv(path, weight=None, bias=None, opset=13):
    """A convolution with padding and a Relu, and one more."""
    save(path, [node("Conv", "x w b", "c", pads=[1] * 4), node("Relu", "c", "r"),
                node("Conv", "r w b", "y")],
         {"w": CONV["w"] if weight is None else weight, "b": CONV["b"] if bias is None else bias},
         opset=opset)


def chain(*ops, weights=None, shape=(1, 4, 8, 8)):
    """Operators of one input, one after the other; Conv and Gemm read w and b."""
    def build(path):
        nodes, at = [], "x"
        for k, (op, attributes) in enumerate(ops):
            out = "y" if k == len(ops) - 1 else f"v{k}"
            more = " w b" if op in ("Conv", "Gemm") else " w" if op == "MatMul" else ""
            nodes.append(node(op, at + more, out, **attributes))
            at = out
        save(path, nodes, weights if weights is not None else CONV, shape)
    return build


def pooled(path):
    """Codes of a pool, clamped, are read by a convolution."""
    save(path, [node("MaxPool", "x", "p", kernel_shape=[2, 2]), node("Relu", "p", "r"),
                node("Conv", "r w", "y")], {"w": (3, 4, 3, 3)})


def residual(path):
    """A sum of a convolution and its input."""
    save(path, [node("Conv", "x w b", "c", pads=[1] * 4), node("Relu", "c", "r"),
                node("Conv", "r w b", "d", pads=[1] * 4), node("Add", "d r", "s"),
                node("Conv", "s w b", "y")], CONV)


def cancelling(path):
    """Two convolutions whose sum is near 0."""
    weight = np.random.RandomState(2).normal(0, 0.5, (4, 4, 1, 1))
    save(path, [node("Conv", "x w", "c"), node("Conv", "x v", "d"), node("Add", "c d", "s"),
                node("Conv", "s w", "y")], {"w": weight, "v": -0.999 * weight})


def enormous(path):
    """A sum whose scale times 2^20 no float32 holds."""
    weight = np.random.RandomState(2).normal(0, 1e35, (4, 4, 1, 1))
    save(path, [node("Conv", "x w", "c"), node("Conv", "x v", "d"), node("Add", "c d", "s"),
                node("Conv", "s u", "y")], {"w": weight, "v": 0.5 * weight, "u": 1e-70 * weight})


def digits(path):
    """Among others, codes that a MaxPool behind a sum passes on to two convolutions."""
    pathlib.Path(path).write_bytes(pathlib.Path("configs/models/digits.onnx").read_bytes())


def shortcut(path):
    """A sum of a convolution and the network's input."""
    save(path, [node("Conv", "x w b", "c", pads=[1] * 4), node("Relu", "c", "r"),
                node("Conv", "r w b", "d", pads=[1] * 4), node("Add", "d x", "y")], CONV)


def branched(path):
    """The residual of a sum is read by a convolution too."""
    save(path, [node("Conv", "x w b", "c", pads=[1] * 4), node("Relu", "c", "r"),
                node("Conv", "r w b", "p", pads=[1] * 4), node("Relu", "p", "q"),
                node("Conv", "q w b", "d", pads=[1] * 4), node("Add", "r d", "s"),
                node("Relu", "s", "t"), node("Conv", "t w b", "y")], CONV)


def clamped(path):
    """A clamp whose bounds lie on the grid of its output, which two nodes read."""
    save(path, [node("Conv", "x w b", "c", pads=[1] * 4), node("Clip", "c low high", "r"),
                node("Conv", "r w b", "d", pads=[1] * 4), node("Add", "d r", "y")],
         {**CONV, "low": 0.0, "high": 1.5})


def banded(low, high):
    """A clamp between these limits behind a convolution."""
    def build(path):
        save(path, [node("Conv", "x w b", "c", pads=[1] * 4), node("Clip", "c low high", "r"),
                    node("Conv", "r w b", "y")], {**CONV, "low": low, "high": high})
    return build


def enlarged(path):
    """Values of two sizes, concatenated: the Resize has no integer kernel everywhere."""
    save(path, [node("Conv", "x w b", "c", pads=[1] * 4), node("Relu", "c", "r"),
                node("Conv", "r w b", "d", pads=[1] * 4, strides=[2, 2]), node("Relu", "d", "e"),
                node("Resize", "e", "u", **FLOOR),
                node("Concat", "r u", "j", axis=1), node("Conv", "j v b", "y")],
         {**CONV, "v": (4, 8, 3, 3), "n": [1, 1, 2, 2]})
    model = onnx.load(path)
    model.graph.node[4].input[:] = ["e", "", "n"]
    onnx.save(model, path)


def joined(path):
    """Two convolutions, concatenated."""
    save(path, [node("Conv", "x w b", "c"), node("Conv", "x v b", "d"),
                node("Concat", "c d", "j", axis=1), node("Conv", "j u b", "y")],
         {**CONV, "v": (4, 4, 3, 3), "u": (4, 8, 3, 3)})


def added(path):
    """A constant operand of a sum, which is signed: the activations become unsigned."""
    save(path, [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Add", "r k", "s"),
                node("Conv", "s w b", "y")], {**CONV, "k": (1, 4, 6, 6)})


def products(path):
    """A product of two activations."""
    save(path, [node("MatMul", "x w", "a"), node("MatMul", "x v", "c"),
                node("MatMul", "a c", "y")], {"w": (8, 8), "v": (8, 8)}, (8, 8))


DENSE = {"w": (8, 8), "b": (8,)}
dense = chain(("Gemm", {}), ("Relu", {}), ("Gemm", {}), weights=DENSE, shape=(2, 8))
softmax = chain(("Gemm", {}), ("Softmax", {}), ("Gemm", {}), weights=DENSE, shape=(2, 8))
gated = chain(("Gemm", {}), ("Sigmoid", {}), ("Gemm", {}), weights=DENSE, shape=(2, 8))
tanh = chain(("Gemm", {}), ("Tanh", {}), ("Gemm", {}), weights=DENSE, shape=(2, 8))
pooled = chain(("Conv", {}), ("AveragePool", {"kernel_shape": [2, 2]}), ("Conv", {}))
softplus = chain(("Conv", {}), ("Softplus", {}), ("Conv", {}))
AVERAGE = {"kernel_shape": [3, 3], "pads": [1] * 4}
apart = chain(("Conv", {}), ("AveragePool", {**AVERAGE, "strides": [2, 2]}), ("Conv", {}))
counted = chain(("Conv", {}), ("AveragePool", {**AVERAGE, "strides": [2, 2],
                                               "count_include_pad": 1}), ("Conv", {}))
ceiled = chain(("Conv", {}), ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2],
                                              "ceil_mode": 1}), ("Conv", {}))
beyond = chain(("Conv", {}), ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1,
                                              "count_include_pad": 1}), ("Conv", {}))


def beside(op, join):
    """An operator with a grid of its own, joined with a product of a larger range."""
    def write(path):
        attributes = {"axis": 1} if join == "Concat" else {}
        save(path, [node("Gemm", "x w b", "g"), node(op, "g", "s"), node("Gemm", "x w b", "h"),
                    node(join, "s h", "y", **attributes)], DENSE, (2, 8))
    write.__name__ = f"beside_{op}_{join}"
    return write


def resized(*scales):
    """A cubic Resize between convolutions."""
    def write(path):
        weights = {"w0": (4, 4, 3, 3), "w1": (4, 4, 3, 3), "scales": [1, 1, *scales], "roi": []}
        save(path, [node("Conv", "x w0", "conv"),
                    node("Resize", "conv roi scales", "size", mode="cubic"),
                    node("Conv", "size w1", "y")], weights)
    write.__name__ = f"resized{scales}"
    return write


shrunk = resized(2, 0.5)


def turned(path):
    """Codes that are only moved, to a reader in float."""
    save(path, [node("Conv", "x w", "conv"), node("Transpose", "conv", "turn", perm=[0, 2, 3, 1]),
                node("Selu", "turn", "y")], {"w": (4, 4, 3, 3)}, opset=21)


def flattened(path):
    """A dense layer on four axes."""
    save(path, [node("Conv", "x w", "conv"), node("MatMul", "conv v", "product"),
                node("Add", "product b", "y")], {"w": (4, 4, 3, 3), "v": (6, 3), "b": (3,)}, opset=21)
same = chain(("Conv", {}), ("AveragePool", AVERAGE), ("Conv", {}))
elu = chain(("Conv", {}), ("Elu", {}), ("Conv", {}))
lrn = chain(("Conv", {}), ("LpPool", {"kernel_shape": [2, 2]}), ("Conv", {}))


def greater(path):
    """A comparison, which has no output in float, and computes on data nevertheless."""
    save(path, [node("Conv", "x w b", "c"), node("Greater", "c z", "m"),
                node("Where", "m c z", "y")], {**CONV, "z": 0.0})


def unread(path):
    """A node whose output nobody reads."""
    save(path, [node("Conv", "x w b", "c"), node("Softplus", "c", "unread"),
                node("Conv", "c w b", "y")], CONV)


def gelu(path):
    """Gelu as exporters write it, which is one operator of TensorFlow Lite."""
    save(path, [node("Conv", "x w b", "c"), node("Div", "c r", "d"), node("Erf", "d", "e"),
                node("Add", "e one", "a"), node("Mul", "c a", "m"), node("Mul", "m h", "y")],
         {**CONV, "r": np.sqrt(2), "one": 1.0, "h": 0.5})


def moved(path):
    """A move of floats."""
    save(path, [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Exp", "r", "e"),
                node("Transpose", "e", "t", perm=[0, 2, 3, 1]), node("Exp", "t", "y")], CONV)


def clamps(path):
    """Two clamps of a value that another node reads, too."""
    save(path, [node("Conv", "x w b", "c"), node("Clip", "c low high", "d"),
                node("Relu", "d", "r"), node("Add", "r c", "y")],
         {**CONV, "low": -0.5, "high": 1.0})


def scaled(path):
    """Arithmetic on shapes, in float, is none on data."""
    save(path, [node("Conv", "x w b", "c"), node("Shape", "x", "n"),
                node("Cast", "n", "f", to=TensorProto.FLOAT), node("Mul", "f t", "h"),
                node("Cast", "h", "i", to=TensorProto.INT64), node("Resize", "c", "y", **FLOOR)],
         {**CONV, "t": [1, 1, 2, 2]})
    model = onnx.load(path)
    model.graph.node[5].input[:] = ["c", "", "", "i"]
    onnx.save(model, path)


def summed(path):
    """A sum of two sums: no target has integer kernels for all of it."""
    save(path, [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Add", "r r", "s"),
                node("Mul", "s s", "m"), node("Conv", "m w b", "y")], CONV)


def padded(value):
    """A Pad with this value between two convolutions."""
    def build(path):
        save(path, [node("Conv", "x w b", "c"), node("Pad", "c p v", "d"),
                    node("Conv", "d w b", "y")], {**CONV, "p": (8,), "v": value})
        model = onnx.load(path)
        pads = next(i for i in model.graph.initializer if i.name == "p")
        pads.CopyFrom(numpy_helper.from_array(np.array([0, 0, 1, 1] * 2), "p"))
        onnx.save(model, path)
    return build


def reflected(path):
    """A Pad that no .tflite file of ours has."""
    padded(0)(path)
    model = onnx.load(path)
    model.graph.node[1].attribute.append(helper.make_attribute("mode", "reflect"))
    onnx.save(model, path)


def heavy(path):
    """A bias that has no int32 code, and weights that are small."""
    conv(path, weight=np.full((4, 4, 3, 3), 1e-12), bias=np.full(4, 1e6))


def heavy_behind_relu(path):
    """heavy, and a value that a node outside of the patch reads."""
    save(path, [node("Relu", "x", "r"), node("Conv", "r w b", "c"), node("Sigmoid", "c", "y")],
         {"w": np.full((4, 4, 3, 3), 1e-12), "b": np.full(4, 1e6)})


def deep(path):
    """Sums of 2^16 products."""
    save(path, [node("MatMul", "x w", "a"), node("Relu", "a", "r"), node("MatMul", "r v", "y")],
         {"w": np.full((1 << 16, 2), 0.5), "v": (2, 2)}, (1, 1 << 16))


def deep_behind_relu(path):
    """Weights of both signs behind a Relu: only codes below 0 sum up beyond int32."""
    w = np.where(np.arange(1 << 10) % 2, 1.0, -1.0)[:, None] * np.ones((1, 2))
    save(path, [node("Relu", "x", "r"), node("MatMul", "r w", "a"), node("Relu", "a", "y")],
         {"w": w}, (1, 1 << 10))


def alternating(path):
    """The largest weights side by side: pairs of products leave 16 bits."""
    conv(path, weight=np.ones((4, 4, 3, 3)))


def small(path):
    """The largest weights alone: one per pair."""
    w = np.zeros((4, 4, 3, 3))
    w[:, ::2] = 0.5
    w[:, 0, 0, 0] = 1
    conv(path, weight=w)


def half(path):
    """conv in float16."""
    conv(path)
    model = onnx.load(path)
    for i in model.graph.initializer:
        i.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(i).astype(np.float16), i.name))
    for v in (*model.graph.input, *model.graph.output):
        v.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, path)


def new_opset(path):
    conv(path, opset=26)


def newest_opset(path):
    conv(path, opset=28)


def volume(groups):
    """A convolution over three axes."""
    return chain(("Conv", {"group": groups}), ("Relu", {}), shape=(1, 4, 6, 6, 6),
                 weights={"w": (4, 4 // groups, 3, 3, 3), "b": (4,)})


def reduced(noop):
    """A ReduceL1 without axes: over all, or with `noop` over none."""
    def build(path):
        save(path, [node("Conv", "x w b", "c", pads=[1] * 4),
                    node("ReduceL1", "c", "y", noop_with_empty_axes=noop)], CONV, opset=18)
    return build


def dilated(is_open):
    """A MaxPool with dilations and auto_pad, of rows whose number depends on the data."""
    def integers(name, *x):
        return helper.make_node("Constant", [], [name], name, value_ints=x)
    cut = [integers("zero", 0), integers("four", 4), integers("rows", 2),
           node("ReduceMax", "c", "m", keepdims=0), node("Cast", "m", "k", to=TensorProto.INT64),
           node("Add", "k four", "e"), node("Slice", "c zero e rows", "s")] if is_open else []

    def build(path):
        save(path, [node("Conv", "x w b", "c", pads=[1] * 4), *cut,
                    node("MaxPool", "s" if is_open else "c", "y", kernel_shape=[2, 2],
                         dilations=[2, 2], auto_pad="SAME_UPPER")], CONV)
    return build


def small_network(name):
    """One of small_networks.py."""
    def save(path):
        onnx.save(small_networks.build(name)[0], path)
    save.__name__ = name
    return save


# --- cases: rule: (target, (network, backend, --set ...) that it finds, one that not) ---

ASYMMETRIC = "op=* slot={} policy=per-tensor,linear,asymmetric range=0,255"
CHANNELED = "op=* slot=weight policy=per-channel,linear,asymmetric range=-128,127"
WIDE = "op=* slot={} bits=16 range=-32768,32767"
CHANNELS = "op=Gemm slot=weight policy=per-channel,linear,symmetric axis=1"
TENSORRT, RUNTIME, TFLITE = "trt-int8", "ort-int8", "tflite-int8"
DEFAULT = conv, RUNTIME
LARGE = {"w": np.full((4, 4, 3, 3), 3, np.float32), "b": (4,)}
CASES = {
    "no-integer-kernel": ("ncnn", (pooled, TENSORRT), (conv, TENSORRT)),
    "blocked-kernel": ("ort", (conv, TENSORRT), DEFAULT),
    "float-compute": ("ncnn", (products, "ncnn-int8"), (conv, "ncnn-int8")),
    "requantized-branch": ("trt", (residual, TENSORRT, "pass=align run=no", "op=s slot=in1 bits=4 range=-8,7"), (conv, TENSORRT)),
    "repeated-quantizer": ("trt", (pooled, TENSORRT, "pass=simplify run=no"),
                           (conv, TENSORRT)),
    "dead-quantizer": ("ncnn", (summed, TENSORRT), (conv, TENSORRT)),
    "bias-overflow": ("ort", (heavy, RUNTIME), DEFAULT),
    "accumulator-overflow": ("ort", (deep, RUNTIME, WIDE.format("input"), WIDE.format("weight")),
                             (deep, RUNTIME)),
    "accumulator-overflow-worst-case": (
        "ort", (deep_behind_relu, TENSORRT, WIDE.format("input")), DEFAULT),
    "padding-value": ("tflite", (padded(1e3), TFLITE), (padded(0), TFLITE)),
    "activation-per-channel": ("trt", (conv, TENSORRT, "op=Conv slot=input axis=1 "
                                       "policy=per-channel,linear,symmetric"), (conv, TENSORRT)),
    "scale-at-run-time": ("trt", (dense, TENSORRT, "op=Gemm slot=input "
                                  "policy=per-tensor,linear,symmetric,dynamic"),
                          (dense, TENSORRT)),
    "floating-codes": ("openvino", (conv, "trt-fp8"), (conv, TENSORRT)),
    "guide-weighted-inputs": ("trt", (conv, TENSORRT, "op=Conv slot=weight state=fp32"),
                              (conv, TENSORRT)),
    "guide-weighted-output": ("trt", (conv, "ncnn-int8", "op=Conv slot=output state=initial"),
                              (conv, TENSORRT)),
    "guide-residual-input": ("trt", (residual, TENSORRT, "op=s slot=in1 state=deactivated",
                                      "op=r slot=output state=deactivated",
                                      "op=d slot=output state=deactivated"),
                             (residual, TENSORRT)),
    "guide-quantizable-output": ("trt", (pooled, TENSORRT, "op=AveragePool slot=output state=fp32",
                                         "op=y slot=input state=fp32"), (pooled, TENSORRT)),
    "guide-residual-product": ("trt", (residual, TENSORRT), (residual, "trt-qdq-int8")),
    "guide-weight-per-channel": ("trt", (conv, TENSORRT, "op=Conv slot=weight "
                                         "policy=per-tensor,linear,symmetric"), (conv, TENSORRT)),
    "guide-bias": ("trt", DEFAULT, (conv, TENSORRT)),
    "guide-symmetric": ("trt", DEFAULT, (conv, TENSORRT)),
    "guide-signed-codes": ("trt", (conv, TENSORRT, ASYMMETRIC.format("input")), (conv, "trt-fp8")),
    "guide-widths": ("trt", (conv, TENSORRT, WIDE.format("input")), (conv, TENSORRT)),
    "refused-activation": ("trt", (conv, TENSORRT, "op=Conv slot=input bits=4"),
                           (conv, TENSORRT, "op=Conv slot=weight bits=4")),
    "refused-floating-activation": ("trt", (conv, "trt-fp8", "op=Conv slot=input exponent-bits=5 "
                                            "range=-57344,57344"), (conv, "trt-fp8")),
    "float16-casts": ("ort", (half, RUNTIME), (conv, RUNTIME)),
    "opset-too-new": ("trt", (new_opset, TENSORRT), (conv, TENSORRT)),
    "refused-operator": ("tflite", (softplus, TFLITE), (pooled, TFLITE)),
    "average-padding": ("tflite", (apart, TFLITE), (same, TFLITE)),
    "clamp-apart": ("tflite", (banded(0.1, 0.7), TFLITE), (banded(0.0, 6.0), TFLITE)),
    "refused": ("tflite", (reflected, TFLITE), (conv, TFLITE)),
    "refused-codes": ("tflite", (conv, TFLITE, WIDE.format("input")), (conv, TFLITE)),
    "dense-per-channel": ("tflite", (dense, TFLITE, CHANNELS), (dense, TFLITE)),
    "weight-zero-point": ("tflite", (conv, TFLITE, "op=Conv slot=weight range=-128,127 "
                                     "policy=per-tensor,linear,asymmetric"), (conv, TFLITE)),
    "weight-lowest-code": ("tflite", (conv, TFLITE, "op=Conv slot=weight range=-128,127"),
                           (conv, TFLITE)),
    "int16-zero-point": ("tflite", (conv, TFLITE, "op=Conv slot=input bits=16 "
                                    "range=-32768,32767"), (conv, TFLITE)),
    "softmax-grid": ("tflite", (softmax, TFLITE, "op=Softmax slot=output observer=minmax"),
                     (softmax, TFLITE)),
    "tanh-grid": ("tflite", (tanh, TFLITE, "op=Tanh slot=output observer=minmax"), (tanh, TFLITE)),
    "one-grid": ("tflite", (joined, TFLITE, "pass=align run=no"),
                 (joined, TFLITE)),
    "factor-out-of-range": ("xnnpack", (conv, TFLITE, "op=y slot=output observer=fixed step=1e-9 zero=1"),
                            (conv, TFLITE)),
    "factor-vanishes": ("tflite", (conv, TFLITE, "op=y slot=output observer=fixed step=1e9 zero=1"),
                        (conv, TFLITE)),
    "symmetric": ("ncnn", DEFAULT, (conv, "ncnn-int8")),
    "lowest-code": ("ncnn", (conv, TENSORRT), (conv, "ncnn-int8")),
    "not-eight-bits": ("ncnn", (conv, "ncnn-int8", WIDE.format("input")), (conv, "ncnn-int8")),
    "product-per-channel": ("qnn", (dense, TENSORRT, CHANNELS), (dense, "qnn-dsp-int8")),
    "signed-constant": ("ort", (added, RUNTIME), (residual, RUNTIME)),
    "signed-moved": ("ort", (turned, TENSORRT, "written=trt"), (turned, TENSORRT, "written=ort")),
    "signed-flattened": ("ort", (flattened, TENSORRT, "written=trt"),
                         (flattened, TENSORRT, "written=ort")),
    "signed-branch": ("ort", (residual, RUNTIME), DEFAULT),
    "signed-input": ("ort", (residual, RUNTIME), DEFAULT),
    "float-bias": ("ort", (conv, TENSORRT), DEFAULT),
    "narrow-limits": ("ort", (conv, RUNTIME, "op=Conv slot=output range=-127,127"), DEFAULT),
    "narrow-unsigned-limits": ("ort", (conv, RUNTIME, "op=Conv slot=output range=0,254"), DEFAULT),
    "pair-saturation": ("ort", (alternating, RUNTIME), (small, RUNTIME)),
    "unsigned-weight": ("openvino", (conv, "openvino-int8", "op=Conv slot=weight range=0,255"),
                        (conv, "openvino-int8")),
    "counted-padding": ("openvino", (counted, RUNTIME, "written=ort"),
                        (counted, "openvino-int8", "written=openvino")),
    "counted-in-float": ("openvino", (counted, TFLITE), (apart, TFLITE)),
    "average-beyond-the-end": ("openvino", (ceiled, TFLITE), (pooled, TFLITE)),
    "average-apart": ("ort", (beyond, TENSORRT), (counted, TENSORRT)),
    "average-wrong": ("ort", (beyond, TENSORRT, "written=trt"), (beyond, TENSORRT, "written=ort")),
    "cubic-turned": ("ort", (shrunk, TENSORRT), (resized(2, 2), TENSORRT)),
    "cubic-refused": ("ort", (shrunk, TENSORRT, "written=trt"), (shrunk, TENSORRT, "written=ort")),
    "fractional-extent": ("openvino", (small_network("resize_corners_fraction"), "openvino-int8"),
                          (small_network("resize_corners_nearest"), "openvino-int8")),
    "grouped-volume": ("openvino", (volume(2), "openvino-int8"), (volume(1), "openvino-int8")),
    "read-apart": ("openvino", (reduced(1), "openvino-int8"), (reduced(0), "openvino-int8")),
    "derived-pads": ("openvino", (dilated(True), "openvino-int8"),
                     (dilated(False), "openvino-int8")),
    "steep-sigmoid": ("tflite", (chain(("Conv", {}), ("Sigmoid", {}), weights=LARGE), TFLITE), (conv, TFLITE)),
    "steep-tanh": ("tflite", (chain(("Conv", {}), ("Tanh", {}), weights=LARGE), TFLITE),
                   (chain(("Tanh", {}), ("Conv", {})), TFLITE)),
    "rounded-before-sum": ("openvino", (shortcut, RUNTIME), (shortcut, "openvino-int8")),
    "refused-by-ir": ("openvino", (chain(("Selu", {}), ("Conv", {})), "openvino-int8"),
                      (conv, "openvino-int8")),
    "activations-only": ("openvino", (products, "openvino-int8"), (conv, "openvino-int8")),
    "odd-levels": ("openvino", (conv, "openvino-int8", "op=Conv slot=input range=-64,63"),
                   (conv, "openvino-int8", "op=Conv slot=weight range=-63,63")),
    "sum-beyond-16-bits": ("tflite", (cancelling, TFLITE), (residual, TFLITE)),
    "sum-beyond-float": ("tflite", (enormous, TFLITE), (residual, TFLITE)),
    "more-than-eight-bits": ("openvino", (conv, "openvino-int8", WIDE.format("input")),
                             (conv, "openvino-int8")),
}
# Rules of one name in several targets, with cases of their own.
MORE = [
    ("fractional-extent", "ort", (small_network("resize_corners_fraction"), RUNTIME),
     (small_network("resize_corners"), RUNTIME)),
    ("derived-pads", "ort", (dilated(True), RUNTIME), (dilated(False), RUNTIME)),
    ("average-padding", "tflite", (counted, TFLITE), (pooled, TFLITE)),
    ("sum-beyond-16-bits", "xnnpack", (cancelling, TFLITE), (residual, TFLITE)),
    ("refused-operator", "tflite", (greater, TENSORRT), (scaled, TFLITE)),
    ("refused-operator", "tflite", (elu, TFLITE), (unread, TENSORRT)),
    ("refused-operator", "tflite", (elu, TENSORRT), (gelu, TFLITE)),
    ("refused-operator", "tflite", (elu, RUNTIME), (moved, TENSORRT)),
    ("refused-operator", "tflite", (softplus, TENSORRT), (clamps, TENSORRT)),
    ("signed-input", "ort", (digits, TENSORRT), DEFAULT),
    ("weight-zero-point", "qnn", (conv, TENSORRT, "op=Conv slot=weight axis=0 range=-128,127 "
                                  "policy=per-channel,linear,asymmetric"), (conv, TENSORRT)),
    ("weight-zero-point", "openvino", (conv, "openvino-int8", "op=Conv slot=weight range=-128,127 "
                                       "policy=per-tensor,linear,asymmetric"), (conv, "openvino-int8")),
    ("softmax-grid", "ort", (softmax, TENSORRT), (softmax, TFLITE)),
    ("pair-saturation", "openvino", (alternating, "openvino-int8"),
     (alternating, "openvino-avx2-int8")),
    ("factor-out-of-range", "tflite",
     (conv, TFLITE, "op=y slot=output observer=fixed step=1e-17 zero=1"), (conv, TFLITE)),
    ("dense-per-channel", "cmsis-nn", (dense, TFLITE, CHANNELS), (dense, TFLITE)),
    ("float-bias", "ort", (conv, "snpe-int8"), (conv, "tengine-int8")),
    ("opset-too-new", "ort", (newest_opset, RUNTIME), DEFAULT),
]


def scalar(text):
    try:
        return float(text) if "." in text or "e-" in text else int(text)
    except ValueError:
        return text


def as_rule(k, words):
    """Words of --set as a rule of a policy patch, where later patches win."""
    values = {}
    for word in words.split():
        key, _, value = word.partition("=")
        parts = [scalar(v) for v in value.strip("[]").split(",")]
        values[key] = parts if "," in value else parts[0]
    at, slot = values.pop("op"), values.pop("slot")
    node = {} if at == "*" else {"node": at} if at in ("d", "r", "s", "y") else {"op": at}
    return {"id": f"case-{k}", "match": {"slot": slot, **node}, "set": values}


class Suite:
    def __init__(self, folder):
        self.folder, self.bad, self.made = pathlib.Path(folder), [], {}

    def snapshot(self, network, backend, *options, policy=None):
        """options: selectors and settings, in words of --set; parameters of passes; words
        of the command line."""
        key = network, backend, options, str(policy)
        if key not in self.made:
            at = self.folder / f"s{len(self.made)}"
            model = self.folder / f"m{len(self.made)}.onnx"
            network(model)
            first = self.folder / f"p{len(self.made)}.yaml"
            first.write_text(yaml.safe_dump({"rules": [
                as_rule(k, o) for k, o in enumerate(options) if o.startswith("op=")]}))
            run("quantize", model, "-b", backend, "-d", "random:4", "-o", at, "--policy", first,
                *(word for o in options if o.startswith("pass=") for word in ("--set", o)),
                *(o for o in options if o.startswith("--")),
                *(("--policy", policy) if policy else ()))
            self.made[key] = at
        return self.made[key]

    def written(self, network, *options):
        """The snapshot; with written=PLACEMENT the file that is exported of it."""
        snapshot = self.snapshot(network, *(o for o in options if not o.startswith("written=")))
        for o in options:
            if o.startswith("written="):
                file = snapshot.with_suffix(f".{o[8:]}.onnx")
                run("export", snapshot, "--format", "onnx-qdq", "--placement", o[8:], "-o", file)
                return file
        return snapshot

    def found(self, snapshot, target, *options):
        done = run("lint", snapshot, "--target", target, "--json", *options, expect=None)
        if done.returncode not in (CLEAN, FOUND):
            raise AssertionError(done.stderr)
        report = json.loads(done.stdout)
        rules = [f["rule"] for f in report.get("findings", [])]
        if (done.returncode == FOUND) != bool(rules) or report["found"] != len(rules):
            self.bad.append(f"{snapshot}: status {done.returncode}, {report['found']} found")
        return rules

    def case(self, rule, target, fires, silent):
        for (network, *options), expected in ((silent, False), (fires, True)):
            what = f"{target} {rule}: {network.__name__} {options}"
            try:
                rules = self.found(self.written(network, *options), target)
            except AssertionError as error:
                self.bad.append(f"{what}: {error}")
                continue
            if (rule in rules) != expected:
                self.bad.append(f"{what}: {sorted(set(rules))}, expected "
                                f"{'it' if expected else 'it not'}")

    def mended(self, rule, target, network, backend, *sets):
        """The patch of a rule that knows one silences the rule."""
        patch = self.folder / "patch.yaml"
        patch.unlink(missing_ok=True)
        self.found(self.snapshot(network, backend, *sets), target, "--fix", "-o", patch)
        mends = [r for r in yaml.safe_load(patch.read_text())["rules"]
                 if r["id"].startswith(f"lint-{rule}-")]
        only = self.folder / f"only-{target}-{rule}.yaml"
        only.write_text(yaml.safe_dump({"rules": mends}))
        if rule in self.found(self.snapshot(network, backend, *sets, policy=only), target):
            self.bad.append(f"{target} {rule}: fires after its patch")


    def in_float(self, snapshot, target):
        done = run("lint", snapshot, "--target", target, "--json", expect=None)
        return json.loads(done.stdout)["float_nodes"]

    def noise(self, snapshot):
        """Of the simulation, on samples of its own."""
        done = run("analyse", snapshot, "-d", "random:4", "--by", "graph", "--json")
        return max(e["error"] for e in json.loads(done.stdout)["errors"])

    def patched(self, target, network, backend, *options):
        """With a whole patch no more nodes compute in float, no more are blocked, and the
        noise is of the same size."""
        patch = self.folder / f"whole-{target}-{network.__name__}.yaml"
        before = self.snapshot(network, backend, *options)
        found = self.found(before, target, "--fix", "-o", patch)
        if not patch.exists():
            return
        after = self.snapshot(network, backend, *options, policy=patch)
        left = self.found(after, target)
        nodes = [self.in_float(s, target) for s in (before, after)]
        noise = [self.noise(s) for s in (before, after)]
        if noise[1] > 6 * noise[0]:
            self.bad.append(f"{target}: {network.__name__} on {backend}: noise {noise}")
        if nodes[1] > nodes[0] or \
                left.count("blocked-kernel") > found.count("blocked-kernel"):
            self.bad.append(f"{target}: {network.__name__} on {backend}: float nodes before "
                            f"and after the patch {nodes}, then {left}")


def known_rules():
    """{(target, rule): row}"""
    names = [t["target"] for t in json.loads(run("list", "targets", "--json").stdout)["targets"]]
    pages = {n: json.loads(run("list", "targets", n, "--json").stdout) for n in names}
    return {(n, row["id"]): row for n, page in pages.items() for row in page["rules"]}


def check_cases(suite):
    """Every rule of every file has a case."""
    cases = [(rule, *case) for rule, case in CASES.items()] + MORE
    rules = known_rules()
    for rule, target, fires, silent in cases:
        suite.case(rule, target, fires, silent)
        if rules[target, rule]["fix"]:
            try:
                suite.mended(rule, target, *fires)
            except (AssertionError, OSError) as error:
                suite.bad.append(f"{target} {rule}: patch: {error}")
    tried = {rules[target, rule]["at"] for rule, target, *_ in cases}
    suite.bad += [f"{row['at']}: rule {row['id']} has no case"
                  for row in rules.values() if row["at"] not in tried]
    return len(cases)


REFUSALS = {"refused", "refused-operator", "refused-codes", "average-padding"}


def check_predicted(suite):
    """The format tflite refuses what these rules find; what it refuses has `refused`."""
    refused, rules = 0, known_rules()
    errors = {r for (t, r), row in rules.items() if t == "tflite" and row["level"] == "error"}
    for (network, backend, *rest), snapshot in suite.made.items():
        done = run("export", snapshot, "--format", "tflite", "-o", suite.folder / "m.tflite",
                   expect=None)
        found = errors & set(suite.found(snapshot, "tflite"))
        refused += done.returncode != CLEAN
        if "refused" not in found if done.returncode != CLEAN else found & REFUSALS:
            suite.bad.append(f"tflite: {network.__name__} {backend} {rest}: {found}, then "
                             f"{done.stderr.strip() or 'written'}")
    return refused


WHOLE = [(t, n, b) for n in (shortcut, branched, clamped, enlarged) for b in (TENSORRT, RUNTIME)
         for t in ("trt", "openvino", "ncnn", "tflite", "ort", "qnn")]

# symmetric grids for values whose fixed scale was made for a zero point
WHOLE += [(t, n, TFLITE) for t in ("trt", "ncnn") for n in (gated, softmax, tanh)]
WHOLE += [("trt", n, "aimet-htp") for n in (gated, softmax)]  # or for unsigned codes
# prescribed grids, and values that share them with others
WHOLE += [(t, beside(op, join), "int8-base") for t in ("ort", "tflite")
          for op in ("Softmax", "Sigmoid", "Tanh") for join in ("Concat", "Add")]
# codes of other widths, one scale and many: limits fit, none loses the negative half
PER_CHANNEL, PER_TENSOR = "[per-channel,linear,asymmetric]", "[per-tensor,linear,asymmetric]"
WHOLE += [("qnn", dense, "metax-int8-t", f"op=MatMul slot=weight policy={PER_CHANNEL} range=[0,255]"),
          *((t, dense, "openvino-int8", f"op=Gemm slot=weight policy={PER_TENSOR} bits=4 range=[-8,7]")
            for t in ("trt", "tflite", "openvino", "ncnn")),
          ("ort", softmax, "snpe-int8", "op=Softmax slot=out0 bits=4 range=[0,15]"),
          ("tflite", softmax, TENSORRT, "op=Softmax slot=out0 range=[-100,100]"),
          ("ort", dense, "onnxruntime-int8",
           f"op=Gemm slot=out0 policy={PER_TENSOR} range=[0,200]")]


def check_rounds(suite):
    """A rule of a later patch wins over all of an earlier one, also where it replaces one."""
    model, at = suite.folder / "rounds.onnx", suite.folder / "rounds"
    conv(model)
    seven = {"match": {"op": "Conv", "slot": "weight"}, "set": {"bits": 7, "range": [-64, 63]}}
    eight = {**seven, "set": {"bits": 8, "range": [-128, 127]}}
    for k, rules in enumerate(([("first", seven), ("second", eight)], [("first", seven)])):
        (suite.folder / f"round{k}.yaml").write_text(json.dumps(
            {"rules": [{"id": name, "why": "test", **rule} for name, rule in rules]}))
    run("quantize", model, "-b", TENSORRT, "-d", "random:4", "-o", at, *(
        word for k in range(2) for word in ("--policy", suite.folder / f"round{k}.yaml")))
    bits = {t["bits"] for t in json.loads((at / "quant.json").read_text())["tqcs"]
            if t["slot"] == "in1"}
    if bits != {7}:
        suite.bad.append(f"rounds: weights have {bits} bits")


def check_whole_patches(suite):
    for row in WHOLE:
        try:
            suite.patched(*row)
        except (AssertionError, OSError) as error:
            suite.bad.append(f"{row}: {error}")


# patches of several rules at one value: of the first, nothing is left after another made its
# node float; a weight has a scale per channel after the second, whose rules are silent then
VOID = [(n, b) for n in (heavy, heavy_behind_relu) for b in (RUNTIME, TFLITE, "snpe-int8")]
TOGETHER = [("trt", conv, "snpe-int8", ASYMMETRIC.format("weight")),
            ("trt", conv, TENSORRT, CHANNELED), ("trt", dense, TENSORRT, CHANNELED),
            ("tflite", conv, TFLITE, CHANNELED)]


def check_patches_of_one_value(suite):
    """quantize takes the patch; a rule does not undo what one before it did."""
    for network, backend in VOID:
        patch = suite.folder / f"void-{network.__name__}-{backend}.yaml"
        suite.found(suite.snapshot(network, backend), "trt", "--fix", "-o", patch)
        try:
            left = suite.found(suite.snapshot(network, backend, policy=patch), "trt")
        except AssertionError as error:
            left = [str(error)]
        if any(r == "bias-overflow" or " " in r for r in left):
            suite.bad.append(f"trt: {network.__name__} on {backend}, patched: {left}")
    silent = "guide-weight-per-channel", "guide-symmetric", "guide-signed-codes", "weight-zero-point"
    for target, network, backend, words in TOGETHER:
        patch = suite.folder / f"together-{target}-{network.__name__}-{backend}.yaml"
        suite.found(suite.snapshot(network, backend, words), target, "--fix", "-o", patch)
        after = suite.snapshot(network, backend, words, policy=patch)
        left = set(silent) & set(suite.found(after, target))
        if left or silent[0] in suite.found(after, "trt"):
            suite.bad.append(f"{target}: {network.__name__} {words}, patched: {left}")


def check_no_fix(suite):
    """A bias that Gemm broadcasts over columns cannot be one of 32 bits: no finding offers it."""
    network = chain(("Gemm", {}), weights={"w": (6, 10), "b": (3, 1)}, shape=(3, 6))
    if "float-bias" in suite.found(suite.snapshot(network, TENSORRT), "ort"):
        suite.bad.append("float-bias of a Gemm whose bias is no vector")


def check_sarif(suite):
    file = suite.folder / "found.sarif"
    rules = suite.found(suite.snapshot(conv, TENSORRT), "ort", "--sarif", file)
    tree = json.loads(file.read_text())
    jsonschema.validate(tree, SARIF)
    made = tree["runs"][0]
    names = [r["id"] for r in made["tool"]["driver"]["rules"]]
    if [r["ruleId"] for r in made["results"]] != rules or \
            any(names[r["ruleIndex"]] != r["ruleId"] for r in made["results"]):
        suite.bad.append(f"{file.name}: {made['results']}, expected {rules}")
    check_places(suite)


def places(suite, what):
    """Of each finding in ncnn's report about it: URI, line or None, full name."""
    file = suite.folder / "places.sarif"
    run("lint", what, "--target", "ncnn", "--sarif", file, expect=FOUND)
    tree = json.loads(file.read_text())
    jsonschema.validate(tree, SARIF)
    for result in tree["runs"][0]["results"]:
        at = result["locations"][0]
        yield (at["physicalLocation"]["artifactLocation"]["uri"],
               at["physicalLocation"].get("region", {}).get("startLine"),
               at["logicalLocations"][0]["fullyQualifiedName"])


def check_places(suite):
    """A finding has the line of its record, or of its node, in quant.json, whatever the names
    of folder and nodes; in a file without lines, only the file."""
    model, snapshot = suite.folder / "long.onnx", suite.folder / "a b#\u00e9"
    residual(model)
    net = onnx.load(model)
    for k, n in enumerate(net.graph.node):
        n.name = "{[\"tqcs\": [" + "n" * 200 + str(k)
    onnx.save(net, model)
    run("quantize", model, "-b", "tflite-int8", "-d", "random:2", "-o", snapshot)
    lines = (snapshot / "quant.json").read_text().splitlines()
    found, kinds = list(places(suite, snapshot)), set()
    for uri, line, name in found:
        member = re.fullmatch(r"(.*)\.((in|out)\d+)", name)
        text = "\n".join(lines[line - 1:line + 4])
        want = {"node": member[1], "slot": member[2]} if member else {"name": name}
        kinds.add(bool(member))
        if urllib.parse.unquote(uri) != (snapshot / "quant.json").as_uri().replace(
                "%20", " ").replace("%23", "#").replace("%C3%A9", "\u00e9") or " " in uri or \
                lines[line - 1].strip() != "{" or \
                any(f"{json.dumps(k)}: {json.dumps(v)}" not in text for k, v in want.items()):
            suite.bad.append(f"SARIF: {uri}:{line}: {text}, expected {name}")
    qdq = suite.folder / "long.qdq.onnx"
    run("export", snapshot, "--format", "onnx-qdq", "-o", qdq)
    for uri, line, _ in places(suite, qdq):
        if uri != qdq.as_uri() or line is not None:
            suite.bad.append(f"SARIF: {uri}: {line}, expected the file")
    if kinds != {False, True}:
        suite.bad.append(f"SARIF: findings of one kind only: {found}")


BAD = [  # text of a target, part of the message
    ("name: x", "key 'title' is missing"),
    ("name: x\ntitle: t\nrulez: []", "unknown key 'rulez', did you mean 'rules'"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, remedy: m, when: [padz]}",
     ":4: rule r: when: 'padz' is no predicate, expected one of `qg list predicates`, did you "
     "mean 'pads'"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, remedy: m, when: [rounds]}",
     "'rounds' is about an endpoint, expected at: endpoint"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, remedy: m, when: [rank]}",
     "'rank' alone, expected {rank: number}"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, remedy: m, when: [{pads: 1}]}",
     "'pads' with an argument, expected the word alone"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, remedy: m, when: []}",
     "expected a list of conditions"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, remedy: m, when: [pads], "
     "fix: {set: {bits: 7}}}", "no slot, expected one"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, remedy: m, when: [pads], "
     "fix: {slot: weight, set: {bitz: 7}}}", "bitz"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, when: [pads]}",
     "key 'remedy' is missing"),
    ("name: x\ntitle: t\nrules:\n- {id: r, source: s, remedy: m, when: [pads]}",
     "key 'why' is missing"),
    ("name: x\ntitle: t\nkernels:\n- {id: k, why: w, source: s, match: {op: Convv}}",
     "did you mean 'Conv'"),
    ("name: x\ntitle: t\nkernels:\n- {id: k, why: w, source: s, match: {op: Conv}, "
     "as: fused, carries: yes}", "carries: yes, expected another fate than fused"),
    ("name: x\ntitle: t\nkernels:\n- {id: k, why: w, source: s, match: {op: Conv}}\n"
     "- {id: k, why: w, source: s, match: {op: Conv}}", "id 'k' is used twice"),
    ("name: x\ntitle: t\nextends: common\n-rules: [nothing]", "there is no id 'nothing'"),
    ("name: x\ntitle: t\nextends: common\n-kernels: [nothing]", "there is no id 'nothing'"),
    ("name: x\ntitle: t\nrules:\n- {id: r, why: w, source: s, remedy: m, level: fatal, "
     "when: [pads]}", "expected error, warning or note"),
]


def check_refusals(suite):
    snapshot, file = suite.snapshot(conv, TENSORRT), suite.folder / "bad.yaml"
    for text, message in BAD:
        file.write_text(text + "\n")
        done = run("lint", snapshot, "--target", file, expect=FAILED)
        if message not in done.stderr or f"{file}:" not in done.stderr:
            suite.bad.append(f"{text!r}: {done.stderr.strip()}, expected {message!r}")
    for target, message in (("common", "target common: has no kernels"),
                            ("tflite-int8", "unknown target 'tflite-int8', did you mean 'tflite'")):
        said = run("lint", snapshot, "--target", target, "--fix", "-o", file, expect=FAILED).stderr
        if message not in said:
            suite.bad.append(f"--target {target}: {said}")
    for words, status in ((("--target", "trtt"), FAILED), ((), USAGE),
                          (("--target", "trt", "-o", file), USAGE)):
        run("lint", snapshot, *words, expect=status)
    model = suite.folder / "float.onnx"
    conv(model)
    said = run("lint", model, "--target", "trt", expect=FAILED).stderr
    if "the model is not quantized" not in said:
        suite.bad.append(f"a float model: {said}")


POOLED = chain(("Conv", {}), ("MaxPool", {"kernel_shape": [3, 3], "pads": [1] * 4}), ("Conv", {}))


def check_read_files(suite):
    """A pad with the lowest code, which a .tflite file has for a MaxPool; a file of another
    format of quantizers."""
    snapshot, file = suite.snapshot(POOLED, TFLITE), suite.folder / "pool.tflite"
    run("export", snapshot, "--format", "tflite", "-o", file)
    if "padding-value" in suite.found(file, "tflite"):
        suite.bad.append("padding-value of the lowest code")
    file = suite.folder / "fq.onnx"
    run("export", suite.snapshot(conv, "openvino-int8"), "--format", "openvino-fq", "-o", file)
    said = run("lint", file, "--target", "openvino", expect=FAILED).stderr
    if "is quantized by FakeQuantize, expected QuantizeLinear, or a snapshot" not in said:
        suite.bad.append(f"a file with FakeQuantize: {said}")


def check_written_files(suite):
    """Findings, patch and what is read are three files."""
    snapshot, file = suite.snapshot(conv, TENSORRT), suite.folder / "twice.yaml"
    said = run("lint", snapshot, "--target", "ort", "--sarif", file, "--fix", "-o", file,
               expect=FAILED).stderr
    if "findings and patch go to the same file" not in said or file.exists():
        suite.bad.append(f"one file for SARIF and patch: {said}")
    (suite.folder / "here").symlink_to(suite.folder)
    for other in (f"./{os.path.relpath(file)}", f"{suite.folder}/here/{file.name}"):
        said = run("lint", snapshot, "--target", "trt", "--sarif", other, "--fix", "-o", file,
                   expect=FAILED).stderr
        if "findings and patch go to the same file" not in said or file.exists():
            suite.bad.append(f"{other} and {file}: {said}")
    qdq = suite.folder / "read.onnx"
    run("export", snapshot, "--format", "onnx-qdq", "-o", qdq)
    before = qdq.read_bytes()
    link = suite.folder / "link.onnx"
    link.symlink_to(qdq)
    for words in (("--sarif", qdq), ("--sarif", link), ("--fix", "-o", qdq),
                  ("--fix", "-o", f"{suite.folder}/./read.onnx")):
        run("lint", qdq, "--target", "ort", *words, expect=USAGE)
    if qdq.read_bytes() != before:
        suite.bad.append("the file that was read is replaced")


def main():
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(folder)
        cases = check_cases(suite)
        check_whole_patches(suite)
        check_patches_of_one_value(suite)
        check_rounds(suite)
        refused = check_predicted(suite)
        check_no_fix(suite)
        check_sarif(suite)
        check_read_files(suite)
        check_written_files(suite)
        check_refusals(suite)
        print(*suite.bad, sep="\n")
        print(f"{cases} cases, {len(suite.made)} snapshots, {refused} refused by tflite, "
              f"{len(BAD)} wrong files, {len(suite.bad)} failures")
    return len(suite.bad) > 0


if __name__ == "__main__":
    sys.exit(main())
