#!/usr/bin/env python3
"""onnx-qdq in ONNX Runtime: every exported file is valid and loads, and computes what we
simulate, node by node and end to end (agreement.py).  Keyword spotting keeps its classes
and its accuracy.  Models below ../shared are skipped when they are not there."""
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

BACKENDS = ["trt-int8", "openvino-int8", "int8-base", "ncnn-int8"]
SAMPLES = 32


def session(model, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, ["CPUExecutionProvider"])


class Ort:
    """ONNX Runtime: values() with nothing optimized, outputs() as it ships."""

    def __init__(self, path):
        model = onnx.load(path)
        self.graph = model.graph
        self.shipped = session(str(path), ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
        self.names = [o for n in self.graph.node for o in n.output if o]
        have = {o.name for o in self.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in self.names
                                  if n not in have)
        self.plain = session(model.SerializeToString(),
                             ort.GraphOptimizationLevel.ORT_DISABLE_ALL)

    def values(self, feed):
        return dict(zip(self.names, self.plain.run(self.names, feed)))

    def plain_outputs(self, feed):
        return self.plain.run([o.name for o in self.graph.output[:self.n_output]], feed)

    def outputs(self, feed):
        return self.shipped.run(None, feed)


class Plain:
    """The same without optimization, end to end."""

    def __init__(self, runtime):
        self.runtime = runtime

    def outputs(self, feed):
        names = [o.name for o in self.runtime.shipped.get_outputs()]
        return self.runtime.plain.run(names, feed)


def compare(table, folder, name, path, x):
    labels = np.load(agreement.SHARED / "data/kws_dev.npz")["labels"] if name == "kws" else None
    for backend in BACKENDS:
        s = agreement.Snapshot(f"{folder}/{name}-{backend}", path, backend, x[:SAMPLES])
        simulated, plain = s.outputs("simulate"), s.outputs("float")
        for weights in ("int", "float"):
            file, _ = s.export(f"{weights}.onnx", "--format", "onnx-qdq", "--weights", weights)
            onnx.checker.check_model(str(file), full_check=True)
            runtime = Ort(file)
            endpoints = agreement.qdq_endpoints(s, runtime.graph)
            nodes = agreement.follow(s, runtime, endpoints)
            table.row((name, backend), f"ort plain, {weights}", nodes,
                      agreement.stack(Plain(runtime), s), simulated, plain)
            table.row((name, backend), f"ort, {weights}", None,
                      agreement.stack(runtime, s), simulated, plain)
        if labels is not None:
            accuracy(table, folder, path, backend, x, labels)


def accuracy(table, folder, path, backend, x, labels):
    """All samples: the same class on 99 %, accuracy within 1 %."""
    s = agreement.Snapshot(f"{folder}/kws-all-{backend}", path, backend, x)
    file, _ = s.export("int.onnx", "--format", "onnx-qdq")
    simulated, plain = s.outputs("simulate")[0], s.outputs("float")[0]
    theirs = agreement.stack(Ort(file), s)[0]
    share = agreement.top1(theirs, simulated)
    right = [float(np.mean(y.reshape(len(y), -1).argmax(1) == labels))
             for y in (plain, simulated, theirs)]
    print("  kws, {} samples: float {:.3f}, simulated {:.3f}, ort {:.3f}; same class {:.3f}"
          .format(len(x), *right, share), flush=True)
    if share < 0.99 or abs(right[1] - right[2]) > 0.01:
        table.bad.append(f"kws {backend}: same class {share:.3f}, accuracy {right}")


def main():
    only = sys.argv[1:]
    table = agreement.Table()
    for name, path, x in agreement.models():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            compare(table, folder, name, path, x)
    return table.done()


if __name__ == "__main__":
    sys.exit(main())
