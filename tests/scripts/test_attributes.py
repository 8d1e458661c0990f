#!/usr/bin/env python3
"""engine/onnx/attributes.def is what tools/dev/onnx_attributes.py writes, and an attribute
that an operator does not have is refused where onnx.checker refuses it."""
import pathlib
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

import agreement

sys.path.insert(0, str(pathlib.Path("tools/dev").resolve()))
import onnx_attributes

CASES = [  # operator, opset, attributes, known
    ("Relu", 17, {}, True), ("Relu", 17, {"alpha": 0.1}, False),
    ("Relu", 5, {"consumed_inputs": [0]}, True), ("Relu", 6, {"consumed_inputs": [0]}, False),
    ("Softmax", 13, {"axis": 1}, True), ("Softmax", 13, {"axes": 1}, False),
    ("ReduceSum", 12, {"axes": [1]}, True), ("ReduceSum", 13, {"axes": [1]}, False),
    ("AveragePool", 17, {"kernel_shape": [2, 2], "stride": [2, 2]}, False),
    ("AveragePool", 17, {"kernel_shape": [2, 2], "dilations": [1, 1]}, False),
    ("AveragePool", 19, {"kernel_shape": [2, 2], "dilations": [1, 1]}, True),
    ("MaxPool", 17, {"kernel_shape": [2, 2], "strides": [2, 2]}, True)]


def model(operator, opset, attributes):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c", "d"])
    node = helper.make_node(operator, ["x"], ["y"], name="the_node", **attributes)
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                             ir_version=8)


def checked(made):
    try:
        onnx.checker.check_model(made)
    except onnx.checker.ValidationError as e:
        if "nrecognized attribute" not in str(e):
            raise
        return False
    return True


def main():
    bad = 0
    if pathlib.Path("engine/onnx/attributes.def").read_text() != onnx_attributes.text():
        bad += 1
        print("FAILED: engine/onnx/attributes.def differs from the schemas of onnx")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.onnx"
        for operator, opset, attributes, known in CASES:
            made = model(operator, opset, attributes)
            onnx.save(made, path)
            run = subprocess.run([agreement.QG, "dump", str(path)], capture_output=True,
                                 text=True)
            said = all(w in run.stderr for w in ("'the_node'", "attribute", str(opset)))
            if checked(made) != known or (run.returncode == 0) != known or \
                    not known and not (said and run.returncode == 1):
                bad += 1
                print(f"FAILED: {operator} {opset} {attributes}: {run.returncode} "
                      f"{run.stderr.strip()}, expected {known}, as onnx.checker")
    print(f"attributes: {len(CASES)} models")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
