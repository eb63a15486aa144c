#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The selection and output of compute-fit fit: statuses, conditions, significance, saturated pixels,
regions and frames, and the pixel size from a file's metadata. Needs only Python itself."""
import math
import os
import struct
import sys
import unittest

sys.dont_write_bytecode = True  # write no files beside the sources
from fit_fixture import Base, read_npy, write_npy, written  # noqa: E402 pylint: disable=wrong-import-position


def lines(text):
    return [dict(zip(text.splitlines()[0].replace('"', "").split(","), line.split(",")))
            for line in text.splitlines()[1:]]


class Rows(Base):
    def test_only_the_wanted_statuses_are_written(self):
        self.stack(400, "--photons", "0:60", "--background", "5")
        fit = ("fit", "s.npy", "--roi-stack", "--force", "--quiet")
        self.fit(*fit, "-o", "all.npy")
        every = read_npy(self.path("all.npy"))[1]
        for keep, statuses in {"all": range(6), "converged": [1], "max-iterations,at-bound": [2, 3],
                               "bad-data": [5]}.items():
            self.fit(*fit, "--keep", keep, "-o", "kept.npy")
            kept = read_npy(self.path("kept.npy"))[1]
            self.assertEqual([r["roi"] for r in kept],
                             [r["roi"] for r in every if r["status"] in statuses])
        for name in written("bad.hdf5"):
            error = self.fit(*fit, "--keep", "bad-data,singular", "-o", name, expected=1)
            self.assertIn("cannot hold fits without numbers", error)
        self.assertIn("--keep", self.fit(*fit, "--keep", "good", "-o", "kept.npy", expected=2))

    def test_a_condition_selects_the_same_rows_in_every_format(self):
        self.stack(3000, "--model", "XYNBS", "--photons", "200:2000")
        fit = ("fit", "s.npy", "--roi-stack", "--model", "XYNBS", "--force", "--quiet")
        self.fit(*fit, "-o", "all.npy")
        every = read_npy(self.path("all.npy"))[1]
        good = [r["roi"] for r in every if r["status"] == 1]
        for text, holds in {
                "sigma<1.3 && p_value>0.1": lambda r: r["sigma"] < 1.3 and r["p_value"] > 0.1,
                "!(sigma <1.3)|| x - y > .25*2": lambda r: not r["sigma"] < 1.3
                or r["x"] - r["y"] > 0.5,
                "-x + 6 / 2 <= -1 - -1.1e0 == 1": lambda r: -r["x"] + 3 <= -1 + 1.1,
                "photons / photons_std > 20 && photons != 0 || 1 > 2":
                    lambda r: r["photons"] / r["photons_std"] > 20,
                "roi": lambda r: r["roi"] != 0}.items():
            self.fit(*fit, "--where", text, "--keep", "converged", "-o", "some.npy")
            some = [r["roi"] for r in read_npy(self.path("some.npy"))[1]]
            self.assertEqual(some, [i for i in good if holds(every[i])], text)
            self.assertTrue(some and len(some) < len(every), text)
            self.fit(*fit, "--where", text, "--keep", "converged", "--pixel-size", "100", "-o",
                     "some.csv", "--threads", "2")
            with open(self.path("some.csv"), encoding="utf-8") as file:
                self.assertEqual([int(r["id"]) - 1 for r in lines(file.read())], some)

    def test_a_wrong_condition_is_pointed_at(self):
        self.stack(5)
        for text, place, words in (
                ("x >> 1", 4, "expected a column or a number"),
                ("x > 1 &&", 9, "expected a column or a number at the end"),
                ("(x > 1 || y", 1, "this parenthesis is not closed"),
                ("x > 1)", 6, "expected an operator"),
                ("x = 1", 3, "equality is written =="),
                ("x > 1 y > 2", 7, "expected an operator"),
                ("x > 1e", 6, "a number ends here"),
                ("x>0 && sigma<1.6", 8, "there is no column 'sigma'; there are roi, x, y, photons"),
                ("(" * 100 + "x", 65, "nested too deeply"),
                ("x" + "+x" * 200, 258, "too long"),
                ("1+(" * 30 + "x", 74, "too long")):
            error = self.fit("fit", "s.npy", "--roi-stack", "--where", text, "-o", "r.npy",
                             expected=2)
            self.assertIn(words, error)
            self.assertIn(f"--where: character {place}: ", error)
            shown, mark = error.splitlines()[1:3]
            if place < 50:
                self.assertEqual(shown, "  " + text)
                self.assertEqual(mark.index("^"), place + 1)
            self.assertEqual(self.files(), ["s.npy", "t.npy"])

    def test_significance_tells_spots_from_empty_images(self):
        shares = {}
        for name, photons in (("empty", "0"), ("dim", "150"), ("bright", "1000")):
            self.fit("simulate", "--rois", "2000", "--photons", photons, "--background", "10", "-o",
                     "s.npy", "--quiet", "--force")
            self.fit("fit", "s.npy", "--roi-stack", "-o", "r.npy", "--outputs",
                     "usual,significance", "--quiet", "--force")
            rows = read_npy(self.path("r.npy"))[1]
            shares[name] = sum(r["significance"] > 4 for r in rows) / len(rows)
            pixels = read_npy(self.path("s.npy"))[1]
            self.compare_with_ratio(rows, pixels)
        self.assertLess(shares["empty"], 0.004)
        self.assertGreater(shares["dim"], 0.95)
        self.assertEqual(shares["bright"], 1)
        self.fit("fit", "s.npy", "--roi-stack", "-o", "r.npy", "--where", "significance > 1e9",
                 "--quiet", "--force")
        self.assertEqual(read_npy(self.path("r.npy"))[1], [])

    def test_significance_is_that_of_the_pixels_in_use(self):
        mask = [int(k % 7 < 4 or k // 7 > 4) for k in range(49)]
        write_npy(self.path("mask.npy"), "|u1", (7, 7), mask)
        self.fit("simulate", "--rois", "2000", "--photons", "300", "--background", "10", "-o",
                 "s.npy", "--quiet")
        self.fit("fit", "s.npy", "--roi-stack", "-o", "r.npy", "--outputs", "usual,significance",
                 "--mask", "mask.npy", "--quiet")
        self.compare_with_ratio(read_npy(self.path("r.npy"))[1], read_npy(self.path("s.npy"))[1],
                                mask)

    def compare_with_ratio(self, rows, pixels, mask=(1,) * 49):
        """Computes the likelihood ratio from the pixels."""
        for r in rows:
            d = [pixels[49 * r["roi"] + k] for k in range(49) if mask[k]]
            flat = sum(d) / len(d)
            empty = sum(k * math.log(flat / k) if k else 0 for k in d)
            ratio = 2 * (r["log_likelihood_ratio"] - empty)
            self.assertLess(abs(r["significance"] ** 2 - max(ratio, 0)), 2e-3 + 1e-4 * abs(ratio))

    def test_saturated_pixels_are_counted_and_rejected(self):
        self.stack(300, "--photons", "500:4000")
        pixels = read_npy(self.path("s.npy"))[1]
        counts = [sum(p >= 200 for p in pixels[49 * i : 49 * i + 49]) for i in range(300)]
        self.assertTrue(0 in counts and max(counts) > 5)
        fit = ("fit", "s.npy", "--roi-stack", "--saturation", "200", "--quiet", "--force")
        for batch in ("7", "1000"):
            self.fit(*fit, "-o", "r.npy", "--batch", batch)
            self.assertEqual([r["saturated"] for r in read_npy(self.path("r.npy"))[1]], counts)
        self.fit(*fit, "-o", "r.npy", "--where", "saturated == 0")
        self.assertEqual([r["roi"] for r in read_npy(self.path("r.npy"))[1]],
                         [i for i in range(300) if not counts[i]])

    def test_saturated_pixels_of_frames(self):
        self.fit("simulate", "--movie", "--frames", "20", "--size", "40x60", "--spots", "6", "-o",
                 "m.npy", "--quiet")
        pixels = read_npy(self.path("m.npy"))[1]
        level = sorted(pixels)[-40]
        self.fit("fit", "m.npy", "-o", "r.npy", "--saturation", str(level), "--quiet", "--batch",
                 "3")
        rows = read_npy(self.path("r.npy"))[1]
        for r in rows:
            at = [2400 * r["frame"] + 60 * (r["roi_row"] + i) + r["roi_column"] for i in range(7)]
            self.assertEqual(r["saturated"], sum(p >= level for k in at for p in pixels[k : k + 7]))
        self.assertTrue(any(r["saturated"] for r in rows))


class Part(Base):
    MOVIE = ("--movie", "--frames", "40", "--size", "60x80", "--spots", "8", "-o", "m.npy",
             "--truth", "t.npy", "--quiet")

    def test_region_and_frames_give_the_same_fits_in_the_coordinates_of_the_movie(self):
        self.fit("simulate", *self.MOVIE)
        self.fit("fit", "m.npy", "-o", "all.npy", "--quiet")
        every = read_npy(self.path("all.npy"))[1]
        report = self.json("fit", "m.npy", "-o", "part.npy", "--region", "20,10,40,30", "--frames",
                           "5:24", "--truth", "t.npy")
        part = read_npy(self.path("part.npy"))[1]
        self.assertGreater(len(part), 30)
        self.assertEqual({r["frame"] for r in part} - set(range(5, 25)), set())
        self.assertGreater(report["truth"]["found_fraction"], 0.9)
        self.assertLess(abs(report["truth"]["parameters"]["x"]["bias"]), 0.1)
        places = {(r["frame"], r["roi_row"], r["roi_column"]): r for r in every}
        same = inside = 0
        for r in part:
            self.assertTrue(20 <= r["roi_column"] <= 53 and 10 <= r["roi_row"] <= 33)
            inside += 24 <= r["roi_column"] <= 49 and 14 <= r["roi_row"] <= 29
            other = places.get((r["frame"], r["roi_row"], r["roi_column"]))
            if other:
                same += 24 <= r["roi_column"] <= 49 and 14 <= r["roi_row"] <= 29
                self.assertEqual((r["x"], r["y"], r["photons"]),
                                 (other["x"], other["y"], other["photons"]))
        self.assertGreater(same, 0.9 * inside)
        self.assertGreater(inside, 10)

    def test_maps_are_cut_with_the_frames(self):
        self.fit("simulate", *self.MOVIE)
        ramp = [0.5 + 0.01 * (i % 80) + 0.02 * (i // 80) for i in range(4800)]
        write_npy(self.path("gain.npy"), "<f4", (60, 80), ramp)
        write_npy(self.path("variance.npy"), "<f4", (60, 80), [v / 9 for v in ramp])
        fit = ("fit", "m.npy", "--camera", "scmos", "--gain", "gain.npy", "--variance",
               "variance.npy", "--outputs", "usual,significance", "--quiet")
        self.fit(*fit, "-o", "all.npy")
        self.fit(*fit, "-o", "part.npy", "--region", "0,20,80,40")
        places = {(r["frame"], r["roi_row"], r["roi_column"]): r
                  for r in read_npy(self.path("all.npy"))[1]}
        pairs = [(r, places.get((r["frame"], r["roi_row"], r["roi_column"])))
                 for r in read_npy(self.path("part.npy"))[1]]
        pairs = [(a, b) for a, b in pairs if b]
        self.assertGreater(len(pairs), 50)
        for a, b in pairs:
            self.assertEqual([a[n] for n in ("x", "photons", "significance")],
                             [b[n] for n in ("x", "photons", "significance")])

    def test_parts_that_do_not_exist_are_refused(self):
        self.fit("simulate", *self.MOVIE)
        for more, words in {"--region 0,0,81,60": "80 wide, 60 high",
                            "--region 0,0,0,60": "whole numbers", "--region 1.5,0,8,6": "whole",
                            "--region 1,2,3": "X,Y,WIDTH,HEIGHT", "--frames 3:40": "0 to 39",
                            "--frames 1.5": "0 to 39",
                            "--roi-stack --frames 0:3": "--roi-stack says where"}.items():
            error = self.fit("fit", "m.npy", "-o", "r.npy", *more.split(), expected=2)
            self.assertIn(words, error)
        self.assertIn("simulate", self.fit("simulate", "--region", "1,2,3,4", expected=2))


def tiff(path, *pages):
    """Images of 16 x 16 pixels of u16. Each page has a description, a resolution and its unit."""
    data = b"II*\0"
    for description, resolution, unit in pages:
        at = len(data) + 4  # after the offset of this page's directory
        text = description.encode() + b"\0" if description else b""
        entries = [(256, 3, 1, 16), (257, 3, 1, 16), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 1),
                   (273, 4, 1, at), (277, 3, 1, 1), (278, 3, 1, 16), (279, 4, 1, 512),
                   (296, 3, 1, unit)]
        body = struct.pack("<256H", *([100] * 256)) + text
        if text:
            entries.append((270, 2, len(text), at + 512))
        if resolution:
            entries.append((282, 5, 1, at + len(body)))
            body += struct.pack("<2I", *resolution)
        entries.sort()
        data += struct.pack("<I", at + len(body)) + body + struct.pack("<H", len(entries))
        data += b"".join(struct.pack("<HHII", *entry) for entry in entries)
    with open(path, "wb") as file:
        file.write(data + bytes(4))


@unittest.skipUnless(written("m.tif"), "compute-fit was built without libtiff")
class PixelSize(Base):
    def unit_and_scale(self, *more):
        self.fit("fit", "m.tif", "-o", "r.csv", "--force", "--quiet", "--find", *more)
        with open(self.path("r.csv"), encoding="utf-8") as file:
            head = file.readline()
        return "nm" if "x [nm]" in head else "px"

    def look_at(self, nm, *pages):
        tiff(self.path("m.tif"), *pages)
        self.assertEqual(self.unit_and_scale(), "px")
        if nm:
            self.assertEqual(self.unit_and_scale("--units", "nm"), "nm")
        else:
            error = self.fit("fit", "m.tif", "-o", "r.csv", "--find", "--force", "--quiet",
                             "--units", "nm", expected=2)
            self.assertIn("give --pixel-size", error)
        for name in written("r.hdf5"):
            self.fit("fit", "m.tif", "-o", name, "--find", "--force", "--quiet")
            side = self.bytes_of("r.yaml").decode()
            self.assertEqual(f"Pixelsize: {nm}\n" in side, bool(nm), side)

    def test_the_metadata_say_how_large_a_pixel_is(self):
        ome = '<OME><Image><Pixels PhysicalSizeX="{}" PhysicalSizeXUnit="{}"/></Image></OME>'
        nothing = (None, None, 1)
        for first, nm in (((ome.format("0.108", "µm"), None, 1), 108),
                          ((ome.format("65", "nm"), None, 1), 65),
                          ((ome.format("65", "nm").replace('"', "'"), None, 1), 65),
                          (('<OME><Pixels PhysicalSizeX = "0.16"/></OME>', None, 1), 160),
                          (("ImageJ=1.53\nunit=micron\n", (10, 1), 1), 100),
                          (("ImageJ=1.53\nunit=\\u00B5m\n", (1000, 130), 1), 130),
                          ((None, (100000, 1), 3), 100), ((None, (72, 1), 2), None),
                          (("ImageJ=1.53\n", (1, 1), 1), None), (nothing, None)):
            self.look_at(nm, first)
            self.look_at(nm, first, nothing)  # the first of several pages has it
        self.look_at(None, nothing, (ome.format("65", "nm"), (100000, 1), 3))
        self.assertEqual(self.unit_and_scale("--pixel-size", "50"), "nm")
        if "YAML" in os.environ["FORMATS"]:
            with open(self.path("m.raw"), "wb") as file:
                file.write(bytes(512))
            with open(self.path("m.yaml"), "w", encoding="utf-8") as file:
                file.write("Width: 16\nHeight: 16\nFrames: 1\nData Type: uint16\nPixelsize: 95\n")
            for result in written("raw.hdf5"):
                self.fit("fit", "m.raw", "-o", result, "--find", "--quiet")
                self.assertIn("Pixelsize: 95\n", self.bytes_of("raw.yaml").decode())
        self.assertEqual(self.unit_and_scale("--pixel-size", "50", "--units", "px"), "px")
        self.assertIn("nm is for .csv", self.fit("fit", "m.tif", "-o", "r.npy", "--find", "--quiet",
                                                 "--units", "nm", "--force", expected=2))


if __name__ == "__main__":
    unittest.main()
