"""The load as the sized baselines see it: arrivals and prompts at the gateway, output length from the engines."""

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.policies.window import Window
from tandem_autoscaler.simulator.view import FleetView

RATE_SECONDS = 60.0
LENGTHS_SECONDS = 300.0
_FEW = 20


class Traffic:
    """Call `update` once per tick, then read."""

    def __init__(self, output_tokens: float) -> None:
        """`output_tokens`: taken until answers have finished."""
        self.output_tokens = output_tokens
        self.arrivals_per_second = 0.0
        self.prompts: NDArray[np.float64] = np.empty(0)
        self.arrival_scv = 1.0
        self._prior_output = output_tokens
        self._made = Window(RATE_SECONDS)
        self._finished = Window(RATE_SECONDS)
        self._output_sum = Window(LENGTHS_SECONDS)
        self._output_count = Window(LENGTHS_SECONDS)
        self._summed = 0.0

    def update(self, view: FleetView) -> None:
        now = view.now_seconds
        self.arrivals_per_second = arrivals_per_second(view, RATE_SECONDS)
        since = int(np.searchsorted(view.arrival, now - LENGTHS_SECONDS))
        self.prompts = view.prompt[since:]
        self.arrival_scv = dispersion(view.arrival[since:], now)
        self._summed += float(view.new_finished_output.sum())
        self._made.add(now, view.output_tokens_made)
        self._finished.add(now, view.finished)
        self._output_sum.add(now, self._summed)
        self._output_count.add(now, view.finished)
        finished = self._output_count.growth
        mean = self._output_sum.growth / finished if finished >= _FEW else self._prior_output
        # Those finished so far are short-biased after a shift to long answers; tokens per finish are not.
        exposure = self._made.growth / max(1.0, self._finished.growth)
        enough = self._finished.growth >= _FEW or self._made.growth >= _FEW * mean
        self.output_tokens = min(max(exposure, 0.7 * mean), 4.0 * mean) if enough else mean


def arrivals_per_second(view: FleetView, seconds: float) -> float:
    """Mean over the last `seconds`, or over what there is of them."""
    span = min(seconds, view.now_seconds)
    if span <= 0:
        return 0.0
    return (len(view.arrival) - int(np.searchsorted(view.arrival, view.now_seconds - span))) / span


def dispersion(arrival: NDArray[np.float64], now_seconds: float) -> float:
    """Variance over mean of the counts in 5 s, with what moves over half a minute taken out, between 1 and 8.

    ALGORITHM 4.3. The centred mean over seven counts takes 1/7 of the variance of independent counts with it.
    """
    start = max(0.0, now_seconds - LENGTHS_SECONDS)
    bins = int((now_seconds - start) // 5.0)
    if bins < 20 or len(arrival) == 0:
        return 1.0
    counts = np.histogram(arrival, bins=now_seconds - 5.0 * np.arange(bins, -1, -1))[0].astype(float)
    around = np.convolve(counts, np.ones(7), "same") / np.convolve(np.ones(bins), np.ones(7), "same")
    index = float(np.mean((counts - around) ** 2 / np.maximum(around, 1e-6))) * 7.0 / 6.0
    return min(8.0, max(1.0, index))
