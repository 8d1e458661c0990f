#!/usr/bin/env python3
"""Ctrl-C: the work ends at its next step, with status 130 and one line, and leaves
nothing behind; a second signal ends it within a step, too.  A process that was started
with SIGINT ignored goes on."""
import os
import pathlib
import pty
import signal
import subprocess
import tempfile
import time
import unittest

QG = os.environ.get("QG", "build/qg")
MODEL, CALIB = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
LONG = "random:5000000"  # minutes


def start(*args, **more):
    """With SIGINT as a terminal would deliver it, however this test was started."""
    handler = more.pop("handler", signal.SIG_DFL)
    return subprocess.Popen([QG, *map(str, args)], stdout=subprocess.PIPE,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, handler), **more)


def cpu_seconds(pid):
    """Of a process; 0 when it is gone."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Interrupt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        cls.snapshot = cls.work / "snapshot"
        subprocess.run([QG, "quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o",
                        cls.snapshot], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ended_by(self, run, stderr, verb, out):
        stdout, _ = run.communicate(timeout=60)
        self.assertEqual((run.returncode, stdout), (130, b""), (verb, stderr))
        part = f"{out}.part"
        more = f": the same command with --resume goes on from '{part}'" if os.path.exists(part) \
            else ""
        self.assertEqual(stderr.replace(b"\r\n", b"\n").split(b"\r\x1b[K")[-1],
                         f"qg: {verb}: interrupted{more}\n".encode())
        self.assertFalse(out.exists(), verb)

    def test_every_verb_that_runs_samples(self):
        snapshot, out = self.snapshot, self.work / "out"
        long = ["-d", LONG]
        for args in [("quantize", MODEL, "-b", "trt-int8", "-o", out, "-d", "random:500000"),
                     ("run", snapshot, "-o", out, *long),
                     ("analyse", snapshot, "-d", "random:200000", "--by", "layer"),
                     ("sensitivity", snapshot, "-d", "random:20000"),
                     ("price", snapshot, "-d", "random:20000"),
                     ("compare", MODEL, "-b", "trt-int8", "-b", "ncnn-int8",
                      "-d", "random:200000"),
                     ("stats", "collect", MODEL, "-o", out, *long)]:
            master, slave = pty.openpty()
            run = start(*args, stderr=slave)
            os.close(slave)
            shown = os.read(master, 65536)  # the first bar: the work has begun
            run.send_signal(signal.SIGINT)
            while True:
                try:
                    part = os.read(master, 65536)
                except OSError:  # the terminal is closed
                    break
                if not part:
                    break
                shown += part
            os.close(master)
            self.assertIn(b" / ", shown, args)
            self.ended_by(run, shown, args[0], out)
            pathlib.Path(f"{out}.part").unlink(missing_ok=True)  # to resume from

    def test_without_a_terminal(self):
        out = self.work / "quiet"
        run = start("run", self.snapshot, "-d", LONG, "-o", out, stderr=subprocess.PIPE)
        until = time.monotonic() + 60
        while not (out.exists() and any(out.iterdir())) and time.monotonic() < until:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        self.ended_by(run, run.stderr.read(), "run", out)
        run.stderr.close()

    def model(self, text):
        """A network in the text form of onnx, x float[1,64] to y."""
        try:
            import onnx
        except ImportError as missing:
            self.skipTest(str(missing))
        path = self.work / "loop.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        return path

    def test_within_one_sample(self):
        """A Loop of 2^62 turns asks between turns."""
        loop = self.model("""<ir_version: 8, opset_import: ["": 17]>
            net (float[1,64] x) => (float[1,64] y) <int64 n = {4611686018427387904}> {
              y = Loop (n, "", x) <body: graph = b (int64 i, bool c, float[1,64] s)
                  => (bool co, float[1,64] t) { co = Identity (c) t = Neg (s) }> }""")
        for args in [("run", loop), ("quantize", loop, "-b", "ort-int8")]:
            for number in signal.SIGINT, signal.SIGTERM:
                out = self.work / "loop_out"
                run = start(*args, "-d", "random:4", "-o", out, stderr=subprocess.PIPE)
                time.sleep(0.5)
                run.send_signal(number)
                _, stderr = run.communicate(timeout=20)
                self.assertEqual(run.returncode, 128 + number, (args[0], stderr))
                self.assertIn(b"interrupted", stderr)
                self.assertFalse(out.exists())

    def test_tune_between_samples(self):
        """Every pass over the samples asks, not only the steps that learn."""
        snapshot = self.work / "deep"
        subprocess.run([QG, "quantize", "tests/models/mnist-8.onnx", "-b", "trt-int8", "-d",
                        "random:4", "-o", snapshot], check=True, capture_output=True)
        for more in [], ["--loss", "mse"]:
            for after in 1, 3:
                out = self.work / "tuned"
                run = start("tune", snapshot, "-d", "random:20000", "-o", out, "-j1", *more,
                            stderr=subprocess.PIPE)
                time.sleep(after)
                used = cpu_seconds(run.pid)
                run.send_signal(signal.SIGINT)
                while run.poll() is None:
                    spent = cpu_seconds(run.pid) - used
                    self.assertLess(spent, 2, (more, after))
                    time.sleep(0.02)
                _, stderr = run.communicate()
                self.assertEqual(run.returncode, 130, stderr)
                self.assertFalse(out.exists())

    def test_the_second_signal_ends_it_at_once(self):
        """Also while one operator works, with the status of the page of options."""
        product = self.model("""<ir_version: 8, opset_import: ["": 17]>
            net (float[6000,6000] x) => (float[6000,6000] y) { y = MatMul (x, x) }""")
        run = start("run", product, "-d", "random:1", "-o", self.work / "product", "-j1",
                    "--kernels", "reference", stderr=subprocess.DEVNULL)
        time.sleep(1)
        for _ in range(2):
            self.assertIsNone(run.poll())
            run.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        run.communicate(timeout=5)
        self.assertEqual(run.returncode, 143)

    def test_what_ignores_it_goes_on(self):
        out = self.work / "ignored"
        run = start("run", self.snapshot, "-d", "random:20000", "-o", out,
                    handler=signal.SIG_IGN)
        until = time.monotonic() + 60
        while not out.exists() and time.monotonic() < until:
            time.sleep(0.001)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0)


if __name__ == "__main__":
    unittest.main()
