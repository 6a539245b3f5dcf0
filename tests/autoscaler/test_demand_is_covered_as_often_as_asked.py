"""The demand to be ready for: invariant 19, and what a forecast that learns from its own errors must not do."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_autoscaler.decide.demand import ENOUGH_RATIOS, LEAST_RATIO, MOST_RATIO, SOME_RATIOS, Demand

STEP, HORIZON = 15.0, 60.0


def watched(rates: list[float], *, horizon: float = HORIZON, start: float = 0.0) -> Demand:
    demand = Demand()
    for index, rate in enumerate(rates):
        demand = demand.observed(start + STEP * index, rate, horizon)
    return demand


@pytest.mark.parametrize("quantile", [0.6, 0.8, 0.9])
def test_independent_demand_is_covered_at_least_as_often_as_asked(quantile: float) -> None:
    """Invariant 19: coverage within [q - 0.05, 1], judged on the next horizon, which no forecast has seen."""
    random = np.random.default_rng(5)
    rates = list(random.gamma(20.0, 0.5, 900))
    ahead = round(HORIZON / STEP)
    demand, covered = watched(rates[:300]), []
    for index in range(300, len(rates) - ahead):
        demand = demand.observed(STEP * index, rates[index], HORIZON)
        found = demand.highest(quantile, 1.3)
        assert found is not None
        covered.append(max(rates[index + 1 : index + 1 + ahead]) <= found.rate)
    assert np.mean(covered) >= quantile - 0.05


def test_smooth_traffic_earns_a_small_headroom_and_bursty_traffic_pays_for_a_large_one() -> None:
    smooth = watched([10 + 0.1 * (i % 3) for i in range(200)]).highest(0.8, 1.3)
    bursty = watched([10.0 if i % 10 else 30.0 for i in range(201)]).highest(0.8, 1.3)
    assert smooth is not None and bursty is not None
    assert smooth.rate < 11
    assert bursty.rate >= 29


def test_the_headroom_is_the_quantile_of_the_ratios_that_could_be_judged() -> None:
    """numpy's own quantile, with an outage that leaves some forecasts unjudged."""
    random = np.random.default_rng(8)
    demand = Demand()
    for index in [*range(100), *range(120, 260)]:
        demand = demand.observed(STEP * index, float(random.gamma(4.0, 2.0)), HORIZON)
    judged = demand.ratios[:, np.isfinite(demand.ratios[0])]
    for quantile in (0.1, 0.5, 0.8, 0.97):
        found = demand.highest(quantile, 1.3)
        assert found is not None and found.judged == judged.shape[1] < 235
        ratios = np.quantile(judged, min(1.0, quantile * (1 + 1 / found.judged)), axis=1)
        assert found.ratio in np.clip(ratios, LEAST_RATIO, MOST_RATIO).tolist()


def test_before_enough_forecasts_were_judged_the_prior_stands() -> None:
    found = watched([10.0] * 8).highest(0.8, 1.3)
    assert found is not None and found.judged < ENOUGH_RATIOS
    assert found.rate == pytest.approx(13.0)


def test_a_load_that_has_not_risen_needs_the_prior_for_half_of_that_time_only() -> None:
    ahead = round(HORIZON / STEP)
    smooth = [10.0 + 0.1 * (i % 3) for i in range(SOME_RATIOS + ahead)]
    risen = [*smooth[:10], 20.0, *smooth[11:]]
    for rates, ratio in ((smooth[:-1], 1.3), (smooth, 1.02), (risen, 1.3)):
        found = watched(rates).highest(0.8, 1.3)
        assert found is not None and found.judged < ENOUGH_RATIOS
        assert found.ratio == pytest.approx(ratio, abs=0.01)


def test_the_larger_of_prior_and_remembered_ratio_protects_after_a_restart() -> None:
    found = Demand(remembered_ratio=1.8).observed(0, 10.0, HORIZON).highest(0.8, 1.3)
    assert found is not None and found.rate == pytest.approx(18.0)


def test_a_load_that_begins_from_nothing_is_no_ratio() -> None:
    """An idle hour, then a steady load: its beginning does not make the headroom of all that follows."""
    found = watched([0.0] * 200 + [10.0] * 100).highest(0.8, 1.3)
    assert found is not None
    assert found.rate <= 13.0


def test_nothing_measured_is_no_forecast() -> None:
    assert Demand().highest(0.8, 1.3) is None


@given(
    st.lists(st.tuples(st.floats(0.1, 400), st.floats(0, 1e4)), min_size=1, max_size=80),
    st.floats(0.5, 0.99), st.floats(1, 600),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_gaps_of_any_length_leave_a_finite_forecast_within_its_bounds(
    steps: list[tuple[float, float]], quantile: float, horizon: float
) -> None:
    """Invariant 19's second half: an outage of the metrics leaves an empty window, which once crashed."""
    demand, now = Demand(), 0.0
    for gap, rate in steps:
        now += gap
        demand = demand.observed(now, rate, horizon)
        found = demand.highest(quantile, 1.3)
        assert found is not None and math.isfinite(found.rate) and found.rate >= 0
        assert LEAST_RATIO <= found.ratio <= MOST_RATIO
        widened = demand.widened(quantile, horizon)
        assert widened is None or 0 <= widened <= demand.rate.max() + 1e-9


def test_a_forecast_whose_horizon_fell_into_an_outage_is_not_judged() -> None:
    demand = watched([10.0] * 100)
    judged = demand.highest(0.8, 1.3)
    # Ten minutes unseen; then traffic is three times as high. The forecasts from before did not fail: nobody looked.
    after = demand.observed(STEP * 99 + 600, 30.0, HORIZON).observed(STEP * 100 + 600, 30.0, HORIZON)
    found = after.highest(0.8, 1.3)
    assert judged is not None and found is not None
    assert found.ratio == pytest.approx(judged.ratio, abs=0.05)


def test_the_longer_the_silence_the_more_may_have_come_about() -> None:
    """ALGORITHM 4.11: blind, the need ratchets up slowly, never above what was seen."""
    random = np.random.default_rng(2)
    walk = 10 * np.exp(np.cumsum(random.normal(0, 0.03, 400)))
    demand = watched(list(walk))
    minute, ten = demand.widened(0.8, 60), demand.widened(0.8, 600)
    assert minute is not None and ten is not None
    assert minute <= ten <= walk.max()


def test_an_old_state_is_not_changed_by_a_new_one() -> None:
    before = watched([10.0] * 40)
    copies = (before.at.copy(), before.rate.copy(), before.forecasts.copy(), before.ratios.copy())
    before.observed(STEP * 40, 99.0, HORIZON)
    for kept, copy in zip((before.at, before.rate, before.forecasts, before.ratios), copies, strict=True):
        assert np.array_equal(kept, copy, equal_nan=True)


@pytest.mark.parametrize("kind", ["shorter", "longer"])
def test_requests_of_another_length_are_not_taken_for_more_or_fewer_of_them(kind: str) -> None:
    """They are counted before their lengths are known: the newest point is set right once these are."""
    thought, true = (100.0, 20.0) if kind == "shorter" else (20.0, 100.0)
    demand = Demand().observed(0, 2 * thought, HORIZON, each=thought)
    demand = demand.observed(5, 2 * true, HORIZON, each=true)
    found = demand.highest(0.8, 1.3)
    assert found is not None
    assert found.rate / true == pytest.approx(2 * 1.3)
    assert len(demand.at) == 1


def test_within_a_step_the_same_requests_change_nothing() -> None:
    before = Demand().observed(0, 200.0, HORIZON, each=100.0)
    assert before.observed(5, 230.0, HORIZON, each=105.0) is before
