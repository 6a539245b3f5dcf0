"""Status, by server-side apply of our own fields, and only when one of them changed."""

from collections.abc import Mapping
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, WORKER_POOL, Cluster, Kind, Manifest
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.conditions import OWN_CONDITIONS

_OWN_FIELDS = ("observedGeneration", "url", "summary", "roles", "router", "gpus")
_OWN_TYPES = frozenset(str(condition) for condition in OWN_CONDITIONS)


def own_part(status: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a status that is ours, in one shape whatever the order of the conditions."""
    part: dict[str, Any] = {field: status[field] for field in _OWN_FIELDS if status.get(field) is not None}
    part["conditions"] = sorted(
        (condition for condition in status.get("conditions") or [] if condition.get("type") in _OWN_TYPES),
        key=lambda condition: str(condition["type"]),
    )
    return part


async def write_service_status(
    cluster: Cluster, observed: Observed, status: Mapping[str, Any]
) -> Manifest | None:
    """The object as written, or None when there was nothing to write."""
    if own_part(observed.status) == own_part(status):
        return None
    return await _apply(cluster, INFERENCE_SERVICE, observed.namespace, observed.name, observed.uid, status)


async def write_pool_status(cluster: Cluster, pool: Manifest, status: Mapping[str, Any]) -> Manifest | None:
    """Likewise for a WorkerPool, whose status is ours alone."""
    if pool.get("status") == dict(status):
        return None
    metadata = pool["metadata"]
    return await _apply(
        cluster, WORKER_POOL, metadata["namespace"], metadata["name"], metadata["uid"], status
    )


async def _apply(
    cluster: Cluster, kind: Kind, namespace: str, name: str, uid: str, status: Mapping[str, Any]
) -> Manifest:
    manifest = {
        # The uid is a precondition: a successor of the same name has a status of its own.
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "status": dict(status),
    }
    return await cluster.apply(kind, manifest, manager=names.FIELD_MANAGER_OPERATOR, subresource="status")
