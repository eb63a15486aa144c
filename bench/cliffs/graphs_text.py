# SPDX-License-Identifier: MIT
"""Small graphs as exporters write them: transformers, embeddings, points, sequences and elementwise chains."""

import numpy as np
from onnx import TensorProto

from graphs import activation, number
from layouts import ints
from others import heads
from products import scaled
from registry import graph

FLOAT = TensorProto.FLOAT


def tokens(d):
    """(batch, tokens, width)"""
    batch, steps, width = (
        d.pick(1, 2, 8, weights=(5, 1, 1)),
        d.size(1, 384),
        d.pick(64, 128, 256, 384, 512, 768, 96, 48),
    )
    while batch * steps * width > 1 << 18:
        steps = max(1, steps // 2)
    return batch, steps, width


def normalized(n, x, width):
    """LayerNormalization, or as it was written before."""
    if n.d.chance():
        return n.layer_norm(x, width)
    centred = n.node("Sub", x, n.node("ReduceMean", x, ints(n, -1)))
    form = n.d.pick("pow", "mul")
    square = n.node("Pow", centred, number(n, 2)) if form == "pow" else n.node("Mul", centred, centred)
    root = n.node("Sqrt", n.node("Add", n.node("ReduceMean", square, ints(n, -1)), number(n, 1e-5)))
    y = n.node("Mul", n.node("Div", centred, root), n.constant(n.values([width])))
    return n.node("Add", y, n.constant(n.values([width])))


def root_mean(n, x, width):
    """RMS norm, written out."""
    mean = n.node("ReduceMean", n.node("Pow", x, number(n, 2)), ints(n, -1))
    root = n.node("Sqrt", n.node("Add", mean, number(n, 1e-6)))
    y = n.node("Mul", x, n.node("Reciprocal", root)) if n.d.chance() else n.node("Div", x, root)
    return n.node("Mul", y, n.constant(n.values([width])))


def linear(n, x, inner, out, bias=True):
    y = n.node("MatMul", x, n.made(scaled(n, [inner, out])))
    return n.node("Add", y, n.constant(n.values([out]))) if bias else y


@graph()
def layer_norm_linear(n):
    batch, steps, width = tokens(n.d)
    n.result(linear(n, normalized(n, n.x([batch, steps, width]), width), width, n.d.size(1, 1024)))


@graph(weight=3)
def feed_forward(n):
    batch, steps, width = tokens(n.d)
    wide = width * n.d.pick(1, 2, 4)
    while batch * steps * width * wide > 1e8:
        steps //= 2
    x = n.x([batch, max(steps, 1), width])
    y = linear(n, activation(n, linear(n, normalized(n, x, width) if n.d.chance() else x, width, wide)), wide, width)
    n.result(n.node("Add", x, y) if n.d.chance() else y)


@graph(weight=2)
def gated(n):
    """Gated blocks: two products, one through SiLU, GELU or Sigmoid."""
    batch, steps, width = tokens(n.d)
    x, wide = n.x([batch, steps, width]), n.d.pick(64, 128, 256, 7, 3)
    y = root_mean(n, x, width) if n.d.chance() else x
    if n.d.chance():
        gate, up = linear(n, y, width, wide, False), linear(n, y, width, wide, False)
    else:
        gate, up = n.node("Split", linear(n, y, width, 2 * wide), ints(n, wide, wide), count=2, axis=-1)
    gate = n.d.pick(n.silu, n.gelu, n.gelu_tanh, lambda v: n.node("Sigmoid", v))(gate)
    n.result(linear(n, n.node("Mul", gate, up), wide, width, False))


@graph(weight=4)
def attend(n):
    """Attention written out, with the masks of exporters."""
    batch, count, queries, keys, width = heads(n.d)
    q, k, v = n.x([batch, count, queries, width]), n.x([batch, count, keys, width]), n.x([batch, count, keys, width])
    scale, mask = n.d.pick("div", "mul", "both"), n.d.pick("none", "add", "where", "rows")
    k = n.node("Transpose", k, perm=[0, 1, 3, 2])
    if scale == "both":
        q, k = n.node("Mul", q, number(n, width**-0.25)), n.node("Mul", k, number(n, width**-0.25))
    scores = n.node("MatMul", q, k)
    if scale != "both":
        scores = (
            n.node("Div", scores, number(n, width**0.5))
            if scale == "div"
            else n.node("Mul", scores, number(n, width**-0.5))
        )
    if mask == "add":
        scores = n.node("Add", scores, n.x([batch, 1, queries, keys]))
    elif mask == "where":
        scores = n.node("Where", n.x([batch, 1, queries, keys], "bool"), scores, number(n, -1e4))
    elif mask == "rows":
        hidden = n.node(
            "Mul",
            n.node("Sub", number(n, 1), n.node("Cast", n.x([batch, 1, 1, keys], "bool"), to=FLOAT)),
            number(n, -1e4),
        )
        scores = n.node("Add", scores, hidden)
    y = n.node("MatMul", n.node("Softmax", scores, axis=-1), v)
    if n.d.chance():
        y = n.node("Reshape", n.node("Transpose", y, perm=[0, 2, 1, 3]), ints(n, batch, queries, count * width))
    n.result(y)


@graph(weight=2)
def project_and_attend(n):
    """From one input: a product, Split, heads, attention."""
    count, width, steps = n.d.pick(1, 2, 4, 8), n.d.pick(32, 64, 16), n.d.size(1, 256)
    inner = count * width
    y = linear(n, n.x([1, steps, inner]), inner, 3 * inner)
    y = n.node("Transpose", n.node("Reshape", y, ints(n, 1, steps, 3, count, width)), perm=[2, 0, 3, 1, 4])
    q, k, v = (n.node("Gather", y, n.constant(np.int64(i)), axis=0) for i in range(3))
    n.result(n.attend(q, k, v, width))


@graph()
def rotated(n):
    """Rotary embedding, written out."""
    count, steps, width = n.d.size(1, 16), n.d.size(1, 256), n.d.pick(64, 32, 128)
    x, half = n.x([1, count, steps, width]), width // 2
    a = n.node("Slice", x, ints(n, 0), ints(n, half), ints(n, 3))
    b = n.node("Slice", x, ints(n, half), ints(n, 1 << 40), ints(n, 3))
    turned = n.node("Concat", n.node("Neg", b), a, axis=-1)
    cos, sin = (n.either(n.values([1, 1, steps, width], kind="unit")) for _ in "cs")
    n.result(n.node("Add", n.node("Mul", x, cos), n.node("Mul", turned, sin)))


@graph()
def cached_step(n):
    """One token: its key joins the past keys."""
    count, past, width = n.d.size(1, 16), n.d.size(1, 512), n.d.pick(64, 32, 128)
    q, k, v = (n.x([1, count, 1, width]) for _ in "qkv")
    keys = n.node("Concat", n.x([1, count, past, width]), k, axis=2)
    values = n.node("Concat", n.x([1, count, past, width]), v, axis=2)
    n.result(n.attend(q, keys, values, width), keys, values)


@graph(weight=3)
def embedding(n):
    """Rows of a table, in f32 or compact, with positions and a norm."""
    words, width, steps = n.d.size(4, 16384), n.d.pick(64, 128, 384, 7, 768), n.d.size(1, 256)
    words = min(words, (1 << 21) // width)
    ids = n.feed(n.random.integers(0, words, (1, steps)))
    y = n.node("Gather", n.made(n.values([words, width])), ids)
    if n.d.chance():
        y = n.node("Add", y, n.constant(n.values([1, steps, width])))
    n.result(normalized(n, y, width) if n.d.chance() else y)


@graph()
def embedding_bag(n):
    """Embeddings of categories, joined, and a product: tabular data."""
    rows, fields, parts, total = n.d.size(1, 512), n.d.pick(2, 4, 8), [], 0
    for _ in range(fields):
        words, width = n.d.size(2, 1000), n.d.pick(4, 8, 16, 3)
        parts.append(n.node("Gather", n.constant(n.values([words, width])), n.feed(n.random.integers(0, words, rows))))
        total += width
    n.result(n.node("Relu", linear(n, n.node("Concat", *parts, axis=1), total, n.d.size(1, 256))))


@graph()
def pooled(n):
    """The mean of tokens that count, divided by its length."""
    batch, steps, width = tokens(n.d)
    mask = n.node("Unsqueeze", n.node("Cast", n.feed(np.ones((batch, steps), np.int64)), to=FLOAT), ints(n, -1))
    total = n.node("ReduceSum", n.node("Mul", n.x([batch, steps, width]), mask), ints(n, 1), keepdims=0)
    y = n.node("Div", total, n.node("ReduceSum", mask, ints(n, 1), keepdims=0))
    if n.d.chance():
        y = n.node("Div", y, n.node("ReduceL2", y, ints(n, -1)))
    n.result(y)


@graph(weight=2)
def perceptron(n):
    """Layers of tabular data and of small heads."""
    rows, width = n.d.size(1, 1024), n.d.size(1, 256)
    y = n.x([rows, width])
    for _ in range(n.d.pick(1, 2, 3)):
        out = n.d.size(1, 256)
        y = activation(n, n.node("Gemm", y, n.made(scaled(n, [width, out]).T), n.constant(n.values([out])), transB=1))
        width = out
    n.result(y)


@graph(weight=2)
def points(n):
    """A point cloud: a transform, a layer for each point, and the largest of each feature."""
    count, out = n.d.size(4, 4096), n.d.size(1, 64)
    y = n.node("MatMul", n.x([1, count, 3]), n.x([1, 3, 3])) if n.d.chance() else n.x([1, count, 3])
    y = n.node("Relu", linear(n, y, 3, out))
    n.result(n.node("ReduceMax", y, ints(n, 1), keepdims=0) if n.d.chance() else y)


@graph()
def messages(n):
    """A layer of a network of a graph: rows gathered, transformed, added by node."""
    nodes, edges, width = n.d.size(2, 2048), n.d.size(2, 8192), n.d.size(1, 128)
    edges = min(edges, (1 << 19) // width)
    source, target = (n.feed(n.random.integers(0, nodes, size)) for size in ((edges,), (edges, 1)))
    y = n.node("Relu", linear(n, n.node("Gather", n.x([nodes, width]), source), width, width, False))
    n.result(n.node("ScatterND", n.constant(np.zeros((nodes, width), np.float32)), target, y, reduction="add"))


@graph()
def windows(n):
    """Windows of an image and a product in each."""
    size, side, width = n.d.pick(7, 8, 4), n.d.pick(1, 2, 4, 8), n.d.pick(96, 32, 48)
    x = n.x([1, side * size, side * size, width])
    y = n.node("Reshape", x, ints(n, 1, side, size, side, size, width))
    y = n.node("Reshape", n.node("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), ints(n, side * side, size * size, width))
    y = linear(n, y, width, width)
    y = n.node("Transpose", n.node("Reshape", y, ints(n, 1, side, side, size, size, width)), perm=[0, 1, 3, 2, 4, 5])
    n.result(n.node("Reshape", y, ints(n, 1, side * size, side * size, width)))


@graph()
def patches(n):
    """Patches of an image become tokens with positions."""
    size, side, width = n.d.pick(16, 8, 4), n.d.pick(2, 7, 14), n.d.pick(64, 192, 48)
    w = scaled(n, [width, 3, size, size]) * np.float32(0.1)
    y = n.node(
        "Conv",
        n.x([1, 3, size * side, size * side]),
        n.constant(w),
        n.constant(n.values([width])),
        kernel_shape=[size] * 2,
        strides=[size] * 2,
    )
    y = n.node("Transpose", n.node("Reshape", y, ints(n, 1, width, side * side)), perm=[0, 2, 1])
    y = n.node("Concat", n.constant(n.values([1, 1, width])), y, axis=1)
    n.result(n.node("Add", y, n.constant(n.values([1, side * side + 1, width]))))


@graph()
def sequence_head(n):
    """LSTM or GRU and a product."""
    operator, gates = n.d.pick(("LSTM", 4), ("GRU", 3))
    steps, width, hidden = n.d.size(1, 48), n.d.size(1, 128), n.d.size(1, 128)
    w, r = (n.constant(n.values([1, gates * hidden, size]) * np.float32(0.1)) for size in (width, hidden))
    y = n.node(operator, n.x([steps, 1, width]), w, r, count=2, hidden_size=hidden)[0]
    n.result(linear(n, n.node("Squeeze", y, ints(n, 1)), hidden, n.d.size(1, 64)))


@graph()
def similarity(n):
    """Cosines between rows, and their Softmax."""
    a, b, width = n.d.size(1, 512), n.d.size(1, 512), n.d.pick(64, 128, 16, 512)
    sides = []
    for rows in (a, b):
        x = n.x([rows, width])
        sides.append(n.node("Div", x, n.node("Clip", n.node("ReduceL2", x, ints(n, -1)), number(n, 1e-12), "")))
    y = n.node("MatMul", sides[0], n.node("Transpose", sides[1], perm=[1, 0]))
    n.result(n.node("Softmax", n.node("Mul", y, number(n, 10)), axis=-1))


@graph(weight=2)
def chain(n):
    """Elementwise operators in a row, with a row or a column of other shapes."""
    shape = n.d.shape(n.d.pick(2, 3, 4), 1 << 19)
    y = n.x(shape)
    for _ in range(n.d.answer(1, 8, lambda: n.d.random.randint(2, 8))):
        form = n.d.pick("scale", "shift", "function", "row", "column", "same", "limit", "select")
        if form == "function":
            y = n.node(n.d.pick("Tanh", "Sigmoid", "Relu", "Sin", "Abs", "Erf", "Softplus"), y)
        elif form == "limit":
            y = n.node("Clip", y, number(n, -2), number(n, 2))
        elif form == "select":
            y = n.node("Where", n.node("Greater", y, number(n, 0)), y, n.node("Mul", y, number(n, 0.1)))
        else:
            other = {"scale": [], "shift": [], "row": shape[-1:], "column": [*shape[:-1], 1], "same": shape}[form]
            other = n.x(other) if form == "same" else n.constant(n.values(other))
            y = n.node(n.d.pick("Mul", "Add", "Sub"), y, other)
    n.result(y)


@graph()
def statistics(n):
    """Rows standardized by their mean and deviation, and limited."""
    shape = n.d.shape(n.d.pick(2, 3), 1 << 19)
    x, axis = n.x(shape), n.d.pick(-1, 0)
    centred = n.node("Sub", x, n.node("ReduceMean", x, ints(n, axis)))
    deviation = n.node("Sqrt", n.node("ReduceMean", n.node("Mul", centred, centred), ints(n, axis)))
    n.result(
        n.node("Clip", n.node("Div", centred, n.node("Add", deviation, number(n, 1e-3))), number(n, -3), number(n, 3))
    )


@graph()
def causal_mask(n):
    """A mask made in the model, as decoders have it."""
    steps, count = n.d.size(1, 512), n.d.pick(1, 4, 12)
    places = n.node("Range", n.constant(np.int64(0)), n.constant(np.int64(steps)), n.constant(np.int64(1)))
    later = n.node("Greater", n.node("Unsqueeze", places, ints(n, 0)), n.node("Unsqueeze", places, ints(n, 1)))
    scores = n.node(
        "Where",
        later,
        number(n, -1e4),
        n.x([1, count, steps, steps] if count * steps * steps < 1 << 20 else [1, 1, steps, steps]),
    )
    n.result(n.node("Softmax", scores, axis=-1))


@graph(opset=20)
def skip_norm(n):
    """The sum of two branches and its norm, as an operator of ONNX Runtime."""
    batch, steps, width = tokens(n.d)
    shape = [batch, steps, width]
    if n.d.chance():
        n.result(
            n.microsoft(
                "SkipLayerNormalization",
                n.x(shape),
                n.x(shape),
                n.constant(n.values([width])),
                n.constant(n.values([width])),
                epsilon=1e-5,
            )
        )
        return
    ids = [
        n.feed(n.random.integers(0, 100, (batch, steps)).astype(np.int32)),
        n.feed(np.zeros((batch, steps), np.int32)),
    ]
    tables = [n.constant(n.values([rows, width])) for rows in (100, max(steps, 2), 2)]
    outputs = n.microsoft(
        "EmbedLayerNormalization", *ids, *tables, *[n.constant(n.values([width])) for _ in "gb"], count=2, epsilon=1e-5
    )
    n.result(outputs[0])
