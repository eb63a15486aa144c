# SPDX-License-Identifier: MIT
"""The operations of an array library beside NumPy's: random, empty, rank-8 and special values in every dtype that NumPy
has. Each is run eagerly and in a graph, which must agree in every bit."""
import itertools

import numpy as np
import pytest

import libcompute as lc

FLOATS = ("float16", "float32", "float64")
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
ALL = FLOATS + WHOLE + ("uint64", "bool")
DIGITS = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}
SHAPES = ((), (5,), (0, 3), (4, 0), (3, 5), (2, 1, 5), (2, 1, 2, 1, 2, 1, 2, 3), (65, 17))
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, np.nan, 1e-6, 6e4)
compared = 0


def numbers(random, shape, dtype, low=-4, high=4):
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape).astype(bool))
    if dtype in FLOATS:
        return np.asarray(random.uniform(low, high, shape).astype(dtype))
    return np.asarray(random.integers(0 if dtype[0] == "u" else int(low), int(high) + 1, shape).astype(dtype))


def run(function, *operands):
    """The result of the eager call, after a graph has given the same bits."""
    arrays = [lc.asarray(one.copy()) for one in operands]
    eager = function(*arrays)
    graph = lc.Graph()
    inputs = [graph.input(one.shape, one.dtype) for one in arrays]
    result = function(*inputs)
    planned = graph.compile(result)._run(dict(zip(inputs, arrays)))
    assert eager.shape == planned.shape and eager.dtype is planned.dtype
    assert eager.numpy().tobytes() == planned.numpy().tobytes()
    return eager.numpy()


def check(ours, theirs, dtype, scale=1.0):
    """Compares values, and NaN, infinities and signs of zeros exactly."""
    global compared
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    compared += max(1, ours.size)
    if dtype not in FLOATS or theirs.dtype.kind not in "f":
        np.testing.assert_array_equal(ours, theirs)
        return
    digits = DIGITS[dtype] * scale
    with np.errstate(all="ignore"):
        wanted = theirs.astype(dtype)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(ours) * np.sign(ours), np.isinf(wanted) * np.sign(wanted))
    np.testing.assert_allclose(ours.astype("float64"), wanted.astype("float64"), rtol=digits, atol=digits)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


# ---- Elementwise -------------------------------------------------------------------------------------------------

ONE = {"log2": np.log2, "log10": np.log10, "signbit": np.signbit}
TWO = {"atan2": np.arctan2, "copysign": np.copysign, "hypot": np.hypot, "logaddexp": np.logaddexp}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_functions_of_one_operand(random, shape, dtype):
    for name, theirs in ONE.items():
        x = numbers(random, shape, dtype, -2 if name == "signbit" else 0.01, 50)
        check(run(getattr(lc, name), x), theirs(x), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_functions_of_two_operands(random, shape, dtype):
    for name, theirs in TWO.items():
        for other in {shape, shape[-1:]}:
            a, b = numbers(random, shape, dtype), numbers(random, other, dtype)
            check(run(getattr(lc, name), a, b), theirs(a, b), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype):
    x = np.array([one for one in SPECIAL if not np.isnan(one)] + [np.nan], dtype)
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype)
    for name, theirs in ONE.items():
        ours = run(getattr(lc, name), x)
        check(ours, theirs(x), dtype)
    for name, theirs in TWO.items():
        a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
        ours, wanted = run(getattr(lc, name), a, b), theirs(a, b)
        check(ours, wanted, dtype)
        known = ~np.isnan(wanted) & ((wanted == 0) | np.isinf(wanted) | (name != "logaddexp"))
        np.testing.assert_array_equal(np.signbit(ours)[known], np.signbit(wanted)[known], name)


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_have_exact_logarithms(dtype):
    most = {"float16": 4, "float32": 37, "float64": 300}[dtype]
    tens = np.array([float(f"1e{i}") for i in range(-most, most + 1)], dtype)
    if dtype != "float16":  # 0.001 is no power of ten in f16
        np.testing.assert_array_equal(run(lc.log10, tens), np.arange(-most, most + 1).astype(dtype))
    twos = np.arange(-14, 16)
    np.testing.assert_array_equal(run(lc.log2, (2.0**twos).astype(dtype)), twos.astype(dtype))


# ---- Reductions --------------------------------------------------------------------------------------------------

def axes_of(rank):
    yield None
    yield from ((i,) for i in range(rank))
    if rank > 1:
        yield (0, rank - 1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [one for one in SHAPES if one])
def test_reductions(random, shape, dtype):
    x = numbers(random, shape, dtype)
    wide = x.astype("float64")
    for axes, keep in itertools.product(axes_of(len(shape)), (False, True)):
        named = tuple(range(len(shape))) if axes is None else axes
        summed = int(np.prod([shape[i] for i in named]))
        for ddof in (0, 1):
            if ddof == 1 and summed < 2:
                continue
            check(run(lambda y, k=ddof: lc._core.var(y, axes, float(k), keep), x),
                  np.var(wide, axis=axes, ddof=ddof, keepdims=keep) if summed else
                  np.full(np.sum(wide, axis=axes, keepdims=keep).shape, np.nan), dtype, 4)
            check(run(lambda y, k=ddof: lc._core.std(y, axes, float(k), keep), x),
                  np.std(wide, axis=axes, ddof=ddof, keepdims=keep) if summed else
                  np.full(np.sum(wide, axis=axes, keepdims=keep).shape, np.nan), dtype, 4)
        check(run(lambda y: lc.logsumexp(y, axes, keep), x), np.logaddexp.reduce(wide, axis=named, keepdims=keep), dtype, 4)
        for p in (1, 2, 3, 0.5, np.inf, -np.inf):
            if summed == 0 and (p == -np.inf or p == np.inf):
                continue
            size = np.abs(wide)
            wanted = (np.max(size, axis=named, keepdims=keep) if p == np.inf else
                      np.min(size, axis=named, keepdims=keep) if p == -np.inf else
                      np.sum(size**p, axis=named, keepdims=keep)**(1 / p))
            check(run(lambda y, q=p: lc.norm(y, float(q), axes, keep), x), wanted, dtype, 10 * max(1.0, np.max(wanted, initial=0)))


def test_norms_of_large_and_small_numbers():
    x = np.array([3e38, 1e38, -2e38], "float32")
    check(run(lambda y: lc.norm(y, 2.0, None, False), x / np.float32(4)),
          np.linalg.norm((x / np.float32(4)).astype("float64")), "float32", 1e38)
    small = np.array([3e-30, 4e-30], "float32")
    np.testing.assert_allclose(run(lambda y: lc.norm(y, 2.0, None, False), small), 5e-30, rtol=1e-5)


EQUATIONS = (("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 0), (0, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
             ("ii->i", (4, 4)), ("ii", (4, 4)), ("i,j->ij", (3,), (4,)), ("i,i", (5,), (5,)), ("ijk->kji", (2, 3, 4)),
             ("...ij,...jk", (2, 3, 4), (4, 5)), ("...i->...", (2, 1, 2, 1, 2, 1, 2, 3)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
             ("ij->", (3, 4)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("iij,j->i", (3, 3, 2), (2,)))


@pytest.mark.parametrize("dtype", FLOATS + ("int8", "int32", "int64", "uint32", "uint64"))
@pytest.mark.parametrize("case", EQUATIONS, ids=[one[0] for one in EQUATIONS])
def test_einsum(random, case, dtype):
    operands = [numbers(random, shape, dtype, -1, 1) for shape in case[1:]]
    ours = run(lambda *x: lc.einsum(case[0], list(x)), *operands)
    wide = [one.astype("float64") if dtype in FLOATS else one for one in operands]
    check(ours, np.einsum(case[0], *wide), dtype, 8)


# ---- Joining and arranging ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [one for one in SHAPES if one])
def test_arrangements(random, shape, dtype):
    x, y = numbers(random, shape, dtype), numbers(random, shape, dtype)
    rank = len(shape)
    if rank < 8:
        for axis in range(-rank - 1, rank + 1):
            check(run(lambda a, b, k=axis: lc._core.stack([a, b], k), x, y), np.stack([x, y], axis), dtype)
    for axes in axes_of(rank):
        check(run(lambda a, k=axes: lc._core.flip(a, k), x), np.flip(x, axes), dtype)
    for axis, shift in itertools.product(range(rank), (-7, -1, 0, 2, 100)):
        check(run(lambda a, k=axis, s=shift: lc._core.roll(a, s, k), x), np.roll(x, shift, axis), dtype)
    for times in ((2,), (1, 3), (0,), (2,) + (1,) * (rank - 1)):
        check(run(lambda a, t=times: lc._core.tile(a, t), x), np.tile(x, times), dtype)
    if rank > 1 and dtype != "bool":
        for k in (-100, -1, 0, 2, 100):
            check(run(lambda a, d=k: lc._core.tril(a, d), x), np.tril(x, k), dtype)
            check(run(lambda a, d=k: lc._core.triu(a, d), x), np.triu(x, k), dtype)


@pytest.mark.parametrize("dtype", FLOATS + WHOLE)
@pytest.mark.parametrize("shape", [one for one in SHAPES if one])
def test_orders(random, shape, dtype):
    x = numbers(random, shape, dtype, -50, 50)
    for axis in range(len(shape)):
        check(run(lambda a, k=axis: lc._core.sort(a, k), x), np.sort(x, axis), dtype)
        check(run(lambda a, k=axis: lc._core.argsort(a, k), x), np.argsort(x, axis, kind="stable"), "int64")
        if dtype == "float64" or dtype in WHOLE:
            check(run(lambda a, k=axis: lc._core.cumulative_sum(a, k), x), np.cumsum(x, axis, dtype=dtype), dtype, 100)
        if dtype in ("float64", "int32", "int64", "uint64"):
            near = x / 50 if dtype == "float64" else x
            check(run(lambda a, k=axis: lc._core.cumulative_product(a, k), near), np.cumprod(near, axis, dtype=dtype), dtype, 100)
    for mode, before, after in (("edge", 1, 2), ("constant", 1, 2), ("reflect", 1, 2), ("reflect", 7, 11), ("wrap", 7, 11)):
        if mode != "constant" and shape[0] == 0:
            continue
        wide = ((before, after),) + ((0, 0),) * (len(shape) - 1)
        # NumPy before 1.25 wraps long pads in another way.
        theirs = np.pad(x, wide, mode) if mode != "wrap" else np.take(x, np.arange(-before, shape[0] + after) % shape[0], 0)
        check(run(lambda a, m=mode, b=before, c=after: lc.pad(a, 0, b, c, m), x), theirs, dtype)


# ---- Searching ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", FLOATS + WHOLE)
@pytest.mark.parametrize("size", (0, 1, 2, 3, 7, 8, 9, 100))
def test_searchsorted(random, size, dtype):
    vector = np.sort(numbers(random, (size,), dtype, -9, 9))
    values = numbers(random, (4, 5), dtype, -12, 12)
    values.flat[:min(size, 3)] = vector[:3]
    for right in (False, True):
        check(run(lambda a, b, r=right: lc._core.searchsorted(a, b, r), vector, values),
              np.searchsorted(vector, values, "right" if right else "left"), "int64")


@pytest.mark.parametrize("dtype", FLOATS)
def test_searchsorted_with_nan(dtype):
    vector = np.array([-np.inf, -1, -0.0, 0, 2, np.inf, np.nan, np.nan], dtype)
    values = np.array(SPECIAL, dtype)
    for right in (False, True):
        check(run(lambda a, b, r=right: lc._core.searchsorted(a, b, r), vector, values),
              np.searchsorted(vector, values, "right" if right else "left"), "int64")


@pytest.mark.parametrize("dtype", ("float32", "float64", "int16", "int32"))
@pytest.mark.parametrize("shape", [one for one in SHAPES if one])
def test_histogram(random, shape, dtype):
    x = numbers(random, shape, dtype, -6, 6)
    if dtype in FLOATS and x.size > 8:
        x.flat[:5] = (np.nan, np.inf, -np.inf, -3, 3)
    for bins, low, high in ((7, -3, 3), (1, 0, 1), (100, -3, 3)):
        finite = x[np.isfinite(x)]
        check(run(lambda a, b=(bins, float(low), float(high)): lc.histogram(a, *b), x),
              np.histogram(finite.astype("float64") if dtype in WHOLE else finite, bins, (low, high))[0], "int64")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", (1, 2, 9))
def test_interp(random, size, dtype):
    xp = np.sort(np.unique(numbers(random, (size * 4,), dtype, -5, 5))[:size])
    fp = numbers(random, (size,), dtype)
    for shape in SHAPES:
        x = numbers(random, shape, dtype, -7, 7)
        if x.size > 4:
            x.flat[:5] = (xp[0], xp[-1], np.inf, -np.inf, np.nan)
        check(run(lc.interp, x, xp, fp), np.interp(x.astype("float64"), xp.astype("float64"), fp.astype("float64")), dtype, 20)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", SHAPES)
def test_nonzero(random, shape, dtype):
    x = numbers(random, shape, dtype, -1, 1)
    if x.size:
        x[...] = np.where(random.integers(0, 2, shape), x, x.dtype.type(0))
    found = lc.asarray(x.copy())._nonzero().numpy()
    check(found, np.stack(np.nonzero(np.atleast_1d(x))), "int64")


# ---- Networks ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", FLOATS)
def test_normalisations(random, dtype):
    x, gain, bias = numbers(random, (3, 4, 6), dtype), numbers(random, (6,), dtype), numbers(random, (4,), dtype)
    wide = x.astype("float64")
    check(run(lambda a, b: lc.rms_norm(a, b, 1e-3), x, gain),
          wide / np.sqrt(np.mean(wide**2, -1, keepdims=True) + 1e-3) * gain, dtype, 8)
    grouped = wide.reshape(3, 2, 12)
    even = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-3)
    check(run(lambda a, b: lc.group_norm(a, 2, b, b, 1e-3), x, bias),
          even.reshape(x.shape) * bias[:, None].astype("float64") + bias[:, None], dtype, 8)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("interleaved", (False, True))
def test_rotary_embedding(random, dtype, interleaved):
    x, angle = numbers(random, (2, 3, 5, 8), dtype), random.uniform(-3, 3, (5, 3))
    c, s = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)
    wanted = x.astype("float64")
    first = slice(0, 6, 2) if interleaved else slice(0, 3)
    second = slice(1, 6, 2) if interleaved else slice(3, 6)
    a, b = wanted[..., first].copy(), wanted[..., second].copy()
    wanted[..., first], wanted[..., second] = a * c - b * s, a * s + b * c
    check(run(lambda y, u, v: lc.rotary_embedding(y, u, v, interleaved), x, c, s), wanted, dtype, 4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_resize_between_corners(random, dtype):
    x = numbers(random, (2, 9), dtype)
    for size in (4, 9, 17, 30):
        at = np.linspace(0, 8, size)
        wanted = np.stack([np.interp(at, np.arange(9), row) for row in x.astype("float64")])
        check(run(lambda a, n=size: lc.resize(a, (2, n), mode="linear", coordinates="align_corners"), x), wanted, dtype,
              1e7 if dtype == "float64" else 8)  # positions are rounded to f32


@pytest.mark.parametrize("dtype", FLOATS)
def test_grid_sample_at_centres(random, dtype):
    x = numbers(random, (2, 3, 4, 5), dtype)
    rows, columns = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 5), indexing="ij")
    grid = np.broadcast_to(np.stack([columns, rows], -1), (2, 4, 5, 2)).astype(dtype)
    for mode in ("nearest", "linear", "cubic"):
        check(run(lambda a, g, m=mode: lc.grid_sample(a, g, m, "edge", True), x, grid), x, dtype, 100)


# ---- Narrow floats -----------------------------------------------------------------------------------------------

ROUNDED = {
    "log2": (lambda x: lc.log2(lc.abs(x)), 1), "log10": (lambda x: lc.log10(lc.abs(x)), 1), "atan2": (lc.atan2, 2), "hypot": (lc.hypot, 2),
    "copysign": (lc.copysign, 2), "logaddexp": (lc.logaddexp, 2), "logsumexp": (lambda x: lc.logsumexp(x, 1, False), 1),
    "var": (lambda x: lc._core.var(x, 1), 1), "std": (lambda x: lc._core.std(x, 0), 1), "norm": (lambda x: lc.norm(x, 3.0, 1), 1),
    "cumulative_product": (lambda x: lc._core.cumulative_product(x, 1), 1), "group_norm": (lambda x: lc.group_norm(x, 2), 1),
    "rms_norm": (lambda x: lc.rms_norm(x), 1), "interp": (lambda x: lc.interp(x, *_line(x)), 1),
    "resize": (lambda x: lc.resize(x, (5, 7), mode="cubic"), 1)}


def _line(x):
    """Four points, in x's dtype."""
    return (lc.astype(lc.asarray(np.array(one, "float32")), x.dtype) for one in ([-2, -0.5, 1, 3], [1, 2, -1, 0]))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
@pytest.mark.parametrize("name", ROUNDED)
def test_narrow_floats_are_computed_in_f32_and_rounded_once(random, dtype, name):
    """The same function of the same numbers as float32, rounded: not one bit differs."""
    global compared
    function, count = ROUNDED[name]
    narrow = [lc.astype(lc.asarray(random.normal(size=(6, 4)).astype("float32")), dtype) for _ in range(count)]
    ours = function(*narrow)
    wide = function(*(lc.astype(one, "float32") for one in narrow))
    assert ours.dtype.name == dtype and ours.size > 0
    np.testing.assert_array_equal(lc.astype(ours, "float32").numpy(), lc.astype(lc.astype(wide, dtype), "float32").numpy())
    compared += ours.size


def test_comparisons_are_counted():
    assert compared > 0
    print(f"{compared} numbers compared")
