"""Backends from dumps: a network simulated under a shipped backend, of which only the tensors
are shown that the backend stores, and what qg infer-backend makes of the dump.

    infer.py [--form codes|floats] [--same] [--without] [--backends A,B] [NETWORK...]

With QG=path of `qg`, from the project's root: a table backend x network of the endpoints with
the same rounding, grid and group, in %, and every endpoint that differs and is not listed as
undecided.  The device is calibrated on other samples than those of the dump (--same: on the
same).  --form codes: integers with their grids, as LiteRT shows them; floats: dequantized,
without any grid.  --without: the device's own backend is no candidate, the next nearest one is
the base.  Without arguments: all backends, the six networks, the three unseen ones."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "zoo"))
import plants  # noqa: E402

DIGITS = "digits"
SIX = (DIGITS, "mobilenet_v3", "ds_cnn", "unet", "yolo_v8", "wavenet")
UNSEEN = ("resnet18", "ssd_mobilenet", "segformer")  # chosen before the first run
SAMPLES = 4
ROUNDS = {"ACTIVATED", "PASSIVE", "BAKED", "PASSIVE_BAKED"}


def backends():
    listed = json.loads(plants.qg("list", "backends", "--json"))
    rows = next(v for v in listed.values() if isinstance(v, list))
    return [r["backend"] for r in rows]


def network(name, folder):
    """(model, samples of the device, samples of the dump) below the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == DIGITS:
        calib, test = folder / "calib.npy", folder / "test.npy"
        np.save(calib, np.load("configs/data/digits_calib.npy")[:64])
        np.save(test, np.load("configs/data/digits_test.npy")[:SAMPLES])
        return "configs/models/digits.onnx", calib, test
    import graph  # pylint: disable=import-outside-toplevel
    import detection, language, segmentation, sequence, vision  # noqa  # pylint: disable=all
    model = folder / "m.onnx"
    samples = graph.build(name).save(model, 3 * SAMPLES)
    calib, test = folder / "calib.npz", folder / "test.npz"
    np.savez(calib, **{k: x[:2 * SAMPLES] for k, x in samples.items()})
    np.savez(test, **{k: x[2 * SAMPLES:] for k, x in samples.items()})
    return model, calib, test


class Records:
    """quant.json of a snapshot."""

    def __init__(self, snapshot):
        quant = json.loads((snapshot / "quant.json").read_text())
        self.tqc = {t["id"]: t for t in quant["tqcs"]}
        self.nodes = quant["nodes"]

    def by_endpoint(self):
        """(rounds, scales, rest of the grid, group) per endpoint."""
        def key(t):
            return f"{t['node']}.{t['slot']}"
        out = {}
        for t in self.tqc.values():
            root = self.tqc[t["dominator"]]
            own = root if t["state"] == "OVERLAPPED" else t
            scale = own["scale"] or root["scale"]
            if t["state"] in ("FP32", "SOI") or not scale:
                out[key(t)] = False, (), (), key(root)
            else:
                out[key(t)] = (t["state"] in ROUNDS, tuple(scale), (
                    *(own["offset"] or root["offset"]), *own["range"]), key(root))
        return out

    def stored(self):
        """{value: record of its grid} of what the backend stores, None for floats."""
        shown, readers = {}, {}
        for n in self.nodes:
            for value, t in zip(n["inputs"], n["in"]):
                readers.setdefault(value, []).append(self.tqc[t] if t is not None else None)
        for n in self.nodes:
            for value, t in zip(n["outputs"], n["out"]):
                t = self.tqc[t] if t is not None else None
                if t is None or t["state"] == "FP32":
                    shown[value] = self.rounded_by(readers.get(value, []))
                elif t["state"] in ("ACTIVATED", "PASSIVE"):
                    shown[value] = self.tqc[t["dominator"]] if not t["scale"] else t
                elif t["state"] == "OVERLAPPED" and self.moves(n, t, shown):
                    shown[value] = self.tqc[t["dominator"]]
        return shown

    def rounded_by(self, readers):
        """The grid of a float result that all of its readers round alike."""
        grids = [self.tqc[t["dominator"]] if t and not t["scale"] else t for t in readers]
        alike = readers and all(t and t["state"] in ("ACTIVATED", "PASSIVE") for t in readers) \
            and len({str(g["scale"]) for g in grids}) == 1
        return grids[0] if alike else None

    def moves(self, n, out, shown):
        for value, t in zip(n["inputs"], n["in"]):
            t = self.tqc[t] if t is not None else None
            if t and t["dominator"] == out["dominator"] and (
                    t["state"] in ("ACTIVATED", "PASSIVE") or (
                        shown.get(value) and shown[value]["dominator"] == out["dominator"])):
                return True
        return False


def show(snapshot, data, out, form):
    """The dump of the device, as a folder of the tensors that its backend stores."""
    own = out.with_suffix(".npz")
    plants.trace(snapshot, data, own, "--mode", "simulate")
    info, arrays = plants.read(own)
    stored, kept = Records(snapshot).stored(), []
    for a in info["arrays"]:
        if a["value"] not in stored:
            continue
        kept.append(a)
        t, x = stored[a["value"]], arrays[a["value"]]
        a["grid"] = None
        if t is None or not t["scale"] or len(t["scale"]) != 1 or \
                "floating" in t["policy"] or t["bits"] > 8:
            continue
        scale, zero = np.float32(t["scale"][0]), t["offset"][0]
        codes = x / scale + zero
        if t["slot"].startswith("in"):
            codes = np.rint(codes).clip(*t["range"])
            arrays[a["value"]] = ((codes - zero) * scale).astype(np.float32)
        if form == "floats" or np.abs(codes - np.round(codes)).max() > 0.01:  # a mean that is not rounded
            continue
        signed = t["range"][0] < 0
        arrays[a["value"]] = np.round(codes).astype(np.int8 if signed else np.uint8)
        a["grid"] = {"scale": float(scale), "zero": int(zero)}
    info["arrays"] = kept
    plants.write(out, info, arrays)


def infer(model, data, dump, out, *more):
    return json.loads(plants.qg("infer-backend", model, "-d", data, "--against", dump, "-o", out,
                                "--json", *more))


def next_base(report, backend):
    """The best candidate other than the device's own."""
    rows = [c for c in report["candidates"] if c["backend"] != backend and c["score"] and
            not c["why"]]
    return max(rows, key=lambda c: c["score"])["backend"]


def same(a, b):
    """Of by_endpoint; scales of float32 elements are known to a few units of 1e-7."""
    return (a[0], a[2], a[3]) == (b[0], b[2], b[3]) and len(a[1]) == len(b[1]) and \
        np.allclose(a[1], b[1], rtol=3e-6, atol=0)


def judge(name, backend, folder, options):
    """(equal endpoints, all, those that differ and are not listed, the report)."""
    model, calib, data = network(name, folder)
    device, mine, dump = folder / "device", folder / "mine", folder / "dump"
    plants.qg("quantize", model, "-b", backend, "-d", data if options.same else calib, "-o",
              device)
    show(device, data, dump, options.form)
    yaml = folder / "mine.yaml"
    report = infer(model, data, dump, yaml)
    if options.without:
        report = infer(model, data, dump, yaml, "--from", next_base(report, backend))
    plants.qg("quantize", model, "-b", yaml, "-d", data, "-o", mine)
    want, got = Records(device).by_endpoint(), Records(mine).by_endpoint()
    missed = [e for e in want if e not in got or not same(want[e], got[e])]
    listed = {u["endpoint"] for u in report["undecided"]}
    return len(want) - len(missed), len(want), [e for e in missed if e not in listed], report, \
        {e: (want[e], got.get(e)) for e in missed}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices=("codes", "floats"), default="codes")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--backends")
    parser.add_argument("networks", nargs="*")
    options = parser.parse_args()
    names = options.networks or [*SIX, *UNSEEN]
    print(f"{'backend':20}", *(f"{n[:12]:>12}" for n in names), f"{'all':>8} unlisted", flush=True)
    for backend in options.backends.split(",") if options.backends else backends():
        cells, equal, of, unlisted = [], 0, 0, []
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    e, n, misses, report, differ = judge(
                        name, backend, pathlib.Path(folder) / "x", options)
                except RuntimeError as fault:
                    cells.append("-")
                    print(f"  {backend} {name}: {fault}", file=sys.stderr)
                    continue
            cells.append(f"{100 * e / n:.1f}")
            equal, of = equal + e, of + n
            unlisted += [f"{name}:{m}" for m in misses]
            if options.verbose:
                print(f"  {name}: base {report['nearest']}, {len(report['changes'])} changes, "
                      f"{report['undecided_endpoints']} undecided, missed {differ}")
        print(f"{backend:20}", *(f"{c:>12}" for c in cells),
              f"{100 * equal / max(of, 1):8.2f} {len(unlisted)} {' '.join(unlisted[:6])}",
              flush=True)


if __name__ == "__main__":
    main()
