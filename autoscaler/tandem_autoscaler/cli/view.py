"""An InferenceService and its pods as what a person asks about. Pure; what the status does not say is None."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import Manifest
from tandem_autoscaler.fleet.observe import epoch_seconds, is_paused


@dataclass(frozen=True)
class Condition:
    kind: str
    status: str
    reason: str
    message: str
    since_seconds: float | None


@dataclass(frozen=True)
class Promise:
    """TTFT or TPOT, in the status's own words."""

    name: str
    target: str
    measured: str | None
    attainment: str | None


@dataclass(frozen=True)
class Decision:
    """`numbers` as the status has them."""

    role: str
    before: int
    after: int
    reason: str
    message: str
    at_seconds: float | None
    numbers: Mapping[str, str]


@dataclass(frozen=True)
class RoleView:
    """Counts of the status; None before the operator wrote one."""

    role: str
    ready: int | None
    desired: int | None
    starting: int | None
    draining: int | None
    updated: int | None


@dataclass(frozen=True)
class WorkerView:
    """One pod of the service. `ailment`: why it does not serve, in the kubelet's or the scheduler's words."""

    name: str
    role: str
    phase: str
    ready: bool
    draining: bool
    created_seconds: float | None
    node: str | None
    ailment: str | None


@dataclass(frozen=True)
class ServiceView:
    namespace: str
    name: str
    uid: str
    created_seconds: float | None
    mode: str
    model: str
    scaling: str
    paused: bool
    url: str | None
    router: str | None
    roles: tuple[RoleView, ...]
    gpus_used: int | None
    gpu_budget: int | None
    percentile: int | None
    promises: tuple[Promise, ...]
    conditions: tuple[Condition, ...]
    decisions: tuple[Decision, ...]
    history: tuple[Decision, ...]
    stale: bool  # the status is about an earlier spec

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.conditions if one.kind == kind), None)


def service_view(manifest: Manifest) -> ServiceView:
    """Of one InferenceService as the API server has it."""
    metadata, spec = manifest["metadata"], _map(manifest.get("spec"))
    status, model = _map(manifest.get("status")), _map(spec.get("model"))
    scaling, slo, gpus = _map(status.get("autoscaling")), _map(status.get("slo")), _map(status.get("gpus"))
    counts = _map(status.get("roles"))
    mode = str(spec.get("mode", "Colocated"))
    expected = (names.WORKERS,) if mode == "Colocated" else (names.PREFILL, names.DECODE)
    # A pool of the mode before may still be ending.
    roles = [*expected, *(role for role in counts if role not in expected)]
    observed = status.get("observedGeneration")
    return ServiceView(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        created_seconds=epoch_seconds(metadata.get("creationTimestamp")),
        mode=mode,
        model=str(model.get("name") or model.get("uri") or ""),
        scaling=str(_map(spec.get("autoscaling")).get("mode", "Auto")),
        paused=is_paused(metadata),
        url=status.get("url"),
        router=status.get("router"),
        roles=tuple(_role(role, _map(counts.get(role))) for role in roles),
        gpus_used=gpus.get("used"),
        gpu_budget=gpus.get("budget"),
        percentile=slo.get("percentile"),
        promises=tuple(
            Promise(text, str(one.get("target", "")), one.get("measured"), one.get("attainment"))
            for key, text in (("ttft", "TTFT"), ("tpot", "TPOT"))
            if (one := _map(slo.get(key)))
        ),
        conditions=tuple(_condition(one) for one in _list(status.get("conditions"))),
        decisions=tuple(_decision(one) for one in _map(scaling.get("roles")).values()),
        history=tuple(_decision(one) for one in _list(scaling.get("history"))),
        stale=observed is not None and observed != metadata.get("generation", observed),
    )  # fmt: skip


def worker_views(pods: Iterable[Manifest]) -> tuple[WorkerView, ...]:
    """Prefill first, routers last, by name within."""
    places = {role: place for place, role in enumerate(names.ROLES)}
    found = [_worker(pod) for pod in pods]
    return tuple(sorted(found, key=lambda worker: (places.get(worker.role, len(places)), worker.name)))


def _worker(pod: Manifest) -> WorkerView:
    metadata, status = pod["metadata"], _map(pod.get("status"))
    labels, annotations = _map(metadata.get("labels")), _map(metadata.get("annotations"))
    conditions = {one.get("type"): one for one in _list(status.get("conditions"))}
    component = labels.get(names.LABEL_COMPONENT)
    role = component if component == names.COMPONENT_ROUTER else labels.get(names.LABEL_ROLE, "")
    return WorkerView(
        name=metadata["name"],
        role=str(role),
        phase=str(status.get("phase", "Unknown")),
        ready=_map(conditions.get("Ready")).get("status") == "True",
        draining=bool(metadata.get("deletionTimestamp")) or names.ANNOTATION_DRAIN_STARTED in annotations,
        created_seconds=epoch_seconds(metadata.get("creationTimestamp")),
        node=_map(pod.get("spec")).get("nodeName"),
        ailment=_ailment(status, conditions),
    )


def _ailment(status: Mapping[str, Any], conditions: Mapping[Any, Any]) -> str | None:
    scheduled = _map(conditions.get("PodScheduled"))
    if scheduled.get("status") == "False":
        return _joined(scheduled.get("reason"), scheduled.get("message"))
    for container in [*_list(status.get("initContainerStatuses")), *_list(status.get("containerStatuses"))]:
        waiting = _map(_map(container.get("state")).get("waiting"))
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            ended = _map(_map(container.get("lastState")).get("terminated"))
            return _joined(waiting.get("reason"), ended.get("message") or waiting.get("message"))
    return None


def _joined(reason: Any, message: Any) -> str:
    text = " ".join(str(message or "").split())
    return f"{reason}: {text}" if text else str(reason)


def _role(role: str, counts: Mapping[str, Any]) -> RoleView:
    return RoleView(
        role, *(counts.get(key) for key in ("ready", "desired", "starting", "draining", "updated"))
    )


def _condition(one: Mapping[str, Any]) -> Condition:
    return Condition(
        str(one.get("type", "")), str(one.get("status", "")), str(one.get("reason", "")),
        str(one.get("message", "")), epoch_seconds(one.get("lastTransitionTime")),
    )  # fmt: skip


def _decision(one: Mapping[str, Any]) -> Decision:
    return Decision(
        str(one.get("role", "")), int(one.get("from", 0)), int(one.get("to", 0)), str(one.get("reason", "")),
        str(one.get("message", "")), epoch_seconds(one.get("at")), _map(one.get("numbers")),
    )  # fmt: skip


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def age(since_seconds: float | None, now_seconds: float) -> str:
    """As kubectl writes ages; `-` for an unknown one, and never a negative one."""
    if since_seconds is None:
        return "-"
    seconds = max(0, int(now_seconds - since_seconds))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length or (unit == "d" and seconds >= length):
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
