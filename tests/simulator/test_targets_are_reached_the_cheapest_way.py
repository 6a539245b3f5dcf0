"""Growth takes back, then flips, then starts; shrinking cancels before it drains."""

from dataclasses import dataclass

import pytest

from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.run import Outages, simulate
from tandem_autoscaler.simulator.view import FleetView
from tests.simulator.fleets import SMALL, fleet_of, settings, trace_of

LONG_ANSWERS = trace_of([0.0, 0.1, 0.2, 0.3, 0.4], 100, 2000, duration=200.0)


def _census(fleet: Fleet) -> dict[str, tuple[int, ...]]:
    """(target, ready, starting, draining)."""
    census = fleet.census()
    return {"prefill": census[:4], "decode": census[4:]}


def test_a_new_worker_is_ready_after_a_cold_start() -> None:
    fleet = fleet_of(LONG_ANSWERS)
    fleet.set_targets(decode=3)
    fleet.advance(9.9)
    assert _census(fleet)["decode"] == (3, 1, 2, 0)
    fleet.advance(10.1)
    assert _census(fleet)["decode"] == (3, 3, 0, 0)


def test_cold_starts_spread_about_their_mean() -> None:
    fleet = fleet_of(LONG_ANSWERS, cold_start_seconds=40.0, cold_start_cv=0.2)
    fleet.set_targets(decode=400)
    took = fleet.state.workers["ready_at"][fleet.state.workers["ready_at"] > 0]
    assert len(took) == 399
    assert took.mean() == pytest.approx(40.0, rel=0.03)
    assert took.std() == pytest.approx(8.0, rel=0.15)


def test_shrinking_cancels_the_newest_start_first_then_drains_the_least_loaded() -> None:
    fleet = fleet_of(LONG_ANSWERS, decode=2, router="round_robin")
    fleet.advance(5.0)
    assert sorted(fleet.view().decode.running) == [2, 3]
    fleet.set_targets(decode=4)
    fleet.advance(6.0)
    fleet.set_targets(decode=5)
    fleet.set_targets(decode=4)
    fleet.advance(15.5)
    assert _census(fleet)["decode"] == (4, 4, 0, 0), (
        "the one ordered at 6 s was let go, those of 5 s have come"
    )
    fleet.set_targets(decode=1)
    assert _census(fleet)["decode"] == (1, 1, 0, 1), "two were idle and are gone"
    assert fleet.view().decode.running.tolist() == [3]


def test_undrain_takes_the_fullest_back_before_anything_is_started() -> None:
    for undrain, running in ((True, [2, 2]), (False, [2])):
        fleet = fleet_of(LONG_ANSWERS, decode=3, router="round_robin", undrain=undrain)
        fleet.advance(5.0)
        assert sorted(fleet.view().decode.running) == [1, 2, 2]
        fleet.set_targets(decode=1)
        fleet.set_targets(decode=2)
        assert fleet.view().decode.running.tolist() == running
        assert _census(fleet)["decode"] == ((2, 2, 0, 1) if undrain else (2, 1, 1, 2))
        assert (fleet.counts.undrains, fleet.counts.starts) == ((1, 0) if undrain else (0, 1))


def test_a_flip_brings_a_worker_over_in_seconds() -> None:
    fleet = fleet_of(LONG_ANSWERS, prefill=3, decode=1, flips=True, flip_seconds=2.0)
    fleet.advance(20.0)
    fleet.set_targets(prefill=1, decode=4)
    assert _census(fleet) == {"prefill": (1, 1, 0, 0), "decode": (4, 1, 3, 0)}
    assert (fleet.counts.flips, fleet.counts.starts) == (2, 1)
    fleet.advance(22.1)
    assert _census(fleet)["decode"] == (4, 3, 1, 0)


def test_a_busy_worker_flips_when_it_has_finished_and_counts_for_its_new_role_at_once() -> None:
    fleet = fleet_of(LONG_ANSWERS, prefill=1, decode=2, router="round_robin", flips=True)
    fleet.advance(5.0)
    fleet.set_targets(prefill=2, decode=1)
    assert _census(fleet) == {"prefill": (2, 1, 0, 0), "decode": (1, 1, 0, 1)}
    fleet.set_targets(prefill=2, decode=1)
    assert fleet.counts.starts == 0, "it is on its way: nothing more is ordered"
    fleet.set_targets(prefill=1)
    fleet.advance(150.0)
    assert _census(fleet) == {"prefill": (1, 1, 0, 0), "decode": (1, 1, 0, 0)}, "the flip was called off"


def test_the_last_ready_worker_of_a_role_does_not_flip() -> None:
    fleet = fleet_of(LONG_ANSWERS, prefill=1, decode=1, flips=True)
    fleet.set_targets(prefill=0, decode=2)
    assert (fleet.counts.flips, fleet.counts.starts) == (0, 1)


def test_a_change_against_the_last_one_within_ten_minutes_is_a_reversal() -> None:
    fleet = fleet_of(trace_of([0.0], duration=2000.0))
    for at, decode in ((0, 2), (100, 3), (200, 2), (300, 2), (900, 3), (1000, 1)):
        fleet.advance(at)
        fleet.set_targets(1, decode)
    assert fleet.counts.actions == 5
    assert fleet.counts.reversals == 2, "at 200 s and at 1000 s; at 900 s it is 700 s later"


def test_an_unknown_router_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="router 'best' is none of least_work"):
        FleetSettings(1.0, 0.05, router="best")


# --- policies and outages -------------------------------------------------------------------------------------
@dataclass
class Noted:
    """Asks for one decode worker more each time, and notes when it was asked."""

    name: str = "noted"
    tick_seconds: float = 10.0
    works_blind: bool = False

    def __post_init__(self) -> None:
        self.asked: list[tuple[float, bool]] = []
        self.views: list[FleetView] = []

    def step(self, fleet: Fleet) -> Targets:
        self.asked.append((fleet.now_seconds, fleet.silent))
        self.views.append(fleet.view())
        return Targets(decode=1 + len(self.asked))


def test_a_policy_is_asked_at_every_tick_but_not_while_nothing_is_measured() -> None:
    trace = trace_of([0.5], duration=60.0)
    policy = Noted()
    simulate(trace, SMALL, settings(), policy, 1, 1, Outages(silent=((15.0, 41.0),)))
    assert policy.asked == [(0, False), (10, False), (50, False)]
    blind = Noted(works_blind=True)
    simulate(trace, SMALL, settings(), blind, 1, 1, Outages(silent=((15.0, 41.0),)))
    assert [silent for _, silent in blind.asked] == [False, False, True, True, True, False]


def test_late_measurements_make_late_decisions() -> None:
    trace = trace_of([0.5], duration=60.0)
    done = simulate(trace, SMALL, settings(), Noted(), 1, 1, Outages(delay_seconds=15.0))
    assert done.log[:, 5].tolist() == [1, 1, 2, 3, 4, 5], "what was decided at 0 s counts from 15 s on"


def test_a_view_tells_each_first_token_and_each_end_once() -> None:
    trace = trace_of([1.0, 2.0, 12.0, 30.0], 500, [1, 20, 20, 20], duration=50.0)
    policy = Noted()
    done = simulate(trace, SMALL, settings(), policy, 1, 1)
    told = [float(t) for view in policy.views for t in view.new_ttft_seconds]
    assert told == pytest.approx(done.ttft.tolist())
    assert [float(t) for view in policy.views for t in view.new_tpot_seconds] == pytest.approx(
        done.tpot.tolist()
    )
    last = policy.views[-1]
    assert (last.arrived, last.prefilled, last.finished) == (4, 4, 4)
    assert (last.prompt_tokens_arrived, last.prompt_tokens_prefilled, last.output_tokens_made) == (
        2000,
        2000,
        61,
    )
    assert last.arrival.tolist() == [1.0, 2.0, 12.0, 30.0]
