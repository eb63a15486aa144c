#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compute-run from a user's view, on small models that this file writes byte by byte."""
import io
import json
import os
import re
import struct
import sys
import tempfile
import unittest
import zipfile
import zlib

sys.dont_write_bytecode = True  # write no files beside the sources
from test_programs import run  # noqa: E402 pylint: disable=wrong-import-position

FLOAT, INT64, STRING = 1, 7, 8


def varint(number):
    result = b""
    while number > 127:
        result += bytes([number & 127 | 128])
        number >>= 7
    return result + bytes([number])


def field(number, value):
    """A field of a Protocol Buffers message: an integer, text or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def port(name, dtype, sizes):
    """A ValueInfoProto; sizes are numbers or names."""
    shape = b"".join(field(1, field(1 if isinstance(s, int) else 2, s)) for s in sizes)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def node(operator, inputs, outputs):
    return (b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
            + field(4, operator))


def model(nodes, inputs, outputs, initializers=()):
    graph = (b"".join(field(1, n) for n in nodes) + field(2, "graph")
             + b"".join(field(5, i) for i in initializers) + b"".join(field(11, i) for i in inputs)
             + b"".join(field(12, o) for o in outputs))
    return field(1, 8) + field(2, "a test") + field(7, graph) + field(8, field(1, "") + field(2, 17))


def numbers(name, values):
    """A TensorProto of floats."""
    return (field(1, len(values)) + field(2, FLOAT) + field(8, name)
            + field(9, struct.pack(f"<{len(values)}f", *values)))


def npy(values, shape=None, dtype="<f4"):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape or [len(values)])}, }}"
    head = head.ljust(117) + "\n"
    letter = {"<f4": "f", "<i8": "q"}[dtype]
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
            + struct.pack(f"<{len(values)}{letter}", *values))


def values_of(data):
    """The floats of a .npy file's content."""
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return list(struct.unpack(f"<{(len(data) - start) // 4}f", data[start:]))


def png(rows):
    """A picture of rows of [red, green, blue]."""
    def chunk(name, data):
        return (struct.pack(">I", len(data)) + name + data
                + struct.pack(">I", zlib.crc32(name + data)))
    data = b"".join(b"\0" + bytes(sum(row, [])) for row in rows)
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


# y = x + w, for x with any number of rows.
SUM = model([node("Add", ["x", "w"], ["y"])], [port("x", FLOAT, ["rows", 3])],
            [port("y", FLOAT, ["rows", 3])], [numbers("w", [10, 20, 30])])
# z = a · b
PRODUCT = model([node("Mul", ["a", "b"], ["z"])], [port("a", FLOAT, [2]), port("b", FLOAT, [2])],
                [port("z", FLOAT, [2])])
IMAGE = model([node("Identity", ["picture"], ["same"])], [port("picture", FLOAT, ["n", 3, "h", 4])],
              [port("same", FLOAT, ["n", 3, "h", 4])])


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        return path

    def npz(self, name, **arrays):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for key, values in arrays.items():
                archive.writestr(key + ".npy", npy(values))
        return self.file(name, content.getvalue())

    def good(self, *arguments):
        result = run("compute-run", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def bad(self, status, words, *arguments):
        result = run("compute-run", *arguments)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertRegex(result.stderr, words)
        return result.stdout

    def outputs(self, path):
        with zipfile.ZipFile(path) as archive:
            return {name[:-4]: values_of(archive.read(name)) for name in archive.namelist()}

    def test_the_model_and_what_it_did_are_shown(self):
        text = self.good(self.file("m.onnx", SUM))
        for line in (r"producer +a test", r"opset +17", r"x +f32 \[rows,3\]", r"y +f32 \[rows,3\]",
                     r"x +f32 \[1,3\]: random, rows = 1", r"first run +\S+ [mu]?s",
                     r"peak memory +\S+ .iB", r"plans +1"):
            self.assertRegex(text, line)

    def test_inputs_come_from_npy_files_and_outputs_go_to_npz(self):
        path, out = self.file("m.onnx", SUM), self.file("out.npz")
        given = self.file("in.npy", npy([1, 2, 3, 4, 5, 6], (2, 3)))
        for form in (["--input", "x=" + given], ["-i", given]):
            self.good(path, *form, "-o", out)
            self.assertEqual(self.outputs(out), {"y": [11, 22, 33, 14, 25, 36]})

    def test_inputs_come_from_an_npz_all_together_or_one_by_one(self):
        path, out = self.file("m.onnx", PRODUCT), self.file("out.npz")
        both = self.npz("both.npz", a=[1, 2], b=[3, 4], z=[9, 9])
        for form in ([both], ["a=" + both, "b=" + both]):
            self.good(path, *[word for given in form for word in ("--input", given)], "-o", out)
            self.assertEqual(self.outputs(out), {"z": [3, 8]})
        self.bad(1, "'c', which is not an input", path, "-i", self.npz("c.npz", a=[1, 2], c=[1, 2]))

    def test_shapes_of_random_inputs_can_be_given_whole_or_by_symbol(self):
        path = self.file("m.onnx", SUM)
        for form in ("x=5x3", "rows=5"):
            self.assertRegex(self.good(path, "--shape", form), r"y +f32 \[5,3\]")
        self.bad(2, "what follows the '='", path, "--shape", "x=5x")
        self.bad(2, "what follows the '='", path, "--shape", "rows=5x3")
        self.bad(2, "'x'", path, "--shape", "q=5")

    def test_random_inputs_are_those_of_the_seed(self):
        path = self.file("m.onnx", SUM)
        files = [self.file(f"{i}.npz") for i in range(3)]
        for out, seed in zip(files, ("1", "1", "2")):
            self.good(path, "--seed", seed, "-o", out)
        first, second, third = map(self.outputs, files)
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)

    def test_images_become_tensors(self):
        path, out = self.file("m.onnx", IMAGE), self.file("out.npz")
        picture = self.file("p.png", png([[[255, 0, 51]] * 4, [[0, 255, 102]] * 4]))
        if "without libpng" in run("compute-run", path, "-i", picture).stderr:
            self.skipTest("no libpng")
        text = self.good(path, "-i", picture, "-o", out)
        self.assertRegex(text, r"same +f32 \[1,3,2,4\]")
        expected = [1] * 4 + [0] * 4 + [0] * 4 + [1] * 4 + [0.2] * 4 + [0.4] * 4
        for value, wanted in zip(self.outputs(out)["same"], expected):
            self.assertAlmostEqual(value, wanted, places=6)
        self.good(path, "-i", picture, "-o", out, "--mean", "255,0,1", "--scale", "2,1,1")
        self.assertEqual(self.outputs(out)["same"][::4], [0, -510, 0, 255, 50, 101])
        text = self.good(path, "-i", picture, "--resize", "7x4")
        self.assertRegex(text, r"same +f32 \[1,3,7,4\]")
        self.bad(1, "--resize 2x4", path, "-i", self.file("q.png", png([[[0, 0, 0]] * 3] * 2)))
        self.bad(1, "cannot read", path, "-i", self.file("r.png", b"no picture"))

    def test_pictures_are_judged_by_their_size_before_they_are_read(self):
        def huge(rows, columns):  # with almost no pixels
            content = png([[[0, 0, 0]]])
            header = struct.pack(">4sIIBBBBB", b"IHDR", columns, rows, 8, 2, 0, 0, 0)
            return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]
        path = self.file("m.onnx", IMAGE)
        if "without libpng" in run("compute-run", path, "-i", self.file("p.png", huge(1, 4))).stderr:
            self.skipTest("no libpng")
        wide = self.file("w.png", huge(20000, 20000))
        self.bad(1, "20000 x 20000 pixels; --resize 20000x4 makes it fit", path, "-i", wide)
        self.bad(1, "3 x 5 pixels; --resize 3x4 makes it fit", path, "-i", wide, "--resize", "3x5")
        self.bad(1, "more than 67108864 pixels", path, "-i", wide, "--resize", "3x4")
        self.bad(1, "32768 rows or columns", path, "-i", self.file("h.png", huge(40000, 4)))
        open_sizes = model([node("Identity", ["picture"], ["same"])], [port("picture", FLOAT, ["n", 3, "h", "w"])],
                           [port("same", FLOAT, ["n", 3, "h", "w"])])
        self.bad(1, "more than 67108864 pixels", self.file("o.onnx", open_sizes), "-i", wide)

    def test_files_that_others_may_write_are_not_mapped(self):
        path = self.file("m.onnx", model(
            [node("Add", ["x", "w"], ["y"])], [port("x", FLOAT, [64])], [port("y", FLOAT, [64])],
            [numbers("w" * (i + 1), [0] * 64) for i in range(8)]))  # at least one of them is aligned
        for mode, options, shared in ((0o600, [], False), (0o666, [], True), (0o666, ["--map"], False)):
            os.chmod(path, mode)
            text = self.good(path, *options)
            self.assertEqual(" 0 % used in place" in text, shared, text)

    def test_outputs_are_compared_within_tolerances(self):
        path, given = self.file("m.onnx", PRODUCT), self.npz("in.npz", a=[1, 2], b=[3, 4])
        text = self.good(path, "-i", given, "--compare", self.npz("same.npz", z=[3, 8]))
        self.assertRegex(text, r"z +equal")
        near = self.npz("near.npz", z=[3, 8.004])
        self.assertRegex(self.good(path, "-i", given, "-c", near), r"z +agrees.* at \[1\]")
        text = self.bad(1, "^$", path, "-i", given, "-c", near, "--tolerance", "1e-4")
        self.assertRegex(text, r"z +DIFFERS.* at \[1\]: 8, expected 8.00[34]")
        self.assertIn("1 of 2 differ by more than", text)
        self.good(path, "-i", given, "-c", near, "--tolerance", "0,0.01")
        self.bad(1, "^$", path, "-i", given, "-c", self.npz("more.npz", z=[3, 8, 1]))
        self.bad(1, "none of the outputs", path, "-i", given, "-c", given)

    def test_it_times_explains_and_profiles(self):
        report = self.file("profile.json")
        text = self.good(self.file("m.onnx", SUM), "--bench", "20", "--explain", "--profile", report)
        self.assertRegex(text, r"later runs +median \S+ [mu]?s, fastest \S+ [mu]?s, 90 % within")
        self.assertTrue(re.search(r"\badd\b", text), text)
        with open(report, encoding="utf-8") as file:
            self.assertIn("devices", json.load(file))

    def test_texts_come_from_lines_and_sequences_from_several_files(self):
        strings = model([node("Identity", ["a"], ["b"])], [port("a", STRING, ["n"])],
                        [port("b", STRING, ["n"])])
        path = self.file("strings.onnx", strings)
        lines = self.file("lines.txt", "x y\né\r\n\nz".encode())
        shown = self.good(path, "--input", "a=" + lines, "--bench", "2")
        self.assertRegex(shown, r"b +text \[4\]: 'x y', 'é', '', 'z'")
        self.bad(1, "UTF-8", path, "--input", "a=" + self.file("wrong.txt", b"\xff"))
        written = self.file("texts.npz")
        result = run("compute-run", path, "-i", "a=" + lines, "--output", written)
        self.assertEqual(result.returncode, 0)
        self.assertIn("'b' is not a tensor of numbers and is left out", result.stderr)
        self.bad(1, "cannot be read", path, "--input", "a=" + self.file("nowhere.txt"))
        ports = [field(1, name) for name in ("a", "y")]
        insert = model([node("SequenceInsert", ["a", "b"], ["y"])],
                       [ports[0] + field(2, field(4, field(1, field(1, field(1, FLOAT))))),
                        port("b", FLOAT, [1])],
                       [ports[1] + field(2, field(4, field(1, field(1, field(1, FLOAT)))))])
        one, two = self.file("one.npy", npy([1])), self.file("two.npy", npy([1, 2]))
        shown = self.good(self.file("insert.onnx", insert), "-i", "a=" + one, "-i", "a=" + two)
        self.assertRegex(shown, r"y +sequence of 3\n +f32 \[1\]\n +f32 \[2\]\n +f32 \[1\]")

    def test_options_of_quantization_belong_together(self):
        path, small = self.file("m.onnx", PRODUCT), self.file("small.onnx")
        self.bad(2, "need --quantize", path, "--bits", "4")
        self.bad(2, "need --quantize", path, "--method", "f16")
        self.bad(2, "does not run", path, "--quantize", small, "--output", self.file("o.npz"))
        self.bad(2, "does not run", path, "--quantize", small, "--bench", "3")
        self.bad(2, "method static", path, "--quantize", small, "--method", "f16", "--signed")
        self.bad(2, "method weights", path, "--quantize", small, "--block", "32")
        self.bad(2, "method weights", path, "--quantize", small, "--rounding", "gptq")
        self.bad(2, "static or weights", path, "--quantize", small, "--method", "f16",
                 "--bits", "8")
        self.assertFalse(os.path.exists(small))
        self.good(path, "--quantize", small, "--method", "f16", "--seed", "1")
        self.assertTrue(os.path.exists(small))

    def test_what_is_wrong_is_said(self):
        path = self.file("m.onnx", PRODUCT)
        self.bad(2, "a MODEL is missing")
        self.bad(1, "nowhere.onnx", self.file("nowhere.onnx"))
        self.bad(1, "broken.onnx", self.file("broken.onnx", b"\x08\x08\x12"))
        self.bad(2, "name of an input", path, "-i", self.file("x.npy", npy([1, 2])))
        both = self.file("x.npy", npy([1, 2]))
        self.bad(2, "'a' is given twice", path, "-i", "a=" + both, "-i", "a=" + both)
        self.bad(2, "values of this input", path, "-i", "a=" + both, "--shape", "a=2")
        self.bad(1, "a", path, "-i", "a=" + self.file("y.npy", npy([1, 2, 3])))
        self.bad(1, "nothing:7", path, "--device", "nothing:7")
        unknown = model([node("Nonsense", ["a"], ["b"])], [port("a", FLOAT, [2])],
                        [port("b", FLOAT, [2])])
        self.bad(1, "Nonsense", self.file("unknown.onnx", unknown))
        strings = model([node("Identity", ["a"], ["b"])], [port("a", STRING, [2])],
                        [port("b", STRING, [2])])
        self.bad(1, "not a tensor of numbers", self.file("strings.onnx", strings))


if __name__ == "__main__":
    unittest.main()
