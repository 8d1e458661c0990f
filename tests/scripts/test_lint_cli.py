#!/usr/bin/env python3
"""`qg lint` in a pipeline: ids of patches, so that patches of several rounds stack; empty
patches; --fail-on; compute nodes in float; the codes that a constant of a file has."""
import json
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import yaml
    import test_lint as lint
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from test_lint import CLEAN, CONV, FAILED, FOUND, USAGE, conv, node, run, save


def report(what, target, *words, expect=None):
    done = run("lint", what, "--target", target, "--json", *words, expect=expect)
    if done.returncode not in (CLEAN, FOUND):
        raise AssertionError(done.stderr)
    return json.loads(done.stdout), done


def ids(patch):
    return [r["id"] for r in yaml.safe_load(patch.read_text())["rules"]]


def chained(path):
    """Convolutions with the largest weights, each behind a residual that makes it float
    until a patch makes its data unsigned."""
    save(path, [node("Conv", "x w b", "c", pads=[1] * 4), node("Relu", "c", "r"),
                node("Conv", "r w b", "d", pads=[1] * 4), node("Add", "d r", "s"),
                node("Conv", "s w b", "e", pads=[1] * 4), node("Add", "e s", "t"),
                node("Conv", "t w b", "y")],
         {"w": np.where(np.arange(144).reshape(4, 4, 3, 3) % 5, 1.0, -1.0), "b": (4,)})


ROUNDS = 6


def check_stacked_patches(suite):
    """A round finds what no round before it has mended, and the last one nothing to mend."""
    patches, known = [], set()
    for k in range(ROUNDS):
        words = [w for p in patches for w in ("--policy", p)]
        snapshot, model = suite.folder / f"round{k}", suite.folder / "chained.onnx"
        chained(model)
        run("quantize", model, "-b", "ort-int8", "-d", "random:4", "-o", snapshot, *words)
        patches.append(suite.folder / f"round{k}.yaml")
        report(snapshot, "ort", "--fix", "-o", patches[-1])
        again = suite.folder / "again.yaml"
        report(snapshot, "ort", "--fix", "-o", again)
        if again.read_bytes() != patches[-1].read_bytes():
            suite.bad.append(f"round {k}: the same patch twice differs")
        new = set(ids(patches[-1]))
        known |= new
        if not new:
            break
    if new or k < 2 or "lint-pair-saturation-y" not in known:
        suite.bad.append(f"{k} rounds, then {sorted(new)}, of {sorted(known)}")


# names of nodes: as they are, and with a hash where they are long, odd, or cut alike
NAMES = ["d1", "/layer1/layer1.0/conv1/Conv", "tf/conv:0", "a b", "a_b", "a-b", "a@b", "caf\u00e9",
         "caf\u00e8", "n" * 64, "n" * 65, "n" * 66, "'\"#: {", "in0@d1", "x\ny"]


def named(path):
    """A chain of convolutions with these names, also of their weights and outputs."""
    nodes, at = [], "x"
    for k, name in enumerate(NAMES):
        out = "y" if k == len(NAMES) - 1 else f"{name} out"
        one = node("Conv", f"x w{k}", out)
        one.input[0], one.name, at = at, name, out
        nodes.append(one)
    save(path, nodes, {f"w{k}": (4, 4, 1, 1) for k in range(len(NAMES))})


def check_names(suite):
    """One id per place; `qg quantize` takes the patch, and it mends all of them."""
    patch, snapshot = suite.folder / "named.yaml", suite.snapshot(named, "trt-int8", "op=Conv slot=weight bits=16 range=-32768,32767")
    report(snapshot, "tflite", "--fix", "-o", patch)
    found = ids(patch)
    if len(found) != len(set(found)) or len(found) < len(NAMES):
        suite.bad.append(f"{len(NAMES)} names: {found}")
    suite.snapshot(named, "trt-int8", policy=patch)
    patch = suite.folder / "floats.yaml"
    report(suite.snapshot(lint.heavy, "ort-int8"), "ort", "--fix", "-o", patch)
    if "lint-bias-overflow-c" not in ids(patch):
        suite.bad.append(f"a node: {ids(patch)}")


def check_nothing_to_mend(suite):
    """A patch without rules, with and without findings."""
    for network, backend, target, status in ((conv, "trt-int8", "trt", CLEAN),
                                             (lint.softplus, "ort-int8", "ncnn", None)):
        patch = suite.folder / "nothing.yaml"
        patch.write_text("rules: [old]")
        found, _ = report(suite.snapshot(network, backend), target, "--fix", "-o", patch, expect=status)
        if found["mended_by_patch"] == 0 and (ids(patch) or found["written"] != str(patch)):
            suite.bad.append(f"nothing to mend: {patch.read_text()}")
        suite.snapshot(network, backend, policy=patch)
        if status == CLEAN and (found["mended_by_patch"] or found["found"]):
            suite.bad.append(f"{target}: expected clean, {found}")


def products(path):
    """Three products, which ncnn-int8 leaves in float, and one convolution."""
    save(path, [node("Conv", "x w b", "c"), node("MatMul", "c v", "d"), node("MatMul", "d v", "e"),
                node("MatMul", "e v", "y")], {**CONV, "v": (6, 6)})


# snapshot, target, whether there are errors, warnings, notes; the exit status follows
LEVELS = [((conv, "trt-int8"), "trt", (0, 0, 0)),
          ((products, "ncnn-int8"), "ncnn", (0, 0, 3)),
          ((conv, "trt-int8"), "ort", (0, 1, 0)),
          ((lint.softplus, "tflite-int8"), "tflite", (1, 0, 0))]


def check_levels(suite):
    for (network, backend), target, some in LEVELS:
        snapshot = suite.snapshot(network, backend)
        for k, level in enumerate(("error", "warning", "note")):
            found, done = report(snapshot, target, "--fail-on", level)
            counts = found["errors"], found["warnings"], found["notes"]
            expected = FOUND if any(counts[:k + 1]) else CLEAN
            if [bool(n) for n in counts] != [bool(n) for n in some] or \
                    sum(counts) != found["found"] or done.returncode != expected:
                suite.bad.append(f"{target} --fail-on {level}: {done.returncode}, {counts}")
    said = run("lint", snapshot, "--target", "ort", "--fail-on", "fatal", expect=USAGE).stderr
    if "expected error, warning or note" not in said:
        suite.bad.append(f"--fail-on fatal: {said}")


def check_compute(suite):
    """Of 4 compute nodes 1 is integer: a warning, rows of the summary, a note for each."""
    found, done = report(suite.snapshot(products, "ncnn-int8"), "ncnn", expect=FOUND)
    where = [f["where"] for f in found["findings"] if f["rule"] == "float-compute"]
    if (found["compute_nodes"], found["integer_compute_nodes"], where) != (4, 1, ["d", "e", "y"]):
        suite.bad.append(f"compute nodes: {found}")
    if "1 of 4 compute nodes are integer for target ncnn (3: float in the snapshot)" not in done.stderr:
        suite.bad.append(f"a network in float: {done.stderr!r}")
    found, done = report(suite.snapshot(conv, "ncnn-int8"), "ncnn", expect=CLEAN)
    if done.stderr or (found["compute_nodes"], found["integer_compute_nodes"]) != (2, 2):
        suite.bad.append(f"a network in integers: {done.stderr!r}, {found}")


def check_codes(suite):
    """In a .tflite file limits are those of the type; a weight of it has other codes."""
    for words, fires in (((), False), (("op=Conv slot=weight range=-128,127",), True)):
        file = suite.folder / "codes.tflite"
        snapshot = suite.snapshot(conv, "tflite-int8", *words)
        run("export", snapshot, "--format", "tflite", "-o", file)
        for what in (snapshot, file):
            for target in ("tflite", "cmsis-nn", "xnnpack"):
                rules = suite.found(what, target)
                if ("weight-lowest-code" in rules) != fires:
                    suite.bad.append(f"{what.name} {target} {words}: {rules}")


def flattened(path):
    """Moves without a quantizer behind them in the file, which ONNX Runtime computes in
    float: it wants one on either side of a Flatten, not of a MaxPool."""
    save(path, [node("Conv", "x w b", "c"), node("MaxPool", "c", "p", kernel_shape=[2, 2]),
                node("Conv", "p v b", "d"), node("Flatten", "d", "f"), node("Gemm", "f g", "m"),
                node("Split", "m", "s"), node("Add", "s1 s2", "y")],
         {**CONV, "v": (4, 4, 1, 1), "g": (100, 8)})
    model = onnx.load(path)
    model.graph.node[5].output[:] = ["s1", "s2"]
    model.graph.node[5].attribute.append(onnx.helper.make_attribute("axis", 1))
    onnx.save(model, path)


def check_sentences(suite):
    """On the page a detail that several nodes have stands once, with the nodes below it; a row
    each in JSON."""
    what = suite.snapshot(lint.residual, "openvino-int8")
    found = report(what, "ort")[0]["findings"]
    page = " ".join(run("lint", what, "--target", "ort", expect=None).stdout.split())
    details = [(f["rule"], f["detail"]) for f in found if f["detail"]]
    if len(details) == len(set(details)):
        suite.bad.append(f"no detail twice: {details}")
    for _, detail in set(details):
        if page.count(detail) != len({r for r, d in details if d == detail}):
            suite.bad.append(f"{page.count(detail)} times: {detail}")
    suite.bad += [f"not on the page: {f['where']}" for f in found if f["where"] not in page]


def fates(what, target):
    return {n["node"]: n["fate"] for n in report(what, target)[0]["nodes"]}


FILES = [(b, "ort") for b in ("ort-int8", "trt-int8", "openvino-int8", "tflite-int8")]
FILES += [("trt-int8", "trt"), ("trt-qdq-int8", "trt"), ("openvino-int8", "openvino")]


def check_files(suite):
    """Of a file with quantizers lint tells what it does of the snapshot that it was made of; the
    file can have more nodes, Add for a bias in float."""
    for network in (flattened, lint.residual, lint.enlarged, lint.digits):
        for backend, target in FILES:
            snapshot, file = suite.snapshot(network, backend), suite.folder / "file.onnx"
            run("export", snapshot, "--format", "onnx-qdq", "--placement", target, "-o", file)
            of_file, of_snapshot = fates(file, target), fates(snapshot, target)
            if {n: of_file.get(n) for n in of_snapshot} != of_snapshot:
                suite.bad.append(f"{network.__name__} {backend} {target}: file {of_file}, "
                                 f"snapshot {of_snapshot}")
    kinds = fates(suite.snapshot(flattened, "ort-int8"), "ort")
    if (kinds["f"], kinds["m"], kinds["p"]) != ("blocked", "blocked", "moves"):
        suite.bad.append(f"flattened: {kinds}")


def check_moved_codes(suite):
    """A patch to symmetric codes observes a fixed grid of which they cover less: zero 201
    of [0, 255] becomes 0 of [-128, 127]; 129 loses one code."""
    model = suite.folder / "moved.onnx"
    conv(model)
    for zero, observed in (129, False), (201, True), (57, True):
        snapshot, patch = suite.folder / f"moved{zero}", suite.folder / f"moved{zero}.yaml"
        run("quantize", model, "-b", "trt-int8", "-d", "random:4", "-o", snapshot, "--set",
            "op=Conv slot=input policy=per-tensor,linear,asymmetric range=0,255 "
            f"observer=fixed step=0.01 zero={zero}")
        report(snapshot, "trt", "--fix", "-o", patch)
        rules = [r["set"] for r in yaml.safe_load(patch.read_text())["rules"]]
        symmetric = [r for r in rules if "symmetric" in r.get("policy", [])]
        if not symmetric or any(("observer" in r) != observed for r in symmetric):
            suite.bad.append(f"zero {zero}: {rules}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        suite = lint.Suite(folder)
        checks = [check for name, check in sorted(globals().items()) if name.startswith("check_")]
        for check in checks:
            try:
                check(suite)
            except AssertionError as error:
                suite.bad.append(f"{check.__name__}: {error}")
        print(*suite.bad, sep="\n")
        print(f"{len(checks)} checks, {len(suite.bad)} failures")
    return len(suite.bad) > 0


if __name__ == "__main__":
    sys.exit(main())
