"""Frontiers, intervals, and what is said of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tandem_autoscaler.benchmark.frontier import Point, cheapest_reaching, cost_at, frontier, mean
from tandem_autoscaler.benchmark.row import KEYS
from tandem_autoscaler.benchmark.table import table
from tandem_autoscaler.benchmark.tuning import choose
from tandem_autoscaler.benchmark.verdict import compare, verdict
from tests.benchmark.rows import made

LINE = [Point(10.0, 0.9), Point(20.0, 0.98), Point(30.0, 1.0)]
points = st.lists(st.builds(Point, st.floats(1.0, 100.0), st.floats(0.0, 1.0)), min_size=1, max_size=20)


def test_cost_lies_straight_between_two_constants() -> None:
    assert cost_at(LINE, 0.94) == pytest.approx(15.0)
    assert cost_at(LINE, 0.99) == pytest.approx(25.0)


def test_cost_is_unknown_beyond_the_best_and_that_of_the_cheapest_below_it() -> None:
    assert cost_at(LINE[:2], 0.99) is None
    assert cost_at(LINE, 0.5) == 10.0


def test_a_constant_that_costs_more_for_less_is_no_part_of_the_frontier() -> None:
    assert frontier([*LINE, Point(25.0, 0.95)]) == LINE


@given(points)
def test_the_frontier_ascends_and_nothing_beats_it(some: list[Point]) -> None:
    line = frontier(some)
    assert all(a.gpu_hours < b.gpu_hours and a.attainment < b.attainment for a, b in pairwise(line))
    for point in some:
        assert any(best.gpu_hours <= point.gpu_hours and best.attainment >= point.attainment for best in line)


@given(points, st.floats(0.0, 1.0))
def test_the_interpolated_cost_is_never_above_that_of_a_constant_that_reaches_it(
    some: list[Point], at: float
) -> None:
    cost, reaching = cost_at(some, at), cheapest_reaching(some, at)
    assert (cost is None) == (reaching is None)
    if cost is not None and reaching is not None:
        assert cost <= reaching + 1e-9


def test_the_interval_is_students() -> None:
    """1, 2, 3: mean 2, s = 1, t(2) = 4.303, so 4.303 / sqrt(3)."""
    assert mean([1.0, 2.0, 3.0]).half == pytest.approx(4.303 / np.sqrt(3.0))
    assert mean([1.0]).half is None


def test_the_tuned_constant_is_the_cheapest_that_keeps_99_percent() -> None:
    rows = [
        made("hpa", joint, hours, seed=101, constants={"scale": scale})
        for scale, joint, hours in ((1.0, 0.95, 10.0), (0.7, 0.991, 14.0), (0.5, 0.999, 20.0))
    ]
    assert choose(rows) == {("step-x4", "hpa"): {"scale": 0.7}}
    assert choose(rows[:1]) == {("step-x4", "hpa"): {"scale": 1.0}}


def ours(hours: float, joint: float = 0.99) -> list[dict[str, object]]:
    return [made("tandem", joint, hours + 0.01 * seed, seed=seed, oracle_ratio=1.05) for seed in (1, 2, 3)]


def line(policy: str, *sweep: tuple[float, float]) -> list[dict[str, object]]:
    return [
        made(policy, joint, hours + 0.01 * seed, seed=seed, set="sweep", constants={"scale": hours})
        for seed in (1, 2, 3)
        for joint, hours in sweep
    ]


def test_ahead_behind_and_tied_follow_from_the_interval() -> None:
    sweeps = line("dearer", (0.98, 11.0), (1.0, 13.0)) + line("cheaper", (0.98, 8.0), (1.0, 9.0))
    sweeps += line("equal", (0.98, 9.0), (1.0, 11.0)) + line("never", (0.9, 5.0), (0.985, 20.0))
    found = {comparison.policy: comparison for comparison in compare(ours(10.0), sweeps)}
    assert {policy: comparison.outcome for policy, comparison in found.items()} == {
        "dearer": "ahead", "cheaper": "behind", "equal": "tie", "never": "ahead",
    }  # fmt: skip
    assert found["never"].ratio is None and found["never"].seeds == 3
    assert found["dearer"].ratio is not None
    assert found["dearer"].ratio.value == pytest.approx(10.02 / 12.02, rel=1e-3)


def test_the_last_paragraph_says_where_a_baseline_wins() -> None:
    said = verdict(ours(10.0), line("cheaper", (0.98, 8.0), (1.0, 9.0)))
    assert "BEHIND cheaper (1.18" in said
    assert "1.10 x hindsight: step-x4." in said
    dear = [{**row, "oracle_ratio": 1.2} for row in ours(10.0)]
    assert "on no trace" in verdict(dear, [])


def test_the_model_oracle_is_no_competitor() -> None:
    assert compare(ours(10.0), line("oracle_model", (0.98, 8.0), (1.0, 9.0))) == []


def test_the_table_ranks_those_who_keep_the_promise_by_cost() -> None:
    rows = [made("dear", 0.999, 20.0), made("poor", 0.5, 5.0), made("good", 0.991, 12.0)]
    assert set(KEYS) <= set(rows[0])
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table("main", rows))
    text = console.export_text()
    assert text.index("good") < text.index("dear") < text.index("poor")
