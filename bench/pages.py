#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/performance/: a page and a picture for each machine of bench/results/, and the summary
in index.md.

    pages.py                writes them, and records the code of new results (needs git for this)
    pages.py --check        fails if one of them differs from the results and the code
    pages.py --results DIR --pages DIR    other folders

A folder of bench/results/ is a machine. Its machine.json has the title and the hardware; every other
.json file is of compare.py, compute-bench, group.py or fit_picasso.py, and becomes a section.
torch.json (torch_gpu.py) has a peer's times for the compute-bench files beside it.
"""

import argparse
import json
import os
import statistics
import sys
import textwrap
from dataclasses import dataclass, field
from typing import Any, Optional

sys.dont_write_bytecode = True  # leaves no files in the tree
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import code_state
import group
import table
import tables
from charts import Bar, draw_ratios
from records import INSIDE, Bench, Case, number, peer_name, time_text

TREE = os.path.dirname(HERE)
LONGEST = 150  # lines of a page; long tables keep their worst rows
FEWEST = 6  # rows of a suite without peers, which has no worst ones
WIDTH = 720  # of a picture
TORCH = "torch"
Json = dict[str, Any]

# The families of single operations, by the beginnings of their names.
FAMILIES = {
    "products": "sgemm dgemm gemm linear matmul",
    "convolutions": "conv1 conv3 conv7 depthwise",
    "elementwise": "add exp log tanh sigmoid silu gelu erf chain batch_norm",
    "softmax, layer norm, attention": "softmax layer_norm attention",
    "reductions, searches": "sum cumsum top_k",
    "pooling": "max_pool avg_pool global_avg_pool",
    "copies, indices": "transpose nchw nhwc concat gather scatter embedding",
}


@dataclass
class Group:
    """Rows of a table, the worst ones first, and their ratios to the best peer."""

    name: str
    rows: list[list[str]]
    ratios: dict[str, float]  # by row
    whole: bool = False  # never shortened
    families: bool = True  # in the picture, one bar for all rows


@dataclass
class Section:
    """A results file on a page."""

    name: str  # machine/file.json
    title: str
    date: str
    commit: str  # "": unknown
    suites: list[str]
    device: str
    command: str
    versions: str
    head: list[str]
    groups: list[Group] = field(default_factory=list)
    after: list[str] = field(default_factory=list)  # lines after the table


def read(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def marked(ratio: float) -> str:
    return table.rounded(ratio)


def family_of(row: str) -> str:
    found = [name for name, words in FAMILIES.items() if row.startswith(tuple(words.split()))]
    return found[0] if found else "others"


# ---- Files -----------------------------------------------------------------------------------


def peers_section(name: str, data: Json) -> Section:
    """A file of bench/peers/compare.py: one suite, other engines in separate processes."""
    environment, suite = data["environment"], data["rows"][0]["suite"]
    device = environment.get("device", "cpu")
    isa = environment["COMPUTE_CPU_ISA"]
    options = (f" --isa {isa}" if isa else "") + (f" --device {device}" if device != "cpu" else "")
    suites = list(dict.fromkeys(record["suite"] for record in data["rows"]))
    command = f"python3 bench/peers/compare.py --suite {','.join(suites)}{options} --json FILE"
    versions = ", ".join(
        f"{table.NAMES[engine]} {version.split('+')[0]}"
        for engine, version in data["versions"].items()
        if engine in table.NAMES and not engine.startswith("torch_")
    )
    head = ["row", "ours, ms", "best peer's time / ours", "other peers"]
    if set(suites) <= set(table.FIRST):
        head.append("load + first run, ms, and the fastest peer's / ours")
    title = " and ".join(table.TITLES[suite] for suite in suites)
    section = Section(name, title, max(data["dates"]), environment["commit"], suites, device,
                      command, f"{versions}; {data['isa']}", head)  # fmt: skip
    for suite in suites:
        records = [r for r in table.ordered(data["rows"]) if r["suite"] == suite]
        records = [r for r in records if "libcompute" in r["engines"]]
        rows = [table.markdown_row(r).strip("| ").split(" | ") for r in records]
        found = {r["row"]: table.ratios(r)[0][0] for r in records if table.ratios(r)}
        single = suite == "operation"
        section.groups.append(Group(table.TITLES[suite], rows, found, not single, single))
    return section


def rate(record: Json) -> str:
    if record.get("gflops") and record["gflops"] >= (record.get("gbytes_s") or 0):
        gflops = record["gflops"]
        return f"{gflops / 1000:.3g} TFLOP/s" if gflops >= 2000 else f"{gflops:.0f} GFLOP/s"
    speed = record.get("gbytes_s")
    return "–" if not speed else f"{speed:.0f} GB/s" if speed >= 100 else f"{speed:.3g} GB/s"


def peers_of(case: Case, others: dict[str, float], other: str) -> list[tuple[float, str]]:
    """(ratio, peer), the best peer first, of those that read and write the same arrays."""
    if others:
        if other != TORCH and case.suite == "overhead":
            return []
        return [(others[case.name] / case.first["ms"], other)] if case.name in others else []
    found = [(ratio, peer) for peer, ratio in case.peers.items()]
    known = [(r, peer_name(p)) for r, p in found if p not in ("one thread", *INSIDE)]
    return sorted(known)


def beside(folder: str, bench: Bench) -> tuple[dict[str, float], str, str]:
    """The times of a peer that another file of the folder has, the peer's name and its version."""
    path = os.path.join(folder, "torch.json")
    if bench.device.startswith("cuda") and os.path.exists(path):
        torch = read(path)
        return {r["name"]: r["ms"] for r in torch["rows"]}, TORCH, torch["torch"].split("+")[0]
    if bench.on_cpu:
        return {}, "", ""
    found: dict[str, float] = {}
    for name in os.listdir(folder):
        data = read(os.path.join(folder, name)) if name.endswith(".json") else {}
        if isinstance(data, dict) and "records" in data and Bench(data).on_cpu:
            found |= {c.name: c.first["ms"] for c in Bench(data).cases if c.first["ms"]}
    return found, "the CPU backend", ""


def bench_section(folder: str, name: str, data: Json) -> Section:
    """A file of compute-bench: several suites, peers in the same process."""
    bench, environment = Bench(data), data["environment"]
    suites = list(dict.fromkeys(case.suite for case in bench.cases))
    quick = " --quick" if environment["quick"] else ""
    command = f"compute-bench --device {bench.device} --suite {','.join(suites)}{quick} --json FILE"
    peers = ", ".join(bench.peer_title(peer) for peer in environment.get("peers", {}))
    others, other, version = beside(folder, bench)
    versions = f"{environment['isa']}, {environment['compiler']}, {environment['driver']}"
    versions += f"; peers: {peers or f'{other} {version}'.strip() or 'none'}"
    head = ["suite", "row", "median", "rate", "error", "best peer's time / ours", "other peers"]
    shown = [suite for suite in suites if suite not in ("faults",)]
    section = Section(name, f"compute-bench on {bench.device}: {', '.join(shown)}",
                      environment["date"][:10], environment["git_commit"] or "", suites,
                      bench.device, command, versions, head)  # fmt: skip
    for suite in shown:
        if suite == "fit":
            section.groups.append(fit_group(bench))
            continue
        rows, found = [], {}
        for case in bench.timed(suite):
            ratios = peers_of(case, others, other)
            best = f"{marked(ratios[0][0])} {ratios[0][1]}" if ratios else "–"
            more = ", ".join(f"{peer} {ratio:.2f}" for ratio, peer in ratios[1:]) or "–"
            error = number(case.first["max_rel_err"] or None, "{:.1e}") or "–"
            rows.append([suite, case.name, time_text(case.first["ms"]), rate(case.first), error,
                         best, more])  # fmt: skip
            if ratios and suite != "routing":  # its peers are other devices of this library
                found[case.name] = ratios[0][0]
        rows.sort(key=lambda row: found.get(row[1], float("inf")))
        section.groups.append(Group(suite, rows, found))
    faults = [case for case in bench.cases if case.suite == "faults"]
    if faults:
        section.after = ["", f"faults: {sum(c.ok for c in faults)} of {len(faults)} cases end "
                         "with a right result or a clean status."]  # fmt: skip
    return section


def fit_group(bench: Bench) -> Group:
    """Fits per second; they have no peer in the same process. Pixels of 16 bits are left out if the
    same row has f32."""
    rows, known = [], {cells[0] for cells in tables.fit_rows(bench, False)}
    for cells in tables.fit_rows(bench, False):
        if cells[0].endswith("u16") and cells[0][:-3] + "f32" in known:
            continue
        rows.append(["fit", cells[0], cells[2], f"one thread {cells[3]}" if cells[3] else "–",
                     "–", "–", f"std / bound {cells[7]}" if cells[7] else "–"])  # fmt: skip
    return Group("fit", rows, {}, True)


def group_section(name: str, data: Json) -> Section:
    """A file of bench/group.py."""
    runs, environment = data["runs"], data["runs"][0]["environment"]
    section = Section(name, "Groups of processes", environment["date"][:10],
                      environment["git_commit"], ["group"], "cpu", "bench/group.py --json FILE",
                      f"{environment['isa']}, {environment['compiler']}; Open MPI, MPICH", [])  # fmt: skip
    section.after = [
        "Collective calls: latency of 4 bytes in µs; GB/s of 16 MiB.", "",
        *group.call_table(runs), "",
        "Training steps, ms: overlapped / not overlapped (share of communication), by ranks.",
        "3 and 4 ranks share the two cores.", "",
        *group.step_table(runs, "step", group.RANKS, group.LINKS[::2]),
    ]  # fmt: skip
    return section


def picasso_section(name: str, data: Json) -> Section:
    """A file of bench/peers/fit_picasso.py."""
    section = Section(name, "Gaussian fits beside Picasso", "", "", ["fit"], "cpu",
                      "python3 bench/peers/fit_picasso.py PREFIX/bin --json FILE",
                      f"Picasso {data['picasso']}", ["model", "program", "fits per second",
                      "steps", "std / bound", "ours / theirs"])  # fmt: skip
    rows = []
    for result in data["results"]:
        bound, times = result["std_over_bound"], result.get("speedup")
        rows.append([result["model"], result["program"], f"{result['rois_per_second']:.3g}",
                     f"{result['iterations']:.2f}", number(bound, "{:.3f}") or "–",
                     f"{times:.0f}×" if times else "–"])  # fmt: skip
    section.groups = [Group("fits", rows, {}, True)]
    return section


ORDER = ("network", "bf16", "train", "operation")


def sections_of(results: str, machine: str) -> list[Section]:
    folder, found = os.path.join(results, machine), []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json") or name in ("machine.json", "torch.json"):
            continue
        data, path = read(os.path.join(folder, name)), f"{machine}/{name}"
        if "runs" in data:
            found.append(group_section(path, data))
        elif "picasso" in data:
            found.append(picasso_section(path, data))
        elif "records" in data:
            found.append(bench_section(folder, path, data))
        else:
            found.append(peers_section(path, data))
    rank = {suite: i for i, suite in enumerate(ORDER)}
    found.sort(key=lambda section: rank.get(section.suites[0], len(rank)))
    titles = [section.title for section in found]
    for section in found:
        if titles.count(section.title) > 1:
            section.title += f" ({os.path.basename(section.name)})"
    return found


# ---- Pages -----------------------------------------------------------------------------------


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def state_line(section: Section, state: code_state.State) -> str:
    """Whether the table is stale; docs_figures compares this line with the code."""
    entry = state.entries.get(section.name)
    if not entry:
        return "**Stale:** the commit of this file is unknown."
    changed = state.changed(section.name)
    if changed:
        return f"**Stale:** {', '.join(changed)} changed since {entry['commit']}."
    return f"Current: {', '.join(entry['rooms'])} are as at {entry['commit']}."


def rest_of(group_: Group, left: list[list[str]], columns: int) -> list[str]:
    """A row for those that a table leaves out."""
    at = 1 if columns > 5 else 0
    found = [group_.ratios[row[at]] for row in left if row[at] in group_.ratios]
    words = f"{len(left)} more"
    if found:
        words += f": {min(found):.2f}× to {max(found):.2f}×, median {statistics.median(found):.2f}×"
    cells = [words] + ["–"] * (columns - 1)
    return [group_.name, *cells[:-1]] if at else cells


def section_lines(section: Section, state: code_state.State, most: int) -> list[str]:
    entry = state.entries.get(section.name, {})
    commit = f"libcompute at {section.commit}"
    if not section.commit:
        commit = "the file names no commit"
        commit += f", {entry['commit']} added it" if entry else ""
    when = f"{section.date}, " if section.date else ""
    source = (f"[{os.path.basename(section.name)}](../../bench/results/{section.name}): {when}"
              f"{commit}; {section.versions}.")  # fmt: skip
    words = state_line(section, state)
    ratios = [ratio for group_ in section.groups for ratio in group_.ratios.values()]
    if ratios:
        level = sum(ratio >= 0.995 for ratio in ratios)
        words += f" {level} of {len(ratios)} rows are level with the best peer or ahead of it."
    command = f"`{section.command}`"
    lines = ["", f"## {section.title}", "", *wrapped(words), *wrapped(source), command, ""]
    if section.groups:
        rows = []
        for group_ in section.groups:
            cut = len(group_.rows) if group_.whole else most if group_.ratios else max(most, FEWEST)
            if len(group_.rows) - cut < 2:
                cut = len(group_.rows)
            rows += group_.rows[:cut]
            if cut < len(group_.rows):
                rows.append(rest_of(group_, group_.rows[cut:], len(section.head)))
        lines += tables.as_markdown(section.head, rows).split("\n")
    return lines + section.after


def bars_of(sections: list[Section]) -> dict[str, list[Bar]]:
    """The picture: a bar for each network and training step, one for each family of operations."""
    groups: dict[str, list[Bar]] = {}
    for section in sections:
        for group_ in section.groups:
            if not group_.ratios:
                continue
            bench = len(section.head) > 5
            name = f"compute-bench, {section.device}" if bench else group_.name
            bars = groups.setdefault(name, [])
            if not group_.families:
                bars += [Bar(row, r, r, r, f"{r:.2f}×") for row, r in group_.ratios.items()]
                continue
            families: dict[str, list[float]] = {}
            for row, ratio in group_.ratios.items():
                family = group_.name if bench else family_of(row)
                families.setdefault(family, []).append(ratio)
            for family, found in families.items():
                low, high = min(found), max(found)
                text = f"{low:.2f}×" if len(found) == 1 else f"{low:.2f}–{high:.3g}×, {len(found)} rows"
                bars.append(Bar(family, low, statistics.median(found), high, text))
    return groups


def page_of(machine: str, about: Json, sections: list[Section], state: code_state.State) -> str:
    head = [f"# {about['title']}", "",
            "Made by `bench/pages.py` from the files named below: change these, not this page.",
            "[Performance](index.md) explains the method. Above 1×: libcompute is faster.", "",
            *wrapped(f"**Hardware:** {about['hardware']}"), "",
            *wrapped(f"**System:** {about['system']}"), ""]  # fmt: skip
    for note in about.get("notes", []):
        head += [*wrapped(note), ""]
    if bars_of(sections):
        head += [f"![Speed relative to the best peer](../images/speed-{machine}.svg)", "",
                 "Bars are ratios to the best peer of each row. Of several rows the bar is the "
                 "median,", "and the line reaches from the lowest to the highest."]  # fmt: skip
    else:
        head.pop()
    for most in (100, 40, 30, 24, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2):
        body = [line for section in sections for line in section_lines(section, state, most)]
        if len(head) + len(body) <= LONGEST:
            break
    return "\n".join(head + body) + "\n"


def summary(machines: dict[str, tuple[Json, list[Section]]], state: code_state.State) -> str:
    lines = ["| machine | suites | rows level or ahead | median | worst | file | commit |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for machine, (about, sections) in machines.items():
        for section in sections:
            ratios = {row: r for group_ in section.groups for row, r in group_.ratios.items()}
            if not ratios:
                continue
            worst = min(ratios, key=lambda row: ratios[row])
            level = sum(ratio >= 0.995 for ratio in ratios.values())
            current = state_line(section, state).startswith("Current")
            since = section.commit + ("" if current else ", stale")
            lines.append(
                f"| [{about['short']}]({machine}.md) | {', '.join(section.suites)} | {level} of "
                f"{len(ratios)} | {statistics.median(ratios.values()):.2f}× | "
                f"{marked(ratios[worst])} {worst} | `{os.path.basename(section.name)}` | {since} |"
            )
    return "\n".join(lines) + "\n"


def generate(results: str, pages: str, images: str, tree: str) -> dict[str, str]:
    """The text of every generated file, by its path."""
    state, found, machines = code_state.State(tree, results), {}, {}
    for machine in sorted(os.listdir(results)):
        if not os.path.isdir(os.path.join(results, machine)):
            continue
        path = os.path.join(results, machine, "machine.json")
        about = read(path) if os.path.exists(path) else {}
        about = {"title": machine, "short": machine, "hardware": "–", "system": "–"} | about
        sections = sections_of(results, machine)
        machines[machine] = (about, sections)
        found[os.path.join(pages, machine + ".md")] = page_of(machine, about, sections, state)
        bars = bars_of(sections)
        if bars:
            title = f"{about['title']}: speed relative to the best peer"
            picture = draw_ratios(title, bars, WIDTH) + "\n"
            found[os.path.join(images, f"speed-{machine}.svg")] = picture
    index = os.path.join(pages, "index.md")
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            text = file.read()
        begin, end = "<!-- summary -->\n", "<!-- /summary -->"
        before, _, rest = text.partition(begin)
        found[index] = before + begin + summary(machines, state) + end + rest.partition(end)[2]
    return found


def record(results: str, tree: str) -> None:
    """Adds files that code.json does not have yet, and drops files that no longer exist."""
    entries, history = code_state.load(results), code_state.History(tree)
    known: Json = {}
    for machine in sorted(os.listdir(results)):
        if not os.path.isdir(os.path.join(results, machine)):
            continue
        for section in sections_of(results, machine):
            entry, commit = entries.get(section.name), section.commit
            if entry and (not commit or entry["commit"] == commit):
                known[section.name] = entry
                continue
            if not commit:
                commit = history.added(os.path.join(results, section.name))
            if commit and history.has(commit):
                rooms = code_state.rooms_of(section.suites, section.device)
                hashes = {room: history.hash_of(commit, room) for room in rooms}
                known[section.name] = {"commit": commit, "rooms": hashes}
    if known != entries:
        code_state.save(results, known)


def present(path: str) -> Optional[str]:
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def differing(texts: dict[str, str]) -> list[str]:
    return [path for path, text in texts.items() if present(path) != text]


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tree", default=TREE)
    parser.add_argument("--results")
    parser.add_argument("--pages")
    parser.add_argument("--images")
    args = parser.parse_args()
    results = args.results or os.path.join(args.tree, "bench", "results")
    pages = args.pages or os.path.join(args.tree, "docs", "performance")
    images = args.images or args.pages or os.path.join(args.tree, "docs", "images")
    if not args.check:
        record(results, args.tree)
    texts = generate(results, pages, images, args.tree)
    stale = differing(texts)
    for path in stale:
        if args.check:
            print(f"{path} differs: python3 bench/pages.py writes it")
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(texts[path])
        print(path)
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
