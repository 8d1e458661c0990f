#!/usr/bin/env python3
"""observers.py few | networks MODEL DATA HOLDOUT ... -- which observer serves best: the
measurements behind docs/calibration.md and the defaults of configs/backends.

few       scales from N random numbers of several distributions, and the noise that the
          grid leaves on a million others, relative to minmax: from which N on an
          observer is worth its search
networks  noise of the outputs on samples that did not calibrate, relative to percentile,
          for every network, backend and observer

    tests/bench/observers.py few
    tests/bench/observers.py networks net.onnx calib.npy holdout.npy -b trt-int8 -b ort-int8

Prints Markdown tables.  Random numbers are seeded; noise of networks depends on the
kernels of the machine in its last digits."""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

QG = os.environ.get("QG", "build/qg")
OBSERVERS = "percentile minmax mse kl aciq-laplace".split()
DRAW = {
    "normal": lambda r, n: r.standard_normal(n),
    "relu": lambda r, n: np.maximum(r.standard_normal(n), 0),
    "laplace": lambda r, n: r.laplace(size=n),
    "uniform": lambda r, n: r.uniform(0, 1, n),
    "gate": lambda r, n: 1 / (1 + np.exp(-2 * r.standard_normal(n))),
}


def answer(*words):
    run = subprocess.run([QG, *map(str, words), "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip())
    return json.loads(run.stdout)


def geometric(x):
    return math.exp(np.mean(np.log(np.maximum(x, 1e-12))))


# --- few elements ---

def noise(x, scale):
    y = np.clip(np.rint(x / scale), -128, 127) * scale
    return float(((x - y) ** 2).sum() / (x ** 2).sum())


def few(args):
    sizes = [2 ** k for k in range(6, 19, 2)]
    print("| observer | distribution | " + " | ".join(map(str, sizes)) + " |")
    print("|---|---|" + "---:|" * len(sizes))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        for observer in OBSERVERS:
            if observer == "minmax":
                continue
            for name, draw in DRAW.items():
                cells = []
                for n in sizes:
                    ratio = []
                    for seed in range(args.repeat):
                        r = np.random.default_rng([seed, n])
                        np.save(path, draw(r, n).astype("f"))
                        fresh = draw(r, 1 << 20).astype("f")
                        scale = [answer("quantize-tensor", path, "--observer", o)["scale"]
                                 for o in (observer, "minmax")]
                        ratio.append(noise(fresh, scale[0]) / noise(fresh, scale[1]))
                    cells.append(f"{geometric(ratio):.2f}")
                print(f"| {observer} | {name} | " + " | ".join(cells) + " |", flush=True)


# --- networks ---

def error(folder, model, backend, observer, calib, holdout, samples):
    limit = ("-n", samples) if samples else ()
    answer("quantize", model, "-b", backend, "-d", calib, "--observer", observer,
           "-o", folder, *limit)
    rows = answer("analyse", folder, "-d", holdout, *limit)["errors"]
    return [row["error"] for row in rows]


def networks(args):
    cases = [args.case[i:i + 3] for i in range(0, len(args.case), 3)]
    if not cases or len(args.case) % 3:
        sys.exit("observers.py networks: expected MODEL DATA HOLDOUT, three for each network")
    total = {o: [] for o in args.observer}
    print("| network | backend | " + " | ".join(args.observer) + " |")
    print("|---|---|" + "---:|" * len(args.observer))
    with tempfile.TemporaryDirectory() as folder:
        for model, calib, holdout in cases:
            for backend in args.backend:
                row = {o: geometric(error(os.path.join(folder, "s"), model, backend, o,
                                          calib, holdout, args.samples))
                       for o in args.observer}
                base = row[args.observer[0]]
                print(f"| {pathlib.Path(model).stem} | {backend} | "
                      + f"{100 * base:.3g} % | "
                      + " | ".join(f"{row[o] / base:.2f}" for o in args.observer[1:]) + " |",
                      flush=True)
                for o in args.observer:
                    total[o].append(row[o] / base)
    print("| geometric mean | | 1 | "
          + " | ".join(f"{geometric(total[o]):.2f}" for o in args.observer[1:]) + " |")
    print("| worst | | 1 | "
          + " | ".join(f"{max(total[o]):.2f}" for o in args.observer[1:]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(".")[0])
    parser.add_argument("what", choices=["few", "networks"])
    parser.add_argument("case", nargs="*")
    parser.add_argument("-b", "--backend", action="append", default=[])
    parser.add_argument("-o", "--observer", action="append", default=[])
    parser.add_argument("-n", "--samples", type=int)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    args.backend = args.backend or ["trt-int8", "openvino-int8", "qnn-dsp-int8", "ncnn-int8"]
    args.observer = args.observer or OBSERVERS
    (few if args.what == "few" else networks)(args)


main()
