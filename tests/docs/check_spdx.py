#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every source file names its licence in its first line, or in the second line after "#!".

    check_spdx.py TREE [--add]

Prints the files without this line and fails if there are any; --add writes the line into them.
"""
import os
import sys

LINE = "SPDX-License-Identifier: MIT"
C_LIKE = (".c", ".h", ".def", ".hpp", ".cpp", ".cc", ".cl", ".cu", ".map")
HASH_LIKE = (".sh", ".py", ".cmake", ".mk", "CMakeLists.txt", "/Makefile", "/debian/rules", ".ci/run")
TREES = ("CMakeLists.txt", ".ci", "backends", "bench", "docs", "include", "kernels", "src", "tests")


def sources(tree):
    for start in TREES:
        path = os.path.join(tree, start)
        if os.path.isfile(path):
            yield path
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                yield os.path.join(folder, name)


def wanted(path):
    """The line that the file should have, or None if it is no source file."""
    if path.endswith(C_LIKE):
        return f"/* {LINE} */\n"
    if path.endswith(HASH_LIKE):
        return f"# {LINE}\n"
    return None


def main():
    tree, add = sys.argv[1], "--add" in sys.argv[2:]
    missing = checked = 0
    for path in sources(tree):
        line = wanted(path)
        if line is None or os.path.islink(path):
            continue
        checked += 1
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().splitlines(keepends=True)
        place = 1 if lines and lines[0].startswith("#!") else 0
        if lines[place:place + 1] == [line]:
            continue
        missing += 1
        print(os.path.relpath(path, tree))
        if add:
            lines.insert(place, line)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.writelines(lines)
    if checked < 500:
        sys.exit(f"only {checked} source files found in {tree}")
    if missing and not add:
        sys.exit(f"{missing} of {checked} source files lack the line '{LINE}'")


if __name__ == "__main__":
    main()
