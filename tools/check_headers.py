#!/usr/bin/env python3
"""check_headers.py -- checks that every header compiles alone and twice, and that its
guard matches its path.

X_body.h is not a header but text that X.c includes once per type: only its file
comment is checked."""
import concurrent.futures
import os
import re
import subprocess
import sys

import check_source

FLAGS = ["-std=c11", "-D_DEFAULT_SOURCE", "-D_POSIX_C_SOURCE=200809L", "-I.",
         "-Iengine/api", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-"]


def complaints(path):
    text = path.read_text()
    if not text.startswith("/*"):
        yield f"{path}: no file comment"
    if path.name.endswith("_body.h"):
        return
    guard = "QG_" + re.sub(r"\W", "_", str(path)).upper()
    if f"#ifndef {guard}\n#define {guard}\n" not in text:
        yield f"{path}: include guard is not {guard}"
    twice = f'#include "{path}"\n' * 2
    run = subprocess.run([os.environ.get("CC", "cc"), *FLAGS], input=twice, text=True,
                         capture_output=True)
    if run.returncode:
        first = [line for line in run.stderr.splitlines() if "error:" in line][:2]
        yield "\n".join([f"{path}: does not compile alone", *first])


def main():
    headers = check_source.files(".h")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [c for cs in pool.map(lambda p: list(complaints(p)), headers) for c in cs]
    for line in found:
        print(line)
    return bool(found)


sys.exit(main())
