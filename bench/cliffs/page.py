# SPDX-License-Identifier: MIT
"""The page and the picture of a summary, for report.py. causes.json has the known causes: for each its name, the kinds
and a pattern of the descriptions that it explains, its figure if that is not "slowdown", and its text."""
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from drawing import GRID, INK, LIMIT, SERIES, SOFT, Drawing

LIMITS = {"prediction": 4.0, "threads": 2.0, "isa": 1.1}
STEPS = (1.3, 1.5, 2)
TITLES = {
    "prediction": "Predicted times off by more than 4",
    "threads": "Processor time of two threads more than twice one's",
    "isa": "Slower than a narrower instruction set",
}
LISTED, KINDS = 8, 60  # rows of the tables of a figure, and of the kinds
WORDS = 110


def causes():
    with open(os.path.join(HERE, "causes.json"), encoding="utf-8") as file:
        return json.load(file)


def cause(known, kind, words, figure="slowdown"):
    for entry in known:
        kinds = entry["kinds"]
        if entry.get("figure", "slowdown") == figure and (kind in kinds or kinds == ["*"]):
            if re.search(entry.get("words", ""), words):
                return f"[{entry['name']}](#causes)"
    return "–"


def cell(text):
    text = text if len(text) <= WORDS else text[:WORDS] + "…"
    return f"`{text}`".replace("|", "\\|")


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return [*lines, *("| " + " | ".join(str(value) for value in row) + " |" for row in rows), ""]


def spread_row(name, values):
    parts = [values[key] if values[key] is not None else "–" for key in ("median", "90", "99", "worst")]
    return [name, values["cases"], *parts, *(values[f"above {step}"] for step in STEPS)]


def kinds_table(data, known):
    rows = []
    above = [row for row in data["kinds"] if row["above 1.5"]]
    for row in above[:KINDS]:
        case = row.get("reduced", row["worst case"])
        example = f"{case['slowdown']:.2g}: {cell(case['words'])} {case['us']['libcompute']:.3g} µs"
        counts = [row["cases"], row["above 1.5"], row["above 2"], row["worst"]]
        rows.append([f"`{row['kind']}`", *counts, example, cause(known, row["kind"], row["worst case"]["words"])])
    lines = table(["kind", "cases", "> 1.5", "> 2", "worst", "an example", "cause"], rows)
    rest = ", ".join(f"`{row['kind']}` {row['worst']}" for row in above[KINDS:])
    return [*lines, f"Fewer or smaller: {rest}.", ""] if rest else lines


def figure_table(data, figure, known):
    found = data["figures"][figure]
    heads = ["kind", "cases", "worst", "case", "µs"] + (["predicted"] if figure == "prediction" else []) + ["cause"]
    rows = []
    for row in found["kinds"][:LISTED]:
        more = [f"{row.get('predicted_us', 0):.3g}"] if figure == "prediction" else []
        times = [cell(row["words"]), f"{row['us']['libcompute']:.3g}"]
        start = [f"`{row['kind']}`", row["count"], f"{row[figure]:.3g}", *times]
        rows.append([*start, *more, cause(known, row["kind"], row["words"], figure)])
    count = f"{found['above']} of {found['cases']} cases of 20 µs or more"
    if not rows:
        return [f"## {TITLES[figure]}", "", f"{count}.", ""]
    return [f"## {TITLES[figure]}", "", f"{count}; the worst kinds:", "", *table(heads, rows)]


def head(data, source):
    run = data["runs"][-1]
    versions = {**run.get("versions", {}), "libcompute": run["commit"]}
    versions = ", ".join(f"{name} {version}" for name, version in versions.items())
    seeds = ", ".join(sorted({str(r["seed"]) for r in data["runs"]}))
    verdicts = ", ".join(f"{count} {name}" for name, count in sorted(data["verdicts"].items()))
    return [
        "# Cases drawn at random", "",
        "Made by `bench/cliffs/report.py` from the file named below: change that or `causes.json`, not this",
        "page. [Performance](index.md) has the measurements of chosen cases, and",
        "[bench/cliffs](../../bench/cliffs/README.md) explains how cases are drawn and measured.", "",
        f"**Machine:** {run['machine']}, {run['isa']}, {run['threads']} threads; {run['date']}; {versions};",
        f"seeds {seeds}; [{source}](../../bench/cliffs/results/{source}).", "",
        "A ratio is the time of libcompute divided by the time of the better peer. Above 1, libcompute is",
        "slower. Times are minima of alternating rounds. A case is short if libcompute and the better peer",
        "need less than 20 µs. The calls from Python count there.", "",
        f"{data['drawn']} cases were drawn. Results: {verdicts}. `alone` means that no peer ran the case.",
        "A cause – was not examined.", "",
    ]


def page(data, source):
    known = causes()
    families = [("single operations", data["families"]["operation"]), ("graphs", data["families"]["graph"]),
                ("short cases", data["short"]), ("memory at the peak", data["memory"])]
    lines = head(data, source) + table(
        ["cases", "number", "median", "90 %", "99 %", "worst", "> 1.3", "> 1.5", "> 2"],
        [spread_row(*family) for family in families])
    lines += ["## Kinds with cases above 1.5", "", *kinds_table(data, known)]
    lines += ["## Causes", "", *(f"* **{entry['name']}**: {entry['cause']}" for entry in known), ""]
    for figure in LIMITS:
        lines += figure_table(data, figure, known)
    lines += ["## Predictions", "", "Predicted time divided by measured time, cases of 20 µs or more:", "",
              "![Predicted time divided by measured time](../images/predicted.svg)"]
    return "\n".join(lines).rstrip() + "\n"


def picture(histogram):
    """Bars: the cases in each power of two of predicted time divided by measured time."""
    bins = {float(low): count for low, count in histogram.items()}
    lows = [2.0**power for power in range(-7, 7)]
    most, width, height, base = max(bins.values(), default=1), 720, 260, 210
    step, drawing = (width - 60) / len(lows), Drawing(width, height)
    drawing.text(20, 18, "Predicted time divided by measured time", INK, 13, bold=True)
    for place, low in enumerate(lows):
        x, count = 30 + place * step, bins.get(low, 0)
        tall = 150 * count / most
        within = 0.25 <= low < 4
        drawing.box(x + 3, base - tall, step - 6, tall, SERIES[0] if within else LIMIT)
        drawing.text(x + step / 2, base - tall - 9, str(count), INK, 11, "middle")
        drawing.text(x, base + 14, f"{low:g}" if low >= 1 else f"1/{1 / low:g}", SOFT, 10, "middle")
    drawing.line([(30, base), (width - 30, base)], GRID, 1)
    drawing.text(width / 2, base + 36, "cases of 20 µs or more; red: off by more than 4", SOFT, 11, "middle")
    return drawing.svg("Predicted time divided by measured time", True) + "\n"
