"""A pool's target, through its scale subresource: the same door that an HPA or `kubectl scale` uses."""

from tandem_api import names
from tandem_api.kubernetes.cluster import WORKER_POOL, Cluster
from tandem_autoscaler.decide.decision import Decision
from tandem_autoscaler.fleet.service import Service


async def write_scale(cluster: Cluster, service: Service, decision: Decision) -> None:
    """Set the pool's replicas. Raises ApiError; the next tick decides anew and tries again."""
    await cluster.patch(
        WORKER_POOL,
        service.namespace,
        names.pool_name(service.name, decision.role),
        {"spec": {"replicas": decision.target}},
        manager=names.FIELD_MANAGER_AUTOSCALER,
        subresource="scale",
    )
