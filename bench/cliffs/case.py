# SPDX-License-Identifier: MIT
"""A case: a kind of operation or graph, and the choices that make its model and its inputs."""

import os
import random

import numpy as np
import onnx

import elementwise  # noqa: F401 (the modules register their drawing functions)
import graphs  # noqa: F401
import graphs_text  # noqa: F401
import layers  # noqa: F401
import layouts  # noqa: F401
import others  # noqa: F401
import products  # noqa: F401
from choices import Choices
from draft import Draft
from registry import GRAPHS, OPERATORS

OPERATION_SHARE = 0.75
SMALL = 1 << 16  # bytes


class Case:
    def __init__(self, name, kind, choices):
        self.name, self.kind, self.family = name, kind, "operation" if kind in OPERATORS else "graph"
        draw, opset, _ = (OPERATORS if kind in OPERATORS else GRAPHS)[kind]
        draft = Draft("case", choices, opset)
        if self.family == "operation":
            draw(draft, kind)
        else:
            draw(draft)
        self.choices, self.lowest = choices.made, choices.lowest
        self.arrays, self.words, self.loose, self.random = draft.arrays, draft.words(), draft.loose, draft.random_result
        self.proto = draft.model()
        self.bytes = sum(a.nbytes for a in self.arrays.values()) + sum(len(w.raw_data) for w in draft.weights)

    def with_choices(self, choices):
        return Case(self.name, self.kind, Choices(record=choices))

    def text(self):
        """Repeats the case on the command line, whatever the other kinds are."""
        return f"{self.kind}={','.join(map(str, self.choices))}"

    def write(self, folder, name="case"):
        """The paths of the model and its inputs."""
        model, inputs = os.path.join(folder, name + ".onnx"), os.path.join(folder, name + ".npz")
        onnx.save(self.proto, model)
        np.savez(inputs, **self.arrays)
        return model, inputs


def kinds(patterns=None):
    """Names and weights of all kinds, or of those with one of the names."""
    found = {**OPERATORS, **GRAPHS}
    return {name: found[name] for name in sorted(found) if not patterns or name in patterns}


def drawn(seed, index, only=None):
    """The same for the same arguments, as long as kinds and drawing functions are. Small cases are drawn again, up to
    three times, as their times are dominated by the call."""
    random_ = random.Random(f"{seed}:{index}")
    table = kinds(only)
    family = OPERATORS if random_.random() < OPERATION_SHARE else GRAPHS
    names = [name for name in table if name in family] or list(table)
    kind = random_.choices(names, [table[name][2] for name in names])[0]
    for attempt in range(4):
        case = Case(f"{seed}:{index}", kind, Choices(seed=f"{seed}:{index}:{kind}:{attempt}"))
        if case.bytes >= SMALL:
            break
    return case


def again(record):
    return Case(record["case"], record["kind"], Choices(record=record["choices"]))


def repeated(text, only=None):
    """From "SEED:INDEX", or from the text of a case."""
    kind, equal, numbers = text.partition("=")
    if equal:
        return Case(text, kind, Choices(record=[int(n) for n in numbers.split(",") if n]))
    seed, _, index = text.partition(":")
    return drawn(int(seed), int(index), only)
