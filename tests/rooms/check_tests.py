#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds tests that may pass without testing anything.

    check_tests.py SOURCE_FOLDER

A test that cannot run on a machine calls test_skip with the reason; a script prints the reason and exits with 77. In C
tests, these fail:

  - a test function that returns early: it would count as passed;
  - another function without a result that returns early if the machine lacks something: its caller cannot notice;
  - cmocka's skip(), which gives no reason, and a message of something "left out" or "skipped" beside a passing test;

and in scripts, an exit with 0 beside a word of something skipped.
"""
import os
import re
import sys

# Properties of the machine: instruction sets, files, programs, libraries, devices, optional parts.
QUESTION = re.compile(r"isa->name|\b(?:access|system|popen|dlopen|fixture_open|open_device|compute_device_by_name|compute_open)\("
                      r"|_(?:available|missing)\(|\bhas_\w+|\bis_missing")
FUNCTION = re.compile(r"^(?:static )?(?:inline )?void (\w+)\(([^;{]*)\) \{$(.*?)^\}$", re.M | re.S)
RETURN = re.compile(r"(?:if \((?P<condition>(?:[^;{}]|\n)*)\)\s*(?:\{[^{}]*)?)?\breturn;")
FILES_LEAST = 300


def plain(text):
    """Without comments, and without the contents of literals except relevant words."""
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: '"' + " " * (len(m.group(0)) - 2) + '"', text)


def check_c(path, text):
    bare = plain(text)

    def line_of(offset):
        return bare.count("\n", 0, offset) + 1

    found = []
    for function in FUNCTION.finditer(bare):
        name, arguments, body = function.groups()
        is_test = re.search(r"void \*\*state", arguments)
        for early in RETURN.finditer(body):
            where = line_of(function.start(3) + early.end())
            if is_test:
                found.append((where, "test %s returns early; call test_skip with the reason" % name))
            elif "test_skip(" not in body and early.group("condition") and QUESTION.search(early.group("condition")):
                found.append((where, "%s returns without a word to its caller; call test_skip, or return whether it ran" % name))
    for use in re.finditer(r"(?<![\w.>])skip\(\)", bare):
        found.append((line_of(use.start()), "skip() gives no reason; call test_skip"))
    for use in re.finditer(r'(?:print_message|printf|puts)\(\s*"(?:skipped|left out)', text):
        if not re.search(r"\b(?:SKIPPED|77)\b", "".join(text[use.start():].splitlines(True)[:4])):
            found.append((text.count("\n", 0, use.start()) + 1, "a message, and the test passes; call test_skip"))
    return ["%s:%d: %s" % (path, line, what) for line, what in found]


def check_script(path, text):
    return ["%s:%d: what is skipped exits with 77" % (path, number)
            for number, line in enumerate(text.splitlines(), 1)
            if re.search(r"skipped|left out", line) and re.search(r"\bexit\(?\s*0|\bexit\(\)", line)]


def self_check():
    """The patterns find their targets, and leave ordinary code alone."""
    bad = ["static void t(void **state) {\n  if (f()) return;\n}",
           "static void t(void **state) {\n  if (f()) {\n    g();\n    return;\n  }\n}",
           "static void run(fixture *f) {\n  if (strcmp(f->device->isa->name, \"a\") != 0) return;\n}",
           "void t(void) {\n  if (access(\"x\",\n      R_OK)) return;\n}",
           "static void t(void **state) {\n  skip();\n}",
           "static void t(void **state) {\n  print_message(\"left out: x\");\n}"]
    good = ["static void t(void **state) {\n  if (f()) test_skip(\"x\");\n}",
            "static void walk(node *n) {\n  if (!n) return;\n}",
            "static bool t(void) {\n  if (!has_x()) return false;\n  return true;\n}"]
    return all(check_c("", text) for text in bad) and not any(check_c("", text) for text in good)


def main():
    root, files, found = sys.argv[1], 0, []
    if not self_check():
        sys.exit("the patterns do not find what they should")
    for folder, _, names in os.walk(os.path.join(root, "tests")):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if path.startswith("tests/support/harness/test.") or path == "tests/rooms/check_tests.py":
                continue
            check = {".c": check_c, ".h": check_c, ".sh": check_script, ".py": check_script}.get(os.path.splitext(name)[1])
            if check:
                files += 1
                found += check(path, open(os.path.join(root, path), encoding="utf-8").read())
    print("\n".join(found + ["%d files of tests, %d findings" % (files, len(found))]))
    if files < FILES_LEAST:
        sys.exit("only %d files were found" % files)
    sys.exit(1 if found else 0)


main()
