#!/usr/bin/env python3
"""peer_fake.py [BUILD] -- fake quantize beside ONNX Runtime's QuantizeLinear +
DequantizeLinear on one thread, in one run.

Runs BUILD/tests/bench_fake and the pair in turns, three times each, and keeps the best.
Outputs are bound to arrays, so that ONNX Runtime copies nothing; graph optimizations are
off, because they would remove the pair.  GB/s are bytes of the float array per second."""
import re
import subprocess
import sys
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SIZES = {"64.00": 64 << 20, "0.25": 256 << 10}  # as bench_fake prints them: bytes
TURNS, ROUNDS, CHANNELS = 3, 7, 64


def session(shape, scale, axis):
    params = [numpy_helper.from_array(scale, "scale"),
              numpy_helper.from_array(np.zeros(scale.shape, np.int8), "zero")]
    nodes = [helper.make_node(op, [x, "scale", "zero"], [y], axis=axis) for op, x, y in
             (("QuantizeLinear", "x", "q"), ("DequantizeLinear", "q", "y"))]
    graph = helper.make_graph(
        nodes, "pair", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], params)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = \
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def pair_seconds(size, per_channel):
    shape = [1, CHANNELS, size // 4 // CHANNELS // 32, 32]
    x = np.random.default_rng(1).uniform(-2, 2, shape).astype(np.float32)
    y = np.ones_like(x)
    scale = np.full(CHANNELS, 0.01, np.float32) if per_channel \
        else np.array(0.01, np.float32)
    run = session(shape, scale, 1)
    bound = run.io_binding()
    for bind, name, array in ((bound.bind_input, "x", x), (bound.bind_output, "y", y)):
        bind(name, "cpu", 0, np.float32, shape, array.ctypes.data)
    repeats = max(1, (8 << 20) // size)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(repeats):
            run.run_with_iobinding(bound)
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def ours(build):
    out = subprocess.run([f"{build}/tests/bench_fake"], check=True, text=True,
                         capture_output=True).stdout
    line = re.compile(r"\s*(\S+) MB  (.*?)\s+(\S+) GB/s")
    return {m.group(1, 2): float(m.group(3)) for m in map(line.match, out.splitlines())}


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    best_ours, best_pair = {}, {}
    for _ in range(TURNS):
        for key, speed in ours(build).items():
            best_ours[key] = max(speed, best_ours.get(key, 0))
        for label, size in SIZES.items():
            for name in ("per tensor", "per channel"):
                speed = size / pair_seconds(size, name == "per channel") / 1e9
                best_pair[label, name] = max(speed, best_pair.get((label, name), 0))
    print(f"onnxruntime {onnxruntime.__version__}, QuantizeLinear + DequantizeLinear")
    for (label, name), speed in best_pair.items():
        mine, copy = best_ours[label, name], best_ours[label, "memcpy"]
        print(f"{label:>8} MB  {name:<12} {mine:7.2f} GB/s  memcpy {copy:7.2f}  "
              f"onnxruntime {speed:7.2f}  ratio to memcpy {mine / copy:.2f}, "
              f"to onnxruntime {mine / speed:.1f}")


if __name__ == "__main__":
    main()
