#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails for phrases in messages and public comments that do not read like English.

    check_english.py SOURCE_FOLDER

Reads the string literals of src, backends and bench, and the comments of include/compute. Each finding is printed as
FILE:LINE with the phrase and its replacement. A phrase may be split over adjacent literals or lines of a comment. If a
pattern is wrong about a text, make the pattern more exact.
"""
import os
import re
import sys

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

TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
JOINT = re.compile(r"(?:\s|\\\n|PRI[a-zA-Z0-9]+)*")


def literals(text):
    """[(offset, content)] of the string literals; adjacent ones count as one."""
    found, end = [], None
    for token in TOKEN.finditer(text):
        if not token.group().startswith('"'):
            continue
        if end is not None and JOINT.fullmatch(text, end, token.start()):
            found[-1][1] += token.group()[1:-1]
        else:
            found.append([token.start(), token.group()[1:-1]])
        end = token.end()
    return found


def comments(text):
    for token in TOKEN.finditer(text):
        if token.group()[:2] in ("/*", "//"):
            yield token.start(), re.sub(r"\s*\n\s*\*?\s*", " ", token.group().strip("/* \n"))


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


def main(root):
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
    sys.exit(f"{count} phrases to rewrite" if count else 0)


COMPILED = [(re.compile(pattern, re.I), instead) for pattern, instead in PATTERNS]

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
