"""What the operator may ask of the API server: exactly what its code does. The chart's ClusterRole and a test use it.

Secrets are not among it: whether one exists, the kubelet tells in the pod's status.
"""

import sys
from typing import Final

from tandem_api.kubernetes.cluster import (
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    HTTP_ROUTE,
    INFERENCE_POOL,
    INFERENCE_SERVICE,
    LEASE,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    WORKER_POOL,
)
from tandem_api.kubernetes.permissions import Permission, generate

_READ = ("get", "list", "watch")


# In every namespace that is served (a ClusterRole, or a Role with --namespace).
PERMISSIONS: Final[tuple[Permission, ...]] = (
    Permission.on(INFERENCE_SERVICE, "list", "watch"),
    Permission.on(INFERENCE_SERVICE, "patch", subresource="status"),
    # Owner references with blockOwnerDeletion false need no right on finalizers; OpenShift's admission asks for it
    # whenever a controller reference is set.
    Permission.on(INFERENCE_SERVICE, "update", subresource="finalizers"),
    Permission.on(WORKER_POOL, *_READ, "create", "patch", "delete"),
    Permission.on(WORKER_POOL, "patch", subresource="status"),
    Permission.on(POD, *_READ, "create", "patch", "delete"),
    Permission.on(DEPLOYMENT, *_READ, "create", "patch"),
    Permission.on(SERVICE, *_READ, "create", "patch", "delete"),
    Permission.on(SERVICE_ACCOUNT, *_READ, "create", "patch"),
    # Giving the router's Role its rights needs them oneself: reading pods, which the operator does anyway.
    Permission.on(ROLE, *_READ, "create", "patch"),
    Permission.on(ROLE_BINDING, *_READ, "create", "patch", "delete"),
    Permission.on(POD_DISRUPTION_BUDGET, *_READ, "create", "patch", "delete"),
    Permission.on(NETWORK_POLICY, *_READ, "create", "patch"),
    # Whether several nodes may mount the model's volume.
    Permission.on(PERSISTENT_VOLUME_CLAIM, "get"),
    # Where the cluster has the Gateway API and its Inference Extension; not watched.
    Permission.on(HTTP_ROUTE, "get", "list", "create", "patch", "delete"),
    Permission.on(INFERENCE_POOL, "get", "list", "create", "patch", "delete"),
    # Whether the endpoint picker of an InferencePool answers.
    Permission.on(ENDPOINT_SLICE, "list"),
    Permission.on(EVENT, "create"),
)

# In the operator's own namespace.
LEASE_PERMISSIONS: Final[tuple[Permission, ...]] = (Permission.on(LEASE, "get", "create", "patch"),)

if __name__ == "__main__":
    sys.exit(generate(PERMISSIONS, "tandem_operator.permissions"))
