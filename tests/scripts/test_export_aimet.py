#!/usr/bin/env python3
"""qg export --format aimet --version 2.0.0: float8 types are named as ONNX names them, and a
floating grid that ONNX has no type for is no entry but a loss.  And qg import-backend reads
configurations of the shapes that AIMET ships: passes before supergroups, a min alone."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from command import QG, answer, qg

MODEL, CALIB = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
GRID = ("op=[Conv,Gemm] slot=weight constant=yes policy=per-tensor,floating,symmetric,power-of-2 "
        "exponent-bits={} range=-{},{}")
CASES = [  # exponent bits, largest value, type or None
    (4, 448, "float8e4m3fn"), (5, 57344, "float8e5m2"), (4, 240, None), (5, 448, None),
    (4, 57344, None)]


def types(folder, exponent, largest):
    """{output_dtype of a weight: how often}, and endpoints of the loss report."""
    snapshot, file = folder / "snapshot", folder / "x.encodings"
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", snapshot, "--set",
       GRID.format(exponent, largest, largest))
    report = answer("export", snapshot, "--format", "aimet", "--version", "2.0.0", "-o", file)
    weights = {t["value"] for t in json.loads((snapshot / "quant.json").read_text())["tqcs"]
               if t["exponent_bits"]}
    found = [e.get("output_dtype") for e in json.loads(file.read_text())["encodings"]
             if e["name"] in weights]
    return len(weights), found, report


# AIMET 2.42's default_config_per_channel.json, and what other files of it have
CONFIG = {
    "defaults": {"ops": {"is_output_quantized": "True"},
                 "params": {"is_quantized": "True", "is_symmetric": "True"},
                 "strict_symmetric": "False", "per_channel_quantization": "False"},
    "params": {"bias": {"is_quantized": "False"}},
    "op_type": {"MatMul": {"per_channel_quantization": "True"},
                "Relu": {"encoding_constraints": {"min": 0.0}}},
    "supergroup_pass_list": ["MatmulAdd", "LayerNormalization"],
    "supergroups": [{"op_list": ["Conv", "Relu"]}],
    "model_input": {"is_input_quantized": "True"}, "model_output": {}}


def products(path):
    """Three products with sums: a bias on either side, and a second operand that is data."""
    table = {"w": np.eye(4, dtype=np.float32) / 2, "b": np.ones(4, np.float32)}
    nodes = [("MatMul", ["x", "w"], "m0"), ("Add", ["m0", "b"], "a0"),
             ("MatMul", ["a0", "w"], "m1"), ("Add", ["b", "m1"], "a1"),
             ("MatMul", ["a1", "w"], "m2"), ("Add", ["m2", "x"], "a2")]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in ("x", "a2"))
    graph = helper.make_graph([helper.make_node(op, i, [o], o) for op, i, o in nodes], "g", [x],
                              [y], [numpy_helper.from_array(v, k) for k, v in table.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                ir_version=8), path)


def check_passes(folder):
    """MatmulAdd silences the products with a bias only; other passes are reported."""
    config, backend, model = (folder / n for n in ("made.json", "made.yaml", "m.onnx"))
    config.write_text(json.dumps(CONFIG))
    told = json.dumps(answer("import-backend", config, "--format", "aimet", "-o", backend))
    bad = [w for w in ("LayerNormalization", "a min without a max", "supergroup_pass_list[0]")
           if w not in told]
    products(model)
    qg("quantize", model, "-b", backend, "-d", "random:2", "-o", folder / "made")
    at = {(t["value"], t["state"].lower()) for t in
          json.loads((folder / "made" / "quant.json").read_text())["tqcs"]
          if t["slot"].startswith("out")}
    expected = {("m0", "overlapped"), ("a0", "activated"), ("m1", "overlapped"),
                ("a1", "activated"), ("m2", "activated"), ("a2", "activated")}
    print("FAILED" if bad or at != expected else "ok    ", "passes", bad, sorted(at ^ expected))
    wrong = bool(bad) or at != expected
    config.write_text(json.dumps(CONFIG | {"supergroup_pass_list": [3]}))
    run = subprocess.run([QG, "import-backend", config, "--format", "aimet", "-o", backend],
                         capture_output=True, text=True, check=False)
    wrong |= run.returncode == 0 or "supergroup_pass_list[0]" not in run.stderr
    return wrong


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        failures += check_passes(pathlib.Path(work))
        for exponent, largest, kind in CASES:
            n, found, report = types(pathlib.Path(work), exponent, largest)
            good = n > 1 and found == ([kind] * n if kind else [])
            good &= kind is not None or report["lost"] >= n
            print("ok    " if good else "FAILED", exponent, largest, n, found, report["lost"])
            failures += not good
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
