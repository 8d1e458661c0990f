#!/usr/bin/env python3
"""'Keep float' really removes a rounding (--set state=fp32, errors: above:, --propose), a
proposal is judged on samples that did not choose it, and compare measures accuracy of
several backends in one step, with memory that does not grow with them."""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import QG, answer, qg

MODEL = os.path.abspath("configs/models/digits.onnx")
CALIB, TEST, LABELS = (os.path.abspath(f"configs/data/digits_{n}.npy")
                       for n in ("calib", "test", "labels"))
failures = 0


def check(what, good, *detail):
    global failures
    print("ok    " if good else "FAILED", what, *detail)
    failures += not good


def error_of(snapshot, data):
    return answer("analyse", snapshot, "-d", data)["errors"][0]["error"]


def save(path, nodes, weights, inputs, output):
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 13)]), path)


def is_empty(policy):
    """Whether there is a policy without rules."""
    return policy.read_text().endswith("\nrules:\n  []\n")


def chain(folder):
    """Conv-Relu-MaxPool-Conv-Relu-Conv: fused pairs, and neighbours on one grid."""
    rng = np.random.default_rng(3)
    node = helper.make_node
    nodes = [node("Conv", ["x", "w0"], ["c0"], "c0", pads=[1] * 4),
             node("Relu", ["c0"], ["r0"], "r0"),
             node("MaxPool", ["r0"], ["p0"], "p0", kernel_shape=[2, 2]),
             node("Conv", ["p0", "w1"], ["c1"], "c1", pads=[1] * 4),
             node("Relu", ["c1"], ["r1"], "r1"),
             node("Conv", ["r1", "w2"], ["y"], "c2")]
    shapes = {"w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3), "w2": (4, 8, 1, 1)}
    path = folder / "chain.onnx"
    save(path, nodes, {n: rng.normal(0, 0.3, s).astype("f") for n, s in shapes.items()},
         {"x": [1, 3, 12, 12]}, "y")
    np.save(folder / "chain.npy", rng.standard_normal((8, 3, 12, 12)).astype("f"))
    return path, folder / "chain.npy"


def check_keep_float(folder):
    """Every endpoint, one after the other: fewer roundings, and none at its value's grid."""
    model, data = chain(folder)
    quantize = ("quantize", model, "-b", "trt-int8", "-d", data, "-o", folder / "s")
    before = answer(*quantize)
    plain = error_of(folder / "s", data)
    rounds = next(r["endpoints"] for r in before["states"] if r["state"] == "ACTIVATED")
    rows = answer("sensitivity", folder / "s", "-d", data, "--by", "endpoint")["errors"]
    for node in ("c0", "r0", "p0", "c1", "r1"):
        after = answer(*quantize, "--set", f"node={node} slot=out0 state=fp32")
        left = next(r["endpoints"] for r in after["states"] if r["state"] == "ACTIVATED")
        check(f"{node}.out0 in float: one rounding less", left == rounds - 1, left, rounds)
        error = error_of(folder / "s", data)
        check(f"{node}.out0 in float: a smaller error", error < plain,
              f"{100 * error:.4f} % of {100 * plain:.4f} %")
    worst = next(r["name"] for r in rows if r["what"] == "ACTIVATED")
    explained = answer("explain", folder / "s", "r1.out0")
    check("explain names the choice", "keep-float/set:1" in json.dumps(explained))
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", folder / "s")
    report = folder / "errors.json"
    report.write_text(qg("sensitivity", folder / "s", "-d", data, "--json"))
    above = sorted(r["error"] for r in json.loads(report.read_text())["errors"])[-1] * 0.99
    qg(*quantize, "--set", f"errors={report} above={above} state=fp32")
    error = error_of(folder / "s", data)
    check("errors: above: helps", error < plain, worst, error, plain)


def check_pipeline(folder):
    """A pipeline without the pass does not lose the choice silently."""
    model, data = chain(folder)
    home = pathlib.Path("configs").resolve()
    config = folder / "configs"
    for name in ("backends", "profiles", "pipelines"):
        (config / name).mkdir(parents=True)
        for file in (home / name).glob("*"):
            if file.is_file():
                (config / name / file.name).write_bytes(file.read_bytes())
    text = (home / "pipelines/default.yaml").read_text()
    lines = [l for l in text.splitlines(True) if "keep-float" not in l]
    assert len(lines) < len(text.splitlines())
    (config / "pipelines/default.yaml").write_text("".join(lines))
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", folder / "s", "--config-dir",
       config, "--set", "node=r0 slot=out0 state=fp32", fails="has no pass keep-float")


def branches(folder):
    """y = a(x0) + b(x1).  Samples that choose see branch a only, the others only b."""
    rng = np.random.default_rng(4)
    node = helper.make_node
    save(folder / "two.onnx",
         [node("Conv", ["x0", "w0"], ["a0"], "a0"), node("Sigmoid", ["a0"], ["a1"], "a1"),
          node("Conv", ["a1", "w1"], ["a"], "a"),
          node("Conv", ["x1", "w2"], ["b"], "b"), node("Add", ["a", "b"], ["y"], "sum")],
         {"w0": rng.normal(0, 1, (4, 2, 1, 1)).astype("f"),
          "w1": rng.normal(0, 1, (4, 4, 1, 1)).astype("f"),
          "w2": rng.normal(0, 1, (4, 2, 1, 1)).astype("f")},
         {"x0": [1, 2, 6, 6], "x1": [1, 2, 6, 6]}, "y")
    x0, x1 = rng.standard_normal((2, 8, 2, 6, 6)).astype("f")
    x1[0::2] *= np.float32(1e-4)
    x0[1::2] *= np.float32(1e-4)
    x1[1::2] *= 100
    np.savez(folder / "two.npz", x0=x0, x1=x1)
    return folder / "two.onnx", folder / "two.npz"


def check_labels(folder):
    """One label does not outweigh the error; many do."""
    narrow, out, one = folder / "narrow", folder / "labels.yaml", folder / "one.npy"
    make = ("quantize", MODEL, "-b", "qnn-dsp-int8", "-d", CALIB, "--set",
            "slot=weight bits=4", "-o")
    ask = ("sensitivity", narrow, "-d", CALIB, "--propose", "1%", "--raise-to", "8", "-o",
           out, "--holdout", TEST)
    qg(*make, narrow)
    qg(*ask)
    qg(*make, folder / "raised", "--policy", out)
    votes = []
    for snapshot in narrow, folder / "raised":
        qg("run", snapshot, "-d", TEST, "--mode", "simulate", "-o", folder / "votes")
        scores = np.load(folder / "votes" / "logits.npy")
        votes.append(scores.reshape(len(scores), -1).argmax(1))
    differ = np.flatnonzero(votes[0] != votes[1])
    check("the networks differ", len(differ) > 4, len(differ))
    label = votes[0].copy()
    np.save(one, label)
    many = answer(*ask, "--labels", one)
    check("many labels decide", many["judged_by"].startswith("labels: ") and is_empty(out) and
          "top-1" in many["proposal"], many.get("judged_by"))
    for i in differ[1:]:
        label[i] = next(c for c in range(10) if c not in (votes[0][i], votes[1][i]))
    np.save(one, label)
    single = answer(*ask, "--labels", one)
    check("one label less is right", single["judged_top1"] < single["judged_top1_without"])
    check("one label does not decide", single["judged_by"].startswith("error: ") and
          "proposal" not in single and not is_empty(out), single["judged_by"])


def check_judge(folder):
    model, data = branches(folder)
    out = folder / "policy.yaml"
    qg("quantize", model, "-b", "ncnn-int8", "-d", data, "-o", folder / "s")
    one = answer("sensitivity", folder / "s", "-d", data, "--propose", "1e-5", "-o", out)
    check("chosen on one half, judged on the other", one["judged_on"].startswith("4 samples"))
    check("a proposal that does not help is no rule",
          one["proposal"].startswith("none: it does not help there: ") and
          one["written"] == str(out) and is_empty(out), one.get("proposal"))
    check("with both figures", one["proposal"].count("%") == 2)
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", folder / "d")
    ask = ("sensitivity", folder / "d", "-d", CALIB, "-n", "12", "--propose", "0.03%", "-o", out)
    two = answer(*ask, "--holdout", TEST, "--labels", LABELS)
    check("a proposal that helps is written", two.get("written") == str(out) and
          "proposal" not in two and not is_empty(out))
    check("on held-out data", two["judged_error"] < two["judged_error_without"],
          two["judged_error"], two["judged_error_without"])
    check("with labels", two["judged_top1"] >= two["judged_top1_without"] > 0.9)
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-n", "12", "-o", folder / "e",
       "--policy", out)
    top1 = answer("evaluate", folder / "e", "-d", TEST, "--labels", LABELS)["simulated_top1"]
    check("the accuracy is that of the policy", top1 == two["judged_top1"], top1)
    # a snapshot made with several overrides is quantized with all of them again
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-n", "12", "-o", folder / "four",
       "--set", "op=Conv slot=in1 bits=4", "--set", "op=Gemm slot=in1 bits=4")
    four = answer("sensitivity", folder / "four", "-d", CALIB, "-n", "12", "--propose",
                  "0.5%", "-o", folder / "more.yaml")
    check("a proposal for a snapshot with two overrides", "written" in four)
    three = answer("sensitivity", folder / "d", "-d", CALIB, "-n", "12", "--propose", "50%",
                   "-o", out)
    check("the budget is told", three["budget"] == 0.5, three.get("budget"))
    for words, fails in ((("1",), "budget 1: is noise as large as the signal"),
                         (("1e-9", "--raise-to", "4"), "expected more bits than they have"),
                         (("1%", "--raise-to", "99"), "raise to 99 bits, expected 2 to 32")):
        qg("sensitivity", folder / "d", "-d", CALIB, "-n", "4", "-o", folder / "no.yaml",
           "--propose", *words, fails=fails)
    check("no policy for wrong options", not (folder / "no.yaml").exists())
    check("within the budget an older policy does not stay", three["proposal"] ==
          "none: within the budget" and three["written"] == str(out) and is_empty(out))
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-n", "12", "-o", folder / "f",
       "--policy", out)
    qg("sensitivity", folder / "d", "-d", CALIB, "-n", "1", "--propose", "0.03%",
       fails="1 sample, expected at least 2, or --holdout")
    qg("sensitivity", folder / "d", "-d", CALIB, "--holdout", TEST, status=2,
       fails="requires --propose")


def check_proposal_labels(folder):
    """They are checked also where nothing is proposed."""
    good = np.load(LABELS)[:12].astype("i8")
    np.save(folder / "x.npy", np.load(CALIB)[:12])
    qg("quantize", MODEL, "-b", "trt-int8", "-d", folder / "x.npy", "-o", folder / "s")
    for name, labels, message in (
            ("few", good[:5], "is int64[5], expected one integer for each of 12 samples"),
            ("floats", good.astype("f"), "is float32[12], expected one integer"),
            ("boxes", good.reshape(12, 1, 1, 1), "is int64[12,1,1,1], expected one integer"),
            ("above", np.append(good[:11], 99),
             "above.npy: 99 (number 12), expected a class from 0 to 9")):
        np.save(folder / f"{name}.npy", labels)
        qg("sensitivity", folder / "s", "-d", folder / "x.npy", "--propose", "50%", "-o",
           folder / "no.yaml", "--labels", folder / f"{name}.npy", fails=message)
    check("no policy from wrong labels", not (folder / "no.yaml").exists())


def check_compare(folder):
    both = ("-b", "trt-int8", "-b", "ort-int8")
    x = np.load(CALIB)
    np.save(folder / "mixed.npy", np.concatenate([x[5:8], np.load(TEST)[:2].astype(x.dtype), x[:1]]))
    qg("compare", MODEL, "-d", CALIB, *both[:2], "--holdout", folder / "mixed.npy",
       warns="4 of 6 samples are in the data or repeat an earlier one")
    r = answer("compare", MODEL, "-d", CALIB, *both, "--holdout", TEST, "--labels", LABELS)
    check("compare measures the held-out samples", r["samples"] == 599, r["samples"])
    for row in r["accuracy"]:
        qg("quantize", MODEL, "-b", row["variant"], "-d", CALIB, "-o", folder / "s")
        alone = answer("evaluate", folder / "s", "-d", TEST, "--labels", LABELS)
        check(f"accuracy of {row['variant']}", row["top1"] == alone["simulated_top1"]
              and r["float_top1"] == alone["float_top1"], row["top1"])
    r = answer("compare", MODEL, "-d", CALIB, *both, "--holdout", TEST, "--labels", LABELS,
               "--mode", "integer")
    for row in r["accuracy"]:
        qg("quantize", MODEL, "-b", row["variant"], "-d", CALIB, "-o", folder / "s")
        alone = answer("evaluate", folder / "s", "-d", TEST, "--labels", LABELS,
                       "--mode", "integer")
        check(f"integer accuracy of {row['variant']}", row["top1"] == alone["integer_top1"])
    check("with the profiles", [row["profile"] for row in r["integers"]]
          == ["tensorrt", "onnxruntime-x86-vnni"])
    qg("compare", MODEL, "-d", CALIB, *both, "--mode", "float", status=2,
       fails="expected simulate or integer")
    qg("compare", MODEL, "-d", CALIB, *both, "--labels", LABELS, "--holdout", folder / "none.npy",
       fails="none.npy")


def check_batches(folder):
    """A network of a fixed batch has a label for each row of its output."""
    x, labels = np.load(TEST)[:596], np.load(LABELS)[:596].astype("i8")
    files = {"x": x, "stacked": x.reshape(149, 4, 1, 8, 8), "y": labels,
             "rows": labels.reshape(149, 4), "column": labels[:, None],
             "turned": labels.reshape(4, 149), "samples": labels[:149]}
    for name, array in files.items():
        np.save(folder / f"{name}.npy", array)
    x, stacked, y, rows, column, turned, few = (folder / f"{n}.npy" for n in files)
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", folder / "one")
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "--shape", "image=4x1x8x8", "-o",
       folder / "four")
    one = answer("evaluate", folder / "one", "-d", x, "--labels", y, "--mode", "integer")
    check("a column of labels", one == answer("evaluate", folder / "one", "-d", x, "--labels",
                                              column, "--mode", "integer"))
    for data in x, stacked:
        for given in y, rows:
            four = answer("evaluate", folder / "four", "-d", data, "--labels", given,
                          "--mode", "integer")
            check(f"batches of four: {data.name}, {given.name}",
                  four == {**one, "samples": 149, "classified": 596}, four["integer_top1"])
    cut = answer("evaluate", folder / "four", "-d", x, "--labels", y, "-n", "10")
    check("the first labels are those of the first samples",
          (cut["samples"], cut["classified"]) == (10, 40) and cut["float_top1"] > 0.9)
    for given in turned, few:
        qg("evaluate", folder / "four", "-d", x, "--labels", given,
           fails="expected [149,4] or [596] integers: a sample has 4 rows in the first output")
    qg("evaluate", folder / "four", "-d", TEST, "--labels", y,
       fails="its first axis of 599 is no multiple of 4")
    wide = ("--shape", "image=4x1x8x8")
    both = [answer("compare", MODEL, "-b", "trt-int8", "-d", CALIB, "--holdout", x, "--labels",
                   given, *more) for given, more in ((y, ()), (rows, wide))]
    check("compare", both[0]["accuracy"] == both[1]["accuracy"]
          and both[0]["float_top1"] == both[1]["float_top1"])
    ask = ("-d", CALIB, "--holdout", x, "--propose", "0.03%", "-o", folder / "p.yaml", "--labels")
    both = [answer("sensitivity", folder / n, *ask, given)["judged_top1"]
            for n, given in (("one", y), ("four", rows))]
    check("sensitivity", both[0] == both[1], both)
    tuned = answer("tune", folder / "four", "-d", x, "--loss", "labels", "--labels", rows, "-n",
                   "40", "--steps", "4", "-o", folder / "t")
    check("tune", tuned["blocks"] and not any("nan" in str(b) for b in tuned["blocks"]))


def peak(*words):
    """Largest resident memory of a run, in MB; through a small process, because a child
    begins with the pages of its parent."""
    small = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
             "stdout=subprocess.DEVNULL); "
             "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    run = subprocess.run([sys.executable, "-c", small, QG, *map(str, words)],
                         capture_output=True, text=True, check=True)
    return int(run.stdout) / 1024


def check_memory(folder):
    """Twelve layers of 2 MatMul with 1024 x 1024 weights: 96 MB."""
    rng = np.random.default_rng(6)
    nodes, weights, at = [], {}, "x"
    for i in range(12):
        for k in range(2):
            weights[f"w{i}{k}"] = rng.standard_normal((1024, 1024), "f") / np.float32(32)
            nodes.append(helper.make_node("MatMul", [at, f"w{i}{k}"], [f"m{i}{k}"], f"m{i}{k}"))
            nodes.append(helper.make_node("Relu", [f"m{i}{k}"], [f"r{i}{k}"], f"r{i}{k}"))
            at = f"r{i}{k}"
    path = folder / "large.onnx"
    save(path, nodes, weights, {"x": [1, 4, 1024]}, at)
    size = path.stat().st_size / 2**20
    one, *more = "trt-int8 openvino-int8 ncnn-int8 tflite-int8 qnn-dsp-int8".split()
    ask = ("compare", path, "-d", "random:1", "-j", "1", "-b", one)
    single = peak(*ask)
    five = peak(*ask, *[w for b in more for w in ("-b", b)])
    print(f"weights {size:.0f} MB: peak {single:.0f} MB with one backend, {five:.0f} MB with five")
    check("memory does not grow with the backends", five < 1.25 * single)
    check("weights are shared", single < 4.6 * size)


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for test in (check_keep_float, check_pipeline, check_judge, check_labels, check_proposal_labels,
                 check_compare, check_batches, check_memory):
        with tempfile.TemporaryDirectory() as name:
            test(pathlib.Path(name))
    sys.exit(failures > 0)


main()
