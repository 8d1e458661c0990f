#!/usr/bin/env python3
"""Models of 16-bit floats: they are quantized as their float32 twin is, exported in
their own type, and ONNX Runtime computes from the file what the simulation computes."""
import pathlib
import subprocess
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
import agreement
from command import answer, qg

CODES = {"float32": T.FLOAT, "float16": T.FLOAT16, "bfloat16": T.BFLOAT16}
BACKENDS = "trt-int8", "ort-int8", "openvino-int8", "tflite-int8"


def constant(name, array, code):
    return h.make_tensor(name, code, array.shape, np.ravel(array).astype(float).tolist())


def island(code, value, name):
    """x / sqrt(sum x^2) in float32, as exporters write a normalization of a half model."""
    node = h.make_node
    return [node("Cast", [value], [f"{name}_wide"], f"{name}_up", to=T.FLOAT),
            node("Mul", [f"{name}_wide"] * 2, [f"{name}_square"], f"{name}_mul"),
            node("ReduceSum", [f"{name}_square", "last"], [f"{name}_mean"],
                 f"{name}_reduce"),
            node("Add", [f"{name}_mean", f"{name}_eps"], [f"{name}_sum"], f"{name}_add"),
            node("Sqrt", [f"{name}_sum"], [f"{name}_root"], f"{name}_sqrt"),
            node("Div", [f"{name}_wide", f"{name}_root"], [f"{name}_ratio"], f"{name}_div"),
            node("Cast", [f"{name}_ratio"], [f"{name}_out"], f"{name}_down", to=code)]


def network(code, interface, opset):
    """Convolutions, BatchNormalization, Resize (float32 scales), ConstantOfShape of the
    type, a float32 island, an If that reads outer values (ONNX Runtime has none for
    bfloat16), a dense layer."""
    rng = np.random.default_rng(3)
    node, new = h.make_node, lambda *s: rng.normal(0, 0.4, s).astype(np.float16)
    branch = [h.make_graph([node(op, ["joined"], [f"{op}_out"], f"in_{op}")], op, [],
                           [h.make_tensor_value_info(f"{op}_out", code, None)])
              for op in ("Relu", "Neg")]
    nodes = [
        node("Conv", ["h", "w0", "b0"], ["c0"], "conv0", pads=[1] * 4),
        node("BatchNormalization", ["c0", "gain", "shift", "mean", "var"], ["n0"], "bn"),
        node("Relu", ["n0"], ["r0"], "relu0"),
        node("MaxPool", ["r0"], ["p0"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["p0", "", "scales"], ["u0"], "resize", mode="nearest"),
        node("Conv", ["u0", "w1"], ["c1"], "conv1"),
        node("Shape", ["c1"], ["size"], "shape"),
        node("ConstantOfShape", ["size"], ["half"], "fill",
             value=constant("v", np.array([0.5]), code)),
        node("Add", ["c1", "half"], ["joined"], "add"),
        node("ReduceSum", ["joined", "axes"], ["total"], "total", keepdims=0),
        node("Greater", ["total", "zero"], ["yes"], "greater"),
        node("If", ["yes"], ["chosen"], "if", then_branch=branch[0],
             else_branch=branch[1]) if opset < 22 else
        node("Relu", ["joined"], ["chosen"], "if"),
        node("Flatten", ["chosen"], ["flat"], "flatten"),
        *island(code, "flat", "norm"),
        node("Gemm", ["norm_out", "w2", "b2"], ["g"], "gemm"),
    ]
    first, last = "x", "y"
    if interface == code:
        nodes[0].input[0], nodes[-1].output[0] = first, last
    else:
        nodes = [node("Cast", [first], ["h"], "down", to=code), *nodes,
                 node("Cast", ["g"], [last], "up", to=interface)]
    held = {"w0": new(8, 3, 3, 3), "b0": new(8), "gain": 1 + new(8) / 4, "shift": new(8),
            "mean": new(8) / 4, "var": 1 + new(8) ** 2, "w1": new(4, 8, 1, 1),
            "w2": new(256, 10), "b2": new(10), "zero": np.zeros(())}
    if code == T.FLOAT:  # a Cast of nothing is what the twin has not
        nodes = [node("Identity", n.input, n.output) if n.op_type == "Cast" else n
                 for n in nodes]
    graph = h.make_graph(
        nodes, "half", [h.make_tensor_value_info(first, interface, [1, 3, 8, 8])],
        [h.make_tensor_value_info(last, interface, [1, 10])],
        [constant(k, v, code) for k, v in held.items()] +
        [onnx.numpy_helper.from_array(np.float32([1, 1, 2, 2]), "scales"),
         onnx.numpy_helper.from_array(np.int64([0, 1, 2, 3]), "axes"),
         onnx.numpy_helper.from_array(np.int64([-1]), "last"),
         onnx.numpy_helper.from_array(np.float32(1e-3), "norm_eps")])
    return h.make_model(graph, ir_version=8, opset_imports=[h.make_opsetid("", opset)])


def run_ort(path, x):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    agreement.do_not_saturate(options, path)
    session = ort.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    kind = np.float16 if "float16" in session.get_inputs()[0].type else np.float32
    return np.stack([session.run(None, {"x": i[None].astype(kind)})[0][0] for i in x])


def distance(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(((a - b) ** 2).sum() / (b ** 2).sum())


def check_file(path, name, interface, kept):
    """Types of the interface, of convolutions and of the island."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {v.name: v.type.tensor_type.elem_type
             for v in [*graph.input, *graph.output, *graph.value_info]}
    want = CODES[name] if kept else T.FLOAT
    assert types["x"] == types["y"] == (interface if kept else T.FLOAT), types
    made = {n.name: types[n.output[0]] for n in graph.node if n.output[0] in types}
    for node in "conv0", "conv1", "pool", "gemm", "if":
        is_if = node == "if" and name == "float16"  # bodies keep their type
        held = CODES[name] if is_if else want
        assert made[node] == held, (node, made[node])
    for node in "norm_mul", "norm_sqrt", "norm_div":
        assert made[node] == T.FLOAT, (node, made[node])


def read_back(file, folder, data):
    """The simulated output of an import of the file."""
    qg("import", file, "--format", "onnx-qdq", "-o", folder / "back")
    qg("run", folder / "back", "-d", data, "--mode", "simulate", "-o", folder / "again")
    return np.load(folder / "again" / "y.npy")


def check(folder, name, interface, opset):
    kind = f"{name}-{interface}"
    models = {n: folder / f"{n}-{kind}.onnx" for n in ("own", "twin")}
    onnx.save(network(CODES[name], interface, opset), models["own"])
    onnx.save(network(T.FLOAT, T.FLOAT, opset), models["twin"])
    x = np.random.default_rng(1).normal(0, 1, (6, 3, 8, 8)).astype(np.float16)
    data = folder / "x.npy"
    np.save(data, x)
    for backend in BACKENDS:
        rows, error = {}, {}
        for n, path in models.items():
            snap = folder / f"{n}-{kind}-{backend}"
            rows[n] = answer("quantize", path, "-b", backend, "-d", data, "-o", snap)
            found = answer("analyse", snap, "-d", data)
            error[n] = found["errors"][0]["error"]
        count = {n: r["quantized_nodes"] for n, r in rows.items()}
        assert count["own"] == count["twin"] >= 4, (backend, count)
        count = {n: r["endpoints"] for n, r in rows.items()}
        assert count["own"] == count["twin"] >= 10, (backend, count)
        assert np.isfinite(error["own"]) and error["own"] > 0, error
        assert abs(error["own"] / error["twin"] - 1) < 0.7, error
        snap = folder / f"own-{kind}-{backend}"
        out = folder / "out"
        qg("run", snap, "-d", data, "--mode", "simulate", "-o", out)
        ours = np.load(out / "y.npy")
        for how in ("auto", "model", "float32"):
            kept = how != "float32" and not (how == "auto" and name == "bfloat16")
            file = folder / "q.onnx"
            report = answer("export", snap, "--format", "onnx-qdq", "--placement", "ort",
                            "--float", how, "-o", file)
            check_file(file, name, interface, kept)
            changed = {r["lost"] for r in report["losses"] if r["changes_results"]}
            assert ("float-type" in changed) == kept, (backend, how, report["losses"])
            if not changed:
                assert np.array_equal(read_back(file, folder, data), ours), (backend, how)
            if kept and name == "bfloat16":
                continue  # ONNX Runtime has no kernels
            off = distance(run_ort(file, x), ours)
            print(f"{kind:12} {backend:14} {how:8} quantization {error['own']:.2e} "
                  f"file {off:.2e}")
            assert off < 0.3 * error["own"], (backend, how, off, error)


def check_share(folder):
    """One line when little is quantized, by reason."""
    rng = np.random.default_rng(0)
    node = h.make_node
    held = {"w": rng.normal(0, 1, (2, 2, 3, 3)), "c": np.array(True)}
    info = h.make_tensor_value_info
    body = [h.make_graph([node("Conv", ["r", "w"], [f"o{k}"], f"inner{k}")], f"b{k}", [],
                         [info(f"o{k}", T.FLOAT, None)]) for k in range(2)]
    graph = h.make_graph(
        [node("Conv", ["x", "w"], ["r"], "outer"),
         node("ReduceSum", ["r"], ["sum"], "sum", keepdims=0),
         node("Greater", ["sum", "zero"], ["yes"], "greater"),
         node("If", ["yes"], ["y"], "if", then_branch=body[0], else_branch=body[1])],
        "share", [info("x", T.FLOAT, [1, 2, 8, 8])], [info("y", T.FLOAT, None)],
        [constant("w", held["w"], T.FLOAT), constant("zero", np.zeros(()), T.FLOAT)])
    model = folder / "share.onnx"
    onnx.save(h.make_model(graph, ir_version=8,
                           opset_imports=[h.make_opsetid("", 17)]), model)
    data, snap = folder / "s.npy", folder / "share"
    np.save(data, rng.normal(0, 1, (2, 2, 8, 8)).astype("f"))
    line = ("1 of 3 compute nodes are quantized by trt-int8 (2: in a body of If, whose "
            "nodes stay float)")
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", snap, warns="quantize: " + line)
    qg("run", snap, "-d", data, "-o", folder / "o", warns="simulate: " + line)
    qg("export", snap, "--format", "onnx-qdq", "-o", folder / "q.onnx",
       warns="export: " + line)
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", snap, "--set",
       "op=Conv platform=fp32", warns="0 of 3 compute nodes are quantized by trt-int8 (2: "
       "in a body of If, whose nodes stay float; 1: rule ")


def check_range(folder):
    """float32 samples are taken without rounding, and refused where the type of the network
    has an infinity: by quantize and by a snapshot as by the model."""
    model, snap, data = folder / "range.onnx", folder / "range", folder / "range.npy"
    info = h.make_tensor_value_info
    w = constant("w", np.random.default_rng(0).normal(0, 1, (2, 2, 3, 3)), T.FLOAT16)
    graph = h.make_graph([h.make_node("Conv", ["x", "w"], ["y"], "conv")], "range",
                         [info("x", T.FLOAT16, [1, 2, 8, 8])], [info("y", T.FLOAT16, None)], [w])
    onnx.save(h.make_model(graph, ir_version=8, opset_imports=[h.make_opsetid("", 17)]), model)
    x = np.random.default_rng(1).normal(0, 1, (4, 2, 8, 8)).astype("f")
    for top, refused in ((65504, False), (65519, False), (65520, True), (-1e6, True)):
        x[1, 0, 2, 3] = top
        np.save(data, x)
        for words in (("quantize", model, "-b", "ort-int8", "-d", data, "-o", snap),
                      ("run", snap, "-d", data, "-o", folder / "o")):
            done = subprocess.run([agreement.QG, *map(str, words)], capture_output=True, text=True)
            said = "which float16 cannot represent" in done.stderr
            assert (done.returncode != 0) == said == refused, (top, words, done.stderr)


with tempfile.TemporaryDirectory() as place:
    root = pathlib.Path(place)
    check_range(root)
    check_share(root)
    check(root, "float16", T.FLOAT16, 17)
    check(root, "float16", T.FLOAT, 17)
    check(root, "bfloat16", T.FLOAT, 22)
print("ok")
