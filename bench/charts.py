# SPDX-License-Identifier: MIT
"""Pictures as SVG that follow the reader's light or dark theme, drawn with matplotlib.

A picture is drawn for a width in CSS pixels and not scaled, so that text keeps its size; phones
get a separate picture. Colours are literal, so that viewers without style sheets show the light
picture; theme() replaces them for readers who prefer dark.
"""

import html
import io
import math
import re
import textwrap
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    AVAILABLE = True
except ImportError:
    AVAILABLE = False

PAPER, INK, SOFT, GRID, LIMIT = "#ffffff", "#1c2430", "#5b6675", "#d9dee5", "#b3261e"
SERIES = ("#1f5fd0", "#b86e00", "#0b8074", "#b5306f", "#7a4fc0", "#5f6b1f")
MARKERS, DASHES = ("o", "s", "D", "^", "v", "P"), ("--", ":")
DARK = dict(zip((PAPER, INK, SOFT, GRID, LIMIT), "#14181e #e6e9ee #9aa5b3 #313a46 #ff8a80".split()))
DARK |= dict(zip(SERIES, "#6ea8ff #f0a840 #3fc7b6 #f07db4 #b79bf5 #c3cf6b".split()))
LINE, GAP, SMALL = 17, 7, 11.5  # heights of lines and of gaps between rows; small text
DESK, HAND = 880, 340  # widths of pictures
STYLE = {
    **{"svg.fonttype": "none", "svg.hashsalt": "libcompute"},
    **{"font.family": ["DejaVu Sans", "sans-serif"], "font.size": 12, "text.color": INK},
    **{f"{side}tick.labelcolor": SOFT for side in "xy"},
    **{f"{side}tick.labelsize": SMALL for side in "xy"},
}


@dataclass
class Point:
    series: int  # index of colour and shape
    value: float
    text: str
    title: str  # shown under the pointer


@dataclass
class Row:
    name: str
    points: list[Point]


@dataclass
class Chart:
    title: str
    rows: list[Row]
    series: dict[int, str]  # names, for the legend
    base: int  # of a logarithmic axis with dots; 0: linear, from 0, with bars
    tick: Callable[[float], str]
    limits: dict[str, float] = field(default_factory=dict)
    heading: bool = False  # a standalone picture, which includes its title
    below: str = ""


@dataclass
class Curve:
    series: int
    points: list[tuple[float, float]]


@dataclass
class Box:
    series: int
    begin: float
    end: float
    title: str


def theme() -> str:
    """CSS that gives all pictures their dark colours."""
    rules = "\n".join(
        f'svg [style*="{kind}: {light}"] {{ {kind}: {dark} !important; }}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme: dark) {{\n{rules}\n}}\n"


def svg(figure: Any, title: str, alone: bool = False) -> str:
    """The figure as one <svg> element; names in it begin with the title and the width, so that
    one page can hold many."""
    file = io.StringIO()
    figure.savefig(
        file, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")), format="svg"
    )
    width, height = (round(side * 72) for side in figure.get_size_inches())
    name = re.sub(r"\W+", "-", title.lower()) + f"-{width}-"
    text = re.sub(
        r"^.*?<svg[^>]*>|<(metadata|style).*?</\1>|<!--.*?-->", "", file.getvalue(), flags=re.S
    )
    text = re.sub(r'<g id="title:([^"]*)">', r"<g><title>\1</title>", text)
    text = re.sub(r' id="[A-Za-z.0-9]*_\d+"', "", text)
    text = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}", text)
    text = re.sub(r"\s*\n\s*<", "\n<", text)  # a line for each element
    text = re.sub(r"\s*\n\s*(?!<)", " ", text)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f"<title>{html.escape(title)}</title>{f'<style>{theme()}</style>' if alone else ''}{text}"
    )


# ---- Parts of a picture ----------------------------------------------------------------------


def marks_of(names: dict[int, str], limits: dict[str, float], unit: str = "") -> list[Any]:
    """What the legend shows."""
    marks = [
        Line2D([], [], color=SERIES[i], marker=MARKERS[i], ls="", ms=7, label=name)
        for i, name in names.items()
    ]
    return marks + [
        Line2D([], [], color=LIMIT, ls=dash, lw=1.5, label=f"{name} {value:.3g} {unit}")
        for dash, (name, value) in zip(DASHES, limits.items())
    ]


class Sheet:
    """A figure with a heading, a legend and a note, and axes of the given pixels between them."""

    def __init__(self, width: int, middle: float, marks: list[Any], heading: str, below: str):
        longest = max((len(mark.get_label()) for mark in marks), default=0)
        columns = max(1, min(len(marks), int(width // (7 * longest + 40))))
        words, note = textwrap.wrap(heading, width // 9), textwrap.wrap(below, width // 7)
        upper = 20 * len(words) + 6
        self.above = upper + LINE * math.ceil(len(marks) / columns) + 26
        self.below = LINE * len(note) + 28
        self.width, self.middle = width, middle
        self.height = self.above + middle + self.below
        matplotlib.rcParams.update(STYLE)
        self.figure = Figure((width / 72, self.height / 72), dpi=72, facecolor=PAPER)
        for i, line in enumerate(words):
            self.write(16 + 20 * i, line, size=15, weight="bold")
        for i, line in enumerate(note):
            self.write(self.height - LINE * (len(note) - i - 0.3), line, color=SOFT, size=SMALL)
        if marks:
            place = {"loc": "upper left", "bbox_to_anchor": (0, 1 - upper / self.height)}
            look = {
                "borderpad": 0.2,
                "handletextpad": 0.4,
                "handlelength": 1.5,
                "labelspacing": 0.42,
            }
            self.figure.legend(handles=marks, ncol=columns, frameon=False, **place, **look)

    def write(self, y: float, text: str, **how: Any) -> None:
        """A line of text, y pixels below the top."""
        self.figure.text(8 / self.width, 1 - y / self.height, text, va="center_baseline", **how)

    def axes(self, left: float, right: float, grid: str) -> Any:
        """Axes with margins in pixels, without a frame."""
        width, height = 1 - (left + right) / self.width, self.middle / self.height
        box = (left / self.width, self.below / self.height, width, height)
        axes = self.figure.add_axes(box, facecolor="none")
        axes.spines[:].set_visible(False)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, labeltop=grid == "x")
        axes.grid(axis=grid, color=GRID, lw=0.8)
        return axes

    def rows(self, axes: Any) -> None:
        """Makes y count pixels from the top."""
        axes.set_ylim(self.middle, 0)
        axes.set_yticks([])


def label(
    axes: Any, text: str, x: float, y: float, right: float, colour: str = INK, **how: Any
) -> None:
    """Text beside (x, y), on a background that covers the grid."""
    paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6}
    place = {"xytext": (right, 0), "textcoords": "offset points", "va": "center_baseline"}
    axes.annotate(text, (x, y), color=colour, bbox=paper, **place, **how)


# ---- Rows of dots or bars --------------------------------------------------------------------


STEPS = ((1, 1.5, 2, 3, 5, 7, 10), (1, 2, 5, 10), (1, 10))  # ticks from a power of ten to the next


def ticks(base: int, low: float, high: float, most: float) -> list[float]:
    """At most about `most` evenly spread ticks for a logarithmic axis: powers of two, 1 among
    them; round numbers between powers of ten, or every nth of these powers."""
    if base == 2:
        step = max(1, math.ceil(math.log2(high / low) / most))
        first, last = math.ceil(math.log2(low) / step), math.floor(math.log2(high) / step)
        return [2.0 ** (step * k) for k in range(first, last + 1)]
    ratio = (high / low) ** (1 / most)  # of neighbours, at least
    wide = [steps for steps in STEPS if ratio <= min(b / a for a, b in zip(steps, steps[1:]))]
    steps, every = (wide or STEPS[-1:])[0][:-1], max(1, math.ceil(math.log10(ratio)))
    first, last = every * math.floor(math.log10(low) / every), math.floor(math.log10(high))
    found = [step * 10.0**k for k in range(first, last + 1, every) for step in steps]
    return [value for value in found if low <= value <= high]


def value_axis(axes: Any, chart: Chart, span: float) -> None:
    """From the smallest to the largest value, with room for its label; `span` in pixels."""
    points = [point for row in chart.rows for point in row.points]
    values = [point.value for point in points] + list(chart.limits.values())
    room = 7 * max(len(point.text) for point in points) + 16
    if chart.base:
        low, high = min(values), max(values)
        low, high = (min(low, 0.5), max(high, 2)) if chart.base == 2 else (low, max(high, 2 * low))
        low, high = low / (high / low) ** 0.04, high * (high / low) ** (room / (span - room))
        axes.set_xscale("log", base=chart.base)
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(FixedLocator(ticks(chart.base, low, high, span / 60)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(0, max(values) * span / (span - room))
        axes.locator_params(axis="x", nbins=max(3, int(span // 80)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: chart.tick(value)))


def draw_point(axes: Any, logarithmic: bool, point: Point, y: float) -> None:
    """A dot or a bar, with its label at its end."""
    colour = SERIES[point.series]
    if logarithmic:
        axes.axhline(y, color=GRID, lw=0.6)
        (mark,) = axes.plot([point.value], [y], MARKERS[point.series], color=colour, ms=7)
    else:
        (mark,) = axes.barh([y], [point.value], height=11, color=colour)
    mark.set_gid("title:" + point.title)
    label(axes, point.text, point.value, y, 8 if logarithmic else 4, size=SMALL)


def draw_rows(chart: Chart, width: int) -> str:
    """A line for each point; rows are named beside their points or, where that would leave too
    little room, above them."""
    narrow = width < 600
    left, margin = (24, 28) if narrow else (240, 28)
    middle = sum(LINE * (len(row.points) + narrow) + GAP for row in chart.rows)
    marks = marks_of(chart.series, chart.limits, "GB/s")
    sheet = Sheet(width, middle, marks, chart.title if chart.heading else "", chart.below)
    axes = sheet.axes(left, margin, "x")
    sheet.rows(axes)
    value_axis(axes, chart, width - left - margin)
    for dash, value in zip(DASHES, chart.limits.values()):
        axes.axvline(value, color=LIMIT, ls=dash, lw=1.5)
    if chart.base == 2:
        axes.axvline(1, color=INK, lw=1)
    y = GAP / 2
    for row in chart.rows:
        half = LINE * (1 if narrow else len(row.points)) / 2
        right, side = (0, "left") if narrow else (-10, "right")
        label(axes, row.name, 0, y + half, right, ha=side, xycoords=("axes fraction", "data"))
        for i, point in enumerate(row.points):
            draw_point(axes, chart.base > 0, point, y + LINE * (i + narrow + 0.5))
        y += LINE * (len(row.points) + narrow) + GAP
    return svg(sheet.figure, chart.title, chart.heading)


# ---- Curves and timelines --------------------------------------------------------------------


def spread(places: list[float], gap: float) -> list[float]:
    """Moves ascending places apart, so that labels there do not overlap."""
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    return places


def draw_curves(
    title: str, curves: list[Curve], names: dict[int, str], peak: Optional[float], width: int
) -> str:
    """GFLOP/s from 0 against sizes on a logarithmic axis, each curve labelled at its end."""
    limits = {"multiply-add peak": peak} if peak else {}
    sheet = Sheet(width, 300, marks_of(names, limits, "GFLOP/s"), "", "")
    axes = sheet.axes(44, 56, "y")
    axes.set_xscale("log", base=2)
    sizes = sorted({x for curve in curves for x, _ in curve.points})
    axes.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    most = max(y for curve in curves for _, y in curve.points)
    top = max(most, peak or 0) * 1.06
    axes.set_ylim(0, top)
    if peak:
        axes.axhline(peak, color=LIMIT, ls=DASHES[0], lw=1.5)
    for curve in reversed(curves):
        colour, name = SERIES[curve.series], names[curve.series]
        axes.plot(*zip(*curve.points), color=colour, lw=1.6 if curve.series else 3)
        for x, y in curve.points:
            (dot,) = axes.plot([x], [y], MARKERS[curve.series], ms=6, color=colour)
            dot.set_gid(f"title:{name}, n = {x:.0f}: {y:.1f} GFLOP/s")
    curves = sorted(curves, key=lambda curve: curve.points[-1][1])
    ends = [curve.points[-1][1] for curve in curves]
    for curve, end, y in zip(curves, ends, spread(ends[:], top / 300 * LINE)):
        label(axes, f"{end:.0f}", sizes[-1], y, 12, SERIES[curve.series])
    return svg(sheet.figure, title)


def draw_timeline(
    title: str, rows: dict[str, list[Box]], names: dict[int, str], span: float, width: int
) -> str:
    """A line of boxes for each row, with its name above; times in milliseconds from 0 to `span`."""
    used = {box.series for boxes in rows.values() for box in boxes}
    marks = marks_of({i: name for i, name in names.items() if i in used}, {})
    for mark in marks:
        mark.set_marker("s")
    sheet = Sheet(width, 2 * LINE * len(rows) + GAP, marks, title, "")
    axes = sheet.axes(20, 28, "x")
    sheet.rows(axes)
    axes.set_xlim(0, span)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ms"))
    for i, (name, boxes) in enumerate(rows.items()):
        y = 2 * LINE * i + (LINE + GAP) / 2
        label(axes, name, 0, y, 0)
        for box in boxes:
            begin, length = max(box.begin, 0), min(box.end, span) - max(box.begin, 0)
            (mark,) = axes.barh([y + LINE], [length], 13, [begin], color=SERIES[box.series])
            mark.set_gid("title:" + box.title)
    return svg(sheet.figure, title, True)
