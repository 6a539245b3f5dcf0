"""What the autoscaler asks of the API server, as data: the chart's rules are generated from it."""

import sys
from typing import Final

from tandem_api.kubernetes.cluster import EVENT, INFERENCE_SERVICE, LEASE, POD, WORKER_POOL
from tandem_api.kubernetes.permissions import Permission, generate

# In the namespaces whose services are scaled.
PERMISSIONS: Final = (
    Permission.on(INFERENCE_SERVICE, "list"),
    Permission.on(INFERENCE_SERVICE, "patch", subresource="status"),
    Permission.on(WORKER_POOL, "list"),
    Permission.on(WORKER_POOL, "patch", subresource="scale"),
    Permission.on(POD, "list"),
    Permission.on(EVENT, "create"),
)

# In the autoscaler's own namespace.
LEASE_PERMISSIONS: Final = (Permission.on(LEASE, "get", "create", "patch"),)

if __name__ == "__main__":
    sys.exit(generate(PERMISSIONS, "tandem_autoscaler.permissions"))
