# SPDX-License-Identifier: MIT
"""Cases of convolutions, pools, normalizations, resampling and recurrent layers."""

import numpy as np
from onnx import TensorProto

from elementwise import any_shape
from layouts import ints
from registry import draws, split

WORK = 150e6  # multiplications of a case


def image(d, channels=None, elements=1 << 20, dimensions=2):
    """Batch, channels and sizes."""
    high = {1: 4096, 2: 160, 3: 32}[dimensions]
    batch, channels = d.pick(1, 2, 8, weights=(5, 1, 1)), channels or d.size(1, 256)
    sizes = [d.size(1, high) for _ in range(dimensions)]
    if dimensions > 1 and d.chance(0.7):
        sizes = [sizes[0]] * dimensions
    batch, *sizes = d.limit([batch, *sizes], max(1, elements // channels))
    return [batch, channels, *sizes]


def fit(kernel, pads, dilations, shape):
    """Sizes of the image at which the window fits."""
    return [
        max(size, (k - 1) * dilation + 1 - 2 * pad) for size, k, pad, dilation in zip(shape, kernel, pads, dilations)
    ]


class Window:
    """Attributes of a convolution or pool, and an image on which it fits."""

    def __init__(self, d, dimensions, sizes=(3, 1, 2, 5, 7, 4), dilated=True):
        self.kernel = [d.pick(*sizes)] * dimensions
        if dimensions > 1 and d.chance(0.12):
            self.kernel[0] = 1
        self.strides = [d.pick(1, 2, 3, weights=(6, 3, 1))] * dimensions
        self.dilations = [d.pick(1, 2, weights=(9, 1)) if dilated else 1] * dimensions
        same = d.chance(0.7)
        self.pads = [k * r // 2 if same else 0 for k, r in zip(self.kernel, self.dilations)]
        self.pads = [min(p, (k - 1) // 2 * r) for p, k, r in zip(self.pads, self.kernel, self.dilations)]

    def fit(self, shape):
        return [*shape[:2], *fit(self.kernel, self.pads, self.dilations, shape[2:])]

    def attributes(self):
        values = {"kernel_shape": self.kernel, "strides": self.strides, "pads": self.pads * 2}
        return {**values, "dilations": self.dilations} if max(self.dilations) > 1 else values


def filters(n, out, inner, kernel):
    fan = max(1, inner * int(np.prod(kernel)))
    return (n.random.standard_normal([out, inner, *kernel]) / np.sqrt(fan)).astype(np.float32)


def drawn_conv(n, dimensions, transposed=False):
    """(window, image, channels of the result, groups), of at most WORK multiplications."""
    d, window = n.d, Window(n.d, dimensions)
    form = d.pick("plain", "depthwise", "grouped", weights=(6, 3, 1))
    if form == "plain":
        groups, inner, out = 1, d.size(1, 256), d.size(1, 256)
    elif form == "depthwise":
        groups = inner = out = d.size(1, 512)
    else:
        groups = d.pick(2, 4, 8)
        inner, out = groups * d.size(1, 32), groups * d.size(1, 32)
    shape = window.fit(image(d, inner, 1 << 19, dimensions))
    stride = 1 if transposed else window.strides[0]
    while np.prod([float(v) for v in shape]) / stride**dimensions * out / groups * np.prod(window.kernel) > WORK:
        half = window.fit([*shape[:2], *[max(1, size // 2) for size in shape[2:]]])
        if half == shape:
            break
        shape = half
    return window, shape, out, groups


@draws("Conv", weight=16)
def conv(n, operator):
    dimensions = n.d.pick(2, 1, 3, weights=(8, 2, 1))
    window, shape, out, groups = drawn_conv(n, dimensions)
    w = n.made(filters(n, out, shape[1] // groups, window.kernel))
    bias = [n.constant(n.values([out]))] if n.d.chance(0.6) else []
    n.result(n.node(operator, n.x(shape), w, *bias, group=groups, **window.attributes()))


@draws("ConvTranspose", weight=4)
def conv_transpose(n, operator):
    window, shape, out, groups = drawn_conv(n, n.d.pick(2, 1, weights=(3, 1)), True)
    w = filters(n, shape[1], out // groups, window.kernel)
    n.result(n.node(operator, n.x(shape), n.made(w), group=groups, **window.attributes()))


@draws("com.microsoft.FusedConv", weight=2)
def fused_conv(n, operator):
    operator, domain = split(operator)
    window, shape, out, groups = drawn_conv(n, 2)
    w, b = n.constant(filters(n, out, shape[1] // groups, window.kernel)), n.constant(n.values([out]))
    n.result(
        n.node(
            operator,
            n.x(shape),
            w,
            b,
            group=groups,
            activation=n.d.pick("Relu", "Sigmoid", "Tanh"),
            **domain,
            **window.attributes()
        )
    )


def byte_scale(n, value=0.02):
    return n.constant(np.float32(value))


@draws("ConvInteger", weight=2)
def conv_integer(n, operator):
    window, shape, out, groups = drawn_conv(n, 2)
    w = n.constant(n.values([out, shape[1] // groups, *window.kernel], "uint8"))
    n.result(
        (
            n.node(
                operator,
                n.x(shape, "uint8"),
                w,
                n.constant(np.uint8(128)),
                n.constant(np.uint8(128)),
                group=groups,
                **window.attributes()
            ),
            "int32",
        )
    )


@draws("QLinearConv", weight=3)
def conv_bytes(n, operator):
    n.loose = True
    window, shape, out, groups = drawn_conv(n, 2)
    per_channel = n.d.chance()
    scales = np.full(out if per_channel else (), 0.01, np.float32)
    w = n.constant(n.values([out, shape[1] // groups, *window.kernel], "int8"))
    zero = n.constant(np.zeros(out if per_channel else (), np.int8))
    n.result(
        (
            n.node(
                operator,
                n.x(shape, "uint8"),
                byte_scale(n),
                n.constant(np.uint8(128)),
                w,
                n.constant(scales),
                zero,
                byte_scale(n, 0.3),
                n.constant(np.uint8(128)),
                group=groups,
                **window.attributes()
            ),
            "uint8",
        )
    )


@draws("DeformConv", opset=19)
def deformed(n, operator):
    d = n.d
    inner, out, size = d.size(1, 32), d.size(1, 32), d.size(3, 48)
    offsets = n.values([1, 18, size, size]) * np.float32(0.5)
    n.result(
        n.node(
            operator,
            n.x([1, inner, size, size]),
            n.constant(filters(n, out, inner, [3, 3])),
            n.feed(offsets),
            kernel_shape=[3, 3],
            pads=[1] * 4,
        )
    )


@draws("MaxPool", "AveragePool", weight=7)
def pool(n, operator):
    dimensions = n.d.pick(2, 1, 3, weights=(8, 1, 1))
    window = Window(n.d, dimensions, (3, 2, 5, 7, 9, 13), False)
    shape = window.fit(image(n.d, None, 1 << 20, dimensions))
    more = {"count_include_pad": n.d.pick(0, 1)} if operator == "AveragePool" else {}
    if n.d.chance(0.15):
        more["ceil_mode"] = 1
    n.result(n.node(operator, n.x(shape), **window.attributes(), **more))


@draws("LpPool")
def lp_pool(n, operator):
    window = Window(n.d, 2, (3, 2, 5), False)
    n.result(n.node(operator, n.x(window.fit(image(n.d))), p=2, **window.attributes()))


@draws("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", weight=2)
def global_pool(n, operator):
    n.result(n.node(operator, n.x(image(n.d))))


@draws("MaxUnpool")
def unpool(n, operator):
    batch, channels, height, width = n.d.limit([1, n.d.size(1, 64), n.d.size(1, 64), n.d.size(1, 64)], 1 << 18)
    x = n.x([batch, channels, 2 * height, 2 * width])
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    values, where = n.node("MaxPool", x, count=2, **window)
    n.result(n.node(operator, values, where, **window))


# ---- Normalization ----------------------------------------------------------------------------


def channel_values(n, channels, positive=False):
    return n.constant(n.values([channels], kind="positive" if positive else "normal"))


@draws("BatchNormalization", weight=2)
def batch_norm(n, operator):
    shape = image(n.d) if n.d.chance(0.8) else n.d.shape(2)
    parts = [channel_values(n, shape[1], kind in (0, 3)) for kind in range(4)]
    n.result(n.node(operator, n.x(shape), *parts))


@draws("InstanceNormalization")
def instance_norm(n, operator):
    shape = image(n.d)
    n.result(n.node(operator, n.x(shape), channel_values(n, shape[1], True), channel_values(n, shape[1])))


@draws("GroupNormalization", opset=21)
def group_norm(n, operator):
    groups = n.d.pick(1, 2, 4, 8, 32)
    shape = image(n.d, groups * n.d.size(1, 16))
    n.result(
        n.node(operator, n.x(shape), channel_values(n, shape[1], True), channel_values(n, shape[1]), num_groups=groups)
    )


@draws("LayerNormalization", weight=3)
def layer_norm(n, operator):
    shape = any_shape(n)
    bias = [n.constant(n.values(shape[-1:]))] if n.d.chance(0.8) else []
    n.result(n.node(operator, n.x(shape), n.constant(n.values(shape[-1:])), *bias, axis=-1))


@draws("RMSNormalization", opset=23)
def rms_norm(n, operator):
    shape = any_shape(n)
    n.result(n.node(operator, n.x(shape), n.constant(n.values(shape[-1:])), axis=-1))


@draws("SimplifiedLayerNormalization")
def simplified_norm(n, operator):
    shape = any_shape(n)
    n.result(n.node(operator, n.x(shape), n.constant(n.values(shape[-1:])), axis=-1, epsilon=1e-5))


@draws("com.microsoft.SkipSimplifiedLayerNormalization")
def skip_norm(n, operator):
    operator, domain = split(operator)
    shape = n.d.shape(3)
    n.result(n.node(operator, n.x(shape), n.x(shape), n.constant(n.values(shape[-1:])), epsilon=1e-5, **domain))


@draws("LRN")
def lrn(n, operator):
    n.result(n.node(operator, n.x(image(n.d)), size=n.d.pick(5, 3)))


@draws("MeanVarianceNormalization")
def mean_variance(n, operator):
    n.result(n.node(operator, n.x(image(n.d)), axes=n.d.pick([0, 2, 3], [2, 3], [1])))


# ---- Resampling -------------------------------------------------------------------------------


@draws("Resize", weight=5)
def resize(n, operator):
    d, shape = n.d, image(n.d, None, 1 << 17)
    mode = d.pick("linear", "nearest", "cubic", weights=(3, 3, 1))
    factor = d.pick(2, 0.5, 1.5, 4, 0.7)
    sizes = [*shape[:2], *[max(1, int(size * factor)) for size in shape[2:]]]
    form = d.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    more = {"nearest_mode": "floor"} if mode == "nearest" else {}
    if mode != "nearest" and d.chance(0.2):
        more["antialias"] = 1
    n.result(
        n.node(operator, n.x(shape), "", "", ints(n, *sizes), mode=mode, coordinate_transformation_mode=form, **more)
    )


@draws("Upsample")
def upsample(n, operator):
    n.opset = 9
    scales = n.constant(np.array([1, 1, 2, 2], np.float32))
    n.result(n.node(operator, n.x(image(n.d, None, 1 << 18)), scales, mode=n.d.pick("nearest", "linear")))


@draws("GridSample", weight=2)
def grid_sample(n, operator):
    d, n.opset = n.d, 20
    batch, channels, height, width = image(d, None, 1 << 18)
    out = [d.size(1, 128), d.size(1, 128)]
    grid = n.values([batch, *out, 2], kind="unit")
    n.result(
        n.node(
            operator,
            n.x([batch, channels, height, width]),
            n.feed(grid),
            mode=d.pick("linear", "nearest"),
            padding_mode=d.pick("zeros", "border", "reflection"),
            align_corners=d.pick(0, 1),
        )
    )


@draws("AffineGrid", opset=20)
def affine_grid(n, operator):
    batch, height, width = n.d.shape(3, 1 << 18, 512)
    n.result(n.node(operator, n.x([batch, 2, 3]), ints(n, batch, 1, height, width), align_corners=n.d.pick(0, 1)))


def boxes(n, count, size):
    corners = np.sort(n.random.uniform(0, size, (count, 2, 2)), axis=1).reshape(count, 4)
    return corners.astype(np.float32)


@draws("RoiAlign")
def roi_align(n, operator):
    d = n.d
    channels, size, count, out = d.size(1, 64), d.size(4, 64), d.size(1, 64), d.pick(7, 14, 2)
    batch = n.feed(np.zeros(count, np.int64))
    n.result(
        n.node(
            operator,
            n.x([1, channels, size, size]),
            n.feed(boxes(n, count, size)),
            batch,
            output_height=out,
            output_width=out,
            sampling_ratio=d.pick(2, 0),
            mode=d.pick("avg", "max"),
        )
    )


@draws("MaxRoiPool")
def roi_pool(n, operator):
    d = n.d
    channels, size, count = d.size(1, 64), d.size(4, 64), d.size(1, 64)
    rois = np.concatenate([np.zeros((count, 1), np.float32), np.floor(boxes(n, count, size - 1))], 1)
    n.result(n.node(operator, n.x([1, channels, size, size]), n.feed(rois), pooled_shape=[7, 7]))


@draws("Col2Im")
def col2im(n, operator):
    channels, size = n.d.size(1, 64), n.d.size(3, 64)
    blocks = (size - 2) ** 2
    n.result(n.node(operator, n.x([1, channels * 9, blocks]), ints(n, size, size), ints(n, 3, 3)))


# ---- Recurrent layers -------------------------------------------------------------------------


@draws("LSTM", "GRU", "RNN", weight=2)
def recurrent(n, operator):
    d = n.d
    steps, batch, width, hidden = d.size(1, 64), d.pick(1, 2, 8), d.size(1, 256), d.size(1, 256)
    steps = max(1, min(steps, int(4e7 / (batch * hidden * (width + hidden) * 4))))
    gates, directions = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator], d.pick(1, 2)
    scale = np.float32(1 / np.sqrt(hidden))
    w = n.values([directions, gates * hidden, width]) * scale
    r = n.values([directions, gates * hidden, hidden]) * scale
    b = n.values([directions, 2 * gates * hidden]) * scale
    more = {"linear_before_reset": d.pick(1, 0)} if operator == "GRU" else {}
    outputs = n.node(
        operator,
        n.x([steps, batch, width]),
        n.constant(w),
        n.constant(r),
        n.constant(b),
        count=2,
        hidden_size=hidden,
        direction=("forward", "bidirectional")[directions - 1],
        **more
    )
    n.result(*outputs)


@draws("BlackmanWindow", "HannWindow", "HammingWindow")
def window_function(n, operator):
    n.result(n.node(operator, n.feed(np.int64(n.d.size(1, 1 << 16))), output_datatype=TensorProto.FLOAT))


@draws("MelWeightMatrix")
def mel(n, operator):
    values = [
        np.int64(n.d.pick(40, 80, 128)),
        np.int64(n.d.pick(400, 512)),
        np.int64(16000),
        np.float32(0),
        np.float32(8000),
    ]
    n.result(n.node(operator, n.feed(values[0]), *[n.constant(v) for v in values[1:]]))
