"""How many pods of a role an eviction (a node drain) may take: one at a time. Where a worker is several pods, the next
is taken only when the worker that lost one is whole again, or another in its place.

`minAvailable` as a number, because Kubernetes computes `maxUnavailable` and percentages only for controllers
with a scale of their own, and the workers' controller is the InferenceService.
"""

from tandem_api import names
from tandem_api.kubernetes.cluster import POD_DISRUPTION_BUDGET, Manifest
from tandem_operator.build.group import all_ranks
from tandem_operator.build.ownership import child


def disruption_budget(
    *, namespace: str, service: str, role: str, replicas: int, nodes: int, owner: Manifest
) -> Manifest:
    """`replicas` workers of `nodes` pods each."""
    selector: Manifest = {"matchLabels": dict(sorted(names.worker_labels(service, role).items()))}
    if nodes > 1:
        selector = all_ranks({names.LABEL_ROLE: role, names.LABEL_SERVICE: service})
    return child(
        POD_DISRUPTION_BUDGET,
        namespace=namespace,
        service=service,
        name=names.pool_name(service, role),
        component=names.COMPONENT_WORKER,
        owner=owner,
        spec={
            "minAvailable": max(0, replicas * nodes - 1),
            "selector": selector,
            # A worker that never became ready holds nothing worth protecting.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    )
