#!/usr/bin/env python3
"""Mode integer against ONNX Runtime on this machine, code by code.

    tests/peers/ort_integer.py [--quick] [MODEL...]

Models of this repository and of ../shared are quantized in three ways: by quantize_static as
QDQ (one weight scale per channel) and as QOperator (one per tensor), and by our own export
(qg quantize -b ort-int8, onnx-qdq); digits with other types of codes as well.  ONNX Runtime
writes what it runs at level EXTENDED (optimized_model_filepath); its session on that file without
optimizations gives all values, once its outputs are those of the usual session.  Ours is

    qg run OPTIMIZED.onnx --mode integer --profile onnxruntime-... --dump '*'

A row of the table:

    products  compute nodes (convolutions and matrix products), and how many are integer
    others    sums, averages, functions: the same
    values    integer tensors of ONNX Runtime that are compared; how many have all codes equal
    codes     share of equal codes
    tail      largest difference of float outputs, over the largest output

Below, each value that differs and whose inputs are equal, and the number of values that have no
counterpart: codes for one reader of floats, or of nodes that the optimizer made.  A row fails
when less than half of its compute nodes are integer, when a code differs without a named cause, or
when a tail whose codes are equal is off by more than 1e-6.  The second table is of the files
before optimization: their values are compared with the same codes where names allow it."""
import collections
import contextlib
import io
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import agreement

QG = os.environ.get("QG", "build/qg")
SHARED = pathlib.Path("../shared")
LEVELS = ort.GraphOptimizationLevel
LIMIT_TAIL = 1e-6
MOVES = {"MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Split",
         "Gather", "Pad", "Identity", "Expand", "DepthToSpace"}
SHAPES = {"Shape", "Constant", "ConstantOfShape", "Equal", "Where", "Cast", "Range"}
PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul", "QGemm"}
TYPES = [("QDQ", True, "QUInt8", "QInt8"), ("QOperator", False, "QUInt8", "QInt8"),
         ("QDQ", True, "QInt8", "QInt8"), ("QOperator", True, "QInt8", "QInt8"),
         ("QDQ", False, "QUInt8", "QUInt8"), ("QOperator", False, "QUInt8", "QUInt8")]
QUANTIZERS = {"QuantizeLinear", "DequantizeLinear"}
INSIDE = {"QLinearAveragePool", "QLinearMul"}  # round(f32(v + zero)): other ties by another zero
INTEGERS = {np.dtype(t) for t in ("u1", "i1", "u2", "i2")}


def profile():
    """Of this machine; PROFILE in the environment is another, to see differences."""
    return os.environ.get("PROFILE") or agreement.onnxruntime_profile()


# --- models ---

def noisy(path, count, rng):
    """The sample beside a stand-in, with noise."""
    x = next(iter(np.load(path).values()))
    return np.concatenate([x + rng.normal(0, 0.1, x.shape).astype("f4") * k
                           for k in range(count)])


def models(quick):
    """(name, path, samples for calibration, samples to compare) of every model that is here."""
    rng = np.random.default_rng(7)
    digits = "configs/data/digits_{}.npy"
    yield ("digits", pathlib.Path("configs/models/digits.onnx"), np.load(digits.format("calib")),
           np.load(digits.format("test"))[:16 if quick else 200])
    if quick or not SHARED.exists():
        return
    kws = np.load(SHARED / "data/kws_dev.npz")["input_1"]
    yield "kws", SHARED / "models/kws_float.onnx", kws[:64], kws[64:164]
    faces = rng.uniform(-1, 1, (6, 3, 240, 320)).astype("f4")
    yield "ultraface", SHARED / "models/ultraface-rfb-320.onnx", faces[:4], faces[4:]
    for name in ("mobilenet", "effnet", "yolo", "vit"):
        path = SHARED / f"models/standins/{name}_a.onnx"
        x = noisy(path.with_suffix(".npz"), 12, rng)
        yield name, path, x[:8], x[8:]


# --- quantized files ---

class Reader(CalibrationDataReader):
    def __init__(self, name, x):
        self.rows = iter([{name: s[None]} for s in x])

    def get_next(self):
        return next(self.rows, None)


def input_of(model):
    constants = {i.name for i in model.graph.initializer}
    return next(i.name for i in model.graph.input if i.name not in constants)


def prepared(path, folder, opset):
    """quantize_static needs opset 13 for weights per channel, and likes folded models."""
    model, out = onnx.load(path), folder / f"{path.stem}-prepared-{opset}.onnx"
    if next(o.version for o in model.opset_import if not o.domain) < opset:
        constants = {i.name for i in model.graph.initializer}
        inputs = [i for i in model.graph.input if i.name not in constants]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        model.ir_version = max(model.ir_version, 8)
        model = version_converter.convert_version(model, opset)
    path = folder / f"{path.stem}-{opset}.onnx"
    onnx.save(model, path)
    quant_pre_process(str(path), str(out), skip_symbolic_shape=True)
    shorten(out)
    return out


def shorten(path):
    """Names that fit into file names."""
    model = onnx.load(path)
    long = {o: f"{o[:30]}_{k}" for k, n in enumerate(model.graph.node) for o in n.output
            if len(o) > 60}
    for n in model.graph.node:
        for slots in (n.input, n.output):
            slots[:] = [long.get(v, v) for v in slots]
    onnx.save(model, path)


def qg(*arguments):
    ran = subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"qg {' '.join(map(str, arguments))}: {ran.stderr}")
    return ran.stdout


def quantized(path, samples, folder):
    """(form, file)"""
    plain = prepared(path, folder, 13)
    name = input_of(onnx.load(plain))
    for fmt, channel, activation, weight in TYPES[:None if path.stem == "digits" else 2]:
        form = fmt if (activation, weight) == ("QUInt8", "QInt8") else \
            f"{fmt} {activation[1:].lower()} {weight[1:].lower()}"
        out = folder / f"{path.stem}-{form.replace(' ', '-')}.onnx"
        with contextlib.redirect_stdout(io.StringIO()):
            quantize_static(str(plain), str(out), Reader(name, samples),
                            quant_format=QuantFormat[fmt], per_channel=channel,
                            activation_type=QuantType[activation], weight_type=QuantType[weight])
        yield form, out
    data, snapshot = folder / "calibrate.npy", folder / "snapshot"
    np.save(data, samples[:, None])
    plain = prepared(path, folder, 21)  # from 21 on, codes of activations are all uint8
    qg("quantize", plain, "-b", "ort-int8", "-d", data, "-o", snapshot)
    out = folder / f"{path.stem}-ours.onnx"
    qg("export", snapshot, "--format", "onnx-qdq", "-o", out)
    yield "ours", out


# --- ONNX Runtime ---

def session(model, level, save=None):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if save:
        options.optimized_model_filepath = str(save)
    return ort.InferenceSession(model if isinstance(model, bytes) else str(model), options,
                                ["CPUExecutionProvider"])


def outputs(run, samples):
    name = run.get_inputs()[0].name
    rows = [run.run(None, {name: s[None]}) for s in samples]
    return {o.name: np.stack([r[k] for r in rows]) for k, o in enumerate(run.get_outputs())}


def runtime_values(path, optimized, samples, bad):
    """name -> [samples, ...]: every value of the optimized file, when it computes what the
    usual session computes."""
    usual = outputs(session(path, LEVELS.ORT_ENABLE_EXTENDED, optimized), samples)
    model = onnx.load(optimized)
    have = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=o) for n in model.graph.node
                              for o in n.output if o and o not in have)
    values = outputs(session(model.SerializeToString(), LEVELS.ORT_DISABLE_ALL), samples)
    for name, value in usual.items():
        if not np.array_equal(value, values[name]):
            bad.append(f"{optimized.name}: ONNX Runtime's own outputs {name} differ between its "
                       f"usual session and that with all values")
    return values


# --- comparison ---

class Network:
    """Names around each value of a file."""

    def __init__(self, path):
        self.graph = onnx.load(path).graph
        self.producer = {o: n for n in self.graph.node for o in n.output}
        self.constants = {i.name: numpy_helper.to_array(i) for i in self.graph.initializer}
        self.readers = collections.defaultdict(list)
        for n in self.graph.node:
            for i in n.input:
                self.readers[i].append(n)

    def grid(self, n):
        """Of a QuantizeLinear or DequantizeLinear."""
        zero = self.constants[n.input[2]] if len(n.input) > 2 else np.uint8(0)
        return self.constants[n.input[1]].tolist(), zero.tolist(), zero.dtype

    def is_on_another_grid(self, n):
        """Whether the input of this QuantizeLinear holds codes on a grid of its own."""
        at = self.producer.get(n.input[0])
        while at is not None and at.op_type in MOVES:
            at = self.producer.get(at.input[0])
        return at is not None and at.op_type == "DequantizeLinear" and \
            self.grid(at) != self.grid(n)

    def names_of(self, codes):
        """Of the float value that these codes stand for."""
        names = [codes]
        n = self.producer.get(codes)
        if n is not None and n.op_type == "QuantizeLinear" and not self.is_on_another_grid(n):
            names.append(n.input[0])
        names += [r.output[0] for r in self.readers[codes] if r.op_type == "DequantizeLinear"]
        return names

    def behind(self, name, seen):
        """(values compared, operators that compute) on the way to this one."""
        n = self.producer.get(name)
        found, ops = set(), set()
        if n is not None and is_compute(n.op_type):
            ops.add(n.op_type)
        for i in n.input if n is not None else ():
            if i in seen:
                found.add(i)
            elif i and i not in self.constants:
                more = self.behind(i, seen)
                found |= more[0]
                ops |= more[1]
        return found, ops



def safe(name):
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)


def our_codes(dump, names, like):
    """The dumped integer tensor of one of these names."""
    for name in names:
        for end in ("", "_codes"):
            path = dump / f"{safe(name + end)}.npy"
            if path.exists():
                value = np.load(path)
                if value.dtype.kind in "iu" and value.size == like.size:
                    return value.reshape(like.shape)
    return None


class Row:
    def __init__(self, network, own):
        self.network, self.own = network, own
        self.compared = self.equal = self.codes = self.right = 0
        self.missing, self.off, self.seen, self.turned = [], {}, set(), set()

    def compare(self, dump, names, value):
        key = names[0]
        ours = our_codes(dump, names, value)
        if ours is None:
            self.missing.append(key)
            return
        # ONNX Runtime turns int8 activations into uint8 of the same grid
        shift = {"i": 0, "u": 128 if ours.dtype.kind == "i" else 0}[value.dtype.kind]
        if shift:
            self.turned.add(key)
        off = np.abs(ours.astype("i8") + shift - value.astype("i8"))
        same = off == 0
        self.compared += 1
        self.seen.add(key)
        self.equal += bool(same.all())
        self.codes += same.size
        self.right += int(same.sum())
        if not same.all():
            self.off[key] = int((~same).sum()), same.size, int(off.max())

    def why_missing(self, codes):
        """Codes without a value of their own in our graph; what reads them is compared."""
        if codes not in self.own.producer:
            return "ONNX Runtime's optimizer made them"
        n = self.own.producer[codes]
        while n.op_type in MOVES:
            n = self.own.producer[n.input[0]]
        return "a second rounding, for one reader" if n.op_type == "QuantizeLinear" else \
            f"no codes of ours behind {n.op_type}"

    def first(self):
        """Values that differ although all that they are computed from is equal; and the
        operators between."""
        behind = {v: self.network.behind(v, self.seen) for v in self.off}
        return {v: ops for v, (found, ops) in behind.items() if not found & set(self.off)}

    def cause(self, value, ops):
        """Why it may differ, most by a step; None: for no reason that is known."""
        floats = sorted(op for op in ops if op[0] != "Q")
        if value in self.turned and ops & PRODUCTS and profile() == "onnxruntime-x86-avx2":
            return "the optimizer turned int8 into uint8, of which pairs of products saturate"
        if self.off[value][2] > 1:
            return None
        if floats:
            return f"{', '.join(floats)} in float there"
        if value in self.turned and ops & INSIDE:
            return f"{', '.join(ops & INSIDE)}: its zero point is inside of the rounding, and " \
                "the optimizer turned int8 into uint8"
        return None


def tail_of(out, network, values):
    """Float outputs: largest difference over the largest output."""
    worst = 0.0
    for o in network.graph.output:
        value = values.get(o.name)
        if value is None or value.dtype.kind != "f":
            continue
        ours = np.load(out / f"{safe(o.name)}.npy").reshape(value.shape)
        worst = max(worst, float(np.abs(ours - value).max() / np.abs(value).max()))
    return worst


def compare(path, optimized, values, samples, folder):
    """Our run of `path` with the values of the optimized file."""
    data, out = folder / "samples.npy", folder / f"{path.stem}-run"
    np.save(data, samples[:, None])
    report = json.loads(qg("run", path, "-d", data, "-o", out, "--mode", "integer", "--profile",
                           profile(), "--dump", "*", "--json"))
    network, own = Network(optimized), Network(path)
    row = Row(network, own)
    for name, value in values.items():
        if value.dtype in INTEGERS:
            names = network.names_of(name) + own.names_of(name)
            row.compare(out / "dump", names, value)
    return row, tail_of(out, network, values), nodes_of(path, report)


def is_compute(op):
    return op not in MOVES | SHAPES | QUANTIZERS


def nodes_of(path, report):
    """(all, integer) of products and of other nodes that compute new numbers."""
    every = [n.op_type for n in onnx.load(path).graph.node if is_compute(n.op_type)]
    floats = [n["op"] for n in report.get("not_integer", []) if is_compute(n["op"])]
    products = sum(op in PRODUCTS for op in every)
    missed = sum(op in PRODUCTS for op in floats)
    others = len(every) - products
    return (products, products - missed), (others, others - len(floats) + missed)


def judge(bad, title, row, tail, nodes):
    (products, integer), others = nodes
    print(f"{title:30} {integer:4} of {products:4} {others[1]:4} of {others[0]:4} "
          f"{row.equal:5} of {row.compared:4} "
          f"{row.right / max(row.codes, 1):10.6f} {tail:9.1e}")
    for value, ops in row.first().items():
        n = row.network.producer.get(value)
        count, size, most = row.off[value]
        op = n.op_type if n is not None else "input"
        cause = row.cause(value, ops)
        print(f"    {value} ({op}): {count} of {size} codes, by at most {most}: "
              f"{cause or 'not explained'}")
        if not cause:
            bad.append(f"{title}: {value} ({op}) differs")
    if 2 * integer < products:
        bad.append(f"{title}: {integer} of {products} compute nodes are integer")
    if not row.off and tail > LIMIT_TAIL:
        bad.append(f"{title}: float outputs differ by {tail:.1e} of the largest")
    causes = collections.Counter(map(row.why_missing, row.missing))
    for cause, count in causes.items():
        print(f"    {count} not compared: {cause}")


def header(what):
    print(f"\n{what}\n{'model':30} {'products':>12} {'others':>12} {'values':>13} "
          f"{'codes':>10} {'tail':>9}")


def main(arguments):
    quick, only = "--quick" in arguments, [a for a in arguments if a[0] != "-"]
    bad, now, before = [], [], []
    logging.disable(logging.WARNING)
    print(f"onnxruntime {ort.__version__}, profile {profile()}")
    header("optimized files")
    with tempfile.TemporaryDirectory() as name:
        for model, source, calibration, samples in models(quick):
            if only and model not in only:
                continue
            folder = pathlib.Path(name) / model
            folder.mkdir()
            for form, file in quantized(source, calibration, folder):
                optimized = file.with_name(f"{file.stem}-optimized.onnx")
                values = runtime_values(file, optimized, samples, bad)
                title = f"{model} {form}"
                for path, rows in ((optimized, now), (file, before)):
                    try:
                        rows.append((title, *compare(path, optimized, values, samples, folder)))
                    except RuntimeError as failed:
                        bad.append(f"{title}: {failed}")
                if now and now[-1][0] == title:
                    judge(bad, *now[-1])
        header("files before optimization")
        for row in before:
            judge(bad, *row)
    for line in bad:
        print("FAILED", line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
