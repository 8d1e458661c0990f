#!/usr/bin/env python3
"""Observing values changes no bits: `qg run` writes the same outputs with and without
--dump '*', of a raw model and of its snapshot, in float and simulated, with fast and
reference kernels.

Models in ../shared are skipped when they are absent; exit status 77 without numpy."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

SAMPLES = {"ultraface": 1}  # the reference kernels take a second for one
LONG_NAMES = {"kws"}  # longer than a file name may be, so --dump '*' refuses them
LARGE = {"yolo", "ultraface"}  # float only


def outputs(model, data, mode, kernels, folder, *dump):
    agreement.qg("run", model, "-d", data, "--mode", mode, "--kernels", kernels, "-o", folder,
                 *dump)
    return {f.name: np.load(f) for f in sorted(folder.glob("*.npy"))}


def differing(plain, watched):
    assert plain and plain.keys() == watched.keys()
    return sum((plain[n].view("u1") != watched[n].view("u1")).sum() for n in plain)


def main():
    bad = rows = 0
    for name, path, x in agreement.models():
        if name in LONG_NAMES:
            continue
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            data = work / "x.npy"
            np.save(data, x[:SAMPLES.get(name, 4)])
            runs = [(path, "float")]
            if name not in LARGE:
                agreement.qg("quantize", path, "-b", "trt-int8", "-d", data, "-o", work / "s")
                runs += [(work / "s", "float"), (work / "s", "simulate")]
            for model, mode in runs:
                for kernels in ("fast", "reference"):
                    plain = outputs(model, data, mode, kernels, work / "plain")
                    watched = outputs(model, data, mode, kernels, work / "watched", "--dump",
                                      "*")
                    rows += 1
                    count = differing(plain, watched)
                    if count:
                        total = sum(v.nbytes for v in plain.values())
                        print(f"FAILED {name} {pathlib.Path(model).name} {mode} {kernels}: "
                              f"{count} of {total} bytes differ when watched")
                        bad += 1
    print(f"{rows} runs, {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
