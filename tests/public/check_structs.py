# SPDX-License-Identifier: MIT
"""Every public struct can grow, or is listed as one that does not, and none changes its size unnoticed.

    check_structs.py TREE SCRATCH [--update]

A struct of include/compute/ ends with a member `reserved`; or it is named in docs/reference/compatibility.md: as a value
that never changes, or as shown by pointer only (and in BY_POINTER below). Sizes are those of structs.txt beside this
file, on machines with 64 bits; --update writes them. backend.h, kernel_descriptor.h, generator.h and transport.h have rules of their own
(test_abi.c).
"""
import glob
import os
import re
import subprocess
import sys

TREE, SCRATCH = sys.argv[1:3]
SIZES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "structs.txt")
BY_POINTER = {"compute_probe", "compute_variable", "compute_tune_progress", "compute_call_arguments",
              "compute_validation_input", "compute_validation_finding"}
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\n\} \1;", re.S)


def structs():
    """{name: whether it has reserved words}"""
    found = {}
    for path in sorted(glob.glob(os.path.join(TREE, "include", "compute", "*.h"))):
        if os.path.basename(path) in ("backend.h", "kernel_descriptor.h", "generator.h", "transport.h"):
            continue
        with open(path, encoding="utf-8") as file:
            for match in STRUCT.finditer(file.read()):
                found[match.group(1)] = bool(re.search(r"\breserved\[\d+\];", match.group(2)))
    return found


def sizes(names):
    """What the compiler says, a line for each struct."""
    source, program = os.path.join(SCRATCH, "sizes.c"), os.path.join(SCRATCH, "sizes")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <stdio.h>\n#include <compute/compute.h>\nint main(void) {\n")
        for name in names:
            file.write(f'  printf("{name} %zu\\n", sizeof({name}));\n')
        file.write("  return 0;\n}\n")
    subprocess.run([os.environ.get("CC", "cc"), "-I", os.path.join(TREE, "include"), source, "-o", program],
                   check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def main():
    os.makedirs(SCRATCH, exist_ok=True)
    with open(os.path.join(TREE, "docs", "reference", "compatibility.md"), encoding="utf-8") as file:
        listed = set(re.findall(r"`(compute_\w+)`", file.read()))
    found, failed = structs(), 0
    for name, grows in found.items():
        if grows == (name in listed or name in BY_POINTER):
            print(f"{name}: " + ("has reserved words, and is listed as one that does not grow" if grows else
                                 "has no reserved words, and the policy page does not list it"))
            failed += 1
    for name in sorted(BY_POINTER - found.keys()):
        print(f"{name}: there is no such struct")
        failed += 1
    now = sizes(sorted(found))
    if "--update" in sys.argv[3:]:
        with open(SIZES, "w", encoding="utf-8") as file:
            file.write(now)
    with open(SIZES, encoding="utf-8") as file:
        before = file.read()
    for line in sorted(set(now.splitlines()) ^ set(before.splitlines())):
        print(("now:    " if line in now.splitlines() else "before: ") + line)
        failed += 1
    if len(found) < 50:
        sys.exit(f"only {len(found)} structs were found")
    sys.exit(f"{failed} findings; a new size belongs into structs.txt (--update), and changes the soname if the "
             "struct was released" if failed else 0)


if __name__ == "__main__":
    main()
