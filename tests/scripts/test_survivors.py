#!/usr/bin/env python3
"""Defects that once were planted by hand and that no suite noticed: a writer that ignores
errors, external data through a symbolic link, quant.json without its model.onnx, two
roundings on one grid in an exported model, a model that does not name its producer."""
import os
import pathlib
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

QG = str(pathlib.Path(os.environ.get("QG", "build/qg")).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "configs/models/digits.onnx")
complaints = []


def run(words, most=None):
    """most: bytes of a file, after which writing fails as on a full disk."""
    command = [QG, *map(str, words)]
    if most:
        command = ["bash", "-c", f"trap '' XFSZ; ulimit -f {most // 1024}; exec \"$@\"",
                   "bash", *command]
    return subprocess.run(command, capture_output=True, text=True)


def expect(what, holds, got):
    if not holds:
        complaints.append(f"{what}: exit {got.returncode}, {got.stderr.strip()[:300]}")


def quantize(folder, *words):
    got = run(["quantize", DIGITS, "-b", "trt-int8", "-d", "random:2", "-o", folder, *words])
    expect("quantize", got.returncode == 0, got)


def test_writer_finds_errors(work):
    """Every kind of file keeps its old contents when the new ones do not fit."""
    quantize(work / "s")
    kinds = {
        "qdq.onnx": ["export", work / "s", "--format", "onnx-qdq", "-o", work / "qdq.onnx"],
        "ir.xml": ["export", work / "s", "--format", "openvino-ir", "-o", work / "ir.xml"],
        "ppq.json": ["export", work / "s", "--format", "ppq-json", "-o", work / "ppq.json"],
        "d.qgs": ["stats", "collect", DIGITS, "-d", "random:4", "-o", work / "d.qgs"],
    }
    for name, words in kinds.items():
        (work / name).write_bytes(b"old")
        got = run(words, 8 * 1024)
        expect(name, got.returncode == 1 and "File too large" in got.stderr, got)
        expect(f"{name} is no longer the old one", (work / name).read_bytes() == b"old", got)
    folder = work / "o"
    got = run(["run", DIGITS, "-d", "random:2", "--dump", "*", "-o", folder], 1024)
    expect("run", got.returncode == 1 and "File too large" in got.stderr, got)
    expect("run leaves files", not folder.exists() or not list(folder.rglob("*.npy")), got)


def test_snapshot_needs_both(work):
    """The disk has room for quant.json, not for model.onnx."""
    model = onnx.load(DIGITS)
    model.graph.initializer.append(numpy_helper.from_array(
        np.random.default_rng(1).random((1, 600_000), "f"), "large"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1]), "one"))
    model.graph.node.append(helper.make_node("Mul", ["large", "one_in"], ["more"]))
    model.graph.input.append(helper.make_tensor_value_info("one_in", TensorProto.FLOAT, [1]))
    model.graph.output.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, None))
    onnx.save(model, work / "large.onnx")
    words = ["quantize", work / "large.onnx", "-b", "trt-int8", "-d", "random:1", "-o"]
    got = run([*words, work / "whole"])
    expect("quantize", got.returncode == 0, got)
    size = {p.name: p.stat().st_size for p in (work / "whole").iterdir()}
    if size["quant.json"] * 2 > size["model.onnx"]:
        complaints.append(f"sizes {size}: this test cannot fail")
    got = run([*words, work / "half"], size["quant.json"] + 100_000)
    expect("half a snapshot", got.returncode == 1 and "File too large" in got.stderr, got)
    expect("half a snapshot is there", not (work / "half").exists(), got)


def test_external_links(work):
    """A link inside of the folder is fine, one that leaves it is refused."""
    folder = work / "model"
    folder.mkdir()
    data = np.arange(8, dtype="f")
    for path in work / "outside.bin", folder / "inside.bin":
        path.write_bytes(data.tobytes())
    (folder / "out.bin").symlink_to("../outside.bin")
    (folder / "in.bin").symlink_to("inside.bin")
    (folder / "far").symlink_to("..")
    tensor = numpy_helper.from_array(data, "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])], [tensor])
    for location, refused in (("in.bin", False), ("out.bin", True), ("far/outside.bin", True)):
        t = graph.initializer[0]
        t.ClearField("raw_data")
        t.data_location = TensorProto.EXTERNAL
        del t.external_data[:]
        t.external_data.add(key="location", value=location)
        model = helper.make_model(graph, ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17)])
        (folder / "m.onnx").write_bytes(model.SerializeToString())
        got = run(["run", folder / "m.onnx", "-d", "random:1", "-o", work / "o"])
        expect(location, got.returncode == 1 and "leaves the directory" in got.stderr
               if refused else got.returncode == 0, got)


def test_zero_bytes(work):
    """A name or a path is not cut off at a zero byte; descriptions are not read."""
    model = onnx.load(DIGITS)
    model.graph.doc_string = "a\0b"
    source = work / "zero.onnx"
    source.write_bytes(model.SerializeToString())
    got = run(["run", source, "-d", "random:1", "-o", work / "o"])
    expect("a zero byte in a description", got.returncode == 0, got)
    (work / "d.bin").write_bytes(bytes(32))
    outside = TensorProto(name="w", data_type=1, dims=[8], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="d.bin\0x")
    for change in (lambda g: g.initializer.append(outside),
                   lambda g: setattr(g.node[0], "name", "a\0b"),
                   lambda g: g.node[0].output.append("a\0b")):
        model = onnx.load(DIGITS)
        change(model.graph)
        source.write_bytes(model.SerializeToString())
        got = run(["run", source, "-d", "random:1", "-o", work / "o"])
        expect("a zero byte in a text", got.returncode == 1 and
               "a text contains a zero byte, expected none" in got.stderr, got)


def test_one_rounding_per_grid(work):
    """Without the pass `simplify` readers round again what their producers have rounded."""
    quantize(work / "s", "--set", "pass=simplify run=no")
    got = run(["export", work / "s", "--format", "onnx-qdq", "-o", work / "q.onnx"])
    expect("export", got.returncode == 0, got)
    model = onnx.load(work / "q.onnx")
    value = {t.name: numpy_helper.to_array(t).tolist() for t in model.graph.initializer}
    maker = {o: n for n in model.graph.node for o in n.output}
    roundings = [n for n in model.graph.node if n.op_type == "QuantizeLinear"]
    for n in roundings:
        before = maker.get(n.input[0])
        if before is not None and before.op_type == "DequantizeLinear" and \
                [value[i] for i in before.input[1:]] == [value[i] for i in n.input[1:]]:
            complaints.append(f"{n.name} rounds {n.input[0]} a second time on its grid")
    if len(roundings) < 8:
        complaints.append(f"{len(roundings)} roundings: this test cannot fail")


def test_producer(work):
    quantize(work / "s")
    got = run(["export", work / "s", "--format", "onnx-qdq", "-o", work / "q.onnx"])
    version = run(["version", "--json"]).stdout
    for path in work / "q.onnx", work / "s/model.onnx":
        model = onnx.load(path)
        expect(f"{path.name}: producer {model.producer_name!r} {model.producer_version!r}",
               model.producer_name == "quantgraph" and model.producer_version and
               model.producer_version in version, got)


def main():
    tests = (test_writer_finds_errors, test_snapshot_needs_both, test_external_links,
             test_zero_bytes, test_one_rounding_per_grid, test_producer)
    for test in tests:
        with tempfile.TemporaryDirectory() as work:
            test(pathlib.Path(work))
    for line in complaints:
        print("FAILED:", line)
    print(f"{len(tests)} defects, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
