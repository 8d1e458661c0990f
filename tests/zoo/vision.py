"""vision -- classification networks of the zoo."""
from graph import network


def residual(n, x, out, s, bottleneck, width=None, g=1, act="relu", se=0):
    with n.at(f"layer{len(n.nodes)}", "0"):
        keep = x if s == 1 and x.shape[1] == out else n.conv(x, out, 1, s, pad=(0, 0))
        if bottleneck:
            mid = width or out // 4
            y = n.conv(x, mid, 1, act=act)
            y = n.conv(y, mid, 3, s, g=g, act=act)
            y = n.squeeze_excite(y, se) if se else y
            y = n.conv(y, out, 1, gain=0.5)
        else:
            y = n.conv(n.conv(x, out, 3, s, act=act), out, 3, gain=0.5)
        return n.act(n.op("Add", y, keep), act)


def resnet(n, counts, bottleneck):
    w, size = n.size(8, 64), n.size(64, 224)
    x = n.input("input.1", (1, 3, size, size), ("batch_size", 3, size, size))
    x = n.pool(n.conv(x, w, 7, 2, act="relu"), "Max", 3, 2, 1)
    for stage, count in enumerate(counts):
        for i in range(count):
            out = w * 2**stage * (4 if bottleneck else 1)
            x = residual(n, x, out, 2 if i == 0 and stage else 1, bottleneck)
    n.classifier(x)


@network("classification")
def resnet18(n):
    resnet(n, (2, 2, 2, 2), False)


@network("classification", opset=11)
def resnet50(n):
    resnet(n, (3, 4, 6, 3), True)


@network("classification", "tf", 13)
def mobilenet_v1(n):
    """tf2onnx: channels last outside, padding by Pad, Relu6 with BatchNorm folded."""
    w, size = n.size(8, 32), n.size(64, 224)
    x = n.input("input_1:0", (1, size, size, 3), ("unk__618", size, size, 3))
    x = n.conv(n.transpose(x, 0, 3, 1, 2), w, 3, 2, act="relu6")
    for out, s in ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), (16, 1), (16, 1),
                   (32, 2), (32, 1)):
        with n.at(f"conv_dw_{len(n.nodes)}"):
            x = n.conv(x, x.shape[1], 3, s, g=x.shape[1], act="relu6")
            x = n.conv(x, w * out, 1, act="relu6")
    n.classifier(x)


def inverted(n, x, out, k, s, t, act, se=None):
    """MBConv of MobileNet v2 and v3 and EfficientNet."""
    with n.at(f"features.{len(n.nodes)}", "conv"):
        mid = x.shape[1] * t
        y = n.conv(x, mid, 1, act=act) if t > 1 else x
        y = n.conv(y, mid, k, s, g=mid, act=act)
        if se:
            y = n.squeeze_excite(y, max(4, mid // 4), *se)
        y = n.conv(y, out, 1, gain=1.0)
        return n.op("Add", x, y) if s == 1 and x.shape[1] == out else y


@network("classification", opset=12)
def mobilenet_v2(n):
    w, size = n.size(4, 16), n.size(64, 224)
    x = n.input("input", (1, 3, size, size))
    x = n.conv(x, 2 * w, 3, 2, act="relu6")
    for t, c, count, s in ((1, 1, 1, 1), (6, 1.5, 2, 2), (6, 2, 3, 2), (6, 4, 4, 2),
                           (6, 6, 3, 1), (6, 10, 3, 2), (6, 20, 1, 1)):
        for i in range(count):
            x = inverted(n, x, int(c * w), 3, s if i == 0 else 1, t, "relu6")
    n.classifier(n.conv(x, 80 * w, 1, act="relu6"))


@network("classification")
def mobilenet_v3(n):
    w, size = n.size(8, 16), n.size(64, 224)
    x = n.conv(n.input("input", (1, 3, size, size)), w, 3, 2, act="hswish")
    se = "relu", "hsigmoid"
    for k, t, out, gate, act, s in ((3, 1, 1, se, "relu", 2), (3, 4, 1.5, None, "relu", 2),
                                    (3, 4, 1.5, None, "relu", 1), (5, 4, 2.5, se, "hswish", 2),
                                    (5, 6, 2.5, se, "hswish", 1), (5, 3, 3, se, "hswish", 1),
                                    (5, 6, 6, se, "hswish", 2), (5, 6, 6, se, "hswish", 1)):
        x = inverted(n, x, int(out * w), k, s, t, act, gate)
    n.classifier(n.conv(x, 36 * w, 1, act="hswish"))


@network("classification", "paddle", 11)
def pp_lcnet(n):
    """Depthwise separable, HardSwish as x * HardSigmoid(x)."""
    w, size = n.size(4, 16), n.size(64, 224)
    x = n.conv(n.input("x", (1, 3, size, size), (-1, 3, -1, -1)), w, 3, 2, act="hswish",
               bn=True)
    for k, out, s, se in ((3, 2, 1, 0), (3, 4, 2, 0), (3, 4, 1, 0), (3, 8, 2, 0),
                          (3, 16, 2, 0), (5, 16, 1, 0), (5, 32, 2, 1), (5, 32, 1, 1)):
        x = n.conv(x, x.shape[1], k, s, g=x.shape[1], act="hswish", bn=True)
        x = n.squeeze_excite(x, x.shape[1] // 4, "relu", "hsigmoid") if se else x
        x = n.conv(x, w * out, 1, act="hswish", bn=True)
    n.classifier(x)


@network("classification")
def efficientnet_b0(n):
    w, size = n.size(4, 16), n.size(64, 224)
    x = n.conv(n.input("x.1", (1, 3, size, size)), 2 * w, 3, 2, act="silu")
    for t, c, count, s, k in ((1, 1, 1, 1, 3), (6, 1.5, 2, 2, 3), (6, 2.5, 2, 2, 5),
                              (6, 5, 3, 2, 3), (6, 7, 3, 1, 5), (6, 12, 4, 2, 5),
                              (6, 20, 1, 1, 3)):
        for i in range(count):
            x = inverted(n, x, int(c * w), k, s if i == 0 else 1, t, "silu",
                         ("silu", "sigmoid"))
    n.classifier(n.conv(x, 80 * w, 1, act="silu"))


@network("classification", "tf", 13)
def efficientnet_lite(n):
    """HardSwish decomposed, mean by ReduceMean: the kind that was 1.5 x ORT's time."""
    x = n.input("serving_default_x:0", (1, 64, 64, 3), ("unk__1", 64, 64, 3))
    x = n.conv(n.transpose(x, 0, 3, 1, 2), n.size(8, 32), 3, 2, act="hswish")
    for out, k, s in ((1, 3, 1), (2, 3, 2), (2, 3, 1), (4, 5, 2), (4, 5, 1), (6, 5, 2),
                      (6, 5, 1)):
        x = inverted(n, x, out * n.size(8, 24), k, s, 4, "hswish", ("silu", "sigmoid"))
    n.classifier(x)


@network("classification")
def shufflenet_v2(n):
    """Channel shuffle by Reshape, Transpose, Reshape."""
    w, size = n.size(8, 116), n.size(64, 224)
    x = n.conv(n.input("input", (1, 3, size, size), ("N", 3, size, size)), n.size(8, 24),
               3, 2, act="relu")
    x = n.pool(x, "Max", 3, 2, 1)
    for stage, count in enumerate((4, 8, 4)):
        for i in range(count):
            c = w * 2**stage // 2
            a, b = (x, x) if i == 0 else n.split(x, 2)
            if i == 0:
                a = n.conv(n.conv(a, a.shape[1], 3, 2, g=a.shape[1]), c, 1, act="relu")
            b = n.conv(b, c, 1, act="relu")
            b = n.conv(n.conv(b, c, 3, 2 if i == 0 else 1, g=c), c, 1, act="relu")
            x = n.concat(a, b)
            h, v = x.shape[2:]
            x = n.transpose(n.reshape(x, "d0", 2, c, h, v), 0, 2, 1, 3, 4)
            x = n.reshape(x, "d0", 2 * c, h, v)
    n.classifier(n.conv(x, n.size(64, 1024), 1, act="relu"))


@network("classification", opset=9)
def squeezenet(n):
    w, size = n.size(4, 16), n.size(64, 224)
    x = n.conv(n.input("data", (1, 3, size, size)), 4 * w, 3, 2, pad=(0, 0), act="relu")
    for i, out in enumerate((4, 4, 8, 8, 12, 12, 16, 16)):
        if i in (0, 2, 4):
            x = n.pool(x, "Max", 3, 2)
        s = n.conv(x, out * w // 4, 1, act="relu")
        x = n.concat(n.conv(s, out * w, 1, act="relu"), n.conv(s, out * w, 3, act="relu"))
    y = n.conv(n.op("Dropout", x, shape=x.shape), n.size(10, 1000), 1, act="relu")
    y = n.gap(y)
    n.output(n.softmax(n.op("Flatten", y, shape=y.shape[:2], axis=1), 1))


@network("classification", opset=13)
def densenet121(n):
    """BatchNorm and Relu before each convolution: not to be folded."""
    k, size = n.size(4, 32), n.size(64, 224)
    x = n.conv(n.input("input.1", (1, 3, size, size)), 2 * k, 7, 2, act="relu", bn=True)
    x = n.pool(x, "Max", 3, 2, 1)
    for i, count in enumerate(n.size((2, 3, 3, 2), (6, 12, 24, 16))):
        for _ in range(count):
            with n.at(f"denseblock{i}"):
                y = n.conv(n.act(n.batchnorm(x), "relu"), 4 * k, 1, act="relu", bn=True)
                x = n.concat(x, n.conv(y, k, 3, bias=False, gain=1.0))
        if i < 3:
            y = n.conv(n.act(n.batchnorm(x), "relu"), x.shape[1] // 2, 1, bias=False)
            x = n.pool(y, "Average")
    n.classifier(n.act(n.batchnorm(x), "relu"))


@network("classification", "tf", 12)
def inception_v3(n):
    w, size = n.size(8, 64), n.size(64, 149)
    x = n.input("input_1", (1, size, size, 3), ("N", size, size, 3))
    x = n.conv(n.transpose(x, 0, 3, 1, 2), w, 3, 2, act="relu", bn=True)
    for _ in range(3):
        with n.at("mixed"):
            a = n.conv(x, w, 1, act="relu", bn=True)
            b = n.conv(n.conv(x, w, (1, 7), act="relu", bn=True), w, (7, 1), act="relu",
                       bn=True)
            c = n.conv(n.conv(x, w, 3, act="relu", bn=True), w, 3, act="relu", bn=True)
            x = n.concat(a, b, c, n.conv(n.pool(x, "Average", 3, 1, 1), w, 1, act="relu"))
        x = n.pool(x, "Max", 3, 2)
    n.classifier(x)


@network("classification", opset=16)
def regnet_y(n):
    w, size = n.size(16, 48), n.size(64, 224)
    x = n.conv(n.input("input", (1, 3, size, size)), n.size(8, 32), 3, 2, act="relu")
    for out, count in ((1, 1), (2, 3), (5, 3)):
        for i in range(count):
            c = out * w
            x = residual(n, x, c, 2 if i == 0 else 1, True, c, c // 8, se=c // 4)
    n.classifier(x)


@network("classification")
def convnext(n):
    """Depthwise 7x7, LayerNorm on the channels between Transposes, GELU, layer scale."""
    w, size = n.size(8, 96), n.size(64, 224)
    x = n.conv(n.input("pixel_values", (1, 3, size, size), ("batch", 3, size, size)), w, 4,
               4, pad=(0, 0))
    for stage, count in enumerate(n.size((1, 1, 2, 1), (3, 3, 9, 3))):
        if stage:
            y = n.layernorm(n.transpose(x, 0, 2, 3, 1), eps=1e-6)
            x = n.conv(n.transpose(y, 0, 3, 1, 2), w * 2**stage, 2, 2, pad=(0, 0))
        for _ in range(count):
            with n.at(f"stages.{stage}"):
                c = x.shape[1]
                y = n.transpose(n.conv(x, c, 7, g=c), 0, 2, 3, 1)
                y = n.mlp(n.layernorm(y, eps=1e-6), 4 * c)
                y = n.op("Mul", n.weight(n.rng.uniform(0.1, 0.5, c), "gamma"), y)
                x = n.op("Add", x, n.transpose(y, 0, 3, 1, 2))
    n.classifier(x)


def embed_patches(n, x, c, patch):
    y = n.conv(x, c, patch, patch, pad=(0, 0))
    return n.transpose(n.reshape(y, 0, c, -1), 0, 2, 1)


def encoder(n, x, heads, mid, decomposed, act="gelu", **attention):
    with n.at(f"encoder.{len(n.nodes)}"):
        x = n.op("Add", x, n.attention(n.layernorm(x, decomposed), heads, **attention))
        return n.op("Add", x, n.mlp(n.layernorm(x, decomposed), mid, act))


@network("classification", opset=14)
def vit(n):
    """Decomposed LayerNorm and GELU; the class token is expanded to the batch."""
    c, size = n.size(32, 384), n.size(32, 224)
    x = n.input("pixel_values", (1, 3, size, size), ("batch_size", 3, size, size))
    x = embed_patches(n, x, c, n.size(8, 16))
    token = n.weight(n.rng.normal(0, 1, (1, 1, c)), "cls_token")
    x = n.concat(n.expand(token, x, -1, -1), x, axis=1)
    x = n.op("Add", x, n.weight(n.rng.normal(0, 0.5, x.shape), "position"))
    for _ in range(n.size(3, 12)):
        x = encoder(n, x, n.size(4, 6), 4 * c, True)
    first = n.gather(n.layernorm(x, True), n.const(0, "int64"), axis=1)
    n.output(n.linear(first, n.size(10, 1000), gain=1.0), "logits")


@network("classification")
def swin(n):
    """Windows by Reshape and Transpose, shifted by Slice and Concat, with a mask of
    -100 and a bias of relative positions."""
    c, win, size = n.size(16, 96), n.size(4, 7), n.size(64, 224)
    x = n.input("input", (1, 3, size, size))
    x = embed_patches(n, x, c, 4)
    side = size // 4
    for depth in range(n.size(2, 4)):
        y = n.reshape(n.layernorm(x), 1, side, side, c)
        shift = win // 2 if depth % 2 else 0
        for axis in (1, 2) if shift else ():
            y = n.concat(n.slice(y, axis, shift, None), n.slice(y, axis, 0, shift),
                         axis=axis)
        k = side // win
        y = n.transpose(n.reshape(y, 1, k, win, k, win, c), 0, 1, 3, 2, 4, 5)
        y = n.reshape(y, -1, win * win, c)
        bias = n.weight(n.rng.normal(0, 0.5, (1, 4, win * win, win * win)), "table")
        cut = (n.rng.uniform(0, 1, (k * k, 1, win * win, win * win)) < 0.1) * -100.0
        y = n.attention(y, 4, lambda s, b=bias, m=cut, t=shift: n.op(
            "Add", n.op("Add", s, b), m) if t else n.op("Add", s, b))
        y = n.transpose(n.reshape(y, 1, k, k, win, win, c), 0, 1, 3, 2, 4, 5)
        y = n.reshape(y, 1, side, side, c)
        for axis in (1, 2) if shift else ():
            y = n.concat(n.slice(y, axis, side - shift, None),
                         n.slice(y, axis, 0, side - shift), axis=axis)
        x = n.op("Add", x, n.reshape(y, 1, -1, c))
        x = n.op("Add", x, n.mlp(n.layernorm(x), 4 * c))
    y = n.mean(n.layernorm(x), [1], False)
    n.output(n.linear(y, n.size(10, 1000)), "logits")


@network("classification", opset=16)
def mlp_mixer(n):
    c, size = n.size(32, 512), n.size(32, 224)
    x = embed_patches(n, n.input("img", (1, 3, size, size)), c, n.size(8, 16))
    for _ in range(n.size(2, 8)):
        y = n.transpose(n.layernorm(x, True), 0, 2, 1)
        x = n.op("Add", x, n.transpose(n.mlp(y, n.size(16, 256)), 0, 2, 1))
        x = n.op("Add", x, n.mlp(n.layernorm(x, True), 4 * c))
    n.output(n.linear(n.mean(n.layernorm(x, True), [1], False), n.size(10, 1000)), "out")
