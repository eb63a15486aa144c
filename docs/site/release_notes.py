#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the notes of a release: the section of docs/changelog.md with this version.

    release_notes.py VERSION [--changelog FILE] [--final]

A paragraph becomes one line, because hosting platforms keep the line breaks of release notes. A link to a file of the tree
becomes its text. --final fails for a section that says "not released yet".
"""
import argparse
import os
import re
import sys

CHANGELOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "changelog.md")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z][a-z0-9+.-]*:)[^)\s]+\)")
# Lines that begin something: a heading, an item, a row of a table, a block of code.
BEGINS = re.compile(r"\s*(#|[*+-] |\d+\. |\||```|$)")


def section(text, version):
    """(heading, lines) of the version, or None."""
    names = {version, re.sub(r"^(\d+\.\d+)\.0$", r"\1", version)}
    parts = re.split(r"^## +(.*)$", text, flags=re.M)
    for heading, lines in zip(parts[1::2], parts[2::2]):
        if heading.split()[0].strip("[]") in names:
            return heading, lines.strip("\n").split("\n")
    return None


def join_paragraphs(lines):
    joined, fenced = [], False
    for line in lines:
        fence = line.lstrip().startswith("```")
        open_ended = joined and joined[-1] and not re.match(r"\s*(#|\||```)", joined[-1])
        if fenced or fence or BEGINS.match(line) or not open_ended:
            joined.append(line if fenced or fence else line.rstrip())
        else:
            joined[-1] += " " + line.strip()
        fenced ^= fence
    return joined


def main():
    parser = argparse.ArgumentParser(usage="release_notes.py VERSION [--changelog FILE] [--final]")
    parser.add_argument("version")
    parser.add_argument("--changelog", default=CHANGELOG)
    parser.add_argument("--final", action="store_true")
    options = parser.parse_args()
    with open(options.changelog, encoding="utf-8") as file:
        found = section(file.read(), options.version)
    if not found:
        sys.exit(f"the changelog has no section of {options.version}")
    heading, lines = found
    if options.final and "not released" in heading:
        sys.exit(f"the changelog says '{heading}'")
    if not any(lines):
        sys.exit(f"the changelog's section of {options.version} is empty")
    print(LINK.sub(r"\1", "\n".join(join_paragraphs(lines))))


if __name__ == "__main__":
    main()
