# SPDX-License-Identifier: MIT
"""Models of your own as ONNX files, compared with ONNX Runtime and OpenVINO: speed, loading time, memory, and results.

    models.py [--library LIBCOMPUTE.so] [--isa SET] [--batch 1,8] [--threads N] [--rounds R] [--json FILE] MODEL.onnx...

Each engine runs in a separate process, with the same inputs and number of threads, and the engines take turns, as in
compare.py. Needs numpy, onnx, and whichever of onnxruntime and openvino is compared, from PyPI. "memory" is what loading
and running add to the process at its peak. A ratio is the peer's time divided by libcompute's: above 1, libcompute is
faster.
"""
import argparse
import json
import os
import tempfile

import numpy as np

import compare
import engines

ENGINES = ("libcompute", "onnxruntime", "openvino")


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


def measure(model, batch, options):
    """A record of one model at one batch."""
    name = os.path.splitext(os.path.basename(model))[0]
    record = {"model": name, "batch": batch, "threads": options.threads, "engines": {}, "left_out": {}}
    workers, results = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(os.path.join(folder, "inputs.npz"), **random_inputs(model, batch))
        for engine in options.engines:
            worker = engines.Worker(engine, options)
            result = None if worker.reason else \
                compare.start_engine(record, worker, engine, os.path.abspath(model), folder)
            if result is None:
                print(f"{name}: {engine} is left out: {worker.reason or record['left_out'][engine]}")
                continue
            workers[engine], results[engine] = worker, result
            record["engines"][engine]["version"] = worker.ready["version"]
    compare.rounds(workers, record, options)
    for engine, worker in workers.items():
        values = record["engines"][engine]
        values["peak_mb"] = worker.ask("memory")["peak"] / 1e6
        if "libcompute" in results and engine != "libcompute":
            values["difference"] = compare.difference(results["libcompute"], results[engine])
        worker.close()
    return record


def show(record):
    print(f"{record['model']} batch {record['batch']}", flush=True)
    ours = record["engines"].get("libcompute")
    for engine, values in record["engines"].items():
        ratio = f"  {values['ms'] / ours['ms']:5.2f} x" if ours and engine != "libcompute" else ""
        apart = f"  apart {values['difference']:.1e}" if "difference" in values else ""
        first = values["load_s"] + values["first_s"]
        print(f"  {engine:12} {values['version']:10} {values['ms']:9.4g} ms  load + first run {first:6.2f} s  "
              f"memory {values['peak_mb']:6.0f} MB{ratio}{apart}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--library", default=os.path.join(engines.ROOT, "build", "lib", "libcompute.so"))
    parser.add_argument("--isa", help="COMPUTE_CPU_ISA of libcompute")
    parser.add_argument("--device", default="cpu", help="cuda:0: libcompute and torch on a GPU, data in its memory")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--batch", type=lambda text: [int(b) for b in text.split(",")], default=[1, 8])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.06, help="of each engine in each round, or one run")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    records = []
    for model in options.models:
        for batch in options.batch:
            records.append(measure(model, batch, options))
            show(records[-1])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
