#!/usr/bin/env python3
"""An If whose branch not taken fits no shapes: ONNX Runtime runs it, and so does qg, with
the condition known before the run or not; a branch that is taken reports its fault."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T, helper as h
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import qg

node = h.make_node


def branch(name, op, *inputs):
    return h.make_graph([node(op, list(inputs), [name], f"in_{name}")], name, [],
                        [h.make_tensor_value_info(name, T.FLOAT, None)])


def write(path, condition):
    """Taken: c is true.  The branch for it doubles, the other one reshapes 6 to 5."""
    graph = h.make_graph(
        [*condition, node("If", ["c"], ["z"], "if", then_branch=branch("a", "Add", "x", "x"),
                          else_branch=branch("b", "Reshape", "x", "five")),
         node("Relu", ["z"], ["y"], "relu")],
        "untaken", [h.make_tensor_value_info("x", T.FLOAT, [2, 3])],
        [h.make_tensor_value_info("y", T.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.int64([5]), "five"),
         onnx.numpy_helper.from_array(np.int64(3), "three"),
         onnx.numpy_helper.from_array(np.int64(1), "one"),
         onnx.numpy_helper.from_array(np.float32(-1e9), "low")])
    onnx.save(h.make_model(graph, ir_version=8,
                           opset_imports=[h.make_opsetid("", 17)]), path)


BY_SHAPE = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["d"]),
            node("Equal", ["d", "three"], ["c"])]
BY_DATA = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "low"], ["c"])]

with tempfile.TemporaryDirectory() as place:
    root = pathlib.Path(place)
    x = np.random.default_rng(2).normal(0, 1, (1, 2, 3)).astype("f")
    np.save(root / "x.npy", x[0])
    for condition in BY_SHAPE, BY_DATA:
        write(root / "m.onnx", condition)
        want = ort.InferenceSession(str(root / "m.onnx"), providers=["CPUExecutionProvider"]) \
            .run(None, {"x": x[0]})[0]
        qg("run", root / "m.onnx", "-d", root / "x.npy", "-o", root / "out")
        have = np.load(root / "out" / "y.npy").reshape(want.shape)
        assert np.array_equal(have, want), (have, want)
        write(root / "f.onnx", [*condition[:-1],
                                node(condition[-1].op_type, condition[-1].input, ["t"]),
                                node("Not", ["t"], ["c"])])
        qg("run", root / "f.onnx", "-d", root / "x.npy", "-o", root / "out",
           fails="in_b' (Reshape)")
print("ok")
