#!/usr/bin/env python3
"""The operators on codes that ONNX Runtime ran (ort_qlinear.json), as files that qg imports,
translates with the profile of each processor and runs: every code is equal.  What is refused
is listed, and nothing else may be.

    tests/scripts/test_integer_vectors.py [FILE]      default: the subset in tests/data"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ["QG"]
PROFILES = {  # keys of expected outputs, the most specific first
    "onnxruntime-x86-vnni": ["expected"],
    "onnxruntime-x86-avx2": ["expected_x86_avx2", "expected"],
    "onnxruntime-arm": ["expected_aarch64", "expected"],
}
REFUSED = {  # operator: part of the message
    "QGemm": "alpha is",
    "QLinearGlobalAveragePool": "channels_last 1, expected 0",
    "QLinearMatMul": "its codes are computed",
}


def array(t):
    if "hex" in t:
        bits = np.array([int(h, 16) for h in np.ravel(t["hex"])], np.uint32)
        return bits.view(np.float32).reshape(t["shape"])
    return np.array(t["data"], t["dtype"]).reshape(t["shape"])


def info(name, a):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)


def model(case, want):
    """One node; the arrays of its inputs that are no initializers."""
    arrays = {t["name"]: array(t) for t in case["inputs"]}
    fixed = [t["name"] for t in case["inputs"] if t.get("const")]
    fed = {k: v for k, v in arrays.items() if k not in fixed}
    node = helper.make_node(case["op"], list(arrays), ["y"], "n", domain=case["domain"],
                            **case["attributes"])
    graph = helper.make_graph([node], "g", [info(k, v) for k, v in fed.items()],
                              [info("y", want)],
                              [numpy_helper.from_array(arrays[k], k) for k in fixed])
    opsets = [helper.make_opsetid("", 13)]
    if case["domain"]:
        opsets.append(helper.make_opsetid(case["domain"], 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), fed


def run(case, profile, want, folder):
    """Equal codes: True or False; or the message of a refusal."""
    network, fed = model(case, want)
    onnx.save(network, folder / "m.onnx")
    np.savez(folder / "x.npz", **fed)
    done = subprocess.run(
        [QG, "run", folder / "m.onnx", "-d", folder / "x.npz", "-o", folder / "o", "--mode",
         "integer", "--profile", profile, "--require", "integer", "--codes"],
        capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    got = np.load(folder / "o" / "y.npy")
    return got.dtype == want.dtype and got.size == want.size and \
        np.array_equal(got.reshape(want.shape), want)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "tests/data/vectors/ort_qlinear.json"
    count, bad = collections.Counter(), 0
    for case in json.loads(pathlib.Path(path).read_text())["cases"]:
        for profile, keys in PROFILES.items():
            want = array(next(case[k] for k in keys if k in case)[0])
            with tempfile.TemporaryDirectory() as name:
                result = run(case, profile, want, pathlib.Path(name))
            if isinstance(result, str) and REFUSED.get(case["op"], "\0") in result:
                count[case["op"], "refused"] += 1
            elif result is True:
                count[case["op"], "equal"] += 1
            else:
                bad += 1
                print(f"FAILED: {case['name']}, {profile}: {result or 'codes differ'}")
    for (op, what), n in sorted(count.items()):
        print(f"{op:26} {what:8} {n}")
    equal = sum(n for (_, what), n in count.items() if what == "equal")
    if equal < 100:
        print(f"FAILED: {equal} equal, expected at least 100")
        bad += 1
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
