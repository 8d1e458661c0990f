#!/usr/bin/env python3
"""Every member of quant.json in turn null or absent, in all its places: what the schema
refuses as a text is refused with its place; what is read is then used by verbs that read
journal, coverage and manifest, without a crash."""
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile

QG = os.environ.get("QG", "build/qg")
DATA = ["-d", "random:2"]
NODE = "Convolution28"  # has a near miss
VERBS = [["explain", "{}", NODE], ["price", "{}", *DATA],
         ["analyse", "{}", *DATA, "--by", "cause"], ["report", "{}", *DATA, "-o", "{}.html"],
         ["lint", "{}", "--target", "ort"],
         ["export", "{}", "--format", "onnx-qdq", "-o", "{}.onnx"]]
# Texts that a reader needs.  (path, message for null, message for absent)
NEEDED = [(("coverage", "*", "near_misses", "*", "node"), "near_misses[0].node: is null, "
           "expected text", "near_misses[0]: 'node' is missing, expected text"),
          (("coverage", "*", "near_misses", "*", "condition"), "condition: is null",
           "'condition' is missing"),
          (("coverage", "*", "pass"), "coverage[0].pass: is null", "'pass' is missing"),
          (("coverage", "*", "pattern"), "coverage[0].pattern: is null",
           "'pattern' is missing"),
          (("journal", "*", "field"), "journal[0].field: is null", "'field' is missing"),
          (("journal", "*", "by"), "journal[0].by: is null", "'by' is missing"),
          (("journal", "*", "old"), None, "journal[0]: 'old' is missing, expected text"),
          (("journal", "*", "new"), None, "journal[0]: 'new' is missing, expected text"),
          (("manifest", "backend", "name"), "backend.name: is null", "'name' is missing"),
          (("manifest", "backend", "rules", "*", "id"), "rules[0].id: is null",
           "'id' is missing"),
          (("manifest", "options", "dispatcher"), "options.dispatcher: is null", None)]


def places(value, path=()):
    """Every member of the document: (path with * for positions, the object, its key)."""
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        at = path + (key if isinstance(value, dict) else "*",)
        if isinstance(value, dict):
            yield at, value, key
        yield from places(inner, at)


def changed(document, path, remove):
    other = copy.deepcopy(document)
    for at, holder, key in list(places(other)):
        if at == path and remove:
            del holder[key]
        elif at == path:
            holder[key] = None
    return other


def run(*words):
    done = subprocess.run([QG, *words], capture_output=True, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stderr


def check(folder, document, path, remove):
    """Complaints about one change."""
    with open(f"{folder}/quant.json", "w", encoding="utf-8") as f:
        json.dump(changed(document, path, remove), f)
    what = f"{'.'.join(path)} {'absent' if remove else 'null'}"
    status, message = run("dump", folder)
    if status not in (0, 1):
        return [f"{what}: qg dump exits with {status}"]
    bad = [f"{what}: {message or 'it is read'}, expected '{row[1 + remove]}'"
           for row in NEEDED if row[0] == path and (row[1 + remove] or "") not in message]
    if any(row[0] == path and row[1 + remove] for row in NEEDED) and status != 1:
        bad.append(f"{what}: qg dump exits with {status}, expected 1")
    for verb in VERBS if status == 0 else ():
        status, message = run(*(word.format(folder) for word in verb))
        if status not in (0, 1, 3):  # 3: findings of lint
            bad.append(f"{what}: qg {verb[0]} exits with {status}")
    return bad


def main():
    with tempfile.TemporaryDirectory() as work:
        snapshot = f"{work}/snapshot"
        status, message = run("quantize", "tests/models/mnist-8.onnx", "-b", "trt-int8",
                              *DATA, "--dispatcher", "conservative", "-o", snapshot)
        if status:
            print(message)
            return 1
        with open(f"{snapshot}/quant.json", encoding="utf-8") as f:
            document = json.load(f)
        paths = sorted({at for at, _, _ in places(document)})
        absent = {row[0] for row in NEEDED} - set(paths)
        bad = [f"the snapshot has no {'.'.join(p)}" for p in sorted(absent)]
        folder = f"{work}/changed"
        shutil.copytree(snapshot, folder)
        for path in paths:
            for remove in False, True:
                bad += check(folder, document, path, remove)
    print("\n".join(bad))
    print(f"{len(paths)} members, {len(bad)} complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
