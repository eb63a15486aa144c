#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that no public function computes in its caller's floating-point environment.

    check_float_environment.py LIBRARY

Reads the disassembly of libcompute.so. A public function that reaches floating-point arithmetic by direct calls must
first pass a function that sets the environment (core/base/float_environment.h). Such a function reads MXCSR, and
everything after it is allowed. Calls through pointers are invisible here; tests/base/test_float_environment.c runs
them.
"""
import collections
import re
import subprocess
import sys

ARITHMETIC = re.compile(r"v?(add|sub|mul|div|sqrt|min|max|comi|ucomi|cmp\w*|round|fm\w+|fnm\w+)[sp][sd]$|v?cvt\w+$")
GUARD = re.compile(r"v?stmxcsr$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def functions_of(library):
    """({address: name}, {address: addresses that it calls, jumps to or names}, functions with arithmetic, functions
    with a guard)"""
    names, calls, addresses = {}, collections.defaultdict(set), collections.defaultdict(set)
    arithmetic, guarded = set(), set()
    here = None
    for line in run("objdump", "-d", "--no-show-raw-insn", library).splitlines():
        head = re.match(r"([0-9a-f]+) <([^>]+)>:$", line)
        if head:
            here = int(head.group(1), 16)
            names[here] = head.group(2)
            continue
        step = re.match(r"\s+[0-9a-f]+:\s+(?:rep |lock |notrack |bnd )?(\S+)\s*(.*)$", line)
        if not step or here is None:
            continue
        code, operands = step.groups()
        if ARITHMETIC.match(code):
            arithmetic.add(here)
        if GUARD.match(code):
            guarded.add(here)
        target = re.search(r"\b([0-9a-f]+) <([^>+]+)(\+0x[0-9a-f]+)?>", operands)
        if target and (code.startswith(("call", "j")) or code == "lea"):
            kind = addresses if code == "lea" else calls
            kind[here].add((int(target.group(1), 16) - int(target.group(3) or "0", 16), target.group(2)))
    for here in names:
        called = {name for _, name in calls[here]}
        if "float_environment_default" in called:  # if the compiler has not inlined it
            guarded.add(here)
        if "thread_start" not in called:  # its argument runs in the default environment
            calls[here] |= addresses[here]
    return names, calls, arithmetic, guarded


def path_to_arithmetic(start, names, calls, arithmetic, guarded, by_name):
    """The addresses of the shortest path, or None."""
    before, left = {start: None}, collections.deque([start])
    while left:
        here = left.popleft()
        if here in guarded:
            continue
        if here in arithmetic:
            path = []
            while here is not None:
                path.append(names[here])
                here = before[here]
            return path[::-1]
        for address, name in calls[here]:
            if name.endswith("@plt"):
                address = by_name.get(re.sub(r"@.*", "", name))
            if address in names and address not in before:
                before[address] = here
                left.append(address)
    return None


def main():
    library = sys.argv[1]
    names, calls, arithmetic, guarded = functions_of(library)
    public = {}
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] == "T":
            public[re.sub(r"@.*", "", fields[2])] = int(fields[0], 16)
    if len(public) < 400 or not arithmetic:
        sys.exit("%s: only %d public functions, %d with arithmetic" % (library, len(public), len(arithmetic)))
    found = 0
    for name, address in sorted(public.items()):
        path = path_to_arithmetic(address, names, calls, arithmetic, guarded, public)
        if path:
            found += 1
            print("%s computes in its caller's environment: %s" % (name, " > ".join(path)))
    if found:
        print("%d functions lack FLOAT_ENVIRONMENT_DEFAULT, or something on their way does" % found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
