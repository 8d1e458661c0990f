"""The Python that has PPQ, for scripts that compare with it."""
import os
import subprocess
import sys


def python_with_ppq():
    """PPQ_PYTHON; the script is skipped without it."""
    found = os.environ.get("PPQ_PYTHON")
    probe = [found, "-c", "import ppq, torch, onnx"]
    if not found or subprocess.run(probe, capture_output=True, check=False).returncode:
        print("skipped: PPQ_PYTHON names no Python that has ppq")
        sys.exit(77)
    return found
