#!/usr/bin/env python3
"""onnx-qdq in ONNX Runtime: every exported file is valid and loads, and computes the
simulated values, node by node and end to end (agreement.py).  Our reference kernels
sum in its order, so without optimization all codes are equal, and usually all bits.
Keyword spotting keeps its classes and its accuracy.  Models in ../shared are skipped
when they are absent."""
import json
import subprocess
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

# As they stand.
BACKENDS = "trt-int8", "ppl-dsp-int8", "ort-int8", "ncnn-int8"
# As it ships, ONNX Runtime rounds biases to steps of input x weight where that gives an
# integer kernel (WeightBiasQuantization); files keep float ones out of its reach.  A
# backend with 32-bit biases gets these kernels, and agrees: rows `ort int32`.
BIAS = ("--set", "op=[Conv,ConvTranspose,Gemm] slot=bias state=passive-init derive=bias "
        "bits=32 range=-2147483648,2147483647 policy=per-tensor,linear,symmetric "
        "rounding=half-even")
INT32_BIAS = {"trt-int8": BIAS, "ncnn-int8": BIAS}
SAMPLES = 32
FOR_ORT = "--placement", "ort"  # the default is that of the backend

ACTIVATIONS = "op=* slot=input {0}", "op=* slot=output {0}"
WEIGHTS = "op=[Conv,Gemm] slot=weight {0}",


def sets(patterns, what):
    return [p.format(what) for p in patterns]


FLOAT8 = "policy={},floating,symmetric,power-of-2 exponent-bits={} range={},{}"
VARIANTS = [  # name, --set, opset of the file, aspects lost, least share equal
    ("int4", sets(WEIGHTS, "bits=4 range=-8,7"), 21, {"range"}, 0.9999),
    ("int4 narrow", sets(WEIGHTS, "bits=4 range=-7,7"), 21, {"range"}, 0.9999),
    ("int16", sets(ACTIVATIONS, "bits=16 range=-32768,32767"), 21, set(), 0.9999),
    ("uint8", sets(ACTIVATIONS, "policy=per-tensor,linear,asymmetric range=0,255"), 13,
     set(), 0.9999),
    ("6 bits", sets(ACTIVATIONS, "bits=6 range=-32,31") +
     sets(WEIGHTS, "bits=6 range=-32,31"), 13, {"bits", "range"}, 0.9999),
    ("float8", sets(ACTIVATIONS, FLOAT8.format("per-tensor", 4, -448, 448)) +
     sets(WEIGHTS, FLOAT8.format("per-channel", 4, -448, 448)), 19, set(), 0.9999),
    ("int32 bias", ["op=[Conv,Gemm] slot=bias state=passive-init derive=bias bits=32 "
                    "range=-2147483648,2147483647 policy=per-tensor,linear,symmetric"], 13,
     set(), 0.9999),
    ("bias steps", ["op=[Conv,Gemm] slot=bias state=passive-init bits=32 "
                    "range=-2147483648,2147483647 policy=per-tensor,linear,symmetric"], 13,
     {"endpoint"}, 0.9999),  # of its own: a kernel would read it as input x weight
    ("half-up", sets(ACTIVATIONS, "rounding=half-up"), 13, {"rounding"}, 0.999),
]


def session(model, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, ["CPUExecutionProvider"])


class Ort:
    """ONNX Runtime: nothing optimized, or as it ships."""

    def __init__(self, path, shipped=False):
        model = onnx.load(path)
        self.graph = model.graph
        self.outs = [o.name for o in self.graph.output]
        self.names = [o for n in self.graph.node if n.op_type != "QuantizeLinear"
                      for o in n.output if o]
        level = ort.GraphOptimizationLevel
        if not shipped:
            model = onnx.ModelProto.FromString(model.SerializeToString())
            model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in self.names
                                      if n not in self.outs)
        self.run = session(model.SerializeToString(), level.ORT_ENABLE_ALL if shipped
                           else level.ORT_DISABLE_ALL).run

    def values(self, feed):
        return dict(zip(self.names, self.run(self.names, feed)))

    def outputs(self, feed):
        return self.run(self.outs, feed)


def nodes_of(s, file, runtime):
    onnx.checker.check_model(str(file), full_check=True)
    return agreement.follow(s, runtime, agreement.qdq_endpoints(s, runtime.graph),
                            "reference")


def annotated(table, file):
    """Metadata shown by Netron: scale and zero point of every quantized value, and who
    made it."""
    model = onnx.load(file)
    graph = model.graph
    known = {i.name for i in graph.initializer} | {o for n in graph.node for o in n.output}
    said = {a.tensor_name: {p.key: p.value for p in a.quant_parameter_tensor_names}
            for a in graph.quantization_annotation}
    for n in graph.node:
        if n.op_type in ("QuantizeLinear", "DequantizeLinear"):
            want = {"SCALE_TENSOR": n.input[1], "ZERO_POINT_TENSOR": n.input[2]}
            if said.get(n.output[0]) != want:
                table.bad.append(f"{file}: no annotation of {n.output[0]}")
    if not set(said) <= known:
        table.bad.append(f"{file}: annotations of {set(said) - known}")
    about = {p.key: p.value for p in model.metadata_props}
    if about.get("quantgraph.format") != "onnx-qdq" or not about.get("quantgraph.backend"):
        table.bad.append(f"{file}: metadata {about}")


def compare(table, folder, name, path, x):
    """Node by node and end to end, nothing optimized; end to end as it ships."""
    for backend in agreement.share(BACKENDS, name, 4):
        s = agreement.Snapshot(f"{folder}/{name}-{backend}", path, backend, x[:SAMPLES])
        plain = s.outputs("float")
        file, report = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT)
        alike = "rounding" not in {row["lost"] for row in report["losses"]}
        annotated(table, file)
        runtime = Ort(file)
        table.row((name, backend), "ort plain", nodes_of(s, file, runtime),
                  agreement.stack(runtime, s), s.outputs("simulate", "reference"), plain,
                  rounds_alike=alike)
        told = INT32_BIAS.get(backend, ())
        table.row((name, backend), "ort", None, agreement.stack(Ort(file, True), s),
                  s.outputs("simulate"), plain)
        if told:
            tell(table, f"{folder}/{name}-{backend}-told", (name, backend), path, x, told)
        if name == "kws":
            accuracy(table, folder, path, backend, x)


def tell(table, folder, name, path, x, options):
    """The same with biases of 32 bits in the snapshot."""
    s = agreement.Snapshot(folder, path, name[1], x[:SAMPLES], *options)
    file, _ = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT)
    table.row(name, "ort int32", None, agreement.stack(Ort(file, True), s),
              s.outputs("simulate"), s.outputs("float"))


def optimized(file, folder):
    """The graph that ONNX Runtime makes of the file as it ships."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = f"{folder}/optimized.onnx"
    options.log_severity_level = 3
    ort.InferenceSession(str(file), options, ["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath).graph


def biases(table, folder):
    """Float biases of every kind stay float; those of 32 bits reach integer kernels."""
    rng = np.random.default_rng(6)
    make, about = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weights = [onnx.numpy_helper.from_array(rng.normal(size=shape).astype("float32"), name)
               for name, shape in (("w0", (6, 3, 3)), ("b0", (6,)), ("w1", (6, 4, 2)),
                                   ("b1", (4,)), ("w2", (9, 5)), ("b2", (5,)),
                                   ("w3", (20, 7)), ("b3", (7,)))]
    graph = onnx.helper.make_graph(
        [make("Conv", ["x", "w0", "b0"], ["a"], "conv"),
         make("ConvTranspose", ["a", "w1", "b1"], ["b"], "deconv"),
         make("MatMul", ["b", "w2"], ["c"], "matmul"), make("Add", ["b2", "c"], ["d"], "sum"),
         make("Flatten", ["d"], ["e"], "flat"),
         make("Gemm", ["e", "w3", "b3"], ["y"], "gemm")],
        "biases", [about("x", 1, (1, 3, 10))], [about("y", 1, (1, 7))], weights)
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[
        onnx.helper.make_opsetid("", 13)]), f"{folder}/biases.onnx")
    x = rng.normal(size=(32, 1, 3, 10)).astype(np.float32)
    for name, options, wide in (("float", (), 0), ("int32", BIAS, 3)):
        s = agreement.Snapshot(f"{folder}/{name}", f"{folder}/biases.onnx", "trt-int8", x,
                               *options)
        file, _ = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT)
        found = [i.name for i in optimized(file, folder).initializer
                 if i.data_type == onnx.TensorProto.INT32 and len(i.dims) == 1
                 and "zero_point" not in i.name]
        if len(found) != wide:
            table.bad.append(f"{name} biases: {found} are int32, expected {wide}")
        table.row((f"{name} bias", "trt-int8"), "ort", None,
                  agreement.stack(Ort(file, True), s), s.outputs("simulate"),
                  s.outputs("float"), 0.02)


def newer(table, folder):
    """From opset 21 on ONNX Runtime moves Q over Reshape, Transpose and MaxPool in a way
    that int8 does not survive: activations are unsigned there."""
    rng = np.random.default_rng(7)
    make, about = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weights = [onnx.numpy_helper.from_array(a, name) for name, a in (
        ("w0", rng.normal(size=(6, 3, 3, 3)).astype("float32")),
        ("w1", rng.normal(size=(9, 5)).astype("float32")),
        ("shape", np.array([1, 6, 9])))]
    graph = onnx.helper.make_graph(
        [make("Conv", ["x", "w0"], ["a"], "conv"),
         make("MaxPool", ["a"], ["b"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
         make("Reshape", ["b", "shape"], ["c"], "reshape"),
         make("MatMul", ["c", "w1"], ["d"], "matmul"),
         make("Transpose", ["d"], ["y"], "transpose", perm=[0, 2, 1])],
        "newer", [about("x", 1, (1, 3, 8, 8))], [about("y", 1, (1, 5, 6))], weights)
    x = rng.normal(size=(16, 1, 3, 8, 8)).astype(np.float32)
    for opset, types in ((20, {"INT8"}), (21, {"UINT8"}), (23, {"UINT8"})):
        path = f"{folder}/newer{opset}.onnx"
        onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=[
            onnx.helper.make_opsetid("", opset)]), path)
        for backend in ("trt-int8", "ort-int8"):
            s = agreement.Snapshot(f"{folder}/{backend}{opset}", path, backend, x)
            file, report = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT)
            written = onnx.load(file).graph
            zero = {i.name: onnx.TensorProto.DataType.Name(i.data_type)
                    for i in written.initializer}
            found = {zero[n.input[2]] for n in written.node if n.op_type == "QuantizeLinear"}
            if found != types or report["changed_results"]:
                table.bad.append(f"{backend}, opset {opset}: {found}, {report['losses']}")
            table.row((f"opset {opset}", backend), "ort", None,
                      agreement.stack(Ort(file, True), s), s.outputs("simulate"),
                      s.outputs("float"), 1e-6)
            if backend == "trt-int8":
                for_tensorrt(table, s, opset)


def for_tensorrt(table, s, opset):
    """TensorRT reads int8 only: a warning names the node where ONNX Runtime refuses that."""
    file = s.folder / "trt.onnx"
    done = subprocess.run([agreement.QG, "export", s.path, "--format", "onnx-qdq", "--placement",
                           "trt", "-o", file], capture_output=True, text=True, check=True)
    try:
        Ort(file, True)
        refused = False
    except Exception:  # pylint: disable=broad-exception-caught
        refused = True
    if refused != (f"int8 codes in opset {opset}: the optimizer of ONNX Runtime" in done.stderr):
        table.bad.append(f"opset {opset}, trt: refused {refused}, export says {done.stderr!r}")


def moved(table, folder):
    """Operators over which ONNX Runtime moves int8, or does not: a sum of a vector makes a Gemm
    behind a Reshape of the product."""
    rng = np.random.default_rng(7)
    make, about = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    held = {"w0": rng.normal(size=(6, 3, 3, 3)), "w1": rng.normal(size=(6, 4)),
            "bias": rng.normal(size=4), "one": [1], "five": [5], "two": [2], "pads": [0, 0, 1, 1] * 2}
    middle = {"Slice": [make("Slice", ["a", "one", "five", "two"], ["y0"], "it")],
              "Pad": [make("Pad", ["a", "pads"], ["y0"], "it")],
              "Flatten": [make("Flatten", ["a"], ["y0"], "it")],
              "Transpose": [make("Transpose", ["a"], ["y0"], "it", perm=[0, 2, 3, 1])],
              "MatMul": [make("MatMul", ["a", "w1"], ["m"], "it"), make("Add", ["m", "bias"], ["y0"])]}
    x = rng.normal(size=(4, 1, 3, 8, 8)).astype(np.float32)
    for name, nodes in middle.items():
        graph = onnx.helper.make_graph(
            [make("Conv", ["x", "w0"], ["a"], "conv"), *nodes, make("Selu", ["y0"], ["y"], "selu")],
            name, [about("x", 1, (1, 3, 8, 8))], [about("y", 1, None)],
            [onnx.numpy_helper.from_array(np.asarray(
                v, "i8" if isinstance(v, list) else "f4"), k) for k, v in held.items()])
        for opset in 20, 21:
            path = f"{folder}/{name}{opset}.onnx"
            onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=[
                onnx.helper.make_opsetid("", opset)]), path)
            s = agreement.Snapshot(f"{folder}/moved{name}{opset}", path, "trt-int8", x)
            for_tensorrt(table, s, opset)


def cubics(table, folder):
    """A cubic Resize that shrinks, between integer convolutions: at its default level ONNX
    Runtime refuses files that are not made for it, and a warning names the node."""
    rng = np.random.default_rng(7)
    make, about = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    x = rng.normal(size=(4, 1, 3, 8, 8)).astype(np.float32)
    for scales, refused in (((2, 0.5), True), ((1.5, 2), False)):
        weights = [onnx.numpy_helper.from_array(np.asarray(a, "f4"), name) for name, a in (
            ("w0", rng.normal(size=(4, 3, 3, 3))), ("w1", rng.normal(size=(5, 4, 1, 1))),
            ("scales", (1, 1, *scales)))]
        graph = onnx.helper.make_graph(
            [make("Conv", ["x", "w0"], ["a"], "conv0"),
             make("Resize", ["a", "", "scales"], ["b"], "turned", mode="cubic"),
             make("Conv", ["b", "w1"], ["y"], "conv1")],
            "cubic", [about("x", 1, (1, 3, 8, 8))], [about("y", 1, None)], weights)
        path = f"{folder}/cubic{refused}.onnx"
        onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[
            onnx.helper.make_opsetid("", 17)]), path)
        for backend in ("trt-int8", "openvino-int8"):
            s = agreement.Snapshot(f"{folder}/cubic{refused}{backend}", path, backend, x)
            file, report = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT)
            table.row((f"cubic {scales}", backend), "ort", None,
                      agreement.stack(Ort(file, True), s), s.outputs("simulate"),
                      s.outputs("float"), 1e-3)
            other = s.folder / "other.onnx"
            done = subprocess.run([agreement.QG, "export", s.path, "--format", "onnx-qdq",
                                   "--placement", backend[:-5], "-o", other],
                                  capture_output=True, text=True, check=True)
            try:
                Ort(other, True)
                loads = True
            except Exception:  # pylint: disable=broad-exception-caught
                loads = False
            if loads == refused or ("node 'turned' (Resize)" in done.stderr) != refused:
                table.bad.append(f"cubic {scales}, {backend}: loads {loads}, export says "
                                 f"{done.stderr!r}, {report['losses']}")


def softmaxes(table, folder):
    """QLinearSoftmax multiplies by floor(1 / scale), which above 280 gives anything: where
    that is another scale the file keeps Softmax in float."""
    rng = np.random.default_rng(5)
    make, about = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weights = [onnx.numpy_helper.from_array(rng.normal(size=shape).astype("float32"), name)
               for name, shape in (("w", (16, 8)), ("v", (8, 4)))]
    graph = onnx.helper.make_graph(
        [make("MatMul", ["x", "w"], ["a"], "in"), make("Softmax", ["a"], ["p"], "softmax"),
         make("MatMul", ["p", "v"], ["y"], "out")], "softmax",
        [about("x", 1, (4, 16))], [about("y", 1, (4, 4))], weights)
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[
        onnx.helper.make_opsetid("", 13)]), f"{folder}/softmax.onnx")
    x = rng.normal(0, 0.5, (16, 4, 16)).astype(np.float32)
    for step, kernel in (("0.00390625", True), ("0.0078125", True), ("0.003921569", False),
                         ("0.0039", False), ("0.002", False), ("as read", False)):
        own = ("--set", f"op=Softmax slot=output observer=fixed zero=1 step={step}")
        backend, options = ("xnnpack-int8", ()) if step == "as read" else ("ort-int8", own)
        s = agreement.Snapshot(f"{folder}/{step}", f"{folder}/softmax.onnx", backend, x,
                               *options)
        file, _ = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT)
        ops = {n.op_type for n in optimized(file, folder).node}
        if ("QLinearSoftmax" in ops) != kernel:
            table.bad.append(f"Softmax in steps of {step}: {ops}")
        table.row((step, backend), "ort", None,
                  agreement.stack(Ort(file, True), s), s.outputs("simulate"),
                  s.outputs("float"), 1e-6)


def two_quantizers(table, folder):
    """A value and its reader round on two grids: ONNX Runtime makes one of two pairs in a
    row, with another result, where nothing lies between them."""
    rng = np.random.default_rng(6)
    make, about = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weights = [onnx.numpy_helper.from_array(rng.normal(size=(16, 16)).astype("float32"), name)
               for name in "wv"]
    graph = onnx.helper.make_graph(
        [make("MatMul", ["x", "w"], ["a"], "in"), make("Add", ["a", "a"], ["s"], "add"),
         make("MatMul", ["s", "v"], ["y"], "out")], "two", [about("x", 1, (4, 16))],
        [about("y", 1, (4, 16))], weights)
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[
        onnx.helper.make_opsetid("", 13)]), f"{folder}/two.onnx")
    x = rng.normal(0, 0.5, (16, 4, 16)).astype(np.float32)
    for limits in ("[-127,127]", "[-100,90]"):
        s = agreement.Snapshot(f"{folder}/two {limits}", f"{folder}/two.onnx", "ort-int8", x,
                               "--set", f"slot=output range={limits}")
        file, _ = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT)
        table.row(("two", limits), "ort", None, agreement.stack(Ort(file, True), s),
                  s.outputs("simulate"), s.outputs("float"), 1e-6)


def accuracy(table, folder, path, backend, x):
    """All samples: the same class on 99 %, accuracy within 1 %."""
    labels = np.load(agreement.SHARED / "data/kws_dev.npz")["labels"]
    s = agreement.Snapshot(f"{folder}/kws-all-{backend}", path, backend, x)
    file, _ = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT)
    theirs = agreement.stack(Ort(file, True), s)[0]
    table.accuracy(("kws", backend), "ort", labels, s.outputs("float")[0],
                   s.outputs("simulate")[0], theirs)


def every_backend(table, folder, path, x):
    """Every backend in every form of export: valid, and the same results."""
    known = json.loads(agreement.qg("list", "backends", "--json"))["backends"]
    for backend in [b["backend"] for b in known]:
        s = agreement.Snapshot(f"{folder}/{backend}", path, backend, x[:8])
        simulated, plain = s.outputs("simulate", "reference"), s.outputs("float")
        for placement in ("ort", "trt", "openvino"):
            for weights in ("int", "float"):
                try:
                    file, report = s.export("qdq.onnx", "--format", "onnx-qdq", "--weights",
                                            weights, "--placement", placement)
                except RuntimeError as refused:
                    if placement == "trt" and "for TensorRT" in str(refused):
                        continue
                    raise
                onnx.checker.check_model(str(file), full_check=True)
                rounded = "rounding" in {row["lost"] for row in report["losses"]}
                if report["changed_results"] or placement == "openvino" and rounded:
                    continue  # what OpenVINO rounds otherwise, it is no file for ORT
                table.row(("digits", backend), f"{placement}, {weights}", None,
                          agreement.stack(Ort(file), s), simulated, plain)


def variants(table, folder, path, x):
    """Types and opsets beyond 8 bits.  Its optimizer does not know float8."""
    for name, changes, opset, lost, share in VARIANTS:
        changes = [word for change in changes for word in ("--set", change)]
        s = agreement.Snapshot(f"{folder}/{name}", path, "trt-int8", x[:8], *changes)
        simulated, plain = s.outputs("simulate", "reference"), s.outputs("float")
        for weights in ("int", "float"):
            file, report = s.export("qdq.onnx", "--format", "onnx-qdq", *FOR_ORT,
                                    "--weights", weights)
            if onnx.load(file).opset_import[0].version != opset:
                table.bad.append(f"{name}: another opset than {opset}")
            if {row["lost"] for row in report["losses"]} != lost:
                table.bad.append(f"{name}: lost {report['losses'][:1]}, expected {lost}")
            runtime = Ort(file)
            table.row((name, "trt-int8"), f"ort plain, {weights}",
                      nodes_of(s, file, runtime), agreement.stack(runtime, s), simulated,
                      plain, share=share, rounds_alike="rounding" not in lost)
            if name != "float8":
                table.row((name, "trt-int8"), f"ort as is, {weights}", None,
                          agreement.stack(Ort(file, True), s), simulated, plain)


def main():
    only = sys.argv[1:]
    table = agreement.Table()
    if not only or "kernels" in only:
        with tempfile.TemporaryDirectory() as folder:
            biases(table, folder)
            two_quantizers(table, folder)
            softmaxes(table, folder)
            newer(table, folder)
            cubics(table, folder)
            moved(table, folder)
    for name, path, x in agreement.models():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            compare(table, folder, name, path, x)
            if name == "digits":
                every_backend(table, folder, path, x)
                variants(table, folder, path, x)
    return table.done()


if __name__ == "__main__":
    sys.exit(main())
