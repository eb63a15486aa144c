# SPDX-License-Identifier: MIT
"""Checks the Markdown of the tree: every relative link leads to a file, and every #anchor to a heading
there. Every page of docs/ can be reached from README.md or docs/index.md.

    check_links.py TREE
"""
import os
import re
import sys

TREE = os.path.abspath(sys.argv[1])
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")


def pages():
    """Pages of the sources, without builds and installations below them, whose pages are in share/."""
    for folder, folders, files in os.walk(TREE):
        folders[:] = [f for f in folders if f != "share" and not f.startswith((".", "build")) and
                      os.path.join(folder, f) != os.path.join(TREE, "tests", "fuzz", "corpus")]
        for name in files:
            if name.endswith(".md"):
                yield os.path.join(folder, name)


def without_code(text):
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return text


def anchor(heading):
    """GitHub's anchor of a heading: letters, digits, _ and -, in lower case, with - for blanks."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def anchors(path):
    with open(path, encoding="utf-8") as file:
        text = without_code(file.read())
    count = {}
    found = set()
    for heading in re.findall(r"^#{1,6} +(.*?)\s*#*$", text, re.M):
        name = anchor(heading)
        number = count.get(name, 0)
        count[name] = number + 1
        found.add(f"{name}-{number}" if number else name)
    return found


def main():
    failures, reached_from = [], {}
    for page in sorted(pages()):
        name = os.path.relpath(page, TREE)
        with open(page, encoding="utf-8") as file:
            text = re.sub(r"`[^`\n]*`", "", without_code(file.read()))
        for target in LINK.findall(text):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path, _, fragment = target.partition("#")
            there = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not (there + os.sep).startswith(TREE + os.sep):
                failures.append(f"{name}: {target} leads out of the tree")
            elif not os.path.exists(there):
                failures.append(f"{name}: {target} does not exist")
            elif fragment and there.endswith(".md") and fragment not in anchors(there):
                failures.append(f"{name}: {target}: there is no such heading")
            reached_from.setdefault(page, set()).add(there)
    roots = [os.path.join(TREE, "README.md"), os.path.join(TREE, "docs", "index.md")]
    seen, waiting = set(), list(roots)
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            waiting.extend(reached_from.get(page, ()))
    documents = [page for page in pages() if page.startswith(os.path.join(TREE, "docs") + os.sep)]
    failures += [f"{os.path.relpath(page, TREE)}: no link leads to it from README.md or docs/index.md"
                 for page in sorted(documents) if page not in seen]
    for failure in failures:
        print("FAILED:", failure)
    print(f"{len(documents)} documents, {sum(map(len, reached_from.values()))} links, {len(failures)} failed")
    if len(documents) < 10:
        sys.exit("documents are missing")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
