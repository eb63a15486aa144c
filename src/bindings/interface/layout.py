# SPDX-License-Identifier: MIT
"""Where the members of structs lie, on machines with 64 bits: every member at a multiple of its alignment."""

SIZES = {"bool": 1, "char": 1, "uint8_t": 1, "uint16_t": 2, "int": 4, "float": 4, "int32_t": 4, "uint32_t": 4,
         "double": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8}


class Layout:
    def __init__(self, headers):
        self.headers = headers

    def measure(self, kind):
        """(size, alignment) of a type."""
        if "callback" in kind or kind["pointers"]:
            size = align = 8
        elif kind["base"] in SIZES:
            size = align = SIZES[kind["base"]]
        elif kind["base"] in self.headers.structs:
            struct = self.headers.structs[kind["base"]]
            if "size" not in struct:
                self.place(struct)
            size, align = struct["size"], struct["alignment"]
        elif kind["base"] in self.headers.callbacks:
            size = align = 8
        else:  # an enum, or another name of one
            size = align = 4
        return size * kind.get("array", 1), align

    def members(self, fields, at, union):
        """(end, alignment) after the members are placed from `at` on."""
        end, most = at, 1
        for field in fields:
            start = at if union else end
            if "union" in field:
                _, align = self.members(field["union"], 0, True)
                start = -(-start // align) * align
                inner, _ = self.members(field["union"], start, True)
                size = -(-(inner - start) // align) * align
            else:
                size, align = self.measure(field["type"])
                start = -(-start // align) * align
                field["offset"], field["size"] = start, size
            end = max(end, start + size)
            most = max(most, align)
        return end, most

    def place(self, struct):
        end, align = self.members(struct["fields"], 0, False)
        struct["size"], struct["alignment"] = -(-end // align) * align, align


def place(headers):
    """Adds size, alignment and offsets to all structs."""
    layout = Layout(headers)
    for struct in headers.structs.values():
        layout.place(struct)
