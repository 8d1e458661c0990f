#!/usr/bin/env python3
"""Files of our own exports with one mistake each: qg import refuses them with a message that
names the place and the mistake, or reads them leniently with a warning; a refused file leaves
nothing behind.  What the exports write is imported without a word."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from command import QG, qg

MODEL, CALIB = "configs/models/digits.onnx", "configs/data/digits_calib.npy"
EXPORTS = {  # file: backend, format and version
    "csv.csv": ("trt-int8", "csv"), "aimet4.json": ("trt-int8", "aimet", "0.4.0"),
    "aimet6.json": ("trt-int8", "aimet", "0.6.1"), "aimet1.json": ("trt-int8", "aimet", "1.0.0"),
    "aimet2.json": ("trt-int8", "aimet", "2.0.0"), "trt.json": ("trt-int8", "tensorrt-json"),
    "trt.cache": ("trt-int8", "tensorrt-cache"), "ncnn.table": ("ncnn-int8", "ncnn-table"),
    "ppq.json": ("trt-int8", "ppq-json"), "q.onnx": ("trt-int8", "qonnx")}
SCALE = "expected a finite number > 0, at least 2^-126"


def text(old, new, count=1):
    """The first `count` places of a text, which must be there."""
    def change(data):
        assert old.encode() in data, old
        return data.replace(old.encode(), new.encode(), count)
    return change


def cell(line, column, value):
    """A cell of csv.csv; lines count from 1."""
    def change(data):
        rows = [row.split(",") for row in data.decode().splitlines()]
        rows[line - 1][rows[0].index(column)] = value
        return "\n".join(map(",".join, rows)).encode() + b"\n"
    return change


def again(line, end=b""):
    """A line once more, at the end."""
    return lambda data: data + end + data.splitlines(keepends=True)[line - 1]


def member(path, value):
    """A member of a JSON document, by its path; None takes it out."""
    def change(data):
        root = json.loads(data)
        at = root
        for key in path[:-1]:
            at = at[key]
        assert value is not None or path[-1] in at
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return json.dumps(root).encode()
    return change


def repeat(path):
    """An element of a list once more."""
    def change(data):
        root = json.loads(data)
        at = root
        for key in path:
            at = at[key]
        at.append(at[0])
        return json.dumps(root).encode()
    return change


def quant(name=None, value=None, slot=None, number=None):
    """An attribute, or a constant input, of the first Quant node."""
    def change(data):
        model = onnx.load_from_string(data)
        node = next(n for n in model.graph.node if n.op_type == "Quant")
        if name:
            kept = [a for a in node.attribute if a.name != name]
            del node.attribute[:]
            node.attribute.extend(kept + [onnx.helper.make_attribute(name, value)])
        else:
            made = numpy_helper.from_array(np.float32(number), "made")
            model.graph.initializer.append(made)
            node.input[slot] = "made"
        return model.SerializeToString()
    return change


def act(key, value):
    return member(["activation_encodings", "image", 0, key], value)


def entry(key, value):
    return member(["activation_encodings", 0, key], value)


def onnx_entry(key, value):
    return member(["encodings", 0, key], value)


def config(node, name, key, value):
    return member(["configs", node, name, key], value)


ALL = ("aimet4.json", "aimet6.json")
REFUSED = [  # files, change, pattern of the message
    # csv: line 2 is conv0.in0, 4 conv0.in2 in FP32, 5 conv0.out0 OVERLAPPED
    ("csv.csv", cell(2, "qmin", ""), r"line 2: qmin is '', expected an integer in"),
    ("csv.csv", cell(2, "qmax", ""), r"line 2: qmax is '', expected an integer in"),
    ("csv.csv", cell(2, "bits", ""), r"line 2: bits is '', expected an integer in \[2, 32\]"),
    ("csv.csv", cell(2, "bits", "-8"), r"line 2: bits is '-8', expected an integer in \[2, 32\]"),
    ("csv.csv", cell(2, "bits", "8x"), "line 2: bits is '8x', expected"),
    ("csv.csv", cell(2, "bits", "8\r8"), r"line 2: bits is '8\\x0d8', expected"),
    ("csv.csv", cell(2, "qmin", "-128.0"), "line 2: qmin is '-128.0', expected"),
    ("csv.csv", cell(2, "qmax", "128"), r"line 2: conv0.in0: range \[-128, 128\] does not fit"),
    ("csv.csv", cell(2, "axis", "0"), "line 2: conv0.in0: .*axis"),
    ("csv.csv", cell(3, "axis", "-1"), r"line 3: axis is '-1', expected an integer in \[0, "),
    ("csv.csv", cell(2, "block", "4"), "line 2: conv0.in0: .*block"),
    ("csv.csv", cell(2, "policy", ""), "line 2: conv0.in0: policy '.*' .*is not legal"),
    ("csv.csv", cell(2, "rounding", "even"), "line 2: rounding is 'even', expected one of"),
    ("csv.csv", cell(2, "state", "ACTIVE"), "line 2: state is 'ACTIVE', expected one of"),
    ("csv.csv", cell(2, "state", ""), "line 2: state is '', expected one of"),
    ("csv.csv", cell(2, "op", '"Gemm"'), "line 2: conv0.in0 is the op 'Gemm', 'Conv' in the "
     "model, expected the model"),
    ("csv.csv", cell(5, "op", '"Gemm"'), "line 5: conv0.out0 is the op 'Gemm'"),
    ("csv.csv", cell(5, "value", '"x"'), "line 5: conv0.out0 is the value 'x'"),
    ("csv.csv", cell(5, "dominator", '"conv0.out0"'),
     "line 5: dominator is 'conv0.out0', expected another endpoint, since"),
    ("csv.csv", cell(5, "dominator", ""), "line 5: dominator is '', expected another endpoint"),
    ("csv.csv", cell(5, "dominator", '"no.out0"'),
     "line 5: dominator is 'no.out0', expected an endpoint of the model"),
    ("csv.csv", cell(4, "scale", "0.1"), "line 4: scale is '0.1', expected none in a state"),
    ("csv.csv", cell(2, "scale", ""), "line 2: scale is '', expected numbers"),
    ("csv.csv", cell(2, "scale", "0.1x"), "line 2: scale is '0.1x', expected numbers"),
    ("csv.csv", cell(2, "scale", "0x1p-3"), "line 2: scale is '0x1p-3', expected numbers"),
    *[("csv.csv", cell(2, "scale", x), f"line 2: scale is '{x}', expected numbers, each a finite")
      for x in ("nan", "inf", "0", "-0.1", "1e39", "1e-40")],
    ("csv.csv", cell(2, "scale", "0.1 0.2"), "line 2: scale has 2 numbers, expected 1 by its pol"),
    ("csv.csv", cell(3, "scale", "0.1"), "line 3: scale has 1 numbers, expected 16 by its policy"),
    ("csv.csv", cell(2, "offset", "0 0"), "line 2: offset is '0 0', expected one per scale"),
    ("csv.csv", text(",", ";", -1), "line 1: has ';' between its columns, expected ','"),
    ("csv.csv", text(",", "\t", -1), "line 1: has tabs between its columns, expected ','"),
    ("csv.csv", text("ACTIVATED", "Activated"), "line 2: state is 'Activated', expected one of"),
    ("csv.csv", cell(2, "offset", "0.5"), "line 2: offset is '0.5', expected integers"),
    ("csv.csv", cell(2, "offset", "nan"), "line 2: offset is 'nan', expected integers"),
    ("csv.csv", cell(2, "offset", "3"), "line 2: conv0.in0: offset 0 is 3, expected 0: symm"),
    ("csv.csv", cell(1, "op", "scale"), "line 1: has column 'scale' twice, expected once"),
    ("csv.csv", again(2), "line 60: endpoint is 'conv0.in0' as in line 2, expected one row"),
    ("csv.csv", again(5), "line 60: endpoint is 'conv0.out0' as in line 5, expected one row"),
    ("csv.csv", text('"conv0.in0",', '"conv0.in0"x,'),
     "line 2: has 'x' behind a quoted text, expected ','"),
    ("csv.csv", text("ACTIVATED", "ACTI\0VATED"), "byte [0-9]+ is 0, expected a file of text"),
    ("csv.csv", lambda data: data + b"\n", "line 60: has 1 cells, expected 15"),
    # aimet
    *[(file, act(*change), pattern) for file in ALL for change, pattern in (
        (("offset", -120), "image: is symmetric with offset -120, expected -128, or 0"),
        (("is_symmetric", "yes"), 'is_symmetric: expected "True" or "False"'),
        (("is_symmetric", 1), 'is_symmetric: expected "True" or "False"'),
        (("max", 2.0), r"image\[0\]: has max 2, expected 0.996078 by its scale, offset and 8 bits"),
        (("min", -2.0), r"image\[0\]: has min -2, expected -1.00392 by"),
        (("min", 0.5), r"image\[0\]: has min 0.5, expected"),
        (("scale", 0.1), r"image\[0\]: has min -1.00392, expected -12.8 by"),
        (("offset", 128), r"point -256, expected an integer in \[-128, 127\]: its offset is 128, "
         r"expected one in \[-255, 0\]"),
        (("bitwidth", 4), "image: has zero point 120, expected an integer in"),
        (("bitwidth", 0), "image: has 0 bits, expected 2 to 32"),
        (("bitwidth", 64), "image: has 64 bits, expected 2 to 32"),
        (("bitwidth", 8.5), "bitwidth"), (("bitwidth", "8"), "bitwidth"),
        (("dtype", "int9"), "dtype: is no type of encodings, expected"),
        (("scale", 0), f"scale 0 is 0, {re.escape(SCALE)}"),
        (("scale", -0.1), f"scale 0 is -0.1, {re.escape(SCALE)}"),
        (("scale", 1e-42), f"scale 0 is 1e-42, {re.escape(SCALE)}"),
        (("scale", "0.1"), r"image\[0\].scale"), (("offset", "-128"), r"image\[0\].offset"),
        (("max", "1"), r"image\[0\].max"), (("offset", -127.5), "zero point -0.5, expected an int"),
    )],
    *[(file, member(["activation_encodings", "image", 0, "scale"], float("nan")), "line [0-9]+")
      for file in ALL],
    *[(file, member(["param_encodings", "c0_w", 1, key], value), pattern)
      for file in ALL for key, value, pattern in (
          ("bitwidth", 4, r"c0_w\[1\]: has another bitwidth or is_symmetric"),
          ("is_symmetric", "False", r"c0_w\[1\]: has another bitwidth or is_symmetric"),
          ("dtype", "float", "is a float encoding"), ("offset", -127, "c0_w: is symmetric with"))],
    *[(file, text('"relu0_out": [', '"image": ['), "the key 'image' appears twice") for file in ALL],
    *[(file, text('"c0_w": [', '"image": ['), "has two entries") for file in ALL],
    *[(file, member(["version"], version), f"has version {version}, expected")
      for file in ALL for version in ("0.9", "0.4.0x", "3.0.0")],
    ("aimet4.json", member(["version"], "1.0.0"), "is not of its version, expected a list"),
    ("aimet1.json", entry("offset", [-120]), "is symmetric with offset -120, expected -128, or"),
    ("aimet1.json", entry("is_sym", "True"), "is_sym"),
    ("aimet1.json", entry("bw", 0), "has 0 bits"), ("aimet1.json", entry("bw", 64), "has 64 bits"),
    ("aimet1.json", entry("dtype", "int9"), "is no type of encodings"),
    ("aimet1.json", entry("enc_type", "PER_ROW"), "has enc_type PER_ROW"),
    ("aimet1.json", entry("scale", [0.1, 0.2]), "has 2 scales and 1 offsets, expected as many"),
    ("aimet1.json", member(["version"], None), 'activation_encodings: is a list, and the file has '
     'no version, expected "version": "1.0.0" beside it'),
    ("aimet1.json", entry("dtype", "FLOAT"), "is a float encoding of 8 bits, expected 16 or 32"),
    ("aimet6.json", act("dtype", "float"), "is a float encoding of 8 bits, expected 16 or 32"),
    ("aimet6.json", member(["param_encodings", "c0_w", 0, "dtype"], "float"),
     "c0_w: is a float encoding of 16 channels, expected 1"),
    ("aimet1.json", member(["param_encodings", 0, "enc_type"], "PER_TENSOR"),
     "has enc_type PER_TENSOR and [0-9]+ scales, expected 1"),
    *[("aimet1.json", entry("scale", [x]), rf"scale 0 is \S+, {re.escape(SCALE)}")
      for x in (0, -1, 1e-41)],
    ("aimet1.json", entry("scale", ["0.1"]), "scale"),
    ("aimet1.json", entry("name", "relu0_out"), "has two entries, expected one per tensor"),
    ("aimet1.json", repeat(["param_encodings"]), "has two entries, expected one per tensor"),
    ("aimet2.json", onnx_entry("output_dtype", "int0"), "has 0 bits"),
    ("aimet2.json", onnx_entry("output_dtype", "int64"), "has 64 bits"),
    ("aimet2.json", onnx_entry("output_dtype", "float16"), "has output_dtype float16, expected"),
    ("aimet2.json", onnx_entry("y_zero_point", [128] * 16), "has zero point 128, expected an integer"),
    ("aimet2.json", onnx_entry("y_zero_point", ["1"] * 16), "y_zero_point"),
    ("aimet2.json", onnx_entry("y_scale", "1"), "y_scale"),
    ("aimet2.json", onnx_entry("axis", 9), "axis 9 .*expected an axis"),
    *[("aimet2.json", onnx_entry("y_scale", x), rf"scale 0 is \S+, {re.escape(SCALE)}")
      for x in (0, -1, 1e-41)],
    ("aimet2.json", repeat(["encodings"]), "has two entries, expected one per tensor"),
    # TensorRT
    *[("trt.cache", text("3c008081", bits), f"line 2: 'image': scale 0 is .*, {re.escape(SCALE)}")
      for bits in ("7fc00000", "ffc00000", "7f800000", "bc008081", "00000001", "80000000")],
    *[("trt.cache", text("TRT-8601-EntropyCalibration2", head), "line 1: expected 'TRT-<version>-")
      for head in ("TRT-110000-EntropyCalibration2", "TRT-8601-EntropyCalibration3", "1",
                   "TRT-4999-EntropyCalibration2", "TRT-8601-EntropyCalibration2 12",
                   "TRT-x-EntropyCalibration2", "", "TRT-12-MinMaxCalibration", "TRT-8601")],
    ("trt.cache", again(2), "line 14: conv0.in0: has two entries, expected one per tensor"),
    ("trt.cache", lambda data: data + b"12\n", "line 14: expected 'name: ' .*, not '12'"),
    ("trt.cache", text("3c008081", "3c00808"), "line 2: expected 'name: ' .* or 0, not 'image: "),
    ("trt.cache", text("3c008081", "3c0080811"), "line 2: expected 'name: '"),
    ("trt.cache", text("3c008081", "3c008081 x"), "line 2: expected 'name: '"),
    ("trt.cache", text("image:", "image\0x:"), "is 0, expected a file of text"),
    ("csv.csv", lambda data: b"", "is empty|no column"),
    ("trt.cache", lambda data: b"", "line 1: expected 'TRT-|is empty"),
    *[("trt.json", member(["act_quant_info", "image"], x), "'image': scale 0 is .*" +
       re.escape(SCALE)) for x in (0, -1.0, 1e-42, 1e300)],
    *[("trt.json", member(["act_quant_info", "image"], x), "act_quant_info.image")
      for x in ("1", [1], True)],
    ("trt.json", text('"relu0_out"', '"image"'), "image"),
    ("trt.json", member(["act_quant_info"], 1), "act_quant_info"),
    # ncnn
    *[("ncnn.table", text("conv0 127.0", f"conv0 {x}"), f"line 9: '{x}', expected a finite")
      for x in ("0", "-1", "nan", "inf", "1e39", "1e-40", "127x", "0x10")],
    ("ncnn.table", text("conv0 127.0", "conv0"), "line 9: expected multipliers"),
    ("ncnn.table", text("conv0 127.0", "conv0 127.0 63.5"), "line 9: conv0.in0: 2 scales do not"),
    ("ncnn.table", text("conv1 ", "conv0 "), "line 10: conv0.in0: has two entries"),
    ("ncnn.table", text("conv1_param_0 ", "conv0_param_0 "), "line 2: conv0.in1: "),
    ("ncnn.table", text("conv0 127.0", "conv0 127.0\0 5"), "is 0, expected a file of text"),
    ("ncnn.table", text("conv1_param_0", "#conv1_param_0"),
     "layer 'conv1': has a line for its data alone, expected 'conv1_param_0', too"),
    ("ncnn.table", text("conv0 127.0", "\nconv0 127.0"), "line 10: has an empty line above it"),
    # ppq-json
    ("ppq.json", text('"conv0": {', '"nobody": {'), "configs: describes [0-9]+ nodes, the model "
     "has [0-9]+ of them and not 'nobody', expected the model of this file"),
    ("ppq.json", text('"relu0": "', '"nobody": "'), "dispatchings.nobody: the model has no such"),
    ("ppq.json", text('"image": {', '"nothing": {'), "configs.conv0: describes 4 values, the node "
     "has 3 of them and not 'nothing', expected the model of this file"),
    ("ppq.json", config("conv0", "image", "state", "AWAKE"), "state: 'AWAKE', expected a state"),
    ("ppq.json", config("conv0", "image", "bit_width", 64), "bit_width: is 64, expected 2 to 32"),
    ("ppq.json", config("conv0", "image", "bit_width", "8"), "bit_width"),
    ("ppq.json", config("conv0", "image", "quant_max", 128), "range .* does not fit 8 bits"),
    ("ppq.json", config("conv0", "image", "dominator", 999), "dominator: does not name a root"),
    ("ppq.json", config("conv0", "image", "state", "OVERLAPPED"), "overlapped without a dominator"),
    ("ppq.json", member(["configs", "conv0", "image", "policy", "ASYMMETRICAL"], True), "policy"),
    *[("ppq.json", member(["values", "0", "scale"], x), "entry 0 is not a scale and zero point: .*"
       + re.escape(SCALE)) for x in (0, -1.0, 1e-42)],
    ("ppq.json", member(["values", "0", "scale"], "0.1"), "values.0.scale"),
    ("ppq.json", member(["values", "0", "zero_point"], 0.5), "entry 0 is not a scale and zero"),
    ("ppq.json", member(["values", "0", "zero_point"], 5.0), "offset"),
    ("ppq.json", member(["values", "0"], None), "without a scale"),
    # qonnx
    ("q.onnx", quant("signed", 2), "Quant.*its signed or narrow is neither 0 nor 1"),
    ("q.onnx", quant("narrow", 0.5), "Quant.*its signed or narrow is neither 0 nor 1"),
    ("q.onnx", quant("rounding_mode", 1), "Quant.*its rounding_mode is not ROUND"),
    ("q.onnx", quant("rounding_mode", "EVEN"), "Quant.*its rounding_mode is not ROUND"),
    *[("q.onnx", quant(slot=1, number=x), "Quant.*a scale is not finite and above 0")
      for x in (0, -1, np.nan, np.inf, 1e-42)],
    *[("q.onnx", quant(slot=2, number=x), "Quant.*a zeropt is no integer within its limits")
      for x in (0.5, 200, np.nan)],
    *[("q.onnx", quant(slot=3, number=x), "Quant.*its bitwidth is no constant from 2 to 32")
      for x in (0, 1, 8.5, 64, np.nan)],
]
NOTHING = "none of its {} entries is of the model: '{}' {}; expected names as '{}', "


def renamed(pattern, by):
    """Every name of the file that matches."""
    return lambda data: re.sub(pattern.encode(), by.encode(), data, flags=re.M)


MISSING, UNSCALED = "names no float32 value of the model", "has scale 0"
REFUSED += [  # files of another network
    ("trt.cache", renamed("^([a-z]+[0-9]*(_out)?:)", r"no_\1"),
     NOTHING.format(12, "no_image", MISSING, "image")),
    ("trt.json", renamed(r'"(?!act_quant)(\w+)":', r'"no_\1":'),
     NOTHING.format(12, "no_image", MISSING, "image")),
    ("trt.cache", renamed(": [0-9a-f]{8}$", ": 0"),
     NOTHING.format(12, "image", UNSCALED, "image")),
    ("csv.csv", renamed('^"', '"no_'), NOTHING.format("[0-9]+", "no_conv0.in0", MISSING, "conv0.in0")),
    ("aimet6.json", renamed('"(.*)": \\[', r'"no_\1": ['),
     NOTHING.format("[0-9]+", "no_image", MISSING, "[a-z0-9_]+")),
    ("aimet1.json", renamed('"name": "', '"name": "no_'),
     NOTHING.format("[0-9]+", "no_image", MISSING, "[a-z0-9_]+")),
    ("ncnn.table", renamed("^([a-z])", r"no_\1"),
     NOTHING.format("[0-9]+", "no_conv0_param_0", MISSING, "conv0")),
]
LENIENT = [  # files, change, entry that is left out and why, or a warning, or None
    ("csv.csv", cell(1, "op", "note"), "column 'note' is unknown and left out"),
    ("csv.csv", cell(2, "endpoint", '"no.in0"'), ("no.in0", MISSING)),
    ("csv.csv", cell(5, "endpoint", '"no.in0"'), ("no.in0", MISSING)),
    ("csv.csv", text("\n", "\r\n", -1), None),
    ("trt.cache", text("\n", "\r\n", -1), None),
    ("trt.cache", text("3c008081", "00000000"), ("image", UNSCALED)),
    ("trt.cache", text("3c008081", "0"), ("image", UNSCALED)),
    ("trt.cache", text("TRT-8601-EntropyCalibration2", "TRT-100300-MinMaxCalibration"), None),
    ("trt.cache", text("TRT-8601-EntropyCalibration2", "TRT-5000-EntropyCalibration"), None),
    ("trt.cache", text("image:", "nothing:"), ("nothing", MISSING)),
    ("trt.json", text('"image"', '"nothing"'), ("nothing", MISSING)),
    ("ncnn.table", text("\n", "\r\n", -1), None),
    ("ncnn.table", lambda data: data + b"nothing 127.0\n\n", ("nothing", MISSING)),
    ("ncnn.table", text("conv0 127.0", "#conv0 127.0"),
     ("conv0.in1", "the layer's data have no entry")),
    ("ncnn.table", lambda data: data + b"relu1 127.0\n",
     ("relu1.in0", "the layer has no quantized weight")),
    ("aimet6.json", text('"image"', '"nothing"'), ("nothing", MISSING)),
    *[(file, member(["activation_encodings", place], value), ("image", "is in float by the file"))
      for file, place, value in (
          ("aimet6.json", "image", [{"bitwidth": 16, "dtype": "float"}]),
          ("aimet1.json", 0, {"name": "image", "dtype": "FLOAT", "bw": 16,
                              "enc_type": "PER_TENSOR"}))],
    ("aimet1.json", member(["activation_encodings", 0], {
        "name": "nothing", "dtype": "FLOAT", "bw": 16, "enc_type": "PER_TENSOR"}),
     ("nothing", MISSING)),
    # AIMET's use_unsigned_symmetric, and its strict_symmetric
    ("aimet6.json", member(["activation_encodings", "image"], [
        {"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "min": 0, "max": 2.55,
         "offset": 0, "scale": 0.01}]), None),
    ("aimet1.json", entry("offset", [-127]), None),
]


def run(folder, file, change, *options):
    """stderr and status of an import of the changed file, and whether it left something."""
    form = EXPORTS[file][1]
    path = folder / f"changed{pathlib.Path(file).suffix}"
    path.write_bytes(change((folder / file).read_bytes()))
    model = [] if form == "qonnx" else ["--model", (folder / file).with_suffix(".onnx")]
    out = folder / "out"
    words = [QG, "import", path, "--format", form, *model, "-o", out, "--json", *options]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    left = out.exists()
    if left:
        shutil.rmtree(out)
    return done, left


def export(folder):
    for backend in {row[0] for row in EXPORTS.values()}:
        qg("quantize", MODEL, "-b", backend, "-d", CALIB, "-n", 8, "-o", folder / backend)
    for file, (backend, form, *version) in EXPORTS.items():
        (folder / file).parent.mkdir(exist_ok=True)
        qg("export", folder / backend, "--format", form, "-o", folder / file,
           *(["--version", *version] if version else []))


def separate(folder):
    """Each export in a folder of its own: files beside it have its name."""
    for file in list(EXPORTS):
        EXPORTS[f"{file.replace('.', '-')}/{file}"] = EXPORTS.pop(file)
    export(folder)
    return {pathlib.Path(file).name: file for file in EXPORTS}


def is_refused(done, left, pattern):
    return done.returncode == 1 and not left and not done.stdout and \
        len(done.stderr.splitlines()) == 1 and re.search(pattern, done.stderr)


def is_read(done, left, told):
    if done.returncode or not left or len(done.stderr.splitlines()) != (told is not None):
        return False
    rows = json.loads(done.stdout).get("left_out", [])
    if isinstance(told, tuple):
        entry_name, why = told
        return rows == [{"entry": entry_name, "why": why}] and \
            f"1 left out, '{entry_name}' first: {why}" in done.stderr
    return not rows and (told or "") in done.stderr


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        path = separate(folder)
        rows = [(is_read, name, bytes, None, *strict) for name in path
                for strict in ((), ("--strict",))] + \
            [(is_refused, *row) for row in REFUSED] + [(is_read, *row) for row in LENIENT] + \
            [(is_refused, name, change, f"1 entries are left out, '{told[0]}' first: {told[1]}, "
              "expected none with --strict", "--strict")
             for name, change, told in LENIENT if isinstance(told, tuple)]
        for i, (judge, name, change, expected, *options) in enumerate(rows):
            done, left = run(folder, path[name], change, *options)
            if not judge(done, left, expected):
                print(f"FAILED row {i}, {name}: expected {judge.__name__} {expected}: status "
                      f"{done.returncode}, {done.stderr}")
                failures += 1
    print(f"{len(rows)} files, {failures} failed")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
