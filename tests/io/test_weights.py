# SPDX-License-Identifier: MIT
"""Files of named tensors, compared with independent readers and writers.

Arguments: the path of weights_tool and a folder. This file has a reader of safetensors by the
format's description. NumPy and the safetensors library take part if they are installed."""
import ast
import json
import os
import struct
import subprocess
import sys
import unittest
import zipfile

try:
    import numpy
except ImportError:
    numpy = None
try:
    import safetensors.numpy
except ImportError:
    safetensors = None

TOOL, FOLDER = sys.argv[1:3]

# Name: (dtype of safetensors, of NumPy, of struct, shape), as in weights_tool.
TENSORS = {
    "0.weight": ("F32", "f4", "f", [3, 4]),
    "0.bias": ("F64", "f8", "d", [5]),
    'größe "\\\t': ("I64", "i8", "q", []),
    "i32": ("I32", "i4", "i", [2, 1, 3]),
    "u16": ("U16", "u2", "H", [3]),
    "i8": ("I8", "i1", "b", [2]),
    "i16": ("I16", "i2", "h", [2]),
    "u32": ("U32", "u4", "I", [2]),
    "u64": ("U64", "u8", "Q", [2]),
    "u8": ("U8", "u1", "B", [1]),
    "bool": ("BOOL", "b1", "?", [3]),
    "f16": ("F16", "f2", "e", [2, 2]),
    "empty": ("F32", "f4", "f", [0, 3]),
    "large": ("F32", "f4", "f", [300000]),
}
OURS = {"F32": "f32", "F64": "f64", "I64": "i64", "I32": "i32", "U16": "u16", "U8": "u8",
        "BOOL": "bool", "F16": "f16", "I8": "i8", "I16": "i16", "U32": "u32", "U64": "u64"}


def expected(index, code, shape):
    count = 1
    for size in shape:
        count *= size
    values = [7 * index + i for i in range(count)]
    return struct.pack(f"<{count}{code}", *([v % 2 == 1 for v in values] if code == "?" else values))


EXPECTED = {name: expected(i, code, shape)
            for i, (name, (_, _, code, shape)) in enumerate(TENSORS.items())}


def run(*arguments):
    result = subprocess.run([TOOL, *arguments], capture_output=True, text=True, encoding="utf-8")
    if result.returncode:
        raise AssertionError(result.stderr)
    return result.stdout


def path(name):
    return os.path.join(FOLDER, name)


def read_safetensors(name):
    """{name: (dtype, shape, bytes)}"""
    with open(name, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header, data = json.loads(data[8:8 + length].decode("utf-8")), data[8 + length:]
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in metadata.values())
    end, tensors = 0, {}
    for key, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert begin == end, f"{key}: a gap or an overlap"
        tensors[key], end = (entry["dtype"], entry["shape"], data[begin:stop]), stop
    assert end == len(data)
    return tensors


def read_npz(name):
    """{name: (dtype, shape, bytes)}, without NumPy"""
    tensors = {}
    with zipfile.ZipFile(name) as archive:
        assert archive.testzip() is None
        for member in archive.namelist():
            data = archive.read(member)
            assert data[:8] == b"\x93NUMPY\x01\x00" and member.endswith(".npy")
            length, = struct.unpack("<H", data[8:10])
            header = ast.literal_eval(data[10:10 + length].decode("latin1"))
            assert not header["fortran_order"]
            tensors[member[:-4]] = (header["descr"][1:], list(header["shape"]), data[10 + length:])
    return tensors


def read_ours(name):
    tensors = {}
    for line in run("read", name).split("\n")[:-1]:
        dtype, shape, data, key = line.split(" ", 3)
        tensors[key] = (dtype, json.loads(shape), bytes.fromhex(data))
    return tensors


def arrays():
    return {name: numpy.frombuffer(EXPECTED[name], kind).reshape(shape)
            for name, (_, kind, _, shape) in TENSORS.items()}


class Weights(unittest.TestCase):
    maxDiff = 500

    def check(self, tensors, column):
        self.assertEqual(set(tensors), set(TENSORS))
        for name, (dtype, shape, data) in tensors.items():
            wanted = TENSORS[name]
            self.assertEqual(dtype, OURS[wanted[0]] if column is None else wanted[column], name)
            self.assertEqual(list(shape), wanted[3], name)
            self.assertTrue(bytes(data) == EXPECTED[name], name)

    def check_arrays(self, loaded):
        self.check({name: (a.dtype.str[1:], a.shape, a.tobytes()) for name, a in loaded.items()}, 1)

    def test_safetensors_say_what_was_written(self):
        run("write", path("ours.safetensors"))
        self.check(read_safetensors(path("ours.safetensors")), 0)
        self.check(read_ours(path("ours.safetensors")), None)

    def test_npz_says_what_was_written(self):
        run("write", path("ours.npz"))
        self.check(read_npz(path("ours.npz")), 1)
        self.check(read_ours(path("ours.npz")), None)

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_numpy_reads_and_writes(self):
        run("write", path("numpy.npz"))
        with numpy.load(path("numpy.npz")) as file:
            self.check_arrays({name: file[name] for name in file.files})
        for save in numpy.savez, numpy.savez_compressed:
            save(path("theirs.npz"), **arrays())
            self.check(read_ours(path("theirs.npz")), None)
        swapped = {name: numpy.asfortranarray(a.astype(a.dtype.newbyteorder(">")))
                   for name, a in arrays().items()}
        numpy.savez_compressed(path("swapped.npz"), **swapped)
        read = read_ours(path("swapped.npz"))
        for name, (_, _, data) in read.items():
            self.assertTrue(data == EXPECTED[name], name)

    @unittest.skipUnless(numpy and safetensors, "the safetensors library is not installed")
    def test_the_safetensors_library_reads_and_writes(self):
        run("write", path("library.safetensors"))
        self.check_arrays(safetensors.numpy.load_file(path("library.safetensors")))
        safetensors.numpy.save_file(arrays(), path("theirs.safetensors"), {"format": "pt"})
        self.check(read_ours(path("theirs.safetensors")), None)


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    unittest.main(argv=sys.argv[:1], verbosity=2)
