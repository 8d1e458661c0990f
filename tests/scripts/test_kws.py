#!/usr/bin/env python3
"""Keyword spotting under trt-int8, calibrated with 100 samples by every observer that serves
it: a table of the accuracy on the other 400, beside onnxruntime's quantize_static with the same
algorithms.  minmax and mse must stay within 1 % of float, percentile and kl must not be worse
than the same algorithm of onnxruntime."""
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

SHARED = pathlib.Path("../shared")
MODEL, DATA = SHARED / "models/kws_float.onnx", SHARED / "data/kws_dev.npz"
if not MODEL.exists() or not DATA.exists():
    print("skipped: ../shared is not here")
    sys.exit(77)
try:
    import numpy as np
    import onnxruntime
    from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat,
                                          QuantType, quantize_static)
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
CALIBRATE = 100
logging.disable(logging.WARNING)


def qg(*arguments):
    done = subprocess.run([QG, *map(str, arguments), "--json"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


class Reader(CalibrationDataReader):
    def __init__(self, name, x):
        self.rows = iter([{name: s[None]} for s in x])

    def get_next(self):
        return next(self.rows, None)


def accuracy(model, x, labels):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    right = sum(session.run(None, {name: s[None]})[0].argmax() == k for s, k in zip(x, labels))
    return right / len(labels)


def of_onnxruntime(folder, x, method, symmetric_range):
    """quantize_static as trt-int8 would have it: symmetric activations, weights per channel."""
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    out = folder / "ort.onnx"
    quantize_static(str(MODEL), str(out), Reader(session.get_inputs()[0].name, x),
                    quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                    calibrate_method=method,
                    extra_options={"ActivationSymmetric": True, "WeightSymmetric": True,
                                   "CalibTensorRangeSymmetric": symmetric_range})
    return out


def main():
    arrays = np.load(DATA)
    x, labels = arrays["input_1"], arrays["labels"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        np.save(folder / "calib.npy", x[:CALIBRATE])
        np.save(folder / "rest.npy", x[CALIBRATE:])
        np.save(folder / "labels.npy", labels[CALIBRATE:])
        rest = folder / "rest.npy"
        known = [o["observer"] for o in qg("list", "observers")["observers"]]
        ours = {}
        for observer in known:
            if observer in ("ppq-constant", "ppq-floating", "ort-distribution"):
                continue  # of floating grids
            snapshot = folder / "snapshot"
            qg("quantize", MODEL, "-b", "trt-int8", "-d", folder / "calib.npy", "--observer",
               observer, "-o", snapshot)
            ours[observer] = qg("evaluate", snapshot, "-d", rest, "--labels", folder / "labels.npy")
        real = next(iter(ours.values()))["float_top1"]
        theirs = {}
        for word, method in (("minmax", CalibrationMethod.MinMax),
                             ("percentile", CalibrationMethod.Percentile),
                             ("kl", CalibrationMethod.Entropy)):
            with open(os.devnull, "w", encoding="utf-8") as null:
                out, sys.stdout = sys.stdout, null
                try:
                    model = of_onnxruntime(folder, x[:CALIBRATE], method, True)
                finally:
                    sys.stdout = out
            theirs[word] = accuracy(model, x[CALIBRATE:], labels[CALIBRATE:])
    print(f"{'observer':26} {'top-1':>7} {'- float':>8}   float {real:.4f}, {len(labels) - CALIBRATE} samples")
    rows = [(o, r["simulated_top1"]) for o, r in ours.items()]
    rows += [(f"onnxruntime {k}", v) for k, v in theirs.items()]
    for observer, top1 in rows:
        print(f"{observer:26} {top1:7.4f} {top1 - real:+8.4f}")
    return judge({o: r["simulated_top1"] for o, r in ours.items()}, theirs, real)


def judge(ours, theirs, real):
    wrong = []
    for observer in ("minmax", "mse", "ppq-minmax", "ppq-mse", "ort-minmax"):
        if observer in ours and ours[observer] < real - 0.01:
            wrong.append(f"{observer} is more than 1 % below float")
    pairs = [("percentile", "percentile"), ("kl", "kl"), ("ort-percentile", "percentile"),
             ("ort-entropy", "kl"), ("ppq-percentile", "percentile"), ("ppq-kl", "kl")]
    for observer, word in pairs:
        if observer in ours and ours[observer] < theirs[word]:
            wrong.append(f"{observer} is worse than onnxruntime's {word}")
    for line in wrong:
        print("FAILED:", line)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
