#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the suite "group" with 1, 2, 3 and 4 ranks, over the launcher's transport and over simulated
links, and writes all records to one file; or prints such a file's tables as Markdown.

    bench/group.py --build build --json FILE
    bench/group.py --table FILE
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

Run = dict[str, Any]
LINKS = ["", "1,20", "0.25,50"]  # GB/s, microseconds; "": none is simulated
RANKS = [1, 2, 3, 4]
NETWORKS = ["digits", "cnn", "transformer"]


def measure(args: argparse.Namespace, launcher: str, ranks: int, link: str, cases: str) -> Run:
    """One run of compute-bench; ranks and threads may be more than there are processors."""
    variables = {
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        # Since Open MPI 5:
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }
    if link:
        variables |= {"COMPUTE_TRANSPORT": "link", "BENCH_LINK": link}
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*args.prefix.split(), launcher, "-n", str(ranks)]
        command += [os.path.join(args.build, "bin/compute-bench"), "--suite", "group"]
        command += ["--threads", "1", "--filter", cases, "--json", file.name]
        command += ["--commit", args.commit]
        print(" ".join(command), link, flush=True)
        subprocess.run(
            command, env=os.environ | variables, check=True, stdout=subprocess.DEVNULL
        )
        result: Run = json.load(open(file.name, encoding="utf-8"))
    return {"launcher": launcher, "ranks": ranks, "link": link, "cases": cases} | result


def measure_all(args: argparse.Namespace) -> list[Run]:
    runs = []
    for link in LINKS:
        for ranks in RANKS if not link else RANKS[1:]:
            runs.append(measure(args, "mpirun.openmpi", ranks, link, "step_*"))
        runs.append(measure(args, "mpirun.openmpi", 2, link, "model_*"))
    for launcher in ["mpirun.openmpi", "mpirun.mpich"]:
        for ranks in RANKS[1:]:
            runs.append(measure(args, launcher, ranks, "", "*_[0-9]*[BKM]"))
    return runs


def find(runs: list[Run], case: str, link: str, ranks: int) -> Run | None:
    """The record of a case: measured with, or modelled for so many ranks."""
    for run in runs:
        for record in run["records"]:
            if (record["case"], run["link"], record["group"]["ranks"]) == (case, link, ranks):
                return dict(record)
    return None


def link_name(link: str) -> str:
    rate, _, delay = link.partition(",")
    return f"{rate} GB/s, {delay} µs" if link else "shared memory"


def number(ms: float) -> str:
    return f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"


def step_cell(record: Run | None) -> str:
    """Overlapped / not overlapped, and the share that communication takes of the first."""
    if not record:
        return "–"
    if record["group"]["ranks"] == 1:
        return number(record["ms"])
    group = record["group"]
    times = f"{number(record['ms'])} / {number(group['not_overlapped_ms'])}"
    return f"{times} ({100 * group['communication']:.0f} %)"


def table_lines(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows]]


def step_table(runs: list[Run], prefix: str, ranks: list[int], links: list[str]) -> list[str]:
    rows = []
    for network in NETWORKS:
        for kind in ["weak", "strong"]:
            case = f"{prefix}_{network}_{kind}"
            for link in links:
                cells = [step_cell(find(runs, case, link, n)) for n in ranks]
                rows.append([f"{network}, {kind}", link_name(link), *cells])
    return table_lines(["step", "link", *map(str, ranks)], rows)


def call_table(runs: list[Run]) -> list[str]:
    """Latency in microseconds of 4 bytes, GB/s of 16 MiB."""
    rows = []
    for call in ["all_reduce", "all_reduce_f64", "reduce_scatter", "all_gather", "broadcast", "send"]:
        row = [call.replace("_", " ")]
        for launcher in ["mpirun.openmpi", "mpirun.mpich"]:
            own = [run for run in runs if run["launcher"] == launcher]
            for ranks in RANKS[1:]:
                small, large = (find(own, f"{call}_{size}", "", ranks) for size in ["4B", "16M"])
                known = small and large
                row.append(f"{1e3 * small['ms']:.0f}; {large['gbytes_s']:.2g}" if known else "–")
        rows.append(row)
    names = [f"{name}, {n}" for name in ["Open MPI", "MPICH"] for n in RANKS[1:]]
    return table_lines(["call", *names], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--json", metavar="FILE", help="measures, and writes the records there")
    parser.add_argument("--prefix", default="", help="words before each launcher")
    parser.add_argument("--commit", default="", help="a name for what is measured")
    parser.add_argument("--table", metavar="FILE", help="prints the tables of an earlier file")
    args = parser.parse_args()
    if args.json:
        runs = measure_all(args)
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"runs": runs}, file, indent=1)
            file.write("\n")
    if args.table:
        runs = json.load(open(args.table, encoding="utf-8"))["runs"]
        modelled = step_table(runs, "model", [1, 2, 3, 4, 16, 64, 256, 1024], LINKS[1:])
        for lines in (call_table(runs), step_table(runs, "step", RANKS, LINKS), modelled):
            print("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
