# SPDX-License-Identifier: MIT
"""Functions of the array API standard whose results depend on values, and integers: against NumPy."""
import numpy as np
import pytest

import libcompute as lc


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int64", "float32", "float64"])
def test_unique(random, dtype):
    x = random.integers(0, 9, (7, 5)).astype(dtype)
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for found, right in zip(lc.unique_all(lc.asarray(x)), expected):
        assert (found.numpy() == right.reshape(found.shape)).all()
    assert (lc.unique_values(lc.asarray(x)).numpy() == expected[0]).all()
    assert (lc.unique_counts(lc.asarray(x)).counts.numpy() == expected[3]).all()


def test_every_nan_is_unique():
    x = np.array([3, np.nan, 1, np.nan, 1], dtype=np.float32)
    found = lc.unique_all(lc.asarray(x))
    np.testing.assert_array_equal(found.values.numpy(), [1, 3, np.nan, np.nan])
    assert found.indices.tolist() == [2, 0, 1, 3]
    assert found.inverse_indices.tolist() == [1, 2, 0, 3, 0]
    assert found.counts.tolist() == [2, 1, 1, 1]


def test_masks_are_indices(random):
    x = random.random((4, 6, 3), dtype=np.float32)
    array = lc.asarray(x)
    for mask in (x > 0.5, x[:, :, 0] > 0.5, x[:, 0, 0] > 0.5, x > 2, np.ones(4, bool)):
        assert (array[lc.asarray(mask)].numpy() == x[mask]).all()
    with pytest.raises(IndexError):
        array[lc.asarray(np.ones(5, bool))]  # pylint: disable=expression-not-assigned
    with pytest.raises(TypeError):
        array[0, lc.asarray(np.ones(6, bool))]  # pylint: disable=expression-not-assigned


def test_repeats_may_differ(random):
    x = random.integers(0, 100, (3, 4))
    for axis, repeats in ((0, [2, 0, 1]), (1, [0, 0, 3, 1]), (None, list(range(12)))):
        assert (lc.repeat(lc.asarray(x), lc.asarray(repeats), axis=axis).numpy() == np.repeat(x, repeats, axis)).all()
    for repeats in (-1, lc.asarray([2, -1, 3])):
        with pytest.raises(ValueError):
            lc.repeat(lc.asarray(x), repeats, axis=0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_powers_of_integers(dtype):
    base = np.array([0, 1, 2, 3, 5], dtype=dtype)
    if dtype.startswith("i"):
        base = np.concatenate([base, -base])
    exponent = np.array([0, 1, 2, 3, 5, 7, 64, 101], dtype=dtype)
    with np.errstate(all="ignore"):
        expected = base[:, None]**exponent
    sure = np.array([[abs(int(b))**int(e) < 127 for e in exponent] for b in base])
    made = (lc.asarray(base)[:, None]**lc.asarray(exponent)).numpy()
    assert (made[sure] == expected[sure]).all()
    assert ((lc.asarray(base)**3).numpy() == base**3).all()
    assert ((lc.asarray(base)**0).numpy() == 1).all()
    assert ((2**lc.asarray(exponent[:6])).numpy() == 2**exponent[:6]).all()


def test_quotients_of_u64():
    numbers = [0, 1, 2, 5, 2**32, 2**63 - 1, 2**63, 2**63 + 7, 2**64 - 1]
    x = np.array(numbers, dtype=np.uint64)
    made = lc.floor_divide(lc.asarray(x)[:, None], lc.asarray(x[1:])).numpy()
    assert made.tolist() == [[n // by for by in numbers[1:]] for n in numbers]


def test_order_of_u64():
    x = np.array([5, 0, 2**63 - 1, 2**63, 2**64 - 1, 1, 2**63 + 9], dtype=np.uint64)
    a, b = lc.asarray(x)[:, None], lc.asarray(x)
    for name in ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum"):
        assert (getattr(lc, name)(a, b).numpy() == getattr(np, name)(x[:, None], x)).all(), name
    assert ((a < b).numpy() == (x[:, None] < x)).all() and ((b >= 2**63).numpy() == (x >= 2**63)).all()
    assert (int(lc.max(b)), int(lc.min(b)), int(lc.argmax(b)), int(lc.argmin(b))) == (2**64 - 1, 0, 4, 1)
    assert (lc.sort(b).numpy() == np.sort(x)).all() and (lc.argsort(b).numpy() == np.argsort(x)).all()
    assert lc.searchsorted(lc.sort(b), b).tolist() == np.searchsorted(np.sort(x), x).tolist()
    assert (lc.clip(b, 3, 2**63).numpy() == np.clip(x, np.uint64(3), np.uint64(2**63))).all()
    for by in (0, 1, 3, 63):
        assert ((b >> by).numpy() == x >> np.uint64(by)).all()
        assert ((b >> lc.full((7,), by, dtype="uint64")).numpy() == x >> np.uint64(by)).all()
    assert (lc.remainder(a, b[2:3]).numpy() == x[:, None] % x[2:3]).all()


def test_parts_of_real_numbers():
    x = lc.asarray(np.array([-1.5, 0, np.nan], dtype=np.float32))
    assert lc.real(x) is x
    assert lc.imag(x).numpy()[:2].tolist() == [0, 0]
    assert np.signbit(lc.sign(lc.asarray(np.float32(-0.0))).numpy()) == np.False_
