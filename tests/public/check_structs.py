# SPDX-License-Identifier: MIT
"""Every public struct can grow or is listed as fixed, and none changes its size unnoticed.

    check_structs.py TREE SCRATCH [--update]

A struct of include/compute/ ends with a member `reserved`; or it is named in docs/reference/compatibility.md: as a value
that never changes, or as shown by pointer only (and in BY_POINTER below). Sizes are in structs.txt beside this
file, on machines with 64 bits; --update writes them. backend.h and include/compute/backend/ have separate rules (test_abi.c).

A function that takes a struct with reserved words, also a nested one, refuses nonzero words: test_reserved.c has a
REFUSED for the function and the struct. The library does not read these words of other structs (NOT_READ).
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
NOT_READ = {
    # The library fills them in, or a function of the program reads them.
    "compute_batch_device_info", "compute_batch_progress", "compute_batch_result", "compute_batch_step",
    "compute_batch_times", "compute_batcher_info", "compute_build_statistics", "compute_device_costs", "compute_device_info",
    "compute_error", "compute_fallback_statistics", "compute_fit_summary", "compute_fit_times", "compute_group_info",
    "compute_group_member", "compute_job_info", "compute_model_info", "compute_model_port", "compute_npy_info",
    "compute_operation_info", "compute_plan_info", "compute_pool_statistics", "compute_quantize_layer",
    "compute_run_report",
    "compute_tensor_file_entry", "compute_trainer_info", "compute_training_progress", "compute_training_score",
    "compute_tree_model_info",
    "compute_validation_statistics",
    # The library uses its reserved words.
    "compute_profile_span"}
FUNCTION = re.compile(r"^COMPUTE_API\b[^;()]*?\b(compute_\w+)\(([^;]*)\)[^;()]*;", re.M)
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\n\} \1;", re.S)


def headers():
    """The headers for programs, without comments."""
    texts = []
    for path in sorted(glob.glob(os.path.join(TREE, "include", "compute", "*.h"))):
        if os.path.basename(path) == "backend.h":
            continue
        with open(path, encoding="utf-8") as file:
            texts.append(re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S))
    return "\n".join(texts)


def unrefused(header, grows):
    """A message for each struct with reserved words without a REFUSED in test_reserved.c."""
    data = {name: [m for m in body.split(";") if "(" not in m] for name, body in STRUCT.findall(header)}

    def inside(text):
        """The structs with reserved words that the text names, including nested ones."""
        for name in re.findall(r"\bcompute_\w+", text):
            if name in data:
                if grows[name]:
                    yield name
                for member in data[name]:
                    yield from inside(member)

    wanted = {(function, name) for function, arguments in FUNCTION.findall(header) for name in inside(arguments)}
    with open(os.path.join(TREE, "tests", "public", "test_reserved.c"), encoding="utf-8") as file:
        tested = set(re.findall(r"\bREFUSED\(\s*(compute_\w+),\s*(compute_\w+),", file.read()))
    for function, name in sorted(wanted - tested):
        if name not in NOT_READ:
            yield f"{function}: test_reserved.c has no REFUSED with the reserved words of {name}"
    for function, name in sorted(tested - wanted):
        yield f"{function}: takes no {name}, of which test_reserved.c has a REFUSED"
    refused = {name for _, name in tested}
    for name in sorted(name for name in grows if grows[name] and name not in refused | NOT_READ):
        yield f"{name}: no test and no reason for its reserved words"
    for name in sorted(NOT_READ & refused | NOT_READ - data.keys()):
        yield f"{name}: is in NOT_READ, but has a test or does not exist"


def sizes(names):
    """The compiler's output, a line for each struct."""
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
    header, failed = headers(), 0
    found = {name: bool(re.search(r"\breserved\[\d+\];", body)) for name, body in STRUCT.findall(header)}
    for name, grows in found.items():
        if grows == (name in listed or name in BY_POINTER):
            print(f"{name}: " + ("has reserved words, and is listed as one that does not grow" if grows else
                                 "has no reserved words, and the policy page does not list it"))
            failed += 1
    for name in sorted(BY_POINTER - found.keys()):
        print(f"{name}: there is no such struct")
        failed += 1
    for line in unrefused(header, found):
        print(line)
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
