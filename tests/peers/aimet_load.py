#!/usr/bin/env python3
"""AIMET 2.42 loads the encodings of `qg export --format aimet`, and simulates what we simulate.

usage: tests/peers/aimet_load.py [BACKEND...]

With QG=path of `qg`, from the project's root.  AIMET_PYTHON is the Python that has aimet_onnx
and torch.  The demo network is quantized for each backend and written in the versions that
AIMET's loader takes (0.4.0 is not among them: of it, tests/scripts/test_schemas.py checks the
members).  The model is the one that is written beside the encodings.  A row has

    loaded      encodings that a quantizer of AIMET has, with our scale
    alone       entries of the file without a quantizer of AIMET, which computes there in float
    tied        tensors to which AIMET gives the scale of another one in the file: it has one
                quantizer for inputs and output of Concat, and for both sides of AveragePool,
                whatever the file has, and the last entry wins
    equal       share of the network's outputs with the same bits
    noise       energy of the difference over that of our quantization noise

A quantizer with a scale that its tensors do not have in the file is a failure, and so is noise
above agreement.LIMIT_ENERGY where no tensor is tied."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "scripts"))
from ppq_python import python_with  # noqa: E402

BACKENDS = "aimet-default", "aimet-htp", "trt-int8", "tflite-int8"
VERSIONS = "0.6.1", "1.0.0", "2.0.0"


def tables(document):
    """{name: [entries]} of any version."""
    if "encodings" in document:
        return {e["name"]: e for e in document["encodings"]}
    groups = [document[k] for k in ("activation_encodings", "param_encodings")]
    found = {}
    for group in groups:
        found |= group if isinstance(group, dict) else {e["name"]: e for e in group}
    return found


def scales(entry):
    """The scales of one tensor."""
    if isinstance(entry, list):
        return [e["scale"] for e in entry]
    return np.ravel(entry["scale"] if "scale" in entry else entry["y_scale"]).tolist()


def peer(job):
    """In AIMET's Python: loads, compares the quantizers with the file, runs."""
    import onnx
    from aimet_onnx import QuantizationSimModel
    from aimet_onnx.common.quantsim_config.utils import get_path_for_per_channel_config
    from aimet_onnx.quantsim import load_encodings_to_sim
    document = json.loads(pathlib.Path(job["encodings"]).read_text())
    sim = QuantizationSimModel(onnx.load(job["model"]), param_type="int8", activation_type="int8",
                               config_file=get_path_for_per_channel_config(),
                               providers=["CPUExecutionProvider"])
    load_encodings_to_sim(sim, job["encodings"], strict=False)
    entries, wrong, tied, loaded = tables(document), [], [], 0

    def close(theirs, tensor):
        ours = np.array(scales(entries[tensor]))
        return theirs.shape == ours.shape and np.allclose(theirs, ours, rtol=1e-6, atol=0)
    for name, quantizer in sim.qc_quantize_op_dict.items():
        if not quantizer.enabled or name not in entries:
            continue
        theirs = np.array([e.delta for e in quantizer.get_encodings()])
        loaded += 1
        if close(theirs, name):
            continue
        same = [n for n, q in sim.qc_quantize_op_dict.items() if q is quantizer and n in entries]
        if any(close(theirs, n) for n in same):
            tied.append(name)
        else:
            wrong.append(f"{name}: {theirs[:3]}, the file has {scales(entries[name])[:3]}")
    alone = sorted(entries.keys() - sim.qc_quantize_op_dict.keys())
    [name] = [i.name for i in sim.model.graph().input]
    outputs = np.stack([sim.session.run(None, {name: x})[0] for x in np.load(job["data"])])
    np.save(job["out"], outputs)
    print(json.dumps({"loaded": loaded, "alone": alone, "wrong": wrong, "tied": tied}))


def compared(folder, backend, version, python, samples):
    import agreement
    s = agreement.Snapshot(folder / backend, "configs/models/digits.onnx", backend, samples)
    file, _ = s.export(f"{version}.encodings", "--format", "aimet", "--version", version)
    job = {"encodings": str(file), "model": str(file.with_suffix(".onnx")), "data": str(s.data),
           "out": str(folder / "theirs.npy")}
    run = subprocess.run([python, __file__, "--peer", json.dumps(job)], capture_output=True,
                         text=True, check=False)
    if run.returncode:
        return f"{backend} {version}: {run.stderr.strip()[-400:]}"
    found = json.loads(run.stdout.splitlines()[-1])
    theirs, ours, plain = (x.astype("f8").ravel() for x in (
        np.load(folder / "theirs.npy"), s.outputs("simulate", "reference")[0],
        s.outputs("float")[0]))
    noise = float(np.sum((theirs - ours) ** 2) / np.sum((ours - plain) ** 2))
    print(f"{backend:14} {version:8} {found['loaded']:7} {len(found['alone']):6} "
          f"{len(found['tied']):5} "
          f"{np.mean(theirs == ours):8.4f} {noise:9.2g}", flush=True)
    bad = found["wrong"] + ([] if found["loaded"] else ["nothing was loaded"]) + \
        ([] if noise <= agreement.LIMIT_ENERGY or found["tied"] else [f"noise {noise:.3g}, without quantizers {found['alone']}"])
    return f"{backend} {version}: {bad}" if bad else None


def main():
    import agreement
    python = python_with("AIMET_PYTHON", "import aimet_onnx, torch, onnx")
    samples = next(x for name, _, x in agreement.models() if name == "digits")[:16]
    print(f"{'backend':14} {'version':8} {'loaded':>7} {'alone':>6} {'tied':>5} {'equal':>8} {'noise':>9}")
    with tempfile.TemporaryDirectory() as folder:
        bad = [why for backend in sys.argv[1:] or BACKENDS for version in VERSIONS
               if (why := compared(pathlib.Path(folder), backend, version, python, samples))]
    for why in bad:
        print("FAILED", why)
    return bool(bad)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
