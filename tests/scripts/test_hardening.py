#!/usr/bin/env python3
"""Programs and libraries of the build search libraries in the folders of the system only
(an empty or relative entry of RUNPATH is the current directory), are position
independent with full RELRO and a stack that is not executable, and are compiled with
stack protectors, checked string functions and CET.  Files get the mode that umask leaves."""
import os
import pathlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile

from onnx import TensorProto, helper, save

QG = pathlib.Path(os.environ.get("QG", "build/qg"))
BUILD = pathlib.Path(os.environ.get("QG_BUILD", QG.parent))
complaints = []


def readelf(option, file):
    return subprocess.run(["readelf", option, "-W", str(file)], text=True,
                          capture_output=True, check=True).stdout


def expect(condition, text):
    if not condition:
        complaints.append(text)


def search_path(file):
    found = re.search(r"R(?:UN)?PATH.*\[(.*)\]", readelf("-d", file))
    entries = found[1].split(":") if found else []
    for entry in entries:
        expect(entry.startswith(("/", "$ORIGIN")),
               f"{file}: RUNPATH entry '{entry}', expected an absolute folder")


def hardened(file):
    dynamic, segments = readelf("-d", file), readelf("-l", file)
    expect("NOW" in dynamic, f"{file}: lazy binding, expected -z now")
    expect("GNU_RELRO" in segments, f"{file}: no RELRO segment")
    expect(re.search(r"GNU_STACK.* RW ", segments), f"{file}: executable stack")
    symbols = readelf("--dyn-syms", file)
    expect("__stack_chk_fail" in symbols, f"{file}: no stack protector")
    expect(re.search(r"__\w+_chk@", symbols), f"{file}: no checked string functions")
    if platform.machine() == "x86_64":
        landing(file)


def landing(file):
    """What a pointer may call starts with the instruction that CET wants there."""
    start = re.search(r"FUNC +GLOBAL +DEFAULT +\d+ (main|qg_\w+)\n",
                      readelf("--syms", file))
    expect(start, f"{file}: neither main nor a function qg_*")
    if not start:
        return
    code = subprocess.run(["objdump", "-d", f"--disassemble={start[1]}", str(file)],
                          text=True, capture_output=True, check=True).stdout
    expect(re.search(rf"<{start[1]}>:\n[^\n]*endbr64", code),
           f"{file}: {start[1]} does not begin with endbr64")


def modes():
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        for umask, file, folder in ((0o027, 0o640, 0o750), (0o022, 0o644, 0o755),
                                    (0o077, 0o600, 0o700)):
            out = work / f"{umask:o}" / "deep"
            command = f"umask {umask:o}; exec '{QG.resolve()}' run " \
                      f"configs/models/digits.onnx -d random:1 -o '{out}'"
            subprocess.run(["sh", "-c", command], check=True, capture_output=True)
            for path, want in [(out, folder), (out.parent, folder),
                               *((p, file) for p in out.iterdir())]:
                mode = stat.S_IMODE(path.stat().st_mode)
                expect(mode == want, f"umask {umask:o}: {path.name} has mode {mode:o}, "
                                     f"expected {want:o}")
    finally:
        shutil.rmtree(work)


def preloaded():
    """A library of the same name in the current directory is not loaded."""
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        (work / "libyaml-0.so.2").write_text("no library")
        run = subprocess.run([str(QG.resolve()), "--version"], cwd=work, text=True,
                             capture_output=True)
        expect(run.returncode == 0, f"in a folder with libyaml-0.so.2: {run.stderr}")
    finally:
        shutil.rmtree(work)


def terminal():
    """Names of a file never reach the terminal as commands, on stderr or stdout."""
    info = helper.make_tensor_value_info
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        for op, rc in ("Relu", 0), ("Fancy\x1b[31m", 1):
            node = helper.make_node(op, ["x"], ["\x1b[2Jy\x7f\u0090"],
                                    name="evil\x1b]0;own\x07")
            graph = helper.make_graph([node], "g", [info("x", TensorProto.FLOAT, [2])],
                                      [info("\x1b[2Jy\x7f\u0090", TensorProto.FLOAT, [2])])
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                   ir_version=8), work / "m.onnx")
            for verb in (["dump"], ["run", "-d", "random:1", "-o", str(work / "o")]):
                run = subprocess.run([str(QG), verb[0], str(work / "m.onnx"), *verb[1:]],
                                     capture_output=True)
                shown = run.stdout + run.stderr
                expect(run.returncode == rc, f"{verb[0]} of {op!r}: {shown}")
                expect(not any(b in shown for b in (b"\x1b", b"\x07", b"\x7f", b"\xc2\x90")),
                       f"{verb[0]} of {op!r} prints control characters: {shown}")
    finally:
        shutil.rmtree(work)


def main():
    text = QG.read_bytes()
    sanitized = b"__asan_init" in text or b"__tsan_init" in text
    files = [QG, *BUILD.glob("*.so"), *(p for p in (BUILD / "tests").glob("*")
                                         if p.is_file() and p.read_bytes()[:4] ==
                                         b"\x7fELF")]
    for file in files:
        search_path(file)
    if not sanitized:
        for file in [QG, *BUILD.glob("*.so")]:
            hardened(file)
    modes()
    preloaded()
    terminal()
    for line in complaints:
        print("FAILED:", line)
    print(f"{len(files)} programs and libraries, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
