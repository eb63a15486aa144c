# SPDX-License-Identifier: MIT
"""Cases of elementwise operators, casts and reductions."""

import numpy as np

from draft import code
from registry import draws, split

FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int64", "int32", "uint8", "int8")


def float_type(d):
    return d.pick(*FLOATS, weights=(8, 1, 1))


def any_type(d):
    return d.pick("float32", "int64", "int32", "float16", "float64", "uint8", weights=(6, 2, 1, 1, 1, 1))


def any_shape(n, elements=1 << 20):
    d = n.d
    return d.shape(d.pick(2, 3, 4, 1, 5, weights=(4, 4, 3, 2, 1)), elements)


@draws("Abs", "Neg", "Sign")
def signs(n, operator):
    dtype = any_type(n.d)
    dtype = "float32" if dtype == "uint8" else dtype
    n.result((n.node(operator, n.x(any_shape(n), dtype)), dtype))


@draws("Acos", "Asin", "Atanh")
def unit(n, operator):
    n.result(n.node(operator, n.x(any_shape(n), kind="unit")))


@draws(
    "Asinh",
    "Atan",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Mish",
    "Selu",
    "Shrink",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Tan",
    "ThresholdedRelu",
    "Dropout",
)
def unary(n, operator):
    n.result(n.node(operator, n.x(any_shape(n))))


@draws("Exp", "Erf", "Sigmoid", "Tanh", "Relu", "Ceil", "Floor", "Round", "Identity")
def unary_typed(n, operator):
    dtype = float_type(n.d) if operator not in ("Erf", "Identity") else "float32"
    n.result((n.node(operator, n.x(any_shape(n), dtype)), dtype))


@draws("Gelu", "Swish", opset=24)
def unary_new(n, operator):
    approximate = {"approximate": n.d.pick("none", "tanh")} if operator == "Gelu" else {}
    n.opset = 20 if operator == "Gelu" else 24
    n.result(n.node(operator, n.x(any_shape(n)), **approximate))


@draws("com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.QuickGelu", "com.microsoft.BiasGelu")
def gelus(n, operator):
    operator, domain = split(operator)
    shape = any_shape(n)
    bias = [n.constant(n.values(shape[-1:]))] if operator == "BiasGelu" else []
    n.result(n.node(operator, n.x(shape), *bias, **domain))


@draws("Log", "Sqrt", "Reciprocal")
def positive(n, operator):
    dtype = float_type(n.d)
    n.result((n.node(operator, n.x(any_shape(n), dtype, "positive")), dtype))


@draws("Acosh")
def above_one(n, operator):
    n.result(n.node(operator, n.feed(n.values(any_shape(n), kind="positive") + np.float32(1))))


@draws("IsInf", "IsNaN")
def tests(n, operator):
    n.result((n.node(operator, n.x(any_shape(n))), "bool"))


@draws("Not")
def logical_not(n, operator):
    n.result((n.node(operator, n.x(any_shape(n), "bool")), "bool"))


@draws("BitwiseNot")
def bit_not(n, operator):
    dtype = n.d.pick(*INTEGERS)
    n.result((n.node(operator, n.x(any_shape(n), dtype)), dtype))


@draws("Clip")
def clip(n, operator):
    dtype = n.d.pick("float32", "int32", "float64", "uint8", weights=(6, 1, 1, 1))
    low, high = (np.array(v, dtype) for v in ((1, 3) if dtype in ("int32", "uint8") else (-0.5, 0.5)))
    n.result((n.node(operator, n.x(any_shape(n), dtype), n.constant(low), n.constant(high)), dtype))


# ---- Two operands -----------------------------------------------------------------------------


def partner(d, shape):
    """Shapes that broadcast to `shape`, and shapes that widen it."""
    form = d.pick("same", "scalar", "row", "column", "channel", "middle", "outer", weights=(5, 3, 3, 2, 2, 1, 1))
    rank = len(shape)
    if form == "same":
        return shape, shape
    if form == "scalar":
        return shape, []
    if form == "row" or rank < 2:
        return shape, shape[-1:]
    if form == "column":
        return shape, [*shape[:-1], 1]
    if form == "channel":
        return shape, [1, shape[1], *[1] * (rank - 2)]
    if form == "middle":
        return shape, [*shape[:-2], 1, shape[-1]]
    return [*shape[:-1], 1], [*[1] * (rank - 1), shape[-1]]


def operands(n, dtype, kind="normal"):
    a, b = partner(n.d, any_shape(n))
    x, y = n.x(a, dtype), n.either(n.values(b, dtype, kind))
    return (y, x) if n.d.chance(0.2) else (x, y)


@draws("Add", "Sub", "Mul", weight=3)
def arithmetic(n, operator):
    dtype = n.d.pick("float32", "int64", "int32", "float16", "float64", weights=(7, 1, 1, 1, 1))
    n.result((n.node(operator, *operands(n, dtype)), dtype))


@draws("Div", weight=2)
def division(n, operator):
    dtype = n.d.pick("float32", "int64", "int32", "float64", weights=(7, 1, 1, 1))
    a, b = partner(n.d, any_shape(n))
    n.result((n.node(operator, n.x(a, dtype), n.either(n.values(b, dtype, "positive"))), dtype))


@draws("Pow", weight=2)
def power(n, operator):
    form = n.d.pick("square", "cube", "root", "half", "tensor")
    shape = any_shape(n)
    if form == "tensor":
        y = n.either(n.values(partner(n.d, shape)[1]))
    else:
        y = n.constant(np.float32({"square": 2, "cube": 3, "root": 0.5, "half": 1.5}[form]))
    n.result(n.node(operator, n.x(shape, kind="positive"), y))


@draws("Mod")
def modulo(n, operator):
    dtype = n.d.pick("int64", "int32", "float32")
    a, b = partner(n.d, any_shape(n))
    n.result(
        (n.node(operator, n.x(a, dtype), n.either(n.values(b, dtype, "positive")), fmod=int(dtype == "float32")), dtype)
    )


@draws("Min", "Max", "Sum", "Mean")
def several(n, operator):
    dtype = "float32" if operator in ("Sum", "Mean") else n.d.pick("float32", "int64", "float64", weights=(4, 1, 1))
    a, b = partner(n.d, any_shape(n))
    more = [n.x(a, dtype)] if n.d.chance(0.3) else []
    n.result((n.node(operator, n.x(a, dtype), n.either(n.values(b, dtype)), *more), dtype))


@draws("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def compare(n, operator):
    dtype = n.d.pick("float32", "int64", "int32", weights=(4, 2, 1))
    n.result((n.node(operator, *operands(n, dtype, "few")), "bool"))


@draws("And", "Or", "Xor")
def logic(n, operator):
    n.result((n.node(operator, *operands(n, "bool")), "bool"))


@draws("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(n, operator):
    dtype = n.d.pick(*INTEGERS)
    n.result((n.node(operator, *operands(n, dtype)), dtype))


@draws("BitShift")
def shift(n, operator):
    a, b = partner(n.d, any_shape(n))
    dtype = n.d.pick("uint8", "uint32", "uint64")
    n.result(
        (
            n.node(
                operator, n.x(a, dtype), n.either(n.values(b, dtype, "below 5")), direction=n.d.pick("LEFT", "RIGHT")
            ),
            dtype,
        )
    )


@draws("PRelu")
def prelu(n, operator):
    a, b = partner(n.d, any_shape(n))
    n.result(n.node(operator, n.x(a) if len(a) >= len(b) else n.x(b), n.constant(n.values(b))))


@draws("Where", weight=2)
def where(n, operator):
    dtype = n.d.pick("float32", "int64", "float16", weights=(5, 2, 1))
    a, b = partner(n.d, any_shape(n))
    condition = n.feed(n.values(a if n.d.chance(0.7) else b, "bool"))
    n.result((n.node(operator, condition, n.x(a, dtype), n.either(n.values(b, dtype))), dtype))


@draws("Cast", weight=3)
def cast(n, operator):
    types = ("float32", "float16", "float64", "int64", "int32", "uint8", "int8", "bool")
    source, target = n.d.pick(*types), n.d.pick(*types)
    array = n.values(any_shape(n), source, "positive" if target == "uint8" else "normal")
    n.result((n.node(operator, n.feed(array), to=code(target)), target))


@draws("CastLike")
def cast_like(n, operator):
    target = n.d.pick("float16", "int32", "float64")
    n.result((n.node(operator, n.x(any_shape(n)), n.constant(np.zeros(1, target))), target))


# ---- Reductions and rows ----------------------------------------------------------------------


def axes_of(d, rank):
    form = d.pick("last", "first", "one", "two", "all", weights=(4, 2, 2, 2, 1))
    first = d.answer(0, rank - 1, lambda: d.random.randrange(rank)) if form in ("one", "two") else 0
    if form == "last":
        return [-1]
    if form == "first":
        return [0]
    if form == "one":
        return [first]
    if form == "two":
        return sorted({first, rank - 1}) if rank > 1 else [0]
    return list(range(rank))


@draws(
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    weight=2,
)
def reduce(n, operator):
    shape = any_shape(n)
    kinds = {"ReduceLogSum": "positive", "ReduceProd": "unit"}
    dtype = (
        n.d.pick("float32", "int64", "int32", "float64", weights=(8, 1, 1, 1))
        if operator in ("ReduceMax", "ReduceMin", "ReduceSum")
        else "float32"
    )
    x = n.x(shape, dtype, kinds.get(operator, "normal"))
    axes = n.constant(np.array(axes_of(n.d, len(shape)), np.int64))
    n.result((n.node(operator, x, axes, keepdims=n.d.pick(1, 0)), dtype))


@draws("ArgMax", "ArgMin")
def arg(n, operator):
    shape = any_shape(n)
    axis = n.d.pick(-1, 0, len(shape) // 2)
    dtype = n.d.pick("float32", "int32", "uint8", weights=(5, 1, 1))
    n.result((n.node(operator, n.x(shape, dtype), axis=axis, keepdims=n.d.pick(1, 0)), "int64"))


@draws("Softmax", "LogSoftmax", "Hardmax", weight=2)
def rows(n, operator):
    shape = any_shape(n)
    axis = n.d.pick(-1, 0, len(shape) // 2, weights=(4, 1, 2))
    dtype = n.d.pick("float32", "float64", weights=(6, 1)) if operator == "Softmax" else "float32"
    n.result((n.node(operator, n.x(shape, dtype), axis=axis), dtype))


@draws("LpNormalization")
def lp_normal(n, operator):
    shape = any_shape(n)
    n.result(n.node(operator, n.x(shape), axis=n.d.pick(-1, 0), p=n.d.pick(2, 1)))


@draws("CumSum")
def cumulative(n, operator):
    shape = any_shape(n)
    axis = n.d.pick(len(shape) - 1, 0, len(shape) // 2)
    dtype = n.d.pick("float32", "int64", "int32")
    n.result(
        (
            n.node(
                operator,
                n.x(shape, dtype),
                n.constant(np.int64(axis)),
                exclusive=n.d.pick(0, 1),
                reverse=n.d.pick(0, 1),
            ),
            dtype,
        )
    )


@draws("TopK", weight=2)
def top_k(n, operator):
    shape = any_shape(n)
    axis = n.d.pick(len(shape) - 1, 0, weights=(4, 1))
    k = n.constant(np.array([n.d.size(1, shape[axis])], np.int64))
    values, _ = n.node(operator, n.x(shape), k, count=2, axis=axis, largest=n.d.pick(1, 0))
    n.result(values)
