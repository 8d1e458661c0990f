#!/usr/bin/env python3
"""Activations near zero (x / sqrt(mean(x^2) + 1e-12) of x around 1e-4; a product of
1e-9 that a later one undoes): ort-int8 has the scales of onnxruntime's quantize_static,
whose least scale is the least normal float32, and tflite-int8 resolves them too.  A
backend whose least scale is larger names the endpoints in a warning; zeros are no
reason for one.

Skipped (77) without numpy, onnx and onnxruntime."""
import logging
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime import quantization
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

ENDPOINTS = r"(\d+) endpoints? ha\w+ .*\(min-scale\).*: (.*)"


def model(path, nodes, **constants):
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v, np.float32), k)
         for k, v in constants.items()])
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), path)


def energy(path, random):
    op = helper.make_node
    model(path, [op("Mul", ["x", "x"], ["x2"], "square"),
                 op("ReduceMean", ["x2"], ["e"], "mean", axes=[-1], keepdims=1),
                 op("Add", ["e", "eps"], ["ee"], "add"), op("Sqrt", ["ee"], ["s"], "sqrt"),
                 op("Div", ["x", "s"], ["z"], "div"),
                 op("MatMul", ["z", "w"], ["y"], "product")],
          eps=1e-12, w=random.normal(size=(16, 8)) * 0.3)
    return (random.normal(size=(6, 4, 16)) * 1e-4).astype(np.float32)


def tiny(path, random):
    op = helper.make_node
    model(path, [op("MatMul", ["x", "w"], ["h"], "product"),
                 op("Mul", ["h", "down"], ["t"], "shrink"),
                 op("Mul", ["t", "up"], ["y"], "grow")],
          down=1e-9, up=1e9, w=random.normal(size=(16, 8)) * 0.3)
    return random.normal(size=(6, 4, 16)).astype(np.float32)


class Reader(quantization.CalibrationDataReader):
    def __init__(self, x):
        self.rest = iter([{"x": sample[None]} for sample in x])

    def get_next(self):
        return next(self.rest, None)


def scales(path):
    """{value: scale} of the activations that QuantizeLinear rounds."""
    graph = onnx.load(path).graph
    constant = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    return {n.input[0]: float(constant[n.input[1]].reshape(-1)[0]) for n in graph.node
            if n.op_type == "QuantizeLinear" and n.input[0] not in constant}


def quantize(folder, backend, *more):
    run = subprocess.run(
        [agreement.QG, "quantize", folder / "m.onnx", "-b", backend, "-d",
         folder / "x.npy", "-o", folder / backend, *more], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stderr)
    found = re.search(ENDPOINTS, run.stderr)
    return found.group(2) if found else ""


def noise(folder, backend):
    out = agreement.qg("analyse", folder / backend, "-d", folder / "x.npy")
    return float(re.search(r"^ +y .* ([0-9.]+) %", out, re.M).group(1))


def check(name, make, warned, complaints):
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        x = make(folder / "m.onnx", np.random.default_rng(3))
        np.save(folder / "x.npy", x)
        quantization.quantize_static(
            folder / "m.onnx", folder / "ort.onnx", Reader(x),
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8)
        want = scales(folder / "ort.onnx")
        for backend in "ort-int8", "tflite-int8", "xnnpack-int8":
            at = quantize(folder, backend)
            if at or noise(folder, backend) > 0.1:
                complaints.append(f"{name}, {backend}: {noise(folder, backend)} %, "
                                  f"warned of '{at}', expected less than 0.1 % and none")
        agreement.qg("export", folder / "ort-int8", "--format", "onnx-qdq", "-o",
                     folder / "qg.onnx")
        have = scales(folder / "qg.onnx")
        for value in want.keys() & have.keys():
            if not np.isclose(want[value], have[value], rtol=1e-6, atol=0):
                complaints.append(f"{name}: {value}: scale {have[value]}, "
                                  f"onnxruntime {want[value]}")
        if not want.keys() & have.keys():
            complaints.append(f"{name}: no value of {sorted(have)} is in {sorted(want)}")
        at = quantize(folder, "trt-int8")
        if warned not in at:
            complaints.append(f"{name}, trt-int8: warned of '{at}', expected {warned}")


def zeros(complaints):
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        np.save(folder / "x.npy", 0 * tiny(folder / "m.onnx", np.random.default_rng(3)))
        for backend in "ort-int8", "trt-int8":
            if "product" in quantize(folder, backend):
                complaints.append(f"zeros, {backend}: a warning, expected none")
        agreement.qg("export", folder / "ort-int8", "--format", "onnx-qdq", "-o",
                     folder / "qg.onnx")
        if not np.isclose(scales(folder / "qg.onnx")["x"], 1e-8, rtol=1e-6):
            complaints.append(f"zeros: {scales(folder / 'qg.onnx')}, expected x: 1e-8")


def main():
    complaints = []
    logging.disable(logging.WARNING)
    check("energy", energy, "", complaints)
    check("tiny", tiny, "shrink.out0", complaints)
    zeros(complaints)
    print("\n".join(complaints) or "3 networks, 0 failures")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
