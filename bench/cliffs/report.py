# SPDX-License-Identifier: MIT
"""A summary of files of cliffs.py, in JSON and as a page with a picture.

    report.py FILE.jsonl... [--json SUMMARY.json]
    report.py SUMMARY.json [--page PAGE.md --picture PICTURE.svg [--check]]

A ratio is libcompute's time divided by the time of the better peer: above 1, libcompute is slower. --check writes
nothing, and fails if the page or the picture differs.
"""

import argparse
import json
import math
import os
import sys

import page
from page import LIMITS, STEPS

LISTED = 20       # kinds of a figure
MEMORY = 4 << 20  # bytes; an engine's code alone takes as much


def read(paths):
    """(settings of the runs that drew cases, records)"""
    runs, records = [], []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                values = json.loads(line)
                if "machine" in values:
                    runs.append({**values, "drawn": 0})
                elif "versions" in values:
                    runs[-1]["versions"] = values["versions"]
                else:
                    records.append(values)
                    runs[-1]["drawn"] += "reduced" not in values
    return [run for run in runs if run["drawn"]], records


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
    """The fields of a case that a list shows."""
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
    rows = [{"kind": kind, "count": len(rows), **short(rows[0], figure)} for kind, rows in list(kinds.items())[:LISTED]]
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
    drawn = list({r["case"]: r for r in records if "reduced" not in r}.values())  # the last of each case
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


def dump(data):
    """JSON with a line for each entry of a long list."""
    parts = []
    for key, value in data.items():
        if isinstance(value, list):
            inner = "[\n  " + ",\n  ".join(json.dumps(entry, ensure_ascii=False) for entry in value) + "\n ]"
        else:
            inner = json.dumps(value, ensure_ascii=False)
        parts.append(f' "{key}": {inner}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def put(path, content, check):
    if check:
        with open(path, encoding="utf-8") as file:
            if file.read() != content:
                sys.exit(f"FAILED: {path} differs: bench/cliffs/report.py writes it")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--json", metavar="SUMMARY.json")
    parser.add_argument("--page", metavar="PAGE.md")
    parser.add_argument("--picture", metavar="PICTURE.svg")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.files[0].endswith(".json"):
        with open(options.files[0], encoding="utf-8") as file:
            data = json.load(file)
    else:
        data = summary(*read(options.files))
    if options.json:
        put(options.json, dump(data), options.check)
    if options.page:
        put(options.page, page.page(data, os.path.basename(options.json or options.files[0])), options.check)
    if options.picture:
        put(options.picture, page.picture(data["histogram"]), options.check)
    if not options.check:
        print(text(data))


if __name__ == "__main__":
    main()
