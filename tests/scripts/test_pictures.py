#!/usr/bin/env python3
"""The pictures in docs/ that scripts draw from runs of qg are up to date."""
import os
import pathlib
import subprocess
import sys
import tempfile

PICTURES = {"docs/conv-relu-add.svg": "tools/dev/states_svg.py"}


def main():
    qg = os.environ.get("QG", "build/qg")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for picture, script in PICTURES.items():
            drawn = pathlib.Path(folder, "drawn.svg")
            subprocess.run([sys.executable, script, qg, drawn], check=True)
            if drawn.read_bytes() != pathlib.Path(picture).read_bytes():
                print(f"{picture}: not as {script} {qg} {picture} draws it")
                wrong += 1
    print(f"{len(PICTURES) - wrong} of {len(PICTURES)} pictures are up to date")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
