#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the tables of src/model/operators/text_case.c with Python's.

check_case.py TREE [--write]

Every character whose other case is one character has a row, and no other character changes. --write
makes the tables again. They have the letters of Unicode 14; another version of Python may know
more, so only the rows are compared then."""
import re
import sys
import unicodedata

VERSION = "14.0.0"
SURROGATES = range(0xd800, 0xe000)


def mappings(change):
    """{character: other case} of single characters."""
    made = {}
    for code in range(0x110000):
        other = "" if code in SURROGATES else change(chr(code))
        if len(other) == 1 and ord(other) != code:
            made[code] = ord(other)
    return made


def rows_of(wanted):
    """Rows [first, last, step, distance] with steps of 1 or 2."""
    rows = []
    for code, other in sorted(wanted.items()):
        row = rows[-1] if rows else None
        step = code - row[1] if row else 0
        if row and row[3] == other - code and step <= 2 and (row[0] == row[1] or row[2] == step):
            row[1:3] = code, step
        else:
            rows.append([code, code, 1, other - code])
    return rows


def pattern(name):
    return re.compile(r"(case_row " + name + r"\[\] = \{\n)(.*?)(\};)", re.S)


def main(tree, write):
    path = f"{tree}/src/model/operators/text_case.c"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    wrong = 0
    for name, change in (("upper_rows", str.upper), ("lower_rows", str.lower)):
        wanted = mappings(change)
        if write:
            made = " ".join("{%#x, %#x, %d, %d}," % tuple(row) for row in rows_of(wanted))
            text = pattern(name).sub(lambda match: match[1] + "    " + made + match[3], text)
            continue
        found, last = {}, -1
        for row in re.findall(r"\{(\w+), (\w+), (\w+), (-?\w+)\}", pattern(name).search(text)[2]):
            first, end, step, distance = (int(number, 0) for number in row)
            wrong += first <= last or (end - first) % step != 0
            last = end
            found.update((code, code + distance) for code in range(first, end + 1, step))
        differ = {code for code in found if found[code] != wanted.get(code)}
        if unicodedata.unidata_version == VERSION:
            differ |= wanted.keys() - found.keys()
        for code in sorted(differ)[:20]:
            made, right = found.get(code, code), wanted.get(code, code)
            print(f"{name}: U+{code:04X} becomes {made:X}, not {right:X}")
        print(f"{name}: {len(found)} characters, {len(differ)} wrong")
        wrong += len(differ) + (not found)
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--write" in sys.argv))
