"""What the suites of the Python package share: the package or 'skipped', and models."""
import os
import pathlib
import subprocess
import sys
import unittest

try:
    import numpy as np
    import quantgraph as qg
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.path.abspath(os.environ.get("QG", "build/qg"))
DIGITS = "configs/models/digits.onnx"
SHARED = pathlib.Path("../shared")
ULTRAFACE = SHARED / "models/ultraface-rfb-320.onnx"
KWS, KWS_DATA = SHARED / "models/kws_float.onnx", SHARED / "data/kws_dev.npz"
needs_shared = unittest.skipUnless(KWS.exists(), "../shared is not here")


def samples(n=16, shape=(1, 8, 8), seed=0):
    """n samples, in the shape of digits by default."""
    return np.random.default_rng(seed).random((n, *shape), np.float32)


def command(*words, status=0):
    """stdout of the command; its stderr when it is to fail."""
    run = subprocess.run([QG, *map(str, words)], capture_output=True, text=True)
    assert run.returncode == status, (words, run.returncode, run.stderr)
    return run.stderr if status else run.stdout


def main():
    """Run the tests of the script."""
    unittest.main(verbosity=1)
