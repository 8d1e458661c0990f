#!/usr/bin/env python3
"""torch_gradients -- gradients of whole networks by PyTorch's autograd, in float64.

usage: tests/peers/torch_gradients.py [--check] [NETWORK...]
writes sketches of them (tests/scripts/gradient_networks.py) to
tests/data/torch_gradients.json, which tests/scripts/test_gradients.py reads without torch;
--check compares them with the file instead.

TORCH_PYTHON is the Python that has torch (default /usr/bin/python3 with Debian's
python3-torch); the Python that runs this needs onnx.  The first writes the network as JSON
and arrays, the second interprets it, an operator a line of OPERATORS."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "scripts"))
import gradient_networks as networks  # noqa: E402

VECTORS = HERE.parent / "data" / "torch_gradients.json"
PYTHON = os.environ.get("TORCH_PYTHON", "/usr/bin/python3")


# --- the side with onnx --------------------------------------------------------------------

def written(folder, model, feeds):
    """The network as files that need no onnx to read."""
    import onnx
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        attributes = {}
        for a in node.attribute:
            value = onnx.helper.get_attribute_value(a)
            if isinstance(value, onnx.TensorProto):
                key = f"{node.output[0]}/{a.name}"
                arrays[key], value = onnx.numpy_helper.to_array(value), {"array": key}
            attributes[a.name] = value.decode() if isinstance(value, bytes) else \
                value if not hasattr(value, "__iter__") or isinstance(value, dict) \
                else list(value)
        nodes.append([node.op_type, list(node.input), list(node.output), attributes])
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    about = {"nodes": nodes, "opset": opset, "outputs": [o.name for o in model.graph.output],
             "constants": [t.name for t in model.graph.initializer]}
    (folder / "graph.json").write_text(json.dumps(about))
    np.savez(folder / "arrays.npz", **arrays)
    np.savez(folder / "feeds.npz", **feeds)


def asked(name):
    """What torch gives for a network, as sketches."""
    model, feeds = networks.build(name)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        written(folder, model, feeds)
        subprocess.run([PYTHON, __file__, "--evaluate", folder], check=True)
        found = np.load(folder / "found.npz")
        shapes = {k[7:]: list(found[k].shape) for k in found if k.startswith("output:")}
        return {"digest": networks.digest(model, feeds), "shapes": shapes,
                "sketches": {k: networks.sketch(found[k]) for k in sorted(found)}}


def rounded(value):
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def main(words):
    names = [w for w in words if w != "--check"] or \
        [n for n in networks.NAMES if networks.is_here(n)]
    vectors = json.loads(VECTORS.read_text()) if VECTORS.exists() else {}
    worst = 0
    for name in names:
        found = rounded(asked(name))
        print(f"{name}: {len(found['sketches'])} arrays")
        if "--check" in words:
            worst = max([worst] + [networks.distance(s, vectors[name]["sketches"][k])
                                   for k, s in found["sketches"].items()])
        vectors[name] = found
    if "--check" in words:
        print(f"largest difference to the file: {worst:.2g}")
        return worst > 1e-6
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(vectors.items())]
    VECTORS.write_text("{\n" + ",\n".join(lines).replace('}, "', '},\n "') + "\n}\n")
    return 0


# --- the side with torch -------------------------------------------------------------------

def pads_of(x, a, kernel):
    """Padding per axis as torch.nn.functional.pad wants it: last axis first."""
    rank = len(kernel)
    pads = a.get("pads", [0] * 2 * rank)
    assert a.get("auto_pad", "NOTSET") in ("NOTSET", "VALID"), a
    return [pads[i + side * rank] for i in reversed(range(rank)) for side in (0, 1)]


def conv(t, x, w, b=None, **a):
    rank = w.dim() - 2
    x = t.nn.functional.pad(x, pads_of(x, a, w.shape[2:]))
    run = {1: t.conv1d, 2: t.conv2d, 3: t.conv3d}[rank]
    return run(x, w, b, a.get("strides", [1] * rank), 0, a.get("dilations", [1] * rank),
               a.get("group", 1))


def gemm(t, x, w, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = alpha * ((x.T if transA else x) @ (w.T if transB else w))
    return y if c is None else y + beta * c


def max_pool(t, x, **a):
    assert not a.get("ceil_mode", 0)
    x = t.nn.functional.pad(x, pads_of(x, a, a["kernel_shape"]), value=-np.inf)
    return t.nn.functional.max_pool2d(x, a["kernel_shape"], a.get("strides"))


def average_pool(t, x, **a):
    assert not any(a.get("pads", [0])) and not a.get("ceil_mode", 0)
    return t.nn.functional.avg_pool2d(x, a["kernel_shape"], a.get("strides"))


def batch_norm(t, x, scale, b, mean, variance, epsilon=1e-5, **_):
    shape = [1, -1] + [1] * (x.dim() - 2)
    by = scale / t.sqrt(variance + epsilon)
    return (x - mean.view(shape)) * by.view(shape) + b.view(shape)


def softmax(t, x, axis=None, opset=13):
    if opset >= 13:
        return t.softmax(x, -1 if axis is None else axis)
    axis = 1 if axis is None else axis % x.dim()
    return t.softmax(x.flatten(axis), -1).view(x.shape)


def numbers(x):
    """Of an attribute, or of an input since that opset."""
    return x if isinstance(x, list) else x.tolist()


def slices(t, x, starts, ends, axes=None, steps=None):
    axes = range(len(starts)) if axes is None else numbers(axes)
    steps = [1] * len(starts) if steps is None else numbers(steps)
    assert all(s > 0 for s in steps)
    at = [slice(None)] * x.dim()
    for axis, start, end, step in zip(axes, numbers(starts), numbers(ends), steps):
        at[axis] = slice(start, end, step)
    return x[tuple(at)]


def reshape(t, x, shape, allowzero=0):
    return x.reshape([x.shape[i] if d == 0 and not allowzero else d
                      for i, d in enumerate(shape.tolist())])


def squeezed(t, x, axes=None):
    axes = [i for i, d in enumerate(x.shape) if d == 1] if axes is None else \
        [int(a) % x.dim() for a in axes]
    return x.reshape([d for i, d in enumerate(x.shape) if i not in axes])


def unsqueezed(t, x, axes):
    rank = x.dim() + len(axes)
    for axis in sorted(int(a) % rank for a in axes):
        x = x.unsqueeze(axis)
    return x


def gather(t, x, at, axis=0):
    at = at.long()
    at = t.where(at < 0, at + x.shape[axis], at)
    return x.index_select(axis, at.reshape(-1)).reshape(
        x.shape[:axis] + at.shape + x.shape[axis:][1:])


def layer_norm(t, x, scale, b=None, axis=-1, epsilon=1e-5, **_):
    return t.nn.functional.layer_norm(x, x.shape[axis % x.dim():], scale, b, epsilon)


# Gates in the order of PyTorch, and those of its linear_before_reset.
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}


def recurrent(t, kind, x, w, r, b, lengths=None, *states, hidden_size, direction="forward",
              linear_before_reset=0, **_):
    """By torch.nn.LSTM and GRU, which have no peepholes."""
    assert linear_before_reset or kind == "LSTM"

    def ordered(a):
        parts = a.chunk(len(GATES[kind]))
        return t.cat([parts[g] for g in GATES[kind]])

    both, steps = direction == "bidirectional", x.shape[0]
    lengths = t.full((x.shape[1],), steps) if lengths is None else lengths.long()
    if direction == "reverse":
        x = reversed_steps(t, x, lengths)
    states = [s for s in states if s is not None] or \
        [t.zeros(w.shape[0], x.shape[1], hidden_size, dtype=x.dtype)] * (1 + (kind == "LSTM"))
    weights = [ordered(a) for d in range(w.shape[0])
               for a in (w[d], r[d], *b[d].chunk(2))]
    packed = t.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    at = packed.sorted_indices
    states = [s[:, at] for s in states]
    run = t._VF.lstm if kind == "LSTM" else t._VF.gru
    y, *last = run(packed.data, packed.batch_sizes, states if kind == "LSTM" else states[0],
                   weights, True, 1, 0.0, False, both)
    y = t.nn.utils.rnn.PackedSequence(y, packed.batch_sizes, at, packed.unsorted_indices)
    y = t.nn.utils.rnn.pad_packed_sequence(y, total_length=steps)[0]
    if direction == "reverse":
        y = reversed_steps(t, y, lengths)
    y = y.reshape(steps, -1, w.shape[0], hidden_size).transpose(1, 2)
    return (y, *(s[:, packed.unsorted_indices] for s in last))


def reversed_steps(t, x, lengths):
    """The first lengths[b] steps of sequence b backwards."""
    at = t.arange(x.shape[0])[:, None].expand(-1, x.shape[1])
    at = t.where(at < lengths, lengths - 1 - at, at)
    return x.gather(0, at[:, :, None].expand_as(x))


def cast(t, x, to):
    types = {1: t.float64, 6: t.int32, 7: t.int64, 9: t.bool, 11: t.float64}
    return x.to(types[to])


def divided(t, a, b):
    return a / b if a.is_floating_point() else t.div(a, b, rounding_mode="trunc")


def constant_of_shape(t, shape, value=None):
    if value is None:
        return t.zeros(shape.tolist(), dtype=t.float64)
    return value.reshape(()).expand(shape.tolist()).clone()


OPERATORS = {
    "Add": lambda t, a, b: a + b,
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "Concat": lambda t, *xs, axis: t.cat(xs, axis),
    "Constant": lambda t, value: value,
    "ConstantOfShape": constant_of_shape,
    "Conv": conv,
    "Div": divided,
    "Equal": lambda t, a, b: a == b,
    "Erf": lambda t, x: t.erf(x),
    "Exp": lambda t, x: t.exp(x),
    "Expand": lambda t, x, shape: x * t.ones(shape.tolist(), dtype=x.dtype),
    "Flatten": lambda t, x, axis=1: x.reshape(int(np.prod(x.shape[:axis])), -1),
    "Gather": gather,
    "Gemm": gemm,
    "GRU": lambda t, *xs, **a: recurrent(t, "GRU", *xs, **a),
    "LSTM": lambda t, *xs, **a: recurrent(t, "LSTM", *xs, **a),
    "LayerNormalization": layer_norm,
    "LogSoftmax": lambda t, x, axis: t.log_softmax(x, axis),
    "MatMul": lambda t, a, b: t.matmul(a, b),
    "MaxPool": max_pool,
    "Mul": lambda t, a, b: a * b,
    "Pow": lambda t, a, b: t.pow(a, b),
    "Range": lambda t, a, b, step: t.arange(a.item(), b.item(), step.item()),
    "ReduceMean": lambda t, x, axes, keepdims=1: x.mean(axes, keepdim=bool(keepdims)),
    "Relu": lambda t, x: t.relu(x),
    "Reshape": reshape,
    "Shape": lambda t, x: t.tensor(x.shape),
    "Slice": slices,
    "Sqrt": lambda t, x: t.sqrt(x),
    "Squeeze": squeezed,
    "Sub": lambda t, a, b: a - b,
    "Tanh": lambda t, x: t.tanh(x),
    "Transpose": lambda t, x, perm: x.permute(perm),
    "Unsqueeze": unsqueezed,
    "Where": lambda t, c, a, b: t.where(c, a, b),
}


def evaluate(folder):
    import torch
    about = json.loads((folder / "graph.json").read_text())
    arrays, feeds = np.load(folder / "arrays.npz"), np.load(folder / "feeds.npz")

    def tensor(array, learns):
        floats = array.dtype.kind == "f"
        x = torch.from_numpy(np.array(array, "f8" if floats else None))
        return x.requires_grad_() if floats and learns else x

    values = {"": None, **{k: tensor(arrays[k], True) for k in about["constants"]},
              **{k: tensor(feeds[k], True) for k in feeds}}
    leaves = dict(values)
    for op, inputs, outputs, attributes in about["nodes"]:
        more = {k: tensor(arrays[v["array"]], False) if isinstance(v, dict) else v
                for k, v in attributes.items()}
        run = OPERATORS.get(op) or (lambda t, x, **a: softmax(t, x, opset=about["opset"], **a))
        assert op in OPERATORS or op == "Softmax", f"{op} is not in OPERATORS"
        result = run(torch, *[values[i] for i in inputs], **more)
        values.update(zip(outputs, result if isinstance(result, tuple) else [result]))
    found = {f"output:{k}": values[k] for k in about["outputs"]}
    grads = networks.gradients_of_outputs({k: list(values[k].shape) for k in about["outputs"]})
    sum((values[k] * torch.from_numpy(grads[f"grad:{k}"].astype("f8"))).sum()
        for k in about["outputs"]).backward()
    for name, leaf in leaves.items():
        if leaf is not None and leaf.grad is not None:
            found[f"{'input' if name in feeds else 'weight'}:{name}"] = leaf.grad
    np.savez(folder / "found.npz", **{k: v.detach().numpy() for k, v in found.items()})


if __name__ == "__main__":
    if "--evaluate" in sys.argv:
        evaluate(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1:]))
