#!/usr/bin/env python3
"""The tensors of a model as OpenVINO's CPU plugin computes them.

    openvino.py MODEL DATA TRACE.npz [--rounded]

MODEL: an .xml, or an .onnx file.  Every tensor becomes an output; the plugin does not fuse
across one.  --rounded: the output of every FakeQuantize stands for the value that it rounds,
whose float tensor is left out: for `qg infer-backend`, which knows the float network."""
import sys

# This script has the name of the package, and its folder comes first.
FOLDER = sys.path.pop(0)
import openvino as ov  # noqa: E402

sys.path.append(FOLDER)
import trace_file  # noqa: E402  pylint: disable=wrong-import-position

SKIPPED = {"Constant", "Result", "Parameter"}


def name_of(output):
    """Of the tensor, or of the operator that makes it."""
    return (sorted(output.names, key=lambda n: (":" in n, len(n))) or
            [output.get_node().get_friendly_name()])[0]


def rounded_values(model):
    """{tensor of a FakeQuantize: the value that it rounds} of activations; the first one of a
    value that several round."""
    shown = {}
    for op in model.get_ordered_ops():
        if op.get_type_name() == "FakeQuantize" and \
                op.input_value(0).get_node().get_type_name() not in SKIPPED - {"Parameter"}:
            shown.setdefault(name_of(op.input_value(0)), name_of(op.output(0)))
    return {tensor: value for value, tensor in shown.items()}


def main(path, data, out, option=""):
    core = ov.Core()
    model = core.read_model(path)
    values = rounded_values(model) if option == "--rounded" else {}
    named = {o.get_node().input_value(0).get_node().get_friendly_name()
             for o in model.outputs}
    model.add_outputs([op.output(0) for op in model.get_ordered_ops()
                       if op.get_type_name() not in SKIPPED and op.get_output_size() == 1 and
                       op.get_friendly_name() not in named])
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    inputs = [(i.any_name, [d.get_length() if d.is_static else 1 for d in i.partial_shape])
              for i in compiled.inputs]
    trace = trace_file.Trace(f"OpenVINO {ov.__version__}")
    for sample in trace_file.samples(data, inputs):
        result = compiled(sample)
        for o in compiled.outputs:
            name = (sorted(o.names, key=lambda n: (":" in n, len(n))) or
                    [o.get_node().input_value(0).get_node().get_friendly_name()])[0]
            value = result[o]
            if value.size and name in values:
                trace.add(values[name], value)
            elif value.size and name not in dict(inputs) and name not in values.values():
                trace.add(name, value)
    trace.write(out)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (4, 5) else __doc__)
