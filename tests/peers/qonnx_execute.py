#!/usr/bin/env python3
"""Runs files of format qonnx in the executor of the qonnx package.

qonnx 1.0.0 needs onnx < 1.23, so it has a virtual environment of its own:
    python3 -m venv .venv-qonnx && .venv-qonnx/bin/pip install qonnx==1.0.0

usage: .venv-qonnx/bin/python tests/peers/qonnx_execute.py IN.npz OUT.npz MODEL.onnx...
IN has the samples as `x` [samples, ...]; OUT gets the first output of each file under
its name."""
import pathlib
import sys

import numpy as np
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes


def main():
    x, found = np.load(sys.argv[1])["x"], {}
    for path in sys.argv[3:]:
        model = ModelWrapper(path)
        name, result = model.graph.input[0].name, model.graph.output[0].name
        model.set_tensor_shape(name, x[0].shape)  # a free batch would be 0
        model = model.transform(InferShapes())
        found[pathlib.Path(path).name] = np.stack(
            [execute_onnx(model, {name: sample})[result] for sample in x])
    np.savez(sys.argv[2], **found)


if __name__ == "__main__":
    main()
