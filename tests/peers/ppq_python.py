"""The Pythons that have PPQ or AIMET, for scripts that compare with them."""
import os
import subprocess
import sys


def python_with(variable, imports):
    """What the variable names; the script is skipped where it cannot import these."""
    found = os.environ.get(variable)
    if not found or subprocess.run([found, "-c", imports], capture_output=True,
                                   check=False).returncode:
        print(f"skipped: {variable} names no Python that can {imports}")
        sys.exit(77)
    return found


def python_with_ppq():
    return python_with("PPQ_PYTHON", "import ppq, torch, onnx")
