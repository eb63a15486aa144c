# SPDX-License-Identifier: MIT
"""Methods of arrays, graphs, plans, models, layers and files that combine functions of the extension module."""
import collections
import math
import os
import re

import numpy

from libcompute import _core, _standard, _through
from libcompute._create import _device, asarray
from libcompute._dtypes import bfloat16, find_dtype, float32, numpy_dtype
from libcompute._names import KERNEL_PORTABLE

__all__ = ["Activation", "AveragePool", "BatchNorm", "Conv2d", "ConvTranspose2d", "Dense", "Dropout", "Embedding",
           "Flatten", "GlobalAveragePool", "Identity", "LayerNorm", "MaxPool", "Residual", "Sequential", "csv_dataset",
           "batch", "batcher", "dataset", "file_dataset", "kernel", "load", "load_csv", "load_model", "load_npy", "open_group", "save",
           "trainer"]

Activation, AveragePool, BatchNorm, Conv2d = _core.Activation, _core.AveragePool, _core.BatchNorm, _core.Conv2d
ConvTranspose2d, Dense, Dropout, Embedding = _core.ConvTranspose2d, _core.Dense, _core.Dropout, _core.Embedding
Flatten, GlobalAveragePool, Identity = _core.Flatten, _core.GlobalAveragePool, _core.Identity
LayerNorm, MaxPool, Residual = _core.LayerNorm, _core.MaxPool, _core.Residual
batcher = _core.batcher
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


@_method(_core.Plan, "submit")
def _plan_submit(self, inputs=None, *, out=None, after=(), **options):
    """Runs the plan in the background, after the jobs `after`. The job's wait returns what run would.

    The arrays must not be touched meanwhile. Let runs of a plan that assigns to parameters follow each other. Options:
    fallback, time_limit."""
    arrays = {node: value if isinstance(value, _core.Array) else asarray(value) for node, value in (inputs or {}).items()}
    return self._submit(arrays, out, tuple(after), **options)


setattr(_core.Plan, "device", property(lambda plan: plan._device()))


@_method(_core.Context, "__enter__")
def _enter(self):
    return self


@_method(_core.Context, "__exit__")
def _leave(self, *error):
    _through.forget()
    self.close()


# ---- Models ------------------------------------------------------------------------------------------------------


_TEXT, _SEQUENCE, _OPTIONAL = 1, 2, 4


def _texts(value):
    """The shape and the texts, in row-major order, of nested lists."""
    if isinstance(value, str):
        return (), [value]
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"texts are str or nested lists of str, not {type(value).__name__}")
    parts = [_texts(one) for one in value]
    shapes = {shape for shape, _ in parts} or {()}
    if len(shapes) > 1:
        raise ValueError("the lists of texts differ in length or depth")
    return (len(parts), *shapes.pop()), [text for _, texts in parts for text in texts]


def _port_item(value, kind):
    """A value of a port as the tuples of glue/item.c."""
    if kind & _OPTIONAL:
        return "optional", None if value is None else _port_item(value, kind & ~_OPTIONAL)
    if kind & _SEQUENCE:
        if value is None or isinstance(value, (str, bytes, dict)):
            raise TypeError(f"a sequence is a tuple or list of its items, not {type(value).__name__}")
        return "sequence", [_port_item(one, kind & ~_SEQUENCE) for one in value]
    if kind & _TEXT:
        return "texts", *_texts(value.tolist() if hasattr(value, "tolist") else value)
    return value if isinstance(value, _core.Array) else asarray(value)


def _nested(shape, texts):
    if not shape:
        return texts[0]
    step = len(texts) // shape[0] if shape[0] else 0
    return [_nested(shape[1:], texts[i * step:(i + 1) * step]) for i in range(shape[0])]


def _port_value(item):
    """The other way round."""
    if not isinstance(item, tuple):
        return item
    if item[0] == "texts":
        return _nested(item[1], item[2])
    if item[0] == "sequence":
        return tuple(_port_value(one) for one in item[1])
    return None if item[1] is None else _port_value(item[1])


@_method(_core.Model, "run")
def _model_run(self, inputs, outputs=None):
    """Runs the model with {name: array}. Returns {name: array} for all outputs, or for the names `outputs`.

    `outputs` may be {name: array} with arrays to write to; None in place of an array makes a new one.

    Inputs and outputs of other kinds (port.kind): texts are a str or nested lists of str, a sequence is a tuple of
    arrays or texts, and an optional without a value is None. Labels of classes are positions in an array to write to,
    and texts otherwise."""
    kinds = {port.name: port.kind for port in self.inputs}
    given = {name: array for name, array in outputs.items() if array is not None} if isinstance(outputs, dict) else {}
    wanted = [port for port in self.outputs if outputs is None or port.name in outputs]
    if any(kinds.get(name) for name in inputs) or any(port.kind for port in wanted if port.name not in given):
        names = [port.name for port in wanted] if outputs is None else list(outputs)
        return _run_with_items(self, inputs, names, given)
    arrays = {name: value if isinstance(value, _core.Array) else asarray(value) for name, value in inputs.items()}
    if outputs is None:
        outputs = [port.name for port in self.outputs]
    return self._run(arrays, outputs if isinstance(outputs, dict) else dict.fromkeys(outputs))


def _run_with_items(model, inputs, names, given):
    """A run with values that are not arrays. `given` are arrays to write to."""
    kinds = {port.name: port.kind for port in model.inputs}
    for port in model.outputs:
        if port.name in given and (port.kind or not isinstance(given[port.name], _core.Array)):
            raise TypeError(f"output '{port.name}' cannot be written to the given {type(given[port.name]).__name__}")
    items = {name: _port_item(value, kinds.get(name, 0)) for name, value in inputs.items()}
    results = {name: _port_value(item) for name, item in model._run_items(items, names).items()}
    for name, array in given.items():
        made = results[name]
        if not isinstance(made, _core.Array) or (made.dtype, made.shape) != (array.dtype, array.shape):
            raise ValueError(f"output '{name}' is not an array of {array.dtype} {array.shape}")
        array._copy_from(made)
        results[name] = array
    return results


def _ports(at, count):
    ports = (at(i) for i in range(count))
    return [one._replace(size=one.size[:max(0, one.rank)], symbol=one.symbol[:max(0, one.rank)]) for one in ports]


setattr(_core.Model, "inputs", property(lambda model: _ports(model._input_at, model._input_count())))
setattr(_core.Model, "outputs", property(lambda model: _ports(model._output_at, model._output_count())))


# ---- Batches -----------------------------------------------------------------------------------------------------


def batch(build, inputs, *, outputs=1, context=None, **options):
    """An iterator over any number of items. `inputs` are pairs (dtype, shape of an item).

    build(x, …) gets nodes [items, item's shape…], and returns `outputs` nodes of that form. It is called for each size
    of a batch. Options: the fields of compute_batch_options in batch.h, such as batch, slots, memory, devices."""
    return _core._batch(build, [(find_dtype(kind), shape) for kind, shape in inputs], outputs, context, **options)


def _end(given, kind, item, writable):
    """A path, a function or an array as C takes it, with the bytes of an item; and the array's number of items."""
    form, item = numpy_dtype(kind), tuple(item)
    bytes_of_item = form.itemsize * math.prod(item)
    if isinstance(given, (str, os.PathLike)):
        return (os.fspath(given), bytes_of_item), None
    if callable(given):
        if writable:
            def write(first, items, memory):
                given(first, numpy.frombuffer(memory, dtype=form).reshape((items, *item)).copy())
            return (write, bytes_of_item), None

        def read(first, items, memory):
            values = numpy.asarray(given(first, items), dtype=form)
            if values.shape[1:] != item or len(values) > items:
                raise ValueError(f"a source gave {values.shape}; up to {items} items {item} are needed")
            numpy.frombuffer(memory, dtype=form).reshape((items, *item))[:len(values)] = values
            return len(values)
        return (read, bytes_of_item), None
    if writable and isinstance(given, _core.Array) and given.device.name != "cpu":
        raise ValueError(f"an array on {given.device.name} cannot receive a batch's results; pass None, and move them")
    values = numpy.asarray(given.numpy() if isinstance(given, _core.Array) else given)
    if values.shape[1:] != item or values.ndim != 1 + len(item) or (writable and values.dtype != form):
        raise ValueError(f"an array {values.dtype.name} {values.shape}; items are {form.name} {item}")
    return (values if writable else numpy.ascontiguousarray(values, dtype=form), bytes_of_item), len(values)


@_method(_core.Batch, "run")
def _batch_run(self, *inputs, out=None, items=None, progress=None):
    """Runs all items. Each input is an array [items, …], a file's path, or a function of (first, items) that returns up
    to so many items, fewer at the end.

    Returns NumPy's arrays, one for a single output. `out` has for each output an array, a path, a function of (first,
    values), or None for a new array. `progress` gets (items, total, seconds); False ends the run, and so does Ctrl-C."""
    if len(inputs) != len(self._inputs):
        raise ValueError(f"{len(inputs)} inputs, not {len(self._inputs)}")
    sources = [_end(one, kind, item, False) for one, (kind, item) in zip(inputs, self._inputs)]
    known = [count for _, count in sources if count is not None]
    if items is None:
        items = min(known) if known else -1
    if known and not 0 <= items <= min(known):
        raise ValueError(f"{items} items of arrays with {min(known)}")
    ports = self.outputs
    out = list(out) if isinstance(out, (list, tuple)) else [out] * len(ports) if out is None else [out]
    if len(out) != len(ports):
        raise ValueError(f"{len(out)} outputs, not {len(ports)}")
    if items < 0 and any(one is None for one in out):
        raise ValueError("the number of items is not known: `out` has arrays, paths or functions")
    out = [numpy.empty((items, *item), numpy_dtype(kind)) if one is None else one for one, (kind, item) in zip(out, ports)]
    sinks = [_end(one, kind, item, True) for one, (kind, item) in zip(out, ports)]
    if any(count is not None and (items < 0 or count < items) for _, count in sinks):
        raise ValueError("an output has no room for all items")
    self._run(items, [one for one, _ in sources], [one for one, _ in sinks], progress)
    return out[0] if len(out) == 1 else tuple(out)


def _item(given, ports, writable):
    """Arrays for one item, as the library takes them."""
    if len(given) != len(ports):
        raise ValueError(f"{len(given)} arrays for {len(ports)}")
    made = []
    for one, (kind, shape) in zip(given, ports):
        form = numpy_dtype(kind)
        values = one if writable else numpy.ascontiguousarray(one.numpy() if isinstance(one, _core.Array) else one, dtype=form)
        if values.shape != tuple(shape) or values.dtype != form:
            raise ValueError(f"an array {values.dtype.name} {values.shape}; an item is {form.name} {tuple(shape)}")
        made.append(values)
    return tuple(made)


@_method(_core.Batcher, "submit")
def _batcher_submit(self, *item, out=None, time_limit=0.0):
    """Submits one item, an array for each input, and returns a Request at once. Its wait returns NumPy's arrays, one for
    a single output. `out` has NumPy's arrays to write to. The arrays must not be changed meanwhile.

    After `time_limit` seconds (0: none) the request ends with TimeoutError. A full queue is waited for, or raises."""
    batch = self.batch
    ports = batch.outputs
    outputs = tuple(numpy.empty(tuple(shape), numpy_dtype(kind)) for kind, shape in ports) if out is None else \
        _item(out if isinstance(out, (list, tuple)) else [out], ports, True)
    return self._submit(_item(item, batch._inputs, False), outputs, time_limit)


@_method(_core.Batcher, "run")
def _batcher_run(self, *item, out=None, time_limit=0.0):
    """Submits one item as submit does, and waits for its results. Ctrl-C cancels it."""
    return self.submit(*item, out=out, time_limit=time_limit).wait()


# ---- Kernels and groups ------------------------------------------------------------------------------------------


def kernel(source, entry, *, device=None, options="", portable=True):
    """A kernel of `source`, in libcompute's dialect (kernels/README.md), or in the device's own language."""
    return _core._kernel(source, entry, options, KERNEL_PORTABLE if portable else 0, _device(device))


@_method(_core.Kernel, "launch")
def _kernel_launch(self, groups, group, *arguments):
    """Runs the kernel to completion, with `groups` of `group` items, each a number or up to three.

    Arguments are arrays, which it may change, numbers (int is i32, float is f32), and NumPy's scalars of other types."""
    def given(one):
        if isinstance(one, _core.Array):
            return one
        if isinstance(one, numpy.generic):
            return one.tobytes()
        if not isinstance(one, float) and not -2**31 <= one < 2**31:
            raise OverflowError(f"{one} is not an i32; pass a NumPy scalar of another type")
        return (numpy.float32(one) if isinstance(one, float) else numpy.int32(one)).tobytes()
    sizes = [(one,) if isinstance(one, int) else tuple(one) for one in (groups, group)]
    self._launch(*sizes, tuple(given(one) for one in arguments))


def open_group(context=None, **options):
    """The processes that an MPI's launcher has started, or a group of one. Collective. Options: transport, timeout,
    device, host_only."""
    return _core.open_group(context=context, **options)


setattr(_core.Group, "rank", property(lambda group: group.describe().rank))
setattr(_core.Group, "size", property(lambda group: group.describe().size))
setattr(_core.Group, "__enter__", lambda group: group)
setattr(_core.Group, "__exit__", lambda group, *error: group.close())


def _result(x, sizes):
    return _core.empty(sizes, x.dtype, device=x.device)


@_method(_core.Group, "all_reduce")
def _all_reduce(self, x, reduction="sum", **options):
    """The sum, mean, max or min of all ranks' arrays, the same on every rank."""
    x = asarray(x)
    made = _result(x, x.shape)
    self._all_reduce(reduction, x, made, **options)
    return made


@_method(_core.Group, "reduce_scatter")
def _reduce_scatter(self, x, reduction="sum", **options):
    """This rank's block of the reduction: the first axis is divided by the number of ranks."""
    x = asarray(x)
    made = _result(x, (x.shape[0] // self.size, *x.shape[1:]))
    self._reduce_scatter(reduction, x, made, **options)
    return made


@_method(_core.Group, "all_gather")
def _all_gather(self, x, **options):
    """All ranks' arrays in their order, joined along the first axis."""
    x = asarray(x)
    made = _result(x, (x.shape[0] * self.size, *x.shape[1:]))
    self._all_gather(x, made, **options)
    return made


@_method(_core.Group, "broadcast")
def _broadcast(self, x, root=0, **options):
    """Copies the root's elements into x on the other ranks. Returns x."""
    self._broadcast(x, root, **options)
    return x


@_method(_core.Group, "send")
def _send(self, x, to, **options):
    """Sends x to a rank, which receives."""
    self._send(asarray(x), to, **options)


@_method(_core.Group, "receive")
def _receive(self, x, source, **options):
    """Fills x with what the rank `source` sends. Returns x."""
    self._receive(x, source, **options)
    return x


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
