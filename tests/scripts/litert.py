"""litert -- writes .tflite files and runs them in LiteRT.

File collects tensors and operators of one subgraph and writes them with the schema that
ai-edge-litert ships (schema_py_generated.py, generated from the upstream schema.fbs).
Runtime runs a file in one of three sets of kernels:

    reference   the reference kernels
    builtin     the optimized kernels, without a delegate
    xnnpack     the default: the XNNPACK delegate takes what it can, else builtin

A delegate computes no tensor between its own operators unless the tensor is an output of
the subgraph: all_outputs() makes every tensor one."""
import contextlib
import os
import sys

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

KERNELS = {
    "reference": OpResolverType.BUILTIN_REF,
    "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "xnnpack": OpResolverType.BUILTIN,
}
PROFILES = {  # of quantgraph, for each set
    "reference": "tflite-reference",
    "builtin": "tflite-builtin-x86",
    "xnnpack": "tflite-xnnpack",
}
TYPES = {
    "float32": schema.TensorType.FLOAT32,
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
    "int16": schema.TensorType.INT16,
    "int32": schema.TensorType.INT32,
    "int64": schema.TensorType.INT64,
}
OPTIONS = {  # operator: its table of options; operators without one have no entry
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "SQUARED_DIFFERENCE": "SquaredDifferenceOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "HARD_SWISH": "HardSwishOptions",
    "SOFTMAX": "SoftmaxOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "CONCATENATION": "ConcatenationOptions",
    "PAD": "PadOptions",
    "PADV2": "PadV2Options",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "RESHAPE": "ReshapeOptions",
    "TRANSPOSE": "TransposeOptions",
    "QUANTIZE": "QuantizeOptions",
    "DEQUANTIZE": "DequantizeOptions",
}
FIELDS = {  # attribute: field of the table
    "stride_h": "strideH",
    "stride_w": "strideW",
    "dilation_h": "dilationHFactor",
    "dilation_w": "dilationWFactor",
    "filter_h": "filterHeight",
    "filter_w": "filterWidth",
    "depth_multiplier": "depthMultiplier",
    "activation": "fusedActivationFunction",
    "padding": "padding",
    "keep_num_dims": "keepNumDims",
    "keep_dims": "keepDims",
    "adj_x": "adjX",
    "adj_y": "adjY",
    "align_corners": "alignCorners",
    "half_pixel_centers": "halfPixelCenters",
    "new_shape": "newShape",
    "axis": "axis",
    "beta": "beta",
    "alpha": "alpha",
}
WORDS = {"activation": schema.ActivationFunctionType, "padding": schema.Padding}
VERSION = 1  # every kernel is registered from version 1 on; the types decide, not the version


class File:
    """A .tflite file that grows; tensors and operators are numbered in order."""

    def __init__(self):
        self.model = schema.ModelT()
        self.model.version, self.model.operatorCodes = 3, []
        self.model.buffers = [schema.BufferT()]
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.model.subgraphs = [self.graph]

    def tensor(self, name, dtype, shape, grid=None, data=None):
        """Number of a new tensor.  grid: (scales, zero points, axis); data: a constant."""
        t = schema.TensorT()
        t.name, t.type, t.shape = name, TYPES[dtype], [int(n) for n in shape]
        t.buffer = 0
        if grid is not None:
            t.quantization = schema.QuantizationParametersT()
            t.quantization.scale = [float(np.float32(s)) for s in grid[0]]
            t.quantization.zeroPoint = [int(z) for z in grid[1]]
            t.quantization.quantizedDimension = int(grid[2])
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data, dtype).tobytes(), np.uint8)
            t.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def operator(self, op, inputs, outputs, attributes):
        code = getattr(schema.BuiltinOperator, op)
        codes = self.model.operatorCodes
        if code not in [c.builtinCode for c in codes]:
            made = schema.OperatorCodeT()
            made.builtinCode = code
            made.deprecatedBuiltinCode = min(code, 127)
            made.version = VERSION
            codes.append(made)
        node = schema.OperatorT()
        node.opcodeIndex = [c.builtinCode for c in codes].index(code)
        node.inputs, node.outputs = list(inputs), list(outputs)
        if op in OPTIONS:
            node.builtinOptionsType = getattr(schema.BuiltinOptions, OPTIONS[op])
            node.builtinOptions = getattr(schema, OPTIONS[op] + "T")()
            for name, value in attributes.items():
                if name in WORDS:
                    value = getattr(WORDS[name], value)
                assert hasattr(node.builtinOptions, FIELDS[name]), (op, name)
                setattr(node.builtinOptions, FIELDS[name], value)
        self.graph.operators.append(node)

    def bytes(self, inputs, outputs):
        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)
        return pack(self.model)


def pack(model):
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def unpack(data):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))


def activations(model):
    """Numbers of the tensors that an operator writes, in order."""
    return [int(t) for node in model.subgraphs[0].operators for t in node.outputs]


def all_outputs(data):
    """The same file with every computed tensor as an output."""
    model = unpack(data)
    model.subgraphs[0].outputs = activations(model)
    for signature in model.signatureDefs or []:
        signature.outputs = []
    model.signatureDefs = None
    return pack(model)


@contextlib.contextmanager
def quiet():
    """LiteRT reports its delegate on the file descriptor of stderr."""
    sys.stderr.flush()
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


class Runtime:
    def __init__(self, data, kernels):
        self.model = unpack(data)
        self.names = [t.name.decode() for t in self.model.subgraphs[0].tensors]
        keep = kernels != "xnnpack"
        with quiet():
            self.interpreter = Interpreter(
                model_content=data if keep else all_outputs(data), num_threads=1,
                experimental_op_resolver_type=KERNELS[kernels],
                experimental_preserve_all_tensors=keep)
            self.interpreter.allocate_tensors()
        self.inputs = {self.names[i]: int(i) for i in self.model.subgraphs[0].inputs}

    def run(self, feed):
        """{name: array} of every input and every computed tensor, for one sample."""
        for name, index in self.inputs.items():
            self.interpreter.set_tensor(index, feed[name])
        self.interpreter.invoke()
        return {self.names[i]: self.interpreter.get_tensor(i).copy()
                for i in (*self.inputs.values(), *activations(self.model))}

    def run_all(self, feeds):
        """The same for every sample, stacked: {name: array with the samples first}."""
        rows = [self.run(feed) for feed in feeds]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
