#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the runs of continuous integration, as a table in Markdown: a row for each NAME.row of this folder.

    matrix.py TREE [--check BUILD]

A row describes the test NAME, which is a separate build or system, or, with `script`, a script instead of a test. Its
keys, a line each:

    system    where it runs; "the machine" is the one that runs tests/run.sh
    compiler  "cc" is the compiler of the ordinary build
    options   words that the test's script or its arguments contain (may be missing)
    runs      its tests, and how many of them
    script    for a row that is no test: its file
    often     "default": each tests/run.sh; "full": each tests/run.sh --full; "2/3": with --full on the second of each
              three days (tests/CMakeLists.txt takes the turns from here); "by hand"

--check compares the rows with the tests that BUILD has registered: each script that runs alone or takes turns has a row,
each row a test, with this turn, these labels and these options.
"""
import glob
import json
import os
import re
import subprocess
import sys

KEYS = ("system", "compiler", "options", "runs", "script", "often")
COLUMNS = ("name", "system", "compiler", "options", "runs", "often")
EVERY = {"default": "every run", "full": "every full run", "by hand": "by hand"}


def read_row(path):
    row = {"name": os.path.splitext(os.path.basename(path))[0], "options": ""}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            key, _, value = line.strip().partition(": ")
            if key not in KEYS or not value:
                sys.exit(f"{path}: cannot read '{line.strip()}'")
            row[key] = value
    lacking = [key for key in ("system", "compiler", "runs", "often") if key not in row]
    if lacking:
        sys.exit(f"{path}: no {lacking[0]}")
    if row["often"] not in EVERY and not re.fullmatch(r"[1-9]\d*/[1-9]\d*", row["often"]):
        sys.exit(f"{path}: often: {row['often']} is unknown")
    return row


def how_often(row):
    if row["often"] in EVERY:
        return EVERY[row["often"]]
    return "day {} of {}".format(*row["often"].split("/"))


def order(row):
    """What runs most often comes first."""
    first = list(EVERY).index(row["often"]) if row["often"] in EVERY else 1.5
    number, _, count = row["often"].partition("/") if first == 1.5 else ("0", "", "0")
    return first, int(count), int(number), row["name"] != "ordinary", row["name"]


def print_table(rows):
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for row in sorted(rows, key=order):
        print("| " + " | ".join(dict(row, often=how_often(row))[column] for column in COLUMNS) + " |")


def registered(build):
    """{name: test} with `labels`, `turn`, `alone` and `command`."""
    found = {}
    text = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, stdout=subprocess.PIPE).stdout
    for test in json.loads(text)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", ())}
        turns = [word.partition("=")[2] for word in properties.get("ENVIRONMENT", ())
                 if word.startswith("COMPUTE_TEST_TURN=")]
        found[test["name"]] = {"labels": properties.get("LABELS", []), "turn": turns[0] if turns else None,
                               "alone": properties.get("RUN_SERIAL", False), "command": test.get("command", [])}
    return found


def check_options(tree, row, words):
    """Of `options` those that are neither in `words` nor in the files that they name."""
    for word in words:
        if word.endswith((".sh", ".py")) and os.path.isfile(os.path.join(tree, word)):
            with open(os.path.join(tree, word), encoding="utf-8") as file:
                words = words + [file.read()]
    return [option for option in row["options"].split() if not any(option in word for word in words)]


def check_row(tree, row, tests):
    if "script" in row:
        if not os.path.isfile(os.path.join(tree, row["script"])):
            return f"there is no {row['script']}"
        lost = check_options(tree, row, [row["script"]])
        return f"{row['script']} has no {lost[0]}" if lost else None
    test = tests.get(row["name"])
    if not test:
        return "there is no such test"
    turn = row["often"] if row["often"] not in EVERY else None
    if test["turn"] != turn:
        return f"the row has the turn {turn}, the test {test['turn']}"
    if "full" not in test["labels"]:
        return "the test is not full"
    if ("default" in test["labels"]) != (row["often"] == "default"):
        return f"the row is of {row['often']}, the test has the labels {', '.join(test['labels'])}"
    lost = check_options(tree, row, test["command"])
    return f"neither the test's command nor its script has {lost[0]}" if lost else None


def check(tree, build, rows):
    tests, names = registered(build), {row["name"] for row in rows}
    failures = [f"{row['name']}.row: {fault}" for row in rows if (fault := check_row(tree, row, tests))]
    failures += [f"{name}: no row in tests/matrix/" for name, test in sorted(tests.items())
                 if name not in names and (test["turn"] or test["alone"] and test["command"][:1] and
                                           os.path.basename(test["command"][0]) == "bash")]
    if len(tests) < 300:
        failures.append(f"{build} has only {len(tests)} tests")
    return failures


def main():
    tree = os.path.abspath(sys.argv[1])
    rows = [read_row(path) for path in glob.glob(os.path.join(tree, "tests", "matrix", "*.row"))]
    print_table(rows)
    failures = check(tree, os.path.abspath(sys.argv[3]), rows) if sys.argv[2:3] == ["--check"] else []
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(bool(failures))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    main()
