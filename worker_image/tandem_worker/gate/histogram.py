"""A Prometheus histogram with edges that can be exact, and the attainment read from it."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

# Roughly 1-2-5 per decade around what people aim at: 0.1 s to 10 s for TTFT, 10 ms to 200 ms for TPOT.
TTFT_EDGES = (
    0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0,
    15.0, 20.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
TPOT_EDGES = (
    0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.15, 0.2, 0.3,
    0.5, 0.75, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
# Two per octave from 32 to 131072 tokens: a prompt's time is known from its bucket within about 20 %.
PROMPT_TOKEN_EDGES = tuple(round(2 ** (k / 2), 6) for k in range(10, 35))
# Around a target a tail that comes near it shows before it is missed.
AROUND_TARGET = (0.5, 0.8, 1.0, 1.25, 2.0)


def edges_with_target(edges: Sequence[float], target: float | None) -> tuple[float, ...]:
    """`edges` in order, with `target` among them exactly, and some edges around it."""
    if target is None:
        return tuple(sorted(set(edges)))
    return tuple(
        sorted({*edges, *(round(target * factor, 9) for factor in AROUND_TARGET if factor != 1), target})
    )


class Histogram:
    """Counts per bucket: `counts[i]` holds values in (edges[i-1], edges[i]], the last one those above all."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        if not edges or any(b <= a for a, b in pairwise(edges)):
            raise ValueError("edges must ascend")
        self.edges = tuple(edges)
        self.counts = [0] * (len(edges) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[float, int]]:
        """(edge, number of values <= edge), +Inf last."""
        running = 0
        pairs = []
        for edge, count in zip((*self.edges, math.inf), self.counts, strict=True):
            running += count
            pairs.append((edge, running))
        return pairs

    def attainment(self, target: float) -> float | None:
        """Share of the values that are <= `target`: exact when the target is an edge.

        Raises:
            ValueError: the target is no edge, so the share could only be bounded.

        Returns None when there are no values: unknown is not zero.
        """
        if target not in self.edges:
            raise ValueError(f"{target} is no edge of this histogram")
        count = sum(self.counts)
        return sum(self.counts[: self.edges.index(target) + 1]) / count if count else None

    def add(self, counts: Iterable[int], total: float) -> None:
        """Add another process's counts; the edges must be the same ones."""
        self.counts = [a + b for a, b in zip(self.counts, counts, strict=True)]
        self.total += total
