#!/usr/bin/env python3
"""Operators of opsets 17 to 23 in openvino-ir: OpenVINO loads the file, and computes the
outputs of the float network (nothing is quantized) and of the simulation."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import TensorProto as T, helper as h
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import qg

CORE = ov.Core()
rng = np.random.default_rng(7)
IMAGE, TOKENS = (1, 8, 6, 6), (1, 6, 16)


def held(*shape):
    return rng.normal(0, 1, shape).astype("f")


def case(op, opset, shape, *inputs, needs=None, **attributes):
    return op, opset, shape, inputs, attributes


CASES = [
    case("LayerNormalization", 17, TOKENS, held(16), held(16)),
    case("LayerNormalization", 17, TOKENS, held(6, 16), axis=1, epsilon=1e-3),
    case("RMSNormalization", 23, TOKENS, held(16)),
    case("RMSNormalization", 23, IMAGE, held(6, 6), axis=2, epsilon=1e-2),
    case("GroupNormalization", 18, IMAGE, held(4), held(4), num_groups=4),
    case("GroupNormalization", 21, IMAGE, held(8), held(8), num_groups=2, epsilon=1e-3),
    case("InstanceNormalization", 17, IMAGE, held(8), held(8)),
    case("Gelu", 20, TOKENS), case("Gelu", 20, TOKENS, approximate="tanh"),
    case("Swish", 24, TOKENS), case("Swish", 24, TOKENS, alpha=1.7),
    case("Round", 17, TOKENS), case("Reciprocal", 17, TOKENS), case("Tan", 17, TOKENS),
    case("Atan", 17, TOKENS), case("Sinh", 17, TOKENS), case("Cosh", 17, TOKENS),
    case("Asinh", 17, TOKENS), case("Tile", 17, TOKENS, np.int64([1, 2, 3])),
    case("GatherElements", 17, TOKENS, rng.integers(0, 16, (1, 6, 5)), axis=-1),
    case("Elu", 17, TOKENS, alpha=0.7), case("Softsign", 17, TOKENS),
    case("LogSoftmax", 17, TOKENS, axis=1), case("Sign", 17, TOKENS),
    case("Sin", 17, TOKENS), case("Cos", 17, TOKENS),
    case("ReduceL1", 18, TOKENS, np.int64([1])), case("ReduceL2", 18, TOKENS, np.int64([-1])),
    case("ReduceProd", 18, TOKENS, np.int64([1])),
    case("Expand", 17, (1, 6, 1), np.int64([2, 6, 5])),
    case("DepthToSpace", 13, IMAGE, blocksize=2),
    case("DepthToSpace", 13, IMAGE, blocksize=2, mode="CRD"),
    case("SpaceToDepth", 13, IMAGE, blocksize=2),
    case("Attention", 23, (1, 2, 6, 8), held(1, 2, 6, 8), held(1, 2, 6, 8)),
    case("Attention", 23, (1, 4, 6, 8), held(1, 2, 6, 8), held(1, 2, 6, 8), scale=0.2),
    case("Attention", 23, (1, 2, 6, 8), held(1, 2, 6, 8), held(1, 2, 6, 8), is_causal=1),
    case("Attention", 23, (1, 2, 6, 8), held(1, 2, 5, 8), held(1, 2, 5, 8), held(6, 5)),
    case("Attention", 23, TOKENS, held(1, 5, 8), held(1, 5, 8), q_num_heads=4,
         kv_num_heads=2),
]


def chain(*nodes, opset=17, shape=TOKENS, **constants):
    """Several nodes from x to y."""
    return nodes, opset, shape, constants


CHAINS = [
    chain(("Greater", ["x", "c"], ["m"]), ("Where", ["m", "x", "c"], ["y"]),
          c=np.zeros((), "f")),
    chain(("Less", ["x", "c"], ["m"]), ("Not", ["m"], ["k"]),
          ("Or", ["m", "k"], ["o"]), ("And", ["o", "m"], ["a"]),
          ("Cast", ["a"], ["y"], {"to": T.FLOAT}), c=np.zeros((), "f")),
    chain(("LessOrEqual", ["x", "c"], ["m"]), ("GreaterOrEqual", ["x", "c"], ["k"]),
          ("Xor", ["m", "k"], ["o"]), ("Cast", ["o"], ["y"], {"to": T.FLOAT}),
          c=np.zeros((), "f")),
    *(chain((first, ["x"], ["t"]), (op, ["t"], ["y"]))
      for first, op in (("Tanh", "Asin"), ("Tanh", "Acos"), ("Sin", "Atanh"),
                        ("Cosh", "Acosh"))),
]


def recurrent(op, gates, batch=1, dirs=1, biased=True, output="Y", lengths=None,
              started=True, **attributes):
    """A sequence of six steps, and its input, which is not the network's: the batch is
    the second axis of X.  Unnamed inputs are absent."""
    size, first = 5, attributes.get("layout", 0)
    constants = {"w": held(dirs, gates * size, 16 // batch),
                 "r": held(dirs, gates * size, size)}
    if biased:
        constants["b"] = held(dirs, 2 * gates * size)
    if lengths:
        constants["l"] = np.int32(lengths)
    states = ["h", "c"][:1 + (op == "LSTM")] if started else []
    for name in states:
        constants[name] = held(*((batch, dirs) if first else (dirs, batch)), size)
    constants["to"] = np.int64([batch, 6, -1] if first else [6, batch, -1])
    into = ["x1", "w", "r", "b" if biased else "", "l" if lengths else "", *states]
    while not into[-1]:
        into.pop()
    places = {"Y": ["y"], "Y_h": ["", "y"], "Y_c": ["", "", "y"]}
    return chain(("Reshape", ["x", "to"], ["x1"]),
                 (op, into, places[output],
                  {"hidden_size": size, **attributes}), opset=14, **constants)


def detector(limits, **attributes):
    """The sum of the boxes that are left: how many there are depends on the data, up to
    the sum."""
    return chain(("Reshape", ["x", "to"], ["boxes"]),
                 ("ReduceMax", ["boxes"], ["m"], {"axes": [2], "keepdims": 0}),
                 ("Unsqueeze", ["m", "one"], ["scores"]),
                 ("NonMaxSuppression", ["boxes", "scores", *limits], ["sel"], attributes),
                 ("Gather", ["sel", "two"], ["i"], {"axis": 1}),
                 ("Reshape", ["i", "flat"], ["j"]),
                 ("Gather", ["boxes", "j"], ["b"], {"axis": 1}),
                 ("ReduceSum", ["b", "one"], ["y"], {"keepdims": 0}),
                 opset=14, to=np.int64([1, 24, 4]), one=np.int64([1]), two=np.int64([2]),
                 flat=np.int64([-1]), most=np.int64([8]), iou=np.float32([0.3]),
                 score=np.float32([0.5]))


BOTH = {"dirs": 2, "direction": "bidirectional"}
CHAINS += [
    recurrent("GRU", 3), recurrent("GRU", 3, linear_before_reset=1),
    recurrent("GRU", 3, biased=False, started=False, linear_before_reset=1),
    recurrent("GRU", 3, output="Y_h", direction="reverse", batch=2),
    recurrent("GRU", 3, batch=2, layout=1, linear_before_reset=1, **BOTH),
    recurrent("GRU", 3, batch=2, lengths=[6, 3], **BOTH),
    recurrent("LSTM", 4), recurrent("LSTM", 4, output="Y_c", batch=2, **BOTH),
    recurrent("LSTM", 4, biased=False, started=False, output="Y_h", clip=0.4),
    recurrent("LSTM", 4, batch=2, layout=1, output="Y_h", direction="reverse"),
    recurrent("LSTM", 4, lengths=[4, 6], batch=2, output="Y_c", **BOTH),
    detector(["most", "iou", "score"]), detector(["most", "iou"], center_point_box=1),
    detector(["most", "", "score"]),
    recurrent("RNN", 1, batch=2, **BOTH), recurrent("RNN", 1, activations=["Relu"]),
]


def write(path, nodes, opset, shape, constants):
    graph = h.make_graph(
        nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, shape)],
        [h.make_tensor_value_info("y", T.FLOAT, None)],
        [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()
         if any(k in n.input for n in nodes)])
    model = h.make_model(graph, ir_version=10, opset_imports=[h.make_opsetid("", opset)])
    onnx.save(model, path)


def refused(folder, op, shape, weight):
    """A sum of no terms, whose output OpenVINO leaves as its memory was."""
    model, data, snap = folder / "m.onnx", folder / "x.npy", folder / "snap"
    write(model, [h.make_node(op, ["x", "w"], ["y"], "node")], 17, shape,
          {"w": np.zeros(weight, "f")})
    np.save(data, np.zeros((2, *shape), "f"))
    qg("quantize", model, "-b", "openvino-int8", "-d", data, "-o", snap)
    qg("export", snap, "--format", "openvino-ir", "-o", folder / "m.xml",
       fails=f"node 'node' ({op}): a sum of no terms (float32[{','.join(map(str, shape))}])")


def check(folder, title, nodes, opset, shape, constants):
    model, data, snap = folder / "m.onnx", folder / "x.npy", folder / "snap"
    write(model, nodes, opset, shape, constants)
    x = rng.normal(0, 1, (3, *shape[1:])).astype("f")
    np.save(data, x)
    qg("quantize", model, "-b", "openvino-int8", "-d", data, "-o", snap)
    for rounding, mode in (("float", "float"), ("as is", "simulate")):
        change = ["--set", "op=* platform=fp32"] if rounding == "float" else []
        qg("quantize", model, "-b", "openvino-int8", "-d", data, "-o", snap, *change)
        qg("run", snap, "-d", data, "--mode", mode, "-o", folder / "out", "--kernels",
           "reference")
        qg("export", snap, "--format", "openvino-ir", "-o", folder / "m.xml")
        compiled = CORE.compile_model(CORE.read_model(folder / "m.xml"), "CPU",
                                      {"INFERENCE_PRECISION_HINT": "f32",
                                       "LP_TRANSFORMS_MODE": "NO"})
        want = np.load(folder / "out" / "y.npy")
        have = np.stack([compiled(i[None])[0] for i in x]).reshape(want.shape)
        off = float(np.abs(have - want).max() / max(np.abs(want).max(), 1e-30))
        print(f"{title:30} {rounding:6} {off:.1e}")
        # one code at most: a value between two codes may go to either
        limit = 2e-5 if rounding == "float" else 1.01 / 127
        assert off <= limit, (title, rounding, off)


with tempfile.TemporaryDirectory() as place:
    root = pathlib.Path(place)
    for op, opset, shape, inputs, attributes in CASES:
        constants = {f"c{i}": v for i, v in enumerate(inputs)}
        nodes = [h.make_node(op, ["x", *constants], ["y"], "node", **attributes)]
        check(root, f"{op} {attributes or ''}"[:30], nodes, opset, shape, constants)
    for nodes, opset, shape, constants in CHAINS:
        made = [h.make_node(n[0], n[1], n[2], **(n[3] if len(n) > 3 else {})) for n in nodes]
        check(root, "-".join(n[0] for n in nodes)[:30], made, opset, shape, constants)
    for op, shape, weight in (("MatMul", (3, 0), (0, 2)), ("Gemm", (3, 0), (0, 2)),
                              ("Conv", (1, 0, 4, 4), (2, 0, 3, 3))):
        refused(root, op, shape, weight)
print("ok")
