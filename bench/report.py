#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes one HTML file of compute-bench's JSON, with the machine's limits and the peers for comparison.

The file opens anywhere without a network. Developers' goals are shown with --goals.
"""

import argparse
import html
import json
import sys
from dataclasses import dataclass, field
from typing import Any, Optional

sys.dont_write_bytecode = True  # leaves no files in the tree
import charts
import goals
import pictures
import tables
from drawing import theme
from pictures import Draw
from records import Bench, rate_text, read

CSS = """
:root { --paper: #ffffff; --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --panel: #f5f7f9;
  --bad: #b3261e; --blush: #fdecea; --link: #1f5fd0; --shade: rgba(28, 36, 48, .28); }
@media (prefers-color-scheme: dark) { :root { --paper: #14181e; --ink: #e6e9ee; --soft: #9aa5b3;
  --line: #313a46; --panel: #1c222a; --bad: #ff8a80; --blush: #3a1d1d; --link: #6ea8ff;
  --shade: rgba(0, 0, 0, .75); } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 940px; padding: 24px 25px 60px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 25px; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 20px; margin: 44px 0 4px; } h3 { font-size: 15px; margin: 22px 0 2px; }
p { margin: 4px 0 12px; } a { color: var(--link); } .soft { color: var(--soft); }
nav { margin: 14px 0; line-height: 1.9; } nav a { margin-right: 14px; white-space: nowrap; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 18px 0; }
.tile { flex: 1 1 150px; background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; padding: 8px 14px; }
.tile b { display: block; font-size: 21px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.failed { border: 2px solid var(--bad); background: var(--blush); border-radius: 6px;
  padding: 10px 16px; margin: 16px 0; overflow-wrap: anywhere; }
.failed b { color: var(--bad); } .failed ul { margin: 4px 0; padding-left: 20px; }
.note { color: var(--soft); font-size: 13px; margin: 3px 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 6px 0 14px; padding-bottom: 4px; scrollbar-width: thin;
  scrollbar-color: var(--soft) var(--line); background:
  linear-gradient(to right, var(--paper) 40%, transparent) left / 50px 100% no-repeat local,
  linear-gradient(to left, var(--paper) 40%, transparent) right / 50px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 16px 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 16px 100% no-repeat scroll; }
.wide:has(> table) { position: relative; left: 50%; transform: translateX(-50%);
  width: max-content; min-width: 100%; max-width: calc(100vw - 50px); }
.wide::-webkit-scrollbar { height: 9px; background: var(--line); }
.wide::-webkit-scrollbar-thumb { background: var(--soft); border-radius: 5px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; }
.words { text-align: left; white-space: normal; min-width: 260px; max-width: 420px; }
.left { background: var(--panel); border: 1px solid var(--line); border-radius: 6px;
  padding: 10px 16px; margin: 16px 0; overflow-wrap: anywhere; font-size: 13px; }
.left summary { font-weight: 600; cursor: pointer; } .left ul { margin: 4px 0; padding-left: 20px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; font-size: 13px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
svg { display: block; } .hand { display: none; }
@media (max-width: 929px) { body { padding: 16px 12px 40px; } .desk { display: none; }
  .hand { display: block; } dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } }
"""


def paragraph(text: str, kind: str = "soft") -> str:
    return f'<p class="{kind}">{html.escape(text)}</p>'


def picture(draw: Optional[Draw]) -> str:
    """Two drawings; the reader sees the one that fits the screen."""
    if not draw:
        return ""
    widths = (("desk", charts.DESK), ("hand", charts.HAND))
    return "".join(f'<div class="{kind} wide">{draw(width)}</div>' for kind, width in widths)


@dataclass
class Section:
    name: str  # of the link
    title: str
    text: str = ""
    parts: list[str] = field(default_factory=list)

    def html(self) -> str:
        text = paragraph(self.text) if self.text else ""
        head = f'<h2 id="{self.name}">{html.escape(self.title)}</h2>'
        return f"<section>{head}{text}{''.join(self.parts)}</section>"


# ---- Pictures --------------------------------------------------------------------------------


def products(bench: Bench) -> Section:
    cases = [c for c in bench.timed("matmul") if not c.name.removeprefix("matmul_").isdigit()]
    text = "Square products in f32, all libraries on the same matrices in one process."
    others = picture(pictures.against_peers(bench, "other products, compared with peers", cases))
    if others:
        others = paragraph("Other products: speed-up over each peer.") + others
    return Section("products", "Matrix products", text, [picture(pictures.products(bench)), others])


def arrays(bench: Bench, in_memory: bool) -> Section:
    cut = f"{bench.cache_megabytes():.0f} MB"
    if in_memory:
        name, title = "memory", "Arrays in memory"
        text = f"Operations that read and write more than {cut}; each array counts once."
    else:
        name, title = "caches", "Arrays in the caches"
        text = f"Operations that read and write at most {cut}, which may stay in the caches."
    against = pictures.against_peers(
        bench, f"{title} against peers", pictures.array_cases(bench, in_memory)
    )
    second = picture(against)
    if second:
        second = paragraph("Speed-up over each peer:") + second
    return Section(name, title, text, [picture(pictures.array_speeds(bench, in_memory)), second])


def networks(bench: Bench) -> Section:
    text = (
        "Speed-up over the fastest peer, which is named. “Own layout” means the layout of data "
        "inside the peer’s networks; the others read and write the same arrays as libcompute. "
        "“_wino”: Winograd convolution is allowed."
    )
    parts = []
    for suite, title in (("conv", "Convolutions"), ("pool", "Pooling"),
                         ("norm", "Normalisation, losses, attention"),
                         ("train", "Training steps and predictions")):  # fmt: skip
        drawn = picture(pictures.networks(bench, (suite,)))
        parts += [f"<h3>{title}</h3>", drawn] if drawn else []
    return Section("networks", "Networks", text, parts)


def fits(bench: Bench, picasso: Optional[dict[str, Any]], with_goals: bool) -> Section:
    text = (
        f"{pictures.SPOTS} Each fit gives parameters, uncertainties, likelihood ratio, p-value, "
        "steps and status."
    )
    rows = tables.fit_rows(bench, with_goals)
    parts = [picture(pictures.fits(bench))]
    parts += [tables.as_html(tables.FITS, rows, "fits")] if rows else []
    if picasso:
        parts += ["<h3>Beside Picasso</h3>", picture(pictures.picasso(picasso))]
    return Section("fits", "Gaussian fits", text, parts)


def overheads(bench: Bench, with_goals: bool) -> Section:
    return Section(
        "overheads", "Overheads", "Medians.", [picture(pictures.overheads(bench, with_goals))]
    )


# ---- Tables ----------------------------------------------------------------------------------


def goal_section(bench: Bench) -> Section:
    rows = [[*words, "met" if met else "missed"] for *words, met in goals.verdicts(bench)]
    head = ["case", "to reach", "measured", ""]
    text = "The developers’ goals. A missed goal does not make a result wrong."
    return Section("goals", "Goals", text, [tables.as_html(head, rows, "goals")] if rows else [])


def notes_of(bench: Bench, suites: list[str]) -> dict[str, list[str]]:
    """The notes by suite; general ones under ''."""
    found: dict[str, list[str]] = {}
    for note in bench.environment.get("notes", []):
        suite = note.partition("/")[0].partition(" ")[0]
        found.setdefault(suite if suite in suites else "", []).append(note)
    return found


def figures(
    bench: Bench, suites: list[str], notes: dict[str, list[str]], with_goals: bool
) -> Section:
    parts = []
    for suite in suites:
        rows = tables.suite_rows(bench, [suite], with_goals)
        parts.append(f'<h3 id="suite-{html.escape(suite)}">{html.escape(suite)}</h3>')
        parts.append(tables.as_html(tables.SUITE, rows, suite))
        parts += [paragraph(note, "note") for note in notes.get(suite, [])]
    text = (
        "“Of the limit”: of the multiply-add peak for products and convolutions, of the streaming "
        "speed for other operations on more than "
        f"{bench.cache_megabytes():.0f} MB. What stays in the caches has neither limit. Winograd convolutions, which multiply less "
        "than is counted, may exceed theirs."
    )
    return Section("figures", "All figures", text if bench.on_cpu and parts else "", parts)


def fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} = {item}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return "unknown" if value in (None, "") else str(value)


def environment(bench: Bench, notes: list[str]) -> Section:
    words = {
        "variables": "variables set by the user",
        "benchmark_variables": "variables set by compute-bench",
        "device_notes": "warnings of the device",
    }
    facts = "".join(
        f"<dt>{html.escape(words.get(key, key.replace('_', ' ')))}</dt>"
        f"<dd>{html.escape(fact(value))}</dd>"
        for key, value in bench.environment.items()
        if key != "notes" and not (key == "device_notes" and not value)
    )
    parts = [*(paragraph(note, "note") for note in notes), f"<dl>{facts}</dl>"]
    return Section("environment", "Environment", "", parts if facts or notes else [])


# ---- The page --------------------------------------------------------------------------------


def failures(bench: Bench) -> list[str]:
    found = [
        f"{r['suite']}/{r['case']} on {r['device']}: {tables.failure_text(r)}"
        for r in bench.records
        if not r["ok"]
    ]
    return list(dict.fromkeys(found))


def failure_box(bench: Bench) -> str:
    found = failures(bench)
    if not found:
        return ""
    items = "".join(f"<li>{html.escape(text)}</li>" for text in found)
    count = "1 result is" if len(found) == 1 else f"{len(found)} results are"
    return f'<div class="failed" role="alert"><b>{count} wrong</b><ul>{items}</ul></div>'


def left_out_box(bench: Bench, build: list[str]) -> str:
    """The cases that were not measured, and the parts that the build lacks, each with its reason."""
    cases = [f"{case}: {why}" for case, why in bench.skipped()]
    if not cases and not build:
        return ""
    counts = [
        f"{len(found)} {name if len(found) == 1 else names}"
        for found, name, names in (
            (cases, "case was skipped", "cases were skipped"),
            (build, "part is not in this build", "parts are not in this build"),
        )
        if found
    ]
    items = "".join(f"<li>{html.escape(text)}</li>" for text in cases + build)
    return (
        f'<details class="left"{" open" if cases else ""}>'
        f"<summary>{'; '.join(counts)}</summary><ul>{items}</ul></details>"
    )


def tiles(bench: Bench) -> str:
    entries = []
    products_f32 = [
        c for c in bench.timed("matmul") if c.first["dtype"] == "f32" and c.first["gflops"]
    ]
    if products_f32:
        best = max(products_f32, key=lambda c: c.first["gflops"])
        part = bench.part_of_limit(best)
        words = (
            f"GFLOP/s in f32 products, {part:.0%} of the peak"
            if part
            else "GFLOP/s in f32 products"
        )
        entries.append((f"{best.first['gflops']:.0f}", words))
    streamed = [c for c in pictures.array_cases(bench, True) if c.name.startswith("add")]
    if streamed:
        best = max(streamed, key=lambda c: c.first["gbytes_s"])
        part = bench.part_of_limit(best)
        words = (
            f"GB/s adding arrays, {part:.0%} of streaming speed" if part else "GB/s adding arrays"
        )
        entries.append((f"{best.first['gbytes_s']:.0f}", words))
    rates = [c.first["fit"][pictures.ALL] for c in pictures.fit_cases(bench)]
    if rates:
        entries.append((rate_text(max(rates)), "Gaussian fits"))
    entries.append((str(len(bench.cases)), "cases timed and checked"))
    shown = "".join(
        f'<div class="tile"><b>{html.escape(a)}</b> <span>{html.escape(b)}</span></div>'
        for a, b in entries
    )
    return f'<div class="tiles">{shown}</div>'


def heading(bench: Bench) -> str:
    e = bench.environment
    model = e.get("device_model") or e.get("cpu_model") or "this machine"
    facts = [
        e.get("isa"),
        f"{e['threads']} threads" if e.get("threads") else None,
        f"device {bench.device}",
        f"libcompute {e['library_version']}" if e.get("library_version") else None,
        e.get("date"),
        "quick run" if e.get("quick") else "full run",
    ]
    peers = ", ".join(bench.peer_title(peer) for peer in e.get("peers", {}))
    beside = paragraph(f"Beside {peers}, in the same process." if peers else "No peers were found.")
    line = paragraph(" · ".join(fact for fact in facts if fact))
    return f"<h1>libcompute on {html.escape(model)}</h1>{line}{beside}"


def sections_of(bench: Bench, picasso: Optional[dict[str, Any]], with_goals: bool) -> list[Section]:
    suites = list(dict.fromkeys(r["suite"] for r in bench.records))
    notes = notes_of(bench, suites)
    found = [
        products(bench),
        arrays(bench, True),
        arrays(bench, False),
        networks(bench),
        fits(bench, picasso, with_goals),
        overheads(bench, with_goals),
    ]
    if with_goals:
        found.append(goal_section(bench))
    found += [figures(bench, suites, notes, with_goals), environment(bench, notes.get("", []))]
    return [section for section in found if any(section.parts)]


def page(
    bench: Bench, picasso: Optional[dict[str, Any]], left_out: list[str], with_goals: bool
) -> str:
    sections = sections_of(bench, picasso, with_goals)
    links = "".join(f'<a href="#{s.name}">{html.escape(s.title)}</a> ' for s in sections)
    body = [heading(bench), failure_box(bench), tiles(bench), left_out_box(bench, left_out)]
    body += [f"<nav>{links}</nav>"]
    body += [section.html() for section in sections]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>libcompute: benchmark</title><style>{CSS}{theme()}</style></head>\n"
        f"<body>{''.join(body)}</body></html>\n"
    )


def print_goals(bench: Bench) -> None:
    found = goals.verdicts(bench)
    print(f"{sum(met for *_, met in found)} of {len(found)} goals met")
    for case, reach, seen, met in found:
        if not met:
            print(f"missed: {case}: {seen}, goal: {reach}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", metavar="BENCH.json")
    parser.add_argument("report", metavar="REPORT.html")
    parser.add_argument("--picasso", metavar="FILE", help="written by bench/peers/fit_picasso.py")
    parser.add_argument("--left-out", metavar="FILE", help="what the build lacks, a line for each")
    parser.add_argument("--goals", action="store_true", help="show the developers' goals, too")
    options = parser.parse_args()
    try:
        bench, picasso, left_out = read(options.bench), None, []
        if options.picasso:
            with open(options.picasso, encoding="utf-8") as file:
                picasso = json.load(file)
        if options.left_out:
            with open(options.left_out, encoding="utf-8") as file:
                left_out = [line.strip() for line in file if line.strip()]
        text = page(bench, picasso, left_out, options.goals)
        with open(options.report, "w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError, KeyError) as error:
        print(f"report.py: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    for line in [*(f"skipped:  {case}: {why}" for case, why in bench.skipped()),
                 *(f"left out: {line}" for line in left_out)]:  # fmt: skip
        print(line)
    if options.goals:
        print_goals(bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
