#!/usr/bin/env python3
"""Format model-explorer: graph and nodes of every file have the ids of Model Explorer's ONNX
adapter, as tests/peers/overlay_ids.py took them from the package, also for nodes without a
name, with the same name, and with scopes, blanks and other scripts in it."""
import json
import math
import pathlib
import sys
import tempfile

from overlays import MODELS, VECTOR, overlays

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


def main():
    vector, bad = json.loads(pathlib.Path(VECTOR).read_text()), 0
    with tempfile.TemporaryDirectory() as folder:
        for i, model in enumerate(MODELS):
            for line in differences(model, vector[model], pathlib.Path(folder) / str(i)):
                print(line)
                bad += 1
    print(f"{len(MODELS)} models, {bad} differences")
    return bad > 0


sys.exit(main())
