"""Networks whose gradients are compared with those of PyTorch, one sample and one random
gradient of each output; and sketches of the results, small enough to be committed.

A sketch of an array has its norm, its products with random vectors of -1 and 1, and some
elements.  The mean of the squared differences of the products is an estimate without bias of
the squared norm of the difference of two arrays."""
import hashlib
import pathlib
import sys

import numpy as np

SHARED = pathlib.Path("../shared/models")
FILES = {"digits": "configs/models/digits.onnx", "kws": SHARED / "kws_float.onnx",
         "ultraface": SHARED / "ultraface-rfb-320.onnx", "vit": SHARED / "standins/vit_a.onnx"}
ZOO = ("bert", "distilbert", "crnn", "gru_tagger", "lstm_forecast")
OWN = ("recurrent",)
NAMES = (*FILES, *ZOO, *OWN)
PRODUCTS, ELEMENTS = 8, 4


def is_here(name):
    """Those of ../shared may be absent."""
    return name not in FILES or pathlib.Path(FILES[name]).exists()


def fixed(values, sizes):
    """Open dims become those of the samples."""
    for value in values:
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes[value.name]):
            dim.dim_value = size


def dims(value):
    return [d.dim_value if d.dim_value > 0 else 1 for d in value.type.tensor_type.shape.dim]


def recurrent():
    """A bidirectional GRU and a reverse LSTM on sequences of three lengths, with states and
    all outputs."""
    from onnx import helper, numpy_helper
    draw = np.random.RandomState(22)
    time, batch, width, hidden = 7, 3, 5, 4
    feeds = {"x": (time, batch, width), "h0": (2, batch, hidden), "h1": (1, batch, hidden),
             "c1": (1, batch, hidden)}
    weights = {"w0": (2, 3 * hidden, width), "r0": (2, 3 * hidden, hidden),
               "b0": (2, 6 * hidden), "w1": (1, 4 * hidden, 2 * hidden),
               "r1": (1, 4 * hidden, hidden), "b1": (1, 8 * hidden)}
    feeds = {k: draw.standard_normal(s).astype("f4") for k, s in feeds.items()}
    weights = {k: (draw.standard_normal(s) / 2).astype("f4") for k, s in weights.items()}
    weights["lengths"] = np.array([5, 7, 2], "i4")
    weights["shape"] = np.array([0, 0, -1])
    nodes = [helper.make_node("GRU", ["x", "w0", "r0", "b0", "lengths", "h0"], ["y0", "yh0"],
                              hidden_size=hidden, direction="bidirectional",
                              linear_before_reset=1),
             helper.make_node("Transpose", ["y0"], ["t"], perm=[0, 2, 1, 3]),
             helper.make_node("Reshape", ["t", "shape"], ["x1"]),
             helper.make_node("LSTM", ["x1", "w1", "r1", "b1", "lengths", "h1", "c1"],
                              ["y1", "yh1", "yc1"], hidden_size=hidden, direction="reverse")]
    given = [helper.make_tensor_value_info(k, 1, v.shape) for k, v in feeds.items()]
    made = [helper.make_tensor_value_info(k, 1, None) for k in ("yh0", "y1", "yh1", "yc1")]
    graph = helper.make_graph(nodes, "recurrent", given, made, [
        numpy_helper.from_array(v, k) for k, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)],
                             ir_version=8), feeds


def build(name):
    """The model, and its inputs."""
    import onnx  # not needed by what torch's Python uses of this file
    draw = np.random.RandomState(20)
    if name == "recurrent":
        return recurrent()
    if name in ZOO:
        sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "zoo"))
        import graph
        import language  # noqa: F401  registers its networks
        import sequence  # noqa: F401
        net = graph.build(name)
        model = net.proto()
        feeds = {k: make(1)[0] for k, make in net.feeds.items()}
        fixed(model.graph.input, {k: v.shape for k, v in feeds.items()})
        return model, feeds
    model = onnx.load(FILES[name])
    constants = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    fixed(inputs, {i.name: dims(i) for i in inputs})
    return model, {i.name: draw.standard_normal(dims(i)).astype("f4") for i in inputs}


def digest(model, feeds):
    """Of the constants and inputs."""
    from onnx import numpy_helper
    hash_ = hashlib.sha256()
    for tensor in model.graph.initializer:
        hash_.update(numpy_helper.to_array(tensor).tobytes())
    for name in sorted(feeds):
        hash_.update(feeds[name].tobytes())
    return hash_.hexdigest()


def gradients_of_outputs(shapes):
    """name: shape to the arrays, as the program `gradients` reads them."""
    draw = np.random.RandomState(21)
    return {f"grad:{name}": draw.standard_normal(shape).astype("f4")
            for name, shape in sorted(shapes.items())}


def sketch(array):
    flat = np.asarray(array, "f8").ravel()
    draw = np.random.RandomState(flat.size % 2**31)
    signs = draw.randint(0, 2, (PRODUCTS, flat.size)) * 2 - 1
    places = draw.randint(0, flat.size, ELEMENTS)
    return {"size": flat.size, "norm": float(np.linalg.norm(flat)),
            "products": [float(p) for p in signs @ flat],
            "elements": [float(e) for e in flat[places]]}


def distance(got, want):
    """Relative, from the sketches; infinite where sizes differ."""
    if got["size"] != want["size"]:
        return np.inf
    apart = np.subtract(got["products"], want["products"])
    size = max(want["norm"], 1e-30)
    elements = np.abs(np.subtract(got["elements"], want["elements"])).max()
    return max(float(np.sqrt(np.mean(apart ** 2))), elements,
               abs(got["norm"] - want["norm"])) / size
