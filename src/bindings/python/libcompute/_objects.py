# SPDX-License-Identifier: MIT
"""Methods of arrays, graphs, plans, models, layers and files that combine functions of the extension module."""
import collections
import os
import re

import numpy

from libcompute import _core, _standard, _through
from libcompute._create import _device, asarray
from libcompute._dtypes import bfloat16, float32

__all__ = ["Activation", "AveragePool", "BatchNorm", "Conv2d", "ConvTranspose2d", "Dense", "Dropout", "Embedding",
           "Flatten", "GlobalAveragePool", "Identity", "LayerNorm", "MaxPool", "Residual", "Sequential", "csv_dataset",
           "dataset", "file_dataset", "load", "load_csv", "load_model", "load_npy", "save", "trainer"]

Activation, AveragePool, BatchNorm, Conv2d = _core.Activation, _core.AveragePool, _core.BatchNorm, _core.Conv2d
ConvTranspose2d, Dense, Dropout, Embedding = _core.ConvTranspose2d, _core.Dense, _core.Dropout, _core.Embedding
Flatten, GlobalAveragePool, Identity = _core.Flatten, _core.GlobalAveragePool, _core.Identity
LayerNorm, MaxPool, Residual = _core.LayerNorm, _core.MaxPool, _core.Residual
load_csv, load_model, load_npy, trainer = _core.load_csv, _core.load_model, _core.load_npy, _core.trainer
csv_dataset, file_dataset = _core.dataset_from_csv, _core.dataset_from_files
HOST = 1  # DLPack's number


def _method(kind, name):
    """Makes a function a method of a type of the extension module."""
    def add(function):
        setattr(kind, name, function)
        return function
    return add


# ---- Arrays ------------------------------------------------------------------------------------------------------


@_method(_core.Array, "to_device")
def _to_device(self, device, /, *, stream=None):  # pylint: disable=unused-argument
    """The array on a device, itself if it is there."""
    target = _device(device)
    return self if self.device == target else self._to_device(target)


@_method(_core.Array, "__array_namespace__")
def _namespace(self, *, api_version=None):  # pylint: disable=unused-argument
    import libcompute  # pylint: disable=import-outside-toplevel
    if api_version not in (None, "2021.12", "2022.12", "2023.12"):
        raise ValueError(f"version {api_version} of the standard is not supported")
    return libcompute


@_method(_core.Array, "__dlpack__")
def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A capsule with the array's memory."""
    versioned = max_version is not None and max_version[0] >= 1
    if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
        if tuple(dl_device) != (HOST, 0) or copy is False:
            raise BufferError("the array is on another device, and cannot be shared with that one")
        return self.to_device("cpu")._to_capsule(versioned)
    return self._to_capsule(versioned, copy=copy is True, stream=stream if stream and stream > 0 else None)


@_method(_core.Array, "__array__")
def _array(self, dtype=None, copy=None):
    if self.dtype is bfloat16:
        return self.astype(float32).__array__(dtype, copy)
    values = numpy.asarray(memoryview(self.to_device("cpu")))
    return numpy.array(values, dtype=dtype, copy=True) if copy else values.astype(dtype or values.dtype, copy=False)


@_method(_core.Array, "numpy")
def _numpy(self):
    """NumPy's array, over the same memory if that is the host's."""
    return numpy.asarray(memoryview(self if self.dtype is not bfloat16 else self.astype(float32))) \
        if self.device.name == "cpu" else self.to_device("cpu").numpy()


@_method(_core.Array, "tolist")
def _tolist(self):
    """The elements as lists of numbers."""
    return self.numpy().tolist()


@_method(_core.Array, "__iter__")
def _iterate(self):
    if self.ndim == 0:
        raise TypeError("an array without axes has no elements to iterate over")
    return (self[i] for i in range(self.shape[0]))


@_method(_core.Array, "__complex__")
def _complex(self):
    return complex(self.item())


@_method(_core.Array, "__format__")
def _format(self, form):
    return format(self.item() if self.size == 1 and form else repr(self) if not form else self, form)


def _repr(self):
    text = repr(self.numpy()) if self.size <= 1000000 else f"array({self.shape})"
    inside = re.split(r",\s*dtype=", text[len("array("):].rsplit(")", 1)[0])[0]
    return f"Array({inside}, dtype={self.dtype.name})" if self.dtype.name not in inside else f"Array({inside})"


for _kind in (_core.Array, _core.Node):
    for _name in ("sum", "prod", "mean", "max", "min", "var", "std", "all", "any", "argmax", "argmin", "astype", "reshape"):
        setattr(_kind, _name, getattr(_standard, _name))
    setattr(_kind, "mT", property(_standard.matrix_transpose))
    setattr(_kind, "T", property(lambda x: _core.transpose(x, None)))
setattr(_core.Array, "nbytes", property(lambda x: x.size * x.dtype.bytes))
setattr(_core.Array, "itemsize", property(lambda x: x.dtype.bytes))
setattr(_core.Array, "__array_ufunc__", None)
_core.register({"repr": _repr})


# ---- Graphs and plans --------------------------------------------------------------------------------------------


@_method(_core.Graph, "parameter")
def _parameter(self, array, name=None):
    """A node for an array that is used, by reference, at every run. `array` is an Array, or what asarray takes."""
    return self._parameter(asarray(array), name)


@_method(_core.Graph, "constant")
def _constant(self, values, dtype=None):
    """A node with a copy of values."""
    array = asarray(values, dtype=dtype, device="cpu")
    dense = array if array.is_dense() else array._to_device(array.device)
    return self._constant(dense if dense.dtype is not bfloat16 else dense.astype(float32), dense.dtype, dense.shape) \
        if dense.dtype is not bfloat16 else _core.cast(self.constant(dense.astype(float32)), bfloat16)


@_method(_core.Plan, "run")
def _plan_run(self, inputs=None, *, out=None, **options):
    """Runs the plan with {node: array}, and returns an array for each output, None for one without a value.

    `out` has arrays to write to. Options: fallback, time_limit. Ctrl-C ends a long run."""
    arrays = {node: value if isinstance(value, _core.Array) else asarray(value) for node, value in (inputs or {}).items()}
    return self._run(arrays, out, **options)


setattr(_core.Plan, "device", property(lambda plan: plan._device()))


@_method(_core.Context, "__enter__")
def _enter(self):
    return self


@_method(_core.Context, "__exit__")
def _leave(self, *error):
    _through.forget()
    self.close()


# ---- Models ------------------------------------------------------------------------------------------------------


@_method(_core.Model, "run")
def _model_run(self, inputs, outputs=None):
    """Runs the model with {name: array}. Returns {name: array} for all outputs, or for the names `outputs`.

    `outputs` may be {name: array} with arrays to write to."""
    arrays = {name: value if isinstance(value, _core.Array) else asarray(value) for name, value in inputs.items()}
    if outputs is None:
        outputs = [port.name for port in self.outputs]
    return self._run(arrays, outputs if isinstance(outputs, dict) else dict.fromkeys(outputs))


def _ports(at, count):
    ports = (at(i) for i in range(count))
    return [one._replace(size=one.size[:max(0, one.rank)], symbol=one.symbol[:max(0, one.rank)]) for one in ports]


setattr(_core.Model, "inputs", property(lambda model: _ports(model._input_at, model._input_count())))
setattr(_core.Model, "outputs", property(lambda model: _ports(model._output_at, model._output_count())))


# ---- Layers and data ---------------------------------------------------------------------------------------------


def Sequential(*layers):  # pylint: disable=invalid-name
    """Layers in sequence, called "0", "1", … It owns them."""
    return _core._sequential(layers)


@_method(_core.Layer, "parameters")
def _parameters(self):
    """Parameters and statistics in PyTorch's order: (name, array, trainable)."""
    return [self._parameter_at(i) for i in range(self._parameter_count())]


def dataset(inputs, targets):
    """Pairs of an input and a target, copied. A dataset has a length, and can be split."""
    return _core.dataset_from_tensors(asarray(inputs), asarray(targets))


# ---- Files -------------------------------------------------------------------------------------------------------


def load(path, *, device=None):
    """{name: array} of a file of named tensors: safetensors or .npz."""
    file, target = _core.open_tensors(path), _device(device)
    return collections.OrderedDict((file.at(i).name, file.read(i, device=target)) for i in range(len(file)))


def save(path, arrays):
    """Writes {name: array} as safetensors or .npz, by the name's ending."""
    _core.save_tensors(os.fspath(path), {name: asarray(value) for name, value in arrays.items()})
