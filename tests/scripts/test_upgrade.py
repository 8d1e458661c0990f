#!/usr/bin/env python3
"""Nodes of old opsets mean the same at newer ones (engine/ir/upgrade.h): each case is
moved to opsets 13, 18, 21 and 23; onnx.checker accepts the result, which computes
the same as the original (pools add in a different order since 19), in onnxruntime
where that runs the original, else in `qg run`."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
COPY = os.path.join(os.environ.get("QG_BUILD", "build"), "tests", "onnx_copy")
TARGETS = [13, 18, 21, 23]
F = np.float32
X = np.linspace(-3, 4, 2 * 4 * 6 * 5, dtype=F).reshape(2, 4, 6, 5)
KERNEL = np.cos(np.arange(3 * 4 * 3 * 3, dtype=F)).reshape(3, 4, 3, 3)
CHANNELS = [np.array(v, F) for v in ([1, 2, 3, 4], [0, 1, 0, -1], [0, 1, 2, 3], [1, 2, 3, 4])]
HINT = {"consumed_inputs": [0, 0]}

CASES = [  # operator, opset, inputs (first: fed, others: constants), attributes, outputs
    ("Add", 6, [X, np.arange(4, dtype=F)], dict(broadcast=1, axis=1)),
    ("Add", 1, [X, np.arange(30, dtype=F).reshape(6, 5)], dict(broadcast=1, **HINT)),
    ("Mul", 6, [X, np.arange(24, dtype=F).reshape(4, 6)], dict(broadcast=1, axis=1)),
    ("Sub", 6, [X, np.ones((2, 4, 6, 5), F)], {}),
    ("Pow", 1, [np.abs(X), np.array([2], F)], dict(broadcast=1)),
    ("Greater", 1, [X, np.arange(5, dtype=F)], dict(broadcast=1, axis=3)),
    ("PRelu", 6, [X, np.array([.1, .2, .3, .4], F)], {}),
    ("Relu", 1, [X], dict(consumed_inputs=[0])),
    ("Sum", 1, [X, X], HINT),
    ("AveragePool", 1, [X], dict(kernel_shape=[2, 2], pads=[1, 0, 1, 0])),
    ("AveragePool", 7, [X], dict(kernel_shape=[3, 3], count_include_pad=1, pads=[1] * 4)),
    ("AveragePool", 10, [X], dict(kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)),
    ("BatchNormalization", 6, [X, *CHANNELS], dict(is_test=1)),
    ("BatchNormalization", 7, [X, *CHANNELS], dict(spatial=1, epsilon=1e-3)),
    ("BatchNormalization", 9, [X, *CHANNELS], {}),
    ("BatchNormalization", 14, [X, *CHANNELS], {}),
    ("Clip", 6, [X], dict(min=-1.0, max=2.5)),
    ("Clip", 6, [X], dict(max=1.5)),
    ("Clip", 6, [X], {}),
    ("Concat", 1, [X, X], {}),
    ("Conv", 1, [X, KERNEL], dict(kernel_shape=[3, 3], auto_pad="SAME_UPPER")),
    ("ConvTranspose", 1, [X, np.ones((4, 2, 2, 2), F)], dict(strides=[2, 2])),
    ("Dropout", 6, [X], dict(ratio=0.5, is_test=1)),
    ("Dropout", 7, [X], dict(ratio=0.5)),
    ("Dropout", 10, [X], {}),
    ("Gemm", 6, [X[0, 0], np.ones((5, 3), F), np.ones(3, F)], dict(broadcast=1, alpha=.5)),
    ("Gemm", 9, [X[0, 0], np.ones((3, 5), F), np.ones((1, 3), F)], dict(transB=1)),
    ("GlobalAveragePool", 1, [X], {}),
    ("GlobalMaxPool", 1, [X], {}),
    ("Hardmax", 11, [X], dict(axis=2)),
    ("InstanceNormalization", 6, [X, *CHANNELS[:2]], {}),
    ("LRN", 1, [X], dict(size=3)),
    ("LogSoftmax", 1, [X], dict(axis=1)),
    ("LpNormalization", 1, [X], dict(axis=1)),
    ("LpPool", 2, [X], dict(kernel_shape=[2, 2])),
    ("MatMul", 1, [X, np.ones((5, 2), F)], {}),
    ("MaxPool", 1, [X], dict(kernel_shape=[2, 2], strides=[2, 1])),
    ("MaxPool", 10, [X], dict(kernel_shape=[2, 2], dilations=[2, 1], ceil_mode=1)),
    ("MeanVarianceNormalization", 9, [X], {}),
    ("Pad", 1, [X], dict(paddings=[0, 0, 1, 2, 0, 1, 0, 0], value=1.5)),
    ("Pad", 2, [X], dict(pads=[0, 0, 1, 2, 0, 1, 0, 0])),
    ("Pad", 2, [X], dict(pads=[0, 0, 1, 2, 0, 0, 0, 0], mode="reflect")),
    ("Pad", 11, [X, np.array([0, 0, 1, 2, 0, 1, 0, 0]), np.array(2, F)], {}),
    ("ReduceMean", 1, [X], dict(axes=[1, 3])),
    ("ReduceSum", 11, [X], dict(axes=[-1], keepdims=0)),
    ("ReduceMax", 11, [X], {}),
    ("ReduceL2", 13, [X], dict(axes=[2])),
    ("Reshape", 1, [X], dict(shape=[2, -1, 5])),
    ("Resize", 10, [X, np.array([1, 1, 2, 1.5], F)], dict(mode="nearest")),
    ("Resize", 10, [X, np.array([1, 1, 2, 2], F)], dict(mode="linear")),
    ("Resize", 11, [X, np.array([], F), np.array([1, 1, 2, 2], F)], dict(mode="cubic")),
    ("Upsample", 7, [X], dict(scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")),
    ("Upsample", 9, [X, np.array([1, 1, 2, 2], F)], dict(mode="linear")),
    ("RoiAlign", 10, [X, np.array([[0, 0, 3, 3], [1, 0, 4, 5]], F), np.array([0, 1])],
     dict(output_height=2, output_width=2)),
    ("Scatter", 9, [X, np.zeros((1, 4, 6, 5), np.int64), np.ones((1, 4, 6, 5), F)], {}),
    ("Selu", 1, [X], {}),
    ("Selu", 6, [X], dict(alpha=1.5)),
    ("Slice", 1, [X], dict(axes=[2, 3], starts=[1, -3], ends=[9, -1])),
    ("Slice", 1, [X], dict(starts=[0, 1], ends=[1, 3])),
    ("Softmax", 1, [X], dict(axis=3)),
    ("Softmax", 1, [X], {}),
    ("Softmax", 11, [X], dict(axis=-2)),
    ("Split", 2, [X], dict(axis=1, split=[1, 3]), 2),
    ("Split", 2, [X], dict(axis=1), 2),
    ("Split", 13, [X, np.array([2, 4])], dict(axis=2), 2),
    ("Squeeze", 1, [X[:1, :1]], dict(axes=[0, 1])),
    ("Squeeze", 11, [X[:1, :1]], {}),
    ("TopK", 1, [X], dict(k=3, axis=2), 2),
    ("Unsqueeze", 1, [X], dict(axes=[0, 3])),
    ("GridSample", 16, [X, np.linspace(-1, 1, 2 * 3 * 3 * 2, dtype=F).reshape(2, 3, 3, 2)],
     dict(mode="bilinear", align_corners=1)),
]
FUNCTIONS = {"MeanVarianceNormalization"}  # onnx 1.23 cannot infer its own definition
REFUSED = [  # the message names node, operator and both opsets
    ("GroupNormalization", 18, [X, np.ones(2, F), np.ones(2, F)], dict(num_groups=2)),
    ("GRU", 3, [X[0, :, :3], np.ones((1, 6, 5), F), np.ones((1, 6, 2), F)],
     dict(hidden_size=2)),
]


def model(op, opset, inputs, attributes, outputs=1):
    """x is fed, all else is an initializer."""
    names = ["x"] + [f"c{i}" for i in range(len(inputs) - 1)]
    of = {np.dtype(F): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
    info = [helper.make_tensor_value_info(n, of[a.dtype], a.shape)
            for n, a in zip(names, inputs)]
    outs = [f"y{i}" for i in range(outputs)]
    kinds = [TensorProto.BOOL if op == "Greater" else
             TensorProto.INT64 if op == "TopK" and i else TensorProto.FLOAT
             for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, outs, name="it", **attributes)], "g",
        info if opset < 9 else info[:1],
        [helper.make_tensor_value_info(o, k, None) for o, k in zip(outs, kinds)],
        [onnx.numpy_helper.from_array(a, n) for n, a in list(zip(names, inputs))[1:]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                             ir_version=3 if opset < 9 else 7)


def run_ort(path, x):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(str(path), options, ["CPUExecutionProvider"]).run(
            None, {"x": x})
    except Exception:
        return None


def run_qg(path, x, folder):
    np.save(folder / "x.npy", x[None])
    subprocess.run([QG, "run", path, "-d", folder / "x.npy", "-o", folder / "out", "--kernels",
                    "reference"], check=True, stdout=subprocess.DEVNULL)
    found = sorted((folder / "out").glob("y*.npy"))
    out = [np.load(f)[0] for f in found]
    for f in found:
        f.unlink()
    return out


def move(source, target, opset):
    run = subprocess.run([COPY, source, target, "0", str(opset)], capture_output=True,
                         text=True)
    return run.stderr.strip() if run.returncode else None


def wrong(case, folder):
    """Errors per target, and the number of targets checked with onnxruntime."""
    source, target, judged = folder / "old.onnx", folder / "new.onnx", 0
    onnx.save(model(*case), source)
    x = case[2][0]
    theirs = run_ort(source, x)
    want = theirs or run_qg(source, x, folder)
    for opset in [t for t in TARGETS if t >= case[1]]:
        refused = move(source, target, opset)
        if refused:
            yield f"{opset}: {refused}"
            continue
        moved = onnx.load(target)
        onnx.checker.check_model(moved, full_check=case[0] not in FUNCTIONS)
        if [o.version for o in moved.opset_import if o.domain == ""] != [opset]:
            yield f"{opset}: not at this opset"
        got = run_ort(target, x) if theirs else None
        judged += got is not None
        got = got or run_qg(target, x, folder)
        for a, b in zip(got, want, strict=True):
            if a.shape != b.shape or not np.allclose(a, b, 1e-6, 1e-6):
                yield f"{opset}: computes something else, by {np.abs(a * 1. - b).max()}"
    yield judged


def main():
    failed = judged = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for case in CASES:
            *found, n = wrong(case, folder)
            judged += n
            for what in found:
                failed += 1
                print(f"FAILED {case[0]}-{case[1]} {case[3]} to {what}")
        for case in REFUSED:
            onnx.save(model(*case), folder / "old.onnx")
            said = move(folder / "old.onnx", folder / "new.onnx", 21) or "nothing"
            if not re.match(rf"export: node 'it' \({case[0]}\): opset {case[1]} cannot be "
                            r"rewritten to opset 21, expected", said):
                failed += 1
                print(f"FAILED {case[0]}-{case[1]}: says {said}")
    print(f"{len(CASES)} cases, {judged} graphs judged by onnxruntime, {failed} failed")
    return failed > 0 or not judged


if __name__ == "__main__":
    sys.exit(main())
