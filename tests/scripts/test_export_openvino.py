#!/usr/bin/env python3
"""What we export, OpenVINO's CPU plugin loads and obeys.

For each model, backend and file (FakeQuantize in ONNX; OpenVINO IR), on 32 samples:

  per value   every FakeQuantize on the runtime's own input: none is more than one step
              away, and a code may differ only where that is proved to be a rounding
              error: the plugin multiplies by a reciprocal where we divide, and rounds
              levels that count from the low end (error_bound); the loss report says where
  end to end  energy of (runtime - simulation) at most 0.3 of that of the quantization
              noise (simulation - float), on every output

and for keyword spotting: top-1 agreement at least 99 %, accuracy within 1 %.  With f32
as precision hint; what the plugin does with integer kernels is the column `int8`.

Skipped (77) without openvino.  Models below ../shared are left out when not there."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import openvino as ov
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
SHARED = pathlib.Path("../shared")
SAMPLES = 32
ENERGY, AGREE, ACCURACY = 0.3, 0.99, 0.01
EPSILON = 2.0 ** -24  # of a float32 operation, relative
BACKENDS = {  # options of qg quantize
    "openvino-int8": [],
    "openvino-u8": ["-b", "openvino-int8", "--set", "pass=unsigned-activations run=yes"],
    "ppl-dsp-int8": [],  # asymmetric
    "ncnn-int8": [],  # per layer, narrow
}
FORMATS = {"openvino-fq": "onnx", "openvino-ir": "xml"}
MODELS = {  # name: path, input, range of the samples; digits and kws have their own data
    "digits": ("configs/models/digits.onnx", None),
    "mnist-8": (SHARED / "models/mnist-8.onnx", (0, 255)),
    "ultraface": (SHARED / "models/ultraface-rfb-320.onnx", (-1, 1)),
    "kws": (SHARED / "models/kws_float.onnx", None),
    "mobilenet_a": (SHARED / "models/standins/mobilenet_a.onnx", (-1, 1)),
    "yolo_a": (SHARED / "models/standins/yolo_a.onnx", (0, 1)),
    "vit_a": (SHARED / "models/standins/vit_a.onnx", (-1, 1)),
    "effnet_a": (SHARED / "models/standins/effnet_a.onnx", (-1, 1)),
}
CORE = ov.Core()


def safe(name):
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)


def qg(*arguments):
    run = subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"qg {' '.join(map(str, arguments))}: {run.stderr.strip()}")
    return run.stdout


def data_of(name, path, limits):
    """Calibration and test samples, each [n, *shape of one feed]."""
    if name == "digits":
        calib, test = (np.load(f"configs/data/digits_{k}.npy") for k in ("calib", "test"))
        return calib[:, None], test[:, None]
    if name == "kws":
        x = np.load(SHARED / "data/kws_dev.npz")["input_1"].astype("float32")
        return x[:64, None], x[:, None]
    entry = onnx.load(path, load_external_data=False).graph
    known = {i.name for i in entry.initializer}
    (feed,) = [i for i in entry.input if i.name not in known]
    shape = [d.dim_value or 1 for d in feed.type.tensor_type.shape.dim]
    rng = np.random.RandomState(11)
    low, high = limits
    return tuple((low + (high - low) * rng.rand(SAMPLES, *shape)).astype("float32")
                 for _ in range(2))


def run_qg(target, data, folder, *options):
    qg("run", target, "-d", data, "-o", folder, *options)
    return {f.stem: np.load(f) for f in pathlib.Path(folder).glob("*.npy")}


def compiled(model, integer):
    """f32 everywhere; low precision transformations only when asked for."""
    options = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1"}
    if not integer:
        options["LP_TRANSFORMS_MODE"] = "NO"
    try:
        return CORE.compile_model(model, "CPU", options)
    except RuntimeError:
        options.pop("LP_TRANSFORMS_MODE", None)
        return CORE.compile_model(model, "CPU", options)


def fixed(path, shape):
    model = CORE.read_model(path)
    model.reshape({model.input(0): list(shape)})
    return model


def run_ov(model, samples, integer):
    request = compiled(model, integer).create_infer_request()
    got = []
    for x in samples:
        request.infer([x])
        got.append([o.data.copy() for o in request.outputs] if hasattr(request, "outputs")
                   else [request.get_output_tensor(i).data.copy()
                         for i in range(len(model.outputs))])
    return [np.stack(k) for k in zip(*got)]


def records(snapshot):
    """The record of each rounding endpoint, by the name of its FakeQuantize."""
    quant = json.loads(pathlib.Path(snapshot, "quant.json").read_text())
    kinds = {"in": "input", "out": "output"}
    return {f"{t['node']}/fq_{kinds[t['slot'].rstrip('0123456789')]}_"
            f"{t['slot'].lstrip('inout')}": t for t in quant["tqcs"]}


def error_bound(steps, zero, low, high):
    """How far the plugin's level may lie from x / scale + zero, in steps.

    It computes fma(x, n / (ih - il), -il * n / (ih - il)) with n = high - low and the
    limits il, ih = (low - zero, high - zero) * scale as float32.  Relative errors in
    units of EPSILON: 1 of ih - il from its limits and 1 from itself, 1 of the division;
    the shift has 1 of il and 1 of the product besides; 1 of the fma; ours 1 of x / scale."""
    return EPSILON * (4 * np.abs(steps) + 5 * np.abs(zero - low) + (high - low))


def codes(x, record):
    """Ours: clamp(round(x / scale) + offset); float32 division, ties to even.  The last
    result: where the plugin may round the other way."""
    shape = [1] * x.ndim
    if record["axis"] is not None:
        shape[record["axis"]] = -1
    scale = np.array(record["scale"], "float32").reshape(shape)
    zero = np.array(record["offset"], "float32").reshape(shape)
    low, high = record["range"]
    steps = x.astype("float64") / scale
    boundary = np.abs(steps - np.floor(steps) - 0.5)
    tie = boundary <= error_bound(steps, zero, low, high)
    return np.clip(np.rint(x / scale) + zero, low, high), scale, zero, tie


def per_value(path, samples, snapshot):
    """(share of equal codes, values with codes that differ without a proof, largest
    distance in steps) over all FakeQuantize that do not round a constant, each on the
    runtime's own input."""
    model = fixed(path, samples.shape[1:])
    record = records(snapshot)
    nodes = [op for op in model.get_ordered_ops() if op.get_type_name() == "FakeQuantize"
             and op.input_value(0).get_node().get_type_name() != "Constant"]
    ends = [(model.add_outputs(op.input_value(0))[0], model.add_outputs(op.output(0))[0])
            for op in nodes]
    index = {o: i for i, o in enumerate(model.outputs)}
    names = [op.input_value(1).get_node().get_friendly_name().removesuffix("/low")
             for op in nodes]
    request = compiled(model, False).create_infer_request()
    count, off, unproved = (np.zeros(len(nodes)) for _ in range(3))
    worst = 0.0
    for x in samples:
        request.infer([x])
        for i, pair in enumerate(ends):
            a, b = (request.get_output_tensor(index[o]).data for o in pair)
            want, scale, zero, tie = codes(a, record[names[i]])
            distance = np.abs(np.rint(b / scale) + zero - want)
            count[i] += distance.size
            off[i] += (distance > 0).sum()
            unproved[i] += ((distance > 0) & ~tie).sum()
            worst = max(worst, float(distance.max()))
    wrong = [n for n, u in zip(names, unproved) if u]
    return 1 - off.sum() / max(count.sum(), 1), wrong, worst


def energies(got, simulated, exact):
    """Worst ratio of the energy of the difference to that of the noise."""
    worst = 0.0
    for name, g in got.items():
        s, f = simulated[name], exact[name]
        noise = float(((s - f).astype("float64") ** 2).sum())
        off = float(((g.reshape(s.shape) - s).astype("float64") ** 2).sum())
        worst = max(worst, off / noise if noise else (0.0 if off == 0 else np.inf))
    return worst


def agreement(got, simulated):
    name = next(iter(got))
    n = len(simulated[name])
    a = got[name].reshape(n, -1).argmax(1)
    return float((a == simulated[name].reshape(n, -1).argmax(1)).mean())


def named(model, values):
    return {safe(o.get_any_name()): v for o, v in zip(model.outputs, values)}


def check(name, backend, fmt, folder, samples, outputs, labels):
    """One row of the table: text, and what is wrong with it."""
    file = f"{folder}/{backend}.{FORMATS[fmt]}"
    qg("export", f"{folder}/{backend}", "--format", fmt, "-o", file)
    simulated, exact = outputs
    used = samples if labels is not None else samples[:SAMPLES]
    model = fixed(file, samples.shape[1:])
    got = named(model, run_ov(model, used, False))
    share, wrong, worst = per_value(file, samples[:SAMPLES], f"{folder}/{backend}")
    model = fixed(file, samples.shape[1:])
    integer = named(model, run_ov(model, used[:SAMPLES], True))
    ratio = energies(got, simulated, exact)
    cut = {k: v[:SAMPLES] for k, v in simulated.items()}
    ratio_int = energies(integer, cut, {k: v[:SAMPLES] for k, v in exact.items()})
    top = agreement(got, simulated)
    bad = []
    if wrong or worst > 1:
        bad.append(f"values {wrong[:3]}")
    if ratio > ENERGY:
        bad.append("energy")
    text = (f"{name:12} {backend:14} {fmt:12} {share:9.5%} {worst:4.0f} "
            f"{ratio:7.4f} {top:8.2%} {ratio_int:8.4f}")
    if labels is not None:
        key = next(iter(got))
        right = [float((v[key].reshape(len(labels), -1).argmax(1) == labels).mean())
                 for v in (got, simulated)]
        text += f"   accuracy {right[0]:.3f}, simulated {right[1]:.3f}"
        if top < AGREE or abs(right[0] - right[1]) > ACCURACY:
            bad.append("accuracy")
    return text, bad


def rows(name, folder, formats):
    path, limits = MODELS[name]
    calib, test = data_of(name, path, limits)
    labels = np.load(SHARED / "data/kws_dev.npz")["labels"] if name == "kws" else None
    used = test if labels is not None else test[:SAMPLES]
    np.save(f"{folder}/calib.npy", calib)
    np.save(f"{folder}/test.npy", used)
    exact = run_qg(path, f"{folder}/test.npy", f"{folder}/float")
    for backend in BACKENDS:
        snapshot = f"{folder}/{backend}"
        options = BACKENDS[backend] or ["-b", backend]
        qg("quantize", path, *options, "-d", f"{folder}/calib.npy", "-o", snapshot)
        simulated = run_qg(snapshot, f"{folder}/test.npy", f"{folder}/sim-{backend}")
        for fmt in formats:
            yield check(name, backend, fmt, folder, used, (simulated, exact), labels)


def main():
    formats = json.loads(qg("list", "formats", "--json"))
    known = json.dumps(formats)
    formats = [f for f in FORMATS if f'"{f}"' in known]
    wanted = sys.argv[1:] or list(MODELS)
    bad = done = 0
    print("model        backend        file         equal    steps energy    top-1     int8")
    for name in wanted:
        if not os.path.exists(MODELS[name][0]):
            print(f"{name:12} left out: {MODELS[name][0]} is not there")
            continue
        with tempfile.TemporaryDirectory() as folder:
            for text, faults in rows(name, folder, formats):
                print(text + (f"   FAILED: {', '.join(faults)}" if faults else ""))
                bad += bool(faults)
                done += 1
    return 1 if bad or not done else 0


if __name__ == "__main__":
    sys.exit(main())
