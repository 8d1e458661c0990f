#!/usr/bin/env python3
"""Scales of ppq-minmax, -percentile, -kl, -mse and -isotone against what PPQ itself computed
(goldens: ../shared/goldens/ppq, a few of them in tests/data/ppq), with its recipe: eight batches
of numpy's RandomState(0).rand, activations seen with weights rounded first (--quirks ppq).
Endpoints whose state is the golden's are compared; tolerances are those of the goldens' README."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
HERE, SHARED = pathlib.Path("tests/data/ppq"), pathlib.Path("../shared")
GOLDENS = SHARED / "goldens" / "ppq"
STATES = ("ACTIVATED", "PASSIVE", "BAKED")
SMALL, NETWORK = 1e-6, 2e-5

# model file, shape, golden prefix, backend, tolerance, share of scales that must be compared
CASES = [
    (HERE / "percentile_big.onnx", (1, 3, 72, 72), HERE / "percentile_big.TRT_INT8", "trt-int8", SMALL),
    (HERE / "percentile_big.onnx", (1, 3, 72, 72), HERE / "percentile_big.PPL_DSP_INT8", "ppl-dsp-int8", SMALL),
    (GOLDENS / "models/swish.onnx", (1, 3, 8, 8), GOLDENS / "swish.TRT_INT8", "trt-int8", SMALL),
    (GOLDENS / "models/swish.onnx", (1, 3, 8, 8), GOLDENS / "swish.PPL_DSP_INT8", "ppl-dsp-int8", SMALL),
    (GOLDENS / "models/swish.onnx", (1, 3, 8, 8), GOLDENS / "swish.NXP_INT8", "nxp-int8", SMALL),
    (GOLDENS / "models/mnist-8-pads.onnx", (1, 1, 28, 28), GOLDENS / "mnist-8-pads.TRT_INT8", "trt-int8", SMALL),
    (SHARED / "models/ultraface-rfb-320.onnx", (1, 3, 240, 320), GOLDENS / "ultraface-rfb-320.TRT_INT8", "trt-int8", NETWORK),
    (SHARED / "models/ultraface-rfb-320.onnx", (1, 3, 240, 320), GOLDENS / "ultraface-rfb-320.PPL_DSP_INT8", "ppl-dsp-int8", NETWORK),
]
ALGORITHMS = {"minmax": ".minmax", "percentile": "", "kl": ".kl", "mse": ".mse", "isotone": ".isotone"}


def one_each(x):
    return x if isinstance(x, list) else [x]


def endpoints(golden, document):
    """(name, PPQ's record, ours) where both have a scale and the same state."""
    ours = {n["outputs"][0]: n for n in document["nodes"] if n["outputs"]}
    for name, op in golden["ops"].items():
        node = ours.get(op["outputs"][0])
        for side in ("in", "out"):
            for i, record in enumerate(op.get(side) or []):
                if not record or record.get("scale") is None or record["state"] not in STATES:
                    continue
                slots = node[side] if node else []
                tqc = document["tqcs"][slots[i]] if i < len(slots) and slots[i] is not None else None
                yield f"{name}.{side}{i}", record, tqc


def compare(path, document, tolerance):
    golden = json.loads(path.read_text())
    total = compared = 0
    worst, wrong = 0.0, []
    for name, record, tqc in endpoints(golden, document):
        total += 1
        if not tqc or tqc["state"] != record["state"] or not tqc["scale"]:
            continue
        want, offset = one_each(record["scale"]), one_each(record["offset"])
        if len(want) != len(tqc["scale"]):
            wrong.append(f"{name}: {len(tqc['scale'])} scales, expected {len(want)}")
            continue
        compared += 1
        apart = max(abs(a / b - 1) for a, b in zip(tqc["scale"], want))
        worst = max(worst, apart)
        offset = offset * len(want) if len(offset) == 1 else offset
        if apart > tolerance or [int(o) for o in offset] != tqc["offset"]:
            wrong.append(f"{name} {record['state']}: {tqc['scale'][0]!r}, expected {want[0]!r}")
    if compared < total * 0.9:
        wrong.append(f"only {compared} of {total} scales stand in the same state")
    print(f"{path.name:45} {compared - len(wrong):4} of {compared} agree, {total} in the golden, "
          f"worst {worst:.2g}")
    for line in wrong[:5]:
        print("    FAILED:", line)
    return len(wrong)


def main():
    bad = ran = left_out = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model, shape, prefix, backend, tolerance in CASES:
            if not model.exists():
                left_out += 1
                continue
            r = np.random.RandomState(0)
            np.save(folder / "x.npy", np.stack([r.rand(*shape).astype("float32") for _ in range(8)]))
            for algorithm, tail in ALGORITHMS.items():
                golden = prefix.with_name(prefix.name + tail + ".json")
                if not golden.exists():
                    continue
                done = subprocess.run(
                    [QG, "quantize", model, "-b", backend, "-d", folder / "x.npy", "--observer",
                     f"ppq-{algorithm}", "--quirks", "ppq", "-o", folder / "out"],
                    capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"FAILED: {golden.name}: {done.stderr}")
                    bad += 1
                    continue
                bad += compare(golden, json.loads((folder / "out/quant.json").read_text()), tolerance)
                ran += 1
    if left_out:
        print(f"skipped: {left_out} models of ../shared, which is not here")
    print(f"{ran} goldens, {bad} differences")
    return bad > 0 or ran == 0


if __name__ == "__main__":
    sys.exit(main())
