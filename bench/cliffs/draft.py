# SPDX-License-Identifier: MIT
"""A model under construction, with its inputs, and its description in words."""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers"))
from networks import Network

NAMES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
}
MICROSOFT = "com.microsoft"
FEW = 6  # elements of a constant that the description contains


def code(dtype):
    """The number of a NumPy dtype in ONNX."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def attribute_text(value):
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(attribute_text(v) for v in value) + "]"
    if isinstance(value, onnx.GraphProto):
        return f"graph of {len(value.node)} nodes"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class Draft(Network):
    """Network's methods append nodes and return the name of the result. `d` makes the choices; the data are drawn by
    NumPy from a fixed seed, so that they depend on the choices only."""

    def __init__(self, name, d, opset=18):
        super().__init__(name, [], opset)
        self.d, self.arrays, self.about, self.random_result = d, {}, {}, False
        self.loose = False  # 8-bit results may differ by rounding

    # ---- Data ---------------------------------------------------------------------------------

    def values(self, shape, dtype="float32", kind="normal"):
        """Data of a kind: normal, positive, unit (-1 to 1), few (equal elements), or "below N" for indices."""
        r, dtype = self.random, np.dtype(dtype)
        if kind.startswith("below "):
            return r.integers(0, int(kind.split()[1]), shape).astype(dtype)
        if dtype.kind == "b":
            return r.random(shape) < 0.5
        if dtype.kind in "iu":
            low, high = (0 if dtype.kind == "u" or kind == "positive" else -100), (256 if dtype == np.uint8 else 100)
            return r.integers(max(low, 1 if kind == "positive" else low), high, shape).astype(dtype)
        if kind == "positive":
            return (r.random(shape) * 3 + 0.1).astype(dtype)
        if kind == "unit":
            return r.uniform(-0.99, 0.99, shape).astype(dtype)
        if kind == "few":
            return r.integers(0, 5, shape).astype(dtype)
        return r.standard_normal(shape).astype(dtype)

    def feed(self, array):
        """An input of the model."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        name = f"x{len(self.arrays)}"
        self.inputs.append(helper.make_tensor_value_info(name, code(array.dtype), list(array.shape)))
        self.arrays[name] = array
        self.about[name] = self.text(array)
        return name

    def x(self, shape, dtype="float32", kind="normal"):
        return self.feed(self.values(shape, dtype, kind))

    def constant(self, array):
        array = np.asarray(array)
        name = super().constant(array)
        few = array.size <= FEW and array.dtype.kind in "iub"
        self.about[name] = attribute_text(array.ravel().tolist()) if few else self.text(array) + " const"
        return name

    @staticmethod
    def text(array):
        return f"{NAMES[str(array.dtype)]}[{','.join(map(str, array.shape))}]"

    def either(self, array):
        """A second operand: a constant or an input."""
        return self.constant(array) if self.d.chance(0.6) else self.feed(array)

    def made(self, array):
        """Weights in f32, as a constant, an input, or made of others, as exporters of compact files write them."""
        form = self.d.pick("constant", "input", "f16", "i8", "dequantized", "scaled", weights=(6, 3, 1, 1, 1, 1))
        array = np.asarray(array, np.float32)
        if form == "constant":
            return self.constant(array)
        if form == "input":
            return self.feed(array)
        if form == "f16":
            return self.node("Cast", self.constant(array.astype(np.float16)), to=TensorProto.FLOAT)
        scale = np.float32(max(np.abs(array).max(initial=0), 1e-3) / 127)
        bytes_ = np.clip(np.round(array / scale), -127, 127).astype(np.int8)
        if form == "i8":
            cast = self.node("Cast", self.constant(bytes_), to=TensorProto.FLOAT)
            return self.node("Mul", cast, self.constant(scale))
        if form == "dequantized":
            return self.node("DequantizeLinear", self.constant(bytes_), self.constant(scale))
        rows = self.constant(np.full((array.shape[0], *[1] * (array.ndim - 1)), 0.5, np.float32))
        return self.node("Mul", self.constant(array), rows)

    # ---- Nodes --------------------------------------------------------------------------------

    def microsoft(self, operator, *inputs, count=1, **attributes):
        return self.node(operator, *inputs, count=count, domain=MICROSOFT, **attributes)

    def result(self, *pairs):
        """The outputs: (value, NumPy dtype), or values of f32."""
        for pair in pairs:
            value, dtype = pair if isinstance(pair, tuple) else (pair, "float32")
            self.outputs.append(helper.make_tensor_value_info(value, code(dtype), None))

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        for domain in sorted({node.domain for node in self.nodes} - {""}):
            opsets.append(helper.make_opsetid(domain, 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=13 if self.opset > 24 else 10)

    # ---- Words --------------------------------------------------------------------------------

    def node_text(self, node, operands=True):
        """MatMul(f32[64,3], f32[3,4] const; attribute=1): results of other nodes appear by their operator."""
        made = {name: n.op_type for n in self.nodes for name in n.output}
        parts = [self.about.get(name) or made.get(name) or ("_" if not name else name) for name in node.input]
        known = [part for name, part in zip(node.input, parts) if operands or name in self.about]
        attributes = [f"{a.name}={attribute_text(helper.get_attribute_value(a))}" for a in node.attribute]
        inner = ", ".join(known) + ("; " if attributes and known else "") + ", ".join(attributes).replace("b'", "'")
        return f"{node.op_type}({inner})" if inner else node.op_type

    def words(self):
        return " > ".join(self.node_text(node, len(self.nodes) < 3) for node in self.nodes)
