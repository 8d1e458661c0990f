#!/usr/bin/env python3
"""openvino-fq and openvino-ir in OpenVINO's CPU plugin: every exported file loads, and
computes the simulated values, node by node and end to end (agreement.py).  Keyword
spotting keeps its classes and its accuracy.  Models in ../shared are skipped when
they are absent.

The plugin runs with f32 as precision hint, without low precision transformations and
without additional rounding of int8 weights (openvino-ir specifies this itself).  A
line `ov int8` is what it does with integer kernels: int8 codes keep every one of
them that FakeQuantize of float weights (`--weights float`) gets, and no file has a
rounding between a convolution and a sum in one kernel, where they leave it out
(residuals).

Schemes of other devices are simulated with the rounding of FakeQuantize, as for a
deployment to OpenVINO; with their own rounding, codes may differ only within a
proven bound on rounding errors (other_rounding)."""
import os
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import openvino as ov
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement
import channel_networks
import small_networks

LEVEL = "--set", "op=* slot=input rounding=half-even-level", \
    "--set", "op=* slot=output rounding=half-even-level"
BACKENDS = {  # backend, options of qg quantize
    "openvino-int8": ("openvino-int8",),
    "openvino-u8": ("openvino-int8", "--set", "pass=unsigned-activations run=yes"),
    "openvino-mixed-int8": ("openvino-mixed-int8",),
    "openvino-avx2-int8": ("openvino-avx2-int8",),
    "ppl-dsp, level": ("ppl-dsp-int8", *LEVEL),  # weights have zero points, too
    "ncnn, level": ("ncnn-int8", *LEVEL),
}
FORMATS = {"openvino-fq": "onnx", "openvino-ir": "xml"}
SAMPLES = 32
ANNOTATIONS = {"FakeQuantize": ("LOW_TENSOR", "HIGH_TENSOR"),
               "DequantizeLinear": ("SCALE_TENSOR", "ZERO_POINT_TENSOR")}
EPSILON = 2.0 ** -24  # of a float32 operation, relative
CORE = ov.Core()


class OpenVino:
    """The CPU plugin on a file, for samples of one shape; with watch, everything that
    FakeQuantize reads and writes is an output too."""

    def __init__(self, path, shape, watch=False, integer=False):
        model = CORE.read_model(path)
        model.reshape({model.input(0): list(shape)})
        self.outs = list(model.outputs)
        self.at, self.end = {}, {}
        for op in model.get_ordered_ops() if watch else ():
            source = op.input_value(0) if op.get_type_name() == "FakeQuantize" else None
            if source is None or source.get_node().get_type_name() == "Constant":
                continue
            name = op.input_value(1).get_node().get_friendly_name().removesuffix("/low")
            self.at[name] = model.add_outputs(op.output(0))[0]
            self.at[name + "/raw"] = model.add_outputs(source)[0]
            self.end[name] = source
        self.index = {o: i for i, o in enumerate(model.outputs)}
        options = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1",
                   "LP_TRANSFORMS_MODE": "YES" if integer else "NO"}
        if path.suffix == ".onnx":
            options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
        self.compiled = CORE.compile_model(model, "CPU", options)
        self.request = self.compiled.create_infer_request()

    def fetch(self, output):
        return self.request.get_output_tensor(self.index[output]).data.copy()

    def values(self, feed):
        self.request.infer(list(feed.values()))
        return {name: self.fetch(o) for name, o in self.at.items()}

    def outputs(self, feed):
        self.request.infer(list(feed.values()))
        return [self.fetch(o) for o in self.outs]

    def integer_kernels(self):
        """Names of the convolutions and products whose data are integers."""
        names = set()
        for op in self.compiled.get_runtime_model().get_ordered_ops():
            info = op.get_rt_info()
            if info["layerType"].astype(str) in (
                    "Convolution", "Deconvolution", "FullyConnected", "MatMul") and \
                    op.get_input_element_type(0).is_integral():
                names.add(op.get_friendly_name().removesuffix("/DequantizationMultiply"))
        return names


def endpoints(snapshot, runtime):
    """{endpoint: value name}; nodes are named conv1/fq_output_0, conv1/fq_input_0."""
    maker = {v: f"{n['name']}.out{k}" for n in snapshot.quant["nodes"]
             for k, v in enumerate(n["outputs"])}
    at = {}
    for n in snapshot.quant["nodes"]:
        for k, v in enumerate(n["inputs"]):
            name = f"{n['name']}/fq_input_{k}"
            if name in runtime.at:
                at[f"{n['name']}.in{k}"] = name
                if v in maker and n["in"][k] is not None:
                    at.setdefault(maker[v], name + "/raw")
        for k, _ in enumerate(n["outputs"]):
            name = f"{n['name']}/fq_output_{k}"
            if name in runtime.at:
                at[f"{n['name']}.out{k}"] = name
                at[f"{n['name']}.out{k}.raw"] = name + "/raw"
    return at


def annotated(table, file):
    """Metadata shown by Netron: limits, or scale and zero point, beside every quantized
    value, and who made the file.  Nothing else is in it: nodes in order, no
    initializer that nobody reads."""
    model = onnx.load(file)
    said = {a.tensor_name: [(p.key, p.value) for p in a.quant_parameter_tensor_names]
            for a in model.graph.quantization_annotation}
    seen = {i.name for i in model.graph.initializer} | {i.name for i in model.graph.input}
    dead = {i.name for i in model.graph.initializer}
    for n in model.graph.node:
        keys = ANNOTATIONS.get(n.op_type)
        if keys and said.pop(n.output[0], None) != list(zip(keys, n.input[1:3])):
            table.bad.append(f"{file}: no annotation of {n.output[0]}")
        if not set(n.input) - {""} <= seen:
            table.bad.append(f"{file}: {n.name} reads what comes later")
        seen.update(n.output)
        dead -= set(n.input)
    about = {p.key: p.value for p in model.metadata_props}
    if said or dead or about.get("quantgraph.format") != "openvino-fq":
        table.bad.append(f"{file}: {said}, not read {dead}, metadata {about}")


def compare(table, folder, name, path, x):
    """The two files are equivalent: the plugin computes the same bits."""
    for backend in agreement.share(BACKENDS, name, 6):
        base, *options = BACKENDS[backend]
        s = agreement.Snapshot(f"{folder}/{name}-{backend}", path, base, x[:SAMPLES],
                               *options)
        outputs = s.outputs("simulate"), s.outputs("float")
        fq, ir = (s.export(f"ov.{suffix}", "--format", fmt)[0]
                  for fmt, suffix in FORMATS.items())
        annotated(table, fq)
        shape = x.shape[1:]
        watched = OpenVino(fq, shape, watch=True)
        nodes = agreement.follow(s, watched, endpoints(s, watched))
        theirs = agreement.stack(OpenVino(fq, shape), s)
        table.row((name, backend), "ov fq", nodes, theirs, *outputs)
        same = agreement.stack(OpenVino(ir, shape), s)
        if not all(np.array_equal(a, b) for a, b in zip(theirs, same, strict=True)):
            table.bad.append(f"{name} {backend}: the IR gives other outputs than the ONNX")
        integer = OpenVino(ir, shape, integer=True)
        table.row((name, backend), "ov int8", None, agreement.stack(integer, s), *outputs,
                  limit=np.inf if "level" in backend else agreement.LIMIT_ENERGY)
        float_weights(table, (name, backend), s, shape, integer.integer_kernels(), outputs)
        if name == "kws":
            accuracy(table, folder, path, backend, x)


def float_weights(table, at, s, shape, kernels, outputs):
    """--weights float: loads, and computes the same but for weights that are ties, as the
    largest of a channel is; what has an integer kernel there has one with codes, too."""
    ir, _ = s.export("float.xml", "--format", "openvino-ir", "--weights", "float")
    lost = OpenVino(ir, shape, integer=True).integer_kernels() - kernels
    if lost:
        table.bad.append(f"{' '.join(at)}: no integer kernel with codes: {sorted(lost)}")
    if at[0] == "digits":
        for fmt, suffix in FORMATS.items():
            file, _ = s.export(f"float.{suffix}", "--format", fmt, "--weights", "float")
            table.row(at, f"ov {suffix} float", None,
                      agreement.stack(OpenVino(file, shape), s), *outputs, limit=1)


def accuracy(table, folder, path, backend, x):
    """All samples: the same class on 99 %, accuracy within 1 %.  Integer kernels have no
    limit for backends that they do not round like, as in compare(): with VNNI but no
    AMX the plugin gave another class on 4 % of KWS (same before any change of ours)."""
    labels = np.load(agreement.SHARED / "data/kws_dev.npz")["labels"]
    base, *options = BACKENDS[backend]
    s = agreement.Snapshot(f"{folder}/kws-all-{backend}", path, base, x, *options)
    simulated, plain = s.outputs("simulate")[0], s.outputs("float")[0]
    for fmt, suffix in FORMATS.items():
        file, _ = s.export(f"ov.{suffix}", "--format", fmt)
        for integer in (False, True):
            theirs = agreement.stack(OpenVino(file, x.shape[1:], integer=integer), s)[0]
            table.accuracy(("kws", backend), fmt + (" int8" if integer else ""), labels,
                           plain, simulated, theirs,
                           limited=not (integer and "level" in backend))


def placed(table, folder, name, path, x):
    """onnx-qdq for OpenVINO: the plugin loads it, also with its integer kernels."""
    for backend in ("ort-int8", "trt-int8"):  # signed with zero point, symmetric
        s = agreement.Snapshot(f"{folder}/{name}-q-{backend}", path, backend, x[:SAMPLES])
        words = "--format", "onnx-qdq", "--placement", "openvino"
        file, report = s.export("q.onnx", *words)
        if not any(f"backend '{backend}' is not one for OpenVINO" in loss["meaning"]
                   for loss in report["losses"]):
            table.bad.append(f"{name} {backend}: no row: {report['losses']}")
        outputs = s.outputs("simulate"), s.outputs("float")
        for integer in (False, True):
            runtime = OpenVino(file, x.shape[1:], integer=integer)
            table.row((name, backend), "ov qdq" + (" int8" if integer else ""), None,
                      agreement.stack(runtime, s), *outputs,
                      limit=np.inf if integer else agreement.LIMIT_ENERGY)


def joined(path, activation, opset, pool):
    """Convolution and activation, [a pool,] convolution, a Concat of both, convolution; the
    last one has a Transpose behind it, which ONNX Runtime moves."""
    rng, make = np.random.default_rng(7), onnx.helper.make_node
    constants = [onnx.numpy_helper.from_array(
        (0.3 * rng.standard_normal(shape)).astype("float32"), name)
        for name, shape in (("w", (8, 3, 3, 3)), ("u", (8, 8, 1, 1)), ("v", (4, 16, 1, 1)))]
    nodes = [make("Conv", ["x", "w"], ["c"], "c", pads=[1] * 4), make(activation, ["c"], ["a"], "a"),
             make("MaxPool", ["a"], ["p"], "p", kernel_shape=[3, 3], pads=[1] * 4),
             make("Conv", ["p" if pool else "a", "u"], ["d"], "d"),
             make("Concat", ["d", "a"], ["k"], "k", axis=1), make("Conv", ["k", "v"], ["e"], "e"),
             make("Transpose", ["e"], ["y"], "y", perm=[0, 2, 3, 1])]
    about = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([n for n in nodes if pool or n.name != "p"], "joined",
                                   [about("x", 1, (1, 3, 8, 8))], [about("y", 1, (1, 8, 8, 4))],
                                   constants)
    onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=[
        onnx.helper.make_opsetid("", opset)]), path)


def concats(table, folder):
    """onnx-qdq for OpenVINO: at a Concat its integer kernels lose codes of signed activations;
    the file has unsigned ones.  ONNX Runtime loads it, qg reads the same simulation back."""
    import test_export_ort
    x = 3 * np.random.default_rng(8).normal(size=(8, 1, 3, 8, 8)).astype(np.float32)
    trials = [(activation, opset, pool, "openvino-int8") for activation, opset, pool in (
        ("Relu", 14, False), ("LeakyRelu", 14, False), ("HardSwish", 14, True),
        ("Sigmoid", 14, True), ("Sigmoid", 21, True))] + [("LeakyRelu", 14, True, "trt-int8"),
                                                          ("Relu", 21, True, "trt-int8")]
    for k, (activation, opset, pool, backend) in enumerate(trials):
        joined(f"{folder}/{k}.onnx", activation, opset, pool)
        s = agreement.Snapshot(f"{folder}/{k}", f"{folder}/{k}.onnx", backend, x)
        file, _ = s.export("q.onnx", "--format", "onnx-qdq", "--placement", "openvino")
        written = onnx.load(file).graph
        zeros = {n.input[2] for n in written.node if n.op_type == "QuantizeLinear"}
        types = {i.data_type for i in written.initializer if i.name in zeros}
        if types != {onnx.TensorProto.UINT8}:
            table.bad.append(f"concat {k}: types {types}")
        outputs = s.outputs("simulate"), s.outputs("float")
        for runtime, name in ((OpenVino(file, x.shape[1:]), "ov qdq"),
                              (OpenVino(file, x.shape[1:], integer=True), "ov int8"),
                              (test_export_ort.Ort(file, True), "ort")):
            table.row((f"concat, {opset}", backend), name, None, agreement.stack(runtime, s),
                      *outputs, limit=0.02)
        agreement.qg("import", file, "--format", "onnx-qdq", "-o", s.folder / "again")
        agreement.qg("run", s.folder / "again", "-d", s.data, "-o", s.folder / "y")
        again = [np.load(s.folder / "y" / "y.npy")]
        table.row((f"concat, {opset}", backend), "again", None, again, *outputs, limit=0.02)


TURNED = {  # backends, --set: weights of a scale and a zero point per tensor or channel
    "snpe-int8": ("snpe-int8",),
    "ov tensor": ("openvino-int8", "--set", "slot=weight policy=[per-tensor,linear,asymmetric] "
                  "range=[-128,127]"),
    "ort channel": ("ort-int8", "--set", "slot=weight policy=[per-channel,linear,asymmetric] "
                    "range=[0,255]"),
}


def turned(table, folder):
    """Transposed convolutions whose weights have zero points, alone and between others, with
    groups: OpenVINO's integer kernels compute what is simulated."""
    rng, make = np.random.default_rng(5), onnx.helper.make_node
    constants = [onnx.numpy_helper.from_array(
        (0.3 * rng.standard_normal(shape) + 0.2).astype("float32"), name)
        for name, shape in (("w", (4, 3, 2, 2)), ("b", (3,)), ("u", (4, 4, 1, 1)),
                            ("v", (4, 2, 3, 3)), ("z", (3, 4, 1, 1)))]
    nets = {"alone": [make("ConvTranspose", ["x", "w", "b"], ["y"], "t", strides=[2, 2])],
            "between": [make("Conv", ["x", "u"], ["c"], "c"), make("Relu", ["c"], ["r"], "r"),
                        make("ConvTranspose", ["r", "v"], ["t"], "t", group=2, strides=[2, 2]),
                        make("Conv", ["t", "z"], ["y"], "y")]}
    x = np.abs(rng.normal(size=(8, 1, 4, 5, 5))).astype(np.float32)
    about = onnx.helper.make_tensor_value_info
    for net, nodes in nets.items():
        graph = onnx.helper.make_graph(
            nodes, "turned", [about("x", 1, (1, 4, 5, 5))], [about("y", 1, (1, 3, None, None))],
            [c for c in constants if any(c.name in n.input for n in nodes)])
        path = f"{folder}/{net}.onnx"
        onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[
            onnx.helper.make_opsetid("", 14)]), path)
        for backend, (base, *options) in TURNED.items():
            s = agreement.Snapshot(f"{folder}/{net}-{backend}", path, base, x, *options)
            outputs = s.outputs("simulate"), s.outputs("float")
            for fmt, suffix, *more in (("openvino-ir", "xml"), ("openvino-fq", "onnx"),
                                       ("onnx-qdq", "q.onnx", "--placement", "openvino")):
                file, _ = s.export(f"ov.{suffix}", "--format", fmt, *more)
                table.row((f"turned, {net}", backend), f"{fmt} int8", None, agreement.stack(
                    OpenVino(file, x.shape[1:], integer=True), s), *outputs, limit=0.1)
                if suffix != "xml":
                    again = s.folder / f"again-{fmt}"
                    agreement.qg("import", file, "--format", fmt, "-o", again)
                    agreement.qg("run", again, "-d", s.data, "-o", s.folder / "y")
                    table.row((f"turned, {net}", backend), "again", None,
                              [np.load(s.folder / "y" / "y.npy")], *outputs, limit=0.1)


def error_bound(steps, zero, low, high):
    """How far the plugin's level may lie from x / scale + zero, in steps.

    It computes round(x * isc - il * isc) with isc = n / (ih - il), n = high - low and the
    limits il, ih = (low - zero, high - zero) * scale as float32.  Relative errors in
    units of EPSILON: 1 of ih - il from its limits and 1 from itself, 1 of the division, 1
    of the product; the shift has 1 of il besides; 1 of the sum; ours 1 of x / scale."""
    return EPSILON * (5 * np.abs(steps) + 5 * np.abs(zero - low) + (high - low))


def other_rounding(table, folder, name, path, x):
    """A backend that rounds otherwise: every code that differs is a tie within the bound,
    and the loss report says so."""
    s = agreement.Snapshot(f"{folder}/{name}-ppl", path, "ppl-dsp-int8", x[:SAMPLES])
    file, report = s.export("ov.onnx", "--format", "openvino-fq")
    watched = OpenVino(file, x.shape[1:], watch=True)
    if "rounding" not in {loss["lost"] for loss in report["losses"]}:
        table.bad.append(f"{name}: the report does not say that rounding is lost")
    records = {f"{t['node']}/fq_{'out' if 'out' in t['slot'] else 'in'}put_"
               f"{t['slot'].lstrip('inout')}": t for t in s.quant["tqcs"]}
    differ = total = 0
    for sample in s.x:
        values = watched.values({s.input: sample})
        for at in watched.end:
            record, raw, theirs = records[at], values[at + "/raw"], values[at]
            (scale,), (zero,) = (np.array(record[k] or [0], "float32")
                                 for k in ("scale", "offset"))
            low, high = record["range"]
            ours = np.clip(np.rint(raw / scale) + zero, low, high)
            off = np.rint(theirs / scale) + zero != ours
            steps = raw[off].astype("float64") / scale
            tie = np.abs(steps - np.floor(steps) - 0.5) <= \
                error_bound(steps, zero, low, high)
            differ, total = differ + off.sum(), total + off.size
            if not tie.all():
                table.bad.append(f"{name}: {at}: a code differs that is no tie")
    print(f"  {name} ppl-dsp-int8, its own rounding: {differ} of {total} differ, all ties")


def residual(path, activation, join, after):
    """convolution, [activation,] join with what came before two convolutions, [after]"""
    rng, wide = np.random.default_rng(1), (16, 16, 3, 3)
    weights = {"w0": (16, 8, 3, 3), "w1": wide, "w2": wide, "w3": wide, "w4": (8, 16, 1, 1)}
    constants = [onnx.numpy_helper.from_array(
        (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype("float32"), name)
        for name, shape in weights.items()]
    make, pads = onnx.helper.make_node, {"pads": [1] * 4}
    nodes = [make("Conv", ["x", "w0"], ["c0"], **pads), make("Relu", ["c0"], ["a"]),
             make("Conv", ["a", "w1"], ["c1"], **pads), make("Relu", ["c1"], ["b"]),
             make("Conv", ["b", "w2"], ["c2"], **pads)]
    other = "a"
    if join == "both":  # two convolutions: the kernel of one adds the other's result
        nodes.append(make("Conv", ["b", "w3"], ["c3"], **pads))
        join, other = "Add", "c3"
    last = "c2"
    for op, inputs in ((activation, ()), (join, (other,)), (after, ())):
        if op:
            nodes.append(make(op, [last, *inputs], [last + "_" + op]))
            last += "_" + op
    nodes.append(make("Conv", [last, "w4"], ["y"]))
    for k, node in enumerate(nodes):
        node.name = f"n{k}"
    about = [[onnx.helper.make_tensor_value_info(v, 1, (1, 8, 12, 12))] for v in "xy"]
    graph = onnx.helper.make_graph(nodes, "residual", *about,
                                   [c for c in constants
                                    if any(c.name in n.input for n in nodes)])
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[
        onnx.helper.make_opsetid("", 14)]), path)


def residuals(table, folder):
    """The integer kernel of a convolution to which a sum is fused does not round what a
    FakeQuantize between them says; openvino-int8 puts none there, and the files of other
    backends have the sum in float."""
    x = np.random.default_rng(2).normal(size=(8, 1, 8, 12, 12)).astype(np.float32)
    shapes = [(None, "Add", None), (None, "Add", "Relu"), (None, "Sub", None),
              (None, "both", "Relu"), ("Relu", "Add", None), ("HardSwish", "Add", None),
              ("Sigmoid", "Add", "Relu"), ("LeakyRelu", "Sub", None), (None, "Mul", None)]
    # unsigned grids clamp: there Relu goes, and its FakeQuantize stands before the sum
    trials = [(*shape, "openvino-int8") for shape in shapes] + \
        [("Relu", "Add", "Relu", name) for name in ("openvino-u8", "openvino-mixed-int8")] + \
        [(*shape, name) for name in ("ort, level", "trt, level") for shape in shapes]
    for k, (activation, join, after, backend) in enumerate(trials):
        residual(f"{folder}/{k}.onnx", activation, join, after)
        base, *options = BACKENDS.get(backend) or (backend.replace(", level", "-int8"), *LEVEL)
        s = agreement.Snapshot(f"{folder}/{k}", f"{folder}/{k}.onnx", base, x, *options)
        file, _ = s.export("ov.xml", "--format", "openvino-ir")
        outputs = s.outputs("simulate"), s.outputs("float")
        for integer in (False, True):
            runtime = OpenVino(file, x.shape[1:], integer=integer)
            table.row((activation or "-", f"{join}, {after or '-'}"),
                      "ov int8" if integer else "ov fq", None,
                      agreement.stack(runtime, s), *outputs, limit=0.02)


def names(table, folder):
    """Inputs and outputs keep their names, whatever the characters; those that XML cannot hold
    are refused."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    for k, name in enumerate(("a b/c:0", "tab\there", "line\nbreak\r", "<&'\">,\\", "\u00e9\U0001f642",
                              "x" * 1000, "bell\x07")):
        path = f"{folder}/{k}.onnx"
        graph = onnx.helper.make_graph(
            [make("Conv", [name, "w"], [name + "y"], name)], "names", [info(name, 1, (1, 3, 4, 4))],
            [info(name + "y", 1, (1, 2, 4, 4))],
            [onnx.numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w")])
        onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[
            onnx.helper.make_opsetid("", 14)]), path)
        s = agreement.Snapshot(f"{folder}/{k}", path, "openvino-int8",
                               np.ones((2, 1, 3, 4, 4), np.float32))
        try:
            file, _ = s.export("ov.xml", "--format", "openvino-ir")
            model = ov.Core().read_model(file)
            found = [n for port in model.inputs + model.outputs for n in port.names]
        except RuntimeError as why:
            found = [name, name + "y"] if "\x07" in name and "character 0x07" in str(why) else why
        if found != [name, name + "y"]:
            table.bad.append(f"names {name[:20]!r}: {found}")


def maxima(table, folder):
    """A maximum with quantizers on both of its sides: its input is rounded first, and
    other readers of the input see that alone."""
    x = np.random.default_rng(7).normal(0, 4, (8, 1, 8, 5, 11)).astype(np.float32)
    for op in "GlobalMaxPool x", "ReduceMax x axes=2,3", "ReduceMin x axes=2,3":
        name, _, axes = op.partition(" x")
        form = small_networks.Form(f"z=Conv x w:8,8,1,1 | m={name} x{axes} "
                                   "| c=Conv m v:8,8,1,1 | y=Add z c", x=x.shape[1:])
        path = f"{folder}/{name}.onnx"
        onnx.save(small_networks.Builder(form, 3).model(name), path)
        s = agreement.Snapshot(f"{folder}/{name}", path, "aimet-default", x)
        outputs = s.outputs("simulate"), s.outputs("float")
        for fmt, suffix, *more in (("openvino-ir", "xml"), ("openvino-fq", "onnx"),
                                   ("onnx-qdq", "q.onnx", "--placement", "openvino")):
            file, _ = s.export(f"ov.{suffix}", "--format", fmt, *more)
            table.row((f"maxima, {name}", "aimet-default"), fmt, None, agreement.stack(
                OpenVino(file, x.shape[1:]), s), *outputs, limit=0.1)


def saved(path, nodes, held, x, opset):
    """A network from x to y."""
    info = onnx.helper.make_tensor_value_info
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(
        [onnx.helper.make_node(op, *ends, **attributes) for op, *ends, attributes in nodes],
        "net", [info("x", onnx.TensorProto.FLOAT, x.shape[1:])],
        [info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(v, k) for k, v in held.items()]),
        ir_version=8, opset_imports=[onnx.helper.make_opsetid("", opset)]), path)


def reductions(table, folder):
    """Opsets 13 to 17 of ReduceL1, ReduceLogSum and ReduceLogSumExp reduce over all axes in
    OpenVINO: files have opset 18 then, or their own below 13."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(8, 1, 3, 6, 6)).astype(np.float32)
    weight = {"w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32)}
    for op in "ReduceL1", "ReduceLogSum", "ReduceLogSumExp":
        for opset in 11, 14:
            path = f"{folder}/{op}{opset}.onnx"
            saved(path, [("Conv", ["x", "w"], ["c"], {}), ("Sigmoid", ["c"], ["s"], {}),
                         (op, ["s"], ["y"], {"axes": [2, 3]})], weight, x, opset)
            s = agreement.Snapshot(f"{folder}/{op}{opset}", path, "openvino-avx2-int8", x)
            outputs = s.outputs("simulate"), s.outputs("float")
            for words in (["openvino-fq"], ["openvino-fq", "--weights", "float"],
                          ["onnx-qdq", "--placement", "openvino"]):
                file, _ = s.export("ov.onnx", "--format", *words)
                table.row((f"{op}-{opset}", "openvino"), " ".join(words), None,
                          agreement.stack(OpenVino(file, x.shape[1:]), s), *outputs,
                          limit=0.05)


def apart():
    """{what: (nodes, constants, shape of x, opset)}: OpenVINO computes the first of each pair
    otherwise than ONNX defines it, the second as defined."""
    rng = np.random.default_rng(6)

    def held(*shape):
        return rng.normal(size=shape).astype(np.float32)
    two = np.random.default_rng(9)
    lstm = {"W": held(1, 20, 4), "R": held(1, 20, 5), "P": held(1, 15), "U": held(1, 15, 4),
            "S": held(1, 15, 5), "T": held(1, 5, 4), "V": held(1, 5, 5),
            "W2": two.normal(size=(2, 20, 4)).astype(np.float32),
            "R2": two.normal(size=(2, 20, 5)).astype(np.float32)}
    recur = ["x", "W", "R"], ["y"]
    image, weight = (2, 6, 6), {"v": held(2, 2, 1, 1)}

    def reduced(op, **more):
        return [("Conv", ["x", "v"], ["c"], {}), (op, ["c"], ["y"], more)]

    def reduced_by(op, by, **more):
        ends = ["c", by, "first"] if op == "RoiAlign" else ["c", "", by]
        return [("Conv", ["x", "v"], ["c"], {}), (op, ends, ["y"], more)]
    scale = {**weight, "twice": np.float32([1, 1, 2, 2]), "half": np.float32([1, 1, 0.5, 0.5]),
             "regions": np.float32([[0.3, 0.2, 4.7, 5.1]]),
             "first": np.zeros(1, np.int64)}
    plain = {"hidden_size": 5}
    none = {"noop_with_empty_axes": 1}
    ways, both = (["x", "W2", "R2"], ["y"]), {**plain, "direction": "bidirectional"}
    same, other = ["Sigmoid", "Tanh", "Tanh"], ["Tanh", "Tanh", "Relu"]
    return {
        "peepholes": ([("LSTM", [*recur[0], "", "", "", "", "P"], ["y"], plain)], lstm, (1, 4), 14,
                      [("LSTM", *recur, plain)]),
        "input_forget": ([("LSTM", *recur, {**plain, "input_forget": 1})], lstm, (1, 4), 14,
                         [("LSTM", *recur, {**plain, "clip": 0.5})]),
        "no axes, L1": (reduced("ReduceL1", **none), weight, image, 18, reduced("ReduceL1")),
        "no axes, L2": (reduced("ReduceL2", **none), weight, image, 18,
                        reduced("ReduceSumSquare", **none)),
        "layout": ([("LSTM", *recur, {**plain, "layout": 1})], lstm, (1, 4), 14,
                   [("LSTM", *recur, plain)]),
        "layout, GRU": ([("GRU", ["x", "U", "S"], ["y"], {**plain, "layout": 1})], lstm, (1, 4), 14,
                        [("GRU", ["x", "U", "S"], ["y"], plain)]),
        "layout, RNN": ([("RNN", ["x", "T", "V"], ["y"], {**plain, "layout": 1})], lstm, (1, 4), 14,
                        [("RNN", ["x", "T", "V"], ["y"], plain)]),
        "ways": ([("LSTM", *ways, {**both, "activations": same + other})], lstm, (1, 4), 14,
                 [("LSTM", *ways, {**both, "activations": 2 * same})]),
        **{f"resize, {key}": (reduced_by("Resize", sizes, mode=mode, **{key: value}), scale, image,
                              19, reduced_by("Resize", sizes, mode=mode))
           for key, value, mode, sizes in (("exclude_outside", 1, "cubic", "twice"),
                                           ("antialias", 1, "linear", "half"))},
        "regions": (reduced_by("RoiAlign", "regions", mode="max", sampling_ratio=2), scale, image,
                    18, reduced_by("RoiAlign", "regions", sampling_ratio=2)),
        "samples": (reduced_by("RoiAlign", "regions"), scale, image, 18,
                    reduced_by("RoiAlign", "regions", sampling_ratio=1)),
        "even window": (reduced("LRN", size=2, alpha=0.5), weight, image, 18,
                        reduced("LRN", size=3, alpha=0.5))}


REFUSED = {  # by OpenVINO, and so by the exports: what replaces it
    "Det": ((), {}, None), "Pad": (("rims",), {"mode": "wrap"}, {"mode": "edge"}),
    "Resize": (("", "twice"), {"coordinate_transformation_mode": "half_pixel_symmetric"}, {}),
    "RNN": (("T", "V"), {"hidden_size": 5, "activations": ["LeakyRelu"]},
            {"hidden_size": 5, "activations": ["Relu"]}),
}


def refused(table, folder):
    rng = np.random.default_rng(6)
    held = {"rims": np.int64([0, 0, 1, 1, 0, 0, 1, 1]), "twice": np.float32([1, 1, 2, 2]),
            "T": rng.normal(size=(1, 5, 6)).astype(np.float32),
            "V": rng.normal(size=(1, 5, 5)).astype(np.float32)}
    for op, (ends, wrong, right) in REFUSED.items():
        shape = (4, 6) if op == "RNN" else (2, 6, 6)
        x = rng.normal(size=(4, 6 if op == "RNN" else 1, *shape)).astype(np.float32)
        for words in wrong, right:
            if words is None:
                continue
            path = f"{folder}/refused.onnx"
            saved(path, [(op, ["x", *ends], ["y"], words)],
                  {k: v for k, v in held.items() if k in ends}, x, 19)
            s = agreement.Snapshot(f"{folder}/refused", path, "openvino-avx2-int8", x)
            for form in ["openvino-fq"], ["onnx-qdq", "--placement", "openvino"]:
                try:
                    s.export("ov.onnx", "--format", *form)
                    told = False
                except Exception as why:
                    told = "OpenVINO" in str(why) and "expected" in str(why)
                if told != (words is wrong):
                    table.bad.append(f"{op} {words}: {form[0]}: refused {told}")


def readers(table, folder):
    """What OpenVINO computes otherwise in files of ONNX has a row that changes results; what
    it computes as defined has none."""
    rows = 0
    for what, (wrong, held, shape, opset, right) in apart().items():
        x = np.random.default_rng(7).normal(size=(8, 1 if len(shape) > 2 else 7, *shape))
        for kind, nodes in ("wrong", wrong), ("right", right):
            used = {name for _, ends, *_ in nodes for name in ends}
            path = f"{folder}/{kind}.onnx"
            saved(path, nodes, {k: v for k, v in held.items() if k in used},
                  x.astype(np.float32), opset)
            s = agreement.Snapshot(f"{folder}/{what}{kind}", path, "openvino-avx2-int8",
                                   x.astype(np.float32))
            ours = s.outputs("simulate")[0]
            for words in ["openvino-fq"], ["onnx-qdq", "--placement", "openvino"]:
                file, report = s.export("ov.onnx", "--format", *words)
                theirs = agreement.stack(OpenVino(file, x.shape[1:]), s)[0]
                off = np.abs(theirs - ours).max() / np.abs(ours).max() \
                    if theirs.shape == ours.shape else np.inf
                told = sum("OpenVINO computes something else" in loss["meaning"] and
                           loss["changes_results"] for loss in report["losses"])
                rows += told
                if told != (kind == "wrong") or (off > 0.04) != (kind == "wrong"):
                    table.bad.append(f"{what}, {kind}, {words[0]}: {told} rows, {off:.3f} off")
    print(f"readers: {rows} rows")


def first_channels(table, folder):
    """Networks with an open batch and constants per channel in front of a rounding, which
    OpenVINO takes for those of the first channel; and how many barriers prevent it."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(6, 1, 3, 8, 8)).astype(np.float32)

    def held(*shape):
        return (rng.normal(size=shape) * 0.3).astype(np.float32)
    weights = {"w": held(8, 3, 3, 3), "b": held(8), "v": held(8, 8, 3, 3), "u": held(8) * 3,
               "k": held(1, 8, 1, 1) + np.float32(0.05), "G": held(1, 24, 8), "Q": held(1, 24, 8), "o": held(4, 8, 1, 1),
               "rest": np.int64([-1]), "first": np.int64([0]), "g": held(8, 6), "gb": held(6),
               "h": held(6, 8), "rows": np.int64([0]),
               "mean": np.float32([-3, 0, 4]).reshape(1, 3, 1, 1),
               "std": np.float32([0.5, 1, 3]).reshape(1, 3, 1, 1), "mix": held(3, 3, 1, 1)}
    pads = {"pads": [1] * 4}
    two = [("Conv", ["x", "w", "b"], ["a"], pads), ("Conv", ["a", "v", "u"], ["d"], pads)]
    gru = [("ReduceMean", ["d"], ["m"], {"axes": [2], "keepdims": 0}),
           ("Transpose", ["m"], ["t"], {"perm": [2, 0, 1]}),
           ("GRU", ["t", "G", "Q"], ["y"], {"hidden_size": 8})]
    plain = [("Conv", ["x", "w"], ["c"], pads)]
    both = [("Conv", ["a", "o"], ["d"], {}), ("Relu", ["c"], ["r"], {}),
            ("Conv", ["r", "o"], ["e"], {}), ("Add", ["d", "e"], ["y"], {})]
    normal = [("Sub", ["x", "mean"], ["s"], {}), ("Div", ["s", "std"], ["n"], {}),
              ("Conv", ["n", "w"], ["y"], pads)]
    pooled = [("Conv", ["x", "mix"], ["c"], {}), ("MaxPool", ["c"], ["p"], {"kernel_shape": [2, 2]}),
              ("Sub", ["p", "mean"], ["s"], {}), *normal[1:]]
    cases = {
        "from the mean": ([("Sub", ["mean", "x"], ["s"], {}), ("Mul", ["std", "s"], ["n"], {}),
                           normal[2]], 1),
        "mean": ([("Sub", ["x", "mean"], ["n"], {}), normal[2]], 1),
        "mean, deviation": (normal, 1),
        "pool, mean, deviation": (pooled, 3),
        "closed": (pooled, 2),
        "GRU": (two + gru, 2),
        "Expand": (two + [("Shape", ["d"], ["s"], {}), ("Expand", ["k", "s"], ["e"], {}),
                          ("Mul", ["d", "e"], ["y"], {})], 3),
        "Relu": ([two[0], ("Relu", ["a"], ["r"], {}), ("Conv", ["r", "v"], ["d"], pads)] + gru, 1),
        "Mul": (plain + [("Mul", ["c", "k"], ["a"], {})] + both, 3),
        "Add": (plain + [("Add", ["c", "k"], ["a"], {})] + both, 3),
        "Gemm": (two[:1] + [("GlobalAveragePool", ["a"], ["p"], {}), ("Flatten", ["p"], ["f"], {}),
                            ("Gemm", ["f", "g", "gb"], ["e"], {}), ("Gemm", ["e", "h"], ["i"], {}),
                            ("Unsqueeze", ["i", "rows"], ["t"], {}),
                            ("GRU", ["t", "G", "Q"], ["y"], {"hidden_size": 8})], 2),
        "flat": (two + [("Shape", ["d"], ["s"], {}), ("Gather", ["s", "first"], ["n"], {}),
                        ("Concat", ["n", "rest"], ["dims"], {"axis": 0}),
                        ("Reshape", ["d", "dims"], ["y"], {})], 0),
    }
    for what, (nodes, barriers) in cases.items():
        path = f"{folder}/{what}.onnx"
        saved(path, nodes, {k: v for k, v in weights.items()
                            if any(k in ends for _, ends, *_ in nodes)}, x, 17)
        model = onnx.load(path)
        if what != "closed":
            model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        onnx.save(model, path)
        s = agreement.Snapshot(f"{folder}/{what}", path, "openvino-int8", x)
        outputs = s.outputs("simulate"), s.outputs("float")
        for words in ["openvino-fq"], ["onnx-qdq", "--placement", "openvino"]:
            file, report = s.export("ov.onnx", "--format", *words)
            made = sum(n.op_type == "Max" for n in onnx.load(file).graph.node)
            if made != barriers or report["changed_results"]:
                table.bad.append(f"{what}, {words[0]}: {made} barriers, {report['losses']}")
            for integer in False, True:  # without and with its transformations
                runtime = OpenVino(file, (1 if what == "closed" else -1, *x.shape[2:]),
                                   integer=integer)
                table.row((what, "openvino-int8"), f"{words[0]}, {'lp' if integer else 'open'}",
                          None, agreement.stack(runtime, s), *outputs, limit=0.05)


def drawn_channels(table, folder):
    """Drawn networks of constants per channel between moves, pools and functions: with known
    and open dims, with and without transformations."""
    for seed in range(300 if "QG_ALL" in os.environ else 30):
        nodes, held, x, is_open = channel_networks.drawn(seed)
        path = f"{folder}/{seed}.onnx"
        saved(path, nodes, held, x, 17)
        model = onnx.load(path)
        if is_open:
            model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        onnx.save(model, path)
        s = agreement.Snapshot(f"{folder}/{seed}", path, "openvino-int8", x)
        ours = s.outputs("simulate")[0]
        for words in ["openvino-fq"], ["onnx-qdq", "--placement", "openvino"]:
            file, report = s.export("ov.onnx", "--format", *words)
            for integer in False, True:
                runtime = OpenVino(file, (-1 if is_open else 1, *x.shape[2:]), integer=integer)
                theirs = agreement.stack(runtime, s)[0]
                off = np.sqrt(((theirs - ours) ** 2).mean() / (ours ** 2).mean())
                if off > 0.05 and not report["changed_results"]:
                    table.bad.append(f"drawn {seed}, {words[0]}, integer {integer}: {off:.3f} off")


NARROW = {
    "conv": "c=Conv x w:4,4,3,3 p=1 | r=Clip c ~0 ~6 | y=Conv r v:4,4,3,3 p=1",
    "gemm": "c=Conv x w:4,4,3,3 p=1 | r=Clip c ~0 ~6 | f=Flatten r | y=Gemm f v:256,5",
    "join": "c=Conv x w:4,4,1,1 | d=Conv x v:4,4,1,1 | r=Relu d | k=Concat c r axis=1 "
            "| y=Conv k u:8,8,1,1",
}


def narrow(table, folder):
    """Grids of few codes, behind a clamp of 8 bits or a Concat: 15 levels, or 255 off the middle,
    which low precision transformations round again; and codes of 4 bits, flat in front of a product."""
    x = np.random.default_rng(8).normal(0.3, 4, (8, 1, 4, 8, 8)).astype(np.float32)
    offset = "policy=per-tensor,linear,asymmetric"
    for name, line in NARROW.items():
        path = f"{folder}/{name}.onnx"
        form = small_networks.Form(line, x=x.shape[1:])
        onnx.save(small_networks.Builder(form, 3).model(name), path)
        slots = ("slot=input constant=no", "slot=output") if name == "join" else \
            ("op=[Conv,Gemm] slot=in0",)
        for grid in ("bits=4 range=-8,7", "bits=4 range=-7,7", f"range=-127,127 {offset}",
                     f"bits=4 range=-7,7 {offset}", "bits=3 range=0,7"):
            chosen = [word for slot in slots for word in ("--set", f"{slot} {grid}")]
            for backend in "openvino-int8", "openvino-mixed-int8":
                s = agreement.Snapshot(f"{folder}/{name}", path, backend, x, *chosen)
                outputs = s.outputs("simulate"), s.outputs("float")
                for fmt, suffix in (("openvino-ir", "xml"), ("openvino-fq", "onnx"),
                                    ("onnx-qdq", "q.onnx")):
                    file, report = s.export(f"ov.{suffix}", "--format", fmt)
                    ties = "rounding" in {row["lost"] for row in report["losses"]}
                    saturates = fmt == "onnx-qdq" and "127" in grid and not table.exact
                    table.row((f"{name}, {grid}", backend), fmt, None, agreement.stack(
                        OpenVino(file, x.shape[1:], integer=True), s), *outputs,
                              limit=np.inf if saturates else 0.1 if ties else 0.02)


def products(table, folder):
    """A product of two activations: with 8 bits its sums saturate on CPUs without VNNI."""
    x = np.random.default_rng(5).uniform(0, 1, (16, 1, 16, 32)).astype(np.float32)
    form = small_networks.Form("r=Relu x | t=Transpose r perm=0,2,1 | y=MatMul r t", x=x.shape[1:])
    path = f"{folder}/products.onnx"
    onnx.save(small_networks.Builder(form, 3).model("products"), path)
    s = agreement.Snapshot(f"{folder}/products", path, "openvino-avx2-int8", x)
    outputs = s.outputs("simulate"), s.outputs("float")
    for fmt, suffix in FORMATS.items():
        file, _ = s.export(f"ov.{suffix}", "--format", fmt)
        table.row(("products", "avx2"), f"{fmt}", None, agreement.stack(
            OpenVino(file, x.shape[1:], integer=True), s), *outputs, limit=0.02)


def wide(table, folder):
    """16 bits: the plugin removes a FakeQuantize of 65536 levels, its clamp, too; the samples
    behind the first 16, which calibrate, are twice as large."""
    x = np.random.default_rng(9).normal(0, 1, (24, 1, 4, 8, 8)).astype(np.float32)
    x[16:] *= 2
    path = f"{folder}/wide.onnx"
    form = small_networks.Form("c=Conv x w:6,4,3,3 p=1 | y=LeakyRelu c", x=x.shape[1:])
    onnx.save(small_networks.Builder(form, 3).model("wide"), path)
    for grid in ("range=-32768,32767", "range=0,65535 policy=per-tensor,linear,asymmetric"):
        s = agreement.Snapshot(f"{folder}/wide", path, "openvino-avx2-int8", x, "--set",
                               f"value=y bits=16 {grid}")
        outputs = s.outputs("simulate"), s.outputs("float")
        for fmt, suffix in (("openvino-ir", "xml"), ("openvino-fq", "onnx")):
            file, report = s.export(f"ov.{suffix}", "--format", fmt)
            if report["changed_results"] != 1:
                table.bad.append(f"wide, {grid}: {report['losses']}")
            table.row(("wide", grid[:12]), fmt, None,
                      agreement.stack(OpenVino(file, x.shape[1:]), s), *outputs, limit=0.02)


def main():
    table = agreement.Table()
    if not sys.argv[1:] or "residuals" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            residuals(table, folder)
    if not sys.argv[1:] or "concats" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            concats(table, folder)
    if not sys.argv[1:] or "turned" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            turned(table, folder)
    if not sys.argv[1:] or "maxima" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            maxima(table, folder)
    if not sys.argv[1:] or "reductions" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            reductions(table, folder)
    if not sys.argv[1:] or "readers" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            readers(table, folder)
            refused(table, folder)
    if not sys.argv[1:] or "channels" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            first_channels(table, folder)
            drawn_channels(table, folder)
    if not sys.argv[1:] or "narrow" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            narrow(table, folder)
    if not sys.argv[1:] or "products" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            products(table, folder)
    if not sys.argv[1:] or "wide" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            wide(table, folder)
    if not sys.argv[1:] or "names" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            names(table, folder)
    for name, path, x in agreement.models():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            compare(table, folder, name, path, x)
            if name in ("digits", "vit"):
                other_rounding(table, folder, name, path, x)
            if name == "digits":
                placed(table, folder, name, path, x)
    return table.done()


if __name__ == "__main__":
    sys.exit(main())
