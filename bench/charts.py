# SPDX-License-Identifier: MIT
"""The forms of charts: rows of dots or bars, curves and timelines (drawing.py writes the SVG).

A picture is drawn for a width in CSS pixels and not scaled, so that text keeps its size; phones
get a separate picture.
"""

import math
import textwrap
from dataclasses import dataclass, field
from typing import Callable, Optional

from drawing import ARROW, GRID, INK, LIMIT, SERIES, SOFT, Drawing

DASHES = ("6 4", "2 3")  # of limits
LINE, GAP, SMALL = 17, 7, 11.5  # heights of lines and of gaps between rows; small text
DESK, HAND = 880, 340  # widths of pictures


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


# ---- Parts of a picture ----------------------------------------------------------------------


@dataclass
class Mark:
    """An entry of the legend: the shape of a series, a square, or the line of a limit."""

    label: str
    series: Optional[int] = None
    square: bool = False
    dash: str = ""


def marks_of(names: dict[int, str], limits: dict[str, float], unit: str = "") -> list[Mark]:
    """The marks of the legend."""
    marks = [Mark(name, i) for i, name in names.items()]
    return marks + [
        Mark(f"{name} {value:.3g} {unit}", dash=dash)
        for dash, (name, value) in zip(DASHES, limits.items())
    ]


class Sheet(Drawing):
    """A picture with a heading, a legend and a note, and a field for data between them, which
    begins at `above` and is `middle` pixels high."""

    def __init__(self, width: int, middle: float, marks: list[Mark], heading: str, below: str):
        longest = max((len(mark.label) for mark in marks), default=0)
        columns = max(1, min(len(marks), int(width // (7 * longest + 40))))
        words, note = textwrap.wrap(heading, width // 9), textwrap.wrap(below, width // 7)
        upper = 20 * len(words) + 6
        self.above = upper + LINE * math.ceil(len(marks) / columns) + 26
        self.middle = middle
        super().__init__(width, self.above + middle + LINE * len(note) + 28)
        for i, line in enumerate(words):
            self.text(8, 16 + 20 * i, line, size=15, bold=True)
        for i, line in enumerate(note):
            self.text(8, self.height - LINE * (len(note) - i - 0.3), line, SOFT, SMALL)
        lines = math.ceil(len(marks) / columns)
        for i, mark in enumerate(marks):
            self._legend(mark, 8 + (i // lines) * (7 * longest + 40), upper + LINE * (i % lines + 0.5))

    def _legend(self, mark: Mark, x: float, y: float) -> None:
        if mark.series is None:
            self.line([(x, y), (x + 18, y)], LIMIT, 1.5, mark.dash)
        elif mark.square:
            self.box(x + 4, y - 5, 10, 10, SERIES[mark.series])
        else:
            self.mark(x + 9, y, mark.series)
        self.text(x + 24, y, mark.label)


class Axis:
    """Maps values to pixels from `begin` to `end`; logarithmic where `base` is not 0."""

    def __init__(self, base: int, low: float, high: float, begin: float, end: float):
        self.base, self.low, self.high, self.begin, self.end = base, low, high, begin, end

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.base:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)


# ---- Ticks -----------------------------------------------------------------------------------

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


def even_ticks(high: float, most: int) -> list[float]:
    """At most `most` steps of a linear axis from 0: 1, 2 or 5 times a power of ten apart."""
    if not high > 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(high / most))
    step = next(power * k for k in (1, 2, 5, 10) if power * k * most >= high * 0.999999)
    return [step * i for i in range(int(high / step + 1e-6) + 1)]


# ---- Rows of dots or bars --------------------------------------------------------------------

APART = 4  # a value so many times above all others is drawn as an arrow at the end of the axis


def cut_of(values: list[float]) -> float:
    """The largest value that an axis shows; one far above all others would press these together."""
    found = sorted(values)
    if len(found) > 4 and found[-2] > 0 and found[-1] > APART * found[-2]:
        return found[-2]
    return found[-1]


def value_axis(chart: Chart, begin: float, end: float) -> Axis:
    """From the smallest to the largest value, with room for its label."""
    points = [point for row in chart.rows for point in row.points]
    values = [point.value for point in points] + list(chart.limits.values())
    room, span = 7 * max(len(point.text) for point in points) + 16, end - begin
    if not chart.base:
        return Axis(0, 0, max(max(values) * span / (span - room), 1e-9), begin, end)
    low, high = min(values), cut_of(values)
    low, high = (min(low, 0.5), max(high, 2)) if chart.base == 2 else (low, max(high, 2 * low))
    low, high = low / (high / low) ** 0.04, high * (high / low) ** (room / (span - room))
    return Axis(chart.base, low, high, begin, end)


def draw_grid(sheet: Sheet, chart: Chart, axis: Axis) -> None:
    """The ticks of the values, above and below the rows."""
    top, bottom = sheet.above, sheet.above + sheet.middle
    span = axis.end - axis.begin
    found = (
        ticks(chart.base, axis.low, axis.high, span / 60)
        if chart.base
        else even_ticks(axis.high, max(3, int(span // 80)))
    )
    for value in found:
        x = axis.at(value)
        sheet.line([(x, top), (x, bottom)], GRID, 0.8)
        for y in (top - 10, bottom + 10):
            sheet.text(x, y, chart.tick(value), SOFT, SMALL, "middle")


def draw_point(sheet: Sheet, axis: Axis, point: Point, y: float) -> None:
    """A dot or a bar, with its label at its end; an arrow beyond the end of the axis."""
    if not axis.base:
        x = axis.at(point.value)
        sheet.box(axis.begin, y - 5.5, x - axis.begin, 11, SERIES[point.series], point.title)
        sheet.text(x + 4, y, point.text, size=SMALL)
        return
    sheet.line([(axis.begin, y), (axis.end, y)], GRID, 0.6)
    if point.value > axis.high:
        sheet.mark(axis.end - 5, y, point.series, point.title, 5, ARROW)
        sheet.text(axis.end - 14, y, point.text, size=SMALL, anchor="end")
        return
    x = axis.at(point.value)
    sheet.mark(x, y, point.series, point.title)
    sheet.text(x + 8, y, point.text, size=SMALL)


def draw_rows(chart: Chart, width: int) -> str:
    """A line for each point; rows are named beside their points or, where that would leave too
    little room, above them."""
    narrow = width < 600
    left, margin = (24, 28) if narrow else (240, 28)
    middle = sum(LINE * (len(row.points) + narrow) + GAP for row in chart.rows)
    marks = marks_of(chart.series, chart.limits, "GB/s")
    sheet = Sheet(width, middle, marks, chart.title if chart.heading else "", chart.below)
    axis = value_axis(chart, left, width - margin)
    draw_grid(sheet, chart, axis)
    ends = (sheet.above, sheet.above + middle)
    for dash, value in zip(DASHES, chart.limits.values()):
        sheet.line([(axis.at(value), y) for y in ends], LIMIT, 1.5, dash)
    if chart.base == 2:
        sheet.line([(axis.at(1), y) for y in ends], INK, 1)
    y = sheet.above + GAP / 2
    for row in chart.rows:
        half = LINE * (1 if narrow else len(row.points)) / 2
        if narrow:
            sheet.text(left, y + half, row.name)
        else:
            sheet.text(left - 10, y + half, row.name, anchor="end")
        for i, point in enumerate(row.points):
            draw_point(sheet, axis, point, y + LINE * (i + narrow + 0.5))
        y += LINE * (len(row.points) + narrow) + GAP
    return sheet.svg(chart.title, chart.heading)


# ---- Ratios to peers -------------------------------------------------------------------------


@dataclass
class Bar:
    """The ratio of one row, or the median and the ends of several."""

    name: str
    low: float
    middle: float
    high: float
    text: str


RATIOS = (0.25, 4.0)  # of the axis, the same in all pictures; longer bars end there
LEFT, RIGHT = 210, 170  # pixels of names and of texts


def draw_ratios(title: str, groups: dict[str, list[Bar]], width: int) -> str:
    """A standalone picture: a bar from 1 to each ratio on a logarithmic axis, and a thin line from
    the lowest to the highest of several."""
    lines = sum(len(bars) + 1.5 for bars in groups.values())
    marks = [Mark("libcompute is faster", 0, square=True), Mark("the peer is faster", 1, square=True)]
    sheet = Sheet(width, LINE * lines, marks, title, "")
    axis = Axis(2, *RATIOS, LEFT, width - RIGHT)
    ends = (sheet.above, sheet.above + sheet.middle)
    for value in ticks(2, *RATIOS, 4):
        x = axis.at(value)
        sheet.line([(x, y) for y in ends], INK if value == 1 else GRID, 1)
        sheet.text(x, ends[0] - 10, f"{value:g}×", SOFT, SMALL, "middle")

    def place(value: float) -> float:
        return axis.at(min(max(value, axis.low), axis.high))

    y = sheet.above
    for name, bars in groups.items():
        y += LINE
        sheet.text(8, y, name, size=SMALL, bold=True)
        for bar in bars:
            y += LINE
            sheet.text(LEFT - 12, y, bar.name, size=SMALL, anchor="end")
            begin, end = sorted((axis.at(1), place(bar.middle)))
            series = 0 if bar.middle >= 0.995 else 1
            sheet.box(begin, y - 5, max(end - begin, 1), 10, SERIES[series])
            if bar.low < bar.high:
                sheet.line([(place(bar.low), y), (place(bar.high), y)], SOFT, 1.5)
            sheet.text(width - RIGHT + 12, y, bar.text, size=SMALL)
        y += LINE / 2
    return sheet.svg(title, True)


# ---- Curves and timelines --------------------------------------------------------------------


def spread(places: list[float], gap: float) -> list[float]:
    """Moves ascending places apart, so that labels there do not overlap."""
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    return places


def draw_curves(
    title: str, curves: list[Curve], names: dict[int, str], peak: Optional[float],
    units: tuple[str, str], width: int,
) -> str:  # fmt: skip
    """Values from 0 against sizes on a logarithmic axis, each curve labelled at its end; `units`
    are the titles of the axes, the values' first."""
    limits = {"multiply-add peak": peak} if peak else {}
    sheet = Sheet(width, 318, marks_of(names, limits, units[0]), "", "")
    top, bottom, left, right = sheet.above, sheet.above + 300, 46, width - 56
    sizes = sorted({x for curve in curves for x, _ in curve.points})
    most = max(max(y for curve in curves for _, y in curve.points), peak or 0) * 1.06
    low, high = sizes[0] / 1.15, sizes[-1] * 1.15
    across, up = Axis(2, low, high, left, right), Axis(0, 0, most, bottom, top)
    for value in even_ticks(most, 6):
        sheet.line([(left, up.at(value)), (right, up.at(value))], GRID, 0.8)
        sheet.text(left - 6, up.at(value), f"{value:g}", SOFT, SMALL, "end")
    for size in sizes:
        sheet.text(across.at(size), bottom + 12, f"{size:.0f}", SOFT, SMALL, "middle")
    sheet.text((left + right) / 2, bottom + 30, units[1], SOFT, SMALL, "middle")
    sheet.text(8, top - 14, units[0], SOFT, SMALL)
    if peak:
        sheet.line([(left, up.at(peak)), (right, up.at(peak))], LIMIT, 1.5, DASHES[0])
    for curve in reversed(curves):
        name, points = names[curve.series], [(across.at(x), up.at(y)) for x, y in curve.points]
        sheet.line(points, SERIES[curve.series], 1.6 if curve.series else 3)
        for (x, y), (size, value) in zip(points, curve.points):
            sheet.mark(x, y, curve.series, f"{name}, n = {size:.0f}: {value:.1f} {units[0]}")
    curves = sorted(curves, key=lambda curve: curve.points[-1][1])
    ends = [bottom - up.at(curve.points[-1][1]) for curve in curves]
    for curve, y in zip(curves, spread(ends, LINE)):
        words = f"{curve.points[-1][1]:.0f}"
        sheet.text(across.at(sizes[-1]) + 12, bottom - y, words, SERIES[curve.series])
    return sheet.svg(title)


def draw_timeline(
    title: str, rows: dict[str, list[Box]], names: dict[int, str], span: float, width: int
) -> str:
    """A line of boxes for each row, with its name above; times in milliseconds from 0 to `span`."""
    used = {box.series for boxes in rows.values() for box in boxes}
    marks = [Mark(name, i, square=True) for i, name in names.items() if i in used]
    sheet = Sheet(width, 2 * LINE * len(rows) + GAP, marks, title, "")
    axis = Axis(0, 0, span, 20, width - 28)
    bottom = sheet.above + sheet.middle
    for value in even_ticks(span, max(3, int((axis.end - axis.begin) // 80))):
        x = axis.at(value)
        sheet.line([(x, sheet.above), (x, bottom)], GRID, 0.8)
        for y in (sheet.above - 10, bottom + 10):
            sheet.text(x, y, f"{value:g} ms", SOFT, SMALL, "middle")
    for i, (name, boxes) in enumerate(rows.items()):
        y = sheet.above + 2 * LINE * i + (LINE + GAP) / 2
        sheet.text(axis.begin, y, name)
        for box in boxes:
            begin, end = axis.at(max(box.begin, 0)), axis.at(min(box.end, span))
            sheet.box(begin, y + LINE - 6.5, end - begin, 13, SERIES[box.series], box.title)
    return sheet.svg(title, True)
