"""How much more unevenly than at random requests arrive, on the scale of seconds (ALGORITHM 0.4 and 4.3).

Bursts within seconds make queues; what changes over minutes is demand (demand.py) and must not be counted here too.
So the variance is taken around a moving mean.
"""

import statistics
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_KEEP_SECONDS = 300.0
# Longer intervals than this mix both scales.
_LONGEST_SECONDS = 10.0
_ENOUGH = 20
_MOVING = np.ones(7)
# A moving mean over 7 points takes part of the variance with it.
_CORRECTION = 7.0 / 6.0
PRIOR = 1.5


@lru_cache(maxsize=512)
def _points_around(points: int) -> NDArray[np.float64]:
    """How many of so many points the moving mean around each one has: fewer at both ends."""
    return np.correlate(np.ones(points), _MOVING, "same")


@dataclass(frozen=True)
class Burstiness:
    """Arrivals per tick: (n, 3) of time, seconds of the tick, requests, newest last. Never written to."""

    ticks: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 3)))

    def observed(self, now_seconds: float, seconds: float, requests: float) -> "Burstiness":
        if not 0 < seconds <= _LONGEST_SECONDS or requests < 0:
            return self
        kept = self.ticks[self.ticks[:, 0].searchsorted(now_seconds - _KEEP_SECONDS) :]
        ticks = np.empty((len(kept) + 1, 3))
        ticks[:-1], ticks[-1] = kept, (now_seconds, seconds, requests)
        return Burstiness(ticks)

    def arrival_scv(self, most: float) -> float:
        """Index of dispersion of the counts, between 1 (Poisson) and `most`; a prior while too little is known."""
        if len(self.ticks) < _ENOUGH:
            return PRIOR
        seconds = self.ticks[:, 1]
        counts = self.ticks[:, 2] * statistics.median(seconds.tolist()) / seconds
        mean = np.correlate(counts, _MOVING, "same") / _points_around(len(counts))
        total = float(np.add.reduce(mean))
        if total <= 0:
            return PRIOR
        off = counts - mean
        return min(most, max(1.0, _CORRECTION * float(off @ off) / total))
