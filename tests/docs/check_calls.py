#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails for a name of the interface in README.md or docs/guide/ that no public header has, for a README that is not
short, and for long lines of some pages.

    check_calls.py SOURCE_FOLDER

Names are compute_… in backquotes or code. A name that ends in an underscore, or in front of a placeholder, is the
beginning of several. The README has at most LINES lines; it and the pages of NARROW at most COLUMNS columns. Tables of
the pages are excepted.
"""
import glob
import os
import re
import sys

LINES, COLUMNS = 100, 100
NARROW = ("docs/changelog.md", "docs/index.md", "docs/guide/cookbook.md", "docs/guide/from-pytorch-numpy.md")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.S | re.M)
NAME = re.compile(r"(?<![\w./-])compute_[a-z0-9_]*")

# Names that are not of the C interface: name -> whose it is
OTHERS = {
    "compute_docs": "a target of CMake",
    "compute_dist": "a target of CMake",
}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def unknown(page, declared):
    """(line, name) of the names that no header declares."""
    for code in CODE.finditer(page):
        for found in NAME.finditer(code.group()):
            name, after = found.group(), code.group()[found.end():found.end() + 1]
            several = name.endswith("_") or after in ("…", "<", "*")
            if name in declared or name in OTHERS or (several and any(one.startswith(name) for one in declared)):
                continue
            yield page.count("\n", 0, code.start() + found.start()) + 1, name


def main(root):
    headers = glob.glob(os.path.join(root, "include", "compute", "**", "*.h*"), recursive=True)
    declared = set(re.findall(r"\bcompute_[a-z0-9_]+", "".join(map(read, headers))))
    pages = ["README.md"] + [os.path.relpath(page, root) for page in
                             sorted(glob.glob(os.path.join(root, "docs", "guide", "*.md")))]
    failures = names = 0
    for page in pages:
        text = read(root, page)
        names += sum(len(NAME.findall(code.group())) for code in CODE.finditer(text))
        # A page may show functions that its own program defines.
        own = set(re.findall(r"^static [^\n(]*?\b(compute_[a-z0-9_]+)\(", text, re.M))
        for line, name in unknown(text, declared | own):
            print(f"{page}:{line}: no header has {name}")
            failures += 1
    lines = read(root, "README.md").count("\n")
    if lines > LINES:
        print(f"README.md has {lines} lines, more than {LINES}")
        failures += 1
    for page in ("README.md",) + NARROW:
        for number, line in enumerate(read(root, page).split("\n"), 1):
            if len(line) > COLUMNS and (page == "README.md" or not line.startswith("|")):
                print(f"{page}:{number}: {len(line)} columns, more than {COLUMNS}")
                failures += 1
    print(f"{len(pages)} pages with {names} names, {failures} failed")
    if len(declared) < 400 or names < 400:
        sys.exit("names are missing: are the headers and pages where they were?")
    sys.exit(failures > 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
