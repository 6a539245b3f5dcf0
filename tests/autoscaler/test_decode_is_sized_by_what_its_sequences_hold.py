"""A step's time grows with the tokens that its sequences hold, which differ between workers at the same batch.

Workers tell how full their KV cache is and how large it is. Without that the tokens can only be thought from prompts
and answers, and what differs between workers is noise to the model: at a constant load of long answers the largest
batch that it believed in wandered between 110 and 210 sequences, where 120 were true.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

from tandem_autoscaler.benchmark.case import Case, stage
from tandem_autoscaler.decide.easing import EASING_SECONDS
from tandem_autoscaler.decide.learning import context
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import fresh_state
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.signals.source import Snapshot
from tandem_autoscaler.simulator import core
from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.tandem import TandemPolicy
from tandem_autoscaler.simulator.run import Result, simulate
from tests.autoscaler.scene import TICK_SECONDS, D, P, Scene

BLOCKS = 4096  # of 16 tokens
BASE, EACH, PER_TOKEN = 0.010, 5e-5, 1e-7


# --- the model ------------------------------------------------------------------------------------------------
def decoding(*, told: bool, seed: int = 3, ticks: int = 120) -> Scene:
    """Four decode workers at 40 sequences each; what these hold wanders between 400 and 1600 tokens, by worker."""
    chance = random.Random(seed)
    scene = Scene(prefill=1, decode=4, minimum=1, maximum=9)
    for exported in scene.of(D):
        exported.blocks = BLOCKS if told else None
    for _ in range(ticks):
        scene.prompts(2.0, tokens=975)
        for exported in scene.of(D):
            batch, held = 40.0 * chance.uniform(0.9, 1.1), chance.uniform(400, 1600)
            exported.running, exported.kv = batch, batch * held / (BLOCKS * 16)
            seconds = BASE + EACH * batch + PER_TOKEN * batch * held
            tokens = TICK_SECONDS * batch / seconds
            exported.decode(tokens / 50, tokens=50, seconds_per_token=seconds, batch=batch)
        scene.tick(apply=False)
    return scene


def error(scene: Scene, held: float) -> float:
    """Of the time of 40 sequences of so many tokens, relative."""
    true = BASE + EACH * 40 + PER_TOKEN * 40 * held
    return abs(scene.state.decode.at_context(held).seconds(40) / true - 1.0)


def test_the_cost_of_a_context_is_learnt_from_workers_that_hold_different_ones() -> None:
    worst = {
        told: [
            max(error(scene, held) for held in (400, 1600))
            for scene in (decoding(told=told, seed=seed) for seed in (3, 4, 5, 6))
        ]
        for told in (True, False)
    }
    assert max(worst[True]) < 0.02
    assert sum(worst[False]) / 4 > 2 * max(worst[True]), "or it would prove nothing"


def test_what_is_asked_about_is_what_the_sequences_hold_now() -> None:
    """Prompts of 975 tokens and answers of 50 would be 1,000, and the caches hold 1,600 a sequence."""
    scene = decoding(told=True)
    for exported in scene.of(D):
        exported.kv = exported.running * 1600 / (BLOCKS * 16)
    scene.tick(apply=False)
    assert context(scene.state)[0] == pytest.approx(1600, rel=0.05)
    assert scene.decision(D).numbers["contextTokens"] == pytest.approx(1600, rel=0.05)
    assert context(decoding(told=False).state)[0] == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize("running", [0.0, 1.0])
def test_next_to_no_sequences_say_next_to_nothing(running: float) -> None:
    scene = decoding(told=True)
    for exported in scene.of(D):
        exported.running, exported.kv = running / 4, running * 9000 / (BLOCKS * 16) / 4
    scene.tick(apply=False)
    assert context(scene.state)[0] < 2700


def test_what_was_told_stands_while_nobody_is_heard_or_decodes_and_over_a_restart() -> None:
    scene = decoding(told=True)
    known = scene.state.sequence_tokens
    assert known is not None
    for exported in scene.of(D):
        exported.running = exported.kv = 0.0
    scene.tick(apply=False)
    assert scene.state.sequence_tokens == known
    scene.silent = set(scene.pods)
    for _ in range(20):
        scene.tick(apply=False)
    assert scene.state.sequence_tokens == known
    numbers = {name: f"{value:.6g}" for name, value in scene.decision(D).numbers.items()}
    status = {"autoscaling": {"roles": {D: {"numbers": numbers}}}}
    again = fresh_state(replace(scene.service, status=status), scene.now, scene.settings)
    assert again.sequence_tokens == pytest.approx(known, rel=1e-4)
    # An engine that tells it no longer is no longer believed.
    scene.silent = set()
    for exported in scene.of(D):
        exported.running, exported.blocks = 40.0, None
    scene.tick(apply=False)
    assert scene.state.sequence_tokens is None


# --- easing ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("late_demotion", [False, True])
@pytest.mark.parametrize("told", [False, True])
def test_decode_eases_only_where_its_workers_tell_what_they_hold(told: bool, late_demotion: bool) -> None:
    scene = Scene(prefill=2, decode=2, minimum=2, maximum=2, late_demotion=late_demotion)
    for exported in scene.of(D):
        exported.blocks, exported.running, exported.kv = (BLOCKS if told else None), 8.0, 0.1
    scene.settle(int(EASING_SECONDS / TICK_SECONDS) + 40, prompts=4.0, seconds=0.1)
    assert scene.state.memory(D).ease == (1.0 if told else 0.0)
    assert scene.state.memory(P).ease == (1.0 if late_demotion else 0.0)
    for _ in range(24):
        scene.prompts(4.0, seconds=0.1)
        scene.answers(4.0, seconds_per_token=0.3)
        scene.tick(apply=False)
    assert scene.state.memory(D).ease == 0.0, "answers are slow: cautious again"
    assert scene.state.memory(P).ease == (1.0 if late_demotion else 0.0), "which are not prefill's"


# --- a whole fleet --------------------------------------------------------------------------------------------
class Watched(TandemPolicy):
    """Ours, with what it believed that a worker can take over what it truly could, tick by tick.

    `told=False` keeps from it what the caches hold.
    """

    def __init__(self, *, told: bool) -> None:
        super().__init__()
        self.told, self.believed = told, list[float]()

    def step(self, fleet: Fleet) -> Targets:
        targets = super().step(fleet)
        self._compare(fleet, self.outcome.decisions[D].numbers.get("batchLimit"))
        return targets

    def _read(self, fleet: Fleet) -> tuple[Service, Snapshot]:
        service, snapshot = super()._read(fleet)
        if self.told:
            return service, snapshot
        pods = {}
        for uid, reading in snapshot.pods.items():
            gauges = {name: value for name, value in reading.gauges.items() if name != "kv_tokens"}
            pods[uid] = replace(reading, gauges=gauges)
        return service, replace(snapshot, pods=pods)

    def _compare(self, fleet: Fleet, believed: float | None) -> None:
        decode = fleet.state.workers[fleet.state.workers["role"] == core.DECODE]
        running = decode["running"].sum()
        if believed is None or not running:
            return
        base, each, per_token = fleet.hardware.decode
        seconds = Settings().safety * fleet.settings.tpot_seconds
        self.believed.append(
            believed / ((seconds - base) / (each + per_token * decode["kv"].sum() / running))
        )


def served(*, told: bool) -> tuple[Watched, Result]:
    """An hour of reasoning models' long answers around the day's peak."""
    case = Case("servegen-deepseek-r1", "", seed=101, around_peak_seconds=3600.0)
    on, policy = stage(case, {"late_demotion": True}), Watched(told=told)
    return policy, simulate(on.trace, on.hardware, on.settings, policy, 6, 14)


def test_a_fleet_of_long_answers_keeps_its_promise_because_a_workers_limit_is_known() -> None:
    (told, kept), (hidden, without) = served(told=True), served(told=False)
    # After the first ten minutes, in which both learn.
    assert np.median(np.abs(np.array(told.believed[120:]) - 1.0)) < 0.12
    assert np.median(np.abs(np.array(hidden.believed[120:]) - 1.0)) > 0.25, "or it would prove nothing"
    assert kept.attainment.tpot > max(0.995, without.attainment.tpot)
