# SPDX-License-Identifier: MIT
"""Exchange of files with other programs: NumPy, h5py, tifffile, libtiff's tools and h5dump write and
read them.

file_tool runs the library's side. Classes whose modules or programs are not installed are skipped.
"""
import csv
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


np, h5py, tifffile, yaml = (module(name) for name in ("numpy", "h5py", "tifffile", "yaml"))
TOOL = os.environ["FILE_TOOL"]
FORMATS = os.environ.get("FORMATS", "TIFF HDF5 YAML").split()


def tool(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_tool(self, *arguments):
        done = tool(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def assert_refused(self, path, words):
        done = tool("read", path, 0, 0, self.path("out"))
        self.assertEqual(done.returncode, 1, path)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def assert_movie(self, path, frames, words=""):
        """The library's reader gives `frames`: all of them, and one from the middle."""
        dtype = "u16" if frames.dtype.kind == "u" else "f32"
        expected = frames.astype("u2" if dtype == "u16" else "f4")
        out = self.path("out")
        for first, count in ((0, len(frames)), (len(frames) // 2, 1)):
            said = self.run_tool("read", path, first, count, out)
            self.assertIn("; %s; %d %d %d; " % (dtype, *frames.shape), said)
            self.assertIn(words, said)
            got = np.fromfile(out, expected.dtype).reshape(-1, *frames.shape[1:])
            np.testing.assert_array_equal(got, expected[first:first + count])


def sample(dtype, shape=(7, 45, 70)):
    values = np.random.default_rng(1).integers(0, 60000, shape)
    return (values % 256 if dtype == "u1" else values).astype(dtype)


@unittest.skipUnless(np, "needs NumPy")
class Npy(Files):
    def test_stacks_of_every_dtype_and_byte_order(self):
        for dtype in ("u1", "<u2", ">u2", "<f4", ">f4", "<f8", ">f8"):
            frames = sample(dtype)
            np.save(self.path("m.npy"), frames)
            self.assert_movie(self.path("m.npy"), frames)

    @unittest.skipUnless("YAML" in FORMATS, "was built without libyaml")
    def test_raw_files_with_a_side_car(self):
        for name, order in (("uint8", "<"), ("uint16", "<"), ("uint16", ">"), ("float32", "<"),
                            ("float32", ">"), ("float64", ">")):
            frames = sample(np.dtype(name).newbyteorder(order))
            frames.tofile(self.path("m.raw"))
            with open(self.path("m.yaml"), "w") as side:
                side.write("Byte Order: '%s'\nCamera: Unit\nData Type: %s\nFrames: 7\nHeight: 45\n"
                           "Width: 70\n" % (order, name))
            self.assert_movie(self.path("m.raw"), frames)

    def test_the_library_copies_every_array(self):
        arrays = [sample(d, s) for d in ("<f8", ">f4", "<f2", ">i8", "<i4", ">u2", "u1", "?")
                  for s in ((), (4,), (2, 3), (2, 3, 4), (0, 5))]
        arrays += [np.asfortranarray(sample("<f4", (3, 4))), np.asfortranarray(sample(">u2", (2, 3, 4)))]
        for array in arrays:
            np.save(self.path("a.npy"), array)
            self.run_tool("copy", self.path("a.npy"), self.path("b.npy"))
            copy = np.load(self.path("b.npy"))
            self.assertEqual(copy.shape, array.shape)
            self.assertEqual(copy.dtype, array.dtype.newbyteorder("="))
            np.testing.assert_array_equal(copy, array)

    def test_arrays_are_read_whole_and_by_slices(self):
        for dtype in ("<f8", ">f4", "<f2", ">i8", "<i4", ">u2", "u1", "?"):
            for array in (sample(dtype, (10, 4)) % 100, np.asfortranarray(sample(dtype, (5, 4)) % 7)
                          ) if dtype != "?" else (sample(dtype, (10, 4)),):
                np.save(self.path("a.npy"), array)
                for to, numpy_to in (("f32", "f4"), ("f64", "f8"), ("i32", "i4"), ("u8", "u1")):
                    self.run_tool("array", self.path("a.npy"), to, self.path("out"))
                    np.testing.assert_array_equal(np.fromfile(self.path("out"), numpy_to),
                                                  array.astype(numpy_to).ravel())
            np.save(self.path("a.npy"), sample(dtype, (10, 4)))
            self.run_tool("slices", self.path("a.npy"), self.path("out"))
            np.testing.assert_array_equal(np.fromfile(self.path("out"), "f4"),
                                          sample(dtype, (10, 4)).astype("f4").ravel())
        np.save(self.path("a.npy"), np.array([1, 2.5]))
        self.assertIn("is 2.5; it must hold whole numbers",
                      tool("array", self.path("a.npy"), "i32", self.path("out")).stderr)
        np.save(self.path("a.npy"), np.array([1, 256]))
        self.assertIn("from 0 to 255",
                      tool("array", self.path("a.npy"), "u8", self.path("out")).stderr)

    def test_stacks_are_written_in_pieces(self):
        for dtype, numpy_dtype in (("u16", "<u2"), ("f32", "<f4")):
            for items in (0, 1, 1000):
                self.run_tool("stack", self.path("s.npy"), dtype, items)
                stack = np.load(self.path("s.npy"))
                self.assertEqual(stack.dtype, numpy_dtype)
                np.testing.assert_array_equal(stack, np.arange(15 * items).reshape(items, 3, 5))


@unittest.skipUnless("TIFF" in FORMATS, "was built without libtiff")
@unittest.skipUnless(np and tifffile, "needs NumPy and tifffile")
class Tiff(Files):
    def test_dtypes_byte_orders_and_sizes(self):
        for dtype in ("u1", "u2", "f4", "f8"):
            for order in "<>":
                for big in (False, True):
                    frames = sample(dtype)
                    tifffile.imwrite(self.path("m.tif"), frames, byteorder=order, bigtiff=big,
                                     photometric="minisblack")
                    self.assert_movie(self.path("m.tif"), frames, "BigTIFF" if big else "7 page")

    def test_strips_tiles_and_compression(self):
        for dtype in ("u1", "u2", "f4", "f8"):
            frames = sample(dtype)
            for options in ({"rowsperstrip": 8}, {"compression": "zlib"}, {"tile": (16, 32)},
                            {"tile": (64, 80)}, {"tile": (16, 16), "compression": "zlib"},
                            {"compression": "zlib", "rowsperstrip": 7}):
                tifffile.imwrite(self.path("m.tif"), frames, photometric="minisblack", **options)
                self.assert_movie(self.path("m.tif"), frames)

    def test_one_frame_is_a_movie(self):
        frames = sample("u2", (1, 33, 20))
        tifffile.imwrite(self.path("m.tif"), frames[0])
        self.assert_movie(self.path("m.tif"), frames, "1 page")

    def test_stacks_of_imagej(self):
        for dtype in ("u1", "u2", "f4"):
            frames = sample(dtype)
            tifffile.imwrite(self.path("m.tif"), frames, imagej=True, truncate=True)
            with tifffile.TiffFile(self.path("m.tif")) as file:
                self.assertIsNone(file.pages[0].tags.get("no such"))
            self.assert_movie(self.path("m.tif"), frames)

    @unittest.skipUnless(shutil.which("tiffcp"), "needs libtiff's tools")
    def test_what_tiffcp_makes(self):
        frames = sample("u2")
        tifffile.imwrite(self.path("a.tif"), frames, photometric="minisblack")
        for options in (["-c", "lzw"], ["-c", "lzw:2"], ["-c", "zip:2"], ["-c", "packbits"], ["-B"],
                        ["-8"], ["-t", "-w", "32", "-l", "16"], ["-r", "4", "-c", "zip"],
                        ["-t", "-w", "48", "-l", "48", "-c", "lzw:2", "-B", "-8"]):
            subprocess.run(["tiffcp", *options, self.path("a.tif"), self.path("b.tif")], check=True,
                           capture_output=True)
            self.assert_movie(self.path("b.tif"), frames)

    def test_camera_maps_are_pictures(self):
        picture = sample("f4", (20, 30))
        tifffile.imwrite(self.path("map.tif"), picture)
        self.run_tool("array", self.path("map.tif"), "f32", self.path("out"))
        np.testing.assert_array_equal(np.fromfile(self.path("out"), "f4"), picture.ravel())
        tifffile.imwrite(self.path("map.tif"), sample("f4"), photometric="minisblack")
        self.assertIn("7 pages",
                      tool("array", self.path("map.tif"), "f32", self.path("out")).stderr)

    def test_other_pictures_are_refused(self):
        cases = [(sample("u1", (2, 9, 9, 3)), {"photometric": "rgb"}, "3 samples per pixel"),
                 (sample("i2"), {}, "16-bit signed"), (sample("u4"), {}, "32-bit unsigned"),
                 (sample("f2"), {}, "16-bit floats"),
                 (sample("u1", (9, 9)), {"colormap": np.zeros((3, 256), "u2")}, "name colours")]
        for frames, options, words in cases:
            options.setdefault("photometric", None if "colormap" in options else "minisblack")
            tifffile.imwrite(self.path("m.tif"), frames, **options)
            self.assert_refused(self.path("m.tif"), words)
        with tifffile.TiffWriter(self.path("m.tif")) as file:
            file.write(sample("u2", (9, 9)))
            file.write(sample("u2", (9, 8)))
        self.assert_refused(self.path("m.tif"), "page 2 has 9 x 8 pixels of u16, page 1 9 x 9")

    def test_truncated_files_are_noticed_at_once(self):
        for options in ({}, {"compression": "zlib"}, {"tile": (16, 16)}, {"bigtiff": True}):
            tifffile.imwrite(self.path("m.tif"), sample("u2"), photometric="minisblack", **options)
            size = os.path.getsize(self.path("m.tif"))
            for part in (0.999, 0.9, 0.5, 0.1):
                os.truncate(self.path("m.tif"), int(size * part))
                self.assert_refused(self.path("m.tif"), "COMPUTE_ERROR_FORMAT: " + self.path("m.tif"))


MODELS = (4, 5, 6, 5)


def parameters(model, rois):
    """As in sample_results.h."""
    roi = np.arange(rois)
    values = np.arange(1, MODELS[model] + 1) + (roi % 1000)[:, None] / 1000
    values[roi % 11 == 10] = np.nan
    return roi, values


@unittest.skipUnless(np, "needs NumPy")
class Results(Files):
    def test_npy_has_records(self):
        names = (("photons", "background"), ("photons", "background", "sigma"),
                 ("photons", "background", "sigma_x", "sigma_y"), ("z", "photons", "background"))
        for model in range(4):
            self.run_tool("results", self.path("r.npy"), model, 3000, 1, 100)
            table = np.load(self.path("r.npy"))
            roi, expected = parameters(model, 3000)
            np.testing.assert_array_equal(table["roi"], roi)
            np.testing.assert_array_equal(table["frame"], roi // 3)
            np.testing.assert_array_equal(table["roi_row"], roi % 100)
            np.testing.assert_allclose(table["x"], expected[:, 0] + 2 * (roi % 50), rtol=1e-6)
            np.testing.assert_allclose(table["y"], expected[:, 1] + roi % 100, rtol=1e-6)
            for i, name in enumerate(names[model]):
                np.testing.assert_allclose(table[name], expected[:, 2 + i], rtol=1e-6)
                np.testing.assert_allclose(table[name + "_std"], expected[:, 2 + i] / 10, rtol=1e-6)
            good = roi % 11 != 10
            covariance = roi[:, None, None] + 10 * np.arange(MODELS[model])[:, None] + np.arange(
                MODELS[model])
            np.testing.assert_array_equal(table["covariance"][good], covariance[good])
            np.testing.assert_array_equal(table["log_likelihood_ratio"][good], -roi[good] / 4)
            np.testing.assert_array_equal(table["iterations"], roi % 7)
            np.testing.assert_array_equal(table["status"], np.where(good, 1 + roi % 3, 5))

    def test_csv_is_thunderstorms(self):
        for model in range(4):
            self.run_tool("results", self.path("r.csv"), model, 3000, 1, 160)
            with open(self.path("r.csv"), newline="") as file:
                rows = list(csv.DictReader(file))
            roi, expected = parameters(model, 3000)

            def column(name):
                return np.array([float(row[name]) for row in rows])
            np.testing.assert_array_equal(column("id"), roi + 1)
            np.testing.assert_array_equal(column("frame"), roi // 3 + 1)
            x = (expected[:, 0] + 2 * (roi % 50) + 0.5) * 160
            np.testing.assert_allclose(column("x [nm]"), x, atol=1e-3)
            photons = 3 if model == 3 else 2
            np.testing.assert_allclose(column("intensity [photon]"), expected[:, photons], atol=1e-3)
            uncertainty = np.sqrt((expected[:, 0]**2 + expected[:, 1]**2) / 2) * 16
            np.testing.assert_allclose(column("uncertainty_xy [nm]"), uncertainty, atol=1e-3)
            if model == 3:
                np.testing.assert_allclose(column("z [nm]"), expected[:, 2] * 1000, atol=1e-2)
                tx, ty = expected[:, 2] / 2, expected[:, 2] / 2
                np.testing.assert_allclose(column("sigma1 [nm]"), 200 * np.sqrt(1 + tx**2), atol=1e-2)
                np.testing.assert_allclose(column("sigma2 [nm]"), 240 * np.sqrt(1 + ty**2), atol=1e-2)
            p_value = np.where(np.isnan(x), np.nan, 1e-3 / (roi + 1))
            np.testing.assert_allclose(column("p_value"), p_value, rtol=1e-6)

    @unittest.skipUnless("HDF5" in FORMATS, "was built without libhdf5")
    @unittest.skipUnless(h5py, "needs h5py")
    def test_hdf5_is_picassos(self):
        for model in range(4):
            self.run_tool("results", self.path("r.hdf5"), model, 60000, 1, 160)
            with h5py.File(self.path("r.hdf5")) as file:
                self.assertEqual(list(file), ["locs"])
                locs = file["locs"][...]
            self.assertEqual(locs.dtype["frame"], np.dtype("<u4"))
            for name in ("x", "y", "photons", "sx", "sy", "bg", "lpx", "lpy"):
                self.assertEqual(locs.dtype[name], np.dtype("<f4"))
            roi, expected = parameters(model, 60000)
            good = roi % 11 != 10  # Picasso accepts no NaN
            roi, expected = roi[good], expected[good]
            np.testing.assert_array_equal(locs["frame"], roi // 3)
            np.testing.assert_allclose(locs["x"], expected[:, 0] + 2 * (roi % 50), rtol=1e-6)
            np.testing.assert_allclose(locs["y"], expected[:, 1] + roi % 100, rtol=1e-6)
            np.testing.assert_allclose(locs["lpx"], expected[:, 0] / 10, rtol=1e-6)
            np.testing.assert_allclose(locs["lpy"], expected[:, 1] / 10, rtol=1e-6)
            if model == 2:
                np.testing.assert_allclose(locs["sx"], expected[:, 4], rtol=1e-6)
                np.testing.assert_allclose(locs["sy"], expected[:, 5], rtol=1e-6)
            if model == 0:
                np.testing.assert_array_equal(locs["sx"], np.float32(1.25))
                np.testing.assert_array_equal(locs["sy"], np.float32(1.5))
            if model == 3:
                np.testing.assert_allclose(locs["z"], expected[:, 2] * 1000, rtol=1e-6)
                np.testing.assert_allclose(locs["lpz"], expected[:, 2] * 100, rtol=1e-6)

    @unittest.skipUnless("HDF5" in FORMATS, "was built without libhdf5")
    @unittest.skipUnless(h5py and yaml, "needs h5py and PyYAML")
    def test_the_side_car_is_picassos(self):
        self.run_tool("results", self.path("r.hdf5"), 0, 300, 1, 160)
        with open(self.path("r.yaml")) as file:
            movie, fit = yaml.safe_load_all(file)
        self.assertEqual(movie, {"File": "movie.tif", "Frames": 100, "Height": 128, "Width": 256})
        self.assertEqual(fit["Generated by"], "file_tool")
        self.assertEqual(fit["Pixelsize"], 160)

    @unittest.skipUnless("HDF5" in FORMATS, "was built without libhdf5")
    @unittest.skipUnless(h5py and shutil.which("h5dump"), "needs libhdf5's tools")
    def test_h5dump_reads_it(self):
        self.run_tool("results", self.path("r.h5"), 1, 6, 1, 160)
        said = subprocess.run(["h5dump", self.path("r.h5")], capture_output=True, text=True, check=True)
        self.assertIn('DATASET "locs"', said.stdout)
        self.assertIn('H5T_STD_U32LE "frame";', said.stdout)
        self.assertIn("DATASPACE  SIMPLE { ( 6 ) / ( H5S_UNLIMITED ) }", said.stdout)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1] + ["-v"] + sys.argv[1:], exit=False).result
    if result.wasSuccessful() and result.skipped and len(result.skipped) == result.testsRun:
        reasons = "; ".join(sorted({reason for _, reason in result.skipped}))
        print(f"skipped: {reasons} (Debian: python3-numpy, python3-tifffile, python3-h5py, python3-yaml)")
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
