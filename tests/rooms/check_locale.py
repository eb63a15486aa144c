#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds machine-readable text that depends on the host's locale.

    check_locale.py SOURCE_FOLDER

In a German process, printf writes 1,5 for 1.5 and strtod reads 1 from "1.5". In a Turkish one, strcasecmp distinguishes
"inf" from "INF", and isalnum accepts bytes beyond ASCII. The library and its backends run in other programs' processes.
There, these fail:

  - a conversion of a real number (%a %e %f %g) outside a message for people;
  - strtod, atof, scanf of real numbers, strcasecmp, isalnum and similar functions;
  - the printf flags ' and I, which group digits or write digits of other scripts.

Use src/core/base/real.h instead. Messages are the arguments of the functions in MESSAGES. PEOPLE lists other text for
people, and KEPT lists other calls, each with its reason. An entry without a finding fails as well.

The programs (src/programs, bench) run in the locale C: no code may call setlocale, and the test cli_locale compares
their files in a German environment. Their Python scripts do not depend on the locale.
"""
import os
import re
import sys

TREES = ("src", "backends", "kernels", "bench", "include")
PROGRAMS = ("src/programs/", "bench/")
SOURCES = (".c", ".h", ".def")

# Functions whose format is a message: of an error, a refusal or the log.
MESSAGES = re.compile(
    r"^(error_set|error_set_native|graph_fail|call_fail|refuse|descriptor_refuse|graph_refuse|log_write|fit_say|"
    r"fail|refuse_\w+|services->log\w*)$")

# {file: the reason why its real numbers are for people}
PEOPLE = {
    "src/core/base/text.h": "sizes in words (22.9 GiB)",
    "src/ml/nn/summary.c": "the table of compute_layer_summary",
    "src/report/table.c": "the profile as a table",
    "src/codegen/tune/problems/problem.c": "why a candidate's numbers are wrong, for the log",
    "src/codegen/tune/problems/fits.c": "the same of fits",
    "src/core/type/dtype.c": "the ranges of dtypes, in messages",
    "src/plan/validate/validate.c": "what validation found, in messages",
    "backends/cuda/autotune.c": "why a library's algorithm is left out, in the log",
    "backends/cpu/core/device.c": "why memory is short, in messages",
}

# {(file, function): the reason why it stays}
KEPT = {
    ("src/io/field_reader.c", "strtod_l"): "with the locale C, which the caller makes",
    ("src/io/field_reader.c", "strtof_l"): "with the locale C, which the caller makes",
    ("src/io/csv.c", "newlocale"): "makes the locale C for reading numbers",
    ("src/model/trees/tree_model.c", "newlocale"): "makes the locale C for reading numbers",
    ("src/core/base/real.c", "%.*g"): "the one place that writes real numbers; it puts the point right",
    ("src/core/base/real.c", "%.*f"): "the same",
    ("src/core/platform/windows/text.c", "localeconv"): "replaces the point for strtod, whose locale it cannot choose",
    ("src/core/platform/windows/text.c", "strtod_l"): "the definition for a system without it",
    ("src/core/platform/windows/text.c", "strtof_l"): "the same",
    ("src/core/platform/windows/text.c", "strtod"): "reads a text with this locale's point",
    ("src/core/platform/windows/text.c", "strtof"): "the same",
    ("src/core/platform/windows/include/locale.h", "newlocale"): "declares what the system lacks",
    ("src/core/platform/windows/include/locale.h", "strtod_l"): "the same",
    ("src/core/platform/windows/include/locale.h", "strtof_l"): "the same",
    ("backends/cpu/core/blas.c", "strncasecmp"): "OpenBLAS spells its names as we do",
    ("backends/opencl/device.c", "strncasecmp"): "vendors' names, which are only shown",
    ("backends/opencl/platforms.c", "strcasecmp"): "drivers spell their names as we do",
}

LOCALES = r"setlocale|uselocale|localeconv|newlocale"
CALLS = re.compile(
    r"\b(strto(?:d|f|ld)(?:_l)?|ato(?:f)|strn?casecmp|tolower|toupper|is(?:alpha|alnum|digit|space|print|upper|lower|xdigit|"
    r"punct|graph|cntrl|blank)|strcoll|strxfrm|strftime|mbs?r?towcs?|" + LOCALES + r")\s*\(")
FORMAT = re.compile(r"%([-+ #0'I]*)(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh|h|ll|l|L|j|z|t)?([a-zA-Z])")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def without_comments(text):
    """The same lines with blanks in place of comments and characters; strings stay."""
    def blank(match):
        part = match.group(0)
        return part if part[0] == '"' else re.sub(r"[^\n]", " ", part)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|/\*.*?\*/|//[^\n]*', blank, text, flags=re.S)


def enclosing_call(text, at):
    """The name of the function whose arguments include position `at`, or ''."""
    depth = 0
    for i in range(at - 1, -1, -1):
        if text[i] == ")":
            depth += 1
        elif text[i] == "(":
            if depth == 0:
                return re.search(r"([\w>.-]*)\s*$", text[:i]).group(1)
            depth -= 1
        elif text[i] in ";{}" and depth == 0:
            break
    return ""


def reals_of(text):
    """(position, description) of conversions that depend on the locale, in strings that are
    arguments."""
    strings = STRING.sub(lambda m: '"' + "_" * (len(m.group(0)) - 2) + '"', text)
    for found in STRING.finditer(text):
        for part in FORMAT.finditer(found.group(0).replace("%%", "__")):
            flags, letter = part.groups()
            grouped = ("'" in flags or "I" in flags) and letter in "diu"
            if grouped or letter in "aAeEfFgG":
                yield found.start(), part.group(0), enclosing_call(strings, found.start())


def findings(path, text):
    """(line, description, reason why it is allowed or None)"""
    text = without_comments(text)
    program = path.startswith(PROGRAMS)
    code = STRING.sub(lambda m: '"' + " " * (len(m.group(0)) - 2) + '"', text)
    for found in CALLS.finditer(code):
        name = found.group(1)
        if program and not re.fullmatch(LOCALES, name):
            continue
        yield code.count("\n", 0, found.start()) + 1, name, (path, name) if (path, name) in KEPT else None
    if program:
        return
    for at, what, call in reals_of(text):
        line = text.count("\n", 0, at) + 1
        if (path, what) in KEPT:
            yield line, what, (path, what)
        elif call != "__asm__" and not MESSAGES.match(call):
            yield line, "%s in %s()" % (what, call or "?"), path if path in PEOPLE else None


def main():
    source, used, bad = sys.argv[1], set(), 0
    for tree in TREES:
        for folder, _, names in sorted(os.walk(os.path.join(source, tree))):
            for name in sorted(names):
                if not name.endswith(SOURCES):
                    continue
                path = os.path.relpath(os.path.join(folder, name), source)
                with open(os.path.join(source, path), encoding="utf-8") as file:
                    for line, what, allowed in findings(path, file.read()):
                        used.add(allowed)
                        if allowed is None:
                            bad += 1
                            print("%s:%d: %s follows the locale of the process" % (path, line, what))
    for entry in list(PEOPLE) + list(KEPT):
        if entry not in used:
            bad += 1
            print("%s: listed, but not found" % (entry,))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
