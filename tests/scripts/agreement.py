"""agreement -- measures the agreement of a runtime that loads our file with our
simulation.

Used by test_export_ort.py (and by tests of other formats): a format supplies a
runtime, an object with

    values(feed) -> {name: array}     all values of the runtime, for one sample
    outputs(feed) -> [array]          the network's outputs, as the runtime ships them

and a map from endpoints of the snapshot to names of those values; qdq_endpoints() has it
for graphs with Q and DQ.

Node by node, tests/programs/follow runs each node of the simulation on the runtime's own
inputs; end to end, `qg run` is compared with outputs().  Where the runtime's value before
rounding is known ("conv1.out0.raw" among the endpoints), a code that differs is explained:
our rounding of that value gives the runtime's code, and our own value is within
LAST_BITS of it, so the exact result is a tie up to the last bits of a float sum.  A
value below the limit must be explained: our sums have the runtime's order on x86-64
with AVX2 or AVX-512; elsewhere the order may differ.  A row of the table:

    equal    share of elements of rounded values with the runtime's code: of the worst
             value, since each must reach the limit
    far      elements off by more than one step
    ties     elements of values below the limit that differ, all explained
    energy   of the difference end to end, over that of the quantization noise: of
             the worst output
    top-1    share of samples on which both name the same class
"""
import functools
import hashlib
import json
import os
import pathlib
import subprocess
import zlib

import numpy as np

from command import EVERYTHING

QG = os.environ.get("QG", "build/qg")
FOLLOW = os.path.join(os.environ.get("QG_BUILD", "build"), "tests", "follow")
SHARED = pathlib.Path("../shared")
LIMIT_EQUAL, LIMIT_ENERGY = 0.9999, 0.3
# Rows of runtimes in their default configuration: with integer kernels, where the
# machine supports them.
SHIPPED = "ort", "ort int32", "ort as is, int", "ort as is, float", "ov int8"
LAST_BITS = 1e-3  # steps
CHUNK = 4  # samples whose values are on disk at one time


def cpu_flags():
    known = pathlib.Path("/proc/cpuinfo")
    return set(known.read_text().split()) if known.exists() else set()


def integers_are_exact():
    """Without VNNI, x86-64 adds pairs of u8 x s8 in 16 bits, which saturate; this is
    documented, and its effect depends on the model."""
    flags = cpu_flags()
    return not flags & {"ssse3", "avx2"} or bool(flags & {"avx512_vnni", "avx_vnni"})


def do_not_saturate(options, path):
    """Makes ONNX Runtime compute on uint8 weights where it makes integer kernels of pairs
    of QDQ; those of QLinear operators are as the file has them (and refuse the switch)."""
    import onnx
    nodes = onnx.load(str(path), load_external_data=False).graph.node
    if not any(n.op_type.startswith("QLinear") for n in nodes):
        options.add_session_config_entry("session.x64quantprecision", "1")


def onnxruntime_profile():
    """ONNX Runtime's arithmetic on this machine."""
    if os.uname().machine == "aarch64":
        return "onnxruntime-arm"
    return f"onnxruntime-x86-{'vnni' if integers_are_exact() else 'avx2'}"


def qg(*arguments):
    run = subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"qg {' '.join(map(str, arguments))}: {run.stderr.strip()}")
    return run.stdout


def safe(name):
    """The file, without its suffix, that `qg run` writes for a value."""
    file = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    if len(file) > 200:
        file = f"{file[:180]}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return file


# --- what is compared ---

def pictures(rng, shape):
    """Image-like samples in [-1, 1]: patches of 16 x 16, with a little noise."""
    coarse = rng.uniform(-1, 1, (*shape[:-2], -(-shape[-2] // 16), -(-shape[-1] // 16)))
    patches = np.kron(coarse, np.ones((16, 16)))[..., :shape[-2], :shape[-1]]
    return np.clip(patches + rng.normal(0, 0.05, shape), -1, 1)


def models(seed=int(os.environ.get("SEED", "3")), everything=EVERYTHING):
    """(name, path, samples [n, ...]) of every available model, or of one per kind."""
    standins = SHARED / "models" / "standins"
    known = [
        ("digits", pathlib.Path("configs/models/digits.onnx"), "configs/data/digits_test.npy"),
        ("mnist", SHARED / "models/mnist-8.onnx", (1, 1, 28, 28)),
        ("kws", SHARED / "models/kws_float.onnx", SHARED / "data/kws_dev.npz"),
        ("mobilenet", standins / "mobilenet_a.onnx", (1, 3, 64, 64)),
        ("effnet", standins / "effnet_a.onnx", (1, 3, 64, 64)),
        ("vit", standins / "vit_a.onnx", (1, 3, 32, 32)),
        ("yolo", standins / "yolo_a.onnx", (1, 3, 96, 96)),
        ("ultraface", SHARED / "models/ultraface-rfb-320.onnx", (1, 3, 240, 320)),
    ]
    rng = np.random.default_rng(seed)
    for name, path, data in known:
        if not path.exists():
            print(f"skipped: {path} is not there")
            continue
        if name in ("effnet", "ultraface") and not everything:
            print(f"left out: {name}, which QG_ALL=1 adds")
            continue
        if isinstance(data, tuple):  # the energy of 16 samples of a transformer varies much
            x = pictures(rng, (32 if EVERYTHING or name == "vit" else 16, *data))
        elif str(data).endswith(".npz"):
            x = np.load(data)["input_1"][:, None]
        else:
            x = np.load(data)
            x = x[:, None] if x.ndim == 3 else x
            x = x[:, None]
        yield name, path, x.astype(np.float32)


def share(backends, name, parts):
    """Digits meets all backends, another model one of so many parts of them, each another
    one; with QG_ALL=1 all do."""
    parts = 1 if name == "digits" or EVERYTHING else min(parts, len(backends))
    return list(backends)[zlib.crc32(name.encode()) % parts::parts]


class Snapshot:
    """A folder of `qg quantize`, and the simulation's results."""

    def __init__(self, folder, model, backend, x, *options):
        self.folder, self.x = pathlib.Path(folder), x
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "x.npy"
        np.save(self.data, x)
        self.path = self.folder / "snapshot"
        qg("quantize", model, "-b", backend, "-d", self.data, "-n", 16, "-o", self.path,
           *options)
        self.quant = json.loads((self.path / "quant.json").read_text())
        self.input = next(i for n in self.quant["nodes"] for i in n["inputs"]
                          if i and i not in self.produced() and i not in self.constants())

    def produced(self):
        return {o for n in self.quant["nodes"] for o in n["outputs"]}

    def constants(self):
        import onnx
        return {i.name for i in onnx.load(self.path / "model.onnx").graph.initializer}

    @functools.lru_cache(maxsize=None)
    def outputs(self, mode, kernels="fast"):
        """[per output: [samples, ...]] in file order of the model's outputs."""
        import onnx
        out = self.folder / mode
        qg("run", self.path, "-d", self.data, "--mode", mode, "--kernels", kernels, "-o",
           out)
        names = [o.name for o in onnx.load(self.path / "model.onnx").graph.output]
        return [np.load(out / f"{safe(n)}.npy") for n in names]

    def export(self, name, *options):
        path = self.folder / name
        report = json.loads(qg("export", self.path, "-o", path, "--json", *options))
        return path, report


def qdq_endpoints(snapshot, graph):
    """{endpoint: value name} of an exported ONNX graph with Q and DQ.

    Outputs keep their names; an input is the value read by the node of that name,
    before the reshaping that a newer opset inserted."""
    node = {n.name: n for n in graph.node}
    producer = {o: n for n in graph.node for o in n.output}
    ours = snapshot.produced()

    def unclipped(v):
        """The input of the Clip before Q, which limits the codes to fewer than those of
        the type."""
        return producer[v].input[0] if v.endswith("_clipped") and v not in ours else v

    at = {}
    for n in snapshot.quant["nodes"]:
        for k, v in enumerate(n["outputs"]):
            if v in producer:
                at[f"{n['name']}.out{k}"] = v
                quantize = producer.get(producer[v].input[0]) if producer[v].input else None
                if quantize is not None and quantize.op_type == "QuantizeLinear":
                    at[f"{n['name']}.out{k}.raw"] = unclipped(quantize.input[0])
        for k, v in enumerate(n["inputs"]):
            if n["in"][k] is None or n["name"] not in node \
                    or k >= len(node[n["name"]].input):  # a float bias is added behind
                continue
            now = node[n["name"]].input[k]
            while now in producer and producer[now].op_type in ("Flatten", "Unsqueeze") \
                    and now not in ours:
                now = producer[now].input[0]
            if now in producer and now != v:
                at[f"{n['name']}.in{k}"] = now
    return at


# --- comparing ---

def follow(snapshot, runtime, endpoints, kernels="fast"):
    """{endpoint: counts} over all samples, on the runtime's own inputs.  kernels: as of
    qg run; "reference" sums in the order of ONNX Runtime."""
    total = {}
    for first in range(0, len(snapshot.x), CHUNK):
        files = []
        for i in range(first, min(first + CHUNK, len(snapshot.x))):
            feed = {snapshot.input: snapshot.x[i]}
            values = runtime.values(feed)
            keep = {e: values[v] for e, v in endpoints.items() if v in values}
            files.append(snapshot.folder / f"values{i}.npz")
            np.savez(files[-1], **feed, **keep)
        run = subprocess.run([FOLLOW, kernels, snapshot.path, *files], capture_output=True, text=True)
        for f in files:
            f.unlink()
        if run.returncode:
            raise RuntimeError(run.stderr.strip())
        for line in run.stdout.splitlines():
            row = json.loads(line)
            sums = total.setdefault(row["endpoint"], dict(row, elements=0, equal=0, far=0,
                                                          worst=0.0, rounding=0, apart=0.0))
            for key in ("elements", "equal", "far", "rounding"):
                sums[key] += row[key]
            for key in ("worst", "apart"):
                sums[key] = max(sums[key], row[key])
    return total


def energy(theirs, simulated, plain):
    """Of the difference over that of the quantization noise; the worst output."""
    worst = 0.0
    for a, s, f in zip(theirs, simulated, plain, strict=True):
        noise = float(np.square(s.astype(np.float64) - f).sum())
        differs = float(np.square(a.astype(np.float64) - s).sum())
        worst = max(worst, differs / noise if noise else float(differs > 0))
    return worst


def top1(a, b):
    return float(np.mean(a.reshape(len(a), -1).argmax(1) == b.reshape(len(b), -1).argmax(1)))


def stack(runtime, snapshot):
    each = [runtime.outputs({snapshot.input: x}) for x in snapshot.x]
    return [np.stack(column) for column in zip(*each)]


def explained(counts):
    return counts["explained"] and not counts["rounding"] and counts["apart"] <= LAST_BITS


class Table:
    """Rows model x backend x runtime, and their values below the limits."""

    HEAD = ("model", "backend", "runtime", "values", "equal", "far", "ties", "energy",
            "top-1")
    FORM = "{:11} {:20} {:18} {:>6} {:>9} {:>4} {:>4} {:>9} {:>6}"

    def __init__(self):
        self.bad = []
        self.exact = integers_are_exact()
        if not self.exact:
            print("no VNNI: integer kernels saturate, their rows have no limit")
        print(self.FORM.format(*self.HEAD), flush=True)

    def row(self, name, runtime, nodes, theirs, simulated, plain, limit=LIMIT_ENERGY,
            share=LIMIT_EQUAL, rounds_alike=True):
        """name: (model, backend); nodes: of follow(), None: only end to end; the rest:
        outputs of the runtime, of the simulation, of the float network.  rounds_alike:
        the format can represent the rounding."""
        equal = {e: c["equal"] / max(1, c["elements"]) for e, c in (nodes or {}).items()}
        far = sum(c["far"] for c in (nodes or {}).values())
        e = energy(theirs, simulated, plain)
        few = [at for at, x in equal.items() if x < share]
        ties = sum(nodes[at]["elements"] - nodes[at]["equal"] for at in few)
        cells = (len(nodes), f"{min(equal.values()):.6f}", far, ties) if nodes \
            else ("-",) * 4
        print(self.FORM.format(*name, runtime, *cells, f"{e:.2e}",
                               f"{top1(theirs[0], simulated[0]):.3f}"), flush=True)
        where = " ".join((*name, runtime))
        if nodes is not None and not nodes:
            self.bad.append(f"{where}: no value was compared")
        self.bad += [f"{where}: {at}: {equal[at]:.6f} equal, {nodes[at]}" for at in few
                     if not explained(nodes[at])]
        self.bad += [f"{where}: {at}: we round {c['rounding']} of the runtime's values "
                     "otherwise" for at, c in (nodes or {}).items()
                     if rounds_alike and c["rounding"]]
        if far:
            self.bad.append(f"{where}: {far} elements off by more than one step")
        if not e <= limit and (self.exact or runtime not in SHIPPED):
            self.bad.append(f"{where}: energy of the difference {e:.3f} of the noise")

    def accuracy(self, name, runtime, labels, plain, simulated, theirs, limited=True):
        """The same class on 99 % of the samples, accuracy within 1 %; not `limited`:
        printed only."""
        same = top1(theirs, simulated)
        right = [float(np.mean(y.reshape(len(y), -1).argmax(1) == labels))
                 for y in (plain, simulated, theirs)]
        where = " ".join((*name, runtime))
        print("  {}, {} samples: right {:.3f} in float, {:.3f} simulated, {:.3f} there; "
              "same class {:.3f}".format(where, len(labels), *right, same), flush=True)
        bound = limited and (self.exact or not (runtime == "ort" or runtime.endswith("int8")))
        if bound and (same < 0.99 or abs(right[1] - right[2]) > 0.01):
            self.bad.append(f"{where}: same class {same:.3f}, right {right}")

    def done(self):
        for line in self.bad:
            print("FAILED", line)
        return bool(self.bad)
