"""How OpenVINO's CPU plugin computes the nodes of a file, from its runtime graph: on codes
(the data is u8 or i8), as a part of a kernel on codes, or in float."""
CODES = "u8", "i8"
# Behind the name of the node, of layers that are a part of it
PARTS = ("/DequantizationMultiply", "/without_bias", "/MM", "/alpha/product",
         "/fq_output_0_original", "_original", "/normalized")
SKIPPED = {"Const", "Constant", "Input", "Output", "Reorder", "FakeQuantize"}
COMPILED = {"Subgraph", "Eltwise"}  # of element-wise functions, and an attention
PRODUCTS = {"Convolution", "Deconvolution", "FullyConnected", "MatMul"}
KERNELS = PRODUCTS | {"Reduce", "MVN", "Pooling", "Interpolate"}  # may store floats
ONE_DATA = {"Convolution", "Deconvolution", "FullyConnected", "Interpolate", "Gather", "Broadcast",
            "StridedSlice", "Reduce", "MVN", "Pad"}
MOVES = {"Expand", "Pad", "Transpose", "Reshape", "Slice", "Gather", "Split", "Concat"}  # a name of theirs here: one that was removed


def text(value):
    return value if isinstance(value, str) else value.astype(str)


def word(op, key):
    return text(op.get_rt_info()[key])


def name_of(layer, names):
    """The node that a layer is, or is a part of; None: one that the plugin added."""
    if layer in names:
        return layer
    for part in PARTS:
        if layer.endswith(part):
            return name_of(layer[:len(layer) - len(part)], names)
    return None


def data_types(op, kind):
    """Types of the data that a layer reads; not of constants, nor of shapes and axes."""
    types = []
    for k in op.inputs():
        source = k.get_source_output()
        made = word(source.get_node(), "outputPrecisions").split(",")
        if word(source.get_node(), "layerType") not in ("Const", "Constant"):
            types.append(made[min(source.get_index(), len(made) - 1)])
    types = [t for t in types if t not in ("i32", "i64", "dynamic")]
    return types[:1] if kind in ONE_DATA else types[:2] if kind == "MatMul" else types


def multiplies_activations(op, kind):
    """Of no weights: on integers or not, as the CPU has it (docs/lint.md)."""
    return kind == "MatMul" and len(data_types(op, kind)) > 1


def state_of(op, kind, layers):
    types = data_types(op, kind)
    if not types or not all(t in CODES for t in types):
        return "float"
    stored = word(op, "outputPrecisions").split(",")[0] in CODES or \
        any("/fq_output" in name for name in layers)
    return "codes" if stored or kind in KERNELS else "float"


def states(model, operators, apart=(), activations=True):
    """{name: 'codes', 'fused' (into a kernel on codes), 'float'} of nodes that are found;
    operators: of all nodes, by name; activations: products of two of them count.  Nodes in
    `apart`, and what they take in, are left out, and so are the parts of an attention, which is one kernel where the CPU has AVX-512, and of other normalizations."""
    found = {}
    for op in model.get_runtime_model().get_ordered_ops():
        kind = word(op, "layerType")
        if kind in SKIPPED:
            continue
        layers = word(op, "originalLayersNames").split(",")
        names = [name for name in (name_of(layer, operators) for layer in layers) if name]
        main = name_of(op.get_friendly_name(), operators) or name_of(layers[0], operators)
        composed = kind == "MVN" and operators.get(main) != "InstanceNormalization"
        left = main in apart or not activations and multiplies_activations(op, kind)
        if left or composed or (kind in COMPILED and
                             any(operators[n] in ("Softmax", "MatMul") for n in names)):
            continue
        own = "float" if kind in COMPILED else state_of(op, kind, layers)
        for name in names:
            if name == main and kind not in COMPILED:
                found[name] = "codes" if found.get(name) == "codes" else own
            elif operators[name] not in MOVES and found.get(name, "float") == "float":
                found[name] = "fused" if own == "codes" else "float"
    return found
