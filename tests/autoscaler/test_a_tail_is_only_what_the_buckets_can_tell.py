"""Field case A15, and the arithmetic of histograms."""

import math
import random
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.signals.histogram import Histogram, Sum

EDGES = (0.3, 0.5, 1.0, 2.5, math.inf)
counts = st.tuples(*[st.integers(0, 50).map(float)] * 5)


def test_all_in_the_first_bucket_tells_nothing_about_a_target_inside_it() -> None:
    histogram = Histogram(EDGES, (100, 0, 0, 0, 0), 2.0)
    tail, share = histogram.tail(0.99), histogram.share_within(0.25)
    assert tail is not None and not tail.resolved
    assert share is not None and not share.resolved
    assert histogram.mean == pytest.approx(0.02)


def test_all_beyond_the_top_edge_is_at_least_the_top_edge() -> None:
    tail = Histogram(EDGES, (0, 0, 0, 0, 10), 3000.0).tail(0.95)
    assert tail is not None
    assert tail.value == 2.5 and math.isinf(tail.upper)
    share = Histogram(EDGES, (0, 0, 0, 0, 10), 3000.0).share_within(1.0)
    assert share is not None and share.upper == 0.0


def test_a_target_on_an_edge_is_exact() -> None:
    share = Histogram(EDGES, (50, 30, 15, 5, 0), 40.0).share_within(1.0)
    assert share is not None
    assert share.lower == share.upper == share.estimate == pytest.approx(0.95)


def test_a_target_between_edges_is_bounded() -> None:
    share = Histogram(EDGES, (50, 30, 20, 0, 0), 40.0).share_within(0.75)
    assert share is not None
    assert (share.lower, share.upper) == (0.8, 1.0)
    assert share.estimate == pytest.approx(0.9)


def test_nothing_observed_is_unknown() -> None:
    empty = Histogram(EDGES, (0, 0, 0, 0, 0), 0.0)
    assert empty.tail(0.95) is None and empty.share_within(1.0) is None and empty.mean is None


@given(counts, counts)
def test_a_counter_reset_is_never_negative_nor_more_than_it_holds(
    before: tuple[float, ...], now: tuple[float, ...]
) -> None:
    grown = Histogram(EDGES, now, 1.0).since(Histogram(EDGES, before, 5.0))
    assert grown is not None
    assert all(0 <= change <= held for change, held in zip(grown.counts, now, strict=True))


def test_other_edges_are_not_compared() -> None:
    """The gate takes a new target's edges and begins anew."""
    assert Histogram((1.0, math.inf), (1, 1), 2).since(Histogram((2.0, math.inf), (1, 1), 2)) is None


@given(counts, counts)
def test_histograms_with_different_edges_add_up_on_the_common_ones(
    a: tuple[float, ...], b: tuple[float, ...]
) -> None:
    other = Histogram((0.1, 1.0, 4.0, math.inf), b[:4], 1.0)
    both = Histogram(EDGES, a, 2.0).plus(other)
    assert both.edges == (1.0, math.inf)
    assert both.count == pytest.approx(sum(a) + sum(b[:4]))
    assert both.counts[0] == pytest.approx(sum(a[:3]) + sum(b[:2]))


@given(counts, counts, st.floats(0.01, 6))
def test_the_share_of_a_sum_lies_between_all_at_the_upper_and_all_at_the_lower_edges(
    a: tuple[float, ...], b: tuple[float, ...], value: float
) -> None:
    both = Sum.of(Histogram(EDGES, a, 1), Histogram(EDGES, b, 1))
    if both is None:
        assert sum(a) == 0 or sum(b) == 0
        return
    lows, pairs = (0.0, *EDGES), [(i, j) for i in range(len(EDGES)) for j in range(len(EDGES))]
    late = sum(a[i] * b[j] for i, j in pairs if EDGES[i] + EDGES[j] <= value) / sum(a) / sum(b)
    early = sum(a[i] * b[j] for i, j in pairs if lows[i] + lows[j] < value) / sum(a) / sum(b)
    assert late - 1e-9 <= both.share_within(value) <= early + 1e-9


def test_the_tail_of_a_sum_is_that_of_two_workers_one_after_the_other() -> None:
    """Prefill 0.5-1 s and decode 0.3-0.5 s, evenly: the p95 of the sum is near 1.4 s."""
    first = Histogram(EDGES, (0, 0, 100, 0, 0), 75.0)
    second = Histogram(EDGES, (0, 100, 0, 0, 0), 40.0)
    assert Sum(first, second).tail(0.95) == pytest.approx(1.4, abs=0.03)


@given(counts, counts, st.floats(0.02, 0.99))
def test_within_the_tail_of_a_sum_lies_the_share_that_was_asked_for(
    a: tuple[float, ...], b: tuple[float, ...], quantile: float
) -> None:
    both = Sum.of(Histogram(EDGES, a, 1.0), Histogram(EDGES, b, 1.0))
    if both is None:
        assert sum(a) == 0 or sum(b) == 0
        return
    tail = both.tail(quantile)
    within, just_below = both.share_within(tail), both.share_within(tail * (1 - 1e-6) - 1e-6)
    known = (1 - a[-1] / sum(a)) * (1 - b[-1] / sum(b))
    if quantile < known - 1e-6:
        assert within == pytest.approx(quantile, abs=1e-6)
        assert just_below < within
    elif quantile > known + 1e-6:
        assert tail == 2 * 2.5, "it lies beyond all edges"


def test_the_sum_is_that_of_a_large_sample() -> None:
    """Both even within their buckets: 40,000 pairs agree within the chance of such a sample."""
    a, b = (10, 40, 30, 20, 0), (50, 30, 0, 20, 0)
    random_ = random.Random(7)

    def drawn(shares: tuple[int, ...]) -> float:
        index = random_.choices(range(5), shares)[0]
        return random_.uniform(EDGES[index - 1] if index else 0.0, EDGES[index])

    sums = sorted(drawn(a) + drawn(b) for _ in range(40_000))
    both = Sum(Histogram(EDGES, tuple(map(float, a)), 1.0), Histogram(EDGES, tuple(map(float, b)), 1.0))
    for quantile in (0.1, 0.5, 0.95, 0.99):
        assert both.tail(quantile) == pytest.approx(sums[int(quantile * len(sums))], rel=0.02)
    for value in (0.3, 0.7, 1.2, 2.0, 4.0):
        assert both.share_within(value) == pytest.approx(bisect_right(sums, value) / len(sums), abs=0.01)
