#!/usr/bin/env python3
"""Mode integer on the command line: the demo model under several backends, outputs and
dumps as floats and codes, any number of workers, integer inputs, and every error."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    raise SystemExit(77) from e

QG = os.environ.get("QG", "build/qg")
MODEL, CALIB, TEST, LABELS = ("configs/models/digits.onnx", "configs/data/digits_calib.npy",
                              "configs/data/digits_test.npy", "configs/data/digits_labels.npy")
# backend: least number of integer nodes of 20 with the backend's own profile
BACKENDS = {"tflite-int8": 20, "xnnpack-int8": 20, "ort-int8": 16, "cmsis-nn-int8": 20,
            "ncnn-int8": 8, "trt-int8": 10, "openvino-int8": 8}


def qg(*words, fails=None):
    done = subprocess.run([QG, *map(str, words)], capture_output=True, text=True, check=False)
    if fails is None:
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in words else done.stdout
    assert done.returncode != 0 and fails in done.stderr, (done.returncode, done.stderr)
    return done.stderr


class Integer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        for backend in BACKENDS:
            qg("quantize", MODEL, "-b", backend, "-d", CALIB, "-o", cls.work / backend)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_it(self, name, *words, model="tflite-int8", data=TEST):
        out = self.work / name
        model = self.work / model if model in BACKENDS else model
        report = qg("run", model, "--mode", "integer", "-d", data, "-o", out, "--json", *words)
        return report, {p.relative_to(out).as_posix()[:-4]: np.load(p)
                        for p in sorted(out.rglob("*.npy"))}

    def test_accuracy(self):
        for backend, least in BACKENDS.items():
            with self.subTest(backend):
                r = qg("evaluate", self.work / backend, "--mode", "integer", "-d", TEST,
                       "--labels", LABELS, "--json")
                print(f"{backend}: {r['profile']}, {r['integer']} integer nodes, top-1 float "
                      f"{r['float_top1']:.2%} simulated {r['simulated_top1']:.2%} integer "
                      f"{r['integer_top1']:.2%}, agreement {r['integer_agreement']:.2%}")
                self.assertGreaterEqual(r["integer"], least)
                self.assertGreaterEqual(r["integer_top1"], 0.98)
                self.assertGreaterEqual(r["integer_agreement"], 0.99)

    def test_first_layer_is_the_simulation_but_for_ties(self):
        """Before errors add up: one kernel from the same codes is at most a step apart."""
        for backend in ("tflite-int8", "ort-int8", "xnnpack-int8"):
            r = qg("analyse", self.work / backend, "--mode", "integer", "--by", "layer",
                   "-d", TEST, "-n", "100", "--json")
            rows = {row["node"]: row for row in r.get("steps", [])}
            first = rows.get("relu0", {"differ": 0, "most": 0})
            with self.subTest(backend):
                self.assertLessEqual(first["most"], 1.001)
                self.assertLess(first["differ"], 0.001 * 100 * 16 * 64)

    def test_analyse(self):
        r = qg("analyse", self.work / "tflite-int8", "--mode", "integer", "-d", CALIB, "--json")
        row = r["errors"][0]
        self.assertEqual(row["name"], "logits")
        self.assertLess(row["apart"], row["integer"])
        self.assertGreater(row["simulated"], 0)

    def test_codes(self):
        report, floats = self.run_it("floats", "--dump", "*")
        _, codes = self.run_it("codes", "--codes")
        grid = next(t for t in json.loads(
            (self.work / "tflite-int8/quant.json").read_text())["tqcs"]
            if t["value"] == "logits" and t["slot"] == "out0")
        self.assertEqual(floats["logits"].dtype, np.float32)
        self.assertEqual(codes["logits"].dtype, np.int8)
        self.assertEqual(report["outputs"][0]["type"], "float32[1,10]")
        # the same, by definition of the grid
        value = (codes["logits"].astype(np.float32) - grid["offset"][0]) * \
            np.float32(grid["scale"][0])
        np.testing.assert_array_equal(value, floats["logits"])
        self.assertEqual(floats["dump/relu0_out"].dtype, np.int8)
        self.assertEqual(floats["dump/logits"].dtype, np.int8)
        self.assertIn("dump/image", floats)  # the codes of the input
        self.assertNotIn("dump/conv0_out", floats)  # inside of a kernel

    def test_rounding(self):
        """The profile's applies, and the report says that records have another one."""
        report, _ = self.run_it("other", "--profile", "tflite-reference", model="trt-int8")
        self.assertIn("another rounding than the profile", report["rounding"])
        for backend in ("tflite-int8", "ncnn-int8", "ort-int8"):
            report, _ = self.run_it(f"own-{backend}", model=backend)
            self.assertNotIn("rounding", report)
            self.assertEqual([sum(row["how"] == how for row in report.get("not_integer", []))
                              for how in ("tail", "island", "refused")],
                             [report[how] for how in ("tail", "island", "refused")])

    def test_workers(self):
        expected = self.run_it("one", "-j", 1, "--dump", "*")[1]
        for jobs in (2, 5):
            got = self.run_it(f"jobs{jobs}", "-j", jobs, "--dump", "*")[1]
            self.assertEqual(got.keys(), expected.keys())
            for name, array in expected.items():
                np.testing.assert_array_equal(got[name], array)
        fast = self.run_it("reference", "--kernels", "reference", "--dump", "*")[1]
        for name, array in expected.items():
            np.testing.assert_array_equal(fast[name], array, name)

    def test_dump_of_the_program(self):
        text = qg("dump", self.work / "tflite-int8", "--profile", "tflite-reference")
        self.assertEqual(text.count("quantgraph::IntConv "), 6)
        self.assertIn("opset quantgraph 1", text)

    def test_integer_inputs(self):
        """A .tflite takes int8, and float32 that is quantized on the grid of its input."""
        model = "tests/data/tflite/kws_int8.tflite"
        rng = np.random.default_rng(1)
        codes = rng.integers(-128, 128, (3, 49, 10, 1)).astype(np.int8)
        np.save(self.work / "codes.npy", codes)
        text = qg("dump", model)
        scale = np.float32(text.split("DequantizeLinear")[0] and self.input_grid(text)[0])
        zero = self.input_grid(text)[1]
        np.save(self.work / "floats.npy", (codes.astype(np.float32) - zero) * scale)
        profile = ("--profile", "tflite-reference", "--require", "integer")
        _, a = self.run_it("k1", *profile, model=model, data=self.work / "codes.npy")
        _, b = self.run_it("k2", *profile, model=model, data=self.work / "floats.npy")
        self.assertEqual(a["Identity"].dtype, np.int8)
        np.testing.assert_array_equal(a["Identity"], b["Identity"])
        report, c = self.run_it("k3", model=model, data=self.work / "codes.npy")
        self.assertEqual(report["profile"], "tflite-reference")  # of .tflite files
        np.testing.assert_array_equal(a["Identity"], c["Identity"])

    @staticmethod
    def input_grid(text):
        """Scale and zero point of the constants that the first DequantizeLinear reads."""
        line = next(l for l in text.splitlines() if " = DequantizeLinear" in l)
        names = line[line.index("(") + 1:line.index(")")].split(", ")[1:]
        values = [next(l for l in text.splitlines() if l.strip().startswith(n + " = const"))
                  for n in names]
        return [float(v[v.rindex("[") + 1:v.rindex("]")]) for v in values]

    def test_errors(self):
        snapshot, out = self.work / "tflite-int8", self.work / "never"
        run = ("run", snapshot, "-d", TEST, "-o", out)
        qg(*run, "--profile", "tflite-reference",
           fails="mode simulate: profile is given, expected mode integer")
        qg(*run, "--mode", "float", "--codes", fails="mode float: codes is given")
        qg(*run, "--mode", "simulate", "--require", "integer", fails="require integer is given")
        qg(*run, "--mode", "integers", fails="did you mean 'integer'")
        qg(*run, "--mode", "integer", "--profile", "tflite",
           fails="profile 'tflite'")
        qg("run", MODEL, "-d", TEST, "-o", out, "--mode", "integer", fails="is not quantized")
        qg("quantize", MODEL, "-b", "rknn-int8", "-d", CALIB, "-o", self.work / "rknn")
        said = qg("run", self.work / "rknn", "-d", TEST, "-o", out, "--mode", "integer",
                  fails="no profile belongs to 'rknn-int8'")
        self.assertIn("tflite-reference", said)
        qg("run", self.work / "trt-int8", "-d", TEST, "-o", out, "--mode", "integer",
           "--require", "integer", fails="lower: node 'add0' (Add): profile tensorrt has no row")
        qg("analyse", snapshot, "-d", TEST, "--mode", "float", fails="expected simulate")
        qg("analyse", snapshot, "-d", TEST, "--profile", "tensorrt",
           fails="profile 'tensorrt': mode is simulate, expected integer")
        qg("dump", snapshot, "--profile", "never", fails="never")
        qg(*run, "--mode", "integer", "--dump", "never", fails="matches no value")
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
