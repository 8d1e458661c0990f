#!/usr/bin/env python3
"""qg quantize beside onnxruntime's quantize_static on the same model and samples: whole
command, wall time and peak memory, and the noise-to-signal ratio of every output.

    tests/bench/quantize.py BUILD [MODEL.onnx] [SAMPLES] [ROUNDS]

Each tool runs in a process of its own, in turns; the best time of each counts.  Figures
are printed, nothing is asserted."""
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
    """Mean over samples of sum d^2 / sum r^2, per output: PPQ's snr."""
    per_sample = [[float(((a - b) ** 2).sum() / ((a ** 2).sum() + 1e-7))
                   for a, b in zip(r, q)] for r, q in zip(real, rounded)]
    return np.mean(per_sample, axis=0)


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    model = sys.argv[2] if len(sys.argv) > 2 else "../shared/models/ultraface-rfb-320.onnx"
    samples = int(sys.argv[3]) if len(sys.argv) > 3 else 32
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    if not os.path.exists(model):
        print(f"skipped: {model} is not there")
        return
    entry = onnx.load(model).graph.input[0]
    shape = [d.dim_value or 1 for d in entry.type.tensor_type.shape.dim]
    qg = f"{build}/qg"
    with tempfile.TemporaryDirectory() as folder:
        calib, peer = f"{folder}/calib.npy", f"{folder}/peer.py"
        data = np.random.RandomState(0).rand(samples, *shape).astype("float32")
        np.save(calib, data)
        recent = f"{folder}/recent.onnx"  # per-channel Q/DQ needs opset 13
        onnx.save(onnx.version_converter.convert_version(onnx.load(model), 13), recent)
        with open(peer, "w", encoding="utf-8") as f:
            f.write(PEER)
        snap, peer_out = f"{folder}/snap", f"{folder}/peer.onnx"
        rows = {}
        for ours, theirs in (("minmax", "MinMax"), ("percentile", "Percentile")):
            mine = [qg, "quantize", model, "-b", "trt-int8", "-d", calib, "-o", snap,
                    "--observer", ours]
            other = [sys.executable, peer, recent, calib, peer_out, entry.name, theirs]
            best = {"qg": [1e9, 0], "ort": [1e9, 0]}
            for _ in range(rounds):
                for who, command in (("qg", mine), ("ort", other)):
                    seconds, megabytes = timed(command)
                    best[who] = [min(best[who][0], seconds), max(best[who][1], megabytes)]
            real = outputs(model, data[:8], entry.name)
            peer_noise = noise(real, outputs(peer_out, data[:8], entry.name))
            report = json.loads(subprocess.run(
                [qg, "analyse", snap, "--by", "graph", "-d", calib, "-n", "8", "--json"],
                check=True, capture_output=True, text=True).stdout)
            own_noise = [row["error"] for row in report["errors"]]
            rows[ours] = (best, own_noise, peer_noise)
    print(f"{os.path.basename(model)}, {samples} samples, best of {rounds} rounds in turns")
    for name, (best, own, other) in rows.items():
        (t, m), (tp, mp) = best["qg"], best["ort"]
        print(f"{name:11} qg {t:7.3f} s {m:7.1f} MB   onnxruntime {tp:7.3f} s {mp:7.1f} MB"
              f"   ratio: {tp / t:6.1f} times faster, {mp / m:5.1f} times less memory")
        for i, (a, b) in enumerate(zip(own, other)):
            print(f"{'':11} output {i}: noise to signal {a:.3e}, onnxruntime {b:.3e}")


if __name__ == "__main__":
    main()
