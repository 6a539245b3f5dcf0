"""Invariant 15: GPUs over services. Lower priorities never take from higher ones, and more GPUs take from nobody."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.arbiter import Claim, Grant, allocate
from tests.autoscaler.strategies import examples

Key = tuple[str, str]


@st.composite
def claims(draw: st.DrawFn, name: str = "", least: int = 1, most: int = 5) -> list[Claim]:
    """Services with one or two roles each, some of them without GPUs."""
    found = []
    for number in range(draw(st.integers(least, most))):
        roles = draw(st.sampled_from((("prefill", "decode"), ("workers",))))
        wanted = {role: draw(st.integers(0, 12)) for role in roles}
        found.append(
            Claim(
                ("n", f"{name}{number}"), draw(st.integers(-1, 2)), wanted,
                {role: draw(st.integers(0, 3)) for role in roles},
                {role: draw(st.sampled_from((0, 1, 1, 2, 8))) for role in roles},
            )
        )  # fmt: skip
    return found


def gpus(claim: Claim, grant: Grant) -> int:
    return sum(count * claim.gpus[role] for role, count in grant.workers.items())


def least_cost(found: list[Claim]) -> int:
    return sum(
        min(claim.minimum[role], claim.wanted[role]) * claim.gpus[role]
        for claim in found for role in claim.wanted
    )  # fmt: skip


def each(found: list[Claim], grants: Mapping[Key, Grant]) -> list[tuple[Claim, Grant]]:
    return [(claim, grants[claim.key]) for claim in found]


@examples()
@given(claims(), st.integers(0, 120))
def test_nobody_gets_more_than_wanted_nor_all_together_more_than_there_is(
    found: list[Claim], budget: int
) -> None:
    granted = each(found, allocate(found, budget))
    assert sum(gpus(claim, grant) for claim, grant in granted) <= budget
    for claim, grant in granted:
        assert all(0 <= grant.workers[role] <= claim.wanted[role] for role in claim.wanted)
        assert grant.whole == (dict(grant.workers) == dict(claim.wanted))
        assert all(grant.workers[r] == claim.wanted[r] for r in claim.wanted if claim.gpus[r] == 0)


@examples()
@given(claims(), st.integers(0, 120))
def test_every_minimum_is_kept_when_all_of_them_fit(found: list[Claim], extra: int) -> None:
    for claim, grant in each(found, allocate(found, least_cost(found) + extra)):
        for role in claim.wanted:
            assert grant.workers[role] >= min(claim.minimum[role], claim.wanted[role])


@examples()
@given(claims(), st.integers(0, 120), st.integers(0, 40))
def test_more_gpus_never_lower_anybodys_share(found: list[Claim], budget: int, more: int) -> None:
    before, after = allocate(found, budget), allocate(found, budget + more)
    for claim in found:
        for role in claim.wanted:
            assert after[claim.key].workers[role] >= before[claim.key].workers[role]


@examples()
@given(claims(), claims(name="low", most=3), st.integers(0, 120))
def test_a_service_of_lower_priority_takes_nothing_that_is_not_its_minimum(
    found: list[Claim], low: list[Claim], budget: int
) -> None:
    """What the newcomers' minima cost is reserved for them (floors first); beyond it nobody above notices them."""
    lowest = min(claim.priority for claim in found) - 1
    low = [Claim(c.key, lowest, c.wanted, c.minimum, c.gpus) for c in low]
    alone = allocate(found, budget)
    together = allocate([*found, *low], budget + least_cost(low))
    for claim in found:
        for role in claim.wanted:
            assert together[claim.key].workers[role] >= alone[claim.key].workers[role]


@examples()
@given(claims(), st.integers(0, 120), st.randoms(use_true_random=False))
def test_the_order_of_the_claims_does_not_matter(
    found: list[Claim], budget: int, random: st.DataObject
) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert allocate(shuffled, budget) == allocate(found, budget)


@examples()
@given(claims(), st.integers(0, 120))
def test_a_higher_priority_is_whole_before_a_lower_one_gets_more_than_its_minimum(
    found: list[Claim], budget: int
) -> None:
    granted = each(found, allocate(found, budget))
    for claim, grant in granted:
        beyond = any(
            grant.workers[r] > min(claim.minimum[r], claim.wanted[r]) for r in claim.wanted if claim.gpus[r]
        )
        if beyond:
            assert all(other.whole for above, other in granted if above.priority > claim.priority)
