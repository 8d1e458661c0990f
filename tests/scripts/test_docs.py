#!/usr/bin/env python3
"""Every complete C program in docs/*.md is compiled, run, and must print what the page
says: a ```c block with a main(), followed by a ```text block."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PAIR = re.compile(r"^```c\n(.*?)^```\n(.*?)(?=^```c\n|\Z)", re.M | re.S)
OUTPUT = re.compile(r"^```text\n(.*?)^```", re.M | re.S)
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-I."]


def examples(page):
    """(line, program, expected output) of each program on the page."""
    text = page.read_text()
    for m in PAIR.finditer(text):
        if "int main(" in m[1]:
            output = OUTPUT.search(m[2])
            line = text.count("\n", 0, m.start()) + 2
            yield line, m[1], output[1] if output else None


def run(program, library, folder):
    source, binary = folder / "example.c", folder / "example"
    source.write_text(program)
    cc = subprocess.run(["cc", *FLAGS, str(source), library, "-lm", "-lpthread", "-o",
                         str(binary)], capture_output=True, text=True)
    if cc.returncode:
        return cc.stderr
    out = subprocess.run([str(binary)], capture_output=True, text=True, timeout=60)
    return out.stdout + (f"exit {out.returncode}\n" if out.returncode else "")


def main():
    library = os.path.join(os.environ.get("QG_BUILD", "build"), "libqg.a")
    if not shutil.which("cc"):
        print("no C compiler")
        return 77
    count = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for page in sorted(pathlib.Path("docs").glob("*.md")):
            for line, program, expected in examples(page):
                count += 1
                got = run(program, library, pathlib.Path(folder))
                if got != expected:
                    bad += 1
                    print(f"{page}:{line}: expected\n{expected}got\n{got}")
    print(f"{count - bad} of {count} examples print what the page says")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
