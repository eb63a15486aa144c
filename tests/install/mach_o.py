#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a program or dynamic library for macOS: a 64-bit Mach-O file, read here because Debian has no otool.

    mach_o.py FILE PROCESSOR KIND [--name INSTALL_NAME] [--needs LIBRARY]... [--rpath FOLDER]... [--exports FILE]

PROCESSOR is x86_64 or aarch64, KIND is program or library. The file needs the system's library and the named ones, looks
for them in the named folders, and is signed if the processor asks for it. --exports names the symbols of a library, a
line each, without the underscore before each. Prints what differs, and then exits with 1.
"""
import argparse
import struct
import sys

MAGIC = 0xFEEDFACF
PROCESSORS = {"x86_64": 0x01000007, "aarch64": 0x0100000C}
KINDS = {"program": 2, "library": 6}
SYSTEM = "/usr/lib/libSystem.B.dylib"
# Load commands (<mach-o/loader.h>).
SYMTAB, LOAD, NAME, LOAD_WEAK, RPATH, SIGNATURE = 0x2, 0xC, 0xD, 0x80000018, 0x8000001C, 0x1D
# Bits of a symbol (<mach-o/nlist.h>).
STAB, TYPE, EXTERNAL, PRIVATE, UNDEFINED = 0xE0, 0x0E, 0x01, 0x10, 0x0
LOADER_MADE = {"_mh_dylib_header", "_mh_execute_header", "__dso_handle"}  # of the file itself, by the linker


class File:
    def __init__(self, data):
        magic, self.processor, _, self.kind, commands, _, _, _ = struct.unpack_from("<8I", data)
        if magic != MAGIC:
            sys.exit("no 64-bit Mach-O file")
        self.data, self.name, self.needs, self.rpaths, self.signed = data, None, [], [], False
        self.exports, self.undefined = set(), {}
        symbols, at = None, 32
        for _ in range(commands):
            command, size = struct.unpack_from("<2I", data, at)
            if command in (LOAD, LOAD_WEAK):
                self.needs.append(self.text(at, size))
            elif command == NAME:
                self.name = self.text(at, size)
            elif command == RPATH:
                self.rpaths.append(self.text(at, size))
            elif command == SIGNATURE:
                self.signed = True
            elif command == SYMTAB:
                symbols = struct.unpack_from("<4I", data, at + 8)
            at += size
        if symbols:
            self.read_symbols(*symbols)

    def text(self, at, size):
        """The string of a load command, which begins with the string's offset."""
        (offset,) = struct.unpack_from("<I", self.data, at + 8)
        return self.data[at + offset : at + size].split(b"\0")[0].decode()

    def read_symbols(self, offset, count, strings, _):
        for i in range(count):
            name, kind, _, description, _ = struct.unpack_from("<IBBHQ", self.data, offset + 16 * i)
            if kind & STAB or not kind & EXTERNAL or kind & PRIVATE:
                continue
            text = self.data[strings + name :].split(b"\0", 1)[0].decode() if name else ""
            if kind & TYPE == UNDEFINED:
                self.undefined[text] = description >> 8  # the number of its library
            else:
                self.exports.add(text[1:])


def problems(file, options):
    if file.processor != PROCESSORS[options.processor]:
        yield "for another processor: 0x%x" % file.processor
    if file.kind != KINDS[options.kind]:
        yield "another kind of file: %d" % file.kind
    if options.name and file.name != options.name:
        yield "the install name is %s" % file.name
    if sorted(file.needs) != sorted([SYSTEM] + options.needs):
        yield "it needs %s" % ", ".join(file.needs)
    if file.rpaths != options.rpath:
        yield "it looks for libraries in %s" % ", ".join(file.rpaths)
    if options.processor == "aarch64" and not file.signed:
        yield "it is not signed"
    for symbol, library in sorted(file.undefined.items()):
        if not 1 <= library <= len(file.needs):
            yield "%s is of no library" % symbol
    if options.exports:
        with open(options.exports, encoding="utf-8") as names:
            wanted = set(names.read().split())
        for name in sorted(wanted - file.exports):
            yield "it does not export %s" % name
        for name in sorted(file.exports - wanted - LOADER_MADE):
            yield "it exports %s" % name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("processor", choices=PROCESSORS)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--name")
    parser.add_argument("--needs", action="append", default=[])
    parser.add_argument("--rpath", action="append", default=[])
    parser.add_argument("--exports")
    options = parser.parse_args()
    with open(options.file, "rb") as data:
        file = File(data.read())
    found = list(problems(file, options))
    for line in found:
        print("%s: %s" % (options.file, line))
    if not found:
        print("%s: %d symbols exported, %d undefined" % (options.file, len(file.exports), len(file.undefined)))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
