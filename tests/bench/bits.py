#!/usr/bin/env python3
"""Accuracy at 8, 4 and 3 bits for weights and activations: two observers, and what qg tune
makes of the second, on samples that neither calibration nor tuning has seen.

    bits.py [--write]      with QG=path of `qg`, from the project's root

--write replaces the table of docs/learning.md.  The second network is of ../shared and left
out when that is absent."""
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
from command import answer, qg

SHARED = pathlib.Path("../shared")
PAGE = pathlib.Path("docs/learning.md")
BEGIN, END = "<!-- tests/bench/bits.py -->\n", "<!-- end -->\n"
METHODS = ("adaround", "lsq", "adaquant", "brecq")


def networks(root):
    """name: (model, calibration samples, test samples, labels)"""
    data = {n: f"configs/data/digits_{n}.npy" for n in ("calib", "test", "labels")}
    yield "digits", "configs/models/digits.onnx", data["calib"], data["test"], data["labels"]
    model, samples = SHARED / "models/kws_float.onnx", SHARED / "data/kws_dev.npz"
    if model.exists() and samples.exists():
        whole = np.load(samples)
        parts = {"calib": whole["input_1"][:100], "test": whole["input_1"][100:],
                 "labels": whole["labels"][100:].astype("int64")}
        for name, values in parts.items():
            np.save(root / f"kws_{name}.npy", values)
        yield ("kws", model, *(root / f"kws_{name}.npy" for name in parts))


def top1(snapshot, test, labels, what="simulated_top1"):
    return 100 * answer("evaluate", snapshot, "-d", test, "--labels", labels)[what]


def quantized(network, bits, observer, out):
    _, model, calib, _, _ = network
    most = 2 ** (bits - 1) - 1
    words = [word for slot in ("in0", "in1", "out0") for word in (
        "--set", f"node=* slot={slot} bits={bits} range=[-{most},{most}]")]
    qg("quantize", model, "-b", "trt-int8", "-d", calib, "--observer", observer, *words,
       "-o", out)


def row(root, network, bits):
    """Cells of a line; where a tuning gains nothing its output is the start."""
    name, _, calib, test, labels = network
    cells = []
    for observer in ("minmax", "mse"):
        start = root / f"{name}{bits}{observer}"
        quantized(network, bits, observer, start)
        cells.append(top1(start, test, labels))
    for method in METHODS:
        out = root / f"{name}{bits}{method}"
        qg("tune", start, "-d", calib, "--method", method, "-o", out)
        cells.append(top1(out, test, labels))
    floats = top1(start, test, labels, "float_top1")
    return f"| {name} | {bits} | {floats:.1f} | " + " | ".join(f"{c:.1f}" for c in cells) + " |\n"


def main():
    table = "| network | bits | float | minmax | mse | " + " | ".join(METHODS) + " |\n"
    table += "|---|--:" + "|--:" * (3 + len(METHODS)) + "|\n"
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        for network in networks(root):
            for bits in (8, 4, 3):
                table += row(root, network, bits)
    print(table, end="")
    if "--write" in sys.argv:
        page = PAGE.read_text()
        begin = page.index(BEGIN) + len(BEGIN)
        PAGE.write_text(page[:begin] + "\n" + table + "\n" + page[page.index(END, begin):])


if __name__ == "__main__":
    main()
