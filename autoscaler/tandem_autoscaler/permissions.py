"""Every (group, resource, verb) that the autoscaler calls, as data. The chart's roles are compared with it."""

from typing import Final, NamedTuple

from tandem_api import names


class Permission(NamedTuple):
    """One call. A subresource is its own resource to RBAC: `workerpools/scale`."""

    group: str
    resource: str
    verb: str


# In the namespaces whose services are scaled.
WATCHED: Final = frozenset(
    {
        Permission(names.GROUP, names.INFERENCE_SERVICES, "list"),
        Permission(names.GROUP, names.WORKER_POOLS, "list"),
        Permission("", "pods", "list"),
        Permission(names.GROUP, f"{names.WORKER_POOLS}/scale", "patch"),
        Permission(names.GROUP, f"{names.INFERENCE_SERVICES}/status", "patch"),
        Permission("events.k8s.io", "events", "create"),
    }
)

# In the autoscaler's own namespace.
OWN: Final = frozenset(
    {
        Permission("coordination.k8s.io", "leases", "get"),
        Permission("coordination.k8s.io", "leases", "create"),
        Permission("coordination.k8s.io", "leases", "patch"),
    }
)
