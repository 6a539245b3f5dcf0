"""How long a prompt will take: a line through what the prompts before it took."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_worker.gate.demotion.prefill_time import FEWEST_SAMPLES, SAMPLES, PrefillTime


def test_nothing_is_predicted_before_a_few_prompts_are_seen():
    line = PrefillTime()
    for count in range(FEWEST_SAMPLES):
        assert not line.known
        line.learn(100 + count, 0.1)
    assert line.known


@given(base=st.floats(0, 0.5), per_token=st.floats(1e-6, 1e-2), seed=st.integers(0, 100))
def test_a_line_is_found_again(base, per_token, seed):
    chooser = random.Random(seed)
    line = PrefillTime()
    for _ in range(20):
        tokens = chooser.uniform(10, 8000)
        line.learn(tokens, base + per_token * tokens)
    assert line.work_seconds(5000) == pytest.approx(per_token * 5000, rel=1e-4)
    assert line.latency_seconds == pytest.approx(base, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("bad", [0, 3, FEWEST_SAMPLES - 1])
def test_one_slow_start_bends_nothing(bad):
    line = PrefillTime()
    for number in range(FEWEST_SAMPLES):
        tokens = 200 + 800 * number
        line.learn(tokens, 9.0 if number == bad else 0.01 + 2e-5 * tokens)
    assert line.work_seconds(1000) == pytest.approx(0.02, rel=0.3)
    assert line.latency_seconds == pytest.approx(0.01, rel=0.3)


def test_prompts_of_one_length_tell_nothing_of_work():
    """What they take may be latency, which others do not wait for: the order stays first come first served."""
    line = PrefillTime()
    for _ in range(FEWEST_SAMPLES):
        line.learn(500, 0.2)
    assert line.work_seconds(5000) == 0
    assert line.latency_seconds == pytest.approx(0.2)


def test_no_time_is_negative_however_the_samples_lie():
    line = PrefillTime()
    for number in range(10):
        line.learn(100 * number, 1.0 - 0.1 * number)
    assert line.latency_seconds >= 0 and line.work_seconds(10**6) >= 0


def test_an_engine_that_became_slower_is_learnt_anew():
    line = PrefillTime()
    for speed in (1.0, 3.0):
        for number in range(SAMPLES + 4):
            tokens = 100 + 50 * (number % 20)
            line.learn(tokens, speed * 1e-4 * tokens)
    assert line.work_seconds(1000) == pytest.approx(0.3, rel=0.01)
