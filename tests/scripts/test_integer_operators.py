#!/usr/bin/env python3
"""Each float operator as an integer kernel: a network of a convolution and the operator is
quantized and translated with two profiles.  The program has the kernel that is expected,
runs with equal bytes by definitions and by fast kernels, and stays within the rounding of
the simulation: where it rounds otherwise, a code may differ by a few steps."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ["QG"]
C, H, W = 8, 6, 5
rng = np.random.default_rng(5)


def ints(*values):
    return np.array(values, np.int64)


def floats(*shape):
    return rng.normal(0, 0.4, shape).astype(np.float32)


# operator (A>B: B behind A), constants behind its data input (or a number of further data inputs), attributes,
# kernel with tflite-reference, kernel with onnxruntime-x86-vnni ("" none: float)
BINARY, TABLE = "IntBinary", "IntTable"
CASES = [
    ("Conv", [floats(6, C, 3, 3), floats(6)], {"pads": [1, 1, 1, 1]}, "IntConv", "IntConv"),
    ("Conv", [floats(C, 1, 3, 3)], {"group": C}, "IntConv", "IntConv"),
    ("Conv", [floats(6, C // 2, 1, 1), floats(6)], {"group": 2}, "IntConv", "IntConv"),
    ("ConvTranspose", [floats(C, 5, 2, 2), floats(5)], {"strides": [2, 2]},
     "IntConvTranspose", ""),
    ("ConvTranspose", [floats(C, 5, 1, 2)], {"strides": [3, 2]}, "IntConvTranspose", ""),
    ("ConvTranspose", [floats(C, 5, 2, 1), floats(5)], {"strides": [4, 5]},
     "IntConvTranspose", ""),
    ("ConvTranspose", [floats(C, 1, 3, 3), floats(C)], {"group": C}, "IntConvTranspose", ""),
    ("MatMul", [floats(W, 7)], {}, "IntMatMul", "IntMatMul"),
    ("Add", 1, {}, BINARY, BINARY),
    ("Sub", 1, {}, BINARY, ""),
    ("Mul", 1, {}, BINARY, BINARY),
    ("Max", 1, {}, "Max", None),
    ("Min", 1, {}, "Min", None),
    ("PRelu", [abs(floats(C, 1, 1))], {}, BINARY, ""),
    ("LeakyRelu", [], {"alpha": 0.2}, TABLE, TABLE),
    ("HardSwish", [], {}, TABLE, ""),
    ("Sigmoid", [], {}, TABLE, TABLE),
    ("Tanh", [], {}, TABLE, None),
    ("Softmax", [], {"axis": -1}, "IntSoftmax", ""),
    ("Softmax", [], {"axis": 1}, "", ""),
    ("AveragePool", [], {"kernel_shape": [2, 2], "strides": [2, 2]}, "IntAveragePool", ""),
    ("GlobalAveragePool", [], {}, "IntMean", "IntMean"),
    ("ReduceMean", [], {"axes": [2], "keepdims": 0}, "IntMean", None),
    ("ReduceSum", [ints(3)], {"keepdims": 0}, "", ""),
    ("AveragePool", [], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1],
                         "count_include_pad": 1}, "", ""),
    ("MaxPool", [], {"kernel_shape": [2, 2]}, "MaxPool", "MaxPool"),
    ("MaxPool>Relu", [], {}, None, None),
    ("MaxPool>Clip", [np.float32(-0.3), np.float32(0.2)], {}, None, None),
    ("Concat", 1, {"axis": 1}, "IntConcat", "IntConcat"),
    ("Reshape", [ints(1, -1)], {}, "Reshape", "Reshape"),
    ("Transpose", [], {"perm": [0, 2, 3, 1]}, "Transpose", "Transpose"),
    ("Flatten", [], {}, "Flatten", "Flatten"),
    ("Unsqueeze", [ints(0)], {}, "Unsqueeze", "Unsqueeze"),
    ("Squeeze", [ints(0)], {}, "Squeeze", "Squeeze"),
    ("Slice", [ints(1), ints(5), ints(1)], {}, "Slice", "Slice"),
    ("Gather", [ints(3, 1)], {"axis": 1}, "Gather", "Gather"),
    ("Expand", [ints(2, C, H, W)], {}, "Expand", None),
    ("DepthToSpace", [], {"blocksize": 2}, "DepthToSpace", None),
    ("Pad", [ints(0, 0, 1, 2, 0, 0, 0, 1)], {}, "Pad", None),
    ("Resize", [np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
     {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
      "nearest_mode": "floor"}, "Resize", None),
    ("Resize", [np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
     {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}, "IntResize", None),
]


def network(op, constants, attributes):
    """x, a convolution `a` (and `b`), the operator on them."""
    inits = {"wa": floats(C, 3, 1, 1), "wb": floats(C, 3, 1, 1)}
    nodes = [helper.make_node("Conv", ["x", "wa"], ["a"], "conv_a")]
    inputs = ["a"]
    first, _, op = op.rpartition(">")
    if first:
        nodes.append(helper.make_node(first, ["a"], ["p"], "first", kernel_shape=[1, 1]))
        inputs = ["p"]
    if isinstance(constants, int):
        nodes.append(helper.make_node("Conv", ["x", "wb"], ["b"], "conv_b"))
        inputs.append("b")
    else:
        for i, value in enumerate(constants):
            inits[f"c{i}"] = value
            inputs.append(f"c{i}")
    nodes.append(helper.make_node(op, inputs, ["y"], "subject", **attributes))
    graph = helper.make_graph(
        nodes, "one", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, H, W])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in inits.items()])
    opset = 14 if op == "HardSwish" else 16 if op == "PRelu" else 13
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def qg(*arguments):
    done = subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments[:2]))}: {done.stderr.strip()}")
    return done.stdout


def outputs(folder, snapshot, name, *options):
    qg("run", snapshot, "-d", folder / "x.npy", "-o", folder / name, *options)
    return np.load(folder / name / "y.npy")


def kernel_of(program):
    """The operator of node `subject`, and the scale of its output (None: of no grid)."""
    for line in program.splitlines():
        call = line.partition(" = ")[2]
        words = call.replace("(", " ").split()
        if " subject(" in call:
            scale = [w for w in call.split() if w.startswith("out0_scale=")]
            return words[0].split("::")[-1], float(scale[0].split("=")[1]) if scale else None
    return "", None


def check(folder, case, backend, profile, expected, *settings):
    op, constants, attributes = case[:3]
    onnx.save(network(op, constants, attributes), folder / "m.onnx")
    np.save(folder / "x.npy", floats(4, 3, H, W))
    snapshot = folder / "s"
    shutil.rmtree(snapshot, ignore_errors=True)
    qg("quantize", folder / "m.onnx", "-b", backend, "-d", folder / "x.npy", "-o", snapshot,
       *settings)
    report = json.loads(qg("dump", snapshot, "--profile", profile, "--json"))
    kernel, scale = kernel_of(report["program"])
    integer = report["island"] == 0 and report["refused"] == 0
    if expected is None:
        return f"{kernel or 'none'}{'' if integer else ' (float)'}"
    if integer != (expected != "") or (integer and kernel != expected):
        raise RuntimeError(f"kernel '{kernel}', {report['island']} islands, "
                           f"{report['refused']} refused, expected '{expected}'")
    mode = ["--mode", "integer", "--profile", profile]
    fast = outputs(folder, snapshot, "fast", *mode)
    slow = outputs(folder, snapshot, "slow", *mode, "--kernels", "reference")
    simulated = outputs(folder, snapshot, "simulated", "--mode", "simulate")
    if fast.tobytes() != slow.tobytes() and integer:
        raise RuntimeError(f"{(fast != slow).sum()} of {fast.size} differ between kernels")
    step = scale or np.abs(simulated).max() / 127
    worst = np.abs(fast - simulated).max() / step
    if not worst <= 3:
        raise RuntimeError(f"{worst:.2f} steps from the simulation")
    return f"{kernel or 'float'}, {worst:.2f} steps"


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in CASES:
            for backend, profile, expected in (
                    ("tflite-int8", "tflite-reference", case[3]),
                    ("ort-int8", "onnxruntime-x86-vnni", case[4])):
                try:
                    said = check(folder, case, backend, profile, expected)
                except RuntimeError as wrong:
                    said, bad = f"FAILED: {wrong}", bad + 1
                print(f"{case[0]:18} {profile:22} {said}")
        try:  # rows of convolution and depthwise differ: a grouped one has a row of its own
            print("grouped",
                  check(folder, CASES[2], "tflite-int8", "tflite-builtin-x86", "IntConv"))
        except RuntimeError as wrong:
            print(f"grouped FAILED: {wrong}")
            bad += 1
        for settings in ("range=[-100,100]", "bits=16 range=[-50,70]"):
            try:  # the bias ends where its record does
                print("limited bias", check(folder, CASES[0], "tflite-int8",
                                            "tflite-reference", "IntConv", "--set",
                                            f"slot=bias {settings}"))
            except RuntimeError as wrong:
                print(f"limited bias FAILED: {wrong}")
                bad += 1
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
