#!/usr/bin/env python3
"""Small networks (small_networks.py) in the runtimes that read our files, one row for each
network and backend:

    ort      onnx-qdq and onnx-qoperator load and compute the simulated values, without
             optimizations and as ONNX Runtime ships
    tflite   every tensor in LiteRT has the codes of integer mode, with the reference kernels
             and, for tflite-int8, the optimized kernels and the delegate; or
             the export refuses, and then `qg lint --target tflite` has the finding `refused`
    openvino openvino-ir computes the simulated values without low precision transformations,
             for openvino-int8 with them, too, as does onnx-qdq placed for OpenVINO
    lint     the kernels and moves that `qg lint` predicts are those of the runtimes

What a runtime does otherwise is listed with its reason, and fails when it no longer does.
Names of networks as arguments: only these, under all backends.  Else every
second network is under one of the backends in turn, and all under those for which they are
listed; QG_ALL=1: under all."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    import litert
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement
import small_networks
import test_export_openvino
import test_export_ort
import test_export_qoperator
import test_export_tflite
import test_lint_runtimes as runtimes
from command import EVERYTHING

BACKENDS = "tflite-int8", "ort-int8", "openvino-int8"
IN_OPENVINO = IN_LITERT = "tflite-int8", "openvino-int8"
ALL = EVERYTHING or len(sys.argv) > 1
FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # thousands of small files
CLOSE = 1e-5  # of the largest value: the last bits of float sums
# (network, check): why, and the backends for which that is so.  OpenVINO IR is written without
# layers for some operators, and says so:
NO_LAYER = {
    "pad_axes": "mode constant with axes",
    "upsample": "opset 9 has no layer here",
    "resize_antialias": "antialias of mode linear",
    "max_dilated": "dilations, expected none",
    "clip_crossed": "its limits are computed",
    "slopes_of_width": "8 slopes, expected one or one per channel",
}
AS_BUILT_IN = "the file stores the codes behind the Relu, which is an operator of its own there; " \
    "lint takes the value before the Relu for one without codes", ("tflite-int8",)
WITH_CODES = "the plugin multiplies activations on integers where it has AVX-512, outside of an " \
    "attention with a factor; lint says 'blocked'", ("openvino-int8",)
FRACTION = "the runtimes take whole extents; the report says so, and lint: rule fractional-extent"
EXCEPTIONS = {
    ("pad_channels", "lint openvino"): (
        "the plugin moves codes with a zero point through a Pad of channels; lint predicts floats",
        ("openvino-int8",)),
    ("pad_axes", "onnx-qoperator shipped"): (
        "ONNX Runtime's change of layout reads a pad of an axis that `axes` leaves out",
        ("openvino-int8",)),
    **{("resize_corners_fraction", what): (FRACTION, backends) for backends, files in (
        (BACKENDS, ("onnx-qdq shipped", "onnx-qoperator", "onnx-qoperator shipped")),
        (IN_OPENVINO, ("openvino",)),
        (("openvino-int8",), ("onnx-qdq", "openvino shipped", "openvino qdq shipped")))
       for what in files},
    ("rows_chained_moved", "lint ort moves"): (
        "ONNX Runtime removes Transposes and merges Reshapes in a row", BACKENDS),
    **{("matmul_of_vector", f"openvino {file}shipped"): (
        "the plugin's integer product of a vector has the dims of a matrix", ("openvino-int8",))
       for file in ("", "qdq ")},
    ("turned_gaps_same", "lint xnnpack"): (
        "the delegate refuses SAME with a stride above the kernel, and takes VALID; lint does not "
        "tell them apart", ("tflite-int8",)),
    ("concat_constant", "lint xnnpack"): AS_BUILT_IN,
    ("concat_itself", "lint xnnpack"): AS_BUILT_IN,
    ("concat_batch", "lint xnnpack"): AS_BUILT_IN,
    ("constant_output", "lint xnnpack"): (
        "the file has the constant itself, and lint counts the Identity", ("tflite-int8",)),
}
if "avx512f" in agreement.cpu_flags():
    EXCEPTIONS |= {**{(f"product_{what}", "lint openvino"): WITH_CODES
                      for what in ("add", "mul", "sub", "div", "scaled_mul", "scaled_add")},
                   ("matmul_left", "lint openvino"): WITH_CODES,
                   ("attention", "lint openvino"): WITH_CODES,
                   ("matmul_tanh", "lint openvino"): WITH_CODES,
                   ("matmul_tanh_broadcast", "lint openvino"): WITH_CODES}


# Of OpenVINO's integer kernels, values that change from one compilation to the next (turned_crop:
# one of six; the others: always, and wholly, where one thread computes):
UNSTEADY = "turned_crop", "softmax_last", "gemm_scalar_bias"
class Checks:
    """What differs, against the lists of what is known to."""

    def __init__(self):
        self.bad, self.seen, self.tried, self.rows = [], set(), set(), 0

    def row(self, name, backend, what, wrong):
        """wrong: what differs, or nothing."""
        self.rows += 1
        self.tried.add((name, backend))
        known = backend in EXCEPTIONS.get((name, what), ((), ()))[1] or \
            what == "openvino" and name in NO_LAYER and NO_LAYER[name] in (wrong or "")
        if wrong and known:
            self.seen.add((name, what, backend))
        elif wrong:
            self.bad.append(f"{name} {backend} {what}: {wrong}")

    def done(self):
        listed = {(name, what, backend) for (name, what), (_, backends) in EXCEPTIONS.items()
                  for backend in backends} | \
            {(name, "openvino", backend) for name in NO_LAYER for backend in IN_OPENVINO}
        if "avx512_vnni" in agreement.cpu_flags():  # where the lists were made
            self.bad += [f"{' '.join(at)}: listed, and holds"
                         for at in sorted(listed - self.seen) if at[::2] in self.tried]
        for line in self.bad:
            print("FAILED", line)
        print(f"{len(self.tried)} networks with a backend, {self.rows} rows, "
              f"{len(self.seen)} exceptions, {len(self.bad)} wrong")
        return bool(self.bad)


def apart(theirs, ours):
    """What differs in the outputs of a runtime by more than last bits, or None."""
    for a, b in zip(theirs, ours, strict=True):
        if a.shape != b.shape:
            return f"dims {a.shape}, expected {b.shape}"
        off = np.abs(a.astype(np.float64) - b) > CLOSE * np.abs(b).max(initial=1e-30)
        if off.any():
            return f"{off.sum()} of {off.size} elements differ, by up to " \
                   f"{np.abs(a - b).max():.3g} of {np.abs(b).max():.3g}"
    return None


def ties(counts):
    """Whether every code that a runtime rounds otherwise, on its own inputs, is a tie."""
    return bool(counts) and all(c["equal"] == c["elements"] or agreement.explained(c)
                                for c in counts.values())


def near(counts):
    """Kernels on codes multiply sums by a factor, where the simulation divides: no code is
    further off than the neighbour, and few are that."""
    off = sum(c["elements"] - c["equal"] for c in counts.values())
    most = (1 - test_export_qoperator.LEAST_EQUAL) * sum(c["elements"] for c in counts.values())
    return not any(c["far"] for c in counts.values()) and off <= most + 1


def attempt(work, *arguments):
    """What `work` gives; an error of a runtime or of ours as text."""
    try:
        return work(*arguments)
    except Exception as why:  # pylint: disable=broad-exception-caught
        return f"{type(why).__name__}: {str(why).strip()[:300]}"


def loosely(theirs, s, ours, integer=False):
    """As apart(), but ties have followers: the difference is small beside the noise.  integer:
    of kernels that saturate on some CPUs."""
    wrong = apart(theirs, ours)
    if not wrong or "dims" in wrong or integer and not agreement.integers_are_exact():
        return wrong if wrong and "dims" in wrong else None
    small = agreement.energy(theirs, ours, s.outputs("float")) <= agreement.LIMIT_ENERGY
    return None if small else wrong


def outputs_of(s, run):
    """Of every sample, stacked, for each output of the network."""
    return [np.stack(v) for v in zip(*(run(x) for x in s.x))]


def plain_ort(s, fmt, file, ours, alike):
    """alike: the format can represent the rounding."""
    run = test_export_ort.session(str(file), ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    names = [o.name for o in run.get_outputs()]
    theirs = outputs_of(s, lambda x: run.run(names, {s.input: x}))
    wrong = apart(theirs, ours) if alike else loosely(theirs, s, ours)
    if not wrong or "dims" in wrong:
        return wrong
    if fmt == "onnx-qdq":
        return None if ties(test_export_ort.nodes_of(s, file, test_export_ort.Ort(file))) else wrong
    codes = test_export_qoperator.Runtime(file, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    return None if near(agreement.follow(s, codes, test_export_qoperator.endpoints(s, codes),
                                         "reference")) else wrong


def shipped_ort(s, file, ours):
    run = test_export_ort.session(str(file), ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
    names = [o.name for o in run.get_outputs()]
    return loosely(outputs_of(s, lambda x: run.run(names, {s.input: x})), s, ours, True)


def in_openvino(s, compiled):
    names = [o.name for o in onnx.load(s.path / "model.onnx").graph.output]

    def run(x):
        found = compiled({s.input: x})
        return [found[n].copy() for n in names]

    return outputs_of(s, run)


def plain_openvino(s, file, ours, alike):
    theirs = in_openvino(s, runtimes.CORE.compile_model(
        runtimes.CORE.read_model(file), "CPU",
        {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO"}))
    wrong = apart(theirs, ours) if alike else loosely(theirs, s, ours)
    if not wrong or "dims" in wrong:
        return wrong
    watched = test_export_openvino.OpenVino(file, s.x.shape[1:], watch=True)
    return None if ties(agreement.follow(
        s, watched, test_export_openvino.endpoints(s, watched))) else wrong


def exported(s, file, fmt, *options):
    """Why the export refuses, or None."""
    done = subprocess.run([agreement.QG, "export", s.path, "--format", fmt, "-o", file, *options],
                          capture_output=True, text=True)
    return done.stderr.strip().rpartition(": export to ")[2] if done.returncode else None


def check_onnx(checks, at, s, ours):
    for fmt in "onnx-qdq", "onnx-qoperator":
        file = s.folder / f"{fmt}.onnx"
        wrong = exported(s, file, fmt, *(("--placement", "ort") if fmt == "onnx-qdq" else ()))
        checks.row(*at, fmt, wrong or attempt(plain_ort, s, fmt, file, ours,
                                              at[1] != "openvino-int8"))
        checks.row(*at, f"{fmt} shipped", wrong or attempt(shipped_ort, s, file, ours))
    kernels, moves = runtimes.lint(s.path, "ort")
    seen = attempt(runtimes.in_ort, s.folder / "onnx-qdq.onnx", s.folder)
    if isinstance(seen, str):
        checks.row(*at, "lint ort", seen)
        return
    checks.row(*at, "lint ort", other({n for n, _ in kernels}, seen[0]))
    checks.row(*at, "lint ort moves", other({n for n, _ in moves}, seen[1]))


def other(predicted, observed):
    return (predicted != observed) and \
        f"only predicted {sorted(predicted - observed)}, " \
        f"only observed {sorted(observed - predicted)}"


def shipped_qdq(s, ours):
    file = s.folder / "placed.onnx"
    wrong = exported(s, file, "onnx-qdq", "--placement", "openvino")
    return wrong or loosely(in_openvino(s, runtimes.compiled(file)), s, ours, True)


def check_openvino(checks, at, s, ours):
    file = s.folder / "ov.xml"
    wrong = exported(s, file, "openvino-ir")
    checks.row(*at, "openvino", wrong or attempt(plain_openvino, s, file, ours,
                                                 at[1] == "openvino-int8"))
    if wrong or at[1] != "openvino-int8":
        return
    compiled = attempt(runtimes.compiled, file)
    if isinstance(compiled, str):
        checks.row(*at, "openvino shipped", compiled)
        return
    if at[0] not in UNSTEADY:
        checks.row(*at, "openvino shipped",
                   attempt(lambda: loosely(in_openvino(s, compiled), s, ours, True)))
        checks.row(*at, "openvino qdq shipped", attempt(shipped_qdq, s, ours))
    kernels, _ = runtimes.lint(s.path, "openvino")
    checks.row(*at, "lint openvino", attempt(lambda: other(
        {n for n, op in kernels if op in runtimes.PRODUCTS}, runtimes.in_openvino(compiled))))


def refused(s):
    """Whether lint predicts that the export refuses."""
    done = subprocess.run([agreement.QG, "lint", s.path, "--target", "tflite", "--json"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    return any(f["rule"] == "refused" for f in json.loads(done.stdout).get("findings", []))


def check_tflite(checks, at, s):
    file = s.folder / "model.tflite"
    wrong, found = exported(s, file, "tflite"), attempt(refused, s)
    checks.row(*at, "refused", found is not bool(wrong) and
               f"lint says {found}, export {wrong or 'writes it'}")
    if wrong or at[1] not in IN_LITERT:
        return
    for kernels in litert.PROFILES if at[1] == "tflite-int8" else ("reference",):
        checks.row(*at, f"tflite {kernels}", attempt(lambda k=kernels: "; ".join(
            f"{tensor}: {differs}"
            for tensor, _, _, differs in test_export_tflite.tensors(file, s, k) if differs)))
    if at[1] == "tflite-int8":
        predicted, values = runtimes.for_litert(s.path, "xnnpack")
        checks.row(*at, "lint xnnpack",
                   attempt(lambda: other(predicted, runtimes.in_litert(file, values))))


def backends_of(name):
    """Those under which the network is tried."""
    listed = {b for (n, _), (_, backends) in EXCEPTIONS.items() if n == name for b in backends}
    index = list(small_networks.FORMS).index(name)
    turn = BACKENDS[index // 2 % len(BACKENDS)] if index % 2 == 0 else None
    return [b for b in BACKENDS if ALL or b == turn or b in listed]


def check(checks, folder, name):
    model, x = small_networks.build(name)
    path = pathlib.Path(folder, f"{name}.onnx")
    onnx.save(model, path)
    for backend in backends_of(name):
        at = name, backend
        s = attempt(agreement.Snapshot, f"{folder}/{backend}", path, backend, x)
        if isinstance(s, str):
            checks.row(*at, "quantize", s)
            continue
        ours = s.outputs("simulate", "reference")
        check_onnx(checks, at, s, ours)
        if backend in IN_OPENVINO:
            check_openvino(checks, at, s, ours)
        check_tflite(checks, at, s)


def main():
    checks = Checks()
    for name in sys.argv[1:] or small_networks.FORMS:
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            check(checks, folder, name)
    return checks.done()


if __name__ == "__main__":
    sys.exit(main())
