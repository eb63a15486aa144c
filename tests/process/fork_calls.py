#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a C table of all public functions whose first parameter is an object of a context.

    fork_calls.py INCLUDE_FOLDER > rows.h

Each row calls its function with the object of this type from fork_calls.c; every other argument is
zero. The declaration of a new function is enough for a new row.
"""
import glob
import os
import re
import sys

TYPES = ("context", "device", "queue", "event", "kernel", "tensor", "plan", "graph", "model", "batch", "fit",
         "trainer", "layer", "dataset", "process_group", "group_request", "job")

# The results of these functions never change, or are the error itself: they also work in a child.
ANSWERS = """compute_error_get compute_error_message compute_device_context compute_queue_device compute_plan_device
compute_tensor_device compute_graph_context compute_tensor_retain compute_default_device compute_node_tensor
compute_tensor_data compute_graph_tensor""".split()


def declarations(folder):
    text = "".join(open(path, encoding="utf-8").read() for path in sorted(glob.glob(os.path.join(folder, "compute/*.h"))))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.S | re.M)
    for result, name, parameters in re.findall(r"COMPUTE_API\s+([^;(]*?)\b(compute_\w+)\(([^;]*)\)\s*[^;()]*(?:COMPUTE_PRINTF\([^)]*\))?\s*;", text):
        yield " ".join(result.split()), name, " ".join(parameters.split())


def split(parameters):
    depth, part = 0, ""
    for c in parameters:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += c
    yield part.strip()


def zero(parameter, number):
    """A variable of the parameter's type, called v<number>."""
    name = "v%d" % number
    if "(*" in parameter:
        return re.sub(r"\(\*\s*\w+\)", "(*%s)" % name, parameter, count=1)
    pointer = "*" if "[" in parameter else ""
    parameter = re.sub(r"\[[^]]*\]", "", parameter)
    kind = re.sub(r"\b(\w+)$", "", parameter).strip()
    if re.search(r"\*\s*const$", kind):
        kind = kind[: -len("const")]
    return "%s %s%s" % (kind, pointer, name)


def main():
    rows = 0
    names = []
    for result, name, parameters in declarations(sys.argv[1]):
        items = list(split(parameters))
        first = re.match(r"(?:const )?compute_(\w+) (?:const )?\*\s*\w+$", items[0])
        if not first or first.group(1) not in TYPES:
            continue
        variadic = items[-1] == "..."
        others = items[1:-1] if variadic else items[1:]
        arguments = ["objects.%s" % first.group(1)] + ["v%d" % i for i in range(len(others))]
        print("static int row_%s(void) {" % name)
        for i, parameter in enumerate(others):
            if name == "compute_error_get" and i == 0:
                print("  compute_error got, *v0 = &got;")
            else:
                print("  %s = {0};" % zero(parameter, i))
        call = "%s(%s)" % (name, ", ".join(arguments))
        if name in ANSWERS:
            print("  (void)%s;\n  return 1;" % call)
        elif result == "compute_status":
            print("  return %s == COMPUTE_ERROR_INVALID_STATE;" % call)
        elif result == "compute_node":
            print("  return %s.id == 0;" % call)
        elif result == "void":
            print("  %s;\n  return 1;" % call)
        elif "*" in result:
            print("  return %s == NULL;" % call)
        else:
            print("  (void)%s;\n  return 1;" % call)
        print("}")
        names.append((name, first.group(1)))
        rows += 1
    print("static const struct { const char *name; int (*call)(void); const void *const *object; } rows[] = {")
    for name, kind in names:
        print('  {"%s", row_%s, (const void *const *)&objects.%s},' % (name, name, kind))
    print("};")
    if rows < 300:
        sys.exit("only %d functions were found in the headers" % rows)


main()
