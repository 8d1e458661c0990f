#!/usr/bin/env python3
"""The libraries export exactly the symbols of tests/data/exported-symbols.txt, one per
line, with `arrays` after those of libqg_arrays; every listed name is declared QG_API
in an installed header, and every function that one declares is listed.  Fewer than
450.

    test_symbols.py             compares, for the build in QG_BUILD
    test_symbols.py --write     writes the list from the declarations"""
import os
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("QG_BUILD", "build"))
LIST = pathlib.Path("tests/data/exported-symbols.txt")
MOST = 450
PUBLIC = 'visibility("default")'


def declared(*headers):
    """(functions and objects, those of them without QG_API) of what these include."""
    text = "".join(f'#include "{h}"\n' for h in headers)
    code = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-E", "-P",
                           f"-I{BUILD}/include/quantgraph", "-x", "c", "-"],
                          input=text, text=True, capture_output=True, check=True).stdout
    while (flat := re.sub(r"\{[^{}]*\}", "@", code)) != code:
        code = flat
    code = re.sub(r"(\)\s*)@", r"\1;", code)  # bodies of inline functions
    names, bare = set(), set()
    for statement in code.split(";"):
        if re.match(r"\s*(typedef|static|(enum|struct)\s*\w*\s*(@|$))", statement):
            continue
        plain = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", statement)
        if (m := re.search(r"\b(qg_\w+)\s*(?:\(|$)", plain.strip())):
            names.add(m[1])
            if PUBLIC not in statement:
                bare.add(m[1])
    return names, bare


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", str(BUILD / library)],
                         text=True, capture_output=True, check=True).stdout
    return {name for line in out.splitlines()  # __: made by the compiler, as by ASan
            if not (name := line.split()[-1]).startswith("__")}


def difference(what, have, than, want):
    for name in sorted(have - want):
        yield f"{name}: {what}, but not {than}"


def main():
    arrays, bare = declared("qg_arrays.h")
    library, more = declared("qg.h", "qg_arrays.h")
    if sys.argv[1:] == ["--write"]:
        LIST.write_text("".join(f"{n} arrays\n" if n in arrays else f"{n}\n"
                                for n in sorted(library)))
    rows = [line.split() for line in LIST.read_text().splitlines()]
    listed = {row[0] for row in rows}
    listed_arrays = {row[0] for row in rows if row[1:] == ["arrays"]}
    found = [f"{name}: declared without QG_API" for name in sorted(bare | more)]
    for what, name, have, want in (("declared by qg.h", "libqg.so", library, listed),
                                   ("declared by qg_arrays.h", "libqg_arrays.so", arrays,
                                    listed_arrays)):
        there = exported(name)
        found += [*difference(what, have, f"in {LIST}", want),
                  *difference(f"in {LIST}", want, what, have),
                  *difference(f"in {LIST}", want, f"exported by {name}", there),
                  *difference(f"exported by {name}", there, f"in {LIST}", want)]
    if len(listed) >= MOST:
        found.append(f"{len(listed)} exported symbols, expected fewer than {MOST}")
    print(f"{len(listed)} symbols, {len(listed_arrays)} of them of arrays", *found, sep="\n")
    return bool(found) or not listed_arrays


if "GCOV_PREFIX" in os.environ:
    print("skipped: a build that counts coverage exports symbols of libgcov")
    sys.exit(77)
sys.exit(main())
