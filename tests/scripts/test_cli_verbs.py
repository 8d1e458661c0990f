#!/usr/bin/env python3
"""Every verb on the demo model: its answer as text and as JSON; explain for the
endpoint of the README; the differences found by diff; the progress bar on a
terminal."""
import json
import os
import pathlib
import pty
import re
import subprocess
import tempfile
import unittest

QG = os.environ.get("QG", "build/qg")
MODEL, CALIB = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
TEST, LABELS = "configs/data/digits_test.npy", "configs/data/digits_labels.npy"


def qg(*args, status=0):
    """stdout of a run that must end with this status and print nothing on stderr."""
    done = subprocess.run([QG, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == status and done.stderr == "", \
        (args, done.returncode, done.stderr)
    return done.stdout


def answer(*args, status=0):
    return json.loads(qg(*args, "--json", status=status))


def no_twins(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key stands twice: {keys}"
    return dict(pairs)


class Verbs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        for backend in ("trt-int8", "ncnn-int8"):
            qg("quantize", MODEL, "-b", backend, "-d", CALIB, "-o", cls.work / backend)
        cls.trt, cls.ncnn = cls.work / "trt-int8", cls.work / "ncnn-int8"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def calls(self):
        trt, out = self.trt, self.work / "out"
        return [
            ["quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", self.work / "again"],
            ["run", MODEL, "-d", CALIB, "-o", out], ["run", trt, "-d", CALIB, "-o", out],
            ["evaluate", MODEL, "-d", TEST, "--labels", LABELS],
            ["evaluate", trt, "-d", TEST, "--labels", LABELS],
            *[["analyse", trt, "-d", CALIB, "-n8", "--by", by]
              for by in ("graph", "layer", "cause")],
            *[["sensitivity", trt, "-d", CALIB, "-n8", "--by", by]
              for by in ("node", "endpoint", "group")],
            ["search", trt, "-d", CALIB, "-n16", "--budget", "size=20kB",
             "-o", self.work / "policy.yaml"],
            ["explain", trt, "conv0"], ["dump", MODEL], ["dump", trt],
            ["diff", trt, self.ncnn], ["version"],
            *[["list", t["topic"]] for t in answer("list")["topics"]],
        ]

    def test_pages_have_no_spaces_at_the_end_and_json_no_key_twice(self):
        for call in self.calls():
            with self.subTest(call=call):
                status = 3 if call[0] == "diff" else 0
                page = qg(*call, status=status)
                self.assertTrue(page.endswith("\n"))
                self.assertNotRegex(page, r"(?m)[ \t]$")
                document = json.loads(qg(*call, "--json", status=status),
                                      object_pairs_hook=no_twins)
                self.assertEqual(document["report"], call[0])
                self.assertGreater(len(document), 1)

    def test_every_topic_has_rows(self):
        for topic in answer("list")["topics"]:
            name = topic["topic"]
            self.assertGreater(len(answer("list", name)[name]), 1, name)
        backends = {b["backend"] for b in answer("list", "backends")["backends"]}
        self.assertLessEqual({"int8-base", "trt-int8", "openvino-int8", "ncnn-int8"}, backends)

    def test_jobs_and_repetition_change_no_byte(self):
        for name, jobs in (("one", 1), ("two", 2), ("two", 2)):
            qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "--jobs", jobs, "-o", self.work / name)
        for file in ("model.onnx", "quant.json"):
            self.assertEqual((self.work / "one" / file).read_bytes(),
                             (self.work / "two" / file).read_bytes(), file)
        self.assertEqual(sorted(p.name for p in (self.work / "two").iterdir()),
                         ["model.onnx", "quant.json"])

    def test_dump_has_the_graph_and_a_line_per_endpoint(self):
        endpoints = json.loads((self.trt / "quant.json").read_text())["tqcs"]
        dump = answer("dump", self.trt)
        self.assertEqual(len(dump["tqcs"].splitlines()), len(endpoints))
        self.assertIn("Conv", dump["graph"])
        self.assertEqual(qg("dump", self.trt), dump["graph"] + dump["tqcs"])
        self.assertNotIn("tqcs", answer("dump", MODEL))

    def test_coverage_lists_every_pattern_and_why_it_did_not_fit(self):
        for backend in ("trt-int8", "openvino-int8", "tflite-int8", "ort-int8"):
            page = answer("list", "backends", backend)
            known = {row["id"] for table in ("fusions", "sharing") for row in page[table]}
            rows = answer("quantize", MODEL, "-b", backend, "-d", CALIB, "-n2", "-o",
                          self.work / "coverage")["coverage"]
            told = {r["pattern"].partition("/")[2]: r for r in rows}
            self.assertLessEqual(known, told.keys(), backend)
            for name, row in told.items():
                if name in known and not row["matched"]:
                    self.assertTrue(row["for_example"], (backend, row))

    # --- analyse ---

    def test_analyse_measures_with_every_quantizer_on_and_states_so(self):
        about = re.sub(r"\s+", " ", qg("analyse", "--help"))
        for words in ("All quantizers are enabled in both cases",
                      "PPQ: graphwise_error_analyse", "PPQ: layerwise_error_analyse"):
            self.assertIn(words, about)
        call = "analyse", self.trt, "-d", TEST, "-n8"
        (output,) = answer(*call, "--by", "graph")["errors"]
        layers = {r["name"]: r["error"] for r in answer(*call, "--by", "layer")["errors"]}
        alone = {r["name"]: r["error"] for r in answer(
            "sensitivity", *call[1:], "--by", "node")["errors"]}
        self.assertEqual(layers["gemm1"], output["error"])  # the last layer is the output
        self.assertLess(alone["gemm1"], layers["gemm1"])  # the others add to its error

    # --- outputs ---

    def test_outputs_that_cannot_be_are_refused_before_the_work(self):
        link = self.work / "link"
        link.symlink_to("/nothing/there")
        for call in (["quantize", MODEL, "-b", "trt-int8"], ["run", self.trt], ["tune", self.trt]):
            done = subprocess.run([QG, *map(str, call), "-d", CALIB, "-o", str(link)],
                                  capture_output=True, text=True)
            self.assertIn("cannot be written: it is a link to nothing, expected", done.stderr)
        text = self.work / "page.txt"
        done = subprocess.run([QG, "report", str(self.trt), "-d", CALIB, "-o", str(text)],
                              capture_output=True, text=True)
        self.assertIn("the page is HTML, expected a name that ends in .html", done.stderr)
        self.assertFalse(text.exists())

    # --- explain ---

    def explained(self, name):
        return answer("explain", self.trt, name)

    def test_explain_names_state_leader_pattern_line_and_every_change(self):
        report = self.explained("conv0.out0")
        (end,) = report["endpoints"]
        self.assertEqual((end["endpoint"], end["state"]), ("conv0.out0", "OVERLAPPED"))
        tqcs = {f"{t['node']}.{t['slot']}": t for t in
                json.loads((self.trt / "quant.json").read_text())["tqcs"]}
        leader = tqcs[end["dominator"]]
        self.assertEqual(leader["id"], tqcs["conv0.out0"]["dominator"])
        self.assertEqual(end["scale"], leader["scale"])
        self.assertIn("OVERLAPPED", qg("explain", self.trt, "conv0.out0"))
        by, file, line = re.fullmatch(r"(.*) \((.*):(\d+)\)", end["decided_by"]).groups()
        self.assertEqual(by, "fuse/compute-activation")
        self.assertIn("id: compute-activation",
                      pathlib.Path(file).read_text().splitlines()[int(line) - 1])
        said = {s["id"]: s for s in report["origins"]}["compute-activation"]
        self.assertEqual((said["kind"], said["at"]), ("fusion", f"{file}:{line}"))
        self.assertTrue(said["why"] and said["source"])

    def test_bits_of_dominated_endpoints_have_no_effect(self):
        folder = pathlib.Path(self.folder.name) / "dominated"
        words = "quantize", MODEL, "-b", "tflite-int8", "-d", CALIB, "-o", folder, "--set"
        done = subprocess.run([QG, *map(str, words), "trait=compute bits=4"],
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "qg: warning: quantize: --set:1: bits=4 has no effect at "
                         "6 endpoints that others dominate, as conv0.out0, which is on the grid "
                         "of relu0.out0 with 8 bits; 'value=relu0_out bits=4' sets that one\n")
        (end,) = answer("explain", folder, "conv0.out0")["endpoints"]
        self.assertEqual(end["state"], "OVERLAPPED")
        self.assertIn("8 bits [-128, 127]", end["grid"])
        self.assertIn("; 4 bits of its own have no effect", end["grid"])
        qg(*words, "value=relu0_out bits=4")
        (end,) = answer("explain", folder, "conv0.out0")["endpoints"]
        self.assertIn("4 bits [-8, 7]", end["grid"])

    def test_biases_keep_their_codes_unless_named(self):
        folder = pathlib.Path(self.folder.name) / "biases"
        seen = 0

        def grids(backend, *words):
            qg("quantize", MODEL, "-b", backend, "-d", CALIB, "-n2", "-o", folder, *words)
            tqcs = json.loads((folder / "quant.json").read_text())["tqcs"]
            return {(t["node"], t["slot"]): (t["bits"], t["range"]) for t in tqcs
                    if t.get("derived_from")}

        for line in qg("list", "backends").splitlines()[2:]:
            backend = line.split()[0]
            was = grids(backend)
            seen += len(was) > 0
            with self.subTest(backend):
                if was:
                    self.assertEqual(grids(backend, "--set", "bits=6 range=[-32,31]"), was)
        self.assertGreater(seen, 9)
        done = subprocess.run([QG, "quantize", MODEL, "-b", "ort-int8", "-d", CALIB, "-o",
                               str(folder), "--set", "slot=bias bits=8"],
                              capture_output=True, text=True)
        self.assertRegex(done.stderr, r"biases have values beyond the codes of the grid, "
                         r"which saturate, .*: conv0\.in2, .* with 8 bits\n")

    def test_fills_beyond_the_grid_are_named(self):
        """Conv -> Relu -> Pad(value) -> reader: a fill below 0 is no code of an asymmetric grid; the
        lowest of all is meant in front of a MaxPool, and a Clip may be wider than its grid."""
        try:
            import numpy as np
            import onnx
        except ImportError as missing:
            self.skipTest(str(missing))
        make, folder = onnx.helper.make_node, pathlib.Path(self.folder.name)
        conv = make("Conv", ["p", "w"], ["y"], "last")
        pool = make("MaxPool", ["p"], ["y"], "last", kernel_shape=[2, 2])
        np.save(folder / "fill.npy", 4 * np.random.default_rng(0).normal(
            size=(4, 1, 2, 4, 4)).astype("f"))
        for fill, backend, last, warned in (
                (-3, "ort-int8", conv, True), (-3, "trt-int8", conv, False),
                (-300, "trt-int8", conv, True), (0, "ort-int8", conv, False),
                (.5, "ort-int8", conv, False), (-3, "ort-int8", pool, False)):
            held = {"w": np.eye(2, dtype="f")[..., None, None], "fill": np.float32(fill),
                    "pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1]), "low": np.float32(-50),
                    "high": np.float32(50)}
            nodes = [make("Conv", ["x", "w"], ["f"], "first"),
                     make("Relu", ["f"], ["r"], "relu"), make("Clip", ["r", "low", "high"], ["c"]),
                     make("Pad", ["c", "pads", "fill"], ["p"], "pad"), last]
            info = onnx.helper.make_tensor_value_info
            graph = onnx.helper.make_graph(
                nodes, "g", [info("x", 1, [1, 2, 4, 4])], [info("y", 1, None)],
                [onnx.numpy_helper.from_array(v, k) for k, v in held.items()])
            onnx.save(onnx.helper.make_model(
                graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]),
                folder / "fill.onnx")
            words = (QG, "quantize", folder / "fill.onnx", "-b", backend, "-d",
                     folder / "fill.npy", "-o", folder / "fill")
            with self.subTest(fill=fill, backend=backend, last=last.op_type):
                done = subprocess.run([*map(str, words)], capture_output=True, text=True)
                self.assertEqual("saturates: pad.in2" in done.stderr, warned, done.stderr)
                if not warned:
                    continue
                option = re.search(r"--set '(.*?)'", done.stderr)[1]
                done = subprocess.run([*map(str, words), "--set", option],
                                      capture_output=True, text=True)
                self.assertEqual(done.stderr, "")

    def test_settings_of_floats_have_no_effect(self):
        folder = pathlib.Path(self.folder.name) / "floats"
        words = "quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-n4", "-o", folder, "--set"
        done = subprocess.run([QG, *map(str, words), "slot=bias bits=4"],
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "qg: warning: quantize: --set:1: 'slot=bias bits=4' has "
                         "no effect: no endpoint that it changes is quantized, as conv0.in2, "
                         "which is FP32; `qg explain` tells why\n")
        for words in ((*words, "slot=bias state=fp32"), (*words, "slot=weight bits=4")):
            qg(*words)

    def test_explain_tells_all_changes_in_order(self):
        journal = json.loads((self.trt / "quant.json").read_text())
        names = {t["id"]: f"{t['node']}.{t['slot']}" for t in journal["tqcs"]}
        for name in names.values():
            rows = self.explained(name)["changes"]
            own = [(r["seq"], r["field"], r["old"], r["new"], r["by"])
                   for r in rows if r["endpoint"] == name]
            self.assertEqual(own, [(e["seq"], e["field"], e["old"], e["new"], e["by"])
                                   for e in journal["journal"] if names[e["tqc"]] == name])
            self.assertEqual(own[0][1:4], ("state", "none", "INITIAL"))
            self.assertEqual([r["seq"] for r in rows], sorted({r["seq"] for r in rows}))

    def test_explain_finds_nodes_and_values(self):
        node = self.explained("conv0")
        self.assertEqual([e["endpoint"] for e in node["endpoints"]],
                         ["conv0.in0", "conv0.in1", "conv0.in2", "conv0.out0"])
        self.assertEqual((node["operator"], node["platform"]), ("Conv", "quantized"))
        value = self.explained(self.explained("conv0.out0")["value"])
        self.assertEqual([e["endpoint"] for e in value["endpoints"]], ["conv0.out0", "relu0.in0"])
        weight = self.explained("conv0.in1")["endpoints"][0]
        self.assertEqual((weight["state"], len(weight["scale"])), ("BAKED", 16))
        self.assertRegex(weight["rule"], r"^weight \(.*int8-base.yaml:\d+\)$")

    def test_explain_lists_the_group(self):
        members = {g["member"]: g for g in self.explained("conv0.out0")["groups"]}
        leaders = {g["dominator"] for g in members.values()}
        self.assertEqual(len(leaders), 1)
        self.assertEqual(members[leaders.pop()]["joined_by"], "dominator")
        self.assertEqual(members["conv0.out0"]["joined_by"], "fuse/compute-activation")

    def test_explain_speaks_of_what_is_not_quantized(self):
        report = answer("explain", self.ncnn, "relu0")
        for end in report["endpoints"]:
            self.assertEqual((end["state"], end["scale"]), ("none", None))
            self.assertIn("not quantized", end["means"])
        self.assertEqual(report["platform"], "fp32")

    # --- diff ---

    def test_diff_of_equal_snapshots_is_empty(self):
        report = answer("diff", self.trt, self.trt)
        self.assertTrue(report["identical"] and report["same_structure"]
                        and report["same_constants"])
        self.assertEqual((report["nodes"], report["endpoints"], report["scales"]), ([], [], []))

    def test_diff_sees_one_changed_field(self):
        other = self.work / "bits"
        qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", other, "--set", "op=gemm1 slot=weight bits=4")
        report = answer("diff", self.trt, other, status=3)
        self.assertFalse(report["identical"])
        self.assertTrue(report["same_structure"] and report["same_constants"])
        fields = {(r["endpoint"], r["field"]): (r["first"], r["second"]) for r in report["endpoints"]}
        self.assertEqual(fields.pop(("gemm1.in1", "bits")), ("8", "4"))
        self.assertEqual(fields.pop(("gemm1.in1", "range")), ("[-128, 127]", "[-8, 7]"))
        self.assertEqual(set(fields), {("gemm1.in1", "rule")})
        (scale,) = report["scales"]
        self.assertEqual(scale["endpoint"], "gemm1.in1")
        expected = max(abs(b - a) / a for a, b in zip(scale["first"], scale["second"]))
        self.assertAlmostEqual(scale["difference"], expected, places=5)
        self.assertEqual(report["largest_scale_difference"], scale["difference"])

    def test_diff_of_scales_per_tensor_and_per_channel_has_no_number(self):
        other = self.work / "per-tensor"
        qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", other, "--set",
           "op=conv0 slot=weight policy=[per-tensor,linear,symmetric]")
        report = answer("diff", self.trt, other, status=3)
        (scale,) = (r for r in report["scales"] if r["endpoint"] == "conv0.in1")
        self.assertIsNone(scale["difference"])
        self.assertEqual((len(scale["first"]), len(scale["second"])), (16, 1))
        self.assertEqual(report["largest_scale_difference"],
                         max([r["difference"] for r in report["scales"] if r["difference"]], default=0))

    def test_diff_sees_nodes_and_weights(self):
        report = answer("diff", MODEL, self.trt, status=3)
        self.assertFalse(report["same_structure"])
        self.assertEqual(report["nodes_only_in_first"],
                         sum(r["field"] == "node" and r["second"] is None for r in report["nodes"]))
        self.assertGreater(report["nodes_only_in_first"], 0)
        weights = self.work / "weights.onnx"
        weights.write_bytes(flipped(pathlib.Path(MODEL).read_bytes()))
        report = answer("diff", MODEL, weights, status=3)
        self.assertFalse(report["identical"] or report["same_constants"])
        self.assertTrue(report["same_structure"])
        self.assertEqual(report["nodes"], [])
        (row,) = report["constants"]
        self.assertEqual((row["changed"], report["constants_changed"]), (1, 1))

    # --- the bar ---

    def test_the_bar_is_for_terminals_only_and_goes_away(self):
        master, slave = pty.openpty()
        run = subprocess.Popen([QG, "run", MODEL, "-d", "random:300", "-o",
                                self.work / "bar"], stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        shown = b""  # read while it runs: a terminal holds only so much
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the terminal is closed
                break
            if not part:
                break
            shown += part
        os.close(master)
        stdout, _ = run.communicate()
        self.assertEqual(run.returncode, 0)
        self.assertIn(b"300 / 300", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-40:])
        self.assertNotIn(b"\x1b", stdout)


def flipped(model):
    """The model with one bit of one weight changed: a byte in the middle of the longest
    run of raw data, where the file has most of its bytes."""
    at = len(model) // 2
    return model[:at] + bytes([model[at] ^ 1]) + model[at + 1:]


if __name__ == "__main__":
    unittest.main(verbosity=1)
