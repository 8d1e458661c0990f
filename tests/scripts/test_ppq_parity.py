#!/usr/bin/env python3
"""With PPQ's quirks on, every TQC of its goldens comes out as PPQ has it: the selection
beside the parity program, and all of ../shared when that is there.  Where passes change
weights and biases (equalization, bias correction), the outputs do, too.  The networks in
tests/backends/differences are those on which we once differed."""
import os
import subprocess
import sys

try:
    import numpy  # noqa: F401 -- ppq_parity needs them
    import onnx  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FOLDERS = ["tests/backends/goldens", "../shared/goldens/ppq"]
DIFFERENCES = "tests/backends/differences"
OUTPUTS = ["--variants", "--outputs", "--variant", "bias-correct", "--variant",
           "equalize-2", "--variant", "factory"]


def parity(folder, options):
    return subprocess.run([sys.executable, "tests/backends/ppq_parity", folder, "-n", "3",
                           *options], check=False).returncode != 0


def main():
    failed = parity(DIFFERENCES, ["--variants"])
    for folder in FOLDERS:
        if os.path.isdir(folder):
            print(folder, flush=True)
            failed += parity(folder, []) + parity(folder, OUTPUTS)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
