#!/usr/bin/env python3
"""A model whose heights and widths are symbols: with samples of one shape every verb
behaves as for the model of that shape, at the same speed; with samples of several
shapes it runs and quantizes, and reports where it cannot measure."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import answer, qg

OPEN, CLOSED = ["N", 3, "H", "W"], [1, 3, 24, 32]


def write_model(path, shape, *more):
    """Two convolutions, the second resized to the size of the input: Shape at work."""
    rng = np.random.default_rng(5)
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["c0"], "conv0", pads=[1] * 4, strides=[2, 2]),
        node("Relu", ["c0"], ["r0"], "relu0"),
        node("Conv", ["r0", "w1"], ["c1"], "conv1"),
        node("Shape", ["x"], ["size"], "shape", start=2),
        node("Shape", ["c1"], ["front"], "channels", end=2),
        node("Concat", ["front", "size"], ["sizes"], "sizes", axis=0),
        node("Resize", ["c1", "", "", "sizes"], ["y"], "resize", mode="nearest"),
        node("GlobalAveragePool", ["c1"], ["mean"], "mean"),
    ]
    weights = {"w0": (8, 3, 3, 3), "w1": (4, 8, 1, 1)}
    graph = helper.make_graph(
        nodes, "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
         for name, dims in (("y", None), *more)],
        [onnx.numpy_helper.from_array(rng.normal(0, 0.4, s).astype("f"), n)
         for n, s in weights.items()])
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), path)


def scales(snapshot):
    quant = json.loads((snapshot / "quant.json").read_text())
    return {(t["node"], t["slot"]): t["scale"] for t in quant["tqcs"]}


def errors(*words):
    return answer(*words)["errors"]


def same_as_closed(work, data):
    """Scales, errors, ranking: those of the model with the shape written in."""
    shot = {}
    for name in ("open", "closed"):
        model, shot[name] = work / f"{name}.onnx", work / name
        qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", shot[name])
    mine, theirs = scales(shot["open"]), scales(shot["closed"])
    shared = mine.keys() & theirs.keys()
    assert len(shared) > 4 and all(mine[k] == theirs[k] for k in shared)
    for words in (["analyse", "--by", "graph"], ["analyse", "--by", "layer"],
                  ["sensitivity", "--by", "endpoint"], ["sensitivity"]):
        found = [{r["name"]: r["error"] for r in errors(words[0], shot[n], "-d", data,
                                                        *words[1:])} for n in shot]
        assert found[0] == found[1] and max(found[0].values()) > 0, (words, found)
    found = [errors("compare", work / f"{n}.onnx", "-d", data, "-b", "trt-int8", "-b",
                    "ncnn-int8") for n in shot]
    assert found[0] == found[1] and len(found[0]) == 2 and found[0][0]["error"] > 0, found
    assert answer("price", shot["open"], "-d", data)["network"] > 0
    found = [answer("search", shot[n], "-d", data, "--budget", "bits=6", "-o",
                    work / "policy.yaml") for n in shot]
    for fact in "groups", "groups_left", "mean_bits", "nsr":
        assert found[0][fact] == found[1][fact], fact
    assert any(g["kind"] == "activation" for g in found[0]["groups"])


def mean_of_each(words, folder, column="error"):
    """By name, the mean of the errors that every sample has alone."""
    each = [{r["name"]: r[column] for r in errors(*words, "-d", one)}
            for one in sorted(folder.iterdir())]
    return {name: np.mean([e[name] for e in each]) for name in each[0]}


def several_shapes(work, *more):
    """Each sample is measured in its own shape; errors are means over samples."""
    folder, model = work / "several", work / "several.onnx"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(6)
    for i, size in enumerate([(24, 32), (16, 16), (9, 40)]):
        np.save(folder / f"{i}.npy", rng.uniform(-1, 1, (1, 3, *size)).astype("f"))
    snapshot = work / "from-several"
    write_model(model, OPEN, *more)
    qg("quantize", model, "-b", "trt-int8", "-d", folder, "-o", snapshot)
    qg("run", snapshot, "-d", folder, "-o", work / "out")
    for words, column in ((["analyse", snapshot], "error"),
                          (["analyse", snapshot, "--by", "layer"], "error"),
                          (["analyse", snapshot, "--mode", "integer"], "integer")):
        all_of_them = {r["name"]: r[column] for r in errors(*words, "-d", folder)}
        for name, mean in mean_of_each(words, folder, column).items():
            assert mean > 0 and abs(all_of_them[name] / mean - 1) < 1e-5, (words, name)
        assert all_of_them.keys() == mean_of_each(words, folder, column).keys(), words
    outputs = {"y", *(name for name, _ in more)}
    assert {r["name"] for r in errors("analyse", snapshot, "-d", folder)} == outputs
    whole, parts = (errors("sensitivity", snapshot, "-d", folder, *w)
                    for w in (["--whole"], []))
    assert whole == parts and max(r["error"] for r in parts) > 0
    compared = errors("compare", model, "-b", "trt-int8", "-d", folder)
    assert {r["output"] for r in compared} == outputs
    assert answer("price", snapshot, "-d", folder)["network"] > 0
    search = ["search", snapshot, "-d", folder, "--budget", "bits=6", "-o",
              work / "policy.yaml"]
    qg(*search, warns="search: the samples have several shapes")
    found = answer(*search)["groups"]
    assert {g["kind"] for g in found} == {"activation", "weight"}
    page = answer("report", snapshot, "-d", folder, "-o", work / "page.html")
    assert page is not None


def check_disagreeing(work):
    """One name of a dim, two lengths: the message of the node that does not fit names the
    inputs; where every node fits, the samples are as good as any."""
    info, real = helper.make_tensor_value_info, TensorProto.FLOAT
    model, data = work / "disagree.onnx", work / "disagree.npz"
    for op, length, fails in (("Add", 3, True), ("MatMul", 3, True), ("Concat", 3, False),
                              ("Add", 5, False)):
        product = op == "MatMul"
        inputs = [info("x", real, [1, 1, "L"]),
                  info("past", real, [1, "L", 4] if product else [1, 1, "L"])]
        node = helper.make_node(op, ["x", "past"], ["y"], "join",
                                **({"axis": 2} if op == "Concat" else {}))
        graph = helper.make_graph([node], "g", inputs, [info("y", real, None)])
        onnx.save(helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        np.savez(data, x=np.ones((2, 1, 1, 5), "f"),
                 past=np.ones((2, 1, length, 4) if product else (2, 1, 1, length), "f"))
        done = subprocess.run([os.environ.get("QG", "build/qg"), "run", model, "-d", data, "-o",
                               work / "out"], capture_output=True, text=True)
        named = ("input 'x' has length 5 on dim 'L', input 'past' has 3, expected the same"
                 in done.stderr)
        assert (done.returncode != 0) == named == fails, (op, length, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        write_model(work / "open.onnx", OPEN)
        write_model(work / "closed.onnx", CLOSED)
        data = work / "data.npy"
        rng = np.random.default_rng(7)
        np.save(data, rng.uniform(-1, 1, (6, *CLOSED)).astype("f"))
        same_as_closed(work, data)
        check_disagreeing(work)
        several_shapes(work)
        several_shapes(work, ("mean", [1, 4, 1, 1]))


if __name__ == "__main__":
    main()
