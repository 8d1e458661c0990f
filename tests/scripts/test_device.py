#!/usr/bin/env python3
"""qg trace, diverge, fit and probe: planted faults (plants.py has the others of the 200),
real runtimes, ties, other forms and orders of a trace, dumps that do not fit."""
import json
import os
import pathlib
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
PLANTS = range(20)


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

    # --- hypotheses ---
    def test_planted_faults(self):
        outcomes = {}
        for seed in PLANTS:
            with tempfile.TemporaryDirectory() as folder:
                kind, outcome, text = plants.judge(seed, folder)
            outcomes[seed] = (outcome, kind, text)
        wrong = {s: o for s, o in outcomes.items() if o[0] != "right"}
        self.assertEqual(wrong, {})

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

    def test_fit_composes_a_profile(self):
        path, dump, mine = (self.work / n for n in ("device.yaml", "device.npz", "mine.yaml"))
        path.write_text("name: device\ntitle: planted\nextends: tflite-reference\nkernels:\n"
                        "  - id: pool\n    use: average-pool\n    form: float-rows\n"
                        "    rounding: half-even\n    why: planted\n    source: this test\n")
        plants.trace(self.snapshot, self.data, dump, "--profile", path)
        r = self.fit(dump, "-o", mine)
        self.assertEqual(r["verdict"], "no profile explains all values")
        self.assertEqual(r["composed_explains"], f"{r['values']} of {r['values']} values")
        self.assertGreaterEqual(r["rows_taken"], 1)
        again = report("diverge", self.snapshot, "-d", self.data, "--against", dump,
                       "--profile", mine)
        self.assertEqual(again["differing"], 0)

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
        status, _, error = qg("diverge", self.snapshot, "-d", self.data, "--against", dump)
        self.assertEqual(status, 1, error)
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
        with_array("shape", lambda x: x[..., :-1], ["array 'relu1_out'", "expected the dims"])
        with_array("nan", lambda x: np.full(x.shape, np.nan, np.float32),
                   ["array 'relu1_out'", "element 0 of sample 0"])
        with_array("few", lambda x: x[:3], ["3 samples", "expected 6"])
        with_array("type", lambda x: x.astype(np.int32) + 1000, ["relu1_out", "int8"])
        with_array("empty", lambda x: x[:0], ["array 'relu1_out'", "no elements"])

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
        raw = self.work / "short"
        raw.mkdir()
        (raw / "a.bin").write_bytes(b"123")
        (raw / "trace.json").write_text(json.dumps({
            "format": "quantgraph-trace", "version": 1, "arrays": [
                {"value": "relu0_out", "file": "a.bin", "type": "int8",
                 "shape": [1 << 40, 1 << 40]}]}))
        self.refused(raw, "relu0_out")


if __name__ == "__main__":
    unittest.main()
