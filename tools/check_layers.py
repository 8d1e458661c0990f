#!/usr/bin/env python3
"""check_layers.py [--table] -- fails when a file includes a room or a library that its
own room may not include.

The include path contains the room ("engine/ir/graph.h"), so the rule is a table.  It
is acyclic, because a row refers only to rooms of the rows above it.  DESIGN.md,
section 3, repeats it: --table prints it in that form.  Tests may include anything."""
import os
import pathlib
import re
import sys

import check_source

BASE = ["core", "number", "ir"]
MAY = {  # room: the rooms that it may include, of those above it
    "core":           [],
    "number":         ["core"],
    "ir":             ["core", "number"],
    "accel":          BASE,
    "quant":          BASE,
    "lower":          [*BASE, "quant"],
    "exec":           [*BASE, "accel", "quant"],
    "calib":          [*BASE, "quant", "exec"],
    "onnx":           BASE,
    "config":         [*BASE, "quant", "calib"],
    "data":           [*BASE, "onnx", "config"],
    "snapshot":       [*BASE, "quant", "calib", "onnx"],
    "formats":        [*BASE, "quant", "lower", "onnx", "snapshot"],
    "pass":           [*BASE, "quant", "calib"],
    "ops":            [*BASE, "accel"],
    "passes":         [*BASE, "quant", "calib", "exec", "pass"],
    "passes/vendor":  [*BASE, "quant", "calib", "exec", "pass", "passes"],
    "api":            [*BASE, "quant"],
    "report":         [*BASE, "quant", "calib", "config", "snapshot", "formats", "pass",
                       "passes", "api"],  # exec, data, onnx, ops: not needed
    "session":        [],
    "analysis":       [],
    "lint":           [],
    "device":         [],
    "learn":          [],
    "search":         [],
    "webpage":        [],
    "embed":          [],
    "tools":          ["api"],
}
# rooms that may include all above them
ABOVE = ("session", "analysis", "lint", "device", "learn", "search", "webpage",
         "embed")
for name in ABOVE:
    MAY[name] = list(MAY)[:list(MAY).index(name)]
THIRD = [  # third-party header, the files that may see it
    (r"onnx\.pb-c\.h$|protobuf-c/",    r"engine/onnx/(import|export)\.c"),
    (r"yaml\.h$",                      r"engine/config/yaml\.c"),
    (r"(cjson/)?cJSON\.h$",            r"engine/core/json\.c"),
    (r"oneapi/dnnl/|dnnl",             r"engine/accel/dnnl\w*\.[ch]"),
    (r"uthash\.h$|utarray\.h$",        r"engine/core/names\.c"),
    (r"openssl/",                      r"engine/core/hash\.c"),
    (r"zlib\.h$",                      r"engine/data/(npz|zip)\.c"),
    (r"(stb/)?stb_\w+\.h$",            r"engine/data/image\.c"),
    (r"mpi\.h$",                       r"engine/exec/mpi\.c"),
    (r"(setjmp|locale|signal)\.h$",    r"tools/\w+\.c"),
]
DESIGN, TITLE = pathlib.Path("DESIGN.md"), "| room | may include |"


def short(path):
    """"ir" for a file of engine/ir; None for files outside the product."""
    room = check_source.room(path)
    return room and room.removeprefix("engine/")


def complaint(path, quote, header):
    """The error in this include, or None."""
    header = check_source.included(path, header)
    me, to = short(path), short(header)
    if not quote or header != os.path.normpath(header) or header.startswith(".."):
        return "an include is a plain path: no macro, no '.', no '..'"
    if quote == "<" and re.match(r"(engine|ops|passes|tools|tests|configs)/", header):
        return "angle brackets are for headers from outside of the project"
    if to and to not in MAY:
        return f"{to} has no row in tools/check_layers.py"
    if to and to != me and to not in MAY[me]:
        return f"{me} may not include {to}"
    for pattern, owner in THIRD:
        if not to and re.search(rf"(?:^|/)(?:{pattern})", header):
            return None if re.fullmatch(owner, path) else \
                f"{header} is for {owner} only".replace("\\", "")
    if quote == '"' and not to:
        return "quoted includes are written from the repository root"
    return None


def include_complaints():
    for path in map(str, check_source.files(*check_source.C)):
        if (room := short(path)) is None:
            continue
        if room not in MAY:
            yield f"{path}: {room} has no row in tools/check_layers.py"
            continue
        for number, quote, header in check_source.includes(pathlib.Path(path).read_text()):
            if (why := complaint(path, quote, header)):
                yield f"{path}:{number}: {why}"


def table_complaints():
    rooms = list(MAY)
    for row, (room, may) in enumerate(MAY.items()):
        for name in may:
            if name not in rooms[:row]:
                yield (f"tools/check_layers.py: {room} names {name}, "
                       "which is not a row above it")


def table():
    """The rows of the table in the form of DESIGN.md."""
    for room, may in MAY.items():
        yield f"| {room} | {'all above' if room in ABOVE else ' '.join(may) or 'nothing'} |"


def design_complaints():
    lines = DESIGN.read_text().splitlines() if DESIGN.exists() else []
    if TITLE not in lines:
        yield (f"DESIGN.md: no table '{TITLE}': paste what "
               "tools/check_layers.py --table prints")
        return
    start = lines.index(TITLE) + 2
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("|")),
               len(lines))
    wanted, there = list(table()), lines[start:end]
    for k in range(max(len(wanted), len(there))):
        row = there[k] if k < len(there) else "nothing"
        want = wanted[k] if k < len(wanted) else "no such row"
        if row != want:
            yield f"DESIGN.md:{start + k + 1}: {row}: tools/check_layers.py has {want}"
            return


def main():
    if sys.argv[1:] == ["--table"]:
        print("\n".join([TITLE, "|---|---|", *table()]))
        return False
    found = [*table_complaints(), *design_complaints(), *include_complaints()]
    for line in found:
        print(line)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
