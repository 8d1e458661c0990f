#!/usr/bin/env python3
"""Node data of format model-explorer against Model Explorer's ONNX adapter: the graph and
every node that our files name must be a graph and a node of what the adapter makes of
SNAPSHOT/model.onnx, and every operator outside of bodies must be named.

    python3 -m venv V && V/bin/pip install ai-edge-model-explorer==0.1.34 \\
        model-explorer-onnx==0.4.2
    QG=build/qg V/bin/python tests/peers/overlay_ids.py [--zoo] [--write]

--zoo adds the networks of tests/zoo.  --write writes what the adapter made of the demo
models into tests/data/model_explorer/ids.json, with which
tests/scripts/test_model_explorer.py compares our files where the adapter is absent."""
import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from model_explorer.node_data_builder import GraphNodeData, NodeDataResult, ThresholdItem
from model_explorer_onnx.main import ONNXAdapter

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/scripts"), str(ROOT / "tests/zoo")]
from overlays import MODELS, VECTOR, overlays  # noqa: E402

SHARED = ("ultraface-rfb-320", "standins/mobilenet_a", "standins/effnet_a", "standins/vit_a",
          "standins/yolo_a", "kws_float")


def zoo(folder):
    """(name, path, words about its samples) of every network."""
    import detection, graph, language, segmentation, sequence, vision  # noqa: E401, F401
    for name in graph.NETWORKS:
        path, data = folder / f"{name}.onnx", folder / f"{name}.npz"
        samples = graph.build(name).save(path, 2)
        np.savez(data, **samples)
        yield name, path, (data, *shapes(path, samples))


def shapes(path, samples):
    """--shape of the inputs, as the samples have it."""
    for i in onnx.load(path).graph.input:
        if i.name in samples and samples[i.name].shape[1:]:
            yield from ("--shape", f"{i.name}=" +
                        "x".join(map(str, samples[i.name].shape[1:])))


def adapted(model):
    """{graph id: its operators}, of the adapter."""
    graphs = ONNXAdapter().convert(str(model), {})["graphs"]
    return {g.id: [n.id for n in g.nodes if not n.id.startswith("[value] ")] for g in graphs}


def typed(file):
    """The file in the classes of Model Explorer, which refuse an unknown field."""
    for name, data in json.loads(file.read_text()).items():
        yield name, GraphNodeData(
            name=data["name"],
            results={k: NodeDataResult(**v) for k, v in data["results"].items()},
            thresholds=[ThresholdItem(**t) for t in data.get("thresholds", [])])


def check(name, path, folder, words):
    """The adapter's ids of the main graph, and how many of ours differ: a key that is no id,
    or a node of the file without a key."""
    snapshot, files = overlays(path, folder, *words)
    theirs, wrong = adapted(snapshot / "model.onnx"), 0
    graph = onnx.load(snapshot / "model.onnx", load_external_data=False).graph
    for file in files:
        (main, data), = typed(file)
        ours = set(data.results)
        wrong += len(ours - set(theirs.get(main, ())))
        if ".nsr." not in file.name:  # has nodes that compute
            wrong += len({n.name for n in graph.node} - ours)
    print(f"{name:36} {len(files)} files, {len(graph.node):4} nodes, {wrong} differ", flush=True)
    named = {n.name for n in graph.node} & set(theirs.get(main, ()))
    return {"graph": main, "nodes": sorted(named)}, wrong


def main():
    wrong, vector = 0, {}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        models = [(name, ROOT / name, ()) for name in MODELS]
        models += [(name, ROOT / f"../shared/models/{name}.onnx", ()) for name in SHARED]
        if "--zoo" in sys.argv:
            (scratch / "zoo").mkdir()
            models += zoo(scratch / "zoo")
        for i, (name, path, words) in enumerate(models):
            if not path.exists():
                print(f"skipped: {path} is not there")
                continue
            found, differ = check(name, path, scratch / str(i), words)
            wrong += differ
            if name in MODELS:
                vector[name] = found
    if "--write" in sys.argv:
        (ROOT / VECTOR).write_text(json.dumps(vector, indent=1) + "\n")
    return wrong > 0


sys.exit(main())
