# SPDX-License-Identifier: MIT
"""Writes the pages, which are made for GitHub, as Doxygen wants them: headings get the labels that links use, links between
pages become references, and links to other files of the tree point to copies of them or, where there is none, become plain text.
Also writes sections.js, the text of each section, which search.html looks through: Doxygen's search knows symbols only.

    pages.py TREE OUTPUT
"""
import glob
import json
import os
import re
import shutil
import sys

PLACES = ("README.md", "docs", "src", "backends", "kernels", "bench", "tests")  # with pages
TREE, OUTPUT = map(os.path.abspath, sys.argv[1:3])
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def slug(heading):
    """GitHub's name of a heading, in characters that a label of Doxygen may have."""
    heading = LINK.sub(r"\2", heading).strip().lower()
    heading = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
    return heading.encode("ascii", "ignore").decode()


def label(page, heading=""):
    name = re.sub(r"\W", "-", os.path.splitext(os.path.relpath(page, TREE))[0])
    return "page-" + name + ("--" + heading if heading else "")


def link(found, page, placed):
    """`placed` collects the pages that are below this one in the tree of pages."""
    image, text, target = found.groups()
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return found.group(0)
    path, _, fragment = target.partition("#")
    there = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if image:
        return f"![{text}]({os.path.basename(there)})"
    if there.endswith(".md") and os.path.relpath(there, TREE).split(os.sep)[0] in PLACES:
        # The index is a page of the README, and its pages are in the order of the index.
        parent = os.path.join(TREE, "docs", "index.md")
        if there not in placed and (page == parent or there == parent and page == os.path.join(TREE, "README.md")):
            placed.add(there)
            return f'@subpage {label(there)} "{text}"'
        return f"[{text}](@ref {label(there, slug(fragment))})"
    if os.path.dirname(there) == os.path.join(TREE, "docs", "examples"):
        return f'<a href="{os.path.basename(there)}.txt">{text.replace("`", "")}</a>'
    return text


def convert(page):
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n")
    fenced, title, count, placed = False, True, {}, set()
    for i, line in enumerate(lines):
        if line.startswith("```"):
            fenced = not fenced
            # Doxygen takes a word here for the ending of a file's name.
            endings = {"```sh": "```{.sh}", "```c": "```{.c}", "```python": "```{.py}", "```": "```"}
            lines[i] = endings.get(line, "```{.txt}")
        elif not fenced:
            heading = re.match(r"(#{1,6}) +(.*)$", line)
            if heading:
                name = slug(heading.group(2))
                number = count.get(name, 0)
                count[name] = number + 1
                name = label(page, "" if title else f"{name}-{number}" if number else name)
                text = LINK.sub(r"\2", heading.group(2))
                lines[i] = f"{heading.group(1)} {text} {{#{name}}}"
                if title and page in (os.path.join(TREE, "README.md"), os.path.join(TREE, "docs", "index.md")):
                    lines[i] += '\n\n<a href="search.html">Search in the pages</a>'
                title = False
            else:
                lines[i] = LINK.sub(lambda found: link(found, page, placed), line)
    return "\n".join(lines)


def sections(page, converted):
    """Title, address and text of each section of a page that convert() has made."""
    address = "index.html" if page == os.path.join(TREE, "README.md") else label(page) + ".html"
    found, fenced = [], False
    for line in converted.split("\n"):
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match(r"#{1,6} (.*) \{#(.*)\}$", line)
        if heading:
            title, name = heading.groups()
            url = address if not found else address + "#" + name
            found.append({"page": found[0]["title"] if found else title, "title": title, "url": url, "text": ""})
        elif found and not line.startswith("```"):
            text = re.sub(r"@subpage \S+ \"([^\"]*)\"", r"\1", LINK.sub(r"\2", line))
            found[-1]["text"] += re.sub(r"<[^>]*>|[*`|]", "", text) + " "
    return found


def main():
    shutil.rmtree(OUTPUT, ignore_errors=True)
    pages = [os.path.join(TREE, "README.md")]
    for pattern in ("docs/**/*.md", "src/*/README.md", "*/README.md", "bench/*/README.md"):
        pages += glob.glob(os.path.join(TREE, pattern), recursive=True)
    index = []
    for page in pages:
        path = os.path.join(OUTPUT, os.path.relpath(page, TREE))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            converted = convert(page)
            file.write(converted)
        index += sections(page, converted)
    with open(os.path.join(OUTPUT, "sections.js"), "w", encoding="utf-8") as file:
        file.write("const sections = " + json.dumps(index, ensure_ascii=False, separators=(",", ":")) + ";\n")


if __name__ == "__main__":
    main()
