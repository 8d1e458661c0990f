#!/usr/bin/env python3
"""The reference kernels sum in the order of ONNX Runtime (engine/accel/ref_sum.h): Conv,
MatMul and Gemm of random shapes give the same bits, with one thread, nothing optimized
and no operand packed ahead, as behind DequantizeLinear."""
import os
import subprocess
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

QG = os.environ.get("QG", "build/qg")
SEED = int(os.environ.get("SEED", "8"))
CASES = 150  # of each operator


class Network:
    """Nodes side by side: each has an input and an output of its own."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.constants, self.feed, self.outputs = [], [], {}, []

    def draw(self, *shape):
        return self.rng.normal(size=shape).astype(np.float32)

    def add(self, op, x, operands, **attributes):
        k = len(self.nodes)
        names = [f"x{k}"]
        self.feed[names[0]] = x
        for i, t in enumerate(operands):
            names.append(f"c{k}_{i}")
            self.constants.append(numpy_helper.from_array(t, names[-1]))
        self.outputs.append(f"y{k}")
        self.nodes.append(helper.make_node(op, names, [f"y{k}"], f"{op}_{k}", **attributes))

    def model(self):
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape)
                  for n, x in self.feed.items()]
        outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None)
                   for n in self.outputs]
        graph = helper.make_graph(self.nodes, "sums", inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        return onnx.shape_inference.infer_shapes(model)


def convolution(net, pick):
    """Dense, grouped and depthwise; 1 to 3 axes; also of one output position, and as
    wide as the image."""
    axes = pick(1, 2, 2, 2, 3)
    groups = pick(1, 1, 1, 2, 5)
    channels, filters = pick(1, 1, 3, 16, 40, 130), pick(1, 1, 2, 4, 7)
    kernel = [pick(1, 1, 2, 3, 3, 5) for _ in range(axes)]
    strides = [pick(1, 1, 2) for _ in range(axes)]
    dilations = [pick(1, 1, 2) for _ in range(axes)]
    pads = [pick(0, 0, 1) for _ in range(2 * axes)]
    size = [max(pick(0, 1, 6, 11, 23) + (k - 1) * d + 1 - pads[a] - pads[a + axes], 1)
            for a, (k, d) in enumerate(zip(kernel, dilations))]
    if pick(0, 0, 0, 1):
        strides, dilations, pads = [1] * axes, [1] * axes, [0] * 2 * axes
        size = [max(s, k) for s, k in zip(size, kernel)]
        size[-1] = kernel[-1]
    x = net.draw(pick(1, 2), groups * channels, *size)
    operands = [net.draw(groups * filters, channels, *kernel)]
    if pick(0, 1):
        operands.append(net.draw(groups * filters))
    net.add("Conv", x, operands, group=groups, kernel_shape=kernel, strides=strides,
            dilations=dilations, pads=pads)


def product(net, pick):
    """Matrices, stacks of them, single rows and columns."""
    m, n = pick(1, 1, 2, 7, 65, 300), pick(1, 2, 3, 10, 33, 64, 65, 129, 300)
    k = pick(1, 2, 3, 5, 9, 64, 127, 128, 129, 300, 700)
    stack = pick([], [], [2], [2, 3])
    net.add("MatMul", net.draw(*stack, m, k),
            [net.draw(*(stack if pick(0, 1) else []), k, n)])


def general(net, pick):
    m, n = pick(1, 1, 2, 7, 65), pick(1, 2, 3, 10, 33, 65, 129)
    k = pick(1, 2, 3, 5, 9, 64, 129, 300, 700)
    ta, tb = pick(0, 1), pick(0, 1)
    operands = [net.draw(n, k) if tb else net.draw(k, n)]
    if pick(0, 1):
        operands.append(net.draw(*pick([n], [m, 1], [m, n], [1])))
    alpha, beta = pick((1.0, 1.0), (1.0, 1.0), (0.3, 1.0), (1.0, 0.7), (0.3, 0.7))
    net.add("Gemm", net.draw(k, m) if ta else net.draw(m, k), operands, transA=ta,
            transB=tb, alpha=alpha, beta=beta)


def theirs(model, net):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", "1")
    run = ort.InferenceSession(model.SerializeToString(), options,
                               ["CPUExecutionProvider"]).run
    return run(net.outputs, net.feed)


def ours(folder, model, net):
    onnx.save(model, f"{folder}/sums.onnx")
    np.savez(f"{folder}/x.npz", **{n: x[None] for n, x in net.feed.items()})
    subprocess.run([QG, "run", f"{folder}/sums.onnx", "-d", f"{folder}/x.npz", "--kernels",
                    "reference", "-o", f"{folder}/out"], check=True,
                   stdout=subprocess.DEVNULL)
    return [np.load(f"{folder}/out/{n}.npy")[0] for n in net.outputs]


def main():
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    failed = 0
    for make in (convolution, product, general):
        net = Network(rng)
        for _ in range(CASES):
            make(net, lambda *of: of[rng.integers(len(of))])
        model = net.model()
        with tempfile.TemporaryDirectory() as folder:
            pairs = zip(net.nodes, theirs(model, net), ours(folder, model, net), strict=True)
            for node, a, b in pairs:
                if a.shape == b.shape and (a.view(np.int32) == b.view(np.int32)).all():
                    continue
                failed += 1
                shapes = [net.feed[node.input[0]].shape] + [
                    tuple(c.dims) for c in net.constants if c.name in node.input]
                said = {t.name: helper.get_attribute_value(t) for t in node.attribute}
                print(f"FAILED {node.name}: {shapes} {said}: "
                      f"{(a != b).mean():.3f} of the elements")
        print(f"{make.__name__}: {CASES} cases")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
