#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds functions that call themselves, directly or through others, and requires a bound.

    check_recursion.py SOURCE_FOLDER

A graph of 100,000 nodes compiles on a small stack, so nothing may recurse over a caller's data: a chain of nodes, a
file, a list. Every recursive function has a row in BOUNDED with the reason why it ends and its maximum depth. A cycle
of calls without a row fails, and so does a row without recursion.

The check reads definitions and calls in the text of the sources: a function begins in the first column, and a call is a
name before a parenthesis. Calls through pointers and calls in macros are invisible.
"""
import os
import re
import sys

TREES = ("src", "backends")

# One function of each cycle, and the reason why the recursion ends.
BOUNDED = {
    "add_graph": "graphs in a model file nest as deep as the decoder allows",
    "buffer_release": "what is packed or derived has nothing packed, and is not derived from itself",
    "compute_compile": "the plan that folds nodes folds none, and the plan for the CPU has no other one",
    "compute_model_item_release": "an optional holds a sequence of tensors at most",
    "compute_plan_release": "the plan for the CPU has no other one",
    "copy_values": "an optional holds a sequence of tensors at most",
    "cpu_box_run": "the rest of a program is shorter than the program",
    "cpu_program_prepare": "parts of a program are shorter than the program",
    "cpu_program_release": "parts of a program are shorter than the program",
    "decode_message": "refuses messages nested deeper than MOST_NESTED_MESSAGES",
    "compute_cast": "its casts of u64 are of i64",
    "destroy": "compositions are LAYER_MOST_DEPTH deep",
    "dtype_load": "u64 and the types of whole numbers ask each other once",
    "expand": "MOST_DEPTH nodes deep",
    "fill": "structs of options do not contain themselves",
    "find_missing": "graphs in a model file nest as deep as the decoder allows",
    "fnmatch": "each star calls it with a shorter pattern",
    "match_value": "the operands of a pattern's token are earlier tokens",
    "processors_allowed": "the two systems' sources: POSIX asks sysconf, and Windows' sysconf asks it",
    "rewrite_gather": "the table of each gather is an earlier node",
    "is_computed_table": "visits MOST_OPERATIONS operations",
    "follows_product": "visits MOST_VISITED nodes",
    "layer_draw": "compositions are LAYER_MOST_DEPTH deep",
    "print_value": "a program has COMPUTE_MAX_INSTRUCTIONS",
    "put_unsigned": "each call has eight digits fewer",
    "read_level": "refuses more than MOST_NESTING parentheses",
    "resolve_graph": "graphs in a model file nest as deep as the decoder allows",
    "sum_apart": "DEEPEST nodes deep",
    "taken": "structs of results do not contain themselves",
    "train_guard": "groups of groups that the trainer makes",
    "visit_uses": "graphs in a model file nest as deep as the decoder allows",
    "visit_value": "an optional holds a sequence of tensors at most",
}

NAME = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "defined", "_Alignof", "_Alignas", "__attribute__"}


def is_other(name):
    """Keywords, and names that look like macros."""
    return name in KEYWORDS or name.isupper()


def without_text(source):
    """The source without comments and without the contents of strings and characters."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), source, flags=re.S)


def definitions(source):
    """(name, is static, body) of each function."""
    for match in re.finditer(r"^(?!#)([A-Za-z_][^;{}#]*?)\)\s*(?:COMPUTE_\w+(?:\([^)]*\))?\s*)?\{\n(.*?)^\}", source, re.M | re.S):
        head, body = match.group(1), match.group(2)
        name = NAME.search(head)
        if name and not is_other(name.group(1)) and "=" not in head.split("(")[0]:
            yield name.group(1), head.startswith("static"), body


def read_calls(root):
    """{function: functions}; a static function is (file, name), others (None, name)."""
    files = {}
    for tree in TREES:
        for folder, _, names in os.walk(os.path.join(root, tree)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        files[os.path.relpath(path, root)] = list(definitions(without_text(file.read())))
    public = {name for found in files.values() for name, static, _ in found if not static}
    # Modules have functions with equal names: a call stays within its tree.
    calls = {}
    for path, found in files.items():
        own = {name for name, static, _ in found if static}
        for name, static, body in found:
            tree = path.split("/")[0]
            key = (path if static else tree, name)
            for called in set(NAME.findall(body)):
                if called in own:
                    calls.setdefault(key, set()).add((path, called))
                elif called in public:
                    calls.setdefault(key, set()).add((tree, called))
    return calls


def circles(calls):
    """Tarjan's strongly connected components that contain a cycle, without recursion."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in sorted(calls):
        if root in index:
            continue
        work = [(root, iter(sorted(calls.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, left = work[-1]
            child = next(left, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while not members or members[-1] != node:
                        members.append(stack.pop())
                        on_stack.discard(members[-1])
                    if len(members) > 1 or node in calls.get(node, ()):
                        found.append(sorted(members))
            elif child not in index:
                index[child] = low[child] = len(index)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(sorted(calls.get(child, ())))))
            elif child in on_stack:
                low[node] = min(low[node], index[child])
    return found


def main():
    found = circles(read_calls(sys.argv[1]))
    known = {name: False for name in BOUNDED}
    failed = False
    for members in found:
        rows = [name for _, name in members if name in BOUNDED]
        for name in rows:
            known[name] = True
        if not rows:
            failed = True
            print("no row of BOUNDED says what ends this circle of calls:")
            for place, name in members:
                print(f"  {place}: {name}")
    for name, seen in known.items():
        if not seen:
            failed = True
            print(f"{name} has a row, but does not call itself")
    print(f"{len(found)} circles of calls")
    sys.exit(failed)


if __name__ == "__main__":
    main()
