#!/usr/bin/env python3
"""Format qonnx: the executor of the qonnx package computes what the simulation computes.

The outputs of qonnx 1.0.0 for the files of NETWORKS are in tests/data/qonnx/outputs.json.
qonnx needs an older onnx: with an environment of its own in .venv-qonnx
(tests/peers/qonnx_execute.py) the files are run again, and --write writes its outputs.
Also files as Brevitas writes them, and what is refused."""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

PYTHON = pathlib.Path(".venv-qonnx/bin/python")
KEPT = pathlib.Path("tests/data/qonnx/outputs.json")
DIGITS = pathlib.Path("configs/models/digits.onnx")
WEIGHT, ACTIVATION = "op=[Conv,Gemm] slot=weight ", "op=* slot=[input,output] "
NETWORKS = {  # name: backend, --set
    "trt": ("trt-int8",),
    "bits": ("trt-int8", WEIGHT + "bits=3 range=-3,3", ACTIVATION + "bits=5 range=-16,15"),
    "offsets": ("ort-int8",),
    "away": ("trt-int8", ACTIVATION + "rounding=half-away-from-zero"),
    "down": ("trt-int8", ACTIVATION + "rounding=down"),
}
SAMPLES = 4
# All are equal on x86-64.  The executor sums in the order of ONNX Runtime, which may be
# another one elsewhere.  Calibration has other last bits on each instruction set, and so have
# the scales; another code would differ by a hundredth of the largest output.
LEAST_EQUAL, LAST_BITS = 0.95, 1e-6


def samples():
    return next(x for name, _, x in agreement.models() if name == "digits")[:SAMPLES]


def execute(files, x, folder):
    np.savez(folder / "in.npz", x=x)
    subprocess.run([PYTHON, "tests/peers/qonnx_execute.py", folder / "in.npz",
                    folder / "out.npz", *files], check=True)
    found = np.load(folder / "out.npz")
    return {f.stem: found[f.name] for f in files}


def check_file(bad, name, file, report):
    """Quant nodes and nothing of ONNX's own quantizers."""
    model = onnx.load(file)
    ops = [n.op_type for n in model.graph.node]
    if ops.count("Quant") < 15 or "QuantizeLinear" in ops or "DequantizeLinear" in ops:
        bad.append(f"{name}: operators {sorted(set(ops))}")
    if "qonnx.custom_op.general" not in [o.domain for o in model.opset_import]:
        bad.append(f"{name}: {model.opset_import}")
    kinds = {row["lost"] for row in report["losses"]}
    if kinds - {"rounding"}:
        bad.append(f"{name}: lost {kinds}")


def compare(bad, name, theirs, ours):
    equal = float(np.mean(np.abs(theirs - ours) <= LAST_BITS * np.abs(theirs).max()))
    print(f"{name:10} {equal:.4f} equal, largest difference {np.abs(theirs - ours).max():.3g}")
    if equal < LEAST_EQUAL:
        bad.append(f"{name}: {equal:.4f} of the outputs equal")


def networks(bad, folder, live):
    x, files, simulated = samples(), [], {}
    for name, (backend, *sets) in NETWORKS.items():
        s = agreement.Snapshot(folder / name, DIGITS, backend, x,
                               *[w for text in sets for w in ("--set", text)])
        file, report = s.export(f"{name}.onnx", "--format", "qonnx")
        check_file(bad, name, file, report)
        files.append(file)
        simulated[name] = s.outputs("simulate", "reference")[0]
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if live:
        found = execute(files, x, folder)
        if "--write" in sys.argv:
            KEPT.parent.mkdir(parents=True, exist_ok=True)
            KEPT.write_text(json.dumps({k: [float(np.format_float_positional(e)) for e in
                                            v.ravel()] for k, v in found.items()}, indent=1))
        for name in NETWORKS:
            compare(bad, f"{name} live", found[name].reshape(simulated[name].shape),
                    simulated[name])
    else:
        print(f"skipped: the live run, there is no {PYTHON}")
    for name, mine in simulated.items():
        kept = np.array(known.get(name, []), "float32")
        if kept.size != mine.size:
            bad.append(f"{name}: {KEPT} has {kept.size} outputs, expected {mine.size}")
            continue
        compare(bad, name, kept.reshape(mine.shape), mine)


def imports(bad, folder):
    """Files of the fuzzer's corpus: records, provenance, and refusals."""
    corpus = pathlib.Path("tests/fuzz/corpus/qonnx_import")
    agreement.qg("import", corpus / "conv.onnx", "--format", "qonnx", "-o", folder / "conv")
    quant = json.loads((folder / "conv/quant.json").read_text())
    text = json.dumps(quant)
    if "imported from qonnx" not in text or "half-away-from-zero" not in text:
        bad.append("conv: no provenance or rounding in quant.json")
    weight = [t for t in quant["tqcs"] if t["state"] == "BAKED"]
    if len(weight) != 1 or len(weight[0]["scale"]) != 4:
        bad.append(f"conv: {weight}")
    for name, text in (("bipolar", "no record represents its grid"),
                       ("modes", "bitwidth is no constant")):
        try:
            agreement.qg("import", corpus / f"{name}.onnx", "--format", "qonnx", "-o",
                         folder / name)
            bad.append(f"{name}: not refused")
        except RuntimeError as why:
            if text not in str(why):
                bad.append(f"{name}: {why}")


def main():
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        networks(bad, pathlib.Path(folder), PYTHON.exists())
        imports(bad, pathlib.Path(folder))
    for line in bad:
        print("FAILED", line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
