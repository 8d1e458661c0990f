#!/usr/bin/env python3
"""LearnedStepSizePass of PPQ 0.6.6 with its defaults beside `qg tune --method lsq`: the same
network, samples and steps, noise over signal of each output on samples that neither has seen.

usage: tests/peers/ppq_tune.py [--write] [--steps N] [--bits 8|4] [--sets N] [NETWORK...]

With QG=path of `qg`, from the project's root.  PPQ_PYTHON is the Python that has ppq 0.6.6 and
torch (as for ppq_goldens.py).  Networks are Ultraface and stand-ins of ../shared; --write
puts the table into docs/learning.md, at its end when there is none.

--sets is the number of sets of samples, each drawn anew; their geometric mean is a line of its
own.

Both start from their own calibration for TensorRT; --bits are those of the weights, -7 to 7 for 4.
PPQ's time is that of the pass alone; ours that of the whole command, reading and writing
included.  Both use two threads, one after the other."""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

from ppq_python import python_with_ppq

QG = os.path.abspath(os.environ.get("QG", "build/qg"))
SHARED = pathlib.Path("../shared/models")
NETWORKS = {"ultraface": SHARED / "ultraface-rfb-320.onnx",
            **{n: SHARED / f"standins/{n}_a.onnx" for n in ("mobilenet", "effnet", "yolo", "vit")}}
DEFAULT = ("ultraface", "mobilenet", "effnet")
COMPUTE = ("Conv", "ConvTranspose", "Gemm", "MatMul")
TEACH, TEST = 32, 32
PAGE = pathlib.Path("docs/learning.md")
BEGIN, END = "<!-- tests/peers/ppq_tune.py -->\n", "<!-- end of ppq_tune.py -->\n"


# --- PPQ, in a Python of its own -----------------------------------------------------------

def narrow(bits):
    """Weights of TensorRT's quantizer with fewer bits."""
    from ppq.core import QuantizationStates
    from ppq.quantization.quantizer import TensorRTQuantizer
    original = TensorRTQuantizer.init_quantize_config

    def init(self, operation):
        config = original(self, operation)
        weights = config.input_quantization_config[1:2]
        if operation.type in COMPUTE and \
                operation.inputs[1].is_parameter:
            for c in weights:
                assert c.state == QuantizationStates.INITIAL
                c.num_of_bits, c.quant_max = bits, 2 ** (bits - 1) - 1
                c.quant_min = -c.quant_max
        return config
    TensorRTQuantizer.init_quantize_config = init


def peer(job):
    """Tunes with PPQ: the seconds of the pass; outputs before and after in job["out"]."""
    import torch
    from ppq import QuantizationSettingFactory
    from ppq.api import quantize_onnx_model
    from ppq.core import TargetPlatform
    from ppq.executor import TorchExecutor
    from ppq.quantization.optim.training import LearnedStepSizePass
    torch.set_num_threads(2)
    torch.manual_seed(0)
    if job["bits"] < 8:
        narrow(job["bits"])
    data = np.load(job["data"])
    batches = [torch.from_numpy(x) for x in data["teach"]]
    found, spent = {}, []
    run = LearnedStepSizePass.optimize

    def timed(self, **more):
        begin = time.monotonic()
        run(self, **more)
        spent.append((time.monotonic() - begin, len(batches)))
    LearnedStepSizePass.optimize = timed
    for name in ("before", "after"):
        setting = QuantizationSettingFactory.default_setting()
        setting.lsq_optimization = name == "after"
        lsq, default = setting.lsq_optimization_setting, LearnedStepSizePass()
        lsq.lr, lsq.block_size, lsq.gamma = default.lr, default.block_size, default.gamma
        lsq.steps, lsq.collecting_device = job["steps"], "cpu"
        graph = quantize_onnx_model(
            onnx_import_file=job["model"], calib_dataloader=batches, calib_steps=len(batches),
            input_shape=list(batches[0].shape), platform=TargetPlatform.TRT_INT8,
            setting=setting, device="cpu", collate_fn=lambda x: x, verbose=0)
        executor = TorchExecutor(graph=graph, device="cpu")
        outputs = [[y.detach().numpy() for y in executor.forward(torch.from_numpy(x))]
                   for x in data["test"]]
        for k, out in enumerate(graph.outputs):
            found[f"{name}:{out}"] = np.stack([o[k] for o in outputs])
    np.savez(job["out"], seconds=spent[0][0], **found)


# --- both ----------------------------------------------------------------------------------

def samples_of(model, number=0):
    """Set `number` of patches with a little noise, as photos have them; open dims of the model
    become 1, and its nodes get names."""
    sys.path.insert(0, "tests/zoo")
    from graph import pictures
    constants = {t.name for t in model.graph.initializer}
    [value] = [i for i in model.graph.input if i.name not in constants]
    dims = value.type.tensor_type.shape.dim
    shape = [d.dim_value if d.dim_value > 0 else 1 for d in dims]
    for dim, size in zip(dims, shape):
        dim.dim_value = size
    for i, node in enumerate(model.graph.node):
        node.name = node.name or f"node{i}"
    draw = np.random.default_rng(6 + number)
    return {n: np.stack([pictures(draw, shape) for _ in range(count)]).astype("f4")
            for n, count in (("teach", TEACH), ("test", TEST))}


def floats(model, x):
    import onnxruntime
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    [name] = [i.name for i in session.get_inputs()]
    names = [o.name for o in session.get_outputs()]
    found = [session.run(names, {name: one}) for one in x]
    return {n: np.stack([f[k] for f in found]) for k, n in enumerate(names)}


def ratio(got, want):
    want = want.astype("f8")
    return float(np.square(got.reshape(want.shape) - want).sum() / np.square(want).sum())


def outputs(root, snapshot, names):
    """Of the simulation, name: array; one file per output, in the order of the network."""
    folder = root / f"{snapshot.name}-run"
    run = subprocess.run([QG, "run", snapshot, "-d", root / "test.npy", "-o", folder, "--json"],
                         check=True, capture_output=True, text=True)
    files = {o["name"]: o["file"] for o in json.loads(run.stdout)["outputs"]}
    return {n: np.load(files[n]) for n in names}


def with_weights(path):
    """Names of the nodes whose second input is a constant of the network."""
    import onnx
    graph = onnx.load(path).graph
    constants = {t.name for t in graph.initializer}
    return [n.name for n in graph.node if n.op_type in COMPUTE and n.input[1] in constants]


def ours(root, path, data, job):
    """The seconds of qg tune, and outputs before and after."""
    np.save(root / "teach.npy", data["teach"][:, 0])
    np.save(root / "test.npy", data["test"][:, 0])
    high = 2 ** (job["bits"] - 1) - 1
    more = [w for name in with_weights(path) for w in
            ("--set", f"node={name} slot=in1 bits={job['bits']} range=[-{high},{high}]")]
    common = ["-d", root / "teach.npy"]
    start = (["import", root / "start.encodings", "--format", "aimet", "--model",
              root / "start.onnx"] if job["imports"] else
             ["quantize", path, "-b", "trt-int8", *common, *(more if job["bits"] < 8 else [])])
    subprocess.run([QG, *start, "-o", root / "before"], check=True, capture_output=True)
    begin = time.monotonic()
    run = subprocess.run([QG, "tune", root / "before", *common, "--method", job["method"],
                          "--steps", str(job["steps"] * job["each"]), "-j2", "--json",
                          "-o", root / "after"], check=True, capture_output=True, text=True)
    report = json.loads(run.stdout)
    return time.monotonic() - begin, root / ("after" if report["changed"] else "before")


def measured(name, number, job, peer_command):
    """For each output, name: noise of the peer before and after, ours before and after, seconds
    of both.  job and command: see compared()."""
    import onnx
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        model = onnx.load(NETWORKS[name])
        data = samples_of(model, number)
        path = root / "model.onnx"
        onnx.save(model, path)
        np.savez(root / "data.npz", **data)
        want = floats(str(path), data["test"])
        job = {**job, "model": str(path), "data": str(root / "data.npz"),
               "out": str(root / "peer.npz")}
        subprocess.run([*peer_command, "--peer", json.dumps(job)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds, tuned = ours(root, path, data, job)
        mine = [outputs(root, s, want) for s in dict.fromkeys((root / "before", tuned))]
        theirs = np.load(root / "peer.npz")
        return {out: (*(ratio(theirs[f"{when}:{out}"], real) for when in ("before", "after")),
                      *(ratio(m[out], real) for m in (mine[0], mine[-1])),
                      float(theirs["seconds"]), seconds) for out, real in want.items()}


def compared(name, sets, job, peer_command):
    """Lines of the table for a network: an output and a set each.  job: bits, steps of the peer,
    each (our steps for one of them), method, imports (start.encodings of the peer, else calibrates
    for trt-int8); the command gets --peer and the job, with the files to read and to write."""
    def line(out, which, cells):
        return (f"| {name} | {job['bits']} | {out} | {which} | "
                + " | ".join(f"{c:.3g}" for c in cells[:4])
                + f" | {cells[4]:.0f} | {cells[5]:.1f} |")
    found = []
    for number in range(sets):
        found.append(measured(name, number, job, peer_command))
        for out, cells in found[-1].items():
            yield line(out, number + 1, cells)
    for out in found[0] if len(found) > 1 else ():
        yield line(out, "mean", np.exp(np.log([f[out] for f in found]).mean(axis=0)))


@contextlib.contextmanager
def table(tool, part):
    """A function that prints and collects lines.  part: where docs/learning.md has the table
    (begin, end, title, script), or None."""
    lines = [f"| network | bits | output | set | {tool} before | after | qg before | after | "
             f"{tool} s | qg s |", "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|"]
    print(*lines, sep="\n")

    def write(line):
        print(line, flush=True)
        lines.append(line)
    yield write
    if not part:
        return
    begin, end, title, script = part
    page = PAGE.read_text()
    if begin not in page:
        page += f"\n## {title}\nBy `{script}`.\n\n{begin}{end}"
    at = page.index(begin) + len(begin)
    text = "\n".join(lines)
    PAGE.write_text(f"{page[:at]}\n{text}\n\n{page[page.index(end, at):]}")


def arguments(steps):
    """Of the command line, as aimet_tune.py has it too; steps: the default."""
    p = argparse.ArgumentParser()
    p.add_argument("networks", nargs="*")
    p.add_argument("--write", action="store_true")
    p.add_argument("--steps", type=int, default=steps)
    p.add_argument("--bits", type=int, choices=(8, 4))
    p.add_argument("--sets", type=int, default=3)
    return p.parse_args()


def main():
    a = arguments(500)
    python = python_with_ppq()
    part = (BEGIN, END, "Beside PPQ", "tests/peers/ppq_tune.py") if a.write else None
    with table("PPQ", part) as write:
        for name in a.networks or DEFAULT:
            for bits in (a.bits,) if a.bits else (8, 4):
                job = {"bits": bits, "steps": a.steps, "each": 1, "method": "lsq",
                       "imports": False}
                for line in compared(name, a.sets, job, [python, __file__]):
                    write(line)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(json.loads(sys.argv[2]))
    else:
        main()
