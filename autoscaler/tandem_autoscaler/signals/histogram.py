"""Histograms of cumulative buckets, as engines export them, and what can honestly be read from them."""

import math
import operator
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cache

# A bucket without width (`le="0"`) gets one, far below what a clock can tell.
_LEAST_WIDTH = 1e-9

_Bucket = tuple[float, float, float]  # lower edge, upper edge, share of the observations


@dataclass(frozen=True, init=False)
class Histogram:
    """`counts[i]` observations lie in (edges[i-1], edges[i]]; the last edge is +Inf.

    Values are those of a counter when read from an engine, and of a window after `since`.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    total: float
    # It is asked for by nearly everybody, and again and again.
    count: float = field(init=False, compare=False, repr=False)

    def __init__(self, edges: tuple[float, ...], counts: tuple[float, ...], total: float) -> None:
        # Twenty are made per service and tick, and `dataclass` writes a slower one for a frozen class.
        self.__dict__.update(edges=edges, counts=counts, total=total, count=sum(counts))

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


def _filled(histogram: Histogram) -> list[_Bucket]:
    """Buckets with observations."""
    edges, count = histogram.edges, histogram.count
    return [
        (low, high, inside / count)
        for low, high, inside in zip((0.0, *edges), edges, histogram.counts, strict=False)
        if inside > 0
    ]


class Sum:
    """The distribution of X + Y, X and Y independent with these histograms.

    Under disaggregation the user's TTFT is the prefill worker's plus the decode worker's, and no one measures
    the sum, so it is put together here.

    With F the distribution of X and G its integral, a bucket (l, h] of Y with share q adds
    q (G(v - l) - G(v - h)) / (h - l) to P(X + Y <= v): exact, and no dearer than Y has buckets. What lies in a bucket
    without an upper edge is within nothing.
    """

    def __init__(self, first: Histogram, second: Histogram) -> None:
        """Each has observations."""
        self._first, self._second = first, second
        self._ys = [
            (low, max(high, low + _LEAST_WIDTH), q) for low, high, q in _filled(second) if high < math.inf
        ]
        # From each of `_starts` on, up to the next: F at the start, its density, and G at the start.
        self._starts: list[float] = []
        self._pieces: list[tuple[float, float, float]] = []
        below = integral = end = 0.0
        for low, high, p in _filled(first):
            if high == math.inf:
                continue
            integral += below * (low - end)
            end = max(high, low + _LEAST_WIDTH)
            density = p / (end - low)
            self._starts += (low, end)
            self._pieces.append((below, density, integral))
            integral += (end - low) * (below + p / 2.0)
            below += p
            self._pieces.append((below, 0.0, integral))

    @staticmethod
    def of(first: Histogram, second: Histogram) -> "Sum | None":
        """None without observations of either."""
        return Sum(first, second) if first.count > 0 and second.count > 0 else None

    def resolved(self, value: float) -> bool:
        """False when `value` lies within the sum of the two first buckets: then nothing is known of what is below."""
        first, second = self._first, self._second
        both = first.counts[0] > 0 and second.counts[0] > 0
        return not (both and first.edges[0] + second.edges[0] > value)

    def share_within(self, value: float) -> float:
        """P(X + Y <= value), the values of a bucket taken to lie evenly in it."""
        return sum(
            [
                q * (self._integral(value - low) - self._integral(value - high)) / (high - low)
                for low, high, q in self._ys
            ]
        )

    def tail(self, quantile: float) -> float:
        """The value below which a share of `quantile` lies.

        Twice the highest edge where it lies in the buckets without an upper one. Between two neighbouring sums of edges
        the distribution is a parabola, so three values of it tell it all.
        """
        edges_y = {edge for low, high, _ in self._ys for edge in (low, high)}
        knots = sorted({x + y for x in self._starts for y in edges_y})
        within = cache(self.share_within)
        index = bisect_left(knots, quantile - 1e-9, key=within)
        if index == len(knots):
            edges = (*self._first.edges, *self._second.edges)
            return 2.0 * max((edge for edge in edges if edge < math.inf), default=0.0)
        if index == 0:
            return knots[0]
        low, high = knots[index - 1], knots[index]
        below, middle, above = map(within, (low, (low + high) / 2.0, high))
        curve = 2.0 * (above + below - 2.0 * middle)
        slope = above - below - curve
        lacking = quantile - below
        root = slope + math.sqrt(max(0.0, slope * slope + 4.0 * curve * lacking))
        part = min(1.0, 2.0 * lacking / root) if root > 0 else 1.0
        return low + (high - low) * part

    def _integral(self, at: float) -> float:
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return 0.0
        below, density, integral = self._pieces[index]
        beyond = at - self._starts[index]
        return integral + beyond * (below + density * beyond / 2.0)
