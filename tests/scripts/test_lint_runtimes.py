#!/usr/bin/env python3
"""What `qg lint` predicts, against the graphs that the runtimes made of our files: the
integer kernels of ONNX Runtime (optimized graph, EXTENDED) and of OpenVINO's CPU plugin
(runtime graph: precision of the data of every operator that is found there), and of the
operators that LiteRT gives to XNNPACK, by name.  A table
model x backend x runtime; every row must be equal.  Models in ../shared are skipped when
they are absent."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    # With AMX, OpenVINO computes more operators on codes than lint predicts (docs/lint.md).
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI")
    import openvino as ov
    from ai_edge_litert.interpreter import Interpreter
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement
import litert
import openvino_graph
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "zoo"))
import graph
import segmentation  # noqa: F401  they register their networks
import vision  # noqa: F401

QG = agreement.QG
MOVES = {"Expand", "Flatten", "Gather", "GatherElements", "Reshape", "Slice", "Squeeze",
         "Tile", "Transpose", "Unsqueeze", "MaxPool", "Resize", "Split"}
ORT_BACKENDS = "ort-int8", "onnxruntime-int8", "trt-int8"
OV_BACKENDS = "openvino-int8", "openvino-avx2-int8", "openvino-mixed-int8"
HALF = "edsr_half"  # of the zoo, in float16: for ONNX Runtime
ZOO = "hrnet", "mobilenet_v3", "vit"  # for LiteRT
TFLITE_BACKENDS = "tflite-int8", "xnnpack-int8"
KWS = pathlib.Path("tests/data/tflite/kws_int8.tflite")
PRODUCTS = {"Conv", "ConvTranspose", "MatMul", "Gemm"}
# Behind the name of the node, of layers that are a part of it
PARTS = "/DequantizationMultiply", "/without_bias", "/MM", "/alpha/product"
CORE = ov.Core()


def models():
    yield "mnist-8", pathlib.Path("tests/models/mnist-8.onnx")
    yield "conv_relu", pathlib.Path("tests/models/conv_relu.onnx")
    for name, path, _ in agreement.models():
        if name != "mnist":
            yield name, path


def fixed(path):
    """--shape for the inputs: with an open batch the runtime keeps operators on shapes,
    which read values, too."""
    constants = {i.name for i in onnx.load(path).graph.initializer}
    for i in onnx.load(path).graph.input:
        if i.name not in constants:
            dims = [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
            yield from ("--shape", f"{i.name}={'x'.join(map(str, dims))}")


def fates_of(snapshot, target):
    """((name, operator), fate) of each node."""
    done = subprocess.run([QG, "lint", snapshot, "--target", target, "--json"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    for n in json.loads(done.stdout)["nodes"]:
        yield (n["node"], n["operator"]), n["fate"]


def lint(snapshot, target):
    """(integer kernels, moves on codes) as sets of names."""
    fates = list(fates_of(snapshot, target))
    return tuple({node for node, f in fates if f == fate} for fate in ("integer", "moves"))


def sources(graph, node):
    """The nodes of the file that it is: the runtime makes one Split of several Slices."""
    name, fused, _ = node.name.partition("/GatherSliceToSplitFusion")
    if not fused:
        return {name}
    read = next(n.input[0] for n in graph.node if n.name == name)
    return {n.name for n in graph.node if n.op_type == "Slice" and n.input[0] == read}


def in_ort(file, folder):
    """The same of the graph that ONNX Runtime executes."""
    optimized = folder / "optimized.onnx"
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 3
    options.optimized_model_filepath = str(optimized)
    ort.InferenceSession(str(file), options, ["CPUExecutionProvider"])
    kernels, moves, codes = set(), set(), set()
    plain = onnx.load(file, load_external_data=False).graph
    for n in onnx.load(optimized, load_external_data=False).graph.node:
        op = n.op_type
        if op.startswith("QLinear") or op in ("QGemm", "MatMulIntegerToFloat"):
            kernels.add(n.name)
        elif op in MOVES and n.input[0] in codes:
            moves.update(sources(plain, n))
        elif op != "QuantizeLinear":
            continue
        codes.update(n.output)
    return kernels, moves


def compiled(file):
    return CORE.compile_model(CORE.read_model(file), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def in_openvino(model):
    """The convolutions and products that the plugin computes on integers.  Of the two
    products of an attention it makes one kernel, of no such type, where the CPU has AVX-512;
    elsewhere they are products of two activations, MatMul, of which lint says 'blocked'."""
    kinds = {"Convolution", "Deconvolution", "FullyConnected", "MatMul"}
    wide = "avx512f" in agreement.cpu_flags()
    names = set()
    for op in model.get_runtime_model().get_ordered_ops():
        kind = op.get_rt_info()["layerType"].astype(str)
        if not wide and openvino_graph.multiplies_activations(op, kind):
            continue
        if kind in kinds and op.get_input_element_type(0).is_integral():
            name = op.get_friendly_name()
            for suffix in PARTS:
                name = name.removesuffix(suffix)
            names.add(name)
    return names


def all_of_openvino(snapshot, model):
    """(predicted, observed) of all nodes that the runtime graph has: names of those on codes,
    and, with a +, of those in another one's kernel on codes.  Products of two activations are
    the CPU's matter (docs/lint.md)."""
    done = subprocess.run([QG, "lint", snapshot, "--target", "openvino", "--json"],
                          capture_output=True, text=True)
    nodes = {n["node"]: n for n in json.loads(done.stdout)["nodes"]}
    apart = {name for name, n in nodes.items() if "'weight-constant' must hold" in n.get("why", "")}
    states = openvino_graph.states(model, {k: n["operator"] for k, n in nodes.items()}, apart,
                                   "avx512f" in agreement.cpu_flags())
    word = {"integer": "codes", "moves": "codes", "fused": "fused"}
    said = {name: word.get(nodes[name]["fate"], "float") for name in states}
    return tuple({name + "+" * (s == "fused") for name, s in of.items() if s != "float"}
                 for of in (said, states))


def operators_of(file):
    """(tensor, operator, type, whether the delegate has it) of each operator of the file: it
    is between the outputs and the inputs of the DELEGATE nodes."""
    with litert.quiet():
        interpreter = Interpreter(str(file))
        interpreter.allocate_tensors()
    details = interpreter._get_ops_details()
    tensors = {t["index"]: t for t in interpreter.get_tensor_details()}
    made = {t: o for o in details if o["op_name"] != "DELEGATE" for t in o["outputs"]}
    taken = set()
    for delegate in (o for o in details if o["op_name"] == "DELEGATE"):
        todo = list(delegate["outputs"])
        while todo:
            at = todo.pop()
            op = made.get(at)
            if op and at not in delegate["inputs"] and op["index"] not in taken:
                taken.add(op["index"])
                todo += list(op["inputs"])
    for o in details:
        if o["op_name"] != "DELEGATE":
            t = tensors[o["outputs"][0]]
            yield t["name"], o["op_name"], np.dtype(t["dtype"]), o["index"] in taken


def in_litert(file, values):
    """The values that LiteRT's delegate computes on codes.  A value's tensor can end in its
    form; conversions of grids and layouts are of the file alone."""
    found = set()
    for tensor, op, dtype, taken in operators_of(file):
        value = tensor
        for suffix in ("_nhwc", "_nchw", "_codes", "_unclamped"):
            value = value.removesuffix(suffix)
        between = op in ("QUANTIZE", "DEQUANTIZE") or op == "TRANSPOSE" and tensor.endswith(("_nhwc", "_nchw"))
        if taken and dtype == np.int8 and value in values and not between:
            found.add(value)
    return found


def for_litert(snapshot, target):
    """(values whose kernel or move the target should have, all values): a kernel computes the
    value behind the nodes fused into it."""
    quant = json.loads((snapshot / "quant.json").read_text())
    fates = dict(fates_of(snapshot, target))
    readers = {}
    for n in quant["nodes"]:
        for value in n["inputs"]:
            readers.setdefault(value, []).append(n)

    def last(value):
        reader = readers.get(value, [])
        fused = len(reader) == 1 and fates.get((reader[0]["name"], reader[0]["op"])) == "fused"
        return last(reader[0]["outputs"][0]) if fused else value

    return ({last(n["outputs"][0]) for n in quant["nodes"]
             if fates.get((n["name"], n["op"])) in ("integer", "moves")},
            {value for n in quant["nodes"] for value in n["outputs"]})


class Table:
    """Rows as they come; what differs, at the end."""

    def __init__(self):
        self.bad, self.rows = 0, 0

    def row(self, model, backend, runtime, predicted, observed):
        more, fewer = sorted(predicted - observed), sorted(observed - predicted)
        self.rows += 1
        self.bad += predicted != observed
        print(f"{model:12} {backend:20} {runtime:12} {len(predicted):4} {len(observed):4}"
              f"{'' if predicted == observed else f'   FAILED: only predicted {more}, only observed {fewer}'}")


def quantize(folder, path, backend):
    snapshot = folder / "snapshot"
    agreement.qg("quantize", path, "-b", backend, "-d", "random:4", "-o", snapshot,
                 *fixed(path))
    return snapshot


def follow_ort(table, folder, name, path):
    for backend in ORT_BACKENDS:
        here = folder / f"{name}-{backend}"
        here.mkdir()
        snapshot, file = quantize(here, path, backend), here / "q.onnx"
        agreement.qg("export", snapshot, "--format", "onnx-qdq", "--placement", "ort", "-o",
                     file)
        kernels, moves = lint(snapshot, "ort")
        seen, moved = in_ort(file, here)
        table.row(name, backend, "ort", {n for n, _ in kernels}, seen)
        table.row(name, backend, "ort moves", {n for n, _ in moves}, moved)


def follow_openvino(table, folder, name, path):
    for backend in agreement.share(OV_BACKENDS, name, 2):
        here = folder / f"{name}-{backend}"
        here.mkdir()
        snapshot, file = quantize(here, path, backend), here / "q.xml"
        agreement.qg("export", snapshot, "--format", "openvino-ir", "-o", file)
        kernels, _ = lint(snapshot, "openvino")
        model = compiled(file)
        table.row(name, backend, "openvino", {n for n, op in kernels if op in PRODUCTS},
                  in_openvino(model))
        table.row(name, backend, "openvino all", *all_of_openvino(snapshot, model))


def follow_litert(table, folder, name, path):
    for backend in TFLITE_BACKENDS:
        here = folder / f"{name}-{backend}"
        here.mkdir()
        snapshot, file = quantize(here, path, backend), here / "q.tflite"
        agreement.qg("export", snapshot, "--format", "tflite", "-o", file)
        predicted, values = for_litert(snapshot, "xnnpack")
        table.row(name, backend, "litert", predicted, in_litert(file, values))


def follow_kws(table):
    """The file of MLPerf Tiny as it is, by number: its nodes have other names."""
    kernels, _ = lint(KWS, "xnnpack")
    moves = "RESHAPE", "TRANSPOSE", "PAD", "MAX_POOL_2D"
    taken = sum(has and op not in moves for _, op, _, has in operators_of(KWS))
    table.row(KWS.stem, "as it is", "litert", set(range(len(kernels))), set(range(taken)))


def main():
    table = Table()
    follow_kws(table)
    print(f"{'model':12} {'backend':20} {'runtime':12} lint seen")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in models():
            follow_ort(table, pathlib.Path(folder), name, path)
            if "--ort" in sys.argv:
                continue
            follow_openvino(table, pathlib.Path(folder), name, path)
            follow_litert(table, pathlib.Path(folder), name, path)
        path = pathlib.Path(folder) / f"{HALF}.zoo.onnx"
        graph.build(HALF).save(path, 2)
        follow_ort(table, pathlib.Path(folder), f"zoo-{HALF}", path)
        for name in ZOO if "--ort" not in sys.argv else ():
            path = pathlib.Path(folder) / f"{name}.zoo.onnx"
            graph.build(name).save(path, 2)
            follow_litert(table, pathlib.Path(folder), f"zoo-{name}", path)
    print(f"{table.rows} rows, {table.bad} differ")
    return table.bad > 0


if __name__ == "__main__":
    sys.exit(main())
