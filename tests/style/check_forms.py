#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same thing has one form in all C files.

    check_forms.py SOURCE_FOLDER

These fail:

  - an atomic built-in of the compiler (__atomic_…, __sync_…): fields are _Atomic, and <stdatomic.h> has the functions.
    BUILT_INS lists the exceptions, each with its reason;
  - <stdatomic.h> in a public header: C++ programs include those;
  - the name of a public function, for messages, that is not `static const char operation[]`. If a function has the
    name for its file, it is operation_open and so on.
"""
import os
import re
import sys

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TREE, "bench"))
import c_source

TREES = ("src", "backends", "kernels", "include", "bench", "tests")
SOURCES = (".c", ".h", ".def", ".inc")

BUILT_IN = re.compile(r"\b__(?:atomic|sync)_\w+")
STANDARD = re.compile(r"\b_Atomic\b|\bstdatomic\.h\b")
# {file: the reason why its atomics are not those of <stdatomic.h>}
BUILT_INS = {
    "kernels/dialect_c.h": "kernels add to elements of the caller's arrays, which are not _Atomic",
}

# The library and its modules, without the programs.
LIBRARY = re.compile(r"(?:src/(?!programs/)|backends/)")
NAME_OF_CALL = re.compile(
    r"^#define +\w+ +\"compute_\w+\"|^[ \t]*[a-z ]*\bchar (?:[\w*]+(?:\[\])? = \"compute_|[\w*]*operation\w*(?:\[\])? = \")\w+\";",
    re.M)
OPERATION = re.compile(r"static const char operation(?:_\w+)?\[\] = .*")


def built_ins(path, code):
    if path not in BUILT_INS:
        for hit in BUILT_IN.finditer(code):
            yield hit.start(), f"{hit.group()}: use an _Atomic field and <stdatomic.h>"


def public_atomics(path, code):
    if path.startswith("include/"):
        for hit in STANDARD.finditer(code):
            yield hit.start(), f"{hit.group()} in a public header"


def operations(path, code):
    if path.endswith(".c") and LIBRARY.match(path):
        for hit in NAME_OF_CALL.finditer(code):
            if not OPERATION.fullmatch(hit.group().strip()):
                yield hit.start(), f"{hit.group().strip()}: write static const char operation[] = …"


RULES = (built_ins, public_atomics, operations)


def main(root):
    failures = files = 0
    for tree in TREES:
        for where, _, names in os.walk(os.path.join(root, tree)):
            for name in names:
                if not name.endswith(SOURCES):
                    continue
                path = os.path.relpath(os.path.join(where, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    code = c_source.code(file.read())
                files += 1
                for rule in RULES:
                    for offset, problem in rule(path, code):
                        print(f"{path}:{code.count(chr(10), 0, offset) + 1}: {problem}")
                        failures += 1
    if files < 1000:
        sys.exit(f"{root} has only {files} C files")
    if failures:
        sys.exit(f"{failures} forms to change")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
