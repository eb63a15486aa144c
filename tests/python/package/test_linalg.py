# SPDX-License-Identifier: MIT
"""The namespaces linalg and fft: against NumPy, for arrays and for nodes."""
import numpy as np
import pytest

import libcompute as lc

F64 = {"rtol": 1e-9, "atol": 1e-11}


def both(function, *values, **options):
    """The results for arrays, after a check that nodes give the same."""
    found = function(*(lc.asarray(value) for value in values), **options)
    graph = lc.Graph()
    nodes = [graph.input(value.shape, lc.asarray(value).dtype) for value in values]
    made = function(*nodes, **options)
    plan = graph.compile(list(made) if isinstance(made, tuple) else [made])
    again = plan.run(dict(zip(nodes, values)))
    for one, other in zip(found if isinstance(found, tuple) else (found,), again):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    return found


def symmetric(random, *shape):
    a = random.standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


def test_systems_and_factors(random):
    a, b = random.standard_normal((2, 5, 5)), random.standard_normal((2, 5, 3))
    s = symmetric(random, 2, 4, 4)
    np.testing.assert_allclose(both(lc.linalg.solve, a, b).numpy(), np.linalg.solve(a, b), **F64)
    np.testing.assert_allclose(both(lc.linalg.solve, a, b[0, :, 0]).numpy(), np.linalg.solve(a, b[:1, :, :1])[..., 0], **F64)
    np.testing.assert_allclose(both(lc.linalg.inv, a).numpy(), np.linalg.inv(a), **F64)
    np.testing.assert_allclose(both(lc.linalg.det, a).numpy(), np.linalg.det(a), **F64)
    sign, logarithm = both(lc.linalg.slogdet, a)
    for found, right in zip((sign, logarithm), np.linalg.slogdet(a)):
        np.testing.assert_allclose(found.numpy(), right, **F64)
    lower = both(lc.linalg.cholesky, s).numpy()
    np.testing.assert_allclose(lower, np.linalg.cholesky(s), **F64)
    assert (both(lc.linalg.cholesky, s, upper=True).numpy() == np.swapaxes(lower, -1, -2)).all()
    values, vectors = both(lc.linalg.eigh, s)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(s), **F64)
    np.testing.assert_allclose(s @ vectors.numpy(), vectors.numpy() * values.numpy()[:, None], **F64)
    assert (both(lc.linalg.eigvalsh, s).numpy() == values.numpy()).all()


@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5)])
def test_factors_of_all_shapes(random, shape):
    a = random.standard_normal(shape)
    for mode in ("reduced", "complete"):
        q, r = both(lc.linalg.qr, a, mode=mode)
        np.testing.assert_allclose(q.numpy() @ r.numpy(), a, **F64)
        assert q.shape == np.linalg.qr(a, mode)[0].shape
    for full in (True, False):
        u, s, vh = both(lc.linalg.svd, a, full_matrices=full)
        size = min(shape[-2:])
        np.testing.assert_allclose((u.numpy()[..., :size] * s.numpy()[..., None, :]) @ vh.numpy()[..., :size, :], a, **F64)
        np.testing.assert_allclose(s.numpy(), np.linalg.svd(a, compute_uv=False), **F64)
        assert vh.shape == np.linalg.svd(a, full)[2].shape
    np.testing.assert_allclose(both(lc.linalg.svdvals, a).numpy(), s.numpy(), **F64)
    np.testing.assert_allclose(both(lc.linalg.pinv, a).numpy(), np.linalg.pinv(a), **F64)
    rtol = np.full(shape[:-2], 0.4)
    np.testing.assert_allclose(both(lc.linalg.pinv, a, rtol=0.4).numpy(), np.linalg.pinv(a, 0.4), **F64)
    np.testing.assert_allclose(lc.linalg.pinv(lc.asarray(a), rtol=lc.asarray(rtol)).numpy(), np.linalg.pinv(a, 0.4), **F64)
    for given in (0.4, lc.asarray(rtol)):
        rank = lc.linalg.matrix_rank(lc.asarray(a), rtol=given)
        assert rank.dtype is lc.int64
        singular = np.linalg.svd(a, compute_uv=False)
        assert (rank.numpy() == (singular > 0.4 * singular[..., :1]).sum(-1)).all()


def test_a_matrix_without_a_result_is_nan():
    a = np.array([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 2.0]]])
    found = lc.linalg.inv(lc.asarray(a)).numpy()
    assert np.isnan(found[0]).all() and (found[1] == np.eye(2) / 2).all()
    assert lc.inverse(lc.asarray(a))[1].tolist() == [2, 0]


def test_powers_norms_and_diagonals(random):
    a = random.standard_normal((2, 4, 4))
    for n in (-3, 0, 1, 2, 7):
        found = both(lambda x, n=n: lc.linalg.matrix_power(x, n), a)
        np.testing.assert_allclose(found.numpy(), np.linalg.matrix_power(a, n), rtol=1e-7, atol=1e-9)
    b = random.standard_normal((3, 4, 6))
    for ord_ in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for keep in (False, True):
            np.testing.assert_allclose(both(lc.linalg.matrix_norm, b, ord=ord_, keepdims=keep).numpy(),
                                       np.linalg.norm(b, ord_, (-2, -1), keep), **F64)
    for ord_ in (0, 1, 2, 3, 2.5, np.inf, -np.inf, -1):
        for axis, vectors in ((None, b.ravel()), (1, b.swapaxes(1, 2)), ((0, 2), b.swapaxes(0, 1).reshape(4, 18))):
            np.testing.assert_allclose(both(lc.linalg.vector_norm, b, ord=ord_, axis=axis).numpy(),
                                       np.linalg.norm(vectors, ord_, -1), **F64)
    c = random.integers(-9, 9, (2, 4, 6))
    for offset in range(-5, 8):
        assert (both(lc.linalg.diagonal, c, offset=offset).numpy() == np.diagonal(c, offset, 1, 2)).all()
        assert (both(lc.linalg.trace, c, offset=offset).numpy() == np.trace(c, offset, 1, 2)).all()


def test_products(random):
    a, b = random.integers(-9, 9, (4, 3)), random.integers(-9, 9, (5, 4, 3))
    assert (both(lc.linalg.cross, a, b).numpy() == np.cross(a, b)).all()
    assert (both(lc.linalg.outer, a[:, 0], b[0, 0]).numpy() == np.outer(a[:, 0], b[0, 0])).all()
    assert (both(lc.linalg.vecdot, a, b).numpy() == (a * b).sum(-1)).all()
    for wrong in (lambda: lc.linalg.cross(lc.asarray(a), lc.asarray(b), axis=0),
                  lambda: lc.linalg.outer(lc.asarray(a), lc.asarray(a)),
                  lambda: lc.linalg.vecdot(lc.asarray(a), lc.asarray(a[:, :1])),
                  lambda: lc.linalg.matrix_power(lc.asarray(a), 2), lambda: lc.linalg.qr(lc.asarray(a), mode="raw")):
        with pytest.raises(ValueError):
            wrong()


# ---- Fourier transforms ------------------------------------------------------------------------------------------


def parts(x):
    return np.stack([x.real, x.imag], -1)


def whole(x):
    x = x.numpy()
    return x[..., 0] + 1j * x[..., 1]


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms(random, norm):
    x = random.standard_normal((4, 6, 5)) + 1j * random.standard_normal((4, 6, 5))
    for axis, n in ((-1, None), (0, 7), (1, 4)):
        options = {"axis": axis, "n": n, "norm": norm}
        for name in ("fft", "ifft"):
            found = whole(both(getattr(lc.fft, name), parts(x), **options))
            np.testing.assert_allclose(found, getattr(np.fft, name)(x, **options), **F64)
        for name in ("rfft", "ihfft"):
            found = whole(both(getattr(lc.fft, name), x.real, **options))
            np.testing.assert_allclose(found, getattr(np.fft, name)(x.real, **options), **F64)
        for name in ("irfft", "hfft"):
            found = both(getattr(lc.fft, name), parts(x), **options).numpy()
            np.testing.assert_allclose(found, getattr(np.fft, name)(x, **options), **F64)


@pytest.mark.parametrize("s, axes", [(None, None), (None, (0, 2)), ((3, 8), (2, 0)), (None, (1,))])
def test_transforms_along_several_axes(random, s, axes):
    x = random.standard_normal((4, 6, 5)) + 1j * random.standard_normal((4, 6, 5))
    options = {"axes": axes, "s": s, "norm": "ortho"}
    for name in ("fftn", "ifftn"):
        np.testing.assert_allclose(whole(both(getattr(lc.fft, name), parts(x), **options)),
                                   getattr(np.fft, name)(x, **options), **F64)
    np.testing.assert_allclose(whole(both(lc.fft.rfftn, x.real, **options)), np.fft.rfftn(x.real, **options), **F64)
    np.testing.assert_allclose(both(lc.fft.irfftn, parts(x), **options).numpy(), np.fft.irfftn(x, **options), **F64)


def test_transforms_along_four_axes(random):
    x = random.standard_normal((2, 3, 4, 3)) + 1j * random.standard_normal((2, 3, 4, 3))
    np.testing.assert_allclose(whole(lc.fft.fftn(lc.asarray(parts(x)))), np.fft.fftn(x), **F64)
    np.testing.assert_allclose(whole(lc.fft.rfftn(lc.asarray(x.real))), np.fft.rfftn(x.real), **F64)
    np.testing.assert_allclose(lc.fft.irfftn(lc.asarray(parts(x))).numpy(), np.fft.irfftn(x), **F64)


def test_frequencies(random):
    for n in (1, 2, 7, 8):
        for name in ("fftfreq", "rfftfreq"):
            np.testing.assert_allclose(getattr(lc.fft, name)(n, d=0.5, dtype="float64").numpy(),
                                       getattr(np.fft, name)(n, 0.5), **F64)
    x = random.standard_normal((5, 4))
    for axes in (None, 0, (1,), (0, 1)):
        for name in ("fftshift", "ifftshift"):
            assert (both(getattr(lc.fft, name), x, axes=axes).numpy() == getattr(np.fft, name)(x, axes)).all()
