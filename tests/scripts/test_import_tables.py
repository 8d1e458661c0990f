#!/usr/bin/env python3
"""qg import of tables that another tool completes.

TensorRT  a cache and a file of ranges have activations only; an import makes the scales of
          weights as TensorRT does, max |w| / 127 per output channel.  It simulates as the
          snapshot that was exported, when this has such weights, too
Weights   of layers behind nodes that only move elements have scales; of layers in float not
csv       the words of states in small letters are those in capitals
ncnn      a table for the layers of a .param file gives the same records as one for the nodes,
          by each way in which a layer is found
Skipped (77) without numpy and onnx."""
import json
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from command import answer, qg

WEIGHTS = "op=[Conv,ConvTranspose,Gemm,MatMul] slot=weight constant=yes range=-127,127"


def network(path, seed):
    """Convolutions, one transposed and one depthwise, a Concat, moves and two products."""
    random = np.random.RandomState(seed)
    table = {name: random.randn(*dims).astype(np.float32) for name, dims in {
        "w0": (6, 3, 3, 3), "w1": (6, 1, 3, 3), "w2": (6, 4, 2, 2), "w3": (40, 5),
        "w4": (5, 7), "b0": (6,)}.items()}
    table["w0"][2] = 0  # a channel without a range
    nodes = [("Conv", "x w0 b0", "c0", {"pads": [1] * 4}), ("Relu", "c0", "r0", {}),
             ("Conv", "r0 w1", "c1", {"pads": [1] * 4, "group": 6}),
             ("Concat", "c1 r0", "k", {"axis": 1}), ("MaxPool", "k", "p", {
                 "kernel_shape": [2, 2], "strides": [2, 2]}),
             ("Slice", "p from to axes", "s", {}), ("ConvTranspose", "s w2", "t", {}),
             ("AveragePool", "t", "a", {"kernel_shape": [3, 1], "strides": [3, 1]}),
             ("Flatten", "a", "f", {}), ("Gemm", "f w3", "g", {}), ("Sigmoid", "g", "i", {}),
             ("MatMul", "i w4", "y", {})]
    constants = [numpy_helper.from_array(v, k) for k, v in table.items()] + [
        numpy_helper.from_array(np.array([v], np.int64), k)
        for k, v in (("from", 0), ("to", 6), ("axes", 1))]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node(op, i.split(), [o], f"n_{o}", **more) for op, i, o, more in nodes],
        "g", [x], [y], constants)
    graph.node[9].input[1] = "w3"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    shapes = onnx.shape_inference.infer_shapes(model)
    wide = {v.name: v for v in shapes.graph.value_info}["f"].type.tensor_type.shape.dim[1].dim_value
    graph.initializer[3].CopyFrom(numpy_helper.from_array(
        random.randn(wide, 5).astype(np.float32), "w3"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                ir_version=8), path)


def records(snapshot):
    """{endpoint: state, scale, range} of what rounds."""
    return {f"{t['node']}.{t['slot']}": (t["state"], t["scale"], t["range"])
            for t in json.loads((snapshot / "quant.json").read_text())["tqcs"]
            if t["state"] in ("ACTIVATED", "BAKED")}


def run(snapshot, data, out):
    qg("run", snapshot, "-d", data, "--kernels", "reference", "-o", out)
    return [f.read_bytes() for f in sorted(out.glob("*.npy"))]


def check_tensorrt(folder, seed, form, sets=()):
    model, data, snap = folder / "m.onnx", folder / "x.npy", folder / "snap"
    network(model, seed)
    np.save(data, np.random.RandomState(seed).randn(4, 3, 8, 8).astype(np.float32))
    sets = [w for text in (WEIGHTS, *sets) for w in ("--set", text)]
    qg("quantize", model, "-b", "trt-int8", "-d", data, *sets, "-o", snap)
    qg("export", snap, "--format", form, "-o", folder / "table")
    report = answer("import", folder / "table", "--format", form, "--model",
                    folder / "table.onnx", "-o", folder / "back")
    ours, theirs = records(snap), records(folder / "back")
    baked = {k: v for k, v in ours.items() if v[0] == "BAKED"}
    assert baked and {k: v for k, v in theirs.items() if v[0] == "BAKED"} == baked, \
        (form, sorted(theirs), sorted(ours))
    assert report["weights"] == f"{len(baked)}: scales from their values, as the reader of " \
        "the file makes them", report
    assert run(snap, data, folder / "o0") == run(folder / "back", data, folder / "o1"), form
    whole = answer("run", folder / "back", "-d", data, "--mode", "integer", "--profile", "tensorrt",
                   "-o", folder / "o2")
    assert whole["integer"] > 0, whole
    return len(baked)


def check_states(folder):
    """As `qg list states` has the words."""
    model, data, snap = folder / "m.onnx", folder / "x.npy", folder / "snap"
    network(model, 84)
    np.save(data, np.random.RandomState(84).randn(4, 3, 8, 8).astype(np.float32))
    qg("quantize", model, "-b", "onnxruntime-int8", "-d", data, "--set", "node=n_i state=fp32",
       "-o", snap)
    qg("export", snap, "--format", "csv", "-o", folder / "a.csv")
    words = [row["state"] for row in answer("list", "states")["states"]]
    text, found = (folder / "a.csv").read_text(), 0
    for word in words:
        found += text.count("," + word.upper().replace("-", "_") + ",")
        text = text.replace("," + word.upper().replace("-", "_") + ",", f",{word},")
    assert len(words) == 11 and found == len(text.splitlines()) - 1, (words, found)
    (folder / "b.csv").write_text(text)
    for name in "ab":
        qg("import", folder / f"{name}.csv", "--format", "csv", "--model", folder / "a.onnx",
           "-o", folder / name)
    assert records(folder / "a") == records(folder / "b") != {}


PARAM = """7767517
5 5
Input x 0 1 x 0=8 1=8 2=3
Convolution {0} 1 1 x {1} 0=4 1=3 5=1 6=108
ReLU relu 1 1 {1} r 0=0
Convolution {2} 1 1 r {3} 0=5 1=1 5=0 6=20
InnerProduct {4} 1 1 {3} {5} 0=2 1=0 2={6}
"""
WAYS = {  # how layers are found: names and tops
    "names": ("n_a", "1", "n_b", "2", "n_c", "3"),
    "outputs": ("layer1", "a", "layer2", "b", "layer3", "c"),
    "places": ("layer1", "1", "layer2", "2", "layer3", "3"),
    "mixed": ("n_a", "1", "layer2", "b", "layer3", "3")}


def check_ncnn(folder):
    random = np.random.RandomState(5)
    table = {"w0": (4, 3, 3, 3), "w1": (5, 4, 1, 1), "w2": (2, 5 * 36)}
    constants = [numpy_helper.from_array(random.randn(*d).astype(np.float32), k)
                 for k, d in table.items()]
    nodes = [helper.make_node("Conv", ["x", "w0"], ["a"], "n_a"),
             helper.make_node("Relu", ["a"], ["r"], "relu"),
             helper.make_node("Conv", ["r", "w1"], ["b"], "n_b"),
             helper.make_node("Flatten", ["b"], ["f"], "n_f"),
             helper.make_node("Gemm", ["f", "w2"], ["c"], "n_c", transB=1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("c", TensorProto.FLOAT, None)
    model, data = folder / "n.onnx", folder / "n.npy"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], constants),
                                opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
    np.save(data, random.randn(4, 3, 8, 8).astype(np.float32))
    for k, sets in enumerate(((), ("--set", "node=n_b platform=fp32"))):  # a layer in float
        snap, plain = folder / f"ns{k}", folder / f"plain{k}"
        qg("quantize", model, "-b", "ncnn-int8", "-d", data, *sets, "-o", snap)
        table = folder / f"plain{k}.table"
        qg("export", snap, "--format", "ncnn-table", "-o", table)
        qg("import", table, "--format", "ncnn-table", "--model", table.with_suffix(".onnx"), "-o",
           plain)
        for way, names in WAYS.items():
            param, table, back = (folder / f"{way}{k}{end}" for end in (".param", ".table", ""))
            param.write_text(PARAM.format(*names, 2 * 5 * 36))
            qg("export", snap, "--format", "ncnn-table", "--names", param, "-o", table)
            words = ("import", table, "--format", "ncnn-table", "--model",
                     table.with_suffix(".onnx"), "--names", param, "--strict", "-o", back)
            qg(*words)
            assert records(back) == records(plain) != {}, (way, k)
    # without the file, and with one of another network
    table = folder / "places0.table"
    start = ("import", table, "--format", "ncnn-table", "--model", table.with_suffix(".onnx"))
    qg(*start, "-o", folder / "no", fails="none of its 6 entries is of the model: 'layer1_param_0' "
       "names no float32 value of the model; expected names as 'n_a', 'n_b', 'n_c', which")
    other = folder / "other.param"
    other.write_text(PARAM.format(*WAYS["places"], 7))
    qg(*start, "--names", other, "--strict", "-o", folder / "no",
       fails="2 entries are left out, 'layer3_param_0' first")
    other.write_text("1234\n")
    qg(*start, "--names", other, "-o", folder / "no", fails="does not begin with 7767517, expected")
    qg(*start[:2], "--format", "csv", *start[4:], "--names", other, "-o", folder / "no",
       fails="format 'csv': has no option 'names'", status=1)
    assert not (folder / "no").exists()


def main():
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        for form in ("tensorrt-cache", "tensorrt-json"):
            for seed, sets in ((81, ()), (82, ("node=n_c0 platform=fp32",)), (83, ())):
                place = folder / f"{form}{seed}"
                place.mkdir()
                print(form, seed, check_tensorrt(place, seed, form, sets), "weights")
        check_ncnn(folder)
        check_states(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
