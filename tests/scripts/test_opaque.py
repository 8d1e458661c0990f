#!/usr/bin/env python3
"""A node of an unknown operator is kept as it is, unless it is ONNX's own: import names it in one line; verbs that do
not run it work; what it does not feed is calibrated exactly as in the network without it;
what it feeds stays float, with the reason; every ONNX file has it with its attributes; to
run it is an error that names node, operator and domain.  Also inside a body of If, and
where only another output depends on it.  So are the operators of com.microsoft that are
not known."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T, helper as h
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
BACKENDS = "trt-int8", "ort-int8", "openvino-int8", "tflite-int8"
node = h.make_node
NAMES = "node 'odd'", "com.acme.Swirl"


def qg(*words, fails=()):
    run = subprocess.run([QG, *map(str, words)], capture_output=True, text=True)
    if fails:
        assert run.returncode == 1, (words, run)
        assert all(f in run.stderr for f in fails), (words, run.stderr)
    else:
        assert run.returncode == 0, (words, run.stderr)
    return run.stdout, run.stderr


def swirl(x, y):
    return node("Swirl", [x], [y], "odd", domain="com.acme", turns=3, axis=[1, 2],
                table=onnx.numpy_helper.from_array(np.arange(4, dtype="f"), "t"))


def plain(x, y):
    return [swirl(x, y)]


def inside(x, y):
    """In the branch of an If that depends on data."""
    def branch(nodes, name):
        return h.make_graph(nodes, name, [], [h.make_tensor_value_info(name, T.FLOAT, None)])
    return [node("ReduceSum", [x], ["sum"], "sum", keepdims=0),
            node("Greater", ["sum", "low"], ["c"], "greater"),
            node("If", ["c"], [y], "if", then_branch=branch([swirl(x, "a")], "a"),
                 else_branch=branch([node("Relu", [x], ["b"], "relu_in")], "b"))]


def write(path, odd):
    """conv0 -> relu0 -> conv1 -> y, and relu0 -> odd -> conv2 -> z.  odd None: only y."""
    rng = np.random.default_rng(3)
    nodes = [node("Conv", ["x", "w0"], ["c0"], "conv0"), node("Relu", ["c0"], ["r0"], "relu0"),
             node("Conv", ["r0", "w1"], ["y"], "conv1")]
    outputs = [h.make_tensor_value_info("y", T.FLOAT, [1, 4, 4, 4])]
    inner = []
    weights = {"w0": rng.normal(0, 1, (4, 3, 3, 3)), "w1": rng.normal(0, 1, (4, 4, 3, 3))}
    if odd:
        nodes += [*odd("r0", "s"), node("Conv", ["s", "w2"], ["z"], "conv2")]
        outputs.append(h.make_tensor_value_info("z", T.FLOAT, [1, 2, 4, 4]))
        inner = [h.make_tensor_value_info("s", T.FLOAT, [1, 4, 6, 6])]
        weights |= {"w2": rng.normal(0, 1, (2, 4, 3, 3)), "low": np.array(-1e9)}
    graph = h.make_graph(
        nodes, "odd", [h.make_tensor_value_info("x", T.FLOAT, [1, 3, 8, 8])], outputs,
        [onnx.numpy_helper.from_array(np.asarray(v, "f"), k) for k, v in weights.items()],
        value_info=inner)
    onnx.save(h.make_model(graph, ir_version=8, opset_imports=[
        h.make_opsetid("", 13), h.make_opsetid("com.acme", 2)]), path)


def endpoints(snapshot):
    quant = json.loads((snapshot / "quant.json").read_text())
    return {(t["node"], t["slot"]): (t["state"], t["scale"]) for t in quant["tqcs"]}, \
        {n["name"]: n for n in quant["nodes"]}


def found(graph):
    """The nodes of that domain, of bodies too."""
    for n in graph.node:
        if n.domain == "com.acme":
            yield n
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from found(a.g)


def attributes(n):
    """Name, type and value; the name of a tensor means nothing there."""
    values = {a.name: (a.type, h.get_attribute_value(a)) for a in n.attribute}
    return {k: (t, onnx.numpy_helper.to_array(v).tolist() if t == onnx.AttributeProto.TENSOR
                else v) for k, (t, v) in values.items()}


def check_file(path):
    model = onnx.load(path)
    odd, = found(model.graph)
    want = swirl("x", "y")
    assert odd.op_type == "Swirl" and attributes(odd) == attributes(want), odd
    assert any(o.domain == "com.acme" and o.version == 2 for o in model.opset_import)


def check(root, odd):
    folder = root / odd.__name__
    folder.mkdir()
    model, alone, data = folder / "m.onnx", folder / "alone.onnx", folder / "x.npy"
    write(model, odd)
    write(alone, None)
    np.save(data, np.random.default_rng(1).normal(0, 1, (3, 3, 8, 8)).astype("f"))
    _, err = qg("dump", model)
    assert all(name in err for name in NAMES) and len(err.splitlines()) == 1, err
    for backend in BACKENDS:
        snap, other = folder / backend, folder / f"{backend}.alone"
        _, err = qg("quantize", model, "-b", backend, "-d", data, "-o", snap)
        qg("quantize", alone, "-b", backend, "-d", data, "-o", other)
        mine, nodes = endpoints(snap)
        theirs, _ = endpoints(other)
        assert mine.items() >= {k: v for k, v in theirs.items()
                                if k[0] in ("conv0", "conv1")}.items(), (mine, theirs)
        assert nodes["conv0"]["platform"] == "quantized"
        assert nodes["conv2"]["platform"] == "fp32", nodes["conv2"]
        assert "odd" in nodes["conv2"].get("reason", "odd"), nodes["conv2"]
        qg("dump", snap)
        out, _ = qg("explain", snap, "conv2")
        assert "odd" in out, out
        check_file(snap / "model.onnx")
        qg("run", snap, "-d", data, "-o", folder / "out", fails=NAMES)
        if odd is plain:
            qg("analyse", snap, "-d", data, fails=NAMES)
            continue
        _, err = qg("analyse", snap, "-d", data)  # in front of the choice, without the If
        assert "chosen by the data: z" in err and NAMES[0] in err, err
    qg("export", folder / "ort-int8", "--format", "onnx-qdq", "-o", folder / "q.onnx")
    check_file(folder / "q.onnx")
    if odd is plain:  # the checker wants shapes of the outputs of a branch
        onnx.checker.check_model(onnx.load(folder / "q.onnx"))
    qg("run", model, "-d", data, "-o", folder / "out", "--mode", "float", fails=NAMES)
    qg("stats", "collect", model, "-d", data, "-o", folder / "s.qgs")
    print(f"{odd.__name__}: {len(BACKENDS)} backends")


def check_microsoft(root):
    """Beside known operators of the domain; a newer version of a known one is known."""
    model, data, snap = root / "ms.onnx", root / "ms.npy", root / "ms"
    rng = np.random.default_rng(5)
    domain, info = {"domain": "com.microsoft"}, h.make_tensor_value_info
    graph = h.make_graph(
        [node("MatMul", ["x", "w0"], ["h"], "mm0"), node("Gelu", ["h"], ["g"], "gelu", **domain),
         node("Inverse", ["g"], ["i"], "inverse", **domain),
         node("MatMul", ["i", "w0"], ["z"], "mm1"), node("MatMul", ["g", "w0"], ["y"], "mm2")],
        "ms", [info("x", T.FLOAT, [6, 6])], [info(n, T.FLOAT, [6, 6]) for n in "yz"],
        [onnx.numpy_helper.from_array(rng.normal(0, 1, (6, 6)).astype("f"), "w0")])
    onnx.save(h.make_model(graph, ir_version=8, opset_imports=[
        h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)]), model)
    np.save(data, rng.normal(0, 1, (3, 6, 6)).astype("f"))
    name = "node 'inverse' (com.microsoft.Inverse)"
    for backend in BACKENDS:
        _, err = qg("quantize", model, "-b", backend, "-d", data, "-o", snap)
        assert f"import: 1 node of unknown operators, first {name}" in err, err
        _, nodes = endpoints(snap)
        assert [nodes[k]["platform"] for k in ("mm0", "mm2", "mm1")] == \
            ["quantized", "quantized", "fp32"], nodes
        qg("export", snap, "--format", "onnx-qdq", "-o", root / "q.onnx")
        kept = [n for n in onnx.load(root / "q.onnx").graph.node if n.op_type == "Inverse"]
        assert len(kept) == 1 and kept[0].domain == "com.microsoft", kept
        qg("run", snap, "-d", data, "-o", root / "out", fails=(name, "unknown"))


with tempfile.TemporaryDirectory() as place:
    check_microsoft(pathlib.Path(place))
    for kind in plain, inside:
        check(pathlib.Path(place), kind)
    write(pathlib.Path(place) / "known.onnx", lambda x, y: [node("Swirl", [x], [y], "odd")])
    qg("dump", pathlib.Path(place) / "known.onnx", fails=("operator Swirl is not known",))
print("ok")
