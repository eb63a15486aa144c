# SPDX-License-Identifier: MIT
"""A summary of files of cliffs.py, in JSON and as a page.

    report.py FILE.jsonl... [--json SUMMARY.json] [--page PAGE.md]
    report.py SUMMARY.json [--page PAGE.md]

A ratio is libcompute's time divided by the time of the better peer: above 1, libcompute is slower. causes.json has the
causes that are known, by kind.
"""

import argparse
import json
import math
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
LIMITS = {"prediction": 4.0, "threads": 2.0, "isa": 1.1}
STEPS = (1.3, 1.5, 2)
TITLES = {
    "prediction": "Predicted times off by more than 4",
    "threads": "Processor time of two threads more than twice one's",
    "isa": "Slower than a narrower instruction set",
}
LISTED = 12  # rows of a table of single cases
MEMORY = 4 << 20  # bytes below which an engine's memory is that of its code
WORDS = 160


def read(paths):
    """(settings of the runs, records)"""
    runs, records = [], []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                values = json.loads(line)
                if "machine" in values:
                    runs.append(values)
                elif "versions" in values:
                    runs[-1]["versions"] = values["versions"]
                else:
                    records.append(values)
    return runs, records


def quantile(values, part):
    return round(values[min(len(values) - 1, int(part * len(values)))], 2) if values else None


def spread(ratios):
    ratios = sorted(ratios)
    return {
        "cases": len(ratios),
        "median": quantile(ratios, 0.5),
        "90": quantile(ratios, 0.9),
        "99": quantile(ratios, 0.99),
        "worst": quantile(ratios, 1),
        **{f"above {step}": sum(r > step for r in ratios) for step in STEPS},
    }


def short(record, figure):
    """What a list needs of a case."""
    keys = ("case", "kind", "words", "choices", "us", "predicted_us", "cpu_us", "host", "text")
    return {figure: record[figure], **{key: record[key] for key in keys if record.get(key) not in (None, False)}}


def by_kind(records, reduced):
    kinds = {}
    for record in records:
        kinds.setdefault((record["family"], record["kind"]), []).append(record)
    rows = []
    for (family, kind), found in kinds.items():
        worst = max(found, key=lambda r: r["slowdown"])
        row = {
            "kind": kind,
            "family": family,
            **spread([r["slowdown"] for r in found]),
            "worst case": short(worst, "slowdown"),
        }
        smaller = [r for r in reduced if r["kind"] == kind and r["reduced"] == "slowdown" and "slowdown" in r]
        if smaller:
            row["reduced"] = short(max(smaller, key=lambda r: r["slowdown"]), "slowdown")
        rows.append(row)
    return sorted(rows, key=lambda row: (-row["above 1.5"], -row["worst"]))


def figure_of(records, figure):
    """How many cases are above a limit, and the worst of each kind."""
    found = [r for r in records if figure in r and r["us"]["libcompute"] >= 20]
    above = [r for r in found if r[figure] > LIMITS[figure]]
    kinds = {}
    for record in sorted(above, key=lambda r: -r[figure]):
        kinds.setdefault(record["kind"], []).append(record)
    rows = [{"kind": kind, "count": len(rows), **short(rows[0], figure)} for kind, rows in kinds.items()]
    return {"cases": len(found), "above": len(above), "limit": LIMITS[figure], "kinds": rows}


def memory(records):
    """Bytes, of the first case of each process, relative to the peer that needs least."""
    rows = []
    for record in records:
        values = record.get("memory", {})
        best = min((values[peer] for peer in ("onnxruntime", "openvino") if peer in values), default=None)
        if best and max(best, values.get("libcompute", 0)) > MEMORY:
            rows.append((values["libcompute"] / best, record))
    rows.sort(key=lambda row: -row[0])
    worst = [
        {"ratio": round(ratio, 2), "case": r["case"], "words": r["words"], "memory": r["memory"]}
        for ratio, r in rows[:5]
    ]
    return {**spread([ratio for ratio, _ in rows]), "list": worst}


def histogram(records):
    """Cases by predicted time divided by measured time: the lower bound of each bin."""
    bins = {}
    for record in records:
        if record.get("predicted_us") and record["us"].get("libcompute", 0) >= 20:
            ratio = record["predicted_us"] / record["us"]["libcompute"]
            bound = max(-7, min(6, math.floor(math.log2(ratio))))
            bins[bound] = bins.get(bound, 0) + 1
    return {f"{2.0 ** bound:g}": bins[bound] for bound in sorted(bins)}


def summary(runs, records):
    reduced = [r for r in records if "reduced" in r]
    drawn = [r for r in records if "reduced" not in r]
    compared = [r for r in drawn if r["verdict"] == "right" and "slowdown" in r]
    long = [r for r in compared if not r["short"]]
    verdicts = {}
    for record in drawn:
        verdicts[record["verdict"]] = verdicts.get(record["verdict"], 0) + 1
    return {
        "runs": runs,
        "drawn": len(drawn),
        "verdicts": verdicts,
        "other": [
            {
                "case": r["case"],
                "verdict": r["verdict"],
                "words": r["words"],
                "reason": r["left_out"].get("libcompute", ""),
            }
            for r in drawn
            if r["verdict"] in ("wrong", "undecided", "refused")
        ],
        "families": {
            family: spread([r["slowdown"] for r in long if r["family"] == family]) for family in ("operation", "graph")
        },
        "short": spread([r["slowdown"] for r in compared if r["short"]]),
        "kinds": by_kind(long, reduced),
        "memory": memory(drawn),
        "histogram": histogram(drawn),
        "figures": {
            figure: figure_of([r for r in drawn if r["verdict"] in ("right", "alone")], figure) for figure in LIMITS
        },
        "reduced": [short(r, r["reduced"]) for r in reduced if r["reduced"] in r],
    }


# ---- The page ---------------------------------------------------------------------------------


def causes():
    with open(os.path.join(HERE, "causes.json"), encoding="utf-8") as file:
        return json.load(file)


def cause(known, kind, words, figure="slowdown"):
    for entry in known:
        if (
            entry.get("figure", "slowdown") == figure
            and kind in entry["kinds"]
            and re.search(entry.get("words", ""), words)
        ):
            return entry["cause"]
    return "–"


def cell(text):
    text = text if len(text) <= WORDS else text[:WORDS] + "…"
    return text.replace("|", "\\|")


def table(heads, rows):
    return [
        "| " + " | ".join(heads) + " |",
        "|" + " --- |" * len(heads),
        *("| " + " | ".join(str(value) for value in row) + " |" for row in rows),
        "",
    ]


def spread_row(name, values):
    return [
        name,
        values["cases"],
        *(values[key] if values[key] is not None else "–" for key in ("median", "90", "99", "worst")),
        *(values[f"above {step}"] for step in STEPS),
    ]


def kinds_table(data, known):
    rows = []
    for row in data["kinds"]:
        if not row["above 1.5"]:
            continue
        example = row.get("reduced", row["worst case"])
        rows.append(
            [
                f"`{row['kind']}`",
                row["cases"],
                row["above 1.5"],
                row["above 2"],
                row["worst"],
                f"{example['slowdown']:.2g}: `{cell(example['words'])}` {example['us']['libcompute']:.3g} µs",
                cause(known, row["kind"], row["worst case"]["words"]),
            ]
        )
    return table(["kind", "cases", "> 1.5", "> 2", "worst", "an example", "cause"], rows)


def figure_table(data, figure, known):
    found = data["figures"][figure]
    heads = (
        ["kind", "cases", "worst", "case"] + (["predicted, measured µs"] if figure == "prediction" else []) + ["cause"]
    )
    rows = []
    for row in found["kinds"][:LISTED]:
        more = [f"{row.get('predicted_us', 0):.3g}, {row['us']['libcompute']:.3g}"] if figure == "prediction" else []
        rows.append(
            [
                f"`{row['kind']}`",
                row["count"],
                f"{row[figure]:.3g}",
                f"`{cell(row['words'])}`",
                *more,
                cause(known, row["kind"], row["words"], figure),
            ]
        )
    return [
        f"## {TITLES[figure]}",
        "",
        f"{found['above']} of {found['cases']} cases of 20 µs or more; the worst kinds:",
        "",
        *table(heads, rows),
    ]


def page(data, source):
    run, known = data["runs"][-1], causes()
    versions = ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())
    seeds = ", ".join(sorted({str(r["seed"]) for r in data["runs"]}))
    verdicts = ", ".join(f"{count} {name}" for name, count in sorted(data["verdicts"].items()))
    lines = [
        "# Cases drawn at random",
        "",
        "Made by `bench/cliffs/report.py` from the file named below: change that, or `causes.json`, not this page.",
        "[Performance](index.md) has the measurements of chosen cases.",
        "",
        f"**Machine:** {run['machine']}, {run['isa']}, {run['threads']} threads. **Versions:** {versions}.",
        f"**Date:** {run['date']}, commit {run['commit']}; seeds {seeds}; `{source}`.",
        "",
        "A ratio is the time of libcompute divided by the time of the better peer. Above 1, libcompute is slower.",
        "Times are minima of alternating rounds. A case is short if both need less than 20 µs; then the calls",
        "from Python count, and it is in the tables of kinds only as part of the line of short cases.",
        "",
        f"{data['drawn']} cases were drawn. Results: {verdicts}. `alone` means that no peer ran the case.",
        "",
        *table(
            ["cases", "number", "median", "90 %", "99 %", "worst", "> 1.3", "> 1.5", "> 2"],
            [
                spread_row("single operations", data["families"]["operation"]),
                spread_row("graphs", data["families"]["graph"]),
                spread_row("short", data["short"]),
                spread_row("memory at the peak", data["memory"]),
            ],
        ),
        "## Kinds with cases above 1.5",
        "",
        *kinds_table(data, known),
    ]
    for figure in LIMITS:
        lines += figure_table(data, figure, known)
    lines += [
        "## Predicted time divided by measured time",
        "",
        "Cases of 20 µs or more, by powers of two:",
        "",
        *table(["from", "cases"], data["histogram"].items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def text(data):
    lines = []
    for name, values in (*data["families"].items(), ("short", data["short"]), ("memory", data["memory"])):
        lines.append(f"{name:10} " + "  ".join(f"{key} {value}" for key, value in values.items() if key != "list"))
    for row in data["kinds"]:
        if row["above 1.3"]:
            above = ", ".join(f"above {step}: {row[f'above {step}']:3}" for step in STEPS)
            worst = f"worst {row['worst']:.2f}: {row['worst case']['case']} {row['worst case']['words'][:110]}"
            lines.append(f"{row['kind']:36} {row['cases']:4} cases, {above}, {worst}")
    for figure, values in data["figures"].items():
        lines.append(f"{figure}: {values['above']} of {values['cases']} above {values['limit']}")
    lines.append(f"results: {data['verdicts']}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--json", metavar="SUMMARY.json")
    parser.add_argument("--page", metavar="PAGE.md")
    options = parser.parse_args()
    if options.files[0].endswith(".json"):
        with open(options.files[0], encoding="utf-8") as file:
            data = json.load(file)
    else:
        data = summary(*read(options.files))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
            file.write("\n")
    if options.page:
        with open(options.page, "w", encoding="utf-8") as file:
            file.write(page(data, os.path.basename(options.json or options.files[0])))
    print(text(data))


if __name__ == "__main__":
    main()
