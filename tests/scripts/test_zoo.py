#!/usr/bin/env python3
"""A part of the zoo of published architectures: float as ONNX Runtime's, no silence, finite
noise under six backends, the export node by node, OpenVINO.  All of it, with the meaning of
the columns: tests/zoo/run.py."""
import subprocess
import sys

sys.exit(subprocess.run([sys.executable, "tests/zoo/run.py", "--sample"],
                        check=False).returncode)
