"""Whatever is done to the fleet: requests are conserved, and GPU time is counted to the second."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from tandem_autoscaler.simulator import core
from tandem_autoscaler.simulator.fleet import ROUTERS, Fleet
from tandem_autoscaler.simulator.run import result
from tests.simulator.fleets import SMALL, fleet_of, poisson, run_out, trace_of

_MOVES = st.lists(
    st.tuples(
        st.floats(0.1, 15), st.sampled_from(["targets", "crash prefill", "crash decode", "node"]), st.integers(1, 5),
        st.integers(1, 5),
    ),
    max_size=12,
)  # fmt: skip


@given_settings(max_examples=30, deadline=None)
@given(
    moves=_MOVES, router=st.sampled_from(sorted(ROUTERS)), seed=st.integers(0, 99), demote=st.booleans(),
    flips=st.booleans(), undrain=st.booleans(), tight=st.booleans(),
)  # fmt: skip
def test_any_history_ends_every_request_once(
    moves: list, router: str, seed: int, demote: bool, flips: bool, undrain: bool, tight: bool
) -> None:
    trace = poisson(6.0, 60.0, seed, output=60)
    hardware = SMALL if not tight else type(SMALL)("tight", 2, SMALL.prefill, SMALL.decode, 3_000, 16)
    fleet = fleet_of(
        trace, 2, 2, hardware, router=router, late_demotion=demote, flips=flips, undrain=undrain, seed=seed,
    )  # fmt: skip
    at = 0.0
    for pause, what, first, second in moves:
        at = min(at + pause, 60.0)
        fleet.advance(at)
        _do(fleet, what, first, second)
        _is_consistent(fleet)
    fleet.advance(trace.duration_seconds)
    served = result(fleet)
    assert fleet.done
    phases = fleet.state.requests["phase"]
    assert np.isin(phases, [core.FINISHED, core.FAILED]).all()
    assert (np.isfinite(served.tpot) == (phases == core.FINISHED)).all()
    assert served.failed == (phases == core.FAILED).sum()
    requests = fleet.state.requests[phases == core.FINISHED]
    stations = ("arrival", "prefilled", "first", "finished")
    for earlier, later in pairwise(stations):
        assert (requests[earlier] <= requests[later] + 1e-9).all()


def _do(fleet: Fleet, what: str, first: int, second: int) -> None:
    view = fleet.view()
    if what == "targets":
        fleet.set_targets(first, second)
    elif what == "node":
        fleet.lose_node(0.3)
    elif what == "crash prefill" and view.prefill.ready:
        fleet.crash("prefill", first % view.prefill.ready)
    elif what == "crash decode" and view.decode.ready:
        fleet.crash("decode", first % view.decode.ready)


def _is_consistent(fleet: Fleet) -> None:
    """Targets are met by workers that are there or coming, and every request is in one place."""
    view, state = fleet.view(), fleet.state
    coming = [int(fleet._flipping_to(role).sum()) for role in (core.PREFILL, core.DECODE)]
    for role, on_the_way in zip((view.prefill, view.decode), coming, strict=True):
        assert role.target == role.ready + role.starting + on_the_way
    phases = state.requests["phase"]
    inside = ((phases > core.AHEAD) & (phases < core.FINISHED)).sum()
    assert inside == view.arrived - view.finished - int(state.fleet["failed"][0])
    present = state.workers["phase"] != core.ABSENT
    assert inside == (
        state.queues[:2, 2].sum() + state.queues[2::2, 2].sum()
        + state.queues[3::2, 2][state.workers["role"] == core.PREFILL].sum()
        + state.workers["running"][present].sum() + state.fleet["transfers"][0]
    )  # fmt: skip
    at_decode = present & (state.workers["role"] == core.DECODE)
    assert (state.workers["kv"][at_decode] <= fleet.hardware.kv_tokens).all()


def test_nothing_is_served_before_a_worker_is_ready() -> None:
    fleet = fleet_of(trace_of([0.5, 1.0, 30.0]), prefill=0)
    fleet.set_targets(prefill=1)
    fleet.advance(9.99)
    assert fleet.view().router_waiting == 2
    served = result(fleet)
    alone = SMALL.prefill_seconds(500.0)
    assert served.ttft[0] > 10.0 + alone - 0.5
    assert served.ttft[1] > 10.0 + 2 * alone - 1.0
    assert served.ttft[2] < alone + 0.1


def test_gpu_time_counts_starting_ready_and_draining_between_warm_up_and_end() -> None:
    trace = trace_of([0.0], duration=100.0, warm_up=20.0)
    fleet = fleet_of(trace)
    fleet.advance(10.0)
    fleet.set_targets(prefill=2)  # ready at 20
    fleet.advance(50.0)
    fleet.set_targets(prefill=1, decode=2)  # idle: gone at once
    fleet.advance(55.0)
    fleet.set_targets(decode=1)  # was starting: vanishes
    fleet.advance(100.0)
    served = result(fleet)
    assert served.gpu_hours_prefill * 3600 == pytest.approx(SMALL.gpus * (80 + 30))
    assert served.gpu_hours_decode * 3600 == pytest.approx(SMALL.gpus * (80 + 5))


def test_a_draining_worker_finishes_its_work_and_costs_until_then() -> None:
    fleet = fleet_of(trace_of([0.0, 0.0, 1.0, 1.0], 100, 1000, duration=60.0), prefill=1, decode=2)
    fleet.advance(3.0)
    assert fleet.view().decode.running.tolist() == [2, 2]
    fleet.set_targets(decode=1)
    assert fleet.census()[4:] == (1, 1, 0, 1)
    fleet.advance(60.0)
    assert fleet.census()[4:] == (1, 1, 0, 0)
    served = result(fleet)
    assert served.failed == 0 and np.isfinite(served.tpot).all()
    # A thousand iterations of two sequences.
    gone_at = served.gpu_hours_decode * 3600 / SMALL.gpus - 60
    assert (
        1000 * SMALL.iteration_seconds(2.0, 200.0) < gone_at < 1000 * SMALL.iteration_seconds(2.0, 2200.0) + 3
    )


def test_a_prefill_worker_keeps_its_gpus_until_its_transfers_are_done() -> None:
    slow = type(SMALL)("slow transfer", 2, SMALL.prefill, SMALL.decode, 20_000, 16, transfer_base_seconds=5.0)
    fleet = fleet_of(trace_of([0.0, 0.0], duration=60.0), 2, 1, slow)
    fleet.advance(1.0)
    fleet.set_targets(prefill=1)
    assert fleet.census()[:4] == (1, 1, 0, 1)
    fleet.advance(6.0)
    assert fleet.census()[:4] == (1, 1, 0, 0)
    assert result(fleet).failed == 0


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_crash_fails_exactly_what_was_there(role: str) -> None:
    trace = poisson(12.0, 30.0, output=100)
    fleet = fleet_of(trace, 2, 3)
    fleet.advance(20.0)
    before = getattr(fleet.view(), role)
    there = int(before.running[1] + before.waiting[1])
    moving = fleet.state.requests[fleet.state.requests["phase"] == core.MOVING]["worker"]
    there += int((moving == fleet._in_phase(core.PREFILL, core.READY)[1]).sum()) if role == "prefill" else 0
    assert there > 0
    fleet.crash(role, 1)
    after = getattr(fleet.view(), role)
    assert (after.ready, after.starting, after.target) == (before.ready - 1, 1, before.target)
    assert int(fleet.state.fleet["failed"][0]) == there
    served = result(fleet)
    assert served.failed == there
    assert np.isinf(served.ttft).sum() == there
    with pytest.raises(IndexError):
        fleet.crash(role, 7)


def test_the_same_seed_gives_the_same_times_however_often_one_looks() -> None:
    trace = poisson(8.0, 120.0)
    once, again, other = (
        run_out(trace, 2, 3, router="power_of_two", cold_start_cv=0.2, seed=seed) for seed in (5, 5, 6)
    )
    assert (once.ttft == again.ttft).all() and (once.tpot == again.tpot).all()
    assert (once.ttft != other.ttft).any()
    watched = fleet_of(trace, 2, 3, router="power_of_two", cold_start_cv=0.2, seed=5)
    for at in np.arange(0.0, 120.0, 0.37):
        watched.advance(at)
        watched.view()
    assert np.allclose(result(watched).ttft, once.ttft, atol=1e-6)


def test_a_request_too_large_for_any_worker_fails_and_blocks_nobody() -> None:
    served = run_out(trace_of([0.0, 0.1, 0.2], [500, 30_000, 500]))
    assert served.failed == 1
    assert np.isinf(served.ttft).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("arrival", "prompt", "output", "complaint"),
    [
        ([1.0, 0.5], 10.0, 10.0, "ascend"),
        ([-1.0, 0.5], 10.0, 10.0, "ascend"),
        ([0.0, np.nan], 10.0, 10.0, "finite"),
        ([0.0, 1.0], 0.0, 10.0, "at least 1"),
        ([0.0, 1.0], 10.0, [1.0, 0.0], "at least 1"),
        ([0.0, 1.0], 10.5, 10.0, "whole"),
    ],
)
def test_a_trace_that_makes_no_sense_is_refused(
    arrival: list[float], prompt: float, output: float | list[float], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        trace_of(arrival, prompt, output, duration=2.0)


def test_a_fleet_without_workers_or_requests_stands_still() -> None:
    served = run_out(trace_of([], duration=10.0), 0, 0)
    assert (served.gpu_hours, served.attainment.joint, served.attainment.minutes_in_violation) == (
        0.0,
        1.0,
        0,
    )
    stranded = run_out(trace_of([1.0, 2.0]), 0, 0)
    assert np.isinf(stranded.ttft).all() and stranded.attainment.joint == 0.0
