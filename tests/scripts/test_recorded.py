#!/usr/bin/env python3
"""What the verbs print and write on small random networks is what tests/data/recorded.json
has recorded: a digest for each command, of its report, warnings and files.  The reference
kernels give the same bytes on every machine.

A difference is a fault, or a change that is meant.  To see it, print the command's output
with the program before and after the change:

    QG=OLD/qg test_recorded.py --show NAME >old; test_recorded.py --show NAME >new
    test_recorded.py --write      records what the program gives now
    test_recorded.py --list       names

Without QG_ALL=1 every other network is tried."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
import plants  # noqa: E402
import random_graphs  # noqa: E402
import recorded_commands  # noqa: E402
import small_networks  # noqa: E402
from command import EVERYTHING, QG  # noqa: E402

RECORDED = pathlib.Path(__file__).parents[1] / "data/recorded.json"
KERNELS = {"quantize", "run", "analyse", "sensitivity", "trace", "diverge", "fit", "probe",
           "infer-backend", "tune", "search", "report", "price", "compare", "evaluate"}


# Times, and the version.
CHANGING = re.compile(r'(?<="ms": )[\d.e-]+|(?<="seconds": )[\d.e-]+|^seconds +[\d.e-]+$|'
                      r'(?<=quantgraph )\d+\.\d+\.\d+', re.MULTILINE)


def plain(name, data):
    """The bytes of a file without what any edit changes: version, digests of settings."""
    if name.endswith("quant.json"):
        quant = json.loads(data)
        del quant["manifest"]
        return json.dumps(quant, indent=1).encode()
    if name.endswith(".onnx"):
        model = onnx.load_model_from_string(data)
        model.producer_version = ""
        return str(model).encode()
    if name.endswith((".npy", ".npz", ".bin", ".tflite")):
        return hashlib.sha256(data).hexdigest().encode()
    return data


def output(words, folder):
    """What a command gives, as one text; what it writes is removed."""
    before = set(folder.rglob("*"))
    kernels = ["--kernels", "reference"] if words[0] in KERNELS else []
    run = subprocess.run([QG, *words, *kernels], capture_output=True, text=True, cwd=folder,
                         check=False, timeout=120)
    parts = [f"$ qg {' '.join(words)}\nstatus {run.returncode}\n{run.stdout}{run.stderr}"]
    made = sorted(p for p in set(folder.rglob("*")) - before if p.is_file())
    for path in made:
        name = str(path.relative_to(folder))
        text = plain(name, path.read_bytes()).decode(errors="backslashreplace")
        parts.append(f"--- {name}\n{text}")
    return CHANGING.sub("", "\n".join(parts))


class Case:
    """A network, or a device with a planted fault: make(folder), then commands."""

    def __init__(self, name, make, commands):
        self.name, self.make, self.commands = name, make, commands

    def outputs(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            self.make(folder)
            return {f"{self.name}: {' '.join(words)}": output(words, folder)
                    for words in self.commands}


def network(seed):
    def make(folder):
        model = random_graphs.random_model(seed)[0]
        onnx.save(model, folder / "m.onnx")
        draw = np.random.RandomState(seed)
        for file, count in (("x.npz", 6), ("y.npz", 4)):
            np.savez(folder / file, **{
                i.name: draw.randn(count, *(d.dim_value for d in
                                            i.type.tensor_type.shape.dim)).astype("f")
                for i in model.graph.input})
    return make


def planted(seed):
    def make(folder):
        (folder / "plant").mkdir()
        plant = plants.make(seed, folder / "plant")
        plant.snapshot.rename(folder / "s")
        plant.data.rename(folder / "x.npz")
        (plant.folder / "m.onnx").rename(folder / "m.onnx")
        info, arrays = plants.read(plant.dump)
        recorded_commands.FORMS_OF_DUMPS[seed % len(recorded_commands.FORMS_OF_DUMPS)](
            info, arrays, np.random.RandomState(seed))
        plants.write(folder / "against", info, arrays)
    return make


def form(name):
    def make(folder):
        model, samples = small_networks.build(name)
        onnx.save(model, folder / "m.onnx")
        np.savez(folder / "x.npz", **{model.graph.input[0].name: samples})
    return make


def cases():
    made = [Case(f"network {seed}", network(seed), recorded_commands.of_network(seed))
            for seed in recorded_commands.NETWORKS]
    made += [Case(f"plant {seed}", planted(seed), recorded_commands.of_plant(seed))
             for seed in recorded_commands.PLANTS]
    made += [Case(f"form {name}", form(name), recorded_commands.of_form(k))
             for k, name in enumerate(small_networks.FORMS)]
    return made


def all_outputs(wanted):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for outputs in pool.map(Case.outputs, wanted):
            yield from outputs.items()


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def main():
    words = sys.argv[1:]
    if words[:1] == ["--show"]:
        case = [c for c in cases() if words[1].startswith(f"{c.name}:")]
        for name, text in all_outputs(case):
            if name == words[1]:
                print(text)
        return 0
    if words == ["--list"]:
        print(*json.loads(RECORDED.read_text()), sep="\n")
        return 0
    wanted = cases() if EVERYTHING or words == ["--write"] else cases()[::2]
    now = {name: digest(text) for name, text in all_outputs(wanted)}
    if words == ["--write"]:
        RECORDED.write_text(json.dumps(now, indent=0) + "\n")
        return 0
    names = {c.name for c in wanted}
    recorded = {n: d for n, d in json.loads(RECORDED.read_text()).items()
                if n.split(":")[0] in names}
    other = [n for n in now.keys() | recorded.keys() if now.get(n) != recorded.get(n)]
    for name in sorted(other):
        print(f"FAILED {name}: {'gives something else' if name in now else 'is gone'}")
    print(f"{len(now) - len(other)} of {len(now)} commands give what is recorded")
    return 1 if other or not now else 0


if __name__ == "__main__":
    sys.exit(main())
