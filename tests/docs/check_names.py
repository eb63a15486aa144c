#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails for a file's name in a comment or page that no file of the tree bears, and for a banner over two lines.

    check_names.py SOURCE_FOLDER

A name with folders must be the end of a path in the tree. Names of other projects' and users' files are in OTHERS, with
the reason.
"""
import os
import re
import sys

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TREE, "bench"))
import c_source

TREES = ("src", "backends", "kernels", "include", "bench", "tests", "docs")
SOURCES = (".c", ".h", ".def", ".cpp", ".hpp", ".cl", ".cu", ".py", ".sh", ".cmake", ".txt")
NAME = re.compile(r'(?<![\w/<".*{$-])((?:[A-Za-z0-9_-]+/)*[A-Za-z][A-Za-z0-9_-]*\.(?:c|h|def|md|py|sh|cmake|hpp|cl|cu))\b(?![\w(/*{-])')
HASH_COMMENT = re.compile(r"^\s*#[^\n]*|\"\"\".*?\"\"\"", re.S | re.M)
BANNER = re.compile(r"^\s*/\* -{2,}.*-{4,}\s*\n\s*\*/", re.M)

# name: whose file it is
OTHERS = {
    "fenv.h": "a header of the C library",
    "PAGE.md": "a placeholder of a program's help",
    "b.h": "an example of a quoted include",
    "compute/conformance_hooks.h": "a header that authors of a backend may write",
}


def files(root):
    for tree in TREES:
        for where, folders, names in os.walk(os.path.join(root, tree)):
            folders[:] = [name for name in folders if not name.startswith((".", "__"))]
            for name in names:
                yield os.path.relpath(os.path.join(where, name), root)
    for name in os.listdir(root):
        if os.path.isfile(os.path.join(root, name)):
            yield name


def prose(path, text):
    """(offset, text) of the pieces in which names are read."""
    if path.endswith(".md"):
        yield 0, re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), text, flags=re.S | re.M)
        return
    if path.endswith((".py", ".sh", ".cmake", ".txt")):
        for piece in HASH_COMMENT.finditer(text):
            yield piece.start(), piece.group()
    else:
        yield from c_source.comments(text)


def main(root):
    paths = sorted(files(root))
    ends = {path[at:] for path in paths for at in [0] + [i + 1 for i, c in enumerate(path) if c == "/"]}
    failures = 0
    for path in paths:
        if not path.endswith(SOURCES + (".md",)) or path == "docs/changelog.md":
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            text = file.read()
        for banner in BANNER.finditer(text):
            print("%s:%d: a banner over two lines" % (path, text.count("\n", 0, banner.start()) + 1))
            failures += 1
        for offset, piece in prose(path, text):
            for name in NAME.finditer(piece):
                if name.group(1) not in ends and name.group(1) not in OTHERS:
                    print("%s:%d: no file %s" % (path, text.count("\n", 0, offset + name.start()) + 1, name.group(1)))
                    failures += 1
    if len(paths) < 1000:
        sys.exit("%s has only %d files" % (root, len(paths)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
