#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the node tests of the installed onnx package: generate.py FOLDER.

Each becomes FOLDER/<name>/model.onnx, with test_data_set_<i>/input_<j>.pb and output_<j>.pb beside it.
"""
import os
import sys

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def message_of(value, info):
    """A value as a message of the type that the model declares."""
    if isinstance(value, onnx.TensorProto):
        return value
    if info.type.HasField("sequence_type"):
        return numpy_helper.from_list(value, info.name)
    if info.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_array(numpy.array(value), info.name)


def write(path, message):
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def write_case(case, folder):
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, "model.onnx"), case.model)
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{number}")
        os.makedirs(data, exist_ok=True)
        for kind, values, infos in (("input", inputs, case.model.graph.input),
                                    ("output", outputs, case.model.graph.output)):
            for i, (value, info) in enumerate(zip(values, infos)):
                write(os.path.join(data, f"{kind}_{i}.pb"), message_of(value, info))


def main():
    cases = [case for case in collect_testcases(None) if case.kind == "node"]
    for case in cases:
        write_case(case, os.path.join(sys.argv[1], case.name))
    print(f"{len(cases)} node tests of onnx {onnx.__version__}")


if __name__ == "__main__":
    main()
