#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs in a German and a Turkish environment: their machine-readable output has the same bytes as in the locale
C."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # write no files beside the sources
from fit_fixture import written  # noqa: E402 pylint: disable=wrong-import-position
from test_programs import DIGITS, HANG  # noqa: E402 pylint: disable=wrong-import-position

LOCALES = ("de_DE.UTF-8", "tr_TR.UTF-8")
STEPS = (
    ("compute-fit", "simulate", "--rois", "40", "--seed", "3", "-o", "s.npy", "--truth", "truth.csv", "--quiet"),
    ("compute-fit", "fit", "s.npy", "-o", "fit.csv", "--sigma", "1.25", "--quiet"),
    ("compute-fit", "fit", "s.npy", "-o", "fit.npy", "--sigma", "1.25", "--quiet"),
    ("compute-fit", "render", "fit.csv", "-o", "picture.png", "--quiet"),
    ("compute-fit", "crlb", "--photons", "1000.5", "--json", "crlb.json"),
    ("compute-info", "--json"),
)


def make_locale(name, folder):
    """Makes the locale in `folder`. Returns True on success."""
    language, codes = name.split(".")
    done = subprocess.run(["localedef", "-i", language, "-f", codes, os.path.join(folder, name)],
                          capture_output=True, check=False)
    return done.returncode == 0


class Locale(unittest.TestCase):
    def files_in(self, **variables):
        """{name: bytes} of all files that the steps write, and of their standard output."""
        with tempfile.TemporaryDirectory() as folder:
            for number, (program, *arguments) in enumerate(STEPS):
                done = subprocess.run([os.path.join(os.environ["PROGRAMS"], program), *arguments], cwd=folder,
                                      capture_output=True, timeout=HANG, check=False, env={**os.environ, **variables})
                self.assertEqual(done.returncode, 0, (arguments, done.stderr))
                if program == "compute-fit":
                    with open(os.path.join(folder, f"output{number}"), "wb") as file:
                        file.write(done.stdout)
            found = {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), "rb") as file:
                    found[name] = file.read()
            return found

    def test_files_do_not_depend_on_the_locale(self):
        plain = self.files_in(LC_ALL="C")
        with tempfile.TemporaryDirectory() as folder:
            for name in LOCALES:
                if not make_locale(name, folder):
                    self.skipTest(f"localedef cannot make {name}")
                other = self.files_in(LC_ALL=name, LOCPATH=folder)
                for file in plain:
                    self.assertEqual(plain[file], other[file], f"{file} in {name}")


if __name__ == "__main__":
    if not shutil.which("localedef"):
        print("localedef is missing (Debian: libc-bin)")
        sys.exit(77)
    unittest.main()
