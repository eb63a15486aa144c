# SPDX-License-Identifier: MIT
"""Beside today's peers: single operations, whole networks, in f32 and bf16, and training steps of libcompute and of
packages from PyPI.

    compare.py [--suite operation,network,bf16,train] [--rows 'conv*,resnet50_b1'] [--isa avx2] [--device cuda:0]
               [--json FILE] [--list]

Every engine is a separate process on the same data. They run in rounds, so that a slow phase of the machine
affects all of them, and the median of the rounds counts. Results are compared before anything is timed: single
operations with NumPy in double precision, networks and training steps with each other. A peer that is not installed,
that does not have an operation, or that computes something else is left out, with the reason; a wrong result of
libcompute is a failure. A time never is.

The records of an existing FILE are kept if they are of this machine and commit, so that rows can be measured in several
calls; table.py makes tables of it. bench/run.sh --peers makes an environment for Python that has all engines; needs numpy
and onnx for single operations and networks.
"""
import argparse
import fnmatch
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import engines
import table

PAUSE = 0.1  # seconds, so that threads of the engine that ran last sleep: ONNX Runtime's spin for up to 0.06
SUITES = ("operation", "network", "bf16", "train")
NETWORK_ROWS = [(name, batch) for batch in (1, 8) for name in (
    "resnet50", "mobilenetv2", "efficientnet_b0", "yolov8n", "bert", "gpt2_prefill", "gpt2_decode")]
NETWORK_ROWS += [("mlp", 128), ("cnn", 128)]
BF16_ROWS = [(name, batch) for batch in (1, 8) for name in ("resnet50", "mobilenetv2", "bert")]
TRAIN_ROWS = [("mlp", 128), ("cnn", 128), ("resnet18", 32), ("transformer", 16)]
QUICK = ("sgemm_1024", "linear_8x4096x4096", "exp_1M", "softmax_1000x1000", "layer_norm_4096x768", "chain_1M",
         "conv3x3_8x64x56x56_64", "max_pool3x3s2*", "resnet50_b1", "mobilenetv2_b1", "bert_b1", "train_mlp*")
MODEL_PEERS = ("onnxruntime", "openvino", "torch", "torch_cl", "torch_compile", "onednn")
GPU_PEERS = ("torch", "torch_cl", "torch_compile", *engines.COMPILED)
PEERS = {"operation": (*MODEL_PEERS, *engines.COMPILED, "openblas", "mkl"), "network": (*MODEL_PEERS, *engines.COMPILED),
         "bf16": ("openvino", *GPU_PEERS), "train": GPU_PEERS}
# The largest difference, relative to the largest value, with which results still are the same.
BOUNDS = {"float64": 1e-12, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
TOGETHER, BF16_TOGETHER = 1e-3, 5e-2


ROWS = {"network": NETWORK_ROWS, "bf16": BF16_ROWS, "train": TRAIN_ROWS}
PREFIXES = {"bf16": "bf16_", "train": "train_"}


class Row:
    def __init__(self, suite, name, batch=None):
        self.suite, self.name, self.batch = suite, name, batch
        self.label = name if batch is None else f"{PREFIXES.get(suite, '')}{name}_b{batch}"


def operation_rows():
    import operations
    return [Row("operation", name) for name in operations.OPERATIONS]


def select_rows(options):
    rows = []
    for suite in options.suite:
        if suite == "operation":
            rows += operation_rows()
        else:
            rows += [Row(suite, *row) for row in ROWS[suite]]
    return [row for row in rows if any(fnmatch.fnmatch(row.label, pattern) for pattern in options.rows)]


# ---- Engines in turn --------------------------------------------------------------------------


class Team:
    """The workers of a suite, which start when they are first asked for."""

    def __init__(self, options):
        self.options, self.workers, self.missing = options, {}, {}

    def worker(self, engine):
        """None if there is none. One that has died is replaced; one that did not start is not."""
        if engine in self.missing:
            return None
        worker = self.workers.get(engine)
        if worker is None or worker.reason:
            worker = self.workers[engine] = engines.Worker(engine, self.options)
            if worker.reason:
                self.missing[engine] = worker.reason
                return None
        return worker

    def close(self):
        for worker in self.workers.values():
            worker.close()
        self.workers = {}


def difference(a, b):
    import numpy as np
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30)) if a.shape == b.shape else float("inf")


def rounds(workers, record, options):
    """Times, alternating; an engine that fails is left out."""
    medians = {engine: [] for engine in workers}
    for _ in range(options.rounds):
        for engine, worker in list(workers.items()):
            time.sleep(PAUSE)
            answer = worker.ask(f"run {options.seconds}")
            if "error" in answer:
                record["left_out"][engine] = short(answer["error"])
                del workers[engine], record["engines"][engine], medians[engine]
            else:
                medians[engine].append(1e3 * statistics.median(answer["times"]))
    for engine, values in medians.items():
        record["engines"][engine]["ms"] = float(f"{statistics.median(values):.4g}")
        record["engines"][engine]["rounds"] = [float(f"{value:.4g}") for value in values]


def short(reason):
    """The first sentence: some engines list all that they know, with the paths of their files."""
    return reason.split("\n")[0].split(". ")[0][:200]


def new_record(row):
    return {"suite": row.suite, "row": row.label, "engines": {}, "left_out": {}}


def leave_out(record, workers, engine, reason):
    record["left_out"][engine] = reason
    record["engines"].pop(engine, None)
    workers.pop(engine, None)


# ---- Operations and networks ------------------------------------------------------------------


def model_file(row, folder):
    """Written again when the scripts have changed."""
    import bf16
    import networks
    import operations
    path = os.path.join(folder, row.name + ".onnx")
    sources = (networks.__file__, operations.__file__)
    if not os.path.exists(path) or os.path.getmtime(path) < max(map(os.path.getmtime, sources)):
        os.makedirs(folder, exist_ok=True)
        network = operations.OPERATIONS[row.name].make(row.name) if row.suite == "operation" else \
            networks.NETWORKS[row.name]()
        network.save(folder)
    if row.suite != "bf16":
        return path
    rounded = os.path.join(folder, bf16.FOLDER, row.name + ".onnx")
    if not os.path.exists(rounded) or os.path.getmtime(rounded) < max(map(os.path.getmtime, (path, bf16.__file__))):
        bf16.make(path, rounded)
    return rounded


def start_engine(record, worker, engine, path, folder):
    """Loads, runs once, and returns the result, or None."""
    answers = {}
    for command in (f"load {path}", f"bind {folder}/inputs.npz", f"save {folder}/{engine}.npy"):
        answer = worker.ask(command)
        if "error" in answer:
            record["left_out"][engine] = short(answer["error"])
            return None
        answers.update(answer)
    import numpy as np
    record["engines"][engine] = {"load_s": round(answers["load"], 3), "first_s": round(answers["first"], 3)}
    return np.load(f"{folder}/{engine}.npy")


def check(record, workers, errors, bound, judged):
    """Leaves out engines that are further than `bound` from the truth (judged), or else from libcompute. Then
    libcompute is wrong if no peer agrees with it."""
    for engine, error in errors.items():
        if error <= bound:
            record["engines"][engine]["error"] = error
        else:
            leave_out(record, workers, engine, f"wrong result, off by {error:.1e}")
    if not judged and len(errors) > 1 and list(workers) == ["libcompute"]:
        leave_out(record, workers, "libcompute", "all peers have another result")
    record["right"] = "libcompute" not in errors or "libcompute" in workers


def measure_model(row, options, team, results):
    import models
    import numpy as np
    import counterparts
    record, workers, outputs, truth, bound = new_record(row), {}, {}, None, TOGETHER
    if row.suite == "bf16":
        bound = BF16_TOGETHER
    path = model_file(row, options.models)
    inputs = models.random_inputs(path, row.batch or 1)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(os.path.join(folder, "inputs.npz"), **inputs)
        for engine in options.engines:
            if engine not in ("libcompute", *PEERS[row.suite]):
                continue
            worker = team.worker(engine)
            output = start_engine(record, worker, engine, path, folder) if worker else None
            if output is not None:
                workers[engine], outputs[engine] = worker, output
        if row.suite == "operation":
            arrays = list(inputs.values())
            truth = counterparts.make(row.name, counterparts.Reference).compute(arrays)
            bound = BOUNDS[str(arrays[0].dtype)]
    results.note_versions(workers)
    judge = outputs.get("libcompute") if truth is None else truth
    errors = {engine: difference(output, judge) for engine, output in outputs.items()} if judge is not None else {}
    check(record, workers, errors, bound, truth is not None)
    outputs = truth = judge = None
    rounds(workers, record, options)
    if row.suite in ("network", "bf16"):
        for engine, worker in workers.items():
            record["engines"][engine]["peak_mb"] = round(worker.ask("memory").get("peak", 0) / 1e6)
    return record


# ---- Training ---------------------------------------------------------------------------------


def start_training(row, engine, options, folder):
    if engine == "libcompute":
        command = [os.path.join(options.build, "bin", "compute-train-steps"), row.name, str(row.batch), folder]
    else:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "training.py")
        command = [sys.executable, script, engine, row.name, folder, str(options.threads),
                   options.device]
    return engines.Worker(engine, options, command)


def measure_training(row, options, results):
    """libcompute starts first: the others read its weights and its batch."""
    record, workers, losses = new_record(row), {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for engine in ("libcompute", *(e for e in options.engines if e in PEERS["train"])):
            worker = start_training(row, engine, options, folder)
            answer = {"error": worker.reason} if worker.reason else worker.ask("losses 3")
            if "error" in answer:
                record["left_out"][engine] = short(answer["error"])
                continue
            workers[engine], losses[engine] = worker, answer["losses"]
            record["engines"][engine] = {}
    started = dict(workers)
    results.note_versions(workers)
    ours = losses.get("libcompute", [])
    errors = {engine: max((abs(a - b) / max(map(abs, ours)) for a, b in zip(values, ours)), default=0)
              for engine, values in losses.items()}
    check(record, workers, errors, TOGETHER, False)
    rounds(workers, record, options)
    for worker in started.values():
        worker.close()
    return record


# ---- The file ---------------------------------------------------------------------------------


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def commit():
    try:
        result = subprocess.run(["git", "-C", engines.ROOT, "describe", "--always", "--dirty"],
                                capture_output=True, text=True, check=False)
    except OSError:  # no git
        return "unknown"
    return result.stdout.strip() or "unknown"


class Results:
    """The records so far, including records from an earlier call on the same machine and commit."""

    def __init__(self, options):
        self.path = options.json
        self.data = {"environment": {"cpu": processor(), "threads": options.threads, "commit": options.commit or commit(),
                                     "COMPUTE_CPU_ISA": options.isa or "", "system": platform.platform()},
                     "isa": "", "versions": {}, "dates": [], "rows": []}
        if options.device != "cpu":
            self.data["environment"]["device"] = options.device
        if self.path and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                earlier = json.load(file)
            if earlier["environment"] != self.data["environment"]:
                sys.exit(f"{self.path} is of another machine, commit or setting: remove it, or name another file")
            self.data = earlier
        today = time.strftime("%Y-%m-%d")
        self.data["dates"] = sorted({*self.data["dates"], today})

    def note_versions(self, workers):
        for engine, worker in workers.items():
            if "version" in worker.ready:
                self.data["versions"][engine] = worker.ready["version"]
        if "libcompute" in workers:
            self.data["isa"] = workers["libcompute"].ready.get("isa", "") or self.data["isa"]

    def add(self, record):
        self.data["rows"] = [row for row in self.data["rows"] if row["row"] != record["row"]] + [record]
        if self.path:
            with open(self.path + ".part", "w", encoding="utf-8") as file:
                json.dump(self.data, file, indent=1)
                file.write("\n")
            os.replace(self.path + ".part", self.path)


def measure(rows, options, results):
    """Measures all rows; returns the labels of those with a wrong result."""
    wrong, team, told = [], Team(options), set()
    for row in rows:
        if row.suite == "train":
            record = measure_training(row, options, results)
        else:
            record = measure_model(row, options, team, results)
            for engine, reason in team.missing.items():
                if engine not in told:
                    print(f"{engine} is left out: {reason}", flush=True)
                    told.add(engine)
            if row.suite in ("network", "bf16"):
                team.close()  # only a new process shows a model's memory
        results.add(record)
        print(table.line(record), flush=True)
        if not record["right"]:
            wrong.append(row.label)
    team.close()
    return wrong


def parse():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=words, default=list(SUITES), help=", ".join(SUITES) + ": with commas")
    parser.add_argument("--rows", type=words, default=["*"], help="patterns, with commas")
    parser.add_argument("--quick", action="store_true", help="a dozen rows")
    parser.add_argument("--engines", type=words, default=list(engines.ENGINES), help=", ".join(engines.ENGINES))
    parser.add_argument("--isa", help="COMPUTE_CPU_ISA of libcompute; the peers choose themselves")
    parser.add_argument("--device", default="cpu", help="cuda:0: libcompute and torch on a GPU, data in its memory")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.06, help="of each engine in each round, or one run")
    parser.add_argument("--build", default=os.path.join(engines.ROOT, "build"), help="build folder")
    parser.add_argument("--models", help="folder of the ONNX files (default: peers/models in the build folder)")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--commit", help="name of what is measured (default: what git says)")
    parser.add_argument("--list", action="store_true", help="names the rows")
    options = parser.parse_args()
    options.models = options.models or os.path.join(options.build, "peers", "models")
    options.library = os.path.join(options.build, "lib", "libcompute.so")
    if options.device == "cpu":
        options.engines = [engine for engine in options.engines if engine not in engines.COMPILED]
    else:
        options.engines = [engine for engine in options.engines if engine in ("libcompute", *GPU_PEERS)]
    if options.quick:
        options.rows = QUICK
    for names, known in ((options.suite, SUITES), (options.engines, engines.ENGINES)):
        if not set(names) <= set(known):
            parser.error(f"unknown: {', '.join(set(names) - set(known))}; known: {', '.join(known)}")
    return options


def main():
    options = parse()
    try:
        import numpy  # noqa: F401
        import onnx.helper  # noqa: F401 (Debian's test data are a folder called onnx)
    except ImportError as error:
        options.suite = [suite for suite in options.suite if suite == "train"]
        print(f"operations and networks are left out: {error}")
    rows = select_rows(options)
    if options.list:
        print("\n".join(row.label for row in rows))
        return
    results = Results(options)
    wrong = measure(rows, options, results)
    measured = {row.label for row in rows}
    print()
    print(table.text({**results.data, "rows": [row for row in results.data["rows"] if row["row"] in measured]}))
    if wrong:
        sys.exit("FAILED: wrong results: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
