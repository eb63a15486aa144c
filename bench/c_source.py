# SPDX-License-Identifier: MIT
"""The comments and string literals of C, and of the languages that spell them alike (C++, OpenCL,
CUDA)."""

import re
from typing import Iterator

TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """(offset, text) of each comment with its marks."""
    for token in TOKEN.finditer(text):
        if token.group()[0] == "/":
            yield token.start(), token.group()


def literals(text: str) -> Iterator[tuple[int, str]]:
    """(offset, content) of each string literal, with its escapes."""
    for token in TOKEN.finditer(text):
        if token.group()[0] == '"':
            yield token.start(), token.group()[1:-1]


def code(text: str, strings: bool = True) -> str:
    """The text with blanks for comments, and without `strings` also for the content of literals.
    All offsets stay."""

    def instead(token: "re.Match[str]") -> str:
        found = token.group()
        if found[0] == "/":
            return re.sub(r"[^\n]", " ", found)
        return found if strings else found[0] + " " * (len(found) - 2) + found[0]

    return TOKEN.sub(instead, text)
