# SPDX-License-Identifier: MIT
"""The description of the interface, interface.json, is complete and true.

    check_interface.py TREE INTERFACE LIBRARY SCRATCH

- It has every function that the library exports, and no other.
- The same headers give the same bytes.
- A program in C agrees with the sizes, offsets and values that it states, and declares every function with the
  parameters that it states.
- Classes of ctypes, made from it alone, have these sizes and offsets, and call the library.
"""
import ctypes
import json
import os
import subprocess
import sys

TREE, INTERFACE, LIBRARY, SCRATCH = map(os.path.abspath, sys.argv[1:5])
KINDS = {"bool": ctypes.c_bool, "char": ctypes.c_char, "double": ctypes.c_double, "float": ctypes.c_float,
         "int": ctypes.c_int, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "size_t": ctypes.c_size_t,
         "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32,
         "uint64_t": ctypes.c_uint64}
wrong = []


def exported():
    listing = subprocess.run([os.environ.get("NM", "nm"), "-D", "--defined-only", LIBRARY], check=True,
                             capture_output=True, text=True).stdout
    return {line.split()[2].split("@")[0] for line in listing.splitlines() if " T " in line}


def fields_of(fields):
    """(name, field) of all members, also of unions without names."""
    for field in fields:
        if "union" in field:
            yield from fields_of(field["union"])
        else:
            yield field["name"], field


def text_of(kind, name):
    """The declaration of a name in C."""
    stars = "*" * kind["pointers"]
    if kind.get("const_elements"):
        stars = "*const " + "*" * (kind["pointers"] - 1)
    base = "struct " + kind["base"] if kind["base"].startswith("DL") else kind["base"]
    return f"{'const ' if kind['const'] else ''}{base} {stars}{name}"


def program(about):
    """A program that prints the sizes, offsets and values of the headers, in the order of facts()."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <compute/compute.h>"]
    for name, one in about["functions"].items():  # a declaration that differs does not compile
        parameters = [text_of(p["type"], p["name"]) if "variadic" not in p["type"] else "..." for p in one["parameters"]]
        if not one["inline"]:
            lines.append(f"{text_of(one['result'], name)}({', '.join(parameters) or 'void'});")
    lines.append("int main(void) {")
    for name, struct in about["structs"].items():
        lines.append(f'printf("%zu %zu\\n", sizeof({name}), _Alignof({name}));')
        for field, _ in fields_of(struct["fields"]):
            lines.append(f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
    for enum in about["enums"].values():
        for member in enum["members"]:
            lines.append(f'printf("%lld\\n", (long long){member["name"]});')
    return "\n".join(lines) + "\nreturn 0;\n}\n"


def facts(about):
    for struct in about["structs"].values():
        yield f"{struct['size']} {struct['alignment']}"
        for _, field in fields_of(struct["fields"]):
            yield f"{field['offset']} {field['size']}"
    for enum in about["enums"].values():
        for member in enum["members"]:
            yield str(member["value"])


def check_program(about):
    source, binary = os.path.join(SCRATCH, "facts.c"), os.path.join(SCRATCH, "facts")
    with open(source, "w", encoding="utf-8") as file:
        file.write(program(about))
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-I",
                    os.path.join(TREE, "include"), source, "-o", binary], check=True)
    printed = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()
    stated = list(facts(about))
    if printed != stated:
        first = next((i for i, pair in enumerate(zip(printed, stated)) if pair[0] != pair[1]), -1)
        wrong.append(f"fact {first}: the compiler has {printed[first]}, the description {stated[first]}")
    return len(stated)


class Classes:
    """Classes of ctypes for the description's structs."""

    def __init__(self, about):
        self.about, self.made = about, {}

    def kind(self, kind):
        if "callback" in kind or kind["pointers"] or kind["base"] in self.about["callbacks"]:
            one = ctypes.c_void_p
        elif kind["base"] in KINDS:
            one = KINDS[kind["base"]]
        elif kind["base"] in self.about["structs"]:
            one = self.struct(kind["base"])
        else:
            one = ctypes.c_int
        return one * kind["array"] if "array" in kind else one

    def members(self, fields, unions):
        for i, field in enumerate(fields):
            if "union" in field:
                name = f"union_{i}"
                unions.append(name)
                yield name, type(name, (ctypes.Union,), {"_fields_": list(self.members(field["union"], []))})
            else:
                yield field["name"], self.kind(field["type"])

    def struct(self, name):
        if name not in self.made:
            unions = []
            members = list(self.members(self.about["structs"][name]["fields"], unions))
            self.made[name] = type(name, (ctypes.Structure,), {"_anonymous_": unions, "_fields_": members})
        return self.made[name]


def check_ctypes(about):
    classes = Classes(about)
    for name, struct in about["structs"].items():
        made = classes.struct(name)
        if ctypes.sizeof(made) != struct["size"]:
            wrong.append(f"{name}: ctypes has {ctypes.sizeof(made)} bytes, the description {struct['size']}")
        for field, one in fields_of(struct["fields"]):
            if getattr(made, field).offset != one["offset"]:
                wrong.append(f"{name}.{field}: ctypes has it at {getattr(made, field).offset}, the description at "
                             f"{one['offset']}")
    library = ctypes.CDLL(LIBRARY)
    if library.compute_version() == 0:
        wrong.append("compute_version returns 0")
    shape, text = classes.struct("compute_shape")(2, (64, 784)), ctypes.create_string_buffer(40)
    library.compute_shape_text.argtypes = [classes.struct("compute_shape"), ctypes.c_void_p, ctypes.c_size_t]
    library.compute_shape_text(shape, text, 40)
    if text.value != b"[64,784]":
        wrong.append(f"a shape passed by value is printed as {text.value}")


def main():
    with open(INTERFACE, encoding="utf-8") as file:
        text = file.read()
    about = json.loads(text)
    again = subprocess.run([sys.executable, os.path.join(TREE, "src/bindings/interface/describe.py"),
                            os.path.join(TREE, "include"), os.path.join(TREE, "src/graph/ops.def")], check=True, capture_output=True, text=True,
                           encoding="utf-8").stdout
    if again != text:
        wrong.append("the headers give another description now")
    declared = {name for name, one in about["functions"].items() if not one["inline"]}
    for name in sorted(exported() ^ declared):
        wrong.append(f"{name} is {'not described' if name not in declared else 'described, and not exported'}")
    for name, one in about["functions"].items():
        for parameter in one["parameters"]:
            if "direction" not in parameter and "variadic" not in parameter["type"]:
                wrong.append(f"{name}: {parameter['name']} has no direction")
    with open(os.path.join(TREE, "src/graph/ops.def"), encoding="utf-8") as file:
        rows = sum(line.startswith(("ELEMENTWISE(", "SCALED(", "STRUCTURAL(", "COMPOSED(")) for line in file)
    if rows != len(about["operations"]):
        wrong.append(f"{len(about['operations'])} operations are described, the table has {rows}")
    count = check_program(about)
    check_ctypes(about)
    for line in wrong:
        print("FAILED:", line)
    print(f"{len(declared)} functions, {len(about['structs'])} structs, {count} facts that the compiler confirms")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
