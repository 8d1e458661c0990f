#!/usr/bin/env python3
"""Writes what PPQ 0.6.6's exporters make of some graphs, beside this file:

    GRAPH.PLATFORM.json     PPQ's decisions, as its plain exporter writes them
    GRAPH.FORMAT.*          what the exporter of our format FORMAT writes
    GRAPH.onnx              the graph that they name (weights are not PPQ's)

usage: make.py, by a Python with PPQ 0.6.6, torch, onnx 1.14 and protobuf 3.20 (Debian's
python3-torch and `pip install --no-deps ppq==0.6.6` in a venv with its packages)."""
import json
import pathlib
import re
import tempfile

import numpy as np
import onnx
import torch
from ppq import TargetPlatform as P
from ppq.api import quantize_onnx_model, QuantizationSettingFactory
from ppq.parser import (AscendExporter, MNNExporter, NCNNExporter, NxpExporter, OnnxExporter,
                        PPLBackendExporter, QNNDSPExporter, SNPECaffeExporter,
                        TengineExporter, TensorRTExporter_JSON)

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent.parent / "backends/goldens/models"
GRAPHS = ("conv_relu", "depthwise", "conv_bn_relu", "residual", "maxpool_concat",
          "gemm_relu", "pool_chain")
EXPORTERS = {  # our format: platform, exporter, its method, suffix
    "tensorrt-json": (P.TRT_INT8, TensorRTExporter_JSON, "json"),
    "ppl-json": (P.PPL_CUDA_INT8, PPLBackendExporter, "json"),
    "snpe-json": (P.SNPE_INT8, SNPECaffeExporter, "json"),
    "qnn-encodings": (P.QNN_DSP_INT8, QNNDSPExporter, "json"),
    "ncnn-table": (P.NCNN_INT8, NCNNExporter, "table"),
    "mnn-json": (P.MNN_INT8, MNNExporter, "json"),
    "ascend-record": (P.ASC_INT8, AscendExporter, "txt"),
    "tengine-scale": (P.TENGINE_INT8, TengineExporter, "scale"),
    "nxp-onnx": (P.NXP_INT8, NxpExporter, "json"),
}


def plain(text):
    """Hashes are made from the time: numbers in order of appearance instead."""
    names = {}
    return re.sub(r"(?<![\d.e-])(?!1073741824\b)\d{10,}(?![\d.e])",  # but limits of a bias
                  lambda m: str(names.setdefault(m[0], len(names) + 1)), text)


def limits(path):
    """What the file has beyond the model: the limits, of which each is an initializer and
    an input."""
    graph = onnx.load(path).graph
    listed = {i.name for i in graph.input}
    return json.dumps({i.name: float(onnx.numpy_helper.to_array(i))
                       for i in graph.initializer if i.name in listed}, indent=1)


def quantize(path, platform):
    model = onnx.load(path)
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim]
              for i in model.graph.input]
    names = [i.name for i in model.graph.input]
    state = np.random.RandomState(0)
    steps = [{n: torch.from_numpy(state.rand(*s).astype(np.float32))
              for n, s in zip(names, shapes)} for _ in range(8)]
    data = [s[names[0]] for s in steps] if len(names) == 1 else steps
    with torch.no_grad():
        return quantize_onnx_model(
            onnx_import_file=str(path), calib_dataloader=data, calib_steps=8,
            input_shape=shapes[0], inputs=None if len(names) == 1 else steps[0],
            platform=platform, device="cpu", verbose=0,
            setting=QuantizationSettingFactory.default_setting())


def main():
    for graph in GRAPHS:
        for form, (platform, exporter, suffix) in EXPORTERS.items():
            try:
                ir = quantize(MODELS / f"{graph}.onnx", platform)
                with tempfile.TemporaryDirectory() as folder:
                    file = pathlib.Path(folder, f"x.{suffix}")
                    it = exporter()
                    if form == "tengine-scale":
                        it.export_quantization_scale(str(file), ir)
                    elif form == "nxp-onnx":
                        it.export(f"{folder}/n.onnx", ir)
                        file.write_text(limits(f"{folder}/n.onnx"))
                    elif form == "mnn-json":
                        it.export_onnx_quantization_config(str(file), ir)
                    else:
                        it.export_quantization_config(str(file), ir)
                    text = file.read_text()
                    decisions = pathlib.Path(folder, "d.json")
                    OnnxExporter().export_quantization_config(str(decisions), ir)
                    known = plain(decisions.read_text() + "\0" + text).split("\0")
                    model = pathlib.Path(folder, "m.onnx")
                    OnnxExporter().export(str(model), ir, None)
                    made = onnx.load(model)
            except Exception as error:  # PPQ refuses
                print(f"{graph} {form}: {type(error).__name__}: {error}")
                continue
            (HERE / f"{graph}.{platform.name}.json").write_text(
                json.dumps(json.loads(known[0]), separators=(",", ":")) + "\n")
            (HERE / f"{graph}.{form}.{suffix}").write_text(known[1])
            target = HERE / f"{graph}.onnx"
            if not target.exists():
                target.write_bytes(made.SerializeToString())
            kept = onnx.load(target)
            same = [(n.op_type, n.name, list(n.input), list(n.output))
                    for n in sorted(kept.graph.node, key=lambda n: n.name)] == [
                        (n.op_type, n.name, list(n.input), list(n.output))
                        for n in sorted(made.graph.node, key=lambda n: n.name)]
            print(f"{graph} {form}: {len(text)} bytes, the same graph: {same}")


if __name__ == "__main__":
    main()
