# SPDX-License-Identifier: MIT
"""libcompute: tensors and graphs on the fastest device of the machine.

Arrays follow the array API standard. Graphs, plans, models, training and fits have the library's names, without the
prefix compute_. docs/guide/python.md is the guide."""
from math import e, inf, nan, pi

from libcompute import _core, _names
from libcompute._names import *
from libcompute._names import EXCEPTIONS as _EXCEPTIONS, ENUMS as _ENUMS, STRUCTS as _STRUCTS

_core.register({"EXCEPTIONS": _EXCEPTIONS, "ENUMS": _ENUMS, "STRUCTS": _STRUCTS})

from libcompute._dtypes import (DType, bfloat16, bool_ as bool, float16, float32, float64, int8, int16, int32, int64,
                                uint8, uint16, uint32, uint64)
from libcompute._create import *
from libcompute import _index, _standard, _through
from libcompute._core import (Array, Batch, Batcher, Context, Dataset, Device, Fitter, Graph, Group, Job, Kernel, Layer,
                              Model, Node, Plan, Request, TensorFile, Trainer)
from libcompute._standard import *
from libcompute._standard import __array_namespace_info__
from libcompute._objects import *
from libcompute import fft, linalg
from libcompute._fit import fit, fitter, spot_corners

__array_api_version__ = "2023.12"
__version__ = _core.version_text()
newaxis = None

# The library's other operations, under its names: relu, softmax, conv2d, cross_entropy, adam_step, …
for _name in _names.OPERATIONS:
    if _name not in globals():
        globals()[_name] = _through.both(_name) if _name in _names.FOR_NODES else getattr(_core, _name)


def open(*, device=None, threads=0, backends=None, backend_path=None):  # pylint: disable=redefined-builtin
    """Opens a context with these options. set_context makes it the default one."""
    return _core.open(device=device, threads=threads, backends=backends, backend_path=backend_path)


def context():
    """The default context; the first use opens it."""
    return _core.context()


def set_context(new):
    """Makes a context the default one; with None the next use opens another."""
    _through.forget()
    _core.set_context(new)


def devices():
    """All devices, the best first."""
    return _core.context().devices()


def device(name=None):
    """The device called `name` ("cpu", "cuda:0"), or the default one."""
    return _core.context().device if name is None else _core.device_by_name(name)


def _end():
    _through.forget()
    _core.set_context(None)


import atexit as _atexit
import os as _os
_atexit.register(_end)
if hasattr(_os, "register_at_fork"):  # a child opens new contexts
    _os.register_at_fork(after_in_child=lambda: set_context(None))
