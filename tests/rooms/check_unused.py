#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds unused functions and objects with external linkage.

    check_unused.py SOURCE_FOLDER BUILD_FOLDER

Reads the symbols of the object files like check_rooms.py. A symbol needs another object file that leaves it undefined,
a test or a public header that names it, or a source file that names it outside its definition. Otherwise it is dead.
ALLOWED lists each exception with its reason; an exception that is used or gone fails as well.
"""
import collections
import os
import re
import sys

from check_rooms import TREES, objects_of, symbols_of

ALLOWED = {
    "emit_call": "a row of the table in src/codegen/generate/generate.c, whose names a macro forms",
    "emit_quantized_gemm": "a row of the table in src/codegen/generate/generate.c, whose names a macro forms",
    "emit_spots": "a row of the table in src/codegen/generate/generate.c, whose names a macro forms",
}
SYMBOLS_LEAST = 1500


def words_of(root, folders, endings):
    """The number of occurrences of each identifier in these files, without comments."""
    words = collections.Counter()
    for tree in folders:
        for folder, _, names in os.walk(os.path.join(root, tree)):
            for name in names:
                if name.endswith(endings):
                    text = open(os.path.join(folder, name), encoding="utf-8").read()
                    words.update(re.findall(r"[A-Za-z_]\w*", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))
    return words


def main():
    source, build = map(os.path.abspath, sys.argv[1:])
    defined, undefined = symbols_of(list(objects_of(source, build)))
    used = set(words_of(source, ["include", "tests"], (".c", ".h", ".def", ".hpp")))
    used |= {name for name, count in words_of(source, TREES, (".c", ".def", ".inc")).items() if count > 1}
    for names in undefined.values():
        used |= names
    everything = {name: path for path, names in sorted(defined.items()) for name in names}
    # The compiler makes names of C++ (_Z…) for templates and classes of other libraries.
    unused = {name for name in everything if name not in used and name != "main" and not name.startswith(("_Z", "DW.ref."))}
    for name in sorted(unused - set(ALLOWED)):
        print("%s: %s: nothing uses it" % (everything[name], name))
    for name in sorted(set(ALLOWED) - unused):
        print("%s is allowed to be unused, and is used or gone" % name)
    failures = len(unused ^ set(ALLOWED))
    print("%d symbols, %d findings" % (len(everything), failures))
    if len(everything) < SYMBOLS_LEAST:
        sys.exit("only %d symbols were found" % len(everything))
    sys.exit(1 if failures else 0)


main()
