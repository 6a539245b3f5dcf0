"""Where an answer takes minutes, most of what decode holds when a new worker serves is being written now.

A minute's arrivals are mostly chance then, and a pool that followed them would grow and shrink for nothing.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.load import Load, lasting, measure
from tests.autoscaler.scene import Scene

HORIZON_SECONDS = 50.0
rates = st.floats(0.0, 1e5)
seconds = st.floats(0.0, 1e4)


@given(rates, rates, seconds, seconds)
def test_what_decode_will_produce_lies_between_what_it_does_and_what_is_asked_for(
    asked: float, produced: float, stay: float, ahead: float
) -> None:
    low, high = sorted((asked, produced))
    assert low * (1 - 1e-9) - 1e-9 <= lasting(asked, produced, stay, ahead) <= high * (1 + 1e-9) + 1e-9


@given(rates, rates, seconds, seconds, seconds)
def test_the_longer_answers_take_the_more_counts_what_is_being_written(
    asked: float, produced: float, one: float, other: float, ahead: float
) -> None:
    short, long = sorted((one, other))
    away = [abs(lasting(asked, produced, stay, ahead) - asked) for stay in (short, long)]
    assert away[0] <= away[1] + 1e-9 * max(asked, produced)


def test_answers_that_are_over_long_before_are_none_of_it() -> None:
    assert lasting(100.0, 500.0, 2.0, HORIZON_SECONDS) == pytest.approx(100.0)
    assert lasting(100.0, 500.0, 0.0, HORIZON_SECONDS) == 100.0, "unknown"
    assert lasting(100.0, 500.0, 50.0, HORIZON_SECONDS) == pytest.approx(100.0 + 400.0 / 2.718, rel=1e-3)


def after_a_minute(*, prompts: float, tokens: float, seconds_per_token: float) -> tuple[Load, Load]:
    """The load of six minutes at 5 requests/s, and that after one more minute in which `prompts` come per second."""
    scene = Scene(prefill=2, decode=4, minimum=4, maximum=4)
    found = []
    for ticks, rate in ((72, 5.0), (12, prompts)):
        for _ in range(ticks):
            scene.prompts(rate, seconds=0.05)
            scene.answers(5.0, tokens=tokens, seconds_per_token=seconds_per_token)
            scene.tick(apply=False)
        found.append(measure(scene.state, scene.service, scene.settings, HORIZON_SECONDS, news=False)[1])
    return found[0], found[1]


def test_a_minute_of_more_prompts_is_a_third_of_that_where_answers_take_two() -> None:
    before, after = after_a_minute(prompts=7.0, tokens=3000, seconds_per_token=0.04)
    assert before.tokens == pytest.approx(15_000, rel=0.02)
    assert after.tokens == pytest.approx(15_000 * (1 + 0.34 * 0.4), rel=0.03)
    assert after.arrivals == pytest.approx(7.0, rel=0.02), "prefill has them all"


def test_it_is_all_of_that_where_answers_take_a_second() -> None:
    before, after = after_a_minute(prompts=7.0, tokens=50, seconds_per_token=0.02)
    assert before.tokens == pytest.approx(250, rel=0.02)
    assert after.tokens == pytest.approx(350, rel=0.03)


def test_a_pool_that_is_too_small_does_not_pass_for_what_is_asked_of_it() -> None:
    """Half of the tokens at thrice the promised time each: the answers' time counts as far as it is promised."""
    scene = Scene(prefill=2, decode=4, minimum=4, maximum=4)
    for _ in range(84):
        scene.prompts(5.0, seconds=0.05)
        scene.answers(2.5, tokens=400, seconds_per_token=0.3)
        scene.tick(apply=False)
    found = measure(scene.state, scene.service, scene.settings, HORIZON_SECONDS, news=False)[1]
    still = 2.718 ** -(HORIZON_SECONDS / (400 * 0.1))
    assert found.tokens == pytest.approx(2000 - still * 1000, rel=0.03), "and not 1350 of 2000"


def test_the_end_of_a_load_leaves_what_is_still_being_written() -> None:
    _, after = after_a_minute(prompts=0.0, tokens=3000, seconds_per_token=0.04)
    assert after.arrivals == 0.0
    assert after.tokens is not None and after.tokens > 0.5 * 15_000
    assert after.tokens_ahead is not None and after.tokens_ahead >= after.tokens * 0.99
