#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the sizes of the libraries with the table "Sizes" of docs/internals/rooms.md.

    check_sizes.py SOURCE_FOLDER BUILD_FOLDER

A row has a file of the build folder and the maximum of its code and data in KiB. For a folder, the largest object of
its sources counts. Sizes depend on the compiler, so the table is for one: with other compilers, systems and options the
test is skipped.
"""
import glob
import json
import os
import platform
import re
import subprocess
import sys

SKIPPED = 77
ROW = re.compile(r"\| `([^`]+)` \|[^|]*\| *(\d+) *\|")
FOR = {"CMAKE_BUILD_TYPE": "Release", "CMAKE_C_FLAGS": "", "COMPUTE_CPU_VECTORS": "ON", "COMPUTE_SANITIZE": ""}
COMPILER = ("GNU", "12")


def why_not(build):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        cache = dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.M))
    for name, value in FOR.items():
        if cache.get(name, value) != value:
            return "%s is %s" % (name, cache[name])
    if platform.machine() != "x86_64":
        return "the table is for x86-64"
    texts = [open(path, encoding="utf-8").read()
             for path in glob.glob(os.path.join(build, "CMakeFiles/*/CMakeCCompiler.cmake"))]
    found = [re.search(r'CMAKE_C_COMPILER_%s "([^"]*)' % what, "".join(texts)) for what in ("ID", "VERSION")]
    found = [match.group(1).split(".")[0] if match else "unknown" for match in found]
    return None if tuple(found) == COMPILER else "the table is for %s %s, not %s" % (*COMPILER, " ".join(found))


def kib(path):
    listing = subprocess.run([os.environ.get("SIZE", "size"), path], check=True, capture_output=True, text=True).stdout
    text, data = map(int, listing.splitlines()[1].split()[:2])
    return -(-(text + data) // 1024)


def files_for(build, name):
    if not name.endswith("/"):
        return [os.path.join(build, name)]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        outputs = {re.search(r" -o (\S+)", entry["command"]).group(1) for entry in json.load(file)}
    return [os.path.join(build, output) for output in sorted(outputs) if output.startswith(name)]


def main():
    source, build = map(os.path.abspath, sys.argv[1:])
    reason = why_not(build)
    if reason:
        print("skipped: " + reason)
        return SKIPPED
    with open(os.path.join(source, "docs/internals/rooms.md"), encoding="utf-8") as file:
        rows = ROW.findall(file.read().partition("\n## Sizes\n")[2])
    if not rows:
        sys.exit("docs/internals/rooms.md has no table of sizes")
    failures = 0
    for name, most in rows:
        paths = [path for path in files_for(build, name) if os.path.exists(path)]
        if not paths:
            print("%s: not built" % name)
            continue
        size, largest = max((kib(path), os.path.relpath(path, build)) for path in paths)
        print("%6d of %6s KiB %s" % (size, most, largest))
        if size > int(most):
            print("%s is too large: make it smaller, or raise the table's row and say why" % largest)
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
