#!/usr/bin/env python3
"""onnx.checker accepts exported models, and onnxruntime runs them with the same
results.

Skipped (77) without onnx.  Reads tests/models and the folders in QG_MODELS."""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError:
    sys.exit(77)
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

COPY = os.path.join(os.environ["QG_BUILD"], "tests", "onnx_copy")
KIND = {"tensor(float)": np.float32, "tensor(bool)": np.bool_, "tensor(int64)": np.int64}


def session(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def outputs(s):
    rng = np.random.default_rng(5)
    feed = {i.name: rng.random([d if isinstance(d, int) else 1 for d in i.shape])
            .astype(KIND[i.type]) for i in s.get_inputs()}
    return s.run(None, feed)


def check(source, target, *arguments):
    """None when the copy is good, else the error."""
    run = subprocess.run([COPY, source, target, *arguments], capture_output=True, text=True)
    if run.returncode:
        return run.stderr.strip()
    onnx.checker.check_model(str(target), full_check=True)
    meta = {p.key: p.value for p in onnx.load(target, load_external_data=False)
            .metadata_props}
    if meta != {"copied by": "onnx_copy"}:
        return f"metadata {meta}"
    if onnxruntime is None:
        return None
    try:
        theirs = session(source)
    except Exception:  # onnxruntime refuses the original too
        return None
    mine = session(target)
    for a, b in zip(outputs(mine), outputs(theirs), strict=True):
        if not np.array_equal(a, b):
            return "onnxruntime computes something else"
    return None


folders = ["tests/models"] + os.environ.get("QG_MODELS", "").split(":")
models = sorted(p for f in folders if f for p in pathlib.Path(f).glob("*.onnx"))
failed = 0
with tempfile.TemporaryDirectory() as folder:
    for model in models:
        for arguments in ((), ("1",)):  # inside, and with everything large outside
            wrong = check(model, pathlib.Path(folder) / "copy.onnx", *arguments)
            if wrong:
                failed += 1
                print(f"{model} {' '.join(arguments)}: {wrong}")
print(f"{len(models)} models, {failed} failed")
sys.exit(1 if failed or not models else 0)
