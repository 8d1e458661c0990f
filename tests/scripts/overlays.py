"""Model Explorer's node data of a network: what test_model_explorer.py and
tests/peers/overlay_ids.py compare with the ids of the ONNX adapter."""
from command import answer, qg

VECTOR = "tests/data/model_explorer/ids.json"  # {model: {graph, nodes}}, of the adapter
MODELS = ("configs/models/digits.onnx", "tests/models/mnist-8.onnx",
          "tests/models/conv_relu.onnx", "tests/models/function_call.onnx",
          "tests/models/body_capture.onnx", "tests/models/unsorted.onnx",
          "tests/models/node_names.onnx")


def overlays(model, folder, data="random:2", *words):
    """(snapshot, all files of node data)"""
    folder.mkdir(parents=True)
    snapshot, report = folder / "snapshot", folder / "report.json"
    qg("quantize", model, "-b", "trt-int8", "-d", data, "-o", snapshot, *words)
    report.write_text(qg("analyse", snapshot, "-d", data, "--by", "layer", "--json"))
    answer("export", snapshot, "--format", "model-explorer", "--analysis", report, "-o",
           folder / "overlay.json")
    return snapshot, sorted(folder.glob("overlay.json*"))
