#!/usr/bin/env python3
"""qg import --format mqbench: graphs as MQBench's torch.onnx.export writes them (operators in
the default domain, which is imported twice; numbers as Constant nodes, float64 where they
were Python's) become records, simulate what PyTorch's fake quantization computes, and give
OpenVINO the same codes.  What cannot be a record is refused by the name of its node.

PyTorch is written down here in numpy (fake): x * (1 / scale) in float32, rounded half to
even, plus the zero point.  With scales that are powers of two everything is exact, so outputs
have equal bits; with others our division may take the other side of a tie, which must then be
one: within NEAR steps.

    test_import_mqbench.py                                      all checks
    test_import_mqbench.py --example docs/examples/mqbench.onnx writes that file"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import openvino
except ImportError:
    openvino = None

QG = os.environ.get("QG", "build/qg")
NEAR = 1e-4  # steps beside a tie: the error of 1 / scale at 255 steps is 3e-5
LIMIT_EQUAL = 0.9999  # of OpenVINO's codes
SAMPLES = 24


def qg(*arguments):
    return subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True)


def done(*arguments):
    ran = qg(*arguments)
    if ran.returncode:
        raise RuntimeError(f"qg {' '.join(map(str, arguments))}: {ran.stderr}")
    return ran


# --- PyTorch's definition ---

def fake(x, scale, zero, low, high, axis=None):
    shape = [1] * x.ndim
    if axis is not None:
        shape[axis] = -1
    scale = np.abs(np.asarray(scale, "f4")).reshape(shape)
    zero = np.clip(np.rint(np.asarray(zero, "f4")), low, high).reshape(shape)
    steps = x * (np.float32(1) / scale)
    code = np.clip(np.rint(steps) + zero, low, high)
    return ((code - zero) * scale).astype("f4")


def conv(x, w):
    """3 x 3, padding 1, summed in float64."""
    p = np.pad(x.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(p, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", view, w.astype("f8")).astype("f4")


# --- MQBench's graphs ---

class Graph:
    """Nodes as MQBench writes them, the values they have in PyTorch, and the records that
    must come of them: {endpoint: (scale, offset, bits, low, high, axis, state)}."""

    def __init__(self, x):
        self.nodes, self.constants, self.value, self.records = [], [], {"x": x}, {}
        self.last = None  # grid of the output

    def number(self, value, dtype):
        name = f"/Constant_{len(self.nodes)}_output_0"
        t = numpy_helper.from_array(np.array(value, dtype))
        self.nodes.append(h.make_node("Constant", [], [name], value=t))
        return name

    def array(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(h.make_node(op, inputs, [output], name=f"{output}_{op}",
                                      **attributes))

    def quantize(self, x, y, op, scale, zero, low, high, axis=None, at=(), bits=None):
        """at: endpoints that get the record; a reader's slot or the producer's output."""
        attributes, more = {}, []
        if op.startswith("Fixed") and axis is None:
            parameters = [self.number(scale, "f8"), self.number(zero, "i8")]
        else:
            kind = "i4" if op.startswith("Fixed") else "f4"
            parameters = [self.array(f"{y}.scale", np.atleast_1d(np.array(scale, "f4"))),
                          self.array(f"{y}.zero", np.atleast_1d(np.array(zero, kind)))]
        if op.startswith("FakeQuantize"):
            attributes = {"quant_min": low, "quant_max": high}
        else:
            more = [self.number(axis, "i8")] if axis is not None else []
            more += [self.number(low, "i8"), self.number(high, "i8")]
        self.node(op, [x, *parameters, *more], y, **attributes)
        self.value[y] = fake(self.value[x], scale, zero, low, high, axis)
        offset = np.clip(np.rint(np.atleast_1d(zero)), low, high).astype(int).tolist()
        scale = np.abs(np.atleast_1d(np.array(scale, "f4"))).tolist()
        self.last = scale[0], offset[0]
        for endpoint, state in at:
            self.records[endpoint] = (scale, offset, bits, [low, high],
                                      -1 if axis is None else axis, state)

    def conv(self, x, w, y):
        self.node("Conv", [x, w], y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        self.value[y] = conv(self.value[x], self.value[w])

    def relu(self, x, y):
        self.node("Relu", [x], y)
        self.value[y] = np.maximum(self.value[x], 0)

    def add(self, a, b, y):
        self.node("Add", [a, b], y)
        self.value[y] = self.value[a] + self.value[b]

    def weight(self, name, value):
        self.value[name] = value
        return self.array(name, value)

    def save(self, path, output="y"):
        shape = [1, *self.value["x"].shape[1:]]
        graph = h.make_graph(self.nodes, "torch_jit",
                             [h.make_tensor_value_info("x", T.FLOAT, shape)],
                             [h.make_tensor_value_info(output, T.FLOAT, None)],
                             self.constants)
        twice = [h.make_opsetid("", 11), h.make_opsetid("", 11)]
        onnx.save(h.make_model(graph, opset_imports=twice, ir_version=6), path)


def scales(exact, rng, *shape):
    """Near 2^-5; exactly so where outputs must have equal bits."""
    return np.float32(2.0 ** -5) * (np.ones(shape) if exact else
                                    rng.uniform(0.7, 1.4, shape)).astype("f4")


def weights(rng, out, channels):
    return rng.normal(0, 0.4, (out, channels, 3, 3)).astype("f4")


def chain(x, exact, rng):
    """Conv-Relu-Conv: LSQ, weights per channel and symmetric, activations asymmetric."""
    g, s = Graph(x), lambda *shape: scales(exact, rng, *shape)
    g.quantize("x", "xq", "LearnablePerTensorAffine", float(s() * 2), 5.7, -128, 127,
               at=[("c1_Conv.in0", "ACTIVATED")], bits=8)
    g.weight("w1", weights(rng, 8, 3))
    g.quantize("w1", "w1q", "FakeQuantizeLearnablePerchannelAffine", s(8) / 4, [0.] * 8,
               -128, 127, axis=0, at=[("c1_Conv.in1", "BAKED")], bits=8)
    g.conv("xq", "w1q", "c1")
    g.relu("c1", "r1")
    g.quantize("r1", "r1q", "LearnablePerTensorAffine", float(s() * 2), -128., -128, 127,
               at=[("r1_Relu.out0", "ACTIVATED")], bits=8)
    g.weight("w2", weights(rng, 4, 8))
    g.quantize("w2", "w2q", "FakeQuantizeLearnablePerchannelAffine", s(4) / 4, [0.] * 4,
               -128, 127, axis=0, at=[("c2_Conv.in1", "BAKED")], bits=8)
    g.conv("r1q", "w2q", "c2")
    g.quantize("c2", "y", "LearnablePerTensorAffine", float(s() * 4), 12., -128, 127,
               at=[("c2_Conv.out0", "ACTIVATED")], bits=8)
    return g


def residual(x, exact, rng):
    """A sum of both branches of x; Fixed operators, unsigned activations after Relu."""
    g, s = Graph(x), lambda *shape: scales(exact, rng, *shape)
    g.quantize("x", "xq", "FixedPerTensorAffine", float(s() * 2), 0, -128, 127,
               at=[("c_Conv.in0", "ACTIVATED"), ("t_Add.in1", "ACTIVATED")], bits=8)
    g.weight("w", weights(rng, 3, 3))
    g.quantize("w", "wq", "FixedPerChannelAffine", s(3) / 4, [0] * 3, -128, 127, axis=0,
               at=[("c_Conv.in1", "BAKED")], bits=8)
    g.conv("xq", "wq", "c")
    g.quantize("c", "cq", "FixedPerTensorAffine", float(s() * 2), 0, -128, 127,
               at=[("c_Conv.out0", "ACTIVATED")], bits=8)
    g.add("cq", "xq", "t")
    g.relu("t", "r")
    g.quantize("r", "y", "FixedPerTensorAffine", float(s()), 0, 0, 255,
               at=[("r_Relu.out0", "ACTIVATED")], bits=8)
    return g


def narrow(x, exact, rng):
    """Weights of 4 and 7 bits, activations of 4; TQT and DSQ; a scale with a sign."""
    g, s = Graph(x), lambda *shape: scales(exact, rng, *shape)
    g.quantize("x", "xq", "FakeQuantizeTqtAffine", 2.0 ** -5, 0., -128, 127,
               at=[("c1_Conv.in0", "ACTIVATED")], bits=8)
    g.weight("w1", weights(rng, 4, 3))
    g.quantize("w1", "w1q", "FakeQuantizeLearnablePerchannelAffine",
               s(4) * [4, -4, 4, 2], [0.] * 4, -8, 7, axis=0,
               at=[("c1_Conv.in1", "BAKED")], bits=4)
    g.conv("xq", "w1q", "c1")
    g.relu("c1", "r1")
    g.quantize("r1", "r1q", "FakeQuantizeDSQPertensor", float(s() * 16), 0., 0, 15,
               at=[("r1_Relu.out0", "ACTIVATED")], bits=4)
    g.weight("w2", weights(rng, 2, 4))
    g.quantize("w2", "w2q", "FakeQuantizeDSQPerchannel", s(2) / 2, [0.] * 2, -64, 63,
               axis=0, at=[("c2_Conv.in1", "BAKED")], bits=7)
    g.conv("r1q", "w2q", "c2")
    g.quantize("c2", "y", "FakeQuantizeLearnablePertensorAffine", float(s() * 2), 2.5,
               -128, 127, at=[("c2_Conv.out0", "ACTIVATED")], bits=8)
    return g


GRAPHS = {"chain": chain, "residual": residual, "narrow": narrow}


# --- what is checked ---

def records(snapshot):
    quant = json.loads((snapshot / "quant.json").read_text())
    return {f"{t['node']}.{t['slot']}": (t["scale"], t["offset"], t["bits"], t["range"],
                                         -1 if t["axis"] is None else t["axis"], t["state"])
            for t in quant["tqcs"] if t["state"] != "OVERLAPPED"}


def simulated(snapshot, data, folder):
    done("run", snapshot, "-d", data, "-o", folder)
    return np.load(folder / "y.npy").reshape(SAMPLES, -1)


def codes(y, grid):
    return np.rint(y / np.float32(grid[0])).astype(int)


def check_records(bad, at, snapshot, g):
    got = records(snapshot)
    for endpoint in sorted(got.keys() | g.records.keys()):
        a, b = got.get(endpoint), g.records.get(endpoint)
        same = a and b and np.array_equal(np.array(a[0], "f4"), np.array(b[0], "f4")) and \
            a[1:] == b[1:]
        if not same:
            bad.append(f"{at}: {endpoint} is {a}, expected {b}")


def check_openvino(bad, at, snapshot, x, ours, grid):
    for fmt, suffix in (("openvino-fq", "onnx"), ("openvino-ir", "xml")):
        file = snapshot.parent / f"{snapshot.name}.{suffix}"
        done("export", snapshot, "--format", fmt, "-o", file)
        core = openvino.Core()
        options = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1",
                   "LP_TRANSFORMS_MODE": "NO"}
        if suffix == "onnx":
            options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
        compiled = core.compile_model(core.read_model(file), "CPU", options)
        theirs = np.stack([compiled([v[None]])[0].ravel() for v in x])
        off = np.abs(codes(theirs, grid) - codes(ours, grid))
        print(f"{at}: {fmt}: {np.mean(off == 0):.6f} of {off.size} codes equal, "
              f"largest difference {off.max()}")
        if np.mean(off == 0) < LIMIT_EQUAL or off.max() > 1:
            bad.append(f"{at}: {fmt}: OpenVINO computes other codes")


def check_graph(bad, folder, name, exact):
    rng = np.random.default_rng([len(name), exact])
    x = rng.normal(0, 1.5, (SAMPLES, 3, 8, 8)).astype("f4")
    g = GRAPHS[name](x, exact, rng)
    at = f"{name} {'exact' if exact else 'real'}"
    path, data = folder / f"{name}-{exact}.onnx", folder / f"{name}-{exact}.npy"
    snapshot = folder / f"{name}-{exact}"
    g.save(path)
    np.save(data, x[:, None])
    done("import", path, "--format", "mqbench", "-o", snapshot)
    check_records(bad, at, snapshot, g)
    ours = simulated(snapshot, data, folder / f"{name}-{exact}-out")
    expected = g.value["y"].reshape(SAMPLES, -1)
    off = np.abs(codes(ours, g.last) - codes(expected, g.last))
    print(f"{at}: {np.mean(off == 0):.6f} of {off.size} codes are PyTorch's, largest "
          f"difference {off.max()}, {len(np.unique(codes(ours, g.last)))} codes in use")
    if exact and not np.array_equal(ours, expected):
        bad.append(f"{at}: other bits than PyTorch's definition")
    if np.mean(off == 0) < LIMIT_EQUAL or off.max() > 1:
        bad.append(f"{at}: other codes than PyTorch's definition")
    if openvino:
        check_openvino(bad, at, snapshot, x, ours, g.last)


def check_ties(bad, folder):
    """One quantizer alone: where division and multiplication by 1 / scale part, the value
    is next to a tie."""
    rng = np.random.default_rng(5)
    scale, zero = 0.1, 3
    x = np.concatenate([rng.normal(0, 8, 6000),
                        (rng.integers(-100, 100, 2000) + 0.5) * scale]).astype("f4")
    x = np.tile(x.reshape(1, 1, 80, 100), (SAMPLES, 1, 1, 1))
    g = Graph(x)
    g.quantize("x", "xq", "LearnablePerTensorAffine", scale, zero, -128, 127)
    g.node("Neg", ["xq"], "y")
    g.save(folder / "ties.onnx")
    np.save(folder / "ties.npy", x[:, None])
    done("import", folder / "ties.onnx", "--format", "mqbench", "-o", folder / "ties")
    ours = -simulated(folder / "ties", folder / "ties.npy", folder / "ties-out")[0]
    theirs = g.value["xq"][0].ravel()
    differ = ours != theirs
    t = x[0].ravel().astype("f8") / np.float64(np.float32(scale))
    far = np.abs(t - np.floor(t) - 0.5) > NEAR
    print(f"ties: {differ.sum()} of {differ.size} codes differ, all next to a tie: "
          f"{not (differ & far).any()}")
    if (differ & far).any() or not differ.any():
        bad.append("ties: codes differ away from ties, or the test has none")


def check_transposed(bad, folder):
    """Weights of a ConvTranspose count output channels along axis 1."""
    rng = np.random.default_rng(6)
    g = Graph(rng.normal(0, 1, (SAMPLES, 3, 4, 4)).astype("f4"))
    w = g.weight("w", rng.normal(0, 0.4, (3, 5, 2, 2)).astype("f4"))
    g.quantize(w, "wq", "FakeQuantizeLearnablePerchannelAffine",
               rng.uniform(0.01, 0.02, 5).astype("f4"), [0.] * 5, -128, 127, axis=1,
               at=[("y_ConvTranspose.in1", "BAKED")], bits=8)
    g.node("ConvTranspose", ["x", "wq"], "y")
    g.save(folder / "deconv.onnx")
    done("import", folder / "deconv.onnx", "--format", "mqbench", "-o", folder / "deconv")
    check_records(bad, "deconv", folder / "deconv", g)
    held = onnx.load(folder / "deconv" / "model.onnx").graph.initializer
    if not any(np.array_equal(numpy_helper.to_array(t), g.value["wq"]) for t in held):
        bad.append("deconv: the weights are not on their grid")


def check_raw_weights(bad, folder):
    """A FakeQuantize of weights that are not on its grid, as MQBench deploys to OpenVINO:
    its import rounds them."""
    rng = np.random.default_rng(7)
    w = rng.normal(0, 0.4, (4, 3, 3, 3)).astype("f4")
    limits = [numpy_helper.from_array(np.full((4, 1, 1, 1), v, "f4"), n)
              for n, v in (("l", -1), ("h", 0.9921875))]
    nodes = [h.make_node("FakeQuantize", ["w", "l", "h", "l", "h"], ["wq"], levels=256,
                         domain="org.openvinotoolkit"),
             h.make_node("Conv", ["x", "wq"], ["y"])]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 3, 4, 4])],
                         [h.make_tensor_value_info("y", T.FLOAT, None)],
                         [numpy_helper.from_array(w, "w"), *limits])
    opsets = [h.make_opsetid("", 11), h.make_opsetid("org.openvinotoolkit", 1)]
    onnx.save(h.make_model(graph, opset_imports=opsets, ir_version=6), folder / "raw.onnx")
    done("import", folder / "raw.onnx", "--format", "openvino-fq", "-o", folder / "raw")
    held = onnx.load(folder / "raw" / "model.onnx").graph.initializer[0]
    expected = fake(w, 2.0 ** -7, 0, -128, 127)
    if not np.array_equal(numpy_helper.to_array(held), expected):
        bad.append("openvino-fq: weights are called baked and are not on the grid")


# --- what is refused ---

def hostile():
    """(name, inputs of the quantizer, its constants, operator, attributes, words)."""
    limits = {"quant_min": -128, "quant_max": 127}
    learnable = "FakeQuantizeLearnablePerchannelAffine"
    scalar = np.array([0.1], "f4")
    four, z4, z = np.full(4, 0.1, "f4"), np.zeros(4, "f4"), np.zeros(1, "f4")
    tensor = "FakeQuantizeLearnablePertensorAffine"
    return [
        ("absent", ["w", "", "z"], {"z": z}, tensor, limits, "absent"),
        ("short", ["w"], {}, tensor, limits, "inputs"),
        ("computed", ["w", "x", "z"], {"z": z}, tensor, limits, "not constant"),
        ("rank", ["w", "s", "z"], {"s": four[:, None], "z": z4}, learnable, limits,
         "more than one axis"),
        ("count", ["w", "s", "z"], {"s": four[:3], "z": z4[:3]}, learnable, limits,
         "do not fit"),
        ("pair", ["w", "s", "z"], {"s": four, "z": z}, learnable, limits, "one zero_point"),
        ("nan", ["w", "s", "z"], {"s": scalar * np.nan, "z": z}, tensor, limits, "finite"),
        ("inf", ["w", "s", "z"], {"s": scalar * np.inf, "z": z}, tensor, limits, "finite"),
        ("zero", ["w", "s", "z"], {"s": scalar * 0, "z": z}, tensor, limits, "is 0"),
        ("nan zero", ["w", "s", "z"], {"s": scalar, "z": z * np.nan}, tensor, limits,
         "not a number"),
        ("type", ["w", "s", "z"], {"s": np.array([1]), "z": z}, tensor, limits, "float64"),
        ("no limits", ["w", "s", "z"], {"s": scalar, "z": z}, tensor, {}, "quant_min"),
        ("limits", ["w", "s", "z"], {"s": scalar, "z": z}, tensor,
         {"quant_min": 7, "quant_max": -8}, "not below"),
        ("wide", ["w", "s", "z"], {"s": scalar, "z": z}, tensor,
         {"quant_min": -2 ** 62, "quant_max": 7}, "quant_min"),
        ("float limit", ["w", "s", "z", "a", "b"],
         {"s": scalar, "z": z, "a": np.array(-7.5), "b": np.array(7)},
         "LearnablePerTensorAffine", {}, "integer"),
        ("four", ["w", "s", "z", "a"], {"s": scalar, "z": z, "a": np.array(7)},
         "LearnablePerTensorAffine", {}, "inputs"),
        ("axis", ["w", "s", "z", "c", "a", "b"],
         {"s": four, "z": z4, "c": np.array(4), "a": np.array(-8), "b": np.array(7)},
         "FixedPerChannelAffine", {}, "ch_axis"),
        ("tqt", ["w", "s", "z"], {"s": scalar, "z": z}, "FakeQuantizeTqtAffine", limits,
         "power of two"),
        ("tqt, small", ["w", "s", "z"], {"s": np.array([2.0 ** -16], "f4"), "z": z},
         "FakeQuantizeTqtAffine", limits, "2^-15"),
        ("nnie", ["w", "s"], {"s": scalar}, "NNIEQuantize", {}, "logarithmic"),
    ]


def save_hostile(path, inputs, constants, op, attributes, body=False):
    w = np.ones((4, 3, 1, 1), "f4")
    node = h.make_node(op, inputs, ["wq"], name="weight_fake_quant", **attributes)
    held = [numpy_helper.from_array(v, n) for n, v in {"w": w, **constants}.items()]
    nodes = [node, h.make_node("Conv", ["x", "wq"], ["y"], name="conv")]
    if body:
        inner = h.make_graph(nodes[:1], "b", [],
                             [h.make_tensor_value_info("wq", T.FLOAT, None)])
        nodes = [h.make_node("If", ["c"], ["wq2"], then_branch=inner, else_branch=inner),
                 h.make_node("Conv", ["x", "wq2"], ["y"], name="conv")]
        held.append(numpy_helper.from_array(np.array(True), "c"))
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 3, 4, 4])],
                         [h.make_tensor_value_info("y", T.FLOAT, None)], held)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 11)], ir_version=6),
              path)


def check_refused(bad, name, ran, words):
    if ran.returncode == 0 or "weight_fake_quant" not in ran.stderr or \
            words not in ran.stderr:
        bad.append(f"refused {name}: exit {ran.returncode}, {ran.stderr.strip()!r}, "
                   f"expected weight_fake_quant and {words!r}")


def check_hostile(bad, folder):
    path = folder / "hostile.onnx"
    for name, inputs, constants, op, attributes, words in hostile():
        save_hostile(path, inputs, constants, op, attributes)
        ran = qg("import", path, "--format", "mqbench", "-o", folder / "no")
        check_refused(bad, name, ran, words)
    good = ["w", "s", "z"], {"s": np.array([0.1], "f4"), "z": np.zeros(1, "f4")}, \
        "FakeQuantizeLearnablePertensorAffine", {"quant_min": -8, "quant_max": 7}
    save_hostile(path, *good, body=True)
    check_refused(bad, "body", qg("import", path, "--format", "mqbench", "-o",
                                  folder / "no"), "body of a control operator")
    save_hostile(path, *good)
    done("import", path, "--format", "mqbench", "-o", folder / "good")
    # Only the importer knows these operators.
    for verb in (("import", path, "--format", "openvino-fq"), ("quantize", path, "-b",
                                                               "openvino-int8")):
        check_refused(bad, verb[0], qg(*verb, "-d", "random:1", "-o", folder / "no")
                      if verb[0] == "quantize" else qg(*verb, "-o", folder / "no"),
                      "is not known")
    if (folder / "no").exists():
        bad.append("refused: a snapshot was written")


def main():
    if sys.argv[1:2] == ["--example"]:  # the file that docs/from-mqbench.md imports
        rng = np.random.default_rng(1)
        chain(rng.normal(0, 1.5, (1, 3, 8, 8)).astype("f4"), False, rng).save(sys.argv[2])
        return 0
    bad = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for graph in GRAPHS:
            for exact in (True, False):
                check_graph(bad, folder, graph, exact)
        check_ties(bad, folder)
        check_transposed(bad, folder)
        check_raw_weights(bad, folder)
        check_hostile(bad, folder)
    print(*bad, sep="\n")
    if not bad and not openvino:
        print("skipped: openvino is not installed; everything else was checked")
        return 77
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
