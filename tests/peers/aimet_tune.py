#!/usr/bin/env python3
"""AdaRound of AIMET 2.42 beside `qg tune --method adaround`: the same network, samples and
iterations per layer, noise over signal of each output on samples that neither has seen.

usage: tests/peers/aimet_tune.py [--write] [--steps N] [--bits 8|4] [NETWORK...]

With QG=path of `qg`, from the project's root.  AIMET_PYTHON is the Python that has aimet_onnx
and torch.  Networks and samples are those of ppq_tune.py; --write puts the table into
docs/learning.md.

Both round by AIMET's configuration per channel, which `qg import-backend` makes a backend of, and
start from their own calibration; the scale of a weight is its largest over 7 or 127 in both,
which AIMET calls -8 to 7 and the backend needs to be told.  AIMET's time is that of apply_adaround alone; ours that of the
whole command.  Both use two threads, one after the other."""
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import ppq_tune
from ppq_python import python_with

BEGIN, END = "<!-- tests/peers/aimet_tune.py -->\n", "<!-- end of aimet_tune.py -->\n"
DEFAULT = ("mobilenet", "effnet")


def peer(job):
    """Tunes with AIMET: the seconds of AdaRound; outputs before and after in job["out"]."""
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
    sim = QuantizationSimModel(model, param_type=f"int{job['bits']}", activation_type="int8",
                               config_file=get_path_for_per_channel_config(),
                               providers=["CPUExecutionProvider"])
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


@contextlib.contextmanager
def backend(python):
    """A backend file with AIMET's policy."""
    where = ("from aimet_onnx.common.quantsim_config.utils import "
             "get_path_for_per_channel_config as path; print(path())")
    found = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True)
    source = found.stdout.split()[-1]
    with tempfile.TemporaryDirectory() as place:
        made = pathlib.Path(place) / "aimet.yaml"
        subprocess.run([ppq_tune.QG, "import-backend", source, "--format", "aimet", "-o", made],
                       check=True, capture_output=True)
        yield str(made)


def main():
    a = ppq_tune.arguments(1000)
    python = python_with("AIMET_PYTHON", "import aimet_onnx, torch, onnx")
    with backend(python) as policy, \
            ppq_tune.table("AIMET", PAGE_PART if a.write else None) as write:
        for name in a.networks or DEFAULT:
            for bits in (a.bits,) if a.bits else (8, 4):
                job = {"bits": bits, "steps": a.steps, "method": "adaround", "backend": policy,
                       "sets": True}
                for line in ppq_tune.compared(name, job, [python, __file__]):
                    write(line)


PAGE_PART = (BEGIN, END, "Beside AIMET", "tests/peers/aimet_tune.py")

if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(json.loads(sys.argv[2]))
    else:
        main()
