"""Invariants 3 to 5 and 17: the waiting formula and the smallest pool."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.model.prefill import service_seconds
from tandem_autoscaler.model.queueing import erlang_c, moments, smallest_pool, violation

shares = st.lists(st.tuples(st.floats(0.01, 2.0), st.floats(0.05, 1.0)), min_size=1, max_size=5)


def distribution(found: list[tuple[float, float]]) -> list[tuple[float, float]]:
    total = sum(share for _, share in found)
    return [(seconds, share / total) for seconds, share in found]


arrivals = st.floats(0.01, 50)
targets = st.floats(0.1, 5)


def test_erlangs_table() -> None:
    """Ten servers at 8 Erlang wait with 40.9 %; one at 0.5 with 50 %."""
    assert erlang_c(10, 8.0) == pytest.approx(0.409, abs=0.001)
    assert erlang_c(1, 0.5) == pytest.approx(0.5)


@given(st.integers(1, 60), st.floats(0, 80))
def test_waiting_is_a_probability_and_certain_when_overloaded(servers: int, load: float) -> None:
    assert 0 <= erlang_c(servers, load) <= 1
    assert load < servers or erlang_c(servers, load) == 1


@given(arrivals, shares, targets, st.booleans())
def test_more_workers_are_never_later(
    rate: float, found: list[tuple[float, float]], target: float, pooled: bool
) -> None:
    late = [
        violation(c, rate, distribution(found), target, pooled=pooled)
        for c in (1, 2, 3, 5, 8, 13, 21, 55, 144)
    ]
    assert all(0 <= p <= 1 for p in late)
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(late))


@given(arrivals, shares, targets, st.floats(0.01, 0.5), st.booleans())
def test_the_pool_is_stable_sufficient_and_the_smallest(
    rate: float, found: list[tuple[float, float]], target: float, allowance: float, pooled: bool
) -> None:
    d = distribution(found)
    sizing = smallest_pool(rate, d, target, allowance, pooled=pooled)
    assert sizing.workers > rate * moments(d).mean_seconds
    if sizing.feasible:
        assert violation(sizing.workers, rate, d, target, pooled=pooled) <= sizing.allowed
        if sizing.workers - 1 > sizing.load:
            assert violation(sizing.workers - 1, rate, d, target, pooled=pooled) > sizing.allowed


@given(arrivals, shares, targets, st.floats(1.0, 3.0))
def test_the_need_rises_with_arrivals_and_work_and_falls_with_the_target(
    rate: float, found: list[tuple[float, float]], target: float, factor: float
) -> None:
    d = distribution(found)
    base = smallest_pool(rate, d, target, 0.05)
    more = smallest_pool(rate * factor, d, target, 0.05)
    assert more.workers >= base.workers
    # Past the point where prompts are late by themselves the rule is another one.
    slower = smallest_pool(rate, [(s * factor, p) for s, p in d], target, 0.05)
    assert slower.workers >= base.workers or not slower.feasible
    later = smallest_pool(rate, d, target * factor, 0.05)
    assert later.workers <= base.workers or not base.feasible


@given(arrivals, shares, targets, st.floats(0.2, 5.0))
def test_only_work_counts(
    rate: float, found: list[tuple[float, float]], target: float, factor: float
) -> None:
    """Twice the arrivals of half the length, in half the time, need the same."""
    d = distribution(found)
    scaled = [(s / factor, p) for s, p in d]
    a = smallest_pool(rate, d, target, 0.05).workers
    b = smallest_pool(rate * factor, scaled, target / factor, 0.05).workers
    assert abs(a - b) <= 1  # rounding at the edge of the allowance


@given(arrivals, st.floats(0.01, 3.0))
def test_a_target_below_ones_own_time_needs_only_to_carry_the_load(rate: float, seconds: float) -> None:
    sizing = smallest_pool(rate, [(seconds, 1.0)], seconds / 2, 0.05)
    assert not sizing.feasible and sizing.infeasible_share == 1.0
    assert sizing.workers <= math.ceil(rate * seconds / 0.85) + 1


def test_no_arrivals_need_no_workers() -> None:
    assert smallest_pool(0.0, [(0.1, 1.0)], 1.0, 0.05).workers == 0


@pytest.mark.parametrize(("workers", "load"), [(1, 0.3), (1, 0.7), (3, 0.5), (3, 0.8), (8, 0.9)])
def test_the_service_time_is_found_through_the_wait(workers: int, load: float) -> None:
    """Simulated first-come queues of fixed service time: the time without the wait comes out within 10 %."""
    random.seed(3)
    service, clock, free, sojourns = 0.4, 0.0, [0.0] * workers, []
    rate = load * workers / service
    for _ in range(60_000):
        clock += random.expovariate(rate)
        index = min(range(workers), key=free.__getitem__)
        begin = max(clock, free[index])
        free[index] = begin + service
        sojourns.append(free[index] - clock)
    found = service_seconds(sum(sojourns) / len(sojourns), rate / workers, 0.0, workers=workers)
    assert found == pytest.approx(service, rel=0.10)


def test_a_saturated_worker_tells_its_service_time_exactly() -> None:
    assert service_seconds(60.0, 2.0, 0.0) == pytest.approx(0.5, rel=0.01)


def test_an_idle_worker_tells_its_service_time_exactly() -> None:
    assert service_seconds(0.4, 0.001, 0.0) == pytest.approx(0.4, rel=0.01)


@given(st.floats(1e-3, 100), st.floats(1e-4, 100), st.floats(0, 3), st.integers(1, 20))
def test_a_service_time_is_never_above_what_was_seen(
    sojourn: float, rate: float, scv: float, workers: int
) -> None:
    found = service_seconds(sojourn, rate, scv, workers=workers)
    assert found is not None and 0 < found <= min(sojourn, 1 / rate) + 1e-9


@given(st.floats(1e-3, 100), st.floats(1e-4, 100), st.floats(0, 1), st.integers(1, 20))
def test_with_the_service_time_found_the_queue_takes_as_long_as_was_seen(
    sojourn: float, rate: float, scv: float, workers: int
) -> None:
    found = service_seconds(sojourn, rate, scv, workers=workers)
    assert found is not None
    free = 1.0 - rate * found
    if free < 1e-6:
        return  # full: the wait is anything
    wait = erlang_c(workers, workers * rate * found) * found * (1 + scv) / 2 / (workers * free)
    assert found + wait == pytest.approx(sojourn, rel=1e-6)
