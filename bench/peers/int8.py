# SPDX-License-Identifier: MIT
"""Operators and networks in 8 bits beside ONNX Runtime and OpenVINO.

    int8.py LIBCOMPUTE.so [--threads N] [--rounds R] [--only TEXT] [--json FILE]
    int8.py --table FILE     the tables of docs/performance/int8.md

The models are made here. Weights have 8 bits, or 7, whose sums no instruction saturates. Each engine
runs in a separate process, and the engines take turns. "exact" is ONNX Runtime with
session.x64quantprecision=1; "saturating" is libcompute with COMPUTE_PLAN_ALLOW_SATURATION. Times are
milliseconds of processor time with one thread, of the fastest run of a round with more: the median of
all rounds. Ratios, of times in the same round, are above 1 where libcompute is faster. `wrong` is the
number of results that differ from ONNX Runtime's exact ones by more than the last bit.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile

import engines

try:
    import numpy as np
except ImportError:  # only the tables need none
    np = None

ROOT = engines.ROOT
SATURATE = 1 << 7


# ---- Engines ------------------------------------------------------------------------------------


class Options(ctypes.Structure):
    _fields_ = [("device", ctypes.c_void_p), ("fallback", ctypes.c_int), ("flags", ctypes.c_uint32),
                ("rest", ctypes.c_uint64 * 64)]


class Here(engines.Libcompute):
    flags = 0

    def load(self, path):
        check, c = self.check, self.c
        options = Options(flags=self.flags)

        def load_with(context, name, _, model):
            return c.compute_model_load(context, name, ctypes.byref(options), model)

        self.c = type("Library", (), {"compute_model_load": staticmethod(load_with),
                                      "__getattr__": lambda _, name: getattr(c, name)})()
        try:
            super().load(path)
        finally:
            self.c, self.check = c, check


class HereSaturating(Here):
    flags = SATURATE


class OrtExact(engines.OnnxRuntime):
    precision = "1"

    def load(self, path):
        settings = self.module.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = self.threads, 1
        settings.add_session_config_entry("session.x64quantprecision", self.precision)
        self.session = None
        self.session = self.module.InferenceSession(path, settings,
                                                    providers=["CPUExecutionProvider"])


class Ort(OrtExact):
    precision = "0"


ENGINES = {"here": Here, "here saturating": HereSaturating, "ort": Ort, "ort exact": OrtExact,
           "openvino": engines.OpenVino}


class Worker(engines.Worker):
    def __init__(self, engine, options):
        command = [sys.executable, os.path.abspath(__file__), "--serve", engine, options.library,
                   str(options.threads)]
        super().__init__("libcompute", options, command)


def serve(engine, library, threads):
    class Wanted:
        pass

    Wanted.engine, Wanted.library, Wanted.threads = engine, library, int(threads)
    engines.ENGINES[engine] = ENGINES[engine]
    engines.serve(lambda: engines.Models(Wanted))


# ---- Models -------------------------------------------------------------------------------------


class Maker:
    """An ONNX model with input x, output y and random weights."""

    def __init__(self, bits):
        self.random, self.bits, self.nodes, self.weights = np.random.default_rng(5), bits, [], []

    def constant(self, values, dtype):
        from onnx import numpy_helper
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def bytes(self, *shape):
        """Normally distributed, with the largest at the end of the range, as quantizers make them."""
        values = self.random.standard_normal(shape)
        most = 127 if self.bits == 8 else 63
        return self.constant(np.round(values * most / np.abs(values).max()), np.int8)

    def scale(self, value):
        return self.constant(value, np.float32)

    def add(self, kind, inputs, outputs, domain="", **attributes):
        from onnx import helper
        self.nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))

    def save(self, path, x, y):
        """x and y: dtype and shape."""
        import onnx
        from onnx import helper
        ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t)), s)
                 for name, (t, s) in (("x", x), ("y", y))]
        graph = helper.make_graph(self.nodes, "made", ports[:1], ports[1:], self.weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)

    def input(self, dtype, shape):
        if dtype == np.uint8:
            return self.random.integers(0, 256, shape).astype(np.uint8)
        return self.random.standard_normal(shape).astype(np.float32)


def product(rows, k, n):
    def make(path, bits):
        m = Maker(bits)
        zero, weight_zero = m.constant(117, np.uint8), m.constant(0, np.int8)
        m.add("QLinearMatMul", ["x", m.scale(0.02), zero, m.bytes(k, n), m.scale(0.003), weight_zero,
                                m.scale(0.05 * k ** 0.5 / 16), zero], ["y"])
        m.save(path, (np.uint8, [rows, k]), (np.uint8, [rows, n]))
        return m.input(np.uint8, (rows, k))
    return make


def conv(size, channels, filters, taps, stride=1, groups=1, dilation=1):
    def make(path, bits):
        m = Maker(bits)
        zero, weight_zero = m.constant(117, np.uint8), m.constant(0, np.int8)
        fan = channels // groups * taps * taps
        bias = m.constant(m.random.integers(-900, 900, filters), np.int32)
        m.add("QLinearConv", ["x", m.scale(0.02), zero, m.bytes(filters, channels // groups, taps, taps),
                              m.scale(0.003), weight_zero, m.scale(0.05 * fan ** 0.5 / 16), zero, bias],
              ["y"], strides=[stride] * 2, pads=[dilation * (taps // 2)] * 4, group=groups,
              dilations=[dilation] * 2, kernel_shape=[taps] * 2)
        made = (size - 1) // stride + 1
        m.save(path, (np.uint8, [1, channels, size, size]), (np.uint8, [1, filters, made, made]))
        return m.input(np.uint8, (1, channels, size, size))
    return make


def dynamic_conv(size, channels, filters, taps):
    """As onnxruntime's quantize_dynamic writes Conv: the zero point is known when it runs."""
    def make(path, bits):
        m = Maker(bits)
        m.add("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
        weight_zero = m.constant(0, np.int8)
        m.add("ConvInteger", ["q", m.bytes(filters, channels, taps, taps), "z", weight_zero], ["i"],
              pads=[taps // 2] * 4, kernel_shape=[taps] * 2)
        m.add("Cast", ["i"], ["f"], to=1)
        m.add("Mul", ["s", m.scale(0.003)], ["t"])
        m.add("Mul", ["f", "t"], ["y"])
        m.save(path, (np.float32, [1, channels, size, size]), (np.float32, [1, filters, size, size]))
        return m.input(np.float32, (1, channels, size, size))
    return make


def lstm(steps, inputs, hidden):
    def make(path, bits):
        m = Maker(bits)
        bias = m.constant(m.random.standard_normal((1, 8 * hidden)) * 0.1, np.float32)
        zero, scale = m.constant([0], np.int8), m.scale([0.3 / 127 if bits == 8 else 0.3 / 63])
        m.add("DynamicQuantizeLSTM",
              ["x", m.bytes(1, inputs, 4 * hidden), m.bytes(1, hidden, 4 * hidden), bias, "", "", "", "",
               scale, zero, scale, zero], ["y"], domain="com.microsoft", hidden_size=hidden)
        m.save(path, (np.float32, [steps, 1, inputs]), (np.float32, [steps, 1, 1, hidden]))
        return m.input(np.float32, (steps, 1, inputs))
    return make


def network(name):
    """Of tests/onnx/quantize.py, quantized by ONNX Runtime."""
    def make(path, bits):
        sys.path.insert(0, os.path.join(ROOT, "tests", "onnx"))
        import quantize
        source = path + ".f32.onnx"
        draw, random = quantize.MODELS[name](source), np.random.default_rng(7)
        quantize.theirs(source, path, [draw(random) for _ in range(8)], bits == 7)
        return draw(random)
    return make


CASES = {f"product {m} x 1024 x 1024": product(m, 1024, 1024) for m in (1, 64, 512)}
CASES |= {
    "product 64 x 768 x 3072": product(64, 768, 3072),
    "conv 7x7/2, 3 to 64, 224": conv(224, 3, 64, 7, 2),
    "conv 3x3, 64 to 64, 56": conv(56, 64, 64, 3),
    "conv 1x1, 256 to 64, 56": conv(56, 256, 64, 1),
    "conv 3x3, 256 to 256, 14": conv(14, 256, 256, 3),
    "conv 1x1, 1024 to 256, 14": conv(14, 1024, 256, 1),
    "conv 1x1, 24 to 144, 56": conv(56, 24, 144, 1),
    "conv 1x1, 384 to 64, 14": conv(14, 384, 64, 1),
    "depthwise 3x3, 144, 56": conv(56, 144, 144, 3, groups=144),
    "depthwise 3x3, dilation 2, 384, 14": conv(14, 384, 384, 3, groups=384, dilation=2),
    "ConvInteger 3x3, 64 to 64, 56": dynamic_conv(56, 64, 64, 3),
    "ConvInteger 1x1, 256 to 64, 28": dynamic_conv(28, 256, 64, 1),
    "DynamicQuantizeLSTM 50 x 128, 128": lstm(50, 128, 128),
    "DynamicQuantizeLSTM 50 x 256, 256": lstm(50, 256, 256),
    "DynamicQuantizeLSTM 50 x 512, 512": lstm(50, 512, 512),
    "network cnn": network("cnn"),
    "network perceptron": network("perceptron"),
}


# ---- Measuring ----------------------------------------------------------------------------------


def wrong(results, reference):
    """The share of results that differ by more than one step of rounding."""
    a, b = results.astype(np.float64), reference.astype(np.float64)
    least = 1 if results.dtype == np.uint8 else 1e-5 * max(np.abs(b).max(), 1e-30)
    return float(np.mean(np.abs(a - b) > least))


def measure(name, bits, options):
    record = {"case": name, "bits": bits, "threads": options.threads, "ms": {}, "ratio": {},
              "wrong": {}, "left_out": {}}
    workers, results, rounds = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path, inputs = os.path.join(folder, "model.onnx"), os.path.join(folder, "x.npz")
        np.savez(inputs, x=CASES[name](path, bits))
        for engine in ENGINES:
            worker = Worker(engine, options)
            for command in (f"load {path}", f"bind {inputs}", f"save {folder}/y.npy"):
                answer = {} if worker.reason else worker.ask(command)
                if worker.reason or "error" in answer:
                    record["left_out"][engine] = (worker.reason or answer["error"]).splitlines()[0][:120]
                    break
            else:
                workers[engine], rounds[engine] = worker, []
                results[engine] = np.load(f"{folder}/y.npy")
        for _ in range(options.rounds):
            for engine, worker in workers.items():
                answer = worker.ask(f"run {options.seconds}")
                rounds[engine].append(answer["cpu"] if options.threads == 1 else min(answer["times"]))
        for worker in workers.values():
            worker.close()
    for engine, times in rounds.items():
        record["ms"][engine] = 1e3 * statistics.median(times)
        if "ort exact" in results:
            record["wrong"][engine] = wrong(results[engine], results["ort exact"])
    for engine in ("ort", "ort exact", "openvino"):
        for own in ("here", "here saturating"):
            if engine in rounds and own in rounds:
                ratios = [b / a for a, b in zip(rounds[own], rounds[engine])]
                record["ratio"][f"{engine} / {own}"] = statistics.median(ratios)
    return record


def show(record):
    times = "  ".join(f"{engine} {value:.4g}" for engine, value in record["ms"].items())
    ratios = "  ".join(f"{key} {value:.2f}" for key, value in record["ratio"].items())
    errors = "  ".join(f"{key} {value:.2g}" for key, value in record["wrong"].items() if value)
    print(f"{record['case']}, {record['bits']} bits\n  ms: {times}\n  {ratios}\n  wrong: {errors}"
          f"\n  {record['left_out'] or ''}", flush=True)


def table(path):
    """Lines of Markdown, for each number of threads."""
    with open(path, encoding="utf-8") as file:
        records = [record for record in map(json.loads, file) if "case" in record]
    lines = []
    for threads in sorted({record["threads"] for record in records}):
        lines += ["", f"Threads: {threads}", "",
                  "| case | bits | exact, ms | ONNX Runtime exact | OpenVINO | saturating, ms |"
                  " ONNX Runtime | OpenVINO |", "|---|---|---|---|---|---|---|---|"]
        for r in records:
            if r["threads"] != threads:
                continue
            cells = []
            for own, peers in (("here", ("ort exact", "openvino")),
                               ("here saturating", ("ort", "openvino"))):
                cells.append(f"{r['ms'][own]:.3g}" if own in r["ms"] else "–")
                for peer in peers:
                    ratio = r["ratio"].get(f"{peer} / {own}")
                    text = f"{ratio:.2f}×" if ratio else "–"
                    cells.append(f"**{text}**" if ratio and ratio < 0.995 else text)
            lines.append(f"| {r['case']} | {r['bits']} | " + " | ".join(cells) + " |")
    return lines[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each engine in each round")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", metavar="FILE", help="records are appended")
    options = parser.parse_args()
    options.isa, options.device = "", "cpu"
    for name in CASES:
        for bits in (8, 7):
            if options.only not in name:
                continue
            record = measure(name, bits, options)
            show(record)
            if options.json:
                with open(options.json, "a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:5])
    elif sys.argv[1:2] == ["--table"]:
        print("\n".join(table(sys.argv[2])))
    else:
        main()
