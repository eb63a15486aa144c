# SPDX-License-Identifier: MIT
"""The extension linalg of the array API standard, for arrays and for nodes, over the operations of compute/linalg.h.

Matrices are the last two axes. A matrix without a result, such as the inverse of a singular one, gives NaN and raises
nothing. The package's own functions, such as libcompute.solve, also return a status for each matrix."""
import builtins
import collections
import math

import numpy

from libcompute import _core
from libcompute._create import eye
from libcompute._dtypes import int64
from libcompute._standard import (broadcast_shapes, broadcast_to, matmul, matrix_transpose, max, min, reshape,
                                  roll, sum, tensordot, vecdot)

__all__ = ["cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
           "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
           "trace", "vecdot", "vector_norm"]

EighResult = collections.namedtuple("EighResult", "eigenvalues eigenvectors")
QRResult = collections.namedtuple("QRResult", "Q R")
SlogdetResult = collections.namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = collections.namedtuple("SVDResult", "U S Vh")


# ---- Systems and factors -----------------------------------------------------------------------------------------


def cholesky(x, /, *, upper=False):
    """The lower factor L of a symmetric, positive definite matrix: x = L Lᵀ; or its transpose."""
    lower = _core.cholesky(x)[0]
    return matrix_transpose(lower) if upper else lower


def solve(x1, x2, /):
    """The x with x1 x = x2. Only an x2 with a single axis is a vector."""
    return _core.solve(x1, x2)[0]


def inv(x, /):
    """The inverse."""
    return _core.inverse(x)[0]


def det(x, /):
    """The determinant."""
    return _core.determinant(x)


def slogdet(x, /):
    """The sign of the determinant, and the logarithm of its absolute value."""
    logarithm, sign = _core.log_determinant(x)
    return SlogdetResult(sign, logarithm)


def qr(x, /, *, mode="reduced"):
    """x = Q R with orthonormal columns in Q; with the mode "complete" Q is square."""
    if mode not in ("reduced", "complete"):
        raise ValueError('mode is "reduced" or "complete"')
    return QRResult(*_core.qr(x, mode == "complete")[:2])


def eigh(x, /):
    """The eigenvalues of a symmetric matrix in ascending order, and a vector in each column."""
    return EighResult(*_core.eigh(x)[:2])


def eigvalsh(x, /):
    """The eigenvalues of a symmetric matrix in ascending order."""
    return _core.eigh(x)[0]


def svd(x, /, *, full_matrices=True):
    """x = U diag(S) Vh, with S in descending order."""
    return SVDResult(*_core.svd(x, full_matrices)[:3])


def svdvals(x, /):
    """The singular values in descending order."""
    return _core.singular_values(x)[0]


def _above(values, rtol):
    """Which singular values are above `rtol` times the largest one; a number, or an array of a number per matrix."""
    limit = rtol[..., None] if isinstance(rtol, (_core.Array, _core.Node)) and rtol.ndim else rtol
    return _core.greater(values, _core.mul(values[..., :1], limit))


def _tolerance(rtol):
    """For the library: a negative number stands for its own. No value is above the largest one."""
    return -1.0 if rtol is None else builtins.min(builtins.max(float(rtol), 0.0), 1.0)


def matrix_rank(x, /, *, rtol=None):
    """The number of singular values above `rtol` times the largest one."""
    if rtol is None or isinstance(rtol, (int, float)):
        return _core.cast(_core.matrix_rank(x, _tolerance(rtol)), int64)
    return _core.sum(_core.cast(_above(svdvals(x), rtol), int64), -1)


def pinv(x, /, *, rtol=None):
    """The pseudo-inverse. Singular values up to `rtol` times the largest one count as 0."""
    if rtol is None or isinstance(rtol, (int, float)):
        return _core.pseudo_inverse(x, _tolerance(rtol))
    u, s, vh = svd(x, full_matrices=False)
    scale = _core.select(_above(s, rtol), _core.reciprocal(s), 0.0)
    return matmul(matrix_transpose(vh) * scale[..., None, :], matrix_transpose(u))


def _identity(x):
    one = eye(x.shape[-1], dtype=x.dtype, device=x.device) if isinstance(x, _core.Array) else \
        _core.cast(x.graph.constant(numpy.eye(x.shape[-1])), x.dtype)
    return broadcast_to(one, x.shape)


def matrix_power(x, n, /):
    """The product of n matrices x; for n < 0 of inverses."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError("a power needs square matrices")
    if n < 0:
        return matrix_power(inv(x), -n)
    made = None
    while n:
        if n & 1:
            made = x if made is None else matmul(made, x)
        n >>= 1
        x = matmul(x, x) if n else x
    return _identity(x) if made is None else made


# ---- Diagonals and products --------------------------------------------------------------------------------------


def diagonal(x, /, *, offset=0):
    """The elements [i, i + offset] of each matrix."""
    if x.ndim < 2:
        raise ValueError("a matrix has two axes")
    rows, columns = x.shape[-2:]
    top, left = builtins.max(-offset, 0), builtins.max(offset, 0)
    size = builtins.max(builtins.min(rows - top, columns - left), 0)
    top, left = builtins.min(top, rows), builtins.min(left, columns)
    square = x[..., top:top + size, left:left + size]
    return reshape(square, (*x.shape[:-2], size * size))[..., ::size + 1]


def trace(x, /, *, offset=0, dtype=None):
    """The sum of a diagonal."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def outer(x1, x2, /):
    """The products of all pairs of elements of two vectors."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError("outer takes vectors")
    return _core.mul(x1[:, None], x2[None, :])


def cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors with three elements along an axis."""
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError("a cross product needs three elements")
    shape = broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = broadcast_to(x1, shape), broadcast_to(x2, shape)
    return roll(x1, -1, axis=axis) * roll(x2, -2, axis=axis) - roll(x1, -2, axis=axis) * roll(x2, -1, axis=axis)


# ---- Norms -------------------------------------------------------------------------------------------------------

KINDS = {"fro": "frobenius", "nuc": "nuclear", 2: "spectral", 1: "one", math.inf: "infinity"}


def matrix_norm(x, /, *, keepdims=False, ord="fro"):  # pylint: disable=redefined-builtin
    """A norm of each matrix: "fro", "nuc", ±1, ±2 or ±inf. An empty matrix has norm 0."""
    if ord in KINDS:
        made = _core.matrix_norm(x, KINDS[ord])
    elif ord not in (-1, -2, -math.inf):
        raise ValueError(f"there is no norm {ord!r}")
    elif 0 in x.shape[-2:]:
        made = _core.matrix_norm(x, "frobenius")
    elif ord == -2:
        made = svdvals(x)[..., -1]
    else:
        made = min(sum(_core.abs(x), axis=-2 if ord == -1 else -1), axis=-1)
    return reshape(made, (*made.shape, 1, 1)) if keepdims else made


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):  # pylint: disable=redefined-builtin
    """The norm of all elements, or of those along axes, of any order."""
    size = _core.abs(x)
    if ord in (math.inf, -math.inf):
        return (max if ord > 0 else min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return sum(_core.cast(_core.not_equal(x, 0), x.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return _core.sqrt(sum(_core.square(x), axis=axis, keepdims=keepdims))
    return _core.pow(sum(_core.pow(size, float(ord)), axis=axis, keepdims=keepdims), 1.0 / ord)
