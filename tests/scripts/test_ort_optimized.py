#!/usr/bin/env python3
"""Networks as onnxruntime's optimizer writes them at level EXTENDED: LayerNormalization
before opset 17 and SimplifiedLayerNormalization, both in the domain of ONNX.  qg runs
them with the outputs of onnxruntime, quantizes them (LayerNormalization is a node of
ort-int8, the simplified one is in no registry of its quantizer and stays float), and
the exported file runs in onnxruntime and is read again.

Skipped (77) without numpy, onnx and onnxruntime."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

LAYER, SIMPLE = "LayerNormalization", "SimplifiedLayerNormalization"


def pieces(centred):
    """A normalization of h in the operators of opset 11, to n."""
    op = helper.make_node
    begin = [op("ReduceMean", ["h"], ["m"], "mean", axes=[-1], keepdims=1),
             op("Sub", ["h", "m"], ["d"], "difference")] if centred else []
    x = "d" if centred else "h"
    end = [op("Add", ["ng", "b"], ["n"], "shift")] if centred else []
    return begin + [
        op("Pow", [x, "two"], ["p"], "power"),
        op("ReduceMean", ["p"], ["v"], "variance", axes=[-1], keepdims=1),
        op("Add", ["v", "eps"], ["ve"], "add"), op("Sqrt", ["ve"], ["s"], "root"),
        op("Div", [x, "s"], ["q"], "divide"),
        op("Mul", ["q", "g"], ["ng" if centred else "n"], "scale")] + end


def optimized(path, centred, opset, random):
    """Written by onnxruntime; the operators of ONNX that it contains."""
    op = helper.make_node
    numbers = {"w1": random.normal(size=(16, 16)), "w2": random.normal(size=(16, 8)),
               "g": random.uniform(1, 2, 16), "b": random.normal(size=16), "two": 2,
               "eps": 1e-3}
    graph = helper.make_graph(
        [op("MatMul", ["x", "w1"], ["h"], "first"), *pieces(centred),
         op("MatMul", ["n", "w2"], ["y"], "last")], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5, 8])],
        [numpy_helper.from_array(np.asarray(v, np.float32), k)
         for k, v in numbers.items()])
    model = helper.make_model(graph, ir_version=7,
                              opset_imports=[helper.make_opsetid("", opset)])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = \
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.SerializeToString(), options,
                                 providers=["CPUExecutionProvider"])
    return {n.op_type for n in onnx.load(path).graph.node if not n.domain}


def outputs(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    agreement.do_not_saturate(options, path)
    session = onnxruntime.InferenceSession(str(path), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(["y"], {"x": x})[0]


def check(folder, opset, name):
    x = np.random.default_rng(opset).normal(size=(1, 2, 5, 16)).astype(np.float32)
    there = optimized(folder / "m.onnx", name == LAYER, opset, np.random.default_rng(5))
    if name not in there:
        return f"onnxruntime wrote {sorted(there)}, expected {name}"
    np.save(folder / "x.npy", x)

    def run(model, at, *more):
        agreement.qg("run", model, "-d", folder / "x.npy", "-o", folder / at, *more)
        return np.load(folder / at / "y.npy").reshape(2, 5, 8)

    want = outputs(folder / "m.onnx", x[0])
    if not np.allclose(run(folder / "m.onnx", "float"), want, rtol=1e-4, atol=1e-5):
        return "the outputs are not those of onnxruntime"
    for backend in "ort-int8", "openvino-int8", "trt-int8":
        at = folder / backend
        agreement.qg("quantize", folder / "m.onnx", "-b", backend, "-d",
                     folder / "x.npy", "-o", at)
        simulated, file = run(at, f"{backend}.run"), at / "qdq.onnx"
        agreement.qg("export", at, "--format", "onnx-qdq", "-o", file)
        got, step = outputs(file, x[0]), np.abs(want).max() / 127
        if np.abs(got - simulated).max() > 2 * step:
            return f"{backend}: the exported file differs from the simulation"
        again = folder / f"{backend}.again"
        agreement.qg("import", file, "--format", "onnx-qdq", "-o", again)
        if np.abs(run(again, f"{backend}.read") - simulated).max() > 2 * step:
            return f"{backend}: the file that is read again differs"
    return ""


def main():
    bad = 0
    for opset, name in [(11, LAYER), (14, LAYER), (13, SIMPLE), (16, SIMPLE)]:
        with tempfile.TemporaryDirectory() as work:
            wrong = check(pathlib.Path(work), opset, name)
        if wrong:
            print(f"FAILED {name} at opset {opset}: {wrong}")
            bad += 1
    print(f"4 networks, {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
