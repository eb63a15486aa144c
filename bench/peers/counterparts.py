# SPDX-License-Identifier: MIT
"""The operations and networks of operations.py and networks.py as functions of other libraries, with the same weights:
the builders of ONNX files have counterparts here that record calls instead of nodes.

NumPy's, in double precision, is the reference of single operations. torch's uses the functions that one writes by hand
(gelu, linear, scaled_dot_product_attention) where an ONNX file has several nodes. BLAS has products and linear layers.
"""
import ctypes
import functools
import math
import operator

import numpy as np
from onnx import TensorProto

from networks import NETWORKS, OPSET, Builder
from operations import OPERATIONS


class Unsupported(Exception):
    """This library, or this form of it, does not have the operation."""


class Counterpart(Builder):
    """Records calls (function, inputs, results, names that are not used any more). Values are known by name: tensors,
    numbers of Python for scalars, tuples for lists of sizes and axes."""

    functions = {}

    def __init__(self, name, inputs, opset=OPSET):
        super().__init__(name, [port for port, _, _ in inputs], opset)
        self.values, self.steps, self.results, self.operators = {"": None}, [], [], set()

    def convert(self, array):
        return array

    def keep(self, value):
        name = f"w{len(self.values)}"
        self.values[name] = value
        return name

    def constant(self, array):
        array = np.asarray(array)
        return self.keep(self.convert(array) if array.ndim else array.item())

    def ints(self, *values):
        return self.keep(values)

    def call(self, function, *inputs, count=1):
        names = [f"v{len(self.steps)}_{i}" for i in range(count)]
        self.steps.append([function, inputs, names, []])
        return names[0] if count == 1 else names

    def node(self, operator, *inputs, count=1, **attributes):
        if operator not in self.functions:
            raise Unsupported(operator)
        self.operators.add(operator)
        if operator == "Gather" and isinstance(self.values.get(inputs[1]), tuple):
            inputs = (inputs[0], self.constant(np.array(self.values[inputs[1]], np.int64)))
        return self.call(functools.partial(self.functions[operator], **attributes), *inputs, count=count)

    def output(self, value, name, dtype=None):
        self.results.append(value)

    def finish(self):
        """Notes after which call each result can be dropped."""
        seen = set(self.results) | self.values.keys() | set(self.inputs)
        for _, inputs, names, dead in reversed(self.steps):
            dead += [name for name in dict.fromkeys((*inputs, *names)) if name not in seen]
            seen.update(inputs)
        return self

    def run(self, values, inputs):
        values = {**values, **dict(zip(self.inputs, inputs))}
        for function, names, results, dead in self.steps:
            result = function(*[values[name] for name in names])
            values.update(zip(results, result if len(results) > 1 else (result,)))
            for name in dead:
                del values[name]
        return [values[name] for name in self.results]


def make(name, kind):
    """The counterpart of a row of operations.py or of a network, called as its file."""
    if name in OPERATIONS:
        return OPERATIONS[name].make(name, kind).finish()
    if name in NETWORKS:
        return NETWORKS[name](kind).finish()
    raise Unsupported(f"{name} is only known as an ONNX file")


def reshape(x, sizes):
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(sizes)])


# ---- NumPy, in double precision ---------------------------------------------------------------


def windows(x, size, stride, pads, fill):
    """The elements of x under each place of a window, one place after the other."""
    (top, left, bottom, right), (down, across) = pads, stride
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    rows, columns = (x.shape[2] - size[0]) // down + 1, (x.shape[3] - size[1]) // across + 1
    for i in range(size[0]):
        for j in range(size[1]):
            yield i, j, x[:, :, i:i + down * rows:down, j:j + across * columns:across][:, :, :rows, :columns]


def numpy_conv(x, w, b=None, kernel_shape=None, strides=(1, 1), pads=(0,) * 4, group=1):
    n, out, inner, total = x.shape[0], w.shape[0], w.shape[1], 0
    for i, j, part in windows(x, w.shape[2:], strides, pads, 0):
        part, size = np.ascontiguousarray(part).reshape(n, group, inner, -1), part.shape[2:]
        total = total + np.matmul(w[:, :, i, j].reshape(group, out // group, inner), part)
    total = total.reshape(n, out, *size)
    return total if b is None else total + b[:, None, None]


def numpy_average(x, kernel_shape, strides, pads):
    parts = zip(windows(x, kernel_shape, strides, pads, 0), windows(np.ones_like(x[:1, :1]), kernel_shape, strides, pads, 0))
    total, count = 0, 0
    for (_, _, part), (_, _, one) in parts:
        total, count = total + part, count + one
    return total / count


def numpy_softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def numpy_layer_norm(x, gain, bias, axis, epsilon):
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(axis, keepdims=True) + epsilon) * gain + bias


def numpy_batch_norm(x, gain, bias, mean, variance):
    gain, bias, mean, variance = (v[:, None, None] for v in (gain, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


def numpy_top_k(x, k):
    order = np.argpartition(-x, k[0] - 1, -1)[..., :k[0]]
    best = np.take_along_axis(x, order, -1)
    return -np.sort(-best, -1), order


def numpy_scatter(data, index, updates, reduction):
    data = data.copy()
    np.add.at(data, index[:, 0], updates)
    return data


class Reference(Counterpart):
    def convert(self, array):
        return array.astype(np.float64) if array.dtype.kind == "f" else array

    def compute(self, inputs):
        inputs = [x if x.dtype.kind in "iub" else x.astype(np.float64) for x in inputs]
        return self.run(self.values, inputs)[-1]

    functions = {
        "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": operator.truediv, "Exp": np.exp,
        "Log": np.log, "Tanh": np.tanh, "Erf": np.vectorize(math.erf, otypes=[np.float64]),
        "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Relu": lambda x: np.maximum(x, 0), "MatMul": np.matmul,
        "Softmax": numpy_softmax, "LayerNormalization": numpy_layer_norm, "BatchNormalization": numpy_batch_norm,
        "Conv": numpy_conv, "AveragePool": numpy_average, "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
        "MaxPool": lambda x, kernel_shape, strides, pads: functools.reduce(
            np.maximum, (part for _, _, part in windows(x, kernel_shape, strides, pads, -np.inf))),
        "ReduceSum": lambda x, axes=None, keepdims=0: x.sum(axes), "TopK": numpy_top_k,
        "CumSum": lambda x, axis: np.cumsum(x, axis[0]), "Transpose": lambda x, perm: x.transpose(perm),
        "Concat": lambda *parts, axis: np.concatenate(parts, axis), "Gather": lambda rows, index: rows[index],
        "GatherElements": lambda x, index, axis: np.take_along_axis(x, index, axis), "ScatterND": numpy_scatter,
        "Cast": lambda x, to: x.astype(np.int64 if to == TensorProto.INT64 else np.float64), "Reshape": reshape,
    }


# ---- BLAS -------------------------------------------------------------------------------------


class Product:
    """A · B (+ bias, as what C holds before), into the same array in every run."""

    def __init__(self, library, prefix):
        self.library, self.prefix, self.out = library, prefix, None

    def __call__(self, a, b, bias=None):
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        if self.out is None:
            self.out = np.empty((*a.shape[:-1], n), a.dtype)
        if bias is not None:
            self.out[...] = bias
        double = a.dtype == np.float64
        real = ctypes.c_double if double else ctypes.c_float
        gemm = getattr(self.library, self.prefix + ("dgemm" if double else "sgemm"))
        steps = [x[0].nbytes if x.ndim > 2 else 0 for x in (a, b, self.out)]
        for i in range(a.shape[0] if a.ndim > 2 else 1):
            x, y, z = (ctypes.c_void_p(p.ctypes.data + i * step) for p, step in zip((a, b, self.out), steps))
            gemm(101, 111, 111, m, n, k, real(1), x, k, y, n, real(0 if bias is None else 1), z, n)  # rows, as they are
        return self.out


def blas(library, prefix):
    """The class of counterparts that call this library."""

    class Blas(Counterpart):
        functions = {"MatMul": None}

        def node(self, operator, *inputs, **attributes):
            if operator != "MatMul":
                raise Unsupported(operator)
            return self.call(Product(library, prefix), *inputs)

        def affine(self, x, w, b):
            return self.call(Product(library, prefix), x, self.constant(w), self.constant(b))

    return Blas
