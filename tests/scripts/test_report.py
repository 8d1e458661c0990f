#!/usr/bin/env python3
"""qg report: its tables and columns, the numbers of the other verbs, the JSON in the page,
hostile names, equal bytes, the drawing of the graph."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from command import QG, answer, qg

MODEL, CALIB = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
TEST, LABELS = "configs/data/digits_test.npy", "configs/data/digits_labels.npy"
BOX = 168, 44
TABLES = {
    "bits": "kind bits tensors elements",
    "outputs": "name what error",
    "layers": "name what error",
    "sensitivity": "name what error output",
    "causes": "budget cause removes share",
    "nodes": "name operator platform because type x y",
    "edges": "from to value points",
    "fusions": "node into by",
    "endpoints": "endpoint value state means dominator grid scale offset observer rule decided_by",
    "groups": "dominator member state joined_by",
    "changes": "seq endpoint field old new by",
    "origins": "id kind at why source",
    "near_misses": "node pattern condition",
    "patterns": "pass pattern matched near_misses",
    "observed": "endpoint value low high clipped error settled_after",
    "histograms": "value from width counts",
    "values": "endpoint elements float quantized",
    "lint_nodes": "node operator fate kernel why",
}
SECOND = {
    "second_outputs": "name what error",
    "second_layers": "name what error",
    "changed_nodes": "node field first second",
    "changed_endpoints": "endpoint field first second",
    "changed_scales": "endpoint difference first second offsets_changed",
}


def in_page(path):
    """The JSON of a page, which is the text of one script element."""
    text = path.read_text(encoding="utf-8")
    head = '<script type="application/json" id="report">'
    assert text.count(head) == 1
    return text.partition(head)[2].partition("</script>")[0]


def test_tables(report, tables):
    for name, columns in tables.items():
        assert name in report, name
        for row in report[name]:
            assert list(row) == columns.split(), (name, list(row))


def test_numbers(report, snap):
    """The tables are those of the verbs that answer the question alone."""
    words = snap, "-d", TEST
    asked = {"outputs": ("analyse", *words), "layers": ("analyse", *words, "--by", "layer"),
             "sensitivity": ("sensitivity", *words)}
    for table, call in asked.items():
        assert report[table] == answer(*call)["errors"], table
    told = answer("analyse", *words, "--by", "cause")
    assert report["causes"] == told["causes"] and report["causes_output"] == told["output"]
    told = answer("evaluate", *words, "--labels", LABELS)
    for fact in ("float_top1", "simulated_top1", "difference", "agreement"):
        assert report[fact] == told[fact], fact
    linted = subprocess.run([QG, "lint", snap, "--target", "trt", "--json"],
                            capture_output=True, text=True, check=False)
    found = json.loads(linted.stdout)  # the exit status tells whether there are any
    assert report["lint_target"] == "trt"
    assert report["lint_nodes"] == found["nodes"] and report["lint_found"] == found["found"]
    for node in ("conv0", "gemm1"):
        one = answer("explain", snap, node)
        mine = [e for e in report["endpoints"] if e["endpoint"].rpartition(".")[0] == node]
        assert mine == one["endpoints"], node


def test_contents(report, snap):
    """Endpoints, journal and grids are those of the snapshot."""
    quant = json.loads((snap / "quant.json").read_text(encoding="utf-8"))
    assert len(report["changes"]) == len(quant["journal"])
    assert len(report["groups"]) <= len(quant["tqcs"]) <= len(report["endpoints"])
    samples = report["samples"]
    values = {h["value"]: h for h in report["histograms"]}
    for row in report["observed"]:
        assert row["low"] < row["high"] and 0 <= row["clipped"] <= 1, row
        assert row["value"] in values
        assert row["settled_after"] is None or 1 <= row["settled_after"] <= samples
    for h in values.values():
        assert len(h["counts"]) <= 64 and sum(h["counts"]) % samples == 0, h["value"]
    for row in report["values"]:
        assert len(row["float"]) == len(row["quantized"]) == min(48, row["elements"]), row
    steps = {e["endpoint"]: e for e in report["endpoints"]}
    for row in report["values"]:  # what an active endpoint gives is on its grid
        e = steps[row["endpoint"]]
        if e["state"] != "ACTIVATED" or len(e["scale"]) != 1:
            continue
        for x in row["quantized"]:
            assert abs(x / e["scale"][0] - round(x / e["scale"][0])) < 1e-3, (row, x)


def test_drawing(report):
    """No two boxes overlap; a line goes down, from a box to a box."""
    nodes = report["nodes"]
    for i, a in enumerate(nodes):
        for b in nodes[:i]:
            assert abs(a["x"] - b["x"]) >= BOX[0] or abs(a["y"] - b["y"]) >= BOX[1], (a, b)
    for e in report["edges"]:
        a, b, points = nodes[e["from"]], nodes[e["to"]], e["points"]
        assert points[:2] == [a["x"], a["y"] + BOX[1] / 2], e
        assert points[-2:] == [b["x"], b["y"] - BOX[1] / 2], e
        assert points[1::2] == sorted(points[1::2]), e
    read = {(nodes[e["from"]]["name"], nodes[e["to"]]["name"]) for e in report["edges"]}
    for f in report["fusions"]:
        assert any(a == f["node"] for a, _ in read), f


def test_open_extents(root):
    """The bit budget of a network with an open extent: the first sample has the sizes."""
    try:
        import numpy as np
        import onnx
    except ImportError:
        return
    model = onnx.load(MODEL)
    fixed = {}
    for name, extent in (("fixed", None), ("open", "height")):
        if extent:
            model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = extent
            del model.graph.value_info[:]
        onnx.save(model, str(root / f"{name}.onnx"))
        np.save(root / "in.npy", np.load(CALIB)[:4])
        qg("quantize", root / f"{name}.onnx", "-b", "trt-int8", "-d", root / "in.npy", "-o",
           root / name)
        fixed[name] = answer("report", root / name, "-d", root / "in.npy", "-o",
                             root / "page.html")["bits"]
    assert any(r["kind"] == "activations" for r in fixed["fixed"]), fixed
    assert fixed["open"] == fixed["fixed"], fixed


def test_escaping(root):
    """A name that would end the script is data; the page has one more script than JSON."""
    try:
        import onnx
    except ImportError:
        return "the names of a hostile model: onnx is missing"
    model = onnx.load(MODEL)
    evil = '</script><script>alert("x")</script><!--'
    model.graph.node[0].name = evil
    old, new = model.graph.node[0].output[0], "<img src=x onerror='alert(1)'>\""
    for n in model.graph.node:
        for names in (n.input, n.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
    onnx.save(model, str(root / "evil.onnx"))
    qg("quantize", root / "evil.onnx", "-b", "trt-int8", "-d", CALIB, "-o", root / "evil")
    report = answer("report", root / "evil", "-d", TEST, "-n", 2, "-o", root / "evil.html")
    assert any(n["name"] == evil for n in report["nodes"])
    page = (root / "evil.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2 and "<img" not in page and "<!--" not in page
    assert json.loads(in_page(root / "evil.html")) == report
    return None


def main():
    folder = tempfile.TemporaryDirectory()
    root = pathlib.Path(folder.name)
    snap, page = root / "snap", root / "report.html"
    qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", snap)
    qg("quantize", MODEL, "-b", "ncnn-int8", "-d", CALIB, "-o", root / "ncnn")
    call = "report", snap, "-d", TEST, "--labels", LABELS, "-o", page
    text = qg(*call, "--json")
    report = json.loads(text)
    assert in_page(page) == text.replace("<", "\\u003c")
    test_tables(report, TABLES)
    test_numbers(report, snap)
    test_contents(report, snap)
    test_drawing(report)

    first = page.read_bytes()
    shutil.copytree(snap, root / "elsewhere" / "snap")
    qg("report", root / "elsewhere" / "snap", *call[2:], "--jobs", 1)
    assert page.read_bytes() == first, "the bytes of a page depend on threads or paths"
    assert len(first) < 1_000_000 and b"http://" not in first.replace(
        b"http://www.w3.org/2000/svg", b"")

    both = answer(*call, "--against", root / "ncnn")
    test_tables(both, TABLES | SECOND)
    other = root / "ncnn", "-d", TEST
    assert both["second_outputs"] == answer("analyse", *other)["errors"]
    assert both["second_layers"] == answer("analyse", *other, "--by", "layer")["errors"]

    qg("report", MODEL, "-d", TEST, "-o", page, fails="is not quantized")
    qg("report", snap, "-d", TEST, "--against", MODEL, "-o", page, fails="is not quantized")
    qg("report", snap, "-d", TEST, "--target", "nothing", "-o", page, fails="nothing")
    qg("report", snap, "-d", TEST, "-o", root / "no" / "page.html", fails="page.html")
    test_open_extents(root)
    missing = test_escaping(root)
    if missing:
        print(f"skipped: {missing}")
        sys.exit(77)


main()
