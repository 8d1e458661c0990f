"""sequence -- speech, OCR, recurrent networks, control flow, tables, points and graphs."""
import numpy as np
from onnx import helper

from graph import BOOL, FLOAT, INT64, Value, network


def recurrent(n, x, hidden, kind="LSTM", both=False, peephole=False):
    """[time, batch, c] -> [time, batch, directions * hidden]"""
    t, b, c = x.shape
    gates, d = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if both else 1
    ins = [x, n.normal(d, gates * hidden, c, fan=c, gain=1.0, what="W"),
           n.normal(d, gates * hidden, hidden, fan=hidden, gain=1.0, what="R"),
           n.bias((d, 2 * gates * hidden), "B"), ""]
    ins += [n.const(np.zeros((d, b, hidden)))] * (2 if kind == "LSTM" else 1)
    if peephole:
        ins.append(n.bias((d, 3 * hidden), "P"))
    shapes = [(t, d, b, hidden), (d, b, hidden)] + [(d, b, hidden)] * (kind == "LSTM")
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    y = n.op(kind, *ins, shapes=shapes, hidden_size=hidden,
             direction="bidirectional" if both else "forward", **more)[0]
    return n.reshape(n.transpose(y, 0, 2, 1, 3), 0, 0, -1)


@network("ocr", opset=12)
def crnn(n):
    """Convolutions, the height squeezed, two bidirectional LSTMs; open width."""
    w, width = n.size(8, 64), n.size(48, 160)
    x = n.input("input", (1, 1, 32, width), ("batch", 1, 32, "width"))
    x = n.pool(n.conv(x, w, 3, act="relu"))
    x = n.pool(n.conv(x, 2 * w, 3, act="relu"))
    x = n.conv(x, 4 * w, 3, act="relu", bn=True)
    x = n.conv(n.conv(x, 4 * w, 3, (2, 1), act="relu"), 4 * w, 3, (2, 1), act="relu")
    x = n.conv(x, 4 * w, (2, 1), pad=(0, 0), act="relu", bn=True)
    x = n.transpose(n.op("Squeeze", x, shape=(1, 4 * w, x.shape[3]), axes=[2]), 2, 0, 1)
    for _ in range(2):
        x = n.linear(recurrent(n, x, 4 * w, both=True), 4 * w, gain=1.0)
    n.output(n.op("LogSoftmax", n.linear(x, 37), axis=2), "output", ("T", "batch", 37))


@network("ocr", "paddle", 14)
def svtr(n):
    """Text recognition of PaddleOCR: convolutions, attention over columns, CTC head."""
    c, width = n.size(16, 64), n.size(48, 320)
    x = n.input("x", (1, 3, 32, width), (-1, 3, 32, -1))
    x = n.conv(n.conv(x, c, 3, 2, act="hswish", bn=True), 2 * c, 3, 2, act="hswish", bn=True)
    x = n.pool(n.conv(x, 2 * c, 3, (2, 1), act="hswish", bn=True), "Average", 2, 2)
    x = n.transpose(n.reshape(x, 0, 2 * c, -1), 0, 2, 1)
    for _ in range(2):
        x = n.op("Add", x, n.attention(n.layernorm(x, True), 4, open_dims=True))
        x = n.op("Add", x, n.mlp(n.layernorm(x, True), 4 * c, "silu"))
    n.output(n.softmax(n.linear(x, 97), 2), "save_infer_model/scale_0.tmp_0", (-1, -1, 97))


@network("speech", "tf", 13)
def ds_cnn(n):
    """Keyword spotting: depthwise separable convolutions over MFCCs."""
    w = n.size(16, 64)
    x = n.input("input_1:0", (1, 49, 10, 1), ("unk__36", 49, 10, 1),
                lambda rng, s: rng.normal(0, 1, s))
    x = n.conv(n.transpose(x, 0, 3, 1, 2), w, (9, 5), 2, act="relu", bn=True)
    for _ in range(4):
        x = n.conv(n.conv(x, w, 3, g=w, act="relu", bn=True), w, 1, act="relu", bn=True)
    y = n.mean(x, [2, 3], False)
    n.output(n.softmax(n.linear(y, 12)), "Identity:0", ("unk__37", 12))


@network("speech", opset=14)
def conformer(n):
    """A block of attention, gated convolution in time and half-step MLPs."""
    c, t = n.size(32, 144), n.size(24, 100)
    x = n.input("features", (1, t, n.size(20, 80)), ("batch", "time", n.size(20, 80)),
                lambda rng, s: rng.normal(0, 1, s))
    x = n.linear(x, c, gain=1.0)

    def half(x):
        return n.op("Add", x, n.op("Mul", n.mlp(n.layernorm(x, True), 4 * c, "silu"), 0.5))

    for _ in range(2):
        x = half(x)
        x = n.op("Add", x, n.attention(n.layernorm(x, True), 4, open_dims=True))
        y = n.transpose(n.layernorm(x, True), 0, 2, 1)
        a, b = n.split(n.conv(y, 2 * c, 1), 2)
        y = n.op("Mul", a, n.op("Sigmoid", b))
        y = n.act(n.conv(y, c, 15, g=c, bn=True), "silu")
        x = n.op("Add", x, n.transpose(n.conv(y, c, 1, gain=0.5), 0, 2, 1))
        x = n.layernorm(half(x), True)
    n.output(n.op("LogSoftmax", n.linear(x, 30), axis=-1), "log_probs", ("batch", "time", 30))


@network("speech", opset=11)
def wavenet(n):
    """Dilated causal convolutions padded on the left, gated by Tanh and Sigmoid."""
    w, t = n.size(8, 64), n.size(64, 1024)
    x = n.conv(n.input("audio", (1, 1, t), ("batch", 1, t), lambda rng, s: rng.normal(0, 1, s)),
               w, 1)
    total = None
    for d in (1, 2, 4, 8, 1, 2, 4, 8):
        left = n.op("Pad", x, n.const([0, 0, d, 0, 0, 0], np.int64), shape=(1, w, t + d))
        a, b = (n.conv(left, w, 2, d=d, pad=(0,)) for _ in range(2))
        y = n.op("Mul", n.op("Tanh", a), n.op("Sigmoid", b))
        skip, x = n.conv(y, w, 1), n.op("Add", x, n.conv(y, w, 1))
        total = skip if total is None else n.op("Add", total, skip)
    y = n.conv(n.conv(n.act(total, "relu"), w, 1, act="relu"), 16, 1)
    n.output(n.softmax(y, 1), "out", ("batch", 16, t))


@network("speech", opset=13)
def acoustic_lstm(n):
    """Three LSTMs, as of Kaldi-like models, one with peepholes."""
    h, t = n.size(16, 256), n.size(20, 100)
    x = n.input("feats", (t, 1, 40), ("T", "N", 40), lambda rng, s: rng.normal(0, 1, s))
    for peephole in (False, True, False):
        x = n.linear(recurrent(n, x, h, peephole=peephole), h, "relu", gain=1.0)
    n.output(n.linear(x, n.size(40, 2000)), "log-likelihoods",
             ("T", "N", n.size(40, 2000)))


@network("speech", opset=12)
def silero_vad(n):
    """Voice activity: If on the sampling rate, two branches with convolutions of their
    own, then an LSTM with its state as inputs and outputs."""
    w = n.size(16, 64)
    x = n.input("input", (1, 256), ("batch", 256), lambda rng, s: rng.normal(0, 1, s))
    rate = n.input("sr", (), None, lambda rng, s: np.array(16000), np.int64)
    h = n.input("h", (1, 1, w), (1, "batch", w), lambda rng, s: rng.normal(0, 0.1, s))
    c = n.input("c", (1, 1, w), (1, "batch", w), lambda rng, s: rng.normal(0, 0.1, s))
    wave = n.unsqueeze(x, 1)

    def branch(name, stride):
        start = len(n.nodes)
        with n.at(name):
            y = n.conv(n.conv(wave, w, 8, stride, pad=(0,), act="relu"), w, 3, act="relu")
        nodes, n.nodes[start:] = n.nodes[start:], []
        info = helper.make_tensor_value_info(str(y), FLOAT, None)
        return helper.make_graph(nodes, name, [], [info]), y

    (then, y), (other, _) = branch("then_branch", 4), branch("else_branch", 2)
    fast = n.op("Equal", rate, n.const(16000, np.int64), shape=())
    y = n.op("If", fast, shape=y.shape, then_branch=then, else_branch=other)
    y = n.transpose(y, 2, 0, 1)
    outs = n.op("LSTM", y, n.normal(1, 4 * w, w, fan=w, gain=1.0),
                n.normal(1, 4 * w, w, fan=w, gain=1.0), n.bias((1, 8 * w)), "", h, c,
                shapes=[(y.shape[0], 1, 1, w), (1, 1, w), (1, 1, w)], hidden_size=w)
    y = n.op("Squeeze", outs[1], shape=(1, w), axes=[0])
    n.output(n.linear(y, 1, "sigmoid"), "output", ("batch", 1))
    n.output(outs[1], "hn", (1, "batch", w))
    n.output(outs[2], "cn", (1, "batch", w))


@network("speech", opset=16)
def whisper_encoder(n):
    """Two convolutions over mel bands, then a transformer with GELU."""
    c, t = n.size(32, 384), n.size(40, 300)
    x = n.input("input_features", (1, n.size(20, 80), t), ("batch", n.size(20, 80), t),
                lambda rng, s: rng.normal(0, 1, s))
    x = n.conv(n.conv(x, c, 3, act="gelu"), c, 3, 2, act="gelu")
    x = n.transpose(x, 0, 2, 1)
    x = n.op("Add", x, n.weight(n.rng.normal(0, 0.3, x.shape[1:]), "embed_positions"))
    for _ in range(n.size(2, 4)):
        x = n.op("Add", x, n.attention(n.layernorm(x, True), 4, open_dims=True))
        x = n.op("Add", x, n.mlp(n.layernorm(x, True), 4 * c))
    n.output(n.layernorm(x, True), "last_hidden_state", ("batch", t // 2, c))


@network("sequence", opset=14)
def gru_tagger(n):
    """Embeddings, two bidirectional GRUs, a tag per word."""
    c, length = n.size(16, 128), n.size(12, 64)
    ids = n.tokens("tokens", (1, length), 100, ("batch", "length"))
    x = n.gather(n.weight(n.rng.normal(0, 1, (100, c)), "embedding.weight"), ids)
    x = n.transpose(x, 1, 0, 2)
    for _ in range(2):
        x = recurrent(n, x, c, "GRU", True)
    n.output(n.linear(n.transpose(x, 1, 0, 2), 9), "tags", ("batch", "length", 9))


@network("sequence", "tf", 13)
def lstm_forecast(n):
    """tf2onnx of Keras: LSTM on time series, the last step, Dense."""
    h = n.size(16, 64)
    x = n.input("lstm_input", (1, 24, 4), ("unk__81", 24, 4), lambda rng, s: rng.normal(0, 1, s))
    y = recurrent(n, n.transpose(x, 1, 0, 2), h)
    y = n.gather(y, n.const(-1, np.int64), 0)
    n.output(n.linear(n.linear(y, h, "relu"), 1), "dense_1", ("unk__82", 1))


@network("sequence", opset=13)
def loop_decoder(n):
    """Greedy decoding by Loop: a cell of two MatMuls, whose output becomes its input; the
    states are scanned out."""
    c = n.size(16, 128)
    x = n.input("encoded", (1, c), ("batch", c), lambda rng, s: rng.normal(0, 1, s))
    start = n.linear(x, c, "tanh", gain=1.0)
    a, b = n.normal(c, c, fan=c, gain=1.0), n.normal(c, c, fan=c, gain=1.0)
    with n.at("decoder", "loop"):
        first = len(n.nodes)
        state = Value("state_in", (1, c))
        y = n.op("Add", n.matmul(state, a), n.matmul(start, b))
        y = n.op("Tanh", y)
        seen = n.op("Identity", y)
        go = n.op("Identity", Value("go_in", ()), shape=())
        body, n.nodes[first:] = n.nodes[first:], []
    values = [helper.make_tensor_value_info("i", INT64, []),
              helper.make_tensor_value_info("go_in", BOOL, []),
              helper.make_tensor_value_info("state_in", FLOAT, [1, c])]
    outs = [helper.make_tensor_value_info(str(go), BOOL, []),
            helper.make_tensor_value_info(str(y), FLOAT, [1, c]),
            helper.make_tensor_value_info(str(seen), FLOAT, [1, c])]
    graph = helper.make_graph(body, "loop_body", values, outs)
    last, states = n.op("Loop", n.const(6, np.int64), n.const(np.array(True)), start,
                        shapes=[(1, c), (6, 1, c)], body=graph)
    n.output(n.linear(states, 10), "logits", (6, "batch", 10))
    n.output(last, "state", ("batch", c))


@network("sequence", "tf", 13)
def scan_rnn(n):
    """A recurrent cell as Scan, as tf2onnx writes a while loop that it knows."""
    c, t = n.size(16, 64), 10
    x = n.input("x:0", (t, c), None, lambda rng, s: rng.normal(0, 1, s))
    w, r = n.normal(c, c, fan=c, gain=1.0), n.normal(c, c, fan=c, gain=1.0)
    first = len(n.nodes)
    state, step = Value("state:0", (1, c)), Value("step:0", (c,))
    y = n.op("Tanh", n.op("Add", n.matmul(n.unsqueeze(step, 0), w), n.matmul(state, r)))
    out = n.op("Squeeze", y, n.const([0], np.int64), shape=(c,))
    body, n.nodes[first:] = n.nodes[first:], []
    info = helper.make_tensor_value_info
    graph = helper.make_graph(body, "while_body", [info("state:0", FLOAT, [1, c]),
                                                   info("step:0", FLOAT, [c])],
                              [info(str(y), FLOAT, [1, c]), info(str(out), FLOAT, [c])])
    last, all_ = n.op("Scan", n.const(np.zeros((1, c))), x, shapes=[(1, c), (t, c)],
                      body=graph, num_scan_inputs=1)
    n.output(n.linear(all_, 5), "while/Exit_2:0", (t, 5))
    n.output(last, "while/Exit_1:0", (1, c))


@network("recommendation")
def dlrm(n):
    """Embeddings by Gather, a bottom MLP, products of pairs, a top MLP."""
    c = n.size(8, 64)
    dense = n.input("dense", (1, 13), ("batch", 13), lambda rng, s: rng.uniform(0, 1, s))
    parts = [n.linear(n.linear(dense, 4 * c, "relu"), c, "relu")]
    for i, size in enumerate((50, 200, 20)):
        ids = n.tokens(f"sparse.{i}", (1,), size, ("batch",))
        parts.append(n.gather(n.weight(n.rng.normal(0, 1, (size, c)), f"emb_l.{i}.weight"), ids))
    t = n.concat(*(n.unsqueeze(p, 1) for p in parts), axis=1)
    pairs = n.reshape(n.matmul(t, n.transpose(t, 0, 2, 1)), 1, -1)
    i, j = np.tril_indices(len(parts), -1)
    picked = n.gather(pairs, n.const((i * len(parts) + j).astype(np.int64)), 1)
    x = n.linear(n.concat(parts[0], picked), 4 * c, "relu")
    n.output(n.linear(x, 1, "sigmoid"), "click", ("batch", 1))


@network("recommendation", "tf", 13)
def wide_and_deep(n):
    x = n.input("features:0", (1, 40), ("unk__9", 40), lambda rng, s: rng.uniform(0, 1, s))
    y = x
    for width in n.size((32, 16), (512, 256)):
        y = n.linear(y, width, "relu")
    n.output(n.act(n.op("Add", n.linear(x, 1), n.linear(y, 1)), "sigmoid"), "head:0",
             ("unk__10", 1))


@network("points", opset=13)
def pointnet(n):
    """One MLP on all points by Conv1d, ReduceMax over them."""
    w, points = n.size(16, 64), n.size(128, 1024)
    x = n.input("points", (1, 3, points), ("batch", 3, points), lambda rng, s: rng.normal(0, 1, s))
    for out in (w, 2 * w, 8 * w):
        x = n.conv(x, out, 1, act="relu", bn=True)
    x = n.mean(x, [2], False, "ReduceMax")
    n.output(n.linear(n.linear(x, 4 * w, "relu"), 10), "scores", ("batch", 10))


@network("graph", opset=16)
def graph_conv(n):
    """Messages along edges: Gather, a matrix product, ScatterND with addition."""
    nodes, edges, c = n.size(20, 500), n.size(60, 2000), n.size(16, 64)
    x = n.input("x", (nodes, c), ("num_nodes", c), lambda rng, s: rng.normal(0, 1, s))
    links = n.tokens("edge_index", (2, edges), nodes, (2, "num_edges"))
    source = n.gather(links, n.const(0, np.int64), 0)
    target = n.unsqueeze(n.gather(links, n.const(1, np.int64), 0), 1)
    for act in ("relu", None):
        h = n.linear(x, c, gain=1.0, bias=False)
        message = n.gather(h, source)
        zero = n.op("Mul", h, 0.0)
        x = n.op("ScatterND", zero, target, message, shape=h.shape, reduction="add")
        x = n.act(n.op("Add", n.op("Mul", x, 0.3), n.bias(c)), act)
    n.output(x, "out", ("num_nodes", c))
