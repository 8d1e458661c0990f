#!/usr/bin/env python3
"""The stand-ins below ../shared against the outputs stored beside them: the largest
difference is at most 1e-4 of the largest reference value.  The runtime does not matter
here: only `qg run` is needed."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
FOLDER = "../shared/models/standins"


def main():
    if not os.path.isdir(FOLDER):
        print(f"skipped: {FOLDER} is not there")
        return 77
    bad = 0
    for name in sorted(n[:-5] for n in os.listdir(FOLDER) if n.endswith(".onnx")):
        stored = np.load(f"{FOLDER}/{name}.npz")
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([QG, "run", f"{FOLDER}/{name}.onnx", "-d",
                            f"{FOLDER}/{name}.npz", "-o", out],
                           check=True, stdout=subprocess.DEVNULL)
            for output in (f[:-4] for f in sorted(os.listdir(out))):
                want = stored[output]
                got = np.load(f"{out}/{output}.npy").reshape(want.shape)
                worst = float(np.abs(got - want).max() / np.abs(want).max())
                verdict = "ok" if worst <= 1e-4 else "FAILED"
                bad += verdict != "ok"
                print(f"{verdict:8} {name}: {output}: {worst:.2e} of the largest value")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
