#!/usr/bin/env python3
"""The tensors of an ONNX file as ONNX Runtime computes them.

    onnxruntime.py MODEL.onnx DATA TRACE.npz [OPTIMIZED.onnx | --rounded]

With OPTIMIZED.onnx the runtime's optimizer writes there what it runs, and the trace is of that
file: compare it with `qg diverge OPTIMIZED.onnx --against TRACE.npz`.  Without, nothing is
fused: the tensors are those of the file, computed operator by operator.  --rounded: the codes
of every QuantizeLinear, with their grid, stand for the value that it rounds, whose float and
dequantized tensors are left out: for `qg infer-backend`, which knows the float network."""
import sys

# This script has the name of the package, and its folder comes first.
FOLDER = sys.path.pop(0)
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402

sys.path.append(FOLDER)
import trace_file  # noqa: E402  pylint: disable=wrong-import-position


def session(model, level, written=None):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    if written:
        options.optimized_model_filepath = written
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def rounded(model):
    """({codes: (value, grid)}, {tensors that the codes stand for}) of every activation.  Of the
    names before and behind a pair of Q and DQ the shorter one is the value's: exporters
    lengthen the other."""
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
    codes, others = {}, set()
    for n in model.graph.node:
        scale = constants.get(n.input[1]) if n.op_type.endswith("QuantizeLinear") else None
        if n.op_type == "QuantizeLinear" and scale is not None and scale.size == 1:
            zero = constants.get(n.input[2], 0) if len(n.input) > 2 else 0
            codes[n.output[0]] = [{n.input[0]}, (float(scale.item()), int(zero))]
        elif n.op_type == "DequantizeLinear" and n.input[0] in codes:
            codes[n.input[0]][0].add(n.output[0])
    shown = {}
    for name, (names, grid) in codes.items():
        others |= names
        shown.setdefault(min(names, key=lambda n: (len(n), n)), (name, grid))
    return {name: (value, grid) for value, (name, grid) in shown.items()}, others


def main(path, data, out, optimized=None):
    only_rounded = optimized == "--rounded"
    optimized = None if only_rounded else optimized
    if optimized:
        session(path, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, optimized)
    model = onnx.load(optimized or path)
    known = {o.name for o in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in known:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    run = session(model.SerializeToString(), ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    inputs = [(i.name, [d if isinstance(d, int) else 1 for d in i.shape])
              for i in run.get_inputs()]
    names = [o.name for o in run.get_outputs() if o.type != "tensor(string)"]
    codes, others = rounded(model) if only_rounded else ({}, set())
    trace = trace_file.Trace(f"onnxruntime {ort.__version__}")
    for sample in trace_file.samples(data, inputs):
        for name, value in zip(names, run.run(names, sample)):
            if value.size and name in codes:
                trace.add(codes[name][0], value, codes[name][1])
            elif value.size and name not in others:
                trace.add(name, value)
    trace.write(out)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (4, 5) else __doc__)
