# SPDX-License-Identifier: MIT
"""Shared helpers of the compute-fit tests: arrays and pictures in their files, and runs of the
program in a separate folder."""
import array
import ast
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

sys.dont_write_bytecode = True  # write no files beside the sources
from test_programs import HANG  # noqa: E402 pylint: disable=wrong-import-position

TYPES = {"<f4": "f", "<u2": "H", "<i4": "i", "|u1": "B", "<f8": "d", "<i8": "q"}


def write_npy(path, code, shape, values):
    """Writes a .npy of the dtype `code` ("<f4") with `values`, a flat list."""
    head = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(array.array(TYPES[code], values).tobytes())
    return path


def read_npy(path):
    """Returns (shape, flat values) of a .npy of numbers, or (shape, list of dicts) of one with
    records."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    body = data[10 + size:]
    if isinstance(head["descr"], str):
        values = array.array(TYPES[head["descr"]])
        values.frombytes(body)
        return head["shape"], values
    record = struct.Struct("<" + "".join(TYPES[d[1]] for d in head["descr"]))
    names = [d[0] for d in head["descr"]]
    return head["shape"], [dict(zip(names, r)) for r in record.iter_unpack(body)]


def png_rows(data, width):
    """The rows of a PNG with three bytes per pixel."""
    packed, at = b"", 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        packed += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    plain, step, rows = zlib.decompress(packed), 3 * width, [bytes(3 * width)]
    for start in range(0, len(plain), step + 1):
        rule, row, above = plain[start], bytearray(plain[start + 1 : start + 1 + step]), rows[-1]
        for i in range(step if rule else 0):
            a, c = (row[i - 3], above[i - 3]) if i > 2 else (0, 0)
            b = above[i]
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[i] = (row[i] + (0, a, b, (a + b) // 2, nearest)[rule]) & 255
        rows.append(bytes(row))
    return rows[1:]


def written(*names):
    """The files whose format this build of compute-fit supports."""
    missing = {".tif": "TIFF", ".hdf5": "HDF5", ".raw": "YAML"}  # YAML describes .raw
    for library in os.environ["FORMATS"].split():
        missing = {ending: needed for ending, needed in missing.items() if needed != library}
    return [name for name in names if not name.endswith(tuple(missing))]


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def files(self):
        return sorted(os.listdir(self.folder))

    def start(self, *arguments, **more):
        program = os.path.join(os.environ["PROGRAMS"], "compute-fit")
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen([program, *arguments], cwd=self.folder, text=True, **more)

    def fit(self, *arguments, expected=0, **more):
        process = self.start(*arguments, **more)
        output, error = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, expected, f"{arguments}: {output}{error}")
        return output if expected == 0 else error

    def json(self, *arguments):
        return json.loads(self.fit(*arguments, "--json", "-"))

    def stack(self, count=500, *more):
        self.fit("simulate", "--rois", str(count), "-o", "s.npy", "--truth", "t.npy", "--quiet",
                 *more)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()
