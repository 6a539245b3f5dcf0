"""Manifests -> `Service` values. Pure; a manifest that cannot be understood is reported, never fatal."""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from tandem_api import names
from tandem_api.durations import parse_seconds
from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.kubernetes.cluster import Manifest
from tandem_api.sizing.spec import worker_specs
from tandem_autoscaler.fleet.chunks import chunking_of
from tandem_autoscaler.fleet.group import gather
from tandem_autoscaler.fleet.service import Pod, Pool, Service, Targets
from tandem_autoscaler.model.mixed_step import Chunking

_log = logging.getLogger(__name__)

# Waiting reasons of a container that more patience does not cure by itself.
_STUCK_WAITING = frozenset(
    {
        "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CrashLoopBackOff", "CreateContainerConfigError",
        "CreateContainerError",
    }
)  # fmt: skip


def epoch_seconds(timestamp: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 timestamp; None for none or a broken one."""
    if not timestamp:
        return None
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None


def observe(
    services: Iterable[Manifest], pools: Iterable[Manifest], pods: Iterable[Manifest]
) -> tuple[list[Service], dict[tuple[str, str], str]]:
    """All services with their pools and pods, and for those that cannot be understood a sentence each.

    A pool that does not exist yet is absent from `Service.pools`: there is nothing to scale.
    """
    replicas: dict[tuple[str, str, str], int] = {}
    for pool in pools:
        spec = pool.get("spec") or {}
        namespace = pool["metadata"].get("namespace", "")
        service, role = spec.get("service", ""), spec.get("role", "")
        # Another pool that names the same service and role is not the one that is written.
        if pool["metadata"].get("name") == names.pool_name(service, role):
            replicas[(namespace, service, role)] = int(spec.get("replicas", 0))
    by_service: dict[tuple[str, str], list[Pod]] = {}
    for manifest in pods:
        labels = manifest["metadata"].get("labels") or {}
        key = (manifest["metadata"].get("namespace", ""), labels.get(names.LABEL_SERVICE, ""))
        pod = observe_pod(manifest)
        if pod is not None:
            by_service.setdefault(key, []).append(pod)
    found: list[Service] = []
    broken: dict[tuple[str, str], str] = {}
    for manifest in services:
        key = (manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        if manifest["metadata"].get("deletionTimestamp"):
            continue
        try:
            found.append(_service(manifest, replicas, gather(by_service.get(key, []))))
        except (ValidationError, ValueError) as error:
            broken[key] = f"its spec cannot be understood: {_one_line(error)}"
    return found, broken


def observe_pod(manifest: Manifest) -> Pod | None:
    """A pod as a value; None for one that has ended for good (it is neither capacity nor a GPU)."""
    metadata = manifest["metadata"]
    status = manifest.get("status") or {}
    labels = metadata.get("labels") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    conditions = {item.get("type"): item for item in status.get("conditions") or []}
    ready = conditions.get("Ready", {})
    is_ready = ready.get("status") == "True"
    component = labels.get(names.LABEL_COMPONENT)
    without_role = (names.COMPONENT_ROUTER, names.COMPONENT_FOLLOWER)
    role = component if component in without_role else labels.get(names.LABEL_ROLE, "")
    # A worker without the serving label has left the router; a pod that never had it has not joined yet,
    # which only matters once it is ready.
    left = component == names.COMPONENT_WORKER and labels.get(names.LABEL_SERVING) != "true" and is_ready
    annotations = metadata.get("annotations") or {}
    draining = (
        bool(metadata.get("deletionTimestamp")) or names.ANNOTATION_DRAIN_STARTED in annotations or left
    )
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", metadata["name"]),
        ip=status.get("podIP"),
        role=role,
        ready=is_ready and not draining,
        created_at_seconds=epoch_seconds(metadata.get("creationTimestamp")) or 0.0,
        ready_since_seconds=epoch_seconds(ready.get("lastTransitionTime")) if is_ready else None,
        template=labels.get(names.LABEL_TEMPLATE_HASH, ""),
        draining=draining,
        stuck=not is_ready and _is_stuck(status, conditions),
        group=labels.get(names.LABEL_GROUP, ""),
    )


def _is_stuck(status: dict[str, Any], conditions: dict[Any, Any]) -> bool:
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return True
    containers = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    waiting = ((item.get("state") or {}).get("waiting") or {} for item in containers)
    return any(item.get("reason") in _STUCK_WAITING for item in waiting)


def _service(manifest: Manifest, replicas: dict[tuple[str, str, str], int], pods: list[Pod]) -> Service:
    metadata = manifest["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    spec = InferenceServiceSpec.model_validate(manifest.get("spec") or {})
    targets = None
    if spec.slo is not None:
        targets = Targets(spec.slo.ttft_seconds, spec.slo.tpot_seconds, spec.slo.percentile / 100)
        if targets.ttft_seconds <= 0 or targets.tpot_seconds <= 0:
            raise ValueError("slo.ttft and slo.tpot must be above zero")
    pools = {}
    for role, wish in spec.roles.items():
        current = replicas.get((namespace, name, role))
        if current is not None:
            override = wish.engine.max_sequences if wish.engine else None
            pools[role] = Pool(
                role=role, replicas=current, minimum=wish.min_replicas, maximum=wish.max_replicas,
                gpus=wish.total_gpus,
                max_sequences=override if override is not None else spec.engine.max_sequences,
                chunking=_chunking(spec, role),
            )  # fmt: skip
    scaling = spec.autoscaling
    return Service(
        namespace=namespace,
        name=name,
        uid=metadata.get("uid", ""),
        generation=int(metadata.get("generation", 1)),
        mode=scaling.mode,
        paused=is_paused(metadata),
        disaggregated=spec.mode == "Disaggregated",
        targets=targets,
        pools=pools,
        pods=tuple(sorted((p for p in pods if p.role in names.ROLES), key=lambda p: p.name)),
        routers=tuple(sorted((p for p in pods if p.role == names.COMPONENT_ROUTER), key=lambda p: p.name)),
        gpu_budget=spec.gpu_budget,
        priority=scaling.priority,
        headroom=None if scaling.headroom_percent is None else scaling.headroom_percent / 100,
        demand_quantile=scaling.demand_percentile / 100,
        confirm_seconds=parse_seconds(scaling.scale_down.confirm),
        cold_start_seconds=parse_seconds(scaling.cold_start) if scaling.cold_start else None,
        router_policy=spec.router.policy,
        past_the_router=spec.inference_pool is not None,
        first_token_at_decode=spec.mode == "Disaggregated" and spec.engine.type == "sglang",
        late_demotion=spec.engine.late_demotion,
        flips=_interchangeable(pods),
        status=manifest.get("status") or {},
    )


def _chunking(spec: InferenceServiceSpec, role: str) -> Chunking | None:
    """None where prompts and answers are not in the same steps: apart, and with SGLang, whose prompts interrupt."""
    if spec.mode == "Disaggregated" or spec.engine.type != "vllm":
        return None
    return chunking_of(spec, worker_specs(spec)[role])


def _interchangeable(pods: list[Pod]) -> bool:
    """Has every prefill and decode worker the same template? Not while a rollout is under way."""
    templates = {
        role: {pod.template for pod in pods if pod.role == role} for role in (names.PREFILL, names.DECODE)
    }
    return len(templates[names.PREFILL]) == 1 and templates[names.PREFILL] == templates[names.DECODE] != {""}


def is_paused(metadata: Manifest) -> bool:
    """Does the annotation of an InferenceService with this metadata ask for no decisions? `"false"` does not."""
    paused = (metadata.get("annotations") or {}).get(names.ANNOTATION_PAUSED)
    return paused is not None and str(paused).lower() != "false"


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()
        )
    return str(error)
