"""segmentation -- dense outputs: segmentation, super resolution, generators."""
import numpy as np

from graph import network


@network("segmentation", opset=11)
def unet(n):
    w, size = n.size(8, 32), n.size(64, 256)
    x = n.input("input.1", (1, 3, size, size), ("batch", 3, size, size))
    skips = []
    for i in range(4):
        with n.at(f"down{i}"):
            x = n.conv(n.conv(x, w * 2**i, 3, act="relu", bn=True), w * 2**i, 3, act="relu",
                       bn=True)
        if i < 3:
            skips.append(x)
            x = n.pool(x)
    for i, skip in enumerate(skips[::-1]):
        with n.at(f"up{i}"):
            x = n.concat(skip, n.deconv(x, skip.shape[1]))
            x = n.conv(n.conv(x, skip.shape[1], 3, act="relu", bn=True), skip.shape[1], 3,
                       act="relu", bn=True)
    n.output(n.conv(x, 2, 1, gain=1.0), "out", ("batch", 2, size, size))


@network("segmentation", "tf", 13)
def deeplab_v3(n):
    """Dilated convolutions, image pooling, bilinear Resize to sizes."""
    w, size = n.size(8, 32), n.size(64, 256)
    x = n.input("sub_7:0", (1, size, size, 3))
    x = n.conv(n.transpose(x, 0, 3, 1, 2), w, 3, 2, act="relu6", bn=True)
    for s, d in ((2, 1), (2, 1), (1, 2), (1, 2)):
        y = n.conv(n.conv(x, 4 * w, 1, act="relu6", bn=True), 4 * w, 3, s, g=4 * w, d=d,
                   act="relu6", bn=True)
        y = n.conv(y, 2 * w, 1, bn=True)
        x = n.op("Add", x, y) if x.shape == y.shape else y
    parts = [n.conv(x, 2 * w, 1, act="relu", bn=True)]
    parts += [n.conv(x, 2 * w, 3, d=d, act="relu", bn=True) for d in (2, 4)]
    pooled = n.conv(n.mean(x, [2, 3]), 2 * w, 1, act="relu", bn=True)
    to = 1, 2 * w, *x.shape[2:]
    parts.append(n.resize_to(pooled, to, n.const(to, np.int64), "linear", "align_corners"))
    x = n.conv(n.conv(n.concat(*parts), 4 * w, 1, act="relu", bn=True), 5, 1)
    to = 1, 5, size, size
    x = n.resize_to(x, to, n.const(to, np.int64), "linear", "half_pixel")
    best = n.op("ArgMax", n.softmax(x, 1), shape=(1, 1, size, size), axis=1, keepdims=1)
    n.output(n.transpose(x, 0, 2, 3, 1), "ResizeBilinear_3:0")
    n.output(best, "SemanticPredictions:0", dtype=np.int64)


@network("segmentation", opset=11)
def fcn(n):
    w, size = n.size(8, 64), n.size(64, 256)
    x, levels = n.input("input", (1, 3, size, size), (1, 3, "h", "w")), []
    for i in range(4):
        x = n.pool(n.conv(n.conv(x, w * 2**i, 3, act="relu"), w * 2**i, 3, act="relu"))
        levels.append(x)
    y = n.deconv(n.conv(levels[3], 5, 1), 5, 4, 2, 1)
    y = n.op("Add", y, n.conv(levels[2], 5, 1))
    y = n.op("Add", n.deconv(y, 5, 4, 2, 1), n.conv(levels[1], 5, 1))
    n.output(n.deconv(y, 5, 8, 4, 2), "out", (1, 5, "h", "w"))


@network("segmentation", opset=16)
def segformer(n):
    """Attention over reduced keys, depthwise convolution between the layers of an MLP."""
    c, size = n.size(16, 64), n.size(64, 256)
    x = n.input("pixel_values", (1, 3, size, size), ("batch", 3, size, size))
    outs = []
    for stage in range(3):
        x = n.conv(x, c * 2**stage, 7 if stage == 0 else 3, 4 if stage == 0 else 2)
        b, ch, h, w = x.shape
        x = n.layernorm(n.transpose(n.reshape(x, "d0", ch, -1), 0, 2, 1), True)
        for _ in range(n.size(1, 2)):
            with n.at(f"block.{stage}"):
                y = n.layernorm(x, True)
                few = n.reshape(n.transpose(y, 0, 2, 1), "d0", ch, h, w)
                few = n.conv(few, ch, 4 >> stage, 4 >> stage, pad=(0, 0))
                few = n.transpose(n.reshape(few, "d0", ch, -1), 0, 2, 1)
                few = n.layernorm(few, True)
                q, k, v = (n.heads(n.linear(a, ch, gain=1.0), 2, True)
                           for a in (y, few, few))
                x = n.op("Add", x, n.linear(n.attend(q, k, v), ch, gain=0.5))
                y = n.linear(n.layernorm(x, True), 4 * ch)
                y = n.reshape(n.transpose(y, 0, 2, 1), "d0", 4 * ch, h, w)
                y = n.conv(y, 4 * ch, 3, g=4 * ch)
                y = n.transpose(n.reshape(y, "d0", 4 * ch, -1), 0, 2, 1)
                x = n.op("Add", x, n.linear(n.act(y, "gelu"), ch, gain=0.5))
        x = n.reshape(n.transpose(x, 0, 2, 1), "d0", ch, h, w)
        y = n.conv(x, c, 1)
        outs.append(n.resize(y, 2**stage, "linear", "half_pixel") if stage else y)
    n.output(n.conv(n.conv(n.concat(*outs), c, 1, act="relu"), 5, 1), "logits",
             ("batch", 5, size // 4, size // 4))


@network("segmentation", opset=11)
def hrnet(n):
    """Branches of several resolutions that exchange sums."""
    w, size = n.size(8, 18), n.size(64, 256)
    x = n.conv(n.conv(n.input("image", (1, 3, size, size)), w, 3, 2, act="relu"), w, 3, 2,
               act="relu")
    high, low = x, n.conv(x, 2 * w, 3, 2, act="relu")
    for _ in range(n.size(2, 4)):
        high, low = (n.act(n.op("Add", a, n.conv(n.conv(a, a.shape[1], 3, act="relu"),
                                                 a.shape[1], 3, gain=0.5)), "relu")
                     for a in (high, low))
        up = n.resize(n.conv(low, w, 1, gain=0.5), 2)
        down = n.conv(high, 2 * w, 3, 2, gain=0.5)
        high, low = (n.act(n.op("Add", a, b), "relu") for a, b in ((high, up), (low, down)))
    n.output(n.conv(high, 17, 1), "heatmaps")


@network("super resolution", opset=10)
def espcn(n):
    size = n.size(32, 128)
    x = n.input("input", (1, 1, size, size), ("batch_size", 1, size, size))
    x = n.conv(n.conv(x, n.size(16, 64), 5, act="relu"), n.size(8, 64), 3, act="relu")
    x = n.conv(n.conv(x, n.size(8, 32), 3, act="relu"), 9, 3, gain=1.0)
    h, w = x.shape[2:]
    x = n.transpose(n.reshape(x, -1, 1, 3, 3, h, w), 0, 1, 4, 2, 5, 3)
    n.output(n.reshape(x, -1, 1, 3 * h, 3 * w), "output",
             ("batch_size", 1, 3 * h, 3 * w))


@network("super resolution", opset=11)
def fsrcnn(n):
    size = n.size(32, 128)
    x = n.input("lr", (1, 1, size, size), (1, 1, "h", "w"))
    x = n.conv(n.conv(x, n.size(16, 56), 5, act="prelu"), 12, 1, act="prelu")
    for _ in range(4):
        x = n.conv(x, 12, 3, act="prelu")
    x = n.conv(x, n.size(16, 56), 1, act="prelu")
    n.output(n.deconv(x, 1, 9, 3, 3, gain=1.0), "hr", (1, 1, "H", "W"))


@network("super resolution", opset=13)
def edsr(n):
    w, size = n.size(16, 64), n.size(32, 96)
    x = first = n.conv(n.input("input", (1, 3, size, size)), w, 3)
    for _ in range(n.size(3, 8)):
        y = n.conv(n.conv(x, w, 3, act="relu"), w, 3, gain=1.0)
        x = n.op("Add", x, n.op("Mul", y, 0.1))
    x = n.op("Add", n.conv(x, w, 3, gain=1.0), first)
    x = n.pixel_shuffle(n.conv(x, 4 * w, 3, gain=1.0), 2)
    n.output(n.conv(x, 3, 3, gain=1.0), "output")


@network("super resolution", half=True)
def edsr_half(n):
    """The same kind in float16, with a bicubic shortcut in float32."""
    w, size = n.size(8, 32), n.size(32, 96)
    lr = n.input("input", (1, 3, size, size))
    x = n.conv(lr, w, 3)
    for _ in range(2):
        x = n.op("Add", x, n.conv(n.conv(x, w, 3, act="relu"), w, 3, gain=0.5))
    x = n.conv(n.pixel_shuffle(n.conv(x, 4 * w, 3, gain=1.0), 2), 3, 3, gain=1.0)
    base = n.resize(n.op("Cast", lr, to=1), 2, "cubic", "pytorch_half_pixel",
                    cubic_coeff_a=-0.75)
    n.output(n.op("Add", x, n.op("Cast", base, to=10)), "output")


@network("ocr", "paddle", 11)
def dbnet(n):
    """Text detection: a pyramid, transposed convolutions, Sigmoid; open height and width."""
    w, size = n.size(8, 16), n.size(64, 320)
    x = n.input("x", (1, 3, size, size), (-1, 3, -1, -1))
    x, levels = n.conv(x, w, 3, 2, act="hswish", bn=True), []
    for i in range(4):
        x = n.conv(x, x.shape[1], 3, 2, g=x.shape[1], act="hswish", bn=True)
        x = n.squeeze_excite(n.conv(x, w * 2**i, 1, act="hswish", bn=True), w, "relu",
                             "hsigmoid")
        levels.append(x)
    y, outs = None, []
    for level in levels[::-1]:
        a = n.conv(level, w, 1, bias=False)
        y = a if y is None else n.op("Add", a, n.resize(y, 2))
        outs.append(n.conv(y, w, 3, bias=False))
    up = [n.resize(o, 2**(3 - i)) if i < 3 else o for i, o in enumerate(outs)]
    x = n.conv(n.concat(*up), w, 3, act="relu", bn=True)
    x = n.deconv(n.deconv(x, w, act="relu", bn=True), 1, gain=1.0)
    n.output(n.act(x, "sigmoid"), "sigmoid_0.tmp_0", (-1, 1, -1, -1))


@network("generator", opset=11)
def dcgan(n):
    w = n.size(8, 64)
    x = n.input("z", (1, 100, 1, 1), None, lambda rng, s: rng.normal(0, 1, s))
    x = n.deconv(x, 8 * w, 4, 1, act="relu", bn=True)
    for out in (4 * w, 2 * w, w):
        x = n.deconv(x, out, 4, 2, 1, act="relu", bn=True)
    n.output(n.act(n.deconv(x, 3, 4, 2, 1, gain=1.0), "tanh"), "image")


@network("generator", "tf", 13)
def autoencoder(n):
    """Convolutions to a code of few numbers and back."""
    w, size = n.size(8, 32), n.size(32, 128)
    x = n.input("input_1", (1, size, size, 1), ("unk__50", size, size, 1),
                lambda rng, s: rng.uniform(0, 1, s))
    x = n.conv(n.transpose(x, 0, 3, 1, 2), w, 3, 2, act="relu")
    x = n.conv(x, 2 * w, 3, 2, act="relu")
    flat = n.linear(n.reshape(x, -1, int(np.prod(x.shape))), n.size(16, 64), "relu")
    y = n.reshape(n.linear(flat, int(np.prod(x.shape)), "relu"), -1, *x.shape[1:])
    y = n.deconv(n.deconv(y, w, act="relu"), 1, gain=1.0)
    n.output(n.transpose(n.act(y, "sigmoid"), 0, 2, 3, 1), "conv2d_transpose/Sigmoid:0",
             ("unk__51", size, size, 1))


@network("generator", opset=14)
def diffusion_unet(n):
    """Residual blocks with GroupNorm by InstanceNormalization and SiLU, a time embedding
    by Sin and Cos, attention in the middle."""
    w, size = n.size(16, 64), n.size(32, 64)
    x = n.input("sample", (1, 3, size, size))
    t = n.input("timestep", (1,), None, lambda rng, s: rng.uniform(0, 100, s))
    angle = n.op("Mul", n.unsqueeze(t, 1), np.exp(-np.arange(8) / 2.0)[None])
    t = n.concat(n.op("Sin", angle), n.op("Cos", angle))
    t = n.linear(n.linear(t, 4 * w, "silu"), 4 * w, "silu")

    def block(x, out):
        y = n.conv(n.act(n.groupnorm(x, 4), "silu"), out, 3)
        y = n.op("Add", y, n.unsqueeze(n.linear(t, out, gain=0.2), 2, 3))
        y = n.conv(n.act(n.groupnorm(y, 4), "silu"), out, 3, gain=0.5)
        return n.op("Add", y, n.conv(x, out, 1) if x.shape[1] != out else x)

    x = a = block(n.conv(x, w, 3), w)
    x = b = block(n.conv(x, 2 * w, 3, 2), 2 * w)
    h, v = x.shape[2:]
    y = n.transpose(n.reshape(n.groupnorm(x, 4), 1, 2 * w, -1), 0, 2, 1)
    y = n.transpose(n.attention(y, 4), 0, 2, 1)
    x = n.op("Add", x, n.reshape(y, 1, 2 * w, h, v))
    x = block(n.concat(x, b), 2 * w)
    x = block(n.concat(n.conv(n.resize(x, 2), w, 3), a), w)
    n.output(n.conv(n.act(n.groupnorm(x, 4), "silu"), 3, 3, gain=1.0), "out_sample")
