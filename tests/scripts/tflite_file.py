"""tflite_file -- writes .tflite files with flatc and the project's own schema.

    f = File()
    x = f.tensor("x", "int8", [1, 4, 4, 2], [0.5], [3])
    w = f.tensor("w", "int8", [2, 1, 1, 2], [0.1, 0.2], [0, 0], data=codes)
    y = f.tensor("y", "int8", [1, 4, 4, 2], [0.25], [-128])
    f.operator("CONV_2D", [x, w], [y], {"padding": "SAME", "stride_h": 1, "stride_w": 1})
    f.write(path, [x], [y])

`f.model` is the JSON that flatc packs: tests of malformed files change it."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import numpy as np

SCHEMA = pathlib.Path("engine/formats/tflite/schema.fbs")
FLATC = shutil.which("flatc")
TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7,
         "int8": 9}
ACTIVATIONS = ["NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"]
PADDINGS = ["SAME", "VALID"]
FIELDS = {"dilation_h_factor": "dilation_h", "dilation_w_factor": "dilation_w",
          "depth_multiplier": "multiplier", "half_pixel_centers": "half_pixel",
          "keep_num_dims": "keep_dims"}
OPTIONS = {"CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
           "TRANSPOSE_CONV": "TransposeConv", "AVERAGE_POOL_2D": "Pool2D", "MAX_POOL_2D": "Pool2D",
           "FULLY_CONNECTED": "FullyConnected", "BATCH_MATMUL": "BatchMatMul", "ADD": "Add",
           "SUB": "Sub", "MUL": "Mul", "SOFTMAX": "Softmax", "CONCATENATION": "Concatenation",
           "MEAN": "Reducer", "RESIZE_BILINEAR": "ResizeBilinear",
           "RESIZE_NEAREST_NEIGHBOR": "ResizeNearest", "LEAKY_RELU": "LeakyRelu",
           "GATHER": "Gather", "SPLIT": "Split", "SPLIT_V": "SplitV", "PACK": "Pack",
           "UNPACK": "Unpack", "GELU": "Gelu", "STRIDED_SLICE": "StridedSlice"}


def codes():
    """name -> number, from the table of the reader."""
    text = pathlib.Path("engine/formats/tflite/operators.c").read_text()
    return {name: int(code) for code, name in re.findall(r'\{\s*(\d+),\s*"([A-Z0-9_]+)"', text)}


class File:
    def __init__(self):
        self.codes = codes()
        self.graph = {"tensors": [], "inputs": [], "outputs": [], "operators": []}
        self.model = {"version": 3, "codes": [], "subgraphs": [self.graph], "buffers": [{}]}

    def tensor(self, name, dtype, shape, scale=(), zero=(), axis=0, data=None):
        """Number of a new tensor; data: of a constant."""
        t = {"name": name, "type": TYPES[dtype], "shape": [int(n) for n in shape], "buffer": 0}
        if len(scale):
            t["quantization"] = {"scale": [float(np.float32(s)) for s in scale],
                                 "zero_point": [int(z) for z in zero], "axis": axis}
        if data is not None:
            t["buffer"] = len(self.model["buffers"])
            self.model["buffers"].append(
                {"data": list(np.ascontiguousarray(data, dtype).tobytes())})
        self.graph["tensors"].append(t)
        return len(self.graph["tensors"]) - 1

    def operator(self, op, inputs, outputs, attributes=None, code=None):
        number = self.codes[op] if code is None else code
        self.model["codes"].append({"old_code": min(number, 127), "code": number})
        node = {"code": len(self.model["codes"]) - 1, "inputs": inputs, "outputs": outputs}
        if op in OPTIONS:
            node["options_type"] = OPTIONS[op]
            node["options"] = {FIELDS.get(k, k): self.number(k, v)
                               for k, v in (attributes or {}).items()}
        self.graph["operators"].append(node)
        return node

    @staticmethod
    def number(name, value):
        return ACTIVATIONS.index(value) if name == "activation" else \
            PADDINGS.index(value) if name == "padding" else value

    def write(self, path, inputs, outputs):
        self.graph["inputs"], self.graph["outputs"] = inputs, outputs
        pack(self.model, path)


def pack(model, path):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "m.json").write_text(json.dumps(model))
        done = subprocess.run([FLATC, "-b", "-o", folder, SCHEMA, folder / "m.json"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        made, = (p for p in folder.iterdir() if p.suffix != ".json")
        pathlib.Path(path).write_bytes(made.read_bytes())
