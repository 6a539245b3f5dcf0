"""`Cluster`: all that Tandem asks of an API server, in plain dictionaries.

Typed models are not used for Kubernetes' own objects: they drop fields that they do not know.

    ApiError                the API server said no
    ├── Conflict            409: it exists already, or it changed under us; look again
    ├── Missing             404 on a write
    ├── Rejected            400, 403, 422: our request is wrong; retrying does not help
    ├── NamespaceEnding     403: the namespace is being deleted; nothing can be made in it any more
    └── Unavailable         429, 5xx, no connection: try again, `after_seconds` if the server said so
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from tandem_api import names

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of object and where it lives."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True


POD: Final = Kind("v1", "Pod", "pods")
SERVICE: Final = Kind("v1", "Service", "services")
SERVICE_ACCOUNT: Final = Kind("v1", "ServiceAccount", "serviceaccounts")
SECRET: Final = Kind("v1", "Secret", "secrets")
EVENT: Final = Kind("events.k8s.io/v1", "Event", "events")
NODE: Final = Kind("v1", "Node", "nodes", namespaced=False)
DEPLOYMENT: Final = Kind("apps/v1", "Deployment", "deployments")
ROLE: Final = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING: Final = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
PERSISTENT_VOLUME_CLAIM: Final = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
POD_DISRUPTION_BUDGET: Final = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY: Final = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
ENDPOINT_SLICE: Final = Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
HTTP_ROUTE: Final = Kind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes")
INFERENCE_POOL: Final = Kind("inference.networking.k8s.io/v1", "InferencePool", "inferencepools")
LEASE: Final = Kind("coordination.k8s.io/v1", "Lease", "leases")
INFERENCE_SERVICE: Final = Kind(names.API_VERSION, names.INFERENCE_SERVICE, names.INFERENCE_SERVICES)
WORKER_POOL: Final = Kind(names.API_VERSION, names.WORKER_POOL, names.WORKER_POOLS)


class ApiError(Exception):
    """The API server said no. `str()` is its own sentence."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Conflict(ApiError):
    """409: it exists already, or it changed under us."""


class Missing(ApiError):
    """404 on a write."""


class Rejected(ApiError):
    """400, 403, 422: the request itself is wrong."""


class NamespaceEnding(ApiError):
    """403: the namespace is being deleted, and nothing can be made in it any more."""


class Unavailable(ApiError):
    """429, 5xx or no connection. `after_seconds` is the server's wish, or None."""

    def __init__(
        self, message: str, *, status: int | None = None, after_seconds: float | None = None
    ) -> None:
        super().__init__(message, status=status)
        self.after_seconds = after_seconds


class Cluster(Protocol):
    """Reads and writes of single objects. Every method raises an ApiError, and nothing else, on a refusal."""

    async def list(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> list[Manifest]:
        """All objects of the kind, over all pages; `selector` is a label selector, applied by the server."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Manifest | None:
        """The object, or None when there is none."""

    async def create(self, kind: Kind, manifest: Manifest, *, manager: str) -> Manifest:
        """POST. Raises Conflict when the name is taken."""

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Literal["status"] | None = None
    ) -> Manifest:
        """Server-side apply under one field manager, taking over fields that others hold."""

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        merge: Manifest,
        *,
        manager: str,
        subresource: Literal["status", "scale"] | None = None,
    ) -> Manifest:
        """JSON merge patch (None removes a key). A `metadata.resourceVersion` or `uid` in it is a precondition."""

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete exactly the object with this uid; quiet when it is gone, Conflict when another took its name.

        `resource_version`: and only as it was looked at; Conflict when it has changed since.
        """
