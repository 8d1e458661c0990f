#!/usr/bin/env python3
"""Attention masks on a BERT of four layers with seeded weights: by Where, by a product with
-10000, by a product with the lowest float, by -inf.

A table of the noise at the output under five backends, before and after the policy that
`qg stats doctor` proposes:

- where the runtime keeps scores in its kernel (openvino-int8, trt-int8) masks do no harm
- elsewhere `quantize` names the values and proposes the policy
- a mask of -inf, which has no scale, stays in float at once and is named as well
- with the policy every backend stays below LIMIT

Small networks: masks in any sample, from statistics, of other sizes, behind Neg and Div, and
in nodes whose names are patterns.

A mask of the lowest float after one product is exported to OpenVINO, which computes the
values of the simulation.  Skipped (77) without numpy and onnx."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T, helper as h, numpy_helper as nh
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

WIDTH, HEADS, LENGTH, LAYERS, WORDS, SAMPLES = 64, 4, 16, 4, 100, 8
BACKENDS = "ort-int8", "qnn-dsp-int8", "tflite-int8", "openvino-int8", "trt-int8"
IN_KERNEL = "openvino-int8", "trt-int8"
LIMIT = 0.01  # noise over signal
LOWEST = {"where": np.finfo(np.float32).min, "product": -10000,
          "lowest": np.finfo(np.float32).min, "infinity": -np.inf}


class Network:
    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes, self.constants = [], []

    def constant(self, array, name, dtype=np.float32):
        self.constants.append(nh.from_array(np.asarray(array, dtype), name))
        return name

    def node(self, op, inputs, name, **attributes):
        self.nodes.append(h.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def dense(self, x, n, m, name):
        r = self.random
        w = self.constant(r.standard_normal((n, m)) / np.sqrt(n), name + ".w")
        b = self.constant(r.standard_normal(m) * 0.1, name + ".b")
        return self.node("Add", [self.node("MatMul", [x, w], name + ".product"), b], name)

    def normalization(self, x, name):
        mean = self.node("ReduceMean", [x], name + ".mean", axes=[-1])
        centred = self.node("Sub", [x, mean], name + ".centred")
        square = self.node("Pow", [centred, "two"], name + ".square")
        variance = self.node("ReduceMean", [square], name + ".variance", axes=[-1])
        total = self.node("Add", [variance, "epsilon"], name + ".sum")
        normal = self.node("Div", [centred, self.node("Sqrt", [total], name + ".deviation")],
                           name + ".normal")
        r = self.random
        gain = self.constant(1 + 0.1 * r.standard_normal(WIDTH), name + ".gain")
        shift = self.constant(0.1 * r.standard_normal(WIDTH), name + ".shift")
        return self.node("Add", [self.node("Mul", [normal, gain], name + ".scaled"), shift], name)

    def gelu(self, x, name):
        erf = self.node("Erf", [self.node("Div", [x, "root"], name + ".ratio")], name + ".erf")
        product = self.node("Mul", [x, self.node("Add", [erf, "one"], name + ".sum")],
                            name + ".product")
        return self.node("Mul", [product, "half"], name)

    def attention(self, x, masked, name):
        heads = {}
        for part in "qkv":
            y = self.node("Reshape", [self.dense(x, WIDTH, WIDTH, name + part), "heads"],
                          name + part + ".heads")
            heads[part] = self.node("Transpose", [y], name + part + ".turned",
                                    perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])
        scores = self.node("MatMul", [heads["q"], heads["k"]], name + ".scores")
        scores = masked(self.node("Div", [scores, "size"], name + ".small"), name + ".masked")
        shares = self.node("Softmax", [scores], name + ".shares", axis=-1)
        y = self.node("Transpose", [self.node("MatMul", [shares, heads["v"]], name + ".mean")],
                      name + ".turned", perm=[0, 2, 1, 3])
        return self.dense(self.node("Reshape", [y, "width"], name + ".joined"), WIDTH, WIDTH,
                          name + ".out")


def bert(kind):
    n = Network()
    for name, value in (("epsilon", 1e-5), ("two", 2), ("one", 1), ("half", 0.5), ("zero", 0),
                        ("root", np.sqrt(2)), ("size", np.sqrt(WIDTH / HEADS)),
                        ("low", LOWEST[kind])):
        n.constant(value, name)
    n.constant([1, LENGTH, HEADS, WIDTH // HEADS], "heads", np.int64)
    n.constant([1, LENGTH, WIDTH], "width", np.int64)
    mask = n.node("Unsqueeze", ["mask", n.constant([1, 2], "axes", np.int64)], "wide")
    if kind in ("where", "infinity"):
        keep = n.node("Equal", [mask, "one"], "keep")
    if kind == "infinity":
        masked = lambda x, name: n.node("Where", [keep, x, "low"], name)  # noqa: E731
    else:
        bias = n.node("Where", [keep, "zero", "low"], "bias") if kind == "where" else \
            n.node("Mul", [n.node("Sub", ["one", mask], "inverse"), "low"], "bias")
        masked = lambda x, name: n.node("Add", [x, bias], name)  # noqa: E731
    table = n.constant(n.random.standard_normal((WORDS, WIDTH)), "table")
    places = n.constant(0.3 * n.random.standard_normal((LENGTH, WIDTH)), "places")
    words = n.node("Gather", [table, "ids"], "words")
    x = n.normalization(n.node("Add", [words, places], "placed"), "embedded")
    for k in range(LAYERS):
        y = n.node("Add", [x, n.attention(x, masked, f"attention{k}")], f"first{k}")
        x = n.normalization(y, f"normal{k}")
        y = n.gelu(n.dense(x, WIDTH, 4 * WIDTH, f"up{k}"), f"gelu{k}")
        y = n.node("Add", [x, n.dense(y, 4 * WIDTH, WIDTH, f"down{k}")], f"second{k}")
        x = n.normalization(y, f"final{k}")
    return save(n, [("ids", T.INT64, [1, LENGTH]), ("mask", T.FLOAT, [1, LENGTH])],
                (x, [1, LENGTH, WIDTH]))


def save(n, inputs, output):
    graph = h.make_graph(n.nodes, "g", [h.make_tensor_value_info(*i) for i in inputs],
                         [h.make_tensor_value_info(output[0], T.FLOAT, output[1])], n.constants)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def samples():
    r = np.random.default_rng(1)
    mask = np.ones((SAMPLES, 1, LENGTH), np.float32)
    for i in range(SAMPLES):
        mask[i, 0, 8 + i:] = 0
    return {"ids": r.integers(0, WORDS, (SAMPLES, 1, LENGTH)), "mask": mask}


def run(*arguments):
    return subprocess.run([agreement.QG, *map(str, arguments)], capture_output=True, text=True)


def noise(snapshot, data):
    report = json.loads(agreement.qg("analyse", snapshot, "-d", data, "--json"))
    return report["errors"][0]["error"]


def check(folder, kind, backend):
    """Noise before and after the policy; complaints are raised."""
    model, data, policy = (folder / f"{kind}.{end}" for end in ("onnx", "npz", "yaml"))
    before, after = folder / f"{kind}-{backend}", folder / f"{kind}-{backend}-policy"
    done = run("quantize", model, "-b", backend, "-d", data, "-o", before)
    if done.returncode:
        raise ValueError(f"refused: {done.stderr.strip()}")
    first = noise(before, data)
    policy_for = [line for line in done.stderr.splitlines() if "this policy" in line]
    named = "attention0.masked" in done.stderr and bool(policy_for)
    if (backend in IN_KERNEL or kind == "infinity") and first > LIMIT:
        raise ValueError(f"noise {first}, expected at most {LIMIT}: {done.stderr.strip()}")
    if kind == "infinity" and backend in ("ort-int8", "tflite-int8") and \
            "hold a mask of -inf" not in done.stderr:
        raise ValueError(f"stderr '{done.stderr.strip()}', expected a mask of -inf")
    if first > LIMIT and not named:
        raise ValueError(f"stderr '{done.stderr.strip()}', expected attention0.masked and a policy")
    if any("mask of -inf" in line for line in policy_for) or \
            ("mask of -inf" in done.stderr and "attention0." not in done.stderr):
        raise ValueError(f"stderr '{done.stderr.strip()}', expected attention0, which "
                         "stays in float, and no policy for it")
    done = run("quantize", model, "-b", backend, "-d", data, "--policy", policy, "-o", after)
    second = noise(after, data) if done.returncode == 0 else done.stderr
    if done.returncode or second > LIMIT:
        raise ValueError(f"with the policy: {second}, expected at most {LIMIT}")
    return first, second


def check_trace(folder):
    """A trace with scales of masks, and with infinities in float, is read as it is written."""
    for kind in "lowest", "infinity":
        for backend in "ort-int8", "trt-int8":
            snapshot, data = folder / f"{kind}-{backend}", folder / f"{kind}.npz"
            agreement.qg("trace", snapshot, "-d", data, "-n", 2, "-o", folder / "own.npz")
            for verb in "diverge", "fit":
                done = run(verb, snapshot, "-d", data, "-n", 2, "--against", folder / "own.npz")
                if done.returncode:
                    raise ValueError(f"{verb} {snapshot.name}: {done.returncode} {done.stderr}")
            done = run("diff", folder / "own.npz", folder / "own.npz")
            if done.returncode:
                raise ValueError(f"diff: {done.returncode} {done.stdout}")


def small(x, mask, kind="add", low=LOWEST["lowest"], names=("masked", "y"), dynamic=False):
    """Attention on scores x, [1, 16], with one reader of the masked scores."""
    n = Network()
    n.constant(low, "low")
    n.constant(1, "one")
    n.constant(2, "two")
    if np.isinf(low):
        bias = n.node("Where", [n.node("Cast", ["mask"], "kept", to=T.BOOL), n.constant(0, "none"), "low"], "bias")
    else:
        bias = n.node("Mul", [n.node("Sub", ["one", "mask"], "inverse"), "low"], "bias")
    if kind == "negative":  # -(-x + mask)
        scores = n.node("Neg", [n.node("Sub", [n.node("Neg", ["x"], "minus"), bias], "sum")],
                        names[0])
    elif kind == "scaled":  # (2 x + mask) / 2
        scores = n.node("Div", [n.node("Add", [n.node("Mul", ["x", "two"], "twice"), bias], "sum"),
                                "two"], names[0])
    else:
        scores = n.node("Add", ["x", bias], names[0])
    if dynamic:  # a value of unknown length: not every sample is searched
        n.node("Gather", [n.node("Reshape", ["x", n.constant([16], "flat", np.int64)], "line"),
                          n.node("Squeeze", [n.node("NonZero", [n.node(
                              "Reshape", ["x", "flat"], "again")], "places"), n.constant(
                                  [0], "first", np.int64)], "which")], "kept")
        n.node("ReduceSum", ["kept"], "total", keepdims=0)
        scores = n.node("Add", [scores, n.node("Mul", ["total", n.constant(0, "zero")], "none")],
                        "shifted")
    y = n.node("Softmax", [scores], names[1], axis=-1)
    model = save(n, [("x", T.FLOAT, [1, 16]), ("mask", T.FLOAT, [1, 16])], (y, [1, 16]))
    return model, {"x": np.asarray(x, np.float32), "mask": np.asarray(mask, np.float32)}


def scores_and_mask(samples=SAMPLES, first=0, end=SAMPLES):
    """Scores, and a mask of the last places of samples first .. end - 1."""
    mask = np.ones((samples, 1, 16), np.float32)
    mask[first:end, :, 10:] = 0
    return 3 * np.random.default_rng(3).standard_normal((samples, 1, 16)), mask


def warning(folder, network, *arguments, backend="ort-int8"):
    """(values, policy) of the warning, without one (None, None)."""
    model, feed = network
    onnx.save(model, folder / "n.onnx")
    np.savez(folder / "n.npz", **feed)
    arguments = arguments or ("-d", folder / "n.npz")
    done = run("quantize", folder / "n.onnx", "-b", backend, *arguments, "-o", folder / "n")
    if done.returncode:
        raise ValueError(f"refused: {done.stderr.strip()}")
    found = re.search(r"only the mask: (.*); this policy leaves them in float: (.*)", done.stderr)
    return found.groups() if found else (None, None)


def noise_with(folder, policy):
    """Noise of the network of `warning` with a policy, and its warning."""
    (folder / "n.yaml").write_text(policy + "\n")
    done = run("quantize", folder / "n.onnx", "-b", "ort-int8", "-d", folder / "n.npz",
               "--policy", folder / "n.yaml", "-o", folder / "p")
    if done.returncode or "only the mask" in done.stderr:
        raise ValueError(f"policy {policy}: {done.stderr.strip()}")
    return noise(folder / "p", folder / "n.npz")


def check_late(folder):
    """Masks of any sample: of all where that is little work, else as calibration saw them."""
    for dynamic in False, True:
        for first, end in (0, 1), (5, 6), (7, 8):
            network = small(*scores_and_mask(SAMPLES, first, end), dynamic=dynamic)
            if not warning(folder, network)[0]:
                raise ValueError(f"a mask in sample {first}, dynamic {dynamic}: no warning")
    if warning(folder, small(*scores_and_mask(SAMPLES, 0, 0)))[0]:
        raise ValueError("a warning without any mask")


def check_stats(folder):
    """Statistics give the warning that the samples give, with the same policy."""
    for low in LOWEST["lowest"], -1e9, -1e4:
        network = small(*scores_and_mask(), low=low)
        samples = warning(folder, network)
        agreement.qg("stats", "collect", folder / "n.onnx", "-d", folder / "n.npz", "-o",
                     folder / "n.qgs")
        stats = warning(folder, network, "--stats", folder / "n.qgs")
        if not samples[0] or samples != stats:
            raise ValueError(f"mask {low}: of samples {samples}, of statistics {stats}")
        (folder / "n.qgs").unlink()
    network = small(*scores_and_mask(SAMPLES, 0, 0))
    warning(folder, network)
    agreement.qg("stats", "collect", folder / "n.onnx", "-d", folder / "n.npz", "-o",
                 folder / "n.qgs")
    if warning(folder, network, "--stats", folder / "n.qgs")[0]:
        raise ValueError("statistics: a warning without any mask")


def check_compare(folder):
    """compare names the variants that a mask spoils in one line, and none without a mask."""
    patch = folder / "compare.yaml"
    for low, spoilt in (LOWEST["lowest"], True), (0, False):
        values, policy = warning(folder, small(*scores_and_mask(), low=low))
        patch.write_text(policy or "rules: []")
        done = run("compare", folder / "n.onnx", "-d", folder / "n.npz", "-b", "ort-int8", "-b", "tflite-int8",
                   "-b", "ncnn-int8", "--policy", patch)
        lines = [line for line in done.stderr.splitlines() if "a mask beside" in line]
        expected = [f"qg: warning: compare: ort-int8, tflite-int8: 1 value holds a mask beside ordinary numbers, of "
                    f"which a grid keeps only the mask: {values}; `qg quantize` prints a policy that leaves them in "
                    "float"] if spoilt else []
        if done.returncode or lines != expected:
            raise ValueError(f"compare, mask {low}: {done.stderr}, expected {expected}")


def check_infinite(folder):
    """Statistics of -inf alone leave the records as the samples do; those of +inf are refused."""
    for low in -np.inf, np.inf:
        model, feed = small(*scores_and_mask(), low=low)
        onnx.save(model, folder / "n.onnx")
        np.savez(folder / "n.npz", **feed)
        agreement.qg("stats", "collect", folder / "n.onnx", "-d", folder / "n.npz", "-o",
                     folder / "n.qgs")
        made = []
        for source, file in ("-d", "n.npz"), ("--stats", "n.qgs"):
            done = run("quantize", folder / "n.onnx", "-b", "ort-int8", source, folder / file, "-o", folder / "n")
            mask = [line for line in done.stderr.splitlines() if "hold a mask of -inf" in line]
            made.append((done.returncode, mask, json.loads((folder / "n/quant.json").read_text())["tqcs"]
                         if done.returncode == 0 else ["state=fp32" in done.stderr]))
        if made[0] != made[1] or (low < 0) != bool(made[0][1]):
            raise ValueError(f"mask {low}: of samples {made[0]}, of statistics {made[1]}")
        (folder / "n.qgs").unlink()


def check_quiet(folder):
    """A mask of -inf in front of a Softmax is no fault: no verb warns of an infinity, neither
    when it is quantized nor later.  One elsewhere is named, with what to do."""
    model, feed = small(*scores_and_mask(), low=-np.inf)
    onnx.save(model, folder / "q.onnx")
    np.savez(folder / "q.npz", **feed)
    n = Network()
    logarithm = n.node("Max", [n.node("Log", [n.node("Relu", ["x"], "kept")], "logarithm"),
                               n.constant(-5, "least")], "y")
    onnx.save(save(n, [("x", T.FLOAT, [1, 16])], (logarithm, [1, 16])), folder / "l.onnx")
    np.savez(folder / "l.npz", x=feed["x"])
    for name, infinite in ("q", False), ("l", True):
        model, data, snapshot = (folder / f"{name}{end}" for end in (".onnx", ".npz", ""))
        for arguments in (("quantize", model, "-b", "ort-int8", "-d", data, "-o", snapshot),
                          ("run", snapshot, "-d", data, "-o", folder / "out"),
                          ("analyse", snapshot, "-d", data), ("explain", snapshot, "y")):
            done = run(*arguments)
            lines = [line for line in done.stderr.splitlines() if "infinity first" in line]
            expected = infinite and arguments[0] != "explain"
            if done.returncode or bool(lines) != expected or any(
                    "expected" not in line for line in lines):
                raise ValueError(f"{name}, {arguments[0]}: {done.stderr}, expected a warning of "
                                 f"an infinity: {expected}")


def check_input(folder):
    """-inf in an input is a mask in front of a Softmax, else a fault of the data."""
    n = Network()
    w = n.constant(n.random.standard_normal((16, 16)), "w")
    wide = n.node("Unsqueeze", ["mask", n.constant([0], "axes", np.int64)], "wide")
    scores = n.node("Add", [n.node("MatMul", ["x", w], "scores"), wide], "masked")
    y = n.node("MatMul", [n.node("Softmax", [scores], "shares", axis=-1), w], "y")
    onnx.save(save(n, [("x", T.FLOAT, [1, 4, 16]), ("mask", T.FLOAT, [1, 16])],
                   (y, [1, 4, 16])), folder / "i.onnx")
    x = n.random.standard_normal((SAMPLES, 1, 4, 16)).astype(np.float32)
    for name, low, refused in ("mask", -np.inf, 0), ("mask", np.inf, 1), ("x", -np.inf, 1):
        feed = {"x": x.copy(), "mask": np.zeros((SAMPLES, 1, 16), np.float32)}
        feed[name][..., 10:] = low
        np.savez(folder / "i.npz", **feed)
        agreement.qg("stats", "collect", folder / "i.onnx", "-d", folder / "i.npz", "-o",
                     folder / "i.qgs")
        report = json.loads(agreement.qg("stats", "doctor", folder / "i.onnx", "-d",
                                         folder / "i.npz", "--json"))
        if bool([r for r in report.get("warnings", []) if r["kind"] == "not-finite"]) != refused:
            raise ValueError(f"input {name} of {low}: the doctor finds {report['warnings']}")
        made = []
        for backend in "ort-int8", "qnn-dsp-int8", "tflite-int8":
            for source, file in ("-d", "i.npz"), ("--stats", "i.qgs"):
                done = run("quantize", folder / "i.onnx", "-b", backend, source, folder / file,
                           "-o", folder / "i")
                if done.returncode != refused or "mask of -inf" not in done.stderr + "mask of -inf" * (
                        refused and source == "-d"):
                    raise ValueError(f"input {name} of {low}, {backend}: {done.stderr}")
                if not refused:
                    made.append(json.loads((folder / "i/quant.json").read_text())["tqcs"])
                    if noise(folder / "i", folder / "i.npz") > LIMIT:
                        raise ValueError(f"input {name} of {low}: {backend} has noise")
        if any(a != b for a, b in zip(made[::2], made[1::2])):
            raise ValueError(f"input {name} of {low}: statistics give other records")
        (folder / "i.qgs").unlink()


def two_masks(first):
    """A constant mask and one of an input: together -inf, or `first` alone is."""
    n = Network()
    w = n.constant(n.random.standard_normal((16, 16)), "w")
    causal = n.constant(np.where(np.arange(16) > 12, first, 0), "causal")
    scores = n.node("Add", [n.node("MatMul", ["x", w], "scores"), causal], "once")
    if np.isfinite(first):
        scores = n.node("Add", [scores, "mask"], "twice")
    y = n.node("MatMul", [n.node("Softmax", [scores], "shares", axis=-1), w], "y")
    inputs = [("x", T.FLOAT, [1, 4, 16]), ("mask", T.FLOAT, [1, 16])]
    mask = np.zeros((SAMPLES, 1, 16), np.float32)
    mask[..., 10:] = LOWEST["lowest"]
    x = n.random.standard_normal((SAMPLES, 1, 4, 16)).astype(np.float32)
    feed = {"x": x, "mask": mask} if np.isfinite(first) else {"x": x}
    return save(n, inputs[:len(feed)], (y, [1, 4, 16])), feed


def check_advice(folder):
    """A run prints one policy for all masks, with which the next run has none to print;
    none for those of -inf, which stay in float."""
    for first in LOWEST["lowest"], -np.inf:
        model, feed = two_masks(first)
        onnx.save(model, folder / "a.onnx")
        np.savez(folder / "a.npz", **feed)
        run_it = ("quantize", folder / "a.onnx", "-b", "ort-int8", "-d", folder / "a.npz", "-o",
                  folder / "a")
        done = run(*run_it)
        found = re.findall(r"(rules: \[.*)", done.stderr)
        if len(found) != np.isfinite(first) or "mask of -inf" not in done.stderr:
            raise ValueError(f"masks of {first}: {done.stderr}")
        if not found and noise(folder / "a", folder / "a.npz") > LIMIT:
            raise ValueError(f"masks of {first}: noise {noise(folder / 'a', folder / 'a.npz')}")
        if not found:
            continue
        (folder / "a.yaml").write_text(found[0] + "\n")
        done = run(*run_it, "--policy", folder / "a.yaml")
        if done.returncode or "rules: [" in done.stderr or noise(folder / "a", folder / "a.npz") > LIMIT:
            raise ValueError(f"masks of {first}, with the policy: {done.stderr}")


def check_kinds(folder):
    """What counts as a mask, and that the policy helps."""
    x, mask = scores_and_mask()
    for kind, low, factor, warns in (
            ("add", -1000, 1, True), ("add", -3000, 1, True), ("add", -8000, 10, True),
            ("add", -1e9, 100, True), ("negative", -1e9, 1, True), ("scaled", -1e9, 20, True),
            ("add", -100, 1, False), ("add", -10, 100, False)):
        named, policy = warning(folder, small(factor * x, mask, kind, low))
        if bool(named) != warns:
            raise ValueError(f"{kind}, mask {low}, scores x {factor}: warning of {named}")
        if warns and noise_with(folder, policy) > LIMIT:
            raise ValueError(f"{kind}, mask {low}: the policy does not help: {policy}")


def check_names(folder):
    """Names of nodes are matched literally."""
    for name in "m*", "m?s", 'a"b', "back\\slash", "tab\there", "m\\*":
        named, policy = warning(folder, small(*scores_and_mask(), names=(name, "y")))
        if named != name:
            raise ValueError(f"{name!r}: warning of {named!r}, policy {policy}")
        if noise_with(folder, policy) > LIMIT:
            raise ValueError(f"{name!r}: the policy does not help: {policy}")
    named, policy = warning(folder, small(*scores_and_mask(), names=("m*", "m_is_not_masked")))
    if policy.count("m_is_not_masked") != 1 or '"m\\\\*"' not in policy:
        raise ValueError(f"policy {policy}")


def check_moved(folder):
    """One policy is enough where nodes move the masked scores, wherever they are rounded."""
    for backend in "ort-int8", "trt-int8", "tflite-int8", "qnn-dsp-int8":
        n = Network()
        n.constant(LOWEST["lowest"], "low")
        n.constant(1, "one")
        w = n.constant(n.random.standard_normal((16, 16)) * 0.3, "w")
        bias = n.node("Mul", [n.node("Sub", ["one", "mask"], "inverse"), "low"], "bias")
        scores = n.node("Add", [n.node("MatMul", ["x", w], "scores"), bias], "masked")
        moved = n.node("Transpose", [scores], "turned", perm=[0, 2, 1])
        moved = n.node("Transpose", [moved], "back", perm=[0, 2, 1])
        moved = n.node("Reshape", [moved, n.constant([4, 16], "flat", np.int64)], "moved")
        y = n.node("MatMul", [n.node("Softmax", [moved], "shares", axis=-1), w], "y")
        onnx.save(save(n, [("x", T.FLOAT, [1, 4, 16]), ("mask", T.FLOAT, [1, 1, 16])],
                       (y, [4, 16])), folder / "moved.onnx")
        mask = np.ones((SAMPLES, 1, 1, 16), np.float32)
        mask[..., 10:] = 0
        np.savez(folder / "moved.npz", mask=mask,
                 x=n.random.standard_normal((SAMPLES, 1, 4, 16)).astype(np.float32))
        run_it = ("quantize", folder / "moved.onnx", "-b", backend, "-d", folder / "moved.npz",
                  "-o", folder / "moved")
        found = re.findall(r"(rules: \[.*)", run(*run_it).stderr)
        if len(found) != 1:
            raise ValueError(f"moved masks, {backend}: policies {found}, expected one")
        (folder / "moved.yaml").write_text(found[0] + "\n")
        done = run(*run_it, "--policy", folder / "moved.yaml")
        left = noise(folder / "moved", folder / "moved.npz")
        if done.returncode or "rules: [" in done.stderr or left > LIMIT:
            raise ValueError(f"moved masks, {backend}: noise {left} with the policy: "
                             f"{done.stderr}")


def check_policy(folder):
    """The policy names each reader of a masked value that is left, once."""
    n = Network()
    n.constant(LOWEST["lowest"], "low")
    n.constant(1, "one")
    bias = n.node("Mul", [n.node("Sub", ["one", "mask"], "inverse"), "low"], "bias")
    scores = n.node("Add", ["x", bias], "masked")
    n.node("Neg", [scores], "dead_first")
    y = n.node("Softmax", [scores], "y", axis=-1)
    n.node("Abs", [scores], "dead_last")
    onnx.save(save(n, [("x", T.FLOAT, [1, 16]), ("mask", T.FLOAT, [1, 16])], (y, [1, 16])),
              folder / "policy.onnx")
    mask = np.ones((SAMPLES, 1, 16), np.float32)
    mask[..., 10:] = 0
    x = n.random.standard_normal((SAMPLES, 1, 16)).astype(np.float32)
    x[0, 0, 0] = 90  # the largest ordinary number
    np.savez(folder / "policy.npz", mask=mask, x=x)
    done = run("quantize", folder / "policy.onnx", "-b", "ort-int8", "-d", folder / "policy.npz",
               "-o", folder / "policy")
    found = re.findall(r"node: \[(.*?)\]", done.stderr)
    if found != ['"masked", "y"']:
        raise ValueError(f"stderr '{done.stderr.strip()}', expected a policy of masked and y")


def check_export(folder):
    """One product and a mask of the lowest float."""
    n = Network()
    n.constant(1, "one")
    n.constant(LOWEST["lowest"], "low")
    w = n.constant(n.random.standard_normal((16, 16)) * 0.3, "w")
    bias = n.node("Mul", [n.node("Sub", ["one", "mask"], "inverse"), "low"], "bias")
    scores = n.node("Add", [n.node("MatMul", ["x", w], "scores"), bias], "masked")
    y = n.node("MatMul", [n.node("Softmax", [scores], "shares", axis=-1), w], "y")
    onnx.save(save(n, [("x", T.FLOAT, [1, 4, 16]), ("mask", T.FLOAT, [1, 1, 16])],
                   (y, [1, 4, 16])), folder / "one.onnx")
    mask = np.ones((SAMPLES, 1, 1, 16), np.float32)
    mask[..., 10:] = 0
    feed = {"x": n.random.standard_normal((SAMPLES, 1, 4, 16)).astype(np.float32), "mask": mask}
    np.savez(folder / "one.npz", **feed)
    agreement.qg("quantize", folder / "one.onnx", "-b", "openvino-int8", "-d", folder / "one.npz",
                 "-o", folder / "one")
    agreement.qg("run", folder / "one", "-d", folder / "one.npz", "-o", folder / "out")
    ours = np.load(folder / "out" / "y.npy")
    if not np.isfinite(ours).all():
        raise ValueError("export: the simulation is not finite")
    for form, name in (("openvino-ir", "one.xml"), ("openvino-fq", "one.fq.onnx")):
        agreement.qg("export", folder / "one", "--format", form, "-o", folder / name)
        try:
            import openvino
        except ImportError:
            continue
        network = openvino.Core().compile_model(folder / name, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO"})
        for k in range(SAMPLES):
            theirs = network({name: x[k] for name, x in feed.items()})[0]
            if not np.allclose(theirs, ours[k].reshape(theirs.shape), atol=1e-3):
                raise ValueError(f"{form}: OpenVINO differs by "
                                 f"{np.abs(theirs - ours[k].reshape(theirs.shape)).max()}")


def check_spoiled(folder):
    """MaxPool makes the lowest float of windows of NaN: a fault of the data, no mask."""
    n = Network()
    y = n.node("MaxPool", [n.node("Neg", ["x"], "less")], "y", kernel_shape=[2, 2],
               strides=[2, 2])
    onnx.save(save(n, [("x", T.FLOAT, [1, 1, 8, 8])], (y, [1, 1, 4, 4])), folder / "w.onnx")
    x = n.random.standard_normal((SAMPLES, 1, 1, 8, 8)).astype(np.float32)
    x[3] = np.nan
    np.save(folder / "w.npy", x)
    report = json.loads(agreement.qg("stats", "doctor", folder / "w.onnx", "-d",
                                     folder / "w.npy", "--json"))
    kinds = [r["kind"] for r in report["warnings"]]
    if "mask_policy" in report or "not-finite" not in kinds:
        raise ValueError(f"NaN in the data: {report.get('mask_policy')}, {kinds}")


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        print("mask      backend        before   after")
        for kind in LOWEST:
            onnx.save(bert(kind), folder / f"{kind}.onnx")
            np.savez(folder / f"{kind}.npz", **samples())
            report = json.loads(agreement.qg("stats", "doctor", folder / f"{kind}.onnx", "-d",
                                             folder / f"{kind}.npz", "--json"))
            (folder / f"{kind}.yaml").write_text(report["mask_policy"] + "\n")
            traced = kind in ("lowest", "infinity")  # by check_trace
            for backend in BACKENDS if traced else agreement.share(BACKENDS, kind, 3):
                try:
                    before, after = check(folder, kind, backend)
                    print(f"{kind:9} {backend:14} {before:7.2%} {after:7.2%}")
                except ValueError as error:
                    bad += 1
                    print(f"FAILED: {kind} {backend}: {error}")
        try:
            check_trace(folder)
            check_policy(folder)
            check_moved(folder)
            check_quiet(folder)
            check_late(folder)
            check_stats(folder)
            check_compare(folder)
            check_infinite(folder)
            check_input(folder)
            check_spoiled(folder)
            check_advice(folder)
            check_kinds(folder)
            check_names(folder)
            check_export(folder)
        except ValueError as error:
            bad += 1
            print(f"FAILED: {error}")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
