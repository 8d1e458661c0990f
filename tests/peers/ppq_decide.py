#!/usr/bin/env python3
"""What PPQ decides, in the form of tests/backends/goldens.  Runs under a Python that has
ppq and torch, and nothing of this project:

    ppq_decide.py < jobs      a job per line, JSON: {"model", "platform", "settings",
                              "factory", "algorithm", "shapes", "steps", "out"}

settings: `fusion_setting.align_concat_to` -> value, `dispatch:NODE` -> FP32, as in the
goldens.  `out` receives the golden; each job is answered by a line, {} or
{"raises": ...}; a run in which last bits decide, or which loses an output of the network,
counts as one that raises.  Samples: steps times RandomState(0).rand, input after input."""
import contextlib
import io
import json
import os
import sys

import numpy as np
import onnx

KEYS = {"state": lambda t: t.state.name, "bits": lambda t: t.num_of_bits,
        "qmin": lambda t: t.quant_min, "qmax": lambda t: t.quant_max,
        "policy": lambda t: t.policy._policy, "rounding": lambda t: t.rounding.name,
        "exponent_bits": lambda t: t.exponent_bits,
        "observer": lambda t: t.observer_algorithm,
        "visibility": lambda t: t.visibility.name}
# What a quantizer calls the platform of its nodes, where that is not its own name; a
# node that is forced to another platform fuses with no other.
TARGET = {"ONNXRUNTIME": "INT8"}
ABSENT = {"exponent_bits": 0, "visibility": "EXPORT_WHEN_ACTIVE"}


def numbers(tensor):
    """A float32 that reads back exactly; a list per channel."""
    if tensor is None:
        return None
    values = [float(f"{float(v):.9g}") for v in tensor.detach().flatten()]
    return values[0] if len(values) == 1 else values


def root_of(tqc):
    while tqc._dominator is not tqc:
        tqc = tqc._dominator
    return tqc


def record(variable, tqc, place):
    found = {"var": variable.name}
    for key, value in KEYS.items():
        if value(tqc) != ABSENT.get(key, None):
            found[key] = value(tqc)
    root = root_of(tqc)
    if "CHANNEL" in str(tqc.policy.to_dict()) and tqc.policy.to_dict().get("PER_CHANNEL"):
        found["axis"] = tqc.channel_axis
    found["scale"], found["offset"] = numbers(root._scale), numbers(root._offset)
    if root is not tqc:
        found["dominator"] = place.get(id(root), "another graph")
    return {k: v for k, v in found.items() if v is not None}


def describe(graph):
    """name -> entry, as the goldens have it."""
    from ppq.IR import QuantableOperation
    quantized = [o for o in graph.operations.values() if isinstance(o, QuantableOperation)]
    place = {}
    for o in quantized:
        for kind, configs in (("in", o.config.input_quantization_config),
                              ("out", o.config.output_quantization_config)):
            place.update({id(t): f"{o.name}.{kind}{i}" for i, t in enumerate(configs)})
    ops = {}
    for name, o in graph.operations.items():
        ops[name] = {"type": o.type, "platform": o.platform.name,
                     "inputs": [v.name for v in o.inputs],
                     "outputs": [v.name for v in o.outputs]}
        if o in quantized:
            ops[name]["in"] = [record(v, t, place) for v, t in
                               zip(o.inputs, o.config.input_quantization_config)]
            ops[name]["out"] = [record(v, t, place) for v, t in
                                zip(o.outputs, o.config.output_quantization_config)]
    return ops


def setting_of(job):
    from ppq import QuantizationSettingFactory
    from ppq.core import TargetPlatform
    setting = getattr(QuantizationSettingFactory, job.get("factory", "default_setting"))()
    if job.get("algorithm"):
        setting.quantize_activation_setting.calib_algorithm = job["algorithm"]
    for key, value in job.get("settings", {}).items():
        if key.startswith("dispatch:"):
            name = (value if value in ("FP32", "SOI")
                    else TARGET.get(job["platform"], job["platform"]))
            setting.dispatching_table.append(key[len("dispatch:"):], TargetPlatform[name])
            continue
        place, _, last = key.rpartition(".")
        target = setting
        for part in filter(None, place.split(".")):
            target = getattr(target, part)
        if not hasattr(target, last):
            raise KeyError(f"PPQ has no setting {key}")
        setattr(target, last, value)
    return setting


def decide(job, factor=1.0):
    import torch
    from ppq.api import quantize_onnx_model
    from ppq.core import TargetPlatform
    random = np.random.RandomState(0)
    batches = [[torch.from_numpy(random.rand(*s).astype("float32")) * factor
                for s in job["shapes"]]
               for _ in range(job["steps"])]
    batches = [b[0] if len(b) == 1 else b for b in batches]
    setting = setting_of(job)
    graph = quantize_onnx_model(
        onnx_import_file=job["model"], calib_dataloader=batches, calib_steps=job["steps"],
        input_shape=None, inputs=batches[0], platform=TargetPlatform[job["platform"]],
        setting=setting, device="cpu", collate_fn=lambda x: x, verbose=0)
    promised = len(onnx.load(job["model"]).graph.output)
    if len(graph.outputs) < promised:
        # a normalization behind an output of the network was folded (D34)
        raise ValueError(f"{promised - len(graph.outputs)} outputs are lost")
    ops = describe(graph)
    return {"model": os.path.basename(job["model"]), "platform": job["platform"],
            "settings": job.get("settings", {}), "shapes": job["shapes"],
            "steps": job["steps"], "graph_outputs": list(graph.outputs),
            "num_tqc": sum(len(e.get("in", ())) + len(e.get("out", ()))
                           for e in ops.values()), "ops": ops}


def chance(one, other):
    """Where two runs differ by more than the judge allows, or None."""
    for name, e in one["ops"].items():
        pairs = zip([*e.get("in", ()), *e.get("out", ())],
                    [*other["ops"][name].get("in", ()), *other["ops"][name].get("out", ())])
        for a, b in pairs:
            for key, most in (("scale", 1e-6), ("offset", 0)):
                x, y = np.atleast_1d(a.get(key, 0.)), np.atleast_1d(b.get(key, 0.))
                if np.any(np.abs(x - y) > most * np.abs(x)):
                    return f"{name}: {key} of '{a['var']}' is {x.max():g} or {y.max():g}"
    return None


def decide_twice(job):
    """With other kernels and samples of which every last bit differs; what only chance
    decides is no golden."""
    import torch
    golden = decide(job)
    with torch.backends.mkldnn.flags(enabled=False):
        found = chance(golden, decide(job, 1 + 2.0 ** -23))
    if found:
        raise ArithmeticError(f"the last bit decides: {found}")
    return golden


def write(golden, path):
    """One operation per line: goldens are read by people, too."""
    head = {k: v for k, v in golden.items() if k != "ops"}
    lines = [f"{json.dumps(n)}:{json.dumps(e, separators=(',', ':'))}"
             for n, e in golden["ops"].items()]
    with open(path, "w", encoding="utf-8") as f:
        f.write(json.dumps(head)[:-1] + ',\n"ops":{\n' + ",\n".join(lines) + "\n}}\n")


def main():
    with contextlib.redirect_stdout(io.StringIO()):
        import torch
        import ppq.core.defs
        torch.set_num_threads(1)
        # PPQ collects garbage before each decorated call: no effect on what it decides
        ppq.core.defs.gc.collect = lambda *_: 0
    for line in sys.stdin:
        job, answer, said = json.loads(line), {}, io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                golden = decide_twice(job)
            write(golden, job["out"])
        except Exception as error:  # PPQ raises whatever; the graph has no golden then
            answer = {"raises": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
