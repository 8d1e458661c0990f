#!/usr/bin/env python3
"""Constants that tune, gptq and bias-correct have learned: every verb compares with the
network before learning, and quantizes the learned constants.  A quantizer that is off
leaves the constant as it was before."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import EVERYTHING, answer, qg

MODEL = "configs/models/digits.onnx"
CALIB, TEST = (f"configs/data/digits_{n}.npy" for n in ("calib", "test"))
FOUR = "--set", "trait=compute slot=in1 constant=yes bits=4"


def quantize(out, *words):
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, *FOUR, *words, "-o", out)
    return out


def ask(verb, snapshot, *words):
    return answer(verb, snapshot, "-d", CALIB, *words)


def errors(report):
    return {row["name"]: row["error"] for row in report["errors"]}


def test_one_error(snapshot):
    """The error of the whole network is the same number whoever gives it."""
    want = ask("analyse", snapshot)["errors"][0]["error"]
    cause = ask("analyse", snapshot, "--by", "cause")
    got = {"cause": cause["error"], "price": ask("price", snapshot)["network"]}
    for direction in "only", "all-but":
        got[direction] = ask("sensitivity", snapshot, "--direction",
                             direction)["all_quantized"]
    print(snapshot.name, want, got)
    assert set(got.values()) == {want}, (snapshot, want, got)
    assert cause["left"] == 0, cause


def test_parts(snapshot):
    """Only what differs is run again: the same numbers as by running the network."""
    for by in "node", "group":
        for direction in "only", "all-but":
            words = "--by", by, "--direction", direction
            parts, whole = (errors(ask("sensitivity", snapshot, *words, *more))
                            for more in ((), ("--whole",)))
            assert parts == whole, (snapshot, words, parts, whole)


def test_untouched(plain, learned):
    """Alone, what quantizes activations does as before learning."""
    before, after = (errors(ask("sensitivity", s)) for s in (plain, learned))
    same = [n for n in before if n.startswith("relu") and before[n] == after[n]]
    assert len(same) == 7, (before, after)
    assert before["conv0"] != after["conv0"], (before, after)


def test_search(root, snapshot):
    """Trials begin with the constants before learning: the snapshot is made again."""
    found = ask("search", snapshot, "--holdout", TEST, "--budget", "bits=6", "-o",
                root / "policy.yaml")["policies"][-1]
    want = answer("analyse", snapshot, "-d", TEST)["errors"][0]["error"]
    assert found["policy"] == "snapshot" and abs(found["judged_nsr"] - want) < 1e-9, (
        snapshot, found, want)


def network(root, seed, tied):
    """MatMul and Add of a constant, which trt-int8 fuses and bias-correct learns; or one
    weight that several blocks read."""
    r, h = np.random.default_rng(seed), onnx.helper
    if tied:
        constants = {"w": r.normal(0, .4, (8, 8)), "v": r.normal(0, .5, (8, 4))}
        nodes, x = [], "x"
        for i in range(6):
            nodes += [h.make_node("MatMul", [x, "w"], [f"m{i}"], f"m{i}"),
                      h.make_node("Tanh", [f"m{i}"], [f"t{i}"], f"t{i}")]
            x = f"t{i}"
    else:
        constants = {"w": r.normal(0, .5, (8, 8)), "b": r.normal(0, .5, 8),
                     "v": r.normal(0, .5, (8, 4))}
        nodes, x = [h.make_node("MatMul", ["x", "w"], ["m"], "m"),
                    h.make_node("Add", ["m", "b"], ["a"], "a")], "a"
    nodes.append(h.make_node("MatMul", [x, "v"], ["y"], "y"))
    x, y = (h.make_tensor_value_info(n, 1, [1, size]) for n, size in (("x", 8), ("y", 4)))
    path, data = root / f"net{seed}{tied}.onnx", [root / f"{n}{seed}.npy" for n in "ch"]
    onnx.save(h.make_model(h.make_graph(
        nodes, "g", [x], [y], [onnx.numpy_helper.from_array(w.astype("f4"), n)
                               for n, w in constants.items()]),
        opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    for where, count in zip(data, (32, 64)):
        np.save(where, r.normal(.5, 1, (count, 1, 8)).astype("f4"))
    return path, *data


def judge(snapshot, data, holdout, method, out):
    """What tune says of a holdout is what analyse shows there."""
    report = answer("tune", snapshot, "-d", data, "--holdout", holdout, "--method", method,
                    "--steps", 400, "-o", out)
    shown = [answer("analyse", s, "-d", holdout, "--kernels", "reference")["errors"][0]["error"]
             for s in (snapshot, out)]
    said = report["before"], report["after"]
    print(f"{out.name}: tune {said}, analyse {shown}")
    assert np.allclose(said, shown, rtol=1e-6), (method, report, shown)


def test_learned_before(root):
    """Constants that were learned before, and that a block reads without training them, are
    in the float network of tune what they were."""
    for seed in (0, 4):
        model, data, holdout = network(root, seed, False)
        start = root / f"corrected{seed}"
        qg("quantize", model, "-b", "trt-int8", "-d", data, "--set", "slot=weight bits=3",
           "--set", "pass=bias-correct run=yes", "-o", start)
        for method in ("lsq", "adaround", "brecq"):
            judge(start, data, holdout, method, root / f"{method}{seed}")
    for seed in (0, 5):
        model, data, holdout = network(root, seed, True)
        start, first = root / f"tied{seed}", root / f"first{seed}"
        qg("quantize", model, "-b", "trt-int8", "-d", data, "--set", "slot=weight bits=3",
           "-o", start)
        report = answer("tune", start, "-d", data, "--loss", "mse", "--steps", 600, "--lr",
                        "0.02", "-o", first)
        assert report["changed"], report
        judge(first, data, holdout, "lsq", root / f"second{seed}")


def main():
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        plain = quantize(root / "plain")
        gptq = quantize(root / "gptq", "--set", "pass=gptq run=yes")
        bias = quantize(root / "bias", "--set", "pass=bias-correct run=yes")
        both = quantize(root / "both", "--set", "pass=gptq run=yes", "--set",
                        "pass=bias-correct run=yes")
        lsq, rounded, again = (root / n for n in ("lsq", "adaround", "again"))
        words = "tune", "-d", CALIB, "--steps", 200
        qg(*words, plain, "-o", lsq)
        qg(*words, plain, "--method", "adaround", "-o", rounded)
        qg(*words, bias, "-o", again)
        for snapshot in gptq, bias, both, lsq, rounded, again:
            test_one_error(snapshot)
            test_parts(snapshot)
        test_untouched(plain, gptq)
        test_untouched(plain, rounded)
        for snapshot in (gptq, bias, both) if EVERYTHING else (both,):
            test_search(root, snapshot)
        test_learned_before(root)


main()
