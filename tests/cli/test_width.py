#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs' output for people fits into 80 columns unless the terminal is wider.

ctest sets PROGRAMS, the folder of the programs."""
import os
import subprocess
import tempfile
import unittest

PROGRAMS = os.environ["PROGRAMS"]
COLUMNS = 80
LONG_PATHS = ":".join("/opt/a-folder-with-a-long-name/%d/modules" % i for i in range(6))  # path: only its length counts


def run(*command, **variables):
    done = subprocess.run([os.path.join(PROGRAMS, command[0]), *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env={**os.environ, **variables})
    return done.returncode, done.stdout


class Width(unittest.TestCase):
    def check(self, text, what):
        for line in text.splitlines():
            self.assertLessEqual(len(line), COLUMNS, "%s: %s" % (what, line))

    def test_help(self):
        names = sorted(name for name in os.listdir(PROGRAMS)
                       if name.startswith("compute-") and name.split("-")[1] in ("bench", "fit", "info", "run", "tune"))
        self.assertIn("compute-info", names)
        commands = [(name,) for name in names if name.count("-") == 1]
        commands += [("compute-fit", word) for word in ("fit", "simulate", "crlb", "validate", "bench", "render", "link",
                                                        "drift", "calibrate") if "compute-fit" in names]
        for command in commands:
            for option in ("--help", "--help-all"):
                status, text = run(*command, option)
                if option == "--help":  # the other option exists only where it shows more
                    self.assertEqual(status, 0, command)
                self.check(text, " ".join(command + (option,)))

    def test_info(self):
        modules = os.path.join(PROGRAMS, "..", "lib", "compute")
        paths = ":".join([os.path.abspath(modules)] + LONG_PATHS.split(":"))
        for options in ((), ("--variables",)):
            _, text = run("compute-info", *options, COMPUTE_BACKEND_PATH=paths, COMPUTE_BACKENDS="cpu")
            self.check(text, "compute-info")
            for path in LONG_PATHS.split(":"):  # broken between paths only
                self.assertTrue(any(path in line for line in text.splitlines()), path)

    def test_unknown_variables(self):
        _, text = run("compute-info", COMPUTE_BACKENDS="cpu", COMPUTE_THRADS="3", COMPUTE_QXZWKJ="1")
        words = " ".join(text.split())
        self.assertIn("COMPUTE_THRADS unknown; did you mean COMPUTE_THREADS", words)
        self.assertIn("COMPUTE_QXZWKJ unknown", words)
        self.assertNotIn("COMPUTE_BACKENDS unknown", words)

    def test_summaries(self):
        with tempfile.TemporaryDirectory() as folder:
            movie, truth, results = (os.path.join(folder, name) for name in ("movie.npy", "truth.npy", "results.csv"))
            status, text = run("compute-fit", "simulate", "--movie", "--frames", "40", "--size", "64", "--spots", "12",
                               "-o", movie, "--truth", truth)
            self.assertEqual(status, 0, text)
            status, text = run("compute-fit", "fit", movie, "-o", results, "--truth", truth, "--device", "cpu")
            self.assertEqual(status, 0, text)
            self.assertIn("Kolmogorov", text)
            self.check(text.replace(folder, ""), "compute-fit fit")


if __name__ == "__main__":
    unittest.main(verbosity=2)
