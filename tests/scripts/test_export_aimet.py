#!/usr/bin/env python3
"""qg export --format aimet --version 2.0.0: float8 types are named as ONNX names them, and a
floating grid that ONNX has no type for is no entry but a loss."""
import json
import pathlib
import sys
import tempfile

from command import answer, qg

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


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        for exponent, largest, kind in CASES:
            n, found, report = types(pathlib.Path(work), exponent, largest)
            good = n > 1 and found == ([kind] * n if kind else [])
            good &= kind is not None or report["lost"] >= n
            print("ok    " if good else "FAILED", exponent, largest, n, found, report["lost"])
            failures += not good
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
