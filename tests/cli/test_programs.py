#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compute-info, compute-bench and the examples from a user's view.

The variable PROGRAMS gives the folder of the programs, EXAMPLES the examples' folder.
"""
import ctypes
import fcntl
import gzip
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.dont_write_bytecode = True  # write no files beside the sources
from machine import nowhere, open_terminal  # noqa: E402 pylint: disable=wrong-import-position

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIGITS = os.path.join(ROOT, "bench", "data", "digits.csv.gz")
STATES = {"loaded", "no device", "missing library", "wrong ABI", "not a module", "disabled",
          "failed", "duplicate"}
RECORD = {"suite", "case", "device", "dtype", "ms", "ms_p10", "ms_p90", "gflops", "gbytes_s",
          "max_rel_err", "ok"}
PEER = {"peer", "peer_ms", "speedup"}
HANG = 600  # seconds after which a program counts as hung, even on a busy machine


def run(program, *arguments, folder="PROGRAMS", **variables):
    """A finished process, with its output as text."""
    environment = {**os.environ, **variables}
    return subprocess.run([os.path.join(os.environ[folder], program), *arguments],
                          capture_output=True, text=True, errors="replace", timeout=HANG,
                          env=environment, check=False)


def benchmark(folder, *arguments):
    """The parsed JSON of a quick compute-bench run without peers."""
    path = os.path.join(folder, "bench.json")
    result = run("compute-bench", "--quick", "--peers", "none", "--device", "cpu", "--json", path,
                 *arguments)
    with open(path, encoding="utf-8") as file:
        return result, json.load(file)


class Info(unittest.TestCase):
    def report(self, expected=0, **variables):
        result = run("compute-info", "--json", **variables)
        self.assertEqual(result.returncode, expected, result.stderr)
        return json.loads(result.stdout)

    def test_json_lists_the_cpu_and_the_state_of_every_module(self):
        report = self.report()
        self.assertRegex(report["version"], r"^\d+\.\d+\.\d+$")
        self.assertIsNone(report["error"])
        cpu = [d for d in report["devices"] if d["name"] == "cpu"]
        self.assertEqual(len(cpu), 1)
        self.assertEqual(cpu[0]["type"], "CPU")
        self.assertIn("compute", cpu[0]["capabilities"])
        self.assertGreater(cpu[0]["memory_total"], 0)
        self.assertEqual(sum(d["default"] for d in report["devices"]), 1)
        # The first module of a name is in use; an installation may offer duplicates after it.
        modules = {m["name"]: m for m in reversed(report["modules"])}
        self.assertEqual(modules["cpu"]["state"], "loaded")
        for module in modules.values():
            self.assertIn(module["state"], STATES)

    def test_the_blas_library_is_named_if_one_is_used(self):
        def blas(**variables):
            report = self.report(**variables)
            return next(d["blas"] for d in report["devices"] if d["name"] == "cpu")
        self.assertIsNone(blas(COMPUTE_BLAS="none"))
        text = run("compute-info", COMPUTE_BLAS="none").stdout
        self.assertRegex(text, r"BLAS +not used: none: disabled by COMPUTE_BLAS=none")
        name = "libopenblas.so.0"
        try:
            ctypes.CDLL(name)
        except OSError:
            self.skipTest(f"no {name} (Debian: libopenblas0)")
        self.assertRegex(blas(COMPUTE_BLAS=name), r"^OpenBLAS \d")
        text = run("compute-info", COMPUTE_BLAS=name).stdout
        self.assertRegex(text, rf"BLAS +OpenBLAS \d.*, from {name}")

    def test_json_names_every_variable_with_its_value(self):
        report = self.report(COMPUTE_THREADS="1")
        values = {v["name"]: v["value"] for v in report["variables"]}
        self.assertEqual(values["COMPUTE_THREADS"], "1")
        self.assertIn("COMPUTE_DEVICE", values)

    def test_json_stays_valid_with_bytes_that_are_not_utf8(self):
        report = self.report(OPENBLAS_ODD=os.fsdecode(b'a"\xff\\\x01'))
        self.assertIn("OPENBLAS_ODD", report["environment"])

    def test_a_default_device_that_is_not_there_is_reported_beside_those_that_are(self):
        report = self.report(1, COMPUTE_DEVICE="nothing:7")
        self.assertIn("nothing:7", report["error"]["message"])
        self.assertIn("cpu", [d["name"] for d in report["devices"]])
        values = {v["name"]: v["value"] for v in report["variables"]}
        self.assertEqual(values["COMPUTE_DEVICE"], "nothing:7")

    def test_a_bad_value_of_any_variable_is_an_error_that_names_it(self):
        for name, value, words in (
                ("COMPUTE_BACKENDS", "cpu,cudda", "it must be some of "),
                ("COMPUTE_BACKENDS", "CPU", "names separated by ','"),
                ("COMPUTE_BACKEND_PATH", "relative", "absolute paths"),
                ("COMPUTE_LOG", "loud", "one of off, error, warning, info, debug"),
                ("COMPUTE_THREADS", "0", "a whole number from 1 to 4096"),
                ("COMPUTE_THREADS", "two", "a whole number from 1 to 4096"),
                ("COMPUTE_CACHE_DIR", "relative", "an absolute path"),
                ("COMPUTE_CACHE_LIMIT", "-1", "a whole number of bytes"),
                ("COMPUTE_PROFILE", nowhere("profile.json"), "cannot be written"),
                ("COMPUTE_TRACE", "/proc", "cannot be written"),
                ("COMPUTE_VALIDATE", "yes", "one of 1, warn, replace, strict"),
                ("COMPUTE_LEAKS", "yes", "it must be 1"),
                ("COMPUTE_TUNING", "gemm=4", "gemm=4"),
                ("COMPUTE_TUNING_FILE", "relative", "an absolute path or none"),
                ("COMPUTE_COSTS", "measured", "one of measure, stored, guess"),
                ("COMPUTE_CPU_ISA", "avx3",
                 "one of scalar, neon, dotprod, i8mm, bf16, rvv, simd128, avx2, avx512, amx"),
                ("COMPUTE_POOL_BUDGET", "1G", "a whole number of bytes"),
                ("COMPUTE_BLAS", nowhere("libblas.so"), nowhere("libblas.so")),
                ("COMPUTE_OPENCL_SUBDEVICES", "65", "a whole number from 0 to 64"),
                ("COMPUTE_TRANSPORT", "Open MPI", "a module's name"),
                ("COMPUTE_GROUP_TIMEOUT", "0", "a whole number from 1 to 2147483647"),
                ("COMPUTE_GROUP_HOST_ONLY", "yes", "a whole number from 0 to 1"),
                ("COMPUTE_CUDA_LIBRARIES", "cublas,cudn", "none, or cublas, cudnn, nccl")):
            report = self.report(1, **{name: value})
            message = report["error"]["message"]
            self.assertIn(name, message)
            self.assertIn(words, message, name)
            self.assertTrue(report["error"]["remedy"], name)
            self.assertIn("cpu", [d["name"] for d in report["devices"]], name)
            values = {v["name"]: v["value"] for v in report["variables"]}
            self.assertEqual(values[name], value)
            program = run("compute-bench", "--quick", "--filter", "pool_hit*", **{name: value})
            self.assertEqual(program.returncode, 1)
            self.assertIn(name, program.stderr)

    def test_every_variable_of_libcompute_refuses_a_bad_value(self):
        """A new variable needs a row above, or an exception: a compiler is needed only to build a kernel
        (tests/custom), and an unusable folder of dumps is a warning (tests/plan)."""
        names = {v["name"] for v in self.report()["variables"] if v["name"].startswith("COMPUTE_")}
        with open(__file__, encoding="utf-8") as file:
            tested = set(re.findall(r'\("(COMPUTE_\w+)", (?:"|nowhere)', file.read()))
        self.assertEqual(names - tested, {"COMPUTE_DEVICE", "COMPUTE_CC", "COMPUTE_DUMP"})

    def test_options_take_the_place_of_a_bad_value(self):
        result = run("compute-bench", "--quick", "--filter", "pool_hit*", "--threads", "1", "--plant",
                     "miss", COMPUTE_THREADS="0")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_text_names_device_modules_variables_and_cache_folder(self):
        result = run("compute-info", COMPUTE_CACHE_DIR=nowhere(), OMP_NUM_THREADS="3")
        self.assertEqual(result.returncode, 0)
        for word in ("cpu", "Modules", "COMPUTE_CACHE_DIR", nowhere(), "OMP_NUM_THREADS=3"):
            self.assertIn(word, result.stdout)

    def test_text_has_variables_that_are_set_and_all_of_them_when_asked(self):
        some = run("compute-info", COMPUTE_THREADS="1").stdout
        self.assertRegex(some, r"\n  COMPUTE_THREADS +1\n")
        self.assertNotIn("COMPUTE_TUNING ", some)
        self.assertNotIn("(not set)", some)
        everything = run("compute-info", "--variables").stdout
        self.assertRegex(everything, r"\n  COMPUTE_TUNING +\(not set\)\n")

    def test_the_null_device_is_shown_when_asked_for(self):
        self.assertNotIn("null", run("compute-info").stdout)
        self.assertEqual(run("compute-info", "--names").stdout.splitlines()[0], "cpu")
        self.assertNotIn("null:0", run("compute-info", "--names").stdout)
        for result in (run("compute-info", "--all"), run("compute-info", COMPUTE_DEVICE="null:0")):
            self.assertIn("\n  null:0", result.stdout)
        self.assertIn("null:0\n", run("compute-info", "--all", "--names").stdout)

    def test_what_to_install_is_said_where_there_is_something_to_use(self):
        if self.states().get("cuda") != "missing library":
            self.skipTest("needs the CUDA module and no driver")
        remedy = "NVIDIA driver"
        with tempfile.TemporaryDirectory() as bus:
            def device(vendor, kind):
                os.makedirs(os.path.join(bus, "0000:01:00.0"), exist_ok=True)
                for name, value in (("vendor", vendor), ("class", kind)):
                    with open(os.path.join(bus, "0000:01:00.0", name), "w", encoding="utf-8") as file:
                        file.write(value + "\n")
                return self.cuda_lines("--pci", bus)
            self.assertNotIn(remedy, self.cuda_lines("--pci", bus))
            self.assertNotIn(remedy, device("0x8086", "0x030000"))
            self.assertNotIn(remedy, device("0x10de", "0x040300"))  # the audio function of such a card
            self.assertIn(remedy, device("0x10de", "0x030000"))
            self.assertIn(remedy, device("0x10de", "0x030200"))
        self.assertNotIn(remedy, self.cuda_lines("--pci", nowhere()))
        self.assertIn(remedy, self.cuda_lines("--pci", nowhere(), "--all"))
        asked = self.cuda_lines("--pci", nowhere(), COMPUTE_DEVICE="cuda:0")
        self.assertIn(remedy, asked)

    def states(self):
        return {m["name"]: m["state"] for m in reversed(self.report()["modules"])}

    def cuda_lines(self, *arguments, **variables):
        """The remedy that the text shows for the CUDA module."""
        text = run("compute-info", *arguments, **variables).stdout
        found = re.search(r"\n  cuda: .*?(?=\n  \w|\n\n)", text, re.S)
        return next((line for line in found.group(0).splitlines() if line.startswith("    remedy")), "")

    def test_help_and_wrong_arguments(self):
        self.assertEqual(run("compute-info", "--help").returncode, 0)
        wrong = run("compute-info", "--wrong")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("--wrong", wrong.stderr)

    def test_full_disk_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            program = os.path.join(os.environ["PROGRAMS"], "compute-info")
            result = subprocess.run([program, "--json"], stdout=full, stderr=subprocess.DEVNULL,
                                    check=False)
        self.assertEqual(result.returncode, 1)


def module(report, name):
    """The first module with this name, which is in use."""
    return next(m for m in report["modules"] if m["name"] == name)


class OpenCL(unittest.TestCase):
    """The OpenCL backend from a user's view, with PoCL and without any driver."""

    def info(self, expected=0, **variables):
        result = run("compute-info", "--json", **variables)
        self.assertEqual(result.returncode, expected, result.stderr)
        return json.loads(result.stdout)

    def check_absence(self, state, words, **variables):
        """There is no device, but a reason, a remedy, and a working CPU."""
        report = self.info(**variables)
        found = module(report, "opencl")
        self.assertEqual(found["state"], state)
        for word in words:
            self.assertIn(word, found["detail"])
        self.assertTrue(found["remedy"])
        self.assertEqual(found["device_count"], 0)
        self.assertEqual({d["backend"] for d in report["devices"]} & {"opencl"}, set())
        text = run("compute-info", **variables)
        self.assertEqual(text.returncode, 0)
        self.assertIn(f"opencl: {state}", text.stdout)
        self.assertIn(found["detail"].splitlines()[0][:40], text.stdout)
        hello = run("example_hello", folder="EXAMPLES", **variables)
        self.assertEqual(hello.returncode, 0, hello.stderr)
        self.assertEqual(hello.stderr, "")
        asked = run("example_hello", folder="EXAMPLES", COMPUTE_DEVICE="opencl:0", **variables)
        self.assertEqual(asked.returncode, 1)
        self.assertIn("opencl:0", asked.stderr)
        return found

    def test_info_lists_the_device(self):
        report = self.info()
        self.assertEqual(module(report, "opencl")["state"], "loaded")
        device = next(d for d in report["devices"] if d["name"] == "opencl:0")
        self.assertEqual(device["type"], "CPU")
        self.assertIn("compute", device["capabilities"])
        self.assertIn("f64", device["capabilities"])
        for key in ("model", "vendor", "driver"):
            self.assertTrue(device[key], key)
        self.assertGreater(device["memory_total"], 0)
        text = run("compute-info").stdout
        self.assertIn("opencl: loaded, 1 device", text)
        self.assertIn(device["model"], text)

    def test_without_a_driver_info_says_so(self):
        self.check_absence("no device", (nowhere(), "OCL_ICD_VENDORS"),
                           OCL_ICD_VENDORS=nowhere())
        with tempfile.TemporaryDirectory() as folder:
            self.check_absence("no device", (folder,), OCL_ICD_VENDORS=folder)

    def test_without_a_loader_info_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "libOpenCL.so.1"), "wb") as file:
                file.write(b"no library")
            found = self.check_absence("missing library", ("libOpenCL.so.1",),
                                       LD_LIBRARY_PATH=folder)
            self.assertIn("ocl-icd-libopencl1", found["remedy"])

    def test_a_platform_without_a_usable_device_is_explained(self):
        for order, words in (("no_device=1", "no device"), ("no_compiler=1", "compiler"),
                             ("version=11", "1.2"), ("unavailable=1", "available")):
            found = self.check_absence("no device", ("Portable Computing Language", words),
                                       OPENCL_LAYERS=os.environ["OPENCL_LAYER"],
                                       COMPUTE_TEST_LAYER=order)
            self.assertIn("install", found["remedy"])

    def test_digits_learns_on_the_device(self):
        result = run("example_digits", DIGITS, folder="EXAMPLES", COMPUTE_DEVICE="opencl:0")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        found = re.search(r"^accuracy (0\.\d{4}) on 360 held-out digits \(device opencl:0\)$",
                          result.stdout, re.M)
        self.assertIsNotNone(found, result.stdout)
        self.assertGreaterEqual(float(found.group(1)), 0.96)

    def test_a_second_run_compiles_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            profile = os.path.join(folder, "profile.json")
            builds = []
            for _ in range(2):
                result = run("example_hello", folder="EXAMPLES", COMPUTE_DEVICE="opencl:0",
                             COMPUTE_PROFILE=profile, POCL_CACHE_DIR=os.path.join(folder, "pocl"),
                             COMPUTE_CACHE_DIR=os.path.join(folder, "compute"))
                self.assertEqual(result.returncode, 0, result.stderr)
                with open(profile, encoding="utf-8") as file:
                    devices = json.load(file)["devices"]
                os.unlink(profile)
                builds.append(next(d for d in devices if d["name"] == "opencl:0")["builds"])
        first, second = builds
        self.assertGreater(first["programs_compiled"], 0)
        self.assertEqual(second["programs_compiled"], 0)
        self.assertGreater(second["programs_from_disk"] + second["programs_from_driver"], 0)


class Bench(unittest.TestCase):
    def test_records_have_exactly_the_promised_fields_and_are_right(self):
        with tempfile.TemporaryDirectory() as folder:
            result, data = benchmark(folder, "--suite", "matmul,overhead,memory",
                                     "--filter", "*[!0-9][16][64]*")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(set(data), {"environment", "records"})
        self.assertTrue(data["records"])
        for record in data["records"]:
            self.assertEqual(set(record) - PEER - {"goal"}, RECORD)
            self.assertIn(len(set(record) & PEER), (0, 3))
            self.assertIs(record["ok"], True, record)
            self.assertGreater(record["ms"], 0)
            self.assertLessEqual(record["ms_p10"], record["ms_p90"])
        self.assertIn("matmul_64", [r["case"] for r in data["records"]])

    def test_a_filter_may_have_several_patterns(self):
        result = run("compute-bench", "--list", "--suite", "matmul,reduce", "--filter",
                     "matmul_64,reduce/argmax*,none")
        self.assertEqual(re.findall(r"^  (\w+)", result.stdout, re.M),
                         ["matmul_64", "argmax_rows_4096"])

    def test_prepare_runs_every_case_once_and_measures_nothing(self):
        options = ("--quick", "--device", "cpu", "--filter", "matmul_64,relu_1M,pool_hit*", "--prepare")
        result = run("compute-bench", "--suite", "matmul,elementwise,memory", *options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("records prepared; 0 wrong", result.stdout)
        self.assertNotIn("median", result.stdout)
        result = run("compute-bench", *options, "--json", "none.json")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--prepare measures nothing", result.stderr)

    def planted(self, what, *arguments):
        """A run with a planted error in its only case: (process, its last line, the record)."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.json")
            result = run("compute-bench", "--quick", "--peers", "none", "--device", "cpu",
                         "--filter", "pool_hit*", "--plant", what, "--json", path, *arguments)
            record = None
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    record = json.load(file)["records"][0]
        return result, result.stdout.splitlines()[-1], record

    def test_a_missed_time_is_shown_with_its_goal_and_fails_nothing(self):
        result, last, record = self.planted("miss")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        text = "memory/pool_hit_1MiB on cpu: planted time 1.140 ms, goal: at most 1.100 ms"
        self.assertEqual(last, f"missed: {text}")
        self.assertIn("0 wrong, 1 slower than their goal", result.stdout)
        self.assertIs(record["ok"], True)
        self.assertNotIn("failure", record)
        self.assertEqual(record["goal"], {"what": "planted time", "unit": "ms", "seen": 1.14,
                                          "allowed": 1.1, "least": False, "met": False})
        result, last, record = self.planted("miss", "--strict")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(last, f"FAILED (--strict): {text}")

    def test_a_wrong_result_fails_and_the_last_line_says_what_was_seen_and_allowed(self):
        result, last, record = self.planted("wrong")
        self.assertEqual(result.returncode, 1)
        text = "planted error 0.500, at most 1.00e-06 allowed"
        self.assertEqual(last, f"FAILED: memory/pool_hit_1MiB on cpu: {text}")
        self.assertIs(record["ok"], False)
        self.assertEqual(record["failure"], {"what": "planted error", "unit": "", "seen": 0.5,
                                             "allowed": 1e-6, "least": False, "text": text})

    def test_a_case_whose_program_fails_repeats_its_last_words(self):
        """Without libtiff the case is skipped, and the message names the package."""
        for script, words in (("echo first >&2; echo 'compute-fit: no room' >&2; exit 3",
                               "compute-fit failed: compute-fit: no room"),
                              ("exit 3", "compute-fit failed: exit status 3"),
                              ("kill -SEGV $$", r"compute-fit failed: signal 11 \(.*\)")):
            with tempfile.TemporaryDirectory() as folder:
                shutil.copy(os.path.join(os.environ["PROGRAMS"], "compute-bench"), folder)
                fake = os.path.join(folder, "compute-fit")
                with open(fake, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/bash\n{script}\n")
                os.chmod(fake, 0o755)
                result = subprocess.run(
                    [os.path.join(folder, "compute-bench"), "--quick", "--peers", "none",
                     "--device", "cpu", "--filter", "fit/XYNB_7_t*", "--plant", "miss"],
                    capture_output=True, text=True, timeout=HANG, check=False)
            if "TIFF" in os.environ["FORMATS"].split():
                self.assertEqual(result.returncode, 1)
                self.assertRegex(result.stdout.splitlines()[-1],
                                 f"^FAILED: fit/XYNB_7_tiff on cpu: {words}$")
            else:
                self.assertEqual(result.returncode, 0)
                self.assertIn("fit/XYNB_7_tiff skipped: compute-fit was built without libtiff "
                              "(Debian: libtiff-dev)", result.stderr)

    def test_a_leak_a_crash_and_a_hang_fail_and_are_named(self):
        for what, words in (("leak", r"session/close on cpu: .*1 object"),
                            ("crash", r"memory/pool_hit_1MiB: crashed, SIGSEGV"),
                            ("hang", r"memory/pool_hit_1MiB: hangs, no end after 2 s")):
            result, last, _ = self.planted(what)
            self.assertNotEqual(result.returncode, 0, what)
            self.assertRegex(last, f"^FAILED: {words}")

    def test_an_interrupted_run_keeps_what_it_has_measured(self):
        """SIGTERM as timeout(1) sends it: twice."""
        twice = (signal.SIGTERM, signal.SIGTERM)
        for signals, plant, status in ((twice, "miss", 130), ((signal.SIGINT,), "miss", 130), (twice, "wrong", 1)):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "bench.json")
                with subprocess.Popen(
                        [os.path.join(os.environ["PROGRAMS"], "compute-bench"), "--quick", "--peers", "none",
                         "--device", "cpu", "--suite", "overhead,elementwise", "--plant", plant, "--json", path],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                    while not process.stdout.readline().startswith("  open_again"):
                        self.assertIsNone(process.poll())
                    for number in signals:
                        process.send_signal(number)
                    output, errors = process.communicate(timeout=HANG)
                with open(path, encoding="utf-8") as file:
                    data = json.load(file)
            self.assertEqual(process.returncode, status, output + errors)
            note = next(n for n in data["environment"]["notes"] if n.startswith("interrupted: "))
            measured, cases = (int(word) for word in re.findall(r"\d+", note))
            self.assertTrue(2 <= measured < cases, note)
            self.assertIn(note, errors)
            self.assertIn(f"{len(data['records'])} records; ", output)
            self.assertEqual([r["case"] for r in data["records"]][:2], ["open_first", "open_again"])

    def on_terminal(self, *arguments, columns=80, **variables):
        """The terminal output of a run with a planted error in its only case."""
        master, slave = open_terminal(self)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm", **variables}
        environment.pop("NO_COLOR", None) if "NO_COLOR" not in variables else None
        process = subprocess.Popen(
            [os.path.join(os.environ["PROGRAMS"], "compute-bench"), "--quick", "--peers", "none",
             "--device", "cpu", "--filter", "pool_hit*", *arguments],
            stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(master)
        process.wait(timeout=HANG)
        return shown.decode().replace("\r\n", "\n")

    def test_the_table_fits_a_terminal_and_has_all_columns_where_there_is_room(self):
        narrow = run("compute-bench", "--quick", "--device", "cpu", "--filter", "matmul_64").stdout
        for line in narrow.splitlines():
            if not line.startswith("missed: "):
                self.assertLessEqual(len(line), 80, line)
        self.assertIn("median", narrow)
        self.assertNotIn("p10", narrow)
        for wide in (run("compute-bench", "--quick", "--peers", "none", "--device", "cpu", "--filter",
                         "pool_hit*", "--wide", "--plant", "miss").stdout,
                     self.on_terminal("--plant", "miss", columns=140)):
            self.assertIn("p10 ... p90", wide)
        self.assertNotIn("p10", self.on_terminal("--plant", "miss", columns=129))

    def test_failures_are_coloured_on_terminals_that_have_colours(self):
        failed = "FAILED: memory/pool_hit_1MiB on cpu: planted error 0.500, at most 1.00e-06 allowed"
        self.assertIn(f"\033[31m{failed}\033[0m\n", self.on_terminal("--plant", "wrong"))
        self.assertIn("\033[33mmissed:", self.on_terminal("--plant", "miss"))
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            shown = self.on_terminal("--plant", "wrong", **variables)
            self.assertIn(f"\n{failed}\n", shown)
            self.assertNotIn("\033[3", shown)
        self.assertNotIn("\033", self.planted("wrong")[0].stdout)

    def test_progress_is_shown_before_anything_is_measured(self):
        shown = self.on_terminal("--plant", "leak")
        self.assertTrue(shown.startswith("\ropening the device\033[K"), shown[:200])
        self.assertIn("\rmeasuring the machine's limits\033[K", shown)
        self.assertIn("[1/1] memory/pool_hit_1MiB\033[K\r\033[K", shown)
        self.assertNotIn("\r", self.on_terminal("--plant", "leak", TERM="dumb").replace("\r\n", "\n"))
        self.assertTrue(self.planted("miss")[0].stderr.startswith("opening the device\n"))

    def test_list_names_suites_and_cases(self):
        result = run("compute-bench", "--list")
        self.assertEqual(result.returncode, 0)
        for word in ("elementwise", "matmul_4096", "reduce", "memory", "overhead", "conv3x3_128_wino",
                     "max_pool_2x2", "batch_norm_32", "cnn_step_128"):
            self.assertIn(word, result.stdout)
        self.assertNotIn("matmul_64", run("compute-bench", "--list", "--suite", "reduce").stdout)

    def test_wrong_arguments_are_refused(self):
        for arguments in (("--wrong",), ("--suite", "nothing"), ("--threads", "none"), ("--json",),
                          ("stray",), ("--plant", "roses")):
            result = run("compute-bench", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn("compute-bench:", result.stderr)

    def test_a_device_that_is_not_there_is_an_error(self):
        result = run("compute-bench", "--device", "nothing:7")
        self.assertEqual(result.returncode, 1)
        self.assertIn("nothing:7", result.stderr)

    def test_a_file_that_cannot_be_written_is_an_error(self):
        result = run("compute-bench", "--quick", "--peers", "none", "--filter", "pool_hit*",
                     "--json", nowhere("bench.json"))
        self.assertEqual(result.returncode, 1)
        self.assertIn(nowhere("bench.json"), result.stderr)
        self.assertEqual(result.stdout, "", "the file is checked before anything is measured")

    def test_the_check_of_a_file_does_not_create_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.json")
            result = run("compute-bench", "--filter", "no_such_case", "--suite", "overhead", "--plant", "miss",
                         "--json", path)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertFalse(os.path.exists(path))


class BenchSuites(unittest.TestCase):
    def test_what_may_be_slow_has_a_goal_and_is_right_however_busy_the_machine_is(self):
        with tempfile.TemporaryDirectory() as folder:
            result, data = benchmark(folder, "--suite", "batch", "--filter", "source_bound")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        goal = data["records"][0]["goal"]
        self.assertEqual((goal["what"], goal["allowed"]), ("time / slowest stage", 1.1))
        self.assertIs(goal["met"], goal["seen"] <= 1.1)

    def test_fits_say_what_their_rate_is_worth(self):
        with tempfile.TemporaryDirectory() as folder:
            result, data = benchmark(folder, "--suite", "fit", "--filter", "XYNB_7")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        fit = data["records"][0]["fit"]
        self.assertEqual((fit["rows"], fit["columns"], fit["parameters"]), (7, 7, 4))
        self.assertGreater(fit["rois_per_second"], 0)
        self.assertGreater(fit["converged"], 0.99)
        self.assertAlmostEqual(fit["std_over_bound"], 1, delta=0.05)

    def test_networks_are_right_and_keep_to_the_planned_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            result, data = benchmark(folder, "--suite", "conv,pool,norm,train",
                                     "--filter", "[bcm][alo]*_[36m]*")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual({r["suite"] for r in data["records"]}, {"conv", "pool", "norm", "train"})
        memory = next(r["training"] for r in data["records"] if r["case"] == "mlp_memory")
        self.assertGreater(memory["samples_per_second"], 0)
        self.assertAlmostEqual(memory["measured_bytes"] / memory["planned_bytes"], 1, delta=0.1)

    def test_environment_says_what_could_change_the_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            _, data = benchmark(folder, "--filter", "relu_1M", "--commit", "abc", "--threads", "1")
        environment = data["environment"]
        self.assertEqual(environment["git_commit"], "abc")
        self.assertEqual(environment["threads"], 1)
        for key in ("cpu_model", "isa", "driver", "compiler", "library_version", "date",
                    "variables", "device", "peers", "notes"):
            self.assertIn(key, environment)
        for key in ("fma_f32_gflops", "fma_f64_gflops", "stream_copy_gbytes_s",
                    "stream_add_gbytes_s"):
            self.assertGreater(environment["limits"][key], 0)


class Examples(unittest.TestCase):
    def test_hello_prints_its_device(self):
        result = run("example_hello", folder="EXAMPLES", COMPUTE_DEVICE="cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("device cpu", result.stdout)
        self.assertEqual(len(re.findall(r" -?\d+\.\d{4}", result.stdout)), 10)

    def test_fit_is_as_good_as_its_bound(self):
        result = run("example_fit", folder="EXAMPLES", COMPUTE_DEVICE="cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^CONVERGED: x = \d\.\d{3} \+- 0\.\d{3}\n")
        self.assertLess(abs(float(result.stdout.split()[-3]) - 1), 0.05)

    def test_own_function_learns_on_every_device(self):
        for device in "cpu", "opencl:0":
            result = run("example_own_function", device, folder="EXAMPLES")
            if device != "cpu" and "opencl" in result.stderr:
                continue
            self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
            self.assertIn(f"on device {device}: gain 2.5", result.stdout)
        wrong = run("example_own_function", "nothing:7", folder="EXAMPLES")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("nothing:7", wrong.stderr)

    def test_oscillator_is_near_the_exact_solution(self):
        result = run("example_oscillator", folder="EXAMPLES", COMPUTE_DEVICE="cpu")
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertLess(float(result.stdout.split()[-1]), 0.002)
        self.assertEqual(run("example_oscillator", "3", folder="EXAMPLES").returncode, 2)

    def test_least_squares_finds_the_certified_values(self):
        result = run("example_least_squares", folder="EXAMPLES", COMPUTE_DEVICE="cpu")
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertIn("b1 = 238.94212918, certified 238.94212918", result.stdout)

    def test_decode_says_what_is_wrong_with_its_model(self):
        self.assertEqual(run("example_decode", folder="EXAMPLES").returncode, 2)
        result = run("example_decode", nowhere("x.onnx"), "5", "1", folder="EXAMPLES")
        self.assertEqual(result.returncode, 1)
        self.assertIn(nowhere("x.onnx"), result.stderr)

    def test_embed_sentences_says_what_is_wrong_with_its_input(self):
        self.assertEqual(run("example_embed_sentences", "folder", folder="EXAMPLES").returncode, 2)
        result = run("example_embed_sentences", nowhere(), "a", "b", folder="EXAMPLES")
        self.assertEqual(result.returncode, 1)
        self.assertIn(nowhere("vocab.txt"), result.stderr)

    def test_read_text_says_what_is_wrong_with_its_input(self):
        if not os.path.exists(os.path.join(os.environ["EXAMPLES"], "example_read_text")):
            self.skipTest("no libpng")
        self.assertEqual(run("example_read_text", folder="EXAMPLES").returncode, 2)
        with tempfile.NamedTemporaryFile() as damaged:
            damaged.write(b"\x89PNG\r\n\x1a\nand no more")
            damaged.flush()
            for path in nowhere("x.png"), damaged.name:
                result = run("example_read_text", "a.onnx", "b.onnx", path, folder="EXAMPLES")
                self.assertEqual(result.returncode, 1)
                self.assertRegex(result.stderr, r"^read_text: \w.*\w")  # libpng's message

    def test_own_kernel_draws_or_says_what_is_missing(self):
        alone = run("example_own_kernel", folder="EXAMPLES", COMPUTE_BACKENDS="cpu",
                    COMPUTE_CC="none")
        self.assertEqual(alone.returncode, 1)
        self.assertIn("COMPUTE_CC=none disables kernels for the CPU; unset COMPUTE_CC",
                      alone.stderr)
        wrong = run("example_own_kernel", "nothing:7", folder="EXAMPLES")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("nothing:7", wrong.stderr)
        drawn = run("example_own_kernel", folder="EXAMPLES")
        if "no compiler" in drawn.stderr:
            self.skipTest("no device with a compiler")
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        lines = drawn.stdout.splitlines()
        self.assertRegex(lines[0], "^on device ")
        self.assertEqual([len(line) for line in lines[1:]], [64] * 24)
        self.assertEqual(lines[13][32:48], "#" * 16)  # inside the set
        self.assertEqual(lines[1][:8], " " * 8)       # far outside

    def test_stream_sends_matrices_through_a_graph_in_little_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.json")
            result = run("example_stream", "--size", "64", "--device", "cpu", "--memory", "16",
                         "--trace", trace, folder="EXAMPLES")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("100 %", result.stderr)
            found = re.search(r"^3906 matrices.* slots (\S+) MB, peak memory (\d+) MB$",
                              result.stdout, re.M)
            self.assertLessEqual(float(found.group(1)), 16)
            self.assertLess(int(found.group(2)), 300)
            with open(trace, encoding="utf-8") as file:
                names = {event["name"] for event in json.load(file)["traceEvents"]}
            self.assertTrue({"read", "write", "stream"} <= names, names)
        wrong = run("example_stream", "--nothing", folder="EXAMPLES")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("usage: stream", run("example_stream", "--help", folder="EXAMPLES").stdout)

    def test_digits_learns_and_does_the_same_every_time(self):
        results = [run("example_digits", DIGITS, "cpu", folder="EXAMPLES") for _ in range(2)]
        self.assertEqual(results[0].returncode, 0, results[0].stdout + results[0].stderr)
        found = re.search(r"^accuracy (0\.\d{4}) on 360 held-out digits \(device cpu\)$",
                          results[0].stdout, re.M)
        self.assertGreaterEqual(float(found.group(1)), 0.96)
        self.assertEqual(results[0].stdout, results[1].stdout)

    def test_digits_says_what_is_wrong_with_its_input(self):
        with tempfile.TemporaryDirectory() as folder:
            broken, short = os.path.join(folder, "broken.gz"), os.path.join(folder, "short.csv")
            with open(DIGITS, "rb") as file, open(broken, "wb") as out:
                out.write(file.read()[:5000])
            with gzip.open(DIGITS, "rt") as file, open(short, "w", encoding="utf-8") as out:
                out.write(file.readline())
            for path in (broken, short, os.path.join(folder, "missing")):
                result = run("example_digits", path, folder="EXAMPLES")
                self.assertEqual(result.returncode, 1)
                self.assertIn("digits: ", result.stderr)
        wrong = run("example_digits", DIGITS, "nothing:7", folder="EXAMPLES")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("nothing:7", wrong.stderr)
        self.assertEqual(run("example_digits", "--help", folder="EXAMPLES").returncode, 0)
        self.assertEqual(run("example_digits", folder="EXAMPLES").returncode, 1)


if __name__ == "__main__":
    unittest.main()
