"""Field case H1 and invariant 15."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.budget import clamp


def clamped(
    desired: tuple[int, int], gpus: tuple[int, int], budget: int, minimum: tuple[int, int] = (1, 1)
) -> object:
    def by_role(pair: tuple[int, int]) -> dict[str, int]:
        return {"prefill": pair[0], "decode": pair[1]}

    found = clamp(by_role(desired), by_role(gpus), by_role(minimum), budget)
    return found and (found["prefill"], found["decode"])


@pytest.mark.parametrize(
    ("desired", "gpus", "budget", "right"),
    [
        ((10, 1), (8, 1), 20, (2, 1)),
        ((12, 1), (8, 1), 32, (3, 1)),
        ((1, 10), (1, 8), 20, (1, 2)),
        ((3, 3), (8, 8), 8, None),
        ((3, 3), (0, 0), 0, (3, 3)),
        ((4, 2), (1, 1), 6, (4, 2)),
        ((6, 3), (1, 1), 6, (4, 2)),
    ],
)
def test_exact_cases(desired: tuple[int, int], gpus: tuple[int, int], budget: int, right: object) -> None:
    assert clamped(desired, gpus, budget) == right


pairs = st.tuples(st.integers(0, 40), st.integers(0, 40))


@given(
    pairs,
    st.tuples(st.integers(0, 8), st.integers(0, 8)),
    st.integers(0, 200),
    st.tuples(*[st.integers(0, 3)] * 2),
)
def test_never_above_the_wish_nor_the_budget_nor_below_the_minimum(
    desired: tuple[int, int], gpus: tuple[int, int], budget: int, minimum: tuple[int, int]
) -> None:
    found = clamped(desired, gpus, budget, minimum)
    least = tuple(min(d, max(m, min(1, d))) for d, m in zip(desired, minimum, strict=True))
    if found is None:
        assert sum(n * g for n, g in zip(least, gpus, strict=True)) > budget
        return
    assert isinstance(found, tuple)
    assert all(low <= n <= high for low, n, high in zip(least, found, desired, strict=True))
    assert sum(n * g for n, g in zip(found, gpus, strict=True)) <= budget


@given(pairs, st.tuples(st.integers(1, 8), st.integers(1, 8)), st.integers(0, 200), st.integers(0, 40))
def test_a_larger_budget_serves_the_worst_served_role_no_worse(
    desired: tuple[int, int], gpus: tuple[int, int], budget: int, more: int
) -> None:
    def worst(found: object) -> float:
        if not isinstance(found, tuple):
            return -1.0
        return min((n / d for n, d in zip(found, desired, strict=True) if d), default=1.0)

    assert worst(clamped(desired, gpus, budget + more)) >= worst(clamped(desired, gpus, budget)) - 1e-12
