"""Invariant 15: the budget of several services. A larger one takes from nobody; a lower priority takes from nobody."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.arbiter import Claim, allocate

counts = st.integers(0, 8)


@st.composite
def claims(draw: st.DrawFn, most: int = 5) -> list[Claim]:
    made = []
    for number in range(draw(st.integers(1, most))):
        wanted = {"prefill": draw(counts), "decode": draw(counts)}
        made.append(
            Claim(
                ("default", f"s{number}"), draw(st.integers(0, 2)), wanted,
                {role: draw(st.integers(0, 2)) for role in wanted},
                {role: draw(st.sampled_from((0, 1, 2, 8))) for role in wanted},
            )
        )  # fmt: skip
    return made


def gpus(found: list[Claim], budget: int) -> int:
    grants = allocate(found, budget)
    return sum(grants[c.key].workers[role] * c.gpus[role] for c in found for role in c.wanted)


@given(claims(), st.integers(0, 200))
def test_the_budget_is_kept_and_nobody_gets_more_than_it_wants(found: list[Claim], budget: int) -> None:
    grants = allocate(found, budget)
    assert gpus(found, budget) <= budget
    for claim in found:
        for role, wanted in claim.wanted.items():
            assert 0 <= grants[claim.key].workers[role] <= wanted
        assert grants[claim.key].whole == (grants[claim.key].workers == claim.wanted)


@given(claims(), st.integers(0, 100), st.integers(0, 50))
def test_a_larger_budget_takes_a_worker_from_nobody(found: list[Claim], budget: int, more: int) -> None:
    small, large = allocate(found, budget), allocate(found, budget + more)
    for claim in found:
        assert all(large[claim.key].workers[role] >= small[claim.key].workers[role] for role in claim.wanted)


@given(claims(), st.integers(0, 100))
def test_a_service_of_lower_priority_takes_no_worker_beyond_its_minimum_from_a_higher_one(
    found: list[Claim], budget: int
) -> None:
    newcomer = Claim(("default", "late"), -1, {"prefill": 5}, {"prefill": 0}, {"prefill": 1})
    alone, together = allocate(found, budget), allocate([*found, newcomer], budget)
    assert all(together[claim.key] == alone[claim.key] for claim in found)


@given(claims(), st.integers(0, 100))
def test_the_order_of_the_claims_does_not_matter(found: list[Claim], budget: int) -> None:
    assert allocate(found, budget) == allocate(found[::-1], budget)


def test_within_one_priority_both_are_served_in_proportion_to_their_wishes() -> None:
    big = Claim(("a", "big"), 0, {"workers": 8}, {"workers": 1}, {"workers": 1})
    small = replace(big, key=("a", "small"), wanted={"workers": 4})
    grants = allocate([big, small], 6)
    assert (grants[big.key].workers["workers"], grants[small.key].workers["workers"]) == (4, 2)


def test_minima_come_before_wishes_whatever_the_priority() -> None:
    high = Claim(("a", "high"), 9, {"workers": 9}, {"workers": 1}, {"workers": 1})
    low = Claim(("a", "low"), 0, {"workers": 3}, {"workers": 2}, {"workers": 1})
    grants = allocate([high, low], 5)
    assert (grants[high.key].workers["workers"], grants[low.key].workers["workers"]) == (3, 2)
