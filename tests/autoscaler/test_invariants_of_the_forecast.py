"""Invariant 19: the demand quantile covers what comes as often as it says, and an outage leaves it standing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.demand import LEAST_RATIO, MOST_RATIO, STEP_SECONDS, Demand
from tests.autoscaler.strategies import examples

HORIZON = 60.0
STEPS = round(HORIZON / STEP_SECONDS)


def fed(rates: list[float], demand: Demand | None = None, start: float = 1_000_000.0) -> Demand:
    demand = demand or Demand()
    for tick, rate in enumerate(rates):
        demand = demand.observed(start + STEP_SECONDS * tick, rate, HORIZON)
    return demand


@pytest.mark.parametrize("spread", [0.1, 0.5])
def test_independent_demands_are_covered_as_often_as_promised(spread: float) -> None:
    """Three runs of 880 forecasts each, of which neighbours overlap, after the first twenty minutes."""
    covered: dict[float, list[bool]] = {0.6: [], 0.8: [], 0.9: []}
    for seed in range(3):
        rates = [float(r) for r in 5.0 * np.random.default_rng(seed).lognormal(0.0, spread, 1000)]
        demand = Demand()
        for tick, rate in enumerate(rates[:-STEPS]):
            demand = demand.observed(1_000_000.0 + STEP_SECONDS * tick, rate, HORIZON)
            if tick < 120:
                continue
            truth = max(rates[tick + 1 : tick + 1 + STEPS])
            for quantile, hits in covered.items():
                found = demand.highest(quantile, 1.3)
                assert found is not None
                hits.append(truth <= found.rate)
    for quantile, hits in covered.items():
        assert quantile - 0.05 <= np.mean(hits) <= 1.0, quantile


@examples()
@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.sampled_from((1, 1, 1, 2, 7, 40, 2000))), max_size=40),
    st.floats(0.6, 0.98),
)
def test_outages_of_any_length_leave_a_forecast_or_none_but_never_a_fault(
    life: list[tuple[float, int]], quantile: float
) -> None:
    """The real fault was an exception with an empty window of residuals after an outage."""
    demand, at = Demand(), 1_000_000.0
    for rate, steps in life:
        at += steps * STEP_SECONDS
        demand = demand.observed(at, rate, HORIZON)
        found = demand.highest(quantile, 1.3)
        assert found is not None and np.isfinite(found.rate) and found.rate >= 0
        assert LEAST_RATIO <= found.ratio <= MOST_RATIO
        wide = demand.widened(quantile, HORIZON + 300.0)
        assert wide is None or 0 <= wide <= max(r for r, _ in life)


@examples(0.5)
@given(st.lists(st.floats(0.1, 100), min_size=40, max_size=60), st.floats(0.6, 0.9), st.floats(0.0, 0.08))
def test_a_higher_quantile_never_asks_for_less_of_the_same_expert(
    rates: list[float], quantile: float, more: float
) -> None:
    demand = fed(rates)
    low, high = demand.highest(quantile, 1.3), demand.highest(quantile + more, 1.3)
    assert low is not None and high is not None
    if low.expert == high.expert:
        assert high.rate >= low.rate - 1e-9


@examples(0.5)
@given(st.lists(st.floats(0.1, 100), min_size=30, max_size=60), st.floats(0.1, 50))
def test_demand_in_other_units_has_the_same_headroom(rates: list[float], factor: float) -> None:
    one, other = fed(rates).highest(0.8, 1.3), fed([factor * r for r in rates]).highest(0.8, 1.3)
    assert one is not None and other is not None
    assert other.rate == pytest.approx(factor * one.rate, rel=1e-6)


def test_an_older_forecast_is_a_value_that_later_ones_leave_as_it_was() -> None:
    rng = np.random.default_rng(3)
    rates = [float(r) for r in rng.gamma(4.0, 2.0, 200)]
    early = fed(rates[:100])
    before = early.highest(0.8, 1.3)
    fed(rates[100:], early, start=1_000_000.0 + 100 * STEP_SECONDS)
    assert early.highest(0.8, 1.3) == before
