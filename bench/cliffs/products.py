# SPDX-License-Identifier: MIT
"""Cases of matrix products and of arithmetic with 8 bits."""

import numpy as np

from elementwise import any_shape, partner
from layers import WORK
from registry import draws, split


def sizes(d, batched=True):
    """(batch, m, k, n), of at most WORK multiplications."""
    batch = d.limit([d.size(1, 64) for _ in range(d.pick(0, 1, 2, weights=(4, 2, 1)))], 512) if batched else []
    m, k, n = (d.size(1, 2048) for _ in range(3))
    while np.prod([float(v) for v in (*batch, m, k, n)]) > WORK or max(m * k, k * n, m * n) * np.prod(batch) > 1 << 21:
        m, k, n = (size // 2 if size == max(m, k, n) else size for size in (m, k, n))
    return batch, m, k, n


def scaled(n, shape, dtype="float32"):
    return (n.random.standard_normal(shape) / np.sqrt(shape[-2])).astype(dtype)


@draws("MatMul", weight=14)
def matmul(n, operator):
    d = n.d
    batch, m, k, columns = sizes(d)
    dtype = d.pick("float32", "float16", "float64", weights=(10, 1, 1))
    shared = not batch or d.chance()
    b = scaled(n, [k, columns] if shared else [*batch, k, columns], dtype)
    x = n.x([*batch, m, k], dtype)
    w = n.made(b) if dtype == "float32" and shared else n.either(b)
    n.result((n.node(operator, x, w), dtype))


@draws("Gemm", weight=6)
def gemm(n, operator):
    d = n.d
    _, m, k, columns = sizes(d, False)
    ta, tb = d.pick(0, 1, weights=(4, 1)), d.pick(1, 0)
    x = n.x([k, m] if ta else [m, k])
    w = n.made(scaled(n, [k, columns]).T if tb else scaled(n, [k, columns]))
    c = [n.constant(n.values(d.pick([columns], [m, 1], [m, columns], weights=(5, 1, 1))))] if d.chance(0.7) else []
    n.result(n.node(operator, x, w, *c, transA=ta, transB=tb))


@draws("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def fused_matmul(n, operator):
    operator, domain = split(operator)
    batch, m, k, columns = sizes(n.d)
    n.result(
        n.node(operator, n.x([*batch, m, k]), n.either(scaled(n, [*batch, columns, k])), transB=1, alpha=0.5, **domain)
    )


@draws("com.microsoft.FusedGemm")
def fused_gemm(n, operator):
    operator, domain = split(operator)
    _, m, k, columns = sizes(n.d, False)
    n.result(
        n.node(
            operator,
            n.x([m, k]),
            n.constant(scaled(n, [k, columns])),
            n.constant(n.values([columns])),
            activation="Relu",
            **domain,
        )
    )


def bytes_of(n, shape, dtype):
    return n.values(shape, dtype)


@draws("MatMulInteger", weight=3)
def matmul_integer(n, operator):
    batch, m, k, columns = sizes(n.d)
    w = n.constant(bytes_of(n, [k, columns], n.d.pick("uint8", "int8")))
    n.result((n.node(operator, n.x([*batch, m, k], "uint8"), w, n.constant(np.uint8(128))), "int32"))


@draws("QLinearMatMul", weight=3)
def matmul_bytes(n, operator):
    n.loose = True
    batch, m, k, columns = sizes(n.d)
    small = [n.constant(np.float32(0.02)), n.constant(np.uint8(128))]
    w = [n.constant(bytes_of(n, [k, columns], "int8")), n.constant(np.float32(0.01)), n.constant(np.int8(0))]
    out = [n.constant(np.float32(0.02 * np.sqrt(k))), n.constant(np.uint8(128))]
    n.result((n.node(operator, n.x([*batch, m, k], "uint8"), *small, *w, *out), "uint8"))


@draws("com.microsoft.QGemm")
def gemm_bytes(n, operator):
    operator, domain = split(operator)
    n.loose = True
    _, m, k, columns = sizes(n.d, False)
    x = [n.x([m, k], "uint8"), n.constant(np.float32(0.02)), n.constant(np.uint8(128))]
    w = [n.constant(bytes_of(n, [k, columns], "int8")), n.constant(np.float32(0.01)), n.constant(np.int8(0))]
    n.result(
        (
            n.node(
                operator, *x, *w, "", n.constant(np.float32(0.02 * np.sqrt(k))), n.constant(np.uint8(128)), **domain
            ),
            "uint8",
        )
    )


@draws("com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeMatMul")
def matmul_to_float(n, operator):
    operator, domain = split(operator)
    n.loose = True
    _, m, k, columns = sizes(n.d, False)
    w, scale = n.constant(bytes_of(n, [k, columns], "int8")), n.constant(np.float32(0.01))
    if operator == "DynamicQuantizeMatMul":
        inputs = [n.x([m, k]), w, scale, n.constant(np.int8(0))]
    else:
        inputs = [
            n.x([m, k], "uint8"),
            w,
            n.constant(np.float32(0.02)),
            scale,
            n.constant(np.uint8(128)),
            n.constant(np.int8(0)),
        ]
    n.result(n.node(operator, *inputs, **domain))


@draws("com.microsoft.MatMulNBits", weight=3)
def matmul_bits(n, operator):
    operator, domain = split(operator)
    n.loose = True
    d, block, bits = n.d, n.d.pick(32, 64, 128), n.d.pick(4, 8)
    _, m, k, columns = sizes(d, False)
    k = -(-k // block) * block
    w = n.constant(n.random.integers(0, 256, (columns, k // block, block * bits // 8)).astype(np.uint8))
    scales = n.constant((n.random.random((columns, k // block)) * 0.01 + 0.001).astype(np.float32))
    n.result(n.node(operator, n.x([m, k]), w, scales, K=k, N=columns, bits=bits, block_size=block, **domain))


@draws("com.microsoft.GatherBlockQuantized")
def gather_bits(n, operator):
    operator, domain = split(operator)
    rows, columns = n.d.size(1, 4096), 32 * n.d.size(1, 16)
    where = n.feed(n.random.integers(0, rows, n.d.size(1, 256)))
    w = n.constant(n.random.integers(0, 256, (rows, columns // 2)).astype(np.uint8))
    scales = n.constant((n.random.random((rows, columns // 32)) * 0.01).astype(np.float32))
    n.result(n.node(operator, w, where, scales, gather_axis=0, quantize_axis=1, block_size=32, bits=4, **domain))


EQUATIONS = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "bij,bkj->bik",
    "bhid,bhjd->bhij",
    "bhij,bhjd->bhid",
    "ij,ij->i",
    "i,j->ij",
    "bij,j->bi",
    "bijk,kl->bijl",
    "ii->i",
    "ij->ji",
    "bchw,cd->bdhw",
)


@draws("Einsum", weight=3)
def einsum(n, operator):
    equation = n.d.pick(*EQUATIONS)
    size = {}
    for letter in sorted(set(equation) - set(",->")):
        size[letter] = n.d.size(1, 64)
    terms = [[size[letter] for letter in term] for term in equation.split("->")[0].split(",")]
    total = float(np.prod([float(v) for v in size.values()]))
    if total > 4 * WORK:
        terms = [[min(v, 16) for v in term] for term in terms]
    n.result(n.node(operator, *[n.x(term) for term in terms], equation=equation))


@draws("Det")
def determinant(n, operator):
    size = n.d.size(1, 32)
    n.result(n.node(operator, n.x([n.d.size(1, 256), size, size])))


# ---- 8 bits -----------------------------------------------------------------------------------


@draws("QuantizeLinear", "DequantizeLinear", "com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear")
def quantize(n, operator):
    operator, domain = split(operator)
    shape, dtype = any_shape(n), n.d.pick("uint8", "int8")
    per_axis = len(shape) > 1 and not domain and n.d.chance(0.4)
    count = shape[1] if per_axis else ()
    scale, zero = n.constant(np.full(count, 0.02, np.float32)), n.constant(np.zeros(count, dtype))
    axis, n.loose = {"axis": 1} if per_axis else {}, True
    if operator == "QuantizeLinear":
        n.result((n.node(operator, n.x(shape), scale, zero, **axis, **domain), dtype))
    else:
        n.result(n.node(operator, n.x(shape, dtype), scale, zero, **axis, **domain))


@draws("DynamicQuantizeLinear")
def dynamic(n, operator):
    n.loose = True
    values, scale, _ = n.node(operator, n.x(any_shape(n)), count=3)
    n.result((values, "uint8"), scale)


def byte(n):
    return [n.constant(np.float32(0.02)), n.constant(np.uint8(128))]


@draws("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def byte_pairs(n, operator):
    operator, domain = split(operator)
    n.loose = True
    a, b = partner(n.d, any_shape(n))
    x, y = n.x(a, "uint8"), n.either(n.values(b, "uint8"))
    n.result((n.node(operator, x, *byte(n), y, *byte(n), *byte(n), **domain), "uint8"))


@draws("com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearSoftmax")
def byte_unary(n, operator):
    operator, domain = split(operator)
    n.loose = True
    more = {"opset": 13, "axis": -1} if operator == "QLinearSoftmax" else {}
    n.result((n.node(operator, n.x(any_shape(n), "uint8"), *byte(n), *byte(n), **more, **domain), "uint8"))


@draws("com.microsoft.QLinearAveragePool", "com.microsoft.QLinearGlobalAveragePool")
def byte_pool(n, operator):
    operator, domain = split(operator)
    n.loose = True
    shape = n.d.limit([1, n.d.size(1, 128), n.d.size(3, 64), n.d.size(3, 64)], 1 << 18)
    more = {"kernel_shape": [3, 3], "strides": [2, 2]} if operator == "QLinearAveragePool" else {"channels_last": 0}
    n.result((n.node(operator, n.x(shape, "uint8"), *byte(n), *byte(n), **more, **domain), "uint8"))


@draws("com.microsoft.QLinearConcat")
def byte_concat(n, operator):
    operator, domain = split(operator)
    n.loose = True
    shape = any_shape(n, 1 << 18)
    parts = [part for _ in range(n.d.pick(2, 3)) for part in (n.x(shape, "uint8"), *byte(n))]
    n.result((n.node(operator, *byte(n), *parts, axis=len(shape) - 1, **domain), "uint8"))


@draws("com.microsoft.QLinearWhere")
def byte_where(n, operator):
    operator, domain = split(operator)
    n.loose = True
    shape = any_shape(n)
    condition, x, y = n.x(shape, "bool"), n.x(shape, "uint8"), n.x(shape, "uint8")
    n.result((n.node(operator, condition, x, *byte(n), y, *byte(n), *byte(n), **domain), "uint8"))
