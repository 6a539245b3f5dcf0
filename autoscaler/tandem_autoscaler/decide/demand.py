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
# From so many on, none of which was as high as the prior, the highest of them stands for it.
SOME_RATIOS = 30
LEAST_RATIO, MOST_RATIO = 0.6, 4.0
# A forecast is judged only when this share of its horizon was observed: an outage of the metrics proves nothing.
_OBSERVED_SHARE = 0.7
# From next to nothing anything may come; no multiple of nothing is a headroom.
_FROM_NOTHING = 50.0
# A mean request that turns out to be other than it was thought by more than this share changes the newest point.
_OTHER_WORK = 0.2
_NEVER = math.inf  # marks a forecast that cannot be judged any more
# Holt's damped trend on the logarithm: weights of level and trend, damping, all per 15 s, and bounds on the jump.
_LEVEL, _TREND, _DAMPING, _PER_SECONDS = 0.4, 0.08, 0.92, 15.0
_LEAST_JUMP, _MOST_JUMP = -0.2, 0.7


_HIGHEST_OF = np.array(_HIGHEST_OF_SECONDS) + 1e-6
_NOT_YET = np.full((len(EXPERTS), 1), np.nan)


def _none() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Demand:
    """What was asked for over the last two hours, and how the experts' forecasts came out.

    `at` (n) seconds, `rate` (n) per second, `forecasts` (experts, n) per second, `ratios` (experts, n): highest rate
    within the horizon over the forecast, NaN until the horizon is over, inf when too little of it was observed. The
    arrays are never written to.
    """

    at: Array = field(default_factory=_none)
    rate: Array = field(default_factory=_none)
    forecasts: Array = field(default_factory=lambda: np.empty((len(EXPERTS), 0)))
    ratios: Array = field(default_factory=lambda: np.empty((len(EXPERTS), 0)))
    level: float | None = None  # Holt's, of the logarithm of the rate
    trend: float = 0.0
    remembered_ratio: float | None = None  # from before a restart
    each: float | None = None  # work of a mean request, as it was known at the newest point
    # There is a new point every few ticks only, and until then the quantiles are the same.
    _highest: dict[tuple[float, float], "Forecast"] = field(default_factory=dict, compare=False, repr=False)

    def observed(
        self, now_seconds: float, rate: float, horizon_seconds: float, *, each: float | None = None
    ) -> "Demand":
        """With one more measured rate, if the last one is a step old; else with the last one set right.

        `rate` is in units of work, of which a mean request brings `each`. When short requests follow long ones they
        are counted before their lengths are known, and would seem a multiple of themselves until the next point.
        """
        if len(self.at) and now_seconds - self.at[-1] < STEP_SECONDS - 1e-6:
            known = each is None or self.each is None or abs(each - self.each) <= _OTHER_WORK * self.each
            return self if known else self._amended(rate, horizon_seconds, each)
        level, trend = self._holt(now_seconds, rate)
        first = int(self.at.searchsorted(now_seconds - KEEP_SECONDS))
        at = np.concatenate((self.at[first:], (now_seconds,)))
        rates = np.concatenate((self.rate[first:], (rate,)))
        made = _experts(at, rates, level, trend, horizon_seconds)
        forecasts = np.concatenate((self.forecasts[:, first:], made), axis=1)
        ratios = np.concatenate((self.ratios[:, first:], _NOT_YET), axis=1)
        _judge(at, rates, forecasts, ratios, horizon_seconds)
        return Demand(at, rates, forecasts, ratios, level, trend, self.remembered_ratio, each)

    def _amended(self, rate: float, horizon_seconds: float, each: float | None) -> "Demand":
        """The newest point with another rate; the trend follows at the next one."""
        rates, forecasts = self.rate.copy(), self.forecasts.copy()
        rates[-1] = rate
        forecasts[:, -1:] = _experts(self.at, rates, math.log(max(rate, 1e-3)), self.trend, horizon_seconds)
        return Demand(
            self.at, rates, forecasts, self.ratios, self.level, self.trend, self.remembered_ratio, each
        )

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
        found = self._highest.get((quantile, prior_ratio))
        if found is None:
            found = self._highest[quantile, prior_ratio] = self._forecast(quantile, prior_ratio)
        return found

    def _forecast(self, quantile: float, prior_ratio: float) -> "Forecast":
        now = self.forecasts[:, -1]
        judged = int(np.count_nonzero(np.isfinite(self.ratios[0])))
        if judged < ENOUGH_RATIOS:
            # A restart need not learn anew what it had known: the larger one protects until it has.
            ratio = max(self._first_ratio(prior_ratio, judged), self.remembered_ratio or 0.0)
            return Forecast(float(now[0] * ratio), EXPERTS[0], ratio, judged)
        found = _quantiles(self.ratios, judged, min(1.0, quantile * (1.0 + 1.0 / judged)))
        found = np.minimum(np.maximum(found, LEAST_RATIO), MOST_RATIO)
        cost = found * np.add.reduce(self.forecasts / np.maximum(self.rate, 1e-6), axis=1)
        best = int(cost.argmin())
        return Forecast(float(now[best] * found[best]), EXPERTS[best], float(found[best]), judged)

    def _first_ratio(self, prior_ratio: float, judged: int) -> float:
        """The prior, or less where a smooth load has shown that it is too much."""
        if judged < SOME_RATIOS:
            return prior_ratio
        seen = self.ratios[0]
        return min(prior_ratio, max(1.0, float(seen[np.isfinite(seen)].max())))

    def widened(self, quantile: float, horizon_seconds: float) -> float | None:
        """The `quantile` of the highest rate within a horizon that no forecast was made for, from the latest rate.

        Never above the highest rate seen. None while less than two such horizons were observed.
        """
        if len(self.at) < 2:
            return None
        step = _step_seconds(self.at)
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


def _quantiles(ratios: Array, judged: int, rank: float) -> Array:
    """Of each row's finite values, of which there are so many; between two of them in proportion, as np.quantile."""
    place = rank * (judged - 1)
    low = min(int(place), judged - 1)
    high = min(low + 1, judged - 1)
    # Infinite ones come last, then NaN.
    ordered = np.partition(ratios, (low, high), axis=1)
    below, above, part = ordered[:, low], ordered[:, high], place - low
    return below + (above - below) * part if part < 0.5 else above - (above - below) * (1.0 - part)


def _experts(at: Array, rates: Array, level: float, trend: float, horizon: float) -> Array:
    """Each expert's forecast at the newest time: (experts, 1)."""
    rate = float(rates[-1])
    begins = at.searchsorted(at[-1] - _HIGHEST_OF).tolist()
    longest = rates[begins[-1] :].tolist()
    highest = [max(longest[begin - begins[-1] :]) for begin in begins]
    steps = int(horizon / _PER_SECONDS) + 1
    jump = trend * _DAMPING * (1 - _DAMPING**steps) / (1 - _DAMPING)
    ahead = math.exp(level + min(max(jump, _LEAST_JUMP), _MOST_JUMP))
    return np.array([[max(found, 1e-6)] for found in (rate, *highest, max(rate, ahead))])


def _step_seconds(at: Array) -> float:
    """The median time between two points."""
    if len(at) < 2:
        return STEP_SECONDS
    steps, middle = at[1:] - at[:-1], (len(at) - 1) // 2
    if len(steps) % 2:
        return max(STEP_SECONDS, float(np.partition(steps, middle)[middle]))
    steps = np.partition(steps, (middle - 1, middle))
    return max(STEP_SECONDS, float(steps[middle - 1] + steps[middle]) / 2.0)


def _judge(at: Array, rates: Array, forecasts: Array, ratios: Array, horizon: float) -> None:
    """Fill in the ratios of the forecasts whose horizon is over. `ratios` is this call's own copy."""
    over = int(at.searchsorted(at[-1] - horizon + 1e-6))
    if not over or not math.isnan(ratios[0, over - 1]):
        return
    expected = _OBSERVED_SHARE * horizon / _step_seconds(at)
    for index in range(over - 1, -1, -1):
        if not math.isnan(ratios[0, index]):
            break
        last = int(at.searchsorted(at[index] + horizon + 1e-6))
        seen = rates[index + 1 : last]
        if len(seen) < max(1.0, expected):
            ratios[:, index] = _NEVER
            continue
        found = seen.max() / forecasts[:, index]
        ratios[:, index] = found if 0.0 < found[0] <= _FROM_NOTHING else _NEVER
