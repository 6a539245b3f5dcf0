"""The event loop jumps over iterations; stepping through each of them gives the same times."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.run import result
from tandem_autoscaler.simulator.trace import Trace
from tests.simulator.iteration_reference import Reference, Request

H100_70B = Hardware("h100-70b", 4, (0.03, 79e-6, 7.4e-10), (0.0149, 79e-6, 35e-9), 421_000)
SLOW = Hardware("slow", 1, (0.05, 2e-4, 1e-8), (0.01, 5e-4, 2e-7), 6_000, max_sequences=8)
TIGHT = Hardware(
    "tight", 1, (0.02, 1e-4, 0.0), (0.02, 1e-3, 1e-6), 1_500, max_sequences=16,
    transfer_base_seconds=0.0, transfer_seconds_per_token=1e-5,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    hardware: Hardware
    rate: float
    prompt: float
    output: float
    prefill: int
    decode: int
    requests: int = 300
    round_robin: bool = False
    cold_start: float = 10.0
    targets: tuple[tuple[float, int, int], ...] = field(default=())


CASES = (
    Case("one of each", SLOW, 1.5, 400, 20, 1, 1),
    Case("a real machine at 70 % load", H100_70B, 20.0, 1200, 100, 4, 2),
    Case("round robin", SLOW, 4.0, 400, 30, 3, 3, round_robin=True),
    Case("more sequences than a batch holds", SLOW, 6.0, 100, 60, 2, 1),
    Case("KV cache too small: preemptions", TIGHT, 4.0, 150, 120, 1, 1),
    Case("workers start and drain", SLOW, 4.0, 400, 30, 1, 2, targets=((10, 4, 3), (40, 2, 1), (60, 3, 3))),
)


def _requests(case: Case, seed: int) -> list[Request]:
    random = np.random.default_rng(seed)
    arrival = np.cumsum(random.exponential(1 / case.rate, case.requests))
    prompt = np.maximum(1, random.exponential(case.prompt, case.requests)).astype(int)
    output = np.maximum(1, random.exponential(case.output, case.requests)).astype(int)
    return [Request(float(a), int(n), int(o)) for a, n, o in zip(arrival, prompt, output, strict=True)]


def _both(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, int]:
    """(TTFT, TPOT) of the simulator, of the reference, and the preemptions of both."""
    requests = _requests(case, seed)
    arrival, prompt, output = np.array([(r.arrival, r.prompt, r.output) for r in requests], float).T
    trace = Trace(case.name, arrival, prompt, output, duration_seconds=float(arrival[-1]) + 1)
    asked = FleetSettings(
        1.0, 0.05, cold_start_seconds=case.cold_start, cold_start_cv=0.0,
        router="round_robin" if case.round_robin else "least_work",
    )  # fmt: skip
    fleet = Fleet(trace, case.hardware, asked, case.prefill, case.decode)
    for at, prefill, decode in case.targets:
        fleet.advance(at)
        fleet.set_targets(prefill, decode)
    got = result(fleet)
    slow = Reference(
        requests, case.hardware, case.prefill, case.decode, cold_start=case.cold_start,
        round_robin=case.round_robin, targets=case.targets,
    ).run(trace.duration_seconds + 1800)  # fmt: skip
    ttft = np.array([r.first - r.arrival for r in requests])
    tpot = np.array([(r.finished - r.first) / (r.output - 1) if r.output > 1 else 0.0 for r in requests])
    return got.ttft, got.tpot, ttft, tpot, got.preemptions, sum(w.preemptions for w in slow.d)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ttft_and_tpot_agree_with_the_reference(case: Case) -> None:
    ttft, tpot, slow_ttft, slow_tpot, preemptions, slow_preemptions = _both(case, seed=3)
    assert np.isfinite(slow_ttft).all() and np.isfinite(slow_tpot).all()
    for ours, theirs in ((ttft, slow_ttft), (tpot, slow_tpot)):
        for statistic in (np.mean, np.median, lambda times: np.quantile(times, 0.95)):
            assert statistic(ours) == pytest.approx(statistic(theirs), rel=0.01)
    assert preemptions == pytest.approx(slow_preemptions, rel=0.05)
    assert (preemptions > 0) == ("preemptions" in case.name)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000), rate=st.floats(0.5, 8), prompt=st.integers(20, 600), output=st.integers(1, 80),
    prefill=st.integers(1, 3), decode=st.integers(1, 3), kv=st.integers(2_000, 20_000),
    max_sequences=st.integers(2, 32),
)  # fmt: skip
def test_any_small_fleet_agrees_request_by_request(
    seed: int, rate: float, prompt: int, output: int, prefill: int, decode: int, kv: int, max_sequences: int
) -> None:
    hardware = Hardware("any", 1, (0.02, 2e-4, 1e-8), (0.01, 4e-4, 3e-7), kv, max_sequences)
    case = Case("any", hardware, rate, prompt, output, prefill, decode, requests=120)
    ttft, tpot, slow_ttft, slow_tpot, _, _ = _both(case, seed)
    assert (np.isfinite(ttft) == np.isfinite(slow_ttft)).all()
    ended = np.isfinite(ttft) & np.isfinite(slow_tpot)
    # A tie between two workers may go the other way by a rounding error, so a few may differ.
    for ours, theirs in ((ttft, slow_ttft), (tpot, slow_tpot)):
        assert np.mean(np.abs(ours[ended] - theirs[ended]) < 1e-6) > 0.95
