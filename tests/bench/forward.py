#!/usr/bin/env python3
"""Float forward, batch 1, one thread: build/tests/bench_forward in turns with onnxruntime.

    tests/bench/forward.py BUILD [ROUNDS [MODEL...]]

Prints time ratios (ours over theirs: below 1 we are faster) and plan memory over its lower
bound.  The best of many interleaved runs counts; nothing is asserted."""
import os
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

SHARED = "../shared/models"
MODELS = ["configs/models/digits.onnx", "tests/models/mnist-8.onnx",
          f"{SHARED}/ultraface-rfb-320.onnx", f"{SHARED}/kws_float.onnx"] + [
              f"{SHARED}/standins/{n}_a.onnx" for n in ("mobilenet", "yolo", "vit", "effnet")]


def session_of(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options)
    feed = {i.name: np.random.rand(*[d if isinstance(d, int) else 1 for d in i.shape])
            .astype("float32") for i in session.get_inputs()}
    return session, feed


def theirs(session, feed, runs):
    best = 1e9
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, feed)
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def ours(program, path, runs):
    words = subprocess.run([program, path, str(runs)], check=True, capture_output=True,
                           text=True).stdout.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    print(f"{'model':26} {'ours ms':>9} {'ort ms':>9} {'ratio':>7} {'plan/bound':>11}")
    for path in sys.argv[3:] or MODELS:
        if not os.path.exists(path):
            print(f"{os.path.basename(path):26} skipped: not there")
            continue
        session, feed = session_of(path)
        mine, other, memory = 1e9, 1e9, 0.0
        for _ in range(rounds):
            figures = ours(f"{build}/tests/bench_forward", path, 40)
            mine, memory = min(mine, figures["best_ms"]), figures["ratio"]
            other = min(other, theirs(session, feed, 40))
        print(f"{os.path.basename(path):26} {mine:9.3f} {other:9.3f} {mine / other:7.2f} "
              f"{memory:11.3f}")


if __name__ == "__main__":
    main()
