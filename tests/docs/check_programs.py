# SPDX-License-Identifier: MIT
"""Compiles and runs the programs of README.md, docs/guide/ and docs/reference/, and compares their output with the
page.

    check_programs.py TREE BUILD SCRATCH [PAGE…]

A block of C or C++ with a main is a whole program. A block without a language after it, if there is one, is its
output: "…" in a line stands for any text, a line "…" for any lines. Other blocks of C are parts: they must compile in
a function that has the usual objects as parameters. training.md has a separate test (tests/cli/test_training.py),
which also checks the trained network.

The cookbook has only whole programs, COOKBOOK or more. Each has its output and at most LINES lines. If compute_open
fails, it prints the reason. PAGE is a page's name without its ending; without one, all pages are checked.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

if len(sys.argv) < 4:
    sys.exit(__doc__)
TREE, BUILD, SCRATCH = map(os.path.abspath, sys.argv[1:4])
PAGES = sys.argv[4:]
COOKBOOK, LINES = 20, 50
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


def forgets_failure(name):
    """The output of a program of the cookbook whose device does not exist, unless it has the reason."""
    done = subprocess.run([os.path.join(SCRATCH, name)], capture_output=True, text=True, check=False, cwd=SCRATCH,
                          timeout=600, env={**os.environ, "COMPUTE_DEVICE": "none:9"})
    if done.returncode and (done.returncode < 0 or "no device 'none:9'" not in done.stderr):
        return f"without its device it exits with {done.returncode} and prints {done.stdout}{done.stderr}"
    return None


def part(name, text):
    whole = text if re.match(r"static ", text) else f"void part({OBJECTS});\nvoid part({OBJECTS}) {{\n{NAMES}\n{{\n{text}}}\n}}\n"
    return compile_block("c", name, "#include <compute/compute.h>\n#include <stdio.h>\n" + whole,
                     ["-fsyntax-only", "-Wno-unused-variable", "-Wno-unused-function",
                      "-Wno-unused-but-set-variable"])


def cookbook(blocks):
    """The rules of the cookbook that its blocks break."""
    programs = [(i, text) for i, (language, text) in enumerate(blocks) if language in LANGUAGES]
    if len(programs) < COOKBOOK:
        yield f"{len(programs)} programs, fewer than {COOKBOOK}"
    for i, text in programs:
        if "int main(" not in text:
            yield f"block {i + 1} is not a whole program"
        if text.count("\n") > LINES:
            yield f"the program of block {i + 1} has {text.count(chr(10))} lines, more than {LINES}"
        if i + 1 == len(blocks) or blocks[i + 1][0] != "":
            yield f"no output follows the program of block {i + 1}"


def main():
    os.makedirs(SCRATCH, exist_ok=True)
    failed = programs = parts = 0
    for page in sorted(glob.glob(os.path.join(TREE, "docs", "guide", "*.md")) +
                       glob.glob(os.path.join(TREE, "docs", "reference", "*.md")) + [os.path.join(TREE, "README.md")]):
        title = os.path.basename(page)[:-3]
        if title == "training" or (PAGES and title not in PAGES):
            continue
        with open(page, encoding="utf-8") as file:
            blocks = [(found.group(1), found.group(2)) for found in BLOCK.finditer(file.read())]
        for wrong in cookbook(blocks) if title == "cookbook" else ():
            failed += 1
            print(f"FAILED: {os.path.relpath(page, TREE)}: {wrong}")
        for i, (language, text) in enumerate(blocks):
            if language not in LANGUAGES or (language == "cpp" and not shutil.which(LANGUAGES["cpp"][1][0])):
                continue
            name = f"{title}_{i}"
            if "int main(" in text:
                programs += 1
                after = blocks[i + 1] if i + 1 < len(blocks) else ("none", "")
                wrong = run(language, name, text, after[1] if after[0] == "" else None)
                if not wrong and title == "cookbook":
                    wrong = forgets_failure(name)
            else:
                parts += 1
                wrong = part(name, text)
            if wrong:
                failed += 1
                print(f"FAILED: {os.path.relpath(page, TREE)}, block {i + 1}: {wrong}")
    print(f"{programs} programs and {parts} parts of programs, {failed} failed")
    if programs < COOKBOOK and not PAGES:
        sys.exit("programs are missing: are the pages' blocks marked as C?")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
