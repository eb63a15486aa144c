# SPDX-License-Identifier: MIT
"""The developers' goals, and how a run compares: report.py --goals.

A missed goal is shown with the measured value. Goals concern speed, not correctness.
"""

from typing import Optional

from records import Bench, Case, number, peer_name, rate_text, time_text

Seen = Optional[tuple[float, str]]  # compared with the goal, and as text

TIMES = {"open_first": 5, "compile_20_nodes": 1, "step_of_100": 1e-3, "pool_hit_1MiB": 1e-4}  # ms

# Spots per second, on a CPU on one thread.
FITS_CPU = {
    **dict.fromkeys(("XYNB_7", "XYNB_7_u16"), 6e6),
    **dict.fromkeys(("XYNB_11", "XYNB_11_u16"), 2.5e6),
    **dict.fromkeys(("XYNBS_7", "XYNBS_7_u16"), 3e6),
    **dict.fromkeys(("XYNBSXSY_7", "XYNBSXSY_7_u16"), 2e6),
    **dict.fromkeys(("XYZNB_11", "XYZNB_11_u16"), 1e6),
}
FITS_GPU = {"XYNB_7_plan": 500e6, "XYNB_7": 100e6, "XYNB_7_u16": 100e6, "XYNB_7_pinned": 100e6}

# Speed-up over the fastest peer whose name begins like this; "": any peer.
PEERS = {
    **{f"matmul_{n}": (1.0, "") for n in (64, 128, 256)},
    **{f"matmul_{n}": (0.97, "") for n in (512, 1024, 2048, 4096)},
    **{f"matmul_bias_gelu_{n}": (2.0, "torch") for n in (1024, 2048, 4096)},
    **{f"{name}_1M": (1.5, "torch") for name in ("gelu", "gelu_tanh", "tanh", "sigmoid", "exp")},
    **{f"threads_gelu_{n}": (1.0, "one thread") for n in ("1K", "10K", "100K", "1M")},
    "chain_10M": (4.0, "torch"),
    "softmax_1000x1000": (1.5, "torch"),
    "softmax_1x1M": (1.5, "torch"),
    "layer_norm_4096": (2.0, "torch"),
    "transpose_4096": (2.0, "torch"),
}
# The same, over peers that read and write the same arrays.
NETWORKS = {
    **dict.fromkeys(("conv3x3_128", "conv3x3_128_wino"), (1.8, "")),
    **dict.fromkeys(("conv3x3_56", "conv3x3_64", "conv7x7_224"), (1.1, "")),
    **dict.fromkeys(("max_pool_2x2", "average_pool_2x2"), (4.0, "torch")),
    **dict.fromkeys(("mlp_forward_128", "mlp_step_128", "cnn_step_128"), (2.0, "torch")),
    "conv1x1_56": (1.5, ""),
    "batch_norm_32": (1.0, ""),
    "softmax_1000": (1.5, "torch"),
    "layer_norm_rows": (2.0, "torch"),
}
STREAM = 0.95  # of the streaming speed, of add_10M and add_100M
FUSED = 0.95  # of the speed of the plain product, with bias and gelu
MEMORY = 0.9  # memory of a training step / planned memory, or the inverse


def compared(case: Case, prefix: str, inside: Optional[bool] = None) -> Seen:
    fastest = case.fastest(prefix, inside)
    return (fastest[1], f"{fastest[1]:.2f} × {peer_name(fastest[0])}") if fastest else None


def fused(bench: Bench, case: Case) -> Seen:
    plain = bench.named(case.name.replace("_bias_gelu", ""))
    if not plain or not plain.first["ms"]:
        return None
    part = plain.first["ms"] / case.first["ms"]
    return part, f"{part:.2f} of {plain.first['gflops']:.0f} GFLOP/s"


def streaming(bench: Bench, case: Case) -> Seen:
    part = bench.part_of_limit(case)
    return (part, f"{part:.2f}, {case.first['gbytes_s']:.1f} GB/s") if part else None


def planned_memory(case: Case) -> Seen:
    training = case.first.get("training", {})
    if not training.get("planned_bytes"):
        return None
    part = training["measured_bytes"] / training["planned_bytes"]
    return 1 - abs(1 - part), f"{part:.3f} of {training['planned_bytes'] * 1e-6:.2f} MB"


def fit_rate(bench: Bench, case: Case) -> Seen:
    """The rate of one thread on a CPU, of all of a GPU."""
    fit = case.first.get("fit") or {}
    rate = fit.get("rois_per_second_one_thread" if bench.on_cpu else "rois_per_second")
    return (rate, rate_text(rate)) if rate else None


def of_case(bench: Bench, case: Case) -> list[tuple[float, str, Seen]]:
    """The goals of a case: (minimum, as text, measured)."""
    name = case.name
    found: list[tuple[float, str, Seen]] = []
    if case.suite == "routing":  # its cases have the names of others
        return found
    if name in PEERS:
        least, prefix = PEERS[name]
        words = f"{least:g} × {peer_name(prefix) or 'the fastest peer'}"
        found.append((least, words, compared(case, prefix)))
    if name in NETWORKS:
        least, prefix = NETWORKS[name]
        words = f"{least:g} × {peer_name(prefix) or 'the fastest peer'} on the same arrays"
        found.append((least, words, compared(case, prefix, False)))
    if name in ("add_10M", "add_100M"):
        found.append((STREAM, f"{STREAM} of the streaming speed", streaming(bench, case)))
    if name.startswith("matmul_bias_gelu"):
        found.append((FUSED, f"{FUSED} of the plain product", fused(bench, case)))
    if name.endswith("_memory") and case.suite == "train":
        words = "within 10 % of the planned memory"
        found.append((MEMORY, words, planned_memory(case)))
    rate = (FITS_CPU if bench.on_cpu else FITS_GPU).get(name) if case.suite == "fit" else None
    if rate:
        where = " on one thread" if bench.on_cpu else ""
        found.append((rate, f"{rate_text(rate)}{where}", fit_rate(bench, case)))
    if name in TIMES:
        ms = case.first["ms"]
        found.append((-TIMES[name], f"at most {time_text(TIMES[name])}", (-ms, time_text(ms))))
    return found


def recorded(case: Case) -> list[tuple[str, str, bool]]:
    """The goals that compute-bench itself has recorded."""
    found = []
    for goal in {str(r["goal"]): r["goal"] for r in case.records if r.get("goal")}.values():
        unit = f" {goal['unit']}" if goal["unit"] else ""
        side = "at least" if goal["least"] else "at most"
        words = f"{goal['what']}: {side} {number(goal['allowed'])}{unit}"
        found.append((words, number(goal["seen"]) + unit, goal["met"]))
    return found


def verdicts(bench: Bench) -> list[tuple[str, str, str, bool]]:
    """(case, goal, measured, met?) of every measured case with a goal."""
    found = []
    for case in bench.cases:
        if not case.ok or not case.first["ms"]:
            continue
        for least, words, seen in of_case(bench, case):
            if seen:
                found.append((case.name, words, seen[1], seen[0] >= least))
        found += [(f"{case.name} on {case.device}", *goal) for goal in recorded(case)]
    return found
