#!/usr/bin/env python3
"""Files that verbs write: one writer at a time in a folder, whatever else happens there;
no file that is read, no file of the same command and no file of others is replaced;
permissions and links."""
import concurrent.futures
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from command import QG, qg

MODEL, CALIB = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
ROUNDS = 12


def start(*words):
    return subprocess.Popen([QG, *map(str, words)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def quantize(folder, backend):
    return ("quantize", MODEL, "-b", backend, "-d", "random:1", "-j", "1", "-o", folder)


def content(*paths):
    return [p.read_bytes() if p.exists() else None for p in paths]


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        for name, backend in ("a", "openvino-int8"), ("b", "trt-int8"):
            qg(*quantize(cls.root / name, backend))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.work = self.root / self.id().rsplit(".", 1)[1]
        self.work.mkdir()
        self.a, self.b = self.root / "a", self.root / "b"

    def ends(self, *processes):
        for p in processes:
            error = p.communicate(timeout=60)[1]
            self.assertEqual(p.returncode, 0, error)

    def both(self, first, second, files):
        """Two commands at once: the files of one."""
        alone = []
        for words in first, second:
            qg(*words)
            alone.append(content(*files))
        self.assertNotEqual(*alone)
        for i in range(ROUNDS):
            self.ends(start(*first), start(*second))
            self.assertIn(content(*files), alone, f"round {i}: a mixture")
        self.assertFalse(list(self.work.glob("**/.qg-*")))

    def test_two_exports(self):
        for form, end, other in (("openvino-ir", "xml", "bin"), ("csv", "csv", "onnx"),
                                 ("aimet", "encodings", "onnx")):
            files = [self.work / f"x.{e}" for e in (end, other)]
            words = [("export", s, "--format", form, "-o", files[0]) for s in (self.a, self.b)]
            self.both(*words, files)

    def test_two_runs(self):
        out = self.work / "r"
        words = [("run", self.a, "-d", f"random:{n}", "-o", out) for n in (1, 2)]
        qg(*words[0])
        files = sorted(out.iterdir())
        self.both(*words, files)

    def test_two_in_place(self):
        """The folder has a subfolder, so that files are replaced one by one."""
        (self.work / "s/sub").mkdir(parents=True)
        files = [self.work / "s" / n for n in ("model.onnx", "quant.json")]
        self.both(quantize(self.work / "s", "openvino-int8"), quantize(self.work / "s", "trt-int8"),
                  files)

    def test_waits_for_the_folder(self):
        """A lock on the folder holds back whoever puts files there, or replaces it."""
        target = self.work / "s"
        qg(*quantize(target, "trt-int8"))
        for words in (("export", self.b, "--format", "csv", "-o", target / "x.csv"),
                      quantize(target, "openvino-int8")):
            before = {p: p.read_bytes() for p in target.iterdir()}
            fd = os.open(target, os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX)
            p = start(*words)
            time.sleep(1.5)
            self.assertIsNone(p.poll(), words)
            self.assertEqual(before, {p: p.read_bytes() for p in target.iterdir()})
            os.close(fd)
            self.ends(p)
            self.assertTrue((target / "quant.json").exists())

    def test_written_while_the_folder_is_replaced(self):
        target = self.work / "s"
        qg(*quantize(target, "trt-int8"))
        for i in range(3 * ROUNDS):
            (target / "x.onnx").unlink(missing_ok=True)
            p = start(*quantize(target, "trt-int8"))
            time.sleep(0.004 * (i % 12))
            qg("export", self.b, "--format", "onnx-qdq", "-o", target / "x.onnx")
            self.ends(p)
            self.assertTrue((target / "x.onnx").exists(), f"round {i}")
            self.assertFalse(list(target.glob(".qg-*")), f"round {i}")

    def test_others_write_while_the_folder_is_replaced(self):
        """Programs that know no lock."""
        target = self.work / "s"
        qg(*quantize(target, "trt-int8"))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            for i in range(ROUNDS):
                done = pool.submit(self.ends, start(*quantize(target, "trt-int8")))
                made = []
                while not done.done():
                    with contextlib.suppress(FileNotFoundError):  # the old folder, just removed
                        with open(target / f"{i}-{len(made)}", "x"):
                            made.append(target / f"{i}-{len(made)}")
                done.result()
                self.assertEqual([], [p.name for p in made if not p.exists()])
                for p in made:
                    p.unlink()

    def test_configuration_that_is_read(self):
        """Parents of what is named, and names of --config-dir, under any of their names."""
        shutil.copytree("configs", self.work / "cfg")
        inside = {
            "base.yaml": "name: base\ntitle: t\nextends: trt-int8\n",
            "kid.yaml": "name: kid\ntitle: t\nextends: base.yaml\n",
            "t0.yaml": "name: t0\ntitle: t\nextends: trt\n",
            "t1.yaml": "name: t1\ntitle: t\nextends: t0.yaml\n"}
        for name, text in inside.items():
            (self.work / name).write_text(text)
        snap, cfg = self.work / "snap", self.work / "cfg"
        kid = ("-b", self.work / "kid.yaml", "-d", CALIB)
        qg("quantize", MODEL, *kid, "-o", snap)
        qg("trace", snap, "-d", CALIB, "-n", "2", "-o", self.work / "t.npz")
        (self.work / "here").symlink_to(self.work)
        (self.work / "link.yaml").symlink_to("base.yaml")
        lint = ("lint", snap, "--config-dir", cfg)
        device = (snap, "-d", CALIB, "-n", "2", "--against", self.work / "t.npz",
                  "--config-dir", cfg)
        read = {p: p.read_bytes() for p in self.work.glob("**/*.yaml")}
        for words in (
                ("sensitivity", snap, *kid, "--propose", "1e-8", "-o", self.work / "base.yaml"),
                ("sensitivity", snap, *kid, "--propose", "1e-8", "-o",
                 self.work / "here/base.yaml"),
                ("search", snap, *kid, "--budget", "bits=6", "-o", self.work / "base.yaml"),
                ("search", snap, *kid, "--budget", "bits=6", "-o", self.work / "link.yaml"),
                ("lint", snap, "--target", self.work / "t1.yaml", "--fix", "-o",
                 self.work / "t0.yaml"),
                (*lint, "--target", "trt", "--fix", "-o", cfg / "lint/trt.yaml"),
                (*lint, "--target", "trt", "--sarif", cfg / "lint/common.yaml"),
                ("fit", *device, "-o", cfg / "profiles/tflite-reference.yaml"),
                ("infer-backend", MODEL, *device[1:], "-o", cfg / "backends/trt-int8.yaml")):
            qg(*words, fails="configuration that is read, expected another file", status=2)
            self.assertEqual(read, {p: p.read_bytes() for p in read}, words)
        qg("fit", *device, "-o", self.work / "fit.yaml")
        qg("fit", *device, "-o", self.work / "fit.yaml")
        run = start("lint", snap, "--target", self.work / "t1.yaml", "--fix", "-o",
                    self.work / "new.yaml")
        self.assertEqual((run.communicate()[1], run.returncode), ("", 3))

    def test_report_of_an_export(self):
        for form, name, other in (("openvino-ir", "c.xml", "c.bin"), ("csv", "d.csv", "d.onnx"),
                                  ("csv", "e.csv", "../test_report_of_an_export/e.onnx")):
            qg("export", self.b, "--format", form, "-o", self.work / name, "--report",
               self.work / other, fails="is the file of the report, expected another file")
            self.assertEqual([], list(self.work.iterdir()))

    def test_permissions(self):
        """Those of the file that is replaced; a link is replaced, not followed."""
        table, words = self.work / "x.csv", ("export", self.b, "--format", "csv", "-o")
        qg(*words, table)
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(table.stat().st_mode & 0o777, 0o666 & ~mask)
        for mode in 0o600, 0o444:
            table.chmod(mode)
            qg(*words, table)
            self.assertEqual(table.stat().st_mode & 0o777, mode)
        link = self.work / "link.csv"
        table.rename(self.work / "kept.csv")
        (self.work / "kept.csv").chmod(0o600)
        link.symlink_to("kept.csv")
        before = (self.work / "kept.csv").read_bytes()
        qg("export", self.a, "--format", "csv", "-o", link)
        self.assertFalse(link.is_symlink())
        self.assertEqual(link.stat().st_mode & 0o777, 0o666 & ~mask)
        self.assertEqual((self.work / "kept.csv").read_bytes(), before)

    def test_foreign_checkpoints(self):
        """stats collect removes checkpoints, and no other file of such a name."""
        collect = ("stats", "collect", MODEL, "-d", CALIB, "-n", "4", "-o", self.work / "x.qgs")
        for name in "x.qgs.part", "x.qgs.part.3":
            foreign = self.work / name
            for text in b"mine", b"":
                foreign.write_bytes(text)
                qg(*collect, fails=f"{name}: has the name of a checkpoint and is none")
                self.assertEqual(foreign.read_bytes(), text)
            foreign.unlink()
        qg(*collect)
        shutil.copy(self.work / "x.qgs", self.work / "x.qgs.part.3")
        (self.work / "x.qgs.part").write_bytes((self.work / "x.qgs").read_bytes()[:100])
        (self.work / "x.qgs.part.txt").write_bytes(b"mine")
        qg(*collect)
        self.assertEqual(["x.qgs", "x.qgs.part.txt"], sorted(os.listdir(self.work)))


if __name__ == "__main__":
    unittest.main()
