#!/usr/bin/env python3
"""`qg run --mode integer --profile ncnn-x86` against ncnn, bit by bit.

Networks are quantized for ncnn-int8; a .param and a .bin are written from the snapshot
(model.onnx for the weights) and from its calibration table, which `qg export --format
ncnn-table` writes for the layers of the .param and of which ncnn2int8 makes the scales of
the .bin; ncnn runs them with one thread, and every float32 that a layer gives must have the same bits as ours.  Layers:
Convolution, ReLU, Pooling (maximum), InnerProduct.  ConvolutionDepthWise has no row in the
profile: with one channel per group its x86 kernels multiply by the hardware's approximate
reciprocal (rcpps) when the channels are a multiple of 8."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import ncnn
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
SAMPLES = 8
INT8_TAG = 0x000D4B38  # ncnn's mark of a weight blob of signed bytes


class Network:
    """A float network that grows; value "x" is its input."""

    def __init__(self, seed, shape):
        self.random = np.random.RandomState(seed)
        self.nodes, self.constants = [], []
        self.channels, self.shape = shape[0], shape

    def add(self, op, inputs, **attributes):
        out = f"{op.lower()}{len(self.nodes)}"
        last = self.nodes[-1].output[0] if self.nodes else "x"
        self.nodes.append(helper.make_node(op, [last, *inputs], [out], out, **attributes))
        return self

    def constant(self, *shape):
        name = f"c{len(self.constants)}"
        array = (self.random.randn(*shape) / np.sqrt(np.prod(shape[1:]) + 1)).astype("float32")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, out, k, stride=1, relu=True):
        weights = [self.constant(out, self.channels, k, k), self.constant(out)]
        self.add("Conv", weights, kernel_shape=[k, k], pads=[k // 2] * 4,
                 strides=[stride] * 2)
        self.channels = out
        return self.add("Relu", []) if relu else self

    def pool(self):
        return self.add("MaxPool", [], kernel_shape=[2, 2], strides=[2, 2])

    def dense(self, features, out):
        self.add("Flatten", [])
        return self.add("Gemm", [self.constant(out, features), self.constant(out)], transB=1)

    def save(self, path):
        last = self.nodes[-1].output[0]
        graph = helper.make_graph(
            self.nodes, "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *self.shape])],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                    ir_version=8), path)


def networks():
    for k in (1, 3, 5):
        for stride in (1, 2):
            for shape, out in (((3, 12, 12), 8), ((4, 9, 10), 12), ((16, 8, 8), 16)):
                yield (f"convolution {k}x{k} stride {stride}, {shape[0]} to {out} channels",
                       Network(k * 10 + stride, shape).conv(out, k, stride, relu=False))
    yield "inner product", Network(8, (5, 4, 4)).dense(80, 17)
    yield ("chain of convolutions",
           Network(9, (3, 16, 16)).conv(8, 3).conv(16, 3, 2).conv(12, 1).conv(8, 5, relu=False))
    yield ("classifier", Network(10, (3, 16, 16)).conv(8, 3).pool().conv(12, 3).conv(16, 1)
           .pool().dense(16 * 4 * 4, 10))


def away(x):
    """float32 to the nearest integer, halves away from zero."""
    return np.sign(x) * np.floor(np.abs(x.astype("float64")) + 0.5)


class Files:
    """The .param and .bin of a snapshot."""

    def __init__(self, snapshot):
        self.model = onnx.load(snapshot / "model.onnx")
        with open(snapshot / "quant.json", encoding="utf-8") as f:
            self.records = {(t["node"], t["slot"]): t for t in json.load(f)["tqcs"]}
        self.constants = {c.name: numpy_helper.to_array(c)
                          for c in self.model.graph.initializer}
        self.lines = ["Input x 0 1 x"]
        self.weighted = []  # layer, codes, bias
        for node in self.model.graph.node:
            self.layer(node)
        param = snapshot / "net.param"
        param.write_text("\n".join(["7767517", f"{len(self.lines)} {len(self.lines)}",
                                    *self.lines, ""]))
        table = snapshot / "net.table"
        qg("export", snapshot, "--format", "ncnn-table", "--names", param, "-o", table)
        scales = {name: np.asarray(values, "<f4") for name, *values in
                  map(str.split, table.read_text().splitlines())}
        self.data = b"".join(self.blob(*w, scales) for w in self.weighted)

    @staticmethod
    def blob(layer, codes, bias, scales):
        """Codes, padded to 4 bytes; bias; scales of weights and input, as reciprocals."""
        raw = codes.tobytes()
        return (struct.pack("<I", INT8_TAG) + raw + bytes(-len(raw) % 4)
                + bias.astype("<f4").tobytes() + scales[f"{layer}_param_0"].tobytes()
                + scales[layer].tobytes())

    def weights(self, node, layer):
        """The codes of its weight."""
        record = self.records[node.name, "in1"]
        array = self.constants[node.input[1]]
        if node.op_type == "Gemm" and not self.attributes(node).get("transB"):
            array = np.ascontiguousarray(array.T)
        scale = np.asarray(record["scale"], np.float32)
        codes = away(array / scale.reshape(-1, *[1] * (array.ndim - 1)))
        codes = np.clip(codes, *record["range"]).astype("int8")
        self.weighted.append((layer, codes, self.constants[node.input[2]]))
        return codes

    @staticmethod
    def attributes(node):
        return {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def layer(self, node):
        a = self.attributes(node)
        kind, options = node.op_type, ""
        name = f"layer_{len(self.lines)}"  # the table finds it by the name of its output
        if kind == "Conv":
            codes = self.weights(node, name)
            kind = "Convolution"
            options = (f"0={codes.shape[0]} 1={codes.shape[2]} 3={a['strides'][0]} "
                       f"4={a['pads'][0]} 5=1 6={codes.size} 8=2")
        elif kind == "Relu":
            kind = "ReLU"
        elif kind == "MaxPool":
            kind, options = "Pooling", "0=0 1=2 2=2 5=1"
        elif kind == "Gemm":
            codes = self.weights(node, name)
            kind, options = "InnerProduct", f"0={codes.shape[0]} 1=1 2={codes.size} 8=2"
        elif kind != "Flatten":
            raise SystemExit(f"FAILED: {node.op_type} has no ncnn layer here")
        self.lines.append(f"{kind} {name} 1 1 {node.input[0]} {node.output[0]} {options}")

    def run(self, folder, samples):
        """{value: float32 with the samples first} of every layer."""
        lines = ["7767517", f"{len(self.lines)} {len(self.lines)}", *self.lines, ""]
        (folder / "net.param").write_text("\n".join(lines))
        (folder / "net.bin").write_bytes(self.data)
        net = ncnn.Net()
        net.opt.num_threads = 1
        if net.load_param(str(folder / "net.param")) or net.load_model(str(folder / "net.bin")):
            raise SystemExit("FAILED: ncnn does not load the files")
        names = [n.output[0] for n in self.model.graph.node]
        rows = []
        for x in samples:
            extractor = net.create_extractor()
            extractor.input("x", ncnn.Mat(np.ascontiguousarray(x[0])).clone())
            rows.append({n: np.array(extractor.extract(n)[1]) for n in names})
        return {n: np.stack([row[n] for row in rows]) for n in names}


def qg(*arguments):
    done = subprocess.run([QG, *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise SystemExit(f"FAILED: qg {' '.join(map(str, arguments))}: {done.stderr.strip()}")


def compare(what, network, folder):
    """Number of values that differ."""
    network.save(folder / "m.onnx")
    x = network.random.randn(SAMPLES, 1, *network.shape).astype("float32")
    np.save(folder / "x.npy", x)
    snapshot = folder / "snapshot"
    qg("quantize", folder / "m.onnx", "-b", "ncnn-int8", "-d", folder / "x.npy", "-o", snapshot)
    qg("run", snapshot, "-d", folder / "x.npy", "-o", folder / "run", "--mode", "integer",
       "--profile", "ncnn-x86", "--dump", "*")
    wrong = elements = 0
    for name, theirs in Files(snapshot).run(folder, x).items():
        path = folder / "run/dump" / f"{name}.npy"
        if not path.exists():
            continue  # fused into another kernel
        ours = np.load(path).reshape(theirs.shape)
        if ours.dtype != np.float32:
            continue  # codes: the float value of the layer is compared behind them
        differ = int((ours.view("u4") != theirs.view("u4")).sum())
        differ -= int(((ours == 0) & (theirs == 0) &
                       (ours.view("u4") != theirs.view("u4"))).sum())  # -0 of a ReLU
        elements += theirs.size
        if differ:
            wrong += 1
            print(f"FAILED: {what}: {name}: {differ} of {theirs.size} differ, at most "
                  f"{np.abs(ours - theirs).max():.3g}")
    if not elements:
        print(f"FAILED: {what}: nothing was compared")
        wrong += 1
    print(f"{what:50} {elements:7} elements  {'ok' if not wrong else 'FAILED'}")
    return wrong


def main():
    wrong = 0
    for what, network in networks():
        with tempfile.TemporaryDirectory() as name:
            wrong += compare(what, network, pathlib.Path(name))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
