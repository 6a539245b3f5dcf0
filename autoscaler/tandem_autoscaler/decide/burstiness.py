"""How much more unevenly than at random requests arrive, on the scale of seconds (ALGORITHM 0.4 and 4.3).

Bursts within seconds make queues; what changes over minutes is demand (demand.py) and must not be counted here too.
So the variance is taken around a moving mean.
"""

from dataclasses import dataclass

import numpy as np

_KEEP_SECONDS = 300.0
# Longer intervals than this mix both scales.
_LONGEST_SECONDS = 10.0
_ENOUGH, _MOVING = 20, 7
# A moving mean over 7 points takes part of the variance with it.
_CORRECTION = 7.0 / 6.0
PRIOR = 1.5


@dataclass(frozen=True)
class Burstiness:
    """Arrivals per tick: (time, seconds of the tick, requests), newest last."""

    ticks: tuple[tuple[float, float, float], ...] = ()

    def observed(self, now_seconds: float, seconds: float, requests: float) -> "Burstiness":
        if not 0 < seconds <= _LONGEST_SECONDS or requests < 0:
            return self
        kept = tuple(tick for tick in self.ticks if now_seconds - tick[0] <= _KEEP_SECONDS)
        return Burstiness((*kept, (now_seconds, seconds, requests)))

    def arrival_scv(self, most: float) -> float:
        """Index of dispersion of the counts, between 1 (Poisson) and `most`; a prior while too little is known."""
        if len(self.ticks) < _ENOUGH:
            return PRIOR
        seconds = np.array([tick[1] for tick in self.ticks])
        counts = np.array([tick[2] for tick in self.ticks]) * np.median(seconds) / seconds
        kernel = np.ones(_MOVING)
        mean = np.convolve(counts, kernel, "same") / np.convolve(np.ones_like(counts), kernel, "same")
        if mean.sum() <= 0:
            return PRIOR
        dispersion = _CORRECTION * float(((counts - mean) ** 2).sum() / mean.sum())
        return min(most, max(1.0, dispersion))
