"""The API server's audit log as the answer to "who wrote what": the measure of a quiet control plane."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Reads are left out: they are the bulk, and the API server's own metrics count them.
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
"""


@dataclass(frozen=True)
class Write:
    """One request that may have changed something."""

    verb: str
    user: str
    user_agent: str
    resource: str
    """``group/resource`` or ``resource`` of the core group, with ``/subresource`` where one was named."""
    namespace: str
    name: str
    status: int
    at: str


class AuditLog:
    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """The place in the log now (bytes)."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def writes_since(
        self, mark: int = 0, *, user: str | None = None, user_agent: str | None = None,
        resource: str | None = None, leases: bool = False,
    ) -> list[Write]:  # fmt: skip
        """Writes after `mark`, refused ones included. `user` and `user_agent` match by substring.

        Leases are left out unless asked for: holding one is the only write that time alone causes.
        """
        found: list[Write] = []
        if not self.path.exists():
            return found
        with self.path.open("rb") as log:
            log.seek(mark)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # still being written
                write = _parse(json.loads(line))
                if user is not None and user not in write.user:
                    continue
                if user_agent is not None and user_agent not in write.user_agent:
                    continue
                if resource is not None and write.resource != resource:
                    continue
                if not leases and write.resource.startswith("coordination.k8s.io/leases"):
                    continue
                found.append(write)
        return found


def _parse(event: dict[str, Any]) -> Write:
    target = event.get("objectRef") or {}
    group = f"{target['apiGroup']}/" if target.get("apiGroup") else ""
    part = f"/{target['subresource']}" if target.get("subresource") else ""
    return Write(
        verb=event.get("verb", ""),
        user=event.get("user", {}).get("username", ""),
        user_agent=event.get("userAgent", ""),
        resource=f"{group}{target.get('resource', '')}{part}",
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        status=event.get("responseStatus", {}).get("code", 0),
        at=event.get("requestReceivedTimestamp", ""),
    )
