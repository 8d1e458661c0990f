#!/usr/bin/env python3
"""Writes seeds of the fuzzers: of the importers' every form that they fold, and some that
they must leave alone; of statistics small files.  usage: tools/python.sh
tests/fuzz/make_seeds.py"""
import io
import json
import math
import pathlib
import struct
import sys
import zipfile

import numpy as np
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

HERE = pathlib.Path(__file__).parent
CORPUS = HERE / "corpus"
sys.path.insert(0, str(HERE.parent / "scripts"))
import tflite_networks  # noqa: E402  pylint: disable=wrong-import-position


def constant(name, values, dtype="float32"):
    return numpy_helper.from_array(np.array(values, dtype), name)


def model(folder, name, nodes, constants, outputs=("y",), opset=21, shape=(1, 2, 4, 4)):
    opsets = [h.make_opsetid("", opset)]
    opsets += [h.make_opsetid(d, 1) for d in sorted({n.domain for n in nodes} - {""})]
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.FLOAT, shape)],
                         [h.make_tensor_value_info(o, T.FLOAT, None) for o in outputs],
                         constants)
    m = h.make_model(graph, opset_imports=opsets, ir_version=10)
    target = CORPUS / folder / f"{name}.onnx"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(m.SerializeToString())


def linear(x, y, scale="s", zero="z", **attributes):
    codes = f"{y}_codes"
    return [h.make_node("QuantizeLinear", [x, scale, zero], [codes], **attributes),
            h.make_node("DequantizeLinear", [codes, scale, zero], [y], **attributes)]


def fake(x, y, levels=256, limits=("l", "h", "l", "h")):
    return h.make_node("FakeQuantize", [x, *limits], [y], domain="org.openvinotoolkit",
                       levels=levels)


def qdq():
    w8 = constant("w", np.arange(-4, 4).reshape(4, 2, 1, 1), "int8")
    ws, wz = constant("ws", [0.1, 0.2, 0.3, 0.4]), constant("wz", [0] * 4, "int8")
    bias, bs = constant("b", [1, -2, 300, 4], "int32"), constant("bs", [0.01] * 4)
    s, z, z8 = constant("s", 0.1), constant("z", 128, "uint8"), constant("z", 3, "int8")
    weights = h.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0)
    biases = h.make_node("DequantizeLinear", ["b", "bs"], ["bf"], axis=0)
    conv = h.make_node("Conv", ["xf", "wf", "bf"], ["c"])
    model("qdq_import", "conv", [*linear("x", "xf"), weights, biases, conv,
                                 *linear("c", "y")], [w8, ws, wz, bias, bs, s, z])
    fork = [*linear("x", "a"), h.make_node("Relu", ["a"], ["r"]), *linear("r", "r1"),
            h.make_node("DequantizeLinear", ["r1_codes", "s", "z"], ["r2"]),
            h.make_node("Add", ["r1", "r2"], ["t"]), h.make_node("Mul", ["t", "r"], ["y"])]
    model("qdq_import", "fork", fork, [s, z8], ("y", "r1"))
    blocks = constant("s", np.full((1, 2, 2, 4), 0.25))
    model("qdq_import", "blocks",
          [*linear("x", "a", zero="", axis=2, block_size=2),
           h.make_node("Relu", ["a"], ["y"])], [blocks])
    f8 = h.make_tensor("z", T.FLOAT8E4M3FN, [], b"\0", raw=True)
    model("qdq_import", "float8",
          [*linear("x", "a"), h.make_node("Relu", ["a"], ["y"])],
          [constant("s", 0.25), f8])
    four = h.make_tensor("w", T.INT4, [2, 4], bytes([0x17, 0x28, 0x39, 0x40]), raw=True)
    model("qdq_import", "int4",
          [h.make_node("DequantizeLinear", ["w", "s"], ["wf"], axis=1),
           h.make_node("MatMul", ["x", "wf"], ["c"]), *linear("c", "y", "t", "z")],
          [four, constant("s", [1, 2, 3, 4]), constant("t", 0.5), z8], shape=(1, 2))
    model("qdq_import", "integers",
          [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
           h.make_node("Transpose", ["q"], ["t"]),
           h.make_node("DequantizeLinear", ["t", "s", "z"], ["y"])], [s, z])


def openvino():
    low, high = constant("l", -12.8), constant("h", 12.7)
    channel = [constant("cl", np.full((4, 1, 1, 1), -1.27)),
               constant("ch", np.full((4, 1, 1, 1), 1.27))]
    w = constant("w", np.linspace(-1, 1, 8).reshape(4, 2, 1, 1))
    model("openvino_import", "conv",
          [fake("x", "xf"), fake("w", "wf", 255, ("cl", "ch", "cl", "ch")),
           h.make_node("Conv", ["xf", "wf"], ["c"]), fake("c", "y")],
          [low, high, w, *channel])
    model("openvino_import", "fork",
          [h.make_node("Relu", ["x"], ["r"]), fake("r", "a"), fake("r", "b", 16),
           h.make_node("Add", ["a", "b"], ["t"]), fake("t", "u"), fake("u", "v"),
           h.make_node("Sigmoid", ["v"], ["y"])], [low, high], ("y", "u"))
    model("openvino_import", "dequantizes",
          [fake("x", "a", 256, ("l", "h", "z", "o")), h.make_node("Relu", ["a"], ["y"])],
          [low, high, constant("z", 0), constant("o", 255)])
    codes = constant("w", np.arange(-4, 4).reshape(4, 2, 1, 1), "int8")
    model("openvino_import", "codes",
          [fake("x", "xf"),
           h.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
           h.make_node("DequantizeLinear", ["b", "bs"], ["bf"]),
           h.make_node("Conv", ["xf", "wf", "bf"], ["c"]), fake("c", "d"),
           h.make_node("QuantizeLinear", ["d", "bs", "z"], ["q"]),
           h.make_node("DequantizeLinear", ["q", "bs", "z"], ["y"])],
          [low, high, codes, constant("ws", [0.1, 0.2, 0.3, 0.4]),
           constant("wz", [0] * 4, "int8"), constant("b", [1, -2, 300, 4], "int32"),
           constant("bs", 0.5), constant("z", 3, "uint8")])
    model("openvino_import", "no_zero",
          [fake("x", "a", 256, ("z", "o", "z", "o")), h.make_node("Relu", ["a"], ["y"])],
          [constant("z", 1), constant("o", 2)])
    model("openvino_import", "two_levels",
          [fake("x", "a", 2, ("z", "o", "z", "o")), h.make_node("Relu", ["a"], ["y"])],
          [constant("z", 0), constant("o", 2)])


def mqbench():
    limits = {"quant_min": -8, "quant_max": 7}
    numbers = [constant("lo", -128, "int64"), constant("hi", 127, "int64"),
               constant("axis", 0, "int64")]
    scale, zero = constant("s", [0.1]), constant("z", [2.6])
    w = constant("w", np.linspace(-1, 1, 8).reshape(4, 2, 1, 1))
    ws, wz = constant("ws", [0.1, -0.2, 0.3, 0.4]), constant("wz", [0] * 4)
    model("mqbench_import", "conv",
          [h.make_node("LearnablePerTensorAffine", ["x", "s", "z", "lo", "hi"], ["xf"]),
           h.make_node("FakeQuantizeLearnablePerchannelAffine", ["w", "ws", "wz"], ["wf"],
                       **limits),
           h.make_node("Conv", ["xf", "wf"], ["c"]),
           h.make_node("FakeQuantizeTqtAffine", ["c", "p", "z"], ["y"], **limits)],
          [scale, zero, constant("p", [0.25]), w, ws, wz, *numbers], opset=11)
    model("mqbench_import", "fixed",
          [h.make_node("FixedPerChannelAffine", ["w", "ws", "wz", "axis", "lo", "hi"],
                       ["wf"]),
           h.make_node("Conv", ["x", "wf"], ["c"]), h.make_node("Relu", ["c"], ["r"]),
           h.make_node("FixedPerTensorAffine", ["r", "d", "n", "lo", "hi"], ["a"]),
           h.make_node("FakeQuantizeDSQPertensor", ["a", "s", "z"], ["b"], alpha=0.4,
                       **limits), h.make_node("Add", ["b", "b"], ["y"])],
          [w, ws, wz, constant("d", 0.1, "float64"), constant("n", 0, "int64"), scale, zero,
           *numbers], ("y",), opset=11)
    model("mqbench_import", "logarithm",
          [h.make_node("NNIEQuantize", ["x", "s"], ["y"])], [scale], opset=11)


def qonnx():
    def quant(x, y, scale="s", zero="z", op="Quant", domain="qonnx.custom_op.general", **other):
        return h.make_node(op, [x, scale, zero, "b"], [y], domain=domain, **other)

    kept = {"signed": 1, "narrow": 1, "rounding_mode": "HALF_UP"}
    scale, zero, bits = constant("s", 0.1), constant("z", 0), constant("b", 8)
    w = constant("w", np.linspace(-1, 1, 8).reshape(4, 2, 1, 1))
    ws = constant("ws", np.linspace(0.1, 0.4, 4).reshape(4, 1, 1, 1))
    model("qonnx_import", "conv",
          [quant("x", "xf"), quant("w", "wf", "ws", **kept), h.make_node("Conv", ["xf", "wf"],
           ["c"]), h.make_node("Relu", ["c"], ["r"]),
           quant("r", "y", "s", "odd", signed=0, rounding_mode="FLOOR")],
          [scale, zero, bits, w, ws, constant("odd", 3)], opset=13)
    model("qonnx_import", "older",
          [quant("x", "a", op="IntQuant", domain="onnx.brevitas"), h.make_node("Relu", ["a"],
           ["r"]), quant("r", "y", domain="finn.custom_op.general", rounding_mode="CEIL")],
          [scale, zero, bits], opset=13)
    model("qonnx_import", "bipolar",
          [h.make_node("BipolarQuant", ["x", "s"], ["y"], domain="qonnx.custom_op.general")],
          [scale], opset=13)
    model("qonnx_import", "modes",
          [quant("x", "a", rounding_mode="UP"), h.make_node("Relu", ["a"], ["y"])],
          [scale, zero, constant("b", 1.5)], opset=13)


def record(state, key, root=None, channel=False, **other):
    names = ("PER_TENSOR", "PER_CHANNEL", "LINEAR", "FLOATING", "SYMMETRICAL",
             "ASYMMETRICAL", "POWER_OF_2", "DYNAMIC")
    on = ("PER_CHANNEL" if channel else "PER_TENSOR", "LINEAR", "SYMMETRICAL")
    return {"bit_width": 8, "policy": {n: n in on for n in names}, "state": state,
            "quant_min": -128, "quant_max": 127, "hash": key,
            "dominator": key if root is None else root, **other}


def ppq():
    pair = {"configs": {
        "c": {"x": record("ACTIVATED", 1), "w": record("BAKED", 2, channel=True),
              "b": record("PASSIVE_BAKED", 3, channel=True), "c": record("OVERLAPPED", 4, 6)},
        "r": {"c": record("OVERLAPPED", 5, 6), "r": record("ACTIVATED", 6)},
        "a": {"r": record("PASSIVE", 7, 6), "a": record("INITIAL", 8)}},
        "dispatchings": {"c": "TRT_INT8", "r": "TRT_INT8", "a": "TRT_INT8", "s": "SOI"},
        "values": {"1": {"scale": 0.1, "zero_point": 0.0},
                   "2": {"scale": [0.1, 0.2, 0.3], "zero_point": [0.0, 0.0, 0.0]},
                   "3": {"scale": [0.01, 0.02, 0.03], "zero_point": 0.0},
                   "6": {"scale": 0.05, "zero_point": 0.0},
                   "8": {"scale": None, "zero_point": None}}}
    folder = CORPUS / "ppq_json"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.json").write_text(json.dumps(pair))
    (folder / "empty.json").write_text(json.dumps(
        {"configs": {}, "dispatchings": {}, "values": {}}))


# --- statistics, as engine/snapshot/stats_file.h has them, without the checksum ---

def number(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def text(s):
    return number(len(s)) + s.encode()


def wide(x):
    words = int(x * 2 ** 298).to_bytes(80, "little", signed=True)
    first = next((i for i in range(10) if any(words[8 * i:8 * i + 8])), 0)
    return number(first) + number(10 - first if x else 0) + (words[8 * first:] if x else b"")


def extremes(x):
    return struct.pack("<ff", min(x, default=math.inf), max(x, default=-math.inf))


def bins(x, count):
    """The exponent, the span and its counts; elements of x are small powers of two."""
    least = -107 - int(math.log2(count))
    exponent = max([least] + [math.frexp(a)[1] + 1 - int(math.log2(count)) for a in x if a])
    at = [math.floor(a / 2.0 ** exponent) + count // 2 for a in x]
    first, end = min(at, default=0), max(at, default=-1) + 1
    return (number(exponent - least) + number(first) + number(end - first)
            + b"".join(number(at.count(i)) for i in range(first, end)))


def value(name, axis, channels, holds):
    """channels: [channel][sample] lists of elements; sample k is part k."""
    out = text(name) + number(axis + 1) + number(len(channels)) + number(holds)
    for samples in channels:
        x = [a for sample in samples for a in sample]
        out += extremes(x) + number(len(x)) + number(x.count(0)) + number(0) + number(0)
        if holds & 1:
            out += wide(sum(x)) + wide(sum(a * a for a in x))
        if holds & 4:
            out += bins(x, 2048)
    every = [[a for c in channels for a in c[k]] for k in range(len(channels[0]))]
    for part in every + [[]] * (16 - len(every)):
        out += extremes(part) + number(len(part)) + number(part.count(0))
        if holds & 2:
            out += bins(part, 256)
    return out + (bins([a for part in every for a in part], 8192) if holds & 2 else b"")


def stats():
    folder = CORPUS / "stats"
    folder.mkdir(parents=True, exist_ok=True)
    head = b"qgstats\n" + struct.pack("<I", 1) + b"".join(map(text, "mgpkdh"))
    two = [[[-1.0, 0.0, 0.5], [1.5, 1.5]], [[0.25], [2.0, 0.0]]]
    whole, plain = value("a", 1, two, 7), value("b", -1, two[:1], 0)
    empty = value("c", -1, [[[], []]], 3)
    ranges = number(1) + number(0) + number(2)
    (folder / "whole.bin").write_bytes(
        head + ranges + number(3) + whole + plain + empty)
    (folder / "apart.bin").write_bytes(
        head + number(2) + number(3) + number(1) + number(5) + number(1) + number(1)
        + value("v", -1, [[[2.0 ** 100, -(2.0 ** 100)], [2.0 ** -140]]], 3))
    (folder / "none.bin").write_bytes(head + number(0) + number(0))


def trace():
    """Archives with arrays of 1x2x3x4 values, and what their description can hold."""
    folder = CORPUS / "trace"
    folder.mkdir(parents=True, exist_ok=True)
    codes = np.arange(48, dtype=np.int8).reshape(2, 2, 3, 4)

    def write(name, arrays, **described):
        root = {"format": "quantgraph-trace", "version": 1, "arrays": [
            {"value": k, "file": f"{k}.npy"} | described for k in arrays]}
        with zipfile.ZipFile(folder / f"{name}.npz", "w") as z:
            for k, x in arrays.items():
                data = io.BytesIO()
                np.save(data, x)
                z.writestr(zipfile.ZipInfo(f"{k}.npy"), data.getvalue())
            z.writestr(zipfile.ZipInfo("trace.json"), json.dumps(root))

    write("plain", {"x": codes}, grid={"scale": 0.5, "zero": -3}, endpoint="a.out0")
    write("last", {"x": codes.transpose(0, 2, 3, 1), "y": codes.astype("f4")}, layout="nhwc")
    write("moved", {"x": codes.transpose(0, 3, 1, 2)}, permutation=[2, 0, 1])
    write("nan", {"x": np.full((1, 1, 2, 3, 4), np.nan, "f4")}, grid=None)


def infer():
    """Records of fuzz_infer.c: value, type, form, mantissa, exponent and zero of the grid,
    ten bytes of elements."""
    folder = CORPUS / "infer"
    folder.mkdir(parents=True, exist_ok=True)
    spread = bytes([3, 9, 250, 12, 17, 0, 99, 4, 240, 30])

    def write(name, base, *records):
        data = b"".join(bytes(r) + spread for r in records)
        (folder / f"{name}.bin").write_bytes(bytes([base]) + data)

    write("codes", 0, *((v, v == 2, 1 | 4, 7, 250, 0) for v in (0, 2, 4, 5, 6, 7)))
    write("floats", 3, *((v, 2, 4, 0, 0, 0) for v in (0, 2, 3)), (4, 5, 8, 0, 0, 0),
          (5, 2, 16, 0, 0, 0), (8, 3, 4, 0, 0, 0))
    write("grids", 6, (0, 0, 5, 255, 90, 127), (2, 1, 37, 128, 200, 128), (4, 0, 1, 0, 0, 90),
          (7, 4, 250, 0, 0, 0))


# --- tables of scales for the network of table.h ---

def tables():
    def write(folder, name, text):
        target = CORPUS / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text if isinstance(text, str) else json.dumps(text))

    def channel(scale, offset=-128, symmetric="True", **other):
        return {"bitwidth": 8, "dtype": "int", "is_symmetric": symmetric, "offset": offset,
                "scale": scale, "min": offset * scale, "max": (offset + 255) * scale} | other

    def listed(name, scales, **other):
        return {"name": name, "enc_type": "PER_CHANNEL" if len(scales) > 1 else "PER_TENSOR",
                "dtype": "INT", "bw": 8, "is_sym": True, "scale": scales,
                "offset": [-128] * len(scales)} | other

    four = [0.01, 0.02, 0.03, 0.04]
    write("encodings", "dictionary.json", {
        "version": "0.6.1", "activation_encodings": {
            "x": [channel(0.1, -3, "False")], "r": [channel(0.25)],
            "a": [{"bitwidth": 4, "min": -1.5, "max": 6.0}], "missing": [channel(1.0)]},
        "param_encodings": {"w": [channel(s) for s in four],
                            "v": [channel(0.5, -127, max=63.5)]}})
    write("encodings", "list.json", {
        "version": "1.0.0", "activation_encodings": [listed("x", [0.1]), listed("a", [0.5])],
        "param_encodings": [listed("w", four)], "excluded_layers": []})
    write("encodings", "onnx.json", {"version": "2.0.0", "encodings": [
        {"name": "x", "output_dtype": "uint8", "y_scale": 0.1, "y_zero_point": 7},
        {"name": "w", "output_dtype": "int4", "y_scale": four, "axis": 0},
        {"name": "v", "output_dtype": "int8", "axis": 1, "block_size": 1,
         "y_scale": [[[[s]], [[2 * s]]] for s in four]},
        {"name": "a", "output_dtype": "float8e4m3fn", "y_scale": 0.5}]})
    write("tensorrt_json", "ranges.json", {"act_quant_info": {
        "x": 12.7, "r": 6.35, "a": 3.0, "s": 1.0, "w": 2.0}})
    write("tensorrt_cache", "cache", "TRT-8601-EntropyCalibration2\nx: 3c010a14\n"
          "r: 3d8a4553\na: 3D800000\n(Unnamed Layer* 22) [Constant]_output: 0\n")
    write("ncnn_table", "table", "c_param_0 127.0 63.5 31 1e2\nd_param_0 12.5 8\n#a 3\n"
          "c 50.000000\nd 20\nmissing 2\n")
    write("csv", "sheet.csv", "endpoint,state,policy,bits,qmin,qmax,rounding,axis,scale,"
          "offset\n\"c.in0\",ACTIVATED,per-tensor linear symmetric,8,-128,127,half-even,,"
          "0.1,0\nc.in1,BAKED,per-channel linear symmetric,8,-127,127,half-even,0,"
          "0.1 0.2 0.3 0.4,0 0 0 0\nr.out0,ACTIVATED,per-tensor linear asymmetric,8,0,255,"
          "half-up,,0.5,3\na.in0,OVERLAPPED,per-tensor linear asymmetric,8,0,255,,,0.5,3\n")


qdq()
tables()
trace()
infer()
openvino()
mqbench()
qonnx()
ppq()
stats()
tflite_networks.write(CORPUS / "tflite")
