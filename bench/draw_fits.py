#!/usr/bin/env python3
"""Draws the fits of compute-bench's JSON as an SVG picture, and prints them as a Markdown table.

usage: draw_fits.py BENCH.json PICTURE.svg

One row for each case of suite "fit": ROIs per second on all threads and on one, on a logarithmic
axis, with what the project has set itself to reach on one thread (on a GPU: on the device) as a
mark. The colours follow the reader's light or dark paper. Standard library only.
"""
import html
import math
import sys

import colours
import draw_main

# Case: ROIs per second to reach, on a CPU on one thread.
TARGETS_CPU = {"XYNB_7": 6e6, "XYNB_7_u16": 6e6, "XYNB_11": 2.5e6, "XYNB_11_u16": 2.5e6,
               "XYNBS_7": 3e6, "XYNBS_7_u16": 3e6, "XYNBSXSY_7": 2e6, "XYNBSXSY_7_u16": 2e6,
               "XYZNB_11": 1e6, "XYZNB_11_u16": 1e6}
TARGETS_GPU = {"XYNB_7_plan": 500e6, "XYNB_7": 100e6, "XYNB_7_u16": 100e6}

WIDTH, LABELS, ROW, HEAD, FOOT = 1000, 250, 44, 92, 64
CSS = colours.style("""
svg.fits text { fill: $ink; stroke: none; font: 13px system-ui, "DejaVu Sans", sans-serif; }
svg.fits .soft { fill: $soft; }
svg.fits .title { font-size: 16px; font-weight: 600; }
svg.fits .paper { fill: $paper; }
svg.fits .line { stroke: $line; }
svg.fits .all { fill: $all; }
svg.fits .one { fill: $one; }
svg.fits .mark { stroke: $mark; stroke-width: 2; }
""", light={"all": "#1f5fd0", "one": "#0b8074", "mark": "#b3261e"},
                    dark={"all": "#6ea8ff", "one": "#3fc7b6", "mark": "#ff8a80"})
# Of a fit's object in the JSON file.
ALL, ONE = "rois_per_second", "rois_per_second_one_thread"


def fits(bench):
    """The records of fits that were right, each case once."""
    cases = {}
    for record in bench["records"]:
        if record["suite"] == "fit" and record.get("fit") and record["ok"]:
            cases.setdefault(record["case"], record)
    return list(cases.values())


def is_gpu(bench):
    return not (bench["environment"].get("device") or "cpu").startswith("cpu")


def target_of(bench, record):
    return (TARGETS_GPU if is_gpu(bench) else TARGETS_CPU).get(record["case"])


def checked(bench, record):
    """What is held against the target: one thread on a CPU, all of a GPU."""
    fit = record["fit"]
    return fit[ALL] if is_gpu(bench) else fit.get(ONE)


def rate_text(rate):
    """Three digits, and none of an exponent."""
    if not rate:
        return "–"
    digits = max(0, 2 - math.floor(math.log10(rate * 1e-6)))
    return f"{rate * 1e-6:.{min(digits, 3)}f} M/s"


def name_of(record):
    """'XYNB, 7 × 7, u16' and what is special."""
    words = record["case"].split("_")
    fit = record["fit"]
    special = {"plan": "on the device", "tiff": "TIFF to CSV", "10M": "10 M, callbacks"}
    more = [special[w] for w in words if w in special]
    return ", ".join([words[0], f"{fit['rows']} × {fit['columns']}", record["dtype"]] + more)


# ---- The picture -----------------------------------------------------------------------------

def drawing(bench):
    """The picture as one <svg> element; '' where there are no fits."""
    rows = fits(bench)
    if not rows:
        return ""
    values = [r["fit"][k] for r in rows for k in (ALL, ONE) if r["fit"].get(k)]
    values += [t for r in rows if (t := target_of(bench, r))]
    low, top = math.floor(math.log10(min(values) * 0.7)), math.ceil(math.log10(max(values)))
    right, bottom = WIDTH - 110, HEAD + ROW * len(rows)
    x = lambda v: LABELS + (right - LABELS) * (math.log10(v) - low) / max(top - low, 1)
    environment = bench["environment"]
    machine = environment.get("device" if is_gpu(bench) else "cpu_model") or "a machine"
    title, height = f"Gaussian fits per second: {machine}", bottom + FOOT
    out = [f'<svg class="fits" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           f'width="{WIDTH}" height="{height}" role="img">',
           f"<title>{html.escape(title)}</title>", f"<style>{CSS}</style>",
           f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
           f'<text class="title" x="20" y="28">{html.escape(title)}</text>']
    at = 20
    threads = "the whole device" if is_gpu(bench) else f"{environment.get('threads')} threads"
    for kind, words in (("all", threads), ("one", "one thread"), ("mark", "to be reached")):
        if kind == "one" and is_gpu(bench):
            continue
        if kind == "mark":
            out.append(f'<line class="mark" x1="{at + 6}" y1="44" x2="{at + 6}" y2="60"/>')
        else:
            out.append(f'<rect class="{kind}" x="{at}" y="46" width="12" height="12" rx="2"/>')
        out.append(f'<text class="soft" x="{at + 18}" y="57">{words}</text>')
        at += 40 + 8 * len(words)
    for exponent in range(low, top + 1):
        place = x(10.0 ** exponent)
        out.append(f'<line class="line" x1="{place:.1f}" y1="{HEAD - 8}" x2="{place:.1f}" '
                   f'y2="{bottom}"/>')
        words = f"{10.0 ** (exponent - 6):g} M/s"
        out.append(f'<text class="soft" x="{place:.1f}" y="{bottom + 20}" '
                   f'text-anchor="middle">{words}</text>')
    out.append(f'<text class="soft" x="20" y="{bottom + 46}">Simulated: 1000 photons, 10 of '
               "background per pixel, σ = 1.3 pixels. Out: parameters, uncertainties, ratio, "
               "p-value, steps, status.</text>")
    for i, record in enumerate(rows):
        fit, y = record["fit"], HEAD + ROW * i
        bars = [(k, kind) for k, kind in ((ALL, "all"), (ONE, "one")) if fit.get(k)]
        out.append(f'<text x="{LABELS - 10}" y="{y + 22}" text-anchor="end">'
                   f"{html.escape(name_of(record))}</text>")
        height = 32 / len(bars) if len(bars) > 1 else 18
        start = y + 2 if len(bars) > 1 else y + 9
        target, words = target_of(bench, record), []
        for j, (key, kind) in enumerate(bars):
            place = start + j * height
            out.append(f'<rect class="{kind}" x="{LABELS}" y="{place:.1f}" '
                       f'width="{x(fit[key]) - LABELS:.1f}" height="{height - 2:.1f}" rx="2"/>')
            beside = max(x(fit[key]), x(target) if target else 0) + 8
            words.append(f'<text x="{beside:.1f}" y="{place + height / 2 + 4:.1f}">'
                         f"{rate_text(fit[key])}</text>")
        if target:
            out.append(f'<line class="mark" x1="{x(target):.1f}" y1="{y}" x2="{x(target):.1f}" '
                       f'y2="{y + 36}"/>')
        out += words
    return "\n".join(out + ["</svg>"])


# ---- The table -------------------------------------------------------------------------------

HEADINGS = ("case", "parameters", "all threads", "one thread", "to reach", "steps", "converged",
            "std / bound", "p-values")


def table_rows(bench):
    """A list of cells for each fit, as HEADINGS names them."""
    for record in fits(bench):
        fit, target = record["fit"], target_of(bench, record)
        number = lambda key, form: form.format(fit[key]) if fit.get(key) else "–"
        reached = checked(bench, record)
        goal = "–"
        if target:
            goal = rate_text(target) + (": " + ("yes" if reached >= target else
                                               f"{reached / target:.2f} of it") if reached else "")
        yield (name_of(record), str(fit["parameters"]), rate_text(fit[ALL]),
               rate_text(fit.get(ONE)), goal, number("iterations", "{:.2f}"),
               f"{100 * fit['converged']:.2f} %" if fit.get("converged") else "–",
               number("std_over_bound", "{:.3f}"), number("p_mean", "{:.3f}"))


if __name__ == "__main__":
    sys.exit(draw_main.run(__doc__, drawing, HEADINGS, table_rows,
                           "{} has no fits", 1))
