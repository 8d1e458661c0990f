"""Changed backends: a shipped backend with one or two decisions switched, on a network where
that has an effect.  The seed decides everything.

draw(seed, folder, networks, network) makes a Change: its backend file, and the words that say
what was changed.  Kinds of changes: KINDS."""
import json
import pathlib
import random
import tempfile

import onnx

import plants

TRIES = 12
MIXED = {"Add", "Mul", "Relu", "Clip", "MaxPool", "AveragePool", "Sigmoid", "Concat", "Sub", "Softmax",
         "Resize", "GlobalAveragePool", "Transpose", "Reshape", "HardSwish", "LeakyRelu", "Div"}


def lines(path):
    return json.loads(plants.qg("list", "backends", path, "--json"))


def words(text):
    return [w for w in (text or "").split(", ") if w]


class Backend:
    """What a backend file says, and what of it matches on a network."""

    def __init__(self, name, model, data):
        self.name, info = name, lines(name)
        with tempfile.TemporaryDirectory() as folder:
            report = json.loads(plants.qg("quantize", model, "-b", name, "-d", data, "-o",
                                          pathlib.Path(folder) / "s", "--json", "--all"))
        matched = {r["pattern"].split("/")[-1] for r in report.get("coverage", []) if r["matched"]}
        graph = onnx.load(model).graph
        self.ops = sorted({n.op_type for n in graph.node})
        self.quantizes = [o for o in words(info["quantizes"]) if o in self.ops]
        self.floats = [o for o in self.ops if o in MIXED and o not in self.quantizes]
        self.passive = [o for o in words(info["passive"]) if o in self.quantizes]
        self.defaults = info["defaults"]
        self.rules = [r["id"] for r in info.get("rules", [])]
        self.fusions = [r["id"] for r in info.get("fusions", []) if r["id"] in matched]
        self.sharing = [r["id"] for r in info.get("sharing", []) if r["id"] in matched]
        self.pairs = self.neighbours(graph)

    def neighbours(self, graph):
        """Operators of which one reads the other alone."""
        uses, made, pairs = {}, {}, set()
        for n in graph.node:
            for x in n.input:
                uses[x] = uses.get(x, 0) + 1
        for n in graph.node:
            for x in n.input[:1]:
                if x in made and uses[x] == 1:
                    pairs.add((made[x], n.op_type))
            made.update({y: n.op_type for y in n.output})
        return sorted(p for p in pairs if set(p) <= set(self.quantizes) and p[1] in MIXED)

    # --- one change: (key, YAML lines), None: nothing of the kind is there ---
    def drop_fusion(self, rng):
        return self.fusions and ("-fusions", rng.choice(self.fusions))

    def drop_sharing(self, rng):
        return self.sharing and ("-sharing", rng.choice(self.sharing))

    def drop_rule(self, rng):
        return self.rules and ("-rules", rng.choice(self.rules))

    def make_float(self, rng):
        return self.quantizes and ("-quantizes", rng.choice(self.quantizes))

    def make_quantized(self, rng):
        return self.floats and ("+quantizes", rng.choice(self.floats))

    def not_passive(self, rng):
        return self.passive and ("-passive", rng.choice(self.passive))

    def make_passive(self, rng):
        able = [o for o in ("MaxPool", "AveragePool", "Relu", "Clip", "Resize", "Concat",
                            "GlobalAveragePool", "Reshape", "Transpose", "Pad", "Slice", "Split")
                if o in self.quantizes and o not in self.passive]
        return able and ("+passive", rng.choice(able))

    def add_sharing(self, rng):
        able = [o for o in self.quantizes if o in ("Add", "Concat", "Mul", "Resize", "MaxPool",
                                                   "AveragePool", "Sub", "Max")]
        if not able:
            return None
        op = rng.choice(able)
        return "sharing", (f"  - id: changed-{op.lower()}\n    match: {{op: [{op}]}}\n"
                           f"    align: {rng.choice(['large', 'output'])}\n    spread: upstream\n"
                           "    why: planted\n    source: this test\n")

    def add_fusion(self, rng):
        if not self.pairs:
            return None
        a, b = rng.choice(self.pairs)
        return "fusions", (f"  - id: changed-{a.lower()}-{b.lower()}\n"
                           f"    pattern: {{a: {{op: [{a}]}}, b: {{op: [{b}], in: [a]}}}}\n"
                           "    where: {a.out0: {consumers: 1, graph-output: no}, "
                           "same-platform: [a, b]}\n    silence: {a.out0: b.out0, b.in0: b.out0}\n"
                           "    why: planted\n    source: this test\n")

    def scheme(self, rng):
        if "floating" in self.defaults:
            return None
        power = ", power-of-2" if "power-of-2" in self.defaults else ""
        return "defaults", rng.choice([
            f"{{range: [-128, 127], policy: [per-tensor, linear, asymmetric{power}]}}",
            f"{{range: [-127, 127], policy: [per-tensor, linear, symmetric{power}]}}",
            f"{{range: [0, 255], policy: [per-tensor, linear, asymmetric{power}]}}",
            f"{{bits: 16, range: [-32768, 32767], policy: [per-tensor, linear, symmetric{power}]}}"])

    def change(self, rng):
        got = None
        while not got:
            got = getattr(self, rng.choice(KINDS))(rng)
        return got


KINDS = ["drop_fusion", "drop_fusion", "drop_sharing", "drop_sharing", "drop_rule", "make_float",
         "make_float", "make_quantized", "not_passive", "make_passive", "add_sharing", "add_fusion",
         "scheme"]


def yaml(base, changes):
    text = f"name: changed\nextends: {base}\n"
    for key in dict(changes):
        values = [v for k, v in changes if k == key]
        text += f"{key}: [{', '.join(values)}]\n" if key[0] in "+-" else \
            f"{key}: {values[-1]}\n" if key == "defaults" else f"{key}:\n{''.join(values)}"
    return text


class Change:
    """seed decides base, network and changes; draws again where the device would be the same,
    or where the backend cannot be made so."""

    def __init__(self, seed, folder, bases, networks, subject, decisions):
        rng = random.Random(seed)
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(TRIES):
            self.base, self.network = rng.choice(bases), rng.choice(networks)
            model, calib, _ = subject(self.network)
            backend = Backend(self.base, model, calib)
            self.changes = sorted({backend.change(rng) for _ in range(rng.choice((1, 1, 2, 3)))})
            self.file = self.folder / "changed.yaml"
            self.file.write_text(yaml(self.base, self.changes))
            try:
                if decisions(self.base, model, calib) != decisions(self.file, model, calib):
                    return
            except RuntimeError:
                continue
        raise RuntimeError(f"seed {seed}: no change has an effect")

    def text(self):
        return ", ".join(f"{k} {v.split()[2] if k in ('fusions', 'sharing') else v}"
                         for k, v in self.changes)
