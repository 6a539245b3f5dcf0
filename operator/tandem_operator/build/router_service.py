"""The Service in front of the router: the URL that users get."""

from tandem_api import names
from tandem_api.kubernetes.cluster import SERVICE, Manifest
from tandem_operator.build.ownership import child
from tandem_operator.build.router_deployment import router_labels


def router_service(*, namespace: str, service: str, name: str, owner: Manifest) -> Manifest:
    """Port 80 for requests, the metrics port for Prometheus. `name` is the service's own name where it is free."""
    return child(
        SERVICE,
        namespace=namespace,
        service=service,
        name=name,
        component=names.COMPONENT_ROUTER,
        owner=owner,
        spec={
            "type": "ClusterIP",
            "selector": dict(sorted(router_labels(service).items())),
            "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "targetPort": names.ROUTER_PORT},
                {
                    "name": "metrics",
                    "port": names.ROUTER_METRICS_PORT,
                    "protocol": "TCP",
                    "targetPort": names.ROUTER_METRICS_PORT,
                },
            ],
        },
    )


def service_url(*, namespace: str, name: str) -> str:
    return f"http://{name}.{namespace}.svc/v1"
