#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the table of docs/security.md, "Libraries and programs that are started at run time", with the code.

    check_libraries.py TREE

Fails for a file that loads a library or starts a program without a row, for a row whose file does neither, and
for a row with an empty column. Also fails for a file that calls the loader outside the brackets that make forks
wait (src/core/base/process.h), unless there is a known reason.
"""
import os
import re
import sys

TITLE = "### Libraries and programs that are started at run time"
CALLS = re.compile(r"\b(dlopen|dlmopen|posix_spawnp?|execv[pe]*|execl[pe]*|fexecve|popen|system|H5Fopen|LoadLibrary\w*|"
                   r"CreateProcess\w*)\s*\(")
LOADER = re.compile(r"\b(dlopen|dlmopen|dlsym|dlclose|dladdr1?)\s*\(")
BRACKET = re.compile(r"\b(process_load_begin|loading_begin)\s*\(")
WITHOUT_BRACKET = {
    "backends/common/builder.h": "what calls library_find has the bracket",
    "backends/cpu/core/blas.c": "a fork waits for its lock",
    "backends/cuda/driver.c": "only while the module opens, in the core's bracket",
    "backends/mpi/mpi.c": "in `reaches`, which the core brackets",
    "backends/opencl/module.c": "only while the module opens",
    "backends/opencl/registered.c": "only while the module opens",
    "src/core/platform/bsd/library_path.c": "what calls library_path_of has the bracket",
    "src/core/platform/posix/library_path.c": "what calls library_path_of has the bracket",
}
COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\\n])+'|\"(?:\\.|[^\"\\\n])*\"", re.S)
TREES = ("src", "backends", "include")
# dlopen and its like for Windows: their callers are judged, as on other systems.
IMPLEMENTATION = "src/core/platform/windows"


def texts(tree):
    """(path, text without comments) of each source"""
    for start in TREES:
        for folder, _, names in os.walk(os.path.join(tree, start)):
            if os.path.relpath(folder, tree).startswith(IMPLEMENTATION):
                continue
            for name in names:
                if not name.endswith((".c", ".h", ".hpp", ".def")):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    yield os.path.relpath(path, tree), COMMENTS.sub(" ", file.read())


def files_that_load(tree):
    found = {path: sorted(set(CALLS.findall(text))) for path, text in texts(tree)}
    return {path: calls for path, calls in found.items() if calls}


def files_without_bracket(tree):
    return [path for path, text in texts(tree) if LOADER.search(text) and not BRACKET.search(text)]


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
    for path in files_without_bracket(tree):
        if path not in WITHOUT_BRACKET:
            problems.append(f"{path} calls the loader outside process_load_begin or loading_begin")
    for path in sorted(set(WITHOUT_BRACKET) - set(files_without_bracket(tree))):
        problems.append(f"{path} has a bracket or calls no loader, and is listed as one without")
    if len(found) < 8:
        problems.append(f"only {len(found)} files that load a library were found in {tree}")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
