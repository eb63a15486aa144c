#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the rooms of docs/internals/rooms.md with the code.

    check_rooms.py SOURCE_FOLDER BUILD_FOLDER [--all] [--since COMMIT] [--write-budgets]

The table in docs/internals/rooms.md has a row for each room: its folder, its job, the rooms that it may use,
and its maximum number of lines. A room of the library has the name of its last folder (`src/core/base/` is base), other
rooms the name of their path (`src/programs/fit/` is programs/fit). `public headers` allows the headers for user
programs, `compute/backend.h` that header and its includes. Text after a semicolon names other software and is not read.

An arrow is an undefined symbol of an object file that an object of another room defines, or an include of another
room's header. Public functions are no exception. These fail:

  - an undeclared arrow, and a declared arrow without a use;
  - an arrow between rooms of the library that points down the table: a room builds on the rooms above it, so there is
    no cycle;
  - a cycle of symbols between the folders of a room, including its root: the root is on top, and code that other
    folders need has a folder;
  - a cycle of more than CIRCLE_FILES files;
  - a room with more lines than its budget: a change that needs more changes the table;
  - a call of the vtable's copies outside src/core/device/transfer.c, which records copies and device losses;
  - a subscript of a shape's sizes in a file that reads the shapes of nodes: a node from a failed builder has rank 0, so
    `size[rank - 1]` is out of bounds. shape_at and shape_set check the axis;
  - a folder with sources without a row, and a row without a folder;
  - a folder of rooms without a README.md, or with one of more than README_LINES lines;
  - a question for the system (_WIN32 and its like) outside src/core/platform/: other rooms use its interface;
  - a name in the tree's root, under version control, that TOP lacks;
  - an external name that two files of libcompute.a define: the archive has one object of the core and the CPU backend.

For an undeclared arrow, the first uses are listed; --all lists every use. --since prints the lines that each room
gained or lost since a commit. --write-budgets writes the present counts, rounded up, into the table.
"""
import argparse
import json
import os
import re
import subprocess
import sys

CIRCLE_FILES = 3
TOP = {".ci", ".clang-format", ".clang-tidy", ".editorconfig", ".git-blame-ignore-revs", ".github", ".gitignore",
       "CMakeLists.txt", "LICENSE", "README.md", "backends", "bench", "docs", "include", "kernels", "src",
       "tests"}
USES_LISTED = 6
README_LINES = 60
BUDGET_STEP = 20
PUBLIC, BACKEND = "public headers", "compute/backend.h"
TREES = ("src", "backends", "bench", "kernels")
SOURCES = (".c", ".h", ".def")


ROW = re.compile(r"\|\s*`([^`]+)/`\s*\|[^|]*\|([^|]*)\|([^|]*)\|\s*$")


def name_of(folder):
    parts = folder.split("/")
    if parts[0] != "src":
        return folder
    return "/".join(parts[1:]) if parts[1] == "programs" else parts[-1]


def read_table(path):
    """{room: (folder, set of rooms it may use, maximum lines)}, in the table's order"""
    rooms, inside = {}, False
    for line in open(path, encoding="utf-8"):
        if line.startswith("## "):
            inside = line.strip() == "## Table"
        row = ROW.match(line)
        if not inside or not row:
            continue
        folder, uses, lines = row.group(1), row.group(2).split(";")[0], row.group(3).strip().replace(",", "")
        names = {name.strip().strip("`") for name in uses.split(",")} - {"", "–"}
        rooms[name_of(folder)] = (folder, names, int(lines) if lines.isdigit() else None)
    return rooms


class Tree:
    def __init__(self, source, rooms):
        self.source, self.rooms = source, rooms
        self.backend_headers = headers_of_backend(source)
        self.by_folder = sorted(((folder + "/", room) for room, (folder, _, _) in rooms.items()),
                                key=lambda pair: -len(pair[0]))

    def room_of(self, path):
        return next((room for folder, room in self.by_folder if path.startswith(folder)), None)

    def is_core(self, room):
        """A room of libcompute.so, where arrows may not form a cycle; programs use public headers."""
        folder, uses, _ = self.rooms[room]
        return folder.startswith("src/") and PUBLIC not in uses


def headers_of_backend(source):
    """compute/backend.h, the headers of its folder, and their includes."""
    found, left = set(), ["include/compute/backend.h"]
    left += [path for path in files_of(source, ("include/compute/backend",)) if path.endswith(".h")]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            text = open(os.path.join(source, path), encoding="utf-8").read()
            left += ["include/" + name for name in re.findall(r'#include "(compute/[^"]+)"', text)]
    return found


def files_of(source, trees=TREES):
    for tree in trees:
        for folder, _, names in os.walk(os.path.join(source, tree)):
            for name in names:
                if name.endswith(SOURCES):
                    yield os.path.relpath(os.path.join(folder, name), source)


def objects_of(source, build):
    """(source file, object file) of everything except tests; a file that is compiled several times occurs several
    times."""
    for entry in json.load(open(os.path.join(build, "compile_commands.json"), encoding="utf-8")):
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), source)
        output = entry.get("output") or re.search(r" -o (\S+)", entry["command"]).group(1)
        if output.startswith("tests/"):
            continue
        if os.path.basename(path) == "kernel_texts.c":
            path = "kernels/kernel_texts.c"
        if path.endswith("generated/python/functions.c"):
            path = "src/bindings/python/glue/functions.c"
        if path.split("/")[0] in TREES:
            yield path, os.path.join(build, output)


def symbols_of(objects):
    """({file: symbols it defines}, {file: undefined symbols})"""
    file_of = {os.path.abspath(output): path for path, output in objects}
    missing = sorted(output for output in file_of if not os.path.exists(output))
    if missing:
        sys.exit("not built: %s and %d more" % (missing[0], len(missing) - 1))
    listing = subprocess.run([os.environ.get("NM", "nm"), "-A", "-P", *file_of], check=True,
                             capture_output=True, text=True).stdout
    defined = {path: set() for path in file_of.values()}
    undefined = {path: set() for path in file_of.values()}
    for line in listing.splitlines():
        where, name, kind = line.rsplit(": ", 1)[0], *line.rsplit(": ", 1)[1].split()[:2]
        path = file_of[os.path.abspath(where)]
        if kind in "Uw":
            undefined[path].add(name)
        elif kind.isupper() or kind == "u":
            defined[path].add(name)
    return defined, undefined


def nearness(a, b):
    """The number of leading folders that two files share: names need only be unique among objects that are
    linked together."""
    count = 0
    for x, y in zip(a.split("/"), b.split("/")):
        if x != y:
            break
        count += 1
    return count


def strangers(source):
    """Lists names in the tree's root that are under version control and not in TOP. Returns how many."""
    listing = subprocess.run(["git", "-C", source, "ls-files", "--cached", "."], capture_output=True, text=True).stdout
    found = {line.split("/")[0] for line in listing.splitlines()} - TOP
    for name in sorted(found):
        print("%s is in the tree's root: build folders are not part of the tree" % name)
    return len(found)


def defined_twice(defined):
    """Lists names that the core and the CPU backend define more than once. Returns how many."""
    where = {}
    for path, names in sorted(defined.items()):
        if path.startswith(("src/", "backends/cpu/", "kernels/")) \
                and not path.startswith(("src/programs/", "src/bindings/")):
            for name in names:
                where.setdefault(name, []).append(path)
    twice = {name: paths for name, paths in where.items() if len(paths) > 1}
    for name, paths in sorted(twice.items()):
        print("libcompute.a has %s twice: %s" % (name, ", ".join(paths)))
    return len(twice)


def calls_of(defined, undefined):
    """(calling file, defining file, symbol)"""
    where = {}
    for path, names in defined.items():
        for name in names:
            where.setdefault(name, []).append(path)
    for path in sorted(undefined):
        for name in sorted(undefined[path] - defined[path]):
            homes = where.get(name)
            if homes:
                yield path, max(sorted(homes), key=lambda home: nearness(path, home)), name


def includes_of(source):
    """(including file, included file, "#include")"""
    for path in sorted(files_of(source)):
        text = open(os.path.join(source, path), encoding="utf-8").read()
        tried = (os.path.dirname(path), "src", "include", "backends", "backends/" + (path.split("/") + [""])[1], "bench", "kernels")
        for name in re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', text, re.M):
            for folder in tried:
                target = os.path.normpath(os.path.join(folder, name))
                if os.path.isfile(os.path.join(source, target)):
                    yield path, target, "#include"
                    break


def components(nodes, edges):
    """Strongly connected components (R. Tarjan, "Depth-first search and linear graph algorithms", 1972)."""
    index, low, on_stack, stack, result = {}, {}, set(), [], []

    def visit(start):
        work = [(start, iter(sorted(edges.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                    result.append(sorted(part))

    for node in sorted(nodes):
        if node not in index:
            visit(node)
    return [part for part in result if len(part) > 1]


def file_circles(calls, everything):
    """Lists cycles of files. Returns how many are too large."""
    edges, found = {}, 0
    for caller, callee, _ in calls:
        edges.setdefault(caller, set()).add(callee)
    for part in components({caller for caller, _, _ in calls}, edges):
        if len(part) <= CIRCLE_FILES:
            continue
        found += 1
        print("circle of %d files:" % len(part))
        list_uses([use for use in calls if use[0] in part and use[1] in part], everything)
        print("    " + ", ".join(part))
    return found


def copies_outside(source):
    """Lists calls of the vtable's copies outside the file of transfers."""
    count = 0
    for path in sorted(files_of(source)):
        if not path.startswith("src/") or path == "src/core/device/transfer.c":
            continue
        for number, line in enumerate(open(os.path.join(source, path), encoding="utf-8"), 1):
            if re.search(r"\b(backend|b)(->|\.)(upload|download|copy|copy_from_peer)\(", line):
                print("copy outside src/core/device/transfer.c: %s:%d: %s" % (path, number, line.strip()))
                count += 1
    return count


SIZES = re.compile(r"\b(\w+)(?:\([^()]*\))?(?:\.|->)size\[")
ASKS = re.compile(r"\b(?:compute_node_shape|call_shape)\(")
# Variables with sizes that are no shapes.
NOT_SHAPES = {"src/graph/builders/conv.c": {"w", "o"}, "src/graph/builders/volume.c": {"o", "to", "depths"},
              "src/graph/gradient/network.c": {"w"}, "src/model/operators/pool.c": {"o", "all"},
              "src/bindings/python/glue/array.c": {"shape"},
              "src/model/operators/control.c": {"info"}, "src/model/export/network.c": {"w"}}


def shapes_taken_apart(source):
    found = asked = 0
    for path in files_of(source):
        if not path.startswith("src/"):
            continue
        with open(os.path.join(source, path), encoding="utf-8") as file:
            text = file.read()
        if not ASKS.search(text) and not path.startswith(("src/model/operators/", "src/model/export/")):
            continue
        asked += 1
        for number, line in enumerate(text.splitlines(), 1):
            for name in SIZES.findall(line):
                if name not in NOT_SHAPES.get(path, ()):
                    found += 1
                    print("%s:%d: %s is taken apart without shape_at or shape_set" % (path, number, name))
    if asked < 40:
        print("only %d files ask for shapes of nodes" % asked)
        found += 1
    return found


SYSTEM = re.compile(r"^\s*#.*\b(_WIN32|_WIN64|__MINGW\w*|__CYGWIN__|__APPLE__)\b", re.M)
ASKS_SYSTEM = ("src/core/platform/", "include/compute/export.h")


def system_questions(source):
    """Lists sources outside the platform room that ask for the operating system."""
    found = 0
    for path in files_of(source, (*TREES, "include", "tests")):
        if path.startswith(ASKS_SYSTEM):
            continue
        text = open(os.path.join(source, path), encoding="utf-8", errors="replace").read()
        for match in SYSTEM.finditer(text):
            found += 1
            print("%s:%d asks for the system: %s" % (path, text.count("\n", 0, match.start()) + 1, match.group(1)))
    return found


def target_of(tree, caller, path):
    """The name by which the table allows the use of `path`."""
    core_caller = tree.is_core(caller)
    if path in tree.backend_headers and BACKEND in tree.rooms[caller][1]:
        return BACKEND
    if path.startswith("include/"):
        return None if core_caller else PUBLIC  # types only; functions are found as symbols
    room = tree.room_of(path)
    if room and not core_caller and room != caller and tree.is_core(room):
        return None if PUBLIC in tree.rooms[caller][1] and not path.endswith(".h") else room
    return room


def list_uses(uses, everything):
    shown = sorted(set(uses))
    for caller, callee, what in shown if everything else shown[:USES_LISTED]:
        print("    %s -> %s  %s" % (caller, callee, what))
    if not everything and len(shown) > USES_LISTED:
        print("    ... %d more (--all lists them)" % (len(shown) - USES_LISTED))


def group_arrows(tree, uses):
    """{(room, used room): its uses}, and the uses between files without a room."""
    arrows, homeless = {}, set()
    for caller, callee, what in uses:
        room = tree.room_of(caller)
        if room is None:
            homeless.add(os.path.dirname(caller))
            continue
        target = target_of(tree, room, callee)
        if target is not None and target != room:
            arrows.setdefault((room, target), []).append((caller, callee, what))
    return arrows, homeless


def folder_circles(tree, calls, everything):
    """Lists cycles between the folders of a room; files in its root are in the folder "."."""
    inside, found = {}, 0
    for caller, callee, symbol in calls:
        room = tree.room_of(caller)
        if room is None or room != tree.room_of(callee):
            continue
        start = len(tree.rooms[room][0]) + 1
        pair = tuple(path[start:].split("/")[0] if "/" in path[start:] else "." for path in (caller, callee))
        if pair[0] != pair[1]:
            inside.setdefault(room, {}).setdefault(pair, []).append((caller, callee, symbol))
    for room, pairs in sorted(inside.items()):
        edges = {}
        for a, b in pairs:
            edges.setdefault(a, set()).add(b)
        for part in components({name for pair in pairs for name in pair}, edges):
            found += 1
            print("circle of folders in %s: %s" % (room, ", ".join(part)))
            for pair, uses in sorted(pairs.items()):
                if set(pair) <= set(part):
                    print("  %s -> %s" % pair)
                    list_uses(uses, everything)
    return found


def lines_of(tree):
    counts = {}
    for path in files_of(tree.source):
        with open(os.path.join(tree.source, path), "rb") as file:
            room = tree.room_of(path)
            counts[room] = counts.get(room, 0) + file.read().count(b"\n")
    return counts


def over_budget(tree, counts):
    found = 0
    for room, (_, _, most) in tree.rooms.items():
        count = counts.get(room, 0)
        if room in counts and (most is None or count > most):
            found += 1
            print("%s has %d lines, its budget is %s" % (room, count, most if most is not None else "missing"))
    return found


def print_changes(tree, commit):
    listing = subprocess.run(["git", "-C", tree.source, "diff", "--numstat", "--no-renames", commit, "--", *TREES],
                             check=True, capture_output=True, text=True).stdout
    changes = {}
    for line in listing.splitlines():
        added, removed, path = line.split("\t")
        if path.endswith(SOURCES) and added != "-":
            room = tree.room_of(path) or "(no room)"
            changes[room] = changes.get(room, 0) + int(added) - int(removed)
    for room, change in sorted(changes.items()):
        print("%+6d %s" % (change, room))
    print("%+6d in all since %s" % (sum(changes.values()), commit))


def write_budgets(tree, path, counts):
    """The counts rounded up to BUDGET_STEP lines."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines(True)
    for i, line in enumerate(lines):
        row = ROW.match(line)
        count = row and counts.get(name_of(row.group(1)))
        if count:
            lines[i] = line[:row.start(3)] + " %d " % (-(-count // BUDGET_STEP) * BUDGET_STEP) + line[row.end(3):]
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(lines))


def check(tree, source, build, everything):
    rooms = tree.rooms
    defined, undefined = symbols_of(list(objects_of(source, build)))
    calls = list(calls_of(defined, undefined))
    arrows, homeless = group_arrows(tree, calls + list(includes_of(source)))
    failures = strangers(source) + defined_twice(defined) + system_questions(source)

    for folder in sorted({os.path.dirname(path) for path in files_of(source) if not tree.room_of(path)} | homeless):
        print("no row of the table is for %s" % folder)
        failures += 1
    for room, (folder, uses, _) in sorted(rooms.items()):
        if folder.split("/")[0] in TREES and not os.path.isdir(os.path.join(source, folder)):
            print("the table's %s does not exist" % folder)
            failures += 1
        for name in sorted(uses - set(rooms) - {PUBLIC, BACKEND}):
            if folder.split("/")[0] in TREES:
                print("the table's row of %s names %s, which is not a room" % (folder, name))
                failures += 1

    undeclared = sorted(pair for pair in arrows if pair[1] not in rooms[pair[0]][1])
    for room, target in undeclared:
        print("undeclared: %s uses %s" % (room, target))
        list_uses(arrows[room, target], everything)
    unused = sorted((room, name) for room, (folder, uses, _) in rooms.items() for name in uses
                    if folder.split("/")[0] in TREES and tree.is_core(room) and name in rooms and (room, name) not in arrows)
    for room, name in unused:
        print("declared, but %s does not use %s" % (room, name))

    order = {room: place for place, room in enumerate(rooms)}
    core = {room for room in rooms if tree.is_core(room)}
    down = sorted(pair for pair in arrows if set(pair) <= core and order[pair[1]] > order[pair[0]])
    for room, target in down:
        print("%s uses %s, which is below it in the table" % (room, target))
        list_uses(arrows[room, target], everything)

    files, folders = file_circles(calls, everything), folder_circles(tree, calls, everything)
    failures += copies_outside(source) + shapes_taken_apart(source) + readmes(source, rooms)
    over = over_budget(tree, lines_of(tree))
    failures += len(undeclared) + len(unused) + len(down) + files + folders + over
    print("%d rooms, %d arrows, %d calls: %d undeclared, %d unused, %d down the table, %d circles of folders, "
          "%d of more than %d files, %d rooms over their budget"
          % (len(rooms), len(arrows), len(calls), len(undeclared), len(unused), len(down), folders, files, CIRCLE_FILES, over))
    return failures


def readmes(source, rooms):
    """The folders of rooms: src/core/ for src/core/base/, backends/ for backends/cpu/."""
    failures = 0
    folders = {"/".join(folder.split("/")[:2 if folder.startswith("src/") else 1]) for folder, _, _ in rooms.values()}
    for folder in sorted(folders):
        path = os.path.join(source, folder, "README.md")
        lines = sum(1 for _ in open(path, encoding="utf-8")) if os.path.exists(path) else 0
        if not 0 < lines <= README_LINES and folder != "kernels":  # kernels/ documents its language for users
            print("%s/README.md has %d lines, not 1 to %d" % (folder, lines, README_LINES))
            failures += 1
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=os.path.abspath)
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--write-budgets", action="store_true")
    given = parser.parse_args()
    table = os.path.join(given.source, "docs/internals/rooms.md")
    rooms = read_table(table)
    if not rooms:
        sys.exit("%s has no table of rooms" % table)
    tree = Tree(given.source, rooms)
    if given.write_budgets:
        write_budgets(tree, table, lines_of(tree))
        return 0
    if given.since:
        print_changes(tree, given.since)
        return 0
    return 1 if check(tree, given.source, given.build, given.all) else 0


if __name__ == "__main__":
    sys.exit(main())
