#!/usr/bin/env python3
"""Draws a timeline (compute_profile_write_trace, or COMPUTE_TRACE=FILE) as an SVG picture.

usage: draw_trace.py TRACE.json PICTURE.svg [--from MS] [--to MS] [--title TEXT]

One row for each queue of each device and for each named row of the host; a box for each stretch of
time. The colours follow the reader's light or dark paper. Standard library only.
"""
import argparse
import html
import json
import math
import sys

import colours

WIDTH, LABELS, ROW, GAP, HEAD, FOOT = 1000, 150, 26, 8, 64, 44
KINDS = (  # category of the trace, word in the legend
    ("source", "source is read"), ("upload", "upload"), ("kernel", "compute"),
    ("download", "download"), ("sink", "sink is written"))
CSS = colours.style("""
text { fill: $ink; font: 13px system-ui, "DejaVu Sans", sans-serif; }
.soft { fill: $soft; }
.title { font-size: 16px; font-weight: 600; }
.paper { fill: $paper; }
.band { fill: $band; }
.line { stroke: $line; }
""" + "".join(f".{kind} {{ fill: ${kind}; }}\n" for kind, _ in KINDS),
                    light={"band": "#f5f7f9", "source": "#8a6fd1", "upload": "#1f5fd0",
                           "kernel": "#147a4b", "download": "#b86e00", "sink": "#b5306f"},
                    dark={"band": "#1c222a", "source": "#b79bf5", "upload": "#6ea8ff",
                          "kernel": "#55c48c", "download": "#f0a840", "sink": "#f07db4"})


def kind_of(event):
    """The colour of a box, or None for what is no work of its own."""
    category, name = event.get("cat", ""), event["name"]
    if category == "transfer":
        return "upload" if name == "upload" else "download" if name == "download" else None
    if category == "span":
        return {"read": "source", "write": "sink"}.get(name)
    return "kernel" if category in ("kernel", "recording") else None


def read(path):
    """Rows as (label, [(begin, end, kind, name)]), in milliseconds from the first box."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {"process_name": {}, "thread_name": {}}
    rows = {}
    for event in events:
        if event["ph"] == "M" and event["name"] in names:
            key = event["pid"] if event["name"] == "process_name" else (event["pid"], event["tid"])
            names[event["name"]][key] = event["args"]["name"]
        elif event["ph"] == "X" and kind_of(event):
            box = (event["ts"] / 1e3, (event["ts"] + event["dur"]) / 1e3, kind_of(event),
                   event["name"])
            rows.setdefault((event["pid"], event["tid"]), []).append(box)
    if not rows:
        sys.exit(f"draw_trace: {path} has nothing to draw")
    start = min(box[0] for boxes in rows.values() for box in boxes)
    named = []
    for key, boxes in rows.items():
        process, thread = names["process_name"].get(key[0], ""), names["thread_name"].get(key, "")
        place = 0 if thread == "source" else 2 if thread == "sink" else 1
        label = thread if process == "host" else f"{process} {thread}"
        named.append((place, key[0], label,
                      [(b - start, e - start, kind, name) for b, e, kind, name in sorted(boxes)]))
    return [(label, boxes) for _, _, label, boxes in sorted(named, key=lambda row: row[:3])]


def ticks(first, last):
    """About eight round numbers from first to last."""
    rough = (last - first) / 8
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    at = math.ceil(first / step) * step
    while at <= last + 1e-9:
        yield at
        at += step


def draw(rows, first, last, title):
    height = HEAD + len(rows) * (ROW + GAP) + FOOT
    scale = (WIDTH - LABELS - 20) / (last - first)
    used = {kind for _, boxes in rows for b, e, kind, _ in boxes if e > first and b < last}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           f'width="{WIDTH}" height="{height}" role="img">',
           f"<title>{html.escape(title)}</title><style>{CSS}</style>",
           f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
           f'<text class="title" x="20" y="26">{html.escape(title)}</text>']
    x = LABELS
    for kind, words in KINDS:
        if kind in used:
            out.append(f'<rect class="{kind}" x="{x}" y="38" width="12" height="12" rx="2"/>'
                       f'<text class="soft" x="{x + 18}" y="49">{words}</text>')
            x += 40 + 7.5 * len(words)
    bottom = HEAD + len(rows) * (ROW + GAP)
    for i, (label, _) in enumerate(rows):
        y = HEAD + i * (ROW + GAP)
        out.append(f'<rect class="band" x="{LABELS}" y="{y}" width="{WIDTH - LABELS - 20}" '
                   f'height="{ROW}"/><text x="{LABELS - 12}" y="{y + ROW - 8}" '
                   f'text-anchor="end">{html.escape(label)}</text>')
    for at in ticks(first, last):
        x = LABELS + (at - first) * scale
        out.append(f'<line class="line" x1="{x:.1f}" y1="{HEAD}" x2="{x:.1f}" y2="{bottom}"/>'
                   f'<text class="soft" x="{x:.1f}" y="{bottom + 18}" '
                   f'text-anchor="middle">{at - first:g}</text>')
    out.append(f'<text class="soft" x="{WIDTH - 20}" y="{bottom + 36}" '
               'text-anchor="end">milliseconds</text>')
    for i, (_, boxes) in enumerate(rows):
        y = HEAD + i * (ROW + GAP)
        for begin, end, kind, name in boxes:
            if end <= first or begin >= last:
                continue
            left = LABELS + (max(begin, first) - first) * scale
            width = max((min(end, last) - max(begin, first)) * scale - 0.6, 0.8)
            out.append(f'<rect class="{kind}" x="{left:.1f}" y="{y + 3}" width="{width:.1f}" '
                       f'height="{ROW - 6}" rx="2"><title>{html.escape(name)}: '
                       f"{end - begin:.2f} ms</title></rect>")
    return "\n".join(out + ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="first", type=float, default=0.0, metavar="MS")
    parser.add_argument("--to", dest="last", type=float, metavar="MS")
    parser.add_argument("--title", default="Batches under way")
    arguments = parser.parse_args()
    rows = read(arguments.trace)
    end = max(box[1] for _, boxes in rows for box in boxes)
    last = arguments.last if arguments.last is not None else end
    if last <= arguments.first:
        sys.exit("draw_trace: there is nothing between --from and --to")
    rows = [(label, boxes) for label, boxes in rows
            if any(e > arguments.first and b < last for b, e, _, _ in boxes)]
    if not rows:
        sys.exit("draw_trace: there is nothing between --from and --to")
    with open(arguments.picture, "w", encoding="utf-8") as file:
        file.write(draw(rows, arguments.first, last, arguments.title))


if __name__ == "__main__":
    main()
