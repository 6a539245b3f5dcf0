"""Filling the workers' histograms is left out where nobody reads them, and changes nothing else."""

import numpy as np
import pytest

from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.static import Static
from tandem_autoscaler.simulator.policies.tandem import TandemPolicy
from tandem_autoscaler.simulator.readings import Readings
from tandem_autoscaler.simulator.run import simulate
from tandem_autoscaler.simulator.trace import Trace

HARDWARE = Hardware("small", 1, (0.02, 1e-4, 1e-9), (0.01, 1e-4, 1e-7), kv_tokens=60_000)
SETTINGS = FleetSettings(1.0, 0.03, cold_start_seconds=20.0, late_demotion=True)


def trace() -> Trace:
    random = np.random.default_rng(4)
    arrival = np.sort(random.uniform(0.0, 120.0, 600))
    prompt = random.choice([200.0, 1500.0, 6000.0], len(arrival))
    return Trace("mixed", arrival, prompt, random.integers(1, 120, len(arrival)).astype(float), 120.0)


def run(*, exporting: bool) -> Fleet:
    fleet = Fleet(trace(), HARDWARE, SETTINGS, 2, 2)
    fleet.exporting = exporting
    for now in range(0, 300, 5):
        fleet.advance(float(now))
        fleet.set_targets(2 + now % 3, 2 + now % 2)
    return fleet


def test_they_are_filled_unless_somebody_says_otherwise() -> None:
    assert Fleet(trace(), HARDWARE, SETTINGS, 1, 1).exporting
    assert run(exporting=True).state.counts.any()
    assert not run(exporting=False).state.counts.any()


def test_every_request_goes_the_same_way_without_them() -> None:
    filled, left_out = run(exporting=True).state, run(exporting=False).state
    assert filled.fleet["finished"][0] == 600
    for column in filled.requests.dtype.names:
        assert np.array_equal(filled.requests[column], left_out.requests[column]), column
    for column in filled.workers.dtype.names:
        assert np.array_equal(filled.workers[column], left_out.workers[column]), column


def test_a_policy_that_reads_them_finds_them_and_another_does_not_pay_for_them() -> None:
    seen: list[Fleet] = []

    class Looking(Static):
        def step(self, fleet: Fleet):  # type: ignore[no-untyped-def]
            seen.append(fleet)
            return super().step(fleet)

    simulate(trace(), HARDWARE, SETTINGS, Looking(2, 2), 2, 2)
    assert not seen[-1].exporting and not seen[-1].state.counts.any()

    class Reading(TandemPolicy):
        def step(self, fleet: Fleet):  # type: ignore[no-untyped-def]
            seen.append(fleet)
            return super().step(fleet)

    simulate(trace(), HARDWARE, SETTINGS, Reading(), 2, 2)
    # From the very first request on: each that has ended was counted.
    ttft = seen[-1].state.counts[:, 0, :-1].sum()
    assert seen[-1].exporting and ttft == pytest.approx(2 * 600)


def test_reading_a_fleet_lets_its_histograms_be_filled() -> None:
    fleet = Fleet(trace(), HARDWARE, SETTINGS, 2, 2)
    fleet.exporting = False
    Readings(fleet)
    assert fleet.exporting
