#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random numbers of libcompute and NumPy, one thread each.

    random_numbers.py measure FILE [--rounds N] [--machine NAME] [--note TEXT]
                                      both by turns in one process
    random_numbers.py table FILE      prints a table in Markdown

Needs the Python package of libcompute (PYTHONPATH=build/python) and NumPy. Times are processor
times of the process, so that other jobs matter less. The least time of a round counts.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import time
from typing import Any, Callable

COUNT = 1_000_000
WIDE = 3 << 51

# Name, libcompute's node from a seed node, NumPy's call of a Generator.
CASES: list[tuple[str, Callable[[Any, Any], Any], Callable[[Any], Any]]] = [
    ("uniform", lambda lc, s: lc.random_uniform((COUNT,), s, 0, dtype=lc.float64),
     lambda rng: rng.random(COUNT)),
    ("normal", lambda lc, s: lc.random_normal((COUNT,), s, 0, dtype=lc.float64),
     lambda rng: rng.standard_normal(COUNT)),
    ("exponential", lambda lc, s: lc.random_exponential((COUNT,), s, 0, dtype=lc.float64),
     lambda rng: rng.standard_exponential(COUNT)),
    ("gamma(0.5)", lambda lc, s: lc.random_gamma(0.5, (COUNT,), s, 0, dtype=lc.float64),
     lambda rng: rng.standard_gamma(0.5, COUNT)),
    ("gamma(2.5)", lambda lc, s: lc.random_gamma(2.5, (COUNT,), s, 0, dtype=lc.float64),
     lambda rng: rng.standard_gamma(2.5, COUNT)),
    ("beta(2, 3)", lambda lc, s: lc.random_beta(2.0, 3.0, (COUNT,), s, 0, dtype=lc.float64),
     lambda rng: rng.beta(2.0, 3.0, COUNT)),
    ("Poisson(3)", lambda lc, s: lc.random_poisson(3.0, (COUNT,), s, 0, dtype=lc.int64),
     lambda rng: rng.poisson(3.0, COUNT)),
    ("Poisson(100)", lambda lc, s: lc.random_poisson(100.0, (COUNT,), s, 0, dtype=lc.int64),
     lambda rng: rng.poisson(100.0, COUNT)),
    ("binomial(1000, 0.3)",
     lambda lc, s: lc.random_binomial(1000.0, 0.3, (COUNT,), s, 0, dtype=lc.int64),
     lambda rng: rng.binomial(1000, 0.3, COUNT)),
    ("integers below 1000", lambda lc, s: lc.random_integers(0, 1000, (COUNT,), s, 0),
     lambda rng: rng.integers(0, 1000, COUNT)),
    ("integers below 10^6", lambda lc, s: lc.random_integers(0, 10**6, (COUNT,), s, 0),
     lambda rng: rng.integers(0, 10**6, COUNT)),
    ("integers below 3 · 2^51", lambda lc, s: lc.random_integers(0, WIDE, (COUNT,), s, 0),
     lambda rng: rng.integers(0, WIDE, COUNT)),
    ("permutation", lambda lc, s: lc.random_permutation(COUNT, s, 0),
     lambda rng: rng.permutation(COUNT)),
    ("choice of 10", lambda lc, s: lc.random_choice(COUNT, 10, s, 0),
     lambda rng: rng.choice(COUNT, 10, replace=False)),
]


def spent(call: Callable[[], object]) -> float:
    """The processor time of a call, in seconds."""
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(path: str, rounds: int, machine: str, note: str) -> None:
    os.environ["COMPUTE_THREADS"] = "1"
    os.environ["COMPUTE_DEVICE"] = "cpu"
    import numpy
    import libcompute as lc

    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    head = {
        "machine": machine,
        "commit": commit,
        "date": datetime.date.today().isoformat(),
        "command": f"random_numbers.py measure FILE --rounds {rounds}",
        "threads": 1,
        "count": COUNT,
        "peer": f"NumPy {numpy.__version__}",
        "clock": "processor time",
    }
    if note:
        head["note"] = note
    with open(path, "w", encoding="utf-8") as file:
        print(json.dumps(head), file=file)
        for name, build, peer in CASES:
            graph = lc.Graph()
            seed = graph.input((), lc.int64)
            plan = graph.compile(build(lc, seed))
            number = lc.asarray(7, dtype=lc.int64)
            rng = numpy.random.default_rng(7)
            ours = theirs = float("inf")
            for _ in range(rounds):
                ours = min(ours, spent(lambda: plan.run({seed: number})))
                theirs = min(theirs, spent(lambda: peer(rng)))
            case = {"case": name, "ns": round(ours / COUNT * 1e9, 2),
                    "numpy_ns": round(theirs / COUNT * 1e9, 2), "ratio": round(ours / theirs, 3)}
            print(json.dumps(case, ensure_ascii=False), file=file, flush=True)


def table(path: str) -> list[str]:
    """Lines of Markdown: nanoseconds for a number, and NumPy's time divided by libcompute's."""
    with open(path, encoding="utf-8") as file:
        cases = [case for case in map(json.loads, file) if "case" in case]
    lines = ["| numbers | ns | NumPy, ns | ratio |", "|---|---|---|---|"]
    for case in cases:
        ratio = 1 / case["ratio"]
        text = f"{ratio:.2f}×"
        lines.append(f"| {case['case']} | {case['ns']} | {case['numpy_ns']} | "
                     + (f"**{text}** |" if ratio < 0.995 else f"{text} |"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    measuring = actions.add_parser("measure")
    measuring.add_argument("file")
    measuring.add_argument("--rounds", type=int, default=15)
    measuring.add_argument("--machine", default=platform.machine())
    measuring.add_argument("--note", default="")
    actions.add_parser("table").add_argument("file")
    arguments = parser.parse_args()
    if arguments.action == "measure":
        measure(arguments.file, arguments.rounds, arguments.machine, arguments.note)
    else:
        print("\n".join(table(arguments.file)))


if __name__ == "__main__":
    main()
