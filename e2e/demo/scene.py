"""What the API server says of one InferenceService, read once a moment."""

from dataclasses import dataclass, field
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD, WORKER_POOL, Cluster


@dataclass(frozen=True)
class RoleScene:
    """One role: what was asked for, what is there."""

    desired: int
    ready: int
    starting: int
    draining: int


@dataclass(frozen=True)
class Scene:
    """One look. `decisions` are sentences, newest first."""

    ready: str
    reason: str
    message: str
    url: str | None
    roles: dict[str, RoleScene]
    ttft: dict[str, str]
    tpot: dict[str, str]
    decisions: list[str]
    conditions: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    def settled(self, role: str, *, exactly: int) -> bool:
        """The role has exactly that many ready workers, and none is starting or draining."""
        there = self.roles.get(role)
        if there is None or there.starting or there.draining or there.ready != there.desired:
            return False
        return there.ready == exactly


async def look(cluster: Cluster, namespace: str, name: str) -> Scene | None:
    """The service as it stands, or None when it does not exist."""
    service = await cluster.get(INFERENCE_SERVICE, namespace, name)
    if service is None:
        return None
    status: dict[str, Any] = service.get("status", {})
    conditions = {
        condition["type"]: (condition["status"], condition["reason"], condition.get("message", ""))
        for condition in status.get("conditions", [])
    }
    ready, reason, message = conditions.get("Ready", ("Unknown", "NotObserved", ""))
    selector = names.selector({names.LABEL_SERVICE: name})
    pools = {
        pool["spec"]["role"]: pool["spec"]["replicas"]
        for pool in await cluster.list(WORKER_POOL, namespace=namespace, selector=selector)
    }
    roles = {
        role: RoleScene(
            desired=pools.get(role, counts["desired"]),
            ready=counts["ready"],
            starting=counts["starting"],
            draining=counts["draining"],
        )
        for role, counts in status.get("roles", {}).items()
    }
    slo = status.get("slo", {})
    scaling = status.get("autoscaling", {})
    decisions = [f"{entry['at'][11:19]}  {entry['message']}" for entry in scaling.get("history", [])]
    decisions += [f"now       {entry['message']}" for entry in scaling.get("roles", {}).values()]
    return Scene(
        ready=ready,
        reason=reason,
        message=message,
        url=status.get("url"),
        roles=roles,
        ttft=slo.get("ttft", {}),
        tpot=slo.get("tpot", {}),
        decisions=decisions,
        conditions=conditions,
    )


async def worker_pods(cluster: Cluster, namespace: str, name: str, role: str) -> list[dict[str, Any]]:
    """The serving worker pods of one role; not those that drain or end, which may be gone in a moment."""
    labels = {**names.worker_labels(name, role), names.LABEL_SERVING: "true"}
    found = await cluster.list(POD, namespace=namespace, selector=names.selector(labels))
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
