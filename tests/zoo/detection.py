"""detection -- detectors of the zoo, with their decoding and NonMaxSuppression."""
import numpy as np

from graph import network


def csp(n, x, out, count, act):
    a, b = n.conv(x, out // 2, 1, act=act), n.conv(x, out // 2, 1, act=act)
    for _ in range(count):
        a = n.op("Add", a, n.conv(n.conv(a, out // 2, 1, act=act), out // 2, 3, act=act,
                                  gain=1.0))
    return n.conv(n.concat(a, b), out, 1, act=act)


def grid(h, w):
    y, x = np.mgrid[:h, :w].astype(np.float32)
    return x, y


@network("detection", "tf", 11)
def yolo_v3_tiny(n):
    """LeakyRelu with BatchNorm, nearest Resize, three outputs, NonMaxSuppression."""
    w, size = n.size(4, 16), n.size(64, 416)
    x = n.input("input_1", (1, 3, size, size), ("unk__576", 3, size, size))
    shape = n.input("image_shape", (1, 2), ("unk__578", 2),
                    lambda rng, s: np.full(s, float(size)))
    for i in range(5):
        x = n.conv(x, w * 2**i, 3, act="leaky", bn=True)
        fine, x = x, n.pool(x)
    x = n.conv(x, 32 * w, 3, act="leaky", bn=True)
    top = n.conv(x, 16 * w, 1, act="leaky", bn=True)
    up = n.resize(n.conv(top, 8 * w, 1, act="leaky", bn=True), 2)
    heads = [n.conv(top, 18, 1, gain=1.0), n.conv(n.concat(up, fine), 18, 1, gain=1.0)]
    boxes, scores = [], []
    for head in heads:
        h, v = head.shape[2:]
        y = n.transpose(n.reshape(head, 1, 3, 6, h, v), 0, 1, 3, 4, 2)
        xs, ys = grid(h, v)
        centre = n.op("Add", n.act(n.slice(y, 4, 0, 2), "sigmoid"), np.stack([xs, ys], -1))
        centre = n.op("Div", centre, np.array([v, h], float))
        extent = n.op("Mul", n.op("Exp", n.slice(y, 4, 2, 4)), np.array([0.1, 0.2]))
        low = n.op("Sub", centre, n.op("Mul", extent, 0.5))
        box = n.concat(low, n.op("Add", low, extent), axis=4)
        boxes.append(n.reshape(box, 1, -1, 4))
        sure = n.op("Mul", n.act(n.slice(y, 4, 4, 5), "sigmoid"),
                    n.act(n.slice(y, 4, 5, 6), "sigmoid"))
        scores.append(n.transpose(n.reshape(sure, 1, -1, 1), 0, 2, 1))
    box = n.op("Mul", n.concat(*boxes, axis=1),
               n.concat(n.unsqueeze(shape, 1), n.unsqueeze(shape, 1), axis=2))
    score = n.concat(*scores, axis=2)
    picked = n.op("NonMaxSuppression", box, score, n.const([20], np.int64),
                  n.const([0.5], np.float32), n.const([0.3], np.float32), shape=(1, 3))
    n.output(picked, "yolonms_layer_1/concat_2:0", ("unk__580", 3), np.int64)
    n.output(box, "yolonms_layer_1/ExpandDims_1:0")
    n.output(score, "yolonms_layer_1/ExpandDims_3:0")


def yolo_neck(n, act="silu"):
    """Three scales of a backbone with a feature pyramid."""
    w, size = n.size(8, 32), n.size(64, 320)
    x = n.conv(n.input("images", (1, 3, size, size)), w, 6, 2, pad=(2, 2), act=act)
    keep = []
    for i in range(4):
        with n.at(f"model.{i}"):
            x = csp(n, n.conv(x, w * 2**(i + 1), 3, 2, act=act), w * 2**(i + 1), 1, act)
            keep.append(x)
    y = n.conv(x, x.shape[1] // 2, 1, act=act)
    pools = [y]
    for _ in range(3):
        pools.append(n.pool(pools[-1], "Max", 5, 1, 2))
    x = n.conv(n.concat(*pools), x.shape[1], 1, act=act)
    outs = [x]
    for side in keep[2:0:-1]:
        x = n.resize(n.conv(x, side.shape[1], 1, act=act), 2)
        x = csp(n, n.concat(x, side), side.shape[1], 1, act)
        outs.append(x)
    return outs


@network("detection", opset=12)
def yolo_v5(n):
    """Decoding in 5-d with Split; output [1, boxes, 5 + classes]."""
    parts = []
    for x, stride in zip(yolo_neck(n), (32, 16, 8)):
        with n.at("model.24"):
            y = n.conv(x, 3 * 9, 1, gain=1.0)
            h, v = y.shape[2:]
            y = n.act(n.transpose(n.reshape(y, 1, 3, 9, h, v), 0, 1, 3, 4, 2), "sigmoid")
            xy, wh, conf = (n.slice(y, 4, a, b) for a, b in ((0, 2), (2, 4), (4, 9)))
            xs, ys = grid(h, v)
            xy = n.op("Add", n.op("Mul", xy, 2.0), np.stack([xs, ys], -1)[None, None] - 0.5)
            xy = n.op("Mul", xy, float(stride))
            wh = n.op("Pow", n.op("Mul", wh, 2.0), 2.0)
            wh = n.op("Mul", wh, n.rng.uniform(8, 64, (1, 3, 1, 1, 2)))
            parts.append(n.reshape(n.concat(xy, wh, conf, axis=4), 1, -1, 9))
    n.output(n.concat(*parts, axis=1), "output0")


@network("detection")
def yolo_v8(n):
    """Distribution of distances by Softmax and a 1x1 convolution, anchors subtracted."""
    classes, boxes, anchors = [], [], []
    for x in yolo_neck(n):
        with n.at("model.22"):
            h, v = x.shape[2:]
            box = n.conv(n.conv(x, 16, 3, act="silu"), 64, 1, gain=1.0)
            cls = n.conv(n.conv(x, 16, 3, act="silu"), 4, 1, gain=1.0)
            boxes.append(n.reshape(box, 1, 64, -1))
            classes.append(n.reshape(cls, 1, 4, -1))
            xs, ys = grid(h, v)
            anchors.append(np.stack([xs.ravel() + 0.5, ys.ravel() + 0.5]))
    box, centre = n.concat(*boxes, axis=2), np.concatenate(anchors, 1)[None]
    box = n.transpose(n.reshape(box, 1, 4, 16, -1), 0, 2, 1, 3)
    taps = n.weight(np.arange(16.0).reshape(1, 16, 1, 1), "dfl.conv.weight")
    far = n.op("Conv", n.softmax(box, 1), taps, shape=(1, 1, 4, box.shape[3]),
               kernel_shape=[1, 1])
    far = n.reshape(far, 1, 4, -1)
    low = n.op("Sub", centre, n.slice(far, 1, 0, 2))
    high = n.op("Add", centre, n.slice(far, 1, 2, 4))
    low, high = (n.op("Div", n.op("Add", low, high), 2.0), n.op("Sub", high, low))
    box = n.op("Mul", n.concat(low, high), 8.0)
    n.output(n.concat(box, n.act(n.concat(*classes, axis=2), "sigmoid")), "output0")


@network("detection", opset=12)
def ssd_mobilenet(n):
    """Boxes over priors, Softmax of classes, NonMaxSuppression, and Gather of the picked."""
    w, size = n.size(8, 32), n.size(64, 300)
    x = n.conv(n.input("image", (1, 3, size, size)), w, 3, 2, act="relu6")
    locs, confs = [], []
    for i, s in enumerate((2, 2, 1, 2)):
        x = n.conv(n.conv(x, x.shape[1], 3, s, g=x.shape[1], act="relu6"), w * 2**(i // 2 + 1),
                   1, act="relu6")
        if i >= 2:
            for out, to in ((4 * 4, locs), (4 * 5, confs)):
                y = n.transpose(n.conv(x, out, 3, gain=1.0), 0, 2, 3, 1)
                to.append(n.reshape(y, 1, -1, out // 4))
    loc, conf = n.concat(*locs, axis=1), n.softmax(n.concat(*confs, axis=1), 2)
    count = loc.shape[1]
    prior = n.rng.uniform(0.1, 0.6, (1, count, 2))
    centre = n.op("Add", n.op("Mul", n.slice(loc, 2, 0, 2), 0.1), prior)
    extent = n.op("Exp", n.op("Mul", n.slice(loc, 2, 2, 4), 0.2))
    half = n.op("Mul", extent, 0.1)
    box = n.concat(n.op("Sub", centre, half), n.op("Add", centre, half), axis=2)
    score = n.transpose(n.slice(conf, 2, 1, 5), 0, 2, 1)
    picked = n.op("NonMaxSuppression", box, score, n.const([10], np.int64),
                  n.const([0.45], np.float32), n.const([0.05], np.float32), shape=(40, 3))
    which = n.op("Squeeze", n.slice(picked, 1, 2, 3), shape=(40,), axes=[1])
    first = n.slice(n.gather(box, which, 1), 1, 0, 1)
    n.output(first, "first", (1, "found", 4))
    n.output(box, "boxes")
    n.output(score, "scores")


def pyramid(n, w, size, act="relu"):
    x = n.conv(n.input("input", (1, 3, size, size), (1, 3, "height", "width")), w, 7, 2,
               act=act)
    levels = []
    for i in range(4):
        y = n.conv(x, w * 2**i, 3, 2, act=act)
        x = n.act(n.op("Add", n.conv(n.conv(y, y.shape[1], 3, act=act), y.shape[1], 3,
                                     gain=0.5), y), act)
        levels.append(x)
    return levels


@network("detection", opset=11)
def retinanet(n):
    """A pyramid whose upsampled size is read from Shape; heads shared between levels."""
    w = n.size(8, 64)
    levels = pyramid(n, w, n.size(64, 256))[1:]
    x, outs = None, []
    for level in levels[::-1]:
        y = n.conv(level, w, 1)
        if x is not None:
            size = n.slice(n.op("Shape", y, shape=(4,)), 0, 2, 4)
            head = n.slice(n.op("Shape", x, shape=(4,)), 0, 0, 2)
            to = n.concat(head, size, axis=0)
            x = n.resize_to(x, y.shape, to, "nearest", "asymmetric")
            y = n.op("Add", y, x)
        x = y
        outs.append(n.conv(x, w, 3))
    for what, out in (("cls", 9 * 4), ("box", 9 * 4)):
        parts, weights = [], None
        for level in outs:
            mark = len(n.constants)
            y = n.conv(n.conv(level, w, 3, act="relu"), out, 3, gain=0.5)
            made = [c.name for c in n.constants[mark:]]
            if weights is None:
                weights = made
            else:  # the head's weights are those of the first level
                del n.constants[mark:]
                for node in n.nodes:
                    node.input[:] = [weights[made.index(i)] if i in made else i
                                     for i in node.input]
            y = n.transpose(n.reshape(y, 1, 9, 4, "d2", "d3"), 0, 3, 4, 1, 2)
            parts.append(n.reshape(y, 1, -1, 4))
        y = n.concat(*parts, axis=1)
        n.output(n.act(y, "sigmoid") if what == "cls" else y, what, (1, "boxes", 4))


@network("detection", opset=11)
def centernet(n):
    """Transposed convolutions, and peaks kept by MaxPool, Equal, Cast and Mul; TopK."""
    x = pyramid(n, n.size(8, 64), n.size(64, 256))[-1]
    for out in n.size((32, 16, 8), (256, 128, 64)):
        x = n.deconv(x, out, 4, 2, 1, act="relu", bn=True)
    heat = n.act(n.conv(n.conv(x, out, 3, act="relu"), 4, 1, gain=0.5), "sigmoid")
    size = n.conv(n.conv(x, out, 3, act="relu"), 2, 1)
    top = n.op("Equal", n.pool(heat, "Max", 3, 1, 1), heat)
    peaks = n.op("Mul", heat, n.op("Cast", top, to=1))
    score, _ = n.op("TopK", n.reshape(peaks, 1, -1), n.const([10], np.int64),
                    shapes=[(1, 10)] * 2, axis=1)
    n.output(heat, "hm", (1, 4, "h", "w"))
    n.output(size, "wh", (1, 2, "h", "w"))
    n.output(score, "scores")


@network("detection", opset=11)
def yunet(n):
    """Depthwise separable blocks, a pyramid by nearest Resize, four heads per stride."""
    w, size = n.size(8, 16), n.size(64, 320)
    x = n.conv(n.input("input", (1, 3, size, size)), w, 3, 2, act="relu")

    def unit(x, out, relu=True):
        y = n.conv(n.conv(x, out, 1), out, 3, g=out)
        return n.act(y, "relu") if relu else y

    levels = []
    x = n.pool(unit(x, w))
    for i in range(4):
        x = unit(unit(x, 4 * w), 4 * w)
        levels.append(x)
        x = n.pool(x) if i < 3 else x
    outs, y = [], None
    for x in levels[:0:-1]:
        y = unit(n.op("Add", x, n.resize(y, 2)) if y is not None else x, 4 * w)
        outs.append(y)
    for stride, x in zip((32, 16, 8), outs):
        for what, c in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
            y = n.reshape(n.transpose(unit(x, c, False), 0, 2, 3, 1), 1, -1, c)
            n.output(n.act(y, "sigmoid" if c == 1 else None), f"{what}_{stride}")


@network("detection", opset=16)
def detr(n):
    """A transformer decoder over image features; queries are weights."""
    c = n.size(32, 256)
    x = n.conv(pyramid(n, n.size(8, 64), n.size(64, 256))[-1], c, 1)
    x = n.transpose(n.reshape(x, 0, c, -1), 0, 2, 1)
    queries = n.weight(n.rng.normal(0, 1, (1, n.size(10, 100), c)), "query_embed.weight")
    y = n.op("Add", queries, n.const(np.zeros((1, 1, c))))
    for _ in range(n.size(1, 3)):
        x = n.layernorm(n.op("Add", x, n.attention(x, 4, open_dims=True)), True)
        x = n.layernorm(n.op("Add", x, n.mlp(x, 2 * c, "relu")), True)
    for _ in range(n.size(1, 3)):
        y = n.layernorm(n.op("Add", y, n.attention(y, 4)), True)
        q, k, v = (n.heads(n.linear(a, c, gain=1.0), 4, b) for a, b in ((y, False), (x, True),
                                                                     (x, True)))
        y = n.layernorm(n.op("Add", y, n.linear(n.attend(q, k, v), c, gain=0.5)), True)
        y = n.layernorm(n.op("Add", y, n.mlp(y, 2 * c, "relu")), True)
    n.output(n.softmax(n.linear(y, 5)), "pred_logits")
    n.output(n.linear(n.linear(y, c, "relu"), 4, "sigmoid", gain=1.0), "pred_boxes")
