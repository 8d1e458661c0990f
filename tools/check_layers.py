#!/usr/bin/env python3
"""check_layers.py -- fails when a file includes a layer, or a library, that it may not.

The include path names the layer ("engine/ir/graph.h"), so the rule is a table; it is
the one of DESIGN.md, section 3.  Tests may include anything."""
import re
import sys

import check_source

MAY = {  # layer: the layers it may include
    "engine/core":   set(),
    "engine/number": {"engine/core"},
    "engine/ir":     {"engine/core", "engine/number"},
    "engine/quant":  {"engine/core", "engine/number", "engine/ir"},
    "engine/accel":  {"engine/core", "engine/number", "engine/ir"},
    "engine/exec":   {"engine/core", "engine/number", "engine/ir", "engine/quant",
                      "engine/accel"},
    "engine/io":     {"engine/core", "engine/number", "engine/ir", "engine/quant"},
    "engine/pass":   {"engine/core", "engine/number", "engine/ir", "engine/quant"},
    "ops":           {"engine/core", "engine/number", "engine/ir", "engine/accel"},
    "passes":        {"engine/core", "engine/number", "engine/ir", "engine/quant",
                      "engine/exec", "engine/pass"},
    "engine/api":    {"engine/core", "engine/number", "engine/ir", "engine/quant",
                      "engine/accel", "engine/exec", "engine/io", "engine/pass", "ops",
                      "passes"},
    "tools":         {"engine/api"},
}
THIRD = [  # third-party header, the files that may see it
    (r"onnx\.pb-c\.h$|protobuf-c/",    r"engine/io/onnx_(import|export)\.c"),
    (r"yaml\.h$",                      r"engine/io/yaml\.c"),
    (r"(cjson/)?cJSON\.h$",            r"engine/io/json\.c"),
    (r"oneapi/dnnl/|dnnl",             r"engine/accel/dnnl\w*\.c"),
    (r"uthash\.h$|utarray\.h$",        r"engine/core/names\.c"),
    (r"openssl/",                      r"engine/io/hash\.c"),
    (r"zlib\.h$",                      r"engine/io/(npz|zip)\.c"),
    (r"(stb/)?stb_\w+\.h$",            r"engine/io/image\.c"),
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
