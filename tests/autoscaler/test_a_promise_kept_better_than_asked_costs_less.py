"""The slow gain: the demand quantile comes down while nearly nothing is missed, and is back soon after a miss."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.demand import ENOUGH_RATIOS, STEP_SECONDS, Demand
from tandem_autoscaler.decide.easing import (
    BOLDEST_QUANTILE,
    EASING_SECONDS,
    LOUD_BURN,
    MOST_SPENT,
    QUIET_BURN,
    RETURN_SECONDS,
    SPENT_SECONDS,
    eased,
    prior_for,
    quantile_for,
    spent_later,
)
from tandem_autoscaler.decide.state import DEMAND_RATIO, fresh_state
from tests.autoscaler.scene import TICK_SECONDS, D, P, Scene

shares = st.floats(0.0, 1.0)
seconds = st.floats(0.0, 120.0)
burns = st.none() | st.floats(0.0, 20.0)


@given(shares, st.lists(st.tuples(burns, seconds), max_size=40))
def test_it_stays_between_cautious_and_bold(ease: float, life: list[tuple[float | None, float]]) -> None:
    for burning, passed in life:
        after = eased(ease, burning, passed)
        assert 0.0 <= after <= 1.0
        assert after >= ease or (burning is not None and burning > LOUD_BURN), "caution needs a miss"
        assert after <= ease or (burning is not None and burning < QUIET_BURN), (
            "boldness needs a measured quiet"
        )
        ease = after


@given(shares, st.floats(0.0, QUIET_BURN, exclude_max=True), st.floats(LOUD_BURN, 20.0, exclude_min=True))
def test_boldness_takes_a_quarter_of_an_hour_and_caution_a_minute(
    ease: float, quiet: float, loud: float
) -> None:
    assert eased(0.0, quiet, EASING_SECONDS) == 1.0
    assert eased(0.0, quiet, EASING_SECONDS / 2) < 0.51
    assert eased(ease, loud, RETURN_SECONDS) == 0.0


@given(shares, burns, seconds, st.floats(MOST_SPENT, 20.0, exclude_min=True))
def test_who_has_spent_what_may_be_missed_grows_no_bolder(
    ease: float, burning: float | None, passed: float, spent: float
) -> None:
    assert eased(ease, burning, passed, spent=spent) == min(ease, eased(ease, burning, passed))


def test_a_burst_is_remembered_for_as_long_as_it_was_bad() -> None:
    """A fifth of the requests missed for five minutes, of a p95 promise: more than half an hour of caution."""
    spent = 0.0
    for _ in range(60):
        spent = spent_later(spent, 4.0, 5.0)
    minutes = 0
    while spent > MOST_SPENT:
        spent, minutes = spent_later(spent, 0.0, 60.0), minutes + 1
    assert 30 < minutes < 4 * SPENT_SECONDS / 60
    assert spent_later(spent, None, 60.0) == spent, "nothing is known, nothing is forgotten"


@given(st.floats(0.01, 0.99), shares, shares)
def test_the_quantile_is_never_above_the_one_asked_for(asked: float, less: float, more: float) -> None:
    less, more = sorted((less, more))
    bold, cautious = quantile_for(asked, more), quantile_for(asked, less)
    assert min(asked, BOLDEST_QUANTILE) - 1e-12 <= bold <= cautious + 1e-12 <= asked + 2e-12
    assert quantile_for(asked, 0.0) == asked


def eased_scene(*, late_demotion: bool = True) -> Scene:
    scene = Scene(prefill=2, decode=2, minimum=2, maximum=2, late_demotion=late_demotion)
    return scene.settle(int(EASING_SECONDS / TICK_SECONDS) + 40, prompts=4.0, seconds=0.1)


def test_prefill_eases_and_is_cautious_again_once_prompts_are_late_and_after_a_restart() -> None:
    scene = eased_scene()
    assert scene.state.memory(P).ease == 1.0
    assert scene.state.memory(D).ease == 0.0, "its workers do not tell what their sequences hold"
    for _ in range(24):
        scene.prompts(4.0, seconds=1.5)
        scene.answers(4.0)
        scene.tick(apply=False)
    assert scene.state.memory(P).ease == 0.0
    assert fresh_state(scene.service, scene.now, scene.settings).memory(P).ease == 0.0


def test_nothing_eases_where_late_prompts_hold_up_the_others() -> None:
    assert eased_scene(late_demotion=False).state.memory(P).ease == 0.0


def test_an_eased_pool_is_sized_for_less_of_the_same_demand() -> None:
    """Demand that comes as it likes, ten a second in the median. In the mean of an hour, because experts change."""
    chance, demand = random.Random(5), Demand()
    sized: dict[float, list[float]] = {0.0: [], 0.5: [], 1.0: []}
    for step in range(360):
        rate = 10.0 * chance.lognormvariate(0.0, 0.3)
        demand = demand.observed(STEP_SECONDS * step, rate, 5 * STEP_SECONDS)
        for ease, rates in sized.items():
            found = demand.highest(quantile_for(0.85, ease), 1.3)
            assert found is not None
            if found.judged >= ENOUGH_RATIOS:
                rates.append(found.rate)
    cautious, half, bold = (sum(rates) / len(rates) for rates in sized.values())
    assert cautious > 1.05 * half > 1.05 * 1.05 * bold > 10.0


def test_an_eased_prefill_pool_is_given_less_for_the_unknown_and_decode_is_not() -> None:
    """Before enough forecasts were judged to know the service's own."""
    scene = Scene(prefill=2, decode=2, minimum=2, maximum=2, late_demotion=True, headroom=None)
    scene.settle(int(300 / TICK_SECONDS), prompts=4.0, seconds=0.1)
    ease = scene.state.memory(P).ease
    assert ease == pytest.approx(300 / EASING_SECONDS, abs=0.05)
    assert scene.decision(P).numbers[DEMAND_RATIO] == pytest.approx(1.3 - 0.3 * ease, abs=0.01)
    assert scene.decision(D).numbers[DEMAND_RATIO] == 1.3


@given(shares, st.floats(0.6, 4.0))
def test_a_prior_below_one_is_never_raised(ease: float, prior: float) -> None:
    found = prior_for(prior, Scene().service, P, ease)
    assert min(1.0, prior) - 1e-12 <= found <= prior
    assert prior_for(prior, Scene().service, D, ease) == prior


def test_who_is_not_heard_grows_no_bolder() -> None:
    scene = Scene(prefill=2, decode=2, minimum=2, maximum=2, late_demotion=True)
    scene.settle(60, prompts=4.0, seconds=0.1)
    scene.silent = set(scene.pods)
    eases = []
    for _ in range(140):
        scene.tick(apply=False)
        eases.append(scene.state.memory(P).ease)
    # For five minutes the window still shows what was there before.
    assert 0.0 < eases[70] == eases[-1] < 1.0
