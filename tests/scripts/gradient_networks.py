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
ZOO = ("bert", "distilbert")
NAMES = (*FILES, *ZOO)
PRODUCTS, ELEMENTS = 8, 4


def is_here(name):
    """Those of ../shared may be absent."""
    return name in ZOO or pathlib.Path(FILES[name]).exists()


def fixed(values, sizes):
    """Open dims become those of the samples."""
    for value in values:
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes[value.name]):
            dim.dim_value = size


def dims(value):
    return [d.dim_value if d.dim_value > 0 else 1 for d in value.type.tensor_type.shape.dim]


def build(name):
    """The model, and its inputs."""
    import onnx  # not needed by what torch's Python uses of this file
    draw = np.random.RandomState(20)
    if name in ZOO:
        sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "zoo"))
        import graph
        import language  # noqa: F401  registers its networks
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
