#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Linear algebra of libcompute, LAPACK (OpenBLAS, MKL, NumPy) and torch, one thread each.

    linalg.py measure PROGRAM FILE [--rounds N] [--first N] [--end N]
    linalg.py table FILE                  prints the rows as tables in Markdown

compute-linalg alternates with LAPACK of OpenBLAS and of MKL within a run. NumPy and torch run between
two such runs on matrices of the same kind. All times are of the processor for the thread. MKL of
PyPI is found if LD_LIBRARY_PATH has its folder. A peer that is missing is left out.
"""

import argparse
import json
import os
import time
from typing import Any, Callable

from fourier import origin, run

PEERS = ("openblas", "mkl", "numpy", "torch")
SECONDS = 1.0  # of a case of NumPy or torch
BLOCK = 1e-3  # seconds of a round
REPEATED = 2  # seconds: shorter cases run before and after them


def best_of(call: Callable[[], object], rounds: int) -> float:
    """The least processor time of a call, in seconds."""
    end = time.perf_counter() + SECONDS
    best, times = float("inf"), 1
    for _ in range(rounds + 1):
        start = time.thread_time()
        for _ in range(times):
            call()
        best = min(best, (time.thread_time() - start) / times)
        times = int(BLOCK / max(best, 1e-7)) + 1
        if time.perf_counter() > end:
            break
    return best


def matrices(case: dict[str, Any]) -> Any:
    """Matrices of the same kind as compute-linalg has."""
    import numpy

    n = case["n"]
    x = numpy.random.default_rng(1).random((case["batch"], n, n)) * 2 - 1
    if case["function"] in ("cholesky", "eigh"):
        x = numpy.triu(x) + numpy.swapaxes(numpy.triu(x, 1), 1, 2)
    if case["function"] == "cholesky":
        x += n * numpy.eye(n)
    return x.astype(numpy.float64 if case["dtype"] == "f64" else numpy.float32)


def calls(case: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The case for the peers of Python that are there."""
    found: dict[str, Callable[[], object]] = {}
    try:
        import numpy
    except ImportError:
        return found
    names = {"inverse": "inv", "determinant": "det"}
    name = names.get(case["function"], case["function"])
    a = matrices(case)
    more = (numpy.ones((case["n"], 1), a.dtype),) if name == "solve" else ()
    found["numpy"] = lambda: getattr(numpy.linalg, name)(a, *more)
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    b, rest = torch.from_numpy(a), tuple(map(torch.from_numpy, more))
    found["torch"] = lambda: getattr(torch.linalg, name)(b, *rest)
    return found


def measure(program: str, path: str, rounds: int, first: int, end: int) -> None:
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # before NumPy and torch are imported
    head = origin(f"linalg.py measure compute-linalg FILE --rounds {rounds}")
    with open(path, "a", encoding="utf-8") as file:
        print(json.dumps(head), file=file)
        for number in range(first, end):
            start = time.perf_counter()
            case = run(program, rounds, number)
            if not case:
                break
            taken = time.perf_counter() - start
            for peer, call in calls(case).items():
                case[f"{peer}_us"] = round(1e6 * best_of(call, rounds), 2)
            again = run(program, rounds, number) if taken < REPEATED else None
            for side in ("us", *(f"{peer}_us" for peer in PEERS)):
                if again and side in case:
                    case[side] = min(case[side], again.get(side, case[side]))
            print(json.dumps(case), file=file, flush=True)


def cells(case: dict[str, Any] | None) -> str:
    """The time of one matrix, and each peer's time divided by libcompute's."""
    if not case:
        return " – |" * (1 + len(PEERS))
    one = case["us"] / case["batch"]
    texts = [f"{one:.3g} µs" if one >= 1 else f"{1e3 * one:.3g} ns"]
    for peer in PEERS:
        ratio = case[f"{peer}_us"] / case["us"] if f"{peer}_us" in case else 0
        text = f"{ratio:.2f}×" if ratio else "–"
        texts.append(f"**{text}**" if 0 < ratio < 0.995 else text)
    return "".join(f" {text} |" for text in texts)


def table(path: str) -> list[str]:
    """Lines of Markdown: a line for each function and size, first f32, then f64."""
    with open(path, encoding="utf-8") as file:
        cases = [case for case in map(json.loads, file) if "us" in case]
    lines = ["| function | n | matrices |" + "".join(
        f" {dtype} | " + " | ".join(PEERS) + " |" for dtype in ("f32", "f64"))]
    lines.append("|---|---|---|" + "---|" * (2 + 2 * len(PEERS)))
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for case in cases:
        key = (case["function"], case["n"], case["batch"])
        found.setdefault(key, {})[case["dtype"]] = case
    for (function, n, batch), both in found.items():
        lines.append(f"| {function} | {n} | {batch} |" + cells(both.get("f32"))
                     + cells(both.get("f64")))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    measuring = actions.add_parser("measure")
    measuring.add_argument("program")
    measuring.add_argument("file")
    measuring.add_argument("--rounds", type=int, default=10)
    measuring.add_argument("--first", type=int, default=0)
    measuring.add_argument("--end", type=int, default=1000)
    actions.add_parser("table").add_argument("file")
    arguments = parser.parse_args()
    if arguments.action == "measure":
        measure(arguments.program, arguments.file, arguments.rounds, arguments.first,
                arguments.end)
    else:
        print("\n".join(table(arguments.file)))


if __name__ == "__main__":
    main()
