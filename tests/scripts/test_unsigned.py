#!/usr/bin/env python3
"""Pass unsigned-activations halves the step: a FakeQuantize exported to OpenVINO reaches
from 0 to the largest value that calibration found, whichever observer found it.

Skipped (77) without numpy and onnx."""
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement

MODEL, DATA = "configs/models/digits.onnx", "configs/data/digits_test.npy"
OWN = "relu0", "relu1", "relu2", "relu5", "relu6"  # each scale is unshared
LEAST = {  # of the largest value: how much of it the grid holds
    "minmax": 1, "percentile": 0.5, "moving-average": 0.5, "kl": 0.3, "mse": 0.3,
    "aciq-laplace": 0.3, "aciq-gauss": 0.3, "ort-minmax": 1, "nvidia-max": 1,
    "nvidia-entropy": 0.3, "ncnn-kl": 0.3}


def limits(path):
    """{value: upper limit} of FakeQuantize nodes with codes from 0."""
    graph = onnx.load(path).graph
    constant = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
    ends = {n.input[0]: [constant[i].item() for i in n.input[1:3]] for n in graph.node
            if n.op_type == "FakeQuantize" and n.input[0] not in constant}
    return {name: high for name, (low, high) in ends.items() if low == 0}


def main():
    bad = 0
    x = np.load(DATA)[:16, None].astype(np.float32)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        np.save(folder / "x.npy", x)
        for observer, least in LEAST.items():
            at = folder / observer
            agreement.qg("quantize", MODEL, "-b", "openvino-int8", "-d", folder / "x.npy",
                         "-o", at, "--set", "pass=unsigned-activations run=yes", "--set",
                         f"op=* slot=[input,output] observer={observer}")
            agreement.qg("export", at, "--format", "openvino-fq", "-o", at / "fq.onnx")
            agreement.qg("run", at, "--mode", "float", "-d", folder / "x.npy", "--dump", "*",
                         "-o", at / "values")
            ends = limits(at / "fq.onnx")
            for name in OWN:
                top = np.load(at / "values/dump" / f"{name}_out.npy").max()
                if not least * top * (1 - 1e-6) <= ends[f"{name}_out"] <= top * (1 + 1e-6):
                    print(f"FAILED {observer}: {name}: FakeQuantize ends at "
                          f"{ends[f'{name}_out']}, expected at most {top}")
                    bad += 1
    print(f"{len(LEAST)} observers, {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
