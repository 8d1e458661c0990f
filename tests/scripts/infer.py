"""Backends from dumps: a network simulated under a shipped backend, of which only the tensors
are shown that the backend stores, and what qg infer-backend makes of the dump.

    infer.py [--form codes|floats] [--same] [--without] [--backends A,B] [--cells FILE]
             [--kept] [--write] [NETWORK...]
    infer.py --changed SEED COUNT [--from-base] [--verbose] [NETWORK...]

With QG=path of `qg`, from the project's root: a table backend x network of the endpoints with
the same rounding, grid and group, in %, and every endpoint that differs and is not listed as
undecided.  The device is calibrated on other samples than those of the dump (--same: on the
same).  --form codes: integers with their grids, as LiteRT shows them; floats: dequantized,
without any grid.  --without: the device's own backend is no candidate, the next nearest one is
the base.  --cells: results are kept in the file, and those that are there are not computed
again (--kept: nothing is).  --write: the table goes into docs/device.md.  Without arguments:
all backends, the six networks, the unseen ones.

--changed: COUNT devices from the seed on, each of a shipped backend of which one to three
decisions were changed at random (changed.py), on a random network of those given; without any,
of the zoo.  --from-base: the shipped backend is given by --from."""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "zoo"))
import changed  # noqa: E402
import plants  # noqa: E402

DIGITS = "digits"
SIX = (DIGITS, "mobilenet_v3", "ds_cnn", "unet", "yolo_v8", "wavenet")
UNSEEN = ("resnet18", "ssd_mobilenet", "segformer",  # chosen before the first run
          "crnn", "distilbert", "dcgan")  # of other kinds, chosen before the second one
PAGE, MARK = pathlib.Path("docs/device.md"), "## The table of backends"
SAMPLES = 4
ROUNDS = {"ACTIVATED", "PASSIVE", "BAKED", "PASSIVE_BAKED"}


def backends():
    listed = json.loads(plants.qg("list", "backends", "--json"))
    rows = next(v for v in listed.values() if isinstance(v, list))
    return [r["backend"] for r in rows]


def zoo():
    """Networks that are quick to draw, quantize and infer."""
    return [DIGITS, *SIX[1:], "resnet18", "ssd_mobilenet", "segformer", "crnn", "distilbert",
            "dcgan", "mobilenet_v1", "mobilenet_v2", "pp_lcnet", "efficientnet_lite",
            "shufflenet_v2", "squeezenet", "densenet121", "regnet_y", "yunet", "espcn", "fsrcnn",
            "edsr", "autoencoder", "svtr", "deeplab_v3", "hrnet", "vit", "pointnet", "convnext",
            "mlp_mixer", "yolo_v3_tiny", "centernet"]


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
                "floating" in t["policy"] or t["bits"] > 16:
            continue
        scale, zero = np.float32(t["scale"][0]), t["offset"][0]
        codes = x / scale + zero
        if t["slot"].startswith("in"):
            codes = np.rint(codes).clip(*t["range"])
            arrays[a["value"]] = ((codes - zero) * scale).astype(np.float32)
        if form == "floats" or np.abs(codes - np.round(codes)).max() > 0.01:  # a mean that is not rounded
            continue
        kind = f"{'int' if t['range'][0] < 0 else 'uint'}{8 if t['bits'] <= 8 else 16}"
        arrays[a["value"]] = np.round(codes).astype(kind)
        a["grid"] = {"scale": float(scale), "zero": int(zero)}
    info["arrays"] = kept
    plants.write(out, info, arrays)


def infer(model, data, dump, out, *more):
    return json.loads(plants.qg("infer-backend", model, "-d", data, "--against", dump, "-o", out,
                                "--json", *more))


def next_base(report, backend):
    """The best simulated candidate other than the device's own."""
    def against(c):
        parts = [c[k].split("/") for k in ("kinds", "links", "schemes", "results")]
        return sum(int(of) - int(part) for part, of in parts), c["changes"]
    rows = [c for c in report["candidates"] if c["backend"] != backend and c["results"]]
    return min(rows, key=against)["backend"]


def effective(rest):
    """Offsets and range; limits of a bias in 32 bits, which no code reaches, are left out."""
    low, high = rest[-2:] if rest else (0, 0)
    return rest[:-2] if high - low >= 2 ** 30 - 1 else rest


def same(a, b):
    """Of by_endpoint; scales of float32 elements are known to a few units of 1e-7."""
    return (a[0], a[3]) == (b[0], b[3]) and effective(a[2]) == effective(b[2]) and \
        len(a[1]) == len(b[1]) and np.allclose(a[1], b[1], rtol=3e-6, atol=0)


def same_dump(mine, dump, data, folder, form):
    """Whether a device under the file gives every array of the dump, byte for byte, with
    its grid.  More arrays are no difference: a dump need not show all."""
    show(mine, data, folder / "again", form)
    (info, arrays), (other, theirs) = (plants.read(x) for x in (dump, folder / "again"))
    grids = {a["value"]: a["grid"] for a in other["arrays"]}
    return all(v in theirs and np.array_equal(arrays[v], theirs[v]) and grids[v] == grid
               for v, grid in ((a["value"], a["grid"]) for a in info["arrays"]))


def judge(name, backend, folder, options, subject=None, more=()):
    """(equal endpoints, all, those that differ and are not listed, the report, all that
    differ, same_dump).  subject: of network(), where it is there; more: options of infer-backend."""
    folder.mkdir(parents=True, exist_ok=True)
    model, calib, data = subject or network(name, folder)
    device, mine, dump = folder / "device", folder / "mine", folder / "dump"
    plants.qg("quantize", model, "-b", backend, "-d", data if options.same else calib, "-o",
              device)
    show(device, data, dump, options.form)
    yaml = folder / "mine.yaml"
    report = infer(model, data, dump, yaml, *more)
    if options.without:
        report = infer(model, data, dump, yaml, "--from", next_base(report, backend))
    plants.qg("quantize", model, "-b", yaml, "-d", data, "-o", mine)
    want, got = Records(device).by_endpoint(), Records(mine).by_endpoint()
    missed = [e for e in want if e not in got or not same(want[e], got[e])]
    listed = {u["endpoint"] for u in report["undecided"]}
    return len(want) - len(missed), len(want), [e for e in missed if e not in listed], report, \
        {e: (want[e], got.get(e)) for e in missed}, \
        bool(missed) and same_dump(mine, dump, data, folder, options.form)


def decisions(backend, model, calib):
    """What the backend decides, without scales."""
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "made"
        plants.qg("quantize", model, "-b", backend, "-d", calib, "--observer", "minmax", "-o",
                  made)
        return {e: (rounds, rest[-2:], group)
                for e, (rounds, _, rest, group) in Records(made).by_endpoint().items()}


def try_changed(options, names):
    """A line per seed, and sums."""
    first, count = options.changed
    equal = of = least = lost = 0
    subjects = {}
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)

        def subject(name):
            if name not in subjects:
                subjects[name] = network(name, home / name)
            return subjects[name]
        for seed in range(first, first + count):
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                c = changed.Change(seed, folder / "change", backends(), names, subject, decisions)
                made = time.monotonic() - began
                more = ("--from", c.base) if options.from_base else ()
                got = judge(c.network, c.file, folder / "x", options, subject(c.network), more)
                if options.keep:
                    shutil.copytree(folder, pathlib.Path(options.keep) / str(seed),
                                    dirs_exist_ok=True)
            equal, of = equal + got[0], of + got[1]
            share = got[0] / got[1] if got[1] else 1  # a device that quantizes nothing
            least += share >= 0.95
            lost += len(got[2])
            print(f"{seed:5} {c.base:19} {c.network:16} {100 * share:6.1f} "
                  f"{got[0]:4}/{got[1]:<4} unlisted {len(got[2]):3} undecided "
                  f"{got[3]['undecided_endpoints']:4} {'same dump ' if got[5] else ''}"
                  f"base {got[3]['nearest']:19} {made:.0f}+{time.monotonic() - began - made:.0f} s"
                  f"  {c.text()}", flush=True)
            if options.verbose:
                print("      changes", [(x["key"], x["word"]) for x in got[3]["changes"]
                                        if x["key"] != "rules"])
                for e in got[2][:12]:
                    print(f"      {e}: {got[4][e]}")
    print(f"{count} devices: {100 * equal / max(of, 1):.2f} % of {of} endpoints, {least} from "
          f"95 % on, {lost} misses that are not listed")


class Table:
    """{backend: {network: [equal, all, unlisted, listed as undecided, same dump]}}, kept in a
    file."""

    def __init__(self, options, folder):
        self.options, self.folder, self.subjects = options, folder, {}
        self.file = options.cells and pathlib.Path(options.cells)
        self.cells = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}

    def cell(self, backend, name):
        kept = self.cells.setdefault(backend, {})
        if name not in kept and not self.options.kept:
            kept[name] = self.computed(backend, name)
            if self.file:
                self.file.write_text(json.dumps(self.cells, indent=1))
        return kept.get(name)

    def computed(self, backend, name):
        if name not in self.subjects:
            self.subjects[name] = network(name, self.folder / name)
        with tempfile.TemporaryDirectory() as folder:
            try:
                equal, of, unlisted, report, differ, alike = judge(
                    name, backend, pathlib.Path(folder), self.options, self.subjects[name])
            except RuntimeError as fault:
                print(f"  {backend} {name}: {fault}", file=sys.stderr)
                return None
        if self.options.verbose:
            print(f"  {name}: base {report['nearest']}, {len(report['changes'])} changes, "
                  f"{report['undecided_endpoints']} undecided, missed {differ}")
        return equal, of, unlisted, report["undecided_endpoints"], alike

    def text(self, cell):
        """-: not there; =: the misses are not in the dump (same_dump)."""
        return f"{100 * cell[0] / cell[1]:.1f}{'=' if cell[4] else ''}" if cell else "-"

    def row(self, backend, names):
        """Texts, and the misses that are not listed."""
        cells = {n: c for n in names if (c := self.cell(backend, n)) and c[1]}
        equal, of = (sum(c[i] for c in cells.values()) for i in (0, 1))
        unlisted = [f"{n}:{m}" for n, c in cells.items() for m in c[2]]
        texts = [self.text(cells.get(n)) for n in names]
        share = f"{100 * equal / of:.1f}" if of else "-"
        return [backend, *texts, share, str(len(unlisted))], unlisted


def write(names, rows):
    """Into the page, behind the mark."""
    head = ["backend", *names, "all", "unlisted"]
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}",
             *(f"| {' | '.join(row)} |" for row in rows)]
    page = PAGE.read_text(encoding="utf-8")
    at = page.index("\n| backend |", page.index(MARK))
    PAGE.write_text(page[:at + 1] + "\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices=("codes", "floats"), default="codes")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--backends")
    parser.add_argument("--cells")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--changed", nargs=2, type=int, metavar=("SEED", "COUNT"))
    parser.add_argument("--from-base", action="store_true")
    parser.add_argument("--keep", metavar="FOLDER", help="keep what --changed makes")
    parser.add_argument("networks", nargs="*")
    options = parser.parse_args()
    if options.changed:
        try_changed(options, options.networks or zoo())
        return
    names, rows = options.networks or [*SIX, *UNSEEN], []
    print(f"{'backend':20}", *(f"{n[:12]:>12}" for n in names), f"{'all':>8} unlisted", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        table = Table(options, pathlib.Path(folder))
        for backend in options.backends.split(",") if options.backends else backends():
            row, unlisted = table.row(backend, names)
            rows.append(row)
            print(f"{row[0]:20}", *(f"{c:>12}" for c in row[1:-2]),
                  f"{row[-2]:>8} {row[-1]} {' '.join(unlisted[:6])}", flush=True)
    if options.write:
        write(names, rows)


if __name__ == "__main__":
    main()
