"""Who may reach the workers, where the cluster enforces NetworkPolicies.

| from | ports |
|---|---|
| the router of the same service | the engine |
| workers of the same service | all: NIXL's side channel, and what UCX and NCCL pick freely |
| Tandem's operator and autoscaler, in any namespace | the engine (load, metrics) |
| pods named prometheus, in any namespace | the engine (metrics) |

The kubelet's probes come from the node and are always let in. Everything else, a shortcut of users' pods straight to
a worker above all, is kept out: it would bypass the drain. Egress is free, because workers fetch models.
"""

from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import NETWORK_POLICY, Manifest
from tandem_operator.build.group import all_ranks
from tandem_operator.build.ownership import child
from tandem_operator.build.router_deployment import router_labels


def network_policy(*, namespace: str, service: str, owner: Manifest) -> Manifest:
    """The policy `<service>-workers`, for all roles."""
    labels = {names.LABEL_SERVICE: service}
    engine_port = [{"port": names.ENGINE_PORT, "protocol": "TCP"}]
    # The control plane carries part-of and no service; workers and routers carry both.
    control_plane: dict[str, Any] = {
        "namespaceSelector": {},
        "podSelector": {
            "matchLabels": {names.LABEL_PART_OF: "tandem"},
            "matchExpressions": [{"key": names.LABEL_SERVICE, "operator": "DoesNotExist"}],
        },
    }
    prometheus = {"namespaceSelector": {}, "podSelector": {"matchLabels": {names.LABEL_NAME: "prometheus"}}}
    return child(
        NETWORK_POLICY,
        namespace=namespace,
        service=service,
        name=f"{service}-workers",
        component=names.COMPONENT_WORKER,
        owner=owner,
        spec={
            "podSelector": all_ranks(labels),
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"podSelector": {"matchLabels": dict(sorted(router_labels(service).items()))}}],
                    "ports": engine_port,
                },
                {"from": [{"podSelector": all_ranks(labels)}]},
                {"from": [control_plane, prometheus], "ports": list(engine_port)},
            ],
        },
    )
