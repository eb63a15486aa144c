# SPDX-License-Identifier: MIT
"""Arrays: values as NumPy computes them, memory shared in both directions, failures, threads."""
import ast
import gc
import operator
import os
import threading
import weakref

import numpy
import pytest

import libcompute as lc

NUMPY = tuple(int(part) for part in numpy.__version__.split(".")[:2])
FLOATS = ("float32", "float64")
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
SHAPES = ((), (1,), (7,), (0, 3), (3, 5), (2, 1, 5), (65, 17))


def both(random, shape, dtype, low=-4, high=4):
    """The same numbers here and in NumPy."""
    if dtype == "bool":
        values = random.integers(0, 2, shape).astype(bool)
    elif dtype in FLOATS:
        values = random.uniform(low, high, shape).astype(dtype)
    else:
        values = random.integers(max(low, 0) if dtype[0] == "u" else low, high + 1, shape).astype(dtype)
    values = numpy.asarray(values)
    return lc.asarray(values.copy()), values


def close(ours, theirs, digits=5):
    assert tuple(ours.shape) == theirs.shape
    numpy.testing.assert_allclose(ours.numpy(), theirs, rtol=10.0**-digits, atol=10.0**-digits)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_functions_of_one_operand(random, shape, dtype):
    x, n = both(random, shape, dtype)
    for name in ("abs", "exp", "sin", "cos", "tanh", "floor", "ceil", "trunc", "sign", "square", "sinh", "cosh", "expm1"):
        close(getattr(lc, name)(x), getattr(numpy, name)(n), 5)
    x, n = both(random, shape, dtype, 1, 9)
    for name in ("sqrt", "log", "log1p", "reciprocal"):
        close(getattr(lc, name)(x), getattr(numpy, name)(n), 5)
    close(-x, -n)
    close(lc.round(x), numpy.round(n))
    close(lc.isfinite(x), numpy.isfinite(n))


@pytest.mark.parametrize("dtype", FLOATS + WHOLE)
@pytest.mark.parametrize("name", ("add", "sub", "mul", "lt", "le", "eq", "ne", "gt", "ge"))
def test_operators(random, dtype, name):
    call = getattr(operator, name)
    for first, second in (((3, 5), (3, 5)), ((3, 1), (5,)), ((), (4,)), ((0, 2), (1, 2))):
        (x, n), (y, m) = both(random, first, dtype), both(random, second, dtype)
        assert numpy.array_equal(call(x, y).numpy(), call(n, m))
        assert call(x, y).dtype.name == call(n, m).dtype.name
    number = 3 if dtype in WHOLE else 1.5
    assert numpy.array_equal(call(x, number).numpy(), call(m * 0 + n, n.dtype.type(number)))


@pytest.mark.parametrize("dtype", FLOATS + WHOLE)
def test_quotients(random, dtype):
    (x, n), (y, m) = both(random, (40,), dtype, -20, 20), both(random, (40,), dtype, 1, 7)
    if dtype[0] != "u":
        sign = random.choice([-1, 1], 40).astype(dtype)
        y, m = y * lc.asarray(sign), (m * sign).astype(dtype)
    close(x // y, n // m)
    close(x % y, n % m, 4)
    close(x / y, (n / m).astype(numpy.float64), 4)


def test_bits_and_logic(random):
    for dtype in WHOLE + ("bool",):
        (x, n), (y, m) = both(random, (33,), dtype, 0, 100), both(random, (33,), dtype, 0, 100)
        for call in (operator.and_, operator.or_, operator.xor):
            assert numpy.array_equal(call(x, y).numpy(), call(n, m))
        assert numpy.array_equal((~x).numpy(), ~n)
    x, n = both(random, (9,), "int32", -50, 50)
    assert numpy.array_equal((x << 3).numpy(), n << 3) and numpy.array_equal((x >> 2).numpy(), n >> 2)


@pytest.mark.parametrize("first, second, result", (
    ("int8", "int16", "int16"), ("uint8", "int8", "int16"), ("uint8", "int16", "int16"), ("uint16", "int8", "int32"),
    ("uint32", "int64", "int64"), ("uint8", "uint32", "uint32"), ("float32", "float64", "float64"),
    ("float16", "float32", "float32"), ("float16", "bfloat16", "float32")))
def test_promotion(first, second, result):
    x, y = lc.ones((3,), dtype=first), lc.ones((3,), dtype=second)
    for sum_ in (x + y, y + x):
        assert sum_.dtype.name == result
    assert lc.result_type(x, y).name == result
    g = lc.Graph()
    assert (g.input((3,), first) + g.input((3,), second)).dtype.name == result


@pytest.mark.parametrize("first, second", (("int32", "float32"), ("bool", "int8"), ("uint64", "int64")))
def test_promotion_without_a_common_dtype(first, second):
    with pytest.raises(lc.DtypeError, match="add"):
        lc.add(lc.ones((3,), dtype=first), lc.ones((3,), dtype=second))
    with pytest.raises(TypeError):
        lc.result_type(first, second)


@pytest.mark.parametrize("shape, axes", (((3, 4, 5), None), ((3, 4, 5), 1), ((3, 4, 5), (0, 2)), ((3, 4, 5), ()), ((6,), -1)))
def test_reductions(random, shape, axes):
    x, n = both(random, shape, "float32")
    for name in ("sum", "mean", "prod", "max", "min", "std", "var"):
        for keep in (False, True):
            close(getattr(lc, name)(x, axis=axes, keepdims=keep), getattr(numpy, name)(n, axis=axes, keepdims=keep), 4)
    x, n = both(random, shape, "int8")
    assert lc.sum(x).dtype is lc.int64 and int(lc.sum(x)) == n.sum(dtype=numpy.int64)
    assert bool(lc.all(x == x)) and not bool(lc.any(x != x))


def test_matrices(random):
    for first, second in (((3, 4), (4, 5)), ((2, 3, 4), (4, 1)), ((4,), (4, 2)), ((3, 4), (4,)), ((0, 4), (4, 2))):
        (x, n), (y, m) = both(random, first, "float64"), both(random, second, "float64")
        close(x @ y, n @ m, 10)
    (x, n), (y, m) = both(random, (3, 4, 5), "float64"), both(random, (4, 3, 2), "float64")
    close(lc.tensordot(x, y, axes=((1, 0), (0, 1))), numpy.tensordot(n, m, axes=((1, 0), (0, 1))), 10)


KEYS = (0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(4, 0, -2), Ellipsis, None, (1, 2),
        (slice(None), 1), (Ellipsis, 0), (slice(0, 0), slice(None)), (None, 1, Ellipsis, slice(1, None, 2)),
        (slice(5, 99), -2), (slice(-2, None), slice(-99, 2)))


@pytest.mark.parametrize("key", KEYS)
def test_index(random, key):
    x, n = both(random, (4, 6), "float32")
    assert numpy.array_equal(x[key].numpy(), n[key])
    g = lc.Graph()
    node = g.input((4, 6))
    made = node[key]
    assert made.shape == n[key].shape
    assert numpy.array_equal(g.compile(made).run({node: x}).numpy(), n[key])


def test_index_outside():
    x = lc.zeros((3, 2))
    for key in (3, -4, (0, 2), (0, 0, 0)):
        with pytest.raises(IndexError):
            x[key]  # pylint: disable=pointless-statement
    with pytest.raises(TypeError):
        x["a"]  # pylint: disable=pointless-statement
    node = lc.Graph().input((3, 2))
    with pytest.raises(TypeError, match="depends on values"):
        node[lc.less(node, 0)]  # pylint: disable=pointless-statement


def test_views_share_memory(random):
    x, n = both(random, (4, 6), "float32")
    x[1:3, ::2] = 7
    n[1:3, ::2] = 7
    x[0] = lc.asarray(numpy.arange(6, dtype=numpy.float32))
    n[0] = numpy.arange(6)
    assert numpy.array_equal(x.numpy(), n)
    x[::-1, 4:1:-1] = lc.asarray(numpy.arange(3, dtype=numpy.float32))
    n[::-1, 4:1:-1] = numpy.arange(3)
    assert numpy.array_equal(x.numpy(), n)
    with pytest.raises(TypeError, match="scatter"):
        x[lc.asarray([0, 1])] = 1
    x[x > 5] = 0
    n[n > 5] = 0
    assert numpy.array_equal(x.numpy(), n)
    with pytest.raises(lc.Error):
        lc.broadcast_to(x[0], (3, 6))[0] = 1  # read-only


def test_sorting(random):
    x, n = both(random, (5, 33), "float32")
    close(lc.sort(x), numpy.sort(n))
    close(lc.sort(x, axis=0, descending=True), -numpy.sort(-n, axis=0))
    assert numpy.array_equal(lc.argsort(x).numpy(), numpy.argsort(n, kind="stable"))
    close(lc.cumulative_sum(x, axis=1), numpy.cumsum(n, axis=1), 4)
    close(lc.cumulative_prod(x, axis=1), numpy.cumprod(n, axis=1), 4)
    close(lc.cumulative_prod(x, axis=0, include_initial=True), numpy.concatenate([numpy.ones_like(n[:1]), numpy.cumprod(n, axis=0)]), 4)
    assert lc.cumulative_sum(lc.zeros((0,)), include_initial=True).shape == (1,)
    values, places = lc.top_k(x, 3, 1)
    close(values, -numpy.sort(-n)[:, :3])
    assert numpy.array_equal(numpy.take_along_axis(n, places.numpy(), 1), values.numpy())


@pytest.mark.parametrize("dtype", FLOATS + WHOLE + ("uint64", "float16", "bool"))
def test_memory_is_shared_with_numpy(dtype):
    n = numpy.ones((3, 4), dtype=dtype)
    x = lc.asarray(n)
    assert x.dtype.name == dtype
    n[1, 2] = 0
    assert x.numpy()[1, 2] == 0
    back = numpy.asarray(x)
    assert back.dtype == n.dtype and numpy.shares_memory(back, n)
    if dtype != "bool" or NUMPY >= (1, 25):  # earlier versions refuse bool
        assert numpy.shares_memory(numpy.from_dlpack(x), n)
        assert numpy.shares_memory(lc.from_dlpack(n).numpy(), n)
    assert not numpy.shares_memory(lc.asarray(n, copy=True).numpy(), n)
    view = lc.asarray(n[::2, 1:3])
    assert numpy.shares_memory(view.numpy(), n) and numpy.array_equal(view.numpy(), n[::2, 1:3])


def test_arrays_that_need_a_copy():
    n = numpy.arange(6, dtype=numpy.float32)
    for odd in (n[::-1], n.astype(">f4"), numpy.frombuffer(b"\0" + n.tobytes(), dtype=numpy.uint8)[1:].view(numpy.float32)):
        assert numpy.array_equal(lc.asarray(odd).numpy(), odd)
    with pytest.raises(TypeError):
        lc.asarray(n + 1j)
    with pytest.raises(TypeError):
        lc.asarray(numpy.array(["a"]))


def test_read_only_memory():
    n = numpy.ones(4, dtype=numpy.float32)
    n.flags.writeable = False
    x = lc.asarray(n)
    assert not x.numpy().flags.writeable
    with pytest.raises(lc.Error):
        x[0] = 2
    frozen = lc.ones((3,))
    frozen.freeze()
    assert not numpy.asarray(frozen).flags.writeable


def test_lifetime_of_shared_memory():
    n = numpy.ones(1000)
    alive = weakref.ref(n)
    x = lc.asarray(n)
    view = x[5:]
    del n, x
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None
    x = lc.ones((50,))
    out = x.numpy()
    del x
    gc.collect()
    assert out.sum() == 50


def test_capsules_are_used_once():
    x = lc.ones((3,))
    capsule = x.__dlpack__(max_version=(1, 0))
    y = lc._core.from_capsule(capsule)
    with pytest.raises(ValueError):
        lc._core.from_capsule(capsule)
    del x, capsule
    assert y.tolist() == [1, 1, 1]
    for _ in range(3):
        lc.ones((3,)).__dlpack__()  # nobody takes it over


def test_sequences():
    assert numpy.array_equal(lc.eye(3, 4, k=10**20).numpy(), numpy.zeros((3, 4)))
    assert numpy.array_equal(lc.triu(lc.ones((3, 4)), k=1).numpy(), numpy.triu(numpy.ones((3, 4)), 1))
    assert float(lc.linspace(3e16, 0.5, 242)[-1]) == 0.5
    assert lc.arange(5, 0, -2).tolist() == [5, 3, 1] and lc.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert lc.repeat(lc.asarray([1, 2]), 2).tolist() == [1, 1, 2, 2]
    assert [x.shape for x in lc.meshgrid(lc.zeros((2,)), lc.zeros((3,)))] == [(3, 2), (3, 2)]


def test_numbers():
    assert float(lc.asarray(1.5)) == 1.5 and int(lc.asarray(3)) == 3 and bool(lc.asarray(True)) is True
    assert range(5)[lc.asarray(2)] == 2
    assert lc.asarray([1, 2]).dtype is lc.int64 and lc.asarray([1.0]).dtype is lc.float32
    assert lc.asarray(2**63 + 5, dtype="uint64").item() == 2**63 + 5
    assert lc.full((2,), 1.5, dtype="bfloat16").astype("float32").tolist() == [1.5, 1.5]
    assert lc.full((), 1.5, dtype="float16").item() == 1.5
    with pytest.raises(TypeError):
        float(lc.ones((2,)))
    with pytest.raises(TypeError):
        hash(lc.ones((2,)))
    with pytest.raises(TypeError):
        lc.ones((2,), dtype="int32") + 1.5  # pylint: disable=expression-not-assigned


def test_failures_have_the_message_and_a_class(tmp_path):
    with pytest.raises(lc.ShapeError, match=r"\[2,3\] and \[5\]") as caught:
        lc.ones((2, 3)) + lc.ones((5,))  # pylint: disable=expression-not-assigned
    error = caught.value
    assert isinstance(error, (ValueError, lc.Error)) and error.operation == "add" and error.status == 200
    with pytest.raises(lc.NoDeviceError, match="none:9"):
        lc.device("none:9")
    with pytest.raises(OSError):
        lc.load_npy(tmp_path / "x.npy")
    for status, kind in lc._names.EXCEPTIONS.items():
        assert issubclass(kind, lc.Error) and kind.status == status


def test_arguments():
    with pytest.raises(TypeError, match="missing"):
        lc._core.add(lc.ones((1,)))
    with pytest.raises(TypeError, match="no argument 'color'"):
        lc._core.add(lc.ones((1,)), 1, color=2)
    with pytest.raises(TypeError, match="positional"):
        lc._core.relu(lc.ones((1,)), 1)
    with pytest.raises(TypeError):
        lc.ones((1,)) + "a"  # pylint: disable=expression-not-assigned
    with pytest.raises(TypeError, match="one operand"):
        lc._core.add(1, 2)
    with pytest.raises(OverflowError):
        lc.reshape(lc.ones((1,)), (2**70,))


def test_threads_share_arrays():
    x = lc.ones((200, 200))
    results, failures = [], []

    def work():
        try:
            for _ in range(50):
                results.append(float(lc.sum(x @ x)))
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and set(results) == {8e6}


def test_other_threads_run_meanwhile():
    """The interpreter's lock is free while the library works."""
    x = lc.ones((1500, 1500))
    counts, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counts[0] += 1
    thread = threading.Thread(target=count)
    thread.start()
    before = counts[0]
    for _ in range(3):
        x @ x  # pylint: disable=pointless-statement
    after = counts[0]
    stop.set()
    thread.join()
    assert after > before


def test_contexts():
    with lc.open(threads=1) as context:
        assert context.devices()
        g = lc.Graph(context)
        x = g.input((3,))
        array = lc._core.full((3,), 2.0, device=context.device)
        assert g.compile(x * 2.0, device=context.device).run({x: array}).tolist() == [4, 4, 4]
        with pytest.raises(lc.InvalidStateError):
            context.close()
        with pytest.raises(lc.WrongContextError):
            array + lc.ones((3,))  # pylint: disable=expression-not-assigned
        del g, x, array
    with pytest.raises(ValueError, match="closed"):
        lc.Graph(context)


def test_documentation():
    assert "NumPy" in lc._core.matmul.__doc__ and lc._core.add.__text_signature__ == "(a, b)"
    assert "filter" in lc.conv2d.__doc__
    assert lc.LossKind.CROSS_ENTROPY == 0


def stub_names(path):
    """{class or None: names} of a stub."""
    with open(os.path.join(os.path.dirname(lc.__file__), path), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = {None: set()}
    for line in tree.body:
        if isinstance(line, ast.ClassDef):
            found[line.name] = {one.name for one in line.body if isinstance(one, ast.FunctionDef)}
        elif isinstance(line, ast.FunctionDef):
            found[None].add(line.name)
        elif isinstance(line, ast.ImportFrom):
            found[None] |= {one.asname for one in line.names if one.asname}
    return found


def test_stubs_and_the_package_have_the_same_names():
    core = stub_names("_core.pyi")
    for name in core[None]:
        assert callable(getattr(lc._core, name))
    functions = {name for name in vars(lc._core) if not name.startswith("__") and not isinstance(getattr(lc._core, name), type)}
    assert functions == core[None]
    inherited = set(dir(object)) | {"__buffer__"}
    for kind, names in core.items():
        if kind:
            present = {name for name in dir(getattr(lc._core, kind))}
            assert not names - present - {"__buffer__", "__init__"}, kind
            public = {name for name in present if not name.startswith("_")}
            assert not public - names - inherited, kind
    for name in stub_names("__init__.pyi")[None]:
        assert hasattr(lc, name), name


def test_texts_name_one_dtype():
    for dtype in ("float32", "bfloat16", "float16"):
        text = repr(lc.ones((5, 4), dtype=dtype))
        assert text.count("dtype=") <= 1 and (dtype == "float32" or dtype in text)
