"""Poisson arrivals at a rate that moves."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# The rate is taken as constant over one step.
_STEP_SECONDS = 1.0


def poisson(
    random: np.random.Generator,
    duration_seconds: float,
    rate_per_second: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    step_seconds: float = _STEP_SECONDS,
) -> NDArray[np.float64]:
    """Arrival times, ascending, of an inhomogeneous Poisson process over [0, duration_seconds).

    `rate_per_second` gives the rate at the middle of each step.
    """
    edges = np.append(np.arange(0.0, duration_seconds, step_seconds), duration_seconds)
    widths = np.diff(edges)
    count = random.poisson(rate_per_second(edges[:-1] + widths / 2) * widths)
    start, width = np.repeat(edges[:-1], count), np.repeat(widths, count)
    return np.sort(start + random.random(len(start)) * width)
