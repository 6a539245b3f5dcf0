"""Kubernetes quantities ("500m", "2.85Gi") as exact decimals, so that spelling never looks like a change."""

from decimal import Decimal, InvalidOperation
from typing import Any

_SUFFIX = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


def parse_quantity(value: Any) -> Decimal:
    """The number that a quantity means. Raises ValueError when it is none."""
    text = str(value).strip()
    for length in (2, 1, 0):
        suffix = text[len(text) - length :] if length else ""
        number = text[: len(text) - length]
        if suffix in _SUFFIX and number and number == number.strip():
            try:
                return Decimal(number) * _SUFFIX[suffix]
            except InvalidOperation:
                continue
    raise ValueError(f"{value!r} is not a quantity")


def same_quantity(one: Any, other: Any) -> bool:
    """True when both are quantities and mean the same number."""
    try:
        return parse_quantity(one) == parse_quantity(other)
    except ValueError:
        return False
