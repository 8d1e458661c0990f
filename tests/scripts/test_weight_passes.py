#!/usr/bin/env python3
"""Passes that rewrite weights, on networks and samples that they were not tuned for:
smooth-quant keeps the float outputs and lowers the noise where channels are outliers;
gptq and bias-correct lower the noise of 4-bit weights; weight-split and channel-split
keep the float outputs."""
import json
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
sys.path.insert(0, "tests/zoo")
import graph as zoo
import language  # noqa: F401  (registers its networks)
import vision  # noqa: F401
from command import answer, qg

DIGITS, CALIB, TEST = ("configs/models/digits.onnx", "configs/data/digits_calib.npy",
                       "configs/data/digits_test.npy")
LABELS = "configs/data/digits_labels.npy"
FOUR = "--set", "trait=compute slot=in1 constant=yes bits=4"
failures = 0


def check(what, good, *detail):
    global failures
    print("ok    " if good else "FAILED", what, *detail)
    failures += not good


def noise(snapshot, data):
    return max(e["error"] for e in answer("analyse", snapshot, "-d", data)["errors"])


def transformer(folder, outliers):
    """vit of the zoo; `outliers`: channels of its normalizations that are 20 to 60 times
    as large, with weights that undo it."""
    net = zoo.build("vit")
    model = onnx.load_from_string(net.proto().SerializeToString())
    weights = {t.name: t for t in model.graph.initializer}
    rng, planted = np.random.default_rng(11), 0

    def scale(name, factor):
        weights[name].CopyFrom(numpy_helper.from_array(
            (numpy_helper.to_array(weights[name]) * factor).astype("f"), name))
    for shift in model.graph.node if outliers else []:
        # y = gain * normalized + shift, read by products alone
        readers = [n for n in model.graph.node if shift.output[0] in n.input]
        before = [n for n in model.graph.node if set(n.output) & set(shift.input)]
        vectors = [i for n in (shift, *before) for i in n.input if i in weights
                   and len(weights[i].dims) == 1]
        if shift.op_type != "Add" or [n.op_type for n in before] != ["Mul"] or \
                len(vectors) != 2 or {n.op_type for n in readers} != {"MatMul"}:
            continue
        factor = np.ones(weights[vectors[0]].dims[0])
        factor[rng.choice(factor.size, 2, replace=False)] = rng.uniform(20, 60, 2)
        for name in vectors:
            scale(name, factor)
        for n in readers:
            scale(n.input[1], 1 / factor[:, None])
        planted += 1
    assert planted or not outliers
    path = folder / f"vit-{outliers}.onnx"
    onnx.save(model, path)
    shape = [d.dim_value or 1 for d in model.graph.input[0].type.tensor_type.shape.dim]
    data = [folder / "calib.npy", folder / "unseen.npy"]
    for seed, file in enumerate(data):
        x = np.random.default_rng(seed).normal(0, 1, (12, *shape[1:]))
        np.save(file, x.astype("f"))
    return path, *data


def quantize(model, data, out, *words, backend="trt-int8"):
    qg("quantize", model, "-b", backend, "-d", data, "--kernels", "reference", "-o", out,
       *words)
    return out


def float_outputs(snapshot, data, folder):
    out = folder / "float"
    qg("run", snapshot, "-d", data, "--mode", "float", "--kernels", "reference", "-o", out)
    return {p.name: np.load(p) for p in out.rglob("*.npy")}


def difference(a, b):
    return max(np.linalg.norm(a[k] - b[k]) / np.linalg.norm(a[k]) for k in a)


def check_smooth(folder):
    for outliers in (True, False):
        model, data, unseen = transformer(folder, outliers)
        plain = quantize(model, data, folder / "plain")
        for alpha in (0.5, 0.75):
            smooth = quantize(model, data, folder / "smooth", "--set",
                              f"pass=smooth-quant run=yes alpha={alpha}")
            apart = difference(float_outputs(plain, unseen, folder),
                               float_outputs(smooth, unseen, folder))
            check(f"smooth-quant {alpha}: float outputs stay", apart < 1e-5, f"{apart:.2g}")
            before, after = noise(plain, unseen), noise(smooth, unseen)
            check(f"smooth-quant {alpha}: noise", after < before / 2 or not outliers,
                  f"outliers {outliers}: {before:.3g} -> {after:.3g}")


def check_gptq(folder):
    vit, data, unseen = transformer(folder, False)
    for name, model, calib, other in (("digits", DIGITS, CALIB, TEST),
                                      ("vit", vit, data, unseen)):
        for backend in ("trt-int8", "openvino-int8"):
            nearest = quantize(model, calib, folder / "nearest", *FOUR, backend=backend)
            rounded = quantize(model, calib, folder / "gptq", *FOUR, "--set",
                               "pass=gptq run=yes", backend=backend)
            before, after = noise(nearest, other), noise(rounded, other)
            check(f"gptq: {name} on {backend}", after < before,
                  f"{before:.3g} -> {after:.3g}")
            same = difference(float_outputs(nearest, other, folder),
                              float_outputs(rounded, other, folder))
            check("gptq: the float network stays", same == 0, same)
    files = []
    for jobs in (1, 3):
        out = quantize(DIGITS, CALIB, folder / f"jobs{jobs}", *FOUR, "--set",
                       "pass=gptq run=yes", "-j", jobs)
        files.append([(out / f).read_bytes() for f in ("model.onnx", "quant.json")])
    check("gptq: same bytes for any number of threads", files[0] == files[1])


def check_bias_correct(folder):
    words = "--set", "pass=bias-correct run=yes"
    plain = quantize(DIGITS, CALIB, folder / "plain", *FOUR)
    right = quantize(DIGITS, CALIB, folder / "right", *FOUR, *words)
    kept = {n for n in constants(right) if n.endswith(".untuned")}
    same = difference(float_outputs(plain, TEST, folder), float_outputs(right, TEST, folder))
    check("bias-correct: the float network stays", kept and same == 0, sorted(kept), same)
    check("bias-correct: noise", noise(right, TEST) < noise(plain, TEST),
          f"{noise(plain, TEST):.3g} -> {noise(right, TEST):.3g}")
    top1 = [answer("evaluate", s, "-d", TEST, "--labels", LABELS)["float_top1"]
            for s in (plain, right)]
    check("bias-correct: evaluate compares with the same network", top1[0] == top1[1], top1)
    out = folder / "out.onnx"
    qg("export", right, "--format", "onnx-qdq", "-o", out)
    check("bias-correct: exports have the corrected biases alone",
          b".untuned" not in out.read_bytes())
    qg("quantize", DIGITS, "-b", "trt-int8", "-d", CALIB, "--set", "pass=gptq damp=0.1", "-o",
       folder / "off", warns="gptq: damp is given, but the pass is off, expected 'run=yes'")
    alone, both = (quantize(DIGITS, CALIB, folder / "both", *FOUR, "--set",
                            "pass=gptq run=yes", *more) and noise(folder / "both", TEST)
                   for more in ((), words))
    check("bias-correct: after gptq", both < 0.8 * alone, f"{alone:.3g} -> {both:.3g}")


def patterns(snapshot, name):
    """{pattern: (matched, misses)} of that pass."""
    rows = json.loads((snapshot / "quant.json").read_text())["coverage"]
    return {r["pattern"]: (r["matched"], r["near_misses"]) for r in rows if r["pass"] == name}


def check_bias_of_products(folder):
    """The constant that TensorRT adds in the kernel of a MatMul is its bias; elsewhere the
    table tells why nothing happened."""
    model, calib, unseen = transformer(folder, 0)
    words = "--set", "pass=bias-correct run=yes"
    plain = quantize(model, calib, folder / "plain", *FOUR)
    right = quantize(model, calib, folder / "right", *FOUR, *words)
    kept = {n for n in constants(right) if n.endswith(".untuned")}
    same = difference(float_outputs(plain, unseen, folder),
                      float_outputs(right, unseen, folder))
    check("bias of a product: the float network stays", kept and same == 0, len(kept), same)
    rng = np.random.default_rng(2)
    model, x = (product(folder, rng.normal(0, 1, (16, 6)), bias=rng.normal(0, 1, 6)),
                rng.uniform(0, 1, (2, 64, 16)).astype("f"))
    for seed, path in enumerate((calib, unseen)):
        np.save(path, x[seed])
    before, after = (noise(quantize(model, calib, folder / "one", *FOUR, *more), unseen)
                     for more in ((), words))
    check("bias of a product: noise", after < 0.7 * before, f"{before:.3g} -> {after:.3g}")
    apart = quantize(model, calib, folder / "apart", *FOUR, *words, backend="ort-int8")
    rows = patterns(apart, "bias-correct")
    text = str(rows.get("bias"))
    check("bias of a product: a sum with its own grid", "no slot for a bias, expected" in text,
          text[:160])
    apart = quantize(model, calib, folder / "apart", "--set", "pass=equalize run=yes")
    text = str(patterns(apart, "equalize"))
    check("equalize: products are no layers", "expected a convolution or Gemm" in text,
          text[:160])
    check_constants_without_channels(folder, words)


def check_constants_without_channels(folder, words):
    """y[6,6]: what has 6 elements may still be one for each row."""
    rng = np.random.default_rng(3)
    np.save(folder / "rows.npy", rng.uniform(0, 1, (32, 6, 16)).astype("f"))
    for dims in (6, 1), (6, 6), (1, 1), ():
        model = product(folder, rng.normal(0, 1, (16, 6)), bias=rng.normal(0, 1, dims), rows=6)
        snapshot = quantize(model, folder / "rows.npy", folder / "rows", *FOUR, *words)
        text = str(patterns(snapshot, "bias-correct").get("bias"))
        check(f"bias of a product: a constant {list(dims)} is none",
              "expected float32 with one element per channel" in text
              and "b.untuned" not in constants(snapshot), text[:160])


def product(folder, weight, gain=None, bias=None, rows=1):
    """y = (gain x) W + bias, for numbers that are computed here as well."""
    make = onnx.helper.make_node
    nodes, x = [], "x"
    weights = [numpy_helper.from_array(weight.astype("f"), "w")]
    if gain is not None:
        nodes, x = [make("Mul", ["x", "g"], ["m"])], "m"
        weights.append(numpy_helper.from_array(gain.astype("f"), "g"))
    nodes.append(make("MatMul", [x, "w"], ["y" if bias is None else "p"]))
    if bias is not None:
        nodes.append(make("Add", ["p", "b"], ["y"]))
        weights.append(numpy_helper.from_array(np.asarray(bias, "f"), "b"))
    info, size = onnx.helper.make_tensor_value_info, weight.shape
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, [rows, size[0]])],
                                   [info("y", 1, [rows, size[1]])], weights)
    path = folder / "product.onnx"
    onnx.save(onnx.helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    return path


def constants(snapshot):
    return {t.name: numpy_helper.to_array(t)
            for t in onnx.load(snapshot / "model.onnx").graph.initializer}


def check_factors(folder):
    """s of the paper's formula, for largest |x| 10, .5, 2, 40 and weights .2, .4, .1, .05."""
    x, w = np.array([10, .5, 2, 40]), np.array([.2, .4, .1, .05])
    np.save(folder / "x.npy", x[None].astype("f"))
    model = product(folder, np.stack([w, -w / 2], 1), np.ones(4))
    for alpha, want in ((0.5, [7.0710678, 1.1180340, 4.4721360, 28.2842712]),
                        (0.75, [8.4089642, 0.7476744, 2.9906976, 33.6358566])):
        c = constants(quantize(model, folder / "x.npy", folder / "s", "--set",
                               f"pass=smooth-quant run=yes alpha={alpha}"))
        check(f"smooth-quant {alpha}: factors",
              np.allclose(1 / c["g"], want, rtol=1e-6) and
              np.allclose(c["w"][:, 0], w * want, rtol=1e-6))


def gptq(w, x, step, top, damp=0.01):
    """Rows of w [out, in]; x [samples, in]; as the paper's algorithm 1 with act-order."""
    h = x.T @ x
    order = np.argsort(-np.diag(h), kind="stable")
    h = h[np.ix_(order, order)]
    h = h + damp * np.mean(np.diag(h)) * np.eye(len(h))
    u = np.linalg.cholesky(np.linalg.inv(h)).T
    w, q = w[:, order].copy(), np.zeros_like(w)
    for k in range(len(h)):
        q[:, k] = np.clip(np.round(w[:, k] / step), -top - 1, top) * step
        w[:, k + 1:] -= np.outer((w[:, k] - q[:, k]) / u[k, k], u[k, k + 1:])
    back = np.empty_like(q)
    back[:, order] = q
    return back


def check_definition(folder):
    rng = np.random.default_rng(5)
    mix, w = rng.normal(0, 1, (12, 12)), rng.normal(0, 1, (12, 7)).astype("f")
    x = (rng.normal(0, 1, (60, 12)) @ mix).astype("f")
    np.save(folder / "x.npy", x)
    words = "--set", "slot=weight op=MatMul bits=3", "--set", "slot=in0 op=MatMul state=fp32"
    out = quantize(product(folder, w), folder / "x.npy", folder / "one", *words, "--set",
                   "pass=gptq run=yes", "--set", "op=MatMul slot=out0 state=fp32")
    records = [t for t in json.loads((out / "quant.json").read_text())["tqcs"]
               if t["slot"] == "in1"]
    step = np.array(records[0]["scale"])
    want = gptq(w.T.astype(float), x.astype(float), step, records[0]["range"][1]).T
    got = constants(out)
    check("gptq: as numpy computes it", np.allclose(got["w"], want, atol=1e-5),
          np.abs(got["w"] - want).max())
    check("gptq: the weights as they were", np.array_equal(got["w.untuned"], w))


def check_split(folder):
    plain = quantize(DIGITS, CALIB, folder / "whole")
    for name, threshold in ("weight-split", 0.3), ("channel-split", 0.2):
        parts = quantize(DIGITS, CALIB, folder / "parts", "--set",
                         f"pass={name} run=yes threshold={threshold}")
        apart = difference(float_outputs(plain, TEST, folder),
                           float_outputs(parts, TEST, folder))
        sizes = [sum(c.size for c in constants(f).values()) for f in (plain, parts)]
        check(f"{name}: float outputs stay", apart < 1e-5, f"{apart:.2g}")
        check(f"{name}: weights", sizes[1] > sizes[0], sizes,
              f"{noise(plain, TEST):.3g} -> {noise(parts, TEST):.3g}")


def main():
    for test in (check_smooth, check_factors, check_gptq, check_definition, check_bias_correct,
                 check_bias_of_products, check_split):
        with tempfile.TemporaryDirectory() as name:
            test(pathlib.Path(name))
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
