#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws one picture as SVG: fits or networks of compute-bench's JSON, or a timeline.

    draw.py fits BENCH.json PICTURE.svg [--goals]
    draw.py networks BENCH.json PICTURE.svg [--goals]
    draw.py trace TRACE.json PICTURE.svg [--from MS] [--to MS] [--title TEXT]

The first two also print the figures as a Markdown table. A timeline is a file that
compute_profile_write_trace or any program with COMPUTE_TRACE=FILE writes. Pictures follow the
reader's light or dark theme, and fit a phone unless --width asks for more pixels.
"""

import argparse
import json
import sys
from typing import Any, Optional

sys.dont_write_bytecode = True  # leaves no files in the tree
import charts
import pictures
import tables
from charts import Box
from records import read

Event = dict[str, Any]
# The colour of each kind of work, in the order of the legend.
WORK = {4: "source is read", 0: "upload", 2: "compute", 1: "download", 3: "sink is written"}


def colour_of(event: Event) -> Optional[int]:
    """The colour of an event that is work in itself, or None."""
    category, name = event.get("cat", ""), event["name"]
    if category == "transfer":
        return {"upload": 0, "download": 1}.get(name)
    if category == "span":
        return {"read": 4, "write": 3}.get(name)
    return 2 if category in ("kernel", "recording") else None


def label_of(names: dict[tuple[Any, ...], str], pid: int, tid: int) -> tuple[int, int, str]:
    """A sort key (sources first, sinks last), then the row's name."""
    process, thread = names.get((pid,), ""), names.get((pid, tid), "")
    order = {"source": 0, "sink": 2}.get(thread, 1)
    return order, pid, thread if process == "host" else f"{process} {thread}"


def timeline(path: str, first: float, last: Optional[float]) -> tuple[dict[str, list[Box]], float]:
    """Boxes by the name of their row, from `first` ms after the first one on; and their span."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names: dict[tuple[Any, ...], str] = {}
    for event in events:
        if event["ph"] == "M" and event["name"] in ("process_name", "thread_name"):
            thread = () if event["name"] == "process_name" else (event["tid"],)
            names[event["pid"], *thread] = event["args"]["name"]
    coloured = [(event, colour_of(event)) for event in events if event["ph"] == "X"]
    work = [(event, colour) for event, colour in coloured if colour is not None]
    start = min((event["ts"] for event, _ in work), default=0) / 1e3 + first
    rows: dict[tuple[int, int, str], list[Box]] = {}
    for event, colour in work:
        begin, length = event["ts"] / 1e3 - start, event["dur"] / 1e3
        if begin + length > 0 and (last is None or begin < last - first):
            box = Box(colour, begin, begin + length, f"{event['name']}: {length:.2f} ms")
            rows.setdefault(label_of(names, event["pid"], event["tid"]), []).append(box)
    span = max((box.end for row in rows.values() for box in row), default=0.0)
    return {key[2]: rows[key] for key in sorted(rows)}, span if last is None else last - first


def draw_trace(options: argparse.Namespace) -> str:
    rows, span = timeline(options.source, options.first, options.last)
    return charts.draw_timeline(options.title, rows, WORK, span, options.width) if rows else ""


def draw_bench(options: argparse.Namespace) -> str:
    bench = read(options.source)
    if options.what == "fits":
        drawing, head = pictures.fits(bench, True), tables.FITS
        rows = tables.fit_rows(bench, options.goals)
    else:
        drawing, head = pictures.networks(bench, heading=True), tables.SUITE
        rows = tables.suite_rows(bench, pictures.NETWORKS, options.goals)
    if drawing:
        print(tables.as_markdown(head, rows))
    return drawing(options.width) if drawing else ""


def arguments() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("what", choices=("fits", "networks", "trace"))
    parser.add_argument("source", metavar="FILE.json")
    parser.add_argument("picture", metavar="PICTURE.svg")
    parser.add_argument("--width", type=int, default=400, metavar="PIXELS")
    parser.add_argument("--goals", action="store_true", help="the developers' goals in the table")
    parser.add_argument("--from", dest="first", type=float, default=0.0, metavar="MS")
    parser.add_argument("--to", dest="last", type=float, metavar="MS")
    parser.add_argument("--title", default="Batches under way")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        text = draw_trace(options) if options.what == "trace" else draw_bench(options)
        if not text:
            print(f"draw.py: {options.source}: nothing to draw", file=sys.stderr)
            return 1
        with open(options.picture, "w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError, KeyError) as error:
        print(f"draw.py: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
