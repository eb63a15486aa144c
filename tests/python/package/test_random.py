# SPDX-License-Identifier: MIT
"""Random numbers of distributions: numbers as parameters and seeds, and the dtypes of results."""
import numpy as np
import pytest

import libcompute as lc

COUNT = 2000
SEED = 7


def graph_result(function, seed):
    """What a graph gives whose seed is an input."""
    graph = lc.Graph()
    node = graph.input((), lc.int64)
    return graph.compile(function(node))._run({node: seed}).numpy()


# (the call, a range that has all numbers, their mean)
CALLS = {
    "gamma": (lambda s: lc.random_gamma(2.5, (COUNT,), s, 0), 0, 40, 2.5),
    "gamma of an int": (lambda s: lc.random_gamma(3, (COUNT,), s, 0), 0, 40, 3),
    "beta": (lambda s: lc.random_beta(2.0, 3, (COUNT,), s, 0), 0, 1, 0.4),
    "truncated": (lambda s: lc.random_truncated_normal(-1.0, 1.0, (COUNT,), s, 0), -1, 1, 0),
    "one limit": (lambda s: lc.random_truncated_normal(0, float("inf"), (COUNT,), s, 0), 0, 9, 0.798),
    "poisson": (lambda s: lc.random_poisson(4.5, (COUNT,), s, 0, dtype=lc.int32), 0, 40, 4.5),
    "binomial": (lambda s: lc.random_binomial(10, 0.3, (COUNT,), s, 0), 0, 10, 3),
    "bernoulli": (lambda s: lc.random_bernoulli(0.25, (COUNT,), s, 0), 0, 1, 0.25),
    "integers": (lambda s: lc.random_integers(0, 10, (COUNT,), s, 0), 0, 9, 4.5),
}


@pytest.mark.parametrize("name", CALLS)
def test_parameters_are_numbers(name):
    function, low, high, mean = CALLS[name]
    seed = lc.asarray(SEED, dtype=lc.int64)
    found = function(seed).numpy()
    np.testing.assert_array_equal(found, graph_result(function, seed))
    assert found.min() >= low and found.max() <= high
    numbers = found.astype(np.float64)
    assert abs(numbers.mean() - mean) < 5 * numbers.std() / COUNT**0.5


def test_numbers_are_used_in_float64():
    seed = lc.asarray(SEED, dtype=lc.int64)
    found = lc.random_gamma(0.1, (50,), seed, 0, dtype=lc.float64).numpy()
    array = lc.asarray(np.array(0.1))
    np.testing.assert_array_equal(found, lc.random_gamma(array, (50,), seed, 0, dtype=lc.float64).numpy())
    narrow = lc.asarray(np.float32(0.1))
    assert np.any(found != lc.random_gamma(narrow, (50,), seed, 0, dtype=lc.float64).numpy())


def test_seeds_are_numbers_beside_arrays():
    shape, seed = lc.asarray([2.5, 3.0], dtype=lc.float32), lc.asarray(SEED, dtype=lc.int64)
    wanted = lc.random_gamma(shape, (2,), seed, 0).numpy()
    np.testing.assert_array_equal(lc.random_gamma(shape, (2,), SEED, 0).numpy(), wanted)
    mixed = lc.random_beta(shape, 2.0, (2,), SEED, 0).numpy()
    np.testing.assert_array_equal(lc.random_beta(shape, lc.asarray(2.0), (2,), seed, 0).numpy(), mixed)
    with pytest.raises(TypeError):
        lc.random_gamma(shape, (2,), 7.5, 0)


def test_dtypes_of_results():
    seed = lc.asarray(SEED, dtype=lc.int64)
    assert lc.random_integers(0, 10, (4,), seed, 0).dtype is lc.int64
    assert lc.random_integers(-(1 << 52), 1 << 52, (4,), seed, 0).dtype is lc.int64
    assert lc.random_integers(0, 10, (4,), seed, 0, dtype=lc.uint8).dtype is lc.uint8
    assert lc.random_normal((4,), seed, 0).dtype is lc.float32
    assert lc.random_poisson(3.0, (4,), seed, 0).dtype is lc.float32
    assert lc.random_bernoulli(0.5, (4,), seed, 0).dtype is lc.bool


def test_gamma_gradients_keep_the_quantile():
    """SciPy's inverse of the distribution function judges the derivatives for the shape."""
    special = pytest.importorskip("scipy.special")
    shapes = np.repeat([0.05, 0.4, 1.0, 2.5, 30.0, 79.0, 81.0, 500.0], 100)
    g = lc.Graph()
    a, seed = g.input(shapes.shape, "float64"), g.input((), "int64")
    x = lc.random_gamma(a, shapes.shape, seed, 0, dtype=lc.float64)
    plan = g.compile([x, *g.gradients(lc.sum(x), [a])])
    numbers, slopes = (one.numpy() for one in plan.run({a: shapes, seed: np.asarray(11)}))
    quantiles, step = special.gammainc(shapes, numbers), 2e-5 * shapes
    moved = special.gammaincinv(shapes + step, quantiles) - special.gammaincinv(shapes - step, quantiles)
    usual = (numbers > 1e-200) & (quantiles < 0.999)
    assert usual.sum() > 700
    assert (np.abs(moved / (2 * step) / slopes - 1)[usual] < 1e-6).all()
