"""Whether anybody answers behind an endpoint picker's Service, from the EndpointSlices that Kubernetes keeps of it.

The Inference Extension's picker is Ready once it has found its InferencePool (`PoolHasSynced`, 1.3).
"""

from collections.abc import Iterable

from tandem_api.kubernetes.cluster import Manifest


def slices_of(service: str) -> str:
    """The label selector of a Service's EndpointSlices."""
    return f"kubernetes.io/service-name={service}"


def has_ready_endpoint(slices: Iterable[Manifest]) -> bool:
    """discovery.k8s.io/v1: a `ready` that is not said means true."""
    return any(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for slice_ in slices
        for endpoint in slice_.get("endpoints") or []
    )
