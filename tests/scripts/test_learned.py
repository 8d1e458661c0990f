#!/usr/bin/env python3
"""Constants that tune, gptq and bias-correct have learned: every verb compares with the
network before learning, and quantizes the learned constants.  A quantizer that is off
leaves the constant as it was before."""
import pathlib
import sys
import tempfile

from command import answer, qg

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
        for snapshot in gptq, bias, both:
            test_search(root, snapshot)


main()
