#!/usr/bin/env python3
"""What the command prints as a warning is a warning of Python, at the line that called."""
import gc
import re
import subprocess
import tempfile
import threading
import warnings
import weakref

from package import DIGITS, QG, main, np, qg, samples, unittest

CALIB = "configs/data/digits_calib.npy"
OFF = ["pass=gptq damp=0.1"]


def told(run):
    """What `run` gives, and its warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        return run(), found


class Warned(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = qg.load(DIGITS)
        cls.s = cls.m.quantize("trt-int8", data=CALIB)

    def test_as_the_command_prints_them(self):
        """Every warning, once and in order, whose place is the line that calls."""
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/x.npy", samples(5))
            self.s.save(f"{folder}/s")
            run = subprocess.run(
                [QG, "tune", f"{folder}/s", "-d", f"{folder}/x.npy", "--steps", "2", "-o",
                 f"{folder}/t", "--gradient", "tqt"], capture_output=True, text=True, check=True)
            printed = re.findall("^qg: warning: (.*)$", run.stderr, re.M)
        self.assertIn("samples: 5, of which 1 judges", printed[0])
        made, found = told(lambda: self.s.tune(data=samples(5), steps=2, gradient="tqt"))
        self.assertIsInstance(made, qg.Snapshot)
        self.assertEqual([str(w.message) for w in found], printed)
        for w in found:
            self.assertEqual((w.category, w.filename), (qg.Warning, __file__))

    def test_every_way_of_calling(self):
        for run in (lambda: self.m.quantize("trt-int8", data=CALIB, set=OFF),
                    lambda: qg.quantize(self.m, backend="trt-int8", data=samples(), set=OFF),
                    lambda: qg.quantize(DIGITS, backend="trt-int8", data=samples(), set=OFF)):
            _, found = told(run)
            self.assertEqual(len(found), 1)
            self.assertRegex(str(found[0].message), "gptq")
            self.assertEqual(found[0].filename, __file__)
            self.assertEqual(found[0].lineno, run.__code__.co_firstlineno)
        self.assertEqual(told(lambda: self.m.quantize("trt-int8", data=CALIB))[1], [])

    def test_in_a_thread(self):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            t = threading.Thread(target=lambda: self.m.quantize("trt-int8", data=CALIB, set=OFF))
            t.start()
            t.join()
        self.assertEqual([w.filename for w in found], [__file__])

    def test_load_warns(self):
        try:
            import onnx
        except ImportError:
            self.skipTest("onnx is missing")
        model = onnx.load(DIGITS)
        model.graph.input.append(onnx.helper.make_tensor_value_info(
            model.graph.initializer[0].name, model.graph.initializer[0].data_type,
            list(model.graph.initializer[0].dims)))
        _, found = told(lambda: qg.load(model))
        self.assertRegex(str(found[0].message), "initializer")
        self.assertEqual(found[0].filename, __file__)

    def test_as_errors(self):
        """The call raises the warning; the model works as before, and owes none."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(qg.Warning, "samples: 5, of which 1 judges"):
                self.s.tune(data=samples(5), steps=2, gradient="tqt")
            self.s.analyse(data=samples())
            with self.assertRaisesRegex(qg.DataError, "int64"):  # not replaced by a warning
                self.m.quantize("trt-int8", data=samples().astype(np.int64), set=OFF)

    def test_contexts_are_freed(self):
        m = qg.load(DIGITS)
        context = weakref.ref(m._ctx)
        gc.disable()
        try:
            del m
            self.assertIsNone(context())
        finally:
            gc.enable()


if __name__ == "__main__":
    main()
