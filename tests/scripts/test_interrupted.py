#!/usr/bin/env python3
"""A snapshot is the old one or the new one, whatever happens while it is written: the
process is killed at each of its calls that reach files in turn, each of them fails as on
a full disk, and two writers race.  Rerunning the command works and removes leftovers.
The same of exports of several files, of which some may be missing when the process was
killed; an old one is never with a new one."""
import itertools
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

QG = str(pathlib.Path(os.environ.get("QG", "build/qg")).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "configs/models/digits.onnx"
OLD, NEW = "minmax", "percentile"
BACKEND = {OLD: "openvino-int8", NEW: "trt-int8"}  # other files of exports
complaints = []
counts = {kind: [0, 0, 0] for kind in ("kill", "full", "race", "export")}


def with_faults(environment):
    """A build that counts coverage writes its counts with calls of its own."""
    own = {"GCOV_PREFIX": os.devnull} if environment else {}
    return {**os.environ, **environment, **own}


def quantize(folder, observer, **environment):
    command = [QG, "quantize", str(MODEL), "-b", BACKEND[observer], "-d", "random:1",
               "-j", "1", "--kernels", "reference", "--observer", observer, "-o",
               str(folder)]
    return subprocess.run(command, capture_output=True, text=True,
                          env=with_faults(environment))


def preload(work):
    library = work / "faults.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o",
                    str(library), str(ROOT / "tests/support/preload/faults.c"), "-ldl"],
                   check=True)
    return str(library)


def content(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()} if folder.is_dir() else None


def leftovers(work):
    return [p.name for p in work.iterdir() if p.name.startswith(".qg-")]


def judge(kind, folder, allowed, what, look=content):
    tried = counts[kind]
    tried[0] += 1
    now = look(folder)
    if now in allowed:
        tried[1] += 1
        return
    tried[2] += 1
    complaints.append(f"{what}: the folder is neither the old nor the new one, has "
                      f"{sorted(now) if now else now}")


def interrupt(work, library, kind, before, after, target):
    """before: content that stands there, or None; every call in turn."""
    count = work / "count"
    fresh = work / "fresh"
    quantize(fresh, NEW, LD_PRELOAD=library, QG_FAULT_COUNT=str(count))
    shutil.rmtree(fresh)
    step = 1 if "--all" in sys.argv else max(1, int(count.read_text()) // 40)
    for at in range(1, int(count.read_text()) + 40, step):
        if target.exists():
            shutil.rmtree(target)
        if before is not None:
            target.mkdir()
            for name, data in before.items():
                (target / name).write_bytes(data)
        run = quantize(target, NEW, LD_PRELOAD=library, QG_FAULT=kind,
                       QG_FAULT_AT=str(at))
        what = f"{kind} at call {at}, {'into a folder' if before else 'fresh'}"
        judge(kind, target, [before, after], what)
        if kind == "full" and run.returncode == 1 and "write" in run.stderr and \
                "No space left" not in run.stderr and \
                "an earlier write failed" not in run.stderr:
            complaints.append(f"{what}: {run.stderr.strip()}, expected the reason")
        if run.returncode == 0 and content(target) != after:
            complaints.append(f"{what}: exit status 0, and not the new snapshot")
        if run.returncode == -signal.SIGKILL:
            again = quantize(target, NEW)
            if again.returncode or content(target) != after:
                complaints.append(f"{what}: rerun gives {again.stderr.strip()}")
            if leftovers(work):
                complaints.append(f"{what}: rerun leaves {leftovers(work)}")


def export(snapshot, file, name, **environment):
    return subprocess.run([QG, "export", str(snapshot), "--format", name, "-o", str(file)],
                          capture_output=True, text=True, env=with_faults(environment))


def visible(folder):
    return {n: data for n, data in content(folder).items() if not n.startswith(".qg-")}


def parts_of(whole):
    return [dict(some) for n in range(len(whole) + 1)
            for some in itertools.combinations(whole.items(), n)]


def interrupt_exports(work, library):
    """Each call of an export over an earlier one, from the first that makes a file."""
    for name, suffix in ("openvino-ir", ".xml"), ("aimet", ".encodings"):
        folder, count = work / name, work / "count"
        file = folder / f"m{suffix}"
        folder.mkdir()
        export(work / "new", file, name, LD_PRELOAD=library, QG_FAULT_COUNT=str(count))
        after, calls = visible(folder), int(count.read_text())
        export(work / "old", file, name)
        before = visible(folder)
        if after == before:
            complaints.append(f"{name}: both exports are equal: this test cannot fail")
        for at in range(calls, 0, -1):
            shutil.rmtree(folder)
            folder.mkdir()
            for n, data in before.items():
                (folder / n).write_bytes(data)
            for kind, allowed in (("full", [before]), ("kill", parts_of(before))):
                run = export(work / "new", file, name, LD_PRELOAD=library, QG_FAULT=kind,
                             QG_FAULT_AT=str(at))
                more = parts_of(after) if kind == "kill" else [after]
                judge("export", folder, allowed + more, f"{name}, {kind} at call {at}",
                      visible)
                if run.returncode == 0 and visible(folder) != after:
                    complaints.append(f"{name}, {kind} at call {at}: exit status 0, and "
                                      "not the new files")
            again = export(work / "new", file, name)
            if again.returncode or content(folder) != after:
                complaints.append(f"{name}, kill at call {at}: rerun gives "
                                  f"{again.stderr.strip()}, {sorted(content(folder))}")


def race(work, old, new):
    target = work / "raced"
    both = {**{"notes.txt": b"mine"}}
    quantize(target, OLD)
    (target / "notes.txt").write_bytes(b"mine")
    allowed = [{**old, **both}, {**new, **both}]
    draw = random.Random(7)
    for _ in range(8):
        running = [subprocess.Popen(
            [QG, "quantize", str(MODEL), "-b", BACKEND[o], "-d", "random:1", "-j", "1",
             "--kernels", "reference", "--observer", o, "-o", str(target)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for o in draw.sample([OLD, NEW, OLD, NEW], 4)]
        for process in running:
            error = process.communicate()[1]
            if process.returncode:
                complaints.append(f"a writer among four fails: {error.strip()}")
        judge("race", target, allowed, "four writers")


def mixed(work, old, new):
    target = work / "mixed"
    target.mkdir()
    (target / "model.onnx").write_bytes(old["model.onnx"] + b"")
    (target / "quant.json").write_bytes(
        new["quant.json"].replace(b'"written_sha256": "', b'"written_sha256": "0', 1))
    run = subprocess.run([QG, "run", str(target), "-d", "random:1", "-o",
                          str(work / "o")], capture_output=True, text=True)
    if run.returncode != 1 or "SHA-256" not in run.stderr:
        complaints.append(f"a mixture of two runs: {run.returncode} {run.stderr}")


def full_disk(work, old):
    """A limit on the size of files stands for a full disk: it also fails for good."""
    target = work / "limited"
    shutil.copytree(work / "old", target)
    command = f"trap '' XFSZ; ulimit -f 2; exec '{QG}' quantize '{MODEL}' -b trt-int8 " \
              f"-d random:1 --observer {NEW} -o '{target}'"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    if run.returncode != 1 or "File too large" not in run.stderr:
        complaints.append(f"files of 2 blocks: {run.returncode} {run.stderr}")
    if content(target) != old or leftovers(work):
        complaints.append(f"files of 2 blocks: old snapshot changed, or {leftovers(work)}")


def main():
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        library = preload(work)
        quantize(work / "old", OLD)
        quantize(work / "new", NEW)
        old, new = content(work / "old"), content(work / "new")
        for kind in "kill", "full":
            interrupt(work, library, kind, old, new, work / "target")
            interrupt(work, library, kind, None, new, work / "target")
        interrupt_exports(work, library)
        race(work, old, new)
        mixed(work, old, new)
        full_disk(work, old)
    finally:
        shutil.rmtree(work)
    for line in complaints[:20]:
        print("FAILED:", line)
    for kind, (tried, whole, mixture) in counts.items():
        print(f"{kind}: {tried} tried, {whole} whole, {mixture} mixed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
