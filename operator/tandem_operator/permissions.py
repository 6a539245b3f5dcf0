"""What the operator may ask of the API server: exactly what its code does. The chart's ClusterRole and a test use it.

Secrets are not among it: whether one exists, the kubelet tells in the pod's status.
"""

from dataclasses import dataclass
from typing import Final

from tandem_api.kubernetes.cluster import (
    DEPLOYMENT,
    EVENT,
    INFERENCE_SERVICE,
    LEASE,
    NETWORK_POLICY,
    POD,
    POD_DISRUPTION_BUDGET,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    WORKER_POOL,
    Kind,
)


@dataclass(frozen=True)
class Permission:
    """One RBAC rule: `resource` may name a subresource (``pods/status``)."""

    group: str
    resource: str
    verbs: tuple[str, ...]


_READ = ("get", "list", "watch")


def _on(kind: Kind, *verbs: str, subresource: str = "") -> Permission:
    group = kind.api_version.rpartition("/")[0]
    return Permission(group, kind.plural + (f"/{subresource}" if subresource else ""), verbs)


# In every namespace that is served (a ClusterRole, or a Role with --namespace).
PERMISSIONS: Final[tuple[Permission, ...]] = (
    _on(INFERENCE_SERVICE, *_READ),
    _on(INFERENCE_SERVICE, "patch", subresource="status"),
    # Owner references with blockOwnerDeletion false need no right on finalizers; OpenShift's admission asks for it
    # whenever a controller reference is set.
    _on(INFERENCE_SERVICE, "update", subresource="finalizers"),
    _on(WORKER_POOL, *_READ, "create", "patch", "delete"),
    _on(WORKER_POOL, "patch", subresource="status"),
    _on(POD, *_READ, "create", "patch", "delete"),
    _on(DEPLOYMENT, *_READ, "create", "patch"),
    _on(SERVICE, *_READ, "create", "patch", "delete"),
    _on(SERVICE_ACCOUNT, *_READ, "create", "patch"),
    # Giving the router's Role its rights needs them oneself: reading pods, which the operator does anyway.
    _on(ROLE, *_READ, "create", "patch"),
    _on(ROLE_BINDING, *_READ, "create", "patch", "delete"),
    _on(POD_DISRUPTION_BUDGET, *_READ, "create", "patch", "delete"),
    _on(NETWORK_POLICY, *_READ, "create", "patch"),
    _on(EVENT, "create"),
)

# In the operator's own namespace.
LEASE_PERMISSIONS: Final[tuple[Permission, ...]] = (_on(LEASE, "get", "create", "patch"),)
