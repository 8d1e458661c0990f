#!/usr/bin/env python3
"""`qg run FILE.tflite --mode integer` against LiteRT, integer by integer.

usage: tests/scripts/test_against_litert.py [--networks N] [--seed S] [--kind KIND]

Files: the single-operator cases of the goldens in ../shared (skipped when absent) and N
random networks of each kind (litert_networks.py).  Under tflite-reference the whole file
runs, and every tensor of every sample must equal the reference kernels'.  Under
tflite-builtin-x86 and tflite-xnnpack each operator runs alone, on the inputs that the
runtime itself gave it; all elements must be equal, too.  What a profile may refuse is
listed in MISSING, and what it is known to compute otherwise in KNOWN; the table counts
both."""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import litert
    import litert_networks
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
GOLDENS = pathlib.Path("../shared") / "goldens" / "tflite"
REFERENCE, BUILTIN, XNNPACK = litert.PROFILES.values()
MISSING = {  # (profile, operator, type): what is refused
    (BUILTIN, "ADD", "uint8"): "inputs are shifted without rounding, 8 at a time",
}
CASES_MISSING = {  # (profile, case)
    **{(profile, "softmax_3"): "beta 0.5" for profile in litert.PROFILES.values()},
}
WIDE = "tflite-reference-16x8"  # of the reference kernels, for int16 activations
KNOWN = {  # what is computed otherwise: the largest share of the elements, and why
    (BUILTIN, "ADD", "int8"): (0.01, "one-element operands: inputs are shifted without rounding"),
}
SHOWN = int(os.environ.get("SHOWN", "40"))  # lines of failures
NETWORKS = {"int8": 12, "uint8": 4, "int16": 2}  # in the test; more by hand


class Refused(Exception):
    pass


def simulate(data, given, profile, folder):
    """{name: codes} of every value, with the samples first."""
    (folder / "file.tflite").write_bytes(data)
    np.savez(folder / "in.npz", **given)
    out = folder / "out"
    done = subprocess.run(
        [QG, "run", folder / "file.tflite", "--mode", "integer", "--profile", profile,
         "--require", "integer", "-d", folder / "in.npz", "-o", out, "--dump", "*",
         "--json"],
        capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused((done.stderr.strip() or f"exit status {done.returncode}").split("\n")[-1])
    return {d["name"]: np.load(d["file"]) for d in json.loads(done.stdout)["dumps"]}


class Operator:
    """One operator of a file: its name, and the tensors that it writes."""

    def __init__(self, graph, codes, node):
        self.node = node
        self.op = codes[node.opcodeIndex]
        self.outputs = [int(t) for t in node.outputs]
        self.type = TYPE_NAMES[graph.tensors[self.outputs[0]].type]
        if self.op in ("DEQUANTIZE", "QUANTIZE"):
            self.type = f"{TYPE_NAMES[graph.tensors[int(node.inputs[0])].type]}-{self.type}"


TYPE_NAMES = {number: name for name, number in litert.TYPES.items()}
OPERATOR_NAMES = {number: name for name, number in vars(litert.schema.BuiltinOperator).items()
                  if isinstance(number, int)}


def operators(data):
    model = litert.unpack(data)
    codes = [OPERATOR_NAMES[c.builtinCode] for c in model.operatorCodes]
    graph = model.subgraphs[0]
    return [Operator(graph, codes, node) for node in graph.operators]


def alone(data, k):
    """The file with operator k only; its inputs are what is not constant."""
    model = litert.unpack(data)
    graph = model.subgraphs[0]
    node = graph.operators[k]
    graph.operators = [node]
    graph.outputs = list(node.outputs)
    given = {int(t) for t in node.inputs if t >= 0}
    graph.inputs = sorted(t for t in given if model.buffers[graph.tensors[t].buffer].data is None)
    return litert.pack(model)


def same(ours, theirs):
    """Number of elements that differ; codes must have the runtime's type.  A value whose
    producer is a convolution is dumped as N, C, H, W."""
    if ours is None:
        return None
    if theirs.ndim == 5 and ours.shape == theirs.transpose(0, 1, 4, 2, 3).shape:
        moved = ours.transpose(0, 1, 3, 4, 2)
        if ours.shape != theirs.shape or np.array_equal(moved, theirs):
            ours = np.ascontiguousarray(moved)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
    return int((ours.view(f"u{ours.itemsize}") != theirs.view(f"u{theirs.itemsize}")).sum())


class Table:
    """Counts per profile and operator; wrong: lines that make the test fail."""

    def __init__(self):
        self.rows = collections.defaultdict(collections.Counter)
        self.wrong = []

    def count(self, profile, what, operator, differ, size):
        row = self.rows[profile, operator.op, operator.type]
        row["operators"] += 1
        if isinstance(differ, int):
            row["elements"] += size
            row["differ"] += differ
        known = (profile, operator.op, operator.type) in KNOWN  # bounded in show
        if differ and not (known and isinstance(differ, int)):
            self.wrong.append(f"{profile}: {what} {operator.op}: "
                              f"{'not computed' if differ is None else differ}")

    def refused(self, profile, what, operator, why):
        key = (profile, operator.op, operator.type)
        self.rows[key]["refused"] += 1
        allowed = key in MISSING or "int16" in operator.type  # few formulas are known
        if not allowed and (profile, what.split(" ")[0]) not in CASES_MISSING:
            self.wrong.append(f"{profile}: {what} {operator.op}: {why}")

    def show(self):
        print(f"{'profile':20} {'operator':24} {'type':14} {'count':>6} {'refused':>8} "
              f"{'elements':>9} {'differ':>7}")
        for key in sorted(self.rows):
            row = self.rows[key]
            print(f"{key[0]:20} {key[1]:24} {key[2]:14} {row['operators']:6} "
                  f"{row['refused']:8} {row['elements']:9} {row['differ']:7}")
            most = KNOWN.get(key, (0,))[0] * row["elements"]
            if key in KNOWN and row["differ"] > most:
                self.wrong.append(f"{' '.join(key)}: {row['differ']} of {row['elements']} differ, "
                                  f"expected at most {most:.0f}")


def profile_of(data, kernels):
    wide = any(t.type == litert.TYPES["int16"] for t in litert.unpack(data).subgraphs[0].tensors)
    return WIDE if wide and kernels == "reference" else litert.PROFILES[kernels]


def whole(table, what, data, feeds, folder, kernels="reference"):
    """The file end to end.  False: it was refused, or some tensor differs."""
    theirs = litert.Runtime(data, kernels).run_all(feeds)
    graph = litert.unpack(data).subgraphs[0]
    names = [t.name.decode() for t in graph.tensors]
    given = {names[i]: theirs[names[i]] for i in graph.inputs}
    profile = profile_of(data, kernels)
    try:
        ours = simulate(data, given, profile, folder)
    except Refused:
        return False
    good = True
    for operator in operators(data):
        for t in operator.outputs:
            differ = same(ours.get(names[t]), theirs[names[t]])
            table.count(profile, what, operator, differ, theirs[names[t]].size)
            good = good and differ == 0
    return good


def by_operator(table, what, data, feeds, folder, kernels):
    """Each operator on the runtime's own inputs."""
    theirs = litert.Runtime(data, kernels).run_all(feeds)
    names = [t.name.decode() for t in litert.unpack(data).subgraphs[0].tensors]
    profile = profile_of(data, kernels)
    for k, operator in enumerate(operators(data)):
        file = alone(data, k)
        given = {names[i]: theirs[names[i]] for i in litert.unpack(file).subgraphs[0].inputs}
        where = f"{what} operator {k}"
        try:
            ours = simulate(file, given, profile, folder)
        except Refused as why:
            table.refused(profile, where, operator, why)
            continue
        for t in operator.outputs:
            differ = same(ours.get(names[t]), theirs[names[t]])
            table.count(profile, where, operator, differ, theirs[names[t]].size)


def compare(table, what, data, feeds, folder):
    """Under tflite-reference a file that is not right as a whole is taken apart, so that
    the table names the operator."""
    if not whole(table, what, data, feeds, folder):
        by_operator(table, f"{what} (alone)", data, feeds, folder, "reference")
    for kernels in ("builtin", "xnnpack"):
        by_operator(table, what, data, feeds, folder, kernels)


def golden_cases():
    """(name, file, one sample) of every case."""
    if not GOLDENS.exists():
        print("skipped: the cases of ../shared are not here")
        return
    with open(GOLDENS / "ops.json", encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    arrays = np.load(GOLDENS / "ops.npz")
    for case in cases:
        file = litert.File()
        for t in case["tensors"]:
            grid = (t["scale"], t["zero_point"], t["axis"]) if t["scale"] else None
            file.tensor(t["name"], t["type"], t["shape"], grid,
                        arrays[t["array"]] if t["constant"] else None)
        op = case["op"]
        given = [t for t in case["tensors"] if not t["constant"] and t["id"] not in op["outputs"]]
        file.operator(op["type"], op["inputs"], op["outputs"], op["attributes"])
        yield (case["name"], file.bytes([t["id"] for t in given], op["outputs"]),
               [{t["name"]: arrays[t["array"]] for t in given}])


def networks(kinds, seed):
    for kind, count in kinds.items():
        for s in range(seed, seed + count):
            network = litert_networks.Network(s, kind)
            yield f"{kind} network {s}", network.bytes(), network.feeds()


def main():
    parser = argparse.ArgumentParser(description="compares qg with LiteRT")
    parser.add_argument("--networks", type=int, help="networks of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the first network")
    parser.add_argument("--kind", choices=litert_networks.KINDS, help="only this kind")
    parser.add_argument("--keep", help="folder for the files")
    options = parser.parse_args()
    kinds = {k: options.networks or n for k, n in NETWORKS.items()
             if options.kind in (None, k)}
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        for files in (golden_cases(), networks(kinds, options.seed)):
            for what, data, feeds in files:
                if options.keep:
                    pathlib.Path(options.keep, f"{what.replace(' ', '_')}.tflite").write_bytes(data)
                compare(table, what, data, feeds, pathlib.Path(name))
    table.show()
    for line in table.wrong[:SHOWN]:
        print("FAILED:", line)
    if len(table.wrong) > SHOWN:
        print(f"FAILED: and {len(table.wrong) - SHOWN} more")
    return bool(table.wrong)


if __name__ == "__main__":
    sys.exit(main())
