"""Numbers as people read them, and as a status keeps them."""

from collections.abc import Mapping


def rounded(value: float, digits: int = 2) -> str:
    """`value` to so many significant digits, up to 10^12 without an exponent: 9,340."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"


def stored(numbers: Mapping[str, float]) -> dict[str, str]:
    """To three digits and by name, for `float` to read again; `meanings.explained` puts them into words."""
    return {name: f"{value:.3g}" for name, value in sorted(numbers.items())}
