#!/usr/bin/env python3
"""What a NaN becomes, in runtimes and here.

codes    the code that a runtime's quantization makes of NaN is that of `nan` in the
         backend of the runtime: ONNX Runtime, OpenVINO, LiteRT
names    every verb names the first endpoint where NaN or an infinity appears, in one line
         on stderr, also where rounding hides it
rows     rows of an analysis whose error is NaN are counted; they come first where a row is
         quantized alone and so causes it, and last elsewhere
losses   an export has one row `nan`, which changes results, where its readers make another
         code of NaN than the backend and the samples of the snapshot made one
propose  these rows are the first that a proposal tries; samples whose error is NaN are not
         within a budget
classes  an output with a NaN has no class and is never right
hidden   in float, what an ArgMax hides; by the doctor, in any sample of any network

Skipped (77) without numpy, onnx and onnxruntime."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto as T, helper as h, numpy_helper as nh
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

SIZES = 1, 3, 16, 17, 64  # of vectors: tails and whole registers


def onnxruntime_codes(dtype, zero):
    """{the code of NaN} in QuantizeLinear."""
    point = nh.from_array(np.array(zero, dtype), "z")
    codes = set()
    for n in SIZES:
        graph = h.make_graph(
            [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])], "g",
            [h.make_tensor_value_info("x", T.FLOAT, [n])],
            [h.make_tensor_value_info("q", point.data_type, [n])],
            [nh.from_array(np.float32(0.5), "s"), point])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
        model.ir_version = 8
        session = onnxruntime.InferenceSession(model.SerializeToString(),
                                               providers=["CPUExecutionProvider"])
        codes |= set(session.run(None, {"x": np.full(n, np.nan, np.float32)})[0].tolist())
    return codes


def openvino_codes(low):
    """The same in FakeQuantize with 256 levels of 0.5 from `low` on."""
    import openvino
    from openvino import opset13
    core, codes = openvino.Core(), set()
    for n in SIZES:
        x = opset13.parameter([1, n], np.float32)
        ends = [np.float32(0.5 * low), np.float32(0.5 * (low + 255))] * 2
        model = openvino.Model([opset13.fake_quantize(x, *ends, 256)], [x])
        run = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        values = run([np.full((1, n), np.nan, np.float32)])[0]
        codes |= set((values.ravel() / 0.5).tolist())
    return codes


def litert_codes(kernels, dtype, zero):
    """The same in QUANTIZE."""
    import litert
    codes = set()
    for n in SIZES:
        file = litert.File()
        x = file.tensor("x", "float32", [1, n])
        y = file.tensor("y", dtype, [1, n], ([0.5], [zero], 0))
        file.operator("QUANTIZE", [x], [y], {})
        run = litert.Runtime(file.bytes([x], [y]), kernels)
        codes |= set(run.run({"x": np.full((1, n), np.nan, np.float32)})["y"].ravel().tolist())
    return codes


def rule_of(backend):
    page = " ".join(agreement.qg("list", "backends", backend).split())
    return re.search(r"nan: ([a-z]+)", page)[1]


def code_of(rule, dtype, zero):
    ends = np.iinfo(dtype)
    return {"lowest": ends.min, "zero": zero, "highest": ends.max,
            "wrap": ends.max if zero < 0 else ends.min}[rule]


def check_codes():
    cases = [("ort-int8", onnxruntime_codes, (dtype, zero), dtype, zero)
             for dtype, zero in (("int8", 0), ("int8", 3), ("int8", -128), ("uint8", 128))]
    try:
        import openvino  # noqa: F401
        cases += [("openvino-int8", openvino_codes, (low,), "int8" if low else "uint8", 0)
                  for low in (-128, 0)]
    except ImportError as missing:
        print(f"without OpenVINO: {missing}")
    try:
        import ai_edge_litert  # noqa: F401
        import platform
        if platform.machine() == "x86_64":  # aarch64: docs/evidence/grids.md#nan
            cases += [(backend, litert_codes, (kernels, "int8", zero), "int8", zero)
                      for backend, kernels in (("tflite-int8", "reference"),
                                               ("tflite-int8", "builtin"),
                                               ("xnnpack-int8", "xnnpack"))
                      for zero in (0, 3, -5, -128)]
    except ImportError as missing:
        print(f"without LiteRT: {missing}")
    bad = 0
    for backend, codes, arguments, dtype, zero in cases:
        want = {code_of(rule_of(backend), dtype, zero)}
        got = codes(*arguments)
        if got != want:
            bad += 1
            print(f"FAILED: {backend} {arguments}: NaN becomes {got}, expected {want}")
    print(f"codes: {len(cases)} compared")
    return bad


# --- the simulation ---

FLOAT_PRODUCT = "--set", "node=entropy platform=fp32"  # else -inf saturates: no NaN


def entropy(path, data):
    """p log p of probabilities: one that is rounded to 0 gives 0 * -inf."""
    r = np.random.default_rng(0)
    w = nh.from_array((r.standard_normal((8, 8)) * 3).astype(np.float32), "w")
    nodes = [h.make_node(op, inputs, [name], name=name) for op, inputs, name in (
        ("MatMul", ["x", "w"], "scores"), ("Softmax", ["scores"], "p"), ("Log", ["p"], "log"),
        ("Mul", ["p", "log"], "entropy"), ("MatMul", ["entropy", "w"], "y"))]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 6, 8])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1, 6, 8])], [w])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)
    np.save(data, r.standard_normal((8, 1, 6, 8)).astype(np.float32))


def masked(path, data):
    """Probabilities of scores with a mask of -inf."""
    r = np.random.default_rng(0)
    constant = [nh.from_array(np.float32(-np.inf), "low"),
                nh.from_array(np.array([True] * 5 + [False] * 3), "mask"),
                nh.from_array((r.standard_normal((8, 8)) * 0.4).astype(np.float32), "w")]
    nodes = [h.make_node("MatMul", ["x", "w"], ["scores"], name="scores"),
             h.make_node("Where", ["mask", "scores", "low"], ["kept"], name="kept"),
             h.make_node("Softmax", ["kept"], ["y"], name="y", axis=-1)]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 6, 8])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1, 6, 8])], constant)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    np.save(data, r.standard_normal((8, 1, 6, 8)).astype(np.float32))


def stderr_of(*arguments):
    run = subprocess.run([agreement.QG, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"qg {' '.join(map(str, arguments))}: {run.stderr.strip()}")
    return run.stderr


def check_names(folder):
    bad = 0
    model, data = folder / "entropy.onnx", folder / "entropy.npy"
    entropy(model, data)
    for backend in ("int8-base", "tflite-int8"):  # NaN is kept; is hidden by rounding
        snapshot = folder / f"s-{backend}"
        for arguments in (
                ("quantize", model, "-b", backend, "-d", data, "-o", snapshot,
                 *FLOAT_PRODUCT),
                ("analyse", snapshot, "-d", data),
                ("analyse", snapshot, "-d", data, "--by", "layer"),
                ("run", snapshot, "-d", data, "-o", folder / "out"),
                ("stats", "doctor", snapshot, "-d", data),
                ("export", snapshot, "--format", "onnx-qdq", "-o", folder / "m.onnx")):
            lines = [line for line in stderr_of(*arguments).splitlines() if "NaN" in line]
            if len(lines) != 1 or "entropy.out0 (Mul)" not in lines[0]:
                bad += 1
                print(f"FAILED: {backend} {arguments[0]}: stderr {lines}, expected one line "
                      "with NaN and entropy.out0")
        report = json.loads(agreement.qg("stats", "doctor", snapshot, "-d", data, "--json"))
        rows = [(r["where"], r["sample"]) for r in report.get("warnings", ())
                if r["kind"] == "not-finite"]
        if len(rows) != 1 or rows[0][0] != "entropy.out0":
            bad += 1
            print(f"FAILED: {backend}: rows of the doctor {rows}, expected entropy.out0")
    error = stderr_of("run", model, "-d", data, "-o", folder / "out")
    if error:
        bad += 1
        print(f"FAILED: run of the float network: {error}, expected nothing")
    model, data = folder / "masked.onnx", folder / "masked.npy"
    masked(model, data)
    error = stderr_of("stats", "doctor", model, "-d", data)
    if "holds a mask beside ordinary numbers" not in error or "infinity" in error or \
            "NaN" in error:
        bad += 1
        print(f"FAILED: doctor, mask of -inf: {error}, expected a mask and no fault")
    return bad


def inverse_norm(path):
    """x / |x|: a sample of zeros gives NaN, one of small numbers where |x| is rounded to 0."""
    w = nh.from_array(np.eye(16, dtype=np.float32), "w")
    nodes = [h.make_node("MatMul", ["x", "w"], ["z"], name="z"),
             h.make_node("ReduceL2", ["z"], ["norm"], name="norm", axes=[-1]),
             h.make_node("Div", ["z", "norm"], ["ratio"], name="ratio"),
             h.make_node("MatMul", ["ratio", "w"], ["y"], name="y")]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 16])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1, 16])], [w])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)


def check_late(folder):
    """The sample with a NaN is found wherever it is, also where rounding hides the NaN."""
    bad = 0
    model = folder / "norm.onnx"
    inverse_norm(model)
    r = np.random.default_rng(0)
    for backend in "ort-int8", "qnn-dsp-int8":
        for place in 0, 3, 4, 11:
            x = (100 * r.standard_normal((12, 1, 16))).astype(np.float32)
            x[place] *= 1e-5
            data, snapshot = folder / "late.npy", folder / "late"
            np.save(data, x)
            for arguments in (("quantize", model, "-b", backend, "-d", data, "-o", snapshot),
                              ("run", snapshot, "-d", data, "-o", folder / "late.out"),
                              ("analyse", snapshot, "-d", data),
                              ("analyse", snapshot, "-d", data, "--by", "layer"),
                              ("export", snapshot, "--format", "onnx-qdq", "-o",
                               folder / "late.onnx", "--placement", "ort")):
                lines = [line for line in stderr_of(*arguments).splitlines()
                         if f"sample {place}: NaN first appears at ratio.out0" in line]
                if len(lines) != 1:
                    bad += 1
                    print(f"FAILED: {backend} {arguments[0]}: NaN of sample {place} is not named")
    return bad


def check_unseen(folder):
    """A snapshot without NaN: a run on other samples that have one."""
    bad = 0
    model, data, snapshot = folder / "norm.onnx", folder / "late.npy", folder / "seen"
    x = 100 * np.random.default_rng(1).standard_normal((12, 1, 16)).astype(np.float32)
    np.save(data, x)
    error = stderr_of("quantize", model, "-b", "ort-int8", "-d", data, "-o", snapshot)
    x[9] *= 1e-5
    np.save(data, x)
    for verb in ("run", snapshot, "-d", data, "-o", folder / "late.out"), \
            ("analyse", snapshot, "-d", data):
        later = stderr_of(*verb)
        if "NaN" in error or "sample 9: NaN first appears at ratio.out0" not in later:
            bad += 1
            print(f"FAILED: {verb[0]} on other samples: {error}, {later}")
    return bad


def check_verbs(folder):
    """One sample of zeros, in data that the snapshot of check_unseen does not know."""
    bad = 0
    model, snapshot, clean = folder / "norm.onnx", folder / "seen", folder / "clean.npy"
    data, labels, page = folder / "zeros.npy", folder / "labels.npy", folder / "p.html"
    x = 100 * np.random.default_rng(1).standard_normal((12, 1, 16)).astype(np.float32)
    np.save(clean, x)
    x[5] = 0
    np.save(data, x)
    np.save(labels, np.where(np.arange(12) == 5, 0, x[:, 0].argmax(1)))
    (folder / "float.yaml").write_text(
        "rules: [{id: float, match: {node: [ratio, y]}, set: {platform: fp32}}]\n")
    given = "-d", data
    both = "-d", clean, "--holdout", data, "-b", "int8-base", "-b", "ort-int8"
    propose = "--propose", "1%", "-o", folder / "none.yaml"
    for arguments, facts in (
            (("evaluate", model, *given, "--labels", labels),
             {"nan_samples": 1, "float_top1": 11 / 12}),
            (("evaluate", snapshot, *given, "--labels", labels),
             {"nan_samples": 1, "float_top1": 11 / 12, "agreement": 11 / 12}),
            (("compare", model, *both, "--labels", labels), {"float_top1": 11 / 12}),
            (("sensitivity", snapshot, *given), {"all_quantized": None}),
            (("sensitivity", snapshot, *given, *propose),
             {"proposal": "none: within the budget, but not on the samples that judge"}),
            (("price", snapshot, *given), {"network": None}),
            (("analyse", snapshot, *given, "--by", "cause"), {"error": None}),
            (("analyse", snapshot, *given, "--mode", "integer"), {}),
            (("search", model, *given, "-b", "ort-int8", "--over", "rules",
              "--policy", folder / "float.yaml"), {}),
            (("run", snapshot, *given, "--mode", "integer", "-o", folder / "zeros.out"), {}),
            (("trace", snapshot, *given, "-o", folder / "zeros.trace.npz"), {}),
            (("trace", snapshot, *given, "--mode", "simulate", "-o", folder / "trace"), {}),
            (("search", snapshot, *given, "--budget", "bits=8", "-o", folder / "s.yaml"), {}),
            (("search", snapshot, *given, "--budget", "nsr=5%", "-o", folder / "s.yaml"), {}),
            (("tune", snapshot, *given, "--steps", 20, "-o", folder / "tuned"), {}),
            (("stats", "collect", model, *given, "-o", folder / "zeros.qgs"), {}),
            (("report", snapshot, *given, "--labels", labels, "-o", page), {})):
        json_too = () if arguments[0] == "report" else ("--json",)
        run = subprocess.run([agreement.QG, *map(str, arguments), *json_too],
                             capture_output=True, text=True)
        lines = [line for line in run.stderr.splitlines() if "first appears" in line]
        if len(lines) != 1 or "sample 5: NaN first appears at ratio.out0" not in lines[0]:
            bad += 1
            print(f"FAILED: {arguments}: {run.stderr.strip()}, expected one line with NaN")
        report = json.loads(run.stdout) if facts and run.returncode == 0 else {}
        for name, value in facts.items():
            if name not in report or report[name] != value:
                bad += 1
                print(f"FAILED: {arguments}: {name} {report.get(name)}, expected {value}")
    return bad


def check_unfit_choice(folder):
    """Samples of which only the quantized network gives NaN: tune says so, and search takes
    no number for their noise."""
    bad = 0
    snapshot, data, clean = folder / "keeps", folder / "late.npy", folder / "fit.npy"
    x = np.load(data)  # of check_unseen
    x[9] *= 1e5
    np.save(clean, x)
    agreement.qg("quantize", folder / "norm.onnx", "-b", "int8-base", "-d", clean, "-o", snapshot)
    search = "search", snapshot, "-d", data, "--choices", "4,8", "-o", folder / "s.yaml"
    judged = folder / "judged.npy"  # sample 9 is the first sample that judges
    np.save(judged, np.load(data)[[0, 1, 2, 9, 3, 4, 5, 6, 7, 8, 10, 11]])
    tune = "tune", snapshot, "--steps", 20, "-o", folder / "tuned", "-d"
    for arguments, facts, message in (
            ((*tune, judged), {"before": None, "changed": False, "learned": None},
             "the outputs are NaN or infinite"),
            ((*tune, data), {"changed": False}, "not clearly better"),
            ((*search, "--budget", "bits=8"), None,
             "the outputs of the best policy are NaN or infinite"),
            ((*search, "--budget", "nsr=5%"), None, "are NaN or infinite")):
        run = subprocess.run([agreement.QG, *map(str, arguments), "--json"],
                             capture_output=True, text=True)
        report = json.loads(run.stdout) if run.returncode == 0 else None
        lines = [line for line in run.stderr.splitlines() if "first appears" in line]
        if len(lines) != 1 or "NaN first appears at ratio.out0" not in lines[0] or \
                f"sample {3 if judged in arguments else 9}:" not in lines[0] or \
                "diverged" in run.stderr or (report is None) != (facts is None) or "e+" in run.stderr or \
                message not in run.stderr + (report or {}).get("why", "") or \
                any(report[name] != value for name, value in (facts or {}).items()):
            bad += 1
            print(f"FAILED: {arguments}: {run.stderr.strip()}, {report}")
    return bad


def hiding(path, data):
    """A NaN of sample 7 that an ArgMax hides; 4 million elements are not little work."""
    shape = nh.from_array(np.array([1, 1 << 20]), "shape")
    nodes = [h.make_node("Expand", ["x", "shape"], ["wide"], name="wide"),
             h.make_node("Sqrt", ["wide"], ["root"], name="root"),
             h.make_node("Neg", ["root"], ["less"], name="less"),
             h.make_node("Neg", ["less"], ["more"], name="more"),
             h.make_node("ArgMax", ["more"], ["y"], name="y", axis=1)]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 1])],
                         [h.make_tensor_value_info("y", T.INT64, [1, 1])], [shape])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), path)
    x = np.arange(1, 21, dtype=np.float32).reshape(20, 1, 1)
    x[7] = -1
    np.save(data, x)
    np.save(data.with_name("hid1.npy"), x[7:8])


def check_hidden(folder):
    """The masks of check_names are meant: a float run says nothing of an infinity."""
    bad = 0
    model, data = folder / "hiding.onnx", folder / "hiding.npy"
    hiding(model, data)
    for text, arguments in (
            ("sample 7: NaN first appears at root.out0", ("stats", "doctor", model, "-d", data)),
            ("float: sample 0: NaN first appears at root.out0",
             ("run", model, "-d", folder / "hid1.npy", "-o", folder / "out")),
            ("", ("run", folder / "masked.onnx", "-d", folder / "masked.npy", "-o",
                  folder / "out"))):
        error = stderr_of(*arguments)
        if text not in error or (error and not text):
            bad += 1
            print(f"FAILED: {arguments}: {error.strip()}, expected '{text}'")
    return bad


def check_rows(folder):
    """In the folder of check_names."""
    bad = 0
    snapshot, data = folder / "s-int8-base", folder / "entropy.npy"
    for first, arguments in (
            (True, ("sensitivity", snapshot)),
            (True, ("sensitivity", snapshot, "--metric", "cosine")),
            (False, ("sensitivity", snapshot, "--direction", "all-but")),
            (False, ("analyse", snapshot, "--by", "layer"))):
        run = subprocess.run([agreement.QG, *map(str, arguments), "-d", data, "--json"],
                             capture_output=True, text=True, check=True)
        report = json.loads(run.stdout)
        errors = [row["error"] for row in report["errors"]]
        strange = sum(error is None for error in errors)
        others = errors[strange:] if first else errors[:-strange]
        if not strange or None in others or report.get("not_finite") != strange:
            bad += 1
            print(f"FAILED: {arguments}: errors {errors}, not_finite "
                  f"{report.get('not_finite')}, expected null at the "
                  f"{'beginning' if first else 'end'}, counted")
    return bad


def check_propose(folder):
    """In the folder of check_names: the rows that cause NaN suffice for the budget."""
    bad = 0
    snapshot, data = folder / "s-int8-base", folder / "entropy.npy"
    for by, metric, budget in (("endpoint", "nsr", "1%"), ("node", "nsr", "1%"),
                               ("group", "nsr", "1%"), ("node", "cosine", "0.99")):
        run = subprocess.run([agreement.QG, "sensitivity", snapshot, "-d", data, "--by", by,
                              "--metric", metric, "--propose", budget, "-o",
                              folder / "p.yaml", "--json"], capture_output=True, text=True)
        report = json.loads(run.stdout) if run.returncode == 0 else {}
        if report.get("written") != str(folder / "p.yaml") or "proposal" in report:
            bad += 1
            print(f"FAILED: propose by {by}: {report.get('proposal')} {run.stderr.strip()}")
    return bad


def check_losses(folder):
    """The entropy has NaN, a network of its first two operators has none."""
    bad = 0
    model, data = folder / "entropy.onnx", folder / "entropy.npy"
    calm = onnx.load(model)
    del calm.graph.node[2:], calm.graph.output[:]
    calm.graph.output.append(h.make_tensor_value_info("p", T.FLOAT, [1, 6, 8]))
    onnx.save(calm, folder / "calm.onnx")
    ort, trt = (("onnx-qdq", "--placement", word) for word in ("ort", "trt"))
    for name, backend, expected in (
            ("entropy", "trt-int8", {ort: "lowest", trt: None, ("openvino-ir",): "lowest",
                                     ("tensorrt-cache",): None, ("aimet",): "keep",
                                     ("qnn-encodings",): "not known"}),
            ("entropy", "openvino-int8", {ort: None, ("openvino-ir",): None, trt: "zero"}),
            ("entropy", "int8-base", {ort: "lowest", ("aimet",): None,
                                      ("qnn-encodings",): None}),
            ("calm", "trt-int8", {ort: None, ("openvino-ir",): None})):
        snapshot = folder / f"l-{name}-{backend}"
        agreement.qg("quantize", folder / f"{name}.onnx", "-b", backend, "-d", data, "-o",
                     snapshot, *(FLOAT_PRODUCT if name == "entropy" else ()))
        for form, readers in expected.items():
            export = ("export", snapshot, "--format", *form, "-o", folder / "lost.out")
            report = json.loads(agreement.qg(*export, "--json"))
            rows = [(row["changes_results"], row["meaning"]) for row in report["losses"]
                    if row["lost"] == "nan"]
            if len(rows) != (readers is not None) or rows and not (
                    rows[0][0] and f"readers of the file: {readers};" in rows[0][1]):
                bad += 1
                print(f"FAILED: {name}, {backend}, {form}: {rows}, expected {readers}")
    run = subprocess.run([agreement.QG, "export", folder / "l-entropy-trt-int8", "--format",
                          *ort, "--strict", "-o", folder / "strict.onnx"],
                         capture_output=True, text=True)
    if run.returncode != 1 or "NaN" not in run.stderr:
        bad += 1
        print(f"FAILED: --strict: {run.stderr.strip()}")
    return bad


def check_sign(folder):
    """A result that is a NaN with its sign bit: no message has the sign."""
    test = folder / "sign" / "test_data_set_0"
    test.mkdir(parents=True)
    values = [h.make_tensor_value_info(name, T.FLOAT, [1]) for name in ("x", "y")]
    graph = h.make_graph([h.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8),
              test.parent / "model.onnx")
    for kind, x in ("input", np.nan), ("output", 1):
        array = np.abs(np.full(1, x, "f4"))
        (test / f"{kind}_0.pb").write_bytes(nh.from_array(array).SerializeToString())
    run = subprocess.run([agreement.QG, "conformance", test.parent], capture_output=True,
                         text=True)
    text = run.stdout + run.stderr
    if " nan," not in text or "-nan" in text:
        print(f"FAILED: a result of -NaN: {text.strip()}, expected nan without a sign")
        return 1
    return 0


def main():
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        bad = check_codes() + check_names(folder) + check_rows(folder) + \
            check_late(folder) + check_unseen(folder) + check_unfit_choice(folder) + \
            check_verbs(folder) + check_hidden(folder)
        bad += check_losses(folder) + check_propose(folder) + check_sign(folder)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
