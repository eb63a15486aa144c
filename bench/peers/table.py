# SPDX-License-Identifier: MIT
"""Tables of what compare.py has measured, worst ratio first.

    table.py FILE.json

A ratio is the peer's time divided by libcompute's: above 1, libcompute is faster. bench/pages.py makes pages of these
tables.
"""
import argparse
import json

NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "torch", "torch_cl": "torch channels last",
         "torch_compile": "torch compiled", "torch_graphs": "torch compiled, CUDA graphs",
         "torch_max": "torch max-autotune", "onednn": "oneDNN", "openblas": "OpenBLAS", "mkl": "MKL"}
TITLES = {"operation": "Single operations", "network": "Inference of whole networks", "bf16": "Inference in bf16",
          "train": "Training steps"}

FIRST = ("network", "bf16")  # suites whose rows have the time until the first result


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
    """The line that is printed when a row is measured, and the row of a table in text."""
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


def first(record):
    """(ms, ratio, peer) of loading the file and the first run, the ratio to the fastest peer; None if not measured."""
    times = {engine: 1e3 * (values["load_s"] + values["first_s"]) for engine, values in record["engines"].items()
             if "load_s" in values}
    ours = times.pop("libcompute", None)
    if ours is None:
        return None
    return (ours, *min((peers / ours, engine) for engine, peers in times.items())) if times else (ours, None, None)


def rounded(ratio):
    return f"{ratio:.2f}×" if round(ratio, 2) >= 1 else f"**{ratio:.2f}×**"


def markdown_row(record):
    found = ratios(record)
    best = f"{rounded(found[0][0])} {NAMES[found[0][1]]}" if found else "–"
    others = ", ".join(f"{NAMES[engine]} {ratio:.2f}" for ratio, engine in found[1:]) or "–"
    row = f"| {record['row']} | {record['engines']['libcompute']['ms']:.4g} | {best} | {others} |"
    if record["suite"] not in FIRST:
        return row
    ms, ratio, peer = first(record) or (None, None, None)
    compared = f", {rounded(ratio)} {NAMES[peer]}" if ratio else ""
    return f"{row} {ms:.4g}{compared} |" if ms else f"{row} – |"


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.json")
    print(text(read(parser.parse_args().file)))


if __name__ == "__main__":
    main()
