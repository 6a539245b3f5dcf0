"""Field case E13: Kubernetes' quantities."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.build.canonical import digest
from tandem_operator.observe.quantity import parse_quantity, same_quantity
from tandem_operator.observe.spec import read_spec
from tests.operator.fleet import colocated


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2.85Gi", "3060164198.4"), ("3060164198400m", "3060164198.4"), ("1G", "1000000000"), ("1Gi", "1073741824"),
        ("500m", "0.5"), (1, "1"), ("1", "1"), ("1e3", "1000"), ("100n", "0.0000001"),
    ],
)  # fmt: skip
def test_what_a_quantity_means(text: Any, amount: str) -> None:
    assert parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2.85Gi", "3060164198400m", True), ("1G", "1Gi", False), ("0.5", "500m", True), (1, "1", True),
        ("lots", "lots", False),
    ],
)  # fmt: skip
def test_two_spellings_of_one_amount(one: Any, other: Any, same: bool) -> None:
    assert same_quantity(one, other) is same


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "one", "1GiB", None])
def test_what_is_none(text: Any) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@given(st.integers(0, 10**9))
def test_a_spelling_is_no_change(millis: int) -> None:
    written = [f"{millis}m", str(Decimal(millis) / 1000)]
    hashes = {digest({"resources": {"limits": {"cpu": spelling}}}) for spelling in written}
    assert len(hashes) == 1


@pytest.mark.parametrize("amount", ["1.5", 1.5, "1500m"])
def test_half_a_gpu_is_refused_wherever_it_is_written(amount: Any) -> None:
    limits = {"containers": [{"name": "engine", "resources": {"limits": {"nvidia.com/gpu": amount}}}]}
    read, sentence = read_spec(colocated(workers={"gpus": 1, "template": {"spec": limits}}))
    assert read is None
    assert "GPUs are whole; set gpus instead" in str(sentence)
    assert read_spec(colocated(workers={"gpus": 1.5}))[0] is None


@pytest.mark.parametrize("amount", ["1", 1, "1000m"])
def test_one_gpu_is_one_gpu_in_any_spelling(amount: Any) -> None:
    limits = {"containers": [{"name": "engine", "resources": {"limits": {"nvidia.com/gpu": amount}}}]}
    assert read_spec(colocated(workers={"gpus": 1, "template": {"spec": limits}}))[1] is None
