#!/usr/bin/env python3
"""What `qg lint` predicts, against the graphs that the runtimes made of our files: the
integer kernels of ONNX Runtime (optimized graph, EXTENDED) and of OpenVINO's CPU plugin
(runtime graph: precision of the data of convolutions and products), by name; the number
of operators that LiteRT gives to XNNPACK.  A table
model x backend x runtime; every row must be equal.  Models in ../shared are skipped when
they are absent."""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import onnx
    import onnxruntime as ort
    import openvino as ov
    from ai_edge_litert.interpreter import Interpreter
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

QG = agreement.QG
MOVES = {"Expand", "Flatten", "Gather", "GatherElements", "Reshape", "Slice", "Squeeze",
         "Tile", "Transpose", "Unsqueeze", "MaxPool", "Resize", "Split"}
ORT_BACKENDS = "ort-int8", "onnxruntime-int8", "trt-int8"
OV_BACKENDS = "openvino-int8", "openvino-avx2-int8", "openvino-mixed-int8"
TFLITE = [pathlib.Path("tests/data/tflite/kws_int8.tflite")]
PRODUCTS = {"Conv", "ConvTranspose", "MatMul", "Gemm"}
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


def lint(snapshot, target):
    """(integer kernels, moves on codes) as sets of names."""
    done = subprocess.run([QG, "lint", snapshot, "--target", target, "--json"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    nodes = json.loads(done.stdout)["nodes"]
    return tuple({(n["node"], n["operator"]) for n in nodes if n["fate"] == fate}
                 for fate in ("integer", "moves"))


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


def in_openvino(file):
    """The convolutions and products that the plugin computes on integers."""
    compiled = CORE.compile_model(CORE.read_model(file), "CPU",
                                  {"INFERENCE_PRECISION_HINT": "f32"})
    names = set()
    for op in compiled.get_runtime_model().get_ordered_ops():
        kind = op.get_rt_info()["layerType"].astype(str)
        if kind in ("Convolution", "Deconvolution", "FullyConnected", "MatMul") and \
                op.get_input_element_type(0).is_integral():
            name = op.get_friendly_name().removesuffix("/DequantizationMultiply")
            names.add(name.removesuffix("/without_bias"))
    return names


def in_litert(file):
    """The number of operators, other than moves, that LiteRT gives to its delegate: those
    between the outputs and the inputs of the DELEGATE nodes."""
    interpreter = Interpreter(file)
    interpreter.allocate_tensors()
    details = interpreter._get_ops_details()
    made = {t: o for o in details if o["op_name"] != "DELEGATE" for t in o["outputs"]}
    seen = {}
    for delegate in (o for o in details if o["op_name"] == "DELEGATE"):
        todo = list(delegate["outputs"])
        while todo:
            at = todo.pop()
            op = made.get(at)
            if op and at not in delegate["inputs"] and op["index"] not in seen:
                seen[op["index"]] = op["op_name"]
                todo += list(op["inputs"])
    return sum(name not in ("RESHAPE", "TRANSPOSE", "PAD", "MAX_POOL_2D")
               for name in seen.values())


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
    for backend in OV_BACKENDS:
        here = folder / f"{name}-{backend}"
        here.mkdir()
        snapshot, file = quantize(here, path, backend), here / "q.xml"
        agreement.qg("export", snapshot, "--format", "openvino-ir", "-o", file)
        kernels, _ = lint(snapshot, "openvino")
        table.row(name, backend, "openvino", {n for n, op in kernels if op in PRODUCTS},
                  in_openvino(file))


def follow_litert(table):
    for file in TFLITE:
        kernels, _ = lint(file, "xnnpack")
        table.row(file.stem, "as it is", "xnnpack", set(range(len(kernels))),
                  set(range(in_litert(str(file)))))


def main():
    table = Table()
    follow_litert(table)
    print(f"{'model':12} {'backend':20} {'runtime':12} lint seen")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in models():
            follow_ort(table, pathlib.Path(folder), name, path)
            if "--ort" not in sys.argv:
                follow_openvino(table, pathlib.Path(folder), name, path)
    print(f"{table.rows} rows, {table.bad} differ")
    return table.bad > 0


sys.exit(main())
