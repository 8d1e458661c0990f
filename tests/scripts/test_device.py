#!/usr/bin/env python3
"""qg trace, diverge, fit and probe: planted faults (plants.py has the others of the 200),
real runtimes, ties, other forms and orders of a trace, dumps that do not fit."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import plants  # noqa: E402

QG = os.environ.get("QG", "build/qg")
MODEL, CALIB = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
KWS = "tests/data/tflite/kws_int8.tflite"
# of the others: a Concat that clamps what it requantizes, few elements, one element
PLANTS = (*range(20), 20065, 20117, 20355, 40192, 62145, 62158, 62187,
          63139, 63398)
# the grid of t6 between two nodes, of which 16 elements show four codes; the grid of t16,
# of which all four elements are the last code
UNDECIDED = {20410: ("fusion", "rounds between Conv_6 and Relu_7: stores t6", 16, "t6"),
             21055: ("grid", "its output grid is another", 4, "t16"),
             22119: ("grid", "its output grid is another", 24, "t5")}  # 8 are off the grid


def qg(*args):
    done = subprocess.run([QG, *map(str, args)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def report(*args, ok=(0, 1)):
    status, out, error = qg(*args, "--json")
    if status not in ok or not out:
        raise AssertionError(f"{args}: {status} {error}")
    return json.loads(out)


class Device(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.holder.name)
        cls.snapshot, cls.data = cls.work / "snapshot", cls.work / "x.npy"
        np.save(cls.data, np.load("configs/data/digits_test.npy")[:6])
        plants.qg("quantize", MODEL, "-b", "tflite-int8", "-d", CALIB, "-o", cls.snapshot)
        cls.own = cls.work / "own.npz"
        plants.trace(cls.snapshot, cls.data, cls.own)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def diverge(self, dump, *more):
        return report("diverge", self.snapshot, "-d", self.data, "--against", dump, *more)

    def fit(self, dump, *more):
        return report("fit", self.snapshot, "-d", self.data, "--against", dump, *more)

    def rewritten(self, name, change):
        """The own trace as a folder, after change(description, arrays)."""
        info, arrays = plants.read(self.own)
        change(info, arrays)
        folder = self.work / name
        plants.write(folder, info, arrays)
        return folder

    # --- traces ---
    def test_the_own_trace_is_equal_and_of_one_form(self):
        self.assertEqual(qg("diverge", self.snapshot, "-d", self.data, "--against",
                            self.own)[0], 0)
        info, arrays = plants.read(self.own)
        self.assertEqual([info["format"], info["samples"], info["mode"]],
                         ["quantgraph-trace", 6, "integer"])
        self.assertEqual({a["endpoint"] for a in info["arrays"] if a["value"] == "relu0_out"},
                         {"relu0.out0"})
        plants.qg("run", self.snapshot, "-d", self.data, "--mode", "integer", "--dump", "*",
                  "-o", self.work / "run")
        again, dumped = plants.read(self.work / "run" / "dump")
        self.assertEqual(info["arrays"], again["arrays"])
        for name, x in arrays.items():
            np.testing.assert_array_equal(x, dumped[name])
        self.assertEqual(self.diverge(self.work / "run" / "dump")["differing"], 0)

    def test_trace_in_simulate_and_of_some_values(self):
        out = self.work / "some.npz"
        plants.trace(self.snapshot, self.data, out, "--mode", "simulate", "--select", "relu*")
        info, arrays = plants.read(out)
        self.assertEqual(set(arrays), {f"relu{k}_out" for k in range(7)})
        for a in info["arrays"]:
            codes = arrays[a["value"]] / np.float32(a["grid"]["scale"])
            np.testing.assert_allclose(codes, np.round(codes), atol=1e-3)
        r = self.diverge(out)
        self.assertEqual(r["values"], 7)

    def test_other_names_orders_and_forms(self):
        def change(info, arrays):
            for k, a in enumerate(info["arrays"]):
                x = arrays.pop(a["value"])[:, 0]
                if k % 3 == 0:
                    a["value"] = f"tensor_{k}"  # paired by its endpoint, or by its values
                    if k == 0 or k == 6:
                        a["endpoint"] = None
                if x.ndim == 4 and k % 2:
                    x = x.transpose(0, 2, 3, 1)
                    a["layout"] = "nhwc"
                elif x.ndim == 4:
                    x = x.transpose(0, 3, 1, 2)
                    a["permutation"] = [2, 0, 1]
                arrays[a["value"]] = x
        r = self.diverge(self.rewritten("orders", change))
        self.assertEqual((r["values"], r["differing"]), (14, 0))
        how = {p["array"]: p["how"] for p in r["pairs"]}
        self.assertEqual(how["tensor_0"], "correlation")
        self.assertEqual(how["tensor_3"], "endpoint")
        self.assertEqual(how["tensor_6"], "correlation")
        self.assertTrue(all(p["confidence"] > 0.999 for p in r["pairs"]))

    def test_floats_and_raw_files(self):
        info, arrays = plants.read(self.own)
        folder = self.work / "raw"
        folder.mkdir()
        for k, a in enumerate(info["arrays"]):
            grid, x = a["grid"], arrays[a["value"]]
            if k % 2:
                x = ((x.astype(np.float32) - grid["zero"]) * np.float32(grid["scale"]))
                a["grid"] = None
            a["file"] = f"{k}.bin"
            a["type"], a["shape"] = str(x.dtype), list(x.shape)
            (folder / a["file"]).write_bytes(x.tobytes())
        (folder / "trace.json").write_text(json.dumps(info))
        r = self.diverge(folder)
        self.assertEqual((r["values"], r["differing"], "off_the_grid" in r), (14, 0, False))

    def test_missing_values_are_computed(self):
        def change(info, arrays):
            info["arrays"] = [a for a in info["arrays"]
                              if a["value"] in ("relu0_out", "concat0_out", "logits")]
        r = self.diverge(self.rewritten("few", change))
        self.assertEqual((r["values"], r["differing"]), (3, 0))

    def test_one_wrong_element(self):
        def change(info, arrays):
            arrays["relu3_out"][4].flat[17] += 3
        r = self.diverge(self.rewritten("one", change), "--end-to-end")
        self.assertEqual([n["value"] for n in r["nodes"]][0], "relu3_out")
        e = r["elements"][0]
        self.assertEqual((e["sample"], e["element"], e["theirs"] - e["ours"]), (4, 17, 3))

    def test_end_to_end_follows_a_difference(self):
        dump = self.work / "far.npz"
        plants.trace(self.snapshot, self.data, dump, "--profile", "tflite-xnnpack")
        near, far = self.diverge(dump), self.diverge(dump, "--end-to-end")
        self.assertEqual(near["first"], far["first"])
        self.assertGreater(far["differing"], near["differing"])
        self.assertNotIn("hypotheses", far)

    def test_diff_of_two_traces(self):
        def change(info, arrays):
            arrays["relu3_out"][1].flat[5] += 2
            info["arrays"] = [a for a in info["arrays"] if a["value"] != "logits"]
        other = self.rewritten("other", change)
        self.assertEqual(qg("diff", self.own, self.own)[0], 0)
        r = report("diff", self.own, other, ok=(3,))
        rows = {row["value"]: row for row in r["differences"]}
        self.assertEqual(set(rows), {"relu3_out", "logits"})
        self.assertEqual((rows["relu3_out"]["differ"], rows["relu3_out"]["most"]), (1, 2))
        self.assertEqual(rows["logits"]["what"], "only in the first")

    # --- whether the dump belongs to the samples, and its grids to the values ---
    def regridded(self, name, value, **keys):
        def change(info, _):
            for a in info["arrays"]:
                if value in ("*", a["value"]):
                    a["grid"].update(keys)
        return self.rewritten(name, change)

    def test_a_wrong_grid_is_blamed_on_its_value(self):
        for k, (value, node, keys) in enumerate((
                ("image", "image", {"scale": 0.02}), ("relu0_out", "relu0", {"scale": 0.02}),
                ("relu0_out", "relu0", {"zero": -100}), ("relu1_out", "relu1", {"zero": 200}), ("maxpool0_out", "maxpool0", {"zero": 3}),
                ("flatten0_out", "flatten0", {"scale": 0.01}),
                ("logits", "gemm1", {"scale": 0.3}))):
            dump = self.regridded(f"grid{k}", value, **keys)
            self.assertEqual(qg("diverge", self.snapshot, "-d", self.data, "--against", dump)[0],
                             1)
            r = self.diverge(dump)
            self.assertEqual((r["first"], r["differing"]), (node, 1))
            row, grid = r["nodes"][0], r["grids"][0]
            self.assertEqual((row["value"], row["differ"], len(r["grids"])), (value, 0, 1))
            self.assertIn("its codes are on that of the snapshot", row["verdict"])
            self.assertEqual(grid["value"], value)
            self.assertEqual({k: grid[k] for k in keys}, keys)
            self.assertEqual([h["cause"] for h in r["hypotheses"]], ["grid"])
            fit = self.fit(dump)
            self.assertIn("tflite-reference", fit.get("not_told_apart", fit["verdict"]))

    def test_wrong_grids_of_all_values_or_of_floats(self):
        r = self.diverge(self.regridded("zeros", "*", zero=0))
        self.assertEqual((r["differing"], {n["differ"] for n in r["nodes"]}), (14, {0}))

        def to_floats(info, arrays):
            for a in info["arrays"]:
                g = a["grid"]
                arrays[a["value"]] = ((arrays[a["value"]].astype(np.float32) - g["zero"]) *
                                      np.float32(g["scale"]))
                if a["value"] == "relu0_out":
                    g["scale"] = 0.02
        r = self.diverge(self.rewritten("floats", to_floats))
        self.assertEqual((r["differing"], r["nodes"][0]["value"]), (1, "relu0_out"))

    def test_grids_in_few_digits_are_those_of_the_snapshot(self):
        def change(info, _):
            for a in info["arrays"]:
                a["grid"]["scale"] = float(f"{a['grid']['scale']:.3g}")
        r = self.diverge(self.rewritten("digits", change))
        self.assertEqual((r["differing"], len(r["grids"])), (0, 14))

    def other_device(self):
        other, dump = self.work / "other_snapshot", self.work / "other_grids.npz"
        if not dump.exists():
            plants.qg("quantize", MODEL, "-b", "tflite-int8", "-d", self.data, "-o", other)
            plants.trace(other, self.data, dump)
        return dump

    def test_grids_of_the_device_are_used_where_its_codes_follow_them(self):
        r = self.diverge(self.other_device())
        self.assertIn("given by the dump", r["nodes"][0]["verdict"])
        self.assertTrue(all("on that of the dump" in g["verdict"] for g in r["grids"]))

    def test_unsigned_codes_on_own_grids(self):
        info, arrays = plants.read(self.other_device())
        for a in info["arrays"]:
            a["grid"]["zero"] += 128
            arrays[a["value"]] = (arrays[a["value"]].astype(np.int16) + 128).astype(np.uint8)
        plants.write(self.work / "unsigned", info, arrays)
        signed, r = self.diverge(self.other_device()), self.diverge(self.work / "unsigned")
        self.assertEqual([(n["value"], n["differ"]) for n in r["nodes"]],
                         [(n["value"], n["differ"]) for n in signed["nodes"]])
        self.assertIn("given by the dump", r["nodes"][0]["verdict"])

    def test_another_zero_point_alone(self):
        """On the scale of the snapshot, in a dump without grids."""
        device, dump = self.work / "shifted", self.work / "shifted.npz"
        shutil.copytree(self.snapshot, device)
        quant = json.loads((device / "quant.json").read_text())
        root = next(t for t in quant["tqcs"] if t["value"] == "relu5_out" and t["slot"] == "out0")
        own = root["offset"][0]
        for t in quant["tqcs"]:
            if t["dominator"] == root["dominator"]:
                t["offset"] = [own + 1]
        (device / "quant.json").write_text(json.dumps(quant))
        plants.trace(device, self.data, dump)
        info, arrays = plants.read(dump)
        info["arrays"] = [{**a, "grid": None} for a in info["arrays"]]
        plants.write(self.work / "shifted_bare", info, arrays)
        row = self.diverge(self.work / "shifted_bare")["nodes"][0]
        self.assertEqual(row["value"], "relu5_out")
        self.assertIn(f"its zero point is {own + 1} instead of {own}: fits", row["verdict"])

    def test_codes_without_grids_have_a_headline(self):
        info, arrays = plants.read(self.other_device())
        for a in info["arrays"]:
            a["grid"] = None
        plants.write(self.work / "gridless", info, arrays)
        self.assertIn("14 arrays of integers have no grid",
                      self.diverge(self.work / "gridless")["fault"])

    def test_dumps_of_other_samples_have_a_headline(self):
        def drop(info, _):
            info["arrays"] = [a for a in info["arrays"] if a["value"] != "image"]

        def reverse(_, arrays):
            for name in arrays:
                arrays[name] = arrays[name][::-1].copy()
        other = self.work / "other.npy"
        np.save(other, np.load("configs/data/digits_test.npy")[20:26])
        for dump, data in ((self.own, other), (self.rewritten("drop", drop), other),
                           (self.rewritten("reverse", reverse), self.data)):
            for verb in ("diverge", "fit"):
                r = report(verb, self.snapshot, "-d", data, "--against", dump)
                self.assertIn("does not come from these samples", r["fault"])
            r = report("diverge", self.snapshot, "-d", data, "--against", dump)
            self.assertEqual(r["differing"], 1)
            self.assertIn("no hypothesis explains it", r["nodes"][0]["verdict"])

    def test_other_samples_beside_inputs_in_float(self):
        """That real inputs lie on no grid explains no other samples."""
        def real(info, arrays):
            for a in info["arrays"]:
                if a["value"] == "image":
                    codes, grid = arrays["image"].astype("f"), a["grid"]
                    arrays["image"] = np.float32(grid["scale"]) * (codes - grid["zero"])
                    arrays["image"] += np.random.RandomState(2).uniform(
                        -0.4, 0.4, codes.shape).astype("f") * np.float32(grid["scale"])
                    a["grid"] = None
        other = self.work / "beside.npy"
        np.save(other, np.load("configs/data/digits_test.npy")[20:26])
        dump = self.rewritten("real", real)
        for data, fault in ((other, "does not come from these samples"), (self.data, "")):
            r = report("diverge", self.snapshot, "-d", data, "--against", dump)
            said = r.get("fault", "")
            self.assertIn(fault, said)
            self.assertEqual(bool(said), bool(fault), said)

    def test_inputs_of_integers_are_compared(self):
        x = np.random.RandomState(5).randint(-128, 128, (2, 49, 10, 1)).astype(np.int8)
        data, other, dump = (self.work / n for n in ("kws_a.npy", "kws_b.npy", "kws_a.npz"))
        np.save(data, x)
        x[1, 3, 3] ^= 1
        np.save(other, x)
        plants.trace(KWS, data, dump)
        info, arrays = plants.read(dump)
        info["arrays"].append({"value": "input_1", "file": "input_1.npy"})
        plants.write(self.work / "kws_in", info, arrays | {"input_1": np.load(data)})
        dump = self.work / "kws_in"
        self.assertEqual(report("diverge", KWS, "-d", data, "--against", dump)["differing"], 0)
        r = report("diverge", KWS, "-d", other, "--against", dump)
        self.assertIn("does not come from these samples", r["fault"])
        self.assertEqual((r["differing"], r["inputs"][0]["differ"]), (1, 1))
        self.assertEqual(r["first"], r["inputs"][0]["value"])

    def test_another_layout_has_a_headline(self):
        def transpose(_, arrays):
            for name, x in arrays.items():
                if x.ndim == 5:
                    y = x.transpose(0, 1, 3, 4, 2)
                    arrays[name] = np.ascontiguousarray(y).reshape(x.shape)
        r = self.diverge(self.rewritten("layout", transpose))
        self.assertIn("check layout", r["fault"])
        self.assertIn("check layout", r["nodes"][0]["verdict"])

    def cube(self, layout):
        """Channels, height and width are 4: only the elements tell channels-last apart."""
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper
        rng, shape = np.random.RandomState(5), helper.make_tensor_value_info
        model, data, snap, dump = (self.work / f"cube{n}" for n in (".onnx", ".npy", "",
                                                                    ".npz"))
        onnx.save(helper.make_model(helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], "relu"),
             helper.make_node("Conv", ["r", "v"], ["y"], "last", pads=[1, 1, 1, 1])], "cube",
            [shape("x", onnx.TensorProto.FLOAT, [1, 2, 4, 4])],
            [shape("y", onnx.TensorProto.FLOAT, [1, 4, 4, 4])],
            [onnx.numpy_helper.from_array(rng.randn(4, n, 3, 3).astype(np.float32), w)
             for w, n in (("w", 2), ("v", 4))]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        np.save(data, rng.randn(5, 1, 2, 4, 4).astype(np.float32))
        plants.qg("quantize", model, "-b", "tflite-int8", "-d", data, "-o", snap)
        plants.trace(snap, data, dump)
        info, arrays = plants.read(dump)
        for a in info["arrays"]:
            a.pop("layout")
            a.update(layout)
            if a["value"] in "ry":
                arrays[a["value"]] = arrays[a["value"]].transpose(0, 1, 3, 4, 2).copy()
        out = self.work / f"cube-{layout.get('layout')}"
        plants.write(out, info, arrays)
        r = report("diverge", snap, "-d", data, "--against", out)
        return r["values"], r["differing"], model, data, out

    def test_channels_last_is_found_where_channels_height_and_width_are_equal(self):
        values, differing, model, data, out = self.cube({})
        self.assertEqual((values, differing), (3, 0))
        r = report("infer-backend", model, "-d", data, "--against", out, "--from",
                   "tflite-int8", "-o", self.work / "cube.yaml")
        self.assertGreater(r["elements"], 0.99)
        values, differing, *_ = self.cube({"layout": "model"})
        self.assertEqual((values, differing), (3, 2))

    # --- hypotheses ---
    def test_only_the_limits_that_are_seen(self):
        for value in ("image", "relu0_out", "maxpool0_out", "concat0_out", "flatten0_out",
                      "averagepool0_out"):
            for low, high, text in ((-128, -60, "clamps above at code -60"),
                                    (-100, 127, "clamps below at code -100"),
                                    (-100, -60, "clamps to the codes -100 to -60")):
                def clip(_, arrays, value=value, low=low, high=high):
                    arrays[value] = arrays[value].clip(low, high)
                r = self.diverge(self.rewritten(f"clip_{value}_{low}_{high}", clip))
                self.assertEqual(r["nodes"][0]["value"], value)
                self.assertIn(text + ": fits", r["nodes"][0]["verdict"])

    def test_planted_faults(self):
        outcomes = {}
        for seed in PLANTS:
            with tempfile.TemporaryDirectory() as folder:
                kind, outcome, text = plants.judge(seed, folder)
            outcomes[seed] = (outcome, kind, text)
        wrong = {s: o for s, o in outcomes.items() if o[0] != "right"}
        self.assertEqual(wrong, {})

    def test_a_hidden_grid_of_too_few_elements_is_undecided(self):
        for seed, (cause, verdict, elements, value) in UNDECIDED.items():
            with tempfile.TemporaryDirectory() as folder:
                r = plants.diverge(plants.make(seed, folder), "--top", "1")
            last = r["hypotheses"][-1]
            self.assertEqual((last["cause"], last["verdict"]), (cause, verdict))
            self.assertEqual(last["detail"], f"undecided: {elements} elements do not show the "
                                             f"grid of {value}")
            self.assertNotIn(verdict, r["nodes"][0]["verdict"])

    # --- fit and probe ---
    def test_fit_never_names_one_of_equals(self):
        dump = self.work / "equals.npz"
        plants.trace(self.snapshot, self.data, dump, "--profile", "tflite-xnnpack")
        r = self.fit(dump)
        equals = r["not_told_apart"].split(", ")
        self.assertEqual(r["verdict"], "not told apart")
        self.assertIn("tflite-xnnpack", equals)
        whole = [p["profile"] for p in r["profiles"] if p["values"] == p["of"]]
        self.assertEqual(sorted(equals), sorted(whole))
        row = next(o for o in r["operators"] if o["operator"] == "MaxPool")
        self.assertEqual(row["verdict"], "not told apart")
        self.assertIn("onnxruntime-x86-vnni", row["profiles"])
        page = qg("fit", self.snapshot, "-d", self.data, "--against", dump)[1]
        self.assertRegex(page, r"MaxPool .* cmsis-nn, \S+, \S+ and \d+ more\n")
        conv = next(o for o in r["operators"] if o["operator"] == "Conv")
        self.assertRegex(conv["verdict"], r"^\d+ others ruled out$")

    def test_a_value_inside_of_a_kernel_that_is_wrong_itself_explains_nothing(self):
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import numpy_helper  # pylint: disable=import-outside-toplevel
        device, dump = self.work / "flipped", self.work / "flipped.npz"
        shutil.copytree(self.snapshot, device)
        model = onnx.load(device / "model.onnx")
        conv = [n for n in model.graph.node if n.op_type == "Conv"][1]
        weight = next(i for i in model.graph.initializer if i.name == conv.input[1])
        weight.CopyFrom(numpy_helper.from_array(
            numpy_helper.to_array(weight)[:, :, ::-1, ::-1].copy(), weight.name))
        onnx.save(model, device / "model.onnx")
        quant = json.loads((device / "quant.json").read_text())
        quant["manifest"]["model"]["written_sha256"] = hashlib.sha256(
            (device / "model.onnx").read_bytes()).hexdigest()
        (device / "quant.json").write_text(json.dumps(quant))
        plants.trace(device, self.data, dump, "--mode", "simulate")
        inner, act = conv.output[0], next(n for n in model.graph.node
                                          if conv.output[0] in n.input)
        r = report("diverge", self.snapshot, "-d", self.data, "--against", dump, "--top", "9")
        why = {row["value"]: row["why"] for row in r["not_compared"]}
        self.assertIn("not what its node computes", why[inner])
        self.assertEqual({v for v, text in why.items() if "not what" in text}, {inner})
        node = next(n for n in r["nodes"] if n["value"] == act.output[0])
        self.assertIn("check weights, bias, operator", node["verdict"])
        self.assertFalse([h for h in r["hypotheses"] if h["node"] == act.name and
                          h["fits"] == h["of"]])
        self.assertEqual(self.fit(dump)["verdict"], "no profile explains all values")

    def test_probe_takes_backends_for_their_profiles(self):
        out = self.work / "between.npy"
        told = [report("probe", self.snapshot, "--between", words, "-n", "2", "-o",
                       out)["told_apart"]
                for words in ("tflite-int8,ort-int8", "tflite-reference,onnxruntime-x86-vnni")]
        self.assertEqual(told[0], told[1])
        for words, text in (("tflite-int8,trt-fp8", "backend trt-fp8 has no profile"),
                            ("tflite-int8,trt-inf8", "unknown profile 'trt-inf8'")):
            code, _, err = qg("probe", self.snapshot, "--between", words, "-o", out)
            self.assertEqual(code, 1)
            self.assertIn(text, err)

    def test_fit_prefers_the_profile_of_the_snapshot(self):
        path, dump = self.work / "average.yaml", self.work / "average.npz"
        path.write_text("name: average\ntitle: planted\nextends: tflite-reference\nkernels:\n"
                        "  - id: pool\n    use: average-pool\n    form: float-rows\n"
                        "    rounding: half-even\n    why: planted\n    source: this test\n")
        plants.trace(self.snapshot, self.data, dump, "--profile", path)
        r = self.fit(dump)
        self.assertEqual(r["nearest"], "tflite-reference")
        self.assertIn("cmsis-nn", r["as_near"].split(", "))
        r = self.fit(dump, "--profile", "cmsis-nn")
        self.assertEqual(r["nearest"], "cmsis-nn")
        self.assertIn("tflite-reference", r["as_near"].split(", "))

    def test_fit_takes_rows_that_have_an_effect(self):
        """What is printed and written is what a trial of the file gives."""
        for other in ("onnxruntime-x86-vnni", "openvino-vnni", "tensorrt", "ncnn-x86"):
            dump, mine = self.work / f"{other}.npz", self.work / f"{other}.fit.yaml"
            plants.trace(self.snapshot, self.data, dump, "--profile", other)
            info, arrays = plants.read(dump)
            ours = plants.read(self.own)[1]
            for k, a in enumerate(info["arrays"]):  # no profile explains the mixture
                if k % 2 and a["value"] in ours:
                    arrays[a["value"]] = ours[a["value"]]
            plants.write(self.work / f"{other}.mixed", info, arrays)
            r = self.fit(self.work / f"{other}.mixed", "-o", mine)
            again = report("diverge", self.snapshot, "-d", self.data, "--against",
                           self.work / f"{other}.mixed", "--profile", mine)
            self.assertNotIn("fault", r, other)
            n = int(r["composed_explains"].split()[0])
            self.assertEqual(n, again["values"] - again["differing"], other)
            best = max(p["values"] for p in r["profiles"])
            self.assertEqual(n >= best + r["rows_taken"], True, other)
            for row in r.get("rows", []):
                self.assertGreater(row["explains"], 0)
                self.assertIn(f"explains {row['explains']} of the {row['values']} values",
                              mine.read_text())
            self.assertIn(f"explains {n} of {r['values']} values", mine.read_text())

    def test_probe_says_what_it_proves(self):
        copy = self.work / "copy.yaml"
        copy.write_text("name: copy\ntitle: the same\nextends: tflite-reference\n")
        out = self.work / "p.npy"
        r = report("probe", self.snapshot, "--between", f"tflite-reference,{copy}", "-n", 1,
                   "-o", out)
        self.assertEqual((r["told_apart"], r["verdict"].split(":")[0]),
                         (0, "the same arithmetic on this network"))
        r = report("probe", self.snapshot, "--between", "tflite-micro-single,tflite-xnnpack-arm",
                   "-n", 1, "-o", out)
        self.assertEqual(r["told_apart"], 0)
        self.assertIn("proves nothing", r["verdict"])
        for twice in ("tflite-reference,tflite-reference",
                      "tflite-reference,configs/profiles/tflite-reference.yaml"):
            status, _, error = qg("probe", self.snapshot, "--between", twice, "-o", out)
            self.assertEqual(status, 1)
            self.assertIn("expected two", error)

    def test_probe_tells_two_profiles_apart(self):
        pair, out = "tflite-reference,tflite-micro-single", self.work / "probe.npy"
        def probe(name):
            return report("probe", self.snapshot, "--between", pair, "-n", 2, "-o", name)
        r = probe(out)
        self.assertGreaterEqual(r["told_apart"], 5)
        first = out.read_bytes()
        probe(out)
        self.assertEqual(out.read_bytes(), first)
        dump = self.work / "probed.npz"
        plants.trace(self.snapshot, out, dump, "--profile", "tflite-micro-single")
        fit = report("fit", self.snapshot, "-d", out, "--against", dump)
        names = fit.get("not_told_apart", fit["verdict"])
        self.assertIn("tflite-micro-single", names)
        self.assertNotIn("tflite-reference", names)

    def test_probe_of_several_inputs(self):
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import TensorProto, helper, numpy_helper
        w = numpy_helper.from_array(np.random.RandomState(1).randn(8, 3, 3, 3).astype(
            np.float32), "w")
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("Conv", ["left", "w"], ["a"], "conv0"),
             helper.make_node("Conv", ["right", "w"], ["b"], "conv1"),
             helper.make_node("Add", ["a", "b"], ["y"], "sum")], "two",
            [value(n, TensorProto.FLOAT, [1, 3, 8, 8]) for n in ("left", "right")],
            [value("y", TensorProto.FLOAT, [1, 8, 6, 6])], [w])
        model, data, snap, out = (self.work / n for n in ("two.onnx", "two.npz", "two",
                                                          "probed2.npz"))
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                    ir_version=8), model)
        x = np.random.RandomState(2).randn(4, 1, 3, 8, 8).astype(np.float32)
        np.savez(data, left=x, right=-x)
        plants.qg("quantize", model, "-b", "tflite-int8", "-d", data, "-o", snap)
        pair = "tflite-reference,tflite-micro-single"
        status, _, error = qg("probe", snap, "--between", pair, "-o", self.work / "p.npy")
        self.assertEqual(status, 1)
        self.assertIn("ends in .npz", error)
        r = report("probe", snap, "--between", pair, "-n", 2, "-o", out)
        self.assertGreaterEqual(r["told_apart"], 2)
        with np.load(out) as z:
            self.assertEqual({k: z[k].shape for k in z.files},
                             {"left": (2, 1, 3, 8, 8), "right": (2, 1, 3, 8, 8)})
        dump = self.work / "two_dump.npz"
        plants.trace(snap, out, dump, "--profile", "tflite-micro-single")
        fit = report("fit", snap, "-d", out, "--against", dump)
        names = fit.get("not_told_apart", fit["verdict"]).split(", ")
        self.assertIn("tflite-micro-single", names)
        self.assertNotIn("tflite-reference", names)

    def test_ties_of_all_samples(self):
        one, all_six = (sum(o["ties"] for o in self.fit(self.own, "-n", n)["operators"])
                        for n in (1, 6))
        last = self.work / "last.npy"
        np.save(last, np.load(self.data)[1:])
        dump = self.work / "last.npz"
        plants.trace(self.snapshot, last, dump)
        rest = report("fit", self.snapshot, "-d", last, "--against", dump)
        self.assertEqual(all_six, one + sum(o["ties"] for o in rest["operators"]))
        self.assertGreater(all_six, one)

    def test_no_single_profile_without_ties(self):
        """Of a trace in simulate, too: whatever explains all is named."""
        for dump in (self.own, self.work / "simulated.npz"):
            if dump != self.own:
                plants.trace(self.snapshot, self.data, dump, "--mode", "simulate")
            r = self.fit(dump)
            whole = [p["profile"] for p in r["profiles"] if p["values"] == p["of"]]
            named = r.get("not_told_apart", r["verdict"]).split(", ")
            self.assertEqual(sorted(named), sorted(whole or [r["verdict"]]))

    # --- real runtimes ---
    def run_script(self, name, *args):
        done = subprocess.run([sys.executable, f"tools/dump/{name}.py", *map(str, args)],
                              capture_output=True, text=True)
        if "No module named" in done.stderr:
            self.skipTest(f"{name} is not installed")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_litert(self):
        x = np.random.RandomState(5).randint(-128, 128, (4, 49, 10, 1)).astype(np.int8)
        data = self.work / "kws.npy"
        np.save(data, x)
        for option, profile, others in (
                ("", "tflite-reference", ["tflite-xnnpack"]),
                ("--builtin", "tflite-builtin-x86", ["tflite-xnnpack"]),
                ("--delegate", "tflite-xnnpack", ["tflite-reference", "tflite-builtin-x86"])):
            dump = self.work / f"kws{option}.npz"
            self.run_script("litert", KWS, data, dump, *[option][:bool(option)])
            r = report("diverge", KWS, "-d", data, "--against", dump, "--profile", profile)
            self.assertEqual((r["values"], r["differing"]), (13, 0), option)
            fit = report("fit", KWS, "-d", data, "--against", dump)
            names = fit.get("not_told_apart", fit["verdict"]).split(", ")
            self.assertIn(profile, names)
            for other in others:
                self.assertNotIn(other, names)

    def test_onnxruntime_and_openvino(self):
        for name, backend, form, file in (
                ("onnxruntime", "ort-int8", "onnx-qdq", "ort.onnx"),
                ("openvino", "openvino-int8", "openvino-ir", "ov.xml")):
            made, model = self.work / backend, self.work / file
            plants.qg("quantize", MODEL, "-b", backend, "-d", CALIB, "-o", made)
            plants.qg("export", made, "--format", form, "-o", model)
            dump = self.work / f"{name}.npz"
            more = []
            if name == "onnxruntime":  # the file that its optimizer writes
                made = self.work / "optimized.onnx"
                more = ["--profile", "onnxruntime-x86-vnni"]
            self.run_script(name, model, self.data, dump, *[made][:bool(more)])
            r = report("diverge", made, "-d", self.data, "--against", dump, *more)
            self.assertGreater(r["values"], 10, name)
            self.assertEqual(r["differing"], 0, [n["value"] for n in r.get("nodes", [])])
            own = more[1] if more else "openvino-vnni"
            named = self.named(made, self.data, dump, *more)
            self.assertIn(own, named)
            if not more:
                continue
            other = "onnxruntime-x86-avx2"  # fits as well, and saturates pairs of products
            self.assertIn(other, named)
            x = self.work / f"{name}.probe.npy"
            r = report("probe", made, "--between", f"{own},{other}", "-n", 4, "-o", x)
            self.assertGreater(r["told_apart"], 0)
            again = self.work / f"{name}.probe.npz"
            self.run_script(name, model, x, again, made)
            r = report("fit", made, "-d", x, "--against", again, *more)
            values = {p["profile"]: p["values"] for p in r["profiles"]}
            self.assertNotEqual(values[own], values[other])

    def named(self, model, data, dump, *more):
        r = report("fit", model, "-d", data, "--against", dump, *more)
        return r.get("not_told_apart", r["verdict"]).split(", ")

    def test_probe_tells_real_kernels_apart(self):
        """Samples that tell two kernels of LiteRT apart do so for LiteRT itself."""
        x, pair = self.work / "kws.probe.npy", ("tflite-reference", "tflite-xnnpack")
        r = report("probe", KWS, "--between", ",".join(pair), "-n", 2, "-o", x)
        self.assertGreater(r["told_apart"], 5)
        for option, own, other in (("", *pair), ("--delegate", *pair[::-1])):
            dump = self.work / f"probe{option}.npz"
            self.run_script("litert", KWS, x, dump, *[option][:bool(option)])
            named = self.named(KWS, x, dump)
            self.assertIn(own, named)
            self.assertNotIn(other, named)

    # --- dumps that do not fit ---
    def refused(self, dump, *words):
        for verb, expected in (("diverge", 4), ("fit", 1)):
            status, _, error = qg(verb, self.snapshot, "-d", self.data, "--against", dump)
            self.assertEqual(status, expected, error)
            for word in words:
                self.assertIn(word, error)

    def changed(self, name, **keys):
        folder = self.rewritten(name, lambda info, arrays: None)
        info = json.loads((folder / "trace.json").read_text())
        info["arrays"][2].update(keys)
        (folder / "trace.json").write_text(json.dumps(info))
        return folder

    def test_wrong_descriptions(self):
        for name, keys, words in (
                ("file", {"file": "../x.npy"}, ["array 'relu1_out'", "../x.npy"]),
                ("gone", {"file": "gone.npy"}, ["gone.npy"]),
                ("layout", {"layout": "hwc"}, ["arrays[2]", "layout is 'hwc'"]),
                ("nhwc", {"layout": "nhwc"}, ["array 'relu1_out'", "in its layout nhwc"]),
                ("order", {"permutation": [0, 1]}, ["array 'relu1_out'", "its permutation"]),
                ("key", {"layuot": "nhwc"}, ["arrays[2].layuot", "did you mean 'layout'"]),
                ("axes", {"permutation": [0, 0, 1]}, ["arrays[2].permutation"]),
                ("scale", {"grid": {"scale": -1, "zero": 0}}, ["arrays[2].grid", "scale is -1"]),
                ("zero", {"grid": {"scale": 1, "zero": 0.5}}, ["arrays[2].grid"]),
                ("twice", {"value": "relu0_out"}, ["array 'relu0_out'", "twice"])):
            self.refused(self.changed(f"bad_{name}", **keys), *words)

    def test_wrong_arrays(self):
        def with_array(name, array, words):
            def change(_, arrays):
                arrays["relu1_out"] = array(arrays["relu1_out"])
            self.refused(self.rewritten(f"bad_{name}", change), *words)
        with_array("shape", lambda x: x[..., :-1], ["array 'relu1_out'", "then the dims"])
        with_array("nan", lambda x: np.full(x.shape, np.nan, np.float32),
                   ["array 'relu1_out'", "element 0 of sample 0"])
        with_array("infinite", lambda x: np.where(np.arange(x.size).reshape(x.shape) == 7,
                                                  np.inf, x).astype(np.float32),
                   ["array 'relu1_out'", "element 7 of sample 0 is inf"])
        with_array("few", lambda x: x[:3], ["array 'relu1_out'", "3 samples", "expected 6"])
        with_array("type", lambda x: x.astype(np.int32) + 1000, ["relu1_out", "int8"])
        with_array("empty", lambda x: x[:0], ["array 'relu1_out'", "no samples"])

    def test_inputs_alone_are_no_trace(self):
        alone = self.work / "alone.npz"
        np.savez(alone, image=np.load(self.data)[:6])
        self.refused(alone, "alone.npz", "inputs of the network", "values that the device")
        status, _, error = qg("infer-backend", MODEL, "-d", self.data, "--against", alone)
        self.assertEqual(status, 1)
        self.assertIn("inputs of the network", error)

    def test_own_keys_of_a_producer_are_ignored(self):
        self.assertEqual(self.diverge(self.changed("own_key", board="rev 3"))["differing"], 0)

    def test_open_dims_are_those_of_the_samples(self):
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper
        shape = helper.make_tensor_value_info
        model, data, snap, dump = (self.work / n for n in ("open.onnx", "open.npy", "open",
                                                           "open.npz"))
        onnx.save(helper.make_model(helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["m"], "matmul"),
             helper.make_node("Relu", ["m"], ["y"], "relu")], "open",
            [shape("x", onnx.TensorProto.FLOAT, [1, "length", 6])],
            [shape("y", onnx.TensorProto.FLOAT, [1, "length", 4])],
            [onnx.numpy_helper.from_array(np.random.RandomState(3).randn(6, 4).astype(
                np.float32), "w")]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        np.save(data, np.random.RandomState(4).randn(3, 1, 5, 6).astype(np.float32))
        plants.qg("quantize", model, "-b", "tflite-int8", "-d", data, "-o", snap)
        plants.trace(snap, data, dump)
        for more in (), ("--shape", "x=1x5x6"):
            r = report("diverge", snap, "-d", data, "--against", dump, *more)
            self.assertEqual((r["values"], r["differing"]), (2, 0))
        r = report("fit", snap, "-d", data, "--against", dump)
        self.assertEqual(r["values"], 2)

    def test_long_names_are_whole(self):
        """1,002 bytes, of which the first 1,000 end within a character."""
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper
        shape, long = helper.make_tensor_value_info, "\u65e5" * 334
        model, snap, dump = (self.work / n for n in ("long.onnx", "long", "long_trace"))
        onnx.save(helper.make_model(helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], [long], long),
             helper.make_node("Sigmoid", [long], ["y"], "sigmoid")], "long",
            [shape("x", onnx.TensorProto.FLOAT, [1, 6])],
            [shape("y", onnx.TensorProto.FLOAT, [1, 4])],
            [onnx.numpy_helper.from_array(np.random.RandomState(3).randn(6, 4).astype(
                np.float32), "w")]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        plants.qg("quantize", model, "-b", "tflite-int8", "-d", "random:3", "-o", snap)
        plants.trace(snap, "random:3", dump)
        info = json.loads((dump / "trace.json").read_text())
        self.assertIn(f"{long}.out0", {a["endpoint"] for a in info["arrays"]})
        self.assertEqual(report("diverge", snap, "-d", "random:3", "--against", dump)["differing"],
                         0)

    # --- arrays that no step computes, endpoints of passes ---
    def test_arrays_inside_of_a_kernel_are_listed(self):
        other, dump = self.work / "unfused_snapshot", self.work / "unfused.npz"
        text = "name: unfused\nextends: tflite-int8\n-fusions: [compute-activation]\n"
        (self.work / "unfused.yaml").write_text(text)
        plants.qg("quantize", MODEL, "-b", self.work / "unfused.yaml", "-d", CALIB, "-o", other)
        plants.trace(other, self.data, dump)
        r = self.diverge(dump)
        self.assertIn("batchnormalization0_out", {u["value"] for u in r["not_compared"]})
        self.assertTrue(all("inside of a kernel" in u["why"] for u in r["not_compared"]))
        self.assertEqual(self.fit(dump)["not_compared"], r["not_compared"])
        self.assertNotIn("not_compared", self.diverge(self.own))

    def test_an_endpoint_of_another_value(self):
        """Passes can give an endpoint of the model to another value: the elements decide."""
        def change(info, arrays):
            a = next(a for a in info["arrays"] if a["value"] == "relu3_out")
            arrays["tensor"] = arrays.pop("relu3_out")
            a.update(value="tensor", endpoint="relu4.out0")  # of the same dims
            info["arrays"] = [b for b in info["arrays"] if b["value"] != "relu4_out"]
        r = self.diverge(self.rewritten("endpoint", change))
        self.assertEqual({p["array"]: (p["value"], p["how"]) for p in r["pairs"]},
                         {"tensor": ("relu3_out", "correlation")})
        self.assertEqual(r["differing"], 0)

    def test_probe_counts_what_diverge_finds(self):
        """The first profile is the device, the second one is compared with it."""
        for pair in (("tflite-micro-single", "tflite-builtin-x86"),
                     ("tflite-builtin-x86", "tflite-micro-single")):
            x, dump = self.work / "pair.npy", self.work / f"{pair[0]}.pair.npz"
            r = report("probe", self.snapshot, "--between", ",".join(pair), "-n", 2, "-o", x)
            plants.trace(self.snapshot, x, dump, "--profile", pair[0])
            d = report("diverge", self.snapshot, "-d", x, "--against", dump, "--profile", pair[1])
            self.assertEqual(r["told_apart"], d["differing"])

    def test_wrong_files(self):
        cases = self.work / "cases"
        cases.mkdir()
        (cases / "text.npz").write_text("no archive")
        (cases / "cut.npz").write_bytes(self.own.read_bytes()[:5000])
        with zipfile.ZipFile(cases / "other.npz", "w") as z:
            z.writestr("trace.json", '{"format": "other", "version": 1, "arrays": []}')
        with zipfile.ZipFile(cases / "none.npz", "w") as z:
            z.writestr("trace.json",
                       '{"format": "quantgraph-trace", "version": 1, "arrays": []}')
        (cases / "empty").mkdir()
        for name, word in (("text.npz", "text.npz"), ("cut.npz", "cut.npz"),
                           ("other.npz", "expected quantgraph-trace"), ("none.npz", "no array"),
                           ("empty", "no array"), ("missing.npz", "missing.npz")):
            self.refused(cases / name, word)
        (cases / "empty" / "a.bin").write_bytes(b"123")
        with zipfile.ZipFile(cases / "raw.npz", "w") as z:
            z.writestr("a.bin", "123")
        for name in "empty", "raw.npz":
            self.refused(cases / name, "a.bin without trace.json")
        raw = self.work / "short"
        raw.mkdir()
        (raw / "a.bin").write_bytes(b"123")
        (raw / "trace.json").write_text(json.dumps({
            "format": "quantgraph-trace", "version": 1, "arrays": [
                {"value": "relu0_out", "file": "a.bin", "type": "int8",
                 "shape": [1 << 40, 1 << 40]}]}))
        self.refused(raw, "relu0_out")

    def test_wrong_words(self):
        folder = self.work / "none"
        base = (self.snapshot, "-d", self.data)
        for args, status, word in (
                (("trace", *base, "-o", folder / "x.npz"), 1, f"{folder}/x.npz: No such file"),
                (("trace", *base, "-o", self.work / "x.npz", "--select", "no*"), 1,
                 "'no*': matches no value"),
                (("diverge", *base, "-n", "-3", "--against", self.own), 2,
                 "'-3', expected a whole number"),
                (("diff", self.own, "none"), 1, "none: No such file"),
                (("diff", "none", self.own), 1, "none: No such file"),
                (("diff", self.own, "none.npy"), 1, "none.npy: No such file"),
                (("diff", self.own, self.data), 1,
                 f"{self.data}: one array without a name, expected a trace"),
                (("diverge", MODEL, "-d", self.data, "--against", self.own), 4,
                 f"expected a snapshot of qg quantize or a file with quantizers, got {MODEL}"),
                (("probe", self.snapshot, "--between", "tflite-reference,tflite-micro", "-o",
                  "x.txt"), 1, "write x.txt: samples of 1 input, expected a name that ends in .npy"),
                (("diff", self.own, self.snapshot), 1, f"{self.snapshot}: no array, expected a trace")):
            got, _, error = qg(*args)
            self.assertEqual(got, status, args)
            self.assertIn(word, error)
        self.assertFalse(folder.exists())

    def test_names_cannot_move_the_cursor(self):
        evil = "a\u202eb\x1b[2Jc\x9bd\u2066"

        def change(info, arrays):
            for a in info["arrays"][:2]:
                a["endpoint"] = None
                arrays[evil + a["value"]] = arrays.pop(a["value"])
                a["value"] = evil + a["value"]
        dump = self.rewritten("evil", change)
        for more in (), ("--json",):
            status, out, error = qg("diverge", self.snapshot, "-d", self.data, "--against", dump,
                                    *more)
            self.assertEqual((status, error), (0, ""))
            self.assertIn("a???b?[2Jc??d???", out)
        self.changed("evil_file", file="x\u202e\x1b.npy")
        error = qg("diverge", self.snapshot, "-d", self.data, "--against",
                   self.work / "evil_file")[2]
        self.assertIn(r"x\xe2\x80\xae\x1b.npy", error)


class Small(unittest.TestCase):
    """A network of two convolutions and a sum, whose device is computed here."""
    @classmethod
    def setUpClass(cls):
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper
        cls.holder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.holder.name)
        cls.snapshot, cls.data = cls.work / "snapshot", cls.work / "x.npy"
        rng, shape = np.random.RandomState(7), helper.make_tensor_value_info
        cls.model = cls.work / "m.onnx"
        onnx.save(helper.make_model(helper.make_graph(
            [helper.make_node("Conv", ["x", "w", "b"], ["c"], "first", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], "relu"),
             helper.make_node("Conv", ["r", "v", "d"], ["z"], "last", pads=[1, 1, 1, 1]),
             helper.make_node("Add", ["r", "z"], ["y"], "sum")], "small",
            [shape("x", onnx.TensorProto.FLOAT, [1, 2, 6, 6])],
            [shape("y", onnx.TensorProto.FLOAT, [1, 4, 6, 6])],
            [onnx.numpy_helper.from_array(rng.randn(*dims).astype(np.float32), name)
             for name, dims in (("w", (4, 2, 3, 3)), ("b", (4,)), ("v", (4, 4, 3, 3)),
                                ("d", (4,)))]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), cls.model)
        np.save(cls.data, rng.randn(8, 1, 2, 6, 6).astype(np.float32))
        plants.qg("quantize", cls.model, "-b", "tflite-int8", "-d", cls.data, "-o", cls.snapshot)
        cls.own = cls.work / "own.npz"
        plants.trace(cls.snapshot, cls.data, cls.own)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def rewritten(self, name, change):
        """What diverge reports of the own trace after change(arrays, grids)."""
        info, arrays = plants.read(self.own)
        change(arrays, {a["value"]: (a["grid"]["scale"], a["grid"]["zero"])
                        for a in info["arrays"]})
        plants.write(self.work / name, info, arrays)
        return self.diverge(self.work / name)

    def diverge(self, dump, *more):
        return report("diverge", self.snapshot, "-d", self.data, "--against", dump, *more)

    def verdict(self, r, node):
        self.assertEqual((r["first"], r["differing"]), (node, 1))
        return r["nodes"][0]["verdict"]

    # --- roundings ---
    def test_roundings_in_one_direction(self):
        """Of the exact value of a sum, and of the input."""
        def exact(arrays, grids, value):
            scale = grids[value][0]
            if value == "x":
                return np.load(self.data).astype(np.float64) / scale
            return sum((arrays[v].astype(np.float64) - grids[v][1]) * grids[v][0]
                       for v in "rz") / scale
        for text, rounded in (
                ("rounds the exact value down", lambda v, z: np.floor(v) + z),
                ("rounds the exact value up", lambda v, z: np.ceil(v) + z),
                ("rounds the exact value towards zero", lambda v, z: np.trunc(v) + z),
                ("rounds the code towards 0", lambda v, z: np.trunc(v + z))):
            for value, node in (("y", "sum"), ("x", "x")):
                def change(arrays, grids, value=value, rounded=rounded):
                    codes = rounded(exact(arrays, grids, value), grids[value][1])
                    arrays[value] = codes.clip(-128, 127).astype(np.int8)
                r = self.rewritten(f"{value} {text}", change)
                if value == "x":  # its reader is computed from it
                    r["nodes"], r["differing"] = r["nodes"][:1], 1
                # a quantizer has a rule of some of these names of its own
                self.assertIn(text.split()[-1], self.verdict(r, node))
                self.assertIn("rounds ", self.verdict(r, node))
                row = next(h for h in r["hypotheses"] if h["verdict"].startswith(text))
                self.assertGreater(row["share"], 0.995)
                self.assertEqual(r["hypotheses"][0]["cause"], "rounding")

    def test_two_changes_are_named(self):
        """Another zero point, and rounding down, on a given grid: a constant."""
        def change(arrays, grids):
            scale, zero = grids["y"]
            v = sum((arrays[v].astype(np.float64) - grids[v][1]) * grids[v][0] for v in "rz")
            arrays["y"] = (np.floor(v / scale) + zero + 9).clip(-128, 127).astype(np.int8)
        text = self.verdict(self.rewritten("two changes", change), "sum")
        self.assertRegex(text, r"^adds \d+\.\d+ to every element, as another bias does: fits")

    def test_a_fitted_grid_that_leaves_much_is_no_verdict(self):
        """One of seven elements has nothing to do with it."""
        def change(arrays, grids):
            scale, zero = grids["y"]
            v = sum((arrays[v].astype(np.float64) - grids[v][1]) * grids[v][0] for v in "rz")
            codes = np.rint(v / scale / 1.1) + zero
            codes.flat[::14] += 5
            codes.flat[7::14] -= 5
            arrays["y"] = codes.clip(-128, 127).astype(np.int8)
        r = self.rewritten("another grid in part", change)
        self.assertRegex(self.verdict(r, "sum"), "^no hypothesis explains it; nearest: the dump has the "
                                                 r"snapshot's grid, but its results are 0.9\d+ of "
                                                 r"ours, as on scale 0.\d+: fits")
        self.assertGreater(r["hypotheses"][0]["share"], 0.75)

    # --- samples ---
    def test_samples_in_another_order(self):
        """In all arrays, without the input, of the output alone, of one array, repeated."""
        swapped = [1, 0, *range(2, 8)]
        for name, order, keep, text in (
                ("swapped", swapped, "xrzy", "samples 0 and 1 of the dump are samples 1 and 0"),
                ("without x", swapped, "rzy", "samples 0 and 1 of the dump are samples 1 and 0"),
                ("output", swapped, "y", "samples 0 and 1 of the dump are samples 1 and 0"),
                ("stale", [*range(7), 6], "rzy", "sample 7 of the dump is sample 6"),
                ("turned", [*range(1, 8), 0], "rzy",
                 "samples 0, 1, 2, 3, 4, 5, 6 and 7 of the dump are samples 1, 2, 3, 4, 5, 6, 7 "
                 "and 0")):
            info, arrays = plants.read(self.own)
            info["arrays"] = [a for a in info["arrays"] if a["value"] in keep]
            dump = self.work / f"samples {name}"
            plants.write(dump, info, {v: x[order] for v, x in arrays.items()})
            for verb in ("diverge", "fit"):
                r = report(verb, self.snapshot, "-d", self.data, "--against", dump)
                self.assertEqual(r["fault"], "the dump does not come from these samples in this "
                                             f"order: {text} of the data")

        def one(arrays, _):
            arrays["z"] = arrays["z"][swapped]
        self.assertEqual(self.rewritten("one array", one)["fault"],
                         "array 'z': samples 0 and 1 of the dump are samples 1 and 0 of the data")

        def other(arrays, _):
            arrays["x"][3:5] = np.random.RandomState(1).randint(-128, 128, arrays["x"][3:5].shape)
        r = self.rewritten("other samples", other)
        self.assertEqual(r["fault"], "the dump does not come from these samples in this order: "
                                     "only samples 3 and 4 differ, the others are equal")

        def few(arrays, _):
            arrays["z"][2].flat[::9] += 1
        self.assertNotIn("fault", self.rewritten("some elements", few))

    # --- forms ---
    def test_unsigned_codes_without_a_grid(self):
        info, arrays = plants.read(self.own)
        dump = self.work / "unsigned"
        for a in info["arrays"]:
            a["grid"] = None
            arrays[a["value"]] = (arrays[a["value"]].astype(int) + 128).astype(np.uint8)
        plants.write(dump, info, arrays)
        for verb in ("diverge", "fit"):
            status, _, error = qg(verb, self.snapshot, "-d", self.data, "--against", dump)
            self.assertNotEqual(status, 0)
            self.assertRegex(error, rf"read {dump}: array '[xrzy]': element \d+ is \d+, expected an "
                                    "integer of int8, or the grid of its codes in trace.json")

    # --- fit ---
    def test_fit_composes_a_profile(self):
        """Convolutions of LiteRT's reference, the LeakyRelu of ONNX Runtime."""
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper
        model = onnx.load(self.model)
        graph = model.graph
        graph.node[-1].CopyFrom(helper.make_node("LeakyRelu", ["z"], ["y"], "sum"))
        path, dump, mine, snapshot, data = (self.work / n for n in (
            "device.yaml", "device.npz", "mine.yaml", "composed", "many.npy"))
        onnx.save(model, self.work / "composed.onnx")
        np.save(data, np.random.RandomState(3).randn(300, 1, 2, 6, 6).astype(np.float32))
        plants.qg("quantize", self.work / "composed.onnx", "-b", "tflite-int8", "-d", self.data,
                  "-o", snapshot)
        path.write_text("name: device\ntitle: planted\nextends: tflite-reference\nkernels:\n"
                        "  - id: table\n    use: leaky-relu\n    form: float-table\n"
                        "    rounding: half-even\n    why: planted\n    source: this test\n")
        plants.trace(snapshot, data, dump, "--profile", path)

        def fit(*more):
            return report("fit", snapshot, "-d", data, "--against", dump, *more)
        r = fit("-o", mine)
        self.assertEqual(r["verdict"], "no profile explains all values")
        self.assertEqual(r["composed_explains"], f"{r['values']} of {r['values']} values")
        self.assertGreaterEqual(r["rows_taken"], 1)
        again = report("diverge", snapshot, "-d", data, "--against", dump, "--profile", mine)
        self.assertEqual(again["differing"], 0)
        self.assertEqual(fit("--profile", path)["verdict"], "device")
        status, _, error = qg("fit", snapshot, "-d", data, "--against", dump, "-o",
                              self.work / "mine.onnx")
        self.assertEqual(status, 1)
        self.assertIn("expected a name that ends in .yaml", error)

    def test_tables_are_computed_anew(self):
        """A LeakyRelu that requantizes otherwise, and one that reads another grid."""
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper
        model = onnx.load(self.model)
        model.graph.node[-1].CopyFrom(helper.make_node("LeakyRelu", ["z"], ["y"], "sum"))
        path, snapshot, device = (self.work / n for n in ("table.onnx", "table", "table2"))
        onnx.save(model, path)
        plants.qg("quantize", path, "-b", "tflite-int8", "-d", self.data, "-o", snapshot)

        def diverge(source, *more):
            dump = self.work / f"{source.name}.npz"
            plants.trace(source, self.data, dump, *more)
            return report("diverge", snapshot, "-d", self.data, "--against", dump)
        profile = self.work / "twice.yaml"
        profile.write_text(
            "name: twice\ntitle: planted\nextends: tflite-reference\nkernels:\n"
            "  - {id: twice, use: leaky-relu, form: two-sides, scheme: fix-double-up,\n"
            "     factor: double, why: planted, source: this test}\n")
        r = diverge(snapshot, "--profile", profile)
        self.assertIn("rounds twice, then half up: fix-double-up: fits",
                      r["nodes"][0]["verdict"])
        shutil.copytree(snapshot, device)
        quant = json.loads((device / "quant.json").read_text())
        roots = {t["dominator"] for t in quant["tqcs"] if t["value"] == "z"}
        for t in quant["tqcs"]:
            if t["dominator"] in roots and t["scale"]:
                t["scale"] = [float(np.float32(s * 1.1)) for s in t["scale"]]
        (device / "quant.json").write_text(json.dumps(quant))
        r = diverge(device)
        self.assertEqual([n["value"] for n in r["nodes"] if n["differ"]], ["z"])
        self.assertIn("its output grid is another", r["nodes"][0]["verdict"])

    def floats(self, name, change):
        """A dump of floats, after change(arrays)."""
        info, arrays = plants.read(self.own)
        for a in info["arrays"]:
            codes = arrays[a["value"]].astype(np.float32)
            arrays[a["value"]] = np.float32(a["grid"]["scale"]) * (codes - a["grid"]["zero"])
            a["grid"] = None
        change(arrays)
        plants.write(self.work / name, info, arrays)
        return self.diverge(self.work / name)

    def test_floats_beyond_a_clamp_differ(self):
        self.assertEqual(self.floats("floats", lambda _: None)["differing"], 0)
        simulated = self.work / "simulated.npz"
        plants.qg("trace", self.snapshot, "-d", self.data, "--mode", "simulate", "-o", simulated)
        before = plants.read(simulated)[1]["c"]

        def without_relu(arrays):
            arrays["r"] = np.where(before < 0, before, arrays["r"])
        r = self.floats("without Relu", without_relu)
        self.assertEqual((r["first"], r["differing"]), ("relu", 1))
        self.assertRegex(r["nodes"][0]["verdict"], "^does not clamp: leaves out relu: fits")
        self.assertGreater(r["hypotheses"][0]["share"], 0.99)

        def below(arrays):
            arrays["r"] = np.where(arrays["r"] == 0, np.float32(-7), arrays["r"])
        r = self.floats("far below", below)
        self.assertEqual((r["first"], r["differing"]), ("relu", 1))

    def test_a_factor_on_the_grid_that_the_dump_gives(self):
        def change(arrays, grids):
            scale, zero = grids["y"]
            v = sum((arrays[v].astype(np.float64) - grids[v][1]) * grids[v][0] for v in "rz")
            arrays["y"] = (np.rint(v * 0.9 / scale) + zero).clip(-128, 127).astype(np.int8)
        self.assertRegex(self.verdict(self.rewritten("nine tenths", change), "sum"),
                         r"^the dump has the snapshot's grid, but its results are 0\.\d+ of ours, as "
                         r"on scale 0\.\d+: fits")

        scale = self.scales()["y"]

        def floats(arrays):  # every element shows the snapshot's grid
            v = arrays["r"].astype(np.float64) + arrays["z"]
            arrays["y"] = (np.rint(v * 0.9 / scale) * scale).astype(np.float32)
        self.assertRegex(self.verdict(self.floats("floats of nine tenths", floats), "sum"),
                         r"^the dump has the snapshot's grid, but its results are 0\.\d+ of ours")

    def test_another_zero_point_of_a_relu_is_no_fusion(self):
        info, _ = plants.read(self.own)
        scale = next(a["grid"]["scale"] for a in info["arrays"] if a["value"] == "r")
        device, dump = self.work / "zero", self.work / "zero.npz"
        shutil.copytree(self.snapshot, device)
        quant = json.loads((device / "quant.json").read_text())
        for t in quant["tqcs"]:
            if t["scale"] and abs(t["scale"][0] / scale - 1) < 1e-6:
                t["offset"] = [zero + 1 for zero in t["offset"]]
        (device / "quant.json").write_text(json.dumps(quant))
        plants.trace(device, self.data, dump)
        self.assertEqual(self.verdict(self.diverge(dump), "relu").split(" (")[0],
                         "its zero point is -127 instead of -128")

    def test_a_trace_replaces_the_trace_of_its_folder(self):
        folder, single = self.work / "again", self.work / "a file of no trace"
        plants.trace(self.snapshot, self.data, folder)
        (folder / "note.txt").write_text("note")
        plants.trace(self.snapshot, self.data, folder, "--profile", "tflite-xnnpack",
                     "--select", "z")
        info, _ = plants.read(folder)
        self.assertEqual([a["value"] for a in info["arrays"]], ["z"])
        self.assertEqual(sorted(p.name for p in folder.iterdir()),
                         ["note.txt", "trace.json", "z.npy"])
        single.mkdir()
        np.save(single / "z.npy", np.zeros(3))
        status, _, error = qg("trace", self.snapshot, "-d", self.data, "-o", single)
        self.assertEqual(status, 1)
        self.assertIn("holds 'z.npy', a file of no trace, expected another folder", error)
        self.assertEqual([p.name for p in single.iterdir()], ["z.npy"])
        status, _, error = qg("trace", self.snapshot, "-d", self.data, "-o", single / "t.npy")
        self.assertNotEqual(status, 0)
        self.assertIn("expected a name that ends in .npz, or a folder", error)

    def test_files_that_are_extended_stay(self):
        backend, profile, dump = (self.work / n for n in ("own.yaml", "ownp.yaml", "own.npz"))
        backend.write_text("name: own\ntitle: own\nextends: tflite-int8\n")
        profile.write_text("name: other-name\ntitle: own\nextends: tflite-reference\nwhy: own\n"
                           "source: this test\n")
        for command, option, path, model in (
                ("infer-backend", "--from", backend, self.model),
                ("fit", "--profile", profile, self.snapshot)):
            before = path.read_text()
            status, _, error = qg(command, model, "-d", self.data, "--against", dump, option,
                                  path, "-o", path)
            self.assertNotEqual(status, 0)
            self.assertIn(f"it is the file after {option}, expected another", error)
            self.assertEqual(path.read_text(), before)
        r = report("fit", self.snapshot, "-d", self.data, "--against", dump, "--profile", profile,
                   "-o", self.work / "composed.yaml")
        self.assertEqual(r["composed_explains"], f"{r['values']} of {r['values']} values")

    def test_equal_on_every_run(self):
        """Programs that two threads make at once compute what they do alone."""
        snapshot, dump = self.work / "openvino", self.work / "openvino.npz"
        plants.qg("quantize", self.model, "-b", "openvino-int8", "-d", self.data, "-o", snapshot)
        profile = ("--profile", "onnxruntime-x86-vnni")
        plants.trace(snapshot, self.data, dump, *profile)
        for _ in range(40):
            r = report("diverge", snapshot, "-d", self.data, "--against", dump, *profile,
                       "--jobs", "2")
            self.assertEqual((r["first"], r["differing"]), (None, 0))

    def shifted(self, name, digits, code_type, half=0):
        """A device whose sum has another zero point; the dump has its scales in some digits and
        its codes, shifted by half, in a wide type."""
        device, dump = self.work / name, self.work / f"{name}.npz"
        if not device.exists():
            shutil.copytree(self.snapshot, device)
            quant = json.loads((device / "quant.json").read_text())
            roots = {t["dominator"] for t in quant["tqcs"] if t["value"] == "y"}
            for t in quant["tqcs"]:
                if t["dominator"] in roots and t["offset"]:
                    t["offset"] = [zero + 2 for zero in t["offset"]]
            (device / "quant.json").write_text(json.dumps(quant))
        plants.trace(device, self.data, dump)
        info, arrays = plants.read(dump)
        for a in info["arrays"]:
            arrays[a["value"]] = (arrays[a["value"]].astype(int) + half).astype(code_type)
            a["grid"] = {"scale": float(f"{a['grid']['scale']:.{digits}g}"),
                         "zero": a["grid"]["zero"] + half}
        folder = self.work / f"{name} {digits} {code_type} {half}"
        plants.write(folder, info, arrays)
        return self.diverge(folder)

    def test_zero_points_in_wide_types_and_few_digits(self):
        """Codes in integers of any width; a fault does not move to a neighbour."""
        for digits in (9, 5, 3):
            for code_type, half in (("int8", 0), ("int16", 0), ("int32", 128), ("uint16", 128)):
                r = self.shifted("moved", digits, code_type, half)
                self.assertEqual((r["first"], r["differing"]), ("sum", 1), (digits, code_type))
                self.assertIn("its zero point is", r["nodes"][0]["verdict"])

    def test_a_limit_left_out_on_a_symmetric_grid(self):
        """All codes of the device are on the grid of the snapshot."""
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper, numpy_helper
        model = onnx.load(self.model)
        graph = model.graph
        graph.node[1].CopyFrom(helper.make_node("Clip", ["c", "low", "high"], ["r"], "clip"))
        for name, x in (("low", -0.5), ("high", 1.5)):
            graph.initializer.append(numpy_helper.from_array(np.float32(x), name))
        path, snapshot = self.work / "clip.onnx", self.work / "clip"
        onnx.save(model, path)
        plants.qg("quantize", path, "-b", "openvino-int8", "-d", self.data, "-o", snapshot,
                  "--set", "op=Clip slot=output observer=fixed zero=129 step=0.025")
        for name, limit, text in (
                ("none", (-99, 99), "does not clamp: leaves out clip: fits"),
                ("upper", (-99, 1.5), "does not clamp below: leaves out the lower limit of clip"),
                ("lower", (-0.5, 99), "does not clamp above: leaves out the upper limit of clip")):
            device, dump = self.work / f"clip {name}", self.work / f"clip {name}.npz"
            shutil.copytree(snapshot, device)
            other = onnx.load(device / "model.onnx")
            for i in other.graph.initializer:
                if i.name in ("low", "high"):
                    x = np.float32(limit[i.name == "high"])
                    i.CopyFrom(numpy_helper.from_array(x, i.name))
            files = device / "model.onnx", device / "quant.json"
            before = hashlib.sha256(files[0].read_bytes()).hexdigest()
            onnx.save(other, files[0])
            after = hashlib.sha256(files[0].read_bytes()).hexdigest()
            files[1].write_text(files[1].read_text().replace(before, after))
            plants.trace(device, self.data, dump)
            r = report("diverge", snapshot, "-d", self.data, "--against", dump)
            self.assertEqual(r["first"], "clip")
            self.assertIn(text, [h["verdict"] + ": fits" for h in r["hypotheses"]
                                 if h["fits"] == h["of"]][0])

    def test_floats_before_their_quantizers(self):
        """Every float is off its grid: that is no evidence of another one."""
        noise = np.random.RandomState(1)

        def off_grid(arrays):
            for name, scale in self.scales().items():
                arrays[name] = (arrays[name] + scale * noise.uniform(
                    -0.4, 0.4, arrays[name].shape).astype(np.float32))
        self.assertEqual(self.floats("before quantizers", off_grid)["differing"], 0)

        def other_bias(arrays):
            off_grid(arrays)
            arrays["z"][:, :, 1] += np.float32(5 * self.scales()["z"])
        r = self.floats("before quantizers, a bias", other_bias)
        self.assertEqual(r["first"], "last")
        self.assertIn("its bias is another in 1 of 4 channels", r["nodes"][0]["verdict"])

        def other_slope(arrays):
            off_grid(arrays)
            arrays["y"] = np.where(arrays["y"] < 0, arrays["y"] * np.float32(1.5), arrays["y"])
        r = self.floats("before quantizers, a slope", other_slope)
        self.assertEqual(r["first"], "sum")
        self.assertNotIn("none", [h["verdict"].split(":")[0].split()[-1]
                                  for h in r["hypotheses"]])

    def scales(self):
        return {a["value"]: a["grid"]["scale"] for a in plants.read(self.own)[0]["arrays"]}

    def unsigned(self, name, digits, zero):
        """A device of uint8 codes: scales of some digits, zero points moved by zero."""
        info, arrays = plants.read(self.own)
        for a in info["arrays"]:
            arrays[a["value"]] = (arrays[a["value"]].astype(int) + 128).astype(np.uint8)
            a["grid"] = {"scale": float(f"{a['grid']['scale']:.{digits}g}"),
                         "zero": a["grid"]["zero"] + zero}
        plants.write(self.work / name, info, arrays)
        return self.diverge(self.work / name)

    def test_unsigned_codes_and_scales_of_few_digits(self):
        r = self.unsigned("unsigned, 4 digits", 4, 128)
        self.assertEqual((r["differing"], r["first"]), (0, None))
        self.assertEqual({g["verdict"] for g in r["grids"]}, {"the snapshot's, in fewer digits"})

    def test_unsigned_codes_with_the_zero_points_of_signed_ones(self):
        for digits in (4, 9):
            r = self.unsigned(f"signed zero, {digits} digits", digits, 0)
            self.assertEqual({n["differ"] for n in r["nodes"]}, {0})
            for g in r["grids"]:
                self.assertIn("its codes are on that of the snapshot (uint8 codes of the dump, int8 "
                              "of the snapshot)", g["verdict"])

    def test_a_finer_grid_of_the_same_codes_is_no_difference(self):
        """Floats before they are rounded can lie on a part of the grid."""
        data, own, dump = (self.work / n for n in ("small.npy", "small.npz", "thirds"))
        np.save(data, np.load(self.data) / 2)
        plants.trace(self.snapshot, data, own)
        info, arrays = plants.read(own)
        y = next(a for a in info["arrays"] if a["value"] == "y")
        codes = arrays["y"].astype(int) - y["grid"]["zero"]
        thirds = np.rint(codes * 1.5) / 1.5  # at most a third from the code
        arrays["y"] = (thirds * y["grid"]["scale"]).astype(np.float32)
        y["grid"] = None
        plants.write(dump, info, arrays)
        r = report("diverge", self.snapshot, "-d", data, "--against", dump, ok=(0,))
        self.assertEqual((r["differing"], r["first"]), (0, None))
        self.assertIn("its codes are on that of the snapshot", r["grids"][0]["verdict"])

    def test_more_samples_than_data(self):
        info, arrays = plants.read(self.own)
        dump = self.work / "more"
        plants.write(dump, info, {v: np.concatenate([x, x]) for v, x in arrays.items()})
        for verb in ("diverge", "fit"):
            r = report(verb, self.snapshot, "-d", self.data, "--against", dump)
            self.assertEqual(r["left_out"], "the dump has 16 samples, 8 were compared")
        r = report("infer-backend", self.model, "-d", self.data, "--against", dump, "--from",
                   "tflite-int8")
        self.assertEqual(r["left_out"], "the dump has 16 samples, 8 were compared")
        self.assertNotIn("left_out", self.diverge(self.own))

    def test_floats_of_16_bits(self):
        """A value that the program leaves in float, at the precision of the array."""
        snap, dump = self.work / "in float", self.work / "in float.npz"
        plants.qg("quantize", self.model, "-b", "ort-int8", "-d", self.data, "--set",
                  "node=sum state=fp32", "-o", snap)
        plants.trace(snap, self.data, dump)
        info, arrays = plants.read(dump)
        y = next(a for a in info["arrays"] if a["value"] == "y")
        self.assertIsNone(y.get("grid"))
        for k, change in enumerate((0, 0.02)):
            arrays16 = {**arrays, "y": (arrays["y"] * (1 + change)).astype(np.float16)}
            plants.write(self.work / f"float16 {k}", info, arrays16)
            r = report("diverge", snap, "-d", self.data, "--against", self.work / f"float16 {k}")
            self.assertEqual(r["differing"], k)

    def test_diff_does_not_count_elements_of_other_forms(self):
        info, arrays = plants.read(self.own)
        y, real = arrays["y"], dict(arrays)
        k = next(i for i, a in enumerate(info["arrays"]) if a["value"] == "y")
        for what, x, keys in (
                ("other layout", y.transpose(0, 1, 3, 4, 2).copy(), {"layout": "nhwc"}),
                ("codes and floats", y.astype(np.float32), {}),
                ("grid", y, {"grid": {"scale": 1, "zero": 0}})):
            other = self.work / f"diff {what}"
            changed = [dict(a) for a in info["arrays"]]
            changed[k].update(keys)
            plants.write(other, {**info, "arrays": changed}, {**real, "y": x})
            r = report("diff", self.own, other, ok=(3,))
            self.assertEqual([(d["value"], d["what"], d["differ"]) for d in r["differences"]],
                             [("y", what, 0)])

    # --- pairs ---
    def test_the_best_pairs_win(self):
        """Arrays without names in any order: a value, a monotone function of it, and a multiple
        that has the same codes."""
        import onnx  # pylint: disable=import-outside-toplevel
        from onnx import helper
        model, data, snap, own = (self.work / n for n in ("pairs.onnx", "pairs.npy", "pairs",
                                                          "pairs.npz"))
        rng, shape = np.random.RandomState(3), helper.make_tensor_value_info
        onnx.save(helper.make_model(helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
             helper.make_node("Mul", ["c", "k"], ["m"], "times"),
             helper.make_node("Sigmoid", ["m"], ["s"], "sigmoid"),
             helper.make_node("Add", ["s", "m"], ["y"], "sum")], "pairs",
            [shape("x", onnx.TensorProto.FLOAT, [1, 2, 8, 8])],
            [shape("y", onnx.TensorProto.FLOAT, [1, 4, 8, 8])],
            [onnx.numpy_helper.from_array(rng.randn(4, 2, 1, 1).astype(np.float32), "w"),
             onnx.numpy_helper.from_array(np.array([0.25], np.float32), "k")]),
            opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        np.save(data, rng.randn(4, 1, 2, 8, 8).astype(np.float32))
        plants.qg("quantize", model, "-b", "ort-int8", "-d", data, "-o", snap)
        plants.trace(snap, data, own)
        info, arrays = plants.read(own)
        names = [a["value"] for a in info["arrays"]]
        for a in info["arrays"]:
            a.update(value="t_" + a["value"], endpoint=None)
        renamed = {"t_" + v: x for v, x in arrays.items()}
        for k, order in enumerate((1, -1)):
            info["arrays"] = info["arrays"][::order]
            plants.write(self.work / f"pairs{k}", info, renamed)
            r = report("diverge", snap, "-d", data, "--against", self.work / f"pairs{k}")
            self.assertEqual({p["array"]: p["value"] for p in r["pairs"]},
                             {"t_" + v: v for v in names})
            self.assertEqual(r["differing"], 0)
            self.assertGreater(min(p["confidence"] for p in r["pairs"]), 0.99)
        for a in info["arrays"]:
            a["grid"] = None  # c and m have equal codes
        plants.write(self.work / "pairs bare", info, renamed)
        r = report("diverge", snap, "-d", data, "--against", self.work / "pairs bare")
        half = {p["value"] for p in r["pairs"] if 0.45 < p["confidence"] < 0.55}
        self.assertEqual(half, {"c", "m"})
        # the float of s by name, and its codes again: they are of no other value
        codes = next(a for a in info["arrays"] if a["value"] == "t_s")
        grid = next(a["grid"] for a in plants.read(own)[0]["arrays"] if a["value"] == "s")
        info["arrays"] = [codes, {**codes, "value": "s", "file": "float.npy"}]
        real = (arrays["s"].astype(np.float32) - grid["zero"]) * np.float32(grid["scale"])
        plants.write(self.work / "pairs twice", info, {"t_s": arrays["s"], "s": real})
        r = report("diverge", snap, "-d", data, "--against", self.work / "pairs twice")
        self.assertEqual((r["values"], r["differing"]), (1, 0))
        self.assertEqual([u["array"] for u in r["unpaired"]], ["t_s"])
        self.assertIn("1 of 2 arrays", r["without_value"])
        page = qg("diverge", snap, "-d", data, "--against", self.work / "pairs twice")[1]
        self.assertNotIn("\nunpaired\n", page)

    def test_a_zero_point_that_is_not_subtracted(self):
        """Of the second operand of a sum."""
        def change(arrays, grids):
            scale, zero = grids["y"]
            v = sum((arrays[v].astype(np.float64) - (grids[v][1] if v == "r" else 0)) *
                    grids[v][0] for v in "rz")
            arrays["y"] = (np.rint(v / scale) + zero).clip(-128, 127).astype(np.int8)
        zero = next(a["grid"]["zero"] for a in plants.read(self.own)[0]["arrays"]
                    if a["value"] == "z")
        text = self.verdict(self.rewritten("operand", change), "sum")
        self.assertIn(f"zero point of input 1 is 0 instead of {zero}: fits", text)

    def test_a_fitted_zero_point_is_a_code(self):
        def change(arrays, grids):
            scale, zero = grids["y"]
            v = sum((arrays[v].astype(np.float64) - grids[v][1]) * grids[v][0] for v in "rz")
            arrays["y"] = (np.rint(v / scale) + zero - 200).clip(-128, 127).astype(np.int8)
        for h in self.rewritten("no zero", change)["hypotheses"]:
            self.assertNotRegex(h["verdict"], r"zero -(1[3-9]|2)\d")

    # --- constants ---
    def other_constant(self, name, value, change):
        """A device that has another constant in its last convolution."""
        import onnx  # pylint: disable=import-outside-toplevel
        device = self.work / f"device {name}"
        shutil.copytree(self.snapshot, device)
        model = onnx.load(device / "model.onnx")
        for i in model.graph.initializer:
            if i.name == value:
                x = change(onnx.numpy_helper.to_array(i)).astype(np.float32)
                i.CopyFrom(onnx.numpy_helper.from_array(x, value))
        old = hashlib.sha256((device / "model.onnx").read_bytes()).hexdigest()
        onnx.save(model, device / "model.onnx")
        new = hashlib.sha256((device / "model.onnx").read_bytes()).hexdigest()
        text = (device / "quant.json").read_text()
        self.assertIn(old, text)
        (device / "quant.json").write_text(text.replace(old, new))
        dump = self.work / f"{name}.npz"
        plants.trace(device, self.data, dump)
        return self.diverge(dump)

    def test_another_bias(self):
        for name, change, text in (
                ("missing", lambda b: b * 0, "without its bias"),
                ("twice", lambda b: b * 2, "(adds its bias twice|its bias is another in 4 of 4 "
                                           "channels)"),  # 2 round(b) is not round(2 b)
                ("others", lambda b: b + [0.3, 0, -0.2, 0],
                 "its bias is another in 2 of 4 channels")):
            r = self.other_constant(name, "d", change)
            n = r["nodes"][0]["of"]
            self.assertRegex(self.verdict(r, "last"), f"^{text}: fits {n} of {n}")
            self.assertEqual(r["hypotheses"][0]["cause"], "bias")
            self.assertEqual("adds its bias twice" in {h["verdict"] for h in r["hypotheses"][:2]},
                             name == "twice")

    def test_advice_is_what_can_be_true(self):
        """Of a convolution whose weights are mirrored all other values are right."""
        def mirror(arrays, _):
            arrays["z"] = arrays["z"][..., ::-1].copy()

        def roll(arrays, _):
            arrays["y"] = np.roll(arrays["y"], 1, axis=-1)
        text = "no hypothesis explains it: check weights, bias, operator"
        r = self.rewritten("rolled", roll)
        self.assertEqual(self.verdict(r, "sum"), f"{text}, layout of this array")
        r = self.rewritten("mirrored", mirror)  # and its reader differs
        self.assertIn("check layout", r["nodes"][0]["verdict"])
        r = self.other_constant("mirrored weights", "v", lambda w: w[..., ::-1])
        self.assertEqual(self.verdict(r, "last"), text)


if __name__ == "__main__":
    unittest.main()
