# SPDX-License-Identifier: MIT
"""Models quantized by compute_model_quantize, against the same file in ONNX Runtime, against the model of
floats, and beside ONNX Runtime's own quantizer: quantize.py LIBRARY [--speed] [--json FILE] [--only NAME]

The models are made here: a CNN like MobileNetV2, a perceptron, a block of a transformer. --speed also measures
each file here and in ONNX Runtime, and the file of ONNX Runtime's quantizer in both: processor time of one thread, in alternating runs."""

import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MAX_RANK = 8
SAMPLES = 16


# ---- The library ----------------------------------------------------------------------------------------


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int32), ("size", ctypes.c_int64 * MAX_RANK)]


class Binding(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [
        ("method", ctypes.c_int),
        ("range", ctypes.c_int),
        ("rounding", ctypes.c_int),
        ("percentile", ctypes.c_double),
        ("activations", ctypes.c_int),
        ("bits", ctypes.c_int32),
        ("block", ctypes.c_int32),
        ("per_tensor", ctypes.c_bool),
        ("keep", ctypes.POINTER(ctypes.c_char_p)),
        ("keep_count", ctypes.c_size_t),
        ("samples", ctypes.POINTER(Binding)),
        ("sample_count", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("reserved", ctypes.c_uint64 * 8),
    ]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.compute_error_message.restype = ctypes.c_char_p
        self.c.compute_dtype_name.restype = ctypes.c_char_p
        self.c.compute_tensor_shape.restype = Shape
        self.c.compute_default_device.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p()
        self.check(self.c.compute_open(ctypes.byref(self.context), None))
        self.device = ctypes.c_void_p(self.c.compute_default_device(self.context))
        names = {self.c.compute_dtype_name(number): number for number in range(1, 16)}
        self.f32, self.i8 = names[b"f32"], names[b"i8"]

    def check(self, status):
        if status:
            message = self.c.compute_error_message(self.context)
            raise RuntimeError(f"status {status}: {message.decode() if message else ''}")

    def tensor(self, array):
        result = ctypes.c_void_p()
        shape = Shape(array.ndim, (ctypes.c_int64 * MAX_RANK)(*array.shape))
        data = array.ctypes.data_as(ctypes.c_void_p)
        self.check(self.c.compute_tensor_from_host(self.device, self.f32, shape, data, ctypes.byref(result)))
        return result

    def load(self, path):
        model = ctypes.c_void_p()
        self.check(self.c.compute_model_load(self.context, os.fsencode(path), None, ctypes.byref(model)))
        return model

    def run(self, model, tensor):
        inputs, outputs = Binding(b"x", tensor.value), Binding(b"y", None)
        self.check(self.c.compute_model_run(model, ctypes.byref(inputs), ctypes.c_size_t(1),
                                            ctypes.byref(outputs), ctypes.c_size_t(1)))
        return ctypes.c_void_p(outputs.tensor)

    def read(self, tensor):
        shape = self.c.compute_tensor_shape(tensor)
        array = numpy.empty(shape.size[: shape.rank], numpy.float32)
        data = array.ctypes.data_as(ctypes.c_void_p)
        self.check(self.c.compute_tensor_read(tensor, data, ctypes.c_size_t(array.nbytes)))
        return array

    def answer(self, path, arrays):
        model, result = self.load(path), []
        for array in arrays:
            tensor = self.tensor(array)
            output = self.run(model, tensor)
            result.append(self.read(output))
            self.c.compute_tensor_release(output)
            self.c.compute_tensor_release(tensor)
        self.c.compute_model_release(model)
        return result

    def quantize(self, source, path, arrays, **words):
        options = Options(**{k: v for k, v in words.items() if k != "signed"})
        if words.get("signed"):
            options.activations = self.i8
        tensors = [self.tensor(array) for array in arrays]
        samples = (Binding * len(arrays))(*[Binding(b"x", tensor.value) for tensor in tensors])
        options.samples, options.sample_count = samples, len(arrays)
        model, report, text = self.load(source), ctypes.c_void_p(), ctypes.c_char_p()
        self.check(self.c.compute_model_quantize(model, os.fsencode(path), ctypes.byref(options),
                                                 ctypes.byref(report)))
        self.check(self.c.compute_quantize_report_text(report, 1, ctypes.byref(text)))
        result = json.loads(text.value)
        self.c.compute_quantize_report_release(report)
        self.c.compute_model_release(model)
        for tensor in tensors:
            self.c.compute_tensor_release(tensor)
        return result


# ---- Models ---------------------------------------------------------------------------------------------


class Maker:
    def __init__(self, seed):
        self.random, self.nodes, self.weights, self.count = numpy.random.default_rng(seed), [], [], 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def weight(self, *shape, gain=1.0, mean=0.0):
        fan = numpy.prod(shape[1:]) if len(shape) == 4 else shape[0]
        name = self.name()
        values = mean + self.random.standard_normal(shape) * gain / numpy.sqrt(fan)
        self.weights.append(numpy_helper.from_array(values.astype(numpy.float32), name))
        return name

    def constant(self, values, dtype):
        name = self.name()
        self.weights.append(numpy_helper.from_array(numpy.array(values, dtype), name))
        return name

    def add(self, kind, *inputs, out=None, **attributes):
        out = out or self.name()
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=f"{kind}_{out}", **attributes))
        return out

    def save(self, path, shape, out_shape):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, out_shape)
        graph = helper.make_graph(self.nodes, "made", [x], [y], self.weights)
        opsets = [helper.make_opsetid("", 20)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def make_cnn(path):
    """Inverted residuals, as in MobileNetV2: 1x1, depthwise 3x3, 1x1, sums."""
    m = Maker(1)
    zero, six = m.constant(0, numpy.float32), m.constant(6, numpy.float32)

    def conv(x, count, width, size, stride=1, group=1, clip=True):
        bias = m.weight(width, gain=0.3)
        weight = m.weight(width, count // group, size, size, gain=1.4)
        pads = [size // 2] * 4
        x = m.add("Conv", x, weight, bias, strides=[stride] * 2, pads=pads, group=group)
        return m.add("Clip", x, zero, six) if clip else x

    x, width = conv("x", 3, 32, 3, 2), 32
    for wide, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (64, 2), (64, 1), (96, 1)):
        hidden = conv(x, width, 4 * width, 1)
        hidden = conv(hidden, 4 * width, 4 * width, 3, stride, 4 * width)
        made = conv(hidden, 4 * width, wide, 1, clip=False)
        x = m.add("Add", x, made) if wide == width and stride == 1 else made
        width = wide
    x = m.add("GlobalAveragePool", conv(x, width, 512, 1))
    x = m.add("Flatten", x)
    m.add("Gemm", x, m.weight(512, 100), m.weight(100, gain=0.3), out="y")
    m.save(path, ["n", 3, 96, 96], ["n", 100])
    return lambda random: random.standard_normal((1, 3, 96, 96)).astype(numpy.float32)


def make_perceptron(path):
    m, x, width = Maker(2), "x", 256
    for wide in (512, 512, 256):
        product = m.add("MatMul", x, m.weight(width, wide, gain=1.4))
        x, width = m.add("Relu", m.add("Add", product, m.weight(wide, gain=0.3))), wide
    m.add("Gemm", x, m.weight(50, width), m.weight(50), out="y", transB=1)
    m.save(path, ["n", 256], ["n", 50])
    return lambda random: random.standard_normal((32, 256)).astype(numpy.float32)


def make_transformer(path):
    m, width, heads = Maker(3), 256, 4
    split = m.constant([0, -1, heads, width // heads], numpy.int64)
    joined = m.constant([0, -1, width], numpy.int64)
    scale = m.constant(1 / numpy.sqrt(width / heads), numpy.float32)

    def linear(x, wide, count, out=None):
        return m.add("Add", m.add("MatMul", x, m.weight(wide, count)), m.weight(count, gain=0.1), out=out)

    def norm(x):
        return m.add("LayerNormalization", x, m.weight(width, gain=0.1, mean=1), m.weight(width, gain=0.1))

    x = "x"
    for _ in range(2):
        normal = norm(x)
        q, k, v = (m.add("Reshape", linear(normal, width, width), split) for _ in range(3))
        q, v = (m.add("Transpose", value, perm=[0, 2, 1, 3]) for value in (q, v))
        k = m.add("Transpose", k, perm=[0, 2, 3, 1])
        scores = m.add("Softmax", m.add("Mul", m.add("MatMul", q, k), scale))
        mixed = m.add("Transpose", m.add("MatMul", scores, v), perm=[0, 2, 1, 3])
        x = m.add("Add", x, linear(m.add("Reshape", mixed, joined), width, width))
        hidden = m.add("Gelu", linear(norm(x), width, 4 * width))
        x = m.add("Add", x, linear(hidden, 4 * width, width))
    m.add("LayerNormalization", x, m.weight(width, mean=1), m.weight(width), out="y")
    m.save(path, ["n", "t", width], ["n", "t", width])
    return lambda random: random.standard_normal((1, 64, 256)).astype(numpy.float32)


MODELS = {"cnn": make_cnn, "perceptron": make_perceptron, "transformer": make_transformer}

# Options, and the largest relative error against the model of floats for each model, in the order of MODELS.
WAYS = {
    "min-max u8": ({}, (0.06, 0.04, 0.04)),
    "min-max i8": ({"signed": True}, (0.06, 0.04, 0.04)),
    "7 bits": ({"bits": 7}, (0.08, 0.05, 0.05)),
    "percentile": ({"range": 1, "bits": 7}, (0.08, 0.05, 0.05)),
    "entropy": ({"range": 2, "bits": 7}, (0.1, 0.06, 0.06)),
    "mse": ({"range": 3, "bits": 7}, (0.08, 0.05, 0.05)),
    "per tensor": ({"per_tensor": True, "bits": 7}, (0.1, 0.06, 0.06)),
    "weights 8": ({"method": 1}, (0.03, 0.02, 0.02)),
    "weights 4": ({"method": 1, "bits": 4}, (0.2, 0.25, 0.2)),
    "weights 4 nearest": ({"method": 1, "bits": 4, "rounding": 1}, (0.2, 0.25, 0.2)),
    "weights 4 gptq": ({"method": 1, "bits": 4, "rounding": 2}, (0.2, 0.25, 0.2)),
    "f16": ({"method": 2}, (0.002, 0.002, 0.002)),
    "bf16": ({"method": 3}, (0.02, 0.02, 0.02)),
}


# ---- Comparison -----------------------------------------------------------------------------------------


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def relative(values, reference):
    apart = sum(numpy.sum((a.astype(float) - b) ** 2) for a, b in zip(values, reference))
    return float(numpy.sqrt(apart / sum(numpy.sum(b.astype(float) ** 2) for b in reference)))


class Reader(onnxruntime.quantization.CalibrationDataReader if hasattr(onnxruntime, "quantization") else object):
    def __init__(self, arrays):
        self.left = iter([{"x": array} for array in arrays])

    def get_next(self):
        return next(self.left, None)


def theirs(source, path, arrays, reduce_range):
    """ONNX Runtime's own quantizer, with QDQ, u8 and i8 weights for each channel."""
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        prepared = os.path.join(folder, "prepared.onnx")
        quantization.quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantization.quantize_static(prepared, path, Reader(arrays), per_channel=True, reduce_range=reduce_range)


def time_all(calls, seconds=1.5):
    """The median processor time of each call in ms, in alternating runs of one thread."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds * len(calls) or len(next(iter(times.values()))) < 5:
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def here(library, path, array):
    model, tensor = library.load(path), library.tensor(array)
    return lambda: library.c.compute_tensor_release(library.run(model, tensor))


def there(path, array):
    made = session(path)
    return lambda: made.run(None, {"x": array})


def check(library, folder, model, source, samples, tests, way, row):
    """Quantizes a model in one way. Returns the path, or None for a failure."""
    words, limits = WAYS[way]
    path = os.path.join(folder, f"{model}-{way.replace(' ', '-')}.onnx")
    report = library.quantize(source, path, samples, **words)
    onnx.checker.check_model(path) if "weights" not in way else None
    floats = session(source).run
    expected = [floats(None, {"x": array})[0] for array in tests]
    ours = library.answer(path, tests)
    row["layers"] = sum(layer["quantized"] for layer in report["layers"])
    row["error"] = relative(ours, expected)
    row["bytes"] = os.path.getsize(path)
    limit, problems = limits[list(MODELS).index(model)], []
    if not row["error"] <= limit:
        problems.append(f"error {row['error']:.4f} above {limit}")
    try:
        peer = session(path)
        answers = [peer.run(None, {"x": array})[0] for array in tests]
        row["error_ort"], row["apart"] = relative(answers, expected), relative(answers, ours)
        # Sums of 16 bits saturate there on AVX2 with 8-bit weights.
        if not row["apart"] <= max(0.3 * row["error"], 1e-3) and "u8" not in way and "i8" not in way:
            problems.append(f"ONNX Runtime differs by {row['apart']:.4f}")
    except Exception as error:  # bf16 is missing there
        row["ort"] = str(error).splitlines()[0][:200]
        if way != "bf16":
            problems.append(row["ort"])
    return path, problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--only")
    a = parser.parse_args()
    os.environ["COMPUTE_THREADS"] = "1"
    library, rows, failed = Library(a.library), [], False
    with tempfile.TemporaryDirectory() as folder:
        for model, make in MODELS.items():
            source = os.path.join(folder, f"{model}.onnx")
            draw, random = make(source), numpy.random.default_rng(7)
            samples, tests = [draw(random) for _ in range(SAMPLES)], [draw(random) for _ in range(2)]
            calls = {"f32 here": here(library, source, tests[0]), "f32 there": there(source, tests[0])}
            for way in WAYS:
                if a.only and a.only not in f"{model} {way}":
                    continue
                row = {"model": model, "way": way}
                path, problems = check(library, folder, model, source, samples, tests, way, row)
                failed |= bool(problems)
                print(model, way, *(f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, (int, float))),
                      "FAILED: " + "; ".join(problems) if problems else "", flush=True)
                rows.append(row)
                if a.speed and way in ("min-max u8", "7 bits", "weights 4", "weights 8"):
                    calls[f"{way} here"] = here(library, path, tests[0])
                    calls[f"{way} there"] = there(path, tests[0])
            if a.speed:
                floats = [session(source).run(None, {"x": array})[0] for array in tests]
                for name, less in (("peer 8 bits", False), ("peer 7 bits", True)):
                    path = os.path.join(folder, f"{model}-{name}.onnx")
                    theirs(source, path, samples, less)
                    answers = [session(path).run(None, {"x": array})[0] for array in tests]
                    row = {"model": model, "way": name, "error_ort": relative(answers, floats),
                           "error": relative(library.answer(path, tests), floats)}
                    rows.append(row)
                    print(model, name, row)
                    calls[f"{name} here"] = here(library, path, tests[0])
                    calls[f"{name} there"] = there(path, tests[0])
                times = time_all(calls)
                rows.append({"model": model, "milliseconds": times})
                print(model, {k: round(v, 3) for k, v in times.items()})
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
