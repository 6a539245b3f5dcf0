"""The vocabulary of a plan. Every action carries its reason; the carry-out adds nothing of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tandem_api.kubernetes.cluster import Kind, Manifest
from tandem_api.reasons import EventReason


@dataclass(frozen=True)
class Create:
    """POST one worker: its pod or, where it runs on several nodes, its leader and then the others."""

    manifest: Manifest
    role: str
    reason: str
    others: tuple[Manifest, ...] = ()

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
class Flip:
    """Give one worker the role `role` and put it into the router, provided that it is still the one looked at."""

    pod: str
    uid: str
    role: str
    resource_version: str
    at: float  # Unix seconds; kept on the pod, which then rests
    reason: str


@dataclass(frozen=True)
class Delete:
    """End one worker, all its pods."""

    pod: str
    uid: str
    role: str
    reason: str
    # It never served, and nothing is wrong with it: another role may have it instead.
    surplus: bool = False


Action = Create | Drain | Undrain | Flip | Delete


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
class Unlist:
    """Take one worker off the list of one router, which should have dropped it by itself."""

    router: str
    address: str  # the router pod's
    url: str  # the worker's, as the router writes it
    reason: str


@dataclass(frozen=True)
class Enlist:
    """Put one worker on the list of one router, which does not find out by itself that it came back."""

    router: str
    address: str  # the router pod's
    url: str  # the worker's
    role: str
    bootstrap_port: int | None = None  # of a prefill worker that hands KV over at a port of its own


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
    unlists: tuple[Unlist, ...] = ()
    enlists: tuple[Enlist, ...] = ()
    removals: tuple[Remove, ...] = ()
    # Pool name -> its status.
    pool_status: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # None: leave the status as it is.
    status: Mapping[str, Any] | None = None
    events: tuple[Notice, ...] = ()
    # Look again after this long even when nothing happens.
    requeue_seconds: float | None = None
