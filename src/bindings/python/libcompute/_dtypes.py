# SPDX-License-Identifier: MIT
"""Types of elements."""
import numpy

from libcompute import _core


class DType:
    """A type of elements: float32, int64, …"""

    __slots__ = ("name", "code", "kind", "bytes")

    def __init__(self, name, code, kind, size):
        self.name, self.code, self.kind, self.bytes = name, code, kind, size

    def __repr__(self):
        return f"libcompute.{self.name}"

    def __reduce__(self):
        return find_dtype, (self.name,)

    @property
    def itemsize(self):
        """Bytes of one element."""
        return self.bytes


# In the order of the library's numbers.
DTYPES = [None, DType("float64", 1, "real floating", 8), DType("float32", 2, "real floating", 4),
          DType("float16", 3, "real floating", 2), DType("bfloat16", 4, "real floating", 2),
          DType("int64", 5, "signed integer", 8), DType("int32", 6, "signed integer", 4),
          DType("uint8", 7, "unsigned integer", 1), DType("bool", 8, "bool", 1),
          DType("uint16", 9, "unsigned integer", 2), DType("int8", 10, "signed integer", 1),
          DType("int16", 11, "signed integer", 2), DType("uint32", 12, "unsigned integer", 4),
          DType("uint64", 13, "unsigned integer", 8)]
BY_NAME = {one.name: one for one in DTYPES[1:]}
SHORT = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
         "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8"}
(_, float64, float32, float16, bfloat16, int64, int32, uint8, bool_, uint16, int8, int16, uint32, uint64) = DTYPES
PYTHON = {bool: bool_, int: int64, float: float32}


def find_dtype(value):
    """The DType of a name, of a type of Python, or of a dtype of NumPy."""
    if isinstance(value, DType):
        return value
    if value in PYTHON:
        return PYTHON[value]
    name = SHORT.get(value, value) if isinstance(value, str) else numpy.dtype(value).name
    if name not in BY_NAME:
        raise TypeError(f"{value!r} is not a dtype here; those are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def numpy_dtype(dtype):
    """NumPy's dtype; bfloat16 has none."""
    if dtype is bfloat16:
        raise TypeError("NumPy has no bfloat16; cast to float32 first")
    return numpy.dtype(dtype.name)


_core.register({"DTYPES": DTYPES, "find_dtype": find_dtype})
