"""A series as one line of text."""

import itertools

import numpy as np
from numpy.typing import NDArray

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: NDArray[np.int64] | NDArray[np.float64], width: int, most: float) -> str:
    """`width` characters; each is the highest value of its stretch. A full bar is `most`, the lowest one 0."""
    if not len(values):
        return ""
    edges = np.arange(width + 1) * len(values) // width
    peaks = [
        float(np.max(values[start : max(end, start + 1)]))
        for start, end in itertools.pairwise(edges.tolist())
    ]
    return "".join(_BARS[_level(peak, most)] for peak in peaks)


def _level(value: float, most: float) -> int:
    return min(len(_BARS) - 1, max(0, round(value / most * (len(_BARS) - 1)))) if most > 0 else 0
