#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compute-fit render, link, drift and calibrate on tables with known truth. Needs only Python itself.
The last class compares with Picasso if PICASSO_PYTHON names a Python that has it."""
import math
import os
import random
import re
import signal
import struct
import subprocess
import sys
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True  # write no files beside the sources
from fit_fixture import Base, png_rows, read_npy, written  # noqa: E402 pylint: disable=wrong-import-position
from test_programs import ROOT  # noqa: E402 pylint: disable=wrong-import-position

FIELDS = (("roi", "<i8", "q"), ("frame", "<i8", "q"), ("x", "<f8", "d"), ("y", "<f8", "d"),
          ("photons", "<f4", "f"), ("background", "<f4", "f"), ("x_std", "<f4", "f"),
          ("y_std", "<f4", "f"), ("status", "|u1", "B"), ("unknown", "<f4", "f"))
HEIGHTS = (("z", "<f8", "d"), ("z_std", "<f4", "f"))


def write_table(path, rows, fields=FIELDS):
    """A .npy of records as compute-fit writes them, with an additional unknown column."""
    descr = [(name, code) for name, code, _ in fields]
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': ({len(rows)},), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    record = struct.Struct("<" + "".join(code for _, _, code in fields))
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.writelines(record.pack(*(row[name] for name, _, _ in fields)) for row in rows)


def blinks(frames, emitters, seed=1, starts=2.0, size=60, drift=lambda f: (0, 0), apart=0):
    """Localisations of emitters that light up repeatedly for some frames, sorted by frame. Each one
    has the number of its event."""
    r = random.Random(seed)
    places = []
    while len(places) < emitters:
        place = (r.uniform(4, size - 4), r.uniform(4, size - 4))
        if all(math.dist(place, other) > apart for other in places):
            places.append(place)
    rows, busy = [], {}
    for first in range(frames):
        for _ in range(int(starts) + (r.random() < starts % 1)):
            m = r.randrange(emitters)
            if busy.get(m, -10) >= first - 3:
                continue
            end = min(frames, first + 1 + int(r.expovariate(0.5)))
            busy[m] = end
            for f in range(first, end):
                s, (dx, dy) = r.uniform(0.05, 0.15), drift(f)
                rows.append({"frame": f, "x": places[m][0] + dx + r.gauss(0, s),
                             "y": places[m][1] + dy + r.gauss(0, s), "photons": r.uniform(500, 1500),
                             "background": 10, "x_std": s, "y_std": s, "status": 1, "unknown": 7,
                             "event": (m, first)})
    rows.sort(key=lambda row: row["frame"])
    for i, row in enumerate(rows):
        row["roi"] = i
    return rows


class Link(Base):
    def test_groups_are_those_of_the_truth(self):
        rows = blinks(400, 80, apart=3)
        write_table(self.path("t.npy"), rows)
        report = self.json("link", "t.npy", "-o", "l.npy", "--max-distance", "1", "--max-dark", "0")
        events = {}
        for row in rows:
            events.setdefault(row["event"], []).append(row)
        linked = read_npy(self.path("l.npy"))[1]
        self.assertEqual(report["linked"], len(events))
        self.assertEqual([row["roi"] for row in linked], [e[0]["roi"] for e in events.values()])
        for row, members in zip(linked, events.values()):
            weights = [1 / struct.unpack("f", struct.pack("f", m["x_std"]))[0] ** 2 for m in members]
            mean = sum(w * m["x"] for w, m in zip(weights, members)) / sum(weights)
            self.assertAlmostEqual(row["x"], mean, delta=1e-9)
            self.assertAlmostEqual(row["x_std"], sum(weights) ** -0.5, delta=1e-7)
            self.assertAlmostEqual(row["photons"] / sum(m["photons"] for m in members), 1, delta=1e-6)
            self.assertEqual((row["detections"], row["length"], row["frame"], row["unknown"]),
                             (len(members), len(members), members[0]["frame"], 7))

    def test_the_uncertainty_of_a_group_is_that_of_its_mean(self):
        rows = blinks(1500, 100, seed=4, apart=3)
        for row in rows:
            row["truth"] = row["event"]
        write_table(self.path("t.npy"), rows)
        self.fit("link", "t.npy", "-o", "l.npy", "--quiet")
        # Two events of one emitter have the same place: their difference is the error.
        by_place = {}
        for row in read_npy(self.path("l.npy"))[1]:
            by_place.setdefault(rows[row["roi"]]["event"][0], []).append(row)
        errors = [(a["x"] - b["x"]) / math.hypot(a["x_std"], b["x_std"])
                  for same in by_place.values() for a, b in zip(same, same[1:])]
        self.assertGreater(len(errors), 1000)
        self.assertAlmostEqual(sum(e * e for e in errors) / len(errors), 1, delta=0.15)

    def test_who_has_no_uncertainty_counts_only_where_nobody_has_one(self):
        for unit, size in (("px", 1), ("nm", 100)):
            with open(self.path("t.csv"), "w", encoding="utf-8") as file:
                file.write(f'"frame","x [{unit}]","y [{unit}]","uncertainty_xy [{unit}]"\n')
                for frame, x, std in ((1, 5, 0.1), (2, 5.1, math.nan), (3, 5.3, 0.2), (4, 5.2, 0), (11, 7, math.nan), (12, 7.5, math.nan),
                                      (21, 9, 0), (22, 9.1, 0)):
                    file.write(f"{frame},{x * size:.6f},{x * size:.6f},{std * size:.6f}\n")
            self.fit("link", "t.csv", "-o", "l.csv", "--max-distance", "1", "--force", "--pixel-size", "100", "--quiet")
            rows = [[float(value) for value in line.split(b",")] for line in self.bytes_of("l.csv").splitlines()[1:]]
            self.assertEqual(len(rows), 3)
            for row, x, std in zip(rows, (5.06, 7.25, 9.05), (125 ** -0.5, math.nan, 0)):
                self.assertAlmostEqual(row[1] / size, x, places=5)
                self.assertAlmostEqual(row[2] / size, x, places=5)
                if math.isnan(std):
                    self.assertTrue(math.isnan(row[3]), row)
                else:
                    self.assertAlmostEqual(row[3] / size, std, places=5)

    def test_dark_frames_are_bridged_as_far_as_asked(self):
        row = {"background": 1, "x_std": 0.1, "y_std": 0.1, "status": 1, "unknown": 0, "photons": 9,
               "x": 5, "y": 5}
        write_table(self.path("t.npy"), [{**row, "roi": i, "frame": f}
                                         for i, f in enumerate((0, 1, 3, 6, 7))])
        for dark, lengths in ((0, [2, 1, 2]), (1, [4, 2]), (2, [8])):
            self.fit("link", "t.npy", "-o", "l.npy", "--max-dark", str(dark), "--max-distance",
                     "0.5", "--quiet", "--force")
            self.assertEqual([r["length"] for r in read_npy(self.path("l.npy"))[1]], lengths)
        # A linked table may be linked again, with more dark frames.
        self.fit("link", "t.npy", "-o", "one.npy", "--max-dark", "0", "--max-distance", "0.5", "--quiet")
        self.fit("link", "one.npy", "-o", "two.npy", "--max-dark", "9", "--max-distance", "0.5",
                 "--quiet")
        self.assertEqual([(r["length"], r["detections"]) for r in read_npy(self.path("two.npy"))[1]],
                         [(8, 5)])

    def test_two_in_a_frame_are_two(self):
        row = {"background": 1, "x_std": 0.1, "y_std": 0.1, "status": 1, "unknown": 0, "photons": 9,
               "y": 5}
        places = ((0, 5.0), (0, 5.4), (1, 5.35), (1, 5.1), (2, 5.2))
        write_table(self.path("t.npy"), [{**row, "roi": i, "frame": f, "x": x}
                                         for i, (f, x) in enumerate(places)])
        self.fit("link", "t.npy", "-o", "l.npy", "--max-distance", "0.5", "--quiet")
        self.assertEqual([(r["roi"], r["detections"]) for r in read_npy(self.path("l.npy"))[1]],
                         [(0, 3), (1, 2)])


def curve(f, frames):
    t = f / frames
    return (1.2 * t + 0.3 * math.sin(5 * t), -0.9 * t * t + 0.2 * (math.cos(7 * t) - 1))


def with_heights(rows, drift, seed=3):
    """Heights in micrometres: each emitter's height, and the drift."""
    r = random.Random(seed)
    heights = {}
    for row in rows:
        height = heights.setdefault(row["event"][0], r.uniform(-0.4, 0.4))
        row["z_std"] = r.uniform(0.01, 0.03)
        row["z"] = height + drift(row["frame"]) + r.gauss(0, row["z_std"])
    return rows


def height_curve(f, frames):
    t = f / frames
    return 0.35 * t + 0.08 * (math.cos(6 * t) - 1)


class Drift(Base):
    FRAMES = 2000

    def drift_table(self, more=""):
        with open(self.path("d.csv"), encoding="utf-8") as file:
            self.assertEqual(file.readline(), f'"frame","x [px]","y [px]"{more}\n')
            return [tuple(map(float, line.split(","))) for line in file]

    def assert_curve(self, drift):
        for axis in (0, 1):
            errors = [d[1 + axis] - curve(d[0], self.FRAMES)[axis] for d in drift]
            mean = sum(errors) / len(errors)
            spread = math.sqrt(sum((e - mean) ** 2 for e in errors) / len(errors))
            self.assertLess(spread, 0.008, f"axis {axis}")
            self.assertLess(max(abs(e - mean) for e in errors), 0.04)

    def test_drift_is_recovered_and_taken_away(self):
        rows = blinks(self.FRAMES, 150, drift=lambda f: curve(f, self.FRAMES), starts=2.5)
        write_table(self.path("t.npy"), rows)
        report = self.json("drift", "t.npy", "-o", "c.npy", "--table", "d.csv", "--picture", "d.svg",
                           "--window", "100")
        self.assertEqual(report["windows"], 20)
        self.assertEqual(report["shifts_measured"], 190)
        drift = self.drift_table()
        self.assertEqual([d[0] for d in drift], list(range(rows[-1]["frame"] + 1)))
        self.assertEqual(drift[0][1:], (0, 0))
        self.assert_curve(drift)
        for axis, name in enumerate(("extent_x", "extent_y"), 1):  # of the whole curve, not of the windows' middles
            self.assertAlmostEqual(report[name], max(d[axis] for d in drift) - min(d[axis] for d in drift), delta=1e-5)
        for row, made in zip(rows, read_npy(self.path("c.npy"))[1]):
            self.assertAlmostEqual(row["x"] - made["x"], drift[row["frame"]][1], delta=2e-6)
            self.assertAlmostEqual(row["y"] - made["y"], drift[row["frame"]][2], delta=2e-6)
            self.assertEqual((made["frame"], made["unknown"]), (row["frame"], 7))
        picture = xml.etree.ElementTree.parse(self.path("d.svg"))
        self.assertEqual(len(picture.findall(".//{*}circle")), 40)

    def test_heights_drift_too(self):
        rows = with_heights(
            blinks(self.FRAMES, 150, drift=lambda f: curve(f, self.FRAMES), starts=2.5),
            lambda f: height_curve(f, self.FRAMES))
        rows[7]["z"] = math.nan
        write_table(self.path("t.npy"), rows, FIELDS + HEIGHTS)
        report = self.json("drift", "t.npy", "-o", "c.npy", "--table", "d.csv", "--picture", "d.svg",
                           "--window", "100")
        self.assertEqual((report["shifts_measured"], report["shifts_measured_z"]), (190, 190))
        drift = self.drift_table(',"z [nm]"')
        self.assertEqual(drift[0][1:], (0, 0, 0))
        self.assert_curve(drift)
        errors = [d[3] - 1000 * (height_curve(d[0], self.FRAMES) - height_curve(0, self.FRAMES))
                  for d in drift]
        mean = sum(errors) / len(errors)
        self.assertLess(math.sqrt(sum((e - mean) ** 2 for e in errors) / len(errors)), 2)
        self.assertLess(max(abs(e - mean) for e in errors), 8)
        self.assertAlmostEqual(report["extent_z"], max(d[3] for d in drift) - min(d[3] for d in drift),
                               delta=20)
        for i, (row, made) in enumerate(zip(rows, read_npy(self.path("c.npy"))[1])):
            if i != 7:
                self.assertAlmostEqual(row["z"] - made["z"], drift[row["frame"]][3] / 1000, delta=1e-6)
        picture = xml.etree.ElementTree.parse(self.path("d.svg"))
        self.assertEqual(len(picture.findall(".//{*}circle")), 60)

    def test_heights_without_a_common_place_stay(self):
        r = random.Random(4)
        rows = with_heights(blinks(self.FRAMES, 150, starts=2.5), lambda f: 0)
        for row in rows:
            row["z"] = r.uniform(-50, 50)
        write_table(self.path("t.npy"), rows, FIELDS + HEIGHTS)
        report = self.json("drift", "t.npy", "-o", "c.npy", "--table", "d.csv", "--window", "100")
        self.assertNotIn("extent_z", report)
        self.drift_table()
        made = read_npy(self.path("c.npy"))[1]
        self.assertEqual([row["z"] for row in made], [row["z"] for row in rows])
        self.fit("drift", "t.npy", "-o", "c.npy", "--window", "100", "--where", "x < 30", "--quiet",
                 "--force")
        self.assertEqual([row["z"] for row in read_npy(self.path("c.npy"))[1]],
                         [row["z"] for row in rows if row["x"] < 30])

    def test_a_part_of_the_movie_has_windows_of_its_own(self):
        rows = blinks(self.FRAMES, 150, drift=lambda f: curve(f, self.FRAMES), starts=2.5)
        part = [row for row in rows if row["frame"] >= 1600]
        write_table(self.path("t.npy"), rows)
        report = self.json("drift", "t.npy", "-o", "c.npy", "--frames", "1600:1999", "--table", "d.csv",
                           "--picture", "d.svg")
        self.assertEqual(report["windows"], min(len(part) // 400, 20))
        drift = self.drift_table()
        self.assertEqual([d[0] for d in drift], list(range(1600, part[-1]["frame"] + 1)))
        self.assertEqual(drift[0][1:], (0, 0))
        picture = xml.etree.ElementTree.parse(self.path("d.svg"))
        places = [float(c.get("cx")) for c in picture.findall(".//{*}circle")]
        self.assertLess(min(places), 130)
        self.assertGreater(max(places), 470)

    def test_a_search_far_around_is_as_precise(self):
        write_table(self.path("t.npy"), blinks(self.FRAMES, 150, starts=2.5,
                                               drift=lambda f: curve(f, self.FRAMES)))
        self.json("drift", "t.npy", "-o", "c.npy", "--table", "d.csv", "--window", "100",
                  "--max-shift", "200")
        self.assert_curve(self.drift_table())

    def test_no_drift_is_found_where_there_is_none(self):
        rows = blinks(1000, 100, seed=5)
        write_table(self.path("t.npy"), rows)
        report = self.json("drift", "t.npy", "-o", "c.npy")
        self.assertLess(max(report["extent_x"], report["extent_y"]), 0.03)

    def test_what_cannot_be_estimated_is_said(self):
        write_table(self.path("t.npy"), blinks(5, 30))
        error = self.fit("drift", "t.npy", "-o", "c.npy", "--window", "100", expected=1)
        self.assertIn("at least two windows", error)
        r = random.Random(2)
        rows = blinks(400, 30)
        for row in rows:
            row["x"], row["y"] = r.uniform(0, 500), r.uniform(0, 500)
        write_table(self.path("t.npy"), rows)
        error = self.fit("drift", "t.npy", "-o", "c.npy", "--window", "20", expected=1)
        self.assertIn("too little in common", error)
        write_table(self.path("t.npy"), blinks(600, 30))
        error = self.fit("drift", "t.npy", "-o", "c.npy", "--window", "1", expected=1)
        self.assertIn("at most 500", error)
        self.assertFalse(os.path.exists(self.path("c.npy")))


    def test_files_that_exist_are_refused_before_the_work(self):
        write_table(self.path("t.npy"), blinks(600, 30))
        for option, name in (("--table", "d.csv"), ("--picture", "d.svg")):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write("of another program")
            error = self.fit("drift", "t.npy", "-o", "c.npy", option, name, expected=1)
            self.assertIn(f"{name} exists; use --force", error)
            self.assertEqual(self.bytes_of(name), b"of another program")
            self.assertFalse(os.path.exists(self.path("c.npy")))
            self.fit("drift", "t.npy", "-o", "c.npy", option, name, "--force", "--quiet")
            self.assertNotEqual(self.bytes_of(name), b"of another program")
            os.remove(self.path("c.npy"))


class Interrupted(Base):
    def test_a_signal_ends_a_command_wherever_it_is(self):
        for command in (("link",), ("drift",), ("render",), ("calibrate", "--z-step", "0.1")):
            pipe = self.path("t.csv")
            os.mkfifo(pipe)
            output = self.path("o.yaml" if command[0] == "calibrate" else "o.npy" if command[0] == "render" else "o.csv")
            process = subprocess.Popen([os.path.join(os.environ["PROGRAMS"], "compute-fit"), *command, pipe, "-o", output],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            with open(pipe, "wb"):  # returns when the command waits for its table
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGTERM, command)
            self.assertFalse(os.path.exists(output))
            os.remove(pipe)


class Render(Base):
    def image(self, *arguments):
        self.fit("render", *arguments, "-o", "p.npy", "--quiet", "--force")
        shape, values = read_npy(self.path("p.npy"))
        self.assertEqual(shape[0], 1)
        return shape[1:], values

    def test_a_histogram_counts_and_gaussians_have_unit_weight(self):
        rows = blinks(300, 50, size=40)
        write_table(self.path("t.npy"), rows)
        (height, width), counts = self.image("t.npy", "--histogram", "--zoom", "4")
        expected = [0] * (height * width)
        for row in rows:
            expected[int((row["y"] + 0.5) * 4) * width + int((row["x"] + 0.5) * 4)] += 1
        self.assertEqual(list(counts), expected)
        shape, weights = self.image("t.npy", "--zoom", "4")
        self.assertEqual(shape, (height, width))
        self.assertAlmostEqual(sum(weights) / len(rows), 1, delta=0.01)
        (high, wide), counts = self.image("t.npy", "--histogram", "--zoom", "2.5", "--region",
                                          "10,20,8,4", "--where", "photons > 700", "--frames", "9:200")
        self.assertEqual((high, wide), (10, 20))
        self.assertEqual(sum(counts), sum(
            9.5 <= r["x"] < 17.5 and 19.5 <= r["y"] < 23.5 and r["photons"] > 700
            and 9 <= r["frame"] <= 200 for r in rows))

    def test_each_spot_is_as_wide_as_its_uncertainty(self):
        row = {"background": 1, "x_std": 0.5, "y_std": 0.25, "status": 1, "unknown": 0, "photons": 9,
               "frame": 0, "roi": 0, "x": 15.2, "y": 9.7}
        for zoom, wider in ((8, 1), (20, 4)):
            row.update(x_std=0.5 * wider, y_std=0.25 * wider)
            write_table(self.path("t.npy"), [row])
            (high, wide), w = self.image("t.npy", "--zoom", str(zoom), "--region", "0,0,30,20")
            self.assertEqual((high, wide), (20 * zoom, 30 * zoom))
            for axis, at, std in ((0, 15.2, row["x_std"]), (1, 9.7, row["y_std"])):
                place = [((i % wide if axis == 0 else i // wide) + 0.5) / zoom - 0.5
                         for i in range(len(w))]
                mean = sum(a * b for a, b in zip(w, place)) / sum(w)
                variance = sum(a * (b - mean) ** 2 for a, b in zip(w, place)) / sum(w)
                self.assertAlmostEqual(mean, at, delta=1e-3)
                self.assertAlmostEqual(math.sqrt(variance), std, delta=0.02 * std)

    @unittest.skipUnless(written("p.tif"), "compute-fit was built without libtiff")
    def test_tiff_of_16_bits_or_floats(self):
        write_table(self.path("t.npy"), blinks(100, 20, size=30))
        for dtype, bits in (("u16", 16), ("f32", 32)):
            self.fit("render", "t.npy", "-o", f"{dtype}.tif", "--dtype", dtype, "--zoom", "4",
                     "--quiet")
            data = self.bytes_of(f"{dtype}.tif")
            self.assertEqual(data[:4], b"II*\0")
            at = struct.unpack("<I", data[4:8])[0]
            entries = dict((struct.unpack("<H", data[i : i + 2])[0],
                            struct.unpack("<H", data[i + 8 : i + 10])[0])
                           for i in range(at + 2, at + 2 + 12 * data[at], 12))
            self.assertEqual(entries[258], bits)

    def test_counts_beyond_16_bits_are_noted(self):
        row = {"background": 1, "x_std": 0.1, "y_std": 0.1, "status": 1, "unknown": 0, "photons": 9,
               "frame": 0, "roi": 0, "x": 5, "y": 5}
        write_table(self.path("t.npy"), [row] * 65537)
        for dtype, most in (("u16", 65535), ("f32", 65537)):
            process = self.start("render", "t.npy", "-o", "p.npy", "--histogram", "--dtype", dtype,
                                 "--zoom", "1", "--force")
            _, error = process.communicate()
            self.assertEqual(process.returncode, 0, error)
            self.assertEqual(max(read_npy(self.path("p.npy"))[1]), most)
            self.assertEqual("more than 65535 localisations: 1," in error, dtype == "u16",
                             error)

    def test_a_png_has_a_scale_bar_of_the_right_length(self):
        write_table(self.path("t.npy"), blinks(100, 20, size=50))
        result = self.start("render", "t.npy", "-o", "p.png", "--pixel-size", "100", "--resolution",
                            "10", "--region", "0,0,40,30", "--quiet")
        _, error = result.communicate()
        if "without libpng" in error:
            self.skipTest(error)
        self.assertEqual(result.returncode, 0, error)
        data = self.bytes_of("p.png")
        width, height = struct.unpack(">2I", data[16:24])
        self.assertEqual((width, height), (400, 300))
        rows = png_rows(data, width)
        longest = max(len(run) for row in rows for run in
                      re.findall(b"(?:\xff\xff\xff)+", row)) // 3
        self.assertEqual(longest, 100)  # a quarter of 4 um is 1 um, 100 pixels of 10 nm

    def test_pictures_that_are_not_possible_are_refused(self):
        write_table(self.path("t.npy"), blinks(20, 20))
        for more, words in {"--zoom 10000 -o p.npy": "it may have", "--resolution 10 -o p.npy":
                            "needs --pixel-size", "-o p.jpg": "must end in", "--dtype u16 -o p.png":
                            "--dtype is for", "--zoom 2 --resolution 3 -o p.npy": "give one"}.items():
            process = self.start("render", "t.npy", *more.split())
            _, error = process.communicate()
            self.assertIn(process.returncode, (1, 2))
            self.assertIn(words, error)
        self.assertEqual(self.files(), ["t.npy"])


class Formats(Base):
    def test_every_format_passes_through_with_its_own_columns_and_units(self):
        self.fit("simulate", "--movie", "--frames", "30", "--size", "50x70", "--spots", "10", "-o",
                 "m.npy", "--quiet")
        self.fit("fit", "m.npy", "-o", "l.npy", "--quiet", "--outputs", "all")
        for name in written("l.csv", "l.hdf5"):
            self.fit("fit", "m.npy", "-o", name, "--quiet", "--pixel-size", "120", "--outputs",
                     "usual")
        # A distance near 0 links nothing, so that the tables stay unchanged.
        for name in written("l.npy", "l.csv", "l.hdf5"):
            copy = "copy_" + name
            more = ("--pixel-size", "120") if name.endswith("csv") else ()
            report = self.json("link", name, "-o", copy, "--max-distance", "1e-9", *more)
            self.assertEqual(report["linked"], report["localisations"], name)
        with open(self.path("l.csv"), encoding="utf-8") as file:
            before = file.read().splitlines()
        with open(self.path("copy_l.csv"), encoding="utf-8") as file:
            after = file.read().splitlines()
        finite = [line for line in before if "NaN" not in line]
        self.assertEqual(after[0], before[0] + ',"detections","length"')
        self.assertEqual(after[1:], [line + ",1,1" for line in finite[1:]])
        for name in written("l.hdf5"):
            side = self.bytes_of("copy_l.yaml").decode()
            self.assertTrue(side.startswith(self.bytes_of("l.yaml").decode()))
            self.assertIn("Generated by: compute-fit", side.split("---")[2])

    @unittest.skipUnless(written("x.hdf5"), "no HDF5")
    def test_the_history_of_a_table_is_kept_whole(self):
        self.fit("simulate", "--movie", "--frames", "30", "--size", "50", "--spots", "10", "-o",
                 "m.npy", "--quiet")
        os.mkdir(self.path("a.b"))
        self.fit("fit", "m.npy", "-o", "a.b/l.hdf5", "--quiet")
        with open(self.path("a.b/l.yaml"), "a", encoding="utf-8") as file:
            file.write("Comment: " + "long " * 300000 + "end")
        history = self.bytes_of("a.b/l.yaml")
        with open(self.path("k.yaml"), "w", encoding="utf-8") as file:
            file.write("of another program")
        for command in ("link", "drift"):
            error = self.fit(command, "a.b/l.hdf5", "-o", "k.hdf5", expected=1)
            self.assertRegex(error, "k.yaml exists; use --force")
        self.assertEqual(self.bytes_of("k.yaml"), b"of another program")
        self.assertFalse(os.path.exists(self.path("k.hdf5")))
        self.fit("link", "a.b/l.hdf5", "-o", "k.hdf5", "--force", "--quiet")
        side = self.bytes_of("k.yaml")
        self.assertTrue(side.startswith(history + b"\n---\n"), side[-200:])
        self.assertEqual([name for name in os.listdir(self.path(".")) if "incomplete" in name], [])

    def test_positions_in_nm_need_the_pixel_size_and_frames_begin_at_one(self):
        with open(self.path("t.csv"), "w", encoding="utf-8") as file:
            file.write('"id","frame","x [nm]","y [nm]","uncertainty_xy [nm]"\n'
                       "1,1,150.5,250.25,10\n2,2,152.5,250.25,10\n3,9,950.5,250.25,10\n")
        error = self.fit("link", "t.csv", "-o", "l.csv", expected=1)
        self.assertIn("give --pixel-size", error)
        self.fit("link", "t.csv", "-o", "l.csv", "--pixel-size", "100", "--frames", "0:7", "--quiet")
        self.assertEqual(self.bytes_of("l.csv").decode().splitlines()[1:],
                         ["1,1,151.5,250.25,7.071068,2,2"])

    def test_damaged_tables_are_refused(self):
        write_table(self.path("t.npy"), blinks(20, 20))
        good = self.bytes_of("t.npy")
        for data in (b"", b"\x93NUMPY", good[:100], good[:-1], good.replace(b"'<f8'", b"'<f9'"),
                     good.replace(b"'frame'", b"'frams'"), b"\x93NUMPY\x01\0\xff\xff" + good[10:],
                     re.sub(rb"\((\d+),\)", rb"(9\1,)", good), good.replace(b"'x'", b"'' ")):
            with open(self.path("bad.npy"), "wb") as file:
                file.write(data)
            error = self.fit("link", "bad.npy", "-o", "l.npy", expected=1)
            self.assertRegex(error, r"^compute-fit: .+")
        for text in ("", "1,2,3\n", '"frame","x"\n1,2\n', '"frame","x","y"\n1,2\n',
                     '"frame","x","y"\n1,2,a\n', '"frame","x","y"\n-5,2,3\n'):
            with open(self.path("bad.csv"), "w", encoding="utf-8") as file:
                file.write(text)
            self.assertRegex(self.fit("link", "bad.csv", "-o", "l.csv", "--max-distance", "1",
                                      expected=1), r"^compute-fit: .+")
        for name in written("bad.hdf5"):
            with open(self.path(name), "wb") as file:
                file.write(good)
            self.fit("link", name, "-o", "l.hdf5", expected=1)
        self.assertIn("must be a .npy", self.fit("link", "t.npy", "-o", "l.csv", expected=1))
        self.fit("link", "t.npy", "-o", "l.npy", "--quiet")
        self.assertIn("--force", self.fit("link", "t.npy", "-o", "l.npy", expected=1))


class Calibrate(Base):
    TRUTH = {"depth": 0.4, "gamma": 0.25, "sigma": (1.2, 1.3), "a": (0.08, -0.05), "b": (0.03, 0.02)}

    def test_the_curves_of_simulated_beads_are_found(self):
        t = self.TRUTH
        model = ("--model", "XYZNB", "--depth", "0.4", "--gamma", "0.25", "--sigma", "1.2,1.3",
                 "--a", "0.08,-0.05", "--b", "0.03,0.02")
        self.fit("simulate", "--movie", "--frames", "61", "--z=-0.6", "--z-step", "0.02", "--spots",
                 "12", "--size", "160", "--photons", "8000", "--background", "5", "--roi", "17",
                 "-o", "beads.npy", "--truth", "t.npy", "--quiet", *model)
        self.fit("fit", "beads.npy", "--roi", "17", "--model", "XYNBSXSY", "--threshold", "12",
                 "--where", "p_value > 0.001", "--keep", "converged", "-o", "widths.npy", "--quiet")
        report = self.json("calibrate", "widths.npy", "--z-step", "0.02", "-o", "a.yaml")
        self.assertAlmostEqual(report["zero"], 0.6, delta=0.01)
        self.assertAlmostEqual(report["gamma"], t["gamma"], delta=0.01)
        self.assertLess(report["residual"], 0.1)
        self.assertGreater(report["used"], 0.9 * report["widths"])
        # The curves matter, whatever their terms are: within 1 % where there are data.
        for axis, sign in ((0, -1), (1, 1)):
            for z in (-0.55, -0.3, -0.1, 0, 0.2, 0.4, 0.55):
                def width(gamma, depth, sigma, a, b, z=z, sign=sign):
                    u = (z + sign * gamma) / depth
                    return sigma * math.sqrt(1 + u * u * (1 + u * (a + u * b)))
                true = width(t["gamma"], t["depth"], t["sigma"][axis], t["a"][axis], t["b"][axis])
                found = width(report["gamma"], report["depth"], report["sigma"][axis],
                              report["a"][axis], report["b"][axis], z + 0.6 - report["zero"])
                self.assertAlmostEqual(found / true, 1, delta=0.01, msg=f"axis {axis}, z {z}")
        # The fit accepts the file, and finds z with it.
        self.fit("simulate", "--rois", "2000", "--roi", "13", "--z=-0.4:0.4", "--photons", "3000",
                 "-o", "s.npy", "--truth", "z.npy", "--quiet", *model)
        report = self.json("fit", "s.npy", "--roi-stack", "--model", "XYZNB", "--astigmatism",
                           "a.yaml", "--z-start=-0.3,0,0.3", "--truth", "z.npy", "-o", "z_fit.npy")
        z = report["truth"]["parameters"]["z"]
        self.assertLess(abs(z["bias"]), 0.02)
        self.assertLess(z["std_over_crlb"], 1.3)

    def test_a_spline_of_simulated_beads_finds_z(self):
        model = ("--depth", "0.4", "--gamma", "0.25", "--sigma", "1.2,1.3", "--a", "0.08,-0.05",
                 "--b", "0.03,0.02")
        self.fit("simulate", "--movie", "--model", "XYZNB", "--frames", "61", "--z=-0.6",
                 "--z-step", "0.02", "--spots", "16", "--emitters", "16", "--size", "256",
                 "--photons", "20000", "--background", "20", "--roi", "17", "-o", "beads.npy",
                 "--quiet", *model)
        self.fit("fit", "beads.npy", "--roi", "17", "--model", "XYNBSXSY", "--threshold", "12",
                 "--keep", "converged", "-o", "widths.npy", "--quiet")
        report = self.json("calibrate", "widths.npy", "--model", "SPLINE", "--images", "beads.npy",
                           "--z-step", "0.02", "-o", "spline.yaml")
        self.assertAlmostEqual(report["zero"], 0.6, delta=0.01)
        self.assertGreaterEqual(report["beads"], 8)
        self.assertLess(max(report["moved"]), 0.01)
        # Other spots of the same optics: z is within 3 nm on average. The spread is hardly larger
        # than with known optics, and the goodness of fit is as for a right model.
        self.fit("simulate", "--model", "XYZNB", "--rois", "4000", "--roi", "13", "--z=-0.4:0.4",
                 "--photons", "2000", "--background", "20", "-o", "s.npy", "--truth", "z.npy",
                 "--quiet", *model)
        report = self.json("fit", "s.npy", "--roi-stack", "--calibration", "spline.yaml", "--truth",
                           "z.npy", "-o", "z_fit.npy")
        self.assertEqual(report["model"], "SPLINE")
        truth = report["truth"]["parameters"]
        for name, bias in (("x", 0.01), ("y", 0.01), ("z", 0.003)):
            self.assertLess(abs(truth[name]["bias"]), bias, name)
            self.assertLess(abs(truth[name]["std_over_crlb"] - 1), 0.05, name)
        # The same bytes for any number of threads and any batch size.
        for options in (("--threads", "1"), ("--threads", "3", "--batch", "77")):
            self.fit("fit", "s.npy", "--roi-stack", "--calibration", "spline.yaml", "-o", "again.npy",
                     "--force", "--quiet", *options)
            with open(self.path("z_fit.npy"), "rb") as one, open(self.path("again.npy"), "rb") as two:
                self.assertEqual(one.read(), two.read(), options)
        # A movie of spots with this spline, found and fitted.
        self.fit("simulate", "--movie", "--calibration", "spline.yaml", "--frames", "20", "--size",
                 "96", "--spots", "3", "--z=-0.3:0.3", "--photons", "4000", "-o", "m.npy",
                 "--truth", "mt.npy", "--quiet")
        report = self.json("fit", "m.npy", "--calibration", "spline.yaml", "--roi", "13", "--truth",
                           "mt.npy", "-o", "m_fit.csv")
        self.assertGreater(report["truth"]["found_fraction"], 0.8)

    def test_calibrations_that_are_none_are_refused(self):
        with open(self.path("cut.yaml"), "w") as file:
            file.write("model: SPLINE\nplanes: 3\nrows: 9\ncolumns: 9\nspot_x: 4\nspot_y: 4\n"
                       "z_first: 0\nz_step: 0.1\nvalues:\n- [0, 1, 2]\n")
        crlb = ("crlb", "--calibration", "cut.yaml", "--roi", "5")
        self.assertIn("line 10", self.fit(*crlb, expected=1))
        self.assertIn("SPLINE", self.fit(*crlb, "--model", "XYNB", expected=2))
        self.assertIn("--calibration", self.fit("crlb", "--model", "SPLINE", expected=2))
        self.assertIn("cannot read", self.fit("crlb", "--calibration", "none.yaml", expected=1))
        write_table(self.path("t.npy"), blinks(20, 20))
        self.assertIn("--images", self.fit("calibrate", "t.npy", "--model", "SPLINE", "--z-step",
                                           "0.05", "-o", "a.yaml", expected=2))

    def test_stacks_that_do_not_determine_the_curves_are_refused(self):
        write_table(self.path("t.npy"), blinks(20, 20))
        self.assertIn("XYNBSXSY", self.fit("calibrate", "t.npy", "--z-step", "0.05", "-o", "a.yaml",
                                           expected=1))
        self.assertIn("--z-step", self.fit("calibrate", "t.npy", "-o", "a.yaml", expected=2))
        self.assertFalse(os.path.exists(self.path("a.yaml")))


class Walk(Base):
    def test_the_guides_way_from_beads_and_a_movie_to_a_picture(self):
        with open(os.path.join(ROOT, "docs", "guide", "fitting.md"), encoding="utf-8") as file:
            section = file.read().split("## From beads and a movie to a picture")[1]
        script = re.search(r"```sh\n(.*?)```", section, re.S).group(1)
        if not written("a.tif") or not written("a.hdf5"):
            self.skipTest("compute-fit was built without libtiff or libhdf5")
        path = os.environ["PROGRAMS"] + os.pathsep + os.environ["PATH"]
        result = subprocess.run(["sh", "-e", "-c", script], cwd=self.folder, capture_output=True,
                                text=True, check=False, env={**os.environ, "PATH": path})
        if "without libpng" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path("drift.csv"), encoding="utf-8") as file:
            drift = [tuple(map(float, line.split(","))) for line in file.readlines()[1:]]
        self.assertGreaterEqual(len(drift), 1990)
        for frame, x, y, z in drift:
            self.assertAlmostEqual(x, 1.5 * frame / 1999, delta=0.03)
            self.assertAlmostEqual(y, -frame / 1999, delta=0.03)
            self.assertAlmostEqual(z, 100 * frame / 1999, delta=10)
        self.assertEqual(struct.unpack(">2I", self.bytes_of("picture.png")[16:24]), (640, 640))
        emitters, localisations = map(int, re.search(
            r"linked.hdf5: (\d+) emitters in (\d+) local", result.stdout).groups())
        self.assertTrue(2.5 < localisations / emitters < 4.5)


PICASSO = r"""
import sys, warnings
warnings.filterwarnings("ignore")
from picasso import io, postprocess
locs, info = io.load_locs("t.hdf5")
drift, _ = postprocess.undrift(locs, info, 100, display=False, segmentation_callback=lambda i: None,
                               rcc_callback=lambda i: None)
linked = postprocess.link(locs, info, r_max=1, max_dark_time=0, remove_ambiguous_lengths=False)
open("drift.txt", "w").write("\n".join(f"{x} {y}" for x, y in zip(drift["x"], drift["y"])))
open("linked.txt", "w").write("\n".join(
    f"{f} {x:.4f} {n} {p:.1f}" for f, x, n, p in
    zip(linked["frame"], linked["x"], linked["n"], linked["photons"])))
mine, _ = io.load_locs("l.hdf5")
open("mine.txt", "w").write("\n".join(
    f"{f} {x:.4f} {n} {p:.1f}" for f, x, n, p in
    zip(mine["frame"], mine["x"], mine["n"], mine["photons"])))
"""


@unittest.skipUnless(os.environ.get("PICASSO_PYTHON"),
                     "PICASSO_PYTHON does not name a Python with Picasso (PyPI: picassosr)")
@unittest.skipUnless(written("t.hdf5"), "compute-fit was built without libhdf5")
class Picasso(Base):
    def test_drift_and_groups_agree_with_picassos(self):
        frames = 2000
        self.fit("simulate", "--movie", "--frames", str(frames), "--size", "64", "--spots", "8",
                 "--emitters", "120", "--blink", "4", "--drift", "1.5,-1", "--photons", "2000:3000",
                 "-o", "m.npy", "--quiet")
        self.fit("fit", "m.npy", "-o", "t.hdf5", "--pixel-size", "100", "--keep", "converged",
                 "--where", "p_value > 0.001", "--quiet")
        self.fit("link", "t.hdf5", "-o", "l.hdf5", "--max-distance", "1", "--max-dark", "0", "--quiet")
        self.fit("drift", "t.hdf5", "-o", "d.hdf5", "--table", "d.csv", "--window", "100", "--quiet")
        result = subprocess.run([os.environ["PICASSO_PYTHON"], "-c", PICASSO], cwd=self.folder,
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path("d.csv"), encoding="utf-8") as file:
            mine = [tuple(map(float, line.split(",")[1:])) for line in file.readlines()[1:]]
        with open(self.path("drift.txt"), encoding="utf-8") as file:
            theirs = [tuple(map(float, line.split())) for line in file]
        for axis in (0, 1):
            apart = [a[axis] - b[axis] for a, b in zip(mine, theirs)][50:-50]
            mean = sum(apart) / len(apart)
            self.assertLess(math.sqrt(sum((d - mean) ** 2 for d in apart) / len(apart)), 0.06)
            slope = (1.5, -1)[axis] / (frames - 1)
            for frame, place in enumerate(mine):
                self.assertAlmostEqual(place[axis], slope * frame, delta=0.03)
        groups = []
        for name in ("mine.txt", "linked.txt"):
            with open(self.path(name), encoding="utf-8") as file:
                groups.append(set(file.read().splitlines()))
        self.assertGreater(len(groups[0] & groups[1]), 0.9 * max(map(len, groups)))


if __name__ == "__main__":
    unittest.main()
