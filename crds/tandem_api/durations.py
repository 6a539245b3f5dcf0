"""Durations as users write them ("40ms", "1s", "5m", "1m30s") and as seconds."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

# One pattern for the CRD schema and for this parser, so that both refuse the same text.
DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(text: str) -> float:
    """Seconds of a duration such as ``"40ms"`` or ``"1m30s"``.

    Raises ValueError with a sentence for the user when it is no duration.
    """
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(
            f"{text!r} is not a duration: write a number and ms, s, m or h, such as 40ms or 1m30s"
        )
    # Rounded to the microsecond, so that 40ms is 0.04 and not 0.040000000000000001.
    return round(sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), 6)


def format_seconds(seconds: float) -> str:
    """A short text for a person: ``0.04`` -> ``40ms``, ``1.5`` -> ``1.5s``, ``300`` -> ``5m``."""
    if seconds < 1:
        return f"{_three_digits(seconds * 1000)}ms"
    if seconds < 120 or seconds % 60:
        return f"{_three_digits(seconds)}s"
    return f"{seconds / 60:.0f}m"


def _three_digits(value: float) -> str:
    # Not the `g` format: from 1000 on it falls into exponents, which are no duration.
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _checked(text: str) -> str:
    parse_seconds(text)
    return text


# The pattern comes first: constraints that follow a validator do not reach the JSON schema.
Duration = Annotated[str, Field(pattern=DURATION_PATTERN, max_length=32), AfterValidator(_checked)]
