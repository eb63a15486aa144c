# SPDX-License-Identifier: MIT
"""The time of a call from Python: the package, NumPy, and ctypes for one element.

    calls.py LIBRARY [OUTPUT COMMIT [NOTE]]

PYTHONPATH has the package, LIBRARY is libcompute.so for ctypes. OPENBLAS_NUM_THREADS and COMPUTE_THREADS must be 1: the
times are the process's processor time, which other programs on the machine do not lengthen. The ways alternate. Each
time is the median of at most ROUNDS rounds in microseconds, and each ratio, ours to NumPy's, the median of the rounds'
ratios. OUTPUT gets JSON lines: the circumstances, then a line for each row and size. The table for
docs/guide/python.md is printed.
"""
import ctypes
import datetime
import json
import math
import os
import platform
import statistics
import sys
import time

import numpy

import libcompute as lc

# Short rounds: on a busy machine few of them are interrupted, which empties the caches.
ROUNDS, SECONDS, LIMIT = 301, 0.001, 4.0
SIZES = (1, 1000, 1000000)


def ctypes_add(path, x):
    """x + x through ctypes, with the same checks as a careful program has."""
    library = ctypes.CDLL(path)
    add, release = library.compute_tensor_add, library.compute_tensor_release
    add.argtypes, add.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)], ctypes.c_int
    release.argtypes, release.restype = [ctypes.c_void_p], None
    capsule = x.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    wrap = library.compute_tensor_from_dlpack
    wrap.argtypes, wrap.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)], ctypes.c_int
    context, tensor = ctypes.c_void_p(), ctypes.c_void_p()
    if library.compute_open(ctypes.byref(context), None) or wrap(context, get(capsule, b"dltensor"), ctypes.byref(tensor)):
        sys.exit("ctypes cannot make a tensor")
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    rename(capsule, ctypes_add.used)

    def call():
        made = ctypes.c_void_p()
        if add(tensor, tensor, ctypes.byref(made)):
            raise RuntimeError("add failed")
        release(made)
    return call


ctypes_add.used = ctypes.c_char_p(b"used_dltensor")


def ways(library, size):
    """{operation: {way: function}}"""
    n = numpy.random.default_rng(0).random(size).astype(numpy.float32)
    x = lc.asarray(n)
    g = lc.Graph()
    node = g.input((size,))
    plan, out = g.compile(lc.exp(node * 2.0 + 1.0)), lc.empty((size,))
    side = math.isqrt(size)
    m = numpy.random.default_rng(1).random((side, side)).astype(numpy.float32)
    y = lc.asarray(m)
    found = {
        "x + x": {"libcompute": lambda: x + x, "NumPy": lambda: n + n},
        "exp(x)": {"libcompute": lambda: lc.exp(x), "NumPy": lambda: numpy.exp(n)},
        "y @ y": {"libcompute": lambda: y @ y, "NumPy": lambda: m @ m},
        "sum(x)": {"libcompute": lambda: lc.sum(x), "NumPy": lambda: numpy.sum(n)},
        "exp(2 x + 1), a plan": {"libcompute": lambda: plan.run({node: x}, out=out),
                                 "NumPy": lambda: numpy.exp(2 * n + 1)},
        "asarray(n)": {"libcompute": lambda: lc.asarray(n), "NumPy": lambda: numpy.asarray(n)}}
    if size == 1:
        found["x + x"]["ctypes"] = ctypes_add(library, x)
    return found


def measure(calls):
    """{way: median in microseconds}, and the ratio to NumPy."""
    counts, times = {}, {way: [] for way in calls}
    for way, call in calls.items():
        call()
        begin = time.process_time()
        for _ in range(3):
            call()
        counts[way] = max(1, int(SECONDS * 3 / (time.process_time() - begin)))
    end = time.process_time() + LIMIT
    for done in range(ROUNDS):
        if done >= 11 and time.process_time() > end:
            break
        for way, call in calls.items():
            begin = time.process_time()
            for _ in range(counts[way]):
                call()
            times[way].append((time.process_time() - begin) / counts[way] * 1e6)
    found = {way: round(statistics.median(values), 3) for way, values in times.items()}
    ratios = [ours / theirs for ours, theirs in zip(times["libcompute"], times["NumPy"])]
    return {**found, "ratio": round(statistics.median(ratios), 3)}


def print_table(rows):
    print("| operation | 1 element | NumPy | ratio | 1,000 | NumPy | ratio | 1,000,000 | NumPy | ratio |")
    print("|---" * 10 + "|")
    for operation, sizes in rows.items():
        cells = (f"{sizes[size][way]:.3g}" for size in SIZES for way in ("libcompute", "NumPy", "ratio"))
        print(f"| `{operation}` | {' | '.join(cells)} |")


def main():
    if len(sys.argv) not in (2, 4, 5):
        sys.exit(__doc__)
    if os.environ.get("COMPUTE_THREADS") != "1" or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        sys.exit("set COMPUTE_THREADS and OPENBLAS_NUM_THREADS to 1")
    rows = {}
    for size in SIZES:
        for operation, calls in ways(sys.argv[1], size).items():
            rows.setdefault(operation, {})[size] = measure(calls)
    print_table(rows)
    print("ctypes, x + x, 1 element:", rows["x + x"][1]["ctypes"])
    if len(sys.argv) > 3:
        about = {"command": "OPENBLAS_NUM_THREADS=1 COMPUTE_THREADS=1 calls.py LIBRARY FILE COMMIT",
                 "commit": sys.argv[3], "note": "".join(sys.argv[4:]),
                 "date": datetime.date.today().isoformat(), "device": lc.device().describe().model,
                 "threads": lc.device().describe().compute_units, "libcompute": lc.__version__,
                 "numpy": numpy.__version__, "python": platform.python_version(), "rounds": ROUNDS}
        lines = [{"operation": operation, "elements": size, "microseconds": times}
                 for operation, sizes in rows.items() for size, times in sizes.items()]
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in [about, *lines])


if __name__ == "__main__":
    main()
