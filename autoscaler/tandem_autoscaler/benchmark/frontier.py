"""Cost at equal attainment: what a policy pays for a promise, read off the line through its own sweep."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, order=True)
class Point:
    """GPU-hours of a run, and the joint attainment of its feasible requests, 0 to 1."""

    gpu_hours: float
    attainment: float


def frontier(points: Iterable[Point]) -> list[Point]:
    """Those that no other point beats: cost and attainment both ascending."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.gpu_hours, -point.attainment)):
        if not best or point.attainment > best[-1].attainment:
            best.append(point)
    return best


def cost_at(points: Iterable[Point], attainment: float) -> float | None:
    """GPU-hours at which the frontier reaches `attainment`: straight between its points, None beyond its best.

    Below its cheapest point the frontier is not known, and that point is what a lower attainment costs.
    """
    line = frontier(points)
    if not line or attainment > line[-1].attainment:
        return None
    return float(
        np.interp(attainment, [point.attainment for point in line], [point.gpu_hours for point in line])
    )


def cheapest_reaching(points: Iterable[Point], attainment: float) -> float | None:
    """GPU-hours of the cheapest of the points that has at least this attainment; nothing in between is assumed."""
    return min((point.gpu_hours for point in points if point.attainment >= attainment), default=None)


# Student's t, two-sided 95 %, by degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL95 = 1.96


@dataclass(frozen=True)
class Mean:
    """Mean over seeds with the half-width of its 95 % confidence interval; `half` is None with one seed."""

    value: float
    half: float | None

    @property
    def low(self) -> float:
        return self.value - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.value + (self.half or 0.0)


def mean(values: Sequence[float]) -> Mean:
    """At least one value."""
    array = np.asarray(values, dtype=float)
    if len(array) < 2:
        return Mean(float(array.mean()), None)
    freedom = len(array) - 1
    t = _T95[freedom - 1] if freedom <= len(_T95) else _NORMAL95
    return Mean(float(array.mean()), float(t * array.std(ddof=1) / np.sqrt(len(array))))
