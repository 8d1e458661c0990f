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
    tests/bench/observers.py networks net.onnx photos:32x3x240x320:-1:1:5 photos:16x3x240x320:-1:1:6

DATA: what `qg -d` takes; FILE.npz#KEY:A:B, samples A to B - 1 of an array; or
photos:SHAPE:LOW:HIGH:SEED, noise with the spectrum of photos.  tests/bench/observers.sh has
the call that made the table of docs/calibration.md.

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


def photos(shape, low, high, seed):
    """The power of photos falls with the square of the frequency; their channels correlate,
    and brightness and contrast differ from one to the next."""
    r = np.random.default_rng(int(seed))
    n, c, h, w = map(int, shape.split("x"))
    y, x = np.fft.fftfreq(h)[:, None], np.fft.rfftfreq(w)[None, :]
    z = r.standard_normal((n, c, h, w // 2 + 1)) + 1j * r.standard_normal((n, c, h, w // 2 + 1))
    z = z / np.maximum(np.hypot(y, x), 1 / max(h, w))
    z = 0.85 * z.mean(1, keepdims=True) * np.sqrt(c) + 0.5 * z
    p = np.fft.irfft2(z, s=(h, w))
    p = (p - p.mean((2, 3), keepdims=True)) / p.std((1, 2, 3), keepdims=True)
    p = p * r.uniform(0.15, 0.35, (n, 1, 1, 1)) + r.uniform(0.35, 0.65, (n, 1, 1, 1))
    low, high = float(low), float(high)
    return (np.clip(p, 0, 1) * (high - low) + low).astype("f")


def digits(path):
    """8x8 digits as mnist-8 wants them: 24x24 in the middle of 28x28, 0 to 255."""
    x = np.load(path).reshape(-1, 8, 8)
    y = np.zeros((len(x), 1, 28, 28), "f")
    y[:, 0, 2:26, 2:26] = np.kron(x, np.ones((3, 3))) / x.max() * 255
    return y


def data_of(text, folder, name):
    """A path for `qg -d`."""
    path = os.path.join(folder, name + ".npy")
    if text.startswith("photos:"):
        np.save(path, photos(*text.split(":")[1:]))
    elif text.startswith("digits:"):
        np.save(path, digits(text.split(":", 1)[1])[:100])
    elif "#" in text:
        file, part = text.split("#")
        key, first, end = part.split(":")
        np.save(path, np.load(file)[key][int(first):int(end)])
    else:
        return text
    return path


def networks(args):
    cases = [args.case[i:i + 3] for i in range(0, len(args.case), 3)]
    if not cases or len(args.case) % 3:
        sys.exit("observers.py networks: expected MODEL DATA HOLDOUT, three for each network")
    total = {o: [] for o in args.observer}
    print("| network | backend | " + " | ".join(args.observer) + " |")
    print("|---|---|" + "---:|" * len(args.observer))
    with tempfile.TemporaryDirectory() as folder:
        for model, calib, holdout in cases:
            calib, holdout = data_of(calib, folder, "calib"), data_of(holdout, folder, "holdout")
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
