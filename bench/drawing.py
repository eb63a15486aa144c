# SPDX-License-Identifier: MIT
"""One picture as SVG, written element by element, in CSS pixels from the upper left corner.

Colours are literal, so that viewers without style sheets show the light picture; theme() replaces
them for readers who prefer dark.
"""

import html
from typing import Optional

PAPER, INK, SOFT, GRID, LIMIT = "#ffffff", "#1c2430", "#5b6675", "#d9dee5", "#b3261e"
SERIES = ("#1f5fd0", "#b86e00", "#0b8074", "#b5306f", "#7a4fc0", "#5f6b1f")
DARK = dict(zip((PAPER, INK, SOFT, GRID, LIMIT), "#14181e #e6e9ee #9aa5b3 #313a46 #ff8a80".split()))
DARK |= dict(zip(SERIES, "#6ea8ff #f0a840 #3fc7b6 #f07db4 #b79bf5 #c3cf6b".split()))
FONT = "'DejaVu Sans', system-ui, sans-serif"
# The shapes of series in order, within a square from −1 to 1.
SHAPES = (
    "",  # a circle
    "-.9 -.9 .9 -.9 .9 .9 -.9 .9",
    "0 -1.25 1.25 0 0 1.25 -1.25 0",
    "0 -1.1 1.1 .9 -1.1 .9",
    "0 1.1 1.1 -.9 -1.1 -.9",
    "-.35 -1 .35 -1 .35 -.35 1 -.35 1 .35 .35 .35 .35 1 -.35 1 -.35 .35 -1 .35 -1 -.35 -.35 -.35",
)
ARROW = "1.1 0 -.7 1 -.7 -1"  # beyond the end of an axis


def theme() -> str:
    """CSS that gives all pictures their dark colours."""
    rules = "\n".join(
        f'svg [style*="{kind}: {light}"] {{ {kind}: {dark} !important; }}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme: dark) {{\n{rules}\n}}\n"


def digits(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"


class Drawing:
    def __init__(self, width: float, height: float):
        self.width, self.height = round(width), round(height)
        self.parts = [self._box(0, 0, self.width, self.height, PAPER)]

    def svg(self, title: str, alone: bool = False) -> str:
        """The whole as one <svg> element, with its own style sheet if it stands alone."""
        style = f"<style>{theme()}</style>" if alone else ""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img">'
            f"<title>{html.escape(title)}</title>{style}\n" + "\n".join(self.parts) + "\n</svg>"
        )

    def add(self, element: str, title: str = "") -> None:
        """With a title, which is shown under the pointer."""
        if title:
            element = f"<g><title>{html.escape(title, quote=False)}</title>{element}</g>"
        self.parts.append(element)

    def text(self, x: float, y: float, words: str, colour: str = INK, size: float = 12,
             anchor: str = "start", bold: bool = False) -> None:  # fmt: skip
        """One line, whose middle is at y. A rim in the paper's colour covers the grid behind it."""
        style = (
            f"font: {'bold ' if bold else ''}{size:g}px {FONT}; fill: {colour}; "
            f"stroke: {PAPER}; stroke-width: 4px; paint-order: stroke; stroke-linejoin: round"
        )
        if anchor != "start":
            style += f"; text-anchor: {anchor}"
        place = f'x="{digits(x)}" y="{digits(y + 0.36 * size)}"'
        self.add(f'<text {place} style="{style}">{html.escape(words, quote=False)}</text>')

    def line(self, points: list[tuple[float, float]], colour: str, width: float,
             dash: str = "") -> None:  # fmt: skip
        path = " L ".join(f"{digits(x)} {digits(y)}" for x, y in points)
        style = f"fill: none; stroke: {colour}; stroke-width: {width:g}px"
        if dash:
            style += f"; stroke-dasharray: {dash}"
        self.add(f'<path d="M {path}" style="{style}"/>')

    @staticmethod
    def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
        place = f'x="{digits(x)}" y="{digits(y)}" width="{digits(width)}" height="{digits(height)}"'
        return f'<rect {place} style="fill: {colour}"/>'

    def box(self, x: float, y: float, width: float, height: float, colour: str,
            title: str = "") -> None:  # fmt: skip
        self.add(self._box(x, y, width, height, colour), title)

    def mark(self, x: float, y: float, series: int, title: str = "", radius: float = 3.6,
             shape: Optional[str] = None) -> None:  # fmt: skip
        """The series' shape in its colour, or another shape."""
        shape = SHAPES[series] if shape is None else shape
        if shape:
            at = [float(part) for part in shape.split()]
            corners = " L ".join(
                f"{digits(x + radius * a)} {digits(y + radius * b)}"
                for a, b in zip(at[::2], at[1::2])
            )
            path = f"M {corners} Z"
        else:
            path = (
                f"M {digits(x - radius)} {digits(y)} a {radius:g} {radius:g} 0 1 0 "
                f"{digits(2 * radius)} 0 a {radius:g} {radius:g} 0 1 0 {digits(-2 * radius)} 0 Z"
            )
        self.add(f'<path d="{path}" style="fill: {SERIES[series]}"/>', title)
