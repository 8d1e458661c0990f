#!/usr/bin/env python3
"""A model whose heights and widths are symbols: with samples of one shape every verb
behaves as for the model of that shape, at the same speed; with samples of several
shapes it runs and quantizes, and reports where it cannot measure."""
import json
import pathlib
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


def write_model(path, shape):
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
    ]
    weights = {"w0": (8, 3, 3, 3), "w1": (4, 8, 1, 1)}
    graph = helper.make_graph(
        nodes, "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
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


def several_shapes(work):
    folder = work / "several"
    folder.mkdir()
    rng = np.random.default_rng(6)
    for i, size in enumerate([(24, 32), (16, 16), (9, 40)]):
        np.save(folder / f"{i}.npy", rng.uniform(-1, 1, (1, 3, *size)).astype("f"))
    snapshot = work / "from-several"
    qg("quantize", work / "open.onnx", "-b", "trt-int8", "-d", folder, "-o", snapshot)
    qg("run", snapshot, "-d", folder, "-o", work / "out")
    for words in (["analyse", snapshot], ["sensitivity", snapshot], ["price", snapshot],
                  ["compare", work / "open.onnx", "-b", "trt-int8"]):
        qg(*words, "-d", folder, fails="no output is float32 with a shape that is known")
    only = ["-d", folder, "-n", 1]
    assert errors("analyse", snapshot, *only, "--by", "graph")[0]["error"] > 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        write_model(work / "open.onnx", OPEN)
        write_model(work / "closed.onnx", CLOSED)
        data = work / "data.npy"
        rng = np.random.default_rng(7)
        np.save(data, rng.uniform(-1, 1, (6, *CLOSED)).astype("f"))
        same_as_closed(work, data)
        several_shapes(work)


if __name__ == "__main__":
    main()
