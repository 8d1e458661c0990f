#!/usr/bin/env python3
"""qg search: on random networks the exact policy is never worse than greedy's within the
same budget, and budgets hold on samples that had no part in the search; gradients rank
groups as measurements do; each rule of a backend off, alone and in pairs.  What is
reported is what `qg quantize --policy` makes, also of a snapshot made with --set, with an
earlier policy, or with gptq.

usage: test_search.py [NETWORKS [SEED]]     (4 networks, QG_ALL=1: 12; seed 0)"""
import itertools
import json
import pathlib
import re
import sys
import tempfile
import time

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import EVERYTHING, answer, qg

MODEL, CALIB, TEST = ("configs/models/digits.onnx", "configs/data/digits_calib.npy",
                      "configs/data/digits_test.npy")
BACKENDS = "trt-int8", "openvino-int8", "tflite-int8", "ort-int8"
FEW = [] if EVERYTHING else ["-n", 16]  # samples of searches
failures = 0


def check(what, good, *detail):
    global failures
    print("ok    " if good else "FAILED", what, *detail)
    failures += not good


class Network:
    """Convolutions with a wide spread of channel magnitudes, residuals, pools, a Gemm."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []
        self.channels, self.size = 3, 12

    def add(self, op, inputs, **attributes):
        out = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], out, **attributes))
        return out

    def weight(self, shape):
        name = f"w{len(self.weights)}"
        spread = self.rng.lognormal(0, 0.8, (shape[0],) + (1,) * (len(shape) - 1))
        fan_in = np.prod(shape[1:])
        data = (self.rng.normal(0, 1, shape) * spread / np.sqrt(fan_in)).astype("f")
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def conv(self, x, channels, kernel):
        y = self.add("Conv", [x, self.weight((channels, self.channels, kernel, kernel)),
                              self.weight((channels,))], pads=[kernel // 2] * 4)
        self.channels = channels
        return y

    def block(self, x):
        kind = self.rng.integers(4)
        if kind == 0:                                        # residual
            y = self.add("Relu", [self.conv(x, self.channels, 3)])
            return self.add("Relu", [self.add("Add", [self.conv(y, self.channels, 1), x])])
        if kind == 1:                                        # two branches
            before = self.channels
            a = self.add("Relu", [self.conv(x, 4, 1)])
            self.channels = before
            b = self.add("Sigmoid", [self.conv(x, 6, 3)])
            self.channels = 10
            return self.add("Concat", [a, b], axis=1)
        y = self.add("Relu", [self.conv(x, int(self.rng.integers(4, 12)), 3)])
        if kind == 2 and self.size > 3:
            self.size //= 2
            return self.add("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2])
        return y

    def save(self, path):
        x = self.add("Relu", [self.conv("x", 8, 3)])
        for _ in range(self.rng.integers(2, 5)):
            x = self.block(x)
        x = self.add("Flatten", [self.add("GlobalAveragePool", [x])])
        self.nodes.append(helper.make_node(
            "Gemm", [x, self.weight((7, self.channels))], ["y"], "head", transB=1))
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "g", [info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
            [info("y", TensorProto.FLOAT, [1, 7])], self.weights)
        onnx.save(helper.make_model(graph, ir_version=8,
                                    opset_imports=[helper.make_opsetid("", 13)]), path)

    def samples(self, n):
        x = self.rng.normal(0, 1, (n, 3, 12, 12))
        return (x * self.rng.lognormal(0, 0.2, (n, 1, 1, 1))).astype("f")


def row(report, policy):
    return next((r for r in report["policies"] if r["policy"] == policy), None)


def nsr_on(model, backend, data, policy, unseen, folder):
    """Of the network quantized from all of the data with the policy, on other samples."""
    out = folder / "checked"
    qg("quantize", model, "-b", backend, "-d", data, "--policy", policy, "-o", out)
    return max(e["error"] for e in answer("analyse", out, "-d", unseen)["errors"])


def check_bits(snapshot, data, bits, patch):
    """The exact policy, as predicted and the written one as measured, against others; the
    snapshot is kept for what it gives when quantized from all samples, which rows do not have."""
    r = answer("search", snapshot, "-d", data, "--budget", f"bits={bits}", "-o", patch)
    exact, written = row(r, "exact"), row(r, r["chosen"])
    good = r["proved"] and written["mean_bits"] <= bits and exact["mean_bits"] <= bits
    for other in (row(r, "greedy"), row(r, "by-harm")):
        good &= other["mean_bits"] <= bits * (1 + 1e-12)
        good &= exact["predicted"] <= other["predicted"] * (1 + 1e-9)
        good &= (r["chosen"] == "snapshot" or written["nsr"] + written["judged_nsr"]
                 <= other["nsr"] + other["judged_nsr"])
    return good, r["chosen"], f"{written['judged_nsr']:.3g}", \
        f"greedy {row(r, 'greedy')['judged_nsr']:.3g}"


def random_network(seed, folder):
    network = Network(seed)
    model, data, unseen = folder / "n.onnx", folder / "data.npy", folder / "unseen.npy"
    network.save(model)
    np.save(data, network.samples(32))
    np.save(unseen, network.samples(32))
    backend = BACKENDS[seed % len(BACKENDS)]
    what = f"network {seed} on {backend}:"
    snapshot, patch = folder / "snap", folder / "policy.yaml"
    qg("quantize", model, "-b", backend, "-d", data, "-o", snapshot)
    bits, budget = (5, 6, 9)[seed % 3], (0.02, 0.002)[seed % 2]
    check(f"{what} bits {bits}", *check_bits(snapshot, data, bits, patch))
    r = answer("search", snapshot, "-d", data, "--budget", f"nsr={budget}", "-o", patch)
    error = nsr_on(model, backend, data, patch, unseen, folder)
    greedy = row(r, "greedy")
    check(f"{what} nsr {budget}",
          r["judged_nsr"] <= budget and r["deployed_nsr"] <= budget and error <= budget,
          r["chosen"], f"{error:.3g} on unseen samples, {r['mean_bits']:.2f} bits, greedy",
          greedy and f"{greedy['mean_bits']:.2f}")
    check(f"{what} nsr {budget}: greedy is not better than exact", r["chosen"] != "greedy")


def ranks(x):
    return np.argsort(np.argsort(x)).astype(float)


def check_gradients(snapshot, patch):
    """Errors from gradients, made without a run per group, order groups as measured."""
    words = "search", snapshot, "-d", CALIB, "--budget", "bits=6", "-o", patch
    measured, guessed = (answer(*words, *more)["sensitivities"]
                         for more in ([], ["--estimate", "gradient"]))
    for bits in ("4", "8"):
        pair = [[r["nsr_alone"] for r in rows if r["choice"] == bits]
                for rows in (measured, guessed)]
        same = np.corrcoef(*map(ranks, pair))[0, 1]
        ratio = np.median(np.array(pair[1]) / np.array(pair[0]))
        check(f"gradients rank groups at {bits} bits", same > 0.8 and 0.5 < ratio < 2,
              f"rank correlation {same:.2f}, median ratio {ratio:.2f}")
    check("all errors are from gradients",
          all(r["estimate"] == "gradient" for r in guessed if r["choice"] != "float"))


def check_readers(folder):
    """A value that each of its readers rounds on a grid of its own: a coarse one where it has
    next to no influence, a fine one where it has much.  An output that a reader quantizes."""
    rng = np.random.default_rng(0)
    constants = [numpy_helper.from_array((by * rng.normal(size=(8, 8))).astype("f4"), name)
                 for name, by in (("w", 1), ("large", 100))]
    x, z, s, y = (helper.make_tensor_value_info(n, 1, [1, 8]) for n in "xzsy")
    node = helper.make_node
    path, data = folder / "readers.onnx", folder / "readers.npz"
    graph = helper.make_graph(
        [node("MatMul", ["z", "large"], ["b"], name="mb"), node("Add", ["x", "b"], ["s"], name="s"),
         node("MatMul", ["x", "w"], ["y"], name="my")], "g", [x, z], [s, y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
              path)
    np.savez(data, **{n: rng.uniform(-1, 1, (32, 8)).astype("f4") for n in "xz"})
    for backend in ("int8-base", "ort-int8"):
        qg("quantize", path, "-b", backend, "-d", data, "-o", folder / "readers")
        found = [{(r["group"], r["choice"]): r["nsr_alone"] for r in answer(
            "search", folder / "readers", "-d", data, "--budget", "bits=8.5", "--choices",
            "6,8,12", "--estimate", how, "-o", folder / "p.yaml")["sensitivities"]
            if r["group"] == "x"} for how in ("measured", "gradient")]
        for key, measured in found[0].items():
            check(f"{backend}: gradients of {key}", 0.4 < found[1][key] / measured < 2.5,
                  measured, found[1][key])


def bounded(op, shared, path):
    """Three layers, each with constants of its own behind it, or all with the same ones."""
    rng = np.random.default_rng(0)
    nodes, constants, x = [], {"pads": np.array([0, 0, 0, 0, 0, 0, 1, 1])}, "x"
    bounds = {"Clip": {"lo": 0, "hi": 1}, "Pad": {"fill": 0}, "Max": {"least": 0.1}}[op]
    for k in range(3):
        constants[f"w{k}"] = rng.normal(0, 0.3, (8, 8, 3, 3)).astype("f4")
        names = [name if shared else f"{name}{k}" for name in bounds]
        constants.update(zip(names, map(np.float32, bounds.values())))
        nodes += [helper.make_node("Conv", [x, f"w{k}"], [f"c{k}"], f"conv{k}", pads=[1] * 4),
                  helper.make_node(op, [f"c{k}", *["pads"][:op == "Pad"], *names], [f"y{k}"],
                                   f"op{k}")]
        x = f"y{k}"
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 8, 8, 8])],
        [helper.make_tensor_value_info(x, 1, None)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()])
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), path)


def check_shared_bounds(folder):
    """Constants that exporters store once, Clip's limits and the value of Pad, have the grid
    of each layer and tie no layers together; with a budget of bytes activations stay."""
    model, data, snapshot, patch = (folder / n for n in (
        "bounds.onnx", "bounds.npy", "bounds", "bounds.yaml"))
    np.save(data, np.random.default_rng(1).normal(size=(32, 8, 8, 8)).astype("f4"))
    pairs = ("Clip", "trt-int8"), ("Pad", "tflite-int8")
    if EVERYTHING:
        pairs += ("Clip", "tflite-int8"), ("Pad", "trt-int8")
    for op, backend in pairs:
        found = {}
        for shared, budget in itertools.product((True, False), ("bits=6", "size=2kB")):
            bounded(op, shared, model)
            words = "quantize", model, "-b", backend, "-d", data, "-o"
            qg(*words, snapshot)
            r = answer("search", snapshot, "-d", data, "--budget", budget, "-o", patch)
            found[shared, budget] = r["groups"], r["nsr"], r["groups_left"]
            qg(*words, folder / "bounded", "--policy", patch)
            error = max(e["error"] for e in answer("analyse", folder / "bounded", "-d",
                                                   data)["errors"])
            size = answer("report", folder / "bounded", "-d", data, "-o",
                          folder / "bounds.html")["quantized_bytes"]
            check(f"bounds: {backend} {op} {budget}: as deployed", size == r["size"] and
                  abs(error / r["deployed_nsr"] - 1) < 1e-6, size, r["size"])
            if budget == "size=2kB":
                check(f"bounds: {backend} {op}: weights alone",
                      {g["group"] for g in r["groups"]} == {"w0", "w1", "w2"})
        check(f"bounds: {backend} {op}: shared as copied", len(found[True, "bits=6"][0]) == 7
              and all(found[True, b] == found[False, b] for b in ("bits=6", "size=2kB")))
    bounded("Max", True, model)
    qg("quantize", model, "-b", "tflite-int8", "-d", data, "-o", snapshot)
    r = answer("search", snapshot, "-d", data, "--budget", "size=2kB", "-o", patch)
    check("bounds: a constant on the grid of an activation is left",
          {g["group"] for g in r["groups"]} == {"w0", "w1", "w2"}, r["groups_left"])
    bounded("Clip", True, model)
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", snapshot)
    patch.unlink()
    qg("sensitivity", snapshot, "-d", data, "--propose", "0.003%", "-o", patch)
    check("bounds: a proposal does not name them", not re.search('"(lo|hi)"', patch.read_text()))


def check_size(folder):
    """Bytes of the weights as chosen; activations keep their bits; --holdout judges."""
    snapshot, patch = folder / "digits", folder / "size.yaml"
    r = answer("search", snapshot, "-d", CALIB, "--holdout", TEST, "--budget", "size=16kB",
               "--choices", "3,4,6,8", "-o", patch)
    model = onnx.load(snapshot / "model.onnx")
    constants = {t.name: int(np.prod(t.dims)) for t in model.graph.initializer}
    kept = sum(4 * n for t, n in constants.items()
               if t not in {g["group"] for g in r["groups"]} and "bias" in t)
    bits = sum(g["elements"] * int(g["choice"]) for g in r["groups"])
    check("size: bytes", bits / 8 <= r["size"] <= 16000 and r["judged_on"] == 599,
          r["size"], kept)
    check("size: weights alone", {g["kind"] for g in r["groups"]} == {"weight"})
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "--policy", patch, "-o",
       folder / "sized")
    tqcs = re.findall(r'"bits": (\d+)', (folder / "sized/quant.json").read_text())
    check("size: the policy has effect", {"3", "4", "6"} & set(tqcs))


def check_snapshot_wins(snapshot, folder):
    """Where the snapshot keeps the budget, nothing worse is written, and the policy that
    changes nothing can be applied."""
    patch, out = folder / "same.yaml", folder / "same"
    for budget in ("size=1MB", "bits=9"):
        r = answer("search", snapshot, "-d", CALIB, *FEW, "--budget", budget, "--choices",
                   "3,4", "-o", patch)
        check(f"snapshot wins: {budget}", r["chosen"] == "snapshot" and
              r["nsr"] < row(r, "exact")["nsr"] and {g["choice"] for g in r["groups"]} == {"8"},
              r["chosen"])
        qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "--policy", patch, "-o", out)
        check(f"snapshot wins: {budget}: nothing changes",
              len(answer("diff", snapshot, out).get("changes", [])) == 0)
    words = "search", snapshot, "-d", CALIB, *FEW, "-o", patch, "--budget"
    r = answer(*words, "nsr=5%", "--choices", "8,16")
    check("snapshot wins: as many bits", r["chosen"] == "snapshot" and r["mean_bits"] == 8
          and row(r, "exact")["mean_bits"] == 8, r["chosen"])
    r = answer(*words, "size=12kB")
    check("snapshot: beyond the budget it is no candidate", r["chosen"] != "snapshot")


def check_predicted(folder):
    """Groups that keep their bits are part of the prediction."""
    coarse = folder / "coarse"
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "--set", "slot=in0 bits=4", "--set",
       "slot=out0 bits=4", "-o", coarse)
    for more in ((), ("--estimate", "gradient")):
        r = answer("search", coarse, "-d", CALIB, *FEW, "--budget", "size=25kB", *more, "-o",
                   folder / "coarse.yaml")
        check("predicted: kept groups count", r["groups_left"] > 0 and
              0.3 < r["predicted"] / r["nsr"] < 3, r["predicted"], r["nsr"])


def check_fewest_bits(folder):
    """With a budget of noise: what fewer bits find keeps it not, or nearly as many are
    needed.  The table says of every policy why it is not the one."""
    model, data, snapshot, patch = (folder / n for n in (
        "few.onnx", "few.npy", "few", "few.yaml"))
    for seed, backend in ((306, "tflite-int8"), (311, "ort-int8")):
        network = Network(seed)
        network.save(model)
        np.save(data, network.samples(32))
        qg("quantize", model, "-b", backend, "-d", data, "-o", snapshot)
        words = "search", snapshot, "-d", data, "-o", patch, "--budget"
        r = answer(*words, "nsr=0.5%")
        fewer = answer(*words, f"bits={0.95 * r['mean_bits']}")
        most = max(fewer[n] + 3 * 2.14 * fewer[f"{n}_error"]
                   for n in ("judged_nsr", "deployed_nsr"))
        check(f"fewest bits: network {seed}: fewer do not keep the budget", most > 0.005,
              r["mean_bits"], f"{most:.3g}")
        results = {p["policy"]: p["result"] for p in r["policies"]}
        reason = re.compile(r"[0-9.e-]+ more bits|(judged up to|deployed up to|cross-validated) "
                            "[0-9.]+ %")
        check(f"fewest bits: network {seed}: results", results.pop(r["chosen"]) == "chosen"
              and all(x == "chosen" or reason.fullmatch(x) for x in results.values()), results)


def check_same_bytes(snapshot, patch):
    """For any number of threads; nothing is left beside the policy."""
    seen = set()
    for jobs in (1, 2, 3):
        page = qg("search", snapshot, "-d", CALIB, "-n", 16, "--budget", "nsr=0.5%", "-j",
                  jobs, "-o", patch)
        seen.add((page, patch.read_text()))
    check("same bytes for any number of threads", len(seen) == 1)
    check("trials leave no files", not list(patch.parent.glob("*trial*")))


FOUR = [w for op in ("Conv", "Gemm") for w in
        ("--set", f"op={op} slot=in1 bits=4 range=[-7,7]")]


def check_applied(what, folder, words, budget, *more):
    """The report's figures are those of the network that the policy makes: with the same
    options of quantize as before, and the bits are in the file."""
    snapshot, patch, out = (folder / n for n in ("before", "applied.yaml", "applied"))
    data = folder / "applied.npy"
    np.save(data, np.load(CALIB)[:64 if EVERYTHING else 16])
    quantize = "quantize", MODEL, "-b", "trt-int8", "-d", data, *words
    qg(*quantize, "-o", snapshot)
    r = answer("search", snapshot, "-d", data, "--budget", budget, "-o", patch, *more)
    qg(*quantize, "--policy", patch, "-o", out)
    error = max(e["error"] for e in answer("analyse", out, "-d", data)["errors"])
    check(f"{what}: as deployed", abs(error / r["deployed_nsr"] - 1) < 1e-6, f"{error:.3g}")
    q = json.loads((out / "quant.json").read_text())
    bits = {t["value"]: str(t["bits"]) for t in q["tqcs"]
            if t["state"] in ("ACTIVATED", "BAKED")}
    wrong = [g["group"] for g in r["groups"]
             if g["choice"] != bits.get(g["group"], g["choice"])]
    check(f"{what}: bits as chosen", not wrong, *wrong)
    return r, out, patch


def check_set_options(folder):
    """--set of the snapshot neither undoes the choices nor is lost."""
    r, _, patch = check_applied("set", folder, FOUR, "bits=12", "--choices", "8,16")
    check("set: an easy budget", r["deployed_nsr"] < 1e-3 and r["groups_left"] == 0)
    alone = folder / "alone"
    qg("quantize", MODEL, "-b", "trt-int8", "-d", folder / "applied.npy", "--policy", patch,
       "-o", alone)
    same = [(folder / n / "model.onnx").read_bytes() for n in ("alone", "applied")]
    check("set: the policy has the options", same[0] == same[1] and
          len(answer("diff", alone, folder / "applied").get("changes", [])) == 0)
    if EVERYTHING:
        check_applied("set, noise", folder, FOUR, "nsr=1%")
    r, _, _ = check_applied("set, other range", folder,
                            ["--set", "op=Conv slot=in1 bits=4 range=[-7,5]"], "bits=9")
    check("set: a range that bits do not tell is left", r["groups_left"] == 6,
          r["groups_left"])
    check_applied("set twice", folder, FOUR[2:] + FOUR[:2] + FOUR, "size=20kB")


def check_again(folder):
    """A second policy neither replaces rules of the first nor is undone by them."""
    _, _, first = check_applied("first", folder, [], "bits=9", "--choices", "8,16,float")
    kept = folder / "first.yaml"
    kept.write_text(first.read_text())
    r, _, second = check_applied("second", folder, ["--policy", kept], "bits=7",
                                 "--choices", "4,8")
    ids = [set(re.findall(r"- id: (\S+)", f.read_text())) for f in (kept, second)]
    check("second: rules of its own", ids[1] and not ids[0] & ids[1], *ids[1])
    for n, budget in enumerate(("bits=5", "bits=6")):  # two policies of one snapshot
        qg("search", folder / "before", "-d", CALIB, *FEW, "--budget", budget, "--choices", "4,8",
           "-o", folder / f"{n}.yaml")
    rules = [re.findall(r"- id: (\S+)\n    match:\n      value:\n((?:        - .*\n)*)",
                        (folder / f"{n}.yaml").read_text()) for n in (0, 1)]
    check("rules for other values have other ids", rules[0] and rules[1] and all(
        a != c or b == d for a, b in rules[0] for c, d in rules[1]), rules)
    check_applied("gptq", folder, ["--set", "trait=compute slot=in1 bits=4", "--set",
                                   "pass=gptq run=yes"], "bits=6", "--choices", "4,8")
    check_applied("split", folder, ["--set", "pass=weight-split run=yes threshold=0.3",
                                    "--set", "pass=channel-split run=yes"], "bits=6")


def check_proposal(folder):
    """--propose --raise-to on a snapshot whose bits are from --set."""
    snapshot, patch, out = (folder / n for n in ("before", "raise.yaml", "raised"))
    quantize = "quantize", MODEL, "-b", "trt-int8", "-d", CALIB, *FOUR
    qg(*quantize, "-o", snapshot)
    words = "sensitivity", snapshot, "-d", CALIB, "--propose", "1%", "--raise-to", 8, "-o"
    r = answer(*words, patch)
    qg(*quantize, "--policy", patch, "-o", out)
    error = max(e["error"] for e in answer("analyse", out, "-d", CALIB)["errors"])
    check("propose: raised above --set", r["error_with_proposal"] <= 0.01 > error / 1.2,
          f"{error:.3g}")
    qg(*words, folder / "none/p.yaml", fails="none/p.yaml: No such file")


def check_raised_biases(folder):
    """Biases of 32 bits are among the harmful rows: 16 bits are no more than these."""
    for backend in ("ort-int8", "tflite-int8"):
        snapshot, patch = (folder / f"{backend}{n}" for n in ("-biased", "-raise.yaml"))
        qg("quantize", MODEL, "-b", backend, "-d", CALIB, "-o", snapshot)
        for by in ((), ("--by", "endpoint")):
            r = answer("sensitivity", snapshot, "-d", CALIB, *by, "--propose", "0.02%",
                       "--raise-to", 16, "-o", patch)
            check(f"{backend} raised {by}", r["error_with_proposal"] <= 0.0002 and
                  "bias" not in patch.read_text(), r["error_with_proposal"])


def check_output_first(snapshot, folder):
    """A place that cannot be written is found before the search."""
    start = time.monotonic()
    qg("search", snapshot, "-d", CALIB, "--budget", "bits=6", "-o", folder / "none/p.yaml",
       fails="none/p.yaml: No such file")
    check("output first", time.monotonic() - start < 2)
    qg("search", snapshot, "-d", CALIB, "-n", 4, "--budget", "nsr=5%", "-o",
       folder / "few.yaml", warns="2 samples judge: whether the budget holds")
    qg("search", snapshot, "-d", CALIB, "-n", 4, "--budget", "bits=6", "-o",
       folder / "few.yaml", warns="2 samples judge: which policy is the best")


def check_rules(folder):
    """Against compare, with the rules switched off by patches that are files."""
    r = answer("search", MODEL, "-d", CALIB, "-b", "trt-int8", "--over", "rules",
               "--holdout", TEST)
    rows = {x["off"]: x for x in r["policies"]}
    alone = [k for k in rows if k != "none" and ", " not in k]
    pairs = {frozenset(p) for p in itertools.combinations(alone, 2)}
    check("rules: alone and in pairs",
          len(alone) == r["rules_acting"] > 2 and
          pairs == {frozenset(k.split(", ")) for k in rows if ", " in k})
    errors = [x["nsr"] for x in r["policies"]]
    check("rules: least noise first", errors == sorted(errors))
    for off in alone:
        for section in ("fusions", "sharing"):
            patch = folder / "off.yaml"
            patch.write_text(f"-{section}: [{off}]\n")
            try:
                c = answer("compare", MODEL, "-d", CALIB, "-b", "trt-int8", "--holdout",
                           TEST, "--policy", patch)
            except AssertionError:
                continue  # the rule is of the other kind
            one, x = c["variants"][1], rows[off]
            check(f"rules: without {off}",
                  (one["rounding_points"], one["requantizations"]) ==
                  (x["rounding_points"], x["requantizations"]) and
                  abs(c["errors"][1]["error"] / x["nsr"] - 1) < 1e-4 and
                  abs(x["nsr"] - rows["none"]["nsr"] - x["nsr_change"]) < 1e-12)
            break
        else:
            check(f"rules: {off} is a rule", False)


def check_unfit(folder):
    """A choice that some endpoints cannot have is left out for their groups alone."""
    zero = ("op=Conv slot=in0 policy=[per-tensor,linear,asymmetric] range=[0,255] "
            "observer=fixed step=0.05 zero=129")
    for backend, rule, choices, unfit, n in (
            ("trt-int8", zero, "4,8,16", {"4"}, 5),
            ("ncnn-int8", "op=Conv slot=in0 observer=ncnn-aciq", "4,8,12", {"12"}, 5),
            ("openvino-mixed-int8", "op=Conv slot=in0 observer=minmax", "4,8,18", {"18"}, 17)):
        for budget in ("bits=7", "nsr=5%") if EVERYTHING or backend == "trt-int8" else ("bits=7",):
            words = MODEL, "-b", backend, "-d", CALIB, "--set", rule
            qg("quantize", *words, "-o", folder / "unfit")
            search = ("search", folder / "unfit", "-d", CALIB, *FEW, "--budget", budget,
                      "--choices", choices, "-o", folder / "unfit.yaml")
            r = json.loads(qg(*search, "--json", warns=f"left out for {n} of "))
            seen = {(x["group"], x["choice"]) for x in r["sensitivities"]}
            bad = {(g["group"], g["choice"]) for g in r["groups"]} - seen
            if r["chosen"] == "snapshot":      # keeps bits that are no choice: 6 of ncnn
                bad = {b for b in bad if b[1] in choices.split(",")}
            count = {c: sum(x[1] == c for x in seen) for c in choices.split(",")}
            check(f"unfit: {backend} {budget}", r["choices_left_out"] == n and not bad and
                  {c for c in count if count[c] < r["groups_chosen"]} == unfit, count)
            qg("quantize", *words, "--policy", folder / "unfit.yaml", "-o", folder / "fits")


def check_holdout(snapshot, folder):
    """Samples that judge are refused as those that choose: with an infinity that is
    rounded."""
    x = np.load(TEST)[:32].astype("f4")
    x[7].flat[0] = np.inf
    np.save(folder / "inf.npy", x)
    says = "sample 7 of input 'image' has an infinity"
    more = "-d", CALIB, "--holdout", folder / "inf.npy"
    qg("search", snapshot, *more, "--budget", "bits=6", "-o", folder / "h.yaml", fails=says)
    qg("search", MODEL, "-b", "trt-int8", "--over", "rules", *more, fails=says)
    qg("search", snapshot, "-d", CALIB, "--holdout", CALIB, "--budget", "bits=6", "--choices",
       "4,8", "-o", folder / "h.yaml", warns="search: holdout 'configs/data/digits_calib.npy': "
       "has the samples of the data")


def check_repeats(snapshot, folder):
    """What has been seen does not judge: samples that are there twice, a holdout with the
    samples of the data in another order."""
    calib = np.load(CALIB)
    files = {"twice": np.repeat(calib[:32], 2, 0), "back": calib[::-1],
             "some": np.concatenate([calib[:10], np.load(TEST)[:40]]),
             "one": np.repeat(calib[:1], 32, 0), "once": calib[:32]}
    for name, x in files.items():
        np.save(folder / f"{name}.npy", x)
    words = ("--budget", "bits=6", "--choices", "4,8", "-o", folder / "r.yaml")
    twice, once = (answer("search", snapshot, "-d", folder / f"{n}.npy", *words)
                   for n in ("twice", "once"))
    check("repeats: each is one sample",
          twice["samples"] == twice["judged_on"] == once["judged_on"] == 16 and
          twice["judged_nsr"] == once["judged_nsr"] and
          twice["deployed_nsr_error"] > .9 * once["deployed_nsr_error"],
          twice["judged_nsr"], twice["deployed_nsr_error"], once["deployed_nsr_error"])
    qg("search", snapshot, "-d", folder / "twice.npy", *words,
       warns="samples: 32 of 64 are equal to an earlier one and do not judge")
    qg("search", snapshot, "-d", CALIB, "--holdout", folder / "back.npy", *words,
       warns="has the samples of the data")
    other = answer("search", snapshot, "-d", folder / "twice.npy", "--budget", "bits=6",
                   "--choices", "4,16", "-o", folder / "r.yaml")
    check("snapshot: predicted with its own bits alone", row(once, "snapshot")["predicted"] > 0
          and row(other, "snapshot")["predicted"] is None, row(other, "snapshot"))
    some = answer("search", snapshot, "-d", CALIB, "--holdout", folder / "some.npy", *words)
    check("repeats: others judge", some["judged_on"] == 40, some["judged_on"])
    qg("search", snapshot, "-d", folder / "one.npy", *words,
       fails="1 sample that is not a repeat, expected at least 2")
    qg("sensitivity", snapshot, "-d", folder / "twice.npy", "--propose", "5%", "-o",
       folder / "r.yaml", warns="propose: samples: 32 of 64 are equal to an earlier one")
    r = answer("search", MODEL, "-b", "trt-int8", "-d", folder / "twice.npy", "--over", "rules")
    check("repeats: rules", r["samples"] == r["measured_on"] == 16, r["measured_on"])


def check_deployed(folder):
    """One sample far out among those that judge widens all scales when it calibrates too."""
    x = np.load(CALIB).astype("f4")
    x[1] *= 30
    np.save(folder / "far.npy", x)
    qg("quantize", MODEL, "-b", "trt-int8", "-d", folder / "far.npy", "-o", folder / "far")
    qg("search", folder / "far", "-d", folder / "far.npy", "--budget", "bits=5", "-o",
       folder / "far.yaml", warns="quantized from all samples the nsr is")


def check_kept(folder):
    """A GRU that the backend leaves in float is in no group: told in bytes."""
    rng = np.random.default_rng(5)
    weights = [numpy_helper.from_array(rng.normal(0, 0.3, dims).astype("f"), name)
               for name, dims in (("w", (1, 24, 4)), ("r", (1, 24, 8)), ("head", (8, 3)))]
    info, node = helper.make_tensor_value_info, helper.make_node
    graph = helper.make_graph(
        [node("GRU", ["x", "w", "r"], ["", "h"], "gru", hidden_size=8),
         node("Flatten", ["h"], ["flat"], "flatten"),
         node("Gemm", ["flat", "head"], ["y"], "gemm")], "g",
        [info("x", TensorProto.FLOAT, [5, 1, 4])], [info("y", TensorProto.FLOAT, [1, 3])],
        weights)
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 14)]), folder / "g.onnx")
    np.save(folder / "g.npy", rng.normal(0, 1, (16, 5, 1, 4)).astype("f"))
    r = answer("quantize", folder / "g.onnx", "-b", "trt-int8", "-d", folder / "g.npy", "-o",
               folder / "g")
    check("kept: the node is named", r["float_compute_nodes"] == "1 of 2: gru (GRU)")
    words = "search", folder / "g", "-d", folder / "g.npy", "-o", folder / "g.yaml"
    qg(*words, "--budget", "bits=6", warns="search: 1152 of 1176 bytes of constants are in none "
       "of the groups and keep their type, expected less than half")
    r = answer(*words, "--budget", "bits=2", "--choices", "2,4")
    check("kept: bytes", r["size_kept"] == 1152 and r["size"] == 1152 + 6, r["size_kept"])


def check_bytes(folder):
    """search and report count the same bytes of constants, before and after."""
    sizes = []
    for backend in ("trt-int8", "fpga-int8", "tengine-int8"):
        words = "quantize", MODEL, "-b", backend, "-d", CALIB, "-o", folder / "bytes"
        qg(*words)
        r = answer("search", folder / "bytes", "-d", CALIB, *FEW, "--budget", "bits=5.5",
                   "--choices", "3,5,8", "-o", folder / "bytes.yaml")
        page = "report", folder / "bytes", "-d", CALIB, "-o", folder / "bytes.html"
        sizes.append((row(r, "snapshot")["size"], answer(*page)["quantized_bytes"]))
        qg(*words, "--policy", folder / "bytes.yaml")
        sizes.append((r["size"], answer(*page)["quantized_bytes"]))
    check("bytes of constants", all(a == b for a, b in sizes), *sizes)


def check_bytes_of_biases(folder):
    """A bias of 30 bits becomes float where its layer does: the budget counts that."""
    rng, node = np.random.default_rng(1), helper.make_node
    model, data, snapshot, patch = (folder / f"bias{n}" for n in (".onnx", ".npy", "", ".yaml"))
    constants = [numpy_helper.from_array(rng.normal(0, scale, dims).astype("f"), name)
                 for name, dims, scale in (("c", (256, 1, 1, 1), .5), ("cb", 256, .3),
                                           ("d", (4, 256, 1, 1), .1), ("db", 4, .1))]
    graph = helper.make_graph(
        [node("Conv", ["x", "c", "cb"], ["a"], "a"), node("Relu", ["a"], ["b"], "b"),
         node("Conv", ["b", "d", "db"], ["y"], "y")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), model)
    np.save(data, rng.normal(0, 1, (16, 1, 1, 4, 4)).astype("f"))
    words = "quantize", model, "-b", "nxp-int8", "-d", data
    qg(*words, "-o", snapshot)
    for budget in 3023, 3087, 5327, 5328:
        r = answer("search", snapshot, "-d", data, "--budget", f"size={budget}B", "--choices",
                   "8,float", "-o", patch)
        qg(*words, "--policy", patch, "-o", folder / "biased")
        size = answer("report", folder / "biased", "-d", data, "-o",
                      folder / "bias.html")["quantized_bytes"]
        check(f"bytes of biases: {budget}", size == r["size"] <= budget, size, r["size"])


def check_bytes_of_shared(folder):
    """A constant that is a bias and an operand of Add is stored as its first reader has it."""
    rng, node = np.random.default_rng(2), helper.make_node
    model, data, snapshot, patch = (folder / f"twice{n}" for n in (".onnx", ".npy", "", ".yaml"))
    constants = [numpy_helper.from_array(rng.normal(0, .3, dims).astype("f"), name)
                 for name, dims in (("w", (4, 400)), ("c", (400,)))]
    for first, backend in (("bias", "mnn-int8"), ("operand", "mnn-int8"), ("bias", "trt-int8")):
        bias = node("Gemm", ["x", "w", "c"], ["a"], "a")
        operand = node("Add", ["b", "c"], ["s"], "s")
        nodes = ([bias, node("Relu", ["a"], ["b"], "b"), operand, node("Relu", ["s"], ["y"], "y")]
                 if first == "bias" else
                 [node("MatMul", ["x", "w"], ["b"], "m"), operand,
                  node("MatMul", ["s", "v"], ["z"], "z"), node("Gemm", ["z", "w", "c"], ["y"])])
        more = [numpy_helper.from_array(rng.normal(0, .1, (400, 4)).astype("f"), "v")]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            constants + more * (first == "operand"))
        onnx.save(helper.make_model(graph, ir_version=8,
                                    opset_imports=[helper.make_opsetid("", 17)]), model)
        np.save(data, rng.normal(0, 1, (16, 4)).astype("f"))
        words = "quantize", model, "-b", backend, "-d", data
        qg(*words, "-o", snapshot)
        whole = answer("report", snapshot, "-d", data, "-o",
                       folder / "twice.html")["quantized_bytes"]
        for budget in f"size={whole * 9 // 10}B", f"size={whole}B", "bits=6":
            r = answer("search", snapshot, "-d", data, "--budget", budget, "-o", patch)
            qg(*words, "--policy", patch, "-o", folder / "shared")
            size = answer("report", folder / "shared", "-d", data, "-o",
                          folder / "twice.html")["quantized_bytes"]
            check(f"shared constant, {first} {backend} {budget}", size == r["size"] and
                  row(r, "snapshot")["size"] == whole, size, r["size"], whole)


def raised_network(seed, model, data):
    """A convolutional network whose errors of single groups say little of their sum."""
    rng, nodes, constants = np.random.default_rng(seed), [], []

    def add(op, inputs, output, *dims, **attributes):
        if dims:
            size = np.sqrt(np.prod(dims[1:]))
            constants.append(numpy_helper.from_array(rng.normal(0, 1 / size, dims).astype("f"),
                                                     f"k{len(constants)}"))
            inputs = [inputs, constants[-1].name]
        nodes.append(helper.make_node(op, [inputs] if isinstance(inputs, str) else inputs,
                                      [output], output, **attributes))
    width = int(rng.integers(6, 14))
    add("Conv", "x", "a", width, 1, 3, 3, pads=[1] * 4)
    add("Relu", "a", "b")
    add("Conv", "b", "d", width, 1, 3, 3, pads=[1] * 4, group=width)
    add("HardSwish", "d", "e")
    add("Conv", "e", "f", 2 * width, width, 1, 1)
    add("Relu", "f", "g")
    add("GlobalAveragePool", "g", "p")
    add("Flatten", "p", "q")
    add("Gemm", "q", "s", 2 * width, 24)
    add("Relu", "s", "t")
    add("Gemm", "t", "y", 24, 8)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), model)
    np.save(data, rng.normal(0, 1, (32, 1, 8, 8)).astype("f"))
    return [c.name for c in constants]


def check_single_raises(folder):
    """From a snapshot of 4 bits: no raise of a single weight within the budget has much less
    noise than what was chosen."""
    model, data, start = (folder / f"raised{n}" for n in (".onnx", ".npy", ""))
    four = "--set", "slot=weight bits=4 range=[-7,7]"
    for seed, budget in (19, 841), (33, 1110), (41, 783):
        weights = raised_network(seed, model, data)
        words = "quantize", model, "-b", "trt-int8", "-d", data, *four
        qg(*words, "-o", start)
        r = answer("search", start, "-d", data, "--budget", f"size={budget}B", "--choices",
                   "4,8", "-o", folder / "raised.yaml")
        best = np.inf
        for name in weights:
            qg(*words, "--set", f"value={name} bits=8 range=[-127,127]", "-o", folder / "one")
            size = answer("report", folder / "one", "-d", data, "-o", folder / "one.html")
            if size["quantized_bytes"] <= budget:
                best = min(best, *(e["error"] for e in answer(
                    "analyse", folder / "one", "-d", data)["errors"]))
        check(f"single raises {seed}", r["deployed_nsr"] < 1.1 * best, r["chosen"],
              r["deployed_nsr"], best)


def check_errors(snapshot, folder):
    words = "search", snapshot, "-d", CALIB, "-n", 4, "-o", folder / "no.yaml"
    for budget in ("nsr=", "bits=x", "speed=3", "size=1XB", "nsr=-1", "0.01"):
        qg(*words, "--budget", budget, fails="expected nsr=0.01 (or 1%), bits=6.0 or size=")
    for choices in ("8,4", "1,8", "8", "float", "4,,8", "4,float,8", "4,99"):
        qg(*words, "--budget", "bits=6", "--choices", choices, fails="expected rising bits")
    qg(*words, "--budget", "nsr=1", fails="is noise as large as the signal, expected less")
    qg(*words, "--budget", "bits=3", fails="begin at 4 bits, expected bits=4")
    least = re.search(r"expected (size=\d+B) or more", qg(*words, "--budget", "size=1kB", fails=(
        "bytes with the fewest bits, 616 of them in constants that keep their bits"))).group(1)
    qg(*words, "--budget", least, warns="2 samples judge")
    own = folder / "own.yaml"
    own.write_text(pathlib.Path("configs/backends/trt-int8.yaml").read_text())
    qg(*words, "--budget", "bits=6", "-b", own, warns="2 samples judge")
    (folder / "no.yaml").unlink()
    qg(*words, "--budget", "nsr=1e-9", "--choices", "2,3", fails="with the most bits")
    qg("search", snapshot, "-d", CALIB, "-n", 1, "--budget", "bits=6",
       fails="1 sample, expected at least 2")
    qg("search", MODEL, "-d", CALIB, "--budget", "bits=6",
       fails="is not quantized, expected with --budget a snapshot of qg quantize")
    qg(*words, status=2, fails="--budget (of a snapshot) or --over rules")
    qg("search", MODEL, "-d", CALIB, "--over", "rules", status=2,
       fails="takes MODEL.onnx and requires its --backend")
    qg("search", snapshot, "-d", CALIB, "--over", "rules", "-b", "trt-int8",
       fails="is a snapshot, expected with --over rules a model")
    for verb in (("search", "--budget", "bits=6"), ("sensitivity", "--propose", "1%")):
        qg(verb[0], snapshot, "-d", CALIB, "-n", 4, *verb[1:], "-b", "ort-int8", "-o",
           folder / "no.yaml", fails="backend 'ort-int8': the snapshot is quantized for "
           "trt-int8, expected that one or none; for ort-int8, make a snapshot of the model")
    check("a search that fails writes nothing", not (folder / "no.yaml").exists())


def main(networks=12 if EVERYTHING else 4, seed=0):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for k in range(int(seed), int(seed) + int(networks)):
            random_network(k, folder)
        snapshot, patch = folder / "digits", folder / "policy.yaml"
        qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", snapshot)
        check_gradients(snapshot, patch)
        check_readers(folder)
        check_shared_bounds(folder)
        check_size(folder)
        check_snapshot_wins(snapshot, folder)
        check_predicted(folder)
        check_fewest_bits(folder)
        check_set_options(folder)
        check_again(folder)
        check_proposal(folder)
        check_raised_biases(folder)
        check_output_first(snapshot, folder)
        check_same_bytes(snapshot, patch)
        check_unfit(folder)
        check_holdout(snapshot, folder)
        check_repeats(snapshot, folder)
        check_deployed(folder)
        check_kept(folder)
        check_bytes(folder)
        check_bytes_of_biases(folder)
        check_bytes_of_shared(folder)
        check_single_raises(folder)
        check_rules(folder)
        check_errors(snapshot, folder)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
