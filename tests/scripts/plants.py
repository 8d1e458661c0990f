"""Planted faults: a random network, and a device that computes it with one wrong rule.

make(seed, folder) plants below the folder: a snapshot, samples and the dump of a device
that differs by one rule.  The seed decides everything; networks in which the rule has no
effect are drawn again, up to TRIES times.

    plants.py FIRST END     one line per seed, and counts"""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
import random_graphs  # noqa: E402

QG = os.environ.get("QG", "build/qg")
TRIES = 6
KINDS = ["rounding", "shift", "saturation", "limit", "padding", "fusion", "unfused", "grid",
         "hidden grid", "weights", "clamp order", "headroom", "bare unfused", "other step"]
CAUSES = {  # of diverge, that name the plant
    "rounding": {"requantization", "rounding"}, "shift": {"requantization"},
    "saturation": {"saturation"}, "limit": {"clamp"}, "padding": {"padding"},
    "fusion": {"fusion"}, "unfused": {"fusion"}, "grid": {"grid"}, "hidden grid": {"grid"},
    "weights": {"weights"}, "clamp order": {"clamp"}, "headroom": {"headroom"},
    "bare unfused": {"fusion"}, "other step": {"grid"}}


def qg(*args, ok=(0,)):
    done = subprocess.run([QG, *map(str, args)], capture_output=True, text=True)
    if done.returncode not in ok:
        raise RuntimeError(f"qg {' '.join(map(str, args))}: {done.stderr}")
    return done.stdout


def trace(snapshot, data, out, *more):
    qg("trace", snapshot, "-d", data, "-o", out, *more)


def read(path):
    """(description, arrays by value) of a trace."""
    if path.is_dir():
        info = json.loads((path / "trace.json").read_text())
        return info, {a["value"]: np.load(path / a["file"]) for a in info["arrays"]}
    with np.load(path) as z:
        info = json.loads(z["trace.json"])
        return info, {a["value"]: z[a["file"].removesuffix(".npy")] for a in info["arrays"]}


def write(folder, info, arrays):
    folder.mkdir()
    for a in info["arrays"]:
        np.save(folder / a["file"], arrays[a["value"]])
    (folder / "trace.json").write_text(json.dumps(info))


class Plant:
    def __init__(self, seed, folder, attempt=0):
        seed_of = seed + 1000 * attempt
        self.random = np.random.RandomState(seed_of)
        self.kind = KINDS[seed % len(KINDS)]
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "x.npz"
        self.snapshot, self.dump = self.folder / "snapshot", self.folder / "dump.npz"
        self.values = None  # where it was planted, one of them; None: everywhere
        self.backend = "ort-int8" if self.kind == "saturation" else "tflite-int8"
        self.profile = ("onnxruntime-x86-vnni" if self.kind == "saturation"
                        else "tflite-reference")
        self.network(seed_of)
        getattr(self, self.kind.replace(" ", "_"))()

    def network(self, seed):
        network = random_graphs.Network(seed)
        network.grow()
        model = network.model()
        onnx.save(model, self.folder / "m.onnx")
        scale = 3 if self.kind == "saturation" else 1
        np.savez(self.data, **{
            i.name: (scale * self.random.randn(4, *[d.dim_value for d in
                     i.type.tensor_type.shape.dim])).astype(np.float32)
            for i in model.graph.input})
        self.quantize(self.backend if self.kind != "saturation" else
                      self.variant("ort-int8", "defaults: {range: [0, 255]}\n"),
                      self.snapshot)

    def quantize(self, backend, out, *more):
        qg("quantize", self.folder / "m.onnx", "-b", backend, "-d", self.data, "-o", out,
           "--kernels", "reference", *more)

    # --- plants ---
    def device(self, keys):
        """A profile whose convolutions and products have other keys."""
        row = {"id": "planted", "use": ["conv", "conv-one", "depthwise", "dense",
                                        "dense-channel"],
               "scheme": "fix-double", "factor": "double", "why": "planted",
               "source": "tests/scripts/plants.py"} | keys
        lines = ["name: planted", "title: planted", f"extends: {self.profile}", "kernels:"]
        lines += [("  - " if i == 0 else "    ") +
                  f"{k}: {'[' + ', '.join(v) + ']' if isinstance(v, list) else v}"
                  for i, (k, v) in enumerate(row.items())]
        path = self.folder / "planted.yaml"
        path.write_text("\n".join(lines) + "\n")
        trace(self.snapshot, self.data, self.dump, "--profile", path)

    def draw(self, words):
        return words[self.random.randint(len(words))]

    def rounding(self):
        self.device({"scheme": self.draw(["fix-single", "fix-double-up", "float-rne",
                                          "double-away"])})

    def shift(self):
        self.device({"scheme": self.draw(["fix-reduced", "fix-eighth"])})

    def saturation(self):
        trace(self.snapshot, self.data, self.dump, "--profile", "onnxruntime-x86-avx2")

    def limit(self):
        """One tensor uses fewer codes."""
        low, high = self.draw([(-128, 60), (-128, 100), (-120, 120)])

        def narrow(quant):
            root = self.draw([t for t in self.roots(quant)
                              if all(low <= z <= high for z in t["offset"])])
            for t in quant["tqcs"]:
                if t["dominator"] == root["id"]:
                    t["range"] = [low, high]
        self.edited(narrow)

    def clamp_order(self):
        """One tensor is clamped to the codes of its type before its zero point is added.  Concat
        copies inputs that are on its grid, so it would clamp a part of its result."""
        def clamped(quant):
            root = self.draw([t for t in self.roots(quant) if t["offset"][0] and
                              not t["node"].startswith("Concat")])
            zero = root["offset"][0]
            for t in quant["tqcs"]:
                if t["dominator"] == root["id"]:
                    t["range"] = [max(-128, zero - 128), min(127, zero + 127)]
        self.edited(clamped)

    def headroom(self):
        """Sums bring their operands to one grid with other bits to spare."""
        path = self.folder / "planted.yaml"
        path.write_text(
            f"name: planted\ntitle: planted\nextends: {self.profile}\nkernels:\n"
            "  - id: planted\n    use: [add, sub]\n    form: fixed\n    scheme: fix-double\n"
            f"    left: {{8: {self.draw([4, 5, 6, 7])}}}\n    why: planted\n"
            "    source: tests/scripts/plants.py\n")
        trace(self.snapshot, self.data, self.dump, "--profile", path)

    def bare_unfused(self):
        """The device rounds between a convolution and its activation, and the dump does not
        give its grids."""
        self.unfused()
        self.bare()

    def bare(self):
        info, arrays = read(self.dump)
        for a in info["arrays"]:
            a["grid"] = None
        self.dump = self.folder / "hidden"
        write(self.dump, info, arrays)

    def other_step(self):
        """A dump of floats without grids, of which one tensor has another step."""
        self.edited(self.another_grid)
        info, arrays = read(self.dump)
        for a in info["arrays"]:
            grid, x = a["grid"], arrays[a["value"]]
            if grid:
                arrays[a["value"]] = ((x.astype(np.float32) - grid["zero"]) *
                                      np.float32(grid["scale"]))
            a["grid"] = None
        self.dump = self.folder / "floats"
        write(self.dump, info, arrays)

    def edited(self, change):
        """The dump of a copy of the snapshot whose records were changed."""
        self.values = set()
        copy = self.folder / "device"
        shutil.copytree(self.snapshot, copy)
        quant = json.loads((copy / "quant.json").read_text())
        before = {t["id"]: json.dumps(t) for t in quant["tqcs"]}
        change(quant)
        self.values = {t["value"] for t in quant["tqcs"] if json.dumps(t) != before[t["id"]]}
        (copy / "quant.json").write_text(json.dumps(quant))
        trace(copy, self.data, self.dump, "--profile", self.profile)

    @staticmethod
    def roots(quant):
        return [t for t in quant["tqcs"] if t["state"] == "ACTIVATED" and t["scale"] and
                t["slot"].startswith("out") and t["dominator"] == t["id"]]

    def another_grid(self, quant):
        root = self.draw(self.roots(quant))
        factor = float(self.draw([0.8, 0.93, 1.1, 1.25]))
        for t in quant["tqcs"]:
            if t["dominator"] == root["id"] and t["scale"] == root["scale"] and t is not root:
                t["scale"] = [float(np.float32(s * factor)) for s in t["scale"]]
        root["scale"] = [float(np.float32(s * factor)) for s in root["scale"]]

    def grid(self):
        self.edited(self.another_grid)

    def hidden_grid(self):
        """The dump does not give its grids."""
        self.edited(self.another_grid)
        self.bare()

    def weights(self):
        self.quantize(self.backend, self.folder / "device", "--set",
                      "op=Conv slot=weight policy=per-tensor,linear,symmetric")
        trace(self.folder / "device", self.data, self.dump, "--profile", self.profile)

    UNFUSED = "-fusions: [compute-activation]\n"

    def variant(self, backend, text):
        path = self.folder / "variant.yaml"
        path.write_text(f"name: variant\ntitle: planted\nextends: {backend}\n{text}")
        return path

    def unfused(self):
        """The device rounds between a convolution and its activation, and has no other grids:
        Concat behind the convolution would share its grid with other values."""
        device = self.folder / "device"
        self.quantize(self.variant("tflite-int8", self.UNFUSED), device)
        trace(device, self.data, self.dump, "--profile", self.profile)
        self.expect_own_grids()

    def expect_own_grids(self):
        """The device's are those of the program, where both store a value."""
        own, theirs = self.grids(self.own_trace()), self.grids(self.dump)
        if any(own.get(v, grid) != grid for v, grid in theirs.items()):
            raise ValueError("the device has other grids")

    def own_trace(self):
        """That of the program without the plant."""
        out = self.folder / "own.npz"
        trace(self.snapshot, self.data, out, "--profile", self.profile)
        return out

    @staticmethod
    def grids(dump):
        return {a["value"]: a["grid"] for a in read(dump)[0]["arrays"]}

    def fusion(self):
        """The program rounds there and the device does not."""
        shutil.move(self.snapshot, self.folder / "device")
        self.quantize(self.variant("tflite-int8", self.UNFUSED), self.snapshot)
        trace(self.folder / "device", self.data, self.dump, "--profile", self.profile)
        self.expect_own_grids()

    def padding(self):
        """One convolution pads with code 0: its output is computed here."""
        trace(self.snapshot, self.data, self.dump, "--profile", self.profile)
        info, arrays = read(self.dump)
        model = onnx.load(self.snapshot / "model.onnx")
        quant = json.loads((self.snapshot / "quant.json").read_text())
        tqcs = {(t["node"], t["slot"]): t for t in quant["tqcs"]}
        weights = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
        readers = {}
        for n in model.graph.node:
            for name in n.input:
                readers.setdefault(name, []).append(n)
        able = [n for n in model.graph.node if n.op_type == "Conv" and
                any(x for a in n.attribute if a.name == "pads" for x in a.ints) and
                n.input[0] in arrays and n.input[1] in weights]
        grids = self.grids(self.dump)
        able = [(n, self.stored(n, arrays, readers)) for n in able if grids[n.input[0]]]
        able = [(n, y) for n, y in able if y and grids[y]]
        self.dump = self.folder / "padded"
        if able:
            n, y = self.draw(able)
            arrays[y] = self.pad_with_zero(n, arrays[n.input[0]], arrays[y], weights, tqcs,
                                           grids[n.input[0]], grids[y], y != n.output[0])
            self.values = {y}
        write(self.dump, info, arrays)

    @staticmethod
    def stored(n, arrays, readers):
        """The value that a convolution stores: behind its activation."""
        if n.output[0] in arrays:
            return n.output[0]
        after = readers.get(n.output[0], [])
        return (after[0].output[0] if len(after) == 1 and after[0].op_type == "Relu" and
                after[0].output[0] in arrays else None)

    @staticmethod
    def pad_with_zero(n, x, y, weights, tqcs, gx, gy, clamps):
        """The kernel of TensorFlow Lite, with code 0 outside of the picture."""
        at = {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute}
        w = weights[n.input[1]]
        s_w = np.array(tqcs[(n.name, "in1")]["scale"], np.float32)
        q = half_away(w / s_w.reshape(-1, 1, 1, 1)).clip(-127, 127).astype(np.int64)
        group, stride, pads = at.get("group", 1), at["strides"], at["pads"]
        m, per = w.shape[:2]
        wide = np.pad(x.astype(np.int64)[:, 0],
                      [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]) - gx["zero"]
        acc = np.zeros((len(x), m, *y.shape[-2:]), np.int64)
        for c in range(m):
            first = c // (m // group) * per
            for i in range(w.shape[2]):
                for j in range(w.shape[3]):
                    part = wide[:, first:first + per, i:i + stride[0] * acc.shape[2]:stride[0],
                                j:j + stride[1] * acc.shape[3]:stride[1]]
                    acc[:, c] += np.einsum("nchw,c->nhw", part, q[c, :, i, j])
        s_x, s_y = np.float32(gx["scale"]), np.float32(gy["scale"])
        if len(n.input) > 2:
            acc += half_away(weights[n.input[2]] / (s_x * s_w)).astype(np.int64)[:, None, None]
        out = np.empty_like(acc)
        for c in range(m):
            factor = float(s_x) * float(s_w[c % len(s_w)]) / float(s_y)
            out[:, c] = requantize(acc[:, c], factor)
        low = gy["zero"] if clamps else -128
        return (out + gy["zero"]).clip(low, 127).astype(y.dtype)[:, None]


def half_away(x):
    x = np.asarray(x, np.float64)
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def requantize(acc, factor):
    """Scheme fix-double."""
    fraction, shift = np.frexp(factor)
    m, shift = int(half_away(fraction * 2.0 ** 31)), int(shift)
    if m == 1 << 31:
        m, shift = m // 2, shift + 1
    acc = acc << max(shift, 0)
    product = acc * m
    nudge = np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = (product + nudge)
    high = np.where(high >= 0, high >> 31, -((-high) >> 31))
    right = max(-shift, 0)
    mask = (1 << right) - 1
    rest = high & mask
    return (high >> right) + (rest > (mask >> 1) + (high < 0))


def has_effect(plant):
    """Whether the dump differs from the program's own trace."""
    ours, theirs = read(plant.own_trace())[1], read(plant.dump)[1]
    return any(name not in theirs or x.shape != theirs[name].shape or
               (x != theirs[name]).any() for name, x in ours.items())


def make(seed, folder):
    plant = fault = None
    for attempt in range(TRIES):
        where = pathlib.Path(folder) / str(attempt)
        where.mkdir()
        try:
            plant = Plant(seed, where, attempt)
        except (RuntimeError, ValueError) as e:
            fault = e
            continue  # a network that the rule does not fit
        if has_effect(plant):
            break
    if plant is None:
        raise RuntimeError(f"seed {seed}: no network fits: {fault}")
    return plant


def diverge(plant, *more):
    text = qg("diverge", plant.snapshot, "-d", plant.data, "--against", plant.dump,
              "--profile", plant.profile, "--json", "--jobs", "1", *more, ok=(0, 1))
    return json.loads(text)


def judge(seed, folder):
    """(kind, outcome, text): right, tied, listed, wrong, wrong node, or equal."""
    plant = make(seed, folder)
    r = diverge(plant, "--top", "1")
    if not r["differing"]:
        return plant.kind, "equal", ""
    causes = CAUSES[plant.kind]
    found = [h for h in r["hypotheses"] if h["node"] == r["first"]]
    best = [h for h in found if h["fits"] == found[0]["fits"] and
            not (h["detail"] or "").startswith("undecided")]
    outcome = ("wrong node" if plant.values and r["nodes"][0]["value"] not in plant.values
               else "wrong" if not any(h["cause"] in causes for h in found)
               else "right" if best and best[0]["cause"] in causes
               else "tied" if any(h["cause"] in causes for h in best) else "listed")
    row = r["nodes"][0]
    return plant.kind, outcome, f"{r['first']}: {row['differ']} of {row['of']}: {row['verdict']}"


def main():
    counts = collections.defaultdict(collections.Counter)
    for seed in range(*map(int, sys.argv[1:3])):
        with tempfile.TemporaryDirectory() as folder:
            kind, outcome, text = judge(seed, folder)
        counts[kind][outcome] += 1
        counts["all"][outcome] += 1
        print(f"{seed:4} {kind:12} {outcome:8} {text}", flush=True)
    for kind, count in counts.items():
        print(f"{kind:12}", dict(count))


if __name__ == "__main__":
    main()
