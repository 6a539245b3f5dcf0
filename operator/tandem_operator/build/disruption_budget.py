"""How many workers of a role an eviction (a node drain) may take: one at a time.

`minAvailable` as a number, because Kubernetes computes `maxUnavailable` and percentages only for controllers
with a scale of their own, and the workers' controller is the InferenceService.
"""

from tandem_api import names
from tandem_api.kubernetes.cluster import POD_DISRUPTION_BUDGET, Manifest
from tandem_operator.build.ownership import child


def disruption_budget(*, namespace: str, service: str, role: str, replicas: int, owner: Manifest) -> Manifest:
    return child(
        POD_DISRUPTION_BUDGET,
        namespace=namespace,
        service=service,
        name=names.pool_name(service, role),
        component=names.COMPONENT_WORKER,
        owner=owner,
        spec={
            "minAvailable": max(0, replicas - 1),
            "selector": {"matchLabels": dict(sorted(names.worker_labels(service, role).items()))},
            # A worker that never became ready holds nothing worth protecting.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    )
