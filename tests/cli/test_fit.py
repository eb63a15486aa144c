#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compute-fit from a user's view: every subcommand, its JSON and files, wrong usage and bad input,
and interrupted runs that resume. Needs only Python itself; other tests read its files with other
programs."""
import json
import math
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True  # write no files beside the sources
from fit_fixture import Base, png_rows, read_npy, write_npy, written  # noqa: E402 pylint: disable=wrong-import-position
from machine import may_lose_rights, open_terminal, permissions_hold  # noqa: E402 pylint: disable=wrong-import-position
from test_programs import HANG, run  # noqa: E402 pylint: disable=wrong-import-position

COMMANDS = ("fit", "simulate", "crlb", "validate", "bench", "render", "link", "drift", "calibrate")


class Usage(Base):
    def test_help_fits_a_terminal(self):
        self.assertIn("validate", self.fit("--help"))
        for command in COMMANDS:
            text = self.fit(command, "--help")
            self.assertIn("--json", re.findall(r"^  (--[a-z-]+)", text, re.M))
            self.assertLess(max(map(len, text.splitlines())), 80)

    def test_a_file_that_exists_is_kept_without_force(self):
        for name in written("s.npy", "s.raw", "s.tif"):
            make = ("simulate", "--rois", "5", "-o", name, "--quiet")
            self.fit(*make)
            before = self.bytes_of(name)
            error = self.fit(*make, "--seed", "2", expected=1)
            self.assertEqual(error, f"compute-fit: {name} exists; use --force to overwrite it\n")
            self.assertEqual(self.bytes_of(name), before)
            self.fit(*make, "--seed", "2", "--force")
            self.assertNotEqual(self.bytes_of(name), before)

    def test_a_save_that_fails_names_the_file_that_was_asked_for(self):
        error = self.fit("simulate", "--rois", "5", "-o", "/proc/s.npy", expected=1)
        self.assertIn("/proc/s.npy:", error)
        self.assertNotIn("incomplete", error)

    def test_wrong_values_name_the_option_and_what_is_allowed(self):
        for arguments, words in {
                "fit s.npy -o r.csv --roi 0": "--roi rows columns 1 to 64",
                "fit s.npy -o r.csv --roi 7x": "--roi 5x9",
                "fit s.npy -o r.csv --roi 65": "--roi 64",
                "fit s.npy -o r.csv --model XY": "--model XYNB XYZNB",
                "fit s.npy -o r.csv --sigma -1": "--sigma above 0",
                "fit s.npy -o r.csv --sigma 1,2,3": "--sigma up to 2",
                "fit s.npy -o r.csv --sigma nan": "--sigma nan",
                "fit s.npy -o r.csv --camera film": "--camera ideal emccd scmos",
                "fit s.npy -o r.csv --camera scmos --gain 0": "--gain above 0",
                "fit s.npy -o r.csv --gain 2": "--gain emccd scmos ideal",
                "fit s.npy -o r.csv --camera scmos --em-gain 2": "--em-gain emccd",
                "fit s.npy -o r.csv --camera readout --em-gain 2": "--em-gain emccd",
                "fit s.npy -o r.csv --camera scmos --gain 1 --gain-adu-per-electron 1": "one of",
                "fit s.npy -o r.csv --iterations 0": "--iterations 1",
                "fit s.npy -o r.csv --epsilon x": "--epsilon above 0",
                "fit s.npy -o r.csv --outputs x,std": "--outputs covariance",
                "fit s.npy -o r.csv --fix q": "--fix photons",
                "fit s.npy -o r.csv --fix photons=x": "--fix NUMBER",
                "fit s.npy -o r.csv --start photons": "--start NAME=NUMBER",
                "fit s.npy -o r.csv --bounds x=3:1": "--bounds LOW:HIGH",
                "fit s.npy -o r.csv --depth 1": "--depth XYZNB",
                "fit s.npy -o r.csv --roi-stack --find": "--find",
                "fit s.npy -o r.csv --roi-stack --threshold 4": "--threshold",
                "fit s.npy -o r.csv --picture p.gif": "--picture .png .svg",
                "fit s.npy -o r.xyz": "--output .csv .hdf5 --format",
                "fit s.npy -o r.csv --format tiff": "--format csv hdf5 npy",
                "fit s.npy": "--output",
                "fit -o r.csv": "movie",
                "fit s.npy t.npy -o r.csv": "t.npy",
                "fit s.npy -o r.csv -o q.csv": "--output twice",
                "fit s.npy -o r.csv --memory 5X": "--memory bytes",
                "fit s.npy -o": "--output value",
                "fit s.npy -o r.csv --quiet=1": "--quiet",
                "fit s.npy -o r.csv --rois 5": "--rois simulate",
                "simulate --rois 5": "--output",
                "simulate -o s.npy": "--rois",
                "simulate -o s.npy --rois x": "--rois whole number",
                "simulate -o s.npy --rois 5 --frames 7": "--frames --movie",
                "simulate -o s.npy --movie --rois 5": "--rois",
                "simulate -o s.npy --rois 5 --photons 5:1": "--photons LOW:HIGH",
                "simulate -o s.npy --rois 5 --sigma-range 1:2": "--sigma-range XYNBS",
                "crlb --photons 5:9": "--photons range",
                "crlb --nothing": "--nothing --help",
                "crlb x": "x",
                "": "command",
                "fits": "fits",
        }.items():
            error = self.fit(*arguments.split(), expected=2)
            for word in words.split():
                self.assertIn(word, error, arguments)
            self.assertEqual(self.files(), [])


class Crlb(Base):
    # docs/guide/fitting.md's conventions; recomputed independently in double precision
    TABLE = [
        ("--roi 7 --sigma 1 --model XYNB", [0.0409295, 37.8405, 0.619068]),
        ("--roi 7 --sigma 1 --model XYNBS", [0.0409295, 43.9154, 0.763228, 0.0320610]),
        ("--roi 7 --sigma 1.3 --model XYNB", [0.0564668, 44.5480, 0.772533]),
        ("--roi 11 --sigma 1.3 --model XYNB", [0.0562606, 38.4927, 0.339909]),
        ("--roi 11 --sigma 1.3 --model XYNBSXSY",
         [0.0562606, 43.5451, 0.379170, 0.0531347, 0.0531347]),
        ("--roi 11 --sigma 1.3 --photons 200 --background 5", [0.151399, 19.8764, 0.233760]),
        ("--roi 11 --sigma 1.3 --camera scmos --variance 25", [0.0738914, 47.7466, 0.613720]),
    ]

    def test_the_table_of_references(self):
        for arguments, expected in self.TABLE:
            report = self.json("crlb", *arguments.split())
            parameters = report["parameters"]
            found = [v["std"] for k, v in parameters.items() if k != "y"]
            self.assertEqual(len(found), len(expected))
            for a, b in zip(found, expected):
                self.assertLess(abs(a / b - 1), 3e-6, arguments)
            for i, value in enumerate(parameters.values()):
                self.assertAlmostEqual(report["covariance"][i][i] / value["std"] ** 2, 1, 4)
        self.assertEqual(list(self.json("crlb")["parameters"]), ["x", "y", "photons", "background"])

    def test_fixed_parameters_are_certain_and_help_the_others(self):
        free = self.json("crlb")["parameters"]
        fixed = self.json("crlb", "--fix", "background=5")["parameters"]
        self.assertEqual(fixed["background"], {"value": 5, "std": 0, "fixed": True})
        self.assertLess(fixed["photons"]["std"], free["photons"]["std"])

    def test_astigmatism_from_a_file_and_from_options(self):
        with open(self.path("a.yaml"), "w", encoding="utf-8") as file:
            file.write("# calibration\ndepth: 0.5\ngamma: 0.3 # um\nsigma_x: 1.2\nsigma_y: 1.4\n"
                       "ax: 0.1\nay: 0.2\nbx: 0\nby: 0.01\n")
        common = ["crlb", "--model", "XYZNB", "--roi", "11", "--z", "0.1"]
        file = self.json(*common, "--astigmatism", "a.yaml")["parameters"]
        options = self.json(*common, "--depth", "0.5", "--gamma", "0.3", "--sigma", "1.2,1.4",
                            "--a", "0.1,0.2", "--b", "0,0.01")["parameters"]
        self.assertEqual(file, options)
        self.assertEqual(list(file), ["x", "y", "z", "photons", "background"])
        whole = self.bytes_of("a.yaml")
        with open(self.path("cut.yaml"), "wb") as out:
            out.write(whole[:whole.index(b"bx")])
        error = self.fit(*common, "--astigmatism", "cut.yaml", expected=1)
        self.assertIn("cut.yaml does not say bx", error)
        with open(self.path("bad.yaml"), "w", encoding="utf-8") as out:
            out.write("depth: 0.5\nfocus: 3\n")
        error = self.fit(*common, "--astigmatism", "bad.yaml", expected=1)
        self.assertIn("line 2", error)

    def test_what_cannot_be_known_is_an_error(self):
        error = self.fit("crlb", "--roi", "1", expected=1)
        self.assertNotIn("nan", error.lower())
        self.assertGreater(len(error), 30)


class Stack(Base):
    def test_simulated_rois_are_fitted_as_theory_promises(self):
        self.stack(20000, "--sigma", "1.3")
        report = self.json("fit", "s.npy", "--roi-stack", "--model", "XYNB", "--sigma", "1.3",
                           "-o", "r.csv", "--truth", "t.npy", "--outputs", "usual,p-raw")
        self.assertEqual(report["rois"], 20000)
        self.assertEqual(report["roi"], [7, 7])
        self.assertEqual(report["input"]["kind"], "roi-stack")
        self.assertTrue(report["complete"])
        self.assertGreater(report["converged_fraction"], 0.999)
        self.assertGreater(report["rois_per_second"], 0)
        self.assertEqual(sum(report["status"].values()), 20000)
        self.assertLess(report["iterations_mean"], 6)
        self.assertLess(abs(report["uncertainty_x"]["median"] - 0.0566), 0.001)
        for name, p in report["truth"]["parameters"].items():
            self.assertLess(abs(p["std_over_crlb"] - 1), 0.025, name)
            self.assertLess(abs(p["bias"]), 4.5 * p["bias_standard_error"] + 0.03 * p["std"], name)
        self.assertLess(report["p_value"]["ks_distance"], 0.02)
        self.assertLess(abs(report["p_value"]["below_0.05"] - 0.05), 0.01)
        self.assertEqual(sum(report["p_value"]["histogram"]), report["p_value"]["count"])
        self.assertIsNotNone(report["p_raw"])
        busy = report["busy_seconds"]
        self.assertIsNone(busy["finding"])
        self.assertIn(busy["slowest"], ("reading", "fitting", "writing"))
        self.assertEqual(busy[busy["slowest"]],
                         max(busy[part] for part in ("reading", "fitting", "writing")))
        self.assertLessEqual(busy[busy["slowest"]], report["seconds"])
        with open(self.path("r.csv"), encoding="ascii") as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 20001)
        self.assertTrue(lines[0].startswith('"id","frame","x [px]","y [px]"'))
        self.assertEqual(self.files(), ["r.csv", "s.npy", "t.npy"])

    def test_the_text_says_the_same(self):
        self.stack(1000)
        text = self.fit("fit", "s.npy", "--roi-stack", "-o", "r.npy", "--truth", "t.npy")
        for word in ("1 k ROIs", "ROIs/s", "fitting 0", "slowest: ", "converged", "p-value", "std/CRLB", "r.npy"):
            self.assertIn(word, text)
        self.assertEqual(self.fit("fit", "s.npy", "--roi-stack", "-o", "q.npy", "--quiet"), "")

    def test_a_terminal_sees_how_far_it_is(self):
        self.stack(20000)
        master, slave = open_terminal(self)
        process = self.start("fit", "s.npy", "--roi-stack", "-o", "r.npy", "--solver", "newton",
                             "--iterations", "200", "--threads", "1", "--batch", "200",
                             stderr=slave)
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:
                piece = b""
            if not piece:
                break
            shown += piece
        os.close(master)
        process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(shown.decode(), r"\r\[[#.]+\] +\d+%  fitted .* ROIs, .*/s")
        self.assertIn(", slowest: fitting\033[K", shown.decode())
        self.assertTrue(shown.decode().endswith("\r\033[K"))

    def test_results_depend_neither_on_batches_nor_on_threads(self):
        self.stack(6000)
        for end in (".npy", ".csv"):
            for name, more in (("a", ["--threads", "1"]), ("b", ["--batch", "77"]),
                               ("c", ["--threads", "3"]), ("d", ["--threads", "7"])):
                self.fit("fit", "s.npy", "--roi-stack", "-o", name + end, "--quiet", *more)
                self.assertEqual(self.bytes_of("a" + end), self.bytes_of(name + end))

    def test_seeds_give_the_same_images_again(self):
        for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
            self.fit("simulate", "--rois", "50", "-o", f"{name}.npy", "--seed", seed)
        self.assertEqual(self.bytes_of("a.npy"), self.bytes_of("b.npy"))
        self.assertNotEqual(self.bytes_of("a.npy"), self.bytes_of("c.npy"))

    def test_every_model_recovers_noise_free_spots(self):
        for model, more in (("XYNB", []), ("XYNBS", ["--sigma-range", "1.1:1.5"]),
                            ("XYNBSXSY", ["--sigma-range", "1.1:1.5"]), ("XYZNB", ["--z=0.1"])):
            common = ["--model", model, "--sigma", "1.3"]
            self.fit("simulate", "--rois", "64", "--roi", "9x11", "--noise-free", *common, *more,
                     "-o", "s.npy", "--truth", "t.npy", "--force")
            report = self.json("fit", "s.npy", "--roi-stack", *common, "-o", "r.npy", "--force",
                               "--truth", "t.npy", "--epsilon", "1e-4")
            self.assertEqual(report["converged_fraction"], 1, model)
            for name, p in report["truth"]["parameters"].items():
                self.assertLess(abs(p["bias"]) + p["std"], 2e-3 * p["crlb"], (model, name))

    def test_starts_bounds_and_fixed_parameters_are_kept(self):
        self.stack(200)
        self.fit("fit", "s.npy", "--roi-stack", "-o", "r.npy", "--fix", "background=10",
                 "--bounds", "photons=:990", "--start", "photons=500")
        rows = read_npy(self.path("r.npy"))[1]
        self.assertEqual({r["background"] for r in rows}, {10.0})
        self.assertEqual({r["background_std"] for r in rows}, {0.0})
        self.assertEqual(max(r["photons"] for r in rows), 990.0)
        self.assertEqual({r["status"] for r in rows}, {1, 3})
        write_npy(self.path("start.npy"), "<f4", (200, 4), [3, 3, math.nan, 10] * 200)
        self.fit("fit", "s.npy", "--roi-stack", "-o", "q.npy", "--start-file", "start.npy",
                 "--fix", "x,y")
        self.assertEqual({r["x"] for r in read_npy(self.path("q.npy"))[1]}, {3.0})

    def test_camera_units(self):
        """Counts per electron is the inverse of electrons per count; offsets are subtracted."""
        camera = ["--camera", "scmos", "--offset", "100", "--variance", "1"]
        self.stack(2000, *camera, "--gain", "0.5")
        for name, gain in (("a", ["--gain", "0.5"]), ("b", ["--gain-adu-per-electron", "2"])):
            self.fit("fit", "s.npy", "--roi-stack", "-o", f"{name}.npy", *camera, *gain, "--quiet")
        self.assertEqual(self.bytes_of("a.npy"), self.bytes_of("b.npy"))
        write_npy(self.path("gain.npy"), "<f8", (7, 7), [0.5] * 49)
        write_npy(self.path("variance.npy"), "<f4", (7, 7), [1.0] * 49)
        write_npy(self.path("offset.npy"), "<u2", (7, 7), [100] * 49)
        report = self.json("fit", "s.npy", "--roi-stack", "-o", "c.npy", "--camera", "scmos",
                           "--gain", "gain.npy", "--variance", "variance.npy", "--offset",
                           "offset.npy", "--truth", "t.npy")
        self.assertEqual(self.bytes_of("a.npy"), self.bytes_of("c.npy"))
        self.assertLess(abs(report["truth"]["parameters"]["photons"]["bias"]), 10)

    def test_bad_rois_have_a_status_and_no_numbers(self):
        good = [10, 10, 10, 10, 10, 10, 10, 10, 200, 10, 10, 10, 10, 10, 10, 10] + [10] * 9
        nan, zero, negative = [math.nan] * 25, [0] * 25, [-5] * 25
        write_npy(self.path("s.npy"), "<f4", (5, 5, 5), good + nan + zero + negative + [1e30] * 25)
        report = self.json("fit", "s.npy", "--roi-stack", "-o", "r.npy")
        rows = read_npy(self.path("r.npy"))[1]
        self.assertEqual(len(rows), 5)
        self.assertIn(rows[0]["status"], (1, 3))
        for row in rows[1:4]:
            self.assertEqual(row["status"], 5)
            self.assertTrue(math.isnan(row["x"]) and math.isnan(row["p_value"]))
        self.assertEqual(report["status"]["BAD_DATA"], 3)

    def test_no_rois_at_all_give_an_empty_result(self):
        write_npy(self.path("s.npy"), "<f4", (0, 7, 7), [])
        for name in ("r.csv", "r.npy"):
            report = self.json("fit", "s.npy", "--roi-stack", "-o", name)
            self.assertEqual(report["rois"], 0)
            self.assertIsNone(report["converged_fraction"])
            self.assertIn(name, self.files())

    def test_corners_place_a_stack_in_its_frames(self):
        self.stack(300)
        write_npy(self.path("c.npy"), "<i4", (300, 3),
                  [v for i in range(300) for v in (i // 3, 5, 40)])
        self.fit("fit", "s.npy", "--roi-stack", "-o", "plain.npy")
        self.fit("fit", "s.npy", "--roi-stack", "--corners", "c.npy", "-o", "placed.npy")
        plain, placed = (read_npy(self.path(n))[1] for n in ("plain.npy", "placed.npy"))
        for i, (a, b) in enumerate(zip(plain, placed)):
            self.assertEqual(b["frame"], i // 3)
            self.assertAlmostEqual(b["x"], a["x"] + 40, 5)
            self.assertAlmostEqual(b["y"], a["y"] + 5, 5)

    def test_maps_of_the_frame_belong_to_the_pixels_of_a_stack_with_corners(self):
        """With an offset that rises across the frame, a wrong offset would move every spot. Maps of
        the ROI's size belong to the ROI, wherever it is."""
        def placed(row, column):
            return [v + 2 * (row + i) + 3 * (column + j) for v, (i, j) in zip(plain, pixels)]
        pixels = [(i, j) for i in range(7) for j in range(7)]
        plain = [10 + 400 * math.exp(-((i - 3.2) ** 2 + (j - 2.9) ** 2) / 3.4) for i, j in pixels]
        corners = [(0, 0, 0), (0, 5, 40), (1, 30, 8), (2, 41, 57)]
        write_npy(self.path("c.npy"), "<i4", (4, 3), [v for c in corners for v in c])
        write_npy(self.path("s.npy"), "<f4", (4, 7, 7),
                  [v for _, i, j in corners for v in placed(i, j)])
        write_npy(self.path("at_0.npy"), "<f4", (4, 7, 7), 4 * placed(0, 0))
        write_npy(self.path("frame.npy"), "<f4", (48, 64),
                  [2 * i + 3 * j for i in range(48) for j in range(64)])
        write_npy(self.path("roi.npy"), "<f4", (7, 7), [2 * i + 3 * j for i, j in pixels])
        for stack, offset in (("s.npy", "frame.npy"), ("at_0.npy", "roi.npy")):
            self.fit("fit", stack, "--roi-stack", "--corners", "c.npy", "--camera", "scmos",
                     "--offset", offset, "-o", "r.npy", "--force", "--quiet")
            for (frame, row, column), r in zip(corners, read_npy(self.path("r.npy"))[1]):
                self.assertEqual((r["frame"], r["status"]), (frame, 1))
                self.assertAlmostEqual(r["x"] - column, 2.9, delta=0.01)
                self.assertAlmostEqual(r["y"] - row, 3.2, delta=0.01)


class Movie(Base):
    SIMULATE = ("simulate", "--movie", "--frames", "40", "--size", "96x64", "--spots", "4",
                "--sigma", "1.2", "--quiet", "--truth", "t.npy", "--force")

    def test_every_format_of_a_movie_gives_the_same_localisations(self):
        for name in written("m.npy", "m.tif", "m.raw"):
            self.fit(*self.SIMULATE, "-o", name)
            report = self.json("fit", name, "--sigma", "1.2", "-o", f"{name}.npy", "--truth",
                               "t.npy")
            self.assertEqual(report["frames"], 40)
            self.assertGreater(report["busy_seconds"]["finding"], 0)
            self.assertEqual(report["input"]["rows"], 96)
            self.assertEqual(report["truth"]["localisations"], report["rois"])
            self.assertGreater(report["truth"]["found_fraction"], 0.9)
            self.assertLess(report["truth"]["false_fraction"], 0.1)
            self.assertEqual(self.bytes_of(f"{name}.npy"), self.bytes_of("m.npy.npy"))
        rows = read_npy(self.path("m.npy.npy"))[1]
        self.assertTrue(all(-0.5 <= r["x"] <= 63.5 and -0.5 <= r["y"] <= 95.5 for r in rows))
        self.assertGreater(max(r["y"] for r in rows), 64)

    def test_pictures(self):
        self.fit(*self.SIMULATE, "-o", "m.npy")
        self.fit("fit", "m.npy", "-o", "r.npy", "--picture", "p.svg", "--quiet")
        root = xml.etree.ElementTree.parse(self.path("p.svg")).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        self.assertGreater(len(list(root.iter())), 30)
        self.check_scales(root)
        error = self.fit("fit", "m.npy", "-o", "again.npy", "--picture", "p.svg", expected=1)
        self.assertIn("p.svg exists; use --force", error)
        self.fit("simulate", "--movie", "--frames", "1", "--spots", "1e-9", "--quiet",
                 "-o", "e.npy")
        self.fit("fit", "e.npy", "-o", "e.csv", "--picture", "e.svg", "--quiet")
        self.check_scales(xml.etree.ElementTree.parse(self.path("e.svg")).getroot())
        result = run("compute-fit", "fit", self.path("m.npy"), "-o", self.path("q.npy"),
                     "--picture", self.path("p.png"), "--quiet")
        if "without libpng" in result.stderr:
            return
        self.assertEqual(result.returncode, 0, result.stderr)
        data = self.bytes_of("p.png")
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        self.assertAlmostEqual(width / height, 64 / 96, 3)
        self.fit("simulate", "--rois", "3", "-o", "s.npy", "--quiet")
        self.fit("fit", "s.npy", "--roi-stack", "-o", "s.csv", "--picture", "s.png", "--pixel-size",
                 "108", "--quiet")
        rows = png_rows(self.bytes_of("s.png"), 448)[-25:]
        bars = [len(bar) / 3 for row in rows for bar in re.findall(rb"(?:\xff{3})+", row)]
        self.assertAlmostEqual(max(bars), 100 / 108 * 64, delta=1)  # 100 nm

    def check_scales(self, root):
        """Both histograms count fits from 0 in steps of 1, 2 or 5, and are readable in dark
        mode."""
        space = "{http://www.w3.org/2000/svg}"
        self.assertIn("prefers-color-scheme:dark", root.find(space + "style").text)
        self.assertTrue(root.find(space + "title").text)
        scale = [t for t in root.iter(space + "text") if t.get("text-anchor") == "end"]
        starts = [i for i, text in enumerate(scale) if text.text == "fits"]
        self.assertEqual(len(starts), 2)
        for i in starts:
            self.assertEqual(scale[i + 1].text, "0")
            self.assertRegex(scale[i + 2].text, r"^[125]0*( [kM])?$")

    def test_small_images_without_a_word_about_stacks_get_a_note(self):
        self.stack(3)
        process = self.start("fit", "s.npy", "-o", "r.npy")
        _, error = process.communicate()
        self.assertEqual(process.returncode, 0, error)
        self.assertIn("--roi-stack", error)

    def test_own_corners_are_used(self):
        self.fit(*self.SIMULATE, "-o", "m.npy")
        self.fit("fit", "m.npy", "-o", "found.npy")
        found = read_npy(self.path("found.npy"))[1]
        write_npy(self.path("c.npy"), "<i8", (len(found), 3),
                  [v for r in found for v in (r["frame"], r["roi_row"], r["roi_column"])])
        self.fit("fit", "m.npy", "-o", "again.npy", "--corners", "c.npy")
        self.assertEqual(self.bytes_of("found.npy"), self.bytes_of("again.npy"))

    def test_maps_of_the_frame_belong_to_its_pixels(self):
        """Offsets and gains that rise differently along rows and columns."""
        pixels = [(i, j) for i in range(96) for j in range(64)]
        write_npy(self.path("offset.npy"), "<f4", (96, 64), [100 + i + 3 * j for i, j in pixels])
        write_npy(self.path("gain.npy"), "<f4", (96, 64), [0.5 + i / 96 for i, j in pixels])
        write_npy(self.path("variance.npy"), "<f4", (96, 64), [1 + j / 32 for i, j in pixels])
        maps = ["--camera", "scmos", "--offset", "offset.npy", "--gain", "gain.npy", "--variance",
                "variance.npy"]
        self.fit(*self.SIMULATE, *maps, "-o", "m.npy")
        report = self.json("fit", "m.npy", "-o", "r.npy", *maps, "--sigma", "1.2", "--truth",
                           "t.npy")
        self.assertGreater(report["rois"], 100)
        for name in ("x", "y", "photons"):
            p = report["truth"]["parameters"][name]
            self.assertLess(abs(p["bias"]), 4.5 * p["bias_standard_error"], name)
            self.assertLess(abs(p["std_over_crlb"] - 1), 0.2, name)
        self.assertLess(report["p_value"]["below_0.01"], 0.1)

    def test_limit_and_threshold_leave_fewer_spots(self):
        self.fit(*self.SIMULATE, "-o", "m.npy")
        count = {}
        for name, more in (("all", []), ("one", ["--limit", "1"]), ("few", ["--threshold", "60"])):
            count[name] = self.json("fit", "m.npy", "-o", f"{name}.npy", *more)["rois"]
        self.assertLessEqual(count["one"], 40)
        self.assertLess(count["one"], count["all"])
        self.assertLess(count["few"], count["all"])


    @unittest.skipUnless(written("r.hdf5"), "was built without libhdf5")
    def test_fits_at_the_edge_lie_inside_the_image_for_picasso(self):
        """A spot whose middle is beyond the first column: x is at its bound, -1/2."""
        pixels = [10 + 300 * math.exp(-((i - 3) ** 2 + (j + 1.2) ** 2) / 3.4)
                  for i in range(7) for j in range(7)]
        write_npy(self.path("s.npy"), "<f4", (1, 7, 7), pixels)
        self.fit("fit", "s.npy", "--roi-stack", "-o", "r.npy", "--quiet")
        row = read_npy(self.path("r.npy"))[1][0]
        self.assertEqual((row["status"], row["x"]), (3, -0.5))
        self.fit("fit", "s.npy", "--roi-stack", "-o", "r.hdf5", "--quiet")
        said = subprocess.run(["h5dump", "-d", "locs", self.path("r.hdf5")], capture_output=True,
                              text=True, check=True).stdout if shutil.which("h5dump") else ""
        if said:
            values = re.findall(r"^ +(-?[\d.e+-]+),?$", said, re.M)
            self.assertAlmostEqual(float(values[1]), 0.001, 6)

    def test_rois_too_small_for_z_get_a_note(self):
        self.stack(5, "--model", "XYZNB", "--roi", "9")
        fit = ("fit", "s.npy", "--roi-stack", "--model", "XYZNB", "-o", "r.npy", "--force")
        for more, said in (((), True), (("--depth", "4", "--gamma", "0.1"), False)):
            process = self.start(*fit, *more)
            error = process.communicate(timeout=HANG)[1]
            self.assertEqual("wider than these ROIs" in error, said, error)


class BadInput(Base):
    def refused(self, words, *arguments):
        before = self.files()
        error = self.fit("fit", *arguments, expected=1)
        for word in words.split():
            self.assertIn(word, error)
        self.assertEqual(self.files(), before, "nothing may be left of a run that was refused")

    def test_stacks(self):
        self.stack(20)
        fit = ["s.npy", "--roi-stack", "-o", "r.csv"]
        self.refused("nothing.npy", "nothing.npy", "-o", "r.csv")
        self.refused("--roi 9 7", *fit, "--roi", "9")
        self.refused("missing", "s.npy", "--roi-stack", "-o", "missing/r.csv")
        self.refused("--json missing", *fit, "--json", "missing/j.json")
        self.refused("--picture missing", *fit, "--picture", "missing/p.svg")
        self.refused("cpu", *fit, "--device", "nothing:3")
        scmos = [*fit, "--camera", "scmos"]
        for rows, columns in ((7, 8), (8, 7), (1, 49), (14, 14)):
            write_npy(self.path("map.npy"), "<f4", (rows, columns), [1] * rows * columns)
            self.refused(f"--variance {rows} {columns} 7", *scmos, "--variance", "map.npy")
        for value, option in ((-1, "--variance"), (math.nan, "--offset"), (0, "--gain"),
                              (math.inf, "--gain")):
            write_npy(self.path("map.npy"), "<f4", (7, 7), [1] * 20 + [value] + [1] * 28)
            self.refused(f"{option} row 2 column 6", *scmos, option, "map.npy")
        write_npy(self.path("map.npy"), "<f4", (49,), [1] * 49)
        self.refused("map.npy", *scmos, "--gain", "map.npy")
        self.refused("--gain maps.npy", *scmos, "--gain", "maps.npy")
        write_npy(self.path("truth.npy"), "<f4", (20, 5), [1] * 100)
        self.refused("--truth 5 4", *fit, "--truth", "truth.npy")
        write_npy(self.path("truth.npy"), "<f4", (19, 4), [1] * 76)
        self.refused("--truth 19 20", *fit, "--truth", "truth.npy")
        self.refused("--start-file 19 20", *fit, "--start-file", "truth.npy")
        write_npy(self.path("big.npy"), "<f4", (1, 65, 65), [1] * 65 * 65)
        self.refused("--roi-stack 65 64", "big.npy", "--roi-stack", "-o", "r.csv")
        write_npy(self.path("one.npy"), "<f4", (3, 1, 1), [5, 6, 7])
        self.refused("1", "one.npy", "--roi-stack", "-o", "r.csv")

    def test_a_mask_of_everything_leaves_no_fit(self):
        self.stack(20)
        write_npy(self.path("mask.npy"), "|u1", (7, 7), [0] * 49)
        report = self.json("fit", "s.npy", "--roi-stack", "-o", "r.npy", "--mask", "mask.npy")
        self.assertEqual(report["status"]["BAD_DATA"], 20)
        self.assertTrue(all(math.isnan(r["x"]) for r in read_npy(self.path("r.npy"))[1]))

    def test_movies(self):
        self.fit("simulate", "--movie", "--frames", "4", "--size", "20x30", "-o", "m.npy",
                 "--spots", "2")
        fit = ["m.npy", "-o", "r.csv"]
        self.refused("--roi 21 20 30", *fit, "--roi", "21")
        for corner, words in (((0, 14, 0), "extends beyond"), ((0, 0, 24), "extends beyond"),
                              ((0, -1, 0), "extends beyond"), ((4, 0, 0), "frame that does not exist"),
                              ((-1, 0, 0), "frame that does not exist")):
            write_npy(self.path("c.npy"), "<i4", (2, 3), [0, 0, 0, *corner])
            self.refused(f"--corners ROI 1 {words}", *fit, "--corners", "c.npy")
        write_npy(self.path("c.npy"), "<i4", (2, 3), [2, 0, 0, 1, 0, 0])
        self.refused("--corners earlier sort", *fit, "--corners", "c.npy")
        write_npy(self.path("c.npy"), "<i4", (3, 2), [0] * 6)
        self.refused("--corners 2 3", *fit, "--corners", "c.npy")
        write_npy(self.path("map.npy"), "<f4", (30, 20), [1] * 600)
        self.refused("--variance 30 20", *fit, "--camera", "scmos", "--variance", "map.npy")
        with open(self.path("m.npy"), "r+b") as file:
            file.truncate(2000)
        self.refused("m.npy", *fit)

    def test_files_that_exist_are_kept(self):
        self.stack(20)
        for name in ("r.csv", "q.npy"):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write("mine")
        self.refused("r.csv", "s.npy", "--roi-stack", "-o", "r.csv")
        self.fit("simulate", "--rois", "5", "-o", "q.npy", expected=1)
        self.assertEqual(self.bytes_of("r.csv"), b"mine")
        self.assertEqual(self.bytes_of("q.npy"), b"mine")
        self.fit("fit", "s.npy", "--roi-stack", "-o", "r.csv", "--force")
        self.assertNotEqual(self.bytes_of("r.csv"), b"mine")

    def test_a_file_is_not_written_under_another_of_its_names(self):
        self.stack(20)
        for new in ("j.svg", "k.npy", "m.npy"):
            with open(self.path(new), "wb") as file:
                file.write(self.bytes_of("s.npy"))
        os.link(self.path("m.npy"), self.path("link.npy"))
        os.symlink("m.npy", self.path("symbolic.npy"))
        os.mkdir(self.path("folder"))
        before = {name: self.bytes_of(name) for name in self.files() if name != "folder"}
        stack = ("--roi-stack", "--force", "--quiet")
        for words, *arguments in (
                ("input --output", "fit", "m.npy", "-o", "m.npy", *stack),
                ("input --output", "fit", "m.npy", "-o", "./folder/../m.npy", *stack),
                ("input --output", "fit", "m.npy", "-o", "link.npy", *stack),
                ("input --output", "fit", "symbolic.npy", "-o", "m.npy", *stack),
                ("input --output", "fit", "m.npy", "-o", "m.npy", "--format", "csv", *stack),
                ("input --picture", "fit", "j.svg", "-o", "r.csv", "--picture", "j.svg", *stack),
                ("input --json", "fit", "m.npy", "-o", "r.csv", "--json", "m.npy", *stack),
                ("--output --json", "fit", "m.npy", "-o", "r.csv", "--json", "r.csv", *stack),
                ("--output --json", "fit", "m.npy", "-o", "r.csv", "--json", "folder/../r.csv",
                 *stack),
                ("incomplete --json", "fit", "m.npy", "-o", "r.csv", "--json",
                 "r.csv.incomplete.json", *stack),
                ("side-car --json", "fit", "m.npy", "-o", "r.hdf5", "--json", "r.yaml", *stack),
                ("--truth --output", "fit", "m.npy", "-o", "t.npy", "--truth", "t.npy", *stack),
                ("map --output", "fit", "m.npy", "-o", "k.npy", "--mask", "k.npy", *stack),
                ("--truth --output", "simulate", "--rois", "5", "-o", "t.npy", "--truth", "t.npy",
                 "--force"),
                ("--output standard", "fit", "m.npy", "-o", "-", "--format", "csv", *stack),
                ("--output standard", "simulate", "--rois", "5", "-o", "-"),
                ("--truth standard", "simulate", "--rois", "5", "-o", "x.npy", "--truth", "-")):
            error = self.fit(*arguments, expected=2)
            for word in words.split():
                self.assertIn(word, error, arguments)
            self.assertEqual({n: self.bytes_of(n) for n in self.files() if n != "folder"}, before)
        self.fit("fit", "m.npy", "-o", "r.csv", "--json", "/dev/null", *stack)

    def test_a_full_disk_is_an_error_and_leaves_nothing_that_looks_complete(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))
        self.stack(2000)
        for name in written("r.csv", "r.npy", "r.hdf5"):
            error = self.fit("fit", "s.npy", "--roi-stack", "-o", name, "--quiet", expected=1,
                             preexec_fn=small_files)
            self.assertIn(name, error)
            self.assertNotIn(name, self.files())
        for name in written("x.npy", "x.tif", "x.raw"):
            error = self.fit("simulate", "--rois", "2000", "-o", name, expected=1,
                             preexec_fn=small_files)
            self.assertIn(name, error)
            self.assertFalse([f for f in self.files() if f.startswith("x")])
        with open("/dev/full", "w", encoding="ascii") as device:
            program = os.path.join(os.environ["PROGRAMS"], "compute-fit")
            result = subprocess.run([program, "crlb"], stdout=device, stderr=subprocess.PIPE,
                                    check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"standard output", result.stderr)

    def test_a_summary_replaces_the_last_one_only_when_complete(self):
        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        old = "an earlier summary"
        with open(self.path("j.json"), "w", encoding="ascii") as file:
            file.write(old)
        self.fit("crlb", "--json", "j.json", expected=1, preexec_fn=limit_files)
        with open(self.path("j.json"), encoding="ascii") as file:
            self.assertEqual(file.read(), old)
        os.symlink("j.json", self.path("link.json"))
        self.fit("crlb", "--json", "link.json")
        with open(self.path("j.json"), encoding="ascii") as file:
            self.assertIn("{", file.read())
        self.assertEqual(self.files(), ["j.json", "link.json"])

    def test_a_folder_that_may_not_be_written(self):
        self.stack(20)
        os.mkdir(self.path("locked"), mode=0o555)
        more = {"preexec_fn": permissions_hold} if os.geteuid() == 0 else {}
        if more and not may_lose_rights():
            self.skipTest("root writes everywhere, and may not give that up here")
        for option in (["-o", "locked/r.csv"], ["-o", "r.npy", "--json", "locked/j.json"]):
            error = self.fit("fit", "s.npy", "--roi-stack", *option, expected=1, **more)
            self.assertIn("locked", error)
        self.assertEqual(self.files(), ["locked", "s.npy", "t.npy"])


class Resume(Base):
    """Slow runs: Newton's method with hundreds of steps."""
    SLOW = ("--solver", "newton", "--iterations", "500", "--threads", "1", "--checkpoint", "0.01")

    def half_way(self, name, how):
        """Starts a slow run and ends it with the signal `how`. Returns its exit status and output. Repeats this if the
        run was too fast."""
        for _ in range(10):
            process = self.start("fit", *self.input, "-o", name, *self.SLOW, "--force")
            deadline = time.monotonic() + HANG
            while time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.01)
                if self.kept(name) > 0:
                    break
            process.send_signal(how)
            _, error = process.communicate(timeout=HANG)
            if process.returncode != 0:
                break
            os.remove(self.path(name))
        self.assertNotIn(name, self.files())
        return process.returncode, error

    def kept(self, name):
        try:
            with open(self.path(name + ".incomplete.json"), encoding="utf-8") as file:
                state = json.load(file)
        except (OSError, ValueError):
            return 0
        return max(v for k, v in state.items() if k in ("rois", "rows", "frames"))

    def check(self, name, kill=True):
        self.fit("fit", *self.input, "-o", "whole." + name, *self.SLOW, "--quiet")
        code, error = self.half_way("a." + name, signal.SIGINT)
        self.assertEqual(code, 130, error)
        self.assertIn("--resume", error)
        self.assertIn(f"a.{name}.incomplete", self.files())
        other = self.fit("fit", *self.input, "-o", "a." + name, *self.SLOW, "--resume", "--sigma",
                         "1.4", expected=1)
        self.assertIn("a." + name, other)
        report = self.json("fit", *self.input, "-o", "a." + name, *self.SLOW, "--resume")
        self.assertTrue(report["complete"])
        self.assertGreater(report["resumed_from"], 0)
        self.assertEqual(self.bytes_of("a." + name), self.bytes_of("whole." + name))
        if kill:
            code, _ = self.half_way("b." + name, signal.SIGKILL)
            self.assertEqual(code, -signal.SIGKILL)
            self.json("fit", *self.input, "-o", "b." + name, *self.SLOW, "--resume")
            self.assertEqual(self.bytes_of("b." + name), self.bytes_of("whole." + name))
        self.assertFalse([f for f in self.files() if "incomplete" in f])

    def test_stacks_go_on_after_an_interrupt_and_after_kill(self):
        self.stack(30000)
        self.input = ["s.npy", "--roi-stack", "--batch", "500"]
        self.check("npy")

    def test_a_simulation_that_is_interrupted_leaves_nothing(self):
        for name in written("s.npy", "s.tif", "s.raw"):
            process = self.start("simulate", "--rois", "50000000", "-o", name, "--truth", "t.npy")
            deadline = time.monotonic() + HANG
            while time.monotonic() < deadline and name + ".incomplete" not in self.files():
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=HANG)
            self.assertEqual(process.returncode, 130, error)
            self.assertEqual(self.files(), [])

    def test_stacks_with_corners_go_on_within_a_frame(self):
        self.stack(20000)
        write_npy(self.path("c.npy"), "<i4", (20000, 3),
                  [v for i in range(20000) for v in (i // 700, 3, 4)])
        self.input = ["s.npy", "--roi-stack", "--corners", "c.npy", "--batch", "500"]
        self.check("hdf5" if written("r.hdf5") else "npy", kill=False)

    def test_movies_go_on_after_an_interrupt_and_after_kill(self):
        self.fit("simulate", "--movie", "--frames", "1500", "--size", "64x64", "--spots", "20",
                 "-o", "m.npy", "--quiet")
        self.input = ["m.npy", "--batch", "20"]
        self.check("csv")


class Judgement(Base):
    def test_validate_passes_and_says_why_not(self):
        report = self.json("validate", "--rois", "4000")
        self.assertTrue(report["pass"])
        self.assertEqual({c["model"] for c in report["cases"]},
                         {"XYNB", "XYNBS", "XYNBSXSY", "XYZNB"})
        for case in report["cases"]:
            self.assertTrue(all(case["passed"].values()))
            self.assertIn("std_over_crlb", case["parameters"]["x"])
        # Least squares does not attain the bound if the background is low.
        process = self.start("validate", "--rois", "4000", "--model", "XYNB", "--solver",
                             "least-squares", "--photons", "1000", "--background", "1")
        output, _ = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertRegex(output, r"FAIL:.*std/CRLB")

    def test_bench_has_a_row_for_every_model_and_size(self):
        report = self.json("bench", "--rois", "2000", "--seconds", "0.01")
        self.assertEqual(len(report["cases"]), 16)
        for case in report["cases"]:
            self.assertGreater(case["rois_per_second"], 0)
            self.assertGreater(case["converged_fraction"], 0.9)
        one = self.fit("bench", "--rois", "500", "--seconds", "0.01", "--model", "XYNB", "--roi",
                       "5x9", "--dtype", "f32")
        self.assertRegex(one, r"XYNB +5 x 9 +f32")


if __name__ == "__main__":
    unittest.main()
