# SPDX-License-Identifier: MIT
"""Operations of graphs on arrays: a plan for each kind of call, as the library's eager calls have."""
import functools

from libcompute import _core


class _Place:  # where an operand goes
    __slots__ = ("index",)

    def __init__(self, index):
        self.index = index

    def __hash__(self):
        return hash(self.index)

    def __eq__(self, other):
        return isinstance(other, _Place) and other.index == self.index


def _hashable(value):
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


@functools.lru_cache(maxsize=256)
def _plan(function, device, operands, arguments, keywords):
    graph = _core.Graph(device.context)
    inputs = [graph.input(shape, dtype) for shape, dtype in operands]

    def value(one):
        return inputs[one.index] if isinstance(one, _Place) else one
    outputs = function(*map(value, arguments), **{name: value(one) for name, one in keywords})
    if isinstance(outputs, tuple):
        outputs = tuple(one for one in outputs if one is not None)
    return inputs, graph.compile(outputs, device=device)


def through_graph(function, *arguments, **keywords):
    """Calls a function of nodes with arrays."""
    arrays = []

    def place(one):
        if isinstance(one, _core.Array):
            arrays.append(one)
            return _Place(len(arrays) - 1)
        return _hashable(one)
    arguments = tuple(map(place, arguments))
    keywords = tuple((name, place(one)) for name, one in keywords.items())
    operands = tuple((one.shape, one.dtype) for one in arrays)
    inputs, plan = _plan(function, arrays[0].device, operands, arguments, keywords)
    return plan._run(dict(zip(inputs, arrays)))


def forget():
    """Releases the plans."""
    _plan.cache_clear()


def both(name):
    """The operation of graphs `name`, for nodes and for arrays."""
    function = getattr(_core, name)

    @functools.wraps(function)
    def call(*arguments, **keywords):
        if any(isinstance(one, _core.Array) for one in (*arguments, *keywords.values())):
            return through_graph(function, *arguments, **keywords)
        return function(*arguments, **keywords)
    return call
