# SPDX-License-Identifier: MIT
"""Zero-copy exchange of tensors between libcompute and Python libraries. Each library that can be imported is
tested: NumPy, PyTorch, JAX.

    exchange.py LIBRARY

libcompute is called through ctypes, so that no other package is needed."""
import ctypes
import importlib
import sys
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_int32, c_int64, c_uint64, c_void_p, py_object

FORMS = {False: (b"dltensor", b"used_dltensor", ""), True: (b"dltensor_versioned", b"used_dltensor_versioned", "_versioned")}
F64, F32, F16, BF16, I64, I32, U8, BOOL, U16, I8, I16, U32, U64 = range(1, 14)
READ_ONLY, IS_COPIED = 1, 2  # DLPack's flags


class Shape(ctypes.Structure):
    _fields_ = [("rank", c_int32), ("size", c_int64 * 8)]


class Options(ctypes.Structure):
    _fields_ = [("queue", c_void_p), ("stream", c_void_p), ("copy", c_bool), ("reserved", c_uint64 * 8)]


library = ctypes.CDLL(sys.argv[1])
for name, result, arguments in [
        ("compute_open", c_int, [POINTER(c_void_p), c_void_p]),
        ("compute_close", c_int, [c_void_p]),
        ("compute_error_message", c_char_p, [c_void_p]),
        ("compute_tensor_from_dlpack", c_int, [c_void_p, c_void_p, POINTER(c_void_p)]),
        ("compute_tensor_from_dlpack_versioned", c_int, [c_void_p, c_void_p, POINTER(c_void_p)]),
        ("compute_tensor_to_dlpack", c_int, [c_void_p, POINTER(Options), POINTER(c_void_p)]),
        ("compute_tensor_to_dlpack_versioned", c_int, [c_void_p, POINTER(Options), POINTER(c_void_p)]),
        ("compute_tensor_data", c_void_p, [c_void_p]),
        ("compute_tensor_dtype", c_int, [c_void_p]),
        ("compute_tensor_shape", Shape, [c_void_p]),
        ("compute_tensor_stride", c_int64, [c_void_p, c_int32]),
        ("compute_tensor_broadcast_view", c_int, [c_void_p, Shape, POINTER(c_void_p)]),
        ("compute_tensor_write", c_int, [c_void_p, c_void_p, ctypes.c_size_t]),
        ("compute_tensor_release", None, [c_void_p])]:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
api = ctypes.pythonapi
for name, result, arguments in [
        ("PyCapsule_New", py_object, [c_void_p, c_char_p, c_void_p]),
        ("PyCapsule_GetPointer", c_void_p, [py_object, c_char_p]),
        ("PyCapsule_IsValid", c_int, [py_object, c_char_p]),
        ("PyCapsule_SetName", c_int, [py_object, c_char_p])]:
    function = getattr(api, name)
    function.restype, function.argtypes = result, arguments


class Failure(Exception):
    pass


def call(function, *arguments):
    made = c_void_p()
    if function(*arguments, byref(made)):
        raise Failure(library.compute_error_message(None).decode())
    return made.value


class Tensor:
    """A libcompute tensor for other libraries: a capsule in the requested form."""

    def __init__(self, handle):
        self.handle, self.form = handle, None

    def __del__(self):
        library.compute_tensor_release(self.handle)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert dl_device in (None, (1, 0)) and stream is None
        self.form = max_version is not None and max_version >= (1, 0)
        new, _, ending = FORMS[self.form]
        options = Options(copy=bool(copy))
        return api.PyCapsule_New(call(getattr(library, "compute_tensor_to_dlpack" + ending), self.handle, byref(options)), new, None)


def taken(array, **wishes):
    """libcompute's tensor of a library's array."""
    capsule = array.__dlpack__(**wishes)
    versioned = bool(api.PyCapsule_IsValid(capsule, FORMS[True][0]))
    new, used, ending = FORMS[versioned]
    tensor = Tensor(call(getattr(library, "compute_tensor_from_dlpack" + ending), context, api.PyCapsule_GetPointer(capsule, new)))
    api.PyCapsule_SetName(capsule, used)
    tensor.form = versioned
    return tensor


def facts(tensor):
    shape = library.compute_tensor_shape(tensor.handle)
    return (library.compute_tensor_data(tensor.handle), library.compute_tensor_dtype(tensor.handle), tuple(shape.size[:shape.rank]),
            tuple(library.compute_tensor_stride(tensor.handle, i) for i in range(shape.rank)))


def flags_of(tensor, **wishes):
    """The memory flags of a versioned capsule: after a version, a context and a deleter."""
    capsule = tensor.__dlpack__(max_version=(1, 0), **wishes)
    flags = ctypes.cast(api.PyCapsule_GetPointer(capsule, FORMS[True][0]) + 24, POINTER(c_uint64))[0]
    taken_back = call(library.compute_tensor_from_dlpack_versioned, context,
                      api.PyCapsule_GetPointer(capsule, FORMS[True][0]))
    library.compute_tensor_release(taken_back)
    api.PyCapsule_SetName(capsule, FORMS[True][1])
    return flags


def refused(part, action, *arguments, **wishes):
    try:
        action(*arguments, **wishes)
    except (Failure, BufferError, RuntimeError) as failure:
        assert part in str(failure), (part, str(failure))
        return
    raise AssertionError(f"not refused: {part}")


def test_numpy(numpy):
    for kind, dtype in [("float64", F64), ("float32", F32), ("float16", F16), ("int64", I64), ("int32", I32), ("uint8", U8),
                        ("uint16", U16), ("int8", I8), ("int16", I16), ("uint32", U32), ("uint64", U64), ("bool", BOOL)]:
        if kind == "bool" and numpy.lib.NumpyVersion(numpy.__version__) < "1.25.0":
            continue  # this version does not export it
        array = numpy.ones((3, 4), dtype=kind)
        tensor = taken(array)
        assert facts(tensor) == (array.ctypes.data, dtype, (3, 4), (4, 1)), (kind, facts(tensor))
        back = numpy.from_dlpack(tensor)
        assert back.ctypes.data == array.ctypes.data and back.dtype == array.dtype and (back == array).all()
    array = numpy.arange(60, dtype="float32").reshape(3, 4, 5)
    for view in [array[1:, ::2].T, array[:, 0, 0], array[2, 3, 4:5].reshape(()), array[:0], array[:, :1, :1]]:
        tensor = taken(view)
        assert facts(tensor)[2] == view.shape and (view.size == 0 or facts(tensor)[0] == view.ctypes.data)
        assert (numpy.from_dlpack(tensor) == view).all()
    tensor = taken(array)
    array[1, 2, 3] = -5  # the memory is shared
    assert numpy.from_dlpack(tensor)[1, 2, 3] == -5
    written = numpy.full((3, 4, 5), 7, dtype="float32")
    assert library.compute_tensor_write(tensor.handle, written.ctypes.data, written.nbytes) == 0
    assert (array == 7).all()

    alive = numpy.from_dlpack(taken(numpy.arange(1000)))  # NumPy's memory, kept by a tensor
    assert alive.sum() == 499500
    refused("negative", taken, array[::-1])
    refused("complex64", taken, numpy.ones(3, dtype="complex64"))
    refused("9 dimensions", taken, numpy.ones([1] * 9))
    if tensor.form or numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0":
        fixed = numpy.arange(6.0)
        fixed.flags.writeable = False
        tensor = taken(fixed, max_version=(1, 0))
        assert tensor.form and library.compute_tensor_write(tensor.handle, fixed.ctypes.data, fixed.nbytes) != 0
        assert not numpy.from_dlpack(tensor).flags.writeable
        wide = Tensor(call(library.compute_tensor_broadcast_view, tensor.handle, Shape(2, (2, 6))))
        assert numpy.from_dlpack(wide).strides == (0, 8) and wide.form
        copy = numpy.from_dlpack(wide, copy=True)  # some versions of NumPy mark it as read-only
        assert not numpy.shares_memory(copy, fixed) and (copy == [fixed, fixed]).all()
        assert flags_of(wide) == READ_ONLY and flags_of(wide, copy=True) == IS_COPIED


def test_torch(torch):
    for kind, dtype in [(torch.float64, F64), (torch.float32, F32), (torch.float16, F16), (torch.bfloat16, BF16), (torch.int64, I64),
                        (torch.int32, I32), (torch.int16, I16), (torch.int8, I8), (torch.uint8, U8), (torch.bool, BOOL)]:
        array = torch.ones(3, 4, dtype=kind)
        try:
            tensor = taken(array)
        except RuntimeError as error:  # PyTorch 1.13 exports no bool
            assert kind is torch.bool and "not supported by dlpack" in str(error), error
            continue
        assert facts(tensor) == (array.data_ptr(), dtype, (3, 4), (4, 1)), (kind, facts(tensor))
        back = torch.from_dlpack(tensor)
        assert back.data_ptr() == array.data_ptr() and back.dtype == kind and torch.equal(back, array)
    array = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    empty = [] if torch.__version__.startswith("1.") else [array[:0]]  # PyTorch 1.13 never releases it
    for view in [array[1:, ::2].permute(2, 1, 0), array[2, 3, 4], *empty, array[:, :1, :1]]:
        tensor = taken(view)
        assert facts(tensor)[2] == tuple(view.shape)
        assert torch.equal(torch.from_dlpack(tensor), view)
    torch.from_dlpack(taken(array))[1, 2, 3] = -5
    assert array[1, 2, 3] == -5
    assert torch.from_dlpack(taken(torch.arange(1000))).sum() == 499500
    refused("complex64", taken, torch.ones(3, dtype=torch.complex64))


def test_jax(jax):
    array = jax.numpy.arange(12.0).reshape(3, 4)
    tensor = taken(array)
    assert facts(tensor) == (array.unsafe_buffer_pointer(), F32, (3, 4), (4, 1)), facts(tensor)
    back = jax.numpy.from_dlpack(tensor)
    assert (back == array).all() and back.unsafe_buffer_pointer() == array.unsafe_buffer_pointer()
    for kind, dtype in [("bfloat16", BF16), ("int8", I8), ("uint32", U32), ("bool", BOOL)]:
        array = jax.numpy.ones((5, 3), dtype=kind)
        tensor = taken(array)
        assert facts(tensor)[1] == dtype
        assert (jax.numpy.from_dlpack(tensor) == array).all()


context = c_void_p()
assert library.compute_open(byref(context), None) == 0, library.compute_error_message(None)
tested = []
for name, test in [("numpy", test_numpy), ("torch", test_torch), ("jax", test_jax)]:
    try:
        module = importlib.import_module(name)
    except ImportError:
        continue
    test(module)
    tested.append(f"{name} {module.__version__}")
if library.compute_close(context):
    sys.exit("after everything has been released: " + library.compute_error_message(None).decode())
if not tested:
    print("skipped: neither NumPy nor PyTorch nor JAX can be imported (Debian: python3-numpy)")
    sys.exit(77)
print("exchanged with " + ", ".join(tested))
