# SPDX-License-Identifier: MIT
"""Describes the public interface as JSON, for bindings to other languages.

    describe.py INCLUDE_FOLDER OPERATIONS [OUTPUT]

Reads the headers for programs, include/compute/*.h without backend.h, and the table of operations, src/graph/ops.def,
and writes one object. README.md in this folder
explains its fields. The same headers give the same bytes. Declarations that this program does not understand stop it:
nothing is left out.
"""
import glob
import json
import os
import re
import sys

import layout

TOKEN = re.compile(r"""(?P<space>\s+)|(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<line>^[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<number>0x[0-9a-fA-F]+\w*|\d[\w.]*(?:(?<=[eE])[+-]\d+)?)
    |(?P<name>[A-Za-z_]\w*)|(?P<mark>\.\.\.|<<|>>|\#\#|&&|\|\||[<>=!]=|->|.)""", re.X | re.S | re.M)
OMITTED = ("backend.h", "export.h")  # for modules; attributes of declarations
WORDS = ("bool", "char", "double", "float", "int", "int32_t", "int64_t", "size_t", "uint8_t", "uint16_t", "uint32_t",
         "uint64_t", "void")


def plain(comment):
    """The text of a comment without its frame: paragraphs stay lines of their own."""
    text = re.sub(r"^/\*\*?<?|\*/$", "", comment)
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in text.split("\n")]
    return "\n".join(lines).strip()


class Headers:
    """The declarations of all headers: each after those that it includes."""

    def __init__(self, folder):
        self.enums, self.structs, self.opaque, self.callbacks, self.functions = {}, {}, {}, {}, {}
        self.constants, self.aliases, self.macros, self.files = {}, {}, {}, {}
        self.folder, self.begun = os.path.join(folder, "compute"), set(OMITTED)
        for path in sorted(glob.glob(os.path.join(self.folder, "*.h"))):
            self.include(os.path.basename(path))

    def include(self, name):
        if name not in self.begun:
            self.begun.add(name)
            Reader(self, os.path.join(self.folder, name)).read()

    def value(self, tokens):
        """The value of a constant expression of the tokens."""
        words = []
        for word in tokens:
            if word == "INT32_MIN":
                word = "(-2147483648)"
            elif re.match(r"[A-Za-z_]", word):
                word = str(self.constants[word]["value"]) if word in self.constants else word
            elif re.match(r"\d", word):
                word = re.sub(r"[uUlL]+$", "", word) if not word.startswith("0x") else word.rstrip("uUlL")
            words.append(word)
        text = " ".join(words)
        if not re.fullmatch(r"[\w\s.+\-*/()<>|&~]*", text) or re.search(r"[A-DF-Za-df-wyz_]{2}", text):
            raise ValueError(f"not a constant: {text}")
        return eval(text, {"__builtins__": {}})  # pylint: disable=eval-used


class Reader:
    """Reads one header."""

    def __init__(self, headers, path):
        self.all, self.path = headers, os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", file.read(), flags=re.S | re.M)
        self.tokens = [(found.lastgroup, found.group()) for found in TOKEN.finditer(text) if found.lastgroup != "space"]
        self.at, self.section = 0, ""

    def fail(self, message):
        near = " ".join(word for _, word in self.tokens[max(0, self.at - 6):self.at + 6])
        sys.exit(f"{self.path}: {message} near: {near}")

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def take(self, expected=None):
        if self.at >= len(self.tokens) or expected not in (None, self.peek()):
            self.fail(f"expected {expected}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def until(self, end):
        """The tokens before `end` outside brackets, which is taken."""
        depth, words = 0, []
        while depth or self.peek() != end:
            word = self.take()
            depth += (word in "([{") - (word in ")]}")
            words.append(word)
        self.take(end)
        return words

    # ---- Comments and macros -----------------------------------------------------------------------------------

    def notes(self):
        """Takes comments and lines of the preprocessor; returns the documentation comment among them."""
        doc = ""
        while self.at < len(self.tokens) and self.tokens[self.at][0] in ("comment", "line"):
            kind, word = self.tokens[self.at]
            if kind == "line":
                self.define(word, doc)
                doc = ""
            elif word.startswith("/**<"):
                break
            elif "@file" in word:
                self.all.files[self.path] = plain(word).replace("@file", "").strip()
            elif word.startswith("/* ----"):
                self.section = re.sub(r"\s*-{4,}\s*", "", plain(word).split("\n")[0]).strip()
                doc = ""
            elif word.startswith("/**"):
                doc = plain(word)
            else:
                doc = ""
            self.at += 1
        return doc

    def after(self):
        """A comment after a declaration, which describes it."""
        if self.at < len(self.tokens) and self.peek().startswith("/**<"):
            return plain(self.take())
        return ""

    def define(self, line, doc):
        included = re.match(r'\s*#\s*include "compute/([\w.]+)"', line)
        if included:
            self.all.include(included.group(1))
            return
        found = re.match(r"\s*#\s*define\s+(\w+)(\([\w, .]*\))?((?:\\\n|[^\n])*)", line)
        if not found:
            return
        name, arguments, body = found.groups()
        body = body.replace("\\\n", " ")
        note = re.search(r"/\*\*<(.*?)\*/", body)
        body = re.sub(r"/\*.*?\*/", "", body).strip()
        if arguments is not None:
            names = [word.strip() for word in arguments[1:-1].split(",")]
            self.all.macros[name] = (names, [m.group() for m in TOKEN.finditer(body) if m.lastgroup != "space"])
        elif body:
            try:
                value = self.all.value([m.group() for m in TOKEN.finditer(re.sub(r"\(int64_t\)", "", body))
                                        if m.lastgroup != "space"])
            except (ValueError, SyntaxError, NameError, TypeError):
                return  # a value of a struct, such as COMPUTE_SCALAR
            self.all.constants[name] = {"value": value, "header": self.path,
                                        "text": plain("/**" + note.group(1) + "*/") if note else doc}

    def expand(self, words):
        """The words, with calls of macros replaced by their bodies."""
        result, i = [], 0
        while i < len(words):
            macro = self.all.macros.get(words[i])
            if not macro or i + 1 >= len(words) or words[i + 1] != "(":
                result.append(words[i])
                i += 1
                continue
            arguments, depth, i = [[]], 1, i + 2
            while depth:
                depth += (words[i] == "(") - (words[i] == ")")
                if words[i] == "," and depth == 1:
                    arguments.append([])
                elif depth:
                    arguments[-1].append(words[i])
                i += 1
            given = dict(zip(macro[0], arguments))
            body, pasted = [], False
            for word in macro[1]:
                if word == "##":
                    pasted = True
                    continue
                replaced = given.get(word, [word])
                if pasted:
                    body[-1] += replaced[0]
                    replaced, pasted = replaced[1:], False
                body += replaced
            result += self.expand(body)
        return result

    # ---- Declarations ------------------------------------------------------------------------------------------

    def read(self):
        while True:
            doc = self.notes()
            if self.at >= len(self.tokens):
                return
            if self.peek() == "typedef":
                self.typedef(doc)
            elif self.peek() == "enum":
                self.take()
                self.enum(None, doc)
                self.take(";")
            elif self.peek() == "struct":
                name = (self.take(), self.take())[1]
                self.take(";")
                self.all.opaque[name] = {"text": self.after(), "header": self.path, "foreign": True}
            elif self.peek() == "static":
                self.function(doc, inline=True)
            elif self.peek() == "COMPUTE_API":
                self.function(doc, inline=False)
            else:
                self.fail("unknown declaration")

    def typedef(self, doc):
        self.take("typedef")
        kind = self.peek()
        if kind == "enum":
            self.take()
            name = self.take()
            self.enum(name, doc)
            self.take(name)
            self.take(";")
            return
        if kind == "struct" and self.peek(2) in ("{", ";") or kind == "struct" and self.peek(3) == ";":
            self.take()
            name = self.take()
            if self.peek() == "{":
                self.take("{")
                self.all.structs[name] = {"text": doc, "header": self.path, "fields": self.fields()}
                self.take(name)
                self.take(";")
            else:
                self.take(name)
                self.take(";")
                self.all.opaque.setdefault(name, {"text": doc or self.after(), "header": self.path})
            return
        base = self.type()
        if self.peek() == "(":
            self.take("(")
            self.take("*")
            name = self.take()
            self.take(")")
            self.take("(")
            self.all.callbacks[name] = {"text": doc, "header": self.path, "result": base,
                                        "parameters": self.parameters()}
            self.take(";")
            return
        name = self.take()
        self.take(";")
        self.all.aliases[name] = {"text": doc, "header": self.path, "of": base["base"]}

    def enum(self, name, doc):
        self.take("{")
        members, following = [], 0
        while True:
            note = self.notes()
            if self.peek() == "}":
                break
            words = self.expand_member()
            for group in words:
                if len(group) > 1:
                    following = self.all.value(group[2:])
                member = {"name": group[0], "value": following, "text": note}
                following += 1
                members.append(member)
                self.all.constants[group[0]] = {"value": member["value"], "header": self.path, "text": note, "enum": name}
            if self.peek() == ",":
                self.take()
            late = self.after()
            if late:
                members[-1]["text"] = self.all.constants[members[-1]["name"]]["text"] = late
        self.take("}")
        key = name or "flags " + members[0]["name"]
        self.all.enums[key] = {"text": doc, "header": self.path, "members": members, "name": name}

    def expand_member(self):
        """The words of one member, or of the members into which a macro expands."""
        words = []
        depth = 0
        while depth or self.peek() not in (",", "}"):
            if self.tokens[self.at][0] in ("comment", "line"):
                if self.peek().startswith("/**<"):
                    break
                self.notes()
                continue
            word = self.take()
            depth += (word == "(") - (word == ")")
            words.append(word)
            if not depth and words[0] in self.all.macros and len(words) > 1 and word == ")":
                break
        groups = [[]]
        for word in self.expand(words):
            if word == ",":
                groups.append([])
            else:
                groups[-1].append(word)
        return [group for group in groups if group]

    def fields(self):
        """The members of a struct or union, after its opening bracket and with its closing one."""
        members = []
        while True:
            doc = self.notes()
            if self.peek() == "}":
                self.take()
                return members
            if self.peek() == "union":
                self.take()
                self.take("{")
                inner = self.fields()
                self.take(";")
                members.append({"union": inner, "text": doc or self.after()})
                continue
            base = self.type(declarators=False)
            group = []
            while True:
                self.notes()
                member = self.declarator(dict(base), doc)
                group.append(member)
                members.append(member)
                if self.peek() != ",":
                    break
                self.take(",")
                late = self.after()
                if late:
                    for one in group:
                        one["text"] = one["text"] or late
                    group = []
            self.take(";")
            late = self.after()
            for one in group:
                one["text"] = one["text"] or late

    def stars(self, kind):
        while self.peek() in ("*", "const"):
            if self.take() == "*":
                kind["pointers"] += 1
            elif self.peek() == "*":
                kind["const_elements"] = True  # an array of pointers that the function does not change

    def declarator(self, kind, doc):
        self.stars(kind)
        if self.peek() == "(":
            self.take("(")
            self.take("*")
            name = self.take()
            self.take(")")
            self.take("(")
            return {"name": name, "type": {"callback": {"result": kind, "parameters": self.parameters()}}, "text": doc}
        name = self.take()
        if self.peek() == "[":
            self.take("[")
            kind["array"] = self.all.value(self.until("]"))
        return {"name": name, "type": kind, "text": doc}

    def type(self, declarators=True):
        kind = {"base": "", "const": False, "pointers": 0}
        while True:
            if self.peek() == "const":
                self.take()
                kind["const"] = True
            elif self.peek() == "struct":
                self.take()
            else:
                break
        word = self.take()
        if word not in WORDS and not re.match(r"compute_|DLManaged", word):
            self.fail(f"unknown type {word}")
        kind["base"] = word
        if self.peek() == "const":
            self.take()
            kind["const"] = True
        if declarators:
            self.stars(kind)
        return kind

    def parameters(self):
        """The parameters of a function, after the opening bracket and with the closing one."""
        found = []
        while self.peek() != ")":
            if self.peek() == "...":
                self.take()
                found.append({"name": "...", "type": {"variadic": True}})
            else:
                kind = self.type()
                if self.peek() == ")" and kind == {"base": "void", "const": False, "pointers": 0}:
                    break
                found.append({"name": self.take() if self.peek() not in (",", ")") else "", "type": kind})
                if self.peek() == "[":
                    self.until("]")
                    self.fail("an array as a parameter")
            if self.peek() == ",":
                self.take()
        self.take(")")
        return found

    def function(self, doc, inline):
        if inline:
            self.take("static")
            self.take("inline")
        else:
            self.take("COMPUTE_API")
        result = self.type()
        name = self.take()
        self.take("(")
        parameters = self.parameters()
        if inline:
            self.take("{")
            self.until("}")
        else:
            if self.peek() == "COMPUTE_PRINTF":
                self.until(";")
            else:
                self.take(";")
        late = self.after()
        self.all.functions[name] = {"header": self.path, "section": self.section, "text": doc or late, "inline": inline,
                                    "result": result, "parameters": parameters}


def operations(path):
    """The rows of the table of operations: {name: what it takes and gives}."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        table = re.findall(r"^(ELEMENTWISE|SCALED|STRUCTURAL|COMPOSED)\((.*)\)$", file.read(), re.M)
    for kind, row in table:
        values = [word.strip().strip('"') for word in re.findall(r'"[^"]*"|[^,"]+', row) if word.strip()]
        name, text = values[0], values[-1]
        if kind == "ELEMENTWISE":
            arity, domain, result, gradient = int(values[1]), values[3], values[4], values[5]
            one = {"category": "elementwise", "domain": domain.lower(), "operands": arity, "bool": result == "BOOL"}
        elif kind == "SCALED":
            gradient = values[2]
            one = {"category": "elementwise", "domain": "float", "operands": 1, "bool": False}
        elif kind == "COMPOSED":
            gradient = values[3]
            one = {"category": "composed", "domain": values[2].lower()}
        else:
            gradient = values[3]
            one = {"category": values[1].lower(), "domain": values[2].lower()}
        rows[name] = {**one, "differentiable": gradient != "NONE", "text": text}
    return rows


def finish(headers, table):
    """The description: documentation that several declarations share, directions, ownership, places in memory."""
    releases = {}
    for name, one in headers.functions.items():
        kinds = [p["type"] for p in one["parameters"]]
        found = re.fullmatch(r"compute_(?:\w+_)?(?:release|close|destroy)", name)
        if found and len(kinds) == 1 and kinds[0].get("base") in headers.opaque:
            releases[kinds[0]["base"]] = name
    for name, one in headers.opaque.items():
        one["release"] = releases.get(name)
    for name, one in headers.functions.items():
        own(headers, releases, one)
    layout.place(headers)
    return {"format": 1, "headers": headers.files, "constants": headers.constants, "enums": headers.enums,
            "structs": headers.structs, "objects": headers.opaque, "callbacks": headers.callbacks,
            "aliases": headers.aliases, "operations": operations(table), "functions": headers.functions}


def own(headers, releases, one):
    """Adds the direction of each parameter, and who releases what the function returns."""
    parameters = one["parameters"]
    for i, parameter in enumerate(parameters):
        kind = parameter["type"]
        if "base" not in kind or not kind["pointers"]:
            parameter["direction"] = "in"
            continue
        opaque = kind["base"] in headers.opaque
        depth = kind["pointers"] - (1 if opaque or kind["base"] in ("char", "void") else 0)
        following = parameters[i + 1]["name"] if i + 1 < len(parameters) else ""
        counted = following in ("count", "capacity") or following.endswith("_count")
        if counted and parameters[i + 1]["type"].get("base") == "size_t" and parameters[i + 1]["type"]["pointers"] == 0:
            parameter["count"] = following
        if depth <= 0 or kind["const"] and depth == 1 and not (opaque or kind["base"] in ("char", "void")):
            parameter["direction"] = "in"
        elif kind.get("const_elements"):
            parameter["direction"] = "in"
        else:
            parameter["direction"] = "out"
        if parameter["direction"] == "out" and opaque:
            foreign = headers.opaque[kind["base"]].get("foreign")  # has its own function to release it
            parameter["owner"] = "caller" if foreign or kind["base"] in releases else "library"
        elif parameter["direction"] == "out" and kind["base"] == "char":
            parameter["owner"] = "library" if kind["const"] else "caller"
    kind = one["result"]
    if kind["pointers"]:
        first = parameters[0]["type"] if parameters else {}
        borrowed = "Not retained" in one["text"].replace("Not\nretained", "Not retained") or (
            first.get("const") and first.get("base") in headers.opaque)
        if kind["base"] in releases:
            one["owner"] = "library" if borrowed else "caller"
        elif kind["base"] == "char" and not kind["const"]:
            one["owner"] = "library" if any(p["name"] == "text" for p in parameters) else "caller"
        else:
            one["owner"] = "library"


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    text = json.dumps(finish(Headers(sys.argv[1]), sys.argv[2]), indent=1, ensure_ascii=False) + "\n"
    if len(sys.argv) == 3:
        sys.stdout.write(text)
        return
    os.makedirs(os.path.dirname(os.path.abspath(sys.argv[3])), exist_ok=True)
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
