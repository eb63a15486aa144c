# SPDX-License-Identifier: MIT
"""What cuBLASLt's fastest algorithm takes for the products of compute-bench: all that it proposes are timed.

    cublaslt.py [--json FILE] [--filter 'A,B'] [--library FILE]

Matrices are row-major, so their transposes are multiplied. f32 is computed in f32, or in TF32 in rows that are named so;
bf16 is summed in f32. Calls follow each other without waiting. Memory and times are torch's. A row that fails is left out
with its reason.
"""
import argparse
import ctypes
import fnmatch
import json
import os
import signal
import statistics
import sys

WANTED = 64  # proposals
WORKSPACE = 64 << 20
SAMPLES, SAMPLE_MS = 15, 6
FIRST_MS = 2  # of each proposal in the choice
F32, F64, BF16 = 0, 1, 14  # cudaDataType
BY_F32, BY_F64, BY_TF32 = 68, 70, 77  # cublasComputeType_t
WORKSPACE_LIMIT = 1  # cublasLtMatmulPreferenceAttributes_t
KINDS = {"f32": ("float32", F32, BY_F32, F32), "tf32": ("float32", F32, BY_TF32, F32),
         "f64": ("float64", F64, BY_F64, F64), "bf16": ("bfloat16", BF16, BY_F32, F32)}


class Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


def rows():
    """name: (m, n, k, kind)"""
    found = {f"matmul_{n}": (n, n, n, "f32") for n in (256, 512, 1024, 2048, 4096, 8192)}
    found |= {f"matmul_{n}_tf32": (n, n, n, "tf32") for n in (2048, 8192)}
    found |= {f"matmul_{n}_bf16": (n, n, n, "bf16") for n in (1024, 2048, 4096, 8192)}
    found |= {f"matmul_{n}_f64": (n, n, n, "f64") for n in (1024, 2048)}
    found |= {f"matmul_{m}x4096x4096": (m, 4096, 4096, "f32") for m in (1, 4, 16)}
    found |= {f"matmul_{m}x8192_bf16": (m, 8192, 8192, "bf16") for m in (1, 8)}
    found["matmul_128x512x784"] = (128, 512, 784, "f32")
    return found


class Library:
    def __init__(self, path):
        for name in [path] if path else ["libcublasLt.so.13", "libcublasLt.so.12"]:
            try:
                self.c = ctypes.CDLL(name)
                break
            except OSError as error:
                reason = error
        else:
            raise reason
        self.c.cublasLtGetVersion.restype = ctypes.c_size_t
        self.version = self.c.cublasLtGetVersion()
        self.handle = ctypes.c_void_p()
        self.check("cublasLtCreate", ctypes.byref(self.handle))

    def check(self, name, *arguments):
        status = getattr(self.c, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returns {status}")

    def made(self, name, *arguments):
        place = ctypes.c_void_p()
        self.check(name, ctypes.byref(place), *arguments)
        return place

    def layout(self, kind, rows, columns):
        """Of the transpose of a row-major matrix."""
        return self.made("cublasLtMatrixLayoutCreate", kind, ctypes.c_uint64(columns), ctypes.c_uint64(rows),
                         ctypes.c_int64(columns))


class Product:
    """Row-major c = a·b, which is cᵀ = bᵀ·aᵀ."""

    def __init__(self, library, torch, m, n, k, kind):
        dtype, data, self.compute, scale = KINDS[kind]
        self.library, self.torch = library, torch

        def random(*shape):
            return torch.rand(shape, device="cuda").mul_(2).sub_(1).to(getattr(torch, dtype))
        self.a, self.b = random(m, k), random(k, n)
        self.out = torch.full((m, n), float("nan"), device="cuda", dtype=self.a.dtype)
        self.workspace = torch.empty(WORKSPACE, device="cuda", dtype=torch.uint8)
        real = ctypes.c_double if scale == F64 else ctypes.c_float
        self.one, self.zero = real(1), real(0)
        self.operation = library.made("cublasLtMatmulDescCreate", self.compute, scale)
        self.layouts = [library.layout(data, *shape) for shape in ((k, n), (m, k), (m, n))]
        preference = library.made("cublasLtMatmulPreferenceCreate")
        size = ctypes.c_uint64(WORKSPACE)
        library.check("cublasLtMatmulPreferenceSetAttribute", preference, WORKSPACE_LIMIT, ctypes.byref(size),
                      ctypes.c_size_t(8))
        self.proposals, count = (Proposal * WANTED)(), ctypes.c_int()
        b, a, c = self.layouts
        library.check("cublasLtMatmulAlgoGetHeuristic", library.handle, self.operation, b, a, c, c, preference, WANTED,
                      self.proposals, ctypes.byref(count))
        self.count = count.value

    def multiply(self, proposal):
        b, a, c = self.layouts

        def address(tensor):
            return ctypes.c_void_p(tensor.data_ptr())
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        self.library.check("cublasLtMatmul", self.library.handle, self.operation, ctypes.byref(self.one),
                           address(self.b), b, address(self.a), a, ctypes.byref(self.zero), address(self.out), c,
                           address(self.out), c, ctypes.byref(proposal.algorithm), address(self.workspace),
                           ctypes.c_size_t(WORKSPACE), stream)

    def time(self, proposal, ms):
        """Milliseconds of one call, of as many as take about `ms`."""
        def run(times):
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(times):
                self.multiply(proposal)
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / times
        run(1)
        return run(max(1, min(1000, int(ms / max(run(2), 1e-4)))))

    def error(self):
        """Relative to the norm of torch's product in f64, of some rows."""
        wanted = self.a[:8].double() @ self.b.double()
        return float((self.out[:8].double() - wanted).norm() / wanted.norm())

    def best(self):
        times = []
        for i in range(self.count):
            try:
                times.append((self.time(self.proposals[i], FIRST_MS), i))
            except RuntimeError:  # a proposal is no promise
                continue
        if not times:
            raise RuntimeError(f"none of {self.count} proposals runs")
        chosen = min(times)[1]
        ms = statistics.median(self.time(self.proposals[chosen], SAMPLE_MS) for _ in range(SAMPLES))
        error = self.error()
        if not error < 1e-2:
            raise RuntimeError(f"wrong result, off by {error:.1e}")
        return {"ms": ms, "first_ms": dict((i, t) for t, i in times).get(0), "proposal": chosen, "proposals": self.count,
                "error": error}


def write(path, data):
    if path:
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
        os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--filter", metavar="A,B", default="*", help="only rows that match a pattern")
    parser.add_argument("--library", metavar="FILE", help="cuBLASLt (default: what the loader finds)")
    options = parser.parse_args()
    import torch
    torch.zeros(1, device="cuda")  # makes the context
    library, stopped = Library(options.library), []
    data = {"cublaslt": library.version, "gpu": torch.cuda.get_device_name(), "rows": [], "left_out": {}}
    for number in (signal.SIGINT, signal.SIGTERM):  # keeps the rows that are measured
        signal.signal(number, lambda number, frame: stopped.append(number))
    for name, (m, n, k, kind) in rows().items():
        if stopped:
            break
        if not any(fnmatch.fnmatch(name, pattern) for pattern in options.filter.split(",")):
            continue
        try:
            row = {"name": name, **Product(library, torch, m, n, k, kind).best()}
            print(f"{name:24} {row['ms']:10.4f} ms {2e-9 * m * n * k / row['ms']:10.1f} TFLOP/s, "
                  f"proposal {row['proposal']} of {row['proposals']}", flush=True)
            data["rows"].append(row)
        except Exception as error:  # whatever goes wrong in a peer is the reason why it is left out
            print(f"{name}: {error}", file=sys.stderr)
            data["left_out"][name] = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:200]
        write(options.json, data)
    if stopped:
        sys.exit(130)


if __name__ == "__main__":
    main()
