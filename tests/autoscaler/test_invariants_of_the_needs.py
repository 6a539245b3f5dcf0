"""Invariants 3 to 6, 17 and 20: what a role needs moves the right way, is enough, is the least, and is not chased."""

import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tandem_autoscaler.decide.need_decode import staffed
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.queueing import Sizing, erlang_c, moments, smallest_pool, violation
from tests.autoscaler.scene import D, P, Scene
from tests.autoscaler.strategies import Scripted, Troubled, examples

Shares = list[tuple[float, float]]


@st.composite
def service_times(draw: st.DrawFn) -> Shares:
    """(seconds, probability) of prompts."""
    found = draw(st.lists(st.tuples(st.floats(0.01, 2.0), st.floats(0.05, 1.0)), min_size=1, max_size=4))
    total = sum(share for _, share in found)
    return [(seconds, share / total) for seconds, share in found]


rates = st.floats(0.01, 50)
targets = st.floats(0.1, 5)
scvs = st.floats(1.0, 8.0)


def sized(rate: float, found: Shares, target: float, scv: float = 1.0, *, pooled: bool = True) -> Sizing:
    return smallest_pool(rate, found, target, 0.05, arrival_scv=scv, pooled=pooled)


# --- 3 --------------------------------------------------------------------------------------------------------
@examples()
@given(rates, service_times(), targets, scvs, st.floats(1.0, 4.0))
def test_more_arrivals_need_no_fewer_workers(
    rate: float, found: Shares, target: float, scv: float, factor: float
) -> None:
    assert sized(rate * factor, found, target, scv).workers >= sized(rate, found, target, scv).workers


@examples()
@given(rates, service_times(), targets, scvs, st.integers(0, 3), st.floats(1.0, 3.0))
def test_one_longer_prompt_needs_no_fewer_workers(
    rate: float, found: Shares, target: float, scv: float, which: int, factor: float
) -> None:
    """As long as it can be in time by itself: what cannot is sized by another rule (17)."""
    longer = [(s * factor if i == which % len(found) else s, p) for i, (s, p) in enumerate(found)]
    a, b = sized(rate, found, target, scv), sized(rate, longer, target, scv)
    assume(a.infeasible_share == b.infeasible_share)
    assert b.workers >= a.workers


@examples()
@given(rates, service_times(), targets, scvs, st.floats(1.0, 3.0), st.booleans())
def test_burstier_arrivals_need_no_fewer_workers(
    rate: float, found: Shares, target: float, scv: float, factor: float, pooled: bool
) -> None:
    calm, bursty = (
        sized(rate, found, target, scv, pooled=pooled),
        sized(rate, found, target, scv * factor, pooled=pooled),
    )
    assert bursty.workers >= calm.workers


@examples()
@given(rates, service_times(), targets, scvs, st.floats(1.0, 3.0))
def test_a_slower_machine_needs_no_fewer_workers(
    rate: float, found: Shares, target: float, scv: float, gain: float
) -> None:
    a, b = sized(rate, found, target, scv), sized(rate, [(gain * s, p) for s, p in found], target, scv)
    assume(a.infeasible_share == b.infeasible_share)
    assert b.workers >= a.workers


@examples()
@given(rates, service_times(), targets, scvs, st.floats(1.0, 4.0))
def test_a_later_target_needs_no_more_workers(
    rate: float, found: Shares, target: float, scv: float, factor: float
) -> None:
    a, b = sized(rate, found, target, scv), sized(rate, found, target * factor, scv)
    assume(a.infeasible_share == b.infeasible_share)
    assert b.workers <= a.workers


def decode_need(
    per_second: float, prompt: float, output: float, base: float, each: float, target: float
) -> int:
    """Workers of a known machine, each at most at the batch that keeps the target."""
    model = DecodeModel(base_seconds=base, seconds_per_sequence=each).at_context(prompt + output / 2)
    limit = model.largest_batch(target, 256)
    assume(limit >= 1)
    return staffed(per_second * output, model, limit, 1.5)


@examples()
@given(
    st.floats(0.5, 20), st.floats(10, 20_000), st.floats(5, 300), st.floats(0.005, 0.02), st.floats(1e-5, 0.01),
    st.floats(0.03, 0.5), st.floats(1.0, 4.0),
)  # fmt: skip
def test_decode_needs_rise_with_requests_and_lengths_and_fall_with_the_target(
    per_second: float, prompt: float, output: float, base: float, each: float, target: float, factor: float
) -> None:
    need = decode_need(per_second, prompt, output, base, each, target)
    assert decode_need(per_second * factor, prompt, output, base, each, target) >= need
    assert decode_need(per_second, prompt * factor, output, base, each, target) >= need
    assert decode_need(per_second, prompt, output * factor, base, each, target) >= need
    assert decode_need(per_second, prompt, output, base, each, target * factor) <= need


@examples()
@given(rates, service_times(), targets, st.floats(0.2, 5.0))
def test_twice_the_arrivals_of_half_the_work_in_half_the_time_need_the_same(
    rate: float, found: Shares, target: float, factor: float
) -> None:
    a = sized(rate, found, target)
    b = sized(rate * factor, [(s / factor, p) for s, p in found], target / factor)
    assume(a.infeasible_share == pytest.approx(b.infeasible_share))
    # The two differ by rounding only, which may move a share across the allowance's edge.
    assert abs(a.workers - b.workers) <= 1
    if abs(a.violation - a.allowed) > 1e-6 and a.workers == b.workers:
        assert b.violation == pytest.approx(a.violation, abs=1e-6)


# --- 4 --------------------------------------------------------------------------------------------------------
@examples()
@given(rates, service_times(), targets, scvs, st.floats(0.01, 0.5), st.booleans())
def test_the_pool_is_stable_enough_and_the_smallest(
    rate: float, found: Shares, target: float, scv: float, allowance: float, pooled: bool
) -> None:
    s = smallest_pool(rate, found, target, allowance, arrival_scv=scv, pooled=pooled)
    assert s.workers > rate * moments(found).mean_seconds
    if not s.feasible:
        return

    def late(workers: int) -> float:
        return violation(workers, rate, found, target, arrival_scv=scv, pooled=pooled)

    assert late(s.workers) <= s.allowed
    assert s.workers - 1 <= s.load or late(s.workers - 1) > s.allowed


# --- 5 --------------------------------------------------------------------------------------------------------
@examples()
@given(rates, service_times(), targets, scvs, st.booleans())
def test_a_share_of_late_prompts_is_a_share_and_falls_with_every_worker(
    rate: float, found: Shares, target: float, scv: float, pooled: bool
) -> None:
    late = [violation(c, rate, found, target, arrival_scv=scv, pooled=pooled) for c in range(1, 60)]
    assert all(0.0 <= share <= 1.0 for share in late)
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(late))


@examples()
@given(st.integers(1, 300), st.floats(0, 400))
def test_everybody_waits_where_the_servers_are_not_enough(servers: int, load: float) -> None:
    waiting = erlang_c(servers, load)
    assert 0.0 <= waiting <= 1.0
    assert load < servers or waiting == 1.0


# --- whatever the demand ------------------------------------------------------------------------------------------
@pytest.mark.timeout(3)
@pytest.mark.parametrize("rate", [1e9, 1e200])
def test_any_demand_has_a_size_at_once(rate: float) -> None:
    """A counter that holds garbage must not hold up the tick of all services: there are at most so many replicas."""
    found = smallest_pool(rate, [(0.5, 1.0)], 1.0, 0.05)
    assert 0 <= found.workers <= 100_000
    assert not math.isnan(found.violation)


# --- 17 -------------------------------------------------------------------------------------------------------
@examples(0.05)
@given(st.floats(0.1, 3.0), st.floats(1.2, 6.0), st.none() | st.just(0.0))
def test_a_ttft_that_no_worker_can_keep_never_drives_a_pool_to_its_maximum(
    rate: float, seconds: float, headroom: float | None
) -> None:
    """Every prompt takes longer than the target by itself; enough workers to carry the load with room are right."""
    scene = Troubled(prefill=math.ceil(rate * seconds / 0.85) + 1, decode=2, maximum=1000, headroom=headroom)
    start = scene.replicas(P)
    for _ in range(60):
        scene.live(Scripted(prompts=rate, seconds=seconds, tokens=5.0))
    # The wait that the scene does not tell is taken for work at most: the load is never above the arrivals' own.
    assert scene.replicas(P) <= math.ceil(1.3 * 1.3 * start) + 1
    assert scene.outcome.conditions["SLOMet"].reason == "TTFTInfeasible"


# --- 20 -------------------------------------------------------------------------------------------------------
@examples(0.05)
@given(
    st.floats(0.2, 2.0), st.floats(2.0, 20.0), st.floats(0.91, 1.0), st.integers(5, 60), st.none() | st.just(0.0)
)  # fmt: skip
def test_a_decode_bound_service_never_raises_prefill(
    rate: float, late: float, kv: float, waiting: int, headroom: float | None
) -> None:
    """llm-d#1325. Prefill's KV waits for decode, so the first token is late, while its workers have time."""
    scene = Scene(prefill=2, decode=2, headroom=headroom).settle(prompts=rate)
    before = scene.replicas(P)
    for _ in range(12):
        scene.prompts(rate, seconds=late)
        scene.answers(rate, tokens=50, seconds_per_token=0.08, batch=5)
        for exported in scene.of(P):
            exported.running, exported.waiting = 3.0, 8.0
        for exported in scene.of(D):
            exported.kv, exported.waiting = kv, float(waiting)
        scene.tick()
        assert scene.replicas(P) <= before, scene.decision(P).message
