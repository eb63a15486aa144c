# SPDX-License-Identifier: MIT
"""Runs the programs of docs/guide/python.md with this interpreter, and compares their output with the page: "…" in a
line stands for any text, a line "…" for any lines.

    guide.py TREE SCRATCH"""
import os
import re
import subprocess
import sys

TREE, SCRATCH = map(os.path.abspath, sys.argv[1:3])
PROGRAMS = 6
DIGITS = os.path.join(TREE, "bench", "data", "digits.csv.gz")
with open(os.path.join(TREE, "docs", "guide", "python.md"), encoding="utf-8") as page:
    blocks = re.findall(r"^```python\n(.*?)^```\n+^```\n(.*?)^```$", page.read(), re.M | re.S)
for number, (program, printed) in enumerate(blocks, 1):
    source = os.path.join(SCRATCH, f"guide_{number}.py")
    with open(source, "w", encoding="utf-8") as file:
        file.write(program)
    done = subprocess.run([sys.executable, source, DIGITS], capture_output=True, text=True, timeout=600, check=False,
                          cwd=SCRATCH)
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
                      for line in printed.splitlines())
    if done.returncode or not re.fullmatch(pattern, done.stdout):
        sys.exit(f"program {number}: exit status {done.returncode}; it prints\n{done.stdout}{done.stderr}and the page "
                 f"says\n{printed}")
if len(blocks) < PROGRAMS:
    sys.exit(f"{len(blocks)} programs, fewer than {PROGRAMS}: are the page's blocks marked as Python?")
print(f"the guide's {len(blocks)} programs print what the page says")
