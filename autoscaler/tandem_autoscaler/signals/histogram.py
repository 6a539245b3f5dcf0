"""Histograms of cumulative buckets, as engines export them, and what can honestly be read from them."""

import math
import operator
from bisect import bisect_left, bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Histogram:
    """`counts[i]` observations lie in (edges[i-1], edges[i]]; the last edge is +Inf.

    Values are those of a counter when read from an engine, and of a window after `since`.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    total: float

    @property
    def count(self) -> float:
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count > 0 else None

    @staticmethod
    def from_cumulative(buckets: dict[float, float], total: float) -> "Histogram | None":
        """From `le -> cumulative count`. None when there are no buckets or +Inf is missing."""
        edges = tuple(sorted(buckets))
        if not edges or edges[-1] != math.inf:
            return None
        counts, before = [], 0.0
        for edge in edges:
            counts.append(max(0.0, buckets[edge] - before))
            before = max(before, buckets[edge])
        return Histogram(edges, tuple(counts), total)

    def since(self, earlier: "Histogram") -> "Histogram | None":
        """What came after `earlier`. After a counter reset: all that the counter holds now.

        None when the edges are others: the gate has taken new targets and begun anew, at an unknown moment.
        """
        if self.edges != earlier.edges:
            return None
        if any(now < before for now, before in zip(self.counts, earlier.counts, strict=True)):
            return self
        return self.minus(earlier)

    def minus(self, earlier: "Histogram") -> "Histogram":
        """The difference to an earlier one of the same edges that is known to be no larger."""
        counts = tuple(map(operator.sub, self.counts, earlier.counts))
        return Histogram(self.edges, counts, max(0.0, self.total - earlier.total))

    def scaled(self, factor: float) -> "Histogram":
        return Histogram(self.edges, tuple(count * factor for count in self.counts), self.total * factor)

    def plus(self, other: "Histogram") -> "Histogram":
        """Both together; with differing edges, on the edges that both have (+Inf is always one)."""
        if self.edges == other.edges:
            counts = tuple(map(operator.add, self.counts, other.counts))
            return Histogram(self.edges, counts, self.total + other.total)
        shared = tuple(edge for edge in self.edges if edge in set(other.edges))
        return self._on(shared).plus(other._on(shared))

    def _on(self, edges: tuple[float, ...]) -> "Histogram":
        counts = [0.0] * len(edges)
        for edge, count in zip(self.edges, self.counts, strict=True):
            counts[bisect_left(edges, edge)] += count
        return Histogram(edges, tuple(counts), self.total)

    def share_within(self, value: float) -> "Share | None":
        """Share of the observations that are <= `value`; None without observations."""
        count = self.count
        if count <= 0:
            return None
        upto = bisect_right(self.edges, value)  # buckets wholly <= value
        below = sum(self.counts[:upto])
        if upto > 0 and self.edges[upto - 1] == value:
            return Share(below / count, below / count, below / count)
        inside = self.counts[upto]
        low = self.edges[upto - 1] if upto else 0.0
        high = self.edges[upto]
        part = 0.0 if math.isinf(high) else (value - low) / (high - low)
        return Share(
            lower=below / count,
            upper=(below + inside) / count,
            estimate=(below + inside * part) / count,
            resolved=upto > 0 or inside == 0,
        )

    def tail(self, quantile: float) -> "Tail | None":
        """The `quantile` (0..1) with its bounds; None without observations.

        In the last bucket only a lower bound is known: `upper` is inf and the value is the top edge. In the
        first bucket nothing but the edge is known: `resolved` is False and the value is no measurement.
        """
        count = self.count
        if count <= 0:
            return None
        rank, running = quantile * count, 0.0
        for index, (edge, inside) in enumerate(zip(self.edges, self.counts, strict=True)):
            if inside > 0 and running + inside >= rank - 1e-9:
                low = self.edges[index - 1] if index else 0.0
                if math.isinf(edge):
                    return Tail(low, low, math.inf, resolved=index > 0)
                part = min(1.0, max(0.0, (rank - running) / inside))
                return Tail(low + (edge - low) * part, low, edge, resolved=index > 0)
            running += inside
        return None


@dataclass(frozen=True)
class Share:
    """A share between 0 and 1 and what is certain about it.

    `resolved` is False when the value lies within the first bucket: then neither bound says anything, and
    nothing may be steered by it.
    """

    lower: float
    upper: float
    estimate: float
    resolved: bool = True


@dataclass(frozen=True)
class Tail:
    """A quantile in seconds (or whatever the histogram measures), between `lower` and `upper`."""

    value: float
    lower: float
    upper: float
    resolved: bool = True


def sum_within(first: Histogram, second: Histogram, value: float) -> Share | None:
    """Share of X + Y <= value, X and Y independent with these histograms.

    Under disaggregation the user's TTFT is the prefill worker's plus the decode worker's, and no one measures
    the sum, so it is put together here. Bounds: each observation at its bucket's upper (lower share) or lower
    edge (upper share); the estimate takes each bucket's middle (geometric means would overstate small ones).
    """
    if first.count <= 0 or second.count <= 0:
        return None
    sums = {"lower": 0.0, "upper": 0.0, "estimate": 0.0}
    resolved = True
    norm = first.count * second.count
    for i, count_x in enumerate(first.counts):
        if count_x == 0:
            continue
        low_x, high_x = first.edges[i - 1] if i else 0.0, first.edges[i]
        for j, count_y in enumerate(second.counts):
            if count_y == 0:
                continue
            low_y, high_y = second.edges[j - 1] if j else 0.0, second.edges[j]
            weight = count_x * count_y / norm
            sums["lower"] += weight * (high_x + high_y <= value)
            # Buckets are open below: what lies in (low, high] exceeds low.
            sums["upper"] += weight * (low_x + low_y < value)
            if not math.isinf(high_x + high_y):
                sums["estimate"] += weight * _overlap(low_x, high_x, low_y, high_y, value)
            if i == 0 and j == 0 and high_x + high_y > value:
                resolved = False
    return Share(sums["lower"], sums["upper"], sums["estimate"], resolved)


def _overlap(low_x: float, high_x: float, low_y: float, high_y: float, value: float) -> float:
    """P(X + Y <= value) for two uniform variables."""
    a, b = sorted((high_x - low_x, high_y - low_y))
    rest = value - low_x - low_y
    if rest <= 0:
        return 0.0
    if rest >= a + b:
        return 1.0
    if a == 0:
        return min(1.0, rest / b) if b else 1.0
    if rest <= a:
        return rest * rest / (2 * a * b)
    if rest <= b:
        return (rest - a / 2) / b
    return 1.0 - (a + b - rest) ** 2 / (2 * a * b)


def sum_tail(first: Histogram, second: Histogram, quantile: float) -> float | None:
    """The `quantile` of X + Y by bisection on `sum_within`'s estimate; None without observations."""
    if first.count <= 0 or second.count <= 0:
        return None
    finite = [edge for edge in (*first.edges, *second.edges) if not math.isinf(edge)]
    low, high = 0.0, 2.0 * max(finite, default=0.0)
    for _ in range(40):
        middle = (low + high) / 2
        share = sum_within(first, second, middle)
        if share is not None and share.estimate >= quantile:
            high = middle
        else:
            low = middle
    return high
