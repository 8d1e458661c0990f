#!/usr/bin/env python3
"""The tensors of a .tflite file as LiteRT computes them.

    litert.py MODEL.tflite DATA TRACE.npz [--builtin | --delegate]

Reference kernels; --builtin: the optimized ones; --delegate: the default, in which a delegate
keeps the tensors between its operators, so that fewer are visible."""
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import trace_file

KERNELS = {"": OpResolverType.BUILTIN_REF,
           "--builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
           "--delegate": OpResolverType.BUILTIN}


def grid(tensor):
    scale, zero = tensor["quantization_parameters"]["scales"], \
        tensor["quantization_parameters"]["zero_points"]
    return (scale[0], zero[0]) if len(scale) == 1 else None


def as_input(x, tensor):
    """Floats for an integer input are quantized on its grid."""
    if x.dtype == tensor["dtype"] or tensor["dtype"] == np.float32:
        return x.astype(tensor["dtype"])
    scale, zero = grid(tensor)
    limits = np.iinfo(tensor["dtype"])
    q = x / np.float32(scale)
    q = np.sign(q) * np.floor(np.abs(q) + 0.5) + zero
    return q.clip(limits.min, limits.max).astype(tensor["dtype"])


def main(path, data, out, kernels=""):
    run = Interpreter(path, experimental_op_resolver_type=KERNELS[kernels],
                      experimental_preserve_all_tensors=True, num_threads=1)
    run.allocate_tensors()
    inputs = run.get_input_details()
    shown = [t for t in run.get_tensor_details() if t["name"]]
    trace = trace_file.Trace("LiteRT")
    produced = {t for op in run._get_ops_details() for t in op["outputs"]}  # pylint: disable=W0212
    shown = [t for t in shown if t["index"] in produced | {i["index"] for i in inputs}]
    constants = set()
    for k, sample in enumerate(trace_file.samples(
            data, [(t["name"], t["shape"]) for t in inputs])):
        for t in inputs:
            run.set_tensor(t["index"], as_input(sample[t["name"]], t))
        run.invoke()
        for t in shown:
            try:
                value = run.get_tensor(t["index"])
            except ValueError:  # of the delegate, or never computed
                constants.add(t["index"])
            if t["index"] not in constants and (k == 0 or t["name"] in trace.arrays):
                if value.size and value.dtype != object:
                    trace.add(t["name"], value, grid(t))
    trace.write(out)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (4, 5) else __doc__)
