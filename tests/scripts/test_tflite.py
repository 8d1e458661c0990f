#!/usr/bin/env python3
""".tflite files: every operator that moves codes against numpy; a snapshot of an import gives
what the file gives; what is wrong in a file is named; a program without flatbuffers says so.

With ../shared also the published keyword-spotting model, tensor by tensor, and the 107
single-operator cases of LiteRT: in mode integer every code is LiteRT's, simulated at most one
step away."""
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
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tflite_file  # noqa: E402  pylint: disable=wrong-import-position
import tflite_networks  # noqa: E402  pylint: disable=wrong-import-position

QG = os.environ.get("QG", "build/qg")
BUILD = pathlib.Path(os.environ.get("QG_BUILD", "build"))
KWS = pathlib.Path("tests/data/tflite/kws_int8.tflite")
GOLDENS = pathlib.Path("../shared/goldens/tflite")
if tflite_file.FLATC is None:
    print("skipped: no flatc")
    sys.exit(77)

failures = []


def check(what, ok):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def qg(*arguments):
    return subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True, check=False)


def run(model, feed, folder, *options):
    """name -> array of every output, or the message."""
    np.savez(folder / "in.npz", **feed)
    shutil.rmtree(folder / "out", ignore_errors=True)
    ran = qg("run", model, "-d", folder / "in.npz", "-o", folder / "out", *options)
    if ran.returncode:
        return ran.stderr.strip()
    return {p.stem: np.load(p) for p in (folder / "out").glob("*.npy")}


def write(network, folder):
    f, inputs, outputs = network()
    path = folder / f"{network.__name__}.tflite"
    f.write(path, inputs, outputs)
    return path, f


def feed_of(f, seed):
    """One sample of codes (or floats) for every input."""
    rng = np.random.default_rng(seed)
    names = {v: k for k, v in tflite_file.TYPES.items()}
    feed = {}
    for i in f.graph["inputs"]:
        t = f.graph["tensors"][i]
        shape, dtype = [1] + t["shape"], np.dtype(names[t["type"]])
        feed[t["name"]] = rng.normal(size=shape).astype(dtype) if dtype.kind == "f" else \
            rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return feed


# --- moves ---

def moved(x):
    """What the network `moves` does, on codes."""
    pad = lambda *widths, value=7: np.pad(x, widths, constant_values=value)
    nearest = lambda n, m: np.floor(np.arange(m) * np.float32(n / m)).astype(int)
    return {"transpose_0": x.transpose(0, 2, 3, 1),
            "pad_1": pad((0, 0), (1, 0), (0, 2), (0, 1)),
            "padv2_2": pad((0, 0), (0, 1), (0, 0), (0, 0), value=200),
            "slice_3": x[:, 1:3, 0:3, 1:2],
            "strided_slice_4": x[0:1, -1::-2, 1:4:2, :],
            "strided_slice_5": x[0:1, 2, :, -1],
            "gather_6": x[:, [3, 0, 3]],
            "expand_dims_7": x[None],
            "squeeze_8": x[0],
            "resize_nearest_neighbor_9": x[:, nearest(4, 3)][:, :, nearest(4, 7)],
            "concatenation_13": np.concatenate([x[:, :, 2:], x[:, :, :2]], 2),
            "pack_14": x[..., ::-1],
            "broadcast_to_15": np.repeat(x[..., 0], 3, axis=0),
            "row": x[:, :1], "rest": x[:, 1:]}


def check_moves(folder):
    path, f = write(tflite_networks.moves, folder)
    feed = feed_of(f, 1)
    want = moved(feed["x"][0])
    got = run(path, feed, folder)
    check(f"moves: {got}", isinstance(got, dict))
    check(f"moves: outputs {sorted(got)}", sorted(got) == sorted(want))
    for name, y in want.items():
        check(f"moves: {name}: {got[name].shape}", np.array_equal(got[name][0], y) and
              got[name].dtype == np.uint8)


def check_snapshots(folder):
    for network in tflite_networks.NETWORKS:
        path, f = write(network, folder)
        snapshot = folder / network.__name__
        done = qg("import", path, "--format", "tflite", "-o", snapshot)
        check(f"{path.name}: import: {done.stderr}", done.returncode == 0)
        feed = feed_of(f, 2)
        direct, again = run(path, feed, folder), run(snapshot, feed, folder)
        check(f"{path.name}: {direct}", isinstance(direct, dict))
        check(f"{path.name}: a snapshot computes something else", isinstance(again, dict) and
              all(np.array_equal(direct[k], again[k]) for k in direct))


def check_means(folder):
    """The mean of a whole picture that keeps its dims is GlobalAveragePool, as an ONNX file
    has it and backends match it; other means are ReduceMean."""
    path, _ = write(tflite_networks.functions, folder)
    text = qg("dump", path).stdout
    found = [len(set(re.findall(rf"\b{op}_\d+\.out0 activated", text))) for op in
             ("GlobalAveragePool", "ReduceMean")]
    check(f"functions: means read as {found}", found == [1, 2])


# --- biases ---

def check_bias_codes(folder):
    """The codes of a bias count, not its scale, which converters round in ways of their own:
    8000001 / 16000003 is rounded down, 8000002 / 16000003 up."""
    for ulps in (-1, 0, 1):
        f = tflite_networks.Network(grid=([1.0], [0]))
        x = f.x("x", [1, 2])
        w = f.tensor("w", "int8", [1, 2], [1 / 8], [0], data=[[1, 2]])
        step = np.float32(1 / 8) * (1 + ulps * np.finfo("f4").eps)
        b = f.tensor("b", "int32", [1], [step], [0], data=[8000001])
        y = f.then("FULLY_CONNECTED", [x, w, b], [1, 1], {}, ([16000003 / 8], [0]))
        f.write(folder / "bias.tflite", [x], [y])
        got = run(folder / "bias.tflite", {"x": np.zeros((1, 1, 2), "i1")}, folder,
                  "--mode", "integer")
        check(f"bias with {ulps} ulps: {got}",
              isinstance(got, dict) and got["fully_connected_0"].item() == 0)


# --- wrong files ---

def tensor(f, name):
    return next(t for t in f.graph["tensors"] if t["name"] == name)


def op(f, k):
    return f.graph["operators"][k]


def custom(f):
    f.model["codes"][0].update(old_code=32, code=32, custom="my_op")


def hybrid(f):
    del tensor(f, "x")["quantization"], tensor(f, "conv_2d_0")["quantization"]
    tensor(f, "x")["type"] = tensor(f, "conv_2d_0")["type"] = 0


def broadcast(f, **shape):
    f.model["codes"][3].update(old_code=127, code=130)
    tensor(f, "reshape_3").update(shape)


WRONG = [  # change of the network `conv`, message
    (lambda f: f.model.update(version=2), "schema version 2, expected 3"),
    (lambda f: f.model["subgraphs"].append(f.graph), "2 subgraphs, expected 1"),
    (lambda f: f.graph["inputs"].append(99), "input 1 is tensor 99, expected one of"),
    (lambda f: f.graph["inputs"].append(0), "input 1 is tensor 0 again"),
    (lambda f: f.graph["outputs"].append(-1), "output 1 is tensor -1, expected one of"),
    (lambda f: f.graph["operators"].pop(), "'softmax_5', is computed by no operator"),
    (lambda f: op(f, 1).update(inputs=[-7, 5, 6]), "operator 1 (DEPTHWISE_CONV_2D): tensor -7"),
    (lambda f: op(f, 0).update(inputs=[12, 1, 2]), "operator 0 (CONV_2D): input 0, tensor 12"),
    (lambda f: op(f, 1).update(outputs=[3]), "operator 1 (DEPTHWISE_CONV_2D): output 0, tensor 3 "
                                             "'conv_2d_0', has a value already"),
    (lambda f: op(f, 0).update(inputs=[0]), "operator 0 (CONV_2D): 1 inputs, expected 2 to 3"),
    (lambda f: op(f, 0).update(outputs=[]), "operator 0 (CONV_2D): 0 outputs, expected 1"),
    (lambda f: op(f, 0).update(code=50), "operator 0: its code is none of the file's"),
    (custom, "operator 0: custom operator 'my_op', expected a builtin one"),
    (lambda f: f.model["codes"][0].update(old_code=16, code=16), "operator 0: builtin operator 16"),
    (lambda f: op(f, 0).update(options_type="Pool2D", options={}),
     "operator 0 (CONV_2D): options of kind 5, expected 1"),
    (lambda f: op(f, 0)["options"].update(padding=7), "padding 7, expected SAME or VALID"),
    (lambda f: op(f, 0)["options"].update(stride_h=0), "strides 0, 2, dilations 1, 1, expected >= 1"),
    (lambda f: op(f, 0)["options"].update(activation=5), "activation 5, expected NONE, RELU"),
    (lambda f: op(f, 4)["options"].update(format=1), "weights format 1, expected DEFAULT"),
    (lambda f: op(f, 5)["options"].update(beta=0.5), "operator 5 (SOFTMAX): beta 0.5, expected 1"),
    (hybrid, "tensor 1 is int8 and output 0 is float32: a hybrid operator"),
    (lambda f: tensor(f, "x").update(is_variable=True), "tensor 0 'x': it is a variable"),
    (lambda f: tensor(f, "w").update(sparsity={}), "tensor 1 'w': it is sparse"),
    (lambda f: tensor(f, "w")["quantization"].update(details_type=1, details=4),
     "tensor 1 'w': it has a custom quantization"),
    (lambda f: tensor(f, "w").update(type=17), "tensor 1 'w': type 17 (INT4), expected FLOAT32"),
    (lambda f: tensor(f, "w").update(type=-3), "tensor 1 'w': type -3 (unknown)"),
    (lambda f: tensor(f, "x").update(shape=[1, -5, 4, 2]), "tensor 0 'x': dimension 1 is -5"),
    (lambda f: tensor(f, "x").update(shape=[2 ** 31 - 1] * 3), "tensor 0 'x': too many elements"),
    (lambda f: tensor(f, "x").update(shape=[1] * 9), "tensor 0 'x': rank 9, expected at most 8"),
    (lambda f: tensor(f, "x").update(shape=[1, 5, 4]), "operator 0 (CONV_2D): tensor 0 has rank 3"),
    (lambda f: tensor(f, "w").update(buffer=99), "tensor 1 'w': its buffer is none of the file's"),
    (lambda f: tensor(f, "w").update(shape=[4, 3, 3, 1]), "'w': 72 bytes of data, expected 36"),
    (lambda f: f.model["buffers"][1].update(offset=4096), "'w': its buffer lies behind"),
    (lambda f: tensor(f, "w")["quantization"].update(scale=[0.1] * 3), "'w': 3 scales and 4 zero"),
    (lambda f: tensor(f, "w")["quantization"].update(axis=9), "'w': 4 scales along axis 9"),
    (lambda f: tensor(f, "w")["quantization"].update(scale=[0, 1, 1, 1]), "'w': scale 0 is 0"),
    (lambda f: tensor(f, "w")["quantization"].update(zero_point=[200, 0, 0, 0]),
     "'w': zero point 0 is 200"),
    (lambda f: tensor(f, "b")["quantization"].update(zero_point=[0, 1, 0, 0]),
     "'b': zero point 1 is 1"),
    (lambda f: tensor(f, "x")["quantization"].update(scale=[1, 2], zero_point=[0, 0]),
     "tensor 0 'x': 2 scales, expected 1 for a tensor that is computed"),
    (lambda f: tensor(f, "x").pop("quantization"), "tensor 0 'x': INT8 without a scale"),
    (lambda f: tensor(f, "conv_2d_0").update(shape=[1, 3, 3, 4]),
     "'conv_2d_0': the operator gives float32[1,4,3,2], expected float32[1,4,3,3]"),
    (lambda f: tensor(f, "reshape_3")["quantization"].update(scale=[0.5]),
     "operator 3 (RESHAPE): tensor 7 has another scale or zero point than output 0"),
    (lambda f: broadcast(f, shape=[2, 8]),
     "operator 3 (BROADCAST_TO): input 1 is not the shape of output 0"),
]


def check_wrong(folder):
    for change, message in WRONG:
        f, f.graph["inputs"], f.graph["outputs"] = tflite_networks.conv()
        change(f)
        path = folder / "wrong.tflite"
        tflite_file.pack(f.model, path)
        done = qg("import", path, "--format", "tflite", "-o", folder / "none")
        check(f"expected '{message}', got: {done.stderr}",
              done.returncode == 1 and message in done.stderr and
              not (folder / "none").exists())
    done = qg("run", KWS, "-d", "random:1", "-o", folder / "out", "--shape", "input_1=2x49x10x1")
    check(f"--shape: {done.stderr}", "has its own shapes" in done.stderr)


# --- the build ---

def check_without_flatbuffers(folder):
    """tflite.c without flatbuffers, linked before the library's."""
    pc = (BUILD / "quantgraph.pc").read_text().splitlines()
    libraries = next(line for line in pc if line.startswith("Libs.private:")).split()[1:]
    program = folder / "qg"
    built = subprocess.run(
        [os.environ.get("CC", "cc"), "-std=c11", "-D_DEFAULT_SOURCE", "-D_POSIX_C_SOURCE=200809L",
         "-DQG_HAVE_TFLITE=0", "-I.", f"-I{BUILD}/include/quantgraph",
         "engine/formats/tflite/tflite.c", *map(str, pathlib.Path("tools").glob("*.c")),
         BUILD / "libqg.a", *libraries, "-o", program],
        capture_output=True, text=True, check=False)
    check(f"without flatbuffers: {built.stderr}", built.returncode == 0)
    done = subprocess.run([program, "import", KWS, "--format", "tflite", "-o", folder / "none"],
                          capture_output=True, text=True, check=False)
    check(f"without flatbuffers: {done.stderr}", done.returncode == 1 and
          "this qg was built without flatbuffers" in done.stderr)


def check_example():
    """The file of docs/from-tflite.md is a seed of the fuzzer."""
    seed = pathlib.Path("tests/fuzz/corpus/tflite/conv.tflite").read_bytes()
    check("docs/examples/conv.tflite is another network than the seed",
          pathlib.Path("docs/examples/conv.tflite").read_bytes() == seed)


def check_configure(folder):
    """CMake goes on where there is no flatbuffers, and where it is not wanted."""
    for option, message in (("-DFLATC=", True), ("-DQG_TFLITE=OFF", False)):
        done = subprocess.run(["cmake", "-S", ".", "-B", folder / "cmake", "-DQG_TESTS=OFF", option],
                              capture_output=True, text=True, check=False)
        check(f"cmake {option}: {done.stdout}{done.stderr}", done.returncode == 0 and
              message == ("flatbuffers not found: .tflite files cannot be read" in done.stdout))
        shutil.rmtree(folder / "cmake")


# --- LiteRT ---

def write_case(case, arrays, path):
    f, number = tflite_file.File(), {}
    for t in case["tensors"]:
        data = arrays[t["array"]] if t.get("constant") else None
        number[t["id"]] = f.tensor(t["name"], t["type"], t["shape"], t["scale"], t["zero_point"],
                                   t["axis"], data)
    o = case["op"]
    inputs = [t for t in case["tensors"] if t["id"] in o["inputs"] and not t.get("constant")]
    f.operator(o["type"], [number.get(i, -1) for i in o["inputs"]],
               [number[i] for i in o["outputs"]], o["attributes"])
    f.write(path, [number[t["id"]] for t in inputs], [number[i] for i in o["outputs"]])
    return {t["name"]: arrays[t["array"]].reshape([1] + t["shape"]) for t in inputs}


def compare_case(case, arrays, folder):
    path = folder / "case.tflite"
    feed = write_case(case, arrays, path)
    want, = (arrays[t["array"]] for t in case["tensors"] if t["id"] == case["op"]["outputs"][0])
    simulated = run(path, feed, folder)
    if case["op"]["attributes"].get("beta", 1) != 1:
        check(f"{case['name']}: {simulated}", "beta 0.5, expected 1" in simulated)
        return False
    check(f"{case['name']}: {simulated}", isinstance(simulated, dict))
    (y,) = simulated.values()
    worst = np.abs(y.reshape(want.shape).astype("f8") - want).max()
    check(f"{case['name']}: simulated {worst} steps away", worst <= 1)
    codes = run(path, feed, folder, "--mode", "integer", "--profile", "tflite-reference",
                "--require", "integer")
    same = isinstance(codes, dict) and \
        all(np.array_equal(y.reshape(want.shape), want) for y in codes.values())
    check(f"{case['name']}: {codes if isinstance(codes, str) else 'integers'}", same)
    return same


def check_cases(folder):
    cases = json.loads((GOLDENS / "ops.json").read_text())["cases"]
    with np.load(GOLDENS / "ops.npz") as arrays:
        equal = sum(compare_case(c, arrays, folder) for c in cases)
    print(f"{equal} of {len(cases)} operators of LiteRT: all codes in mode integer")


def decoded(graph_tensor, array):
    """Codes and the float32 that they stand for, in double and rounded once."""
    scale = np.array(graph_tensor["scale"], "f8")
    if scale.size > 1:
        scale = scale.reshape([-1 if i == graph_tensor["axis"] else 1 for i in range(array.ndim)])
    return (array.astype("f8") * scale).astype("f4")


def check_kws(folder):
    """Grids, weights and biases of every tensor, and the classes of 16 samples."""
    import onnx  # pylint: disable=import-outside-toplevel
    from onnx import numpy_helper  # pylint: disable=import-outside-toplevel
    golden = json.loads((GOLDENS / "kws_int8.json").read_text())
    arrays = np.load(GOLDENS / "kws_int8.npz")
    done = qg("import", KWS, "--format", "tflite", "-o", folder / "kws")
    check(f"kws: {done.stderr}", done.returncode == 0)
    model = onnx.load(str(folder / "kws/model.onnx"))
    ours = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    records = json.loads((folder / "kws/quant.json").read_text())["tqcs"]
    grid = {r["value"]: (np.float32(r["scale"]).tolist(), r["offset"])
            for r in records if r["state"] in ("ACTIVATED", "BAKED")}
    orders = {"CONV_2D": (0, 3, 1, 2), "DEPTHWISE_CONV_2D": (3, 0, 1, 2)}
    weights = {o["inputs"][1]: orders.get(o["type"]) for o in golden["ops"]
               if len(o["inputs"]) > 1}
    names = {"input_1": "input_1_float_0", "Identity": "Identity_float_37"}
    for t in golden["tensors"]:
        if not t["scale"]:
            continue
        name = names.get(t["name"], t["name"])
        check(f"kws: {name}: grid {grid.get(name)}",
              grid[name][0] == np.float32(t["scale"]).tolist() and
              grid[name][1] == t["zero_point"])
        if t["constant"]:
            want = decoded(t, arrays[t["array"]])
            order = weights.get(t["id"])
            check(f"kws: {name}: values",
                  np.array_equal(want.transpose(order) if order else want, ours[name]))
    codes = run(KWS, {"input_1": arrays["act_000"]}, folder)["Identity"]
    want = arrays["act_034"].reshape(codes.shape)
    check("kws: classes", np.array_equal(codes.argmax(-1), want.argmax(-1)))
    explained = qg("explain", KWS, "Softmax_38.out0")
    check(f"kws: explain: {explained.stdout}{explained.stderr}", "0.00390625" in explained.stdout)


def check_kws_integers(folder):
    """Every tensor that the file computes, of 16 samples."""
    golden = json.loads((GOLDENS / "kws_int8.json").read_text())
    arrays = np.load(GOLDENS / "kws_int8.npz")
    np.savez(folder / "in.npz", input_1=arrays["act_000"])
    done = qg("run", KWS, "-d", folder / "in.npz", "-o", folder / "out", "--mode", "integer",
              "--profile", "tflite-reference", "--require", "integer", "--codes", "--dump", "*",
              "--json")
    check(f"kws: {done.stderr}", done.returncode == 0)
    dumps = {d["name"]: np.load(d["file"]) for d in json.loads(done.stdout)["dumps"]}
    elements = 0
    for t in golden["tensors"]:
        if t["constant"] or t["name"] == "input_1":
            continue
        want = arrays[t["array"]]
        got = dumps[t["name"]]
        got = got.reshape(len(want), *got.shape[2:])
        if got.ndim == 4:
            got = got.transpose(0, 2, 3, 1)
        check(f"kws: {t['name']}: {got.dtype}{got.shape}",
              got.dtype == want.dtype and np.array_equal(got.reshape(want.shape), want))
        elements += want.size
    print(f"kws_int8.tflite: {elements} codes of mode integer compared")


def main():
    if "built without flatbuffers" in qg("dump", KWS).stderr:
        print("skipped: qg is built without flatbuffers")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_moves(folder)
        check_snapshots(folder)
        check_bias_codes(folder)
        check_wrong(folder)
        check_means(folder)
        check_example()
        check_configure(folder)
        if "GCOV_PREFIX" not in os.environ:  # else the link needs the flags of the build
            check_without_flatbuffers(folder)
        if GOLDENS.exists():
            check_kws(folder)
            check_kws_integers(folder)
            check_cases(folder)
        else:
            print("without ../shared: LiteRT's cases are left out")
    print(f"{len(tflite_networks.NETWORKS)} networks, {len(WRONG)} wrong files, "
          f"{len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
