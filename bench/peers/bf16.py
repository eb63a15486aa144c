# SPDX-License-Identifier: MIT
"""Networks with weights and values of bf16: an ONNX file of f32 with its floats replaced. Inputs and outputs stay f32."""
import os

FOLDER = "bf16"  # beside the files in f32


def is_bf16(path):
    return os.path.basename(os.path.dirname(path)) == FOLDER


def single(path):
    """The file in f32 that `path` was made of."""
    return os.path.join(os.path.dirname(os.path.dirname(path)), os.path.basename(path))


def round_bits(array):
    """The upper renamed of f32, to the nearest, of two to the even one."""
    import numpy as np
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def round_tensor(tensor):
    from onnx import TensorProto, numpy_helper
    if tensor.data_type != TensorProto.FLOAT:
        return
    array, name = numpy_helper.to_array(tensor), tensor.name
    tensor.Clear()
    tensor.name, tensor.data_type, tensor.raw_data = name, TensorProto.BFLOAT16, round_bits(array).tobytes()
    tensor.dims.extend(array.shape)


def round_node(node):
    from onnx import TensorProto
    for attribute in node.attribute:
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.BFLOAT16
        if attribute.HasField("t"):
            round_tensor(attribute.t)


def make(source, path):
    import onnx
    from onnx import TensorProto, helper
    model = onnx.load(source)
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    floats = [[value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT
               and value.name not in weights] for values in (graph.input, graph.output)]
    renamed = {name: name + "_bf16" for name in (*floats[0], *floats[1])}
    for tensor in graph.initializer:
        round_tensor(tensor)
    for node in graph.node:
        round_node(node)
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    nodes = [helper.make_node("Cast", [name], [renamed[name]], to=TensorProto.BFLOAT16) for name in floats[0]]
    nodes += graph.node
    nodes += [helper.make_node("Cast", [renamed[name]], [name], to=TensorProto.FLOAT) for name in floats[1]]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    onnx.save(model, path)
