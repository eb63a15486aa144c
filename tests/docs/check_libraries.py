#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the table of docs/security.md, "Libraries and programs that are started at run time", against the code.

    check_libraries.py TREE

Fails for a file that loads a library or starts a program without a row, for a row whose file does not, and for
a row that leaves a column empty.
"""
import os
import re
import sys

TITLE = "### Libraries and programs that are started at run time"
CALLS = re.compile(r"\b(dlopen|dlmopen|posix_spawnp?|execv[pe]*|execl[pe]*|fexecve|popen|system|H5Fopen|LoadLibrary\w*|"
                   r"CreateProcess\w*)\s*\(")
COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\\\.|[^\"\\\\])*\"", re.S)
TREES = ("src", "backends", "include")


def files_that_load(tree):
    found = {}
    for start in TREES:
        for folder, _, names in os.walk(os.path.join(tree, start)):
            for name in names:
                if not name.endswith((".c", ".h", ".hpp", ".def")):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    calls = sorted(set(CALLS.findall(COMMENTS.sub(" ", file.read()))))
                if calls:
                    found[os.path.relpath(path, tree)] = calls
    return found


def rows_of(page):
    """{file: the other columns}"""
    section = page.split(TITLE + "\n", 1)[1].split("\n#", 1)[0]
    rows = {}
    for line in section.splitlines():
        match = re.match(r"\|\s*`([^`]+)`\s*\|(.*)\|\s*$", line)
        if match:
            rows[match.group(1)] = [column.strip() for column in match.group(2).split("|")]
    return rows


def main():
    tree = sys.argv[1]
    with open(os.path.join(tree, "docs/security.md"), encoding="utf-8") as file:
        rows = rows_of(file.read())
    found, problems = files_that_load(tree), []
    for path, calls in sorted(found.items()):
        if path not in rows:
            problems.append(f"{path} calls {', '.join(calls)}, and has no row")
    for path, columns in sorted(rows.items()):
        if path not in found:
            problems.append(f"{path} has a row, but loads nothing")
        if len(columns) != 3 or not all(columns):
            problems.append(f"the row of {path} does not say what is loaded, what it reads and what holds")
    if len(found) < 8:
        problems.append(f"only {len(found)} files that load a library were found in {tree}")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
