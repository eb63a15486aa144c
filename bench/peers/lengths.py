# SPDX-License-Identifier: MIT
"""Runs of a model with a new length each time: processor time and memory beside ONNX Runtime.

    lengths.py [--library LIBCOMPUTE.so] [--models bert,lstm] [--runs 100] [--json FILE]

A network like BERT and a bidirectional LSTM get inputs of random lengths, from 1 to 256 tokens.
Each engine runs in a separate process; they take turns, ten runs at a time. "load" and "runs" are
processor times in seconds, in which other jobs matter less. "memory" is what loading and running
add to the process at its peak. Needs numpy, onnx and onnxruntime.
"""

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

import engines

MOST, SEED, TURN = 256, 20261130, 10


# ---- Models -------------------------------------------------------------------------------------


class Builder:
    def __init__(self):
        import onnx
        self.onnx, self.helper = onnx, onnx.helper
        self.nodes, self.weights, self.count = [], [], 0
        self.rng = np.random.default_rng(1)

    def weight(self, *shape, scale=None):
        return self.constant(self.rng.standard_normal(shape) * (scale or shape[0] ** -0.5), "f4")

    def constant(self, values, dtype):
        self.count += 1
        name = f"w{self.count}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def add(self, kind, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"t{self.count}.{i}" for i in range(outputs)]
        self.nodes.append(self.helper.make_node(kind, inputs, names, **attributes))
        return names[0]

    def save(self, path, port, result, shape):
        h, t = self.helper, self.onnx.TensorProto
        self.nodes.append(h.make_node("Identity", [result], ["y"]))
        dtype = t.INT64 if port == "ids" else t.FLOAT
        graph = h.make_graph(self.nodes, "g", [h.make_tensor_value_info(port, dtype, shape)],
                             [h.make_tensor_value_info("y", t.FLOAT, None)], self.weights)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        self.onnx.save(model, path)


def bert(path, layers=6, width=384, heads=12, vocabulary=2000):
    b = Builder()
    split = b.constant([0, 0, heads, width // heads], "i8")
    merge = b.constant([0, 0, width], "i8")
    scale = b.constant((width // heads) ** -0.5, "f4")
    half, one, root = b.constant(0.5, "f4"), b.constant(1, "f4"), b.constant(2**0.5, "f4")

    def dense(x, a, c):
        return b.add("Add", b.add("MatMul", x, b.weight(a, c)), b.weight(c, scale=0.1))

    def norm(x):
        return b.add("LayerNormalization", x, b.constant(np.ones(width), "f4"),
                     b.weight(width, scale=0.1), axis=-1)

    def head(x, axes):
        return b.add("Transpose", b.add("Reshape", dense(x, width, width), split), perm=axes)

    length = b.add("Gather", b.add("Shape", "ids"), b.constant([1], "i8"))
    places = b.add("Slice", b.weight(MOST, width, scale=1), b.constant([0], "i8"), length)
    x = norm(b.add("Add", b.add("Gather", b.weight(vocabulary, width, scale=1), "ids"), places))
    for _ in range(layers):
        q, k, v = head(x, [0, 2, 1, 3]), head(x, [0, 2, 3, 1]), head(x, [0, 2, 1, 3])
        scores = b.add("Softmax", b.add("Mul", b.add("MatMul", q, k), scale), axis=-1)
        mixed = b.add("Transpose", b.add("MatMul", scores, v), perm=[0, 2, 1, 3])
        x = norm(b.add("Add", x, dense(b.add("Reshape", mixed, merge), width, width)))
        h = dense(x, width, 4 * width)
        h = b.add("Mul", b.add("Mul", h, half),
                  b.add("Add", b.add("Erf", b.add("Div", h, root)), one))
        x = norm(b.add("Add", x, dense(h, 4 * width, width)))
    b.save(path, "ids", x, [1, "length"])
    return lambda n, rng: {"ids": rng.integers(0, vocabulary, (1, n))}


def lstm(path, features=64, hidden=256):
    b = Builder()
    y = b.add("LSTM", "x", b.weight(2, 4 * hidden, features, scale=0.05),
              b.weight(2, 4 * hidden, hidden, scale=0.05), b.weight(2, 8 * hidden, scale=0.1),
              hidden_size=hidden, direction="bidirectional")
    y = b.add("Reshape", b.add("Transpose", y, perm=[0, 2, 1, 3]), b.constant([0, 0, -1], "i8"))
    y = b.add("Add", b.add("MatMul", y, b.weight(2 * hidden, 32)), b.weight(32, scale=0.1))
    b.save(path, "x", b.add("Softmax", y, axis=-1), ["length", 1, features])
    return lambda n, rng: {"x": rng.standard_normal((n, 1, features)).astype("f4")}


MODELS = {"bert": bert, "lstm": lstm}


# ---- Workers ------------------------------------------------------------------------------------


def seconds_used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def forget_peak():
    """From here on, VmHWM is the peak since this call. Returns the memory that is used now."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return engines.memory("VmRSS") / 1e6


class Ours(engines.Libcompute):
    def call(self, inputs):
        self.bind(inputs)
        self.run()
        (result,) = self.results()
        for binding in (*self.inputs, *self.outputs):
            self.c.compute_tensor_release(engines.ctypes.c_void_p(binding.tensor))
        self.inputs = self.outputs = ()
        return result


class Theirs(engines.OnnxRuntime):
    def call(self, inputs):
        return self.session.run(None, inputs)[0]


def work(options):
    """Answers each line on stdin, "turn FIRST END", with a line of JSON."""
    with tempfile.TemporaryDirectory() as folder:
        inputs_of = MODELS[options.worker[1]](os.path.join(folder, "model.onnx"))
        gc.collect()
        rng = np.random.default_rng(SEED)
        lengths = [int(n) for n in rng.integers(1, MOST + 1, options.runs)]
        inputs = [inputs_of(n, rng) for n in lengths]
        engine = (Ours if options.worker[0] == "libcompute" else Theirs)(options)
        before, start = forget_peak(), seconds_used()
        engine.load(os.path.join(folder, "model.onnx"))
        load = seconds_used() - start
        print(json.dumps({"load": load, "version": engine.version}), flush=True)
        for line in sys.stdin:
            first, end = map(int, line.split())
            start, clock = seconds_used(), time.perf_counter()
            results = [engine.call(inputs[i]) for i in range(first, end)]
            answer = {"runs": seconds_used() - start, "elapsed": time.perf_counter() - clock,
                      "memory": engines.memory("VmHWM") / 1e6 - before, "lengths": lengths[first:end],
                      "sums": [float(np.abs(r.astype("f8")).sum()) for r in results]}
            print(json.dumps(answer), flush=True)


def measure(name, options):
    names = ("libcompute", "onnxruntime")
    workers = {n: subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), "--worker", n, name, "--runs",
         str(options.runs), "--library", options.library, "--threads", str(options.threads)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "COMPUTE_NUM_THREADS": str(options.threads)}) for n in names}
    record = {"model": name, "runs": options.runs, "most": MOST}
    sums = {n: [] for n in names}
    for n, worker in workers.items():
        record[n] = {**json.loads(worker.stdout.readline()), "runs": 0.0, "elapsed": 0.0}
    for first in range(0, options.runs, TURN):
        for n, worker in workers.items():
            worker.stdin.write(f"{first} {min(first + TURN, options.runs)}\n")
            worker.stdin.flush()
            answer = json.loads(worker.stdout.readline())
            record[n]["runs"] += answer["runs"]
            record[n]["elapsed"] += answer["elapsed"]
            record[n]["memory"] = answer["memory"]
            sums[n] += answer["sums"]
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    ours, theirs = (np.array(sums[n]) for n in names)
    record["difference"] = float(np.abs(ours / theirs - 1).max())
    total = [record[n]["load"] + record[n]["runs"] for n in names]
    record["ratio"] = round(total[1] / total[0], 2)
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(engines.ROOT, "build/lib/libcompute.so"))
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--machine", default="")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    commit = subprocess.run(["git", "-C", engines.ROOT, "rev-parse", "--short=8", "HEAD"],
                            capture_output=True, text=True, check=False).stdout.strip()
    lines = [{"machine": options.machine, "commit": commit,
              "command": f"lengths.py --runs {options.runs} --threads {options.threads}",
              "date": time.strftime("%Y-%m-%d"), "load": [round(n, 1) for n in os.getloadavg()],
              "unit": "processor time in seconds, memory in MB", "seed": SEED}]
    for name in options.models:
        record = measure(name, options)
        lines.append(record)
        for n in ("libcompute", "onnxruntime"):
            r = record[n]
            print(f"{name} {n:12} load {r['load']:.2f} s, {record['runs']} runs {r['runs']:.2f} s "
                  f"(elapsed {r['elapsed']:.2f}), memory {r['memory']:.0f} MB", flush=True)
        print(f"{name} ONNX Runtime / libcompute {record['ratio']}, apart "
              f"{record['difference']:.1e}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
