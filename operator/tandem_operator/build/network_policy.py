"""Who may reach the workers, where the cluster enforces NetworkPolicies.

| from | ports |
|---|---|
| the router of the same service | the engine |
| workers of the same service | all: NIXL's side channel, and what UCX and NCCL pick freely |
| Tandem's operator and autoscaler, in any namespace | the engine (load, metrics) |
| pods named prometheus, in any namespace | the engine (metrics) |
| with an InferencePool: pods of its gateways, in any namespace, and of its endpoint picker | the engine |

Pods of a gateway are known by the label that GEP-1762 asks its implementations for, those of a picker by the one that
the Inference Extension's chart gives them (1.3: `inferencepool`, with the name of the Service). Policies add up: for
others a user's own opens the way.

The kubelet's probes come from the node and are always let in. Everything else, a shortcut of users' pods straight to
a worker above all, is kept out: it would bypass the drain. Egress is free, because workers fetch models.
"""

from typing import Any

from tandem_api import names
from tandem_api.inference_service import Gateway
from tandem_api.kubernetes.cluster import NETWORK_POLICY, Manifest
from tandem_operator.build.group import all_ranks
from tandem_operator.build.ownership import child
from tandem_operator.build.router_deployment import router_labels

_GATEWAY_NAME = "gateway.networking.k8s.io/gateway-name"
_PICKER_NAME = "inferencepool"
_LONGEST_LABEL_VALUE = 63


def network_policy(*, namespace: str, service: str, gateway: Gateway | None, owner: Manifest) -> Manifest:
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
    past_the_router = _past_the_router(gateway)
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
                *([{"from": past_the_router, "ports": list(engine_port)}] if past_the_router else []),
            ],
        },
    )


def _past_the_router(gateway: Gateway | None) -> list[Manifest]:
    """Who sends requests, and reads metrics, past the router: nobody, unless an InferencePool is asked for."""
    if gateway is None or gateway.inference_pool is None:
        return []
    peers: list[Manifest] = [
        {"podSelector": {"matchLabels": {_PICKER_NAME: gateway.inference_pool.endpoint_picker.name}}}
    ]
    # A longer name is no label's value, so no pod can carry it.
    gateways = sorted({each.name for each in gateway.parents if len(each.name) <= _LONGEST_LABEL_VALUE})
    if gateways:
        named = {"key": _GATEWAY_NAME, "operator": "In", "values": gateways}
        peers.append({"namespaceSelector": {}, "podSelector": {"matchExpressions": [named]}})
    return peers
