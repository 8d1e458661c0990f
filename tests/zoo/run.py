#!/usr/bin/env python3
"""run -- the zoo through every step of a user, one line per network.

    tests/zoo/run.py [--wide] [--keep DIR] [--write] [--sample | NETWORK...]

With QG=path of `qg` (build/qg) and QG_BUILD=build folder, from the project's root.
--sample runs those that the suite runs, --keep keeps all files, --write puts the table
into docs/zoo.md.  The columns:

    float     largest difference to ONNX Runtime (nothing optimized), relative to the
              largest output: at most 1e-4; float16: 1e-2, since it rounds each value
    quantized compute nodes with a quantized input, of all: of the backend with the
              fewest; below one half qg must have printed why
    nsr       noise to signal in %, per backend, of the worst output: finite.  Behind >
              with the policy for attention masks that qg quantize prints
    qdq       rounded values of the exported ort-int8 file compared on ONNX Runtime's own
              inputs, and elements off by more than a step: none
    ov        OpenVINO loads the openvino-int8 export: openvino-ir, or openvino-fq where
              the other has no layer for an operator or no open dims.  fq=: with the
              samples' shapes, as OpenVINO loads the float network only with them too;
              fq-: without low-precision passes, for a fault of OpenVINO (OV_FAULTS)
    ms, MB    time and peak memory of `qg quantize` for ort-int8

Each failure is printed with the command that repeats it; the exit status is then 1."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    import openvino as ov
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "scripts"))
import agreement
import graph
import detection
import language
import sequence
import segmentation
import vision

BACKENDS = ("trt-int8", "ort-int8", "openvino-int8", "tflite-int8", "xnnpack-int8",
            "qnn-dsp-int8")
MODULES = detection, language, sequence, segmentation, vision
SAMPLE = ("mobilenet_v3", "efficientnet_lite", "yolo_v3_tiny", "ssd_mobilenet", "unet", "edsr",
          "loop_decoder", "diffusion_unet", "silero_vad", "ds_cnn")
COMPUTE = {"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "Attention",
           "FusedMatMul", "Einsum"}
# Networks whose quantized file OpenVINO compiles only with LP_TRANSFORMS_MODE NO.
OV_FAULTS = {
    "detr": "2026.4: 'MatMul_11/DequantizationMultiply contains empty child edge', where "
            "attention over constant queries is rounded",
}
PAGE, MARK = pathlib.Path("docs/zoo.md"), "<!-- tests/zoo/run.py -->"
SAMPLES = 4
LIMITS = {"float32": 1e-4, "float16": 1e-2}


class Failure(Exception):
    pass


# A small process measures the command: the kernel counts the memory of the process that
# starts another into that of the other.
MEASURE = """import os, subprocess, sys, time
start = time.perf_counter()
child = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(child.pid, 0)
with open(sys.argv[1], "w") as f:
    print(os.waitstatus_to_exitcode(status), time.perf_counter() - start,
          usage.ru_maxrss / 1024, file=f)
"""


def qg(*arguments):
    """(stdout, stderr, seconds, MB) of one command."""
    words = [agreement.QG, *map(str, arguments)]
    with tempfile.NamedTemporaryFile() as figures:
        done = subprocess.run([sys.executable, "-S", "-c", MEASURE, figures.name, *words],
                              capture_output=True, text=True)
        status, taken, memory = map(float, figures.read().split())
    if status:
        raise Failure(f"exit {status:.0f}: {done.stderr.strip()[:400]}\n"
                      f"    {' '.join(words)}")
    return done.stdout, done.stderr, taken, memory


def session(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, ["CPUExecutionProvider"])


class Subject:
    """A network on disk, with samples and the folder of its results."""

    def __init__(self, name, path, samples, folder):
        self.name, self.path, self.folder = name, pathlib.Path(path), folder
        folder.mkdir(parents=True, exist_ok=True)
        self.samples, self.data = samples, folder / "samples.npz"
        np.savez(self.data, **samples)
        self.model = onnx.load(path)
        self.limit = LIMITS["float16" if any(
            i.data_type == onnx.TensorProto.FLOAT16
            for i in self.model.graph.initializer) else "float32"]
        self.failed = []
        self.shapes = [word for i in self.model.graph.input
                       if i.name in samples for word in self.first_extent(i)]

    def first_extent(self, fed):
        """--shape of an input whose first open dim is no batch but, say, time."""
        dims = fed.type.tensor_type.shape.dim
        size = self.samples[fed.name].shape[1:]
        if not dims or dims[0].HasField("dim_value") or size[0] == 1:
            return ()
        return "--shape", f"{fed.name}={'x'.join(map(str, size))}"

    def feed(self, i):
        return {name: np.asarray(x[i]) for name, x in self.samples.items()}

    def snapshot(self, backend):
        return self.folder / f"{backend}.snapshot"


def stacked(arrays):
    """Samples of one output; unequal sizes, of a data-dependent output, end to end."""
    return np.stack(arrays) if len({a.shape for a in arrays}) == 1 \
        else np.concatenate([a.ravel() for a in arrays])


def written(folder, name):
    """An output of qg run: one array, or an .npz of samples of unequal sizes."""
    file = folder / f"{agreement.safe(name)}.npy"
    if file.exists():
        return np.load(file)
    several = np.load(file.with_suffix(".npz"))
    return stacked([several[k] for k in several.files])


def float_agrees(s):
    """Largest difference over the largest output."""
    out = s.folder / "float"
    said = qg("run", s.path, "-d", s.data, "--mode", "float", "-o", out, *s.shapes)
    run = session(str(s.path))
    theirs = [run.run(None, s.feed(i)) for i in range(SAMPLES)]
    worst = 0.0
    for k, o in enumerate(run.get_outputs()):
        ours, want = written(out, o.name), stacked([t[k] for t in theirs])
        if ours.shape != want.shape:
            raise Failure(f"{o.name}: shape {ours.shape}, expected {want.shape}\n"
                          f"    {said[0]}")
        differ = np.abs(ours.astype(np.float64) - want).max(initial=0)
        top = np.abs(want.astype(np.float64)).max(initial=0)
        if not np.isfinite(want.astype(np.float64)).all():
            raise Failure(f"{o.name}: the network itself gives NaN or infinity")
        worst = max(worst, differ / top if top else differ)
    if not worst <= s.limit:
        raise Failure(f"differs from ONNX Runtime by {worst:.1e}\n    {agreement.QG} run "
                      f"{s.path} -d {s.data} --mode float -o {out}")
    return worst


def quantized(s, backend):
    """(share of compute nodes, seconds, MB, policy for masks or None)"""
    at = s.snapshot(backend)
    out, err, taken, memory = qg("quantize", s.path, "-b", backend, "-d", s.data, "-o", at,
                                 "--json", *s.shapes)
    policy = json.loads(out).get("mask_policy")
    quant = json.loads((at / "quant.json").read_text())
    nodes = [n for n in quant["nodes"] if n["op"].split(".")[-1] in COMPUTE]
    live = [n for n in nodes if any(i is not None for i in n["in"])
            and n["platform"] == "quantized"]
    share = len(live) / len(nodes) if nodes else 1.0
    if share < 0.5 and not (set(err.lower().split()) & {"quantized", "quantizes"}):
        raise Failure(f"{backend}: silent though {len(live)} of {len(nodes)} compute nodes "
                      f"are quantized\n    {agreement.QG} quantize {s.path} -b {backend} -d "
                      f"{s.data} -o {at}")
    return share, taken, memory, policy


def noise(s, backend, policy):
    """Noise to signal of the worst output, in %, as text; and with the policy."""
    first = f"{measured(s, backend, s.snapshot(backend)):.3f}"
    if not policy:
        return first
    file, at = s.folder / "policy.yaml", s.folder / f"{backend}.policy"
    file.write_text(policy + "\n")
    qg("quantize", s.path, "-b", backend, "-d", s.data, "-o", at, "--policy", file,
       *s.shapes)
    return f"{float(first):.1f}>{measured(s, backend, at):.2f}"


def measured(s, backend, at):
    out, err, _, _ = qg("analyse", at, "-d", s.data, "--by", "graph", "--json")
    errors = [e["error"] for e in json.loads(out)["errors"]]
    if not errors or not all(isinstance(e, (int, float)) and np.isfinite(e)
                             for e in errors):
        raise Failure(f"{backend}: errors {errors}\n    {agreement.QG} analyse {at} -d "
                      f"{s.data} --by graph")
    return 100 * max(errors)


class Records:
    """The records of a snapshot, as agreement.qdq_endpoints reads them."""

    def __init__(self, path):
        self.quant = json.loads((path / "quant.json").read_text())

    def produced(self):
        return {o for n in self.quant["nodes"] for o in n["outputs"]}


def follows(s, backend="ort-int8"):
    """(values compared, elements off by more than a step) on ONNX Runtime's inputs."""
    at, file = s.snapshot(backend), s.folder / "qdq.onnx"
    qg("export", at, "--format", "onnx-qdq", "-o", file, "--placement", "ort")
    model = onnx.load(file)
    endpoints = agreement.qdq_endpoints(Records(at), model.graph)
    names = sorted(set(endpoints.values()))
    known = {o for n in model.graph.node for o in n.output if n.op_type != "QuantizeLinear"}
    names = [v for v in names if v in known]
    seen = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=v) for v in names if v not in seen)
    if not names:
        return 0, 0
    run, files = session(model.SerializeToString()), []
    fed = {i.name: i for i in run.get_inputs()}
    for i in range(SAMPLES):
        feed = {k: v for k, v in s.feed(i).items() if k in fed}
        values = dict(zip(names, run.run(names, feed)))
        files.append(s.folder / f"values{i}.npz")
        keep = {e: values[v] for e, v in endpoints.items() if v in values}
        np.savez(files[-1], **feed, **keep)
    words = [agreement.FOLLOW, "reference", str(at), *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"qdq: exit {done.returncode}: {done.stderr.strip()}\n    "
                      f"{' '.join(words)}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    far = {r["endpoint"]: r["far"] for r in rows if r["far"]}
    if far:
        raise Failure(f"qdq: more than a step apart: {far}\n    {' '.join(words)}")
    return sum(1 for r in rows if r["elements"]), 0


def openvino_loads(s):
    """OpenVINO reads and compiles the export: its own format, "ir", or, where that names an
    operator without a layer or an input with open dims, ONNX with FakeQuantize, "fq"."""
    snapshot, file, form = s.snapshot("openvino-int8"), s.folder / "ov.xml", "ir"
    try:
        qg("export", snapshot, "--format", "openvino-ir", "-o", file)
    except Failure as wrong:
        if not re.search(r"node '.*: .*expected|expected known dims", str(wrong)):
            raise
        file, form = s.folder / "ov.onnx", "fq"
        qg("export", snapshot, "--format", "openvino-fq", "-o", file)
    wrong = compiles(file)
    if not wrong:
        return form
    if compiles(s.path) and not compiles(file, {k: x.shape[1:] for k, x in
                                                s.samples.items()}):
        return form + "="
    if s.name in OV_FAULTS and not compiles(file, None, {"LP_TRANSFORMS_MODE": "NO"}):
        return form + "-"
    raise Failure(f"{form}: {wrong}\n    {file}")


def compiles(file, shapes=None, properties=None):
    """What OpenVINO has against the file, or None."""
    core = ov.Core()
    try:
        model = core.read_model(str(file))
        if shapes:
            model.reshape({i.any_name: list(shapes[i.any_name]) for i in model.inputs})
        core.compile_model(model, "CPU", properties or {})
    except RuntimeError as wrong:
        return str(wrong).strip()[-300:]
    return None


def cell(s, what, *arguments):
    """A value, or None after a failure, which is noted."""
    try:
        return what(s, *arguments)
    except Failure as wrong:
        s.failed.append(f"{what.__name__.replace('_', ' ')}: {wrong}")
    except Exception as wrong:  # a fault of the runtime or of the file
        s.failed.append(f"{what.__name__.replace('_', ' ')}: {type(wrong).__name__}: "
                        f"{str(wrong)[:400]}")
    return None


FORM = "{:18} {:>8} {:>9} " + "{:>9} " * len(BACKENDS) + "{:>5} {:>6} {:>6} {:>5}"
HEAD = FORM.format("network", "float", "quantized", *(b.split("-")[0] for b in BACKENDS),
                   "qdq", "ov", "ms", "MB")


def text(value, form):
    return "FAILED" if value is None else form.format(value)


def cells(s):
    """All cells of one network, as text."""
    plain = cell(s, float_agrees)
    counts, noises = dict.fromkeys(BACKENDS), []
    for b in BACKENDS if plain is not None or s.failed[0].count("differs") else ():
        counts[b] = cell(s, quantized, b)
        noises.append(cell(s, noise, b, counts[b][3]) if counts[b] else None)
    followed = cell(s, follows) if counts["ort-int8"] else None
    loads = cell(s, openvino_loads) if counts["openvino-int8"] else None
    shares = [c[0] for c in counts.values() if c]
    taken = counts["ort-int8"] or (None, None, None)
    return [
        s.name, text(plain, "{:.1e}"), text(min(shares) if shares else None, "{:.0%}"),
        *(text(v, "{}") for v in noises or [None] * len(BACKENDS)),
        text(followed and followed[0], "{}"), text(loads, "{}"),
        text(taken[1] and 1e3 * taken[1], "{:.0f}"), text(taken[2], "{:.0f}")]


def write(rows):
    """Into the page, behind the mark."""
    head = ["network", "float", "quantized", *BACKENDS, "qdq", "ov", "ms", "MB"]
    lines = [f"onnxruntime {ort.__version__}, openvino {ov.__version__.split('-')[0]}.", "",
             f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}",
             *(f"| {' | '.join(cell.replace('>', ' > ') for cell in row)} |" for row in rows)]
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page[:page.index(MARK)] + "\n".join([MARK, *lines]) + "\n",
                    encoding="utf-8")


def shared():
    """{name: (path, samples)} of the models of ../shared that are there."""
    known = {f"shared-{name}": (path, x) for name, path, x in agreement.models(everything=True)}
    return {n: (p, {onnx.load(p).graph.input[0].name: x[:SAMPLES]})
            for n, (p, x) in known.items()}


def subjects(names, wide, folder, others):
    """The networks of the zoo, then the others."""
    for name in names or [*graph.NETWORKS, *others]:
        path, samples = others.get(name, (folder / f"{name}.onnx", None))
        if samples is None:
            samples = graph.build(name, wide).save(path, SAMPLES)
        yield Subject(name, path, samples, folder / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wide", action="store_true", help="published widths")
    parser.add_argument("--sample", action="store_true", help="the part in the suite")
    parser.add_argument("--keep", metavar="DIR", help="keep all files there")
    parser.add_argument("--write", action="store_true", help="the table of docs/zoo.md")
    parser.add_argument("--list", action="store_true", help="names and kinds")
    parser.add_argument("networks", nargs="*")
    o = parser.parse_args()
    if o.list:
        for name, (_, kind, style, opset, half) in graph.NETWORKS.items():
            print(f"{name:18} {kind:16} {style:7} opset {opset}"
                  f"{' float16' if half else ''}")
        return 0
    missing = [p for p in (agreement.QG, agreement.FOLLOW) if not pathlib.Path(p).exists()]
    if missing:
        print(f"run.py: {' and '.join(missing)}: no such file, expected a build with "
              "-DQG_TESTS=ON: ninja qg tests/follow", file=sys.stderr)
        return 2
    others = {} if o.sample else shared()
    unknown = set(o.networks) - set(graph.NETWORKS) - set(others)
    if unknown:
        parser.error(f"no network {' '.join(sorted(unknown))}; --list prints all")
    failed, rows = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(o.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(HEAD, flush=True)
        for s in subjects(o.networks or (SAMPLE if o.sample else []), o.wide, folder,
                          others):
            rows.append(cells(s))
            print(FORM.format(*rows[-1]), flush=True)
            for wrong in s.failed:
                print(f"  FAILED {wrong}", flush=True)
            failed += [s.name] if s.failed else []
    if o.write:
        write(rows)
    count = len(rows)
    if not count:
        print("no network was run")
    print(f"{count - len(failed)} of {count} networks pass" +
          (f"; repeat: tests/zoo/run.py --keep zoo {' '.join(failed)}" if failed else ""))
    return bool(failed) or not count


if __name__ == "__main__":
    sys.exit(main())
