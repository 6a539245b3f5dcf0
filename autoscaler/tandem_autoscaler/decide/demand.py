"""How much may be asked for by the time that a worker ordered now can serve (ALGORITHM 4.6).

A worker ordered now serves one cold start later. What is sized for is therefore not the present arrival rate but a
quantile of the highest one until then. No forecaster is trusted with it: a few plain ones ("experts") each keep the
ratios by which the truth then exceeded their forecasts, and the quantile of those ratios is the headroom (split
conformal prediction: Vovk, Gammerman, Shafer 2005; the same for time series: Xu, Xie 2021). All experts so corrected
cover the truth equally often, so the one that has been cheapest is believed. Smooth traffic thus earns a small
headroom and bursty traffic pays for a large one, without anybody choosing it.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EXPERTS = ("present", "highest of 2 min", "highest of 5 min", "highest of 10 min", "trend")
_HIGHEST_OF_SECONDS = (120.0, 300.0, 600.0)
KEEP_SECONDS = 7200.0
# Points are at least this far apart, whatever the tick: two hours are then 720 points, 60 kB.
STEP_SECONDS = 10.0
# Fewer ratios than these are no distribution: the one rise with which a load begins would be half of it.
ENOUGH_RATIOS = 60
LEAST_RATIO, MOST_RATIO = 0.6, 4.0
# A forecast is judged only when this share of its horizon was observed: an outage of the metrics proves nothing.
_OBSERVED_SHARE = 0.7
# From next to nothing anything may come; no multiple of nothing is a headroom.
_FROM_NOTHING = 50.0
_NEVER = -1.0  # marks a forecast that cannot be judged any more
# Holt's damped trend on the logarithm: weights of level and trend, damping, all per 15 s, and bounds on the jump.
_LEVEL, _TREND, _DAMPING, _PER_SECONDS = 0.4, 0.08, 0.92, 15.0
_LEAST_JUMP, _MOST_JUMP = -0.2, 0.7


def _none() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Demand:
    """What was asked for over the last two hours, and how the experts' forecasts came out.

    `at` (n) seconds, `rate` (n) per second, `forecasts` (experts, n) per second, `ratios` (experts, n): highest rate
    within the horizon over the forecast, NaN until the horizon is over, -1 when too little of it was observed. The
    arrays are never written to.
    """

    at: Array = field(default_factory=_none)
    rate: Array = field(default_factory=_none)
    forecasts: Array = field(default_factory=lambda: np.empty((len(EXPERTS), 0)))
    ratios: Array = field(default_factory=lambda: np.empty((len(EXPERTS), 0)))
    level: float | None = None  # Holt's, of the logarithm of the rate
    trend: float = 0.0
    remembered_ratio: float | None = None  # from before a restart

    def observed(self, now_seconds: float, rate: float, horizon_seconds: float) -> "Demand":
        """With one more measured rate, if the last one is a step old."""
        if len(self.at) and now_seconds - self.at[-1] < STEP_SECONDS - 1e-6:
            return self
        level, trend = self._holt(now_seconds, rate)
        first = int(np.searchsorted(self.at, now_seconds - KEEP_SECONDS))
        at = np.append(self.at[first:], now_seconds)
        rates = np.append(self.rate[first:], rate)
        made = _experts(at, rates, level, trend, horizon_seconds)
        forecasts = np.concatenate([self.forecasts[:, first:], made[:, None]], axis=1)
        ratios = np.concatenate([self.ratios[:, first:], np.full((len(EXPERTS), 1), np.nan)], axis=1)
        _judge(at, rates, forecasts, ratios, horizon_seconds)
        return Demand(at, rates, forecasts, ratios, level, trend, self.remembered_ratio)

    def _holt(self, now: float, rate: float) -> tuple[float, float]:
        """Level and trend (per 15 s) of log(rate)."""
        y = math.log(max(rate, 1e-3))
        if self.level is None:
            return y, 0.0
        steps = min(max(now - float(self.at[-1]), 0.0), 60.0) / _PER_SECONDS
        a, b, damping = min(1.0, _LEVEL * steps), min(1.0, _TREND * steps), _DAMPING**steps
        level = a * y + (1 - a) * (self.level + damping * self.trend * steps)
        moved = (level - self.level) / max(steps, 1e-9)
        return level, b * moved + (1 - b) * damping * self.trend

    def highest(self, quantile: float, prior_ratio: float) -> "Forecast | None":
        """The `quantile` (0..1) of the highest rate within the horizon; None while nothing was measured."""
        if not len(self.at):
            return None
        now = self.forecasts[:, -1]
        usable = self.ratios[0] > 0  # neither NaN (not yet) nor `_NEVER`
        judged = self.ratios[:, usable]
        if judged.shape[1] < ENOUGH_RATIOS:
            # A restart need not learn anew what it had known: the larger one protects until it has.
            ratio = max(prior_ratio, self.remembered_ratio or 0.0)
            return Forecast(float(now[0] * ratio), EXPERTS[0], ratio, judged.shape[1])
        rank = min(1.0, quantile * (1.0 + 1.0 / judged.shape[1]))
        found = np.quantile(judged, rank, axis=1)
        found = np.clip(found, LEAST_RATIO, MOST_RATIO)
        cost = found * np.mean(self.forecasts / np.maximum(self.rate, 1e-6), axis=1)
        best = int(np.argmin(cost))
        return Forecast(float(now[best] * found[best]), EXPERTS[best], float(found[best]), judged.shape[1])

    def widened(self, quantile: float, horizon_seconds: float) -> float | None:
        """The `quantile` of the highest rate within a horizon that no forecast was made for, from the latest rate.

        Never above the highest rate seen. None while less than two such horizons were observed.
        """
        if len(self.at) < 2:
            return None
        step = max(STEP_SECONDS, float(np.median(np.diff(self.at))))
        width = max(1, round(horizon_seconds / step))
        if len(self.rate) < 2 * width + 1:
            return None
        highest = np.lib.stride_tricks.sliding_window_view(self.rate[1:], width).max(axis=1)
        ratios = highest / np.maximum(self.rate[: len(highest)], 1e-6)
        ratio = float(np.clip(np.quantile(ratios, quantile), 1.0, MOST_RATIO))
        return min(float(self.rate[-1]) * ratio, float(self.rate.max()))


@dataclass(frozen=True)
class Forecast:
    """`rate` per second = the expert's forecast x `ratio`, the headroom learnt from `judged` earlier forecasts."""

    rate: float
    expert: str
    ratio: float
    judged: int


def _experts(at: Array, rates: Array, level: float, trend: float, horizon: float) -> Array:
    """Each expert's forecast at the newest time."""
    now, rate = at[-1], float(rates[-1])
    highest = [float(rates[np.searchsorted(at, now - span - 1e-6) :].max()) for span in _HIGHEST_OF_SECONDS]
    steps = int(horizon / _PER_SECONDS) + 1
    jump = trend * _DAMPING * (1 - _DAMPING**steps) / (1 - _DAMPING)
    ahead = math.exp(level + min(max(jump, _LEAST_JUMP), _MOST_JUMP))
    return np.maximum(np.array([rate, *highest, max(rate, ahead)]), 1e-6)


def _judge(at: Array, rates: Array, forecasts: Array, ratios: Array, horizon: float) -> None:
    """Fill in the ratios of the forecasts whose horizon is over. `ratios` is this call's own copy."""
    over = int(np.searchsorted(at, at[-1] - horizon + 1e-6))
    expected = (
        _OBSERVED_SHARE * horizon / max(STEP_SECONDS, float(np.median(np.diff(at))) if len(at) > 1 else 1.0)
    )
    for index in range(over - 1, -1, -1):
        if not np.isnan(ratios[0, index]):
            break
        last = int(np.searchsorted(at, at[index] + horizon + 1e-6))
        seen = rates[index + 1 : last]
        if len(seen) < max(1.0, expected):
            ratios[:, index] = _NEVER
            continue
        found = seen.max() / forecasts[:, index]
        ratios[:, index] = _NEVER if found[0] > _FROM_NOTHING else found
