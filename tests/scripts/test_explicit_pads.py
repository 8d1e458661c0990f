#!/usr/bin/env python3
"""Pools and convolutions whose padding ONNX Runtime or OpenVINO derives otherwise than
ONNX defines it, or does not derive: the files have the padding itself, so that their results
are the simulated ones, and no row changes results.  With open dims a row does, and `qg
lint` has an error (rule derived-pads)."""
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    import openvino as ov
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import subprocess

import agreement
from onnx import TensorProto, helper, numpy_helper

UPPER, LOWER = {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}
CASES = [  # operator, opset, attributes, kernel of a weight
    ("MaxPool", 12, {**UPPER, "kernel_shape": [2, 2], "dilations": [2, 1]}, None),
    ("MaxPool", 12, {**LOWER, "kernel_shape": [2, 3], "dilations": [3, 2], "strides": [2, 1]}, None),
    ("AveragePool", 19, {**UPPER, "kernel_shape": [2, 2], "dilations": [2, 1]}, None),
    ("AveragePool", 19, {**LOWER, "kernel_shape": [3, 2], "dilations": [1, 2],
                         "count_include_pad": 1}, None),
    ("LpPool", 18, {**UPPER, "kernel_shape": [2, 2], "dilations": [2, 1]}, None),
    ("MaxPool", 12, {"auto_pad": "VALID", "ceil_mode": 1, "kernel_shape": [1, 3],
                     "strides": [1, 2]}, None),
    ("AveragePool", 19, {"auto_pad": "VALID", "ceil_mode": 1, "kernel_shape": [2, 3],
                         "strides": [2, 2]}, None),
    ("MaxPool", 12, {**UPPER, "kernel_shape": [1, 1], "strides": [3, 3]}, None),
    ("AveragePool", 19, {**LOWER, "kernel_shape": [1, 1], "strides": [3, 2],
                         "dilations": [2, 1]}, None),
    ("ConvTranspose", 11, {**UPPER, "strides": [2, 3]}, (1, 2)),
    ("ConvTranspose", 11, {**LOWER, "strides": [3, 2], "dilations": [2, 1]}, (1, 2)),
    ("ConvTranspose", 11, {**UPPER, "strides": [2, 2]}, (3, 3)),
    ("ConvTranspose", 11, {**UPPER, "strides": [2, 2], "output_shape": [10, 12]}, (3, 3)),
    ("ConvTranspose", 11, {"strides": [2, 2], "output_shape": [10, 12]}, (3, 3)),
    ("ConvTranspose", 11, {**LOWER, "strides": [2, 2], "output_shape": [9, 13],
                           "output_padding": [1, 1]}, (2, 2)),
    ("ConvTranspose", 11, {"auto_pad": "VALID", "strides": [3, 3], "output_padding": [1, 0]}, (2, 2)),
    ("Conv", 11, {**UPPER, "dilations": [2, 1]}, (2, 3)),
    ("Conv", 11, {**LOWER, "dilations": [1, 3], "strides": [2, 1]}, (3, 2)),
]
SAMPLES, CHANNELS, EXTENT = 4, 3, (5, 6)


def save(path, case, is_open=False):
    """Conv -> the node -> Relu."""
    op, opset, attributes, kernel = case
    rng = np.random.default_rng(3)
    held = {"w": rng.normal(size=(4, CHANNELS, 1, 1)).astype(np.float32)}
    if kernel:
        channels = (2, 4) if op == "Conv" else (4, 2)
        held["v"] = rng.normal(size=(*channels, *kernel)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
             helper.make_node(op, ["c", "v"] if kernel else ["c"], ["p"], "window", **attributes),
             helper.make_node("Relu", ["p"], ["y"], "relu")]
    dims = ["H", "W"] if is_open else EXTENT
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, *dims])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        [numpy_helper.from_array(v, k) for k, v in held.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                ir_version=8), path)


def by_onnxruntime(path, x):
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": one})[0] for one in x]


def by_openvino(path, x):
    core = ov.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO"}
    compiled = core.compile_model(core.read_model(path), "CPU", options)
    return [next(iter(compiled([one]).values())) for one in x]


FILES = [  # backend, name, words of qg export, runtime
    ("ort-int8", "ort.onnx", ("--format", "onnx-qdq", "--placement", "ort"), by_onnxruntime),
    ("ort-int8", "op.onnx", ("--format", "onnx-qoperator"), by_onnxruntime),
    ("trt-int8", "trt.onnx", ("--format", "onnx-qdq", "--placement", "trt"), by_onnxruntime),
    ("openvino-avx2-int8", "qdq.onnx", ("--format", "onnx-qdq", "--placement", "openvino"), by_openvino),
    ("openvino-avx2-int8", "fq.onnx", ("--format", "openvino-fq",), by_openvino),
    ("openvino-avx2-int8", "ir.xml", ("--format", "openvino-ir"), by_openvino),
]


def closed(folder, case, x, bad):
    what = f"{case[0]} {case[2]}"
    path = f"{folder}/m.onnx"
    save(path, case)
    made = {}
    wide = case[2].get("dilations") == [3, 2]  # as the kernel: ONNX Runtime refuses it
    for backend, name, words, run in FILES:
        if backend not in made:
            made[backend] = agreement.Snapshot(f"{folder}/{backend}", path, backend, x)
        s = made[backend]
        want = np.stack(s.outputs("simulate")[0])
        try:
            file, report = s.export(name, *words)
            got = np.stack(run(file, x))
        except Exception as why:  # the format's, or of the runtimes
            if "openvino-ir" not in words or "dilations" not in case[2] and case[0] != "LpPool":
                bad.append(f"{what}: {name}: {str(why)[:300]}")
            continue
        rows = [loss for loss in report["losses"] if "padding than ONNX" in loss["meaning"]]
        if len(rows) != (wide and run == by_onnxruntime):
            bad.append(f"{what}: {name}: {rows}")
        if rows:
            continue
        step = np.abs(want).max() / 100
        if got.shape != want.shape:
            bad.append(f"{what}: {name}: shape {got.shape}, expected {want.shape}")
        elif not np.mean(np.abs(got - want) < step) > 0.97:
            bad.append(f"{what}: {name}: {np.mean(np.abs(got - want) < step):.3f} near")


def opened(folder, case, x, bad):
    """Of a node whose dims are open."""
    path = f"{folder}/open.onnx"
    save(path, case, is_open=True)
    for backend, name, words, _ in FILES[0], FILES[3], FILES[4]:
        s = agreement.Snapshot(f"{folder}/open-{backend}", path, backend, x)
        _, report = s.export(name, *words)
        rows = [loss for loss in report["losses"] if "padding than ONNX" in loss["meaning"]]
        told = backend == "ort-int8" or case[0] != "Conv"  # OpenVINO derives those of a Conv
        if len(rows) != told or not all(row["changes_results"] for row in rows):
            bad.append(f"open {case[0]}: {name}: {report['losses']}")
        target = "ort" if backend == "ort-int8" else "openvino"
        lint = subprocess.run([agreement.QG, "lint", s.path, "--target", target, "--json"],
                              capture_output=True, text=True)
        if ("derived-pads" in lint.stdout) != told:
            bad.append(f"open {case[0]}: lint {target}: {lint.stdout[:300]} {lint.stderr}")


def looped(folder, case, x, bad, grows):
    """In a Loop whose body adds to its state, or appends to it, so that its dims are open."""
    op, opset, attributes, _ = case
    info = helper.make_tensor_value_info
    state = [1, 4, EXTENT[0], None if grows else EXTENT[1]]
    body = helper.make_graph(
        [helper.make_node("Concat", ["s", "c"], ["t"], axis=3) if grows
         else helper.make_node("Add", ["s", "c"], ["t"]),
         helper.make_node(op, ["t"], ["p"], "window", **attributes),
         helper.make_node("ReduceMax", ["p"], ["m"], keepdims=1),
         helper.make_node("Identity", ["more"], ["again"])], "body",
        [info("i", TensorProto.INT64, []), info("more", TensorProto.BOOL, []),
         info("s", TensorProto.FLOAT, state)],
        [info("again", TensorProto.BOOL, []), info("t", TensorProto.FLOAT, state),
         info("m", TensorProto.FLOAT, None)])
    held = {"w": np.ones((4, CHANNELS, 1, 1), np.float32), "n": np.int64(2), "true": np.bool_(True)}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
         helper.make_node("Loop", ["n", "true", "c"], ["last", "y"], "loop", body=body)], "g",
        [info("x", TensorProto.FLOAT, [1, CHANNELS, *EXTENT])], [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in held.items()])
    path = f"{folder}/loop.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                ir_version=8), path)
    s = agreement.Snapshot(f"{folder}/loop", path, "ort-int8", x)
    file, report = s.export("loop-qdq.onnx", "--format", "onnx-qdq")
    rows = [loss for loss in report["losses"] if "padding than ONNX" in loss["meaning"]]
    if len(rows) != grows or any(not row["changes_results"] for row in rows):
        bad.append(f"loop {case[0]}: {report['losses']}")
    body = next(n for n in onnx.load(file).graph.node if n.op_type == "Loop").attribute[0].g
    given = {a.name for n in body.node if n.op_type == op for a in n.attribute}
    if ("pads" in given) == grows:
        bad.append(f"loop {case[0]}, open: {grows}: {given}")
    if not grows:
        want, got = s.outputs("simulate")[0], by_onnxruntime(file, x)
        if not np.allclose(want, got, atol=np.abs(want).max() / 50):
            bad.append(f"loop {case[0]}: other values")


def choice(path, case):
    """Conv -> If, with the node in both branches."""
    op, opset, attributes, _ = case
    info = helper.make_tensor_value_info
    branches = {f"{name}_branch": helper.make_graph(
        [helper.make_node(op, ["c"], [name], f"window_{name}", **attributes)], name, [],
        [info(name, TensorProto.FLOAT, None)]) for name in ("then", "else")}
    held = {"w": np.random.default_rng(3).normal(size=(4, CHANNELS, 1, 1)).astype(np.float32),
            "zero": np.float32(0)}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
         helper.make_node("ReduceMax", ["c"], ["m"], "most", keepdims=0),
         helper.make_node("Greater", ["m", "zero"], ["b"], "greater"),
         helper.make_node("If", ["b"], ["y"], "either", **branches)], "g",
        [info("x", TensorProto.FLOAT, [1, CHANNELS, *EXTENT])], [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in held.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                ir_version=8), path)


BEHIND = {"kernel_shape": [2, 1], "strides": [3, 4], "ceil_mode": 1}  # a window begins behind 5
COUNTED = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1,
           "pads": [1, 0, 1, 1]}
ROUNDED_UP = [  # and whether open dims are a row
    (("MaxPool", 12, BEHIND, None), True),
    (("MaxPool", 12, {**BEHIND, "auto_pad": "NOTSET"}, None), True),
    (("MaxPool", 12, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1},
      None), False),
    (("AveragePool", 11, BEHIND, None), False),
    (("AveragePool", 11, {**COUNTED, "auto_pad": "NOTSET"}, None), False),
    (("AveragePool", 19, COUNTED, None), False),
    (("AveragePool", 19, {**COUNTED, "kernel_shape": [2, 2], "dilations": [2, 1]}, None), True),
    (("AveragePool", 19, {**BEHIND, "kernel_shape": [3, 2], "pads": [1, 0, 2, 1]}, None), False),
    (("AveragePool", 11, {**BEHIND, "kernel_shape": [2, 2], "count_include_pad": 1}, None), False),
    (("LpPool", 18, {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1, "p": 3}, None), True),
]


def rounded_up(folder, x, bad):
    """Pools by ceil_mode for OpenVINO: written with pads also in the branches of an If; with
    open dims where OpenVINO reads them rightly, else a row."""
    for (case, row), form in ((c, f) for c in ROUNDED_UP for f in ("closed", "open", "If")):
        path = f"{folder}/up.onnx"
        choice(path, case) if form == "If" else save(path, case, form == "open")
        s = agreement.Snapshot(f"{folder}/up-{form}", path, "openvino-avx2-int8", x)
        want = np.stack(s.outputs("simulate")[0])
        for _, name, words, run in FILES[3:]:
            what = f"{form} {case}: {name}"
            if name == "ir.xml" and (form != "closed" or case[0] == "LpPool" or
                                     "dilations" in case[2]):
                continue
            file, report = s.export(name, *words)
            rows = ["ceil_mode with open dims" in loss["meaning"] for loss in report["losses"]
                    if loss["changes_results"]]
            if rows != [True] * (row and form == "open"):
                bad.append(f"{what}: {report['losses']}")
            if not any(rows):
                got = np.stack(run(file, x))
                near = got.shape == want.shape and np.mean(
                    np.abs(got - want) < np.abs(want).max() / 100)
                if near < 0.97:
                    bad.append(f"{what}: {got.shape} for {want.shape}, near {near}")


def cut_off(folder, x, bad):
    """Windows larger than the padded data: OpenVINO refuses what has no larger pads, since
    other dims are open."""
    more = {"kernel_shape": [7, 2], "strides": [3, 2], "ceil_mode": 1}
    cases = [("MaxPool", 12, more, None), ("AveragePool", 11, more, None),
             ("AveragePool", 11, {**more, "count_include_pad": 1}, None), ("LpPool", 18, more, None)]
    for case in cases:
        path = f"{folder}/cut.onnx"
        save(path, case)
        for backend, name, words, run in FILES[0], FILES[3], FILES[4]:
            s = agreement.Snapshot(f"{folder}/cut-{backend}", path, backend, x)
            want = np.stack(s.outputs("simulate")[0])
            got = np.stack(run(s.export(name, *words)[0], x))
            near = got.shape == want.shape and np.mean(
                np.abs(got - want) < np.abs(want).max() / 100)
            if near < 0.97:
                bad.append(f"cut off {case}: {name}: {got.shape}, near {near}")
        model = onnx.load(path)
        model.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "W"
        onnx.save(model, path)
        s = agreement.Snapshot(f"{folder}/cut-open", path, "openvino-avx2-int8", x)
        try:
            s.export("cut.onnx", "--format", "openvino-fq")
            bad.append(f"cut off {case}, open: no error")
        except Exception as why:
            if "larger than the padded extent of axis 2" not in str(why):
                bad.append(f"cut off {case}, open: {str(why)[:300]}")


def main():
    bad = []
    x = np.random.default_rng(4).normal(size=(SAMPLES, 1, CHANNELS, *EXTENT)).astype(np.float32)
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            closed(folder, case, x, bad)
    for case in CASES[0], CASES[5], CASES[9], CASES[-1]:
        with tempfile.TemporaryDirectory() as folder:
            opened(folder, case, x, bad)
    for case in CASES[0], CASES[6]:
        with tempfile.TemporaryDirectory() as folder:
            looped(folder, case, x, bad, grows=True)
            looped(folder, case, x, bad, grows=False)
    with tempfile.TemporaryDirectory() as folder:
        rounded_up(folder, x, bad)
        cut_off(folder, x, bad)
    for line in bad:
        print("FAILED", line)
    print(f"{len(CASES)} nodes, {len(FILES)} files each")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
