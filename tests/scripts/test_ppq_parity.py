#!/usr/bin/env python3
"""With PPQ's quirks on, every TQC of its goldens comes out as PPQ has it: the selection
beside the parity program, and all of ../shared when that is there.  Where passes change
weights and biases (equalization, bias correction), the outputs do, too.  The networks in
tests/backends/differences are those on which we once differed; in its folder shapes, PPQ
quantizes the int64 arithmetic of shapes (D73), and exactly those records differ."""
import os
import subprocess
import sys

try:
    import numpy  # noqa: F401 -- ppq_parity needs them
    import onnx  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from command import EVERYTHING

FOLDERS = ["tests/backends/goldens", "../shared/goldens/ppq"]
DIFFERENCES = "tests/backends/differences"
OUTPUTS = ["--variants", "--outputs", "--variant", "bias-correct", "--variant",
           "equalize-2", "--variant", "factory"]


def parity(folder, options):
    return subprocess.run([sys.executable, "tests/backends/ppq_parity", folder, "-n", "3",
                           *options], check=False).returncode != 0


def shapes_stay_exact():
    done = subprocess.run([sys.executable, "tests/backends/ppq_parity",
                           f"{DIFFERENCES}/shapes", "--variants"],
                          check=False, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    expected = ("  by op type: Mul 12/24, Add 3/9 (all others agree)",
                "98 of 116 TQCs agree; 0 of 1 goldens agree fully, 0 without a project file")
    missing = [line for line in expected if line not in lines]
    for line in missing:
        print(f"{DIFFERENCES}/shapes: expected '{line.strip()}', got:\n{done.stdout}")
    return missing != []


def main():
    failed = parity(DIFFERENCES, ["--variants"]) + shapes_stay_exact()
    for folder in FOLDERS:
        if os.path.isdir(folder):
            print(folder, flush=True)
            failed += parity(folder, OUTPUTS)
            if EVERYTHING or folder == FOLDERS[0]:
                failed += parity(folder, [])
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
