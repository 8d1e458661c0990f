#!/usr/bin/env python3
"""states_svg.py QG OUT.svg -- draws the records of one Conv-Relu-Add after each pass that
changes one, as `qg quantize --dump-after all` wrote them.  docs/conv-relu-add.svg is its
output; tests/scripts/test_pictures.py
compares the two."""
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ENDPOINTS = ["Conv.in0", "Conv.in1", "Conv.in2", "Conv.out0", "Relu.in0", "Relu.out0",
             "Add.in0", "Add.in1", "Add.out0"]
VALUE = {"Conv.in0": "x", "Conv.in1": "weight", "Conv.in2": "bias", "Conv.out0": "conv",
         "Relu.in0": "conv", "Relu.out0": "relu", "Add.in0": "relu", "Add.in1": "x",
         "Add.out0": "sum"}
FILL = {"initial": "#e8e8e8", "overlapped": "#cfe3f7", "activated": "#c9ecc9",
        "passive": "#fbe3b5", "baked": "#dccbf0", "fp32": "#ffffff"}
LEFT, TOP, CELL, ROW, HIGH = 110, 74, 128, 44, 34
LINE = re.compile(r"^(\S+) (\w[\w-]*)(?: -> (\S+))?(?: (\[\d+\] )?([\d.e-]+))?")


def model(path):
    random = numpy.random.default_rng(1)

    def constant(name, *shape):
        return numpy_helper.from_array(
            (random.standard_normal(shape) * 0.2).astype(numpy.float32), name)

    shape = [1, 8, 16, 16]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "weight", "bias"], ["conv"], name="Conv",
                          pads=[1, 1, 1, 1]),
         helper.make_node("Relu", ["conv"], ["relu"], name="Relu"),
         helper.make_node("Add", ["relu", "x"], ["sum"], name="Add")], "conv-relu-add",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, shape)],
        [constant("weight", 8, 8, 3, 3), constant("bias", 8)])
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), path)


def records(text):
    """{endpoint: (state, dominator, scale)} of a dump."""
    found = {}
    for line in text.splitlines():
        m = LINE.match(line)
        if m and m[1] in VALUE:
            scale = f"{float(m[5]):.4f}" if m[5] else ""
            found[m[1]] = (m[2], m[3], ("8 scales" if m[4] else scale))
    return found


def steps(qg):
    """[(pass, records)] for every pass that changes a record."""
    with tempfile.TemporaryDirectory() as folder:
        there = pathlib.Path(folder)
        model(there / "m.onnx")
        subprocess.run([qg, "quantize", there / "m.onnx", "-b", "trt-int8", "-d",
                        "random:8", "--kernels", "reference", "-o", there / "s",
                        "--dump-after", "all", "--dump-dir", there / "d"], check=True,
                       stdout=subprocess.DEVNULL)
        last = {}
        for path in sorted((there / "d").iterdir()):
            now = records(path.read_text())
            if now and now != last:
                yield path.stem.partition("-")[2], now
                last = now


def cell(x, y, record, changed):
    state, dominator, scale = record
    below = f"of {dominator}" if dominator else scale
    edge = ' stroke="#222" stroke-width="1.6"' if changed else ' stroke="#bbb"'
    yield (f'<rect x="{x}" y="{y}" width="{CELL - 8}" height="{HIGH}" rx="5" '
           f'fill="{FILL[state]}"{edge}/>')
    yield f'<text x="{x + 8}" y="{y + 14}">{state.upper()}</text>'
    yield f'<text x="{x + 8}" y="{y + 28}" class="small">{below}</text>'


def draw(columns):
    width = LEFT + CELL * len(columns) + 10
    height = TOP + ROW * len(ENDPOINTS) + 12
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">')
    yield ('<style>text{fill:#111}.small{font-size:10.5px;fill:#444}'
           '.head{font-weight:bold}</style>')
    yield f'<rect width="{width}" height="{height}" fill="#fff"/>'
    yield (f'<text x="10" y="20" class="head">y = Add(Relu(Conv(x, weight, bias)), x), '
           'backend trt-int8: the record of each endpoint after each pass that changes '
           'one</text>')
    for k, (name, _) in enumerate(columns):
        first, dash, second = name.partition("-")
        for y, word in ((TOP - 24, first + dash), (TOP - 10, second)):
            yield f'<text x="{LEFT + k * CELL}" y="{y}" class="head">{word}</text>'
    for row, endpoint in enumerate(ENDPOINTS):
        y = TOP + row * ROW
        yield f'<text x="10" y="{y + 14}" class="head">{endpoint}</text>'
        side = "writes" if "out" in endpoint else "reads"
        yield (f'<text x="10" y="{y + 28}" class="small">{side} {VALUE[endpoint]}'
               '</text>')
        before = None
        for k, (_, now) in enumerate(columns):
            yield from cell(LEFT + k * CELL, y, now[endpoint], now[endpoint] != before)
            before = now[endpoint]
    yield "</svg>"


def main():
    qg, out = sys.argv[1:]
    pathlib.Path(out).write_text("\n".join(draw(list(steps(qg)))) + "\n")


if __name__ == "__main__":
    main()
