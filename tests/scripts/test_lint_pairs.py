#!/usr/bin/env python3
"""Rule pair-saturation of `qg lint` is exact: on random convolutions and products whose
largest pair is near the limit, the nodes that it finds are those that compute something
else without VNNI, on the input that the weights make worst.

    openvino   the CPU plugin, twice: as it is, and with ONEDNN_MAX_CPU_ISA=AVX2; skipped
               where the CPU has no VNNI, since the first run would saturate, too
    ort        the profiles onnxruntime-x86-vnni and onnxruntime-x86-avx2

usage: test_lint_pairs.py [SEED]"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import openvino  # noqa: F401
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

# (operator, channels in, channels out, kernel, groups)
SHAPES = [("Conv", 1, 4, 3, 1), ("Conv", 2, 4, 3, 1), ("Conv", 3, 8, 3, 1), ("Conv", 8, 8, 1, 1),
          ("Conv", 5, 8, 3, 1), ("Conv", 8, 8, 3, 8), ("Conv", 4, 12, 3, 4), ("MatMul", 7, 4, 1, 1),
          ("MatMul", 16, 8, 1, 1)]
LARGEST = 64, 65, 127  # 2 x 255 x 64 = 32640 fits int16, 2 x 255 x 65 does not
RUN = """
import sys
import numpy as np
import openvino as ov
core, isa = ov.Core(), sys.argv[1]
for name in sys.argv[2:]:
    model = core.compile_model(f"{name}.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    np.save(f"{name}.{isa}.npy", np.stack([model(x)[0] for x in np.load(f"{name}.x.npy")]))
"""
PROFILES = "onnxruntime-x86-vnni", "onnxruntime-x86-avx2"


def weights(rng, shape, largest):
    """Codes as floats: within `largest`, but for the last output channel, which has one of
    127, so that the step is 1 / 127."""
    op, ins, outs, kernel, groups = shape
    w = rng.integers(-largest, largest + 1, (outs, ins // groups, kernel, kernel))
    sparse = rng.random(w.shape) < 0.5
    w = np.where(sparse, 0, np.where(rng.random(w.shape) < 0.5, np.sign(w) * largest, w))
    w[-1] = 0
    w[-1, 0, 0, 0] = 127
    return (w[:, :, 0, 0].T if op == "MatMul" else w) / 127


def network(path, shape, w, bias=None):
    op, ins, _, kernel, groups = shape
    size = [1, ins] if op == "MatMul" else [1, ins, kernel, kernel]
    more = {"group": groups} if op == "Conv" else {}
    constants = {"w": w} | ({} if bias is None else {"b": bias})
    op = op if bias is None else {"MatMul": "Gemm"}.get(op, op)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *constants], ["c"], "n", **more),
         helper.make_node("Neg", ["c"], ["y"], "end")], "pairs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, size)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v.astype("f4"), n) for n, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                ir_version=8), path)
    return size


def pair_inputs(shape, w, within):
    """Every input whose only codes are 255 at the taps of one sign of a pair of neighbours
    of some channel; within: of one kernel position; [n, 1, ...]."""
    op, ins, outs, kernel, groups = shape
    w = w.T[:, :, None, None] if op == "MatMul" else w
    depth, found = ins // groups, set()
    for o in range(outs):
        taps = w[o].transpose(1, 2, 0).ravel()  # kernel position, then channel
        length = depth if within and depth * groups != groups else len(taps)
        rows = [list(range(k, k + length)) for k in range(0, len(taps), length)]
        for row in rows:
            for pair in (row[i:i + 2] for i in range(0, len(row), 2)):
                for sign in (1, -1):
                    at = tuple(int(t) for t in pair if taps[t] * sign > 0)
                    found.add((o // (outs // groups), at))
    x = np.zeros((len(found), kernel, kernel, ins), "f4")
    for sample, (group, taps) in zip(x, sorted(found)):
        for t in taps:
            sample.reshape(kernel * kernel, ins)[t // depth, group * depth + t % depth] = 1
    x = x.transpose(0, 3, 1, 2)[:, None]
    return x[:, :, :, 0, 0] if op == "MatMul" else x


def found(snapshot, target):
    done = subprocess.run([agreement.QG, "lint", snapshot, "--target", target, "--json"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    rules = {f["rule"] for f in json.loads(done.stdout).get("findings", [])}
    return "pair-saturation" in rules


class Case:
    def __init__(self, folder, number, rng):
        self.shape = SHAPES[number % len(SHAPES)]
        largest = LARGEST[number // len(SHAPES) % len(LARGEST)]
        self.w, self.at = weights(rng, self.shape, largest), folder / str(number)
        self.name = f"{'x'.join(map(str, self.shape))} {largest}"
        network(f"{self.at}.onnx", self.shape, self.w)
        self.x = np.concatenate([pair_inputs(self.shape, self.w, w) for w in (False, True)])
        np.save(f"{self.at}.x.npy", self.x)

    def mask(self):
        """1 where a channel of the output reads one of the input: its own group."""
        _, ins, outs, _, groups = self.shape
        o, i = np.indices((outs, ins))
        return (o // (outs // groups) == i // (ins // groups))[:, :, None, None]

    def quantize(self, backend, *more):
        data = f"{self.at}.data.npy"  # the whole range [0, 1]
        np.save(data, np.stack([np.zeros_like(self.x[0]), np.ones_like(self.x[0])]))
        snapshot = pathlib.Path(f"{self.at}.{backend}")
        agreement.qg("quantize", f"{self.at}.onnx", "-b", backend, "-d", data, "-o", snapshot,
                     "--set", "op=* slot=weight policy=per-tensor,linear,symmetric "
                     "range=-127,127 observer=minmax", *more)
        return snapshot


def openvino_rows(cases):
    """(case, predicted, observed), of the plugin with and without VNNI."""
    predicted = []
    for c in cases:
        snapshot = c.quantize("openvino-int8", "--set", "op=* slot=out0 state=fp32")
        agreement.qg("export", snapshot, "--format", "openvino-ir", "-o", f"{c.at}.xml")
        predicted.append(found(snapshot, "openvino"))
    runs = {}
    for isa in ("DEFAULT", "AVX2"):
        subprocess.run([sys.executable, "-c", RUN, isa, *(str(c.at) for c in cases)],
                       check=True, env=os.environ | {"ONEDNN_MAX_CPU_ISA": isa})
        runs[isa] = [np.load(f"{c.at}.{isa}.npy") for c in cases]
    return [(c, p, not np.array_equal(a, b))
            for c, p, a, b in zip(cases, predicted, runs["DEFAULT"], runs["AVX2"])]


def ort_rows(cases):
    """The same of the profiles, on the input whose sum is largest: a bias brings this sum to
    0, where the steps of the output are those of the sum."""
    unsigned = "policy=per-tensor,linear,asymmetric range=0,255"
    for c in cases:
        if 1 < c.shape[4] < c.shape[2]:
            continue  # several outputs per group: the profiles have the depthwise row for it
        inputs = pair_inputs(c.shape, c.w, within=False)
        taps = c.w.T[:, :, None, None] if c.shape[0] == "MatMul" else c.w
        sums = np.stack([(np.tile(taps, (1, c.shape[4], 1, 1)) * mask * x.reshape(
            1, -1, *taps.shape[2:])).sum((1, 2, 3)) for x in inputs[:, 0]
            for mask in [c.mask()]])
        sample, channel = np.unravel_index(np.abs(sums).argmax(), sums.shape)
        bias = np.zeros(c.shape[2])
        bias[channel] = -sums[sample, channel]
        network(f"{c.at}.onnx", c.shape, c.w, bias)
        np.save(f"{c.at}.worst.npy", inputs[sample:sample + 1])
        snapshot = c.quantize(
            "ort-int8", "--set", f"op=n slot=in0 {unsigned}", "--set",
            f"op=n slot=out0 {unsigned} observer=fixed step={1 / 255 / 127!r} zero=129")
        runs = []
        for profile in PROFILES:
            out = f"{c.at}.{profile}"
            agreement.qg("run", snapshot, "-d", f"{c.at}.worst.npy", "--mode", "integer",
                         "--profile", profile, "-o", out)
            runs.append(np.load(f"{out}/y.npy").ravel())
        assert runs[0][channel] == 0, runs
        yield c, found(snapshot, "ort"), not np.array_equal(*runs)


def main():
    seed = int(sys.argv[1]) if sys.argv[1:] else int(os.environ.get("SEED", "1"))
    rng, bad = np.random.default_rng(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case(pathlib.Path(folder), n, rng) for n in range(len(SHAPES) * len(LARGEST))]
        rows = {"ort": list(ort_rows(cases))}
        if agreement.integers_are_exact():
            rows["openvino"] = openvino_rows(cases)
        for target, results in rows.items():
            for c, predicted, observed in results:
                if predicted != observed:
                    print(f"FAILED {target} {c.name}: predicted {predicted}, seen {observed}")
                    bad += 1
            hits = sum(observed for _, _, observed in results)
            print(f"{target}: {len(results)} nodes, {hits} saturate")
            bad += not 0 < hits < len(results)
    return bad > 0


sys.exit(main())
