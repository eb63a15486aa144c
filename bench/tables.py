# SPDX-License-Identifier: MIT
"""compute-bench's records as tables: as HTML for the report, as Markdown for documents."""

import html
from typing import Any, Collection

import goals
from pictures import ALL, ONE, fit_cases, fit_name
from records import (
    PRODUCTS, Bench, Case, Record, number, peer_name, rate_text, time_text,
)  # fmt: skip

Cells = list[str]


def used_columns(head: Cells, rows: list[Cells]) -> tuple[Cells, list[Cells]]:
    """Drops columns that are empty in all rows."""
    used = [i for i in range(len(head)) if any(row[i] for row in rows)]
    return [head[i] for i in used], [[row[i] for i in used] for row in rows]


WORDS = ("result", "speed-up over", "goal", "memory")  # columns whose cells may take several lines


def as_html(head: Cells, rows: list[Cells], label: str) -> str:
    """Cells are text; the table scrolls sideways on narrow screens, also by keyboard."""
    head, rows = used_columns(head, rows)
    kind = [' class="words"' if name in WORDS else "" for name in head]
    lines = [
        "".join(f"<td{how}>{html.escape(cell)}</td>" for how, cell in zip(kind, row))
        for row in rows
    ]
    names = "".join(
        f'<th scope="col"{how}>{html.escape(name)}</th>' for how, name in zip(kind, head)
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{html.escape(label)}"><table>'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def as_markdown(head: Cells, rows: list[Cells]) -> str:
    head, rows = used_columns(head, rows)
    lines = [head, ["---"] * len(head), *([cell or "–" for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def peer_words(case: Case) -> str:
    return ", ".join(f"{peer_name(peer)} {ratio:.2f}" for peer, ratio in case.peers.items())


def goal_words(bench: Bench, case: Case) -> str:
    """The case's goals, with the measured value of missed ones."""
    found = [
        words + (": yes" if seen[0] >= least else f": {seen[1]}")
        for least, words, seen in goals.of_case(bench, case)
        if seen
    ]
    found += [
        words + (": yes" if met else f": {seen}") for words, seen, met in goals.recorded(case)
    ]
    return "; ".join(found)


def failure_text(record: Record) -> str:
    """Why a record is wrong; unknown in files of earlier versions."""
    return (record.get("failure") or {}).get("text") or "wrong"


def state_words(case: Case) -> str:
    return next((f"failed: {failure_text(r)}" for r in case.records if not r["ok"]), "")


SUITE = ["case", "result", "device", "dtype", "median", "speed-up over", "p10 … p90", "GFLOP/s",
         "GB/s", "of the limit", "samples/s", "memory", "error", "goal"] # fmt: skip


def memory_words(training: dict[str, float]) -> str:
    if not training.get("planned_bytes"):
        return ""
    megabytes = {key: value * 1e-6 for key, value in training.items() if key.endswith("bytes")}
    more = f"{megabytes['growth_bytes']:.1f} MB more after {training['steps']:.0f} steps"
    measured = "{measured_bytes:.2f} MB of {planned_bytes:.2f} MB planned".format(**megabytes)
    return f"{measured}, {more}"


def suite_row(bench: Bench, case: Case, with_goals: bool) -> Cells:
    first, training = case.first, case.first.get("training") or {}
    around = f"{time_text(first['ms_p10'])} … {time_text(first['ms_p90'])}"
    speeds = [number(first["gflops"], "{:.1f}"), number(first["gbytes_s"], "{:.1f}")]
    # Data in the caches has no limit: the streaming speed is measured in memory.
    limited = case.suite in PRODUCTS or case.megabytes() > bench.cache_megabytes()
    speeds.append(number(bench.part_of_limit(case) if limited else None, "{:.0%}"))
    speeds.append(number(training.get("samples_per_second"), "{:.0f}"))
    result = [memory_words(training), number(first["max_rel_err"], "{:.1e}")]
    result.append(goal_words(bench, case) if with_goals else "")
    around = around if first["ms_p10"] is not None else ""
    times = [time_text(first["ms"]), peer_words(case), around]
    return [case.name, state_words(case), case.device, first["dtype"], *times, *speeds, *result]


def suite_rows(bench: Bench, suites: Collection[str], with_goals: bool) -> list[Cells]:
    rows = [suite_row(bench, c, with_goals) for c in bench.cases if c.suite in suites]
    several = len({row[2] for row in rows}) > 1
    return [[*row[:2], row[2] if several else "", *row[3:]] for row in rows]


FITS = ["case", "parameters", "all threads", "one thread", "goal", "steps", "converged",
        "std / bound", "p-values"]  # fmt: skip
ACCURACY = {"iterations": "{:.2f}", "converged": "{:.2%}", "std_over_bound": "{:.3f}",
            "p_mean": "{:.3f}"}  # fmt: skip


def fit_rows(bench: Bench, with_goals: bool) -> list[Cells]:
    rows = []
    for case in fit_cases(bench):
        fit: dict[str, Any] = case.first["fit"]
        rates = [rate_text(fit[ALL]), rate_text(fit.get(ONE))]
        goal = goal_words(bench, case) if with_goals else ""
        accuracy = [number(fit.get(key), form) for key, form in ACCURACY.items()]
        rows.append([fit_name(case), str(fit["parameters"]), *rates, goal, *accuracy])
    return rows
