#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the three pictures of docs/architecture.md, and README.md's picture from its table of speed. The docs
build and a test run it.

    pictures.py FOLDER           writes the pictures into FOLDER
    pictures.py --check FOLDER   fails if a picture in FOLDER differs from the one drawn here
"""
import html
import os
import re
import sys

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "README.md")

STYLE = """
text { font: 14px sans-serif; fill: #1c2430 }
.title { font-weight: 600 }
.path { font: 12px monospace; fill: #5b6675 }
.note { font-size: 13px; fill: #5b6675 }
rect { fill: #f3f6fa; stroke: #8a97a8; rx: 6px }
.strong { fill: #dbe8fb; stroke: #1f5fd0 }
.device { fill: #d9f2ee; stroke: #0b8074 }
.outside { fill: none; stroke-dasharray: 5 4 }
path { fill: none; stroke: #5b6675; stroke-width: 1.6 }
marker path { fill: #5b6675; stroke: none }
.page { fill: #ffffff; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ee } .path, .note { fill: #9aa5b3 }
  rect { fill: #1d2530; stroke: #5f6d80 } .strong { fill: #1b3358; stroke: #6ea8ff }
  .device { fill: #123c38; stroke: #3fc7b6 } .outside { fill: none }
  path { stroke: #9aa5b3 } marker path { fill: #9aa5b3 } .page { fill: #14181e; stroke: none }
}
"""
LINE = 19  # pixels from a line of text to the next


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def text(self, x, y, text, kind="", anchor="start"):
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def box(self, x, y, width, height, title, lines=(), kind="", path=""):
        """A box with a bold title, lines of text below it, and a path in the upper right corner."""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="{kind}"/>')
        self.text(x + 12, y + 22, title, "title")
        if path:
            self.text(x + width - 12, y + 22, path, "path", "end")
        for i, line in enumerate(lines):
            self.text(x + 12, y + 22 + LINE * (i + 1), line, "note")

    def arrow(self, *points, label="", label_at=None):
        self.parts.append('<path marker-end="url(#head)" d="M' + " L".join(f"{x} {y}" for x, y in points) + '"/>')
        if label:
            self.text(*label_at, label, "note")

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" role="img">\n<title>{html.escape(self.title)}</title>\n<style>{STYLE}</style>\n'
                '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
                '<path d="M0 0 L10 5 L0 10 z"/></marker></defs>\n'
                f'<rect class="page" width="{self.width}" height="{self.height}"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def floors():
    p = Picture(860, 790, "The floors of libcompute: programs, public headers, the library's rooms, backends")
    p.box(20, 16, 250, 50, "Your C program", ["includes compute/compute.h"], "outside")
    p.box(290, 16, 550, 50, "Programs: compute-info, -run, -tune, -fit, -bench",
          ["installed headers and library only"], "outside", "src/programs, bench")
    p.arrow((145, 66), (145, 88))
    p.arrow((565, 66), (565, 88))
    p.box(20, 90, 820, 34, "Public headers", (), "strong", "include/compute")
    p.text(20, 152, "libcompute.so", "title")
    rows = [
        [("context", "opens and closes; connects all rooms", 405), ("report", "profile, timeline, table", 405)],
        [("fit", "Gaussian fits, spots, simulation", 405), ("model", "ONNX: decode, record, run in stages, export", 405)],
        [("ml", "nn: layers; train: steps, data, checkpoints", 405), ("batch", "streams of items through a plan", 405)],
        [("group", "processes, transports, collectives", 405), ("io", "files of tensors: safetensors, npy, npz, idx", 405)],
        [("plan", "compile: capture, fuse, place, lower, arena; run and fall back; eager calls, jobs, costs, validation", 820)],
        [("codegen", "kernel sources, parameters, disk cache, kernels of users", 405), ("graph", "ops.def: nodes, builders, gradients, optimizers", 405)],
        [("core", "base · type · kernel (descriptors: the narrow waist) · device (queues, buffer pool) · tensor", 820)],
    ]
    y = 162
    for row in rows:
        x = 20
        for name, job, width in row:
            p.box(x, y, width, 58, name, [job], "", f"src/{name}")
            x += width + 10
        y += 68
    p.text(20, y + 18, "compute/backend.h: one versioned table of functions for each module", "title")
    p.arrow((640, y - 8), (640, y + 26))
    y += 28
    x = 20
    for name, job in (("cpu", "vectors, OpenBLAS"), ("opencl", "every OpenCL device"), ("cuda", "driver API, NVRTC"),
                      ("null", "a skeleton to copy"), ("yours", "your own module")):
        p.box(x, y, 156, 58, name, [job], "device" if name != "yours" else "outside")
        x += 166
    p.box(20, y + 72, 820, 34, "One set of kernel sources for all devices", (), "device", "kernels")
    return p


def kernels():
    p = Picture(860, 668, "The way of a graph to kernels")
    left, width, x2 = 20, 470, 520
    steps = [
        ("Record", "src/graph", ["compute_matmul, compute_add, compute_relu, compute_softmax",
                                 "append nodes; shapes and dtypes are checked at once"], "strong"),
        ("Capture", "src/plan/compile/capture", ["constants are folded; the nodes that the outputs need are copied;",
                                             "equal nodes become one; rewrites that keep every bit"], ""),
        ("Fuse", "src/plan/compile/fuse", ["matmul + add + relu: one cluster with an epilogue;",
                                       "softmax: a second cluster; transposes become strides"], ""),
        ("Place", "src/plan/cost", ["automatic plans only: the minimum cut of a network of costs",
                                               "divides the clusters between CPU and accelerator"], ""),
        ("Lower", "src/plan/compile/lower", ["a cluster becomes a kernel descriptor: GEMM, ROW, CONV …",
                                                "steps in order, transfers between devices, an arena"], ""),
        ("Prepare", "src/core/device", ["the backend makes a kernel of each descriptor;",
                                                   "equal descriptors share one kernel"], "strong"),
        ("Run", "src/plan/compile/run", ["bind tensors, take the arena from the pool, enqueue the steps"], "strong"),
    ]
    y = 20
    places = []
    for title, path, lines, kind in steps:
        height = 34 + LINE * len(lines)
        p.box(left, y, width, height, title, lines, kind, path)
        places.append((y, height))
        y += height + 24
    for (a, h), (b, _) in zip(places, places[1:]):
        p.arrow((left + 235, a + h), (left + 235, b))
    py, ph = places[5]
    p.box(x2, 20, 320, 110, "COMPUTE_DUMP=FOLDER", ["writes the graph after each pass as text and", "as a drawing; the sources of kernels beside",
                                                   "them. compute_explain prints the steps of", "a finished plan."], "outside")
    p.box(x2, 214, 320, 132, "On the CPU", ["backends/cpu: GEMM and CONV list their", "implementations in order of preference;",
                                         "the first that accepts completes the kernel.", "Programs run in tiles that stay in the cache,",
                                         "with AVX2, AVX-512 or plain C."], "device")
    p.box(x2, 370, 320, 170, "On a device that compiles", ["1. src/codegen/tune: parameters", "2. src/codegen/generate, kernels/: source text",
                                                       "3. src/codegen/cache: the binary from disk,", "    or the driver's compiler",
                                                       "4. backends/common: simpler forms, if a", "    kernel does not build or fit",
                                                       "then the fallback policy decides"], "device")
    middle = py + ph / 2
    p.arrow((left + width, middle), (505, middle), (505, 280), (x2, 280))
    p.arrow((left + width, middle), (505, middle), (505, 455), (x2, 455))
    return p


def items():
    p = Picture(860, 400, "The way of an item through a batch")
    p.text(20, 30, "A slot is the memory of one batch in progress. Slots circulate between the threads.", "note")
    p.box(20, 60, 190, 92, "Reader", ["compute_batch_source: array or", "callback fills the slot's", "staging memory"], "strong")
    p.box(335, 60, 190, 92, "Upload thread", ["of a device: copies in,", "submits the plan's run,", "does not wait"], "device")
    p.box(650, 60, 190, 92, "Device", ["queue of the slot:", "copy in, kernels, copy out", "overlap between slots"], "device")
    p.box(650, 230, 190, 92, "Download thread", ["waits for the run's event,", "repeats a failed batch", "(smaller, or on the CPU)"], "device")
    p.box(335, 230, 190, 92, "Order", ["a list of finished slots;", "results leave in the", "order of the items"])
    p.box(20, 230, 190, 92, "Caller", ["compute_batch_sink: array or", "callback, on the thread of", "compute_batch_run"], "strong")
    p.arrow((210, 106), (335, 106), label="ready batch", label_at=(232, 98))
    p.arrow((525, 106), (650, 106), label="submitted", label_at=(556, 98))
    p.arrow((745, 152), (745, 230), label="event", label_at=(755, 196))
    p.arrow((650, 276), (525, 276), label="finished", label_at=(560, 268))
    p.arrow((335, 276), (210, 276), label="in order", label_at=(246, 268))
    p.arrow((115, 230), (115, 152), label="free slot", label_at=(125, 196))
    p.text(20, 356, "On the CPU the plan reads and writes aligned arrays of the caller; the slot has no staging memory then.", "note")
    p.text(20, 378, "Several devices take the next batch when they are free, so a faster device computes more.", "note")
    return p


def ratio(cell):
    """1.06 for 1.06×, also in bold; None for a dash."""
    found = re.search(r"([0-9.]+)×", cell)
    return float(found.group(1)) if found else None


def speed():
    """A bar for each row of README's table and instruction set: the ratio to the faster peer."""
    with open(README, encoding="utf-8") as file:
        table = re.search(r"^\| work \|.*\n\|[-|]+\n((?:\|.*\n)+)", file.read(), re.M)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.group(1).splitlines()]
    p = Picture(860, 66 + 44 * len(rows), "Speed relative to the fastest peer: above 1, libcompute is faster")
    left, unit = 230, 340
    p.text(left, 24, "AVX2", "note")
    p.parts.append(f'<rect x="{left + 44}" y="13" width="26" height="13" class="strong"/>')
    p.text(left + 100, 24, "AVX-512", "note")
    p.parts.append(f'<rect x="{left + 164}" y="13" width="26" height="13" class="device"/>')
    p.text(left + unit, 24, "1×: as fast as the fastest peer", "note")
    for i, row in enumerate(rows):
        y = 42 + 44 * i
        p.text(left - 12, y + 23, row[0], "title", "end")
        for j, kind in enumerate(("strong", "device")):
            known = [value for value in map(ratio, row[3 * j + 2:3 * j + 4]) if value]
            width, top = round(min(known) * unit), y + 17 * j
            p.parts.append(f'<rect x="{left}" y="{top}" width="{width}" height="15" class="{kind}"/>')
            p.text(left + width + 8, top + 13, f"{min(known):.2f}×", "note")
    p.parts.append(f'<path d="M{left + unit} 34 L{left + unit} {48 + 44 * len(rows)}"/>')
    return p


PICTURES = {"speed.svg": speed, "floors.svg": floors, "kernels.svg": kernels, "items.svg": items}


def main(check, folder):
    stale = []
    for name, draw in PICTURES.items():
        path, text = os.path.join(folder, name), draw().svg()
        if not check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            stale.append(path)
    for path in stale:
        print(f"{path} is stale: python3 docs/site/pictures.py {folder}")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    main("--check" in sys.argv, arguments[0])
