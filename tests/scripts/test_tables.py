#!/usr/bin/env python3
"""Tables of scales that are imported: what the seeds of their fuzzers mean, forms that
real files have, and what is refused with which words.  Files that only their vendor's
tools read have the members of the vendors' documented examples."""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    import yaml
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
CORPUS = pathlib.Path("tests/fuzz/corpus")
FOUR = [0.01, 0.02, 0.03, 0.04]
INT8, NARROW, UINT8 = [-128, 127], [-127, 127], [0, 255]


def tensor(limits, scale, zero=0):
    return limits, "per-tensor", None, [scale], [zero]


def channels(limits, scales):
    return limits, "per-channel", 0, scales, [0] * len(scales)


def bits(word):
    return np.uint32(word).view(np.float32)


def constants():
    """Weights and bias of the network, by name."""
    random = np.random.RandomState(1)
    return {name: random.rand(*shape).astype("f4")
            for name, shape in (("w", (4, 2, 1, 1)), ("b", (4,)), ("v", (4, 2, 1, 1)))}


def of_tensorrt(name):
    """TensorRT developer guide 8.6, scale of a weight: max |w| / 127, per output channel."""
    return channels(NARROW, (np.abs(constants()[name]).max((1, 2, 3)) / np.float64(127)).tolist())


BLOCKS = [0.01, 0.02, 0.02, 0.04, 0.03, 0.06, 0.04, 0.08]
SEEDS = {  # format and seed: {endpoint: range, granularity, axis, scales, offsets}
    ("aimet", "encodings/dictionary.json"): {
        "c.in0": tensor(UINT8, 0.1, 3), "r.out0": tensor(INT8, 0.25),
        "a.out0": tensor([0, 15], 0.5, 3), "c.in1": channels(INT8, FOUR),
        "d.in1": tensor(NARROW, 0.5)},
    ("aimet", "encodings/list.json"): {
        "c.in0": tensor(INT8, 0.1), "a.out0": tensor(INT8, 0.5),
        "c.in1": channels(INT8, FOUR)},
    ("aimet", "encodings/onnx.json"): {
        "c.in0": tensor(UINT8, 0.1, 7), "c.in1": channels([-8, 7], FOUR),
        "d.in1": (INT8, "block", 1, BLOCKS, [0] * 8), "a.out0": tensor([-448, 448], 0.5)},
    ("tensorrt-json", "tensorrt_json/ranges.json"): {
        "c.in0": tensor(INT8, 12.7 / 127), "r.out0": tensor(INT8, 0.05),
        "a.out0": tensor(INT8, 3 / 127), "c.in1": tensor(INT8, 2 / 127),
        "d.in1": of_tensorrt("v")},
    ("tensorrt-cache", "tensorrt_cache/cache"): {
        "c.in0": tensor(INT8, bits(0x3c010a14)), "r.out0": tensor(INT8, bits(0x3d8a4553)),
        "a.out0": tensor(INT8, 0.0625), "c.in1": of_tensorrt("w"), "d.in1": of_tensorrt("v")},
    ("ncnn-table", "ncnn_table/table"): {
        "c.in1": channels(NARROW, [1 / 127, 1 / 63.5, 1 / 31, 0.01]),
        "d.in1": channels(NARROW, [0.08, 0.08, 0.125, 0.125]),  # two groups
        "c.in0": tensor(NARROW, 0.02), "d.in0": tensor(NARROW, 0.05)},
    ("csv", "csv/sheet.csv"): {
        "c.in0": tensor(INT8, 0.1), "c.in1": channels(NARROW, [0.1, 0.2, 0.3, 0.4]),
        "r.out0": tensor(UINT8, 0.5, 3)},
}
ENTRY = {"bitwidth": 8, "is_symmetric": "True", "offset": -128, "scale": 0.1}
LIST = {"name": "x", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": True,
        "scale": [0.1], "offset": [-128]}
REFUSED = [  # format, document, words of the message
    ("aimet", [], "is not an object"),
    ("aimet", {"foo": 1}, "has no entries, expected 'activation_encodings' or"),
    ("aimet", {"version": "2.0.0"}, "has no entries, expected a list 'encodings'"),
    ("aimet", {"version": "3.0.0"}, "has version 3.0.0, expected 0.4.0 to 0.6.1"),
    ("aimet", {"activation_encodings": {"x": []}}, "is no list of objects"),
    ("aimet", {"activation_encodings": {"x": [ENTRY | {"bitwidth": 40}]}}, "has 40 bits"),
    ("aimet", {"activation_encodings": {"x": [ENTRY | {"dtype": "float"}]}},
     "is a float encoding of 8 bits, expected 16 or 32"),
    ("aimet", {"activation_encodings": {"x": [ENTRY | {"scale": -1}]}}, "scale 0 is -1"),
    ("aimet", {"activation_encodings": {"x": [ENTRY | {"offset": 5}]}}, "has zero point -133"),
    ("aimet", {"activation_encodings": {"x": [ENTRY] * 3}}, "c.in0"),
    ("aimet", {"version": "1.0.0", "param_encodings": [LIST | {"enc_type": "LPBQ"}]},
     "has enc_type LPBQ"),
    ("aimet", {"version": "0.6.0", "activation_encodings": {}, "param_encodings": {"w": [
        {"bitwidth": 8, "is_symmetric": "True", "min": -1, "max": 1}, 2]}},
     "expected an object per channel"),
    ("aimet", {"version": "1.0.0", "activation_encodings": [LIST, LIST]}, "has two entries"),
    ("aimet", {"version": "1.0.0", "activation_encodings": [LIST | {"offset": []}]},
     "has 1 scales and 0 offsets"),
    ("aimet", {"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int64",
                                                  "y_scale": 1}]}, "has 64 bits"),
    ("aimet", {"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8",
                                                  "y_scale": {"x": 1}}]},
     "no y_scale of numbers"),
    ("tensorrt-json", {"act_quant_info": {"x": -1}}, "expected a finite number > 0"),
    ("tensorrt-json", {}, "act_quant_info"),
    ("tensorrt-cache", "x: 3c010a14\n", "line 1: expected 'TRT-"),
    ("tensorrt-cache", "TRT-8601-EntropyCalibration2\nx 3c010a14\n",
     "line 2: expected 'name: '"),
    ("tensorrt-cache", "TRT-8601-MinMaxCalibration\nx: 7f800000\n",
     "expected a finite number"),
    ("ncnn-table", "c 1.0\nc 2.0\n", "has two entries"),
    ("ncnn-table", "c inf\n", "line 1: 'inf', expected a finite multiplier"),
    ("ncnn-table", "c_param_0\n", "line 1: expected multipliers"),
    ("ncnn-table", "c_param_0 1 2 3\n", "c.in1: 3 scales do not fit"),
    ("csv", "endpoint,state\n", "has no column 'policy'"),
    ("csv", 'endpoint,state,policy,bits,qmin,qmax,scale\n"c.in0,ACTIVATED\n',
     "does not end"),
    ("csv", "endpoint,state,policy,bits,qmin,qmax,scale\nc.in0,BAKED,round,8,0,255,1\n",
     "line 2: policy is 'round'"),
    ("csv", "endpoint,value,state,policy,bits,qmin,qmax,scale\nc.in0,x,ACTIVATED,per-tensor "
     "linear symmetric,8,-128,127,0.1\nc.out0,bn,ACTIVATED,per-tensor linear symmetric,8,-128,"
     "127,0.1\n", "line 3: c.out0 is the value 'bn', 'c' in the model, expected the model that "
     "qg export wrote beside the file"),
    ("tensorrt-cache", "TRT-8601-EntropyCalibration2\nx: 3cf5\n",
     "line 2: expected 'name: ' and eight hexadecimal digits, or 0"),
    ("aimet", {"activation_encodings": {"x": [{"bitwidth": 32, "dtype": "int", "is_symmetric":
               "False", "scale": 0.1, "offset": -2147483648}]}, "param_encodings": {}},
     "has zero point 2147483648, expected an integer in [0, 2147483647]"),
]


def network(path):
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], "c"),
             helper.make_node("Relu", ["c"], ["r"], "r"),
             helper.make_node("Conv", ["r", "v"], ["d"], "d", group=2),
             helper.make_node("Add", ["r", "d"], ["a"], "a")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])],
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants().items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                ir_version=8), path)


def imported(form, file, folder):
    words = ["import", file, "--format", form, "--model", f"{folder}/m.onnx", "-o",
             f"{folder}/s"]
    return subprocess.run([QG, *words], capture_output=True, text=True, check=False)


def check_seed(form, seed, want, folder):
    run = imported(form, CORPUS / seed, folder)
    if run.returncode:
        return run.stderr
    quant = json.loads(pathlib.Path(folder, "s/quant.json").read_text())
    if not quant["manifest"]["backend"]["name"].startswith(f"imported from {form}"):
        return quant["manifest"]["backend"]["name"]
    got = {f"{t['node']}.{t['slot']}": t for t in quant["tqcs"]
           if t["state"] != "OVERLAPPED"}
    if got.keys() != want.keys():
        return f"records of {sorted(got)}, expected {sorted(want)}"
    for name, (limits, granularity, axis, scale, offset) in want.items():
        t = got[name]
        same = (t["range"] == limits and granularity in t["policy"] and t["axis"] == axis
                and np.allclose(t["scale"], scale, rtol=2e-7, atol=0)
                and (t["offset"] or [0] * len(scale)) == offset)
        if not same:
            return f"{name}: {t}"
    return None


def check_cache(folder):
    """The example of onnxruntime's reader, ReadDynamicRange in
    onnxruntime/core/providers/tensorrt: 4000889d is 2.008338."""
    file = pathlib.Path(folder, "x.cache")
    file.write_text("TRT-7103-EntropyCalibration2\nx: 4000889d\n")
    run = imported("tensorrt-cache", file, folder)
    scale = json.loads(pathlib.Path(folder, "s/quant.json").read_text())["tqcs"][0]["scale"]
    return None if abs(scale[0] - 2.008338) < 1e-6 else f"scale {scale} {run.stderr}"


def exported(form, end, folder):
    out = pathlib.Path(folder, f"out{end}")
    subprocess.run([QG, "export", f"{folder}/s", "--format", form, "-o", out], check=True,
                   stdout=subprocess.DEVNULL)
    return out.read_text()


def check_cache_versions(folder):
    """The head of a file is the version as TensorRT writes it; others are refused."""
    imported("csv", CORPUS / "csv/sheet.csv", folder)
    for version, head in (("8.6.1", "TRT-8601-"), ("10.13.3", "TRT-101303-"), ("8.6", None),
                          ("8.6.1.2", None), ("8.100.1", None), ("4.1.1", None),
                          ("11.0.0", None), ("8..1", None), ("-8.6.1", None), ("8.6.x", None)):
        out = pathlib.Path(folder, f"{version}.cache")
        run = subprocess.run([QG, "export", f"{folder}/s", "--format", "tensorrt-cache",
                              f"--version={version}", "-o", out], capture_output=True, text=True)
        if head and (run.returncode or not out.read_text().startswith(head)):
            return f"{version}: {run.stderr}, expected {head}"
        if not head and (run.returncode != 1 or f"version '{version}'" not in run.stderr or
                         out.exists()):
            return f"{version}: {run.returncode} {run.stderr}, expected a refusal"
    return None


def check_rknn(folder):
    """RKNN Toolkit2 user guide, hybrid quantization: an int8 tensor in [-1, 1] has these
    members, lists of one number per tensor."""
    imported("csv", CORPUS / "csv/sheet.csv", folder)
    tree = yaml.safe_load(exported("rknn-cfg", ".cfg", folder))
    want = {"qtype": "symmetric_quantized", "qmethod": "layer", "dtype": "int8",
            "min": [-12.8], "max": [12.7], "scale": [0.1], "zero_point": [0],
            "ori_min": [-12.8], "ori_max": [12.7]}
    got = tree["quantize_parameters"]["x"]
    numbers = all(np.allclose(got[k], v, rtol=1e-6) if isinstance(v, list) else got[k] == v
                  for k, v in want.items())
    unsigned = tree["quantize_parameters"]["r"]
    fine = list(got) == list(want) and numbers and unsigned["zero_point"] == [3 - 128]
    return None if fine and tree["custom_quantize_layers"] == {} else str(tree)


def check_ascend(folder):
    """The record of AMCT's documentation, "Quantization factor record file"."""
    text = exported("ascend-record", ".txt", folder)
    want = ('record {\n  key: "c"\n  value {\n    scale_d: 0.1\n    offset_d: 0\n'
            "    scale_w: 0.1\n    scale_w: 0.2\n    scale_w: 0.3\n    scale_w: 0.4\n"
            + 4 * "    offset_w: 0\n"
            + "    channels: 2\n    height: 4\n    width: 4\n  }\n}\n")
    words = text.split()
    close = [a == b or abs(float(a) - float(b)) < 1e-6 for a, b in zip(words, want.split())]
    return None if all(close) and len(words) == len(want.split()) else text


def check_nxp(folder):
    """Limits of activations are scalars with defaults, and the file is a model that ONNX
    Runtime runs; a name that is taken is refused."""
    out = pathlib.Path(folder, "nxp.onnx")
    words = [QG, "export", f"{folder}/s", "--format", "nxp-onnx", "-o", out]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    graph = onnx.load(out).graph
    listed = {i.name for i in graph.input}
    got = {i.name: float(numpy_helper.to_array(i)) for i in graph.initializer
           if i.name in listed}
    x = np.ones((1, 2, 4, 4), np.float32)
    ours, plain = (ort.InferenceSession(str(m)).run(["a"], {"x": x})[0]
                   for m in (out, f"{folder}/m.onnx"))
    model = onnx.load(f"{folder}/s/model.onnx")
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "x_min"
    del model.graph.value_info[:]
    onnx.save(model, f"{folder}/n.onnx")
    subprocess.run([QG, "import", CORPUS / "csv/sheet.csv", "--format", "csv", "--model",
                    f"{folder}/n.onnx", "-o", f"{folder}/s2"], capture_output=True, check=True)
    words[2] = f"{folder}/s2"
    refused = subprocess.run(words, capture_output=True, text=True, check=False).stderr
    fine = np.allclose([got["x_min"], got["x_max"]], [-12.8, 12.7]) and \
        np.array_equal(ours, plain) and "'x_min': its name is that of the limit" in refused
    return None if fine else f"{got} {refused}"


def check_csv(folder):
    """RFC 4180 whatever the names; all records come back."""
    name = 'a,"b"\n' + "n" * 600
    model = onnx.load(f"{folder}/m.onnx")
    model.graph.node[0].name = name
    onnx.save(model, f"{folder}/names.onnx")
    snapshot, back = f"{folder}/s", f"{folder}/back"
    subprocess.run([QG, "quantize", f"{folder}/names.onnx", "-b", "trt-int8", "-d", "random:2",
                    "-o", snapshot], check=True, stdout=subprocess.DEVNULL)
    exported("csv", ".csv", folder)
    with open(f"{folder}/out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    subprocess.run([QG, "import", f"{folder}/out.csv", "--format", "csv", "--model",
                    f"{folder}/out.onnx", "-o", back], check=True, stdout=subprocess.DEVNULL)
    before, after = ({f"{t['node']}.{t['slot']}": t["scale"] for t in json.loads(
        pathlib.Path(path, "quant.json").read_text())["tqcs"] if t["scale"] and t["state"] in (
            "ACTIVATED", "PASSIVE", "BAKED", "PASSIVE_BAKED")} for path in (snapshot, back))
    places = {row[k] for row in rows for k in ("endpoint", "dominator")}
    fine = before == after and f"{name}.in1" in before and f"{name}.in0" in places and \
        all(set(row) == set(rows[0]) and None not in row.values() for row in rows)
    return None if fine else f"records of {before.keys() ^ after.keys()}"


def check_other_csv(folder):
    """A network whose BatchNormalization quantize has fused: the user's own model has other
    values at the same endpoints."""
    model = onnx.load(f"{folder}/m.onnx")
    four = [numpy_helper.from_array(np.full(4, x, "f4"), n)
            for n, x in (("s", 2), ("t", 1), ("u", 0), ("q", 3))]
    model.graph.initializer.extend(four)
    model.graph.node.insert(3, helper.make_node("BatchNormalization", ["d", "s", "t", "u", "q"],
                                                ["n"], "n"))
    model.graph.node[4].input[1] = "n"
    own = f"{folder}/own.onnx"
    onnx.save(model, own)
    subprocess.run([QG, "quantize", own, "-b", "ort-int8", "-d", "random:2", "-o",
                    f"{folder}/s"], check=True, stdout=subprocess.DEVNULL)
    exported("csv", ".csv", folder)
    said = []
    for path in own, f"{folder}/out.onnx":
        run = subprocess.run([QG, "import", f"{folder}/out.csv", "--format", "csv", "--model",
                              path, "-o", f"{folder}/back"], capture_output=True, text=True)
        said.append(run.stderr)
    fine = "is the value 'n', 'd' in the model" in said[0] and not said[1]
    return None if fine else f"{said}"


def check_mnn(folder):
    """Entries are called after the value of a node, however long its name."""
    names = ["n" * 600 + end for end in "cd"]
    random = np.random.RandomState(2)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], names[:1], "a"),
         helper.make_node("Conv", [names[0], "v"], names[1:], "b")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])],
        [helper.make_tensor_value_info(names[1], TensorProto.FLOAT, [1, 4, 4, 4])],
        [numpy_helper.from_array(random.rand(*s).astype("f4"), n)
         for n, s in (("w", (4, 2, 1, 1)), ("v", (4, 4, 1, 1)))])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                ir_version=8), f"{folder}/long.onnx")
    subprocess.run([QG, "quantize", f"{folder}/long.onnx", "-b", "mnn-int8", "-d", "random:2",
                    "-o", f"{folder}/s"], check=True, stdout=subprocess.DEVNULL)
    keys = json.loads(exported("mnn-json", ".json", folder)).keys() - {"shape"}
    want = {f"{n} {end}_tensor_0" for n in names for end in ("input", "output")}
    if keys != want:
        return f"{len(keys)} entries, expected {len(want)}"
    return check_mnn_tensors(folder)


def check_mnn_tensors(folder):
    """A tensor of MNN has one scale: its converter fuses the Relu, and a pool keeps the scale."""
    subprocess.run([QG, "quantize", "configs/models/digits.onnx", "-b", "mnn-int8", "-d",
                    "configs/data/digits_calib.npy", "-n", "16", "-o", f"{folder}/s"],
                   check=True, stdout=subprocess.DEVNULL)
    scale = json.loads(exported("mnn-json", ".json", folder))
    torn = [[one, two] for one, two in (
        ("batchnormalization0_out output", "batchnormalization1_out input"),
        ("batchnormalization1_out output", "batchnormalization2_out input"),
        ("add0_out output", "batchnormalization3_out input"))
            if scale[f"{one}_tensor_0"] != scale[f"{two}_tensor_0"]]
    return f"one tensor with two scales: {torn}" if torn else None


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        network(f"{folder}/m.onnx")
        for (form, seed), want in SEEDS.items():
            wrong = check_seed(form, seed, want, folder)
            if wrong:
                print(f"FAILED {seed}: {wrong}")
                bad += 1
        for check in (check_cache, check_cache_versions, check_rknn, check_ascend, check_nxp,
                      check_csv, check_other_csv, check_mnn):
            wrong = check(folder)
            if wrong:
                print(f"FAILED {check.__name__}: {wrong}")
                bad += 1
        for form, document, words in REFUSED:
            file = pathlib.Path(folder, "x")
            file.write_text(document if isinstance(document, str) else json.dumps(document))
            run = imported(form, file, folder)
            if run.returncode != 1 or words not in run.stderr:
                print(f"FAILED {form} {document}: {run.returncode} {run.stderr}, expected "
                      f"{words}")
                bad += 1
    print(f"{len(SEEDS)} files, {len(REFUSED)} refused, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
