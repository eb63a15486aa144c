# SPDX-License-Identifier: MIT
"""Engines that run a model, each in a separate process, for compare.py and models.py.

A worker reads commands on stdin and answers each with a line of JSON on stdout: "load PATH" (an ONNX file, whose name
also names its counterpart in counterparts.py), "bind PATH" (inputs, .npz), "run SECONDS" (at least once), "save
PATH" (the last result, .npy), "save_all PATH" (all results, .npz), "memory" (the peak since the start or the last
"forget"), and for libcompute "explain" (its plans) and "costs" (measures those of the device). A failure is
the answer's "error".
"""
import ctypes
import glob
import importlib.metadata
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

DTYPES = {"float64": 1, "float32": 2, "float16": 3, "bfloat16": 4, "int64": 5, "int32": 6, "uint8": 7, "bool": 8,
          "uint16": 9, "int8": 10, "int16": 11, "uint32": 12, "uint64": 13}
MAX_RANK = 8
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int32), ("size", ctypes.c_int64 * MAX_RANK)]


class Binding(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p)]


class Port(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("size", ctypes.c_int64 * MAX_RANK), ("symbol", ctypes.c_char_p * MAX_RANK),
                ("optional", ctypes.c_bool), ("reserved", ctypes.c_uint64 * 4)]


class Description(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 32), ("backend", ctypes.c_char * 32), ("model", ctypes.c_char * 128),
                ("vendor", ctypes.c_char * 64), ("driver", ctypes.c_char * 128), ("isa", ctypes.c_char * 32),
                ("rest", ctypes.c_uint64 * 128)]


def numpy_dtype(name):
    if name != "bfloat16":
        return name
    import ml_dtypes
    return ml_dtypes.bfloat16


class Engine:
    def result(self):
        return self.results()[-1]


class Libcompute(Engine):
    """The library through ctypes. Outputs of the first run are reused, as in programs that run more than once."""

    def __init__(self, options):
        self.c = ctypes.CDLL(options.library)
        self.c.compute_error_message.restype = ctypes.c_char_p
        self.c.compute_version_text.restype = ctypes.c_char_p
        self.c.compute_default_device.restype = ctypes.c_void_p
        self.c.compute_default_device.argtypes = [ctypes.c_void_p]
        self.c.compute_model_output_count.restype = ctypes.c_size_t
        self.c.compute_tensor_shape.restype = Shape
        self.context, self.model = ctypes.c_void_p(), ctypes.c_void_p()
        self.inputs = self.outputs = ()
        self.check(self.c.compute_open(ctypes.byref(self.context), None))
        self.device = ctypes.c_void_p(self.c.compute_default_device(self.context))
        description = Description()
        self.check(self.c.compute_device_describe(self.device, ctypes.byref(description)))
        self.version = self.c.compute_version_text().decode()
        self.isa = description.isa.decode()

    def check(self, status):
        if status:
            raise RuntimeError(self.c.compute_error_message(self.context).decode())

    def load(self, path):
        for binding in (*self.inputs, *self.outputs):
            self.c.compute_tensor_release(ctypes.c_void_p(binding.tensor))
        self.inputs = self.outputs = ()
        self.c.compute_model_release(self.model)
        self.model = ctypes.c_void_p()
        self.check(self.c.compute_model_load(self.context, path.encode(), None, ctypes.byref(self.model)))
        self.ports = []
        for i in range(self.c.compute_model_output_count(self.model)):
            port = Port()
            self.check(self.c.compute_model_output_at(self.model, ctypes.c_size_t(i), ctypes.byref(port)))
            self.ports.append(port)

    def bind(self, inputs):
        self.inputs = (Binding * len(inputs))()
        for place, (name, array) in zip(self.inputs, inputs.items()):
            tensor, shape = ctypes.c_void_p(), Shape(array.ndim, (ctypes.c_int64 * MAX_RANK)(*array.shape))
            self.check(self.c.compute_tensor_from_host(self.device, DTYPES[str(array.dtype)], shape,
                                                       array.ctypes.data_as(ctypes.c_void_p), ctypes.byref(tensor)))
            place.name, place.tensor = name.encode(), tensor
        self.outputs = (Binding * len(self.ports))(*((port.name, None) for port in self.ports))

    def run(self):
        self.check(self.c.compute_model_run(self.model, self.inputs, ctypes.c_size_t(len(self.inputs)), self.outputs,
                                            ctypes.c_size_t(len(self.outputs))))

    def results(self):
        import numpy as np
        arrays = []
        for binding, port in zip(self.outputs, self.ports):
            tensor = ctypes.c_void_p(binding.tensor)
            shape = self.c.compute_tensor_shape(tensor)
            dtype = next(name for name, number in DTYPES.items() if number == port.dtype)
            array = np.empty(shape.size[:shape.rank], numpy_dtype(dtype))
            self.check(self.c.compute_tensor_read(tensor, array.ctypes.data_as(ctypes.c_void_p),
                                                  ctypes.c_size_t(array.nbytes)))
            arrays.append(array)
        return arrays

    def explain(self):
        """The plans in words, with the predicted time of each step."""
        text = ctypes.c_char_p()
        self.check(self.c.compute_model_explain(self.model, ctypes.byref(text)))
        words = text.value.decode()
        self.c.compute_text_free(text)
        return words

    def measure_costs(self):
        """Predictions come from measured costs, not from estimates, after this."""
        self.check(self.c.compute_route_measure(self.device, ctypes.c_double(0), None))


class OnnxRuntime(Engine):
    def __init__(self, options):
        import onnxruntime
        self.module, self.threads, self.version = onnxruntime, options.threads, onnxruntime.__version__

    def load(self, path):
        settings = self.module.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = self.threads, 1
        self.session = None
        self.session = self.module.InferenceSession(path, settings, providers=["CPUExecutionProvider"])

    def bind(self, inputs):
        """Results go to the same arrays in every run."""
        self.binding = self.session.io_binding()
        self.inputs = {name: self.module.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
        for name, value in self.inputs.items():
            self.binding.bind_ortvalue_input(name, value)
        names = [port.name for port in self.session.get_outputs()]
        self.values = self.session.run_with_ort_values(names, self.inputs)
        for name, value in zip(names, self.values):
            self.binding.bind_ortvalue_output(name, value)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def results(self):
        return [value.numpy() for value in self.values]


class OpenVino(Engine):
    def __init__(self, options):
        import openvino
        self.module, self.threads, self.version = openvino, options.threads, openvino.__version__.split("-")[0]
        self.core = openvino.Core()

    def load(self, path):
        """Its own form of bf16 is the model in f32 and a hint."""
        import bf16
        self.request = self.compiled = None
        precision = "bf16" if bf16.is_bf16(path) else "f32"
        self.compiled = self.core.compile_model(bf16.single(path) if bf16.is_bf16(path) else path, "CPU", {
            "INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": precision})
        self.request = self.compiled.create_infer_request()

    def bind(self, inputs):
        self.inputs = inputs  # the tensors share their memory
        for name, array in inputs.items():
            self.request.set_tensor(name, self.module.Tensor(array, shared_memory=True))

    def run(self):
        self.request.infer()

    def results(self):
        import numpy as np
        return [np.array(self.request.get_output_tensor(i).data) for i in range(len(self.compiled.outputs))]


class Torch:
    """Eager, with channels last, in oneDNN's layouts, or compiled; on a GPU also compiled into CUDA graphs, with images'
    channels last, after the compiler has timed its kernels (torch_max) or not (torch_graphs)."""

    def __init__(self, options):
        import torch
        import torch_counterparts
        self.torch, self.counterparts, self.form = torch, torch_counterparts, options.engine
        torch.set_num_threads(options.threads)
        torch.set_grad_enabled(False)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
        self.device = "cpu" if options.device == "cpu" else "cuda"
        if self.device == "cuda" and self.form == "onednn":
            raise ValueError("not for GPUs")
        self.version = torch.__version__
        if self.form == "onednn":
            self.version = re.search(r"(?:oneDNN|MKL-DNN) v([0-9.]+)", torch.__config__.show())[1]
        if self.device == "cpu" and self.form in COMPILED:
            raise ValueError("only for GPUs")
        if self.form == "torch_compile" and self.device == "cpu":
            require_compiler()

    def load(self, path):
        import bf16
        import counterparts
        kinds = {"torch_cl": self.counterparts.ChannelsLast, "onednn": self.counterparts.OneDnn}
        kind = kinds.get(self.form, self.counterparts.Torch)
        self.model, self.last = None, self.form == "torch_cl"
        name = os.path.splitext(os.path.basename(path))[0]
        if self.form in COMPILED:
            try:
                counterpart, self.last = counterparts.make(name, self.counterparts.ChannelsLast), True
            except counterparts.Unsupported:  # nothing here has channels
                counterpart = counterparts.make(name, kind)
        else:
            counterpart = counterparts.make(name, kind)
        self.model = self.counterparts.Module(counterpart).eval().to(self.device)
        self.bf16 = bf16.is_bf16(path)
        if self.bf16:
            self.model = self.model.to(self.torch.bfloat16)
        if self.form == "torch_compile":
            import torch._inductor.config
            self.torch._dynamo.reset()
            self.torch._inductor.config.freezing = True
            self.model = self.torch.compile(self.model)
        if self.form in COMPILED:
            self.torch._dynamo.reset()
            self.model = self.torch.compile(self.model, mode=COMPILED[self.form], dynamic=False)

    def bind(self, inputs):
        self.inputs = [self.counterparts.tensor(array).to(self.device) for array in inputs.values()]
        if self.form == "onednn":
            self.inputs = [x.to_mkldnn() for x in self.inputs]
        if self.last:
            self.inputs = [x.contiguous(memory_format=self.torch.channels_last) if x.ndim == 4 else x
                           for x in self.inputs]

    def run(self):
        inputs = self.inputs
        if self.bf16:
            inputs = [x.to(self.torch.bfloat16) if x.is_floating_point() else x for x in inputs]
        if self.form in COMPILED:
            self.torch.compiler.cudagraph_mark_step_begin()
        self.results = self.model(*inputs)
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def result(self):
        last = self.results[-1]
        last = last.to_dense() if last.is_mkldnn else last.cpu()
        return (last.float() if last.dtype == self.torch.bfloat16 else last).numpy()


# Modes of torch.compile: both replay CUDA graphs.
COMPILED = {"torch_graphs": "reduce-overhead", "torch_max": "max-autotune"}


def require_compiler():
    import torch._inductor.cpp_builder
    torch._inductor.cpp_builder.get_cpp_compiler()


class Blas:
    """Products through OpenBLAS or MKL from PyPI."""

    def __init__(self, options):
        if options.engine == "openblas":
            import scipy_openblas32
            library = os.path.join(scipy_openblas32.get_lib_dir(), scipy_openblas32.get_library(fullname=True))
            prefix, package = "scipy_cblas_", "scipy-openblas32"
        else:
            found = [*glob.glob(os.path.join(sys.prefix, "lib", "libmkl_rt.so*")), "libmkl_rt.so.2"]
            library, prefix, package = found[0], "cblas_", "mkl"
        self.version = ".".join(importlib.metadata.version(package).split(".")[:3])
        self.library, self.prefix = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL), prefix

    def load(self, path):
        import counterparts
        name = os.path.splitext(os.path.basename(path))[0]
        self.counterpart = counterparts.make(name, counterparts.blas(self.library, self.prefix))

    def bind(self, inputs):
        self.inputs = list(inputs.values())
        if any(str(x.dtype) not in ("float32", "float64") for x in self.inputs):
            raise TypeError("neither f32 nor f64")

    def run(self):
        self.results = self.counterpart.run(self.counterpart.values, self.inputs)

    def result(self):
        return self.results[-1]


ENGINES = {"libcompute": Libcompute, "onnxruntime": OnnxRuntime, "openvino": OpenVino, "torch": Torch,
           "torch_cl": Torch, "torch_compile": Torch, "torch_graphs": Torch,
           "torch_max": Torch, "onednn": Torch, "openblas": Blas, "mkl": Blas}


# ---- The worker's side ------------------------------------------------------------------------


def memory(field):
    """Bytes, from /proc/self/status."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def read_inputs(path):
    import numpy as np
    with np.load(path) as file:
        arrays = {name: np.asarray(file[name], order="C") for name in file.files}
    # NumPy writes bf16 as two bytes without a meaning.
    return {name: a.view(numpy_dtype("bfloat16")) if a.dtype.kind == "V" else a for name, a in arrays.items()}


def readable(array):
    """NumPy's files have no bf16."""
    import numpy as np
    return array.astype(np.float32) if str(array.dtype) == "bfloat16" else array


def settled(times):
    """Without the first, which fetches its data again: that only counts where a run takes all the time."""
    return times[1:] or times


def timed(run, seconds):
    """Times of single runs."""
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return times


class Models:
    """Obeys the commands about models."""

    def __init__(self, options):
        self.engine = ENGINES[options.engine](options)
        self.version, self.isa = self.engine.version, getattr(self.engine, "isa", "")
        self.before = memory("VmRSS")

    def obey(self, command, argument):
        return getattr(self, command)(argument)

    def load(self, path):
        started = time.perf_counter()
        self.engine.load(path)
        return {"load": time.perf_counter() - started}

    def bind(self, path):
        inputs = read_inputs(path)
        started = time.perf_counter()
        self.engine.bind(inputs)
        self.engine.run()
        return {"first": time.perf_counter() - started}

    def run(self, seconds):
        """"cpu" is the processor time of one run, of all threads."""
        started = time.process_time()
        times = timed(self.engine.run, float(seconds))
        return {"times": settled(times), "cpu": (time.process_time() - started) / len(times)}

    def save(self, path):
        import numpy as np
        np.save(path, readable(np.asarray(self.engine.result())))
        return {}

    def save_all(self, path):
        import numpy as np
        np.savez(path, *[readable(np.asarray(array)) for array in self.engine.results()])
        return {}

    def explain(self, _):
        return {"text": self.engine.explain()}

    def costs(self, _):
        self.engine.measure_costs()
        return {}

    def forget(self, _):
        """Linux resets the peak, so that one process can measure several models."""
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        self.before = memory("VmRSS")
        return {}

    def memory(self, _):
        return {"peak": memory("VmHWM") - self.before}


def serve(make):
    """Obeys commands on stdin, as what make() returns does."""
    # The libraries' output must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values):
        print(json.dumps(values), file=answers, flush=True)

    def attempt(function):
        """Whatever goes wrong in a peer is the reason why it is left out."""
        try:
            return function()
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")
            return None

    servant = attempt(make)
    if not servant:
        return
    answer(version=servant.version, isa=getattr(servant, "isa", ""))
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        result = attempt(lambda: servant.obey(command, argument))
        if result is not None:
            answer(**result)


# ---- The side that measures -------------------------------------------------------------------


def surroundings(options, engine):
    """The environment of an engine's process: its device, a number of threads for each runtime, threads that sleep soon
    after their work, and memory that is kept, so that results of the size of megabytes are not fetched from the system in
    every run."""
    environment = {**os.environ, "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "KMP_BLOCKTIME": "10"}
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "COMPUTE_CPU_ISA"):
        environment.pop(name, None)
    for name in ("COMPUTE", "OMP", "MKL", "OPENBLAS"):
        environment[f"{name}_{'THREADS' if name == 'COMPUTE' else 'NUM_THREADS'}"] = str(options.threads)
    if engine == "libcompute" and options.isa:
        environment["COMPUTE_CPU_ISA"] = options.isa
    if engine == "libcompute":
        environment["COMPUTE_DEVICE"] = options.device
    return environment


class Worker:
    """A process that obeys; `reason` says why there is none (any more)."""

    def __init__(self, engine, options, command=None):
        command = command or [sys.executable, os.path.abspath(__file__), engine, options.library, str(options.threads),
                              options.device]
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, env=surroundings(options, engine))
        self.ready = self.read()
        self.reason = self.ready.get("error")

    def read(self, limit=None):
        """An answer within `limit` seconds: the process ends otherwise."""
        if limit and not select.select([self.process.stdout], [], [], limit)[0]:
            self.process.kill()
            self.process.wait()
            self.reason = f"no answer for {limit:g} s"
            return {"error": self.reason}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": self.last_words()}

    def last_words(self):
        status = self.process.wait()
        self.log.seek(0)
        lines = self.log.read().strip().splitlines() or [""]
        ended = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        self.reason = f"{ended}: {lines[-1]}" if lines[-1] else ended
        return self.reason

    def ask(self, command, limit=None):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": self.last_words()}
        return self.read(limit)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


def main():
    class Options:
        engine, library, threads, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

    serve(lambda: Models(Options))


if __name__ == "__main__":
    main()
