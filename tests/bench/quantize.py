#!/usr/bin/env python3
"""qg quantize beside onnxruntime's quantize_static and NNCF's quantize on the same model
and samples: whole command, wall time and peak memory, and the noise-to-signal ratio of
every output.

    tests/bench/quantize.py BUILD [MODEL.onnx] [SAMPLES,SAMPLES] [ROUNDS]

Each tool runs in a process of its own, in turns; the best time of each counts.  SAMPLES
are 32 unless given: onnxruntime's histograms keep every activation of every sample, 16 GB
of Ultraface at 512.  qg alone runs with 16 times as many as well.  NNCF is looked for in
this Python, or in the one that NNCF_PYTHON names.  Figures are printed, nothing is
asserted."""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime as ort

PEER = r"""
import sys
import numpy as np
from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat,
                                      QuantType, quantize_static)
model, data, out, name, method = sys.argv[1:6]

class Reader(CalibrationDataReader):
    def __init__(self):
        self.it = iter(np.load(data))
    def get_next(self):
        x = next(self.it, None)
        return None if x is None else {name: x}

quantize_static(model, out, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                calibrate_method=getattr(CalibrationMethod, method),
                extra_options={"ActivationSymmetric": True, "WeightSymmetric": True})
"""

NNCF = r"""
import sys
import nncf
import numpy as np
import onnx
model, data, out, name = sys.argv[1:5]
samples = np.load(data)
onnx.save(nncf.quantize(onnx.load(model), nncf.Dataset(list(samples), lambda x: {name: x}),
                        subset_size=len(samples)), out)
"""

# ours, the tool beside it, its way of calibrating
PAIRS = (("minmax", "onnxruntime", "MinMax"), ("percentile", "onnxruntime", "Percentile"),
         ("kl", "onnxruntime", "Entropy"), ("minmax", "nncf", "default"))


def peak_megabytes(pid):
    """VmHWM of a running process; ru_maxrss would count this script before exec."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0.0


def timed(command):
    """Seconds, and peak resident megabytes of the process, looked at every 2 ms."""
    start, peak = time.perf_counter(), 0.0
    with open(os.devnull, "w", encoding="ascii") as null:
        process = subprocess.Popen(command, stdout=null, stderr=null)
        while process.poll() is None:
            peak = max(peak, peak_megabytes(process.pid))
            time.sleep(0.002)
    if process.returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return time.perf_counter() - start, peak


def outputs(path, feed, name):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options)
    return [session.run(None, {name: x}) for x in feed]


def noise(real, rounded):
    """Mean over samples of sum d^2 / sum r^2, per output: PPQ's SNR, which is noise over signal."""
    per_sample = [[float(((a - b) ** 2).sum() / ((a ** 2).sum() + 1e-7))
                   for a, b in zip(r, q)] for r, q in zip(real, rounded)]
    return np.mean(per_sample, axis=0)


def nncf_python():
    """A Python that has NNCF; None: there is none."""
    for python in (os.environ.get("NNCF_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import nncf"], capture_output=True,
                                     check=False).returncode == 0:
            return python
    return None


def race(mine, other, rounds):
    """Best seconds and peak megabytes of both, in turns."""
    best = [[1e9, 0.0], [1e9, 0.0]]
    for _ in range(rounds):
        for who, command in enumerate((mine, other)):
            seconds, megabytes = timed(command)
            best[who] = [min(best[who][0], seconds), max(best[who][1], megabytes)]
    return best


def bench(build, model, samples, rounds, nncf):
    entry = onnx.load(model).graph.input[0]
    shape = [d.dim_value or 1 for d in entry.type.tensor_type.shape.dim]
    qg = f"{build}/qg"
    print(f"{os.path.basename(model)}, {samples} samples, best of {rounds} rounds in turns")
    with tempfile.TemporaryDirectory() as folder:
        calib, recent = f"{folder}/calib.npy", f"{folder}/recent.onnx"
        data = np.random.RandomState(0).rand(samples, *shape).astype("float32")
        np.save(calib, data)
        # per-channel Q/DQ needs opset 13
        onnx.save(onnx.version_converter.convert_version(onnx.load(model), 13), recent)
        for name, text in (("onnxruntime", PEER), ("nncf", NNCF)):
            with open(f"{folder}/peer_{name}.py", "w", encoding="utf-8") as f:
                f.write(text)
        snap, out = f"{folder}/snap", f"{folder}/peer.onnx"
        for ours, tool, theirs in PAIRS:
            python = nncf if tool == "nncf" else sys.executable
            if not python:
                print("nncf        not installed: not measured")
                continue
            (t, m), (tp, mp) = race(
                [qg, "quantize", model, "-b", "trt-int8", "-d", calib, "-o", snap,
                 "--observer", ours],
                [python, f"{folder}/peer_{tool}.py", recent, calib, out, entry.name, theirs],
                rounds)
            print(f"{ours:11} qg {t:7.3f} s {m:7.1f} MB   {tool} {theirs} {tp:7.3f} s "
                  f"{mp:7.1f} MB   ratio: {tp / t:6.1f} times faster, {mp / m:5.1f} times "
                  "less memory", flush=True)
            real = outputs(model, data[:8], entry.name)
            report = json.loads(subprocess.run(
                [qg, "analyse", snap, "--by", "graph", "-d", calib, "-n", "8", "--json"],
                check=True, capture_output=True, text=True).stdout)
            for i, (a, b) in enumerate(zip((row["error"] for row in report["errors"]),
                                           noise(real, outputs(out, data[:8],
                                                               entry.name)))):
                print(f"{'':11} output {i}: noise to signal {a:.3e}, {tool} {b:.3e}")


def alone(build, model, samples, few):
    """qg's memory must not grow with the number of samples."""
    for observer in ("minmax", "percentile", "kl"):
        peaks = []
        for n in (few, samples):
            with tempfile.TemporaryDirectory() as folder:
                _, peak = timed([f"{build}/qg", "quantize", model, "-b", "trt-int8", "-d",
                                 f"random:{n}", "-o", f"{folder}/s", "--observer", observer])
            peaks.append(peak)
        print(f"{observer:11} qg alone: {peaks[0]:.1f} MB with {few} samples, {peaks[1]:.1f} "
              f"MB with {samples}", flush=True)


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    model = sys.argv[2] if len(sys.argv) > 2 else "../shared/models/ultraface-rfb-320.onnx"
    samples = sys.argv[3] if len(sys.argv) > 3 else "32"
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    if not os.path.exists(model):
        print(f"skipped: {model} is not there")
        return
    nncf = nncf_python()
    for n in samples.split(","):
        bench(build, model, int(n), rounds, nncf)
        alone(build, model, 16 * int(n), int(n))


if __name__ == "__main__":
    main()
