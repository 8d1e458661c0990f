#!/usr/bin/env python3
"""Whether MNN takes the names and scales of format mnn-json.

The ONNX file that the export writes beside the scales is converted to MNN and dumped as
JSON.  Each name of our file must be one that an operator of the dump has.  The scales are put
into `extraTensorDescribe` of the dump as symmetric quantInfo, which is converted back and
dumped again: MNN must have kept every one of them.

MNN has a virtual environment of its own: python3 -m venv DIR && DIR/bin/pip install MNN==3.6.1.
Its Python package MNN.tools is never imported, since it installs packages and contacts a
server; the extension module _tools is.

usage: MNN_PYTHON=DIR/bin/python tests/peers/mnn_load.py [MODEL.onnx DATA.npy]"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

QG = os.path.abspath(os.environ.get("QG", "build/qg"))
CONVERT = "import sys, _tools; _tools.mnnconvert(['MNNConvert', *sys.argv[1:]])"


def convert(folder, *words):
    run = subprocess.run([os.environ["MNN_PYTHON"], "-c", CONVERT, *map(str, words)], cwd=folder,
                         capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"mnnconvert {words}: {run.stdout[-300:]} {run.stderr[-300:]}")


def to_json(folder, model, name):
    convert(folder, "-f", "MNN", "--modelFile", model, "--JsonFile", name)
    return json.loads((folder / name).read_text())


def export(folder, model, data):
    """Our file, without the shape: {(value, "input" or "output"): scale}."""
    for words in (["quantize", model, "-b", "mnn-int8", "-d", data, "-n", "16", "-o",
                   folder / "snapshot"],
                  ["export", folder / "snapshot", "--format", "mnn-json", "-o",
                   folder / "ours.json"]):
        subprocess.run([QG, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    ours = json.loads((folder / "ours.json").read_text())
    return {tuple(k.rsplit(" ", 1)): v for k, v in ours.items() if k != "shape"}


def main():
    if "MNN_PYTHON" not in os.environ:
        print("skipped: MNN_PYTHON is not set")
        return 77
    model, data = [os.path.abspath(p) for p in sys.argv[1:]] or [
        os.path.abspath(f"configs/{p}") for p in ("models/digits.onnx", "data/digits_calib.npy")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ours = export(folder, model, data)
        convert(folder, "-f", "ONNX", "--modelFile", "ours.onnx", "--MNNModel", "a.mnn", "--bizCode",
                "x", "--keepInputFormat")
        dump = to_json(folder, "a.mnn", "a.json")
        made = {op["name"]: op for op in dump["oplists"] if "name" in op}
        unknown = sorted({value for value, _ in ours} - set(made))
        want = {}
        for (value, side), scale in ours.items():
            if value in made:
                end = "inputIndexes" if side.startswith("input") else "outputIndexes"
                want.setdefault(made[value][end][0], set()).add(scale)
        torn = sorted(i for i, scales in want.items() if len(scales) > 1)
        dump["extraTensorDescribe"] = [
            {"index": i, "quantInfo": {"scale": min(scales), "zero": 0.0, "min": -127.0,
                                       "max": 127.0, "type": "DT_INT8"}}
            for i, scales in sorted(want.items())]
        (folder / "b.json").write_text(json.dumps(dump))
        convert(folder, "-f", "JSON", "--modelFile", "b.json", "--MNNModel", "b.mnn", "--bizCode",
                "x")
        again = to_json(folder, "b.mnn", "b2.json").get("extraTensorDescribe") or []
        kept = {e.get("index", 0): e["quantInfo"]["scale"] for e in again if "quantInfo" in e}
    # the dump prints six decimals, and leaves out an index of 0
    lost = [i for i, s in want.items() if abs(kept.get(i, 0) - min(s)) > 1e-6]
    print(f"{len(ours)} entries, {len(unknown)} of a name MNN lacks {unknown[:4]}, "
          f"{len(want)} tensors, {len(torn)} with two scales {torn[:4]}, {len(lost)} lost {lost[:4]}")
    return bool(not ours or unknown or torn or lost)


if __name__ == "__main__":
    sys.exit(main())
