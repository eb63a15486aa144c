#!/usr/bin/env python3
"""Draws compute-bench's JSON as one HTML file that opens anywhere without a network.

usage: report.py BENCH.json REPORT.html

Charts are inline SVG, drawn here with the standard library alone; colours come from CSS variables,
so that the same drawing reads on light and on dark paper. What the project has set itself to reach
is in the table TARGETS, and in the records that have a goal of their own. A target that is
missed is shown with what was seen and says nothing about results: those that are wrong are named
apart.
"""
import html
import json
import math
import sys

sys.dont_write_bytecode = True # nothing is left in the tree
import draw_fits
import draw_networks

# ---- What is to be reached: case pattern, what is compared, how much, in words ----------------

TARGETS = [
    # (case, kind, least, words); kinds are the functions in KINDS
    *[(f"matmul_{n}", "best_peer", 1.0, "at least the best peer") for n in (64, 128, 256)],
    *[(f"matmul_{n}", "best_peer", 0.97, "0.97 of the best peer") for n in (512, 1024, 2048, 4096)],
    *[(f"matmul_bias_gelu_{n}", "own_matmul", 0.95, "0.95 of the plain product")
      for n in (1024, 2048, 4096)],
    *[(f"matmul_bias_gelu_{n}", "torch", 2.0, "2 × libtorch") for n in (1024, 2048, 4096)],
    ("add_10M", "stream", 0.95, "0.95 of streaming speed"),
    ("add_100M", "stream", 0.95, "0.95 of streaming speed"),
    ("chain_10M", "torch", 4.0, "4 × libtorch"),
    *[(f"{name}_1M", "torch", 1.5, "1.5 × libtorch")
      for name in ("gelu", "gelu_tanh", "tanh", "sigmoid", "exp")],
    ("softmax_1000x1000", "torch", 1.5, "1.5 × libtorch"),
    ("softmax_1x1M", "torch", 1.5, "1.5 × libtorch"),
    ("layer_norm_4096", "torch", 2.0, "2 × libtorch"),
    ("transpose_4096", "torch", 2.0, "2 × libtorch"),
    ("open_first", "time", 5.0, "5 ms"),
    ("compile_20_nodes", "time", 1.0, "1 ms"),
    ("step_of_100", "time", 1e-3, "1 µs"),
    ("pool_hit_1MiB", "time", 1e-4, "100 ns"),
    *[(f"threads_gelu_{n}", "one_thread", 1.0, "never slower than one thread")
      for n in ("1K", "10K", "100K", "1M")],
    *[(name, "fits", rate, f"{rate * 1e-6:g} M fits/s")
      for name, rate in draw_fits.TARGETS_CPU.items()],
    *[(name, "same_arrays", least, f"{least:g} × {peer or 'the fastest peer'} on the same arrays")
      for name, (least, peer) in draw_networks.TARGETS.items()],
    *[(f"{name}_memory", "memory", 0.9, "within a tenth of what is planned")
      for name in ("mlp", "cnn", "resnet")],
    ("XYNB_7_plan", "fits", draw_fits.TARGETS_GPU["XYNB_7_plan"], "500 M fits/s on a GPU"),
]

PEERS = ("libcompute", "openblas", "dnnl", "torch", "torch plain")

CSS = """
:root { --paper: #ffffff; --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --panel: #f5f7f9;
  --good: #147a4b; --bad: #b3261e; --miss: #8a5a00; --c0: #1f5fd0; --c1: #b86e00;
  --c2: #0b8074; --c3: #b5306f; --c4: #7a4fc0; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181e; --ink: #e6e9ee; --soft: #9aa5b3;
  --line: #313a46; --panel: #1c222a; --good: #55c48c; --bad: #ff8a80; --miss: #e0b050;
  --c0: #6ea8ff; --c1: #f0a840; --c2: #3fc7b6; --c3: #f07db4; --c4: #b79bf5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 28px 20px 60px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 40px 0 8px; }
p { margin: 6px 0 12px; } .soft { color: var(--soft); }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0; }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 6px;
  padding: 10px 16px; min-width: 150px; }
.tile b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; }
table.facts td { white-space: normal; text-align: left; vertical-align: top; }
table.facts td:first-child { color: var(--soft); white-space: nowrap; }
.good { color: var(--good); } .miss { color: var(--miss); } .bad { color: var(--bad); font-weight: 600; }
.note { border-left: 3px solid var(--bad); padding: 4px 12px; background: var(--panel);
  margin: 6px 0; }
svg { display: block; max-width: 100%; height: auto;
  font: 13px system-ui, "DejaVu Sans", sans-serif; }
svg text { fill: var(--ink); stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round;
  paint-order: stroke; } svg .soft { fill: var(--soft); } svg .grid { stroke: var(--line); }
svg .limit { stroke: var(--bad); stroke-dasharray: 6 4; stroke-width: 1.5; }
svg text.limit { fill: var(--bad); stroke: var(--paper); stroke-dasharray: none;
  stroke-width: 3px; }
""" + "".join(f".s{i} {{ stroke: var(--c{i}); }} .f{i} {{ fill: var(--c{i}); }}\n"
              for i in range(len(PEERS)))


def escape(value):
    return html.escape(str(value))


def style_of(name):
    """The number of a competitor's colour: the same in every chart."""
    return PEERS.index(name) if name in PEERS else len(PEERS) - 1


# ---- Records ---------------------------------------------------------------------------------

class Bench:
    def __init__(self, data):
        self.environment = data["environment"]
        self.records = data["records"]
        self.limits = self.environment.get("limits", {})

    def case(self, name):
        """All records of a case: one, or one for each peer."""
        return [r for r in self.records if r["case"] == name]

    def peers(self, name, prefix=""):
        return {r["peer"]: r for r in self.case(name)
                if r.get("peer", "").startswith(prefix) and r.get("peer_ms")}

    def suite(self, name):
        """A suite's cases in order: (first record, all its records)."""
        cases = {}
        for record in self.records:
            if record["suite"] == name:
                cases.setdefault(record["case"], []).append(record)
        return [(group[0], group) for group in cases.values()]


def against_fastest(bench, name, prefix):
    peers = bench.peers(name, prefix)
    if not peers:
        return None
    fastest = min(peers.values(), key=lambda r: r["peer_ms"])
    return fastest["speedup"], f"{fastest['speedup']:.2f} × {fastest['peer']}"


def kind_best_peer(bench, name):
    return against_fastest(bench, name, "")


def kind_torch(bench, name):
    return against_fastest(bench, name, "torch")


def kind_same_arrays(bench, name):
    prefix = draw_networks.TARGETS[name][1]
    fastest = draw_networks.Case(bench.case(name)).fastest(False, prefix)
    return fastest and (fastest[1], f"{fastest[1]:.2f} × {fastest[0]}")


def kind_memory(bench, name):
    training = bench.case(name)[0].get("training")
    if not training:
        return None
    part = training["measured_bytes"] / training["planned_bytes"]
    return 1 - abs(1 - part), f"{part:.3f} of {training['planned_bytes'] * 1e-6:.2f} MB"


def kind_one_thread(bench, name):
    return against_fastest(bench, name, "one thread")


def kind_own_matmul(bench, name):
    plain = bench.case(name.replace("_bias_gelu", ""))
    if not plain or not plain[0]["ms"]:
        return None
    part = plain[0]["ms"] / bench.case(name)[0]["ms"]
    return part, f"{part:.2f} of {plain[0]['gflops']:.0f} GFLOP/s"


def kind_stream(bench, name):
    limit = bench.limits.get("stream_add_gbytes_s")
    if not limit:
        return None
    speed = bench.case(name)[0]["gbytes_s"]
    return speed / limit, f"{speed / limit:.2f} ({speed:.1f} of {limit:.1f} GB/s)"


def judge(bench, target):
    """(measured in words, met?) of a target; met is None when it was not measured."""
    name, kind, least, _ = target
    records = bench.case(name)
    if not records or not records[0]["ms"]:
        return "not measured", None
    if kind == "time":
        ms = records[0]["ms"]
        return time_text(ms), ms <= least
    if kind == "fits":
        return judge_fits(bench, records[0])
    result = KINDS[kind](bench, name)
    return (result[1], result[0] >= least) if result else ("not measured", None)


def judge_fits(bench, record):
    """On a CPU one thread counts, on a GPU the whole of it; what to reach differs, too."""
    data = {"environment": bench.environment}
    rate, least = draw_fits.checked(data, record), draw_fits.target_of(data, record)
    if not rate or not least:
        return "not measured", None
    words = "" if draw_fits.is_gpu(data) else " on one thread"
    return f"{draw_fits.rate_text(rate)}{words}, {rate / least:.2f} of it", rate >= least


KINDS = {"best_peer": kind_best_peer, "torch": kind_torch, "one_thread": kind_one_thread,
         "own_matmul": kind_own_matmul, "stream": kind_stream, "same_arrays": kind_same_arrays,
         "memory": kind_memory}


def time_text(ms):
    if ms is None:
        return ""
    for factor, unit in ((1e6, "ns"), (1e3, "µs"), (1, "ms")):
        if ms * factor < 1000:
            return f"{ms * factor:.3g} {unit}"
    return f"{ms / 1000:.3g} s"


def number(value, form="{:.3g}"):
    return "" if value is None else form.format(value)


# ---- Drawing ---------------------------------------------------------------------------------

class Drawing:
    def __init__(self, width, height, label):
        self.width, self.height, self.parts = width, height, []
        self.label = label

    def add(self, text):
        self.parts.append(text)

    def line(self, x1, y1, x2, y2, name="grid"):
        self.add(f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def text(self, x, y, text, anchor="start", name=""):
        self.add(f'<text class="{name}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
                 f'{escape(text)}</text>')

    def bar(self, x, y, width, height, style, title):
        self.add(f'<rect class="f{style}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
                 f'height="{height:.1f}" rx="2"><title>{escape(title)}</title></rect>')

    def svg(self):
        return (f'<div class="wide"><svg viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" role="img" '
                f'aria-label="{escape(self.label)}">' + "".join(self.parts) + "</svg></div>")


def ticks(top, wanted=5):
    """Round values from 0 to a little above `top`."""
    raw = top / wanted
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    return [i * step for i in range(int(math.ceil(top / step - 1e-9)) + 1)]


def legend(drawing, names, x, y):
    for name in names:
        drawing.bar(x, y - 10, 12, 12, style_of(name), name)
        drawing.text(x + 18, y, name)
        x += 34 + 8 * len(name)


def spread(labels, gap):
    """Moves labels [y, …] apart so that they do not overlap, keeping their order."""
    labels.sort(key=lambda label: label[0])
    for i in range(1, len(labels)):
        labels[i][0] = max(labels[i][0], labels[i - 1][0] + gap)
    return labels


def chart_matmul(bench):
    """GFLOP/s of square f32 products against their size, with the peak as a line."""
    series = {}
    for record in bench.records:
        size = record["case"].rsplit("_", 1)[-1]
        if not record["case"].startswith("matmul_") or record["dtype"] != "f32":
            continue
        if record["case"] == f"matmul_{size}" and size.isdigit() and record["gflops"]:
            series.setdefault("libcompute", {})[int(size)] = record["gflops"]
            if record.get("peer_ms"):
                series.setdefault(record["peer"], {})[int(size)] = \
                    record["gflops"] * record["ms"] / record["peer_ms"]
    if not series:
        return ""
    peak = bench.limits.get("fma_f32_gflops") or 0
    sizes = sorted({n for points in series.values() for n in points})
    top = max([peak] + [v for points in series.values() for v in points.values()])
    marks = ticks(top * 1.04)
    d = Drawing(1000, 420, "GFLOP/s of matrix products against size")
    left, right, high, low = 60, 850, 44, 370
    x = lambda n: left + 20 + (right - left - 40) * (
        math.log2(n / sizes[0]) / max(math.log2(sizes[-1] / sizes[0]), 1))
    y = lambda v: low - (low - high) * v / marks[-1]
    for mark in marks:
        d.line(left, y(mark), right, y(mark))
        d.text(left - 8, y(mark) + 4, f"{mark:g}", "end", "soft")
    for n in sizes:
        d.text(x(n), low + 20, n, "middle", "soft")
    d.text(left, high - 22, "GFLOP/s", "start", "soft")
    d.text((left + right) / 2, low + 42, "n of an n × n × n product in f32", "middle", "soft")
    if peak:
        d.line(left, y(peak), right, y(peak), "limit")
        d.text(left + 6, y(peak) - 6, f"multiply-add peak {peak:.0f}", "start", "limit")
    ends = []
    for name in sorted(series, key=lambda s: s == "libcompute"):
        points, style = sorted(series[name].items()), style_of(name)
        path = " ".join(f"{x(n):.1f},{y(v):.1f}" for n, v in points)
        width = 3 if name == "libcompute" else 1.8
        d.add(f'<polyline class="s{style}" fill="none" stroke-width="{width}" points="{path}"/>')
        for n, v in points:
            d.add(f'<circle class="f{style}" cx="{x(n):.1f}" cy="{y(v):.1f}" r="{width + 1.2}">'
                  f'<title>{escape(name)}, n = {n}: {v:.1f} GFLOP/s</title></circle>')
        ends.append([y(points[-1][1]), name, points[-1][1]])
    for position, name, value in spread(ends, 17):
        d.add(f'<text style="fill:var(--c{style_of(name)})" x="{right + 8}" '
              f'y="{position + 4:.1f}">{escape(name)} {value:.0f}</text>')
    return d.svg()


def chart_memory(bench):
    """GB/s of what memory limits, as bars against the streaming limits."""
    names = ("add_1M", "add_10M", "add_100M", "chain_1M", "chain_10M", "relu_1M", "exp_1M",
             "gelu_1M", "sum_all_1024", "sum_all_4096", "sum_rows_4096", "sum_columns_4096",
             "softmax_1000x1000", "softmax_1x1M", "layer_norm_1024", "layer_norm_4096", "copy_4096",
             "transpose_1024", "transpose_4096")
    rows = [bench.case(n)[0] for n in names if bench.case(n) and bench.case(n)[0]["gbytes_s"]]
    if not rows:
        return ""
    copy = bench.limits.get("stream_copy_gbytes_s") or 0
    add = bench.limits.get("stream_add_gbytes_s") or 0
    cut = 3 * max(copy, add) or 1e9 # what stays in the caches is off the scale
    top = min(max([copy, add] + [r["gbytes_s"] for r in rows]), cut)
    marks = ticks(top)
    d = Drawing(1000, 60 + 26 * len(rows) + 30, "memory speed")
    left, right, high = 170, 900, 44
    x = lambda v: left + (right - left) * min(v, marks[-1]) / marks[-1]
    bottom = high + 26 * len(rows)
    for mark in marks:
        d.line(x(mark), high, x(mark), bottom)
        d.text(x(mark), bottom + 18, f"{mark:g}", "middle", "soft")
    d.text(right + 24, bottom + 18, "GB/s", "start", "soft")
    place = [high + 26 * i + 4 for i in range(len(rows))]
    for position, record in zip(place, rows):
        speed = record["gbytes_s"]
        d.text(left - 8, position + 13, record["case"], "end")
        d.bar(left, position, x(speed) - left, 18, 0, f"{record['case']}: {speed:.1f} GB/s")
    for value, name in ((copy, "copy"), (add, "add")):
        if value:
            d.line(x(value), high - 4, x(value), bottom, "limit")
            anchor = "start" if value == max(copy, add) else "end"
            d.text(x(value) + (4 if anchor == "start" else -4), high - 10,
                   f"streaming {name} {value:.1f}", anchor, "limit")
    for position, record in zip(place, rows):
        speed = record["gbytes_s"]
        d.text(x(speed) + 6, position + 13, f"{speed:.1f}" + (" →" if speed > marks[-1] else ""))
    return d.svg()


def chart_speedups(bench):
    """How many times as fast as each peer, for functions and rows."""
    names = [n for n in ("relu_1M", "exp_1M", "log_1M", "tanh_1M", "erf_1M", "sigmoid_1M",
                         "silu_1M", "gelu_1M", "gelu_tanh_1M", "chain_1M", "chain_10M",
                         "softmax_1000x1000", "softmax_1x1M", "layer_norm_4096", "transpose_4096", "sum_rows_4096",
                         "sum_columns_4096", "matmul_bias_gelu_1024", "matmul_bias_gelu_2048",
                         "matmul_bias_gelu_4096")
             if bench.peers(n)]
    if not names:
        return ""
    used = [p for p in PEERS if any(p in bench.peers(n) for n in names)]
    values = [r["speedup"] for n in names for r in bench.peers(n).values()]
    low_exponent = min(-1, math.floor(math.log2(min(values))))
    high_exponent = max(2, math.ceil(math.log2(max(values))))
    heights = [15 * len(bench.peers(n)) + 10 for n in names]
    d = Drawing(1000, 70 + sum(heights) + 26, "speed against peers")
    left, right, high = 190, 930, 50
    scale = (right - left) / (high_exponent - low_exponent)
    x = lambda v: left + scale * (math.log2(v) - low_exponent)
    bottom = high + sum(heights)
    legend(d, used, left, 22)
    for exponent in range(low_exponent, high_exponent + 1):
        d.line(x(2 ** exponent), high, x(2 ** exponent), bottom)
        d.text(x(2 ** exponent), bottom + 18, f"{2.0 ** exponent:g} ×", "middle", "soft")
    position = high
    for name, height in zip(names, heights):
        peers = bench.peers(name)
        d.text(left - 8, position + height / 2 + 4, name, "end")
        for i, peer in enumerate(p for p in used if p in peers):
            speedup = peers[peer]["speedup"]
            start, end = sorted((x(1), x(speedup)))
            d.bar(start, position + 5 + 15 * i, end - start, 12, style_of(peer),
                  f"{name}: {speedup:.2f} times as fast as {peer}")
            if speedup >= 1:
                d.text(end + 5, position + 15 + 15 * i, f"{speedup:.2g}")
            else:
                d.text(start - 5, position + 15 + 15 * i, f"{speedup:.2g}", "end", "limit")
        position += height
    d.add(f'<line class="grid" style="stroke:var(--ink)" x1="{x(1):.1f}" y1="{high}" '
          f'x2="{x(1):.1f}" y2="{bottom}"/>')
    return d.svg()


def chart_overheads(bench):
    """Times on a logarithmic axis, with what is allowed as a mark."""
    names = ("open_first", "open_again", "compile_20_nodes", "step_of_100", "eager_add_16",
             "create_tensor_16", "pool_hit_1MiB", "pool_miss_1MiB")
    allowed = {t[0]: t[2] for t in TARGETS if t[1] == "time"}
    rows = [bench.case(n)[0] for n in names if bench.case(n) and bench.case(n)[0]["ms"]]
    if not rows:
        return ""
    values = [r["ms"] for r in rows] + [allowed[r["case"]] for r in rows if r["case"] in allowed]
    low, top = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    d = Drawing(1000, 40 + 28 * len(rows) + 34, "overheads")
    left, right, high = 170, 800, 30
    x = lambda ms: left + (right - left) * (math.log10(ms) - low) / max(top - low, 1)
    bottom = high + 28 * len(rows)
    for exponent in range(low, top + 1):
        d.line(x(10.0 ** exponent), high, x(10.0 ** exponent), bottom)
        d.text(x(10.0 ** exponent), bottom + 18, time_text(10.0 ** exponent), "middle", "soft")
    for i, record in enumerate(rows):
        position, limit = high + 28 * i + 5, allowed.get(record["case"])
        d.text(left - 8, position + 13, record["case"], "end")
        d.bar(left, position, x(record["ms"]) - left, 18, 0,
              f"{record['case']}: {time_text(record['ms'])}")
        if limit:
            d.line(x(limit), position - 4, x(limit), position + 22, "limit")
        d.text(max(x(record["ms"]), x(limit or record["ms"])) + 7, position + 13,
               time_text(record["ms"]) + (f" (allowed: {time_text(limit)})" if limit else ""))
    return d.svg()


def chart_fits(bench):
    """Fits per second, with the table of what makes the rates comparable."""
    data = {"environment": bench.environment, "records": bench.records}
    picture = draw_fits.drawing(data)
    if not picture:
        return ""
    rows = [[escape(cell) for cell in row] for row in draw_fits.table_rows(data)]
    return f'<div class="wide">{picture}</div>' + table(draw_fits.HEADINGS, rows)


def chart_networks(bench):
    """Against the fastest peers, with the table of all of them."""
    data = {"environment": bench.environment, "records": bench.records}
    picture = draw_networks.drawing(data)
    if not picture:
        return ""
    rows = [[escape(cell) for cell in row] for row in draw_networks.table_rows(data)]
    return f'<div class="wide">{picture}</div>' + table(draw_networks.HEADINGS, rows)


# ---- Tables ----------------------------------------------------------------------------------

def table(head, rows, name=""):
    out = [f'<div class="wide"><table class="{name}">']
    if head:
        out.append("<tr>" + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr>")
    for row in rows:
        out.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>")
    return "".join(out) + "</table></div>"


def bound_text(value, unit):
    return number(value) + (f" {unit}" if unit and value is not None else "")


def goals(bench):
    """(case, to reach, measured, met?) of the records that have a goal of their own."""
    seen = {}
    for record in bench.records:
        goal = record.get("goal")
        if goal:
            side = "at least" if goal["least"] else "at most"
            seen[record["case"], record["device"]] = (
                f"{record['case']} on {record['device']}",
                f"{goal['what']}: {side} {bound_text(goal['allowed'], goal['unit'])}",
                bound_text(goal["seen"], goal["unit"]), goal["met"])
    return list(seen.values())


def verdicts(bench):
    """(case, to reach, measured, met?) of all targets; met is None where nothing was measured."""
    return [(t[0], t[3], *judge(bench, t)) for t in TARGETS] + goals(bench)


def table_targets(bench):
    rows = []
    for case, reach, measured, met in verdicts(bench):
        mark = '<span class="soft">–</span>' if met is None else \
            '<span class="good">✓ met</span>' if met else '<span class="miss">✗ missed</span>'
        rows.append((escape(case), escape(reach), escape(measured), mark))
    return table(("case", "to reach", "measured", ""), rows)


def state_of(record):
    """Why a record is wrong, or that it only took longer than its goal."""
    goal = record.get("goal")
    if not record["ok"]:
        words = (record.get("failure") or {}).get("text") or "failed"
        return f'<span class="bad">✗ wrong: {escape(words)}</span>'
    if goal and not goal["met"]:
        words = f"{goal['what']} {number(goal['seen'])}, goal {number(goal['allowed'])}"
        return f'<span class="miss">missed: {escape(words)}</span>'
    return ""


def table_suite(bench, suite):
    rows = []
    for first, group in bench.suite(suite):
        peers = ", ".join(f"{escape(r['peer'])} {r['speedup']:.2f} ×" for r in group
                          if r.get("speedup"))
        state = state_of(next((r for r in group if state_of(r)), first))
        rows.append((escape(first["case"]), first["dtype"], time_text(first["ms"]),
                     f"{time_text(first['ms_p10'])} … {time_text(first['ms_p90'])}",
                     number(first["gflops"], "{:.1f}"), number(first["gbytes_s"], "{:.1f}"),
                     number(first["max_rel_err"], "{:.1e}"), peers, state))
    return table(("case", "dtype", "median", "p10 … p90", "GFLOP/s", "GB/s", "error",
                  "times as fast as", ""), rows)


def table_environment(environment):
    def text(value):
        if isinstance(value, dict):
            return "<br>".join(f"{escape(k)} = {escape(v)}" for k, v in value.items()) or "none"
        if isinstance(value, list):
            return "<br>".join(escape(v) for v in value) or "none"
        return "unknown" if value in (None, "") else escape(value)
    words = {"variables": "variables set by the user",
             "benchmark_variables": "variables set by compute-bench",
             "device_notes": "warnings of the device"}
    rows = [(escape(words.get(key, key.replace("_", " "))), text(value))
            for key, value in environment.items() if not (key == "device_notes" and not value)]
    return table(None, rows, "facts")


def print_verdicts(bench):
    """How many targets are met, and by how much the others are missed, for the terminal."""
    checked = [v for v in verdicts(bench) if v[3] is not None]
    print(f"{sum(v[3] for v in checked)} of {len(checked)} targets met")
    for case, reach, measured, met in checked:
        if not met:
            print(f"missed: {case}: {measured}, goal: {reach}")


def tiles(bench):
    checked = [met for *_, met in verdicts(bench)]
    failed = sorted({r["case"] for r in bench.records if not r["ok"]})
    best = max((r["gflops"] for r in bench.records if r["suite"] == "matmul" and r["gflops"]
                and r["dtype"] == "f32"), default=None)
    peak = bench.limits.get("fma_f32_gflops")
    cases = {(r["suite"], r["case"]) for r in bench.records}
    entries = [(str(len(cases)), "cases checked and timed"),
               (str(len(failed)), "cases wrong"),
               (f"{checked.count(True)} of {len(checked) - checked.count(None)}", "targets met")]
    if best and peak:
        entries.append((f"{100 * best / peak:.0f} %", "of the multiply-add peak in f32 matmul"))
    out = "".join(f'<div class="tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>'
                  for a, b in entries)
    warning = f'<p class="note">Failed: {escape(", ".join(failed))}</p>' if failed else ""
    return f'<div class="tiles">{out}</div>{warning}'


def page(bench):
    e = bench.environment
    suites = list(dict.fromkeys(r["suite"] for r in bench.records))
    notes = "".join(f'<p class="note">{escape(n)}</p>' for n in e.get("notes", []))
    charts = [
        ("Matrix products", "f32, every competitor on the same matrices in one process.",
         chart_matmul(bench)),
        ("Memory speed", "Bytes read once and written once per second. What fits into the caches "
         "may pass the streaming limits.", chart_memory(bench)),
        ("Against other libraries", "Times as fast as each peer; the scale is logarithmic. "
         "“plain” is the call that allocates its result.", chart_speedups(bench)),
        ("Networks", "Convolutions, pooling, normalisation, training steps; the scale is "
         "logarithmic. “reordered”: the peer brings data into the layout that it likes best and "
         "back in every run; “blocked”: data have been brought there before and stay there; "
         "“_wino”: Winograd's filtering is allowed.", chart_networks(bench)),
        ("Gaussian fits", "Simulated spots, from arrays in memory (or what else is said) to "
         "parameters, uncertainties, ratio, p-value, steps and status; the scale is logarithmic.",
         chart_fits(bench)),
        ("Overheads", "Medians; dashed marks are what is allowed.", chart_overheads(bench))]
    body = [f"<h1>libcompute {escape(e.get('library_version', ''))}: how fast it is here</h1>",
            f'<p class="soft">{escape(e.get("cpu_model"))} · {escape(e.get("isa"))} · '
            f'{escape(e.get("threads"))} threads · device {escape(e.get("device"))} · '
            f'{escape(e.get("date"))} · {"quick" if e.get("quick") else "full"} run</p>',
            tiles(bench), notes]
    body += [f'<h2>{title}</h2><p class="soft">{text}</p>{drawing}'
             for title, text, drawing in charts if drawing]
    body += ["<h2>Against the targets</h2>", table_targets(bench)]
    body += [f"<h2>All records: {escape(s)}</h2>{table_suite(bench, s)}" for s in suites]
    body += ["<h2>Environment</h2>", table_environment(e)]
    return ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>libcompute benchmark</title><style>{CSS}</style></head>"
            f"<body>{''.join(body)}</body></html>\n")


def main():
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        print(__doc__, file=sys.stdout if "--help" in sys.argv else sys.stderr)
        return 0 if "--help" in sys.argv else 2
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            bench = Bench(json.load(file))
        text = page(bench)
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(text)
        print_verdicts(bench)
    except (OSError, ValueError, KeyError) as error:
        print(f"report.py: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
