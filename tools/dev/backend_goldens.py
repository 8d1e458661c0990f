#!/usr/bin/env python3
"""Rewrites tests/backends/BACKEND.json from the current output of their test.

usage: tools/dev/backend_goldens.py [build/tests/test_backend_golden]

Review the difference before committing it: every line is a decision of a backend.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    test = sys.argv[1] if len(sys.argv) > 1 else "build/tests/test_backend_golden"
    said = subprocess.run([test], cwd=ROOT, text=True, capture_output=True).stderr
    found = re.findall(r"^(tests/backends/\S+\.json) differs; now it is\n(.*?\n\]\}\n)",
                       said, re.MULTILINE | re.DOTALL)
    for path, text in found:
        (ROOT / path).write_text(text)
        print(path)
    print(f"{len(found)} files written")


main()
