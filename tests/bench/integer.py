#!/usr/bin/env python3
"""Mode integer, one thread, batch 1: build/tests/bench_integer in turns with onnxruntime's
int8 session on the file that ONNX Runtime itself optimized (level EXTENDED), which is imported.

    tests/bench/integer.py BUILD [ROUNDS [MODEL...]]

Prints best times of many interleaved runs and ratios: integer over our simulation, over our
float, and over onnxruntime (below 1 we are faster).  Nothing is asserted."""
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "peers"))

RUNS = 20


def theirs(session, samples, runs):
    name, best = session.get_inputs()[0].name, 1e9
    for i in range(runs):
        start = time.perf_counter()
        session.run(None, {name: samples[i % len(samples)][None]})
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def ours(build, snapshot, profile):
    words = subprocess.run([f"{build}/tests/bench_integer", snapshot, profile, str(RUNS)],
                           check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def measure(build, rounds, snapshot, profile, session, samples):
    best, other = {}, 1e9
    for _ in range(rounds):
        for key, value in ours(build, snapshot, profile).items():
            best[key] = min(best.get(key, 1e9), value)
        other = min(other, theirs(session, samples, RUNS))
    return best, other


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    os.environ.setdefault("QG", f"{build}/qg")
    import ort_integer as peer  # pylint: disable=import-outside-toplevel
    logging.disable(logging.WARNING)
    print(f"{'model':22} {'integer ms':>10} {'/simulate':>10} {'/float':>8} {'/ort int8':>10}")
    with tempfile.TemporaryDirectory() as name:
        for model, path, calibration, samples in peer.models(False):
            if sys.argv[3:] and model not in sys.argv[3:]:
                continue
            folder = pathlib.Path(name) / model
            folder.mkdir()
            form, file = next(peer.quantized(path, calibration, folder))
            optimized, snapshot = folder / "optimized.onnx", folder / "imported"
            session = peer.session(file, peer.LEVELS.ORT_ENABLE_EXTENDED, optimized)
            peer.qg("import", optimized, "--format", "onnx-qdq", "-o", snapshot)
            best, other = measure(build, rounds, snapshot, peer.profile(), session, samples)
            ms = best["integer_ms"]
            print(f"{model + ' ' + form:22} {ms:10.3f} {ms / best['simulate_ms']:10.2f} "
                  f"{ms / best['float_ms']:8.2f} {ms / other:10.2f}", flush=True)


if __name__ == "__main__":
    main()
