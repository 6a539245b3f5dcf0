"""The WorkerPool of one role: the stable target of `/scale`."""

from tandem_api import names
from tandem_api.kubernetes.cluster import WORKER_POOL, Manifest


def worker_pool(*, namespace: str, service: str, role: str, replicas: int, owner: Manifest) -> Manifest:
    """Posted once, seeded with the live count. No manifest hash: its replicas are another's from then on."""
    return {
        "apiVersion": WORKER_POOL.api_version,
        "kind": WORKER_POOL.kind,
        "metadata": {
            "name": names.pool_name(service, role),
            "namespace": namespace,
            "labels": dict(
                sorted(
                    {**names.managed_labels(service, names.COMPONENT_WORKER), names.LABEL_ROLE: role}.items()
                )
            ),
            "ownerReferences": [owner],
        },
        "spec": {"service": service, "role": role, "replicas": replicas},
    }


def pool_selector(service: str, role: str) -> str:
    """Selects exactly this pool's pods; HPA refuses a scale without it."""
    return names.selector(names.worker_labels(service, role))
