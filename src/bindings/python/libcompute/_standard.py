# SPDX-License-Identifier: MIT
"""Functions of the array API standard, for arrays and for nodes: names and arguments of the standard, work of the
library. Functions that the library has no operation for are missing, and docs/guide/python.md lists them."""
import builtins
import collections
import math
import types

from libcompute import _core
from libcompute._create import asarray, full, full_like
from libcompute._dtypes import (BY_NAME, DTYPES, bool_, find_dtype, float32, int8, int16, int32, int64, uint8,
                                uint16, uint32, uint64)

INTEGERS = ("signed integer", "unsigned integer")


def _is_whole(x):
    return x.dtype.kind in INTEGERS


# ---- Elementwise -------------------------------------------------------------------------------------------------

add, subtract, multiply = _core.add, _core.sub, _core.mul
acos, acosh, asin, asinh, atan, atanh = _core.acos, _core.acosh, _core.asin, _core.asinh, _core.atan, _core.atanh
cos, cosh, sin, sinh, tan, tanh = _core.cos, _core.cosh, _core.sin, _core.sinh, _core.tan, _core.tanh
exp, expm1, log, log1p, sqrt, reciprocal = _core.exp, _core.expm1, _core.log, _core.log1p, _core.sqrt, _core.reciprocal
equal, not_equal = _core.equal, _core.not_equal
logical_and, logical_or, logical_xor, logical_not = (_core.logical_and, _core.logical_or, _core.logical_xor,
                                                     _core.logical_not)
bitwise_left_shift = _core.shift_left
negative, square, matmul = _core.neg, _core.square, _core.matmul
log2, log10, signbit, atan2, copysign, hypot, logaddexp = (_core.log2, _core.log10, _core.signbit, _core.atan2,
                                                           _core.copysign, _core.hypot, _core.logaddexp)


TOP = -2**63  # the highest bit of 64


def _has_u64(*operands):
    return builtins.any(getattr(one, "dtype", None) is uint64 for one in operands)


def _turned(x):
    """i64 in the order of u64: the library computes in i64. Also of smaller unsigned integers, and numbers of Python."""
    if isinstance(x, int):
        return x + TOP
    return _core.bit_xor(_core.cast(_core.cast(x, uint64), int64), TOP)


def _back(x):
    return _core.cast(_core.bit_xor(x, TOP), uint64)


def _in_order(name, back=None):
    """An operation that asks which of two is larger, of u64 as well."""
    function = getattr(_core, name)

    def call(x1, x2, /):
        if not _has_u64(x1, x2):
            return function(x1, x2)
        if builtins.any(getattr(one, "dtype", uint64).kind == "signed integer" for one in (x1, x2)):
            return function(x1, x2)  # which refuses them
        made = function(_turned(x1), _turned(x2))
        return made if back is None else back(made)
    call.__name__, call.__doc__ = name, function.__doc__
    return call


less, less_equal, greater, greater_equal = map(_in_order, ("less", "less_equal", "greater", "greater_equal"))
maximum, minimum = (_in_order(name, _back) for name in ("maximum", "minimum"))


def bitwise_right_shift(x1, x2, /):
    """The bits of x1 moved x2 places towards the low ones."""
    if not _has_u64(x1):
        return _core.shift_right(x1, x2)
    x1, by = _core.cast(x1, int64), x2 if isinstance(x2, int) else _core.cast(x2, int64)
    half = _core.bit_and(_core.shift_right(x1, 1), 2**63 - 1)
    if isinstance(by, int):
        return _core.cast(x1 if by == 0 else _core.shift_right(half, by - 1), uint64)
    return _core.cast(_core.select(_core.equal(by, 0), x1, _core.shift_right(half, _core.maximum(by - 1, 0))), uint64)


def _of_floats(name, function):
    """Integers are whole, finite and no NaN already."""
    def call(x, /):
        return function(x) if not _is_whole(x) else x
    call.__name__, call.__doc__ = name, function.__doc__
    return call


ceil, floor, round, trunc = (_of_floats(name, getattr(_core, name)) for name in ("ceil", "floor", "round", "trunc"))


def abs(x, /):  # pylint: disable=redefined-builtin
    """|x|"""
    return x if x.dtype.kind == "unsigned integer" else _core.abs(x)


def sign(x, /):
    """-1, 0 or 1; NaN stays NaN."""
    if x.dtype is uint64:
        return _core.cast(_core.not_equal(x, 0), uint64)
    made = _core.sign(x)
    return made if _is_whole(x) else _core.add(made, 0.0)  # -0 becomes 0


def positive(x, /):
    """x itself."""
    return x


conj = real = positive  # of real numbers


def imag(x, /):
    """Zeros: all numbers are real."""
    return _core.sub(x, x) if _is_whole(x) else _core.select(_core.equal(x, x), 0.0, 0.0 * x)


def isnan(x, /):
    """Where x is not a number."""
    return _core.is_nan(x) if x.dtype.kind == "real floating" else _core.not_equal(x, x)


def isfinite(x, /):
    """Where x is neither infinite nor NaN."""
    return _core.is_finite(x) if x.dtype.kind == "real floating" else _core.equal(x, x)


def isinf(x, /):
    """Where x is infinite."""
    return _core.logical_not(_core.logical_or(isfinite(x), isnan(x)))


def _by_kind(logic, bits, x1, x2):
    first = x1 if isinstance(x1, (_core.Array, _core.Node)) else x2
    return (logic if first.dtype is bool_ else bits)(x1, x2)


def bitwise_and(x1, x2, /):
    """Bits set in both; of bool "and"."""
    return _by_kind(_core.logical_and, _core.bit_and, x1, x2)


def bitwise_or(x1, x2, /):
    """Bits set in either; of bool "or"."""
    return _by_kind(_core.logical_or, _core.bit_or, x1, x2)


def bitwise_xor(x1, x2, /):
    """Bits set in one, not in both; of bool "either or"."""
    return _by_kind(_core.logical_xor, _core.bit_xor, x1, x2)


def bitwise_invert(x, /):
    """Every bit inverted; of bool "not"."""
    return (_core.logical_not if x.dtype is bool_ else _core.bit_not)(x)


def _floating(x):
    return _core.cast(x, float32) if isinstance(x, (_core.Array, _core.Node)) and _is_whole(x) else x


def divide(x1, x2, /):
    """x1 / x2; integers become float32."""
    return _core.div(_floating(x1), _floating(x2))


def remainder(x1, x2, /):
    """The remainder of a division that rounds down: it has the sign of x2."""
    if _has_u64(x1, x2):
        return _core.sub(x1, _core.mul(floor_divide(x1, x2), x2))
    rest = _core.mod(x1, x2)  # has the sign of x1
    wrong = _core.logical_and(_core.not_equal(rest, 0), _core.not_equal(_core.less(rest, 0), _core.less(x2, 0))) \
        if not isinstance(x2, (int, float)) else \
        _core.logical_and(_core.not_equal(rest, 0), _core.greater(rest, 0) if x2 < 0 else _core.less(rest, 0))
    return _core.select(wrong, _core.add(rest, x2), rest)


def floor_divide(x1, x2, /):
    """The quotient, rounded down."""
    if _has_u64(x1, x2):
        return _divide_u64(x1, x2)
    quotient = _core.div(x1, x2)
    if not _is_whole(quotient):
        return _core.floor(quotient)
    rest = _core.mod(x1, x2)
    below = _core.less(rest, 0)
    other = _core.less(x2, 0) if not isinstance(x2, int) else x2 < 0
    wrong = _core.logical_and(_core.not_equal(rest, 0), _core.not_equal(below, other))
    return _core.sub(quotient, _core.cast(wrong, quotient.dtype))


def _divide_u64(x1, x2):
    """The library's quotients of u64 are of i64. Half of x1 is one; its double is the quotient or one too small."""
    x1, x2 = (_core.cast(one, uint64) if isinstance(one, (_core.Array, _core.Node)) else one for one in (x1, x2))
    if not isinstance(x1, (_core.Array, _core.Node)):
        x1 = _core.add(_core.mul(x2, 0), x1)
    if not isinstance(x2, (_core.Array, _core.Node)):
        x2 = _core.add(_core.mul(x1, 0), x2)
    n, by = _core.cast(x1, int64), _core.cast(x2, int64)
    half = _core.bit_and(_core.shift_right(n, 1), 2**63 - 1)
    small = _core.mul(_core.div(half, _core.maximum(by, 1)), 2)
    rest = _core.sub(n, _core.mul(small, by))  # below 2 by: compared without a sign
    more = _core.cast(_core.greater_equal(_core.bit_xor(rest, TOP), _core.bit_xor(by, TOP)), int64)
    large = _core.cast(_core.greater_equal(_core.bit_xor(n, TOP), _core.bit_xor(by, TOP)), int64)
    return _core.cast(_core.select(_core.less(by, 0), large, _core.add(small, more)), uint64)


def _whole_power(base, exponent):
    """Powers of integers, by squaring. From 64 on, only the exponents' parity counts: the others overflow, or are of
    -1, 0 and 1."""
    if not isinstance(exponent, int):
        if exponent.dtype is uint64:  # in order below 2^63
            exponent = _core.bit_and(_core.cast(exponent, int64), 2**63 - 1)
        exponent = _core.select(_core.greater(exponent, 63), _core.add(_core.bit_and(exponent, 1), 62), exponent)
    elif exponent > 63:
        exponent = 62 + exponent % 2
    made = None
    for bit in range(6):
        if isinstance(exponent, int):
            if exponent >> bit == 0:
                break
            if exponent >> bit & 1:
                made = base if made is None else _core.mul(made, base)
        else:
            given = _core.not_equal(_core.bit_and(exponent, 1 << bit), 0)
            made = _core.select(given, base if made is None else _core.mul(made, base), 1 if made is None else made)
        base = _core.mul(base, base)
    return _core.add(_core.mul(base, 0), 1) if made is None else made


def pow(x1, x2, /):  # pylint: disable=redefined-builtin
    """x1 to the power x2. Negative powers of integers are not defined."""
    arrays = [one for one in (x1, x2) if isinstance(one, (_core.Array, _core.Node))]
    if not builtins.all(_is_whole(one) for one in arrays) or builtins.any(isinstance(one, float) for one in (x1, x2)):
        return _core.pow(x1, x2)
    if len(arrays) == 2:
        kind = result_type(x1, x2)
        return _whole_power(astype(x1, kind, copy=False), astype(x2, kind, copy=False))
    return _whole_power(x1 if x1 is arrays[0] else _core.add(_core.mul(x2, 0), x1), x2)


def clip(x, /, min=None, max=None):  # pylint: disable=redefined-builtin
    """x, limited to min … max."""
    if min is not None:
        x = maximum(x, min)
    return x if max is None else minimum(x, max)


def where(condition, x1, x2, /):
    """x1 where the condition is true, else x2."""
    if not isinstance(x1, (_core.Array, _core.Node)) and not isinstance(x2, (_core.Array, _core.Node)):
        x1 = asarray(x1, device=condition.device)
    return _core.select(condition, x1, x2)


# ---- Types -------------------------------------------------------------------------------------------------------


def astype(x, dtype, /, *, copy=True, device=None):
    """x with another dtype."""
    kind = find_dtype(dtype)
    if isinstance(x, _core.Node):
        return _core.cast(x, kind)
    made = x if kind is x.dtype and not copy else _core.cast(x, kind)
    return made if device is None else asarray(made, device=device)


LIMITS = {int8: 7, int16: 15, int32: 31, int64: 63, uint8: 8, uint16: 16, uint32: 32, uint64: 64}


def iinfo(type, /):  # pylint: disable=redefined-builtin
    """The limits of an integer dtype."""
    kind = type.dtype if isinstance(type, _core.Array) else find_dtype(type)
    bits = LIMITS[kind]
    signed = kind.kind == "signed integer"
    return types.SimpleNamespace(bits=8 * kind.bytes, max=2**bits - 1, min=-2**bits if signed else 0, dtype=kind)


FLOATS = {"float64": (2**-52, 1.7976931348623157e308, 2.0**-1022), "float32": (2**-23, 3.4028234663852886e38, 2.0**-126),
          "float16": (2**-10, 65504.0, 2.0**-14), "bfloat16": (2**-7, 3.3895313892515355e38, 2.0**-126)}


def finfo(type, /):  # pylint: disable=redefined-builtin
    """The limits of a floating-point dtype."""
    kind = type.dtype if isinstance(type, _core.Array) else find_dtype(type)
    eps, most, normal = FLOATS[kind.name]
    return types.SimpleNamespace(bits=8 * kind.bytes, eps=eps, max=most, min=-most, smallest_normal=normal, dtype=kind)


def isdtype(dtype, kind):
    """Whether the dtype is of a kind of the standard."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str):
        return find_dtype(dtype) is find_dtype(kind)
    kinds = {"integral": INTEGERS, "numeric": INTEGERS + ("real floating",), "complex floating": ()}
    if kind not in kinds and kind not in ("bool", "real floating", *INTEGERS):
        raise ValueError(f"there is no kind {kind!r}")
    return find_dtype(dtype).kind in kinds.get(kind, (kind,))


def _promoted(a, b):
    if a is b:
        return a
    if a.kind == b.kind:
        if a.bytes == b.bytes:
            return float32  # float16 and bfloat16
        return a if a.bytes > b.bytes else b
    if a.kind in INTEGERS and b.kind in INTEGERS:
        plain, signed = (a, b) if a.kind == "unsigned integer" else (b, a)
        size = builtins.max(2 * plain.bytes, signed.bytes)
        if size <= 8:
            return BY_NAME[f"int{8 * size}"]
    raise TypeError(f"{a.name} and {b.name} have no common dtype")


def result_type(*arrays_and_dtypes):
    """The dtype of an operation on these."""
    result, numbers = None, []
    for one in arrays_and_dtypes:
        if isinstance(one, (bool, int, float)):
            numbers.append(one)
            continue
        kind = one.dtype if isinstance(one, (_core.Array, _core.Node)) else find_dtype(one)
        result = kind if result is None else _promoted(result, kind)
    if result is None:
        raise ValueError("an array or a dtype is needed")
    return result


def can_cast(from_, to, /):
    """Whether promotion may turn the one into the other."""
    kind = from_.dtype if isinstance(from_, _core.Array) else find_dtype(from_)
    try:
        return _promoted(kind, find_dtype(to)) is find_dtype(to)
    except TypeError:
        return False


# ---- Reductions --------------------------------------------------------------------------------------------------


def _summed(x, dtype):
    """x in the dtype of its sums: integers of 64 bits."""
    if dtype is not None:
        kind = find_dtype(dtype)
    elif x.dtype.kind == "signed integer" or x.dtype is bool_:
        kind = int64
    elif x.dtype.kind == "unsigned integer":
        kind = uint64
    else:
        return x
    return x if kind is x.dtype else _core.cast(x, kind)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):  # pylint: disable=redefined-builtin
    """The sum along axes."""
    return _core.sum(_summed(x, dtype), axis, keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product along axes."""
    return _core.prod(_summed(x, dtype), axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    """The arithmetic mean along axes."""
    return _core.mean(x, axis, keepdims)


def max(x, /, *, axis=None, keepdims=False):  # pylint: disable=redefined-builtin
    """The largest along axes; NaN if any is."""
    return _core.max(x, axis, keepdims) if not _has_u64(x) else _back(_core.max(_turned(x), axis, keepdims))


def min(x, /, *, axis=None, keepdims=False):  # pylint: disable=redefined-builtin
    """The smallest along axes; NaN if any is."""
    return _core.min(x, axis, keepdims) if not _has_u64(x) else _back(_core.min(_turned(x), axis, keepdims))


def _axes(x, axis):
    return range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance along axes."""
    return _core.var(x, axis, float(correction), keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation along axes."""
    return _core.std(x, axis, float(correction), keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not zero."""
    return _core.sum(_core.cast(_core.cast(x, bool_), int64), axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):  # pylint: disable=redefined-builtin
    """Whether all elements are true, or not zero."""
    missing = _core.sum(_core.cast(_core.logical_not(_core.cast(x, bool_)), int64), axis, keepdims)
    return _core.equal(missing, 0)


def any(x, /, *, axis=None, keepdims=False):  # pylint: disable=redefined-builtin
    """Whether an element is true, or not zero."""
    return _core.not_equal(count_nonzero(x, axis=axis, keepdims=keepdims), 0)


def _extremum(function):
    def call(x, /, *, axis=None, keepdims=False):
        x = _turned(x) if _has_u64(x) else x
        if axis is None:
            found = function(_core.reshape(x, (-1,)), 0)
            return _core.reshape(found, (1,) * x.ndim) if keepdims else found
        return function(x, axis, keepdims)
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


argmax, argmin = _extremum(_core.argmax), _extremum(_core.argmin)


def sort(x, /, *, axis=-1, descending=False, stable=True):  # pylint: disable=unused-argument
    """The elements in ascending order; the sort is stable."""
    return _core.sort(x, axis, descending) if not _has_u64(x) else _back(_core.sort(_turned(x), axis, descending))


def argsort(x, /, *, axis=-1, descending=False, stable=True):  # pylint: disable=unused-argument
    """The positions of the elements in ascending order; the sort is stable."""
    return _core.argsort(_turned(x) if _has_u64(x) else x, axis, descending)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where the elements of x2 belong in the sorted vector x1."""
    if side not in ("left", "right"):
        raise ValueError("side is left or right")
    if _has_u64(x1, x2):
        x1, x2 = _turned(x1), _turned(x2)
    return _core.searchsorted(x1 if sorter is None else _core.gather(x1, sorter, 0), x2, side == "right")


def nonzero(x, /):
    """The coordinates of the elements that are not zero, an array for each axis."""
    if x.ndim == 0:
        raise ValueError("x has no axes")
    places = x._nonzero()
    return tuple(places[axis] for axis in range(x.ndim))


def _unique(x):
    """The library's results, in which every NaN is an element of its own."""
    values, first, inverse, counts = x._unique()
    inverse = _core.reshape(inverse, x.shape)
    if x.dtype.kind != "real floating" or not values.size or not bool(isnan(values[-1])):
        return values, first, inverse, counts
    found, last = _core.cast(counts[-1], int64), values.size - 1
    number = int(found)
    rows = isnan(_core.reshape(x, (-1,)))
    places = rows._nonzero()[0]
    before = _core.reshape(_core.cumulative_sum(_core.cast(rows, int64), 0), x.shape)
    return (concat([values[:-1], full_like(values[-1:], math.nan).broadcast_view((number,))]), concat([first[:-1], places]),
            _core.select(_core.reshape(rows, x.shape), before + (last - 1), inverse),
            concat([counts[:-1], full_like(counts[-1:], 1).broadcast_view((number,))]))


UniqueAllResult = collections.namedtuple("UniqueAllResult", "values indices inverse_indices counts")
UniqueCountsResult = collections.namedtuple("UniqueCountsResult", "values counts")
UniqueInverseResult = collections.namedtuple("UniqueInverseResult", "values inverse_indices")


def unique_all(x, /):
    """The distinct elements, where each occurs first, which one each element of x is, and how often each occurs."""
    return UniqueAllResult(*_unique(x))


def unique_counts(x, /):
    """The distinct elements, and how often each occurs."""
    values, _, _, counts = _unique(x)
    return UniqueCountsResult(values, counts)


def unique_inverse(x, /):
    """The distinct elements, and which one each element of x is."""
    values, _, inverse, _ = _unique(x)
    return UniqueInverseResult(values, inverse)


def unique_values(x, /):
    """The distinct elements in ascending order. Every NaN is one of its own."""
    return _unique(x)[0]


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of the elements so far."""
    return _cumulate(_core.cumulative_sum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Products of the elements so far."""
    return _cumulate(_core.cumulative_product, 1, x, axis, dtype, include_initial)


def _cumulate(function, start, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim > 1:
            raise ValueError("an axis is needed")
        axis = 0
    made = function(_summed(x, dtype), axis)
    if not include_initial:
        return made
    shape = tuple(1 if one == axis % made.ndim else size for one, size in enumerate(made.shape))
    first = full(shape, start, dtype=made.dtype, device=made.device)
    return _core.concat([first, made], axis) if made.shape[axis] else first


# ---- Shapes ------------------------------------------------------------------------------------------------------


def _axis_in(axis, rank):
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} is outside {rank} axes")
    return axis % rank


def reshape(x, /, shape, *, copy=None):
    """Another shape with the same number of elements; one size may be -1."""
    if copy is False:
        return x.reshape_view(shape)
    return _core.reshape(x, shape)


def permute_dims(x, /, axes):
    """Axes in a new order."""
    return _core.transpose(x, axes)


def matrix_transpose(x, /):
    """The last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError("a matrix has two axes")
    return _core.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def moveaxis(x, source, destination, /):
    """Axes moved to other places."""
    source, destination = ([one] if isinstance(one, int) else list(one) for one in (source, destination))
    source = [_axis_in(one, x.ndim) for one in source]
    destination = [_axis_in(one, x.ndim) for one in destination]
    order = [one for one in range(x.ndim) if one not in source]
    for place, one in sorted(zip(destination, source)):
        order.insert(place, one)
    return _core.transpose(x, order)


def expand_dims(x, /, axis=0):
    """Axes of size 1 inserted."""
    axes = (axis,) if isinstance(axis, int) else axis
    rank = x.ndim + len(axes)
    places = {_axis_in(one, rank) for one in axes}
    if len(places) < len(axes):
        raise ValueError("an axis is given twice")
    sizes = iter(x.shape)
    return _core.reshape(x, [1 if one in places else next(sizes) for one in range(rank)])


def squeeze(x, /, axis):
    """Axes of size 1 removed."""
    places = {_axis_in(one, x.ndim) for one in ((axis,) if isinstance(axis, int) else axis)}
    if [one for one in places if x.shape[one] != 1]:
        raise ValueError("only an axis of size 1 can be removed")
    return _core.reshape(x, [size for one, size in enumerate(x.shape) if one not in places])


def broadcast_to(x, /, shape):
    """x repeated to a shape; of an array a view, which is read-only."""
    return x.broadcast_view(shape) if isinstance(x, _core.Array) else _core.broadcast(x, shape)


def broadcast_shapes(*shapes):
    """The shape to which these broadcast."""
    rank = builtins.max(map(len, shapes), default=0)
    result = []
    for sizes in zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes)):
        others = {size for size in sizes if size != 1}
        if len(others) > 1:
            raise ValueError(f"the shapes {shapes} do not broadcast")
        result.append(others.pop() if others else 1)
    return tuple(result)


def broadcast_arrays(*arrays):
    """Arrays repeated to one shape."""
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


def _common(arrays):
    kind = result_type(*arrays)
    return [x if x.dtype is kind else _core.cast(x, kind) for x in arrays]


def concat(arrays, /, *, axis=0):
    """Arrays joined along an axis."""
    parts = _common(arrays)
    if axis is None:
        parts, axis = [_core.reshape(x, (-1,)) for x in parts], 0
    return _core.concat(parts, axis)


def stack(arrays, /, *, axis=0):
    """Arrays joined along a new axis."""
    return _core.stack(_common(arrays), axis)


def unstack(x, /, *, axis=0):
    """The parts along an axis, without it."""
    axis = _axis_in(axis, x.ndim)
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


def flip(x, /, *, axis=None):
    """Elements in reverse order along axes."""
    places = {_axis_in(one, x.ndim) for one in _axes(x, axis)}
    return x[tuple(slice(None, None, -1) if one in places else slice(None) for one in range(x.ndim))]


def roll(x, /, shift, *, axis=None):
    """Elements moved along axes; those that leave at the end come in at the start."""
    if axis is None:
        return _core.reshape(roll(_core.reshape(x, (-1,)), shift, axis=0), x.shape)
    axes = (axis,) if isinstance(axis, int) else axis
    shifts = (shift,) * len(axes) if isinstance(shift, int) else shift
    for one, by in zip(axes, shifts):
        one = _axis_in(one, x.ndim)
        size = x.shape[one]
        by = by % size if size else 0
        if by:
            before = (slice(None),) * one
            x = _core.concat([x[before + (slice(size - by, size),)], x[before + (slice(0, size - by),)]], one)
    return x


def tile(x, repetitions, /):
    """x repeated along axes."""
    return _core.tile(x, tuple(repetitions))


def repeat(x, repeats, /, *, axis=None):
    """Each element `repeats` times along an axis; of arrays also an array with a number for each."""
    if axis is None:
        x, axis = _core.reshape(x, (-1,)), 0
    axis = _axis_in(axis, x.ndim)
    if not isinstance(repeats, int):
        if not isinstance(x, _core.Array):
            raise TypeError("the result's shape would depend on values: repeats is an integer")
        if repeats.size and int(_core.min(repeats)) < 0:
            raise ValueError("a number of repetitions is negative")
        ends = _core.cumulative_sum(_core.cast(_core.broadcast(repeats, (x.shape[axis],)), int64), 0)
        total = int(ends[-1]) if ends.size else 0
        places = _core.searchsorted(ends, _core.index((total,), 0, int64, device=x.device), True)
        return _core.gather(x, places, axis)
    if repeats < 0:
        raise ValueError(f"{repeats} repetitions")
    wide = broadcast_to(expand_dims(x, axis + 1), x.shape[:axis + 1] + (repeats,) + x.shape[axis + 1:])
    return _core.reshape(wide, x.shape[:axis] + (x.shape[axis] * repeats,) + x.shape[axis + 1:])


def take(x, indices, /, *, axis=None):
    """Elements at positions along an axis."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an axis is needed")
        axis = 0
    return _core.gather(x, indices, axis)


def take_along_axis(x, indices, /, *, axis=-1):
    """An element for each position along an axis."""
    return _core.gather_elements(x, indices, axis)


# ---- Products ----------------------------------------------------------------------------------------------------


def vecdot(x1, x2, /, *, axis=-1):
    """The products of vectors along an axis, summed."""
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vectors of {x1.shape[axis]} and {x2.shape[axis]} elements")
    return _core.sum(_core.mul(x1, x2), axis)


def tensordot(x1, x2, /, *, axes=2):
    """Products summed along pairs of axes."""
    if isinstance(axes, int):
        axes = (tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes)))
    first, second = ([_axis_in(one, x.ndim) for one in places] for x, places in zip((x1, x2), axes))
    kept1 = [one for one in range(x1.ndim) if one not in first]
    kept2 = [one for one in range(x2.ndim) if one not in second]
    inner = math.prod(x1.shape[one] for one in first)
    shape1, shape2 = [x1.shape[one] for one in kept1], [x2.shape[one] for one in kept2]
    rows = _core.reshape(_core.transpose(x1, kept1 + first) if x1.ndim else x1, (math.prod(shape1), inner))
    columns = _core.reshape(_core.transpose(x2, second + kept2) if x2.ndim else x2, (inner, math.prod(shape2)))
    return _core.reshape(_core.matmul(rows, columns), shape1 + shape2)


_core.register({"divide": divide, "floor_divide": floor_divide, "pow": pow, "remainder": remainder, "less": less,
                "less_equal": less_equal, "greater": greater, "greater_equal": greater_equal,
                "bitwise_right_shift": bitwise_right_shift})


class Info:
    """What the array API standard asks of a namespace."""

    def capabilities(self):
        """Shapes may depend on values, of arrays."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        """The default device."""
        return _core.context().device

    def devices(self):
        """All devices."""
        return _core.context().devices()

    def default_dtypes(self, *, device=None):  # pylint: disable=unused-argument
        """The dtypes of fractions, integers and positions."""
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}

    def dtypes(self, *, device=None, kind=None):  # pylint: disable=unused-argument
        """The standard's dtypes by name."""
        return {one.name: one for one in DTYPES[1:] if one.name != "bfloat16" and one.name != "float16"
                and (kind is None or isdtype(one, kind))}


def __array_namespace_info__():
    return Info()


