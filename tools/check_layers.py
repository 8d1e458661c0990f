#!/usr/bin/env python3
"""check_layers.py -- fails when a file includes a layer, or a library, that it may not.

The include path names the layer ("engine/ir/graph.h"), so the rule is a table; it is
the one of DESIGN.md, section 3.  Tests may include anything."""
import re
import sys

import check_source

LOW = ["engine/core", "engine/number", "engine/ir", "engine/quant"]
FILES = ["engine/onnx", "engine/config", "engine/data", "engine/snapshot", "engine/formats"]
TOP = ["engine/api", "engine/report", "engine/session", "engine/analysis"]
ALL = [*LOW, *FILES, *TOP, "engine/accel", "engine/exec", "engine/calib", "engine/pass", "ops",
       "passes"]
MAY = {  # layer: the layers it may include
    "engine/core":   [],
    "engine/number": LOW[:1],
    "engine/ir":     LOW[:2],
    "engine/quant":  LOW[:3],
    "engine/accel":  LOW[:3],
    "engine/exec":   [*LOW, "engine/accel"],
    "engine/calib":  [*LOW, "engine/exec"],
    "engine/onnx":   LOW[:3],
    "engine/config": [*LOW, "engine/calib"],
    "engine/data":   [*LOW, "engine/onnx", "engine/config"],
    "engine/snapshot": [*LOW, "engine/calib", "engine/onnx"],
    "engine/formats": [*LOW, "engine/onnx", "engine/snapshot"],
    "engine/pass":   [*LOW, "engine/calib"],
    "ops":           [*LOW[:3], "engine/accel"],
    "passes":        [*LOW, "engine/calib", "engine/exec", "engine/pass"],
    "engine/report": ALL,
    "engine/session": ALL,
    "engine/analysis": ALL,
    "engine/api":    LOW[:4],
    "tools":         ["engine/api"],
}
THIRD = [  # third-party header, the files that may see it
    (r"onnx\.pb-c\.h$|protobuf-c/",    r"engine/onnx/(import|export)\.c"),
    (r"yaml\.h$",                      r"engine/config/yaml\.c"),
    (r"(cjson/)?cJSON\.h$",            r"engine/core/json\.c"),
    (r"oneapi/dnnl/|dnnl",             r"engine/accel/dnnl\w*\.c"),
    (r"uthash\.h$|utarray\.h$",        r"engine/core/names\.c"),
    (r"openssl/",                      r"engine/core/hash\.c"),
    (r"zlib\.h$",                      r"engine/data/(npz|zip)\.c"),
    (r"(stb/)?stb_\w+\.h$",            r"engine/data/image\.c"),
    (r"mpi\.h$",                       r"engine/exec/mpi\.c"),
    (r"(setjmp|locale|signal)\.h$",    r"tools/\w+\.c"),
]
LAYERS = sorted([*MAY, "tests"], key=len, reverse=True)


def layer(path):
    return next((name for name in LAYERS if path.startswith(name + "/")), None)


def complaint(path, quote, header):
    """What is wrong with this include, or None."""
    me, to = layer(path), layer(header)
    if to and to != me and to not in MAY[me]:
        return f"{me} may not include {to}"
    for pattern, owner in THIRD:
        if not to and re.match(pattern, header):
            return None if re.fullmatch(owner, path) else \
                f"{header} is for {owner} only".replace("\\", "")
    if quote == '"' and not to:
        return "quoted includes are written from the repository root"
    return None


def main():
    bad = 0
    for path in check_source.files(".c", ".h"):
        if layer(str(path)) in (None, "tests"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
            if m and (why := complaint(str(path), *m.groups())):
                print(f"{path}:{number}: {why}")
                bad += 1
    return bad > 0


sys.exit(main())
