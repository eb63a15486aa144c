#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compute-fit with several processes: the output of 1 to 4 ranks equals the output of one process byte for byte,
also after a killed rank and a resumed run. Failures name their rank. Once for each installed MPI.

    test_fit_cluster.py openmpi|mpich Same|Killed"""
import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

sys.dont_write_bytecode = True  # write no files beside the sources
from fit_fixture import write_npy  # noqa: E402 pylint: disable=wrong-import-position
from test_programs import HANG, run  # noqa: E402 pylint: disable=wrong-import-position

PROGRAM = os.path.join(os.environ["PROGRAMS"], "compute-fit")
TRANSPORTS = os.path.join(os.environ["PROGRAMS"], "..", "lib", "compute")
# The ranks share the processors of one machine, and its network does not matter.
ENVIRONMENT = {**os.environ, "COMPUTE_THREADS": "1", "COMPUTE_BACKENDS": "cpu", "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl": "self,vader",
               "OMPI_MCA_hwloc_base_binding_policy": "none",
               # the launcher of Open MPI 5 is PRRTE
               "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none"}

SLOW = {"COMPUTE_CPU_ISA": "scalar"}  # slow enough to be interrupted


def content(path):
    with open(path, "rb") as file:
        return file.read()


def ranks_of(path):
    """The processes that write to it: {rank: process}."""
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = content(f"/proc/{process}/cmdline").split(b"\0")
            if not command[0].endswith(b"compute-fit") or path.encode() not in command:
                continue
            for variable in content(f"/proc/{process}/environ").split(b"\0"):
                name, _, value = variable.partition(b"=")
                if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"):
                    found[int(value)] = int(process)
        except OSError:
            continue
    return found


def frames_in(output):
    """The number of frames in an incomplete output."""
    try:
        return json.loads(content(output + ".incomplete.json"))["frames"]
    except FileNotFoundError:
        return 0


def write_broken_tiff(path, broken, pages=40, side=48):
    """A TIFF with one compressed strip per page; the strip of page `broken` is all zeros."""
    good, size, body = zlib.compress(bytes(2 * side * side)), 2 + 8 * 12 + 4, b""
    first, directories = 8 + pages * size, b""
    for page in range(pages):
        strip = bytes(40) if page == broken else good
        entries = [(256, 4, side), (257, 4, side), (258, 3, 16), (259, 3, 8), (262, 3, 1), (273, 4, first + len(body)), (278, 4, side),
                   (279, 4, len(strip))]
        directories += struct.pack("<H", 8) + b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries)
        directories += struct.pack("<I", 8 + (page + 1) * size if page + 1 < pages else 0)
        body += strip
    with open(path, "wb") as file:
        file.write(struct.pack("<2sHI", b"II", 42, 8) + directories + body)


# Launcher options that let other ranks survive a dead one, and whether the launcher then waits for
# them.
LAUNCHERS = {"openmpi": (("--enable-recovery",), True), "mpich": (("-disable-auto-cleanup",), False)}
MPI = sys.argv[1]
LAUNCHER, (SURVIVORS, WAITS) = "mpirun." + MPI, LAUNCHERS[MPI]


class Cluster:
    """Inputs, and runs through the launcher."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.movie, cls.stack = cls.path("movie.npy"), cls.path("stack.npy")
        for options in [("--movie", "--frames", "101", "--size", "48x64", "--spots", "4", "-o", cls.movie),
                        ("--rois", "3001", "-o", cls.stack)]:
            subprocess.run([PROGRAM, "simulate", "--quiet", *options], env=ENVIRONMENT, check=True)
        rows = [(frame, draw.randrange(0, 40), draw.randrange(0, 50)) for draw in [random.Random(5)]
                for frame in sorted(draw.choices(range(90), k=400))]
        cls.corners = write_npy(cls.path("corners.npy"), "<i4", (400, 3), [value for row in rows for value in row])
        cls.start = write_npy(cls.path("start.npy"), "<f4", (400, 4), [0, 0, 700, 8] * 200 + [float("nan")] * 800)
        cls.truth = write_npy(cls.path("truth.npy"), "<f4", (3001, 4), [0, 0, 1000, 10] * 3001)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def begin(self, ranks, *arguments, options=(), **variables):
        return subprocess.Popen([LAUNCHER, *options, "-n", str(ranks), PROGRAM, "fit", *arguments], text=True,
                                env={**ENVIRONMENT, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, process):
        out, err = process.communicate(timeout=HANG)
        return process.returncode, out, err

    def check_same(self, ranks, ending, *arguments):
        one, many = self.path(f"one.{ending}"), self.path(f"many.{ending}")
        subprocess.run([PROGRAM, "fit", *arguments, "-o", one, "--force", "--quiet"], env=ENVIRONMENT, check=True)
        status, out, err = self.end(self.begin(ranks, *arguments, "-o", many, "--force"))
        self.assertEqual(status, 0, err)
        self.assertEqual(out.count("written"), 1, out)  # one rank prints
        self.assertEqual(content(one), content(many), f"{ranks} ranks, {arguments}")


class Same(Cluster, unittest.TestCase):
    def test_any_number_of_ranks_writes_what_one_process_does(self):
        for ranks in (1, 2, 4):
            self.check_same(ranks, "csv", self.movie)
        self.check_same(3, "npy", self.movie, "--batch", "7")
        if "HDF5" in os.environ.get("FORMATS", ""):
            self.check_same(3, "hdf5", self.movie)
            self.assertEqual(content(self.path("one.yaml")), content(self.path("many.yaml")))

    def test_corners_starts_and_stacks_are_divided_too(self):
        self.check_same(3, "csv", self.movie, "--corners", self.corners)
        self.check_same(2, "csv", self.movie, "--corners", self.corners, "--start-file", self.start)
        self.check_same(3, "csv", self.stack, "--roi-stack", "--truth", self.truth)

    def test_frames_of_many_rois_are_taken_whole(self):
        # More than one message holds: in the frames of a block together, and in one frame.
        draw, counts = random.Random(6), [5000] * 6 + [9000] + [10] * 90
        rows = [(frame, draw.randrange(0, 40), draw.randrange(0, 50)) for frame, count in enumerate(counts) for _ in range(count)]
        corners = write_npy(self.path("many_corners.npy"), "<i4", (len(rows), 3), [value for row in rows for value in row])
        spots = [(frame, column + 3, row + 3, 1000, 10) for frame, row, column in rows[::40]]
        truth = write_npy(self.path("many_truth.npy"), "<f4", (len(spots), 5), [value for row in spots for value in row])
        arguments = (self.movie, "--corners", corners, "--truth", truth)
        self.check_same(2, "csv", *arguments)
        one, many = self.path("one.json"), self.path("many.json")
        run("compute-fit", "fit", *arguments, "-o", self.path("one.csv"), "--force", "--json", one, "--quiet", **ENVIRONMENT)
        status, _, err = self.end(self.begin(2, *arguments, "-o", self.path("many.csv"), "--force", "--json", many))
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(content(one))["truth"], json.loads(content(many))["truth"])

    def test_ranks_without_work_do_no_harm(self):
        two = self.path("two.npy")
        run("compute-fit", "simulate", "--movie", "--frames", "2", "--size", "40", "--spots", "3", "-o", two, "--force", "--quiet")
        self.check_same(4, "csv", two)

    def test_a_rank_that_cannot_read_is_named(self):
        if "TIFF" not in os.environ.get("FORMATS", ""):
            self.skipTest("no TIFF")
        output, broken = self.path("broken.csv"), self.path("broken.tif")
        write_broken_tiff(broken, 9)
        status, _, err = self.end(self.begin(4, broken, "-o", output, "--quiet"))
        self.assertNotEqual(status, 0)
        self.assertIn("broken.tif, page 10", err)
        self.assertIn("rank 1: ", err)
        self.assertFalse(os.path.exists(output))

    def test_an_output_that_exists_is_refused_by_one_rank(self):
        output = self.path("exists.csv")
        with open(output, "w", encoding="utf-8"):
            pass
        status, _, err = self.end(self.begin(3, self.movie, "-o", output, "--quiet"))
        self.assertNotEqual(status, 0)
        self.assertEqual(err.count("--force"), 1, err)
        self.assertEqual(content(output), b"")


    def begin_each(self, *arguments, **variables):
        """Each rank in a separate folder, named by its number."""
        shell = f'cd {self.folder.name}/${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} && exec "$0" "$@"'
        return subprocess.Popen([LAUNCHER, "-n", "3", "sh", "-c", shell, PROGRAM, "fit", *arguments], text=True,
                                env={**ENVIRONMENT, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_what_ranks_do_not_have_in_common_is_said_once(self):
        for rank in "012":
            os.makedirs(self.path(rank), exist_ok=True)
            shutil.copy(self.corners, self.path(rank))
            shutil.copy(self.start, self.path(rank))
        common = (self.movie, "--corners", "corners.npy", "--start-file", "start.npy", "--quiet", "-o", self.path("each.csv"))
        status, _, err = self.end(self.begin_each(*common))
        self.assertEqual(status, 0, err)
        os.remove(self.path("each.csv"))
        for name, wrong in (("corners.npy", content(self.corners)[:-4] + bytes(4)), ("start.npy", content(self.start)[:-16] + bytes(16))):
            with open(self.path(f"1/{name}"), "wb") as file:
                file.write(wrong)
            status, _, err = self.end(self.begin_each(*common))
            self.assertNotEqual(status, 0)
            self.assertEqual(err.count("rank 1 differs from rank 0"), 1, err)
            self.assertIn("--start-file" if "start" in name else "--corners", err)
            shutil.copy(self.path(f"0/{name}"), self.path("1"))
        os.remove(self.path("2/corners.npy"))
        status, _, err = self.end(self.begin_each(*common))
        self.assertNotEqual(status, 0)  # not always 1: MPICH kills the ranks that are still ending when the first has failed
        self.assertEqual(err.count("compute-fit: "), 1, err)
        self.assertRegex(err, "rank 2: .*corners.npy")
        for rank in "01":
            os.remove(self.path(f"{rank}/corners.npy"))
        for arguments in (common, (self.movie, "-o", self.path("each.csv"), "--find", "--roi-stack"),
                          (self.movie, "-o", self.path("each.csv"), "--device", "none:3"), (self.movie, "-o", self.movie)):
            status, _, err = self.end(self.begin_each(*arguments))
            self.assertNotEqual(status, 0)
            self.assertEqual(err.count("compute-fit: "), 1, err)
        self.assertFalse(os.path.exists(self.path("each.csv")))


class Killed(Cluster, unittest.TestCase):
    def slow_movie(self):
        movie, one = self.path("slow.npy"), self.path("slow_one.npy")
        if not os.path.exists(one):
            run("compute-fit", "simulate", "--movie", "--frames", "2000", "--size", "128", "--spots", "60", "-o", movie, "--quiet")
            run("compute-fit", "fit", movie, "-o", one, "--quiet", "--model", "XYNBSXSY", **SLOW)
        return movie, one

    def kill(self, rank, output, options=(), **variables):
        """A run of three ranks; one is killed in the middle. Repeats this if the run was too fast."""
        movie, one = self.slow_movie()
        arguments = (movie, "-o", output, "--quiet", "--model", "XYNBSXSY")
        for _ in range(10):
            process = self.begin(3, *arguments, "--checkpoint", "0.01", "--force", options=options, **SLOW, **variables)
            end, ranks = time.monotonic() + HANG, {}
            while len(ranks) < 3 and time.monotonic() < end and process.poll() is None:
                ranks = ranks_of(output)
            while not frames_in(output) and time.monotonic() < end and process.poll() is None:
                time.sleep(0.002)
            middle = 0 < frames_in(output) and not os.path.exists(output)
            if middle:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(ranks[rank], signal.SIGKILL)
            _, _, err = self.end(process)
            if middle and not os.path.exists(output):
                break
            self.assertEqual(content(one), content(output))
            os.remove(output)
        self.assertTrue(os.path.exists(output + ".incomplete"), err)
        return arguments, one, err

    def resume(self, ranks, arguments, one, output):
        status, _, err = self.end(self.begin(ranks, *arguments, "--resume", **SLOW))
        self.assertEqual(status, 0, err)
        self.assertEqual(content(one), content(output))
        self.assertFalse(os.path.exists(output + ".incomplete"))

    def test_a_run_whose_rank_was_killed_is_resumed(self):
        output = self.path("killed.npy")
        arguments, one, _ = self.kill(0, output)
        self.resume(2, arguments, one, output)

    def test_other_ranks_end_when_one_has_died(self):
        output = self.path("died.npy")
        arguments, one, err = self.kill(1, output, options=SURVIVORS, COMPUTE_GROUP_TIMEOUT="5")
        if WAITS:
            self.assertIn("waiting for the results of rank 1", err)
            self.assertIn("--resume continues there", err)
        end = time.monotonic() + HANG
        while ranks_of(output) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(ranks_of(output), {})
        self.resume(1, arguments, one, output)


if __name__ == "__main__":
    if not shutil.which(LAUNCHER) or not os.path.exists(os.path.join(TRANSPORTS, f"libcompute-transport-{MPI}.so")):
        print(f"skipped: {LAUNCHER} is not installed, or there is no transport for it")
        sys.exit(77)
    tried = subprocess.run([LAUNCHER, "-n", "1", "true"], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if tried.returncode:
        print(f"skipped: {LAUNCHER} cannot start a program here: {tried.stderr.strip()}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
