"""A pod's manifest as the few facts that plans need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import Manifest
from tandem_operator.observe.quantity import parse_quantity
from tandem_operator.observe.timestamp import parse_time

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Terminated:
    """How a container last ended."""

    reason: str
    exit_code: int
    message: str


@dataclass(frozen=True)
class Broken:
    """Why the engine of a group cannot go on. `finishes`: all its ranks still live, so what is open may end."""

    reason: str
    finishes: bool = False


@dataclass(frozen=True)
class PodView:
    """One worker. `gpus` is None when they cannot be told (a claim of the DRA kind).

    A worker that runs on several nodes is one view too, that of its leader with the facts of all (`observe/group.py`).
    """

    name: str
    uid: str
    role: str
    resource_version: str = ""
    phase: str = "Pending"
    ready: bool = False
    # The start-up probe has passed once since the container's last start: it may have open requests.
    started: bool = False
    serving: bool = True
    template_hash: str = ""
    created_at: float = 0.0
    # When the API server expects the pod to be gone (deletion request plus grace); None while it is wanted.
    gone_by: float | None = None
    drain_started: float | None = None
    # The drain was for a smaller number and nothing else.
    drain_reversible: bool = False
    # When it changed its role; None for never.
    flipped_at: float | None = None
    # Since when it has been ready without a break; None while it is not.
    ready_since: float | None = None
    gpus: int | None = 0
    ip: str | None = None
    restarts: int = 0
    waiting_reason: str = ""
    waiting_message: str = ""
    terminated: Terminated | None = None
    unschedulable: str = ""
    # The pod's own reason and message: Evicted, NodeLost, UnexpectedAdmissionError.
    reason: str = ""
    message: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    # A node has been found for it.
    scheduled: bool = False
    # The name of the leader, where the worker runs on several nodes.
    group: str = ""
    rank: int = 0
    nodes: int = 1
    # Of a group: its pods as they are, the leader first; the ranks that have none; and what ended it.
    ranks: tuple["PodView", ...] = ()
    missing: tuple[int, ...] = ()
    broken: Broken | None = None

    @property
    def pods(self) -> tuple["PodView", ...]:
        """The pods of this worker, each for itself."""
        return self.ranks or (self,)

    @property
    def forming(self) -> bool:
        """A group that still waits for a pod or a node."""
        return bool(self.missing) or any(not pod.scheduled for pod in self.ranks)

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def terminating(self) -> bool:
        return self.gone_by is not None

    @property
    def draining(self) -> bool:
        """Has left the router and is not yet deleted."""
        return self.drain_started is not None and not self.terminating and not self.finished

    @property
    def may_come_back(self) -> bool:
        """It drains only because there were too many, and would serve at once if it were shown to the router."""
        return self.draining and self.drain_reversible and self.ready

    @property
    def member(self) -> bool:
        """Counts towards the role's target."""
        gone = self.finished or self.terminating or self.broken is not None
        return not gone and self.drain_started is None


def is_gpu(resource: str) -> bool:
    """Does this resource name mean a GPU or a slice of one? nvidia.com/gpu, amd.com/gpu, nvidia.com/mig-3g.40gb."""
    kind = resource.partition("/")[2]
    return kind == "gpu" or kind.startswith(("gpu.", "mig-")) or kind in ("i915", "xe")


def gpus_of(pod_spec: Mapping[str, Any], resources: frozenset[str] = frozenset()) -> int | None:
    """GPUs that the scheduler sets aside for a pod, limits or requests, over all containers.

    `resources` are further names that count. None when the pod asks by resource claim: the number is not in it.
    """
    total = 0
    for container in pod_spec.get("containers") or []:
        asked = container.get("resources") or {}
        amounts = {**(asked.get("requests") or {}), **(asked.get("limits") or {})}
        for resource, amount in amounts.items():
            if is_gpu(resource) or resource in resources:
                total += int(parse_quantity(amount))
    if total == 0 and pod_spec.get("resourceClaims"):
        return None
    return total


def view_pod(manifest: Manifest, *, container: str, gpu_resources: frozenset[str] = frozenset()) -> PodView:
    """The facts of one pod; `container` is the one whose state matters."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    state: Mapping[str, Any] = next(
        (entry for entry in status.get("containerStatuses") or [] if entry.get("name") == container), {}
    )
    scheduled = conditions.get("PodScheduled", {})
    ready = conditions.get("Ready", {}).get("status") == "True"
    waiting = (state.get("state") or {}).get("waiting") or {}
    waiting = waiting or _init_trouble(status)
    return PodView(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        role=labels.get(names.LABEL_ROLE, ""),
        resource_version=metadata.get("resourceVersion", ""),
        phase=status.get("phase", "Pending"),
        ready=ready,
        started=bool(state.get("started")) or ready,
        serving=labels.get(names.LABEL_SERVING) == "true",
        template_hash=labels.get(names.LABEL_TEMPLATE_HASH, ""),
        created_at=parse_time(metadata.get("creationTimestamp")) or 0.0,
        gone_by=parse_time(metadata.get("deletionTimestamp")),
        drain_started=parse_time(annotations.get(names.ANNOTATION_DRAIN_STARTED)),
        drain_reversible=annotations.get(names.ANNOTATION_DRAIN_REVERSIBLE) == "true",
        flipped_at=parse_time(annotations.get(names.ANNOTATION_FLIPPED_AT)),
        ready_since=parse_time(conditions.get("Ready", {}).get("lastTransitionTime")) if ready else None,
        gpus=gpus_of(spec, gpu_resources),
        ip=status.get("podIP") or None,
        restarts=int(state.get("restartCount") or 0),
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        terminated=_terminated(state),
        unschedulable=scheduled.get("message", "") or "no node fits" if _unschedulable(scheduled) else "",
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        annotations=annotations,
        scheduled=bool(spec.get("nodeName")) or scheduled.get("status") == "True" or bool(state),
        group=labels.get(names.LABEL_GROUP, ""),
        rank=_number(labels.get(names.LABEL_RANK), 0),
        nodes=_number(annotations.get(names.ANNOTATION_NODES), 1),
    )


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isdigit() else default


def _unschedulable(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "False" and condition.get("reason") == "Unschedulable"


def _terminated(state: Mapping[str, Any]) -> Terminated | None:
    now, before = state.get("state") or {}, state.get("lastState") or {}
    last = now.get("terminated") or before.get("terminated")
    if not last:
        return None
    return Terminated(last.get("reason", ""), int(last.get("exitCode") or 0), last.get("message", ""))


def _init_trouble(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """A waiting init container holds the pod up just as the engine's own would."""
    for entry in status.get("initContainerStatuses") or []:
        waiting = (entry.get("state") or {}).get("waiting") or {}
        if waiting and waiting.get("reason") != "PodInitializing":
            return {**waiting, "message": f"init container {entry.get('name')}: {waiting.get('message', '')}"}
    return {}
