#!/usr/bin/env python3
"""qg analyse --by cause on six networks and several backends: nothing is left when all
causes are off, rows sum to the error that --by graph measures, and a place costs what it
costs to disable it in the snapshot."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx  # noqa: F401, needed by the zoo
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "zoo"))
import detection  # noqa: F401, registers its networks
import graph
import segmentation  # noqa: F401
import sequence  # noqa: F401
import vision  # noqa: F401

from command import answer, qg

MODEL, DATA = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
ZOO = {"ds_cnn": "tflite-int8", "mobilenet_v3": "openvino-int8", "unet": "trt-int8",
       "yolo_v3_tiny": "ncnn-int8", "efficientnet_lite": "ort-int8"}
PLACES = {"weights", "activations", "bias"}
ROWS = 7  # of a budget: three causes, three pairs, all


def check(snap, data, what):
    """The rows of both budgets by cause."""
    report = answer("analyse", snap, "-d", data, "--by", "cause")
    outputs = answer("analyse", snap, "-d", data, "--by", "graph")["errors"]
    total = max(r["error"] for r in outputs)
    assert report["error"] == total > 0, (what, report["error"], total)
    assert {r["name"] for r in outputs if r["error"] == total} >= {report["output"]}, what
    assert report["left"] == 0, (what, report["left"])
    budgets = {}
    for row in report["causes"]:
        budgets.setdefault(row["budget"], {})[row["cause"]] = row
    assert budgets.keys() == {"place", "mechanism"}, what
    for name, rows in budgets.items():
        told = rows.pop("sum")
        assert len(rows) == ROWS, (what, name)
        added = sum(r["removes"] for r in rows.values())
        assert abs(added - total) <= 0.01 * total, (what, name, added, total)
        assert abs(told["removes"] - added) <= 1e-9 * total, (what, name)
        assert abs(told["share"] - 1) < 1e-9, (what, name)
    return report, budgets


def test_switch(root, snap, report, places):
    """Biases, and all activations, off in a copy of the snapshot."""
    off = root / "off"
    qg("switch", snap, "--set", "slot=bias state=dequantized", "-o", off)
    without = {r["name"]: r["error"] for r in answer("analyse", off, "-d", DATA)["errors"]}
    expected = report["error"] - without[report["output"]]
    assert abs(places["bias"]["removes"] - expected) <= 1e-12, (places["bias"], expected)
    qg("switch", snap, "--set", "constant=no state=dequantized", "-o", off)
    without = {r["name"]: r["error"] for r in answer("analyse", off, "-d", DATA)["errors"]}
    expected = report["error"] - without[report["output"]]
    assert abs(places["activations"]["removes"] - expected) <= 1e-12, expected


def test_clipping(root):
    """A range that cuts most of the data is clipping; a fine one is neither."""
    x = np.load(DATA)
    np.save(root / "small.npy", x[:4] * np.float32(0.2))
    snap = root / "clips"
    qg("quantize", MODEL, "-b", "trt-int8", "-d", root / "small.npy", "--observer", "minmax",
       "-o", snap)
    rows = check(snap, DATA, "small ranges")[1]["mechanism"]
    assert rows["clipping"]["share"] > 0.8 > rows["rounding"]["share"], rows


def main():
    folder = tempfile.TemporaryDirectory()
    root = pathlib.Path(folder.name)
    for backend in ("trt-int8", "trt-fp8", "openvino-int8", "tflite-int8"):
        snap = root / backend
        qg("quantize", MODEL, "-b", backend, "-d", DATA, "-o", snap)
        report, budgets = check(snap, DATA, f"digits, {backend}")
        if backend == "tflite-int8":
            test_switch(root, snap, report, budgets["place"])
    test_clipping(root)
    for name, backend in ZOO.items():
        graph.build(name).save(root / f"{name}.onnx", 2)  # and NAME.npz beside it
        qg("quantize", root / f"{name}.onnx", "-b", backend, "-d", root / f"{name}.npz", "-o",
           root / name)
        check(root / name, root / f"{name}.npz", f"{name}, {backend}")


main()
