#!/usr/bin/env python3
"""Keyword spotting under trt-int8, calibrated with 100 samples by every applicable
observer: a table of the accuracy on the other 400.  minmax and mse must stay within
1 % of float.

Rows with '=' have scales that onnxruntime's own collectors, or PPQ's rules in numpy, found on
activations that onnxruntime computed.  ort-* and ppq-* are the same algorithms and must be as
good.  Our percentile and kl look at all elements of all samples, as onnxruntime's do, and must
be as good as those; PPQ's are other algorithms (a percentile of each sample, averaged; codes
of one sign), and 400 samples cannot tell such neighbours apart: they are compared sample by
sample, and ours must not be worse beyond chance (one-sided sign test, 5 %)."""
import contextlib
import io
import json
import logging
import math
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
    import onnx
    import onnxruntime
    from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat,
                                          QuantType, calibrate, quantize_static)
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from test_observers import ppq_kl  # noqa: E402  pylint: disable=wrong-import-position

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


def of_onnxruntime(folder, x, method):
    """Top-1 of quantize_static: other grids and fusions than trt-int8, so only for the eye."""
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    out = folder / "ort.onnx"
    with open(os.devnull, "w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
        quantize_static(str(MODEL), str(out), Reader(session.get_inputs()[0].name, x),
                        quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                        calibrate_method=method,
                        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True,
                                       "CalibTensorRangeSymmetric": True})
    return out


# --- the same algorithms, computed without us ---

def activations(x, names):
    """name -> one array per sample, as onnxruntime computes them in float."""
    model = onnx.load(str(MODEL))
    have = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in have)
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0].name
    out = {n: [] for n in names}
    asked = [n for n in names if n != given]
    for sample in x:
        for n, value in zip(asked, session.run(asked, {given: sample[None]})):
            out[n].append(value)
        if given in out:
            out[given].append(sample[None])
    return out


def ort_threshold(arrays, method, **more):
    options = {"num_bins": 2048, "num_quantized_bins": 128, "percentile": 99.999, "scenario": "same"}
    options.update(more)
    collector = calibrate.HistogramCollector(method=method, symmetric=True, **options)
    with contextlib.redirect_stdout(io.StringIO()):
        collector.collect({"x": arrays})
        low, high = collector.compute_collection_result()["x"][:2]
    return max(abs(float(low)), abs(float(high)))


def ppq_percentile(arrays, p=0.9999):
    low, high = [], []
    for a in arrays:
        v, n = np.sort(a.ravel()), a.size
        low.append(v[max(0, int(n * (1 - p)))])
        high.append(v[min(int(n * p), n - 1)])
    return max(abs(float(np.mean(low))), abs(float(np.mean(high))))


INDEPENDENT = {  # largest |x| on the grid of [-128, 127], so scale = 2 x / 255
    "percentile of onnxruntime": lambda a: ort_threshold(a, "percentile"),
    "kl of onnxruntime": lambda a: ort_threshold(a, "entropy", num_bins=128),
    "percentile of PPQ": ppq_percentile,
    "kl of PPQ": lambda a: ppq_kl(np.concatenate([v.ravel() for v in a])) * 255 / 2,
}


def hits(snapshot, folder, labels):
    """For each sample whether the rounded network is right."""
    qg("run", snapshot, "-d", folder / "rest.npy", "-o", folder / "run")
    (output,) = (folder / "run").glob("*.npy")
    return np.load(output).reshape(len(labels), -1).argmax(axis=1) == labels


def chance(ours, theirs):
    """Share of fair coins that favour them as much, among the samples that differ."""
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    n = won + lost
    return won, lost, sum(math.comb(n, k) for k in range(won + 1)) / 2 ** n


def independent(folder, x, labels):
    """name -> top-1 under trt-int8 with scales that onnxruntime and numpy found, and where
    it is right."""
    with open(folder / "snapshot/quant.json", encoding="utf-8") as f:
        document = json.load(f)
    names = sorted({t["value"] for t in document["tqcs"]
                    if t["state"] in ("ACTIVATED", "OVERLAPPED", "PASSIVE") and t["observer"]})
    constant = {i.name for i in onnx.load(str(MODEL)).graph.initializer}
    known = {o for n in onnx.load(str(MODEL)).graph.node for o in n.output}
    known |= {i.name for i in onnx.load(str(MODEL)).graph.input}
    seen = activations(x, [n for n in names if n in known and n not in constant])
    top1, right = {}, {}
    for word, rule in INDEPENDENT.items():
        rules = [{"id": f"scale-{i}", "match": {"value": name},
                  "set": {"observer": "fixed", "step": float(np.float32(rule(a) * 2 / 255))}}
                 for i, (name, a) in enumerate(seen.items())]
        (folder / "patch.yaml").write_text(json.dumps({"rules": rules}))
        qg("quantize", MODEL, "-b", "trt-int8", "-d", folder / "calib.npy", "--policy",
           folder / "patch.yaml", "-o", folder / "told")
        right[word] = hits(folder / "told", folder, labels)
        top1[word] = right[word].mean()
    return top1, right


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
        ours, right = {}, {}
        for observer in known:
            snapshot = folder / "snapshot"
            try:
                qg("quantize", MODEL, "-b", "trt-int8", "-d", folder / "calib.npy", "--observer",
                   observer, "-o", snapshot)
            except RuntimeError as refused:
                if any(w in str(refused) for w in ("supports other schemes only",
                                                   "fixed: step is not given")):
                    continue  # for floating grids, for single endpoints
                raise
            ours[observer] = qg("evaluate", snapshot, "-d", rest, "--labels", folder / "labels.npy")
            if observer in ("percentile", "kl"):
                right[observer] = hits(snapshot, folder, labels[CALIBRATE:])
                assert right[observer].mean() == ours[observer]["simulated_top1"]
        real = next(iter(ours.values()))["float_top1"]
        theirs, told = independent(folder, x[:CALIBRATE], labels[CALIBRATE:])
        static = {word: accuracy(of_onnxruntime(folder, x[:CALIBRATE], method), x[CALIBRATE:],
                                 labels[CALIBRATE:])
                  for word, method in (("minmax", CalibrationMethod.MinMax),
                                       ("percentile", CalibrationMethod.Percentile),
                                       ("kl", CalibrationMethod.Entropy))}
    print(f"{'observer':26} {'top-1':>7} {'- float':>8}   float {real:.4f}, {len(labels) - CALIBRATE} samples")
    rows = [(o, r["simulated_top1"]) for o, r in ours.items()]
    rows += [(f"= {k}", v) for k, v in theirs.items()]
    rows += [(f"(quantize_static {k})", v) for k, v in static.items()]
    for observer, top1 in rows:
        print(f"{observer:26} {top1:7.4f} {top1 - real:+8.4f}")
    wrong = judge({o: r["simulated_top1"] for o, r in ours.items()}, theirs, real)
    for observer, answers in right.items():
        won, lost, p = chance(answers, told[f"{observer} of PPQ"])
        print(f"{observer} against PPQ's: {won} samples won, {lost} lost, p {p:.2f}")
        if p < 0.05:
            wrong.append(f"{observer} is worse than {observer} of PPQ beyond chance")
    for line in wrong:
        print("FAILED:", line)
    return bool(wrong)


def judge(ours, theirs, real):
    """Within 1 % of float; no worse than the same algorithm of PPQ or of onnxruntime."""
    wrong = []
    for observer in ("minmax", "mse"):
        if ours[observer] < real - 0.01 - 1e-9:
            wrong.append(f"{observer} is more than 1 % below float")
    pairs = (("ort-percentile", "percentile of onnxruntime"), ("ort-entropy", "kl of onnxruntime"),
             ("ppq-percentile", "percentile of PPQ"), ("ppq-kl", "kl of PPQ"),
             ("percentile", "percentile of onnxruntime"), ("kl", "kl of onnxruntime"))
    for observer, rival in pairs:
        if ours[observer] < theirs[rival]:
            wrong.append(f"{observer} is worse than {rival}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
