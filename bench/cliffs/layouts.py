# SPDX-License-Identifier: MIT
"""Cases of operators that move, select and make elements."""

import numpy as np
from onnx import numpy_helper

from elementwise import any_shape
from registry import draws


def some_type(d):
    return d.pick("float32", "int64", "float16", "uint8", "int32", weights=(6, 2, 1, 1, 1))


def axis_of(d, rank):
    return d.answer(0, rank - 1, lambda: d.random.randrange(rank))


def ints(n, *values):
    return n.constant(np.array(values, np.int64))


@draws("Transpose", weight=4)
def transpose(n, operator):
    shape, dtype = any_shape(n), some_type(n.d)
    left = list(range(len(shape)))
    perm = [left.pop(-1 - axis_of(n.d, len(left))) for _ in shape]
    n.result((n.node(operator, n.x(shape, dtype), perm=perm), dtype))


@draws("Reshape")
def reshape(n, operator):
    shape = any_shape(n)
    n.result(n.node(operator, n.x(shape), ints(n, -1, shape[-1])))


@draws("Flatten")
def flatten(n, operator):
    n.result(n.node(operator, n.x(any_shape(n)), axis=1))


@draws("Squeeze", "Unsqueeze")
def unit_axis(n, operator):
    shape = any_shape(n)
    n.result(n.node(operator, n.x([1, *shape] if operator == "Squeeze" else shape), ints(n, 0)))


@draws("Concat", weight=3)
def concat(n, operator):
    dtype, count = some_type(n.d), n.d.pick(2, 3, 5, 12, 40, weights=(5, 3, 1, 1, 1))
    shape = any_shape(n, (1 << 19) // count)
    axis, parts = axis_of(n.d, len(shape)), []
    for _ in range(count):
        size = n.d.size(1, max(1, shape[axis])) if count < 6 else max(1, shape[axis] // count)
        parts.append(n.x([*shape[:axis], size, *shape[axis + 1 :]], dtype))
    n.result((n.node(operator, *parts, axis=axis), dtype))


@draws("Split", weight=2)
def divide(n, operator):
    shape, parts = any_shape(n), n.d.pick(2, 3, 4, 8)
    axis = axis_of(n.d, len(shape))
    shape[axis] = max(parts, shape[axis] // parts * parts)
    outputs = n.node(operator, n.x(shape), ints(n, *[shape[axis] // parts] * parts), count=parts, axis=axis)
    n.result(*outputs)


@draws("Slice", weight=3)
def cut(n, operator):
    shape, dtype = any_shape(n), some_type(n.d)
    axis, step = axis_of(n.d, len(shape)), n.d.pick(1, 2, -1, 3, weights=(5, 2, 1, 1))
    size = shape[axis]
    start = n.d.size(1, size) - 1
    start, end = (size - 1, -(1 << 40)) if step < 0 else (start, max(start + 1, size - n.d.size(1, size)))
    n.result((n.node(operator, n.x(shape, dtype), ints(n, start), ints(n, end), ints(n, axis), ints(n, step)), dtype))


@draws("Pad", weight=3)
def pad(n, operator):
    shape, mode = any_shape(n), n.d.pick("constant", "reflect", "edge", "wrap", weights=(3, 2, 2, 1))
    n.opset = 19 if mode == "wrap" else 18
    before, after = [0] * len(shape), [0] * len(shape)
    for axis in range(max(0, len(shape) - 2), len(shape)):
        before[axis], after[axis] = (min(n.d.size(1, 16), max(0, shape[axis] - 1)) for _ in "ba")
    n.result(n.node(operator, n.x(shape), ints(n, *before, *after), mode=mode))


@draws("Tile", weight=2)
def tile(n, operator):
    shape = any_shape(n, 1 << 17)
    repeats = [n.d.pick(1, 2, 3, 8, weights=(4, 2, 1, 1)) for _ in shape[:3]] + [1] * len(shape[3:])
    dtype = n.d.pick("float32", "int64", weights=(3, 1))
    n.result((n.node(operator, n.x(shape, dtype), ints(n, *repeats)), dtype))


@draws("Expand", weight=2)
def expand(n, operator):
    shape = any_shape(n)
    source = [1 if n.d.chance(0.4) else size for size in shape]
    n.result(n.node(operator, n.x(source), ints(n, *shape)))


@draws("DepthToSpace", "SpaceToDepth", weight=2)
def blocks(n, operator):
    d, block = n.d, n.d.pick(2, 3, 4)
    batch, channels, height, width = d.limit([d.size(1, 8), d.size(1, 64), d.size(1, 128), d.size(1, 128)], 1 << 16)
    shape = (
        [batch, channels * block * block, height, width]
        if operator == "DepthToSpace"
        else [batch, channels, height * block, width * block]
    )
    mode = {"mode": d.pick("DCR", "CRD")} if operator == "DepthToSpace" else {}
    n.result(n.node(operator, n.x(shape), blocksize=block, **mode))


@draws("ReverseSequence")
def reverse(n, operator):
    time, batch, width = n.d.shape(3)
    lengths = n.feed(n.random.integers(1, time + 1, batch))
    n.result(n.node(operator, n.x([time, batch, width]), lengths, time_axis=0, batch_axis=1))


@draws("Trilu", weight=2)
def triangle(n, operator):
    shape = n.d.shape(n.d.pick(2, 3, 4), 1 << 20, 1024)
    n.result(n.node(operator, n.x(shape), n.constant(np.int64(n.d.pick(0, 1, -1))), upper=n.d.pick(1, 0)))


@draws("CenterCropPad")
def crop(n, operator):
    shape = n.d.shape(3, 1 << 18)
    sizes = [n.d.size(1, 2 * size) for size in shape[1:]]
    n.result(n.node(operator, n.x(shape), ints(n, *sizes), axes=[1, 2]))


@draws("Shape", "Size")
def measure(n, operator):
    n.result((n.node(operator, n.x(any_shape(n))), "int64"))


@draws("ConstantOfShape")
def filled(n, operator):
    shape = n.feed(np.array(any_shape(n), np.int64))
    n.result(n.node(operator, shape, value=numpy_helper.from_array(np.ones(1, np.float32))))


@draws("Range")
def sequence(n, operator):
    n.result(
        (
            n.node(operator, n.feed(np.int64(0)), n.feed(np.int64(n.d.size(1, 1 << 18))), n.constant(np.int64(1))),
            "int64",
        )
    )


@draws("EyeLike")
def eye(n, operator):
    n.result(n.node(operator, n.x(n.d.shape(2)), k=n.d.pick(0, 1)))


# ---- Indices ----------------------------------------------------------------------------------


def indices(n, shape, count):
    dtype = n.d.pick("int64", "int32", weights=(4, 1))
    return n.either(n.random.integers(0, max(count, 1), shape).astype(dtype))


@draws("Gather", weight=4)
def gather(n, operator):
    shape, dtype = any_shape(n), some_type(n.d)
    axis = n.d.pick(0, len(shape) - 1, len(shape) // 2, weights=(4, 1, 1))
    where = n.d.limit(
        [n.d.size(1, 512) for _ in range(n.d.pick(1, 2, 0))], max(1, (1 << 20) * shape[axis] // int(np.prod(shape)))
    )
    table = n.either(n.values(shape, dtype))
    n.result((n.node(operator, table, indices(n, where, shape[axis]), axis=axis), dtype))


@draws("GatherElements", weight=2)
def gather_elements(n, operator):
    shape = any_shape(n)
    axis = axis_of(n.d, len(shape))
    where = [*shape]
    where[axis] = n.d.size(1, shape[axis])
    n.result(n.node(operator, n.x(shape), indices(n, where, shape[axis]), axis=axis))


@draws("GatherND", weight=2)
def gather_nd(n, operator):
    shape = any_shape(n)
    depth = n.d.answer(1, min(len(shape), 3), lambda: n.d.random.randint(1, 3))
    rows = n.d.size(1, 4096)
    rows = max(1, min(rows, (1 << 20) // int(np.prod(shape[depth:]))))
    where = np.stack([n.random.integers(0, size, rows) for size in shape[:depth]], -1)
    n.result(n.node(operator, n.x(shape), n.either(where)))


@draws("ScatterElements", "Scatter")
def scatter_elements(n, operator):
    if operator == "Scatter":
        n.opset = 10
    shape = any_shape(n, 1 << 19)
    axis = axis_of(n.d, len(shape))
    where = [*shape]
    where[axis] = n.d.size(1, shape[axis])
    order = np.argsort(n.random.random(shape), axis=axis)  # every index once
    where = np.take(order, range(where[axis]), axis=axis)
    more = {"reduction": n.d.pick("none", "add", "max")} if operator == "ScatterElements" else {}
    n.result(n.node(operator, n.x(shape), n.either(where), n.x(where.shape), axis=axis, **more))


@draws("ScatterND", weight=2)
def scatter_nd(n, operator):
    shape, mode = any_shape(n, 1 << 19), n.d.pick("none", "add", "mul")
    rows = n.d.size(1, shape[0] if mode == "none" else 4096)
    rows = max(1, min(rows, (1 << 19) // int(np.prod(shape[1:]))))
    where = n.random.permutation(shape[0])[:rows] if mode == "none" else n.random.integers(0, shape[0], rows)
    n.result(n.node(operator, n.x(shape), n.either(where[:, None]), n.x([len(where), *shape[1:]]), reduction=mode))


@draws("TensorScatter", opset=24)
def tensor_scatter(n, operator):
    d = n.d
    batch, heads, steps, width = d.limit([d.size(1, 4), d.size(1, 16), d.size(2, 512), d.size(1, 128)], 1 << 19)
    step = n.x([batch, heads, 1, width])
    place = n.feed(n.random.integers(0, steps - 1, batch) if steps > 1 else np.zeros(batch, np.int64))
    n.result(n.node(operator, n.x([batch, heads, steps, width]), step, place, axis=2))


@draws("OneHot")
def one_hot(n, operator):
    depth = n.d.size(1, 1024)
    shape = n.d.limit([n.d.size(1, 256) for _ in range(n.d.pick(1, 2))], (1 << 20) // depth)
    values = n.constant(np.array([0, 1], np.float32))
    n.result(n.node(operator, indices(n, shape, depth), n.constant(np.int64(depth)), values, axis=n.d.pick(-1, 0)))


@draws("Compress")
def compress(n, operator):
    shape = any_shape(n)
    axis = axis_of(n.d, len(shape))
    n.result(n.node(operator, n.x(shape), n.feed(n.random.random(shape[axis]) < 0.5), axis=axis))


@draws("NonZero")
def non_zero(n, operator):
    dtype = n.d.pick("float32", "bool", "int64")
    array = (n.random.random(any_shape(n, 1 << 18)) < 0.3).astype(dtype)
    n.result((n.node(operator, n.feed(array)), "int64"))


@draws("Unique")
def unique(n, operator):
    shape, high = n.d.shape(1, 1 << 16, 1 << 16), n.d.size(1, 1 << 16)
    array = n.random.integers(0, high, shape).astype(n.d.pick("int64", "float32"))
    values, *_ = n.node(operator, n.feed(array), count=4, sorted=1)
    n.result((values, array.dtype))


@draws("ai.onnx.ml.ArrayFeatureExtractor")
def features(n, operator):
    rows, columns = n.d.shape(2)
    where = n.constant(n.random.integers(0, columns, n.d.size(1, columns)))
    n.result(n.node("ArrayFeatureExtractor", n.x([rows, columns]), where, domain="ai.onnx.ml"))
