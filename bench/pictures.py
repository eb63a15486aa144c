# SPDX-License-Identifier: MIT
"""The charts of the report and of bench/draw.py (charts.py draws them)."""

from typing import Any, Callable, Collection, Optional

import charts
import goals
from charts import Chart, Curve, Point, Row
from drawing import SERIES
from records import Bench, Case, peer_name, rate_text, ratio_text, time_text

ARRAYS = ("elementwise", "reduce", "memory")  # suites
NETWORKS = ("conv", "pool", "norm", "train")
COLOURS = ("", "dnnl", "openblas", "torch", "torch plain")  # the same in all pictures

Draw = Callable[[int], str]  # from a width in pixels to SVG


def colours_of(peers: Collection[str]) -> dict[str, int]:
    """The colour of each peer; an unknown peer gets a free one."""
    others = [peer for peer in peers if peer not in COLOURS]
    known = [peer for peer in COLOURS if peer in peers]
    last = len(SERIES) - 1
    colours = {peer: min(len(COLOURS) + i, last) for i, peer in enumerate(others)}
    return {peer: COLOURS.index(peer) for peer in known} | colours


def times_text(ratio: float) -> str:
    return f"{ratio:g} ×"


def millions(rate: float) -> str:
    return f"{rate * 1e-6:g} M/s"


def speed_text(speed: float) -> str:
    return f"{speed:g} GB/s" if speed else "0"


def rows_of(chart: Chart) -> Optional[Draw]:
    if not chart.rows:
        return None
    return lambda width: charts.draw_rows(chart, width)


# ---- The machine's limits --------------------------------------------------------------------


def products(bench: Bench) -> Optional[Draw]:
    """GFLOP/s of square products in f32 against their size, and the multiply-add peak."""
    speeds: dict[str, dict[float, float]] = {}
    for case in bench.timed("matmul"):
        size, first = case.name.removeprefix("matmul_"), case.first
        if not size.isdigit() or first["dtype"] != "f32" or not first["gflops"]:
            continue
        for peer, speedup in (("", 1.0), *case.peers.items()):
            speeds.setdefault(peer, {})[float(size)] = first["gflops"] / speedup
    if not speeds:
        return None
    colours = colours_of(speeds)
    curves = [Curve(colours[peer], sorted(points.items())) for peer, points in speeds.items()]
    names = {i: bench.peer_title(peer) or "libcompute" for peer, i in colours.items()}
    peak = bench.limit("fma_f32_gflops")
    title = "GFLOP/s of n × n × n products in f32 against n"
    units = "GFLOP/s", "n, of products of n × n matrices in f32"
    return lambda width: charts.draw_curves(title, curves, names, peak, units, width)


def array_cases(bench: Bench, in_memory: bool) -> list[Case]:
    """Operations on arrays that come from memory, or that may stay in the caches."""
    cut = bench.cache_megabytes()
    found = [c for c in bench.timed(*ARRAYS) if c.megabytes()]
    return [c for c in found if (c.megabytes() > cut) == in_memory]


def array_speeds(bench: Bench, in_memory: bool) -> Optional[Draw]:
    """GB/s, each array counted once, and the streaming speeds."""
    rows = []
    for case in sorted(array_cases(bench, in_memory), key=lambda c: -c.first["gbytes_s"]):
        speed = case.first["gbytes_s"]
        words = f"{case.name}: {speed:.1f} GB/s of {case.megabytes():.3g} MB"
        rows.append(Row(case.name, [Point(0, speed, f"{speed:.1f}", words)]))
    limits = {
        f"streaming {what}": limit
        for what in ("copy", "add")
        if (limit := bench.limit(f"stream_{what}_gbytes_s"))
    }
    place = "from memory" if in_memory else "in the caches"
    title = f"GB/s of operations on arrays {place}"
    return rows_of(Chart(title, rows, {}, 0, speed_text, limits))


# ---- Against peers ---------------------------------------------------------------------------


def against_peers(bench: Bench, title: str, cases: list[Case]) -> Optional[Draw]:
    """The speed-up over each peer: a dot for each."""
    compared = [c for c in cases if c.peers]
    found = [p for c in compared for p in c.peers if p != "one thread"]
    colours, rows = colours_of(dict.fromkeys(found)), []
    for case in compared:
        points = [
            Point(i, case.peers[peer], ratio_text(case.peers[peer]), speed_words(case, peer))
            for peer, i in colours.items()
            if peer in case.peers
        ]
        rows += [Row(case.name, points)] if points else []
    names = {i: bench.peer_title(peer) for peer, i in colours.items()}
    return rows_of(Chart(title, rows, names, 2, times_text))


def speed_words(case: Case, peer: str) -> str:
    return f"{case.name}: {ratio_text(case.peers[peer])} as fast as {peer_name(peer)}"


def networks(
    bench: Bench, suites: tuple[str, ...] = NETWORKS, heading: bool = False
) -> Optional[Draw]:
    """Speed-up over the fastest peer on the same arrays, and the fastest one in its own layout."""
    rows = []
    for case in bench.timed(*suites):
        points = []
        for i, inside in enumerate((False, True)):
            fastest = case.fastest(inside=inside)
            if fastest:
                text = f"{ratio_text(fastest[1])} {peer_name(fastest[0]).partition(' ')[0]}"
                points.append(Point(i, fastest[1], text, speed_words(case, fastest[0])))
        rows += [Row(case.name, points)] if points else []
    names = {0: "the fastest peer on the same arrays"}
    if any(len(row.points) > 1 for row in rows):
        names[1] = "the fastest peer in its own layout"
    title = f"{', '.join(suites)}: speed-up over peers"
    below = "Speed-up over the named peer, every result checked." if heading else ""
    if heading:
        title = f"Networks against oneDNN and libtorch, {bench.environment.get('cpu_model')}"
    return rows_of(Chart(title, rows, names, 2, times_text, heading=heading, below=below))


# ---- Fits ------------------------------------------------------------------------------------

ALL, ONE = "rois_per_second", "rois_per_second_one_thread"
SPOTS = "Simulated spots: 1000 photons, 10 of background per pixel, σ = 1.3 pixels."


def fit_name(case: Case) -> str:
    """'XYNB, 7 × 7, u16' and special features."""
    words, fit = case.name.split("_"), case.first["fit"]
    special = {
        "plan": "on the device",
        "tiff": "TIFF to CSV",
        "10M": "10 M, callbacks",
        "readout": "readout noise",
        "pinned": "page-locked",
    }
    known = (str(fit["rows"]), case.first["dtype"])  # shown by the other words
    size = f"{fit['rows']} × {fit['columns']}"
    more = [special.get(word, word) for word in words[1:] if word not in known]
    return ", ".join([words[0], size, case.first["dtype"], *more])


def fit_cases(bench: Bench) -> list[Case]:
    return [c for c in bench.timed("fit") if c.first.get("fit")]


def fits(bench: Bench, heading: bool = False) -> Optional[Draw]:
    """Spots per second on all threads and on one."""
    rows = []
    for case in fit_cases(bench):
        name, fit = fit_name(case), case.first["fit"]
        rates = [(i, fit[key]) for i, key in enumerate((ALL, ONE)) if fit.get(key)]
        points = [Point(i, r, rate_text(r), f"{name}: {rate_text(r)}") for i, r in rates]
        rows.append(Row(name, points))
    threads = bench.environment.get("threads")
    names = {0: f"{threads} threads" if bench.on_cpu else "the whole device"}
    if any(p.series for row in rows for p in row.points):
        names[1] = "one thread"
    machine = bench.environment.get("device_model") or bench.environment.get("cpu_model")
    title = f"Gaussian fits per second, {machine}"
    below = SPOTS if heading else ""
    chart = Chart(title, rows, names, 10, millions, heading=heading, below=below)
    return rows_of(chart)


def picasso(data: dict[str, Any]) -> Optional[Draw]:
    """The file of bench/peers/fit_picasso.py."""
    groups: dict[str, list[Point]] = {}
    names: list[str] = []
    for result in data["results"]:
        program, rate = result["program"], result[ALL]
        name = program if program == "libcompute" else f"Picasso {data['picasso']}, {program}"
        if name not in names:
            names.append(name)
        words = f"{result['model']}, {name}: {rate_text(rate)}"
        points = groups.setdefault(result["model"], [])
        points.append(Point(names.index(name), rate, rate_text(rate), words))
    rows = [Row(model, points) for model, points in groups.items()]
    title = "Gaussian fits per second, compared with Picasso"
    return rows_of(Chart(title, rows, dict(enumerate(names)), 10, millions))


# ---- Overheads -------------------------------------------------------------------------------


def overheads(bench: Bench, with_goals: bool) -> Optional[Draw]:
    """Times, and with the developers' goals their limits."""
    cases = [c for c in bench.timed("overhead") if not c.peers]
    cases += [c for c in bench.timed("memory") if c.name.startswith("pool_")]
    rows = []
    for case in cases:
        ms = case.first["ms"]
        points = [Point(0, ms, time_text(ms), f"{case.name}: {time_text(ms)}")]
        goal = goals.TIMES.get(case.name) if with_goals else None
        if goal:
            points.append(
                Point(1, goal, time_text(goal), f"{case.name}: at most {time_text(goal)}")
            )
        rows.append(Row(case.name, points))
    names = {0: "median", 1: "goal: at most"} if with_goals else {}
    return rows_of(Chart("Overheads", rows, names, 10, time_text))
