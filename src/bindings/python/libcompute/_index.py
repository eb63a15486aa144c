# SPDX-License-Identifier: MIT
"""x[key]: views of arrays, and operations on nodes."""
import operator

from libcompute import _core
from libcompute._dtypes import bool_, int64


def _cut(x, axis, start, count, step):
    if isinstance(x, _core.Array):
        return x.slice_view(axis, start, count, step)
    return _core.slice(x, axis, start, count, step)


def _shaped(x, shape):
    if isinstance(x, _core.Array):
        return x.reshape_view(shape)
    return _core.reshape(x, shape)


def _backwards(x, axis, start, count, step):
    """Elements start, start + step, … with a negative step: gathered."""
    if isinstance(x, _core.Array):
        places = _core.index((count,), 0, int64, device=x.device)
    else:
        places = x.graph.index((count,), 0)
    return _core.gather(x, places * step + start, axis)


def _expanded(key, rank):
    """The key with an entry for each axis, None in between."""
    key = key if isinstance(key, tuple) else (key,)
    used = sum(one is not None and one is not Ellipsis for one in key)
    if used > rank:
        raise IndexError(f"{used} indices for {rank} axes")
    if sum(one is Ellipsis for one in key) > 1:
        raise IndexError("more than one ellipsis")
    if not any(one is Ellipsis for one in key):
        key += (Ellipsis,)
    at = next(i for i, one in enumerate(key) if one is Ellipsis)
    return key[:at] + (slice(None),) * (rank - used) + key[at + 1:]


def _masked(x, mask):
    """The elements where the mask of the first axes is true."""
    if mask.shape != x.shape[:mask.ndim]:
        raise IndexError(f"a mask {mask.shape} for an array {x.shape}")
    places = _core.reshape(mask, (-1,))._nonzero()
    rows = _core.reshape(x, (mask.size,) + x.shape[mask.ndim:])
    return _core.gather(rows, _core.reshape(places, (-1,)), 0)


def getitem(x, key):
    """A view of an array, if no step is negative and no index is an array; the same for nodes as an operation."""
    if isinstance(key, _core.Array) and key.dtype is bool_ and isinstance(x, _core.Array):
        return _masked(x, key)
    axis, shape = 0, []
    for one in _expanded(key, x.ndim):
        if one is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(one, slice):
            start, stop, step = one.indices(size)
            count = len(range(start, stop, step))
            if step < 0:
                x = _backwards(x, axis, start, count, step)
            elif count != size or step != 1:
                x = _cut(x, axis, start if count else 0, count, step)
            shape.append(count)
        elif isinstance(one, (_core.Array, _core.Node)) and one.ndim:
            if one.dtype is bool_:
                raise TypeError("a mask is the only index; of nodes, the shape of x[mask] depends on values: use where")
            x = _core.gather(x, one, axis)
            shape += one.shape
            axis += one.ndim
            continue
        else:
            place = operator.index(one)
            if not -size <= place < size:
                raise IndexError(f"index {place} is outside an axis of {size}")
            x = _cut(x, axis, place, 1, 1)
            x = _shaped(x, x.shape[:axis] + x.shape[axis + 1:])
            continue
        axis += 1
    return x if tuple(shape) == x.shape else _shaped(x, shape)


def _forwards(x, key):
    """The key with positive steps, and the axes of its result that are backwards."""
    keys, turned, axis, place = [], [], 0, 0
    for one in _expanded(key, x.ndim):
        if isinstance(one, slice):
            start, stop, step = one.indices(x.shape[axis])
            count = len(range(start, stop, step))
            if step < 0:
                last = start + (count - 1) * step
                one = slice(last, start + 1, -step) if count else slice(0, 0)
                turned.append(place)
        elif isinstance(one, _core.Array) and one.ndim:
            raise TypeError("elements at arrays of positions cannot be set: use scatter")
        keys.append(one)
        axis += one is not None
        place += one is None or isinstance(one, slice)
    return tuple(keys), turned


def setitem(x, key, value):
    """Copies `value` into the elements that the key names."""
    if isinstance(key, _core.Array) and key.dtype is bool_ and key.shape == x.shape:
        x._copy_from(_core.select(key, value, x))
        return
    keys, turned = _forwards(x, key)
    view = getitem(x, keys)
    if not isinstance(value, _core.Array):
        from libcompute._create import asarray  # pylint: disable=import-outside-toplevel
        value = asarray(value, dtype=x.dtype if isinstance(value, (bool, int, float)) else None)
    value = value.broadcast_view(view.shape)
    if turned:
        value = value[tuple(slice(None, None, -1) if axis in turned else slice(None) for axis in range(value.ndim))]
    view._copy_from(value)


_core.register({"getitem": getitem, "setitem": setitem})
