#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same thing has one form in all C files.

    check_forms.py SOURCE_FOLDER

These fail:

  - an atomic built-in of the compiler (__atomic_…, __sync_…): fields are _Atomic, and <stdatomic.h> has the functions.
    BUILT_INS lists the exceptions, each with its reason;
  - <stdatomic.h> in a public header: C++ programs include those;
  - the name of a public function, for messages, that is not `static const char operation[]`. If a function has the
    name for its file, it is operation_open and so on;
  - a comparison with NULL as a condition, or beside && or ||: write !pointer or pointer. A value may be a comparison:
    `found = at != NULL`;
  - in the library, a status with the name s (write status), and a step of a plan with the name step (write s).
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
# {file: the reason why <stdatomic.h> does not serve}
BUILT_INS = {
    "kernels/dialect_c.h": "kernels add to elements of the caller's arrays, which are not _Atomic",
}

# The library and its modules, without the programs.
LIBRARY = re.compile(r"(?:src/(?!programs/)|backends/)")
NAME_OF_CALL = re.compile(
    r"^#define +\w+ +\"compute_\w+\"|^[ \t]*[a-z ]*\bchar (?:[\w*]+(?:\[\])? = \"compute_|[\w*]*operation\w*(?:\[\])? = \")\w+\";",
    re.M)
OPERATION = re.compile(r"static const char operation(?:_\w+)?\[\] = .*")

SHORT_NAME = re.compile(r"\bcompute_status (?:\w+, )*s\b|\b(?:plan|build)_step \*(?:const )?step\b")
NULL_TEST = re.compile(r"\s*([=!]=)\s*NULL\b")
WORD = re.compile(r"\w+$")
ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")
UNARY = re.compile(r"(?:[(&|!,=?:;{]|\breturn)\s*\*+$")
BEFORE = ("&&", "||", "(", ";", "=", "return", "?", ":", ",", "{", "!")
AFTER = ("&&", "||", ")", "?", ";", ",", ":", "}")


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


def operand_start(code, end):
    """The start of the expression without binary operators that ends at `end`; None for an assignment in brackets."""
    at = end
    while at and (code[at - 1] in ")]_" or code[at - 1].isalnum()):
        if code[at - 1] in ")]":
            depth = 1
            at -= 1
            while depth:
                at -= 1
                depth += (code[at] in ")]") - (code[at] in "([")
            if re.search(r"[\w)\]]$", code[:at][-1:]):  # a call or a subscript
                continue
        else:
            at -= len(WORD.search(code[:at][-100:]).group())
        if code[:at].endswith("->"):
            at -= 2
        elif code[:at].endswith("."):
            at -= 1
        else:
            break
    if code[at] == "(" and ASSIGNMENT.search(code[at:end]):
        return None
    while UNARY.search(code[:at][-20:]):
        at -= 1
    return at


def comparisons(code):
    """(start, end, pointer, operator) of each comparison with NULL that should be a pointer alone."""
    for hit in NULL_TEST.finditer(code):
        start = operand_start(code, hit.start())
        if start is None:
            continue
        before, after = code[:start].rstrip(), code[hit.end():].lstrip()
        if not before.endswith(BEFORE) or not after.startswith(AFTER):
            continue
        keyword = WORD.search(before[:-1].rstrip()[-100:]) if before.endswith("(") else None
        if (before.endswith(("&&", "||")) or after.startswith(("&&", "||", "?"))
                or before.endswith(";") and after.startswith(";")
                or keyword and keyword.group() in ("if", "while") and after.startswith(")")):
            yield start, hit.end(), code[start:hit.start()], hit.group(1)


def null_tests(path, code):
    for start, _, pointer, operator in comparisons(code):
        yield start, f"{pointer} {operator} NULL: write {'!' if operator == '==' else ''}{' '.join(pointer.split())}"


def short_names(path, code):
    if LIBRARY.match(path):
        for hit in SHORT_NAME.finditer(code):
            yield hit.start(), f"{' '.join(hit.group().split())}: write {'status' if hit.group()[-1] == 's' else 's'}"


RULES = (built_ins, public_atomics, operations, null_tests, short_names)


def main(root):
    failures = files = 0
    for tree in TREES:
        for where, _, names in os.walk(os.path.join(root, tree)):
            for name in names:
                if not name.endswith(SOURCES):
                    continue
                path = os.path.relpath(os.path.join(where, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    text = file.read()
                code, bare = c_source.code(text), c_source.code(text, strings=False)
                files += 1
                for rule in RULES:
                    for offset, problem in rule(path, bare if rule is null_tests else code):
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
