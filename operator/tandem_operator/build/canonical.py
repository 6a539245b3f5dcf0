"""One text for one meaning: the basis of every hash here."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tandem_operator.observe.quantity import parse_quantity

_QUANTITIES = frozenset({"limits", "requests"})


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; amounts of resources as plain decimals, so that spelling is no change."""
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """16 hexadecimal digits; fits a label value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def _canonical(value: Any, *, amounts: bool = False) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): _canonical(child, amounts=amounts or key in _QUANTITIES) for key, child in value.items()
        }
    if isinstance(value, list | tuple):
        return [_canonical(child) for child in value]
    if amounts and isinstance(value, str | int | float):
        try:
            return format(parse_quantity(value).normalize(), "f")
        except ValueError:
            return value
    return value
