#!/usr/bin/env python3
"""onnx_attributes.py -- writes engine/onnx/attributes.def to stdout: the attributes of every
operator of ONNX's default domain, at each opset that changed them, from the schemas of the
onnx package.  tests/scripts/test_attributes.py compares the two."""
import textwrap

import onnx.defs

HEAD = f"""\
/* attributes.def -- the attributes of the operators of ONNX's default domain, by operator,
 * at each opset that changed them.  Written by tools/dev/onnx_attributes.py from the schemas
 * of the package onnx {onnx.__version__}, which onnx.ai publishes.
 * X(operator, first opset, attributes), in order of operator and opset. */
/* clang-format off */
"""


def rows():
    """(operator, first opset, attributes)."""
    versions = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions.setdefault(schema.name, {})[schema.since_version] = \
                " ".join(sorted(schema.attributes))
    for name in sorted(versions):
        last = None
        for since, attributes in sorted(versions[name].items()):
            if attributes != last:
                yield name, since, attributes
            last = attributes


def text():
    out = HEAD
    for name, since, attributes in rows():
        begin = f"X({name}, {since}, "
        parts = textwrap.wrap(attributes, 84 - len(begin)) or [""]
        strings = [f'"{part} "' for part in parts[:-1]] + [f'"{parts[-1]}"']
        out += begin + ("\n" + " " * len(begin)).join(strings) + ")\n"
    return out + "/* clang-format on */\n"


if __name__ == "__main__":
    print(text(), end="")
