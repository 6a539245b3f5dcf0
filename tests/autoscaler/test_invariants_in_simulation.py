"""Invariant 23: where the demand moves, learning the headroom keeps as many promises as a constant of the same cost.

The constant's rule is told the machine's true times and ours has to learn them; otherwise both have the same levers.
"""

from collections.abc import Callable

import numpy as np
import pytest

from tandem_autoscaler.benchmark.case import Case, Stage, stage
from tandem_autoscaler.simulator.policies.constant_headroom import ConstantHeadroom
from tandem_autoscaler.simulator.policies.policy import Policy
from tandem_autoscaler.simulator.policies.tandem import TandemPolicy
from tandem_autoscaler.simulator.run import simulate

SEEDS = (1, 2)
HEADROOMS = (1.0, 1.2, 1.5, 2.0)
SECONDS = 1800.0


def mean_of(make: Callable[[Stage], Policy], trace: str, cold_start: float) -> tuple[float, float]:
    """(GPU-hours, joint attainment of the feasible requests) over the seeds."""
    found = []
    for seed in SEEDS:
        case = Case(trace, "", seed=seed, cold_start_seconds=cold_start, around_peak_seconds=SECONDS)
        on = stage(case, {"late_demotion": False})
        result = simulate(on.trace, on.hardware, on.settings, make(on), 4, 4)
        found.append((result.gpu_hours, result.attainment.joint))
    hours, kept = np.mean(found, axis=0)
    return float(hours), float(kept)


@pytest.mark.parametrize(("trace", "cold_start"), [("bursty-diurnal", 40.0), ("mix-shift", 120.0)])
def test_a_learnt_headroom_keeps_what_a_constant_of_equal_cost_keeps(trace: str, cold_start: float) -> None:
    hours, kept = mean_of(lambda on: TandemPolicy(), trace, cold_start)
    constant = sorted(
        mean_of(lambda on, h=h: ConstantHeadroom(on.believed, headroom=h), trace, cold_start)  # type: ignore[misc]
        for h in HEADROOMS
    )
    # Where ours is cheaper than any constant, the cheapest one is what it is held against.
    of_equal_cost = float(np.interp(hours, [cost for cost, _ in constant], [share for _, share in constant]))
    assert kept >= of_equal_cost - 0.01
