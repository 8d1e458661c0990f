#!/usr/bin/env python3
"""What a NaN becomes, in runtimes and here.

codes    the code that a runtime's quantization makes of NaN is that of `nan` in the
         backend of the runtime: ONNX Runtime, OpenVINO, LiteRT

Skipped (77) without numpy, onnx and onnxruntime."""
import re
import subprocess
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto as T, helper as h, numpy_helper as nh
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

SIZES = 1, 3, 16, 17, 64  # of vectors: tails and whole registers


def onnxruntime_codes(dtype, zero):
    """{the code of NaN} in QuantizeLinear."""
    point = nh.from_array(np.array(zero, dtype), "z")
    codes = set()
    for n in SIZES:
        graph = h.make_graph(
            [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])], "g",
            [h.make_tensor_value_info("x", T.FLOAT, [n])],
            [h.make_tensor_value_info("q", point.data_type, [n])],
            [nh.from_array(np.float32(0.5), "s"), point])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
        model.ir_version = 8
        session = onnxruntime.InferenceSession(model.SerializeToString(),
                                               providers=["CPUExecutionProvider"])
        codes |= set(session.run(None, {"x": np.full(n, np.nan, np.float32)})[0].tolist())
    return codes


def openvino_codes(low):
    """The same in FakeQuantize with 256 levels of 0.5 from `low` on."""
    import openvino
    from openvino import opset13
    core, codes = openvino.Core(), set()
    for n in SIZES:
        x = opset13.parameter([1, n], np.float32)
        ends = [np.float32(0.5 * low), np.float32(0.5 * (low + 255))] * 2
        model = openvino.Model([opset13.fake_quantize(x, *ends, 256)], [x])
        run = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        values = run([np.full((1, n), np.nan, np.float32)])[0]
        codes |= set((values.ravel() / 0.5).tolist())
    return codes


def litert_codes(kernels, dtype, zero):
    """The same in QUANTIZE."""
    import litert
    codes = set()
    for n in SIZES:
        file = litert.File()
        x = file.tensor("x", "float32", [1, n])
        y = file.tensor("y", dtype, [1, n], ([0.5], [zero], 0))
        file.operator("QUANTIZE", [x], [y], {})
        run = litert.Runtime(file.bytes([x], [y]), kernels)
        codes |= set(run.run({"x": np.full((1, n), np.nan, np.float32)})["y"].ravel().tolist())
    return codes


def rule_of(backend):
    page = " ".join(agreement.qg("list", "backends", backend).split())
    return re.search(r"nan: ([a-z]+)", page)[1]


def code_of(rule, dtype, zero):
    ends = np.iinfo(dtype)
    return {"lowest": ends.min, "zero": zero, "highest": ends.max}[rule]


def check_codes():
    cases = [("ort-int8", onnxruntime_codes, (dtype, zero), dtype, zero)
             for dtype, zero in (("int8", 0), ("int8", 3), ("int8", -128), ("uint8", 128))]
    try:
        import openvino  # noqa: F401
        cases += [("openvino-int8", openvino_codes, (low,), "int8" if low else "uint8", 0)
                  for low in (-128, 0)]
    except ImportError as missing:
        print(f"without OpenVINO: {missing}")
    try:
        import ai_edge_litert  # noqa: F401
        import platform
        if platform.machine() == "x86_64":  # aarch64: docs/evidence/grids.md#nan
            cases += [(backend, litert_codes, (kernels, "int8", zero), "int8", zero)
                      for backend, kernels in (("tflite-int8", "reference"),
                                               ("tflite-int8", "builtin"),
                                               ("xnnpack-int8", "xnnpack"))
                      for zero in (0, 3)]
    except ImportError as missing:
        print(f"without LiteRT: {missing}")
    bad = 0
    for backend, codes, arguments, dtype, zero in cases:
        want = {code_of(rule_of(backend), dtype, zero)}
        got = codes(*arguments)
        if got != want:
            bad += 1
            print(f"FAILED: {backend} {arguments}: NaN becomes {got}, expected {want}")
    print(f"codes: {len(cases)} compared")
    return bad


def main():
    return min(check_codes(), 1)


if __name__ == "__main__":
    sys.exit(main())
