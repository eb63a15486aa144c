# SPDX-License-Identifier: MIT
"""Single operations as ONNX files, for models.py: elementwise functions and chains, rows, reductions, products,
convolution, pooling, and what else networks are made of, at the sizes at which they are usually compared.

    operations.py FOLDER [NAME...]

NAME may be a part of a name: "conv" stands for all convolutions. Needs numpy and onnx from PyPI.
"""
import os
import sys

import numpy as np
from onnx import TensorProto

from networks import Network

FLOAT = TensorProto.FLOAT
MILLION = (1000, 1000)
MILLIONS = (10000, 1000)


def start(name, *shapes):
    return Network(name, [(f"x{i}", FLOAT, list(shape)) for i, shape in enumerate(shapes)], 18)


def unary(operator, **attributes):
    return lambda n: n.node(operator, "x0", **attributes)


def pool(operator, size, stride, pad):
    return lambda n: n.node(operator, "x0", kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)


def conv(out, inner, size=3, stride=1, groups=1, relu=False):
    def build(n):
        y = n.conv("x0", out, inner, size, stride, groups)
        return n.node("Relu", y) if relu else y
    return build


def linear(inner, out, gelu=False):
    def build(n):
        y = n.linear("x0", inner, out)
        return n.gelu(y) if gelu else y
    return build


def chain(n):
    """relu(x · 1.5 + y) · x − y: five instructions."""
    y = n.node("Add", n.node("Mul", "x0", n.constant(np.float32(1.5))), "x1")
    return n.node("Sub", n.node("Mul", n.node("Relu", y), "x0"), "x1")


def attention(n):
    scores = n.node("MatMul", "x0", n.node("Transpose", "x1", perm=[0, 1, 3, 2]))
    scores = n.node("Softmax", n.node("Mul", scores, n.constant(np.float32(0.125))), axis=-1)
    return n.node("MatMul", scores, "x2")


def batch_norm(n):
    channels = 64
    vectors = [n.constant(np.abs(n.random.standard_normal(channels)).astype(np.float32)) for _ in range(4)]
    return n.node("BatchNormalization", "x0", *vectors)


def embedding(n):
    rows = n.constant(n.random.integers(0, 50257, (8, 512)))
    return n.node("Gather", n.weight(50257, 768), n.node("Add", rows, n.node("Cast", "x0", to=TensorProto.INT64)))


HEADS = (8, 12, 128, 64)
OPERATIONS = {
    "exp_1M": (unary("Exp"), MILLION), "exp_10M": (unary("Exp"), MILLIONS),
    "log_1M": (unary("Log"), MILLION),
    "tanh_1M": (unary("Tanh"), MILLION), "tanh_10M": (unary("Tanh"), MILLIONS),
    "sigmoid_1M": (unary("Sigmoid"), MILLION), "sigmoid_10M": (unary("Sigmoid"), MILLIONS),
    "erf_1M": (unary("Erf"), MILLION),
    "gelu_1M": (lambda n: n.gelu("x0"), MILLION), "gelu_10M": (lambda n: n.gelu("x0"), MILLIONS),
    "gelu_tanh_1M": (lambda n: n.gelu_tanh("x0"), MILLION), "gelu_tanh_10M": (lambda n: n.gelu_tanh("x0"), MILLIONS),
    "silu_1M": (lambda n: n.silu("x0"), MILLION), "silu_10M": (lambda n: n.silu("x0"), MILLIONS),
    "add_10M": (lambda n: n.node("Add", "x0", "x1"), MILLIONS, MILLIONS),
    "chain_1M": (chain, MILLION, MILLION), "chain_10M": (chain, MILLIONS, MILLIONS),
    "softmax_32x12x128x128": (unary("Softmax", axis=-1), (32, 12, 128, 128)),
    "softmax_1000x1000": (unary("Softmax", axis=-1), MILLION),
    "layer_norm_4096x768": (lambda n: n.layer_norm("x0", 768), (4096, 768)),
    "layer_norm_4096x4096": (lambda n: n.layer_norm("x0", 4096), (4096, 4096)),
    "sum_all_4096x4096": (unary("ReduceSum", keepdims=0), (4096, 4096)),
    "sum_rows_4096x4096": (lambda n: n.node("ReduceSum", "x0", n.ints(1), keepdims=0), (4096, 4096)),
    "sum_columns_4096x4096": (lambda n: n.node("ReduceSum", "x0", n.ints(0), keepdims=0), (4096, 4096)),
    "top_k_64x50257_k50": (lambda n: n.node("TopK", "x0", n.ints(50), count=2)[0], (64, 50257)),
    "top_k_1000x1000_k10": (lambda n: n.node("TopK", "x0", n.ints(10), count=2)[0], MILLION),
    "batch_norm_32x64x32x32": (batch_norm, (32, 64, 32, 32)),
    "max_pool3x3s2_8x64x112x112": (pool("MaxPool", 3, 2, 1), (8, 64, 112, 112)),
    "avg_pool3x3s2_8x64x112x112": (pool("AveragePool", 3, 2, 1), (8, 64, 112, 112)),
    "max_pool2x2_32x128x128x128": (pool("MaxPool", 2, 2, 0), (32, 128, 128, 128)),
    "avg_pool2x2_32x128x128x128": (pool("AveragePool", 2, 2, 0), (32, 128, 128, 128)),
    "global_avg_pool_32x2048x7x7": (unary("GlobalAveragePool"), (32, 2048, 7, 7)),
    "depthwise3x3_8x128x56x56": (conv(128, 128, groups=128), (8, 128, 56, 56)),
    "depthwise3x3s2_8x128x56x56": (conv(128, 128, stride=2, groups=128), (8, 128, 56, 56)),
    "conv3x3_8x512x7x7_512": (conv(512, 512), (8, 512, 7, 7)),
    "conv3x3_1x32x64x64_64": (conv(64, 32), (1, 32, 64, 64)),
    "conv3x3_8x64x56x56_64": (conv(64, 64), (8, 64, 56, 56)),
    "conv3x3_8x64x56x56_64_relu": (conv(64, 64, relu=True), (8, 64, 56, 56)),
    "conv3x3s2_8x128x56x56_128": (conv(128, 128, stride=2), (8, 128, 56, 56)),
    "conv1x1_8x256x56x56_64": (conv(64, 256, 1), (8, 256, 56, 56)),
    "conv1x1_8x64x56x56_256": (conv(256, 64, 1), (8, 64, 56, 56)),
    "conv7x7s2_8x3x224x224_64": (conv(64, 3, 7, 2), (8, 3, 224, 224)),
    "linear_1x4096x4096": (linear(4096, 4096), (1, 4096)),
    "linear_8x4096x4096": (linear(4096, 4096), (8, 4096)),
    "linear_128x768x3072": (linear(768, 3072), (128, 768)),
    "linear_1024": (linear(1024, 1024), (1024, 1024)),
    "linear_gelu_512": (linear(512, 512, True), (512, 512)),
    "matmul_64": (lambda n: n.node("MatMul", "x0", "x1"), (64, 64), (64, 64)),
    "matmul_1024": (lambda n: n.node("MatMul", "x0", "x1"), (1024, 1024), (1024, 1024)),
    "matmul_64x(64x64x64)": (lambda n: n.node("MatMul", "x0", "x1"), (64, 64, 64), (64, 64, 64)),
    "attention_8x12x128x64": (attention, HEADS, HEADS, HEADS),
    "transpose_4096x4096": (unary("Transpose", perm=[1, 0]), (4096, 4096)),
    "nchw_to_nhwc_32x64x56x56": (unary("Transpose", perm=[0, 2, 3, 1]), (32, 64, 56, 56)),
    "cumsum_1000x10000": (lambda n: n.node("CumSum", "x0", n.ints(1)), (1000, 10000)),
    "concat_2x(32x64x56x56)": (lambda n: n.node("Concat", "x0", "x1", axis=1), (32, 64, 56, 56), (32, 64, 56, 56)),
    "embedding_50257x768_8x512": (embedding, (1,)),
}


def main():
    folder, parts = sys.argv[1], sys.argv[2:] or [""]
    os.makedirs(folder, exist_ok=True)
    for name, (build, *shapes) in OPERATIONS.items():
        if any(part in name for part in parts):
            n = start(name, *shapes)
            n.output(build(n), "y")
            n.save(folder)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
