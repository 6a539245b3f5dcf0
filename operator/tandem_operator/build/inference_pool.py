"""The InferencePool of a service's workers, for a gateway whose endpoint picker chooses among them.

The picker is the user's: that of the Gateway API Inference Extension, llm-d's, or another of their protocol. It chooses
past the router, but among the same workers: the pool's selector is the router's own, so that a worker leaves both by
the same label. What is on its way by then reaches the worker's gate, which serves it, and the drain counts it there.

Fields as of inference.networking.k8s.io/v1 (Inference Extension 1.0 and newer).
"""

from tandem_api import names
from tandem_api.inference_service import InferencePool
from tandem_api.kubernetes.cluster import INFERENCE_POOL, Manifest
from tandem_operator.build.ownership import child
from tandem_operator.build.router_deployment import serving_labels


def inference_pool(*, namespace: str, service: str, wish: InferencePool, owner: Manifest) -> Manifest:
    """The InferencePool of the service's own name: the Colocated workers at the port of their gate."""
    picker = wish.endpoint_picker
    return child(
        INFERENCE_POOL,
        namespace=namespace,
        service=service,
        name=service,
        component=names.COMPONENT_WORKER,
        owner=owner,
        spec={
            "selector": {"matchLabels": serving_labels(service, names.WORKERS)},
            "targetPorts": [{"number": names.ENGINE_PORT}],
            "endpointPickerRef": {
                "name": picker.name,
                "port": {"number": picker.port},
                "failureMode": picker.failure_mode,
            },
        },
    )
