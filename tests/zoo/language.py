"""language -- transformers of the zoo."""
import numpy as np

from graph import network

LOWEST = float(np.finfo(np.float32).min)


def open_ids(n, name, length, high):
    return n.tokens(name, (1, length), high, ("batch_size", "sequence_length"))


def padding_mask(n, length, style):
    """attention_mask [b, n] of 0 and 1 -> mask(scores).

    min: (1 - mask) * finfo.min is added (transformers); inf: Where(mask == 0, -inf);
    -10000: of older exports."""
    keep = n.input("attention_mask", (1, length), ("batch_size", "sequence_length"),
                   lambda rng, s: np.arange(s[1])[None] < rng.integers(s[1] // 2, s[1] + 1),
                   np.int64)
    wide = n.unsqueeze(keep, 1, 2)
    if style == "inf":
        gone = n.op("Equal", wide, n.const(0, np.int64))

        def where(scores):
            return n.op("Where", gone, n.const(-np.inf), scores)
        return where
    number = n.op("Cast", wide, to=10 if n.dtype == np.float16 else 1)
    lowest = {"min": float(np.finfo(n.dtype).min), "10000": -10000.0}[style]
    bias = n.op("Mul", n.op("Sub", 1.0, number), lowest)
    return lambda scores: n.op("Add", scores, bias)


def embeddings(n, ids, vocabulary, c, positions):
    with n.at("embeddings"):
        words = n.weight(n.rng.normal(0, 1, (vocabulary, c)), "word_embeddings.weight")
        places = n.weight(n.rng.normal(0, 0.3, (positions, c)), "position_embeddings.weight")
        x = n.gather(words, ids)
        length = n.op("Squeeze", n.dim(ids, 1), n.const([0], np.int64), shape=()) \
            if n.opset >= 13 else n.op("Squeeze", n.dim(ids, 1), shape=(), axes=[0])
        range_ = n.op("Range", n.const(0, np.int64), length, n.const(1, np.int64),
                      shape=(ids.shape[1],))
        return n.op("Add", x, n.gather(places, range_))


def bert_like(n, layers, mask, act="gelu", decomposed=True):
    c, length = n.size(32, 256), n.size(16, 128)
    ids = open_ids(n, "input_ids", length, 100)
    mask = padding_mask(n, length, mask)
    x = n.layernorm(embeddings(n, ids, n.size(100, 8000), c, length), decomposed, 1e-12)
    for layer in range(layers):
        with n.at("encoder", f"layer.{layer}"):
            x = n.layernorm(n.op("Add", n.attention(x, 4, mask, True), x), decomposed, 1e-12)
            x = n.layernorm(n.op("Add", n.mlp(x, 4 * c, act), x), decomposed, 1e-12)
    return x


@network("language", opset=14)
def bert(n):
    """Decomposed LayerNorm and GELU, open dims, a mask of finfo.min."""
    x = bert_like(n, n.size(3, 6), "min")
    first = n.gather(x, n.const(0, np.int64), 1)
    n.output(x, "last_hidden_state", ("batch_size", "sequence_length", x.shape[2]))
    n.output(n.linear(first, first.shape[1], "tanh", gain=1.0), "pooler_output",
             ("batch_size", x.shape[2]))


@network("language")
def distilbert(n):
    """LayerNormalization as an operator; Where with -inf."""
    x = bert_like(n, n.size(2, 6), "inf", decomposed=False)
    first = n.gather(x, n.const(0, np.int64), 1)
    n.output(n.linear(n.linear(first, first.shape[1], "relu"), 2), "logits",
             ("batch_size", 2))


@network("language", "tf", 13)
def bert_tf(n):
    """tf2onnx: MatMul, Add; a mask of -10000; GELU by tanh."""
    x = bert_like(n, 2, "10000", "gelu_tanh")
    n.output(n.softmax(n.linear(x, 5)), "Identity:0", ("batch_size", "sequence_length", 5))


@network("language", half=True)
def bert_half(n):
    """float16 with its finfo.min in the mask."""
    x = bert_like(n, 2, "min", decomposed=False)
    n.output(n.linear(x, 5), "logits", ("batch_size", "sequence_length", 5))


@network("language", opset=14)
def bert_optimized(n):
    """BERT after the transformer optimizer: com.microsoft operators."""
    c, length = n.size(32, 256), n.size(16, 128)
    ids = n.tokens("input_ids", (1, length), 100, ("batch_size", length))
    table = n.weight(n.rng.normal(0, 1, (100, c)), "embeddings")
    x = n.gather(table, ids)
    for layer in range(2):
        with n.at(f"layer.{layer}"):
            y = n.op("Attention", x, n.normal(c, 3 * c, fan=c, gain=1.0), n.bias(3 * c),
                     shape=x.shape, domain="com.microsoft", num_heads=4)
            y = n.linear(y, c, gain=0.5, bias=False)
            x = skip_norm(n, y, x, c)
            y = n.op("MatMul", x, n.normal(c, 4 * c, fan=c), shape=(*x.shape[:2], 4 * c))
            y = n.op("BiasGelu", y, n.bias(4 * c), shape=y.shape, domain="com.microsoft")
            y = n.op("FusedMatMul", y, n.normal(c, 4 * c, fan=4 * c, gain=0.5),
                     shape=x.shape, domain="com.microsoft", transB=1, alpha=0.5)
            x = skip_norm(n, y, x, c)
    y = n.op("QuickGelu", n.linear(x, c), domain="com.microsoft", alpha=1.702)
    n.output(n.linear(y, 5), "logits", ("batch_size", length, 5))


def skip_norm(n, x, skip, c):
    return n.op("SkipLayerNormalization", x, skip,
                n.weight(n.rng.uniform(0.8, 1.2, c), "gamma"), n.bias(c), n.bias(c),
                shape=x.shape, domain="com.microsoft", epsilon=1e-12)


def causal(n, length):
    """A triangle of a constant, cut by Slice, with Where and finfo.min (GPT-2)."""
    triangle = n.const(np.tril(np.ones((1, 1, length, length), bool)))

    def mask(scores):
        return n.op("Where", triangle, scores, n.const(LOWEST))
    return mask


@network("language", opset=14)
def gpt2(n):
    """Q, K and V by one Gemm on flattened tokens and Split; GELU by tanh; causal mask of
    finfo.min."""
    c, length = n.size(32, 256), n.size(16, 128)
    ids = n.tokens("input_ids", (1, length), 100, ("batch", length))
    x = embeddings(n, ids, n.size(100, 50257), c, length)
    mask = causal(n, length)
    for layer in range(n.size(2, 6)):
        with n.at("transformer", f"h.{layer}"):
            y = n.layernorm(x, True)
            flat = n.linear(n.reshape(y, -1, c), 3 * c, gain=1.0)
            q, k, v = n.split(n.reshape(flat, "d0", 3 * c), 3, -1)
            q, k, v = (n.heads(n.reshape(a, 1, -1, c), 4, False) for a in (q, k, v))
            y = n.linear(n.attend(q, k, v, mask), c, gain=0.5)
            x = n.op("Add", y, x)
            x = n.op("Add", n.mlp(n.layernorm(x, True), 4 * c, "gelu_tanh"), x)
    head = n.normal(n.size(100, 50257), c, gain=1.0)
    x = n.layernorm(x, True)
    logits = n.matmul(x, n.transpose(head, 1, 0))
    n.output(logits, "logits", ("batch", length, logits.shape[2]))


@network("language")
def gpt2_cache(n):
    """One token with past keys and values, which grow by Concat."""
    c, past = n.size(32, 256), n.size(12, 128)
    ids = n.tokens("input_ids", (1, 1), 100, ("batch_size", "sequence_length"))
    table = n.weight(n.rng.normal(0, 1, (100, c)), "wte.weight")
    x = n.gather(table, ids)
    presents = []
    for layer in range(2):
        kept = [n.input(f"past_key_values.{layer}.{what}", (1, 4, past, c // 4),
                        ("batch_size", 4, "past_sequence_length", c // 4),
                        lambda rng, s: rng.normal(0, 1, s)) for what in ("key", "value")]
        with n.at("transformer", f"h.{layer}"):
            y = n.layernorm(x)
            q, k, v = (n.heads(n.linear(y, c, gain=1.0), 4, True) for _ in range(3))
            k, v = n.concat(kept[0], k, axis=2), n.concat(kept[1], v, axis=2)
            presents += [k, v]
            x = n.op("Add", n.linear(n.attend(q, k, v), c, gain=0.5), x)
            x = n.op("Add", n.mlp(n.layernorm(x), 4 * c, "gelu_tanh"), x)
    n.output(n.linear(n.layernorm(x), 100, bias=False), "logits",
             ("batch_size", "sequence_length", 100))
    for i, p in enumerate(presents):
        n.output(p, f"present.{i // 2}.{('key', 'value')[i % 2]}",
                 ("batch_size", 4, "total_sequence_length", c // 4))


@network("language")
def llama(n):
    """RMSNorm, rotary positions by Slice, Neg and Concat, gated SiLU, grouped queries by
    Expand, a cache, an additive mask of finfo.min from the cache's length."""
    c, past, groups, heads = n.size(32, 256), n.size(8, 128), 2, 4
    d = c // heads
    ids = n.tokens("input_ids", (1, 1), 100, ("batch_size", 1))
    place = n.tokens("position_ids", (1, 1), 16, ("batch_size", 1))
    x = n.gather(n.weight(n.rng.normal(0, 1, (100, c)), "embed_tokens.weight"), ids)
    angle = n.const(1 / 100 ** (np.arange(0, d, 2) / d).reshape(1, 1, -1))
    angle = n.op("Mul", n.unsqueeze(n.op("Cast", place, to=1), 2), angle)
    angle = n.unsqueeze(n.concat(angle, angle, axis=2), 1)
    cos, sin = n.op("Cos", angle), n.op("Sin", angle)

    def rotate(v):
        turned = n.concat(n.op("Neg", n.slice(v, 3, d // 2, None)), n.slice(v, 3, 0, d // 2),
                          axis=3)
        return n.op("Add", n.op("Mul", v, cos), n.op("Mul", turned, sin))

    def repeat(v):
        b, g, t, _ = v.shape
        y = n.op("Expand", n.unsqueeze(v, 2), n.const([1, 1, heads // groups, 1, 1],
                                                      np.int64),
                 shape=(b, g, heads // groups, t, d))
        return n.reshape(y, 1, heads, -1, d)

    presents = []
    for layer in range(2):
        kept = [n.input(f"past_key_values.{layer}.{what}", (1, groups, past, d),
                        (1, groups, "past", d), lambda rng, s: rng.normal(0, 1, s))
                for what in ("key", "value")]
        with n.at("model", f"layers.{layer}"):
            y = n.rmsnorm(x)
            q = n.heads(n.linear(y, c, gain=1.0, bias=False), heads, True)
            k, v = (n.transpose(n.reshape(n.linear(y, groups * d, gain=1.0, bias=False), 1, 1,
                                          groups, d), 0, 2, 1, 3) for _ in range(2))
            k, v = n.concat(kept[0], rotate(k), axis=2), n.concat(kept[1], v, axis=2)
            presents += [k, v]
            y = n.attend(rotate(q), repeat(k), repeat(v))
            x = n.op("Add", x, n.linear(y, c, gain=0.5, bias=False))
            y = n.rmsnorm(x)
            gate = n.linear(y, 2 * c, "silu", bias=False)
            y = n.op("Mul", gate, n.linear(y, 2 * c, bias=False, gain=1.0))
            x = n.op("Add", x, n.linear(y, c, gain=0.5, bias=False))
    n.output(n.linear(n.rmsnorm(x), 100, bias=False), "logits", ("batch_size", 1, 100))
    for i, p in enumerate(presents):
        n.output(p, f"present.{i // 2}.{('key', 'value')[i % 2]}", (1, groups, "total", d))


@network("language", opset=14)
def t5_encoder(n):
    """RMSNorm, no scaling of scores, relative positions by Gather from a table."""
    c, length = n.size(32, 256), n.size(16, 128)
    ids = n.tokens("input_ids", (1, length), 100, ("batch", length))
    x = n.gather(n.weight(n.rng.normal(0, 1, (100, c)), "shared.weight"), ids)
    apart = np.clip(np.arange(length)[None] - np.arange(length)[:, None], -8, 7) + 8
    table = n.weight(n.rng.normal(0, 0.5, (16, 4)), "relative_attention_bias.weight")
    bias = n.gather(table, n.const(apart.astype(np.int64)))
    bias = n.unsqueeze(n.transpose(bias, 2, 0, 1), 0)
    for layer in range(n.size(2, 6)):
        with n.at("encoder", f"block.{layer}"):
            y = n.attention(n.rmsnorm(x), 4, lambda s: n.op("Add", s, bias), bias=False)
            x = n.op("Add", x, y)
            y = n.linear(n.linear(n.rmsnorm(x), 4 * c, "relu", bias=False), c, gain=0.5,
                         bias=False)
            x = n.op("Add", x, y)
    n.output(n.rmsnorm(x), "hidden_states", ("batch", length, c))


@network("language", opset=16)
def clip(n):
    """Two towers, normalized by ReduceL2, and their products."""
    c, length, size = n.size(32, 128), n.size(12, 77), n.size(32, 224)
    ids = n.tokens("input_ids", (1, length), 100, (1, length))
    pixels = n.input("pixel_values", (1, 3, size, size))

    def block(x, mask=None):
        x = n.op("Add", x, n.attention(n.layernorm(x, True), 4, mask))
        y = n.linear(n.layernorm(x, True), 4 * c)
        y = n.op("Mul", y, n.op("Sigmoid", n.op("Mul", y, 1.702)))
        return n.op("Add", x, n.linear(y, c, gain=0.5))

    text = embeddings(n, ids, 100, c, length)
    mask = np.triu(np.full((length, length), LOWEST), 1)[None, None]
    for _ in range(2):
        text = block(text, lambda s: n.op("Add", s, mask))
    patch = n.size(8, 32)
    image = n.conv(pixels, c, patch, patch, pad=(0, 0), bias=False)
    image = n.transpose(n.reshape(image, 0, c, -1), 0, 2, 1)
    for _ in range(2):
        image = block(image)
    both = []
    for x in (n.gather(text, n.const(length - 1, np.int64), 1), n.mean(image, [1], False)):
        x = n.linear(x, c, bias=False, gain=1.0)
        both.append(n.op("Div", x, n.mean(x, [-1], kind="ReduceL2")))
    logits = n.op("Mul", n.matmul(both[0], n.transpose(both[1], 1, 0)), 14.3)
    n.output(logits, "logits_per_text")
    n.output(both[1], "image_embeds")
