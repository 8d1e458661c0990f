#!/usr/bin/env python3
"""make_onnx.py -- makes the tiny ONNX files of this folder; run it in tests/models.

Each file exists for one thing that the importer must do; the unit tests name them.
IR 8 and opset 13 unless the file is about versions, so that any checker accepts them."""
import os
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, info = helper.make_node, helper.make_tensor_value_info


def model(name, nodes, inputs, outputs, initializers=(), opset=13, ir=8, **more):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers),
                              value_info=more.pop("value_info", []))
    opsets = more.pop("opsets", [helper.make_opsetid("", opset)])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=ir,
                             producer_name="quantgraph-tests", **more)
    save(made, name + ".onnx")
    return made


def ramp(name, *shape):
    n = int(np.prod(shape))
    return numpy_helper.from_array(
        np.arange(n, dtype=np.float32).reshape(shape) / 8 - 1, name)


def x(name="x", shape=("N", 3, 8, 8), kind=FLOAT):
    return info(name, kind, shape)


# conv_relu: symbolic batch, one unnamed node, a constant node, value_info
model("conv_relu",
      [node("Conv", ["x", "w", "b"], ["c"], "conv1", pads=[1, 1, 1, 1], strides=[1, 1]),
       node("Relu", ["c"], ["r"]),
       node("Constant", [], ["k"], value_floats=[0.5, 1.5]),
       node("Constant", [], ["two"], "two", value=numpy_helper.from_array(
           np.array([2], dtype=np.float32))),
       node("Mul", ["r", "two"], ["y"])],
      [x()], [x("y", ("N", 4, 8, 8)), x("k", (2,))], [ramp("w", 4, 3, 3, 3), ramp("b", 4)],
      value_info=[x("c", ("N", 4, 8, 8))])

# body_capture: If whose branches read outer values, one of them an initializer
then = helper.make_graph([node("Add", ["x", "w"], ["t"], "then_add")], "then", [],
                         [x("t", (2, 2))])
other = helper.make_graph([node("Sub", ["x", "k"], ["e"], "else_sub")], "else", [],
                          [x("e", (2, 2))],
                          [numpy_helper.from_array(np.float32([1, 2]), "k")])
model("body_capture",
      [node("If", ["p"], ["y"], "choose", then_branch=then, else_branch=other)],
      [info("p", BOOL, ()), x("x", (2, 2))], [x("y", (2, 2))], [ramp("w", 2, 2)])

# function_call: two calls of a local function that calls another; attribute reference,
# default attribute, inner values with a name that the outer graph uses too
scaled = helper.make_function(
    "local", "Scaled", ["a"], ["s"],
    [node("Constant", [], ["k"], "k"), node("Mul", ["a", "k"], ["s"], "mul")],
    [helper.make_opsetid("", 13)], attribute_protos=[helper.make_attribute("by", 2.0)])
reference = scaled.node[0].attribute.add()
reference.name, reference.ref_attr_name, reference.type = "value_float", "by", 1
twice = helper.make_function(
    "local", "Twice", ["a"], ["o"],
    [node("Scaled", ["a"], ["t"], domain="local"),
     node("Scaled", ["t"], ["o"], "second", domain="local", by=3.0)],
    [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)])
model("function_call",
      [node("Twice", ["x"], ["first/t"], "first", domain="local"),
       node("Twice", ["first/t"], ["y"], "next", domain="local")],
      [x("x", (2, 2))], [x("y", (2, 2))],
      opsets=[helper.make_opsetid("", 13), helper.make_opsetid("local", 1)],
      functions=[scaled, twice])


def typed(name, kind, shape, values):
    return helper.make_tensor(name, kind, shape, values)


# all_types: every element type as typed fields and as raw data
values = {
    "FLOAT": [1.5, -2], "DOUBLE": [1.5, -2], "INT64": [1, -2 ** 40], "INT32": [1, -2],
    "INT16": [1, -300], "INT8": [1, -128], "UINT64": [1, 2 ** 63], "UINT32": [1, 2 ** 31],
    "UINT16": [1, 65535], "UINT8": [1, 255], "BOOL": [1, 0], "FLOAT16": [1.5, -2],
    "BFLOAT16": [1.5, -2], "FLOAT8E4M3FN": [1.5, -2], "FLOAT8E4M3FNUZ": [1.5, -2],
    "FLOAT8E5M2": [1.5, -2], "FLOAT8E5M2FNUZ": [1.5, -2], "FLOAT8E8M0": [1, 2],
    "INT4": [1, -8, 7], "UINT4": [1, 15, 7], "FLOAT4E2M1": [1.5, -2, 6],
    "INT2": [1, -2, 0, -1, 1], "UINT2": [1, 3, 0, 2, 1],
}
made = []
for kind, numbers in values.items():
    code = getattr(TensorProto, kind)
    one = typed(kind.lower(), code, [len(numbers)], numbers)
    raw = TensorProto()
    raw.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one), kind.lower() + "_raw"))
    assert raw.data_type == code, kind
    made += [one, raw]
model("all_types", [node("Relu", ["x"], ["y"])], [x("x", (1,))], [x("y", (1,))], made,
      opset=25, ir=13)

# external: two tensors in one file beside the model, the second not aligned to 4 bytes
with open("external.bin", "wb") as f:
    f.write(np.float32([1, 2, 3, 4]).tobytes() + b"\0" + np.float32([5, 6, 7, 8]).tobytes())


def outside(name, offset):
    t = TensorProto(name=name, data_type=FLOAT, dims=[4],
                    data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "external.bin"), ("offset", offset), ("length", 16)):
        entry = t.external_data.add()
        entry.key, entry.value = key, str(value)
    return t


model("external",
      [node("Add", ["x", "v"], ["s"], "add"), node("Mul", ["s", "w"], ["y"], "mul")],
      [x("x", (4,))], [x("y", (4,))], [outside("v", 0), outside("w", 17)])

# ir3: initializers are listed among the inputs, as IR 3 demands
model("ir3", [node("Add", ["x", "w"], ["y"], "add")], [x("x", (2, 2)), x("w", (2, 2))],
      [x("y", (2, 2))], [ramp("w", 2, 2)], opset=7, ir=3)

# unsorted: consumers before producers, two nodes of one name
model("unsorted",
      [node("Relu", ["b"], ["y"], "same"), node("Neg", ["a"], ["b"], "same"),
       node("Abs", ["x"], ["a"], "abs")], [x("x", (2,))], [x("y", (2,))])

# optional_slots: an absent optional input in the middle, an absent output
model("optional_slots",
      [node("Clip", ["x", "", "high"], ["y"], "clip")],
      [x("x", (2,))], [x("y", (2,))],
      [numpy_helper.from_array(np.float32(6), "high")])

# node_names: a graph without a name; nodes without one, with the same, and with names that
# are scopes, have blanks and quotes, or other scripts
names = ["", "", "same", "same", "/scope/a b/[c]\"d\"<e>", "\u00fcber/\u7f51\u7edc", "y",
         "trailing/"]
values = ["x", *(f"t{i}" for i in range(len(names) - 1)), "y"]
made = model("node_names", [node("Conv", [values[i], "w"], [values[i + 1]], name, pads=[1] * 4)
                            for i, name in enumerate(names)],
             [x("x", (1, 2, 4, 4))], [x("y", (1, 2, 4, 4))], [ramp("w", 2, 2, 3, 3)])
made.graph.name = ""
save(made, "node_names.onnx")
