#!/usr/bin/env python3
"""The tensors of an ONNX file as ONNX Runtime computes them.

    onnxruntime.py MODEL.onnx DATA TRACE.npz [OPTIMIZED.onnx]

With OPTIMIZED.onnx the runtime's optimizer writes there what it runs, and the trace is of that
file: compare it with `qg diverge OPTIMIZED.onnx --against TRACE.npz`.  Without, nothing is
fused: the tensors are those of the file, computed operator by operator."""
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


def main(path, data, out, optimized=None):
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
    trace = trace_file.Trace(f"onnxruntime {ort.__version__}")
    for sample in trace_file.samples(data, inputs):
        for name, value in zip(names, run.run(names, sample)):
            if value.size:
                trace.add(name, value)
    trace.write(out)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (4, 5) else __doc__)
