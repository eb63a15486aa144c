# SPDX-License-Identifier: MIT
"""Whether the code that a results file measures has changed since the file's commit.

bench/results/code.json has, for each results file, its commit and a hash of each room that it
measures, as the room was at that commit. A room is a set of folders; its hash is made of the text
of its sources without comments, includes and blanks, in any order. So comments, moved files and
renamed folders do not count as a change. Comparing needs no git; recording does.
"""

import hashlib
import json
import os
import re
import subprocess
from typing import Any, Iterable

import c_source

# A room's folders: the present ones first, then earlier names, which old commits have.
ROOMS = {
    "core": "src/core src/base src/type src/kernel src/device src/tensor src/memory",
    "plan": "src/plan src/cost src/validate src/eager src/job",
    "graph": "src/graph",
    "model": "src/model",
    "ml": "src/ml src/nn src/train",
    "fit": "src/fit",
    "batch": "src/batch",
    "group": "src/group backends/mpi",
    "codegen": "src/codegen src/generate src/tune src/cache src/custom",
    "kernels": "kernels",
    "cpu": "backends/cpu",
    "cuda": "backends/cuda backends/common",
    "opencl": "backends/opencl backends/common",
}
# The rooms that each suite measures, beside the rooms of its device.
ALWAYS = ("core", "plan")
SUITES = {
    "network": ("model",),
    "bf16": ("model",),
    "train": ("graph", "ml"),
    "fit": ("fit",),
    "group": ("group", "ml"),
    "batch": ("batch",),
}
DEVICES = {
    "cpu": ("cpu",),
    "cuda": ("kernels", "codegen", "cuda"),
    "opencl": ("kernels", "codegen", "opencl"),
}
ENDINGS = (".c", ".h", ".def", ".cl", ".cu", ".inc")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*$", re.M)


def rooms_of(suites: Iterable[str], device: str) -> list[str]:
    """The rooms that suites measure on a device, in the order of ROOMS."""
    found = {*ALWAYS, *DEVICES[device.split(":")[0]]}
    for suite in suites:
        found.update(SUITES.get(suite, ()))
    return [room for room in ROOMS if room in found]


def digest(text: str) -> str:
    """The hash of one source without comments, includes and blanks."""
    code = " ".join(INCLUDE.sub("", c_source.code(text)).split())
    return hashlib.sha256(code.encode()).hexdigest()


def joined(digests: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()[:16]


def hash_of_tree(tree: str, room: str) -> str:
    """A room's hash in the folder `tree`."""
    found = []
    for folder in ROOMS[room].split():
        for where, _, names in os.walk(os.path.join(tree, folder)):
            for name in names:
                if name.endswith(ENDINGS):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8", errors="replace") as file:
                        found.append(digest(file.read()))
    return joined(found)


class History:
    """The rooms of earlier commits, from git."""

    def __init__(self, tree: str):
        self.tree = tree
        self.digests: dict[str, str] = {}  # by the name of git's object
        try:
            top = self.git("rev-parse", "--show-toplevel").decode().strip()
        except (OSError, subprocess.CalledProcessError):
            top = ""
        # A source archive has none, or is in a folder of another repository.
        self.known = bool(top) and os.path.realpath(top) == os.path.realpath(tree)

    def git(self, *arguments: str, given: bytes = b"") -> bytes:
        command = ["git", "-C", self.tree, *arguments]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout

    def has(self, commit: str) -> bool:
        if not self.known:
            return False
        try:
            self.git("cat-file", "-e", commit + "^{commit}")
        except (OSError, subprocess.CalledProcessError):
            return False
        return True

    def added(self, path: str) -> str:
        """The commit that has added a file, for a file that does not name its own; or nothing."""
        if not self.known:
            return ""
        try:
            found = self.git("log", "--follow", "--diff-filter=A", "--format=%h", "--", path)
        except (OSError, subprocess.CalledProcessError):  # not a file of this tree
            return ""
        return (found.decode().split() or [""])[-1]

    def read(self, names: list[str]) -> None:
        """Fills `digests` for objects, with one call of git."""
        missing = [name for name in dict.fromkeys(names) if name not in self.digests]
        data = self.git("cat-file", "--batch", given="\n".join(missing).encode() + b"\n")
        at = 0
        for name in missing:
            head, _, _ = data[at:].partition(b"\n")
            size = int(head.split()[-1])
            at += len(head) + 1
            self.digests[name] = digest(data[at : at + size].decode("utf-8", "replace"))
            at += size + 1

    def hash_of(self, commit: str, room: str) -> str:
        """The same as hash_of_tree of a checkout of the commit."""
        listed = self.git("ls-tree", "-r", commit, "--", *ROOMS[room].split()).decode()
        rows = [line.split(None, 3) for line in listed.splitlines()]
        names = [row[2] for row in rows if row[3].endswith(ENDINGS)]
        self.read(names)
        return joined(self.digests[name] for name in names)


def load(results: str) -> dict[str, Any]:
    path = os.path.join(results, "code.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def save(results: str, entries: dict[str, Any]) -> None:
    """A line for each file, so that changes are easy to read."""
    lines = [f"{json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries)]
    with open(os.path.join(results, "code.json"), "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


class State:
    """Compares the recorded rooms with the rooms of a tree, and reads each room once."""

    def __init__(self, tree: str, results: str):
        self.tree, self.entries = tree, load(results)
        self.present: dict[str, str] = {}

    def changed(self, name: str) -> list[str]:
        """The rooms of a results file, such as machine/file.json, that differ from its commit's."""
        recorded = self.entries[name]["rooms"]
        for room in recorded:
            if room not in self.present:
                self.present[room] = hash_of_tree(self.tree, room)
        return [room for room, seen in recorded.items() if self.present[room] != seen]
