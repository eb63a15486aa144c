# SPDX-License-Identifier: MIT
"""Fits of spots in images of a camera."""
import numpy

from libcompute import _core
from libcompute._dtypes import find_dtype
from libcompute._names import (FIT_COVARIANCE, FIT_ITERATIONS, FIT_PARAMETERS, FIT_P_RAW, FIT_P_VALUE, FIT_RATIO,
                               FIT_SIGNIFICANCE, FIT_STATUS, FIT_STD, FIT_USUAL_OUTPUTS, FitCamera, FitModel, FitProblem)

# Results: their bit, the type of elements, the axes after the first.
RESULTS = {"parameters": (FIT_PARAMETERS, "f", "P"), "std": (FIT_STD, "f", "P"), "covariance": (FIT_COVARIANCE, "f", "PP"),
           "ratio": (FIT_RATIO, "f", ""), "p_raw": (FIT_P_RAW, "f", ""), "p_value": (FIT_P_VALUE, "f", ""),
           "iterations": (FIT_ITERATIONS, "i", ""), "status": (FIT_STATUS, "B", ""),
           "significance": (FIT_SIGNIFICANCE, "f", "")}


class Fit:
    """A fitter, and the numbers that its arrays need."""

    def __init__(self, handle, model, shape, frames, dtype, outputs):
        self.handle, self.model, self.shape, self.frames = handle, model, shape, frames
        self.dtype, self.outputs = numpy.dtype(dtype.name), outputs
        self.names = tuple(_core.fit_parameter_names(model))

    def _given(self, name, value, kind, columns, count):
        """An array [count, columns] for the library."""
        array = numpy.ascontiguousarray(value, dtype=kind)
        if array.shape != (count, columns):
            raise ValueError(f"{name} is {array.shape}, not {(count, columns)}")
        return array

    def run(self, pixels, *, corners=None, sigma=None, start=None, lower=None, upper=None, progress=None):
        """Fits ROIs [n, rows, columns]; or, with corners [n, 3] (frame, row, column), ROIs of frames.

        Returns a dictionary of NumPy's arrays, and under "summary" a FitSummary. `progress` is called with (items,
        total, seconds); False ends the run. Ctrl-C ends it too."""
        pixels = numpy.ascontiguousarray(pixels, dtype=self.dtype)
        expected = self.frames or self.shape
        if pixels.ndim != 3 or pixels.shape[1:] != expected:
            raise ValueError(f"pixels are {pixels.shape}, not (n, {expected[0]}, {expected[1]})")
        count = len(pixels) if corners is None else len(corners)
        options = {"pixels": {"array": pixels}, "count": count}
        if self.frames and corners is None:
            raise ValueError("frames need corners")
        if self.frames:
            options["frames"] = len(pixels)
        size = len(self.names)
        for name, value, kind, columns in (("corners", corners, "i4", 3), ("sigma", sigma, "f4", 2),
                                           ("start", start, "f4", size), ("lower", lower, "f4", size),
                                           ("upper", upper, "f4", size)):
            if value is not None:
                options[name] = self._given(name, value, kind, columns, count)
        results = {}
        for name, (bit, kind, axes) in RESULTS.items():
            if self.outputs & bit:
                results[name] = numpy.zeros((count,) + (size,) * len(axes), dtype=kind)
        summary = self.handle._run(progress, results=dict(results), **options)
        return {**results, "summary": summary}


def fitter(model, rows, columns, *, sigma=None, dtype="float32", frames=None, mask=None, offset_map=None, gain_map=None,
           variance_map=None, **options):
    """A fitter for ROIs of rows × columns, whose run takes any number of them.

    `frames` is the size of whole frames, if ROIs are cut from those. Maps of the camera have the size of an ROI or of a
    frame. Other options are the fields of FitProblem, and of compute_fit_options in fit.h."""
    model = FitModel[model.upper()] if isinstance(model, str) else FitModel(model)
    problem = {"model": model, "rows": rows, "columns": columns}
    if sigma is not None:
        problem["sigma"] = sigma
    for name in [one for one in options if one in FitProblem._fields]:
        problem[name] = options.pop(name)
    for name, value in (("offset", offset_map), ("gain", gain_map), ("variance", variance_map)):
        if value is not None:
            options[name] = numpy.ascontiguousarray(value, dtype=numpy.float32)
    if mask is not None:
        options["mask"] = numpy.ascontiguousarray(mask, dtype=numpy.uint8)
    if frames is not None:
        options["frame_rows"], options["frame_columns"] = frames
    handle = _core.fitter(problem=problem, dtype=dtype, **options)
    outputs = problem.get("outputs", 0) or FIT_USUAL_OUTPUTS
    if not problem.get("outputs") and FitCamera(_camera(problem)) is FitCamera.READOUT:
        outputs &= ~(FIT_RATIO | FIT_P_VALUE)
    return Fit(handle, model, (rows, columns), None if frames is None else tuple(frames), find_dtype(dtype), outputs)


def spot_corners(spots, rows, columns, *, response=None, first_frame=0, **options):
    """The corners [n, 3] (frame, row, column) of ROIs around the spots that find_spots has found in frames.

    `response` is needed for a limit. Options: those of find_spots."""
    spots = numpy.ascontiguousarray(spots, dtype=numpy.bool_)
    if spots.ndim != 3:
        raise ValueError(f"spots are {spots.shape}, not (frames, height, width)")
    if response is not None:
        response = numpy.ascontiguousarray(response, dtype=numpy.float32)
        if response.shape != spots.shape:
            raise ValueError(f"the response is {response.shape}, not {spots.shape}")
    corners = numpy.empty((int(spots.sum()), 3), numpy.int32)
    found = _core._spot_corners(spots, response, spots.shape, (rows, columns), first_frame, corners, len(corners), **options)
    return corners[:found]


def _camera(problem):
    camera = problem.get("camera", 0)
    return FitCamera[camera.upper()] if isinstance(camera, str) else camera


def fit(pixels, model="xynb", *, sigma=None, **options):
    """Fits ROIs [n, rows, columns] with a new fitter: fitter(…).run(pixels)."""
    pixels = numpy.asarray(pixels)
    kind = "uint16" if pixels.dtype == numpy.uint16 else "float32"
    return fitter(model, *pixels.shape[1:], sigma=sigma, dtype=kind, **options).run(pixels)
