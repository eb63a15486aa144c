# SPDX-License-Identifier: MIT
"""Random choices that are recorded, so that a case can be repeated, changed and reduced.

A drawing function asks for sizes and alternatives one by one. From a seed, the answers are random. From a record, they
are its numbers, limited to the possible ones. After the end of a record, the answer is the simplest one: the
lowest size, the first alternative. So every list of numbers is a case, and lower numbers make a simpler one.
"""

import math
import random

OFTEN = (1, 2, 3, 4, 7, 8, 16)


class Choices:
    def __init__(self, seed=None, record=None):
        self.random = random.Random(seed) if record is None else None
        self.given = list(record or [])
        self.made = []  # numbers, one for each question
        self.lowest = []  # the simplest answer to each question

    def answer(self, low, high, draw):
        place = len(self.made)
        if self.random is not None:
            value = draw()
        else:
            value = self.given[place] if place < len(self.given) else low
        value = min(max(int(value), low), high)
        self.made.append(value)
        self.lowest.append(low)
        return value

    def size(self, low=1, high=1024):
        """Log-uniform, and often a small size at which code is likely to change its path."""

        def draw():
            often = [n for n in OFTEN if low <= n <= high]
            if often and self.random.random() < 0.35:
                return self.random.choice(often)
            value = round(math.exp(self.random.uniform(math.log(low), math.log(high + 0.5))))
            # Widths of real networks are multiples of 8.
            return value // 8 * 8 if value > 16 and self.random.random() < 0.5 else value

        return self.answer(low, high, draw)

    def pick(self, *options, weights=None):
        """The simplest option comes first."""

        def draw():
            return self.random.choices(range(len(options)), weights)[0]

        return options[self.answer(0, len(options) - 1, draw)]

    def chance(self, probability=0.5):
        return bool(self.answer(0, 1, lambda: self.random.random() < probability))

    def shape(self, rank, elements=1 << 20, high=4096):
        """Sizes of a tensor of at most `elements` elements; its largest sizes are halved until they fit."""
        return self.limit([self.size(1, high) for _ in range(rank)], elements)

    @staticmethod
    def limit(sizes, elements):
        sizes = list(sizes)
        while math.prod(sizes) > elements:
            largest = sizes.index(max(sizes))
            sizes[largest] = max(1, sizes[largest] // 2)
        return sizes
