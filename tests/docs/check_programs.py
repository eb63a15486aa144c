# SPDX-License-Identifier: MIT
"""Compiles and runs the programs of docs/guide/ and docs/reference/, and compares their output with the page.

    check_programs.py TREE BUILD SCRATCH

A block of C or C++ with a main is a whole program. A block without a language after it, if there is one, is its
output: "…" in a line stands for any text, a line "…" for any lines. Other blocks of C are parts: they must compile in
a function that has the usual objects as parameters. training.md has a separate test (tests/cli/test_training.py),
which also checks the trained network.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

TREE, BUILD, SCRATCH = map(os.path.abspath, sys.argv[1:4])
OBJECTS = ("compute_context *context, compute_device *device, compute_graph *graph, "
           "compute_plan *plan, compute_tensor *in, compute_tensor *out, compute_node x, "
           "compute_node y, compute_process_group *group")
NAMES = "(void)context, (void)device, (void)graph, (void)plan, (void)in, (void)out, (void)x, (void)y, (void)group;"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LANGUAGES = {"c": (".c", [os.environ.get("CC", "cc"), "-std=c11"]),
             "cpp": (".cpp", [os.environ.get("CXX", "c++"), "-std=c++17"])}
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


def compile_block(language, name, text, more):
    ending, compiler = LANGUAGES[language]
    source = os.path.join(SCRATCH, name + ending)
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([*compiler, *WARNINGS, "-I", os.path.join(TREE, "include"),
                           source, *more], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    return None


def differs(printed, page):
    """True if the output differs from the page."""
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
                      for line in page.splitlines())
    return re.fullmatch(pattern, printed) is None


def run(language, name, text, expected):
    program = os.path.join(SCRATCH, name)
    library = os.path.join(BUILD, "lib")
    wrong = compile_block(language, name, text, ["-o", program, "-L" + library, "-lcompute", "-lm", "-Wl,-rpath," + library])
    if wrong:
        return wrong
    done = subprocess.run([program], capture_output=True, text=True, check=False, cwd=SCRATCH, timeout=600,
                          env={**os.environ, "COMPUTE_DEVICE": "cpu"})
    if done.returncode:
        return f"exit status {done.returncode}: {done.stdout}{done.stderr}"
    if expected is not None and differs(done.stdout, expected):
        return f"it prints\n{done.stdout}and the page says\n{expected}"
    return None


def part(name, text):
    whole = text if re.match(r"static ", text) else f"void part({OBJECTS});\nvoid part({OBJECTS}) {{\n{NAMES}\n{{\n{text}}}\n}}\n"
    return compile_block("c", name, "#include <compute/compute.h>\n#include <stdio.h>\n" + whole,
                     ["-fsyntax-only", "-Wno-unused-variable", "-Wno-unused-function",
                      "-Wno-unused-but-set-variable"])


def main():
    os.makedirs(SCRATCH, exist_ok=True)
    failed = programs = parts = 0
    for page in sorted(glob.glob(os.path.join(TREE, "docs", "guide", "*.md")) +
                       glob.glob(os.path.join(TREE, "docs", "reference", "*.md"))):
        title = os.path.basename(page)[:-3]
        if title == "training":
            continue
        with open(page, encoding="utf-8") as file:
            blocks = [(found.group(1), found.group(2)) for found in BLOCK.finditer(file.read())]
        for i, (language, text) in enumerate(blocks):
            if language not in LANGUAGES or (language == "cpp" and not shutil.which(LANGUAGES["cpp"][1][0])):
                continue
            name = f"{title}_{i}"
            if "int main(" in text:
                programs += 1
                after = blocks[i + 1] if i + 1 < len(blocks) else ("none", "")
                wrong = run(language, name, text, after[1] if after[0] == "" else None)
            else:
                parts += 1
                wrong = part(name, text)
            if wrong:
                failed += 1
                print(f"FAILED: {os.path.relpath(page, TREE)}, block {i + 1}: {wrong}")
    print(f"{programs} programs and {parts} parts of programs, {failed} failed")
    if programs < 6:
        sys.exit("programs are missing: are the pages' blocks marked as C?")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
