# SPDX-License-Identifier: MIT
"""Small graphs as exporters write them: images, 8-bit layers, and steps before and after a network."""

import numpy as np
from onnx import TensorProto

from layers import WORK, Window, boxes, channel_values, filters, image
from layouts import ints
from registry import graph

FLOAT = TensorProto.FLOAT


def number(n, value):
    return n.constant(np.float32(value))


def activation(n, x, *more):
    """As exporters write it."""
    form = n.d.pick(
        "relu",
        "none",
        "silu",
        "hard_swish",
        "sigmoid",
        "relu6",
        "gelu",
        "gelu_tanh",
        "leaky",
        "mish",
        "prelu",
        "hard_swish_written",
        *more,
        weights=(5, 1, 3, 2, 1, 2, 3, 2, 1, 1, 1, 1, *[1 for _ in more])
    )
    written = {
        "relu": lambda: n.node("Relu", x),
        "none": lambda: x,
        "silu": lambda: n.silu(x),
        "hard_swish": lambda: n.node("HardSwish", x),
        "sigmoid": lambda: n.node("Sigmoid", x),
        "relu6": lambda: n.node("Clip", x, number(n, 0), number(n, 6)),
        "gelu": lambda: n.gelu(x),
        "gelu_tanh": lambda: n.gelu_tanh(x),
        "leaky": lambda: n.node("LeakyRelu", x, alpha=0.1),
        "mish": lambda: n.node("Mul", x, n.node("Tanh", n.node("Softplus", x))),
        "prelu": lambda: n.node("PRelu", x, number(n, 0.25)),
        "hard_swish_written": lambda: n.node(
            "Mul",
            x,
            n.node("Div", n.node("Clip", n.node("Add", x, number(n, 3)), number(n, 0), number(n, 6)), number(n, 6)),
        ),
    }
    return written[form]()


def norm(n, x, channels):
    return n.node("BatchNormalization", x, *[channel_values(n, channels, kind in (0, 3)) for kind in range(4)])


def layer(n, x, inner, out, window, groups=1, weights=None):
    w = weights or n.constant(filters(n, out, inner // groups, window.kernel))
    bias = [channel_values(n, out)] if n.d.chance(0.4) else []
    return n.node("Conv", x, w, *bias, group=groups, **window.attributes())


def small(n, window, shape, out):
    """The image, halved until a dense convolution fits the limit of work."""
    while np.prod([float(v) for v in shape]) * out * np.prod(window.kernel) > WORK:
        half = window.fit([*shape[:2], *[max(1, v // 2) for v in shape[2:]]])
        if half == shape:
            break
        shape = half
    return shape


@graph(weight=5)
def conv_norm_activation(n):
    window, depthwise = Window(n.d, n.d.pick(2, 1, weights=(5, 1))), n.d.chance(0.3)
    inner = n.d.size(1, 256)
    out = inner if depthwise else n.d.size(1, 256)
    shape = window.fit(image(n.d, inner, 1 << 19, len(window.kernel)))
    shape = shape if depthwise else small(n, window, shape, out)
    y = layer(n, n.x(shape), inner, out, window, inner if depthwise else 1)
    y = norm(n, y, out) if n.d.chance(0.7) else y
    n.result(activation(n, y))


@graph(weight=2)
def residual(n):
    window = Window(n.d, 2, (3, 1, 5), False)
    window.strides, window.pads = [1, 1], [k // 2 for k in window.kernel]
    channels = n.d.size(1, 128)
    shape = small(n, window, window.fit(image(n.d, channels, 1 << 18)), channels)
    x = n.x(shape)
    y = (
        norm(n, layer(n, x, channels, channels, window), channels)
        if n.d.chance()
        else layer(n, x, channels, channels, window)
    )
    y = n.node("Add", y, x) if n.d.chance() else n.node("Add", x, y)
    n.result(activation(n, y))


@graph(weight=2)
def squeeze_excite(n):
    channels = n.d.size(1, 256)
    x = n.x(image(n.d, channels, 1 << 19))
    mean = n.node("GlobalAveragePool", x) if n.d.chance() else n.node("ReduceMean", x, ints(n, 2, 3))
    inner, one = max(1, channels // 4), Window(n.d, 2, (1,), False)
    one.kernel, one.strides, one.pads = [1, 1], [1, 1], [0, 0]
    y = activation(n, layer(n, mean, channels, inner, one))
    y = n.node(n.d.pick("Sigmoid", "HardSigmoid"), layer(n, y, inner, channels, one))
    n.result(n.node("Mul", x, y))


@graph(weight=2)
def inverted_residual(n):
    inner = n.d.size(1, 48)
    wide, one, deep = inner * n.d.pick(4, 6, 1), Window(n.d, 2, (1,), False), Window(n.d, 2, (3, 5), False)
    one.kernel, one.strides, one.pads = [1, 1], [1, 1], [0, 0]
    shape = small(n, one, deep.fit(image(n.d, inner, 1 << 17)), 2 * wide)
    keep_norm = n.d.chance()
    y = layer(n, n.x(shape), inner, wide, one)
    y = activation(n, norm(n, y, wide) if keep_norm else y)
    y = layer(n, y, wide, wide, deep, wide)
    y = activation(n, norm(n, y, wide) if keep_norm else y)
    n.result(layer(n, y, wide, inner, one))


@graph(weight=2)
def pyramid(n):
    """Upsampling, Concat, convolution."""
    a, b, out = n.d.size(1, 64), n.d.size(1, 64), n.d.size(1, 64)
    size = n.d.pick(8, 20, 40, 13)
    up = n.node(
        "Resize",
        n.x([1, a, size, size]),
        "",
        n.constant(np.array([1, 1, 2, 2], np.float32)),
        mode=n.d.pick("nearest", "linear"),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    y = n.node("Concat", up, n.x([1, b, 2 * size, 2 * size]), axis=1)
    one = Window(n.d, 2, (1, 3), False)
    one.strides, one.pads = [1, 1], [k // 2 for k in one.kernel]
    n.result(activation(n, layer(n, y, a + b, out, one)))


@graph()
def pool_pyramid(n):
    """Three max pools in a row and Concat, as detectors have them."""
    channels, size, kernel = n.d.size(1, 256), n.d.pick(20, 8, 13, 40), n.d.pick(5, 3, 9)
    parts = [n.x([1, channels, size, size])]
    for _ in range(3):
        parts.append(n.node("MaxPool", parts[-1], kernel_shape=[kernel] * 2, strides=[1, 1], pads=[kernel // 2] * 4))
    n.result(n.node("Concat", *parts, axis=1))


@graph()
def split_conv(n):
    """Split of channels, a convolution of a half, Concat."""
    half, size = n.d.size(1, 64), n.d.pick(20, 40, 64, 7)
    a, b = n.node("Split", n.x([1, 2 * half, size, size]), ints(n, half, half), count=2, axis=1)
    y = n.silu(n.conv(b, half, half))
    n.result(n.node("Concat", a, y, n.node("Add", b, y), axis=1))


@graph()
def shuffle(n):
    """Channels in another order by two Reshapes and a Transpose, or sub-pixels."""
    groups, each, size = n.d.pick(2, 4, 8), n.d.size(1, 64), n.d.size(4, 80)
    size = min(size, int(((1 << 20) / (groups * each)) ** 0.5))
    if n.d.chance():
        y = n.node("Reshape", n.x([1, groups * each, size, size]), ints(n, 1, groups, each, size, size))
        y = n.node("Transpose", y, perm=[0, 2, 1, 3, 4])
        n.result(n.node("Reshape", y, ints(n, 1, groups * each, size, size)))
    else:
        n.result(n.node("DepthToSpace", n.conv(n.x([1, each, size, size]), 4, each), blocksize=2, mode="CRD"))


@graph()
def normalized_groups(n):
    """GroupNorm as older exporters write it, and an activation."""
    groups, each = n.d.pick(1, 4, 8, 32), n.d.size(1, 16)
    shape = image(n.d, groups * each, 1 << 19)
    y = n.node("Reshape", n.x(shape), ints(n, 0, groups, -1))
    y = n.node(
        "InstanceNormalization", y, n.constant(np.ones(groups, np.float32)), n.constant(np.zeros(groups, np.float32))
    )
    y = n.node("Reshape", y, ints(n, *shape))
    scale, bias = (n.constant(n.values([shape[1], 1, 1])) for _ in "sb")
    n.result(activation(n, n.node("Add", n.node("Mul", y, scale), bias)))


@graph()
def decoder(n):
    """ConvTranspose, BatchNormalization, activation."""
    inner, out, size = n.d.size(1, 64), n.d.size(1, 64), n.d.size(2, 48)
    kernel = n.d.pick(2, 4, 3)
    w = n.constant(filters(n, inner, out, [kernel] * 2))
    y = n.node("ConvTranspose", n.x([1, inner, size, size]), w, strides=[2, 2], pads=[(kernel - 1) // 2] * 4)
    n.result(activation(n, norm(n, y, out) if n.d.chance() else y))


@graph()
def audio(n):
    """Convolutions of sequences."""
    inner, out, size = n.d.size(1, 128), n.d.size(1, 128), n.d.size(16, 2048)
    window = Window(n.d, 1, (3, 5, 7, 9, 1))
    shape = small(n, window, window.fit([1, inner, size]), out)
    n.result(activation(n, layer(n, n.x(shape), inner, out, window)))


# ---- 8 bits -----------------------------------------------------------------------------------


def pair(n, x, scale=0.02):
    """QuantizeLinear and DequantizeLinear."""
    small_, zero = number(n, scale), n.constant(np.uint8(128))
    return n.node("DequantizeLinear", n.node("QuantizeLinear", x, small_, zero), small_, zero)


@graph(weight=2)
def quantized_conv(n):
    """QuantizeLinear and DequantizeLinear around a convolution."""
    n.loose = True
    window, inner, out = Window(n.d, 2, (3, 1, 5), False), n.d.size(1, 128), n.d.size(1, 128)
    shape = small(n, window, window.fit(image(n.d, inner, 1 << 18)), out)
    w = np.clip(np.round(filters(n, out, inner, window.kernel) * 100), -127, 127).astype(np.int8)
    scales = n.constant(np.full(out, 0.01, np.float32))
    w = n.node("DequantizeLinear", n.constant(w), scales, n.constant(np.zeros(out, np.int8)), axis=0)
    y = n.node("Conv", pair(n, n.x(shape)), w, **window.attributes())
    n.result(pair(n, n.node("Relu", y) if n.d.chance() else y, 0.05))


@graph(weight=2)
def quantized_linear(n):
    n.loose = True
    m, k, columns = n.d.size(1, 256), n.d.size(4, 1024), n.d.size(1, 1024)
    w = n.random.integers(-127, 128, (k, columns)).astype(np.int8)
    form = n.d.pick("pairs", "dynamic")
    x = n.x([m, k])
    if form == "pairs":
        w = n.node("DequantizeLinear", n.constant(w), number(n, 0.01), n.constant(np.int8(0)))
        y = n.node("Add", n.node("MatMul", pair(n, x), w), n.constant(n.values([columns])))
        n.result(pair(n, y, 0.02 * k**0.5))
    else:
        q, scale, zero = n.node("DynamicQuantizeLinear", x, count=3)
        y = n.node("Cast", n.node("MatMulInteger", q, n.constant(w), zero, n.constant(np.int8(0))), to=FLOAT)
        y = n.node("Mul", y, n.node("Mul", scale, number(n, 0.01)))
        n.result(n.node("Add", y, n.constant(n.values([columns]))))


@graph()
def quantized_add(n):
    n.loose = True
    shape = image(n.d, None, 1 << 18)
    y = n.node("Add", pair(n, n.x(shape)), pair(n, n.x(shape)))
    n.result(pair(n, n.node("Relu", y), 0.04))


# ---- Before and after a network ---------------------------------------------------------------


@graph(weight=2)
def pre_processing(n):
    """A picture of bytes becomes normalized planes."""
    height, width = n.d.size(8, 480), n.d.size(8, 480)
    x = n.x([1, height, width, 3], "uint8")
    y = n.node("Cast", x, to=FLOAT)
    steps = n.d.pick("transpose", "resize", "normalize")
    y = n.node("Div", y, number(n, 255)) if n.d.chance() else n.node("Mul", y, number(n, 1 / 255))
    y = n.node(
        "Div", n.node("Sub", y, n.constant(n.values([3], kind="positive"))), n.constant(n.values([3], kind="positive"))
    )
    if steps != "normalize":
        y = n.node("Transpose", y, perm=[0, 3, 1, 2])
    if steps == "resize":
        y = n.node("Resize", y, "", "", ints(n, 1, 3, 64, 64), mode="linear")
    n.result(y)


@graph()
def color(n):
    """Colours by a matrix of 3 × 3."""
    pixels = n.d.size(16, 1 << 17)
    y = n.node("MatMul", n.x([pixels, 3]), n.constant(n.values([3, n.d.pick(3, 1, 4)])))
    n.result(n.node("Clip", y, number(n, 0), number(n, 1)))


@graph(weight=2)
def detection(n):
    """Boxes and scores of a detector's head."""
    anchors, classes = n.d.size(8, 8400), n.d.pick(80, 1, 3, 20)
    x = n.x([1, 4 + classes, anchors])
    box, score = n.node("Split", x, ints(n, 4, classes), count=2, axis=1)
    score = n.node("Sigmoid", score)
    centre, extent = n.node("Split", box, ints(n, 2, 2), count=2, axis=1)
    half = n.node("Mul", extent, number(n, 0.5))
    box = n.node("Concat", n.node("Sub", centre, half), n.node("Add", centre, half), axis=1)
    if n.d.chance():
        n.result(n.node("Concat", box, score, axis=1))
    else:
        n.result(n.node("Transpose", box, perm=[0, 2, 1]), n.node("ReduceMax", score, ints(n, 1), keepdims=0))


@graph()
def distribution_to_box(n):
    """The distances of a detector as sums weighted by Softmax."""
    anchors = n.d.size(8, 8400)
    y = n.node("Reshape", n.x([1, 64, anchors]), ints(n, 1, 4, 16, anchors))
    y = n.node("Softmax", n.node("Transpose", y, perm=[0, 2, 1, 3]), axis=1)
    y = n.node("Conv", y, n.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1)))
    n.result(n.node("Reshape", y, ints(n, 1, 4, anchors)))


@graph()
def select_best(n):
    rows, classes = n.d.shape(2, 1 << 18)
    y = n.node("Softmax", n.x([rows, classes]), axis=-1)
    values, _ = n.node("TopK", y, ints(n, min(5, classes)), count=2, axis=-1)
    n.result(values, (n.node("ArgMax", y, axis=-1, keepdims=0), "int64"))


@graph()
def suppressed_boxes(n):
    count, classes = n.d.size(4, 1024), n.d.pick(1, 4, 20)
    found = n.node(
        "NonMaxSuppression",
        n.feed(boxes(n, count, 1)[None]),
        n.x([1, classes, count]),
        ints(n, 20),
        n.constant(np.array([0.5], np.float32)),
        n.constant(np.array([0.2], np.float32)),
    )
    n.result((n.node("Gather", found, n.constant(np.int64(2)), axis=1), "int64"))


@graph()
def segmentation(n):
    channels, size = n.d.pick(2, 21, 1, 4), n.d.size(4, 64)
    y = n.node(
        "Resize",
        n.x([1, channels, size, size]),
        "",
        "",
        ints(n, 1, channels, 4 * size, 4 * size),
        mode="linear",
        coordinate_transformation_mode=n.d.pick("half_pixel", "align_corners", "pytorch_half_pixel"),
    )
    n.result((n.node("ArgMax", y, axis=1, keepdims=0), "int64"))
