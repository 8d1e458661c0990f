#!/usr/bin/env python3
"""The keyword-spotting model of MLPerf Tiny in integers.

Every tensor of 16 samples equals what LiteRT's reference kernels compute
(of ../shared), from two sources: the published kws_int8.tflite, and its float
twin kws_float.onnx, quantized for tflite-int8 with the activation grids of the published
file (observer `fixed`).  Then the accuracy on 500 samples in float, simulated and in the
integers of four profiles, with the samples on which they disagree."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SHARED = pathlib.Path("../shared")
GOLDENS = SHARED / "goldens" / "tflite"
TFLITE, TWIN = SHARED / "models/kws_int8.tflite", SHARED / "models/kws_float.onnx"
DATA = SHARED / "data/kws_dev.npz"
if not GOLDENS.exists():
    print("skipped: ../shared is not here")
    sys.exit(77)
try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
PROFILES = ("tflite-reference", "tflite-builtin-x86", "tflite-xnnpack", "onnxruntime-x86-vnni")
SAMPLES = 16


def qg(*arguments):
    done = subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise SystemExit(f"FAILED: qg {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def read_goldens():
    with open(GOLDENS / "kws_int8.json", encoding="utf-8") as f:
        tensors = [t for t in json.load(f)["tensors"] if not t["constant"]]
    return tensors, np.load(GOLDENS / "kws_int8.npz")


def grids_as_policy(tensors, path):
    """A patch that gives each activation of the twin the published scale and zero point."""
    rules = []
    for t in tensors:
        rules.append({"id": f"grid-{t['id']}", "match": {"value": t["onnx_value"]},
                      "set": {"observer": "fixed", "step": t["scale"][0],
                              "zero": t["zero_point"][0] + 129}})
    path.write_text(json.dumps({"rules": rules}))


def run_integer(model, data, folder):
    """{name of a dumped value: codes} of the first samples."""
    out = folder / "run"
    done = qg("run", model, "-d", data, "-n", SAMPLES, "--mode", "integer", "--profile",
              "tflite-reference", "--require", "integer", "-o", out, "--dump", "*",
              "--json")
    return {d["name"]: np.load(d["file"]) for d in json.loads(done)["dumps"]}


def as_file_has_it(got, shape):
    """A dump in the axes of the published file: pictures are computed as N, C, H, W."""
    if len(shape) == 4 and got.shape[-1] != shape[-1]:
        got = np.moveaxis(got, -3, -1)
    return got.reshape(shape) if got.size == np.prod(shape) else got


def equal(what, tensors, arrays, ours, name_of):
    """Number of wrong tensors; prints each of them."""
    wrong = elements = 0
    for t in tensors:
        theirs = arrays[t["array"]]
        got = ours.get(name_of(t))
        if got is None and t["name"] == "input_1":
            continue  # the input itself, which no node computes
        if got is None:
            print(f"FAILED: {what}: no value {name_of(t)}")
            wrong += 1
            continue
        got = as_file_has_it(got, theirs.shape)
        if got.shape != theirs.shape or got.dtype != theirs.dtype:
            print(f"FAILED: {what}: {name_of(t)}: {got.dtype}{got.shape}, not "
                  f"{theirs.dtype}{theirs.shape}")
            wrong += 1
            continue
        differ = int((got != theirs).sum())
        elements += theirs.size
        if differ:
            print(f"FAILED: {what}: {name_of(t)}: {differ} of {theirs.size} differ")
            wrong += 1
    print(f"{what:20} {len(tensors) - wrong} of {len(tensors)} tensors equal, "
          f"{elements} elements of {SAMPLES} samples")
    return wrong


def classes(model, data, folder, *more):
    out = folder / "classes"
    qg("run", model, "-d", data, "-o", out, *more)
    (path,) = out.glob("*.npy")
    scores = np.load(path)
    return scores.reshape(scores.shape[0], -1).argmax(axis=1)


def against_litert(folder, codes):
    """Output codes of every sample against LiteRT's own; the number of profiles that
    differ.  None without LiteRT."""
    try:
        import litert
    except ImportError as missing:
        print(f"not compared with LiteRT: {missing}")
        return 0
    wrong = 0
    for kernels, profile in litert.PROFILES.items():
        runtime = litert.Runtime(TFLITE.read_bytes(), kernels)
        name = runtime.names[runtime.model.subgraphs[0].outputs[0]]
        theirs = runtime.run_all([{"input_1": x} for x in codes])[name]
        qg("run", TFLITE, "-d", folder / "codes.npz", "-o", folder / "litert", "--mode",
           "integer", "--profile", profile)
        (path,) = (folder / "litert").glob("*.npy")
        differ = int((np.load(path).reshape(theirs.shape) != theirs).sum())
        print(f"{profile:20} {differ} of {theirs.size} outputs of {len(codes)} samples differ "
              f"from LiteRT's {kernels} kernels")
        wrong += differ > 0
    return wrong


def accuracy(folder, snapshot, labels):
    real, codes = folder / "real.npz", folder / "codes.npz"
    found = {"float": classes(TWIN, real, folder),
             "simulate": classes(snapshot, real, folder)}
    for profile in PROFILES:
        found[profile] = classes(snapshot, real, folder, "--mode", "integer", "--profile",
                                 profile)
    found["tflite-reference, from .tflite"] = classes(
        TFLITE, codes, folder, "--mode", "integer", "--profile", "tflite-reference")
    base = found["float"]
    print(f"{'':32} {'top-1':>6}  samples with another class than float")
    for name, k in found.items():
        other = np.flatnonzero(k != base)
        print(f"{name:32} {(k == labels).mean():6.4f}  "
              f"{' '.join(f'{i}:{base[i]}>{k[i]}' for i in other)}")
    return found


def main():
    tensors, arrays = read_goldens()
    data = np.load(DATA)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        x, grid = data["input_1"], tensors[0]
        np.savez(folder / "real.npz", input_1=x)
        codes = np.rint(x / np.float32(grid["scale"][0])) + grid["zero_point"][0]
        codes = codes.astype("int8")
        np.savez(folder / "codes.npz", input_1=codes)
        wrong = equal("kws_int8.tflite", tensors[1:], arrays,  # tensor 0 is given
                      run_integer(TFLITE, folder / "codes.npz", folder), lambda t: t["name"])
        grids_as_policy(tensors, folder / "grids.yaml")
        snapshot = folder / "twin"
        qg("quantize", TWIN, "-b", "tflite-int8", "-d", folder / "real.npz", "-n", SAMPLES,
           "--policy", folder / "grids.yaml", "-o", snapshot)
        wrong += equal("kws_float.onnx", tensors, arrays,
                       run_integer(snapshot, folder / "real.npz", folder),
                       lambda t: t["onnx_value"])
        wrong += against_litert(folder, codes[:, None])
        found = accuracy(folder, snapshot, data["labels"])
    top1 = (found["tflite-reference"] == data["labels"]).mean()
    if not np.array_equal(found["tflite-reference"], found["tflite-reference, from .tflite"]):
        print("FAILED: the twin and the file differ in a class")
        wrong += 1
    if abs(top1 - 0.898) > 1e-9:
        print(f"FAILED: top-1 {top1}, the published integer model has 0.898 in LiteRT")
        wrong += 1
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
