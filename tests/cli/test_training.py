#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The example digits_cnn and the program of docs/guide/training.md, built and run like a user's: trained on
each device, saved, and loaded in another process. Independent readers also read the saved weights.

The variable EXAMPLES gives the folder of the example, BUILD the build folder; CC compiles.
"""
import ast
import json
import os
import re
import struct
import subprocess
import unittest
import zipfile

try:
    import numpy
except ImportError:
    numpy = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIGITS = os.path.join(ROOT, "bench", "data", "digits.csv.gz")
SCRATCH = os.environ["SCRATCH"]
SIZES = {"F32": ("f32", "f", 4), "I64": ("i64", "q", 8)}
LAST = re.compile(r"^accuracy (\d\.\d{4}) on 360 held-out digits, digest of the results "
                  r"([0-9a-f]{16}) \(device (\S+)\)$", re.M)


def example(*arguments, **variables):
    return subprocess.run([os.path.join(os.environ["EXAMPLES"], "example_digits_cnn"), *arguments],
                          capture_output=True, text=True, timeout=1800, check=False,
                          env={**os.environ, **variables})


def scratch(name):
    os.makedirs(SCRATCH, exist_ok=True)
    return os.path.join(SCRATCH, name)


def read_table(path):
    """The program's own values: {name: (dtype, shape, values)}"""
    tensors = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, dtype, shape, values = line.rstrip("\n").split("\t")
            number = int if dtype == "i64" else float
            tensors[name] = (dtype, json.loads(shape), [number(v) for v in values.split()])
    return tensors


def read_safetensors(path):
    """The same from a safetensors file, by the format's description."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header, data = json.loads(data[8:8 + length].decode("utf-8")), data[8 + length:]
    header.pop("__metadata__", None)
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, code, size = SIZES[entry["dtype"]]
        begin, stop = entry["data_offsets"]
        assert begin == end, f"{name}: a gap or an overlap"
        values = struct.unpack(f"<{(stop - begin) // size}{code}", data[begin:stop])
        tensors[name], end = (dtype, entry["shape"], list(values)), stop
    assert end == len(data)
    return tensors


def read_npz(path):
    """The same from an .npz file, by the format's description."""
    tensors = {}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for member in archive.namelist():
            data = archive.read(member)
            assert data[:8] == b"\x93NUMPY\x01\x00" and member.endswith(".npy")
            length, = struct.unpack("<H", data[8:10])
            header = ast.literal_eval(data[10:10 + length].decode("latin1"))
            assert not header["fortran_order"]
            dtype, code = {"<f4": ("f32", "f"), "<i8": ("i64", "q")}[header["descr"]]
            values = [v[0] for v in struct.iter_unpack("<" + code, data[10 + length:])]
            tensors[member[:-4]] = (dtype, list(header["shape"]), values)
    return tensors


def f32(values):
    """Each value rounded to f32."""
    return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


class Training(unittest.TestCase):
    """Trained, saved, and loaded in a second process."""
    device, epochs = None, "10"

    def learn(self):
        weights, table = scratch(f"{self.device}.safetensors"), scratch(f"{self.device}.table")
        trained = example("--device", self.device, "--epochs", self.epochs, "--save", weights,
                          "--table", table, DIGITS)
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
        found = LAST.search(trained.stdout)
        self.assertIsNotNone(found, trained.stdout)
        self.assertGreaterEqual(float(found.group(1)), 0.985)
        self.assertEqual(found.group(3), self.device)
        self.assertEqual(len(re.findall(r"^epoch +\d+ of ", trained.stdout, re.M)),
                         int(self.epochs))
        loaded = example("--device", self.device, "--predict", weights, DIGITS)
        self.assertEqual(loaded.returncode, 0, loaded.stdout + loaded.stderr)
        self.assertNotIn("epoch", loaded.stdout)
        self.assertEqual(LAST.search(loaded.stdout).groups(), found.groups())
        return weights, table, found.group(1)


class Cpu(Training):
    device = "cpu"

    def test_it_learns_and_a_second_process_predicts_exactly_the_same(self):
        self.learn()

    def test_others_read_every_value_that_the_program_held(self):
        weights, table = scratch("short.safetensors"), scratch("short.table")
        again = scratch("again.npz"), scratch("again.table")
        example("--device", "cpu", "--epochs", "1", "--save", weights, "--table", table, DIGITS)
        example("--device", "cpu", "--predict", weights, "--save", again[0], "--table", again[1],
                DIGITS)
        held = {name: (dtype, shape, f32(values) if dtype == "f32" else values)
                for name, (dtype, shape, values) in read_table(table).items()}
        self.assertEqual(len(held), 38)
        self.assertEqual(held["stem.weight"][:2], ("f32", [16, 1, 3, 3]))
        self.assertEqual(held["block2.shortcut.0.weight"][:2], ("f32", [32, 16, 1, 1]))
        self.assertEqual(held["head.bias"][:2], ("f32", [10]))
        self.assertEqual(held["1.num_batches_tracked"], ("i64", [], [44]))
        for tensors in read_safetensors(weights), read_npz(again[0]):
            self.assertEqual(set(tensors), set(held))
            for name, (dtype, shape, values) in held.items():
                self.assertEqual(tensors[name][:2], (dtype, shape), name)
                self.assertEqual(tensors[name][2], values, name)
        with open(table, "rb") as first, open(again[1], "rb") as second:
            self.assertEqual(first.read(), second.read())

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_numpy_reads_the_same(self):
        weights, other = scratch("numpy.npz"), scratch("numpy.table")
        example("--device", "cpu", "--epochs", "1", "--save", weights, "--table", other, DIGITS)
        held = read_table(other)
        with numpy.load(weights) as file:
            self.assertEqual(set(file.files), set(held))
            for name, (_, shape, values) in held.items():
                self.assertEqual(list(file[name].shape), shape, name)
                self.assertTrue((file[name].reshape(-1) ==
                                 numpy.array(values, file[name].dtype)).all(), name)

    def test_what_is_wrong_is_said(self):
        empty = scratch("empty.safetensors")
        with open(empty, "wb") as file:
            file.write(b"\x02\0\0\0\0\0\0\0{}")
        for arguments, status, words in (
                (["--predict", scratch("missing.safetensors"), DIGITS], 1, "missing.safetensors"),
                (["--predict", empty, DIGITS], 1, "stem.weight"),
                (["--device", "nothing:7", DIGITS], 1, "nothing:7"),
                ([os.path.join(SCRATCH, "missing.csv")], 1, "missing.csv"),
                (["--epochs", "0", DIGITS], 2, "--help"), (["--seed"], 2, "--help"),
                (["--nothing", "1", DIGITS], 2, "--help"), ([], 2, "--help")):
            result = example(*arguments, COMPUTE_DEVICE="cpu")
            self.assertEqual(result.returncode, status, arguments)
            self.assertIn("digits_cnn: ", result.stderr)
            self.assertIn(words, result.stderr)
        self.assertIn("usage: digits_cnn", example("--help").stdout)


class Elsewhere(Training):
    def learn_and_move(self):
        """A network trained on the device is as good on the CPU."""
        weights, _, accuracy = self.learn()
        moved = example("--device", "cpu", "--predict", weights, DIGITS)
        self.assertEqual(LAST.search(moved.stdout).group(1), accuracy)


class OpenCL(Elsewhere):
    device = "opencl:0"

    def test_it_learns_on_the_device_and_the_weights_move(self):
        self.learn_and_move()


class Cuda(Elsewhere):
    device, epochs = "cuda:0", "7"  # simulates a slow GPU

    def test_it_learns_on_the_device_and_the_weights_move(self):
        self.learn_and_move()


class Document(unittest.TestCase):
    """docs/guide/training.md: its programs do as the text promises."""

    def programs(self):
        with open(os.path.join(ROOT, "docs", "guide", "training.md"), encoding="utf-8") as file:
            return re.findall(r"^```c\n(.*?)^```$", file.read(), re.M | re.S)

    def test_the_program_in_it_compiles_and_learns(self):
        whole = [text for text in self.programs() if "int main(" in text]
        self.assertEqual(len(whole), 1)
        self.assertLessEqual(whole[0].count("\n"), 45)
        source, program = scratch("document.c"), scratch("document")
        with open(source, "w", encoding="utf-8") as file:
            file.write(whole[0])
        library = os.path.join(os.environ["BUILD"], "lib")
        subprocess.run([os.environ["CC"], "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror",
                        "-I" + os.path.join(ROOT, "include"), source, "-o", program,
                        "-L" + library, "-lcompute", "-Wl,-rpath," + library], check=True)
        result = subprocess.run([program, DIGITS], capture_output=True, text=True, check=False,
                                cwd=SCRATCH, env={**os.environ, "COMPUTE_DEVICE": "cpu"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        accuracy = re.search(r"^accuracy (\d\.\d+) on 359 digits", result.stdout, re.M)
        self.assertGreaterEqual(float(accuracy.group(1)), 0.97, result.stdout)
        weights = read_safetensors(scratch("digits.safetensors"))
        self.assertEqual(weights["0.weight"][1], [16, 1, 3, 3])

    def test_every_other_part_compiles(self):
        parts = [text for text in self.programs() if "int main(" not in text]
        self.assertGreater(len(parts), 5)
        source = scratch("parts.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <compute/compute.h>\n#include <stdio.h>\n")
            for i, text in enumerate(parts):
                if re.match(r"static ", text):
                    file.write(text)
                    continue
                file.write(f"void part{i}(compute_context *context, compute_device *device, "
                           "compute_layer *net, compute_dataset *data, compute_trainer *trainer, "
                           "compute_trainer_options options);\n"
                           f"void part{i}(compute_context *context, compute_device *device, "
                           "compute_layer *net, compute_dataset *data, compute_trainer *trainer, "
                           f"compute_trainer_options options) {{\n"
                           "  (void)context, (void)device, (void)net, (void)data, (void)trainer, "
                           f"(void)options;\n{text}}}\n")
        subprocess.run([os.environ["CC"], "-std=c11", "-Wall", "-Wextra", "-Werror",
                        "-Wno-unused-variable", "-Wno-unused-function",
                        "-Wno-unused-but-set-variable", "-fsyntax-only",
                        "-I" + os.path.join(ROOT, "include"), source], check=True)


if __name__ == "__main__":
    unittest.main()
