"""Styles of pictures that follow the reader's light or dark theme.

Colours are written out, not as CSS variables: several viewers of SVG files know no variables and
would draw everything black.
"""
import re

LIGHT = {"paper": "#ffffff", "ink": "#1c2430", "soft": "#5b6675", "line": "#d9dee5"}
DARK = {"paper": "#14181e", "ink": "#e6e9ee", "soft": "#9aa5b3", "line": "#313a46"}


def style(rules, light=None, dark=None):
    """CSS of `rules`, in which $name stands for a colour: LIGHT's and `light`'s, and once more for
    dark themes."""
    def fill_in(colours):
        return re.sub(r"\$(\w+)", lambda name: colours[name.group(1)], rules)

    coloured = "\n".join(line for line in fill_in({**DARK, **(dark or {})}).splitlines()
                         if "#" in line)
    return (fill_in({**LIGHT, **(light or {})}) +
            "@media (prefers-color-scheme: dark) {\n" + coloured + "\n}\n")
