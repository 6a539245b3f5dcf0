"""The HTTPRoute of the Gateway API by which users outside the cluster come in, where the spec asks for one.

Only `/v1` is led in: the router's own port takes `/add_worker` and `/remove_worker` too. Timeouts are off ("0s"),
because a gateway's usual fifteen seconds would cut every long stream; the router and the drain deadline have their own.
Fields as of gateway.networking.k8s.io/v1 (Gateway API 1.1 and newer; `timeouts` is GEP-1742).

It leads to the router, or to the service's InferencePool (`build/inference_pool.py`); when to which, `plan/gateway.py`
says.
"""

from tandem_api.inference_service import Gateway
from tandem_api.kubernetes.cluster import HTTP_ROUTE, INFERENCE_POOL, Manifest
from tandem_api.names import COMPONENT_ROUTER
from tandem_operator.build.ownership import child


def to_router(service: str) -> Manifest:
    """A route's backend: the router's Service of this name."""
    return {"name": service, "port": 80}


def to_pool(pool: str) -> Manifest:
    """A route's backend: the InferencePool of this name, whose ports are its own matter."""
    group = INFERENCE_POOL.api_version.rpartition("/")[0]
    return {"group": group, "kind": INFERENCE_POOL.kind, "name": pool}


def http_route(
    *, namespace: str, service: str, backend: Manifest, gateway: Gateway, owner: Manifest
) -> Manifest:
    """The HTTPRoute of the service's own name. `backend`: `to_router` or `to_pool`."""
    spec: Manifest = {
        "parentRefs": [parent.to_wire() for parent in gateway.parents],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                "backendRefs": [backend],
                "timeouts": {"request": "0s", "backendRequest": "0s"},
            }
        ],
    }
    if gateway.hostnames:
        spec["hostnames"] = list(gateway.hostnames)
    return child(
        HTTP_ROUTE,
        namespace=namespace,
        service=service,
        name=service,
        component=COMPONENT_ROUTER,
        owner=owner,
        spec=spec,
    )


def leads_to_pool(route: Manifest) -> bool:
    """Does this HTTPRoute, as it lives, lead to an InferencePool?"""
    rules = (route.get("spec") or {}).get("rules") or []
    backends = [backend for rule in rules for backend in rule.get("backendRefs") or []]
    return any(backend.get("kind") == INFERENCE_POOL.kind for backend in backends)
