#!/usr/bin/env python3
"""What `qg tune` without options leaves of the noise where the weights have 4 bits: for each
network, set of samples and output the noise over signal before and after, on samples that
neither has seen, and their ratio.

usage: tests/peers/tune_defaults.py [--sets N] [NETWORK...]

With QG=path of `qg`, from the project's root; networks and samples are those of ppq_tune.py.
Exit status 1 when more than half is left somewhere."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import ppq_tune as base

WEIGHTS = "slot=in1 bits=4 range=[-7,7]"


def measured(name, number):
    """output -> noise before, after."""
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        model = onnx.load(base.NETWORKS[name])
        data = base.samples_of(model, number)
        path = root / "model.onnx"
        onnx.save(model, path)
        for part, x in data.items():
            np.save(root / f"{part}.npy", x[:, 0])
        narrow = [w for n in base.with_weights(path) for w in ("--set", f"node={n} {WEIGHTS}")]
        teach = ["-d", root / "teach.npy"]
        for words in (["quantize", path, "-b", "trt-int8", *teach, *narrow, "-o", root / "before"],
                      ["tune", root / "before", *teach, "-o", root / "after"]):
            subprocess.run([base.QG, *words], check=True, capture_output=True)
        want = base.floats(str(path), data["test"])
        got = [base.outputs(root, root / s, want) for s in ("before", "after")]
        return {out: [base.ratio(g[out], real) for g in got] for out, real in want.items()}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("networks", nargs="*")
    p.add_argument("--sets", type=int, default=3)
    a = p.parse_args()
    worst = 0
    print("| network | set | output | before | after | left |")
    print("|---|--:|---|--:|--:|--:|")
    for name in a.networks or base.DEFAULT:
        for number in range(a.sets):
            for out, (before, after) in measured(name, number).items():
                worst = max(worst, after / before)
                print(f"| {name} | {number + 1} | {out} | {before:.3g} | {after:.3g} | "
                      f"{after / before:.3f} |", flush=True)
    return worst > 0.5


if __name__ == "__main__":
    sys.exit(main())
