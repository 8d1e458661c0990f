#!/usr/bin/env python3
"""Every complete C program in docs/*.md is compiled, run, and must print the text of
the page: a ```c block with a main(), followed by a ```text block.  docs/arrays.md
has one for every header of qg_arrays.h.  The example of qg.h itself runs on the demo
model and must write a snapshot.  A page with ```sh blocks is a session: its files
(```yaml NAME) are written, its ```sh blocks run, and print the ```text behind them.
The record in README.md is that of tools/demo.sh.

    test_docs.py                    all pages, against the build in QG_BUILD
    test_docs.py PAGE FLAG...       one page with these flags of the compiler"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PAIR = re.compile(r"^```c\n(.*?)^```\n(.*?)(?=^```c\n|\Z)", re.M | re.S)
OUTPUT = re.compile(r"^```text\n(.*?)^```", re.M | re.S)
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```\n", re.M | re.S)
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
ARRAYS = pathlib.Path("docs/arrays.md")


def examples(page):
    """(line, program, expected output) of each program on the page."""
    text = page.read_text()
    for m in PAIR.finditer(text):
        if "int main(" in m[1]:
            output = OUTPUT.search(m[2])
            line = text.count("\n", 0, m.start()) + 2
            yield line, m[1], output[1] if output else None


def untold_headers():
    """Headers of qg_arrays.h without a section that has a program."""
    public = pathlib.Path("engine/api/qg_arrays.h").read_text()
    sections = re.split(r"^## ", ARRAYS.read_text(), flags=re.M)
    told = " ".join(s.partition("\n")[0] for s in sections if "int main(" in s)
    return [h for h in re.findall(r'#include "engine/\w+/([^"]+)"', public)
            if h not in re.split(r"[ ,]+", told)]


def header_example():
    """The indented lines of qg.h's first comment, as a program."""
    comment = pathlib.Path("engine/api/qg.h").read_text().partition("*/")[0]
    lines = re.findall(r"^ \*     (\S.*)$", comment, re.M)
    return "\n".join(["#include <stdio.h>", "#include <qg.h>", "int main(void) {",
                      *lines, "return s != QG_OK; }", ""])


def header_complaint(flags, folder):
    """The error in that example, or None."""
    shutil.copy("configs/models/digits.onnx", folder / "model.onnx")
    shutil.copy("configs/data/digits_calib.npy", folder / "calib.npy")
    got = run(header_example(), flags, folder)
    if got or not (folder / "snapshot" / "quant.json").exists():
        return f"engine/api/qg.h: its example wrote no snapshot:\n{got}"
    return None


def readme_complaints(folder):
    """Lines of the first block of README.md that `qg explain` does not print; one may end
    in '...', also a scale, whose last digits depend on the kernels."""
    qg = os.environ.get("QG", "build/qg")
    subprocess.run([qg, "quantize", "configs/models/digits.onnx", "-b", "trt-int8", "-d",
                    "configs/data/digits_calib.npy", "-o", folder],
                   check=True, capture_output=True)
    printed = subprocess.run([qg, "explain", folder, "conv0.out0"], check=True, text=True,
                             capture_output=True).stdout
    block = pathlib.Path("README.md").read_text().split("```\n")[1]
    return [f"README.md: '{line.strip()}': `qg explain` does not print it"
            for line in block.splitlines() if line.removesuffix("...").rstrip() not in printed]


def run(program, flags, folder):
    source, binary = folder / "example.c", folder / "example"
    source.write_text(program)
    cc = subprocess.run(["cc", *FLAGS, str(source), *flags, "-o", str(binary)],
                        capture_output=True, text=True)
    if cc.returncode:
        return cc.stderr
    out = subprocess.run([str(binary)], capture_output=True, text=True, timeout=60,
                         cwd=folder)
    return out.stdout + (f"exit {out.returncode}\n" if out.returncode else "")


def session(page):
    """(number of commands run, errors) of a session page."""
    blocks = [m.groups() for m in BLOCK.finditer(page.read_text())]
    if not any(kind == "sh" for kind, _, _ in blocks):
        return 0, []
    path = os.path.dirname(os.path.abspath(os.environ.get("QG", "build/qg")))
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    count, wrong = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for name in "configs", "docs", "tools":
            os.symlink(os.path.abspath(name), f"{folder}/{name}")
        for (kind, name, text), after in zip(blocks, blocks[1:] + [("", "", "")]):
            if kind == "yaml" and name:
                pathlib.Path(folder, name).write_text(text)
            if kind != "sh":
                continue
            count += 1
            out = subprocess.run(["sh", "-ec", text], cwd=folder, env=env, text=True,
                                 capture_output=True, timeout=60)
            if out.returncode or (after[0] == "text" and out.stdout != after[2]):
                wrong.append(f"{page}: {text.strip()}: got\n{out.stdout}{out.stderr}")
    return count, wrong


def main():
    build = os.environ.get("QG_BUILD", "build")
    pages = [pathlib.Path(p) for p in sys.argv[1:2]] or \
        sorted(pathlib.Path("docs").glob("*.md"))
    build = os.path.abspath(build)
    flags = sys.argv[2:] or ["-I.", f"-I{build}/include/quantgraph", f"-L{build}", f"-Wl,-rpath,{build}",
                             "-lqg", "-lm"]
    if not shutil.which("cc"):
        print("no C compiler")
        return 77
    count = bad = 0
    complaints = [f"{ARRAYS}: no section with a program for {h}"
                  for h in untold_headers()]
    for page in pages:
        ran, wrong = session(page)
        count, bad, complaints = count + ran, bad + len(wrong), complaints + wrong
    with tempfile.TemporaryDirectory() as folder:
        for page in pages:
            for line, program, expected in examples(page):
                count += 1
                got = run(program, flags, pathlib.Path(folder))
                if got != expected:
                    bad += 1
                    print(f"{page}:{line}: expected\n{expected}got\n{got}")
        if not sys.argv[1:]:
            complaints += filter(None, [header_complaint(flags, pathlib.Path(folder))])
            complaints += readme_complaints(pathlib.Path(folder) / "readme")
    print(f"{count - bad} of {count} examples print what the page says", *complaints,
          sep="\n")
    return 1 if bad or complaints or not count else 0


if __name__ == "__main__":
    sys.exit(main())
