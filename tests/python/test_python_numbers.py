#!/usr/bin/env python3
"""The same numbers, bit for bit, from Python, from a C program and from the command line:
snapshots, outputs in three modes, and the reports of verbs."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from package import DIGITS, KWS, KWS_DATA, ULTRAFACE, command, main, needs_shared, np, qg, samples

BUILD = pathlib.Path(os.environ.get("QG", "build/qg")).resolve().parent


class Numbers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, model, x, profile):
        """One network: the snapshot, runs and two reports."""
        data, snapshot = self.folder / "x.npy", self.folder / "snapshot"
        np.save(data, x)
        command("quantize", model, "-b", "trt-int8", "-d", data, "-o", snapshot)
        s = qg.load(model).quantize("trt-int8", data=x)
        s.save(self.folder / "python")
        ours = json.loads((self.folder / "python/quant.json").read_text())
        theirs = json.loads((snapshot / "quant.json").read_text())
        different = {k for k in theirs if ours[k] != theirs[k]}
        self.assertLessEqual(different, {"manifest"})  # the name of the data
        self.runs(s, snapshot, data, x, profile)
        for verb, options in (("analyse", {"by": "layer"}), ("sensitivity", {"by": "node"})):
            words = [w for k, v in options.items() for w in (f"--{k}", v)]
            printed = command(verb, snapshot, "-d", data, "--json", *words)
            report = getattr(s, verb)(data=x, **options)
            self.assertEqual(json.loads(printed), json.loads(report.json), verb)

    def runs(self, s, snapshot, data, x, profile):
        for mode in ("float", "simulate", "integer"):
            out = self.folder / mode
            more = ["--profile", profile] if mode == "integer" else []
            command("run", snapshot, "-d", data, "--mode", mode, "-o", out, *more)
            got = s.run(x, mode=mode, profile=profile if more else None)
            files = sorted(p.name for p in out.glob("*.npy"))
            self.assertEqual(len(files), len(got))
            for name, a in got.items():
                b = np.load(out / f"{name}.npy")
                self.assertEqual(a.tobytes(), b.tobytes(), (mode, name))

    def test_digits(self):
        self.compare(DIGITS, samples(), "tensorrt")

    @needs_shared
    def test_kws(self):
        x = next(iter(np.load(KWS_DATA).values()))[:16]
        self.compare(KWS, np.ascontiguousarray(x, np.float32), "tflite-reference")

    @needs_shared
    def test_ultraface(self):
        self.compare(ULTRAFACE, samples(2, (3, 240, 320)), "tensorrt")

    @unittest.skipUnless(shutil.which("cc"), "no compiler here")
    def test_c_program(self):
        """A C program on the same sample, linked with the library that the command has."""
        program = self.folder / "run"
        source = pathlib.Path(__file__).with_name("run.c")
        subprocess.run(["cc", f"-I{BUILD}/include/quantgraph", source, "-o", program,
                        f"-L{BUILD}", "-l:libqg.so", f"-Wl,-rpath,{BUILD}"], check=True)
        x, snapshot = samples(1), self.folder / "snapshot"
        s = qg.load(DIGITS).quantize("trt-int8", data=samples())
        s.save(snapshot)
        printed = subprocess.run([program, snapshot], input=x.tobytes(), check=True,
                                 capture_output=True).stdout
        self.assertEqual(printed, s.run(x)["logits"].tobytes())


if __name__ == "__main__":
    main()
