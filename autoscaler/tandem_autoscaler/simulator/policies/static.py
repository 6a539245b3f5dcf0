"""A fixed number of workers, the way fleets are run without an autoscaler."""

import math
from collections.abc import Callable

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.oracle_model import true_needs
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.trace import Trace


class Static:
    name = "static"
    tick_seconds = 60.0

    def __init__(self, prefill: int, decode: int) -> None:
        self.prefill, self.decode = prefill, decode

    def step(self, fleet: Fleet) -> Targets:
        return Targets(self.prefill, self.decode)


def peak(trace: Trace, profile: Profile, *, share: float = 1.0) -> Static:
    """Sized for the busiest half minute of the trace (ALGORITHM section 5's "static peak"), or a `share` of that."""
    prefill, decode = true_needs(trace, profile, allowance=0.05)
    return Static(max(1, math.ceil(share * prefill.max())), max(1, math.ceil(share * decode.max())))


def best(attainment: Callable[[int, int], float], most: int, promise: float) -> tuple[int, int]:
    """The fewest workers (prefill, decode) with which `attainment(prefill, decode)` is at least `promise`, known
    afterwards; (`most`, `most`) when not even those reach it.

    One role's least is sought with plenty of the other; then the sums are tried in order. That is exact as far as more
    workers of a role never hurt.
    """
    if attainment(most, most) < promise:
        return most, most
    least_prefill = _least(lambda workers: attainment(workers, most) >= promise, most)
    least_decode = _least(lambda workers: attainment(most, workers) >= promise, most)
    for total in range(least_prefill + least_decode, 2 * most):
        for prefill in range(least_prefill, min(most, total - least_decode) + 1):
            if total - prefill <= most and attainment(prefill, total - prefill) >= promise:
                return prefill, total - prefill
    return most, most


def _least(enough: Callable[[int], bool], most: int) -> int:
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return high
