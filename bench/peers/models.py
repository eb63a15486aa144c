# SPDX-License-Identifier: MIT
"""Whole networks, compared with ONNX Runtime and OpenVINO in one run: speed, loading time, memory, and results.

    models.py [--library LIBCOMPUTE.so] [--batch 1,8] [--threads N] [--rounds R] [--json FILE] MODEL.onnx...

Each engine runs in a separate process, with the same inputs and number of threads, and the engines take turns, so
that a slow phase of the machine affects all of them. Needs numpy, onnx, and whichever of onnxruntime and openvino is
compared, from PyPI. "memory" is what loading and running add to the process at its peak. A ratio is the peer's
time divided by libcompute's: above 1, libcompute is faster.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

ENGINES = ("libcompute", "onnxruntime", "openvino")
PAUSE = 0.05  # seconds, so that threads of the engine that ran last have stopped spinning
DTYPES = {"float64": 1, "float32": 2, "float16": 3, "int64": 5, "int32": 6, "uint8": 7, "bool": 8}
MAX_RANK = 8


def memory(field):
    """Bytes, from /proc/self/status."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int32), ("size", ctypes.c_int64 * MAX_RANK)]


class Binding(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p)]


class Port(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("size", ctypes.c_int64 * MAX_RANK), ("symbol", ctypes.c_char_p * MAX_RANK),
                ("optional", ctypes.c_bool), ("reserved", ctypes.c_uint64 * 4)]


class Libcompute:
    """The library through ctypes."""

    def __init__(self, options):
        self.c = ctypes.CDLL(options.library)
        self.c.compute_error_message.restype = ctypes.c_char_p
        self.c.compute_default_device.restype = ctypes.c_void_p
        self.c.compute_default_device.argtypes = [ctypes.c_void_p]
        self.c.compute_model_output_count.restype = ctypes.c_size_t
        self.c.compute_tensor_shape.restype = Shape
        self.context, self.model = ctypes.c_void_p(), ctypes.c_void_p()
        os.environ["COMPUTE_THREADS"] = str(options.threads)
        self.check(self.c.compute_open(ctypes.byref(self.context), None))
        self.device = ctypes.c_void_p(self.c.compute_default_device(self.context))

    def check(self, status):
        if status:
            sys.exit(f"libcompute: {self.c.compute_error_message(self.context).decode()}")

    def load(self, path):
        self.check(self.c.compute_model_load(self.context, path.encode(), None, ctypes.byref(self.model)))
        self.names = []
        for i in range(self.c.compute_model_output_count(self.model)):
            port = Port()
            self.check(self.c.compute_model_output_at(self.model, ctypes.c_size_t(i), ctypes.byref(port)))
            self.names.append(port.name)

    def bind(self, inputs):
        self.inputs = (Binding * len(inputs))()
        for place, (name, array) in zip(self.inputs, inputs.items()):
            tensor, shape = ctypes.c_void_p(), Shape(array.ndim, (ctypes.c_int64 * MAX_RANK)(*array.shape))
            self.check(self.c.compute_tensor_from_host(self.device, DTYPES[str(array.dtype)], shape,
                                                       array.ctypes.data_as(ctypes.c_void_p), ctypes.byref(tensor)))
            place.name, place.tensor = name.encode(), tensor
        self.outputs = (Binding * len(self.names))(*((name, None) for name in self.names))

    def run(self):
        # Outputs of the first run are reused, as in programs that run more than once.
        self.check(self.c.compute_model_run(self.model, self.inputs, ctypes.c_size_t(len(self.inputs)), self.outputs,
                                            ctypes.c_size_t(len(self.outputs))))

    def first_output(self):
        tensor = ctypes.c_void_p(self.outputs[0].tensor)
        shape = self.c.compute_tensor_shape(tensor)
        array = np.empty(shape.size[:shape.rank], np.float32)
        self.check(self.c.compute_tensor_read(tensor, array.ctypes.data_as(ctypes.c_void_p),
                                              ctypes.c_size_t(array.nbytes)))
        return array

    def version(self):
        self.c.compute_version_text.restype = ctypes.c_char_p
        return self.c.compute_version_text().decode()


class OnnxRuntime:
    def __init__(self, options):
        import onnxruntime
        self.module, self.threads = onnxruntime, options.threads

    def load(self, path):
        settings = self.module.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = self.threads, 1
        self.session = self.module.InferenceSession(path, settings, providers=["CPUExecutionProvider"])

    def bind(self, inputs):
        self.inputs = inputs

    def run(self):
        self.results = self.session.run(None, self.inputs)

    def first_output(self):
        return self.results[0]

    def version(self):
        return self.module.__version__


class OpenVino:
    def __init__(self, options):
        import openvino
        self.module, self.threads = openvino, options.threads
        self.core = openvino.Core()

    def load(self, path):
        self.compiled = self.core.compile_model(path, "CPU", {
            "INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32"})
        self.request = self.compiled.create_infer_request()

    def bind(self, inputs):
        self.inputs = inputs  # the tensors share their memory
        for name, array in inputs.items():
            self.request.set_tensor(name, self.module.Tensor(array, shared_memory=True))

    def run(self):
        self.request.infer()

    def first_output(self):
        return np.array(self.request.get_output_tensor(0).data)

    def version(self):
        return self.module.__version__.split("-")[0]


def work(options):
    """An engine's process: commands on stdin, a line of JSON for each on stdout."""
    # The libraries' output must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values):
        print(json.dumps(values), file=answers, flush=True)

    engine = {"libcompute": Libcompute, "onnxruntime": OnnxRuntime, "openvino": OpenVino}[options.engine](options)
    before = memory("VmRSS")
    started = time.perf_counter()
    engine.load(options.models[0])
    answer(load=time.perf_counter() - started, version=engine.version())
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "bind":
            with np.load(argument) as file:
                engine.bind({name: np.ascontiguousarray(file[name]) for name in file.files})
            started = time.perf_counter()
            engine.run()
            answer(first=time.perf_counter() - started)
        elif command == "save":
            np.save(argument, engine.first_output())
            answer()
        elif command == "memory":
            answer(peak=memory("VmHWM") - before)
        else:
            times = []
            for _ in range(int(argument)):
                started = time.perf_counter()
                engine.run()
                times.append(time.perf_counter() - started)
            answer(times=times)


class Worker:
    def __init__(self, engine, model, options):
        command = [sys.executable, os.path.abspath(__file__), "--engine", engine, "--library", options.library,
                   "--threads", str(options.threads), model]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.PIPE if options.quiet else None)
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def size_of(dimension, batch):
    return dimension if isinstance(dimension, int) and dimension > 0 else batch


def random_inputs(model, batch):
    """Floats in [0, 1), integers 0 or 1: batch is the size of every symbolic dimension."""
    import onnx
    graph = onnx.load(model, load_external_data=False).graph
    weights = {w.name for w in graph.initializer}
    random, inputs = np.random.default_rng(3), {}
    for port in graph.input:
        if port.name in weights:
            continue
        kind = port.type.tensor_type
        shape = [size_of(d.dim_value if d.HasField("dim_value") else d.dim_param, batch) for d in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        floats = np.issubdtype(dtype, np.floating)
        inputs[port.name] = (random.random(shape) if floats else random.integers(0, 2, shape)).astype(dtype)
    return inputs


def difference(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30)) if a.shape == b.shape else float("inf")


def compare(model, batch, options, folder):
    """A record of one model at one batch, or None if libcompute cannot run it."""
    name = os.path.splitext(os.path.basename(model))[0]
    path = os.path.join(folder, "inputs.npz")
    np.savez(path, **random_inputs(model, batch))
    workers, record = {}, {"model": name, "batch": batch, "threads": options.threads, "engines": {}}
    for engine in options.engines:
        worker = Worker(engine, model, options)
        first = worker.ask("bind " + path) if worker.ready else None
        if first is None:
            print(f"{name}: {engine} does not run it", file=sys.stderr)
            continue
        workers[engine] = worker
        record["engines"][engine] = {"version": worker.ready["version"], "load_s": worker.ready["load"],
                                     "first_s": first["first"], "times": []}
    for _ in range(options.rounds):
        for engine, worker in workers.items():
            time.sleep(PAUSE)
            times = worker.ask(f"run {options.repeat + 1}")["times"][1:]  # the first one fetches its data again
            record["engines"][engine]["times"] += times
    results = {}
    for engine, worker in workers.items():
        values = record["engines"][engine]
        values["ms"] = 1e3 * statistics.median(values.pop("times"))
        values["peak_mb"] = worker.ask("memory")["peak"] / 1e6
        worker.ask("save " + os.path.join(folder, engine))
        results[engine] = np.load(os.path.join(folder, engine + ".npy"))
        worker.close()
    for engine in results.keys() - {"libcompute"}:
        if "libcompute" in results:
            record["engines"][engine]["difference"] = difference(results["libcompute"], results[engine])
    return record


def show(record):
    print(f"{record['model']} batch {record['batch']}", flush=True)
    ours = record["engines"].get("libcompute")
    for engine, values in record["engines"].items():
        ratio = f"  {values['ms'] / ours['ms']:5.2f} x" if ours and engine != "libcompute" else ""
        apart = f"  apart {values['difference']:.1e}" if "difference" in values else ""
        first = values["load_s"] + values["first_s"]
        print(f"  {engine:12} {values['version']:10} {values['ms']:9.2f} ms  load + first run {first:6.2f} s  "
              f"memory {values['peak_mb']:6.0f} MB{ratio}{apart}", flush=True)


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--library", default=os.path.join(root, "build", "lib", "libcompute.so"))
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--batch", type=lambda text: [int(b) for b in text.split(",")], default=[1, 8])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3, help="runs in each round")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--quiet", action="store_true", help="hides what engines print")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    if options.engine:
        work(options)
        return
    import tempfile
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            for batch in options.batch:
                record = compare(model, batch, options, folder)
                show(record)
                records.append(record)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
