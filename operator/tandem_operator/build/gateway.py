"""The HTTPRoute of the Gateway API by which users outside the cluster reach the router, where the spec asks for one.

Only `/v1` is led in: the router's own port takes `/add_worker` and `/remove_worker` too. Timeouts are off ("0s"),
because a gateway's usual fifteen seconds would cut every long stream; the router and the drain deadline have their own.
Fields as of gateway.networking.k8s.io/v1 (Gateway API 1.1 and newer; `timeouts` is GEP-1742).

No InferencePool is made: it needs an endpoint picker (`endpointPickerRef` is required), which would choose workers past
the router, and so past the drain.
"""

from tandem_api.inference_service import Gateway
from tandem_api.kubernetes.cluster import HTTP_ROUTE, Manifest
from tandem_api.names import COMPONENT_ROUTER
from tandem_operator.build.ownership import child


def http_route(*, namespace: str, service: str, backend: str, gateway: Gateway, owner: Manifest) -> Manifest:
    """The HTTPRoute of the service's own name. `backend` is the router's Service."""
    spec: Manifest = {
        "parentRefs": [parent.to_wire() for parent in gateway.parents],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                "backendRefs": [{"name": backend, "port": 80}],
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
