# SPDX-License-Identifier: MIT
"""Are results the same? Where engines disagree, onnx's evaluator in NumPy decides: judge.py MODEL INPUTS OUTPUTS."""

import subprocess
import sys

import numpy as np

# The largest difference, relative to the largest value, with which results are the same.
BOUNDS = {"float64": 1e-6, "float32": 1e-3, "float16": 2e-2, "bfloat16": 5e-2}
LOOSE = 5e-2  # arithmetic of 8 bits in between
STEPS = 256
SECONDS = 20


def step(array):
    """The distance of quantized values that have become floats again; 0 for others."""
    values = np.unique(array)
    return np.min(np.diff(values)) if 1 < len(values) <= STEPS else 0


def far(a, b, loose):
    """How far `a` is from `b`, as a multiple of the bound."""
    if a.shape != b.shape:
        return float("inf")
    if a.size == 0:
        return 0.0
    kind = str(a.dtype)
    a, b = a.astype(np.float64), b.astype(np.float64)
    odd = ~np.isfinite(b) | ~np.isfinite(a)
    if odd.any():
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if not same[odd].all():
            return float("inf")
        a, b = np.where(odd, 0, a), np.where(odd, 0, b)
    apart = np.max(np.abs(a - b))
    if kind not in BOUNDS:  # a step of quantized values
        return float(apart / (1 if loose else 0.5))
    bound = np.max(np.abs(b), initial=1e-6) * (LOOSE if loose else BOUNDS[kind])
    return float(apart / (max(bound, 1.01 * step(b)) if loose else bound))


def apart(ours, theirs, case):
    """The largest distance of all results, at most 1 if they are the same."""
    if len(ours) != len(theirs):
        return float("inf")
    if case.random:
        return 0.0 if all(a.shape == b.shape for a, b in zip(ours, theirs)) else float("inf")
    return max((far(a, b, case.loose) for a, b in zip(ours, theirs)), default=0.0)


def read(path):
    with np.load(path) as file:
        return [file[name] for name in file.files]


def reference(model, inputs, path):
    """The results of onnx's evaluator, or None."""
    try:
        subprocess.run(
            [sys.executable, __file__, model, inputs, path], timeout=SECONDS, check=True, capture_output=True
        )
        return read(path)
    except (subprocess.SubprocessError, OSError, ValueError):
        return None


def main():
    import onnx
    from onnx.reference import ReferenceEvaluator

    with np.load(sys.argv[2]) as file:
        arrays = {name: file[name] for name in file.files}
    model = onnx.load(sys.argv[1])
    if any("quantizelinear" in node.op_type.lower() for node in model.graph.node):  # it has no older ones
        model.opset_import[0].version = max(21, model.opset_import[0].version)
    results = ReferenceEvaluator(model).run(None, arrays)
    np.savez(sys.argv[3], *[np.asarray(result) for result in results])


if __name__ == "__main__":
    main()
