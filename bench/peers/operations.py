# SPDX-License-Identifier: MIT
"""Single operations, for compare.py and as ONNX files for models.py: products, elementwise functions and chains, rows,
reductions, convolution, pooling, and what else networks are made of, at the sizes at which they are usually compared.

    operations.py FOLDER [NAME...]

NAME may be a part of a name: "conv" stands for all convolutions. Needs numpy and onnx from PyPI.
"""
import os
import sys

import numpy as np
from onnx import TensorProto

from networks import Network

FLOAT, DOUBLE, HALF, BFLOAT = (getattr(TensorProto, name) for name in ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"))
MILLION = (1000, 1000)
MILLIONS = (10000, 1000)


class Operation:
    """A row: its function, and the shapes of its inputs."""

    def __init__(self, build, *shapes, dtype=FLOAT):
        self.build, self.shapes, self.dtype = build, shapes, dtype

    def make(self, name, kind=Network):
        n = kind(name, [(f"x{i}", self.dtype, list(shape)) for i, shape in enumerate(self.shapes)], 18)
        n.output(self.build(n), "y", self.dtype)
        return n


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


def attention(size, causal=0):
    return lambda n: n.attend("x0", "x1", "x2", size, causal=causal)


def vectors(n, channels):
    return [n.constant(np.abs(n.random.standard_normal(channels)).astype(np.float32)) for _ in range(4)]


def batch_norm(channels):
    return lambda n: n.node("BatchNormalization", "x0", *vectors(n, channels))


def conv_norm_relu(n):
    return n.node("Relu", n.node("BatchNormalization", n.conv("x0", 64, 64), *vectors(n, 64)))


def embedding(n):
    rows = n.constant(n.random.integers(0, 50257, (8, 512)))
    return n.node("Gather", n.weight(50257, 768), n.node("Add", rows, n.node("Cast", "x0", to=TensorProto.INT64)))


def gather_elements(n):
    return n.node("GatherElements", "x0", n.constant(n.random.integers(0, 4096, (4096, 4096))), axis=1)


def scatter_add(n):
    return n.node("ScatterND", "x0", n.constant(n.random.integers(0, 50257, (4096, 1))), "x1", reduction="add")


def reduce(axis):
    return lambda n: n.node("ReduceSum", "x0", n.ints(axis), keepdims=0)


def top_k(k):
    return lambda n: n.node("TopK", "x0", n.ints(k), count=2)[0]


def cumsum(axis):
    return lambda n: n.node("CumSum", "x0", n.ints(axis))


def product(m, k, n, *leading, dtype=FLOAT):
    return Operation(lambda graph: graph.node("MatMul", "x0", "x1"), (*leading, m, k), (*leading, k, n), dtype=dtype)


def square(n, dtype=FLOAT):
    return product(n, n, n, dtype=dtype)


def dense(rows, inner, out, gelu=False):
    return Operation(linear(inner, out, gelu), (rows, inner))


HEADS, LONG = (8, 12, 128, 64), (1, 12, 1024, 64)
PLANES = (32, 64, 56, 56)
OPERATIONS = {
    **{f"sgemm_{n}": square(n) for n in (64, 128, 256, 512, 1024, 2048, 4096)},
    "sgemm_128x512x784": product(128, 784, 512), "sgemm_1x4096x4096": product(1, 4096, 4096),
    "sgemm_8x4096x4096": product(8, 4096, 4096), "sgemm_64x(64x64x64)": product(64, 64, 64, 64),
    "dgemm_1024": square(1024, DOUBLE), "gemm_1024_f16": square(1024, HALF), "gemm_1024_bf16": square(1024, BFLOAT),
    "linear_1x4096x4096": dense(1, 4096, 4096), "linear_8x4096x4096": dense(8, 4096, 4096),
    "linear_128x768x3072": dense(128, 768, 3072), "linear_128x512x784": dense(128, 784, 512),
    "linear_1024": dense(1024, 1024, 1024),
    **{f"matmul_bias_gelu_{n}": dense(n, n, n, True) for n in (512, 1024, 2048)},
    **{f"{name}_{size}": Operation(build, shape) for size, shape in (("1M", MILLION), ("10M", MILLIONS))
       for name, build in (("exp", unary("Exp")), ("log", unary("Log")), ("tanh", unary("Tanh")),
                           ("sigmoid", unary("Sigmoid")), ("silu", lambda n: n.silu("x0")), ("erf", unary("Erf")),
                           ("gelu", lambda n: n.gelu("x0")), ("gelu_tanh", lambda n: n.gelu_tanh("x0")))},
    "add_10M": Operation(lambda n: n.node("Add", "x0", "x1"), MILLIONS, MILLIONS),
    "add_100M": Operation(lambda n: n.node("Add", "x0", "x1"), (100000, 1000), (100000, 1000)),
    "chain_1M": Operation(chain, MILLION, MILLION), "chain_10M": Operation(chain, MILLIONS, MILLIONS),
    "softmax_32x12x128x128": Operation(unary("Softmax", axis=-1), (32, 12, 128, 128)),
    "softmax_1000x1000": Operation(unary("Softmax", axis=-1), MILLION),
    "softmax_1x1000000": Operation(unary("Softmax", axis=-1), (1, 1000000)),
    "layer_norm_4096x768": Operation(lambda n: n.layer_norm("x0", 768), (4096, 768)),
    "layer_norm_4096x4096": Operation(lambda n: n.layer_norm("x0", 4096), (4096, 4096)),
    "sum_all_4096x4096": Operation(unary("ReduceSum", keepdims=0), (4096, 4096)),
    "sum_rows_4096x4096": Operation(reduce(1), (4096, 4096)),
    "sum_columns_4096x4096": Operation(reduce(0), (4096, 4096)),
    "cumsum_1000x10000_axis0": Operation(cumsum(0), (1000, 10000)),
    "cumsum_1000x10000_axis1": Operation(cumsum(1), (1000, 10000)),
    "top_k_64x50257_k50": Operation(top_k(50), (64, 50257)), "top_k_1000x1000_k10": Operation(top_k(10), MILLION),
    "top_k_1x1000000_k100": Operation(top_k(100), (1, 1000000)),
    "batch_norm_32x64x32x32": Operation(batch_norm(64), (32, 64, 32, 32)),
    "max_pool3x3s2_8x64x112x112": Operation(pool("MaxPool", 3, 2, 1), (8, 64, 112, 112)),
    "avg_pool3x3s2_8x64x112x112": Operation(pool("AveragePool", 3, 2, 1), (8, 64, 112, 112)),
    "max_pool2x2_32x128x128x128": Operation(pool("MaxPool", 2, 2, 0), (32, 128, 128, 128)),
    "avg_pool2x2_32x128x128x128": Operation(pool("AveragePool", 2, 2, 0), (32, 128, 128, 128)),
    "global_avg_pool_32x2048x7x7": Operation(unary("GlobalAveragePool"), (32, 2048, 7, 7)),
    "depthwise3x3_8x128x56x56": Operation(conv(128, 128, groups=128), (8, 128, 56, 56)),
    "depthwise3x3s2_8x128x56x56": Operation(conv(128, 128, stride=2, groups=128), (8, 128, 56, 56)),
    "conv3x3_8x512x7x7_512": Operation(conv(512, 512), (8, 512, 7, 7)),
    "conv3x3_1x32x64x64_64": Operation(conv(64, 32), (1, 32, 64, 64)),
    "conv3x3_8x64x56x56_64": Operation(conv(64, 64), (8, 64, 56, 56)),
    "conv3x3_8x64x56x56_64_relu": Operation(conv(64, 64, relu=True), (8, 64, 56, 56)),
    "conv3x3_8x64x56x56_64_bn_relu": Operation(conv_norm_relu, (8, 64, 56, 56)),
    "conv3x3_32x64x128x128_128": Operation(conv(128, 64), (32, 64, 128, 128)),
    "conv3x3s2_8x128x56x56_128": Operation(conv(128, 128, stride=2), (8, 128, 56, 56)),
    "conv1x1_8x256x56x56_64": Operation(conv(64, 256, 1), (8, 256, 56, 56)),
    "conv1x1_8x64x56x56_256": Operation(conv(256, 64, 1), (8, 64, 56, 56)),
    "conv7x7s2_8x3x224x224_64": Operation(conv(64, 3, 7, 2), (8, 3, 224, 224)),
    "attention_8x12x128x64": Operation(attention(64), HEADS, HEADS, HEADS),
    "attention_causal_1x12x1024x64": Operation(attention(64, 1024), LONG, LONG, LONG),
    "transpose_4096x4096": Operation(unary("Transpose", perm=[1, 0]), (4096, 4096)),
    "nchw_to_nhwc_32x64x56x56": Operation(unary("Transpose", perm=[0, 2, 3, 1]), PLANES),
    "nhwc_to_nchw_32x56x56x64": Operation(unary("Transpose", perm=[0, 3, 1, 2]), (32, 56, 56, 64)),
    "concat_2x(32x64x56x56)": Operation(lambda n: n.node("Concat", "x0", "x1", axis=1), PLANES, PLANES),
    "gather_elements_4096x4096": Operation(gather_elements, (4096, 4096)),
    "scatter_add_50257x768_4096": Operation(scatter_add, (50257, 768), (4096, 768)),
    "embedding_50257x768_8x512": Operation(embedding, (1,)),
}


def main():
    folder, parts = sys.argv[1], sys.argv[2:] or [""]
    os.makedirs(folder, exist_ok=True)
    for name, operation in OPERATIONS.items():
        if any(part in name for part in parts):
            operation.make(name).save(folder)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
