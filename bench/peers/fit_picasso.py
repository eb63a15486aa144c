#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares fits with Picasso's on the CPU, in turn: same model, photons and size of ROI.

usage: fit_picasso.py BIN-FOLDER [--rois N] [--rounds N] [--json FILE]

BIN-FOLDER holds compute-bench and compute-fit. Needs picassosr from PyPI, in a virtual environment,
say: python3 -m venv venv; venv/bin/pip install picassosr; venv/bin/python bench/peers/fit_picasso.py …
Without it the script says so and ends with status 77.

Picasso's side: gaussmle, maximum likelihood with the pixel-integrated model, Cramér–Rao
bound and log-likelihood, and gaussfit, the Levenberg–Marquardt solver that replaces it, whose
model is sampled at pixel centres and which gives no uncertainties. libcompute gives
parameters, uncertainties, ratio, p-value, steps and status. The stack is simulated by compute-fit;
every result is compared with the truth before it is timed. Both sides use all threads; compilation
is not timed.
"""
import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

SIDE, SIGMA = 7, 1.3
MODELS = {"sigma": ("XYNBS", "XYNBS_7"), "sigmaxy": ("XYNBSXSY", "XYNBSXSY_7")}


def load_picasso():
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import numpy
            import picasso
            from picasso import gaussmle
            try:
                from picasso.fitting import gaussfit, seeds
            except ImportError:
                gaussfit = seeds = None # before 0.11
    except ImportError as error:
        print(f"skipped: no Picasso here ({error}); see --help")
        sys.exit(77)
    return numpy, picasso.__version__, gaussmle, gaussfit, seeds


def simulate(numpy, folder, bin_folder, rois, model):
    stack, truth = os.path.join(folder, "s.npy"), os.path.join(folder, "t.npy")
    subprocess.run([os.path.join(bin_folder, "compute-fit"), "simulate", "--rois", str(rois),
                    "--roi", str(SIDE), "--sigma", str(SIGMA), "--photons", "1000",
                    "--background", "10", "--model", model, "--dtype", "f32", "--force", "--quiet",
                    "-o", stack, "--truth", truth], check=True)
    return numpy.load(stack), numpy.load(truth)


def ours(bin_folder, case):
    """libcompute's record of the case, measured by compute-bench."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([os.path.join(bin_folder, "compute-bench"), "--suite", "fit", "--filter",
                        case, "--quick", "--peers", "none", "--device", "cpu", "--json", file.name],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        record = json.load(open(file.name, encoding="utf-8"))["records"][0]
    if not record["ok"]:
        sys.exit(f"fit_picasso.py: {case} is wrong")
    return record["fit"]


def wait(current, count):
    """Waits until all spots are done; gaussmle counts those that it has begun."""
    while current[0] < count:
        time.sleep(0.002)


def run_newton(gaussmle, stack, method):
    """The threads of gaussmle_async end after their last spot: the time ends with the last result."""
    run = getattr(gaussmle, "_gaussmle_async", None) or gaussmle.gaussmle_async
    start = time.perf_counter()
    current, theta, bounds, likelihood, steps = run(stack, 0.001, 100, method)
    wait(current, len(stack))
    while not likelihood[-1] or not (theta[:, 0] != 0).all():
        time.sleep(0.002)
    return time.perf_counter() - start, theta[:, 0], bounds[:, 0] ** 0.5, steps


def run_marquardt(gaussfit, seeds, stack, method):
    spherical = method == "sigma"
    start = time.perf_counter()
    first = seeds.initial_parameters_gauss(stack, SIDE, spherical=spherical)
    model = gaussfit.SPHERICAL if spherical else gaussfit.ELLIPTIC
    handle = gaussfit.fit_spots_async(model, stack, first, mle=True)
    while not handle.finished():
        time.sleep(0.002)
    theta, _, _, steps = handle.results()
    return time.perf_counter() - start, theta[:, 1], None, steps


def judge(numpy, x, truth, bound):
    """Spread of x around the truth, in pixels and in units of the bound, without outliers."""
    off = x - truth
    off = off - numpy.median(off) # programs count from different centres or edges of pixels
    good = numpy.abs(off) < 1
    return float(good.mean()), float(off[good].std()), \
        float(off[good].std() / bound[good].mean()) if bound is not None else None


def compare(tools, arguments, folder, method):
    numpy, _, gaussmle, gaussfit, seeds = tools
    model, case = MODELS[method]
    stack, truth = simulate(numpy, folder, arguments.bin, arguments.rois, model)
    solvers = {"gaussmle": lambda s: run_newton(gaussmle, s, method)}
    if gaussfit:
        solvers["gaussfit"] = lambda s: run_marquardt(gaussfit, seeds, s, method)
    for run in solvers.values():
        run(stack[:500]) # compiles
    rates, mine, found = {name: [] for name in solvers}, [], {}
    for _ in range(arguments.rounds):
        mine.append(ours(arguments.bin, case))
        for name, run in solvers.items():
            seconds, x, bound, steps = run(stack)
            rates[name].append(len(stack) / seconds)
            found[name] = judge(numpy, x, truth[:, 0], bound) + (float(steps.mean()),)
    rate = statistics.median(f["rois_per_second"] for f in mine)
    results = [{"program": "libcompute", "model": model, "rois_per_second": rate,
                "iterations": mine[0]["iterations"], "std_over_bound": mine[0]["std_over_bound"]}]
    print(f"{model}, {SIDE} x {SIDE}, {arguments.rois} ROIs, {os.cpu_count()} threads")
    print(f"  libcompute        {rate * 1e-6:8.4f} M/s, {mine[0]['iterations']:.2f} steps, "
          f"std/CRLB {mine[0]['std_over_bound']:.3f}")
    for name in solvers:
        peer, (good, spread, ratio, steps) = statistics.median(rates[name]), found[name]
        results.append({"program": name, "model": model, "rois_per_second": peer,
                        "iterations": steps, "std_x": spread, "std_over_bound": ratio,
                        "within_a_pixel": good, "speedup": rate / peer})
        beside = f"std/CRLB {ratio:.3f}" if ratio else f"std of x {spread:.4f} pixels"
        print(f"  Picasso {name:9s} {peer * 1e-6:8.4f} M/s, {steps:.2f} steps, {beside}; "
              f"libcompute is {rate / peer:.0f} times as fast")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--rois", type=int, default=50000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    tools = load_picasso()
    print(f"Picasso {tools[1]}")
    with tempfile.TemporaryDirectory() as folder:
        results = [r for method in MODELS for r in compare(tools, arguments, folder, method)]
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"picasso": tools[1], "results": results}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
