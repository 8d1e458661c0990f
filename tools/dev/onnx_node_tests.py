#!/usr/bin/env python3
"""Writes the node tests of the installed onnx package as backend-test folders.

    tools/dev/onnx_node_tests.py OUT [--op Resize --op Conv ...] [--name GLOB]

Debian's libonnx-testdata ends at opset 17; onnx itself can make the tests of every
operator it defines.  Run them with qg conformance OUT.  For developers: neither
the product nor its test suite needs this.
"""
import argparse
import fnmatch
import pathlib
import sys

import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def tensor(value, info):
    if isinstance(value, onnx.TensorProto):
        return value
    if info.type.HasField("sequence_type"):
        return numpy_helper.from_list(value, info.name)
    if info.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_array(value, info.name)


def write(case, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    graph = case.model.graph
    for i, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{i}"
        data.mkdir(exist_ok=True)
        for kind, values, infos in (("input", inputs, graph.input),
                                    ("output", outputs, graph.output)):
            for j, value in enumerate(values):
                path = data / f"{kind}_{j}.pb"
                path.write_bytes(tensor(value, infos[j]).SerializeToString())


def wanted(case, options):
    if options.name and not fnmatch.fnmatch(case.name, options.name):
        return False
    operators = {node.op_type for node in case.model.graph.node}
    return not options.op or operators & set(options.op)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--op", action="append", default=[])
    parser.add_argument("--name")
    options = parser.parse_args()
    count = 0
    for case in collect_testcases(None):
        if case.model is not None and wanted(case, options):
            write(case, options.out / case.name)
            count += 1
    print(f"{count} tests of onnx {onnx.__version__} in {options.out}")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
