#!/usr/bin/env python3
"""Mode integer is ONNX Runtime's arithmetic on the demo model: the quick part of
tests/peers/ort_integer.py, in which every code must be equal.  With the arithmetic of another
runtime it must not be."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
try:
    import ort_integer
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def main():
    bad = ort_integer.main(["--quick"])
    os.environ["PROFILE"] = "tflite-reference"
    if not ort_integer.main(["--quick"]):
        print("FAILED: the codes of tflite-reference are equal as well")
        bad = True
    return bad


if __name__ == "__main__":
    sys.exit(main())
