#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""No test may assume that a path outside its folder does not exist: on some machine, a daemon's home is
/nonexistent. Finds such absolute paths in the tests' strings, and files that some machines lack.

    check_paths.py TREE

A path that does not exist: TEST_NOWHERE in C (support/harness/test.h), nowhere() in Python (cli/machine.py),
"$3/nowhere" in a script. A comment "path: REASON" excuses a line."""
import ast
import os
import re
import sys

# Names of paths that should not exist; folders that belong to the machine's owner.
FICTION = re.compile(r"/(non|no(t|ne|where|thing|body)?[-_/.]|no(t|ne|where|thing|body)?$|does|missing|absent|some|elsewhere"
                     r"|invalid|bogus|unknown|fake|gone|nix)|exist")
OWNED = {"home", "media", "mnt", "opt", "root", "srv"}
# The files of /dev that every container has.
DEVICES = {"fd", "full", "null", "shm", "stderr", "stdin", "stdout", "urandom", "zero"}
PATH = re.compile(r"(?:^|[=:])(/[a-z_]+(?:/[A-Za-z0-9_.-]+)*)(?=[:/\s]|$)")


def doubtful(text):
    for path in PATH.findall(text):
        first, *rest = path[1:].split("/")
        if FICTION.search(path) or first in OWNED or (first == "dev" and rest and rest[0] not in DEVICES):
            yield path


def c_strings(text):
    """(line, string) of each literal that does not directly follow a macro, as in FOLDER
    "/file"."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    for match in re.finditer(r'"((?:\\.|[^"\\\n])*)"', text):
        before = text[: match.start()].rstrip()[-40:]
        if not re.search(r'("|\b[A-Z][A-Z0-9_]+)$', before):
            yield text.count("\n", 0, match.start()) + 1, match[1]


def python_strings(text):
    tree = ast.parse(text)
    pages = {id(node.body[0].value) for node in ast.walk(tree)
             if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
             and node.body and isinstance(node.body[0], ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values[1:]}
    added = {id(node.right) for node in ast.walk(tree) if isinstance(node, ast.BinOp)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (pages | parts | added):
            yield node.lineno, node.value


def shell_strings(text):
    for number, line in enumerate(text.splitlines(), 1):
        for word in [] if line.lstrip().startswith("#") else re.split(r"[\s;()]+", line):
            yield number, word.strip("\"'")


def check(tree):
    found = []
    readers = {".c": c_strings, ".h": c_strings, ".py": python_strings, ".sh": shell_strings}
    for folder, _, files in os.walk(os.path.join(tree, "tests")):
        for name in sorted(files):
            reader = readers.get(os.path.splitext(name)[1])
            if not reader or name == os.path.basename(__file__):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            lines = text.splitlines()
            found += [f"{os.path.relpath(path, tree)}:{line}: {doubt}" for line, string in reader(text)
                      for doubt in doubtful(string) if "path: " not in lines[line - 1]]
    return found


def terminals(tree):
    """A bare chroot has no terminals: open_terminal() of cli/machine.py then skips the test."""
    found = []
    for folder, _, files in os.walk(os.path.join(tree, "tests")):
        for name in sorted(files):
            if not name.endswith(".py") or name in ("machine.py", os.path.basename(__file__)):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found += [f"{os.path.join(os.path.relpath(folder, tree), name)}:{number}: {line.strip()}"
                          for number, line in enumerate(file, 1) if re.search(r"\bopenpty\(|^import pty", line)]
    return found


def main():
    for sample, expected in (("/nonexistent", True), ("a:/nowhere", True), ("/usr/nothing", True), ("/dev/pts", True),
                             ("/dev/null", False), ("/proc/self/maps", False), ("a/b", False), ("in /home/x", False)):
        if bool(list(doubtful(sample))) != expected:
            sys.exit(f"the check itself is wrong about {sample}")
    found = check(os.path.abspath(sys.argv[1])) + terminals(os.path.abspath(sys.argv[1]))
    if found:
        print("\n".join(found))
        sys.exit(f"{len(found)} lines believe that a path is there on every machine, or on none")


if __name__ == "__main__":
    main()
