#!/usr/bin/env python3
"""Samples on another scale than those that calibrated: a warning of every verb that runs
them on a snapshot, and of the holdout; none where they fit, and none for coarse grids, whose
first steps hold much."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import QG, qg

MODEL, DATA = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
BEYOND = "values up to 255, where its grid has steps of 0.00784 up to 1, expected the scale"
WITHIN = "values up to 1, where its grid has steps of 2 up to 256, expected the scale"


def stderr(*words):
    run = subprocess.run([QG, *map(str, words)], capture_output=True, text=True, check=True)
    return run.stderr


with tempfile.TemporaryDirectory() as place:
    root = pathlib.Path(place)
    data = np.load(DATA)
    np.save(root / "bytes.npy", data * np.float32(255))
    np.save(root / "dark.npy", np.concatenate([data[:1] / 400, data[1:8]]).astype("f4"))
    qg("quantize", MODEL, "-b", "trt-int8", "-d", DATA, "-o", root / "small")
    qg("quantize", MODEL, "-b", "trt-int8", "-d", root / "bytes.npy", "-o", root / "large")
    for verb in (["run", "-o", root / "run"], ["analyse"], ["sensitivity", "-n", 2],
                 ["tune", "--steps", 2, "-o", root / "tuned"]):
        wrong = stderr(verb[0], root / "small", "-d", root / "bytes.npy", *verb[1:])
        assert wrong.count("warning: data '") == 1 and BEYOND in wrong, (verb, wrong)
    assert WITHIN in stderr("analyse", root / "large", "-d", DATA)
    found = stderr("search", root / "large", "-d", root / "bytes.npy", "--holdout", DATA,
                   "--budget", "bits=6", "-o", root / "policy.yaml")
    assert found.count("grid has steps") == 1 and f"data '{DATA}'" in found, found
    for right in (DATA, root / "dark.npy"):  # one dark picture among others
        assert "grid has steps" not in stderr("analyse", root / "small", "-d", right)
    qg("quantize", MODEL, "-b", "trt-int8", "-d", DATA, "-o", root / "coarse", "--set",
       "bits=4 range=[-7,7]")
    np.save(root / "grey.npy", data / np.float32(4))
    assert "grid has steps" not in stderr("analyse", root / "coarse", "-d", root / "grey.npy")
print("test_feed_scale: ok")
