# SPDX-License-Identifier: MIT
"""Writes the parts of the Python package that follow from the interface's description.

    generate.py INTERFACE FOLDER

FOLDER gets the source of the extension module (functions, methods, options, results), _names.py (enumerations, flags,
exceptions, named tuples), and the stubs _core.pyi and __init__.pyi. binding.py says what is bound, and under which
name.
"""
import json
import os
import sys

import binding
import forms
import stubs


def load(path):
    with open(path, encoding="utf-8") as file:
        about = json.load(file)
    if about["format"] != 1:
        sys.exit(f"{path}: format {about['format']} is not known")
    return about


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    about, folder = load(sys.argv[1]), sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    module = forms.Module(about, binding)
    write(os.path.join(folder, "functions.c"), module.source())
    write(os.path.join(folder, "_names.py"), stubs.names(module))
    write(os.path.join(folder, "_core.pyi"), stubs.core(module))
    write(os.path.join(folder, "__init__.pyi"), stubs.package(module))


if __name__ == "__main__":
    main()
