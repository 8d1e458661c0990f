#!/usr/bin/env python3
"""Losses that a format finds itself: rows of `qg export` for fixed dims, weights that another
arithmetic rounds, files that are views; and layers behind a MaxPool in tables of layers."""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement


def network(path, batch):
    rng = np.random.default_rng(5)
    w = {"w": (6, 4, 3, 3), "v": (5, 6, 2, 2)}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], "first"),
         helper.make_node("MaxPool", ["c"], ["p"], "pool", kernel_shape=[2, 2]),
         helper.make_node("Conv", ["p", "v"], ["y"], "second")], "net",
        [value("x", TensorProto.FLOAT, [batch, 4, 8, 8])],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.normal(0, 0.3, d).astype("f4"), n) for n, d in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Losses:
    def __init__(self, folder):
        self.folder, self.bad = folder, 0
        self.data = folder / "x.npy"
        np.save(self.data, np.random.default_rng(6).normal(0, 1, (4, 4, 8, 8)).astype("f4"))

    def snapshot(self, backend, batch):
        model, out = self.folder / f"{batch}.onnx", self.folder / f"{batch}-{backend}"
        network(model, batch)
        agreement.qg("quantize", model, "-b", backend, "-d", self.data, "-o", out)
        return out

    def rows(self, snapshot, form, *more):
        """{(what is lost, changes results, meaning)} of the export."""
        file = self.folder / f"{snapshot.name}.{form}"
        done = subprocess.run([agreement.QG, "export", snapshot, "--format", form, "-o", file, "--json",
                               *more], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return {(r["lost"], r["changes_results"], r["meaning"]) for r in json.loads(done.stdout)["losses"]}

    def expect(self, what, is_so):
        if not is_so:
            print(f"FAILED: {what}")
            self.bad += 1


def check_rows(to):
    for batch, is_open in (("N", True), (1, False)):
        snapshot = to.snapshot("tflite-int8", batch)
        for form in ("openvino-ir", "tflite", "onnx-qdq", "qonnx"):
            lost = any(row[:2] == ("open-dims", False) for row in to.rows(snapshot, form))
            fixed = form in ("openvino-ir", "tflite")
            to.expect(f"open-dims of {form}, batch {batch}: {lost}", lost == (is_open and fixed))
    view = to.rows(to.snapshot("tflite-int8", 1), "model-explorer")
    to.expect(f"one row of model-explorer: {view}", [row[:2] for row in view] == [("endpoint", False)])


def check_ties(to):
    """The largest weight of a channel is 127.5 steps under openvino-int8, 127 under ort-int8."""
    for form in ("openvino-ir", "openvino-fq"):
        for backend, weights, expected in (("openvino-int8", "float", True), ("openvino-int8", "int", False),
                                           ("ort-int8", "float", False)):
            rows = to.rows(to.snapshot(backend, 1), form, "--weights", weights)
            ties = any(lost == "rounding" and changes and "halfway" in why for lost, changes, why in rows)
            to.expect(f"ties of {form}, {backend}, {weights}: {rows}", ties == expected)


def check_layers(to):
    """Both convolutions are in the file, and what is read from it computes the same."""
    for backend in ("tflite-int8", "ncnn-int8"):
        snapshot = to.snapshot(backend, 1)
        table = to.folder / f"{snapshot.name}.ncnn-table"
        to.rows(snapshot, "ncnn-table")
        names = [line.split()[0] for line in table.read_text().splitlines()]
        to.expect(f"layers of {backend}: {names}",
                  names == ["first_param_0", "second_param_0", "first", "second"])
        to.rows(snapshot, "ascend-record")
        record = (to.folder / f"{snapshot.name}.ascend-record").read_text()
        to.expect(f"record of {backend}", record.count('"first"') == record.count('"second"') == 1)


def main():
    with tempfile.TemporaryDirectory() as name:
        to = Losses(pathlib.Path(name))
        check_rows(to)
        check_ties(to)
        check_layers(to)
    print(f"{to.bad} failures")
    return to.bad > 0


if __name__ == "__main__":
    sys.exit(main())
