# SPDX-License-Identifier: MIT
"""New arrays, and arrays of other libraries."""
import math

import numpy

from libcompute import _core
from libcompute._dtypes import (bfloat16, bool_, find_dtype, float32, float64, int64, numpy_dtype,
                                uint64)

__all__ = ["arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
           "ones", "ones_like", "random", "tril", "triu", "zeros", "zeros_like"]


def _device(device):
    """The device of a name, or the default one."""
    if isinstance(device, _core.Device):
        return device
    return _core.context().device if device is None else _core.device_by_name(device)


def _from_host(value):
    """An array over NumPy's memory; over a copy if that has another order or another form."""
    try:
        return _core.from_buffer(value)
    except (BufferError, TypeError, ValueError):
        plain = numpy.array(value, dtype=value.dtype.newbyteorder("="), order="C")
        return _core.from_buffer(plain)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of `obj`: an array, a buffer (without a copy, unless `copy` is True), a number, or a sequence of numbers.

    Fractions of Python become float32. NumPy's arrays keep their dtype."""
    dtype = None if dtype is None else find_dtype(dtype)
    if type(obj) is numpy.ndarray:  # first: the other checks cost as much as the array
        made = _from_host(obj)
    elif isinstance(obj, _core.Array):
        made = obj
    elif isinstance(obj, (bool, int, float)) and not isinstance(obj, numpy.generic):
        if copy is False:
            raise ValueError("a number has no memory to share")
        kind = dtype or (bool_ if isinstance(obj, bool) else float32 if isinstance(obj, float) else int64)
        return full((), obj, dtype=kind, device=device)
    elif isinstance(obj, (numpy.ndarray, numpy.generic, memoryview, bytes, bytearray)):
        made = _from_host(numpy.asarray(obj))
    elif hasattr(obj, "__dlpack__"):
        made = from_dlpack(obj)
    else:
        if copy is False:
            raise ValueError("a sequence has no memory to share")
        values = numpy.asarray(obj, dtype=None if dtype in (None, bfloat16) else numpy_dtype(dtype))
        if dtype is None and values.dtype == numpy.float64:
            values = values.astype(numpy.float32)
        made, copy = _from_host(values), None
    target = made.device if device is None and isinstance(obj, _core.Array) else _device(device)
    if dtype is not None and made.dtype is not dtype:
        if copy is False:
            raise ValueError("another dtype needs a copy")
        made, copy = _core.cast(made, dtype), None
    if made.device != target:
        if copy is False:
            raise ValueError("another device needs a copy")
        return made._to_device(target)
    return made._to_device(target) if copy else made


def from_dlpack(x, /, *, device=None, copy=None):
    """An array over the memory of another library's array."""
    keywords = {} if copy is None else {"copy": copy}
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **keywords)
    except TypeError:
        capsule = x.__dlpack__()
    made = _core.from_capsule(capsule)
    return made if device is None or made.device == _device(device) else made._to_device(_device(device))


# ---- Constants ---------------------------------------------------------------------------------------------------


def full(shape, fill_value, *, dtype=None, device=None):
    """Every element is `fill_value`."""
    if dtype is None:
        kind = bool_ if isinstance(fill_value, bool) else int64 if isinstance(fill_value, int) else float32
    else:
        kind = find_dtype(dtype)
    if isinstance(fill_value, (_core.Array, numpy.generic)):
        fill_value = fill_value.item()
    if kind.kind == "real floating" or isinstance(fill_value, float):
        return _core.full(shape, float(fill_value), kind, device=device)
    if kind is uint64 and fill_value >= 2**63:  # the same bits
        return _core.cast(_core.full_i64(shape, fill_value - 2**64, int64, device=device), uint64)
    return _core.full_i64(shape, int(fill_value), kind, device=device)


def empty(shape, *, dtype=None, device=None):
    """Elements without values."""
    return _core.empty(shape, float32 if dtype is None else dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    """Zeros."""
    return full(shape, 0, dtype=float32 if dtype is None else dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    """Ones."""
    return full(shape, 1, dtype=float32 if dtype is None else dtype, device=device)


def _like(function):
    def call(x, /, *, dtype=None, device=None):
        return function(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)
    call.__name__ = function.__name__ + "_like"
    call.__doc__ = f"As {function.__name__}, with the shape, dtype and device of x."
    return call


empty_like, zeros_like, ones_like = _like(empty), _like(zeros), _like(ones)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """As full, with the shape, dtype and device of x."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype,
                device=x.device if device is None else device)


def random(shape, low=0.0, high=1.0, *, seed, dtype=None, device=None):
    """Uniform random numbers in [low, high), the same on every device."""
    return _core.random(shape, low, high, seed, float32 if dtype is None else dtype, device=device)


# ---- Sequences ---------------------------------------------------------------------------------------------------


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, … before stop."""
    start, stop = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(one, int) for one in (start, stop, step))
    kind = (int64 if whole else float32) if dtype is None else find_dtype(dtype)
    count = max(0, math.ceil((stop - start) / step) if not whole else -((start - stop) // step))
    places = _core.index((count,), 0, int64 if whole else float64, device=device)
    return _core.cast(places * step + start, kind)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` numbers from start to stop."""
    kind = float32 if dtype is None else find_dtype(dtype)
    steps = num - 1 if endpoint else num
    places = _core.index((num,), 0, float64, device=device)
    values = places * ((stop - start) / steps) + start if steps > 0 else places * 0.0 + start
    if endpoint and num > 1:  # exactly
        values = _core.select(_core.equal(places, float(steps)), float(stop), values)
    return _core.cast(values, kind)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on a diagonal, else zeros."""
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    rows, columns = (_core.index(shape, axis, int64, device=device) for axis in (0, 1))
    k = max(-shape[0], min(k, shape[1]))
    return _core.cast(_core.equal(rows + k, columns), float32 if dtype is None else dtype)


def _triangle(x, k, call):
    k = max(-x.shape[-2] - 1, min(k, x.shape[-1] + 1))
    rows, columns = (_core.index(x.shape, axis, int64, device=x.device) for axis in (-2, -1))
    return _core.select(call(columns, rows + k), x, zeros_like(x))


def tril(x, /, *, k=0):
    """The lower triangle of matrices."""
    return _triangle(x, k, _core.less_equal)


def triu(x, /, *, k=0):
    """The upper triangle of matrices."""
    return _triangle(x, k, _core.greater_equal)


def meshgrid(*arrays, indexing="xy"):
    """Grids of coordinates."""
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing is 'xy' or 'ij'")
    sizes = [x.size for x in arrays]
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    shape = [sizes[i] for i in order]
    return [_core.broadcast(_core.reshape(x, [sizes[i] if order[axis] == i else 1 for axis in range(len(arrays))]), shape)
            for i, x in enumerate(arrays)]


