# SPDX-License-Identifier: MIT
"""Models with texts, sequences and optionals at their ports. The files are written by hand."""
import numpy
import pytest

import libcompute as lc

FLOAT, INT64, STRING = 1, 7, 8


def field(number, value):
    """A field of a Protocol Buffers message: an integer below 128, a text or a message."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    data = value.encode() if isinstance(value, str) else value
    size, length = len(data), b""
    while size >= 128:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def tensor(kind):
    return field(1, field(1, kind))


def sequence(element):
    return field(4, field(1, element))


def optional(element):
    return field(9, field(1, element))


def node(kind, inputs, outputs, attributes=b"", domain=""):
    names = b"".join(field(1, one) for one in inputs) + b"".join(field(2, one) for one in outputs)
    return field(1, names + field(4, kind) + attributes + field(7, domain))


def text_attribute(name, text):
    return field(5, field(1, name) + field(4, text) + b"\xa0\x01\x03")


def load(path, nodes, inputs, outputs):
    """A model from {name: type} at its ports."""
    ports = b"".join(field(11, field(1, name) + field(2, kind)) for name, kind in inputs.items())
    ports += b"".join(field(12, field(1, name) + field(2, kind)) for name, kind in outputs.items())
    graph = field(7, nodes + field(2, "g") + ports)
    path.write_bytes(field(1, 10) + graph + field(8, field(1, "") + field(2, 20)))
    return lc.load_model(str(path))


@pytest.fixture(name="splits")
def split_model(tmp_path):
    nodes = node("StringSplit", ["a"], ["parts", "counts"], text_attribute("delimiter", ","))
    return load(tmp_path / "split.onnx", nodes, {"a": tensor(STRING)},
                {"parts": tensor(STRING), "counts": tensor(INT64)})


def test_texts_are_lists(splits):
    result = splits.run({"a": ["x,y", "é"]})
    assert result["parts"] == [["x", "y"], ["é", ""]]
    assert result["counts"].numpy().tolist() == [2, 1]
    assert splits.run({"a": numpy.array(["x,y"])}, ["parts"]) == {"parts": [["x", "y"]]}
    assert [port.kind for port in splits.inputs + splits.outputs] == [1, 1, 0]


def test_given_arrays_receive_results(splits):
    counts = lc.asarray(numpy.array([-7, -7]))
    result = splits.run({"a": ["x,y", "z"]}, {"counts": counts, "parts": None})
    assert result["counts"] is counts and counts.numpy().tolist() == [2, 1]
    assert result["parts"] == [["x", "y"], ["z", ""]]
    with pytest.raises(ValueError):
        splits.run({"a": ["x"]}, {"counts": counts})
    with pytest.raises(TypeError):
        splits.run({"a": ["x", "y"]}, {"counts": numpy.zeros(2, numpy.int64)})
    with pytest.raises(TypeError):
        splits.run({"a": ["x", "y"]}, {"parts": counts})
    with pytest.raises(ValueError):
        splits.run({"a": ["x", "y"]}, {"counts": lc.asarray(numpy.zeros(2, "f4"))})


@pytest.mark.parametrize("wrong", [None, 3, b"xy", [b"xy"], {"p": 1}, [None]])
def test_other_values_are_not_texts(splits, wrong):
    with pytest.raises(TypeError, match="nested lists of str"):
        splits.run({"a": wrong})
    with pytest.raises(ValueError):
        splits.run({"a": ["x", ["y"]]})


def test_sequences_are_tuples(tmp_path):
    kind = sequence(tensor(FLOAT))
    model = load(tmp_path / "insert.onnx", node("SequenceInsert", ["a", "b"], ["y"]),
                 {"a": kind, "b": tensor(FLOAT)}, {"y": kind})
    one = numpy.ones(2, "f4")
    result = model.run({"a": (one, one * 2), "b": one * 3})["y"]
    assert isinstance(result, tuple)
    assert [part.numpy().tolist() for part in result] == [[1, 1], [2, 2], [3, 3]]
    assert len(model.run({"a": (), "b": one})["y"]) == 1
    for wrong in (None, "abc", b"ab", {"p": one}):
        with pytest.raises(TypeError, match="a sequence is"):
            model.run({"a": wrong, "b": one})


def test_optionals_may_be_none(tmp_path):
    kind = optional(tensor(FLOAT))
    nodes = node("Identity", ["a"], ["y"])
    model = load(tmp_path / "optional.onnx", nodes, {"a": kind}, {"y": kind})
    assert model.run({"a": None}) == {"y": None}
    assert model.run({}) == {"y": None}
    assert model.run({"a": numpy.full(1, 9, "f4")})["y"].numpy().tolist() == [9]
