#!/usr/bin/env python3
"""AdaRound of AIMET 2.42 beside `qg tune --method adaround`: the same network, samples and
iterations per layer, noise over signal of each output on samples that neither has seen.

usage: tests/peers/aimet_tune.py [--write] [--steps N] [--bits 8|4] [--sets N] [NETWORK...]

With QG=path of `qg`, from the project's root.  AIMET_PYTHON is the Python that has aimet_onnx
and torch.  Networks and samples are those of ppq_tune.py; --write puts the table into
docs/learning.md.

A step of ours is a sample, and two of them make an update: 2 N steps for N iterations.
Both start from the same grids: those that AIMET calibrates by its configuration per channel, which
`qg import` reads from the file of encodings.  AIMET's time is that of apply_adaround alone; ours
that of the whole command.  Both use two threads, one after the other."""
import json
import pathlib
import sys
import time

import numpy as np

import ppq_tune
from ppq_python import python_with

BEGIN, END = "<!-- tests/peers/aimet_tune.py -->\n", "<!-- end of aimet_tune.py -->\n"
DEFAULT = ("mobilenet", "effnet")


def peer(job):
    """Tunes with AIMET: the seconds of AdaRound; outputs before and after in job["out"], the
    encodings before as start.encodings beside it."""
    import onnx
    import torch
    from aimet_onnx import QuantizationSimModel, apply_adaround
    from aimet_onnx.common.quantsim_config.utils import get_path_for_per_channel_config
    torch.set_num_threads(2)
    torch.manual_seed(0)
    np.random.seed(0)
    data = np.load(job["data"])
    model = onnx.load(job["model"])
    [name] = [i.name for i in model.graph.input]
    teach, test = ([{name: x} for x in data[part]] for part in ("teach", "test"))

    def simulation():
        return QuantizationSimModel(onnx.load(job["model"]), param_type=f"int{job['bits']}",
                                    activation_type="int8",
                                    config_file=get_path_for_per_channel_config(),
                                    providers=["CPUExecutionProvider"])
    start = simulation()  # of its own: an export changes it
    start.compute_encodings(teach)
    start.export(str(pathlib.Path(job["out"]).parent), "start")
    sim = simulation()
    names = [o.name for o in model.graph.output]
    found = {}

    def measure(when):
        sim.compute_encodings(teach)
        outputs = [sim.session.run(None, x) for x in test]
        for k, out in enumerate(names):
            found[f"{when}:{out}"] = np.stack([o[k] for o in outputs])
    measure("before")
    begin = time.monotonic()
    apply_adaround(sim, teach, num_iterations=job["steps"])
    seconds = time.monotonic() - begin
    measure("after")
    np.savez(job["out"], seconds=seconds, **found)


def main():
    a = ppq_tune.arguments(1000)
    python = python_with("AIMET_PYTHON", "import aimet_onnx, torch, onnx")
    with ppq_tune.table("AIMET", PAGE_PART if a.write else None) as write:
        for name in a.networks or DEFAULT:
            for bits in (a.bits,) if a.bits else (8, 4):
                job = {"bits": bits, "steps": a.steps, "each": 2, "method": "adaround",
                       "imports": True}
                for line in ppq_tune.compared(name, a.sets, job, [python, __file__]):
                    write(line)


PAGE_PART = (BEGIN, END, "Beside AIMET", "tests/peers/aimet_tune.py")

if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(json.loads(sys.argv[2]))
    else:
        main()
