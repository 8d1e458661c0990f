"""Planted faults: a random network, and a device that computes it with one wrong rule.

plant(seed, folder) makes, below the folder, a snapshot, samples and the dump of a device
that differs by one rule, and returns a Plant.  The seed decides everything."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
import random_graphs  # noqa: E402

QG = os.environ.get("QG", "build/qg")
KINDS = ["rounding", "shift", "saturation", "limit", "padding", "fusion", "unfused", "grid",
         "hidden grid", "weights"]
CAUSES = {  # of diverge, that name the plant
    "rounding": {"requantization", "rounding"}, "shift": {"requantization"},
    "saturation": {"saturation"}, "limit": {"clamp"}, "padding": {"padding"},
    "fusion": {"fusion"}, "unfused": {"fusion"}, "grid": {"grid"}, "hidden grid": {"grid"},
    "weights": {"weights"}}


def qg(*args, ok=(0,)):
    done = subprocess.run([QG, *map(str, args)], capture_output=True, text=True)
    if done.returncode not in ok:
        raise RuntimeError(f"qg {' '.join(map(str, args))}: {done.stderr}")
    return done.stdout


def trace(snapshot, data, out, *more):
    qg("trace", snapshot, "-d", data, "-o", out, *more)


def read(path):
    """(description, arrays by value) of a trace."""
    with np.load(path) as z:
        info = json.loads(z["trace.json"])
        return info, {a["value"]: z[a["file"].removesuffix(".npy")] for a in info["arrays"]}


def write(folder, info, arrays):
    folder.mkdir()
    for a in info["arrays"]:
        np.save(folder / a["file"], arrays[a["value"]])
    (folder / "trace.json").write_text(json.dumps(info))


class Plant:
    def __init__(self, seed, folder):
        self.random = np.random.RandomState(seed)
        self.kind = KINDS[seed % len(KINDS)]
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "x.npz"
        self.snapshot, self.dump = self.folder / "snapshot", self.folder / "dump.npz"
        self.nodes = None  # where it was planted; None: everywhere
        self.backend = "ort-int8" if self.kind == "saturation" else "tflite-int8"
        self.profile = ("onnxruntime-x86-vnni" if self.kind == "saturation"
                        else "tflite-reference")
        self.network(seed)
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
           *more)

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
        low, high = self.draw([(-127, 127), (-128, 100), (-120, 120)])

        def narrow(quant):
            root = self.draw(self.roots(quant))
            for t in quant["tqcs"]:
                if t["dominator"] == root["id"]:
                    t["range"] = [low, high]
        self.edited(narrow)

    def edited(self, change):
        """The dump of a copy of the snapshot whose records were changed."""
        copy = self.folder / "device"
        shutil.copytree(self.snapshot, copy)
        quant = json.loads((copy / "quant.json").read_text())
        change(quant)
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
        info, arrays = read(self.dump)
        for a in info["arrays"]:
            a["grid"] = None
        self.dump = self.folder / "hidden"
        write(self.dump, info, arrays)

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
        """The device rounds between a convolution and its activation."""
        device = self.folder / "device"
        self.quantize(self.variant("tflite-int8", self.UNFUSED), device)
        trace(device, self.data, self.dump, "--profile", self.profile)

    def fusion(self):
        """The program rounds there and the device does not."""
        shutil.move(self.snapshot, self.folder / "device")
        self.quantize(self.variant("tflite-int8", self.UNFUSED), self.snapshot)
        trace(self.folder / "device", self.data, self.dump, "--profile", self.profile)

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
        able = [(n, self.stored(n, arrays, readers)) for n in able]
        able = [(n, y) for n, y in able if y]
        self.dump = self.folder / "padded"
        if able:
            n, y = self.draw(able)
            grids = {a["value"]: a["grid"] for a in info["arrays"]}
            arrays[y] = self.pad_with_zero(n, arrays[n.input[0]], arrays[y], weights, tqcs,
                                           grids[n.input[0]], grids[y], y != n.output[0])
            self.nodes = y
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


def diverge(plant, *more):
    text = qg("diverge", plant.snapshot, "-d", plant.data, "--against", plant.dump,
              "--profile", plant.profile, "--json", "--jobs", "1", *more, ok=(0, 1))
    return json.loads(text)


def main():
    import tempfile
    for seed in range(*map(int, sys.argv[1:3])):
        with tempfile.TemporaryDirectory() as folder:
            try:
                plant = Plant(seed, folder)
            except RuntimeError as e:
                print(seed, KINDS[seed % len(KINDS)], "no plant:", str(e).strip()[-250:])
                continue
            try:
                r = diverge(plant, "--top", "1")
            except RuntimeError as e:
                print(seed, plant.kind, "FAILED", str(e)[-200:])
                continue
            if not r["differing"]:
                print(seed, plant.kind, "equal")
                continue
            first = [h for h in r["hypotheses"] if h["node"] == r["first"]]
            top = first[0]["cause"] if first else "none"
            listed = any(h["cause"] in CAUSES[plant.kind] for h in first)
            best = first[0]["fits"] if first else 0
            tied = any(h["cause"] in CAUSES[plant.kind] and h["fits"] == best for h in first)
            print(seed, plant.kind, r["first"], plant.nodes or "",
                  f"{r['nodes'][0]['differ']}/{r['nodes'][0]['of']}", top,
                  "RIGHT" if top in CAUSES[plant.kind] else "tied" if tied
                  else "listed" if listed else "WRONG",
                  [(h["cause"], h["fits"]) for h in first][:3])


if __name__ == "__main__":
    main()
