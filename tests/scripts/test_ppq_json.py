#!/usr/bin/env python3
"""The format ppq-json against PPQ: its JSON Schema, and the records of PPQ's goldens.

For every golden whose TQCs agree (tests/backends/ppq_parity decides), the file that we
export says the same: records are rebuilt from the JSON and the model beside it alone, as
PPQ would read them, and given to the goldens' judge.  What PPQ's file does not hold
(rounding, axis, observer; all but the last slot of one value) is taken from quant.json.

usage: test_ppq_json.py [--all]        without --all, or QG_ALL=1: every fifth golden
Skipped (77) without the goldens."""
import argparse
import copy
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from command import EVERYTHING

try:
    import jsonschema
    import numpy  # used by ppq_parity
    import onnx
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

GOLDENS = "../shared/goldens/ppq"
STEP = 5
assert numpy and yaml


def load(name, path):
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


PARITY = load("ppq_parity", "tests/backends/ppq_parity")
BITS = {"PER_TENSOR": 1, "PER_CHANNEL": 2, "LINEAR": 4, "FLOATING": 8,
        "SYMMETRICAL": 16, "ASYMMETRICAL": 32, "POWER_OF_2": 64, "DYNAMIC": 128}


def slots(node):
    """(slot text, value name) of a node; of slots with one value the last."""
    for kind, names in (("in", node.input), ("out", node.output)):
        for i, name in enumerate(names):
            if name and name not in list(names)[i + 1:]:
                yield kind, i, name


def rebuilt(pair, model, quant):
    """quant.json's view of the judge, with what the pair of files says."""
    view = PARITY.export_of(copy.deepcopy(quant))
    called = {n["name"]: f"generated_name_{n['unnamed'] - 1}"  # PPQ's name for it
              for n in quant["nodes"] if "unnamed" in n}
    owner, known = {}, {}
    for node in model.graph.node:
        for kind, i, name in slots(node):
            record = pair["configs"].get(node.name, {}).get(name)
            if record:
                name = called.get(node.name, node.name)
                owner.setdefault(record["hash"], f"{name}.{kind}{i}")
                known[name, kind, i] = record
    for (name, kind, i), record in known.items():
        value = pair["values"].get(str(record["dominator"]), {})
        view["ops"][name][kind][i].update(
            state=record["state"], bits=record["bit_width"], qmin=record["quant_min"],
            qmax=record["quant_max"],
            policy=sum(BITS[k] for k, on in record["policy"].items() if on),
            scale=listed(value.get("scale")), offset=listed(value.get("zero_point")),
            dominator=None if record["hash"] == record["dominator"]
            else owner.get(record["dominator"], view["ops"][name][kind][i]["dominator"]))
    return view


def listed(value):
    return value if value is None or isinstance(value, list) else [value]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else None


def check(job, judge, validator, options, folder):
    """'agrees', 'differs', or why the golden says nothing about the file."""
    snapshot, file = f"{folder}/snapshot", f"{folder}/pair.json"
    model = PARITY.find_model(job.folder, job.model)
    names, dims, steps = options
    data = f"{folder}/data.npz"
    PARITY.write_data(data, names, dims, steps)
    command = [PARITY.QG, "quantize", model, "-b", PARITY.BACKEND[job.platform], "-d", data,
               "-o", snapshot, "--quirks", "ppq", "-j", "1"]
    for name, shape in zip(names, dims):
        command += ["--shape", f"{name}={'x'.join(map(str, shape))}"]
    if run(*command):
        return "is not quantized"
    with open(f"{snapshot}/quant.json", encoding="utf-8") as f:
        quant = json.load(f)
    golden = judge.golden(f"{job.folder}/{job.spec}")
    rules = argparse.Namespace(
        rtol=judge.RTOL["real" if judge.full_size(golden) else "small"], offset_tol=0,
        match="auto", all_fields=False, verbose=False, quiet=True, show=0)
    ours = judge.compare(golden, PARITY.export_of(copy.deepcopy(quant)), rules)
    if ours["agree"] < ours["total"]:
        return "TQCs differ"
    fault = run(PARITY.QG, "export", snapshot, "--format", "ppq-json", "-o", file)
    if fault:
        print(f"{job.model} {job.platform}: {fault}")
        return "differs"
    with open(file, encoding="utf-8") as f:
        pair = json.load(f)
    for error in list(validator.iter_errors(pair))[:3]:
        print(f"{job.model} {job.platform}: {error.json_path}: {error.message}")
        return "differs"
    view = rebuilt(pair, onnx.load(f"{folder}/pair.onnx"), quant)
    theirs = judge.compare(golden, view, rules)
    if theirs["agree"] == theirs["total"]:
        return "agrees"
    judge.report(f"{job.model}.{job.platform}", theirs, argparse.Namespace(
        **{**vars(rules), "show": 5}))
    return "differs"


def schema():
    with open("configs/schema/ppq.json", encoding="utf-8") as f:
        validator = jsonschema.Draft202012Validator(json.load(f))
    with open("tests/fuzz/corpus/ppq_json/network.json", encoding="utf-8") as f:
        pair = json.load(f)
    assert not list(validator.iter_errors(pair)), "the schema refuses a good file"
    pair["configs"]["c"]["x"]["state"] = "nonsense"
    assert list(validator.iter_errors(pair)), "the schema accepts an unknown state"
    return validator


def main():
    validator = schema()
    if not os.path.isdir(GOLDENS):
        print("skipped: no goldens")
        return 77
    everything = sys.argv[1:] == ["--all"] or EVERYTHING
    wanted = argparse.Namespace(platform=None, model=None, variants=False, variant="*")
    jobs, shapes, steps = PARITY.read_jobs(GOLDENS, wanted)
    judge, known, count = PARITY.load_judge(GOLDENS), {}, {}
    for job in jobs if everything else jobs[::STEP]:
        model = PARITY.find_model(GOLDENS, job.model)
        names = PARITY.input_names(model, known)
        dims = [[int(d) for d in s.split("x")] for s in shapes[job.model].split(",")]
        with tempfile.TemporaryDirectory() as folder:
            verdict = check(job, judge, validator, (names, dims, steps), folder)
        count[verdict] = count.get(verdict, 0) + 1
    print(", ".join(f"{n} {what}" for what, n in sorted(count.items())))
    return 1 if count.get("differs") or not count.get("agrees") else 0


if __name__ == "__main__":
    sys.exit(main())
