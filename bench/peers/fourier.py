#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fourier transforms of libcompute, FFTW, MKL and pocketfft (SciPy), one thread each.

    fourier.py measure PROGRAM FILE [--rounds N]   runs compute-fourier and SciPy by turns
    fourier.py table FILE                          prints the rows as a table in Markdown

compute-fourier alternates with FFTW and MKL within a run. SciPy runs between two such runs, and its
time includes a call from Python of about a microsecond. MKL of PyPI is found if LD_LIBRARY_PATH has
its folder. A peer that is missing is left out.
"""

import argparse
import datetime
import json
import platform
import subprocess
import time
from typing import Any, Callable

PEERS = ("fftw", "pocketfft", "mkl")
BLOCK = 1e-3  # seconds of a round
SECONDS = 3  # of a case
REPEATED = 8  # seconds: shorter cases run before and after SciPy


def best_of(call: Callable[[], object], rounds: int) -> float:
    """The least mean time of a call, in seconds."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    times = int(BLOCK / max(once, 1e-7)) + 1
    end = start + SECONDS
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            call()
        once = min(once, (time.perf_counter() - start) / times)
        if time.perf_counter() > end:
            break
    return once


def scipy_call(case: dict[str, Any]) -> Callable[[], object] | None:
    """The case for SciPy, or None without SciPy."""
    try:
        import numpy
        import scipy.fft
    except ImportError:
        return None
    shape = (case.get("height", case["lines"]), case["length"])
    random = numpy.random.default_rng(1)
    real = random.random(shape) - 0.5
    wide = case["dtype"] == "f64"
    if case["form"] == "rfft":
        x = real.astype(numpy.float64 if wide else numpy.float32)
        if "height" in case:
            return lambda: scipy.fft.rfft2(x, workers=1)
        return lambda: scipy.fft.rfft(x, workers=1)
    z = (real + 1j * random.random(shape)).astype(numpy.complex128 if wide else numpy.complex64)
    return lambda: scipy.fft.fft(z, workers=1)


def run(program: str, rounds: int, number: int) -> dict[str, Any] | None:
    """One case of compute-fourier, or None after the last."""
    done = subprocess.run([program, str(rounds), str(number)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout) if done.stdout.strip() else None


def origin(command: str) -> dict[str, Any]:
    """The first line of a results file."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    return {
        "machine": platform.machine(),
        "commit": commit,
        "date": datetime.date.today().isoformat(),
        "command": command,
        "threads": 1,
    }


def measure(program: str, path: str, rounds: int) -> None:
    head = origin(f"fourier.py measure compute-fourier FILE --rounds {rounds}")
    with open(path, "w", encoding="utf-8") as file:
        print(json.dumps(head), file=file)
        number = 0
        start = time.perf_counter()
        case = run(program, rounds, number)
        while case:
            taken = time.perf_counter() - start
            call = scipy_call(case)
            if call:
                case["pocketfft_us"] = round(1e6 * best_of(call, rounds), 3)
            # FFTW plans long transforms for a time that is not worth a repetition.
            again = run(program, rounds, number) if taken < REPEATED else None
            for side in ("us", *(f"{peer}_us" for peer in PEERS)):
                if side in case and again:
                    case[side] = min(case[side], again.get(side, case[side]))
            for peer in PEERS:
                if f"{peer}_us" in case:
                    case[f"{peer}_ratio"] = round(case["us"] / case[f"{peer}_us"], 3)
            print(json.dumps(case), file=file, flush=True)
            number += 1
            start = time.perf_counter()
            case = run(program, rounds, number)


def table(path: str) -> list[str]:
    """Lines of Markdown: a peer's time divided by libcompute's for each case."""
    with open(path, encoding="utf-8") as file:
        cases = [case for case in map(json.loads, file) if "us" in case]
    lines = ["| transform | dtype | µs | " + " | ".join(PEERS) + " |"]
    lines.append("|---|---|---|" + "---|" * len(PEERS))
    for case in cases:
        size = f"{case['height']} × {case['length']}" if "height" in case else str(case["length"])
        if case["lines"] > 1:
            size = f"{case['lines']} lines of {size}"
        ratios = []
        for peer in PEERS:
            ratio = case[f"{peer}_us"] / case["us"] if f"{peer}_us" in case else 0
            text = f"{ratio:.2f}×" if ratio else "–"
            ratios.append(f"**{text}**" if 0 < ratio < 0.995 else text)
        lines.append(f"| {case['form']} {size} | {case['dtype']} | {case['us']:.4g} | "
                     + " | ".join(ratios) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    measuring = actions.add_parser("measure")
    measuring.add_argument("program")
    measuring.add_argument("file")
    measuring.add_argument("--rounds", type=int, default=40)
    actions.add_parser("table").add_argument("file")
    arguments = parser.parse_args()
    if arguments.action == "measure":
        measure(arguments.program, arguments.file, arguments.rounds)
    else:
        print("\n".join(table(arguments.file)))


if __name__ == "__main__":
    main()
