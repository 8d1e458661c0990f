#!/usr/bin/env python3
"""Observers of the ppq-, ort-, nvidia- and ncnn- families through `qg quantize`, on the input
of a small model, against onnxruntime's own collectors and against the rules of
docs/evidence/observers.md written down again in numpy; any number of workers gives the
same bytes."""
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
from command import EVERYTHING

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
    from onnxruntime.quantization import calibrate
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
SHAPE = (1, 4, 12, 12)
ASYMMETRIC = "slot=in0 policy=[per-tensor,linear,asymmetric] range=[0,255]"
FLOATING = "policy=[per-tensor,floating,symmetric,power-of-2] bits=8 exponent-bits=4 range=[-448,448]"
FLOATING = ("--set", "slot=in0 " + FLOATING, "--set", "slot=out0 " + FLOATING)
failures = checks = 0


def check(what, good, *detail):
    global failures, checks
    checks += 1
    if not good:
        failures += 1
        print(f"FAILED: {what}", *detail)


def make_model(path):
    weight = np.random.RandomState(5).randn(2, 4, 1, 1).astype(np.float32)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], "conv")
    conv2 = helper.make_node("Conv", ["y", "v"], ["z"], "conv2")
    graph = helper.make_graph(
        [conv, conv2], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, (1, 2, 12, 12))],
        [onnx.numpy_helper.from_array(weight, "w"),
         onnx.numpy_helper.from_array(weight[:, :2], "v")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
              path)


def samples(kind):
    """Eight samples with ranges that grow, shrink, and do not hold zero."""
    r = np.random.RandomState(11)
    size = [1.0, 0.5, 1.7, 1.7, 3.1, 0.1, 2.9, 4.3]
    x = np.stack([r.randn(*SHAPE) * s for s in size]).astype(np.float32)
    if kind == "positive":
        x = np.abs(x) + np.float32(0.05)
    if kind == "relu":
        x = np.maximum(x, 0)
    if kind == "outlier":
        x[3, 0, 1, 2, 3] = 90
    return x


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.model = f"{folder}/model.onnx"
        make_model(self.model)

    def run(self, x, observer, *options):
        np.save(f"{self.folder}/x.npy", x)
        return subprocess.run(
            [QG, "quantize", self.model, "-b", "trt-int8", "-d", f"{self.folder}/x.npy",
             "--observer", observer, "-o", f"{self.folder}/out", *options],
            capture_output=True, text=True, check=False)

    def endpoint(self, x, observer, *options):
        """Scale and offset of the model's input; the same for 1 and 3 workers."""
        seen = []
        for jobs in ("1", "3"):
            done = self.run(x, observer, "--jobs", jobs, *options)
            if done.returncode:
                check(f"{observer} {options}", False, done.stderr)
                return math.nan, 0
            with open(f"{self.folder}/out/quant.json", "rb") as f:
                seen.append(f.read())
        check(f"{observer}: workers", seen[0] == seen[1])
        document = json.loads(seen[0])
        tqc = next(t for t in document["tqcs"] if t["node"] == "conv" and t["slot"] == "in0")
        return tqc["scale"][0], tqc["offset"][0]


def affine(low, high, symmetric, qmin=-128, qmax=127):
    """compute_scale_zp of onnxruntime, and PPQ's with the offset mended."""
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    if symmetric:
        return np.float32(2 * max(-low, high) / (qmax - qmin)), 0
    scale = (high - low) / 255
    return np.float32(scale), int(np.clip(round(-low / scale), 0, 255))


# --- ONNX Runtime, by its own code ---

def ort_collector(x, method, symmetric, stream, **more):
    options = {"num_bins": 2048, "num_quantized_bins": 128, "percentile": 99.999, "scenario": "same"}
    options.update(more)
    collector = calibrate.HistogramCollector(method=method, symmetric=symmetric, **options)
    with contextlib.redirect_stdout(io.StringIO()):
        for batch in ([[s] for s in x] if stream else [list(x)]):
            collector.collect({"x": batch})
        return collector.compute_collection_result()["x"]


def test_ort(b):
    for k, kind in enumerate(("plain", "positive", "relu", "outlier")):
        x = samples(kind)
        for symmetric in (True, False) if EVERYTHING else (k % 2 == 0,):
            options = () if symmetric else ("--set", ASYMMETRIC)
            cases = [("ort-minmax", x.min(), x.max()),
                     ("ort-average", np.mean([s.min() for s in x]), np.mean([s.max() for s in x]))]
            low, high = x[0].min(), x[0].max()
            for s in x[1:]:
                low, high = low + 0.01 * (s.min() - low), high + 0.01 * (s.max() - high)
            cases.append(("ort-moving-average", low, high))
            for stream in (False, True):
                tail = "-stream" if stream else ""
                cases.append(("ort-percentile" + tail,
                              *ort_collector(x, "percentile", symmetric, stream)[:2]))
                cases.append((f"ort-percentile{tail},percentile=0.99,bins=300",
                              *ort_collector(x, "percentile", symmetric, stream, percentile=99.0, num_bins=300)[:2]))
                bins = 128 if kind == "outlier" and stream else 512  # they grow to 30 times that
                cases.append((f"ort-entropy{tail},bins={bins}",
                              *ort_collector(x, "entropy", symmetric, stream, num_bins=bins)[:2]))
            cases.append(("ort-entropy", *ort_collector(x, "entropy", symmetric, False, num_bins=128)[:2]))
            for observer, low, high in cases:
                scale, offset = b.endpoint(x, observer, *options)
                want = affine(low, high, symmetric)
                check(f"{observer} {kind} symmetric={symmetric}",
                      abs(scale / want[0] - 1) < 1e-6 and offset == want[1], (scale, offset), want)


def test_ort_distribution(b):
    grid = [0.0] * 2
    for code in range(1, 127):  # E4M3FN without NaN: exponent bias 7
        e, m = code >> 3, code & 7
        v = (8 + m) * 2.0 ** (e - 10) if e else m * 2.0 ** -9
        grid += [v, -v]
    for power, scenario in ((1, "same"), (1 / 3, "p3")):
        x = samples("plain")
        std = ort_collector(x, "distribution", False, False, scenario=scenario).std
        scale, _ = b.endpoint(x, f"ort-distribution,power={power!r}", *FLOATING)
        want = float(std) / np.std(np.array(grid))
        check(f"ort-distribution {scenario}", abs(scale / want - 1) < 1e-5, scale, want)


# --- pytorch-quantization, written down again ---

def grow_numpy(x, bins):
    count = edges = None
    for s in np.abs(x):
        s = s.ravel()
        if count is None:
            count, edges = np.histogram(s, bins=bins)
            continue
        if s.max() > edges[-1]:
            width = edges[1] - edges[0]
            edges = np.hstack((edges, np.arange(edges[-1] + width, s.max() + width, width)))
        more, edges = np.histogram(s, bins=edges)
        more[:len(count)] += count
        count = more
    return count, edges


def grow_torch(x, bins):
    f, count, edges = np.float32, None, None
    for s in np.abs(x):
        s, top = s.ravel(), s.max()
        if count is None:
            edges = np.linspace(0, top, bins + 1, dtype=np.float32)
            count = np.zeros(0, np.int64)
        elif top > edges[-1]:
            width = edges[1] - edges[0]
            bins = int(np.ceil(f(top / width)))
            edges = (np.arange(int(np.ceil(float(f(top + width)) / float(width)))) * float(width)).astype(f)
        position = (s * f(bins) / edges[-1]).astype(np.int64)
        more = np.bincount(np.minimum(position, bins - 1), minlength=bins)
        more[:len(count)] += count
        count = more
    return count, edges


def nvidia_entropy(count, edges, bits, first):
    count = count.copy()
    count[0] = count[1]
    levels, total, seen = 2 ** (bits - 1), count.sum(), []
    for i in range(first, len(count) + 1):
        space = np.linspace(0, i, num=levels + 1)
        digit = np.digitize(range(i), space) - 1
        digit[count[:i] == 0] = -1
        density = np.zeros(i)
        for k in range(levels):
            chosen = digit == k
            if chosen.any():
                density[chosen] = count[:i][chosen].sum() / chosen.sum()
        p = count[:i].astype(float)
        p[-1] += count[i:].sum()
        if density.sum() == 0 or total == 0:
            seen.append(np.inf)
            continue
        p, q = p / p.sum(), density / density.sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            seen.append(np.where(p > 0, p * np.log(p / q), 0).sum())
    seen = np.array(seen)
    return edges[len(seen) - 1 - np.argmin(seen[::-1]) + first]


def nvidia_mse(count, edges, bits, first):
    f = np.float32
    centers = ((edges[1:len(count) + 1] + edges[:len(count)]) / 2).astype(f)
    bound = f(2 ** (bits - 1) - 1)
    best, amax = np.inf, 0
    for i in range(first, len(centers)):
        scale = bound / centers[i]
        y = np.clip(np.rint(centers * scale), -bound, bound) / scale
        loss = ((y - centers) ** 2 * count.astype(f)).astype(np.float64).mean()
        if loss < best:
            best, amax = loss, centers[i]
    return amax


def test_nvidia(b):
    narrow = ("--set", "slot=in0 range=[-127,127]")
    for kind in ("plain", "relu", "outlier"):
        x = samples(kind)
        scale, _ = b.endpoint(x, "nvidia-max", *narrow)
        check(f"nvidia-max {kind}", abs(scale * 127 / np.abs(x).max() - 1) < 1e-6)
        for tail, grow in (("", grow_torch), ("-numpy", grow_numpy)):
            if not EVERYTHING and (kind == "relu") != (tail == ""):
                continue
            count, edges = grow(x, 300)
            cdf = np.cumsum(count / count.sum())
            cases = [
                (f"nvidia-percentile{tail},bins=300,percentile=0.999",
                 edges[np.searchsorted(cdf, 0.999)]),
                (f"nvidia-mse{tail},bins=300,first-bin=64", nvidia_mse(count, edges, 8, 64)),
            ]
            if kind != "outlier":
                cases.append((f"nvidia-entropy{tail},bins=300", nvidia_entropy(count, edges, 8, 128)))
            for observer, amax in cases:
                scale, offset = b.endpoint(x, observer, *narrow)
                check(f"{observer} {kind}", abs(scale * 127 / amax - 1) < 1e-6 and offset == 0,
                      scale * 127, amax)


# --- PPQ, written down again ---

def ppq_kl(x, bins=4096):
    f, top = np.float32, float(np.abs(x).max())
    position = (np.abs(x).ravel() * f(bins) / f(top)).astype(np.int64)
    h = np.bincount(np.minimum(position, bins - 1), minlength=bins).astype(f)
    crushed = int(bins * 0.002)
    h[:crushed], h[crushed] = 0, 1
    best, kept = np.inf, 0
    for n in range(128, bins + 1, 128):
        p = h[:n].copy()
        p[-1] += h[n:].sum()
        p /= h.sum()
        rows = h[:n].reshape(128, -1)
        mean = rows.sum(1) / np.maximum((rows > 0).sum(1), 1)
        q = np.where(rows > 0, mean[:, None], 0).ravel()
        q /= q.sum()
        p, q = p.astype(float), q.astype(float)
        loss = (p * (np.log10(p + 1e-30) - np.log10(q + 1e-30))).sum()
        if loss < best:
            best, kept = loss, n
    return kept * (top / bins) / 128


def ppq_loss(count, start, step, end):
    i = np.arange(len(count))
    left = (i - start) % step
    right = step - left - 1
    inside = np.where(left == right, left + 0.25, np.minimum(left, right) + 0.5)
    e = np.where(i < start, start - i - 0.5, np.where(i > end, i - end + 0.5, inside))
    return (count * e ** 2 / count.sum()).sum()


def ppq_mse(x, symmetric, bins=2048):
    f = np.float32
    low, high = (0.0, float(np.abs(x).max())) if symmetric else (float(x.min()), float(x.max()))
    v = np.abs(x).ravel() if symmetric else x.ravel()
    position = ((v - f(low)) * f(bins) / (f(high) - f(low))).astype(np.int64)
    count = np.bincount(np.minimum(position, bins - 1), minlength=bins)
    width, most = (high - low) / bins, bins // 256
    grids = [(0, most + 1, 256 * (most + 1))]
    for start in range(0, 1 if symmetric else bins, 8):
        if not symmetric and start * width + low > 0:
            break
        grids += [(start, k, start + 256 * k) for k in range(1, most + 1)
                  if start + 256 * k <= bins + 256]
    loss = [ppq_loss(count, *g) for g in grids]
    start, _, end = grids[int(np.argmin(loss))]
    return (-end * width, end * width) if symmetric else (start * width + low, end * width + low)


def ppq_isotone(x, symmetric, qmax):
    borders = []
    for row in x.reshape(-1, x.shape[-1]):
        l2, l1 = (float(v) for v in np.sort(row)[-2:])
        if symmetric:
            l1, l2 = abs(l1), abs(l2)
        least, most = max(l2 / (qmax - 0.51), 0), 2 * (l1 - max(l2, 0))
        if most > least and l1 > 0:
            borders += [(least, "min"), (most, "max")]
    best = count = scale = 0
    for value, kind in sorted(borders):
        count += 1 if kind == "min" else -1
        if count > best:
            best, scale = count, value
    return scale


def test_ppq(b):
    for kind in ("plain", "positive", "relu", "outlier"):
        x = samples(kind)
        scale, _ = b.endpoint(x, "ppq-kl")
        want = ppq_kl(x)
        check(f"ppq-kl {kind}", abs(scale / want - 1) < 1e-6, scale, want)
        for symmetric in (True, False):
            options = () if symmetric else ("--set", ASYMMETRIC)
            low, high = np.mean([s.min() for s in x]), np.mean([s.max() for s in x])
            for observer, want in (
                    ("ppq-minmax", affine(x.min(), x.max(), symmetric)),
                    ("ppq-percentile", affine(low, high, symmetric)),
                    ("ppq-mse", affine(*ppq_mse(x, symmetric), symmetric)),
                    ("ppq-isotone", (ppq_isotone(x, symmetric, 127 if symmetric else 255), 0))):
                scale, offset = b.endpoint(x, observer, *options)
                check(f"{observer} {kind} symmetric={symmetric}",
                      abs(scale / want[0] - 1) < 1e-6 and offset == want[1], (scale, offset), want)
    scale, _ = b.endpoint(samples("plain"), "ppq-constant", *FLOATING)
    check("ppq-constant", scale == 1, scale)
    scale, _ = b.endpoint(samples("plain") / 64, "ppq-floating", *FLOATING)
    check("ppq-floating", scale == 2 ** -5 or scale == 2 ** -7, scale)


# --- ncnn ---

def ncnn_kl(x):
    f = np.float32
    top, v = np.abs(x).max(), np.abs(x[x != 0])
    count = np.bincount(np.minimum((v / top * f(2048)).astype(np.int64), 2047), minlength=2048)
    p = (count / float(count.sum())).astype(f).astype(float)
    best, kept, eps = np.inf, 0, 1e-4
    for t in range(128, 2048):
        big = p[:t] + eps
        big[-1] += p[t:].sum()
        q, w = np.full(t, eps), t / 128
        for k in range(128):
            start, end = (k * w, (k + 1) * w) if k < 127 else (t - w, t)
            lo, hi = math.ceil(start), math.floor(end)
            ls, rs = lo - start, end - hi
            if k == 0:
                lo, ls = 0, 0
            if k == 127:
                hi, rs = t, 0
            s = p[lo:hi].sum() + (ls * p[lo - 1] if ls > 0 else 0) + (rs * p[hi] if rs > 0 else 0)
            s /= hi - lo + ls + rs
            if ls > 0:
                q[lo - 1] += ls * s
            if rs > 0:
                q[hi] += rs * s
            q[lo:hi] += s
        loss = (big * np.log(big / q)).sum()
        if loss < best:
            best, kept = loss, t
    return (kept + 0.5) * float(top) / 2048


def test_ncnn(b):
    for kind in ("plain", "relu"):
        x = samples(kind)
        scale, _ = b.endpoint(x, "ncnn-kl")
        want = ncnn_kl(x)
        check(f"ncnn-kl {kind}", abs(scale * 127 / want - 1) < 1e-5, scale * 127, want)
        scale, _ = b.endpoint(x, "ncnn-aciq")
        sigma = float(np.abs(x).max()) * 0.35 * (1 + math.sqrt(math.pi * math.log(4)))
        want = 3.92403714 * sigma / math.sqrt(2 * math.log(x[0].size))
        check(f"ncnn-aciq {kind}", abs(scale * 127 / want - 1) < 1e-6, scale * 127, want)


# --- edges, and what is refused ---

def test_edges(b):
    names = [o["observer"] for o in json.loads(subprocess.run(
        [QG, "list", "observers", "--json"], capture_output=True, text=True, check=True).stdout)["observers"]]
    family = [n for n in names if n.split("-")[0] in ("ppq", "ort", "nvidia", "ncnn")]
    check("all families are listed", len(family) >= 24, family)
    for n in family:
        extra = FLOATING if n in ("ppq-constant", "ppq-floating", "ort-distribution") else ()
        for what, x in (("zeros", np.zeros((3, *SHAPE), np.float32)),
                        ("constant", np.full((3, *SHAPE), 2.5, np.float32)),
                        ("zeros first", np.concatenate((np.zeros((1, *SHAPE), np.float32), samples("plain"))))):
            scale, _ = b.endpoint(x, n, *extra)
            check(f"{n} of {what}", scale > 0 and math.isfinite(scale), scale)
        bad = samples("plain")
        bad[5, 0, 0, 0, 0] = np.nan
        if n != "ppq-constant":
            done = b.run(bad, n, *extra)
            check(f"{n}: NaN", done.returncode == 1 and "sample 5" in done.stderr, done.stderr)


def test_refusals(b):
    x = samples("plain")
    for observer, options, message in (
            ("ppq-kl,levels=3", (), "observer ppq-kl has no parameter 'levels', expected one of min-scale (1e-38 to 1), bins (2 to 1048576)"),
            ("ppq-kl,bins=1.5", (), "observer ppq-kl: bins=1.5, expected a whole number from 2 to 1048576"),
            ("ppq-kl,bins", (), "observer ppq-kl: 'bins', expected name=number"),
            ("ppq-kl,bins=130", (), "conv.in0: ppq-kl: ppq-kl: 128 levels on 130 bins"),
            ("ppq-kl", ("--set", ASYMMETRIC), "observer ppq-kl supports other schemes only, expected symmetric"),
            ("nvidia-entropy", ("--set", ASYMMETRIC), "supports other schemes only, expected linear symmetric"),
            ("ncnn-eq", (), "ncnn-eq compares outputs of layers"),
            ("isotone", (), "isotone needs the two largest elements of every row of every "
                            "sample, which statistics of elements do not contain, expected ppq-isotone"),
            ("ppq-klx", (), "did you mean 'ppq-kl'")):
        done = b.run(x, observer, *options)
        check(f"{observer} {options}", done.returncode == 1 and message in done.stderr, done.stderr)
    done = b.run(x, "ppq-kl", "--json")
    report = json.loads(done.stdout)
    check("passes are told", report["passes_over_samples"] == 2 and
          report["observers"] == [{"observer": "ppq-kl", "endpoints": 3, "passes": 2, "ordered": False}],
          report.get("observers"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        b = Bench(folder)
        for test in (test_refusals, test_ppq, test_ort, test_ort_distribution, test_nvidia, test_ncnn,
                     test_edges):
            test(b)
    print(f"{checks} checks, {failures} failed")
    return failures > 0 or checks == 0


if __name__ == "__main__":
    sys.exit(main())
