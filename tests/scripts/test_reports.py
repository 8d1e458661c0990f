#!/usr/bin/env python3
"""Reports for people: what matters first, details on request (-v, --all), pictures that fit
the page; intervals that contain their scale; messages that name what was found."""
import os
import pathlib
import sys
import tempfile
import zipfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import answer, qg

MODEL = os.path.abspath("configs/models/digits.onnx")
CALIB, TEST = (os.path.abspath(f"configs/data/digits_{n}.npy") for n in ("calib", "test"))
failures = 0


def check(what, good, *detail):
    global failures
    print("ok    " if good else "FAILED", what, *detail)
    failures += not good


def sum_of_two(folder):
    """Conv b is five times as wide as Conv a; their sum makes them share a scale."""
    r = np.random.default_rng(0)
    node = helper.make_node
    weights = {"w1": r.standard_normal((4, 3, 3, 3)), "w2": 5 * r.standard_normal((4, 3, 3, 3)),
               "w3": r.standard_normal((4, 4, 1, 1))}
    graph = helper.make_graph(
        [node("Conv", ["x", "w1"], ["a"], "c1", pads=[1] * 4),
         node("Conv", ["x", "w2"], ["b"], "c2", pads=[1] * 4),
         node("Add", ["a", "b"], ["s"], "add"), node("Conv", ["s", "w3"], ["u"], "c3"),
         node("Conv", ["a", "w3"], ["v"], "c4"), node("Concat", ["u", "v"], ["y"], "cat", axis=1)],
        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 16, 16])],
        [numpy_helper.from_array(w.astype("f"), n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), folder / "m.onnx")
    np.save(folder / "x.npy", r.standard_normal((32, 3, 16, 16)).astype("f"))
    return folder / "m.onnx", folder / "x.npy"


def check_intervals(folder):
    model, data = sum_of_two(folder)
    qg("stats", "collect", model, "-d", data, "-o", folder / "s.qgs")
    for backend in ("trt-int8", "qnn-dsp-int8", "ort-int8"):
        derived = answer("stats", "derive", folder / "s.qgs", "--model", model, "-b", backend)
        known = [r for r in derived["scales"] if r["low"] is not None]
        outside = [r for r in known if not r["low"] <= r["scale"][0] <= r["high"]]
        check(f"{backend}: {len(known)} intervals contain their scale", known and not outside,
              outside[:1])
        check(f"{backend}: no assurance after the last sample", "confidence" in derived,
              derived.get("confidence"))
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", folder / "s")
    told = answer("explain", folder / "s", "add")
    check("explain: where the value is rounded", told["rounded_at"] == "c1.out0, c2.out0, add.out0",
          told["rounded_at"])
    rows = {r["member"]: r for r in told["joint_scales"]}
    check("explain: how the joint scale was chosen",
          not rows["c1.out0"]["chosen"] and rows["c2.out0"]["chosen"]
          and rows["c1.out0"]["joint"] == rows["c2.out0"]["joint"]
          and rows["c2.out0"]["shared_by"] == "align/sum-inputs", rows)


def check_few(folder):
    """64 samples of 10 logits are no histogram; 64 images are one for percentile."""
    for observer in ("kl", "mse", "percentile"):
        r = answer("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "--observer", observer,
                   "-o", folder / "s")
        few = {row["endpoint"]: row for row in r["few"]}
        check(f"{observer}: few elements are minmax",
              few["gemm1.out0"]["elements"] == 640 and observer in r["few_elements"],
              r["few_elements"])
        told = answer("explain", folder / "s", "gemm1.out0")
        check(f"{observer}: the history tells", told["endpoints"][0]["observer"] == "minmax"
              and any(c["by"].endswith("/few-elements") for c in told["changes"]))
        least = {"kl": 32768, "mse": 8192, "percentile": 10000}[observer]
        check(f"{observer}: below {least} elements",
              all(row["elements"] < least for row in few.values()))
    r = answer("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "--observer", "mse", "--quirks",
               "ppq-observers", "-o", folder / "s")
    check("a tool's own observer does as its tool", not r["few"])


def check_clipped(folder):
    """Scores of a detector that sees background: nearly all near two values far from zero."""
    r = np.random.default_rng(1)
    x = np.where(r.uniform(size=200000) < 0.5, 4.0, -4.0) + r.normal(0, 0.2, 200000)
    x[:200] = r.uniform(-1, 1, 200)
    np.save(folder / "two.npy", x.astype("f"))
    good = answer("quantize-tensor", folder / "two.npy", "--observer", "kl")
    check("kl keeps two-valued data", good["saturated"] < 0.01, good["saturated"], good["nsr"])


def check_page(folder):
    ask = ("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", folder / "s")
    short, verbose, all_of_it = qg(*ask), qg(*ask, "-v"), qg(*ask, "--all")
    check("timings of passes under -v", "milliseconds" not in short and "milliseconds" in verbose)
    check("every pattern and interval with --all",
          "fuse/gelu-by-erf" not in short and "fuse/gelu-by-erf" in all_of_it
          and "settled after" in all_of_it and "settled after" not in verbose)
    check("what matters first", short.index("few elements") < short.index("states")
          < short.index("observers"))
    ask = ("export", folder / "s", "--format", "openvino-fq", "-o", folder / "x.onnx")
    short, all_of_it = qg(*ask), qg(*ask, "--all")
    rows = answer(*ask)
    kinds = {(r["lost"], r["changes_results"]) for r in rows["losses"]}
    check("losses by kind", "conv4.in0" not in short and "conv4.in0" in all_of_it
          and {(r["lost"], r["changes_results"]) for r in rows["losses_by_kind"]} == kinds
          and sum(r["endpoints"] for r in rows["losses_by_kind"]) == len(rows["losses"]))
    qg(*ask, "--report", folder / "loss.txt")
    check("the report's file has every loss", "conv4.in0" in (folder / "loss.txt").read_text())
    r = answer("sensitivity", folder / "s", "-d", TEST, "-n", "8", "--direction", "all-but")
    removes = [row["removes"] for row in r["errors"]]
    check("all-but: worst first", removes == sorted(removes, reverse=True) and removes[0] > 0)
    check("all-but: the parts", all(abs(row["removes"] + row["error"] - r["all_quantized"]) < 1e-9
                                    for row in r["errors"]))


def check_picture(folder):
    qg("stats", "collect", MODEL, "-d", CALIB, "-o", folder / "s.qgs")
    text = qg("stats", "show", folder / "s.qgs", "relu2_out")
    rows = answer("stats", "show", folder / "s.qgs", "relu2_out")
    bars = rows["histogram"]
    lines = text.splitlines()
    at = lines.index("histogram")
    check("a picture of at most 24 rows", 12 <= len(bars) <= 24 and len(lines) < 80, len(lines))
    check("that fits the page", max(map(len, lines[at:at + 2 + len(bars)])) <= 88)
    check("of all elements", sum(b["count"] for b in bars) == sum(b["count"] for b in rows["bins"])
          == rows["total"][0]["count"])
    longest = max(bars, key=lambda b: b["count"])
    check("bars as long as their rows are full", len(longest["bar"]) == 40
          and all((len(b["bar"]) > 0) == (b["count"] > 0) for b in bars))
    check("every bin with --all", len(qg("stats", "show", folder / "s.qgs", "relu2_out",
                                         "--all").splitlines()) > len(rows["bins"]))


def check_messages(folder):
    for word in ("trt", "tensorrt", "TensorRT"):
        qg("quantize", MODEL, "-b", word, "-d", CALIB, "-o", folder / "n",
           fails="did you mean 'trt-int8'")
    qg("quantize", MODEL, "-b", "openvino", "-d", CALIB, "-o", folder / "n",
       fails="did you mean 'openvino-int8'")
    files = {"a.txt": (b"some notes about the model\n", "is text"),
             "a.npy": (b"\x93NUMPY\x01\x00" + bytes(80), "is a NumPy array"),
             "a.h5": (b"\x89HDF\r\n\x1a\n" + bytes(80), "is an HDF5 file"),
             "a.pth": (b"\x80\x02}q\x00." + bytes(80), "is a Python pickle"),
             "a.onnx": (b"<!DOCTYPE html><html>", "is an XML or HTML page"),
             "b.onnx": (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer")}
    for name, (content, found) in files.items():
        (folder / name).write_bytes(content)
        text = qg("dump", folder / name, fails=found)
        check(f"{name}: what is expected", "expected an ONNX model" in text)
    with zipfile.ZipFile(folder / "a.pt", "w") as z:
        z.writestr("archive/data.pkl", "x" * 50)
    qg("dump", folder / "a.pt", fails="is a zip archive without 'model.onnx'")


def check_lists():
    rows = {r["observer"]: r["fails"] for r in answer("list", "observers")["observers"]}
    check("list observers warns", rows["kl"] and rows["nvidia-entropy"] and rows["aciq-laplace"]
          and rows["ort-entropy"] and rows["minmax"] is None, rows["kl"])


def main():
    for test in (check_intervals, check_few, check_clipped, check_page, check_picture,
                 check_messages):
        with tempfile.TemporaryDirectory() as name:
            test(pathlib.Path(name))
    check_lists()
    sys.exit(failures > 0)


main()
