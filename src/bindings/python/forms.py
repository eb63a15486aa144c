# SPDX-License-Identifier: MIT
"""The C source of the extension module's generated part: a form for each function, tables of enumerations and structs.

glue/glue.h has the functions and types that this source uses."""
import os

NUMBERS = {"int32_t": ("I32", "to_i32", "int"), "uint32_t": ("U32", "to_u32", "int"), "int64_t": ("I64", "to_i64", "int"),
           "uint64_t": ("U64", "to_u64", "int"), "size_t": ("SIZE", "to_size", "int"), "double": ("F64", "to_f64", "float"),
           "float": ("F32", None, "float"), "bool": ("BOOL", "to_bool", "bool"), "char": ("CHAR", None, "str")}
START = {"bool": "false"}


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def constant(kind):
    """The enumerator of an object's type: KIND_PLAN."""
    return "KIND_" + kind.replace("compute_", "").upper()


def quoted(text):
    """A literal in C of several lines."""
    lines = text.replace("\\", "\\\\").replace('"', '\\"').split("\n")
    return "\n    ".join(f'"{line}\\n"' for line in lines)


class Argument:
    """A parameter of a function in Python: its variable in C, the conversion, what C's function gets."""

    def __init__(self, name, python, declare="", convert=None, passed=None, default=None, operand=None):
        self.name, self.python, self.declare, self.convert = name, python, declare, convert
        self.passed, self.default, self.operand = passed or ["p_" + name], default, operand


class Module:
    """Everything that is bound."""

    def __init__(self, about, binding):
        self.about, self.binding = about, binding
        self.tables, self.table_text, self.enums, self.enum_text = {}, [], {}, []
        self.functions = []  # (name in Python, class or None, C function, arguments, results, source)
        for name, python in self.operations():
            self.add_operation(name, python)
        for kind, methods in binding.METHODS.items():
            for name, python in methods.items():
                self.add_function(name, python, kind)
        for name, python in binding.FUNCTIONS.items():
            self.add_function(name, python, None)
        for name in binding.SHARED_TABLES:
            self.table(name)
        for name, one in about["enums"].items():  # names for Python only
            if one["name"] and name not in ("compute_dtype", "compute_status"):
                self.enums.setdefault(name, len(self.enums))

    def operations(self):
        for name, one in self.about["functions"].items():
            if one["header"] in self.binding.OPERATION_HEADERS and one["result"]["base"] == "compute_node" \
                    and not one["result"]["pointers"] and name not in self.binding.NOT_OPERATIONS:
                yield name, name.replace("compute_", "", 1)

    # ---- Tables ------------------------------------------------------------------------------------------------

    def members(self, name):
        """{short name: value} of an enumeration, without second names of a value."""
        seen, members = set(), []
        for member in self.about["enums"][name]["members"]:
            if member["value"] not in seen:
                seen.add(member["value"])
                members.append(member)
        prefix = os.path.commonprefix([member["name"] for member in members])
        prefix = prefix[:prefix.rfind("_") + 1]
        return {member["name"][len(prefix):].lower(): member["value"] for member in members}

    def enum(self, name):
        """The table of an enumeration."""
        name = self.about["aliases"].get(name, {}).get("of", name)
        if name not in self.enums:
            self.enums[name] = len(self.enums)
            rows = ", ".join(f'{{"{short}", {value}}}' for short, value in self.members(name).items())
            self.enum_text.append(f"static const enum_name names_{name}[] = {{{rows}, {{NULL, 0}}}};\n"
                                  f"static const enum_form {name}_form = {{\"{self.enum_class(name)}\", "
                                  f"names_{name}, {self.enums[name]}}};\n")
        return f"{name}_form"

    def enum_class(self, name):
        return camel(name.replace("compute_", "", 1))

    def is_enum(self, name):
        return self.about["aliases"].get(name, {}).get("of", name) in self.about["enums"] and name != "compute_dtype"

    def struct_class(self, name):
        return camel(name.replace("compute_", "", 1))

    def fields(self, name):
        """(field, kind in C, count, extra) of the fields that Python sees."""
        counts = set()
        for field in self.flat(self.about["structs"][name]["fields"]):
            kind = field["type"]
            if field["name"] in self.binding.OMITTED_FIELDS | counts or "callback" in kind \
                    or kind["base"] in self.about["callbacks"] \
                    or kind["base"] in self.about["objects"] and kind["base"] not in self.binding.CLASSES:
                continue
            count, base, extra, pointers = kind.get("array", 1), kind["base"], "NULL", kind["pointers"]
            if base == "char" and pointers == 1:
                form = "TEXT"
            elif base == "char" and "array" in kind:
                form = "CHARS"
            elif base in self.about["objects"] and pointers == 1:
                form, extra = "OBJECT", f"&types[{constant(base)}]"
            elif base in self.about["objects"] and pointers == 2:
                form, extra = "OBJECTS", f"&types[{constant(base)}]"
                counter = field["name"][:-1] + "_count"
                counts.add(counter)
                count = f"offsetof({name}, {counter})"
            elif base == "uint8_t" and field["name"] == "mask":
                form, count = "MASK", f"offsetof({name}, mask_rows)"
            elif pointers:
                form = {"uint8_t": "BYTES", "float": "FLOATS", "int32_t": "INTS", "void": "BUFFER"}.get(base)
                if form is None:
                    continue
            elif base in NUMBERS:
                form = NUMBERS[base][0]
            elif base == "compute_dtype":
                form = "DTYPE"
            elif base == "compute_shape":
                form = "SHAPE"
            elif base == "compute_node":
                form = "NODE"
            elif base == "compute_fit_map":
                form = "MAP"
            elif self.is_enum(base):
                form, extra = "ENUM", f"&{self.enum(base)}"
            elif base in self.about["structs"]:
                form, extra = "STRUCT", f"&{self.table(base)}"
            else:
                raise ValueError(f"{name}.{field['name']} has no form")
            yield field, form, count, extra

    def flat(self, fields):
        for field in fields:
            if "union" in field:
                yield from self.flat(field["union"])
            else:
                yield field

    def table(self, name):
        """The table of a struct: options are read with it, and results written."""
        if name not in self.tables:
            self.tables[name] = None
            rows = [f'{{"{field["name"]}", FIELD_{form}, offsetof({name}, {field["name"]}), {count}, {extra}}}'
                    for field, form, count, extra in self.fields(name)]
            self.tables[name] = 1 + len([one for one in self.tables.values() if one is not None])
            body = ",\n    ".join(rows)
            self.table_text.append(
                f"static const field fields_{name}[] = {{\n    {body}}};\n"
                f"{'' if name in self.binding.SHARED_TABLES else 'static '}const struct_form {name}_form = {{\"{self.struct_class(name)}\", sizeof({name}), fields_{name},\n"
                f"    sizeof fields_{name} / sizeof *fields_{name}, {self.tables[name]}}};\n")
        return f"{name}_form"

    # ---- Arguments ---------------------------------------------------------------------------------------------

    def argument(self, name, parameter, index):
        """The argument for a parameter that is no operand."""
        kind, what = parameter["type"], parameter["name"]
        base, default = kind["base"], self.binding.DEFAULTS.get(what)
        if what == "value" and "pad" not in name:
            default = None
        value, c = f"v[{index}]", "p_" + what
        if kind["pointers"] == 0 and base in NUMBERS:
            zero = default if default not in (None, "all", "none") else START.get(base, "0")
            return Argument(what, NUMBERS[base][2], f"{base} {c} = {zero};",
                            f'{NUMBERS[base][1]}({value}, "{what}", &{c})', default=default)
        if base == "compute_dtype":
            usual = self.binding.RESULT_DTYPES.get(name, "float32")
            code = "COMPUTE_" + usual.replace("float", "F").replace("int", "I")
            return Argument(what, "Any", f"compute_dtype {c} = {code};", f"to_dtype({value}, &{c})", default=usual)
        if base == "compute_shape":
            return Argument(what, "int | Sequence[int]", f"compute_shape {c} = {{0}};",
                            f"to_shape({value}, &{c})")
        if base == "compute_axes":
            return Argument(what, "int | Sequence[int] | None", f"compute_axes {c} = {{0}};",
                            f"to_axes({value}, &{c})", default="None")
        if self.is_enum(base):
            return Argument(what, "int | str", f"int {c} = 0;", f"to_enum({value}, &{self.enum(base)}, &{c})",
                            [f"({base}){c}"])
        if base == "char" and kind["const"] and kind["pointers"] == 1:
            function = "to_path" if what in ("path", "inputs", "targets") else "to_text"
            return Argument(what, "str | os.PathLike[str]" if function == "to_path" else "str",
                            f"const char *{c} = NULL;", f"{function}({value}, &s, &{c})")
        if base in self.about["objects"] and kind["pointers"] == 1:
            python = self.binding.CLASSES[base]
            optional = base in ("compute_context", "compute_device")
            function = {"compute_context": "to_context", "compute_device": "to_device"}.get(base)
            convert = (f"{function}({value}, &s, &{c})" if optional else
                       f"to_object({value}, {constant(base)}, &s, (void **)&{c})")
            return Argument(what, python + (" | None" if optional else ""), f"{base} *{c} = NULL;", convert,
                            default="None" if optional else None)
        if base in self.about["structs"] and kind["pointers"] == 1 and kind["const"]:
            return Argument("**" + what, "Any", f"{base} {c} = {{0}};",
                            f"fill(&{self.table(base)}, given, &{c}, &s)", ["&" + c])
        raise ValueError(f"{name}: {what} has no form")

    def ordered(self, arguments):
        """Those with a default last, options at the very end."""
        named = [a for a in arguments if not a.name.startswith("**")]
        places = [a for a in named if a.name in ("device", "context")]
        return ([a for a in named if a.default is None] +
                [a for a in named if a.default is not None and a not in places] + [a for a in places if a.default] +
                [a for a in arguments if a.name.startswith("**")])

    # ---- Operations --------------------------------------------------------------------------------------------

    def add_operation(self, name, python):
        one = self.about["functions"][name]
        arguments, lists, outputs, passed = [], [], [], []
        operands = 0
        for parameter in one["parameters"][1:]:
            kind, what = parameter["type"], parameter["name"]
            if kind["base"] == "compute_node" and parameter["direction"] == "out":
                outputs.append(what)
                passed.append("&p_" + what)
            elif kind["base"] == "compute_recurrent_state":
                outputs.append("last")
                passed.append("&p_last")
            elif kind["base"] == "compute_node" and kind["pointers"]:
                lists.append(what)
                arguments.append(Argument(what, "Sequence[T]", operand="list"))
                passed.append(f"o.list[{len(lists) - 1}]")
            elif kind["base"] == "size_t" and what == "count":
                passed.append("o.list_count[0]")
            elif kind["base"] == "compute_node":
                optional = what in self.binding.OPTIONAL
                arguments.append(Argument(what, "T | None" if optional else "T | float", default="None" if optional else None,
                                          operand="optional" if optional else "one"))
                passed.append(f"o.node[{operands}]")
                operands += 1
            else:
                arguments.append(self.argument(name, parameter, "@"))
                passed += arguments[-1].passed
        self.functions.append((python, None, name, self.ordered(arguments),
                               ("node", len(outputs)), self.operation_source(name, python, arguments, lists, outputs, passed)))

    def form(self, python, ordered, options):
        named = [a for a in ordered if not a.name.startswith("**")]
        required = sum(a.default is None for a in named)
        keys = ", ".join(f'"{a.name}"' for a in named) or "NULL"
        return (f'  static const char *const keys[] = {{{keys}}};\n'
                f'  static const form f = {{"{python}", keys, {len(named)}, {required}, {"true" if options else "false"}}};\n'
                f"  PyObject *v[{max(1, len(named))}], *given = NULL, *result = NULL;\n  scratch s = {{0}};\n")

    def converted(self, ordered):
        """The conversions of arguments that are no operands."""
        tests = []
        for i, argument in enumerate(ordered):
            if argument.convert:
                convert = argument.convert.replace("v[@]", f"v[{i}]")
                if argument.default is not None and not argument.name.startswith("**") and "to_context" not in convert \
                        and "to_device" not in convert:
                    convert = f"(v[{i}] != NULL && {convert})"
                tests.append(convert)
        return tests

    def added(self, name, argument, i):
        """The call that takes an operand."""
        dtype = self.binding.NUMBERS_AS.get(self.about["functions"][name]["header"])
        if argument.name == "seed":
            dtype = "COMPUTE_I64"
        if dtype is None:
            return f'operands_add(&o, v[{i}], "{argument.name}")'
        return f'operands_typed(&o, v[{i}], "{argument.name}", {dtype})'

    def operation_source(self, name, python, arguments, lists, outputs, passed):
        ordered = self.ordered(arguments)
        options = any(a.name.startswith("**") for a in ordered)
        lines = [f"static PyObject *op_{python}(PyObject *self, PyObject *const *argv, Py_ssize_t argc, PyObject *kwnames) {{",
                 self.form(python, ordered, options).rstrip(), "  operands o = {0};", "  (void)self;"]
        lines += ["  " + a.declare for a in ordered if a.declare]
        for output in outputs:
            lines.append(f"  {'compute_recurrent_state' if output == 'last' else 'compute_node'} p_{output} = {{0}};")
        tests = ["form_take(&f, argv, argc, kwnames, v, &given)"]
        for argument in arguments:  # in the order of C: o.node[i]
            if argument.operand:
                i = ordered.index(argument)
                tests.append({"one": self.added(name, argument, i), "optional": f"operands_maybe(&o, v[{i}])",
                              "list": f'operands_list(&o, v[{i}], &s, "{argument.name}")'}[argument.operand])
        tests += self.converted(ordered)
        mask = self.mask(python, arguments)
        tests.append(f"operands_unify(&o, {mask}u)")
        lines.append("  if (" + " ||\n      ".join(tests) + ")\n    goto end;")
        call = f"{name}({', '.join(['o.graph'] + passed)})"
        if outputs:
            number = 2 if outputs == ["last"] else len(outputs)
            values = ", ".join(f"p_last.{part}" for part in ("h", "c")) if outputs == ["last"] else \
                ", ".join("p_" + output for output in outputs)
            node = (f"{{\n    const compute_node made = {call};\n"
                    f"    result = operands_nodes(&o, made, {number}, (compute_node[]){{{values}}});\n  }}")
        else:
            number, node = 0, f"result = operands_node(&o, {call});"
        if self.is_eager(python, name):
            eager = f"compute_tensor_{python}"
            by_name = dict(zip((p["name"] for p in self.about["functions"][name]["parameters"][1:]), passed))
            tensors = [by_name[p["name"]].replace("o.node[", "o.tensor[").replace("o.list[", "o.tensors[")
                       for p in self.about["functions"][eager]["parameters"] if p["direction"] != "out"]
            tensors += [f"&made[{i}]" for i in range(number + 1)]
            results = f"operands_tensors(&o, status, {number + 1}, made)" if number else "operands_tensor(&o, status, made[0])"
            lines.append(f"  if (o.graph) {node}\n  else {{\n"
                         f"    compute_tensor *made[{number + 1}] = {{NULL}};\n    compute_status status;\n"
                         f"    PyThreadState *const unlocked = PyEval_SaveThread();\n    status = {eager}({', '.join(tensors)});\n"
                         f"    PyEval_RestoreThread(unlocked);\n    result = {results};\n  }}")
        else:
            lines.append(f"  if (!o.graph) operands_refuse(&f);\n  else {node}")
        lines.append("end:\n  operands_end(&o);\n  Py_XDECREF(given);\n  scratch_end(&s);\n  return result;\n}\n")
        return "\n".join(lines)

    def is_eager(self, python, name):
        """Whether a function on tensors has the same results as the builder."""
        def results(function):
            return sum(p["direction"] == "out" for p in self.about["functions"][function]["parameters"])
        eager = f"compute_tensor_{python}"
        return eager in self.about["functions"] and results(eager) == 1 + results(name)

    def mask(self, python, arguments):
        """The operands that get one dtype, as bits."""
        if python in self.binding.UNIFIED:
            return self.binding.UNIFIED[python]
        row = self.about["operations"].get(python, {})
        if row.get("category") == "elementwise":
            return (1 << row.get("operands", 1)) - 1
        return 0

    # ---- Functions and methods ---------------------------------------------------------------------------------

    def add_function(self, name, python, kind):
        one = self.about["functions"][name]
        arguments, outputs = [], []
        for i, parameter in enumerate(one["parameters"]):
            if i == 0 and kind:
                base = parameter["type"]["base"]
                assert self.binding.CLASSES[base] == kind, name
                arguments.append(Argument("self", kind, f"{base} *handle = NULL;", f"to_object(self, {constant(base)}, &s, (void **)&handle)",
                                          ["handle"]))
            elif parameter["name"] in self.binding.WITHOUT:
                continue
            elif parameter["direction"] == "out":
                outputs.append(parameter)
            else:
                arguments.append(self.argument(name, parameter, "@"))
        self.functions.append((python, kind, name, self.ordered([a for a in arguments if a.name != "self"]),
                               ("outputs", self.result_type(one, outputs)),
                               self.function_source(name, python, kind, arguments, outputs, one)))

    def value_of(self, kind, what, owner):
        """(declaration, value for Python, type) of an output."""
        base = kind["base"]
        if base in self.about["objects"]:
            return f"{base} *{what} = NULL;", f"object_new({constant(base)}, {what}, {'true' if owner == 'caller' else 'false'}, &s)"
        if base == "char":
            return f"char *{what} = NULL;", f"text_taken({what})"
        if base in NUMBERS:
            build = {"bool": "PyBool_FromLong", "double": "PyFloat_FromDouble", "size_t": "PyLong_FromSize_t",
                     "uint64_t": "PyLong_FromUnsignedLongLong"}.get(base, "PyLong_FromLongLong")
            return f"{base} {what} = 0;", f"{build}({what})"
        return f"{base} {what} = {{0}};", f"taken(&{self.table(base)}, &{what}, s.context)"

    def python_type(self, kind):
        base = kind["base"]
        if base in self.about["objects"]:
            return self.binding.CLASSES[base]
        if base == "char":
            return "str"
        if base in NUMBERS:
            return NUMBERS[base][2]
        return self.struct_class(base) if base in self.about["structs"] else "int"

    def result_type(self, one, outputs):
        if len(outputs) > 1:
            return f"tuple[{', '.join(self.python_type(one['type']) for one in outputs)}]"
        if outputs:
            return self.python_type(outputs[0]["type"])
        if one["result"]["base"] in ("compute_status", "void") and not one["result"]["pointers"]:
            return "None"
        return self.python_type(one["result"])

    def function_source(self, name, python, kind, arguments, outputs, one):
        named = self.ordered([a for a in arguments if a.name != "self"])
        options = any(a.name.startswith("**") for a in named)
        length = name in self.binding.LENGTHS
        head = f"method_{kind}_{python}" if kind else f"function_{python}"
        if length:
            base = one["parameters"][0]["type"]["base"]
            return (f"Py_ssize_t length_{base.replace('compute_', '')}(PyObject *self) {{\n  scratch s = {{0}};\n  {base} *handle = NULL;\n"
                    f"  if (to_object(self, {constant(base)}, &s, (void **)&handle)) return -1;\n"
                    f"  const Py_ssize_t length = (Py_ssize_t){name}(handle);\n  scratch_end(&s);\n  return length;\n}}\n")
        lines = [f"static PyObject *{head}(PyObject *self, PyObject *const *argv, Py_ssize_t argc, PyObject *kwnames) {{",
                 self.form(python, named, options).rstrip(), "  (void)self;"]
        lines += ["  " + a.declare for a in arguments if a.declare]
        tests = ["form_take(&f, argv, argc, kwnames, v, &given)"]
        tests += [a.convert for a in arguments if a.name == "self"] + self.converted(named)
        lines.append("  if (" + " ||\n      ".join(tests) + ")\n    goto end;")
        passed = []
        for parameter in one["parameters"]:
            match = [a for a in arguments if a.name.lstrip("*") == parameter["name"]]
            passed += match[0].passed if match else []
            if parameter["name"] in self.binding.WITHOUT and parameter["direction"] == "out":
                passed.append("NULL")
            elif not match and parameter["direction"] == "out":
                passed.append("&p_" + parameter["name"])
            elif not match:
                passed.append("handle")
        call = f"{name}({', '.join(passed)})"
        values = []
        for output in outputs:
            declare, value = self.value_of(output["type"], "p_" + output["name"], output.get("owner"))
            lines.append("  " + declare)
            values.append(value)
        result = one["result"]
        if result["base"] == "compute_status" and not result["pointers"]:
            lines.append(f"  compute_status status;\n  PyThreadState *const unlocked = PyEval_SaveThread();\n  status = {call};\n  PyEval_RestoreThread(unlocked);\n"
                         f"  if (status) {{ fail(status); goto end; }}")
            if len(values) > 1:
                lines.append(f"  result = packed({len(values)}, (PyObject *[]){{{', '.join(values)}}});")
            else:
                lines.append(f"  result = {values[0] if values else 'Py_NewRef(Py_None)'};")
        elif result["base"] == "void" and not result["pointers"]:
            lines.append(f"  PyThreadState *const unlocked = PyEval_SaveThread();\n  {call};\n  PyEval_RestoreThread(unlocked);\n  result = Py_NewRef(Py_None);")
        else:
            _, value = self.value_of(result, "made", one.get("owner"))
            const = "const " if result["const"] else ""
            stars = "*" * result["pointers"]
            if result["base"] == "char" and result["const"]:
                value = "PyUnicode_FromString(made)"
            lines.append(f"  {const}{result['base']} {stars}made;\n  PyThreadState *const unlocked = PyEval_SaveThread();\n  made = {call};\n  PyEval_RestoreThread(unlocked);")
            if result["pointers"] and not result["const"]:
                lines.append("  if (!made) { fail_last(); goto end; }")
            lines.append(f"  result = {value};")
        lines.append("end:\n  Py_XDECREF(given);\n  scratch_end(&s);\n  return result;\n}\n")
        return "\n".join(lines)

    # ---- The file ----------------------------------------------------------------------------------------------

    def documentation(self, name, python, arguments):
        text = self.about["functions"][name]["text"]
        row = self.about["operations"].get(python, {}).get("text", "")
        return f"{python}({self.signature(arguments)})\n--\n\n" + (text or (row and row[0].upper() + row[1:] + "."))

    def signature(self, arguments):
        parts = []
        for a in arguments:
            default = {"all": "None", "none": "None", "false": "False", "float32": "None", "int64": "None"}.get(a.default, a.default)
            parts.append(a.name if a.default is None or a.name.startswith("**") else f"{a.name}={default}")
        return ", ".join(parts)

    def source(self):
        body = [source for *_, source in self.functions]
        parts = ["/* Generated by src/bindings/python/generate.py from interface.json. */", '#include "glue.h"\n',
                 *self.enum_text, *self.table_text, *body]
        rows = {None: []}
        for kind in self.binding.METHODS:
            rows[kind] = []
        for python, kind, name, arguments, _, _ in self.functions:
            if name in self.binding.LENGTHS:
                continue
            prefix = f"method_{kind}_" if kind else ("op_" if name not in self.binding.FUNCTIONS else "function_")
            if kind:
                arguments = [Argument("$self", "")] + arguments
            rows[kind].append(f'  {{"{python}", (PyCFunction)(void (*)(void)){prefix}{python}, METH_FASTCALL | METH_KEYWORDS,\n'
                              f"    {quoted(self.documentation(name, python, arguments))}}},")
        for kind, lines in rows.items():
            label = "functions" if kind is None else f"methods_{kind}"
            parts.append(f"PyMethodDef {label}[] = {{\n" + "\n".join(lines) + "\n  {NULL, NULL, 0, NULL}};\n")
        for python in ("add", "sub", "mul", "div", "pow", "matmul", "neg", "abs", "bit_and", "bit_or", "bit_xor",
                       "bit_not", "shift_left", "shift_right", "equal", "not_equal", "less", "less_equal", "greater",
                       "greater_equal", "logical_and", "logical_or", "logical_xor", "logical_not"):
            parts.append(f"const operation operation_{python} = op_{python};")
        return "\n".join(parts) + "\n"
