#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails for phrases that do not read like English, and for turns of phrase that are too frequent.

    check_english.py SOURCE_FOLDER [--list]

Phrases: the string literals of src, backends and bench, and the comments of include/compute. Each finding is printed as
FILE:LINE with the phrase and its replacement. A phrase may be split over adjacent literals or lines of a comment.
If a pattern is wrong about a text, make the pattern more exact.

Turns of phrase: the comments of src, backends, kernels, include, bench and tests, also in Python with its
docstrings, in shell scripts and in CMake's files, and the prose of all pages. Code bases
whose first language is English have at most 1.3 of each per 10,000 words; more than MOST in one of these trees fails.
The table has a line for each room. --list prints every occurrence.
"""
import ast
import collections
import io
import os
import re
import sys
import tokenize

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TREE, "bench"))
import c_source

# (regular expression, replacement); ignores case
PATTERNS = [
    (r"\b(?<!there )(is|are|was) no (dtype|shape|name|number|numbers|model|file|files|\.\w+ file|device|nodes?|kind|flags?|error"
     r"|failure|policy|part|UTF-8|text|label|path|tensor)\b", '"is not a …", "invalid …"'),
    (r"(?<!there )(?<!there)\b(is|are) none$|\bnone of (compute_|off\b)", '"unknown …", "invalid …", "must be one of …"'),
    (r"\bto be had\b", '"available"'),
    (r"\banew\b|\bonce more\b", '"again"'),
    (r"\b(of|from) before$|\bof before\b(?! [a-z]+ing)|\bof late\b|\bas ever\b", '"earlier", "existing", "recent", "as usual"'),
    (r"\bgoes on\b|\bgo on on\b", '"continues"'),
    (r"\bone (after|behind) (the other|another)\b|\bafter each other\b", '"in sequence", "joined", "contiguous"'),
    (r"\bbehind (it|them|the|its|their|each)\b", '"after", "following"'),
    (r"\bby itself\b", '"on its own", "separately"'),
    (r"\b(the )?usual (one|ones|value|values|number|bounds)\b", '"the default"'),
    (r"\bso (many|much)\b", '"that many", "N …"'),
    (r"\bnobody\b|\bwhoever\b|\bsomebody\b", 'name who'),
    (r"\b(system|loader|driver|compiler|module)'s (own )?words\b|\ball of the .*words\b", '"message", "output"'),
    (r"\bmeans? nothing\b|\bmakes? no sense\b", '"unknown", "invalid"'),
    (r"\blacks? (of )?memory\b|\bfor lack of memory\b", '"out of memory"'),
    (r"\bis not an? .* that can be read\b", '"cannot read … as …"'),
    (r"\bunder way\b", '"in progress"'),
    (r"\bnot where\b.*\b(begins?|ends?)\b", '"expected …"'),
    (r"\bas asked\b|\bis wanted\b|\bnobody wants\b", '"expected", "required"'),
    (r"\bhands? (it |them )?(over|on)\b|\bhanded over\b", '"pass"'),
    (r"\bwhich (is|are) no (?!longer|more|less)\w+", '"which is not a …"'),
    (r"\bthat are none\b", 'name what they are'),
    (r"\bstands? (in|there)\b(?! for)", '"is stored in", "is in"'),
    (r"\bjudge?ment\b", '"heuristic"'),
]

# Files whose texts are about to move.
EXEMPT = ()

# Turns of phrase that translations have and English has not: name -> pattern. Occurrences per 10,000 words are limited.
TURNS = {
    "what it is": r"\bwhat (?:it|is|was|are|were|they|follows|the|a|this|has|have|can|would|does|one)\b",
    "that of": r"\b(?:that|those) of\b",
    "of its own": r"\bof (?:its|their|one's) own\b",
    "of which": r"\bof which\b",
    ", too": r", too\b",
    "file says": r"\b(?:file|page|field|header|row|comment|table|function|flag|it)s? (?:says?|tells?|knows?)\b",
    "private word": r"\b(?:exams?|rivals?|threes|enlist|delist)\b",
}
MOST = 2.0
TREES = ("src", "backends", "kernels", "include", "bench", "tests", "docs")
SOURCES = (".c", ".h", ".def", ".cpp", ".hpp", ".cl", ".cu", ".inc")
SCRIPTS = (".py", ".sh", ".cmake", "CMakeLists.txt")

JOINT = re.compile(r"(?:\s|\\\n|PRI[a-zA-Z0-9]+)*")


def literals(text):
    """[(offset, content)] of the string literals; adjacent ones count as one."""
    found, end = [], None
    for offset, content in c_source.literals(text):
        if end is not None and JOINT.fullmatch(text, end, offset):
            found[-1][1] += content
        else:
            found.append([offset, content])
        end = offset + len(content) + 2
    return found


def comments(text):
    for offset, comment in c_source.comments(text):
        yield offset, re.sub(r"\s*\n\s*\*?\s*", " ", comment.strip("/* \n"))


def python_comments(text):
    """(offset, text) of comments, where those on lines in sequence count as one, and of docstrings."""
    begins = [0]
    for line in text.split("\n"):
        begins.append(begins[-1] + len(line) + 1)
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            last = found[-1] if found else None
            if last and last[1] == line - 1 and last[2] == column:
                last[1], last[3] = line, last[3] + " " + token.string.lstrip("# ")
            else:
                found.append([begins[line - 1] + column, line, column, token.string.lstrip("# ")])
    for offset, _, _, comment in found:
        yield offset, comment
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            page = ast.get_docstring(node)
            if page:
                yield begins[node.body[0].lineno - 1], page


def hash_comments(text):
    """(offset, text) of the comments of shell and CMake that have lines to themselves; lines in sequence are one."""
    for block in re.finditer(r"(?:^[ \t]*#(?!!)[^\n]*\n?)+", text, re.M):
        yield block.start(), re.sub(r"\s*\n[ \t]*#*[ \t]*", " ", block.group().lstrip("# \t"))


def comments_of(path, text):
    if path.endswith(".py"):
        return python_comments(text)
    return comments(text) if path.endswith(SOURCES) else hash_comments(text)


def check(path, find):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    count = 0
    for offset, content in find(text):
        for pattern, instead in COMPILED:
            hit = pattern.search(content)
            if hit:
                line = text.count("\n", 0, offset) + 1
                print(f'{path}:{line}: "{hit.group()}": write {instead}\n    {content[:160]}')
                count += 1
    return count


def prose(page):
    """The text of a page without code, tables and links' targets."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*`", "", text)
    text = "\n".join(line for line in text.split("\n") if not line.startswith(("|", "<", "    ")))
    return re.sub(r"\]\([^)]*\)", "]", text)


def room(path):
    """src/model for src/model/file/wire.c, docs for README.md."""
    parts = path.split("/")
    if path.endswith(".md"):
        return "docs"
    return "/".join(parts[:2]) if len(parts) > 2 and parts[0] in ("src", "backends", "tests") else parts[0]


def texts(root):
    """(path, line, text) of every comment, and of every page as a whole."""
    for tree in TREES:
        for where, folders, names in os.walk(os.path.join(root, tree)):
            folders[:] = [name for name in folders if not name.startswith((".", "__"))]
            for name in names:
                path = os.path.join(where, name)
                if not name.endswith(SOURCES + SCRIPTS + (".md",)):
                    continue
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                if name.endswith(".md"):
                    yield os.path.relpath(path, root), 1, prose(text)
                else:
                    for offset, content in comments_of(name, text):
                        yield os.path.relpath(path, root), text.count("\n", 0, offset) + 1, content
    for name, read in (("README.md", lambda page: [(0, prose(page))]), ("CMakeLists.txt", hash_comments)):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            for _, content in read(file.read()):
                yield name, 1, content


def turns(root, listed):
    """Prints how frequent each turn of phrase is in each room; the number of trees and turns above MOST."""
    words, found = collections.Counter(), collections.defaultdict(collections.Counter)
    patterns = {name: re.compile(pattern, re.I) for name, pattern in TURNS.items()}
    for path, line, text in texts(root):
        for place in {room(path), room(path).split("/")[0], "all"}:
            words[place] += len(text.split())
            for name, pattern in patterns.items():
                hits = pattern.findall(text)
                found[place][name] += len(hits)
        for name, pattern in patterns.items() if listed else ():
            for hit in pattern.finditer(text):
                print(f"{path}:{line}: {name}: …{' '.join(text[max(0, hit.start() - 40):hit.end() + 40].split())}…")
    print(f"{'per 10,000 words':24s}{'words':>8s} " + " ".join(f"{name:>12s}" for name in TURNS))
    above = 0
    for place in sorted(words):
        rates = [1e4 * found[place][name] / max(words[place], 1) for name in TURNS]
        judged = place in TREES or place == "all"
        above += judged and sum(rate > MOST for rate in rates)
        print(f"{place:24s}{words[place]:8d} " + " ".join(f"{rate:11.1f}{'!' if judged and rate > MOST else ' '}" for rate in rates))
    return above


def main(root, listed):
    count = files = 0
    for folder, endings, find in (("src", (".c", ".h", ".def"), literals), ("backends", (".c", ".h", ".def"), literals),
                                  ("bench", (".c", ".h"), literals), ("include/compute", (".h", ".def"), comments)):
        for where, _, names in sorted(os.walk(os.path.join(root, folder))):
            for name in sorted(names):
                path = os.path.join(where, name)
                if name.endswith(endings) and os.path.relpath(path, root) not in EXEMPT:
                    files += 1
                    count += check(path, find)
    if files < 100:
        sys.exit(f"{root} has only {files} source files")
    above = turns(root, listed)
    if count or above:
        sys.exit(f"{count} phrases to rewrite, {above} turns of phrase are more frequent than {MOST} in 10,000 words")


COMPILED = [(re.compile(pattern, re.I), instead) for pattern, instead in PATTERNS]

if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--list"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    main(arguments[0], "--list" in sys.argv)
