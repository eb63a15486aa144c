#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compute-tune from a user's view. Tests that need a device with generated kernels use opencl:0, and
are skipped without it."""
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import zlib

sys.dont_write_bytecode = True  # write no files beside the sources
from machine import open_terminal  # noqa: E402 pylint: disable=wrong-import-position
from test_programs import HANG, run  # noqa: E402 pylint: disable=wrong-import-position

DEVICE = '"opencl" "V" "M" "3.1"'


def entry(name="map/f32>f32/in2.dense/n20", parameters="vector=4", device=DEVICE):
    line = f"tuning 1 {device} {name} {parameters} 12345"
    return f"{line} {zlib.crc32(line.encode()):08x}\n"


def has_opencl():
    return "\n  opencl:0" in run("compute-info").stdout


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(self.folder, "tuning")

    def tune(self, *arguments, **variables):
        return run("compute-tune", *arguments, COMPUTE_TUNING_FILE=self.file, **variables)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_help_and_wrong_arguments(self):
        self.assertEqual(self.tune("--help").returncode, 0)
        for wrong in (["--wrong"], ["--limit"], ["--limit", "x"], ["--limit", "-1"],
                      ["--candidate-limit", "0"], ["--device"], ["--limit", "nan"]):
            result = self.tune(*wrong)
            self.assertEqual(result.returncode, 2, wrong)
            self.assertIn(wrong[0], result.stderr)
        suite = self.tune("--suite", "maps", "--device", "cpu")
        self.assertEqual(suite.returncode, 2)
        self.assertIn("maps", suite.stderr)

    def test_costs_are_measured_kept_and_shown(self):
        guessed = self.tune("--costs", "--dry-run", "--device", "cpu")
        self.assertEqual(guessed.returncode, 0)
        self.assertIn("cpu: guessed", guessed.stdout)
        self.assertFalse(os.path.exists(self.file + ".costs"))
        measured = self.tune("--costs", "--device", "cpu", "--limit", "0.3")
        self.assertEqual(measured.returncode, 0)
        self.assertIn("cpu: measured in", measured.stdout)
        self.assertIn("gemm f32", measured.stdout)
        self.assertIn(self.file + ".costs", measured.stdout)
        stored = self.tune("--costs", "--dry-run", "--device", "cpu")
        self.assertIn("cpu: measured before", stored.stdout)
        again = self.tune("--costs", "--dry-run", "--device", "cpu", COMPUTE_COSTS="guess")
        self.assertIn("cpu: guessed", again.stdout)
        self.assertEqual(self.tune("--costs", "--device", "null:0").returncode, 1)

    def test_a_device_without_generated_kernels_is_an_error(self):
        named = self.tune("--device", "cpu")
        self.assertEqual(named.returncode, 1)
        self.assertIn("nothing to tune", named.stderr)
        missing = self.tune("--device", "nothing:7")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("nothing:7", missing.stderr)
        unnamed = self.tune(COMPUTE_BACKENDS="cpu")
        self.assertEqual(unnamed.returncode, 1)
        self.assertIn("nothing to tune", unnamed.stderr)
        self.assertFalse(os.path.exists(self.file))

    def test_list_shows_what_is_in_force(self):
        empty = self.tune("--list")
        self.assertEqual(empty.returncode, 0)
        self.assertIn("no entries", empty.stdout)
        self.write("tuning", entry() + "damaged\n" + entry(parameters="vector=8") +
                   entry("gemm/f32>f32>f32/nn.single/b0m10n10k10", "-"))
        listed = self.tune("--list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        lines = listed.stdout.splitlines()
        self.assertEqual(lines[0], self.file)
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[1], r'^map/f32>f32/in2.dense/n20 +12.3 us +vector=8 +"opencl" "V"')
        self.assertIn("(the default)", lines[2])
        none = self.tune("--list", "--device", "cpu")
        self.assertIn("no entries", none.stdout)

    def test_export_and_import_carry_entries_over(self):
        self.write("tuning", entry(parameters="vector=2") + entry())
        target = os.path.join(self.folder, "target")
        self.assertEqual(self.tune("--export", target).returncode, 0)
        with open(target, encoding="utf-8") as file:
            self.assertEqual(file.read(), entry())
        shown = self.tune("--export", "-")
        self.assertEqual(shown.stdout, entry())
        os.unlink(self.file)
        with open(target, "a", encoding="utf-8") as file:
            file.write("damaged\n")
        taken = self.tune("--import", target, "--list")
        self.assertEqual(taken.returncode, 0)
        self.assertIn("1 invalid line was skipped", taken.stderr)
        self.assertIn("vector=4", taken.stdout)
        self.assertEqual(self.tune("--import", self.folder + "/nothing").returncode, 1)
        self.assertEqual(self.tune("--export", self.folder + "/nothing/at/all").returncode, 1)

    def test_full_disk_is_an_error(self):
        self.write("tuning", entry())
        with open("/dev/full", "w", encoding="utf-8") as full:
            program = os.path.join(os.environ["PROGRAMS"], "compute-tune")
            result = subprocess.run([program, "--list"], stdout=full, stderr=subprocess.DEVNULL,
                                    env={**os.environ, "COMPUTE_TUNING_FILE": self.file},
                                    check=False)
        self.assertEqual(result.returncode, 1)

    @unittest.skipUnless(has_opencl(), "no OpenCL device")
    def test_a_short_run_shows_a_table(self):
        result = self.tune("--device", "opencl:0", "--suite", "map", "--quick", "--dry-run",
                           "--candidate-limit", "0.05")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("[1/1] map add f32 1024x1024: ", result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0].split(), ["problem", "before", "after", "gain", "parameters"])
        self.assertIn("map add f32 1024x1024", lines[1])
        self.assertFalse(os.path.exists(self.file))

    @unittest.skipUnless(has_opencl(), "no OpenCL device")
    def test_interrupt_ends_cleanly_and_a_terminal_shows_progress(self):
        master, slave = open_terminal(self)
        process = subprocess.Popen(
            [os.path.join(os.environ["PROGRAMS"], "compute-tune"), "--device", "opencl:0"],
            stdout=subprocess.PIPE, stderr=slave, text=True,
            env={**os.environ, "COMPUTE_TUNING_FILE": self.file})
        os.close(slave)
        shown = ""
        while "/" not in shown:  # the first display of progress
            shown += os.read(master, 4096).decode()
        self.assertRegex(shown, r"\r\[[#.]{16}\]   \d%  \[1/")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG)
        os.close(master)
        self.assertEqual(process.returncode, 130)


if __name__ == "__main__":
    unittest.main()
