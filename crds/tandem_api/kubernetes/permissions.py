"""RBAC as data: what a component may ask of the API server, next to the code that asks.

The chart's rules are generated from it (`make generate`), and integration tests run the components with exactly
these rights on a real API server, so that a call without its right fails there and not at a user's.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tandem_api.kubernetes.cluster import Kind


@dataclass(frozen=True, order=True)
class Permission:
    """Verbs on one resource; `resource` may name a subresource, as in `workerpools/scale`."""

    group: str
    resource: str
    verbs: tuple[str, ...]

    @classmethod
    def on(cls, kind: Kind, *verbs: str, subresource: str = "") -> "Permission":
        """The verbs on a kind, or on one of its subresources."""
        group = kind.api_version.rpartition("/")[0]
        return cls(group, kind.plural + (f"/{subresource}" if subresource else ""), verbs)


def rules(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """The rules of a Role, sorted, one per resource; verbs of the same resource are joined."""
    joined: dict[tuple[str, str], set[str]] = {}
    for permission in permissions:
        joined.setdefault((permission.group, permission.resource), set()).update(permission.verbs)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": sorted(verbs)}
        for (group, resource), verbs in sorted(joined.items())
    ]


def generate(permissions: Iterable[Permission], program: str, arguments: list[str] | None = None) -> int:
    """Command line of a component's permissions module: write the rules to a file, or compare with `--check`."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = parser.parse_args(arguments)
    text = f"# Generated from {program} by `make generate`. Do not edit.\n" + yaml.safe_dump(
        rules(permissions), sort_keys=False
    )
    if not options.check:
        options.file.parent.mkdir(parents=True, exist_ok=True)
        options.file.write_text(text)
    elif not options.file.exists() or options.file.read_text() != text:
        print(f"{options.file} is not what {program} says: run `make generate`", file=sys.stderr)
        return 1
    return 0
