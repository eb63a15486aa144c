# SPDX-License-Identifier: MIT
"""Runs the README's first block of commands in a minimal Debian and compares the program's output.

    check_readme.py TREE BUILD SCRATCH RELEASE
"""
import os
import re
import sys
import time

TREE, BUILD, SCRATCH = map(os.path.abspath, sys.argv[1:4])
sys.dont_write_bytecode = True  # write no files beside the sources
sys.path.insert(0, os.path.join(TREE, "tests", "support", "harness"))
import debian_system  # noqa: E402 pylint: disable=wrong-import-position


def blocks():
    """The README's first block of commands, and the block without a language after it."""
    with open(os.path.join(TREE, "README.md"), encoding="utf-8") as file:
        found = re.findall(r"^```(\w*)\n(.*?)^```$", file.read(), re.M | re.S)
    first = next(i for i, (language, _) in enumerate(found) if language == "sh")
    if found[first + 1][0] != "":
        sys.exit("FAILED: what the first block prints does not follow it in README.md")
    return found[first][1], found[first + 1][1]


def check(system, commands, expected):
    started = time.time()
    if system.inside(f"cd /root/libcompute\n{commands}"):
        system.fail("the README's first block")
    warnings = re.findall(r"^.* warning: .*$", system.words(), re.M)
    if warnings:
        system.fail("the compiler warns:\n" + "\n".join(warnings))
    last = "".join(system.words().splitlines(keepends=True)[-expected.count("\n"):])
    pattern = "".join(".*".join(map(re.escape, line.split("…"))) + "\n" for line in expected.splitlines())
    if not re.fullmatch(pattern, last):
        system.fail(f"README.md says that this is printed:\n{expected}seen:\n{last}")
    print(f"the README's first block takes {time.time() - started:.0f} s here on Debian {system.release}")


def main():
    commands, expected = blocks()
    with debian_system.System(sys.argv[4], TREE, BUILD, SCRATCH) as system:
        check(system, commands, expected)


if __name__ == "__main__":
    main()
