# SPDX-License-Identifier: MIT
"""Tables of what compare.py has measured, worst ratio first.

    table.py FILE.json                   prints one
    table.py --page PAGE.md [--check]    makes the tables of a page again, or says that one is not of its file

In a page, a table is what is between <!-- peers: FILE.json --> (relative to the page) and <!-- /peers -->. A ratio is the
peer's time divided by libcompute's: above 1, libcompute is faster. FILE.json may also be of compute-bench on a GPU; the peer
is then torch, from a torch.json beside it (torch_gpu.py).
"""
import argparse
import json
import os
import re
import sys

NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "torch", "torch_cl": "torch channels last",
         "torch_compile": "torch compiled", "torch_graphs": "torch compiled, CUDA graphs",
         "torch_max": "torch max-autotune", "onednn": "oneDNN", "openblas": "OpenBLAS", "mkl": "MKL"}
TITLES = {"operation": "Single operations", "network": "Inference of whole networks", "bf16": "Inference in bf16",
          "train": "Training steps"}
BLOCK = re.compile(r"(<!-- peers: (\S+) -->\n).*?(<!-- /peers -->)", re.DOTALL)


def ratios(record):
    """(ratio, peer), the best peer first."""
    ours = record["engines"].get("libcompute")
    if not ours:
        return []
    return sorted((values["ms"] / ours["ms"], engine) for engine, values in record["engines"].items()
                  if engine != "libcompute")


def ordered(records):
    return sorted(records, key=lambda record: (ratios(record) or [(float("inf"), "")])[0][0])


def line(record):
    """What is printed while rows are measured, and of a table in text."""
    ours = record["engines"].get("libcompute")
    if not ours:
        return f"{record['row']:32} libcompute: {record['left_out'].get('libcompute', 'not measured')}"
    peers = "  ".join(f"{engine} {ratio:.2f}" for ratio, engine in ratios(record))
    return f"{record['row']:32} {ours['ms']:9.4g} ms  {peers}"


def summary(records):
    best = [ratios(record)[0][0] for record in records if ratios(record)]
    if not best:
        return "No peer was compared with."
    level, low = sum(ratio >= 0.995 for ratio in best), sum(ratio < 0.895 for ratio in best)
    return f"{level} of {len(best)} rows are level with the best peer or ahead of it, {low} are below 0.9 of it."


def text(data):
    lines = [line(record) for record in ordered(data["rows"])]
    return "\n".join([*lines, summary(data["rows"])])


def rounded(ratio):
    return f"{ratio:.2f}×" if round(ratio, 2) >= 1 else f"**{ratio:.2f}×**"


def markdown_row(record):
    found = ratios(record)
    best = f"{rounded(found[0][0])} {NAMES[found[0][1]]}" if found else "–"
    others = ", ".join(f"{NAMES[engine]} {ratio:.2f}" for ratio, engine in found[1:]) or "–"
    return f"| {record['row']} | {record['engines']['libcompute']['ms']:.4g} | {best} | {others} |"


def markdown(data):
    environment, versions = data["environment"], data["versions"]
    known = ", ".join(f"{NAMES[engine]} {version.split('+')[0]}" for engine, version in versions.items()
                      if engine in NAMES and not engine.startswith("torch_"))
    forced = " (set by COMPUTE_CPU_ISA; the peers choose themselves)" if environment["COMPUTE_CPU_ISA"] else ""
    lines = [f"{environment['cpu']}, libcompute at {environment['commit']} with {data['isa']}{forced}, "
             f"{environment['threads']} threads, {', '.join(data['dates'])}; {known}. {summary(data['rows'])}"]
    for suite, title in TITLES.items():
        records = [record for record in ordered(data["rows"]) if record["suite"] == suite]
        records = [record for record in records if "libcompute" in record["engines"]]
        if records:
            lines += ["", f"**{title}**", "", "| row | ours, ms | best peer's time / ours | other peers |",
                      "|---|---|---|---|", *map(markdown_row, records)]
    return "\n".join(lines) + "\n"


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# ---- compute-bench on a GPU -------------------------------------------------------------------


def rate(record):
    if record.get("fit"):
        return f"{record['fit']['rois_per_second'] * 1e-6:.0f} M ROIs/s"
    if record.get("gflops") and record["gflops"] >= record.get("gbytes_s", 0):
        return f"{record['gflops'] * 1e-3:.3g} TFLOP/s"
    return f"{record['gbytes_s']:.0f} GB/s" if record.get("gbytes_s") else "–"


def time_of(record):
    ms = record["ms"]
    return f"{ms:.4g} ms" if ms >= 1 else f"{ms * 1e3:.4g} µs" if ms >= 1e-3 else f"{ms * 1e6:.3g} ns"


def gpu_row(record, peers):
    peer = peers.get(record["case"])
    error = f"{record['max_rel_err']:.1e}" if record.get("max_rel_err") else "–"
    ratio = rounded(peer / record["ms"]) if peer else "–"
    return f"| {record['case']} | {record['dtype']} | {time_of(record)} | {rate(record)} | {error} | {ratio} |"


def gpu_markdown(data, torch):
    environment = data["environment"]
    peers = {row["name"]: row["ms"] for row in torch["rows"]}
    records = [record for record in data["records"] if record.get("ms")]
    lines = [f"{environment['device_model']}, {environment['isa']}, {environment['driver']}, libcompute at "
             f"{environment['git_commit']}, {environment['date'][:10]}; torch {torch['torch'].split('+')[0]}."]
    for suite in dict.fromkeys(record["suite"] for record in records):
        lines += ["", f"**{suite}**", "", "| row | type | ours | rate | largest error | torch's time / ours |",
                  "|---|---|---|---|---|---|",
                  *(gpu_row(record, peers) for record in records if record["suite"] == suite)]
    return "\n".join(lines) + "\n"


def table_of(path):
    data = read(path)
    if "records" not in data:
        return markdown(data)
    beside = os.path.join(os.path.dirname(path), "torch.json")
    return gpu_markdown(data, read(beside) if os.path.exists(beside) else {"torch": "not measured", "rows": []})


def page(path, check):
    """True if the page was, or is now, as its files say."""
    with open(path, encoding="utf-8") as file:
        old = file.read()
    folder = os.path.dirname(os.path.abspath(path))
    new = BLOCK.sub(lambda block: block[1] + table_of(os.path.join(folder, block[2])) + block[3], old)
    if new != old and not check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)
    return new == old or not check


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", metavar="FILE.json")
    parser.add_argument("--page", metavar="PAGE.md")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if bool(options.file) == bool(options.page):
        parser.error("either a file or a page")
    if options.file:
        print(text(read(options.file)))
    elif not page(options.page, options.check):
        sys.exit(f"{options.page} differs from the files that it names: bench/peers/table.py --page {options.page}")


if __name__ == "__main__":
    main()
