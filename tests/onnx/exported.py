# SPDX-License-Identifier: MIT
"""Models written by the library, checked by independent readers: exported.py FOLDER.

FOLDER has NAME.onnx, and NAME.safetensors with the model's inputs and the graph's results for them,
written by tests/model/test_export.c. onnx.checker checks each model. ONNX Runtime runs it, or onnx's
reference evaluator if ONNX Runtime lacks an operator in a dtype."""

import collections
import json
import pathlib
import sys

import ml_dtypes
import numpy
import onnx
import onnx.reference

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

DTYPES = {"BOOL": numpy.bool_, "BF16": ml_dtypes.bfloat16, "F16": numpy.float16, "F32": numpy.float32, "F64": numpy.float64}
ROUNDING = {numpy.dtype(numpy.float64): 1e-13, numpy.dtype(numpy.float32): 4e-6, numpy.dtype(numpy.float16): 1e-2,
            numpy.dtype(ml_dtypes.bfloat16): 6e-2}
# Models that neither reader can run: ONNX Runtime lacks the dtype. The evaluator lacks groups of
# ConvTranspose, or direction, clip and lengths of LSTM.
NOT_RUN = {"transposed.f64", "transposed.bf16", "lstm_options.f64", "lstm_options.bf16"}


def dtype_of(name):
    if name in DTYPES:
        return numpy.dtype(DTYPES[name])
    return numpy.dtype({"I": "int", "U": "uint"}[name[0]] + name[1:])


def read_tensors(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    result = {}
    for name, row in header.items():
        low, high = row["data_offsets"]
        result[name] = numpy.frombuffer(data[start + low : start + high], dtype_of(row["dtype"])).reshape(row["shape"])
    return result


def run_runtime(path, inputs, outputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(outputs, inputs)


def run_reference(path, inputs, outputs):
    return onnx.reference.ReferenceEvaluator(str(path)).run(outputs, inputs)


def is_close(actual, expected, allowed, sums):
    actual = numpy.asarray(actual)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if expected.dtype not in ROUNDING:
        return bool(numpy.array_equal(actual, expected))
    allowed = max(allowed, ROUNDING[expected.dtype])
    actual, expected = actual.astype(numpy.float64), expected.astype(numpy.float64)
    scale = max(1, numpy.abs(expected).max(initial=0)) if sums else 1
    with numpy.errstate(all="ignore"):
        return bool(numpy.allclose(actual, expected, rtol=allowed, atol=allowed * scale, equal_nan=True))


def judge(path):
    """The reader that ran the model, and its error or None."""
    try:
        onnx.checker.check_model(onnx.load(path), full_check=True)
    except Exception as error:
        return None, f"onnx.checker: {error}"
    tensors = read_tensors(path.with_suffix(".safetensors"))
    model = onnx.load(path, load_external_data=False).graph
    inputs = {value.name: tensors[value.name] for value in model.input}
    outputs = [value.name for value in model.output]
    narrow = any(value.dtype == ml_dtypes.bfloat16 for value in tensors.values())
    types = {node.op_type for node in model.node}
    sums = bool(types & {"Conv", "ConvTranspose", "MatMul"})  # the terms of sums may cancel
    failure = None
    for name, run in (("ONNX Runtime", run_runtime), ("onnx.reference", run_reference)):
        if name == "ONNX Runtime" and (onnxruntime is None or narrow):
            continue
        try:
            results = run(path, inputs, outputs)
        except Exception as error:  # readers report missing features in many ways
            failure = failure or f"{name}: {str(error)[:200]}"
            continue
        # The reference evaluator's erf has eight correct digits.
        allowed = 1e-7 if run is run_reference and "Erf" in types else 0
        wrong = [output for output, result in zip(outputs, results)
                 if not is_close(result, tensors[output], allowed, sums)]
        if not wrong:
            return name, None
        failure = f"{failure + '; ' if failure else ''}{name}: {', '.join(wrong)} differ"
    return None, failure


def main():
    ran, failed = collections.Counter(), 0
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
        reader, failure = judge(path)
        if path.stem in NOT_RUN:
            failure = None if failure else "can be run; take it off NOT_RUN"
        if failure:
            print(f"{path.stem}: {failure}")
            failed += 1
        elif reader:
            ran[reader] += 1
    print(", ".join(f"{count} models by {reader}" for reader, count in ran.items()))
    if not ran:
        print("there are no models")
    return 1 if failed or not ran else 0


sys.exit(main())
