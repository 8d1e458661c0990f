"""control_networks -- small networks with bodies that compute: If, Loop, Scan, and an If inside
a Loop.  Each quantizes a Gemm before and after the bodies, which stay float.

usage: control_networks.py FOLDER    writes NAME.onnx of each and data.npy of all"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

WIDTH, SAMPLES, DEPTH = 16, 24, 6
F, B, I = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
node = helper.make_node


def weights(rng, name):
    w = rng.standard_normal((WIDTH, WIDTH)).astype("f4") / np.sqrt(np.float32(WIDTH))
    return numpy_helper.from_array(w, name)


def value(name, kind=F, dims=(1, WIDTH)):
    return helper.make_tensor_value_info(name, kind, dims)


def layers(rng, x, y):
    """Nodes from x to y, and their constants: each shape follows from the one before."""
    names = [x, *(f"{y}.t{i}" for i in range(DEPTH - 1)), y]
    nodes, constants = [], []
    for i, (a, b) in enumerate(zip(names, names[1:])):
        nodes += [node("MatMul", [a, f"{y}.w{i}"], [f"{b}.m"]), node("Tanh", [f"{b}.m"], [b])]
        constants.append(weights(rng, f"{y}.w{i}"))
    return nodes, constants


def branch(rng, x, y):
    nodes, constants = layers(rng, x, y)
    return helper.make_graph(nodes, y, [], [value(y)], constants)


def conditional(rng, x, y):
    """If the sum of x is positive; both branches read x from outside."""
    return [node("ReduceSum", [x], [f"{y}.s"], keepdims=0),
            node("Greater", [f"{y}.s", "zero"], [f"{y}.c"]),
            node("If", [f"{y}.c"], [y], f"{y}.if", then_branch=branch(rng, x, f"{y}.then"),
                 else_branch=branch(rng, x, f"{y}.else"))]


def loop(rng, inner):
    """Three turns; `inner` makes the nodes of a turn from h to o."""
    nodes, constants = inner(rng, "h", "o")
    body = helper.make_graph(
        [*nodes, node("Identity", ["go.in"], ["go.out"])], "turn",
        [value("turn.i", I, []), value("go.in", B, []), value("h")],
        [value("go.out", B, []), value("o")], constants)
    return [node("Loop", ["three", "true", "a"], ["b"], "loop", body=body)]


def scan(rng):
    """Along the 32 columns of x: a sum that is carried, and its tanh stacked."""
    body = helper.make_graph(
        [node("Add", ["sum", "column"], ["next"]), node("Tanh", ["next"], ["slice"])], "column",
        [value("sum", F, [1]), value("column", F, [1])],
        [value("next", F, [1]), value("slice", F, [1])])
    return [node("Scan", ["start", "a"], ["total", "b"], "scan", body=body, num_scan_inputs=1,
                 scan_input_axes=[1], scan_output_axes=[1])]


MIDDLES = {
    "if": lambda rng: conditional(rng, "a", "b"),
    "loop": lambda rng: loop(rng, layers),
    "nested": lambda rng: loop(rng, lambda r, x, y: (conditional(r, x, y), [])),
    "scan": scan,
}


def write(folder):
    """The names of the networks."""
    for seed, (name, middle) in enumerate(MIDDLES.items()):
        rng = np.random.default_rng(seed)
        constants = [weights(rng, "before.w"), weights(rng, "after.w"),
                     *(numpy_helper.from_array(np.array(x, kind), n) for n, x, kind in (
                         ("zero", 0, "f4"), ("three", 3, "i8"), ("true", True, "?"),
                         ("start", [0], "f4")))]
        nodes = [node("Gemm", ["x", "before.w"], ["a"], "before"), *middle(rng),
                 node("Gemm", ["b", "after.w"], ["y"], "after")]
        model = helper.make_model(
            helper.make_graph(nodes, name, [value("x")], [value("y")], constants),
            opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        checker.check_model(model)
        save(model, folder / f"{name}.onnx")
    x = np.random.default_rng(9).standard_normal((SAMPLES, 1, WIDTH)).astype("f4")
    np.save(folder / "data.npy", x)
    return list(MIDDLES)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
