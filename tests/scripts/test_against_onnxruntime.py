#!/usr/bin/env python3
"""Float outputs of `qg run` against onnxruntime on 8 random inputs per model: the largest
difference is at most 1e-4 of the largest output.  Models in ../shared are skipped
when they are absent."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnxruntime as ort
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
SHARED = "../shared/models"
STANDINS = f"{SHARED}/standins"
MODELS = [
    "configs/models/digits.onnx",
    "tests/models/mnist-8.onnx",
    f"{SHARED}/ultraface-rfb-320.onnx",
    f"{SHARED}/mnist-8.onnx",
    f"{SHARED}/kws_float.onnx",
    f"{STANDINS}/mobilenet_a.onnx",
    f"{STANDINS}/yolo_a.onnx",
    f"{STANDINS}/vit_a.onnx",
    f"{STANDINS}/effnet_a.onnx",
]
SAMPLES = 8
TOLERANCE = 1e-4


def safe(name):
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)


def compare(path, folder, kernels):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options)
    (entry,) = session.get_inputs()
    shape = [d if isinstance(d, int) else 1 for d in entry.shape]
    x = np.random.RandomState(7).rand(SAMPLES, *shape).astype("float32")
    np.save(f"{folder}/x.npy", x)
    out = f"{folder}/out"
    subprocess.run([QG, "run", path, "-d", f"{folder}/x.npy", "-o", out, *kernels],
                   check=True, stdout=subprocess.DEVNULL)
    names = [o.name for o in session.get_outputs()]
    worst = 0.0
    for i in range(SAMPLES):
        for name, want in zip(names, session.run(names, {entry.name: x[i]})):
            got = np.load(f"{out}/{safe(name)}.npy")[i]
            if got.shape != want.shape:
                raise SystemExit(f"{path}: {name}: shape {got.shape}, not {want.shape}")
            scale = max(float(np.abs(want).max()), 1e-30)
            worst = max(worst, float(np.abs(got - want).max()) / scale)
    return worst


def main():
    bad = 0
    for path in MODELS:
        if not os.path.exists(path):
            print(f"skipped  {path}: not there")
            continue
        for kernels in ([], ["--kernels", "reference"]):
            with tempfile.TemporaryDirectory() as folder:
                worst = compare(path, folder, kernels)
            verdict = "ok" if worst <= TOLERANCE else "FAILED"
            bad += verdict != "ok"
            what = "reference" if kernels else "compiled"
            print(f"{verdict:8} {path} ({what} kernels): {worst:.2e} of the largest output")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
