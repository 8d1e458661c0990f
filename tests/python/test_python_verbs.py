#!/usr/bin/env python3
"""The verbs of the command as functions: all of them are there with their options,
reports are the same, feeds of every form are the same samples, failures are exceptions
with the text of the command."""
import inspect
import json
import keyword
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from package import DIGITS, command, main, np, qg, samples

PRINTS = {"json", "all", "verbose", "config-dir", "max-mem", "max-nodes", "max-ratio", "help"}


def python_name(name):
    name = name.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


class Verbs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = samples()
        cls.m = qg.load(DIGITS)
        cls.s = cls.m.quantize("trt-int8", data=cls.x)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_reports_do_not_depend_on_the_locale(self):
        """Under one with a decimal comma, made here."""
        makes = "localedef", "-i", "de_DE", "-f", "UTF-8", self.folder / "de_DE.UTF-8"
        if not shutil.which("localedef") or subprocess.run(makes, capture_output=True).returncode:
            self.skipTest("no localedef, or no sources of locales")
        program = ("import locale, sys, quantgraph as qg; locale.setlocale(locale.LC_ALL, "
                   "'de_DE.UTF-8'); assert locale.localeconv()['decimal_point'] == ','; "
                   "s = qg.load(sys.argv[1]).quantize('trt-int8', data=sys.argv[2]); "
                   "print(s.report, s.analyse(data=sys.argv[2]), qg.explain(s, 'conv0.out0'))")
        feeds = qg.CONFIGS / "data/digits_calib.npy"
        pages = [subprocess.run(
            [sys.executable, "-c", program.replace("'de_DE.UTF-8'", f"'{name}'")
             .replace("== ','", f"== '{point}'"), DIGITS, feeds], text=True, check=True,
            capture_output=True, env={**os.environ, "LOCPATH": str(self.folder)}).stdout
            for name, point in (("de_DE.UTF-8", ","), ("C", "."))]
        self.assertEqual(*pages)

    def test_every_verb_with_every_option(self):
        verbs = re.findall(r"^  (\S+)  ", command("help").split("A first session")[0], re.M)
        self.assertGreater(len(verbs), 20)
        for verb in sorted(set(verbs) - {"completion", "help", "version"}):
            function = getattr(qg, python_name(verb))
            options = set(re.findall(r"--([\w-]+)", command("help", verb).split("example:")[0]
                                     .split("\n\n")[2])) - PRINTS
            taken = set(inspect.signature(function).parameters) - {"files", "extend"}
            self.assertEqual({python_name(o) for o in options}, taken, verb)

    def test_reports_are_those_of_the_command(self):
        np.save(self.folder / "x.npy", self.x)
        self.s.save(self.folder / "s")
        for verb, options in (("analyse", {"by": "graph"}), ("price", {}),
                              ("sensitivity", {"by": "group", "top": 3, "direction": "all-but"})):
            words = [w for k, v in options.items() for w in (f"--{k}", v)]
            printed = command(verb, self.folder / "s", "-d", self.folder / "x.npy", *words)
            self.assertEqual(printed, str(getattr(self.s, verb)(data=self.x, **options)), verb)
        self.assertEqual(command("explain", self.folder / "s", "conv0.in0"),
                         str(self.s.explain("conv0.in0")))

    def test_feeds_of_every_form(self):
        expected = self.s.to_bytes()
        np.save(self.folder / "x.npy", self.x)
        forms = {
            "file": str(self.folder / "x.npy"),
            "path": self.folder / "x.npy",
            "five axes": self.x[:, None],
            "list": list(self.x[:, None]),
            "batches": [self.x[:5], self.x[5:]],
            "dicts": [{"image": a[None]} for a in self.x],
            "one dict": {"image": self.x},
            "float64": self.x.astype(np.float64),
            "strides": np.ascontiguousarray(self.x.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0),
            "generator": (a[None] for a in self.x),
        }
        for name, data in forms.items():
            s = self.m.quantize("trt-int8", data=data)
            self.assertEqual([e.scale.tobytes() for e in s.endpoints],
                             [e.scale.tobytes() for e in self.s.endpoints], name)
        self.assertEqual(self.m.quantize("trt-int8", data=self.x).to_bytes(), expected)

    def test_models_of_every_form(self):
        raw = pathlib.Path(DIGITS).read_bytes()
        expected = self.m.run(self.x)["logits"]
        for form in (raw, bytearray(raw), pathlib.Path(DIGITS), DIGITS):
            m = qg.load(form)
            self.assertEqual(m.run(self.x)["logits"].tobytes(), expected.tobytes())
            self.assertTrue(m.quantize("trt-int8", data=self.x).diff(self.s)["identical"])
        self.assertTrue(qg.load(self.s.to_bytes()).diff(self.s)["identical"])
        self.s.save(self.folder / "s")
        self.assertTrue(qg.diff(self.folder / "s", self.s)["identical"])
        try:
            import onnx
        except ImportError:
            return
        m = qg.load(onnx.load(DIGITS))
        self.assertEqual(m.run(self.x)["logits"].tobytes(), expected.tobytes())

    def test_backends_and_policies_as_text_or_dict(self):
        yaml = "name: mine\ntitle: a test\nextends: trt-int8\n"
        for backend in (yaml, {"name": "mine", "title": "a test", "extends": "trt-int8"}):
            s = self.m.quantize(backend, data=self.x)
            self.assertEqual(s.report["backend"], "mine")
            self.assertEqual([e.state for e in s.endpoints],
                             [e.state for e in self.s.endpoints])
        rule = '{"id": "own", "match": {"op": "Gemm"}, "set": {"bits": 16}}'
        for policy in (f"rules: [{rule}]", f'{{"rules": [{rule}]}}', "-fusions: [any-relu]"):
            with self.subTest(policy=policy):  # one line, as `mask_policy` is
                s = self.m.quantize("trt-int8", data=self.x, policy=policy)
                self.assertEqual(s["gemm1.in0"].bits, 8 if policy.startswith("-") else 16)
        with self.assertRaisesRegex(qg.FileError, "none.yaml: No such file"):
            self.m.quantize("trt-int8", data=self.x, policy="rules/none.yaml")
        report = self.m.compare(data=self.x, backend=["trt-int8", yaml])
        self.assertEqual(len(report["variants"]), 2)

    def test_snapshots_stay_in_memory_or_are_written(self):
        s = self.m.quantize("trt-int8", data=self.x, output=self.folder / "out")
        self.assertTrue((self.folder / "out/quant.json").exists())
        self.assertTrue(qg.load(self.folder / "out").diff(s)["identical"])
        file = self.folder / "q.onnx"
        self.s.export(format="onnx-qdq", output=file)
        imported = qg.import_(file, format="onnx-qdq")
        self.assertIsInstance(imported, qg.Snapshot)
        self.assertGreater(len(imported.endpoints), 0)

    def test_a_policy_of_others_is_not_replaced(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        policy = self.folder / "policy.yaml"
        for text, replaced in ("rules: []\n", False), ("# qg lint --target trt\n", True):
            policy.write_text(text)
            for ask in (lambda: self.s.lint(target="trt", fix=True),
                        lambda: self.s.sensitivity(data=self.x, propose="50%")):
                if replaced:
                    ask()
                else:
                    with self.assertRaisesRegex(qg.Error, "policy.yaml is there and not a"):
                        ask()
                self.assertEqual(policy.read_text() != text, replaced)

    def test_verbs_make_new_snapshots(self):
        s = self.m.quantize("trt-int8", data=self.x)
        before = s.run(self.x)["logits"].tobytes()
        off = s.switch(set="node=conv5 state=dequantized")
        self.assertEqual(off["conv5"].output_endpoints[0].state, "DEQUANTIZED")
        self.assertNotEqual(before, off.run(self.x)["logits"].tobytes())
        self.assertEqual(before, s.run(self.x)["logits"].tobytes())
        again = off.switch(set=["node=conv5 state=restored"])
        self.assertEqual(before, again.run(self.x)["logits"].tobytes())

    def test_tune(self):
        """A later verb: it appeared by its row of the table."""
        s = self.m.quantize("trt-int8", data=self.x)
        before = s.to_bytes()
        for method in ("bias", "lsq"):
            t = s.tune(data=self.x, method=method, steps=2)
            self.assertIsInstance(t, qg.Snapshot)
            self.assertIn("changed", t.report)
            self.assertEqual(t.report["changed"] == 0, bool(t.diff(s)["identical"]), method)
        self.assertEqual(s.to_bytes(), before)
        t = s.tune(data=self.x[8:], holdout=self.x[:5], steps=2)
        self.assertEqual(t.report["judged_on"], "5 samples of the holdout")
        name = self.m.inputs[0].name
        t = s.tune(data=self.x[8:], holdout={name: self.x[:6]}, steps=2)
        self.assertEqual(t.report["judged_on"], "6 samples of the holdout")
        t = s.tune(data=self.x[8:], holdout=(x for x in self.x[:7, None]), steps=2)
        self.assertEqual(t.report["judged_on"], "7 samples of the holdout")
        with self.assertRaisesRegex(qg.DataError, "holdout: no sample, expected at least"):
            s.tune(data=self.x[8:], holdout=[], steps=2)

    def test_tuned_model(self):
        """The snapshot has the float weights beside the learned ones, its ONNX file has not."""
        s = self.m.quantize("trt-int8", data=self.x, set="op=Conv slot=in1 bits=4 range=[-7,7]")
        t = s.tune(data=self.x, method="lsq", steps=100)
        self.assertTrue(t.report["changed"], t.report)
        self.assertIn(b".untuned", t.to_bytes())
        self.assertNotIn(b".untuned", t.to_onnx())
        found = t.search(data=self.x, budget="bits=6", estimate="gradient")
        self.assertIn("policies", found)  # values were added since the model was inferred

    def test_statistics_traces_and_devices(self):
        stats, trace = self.folder / "d.qgs", self.folder / "t.npz"
        qg.stats("collect", self.m, data=self.x, output=stats)
        s = self.m.quantize("trt-int8", stats=stats)
        self.assertEqual(len(s.endpoints), len(self.s.endpoints))
        self.assertGreater(len(qg.stats("derive", stats, model=self.m, backend="trt-int8")["scales"]), 3)
        self.s.trace(data=self.x, output=trace, profile="tensorrt")
        self.assertEqual(self.s.diverge(data=self.x, against=trace, profile="tensorrt")["differing"], 0)
        self.assertIn("verdict", self.s.fit(data=self.x, against=trace))

    def test_arrays_stand_for_files(self):
        labels = np.arange(16) % 10
        np.save(self.folder / "l.npy", labels)
        by_file = self.s.evaluate(data=self.x, labels=self.folder / "l.npy")
        self.assertEqual(self.s.evaluate(data=self.x, labels=labels).facts, by_file.facts)

    def test_failures(self):
        cases = [
            (qg.ConfigError, "expected graph, layer or cause", lambda: self.s.analyse(data=self.x, by="lyer")),
            (qg.ConfigError, "trt-int9", lambda: self.m.quantize("trt-int9", data=self.x)),
            (qg.DataError, "image", lambda: self.m.quantize("trt-int8", data=np.zeros((3, 3), np.float32))),
            (qg.DataError, "no input 'x'", lambda: self.m.quantize("trt-int8", data={"x": self.x})),
            (qg.DataError, "of pairs", lambda: self.m.quantize(
                "trt-int8", data=[(self.x[:1], 3)])),
            (qg.DataError, "no samples", lambda: self.m.quantize("trt-int8", data=[])),
            (qg.FileError, "nowhere.onnx", lambda: qg.load("nowhere.onnx")),
            (qg.ParseError, "", lambda: qg.load(b"not a model")),
            (qg.StateError, "", lambda: qg.analyse(self.m, data=self.x)),
            (qg.ConfigError, "expected a path", lambda: qg.load(7)),
            (OSError, "", lambda: qg.load("nowhere.onnx")),
        ]
        for kind, message, run in cases:
            with self.assertRaisesRegex(kind, message):
                run()

    def test_the_text_of_a_failure_is_that_of_the_command(self):
        self.s.save(self.folder / "s")
        printed = command("explain", self.folder / "s", "conv99", status=1)
        with self.assertRaises(qg.ConfigError) as failed:
            qg.load(self.folder / "s").explain("conv99")
        self.assertEqual(printed, f"qg: {failed.exception}\n")

    def test_a_class_for_every_status(self):
        from quantgraph._native import ERRORS, lib, text
        names = {text(lib.qg_status_name(k)) for k in range(1, lib.QG_NSTATUS)}
        self.assertEqual(set(ERRORS), names)

    def test_an_exception_of_a_feed_is_the_cause(self):
        def feeds():
            yield self.x[:1]
            raise RuntimeError("the disk is full")
        with self.assertRaisesRegex(qg.DataError, "the disk is full") as failed:
            self.m.quantize("trt-int8", data=feeds())
        self.assertIsInstance(failed.exception.__cause__, RuntimeError)

    def test_verbs_leave_models_and_screen_to_the_host(self):
        """In C: a verb that closes a lent model itself, or prints, cannot run here."""
        own = {"cli_output.c", "cli_screen.c", "cli_options.c", "cli_plot.c",
               "cli_completion.c"}  # the last two: never reached from a host
        allowed = {"cli_verbs.c": {"qg_model_close": 1, "qg_model_save": 1, "printf": 2},
                   "cli_laboratory.c": {"printf": 2}}
        for path in sorted(pathlib.Path("tools").glob("cli_*.c")):
            if path.name in own:
                continue
            text = path.read_text()
            for word in ("qg_model_close", "qg_model_save", "printf", "cli_snapshot_fault"):
                n = len(re.findall(rf"\b{word}\(", text))
                most = allowed.get(path.name, {}).get(word, 0)
                if word == "cli_snapshot_fault":
                    most = 1 if path.name == "cli_verbs.c" else 0
                self.assertLessEqual(n, most, f"{path}: {word}: use cli_close, cli_save, "
                                     "cli_save_fault, or print unless c->host")

    def test_json_reads_back(self):
        report = self.s.analyse(data=self.x, by="layer")
        self.assertEqual(json.loads(report.json)["metric"], report["metric"])
        self.assertEqual([r["error"] for r in report["errors"]], report["errors"].column("error"))
        with self.assertRaisesRegex(KeyError, "errors: no column 'nsr', expected one of .*'error'"):
            report["errors"].column("nsr")


if __name__ == "__main__":
    main()
