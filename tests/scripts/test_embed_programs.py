#!/usr/bin/env python3
"""The example programs memory.c, builder.c and setters.c of tests/support/installed,
built against the library: ONNX Runtime loads the network that builder.c makes and computes
the numbers that NumPy computes, as we do; scales that setters.c sets are in the snapshot.

Skipped (77) without numpy, onnx or onnxruntime."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError:
    sys.exit(77)

BUILD = os.environ["QG_BUILD"]
QG = os.environ["QG"]
WEIGHT = np.array([[0.5, -1], [0.25, 2], [-0.125, 1.5]], np.float32)


def compile_program(name, folder):
    program = folder / name
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Iengine/api", "-I.",
         f"tests/support/installed/{name}.c", "-o", str(program), f"-L{BUILD}", "-lqg",
         f"-Wl,-rpath,{os.path.abspath(BUILD)}"], check=True)
    return program


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def records(snapshot):
    return json.loads((snapshot / "quant.json").read_text())["tqcs"]


def test_builder(folder):
    path, snapshot = folder / "linear.onnx", folder / "linear"
    run(compile_program("builder", folder), path, snapshot)
    onnx.checker.check_model(str(path), full_check=True)
    x = np.array([[[1, 2, 3]], [[-4, 0.5, 2]], [[0, 0, -1]]], np.float32)
    np.save(folder / "x.npy", x)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    theirs = np.stack([session.run(None, {"x": sample})[0] for sample in x])
    run(QG, "run", path, "-d", folder / "x.npy", "-o", folder / "out")
    ours = np.load(folder / "out" / "y.npy").reshape(theirs.shape)
    np.testing.assert_array_equal(theirs, np.maximum(x @ WEIGHT, 0))
    np.testing.assert_array_equal(ours, theirs)
    assert {t["state"] for t in records(snapshot)} & {"ACTIVATED", "BAKED"}


def test_memory(folder):
    text = run(compile_program("memory", folder), "configs/models/digits.onnx")
    assert text == "58 endpoints\n", text


def test_setters(folder):
    snapshot, copy = folder / "snapshot", folder / "copy"
    run(QG, "quantize", "configs/models/digits.onnx", "-b", "trt-int8", "-d", "random:4",
        "-o", snapshot)
    printed = run(compile_program("setters", folder), snapshot, copy).splitlines()
    changed = 0
    for before, after in zip(records(snapshot), records(copy), strict=True):
        assert before["state"] == after["state"], after
        if before["state"] == "ACTIVATED":
            changed += 1
            np.testing.assert_array_equal(np.float32(after["scale"]),
                                          2 * np.float32(before["scale"]))
    assert changed == len(printed) > 3, printed


def main():
    for test in test_builder, test_memory, test_setters:
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
