"""qg stats: the bytes of a statistics file depend on the samples alone: not on workers,
shards, processes, nor on being killed ten times; snapshots made from it are those made
from the samples; observers agree with numpy over the network's own values.

With ../shared at hand the same holds of a real network."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save_model
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

from command import EVERYTHING

QG = os.environ.get("QG", "build/qg")
MODEL, DATA = "configs/models/digits.onnx", "configs/data/digits_test.npy"
REAL = "../shared/models/ultraface-rfb-320.onnx"


def qg(*arguments, fails=None):
    run = subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True)
    if fails is None:
        assert run.returncode == 0, f"{arguments}: {run.stderr}"
    else:
        assert run.returncode == 1 and fails in run.stderr, f"{arguments}: {run.stderr}"
    return run.stdout


def read(path):
    with open(path, "rb") as f:
        return f.read()


def same_bytes_from_any_split(work, model, data, cuts):
    whole = f"{work}/whole.qgs"
    qg("stats", "collect", model, "-d", data, "-o", whole)
    want = read(whole)
    for jobs in (1, 2, 3):
        qg("stats", "collect", model, "-d", data, "-j", jobs, "-o", f"{work}/j.qgs")
        assert read(f"{work}/j.qgs") == want, f"{jobs} workers"
    shards = []
    for a, b in zip(cuts, cuts[1:]):
        shards.append(f"{work}/{a}.qgs")
        qg("stats", "collect", model, "-d", data, "--slice", f"{a}:{b}", "-o", shards[-1])
    for _ in range(4):
        random.shuffle(shards)
        qg("stats", "merge", *shards, "-o", f"{work}/m.qgs")
        assert read(f"{work}/m.qgs") == want, f"merged {shards}"
    qg("stats", "merge", shards[0], shards[1], shards[0], "-o", f"{work}/bad.qgs",
       fails=f"'{shards[0]}' and '{shards[0]}': sample")
    assert not os.path.exists(f"{work}/bad.qgs")
    return whole


def same_bytes_from_processes(work, model, data):
    """Skipped, with a message, where there is no mpirun or qg has no MPI."""
    if not shutil.which("mpirun"):
        print("no mpirun: several processes not tried")
        return
    qg("stats", "collect", model, "-d", data, "-o", f"{work}/single.qgs")
    want = read(f"{work}/single.qgs")
    # as root in a container mpirun asks to be told twice
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    for n in (1, 2, 3):
        run = subprocess.run(["mpirun", "--oversubscribe", "-n", str(n), QG, "stats",
                              "collect", model, "-d", data, "-j", "1", "-o",
                              f"{work}/mpi.qgs"], capture_output=True, text=True, env=env)
        if "built without MPI" in run.stderr:
            print("qg was built without MPI: several processes not tried")
            return
        assert run.returncode == 0, run.stderr
        assert read(f"{work}/mpi.qgs") == want, f"{n} processes"
    command = ["mpirun", "--oversubscribe", "-n", "2", QG, "stats", "collect", model, "-d", data]
    run = subprocess.run([*command, "-o", f"{work}/nowhere/x.qgs"], capture_output=True, text=True,
                         env=env)
    assert run.returncode == 1 and "nowhere/x.qgs" in run.stderr, run.stderr
    print(f"{os.path.basename(model)}: 1, 2 and 3 processes: the same bytes")


def same_bytes_after_kills(work, model, data):
    """Ends by force, at moments that a whole run would have reached."""
    most = 10 if EVERYTHING else 4
    whole, out = f"{work}/unkilled.qgs", f"{work}/killed.qgs"
    start = time.monotonic()
    qg("stats", "collect", model, "-d", data, "-o", whole)
    seconds = time.monotonic() - start
    command = [QG, "stats", "collect", model, "-d", data, "-o", out, "--resume"]
    kills = parts = 0
    while kills < most:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        time.sleep(random.uniform(0.05, 0.7) * seconds)
        process.send_signal(signal.SIGKILL)
        error = process.communicate()[1]
        kills += process.returncode == -signal.SIGKILL
        assert process.returncode in (0, -signal.SIGKILL), error
        parts += os.path.exists(f"{out}.part")
        if os.path.exists(out) and kills < most:  # finished all the same: once more
            assert read(out) == read(whole), "killed and resumed"
            os.remove(out)
    if not os.path.exists(out):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert read(out) == read(whole), "killed and resumed"
    assert not os.path.exists(f"{out}.part")
    print(f"killed {kills} times, {parts} times behind a checkpoint: the same bytes")


def resumed_by_other_numbers(work, model, data):
    """Checkpoints of any number of processes are taken over by any other number; those
    that an end in the middle of this left behind, too.  Kills in between lose nothing."""
    qg("stats", "collect", model, "-d", data, "-o", f"{work}/whole.qgs")
    want, out = read(f"{work}/whole.qgs"), f"{work}/other.qgs"
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    tried = kills = 0

    def command(n):
        alone = [QG, "stats", "collect", model, "-d", data, "-j", "1", "-o", out, "--resume"]
        return alone if n == 1 else ["mpirun", "--oversubscribe", "-n", str(n), *alone]

    def parts():
        return [p for p in os.listdir(work) if p.startswith("other.qgs.part")]

    for left, n in ((("0:100", "150:200", "400:450"), 2), (("0:599", "30:60"), 3),
                    (("100:101", "0:1"), 1), (("5:80", "80:599", "0:5"), 2)):
        for k, slice_ in enumerate(left):
            qg("stats", "collect", model, "-d", data, "--slice", slice_, "-o", f"{work}/p.qgs")
            os.replace(f"{work}/p.qgs", f"{out}.part" + (f".{k}" if k else ""))
        if n > 1 and not shutil.which("mpirun"):
            n = 1
        run = subprocess.run(command(n), capture_output=True, text=True, env=env)
        if "built without MPI" in run.stderr:
            return
        assert run.returncode == 0, (left, n, run.stderr)
        assert read(out) == want and not parts(), (left, n, parts())
        tried += 1
    for name, message in ((".part", "0:100"), (".part.7", "50:150")):
        qg("stats", "collect", model, "-d", data, "--slice", message, "-o", f"{work}/p.qgs")
        os.replace(f"{work}/p.qgs", out + name)
    have = {p: read(f"{work}/{p}") for p in parts()}
    qg("stats", "collect", model, "-d", data, "-o", out, "--resume", fails="other.qgs.part.7")
    assert have == {p: read(f"{work}/{p}") for p in parts()}, "a refused resume keeps them"
    for p in parts():
        os.remove(f"{work}/{p}")
    os.remove(out)
    numbers = (3, 2, 4, 1, 2, 3) if shutil.which("mpirun") else (1, 1, 1)
    for n in numbers:
        process = subprocess.Popen(command(n), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=env, start_new_session=True)
        time.sleep(random.uniform(0.2, 0.9))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += process.returncode == -signal.SIGKILL
        while subprocess.run(["pgrep", "-f", out], capture_output=True).returncode == 0:
            time.sleep(0.05)
    run = subprocess.run(command(2 if len(numbers) > 3 else 1), capture_output=True, text=True,
                         env=env)
    assert run.returncode == 0 and read(out) == want and not parts(), run.stderr
    print(f"resumed by another number of processes: {tried} tried, {kills} kills, 0 lost")


def same_comparison(model, data, stats):
    """qg compare draws the same from statistics as from their samples."""
    answers = []
    for flags in ((), ("--stats", stats)):
        answer = json.loads(qg("compare", model, "-d", data, "-b", "trt-int8", "-b",
                               "tflite-int8", "--observer", "minmax", "--json", *flags))
        for row in answer["variants"]:
            del row["ms"]
        answers.append(answer)
    assert answers[0] == answers[1] and len(answers[0]["variants"]) == 2
    few = json.loads(qg("compare", model, "-d", data, "-n", "2", "-b", "trt-int8",
                        "--stats", stats, "--json"))
    assert few["samples"] == 2, "-n counts the samples that the errors are measured on"


def same_snapshots(work, model, data, stats, backend):
    for observer in ("minmax", "percentile", "percentile,percentile=0.99", "kl", "mse",
                     "moving-average", "aciq-laplace", "aciq-gauss", "kl-published"):
        for source, flags in (("d", ("-d", data)), ("s", ("--stats", stats))):
            qg("quantize", model, "-b", backend, "--observer", observer, *flags,
               "-o", f"{work}/{source}")
        for name in ("quant.json", "model.onnx"):
            assert read(f"{work}/s/{name}") == read(f"{work}/d/{name}"), (observer, name)
    qg("quantize", model, "-b", backend, "--observer", "ppq-percentile", "--stats", stats,
       "-o", f"{work}/no", fails="observer ppq-percentile needs the samples themselves")
    qg("quantize", model, "-b", backend, "--stats", stats, "-n", "3", "-o", f"{work}/no",
       fails="statistics and a number of samples (3) are given")
    qg("quantize", model, "-b", backend, "--observer", "ppq-isotone", "--stats", stats,
       "-o", f"{work}/no", fails="observer ppq-isotone needs the samples themselves (PPQ: "
                                 "the scale that preserves the largest element along an axis)")
    reads = {row["observer"]: row["reads"]
             for row in json.loads(qg("list", "observers", "--json"))["observers"]}
    assert [reads[o] for o in ("kl", "ppq-isotone", "fixed")] == ["statistics", "samples", "nothing"]
    qg("quantize", model, "-b", backend, "--stats", stats, "--set",
       "op=Conv slot=out0 bits=4 observer=mse", "-o", f"{work}/four")


def save_gemms(path, data):
    """Two Gemm with weights as MatMul has them, and alpha and beta."""
    rng = np.random.default_rng(5)
    w = [rng.standard_normal(s).astype(np.float32) for s in ((12, 16), (16,), (16, 4), (4,))]
    tensors = [numpy_helper.from_array(t, f"w{i}") for i, t in enumerate(w)]
    nodes = [helper.make_node("Gemm", ["x", "w0", "w1"], ["h"], "fc0", alpha=0.3, beta=0.7),
             helper.make_node("Relu", ["h"], ["r"], "relu"),
             helper.make_node("Gemm", ["r", "w2", "w3"], ["y"], "fc1")]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", d])
              for n, d in (("x", 12), ("y", 4))]
    graph = helper.make_graph(nodes, "gemms", values[:1], values[1:], tensors)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                 ir_version=8), path)
    np.save(data, rng.standard_normal((40, 12)).astype(np.float32))


def same_snapshots_after_rewrites(work, plain):
    """Backends and options that rewrite the network: statistics of the same graph."""
    model, data, of = f"{work}/gemms.onnx", f"{work}/gemms.npy", f"{work}/of.qgs"
    save_gemms(model, data)
    equalize = ("--set", "pass=equalize run=yes")
    float_fc0 = ("--set", "node=fc0 platform=fp32")
    for network, samples, backend, options in (
            (MODEL, DATA, "metax-int8-c", ()), (MODEL, DATA, "metax-int8-t", ()),
            (MODEL, DATA, "trt-int8", equalize), (model, data, "metax-int8-c", ()),
            (model, data, "ncnn-int8", ()), (model, data, "metax-int8-c", float_fc0)):
        qg("stats", "collect", network, "-b", backend, *options, "-d", samples, "-o", of)
        common = ("quantize", network, "-b", backend, *options, "--observer", "kl")
        qg(*common, "-d", samples, "-o", f"{work}/d")
        qg(*common, "--stats", of, "-o", f"{work}/s")
        for name in ("quant.json", "model.onnx"):
            assert read(f"{work}/s/{name}") == read(f"{work}/d/{name}"), (backend, options)
        qg("stats", "derive", of, "--model", network, "-b", backend, *options)
        qg("stats", "show", of)
    collected = "`qg stats collect -b metax-int8-c` with the same --policy"
    qg("quantize", MODEL, "-b", "metax-int8-c", "--stats", plain, "-o", f"{work}/no",
       fails=collected)
    qg("compare", MODEL, "-d", DATA, "-b", "metax-int8-c", "--stats", plain, fails=collected)
    qg("compare", MODEL, "-d", DATA, "-b", "metax-int8-c", "--stats", plain,
       fails="`compare` and `quantize` also calibrate without --stats")
    qg("stats", "derive", plain, "--model", MODEL, "-b", "metax-int8-c", fails=collected)
    qg("stats", "collect", MODEL, "--set", "op=Conv bits=4", "-d", DATA, "-o", f"{work}/no",
       fails="without a backend, expected the backend")
    qg("stats", "collect", MODEL, "-b", "trt-int9", "-d", DATA, "-o", f"{work}/no",
       fails="trt-int8")


def resumes_only_its_own(work):
    """What FILE.part holds must be of the same data, and of the samples asked for."""
    def leave(*arguments):
        qg("stats", "collect", *arguments, "-o", f"{work}/left.qgs")
        os.replace(f"{work}/left.qgs", f"{work}/r.qgs.part")

    resume = ("stats", "collect", MODEL, "--resume", "-o", f"{work}/r.qgs", "-d")
    for left, again, message in (
            ((MODEL, "-d", DATA), ("random:20",), "r.qgs.part: is of data 'digits_test.npy', "
             "expected 'random:20'"),
            ((MODEL, "-d", DATA, "--slice", "5:40"), (DATA, "--slice", "10:30"),
             "r.qgs.part: contains sample 5, expected samples 10 to 29 only"),
            ((MODEL, "-d", DATA, "--slice", "5:40"), (DATA, "-n", "30"),
             "r.qgs.part: contains sample 39, expected samples 0 to 29 only"),
            (("tests/models/mnist-8.onnx", "-d", "random:3"), ("random:3",), "expected the same")):
        leave(*left)
        qg(*resume, *again, fails=message)
        assert not os.path.exists(f"{work}/r.qgs"), message
    with open(f"{work}/r.qgs.part", "wb") as f:
        f.write(read(MODEL)[:1000])
    qg(*resume, DATA, fails="r.qgs.part: byte 0: no statistics")
    leave(MODEL, "-d", DATA, "--slice", "5:40")
    qg(*resume, DATA)
    qg("stats", "collect", MODEL, "-d", DATA, "-o", f"{work}/left.qgs")
    assert read(f"{work}/r.qgs") == read(f"{work}/left.qgs")


def sentence(told):
    """What the confidence of these intervals, of two standard errors, has to be."""
    error = {row["endpoint"]: (row["high"] - row["low"]) / (row["high"] + row["low"]) / 2
             for row in told["intervals"]}
    worst = max(error, key=error.get)
    most, n = f"{100 * error[worst]:.1f} %", len(error)
    assert told["uncertain"] == sum(e > 0.1 for e in error.values()), (told, error)
    if not told["uncertain"]:
        return f"standard error of {n} scales at most {most} ({worst})"
    return (f"low: {told['uncertain']} of {n} scales depend{'s' * (told['uncertain'] == 1)} on "
            f"few samples (standard error above 10 %, most {worst} with {most}), expected more "
            "samples")


def says_how_far_samples_suffice(work):
    """Sample 40 alone reaches 3; of n equal samples the first is enough, but nothing is known of
    others; of one nothing is known; and the answer of quantize, of its statistics and of derive is one."""
    x = np.tile(np.load(DATA)[:1], (64, 1, 1, 1)).astype(np.float32)
    odd = x.copy()
    odd[40, 0, 0, 0] = 3
    for name, array, after, uncertain in (("one", x[:1], 1, None), ("same", x, 4, 0),
                                          ("odd", odd, 9 * 4, 1), ("three", x[:3], 1, 0)):
        data, stats = f"{work}/{name}.npy", f"{work}/{name}.qgs"
        np.save(data, array)
        collected = qg("stats", "collect", MODEL, "-d", data, "-o", stats)
        alike = name in ("same", "three")
        text = "not known: all samples gave the same ranges" if alike else {
            0: "standard error of ", None: "not known from 1 sample"}.get(uncertain, "low: ")
        assert f"by minmax      {text}" in collected, collected
        quantize = ("quantize", MODEL, "-b", "trt-int8", "--observer", "minmax", "-o", f"{work}/s")
        answers = [json.loads(qg(*quantize, "--json", *flags))
                   for flags in (("-d", data), ("--stats", stats))]
        told = answers[0]
        assert told["confidence"].startswith(text) and told["settled_after"] == after, told
        if uncertain is not None:
            assert (told["uncertain"] > 0) == (uncertain > 0), told
            if not alike and all(row["low"] > 0 for row in told["intervals"]):  # the whole interval
                assert told["confidence"] == sentence(told), (told, sentence(told))
        assert answers[0]["intervals"] == answers[1]["intervals"]
        known = {row["endpoint"]: row for row in answers[0]["intervals"]}
        assert max(row["settled_after"] for row in known.values()) == after
        assert f"\nconfidence           {text}" in qg(*quantize, "-d", data)
        derived = json.loads(qg("stats", "derive", stats, "--model", MODEL, "-b", "trt-int8",
                                "--observer", "minmax", "--json"))["scales"]
        for row in derived:
            assert all(row[key] == known[row["endpoint"]][key]
                       for key in ("low", "high", "settled_after")), row
    first = next(row for row in known.values())
    assert first["low"] == first["high"] > 0, first


def refusals(work, stats):
    qg("quantize", "tests/models/mnist-8.onnx", "-b", "trt-int8", "--stats", stats, "-o",
       f"{work}/no", fails="is of model ")
    qg("stats", "show", stats, "nowhere", fails="no value 'nowhere'")
    qg("stats", "collect", MODEL, "-d", DATA, "--slice", "5:9000", "-o", f"{work}/no",
       fails="samples 5:9000 of 599, expected a part of them")
    qg("stats", "collect", MODEL, "-d", DATA, "--max-mem", "1M", "-o", f"{work}/no",
       fails="--max-mem")
    qg("stats", "collect", MODEL, "-d", DATA, "--channels", "conv9*", "-o", f"{work}/no",
       fails="--channels 'conv9*': matches no value, expected a glob over values")
    qg("quantize", MODEL, "-b", "trt-int8", "--stats", stats, "-o", f"{work}/no", "--set",
       "op=Conv slot=out0 policy=[per-channel,linear,symmetric] axis=1 observer=kl",
       fails="no histograms of its channels (collect --channels), expected them for observer kl")
    many = json.loads(qg("stats", "collect", MODEL, "-d", DATA, "-n", "5", "-j", "999999", "-o",
                         f"{work}/many", "--json"))
    assert many["workers"] == 5 and many["megabytes"] < 100, many
    damaged = bytearray(read(stats))
    damaged[len(damaged) // 2] ^= 1
    with open(f"{work}/damaged.qgs", "wb") as f:
        f.write(damaged)
    qg("stats", "show", f"{work}/damaged.qgs", fails="is damaged")
    assert not os.path.exists(f"{work}/no")


def names_of_any_length(work):
    """What is written is read."""
    try:
        import onnx
    except ImportError as missing:
        print(f"skipped: {missing}")
        return
    model, path = onnx.load(MODEL), f"{work}/long.onnx"
    name, long = "relu0_out", "n" * 1000000
    for node in model.graph.node:
        for names in node.input, node.output:
            names[:] = [long if n == name else n for n in names]
    onnx.save(model, path)
    qg("stats", "collect", path, "-d", DATA, "-n", "2", "-o", f"{work}/long.qgs")
    rows = json.loads(qg("stats", "show", f"{work}/long.qgs", "--json"))["statistics"]
    assert long in [row["value"] for row in rows]


def agrees_with_numpy(work, stats):
    """Inner values as qg run dumps them, all samples at once.  There BatchNormalization
    is a node of its own yet, so values may differ in the last bits."""
    qg("run", MODEL, "-d", DATA, "--dump", "*", "-o", f"{work}/run")
    known = {row["value"]: row
             for row in json.loads(qg("stats", "show", stats, "--json"))["statistics"]}
    derived = json.loads(qg("stats", "derive", stats, "--model", MODEL, "-b", "trt-int8",
                            "--observer", "percentile,percentile=0.99", "--json"))
    scale = {row["value"]: row["scale"][0] for row in derived["scales"]}
    checked = 0
    for name, row in known.items():
        path = f"{work}/run/dump/{name.replace('/', '_').replace(':', '_')}.npy"
        if not os.path.exists(path):
            continue
        x = np.load(path).astype(np.float64)
        assert row["count"] == x.size, name
        assert abs(row["zeros"] - (x == 0).sum()) <= 1e-4 * x.size, name
        assert np.isclose([row["min"], row["max"]], [x.min(), x.max()], rtol=1e-5).all()
        assert np.isclose(row["mean"], x.mean(), rtol=1e-5, atol=1e-6), name
        assert np.isclose(row["deviation"], x.std(), rtol=1e-5), name
        if name in scale:
            low, high = np.quantile(x, [0.01, 0.99])
            want = 2 * max(-low, high, 0) / 255
            assert abs(scale[name] - want) <= 2 * np.abs(x).max() / 2048 / 127.5, name
            checked += 1
    assert checked >= 5, checked
    print(f"{checked} values agree with numpy")


def main():
    seed = int(os.environ.get("SEED", time.time()))
    print(f"seed {seed}")
    random.seed(seed)
    with tempfile.TemporaryDirectory() as work:
        cuts = [0] + sorted(random.sample(range(1, 599), 3)) + [599]
        stats = same_bytes_from_any_split(work, MODEL, DATA, cuts)
        same_bytes_from_processes(work, MODEL, DATA)
        resumed_by_other_numbers(work, MODEL, DATA)
        same_snapshots(work, MODEL, DATA, stats, "trt-int8")
        same_snapshots_after_rewrites(work, stats)
        same_comparison(MODEL, DATA, stats)
        says_how_far_samples_suffice(work)
        refusals(work, stats)
        resumes_only_its_own(work)
        agrees_with_numpy(work, stats)
        names_of_any_length(work)
        if os.path.exists(REAL):
            same_bytes_from_processes(work, REAL, "random:19")
            same_bytes_after_kills(work, REAL, "random:150")
        else:
            same_bytes_after_kills(work, MODEL, "random:20000")


if __name__ == "__main__":
    main()
