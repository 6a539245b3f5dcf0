"""Invariants 9, 11, 12, 18, 21 and 22: what a service that is measured for a while settles at, and a restart."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tandem_autoscaler.decide.decision import Outcome
from tandem_autoscaler.decide.demand import ENOUGH_RATIOS, STEP_SECONDS
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.signals.source import Snapshot
from tandem_autoscaler.write.status import status_of
from tests.autoscaler.scene import TICK_SECONDS, D, P
from tests.autoscaler.strategies import Lived, Scripted, Troubled, examples, identical

headrooms = st.sampled_from((None, 0.0, 0.25))


class Fluid(Troubled):
    """Prompts of `seconds` each, without chance: what one worker's queue holds follows from how many there are."""

    cold_start_ticks = 6

    def __init__(self, rate: float, seconds: float, **more: object) -> None:
        super().__init__(**{"maximum": 60, "confirm_seconds": 30.0, **more})
        self.rate, self.seconds = rate, seconds
        self.waited: dict[str, int] = {}

    def pass_by(self) -> Lived:
        """One tick; starting workers become ready after half a minute."""
        for uid, pod in list(self.pods.items()):
            if not pod.ready and not pod.draining:
                self.waited[uid] = self.waited.get(uid, 0) + 1
                if self.waited[uid] > self.cold_start_ticks:
                    self.set(uid, ready=True, ready_since_seconds=self.now)
        serving = [uid for uid, pod in self.pods.items() if pod.role == P and pod.ready]
        each = self.rate * TICK_SECONDS / max(1, len(serving))
        for uid in serving:
            exported = self.exported[uid]
            finished = min(each + exported.running, TICK_SECONDS / self.seconds)
            busy = min(0.95, each * self.seconds / TICK_SECONDS)
            wait = busy / (2 * len(serving) * (1 - busy)) + exported.running
            exported.running += each - finished
            exported.prefill(finished, tokens=800, seconds=self.seconds * (1 + wait))
        self.answers(self.rate, tokens=20)
        return self.live(Scripted(prompts=0.0))


# --- 9 --------------------------------------------------------------------------------------------------------
@examples(0.05)
@given(st.floats(0.2, 12), st.floats(0.05, 0.4), st.integers(1, 4), headrooms)
@example(rate=1.5, seconds=0.25, start=2, headroom=None)  # 2 -> 1 at 655 s, once the headroom was learnt
def test_a_constant_load_ends_at_a_constant_size(
    rate: float, seconds: float, start: int, headroom: float | None
) -> None:
    """From any size, within 500 s, and then for 400 s; one and two workers included.

    A headroom that has to be learnt takes the time of its first `ENOUGH_RATIOS` forecasts more, and may in that time
    only give back what it had kept for want of knowledge.
    """
    settled = 100 if headroom is not None else 100 + math.ceil(ENOUGH_RATIOS * STEP_SECONDS / TICK_SECONDS)
    scene = Fluid(rate, seconds, prefill=start, decode=1, headroom=headroom)
    sizes = [scene.pass_by().decisions[P].target for _ in range(settled + 80)]
    assert len(set(sizes[settled:])) == 1, sizes
    assert sizes[100:] == sorted(sizes[100:], reverse=True), "no change but to give back"
    assert sizes[-1] > rate * seconds, "enough to carry the load"


# --- 11 -------------------------------------------------------------------------------------------------------
@examples(0.05)
@given(st.integers(2, 5), st.integers(2, 5), st.floats(0.5, 4), headrooms)
def test_no_traffic_at_workers_that_answer_shrinks_and_silence_holds(
    prefill: int, decode: int, rate: float, headroom: float | None
) -> None:
    scenes = [
        Troubled(prefill=prefill, decode=decode, confirm_seconds=30.0, headroom=headroom) for _ in range(2)
    ]
    answering, silent = scenes
    for scene in scenes:
        for _ in range(10):
            scene.live(Scripted(prompts=rate), apply=False)
    silent.silent = set(silent.pods)
    for _ in range(110):
        answering.live(Scripted(prompts=0.0))
        silent.live(Scripted(prompts=0.0))
        assert (silent.replicas(P), silent.replicas(D)) == (prefill, decode)
    assert (answering.replicas(P), answering.replicas(D)) == (1, 1)


# --- 12 -------------------------------------------------------------------------------------------------------
@examples(0.05)
@given(st.floats(1.0, 8.0), st.floats(0.1, 0.6), headrooms)
def test_what_was_ordered_is_not_ordered_again_while_it_starts(
    rate: float, seconds: float, headroom: float | None
) -> None:
    """The load has been known for two minutes; the workers ordered for it never come."""
    scene = Troubled(prefill=1, decode=1, maximum=60, headroom=headroom)
    for _ in range(24):
        scene.live(Scripted(prompts=rate, seconds=seconds), apply=False)
    first = scene.live(Scripted(prompts=rate, seconds=seconds)).decisions[P].target
    assume(1 < first <= 4)  # more would be ordered in steps
    for _ in range(12):
        assert scene.live(Scripted(prompts=rate, seconds=seconds)).decisions[P].target == first
        assert sum(pod.role == P for pod in scene.pods.values()) == first


# --- 18 -------------------------------------------------------------------------------------------------------
@examples(0.05)
@given(st.floats(1.0, 8.0), st.floats(0.05, 0.3), st.floats(2.0, 200.0), headrooms)
def test_one_stalled_tick_of_one_worker_changes_the_need_by_one_at_most(
    rate: float, seconds: float, factor: float, headroom: float | None
) -> None:
    """A kernel compile, a page of swap: its prompts took many times as long, once."""
    scene = Troubled(prefill=4, decode=2, headroom=headroom)
    for _ in range(24):
        before = scene.live(Scripted(prompts=rate, seconds=seconds), apply=False)
    need = before.decisions[P].numbers["need"]
    scene.exported["prefill-1"].prefill(2.0, tokens=1000, seconds=seconds * factor)
    for _ in range(4):
        after = scene.live(Scripted(prompts=rate, seconds=seconds), apply=False)
        assert abs(after.decisions[P].numbers["need"] - need) <= 1, after.decisions[P].message


@examples(0.05)
@given(st.floats(1.0, 6.0), st.floats(3.0, 50.0), headrooms)
def test_a_worker_in_its_first_two_minutes_teaches_nothing(
    rate: float, factor: float, headroom: float | None
) -> None:
    """ai-dynamo/dynamo#12430: first passes compile and warm up; they are many times as slow."""
    scene = Troubled(prefill=3, decode=2, headroom=headroom)
    for _ in range(24):
        before = scene.live(Scripted(prompts=rate), apply=False)
    learnt = before.state.prefill.seconds(1000)
    uid = scene.add(P)
    scene.set(uid, ready_since_seconds=scene.now, created_at_seconds=scene.now - 20)
    for _ in range(20):
        scene.exported[uid].prefill(1.0, tokens=1000, seconds=0.2 * factor)
        after = scene.live(Scripted(prompts=rate), apply=False)
    assert after.state.prefill.seconds(1000) == pytest.approx(learnt, rel=0.05)


# --- 21, 22 ---------------------------------------------------------------------------------------------------
def through_the_status(service: Service, outcome: Outcome, now: float, scene: Troubled) -> ServiceState:
    """What a process that starts now makes of what the last one wrote."""
    status = status_of(service, outcome, outcome.conditions, at=datetime(2026, 1, 1, tzinfo=UTC))
    return fresh_state(replace(service, status=status), now, scene.settings)


@examples(0.05)
@given(
    st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 4), st.integers(1, 40), st.booleans(), headrooms
)  # fmt: skip
def test_after_a_restart_nothing_shrinks_until_a_full_window_was_seen(
    prefill: int, decode: int, rate: float, blind_ticks: int, traffic: bool, headroom: float | None
) -> None:
    """B10. First nobody answers, then all do, with traffic or without."""
    scene = Troubled(prefill=prefill, decode=decode, confirm_seconds=5.0, headroom=headroom)
    for _ in range(16):
        lived = scene.live(Scripted(prompts=rate), apply=False)
    scene.state = through_the_status(lived.service, lived.outcome, scene.now, scene)
    scene.silent = set(scene.pods)
    for tick in range(blind_ticks + 2):
        if tick == blind_ticks:
            scene.silent = set()
        lived = scene.live(Scripted(prompts=rate if traffic else 0.0))
        assert lived.decisions[P].target >= prefill and lived.decisions[D].target >= decode


@examples(0.05)
@given(st.floats(0.5, 8), st.floats(0.02, 0.9), st.floats(0.005, 0.08), st.floats(5, 300), headrooms)
def test_what_was_learnt_comes_back_from_the_status_and_a_second_time_unchanged(
    rate: float, seconds: float, per_token: float, tokens: float, headroom: float | None
) -> None:
    scene = Troubled(prefill=2, decode=2, headroom=headroom)
    for _ in range(24):
        lived = scene.live(
            Scripted(prompts=rate, seconds=seconds, seconds_per_token=per_token, tokens=tokens), apply=False
        )
    once = through_the_status(lived.service, lived.outcome, scene.now, scene)
    for prompt in (100.0, 1000.0):
        assert once.prefill.seconds(prompt) == pytest.approx(lived.state.prefill.seconds(prompt), rel=0.02)
    for batch in (1.0, 4.0):
        assert once.decode.seconds(batch) == pytest.approx(lived.state.decode.seconds(batch), rel=0.02)
    assert once.output_tokens == pytest.approx(lived.state.output_tokens, rel=0.01)
    # What the next process writes before it has heard anything must not lose or blur it.
    _, said = decide(once, lived.service, Snapshot(scene.now), scene.settings)
    twice = through_the_status(lived.service, said, scene.now, scene)
    assert identical(twice.prefill, once.prefill) and identical(twice.decode, once.decode)
    assert twice.output_tokens == once.output_tokens and twice.lengths == once.lengths
    assert math.isfinite(twice.prefill.seconds(1000.0))


def test_a_learnt_headroom_survives_a_second_restart_before_anything_was_heard() -> None:
    scene = Troubled(prefill=2, decode=2, headroom=None)
    for _ in range(24):
        lived = scene.live(Scripted(prompts=2.0), apply=False)
    once = through_the_status(lived.service, lived.outcome, scene.now, scene)
    assert once.prefill_demand.remembered_ratio is not None
    _, said = decide(once, lived.service, Snapshot(scene.now), scene.settings)
    twice = through_the_status(lived.service, said, scene.now, scene)
    assert twice.prefill_demand.remembered_ratio == once.prefill_demand.remembered_ratio
    assert twice.decode_demand.remembered_ratio == once.decode_demand.remembered_ratio
