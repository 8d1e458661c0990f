#!/usr/bin/env python3
"""qg infer-backend: a part of the table of infer.py, devices with a changed backend, real
runtimes, dumps that show little, dumps that do not fit."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import helper

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import infer  # noqa: E402
import plants  # noqa: E402
from command import EVERYTHING  # noqa: E402

QG = os.environ.get("QG", "build/qg")
MODEL, CALIB = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
TFLITE = "tests/data/tflite/kws_int8.tflite"
SHARED = pathlib.Path(os.environ.get("QG_SHARED", "../shared"))


class Infer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.holder.name)
        cls.data = cls.work / "x.npy"
        np.save(cls.data, np.load("configs/data/digits_test.npy")[:6])

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def device(self, name, backend, form="codes"):
        """The dump of a device that computes by this backend."""
        snapshot, dump = self.work / f"{name}.device", self.work / name
        plants.qg("quantize", MODEL, "-b", backend, "-d", CALIB, "-o", snapshot)
        infer.show(snapshot, self.data, dump, form)
        return dump

    def infer(self, dump, *more, model=MODEL, data=None):
        return infer.infer(model, data or self.data, dump, self.work / "mine.yaml", *more)

    def variant(self, base, text):
        path = self.work / "variant.yaml"
        path.write_text(f"name: variant\nextends: {base}\n{text}\n")
        return path

    def keys(self, report):
        return {(c["key"], c["word"]) for c in report["changes"] if c["key"] != "rules"}

    def explained(self, report):
        for name in ("values", "links", "grids"):
            part, of = report[f"file_explains_{name}"].split(" of ")
            self.assertEqual(part, of, name)

    # --- shipped backends ---
    def table(self, backends, least, **options):
        options = argparse.Namespace(**{"form": "codes", "same": False, "without": False,
                                        **options})
        for backend in backends:
            with tempfile.TemporaryDirectory() as folder:
                equal, of, unlisted, *_ = infer.judge("digits", backend,
                                                      pathlib.Path(folder) / "x", options)
            self.assertGreaterEqual(equal / of, least, backend)
            self.assertEqual(unlisted, [], backend)

    def test_codes_on_other_samples(self):
        """QG_ALL=1: on all of these."""
        some = "trt-int8", "openvino-int8", "asc-int8"
        more = "tflite-int8", "snpe-int8", "tengine-int8", "metax-int8-c"
        self.table(some + more if EVERYTHING else some, 0.95)

    def test_floats_on_the_same_samples(self):
        self.table(("trt-int8", "tflite-int8", "ort-int8"), 0.95, form="floats", same=True)

    def test_from_another_backend(self):
        self.table(("trt-int8", "tflite-int8"), 0.95, without=True)

    def test_shuffled_channels(self):
        """Reshape with computed dims copies codes: integers among its inputs are no values."""
        options = argparse.Namespace(form="codes", same=False, without=False)
        equal, of, unlisted, report, *_ = infer.judge(
            "shufflenet_v2", "qnn-dsp-int8", self.work / "shuffle", options)
        self.assertGreaterEqual(equal / of, 0.95)
        self.assertEqual(unlisted, [])
        self.assertIn("qnn-dsp-int8", report["not_told_apart"])

    # --- changes ---
    def test_a_changed_backend_keeps_its_base(self):
        """Other codes of all values are one change: no other backend is nearer."""
        options = argparse.Namespace(form="codes", same=False, without=False)
        path = self.variant("tflite-int8", "-fusions: [compute-activation]\ndefaults: "
                            "{range: [0, 255], policy: [per-tensor, linear, asymmetric]}")
        equal, of, unlisted, report, *_ = infer.judge("digits", path, self.work / "kept", options)
        self.assertGreaterEqual(equal / of, 0.95)
        self.assertEqual(unlisted, [])
        self.assertIn(("-fusions", "compute-activation"), self.keys(report))

    def test_a_fusion_that_is_not_there(self):
        dump = self.device("unfused", self.variant(
            "trt-int8", "-fusions: [compute-activation, any-relu]"))
        r = self.infer(dump, "--from", "trt-int8")
        self.assertEqual(self.keys(r), {("-fusions", "compute-activation"),
                                        ("-fusions", "any-relu")})
        self.explained(r)

    def test_a_fusion_that_is_new(self):
        text = ("fusions:\n  - id: pool\n    pattern: {c: {op: Conv}, r: {op: Relu, in: [c]}, "
                "p: {op: AveragePool, in: [r]}}\n    where: {c.out0: {consumers: 1}, "
                "r.out0: {consumers: 1}}\n    silence: {c.out0: p.out0, r.in0: p.out0, "
                "r.out0: p.out0, p.in0: p.out0}\n    why: planted\n    source: this test\n")
        r = self.infer(self.device("fused", self.variant("trt-int8", text)), "--from", "trt-int8")
        self.assertEqual(self.keys(r), {("fusions", "kernel-Relu-AveragePool")})
        self.explained(r)

    def test_a_bias_that_is_rounded_otherwise(self):
        """Few codes change: every one of them is evidence, where all inputs are visible."""
        text = ("rules:\n  - id: float-bias\n    match: {slot: bias}\n    set: {state: fp32}\n"
                "    why: planted\n    source: this test\n")
        options = argparse.Namespace(form="codes", same=False, without=False)
        equal, of, unlisted, report, *_ = infer.judge(
            "digits", self.variant("tflite-int8", text), self.work / "bias", options,
            more=("--from", "tflite-int8"))
        words = {c["word"] for c in report["changes"] if c["key"] == "rules"}
        self.assertIn("bias-float", words)
        self.assertEqual((equal, unlisted), (of, []))

    def test_a_mean_that_is_not_rounded(self):
        """Its grid is a part of the input's: no backend rounds it to that by chance."""
        dump = self.device("passive-mean", self.variant("int8-base", "+passive: [AveragePool]"))
        r = self.infer(dump, "--from", "int8-base")
        self.assertEqual(self.keys(r), {("+passive", "AveragePool")})
        self.explained(r)

    def test_an_operator_with_more_bits(self):
        text = ("rules:\n  - id: wide\n    match: {op: [Gemm], slot: output}\n    set: {bits: 16, "
                "range: [-32768, 32767]}\n    why: planted\n    source: this test\n")
        r = self.infer(self.device("wide-gemm", self.variant("trt-int8", text)), "--from",
                       "trt-int8")
        self.assertIn("codes-of-Gemm", {c["word"] for c in r["changes"]})
        self.assertNotIn("gemm1.out0", {u["endpoint"] for u in r["undecided"]})

    def test_inputs_that_a_pass_takes_away_are_listed(self):
        r = self.infer(self.device("plain", "int8-base"), "--from", "metax-int8-c")
        self.assertLessEqual({"gemm0.in2", "gemm1.in2"},
                             {u["endpoint"] for u in r["undecided"]})

    def test_a_copy_that_may_be_float(self):
        """Rounding codes to their own grid changes nothing."""
        options = argparse.Namespace(form="codes", same=False, without=False)
        path = self.variant("ppl-dsp-int8", "+quantizes: [Transpose]\ndefaults: {range: "
                            "[-128, 127], policy: [per-tensor, linear, asymmetric]}")
        _, _, unlisted, report, *_ = infer.judge("shufflenet_v2", path, self.work / "copy", options,
                                              more=("--from", "ppl-dsp-int8"))
        self.assertEqual(unlisted, [])
        self.assertIn("/Transpose.out0", {u["endpoint"] for u in report["undecided"]})

    def test_a_backend_in_a_file(self):
        path = self.variant("trt-int8", "-sharing: [concat-inputs]")
        r = self.infer(self.device("in-file", path), "--from", path)
        self.assertEqual(self.keys(r), set())
        self.explained(r)

    def test_short_floats(self):
        """float16 has a grid of its own, which is not that of the device."""
        dump = self.device("halves", "trt-int8", "floats")
        _, arrays = plants.read(dump)
        np.savez(self.work / "half.npz", **{k: x.astype("f2") for k, x in arrays.items()})
        r = self.infer(self.work / "half.npz", "--from", "trt-int8")
        self.assertEqual(r["undecided_endpoints"], r["endpoints"])
        self.assertEqual({v["seen"] for v in r["values"]} - {"hidden"}, {"unsure"})

    def test_sharing_that_is_not_there(self):
        dump = self.device("apart", self.variant("trt-int8", "-sharing: [concat-inputs]"))
        r = self.infer(dump, "--from", "trt-int8")
        self.assertEqual(self.keys(r), {("-sharing", "concat-inputs")})
        self.explained(r)

    def test_an_operator_in_float(self):
        dump = self.device("float", self.variant("trt-int8", "-quantizes: [Gemm]"))
        r = self.infer(dump, "--from", "trt-int8")
        self.assertEqual(self.keys(r), {("-quantizes", "Gemm")})
        self.explained(r)
        r = self.infer(dump)
        text = (self.work / "mine.yaml").read_text()
        self.assertIn(f'extends: "{r["nearest"]}"', text)
        self.assertIn("# Gemm: ", text)

    def test_a_reader_in_float(self):
        """x -MatMul- a -Div- d -Mul- m -MatMul- y: Div is float, Mul rounds d or does not."""
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper
        rng, info = np.random.RandomState(3), helper.make_tensor_value_info
        weights = {"w": rng.randn(16, 16) / 4, "q": rng.rand(16) + 0.5, "k": rng.rand(16) + 0.5,
                   "v": rng.randn(16, 8) / 4}
        nodes = [helper.make_node(op, [x, y], [z], op + z) for op, x, y, z in (
            ("MatMul", "x", "w", "a"), ("Div", "a", "q", "d"), ("Mul", "d", "k", "m"),
            ("MatMul", "m", "v", "y"))]
        model, data, device, dump = (self.work / n for n in ("reader.onnx", "reader.npy",
                                                             "reader.device", "reader"))
        onnx.save(helper.make_model(helper.make_graph(
            nodes, "g", [info("x", 1, [1, 32, 16])], [info("y", 1, [1, 32, 8])],
            [onnx.numpy_helper.from_array(x.astype(np.float32), n) for n, x in weights.items()]),
            opset_imports=[helper.make_opsetid("", 14)], ir_version=8), model)
        np.save(data, rng.randn(4, 1, 32, 16).astype(np.float32))
        plants.qg("quantize", model, "-b", self.variant("tflite-int8", "-quantizes: [Mul]"), "-d",
                  data, "-o", device)
        infer.show(device, data, dump, "codes")
        r = self.infer(dump, "--from", "tflite-int8", model=model, data=data)
        self.assertEqual(self.keys(r), {("-quantizes", "Mul")})
        self.explained(r)

    def small(self, name, nodes, weights, shape, result):
        """(model, samples) of nodes (operator, inputs, output) that read x."""
        info = helper.make_tensor_value_info
        rng, model, data = np.random.RandomState(3), self.work / f"{name}.onnx", \
            self.work / f"{name}.npy"
        onnx.save(helper.make_model(helper.make_graph(
            [helper.make_node(op, read, [z], f"{op}_{z}", **more) for op, read, z, more in nodes],
            "g", [info("x", 1, shape)], [info(nodes[-1][2], 1, result)],
            [onnx.numpy_helper.from_array(np.asarray(a, np.float32), n)
             for n, a in weights.items()]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        np.save(data, rng.randn(6, *shape).astype(np.float32))
        return model, data

    def judge(self, name, backend, subject, form="codes", more=()):
        """infer.judge on a small network, calibrated on the samples of the dump."""
        options = argparse.Namespace(form=form, same=True, without=False)
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        return infer.judge(name, backend, folder, options,
                           (subject[0], subject[1], subject[1]), more)

    def sums(self):
        rng = np.random.RandomState(4)
        return self.small("sums", [
            ("Conv", ["x", "w"], "a", {}), ("Conv", ["x", "v"], "b", {}),
            ("Add", ["a", "b"], "s", {}), ("Sigmoid", ["s"], "y", {})],
            {"w": rng.randn(4, 4, 1, 1) / 2, "v": rng.randn(4, 4, 1, 1) / 2}, [1, 4, 12, 12],
            [1, 4, 12, 12])

    def test_who_rounds_is_open(self):
        """The device leaves Conv in float, and Add rounds what it reads."""
        device = self.variant("ncnn-int8", "+quantizes: [Add]\n-quantizes: [Conv]")
        for form in ("codes", "floats"):
            for more in ((), ("--from", "asc-int8")):
                equal, of, unlisted, report, *_ = self.judge("who", device, self.sums(), form,
                                                             more)
                self.assertEqual(unlisted, [], (form, more))
                listed = {u["endpoint"]: u["why"] for u in report["undecided"]}
                self.assertGreaterEqual(report["endpoints"], report["undecided_endpoints"])
                self.assertEqual(report["undecided_endpoints"], len(report["undecided"]))
                if equal < of:
                    self.assertEqual(listed["Add_s.in0"], "rounds what it reads, or the node "
                                     "before rounds its result")

    def test_grids_that_are_equal_by_chance(self):
        """A Sub in float, of which a mean and a part are joined: Concat has the grid of its
        largest element."""
        rng, info = np.random.RandomState(101), helper.make_tensor_value_info
        model, calib, data = (self.work / n for n in ("chance.onnx", "chance-c.npy", "chance.npy"))
        weights = {"w": rng.randn(7, 6, 3), "v": rng.randn(7, 7, 2) / 2, "u": rng.randn(5, 14, 1)}
        bounds = {"from": [0], "to": [7], "axis": [2]}
        nodes = [helper.make_node(op, read, [z], f"{op}_{z}", **more) for op, read, z, more in (
            ("Conv", ["x", "w"], "a", {}), ("Relu", ["a"], "r", {}),
            ("MaxPool", ["r"], "e", {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
            ("Conv", ["e", "v"], "f", {"pads": [1, 0]}), ("Sub", ["f", "e"], "g", {}),
            ("AveragePool", ["g"], "h", {"kernel_shape": [2], "strides": [2]}),
            ("Slice", ["g", "from", "to", "axis"], "k", {}), ("Concat", ["h", "k"], "c", {"axis": 1}),
            ("Conv", ["c", "u"], "y", {}))]
        onnx.save(helper.make_model(helper.make_graph(
            nodes, "g", [info("x", 1, [1, 6, 31])], [info("y", 1, [1, 5, 7]),
                                                    info("g", 1, [1, 7, 14])],
            [onnx.numpy_helper.from_array(np.asarray(a, np.float32), n)
             for n, a in weights.items()] +
            [onnx.numpy_helper.from_array(np.asarray(a, np.int64), n)
             for n, a in bounds.items()]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        np.save(calib, rng.randn(12, 1, 6, 31).astype(np.float32))
        np.save(data, rng.randn(6, 1, 6, 31).astype(np.float32))
        options = argparse.Namespace(form="codes", same=False, without=False)
        *_, unlisted, report, _, _ = infer.judge("chance", "ort-int8", self.work / "chance",
                                                 options, (model, calib, data),
                                                 ("--from", "ort-int8"))
        self.assertEqual(unlisted, [])
        self.assertGreater(report["undecided_endpoints"], 0)

    def test_products_in_float(self):
        """Results alone tell that Conv is in float, and that Add rounds what it reads."""
        for base, text, keys in (
                ("ort-int8", "-quantizes: [Conv]", {("-quantizes", "Conv")}),
                ("ncnn-int8", "+quantizes: [Add]\n-quantizes: [Conv]",
                 {("-quantizes", "Conv"), ("+quantizes", "Add")})):
            equal, of, unlisted, report, *_ = self.judge(
                "float", self.variant(base, text), self.sums(), more=("--from", base))
            self.assertEqual((equal, unlisted, self.keys(report)), (of, [], keys))

    def test_readers_of_one_grid_in_two_groups(self):
        """x -LeakyRelu- a -Conv- b, a + b = y: the readers of a round it.  It has a larger
        range than b on the device's samples, and a smaller one on those of the dump, and sums
        align their operands."""
        rng, info = np.random.RandomState(3), helper.make_tensor_value_info
        nodes = [helper.make_node(op, read, [z], op) for op, read, z in (
            ("LeakyRelu", ["x"], "a"), ("Conv", ["a", "w"], "b"), ("Add", ["a", "b"], "y"))]
        weight = np.diag([0.5, 1.5, 0.5, 0.5]).astype(np.float32).reshape(4, 4, 1, 1)
        model, calib, data, device, dump = (self.work / n for n in (
            "two.onnx", "two-calib.npy", "two.npy", "two.device", "two"))
        onnx.save(helper.make_model(helper.make_graph(
            nodes, "g", [info("x", 1, [1, 4, 9, 9])], [info("y", 1, [1, 4, 9, 9])],
            [onnx.numpy_helper.from_array(weight, "w")]),
            opset_imports=[helper.make_opsetid("", 14)], ir_version=8), model)
        x = rng.uniform(-1, 1, (12, 1, 4, 9, 9)).astype(np.float32)
        np.save(data, x[:4])
        x[4:, :, 0] *= 4
        np.save(calib, x[4:])
        aligned = self.work / "aligned.yaml"
        aligned.write_text("name: aligned\nextends: mnn-int8\nquantizes: [Add, Conv]\nsharing:\n"
                           "  - {id: sums, match: {op: Add}, align: large, spread: upstream, why: a,\n"
                           "     source: b}\n")
        plants.qg("quantize", model, "-b", aligned, "-d", calib, "--observer", "minmax", "-o",
                  device)
        infer.show(device, data, dump, "codes")
        r = self.infer(dump, "--from", aligned, model=model, data=data)
        self.assertEqual(self.keys(r), set())
        self.explained(r)
        part, of = r["results_explained"].split(" of ")
        self.assertEqual(part, of)

    def test_the_file_says_what_it_was_seen_from(self):
        r = self.infer(self.device("why", "trt-int8"), "--from", "trt-int8")
        rule = next(c for c in r["changes"] if c["key"] == "rules")
        self.assertRegex(rule["why"], r"^\d+ different elements of \w+ are multiples -?\d+ to \d+")
        self.assertIn(rule["why"], (self.work / "mine.yaml").read_text())

    # --- scales ---
    def test_scales_that_results_show(self):
        """A value in float that a convolution rounds; an element that tells two scales of a
        float format apart.  What is left is not in the dump."""
        options = argparse.Namespace(form="codes", same=False, without=False)
        for backend, endpoint in ("asc-int8", "conv1.in0"), ("graphcore-fp8", "relu0.out0"):
            *_, report, differ, alike = infer.judge("digits", backend, self.work / backend,
                                                    options)
            want, got = differ.get(endpoint, (None, None))
            if want:
                np.testing.assert_allclose(got[1], want[1], rtol=5e-5)
                self.assertEqual((got[0], *got[2:]), (want[0], *want[2:]))
            self.assertTrue(alike, backend)
            self.assertTrue([c for c in report["changes"]
                             if c["why"].startswith("no array shows this scale; with it")])

    def test_sigmoids_that_saturate_share_nothing(self):
        """Scales that differ by 1e-6, of tensors whose largest elements are 1 and nearly 1."""
        shape = helper.make_tensor_value_info
        model, data, snapshot, dump = (self.work / n for n in (
            "gate.onnx", "gate.npy", "gate", "gate.folder"))
        x = np.random.RandomState(3).randn(4, 1, 3, 8, 8).astype(np.float32)
        w, v = (np.random.RandomState(seed).randn(4, 3, 1, 1).astype(np.float32) for seed in (1, 2))
        v *= 13.6 / np.einsum("snchw,kc->snkhw", x, v[:, :, 0, 0]).max()
        np.save(data, x)
        onnx.save(helper.make_model(helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
             helper.make_node("Tanh", ["c"], ["t"], "tanh"),
             helper.make_node("Conv", ["x", "v"], ["d"], "other"),
             helper.make_node("Sigmoid", ["d"], ["s"], "sigmoid"),
             helper.make_node("Mul", ["t", "s"], ["y"], "mul")], "gate",
            [shape("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
            [shape("y", onnx.TensorProto.FLOAT, [1, 4, 8, 8])],
            [onnx.numpy_helper.from_array(4 * w, "w"), onnx.numpy_helper.from_array(v, "v")]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        plants.qg("quantize", model, "-b", "int8-base", "-d", data, "-o", snapshot)
        infer.show(snapshot, data, dump, "codes")
        scale = {a["value"]: a["grid"]["scale"] for a in plants.read(dump)[0]["arrays"]}
        self.assertLess(0, abs(scale["t"] / scale["s"] - 1))
        self.assertLess(abs(scale["t"] / scale["s"] - 1), 2e-6)
        report = self.infer(dump, "--from", "int8-base", model=model, data=data)
        self.assertEqual(self.keys(report), set())
        self.explained(report)

    # --- what a dump does not show ---
    def test_hidden_tensors_are_undecided(self):
        dump = self.device("hidden", "trt-int8")
        info, arrays = plants.read(dump)
        info["arrays"] = [a for a in info["arrays"] if a["value"] not in ("logits", "relu1_out")]
        plants.write(self.work / "few", info, arrays)
        r = self.infer(self.work / "few", "--from", "trt-int8")
        listed = {u["endpoint"]: u["what"] for u in r["undecided"]}
        self.assertEqual(listed.get("gemm1.out0"), "fusion")
        self.assertIn("relu1.out0", listed)
        self.assertEqual(listed.get("conv0.in0"), "grid")
        self.assertNotIn("relu5.out0", listed)

    def test_an_array_with_the_name_of_the_value_before(self):
        """A multiple of a value is told from the value by size: both correlate alike."""
        r, model = np.random.default_rng(5), self.work / "multiple.onnx"
        w = [onnx.numpy_helper.from_array(np.asarray(x, np.float32), name) for name, x in (
            ("w0", r.standard_normal((4, 1, 3, 3))), ("w1", r.standard_normal((4, 4, 3, 3))),
            ("three", 3))]
        node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [node("Conv", ["x", "w0"], ["a"], name="a"), node("Mul", ["a", "three"], ["b"], name="b"),
             node("Conv", ["b", "w1"], ["y"], name="y")], "g",
            [info("x", 1, [1, 1, 8, 8])], [info("y", 1, [1, 4, 4, 4])], w)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)],
                                         ir_version=8), model)
        data = self.work / "multiple.npy"
        np.save(data, r.standard_normal((6, 1, 1, 8, 8)).astype(np.float32))
        plants.qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", self.work / "multiple")
        plants.trace(self.work / "multiple", data, self.work / "multiple.npz", "--mode", "simulate")
        info, arrays = plants.read(self.work / "multiple.npz")
        info["arrays"] = [a for a in info["arrays"] if a["value"] != "a"]
        next(a for a in info["arrays"] if a["value"] == "b").update(value="a", endpoint=None)
        plants.write(self.work / "renamed", info, {"a": arrays["b"], "y": arrays["y"]})
        found = self.infer(self.work / "renamed", "--from", "trt-int8", model=model, data=data)
        how = {v["value"]: v["how"] for v in found["values"]}
        self.assertEqual((how["a"], how["b"], how["y"]), (None, "correlation", "name"))

    def test_floats_leave_zero_points_undecided(self):
        r = self.infer(self.device("floats", "tflite-int8", "floats"), "--from", "tflite-int8")
        listed = {u["endpoint"]: u["what"] for u in r["undecided"]}
        self.assertEqual(listed["relu5.out0"], "zero point")
        r = self.infer(self.device("integers", "tflite-int8"), "--from", "tflite-int8")
        self.assertNotIn("relu5.out0", {u["endpoint"] for u in r["undecided"]})

    def test_a_mean_of_many_codes_is_no_evidence(self):
        """Of 225 codes: the part of the step is too fine to be found in the elements."""
        r = np.random.RandomState(1)
        shape = helper.make_tensor_value_info
        model, data, snapshot, dump = (self.work / n for n in (
            "mean.onnx", "mean.npy", "mean", "mean.npz"))
        onnx.save(helper.make_model(helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
             helper.make_node("Relu", ["c"], ["r"], "relu"),
             helper.make_node("AveragePool", ["r"], ["p"], "pool", kernel_shape=[15, 15]),
             helper.make_node("Flatten", ["p"], ["f"], "flatten"),
             helper.make_node("Gemm", ["f", "g"], ["y"], "gemm")], "mean",
            [shape("x", onnx.TensorProto.FLOAT, [1, 3, 17, 17])],
            [shape("y", onnx.TensorProto.FLOAT, [1, 5])],
            [onnx.numpy_helper.from_array(r.randn(*s).astype(np.float32), n)
             for n, s in (("w", (32, 3, 3, 3)), ("g", (32, 5)))]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        np.save(data, r.randn(8, 1, 3, 17, 17).astype(np.float32))
        plants.qg("quantize", model, "-b", "tflite-int8", "-d", data, "-o", snapshot)
        plants.trace(snapshot, data, dump, "--mode", "simulate")
        report = self.infer(dump, "--from", "tflite-int8", model=model, data=data)
        self.assertEqual([u for u in report["undecided"] if u["what"] == "rounding"], [])
        self.explained(report)

    def test_a_mean_of_codes_of_sixteen_bits(self):
        """It lies on a part of their grid, which float32 elements do not show; the device's
        pool moves codes."""
        rng = np.random.RandomState(5)
        subject = self.small("wide", [
            ("Conv", ["x", "w"], "c", {}),
            ("AveragePool", ["c"], "p", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
            ("Conv", ["p", "v"], "y", {})],
            {"w": rng.randn(4, 4, 1, 1) / 2, "v": rng.randn(4, 4, 1, 1) / 2}, [1, 4, 12, 12],
            [1, 4, 12, 12])
        device = self.variant("tflite-int8", "defaults: {bits: 16, range: [-32768, 32767], "
                              "policy: [per-tensor, linear, symmetric]}")
        *_, unlisted, report, _, _ = self.judge("wide", device, subject)
        self.assertEqual(unlisted, [])
        self.assertLessEqual({c["key"] for c in report["changes"]}, {"defaults", "rules"})
        *_, unlisted, report, _, _ = self.judge("wide", device, subject, more=("--from", "trt-int8"))
        self.assertEqual(unlisted, [])
        self.assertNotIn("no grid", (" ".join(c["why"] for c in report["changes"])))

    def test_a_given_grid_is_one(self):
        """Codes times 0.25 lie on a part of their grid; the trace gives that grid, so the
        device has it."""
        rng = np.random.RandomState(7)
        subject = self.small("scaled", [
            ("MatMul", ["x", "w"], "m", {}), ("Mul", ["m", "k"], "s", {}),
            ("Softmax", ["s"], "t", {}), ("MatMul", ["t", "v"], "y", {})],
            {"w": rng.randn(8, 8), "k": 0.25, "v": rng.randn(8, 8)}, [1, 24, 8], [1, 24, 8])
        equal, of, unlisted, report, *_ = self.judge("scaled", "ort-int8", subject)
        self.assertEqual(unlisted, [])
        self.assertEqual(equal, of)
        self.assertEqual(self.keys(report), set())
        self.assertNotIn("no grid", json.dumps(report["changes"]))

    def test_codes_without_a_grid(self):
        dump = self.device("codes", "trt-int8")
        info, arrays = plants.read(dump)
        for a in info["arrays"]:
            a["grid"] = None
        plants.write(self.work / "bare", info, arrays)
        r = self.infer(self.work / "bare", "--from", "trt-int8")
        seen = {v["value"]: v for v in r["values"]}
        self.assertEqual((seen["relu5_out"]["seen"], seen["relu5_out"]["step"]), ("codes", None))
        self.assertIn("integers of an unknown scale",
                      {u["why"] for u in r["undecided"] if u["endpoint"] == "relu5.out0"})

    def test_infinite_floats_lie_on_no_grid(self):
        info, arrays = plants.read(self.device("finite", "trt-int8", "floats"))
        arrays["relu5_out"][0].flat[0] = -np.inf  # as a mask of attention has
        plants.write(self.work / "masked", info, arrays)
        r = self.infer(self.work / "masked", "--from", "trt-int8")
        self.assertEqual({v["value"]: v["seen"] for v in r["values"]}["relu5_out"], "real")

    # --- real runtimes ---
    def dump(self, name, *args):
        done = subprocess.run([sys.executable, f"tools/dump/{name}.py", *map(str, args)],
                              capture_output=True, text=True)
        if "No module named" in done.stderr:
            self.skipTest(f"{name} is not installed")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_onnxruntime_and_openvino(self):
        for name, backend, form, file in (
                ("onnxruntime", "ort-int8", "onnx-qdq", "ort.onnx"),
                ("openvino", "openvino-int8", "openvino-ir", "ov.xml")):
            made, model, dump = (self.work / n for n in (backend, file, f"{name}.npz"))
            plants.qg("quantize", MODEL, "-b", backend, "-d", CALIB, "-o", made)
            plants.qg("export", made, "--format", form, "-o", model)
            self.dump(name, model, self.data, dump, "--rounded")
            r = self.infer(dump)
            self.assertEqual((r["nearest"], "not_told_apart" in r), (backend, False))
            self.assertEqual(self.keys(r), set())
            self.assertLessEqual({u["what"] for u in r["undecided"]},
                                 {"backend", "rounding"})  # rounding: of Concat
            self.assertLessEqual(len(r["undecided"]), 22)  # of 58: other words for the same codes
            self.explained(r)

    def test_litert(self):
        model = SHARED / "models" / "kws_float.onnx"
        if not model.exists():
            self.skipTest(f"{model} is not there")
        x = np.load(SHARED / "data" / "kws_dev.npz")["input_1"][:4]
        data, dump = self.work / "kws.npy", self.work / "kws.npz"
        np.save(data, x.astype(np.float32))
        self.dump("litert", TFLITE, data, dump)
        r = self.infer(dump, model=model, data=data)
        self.assertIn("tflite-int8", r["not_told_apart"].split(", "))
        self.assertEqual((r["links_explained"], self.keys(r)), ("4 of 4", set()))
        self.assertEqual({u["endpoint"].rsplit(".", 1)[1] for u in r["undecided"]}, {"in2"})

    # --- dumps that name no backend ---
    def changed_dump(self, name, change):
        info, arrays = plants.read(self.work / "right")
        change(info, arrays)
        plants.write(self.work / name, info, arrays)
        return self.work / name

    def test_no_backend_is_named(self):
        self.device("right", "trt-int8")
        def turned(_, arrays):
            arrays.update({k: x[::-1].copy() for k, x in arrays.items()})
        def bare(info, _):
            info["arrays"] = [{**a, "grid": None} for a in info["arrays"]]
        def noise(_, arrays):
            rng = np.random.RandomState(1)
            arrays.update({k: rng.randint(-128, 128, x.shape).astype(np.int8)
                           for k, x in arrays.items()})
        for name, change, words in (("turned", turned, "on these samples"),
                                    ("bare-codes", bare, "integers without a grid"),
                                    ("noise", noise, "on these samples")):
            dump = self.changed_dump(name, change)
            # Given a backend, which the verdict on samples does not need, it takes a tenth.
            more = ("--from", "trt-int8") if words == "on these samples" else ()
            report = json.loads(plants.qg("infer-backend", MODEL, "-d", self.data, "--against",
                                          dump, "--json", *(() if EVERYTHING else more)))
            self.assertIn(words, report["verdict"], name)
            self.assertIsNone(report["nearest"], name)
            yaml = self.work / f"{name}.yaml"
            self.refused(dump, [words], "-o", yaml, *more)
            self.assertFalse(yaml.exists())

    def test_weights_that_destroy_the_network(self):
        """Its arrays are far from the network's, and the backend gives every one."""
        path = self.variant("trt-int8", "rules:\n  - id: ternary\n    match: {op: [Conv, Gemm], "
                            "slot: weight, constant: yes}\n    set: {bits: 2, range: [-1, 1], "
                            "policy: [per-tensor, linear, symmetric], observer: minmax}\n"
                            "    why: planted\n    source: this test\n")
        r = self.infer(self.device("ternary", path), "--from", path)
        self.assertNotIn("verdict", r)
        self.explained(r)

    def chain(self):
        rng = np.random.RandomState(6)
        return self.small("chain", [
            ("Conv", ["x", "w0"], "a", {}), ("Relu", ["a"], "b", {}),
            ("Conv", ["b", "w1"], "c", {}), ("Relu", ["c"], "d", {}),
            ("Conv", ["d", "w2"], "e", {}), ("Add", ["e", "b"], "y", {})],
            {f"w{i}": rng.randn(6, 6 if i else 4, 1, 1) / 2 for i in range(3)}, [1, 4, 12, 12],
            [1, 6, 12, 12])

    def narrow(self, base, bits, low, high):
        return self.variant(base, "rules:\n  - id: narrow\n    match: {op: [Conv, Gemm], slot: "
                            f"weight, constant: yes}}\n    set: {{bits: {bits}, range: [{low}, "
                            f"{high}]}}\n    why: planted\n    source: this test\n")

    def test_narrow_weights(self):
        for bits, low, high in ((4, -7, 7), (6, -32, 31)):
            *_, unlisted, report, _, _ = self.judge(
                "narrow", self.narrow("tflite-int8", bits, low, high), self.chain(),
                more=("--from", "tflite-int8"))
            self.assertEqual(unlisted, [])
            body = (c["word"] for c in report["changes"] if c["key"] == "rules")
            self.assertIn("weight-narrow", " ".join(body))
            part, of = report["results_explained"].split(" of ")
            self.assertEqual(part, of)
            self.assertNotIn("verdict", report)

    def test_narrow_codes(self):
        equal, of, unlisted, report, *_ = self.judge(
            "six", self.variant("trt-int8", "defaults: {bits: 6, range: [-32, 31]}"),
            self.chain())
        self.assertEqual(unlisted, [])
        self.assertGreaterEqual(equal / of, 0.9)
        self.assertTrue([c for c in report["changes"] if "bits: 6" in c["word"]])

    def test_most_results_are_others(self):
        """Weights of codes that are not tried: the file is written, and the report tells that
        it does not explain the dump."""
        subject = self.chain()
        *_, unlisted, report, _, _ = self.judge(
            "three", self.narrow("tflite-int8", 3, -3, 3), subject,
            more=("--from", "tflite-int8"))
        self.assertEqual(unlisted, [])
        self.assertRegex(report["verdict"], r"^\d of the \d results whose inputs are all visible")
        self.assertTrue(report["nearest"])
        self.assertIn(" explains as much of the dump ", " ".join(
            u["why"] for u in report["undecided"]))
        self.assertNotIn("explains the dump as well", str(report["undecided"]))

    def test_sixteen_bits(self):
        """int16 codes: bits are a fact by which backends are judged."""
        dump = self.device("wide", self.variant("trt-int8", "defaults: {bits: 16, range: "
                                                "[-32768, 32767]}"))
        r = self.infer(dump, "--from", "trt-int8")
        changes = {c["word"] for c in r["changes"] if c["key"] == "defaults"}
        self.assertEqual(len(changes), 1)
        self.assertIn("bits: 16", changes.pop())
        self.assertNotIn("fp8", self.infer(dump)["nearest"])

    def test_a_part_of_a_dump_invents_nothing(self):
        """A tensor that is stored and not shown is no fusion."""
        self.device("right2", "trt-int8")
        info, arrays = plants.read(self.work / "right2")
        for seed in range(3):
            keep = np.random.RandomState(seed).rand(len(info["arrays"])) < 0.6
            part = {**info, "arrays": [a for a, k in zip(info["arrays"], keep) if k]}
            plants.write(self.work / f"part{seed}", part, arrays)
            r = self.infer(self.work / f"part{seed}", "--from", "trt-int8")
            self.assertEqual(self.keys(r), set(), seed)

    def test_results_are_those_of_all_samples(self):
        """One array repeats its last sample."""
        info, arrays = plants.read(self.device("stale", "trt-int8"))
        arrays["relu3_out"][5] = arrays["relu3_out"][4]
        plants.write(self.work / "stale6", info, arrays)
        r = self.infer(self.work / "stale6", "--from", "trt-int8")
        part, of = map(int, r["results_explained"].split(" of "))
        self.assertLess(part, of)
        self.assertLess(r["elements"], 1)

    # --- dumps that do not fit ---
    def refused(self, dump, words, *more, model=MODEL):
        done = subprocess.run([QG, "infer-backend", str(model), "-d", str(self.data), "--against",
                               str(dump), *more], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_wrong_dumps(self):
        dump = self.device("wrong", "trt-int8")
        def changed(name, array, change):
            info, arrays = plants.read(dump)
            change(info, arrays) if array is None else \
                arrays.update({array: change(arrays[array])})
            plants.write(self.work / name, info, arrays)
            return self.work / name
        self.refused(changed("shape", "relu1_out", lambda x: x[..., :-1]),
                     ["array 'relu1_out'", "then the dims of"])
        self.refused(changed("nan", "relu1_out", lambda x: np.full(x.shape, np.nan, np.float32)),
                     ["array 'relu1_out'", "element 0 of sample 0 is nan"])
        self.refused(changed("short", "relu1_out", lambda x: x[:3]), ["3 samples", "expected 6"])
        def rename(info, arrays):
            info["arrays"] = [{**info["arrays"][0], "value": "x", "endpoint": None}]
            arrays["x"] = np.zeros((6, 7), np.int8)
        self.refused(changed("names", None, rename), ["no array is a value of the network"])
        self.refused(self.work / "gone.npz", ["gone.npz"])
        own = self.work / "trt-int8.yaml"
        self.refused(dump, ["has the name of 'trt-int8'"], "--from", "trt-int8", "-o", own)
        self.assertFalse(own.exists())
        self.refused(dump, ["backend 'trt'", "unknown backend 'trt'"], "--from", "trt")
        self.refused(self.work / "gone.npz", ["backend: unknown backend 'tflte', did you mean "
                                              "'tflite-int8'"], "--from", "tflte")
        self.refused(dump, ["infer-backend", "not quantized"], model=self.work / "wrong.device")


if __name__ == "__main__":
    unittest.main()
