"""The invariants of ALGORITHM 8 that hold for `decide` whatever it reads, over random lives of a service.

Which of the 24 stands where (this folder, unless said):

 1  within the limits ............ here; GPUs that starting and draining workers hold: tests/operator/
                                   test_the_gpu_budget_is_never_exceeded.py, test_the_plan_keeps_its_promises.py
 2  never down without sight ..... here
 3  monotone needs ............... test_invariants_of_the_needs.py, test_prefill_is_sized_by_the_queue.py
 4  stable and minimal ........... test_invariants_of_the_needs.py
 5  P_viol, Erlang ............... test_invariants_of_the_needs.py
 6  the largest batch ............ test_models_learn_an_unknown_machine.py, test_invariants_of_the_needs.py
 7  idempotent ................... here
 8  order and names .............. here
 9  constant load ................ test_invariants_over_time.py
10  counter resets ............... here, test_rates_survive_restarts_and_silence.py
11  idle, broken, unknown ........ test_invariants_over_time.py
12  starting workers count once .. test_invariants_over_time.py
13  steps ........................ here
14  drain ........................ tests/operator/test_the_right_worker_is_let_go.py (victims),
                                   test_draining_waits_for_the_last_request.py, test_the_plan_keeps_its_promises.py
15  budget across services ....... test_invariants_of_the_budget.py
16  both roles or none ........... here
17  infeasible TTFT .............. test_invariants_of_the_needs.py
18  calibration .................. test_invariants_over_time.py, test_models_learn_an_unknown_machine.py
19  conformal coverage ........... test_invariants_of_the_forecast.py
20  attribution .................. test_invariants_of_the_needs.py
21  restart ...................... test_invariants_over_time.py
22  state round trip ............. test_invariants_over_time.py
23  against a constant ........... test_invariants_in_simulation.py
24  clocks ....................... here
"""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.decision import Why
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.signals.source import PodReading
from tests.autoscaler.scene import D, P
from tests.autoscaler.strategies import (
    BEYOND_REASON,
    GARBAGE,
    LIES,
    OTHERS,
    PODS_CHANGE,
    SIGHT_CHANGES,
    TIME,
    Happening,
    Lived,
    Scripted,
    Troubled,
    examples,
    played,
    stories,
)

BY_LIMITS = (Why.ABOVE_MAXIMUM, Why.GPU_BUDGET)


# --- 1 --------------------------------------------------------------------------------------------------------
@examples()
@given(stories(), st.integers(0, 2), st.integers(2, 9), st.none() | st.integers(4, 20), st.integers(1, 3))
def test_targets_are_whole_numbers_within_the_limits_and_the_budget(
    story: list[Scripted], minimum: int, maximum: int, budget: int | None, gpus: int
) -> None:
    scene = Troubled(prefill=2, decode=2, minimum=minimum, maximum=maximum, gpu_budget=budget)
    scene.pool(D, gpus=gpus)
    least = minimum * (1 + gpus)
    for script in story:
        decisions = scene.live(script).decisions
        for decision in decisions.values():
            assert isinstance(decision.target, int)
            assert minimum <= decision.target <= maximum or (budget is not None and budget < least)
        if budget is not None and least <= budget:
            # Where one of each role is wanted and the budget affords no more than the minima, zero is right too.
            assert decisions[P].target + gpus * decisions[D].target <= max(budget, 1 + gpus)


@examples(0.5)
@given(stories(), st.integers(1, 3), st.integers(0, 5))
def test_a_budget_below_the_minima_moves_nothing_and_is_told(
    story: list[Scripted], minimum: int, budget: int
) -> None:
    """H1, fourth row: infeasible, hold and say so."""
    budget = min(budget, 2 * minimum - 1)
    for lived in played(story, minimum=minimum, gpu_budget=budget):
        assert all(d.target == d.current for d in lived.decisions.values())
        assert lived.outcome.conditions["ScalingLimited"].status == "True"


# --- 2 --------------------------------------------------------------------------------------------------------
def seen(lived: Lived, role: str) -> float:
    """Share of the role's ready workers that answered at this tick with something that is ours."""
    ready = lived.ready(role)
    answered = [pod for pod in ready if not lived.snapshot.pods.get(pod.uid, PodReading("", 0.0)).empty]
    return len(answered) / len(ready) if ready else 1.0


@examples(0.25)
@given(stories())
def test_nothing_shrinks_while_less_than_seven_in_ten_are_seen_at_two_ticks_in_a_row(
    story: list[Scripted],
) -> None:
    scene, before = Troubled(prefill=4, decode=4, confirm_seconds=5.0), {P: 1.0, D: 1.0}
    for _ in range(14):  # past the first window, so that shrinking is possible at all
        scene.live(Scripted(prompts=0.2))
    for script in story:
        lived = scene.live(script)
        now = {role: seen(lived, role) for role in (P, D)}
        for decision in lived.decisions.values():
            if decision.target < decision.current and decision.why not in BY_LIMITS:
                assert min(*now.values(), *before.values()) >= 0.7, decision.message
        before = now


ESSENTIAL = {
    P: ("finished_total", "running", "ttft"),
    D: ("output_tokens_total", "inter_token", "tpot", "finished_total"),
}


@examples(0.05)
@given(st.sampled_from((P, D)), st.integers(2, 6), st.floats(0.0, 0.3))
def test_no_role_shrinks_when_a_signal_of_it_was_never_read(role: str, workers: int, prompts: float) -> None:
    """llm-d#1543: missing read as 0. Everything that the role is sized by is gone; the other role is seen."""
    scene = Troubled(prefill=workers, decode=workers, confirm_seconds=5.0)
    gone = ESSENTIAL[role]
    whole = scene.snapshot

    def without() -> Any:
        snapshot = whole()
        pods = {
            uid: replace(
                reading,
                counters={k: v for k, v in reading.counters.items() if k not in gone},
                gauges={k: v for k, v in reading.gauges.items() if k not in gone},
                histograms={k: v for k, v in reading.histograms.items() if k not in gone},
            )
            if scene.pods[uid].role == role else reading
            for uid, reading in snapshot.pods.items()
        }  # fmt: skip
        return replace(snapshot, pods=pods)

    scene.snapshot = without  # type: ignore[method-assign]
    for _ in range(40):
        lived = scene.live(Scripted(prompts=prompts))
        assert lived.decisions[role].target >= workers, lived.decisions[role].message


# --- 7, 8 -----------------------------------------------------------------------------------------------------
@examples()
@given(stories())
def test_the_same_snapshot_twice_without_time_passing_is_the_same_decision(story: list[Scripted]) -> None:
    scene = Troubled(prefill=2, decode=2, confirm_seconds=5.0)
    for _ in range(14):
        scene.live(Scripted(prompts=2.0))
    for script in story:
        lived = scene.live(script)
        for state in (lived.before, lived.state):
            _, again = decide(
                state, lived.service, lived.snapshot, scene.settings, wall_seconds=lived.wall_seconds
            )
            assert {r: d.target for r, d in again.decisions.items()} == {
                r: d.target for r, d in lived.decisions.items()
            }


def test_workers_that_have_just_answered_again_are_not_heard_twice_by_one_snapshot() -> None:
    """Found by the test above: the second look took the first for the second tick in a row."""
    scene = Troubled(prefill=2, decode=2, confirm_seconds=5.0)
    for _ in range(14):
        scene.live(Scripted(prompts=2.0))
    away, back = ((Happening(kind, 0, "finished_total", math.nan),) for kind in ("unready", "ready"))
    for prompts, happened in ((5.0, ()), (0.0, ()), (0.0, ()), (0.0, away), (0.0, back)):
        lived = scene.live(Scripted(prompts, 1.0, 1.0, 1.0, happened))
    _, again = decide(
        lived.state, lived.service, lived.snapshot, scene.settings, wall_seconds=lived.wall_seconds
    )
    assert [d.target for d in again.decisions.values()] == [d.target for d in lived.decisions.values()]
    assert min(memory.fresh_ticks for memory in lived.state.roles.values()) == 1


@examples(0.4)
@given(stories(), st.randoms(use_true_random=False))
def test_neither_the_order_nor_the_names_of_pods_matter(story: list[Scripted], random: Any) -> None:
    scene = Troubled(prefill=3, decode=2)
    other = scene.state
    renamed: dict[str, str] = {}

    def name(uid: str) -> str:
        return renamed.setdefault(uid, f"{random.randrange(10**6):06d}-{len(renamed)}")

    for script in story:
        lived = scene.live(script)
        pods = [replace(pod, uid=name(pod.uid), name=name(pod.uid)) for pod in lived.service.pods]
        readings = [(name(uid), replace(r, uid=name(uid))) for uid, r in lived.snapshot.pods.items()]
        random.shuffle(pods)
        random.shuffle(readings)
        other, outcome = decide(
            other,
            replace(lived.service, pods=tuple(pods)),
            replace(lived.snapshot, pods=dict(readings)),
            scene.settings,
            wall_seconds=lived.wall_seconds,
        )
        for role, decision in lived.decisions.items():
            assert (outcome.decisions[role].target, outcome.decisions[role].why) == (
                decision.target,
                decision.why,
            )


# --- 10 -------------------------------------------------------------------------------------------------------
@examples(0.2)
@given(
    st.floats(0.5, 8.0),
    st.lists(st.sets(st.sampled_from(["prefill-1", "prefill-2", "prefill-3"])), min_size=24, max_size=24),
)
def test_restarts_of_engines_never_look_like_more_demand(rate: float, restarts: list[set[str]]) -> None:
    """The counters of any of them begin at zero at any tick; the load is constant."""
    scene = Troubled(prefill=3, decode=2)
    highest = 0.0
    for restarted in restarts:
        for uid in restarted:
            scene.exported[uid].__init__()  # type: ignore[misc]
        lived = scene.live(Scripted(prompts=rate), apply=False)
        demand = lived.decisions[P].numbers.get("promptsPerSecond")
        if demand is not None:
            assert demand >= 0.0
            highest = max(highest, demand)
    # The spike override may add a tenth (ALGORITHM 4.6).
    assert highest <= 1.1 * rate + 1e-6


# --- 13 -------------------------------------------------------------------------------------------------------
@examples(0.4)
@given(stories(*PODS_CHANGE, *SIGHT_CHANGES, *OTHERS, *LIES), st.floats(0.05, 20))
def test_a_pool_grows_by_as_many_as_are_ready_or_four_at_a_time(story: list[Scripted], burst: float) -> None:
    for lived in played([*story, Scripted(40.0, burst, 2.0, 400.0)] * 2, maximum=1000):
        for role, decision in lived.decisions.items():
            if decision.why is not Why.BELOW_MINIMUM:
                assert decision.target - decision.current <= max(4, len(lived.ready(role))), decision.message


@examples(0.25)
@given(stories("ready", "remove", "reset", "hand", most_ticks=20, most_happenings=2), st.integers(2, 12))
def test_a_pool_loses_a_quarter_of_its_ready_workers_a_minute_at_most(
    story: list[Scripted], workers: int
) -> None:
    scene = Troubled(prefill=workers, decode=workers, maximum=30)
    lost: dict[str, list[tuple[float, int]]] = {P: [], D: []}
    quiet = [Scripted(prompts=0.1)] * 30
    for script in (*quiet, *story, *quiet):
        lived = scene.live(script)
        at = lived.snapshot.taken_at_seconds
        for role, decision in lived.decisions.items():
            ready = len(lived.ready(role))
            if decision.target >= decision.current or decision.why in BY_LIMITS or decision.target >= ready:
                continue
            lost[role].append((at, ready - decision.target))
            in_a_minute = sum(count for when, count in lost[role] if at - when < 60.0 - 1e-6)
            assert in_a_minute <= max(1, ready // 4), (lost[role], decision.message)


# --- 16 -------------------------------------------------------------------------------------------------------
@examples()
@given(stories(), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3))
def test_both_roles_serve_or_none_does(
    story: list[Scripted], minimum: int, prefill: int, decode: int
) -> None:
    for lived in played(story, prefill=prefill, decode=decode, minimum=minimum):
        assert (lived.decisions[P].target >= 1) == (lived.decisions[D].target >= 1)


# --- 24 -------------------------------------------------------------------------------------------------------
@examples()
@given(stories(*TIME, "future", "young", "silent", "stale"), st.floats(-1e6, 1e6))
def test_any_clock_gives_a_decision_and_none_goes_back(story: list[Scripted], skew: float) -> None:
    """B17: the API server's clock is off by any amount, ours jumps either way, pods are from the future."""
    scene = Troubled(prefill=2, decode=2)
    scene.wall = skew
    latest = -math.inf
    for script in story:
        lived = scene.live(script)
        assert set(lived.decisions) == {P, D}
        assert lived.state.history.now_seconds >= latest
        latest = lived.state.history.now_seconds
        assert all(math.isfinite(n) for d in lived.decisions.values() for n in d.numbers.values())


# --- whatever is read --------------------------------------------------------------------------------------------
@examples()
@given(stories(*LIES, "reset", "silent", "heard", "still"))
def test_signals_that_go_and_other_buckets_leave_every_number_one(story: list[Scripted]) -> None:
    for lived in played(story):
        for decision in lived.decisions.values():
            for name, value in decision.numbers.items():
                assert math.isfinite(value), (name, value, decision.message)


GARBAGE_REACHES_THE_SUMS = "values that are none reach the arithmetic: math.ceil of NaN or infinity"


@examples()
@given(stories(*LIES, *GARBAGE, "reset", "silent", "heard", "still"))
def test_no_measurement_can_stop_the_decision_nor_make_a_number_of_it_none(story: list[Scripted]) -> None:
    """NaN, infinities, negative and absurd values: the limits hold and the reasons stay readable."""
    for lived in played(story):
        for decision in lived.decisions.values():
            assert 1 <= decision.target <= 20 and decision.message
            for name, value in decision.numbers.items():
                assert math.isfinite(value), (name, value, decision.message)


@pytest.mark.timeout(3)
@pytest.mark.parametrize("value", BEYOND_REASON)
def test_a_counter_beyond_all_reason_costs_no_time(value: float) -> None:
    """It must hold up neither its own service nor the others of the tick."""
    scene = Troubled(prefill=2, decode=2)
    for _ in range(8):
        scene.live(Scripted(prompts=2.0))
    lie = Happening("counter", 0, "finished_total", value)
    scene.live(Scripted(prompts=2.0, happenings=(lie,)))
    lived = scene.live(Scripted(prompts=2.0))
    assert all(d.target <= 20 for d in lived.decisions.values())
