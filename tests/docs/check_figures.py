#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pages and pictures of docs/performance/ are made from bench/results/, and mark stale tables.

    check_figures.py TREE

Fails if
* bench/pages.py would write a page, a picture or the summary otherwise. A table is stale if the code that it
  measures differs from the code at its commit (bench/code_state.py); a wrong or missing mark is named with the rooms;
* a results file is in no page or has no recorded code, or two files of a machine have a row in common;
* a page names a results file that does not exist, or a page is longer than its limit;
* the table of docs/performance/fourier.md, int8.md or linalg.md is not that of its results file;
* the recorded code does not match the commit. This needs git and the commit, and is left out without them.
"""
import collections
import json
import os
import re
import sys
import tempfile

TREE = os.path.abspath(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TREE, "bench"))
sys.path.insert(0, os.path.join(TREE, "bench", "peers"))
import code_state
import fourier
import int8
import linalg
import pages

RESULTS = os.path.join(TREE, "bench", "results")
PAGES, IMAGES = os.path.join(TREE, "docs", "performance"), os.path.join(TREE, "docs", "images")
MARK = re.compile(r"^(?:\*\*Stale:\*\*|Current:) .*?\.(?= |$)", re.M)
LONGEST = {"index.md": 120}
TABLES = {"fourier.md": fourier, "int8.md": int8, "linalg.md": linalg}  # pages whose table a program of peers/ prints
OTHERS = {"cliffs.md", *TABLES}  # bench_cliffs and check_tables compare them with their files
FAILURES = []


def fail(text):
    FAILURES.append(text)


def check_pages():
    texts = pages.generate(RESULTS, PAGES, IMAGES, TREE)
    for path in pages.differing(texts):
        name, old = os.path.relpath(path, TREE), pages.present(path) or ""
        marks = [MARK.findall(text) for text in (old, texts[path])]
        for was, now in zip(*marks):
            if was != now:
                fail(f'{name}: the mark is "{was}", but should be "{now}"')
        if len(marks[0]) < len(marks[1]):
            fail(f"{name}: {len(marks[1]) - len(marks[0])} marks of stale or current tables are missing")
        fail(f"{name} is not made from the present results and code: python3 bench/pages.py")
    for name in os.listdir(PAGES):
        lines, most = len(open(os.path.join(PAGES, name), encoding="utf-8").readlines()), LONGEST.get(name, 170)
        if lines > most:
            fail(f"docs/performance/{name} has {lines} lines, more than {most}")
        if os.path.join(PAGES, name) not in texts and name not in OTHERS:
            fail(f"docs/performance/{name} has no folder in bench/results")


def check_tables():
    """A page has the figures of the file that it names."""
    for name, program in TABLES.items():
        page = open(os.path.join(PAGES, name), encoding="utf-8").read()
        file = re.search(r"`bench/results/(\S+\.jsonl)`", page)
        if not file:
            fail(f"docs/performance/{name} names no results file")
        elif "\n".join(program.table(os.path.join(RESULTS, file[1]))) not in page:
            fail(f"docs/performance/{name}: its table is not that of "
                 f"bench/peers/{program.__name__}.py table bench/results/{file[1]}")


def rows_of(data):
    """(suite, case, device) of each row of a results file."""
    if "rows" in data and "versions" in data:
        return {(r["suite"], r["row"], data["environment"].get("device", "cpu")) for r in data["rows"]}
    return {(r["suite"], r["case"], r["device"]) for r in data.get("records", ())}


def check_results():
    entries, machines = code_state.load(RESULTS), sorted(os.listdir(RESULTS))
    used = set()
    for machine in (name for name in machines if os.path.isdir(os.path.join(RESULTS, name))):
        files = collections.defaultdict(list)
        for section in pages.sections_of(RESULTS, machine):
            used.add(section.name)
            data = pages.read(os.path.join(RESULTS, section.name))
            for row in rows_of(data):
                files[row].append(section.name)
            if section.name not in entries:
                fail(f"bench/results/{section.name}: its code is not recorded: python3 bench/pages.py in a git checkout")
            elif section.commit and entries[section.name]["commit"] != section.commit:
                fail(f"bench/results/{section.name}: code.json has another commit: python3 bench/pages.py")
        for row, names in files.items():
            if len(names) > 1:
                fail(f"{' '.join(row)} is in {' and '.join(names)}: keep the newest")
    for name in entries.keys() - used:
        fail(f"bench/results/code.json has {name}, which is no results file")


def check_names():
    """Every results file that a page names exists."""
    for where, _, names in os.walk(os.path.join(TREE, "docs")):
        for name in (name for name in names if name.endswith(".md")):
            path = os.path.join(where, name)
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"^```.*?^```", "", file.read(), flags=re.S | re.M)
            for found in re.findall(r"bench/results/([\w./-]*\w)", text):
                if not os.path.exists(os.path.join(RESULTS, found)):
                    fail(f"{os.path.relpath(path, TREE)}: no file bench/results/{found}")


def check_hashing():
    """Comments, includes and blanks do not count; code and strings do."""
    same = ["int a = 1;", "/* one */ int  a\n= 1; // two", '#include "b.h"\nint a = 1;']
    if len({code_state.digest(text) for text in same}) != 1:
        fail("comments, includes or blanks change the hash of code")
    other = ["int a = 2;", 'int a = 1; char *b = "// c";', 'int a = 1; char *b = "// d";']
    if len({code_state.digest(text) for text in [same[0], *other]}) != 4:
        fail("a change of the code does not change its hash")


def check_marks():
    """A tree of one source: its table is current, also after a new comment, and stale after a change."""
    with tempfile.TemporaryDirectory() as tree:
        source, machine = os.path.join(tree, "src", "core", "a.c"), os.path.join(tree, "results", "machine")
        os.makedirs(os.path.dirname(source))
        os.makedirs(machine)

        def mark(text):
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            texts = pages.generate(os.path.dirname(machine), tree, tree, tree)
            return MARK.findall(texts[os.path.join(tree, "machine.md")])

        row = {"suite": "operation", "row": "add_1M", "engines": {"libcompute": {"ms": 1.0}, "torch": {"ms": 2.0}}}
        data = {"environment": {"commit": "abc", "COMPUTE_CPU_ISA": ""}, "isa": "avx2", "versions": {"torch": "2"},
                "dates": ["2026-11-29"], "rows": [row]}
        with open(os.path.join(machine, "peers.json"), "w", encoding="utf-8") as file:
            json.dump(data, file)
        if mark("int a = 1;") != ["**Stale:** the commit of this file is unknown."]:
            fail("a file without recorded code is not marked")
        rooms = code_state.rooms_of(["operation"], "cpu")
        hashes = {room: code_state.hash_of_tree(tree, room) for room in rooms}
        code_state.save(os.path.dirname(machine), {"machine/peers.json": {"commit": "abc", "rooms": hashes}})
        current = ["Current: core, plan, cpu are as at abc."]
        if mark("int a = 1;") != current or mark("/* one */ int a = 1;") != current:
            fail("unchanged code is marked as stale")
        if mark("int a = 2;") != ["**Stale:** core changed since abc."]:
            fail("changed code is not marked as stale")


def check_history():
    history, seen = code_state.History(TREE), 0
    for name, entry in code_state.load(RESULTS).items():
        if not history.has(entry["commit"]):
            continue
        seen += 1
        for room, recorded in entry["rooms"].items():
            if history.hash_of(entry["commit"], room) != recorded:
                fail(f"code.json: {room} of {name} is not that room at {entry['commit']}")
    return seen


check_hashing()
check_marks()
check_results()
if not FAILURES:
    check_pages()
check_names()
check_tables()
SEEN = check_history()
for failure in FAILURES:
    print("FAILED:", failure)
print(f"{len(code_state.load(RESULTS))} results files, {SEEN} compared with their commits, {len(FAILURES)} failures")
sys.exit(1 if FAILURES else 0)
