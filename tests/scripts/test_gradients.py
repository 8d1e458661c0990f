#!/usr/bin/env python3
"""Gradients of whole networks: build/tests/gradients against PyTorch's autograd in float64
(tests/data/torch_gradients.json, written by tests/peers/torch_gradients.py).  The relative L2
difference of each weight's and each input's gradient is at most 1e-4."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
import gradient_networks as networks

VECTORS = json.loads(pathlib.Path("tests/data/torch_gradients.json").read_text())
PROGRAM = pathlib.Path(os.environ.get("QG_BUILD", "build")) / "tests" / "gradients"
MOST = 1e-4


def computed(root, name):
    """Our arrays by name."""
    model, feeds = networks.build(name)
    assert networks.digest(model, feeds) == VECTORS[name]["digest"], \
        f"{name}: another network than that of the vectors: write them again"
    path, given, found = (root / f"{name}{end}" for end in (".onnx", ".npz", "-out.npz"))
    onnx.save(model, path)
    np.savez(given, **feeds, **networks.gradients_of_outputs(VECTORS[name]["shapes"]))
    subprocess.run([PROGRAM, path, given, found], check=True)
    return np.load(found)


def test_network(root, name):
    found, want = computed(root, name), VECTORS[name]["sketches"]
    weights = [k for k in found if k.startswith("weight:")]
    assert weights, name
    apart = {k: networks.distance(networks.sketch(found[k]), want[k]) for k in found}
    worst = max(apart, key=apart.get)
    print(f"{name}: {len(weights)} weights of {len(want)} arrays, largest difference "
          f"{apart[worst]:.2g}, {worst}")
    assert apart[worst] <= MOST, {k: v for k, v in apart.items() if v > MOST}


def test_differences_are_seen():
    """One element in a thousand that is wrong by one percent of the norm."""
    draw = np.random.default_rng(1)
    right = draw.normal(0, 1, 10000)
    wrong = right.copy()
    wrong[::1000] += 0.01 * np.linalg.norm(right)
    assert networks.distance(networks.sketch(wrong), networks.sketch(right)) > 10 * MOST
    assert networks.distance(networks.sketch(right[1:]), networks.sketch(right)) == np.inf


def main():
    test_differences_are_seen()
    names = [n for n in networks.NAMES if networks.is_here(n)]
    assert {*networks.ZOO, *networks.OWN} <= set(names) <= set(VECTORS)
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            test_network(pathlib.Path(place), name)


main()
