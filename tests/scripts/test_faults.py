#!/usr/bin/env python3
"""Every verb survives every failing allocation and every failing file operation: it ends
with status 0 and the whole result, or with status 1, a message, and files as before.
Killed at a file operation, it leaves whole files, and works again.
A sample of the failing calls, drawn with a fixed seed, half of them early;
--all [VERB...] [once|on|io|kill] tries every one."""
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import chain, zip_longest

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = str(pathlib.Path(os.environ.get("QG", "build/qg")).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "tests/models/mnist-8.onnx")
DIGITS = str(ROOT / "configs/models/digits.onnx")
AIMET = str(next(iter(sorted((ROOT / "tests/data/aimet").rglob("*.json")))))
ALL = "--all" in sys.argv
SEED, SECONDS = 16, 14
FAST = ["-j", "1"]
DATA = ["-d", "random:1", *FAST]
# verb: words; OUT is written, SNAP is a snapshot, STATS a statistics file
VERBS = {
    "quantize": ["quantize", MODEL, "-b", "trt-int8", *DATA, "-o", "OUT"],
    "run": ["run", "SNAP", *DATA, "-o", "OUT"],
    "run-npz": ["run", MODEL, "-d", "IN.npz", *FAST, "-o", "OUT", "--dump", "*"],
    "run-integer": ["run", "SNAP", *DATA, "--mode", "integer", "-o", "OUT"],
    "evaluate": ["evaluate", "SNAP", *DATA, "--labels", "LABELS"],
    "analyse": ["analyse", "SNAP", *DATA, "--by", "layer"],
    "sensitivity": ["sensitivity", "SNAP", *DATA, "--top", "2"],
    "price": ["price", "SNAP", *DATA],
    "search": ["search", "SNAP", "-d", "random:2", *FAST, "--budget", "bits=6",
               "--choices", "4,8", "-o", "OUT"],
    "compare": ["compare", MODEL, "-b", "trt-int8", "-b", "tflite-int8", *DATA],
    "doctor": ["stats", "doctor", MODEL, *DATA],
    "explain": ["explain", "SNAP", "Convolution28"],
    "diff": ["diff", "SNAP", "SNAP"],
    "dump": ["dump", "SNAP"],
    "list": ["list", "backends", "trt-int8"],
    "export-qdq": ["export", "SNAP", "--format", "onnx-qdq", "-o", "OUT.onnx"],
    "export-ir": ["export", "SNAP", "--format", "openvino-ir", "-o", "OUT.xml"],
    "export-ppq": ["export", "SNAP", "--format", "ppq-json", "-o", "OUT.json"],
    "collect": ["stats", "collect", MODEL, *DATA, "-o", "OUT.qgs"],
    "merge": ["stats", "merge", "STATS", "-o", "OUT.qgs"],
    "show": ["stats", "show", "STATS"],
    "derive": ["stats", "derive", "STATS", "--model", MODEL, "-b", "trt-int8"],
    "switch": ["switch", "SNAP", "--set", "node=Convolution28 state=dequantized",
               "-o", "OUT"],
    "import": ["import", "IN.onnx", "--format", "onnx-qdq", "-o", "OUT"],
    "probe": ["probe", "SNAP", "--between", "tflite-reference,tflite-xnnpack", "-n", "2", *FAST,
              "-o", "OUT.npy"],
    "trace": ["trace", "SNAP", "-d", "IN.sample.npy", *FAST, "-o", "OUT.npz"],
    "diverge": ["diverge", "SNAP", "-d", "IN.sample.npy", *FAST, "--against", "IN.trace.npz"],
    "fit": ["fit", "SNAP", "-d", "IN.sample.npy", *FAST, "--against", "IN.trace.npz", "-o",
            "OUT.yaml"],
    "import-backend": ["import-backend", AIMET, "--format", "aimet", "-o", "OUT.yaml"],
    "conformance": ["conformance", "IN.cases"],
    "quantize-tensor": ["quantize-tensor", "IN.npy", "-o", "OUT.npy"],
}
LIES = re.compile(r"JSON|corrupt|malformed|not a complete|damaged|checksum")
# A build that counts coverage must not write its counts where this may spoil them.
COUNTS_LOST = {"GCOV_PREFIX": os.devnull}
complaints = []


class Fault:
    """A kind of failure: the library that injects it, and its environment."""

    def __init__(self, name, library, prefix, kind):
        self.name, self.library, self.kind, self.prefix = name, library, kind, prefix
        self.tried = self.whole = self.refused = self.lost = 0

    def at(self, number, count="/dev/null"):
        return {"LD_PRELOAD": self.library, self.prefix: self.kind,
                f"{self.prefix}_AT": str(number), f"{self.prefix}_COUNT": str(count),
                **(COUNTS_LOST if self.kind in ("io", "kill") else {})}


def build(work, name):
    library = work / f"{name}.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o",
                    str(library), str(ROOT / f"tests/support/preload/{name}.c"), "-ldl"],
                   check=True)
    return str(library)


def call(words, work, **environment):
    names = {"SNAP": "snap", "STATS": "s.qgs", "LABELS": "labels.npy"}
    words = [str(work / names[w]) if w in names else
             str(work / w) if w.startswith(("OUT", "IN.")) else w for w in words]
    return subprocess.run([QG, *words], capture_output=True, text=True, errors="replace",
                          env={**os.environ, **environment}, timeout=120)


def outputs(work):
    """name -> bytes of everything that a verb left."""
    return {str(p.relative_to(work)): p.read_bytes()
            for p in sorted(work.rglob("*")) if p.is_file() and
            p.relative_to(work).parts[0].startswith(("OUT", ".qg-"))}


def clean(work):
    for p in list(work.iterdir()):
        if p.name.startswith(("OUT", ".qg-")):
            shutil.rmtree(p) if p.is_dir() else p.unlink()


def prepare(work):
    draw = np.random.default_rng(1)
    np.savez_compressed(work / "IN.npz", Input3=draw.random((1, 1, 28, 28), "f"))
    np.save(work / "IN.npy", draw.random((4, 8), "f"))
    np.save(work / "labels.npy", np.int64([3]))
    for words in (["quantize", MODEL, "-b", "tflite-int8", *DATA, "-o", str(work / "snap")],
                  ["stats", "collect", MODEL, *DATA, "-o", str(work / "s.qgs")],
                  ["export", str(work / "snap"), "--format", "onnx-qdq", "-o",
                   str(work / "IN.onnx")],
                  ["trace", str(work / "snap"), "-d", sample(work, draw), *FAST, "-o",
                   str(work / "IN.trace.npz")],
                  ["run", MODEL, "-d", str(work / "IN.sample.npy"), *FAST, "-o",
                   str(work / "run")]):
        subprocess.run([QG, *words], check=True, stdout=subprocess.DEVNULL)
    case(work)


def sample(work, draw):
    np.save(work / "IN.sample.npy", draw.random((1, 1, 28, 28), "f"))
    return str(work / "IN.sample.npy")


def case(work):
    """A folder of the ONNX backend tests: the model on one sample."""
    data = work / "IN.cases/mnist/test_data_set_0"
    data.mkdir(parents=True)
    shutil.copy(MODEL, data.parent / "model.onnx")
    model = onnx.load(MODEL).graph
    initial = {i.name for i in model.initializer}
    given = next(i.name for i in model.input if i.name not in initial)
    name, = (o.name for o in model.output)
    file, = (work / "run").glob("*.npy")
    for kind, tensor, value in (("input", given, np.load(work / "IN.sample.npy")[0:1]),
                                ("output", name, np.load(file).reshape(1, -1))):
        (data / f"{kind}_0.pb").write_bytes(
            onnx.numpy_helper.from_array(value.reshape(value.shape), tensor)
            .SerializeToString())


def judge(verb, fault, number, got, whole, work):
    """A failed verb leaves nothing, or, when only its answer failed, all of its files."""
    what = f"{verb}, {fault.name} {number}"
    fault.tried += 1
    now = outputs(work)
    temporary = [n for n in now if ".qg-" in n]
    if temporary and fault.kind != "io":  # what cannot be removed stays
        complaints.append(f"{what}: leaves {temporary}")
    now = {n: b for n, b in now.items() if ".qg-" not in n}
    failed = 4 if verb in ("diverge", "conformance") else 1
    if got.returncode not in (0, 1, 3, failed):
        complaints.append(f"{what}: exit {got.returncode}: {got.stderr[-300:]!r}")
    elif got.returncode == failed and not got.stderr.strip():
        complaints.append(f"{what}: exit {failed} without a message")
    elif got.returncode == failed and fault.kind != "io" and \
            (LIES.search(got.stderr) or "memory" not in got.stderr.lower()):
        complaints.append(f"{what}: {got.stderr.strip()!r}, expected out of memory")
    if now == whole and not got.returncode:
        fault.whole += 1
    elif got.returncode and now in ({}, whole):
        fault.refused += 1
    else:
        fault.lost += 1
        complaints.append(f"{what}: exit {got.returncode}, files {sorted(now)} are neither "
                          f"all nor none: {got.stderr[-200:]!r}")


def judge_killed(verb, fault, number, got, whole, work):
    """Each file that is there is whole, and the same command makes the others."""
    now = {n: b for n, b in outputs(work).items() if ".qg-" not in n}
    again = call(VERBS[verb], work)
    then = outputs(work)  # temporaries of the killed process are gone by now
    fault.tried += 1
    fault.whole += now == whole
    fault.refused += not now
    if got.returncode not in (0, -9) or again.returncode or then != whole or \
            any(whole.get(n) != b for n, b in now.items()):
        fault.lost += 1
        complaints.append(f"{verb}, {fault.name} {number}: exit {got.returncode}, then "
                          f"{again.returncode}, files {sorted(now)}, then {sorted(then)}: "
                          f"{again.stderr[-200:]!r}")


def numbers(count, most, draw):
    """All calls; or a sample, half of it among the first 200."""
    if ALL or count <= most:
        return list(range(1, count + 1))
    early = min(200, count)
    few = draw.sample(range(1, early + 1), min(most // 2, early))
    return few + draw.sample(range(1, count + 1), most - len(few))


def try_verb(verb, faults, work, end, draw):
    words = VERBS[verb]
    clean(work)
    first = call(words, work)
    if first.returncode:
        complaints.append(f"{verb}: fails without a fault: {first.stderr[-300:]!r}")
        return
    whole = outputs(work)
    turns, counted = [], {}
    for fault in faults:
        if fault.kind == "kill" and not whole:
            continue  # nothing is written
        if fault.library not in counted:
            clean(work)
            call(words, work, **fault.at(0, work / "count"))
            counted[fault.library] = int((work / "count").read_text())
        turns.append([(fault, n) for n in numbers(counted[fault.library], 8, draw)])
    for k, (fault, number) in enumerate(sorted(chain(*turns), key=lambda t: t[1]) if ALL else
                                        filter(None, chain(*zip_longest(*turns)))):
        if not ALL and k >= len(turns) and time.monotonic() > end:
            return  # each kind was tried once
        clean(work)
        got = call(words, work, **fault.at(number))
        if fault.kind == "kill":
            judge_killed(verb, fault, number, got, whole, work)
        else:
            judge(verb, fault, number, got, whole, work)


def little_memory(work):
    """Address space from too little to enough, where libraries run out, too: oneDNN would
    end the process."""
    tried = refused = 0
    for megabytes in range(64, 224, 4 if ALL else 8):
        clean(work)
        got = subprocess.run(
            [QG, "run", DIGITS, "-d", "random:3", "-j", "2", "-o", str(work / "OUT")],
            capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                  (megabytes << 20, megabytes << 20)))
        if got.returncode == 127:
            continue  # the loader's part
        tried += 1
        refused += got.returncode == 1
        if got.returncode not in (0, 1) or \
                got.returncode and not re.search("memory|thread", got.stderr):
            complaints.append(f"{megabytes} MB: exit {got.returncode}: {got.stderr!r}")
    print(f"address space: {tried} tried, {tried - refused} whole, {refused} refused")


def main():
    chosen = [w for w in sys.argv[1:] if w in VERBS] or list(VERBS)
    draw = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        memory, files = build(work, "memory"), build(work, "faults")
        faults = [Fault("allocation", memory, "QG_MEMORY", "once"),
                  Fault("allocations from", memory, "QG_MEMORY", "on"),
                  Fault("file operation", files, "QG_FAULT", "io"),
                  Fault("kill at file operation", files, "QG_FAULT", "kill")]
        faults = [f for f in faults if f.kind in sys.argv] or faults
        if "GCOV_PREFIX" in os.environ:  # libgcov itself does not survive these
            faults = [f for f in faults if f.library != memory]
        prepare(work)
        little_memory(work)
        start = time.monotonic()
        for i, verb in enumerate(chosen):
            end = start + SECONDS * (i + 1) / len(chosen)
            try_verb(verb, faults, work, end, draw)
            if ALL:  # takes hours: what has been done is seen
                print(f"{verb}: {sum(f.tried for f in faults)} tried so far, "
                      f"{len(complaints)} complaints", flush=True)
    for line in complaints[:40]:
        print("FAILED:", line)
    for f in faults:
        print(f"{f.name}: {f.tried} tried, {f.whole} whole, {f.refused} refused, "
              f"{f.lost} lost")
    print(f"{len(chosen)} verbs, seed {SEED}, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
