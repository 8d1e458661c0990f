#!/usr/bin/env python3
"""onnx-qoperator in ONNX Runtime: every file is valid and loads, without optimization
(qoperator) and as ONNX Runtime ships (ort), and computes the simulated codes node by
node on its own inputs (agreement.py); networks all of whose operators have kernels give
the codes of integer mode (integer).  What has an operator on codes has become one.  Models in ../shared are
skipped when they are absent."""
import collections
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

BACKENDS = "trt-int8", "ppl-dsp-int8", "ort-int8", "tflite-int8"
SAMPLES = 16
# Kernels multiply an int32 sum by s_x s_w / s_y, or add scaled codes, where the
# simulation divides a float32 sum: next to a tie the neighbouring code may come out.
# Sums of two grids whose scales have a simple ratio have many ties.
LEAST_EQUAL = 0.995
EXACT = {(m, b) for m in ("mobilenet", "effnet") for b in BACKENDS[1:]}


class Runtime:
    """Values are floats: codes are read through the annotation of the file."""

    def __init__(self, path, level):
        model = onnx.load(path)
        self.graph = graph = model.graph
        constants = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
        self.grid = {}
        for a in graph.quantization_annotation:
            key = {p.key: p.value for p in a.quant_parameter_tensor_names}
            self.grid[a.tensor_name] = [constants[key[k]] for k in
                                        ("SCALE_TENSOR", "ZERO_POINT_TENSOR")]
        self.outs = [o.name for o in graph.output]
        self.names = [o for n in graph.node for o in n.output if o]
        if level == ort.GraphOptimizationLevel.ORT_DISABLE_ALL:
            graph.output.extend(onnx.ValueInfoProto(name=n) for n in self.names
                                if n not in self.outs)
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.run = ort.InferenceSession(model.SerializeToString(), options,
                                        ["CPUExecutionProvider"]).run

    def values(self, feed):
        found = dict(zip(self.names, self.run(self.names, feed)))
        for name, x in found.items():
            if x.dtype in (np.int8, np.uint8) and name in self.grid:
                scale, zero = self.grid[name]
                found[name] = (x.astype(np.float32) - zero.astype(np.float32)) * scale
        return found

    def outputs(self, feed):
        return self.run(self.outs, feed)


def endpoints(snapshot, runtime):
    """Outputs of nodes whose codes the file has."""
    at = {}
    for n in snapshot.quant["nodes"]:
        for k, v in enumerate(n["outputs"]):
            tqc = n["out"][k] is not None and snapshot.quant["tqcs"][n["out"][k]]
            if tqc and tqc["state"] != "overlapped" and f"{v}_quantized" in runtime.names:
                at[f"{n['name']}.out{k}"] = f"{v}_quantized"
    return at


def check(table, name, file, runtime):
    """Valid; metadata and annotations are there; few operators on codes are missing."""
    onnx.checker.check_model(str(file), full_check=False)
    count = collections.Counter(n.op_type for n in runtime.graph.node)
    about = {p.key: p.value for p in onnx.load(file).metadata_props}
    if about.get("quantgraph.format") != "onnx-qoperator" or not runtime.grid:
        table.bad.append(f"{name}: metadata {about}, {len(runtime.grid)} annotations")
    on_codes = sum(k for op, k in count.items() if op.startswith("Q") and
                   op != "QuantizeLinear")
    print(f"  {' '.join(name)}: {on_codes} operators on codes,",
          ", ".join(f"{k} {op}" for op, k in sorted(count.items())
                    if op in ("Conv", "MatMul", "Gemm", "QuantizeLinear",
                              "DequantizeLinear")), flush=True)
    if not on_codes:
        table.bad.append(f"{name}: no operator on codes")


def integer_mode(s):
    """Outputs of the simulator in the arithmetic of ONNX Runtime on x86-64."""
    out = s.folder / "integer"
    agreement.qg("run", s.path, "-d", s.data, "--mode", "integer", "--profile",
                 "onnxruntime-x86-vnni", "-o", out)
    names = [o.name for o in onnx.load(s.path / "model.onnx").graph.output]
    return [np.load(out / f"{agreement.safe(n)}.npy") for n in names]


def compare(table, folder, name, path, x):
    for backend in agreement.share(BACKENDS, name, 4):
        s = agreement.Snapshot(f"{folder}/{name}-{backend}", path, backend, x[:SAMPLES])
        file, report = s.export("qoperator.onnx", "--format", "onnx-qoperator")
        level = ort.GraphOptimizationLevel
        plain, shipped = (Runtime(file, k) for k in (level.ORT_DISABLE_ALL,
                                                    level.ORT_ENABLE_ALL))
        check(table, (name, backend), file, plain)
        nodes = agreement.follow(s, plain, endpoints(s, plain), "reference")
        far = {e: c for e, c in nodes.items() if c["far"]}
        equal = sum(c["equal"] for c in nodes.values())
        total = sum(c["elements"] for c in nodes.values())
        where, noise = (name, backend), s.outputs("float")
        theirs, limit = agreement.stack(plain, s), agreement.LIMIT_ENERGY
        if report["changed_results"]:  # float biases have been rounded
            limit = np.inf
        table.row(where, "qoperator", nodes, theirs, s.outputs("simulate"), noise,
                  limit=limit, share=0.0, rounds_alike=False)
        table.row(where, "ort", None, agreement.stack(shipped, s),
                  s.outputs("simulate"), noise, limit=limit)
        table.row(where, "integer", None, theirs, integer_mode(s), noise,
                  limit=0.0 if where in EXACT and table.exact else np.inf)
        if equal < LEAST_EQUAL * total or far:
            table.bad.append(f"{where}: {equal} of {total} codes equal, far: {far}")


def check_types(table):
    """QLinearConv takes unsigned activations beside signed weights, not the reverse."""
    limits = {"unsigned": "[0,255]", "signed": "[-128,127]"}
    for x, w, expected in (("unsigned", "signed", 6), ("signed", "unsigned", 0)):
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/mixed.onnx"
            agreement.qg("quantize", "configs/models/digits.onnx", "-b", "ppl-dsp-int8", "-d",
                         "configs/data/digits_calib.npy", "-o", f"{folder}/mixed",
                         "--set", f"node=* range={limits[x]}",
                         "--set", f"op=Conv slot=in1 range={limits[w]}")
            agreement.qg("export", f"{folder}/mixed", "--format", "onnx-qoperator", "-o", file)
            nodes = onnx.load(file).graph.node
        found = sum(n.op_type == "QLinearConv" for n in nodes)
        if found != expected:
            table.bad.append(f"{x} activations, {w} weights: {found} of QLinearConv, "
                             f"expected {expected}")


def check_softmax(table):
    """A grid with narrow limits and a scale that is no 1/n: QLinearSoftmax would have other
    codes."""
    random = np.random.RandomState(4)
    weights = {n: random.normal(0, 0.4, (6, 6)).astype("f4") for n in "wv"}
    make = onnx.helper.make_node
    graph = onnx.helper.make_graph(
        [make("MatMul", ["x", "w"], ["c"], "c"), make("Softmax", ["c"], ["p"], "p"),
         make("MatMul", ["p", "v"], ["y"], "y")], "softmax",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 6])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 8, 6])],
        [onnx.numpy_helper.from_array(w, n) for n, w in weights.items()])
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/softmax.onnx"
        onnx.save(onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
        s = agreement.Snapshot(f"{folder}/s", path, "metax-int8-c",
                               random.normal(0, 2, (SAMPLES, 1, 8, 6)).astype("f4"))
        file, _ = s.export("qoperator.onnx", "--format", "onnx-qoperator")
        runtime = Runtime(file, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
        far = [np.abs(a - b).max() for a, b in zip(agreement.stack(runtime, s),
                                                   s.outputs("simulate"))]
        if max(far) > 1e-5:
            table.bad.append(f"softmax with limits: {max(far)} away from the simulation")


def main():
    table = agreement.Table()
    check_types(table)
    check_softmax(table)
    for name, path, x in agreement.models():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            compare(table, folder, name, path, x)
    return table.done()


if __name__ == "__main__":
    sys.exit(main())
