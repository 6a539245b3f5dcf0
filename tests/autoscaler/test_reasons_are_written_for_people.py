"""A decision's sentence is read at night: its numbers have few digits, and no exponents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.words import rounded, stored
from tandem_autoscaler.meanings import explained


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (9337.4, 3, "9,340"),
        (151.0, 2, "150"),
        (45.2, 2, "45"),
        (0.2799, 2, "0.28"),
        (0.0, 2, "0"),
        (1_234_567.0, 3, "1,230,000"),
        (0.00042, 2, "0.00042"),
    ],
)
def test_few_digits_and_no_exponent(value: float, digits: int, text: str) -> None:
    assert rounded(value, digits) == text


@given(st.floats(1e-4, 1e11), st.integers(2, 4))
def test_what_is_written_is_the_value_to_its_digits(value: float, digits: int) -> None:
    text = rounded(value, digits)
    assert "e" not in text
    assert abs(float(text.replace(",", "")) - value) <= 0.5000001 * value * 10 ** (1 - digits)


def test_a_number_that_was_stored_is_told_with_its_meaning_and_its_unit() -> None:
    numbers = stored({"tokensPerSecond": 9337.4, "promptTokens": 1534.0, "need": 3.0})
    assert explained(numbers) == [
        ("mean prompt", "1,530 tokens"),
        ("output tokens that are asked for", "9,340/s"),
        ("workers needed", "3 workers"),
    ]
