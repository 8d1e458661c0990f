#!/usr/bin/env python3
"""`qg export --quirks ppq` against PPQ's exporters, on PPQ's own decisions:
tests/data/ppq_exports, which PPQ 0.6.6 made (make.py there).  Contents are equal as
JSON, or word by word as numbers; hashes are compared as names; of nxp-onnx, the scalars
that are initializers and inputs."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import onnx
    from onnx import numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
DATA = pathlib.Path("tests/data/ppq_exports")
PLATFORM = {"tensorrt-json": "TRT_INT8", "ppl-json": "PPL_CUDA_INT8",
            "snpe-json": "SNPE_INT8", "qnn-encodings": "QNN_DSP_INT8",
            "ncnn-table": "NCNN_INT8", "mnn-json": "MNN_INT8",
            "ascend-record": "ASC_INT8", "tengine-scale": "TENGINE_INT8",
            "nxp-onnx": "NXP_INT8"}
LEAST = {"mnn-json": 3}  # on others PPQ's exporter raises an exception (D45, D71)


def qg(*words):
    run = subprocess.run([QG, *map(str, words)], capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {run.stderr}")


def number(word):
    try:
        return float(word)
    except ValueError:
        return word


def renamed(tree):
    """hash and dominator as the first entry, by name, that has them."""
    names, entries = {}, sorted(tree.get("quant_info", {}).items())
    for key in ("hash", "dominator"):
        for _, entry in entries:
            entry[key] = names.setdefault(entry[key], len(names))
    return tree


def hide(snapshot, platform):
    """Sets what PPQ's file of decisions lacks: limits of Clip and values of Pad are
    INTERNAL (ppq/quantization/optim/parameters.py:69-70), for DSPs biases too
    (ppq/quantization/quantizer/DSPQuantizer.py:50)."""
    path = pathlib.Path(snapshot, "quant.json")
    quant = json.loads(path.read_text())
    ops = {n["name"]: n["op"] for n in quant["nodes"]}
    for t in quant["tqcs"]:
        op, slot = ops[t["node"]], t["slot"]
        if (op in ("Clip", "Pad") and slot.startswith("in") and slot != "in0") or \
                ("DSP" in platform and op in ("Conv", "Gemm") and slot == "in2"):
            t["visibility"] = "internal"
    path.write_text(json.dumps(quant))


def limits(path):
    graph = onnx.load(path).graph
    listed = {i.name for i in graph.input}
    return {i.name: float(numpy_helper.to_array(i))
            for i in graph.initializer if i.name in listed}


def content(path):
    if path.suffix == ".onnx":
        return limits(path)
    if path.suffix == ".json":
        return renamed(json.loads(path.read_text()))
    lines = [[number(word) for word in line.split()] for line in path.open()]
    return sorted(lines) if path.suffix == ".scale" else lines


def first_difference(ours, theirs, path=""):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys(), key=str):
            if ours.get(key) != theirs.get(key):
                return first_difference(ours.get(key), theirs.get(key), f"{path}/{key}")
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (a, b) in enumerate(zip(ours, theirs)):
            if a != b:
                return first_difference(a, b, f"{path}/{i}")
    return f"{path}: {ours}, PPQ has {theirs}"


def main():
    count, bad = dict.fromkeys(PLATFORM, 0), 0
    for theirs in sorted(DATA.glob("*.*-*")):
        graph, form, _ = theirs.name.split(".")
        with tempfile.TemporaryDirectory() as folder:
            ours = pathlib.Path(folder, "x.onnx" if form == "nxp-onnx" else f"x{theirs.suffix}")
            qg("import", DATA / f"{graph}.{PLATFORM[form]}.json", "--format", "ppq-json",
               "--model", DATA / f"{graph}.onnx", "-o", f"{folder}/s")
            hide(f"{folder}/s", PLATFORM[form])
            qg("export", f"{folder}/s", "--format", form, "--quirks", "ppq", "-o", ours)
            count[form] += 1
            if content(ours) != content(theirs):
                print(f"{theirs.name}: {first_difference(content(ours), content(theirs))}")
                bad += 1
    print(f"{sum(count.values())} files, {bad} differ:", count)
    short = [f for f, n in count.items() if n < LEAST.get(f, 6)]
    if short:
        print("too few files of", *short)
    return bad > 0 or short != []


if __name__ == "__main__":
    sys.exit(main())
