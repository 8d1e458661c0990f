#!/usr/bin/env python3
"""Asks PPQ itself: a folder of goldens, of the form of tests/backends/goldens, that
tests/backends/ppq_parity then compares.

usage: tests/peers/ppq_goldens.py DIR [MODEL.onnx:PLATFORM[:VARIANT] ...] [options]
  --random N     N random networks (random_graphs.py), each with a platform and a
                 variant that are drawn, too
  --seed S       the first network's seed; the next ones count up           (default 1)
  --compare      compare at once: exit 0 iff all TQCs agree

PPQ_PYTHON is the Python that has ppq 0.6.6, torch and onnx (Debian: python3-torch,
python3-onnx and `pip install --no-deps ppq==0.6.6`); exit 77 without one."""
import argparse
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import yaml

import random_graphs
from ppq_python import python_with_ppq

HERE = os.path.dirname(os.path.abspath(__file__))
BACKENDS = f"{HERE}/../backends"
PLATFORMS = ["TRT_INT8", "OPENVINO_INT8", "ONNXRUNTIME", "PPL_CUDA_INT8", "PPL_DSP_INT8",
             "PPL_DSP_TI_INT8", "MNN_INT8", "ASC_INT8", "NCNN_INT8", "NXP_INT8",
             "FPGA_INT8", "RKNN_INT8", "METAX_INT8_C", "METAX_INT8_T", "TENGINE_INT8"]
STEPS = 8


def settings_table():
    with open(f"{HERE}/ppq_settings.yaml", encoding="utf-8") as f:
        return yaml.safe_load(f)


COMPUTE = ("Conv", "ConvTranspose", "Gemm", "MatMul")
FORCED = ("Relu", "Sigmoid", "MaxPool", "Elu", "Tanh")


def dispatching(variant, path, platform):
    """PPQ's dispatching table as settings: table-fp32 takes the second compute node out,
    table-force sends operators to the platform that it may not know."""
    nodes = onnx.load(path).graph.node
    if variant == "table-fp32":
        return {f"dispatch:{n.name}": "FP32"
                for n in [n for n in nodes if n.op_type in COMPUTE][1:2]}
    return {f"dispatch:{n.name}": platform for n in nodes if n.op_type in FORCED}


def shapes_of(path):
    graph = onnx.load(path).graph
    constants = {t.name for t in graph.initializer}
    return [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in graph.input
            if i.name not in constants]


def drawn(seeds, folder, variants):
    """(model, platform, variant or None) of each seed, the model in the folder."""
    for seed in seeds:
        model, _ = random_graphs.random_model(seed)
        onnx.save(model, f"{folder}/models/r{seed}.onnx")
        draw = np.random.RandomState(seed + 1000000)
        platform = PLATFORMS[draw.randint(len(PLATFORMS))]
        variant = variants[draw.randint(len(variants))] if draw.rand() < 0.6 else None
        yield f"r{seed}", platform, variant


def asked(specs, folder):
    """The same of runs that are named."""
    for spec in specs:
        path, platform, variant = (spec.split(":") + [None])[:3]
        name = os.path.basename(path).removesuffix(".onnx")
        if not os.path.exists(f"{folder}/models/{name}.onnx"):
            shutil.copy(path, f"{folder}/models")
        yield name, platform, variant


def job_of(folder, name, platform, variant, table):
    path = f"{folder}/models/{name}.onnx"
    if variant in ("table-fp32", "table-force"):
        settings = dispatching(variant, path, platform)
    else:
        settings = dict(table[variant]) if variant else {}
    stem = ".".join([name, platform] + ([variant] if variant else []))
    return {"model": os.path.abspath(path),
            "platform": platform, "steps": STEPS, "file": f"{stem}.json",
            "shapes": shapes_of(path),
            "algorithm": settings.pop("algorithm", None), "settings": settings,
            "out": os.path.abspath(f"{folder}/{stem}.json")}


def decide(python, jobs):
    """PPQ's answer to each: {} or {"raises"}.  One process: importing torch takes most."""
    done = subprocess.run([python, f"{HERE}/ppq_decide.py"], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          input="".join(json.dumps(j) + "\n" for j in jobs))
    return [json.loads(line) for line in done.stdout.splitlines()]


def manifest(runs, jobs, answers):
    models, held = {}, []
    for (name, platform, variant), job, answer in zip(runs, jobs, answers, strict=True):
        models[name] = {"shapes": ",".join("x".join(map(str, s)) for s in job["shapes"])}
        if "raises" in answer:
            entry = {"raises": answer["raises"]}
        else:
            with open(job["out"], encoding="utf-8") as f:
                entry = {"file": job["file"], "tqc": json.load(f)["num_tqc"]}
        run = {"model": name, "platform": platform}
        held.append(run | ({"own": {variant: entry}, "tqc": entry.get("tqc", 0)}
                           if variant else entry))
    return {"ppq": "0.6.6", "steps": STEPS, "models": models, "runs": held}


def write(path, made):
    """A line per model and per run."""
    models = ",\n".join(f"{json.dumps(k)}:{json.dumps(v)}"
                        for k, v in made["models"].items())
    runs = ",\n".join(json.dumps(r) for r in made["runs"])
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'{{"ppq":"{made["ppq"]}","steps":{made["steps"]},\n"models":{{\n{models}\n}},'
                f'\n"runs":[\n{runs}\n]}}\n')


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", metavar="DIR")
    p.add_argument("runs", nargs="*")
    p.add_argument("--random", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--compare", action="store_true")
    return p.parse_args()


def main():
    options, python, table = arguments(), python_with_ppq(), settings_table()
    os.makedirs(f"{options.folder}/models", exist_ok=True)
    seeds = range(options.seed, options.seed + options.random)
    runs = [*asked(options.runs, options.folder),
            *drawn(seeds, options.folder, [*sorted(table), "table-fp32", "table-force"])]
    jobs = [job_of(options.folder, *run, table) for run in runs]
    answers = decide(python, jobs)
    write(f"{options.folder}/manifest.json", manifest(runs, jobs, answers))
    raised = [a["raises"] for a in answers if "raises" in a]
    print(f"PPQ decided {len(runs) - len(raised)} of {len(runs)} runs; on "
          f"{len(raised)} it raises")
    if not options.compare:
        return 0
    return subprocess.run([sys.executable, f"{BACKENDS}/ppq_parity", options.folder,
                           "--variants", "-n", "3"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
