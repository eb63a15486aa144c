# SPDX-License-Identifier: MIT
"""Runs the program of docs/guide/python.md with this interpreter, and compares its output with the page.

    guide.py TREE SCRATCH"""
import os
import re
import subprocess
import sys

TREE, SCRATCH = sys.argv[1:3]
with open(os.path.join(TREE, "docs", "guide", "python.md"), encoding="utf-8") as page:
    program, printed = re.search(r"^```python\n(.*?)^```\n+^```\n(.*?)^```$", page.read(), re.M | re.S).groups()
source = os.path.join(SCRATCH, "guide_program.py")
with open(source, "w", encoding="utf-8") as file:
    file.write(program)
done = subprocess.run([sys.executable, source], capture_output=True, text=True, timeout=600, check=False)
if done.returncode or done.stdout != printed:
    sys.exit(f"exit status {done.returncode}; it prints\n{done.stdout}{done.stderr}and the page says\n{printed}")
print("the guide's program prints what the page says")
