"""RBAC as data: what a component may ask of the API server, next to the code that asks.

The chart's rules are generated from it (`make generate`), and integration tests run the components with exactly
these rights on a real API server, so that a call without its right fails there and not at a user's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Permission:
    """Verbs on one resource; `resource` may name a subresource, as in `pods/log`."""

    group: str
    resource: str
    verbs: tuple[str, ...]


def rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """The rules of a Role, sorted, one per resource; verbs of the same resource are joined."""
    joined: dict[tuple[str, str], set[str]] = {}
    for permission in permissions:
        joined.setdefault((permission.group, permission.resource), set()).update(permission.verbs)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": sorted(verbs)}
        for (group, resource), verbs in sorted(joined.items())
    ]
