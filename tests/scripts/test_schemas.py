#!/usr/bin/env python3
"""Every JSON that qg writes against its schema in configs/schema: the formats on
snapshots of several backends, the reports of the verbs.  Each schema also refuses a
document from which a member was taken, and equal calls give keys in the same order."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
MODEL, DATA = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
SCHEMAS = pathlib.Path("configs/schema")
FORMATS = [("aimet", "--version", v) for v in ("0.4.0", "0.6.1", "1.0.0", "2.0.0")] + [
    (f,) for f in ("tensorrt-json", "snpe-json", "qnn-encodings", "mnn-json", "ppl-json")]
SNAPSHOTS = "trt-int8", "openvino-int8", "trt-fp8"


def qg(*words):
    run = subprocess.run([QG, *map(str, words)], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(map(str, words))}: {run.stderr}")
    return run.stdout


def schema(name):
    tree = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(tree)
    return jsonschema.Draft202012Validator(tree)


def complaints(name, document, what):
    """Prints what is wrong with it; 0 when nothing is."""
    bad = 0
    for error in list(schema(name).iter_errors(document))[:3]:
        print(f"{name}: {what}: {error.json_path}: {error.message[:300]}")
        bad += 1
    del document[next(iter(document))]
    if schema(name).is_valid(document | {"another": {}}) and name != "report":
        print(f"{name}: the schema accepts any document")
        bad += 1
    return bad


def check_formats(snapshot, folder, what):
    bad = 0
    for form, *version in FORMATS:
        out = folder / f"{form}.json"
        report = json.loads(qg("export", snapshot, "--format", form, *version, "-o", out,
                               "--json"))
        bad += complaints("report", report, f"export {form}")
        bad += complaints(form, json.loads(out.read_text()), what)
    return bad


def check_verbs(snapshot, folder):
    bad = 0
    analysis = folder / "analysis.json"
    calls = {"analyse": ("analyse", snapshot, "-d", DATA, "-n", 4, "--by", "layer"),
             "sensitivity": ("sensitivity", snapshot, "-d", DATA, "-n", 2),
             "search": ("search", snapshot, "-d", DATA, "-n", 4, "--budget", "bits=6",
                        "-o", folder / "policy.yaml"),
             "search rules": ("search", MODEL, "-d", DATA, "-n", 4, "-b", "tflite-int8",
                              "--over", "rules"),
             "diff": ("diff", snapshot, snapshot),
             "lint": ("lint", snapshot, "--target", "ort", "--all"),
             "run": ("run", snapshot, "-d", DATA, "-n", 2, "-o", folder / "run"),
             "evaluate": ("evaluate", snapshot, "-d", "configs/data/digits_test.npy",
                          "--labels", "configs/data/digits_labels.npy"),
             "import": ("import", folder / "aimet.json", "--format", "aimet", "--model",
                        MODEL, "-o", folder / "imported"),
             "explain": ("explain", snapshot, "conv0.out0"), "version": ("version",)}
    calls |= {f"list {what}": ("list", what) for what in
              ("formats", "quirks", "backends", "observers")}
    for name, words in calls.items():
        text = qg(*words, "--json")
        bad += complaints("report", json.loads(text), name)
        if name == "analyse":
            analysis.write_text(text)
    out = folder / "overlay.json"
    qg("export", snapshot, "--format", "model-explorer", "--analysis", analysis, "-o", out)
    for file in [out, *folder.glob("overlay.json.*.json")]:
        bad += complaints("model-explorer", json.loads(file.read_text()), file.name)
    return bad


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for backend in SNAPSHOTS:
            report = json.loads(qg("quantize", MODEL, "-b", backend, "-d", DATA, "-n", 8, "-o",
                                   folder / backend, "--json"))
            bad += complaints("report", report, f"quantize {backend}")
            bad += check_formats(folder / backend, folder, backend)
        bad += check_verbs(folder / "trt-int8", folder)
    print(f"{bad} complaints")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
