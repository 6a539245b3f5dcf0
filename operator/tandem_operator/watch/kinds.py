"""The kinds that are watched, and which objects of each."""

from typing import Final

from tandem_api import names
from tandem_api.kubernetes.cluster import (
    DEPLOYMENT,
    HTTP_ROUTE,
    INFERENCE_POOL,
    INFERENCE_SERVICE,
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

# Kind -> label selector, applied by the server. Our own kinds are watched whole: a pool that lost its labels must
# be seen.
WATCHED: Final[dict[Kind, str | None]] = {
    INFERENCE_SERVICE: None,
    WORKER_POOL: None,
    POD: names.MANAGED_SELECTOR,
    DEPLOYMENT: names.MANAGED_SELECTOR,
    SERVICE: names.MANAGED_SELECTOR,
    SERVICE_ACCOUNT: names.MANAGED_SELECTOR,
    ROLE: names.MANAGED_SELECTOR,
    ROLE_BINDING: names.MANAGED_SELECTOR,
    POD_DISRUPTION_BUDGET: names.MANAGED_SELECTOR,
    NETWORK_POLICY: names.MANAGED_SELECTOR,
}

# Kinds of others that a cluster need not have. They are not watched, for a watch on a kind that is not there never
# comes to rest: our own writes and the periodic lists tell of them.
OPTIONAL: Final[dict[Kind, str | None]] = {
    HTTP_ROUTE: names.MANAGED_SELECTOR,
    INFERENCE_POOL: names.MANAGED_SELECTOR,
}
