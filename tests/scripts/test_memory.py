#!/usr/bin/env python3
"""Memory is bounded: models of a few bytes that ask for gigabytes, packed arrays and
statistics end with exit status 1 and a message that names node and size, and the
process never holds much more than --max-mem."""
import hashlib
import itertools
import multiprocessing
import os
import pathlib
import resource
import subprocess
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

from command import EVERYTHING

QG = os.environ.get("QG", "build/qg")
ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "configs/models/digits.onnx")
LIMIT, BASE = 200, 100  # MB: of --max-mem; code and libraries, also under sanitizers
F, I = TensorProto.FLOAT, TensorProto.INT64
complaints, figures = [], []


def measured(words, cap=True):
    """(exit status, stderr, MB at most, seconds)"""
    words = [QG, *map(str, words)] + (["--max-mem", f"{LIMIT}M"] if cap else [])
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as error:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=error)
        _, status, use = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        error.seek(0)
        return (process.returncode, error.read(), use.ru_maxrss / 1000,
                time.monotonic() - begin)


def refused(name, words, *texts, most=LIMIT + BASE, cap=True):
    status, error, peak, seconds = measured(words, cap)
    figures.append(peak)
    if status != 1 or peak > most or seconds > 20 or \
            not all(t in error for t in texts):
        complaints.append(f"{name}: exit {status}, {peak:.0f} MB, {seconds:.1f} s, "
                          f"{error.strip()[:300]!r}; expected 1, at most {most} MB, "
                          f"{texts}")


def accepted(name, words, cap=True):
    status, error, peak, _ = measured(words, cap)
    if status != 0:
        complaints.append(f"{name}: exit {status}, {peak:.0f} MB, {error.strip()[:300]!r}")


def constant(name, values, kind="i8"):
    return numpy_helper.from_array(np.array(values, kind), name)


# One node 'big' each: operator, arrays of its inputs after x, attributes.
GIGA = 1 << 30
ROWS = {
    "Expand": ([[GIGA, 1]], {}),
    "Tile": ([[GIGA]], {}),
    "ConstantOfShape": ([[GIGA]], {}),
    "Range": ([0, GIGA, 1], {}),
    "Pad": ([[GIGA, 0]], {}),
    "Resize": ([None, None, [GIGA]], {}),
    "OneHot": ([GIGA, np.float32([0, 1])], {}),
    "MelWeightMatrix": ([np.int64(1 << 14), np.int64(1 << 18), np.int64(16000),
                         np.float32(0), np.float32(8000)], {}),
    "BlackmanWindow": ([np.int64(GIGA)], {}),
    "Upsample": ([np.float32([GIGA])], {}),
    "ConvTranspose": ([np.ones((1, 1, 1), "f")], {"pads": [0, 0],
                                                  "output_shape": [GIGA]}),
    "Conv": ([np.ones((1, 1, 1), "f")], {"pads": [GIGA, GIGA]}),
}
NO_X = {"ConstantOfShape", "Range", "MelWeightMatrix", "BlackmanWindow"}
SHAPE_X = {"ConvTranspose": [1, 1, 1], "Conv": [1, 1, 1]}


def write(path, nodes, inputs, constants, opset=20, functions=()):
    graph = helper.make_graph(
        nodes, "big", [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info("y", F, None)], constants)
    path.write_bytes(helper.make_model(
        graph, ir_version=9, functions=list(functions),
        opset_imports=[helper.make_opsetid("", opset),
                       helper.make_opsetid("f", 1)]).SerializeToString())
    return path


def operator(path, op, at_run_time):
    """Sizes are constants, or (at_run_time) known only when the sample is: hidden
    behind the sample's own zero."""
    values, attributes = ROWS[op]
    nodes, constants, inputs = [], [], [] if op in NO_X else ["x"]
    for i, v in enumerate(values):
        if v is None:
            inputs.append("")
            continue
        constants.append(numpy_helper.from_array(np.asarray(v), f"c{i}"))
        inputs.append(f"c{i}")
        if at_run_time and np.asarray(v).dtype == np.int64:
            nodes.append(helper.make_node("Add", [f"c{i}", "none"], [f"s{i}"]))
            inputs[-1] = f"s{i}"
    if at_run_time or op in NO_X:
        nodes.insert(0, helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0))
        nodes.insert(1, helper.make_node("Mul", ["sum", "zero"], ["fnone"]))
        nodes.insert(2, helper.make_node("Cast", ["fnone"], ["none"], to=I))
        constants.append(numpy_helper.from_array(np.float32(0), "zero"))
    if op == "OneHot":
        nodes.append(helper.make_node("Cast", ["x"], ["ix"], to=I))
        inputs[0] = "ix"
    nodes.append(helper.make_node(op, inputs, ["big0"], "big", **attributes))
    nodes.append(helper.make_node("Cast", ["big0"], ["big1"], to=F))
    nodes.append(helper.make_node("ReduceMax", ["big1"], ["y"], keepdims=0))
    return write(path, nodes, [("x", F, SHAPE_X.get(op, [1]))], constants,
                 9 if op == "Upsample" else 20)


def loop(path):
    """Each round appends the state, which doubles."""
    body = helper.make_graph(
        [helper.make_node("Concat", ["s", "s"], ["t"], "twice", axis=0),
         helper.make_node("Identity", ["c"], ["d"])], "body",
        [helper.make_tensor_value_info("i", I, []),
         helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", F, None)],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []),
         helper.make_tensor_value_info("t", F, None)])
    return write(path, [helper.make_node("Loop", ["n", "go", "x"], ["z"], "big", body=body),
                        helper.make_node("ReduceMax", ["z"], ["y"], keepdims=0)],
                 [("x", F, [1])], [constant("n", 40), constant("go", True, "?")])


def doubling(path):
    names = ["x", *(f"v{i}" for i in range(32))]
    nodes = [helper.make_node("Concat", [a, a], [b], f"twice_{b}", axis=0)
             for a, b in zip(names, names[1:])]
    nodes.append(helper.make_node("ReduceMax", [names[-1]], ["y"], keepdims=0))
    return write(path, nodes, [("x", F, [1])], [])


def multiplied(path):
    """A quantized node, (1, 2^15) times its transpose."""
    return write(path, [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
                        helper.make_node("MatMul", ["t", "x"], ["z"], "big"),
                        helper.make_node("ReduceMax", ["z"], ["y"], keepdims=0)],
                 [("x", F, [1, 1 << 15])], [])


def functions(path, levels):
    """Each function calls the next twice: 2^levels nodes."""
    made = []
    for k in range(levels):
        op, domain = ("Neg", "") if k == levels - 1 else (f"f{k + 1}", "f")
        made.append(helper.make_function(
            "f", f"f{k}", ["a"], ["b"],
            [helper.make_node(op, ["a"], ["m"], domain=domain),
             helper.make_node(op, ["m"], ["b"], domain=domain)],
            [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]))
    return write(path, [helper.make_node("f0", ["x"], ["y"], "call", domain="f")],
                 [("x", F, [1])], [], functions=made)


def test_operators(work):
    for op in ROWS:
        for late in False, True:
            if late and op in ("Conv", "ConvTranspose", "Upsample"):
                continue  # their sizes are no inputs
            name = f"{op} {'late' if late else 'early'}"
            model = operator(work / "m.onnx", op, late)
            refused(name, ["run", model, "-d", "random:1", "-o", work / "o"],
                    "--max-mem", "'big'", " MB")
    refused("Loop", ["run", loop(work / "m.onnx"), "-d", "random:1", "-o", work / "o"],
            "--max-mem", "'twice'", " MB")
    refused("doubling", ["run", doubling(work / "m.onnx"), "-d", "random:1",
                         "-o", work / "o"], "--max-mem", "'twice_v", " MB")


def test_verbs(work):
    """Every verb that runs a network has the limit."""
    model = multiplied(work / "m.onnx")
    data = ["-d", "random:2"]
    for words in (["quantize", model, "-b", "trt-int8", *data, "-o", work / "s"],
                  ["compare", model, "-b", "trt-int8", *data],
                  ["stats", "collect", model, *data, "-o", work / "s.qgs"],
                  ["stats", "doctor", model, *data]):
        refused(words[0], words, "--max-mem", " MB")
    accepted("digits", ["run", DIGITS, "-d", "random:2", "-o", work / "o"])
    for size in "0", "1X", "", "-5", "99999999999999999999G":
        status, error, _, _ = measured(["dump", DIGITS, "--max-mem", size], False)
        if status != 2 or "--max-mem" not in error:
            complaints.append(f"--max-mem {size!r}: {status} {error}")


def test_functions(work):
    model = functions(work / "f.onnx", 29)
    refused("functions", ["dump", model], "(f0)", "1000000", most=BASE)
    refused("functions raised", ["dump", model, "--max-nodes", 2000000], "2000000",
            most=BASE)
    model = functions(work / "f.onnx", 10)
    accepted("functions of 1,024 nodes", ["dump", model])
    refused("functions lowered", ["dump", model, "--max-nodes", 1000], "1000",
            "--max-nodes", most=BASE)


def test_packed(work):
    """npz of 256 MB in 256 KB, of two members that are below 100 x each is not enough."""
    model = write(work / "m.onnx", [helper.make_node("ReduceMax", ["x"], ["y"],
                                                     keepdims=0)],
                  [("x", F, [1, "N"])], [])
    np.savez_compressed(work / "z.npz", x=np.zeros((1, 1 << 26), "f"))
    words = ["run", model, "-d", work / "z.npz", "-o", work / "o"]
    refused("npz", words, "100 x", "--max-ratio", most=BASE, cap=False)
    accepted("npz raised", [*words, "--max-ratio", 2000], cap=False)
    np.savez_compressed(work / "z.npz", x=np.zeros((1, 1 << 20), "f"))
    accepted("npz of 4 MB", words)


def number(x):
    out = b""
    while x > 127:
        out, x = out + bytes([x & 127 | 128]), x >> 7
    return out + bytes([x])


def statistics(path, values):
    """Values without elements: few bytes in the file, histograms in memory."""
    none = np.float32([np.inf, -np.inf]).tobytes()
    text = b"".join(number(0) for _ in range(6))
    out = b"qgstats\n" + (1).to_bytes(4, "little") + text + number(0) + number(values)
    for i in range(values):
        name = f"v{i}".encode()
        out += number(len(name)) + name + number(0) + number(1) + number(2)
        out += none + number(0) * 4
        bins = number(0) * 3
        out += (none + number(0) * 2 + bins) * 16 + bins
    path.write_bytes(out + hashlib.sha256(out).hexdigest().encode())


def test_statistics(work):
    path = work / "s.qgs"
    statistics(path, 20000)
    figures.append(path.stat().st_size / 1e6)
    refused("qgs", ["stats", "show", path], "100 x", "--max-ratio", cap=False, most=700)
    refused("qgs, limit", ["stats", "show", path, "--max-ratio", 5000], "--max-mem")
    statistics(path, 100)
    accepted("qgs of 100 values", ["stats", "show", path])


def write_big(work):
    """In a process of its own: a child begins with the most memory of its parent."""
    n, layers = 2048, 14
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((n, n), "f4"), f"w{i}")
               for i in range(layers)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name=f"m{i}")
             for i in range(layers)]
    ends = [helper.make_tensor_value_info(f"x{i}", F, ["n", n]) for i in (0, layers)]
    graph = helper.make_graph(nodes, "big", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, work / "big.onnx", save_as_external_data=True, location="big.bin")


def test_mapped(work):
    """Weights in a file of their own are in memory once: packed, not mapped or copied too."""
    writer = multiprocessing.Process(target=write_big, args=(work,))
    writer.start()
    writer.join()
    size = (work / "big.bin").stat().st_size / 1e6
    for words in (["run", work / "big.onnx", "-d", "random:4", "-o", work / "big-out"],
                  ["quantize", work / "big.onnx", "-b", "trt-int8", "-d", "random:4",
                   "-o", work / "big"]):
        status, error, peak, _ = measured(words, False)
        print(f"{words[0]}: {size:.0f} MB of weights, {peak:.0f} MB")
        if status != 0 or peak > 1.15 * size + BASE / 2:
            complaints.append(f"{words[0]}: exit {status}, {peak:.0f} MB, {error[:300]!r}; "
                              f"expected at most 1.15 x {size:.0f} MB")


def write_deep(work):
    """Seven convolutions of 1.2 MB each: --max-mem is a matter of what learning keeps."""
    rng = np.random.default_rng(5)
    nodes, weights, last = [], [], "x"
    for i in range(7):
        w = rng.standard_normal((32, 32 if i else 3, 3, 3)).astype("f4") / 17
        weights.append(numpy_helper.from_array(w, f"w{i}"))
        nodes += [helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1] * 4),
                  helper.make_node("Relu", [f"c{i}"], [f"r{i}"])]
        last = f"r{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"]))
    np.save(work / "deep.npy", rng.standard_normal((8, 3, 96, 96)).astype("f4"))
    return write(work / "deep.onnx", nodes, [("x", F, [1, 3, 96, 96])], weights)


# A child begins with the most memory of its parent, which has numpy and onnx here.
SMALL_PARENT = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, use = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), use.ru_maxrss * 1024)
"""


def exact_peak(words):
    """(exit status, stderr, MiB at most) of the process alone"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", SMALL_PARENT, QG, *map(str, words)],
                          check=True, capture_output=True, text=True)
    status, size = map(int, done.stdout.split())
    return status, done.stderr, size / 2**20


def test_peak(work):
    """The process itself stays below --max-mem, whatever the number of threads: what they free
    is given back.  Code and libraries come on top: those of `qg version`, and at most 4 MiB of
    pages that it does not touch."""
    model, data, start = write_deep(work), work / "deep.npy", work / "deep"
    bits = ["--set", "op=Conv slot=in1 bits=4"]
    accepted("deep", ["quantize", model, "-b", "trt-int8", "-d", data, *bits, "-o", start])
    base = exact_peak(["version"])[2]
    if base > 50:
        print("skipped: peaks, since sanitizers keep memory of their own")
        return
    tune = ["tune", start, "--steps", 4, "-o", work / "tuned"]
    rows = [(["run", model, "-o", work / "o"], 24), (["analyse", start], 24),
            (["quantize", model, "-b", "trt-int8", "-o", work / "again"], 24),
            ([*tune, "--method", "brecq"], 48), ([*tune, "--method", "brecq"], 64),
            ([*tune, "--loss", "blocks"], 80), ([*tune, "--loss", "mse"], 48),
            (["search", start, "--budget", "bits=8", "-n", 4, "-o", work / "p.yaml"], 64)]
    asked = itertools.product(rows, (1, 2)) if EVERYTHING else zip(rows, itertools.cycle((2, 1)))
    for (words, limit), threads in asked:
        words = [*words, "-d", data, f"-j{threads}", "--max-mem", f"{limit}M"]
        status, error, peak = exact_peak(words)
        over = peak - base - limit
        print(f"{words[0]} -j{threads} under {limit}M: exit {status}, {over:+.1f} MB")
        if over > 4 or (status != 0 and "--max-mem" not in error):
            complaints.append(f"{words}: exit {status}, {over:.1f} MB above the limit, "
                              f"{error.strip()[:300]!r}; expected at most 4")


def test_places(work):
    """What is read, by name; booleans are copied wherever they lie in the file."""
    model = write(work / "flags.onnx", [helper.make_node("Not", ["flags"], ["n"], "not"),
                                        helper.make_node("Cast", ["n"], ["y"], to=F)],
                  [], [numpy_helper.from_array(np.ones(4000000, bool), "flags")])
    refused("reading", ["run", model, "-d", "random:1", "-o", work / "flags",
                        "--max-mem", "3M"],
            "import: initializer 'flags': memory: 4.0 MB", cap=False)


def main():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    with tempfile.TemporaryDirectory() as work:
        for test in (test_operators, test_verbs, test_functions, test_packed,
                     test_statistics, test_mapped, test_peak, test_places):
            test(pathlib.Path(work))
    for line in complaints:
        print("FAILED:", line)
    print(f"{len(figures)} hostile inputs, {len(complaints)} complaints, "
          f"most memory {max(figures):.0f} MB under --max-mem {LIMIT}M")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
