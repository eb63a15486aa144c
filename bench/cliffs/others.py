# SPDX-License-Identifier: MIT
"""Cases of transforms, losses, random numbers, control flow and attention."""
import numpy as np
from onnx import TensorProto, helper

from elementwise import any_shape
from layouts import ints
from products import scaled
from registry import draws, split


# ---- Transforms, losses, random numbers -------------------------------------------------------


@draws("DFT", weight=2)
def dft(n, operator):
    d, n.opset = n.d, 20
    batch, length = d.limit([d.size(1, 256), d.pick(d.size(1, 4096), 256, 512, 400, 1024)], 1 << 17)
    onesided = d.pick(0, 1)
    x = n.x([batch, length, 1 if onesided else d.pick(1, 2)])
    n.result(n.node(operator, x, "", n.constant(np.int64(1)), onesided=onesided))


@draws("STFT")
def stft(n, operator):
    frame = n.d.pick(256, 400, 512, 64)
    signal = n.x([n.d.pick(1, 4), frame * n.d.size(1, 32), 1])
    window = n.constant(np.hanning(frame).astype(np.float32))
    n.result(
        n.node(operator, signal, n.constant(np.int64(frame // n.d.pick(2, 4))), window, n.constant(np.int64(frame)))
    )


@draws("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(n, operator):
    rows, classes = n.d.shape(2)
    labels = n.feed(n.random.integers(0, classes, rows))
    n.result(n.node(operator, n.x([rows, classes]), labels, reduction=n.d.pick("mean", "none", "sum")))


@draws("RandomNormalLike", "RandomUniformLike", "Bernoulli")
def random_like(n, operator):
    n.random_result = True
    n.result(n.node(operator, n.feed(n.random.random(any_shape(n)).astype(np.float32))))


@draws("RandomNormal", "RandomUniform")
def random_numbers(n, operator):
    n.random_result = True
    shape = any_shape(n)
    n.result(n.node("Add", n.node(operator, shape=shape), n.x([1])))


@draws("Multinomial")
def multinomial(n, operator):
    n.random_result = True
    rows, classes = n.d.shape(2, 1 << 16)
    n.result((n.node(operator, n.x([rows, classes]), sample_size=n.d.size(1, 64), dtype=TensorProto.INT64), "int64"))


@draws("NonMaxSuppression", weight=2)
def suppress(n, operator):
    d = n.d
    count, classes = d.size(1, 2048), d.pick(1, 2, 8, 80)
    count = min(count, max(1, (1 << 16) // classes))
    corners = np.sort(n.random.random((1, count, 2, 2)), axis=2).reshape(1, count, 4).astype(np.float32)
    scores = n.random.random((1, classes, count)).astype(np.float32)
    n.result(
        (
            n.node(
                operator,
                n.feed(corners),
                n.feed(scores),
                ints(n, d.pick(10, 100)),
                n.constant(np.array([0.5], np.float32)),
                n.constant(np.array([0.3], np.float32)),
            ),
            "int64",
        )
    )


# ---- Control flow -----------------------------------------------------------------------------


def port(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


@draws("If")
def branch(n, operator):
    x, condition = n.x(any_shape(n)), n.feed(np.array(n.d.chance()))
    graphs = [
        helper.make_graph(
            [helper.make_node(name, [x], [f"branch_{name}"])], name, [], [port(f"branch_{name}", TensorProto.FLOAT)]
        )
        for name in ("Relu", "Tanh")
    ]
    n.result(n.node(operator, condition, then_branch=graphs[0], else_branch=graphs[1]))


@draws("Loop")
def loop(n, operator):
    shape = any_shape(n, 1 << 16)
    body = helper.make_graph(
        [helper.make_node("Identity", ["keep_in"], ["keep"]), helper.make_node("Tanh", ["state_in"], ["state"])],
        "body",
        [
            port("i", TensorProto.INT64, []),
            port("keep_in", TensorProto.BOOL, []),
            port("state_in", TensorProto.FLOAT, shape),
        ],
        [port("keep", TensorProto.BOOL, []), port("state", TensorProto.FLOAT, shape)],
    )
    count = n.feed(np.int64(n.d.size(1, 16)))
    n.result(n.node(operator, count, n.constant(np.array(True)), n.x(shape), body=body))


@draws("Scan")
def scan(n, operator):
    steps, width = n.d.shape(2, 1 << 14, 256)
    body = helper.make_graph(
        [helper.make_node("Add", ["sum_in", "part"], ["sum"]), helper.make_node("Identity", ["sum"], ["each"])],
        "body",
        [port("sum_in", TensorProto.FLOAT, [width]), port("part", TensorProto.FLOAT, [width])],
        [port("sum", TensorProto.FLOAT, [width]), port("each", TensorProto.FLOAT, [width])],
    )
    n.result(*n.node(operator, n.x([width]), n.x([steps, width]), count=2, body=body, num_scan_inputs=1))


@draws("SplitToSequence", "ConcatFromSequence", "SequenceAt")
def lists(n, operator):
    shape = any_shape(n, 1 << 18)
    parts = n.node("SplitToSequence", n.x(shape), axis=0)
    if operator == "SequenceAt":
        n.result(n.node(operator, parts, n.constant(np.int64(0))))
    else:
        n.result(n.node("ConcatFromSequence", parts, axis=0))


# ---- Attention --------------------------------------------------------------------------------


def heads(d):
    """(batch, heads, queries, keys, width)"""
    batch, count, keys, width = (
        d.pick(1, 2, 8, weights=(4, 1, 1)),
        d.size(1, 16),
        d.size(1, 512),
        d.pick(64, 32, 8, 80, 128),
    )
    queries = d.pick(keys, 1)
    while batch * count * queries * keys * width > 4e7:
        keys = max(1, keys // 2)
        queries = min(queries, keys)
    return batch, count, queries, keys, width


@draws("Attention", opset=23, weight=2)
def attention(n, operator):
    batch, count, queries, keys, width = heads(n.d)
    shared = count if count % 2 else n.d.pick(count, count // 2)
    q = n.x([batch, count, queries, width])
    k, v = (n.x([batch, shared, keys, width]) for _ in "kv")
    n.result(n.node(operator, q, k, v, is_causal=n.d.pick(0, 1) if queries == keys else 0))


@draws("com.microsoft.MultiHeadAttention")
def multi_head(n, operator):
    operator, domain = split(operator)
    batch, count, queries, keys, width = heads(n.d)
    q = n.x([batch, queries, count * width])
    k, v = (n.x([batch, keys, count * width]) for _ in "kv")
    n.result(n.node(operator, q, k, v, num_heads=count, **domain))


@draws("com.microsoft.Attention")
def packed_attention(n, operator):
    operator, domain = split(operator)
    batch, count, queries, _, width = heads(n.d)
    inner = count * width
    n.result(
        n.node(
            operator,
            n.x([batch, queries, inner]),
            n.constant(scaled(n, [inner, 3 * inner])),
            n.constant(n.values([3 * inner])),
            num_heads=count,
            **domain,
        )
    )


@draws("com.microsoft.GroupQueryAttention")
def group_query(n, operator):
    operator, domain = split(operator)
    d = n.d
    shared, groups, width, past = d.pick(1, 2, 4), d.pick(1, 2, 4), d.pick(64, 32, 128), d.size(1, 512)
    queries = [n.x([1, 1, size * width]) for size in (shared * groups, shared, shared)]
    cache = [n.x([1, shared, past, width]) for _ in "kv"]
    lengths = [n.feed(np.array([past], np.int32)), n.constant(np.int32(past + 1))]
    n.result(
        n.node(operator, *queries, *cache, *lengths, count=3, num_heads=shared * groups, kv_num_heads=shared, **domain)[
            0
        ]
    )


@draws("RotaryEmbedding", "com.microsoft.RotaryEmbedding", opset=23)
def rotary(n, operator):
    operator, domain = split(operator)
    d = n.d
    count, steps, width = d.size(1, 16), d.size(1, 512), d.pick(64, 32, 128)
    steps = min(steps, (1 << 20) // (count * width))
    places = n.feed(np.arange(steps, dtype=np.int64)[None])
    tables = [n.constant(n.values([steps, width // 2], kind="unit")) for _ in "cs"]
    x = n.x([1, count, steps, width])
    n.result(n.node(operator, x, *([places] + tables if domain else tables + [places]), **domain))


@draws(
    "com.microsoft.Trilu",
    "com.microsoft.Pad",
    "com.microsoft.Range",
    "com.microsoft.GatherND",
    "com.microsoft.GridSample",
)
def older_names(n, operator):
    """Operators that moved into ONNX later."""
    name, domain = split(operator)
    shape = n.d.shape(4, 1 << 18, 64)
    inputs = {
        "Trilu": lambda: [n.x(shape)],
        "Pad": lambda: [n.x(shape), ints(n, *[1] * 8)],
        "Range": lambda: [n.feed(np.int64(0)), n.feed(np.int64(shape[0] * 100)), n.constant(np.int64(1))],
        "GatherND": lambda: [n.x(shape), n.feed(n.random.integers(0, shape[0], (8, 1)))],
        "GridSample": lambda: [n.x(shape), n.feed(n.values([shape[0], 16, 16, 2], kind="unit"))],
    }
    found = inputs.get(name, lambda: [n.x(shape), n.constant(n.values(shape[-1:]))])()
    n.result((n.node(name, *found, **domain), "int64" if name == "Range" else "float32"))
