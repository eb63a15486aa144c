#!/usr/bin/env python3
"""Draws the networks of compute-bench's JSON (suites conv, pool, norm, train) as an SVG picture,
and prints them as a Markdown table.

usage: draw_networks.py BENCH.json PICTURE.svg

One row for each case that has a peer: how many times as fast as the fastest peer that takes and
gives the same arrays, and (thin) as the fastest one whose data lie in its own layout already and
stay there, as inside of a network; on a logarithmic axis, with what the project has set itself to
reach as a mark. The colours follow the reader's light or dark paper. Standard library only. The
exit status is 77 where there is nothing to draw.
"""
import html
import math
import sys

import colours
import draw_main

SUITES = ("conv", "pool", "norm", "train")

# Case: times as fast as which peer's fastest call on the same arrays ("": any peer's).
TARGETS = {"conv3x3_128": (1.8, ""), "conv3x3_128_wino": (1.8, ""), "conv3x3_56": (1.1, ""),
           "conv3x3_64": (1.1, ""), "conv1x1_56": (1.5, ""), "conv7x7_224": (1.1, ""),
           "max_pool_2x2": (4, "torch"), "average_pool_2x2": (4, "torch"),
           "batch_norm_32": (1, ""), "softmax_1000": (1.5, "torch"),
           "layer_norm_rows": (2, "torch"), "mlp_forward_128": (2, "torch"),
           "mlp_step_128": (2, "torch"), "cnn_step_128": (2, "torch")}
INSIDE = ("dnnl blocked", "dnnl winograd") # data in the peer's own layout

WIDTH, LABELS, ROW, HEAD, FOOT = 1000, 230, 26, 92, 64
CSS = colours.style("""
svg.networks text { fill: $ink; stroke: none; font: 13px system-ui, "DejaVu Sans", sans-serif; }
svg.networks .soft { fill: $soft; }
svg.networks .title { font-size: 16px; font-weight: 600; }
svg.networks .paper { fill: $paper; }
svg.networks .line { stroke: $line; }
svg.networks .one { stroke: $ink; }
svg.networks .same { fill: $same; }
svg.networks .inside { fill: $inside; }
svg.networks .mark { stroke: $mark; stroke-width: 2; }
""", light={"same": "#1f5fd0", "inside": "#b86e00", "mark": "#b3261e"},
                    dark={"same": "#6ea8ff", "inside": "#f0a840", "mark": "#ff8a80"})


class Case:
    """The records of one case: one for each peer, or one alone."""

    def __init__(self, records):
        self.first = records[0]
        self.name = self.first["case"]
        self.peers = {r["peer"]: r["speedup"] for r in records if r.get("speedup")}

    def fastest(self, inside, prefix=""):
        """(peer, ratio) of the fastest one of its kind; None without one."""
        ratios = [(s, p) for p, s in self.peers.items()
                  if (p in INSIDE) == inside and p.startswith(prefix)]
        return min(ratios)[::-1] if ratios else None

    def goal(self):
        """(ratio to reach, against what in words, ratio reached or None), or None."""
        if self.name not in TARGETS:
            return None
        least, prefix = TARGETS[self.name]
        peer = self.fastest(False, prefix)
        return least, prefix or "any peer", peer and peer[1]


def cases(bench):
    """The cases of networks that were right, in order."""
    groups = {}
    for record in bench["records"]:
        if record["suite"] in SUITES and record["ok"]:
            groups.setdefault((record["suite"], record["case"]), []).append(record)
    return [Case(group) for group in groups.values()]


# ---- The picture -----------------------------------------------------------------------------

def drawing(bench):
    """The picture as one <svg> element; '' where nothing was compared."""
    rows = [c for c in cases(bench) if c.peers]
    if not rows:
        return ""
    values = [s for c in rows for s in c.peers.values()]
    low = min(-1, math.floor(math.log2(min(values))))
    top = max(2, math.ceil(math.log2(max(values) * 1.05)))
    right, bottom = WIDTH - 90, HEAD + ROW * len(rows)
    x = lambda v: LABELS + (right - LABELS) * (math.log2(v) - low) / (top - low)
    title = f"Networks against oneDNN and libtorch: {bench['environment'].get('cpu_model')}"
    height = bottom + FOOT
    out = [f'<svg class="networks" xmlns="http://www.w3.org/2000/svg" '
           f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
           f"<title>{html.escape(title)}</title>", f"<style>{CSS}</style>",
           f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
           f'<text class="title" x="20" y="28">{html.escape(title)}</text>']
    at = 20
    for kind, words in (("same", "fastest peer on the same arrays"),
                        ("inside", "fastest peer inside of its own layout"),
                        ("mark", "to be reached")):
        if kind == "mark":
            out.append(f'<line class="mark" x1="{at + 6}" y1="44" x2="{at + 6}" y2="60"/>')
        else:
            out.append(f'<rect class="{kind}" x="{at}" y="46" width="12" height="12" rx="2"/>')
        out.append(f'<text class="soft" x="{at + 18}" y="57">{words}</text>')
        at += 40 + 7 * len(words)
    for exponent in range(low, top + 1):
        place, name = x(2.0 ** exponent), "one" if exponent == 0 else "line"
        out.append(f'<line class="{name}" x1="{place:.1f}" y1="{HEAD - 8}" x2="{place:.1f}" '
                   f'y2="{bottom}"/>')
        out.append(f'<text class="soft" x="{place:.1f}" y="{bottom + 20}" text-anchor="middle">'
                   f"{2.0 ** exponent:g} ×</text>")
    out.append(f'<text class="soft" x="20" y="{bottom + 46}">Times as fast, '
               f"{bench['environment'].get('threads')} threads; medians of runs in turn in one "
               "process, every result checked.</text>")
    for i, case in enumerate(rows):
        y, end = HEAD + ROW * i, x(1)
        out.append(f'<text x="{LABELS - 10}" y="{y + 16}" text-anchor="end">'
                   f"{html.escape(case.name)}</text>")
        for kind, start, thick in (("same", y + 2, 14), ("inside", y + 17, 5)):
            peer = case.fastest(kind == "inside")
            if not peer:
                continue
            ends = sorted((x(1), x(peer[1])))
            end = max(end, ends[1])
            out.append(f'<rect class="{kind}" x="{ends[0]:.1f}" y="{start}" '
                       f'width="{max(ends[1] - ends[0], 1):.1f}" height="{thick}" rx="2">'
                       f"<title>{html.escape(case.name)}: {peer[1]:.2f} times as fast as "
                       f"{html.escape(peer[0])}</title></rect>")
        goal, same = case.goal(), case.fastest(False)
        if goal:
            # Where the goal is one peer's, the mark stands as far from the bar's end as that peer.
            mark = x(goal[0] * (same[1] / goal[2] if same and goal[2] else 1))
            end = max(end, mark)
            out.append(f'<line class="mark" x1="{mark:.1f}" y1="{y}" x2="{mark:.1f}" '
                       f'y2="{y + 23}"><title>{goal[0]:g} × {goal[1]}</title></line>')
        if same:
            out.append(f'<text x="{end + 7:.1f}" y="{y + 14}">{same[1]:.2f}</text>')
    return "\n".join(out + ["</svg>"])


# ---- The table -------------------------------------------------------------------------------

HEADINGS = ("case", "median", "GFLOP/s, samples/s", "error", "fastest peer", "to reach",
            "all peers")


def time_text(ms):
    for factor, unit in ((1e3, "µs"), (1, "ms"), (1e-3, "s")):
        if ms * factor < 1000 or unit == "s":
            return f"{ms * factor:.3g} {unit}"
    return ""


def table_rows(bench):
    """A list of cells for each case, as HEADINGS names them."""
    for case in cases(bench):
        record, peer, reached = case.first, case.fastest(False), case.goal()
        training = record.get("training", {})
        rate = f"{record['gflops']:.0f}" if record["gflops"] else "–"
        if training:
            rate = f"{training['samples_per_second']:.0f}"
        goal = "–"
        if reached:
            goal = f"{reached[0]:g} × {reached[1]}"
            if reached[2]:
                part = reached[2] / reached[0]
                goal += ": yes" if part >= 1 else f": {part:.2f} of it"
        if training.get("planned_bytes"):
            goal = (f"{training['measured_bytes'] * 1e-6:.2f} MB of "
                    f"{training['planned_bytes'] * 1e-6:.2f} MB planned, after "
                    f"{training['steps']:.0f} steps {training['growth_bytes'] * 1e-6:.1f} MB more")
        yield (case.name, time_text(record["ms"]), rate,
               f"{record['max_rel_err']:.1e}" if record["max_rel_err"] is not None else "–",
               f"{peer[1]:.2f} × {peer[0]}" if peer else "–", goal,
               ", ".join(f"{p} {s:.2f}" for p, s in case.peers.items()) or "–")


if __name__ == "__main__":
    sys.exit(draw_main.run(__doc__, drawing, HEADINGS, table_rows,
                           "no network in {} has a peer", 77))
