#!/usr/bin/env python3
"""Quantizes random networks, each with a random platform and setting, with PPQ and with
qg: all TQCs agree.  Skipped without PPQ_PYTHON (tests/peers/ppq_goldens.py)."""
import subprocess
import sys
import tempfile

NETWORKS, SEED = "60", "1"


def main():
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([sys.executable, "tests/peers/ppq_goldens.py", folder, "--random",
                               NETWORKS, "--seed", SEED, "--compare"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
