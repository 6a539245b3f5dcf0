"""Issue 6, item 5: token budget and long-prompt threshold by the model, checked by vLLM's scheduler in simulation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_autoscaler.diagnose.chunking import Grid, tune
from tandem_autoscaler.model.colocated import Promise, Traffic, capacity, predict
from tandem_autoscaler.model.mixed_step import Chunking
from tests.autoscaler.chunk_grid import DEFAULT, KINDS

# By so much fewer requests than the best of the grid the pick may serve, and by so much the model may be off.
NEAR_THE_BEST, NEAR_THE_TRUTH = 0.10, 0.30
LONG_AMONG_SHORT = KINDS["3 % of 16,000 tokens"]


@pytest.mark.parametrize("name", ["3 % of 16,000 tokens", "short answers"])
def test_the_pick_serves_nearly_what_the_best_of_the_grid_serves(name: str) -> None:
    kind = KINDS[name]
    pick = kind.tuned(20.0).best
    serves = kind.simulated_capacity(pick.chunking, (3,))
    assert serves >= 1.2 * kind.simulated_capacity(DEFAULT, (3,))
    # All of the grid at the rate that would show the pick to be too bad: none keeps both promises.
    too_much = serves / (1.0 - NEAR_THE_BEST)
    late = {one: kind.late(too_much, one, seed=3) for one in Grid().settings()}
    assert min(late.values()) > 0.8 * kind.promise.allowance, min(late, key=lambda one: late[one])
    assert pick.capacity == pytest.approx(serves, rel=NEAR_THE_TRUTH)


@pytest.mark.parametrize("name", ["chat", "chat, 70B", "documents, 70B"])
def test_where_nothing_is_gained_the_setting_stays(name: str) -> None:
    tuned = KINDS[name].tuned(40.0)
    assert not tuned.worth_a_restart
    assert tuned.best.capacity <= 1.1 * tuned.now.capacity


def test_short_prompts_among_long_ones_want_the_threshold_and_prompts_of_one_length_do_not() -> None:
    tuned = LONG_AMONG_SHORT.tuned(50.0)
    assert tuned.best.chunking.threshold > 0 and tuned.worth_a_restart
    assert tuned.now.workers is not None and tuned.best.workers is not None
    assert tuned.best.workers < tuned.now.workers / 2
    alike = replace(LONG_AMONG_SHORT, prompts=((4000.0, 1.0),), promise=Promise(2.0, 0.05, 0.05))
    assert not alike.tuned(10.0, Chunking(4096)).worth_a_restart


def test_a_strict_tpot_asks_for_smaller_steps_where_answers_are_short() -> None:
    kind = KINDS["short answers"]
    strict = replace(kind, promise=replace(kind.promise, ttft_seconds=2.0, tpot_seconds=0.02))
    loose = replace(kind, promise=replace(kind.promise, ttft_seconds=0.6, tpot_seconds=0.2))
    assert strict.tuned(5.0).best.chunking.budget < loose.tuned(5.0).best.chunking.budget


def test_a_promise_that_no_setting_keeps_is_told_and_not_chased() -> None:
    hopeless = replace(LONG_AMONG_SHORT, promise=Promise(0.4, 0.001, 0.05)).tuned(10.0)
    assert hopeless.now.workers is None and hopeless.best.workers is None and not hopeless.worth_a_restart


def test_budgets_hold_one_token_of_each_sequence_and_are_no_larger_than_prompts_can_use() -> None:
    assert all(one.budget >= 1000 for one in Grid(least=1000).settings())
    assert max(one.budget for one in Grid(longest=4096).settings()) < 2 * 4096
    assert all(one.threshold == 0 or 32 <= one.threshold < one.budget for one in Grid().settings())


def test_the_model_knows_what_a_worker_cannot_do() -> None:
    kind = KINDS["chat"]
    assert predict(kind.model, kind.traffic(1000.0), kind.promise, DEFAULT).in_time == 0.0
    small = replace(kind.model, kv_tokens=1000.0)
    assert predict(small, kind.traffic(5.0), kind.promise, DEFAULT).in_time == 0.0
    idle = predict(kind.model, kind.traffic(0.0), kind.promise, DEFAULT)
    assert idle.in_time == 1.0 and idle.batch == 0.0


def test_time_per_token_and_batch_are_what_the_simulator_has() -> None:
    kind = KINDS["chat"]
    predicted = predict(kind.model, kind.traffic(12.0), kind.promise, Chunking(2048))
    served = kind.served(12.0, Chunking(2048), seed=5)
    trace = kind.trace(12.0, seed=5)
    several = trace.output > 1
    assert predicted.tpot_seconds == pytest.approx(
        np.average(served.tpot[several], weights=trace.output[several]), rel=0.1
    )


lengths = st.lists(st.integers(16, 12_000), min_size=1, max_size=4, unique=True).map(
    lambda found: tuple((float(tokens), 1.0 / len(found)) for tokens in sorted(found))
)
chunkings = st.sampled_from(list(Grid().settings()))


@settings(max_examples=60, deadline=None)
@given(lengths, st.floats(2, 400), st.floats(0.2, 5), st.floats(0.01, 0.2), chunkings)
def test_looser_promises_never_lower_the_capacity(
    prompts: tuple[tuple[float, float], ...], output: float, ttft: float, tpot: float, chunking: Chunking
) -> None:
    worker, promise = LONG_AMONG_SHORT.model, Promise(ttft, tpot, 0.05)
    traffic = Traffic(1.0, prompts, output)

    def of(promise: Promise) -> float:
        return capacity(worker, traffic, promise, chunking)

    base = of(promise)
    assert 0.0 <= base < float("inf")
    # The bisection is to half a percent.
    assert of(replace(promise, ttft_seconds=2 * ttft)) >= 0.98 * base
    assert of(replace(promise, tpot_seconds=2 * tpot)) >= 0.98 * base
    assert of(replace(promise, allowance=0.1)) >= 0.98 * base


@settings(max_examples=40, deadline=None)
@given(lengths, st.floats(2, 400), st.floats(0.1, 30), chunkings)
def test_shares_are_shares_and_more_load_is_never_better(
    prompts: tuple[tuple[float, float], ...], output: float, rate: float, chunking: Chunking
) -> None:
    worker, promise = LONG_AMONG_SHORT.model, Promise(1.0, 0.05, 0.05)
    one = predict(worker, Traffic(rate, prompts, output), promise, chunking)
    more = predict(worker, Traffic(1.3 * rate, prompts, output), promise, chunking)
    assert 0.0 <= one.late_first <= 1.0 and 0.0 <= one.late_tokens <= 1.0
    assert more.in_time <= one.in_time + 0.02


def test_the_present_setting_is_rated_like_the_others_and_may_be_one_that_is_not_of_the_grid() -> None:
    now = Chunking(3000, 700)
    tuned = tune(LONG_AMONG_SHORT.model, LONG_AMONG_SHORT.traffic(5.0), LONG_AMONG_SHORT.promise, now, 1)
    assert tuned.now.chunking == now
    assert tuned.now.capacity == pytest.approx(
        capacity(LONG_AMONG_SHORT.model, LONG_AMONG_SHORT.traffic(5.0), LONG_AMONG_SHORT.promise, now)
    )


def test_an_engine_without_thresholds_is_offered_none() -> None:
    kind = LONG_AMONG_SHORT
    tuned = tune(kind.model, kind.traffic(20.0), kind.promise, DEFAULT, 5, Grid(thresholds=False))
    assert tuned.best.chunking.threshold == 0
