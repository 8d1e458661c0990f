#!/usr/bin/env python3
"""Output files of `qg run`: a stack per output, an archive where samples differ in
shape, a file of its own for each of two names that become the same file, none that is
read."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, save

QG = os.path.abspath(os.environ.get("QG", "build/qg"))
SAMPLES = np.array([[0, 1, 2, 0], [3, 0, 0, 4], [0, 0, 0, 5], [-1, 0, 7, 8]], np.float32)


def write_model(path):
    """a/b = relu(x); a_b = |x|; where = indices of what is not zero."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a/b"]), helper.make_node("Abs", ["x"], ["a_b"]),
         helper.make_node("NonZero", ["x"], ["where"])],
        "g", [info("x", TensorProto.FLOAT, [4])],
        [info("a/b", TensorProto.FLOAT, [4]), info("a_b", TensorProto.FLOAT, [4]),
         info("where", TensorProto.INT64, [1, None])])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                           ir_version=8), path)


class Outputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        write_model(cls.work / "m.onnx")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_on(self, samples, out, *more):
        np.save(self.work / "x.npy", samples)
        done = subprocess.run([QG, "run", self.work / "m.onnx", "-d", self.work / "x.npy",
                               "-o", self.work / out, "--json", *more],
                              capture_output=True, text=True, check=True)
        return {row["name"]: pathlib.Path(row["file"]).name
                for row in json.loads(done.stdout)["outputs"]}

    def test_samples_of_several_shapes_go_to_one_archive(self):
        files = self.run_on(SAMPLES, "several")
        self.assertEqual(files["where"], "where.npz")
        self.assertEqual(sorted(os.listdir(self.work / "several")), sorted(files.values()))
        with np.load(self.work / "several" / "where.npz") as archive:
            self.assertEqual(archive.files, [f"sample_{k}" for k in range(len(SAMPLES))])
            for k, x in enumerate(SAMPLES):
                np.testing.assert_array_equal(archive[f"sample_{k}"], np.nonzero(x))

    def test_a_type_that_numpy_lacks_is_written_in_one_with_its_values(self):
        """Outputs, dumps and traces."""
        types = {"bfloat16": np.float32, "float8e5m2": np.float32, "int4": np.int8,
                 "uint4": np.uint8}
        info, path = helper.make_tensor_value_info, self.work / "types.onnx"
        graph = helper.make_graph(
            [helper.make_node("Cast", ["x"], [t], to=getattr(TensorProto, t.upper()))
             for t in types], "types", [info("x", TensorProto.FLOAT, [4])],
            [info(t, getattr(TensorProto, t.upper()), [4]) for t in types])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)],
                               ir_version=10), path)
        np.save(self.work / "x.npy", np.abs(SAMPLES) % 8)
        data = ["-d", self.work / "x.npy", "--mode", "float"]
        subprocess.run([QG, "run", path, *data, "-o", self.work / "types", "--dump",
                        "*"], check=True, capture_output=True)
        subprocess.run([QG, "trace", path, *data, "-o", self.work / "trace"], check=True,
                       capture_output=True)
        for name, kind in types.items():
            for folder in "types", "types/dump", "trace":
                array = np.load(self.work / folder / f"{name}.npy")
                self.assertEqual(array.dtype, kind, (name, folder))
                np.testing.assert_array_equal(array, np.abs(SAMPLES) % 8)

    def test_samples_of_one_shape_are_stacked(self):
        files = self.run_on(SAMPLES[:2], "one")
        self.assertEqual(files["where"], "where.npy")
        np.testing.assert_array_equal(np.load(self.work / "one" / "where.npy"),
                                      [np.nonzero(x) for x in SAMPLES[:2]])

    def test_two_names_that_become_one_file_get_two(self):
        files = self.run_on(SAMPLES, "names")
        self.assertEqual([files["a/b"], files["a_b"]], ["a_b.npy", "a_b_2.npy"])
        np.testing.assert_array_equal(np.load(self.work / "names/a_b.npy"),
                                      np.maximum(SAMPLES, 0))
        np.testing.assert_array_equal(np.load(self.work / "names/a_b_2.npy"), np.abs(SAMPLES))

    def test_workers_change_no_byte(self):
        for jobs in "1", "2":
            self.run_on(SAMPLES, f"jobs{jobs}", "--jobs", jobs)
        for name in os.listdir(self.work / "jobs1"):
            self.assertEqual((self.work / "jobs1" / name).read_bytes(),
                             (self.work / "jobs2" / name).read_bytes(), name)

    def refused(self, data, out, *more):
        done = subprocess.run([QG, "run", "m.onnx", "-d", data, "-o", out, *more],
                              cwd=self.work, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^qg: run: write [^ ]+\.np[yz]: it is a file that is "
                                      r"read, expected another folder\n$")

    def test_samples_are_not_replaced(self):
        (self.work / "kept" / "dump").mkdir(parents=True)
        for name in "a_b", "x", "dump/where":
            np.save(self.work / "kept" / f"{name}.npy", SAMPLES)
        os.symlink("kept", self.work / "link")
        os.symlink("kept/a_b.npy", self.work / "by-link.npy")
        before = {p: p.read_bytes() for p in (self.work / "kept").rglob("*.npy")}
        for data in "kept/a_b.npy", "link/a_b.npy", "by-link.npy", "kept":
            self.refused(data, "kept")
        self.refused("kept/dump/where.npy", "link", "--dump", "*")
        np.savez(self.work / "kept" / "where.npz", x=SAMPLES)
        self.refused("kept/where.npz", "kept")
        self.assertEqual(before, {p: p.read_bytes()
                                  for p in (self.work / "kept").rglob("*.npy")})
        subprocess.run([QG, "run", "m.onnx", "-d", "kept/x.npy", "-o", "kept"],
                       cwd=self.work, check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
