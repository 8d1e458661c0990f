#!/usr/bin/env python3
"""qg tune on the demo network with weights of 4 bits: every method helps on samples that it
has not seen, lsq and adaquant halve the noise; the float network stays what it was; files
do not depend on a repetition or on threads; what a backend does not allow does not change."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
import control_networks
from command import EVERYTHING, QG, answer, qg

MODEL = "configs/models/digits.onnx"
CALIB, TEST, LABELS = (f"configs/data/digits_{n}.npy" for n in ("calib", "test", "labels"))
BITS = [word for op in ("Conv", "Gemm")
        for word in ("--set", f"op={op} slot=in1 bits=4 range=[-7,7]")]
MOST = {"lsq": 0.4, "adaquant": 0.4, "adaround": 0.3, "brecq": 0.4, "bias": 0.6}
FEW = [] if EVERYTHING else ["--steps", 150]
LINES = {"float_top1", "simulated_top1", "agreement"}


def noise(snapshot):
    return answer("analyse", snapshot, "-d", TEST)["errors"][0]["error"]


def hashes(folder):
    return [hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in ("model.onnx", "quant.json")]


def records(folder):
    return json.loads((folder / "quant.json").read_text())


def test_methods(root, four):
    before = noise(four)
    top1 = answer("evaluate", four, "-d", TEST, "--labels", LABELS)["float_top1"]
    for method, most in MOST.items():
        out = root / method
        report = answer("tune", four, "-d", CALIB, "--method", method, "-o", out)
        share = noise(out) / before
        print(f"{method}: {share:.2f} of the noise, {report['better_blocks']}")
        assert share <= most, (method, share)
        assert report["after"] < report["before"]
        got = answer("evaluate", out, "-d", TEST, "--labels", LABELS)
        assert got["float_top1"] == top1, "the float network changed"


def test_repeated(root, four):
    """The same bytes; a second tuning refers to the same float network."""
    words = ["tune", four, "-d", CALIB, "--steps", 40]
    for name, more in {"once": [], "again": [], "jobs": ["-j2"], "seed": ["--seed", 2]}.items():
        qg(*words, *more, "-o", root / name)
    assert hashes(root / "once") == hashes(root / "again") == hashes(root / "jobs")
    assert hashes(root / "once") != hashes(root / "seed")
    twice = answer("tune", root / "lsq", "-d", CALIB, "--method", "bias", "-o", root / "twice")
    once = answer("tune", four, "-d", CALIB, "--method", "lsq", "-o", root / "x")
    assert abs(twice["before"] - once["after"]) <= 1e-9 + 1e-3 * once["after"], (twice, once)


def test_bodies(root):
    """Two samples at a time go through the same If, Loop and Scan: the bytes of one at a time,
    however the threads meet."""
    data = root / "data.npy"
    for name in control_networks.write(root):
        start = root / f"{name}-start"
        qg("quantize", root / f"{name}.onnx", "-b", "trt-int8", "-d", data, *BITS[2:], "-o", start)
        seen = []
        for turn, threads in enumerate([1] + [2] * (20 if EVERYTHING else 6)):
            out = root / f"{name}-{turn}"
            report = answer("tune", start, "-d", data, "--steps", 50, f"-j{threads}", "-o", out)
            seen.append((report, report["changed"] and hashes(out)))
            assert seen[turn] == seen[0], (name, seen)


def exports(root):
    """A folder for each format that the tuned network can be exported to."""
    formats = [f["format"] for f in answer("list", "formats")["formats"] if f["export"] == "yes"]
    for name in formats:
        (root / "exports" / name).mkdir(parents=True)
        start = root / "lsq"
        if name == "tflite":  # an average has the grid of its input there
            start = root / "lsq-tflite"
            qg("quantize", MODEL, "-b", "tflite-int8", "-d", CALIB, *BITS, "-o", root / "tflite")
            qg("tune", root / "tflite", "-d", CALIB, "--steps", 40, "-o", start)
        qg("export", start, "--format", name, "-o", root / "exports" / name / f"x.{name}")
    return formats


def changes_of(first, second):
    run = subprocess.run([QG, "diff", first, second, "--json"], capture_output=True, text=True)
    assert run.returncode == 3, run.stderr
    return json.loads(run.stdout)


def test_files(root):
    """The untuned weights are in the snapshot and in no export, whatever its format."""
    names = {i.name for i in onnx.load(root / "lsq" / "model.onnx").graph.initializer}
    untuned = {n for n in names if n.endswith(".untuned")}
    assert untuned and {n.removesuffix(".untuned") for n in untuned} <= names
    changes = changes_of(root / "four", root / "lsq")
    assert {c["constant"] for c in changes["constants"]} == {
        n.removesuffix(".untuned") for n in untuned}, changes["constants"]
    assert changes["constants_changed"] == len(untuned) and "note" not in changes, changes
    assert changes["same_structure"] and not changes["same_constants"], changes
    rounded = changes_of(root / "four", root / "adaround")
    assert rounded["scales_changed"] == 0 < rounded["constants_changed"], rounded
    assert all(0 < c["changed"] <= c["elements"] and 0 < c["difference"] < 0.5
               for c in rounded["constants"]), rounded
    exported = exports(root)
    assert len(exported) >= 20, exported
    for path in (p for name in exported for p in (root / "exports" / name).iterdir()):
        assert b".untuned" not in path.read_bytes(), path
        if path.name == "x.onnx":
            assert {i.name for i in onnx.load(path).graph.initializer} == names - untuned, path
    by = {e["by"] for e in records(root / "lsq")["journal"]} if "journal" in records(
        root / "lsq") else {"tune/lsq"}
    assert "tune/lsq" in by


def test_origins(root):
    """Every endpoint whose constant or step was learned has method, block and losses."""
    for method, fields in (("lsq", {"weight", "bias", "scale"}), ("adaround", {"rounding"}),
                           ("brecq", {"rounding", "bias", "scale"}), ("bias", {"bias"})):
        report = answer("explain", root / method, "conv0")
        mine = [c for c in report["changes"] if c["by"] == f"tune/{method}"]
        assert fields <= {c["field"] for c in mine}, (method, mine)
        losses = {c["endpoint"]: c for c in mine if c["field"] == "loss"}
        assert losses.keys() == {c["endpoint"] for c in mine}, (method, mine)
        for c in losses.values():
            before, block = c["old"].split(" in block ")
            assert block == "conv0" and float(c["new"]) < float(before), (method, c)
        bias = answer("explain", root / method, "conv0_bias_0")["changes"]
        assert any(c["field"] == "bias" for c in bias) == ("bias" in fields), (method, bias)


def test_search_warns(root):
    qg("search", root / "lsq", "-d", CALIB, "-n", 8, "--budget", "bits=6", "-o", root / "policy.yaml",
       warns="the snapshot is tuned, and trials begin with the network before that")
    qg("switch", root / "four", "--set", "node=conv2 state=dequantized", "-o", root / "off")
    qg("search", root / "off", "-d", CALIB, "-n", 8, "--budget", "bits=8", "-o", root / "policy.yaml",
       warns="the snapshot is switched")
    qg("export", root / "four", "--format", "aimet", "-o", root / "aimet.json")
    qg("import", root / "aimet.json", "--format", "aimet", "--model", MODEL, "-o", root / "aimet")
    qg("search", root / "aimet", "-d", CALIB, "--budget", "bits=8", "-o", root / "policy.yaml",
       fails="the snapshot is imported from aimet")
    qg("export", root / "four", "--format", "ppq-json", "-o", root / "ppq.json")
    qg("import", root / "ppq.json", "--format", "ppq-json", "--model", root / "four" / "model.onnx",
       "-o", root / "ppq")
    qg("search", root / "ppq", "-d", CALIB, "--budget", "bits=8", "-o", root / "policy.yaml",
       fails="which says nothing of how to quantize the network once more")


def test_nothing_gained(root, four):
    """Steps that are far too wide: the start is written, also where a snapshot was."""
    out = root / "worse"
    shutil.copytree(root / "lsq", out)
    report = answer("tune", four, "-d", CALIB, "--lr", 1000, "--steps", 5, "-o", out)
    assert report["changed"] is False and "stays as it was" in report["why"], report
    assert hashes(out) == hashes(four), report
    assert all(b["verdict"] == "left as it was" for b in report["blocks"]), report


def test_written_again(root):
    """A snapshot of a network that got a value between others, as metax-int8-t gives a product and
    its sum: nothing gained writes the same bytes again."""
    x, model, start, out = (root / f"again{end}" for end in (".npy", ".onnx", "", "-tuned"))
    rng = np.random.default_rng(2)
    np.save(x, rng.normal(0, 1, (6, 1, 8)).astype("f4"))
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node("Gemm", ["x", "w", "b"], ["g"], "first"), node("Relu", ["g"], ["r"], "relu"),
         node("Gemm", ["r", "v"], ["y"], "second")], "again",
        [value("x", 1, [1, 8])], [value("y", 1, [1, 3])],
        [onnx.numpy_helper.from_array(rng.normal(0, 1, d).astype("f4"), n)
         for n, d in (("w", (8, 6)), ("b", (6,)), ("v", (6, 3)))])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)],
                                     ir_version=8), model)
    qg("quantize", model, "-b", "metax-int8-t", "-d", x, "-o", start)
    shutil.copytree(start, out)
    report = answer("tune", start, "-d", x, "--lr", 1000, "--steps", 5, "-o", out)
    assert report["changed"] is False and hashes(out) == hashes(start), report


def test_mistakes(root, four):
    qg("tune", four, "-d", CALIB, "--method", "magic", "-o", root / "m",
       fails="method 'magic': expected one of lsq, adaquant, adaround, brecq, bias")
    qg("tune", four, "-d", CALIB, "--block", "conv9", "-o", root / "m",
       fails="block 'conv9': there is none, expected the first compute node of a block: conv0")
    for rate in ("0", "-1", "1e9", "1e300", "inf", "nan"):
        qg("tune", four, "-d", CALIB, "--lr", rate, "-o", root / "m", status=2,
           fails=f"--lr: '{rate}', expected a number above 0 and below 1e9")
    for method in ("adaround", "bias"):
        qg("tune", four, "-d", CALIB, "--method", method, "--gradient", "lsq", "-o", root / "m",
           fails=f"gradient lsq: method {method} learns no step sizes, expected no gradient, or a "
                 "method that does: lsq, adaquant, brecq")
    refused = answer("tune", four, "-d", CALIB, "--loss", "labels", "--labels",
                     root / "zeros.npy", "--method", "bias", "--lr", 1e-7, "--steps", 20, "-o",
                     root / "few")
    # the block itself is left as it was: no top-1 of what it had learned is known
    assert refused["changed"] is False and "top1_learned" not in refused, refused
    qg("tune", four, "-d", CALIB, "--loss", "labels", "-o", root / "m",
       fails="loss labels: there are none, expected --labels FILE")
    qg("tune", four, "-d", CALIB, "--labels", LABELS, "-o", root / "m",
       fails="loss blocks does not read them, expected --loss labels")
    for same in (four, f"{four}/", four / "../four"):
        qg("tune", four, "-d", CALIB, "--steps", 1, "-o", same,
           fails="it is the snapshot that is tuned, expected another folder")
    qg("tune", MODEL, "-d", CALIB, "-o", root / "m", fails="is not quantized")
    only = answer("tune", four, "-d", CALIB, "--block", "conv3", "--steps", 20, "-o", root / "o")
    assert [b["block"] for b in only["blocks"]] == ["conv3"], only


def test_few(root, four):
    """Fewer than four samples judge what they taught, which is said; so is that fewer than four
    judge; a tenth of the steps that has none has no loss."""
    for n, says in ((1, "1, which teach"), (3, "3, which teach"), (4, "4, of which 1 judges"),
                    (15, "15, of which 3 judge:"), (16, None)):
        words = [QG, "tune", four, "-d", CALIB, "-n", n, "--steps", 3, "--json", "-o", root / "few"]
        run = subprocess.run([*map(str, words)], check=True, capture_output=True, text=True)
        report = json.loads(run.stdout)
        assert bool(says) == ("warning: tune: samples: " in run.stderr), (n, run.stderr)
        assert not says or f"samples: {says}" in run.stderr, (n, run.stderr)
        assert (n < 4) == report["judged_on"].startswith("the samples that taught"), report
    curve = report["curves"][0]
    assert curve["20%"] is None and curve["70%"] is not None, curve


def test_stops_early(root, four):
    """Eight samples and many large steps, without what keeps them from being learned by heart:
    where the samples held back lose, learning ends, and the result is that of an earlier tenth,
    the same for one thread and two."""
    words = ["tune", four, "-d", CALIB, "-n", 8, "--steps", 8000, "--no-mixup"]
    one, two = (answer(*words, "--optimizer", "sgd", "--lr", 1, f"-j{j}", "-o", root / f"stops{j}")
                for j in (1, 2))
    assert one == two and hashes(root / "stops1") == hashes(root / "stops2")
    stopped = [c["block"] for c in one["curves"] if c["100%"] is None]
    print("stops early:", stopped, one["before"], one["after"])
    assert stopped and one.get("learned", one["after"]) < 0.4 * one["before"], one
    rounded = answer(*words, "--method", "adaround", "--block", "conv0", "-o", root / "stops")
    assert rounded["curves"][0]["100%"] is not None, rounded


def noise_held_back(root, snapshot):
    """Of the worst output, computed by definitions: the mean over every fourth sample."""
    np.save(root / "held.npy", np.load(CALIB)[3::4])
    runs = {}
    for mode in ("float", "simulate"):
        found = answer("run", snapshot, "-d", root / "held.npy", "--mode", mode, "--kernels",
                       "reference", "-o", root / f"held-{mode}")["outputs"]
        runs[mode] = [np.load(o["file"]).astype("f8") for o in found]
    return max(np.mean([np.square(g - r).sum() / (np.square(r).sum() + 1e-7)
                        for g, r in zip(got, real)])
               for got, real in zip(runs["simulate"], runs["float"]))


def test_judged(root):
    """What is judged is what the snapshot computes, also where scales of biases follow those
    that another block has learned.  Each backend with two methods, QG_ALL=1: with four."""
    for turn, backend in enumerate(("tflite-int8", "xnnpack-int8", "ort-int8", "nxp-int8")):
        start = root / f"judged-{backend}"
        qg("quantize", MODEL, "-b", backend, "-d", CALIB, *BITS, "-o", start)
        methods = (("lsq", FEW), ("adaquant", ["--steps", 200]),
                   ("brecq", ["--steps", 100]), ("lsq", ["--gradient", "lsq-plus", *FEW]))
        for method, more in methods if EVERYTHING else methods[turn % 2::2]:
            out = root / f"judged-{backend}-{method}{len(more)}"
            report = answer("tune", start, "-d", CALIB, "--method", method, *more, "-o", out)
            for when, folder in (("before", start), ("after", out)):
                own = noise_held_back(root, folder)
                assert abs(report[when] / own - 1) < 1e-5, (backend, method, when, report, own)


def test_holdout(root, four):
    """Samples that neither calibrated nor taught judge: before and after are what `qg analyse`
    shows on them, all of DATA teaches, and the bytes do not depend on threads."""
    words = ["tune", four, "-d", CALIB, "--holdout", TEST, "--steps", 100]
    one, two = (answer(*words, f"-j{j}", "-o", root / f"holdout{j}") for j in (1, 2))
    assert one == two and hashes(root / "holdout1") == hashes(root / "holdout2")
    assert one["samples"] == 64 and one["judged_on"] == "599 samples of the holdout", one
    for when, folder in (("before", four), ("after", root / "holdout1")):
        shown = answer("analyse", folder, "-d", TEST, "--kernels", "reference")
        assert abs(one[when] / shown["errors"][0]["error"] - 1) < 1e-5, (when, one, shown)
    np.save(root / "pupils.npy", np.load(TEST)[:3])
    run = subprocess.run([QG, "tune", four, "-d", root / "pupils.npy", "--holdout", CALIB,
                          "--steps", "20", "-o", root / "m"], check=True, capture_output=True,
                         text=True)
    assert "warning" not in run.stderr, "64 judge"
    run = subprocess.run([QG, "tune", four, "-d", CALIB, "--holdout", root / "pupils.npy",
                          "--steps", "20", "-o", root / "m"], check=True, capture_output=True,
                         text=True)
    assert "tune: holdout: 3 samples: the result may not hold on others" in run.stderr, run
    shutil.rmtree(root / "m")
    np.save(root / "wide.npy", np.zeros((4, 1, 9, 9), "f4"))
    qg(*words[:4], "--holdout", root / "wide.npy", "-o", root / "m", fails="wide.npy")
    qg(*words[:4], "--holdout", root / "none.npy", "-o", root / "m", fails="none.npy")
    assert not (root / "m").exists() and not (root / "m.part").exists()


def test_holdout_is_data(root, four):
    """A holdout that is the data, by name, by another name or as a copy, is warned of."""
    copy, link = root / "copy.npy", root / "link.npy"
    shutil.copy(CALIB, copy)
    link.symlink_to(pathlib.Path(CALIB).resolve())
    folder, other = root / "samples", root / "copies"
    for to in (folder, other):
        to.mkdir()
        shutil.copy(CALIB, to / "x.npy")
    says = "which cannot judge what was made from them, expected others"
    for data, holdout, seen in ((CALIB, CALIB, True), (CALIB, copy, True), (CALIB, link, True),
                                (folder, folder, True), (folder, other, True),
                                (CALIB, TEST, False), (TEST, CALIB, False)):
        run = subprocess.run([QG, "tune", four, "-d", data, "--holdout", holdout, "--steps", "2",
                              "--block", "gemm0", "-o", root / "same"], check=True,
                             capture_output=True, text=True)
        assert (says in run.stderr) == seen, (data, holdout, run.stderr)
    qg("tune", four, "-d", CALIB, "-n", 20, "--holdout", CALIB, "--steps", 2, "--block", "gemm0",
       "-o", root / "same", warns="samples: 20 of 84 are equal to an earlier one")
    shutil.rmtree(root / "same")
    images = np.load(CALIB)
    np.save(root / "mixed-up.npy", np.concatenate([images[:40][::-1], np.load(TEST)[:8]]))
    words = ["tune", four, "-d", CALIB, "--holdout", root / "mixed-up.npy", "--steps", 2,
             "--block", "gemm0", "-o", root / "same"]
    assert answer(*words)["judged_on"] == "8 samples of the holdout"
    qg(*words, warns="samples: 40 of 112 are equal to an earlier one and are left out")


def test_equal_samples(root, four):
    """Samples that are equal, in -d, to an earlier one neither teach nor judge: the result is
    that of the samples without them, also of classes; all equal, it is one sample."""
    images, classes = np.load(TEST)[:24], np.load(LABELS)[:24]
    twice = np.repeat(np.arange(24), 4)
    for name, order in (("once", np.arange(24)), ("twice", twice), ("one", [0] * 24)):
        np.save(root / f"{name}.npy", images[order])
        np.save(root / f"{name}-labels.npy", classes[order])
    for method, *more in (("lsq",), ("brecq",), ("lsq", "--loss", "labels")):
        reports = []
        for name in ("once", "twice"):
            labels = ["--labels", root / f"{name}-labels.npy"] if more else []
            words = ["tune", four, "-d", root / f"{name}.npy", "--method", method, *more, *labels,
                     "--steps", 240, "-o", root / name]
            if name == "twice":
                qg(*words, warns="samples: 72 of 96 are equal to an earlier one and are left out")
            reports.append(answer(*words))
        assert reports[0] == reports[1] and reports[0]["samples"] == 24, reports
        assert hashes(root / "once") == hashes(root / "twice")
    qg("tune", four, "-d", root / "one.npy", "--steps", 2, "-o", root / "one",
       warns="samples: 1, which teach and judge")
    classes[5] = 10
    np.save(root / "wrong.npy", classes[twice])
    qg("tune", four, "-d", root / "twice.npy", "--loss", "labels", "--labels", root / "wrong.npy",
       "-o", root / "m", fails=".npy: sample 20: is 10, expected one of the 10 classes")


def test_divergence(root, four):
    """A learning rate beyond all reason is warned of, with one that is not."""
    for method, usual in (("lsq", "0.0075"), ("bias", "0.1"), ("adaround", "0.1")):
        for rate in ("1e6", None):
            run = subprocess.run([QG, "tune", four, "-d", CALIB, "--method", method, "--steps",
                                  "60", *(["--lr", rate] if rate else []), "-o",
                                  root / "diverged"], check=True, capture_output=True, text=True)
            said = re.findall(r"learning rate 1e\+06: (\d+) of \d+ blocks diverged, expected "
                              rf"about {usual}\n", run.stderr)
            assert len(said) == (rate is not None), (method, rate, run.stderr)
            assert rate or "diverged" not in run.stderr, run.stderr
    shutil.rmtree(root / "diverged")


def test_beyond_float32(root):
    """Steps that grow until their range, or they themselves, leave float32: the block has
    diverged and stays."""
    node, rng, out = onnx.helper.make_node, np.random.default_rng(0), root / "beyond-out"
    info = [onnx.helper.make_tensor_value_info(n, 1, [1, 8]) for n in ("x", "y")]
    constants = {"w": rng.normal(size=(8, 8)), "k": np.array(2e37), "c": rng.normal(size=8) * 2e37}
    nodes = [node("MatMul", ["x", "w"], ["a"], name="product"),
             node("Mul", ["a", "k"], ["b"], name="large"),
             node("Add", ["b", "c"], ["y"], name="sum")]
    graph = onnx.helper.make_graph(nodes, "g", info[:1], info[1:], [
        onnx.numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)],
                                     ir_version=8), root / "beyond.onnx")
    np.save(root / "beyond.npy", rng.normal(size=(16, 1, 8)).astype(np.float32))
    for bits in (3, 8):
        qg("quantize", root / "beyond.onnx", "-b", "openvino-int8", "-d", root / "beyond.npy",
           "--set", f"node=sum slot=out0 bits={bits}", "-o", root / "beyond")
        for gradient in ("lsq", "pact", "nncf", "nncf-exact", "nncf-asymmetric"):
            for rate in (0.1, 1):
                qg("tune", root / "beyond", "-d", root / "beyond.npy", "--loss", "mse",
                   "--gradient", gradient, "--lr", rate, "--steps", 1000, "-o", out,
                   warns="1 of 1 blocks diverged")
                assert hashes(out) == hashes(root / "beyond"), (bits, gradient, rate)


def test_not_finite(root):
    """A probability that is rounded to 0 gives 0 log 0 = NaN: that is no noise of 0."""
    node, rng = onnx.helper.make_node, np.random.default_rng(0)
    info = [onnx.helper.make_tensor_value_info(n, 1, [1, 6, 8]) for n in ("x", "y")]
    weight = onnx.numpy_helper.from_array((3 * rng.normal(size=(8, 8))).astype("f4"), "w")
    graph = onnx.helper.make_graph(
        [node("MatMul", ["x", "w"], ["a"], name="a"), node("Softmax", ["a"], ["p"], name="p"),
         node("Log", ["p"], ["log"], name="log"), node("Mul", ["p", "log"], ["e"], name="e"),
         node("MatMul", ["e", "w"], ["y"], name="y")], "g", info[:1], info[1:], [weight])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)],
                                     ir_version=8), root / "zero.onnx")
    np.save(root / "zero.npy", rng.normal(size=(16, 1, 6, 8)).astype("f4"))
    qg("quantize", root / "zero.onnx", "-b", "int8-base", "-d", root / "zero.npy", "--set",
       "node=e platform=fp32", "-o", root / "zero")
    shown = answer("analyse", root / "zero", "-d", root / "zero.npy")["errors"][0]["error"]
    assert shown is None, "the network of this test has NaN"
    report = answer("tune", root / "zero", "-d", root / "zero.npy", "--steps", 20, "-o",
                    root / "zero-tuned")
    assert report["before"] is None, report
    text = subprocess.run([QG, "tune", root / "zero", "-d", root / "zero.npy", "--steps", "20",
                           "-o", root / "zero-tuned"], check=True, capture_output=True,
                          text=True).stdout
    assert "before         nan %" in text, text
    qg("search", root / "zero", "-d", root / "zero.npy", "--budget", "bits=5", "--choices", "4,8",
       "-o", root / "zero.yaml", fails="are NaN or infinite on some sample, expected another budget")
    assert not (root / "zero.yaml").exists()


def test_infinity(root, four):
    """An infinity that reaches an output is named, whether its sample teaches or judges."""
    for sample in (3, 4):
        data = np.load(CALIB)
        data[sample].flat[0] = np.inf
        np.save(root / "infinity.npy", data)
        qg("tune", four, "-d", root / "infinity.npy", "--steps", 2, "-o", root / "m",
           fails=f"sample {sample}: the float network gives NaN or infinity at its output")
        assert not (root / "m").exists()
        assert len([*(root / "m.part").iterdir()]) >= 1, "the blocks that were learned"
        shutil.rmtree(root / "m.part")
    data[0].flat[0] = np.nan
    np.save(root / "nan.npy", data)
    qg("tune", four, "-d", root / "nan.npy", "--steps", 2, "-o", root / "m", fails="NaN")
    assert not (root / "m.part").exists(), "nothing was learned"
    data[0] = np.inf
    np.save(root / "infinity.npy", data)
    for loss in ("kd", "mse"):
        qg("tune", four, "-d", root / "infinity.npy", "--loss", loss, "-o", root / "m",
           fails="gives NaN or infinity at its output")


def error_of_weights(path, model, name):
    """Squared error of the float weights of a record's node on its scales, codes -7 to 7."""
    [record] = [t for t in records(path)["tqcs"] if t["value"] == name]
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    w = weights[name].reshape(len(weights[name]), -1).astype("f8")
    scale = np.array(record["scale"], "f8").reshape(-1, 1)
    assert len(scale) in (1, len(w)), record
    return np.square(w - scale * np.clip(np.rint(w / scale), -7, 7)).sum(axis=1)


def test_grids(root, four):
    """Scales of weights start with less squared error of the weights; roundings are learned on
    the calibrated scales."""
    model, error = onnx.load(four / "model.onnx"), {}
    names = [n.input[1] for n in model.graph.node if n.op_type == "Conv"]
    for method, steps, rate in (("adaround", 200, 0.02), ("lsq", 5, 1e-4)):
        qg("tune", four, "-d", CALIB, "--method", method, "--steps", steps, "--lr", rate,
           "-o", root / f"grids-{method}")
    for path in (four, root / "grids-adaround", root / "grids-lsq"):
        error[path.name] = sum(error_of_weights(path, model, n).sum() for n in names)
    assert error["grids-adaround"] == error["four"], error
    assert error["grids-lsq"] < 0.98 * error["four"], error


def top1_of(snapshot):
    return answer("evaluate", snapshot, "-d", TEST, "--labels", LABELS)["simulated_top1"]


def test_eight_bits(root):
    """Weights of 8 bits have little to gain: on samples not used a result has less noise and
    no lower accuracy than both start and float network, or the start was kept and the report
    says so.  One sample of the 599 may change sides: gradients have other last bits on each
    instruction set."""
    eight, gained, sample = root / "eight", 0, 1 / len(np.load(LABELS))
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", eight)
    before = noise(eight)
    got = answer("evaluate", eight, "-d", TEST, "--labels", LABELS)
    least = min(got["float_top1"], got["simulated_top1"])
    for method in MOST:
        out = root / f"eight-{method}"
        report = answer("tune", eight, "-d", CALIB, "--method", method, "-o", out)
        assert out.exists() == report["changed"] == ("why" not in report), report
        if report["changed"]:
            share, gained = noise(out) / before, gained + 1
            print(f"8 bits, {method}: {share:.2f} of the noise")
            assert share < 1 and top1_of(out) >= least - 1.5 * sample, (method, share)
    assert gained >= 3, gained


def scales(folder):
    """The scales of all records, in order."""
    found = []

    def walk(part):
        if isinstance(part, dict):
            own = part.get("scale")
            found.extend(own if isinstance(own, list) else [own] if own is not None else [])
            part = part.values()
        for value in part if not isinstance(part, (str, int, float, type(None))) else ():
            walk(value)

    walk(records(folder))
    return [s for s in found if isinstance(s, (int, float))]


def test_gradients(root, four):
    """Powers of two stay so, and move with tqt alone; NNCF with its factor and without."""
    two = root / "two"
    qg("quantize", MODEL, "-b", "nxp-int8", "-d", CALIB, *BITS, "-o", two)
    before = scales(two)
    assert before and all(np.frexp(s)[0] == 0.5 for s in before)
    for gradient, moves in (("usual", True), ("tqt", True), ("lsq", False), ("pact", False)):
        out = root / f"two-{gradient}"
        report = answer("tune", two, "-d", CALIB, *FEW, "--gradient", gradient, "-o", out)
        after = scales(out)
        assert report["after"] < report["before"] and report["gradient"] == gradient
        assert all(np.frexp(s)[0] == 0.5 for s in after), gradient
        assert (after != before) == moves, gradient
    for gradient in ("nncf", "nncf-exact"):
        report = answer("tune", four, "-d", CALIB, *FEW, "--gradient", gradient, "-o",
                        root / gradient)
        curve = [c for c in report["curves"] if c["block"] == "conv0"][0]
        print(gradient, report["after"], curve)
        assert report["after"] < report["before"] and curve["100%"] < curve["10%"]
    assert hashes(root / "nncf") != hashes(root / "nncf-exact")
    for start, gradient, other in ((four, "tqt", "linear steps: lsq"),
                                   (two, "pact", "powers of two: tqt")):
        qg("tune", start, "-d", CALIB, "--steps", 4, "--gradient", gradient, "-o", root / "none",
           warns=f"gradient {gradient}: fits no step size here, none was learned, expected one "
                 f"for {other}")
    qg("tune", four, "-d", CALIB, "--gradient", "magic", "-o", root / "m",
       fails="gradient 'magic': expected one of usual, ste, lsq")


def test_optimizers(root, four):
    """Both help with their own default rates; the result is another one."""
    for name in ("adam", "sgd"):
        report = answer("tune", four, "-d", CALIB, "--optimizer", name, "-o", root / name)
        print(name, report["before"], report["after"], report["better_blocks"])
        assert report["optimizer"] == name and report["after"] < 0.5 * report["before"]
    assert hashes(root / "adam") == hashes(root / "lsq") != hashes(root / "sgd")
    qg("tune", four, "-d", CALIB, "--optimizer", "magic", "-o", root / "m",
       fails="optimizer 'magic': expected one of adam, sgd")


def offsets(folder):
    """The zero points of all records, in order."""
    found = []

    def walk(part):
        if isinstance(part, dict):
            found.extend(np.atleast_1d(part["offset"]) if "offset" in part else [])
            part = part.values()
        for value in part if not isinstance(part, (str, int, float, type(None))) else ():
            walk(value)

    walk(records(folder))
    return [int(z) for z in found]


def test_offsets(root):
    """Zero points of activations move with the two methods that learn them, stay codes, and
    do not move with others."""
    start = root / "asymmetric"
    grids = [word for slot in ("in0", "out*")
             for word in ("--set", f"node=* slot={slot} bits=4 range=[-8,7]")]
    qg("quantize", MODEL, "-b", "tflite-int8", "-d", CALIB, *grids, *BITS, "-o", start)
    before = offsets(start)
    assert any(before)
    for gradient, moves in (("lsq", False), ("lsq-plus", True), ("nncf-asymmetric", True)):
        out = root / f"a-{gradient}"
        report = answer("tune", start, "-d", CALIB, *FEW, "--gradient", gradient, "-o", out)
        after, share = offsets(out), noise(out) / noise(start)
        print(f"{gradient}: {sum(a != b for a, b in zip(after, before))} zero points moved, "
              f"{share:.2f} of the noise")
        assert report["gradient"] == gradient and share < 0.7, (gradient, share)
        assert (after != before) == moves, gradient
        assert all(-128 <= z <= 127 for z in after), after
    words = ["tune", start, "-d", CALIB, "--gradient", "lsq-plus", "--steps", 40]
    qg(*words, "-j1", "-o", root / "a1")
    qg(*words, "-j2", "-o", root / "a2")
    assert hashes(root / "a1") == hashes(root / "a2")


def test_qdrop(root, four):
    """Other draws than without, the same in any number of threads and with a seed of its own
    others; helps on samples not seen."""
    before = noise(four)
    for method in ("lsq", "brecq"):
        report = answer("tune", four, "-d", CALIB, "--method", method, "--qdrop", "-o",
                        root / f"drop-{method}")
        share = noise(root / f"drop-{method}") / before
        print(f"qdrop, {method}: {share:.2f} of the noise")
        assert report["qdrop"] is True and share <= MOST[method], (method, share)
        assert hashes(root / f"drop-{method}") != hashes(root / method)
    words = ["tune", four, "-d", CALIB, "--steps", 40, "--qdrop"]
    for name, more in {"q1": ["-j1"], "q2": ["-j2"], "q3": ["--seed", 3]}.items():
        qg(*words, *more, "-o", root / name)
    assert hashes(root / "q1") == hashes(root / "q2") != hashes(root / "q3")


def test_mixtures(root, four):
    """As many as make 192 samples with those that teach, one for twelve steps; none on demand
    and with losses of classes; other results with them, the same in any number of threads."""
    def mixtures(*more, steps=240):
        return answer("tune", four, "-d", CALIB, "--steps", steps, *more, "-o",
                      root / "mixed")["mixtures"]
    assert mixtures() == 20 and mixtures("-n", 8) == 20 and mixtures("--no-mixup") == 0
    assert mixtures("--block", "gemm0", steps=6000) == 192 - 48
    np.save(root / "zeros.npy", np.zeros(len(np.load(CALIB)), int))
    assert mixtures("--loss", "mse") == 20 and mixtures("--loss", "kd") == 0
    assert mixtures("--loss", "labels", "--labels", root / "zeros.npy") == 0
    words = ["tune", four, "-d", CALIB, "--steps", 240]
    for name, more in {"m1": ["-j1"], "m2": ["-j2"], "m3": ["--no-mixup"]}.items():
        qg(*words, *more, "-o", root / name)
    assert hashes(root / "m1") == hashes(root / "m2") != hashes(root / "m3")


def test_mixtures_of(root):
    """None where an input that is no float32 differs between any two samples; of samples of
    equal dims where these differ; those that the network cannot run are left out; none where
    memory lacks for them, in any number of threads."""
    h, f32, rng = onnx.helper, onnx.TensorProto.FLOAT, np.random.default_rng(4)

    def quantized(name, nodes, inputs, outputs, weights):
        graph = h.make_graph(
            nodes, name, [h.make_tensor_value_info(n, t, d) for n, t, d in inputs],
            [h.make_tensor_value_info(n, f32, None) for n in outputs],
            [onnx.numpy_helper.from_array(w.astype("f4"), n) for n, w in weights.items()])
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8),
                  root / f"{name}.onnx")
        qg("quantize", root / f"{name}.onnx", "-b", "trt-int8", "-d", root / f"{name}.npz",
           "--set", "trait=compute slot=in1 bits=4", "-o", root / f"{name}-start")

    def tuned(name, *more, **expect):
        words = ["tune", root / f"{name}-start", "-d", root / f"{name}.npz", *more, "-o",
                 root / f"{name}-tuned"]
        if expect:
            qg(*words, **expect)
        return answer(*words)

    w = {"w": rng.normal(0, .4, (6, 8)), "v": rng.normal(0, .4, (8, 4))}
    x = rng.normal(0, 1, (24, 1, 6)).astype("f4")
    mask = np.zeros((24, 1, 8), bool)
    mask[3] = True
    for name, m in (("masks", mask), ("mask", np.zeros_like(mask))):
        np.savez(root / f"{name}.npz", x=x, m=m)
        quantized(name, [h.make_node("MatMul", ["x", "w"], ["a"], "a"),
                         h.make_node("Where", ["m", "a", "zero"], ["b"], "b"),
                         h.make_node("MatMul", ["a", "v"], ["y"], "y"),
                         h.make_node("Identity", ["b"], ["z"], "z")],
                  [("x", f32, [1, 6]), ("m", onnx.TensorProto.BOOL, [1, 8])], "yz",
                  {**w, "zero": np.zeros(1)})
        made = tuned(name, "--steps", 240)["mixtures"]
        assert made == (20 if name == "mask" else 0), (name, made)

    shapes = np.array([[2, 16], [16, 2], [4, 8], [8, 4]], "f4")
    np.savez(root / "shape.npz", x=rng.normal(0, 1, (24, 4, 6)).astype("f4"),
             s=shapes[rng.integers(0, 4, 24)])
    quantized("shape", [h.make_node("MatMul", ["x", "w"], ["m"], "m1"),
                        h.make_node("Relu", ["m"], ["q"], "q"),
                        h.make_node("Cast", ["s"], ["i"], "c", to=onnx.TensorProto.INT64),
                        h.make_node("Reshape", ["q", "i"], ["z"], "re"),
                        h.make_node("ReduceMean", ["z"], ["u"], "r", axes=[0, 1], keepdims=1),
                        h.make_node("MatMul", ["q", "v"], ["y"], "m2")],
              [("x", f32, [4, 6]), ("s", f32, [2])], "yu", w)
    made = tuned("shape", "--steps", 240)["mixtures"]
    assert 0 < made < 20, made

    np.savez(root / "open.npz", x=rng.normal(0, 1, (8, 3, 256, 256)).astype("f4"))
    quantized("open", [h.make_node("Conv", ["x", "c"], ["a"], "a", strides=[4, 4]),
                       h.make_node("Conv", ["a", "d"], ["b"], "b", strides=[2, 2]),
                       h.make_node("GlobalAveragePool", ["b"], ["y"], "y")],
              [("x", f32, [1, 3, "h", "w"])], "y",
              {"c": rng.normal(0, .2, (4, 3, 3, 3)), "d": rng.normal(0, .2, (4, 4, 3, 3))})
    ample = tuned("open", "--steps", 1200)
    assert ample["mixtures"] == 64 * 2**20 // (3 * 256 * 256 * 4), ample["mixtures"]
    assert ample == tuned("open", "--steps", 1200, "--max-mem", "999M", "-j2")
    assert tuned("open", "--steps", 1200, "--max-mem", "64M")["mixtures"] == 10
    if EVERYTHING:
        without_mixtures(root, tuned)


def without_mixtures(root, tuned):
    """Of the most memory that is not enough for mixtures."""
    alone = tuned("open", "--steps", 1200, "--no-mixup")
    least, limit = 10, 30
    while limit - least > 1:
        middle = (least + limit) // 2
        status, error, _ = peak("tune", root / "open-start", "-d", root / "open.npz", "--steps",
                                1200, "--max-mem", f"{middle}M", "-o", root / "open-little",
                                "-j2")
        least, limit = (middle, limit) if status or "memory lacks" in error else (least, middle)
    limit = least
    status, error, _ = peak("tune", root / "open-start", "-d", root / "open.npz", "--steps", 1200,
                            "--max-mem", f"{limit}M", "-o", root / "open-little", "-j2")
    assert status == 0 and "mixtures: memory lacks for them" in error, (limit, status, error)
    little = tuned("open", "--steps", 1200, "--max-mem", f"{limit}M", "-j1")
    assert little == tuned("open", "--steps", 1200, "--max-mem", f"{limit}M", "-j2")
    assert little["mixtures"] == alone["mixtures"] == 0, little


def test_losses(root, four):
    """The network as one block, or the last one: less divergence on samples held back, no
    lower accuracy on others; labels reach the accuracy of the float network on their own."""
    start = answer("evaluate", four, "-d", TEST, "--labels", LABELS)
    for name, more in (("mse", []), ("kd", []), ("kd", ["--block", "gemm0"]),
                       ("kd", ["--qdrop", "--lr", "0.005"]), ("kd", ["--method", "bias"])):
        out = root / "-".join(["loss", name, *(m.strip("-") for m in more)])
        report = answer("tune", four, "-d", CALIB, "--loss", name, *more, "-o", out)
        (block,), got = report["blocks"], answer("evaluate", out, "-d", TEST, "--labels", LABELS)
        print(f"loss {name} {more}: {block['before']:.3g} to {block['after']:.3g}, "
              f"top1 {got['simulated_top1']:.4f}")
        assert report["loss"] == name and block["after"] < block["before"], report
        assert report["better_blocks"] == "1 of 1" and report["changed"] is True, report
        assert got["simulated_top1"] >= start["simulated_top1"] - 0.002, (name, more, got)
        assert got["float_top1"] == start["float_top1"]
    assert noise(root / "loss-mse") < 0.4 * noise(four)
    words = ["tune", four, "-d", CALIB, "--steps", 60, "--loss", "kd"]
    qg(*words, "-j1", "-o", root / "kd1")
    qg(*words, "-j2", "-o", root / "kd2")
    assert hashes(root / "kd1") == hashes(root / "kd2")


def test_labels(root):
    """Weights of 3 bits, cross entropy on samples with classes: more of the others are
    right."""
    images, classes = np.load(TEST), np.load(LABELS)
    for name, part in (("learn", slice(0, 200)), ("judge", slice(200, None))):
        np.save(root / f"{name}.npy", images[part])
        np.save(root / f"{name}-labels.npy", classes[part])
    three = root / "three"
    qg("quantize", MODEL, "-b", "trt-int8", "-d", root / "learn.npy",
       *(w.replace("bits=4 range=[-7,7]", "bits=3 range=[-3,3]") for w in BITS), "-o", three)
    words = ["tune", three, "-d", root / "learn.npy", "--loss", "labels"]
    qg(*words, "--labels", root / "learn-labels.npy", "-o", root / "labelled")
    before, after = (answer("evaluate", s, "-d", root / "judge.npy", "--labels",
                            root / "judge-labels.npy")["simulated_top1"]
                     for s in (three, root / "labelled"))
    print(f"labels, 3 bits: top1 {before:.4f} to {after:.4f}")
    assert after > before
    np.save(root / "all-labels.npy", classes)
    report = answer(*words, "--holdout", root / "judge.npy", "--labels", root / "all-labels.npy",
                    "--steps", 200, "-o", root / "labelled")
    after = answer("evaluate", root / "labelled", "-d", root / "judge.npy", "--labels",
                   root / "judge-labels.npy")["simulated_top1"]
    assert (report["top1_before"], report["top1_after"]) == (before, after), (report, after)
    assert report["metric"] == "cross-entropy" and report["changed"], report
    assert report["blocks"][0]["after"] == report["after"] < report["before"], report
    shown = answer("analyse", root / "labelled", "-d", root / "judge.npy")["errors"][0]["error"]
    assert abs(report["nsr_after"] / shown - 1) < 1e-3, (report, shown)
    qg(*words, "--holdout", root / "judge.npy", "--labels", root / "learn-labels.npy", "-o",
       root / "m", fails=f"for each of {len(images)} samples")
    qg(*words, "-o", root / "m", fails="loss labels: there are none, expected --labels")
    qg("tune", three, "-d", CALIB, "--labels", LABELS, "-o", root / "m",
       fails="loss blocks does not read them, expected --loss labels")
    np.save(root / "wrong.npy", np.full(200, 10))
    qg(*words, "--labels", root / "wrong.npy", "-o", root / "m",
       fails=".npy: sample 0: is 10, expected one of the 10 classes")
    np.save(root / "huge.npy", np.full(200, 2**64 - 1, "u8"))
    for verb in (words, ["evaluate", three, "-d", root / "learn.npy"]):
        qg(*verb, "--labels", root / "huge.npy", *(["-o", root / "m"] if verb is words else []),
           fails="huge.npy: sample 0: is 18446744073709551615, expected a class")
    np.save(root / "short.npy", np.zeros(199, int))
    qg(*words, "--labels", root / "short.npy", "-o", root / "m", fails="for each of 200 samples")
    qg("tune", three, "-d", CALIB, "--loss", "kd", "--block", "conv0", "-o", root / "m",
       fails="block 'conv0': it computes nothing that --loss compares, expected the block of an "
             "output")
    qg("tune", three, "-d", CALIB, "--loss", "kd", "--block", "nope", "-o", root / "m",
       fails="block 'nope': there is none, expected the first compute")
    qg("tune", three, "-d", CALIB, "--loss", "magic", "-o", root / "m",
       fails="loss 'magic': expected one of blocks, mse, kd, labels")
    assert not (root / "m").exists()


def test_memory(root):
    """The memory of a block is given back when it is done: three blocks and twelve need
    the same.  A network that learns as a whole computes activations again where keeping
    all of them (42 MB) is too much: the same bytes."""
    h, rng = onnx.helper, np.random.default_rng(1)
    np.save(root / "m.npy", rng.normal(0, 1, (4, 16, 64, 64)).astype("f4"))
    for count in (3, 12, 24):
        names = ["x", *(f"v{i}" for i in range(count))]
        nodes = [h.make_node("Conv", [a, f"w{i}"], [b], name=f"c{i}", pads=[1] * 4)
                 for i, (a, b) in enumerate(zip(names, names[1:]))]
        weights = [onnx.numpy_helper.from_array(
            rng.normal(0, 0.1, (16, 16, 3, 3)).astype("f4"), f"w{i}") for i in range(count)]
        values = [h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 16, 64, 64])
                  for n in (names[0], names[-1])]
        graph = h.make_graph(nodes, "chain", values[:1], values[1:], weights)
        path, start = root / f"chain{count}.onnx", root / f"chain{count}"
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
        qg("quantize", path, "-b", "trt-int8", "-d", root / "m.npy", *BITS[:2], "-o", start)
        qg("tune", start, "-d", root / "m.npy", "--method", "adaquant", "--steps", 1, "-j1",
           "--max-mem", "26M", "-o", root / f"chain{count}-tuned")
    qg("tune", start, "-d", root / "m.npy", "-j1", "--max-mem", "8M", "-o", root / "little",
       fails="--max-mem")
    for more, least in ((["--loss", "mse"], 26), (["--loss", "mse", "--qdrop"], 26),
                        (["--method", "brecq"], 27)):
        words = ["tune", start, "-d", root / "m.npy", *more, "--steps", 2]
        seen = []
        limits = (999, 2), (36, 2), (least, 1), (least, 2)
        for number, (limit, threads) in enumerate(limits if EVERYTHING else limits[::3]):
            out = root / f"memory{least}{len(more)}-{number}"
            report = answer(*words, f"-j{threads}", "--max-mem", f"{limit}M", "-o", out)
            seen.append((report, hashes(out) if "mse" in more else out.exists()))
        assert all(one == seen[0] for one in seen), (more, seen)
    status, error, most = peak(*words, "-j2", "--max-mem", "27M", "-o", root / "again")
    assert status == 0 and most < 27 + 60, (error, most)


def peak(*words):
    """Exit status, error, and the most memory in MB."""
    with open(os.devnull, "w") as nowhere, tempfile.TemporaryFile("w+") as error:
        process = subprocess.Popen([QG, *map(str, words)], stdout=nowhere, stderr=error)
        _, status, use = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        error.seek(0)
        return process.returncode, error.read(), use.ru_maxrss / 1000


def test_limits(root, four):
    """Two samples at a time, one where that is too much, or refused with node and size: the
    same bytes for any limit.  A network of the zoo as a whole stays below its limit."""
    words = ["tune", four, "-d", CALIB, "--samples", 16, "--loss", "kd", "--steps", 20, "-j2"]
    qg(*words, "-o", root / "free")
    seen = {}
    for limit in range(1, 16) if EVERYTHING else (1, 2, 4, 7, 15):
        out = root / f"limit{limit}"
        seen[limit], error, _ = peak(*words, "--max-mem", f"{limit}M", "-o", out)
        if seen[limit] == 0:
            assert hashes(out) == hashes(root / "free"), limit
        else:
            assert "--max-mem" in error and not out.exists(), (limit, error)
            assert limit < 3 or "learn: node '" in error, (limit, error)
    assert seen[15] == 0 and seen[1] == 1 and list(seen.values()) == sorted(
        seen.values(), reverse=True), seen
    sys.path.insert(0, "tests/zoo")
    import graph
    import vision  # noqa: F401  registers its networks
    net = graph.build("mobilenet_v2", wide=True)
    onnx.save(net.proto(), root / "zoo.onnx")
    np.savez(root / "zoo.npz", **{k: make(4) for k, make in net.feeds.items()})
    qg("quantize", root / "zoo.onnx", "-b", "trt-int8", "-d", root / "zoo.npz", "-o",
       root / "zoo")
    words = ["tune", root / "zoo", "-d", root / "zoo.npz", "--steps", 1, "-j2"]
    for more, limit in (([], 300), (["--loss", "kd"], 320)):
        status, error, most = peak(*words, *more, "--max-mem", f"{limit}M", "-o", root / "z")
        print(f"mobilenet_v2 {more}: {most:.0f} MB of {limit}")
        assert status == 0 and most < limit + 60, (more, status, error, most)
    status, error, most = peak(*words, "--loss", "kd", "--max-mem", "100M", "-o", root / "y")
    assert status == 1 and most < 160 and "learn: node '" in error, (status, error, most)
    print(error.strip())


def test_tied(root):
    """A constant of two blocks stays; within one block it is learned."""
    h = onnx.helper
    rng = np.random.default_rng(0)
    w = rng.normal(0, 0.3, (4, 4, 3, 3)).astype("f4")
    nodes = [h.make_node(op, inputs, [out], name=f"n{out}", **more) for op, inputs, out, more in (
        ("Conv", ["x", "w"], "a", {"pads": [1] * 4}), ("Relu", ["a"], "b", {}),
        ("Conv", ["b", "w"], "c", {"pads": [1] * 4}), ("Relu", ["c"], "y", {}))]
    values = [h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4, 8, 8]) for n in "xy"]
    graph = h.make_graph(nodes, "tied", values[:1], values[1:],
                         [onnx.numpy_helper.from_array(w, "w")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8),
              root / "tied.onnx")
    np.save(root / "x.npy", rng.normal(0, 1, (128, 4, 8, 8)).astype("f4"))
    qg("quantize", root / "tied.onnx", "-b", "trt-int8", "-d", root / "x.npy", *BITS[:2],
       "-o", root / "tied")
    for method, learned in (("adaround", False), ("lsq", True)):
        out = root / f"tied-{method}"
        report = answer("tune", root / "tied", "-d", root / "x.npy", "--method", method,
                        "--lr", 0.00005, "-o", out)
        names = [i.name for i in onnx.load(out / "model.onnx").graph.initializer] \
            if out.exists() else []
        assert ("w.untuned" in names) == learned, (method, names, report)


def test_shown(root):
    """A weight that an output shows through a node of constants stays."""
    h = onnx.helper
    rng = np.random.default_rng(1)
    nodes = [h.make_node("Conv", ["x", "w"], ["y"], name="c"),
             h.make_node("Identity", ["w"], ["z"], name="i")]
    values = [h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, d)
              for n, d in (("x", [1, 4, 6, 6]), ("y", [1, 4, 4, 4]), ("z", [4, 4, 3, 3]))]
    w = rng.normal(0, 0.5, (4, 4, 3, 3)).astype("f4")
    graph = h.make_graph(nodes, "shown", values[:1], values[1:],
                         [onnx.numpy_helper.from_array(w, "w")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8),
              root / "shown.onnx")
    np.save(root / "s.npy", rng.normal(0, 1, (64, 4, 6, 6)).astype("f4"))
    qg("quantize", root / "shown.onnx", "-b", "trt-int8", "-d", root / "s.npy", *BITS[:2],
       "-o", root / "shown")
    qg("tune", root / "shown", "-d", root / "s.npy", "--steps", 200, "-o", root / "shown-2")
    qg("run", root / "shown-2", "-d", root / "s.npy", "--mode", "float", "-o", root / "shown-3")
    assert np.array_equal(np.load(root / "shown-3" / "z.npy")[0].reshape(w.shape), w)


def test_prescribed(root):
    """Scales that a rule prescribes stay: those of LiteRT's Sigmoid, Tanh and Softmax, and one
    that --set gives."""
    h, rng = onnx.helper, np.random.default_rng(3)
    weights = [onnx.numpy_helper.from_array(rng.normal(0, 0.3, dims).astype("f4"), name)
               for name, dims in (("u", (8, 4, 3, 3)), ("v", (128, 12)), ("w", (12, 5)))]
    nodes = [h.make_node(op, inputs, [out], name=f"n{out}") for op, inputs, out in (
        ("Conv", ["x", "u"], "a"), ("Sigmoid", ["a"], "b"), ("Flatten", ["b"], "c"),
        ("MatMul", ["c", "v"], "d"), ("Tanh", ["d"], "e"), ("MatMul", ["e", "w"], "f"),
        ("Softmax", ["f"], "y"))]
    values = [h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, d)
              for n, d in (("x", [1, 4, 6, 6]), ("y", [1, 5]))]
    onnx.save(h.make_model(h.make_graph(nodes, "prescribed", values[:1], values[1:], weights),
                           opset_imports=[h.make_opsetid("", 17)], ir_version=8),
              root / "given.onnx")
    np.save(root / "given.npy", rng.normal(0, 1, (40, 4, 6, 6)).astype("f4"))
    common = ["-d", root / "given.npy"]
    start = root / "given"
    qg("quantize", root / "given.onnx", "-b", "tflite-int8", *common, *BITS[:2], "--set",
       "value=x observer=fixed step=0.02 zero=128", "--set", "value=w observer=fixed step=0.1",
       "-o", start)
    report = answer("tune", start, *common, "--steps", 1000, "-o", root / "given-tuned")
    assert report["changed"]
    before, after = ({t["id"]: t for t in records(root / f)["tqcs"]}
                     for f in ("given", "given-tuned"))
    fixed = [i for i, t in before.items() if t["observer"] == "fixed" and t["scale"]]
    assert len(fixed) >= 5, fixed
    assert all(after[i]["scale"] == before[i]["scale"] for i in fixed)
    assert any(after[i]["scale"] != before[i]["scale"] for i in before)


def test_switched_off(root):
    """Endpoints that do not round lead groups whose scales nobody may set: they stay."""
    for state in ("dequantized", "deactivated"):
        start, out = root / state, root / f"{state}-tuned"
        qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, *BITS[:2], "--set",
           f"node=conv2 slot=output state={state}", "-o", start)
        for method in ("lsq", "brecq"):
            report = answer("tune", start, "-d", CALIB, "--method", method, "--steps", 60,
                            "-o", out)
            assert report["changed"], (state, method)


def test_sizes(root):
    """Samples of different sizes: each has gradients of its own size, on one thread and two."""
    h, rng = onnx.helper, np.random.default_rng(2)
    weights = [onnx.numpy_helper.from_array(rng.normal(0, 0.3, dims).astype("f4"), name)
               for name, dims in (("u", (8, 3, 3, 3)), ("v", (8, 8, 3, 3)), ("w", (8, 5)))]
    nodes = [h.make_node(op, inputs, [out], name=f"n{out}", **more) for op, inputs, out, more in (
        ("Conv", ["x", "u"], "a", {"pads": [1] * 4}), ("Relu", ["a"], "b", {}),
        ("Conv", ["b", "v"], "c", {"pads": [1] * 4}), ("Relu", ["c"], "d", {}),
        ("GlobalAveragePool", ["d"], "e", {}), ("Flatten", ["e"], "f", {}),
        ("MatMul", ["f", "w"], "y", {}))]
    values = [h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, "h", "w"]),
              h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 5])]
    onnx.save(h.make_model(h.make_graph(nodes, "sizes", values[:1], values[1:], weights),
                           opset_imports=[h.make_opsetid("", 17)], ir_version=8),
              root / "sizes.onnx")
    data = root / "sizes"
    data.mkdir()
    for i in range(12):
        side = 8 + i * 37 % 5 * 24
        np.save(data / f"{i:02}.npy", rng.normal(0, 1, (1, 3, side, side)).astype("f4"))
    start = root / "sizes-start"
    qg("quantize", root / "sizes.onnx", "-b", "trt-int8", "-d", data, *BITS[:2], "-o", start)
    for method in ("adaround", "lsq"):
        out = [root / f"sizes-{method}{j}" for j in (1, 2)]
        for j, folder in enumerate(out, 1):
            qg("tune", start, "-d", data, "--method", method, "--qdrop", "--steps", 8, f"-j{j}",
               "-o", folder)
        assert [f.exists() for f in out] in ([True] * 2, [False] * 2), method
        assert not out[0].exists() or hashes(out[0]) == hashes(out[1]), method


def cut_network(model, size_of_second):
    """Two outputs, the second behind an operator without a gradient: two blocks learn."""
    helper, draw = onnx.helper, np.random.default_rng(0)

    def gemm(x, y, rows, columns, size):
        constants.extend((
            onnx.numpy_helper.from_array(
                (draw.normal(0, size / rows ** .5, (rows, columns))).astype("f"), f"w{y}"),
            onnx.numpy_helper.from_array(draw.normal(0, .3, columns).astype("f"), f"b{y}")))
        return helper.make_node("Gemm", [x, f"w{y}", f"b{y}"], [y], f"g{y}")
    constants = []
    nodes = [gemm("x", "a", 16, 24, 1), helper.make_node("Relu", ["a"], ["h"], "relu"),
             gemm("h", "first", 24, 5, .1),
             helper.make_node("LpNormalization", ["h"], ["n"], "norm", axis=-1, p=2),
             gemm("n", "second", 24, 5, size_of_second)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "cut", [info("x", 1, [1, 16])],
                              [info("first", 1, [1, 5]), info("second", 1, [1, 5])], constants)
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), model)
    return draw


def divergence(network, model, data, folder):
    """Of the classes of the simulation from those of the float network: over all outputs."""
    found = []
    for place, words in (("f", [model, "--mode", "float"]), ("q", [network])):
        qg("run", *words, "-d", data, "-o", folder / place)
        outputs = [np.load(folder / place / f"{n}.npy").astype("f8") for n in ("first", "second")]
        found.append([z.reshape(len(z), -1) for z in outputs])
    found = [[z - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True))
              - z.max(1, keepdims=True) for z in of] for of in found]
    return sum(float((np.exp(p) * (p - q)).sum(1).mean()) for p, q in zip(*found))


def test_cut(root):
    """Several blocks learn with a loss of classes: the network is judged, not its last
    block, whose start has what was learned before it."""
    folder = root / "cut"
    folder.mkdir()
    model, data, holdout = (folder / n for n in ("cut.onnx", "d.npy", "u.npy"))
    changed = []
    for size, bits in (60, 2), (2, 3):
        draw = cut_network(model, size)
        np.save(data, draw.normal(0, 1, (48, 16)).astype("f"))
        np.save(holdout, draw.normal(0, 1, (40, 16)).astype("f"))
        qg("quantize", model, "-b", "trt-int8", "-d", data, "--set", "node=gfirst slot=in1 "
           f"bits={bits} range=[{1 - 2 ** (bits - 1)},{2 ** (bits - 1) - 1}]", "-o",
           folder / "start")
        start = divergence(folder / "start", model, holdout, folder)
        for more in [], ["--block", "ga"], ["--block", "gsecond"], ["--method", "adaround"]:
            r = answer("tune", folder / "start", "-d", data, "--holdout", holdout, "--loss",
                       "kd", *more, "-o", folder / "tuned")
            end = divergence(folder / "tuned", model, holdout, folder)
            print(f"cut {size} {more}: {start:.4g} to {end:.4g}")
            assert np.allclose((start, end), (r["before"], r["after"]), rtol=1e-3), (more, r)
            assert end <= start and r["changed"] == (end < start), (more, r)
            changed.append(r["changed"])
    assert len(set(changed)) == 2, changed


def test_saturated(root):
    """Divergences of next to nothing, below zero by rounding alone, are no gain."""
    model, data = root / "saturated.onnx", root / "saturated.npy"
    helper, draw = onnx.helper, np.random.default_rng(1)
    constant = onnx.numpy_helper.from_array(draw.normal(0, 3000, (8, 4)).astype("f"), "w")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"], "gemm")], "g", [info("x", 1, [1, 8])],
        [info("y", 1, [1, 4])], [constant])
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), model)
    np.save(data, draw.normal(0, 1, (16, 8)).astype("f"))
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", root / "saturated")
    for method in "lsq", "adaround":
        r = answer("tune", root / "saturated", "-d", data, "--loss", "kd", "--method", method,
                   "-o", root / "no")
        assert r["before"] >= 0 and r["learned" if not r["changed"] else "after"] >= 0, r
        assert r["before"] - r["after"] >= 1e-7 or not r["changed"], r


def test_no_classes(root):
    """Labels of a network whose first output is an image."""
    helper, draw = onnx.helper, np.random.default_rng(3)
    model, data, labels = (root / n for n in ("image.onnx", "image.npy", "image_labels.npy"))
    constant = onnx.numpy_helper.from_array(draw.normal(0, 1, (1, 2, 3, 3)).astype("f"), "w")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")], "g", [info("x", 1, [1, 2, 6, 6])],
        [info("y", 1, [1, 1, 4, 4])], [constant])
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), model)
    np.save(data, draw.normal(0, 1, (8, 2, 6, 6)).astype("f"))
    np.save(labels, np.zeros(8, int))
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", root / "image")
    for words in (["evaluate", root / "image"],
                  ["tune", root / "image", "--loss", "labels", "-o", root / "no_image"]):
        qg(*words, "-d", data, "--labels", labels, fails=f"{words[0]}: labels: the first output "
           "is float32[1,1,4,4], expected the scores of classes, along one axis")
    assert not (root / "no_image").exists()


def main():
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        four = root / "four"
        qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, *BITS, "-o", four)
        test_methods(root, four)
        test_repeated(root, four)
        test_bodies(root)
        test_files(root)
        test_origins(root)
        test_search_warns(root)
        test_nothing_gained(root, four)
        test_written_again(root)
        test_grids(root, four)
        test_judged(root)
        test_holdout(root, four)
        test_holdout_is_data(root, four)
        test_equal_samples(root, four)
        test_divergence(root, four)
        test_beyond_float32(root)
        test_eight_bits(root)
        test_gradients(root, four)
        test_optimizers(root, four)
        test_offsets(root)
        test_qdrop(root, four)
        test_mixtures(root, four)
        test_mixtures_of(root)
        test_losses(root, four)
        test_labels(root)
        test_cut(root)
        test_saturated(root)
        test_no_classes(root)
        test_memory(root)
        test_limits(root, four)
        test_tied(root)
        test_shown(root)
        test_sizes(root)
        test_prescribed(root)
        test_switched_off(root)
        test_mistakes(root, four)
        test_few(root, four)
        test_stops_early(root, four)
        test_infinity(root, four)
        test_not_finite(root)


if __name__ == "__main__":
    main()
