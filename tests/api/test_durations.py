import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api.durations import DURATION_PATTERN, format_seconds, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("40ms", 0.04), ("1s", 1.0), ("1.5s", 1.5), ("5m", 300.0), ("1m30s", 90.0), ("2h", 7200.0), ("0s", 0.0)],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "40", "ms", "-1s", "1 s", "1d", "1s ", "١s"])
def test_anything_else_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write a number and ms, s, m or h"):
        parse_seconds(text)


@given(st.integers(1, 10**7))
def test_what_is_shown_to_people_reads_back_within_the_shown_digits(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_seconds(format_seconds(seconds)) == pytest.approx(seconds, rel=5e-3)


@given(st.text(alphabet="0123456789.mshd ", max_size=12))
def test_the_parser_and_the_schema_refuse_the_same_texts(text: str) -> None:
    try:
        parse_seconds(text)
        accepted = True
    except ValueError:
        accepted = False
    assert accepted == bool(re.fullmatch(DURATION_PATTERN, text))
