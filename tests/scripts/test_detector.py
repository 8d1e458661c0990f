#!/usr/bin/env python3
"""Detectors: what their outputs hold is chosen by NonMaxSuppression, so their errors are
measured in front of it; values that are empty in every sample stay in float."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from command import QG, answer, qg

BOXES = 36


def constant(name, x):
    return onnx.numpy_helper.from_array(np.asarray(x), name)


def detector(path, least):
    """A head for boxes and one for scores, NonMaxSuppression, and an operator behind it."""
    r = np.random.default_rng(5)
    node = helper.make_node
    weights = [constant("w", r.normal(0, 0.3, (8, 3, 3, 3)).astype("f")),
               constant("wb", r.normal(0, 0.3, (4, 8, 1, 1)).astype("f")),
               constant("ws", r.normal(0, 0.3, (2, 8, 1, 1)).astype("f")),
               constant("rows", np.int64([1, 4, BOXES])), constant("few", np.int64([5])),
               constant("near", np.float32([0.5])), constant("least", np.float32([least])),
               constant("classes", np.int64([1, 2, BOXES])), constant("last", np.int64(2)),
               constant("flat", np.int64([-1])), constant("first", np.int64(0)),
               constant("double", np.float32(2))]
    nodes = [node("Conv", ["x", "w"], ["c"], "body"), node("Relu", ["c"], ["h"], "relu"),
             node("Conv", ["h", "wb"], ["b"], "box_head"),
             node("Reshape", ["b", "rows"], ["br"], "box_rows"),
             node("Transpose", ["br"], ["boxes"], "boxes", perm=[0, 2, 1]),
             node("Conv", ["h", "ws"], ["s"], "score_head"),
             node("Reshape", ["s", "classes"], ["sr"], "score_rows"),
             node("Sigmoid", ["sr"], ["scores"], "scores"),
             node("NonMaxSuppression", ["boxes", "scores", "few", "near", "least"], ["kept"],
                  "nms"),
             node("Gather", ["kept", "last"], ["index"], "index", axis=1),
             node("Squeeze", ["boxes", "first1"], ["plain"], "plain"),
             node("Gather", ["plain", "index"], ["chosen"], "chosen"),
             node("Mul", ["chosen", "double"], ["found"], "larger")]
    weights.append(constant("first1", np.int64([0])))
    graph = helper.make_graph(
        nodes, "detector", [helper.make_tensor_value_info("x", TensorProto.FLOAT,
                                                          [1, 3, 8, 8])],
        [helper.make_tensor_value_info("found", TensorProto.FLOAT, ["n", 4])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                ir_version=8), path)


def names(report):
    return [row["name"] for row in report["errors"]]


class Detector(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.holder.name)
        cls.model, cls.data = cls.work / "model.onnx", cls.work / "x.npy"
        np.save(cls.data, np.random.default_rng(1).normal(size=(6, 3, 8, 8)).astype("f"))
        detector(cls.model, 0.1)
        cls.snapshot = cls.work / "snapshot"
        qg("quantize", cls.model, "-b", "tflite-int8", "-d", cls.data, "-o", cls.snapshot)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def ask(self, verb, *words):
        return answer(verb, self.snapshot, "-d", self.data, *words)

    def test_errors_are_of_scores_and_boxes(self):
        for words in (), ("--mode", "integer"):
            self.assertEqual(names(self.ask("analyse", *words)), ["b", "scores"])
        cause = self.ask("analyse", "--by", "cause")
        self.assertIn(cause["output"], ("b", "scores"))
        self.assertGreater(cause["error"], 0)

    def test_the_warning_names_them(self):
        qg("analyse", self.snapshot, "-d", self.data,
           warns="errors are measured in front of the choice, at b, scores")

    def test_other_questions_have_answers(self):
        rows = self.ask("sensitivity", "--by", "node")["errors"]
        error = {row["name"]: row["error"] for row in rows}
        self.assertGreater(error["score_head"], 0)
        self.assertEqual(error["larger"], 0)
        qg("search", self.snapshot, "-d", self.data, "--budget", "bits=6", "-o",
           self.work / "policy.yaml", warns="the bits stay those of the snapshot")
        self.assertEqual({row["output"] for row in rows}, {"b", "scores"})
        self.ask("price")
        variants = answer("compare", self.model, "-d", self.data, "-b", "trt-int8", "-b",
                          "tflite-int8")["errors"]
        self.assertEqual({row["output"] for row in variants}, {"b", "scores"})
        self.ask("search", "--budget", "bits=6", "-o", self.work / "policy.yaml")

    def test_blocks_in_front_of_the_choice_learn(self):
        three, data, tuned = (self.work / n for n in ("three", "teach.npy", "tuned"))
        np.save(data, np.random.default_rng(2).normal(size=(32, 3, 8, 8)).astype("f"))
        qg("quantize", self.model, "-b", "tflite-int8", "-d", data, "--set",
           "trait=compute slot=in1 bits=3", "-o", three)
        report = answer("tune", three, "-d", data, "--method", "lsq", "-o", tuned)
        self.assertTrue({"better", "left as it was"} & {b["verdict"] for b in report["blocks"]})
        kept = onnx.load(tuned / "model.onnx").graph.output
        self.assertEqual([o.name for o in kept], ["found"])

    def test_the_network_keeps_its_outputs(self):
        self.ask("analyse")
        kept = onnx.load(self.snapshot / "model.onnx").graph.output
        self.assertEqual([o.name for o in kept], ["found"])

    def with_outputs(self, name, *outputs):
        """The network with further outputs, and a snapshot of it with boxes of 3 bits."""
        model = onnx.load(self.model)
        model.graph.output.extend(helper.make_tensor_value_info(*o) for o in outputs)
        path, snapshot = self.work / f"{name}.onnx", self.work / name
        onnx.save(model, path)
        qg("quantize", path, "-b", "tflite-int8", "-d", self.data, "-o", snapshot,
           "--set", "value=b bits=3")
        return path, snapshot

    def test_a_measured_output_hides_no_other(self):
        path, snapshot = self.with_outputs(
            "both", ("kept", TensorProto.INT64, ["k", 3]),
            ("scores", TensorProto.FLOAT, [1, 2, BOXES]))
        told = "outputs chosen by the data: found, kept: errors are measured in front of " \
               "the choice, at b, scores"
        for words in (["analyse"], ["analyse", "--mode", "integer"], ["sensitivity"],
                      ["price"], ["search", "--budget", "nsr=5%", "-o",
                                  self.work / "both.yaml"]):
            verb, *more = words
            qg(verb, snapshot, "-d", self.data, *more, warns=f"{verb}: {told}")
            report = answer(verb, snapshot, "-d", self.data, *more)
            self.assertEqual(report["chosen_by_data"], "found, kept")
            self.assertEqual(report["measured_in_front"], "b, scores")
        error = {row["name"]: row["error"]
                 for row in answer("analyse", snapshot, "-d", self.data)["errors"]}
        self.assertEqual(list(error), ["scores", "b"])
        self.assertGreater(error["b"], 0.01)
        self.assertEqual(answer("analyse", snapshot, "-d", self.data, "--by",
                                "cause")["output"], "b")
        compared = answer("compare", path, "-d", self.data, "-b", "trt-int8")
        self.assertEqual([row["output"] for row in compared["errors"]], ["scores", "b"])
        self.assertEqual(compared["chosen_by_data"], "found, kept")
        chosen = {row["group"]: row["choice"] for row in answer(
            "search", snapshot, "-d", self.data, "--budget", "nsr=0.8%", "--choices",
            "3,8", "-o", self.work / "both.yaml")["groups"]}
        self.assertEqual(chosen["b"], "8")

    def test_tune_shows_the_errors_of_analyse(self):
        _, snapshot = self.with_outputs("tuned", ("scores", TensorProto.FLOAT,
                                                  [1, 2, BOXES]))
        teach, judge, tuned = (self.work / n for n in ("t.npy", "j.npy", "tuned-tuned"))
        r = np.random.default_rng(3)
        for path, n in (teach, 32), (judge, 16):
            np.save(path, r.normal(size=(n, 3, 8, 8)).astype("f"))
        report = answer("tune", snapshot, "-d", teach, "--holdout", judge, "-o", tuned)
        self.assertEqual(report["measured_in_front"], "b, scores")
        for fact, shot in ("before", snapshot), ("after", tuned):
            shown = max(row["error"] for row in answer(
                "analyse", shot, "-d", judge, "--kernels", "reference")["errors"])
            self.assertAlmostEqual(report[fact] / shown, 1, 9)

    def test_classes_are_measured_at_their_scores(self):
        model = onnx.load(self.model)
        head = [n for n in model.graph.node if n.name not in (
            "nms", "index", "plain", "chosen", "larger")]
        head += [helper.make_node("ArgMax", ["scores"], ["best"], "best", axis=1),
                 helper.make_node("ReduceMax", ["scores"], ["top"], "top", axes=[1]),
                 helper.make_node("Greater", ["top", "near"], ["sure"], "sure")]
        del model.graph.node[:], model.graph.output[:]
        model.graph.node.extend(head)
        model.graph.output.extend(helper.make_tensor_value_info(name, dtype, None)
                                  for name, dtype in (("best", TensorProto.INT64),
                                                      ("sure", TensorProto.BOOL),
                                                      ("boxes", TensorProto.FLOAT)))
        path, snapshot = self.work / "classes.onnx", self.work / "classes"
        onnx.save(model, path)
        qg("quantize", path, "-b", "tflite-int8", "-d", self.data, "-o", snapshot)
        report = answer("analyse", snapshot, "-d", self.data)
        self.assertEqual(report["chosen_by_data"], "best, sure")
        self.assertEqual(names(report), ["boxes", "scores", "top"])

    def test_labels_need_the_first_output(self):
        labels = self.work / "labels.npy"
        np.save(labels, np.zeros(6, np.int64))
        path, _ = self.with_outputs("labelled", ("scores", TensorProto.FLOAT,
                                                 [1, 2, BOXES]))
        qg("compare", path, "-d", self.data, "-b", "trt-int8", "--labels", labels,
           fails="compare: labels: the first output 'found' is not measured")

    def test_what_is_not_measured_is_named(self):
        model = onnx.load(self.model)
        model.graph.node.append(helper.make_node("NonZero", ["x"], ["marks"], "marks"))
        onnx.save(model, self.work / "model.onnx")
        try:
            _, snapshot = self.with_outputs(
                "marked", ("marks", TensorProto.INT64, [4, "m"]))
        finally:
            detector(self.model, 0.1)
        qg("analyse", snapshot, "-d", self.data,
           warns="analyse: outputs that are not measured: marks: expected float32")
        report = answer("analyse", snapshot, "-d", self.data)
        self.assertEqual(report["not_measured"], "marks")
        self.assertEqual(names(report), ["b", "scores"])

    def test_nothing_found_leaves_what_is_behind_in_float(self):
        model, snapshot = self.work / "nothing.onnx", self.work / "nothing"
        detector(model, 2)
        for backend in "tflite-int8", "xnnpack-int8", "ort-int8":
            qg("quantize", model, "-b", backend, "-d", self.data, "-o", snapshot,
               warns="no element in any sample")
            quant = json.loads((snapshot / "quant.json").read_text())
            states = {f"{t['node']}.{t['slot']}": t["state"] for t in quant["tqcs"]}
            self.assertEqual(states["larger.out0"], "FP32")

    def trace(self, name, **changed):
        """A trace of the first six samples, in which arrays are changed by functions."""
        path = self.work / f"{name}.npz"
        if not (self.work / "own.npz").exists():
            qg("trace", self.snapshot, "-d", self.data, "-o", self.work / "own.npz")
        with zipfile.ZipFile(self.work / "own.npz") as z:
            text = z.read("trace.json")
        held = np.load(self.work / "own.npz")
        arrays = {k: held[k] for k in held.files if k != "trace.json"}
        arrays.update({k: change(arrays[k]) for k, change in changed.items()})
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("trace.json", text)
            for k, v in arrays.items():
                with z.open(f"{k}.npy", "w") as f:
                    np.lib.format.write_array(f, v)
        return path

    def test_its_own_trace_is_equal(self):
        own = self.trace("same")
        self.assertEqual(np.load(own)["kept"].shape, (6, 10, 3))
        for words in (), ("--end-to-end",):
            report = self.ask("diverge", "--against", own, *words)
            self.assertEqual((report["differing"], report["first"]), (0, None))
        self.assertIn("tflite", json.dumps(self.ask("fit", "--against", own)))
        qg("infer-backend", self.model, "-d", self.data, "--against", own, "-o",
           self.work / "b.yaml")

    def test_other_dims_are_a_difference(self):
        fewer = {k: lambda x: x[:, :7] for k in ("kept", "index", "chosen", "found")}
        dump = self.trace("fewer", **fewer)
        words = "diverge", self.snapshot, "-d", self.data, "--against", dump, "--json"
        run = subprocess.run([QG, *map(str, words)], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1, run.stderr)
        report = json.loads(run.stdout)
        self.assertEqual((report["differing"], report["first"]), (1, "nms"))
        self.assertEqual(report["nodes"][0]["verdict"],
                         "other dims in 6 of 6 samples: int64[10,3] computed, int64[6,7,3] "
                         "of samples in the dump")
        qg("fit", self.snapshot, "-d", self.data, "--against", dump)
        qg("infer-backend", self.model, "-d", self.data, "--against", dump, "-o",
           self.work / "b.yaml")
        one = self.trace("axis", kept=lambda x: x[..., :2])
        qg("diverge", self.snapshot, "-d", self.data, "--against", one, status=4,
           fails="array 'kept' is int64[6,10,2], expected samples in its first axis, then "
                 "the dims of int64[?,3]\n")

    def test_a_trace_leaves_out_what_has_several_shapes(self):
        model, snapshot, own, runs = (self.work / n for n in
                                      ("some.onnx", "some", "some.npz", "runs"))
        detector(model, 0.55)
        qg("quantize", model, "-b", "tflite-int8", "-d", self.data, "-o", snapshot)
        report = answer("trace", snapshot, "-d", self.data, "-o", own)
        left = [row["value"] for row in report["left_out"]]
        self.assertIn("kept", left)
        self.assertFalse({f"{name}.npz" for name in left} & set(zipfile.ZipFile(own).namelist()))
        qg("run", snapshot, "-d", self.data, "-o", runs, "--dump", "*", "--mode", "integer")
        for dump in own, runs / "dump":
            report = answer("diverge", snapshot, "-d", self.data, "--against", dump)
            self.assertEqual(report["differing"], 0)

    def test_nothing_found_has_a_trace(self):
        model, snapshot, own = (self.work / n for n in ("none.onnx", "none", "none.npz"))
        detector(model, 2)
        qg("quantize", model, "-b", "tflite-int8", "-d", self.data, "-o", snapshot)
        qg("trace", snapshot, "-d", self.data, "-o", own)
        self.assertEqual(np.load(own)["kept"].shape, (6, 0, 3))
        report = answer("diverge", snapshot, "-d", self.data, "--against", own)
        self.assertEqual(report["differing"], 0)
        qg("fit", snapshot, "-d", self.data, "--against", own)
        qg("infer-backend", model, "-d", self.data, "--against", own, "-o",
           self.work / "b.yaml")


if __name__ == "__main__":
    unittest.main()
