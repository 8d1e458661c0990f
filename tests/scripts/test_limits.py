#!/usr/bin/env python3
"""Limits of the system and of names: more outputs than files can be open, the calls
that they take, names of a megabyte, file names of 250 bytes, a full device, files
that may not grow, statistics of several instruction sets."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from test_faults import build

QG = str(pathlib.Path(os.environ.get("QG", "build/qg")).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "configs/models/digits.onnx")
F = TensorProto.FLOAT
complaints = []


def run(words, limit=None, **environment):
    command = [QG, *map(str, words)]
    if limit:
        command = ["bash", "-c", f'ulimit -n {limit}; exec "$@"', "bash", *command]
    return subprocess.run(command, capture_output=True, text=True, errors="replace",
                          env={**os.environ, **environment})


def expect(what, got, status, *texts):
    if got.returncode != status or not all(t in got.stderr for t in texts):
        complaints.append(f"{what}: exit {got.returncode}, {got.stderr[:600]!r}, "
                          f"expected {status} with {texts}")


def chain(path, names, op="Neg"):
    """x -> names[0] -> names[1] ...; nodes have the names of their outputs."""
    nodes = [helper.make_node(op, [a], [b], b) for a, b in zip(["x", *names], names)]
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("x", F, [1, "N"])],
        [helper.make_tensor_value_info(names[-1], F, None)])
    path.write_bytes(helper.make_model(
        graph, ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


def load(path):
    if path.exists():
        return np.load(path)
    complaints.append(f"{path.name} is missing")
    return np.zeros(6, "f") if path.suffix == ".npy" else {}


def test_open_files(work):
    """1,100 values of samples of one shape, then of two shapes (.npz)."""
    model = chain(work / "m.onnx", [f"v{i:04}" for i in range(1100)])
    np.save(work / "one.npy", np.arange(6, dtype="f").reshape(3, 1, 2))
    (work / "two").mkdir()
    for i, columns in enumerate((2, 2, 3)):
        np.save(work / "two" / f"{i}.npy", np.full((1, columns), i + 1, "f"))
    words = ["run", model, "--dump", "*", "-j", 2]
    expect("1,100 files", run([*words, "-d", work / "one.npy", "-o", work / "o"], 128), 0)
    for i in 0, 1, 1099:
        made = load(work / "o/dump" / f"v{i:04}.npy")
        sign = 1 if i % 2 else -1
        if not np.array_equal(made, sign * np.arange(6, dtype="f").reshape(made.shape)):
            complaints.append(f"v{i:04}.npy: {made.ravel()}")
    expect("1,100 archives", run([*words, "-d", work / "two", "-o", work / "p"], 128), 0)
    for i in 0, 1099:
        made = load(work / "p/dump" / f"v{i:04}.npz")
        sign = 1 if i % 2 else -1
        have = [made[k].tolist() for k in sorted(made)]
        want = [(sign * np.full((1, c), k + 1, "f")).tolist()
                for k, c in enumerate((2, 2, 3))]
        if have != want:
            complaints.append(f"v{i:04}.npz: {have}, expected {want}")
    left = [p.name for p in work.rglob(".qg-*")]
    if left:
        complaints.append(f"temporary files are left: {left[:3]}")


def test_calls_per_file(work):
    """Four times as many files take four times as many calls, not sixteen times."""
    library, counted, calls = build(work, "faults"), work / "calls", []
    np.save(work / "x.npy", np.ones((1, 1, 2), "f"))
    for n in 50, 200:
        model = chain(work / "m.onnx", [f"v{i:03}" for i in range(n)])
        expect(f"{n} files", run(["run", model, "--dump", "*", "-d", work / "x.npy", "-o",
                                  work / f"o{n}"], LD_PRELOAD=library,
                                 QG_FAULT_COUNT=str(counted)), 0)
        calls.append(int(counted.read_text()))
    if not 3 < calls[1] / calls[0] < 5:
        complaints.append(f"50 files take {calls[0]} calls, 200 files {calls[1]}")


def test_long_names(work):
    """A name of 1 MB: verbs work, and messages still end with the reason."""
    long = "n" * 1_000_000
    model = chain(work / "long.onnx", ["a", long])
    np.save(work / "x.npy", np.ones((2, 1, 2), "f"))
    expect("long name", run(["run", model, "-d", work / "x.npy", "-o", work / "l"]), 0)
    data = ["-d", work / "x.npy", "-o", work / "ls"]
    expect("long name", run(["quantize", model, "-b", "trt-int8", *data]), 0)
    expect("long name", run(["explain", work / "ls", long[:100_000]]), 1, "expected")
    expect("long dump", run(["run", model, "-d", work / "x.npy", "-o", work / "l", "--dump",
                             long[:50_000] + "x"]), 1, "matches no value")
    model = chain(work / "bad.onnx", [long], "NoSuchOperator")
    expect("long bad", run(["dump", model]), 1, "is not known")
    graph = onnx.load(chain(work / "dang.onnx", ["y"]))
    graph.graph.node[0].input[0] = long
    onnx.save(graph, work / "dang.onnx")
    expect("long input", run(["dump", work / "dang.onnx"]), 1, "provides")


def test_whole_names(work):
    """Names of 300 bytes that differ at the end are whole in reports: `explain` takes them."""
    stem = "encoder/" + "n" * 300
    network = onnx.load(DIGITS)
    for node in network.graph.node:
        node.name = stem + node.name
    onnx.save(network, work / "whole.onnx")
    data = ["-d", "random:4"]
    expect("quantize", run(["quantize", work / "whole.onnx", "-b", "trt-int8", *data, "-o",
                            work / "ws"]), 0)
    rows = json.loads(run(["sensitivity", work / "ws", "--by", "endpoint", "--json",
                           *data]).stdout)["errors"]
    names = [r["name"] for r in rows]
    if len(set(names)) < 2 or len(set(names)) != len(names):
        complaints.append(f"sensitivity: {len(names)} endpoints have {len(set(names))} names")
    for name in names:
        expect("explain", run(["explain", work / "ws", name]), 0)


def test_whole_names_in_messages(work):
    """Messages hold names of 300 bytes, and a printed remedy can be pasted into --set."""
    stem = "encoder/" + "n" * 300
    network = onnx.load(DIGITS)
    for part in network.graph.node, network.graph.input, network.graph.output:
        for thing in part:
            thing.name = stem + thing.name
            for names in getattr(thing, "input", []), getattr(thing, "output", []):
                names[:] = [stem + name for name in names]
    for constant in network.graph.initializer:
        constant.name = stem + constant.name
    for value in network.graph.value_info:
        value.name = stem + value.name
    model, out = work / "message.onnx", ["-o", work / "ms"]
    onnx.save(network, model)
    x = np.load(ROOT / "configs/data/digits_calib.npy")[:8]
    np.save(work / "digits.npy", x)
    x[3].flat[5] = np.inf
    np.save(work / "inf.npy", x)
    quantize = ["quantize", model, "-b", "trt-int8", *out]
    got = run([*quantize, "-d", work / "inf.npy"])
    expect("infinity", got, 1, f"sample 3 of input '{stem}image' in {work}/inf.npy")
    remedy = re.search(r"'(value=\S+ state=fp32)'", got.stderr)
    expect("remedy", run([*quantize, "-d", work / "digits.npy", "--set",
                          remedy[1] if remedy else "no=remedy"]), 0)
    np.savez(work / "other.npz", **{stem + "imagf": x})
    expect("other input", run([*quantize, "-d", work / "other.npz"]), 1,
           f"'{stem}image'", f"{stem}imagf")
    np.save(work / "wide.npy", x[:, :, :, :-1])
    expect("other shape", run([*quantize, "-d", work / "wide.npy"]), 1, f"'{stem}image' is")
    network.graph.node[1].input[0] = stem + "missing"
    onnx.save(network, model)
    expect("no tensor", run(["dump", model]), 1, f"tensor '{stem}missing', which no node")


def test_long_paths(work):
    """File names of 250 bytes."""
    name = "f" * 246
    model = work / f"{name}.one"
    model.write_bytes(pathlib.Path(DIGITS).read_bytes())
    snapshot = work / ("s" * 250)
    data = ["-d", "random:2"]
    expect("long snapshot", run(["quantize", model, "-b", "trt-int8", *data, "-o",
                                 snapshot]), 0)
    for form, end in ("onnx-qdq", ".onnx"), ("openvino-ir", ".xml"), ("ppq-json", ".json"):
        out = work / (form[0] * (250 - len(end)) + end)
        got = run(["export", snapshot, "--format", form, "-o", out])
        if got.returncode and "only" not in got.stderr:
            expect(f"long {form}", got, 0)
    expect("long run", run(["run", snapshot, *data, "-o", work / ("o" * 250)]), 0)
    stats = work / ("q" * 246 + ".qgs")
    expect("long stats", run(["stats", "collect", model, "-d", "random:2000", "-j", "1",
                              "--kernels", "reference", "-o", stats]), 0)
    expect("too long", run(["stats", "collect", model, *data, "-o",
                            work / ("q" * 256)]), 1, "File name too long")


def test_full_device(work):
    del work
    if not os.path.exists("/dev/full"):
        return
    for words in ["dump", DIGITS], ["list", "ops"], ["help"], ["dump", DIGITS, "--json"]:
        with open("/dev/full", "w") as full:
            got = subprocess.run([QG, *words], stdout=full, stderr=subprocess.PIPE,
                                 text=True)
        expect(f"{words[0]} to a full device", got, 1, "No space left")


def test_file_size(work):
    """A limit of a file's size, as batch systems have, is a full device: nothing is left."""
    np.save(work / "big.npy", np.zeros((1, 1, 4096), "f"))
    model = chain(work / "m.onnx", ["v0", "v1"])
    for words in (["run", model, "-d", work / "big.npy", "--dump", "*", "-o", work / "out"],
                  ["stats", "collect", DIGITS, "-d", "random:4", "-o", work / "s.qgs"],
                  ["quantize", DIGITS, "-b", "trt-int8", "-d", "random:4", "-o", work / "out"]):
        got = subprocess.run(["bash", "-c", 'ulimit -f 4; exec "$@"', "bash", QG, *map(str, words)],
                             capture_output=True, text=True)
        expect(f"{words[0]} with small files", got, 1, "File too large")
        left = [p.name for p in work.iterdir() if p.name not in ("m.onnx", "big.npy")]
        left += [p.name for p in work.rglob("*.npy") if p.name != "big.npy"]
        if left not in ([], ["out"]):
            complaints.append(f"{words[0]} with small files: {left} are left")


def test_instruction_sets(work):
    """oneDNN limited to an older set stands for another machine."""
    first, second = work / "1.qgs", work / "2.qgs"
    words = ["stats", "collect", DIGITS, "-d", "random:8"]
    expect("collect", run([*words, "--slice", "0:4", "-o", first]), 0)
    expect("collect", run([*words, "--slice", "4:8", "-o", second],
                          DNNL_MAX_CPU_ISA="SSE41"), 0)
    if "oneDNN" not in run(["stats", "show", first]).stdout:
        return  # built without it: the same on every machine
    merge = ["stats", "merge", first, second, "-o", work / "m.qgs"]
    expect("merge", run(merge), 1, "kernels", "sse41", "expected the same")
    expect("merge --any-kernels", run([*merge, "--any-kernels"]), 0)
    if "several" not in run(["stats", "show", work / "m.qgs"]).stdout:
        complaints.append("merge --any-kernels: the file does not record it")


def test_many_rules(work):
    """40,000 rules in a file, a child and patches: not quadratic.  Seconds of CPU."""
    rule = "  - {{id: r{}, match: {{op: Conv}}, set: {{bits: 8}}, why: w{}}}\n"
    sourced, plain = ("rules:\n" + "".join(rule.format(i, end) for i in range(40_000))
                      for end in (", source: s", ""))
    less = ", ".join(f"r{i}" for i in range(0, 40_000, 2))
    for name, text in {"bad": "extends: ort-int8\n" + plain.replace(", why: w", ""),
                       "many": "extends: ort-int8\n" + sourced, "patch": plain,
                       "child": f"extends: {work}/many.yaml\n-rules: [{less}]\n" + sourced,
                       }.items():
        (work / f"{name}.yaml").write_text(("" if name == "patch" else f"name: {name}\n") +
                                           text)

    def quantize(*words):
        return subprocess.run(
            ["bash", "-c", 'ulimit -t 10; exec "$@"', "bash", QG, "quantize", DIGITS, "-d",
             "random:1", "-o", str(work / "s"), "-b", *map(str, words)],
            capture_output=True, text=True)

    patch = ["--policy", work / "patch.yaml"]
    expect("bad rules", quantize(work / "bad.yaml"), 1, "bad.yaml:4: rule r0: key 'why'")
    expect("many rules", quantize(work / "many.yaml"), 0)
    expect("a child's rules", quantize(work / "child.yaml"), 0)
    expect("rules of patches", quantize("ort-int8", *patch, *patch), 0)


def main():
    tests = (test_open_files, test_calls_per_file, test_long_names, test_whole_names,
             test_whole_names_in_messages, test_long_paths, test_full_device, test_file_size,
             test_instruction_sets, test_many_rules)
    for test in tests:
        with tempfile.TemporaryDirectory() as work:
            test(pathlib.Path(work))
    for line in complaints:
        print("FAILED:", line)
    print(f"{len(tests)} kinds of limits, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
