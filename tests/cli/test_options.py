#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Command lines of all programs: --help, manual pages, completions, and the messages about wrong
arguments. The tables of options generate all of them."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # write no files beside the sources
from test_programs import ROOT, run  # noqa: E402 pylint: disable=wrong-import-position

SHARE = os.path.join(os.path.dirname(os.environ["PROGRAMS"]), "share")
COMMANDS = {"compute-info": [()], "compute-tune": [()], "compute-bench": [()],
            "compute-conformance": [()], "compute-run": [()],
            "compute-fit": [("fit",), ("simulate",), ("crlb",), ("validate",), ("bench",), ("render",),
                            ("link",), ("drift",), ("calibrate",)]}
PROGRAMS = {name: commands for name, commands in COMMANDS.items()
            if os.path.exists(os.path.join(os.environ["PROGRAMS"], name))}


def options_of(program, command, argument="--help"):
    """The long options of a help text."""
    text = run(program, *command, argument).stdout
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M))


def page(program, kind, name):
    with open(os.path.join(SHARE, kind, name), encoding="utf-8") as file:
        return file.read()


class Options(unittest.TestCase):
    def refused(self, program, *arguments):
        """The message about a refused command line."""
        result = run(program, *arguments)
        self.assertEqual(result.returncode, 2, f"{program} {arguments}: {result.stderr}")
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith(program + ": "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        return result.stderr

    def test_every_program_has_help_and_the_version_of_the_library(self):
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            version = re.search(r"^project\(compute VERSION (\S+)", file.read(), re.M).group(1)
        for program, commands in PROGRAMS.items():
            shown = run(program, "--version")
            self.assertEqual((shown.returncode, shown.stdout),
                             (0, f"{program} (libcompute) {version}\n"))
            for command in [(), *commands]:
                result = run(program, *command, "--help")
                self.assertEqual(result.returncode, 0)
                self.assertEqual(result.stdout, run(program, *command, "-h").stdout)
                self.assertLess(max(map(len, result.stdout.splitlines())), 80, result.stdout)

    def test_help_that_cannot_be_written_is_an_error(self):
        for program in PROGRAMS:
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([os.path.join(os.environ["PROGRAMS"], program), "--help"],
                                        stdout=full, check=False)
            self.assertEqual(result.returncode, 1, program)

    def test_a_name_that_is_nearly_right_gets_a_proposal(self):
        for command, words in {
                "compute-fit fit --sgima 1": "unknown option --sgima; did you mean --sigma?",
                "compute-fit fit -sigma 1": "unknown option -sigma; did you mean --sigma?",
                "compute-fit fit --sgima=1": "unknown option --sgima; did you mean --sigma?",
                "compute-fit fitt": "unknown command 'fitt'; did you mean fit?",
                "compute-fit crlb --model XYNBB": "did you mean XYNB?",
                "compute-fit --sigma 1": "the command must come before --sigma",
                "compute-info --jsno": "did you mean --json?",
                "compute-info --vrsion": "did you mean --version?",
                "compute-info --var": "did you mean --variables?",
                "compute-tune --divice cpu": "did you mean --device?",
                "compute-bench --filtre x": "did you mean --filter?",
                "compute-bench --plan x": "unknown option --plan; see compute-bench --help",
                "compute-conformance --hoks x cpu": "did you mean --hooks?",
                "compute-info --wholly-different": "see compute-info --help",
        }.items():
            program, *arguments = command.split()
            if program in PROGRAMS:
                self.assertIn(words, self.refused(program, *arguments), command)

    def test_values_that_are_missing_or_out_of_range_are_named(self):
        for command, words in {
                "compute-fit crlb --sigma": "--sigma needs a value",
                "compute-fit crlb --sigma --roi 7": "--sigma needs a value",
                "compute-fit crlb --sigma=": "invalid --sigma ''",
                "compute-fit crlb --roi=65": "invalid --roi '65': it must be rows and columns, each from 1 to 64",
                "compute-fit crlb --help=1": "--help does not take a value",
                "compute-fit crlb --roi 7 --roi 8": "--roi was given twice",
                "compute-tune --limit": "--limit needs a value",
                "compute-tune --limit -1": "invalid --limit '-1': it must be a number above 0",
                "compute-tune --quick=yes": "--quick does not take a value",
                "compute-bench --threads 0": "invalid --threads '0': it must be a whole number from 1 to 4096",
                "compute-bench --threads 99999999999999999999": "from 1 to 4096",
                "compute-bench --suite matmul,nothing": "elementwise",
                "compute-bench -- stray": "unexpected argument 'stray'",
                "compute-conformance cpu null": "unexpected argument 'null'",
                "compute-conformance": "a DEVICE is missing",
                "compute-conformance --seed x cpu": "invalid --seed 'x'",
                "compute-info --json --": None,
                "compute-info -": "unexpected argument '-'",
        }.items():
            program, *arguments = command.split()
            if program not in PROGRAMS:
                continue
            if words:
                self.assertIn(words, self.refused(program, *arguments), command)
            else:
                self.assertEqual(run(program, *arguments).returncode, 0, command)

    def test_values_may_follow_as_the_next_argument_or_an_equals_sign(self):
        outputs = {run("compute-fit", "crlb", *form).stdout
                   for form in (("--roi", "5x9"), ("--roi=5x9",))}
        self.assertEqual(len(outputs), 1)
        self.assertNotEqual(outputs, {run("compute-fit", "crlb").stdout})
        with tempfile.TemporaryDirectory() as folder:
            for i, form in enumerate((["-o", "{}"], ["-o{}"], ["-o={}"], ["--output={}"])):
                path = os.path.join(folder, f"{i}.npy")
                result = run("compute-fit", "simulate", "--rois=5",
                             *[word.format(path) for word in form])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertTrue(os.path.exists(path), form)

    def test_options_for_developers_are_in_help_all_alone(self):
        ordinary, all_of_them = (options_of("compute-bench", (), a) for a in ("--help", "--help-all"))
        self.assertEqual(all_of_them - ordinary, {"--first-result", "--fit-memory", "--plant"})
        self.assertIn("unknown option --help-all", self.refused("compute-tune", "--help-all"))


class Pages(unittest.TestCase):
    def test_manual_pages_have_every_option_and_the_sections_of_a_page(self):
        for program, commands in PROGRAMS.items():
            text = page(program, "man", program + ".1").replace("\\-", "-")
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT",
                            "EXAMPLES", "SEE ALSO"):
                self.assertIn(f"\n.SH {section}\n", text, program)
            for command in commands:
                for option in options_of(program, command):
                    self.assertIn(f"\\fB{option}\\fR", text, program)
            self.assertNotIn("--plant", text)

    def test_manual_pages_are_well_formed(self):
        if not shutil.which("groff"):
            self.skipTest("no groff")
        for program in PROGRAMS:
            path = os.path.join(SHARE, "man", program + ".1")
            result = subprocess.run(["groff", "-man", "-Tutf8", "-ww", path], capture_output=True,
                                    text=True, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, ""), program)

    def test_completions_are_scripts_that_their_shells_can_read(self):
        for kind, shell, name in (("bash", "bash", "{}"), ("zsh", "zsh", "_{}"),
                                  ("fish", "fish", "{}.fish")):
            for program, commands in PROGRAMS.items():
                text = page(program, kind, name.format(program))
                for command in commands:
                    for option in options_of(program, command):
                        self.assertIn(option.lstrip("-"), text)
                found = shutil.which(os.environ.get(shell.upper(), shell))
                if found:
                    result = subprocess.run([found, "-n", os.path.join(SHARE, kind, name.format(program))],
                                            capture_output=True, text=True, check=False)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))

    def complete(self, line, folder=None):
        """The completions that bash offers after a line, requested like readline."""
        program = line.split()[0]
        script = ("source \"$1\"; COMP_LINE=$2 COMP_POINT=${#2}; compopt() { :; }; _${3//-/_}; "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"")
        path = os.environ["PROGRAMS"] + os.pathsep + os.environ["PATH"]
        result = subprocess.run(["bash", "-c", script, "bash", os.path.join(SHARE, "bash", program), line,
                                 program], capture_output=True, text=True, check=False, cwd=folder,
                                env={**os.environ, "PATH": path})
        self.assertEqual(result.stderr, "")
        return set(result.stdout.split())

    def test_bash_completes_commands_options_choices_lists_devices_and_files(self):
        self.assertEqual(self.complete("compute-fit s"), {"simulate"})
        self.assertEqual(self.complete("compute-fit fit --mo"), {"--model"})
        self.assertNotIn("--rois", self.complete("compute-fit fit --"))
        self.assertIn("--rois", self.complete("compute-fit simulate --"))
        self.assertEqual(self.complete("compute-fit fit --model XYNBS"), {"XYNBS", "XYNBSXSY"})
        self.assertEqual(self.complete("compute-fit fit --model=XYZ"), {"XYZNB"})
        self.assertEqual(self.complete("compute-bench --suite matmul,re"), {"matmul,reduce"})
        self.assertNotIn("--plant", self.complete("compute-bench --"))
        self.assertEqual(self.complete("compute-bench --device c"), {"cpu"})
        self.assertIn("cpu,auto", self.complete("compute-fit fit --device=cpu,"))
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "movie.tif"), "w", encoding="utf-8").close()
            for line in ("compute-fit fit mo", "compute-fit fit --mask mo", "compute-bench --json=mo"):
                self.assertEqual(self.complete(line, folder), {"movie.tif"}, line)

    def test_bash_offers_only_suites_of_the_library(self):
        offered = self.complete("compute-tune --suite ")
        self.assertGreater(len(offered), 10)
        for suite in sorted(offered):
            result = run("compute-tune", "--suite", suite, "--device", "cpu", "--dry-run")
            self.assertIn("nothing to tune", result.stderr, suite)

    def test_bash_completes_after_a_colon_what_readline_has_not_taken_yet(self):
        devices = set(run("compute-info", "--names").stdout.split())
        if "opencl:0" not in devices:
            self.skipTest("no device with a colon")
        self.assertEqual(self.complete("compute-bench --device opencl:"), {"0"})
        self.assertEqual(self.complete("compute-bench --device op"), {"opencl:0"})


if __name__ == "__main__":
    unittest.main()
