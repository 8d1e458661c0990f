#!/usr/bin/env python3
"""tflite in LiteRT: the file of a snapshot loads, and with the reference kernels every
tensor of every sample has the codes of integer mode.  Random networks of LiteRT's
operators keep all their codes through import and export.  Operators without an integer
kernel are islands of floats between DEQUANTIZE and QUANTIZE, whose values are equal, too; one
that TensorFlow Lite lacks is refused with the name of the node.  Models in ../shared are
skipped when they are absent."""
import json
import pathlib
import re
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    import litert
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement
import litert_networks

SAMPLES, NETWORKS = 8, 24
BACKENDS = "tflite-int8", "tflite-legacy-int8"
# Tensors of conversions: of layout, of grids, and around clamps
BESIDE = "_nhwc", "_nchw", "_padded", "_unclamped", "_not_below", "_rescaled", "_scaled", "_shifted", \
    "_float", "_computed", "_split", "_turned", "_wide"


def run_integer(path, s, kernels, *more):
    return json.loads(agreement.qg("run", path, "-d", s.data, "-n", len(s.x), "--mode",
                                   "integer", "--profile", litert.PROFILES[kernels], "--json",
                                   *more))


def integers(s, kernels):
    """{value: codes} of integer mode; outputs of the network as floats."""
    run = run_integer(s.path, s, kernels, "-o", s.folder / "integer", "--dump", "*")
    found = {d["name"]: np.load(d["file"]) for d in run["dumps"]}
    for o in run["outputs"]:
        found[f"{o['name']}_codes"] = found.get(o["name"])
        found[o["name"]] = np.load(o["file"])
    found[f"{s.input}_codes"] = found.pop(s.input, None)
    return found


def forms(x):
    """x with the samples first; with its channels behind; and a line as a picture."""
    yield x
    if x.ndim >= 4:
        yield np.moveaxis(x, 2, -1)
    if x.ndim == 4:
        yield x[:, :, :, None]
        yield np.moveaxis(x, 2, -1)[:, :, None]


def equals(a, b):
    """Codes are; floats up to the last two bits, as exp and pow of two libraries."""
    return np.isclose(a, b, rtol=2.4e-7, atol=0) if a.dtype == np.float32 else a == b


def tensors(file, s, kernels="reference"):
    """(tensor, elements, equal elements, what differs or None) of every tensor of the file that
    is a value of the network, and the outputs behind an import of the file."""
    runtime = litert.Runtime(pathlib.Path(file).read_bytes(), kernels)
    theirs = runtime.run_all([{s.input: x} for x in s.x])
    ours = integers(s, kernels)
    for tensor, codes in theirs.items():
        mine = ours.get(tensor)
        if tensor == s.input or re.sub(r"_\d+$", "", tensor).endswith(BESIDE) or \
                mine is None and tensor == f"{s.input}_codes":  # of islands of floats
            continue
        if mine is None:
            yield tensor, 0, 0, "is no value of the network"
            continue
        same = max((int(np.sum(equals(codes, m))) for m in forms(mine)
                    if m.shape == codes.shape), default=0)
        wrong = same != codes.size or mine.dtype != codes.dtype
        yield tensor, codes.size, same, f"{same} of {codes.size} codes equal" if wrong else None
    again = run_integer(file, s, kernels, "-o", s.folder / "again")
    for o in again["outputs"]:
        mine, theirs = ours[o["name"]], np.load(o["file"])
        if theirs.shape != mine.shape or not np.all(equals(theirs, mine)):
            yield o["name"], 0, 0, "differs behind an import of the file"


def compare(bad, name, backend, s):
    """Rows of the table; every tensor that is a value of the network is compared."""
    file, report = s.export("model.tflite", "--format", "tflite")
    rows = list(tensors(file, s))
    compared = sum(elements > 0 for _, elements, _, _ in rows)
    operators = litert.unpack(pathlib.Path(file).read_bytes()).subgraphs[0].operators
    print(f"{name:11} {backend:20} {len(operators):>9} {compared:>7} "
          f"{sum(r[1] for r in rows):>9} {sum(r[2] for r in rows):>9}", flush=True)
    bad += [f"{name} {backend}: {tensor}: {wrong}" for tensor, _, _, wrong in rows if wrong]
    other = [row for row in report["losses"]
             if "as in integer mode" not in row["meaning"] and row["lost"] != "open-dims"
             and not row["meaning"].startswith("its node computes in floats")]
    if other or compared < 3:
        bad.append(f"{name} {backend}: {compared} tensors, losses {other[:1]}")


def again(bad, kind, seed):
    """A network of litert_networks.py, imported and exported: the same tensors, some of
    them in N,C,H,W."""
    network = litert_networks.Network(seed, kind)
    with tempfile.TemporaryDirectory() as folder:
        first, snapshot, second = (pathlib.Path(folder, n) for n in ("a.tflite", "s", "b.tflite"))
        first.write_bytes(network.bytes())
        agreement.qg("import", first, "--format", "tflite", "-o", snapshot)
        try:
            agreement.qg("export", snapshot, "--format", "tflite", "-o", second)
        except RuntimeError as why:
            if "output multiplier" in str(why):  # LiteRT refuses it, too
                return 0
            raise
        feed = network.feeds()[0]
        a, b = (litert.Runtime(f.read_bytes(), "reference").run(feed) for f in (first, second))
    shared = a.keys() & b.keys()
    for name in sorted(shared):
        same = [a[name], np.moveaxis(a[name], -1, 1)] if a[name].ndim == 4 else [a[name]]
        if not any(np.array_equal(x, b[name]) for x in same):
            bad.append(f"{kind} {seed}: {name} has other codes")
    return len(shared)


def islands(path):
    """Functions without an integer kernel, on pictures and behind a slice of an old opset,
    whose limits are attributes."""
    random = np.random.RandomState(5)
    weights = {"w": (8, 4, 3, 3), "v": (8, 4, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "c", pads=[1] * 4),
        helper.make_node("Slice", ["c"], ["s"], "s", axes=[1], starts=[2], ends=[6]),
        helper.make_node("HardSigmoid", ["s"], ["h"], "h", alpha=0.3, beta=0.4),
        helper.make_node("Conv", ["h", "v"], ["d"], "d"),
        helper.make_node("Exp", ["d"], ["e"], "e"),
        helper.make_node("Div", ["d", "e"], ["q"], "q"),
        helper.make_node("Conv", ["q", "u"], ["y"], "y")]
    weights["u"] = (3, 8, 1, 1)
    graph = helper.make_graph(
        nodes, "islands",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 8, 8])],
        [numpy_helper.from_array(random.normal(0, 0.3, s).astype("f4"), n)
         for n, s in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)],
                                ir_version=8), path)
    return random.normal(0, 1, (SAMPLES, 1, 4, 8, 8)).astype("f4")


def rows_and_blocks(path):
    """Softmax over channels, both orders of DepthToSpace, SpaceToDepth, and a constant that is
    multiplied by weights, as the queries of a decoder are."""
    random, node = np.random.RandomState(7), helper.make_node
    weights = {"w": (4, 4, 1, 1), "v": (8, 4, 1, 1), "u": (4, 2, 1, 1), "t": (3, 16, 1, 1)}
    weights = {n: random.normal(0, 0.5, s) for n, s in weights.items()}
    weights |= {"q": random.normal(0, 1, (1, 8, 4)), "k": random.normal(0, 0.5, (4, 8))}
    nodes = [
        node("Conv", ["x", "w"], ["c"], "c"), node("Softmax", ["c"], ["s"], "s", axis=1),
        node("Conv", ["s", "v"], ["d"], "d"),
        node("DepthToSpace", ["d"], ["e"], "e", blocksize=2),
        node("Conv", ["e", "u"], ["f"], "f"),
        node("DepthToSpace", ["f"], ["g"], "g", blocksize=2, mode="CRD"),
        node("SpaceToDepth", ["g"], ["h"], "h", blocksize=4),
        node("Conv", ["h", "t"], ["i"], "i"),
        node("MatMul", ["q", "k"], ["j"], "j"), node("Add", ["i", "j"], ["y"], "y")]
    network(nodes, weights, path)
    return random.normal(0, 1, (SAMPLES, 1, 4, 8, 8)).astype("f4")


LIMITS = (None, 1.5), (-0.5, 1), (-1, None), (0.25, None), (0.25, 1.5), (0, 6), (0, None), (-9, 9)


def clamps(path):
    """Clips of an input, each of whose limits is below, at or above 0, or absent."""
    random, node, nodes, last = np.random.RandomState(10), helper.make_node, [], "x"
    weights = {"w": random.normal(0, 0.5, (4, 4, 1, 1))}
    for k, limits in enumerate(LIMITS):
        names = [f"l{k}_{i}" if v is not None else "" for i, v in enumerate(limits)]
        weights |= {n: v for n, v in zip(names, limits) if n}
        nodes += [node("Clip", ["x", *names], [f"k{k}"], f"k{k}"),
                  node("Conv", [f"k{k}", "w"], [f"c{k}"], f"c{k}"),
                  node("Add", [last, f"c{k}"], [last := f"a{k}"], f"a{k}")]
    nodes += [node("MaxPool", ["c1"], ["m"], "m", kernel_shape=[3, 3], pads=[1] * 4),
              node("Clip", ["m", "l1_0", "l1_1"], ["n"], "n"),  # a pool keeps its grid
              node("Conv", ["n", "w"], ["o"], "o"), node("Add", [last, "o"], ["y"], "y")]
    network(nodes, weights, path)
    return random.normal(0, 1, (SAMPLES, 1, 4, 8, 8)).astype("f4")


def check_activations(bad):
    """A clamp whose effect the zero point has is an activation of the file all the same: what
    reads it in floats computes the network."""
    random, node = np.random.RandomState(13), helper.make_node
    weights = {n: random.normal(0, 0.5, (4, 4, 1, 1)) for n in "wvu"} | \
        {"zero": 0, "six": 6, "minus": -1, "one": 1, "e": random.normal(0, 0.5, (16, 3))}
    nodes = [
        node("Conv", ["x", "w"], ["c"], "c"), node("Relu", ["c"], ["r"], "r"),
        node("Conv", ["r", "v"], ["d"], "d"), node("Clip", ["d", "zero", "six"], ["k"], "k"),
        node("Add", ["k", "x"], ["a"], "a"), node("Relu", ["a"], ["s"], "s"),
        node("Conv", ["s", "u"], ["f"], "f"), node("Clip", ["f", "minus", "one"], ["t"], "t"),
        node("AveragePool", ["t"], ["p"], "p", kernel_shape=[4, 4], strides=[4, 4]),
        node("Flatten", ["p"], ["q"], "q"), node("Gemm", ["q", "e"], ["g"], "g"),
        node("Relu", ["g"], ["y"], "y")]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "activations.onnx")
        network(nodes, weights, path)
        x = random.normal(0, 3, (SAMPLES, 1, 4, 8, 8)).astype("f4")
        s = agreement.Snapshot(f"{folder}/s", path, BACKENDS[0], x)
        compare(bad, "activations", BACKENDS[0], s)
        file = s.folder / "model.tflite"
        found = [getattr(o.builtinOptions, "fusedActivationFunction", 0)
                 for o in litert.unpack(file.read_bytes()).subgraphs[0].operators]
        real = {}
        for model in (s.path, file):
            out = s.folder / f"{model.name}-float"
            agreement.qg("run", model, "-d", s.data, "--mode", "float", "-o", out)
            real[model] = np.load(out / "y.npy").ravel()
    noise = np.sum((real[file] - real[s.path]) ** 2) / np.sum(real[s.path] ** 2)
    if sorted(filter(None, found)) != [1, 1, 1, 2, 3] or noise > 1e-3:
        bad.append(f"activations: {found}, {noise:.3g} of noise in float")


def check_limits(bad):
    """Clips of an input, on grids of their own: their limits are on the grid of the input, in
    simulation and in the file."""
    random, worst = np.random.RandomState(11), 0
    for seed in range(12):
        limits = np.sort(random.uniform(-1.5, 1.5, 2)).astype("f4")
        weights = {n: v for n, v in zip(("low", "high"), limits) if random.rand() < 0.8}
        names = [n if n in weights else "" for n in ("low", "high")]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "limits.onnx")
            network([helper.make_node("Clip", ["x", *names], ["y"], "clip")], weights, path)
            x = random.normal(0, 1, (SAMPLES, 1, 4, 8, 8)).astype("f4")
            s = agreement.Snapshot(f"{folder}/s", path, BACKENDS[0], x)
            file, report = s.export("model.tflite", "--format", "tflite")
            ours, = s.outputs("simulate", "reference")
            theirs = litert.Runtime(pathlib.Path(file).read_bytes(), "reference").run_all(
                [{s.input: v} for v in x])["y"]
        off = np.abs(theirs - ours).max() / max(np.abs(ours).max(), 1e-6)
        worst = max(worst, off)
        if off > 1e-6 or report["losses"]:
            bad.append(f"limits {seed}: off by {off:.3g}, losses {report['losses'][:1]}")
    print(f"limits of 12 clips: off by {worst:.3g} of the largest value")


def check_groups(bad):
    """Ties among the last elements of a tensor, which the optimized kernels round otherwise."""
    random = np.random.RandomState(12)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "groups.onnx")
        network([helper.make_node("Relu", ["x"], ["p"], "p"),
                 helper.make_node("Neg", ["p"], ["n"], "n"),
                 helper.make_node("Concat", ["p", "n"], ["y"], "y", axis=1)], {}, path, extent=3)
        s = agreement.Snapshot(f"{folder}/s", path, BACKENDS[0],
                               random.normal(0, 1, (4 * SAMPLES, 1, 4, 3, 3)).astype("f4"))
        file, _ = s.export("model.tflite", "--format", "tflite")
        for kernels in litert.PROFILES:
            rows = list(tensors(file, s, kernels))
            bad += [f"groups {kernels}: {t}: {wrong}" for t, _, _, wrong in rows if wrong]
            print(f"groups, {kernels}: {sum(r[1] for r in rows)} elements")


def lines(path):
    """Convolutions along one axis, with pads and strides and per channel of the input, and a
    Softmax over each axis."""
    random, node = np.random.RandomState(8), helper.make_node
    weights = {"w": (8, 8, 3), "v": (8, 1, 3), "u": (4, 8, 1)}
    weights = {n: random.normal(0, 0.5, s) for n, s in weights.items()} | \
        {"b": random.normal(0, 0.3, 8)}
    nodes = [
        node("Squeeze", ["x"], ["z"], "z"),
        node("Unsqueeze", ["z", "axes"], ["r"], "r"), node("Reshape", ["r", "shape"], ["a"], "a"),
        node("Conv", ["a", "w", "b"], ["c"], "c", pads=[2, 1], strides=[2], dilations=[1]),
        node("Relu", ["c"], ["d"], "d"), node("Softmax", ["d"], ["s"], "s", axis=1),
        node("Conv", ["s", "v"], ["e"], "e", group=8, pads=[1, 1]),
        node("Conv", ["e", "u"], ["f"], "f"), node("Softmax", ["f"], ["g"], "g", axis=0),
        node("Conv", ["d", "w"], ["i"], "i", pads=[2, 2], dilations=[2]),
        node("Conv", ["i", "u"], ["j"], "j"), node("Add", ["g", "j"], ["y"], "y")]
    network(nodes, weights, path)
    model = onnx.load(path)
    model.graph.initializer.extend([numpy_helper.from_array(np.array([0]), "axes"),
                                    numpy_helper.from_array(np.array([1, 8, 32]), "shape")])
    onnx.save(model, path)
    return random.normal(0, 1, (SAMPLES, 1, 4, 8, 8)).astype("f4")


def old_softmax(path):
    """Until opset 12 a Softmax flattens the dims from its axis on."""
    network([helper.make_node("Conv", ["x", "w"], ["c"], "c"),
             helper.make_node("Softmax", ["c"], ["y"], "soft", axis=1)],
            {"w": np.random.RandomState(9).normal(0, 0.5, (4, 4, 1, 1))}, path, opset=11)


def check_islands(bad):
    for backend in BACKENDS:
        for write in (islands, gelus, rows_and_blocks, lines, clamps):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, f"{write.__name__}.onnx")
                compare(bad, write.__name__, backend,
                        agreement.Snapshot(f"{folder}/s", path, backend, write(path)))


def gelu(form, x, y):
    """Nodes of x / 2 (1 + erf(x / sqrt 2)), as exporters write it, and as one operator."""
    node, end = helper.make_node, [f"{y}_{i}" for i in range(4)]
    root = node("Div", [x, "root"], end[:1]) if form % 2 else node("Mul", ["rsqrt", x], end[:1])
    erf, one = node("Erf", end[:1], end[1:2]), node("Add", end[1:3:2] + ["one"], end[2:3])
    return {
        0: [root, erf, one, node("Mul", [x, end[2]], [end[3]]), node("Mul", [end[3], "half"], [y])],
        1: [root, erf, one, node("Mul", ["half", x], [end[3]]), node("Mul", [end[3], end[2]], [y])],
        2: [root, erf, one, node("Div", [end[2], "two"], [end[3]]), node("Mul", [x, end[3]], [y])],
        3: [root, erf, one, node("Mul", [end[2], x], [end[3]]), node("Div", [end[3], "two"], [y])],
        4: [node("Gelu", [x], [y])],
        5: [node("Gelu", [x], [y], approximate="tanh")]}[form]


NUMBERS = {"root": 2 ** 0.5, "rsqrt": 0.5 ** 0.5, "one": 1, "two": 2, "half": 0.5}


def network(nodes, weights, path, opset=20, extent=8):
    graph = helper.make_graph(
        nodes, path.stem,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, extent, extent])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v, "f4"), n) for n, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                ir_version=9), path)


def gelus(path):
    """Every form of Gelu behind a convolution of its own, and a broadcast of the sum."""
    random = np.random.RandomState(6)
    weights, nodes, at = dict(NUMBERS), [], "x"
    for form in range(6):
        weights[f"w{form}"] = random.normal(0, 0.5, (4, 4, 1, 1))
        nodes += [helper.make_node("Conv", [at, f"w{form}"], [f"c{form}"], f"c{form}"),
                  *gelu(form, f"c{form}", f"g{form}")]
        at = f"g{form}"
    nodes += [helper.make_node("ReduceMean", [at, "axes"], ["m"], "m"),
              helper.make_node("Expand", ["m", "shape"], ["y"], "e")]
    network(nodes, weights, path)
    model = onnx.load(path)
    model.graph.initializer.extend([
        numpy_helper.from_array(np.array([2, 3]), "axes"),
        numpy_helper.from_array(np.array([1, 4, 3, 2]), "shape")])
    model.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(
        TensorProto.FLOAT, [1, 4, 3, 2]))
    onnx.save(model, path)
    return random.normal(0, 1, (SAMPLES, 1, 4, 8, 8)).astype("f4")


# Nearly a Gelu: another constant, another factor, a second reader.
def near_gelus():
    wrong = {}
    for name, change in (("root", 1.5), ("one", 2), ("two", 3)):
        wrong[f"{name} {change}"] = (gelu(3, "c", "y"), NUMBERS | {name: change})
    nodes = gelu(3, "c", "y")
    nodes[3].input[1] = "x"
    wrong["another factor"] = (nodes, NUMBERS)
    nodes = gelu(3, "c", "g") + [helper.make_node("Add", ["g", "g_1"], ["y"])]
    wrong["a second reader"] = (nodes, NUMBERS)
    return wrong


def foreign(path):
    """An operator of another domain behind a convolution."""
    network([helper.make_node("Conv", ["x", "w"], ["c"], "c"),
             helper.make_node("QuickGelu", ["c"], ["y"], "quick", domain="com.microsoft")],
            {"w": np.full((4, 4, 1, 1), 0.25)}, path)
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)


def old_pad(path):
    """Until opset 10 the pads are an attribute."""
    network([helper.make_node("Conv", ["x", "w"], ["c"], "c"),
             helper.make_node("Pad", ["c"], ["y"], "pad", mode="reflect", pads=[0, 0, 1, 1] * 2)],
            {"w": np.random.RandomState(9).normal(0, 0.5, (4, 4, 1, 1))}, path, opset=10)


def falling(path):
    """A slope below 0: kernels multiply by a factor, which is positive."""
    network([helper.make_node("Conv", ["x", "w"], ["c"], "c"),
             helper.make_node("LeakyRelu", ["c"], ["y"], "leaky", alpha=-0.5)],
            {"w": np.random.RandomState(9).normal(0, 0.5, (4, 4, 1, 1))}, path)


def unsigned_product(path):
    """A product of two activations: BATCH_MATMUL has no kernel on uint8."""
    network([helper.make_node("Conv", ["x", "w"], ["c"], "c"),
             helper.make_node("MatMul", ["c", "c"], ["y"], "product")],
            {"w": np.random.RandomState(9).normal(0, 0.5, (4, 4, 1, 1))}, path)


def lower_turned(path):
    """SAME_LOWER pads an odd number before the picture, SAME of TensorFlow Lite behind it."""
    network([helper.make_node("ConvTranspose", ["x", "w"], ["y"], "turned", strides=[2, 2],
                              auto_pad="SAME_LOWER")],
            {"w": np.random.RandomState(9).normal(0, 0.5, (4, 4, 3, 3))}, path)


def check_named(bad, write, *expected, backend=BACKENDS[0]):
    """The message of a refusal."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "refused.onnx")
        write(path)
        s = agreement.Snapshot(f"{folder}/s", path, backend, np.ones((2, 1, 4, 8, 8), "f4"))
        try:
            s.export("model.tflite", "--format", "tflite")
            bad.append(f"{write.__name__}: not refused")
        except RuntimeError as why:
            bad += [f"{write.__name__}: {why}" for words in expected if words not in str(why)]


def check_refused(bad):
    """Erf outside of a Gelu: the message names node and operator."""
    for what, (nodes, numbers) in near_gelus().items():
        with tempfile.TemporaryDirectory() as folder:
            path, weights = pathlib.Path(folder, "near.onnx"), dict(numbers)
            weights["w"] = np.full((4, 4, 1, 1), 0.25)
            network([helper.make_node("Conv", ["x", "w"], ["c"], "c"), *nodes], weights, path)
            s = agreement.Snapshot(f"{folder}/s", path, BACKENDS[0],
                                   np.ones((SAMPLES, 1, 4, 8, 8), "f4"))
            try:
                s.export("model.tflite", "--format", "tflite")
                bad.append(f"near Gelu, {what}: not refused")
            except RuntimeError as why:
                if "(Erf)" not in str(why):
                    bad.append(f"near Gelu, {what}: {why}")


def main():
    bad = []
    print("model       backend              operators tensors  elements     equal")
    for name, path, x in agreement.models():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        for backend in BACKENDS:
            with tempfile.TemporaryDirectory() as folder:
                s = agreement.Snapshot(f"{folder}/s", path, backend, x[:SAMPLES])
                compare(bad, name, backend, s)
    if not sys.argv[1:] or "islands" in sys.argv[1:]:
        check_islands(bad)
        check_refused(bad)
        check_activations(bad)
        check_limits(bad)
        check_groups(bad)
        check_named(bad, foreign, "node 'quick' (QuickGelu): ", "expected an integer kernel")
        check_named(bad, old_softmax, "node 'soft' (Softmax): ", "axis 1")
        check_named(bad, old_pad, "node 'pad' (Pad): mode reflect")
        check_named(bad, falling, "node 'leaky' (LeakyRelu): ", "alpha is -0.5, expected above 0")
        check_named(bad, lower_turned, "node 'turned' (ConvTranspose): pads, expected those of SAME")
        check_named(bad, unsigned_product, "node 'product' (MatMul): codes in uint8",
                    backend="tengine-int8")
    for kind in ("int8", "uint8") if not sys.argv[1:] else ():
        tensors = sum(again(bad, kind, seed) for seed in range(NETWORKS))
        print(f"{NETWORKS} networks of {kind}: {tensors} tensors")
        if tensors < NETWORKS:
            bad.append(f"{kind}: only {tensors} tensors")
    for line in bad:
        print("FAILED", line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
