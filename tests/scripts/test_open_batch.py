#!/usr/bin/env python3
"""Open dimensions survive: networks with the shape arithmetic that exporters write, with
names or without, keep them in every ONNX file that qg writes; ONNX Runtime and OpenVINO
then run other batches and sizes, with the results of single samples."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    import openvino as ov
    from onnx import TensorProto as T, helper as h
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import qg

FILES = [("onnx-qdq", *place) for place in
         (["--placement", "ort"], ["--placement", "trt"], ["--placement", "openvino"])]
FILES += [("openvino-fq",), ("ppq-json",)]
rng = np.random.default_rng(11)
node = h.make_node


def weight(*shape):
    return (rng.normal(0, 1, shape) / np.sqrt(np.prod(shape[1:]))).astype("f")


def batch_of(value, to):
    """x.size(0) as PyTorch's exporter writes it."""
    return [node("Shape", [value], [f"{to}_shape"]),
            node("Gather", [f"{to}_shape", "zero"], [f"{to}_dim"], axis=0),
            node("Unsqueeze", [f"{to}_dim", "axis0"], [to])]


def view(b):
    """Convolutions, x.view(x.size(0), -1), a dense layer."""
    return [node("Conv", ["x", "w0"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"]),
            node("AveragePool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            *batch_of("p", "n"), node("Concat", ["n", "minus"], ["to"], axis=0),
            node("Reshape", ["p", "to"], ["f"]), node("Gemm", ["f", "w1"], ["y"])], \
        [b, 3, 8, 8], {"w0": weight(4, 3, 3, 3), "w1": weight(64, 5)}, []


def flatten(b):
    return [node("Conv", ["x", "w0"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"]),
            node("GlobalAveragePool", ["r"], ["p"]), node("Flatten", ["p"], ["f"]),
            node("Gemm", ["f", "w1"], ["g"]), node("Softmax", ["g"], ["y"], axis=-1)], \
        [b, 3, "H", "W"], {"w0": weight(4, 3, 3, 3), "w1": weight(4, 5)}, [(12, 20)]


def sized(b):
    """A head that resizes back to its input, permuted as detectors do."""
    return [node("Conv", ["x", "w0"], ["c"], pads=[1] * 4, strides=[2, 2]),
            node("Relu", ["c"], ["r"]),
            node("Shape", ["x"], ["s"], start=2), node("Shape", ["r"], ["front"], end=2),
            node("Concat", ["front", "s"], ["sizes"], axis=0),
            node("Resize", ["r", "", "", "sizes"], ["u"], mode="nearest"),
            node("Conv", ["u", "w1"], ["d"]),
            node("Transpose", ["d"], ["t"], perm=[0, 2, 3, 1]),
            *batch_of("t", "n"), node("Concat", ["n", "minus", "two"], ["to"], axis=0),
            node("Reshape", ["t", "to"], ["y"])], \
        [b, 3, "H", "W"], {"w0": weight(4, 3, 3, 3), "w1": weight(6, 4, 1, 1)}, [(12, 20)]


def tokens(b):
    """Attention of two heads behind a class token that is expanded to the batch."""
    split = []
    for part in "qkv":
        split += [node("MatMul", ["e", f"w{part}"], [f"{part}0"]),
                  node("Concat", ["n", "minus", "two", "four"], [f"{part}s"], axis=0),
                  node("Reshape", [f"{part}0", f"{part}s"], [f"{part}1"]),
                  node("Transpose", [f"{part}1"], [part],
                       perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])]
    return [*batch_of("x", "n"),
            node("Concat", ["n", "minus", "minus"], ["class_shape"], axis=0),
            node("Equal", ["class_shape", "minuses"], ["any"]),
            node("Where", ["any", "ones", "class_shape"], ["class_dims"]),
            node("Expand", ["token", "class_dims"], ["first"]),
            node("Concat", ["first", "x"], ["e"], axis=1), *split,
            node("MatMul", ["q", "k"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
            node("MatMul", ["p", "v"], ["a"]),
            node("Transpose", ["a"], ["at"], perm=[0, 2, 1, 3]),
            node("Concat", ["n", "minus", "eight"], ["as"], axis=0),
            node("Reshape", ["at", "as"], ["ar"]), node("MatMul", ["ar", "wo"], ["y"])], \
        [b, 5, 8], {**{f"w{p}": weight(8, 8) for p in "qkvo"}, "token": weight(1, 1, 8)}, []


def write(path, network, b):
    nodes, shape, held, other = network(b)
    for k, n in enumerate(nodes):
        n.name = f"n{k}"
    numbers = {"zero": np.int64(0), "axis0": [0], "minus": [-1], "two": [2], "four": [4],
               "eight": [8], "ones": [1] * 3, "minuses": [-1] * 3}
    used = {i for n in nodes for i in n.input}
    held |= {k: np.asarray(v, np.int64) for k, v in numbers.items() if k in used}
    graph = h.make_graph(
        nodes, "open", [h.make_tensor_value_info("x", T.FLOAT, shape)],
        [h.make_tensor_value_info("y", T.FLOAT, None)],
        [onnx.numpy_helper.from_array(v, k) for k, v in held.items()])
    model = onnx.shape_inference.infer_shapes(
        h.make_model(graph, ir_version=8, opset_imports=[h.make_opsetid("", 17)]))
    onnx.save(model, path)
    return [8 if i == "H" else 12 if i == "W" else i for i in shape], other


def dims(value):
    return [d.dim_param or (d.dim_value if d.HasField("dim_value") else None)
            for d in value.type.tensor_type.shape.dim]


def check_dims(path, original):
    """Inputs as in the model; no first extent of an output or inner value is a number
    that the batch would contradict, and open ones of the output keep their names."""
    mine, theirs = onnx.load(path).graph, onnx.load(original).graph
    want = [None if d == "?" else d for d in dims(theirs.input[0])]  # "?" is no name
    assert dims(mine.input[0]) == want, (path, dims(mine.input[0]))
    assert not dims(mine.output[0]) or not isinstance(dims(mine.output[0])[0], int), \
        (path, dims(mine.output[0]))
    for have, named in zip(dims(mine.output[0]), dims(theirs.output[0])):
        if isinstance(named, str) and named != "?" and not isinstance(have, int):
            assert have == named, (path, have, named)


def run_ort(path, x):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, ["CPUExecutionProvider"]) \
        .run(None, {"x": x})[0]


def run_openvino(path, x):
    return ov.Core().compile_model(str(path), "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"})(x)[0]


def check(folder, network, b):
    model, data, snap = folder / "m.onnx", folder / "x.npy", folder / "snap"
    shape, other = write(model, network, b)
    x = rng.normal(0, 1, (4, *shape[1:])).astype("f")
    np.save(data, x)
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", snap)
    qg("run", snap, "-d", data, "-o", folder / "out", "--kernels", "reference")
    ours = np.load(folder / "out" / "y.npy").reshape(4, -1)
    check_dims(snap / "model.onnx", model)
    step = np.abs(ours).max() / 60
    for fmt, *options in FILES:
        file = folder / f"{fmt}.onnx"
        qg("export", snap, "--format", fmt, *options, "-o",
           file.with_suffix(".json") if fmt == "ppq-json" else file)
        check_dims(file, model)
        run = run_openvino if fmt == "openvino-fq" else run_ort
        single = np.concatenate([run(file, i[None]) for i in x])
        four = run(file, x)
        assert four.shape == single.shape, (fmt, four.shape, single.shape)
        assert np.abs(four - single).max() <= step, (fmt, np.abs(four - single).max())
        if fmt == "onnx-qdq":
            off = np.abs(single.reshape(4, -1) - ours).max()
            assert off <= step, (fmt, off, step)
        for size in other:
            y = run(file, rng.normal(0, 1, (2, 3, *size)).astype("f"))
            assert y.shape[0] == 2, y.shape
    print(f"{network.__name__:8} {b}: {len(FILES)} files, batch 4, sizes {other}")


def check_question_marks(folder):
    """Two dims without a name, written `?`, are not one."""
    graph = h.make_graph(
        [node("Conv", ["x", "w"], ["y"], "conv")], "g",
        [h.make_tensor_value_info("x", T.FLOAT, [1, 3, "?", "?"])],
        [h.make_tensor_value_info("y", T.FLOAT, None)],
        [onnx.numpy_helper.from_array(weight(4, 3, 3, 3), "w")])
    model, data = folder / "q.onnx", folder / "q.npy"
    onnx.save(h.make_model(graph, ir_version=8,
                           opset_imports=[h.make_opsetid("", 17)]), model)
    x = rng.normal(0, 1, (2, 3, 8, 12)).astype("f")
    np.save(data, x)
    qg("run", model, "-d", data, "-o", folder / "out", "--shape", "x=1x3x8x12")
    assert np.load(folder / "out" / "y.npy").shape[-3:] == (4, 6, 10)
    qg("run", model, "-d", "random:2", "-o", folder / "out", fails="--shape")


def check_fixed(folder):
    """--shape fixes what it gives, in the file as well."""
    model, snap = folder / "f.onnx", folder / "fixed"
    write(model, view, "N")
    qg("quantize", model, "-b", "trt-int8", "-d", "random:2", "-o", snap, "--shape",
       "x=1x3x8x8")
    graph = onnx.load(snap / "model.onnx").graph
    assert dims(graph.input[0]) == [1, 3, 8, 8] and dims(graph.output[0]) == [1, 5]
    assert not any(n.op_type in ("Shape", "Gather") for n in graph.node)


def check_assumed(folder):
    """Time before batch: the first extent is assumed to be 1, and the message for samples
    of another length gives the --shape that takes them."""
    graph = h.make_graph(
        [node("MatMul", ["x", "w"], ["y"], "dense")], "g",
        [h.make_tensor_value_info("x", T.FLOAT, ["T", "N", 5])],
        [h.make_tensor_value_info("y", T.FLOAT, None)],
        [onnx.numpy_helper.from_array(weight(5, 3), "w")])
    model, data = folder / "t.onnx", folder / "t.npy"
    onnx.save(h.make_model(graph, ir_version=8,
                           opset_imports=[h.make_opsetid("", 17)]), model)
    np.save(data, rng.normal(0, 1, (2, 7, 1, 5)).astype("f"))
    qg("run", model, "-d", data, "-o", folder / "out", fails="--shape x=7x1x5")
    qg("run", model, "-d", data, "-o", folder / "out", "--shape", "x=7x1x5")
    assert np.load(folder / "out" / "y.npy").shape == (2, 7, 1, 3)
    np.save(data, rng.normal(0, 1, (2, 7, 1, 6)).astype("f"))  # no shape takes them
    qg("run", model, "-d", data, "-o", folder / "out", fails="first axis\n")


def check_declared(folder):
    """An extent that the model declares of its output, and inference does not find, stays
    in every file; one that inference contradicts, as the batch is open, does not."""
    def write_split(path, b, joined):
        held = {"w": weight(8, 5), "half": np.int64([2, 4]), "minus": np.int64([8])}
        graph = h.make_graph(
            [node("Shape", ["x"], ["front"], "front", end=2),
             node("Concat", ["front", "half"], ["to"], "to", axis=0),
             node("Concat", ["front", "minus"], ["back"], "back", axis=0),
             node("Reshape", ["x", "to"], ["r"], "split"), node("Relu", ["r"], ["a"], "a"),
             node("Reshape", ["a", "back"], ["j"], "join"),
             node("MatMul", [joined, "w"], ["y"], "dense")], "g",
            [h.make_tensor_value_info("x", T.FLOAT, [b, "S", 8])],
            [h.make_tensor_value_info("y", T.FLOAT, [1, "S", 5])],
            [onnx.numpy_helper.from_array(v, k) for k, v in held.items()])
        onnx.save(h.make_model(graph, ir_version=8,
                               opset_imports=[h.make_opsetid("", 17)]), path)
    model, data, snap = folder / "d.onnx", folder / "d.npy", folder / "declared"
    np.save(data, rng.normal(0, 1, (2, 1, 6, 8)).astype("f"))
    for b, joined, want in (1, "j", [1, "S", 5]), ("N", "x", [None, "S", 5]):
        write_split(model, b, joined)
        qg("quantize", model, "-b", "ort-int8", "-d", data, "-o", snap)
        assert dims(onnx.load(snap / "model.onnx").graph.output[0]) == want
        for fmt in "onnx-qdq", "onnx-qoperator", "qonnx", "openvino-fq":
            qg("export", snap, "--format", fmt, "-o", folder / "d2.onnx")
            found = dims(onnx.load(folder / "d2.onnx").graph.output[0])
            assert found == want, (fmt, b, found, want)


with tempfile.TemporaryDirectory() as place:
    root = pathlib.Path(place)
    for network in view, flatten, sized, tokens:
        for b in "N", None, "?":
            check(root, network, b)
    check_question_marks(root)
    check_fixed(root)
    check_declared(root)
    check_assumed(root)
print("ok")
