# SPDX-License-Identifier: MIT
"""What PyTorch takes on a GPU for the rows of compute-bench.

    torch_gpu.py [--json FILE] [--compile [MODE]] [--channels-last] [--filter 'A,B']

Prints a row's name, the median in milliseconds, and TFLOP/s or GB/s. Calls follow each other without waiting, except
in copy_4096, as in compute-bench, which this does not start. Factors are rounded to TF32 only in rows that are named so; convolutions may
use Winograd's filtering in all. Elementwise rows use several sets of arrays if they are smaller than the GPU's cache
together.
"""
import argparse
import fnmatch
import json
import os
import signal
import statistics
import sys
import time

import torch
import torch.nn.functional as F

SAMPLES = 25
SAMPLE_SECONDS = 8e-3
CACHE_BYTES = 256 << 20


class Row:
    def __init__(self, name, call, *shapes, dtype=torch.float32, flops=0, out=0, tf32=False, waits=False):
        self.name, self.call, self.dtype, self.flops, self.tf32 = name, call, dtype, flops, tf32
        self.waits = waits
        self.shapes, self.out = shapes, out

    def bytes(self):
        size = torch.empty(0, dtype=self.dtype).element_size()
        return size * (sum(elements(shape) for shape in self.shapes) + self.out)


def elements(shape):
    count = 1
    for length in shape:
        count *= length
    return count


def rows():
    million = 1_000_000
    bf16, f64 = torch.bfloat16, torch.float64
    chain = lambda x, y, z: torch.relu(x * y + z) * 0.5 + x
    for n, text in ((million, "1M"), (10 * million, "10M"), (100 * million, "100M")):
        yield Row(f"add_{text}", torch.add, (n,), (n,), out=n)
        yield Row(f"chain_{text}", chain, (n,), (n,), (n,), out=n)
    yield Row("add_100M_bf16", torch.add, (100 * million,), (100 * million,), dtype=bf16, out=100 * million)
    yield Row("gelu_1M", F.gelu, (million,), out=million)
    yield Row("tanh_1M", torch.tanh, (million,), out=million)
    yield Row("gelu_100M", F.gelu, (100 * million,), out=100 * million)
    for n in (256, 512, 1024, 2048, 4096, 8192):
        yield Row(f"matmul_{n}", torch.matmul, (n, n), (n, n), flops=2 * n**3)
    for n in (2048, 8192):
        yield Row(f"matmul_{n}_tf32", torch.matmul, (n, n), (n, n), flops=2 * n**3, tf32=True)
    for n in (1024, 2048, 4096, 8192):
        yield Row(f"matmul_{n}_bf16", torch.matmul, (n, n), (n, n), dtype=bf16, flops=2 * n**3)
    for n in (1024, 2048):
        yield Row(f"matmul_{n}_f64", torch.matmul, (n, n), (n, n), dtype=f64, flops=2 * n**3)
    bias_gelu = lambda x, y, b: F.gelu(torch.addmm(b, x, y))
    for n in (1024, 2048, 4096):
        yield Row(f"matmul_bias_gelu_{n}", bias_gelu, (n, n), (n, n), (n,), flops=2 * n**3)
    yield Row("bias_gelu_4096_bf16", bias_gelu, (4096, 4096), (4096, 4096), (4096,), dtype=bf16, flops=2 * 4096**3)
    yield Row("matmul_1x4096x4096", torch.matmul, (1, 4096), (4096, 4096), flops=2 * 4096**2)
    yield Row("matmul_128x512x784", torch.matmul, (128, 784), (784, 512), flops=2 * 128 * 512 * 784)
    for n in (4096, 16384):
        yield Row(f"sum_all_{n}", torch.sum, (n, n))
        yield Row(f"sum_rows_{n}", lambda x: x.sum(1), (n, n), out=n)
        yield Row(f"sum_columns_{n}", lambda x: x.sum(0), (n, n), out=n)
    softmax = lambda x: torch.softmax(x, 1)
    norm = lambda x, gain, shift: F.layer_norm(x, gain.shape, gain, shift)
    yield Row("softmax_1000x1000", softmax, (1000, 1000), out=million)
    yield Row("softmax_1x1M", softmax, (1, million), out=million)
    yield Row("softmax_64Kx1024", softmax, (65536, 1024), out=65536 * 1024)
    yield Row("softmax_1x64M", softmax, (1, 64 * million), out=64 * million)
    yield Row("layer_norm_4096", norm, (4096, 4096), (4096,), (4096,), out=4096**2)
    yield Row("layer_norm_64Kx1024", norm, (65536, 1024), (1024,), (1024,), out=65536 * 1024)
    yield Row("softmax_64Kx1021", softmax, (65536, 1021), out=65536 * 1021)
    yield Row("softmax_8Kx8192", softmax, (8192, 8192), out=8192**2)
    yield Row("softmax_64Kx1024_bf16", softmax, (65536, 1024), dtype=bf16, out=65536 * 1024)
    yield Row("layer_norm_64Kx1024_bf16", norm, (65536, 1024), (1024,), (1024,), dtype=bf16, out=65536 * 1024)
    yield from convolutions()
    heads = lambda q, k, v: F.scaled_dot_product_attention(q, k, v)
    for n in (128, 512):
        yield Row(f"attention_8x8x{n}x64", heads, *[(8, 8, n, 64)] * 3, flops=4 * 64 * n * n * 64)
    causal = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    seen = 4 * 12 * 1024 * 1025 // 2 * 64
    yield Row("attention_causal_1x12x1024x64", causal, *[(1, 12, 1024, 64)] * 3, flops=seen)
    yield Row("attention_8x8x512x64_bf16", heads, *[(8, 8, 512, 64)] * 3, dtype=bf16, flops=4 * 64 * 512**2 * 64)
    yield Row("attention_causal_1x12x1024x64_bf16", causal, *[(1, 12, 1024, 64)] * 3, dtype=bf16, flops=seen)
    yield Row("max_pool_2x2", lambda x: F.max_pool2d(x, 2), (32, 128, 128, 128), out=32 * 128 * 64 * 64)
    yield Row("copy_4096", torch.clone, (4096, 4096), out=4096**2, waits=True)
    yield Row("transpose_4096", lambda x: x.t().contiguous(), (4096, 4096), out=4096**2)


# name: n, c, h, w, o, kernel, stride, padding, groups
CONVOLUTIONS = {
    "conv3x3_128": (32, 64, 128, 128, 128, 3, 1, 1, 1), "conv3x3_56": (8, 64, 56, 56, 64, 3, 1, 1, 1),
    "conv3x3_64": (1, 32, 64, 64, 64, 3, 1, 1, 1), "conv1x1_56": (8, 64, 56, 56, 256, 1, 1, 0, 1),
    "conv7x7_224": (8, 3, 224, 224, 64, 7, 2, 3, 1), "depthwise_56": (8, 128, 56, 56, 128, 3, 1, 1, 128),
}


def convolutions():
    for name in CONVOLUTIONS:
        for kind in ("", "bn_relu", "by_data", "by_filter"):
            if kind[:2] != "by" or name not in ("conv1x1_56", "conv7x7_224"):
                yield convolution(name, kind)
    yield convolution("conv3x3_128", "tf32", tf32=True)
    for name in ("conv3x3_128", "conv1x1_56"):
        yield convolution(name, "bf16", dtype=torch.bfloat16)


def convolution(name, kind, **options):
    n, c, h, w, o, k, stride, padding, groups = CONVOLUTIONS[name]
    p, q = ((size + 2 * padding - k) // stride + 1 for size in (h, w))
    data, weight, result = (n, c, h, w), (o, c // groups, k, k), (n, o, p, q)
    forward = lambda x, f, bias=None: F.conv2d(x, f, bias, stride, padding, 1, groups)

    def bn_relu(x, f, bias, mean, gain, shift):  # the variance is |gain|
        return F.relu(F.batch_norm(forward(x, f, bias), mean, gain.abs(), gain, shift))

    def backward(x, f, dy, wanted):
        mask = [wanted == 0, wanted == 1, False]
        return torch.ops.aten.convolution_backward(dy, x, f, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0],
                                                   groups, mask)[wanted]

    call, shapes, out = forward, (data, weight), result
    if kind == "bn_relu":
        call, shapes = bn_relu, (data, weight) + ((o,),) * 4
    elif kind in ("by_data", "by_filter"):
        wanted = int(kind == "by_filter")
        call, shapes, out = (lambda x, f, dy: backward(x, f, dy, wanted)), (data, weight, result), (data, weight)[wanted]
    return Row(f"{name}_{kind}".rstrip("_"), call, *shapes, out=elements(out),
               flops=2 * elements(result) * elements(weight[1:]), **options)


def measure(row, compiled, channels_last):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = row.tf32
    sets = 1 if row.flops else min(16, max(1, -(-CACHE_BYTES // max(1, row.bytes()))))
    inputs = [[torch.rand(shape, device="cuda", dtype=torch.float32).mul_(2).sub_(1).to(row.dtype)
               for shape in row.shapes] for _ in range(sets)]
    if channels_last:
        inputs = [[x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in of] for of in inputs]
    call = torch.compile(row.call, dynamic=False, mode=compiled) if compiled else row.call

    def run(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(times):
            call(*inputs[i % sets])
            if row.waits:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / times * 1e3

    with torch.no_grad():
        for _ in range(3):
            once = run(3)
        times = max(1, min(1000, int(SAMPLE_SECONDS * 1e3 / once)))
        samples = [run(times) for _ in range(SAMPLES)]
    return statistics.median(samples)


def write(options, found, left_out):
    """After every row, so that a process that is killed leaves the rows before."""
    if not options.json:
        return
    with open(options.json + ".part", "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "compiled": options.compile or False,
                   "channels_last": options.channels_last, "rows": found, "left_out": left_out}, file, indent=1)
    os.replace(options.json + ".part", options.json)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--compile", nargs="?", const="default", metavar="MODE",
                        help="through torch.compile, in a mode such as max-autotune-no-cudagraphs")
    parser.add_argument("--channels-last", action="store_true", help="images with their channels side by side")
    parser.add_argument("--filter", metavar="A,B", default="*", help="only rows that match a pattern")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    found, left_out, stopped = [], {}, []
    patterns = options.filter.split(",")
    for number in (signal.SIGINT, signal.SIGTERM):  # keeps the rows that are measured
        signal.signal(number, lambda number, frame: stopped.append(number))
    for row in rows():
        if stopped:
            break
        if not any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns):
            continue
        try:
            ms = measure(row, options.compile, options.channels_last)
        except Exception as error:  # whatever goes wrong in a peer is the reason why it is left out
            print(f"{row.name}: {error}", file=sys.stderr)
            left_out[row.name] = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:200]
            write(options, found, left_out)
            continue
        rate = f"{row.flops / ms * 1e-9:10.1f} TFLOP/s" if row.flops else f"{row.bytes() / ms * 1e-6:10.0f} GB/s"
        print(f"{row.name:28} {ms:10.4f} ms {rate}", flush=True)
        found.append({"name": row.name, "ms": ms})
        write(options, found, left_out)
    if stopped:
        sys.exit(130)


if __name__ == "__main__":
    main()
