#!/usr/bin/env python3
"""One operator per network, in ONNX Runtime: onnx-qoperator and onnx-qdq load as exported,
and give the outputs of the simulation up to 10 % of the energy of its quantization noise.
The values before the operator lie on a grid whose zero point is not 0, so that code 0 is
not the value 0.  So do activations of 4 bits, for which the runtime has no kernels."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

FORMATS = ("onnx-qdq", "--placement", "ort"), ("onnx-qoperator",)
NARROW = "bits=4 range=-7,7", "bits=4 range=0,15 policy=per-tensor,linear,asymmetric"
BACKENDS = [(name,) for name in ("ort-int8", "ppl-dsp-int8", "trt-int8")] + [
    ("ort-int8", *(word for slot in ("input", "output")
                   for word in ("--set", f"slot={slot} constant=no {grid}")))
    for grid in NARROW]
LIMIT = 0.1
# ONNX Runtime 1.31: its optimizer fails on this operator between Q and DQ, too.
PLAIN_ONLY = {"CenterCropPad"}


def ints(*v):
    return np.array(v, "int64")


PADS, MS = ints(0, 0, 1, 1, 0, 0, 2, 1), "com.microsoft"
# name: operator, constants behind the first input, attributes, operators that must not be
# on codes; {} stands for a weight or bias with these dims.
CASES = {
    "pad": ("Pad", [PADS], {}),
    "pad with axes": ("Pad", [ints(1, 2), None, ints(2)], {}),
    "pad with a value": ("Pad", [PADS, np.float32(0.5)], {}),
    "pad with zero": ("Pad", [PADS, np.float32(0)], {}),
    "pad by reflection": ("Pad", [PADS], {"mode": "reflect"}),
    "pad by edges": ("Pad", [PADS], {"mode": "edge"}),
    "pad around": ("Pad", [PADS], {"mode": "wrap"}),
    "crop and pad": ("CenterCropPad", [ints(6, 10)], {"axes": [2, 3]}),
    "largest of all": ("GlobalMaxPool", [], {}),
    "largest": ("MaxPool", [], {"kernel_shape": [2, 2]}),
    "largest with pads": ("MaxPool", [], {"kernel_shape": [3, 3], "pads": [1] * 4}),
    "largest, dilated": ("MaxPool", [], {"kernel_shape": [2, 2], "dilations": [2, 2]}),
    "average with pads": ("AveragePool", [], {"kernel_shape": [3, 3], "pads": [1] * 4}),
    "average that counts pads": ("AveragePool", [], {"kernel_shape": [3, 3], "pads": [1] * 4,
                                                     "count_include_pad": 1}),
    "reverse": ("ReverseSequence", [ints(2)], {"batch_axis": 0, "time_axis": 1}),
    "gather": ("Gather", [ints(3, 0, 0)], {"axis": 1}),
    "gather elements": ("GatherElements", [ints(*range(4)).reshape(1, 4, 1, 1)], {"axis": 1}),
    "compress": ("Compress", [np.array([1, 0, 1, 1], bool)], {"axis": 1}),
    "slice from behind": ("Slice", [ints(-1), ints(-9), ints(3), ints(-1)], {}),
    "tile": ("Tile", [ints(1, 1, 2, 1)], {}),
    "depth to space": ("DepthToSpace", [], {"blocksize": 2}),
    "resize": ("Resize", [None, np.float32([1, 1, 2, 2])], {"mode": "nearest"}),
    "resize linearly": ("Resize", [None, np.float32([1, 1, 2, 2])], {"mode": "linear"}),
    "resize to smaller": ("Resize", [None, np.float32([1, 1, 2, 0.5])], {
        "mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    "resize cubically": ("Resize", [None, np.float32([1, 1, 2, 2])], {"mode": "cubic"}),
    "resize cubically to smaller": ("Resize", [None, np.float32([1, 1, 2, 0.5])],
                                    {"mode": "cubic"}),
    "clip": ("Clip", [np.float32(-.1), np.float32(.4)], {}),
    "six": ("Clip", [np.float32(0), np.float32(6)], {}),
    "rectified": ("Relu", [], {}),
    "leaky": ("LeakyRelu", [], {"alpha": 0.1}),
    "softmax": ("Softmax", [], {"axis": 1}),
    "fused convolution": ("FusedConv", [(5, 4, 3, 3), (5,)],
                          {"domain": MS, "activation": "Relu"}),
    "fused product": ("FusedGemm", [(8, 5), (5,)], {"domain": MS, "activation": "Relu"}),
    "attention": ("Attention", [(8, 24), (24,)], {"domain": MS, "num_heads": 2}),
}
ROWS = {"FusedGemm": [-1, 8], "Attention": [1, -1, 8]}  # dims that the operator reads


def network(name, random, path):
    """Conv, the operator, Conv or Sigmoid."""
    op, constants, attributes = CASES[name]
    node, held = helper.make_node, {
        "w": random.normal(0, 0.4, (4, 4, 3, 3)), "b": random.normal(0.3, 0.3, 4)}
    nodes, at = [node("Conv", ["x", "w", "b"], ["c"], "first", pads=[1] * 4)], "c"
    if op in ROWS:
        held["rows"] = ints(*ROWS[op])
        nodes.append(node("Reshape", [at, "rows"], ["r"], "reshape"))
        at = "r"
    names = [at]
    for k, c in enumerate(constants):
        names.append("" if c is None else f"k{k}")
        if c is not None:
            held[names[-1]] = random.normal(0, 0.5, c) if isinstance(c, tuple) else c
    nodes += [node(op, names, ["m"], "middle", **attributes), node("Sigmoid", ["m"], ["y"], "last")]
    tensors = [numpy_helper.from_array(
        np.asarray(v, "f4") if np.asarray(v).dtype == "f8" else np.asarray(v), k)
               for k, v in held.items()]
    graph = helper.make_graph(
        nodes, "one", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], tensors)
    domains = [helper.make_opsetid("", 18), helper.make_opsetid(MS, 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), path)


def theirs(path, x, level):
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    agreement.do_not_saturate(options, path)
    run = ort.InferenceSession(str(path), options, ["CPUExecutionProvider"]).run
    return np.stack([run(None, {"x": sample})[0] for sample in x])


def check(bad, name, backend, folder):
    random = np.random.default_rng(len(name))
    network(name, random, folder / "one.onnx")
    x = random.normal(0.3, 1, (6, 1, 4, 8, 8)).astype("f4")
    s = agreement.Snapshot(folder / "s", folder / "one.onnx", backend[0], x, *backend[1:])
    simulated, plain = s.outputs("simulate", "reference"), s.outputs("float")
    levels = ort.GraphOptimizationLevel
    for words in FORMATS:
        file, _ = s.export("q.onnx", "--format", *words)
        for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
            if level == levels.ORT_ENABLE_ALL and CASES[name][0] in PLAIN_ONLY:
                continue
            where = f"{name}: {' '.join(backend)}: {words[0]}: {level.name}"
            try:
                energy = agreement.energy([theirs(file, x, level)], simulated, plain)
            except Exception as wrong:  # pylint: disable=broad-except
                bad.append(f"{where}: {str(wrong)[:200]}")
                continue
            if not energy <= LIMIT:
                bad.append(f"{where}: energy of the difference {energy:.3g} of the noise")


def check_rounding(bad, folder):
    """nxp-int8 rounds ties up, and down at inputs; QuantizeLinear rounds them to even.  With its
    scales of powers of two a sum of products is often a tie: rows say so, and with half-even
    the runtime computes the simulation."""
    random = np.random.default_rng(9)
    network("rectified", random, folder / "one.onnx")
    x = random.integers(-40, 40, (6, 1, 4, 8, 8)).astype("f4") / 16
    rounding = ("--set", "slot=[input,output] rounding=half-even",
                "--set", "pass=nxp-input-rounding run=no")
    for words in ((), rounding):
        s = agreement.Snapshot(folder / f"nxp{len(words)}", folder / "one.onnx", "nxp-int8", x, *words)
        file, report = s.export("q.onnx", "--format", "onnx-qdq", "--placement", "ort")
        lost = any(r["lost"] == "rounding" and r["changes_results"] for r in report["losses"])
        for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
            energy = agreement.energy([theirs(file, x, level)], s.outputs("simulate", "reference"),
                                      s.outputs("float"))
            if lost == bool(words) or (energy > 1e-6) == bool(words):
                bad.append(f"nxp-int8 {words}: {level.name}: lost {lost}, energy {energy:.3g}")


def main():
    bad, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        check_rounding(bad, pathlib.Path(folder))
    for name in CASES:
        for backend in BACKENDS:
            with tempfile.TemporaryDirectory() as folder:
                check(bad, name, backend, pathlib.Path(folder))
            count += 1
    for line in bad:
        print("FAILED", line)
    print(f"{count} networks in {len(FORMATS)} formats, {len(bad)} failures")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
