#!/usr/bin/env python3
"""qg import --format onnx-qdq on files of other tools: every form in which quantizers are
written becomes records with the file's grids, and the simulation computes what ONNX Runtime
computes (without graph optimizations), as does mode integer.

Small graphs by hand, with scales that are powers of two: floats are exact, so outputs have
equal bits.  Files of onnxruntime.quantization.quantize_static (QDQ, QOperator, per channel,
int8 and uint8, reduced range) and their optimized form: the records have the file's grids, all
forms of a model the same records; the codes of a value in the middle are equal, and outputs
are within a step (behind it averages of codes are ties).

    test_import_onnxruntime.py                                          all checks
    test_import_onnxruntime.py --example docs/examples/onnxruntime.onnx writes that file"""
import contextlib
import io
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper
    from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, QuantType,
                                          quantize_static)
    from onnxruntime.quantization.shape_inference import quant_pre_process
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

logging.disable(logging.WARNING)
QG = os.environ.get("QG", "build/qg")
MS = "com.microsoft"
U8, I8, I16, F32 = "u1", "i1", "i2", "f4"


def qg(*arguments):
    return subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True)


def session(model, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL, save=None):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    if save:
        options.optimized_model_filepath = str(save)
    return ort.InferenceSession(model if isinstance(model, bytes) else str(model), options,
                                ["CPUExecutionProvider"])


# --- small graphs ---

class Graph:
    """Nodes one after the other; values and constants are names."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.feed = [], [], [], {}
        self.outputs, self.count = [], 0

    def constant(self, value, dtype=F32):
        self.count += 1
        name = f"c{self.count}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def given(self, *shape, name="x", dtype=F32):
        value = (self.rng.integers(-96, 96, shape) / 16).astype(dtype) if dtype == F32 else \
            self.rng.integers(*((-128, 128) if dtype == I8 else (0, 9)), shape).astype(dtype)
        kind = h.np_dtype_to_tensor_dtype(value.dtype)
        self.inputs.append(h.make_tensor_value_info(name, kind, shape))
        self.feed[name] = value
        return name

    def op(self, kind, inputs, domain="", n=1, name=None, **attributes):
        self.count += 1
        out = [f"v{self.count}_{k}" for k in range(n)]
        self.nodes.append(h.make_node(kind, inputs, out, name=name or f"{kind}_{self.count}",
                                      domain=domain, **attributes))
        return out[0] if n == 1 else out

    def grid(self, scale, zero=0, dtype=U8):
        return [self.constant(scale), self.constant(zero, dtype)]

    def q(self, x, scale, zero=0, dtype=U8, **more):
        return self.op("QuantizeLinear", [x, *self.grid(scale, zero, dtype)], **more)

    def dq(self, x, scale, zero=0, dtype=U8, **more):
        return self.op("DequantizeLinear", [x, *self.grid(scale, zero, dtype)], **more)

    def both(self, x, *grid):
        return self.dq(self.q(x, *grid), *grid)

    def weight(self, *shape, dtype=I8):
        return self.constant(self.rng.integers(-20, 20, shape), dtype)

    def output(self, name, kind=T.FLOAT):
        self.outputs.append(h.make_tensor_value_info(name, kind, None))

    def save(self, path):
        graph = h.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17),
                                                     h.make_opsetid(MS, 1)], ir_version=8), path)


FORMS = {}


def form(records, warning=""):
    """records: endpoints in order, each 'NODE.SLOT scale zero bits'."""
    def keep(build):
        FORMS[build.__name__] = build, records, warning
        return build
    return keep


@form(["Relu.in0 0.25 0 [0, 255]", "Relu.out0 0.125 0 [0, 255]"])
def zero_points_missing(g):
    x = g.op("QuantizeLinear", [g.given(2, 6), g.constant(.25)])
    x = g.op("DequantizeLinear", [x, g.constant(.25)])
    x = g.op("Relu", [x], name="Relu")
    x = g.op("QuantizeLinear", [x, g.constant(.125)])
    g.output(g.op("DequantizeLinear", [x, g.constant(.125)]))


@form(["Relu.in0 0.25 3 [-128, 127]"])
def scales_through_nodes(g):
    node = g.op("Constant", [], value=numpy_helper.from_array(np.float32(.5)))
    scale = g.op("Mul", [g.op("Identity", [node]), g.constant(.5)])
    zero = g.op("Identity", [g.constant(3, I8)])
    x = g.op("QuantizeLinear", [g.given(2, 6), scale, zero])
    g.output(g.op("Relu", [g.op("DequantizeLinear", [x, scale, zero])], name="Relu"))


@form(["Sub.in0 0.25 100 [0, 255]", "Sub.in1 0.25 100 [0, 255]", "Relu.in0 0.25 100 [0, 255]"])
def one_pair_for_several_readers(g):
    x = g.both(g.given(2, 6), .25, 100)
    g.output(g.op("Sub", [x, x], name="Sub"))
    g.output(g.op("Relu", [x], name="Relu"))


@form(["Relu.in0 0.25 -3 [-128, 127]"])
def codes_as_input(g):
    x = g.dq(g.given(2, 6, dtype=I8), .25, -3, I8)
    g.output(g.op("Relu", [x], name="Relu"))


@form(["MaxPool.in0 0.25 -3 [-128, 127]", "MaxPool.out0 0.25 -3 [-128, 127]"])
def codes_through(g):
    x = g.op("MaxPool", [g.given(1, 2, 6, dtype=I8)], kernel_shape=[2], name="MaxPool")
    g.output(g.dq(x, .25, -3, I8))


@form(["Relu.out0 0.25 7 [0, 255]"])
def codes_as_output(g):
    x = g.op("Relu", [g.given(2, 6)], name="Relu")
    g.output(g.q(x, .25, 7), T.UINT8)


@form(["Add.out0 0.25 7 [0, 255]", "Relu.out0 0.5 0 [0, 255]"])
def codes_as_output_and_read(g):
    c = g.q(g.op("Add", [g.given(2, 6), g.constant(1.5)], name="Add"), .25, 7)
    g.output(c, T.UINT8)
    g.output(g.both(g.op("Relu", [g.dq(c, .25, 7)], name="Relu"), .5))


@form(["Conv.in0 0.25 128 [0, 255]", "Conv.in1 [0.25, 0.5] [0, 0] [-128, 127]",
       "Conv.in2 [0.0625, 0.125] [0, 0] [-2147483648, 2147483647]", "Conv.out0 2.0 0 [0, 255]"])
def relu_in_the_zero_point(g):
    x = g.both(g.given(1, 3, 5, 5), .25, 128)
    w = g.dq(g.weight(2, 3, 3, 3), [.25, .5], [0, 0], I8, axis=0)
    b = g.dq(g.constant([100, -70], "i4"), [.0625, .125], [0, 0], "i4", axis=0)
    g.output(g.both(g.op("Conv", [x, w, b], name="Conv"), 2.))


@form(["Conv.in1 0.25 0 [-128, 127]"])
def float_weights(g):
    w = g.both(g.constant(g.rng.normal(0, 4, (2, 3, 3, 3))), .25, 0, I8)
    g.output(g.op("Conv", [g.given(1, 3, 5, 5), w], name="Conv"))


@form(["MatMul.in0 0.25 3 [0, 255]", "MatMul.in1 [0.25, 0.5] [0, 0] [-128, 127]",
       "MatMul.out0 4.0 100 [0, 255]"])
def transposed_weights(g):
    w = g.dq(g.weight(2, 6), [.25, .5], [0, 0], I8, axis=0)
    w = g.op("Transpose", [g.op("Identity", [w])], perm=[1, 0])
    x = g.both(g.given(3, 6), .25, 3)
    g.output(g.both(g.op("MatMul", [x, w], name="MatMul"), 4., 100))


@form(["MatMul.in1 0.25 0 [-128, 127]"])
def large_transposed_weights(g):
    w = g.dq(g.weight(300, 1, 256), .25, 0, I8)
    w = g.op("Reshape", [g.op("Transpose", [w]), g.constant([256, 300], "i8")])
    g.output(g.op("MatMul", [g.given(1, 256), w], name="MatMul"))


@form(["Relu.in0 0.25 3 [0, 255]"])
def two_equal_pairs(g):
    x = g.both(g.both(g.given(2, 6), .25, 3), .25, 3)
    g.output(g.op("Relu", [x], name="Relu"))


@form(["Identity_1.in0 0.25 3 [0, 255]", "Identity_1.out0 0.5 0 [-128, 127]"])
def two_pairs(g):
    x = g.both(g.both(g.given(2, 6), .25, 3), .5, 0, I8)
    g.output(g.op("Relu", [x], name="Relu"))


@form(["Relu.out0 0.25 3 [0, 255]", "Abs.in0 0.5 0 [-128, 127]"])
def two_pairs_behind_a_node(g):
    x = g.both(g.op("Relu", [g.given(2, 6)], name="Relu"), .25, 3)
    g.output(g.op("Abs", [g.both(x, .5, 0, I8)], name="Abs"))


@form(["Gather.in0 0.25 0 [-128, 127]", "Gather.out0 0.25 0 [-128, 127]"])
def embedding_of_codes(g):
    x = g.op("Gather", [g.weight(9, 4), g.op("Cast", [g.given(2, dtype=U8)], to=T.INT64)],
             name="Gather")
    x = g.dq(x, .25, 0, I8)
    g.output(g.op("Neg", [x]))


@form(["Gather.in0 0.25 0 [-128, 127]", "Gather.out0 0.25 0 [-128, 127]"])
def embedding_of_floats(g):
    x = g.op("Gather", [g.dq(g.weight(9, 4), .25, 0, I8),
                        g.op("Cast", [g.given(2, dtype=U8)], to=T.INT64)], name="Gather")
    g.output(g.op("Neg", [x]))


@form(["Relu.in0 0.0009765625 3 [-32768, 32767]", "Relu.out0 0.00048828125 0 [-32768, 32767]"])
def sixteen_bits(g):
    def both(x, scale, zero):
        at = [g.constant(scale), g.constant(zero, I16)]
        x = g.op("QuantizeLinear", [x, *at], MS)
        return g.op("DequantizeLinear", [x, *at], MS)
    x = g.op("Relu", [both(g.given(2, 6), 2.**-10, 3)], name="Relu")
    g.output(both(x, 2.**-11, 0))


@form(["Add.in1 0.0009765625 3 [-32768, 32767]"])
def float_weights_of_sixteen_bits(g):
    at = [g.constant(2.**-10), g.constant(3, I16)]
    w = g.op("QuantizeLinear", [g.constant(g.rng.normal(0, 4, 6)), *at], MS)
    g.output(g.op("Add", [g.given(2, 6), g.op("DequantizeLinear", [w, *at], MS)], name="Add"))


@form(["MaxPool.in0 0.125 100 [0, 255]", "MaxPool.out0 0.125 100 [0, 255]",
       "Pad.out0 0.125 100 [0, 255]", "Resize.out0 0.125 100 [0, 255]",
       "Transpose.out0 0.125 100 [0, 255]", "Split.out0 0.125 100 [0, 255]",
       "Split.out1 0.125 100 [0, 255]", "Pad.in2 0.125 100 [0, 255]"])
def moves_of_codes(g):
    x = g.q(g.given(1, 2, 6, 6), .125, 100)
    x = g.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], name="MaxPool")
    x = g.op("Pad", [x, g.constant([0, 0, 1, 0, 0, 0, 0, 1], "i8"), g.constant(7, U8)],
             name="Pad")
    x = g.op("Resize", [x, "", g.constant([1, 1, 2, 2])], mode="nearest", name="Resize")
    x = g.op("Transpose", [x], perm=[0, 2, 3, 1], name="Transpose")
    for part in g.op("Split", [x, g.constant([1, 1], "i8")], n=2, axis=3, name="Split"):
        g.output(g.dq(part, .125, 100))


@form(["Pad.in0 0.125 100 [0, 255]", "Pad.in2 0.125 100 [0, 255]",
       "Pad.out0 0.125 100 [0, 255]"])
def pad_with_code_0(g):
    x = g.q(g.given(1, 2, 6, 6), .125, 100)
    x = g.op("Pad", [x, g.constant([0, 0, 1, 0, 0, 0, 0, 1], "i8")], name="Pad")
    g.output(g.dq(x, .125, 100))


@form(["Relu.in0 0.25 3 [0, 255]"], "its result is an output of the network")
def rounded_input_as_output(g):
    x = g.given(2, 6)
    g.output(g.both(x, .25, 3))
    g.output(g.op("Relu", [g.both(x, .25, 3)], name="Relu"))


@form(["Conv.in0 0.25 3 [0, 255]", "Conv.in1 0.25 1 [-128, 127]",
       "Conv.in2 0.0625 0 [-2147483648, 2147483647]", "Conv.out0 1.0 10 [0, 255]"])
def qlinear_conv(g):
    x = g.q(g.given(1, 3, 5, 5), .25, 3)
    y = g.op("QLinearConv", [x, *g.grid(.25, 3), g.weight(2, 3, 3, 3), *g.grid(.25, 1, I8),
                             *g.grid(1., 10), g.constant([300, -500], "i4")], name="Conv")
    g.output(g.dq(y, 1., 10))


@form(["Conv.in0 0.25 3 [0, 255]", "Conv.in1 [0.25, 0.5] [0, 0] [-128, 127]",
       "Conv.out0 1.0 10 [0, 255]"], "a code that float32 cannot hold")
def bias_beyond_floats(g):
    x = g.q(g.given(1, 3, 5, 5), .25, 3)
    y = g.op("QLinearConv", [x, *g.grid(.25, 3), g.weight(2, 3, 3, 3), *g.grid([.25, .5], [0, 0],
             I8), *g.grid(1., 10), g.constant([300, (1 << 24) + 1], "i4")], name="Conv")
    g.output(g.dq(y, 1., 10))


@form(["MatMul.in0 0.25 3 [0, 255]", "MatMul.in1 0.25 1 [-128, 127]",
       "MatMul.out0 1.0 10 [0, 255]"])
def qlinear_matmul(g):
    x = g.q(g.given(3, 5), .25, 3)
    y = g.op("QLinearMatMul", [x, *g.grid(.25, 3), g.weight(5, 4), *g.grid(.25, 1, I8),
                               *g.grid(1., 10)], name="MatMul")
    g.output(g.dq(y, 1., 10))


@form(["Gemm.in0 0.25 3 [0, 255]", "Gemm.in1 [0.25, 0.5] [0, 0] [-128, 127]",
       "Gemm.in2 [0.0625, 0.125] [0, 0] [-2147483648, 2147483647]", "Gemm.out0 1.0 10 [0, 255]",
       "Tail.in1 0.5 1 [-128, 127]"])
def qgemm(g):
    x = g.q(g.given(3, 5), .25, 3)
    y = g.op("QGemm", [x, *g.grid(.25, 3), g.weight(2, 5), *g.grid([.25, .5], [0, 0], I8),
                       g.constant([100, -50], "i4"), *g.grid(1., 10)], MS, name="Gemm", transB=1)
    g.output(g.op("QGemm", [y, *g.grid(1., 10), g.weight(2, 3), *g.grid(.5, 1, I8)], MS,
                  name="Tail"))


@form(["Gemm.in0 0.25 3 [0, 255]", "Gemm.in1 [0.25, 0.5] [0, 0] [-128, 127]",
       "Gemm.in2 [0.0625, 0.125] [0, 0] [-2147483648, 2147483647]", "Gemm.out0 2.0 10 [0, 255]",
       *(f"{name}.{record}" for name in ("Scalar", "Row") for record in (
           "in1 [0.25, 0.5] [0, 0] [-128, 127]",
           "in2 [0.5, 1.0] [0, 0] [-2147483648, 2147483647]", "out0 2.0 10 [0, 255]"))])
def qgemm_with_one_bias(g):
    x = g.q(g.given(3, 2), .25, 3), *g.grid(.25, 3)
    for name, bias in ("Gemm", [100]), ("Scalar", 100), ("Row", [[100, -50]]):
        x = (g.op("QGemm", [*x, g.weight(2, 2), *g.grid([.25, .5], [0, 0], I8),
                            g.constant(bias, "i4"), *g.grid(2., 10)], MS, name=name, transB=1),
             *g.grid(2., 10))
    g.output(g.dq(*x[:1], 2., 10))


@form(["Sigmoid.in0 0.25 3 [0, 255]", "Sigmoid.out0 0.00390625 0 [0, 255]",
       "Leaky.out0 0.0078125 5 [0, 255]", "Add.in1 0.25 3 [0, 255]", "Add.out0 0.0625 9 [0, 255]",
       "Mul.out0 0.015625 0 [0, 255]", "Concat.out0 0.25 20 [0, 255]",
       "Mean.out0 0.5 1 [0, 255]", "Pool.out0 0.25 0 [0, 255]"])
def the_other_qlinear(g):
    a = g.q(g.given(1, 2, 4, 4), .25, 3), *g.grid(.25, 3)
    s = g.op("QLinearSigmoid", [*a, *g.grid(2.**-8, 0)], MS, name="Sigmoid")
    le = g.op("QLinearLeakyRelu", [s, *g.grid(2.**-8, 0), *g.grid(2.**-7, 5)], MS, alpha=.5,
              name="Leaky")
    b = le, *g.grid(2.**-7, 5)
    add = g.op("QLinearAdd", [*b, *a, *g.grid(2.**-4, 9)], MS, name="Add")
    mul = g.op("QLinearMul", [*b, *b, *g.grid(2.**-6, 0)], MS, name="Mul")
    c = g.op("QLinearConcat", [*g.grid(.25, 20), add, *g.grid(2.**-4, 9), mul,
                               *g.grid(2.**-6, 0)], MS, axis=1, name="Concat")
    m = g.op("QLinearGlobalAveragePool", [c, *g.grid(.25, 20), *g.grid(.5, 1)], MS, name="Mean",
             channels_last=0)
    p = g.op("QLinearAveragePool", [c, *g.grid(.25, 20), *g.grid(.25, 0)], MS, name="Pool",
             kernel_shape=[2, 2], channels_last=0)
    g.output(g.dq(m, .5, 1))
    g.output(g.dq(p, .25, 0))


@form(["Where.in1 0.25 3 [0, 255]", "Where.in2 0.25 3 [0, 255]", "Where.out0 0.5 1 [0, 255]",
       "Softmax.out0 0.00390625 0 [0, 255]"])
def where_and_softmax(g):
    a = g.q(g.given(2, 6), .25, 3), *g.grid(.25, 3)
    w = g.op("QLinearWhere", [g.constant([1, 0, 1, 1, 0, 1], "?"), *a, *a, *g.grid(.5, 1)], MS,
             name="Where")
    s = g.op("QLinearSoftmax", [w, *g.grid(.5, 1), *g.grid(2.**-8, 0)], MS, axis=-1, opset=13,
             name="Softmax")
    g.output(g.dq(s, 2.**-8, 0))


@form([], "its codes are computed")
def dynamic(g):
    x, scale, zero = g.op("DynamicQuantizeLinear", [g.given(3, 5)], n=3)
    y = g.op("MatMulInteger", [x, g.weight(5, 4), zero])
    g.output(g.op("Mul", [g.op("Cast", [y], to=T.FLOAT), scale]))
    g.output(g.op("DequantizeLinear", [x, scale, zero]))


def records(snapshot):
    quant = json.loads((snapshot / "quant.json").read_text())

    def plain(values):
        return values[0] if len(values) == 1 else values
    return [f"{t['node']}.{t['slot']} {plain(t['scale'])} {plain(t['offset'])} {t['range']}"
            for t in quant["tqcs"] if t["state"] != "OVERLAPPED"]


def check_form(bad, folder, name):
    build, expected, warning = FORMS[name]
    g = Graph(len(name))
    build(g)
    path, snapshot = folder / f"{name}.onnx", folder / name
    g.save(path)
    ran = qg("import", path, "--format", "onnx-qdq", "-o", snapshot)
    if ran.returncode:
        bad.append(f"{name}: {ran.stderr}")
        return
    if warning not in ran.stderr or bool(warning) != bool(ran.stderr):
        bad.append(f"{name}: warnings {ran.stderr!r}, expected {warning!r}")
    got = records(snapshot)
    if sorted(got) != sorted(expected):
        bad.append(f"{name}: records {got}, expected {expected}")
    theirs = session(path).run(None, g.feed)
    np.savez(folder / "feed.npz", **{k: v[None] for k, v in g.feed.items()})
    check_run(bad, name, g, theirs, folder / f"{name}-out", [snapshot],
              "" if expected else "0 of 1 compute nodes are quantized")
    if "[-32768, 32767]" not in str(expected):  # no kernel of that profile has 16 bits
        check_run(bad, f"{name} in integers", g, theirs, folder / f"{name}-int",
                  [path, "--mode", "integer", "--profile", agreement.onnxruntime_profile()],
                  warning)


def check_run(bad, name, g, theirs, out, arguments, warning):
    """Outputs with equal bits; the file itself finds its records in mode integer."""
    ran = qg("run", *arguments, "-d", out.parent / "feed.npz", "-o", out)
    if ran.returncode or warning not in ran.stderr or bool(warning) != bool(ran.stderr):
        bad.append(f"{name}: {ran.stderr}")
        return
    for o, value in zip(g.outputs, theirs):
        ours = np.load(out / f"{o.name}.npy")[0]
        if ours.dtype != value.dtype or not np.array_equal(ours, value):
            off = np.abs(ours.astype("f8") - value)
            bad.append(f"{name}: {o.name}: {np.sum(off > 0)} of {off.size} values differ")


def check_refused(bad, folder):
    """Networks behind ONNX Runtime's layout transformations, by name."""
    g = Graph(1)
    a = g.q(g.given(1, 4, 4, 2), .25, 3), *g.grid(.25, 3)
    g.output(g.op("QLinearGlobalAveragePool", [*a, *g.grid(.5, 1)], MS, name="pool",
                  channels_last=1), T.UINT8)
    g.save(folder / "nhwc.onnx")
    text = qg("import", folder / "nhwc.onnx", "--format", "onnx-qdq", "-o", folder / "n").stderr
    if "'pool'" not in text or "channels_last 1, expected 0" not in text:
        bad.append(f"channels_last: {text}")


# --- files of quantize_static ---

class Reader(CalibrationDataReader):
    def __init__(self, name, x):
        self.rows = iter([{name: s[None]} for s in x])

    def get_next(self):
        return next(self.rows, None)


def grids_of_file(path):
    """(scale, zero) of activations as bits of float32, once each."""
    graph = onnx.load(path).graph
    value = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    found = set()
    for n in graph.node:
        pairs = []
        if n.op_type in ("QuantizeLinear", "DequantizeLinear") and n.input[0] not in value:
            pairs = [(1, 2)]
        elif n.op_type == "QLinearConv":
            pairs = [(1, 2), (6, 7)]
        elif n.op_type == "QGemm":
            pairs = [(1, 2), (7, 8)]
        elif n.op_type in ("QLinearAdd", "QLinearMul"):
            pairs = [(1, 2), (4, 5), (6, 7)]
        elif n.op_type == "QLinearConcat":
            pairs = [(0, 1)] + [(k + 1, k + 2) for k in range(2, len(n.input), 3)]
        elif n.op_type.startswith("QLinear"):
            pairs = [(1, 2), (3, 4)]
        for s, z in pairs:
            found.add((float(value[n.input[s]].item()), int(value[n.input[z]].item())))
    return found


def quantize(path, fmt, channel, activation, weight, reduce,
             source="configs/models/digits.onnx"):
    samples = np.load("configs/data/digits_calib.npy")
    with contextlib.redirect_stdout(io.StringIO()):
        quantize_static(source, path, Reader("image", samples),
                        quant_format=fmt, per_channel=bool(channel), reduce_range=bool(reduce),
                        activation_type=QuantType[activation], weight_type=QuantType[weight])


def check_static(bad, folder):
    tests = np.load("configs/data/digits_test.npy")[:100]
    np.save(folder / "tests.npy", tests)
    print(f"{'file':48} {'records':7} {'grids':>6} {'equal':>8} {'worst':>6}")
    variants = [(fmt, channel, activation, weight, reduce)
                for fmt in (QuantFormat.QDQ, QuantFormat.QOperator) for channel in (0, 1)
                for activation, weight, reduce in (("QUInt8", "QInt8", 0), ("QInt8", "QInt8", 0),
                                                   ("QUInt8", "QUInt8", 0), ("QUInt8", "QInt8", 1))]
    for fmt, channel, activation, weight, reduce in variants:
        if fmt == QuantFormat.QOperator and activation == "QInt8" and channel:
            continue  # as below, one of each is enough
        name = f"{fmt.name}-{activation}-{weight}{'-channel' * channel}{'-reduce' * reduce}"
        path = folder / f"{name}.onnx"
        quantize(path, fmt, channel, activation, weight, reduce)
        check_file(bad, folder, name, path, tests)
        optimized = folder / f"{name}-optimized.onnx"
        session(path, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, optimized)
        check_file(bad, folder, f"{name} optimized", optimized, tests)


def concatenated(path, tests):
    """(name, codes, grid) of the network's Concat, by ONNX Runtime."""
    model = onnx.load(path)
    node = next(n for n in model.graph.node if n.op_type in ("Concat", "QLinearConcat"))
    value = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    at, name = node.input, node.output[0]
    if node.op_type == "Concat":
        reader = next(n for n in model.graph.node if name in n.input)
        at = reader.input[1:]
    model.graph.output.append(onnx.ValueInfoProto(name=name))
    codes = session(model.SerializeToString()).run([name], {"image": tests})[0]
    scale, zero = value[at[0]], int(value[at[1]])
    if node.op_type == "Concat":
        codes = np.clip(np.rint(codes / scale) + zero, *((0, 255) if zero >= 0 else (-128, 127)))
    return name, codes.astype(int), (scale, zero)


def arithmetic(path):
    """Words that say how ONNX Runtime computes the file on this machine: where integers
    saturate, a simulation is not what it does with integer kernels."""
    kernels = any(n.op_type.startswith("QLinear") for n in onnx.load(path).graph.node)
    if agreement.integers_are_exact() or not kernels:
        return []
    return ["--mode", "integer", "--profile", agreement.onnxruntime_profile()]


def check_file(bad, folder, name, path, tests):
    snapshot, out = folder / path.stem, folder / f"{path.stem}-out"
    ran = qg("import", path, "--format", "onnx-qdq", "-o", snapshot)
    if ran.returncode or ran.stderr:
        bad.append(f"{name}: {ran.stderr}")
        return
    quant = json.loads((snapshot / "quant.json").read_text())
    active = [t for t in quant["tqcs"] if t["state"] == "ACTIVATED"]
    got = {(float(np.float32(t["scale"][0])), t["offset"][0]) for t in active}
    theirs = session(path).run(None, {"image": tests})[0]
    qg("run", snapshot, "-d", folder / "tests.npy", "-o", out, "--kernels", "reference",
       "--dump", "*", *arithmetic(path))
    ours = np.load(out / "logits.npy").reshape(theirs.shape)
    step = next(t["scale"][0] for t in active if t["node"] == quant["tqcs"][-1]["node"])
    off = np.abs(ours - theirs) / step
    value, codes, (scale, zero) = concatenated(path, tests)
    dump = np.load(out / "dump" / f"{value}.npy").reshape(codes.shape)
    if dump.dtype.kind == "f":
        dump = np.rint(dump / scale).astype(int) + zero
    equal = np.mean(dump == codes)
    print(f"{name:48} {len(quant['tqcs']):7} {len(got):6} {equal:8.4f} {off.max():6.1f}")
    if got != grids_of_file(path):
        bad.append(f"{name}: grids {sorted(got ^ grids_of_file(path))} differ from the file's")
    if equal < 0.999 or off.max() > 1.5:
        bad.append(f"{name}: {equal:.4f} of the codes of {value} are equal, outputs are "
                   f"{off.max():.1f} steps off")


def check_dropped(bad, folder):
    """A Relu that the file lacks, since its grid begins at 0, is missing in float: every verb
    that runs in float warns once, with the number of such places."""
    data = "-d", "configs/data/digits_test.npy"
    labels = "--labels", "configs/data/digits_labels.npy"
    snapshot = folder / "ours"
    qg("quantize", "configs/models/digits.onnx", "-b", "ort-int8", "-d",
       "configs/data/digits_calib.npy", "-o", snapshot)
    quant_pre_process("configs/models/digits.onnx", folder / "plain.onnx",
                      skip_symbolic_shape=True)
    quantize(folder / "theirs.onnx", QuantFormat.QDQ, 1, "QUInt8", "QInt8", 0,
             folder / "plain.onnx")
    for name, options in (("qdq", "onnx-qdq"), ("qoperator", "onnx-qoperator")):
        qg("export", snapshot, "--format", options, "-o", folder / f"{name}.onnx")
    for name in "qdq", "qoperator", "theirs":
        model = onnx.load(folder / f"{name}.onnx")
        lost = 7 - sum(n.op_type == "Relu" for n in model.graph.node)
        imported = folder / f"{name}-imported"
        qg("import", folder / f"{name}.onnx", "--format", "onnx-qdq", "-o", imported)
        text = f": {lost} outputs have codes for 0 and more alone, as " if lost else ""
        for verb, *words in (("evaluate", *data, *labels), ("analyse", *data),
                             ("sensitivity", *data, "-n", 8), ("price", *data, "-n", 8),
                             ("run", *data, "--mode", "float", "-o", folder / "out"),
                             ("run", *data, "-o", folder / "out"),
                             ("report", *data, "-n", 8, "-o", folder / "page.html")):
            ran = qg(verb, imported, *words)
            simulates = verb == "run" and "--mode" not in words
            expected = text if not simulates else ""
            if ran.returncode or expected not in ran.stderr or \
                    ran.stderr.count("codes for 0") != bool(expected):
                bad.append(f"dropped: {name} {verb}: {ran.returncode} {ran.stderr}")
        print(f"dropped: {name}: {lost} of 7")


def write_example(path):
    """What ONNX Runtime runs of the demo model, normalizations folded before."""
    with tempfile.TemporaryDirectory() as name:
        plain, qdq = f"{name}/plain.onnx", f"{name}/qdq.onnx"
        quant_pre_process("configs/models/digits.onnx", plain, skip_symbolic_shape=True)
        quantize(qdq, QuantFormat.QDQ, 1, "QUInt8", "QInt8", 0, plain)
        session(qdq, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, path)


def main():
    bad = []
    if sys.argv[1:2] == ["--example"]:
        return write_example(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for f in FORMS:
            check_form(bad, folder, f)
        print(f"{len(FORMS)} forms by hand")
        check_refused(bad, folder)
        check_static(bad, folder)
        check_dropped(bad, folder)
    for line in bad:
        print("FAILED", line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
