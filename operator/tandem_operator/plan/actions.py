"""The vocabulary of a plan. Every action carries its reason; the carry-out adds nothing of its own.

Room is left for one more action of the lifecycle: Flip (a drained worker changes its role).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tandem_api.kubernetes.cluster import Kind, Manifest
from tandem_api.reasons import EventReason


@dataclass(frozen=True)
class Create:
    """POST one worker pod."""

    manifest: Manifest
    role: str
    reason: str

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True)
class Drain:
    """Take one worker out of the router; it finishes what it has."""

    pod: str
    uid: str
    role: str
    started: float
    reason: str
    # Nothing is wrong with it, there are only too many: while it drains it may be taken back.
    reversible: bool = False


@dataclass(frozen=True)
class Undrain:
    """Put one draining worker back into the router, provided that it is still the one that was looked at."""

    pod: str
    uid: str
    role: str
    resource_version: str
    reason: str


@dataclass(frozen=True)
class Delete:
    """End one worker."""

    pod: str
    uid: str
    role: str
    reason: str


Action = Create | Drain | Undrain | Delete


@dataclass(frozen=True)
class Apply:
    """Server-side apply of a child; skipped when the live object says the same already."""

    kind: Kind
    manifest: Manifest


@dataclass(frozen=True)
class Remove:
    """Delete a child that is no longer wanted."""

    kind: Kind
    name: str
    uid: str
    reason: str


@dataclass(frozen=True)
class CreatePool:
    manifest: Manifest


@dataclass(frozen=True)
class SetReplicas:
    """autoscaling.mode Off: the spec is the pool's owner."""

    pool: str
    replicas: int


@dataclass(frozen=True)
class Mark:
    """Labels and annotations of a live worker, corrected in place; None removes."""

    pod: str
    uid: str
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Notice:
    """A Kubernetes Event about the service."""

    type: Literal["Normal", "Warning"]
    reason: EventReason
    message: str
    # The worker whose action it tells of: untold when the action was not done.
    pod: str | None = None


@dataclass(frozen=True)
class Plan:
    """All of one pass, in the order of carrying out: children first, then pools, then pods, status last."""

    objects: tuple[Apply, ...] = ()
    pools: tuple[CreatePool | SetReplicas, ...] = ()
    marks: tuple[Mark, ...] = ()
    actions: tuple[Action, ...] = ()
    removals: tuple[Remove, ...] = ()
    # Pool name -> its status.
    pool_status: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # None: leave the status as it is.
    status: Mapping[str, Any] | None = None
    events: tuple[Notice, ...] = ()
    # Look again after this long even when nothing happens.
    requeue_seconds: float | None = None
