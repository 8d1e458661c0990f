#!/usr/bin/env python3
"""Format model-explorer: graph and nodes of every file have the ids of Model Explorer's ONNX
adapter, as tests/peers/overlay_ids.py took them from the package, also for nodes without a
name, with the same name, and with scopes, blanks and other scripts in it."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

from overlays import MODELS, VECTOR, overlays

QG = os.environ.get("QG", "build/qg")
COLOUR = {"bits": "#f7f7f7", "nsr": "#f46d43"}  # of the last threshold, by kind


def differences(model, expected, folder):
    """Lines about files of this model."""
    _, files = overlays(model, folder)
    if len(files) != 4:
        yield f"{model}: {len(files)} files, expected 4"
    for file in files:
        (graph, data), = json.loads(file.read_text()).items()
        known, ours = set(expected["nodes"]), data["results"]
        if graph != expected["graph"]:
            yield f"{model}: {file.name}: graph {graph!r}, expected {expected['graph']!r}"
        missing = set() if ".nsr." in file.name else known - set(ours)
        if set(ours) - known or missing:
            yield f"{model}: {file.name}: {sorted(set(ours) - known)} have no node, " \
                  f"{sorted(missing)} have no value"
        words = [r["value"] for r in ours.values()]
        last = data.get("thresholds", [{}])[-1].get("bgColor")
        if last != COLOUR.get(file.name.split(".")[-2]):
            yield f"{model}: {file.name}: the last colour is {last}"
        if file.name == "overlay.json":
            if not all(w == "none" or w.isupper() for w in words):
                yield f"{model}: {file.name}: {set(words)}, expected states"
        elif not all(math.isfinite(w) for w in words):
            yield f"{model}: {file.name}: a value is not finite"


def other_analysis(folder):
    """An analysis of another network is refused."""
    files = folder / "s", folder / "other.json", folder / "me.json"
    subprocess.run([QG, "quantize", "configs/models/digits.onnx", "-b", "trt-int8", "-d",
                    "configs/data/digits_calib.npy", "-n", "4", "-o", files[0]], check=True,
                   stdout=subprocess.DEVNULL)
    files[1].write_text('{"metric": "snr", "errors": [{"name": "none of it", "error": 0.1}]}')
    run = subprocess.run([QG, "export", files[0], "--format", "model-explorer", "--analysis",
                          files[1], "-o", files[2]], capture_output=True, text=True)
    if run.returncode != 1 or files[2].exists() or \
            "names no node of the snapshot, expected the analysis of this network" not in run.stderr:
        yield f"another analysis: {run.returncode} {run.stderr}"


def main():
    vector, bad = json.loads(pathlib.Path(VECTOR).read_text()), 0
    with tempfile.TemporaryDirectory() as folder:
        for line in other_analysis(pathlib.Path(folder)):
            print(line)
            bad += 1
        for i, model in enumerate(MODELS):
            for line in differences(model, vector[model], pathlib.Path(folder) / str(i)):
                print(line)
                bad += 1
    print(f"{len(MODELS)} models, {bad} differences")
    return bad > 0


sys.exit(main())
