# SPDX-License-Identifier: MIT
"""The operations and networks of operations.py and networks.py in torch: see counterparts.py."""
import operator

import numpy as np
import torch
import torch.nn.functional as F
from onnx import TensorProto

from counterparts import Counterpart, Unsupported, reshape

PLANAR = {"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "BatchNormalization"}


def tensor(array):
    """Shares the array's memory."""
    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def unsqueeze(x, axes):
    for axis in axes:
        x = x.unsqueeze(axis)
    return x


class Torch(Counterpart):
    def convert(self, array):
        return torch.from_numpy(np.array(array))

    def affine(self, x, w, b):
        return self.call(F.linear, x, self.constant(w.T.copy()), self.constant(b))

    def gelu(self, x):
        return self.call(F.gelu, x)

    def gelu_tanh(self, x):
        return self.call(lambda value: F.gelu(value, approximate="tanh"), x)

    def silu(self, x):
        return self.call(F.silu, x)

    def upsample(self, x):
        return self.call(lambda value: F.interpolate(value, scale_factor=2, mode="nearest"), x)

    def attend(self, q, k, v, size, mask=None, causal=0):
        def attention(q, k, v, mask=None):
            return F.scaled_dot_product_attention(q, k, v, mask, is_causal=bool(causal))
        return self.call(attention, q, k, v, *([mask] if mask else []))

    def output(self, value, name, dtype=None):
        """A view would be no result."""
        super().output(self.call(lambda x: x.contiguous(), value), name)

    def module(self):
        return Module(self)

    functions = {
        "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": operator.truediv, "Exp": torch.exp,
        "Log": torch.log, "Tanh": torch.tanh, "Erf": torch.erf, "Sigmoid": torch.sigmoid, "Relu": torch.relu,
        "Clip": torch.clamp, "MatMul": torch.matmul, "Softmax": lambda x, axis: torch.softmax(x, axis),
        "LayerNormalization": lambda x, gain, bias, axis, epsilon: F.layer_norm(x, gain.shape, gain, bias, epsilon),
        "BatchNormalization": lambda x, gain, bias, mean, variance: F.batch_norm(x, mean, variance, gain, bias),
        "Conv": lambda x, w, b=None, kernel_shape=None, strides=(1, 1), pads=(0, 0), group=1:
            F.conv2d(x, w, b, strides, pads[:2], 1, group),
        "MaxPool": lambda x, kernel_shape, strides, pads=(0, 0): F.max_pool2d(x, kernel_shape, strides, pads[:2]),
        "AveragePool": lambda x, kernel_shape, strides, pads=(0, 0):
            F.avg_pool2d(x, kernel_shape, strides, pads[:2], count_include_pad=False),
        "GlobalAveragePool": lambda x: F.adaptive_avg_pool2d(x, 1),
        "Flatten": lambda x, axis: x.flatten(axis), "Gemm": lambda x, w, b, transB: F.linear(x, w, b),
        "ReduceSum": lambda x, axes=None, keepdims=0: x.sum(axes), "TopK": lambda x, k: torch.topk(x, k[0]),
        "CumSum": lambda x, axis: torch.cumsum(x, axis[0]), "Transpose": lambda x, perm: x.permute(perm),
        "Reshape": reshape, "Unsqueeze": unsqueeze, "Split": lambda x, sizes, axis: torch.split(x, sizes, axis),
        "Concat": lambda *parts, axis: torch.cat(parts, axis), "Gather": lambda rows, index: F.embedding(index, rows),
        "GatherElements": lambda x, index, axis: torch.gather(x, axis, index),
        "ScatterND": lambda data, index, updates, reduction: torch.index_add(data, 0, index[:, 0], updates),
        "Cast": lambda x, to: x.to(torch.int64 if to == TensorProto.INT64 else torch.float32),
    }


class ChannelsLast(Torch):
    """Images and filters with channels last, from input to result."""

    def convert(self, array):
        value = super().convert(array)
        return value.contiguous(memory_format=torch.channels_last) if value.ndim == 4 else value

    def output(self, value, name, dtype=None):
        Counterpart.output(self, value, name)

    def finish(self):
        if not self.operators & PLANAR:
            raise Unsupported("nothing here has channels")
        return super().finish()


class OneDnn(Torch):
    """Tensors in oneDNN's own layouts, weights reordered beforehand."""

    def node(self, operator, *inputs, **attributes):
        if operator == "Conv":
            return self.conv_blocked(*inputs, **attributes)
        if operator == "BatchNormalization":
            inputs = (inputs[0], *(self.keep(self.values[name].to_mkldnn()) for name in inputs[1:]))
        if operator == "Gemm":
            return self.dense(*(inputs[0], *(self.values[name] for name in inputs[1:])))
        return super().node(operator, *inputs, **attributes)

    def conv_blocked(self, x, w, b, kernel_shape, strides, pads, group):
        self.operators.add("Conv")
        geometry = (pads[:2], strides, (1, 1), group)
        filters = torch._C._nn.mkldnn_reorder_conv2d_weight(self.values[w].to_mkldnn(), *geometry)
        bias = self.values[b].to_mkldnn()
        return self.call(lambda value: torch.mkldnn_convolution(value, filters, bias, *geometry), x)

    def dense(self, x, w, b):
        w, b = w.to_mkldnn(), b.to_mkldnn()
        return self.call(lambda value: torch._C._nn.mkldnn_linear(value, w, b), x)

    def affine(self, x, w, b):
        return self.dense(x, self.convert(w.T.copy()), self.convert(b))

    def output(self, value, name, dtype=None):
        Counterpart.output(self, value, name)


class Module(torch.nn.Module):
    """With its weights as buffers, so that the compiler may take them for constants."""

    def __init__(self, counterpart):
        super().__init__()
        self.counterpart = counterpart
        self.others = {}
        for name, value in counterpart.values.items():
            if isinstance(value, torch.Tensor) and value.layout == torch.strided:
                self.register_buffer(name, value)
            else:
                self.others[name] = value

    def forward(self, *inputs):
        return self.counterpart.run({**self.others, **dict(self.named_buffers())}, inputs)
