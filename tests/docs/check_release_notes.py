#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The notes of a release are its section of the changelog and nothing else; the current version has one.

    check_release_notes.py TREE SCRATCH
"""
import os
import re
import subprocess
import sys

TREE, SCRATCH = map(os.path.abspath, sys.argv[1:3])

CHANGELOG = """# Changelog

First lines.

## 0.10.0 (not released yet)

* Ten.

## 0.1.0 (2001-02-03)

### The library

* One, in
  two lines, as [a page](guide/page.html#there) and [a site](https://example.org/) say.
* Two.

```sh
first
second
```

## 0.0.1

* Oldest.
"""

NOTES = """### The library

* One, in two lines, as a page and [a site](https://example.org/) say.
* Two.

```sh
first
second
```
"""


def notes(*arguments):
    ran = subprocess.run([sys.executable, os.path.join(TREE, "docs", "site", "release_notes.py"), *arguments],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    return ran.returncode, ran.stdout, ran.stderr


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAILED: {what}: {found!r} instead of {wanted!r}")


def main():
    os.makedirs(SCRATCH, exist_ok=True)
    sample = os.path.join(SCRATCH, "changelog.md")
    with open(sample, "w", encoding="utf-8") as file:
        file.write(CHANGELOG)
    expect("a section in the middle", notes("0.1.0", "--changelog", sample), (0, NOTES, ""))
    expect("the last section", notes("0.0.1", "--changelog", sample, "--final"), (0, "* Oldest.\n", ""))
    expect("no section", notes("0.1.1", "--changelog", sample), (1, "", "the changelog has no section of 0.1.1\n"))
    expect("not released", notes("0.10.0", "--changelog", sample, "--final")[0], 1)

    with open(os.path.join(TREE, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"^project\(compute VERSION (\S+)", file.read(), re.M)[1]
    with open(os.path.join(TREE, "docs", "changelog.md"), encoding="utf-8") as file:
        items = len(re.findall(r"^\* ", re.split(r"^## .*$", file.read(), flags=re.M)[1], re.M))
    status, text, words = notes(version)
    expect(f"the section of {version}", (status, words), (0, ""))
    expect(f"items of {version}", len(re.findall(r"^\* ", text, re.M)), items)
    print(f"{version}: {items} items")


if __name__ == "__main__":
    main()
